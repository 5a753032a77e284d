"""What a function costs, counted from its program as JAX counts: what is not in the tables below
is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...api.staging import make_jaxpr
from ...core.jaxpr import Jaxpr, JaxprEqn
from .specs import CostEstimate

_ONE_FLOP = frozenset(
    "add sub mul div neg max min floor ceil round and or xor not".split()
)  # an element
_TRANSCENDENTAL = frozenset(
    "acos asin atan cos cosh exp log logistic sin sinh sqrt tan tanh".split()
)


def _eqn_cost(eqn: JaxprEqn) -> tuple[int, int]:
    """(operations, elementary functions) of an equation."""
    name = eqn.primitive.name
    if name == "jit":
        return _cost(eqn.params["jaxpr"].jaxpr)
    if name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        a = eqn.invars[0].aval.shape
        return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(a[k] for k in contracted), 0
    size = math.prod(eqn.outvars[0].aval.shape) if eqn.outvars else 0
    if name == "integer_pow":  # by squaring: a product a bit, and one more for each that is set
        y = abs(eqn.params["y"])
        return (size * (y.bit_length() - 1 + y.bit_count()) if y else 0), 0
    return (size if name in _ONE_FLOP else 0), (size if name in _TRANSCENDENTAL else 0)


def _cost(jaxpr: Jaxpr) -> tuple[int, int]:
    found = [_eqn_cost(e) for e in jaxpr.eqns]
    return sum(f for f, _ in found), sum(t for _, t in found)


def _bytes(avals: Sequence[Any]) -> int:
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """What a call of a function costs: operations, elementary functions, bytes of its arguments and
    results. Loops, branches and functions with derivative rules of their own count as free, as in
    JAX. Arguments may be ShapeDtypeStructs.

    >>> pl.estimate_cost(lambda a, b: jnp.exp(a @ b), jnp.ones((2, 3)), jnp.ones((3, 4)))
    CostEstimate(flops=48, transcendentals=8, bytes_accessed=104, remote_bytes_transferred=0)

    Raises TypeError if `fun` is not callable.
    """
    if not callable(fun):
        raise TypeError(
            f"the first argument must be callable, got {fun!r}. Fix: pass the function itself."
        )
    closed = make_jaxpr(lambda args, kwargs: fun(*args, **kwargs))(args, kwargs)
    flops, transcendentals = _cost(closed.jaxpr)
    return CostEstimate(flops, transcendentals, _bytes([*closed.in_avals, *closed.out_avals]))
