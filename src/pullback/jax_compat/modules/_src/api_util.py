"""`jax._src.api_util`: what `jax.api_util` has, and the private names beside it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable
from typing import Any

from ....api_util import *  # noqa: F403
from ....api_util import (
    argnums_partial as argnums_partial,
    debug_info as debug_info,
    donation_vector as donation_vector,
    flatten_axes as flatten_axes,
    flatten_fun as flatten_fun,
    flatten_fun_nokwargs as flatten_fun_nokwargs,
    rebase_donate_argnums as rebase_donate_argnums,
)


def _ensure_index(x: Any) -> int | tuple[int, ...]:
    """An index, or several."""
    return operator.index(x) if hasattr(x, "__index__") else tuple(map(operator.index, x))


def _ensure_index_tuple(x: Any) -> tuple[int, ...]:
    """Several indices, or one in a tuple."""
    found = _ensure_index(x)
    return (found,) if isinstance(found, int) else found


_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


def resolve_argnums(
    fun: Any,
    signature: inspect.Signature | None,
    donate_argnums: Any,
    donate_argnames: Any,
    static_argnums: Any,
    static_argnames: Any,
) -> tuple[Any, ...]:
    """(donated positions and names, static positions and names) of a function's arguments, those
    completed that the signature tells."""
    if signature is None:
        given = (donate_argnums, donate_argnames, static_argnums, static_argnames)
        return tuple(
            [() if x is None else (x,) if isinstance(x, (int, str)) else tuple(x) for x in given]
        )
    donated = infer_argnums_and_argnames(signature, donate_argnums, donate_argnames)
    return (*donated, *infer_argnums_and_argnames(signature, static_argnums, static_argnames))


def infer_argnums_and_argnames(
    sig: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same parameters: what only one of them says, the other gets from
    the signature. Given both, they stay as they are.
    """
    nums = (argnums,) if isinstance(argnums, int) else argnums
    names = (argnames,) if isinstance(argnames, str) else argnames
    parameters = list(sig.parameters.values())
    if nums is None and names is None:
        return (), ()
    if nums is None:
        wanted = tuple(names or ())
        found = [k for k, p in enumerate(parameters) if p.kind is _EITHER and p.name in wanted]
        return tuple(found), wanted
    places = tuple(nums)
    if names is not None:
        return places, tuple(names)
    return places, tuple(
        [p.name for k, p in enumerate(parameters) if p.kind is _EITHER and k in places]
    )
