"""`jax._src.scipy.optimize.line_search`: a step along a line by the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...... import numpy as jnp
from ......api.derivatives import value_and_grad
from ......scipy.optimize import _wolfe_search


class _LineSearchResults(NamedTuple):
    failed: Any
    nit: Any
    nfev: Any
    ngev: Any
    k: Any
    a_k: Any
    f_k: Any
    g_k: Any
    status: Any


def line_search(
    f: Callable[[Any], Any],
    xk: Any,
    pk: Any,
    old_fval: Any = None,
    old_old_fval: Any = None,
    gfk: Any = None,
    c1: float = 1e-4,
    c2: float = 0.9,
    maxiter: int = 20,
) -> _LineSearchResults:
    """How far to go from `xk` in the direction `pk`, in at most `maxiter` steps. Values that are
    known need not be computed again.
    """
    xk, pk = jnp.asarray(xk), jnp.asarray(pk)
    evaluate = value_and_grad(f)
    known = old_fval is not None and gfk is not None
    f0, g0 = (jnp.asarray(old_fval), jnp.asarray(gfk)) if known else evaluate(xk)
    first = jnp.ones_like(f0)
    if old_old_fval is not None:
        slope = jnp.dot(g0, pk)
        guess = 1.01 * 2 * (f0 - old_old_fval) / jnp.where(slope == 0, -1, slope)
        first = jnp.where((guess > 0) & (guess <= 1), guess, first)
    found = _wolfe_search(evaluate, xk, pk, f0, g0, first, maxiter, c1, c2)
    failed = ~found.done
    calls = found.k + (0 if known else 1)
    return _LineSearchResults(
        failed, found.k, calls, calls, calls, jnp.where(failed, found.low, found.step),
        jnp.where(failed, found.f_low, found.f), found.g, jnp.where(failed, 3, 0),
    )  # fmt: skip
