"""Higher derivatives along a path: `jet`.

The path is the Taylor polynomial that the input series say; the outputs' series follow by
differentiating the function along it, forward mode on forward mode. Whatever has a forward
derivative is supported; the cost doubles with each order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, numpy as jnp, tree
from ..api.derivatives import jvp


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """(fun(*primals), its series): derivatives of the result along the path on which argument i has
    the derivatives series[i] at primals[i].

    With `factorial_scaled` the terms are derivatives; otherwise Taylor coefficients, that is,
    derivatives over factorials. A result that is a tree has a tree of series.

    >>> from pullback.experimental.jet import jet
    >>> jet(jnp.sin, (0.0,), ([1.0, 0.0, 0.0],))[1]
    [Array(1., dtype=float32), Array(-0., dtype=float32), Array(-1., dtype=float32)]

    Raises ValueError for series of different lengths, or not one for each argument.
    """
    primals, series = tuple(primals), [list(s) for s in series]
    if len(primals) != len(series):
        raise ValueError(f"jet: {len(primals)} primals and {len(series)} series, one for each")
    orders = {len(s) for s in series}
    if len(orders) != 1 or not orders - {0}:
        raise ValueError(
            f"jet: every series must have the same number of terms, at least one; got "
            f"{[len(s) for s in series]}"
        )
    (order,) = orders
    weights = [1 / math.factorial(k) if factorial_scaled else 1.0 for k in range(1, order + 1)]

    def path(t: Any) -> tuple[Any, ...]:
        out = []
        for x, terms in zip(primals, series, strict=True):
            powers = [w * t ** (k + 1) for k, w in enumerate(weights)]
            out.append(tree.map(lambda x, *cs, p=powers: _sum(x, p, cs), x, *terms))
        return tuple(out)

    def along(t: Any) -> Any:
        return fun(*path(t))

    derivatives = _derivatives(along, order)
    zero = jnp.zeros((), dtypes.default_float())
    values = derivatives(zero)
    primal, *terms = values
    if not factorial_scaled:
        terms = [
            tree.map(lambda v, k=k: v / math.factorial(k), x) for k, x in enumerate(terms, start=1)
        ]
    leaves, structure = tree.flatten(primal)
    columns = [tree.leaves(x) for x in terms]
    out = [[column[k] for column in columns] for k in range(len(leaves))]
    return primal, tree.unflatten(structure, out)


def _sum(x: Any, powers: Sequence[Any], terms: Sequence[Any]) -> Any:
    total = jnp.asarray(x)
    dtype = total.dtype
    for power, term in zip(powers, terms, strict=True):
        total = total + (power * jnp.asarray(term)).astype(dtype)
    return total


def _derivatives(f: Callable[[Any], Any], order: int) -> Callable[[Any], list[Any]]:
    """t to [f, f', ..., the derivative of that order] at t."""
    if not order:
        return lambda t: [f(t)]
    lower = _derivatives(f, order - 1)

    def with_next(t: Any) -> list[Any]:
        values, slopes = jvp(lower, (t,), (jnp.ones_like(t),))
        return [*values, slopes[-1]]

    return with_next


__all__ = ["jet"]
