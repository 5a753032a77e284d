"""Partial evaluation and dead code: programs split by what is known, and made smaller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.avals import typeof
from ..core.build import (
    JaxprTrace as DynamicJaxprTrace,  # noqa: F401
    JaxprTracer as DynamicJaxprTracer,
    trace_to_jaxpr as _trace_to_jaxpr,
)
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, convert_constvars
from ..core.primitive import RuleTable
from ..core.trace import current_trace, use_trace
from ..transforms.partial_eval import (
    PartialEvalTrace,
    dce_jaxpr as dce_jaxpr,
    partial_eval_jaxpr as partial_eval_jaxpr,
)

JaxprTracer = DynamicJaxprTracer
Val = Any
dce_rules = RuleTable("dce")
partial_eval_jaxpr_custom_rules = RuleTable("partial_eval_jaxpr_custom")
custom_partial_eval_rules = RuleTable("partial_eval")


class PartialVal(tuple):  # type: ignore[type-arg]
    """(aval, None) for an unknown value, (None, value) for a known one.

    >>> from pullback.interpreters.partial_eval import PartialVal
    >>> PartialVal.known(2.0).is_known(), PartialVal.unknown(pb.typeof(1.0)).is_known()
    (True, False)
    """

    def __new__(cls, xs: tuple[Any, Any]) -> PartialVal:
        return super().__new__(cls, xs)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        return self[1]

    def get_aval(self) -> Any:
        return typeof(self[1]) if self.is_known() else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Runs a wrapped function on what is known: (program of the rest, known and unknown results,
    constants).

    The program takes the constants and the unknown arguments; results marked by `instantiate` are
    made unknown.

    >>> from pullback.extend import linear_util
    >>> from pullback.interpreters import partial_eval as pe
    >>> f = linear_util.wrap_init(lambda x, y: [x * 2.0, x * y])
    >>> values = [pe.PartialVal.known(3.0), pe.PartialVal.unknown(pb.typeof(1.0))]
    >>> program, results, consts = pe.trace_to_jaxpr_nounits(f, values)
    >>> [str(e.primitive) for e in program.eqns]
    ['mul']
    """
    trace = PartialEvalTrace(current_trace(), getattr(fun, "debug_info", None))
    args = [p.get_known() if p.is_known() else trace.new_unknown(p[0]) for p in pvals]
    with use_trace(trace):
        outs = list(fun.call_wrapped(*args))
    want = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
    unknown = [trace.is_unknown(x) or w for x, w in zip(outs, want, strict=True)]
    jaxpr, consts = trace.finish([x for x, uk in zip(outs, unknown, strict=True) if uk])
    found = [
        PartialVal.unknown(typeof(x)) if uk else PartialVal.known(x)
        for x, uk in zip(outs, unknown, strict=True)
    ]
    return jaxpr, found, consts


def trace_to_jaxpr_dynamic(
    fun: Any,
    in_avals: Sequence[Any],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> Any:
    """(jaxpr, types of the results, constants) of a wrapped function. Inputs that `keep_inputs`
    marks False are no arguments of the program; `auto_dce` drops equations that nothing needs.

    >>> from pullback.extend import linear_util
    >>> from pullback.interpreters import partial_eval as pe
    >>> f = linear_util.wrap_init(lambda x: [x * 2.0])
    >>> program, types, consts = pe.trace_to_jaxpr_dynamic(f, [pb.typeof(1.0)])
    >>> types
    [ShapedArray(float32[], weak_type=True)]
    """
    keep = [True] * len(in_avals) if keep_inputs is None else list(keep_inputs)
    jaxpr, consts = _trace_to_jaxpr(fun.call_wrapped, in_avals, getattr(fun, "debug_info", None))
    kept = [v for v, k in zip(jaxpr.invars, keep, strict=True) if k]
    if len(kept) < len(jaxpr.invars):
        jaxpr = jaxpr.replace(invars=kept)
    if auto_dce:
        jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return jaxpr, [v.aval for v in jaxpr.outvars], consts


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `dce_jaxpr`, for constants too: (program, which constants it takes, which arguments).

    >>> from pullback.interpreters import partial_eval as pe
    >>> program = pb.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0)
    >>> smaller, used_consts, used_args = pe.dce_jaxpr_consts(program.jaxpr, [True, False])
    >>> used_args
    [True, False]
    """
    n = len(jaxpr.constvars)
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else instantiate
    whole, used = dce_jaxpr(convert_constvars(jaxpr), used_outputs, [*([False] * n), *keep])
    consts = sum(used[:n])
    split = whole.replace(constvars=whole.invars[:consts], invars=whole.invars[consts:])
    return split, used[:n], used[n:]


def _dce_held(
    used_outputs: Sequence[bool], eqn: JaxprEqn, closed: bool
) -> tuple[list[bool], JaxprEqn | None]:
    """(which operands are used, the equation that calls the smaller program or None)."""
    if not any(used_outputs) and not eqn.effects:
        return [False] * len(eqn.invars), None
    held = eqn.params["call_jaxpr"]
    jaxpr, consts = (held.jaxpr, held.consts) if isinstance(held, ClosedJaxpr) else (held, ())
    small, used = dce_jaxpr(jaxpr, used_outputs)
    if not any(used_outputs) and not small.effects:
        return [False] * len(eqn.invars), None
    new = eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used_outputs, strict=True) if u],
        params={**eqn.params, "call_jaxpr": ClosedJaxpr(small, consts) if closed else small},
        effects=small.effects,
    )
    return used, new


def dce_jaxpr_call_rule(
    used_outputs: Sequence[bool], eqn: JaxprEqn
) -> tuple[list[bool], JaxprEqn | None]:
    """Drops what a call's unused results alone need: (which operands are used, equation).

    >>> from pullback.extend import core
    >>> from pullback.interpreters import partial_eval as pe
    >>> held = pb.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0).jaxpr
    >>> results = [core.Var(v.aval) for v in held.outvars]
    >>> call_p = core.CallPrimitive("example_call")
    >>> call = core.new_jaxpr_eqn(held.invars, results, call_p, {"call_jaxpr": held}, set())
    >>> used, smaller = pe.dce_jaxpr_call_rule([True, False], call)
    >>> used, len(smaller.outvars)
    ([True, False], 1)
    """
    return _dce_held(used_outputs, eqn, isinstance(eqn.params["call_jaxpr"], ClosedJaxpr))


def dce_jaxpr_closed_call_rule(
    used_outputs: Sequence[bool], eqn: JaxprEqn
) -> tuple[list[bool], JaxprEqn | None]:
    """As `dce_jaxpr_call_rule`, for a call of a closed program.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import partial_eval as pe
    >>> held = pb.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0)
    >>> results = [core.Var(v.aval) for v in held.jaxpr.outvars]
    >>> call_p = core.CallPrimitive("example_call")
    >>> call = core.new_jaxpr_eqn(held.jaxpr.invars, results, call_p, {"call_jaxpr": held}, set())
    >>> used, smaller = pe.dce_jaxpr_closed_call_rule([True, False], call)
    >>> used, len(smaller.outvars)
    ([True, False], 1)
    """
    return _dce_held(used_outputs, eqn, True)
