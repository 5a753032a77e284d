"""Forward mode: a trace whose values are (primal, tangent) pairs, and the jvp of a jaxpr.

process(p, (x, x'), ...) = jvp rule of p, run in the parent; operands without tangents cost nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr
from ..core.refs import holds_refs, operations, writes_late
from ..core.symbolic import SymbolicZero, Zero, instantiate_zeros
from ..core.trace import (
    Trace,
    Tracer,
    check_leaks,
    current_trace,
    escaped_tracer_error,
    use_trace,
)


class JVPTracer(Tracer):
    """A primal value and its tangent.

    >>> kinds = []
    >>> _ = pb.jvp(lambda x: kinds.append(type(x).__name__) or x, (1.0,), (1.0,))
    >>> kinds
    ['JVPTracer']
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.primal, self.tangent = primal, tangent

    @property
    def aval(self) -> Any:
        return typeof(self.primal)

    def full_lower(self) -> Any:
        return (
            self.primal.full_lower()
            if type(self.tangent) is Zero and isinstance(self.primal, Tracer)
            else self
        )

    def _origin_msg(self) -> str:
        origin = getattr(self.primal, "_origin_msg", None)
        if origin:
            return origin()  # type: ignore[no-any-return]
        return (
            "The value is differentiated, and a Python number has no derivative. Fix: keep it an "
            "array, with functions of jax.numpy rather than of math or numpy; or "
            "jax.lax.stop_gradient(x) before, if there is to be none."
        )

    def _leak_msg(self) -> str:
        return self.primal._leak_msg() if isinstance(self.primal, Tracer) else ""

    def is_concrete(self) -> bool:
        return not isinstance(self.primal, Tracer) or self.primal.is_concrete()

    def to_concrete_value(self) -> Any:
        x = self.primal
        return x.to_concrete_value() if isinstance(x, Tracer) else x

    # A pair whose primal is a plain array is as concrete as that array: Python may branch on it.
    # It may not compute with it: the derivative would be lost without a word.
    def __bool__(self) -> bool:
        return bool(self.primal)

    def __int__(self) -> int:
        return int(self.primal)

    def __index__(self) -> int:
        return self.primal.__index__()  # type: ignore[no-any-return]

    def item(self, *args: Any) -> Any:
        return self.primal.item(*args)

    def __repr__(self) -> str:
        if isinstance(self.tangent, Tracer):
            short = typeof(self.tangent).str_short(short_dtypes=True)
            return f"GradTracer(primal={self.primal}, typeof(tangent)={short})"
        return f"JVPTracer(primal={self.primal}, tangent={self.tangent})"


