"""`jax._src.api_util`: what `jax.api_util` has, and the private names beside it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

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

_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


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
