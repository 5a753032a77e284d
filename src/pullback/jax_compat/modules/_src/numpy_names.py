"""Names of `jax._src.numpy.util` and `jax._src.numpy.reductions` that libraries use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....dtypes import is_extended
from ....numpy import (
    broadcast_arrays as _broadcast_arrays,
    broadcast_to as _broadcast_to,
    moveaxis as _moveaxis,
    ndim as ndim,
    shape as shape,
    size as size,
    where as _where,
)
from ....numpy.util import (
    canonical_axes,
    check_arraylike,
    dtype_of,
    is_arraylike as _arraylike,
    promote_args,
    promote_dtypes_complex,
)
from ....primitives.common import FLOAT0, as_array
from .util import canonicalize_axis_tuple as canonicalize_axis_tuple

__all__ = [
    "_arraylike",
    "_broadcast_arrays",
    "_broadcast_to",
    "_moveaxis",
    "_reduction_dims",
    "_where",
]


def ensure_arraylike(fun_name: str, /, *args: Any) -> Any:
    """The argument as an array, or the tuple of several. TypeError for what is none."""
    arrays = ensure_arraylike_tuple(fun_name, args)
    return arrays[0] if len(arrays) == 1 else arrays


def ensure_arraylike_tuple(fun_name: str, tup: Sequence[Any]) -> tuple[Any, ...]:
    """Every one as an array. TypeError for what is none."""
    check_arraylike(fun_name, *tup)
    return tuple(map(as_array, tup))


def check_arraylike_or_none(fun_name: str, *args: Any) -> None:
    """TypeError unless every argument is an array, a number or None."""
    check_arraylike(fun_name, *args, none_ok=True)


def check_no_float0s(fun_name: str, *args: Any) -> None:
    """TypeError if an argument is a tangent of integers."""
    if any(dtype_of(x) == FLOAT0 for x in args):
        raise TypeError(
            f"Called {fun_name} with a float0 array. float0s do not support any operations by "
            "design, because they are not compatible with non-trivial vector spaces. Fix: "
            "jnp.zeros(x.shape, float) where a gradient of zeros is wanted."
        )


def check_for_prngkeys(fun_name: str, *args: Any) -> None:
    """TypeError if an argument is an array of keys."""
    if any(_arraylike(x) and is_extended(dtype_of(x)) for x in args):
        raise TypeError(
            f"{fun_name} does not accept dtype key<fry> at position 0. Fix: "
            "jax.random.key_data(key) gives its numbers."
        )


def promote_args_complex(fun_name: str, *args: Any) -> list[Any]:
    """Arguments in their common dtype, made complex."""
    return promote_dtypes_complex(*promote_args(fun_name, *args))


def _reduction_dims(a: Any, axis: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to reduce, and the same axes by their positions."""
    dims = tuple(range(ndim(a))) if axis is None else canonical_axes(axis, ndim(a))
    return dims, dims