class JVPTrace(Trace):
    """Differentiates: see the module.

    >>> traces = []
    >>> from pullback.extend import core
    >>> f = lambda x: traces.append(type(core.current_trace()).__name__) or x
    >>> _ = pb.jvp(f, (1.0,), (1.0,))
    >>> traces
    ['JVPTrace']

    `tag`: what its maker tells its tracers from others by, the trace itself if it says nothing;
    nothing here reads it.
    """

    __slots__ = ("_tag",)

    def __init__(self, parent_trace: Trace | None = None, tag: Any = None) -> None:
        super().__init__(parent_trace)
        self._tag = tag

    @property
    def tag(self) -> Any:
        return self if self._tag is None else self._tag

    def split(self, x: Any) -> tuple[Any, Any]:
        """(primal, tangent) of any value: what is not this trace's has a zero tangent."""
        if isinstance(x, JVPTracer) and x._trace is self:
            return x.primal, x.tangent
        return x, Zero.from_primal_value(x)

    def pair(self, primal: Any, tangent: Any) -> Any:
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def pair_all(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        return [self.pair(p, t) for p, t in zip(primals, tangents, strict=True)]

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        rules = primitive.rules
        if "discharge" in rules and holds_refs(primitive, params):
            with use_trace(self):
                if writes_late(params):
                    return operations["taken_apart"](primitive, tracers, params)
                return rules["discharge"](tracers, params)
        primals, tangents = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            if all(type(t) is Zero for t in tangents) and "always_jvp" not in rules:
                return primitive.bind(*primals, **params)
            out, tangent = primitive.rule("jvp")(primals, tangents, **params)
        if primitive.multiple_results:
            return self.pair_all(out, tangent)
        return self.pair(out, tangent)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        primals, tangents = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        parent: Any = self.parent_trace
        if all(type(t) is Zero for t in tangents):
            with use_trace(parent):
                return self._not_own(
                    parent.process_custom_jvp_call(
                        primitive, fun, jvp, primals, symbolic_zeros=symbolic_zeros
                    )
                )
        with use_trace(parent):
            ins = [_symbolic(t) if symbolic_zeros else instantiate_zeros(t) for t in tangents]
            outs = self._not_own(jvp(*primals, *ins))
        half = len(outs) // 2
        return self.pair_all(outs[:half], [_unsymbolic(t) for t in outs[half:]])

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        *,
        out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:
        primals, tangents = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        parent: Any = self.parent_trace
        if all(type(t) is Zero for t in tangents):
            with use_trace(parent):
                return self._not_own(
                    parent.process_custom_vjp_call(
                        primitive,
                        fun,
                        fwd,
                        bwd,
                        primals,
                        out_trees=out_trees,
                        symbolic_zeros=symbolic_zeros,
                    )
                )
        linear_call = primitive.rules["linear_call"]
        with use_trace(parent):
            outs, tangents_out = linear_call(fwd, bwd, primals, tangents, out_trees, symbolic_zeros)
        return self.pair_all(self._not_own(outs), tangents_out)

    def _not_own(self, outs: Sequence[Any]) -> Sequence[Any]:
        """What a function with a derivative of its own has given. UnexpectedTracerError if it
        closes over what is differentiated here: that derivative would be lost without a word."""
        for out in outs:
            x = out
            while isinstance(x, Tracer):  # it may be within one of a trace between
                if x._trace is self:
                    raise escaped_tracer_error(
                        x, "A function with a derivative of its own closes over it. "
                    )
                x = getattr(x, "val", None) if not isinstance(x, JVPTracer) else x.primal
        return outs


def _symbolic(t: Any) -> Any:
    return SymbolicZero(t.aval) if type(t) is Zero else t


def _unsymbolic(t: Any) -> Any:
    if type(t) is SymbolicZero:
        return Zero(t.aval)
    # A float0 array is what a rule gives for the tangent of an integer: nothing.
    return Zero(typeof(t)) if getattr(t, "dtype", None) == dtypes.float0 else t


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Primals out and tangents out of a flat function; tangents, in and out, may be Zero."""
    trace = JVPTrace(current_trace())
    with use_trace(trace):
        outs = fun(*trace.pair_all(primals, tangents))
        pairs = [trace.split(x) for x in outs]
    trace.invalidate()
    del outs
    check_leaks(trace)
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program (primals, non-zero tangents) -> (primals out, non-zero tangents out), and which
    results have tangents.

    `instantiate` asks for the tangents of all results (or of those marked) even if they are zero.
    Remembered by the program.
    """
    want = (
        [instantiate] * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else list(instantiate)
    )
    key = ("jvp", tuple(nonzeros), tuple(want))
    if key in closed.derived:
        return closed.derived[key]  # type: ignore[no-any-return]
    out_nonzeros: list[bool] = []
    n = len(closed.jaxpr.invars)

    def fun(*args: Any) -> list[Any]:
        primals, rest = args[:n], iter(args[n:])
        tangents = [
            next(rest) if nz else Zero.from_primal_value(p)
            for p, nz in zip(primals, nonzeros, strict=True)
        ]
        outs, ts = jvp_flat(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), primals, tangents
        )
        out_nonzeros[:] = [type(t) is not Zero or w for t, w in zip(ts, want, strict=True)]
        return [
            *outs,
            *(instantiate_zeros(t) for t, nz in zip(ts, out_nonzeros, strict=True) if nz),
        ]

    avals = [
        *closed.in_avals,
        *(a.to_tangent_aval() for a, nz in zip(closed.in_avals, nonzeros, strict=True) if nz),
    ]
    result = (
        close_jaxpr(*trace_to_jaxpr(fun, avals, closed.jaxpr.transformed_info))[0],
        out_nonzeros,
    )
    closed.derived[key] = result
    return result


def jvp_jaxpr_fixpoint(
    closed: ClosedJaxpr, nonzeros: Sequence[bool], num_carry_from: int, num_carry: int
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jvp of a loop body whose carry, at `num_carry_from` among its arguments, comes first
    among its results: a carry has a tangent if it goes in with one or comes out with one. Returns
    the program and the carries' flags.
    """
    nonzeros = list(nonzeros)
    carry = nonzeros[num_carry_from : num_carry_from + num_carry]
    for _ in range(1 + num_carry):
        nonzeros[num_carry_from : num_carry_from + num_carry] = carry
        want = carry + [False] * (len(closed.jaxpr.outvars) - num_carry)
        jvp, out_nonzeros = jvp_jaxpr(closed, nonzeros, want)
        joined = [a or b for a, b in zip(carry, out_nonzeros[:num_carry], strict=True)]
        if joined == carry:
            return jvp, out_nonzeros
        carry = joined
    raise AssertionError(
        "internal error in pullback: the tangents of a loop's carry found no fixpoint"
    )


def tangent_avals(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    return [a.to_tangent_aval() for a in avals]
