"""Names of `jax._src.numpy.vectorize`: the steps of `vectorize`, for libraries that have one of
their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .... import lax
from ....numpy import core_axes
from ....numpy.core_axes import parse_signature as _parse_gufunc_signature

__all__ = ["_parse_gufunc_signature"]


def _apply_excluded(
    func: Callable[..., Any],
    excluded: Collection[int | str],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """A function that knows the arguments at these positions and of these names; and the others."""
    if not excluded:
        return func, args, kwargs
    fixed = {k: args[k] for k in excluded if isinstance(k, int) and k < len(args)}
    named = {k: kwargs[k] for k in excluded if isinstance(k, str) and k in kwargs}

    def call(*others: Any, **more: Any) -> Any:
        rest = iter(others)
        full = [fixed[k] if k in fixed else next(rest) for k in range(len(args))]
        return func(*full, **more, **named)

    left = [x for k, x in enumerate(args) if k not in fixed]
    return call, left, {k: x for k, x in kwargs.items() if k not in named}


def _parse_input_dimensions(
    args: Sequence[Any], input_core_dims: Sequence[tuple[str, ...]], error_context: str = ""
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The shape to which the loop axes broadcast, and the size of each named axis. TypeError for
    another number of arguments, ValueError for shapes that do not fit.
    """
    if len(args) != len(input_core_dims):
        raise TypeError(
            f"wrong number of positional arguments: expected {len(input_core_dims)}, got "
            f"{len(args)} {error_context}"
        )
    loops, sizes = core_axes.sizes_of(args, input_core_dims, error_context)
    return lax.broadcast_shapes(*loops), sizes


def _check_output_dims(
    func: Callable[..., Any],
    dim_sizes: dict[str, Any],
    expected_output_core_dims: Sequence[tuple[str, ...]],
    error_context: str = "",
) -> Callable[..., Any]:
    """The function, whose results must have these named axes: of their known sizes, if any."""

    def checked(*args: Any) -> Any:
        sizes = dict(dim_sizes)  # what one call's results add to them binds no other call
        return core_axes.check_outputs(func, expected_output_core_dims, sizes, error_context)(*args)

    return checked
