"""How many operations a program does, counted from its equations: what roofline figures divide by
time."""

from __future__ import annotations

import math
from typing import Any

from ..core.jaxpr import ClosedJaxpr, Jaxpr
from ..records import record

__all__ = ["Cost", "equation_cost", "program_cost"]

# Operations that move values, and do not compute them.
MOVES = frozenset(
    """
    bitcast_convert_type broadcast_in_dim concatenate copy copy_p copy_to_host device_put
    dynamic_slice dynamic_update_slice expand_dims gather iota name optimization_barrier pad
    pbroadcast pvary random_unwrap random_wrap reshape rev scatter slice split squeeze
    stop_gradient tile transpose
""".split()
)
TRANSCENDENTAL = frozenset(
    """
    acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e betainc cbrt cos cosh digamma erf
    erf_inv erfc exp exp2 expm1 igamma igammac lgamma log log1p polygamma pow rsqrt sin sinh
    sqrt tan tanh zeta
""".split()
)
# Reductions of n elements to one: n - 1 operations.
COMBINE = frozenset("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or".split())


@record(eq=True)
class Cost:
    """Counts of elementary operations: arithmetic ones (a product and its sum are two), and
    transcendental functions."""

    flops: float = 0.0
    transcendentals: float = 0.0

    def times(self, n: float) -> Cost:
        """The cost of doing it n times."""
        return Cost(self.flops * n, self.transcendentals * n)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals)

    @property
    def total(self) -> float:
        """All of them."""
        return self.flops + self.transcendentals


def program_cost(closed: ClosedJaxpr | Jaxpr) -> Cost:
    """The cost of a program. Bodies of loops of unknown length count once, of branches the dearest
    one counts."""
    return sum(map(equation_cost, closed.eqns), Cost())


def equation_cost(eqn: Any) -> Cost:
    """The cost of an equation."""
    name, out = eqn.primitive.name, _size(eqn.outvars[0].aval) if eqn.outvars else 0
    if name in MOVES or (name == "convert_element_type" and _keeps_dtype(eqn)):
        return Cost()
    if name in TRANSCENDENTAL:
        return Cost(transcendentals=out)
    if name == "dot_general":
        (contract, _), _ = eqn.params["dimension_numbers"]
        shape = eqn.invars[0].aval.shape
        return Cost(2 * out * math.prod(shape[k] for k in contract))
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        features = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
        return Cost(2 * out * math.prod(kernel) / max(1, features))
    bodies = [program_cost(body) for body in _bodies(eqn)]
    if bodies:
        if name == "scan":
            return bodies[0].times(eqn.params["length"])
        if name == "cond":
            return max(bodies, key=lambda cost: cost.total)
        return sum(bodies, Cost())
    if name == "logistic":  # 1 / (1 + exp(-x))
        return Cost(3 * out, out)
    if name == "integer_pow":
        return Cost(out * _products(abs(eqn.params["y"])))
    if name in COMBINE:
        return Cost(_size(eqn.invars[0].aval) - out)
    if name.startswith(("reduce_", "arg", "cum")):
        return Cost(_size(eqn.invars[0].aval))
    if name.startswith("scatter"):
        return Cost(_size(eqn.invars[-1].aval))
    return Cost(out)


def _keeps_dtype(eqn: Any) -> bool:
    """Is it a conversion of the weak type only?"""
    return bool(eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype)


def _products(n: int) -> int:
    """How many products make an n-th power: squares, and one for each further bit."""
    return max(1, n.bit_length() - 1 + n.bit_count() - 1)


def _bodies(eqn: Any) -> list[Any]:
    """The programs among an equation's parameters."""
    found: list[Any] = []
    for value in eqn.params.values():
        items = value if isinstance(value, (tuple, list)) else (value,)
        found += [x for x in items if isinstance(x, (Jaxpr, ClosedJaxpr))]
    return found


def _size(aval: Any) -> int:
    return math.prod(d for d in getattr(aval, "shape", ()) if isinstance(d, int))
