"""linearize = jvp whose tangents are unknown, under partial evaluation.

The primal program runs in the enclosing trace; the tangent program is staged, and what it needs of
the primals are its residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes
from ..core.avals import typeof
from ..core.jaxpr import Jaxpr
from ..core.refs import is_ref, operations, ref_effect
from ..core.symbolic import Zero
from ..core.trace import check_leaks, current_trace, use_trace
from .jvp import JVPTrace, JVPTracer
from .partial_eval import PartialEvalTrace, without_dead


class LinearizeTrace(JVPTrace):
    """Differentiates where tangents are unknown: a tangent that is known does not depend on the
    inputs, so that it is no part of a linear function, whatever its value (a custom_jvp rule may
    give any). It counts as zero, as in JAX.
    """

    __slots__ = ()

    def pair(self, primal: Any, tangent: Any) -> Any:
        pe: Any = self.parent_trace
        return JVPTracer(self, primal, tangent) if pe.is_unknown(tangent) else primal


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    nonzeros: Sequence[bool] | None = None,
) -> tuple[list[Any], list[Any], Jaxpr, list[Any]]:
    """(primals out, tangents out, linear program, residuals) of a flat function at a point.

    `tangents out` holds Zero where a result does not depend on the inputs and None where it is the
    next result of the linear program, whose inputs are the tangents of the inputs (those marked
    non-zero). Of references it is the tangent of what they hold.
    """
    pe = PartialEvalTrace(current_trace())
    trace = LinearizeTrace(pe)
    flags = [True] * len(primals) if nonzeros is None else nonzeros
    with use_trace(trace):
        ins = []
        for x, nz in zip(primals, flags, strict=True):
            aval = typeof(x).to_tangent_aval()
            tangent = pe.new_unknown(aval) if nz else Zero(aval)
            # The tangent of an integer is an argument of the linear program that nothing reads.
            ins.append(
                trace.pair(
                    x, tangent if getattr(aval, "dtype", None) != dtypes.float0 else Zero(aval)
                )
            )
        outs = [trace.split(x) for x in fun(*ins)]
    trace.invalidate()
    ins.clear()
    check_leaks(trace)
    return finish(pe, outs)


def finish(
    pe: PartialEvalTrace, outs: Sequence[tuple[Any, Any]]
) -> tuple[list[Any], list[Any], Jaxpr, list[Any]]:
    """The same for the (primal, tangent) pairs that came of running the function."""
    primals_out = [p for p, _ in outs]
    for p in primals_out:
        if pe.is_unknown(p):
            raise TypeError(
                "internal error in pullback: a primal value depends on tangents; a custom_jvp rule "
                "must compute its primal output from its primal inputs"
            )
    tangents_out = [_value(pe, t) for _, t in outs]
    # Values that only tangents needed which no result depends on are not kept.
    jaxpr, residuals = without_dead(*pe.finish([t for t in tangents_out if type(t) is not Zero]))
    if ref_effect in jaxpr.effects:
        jaxpr, residuals = operations["discharge"](jaxpr, residuals)
    return primals_out, [t if type(t) is Zero else None for t in tangents_out], jaxpr, residuals


def _value(pe: PartialEvalTrace, tangent: Any) -> Any:
    """A tangent that is a reference is what the reference holds at the end."""
    if not is_ref(tangent):
        return tangent
    with use_trace(pe):
        return operations["get"](tangent, ...)
