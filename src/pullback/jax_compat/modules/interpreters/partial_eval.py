"""`jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.avals import typeof
from ....core.build import JaxprTrace as DynamicJaxprTrace  # noqa: F401
from ....core.build import JaxprTracer as DynamicJaxprTracer
from ....core.build import trace_to_jaxpr as _trace_to_jaxpr
from ....core.jaxpr import Jaxpr
from ....core.primitive import RuleTable
from ....core.trace import current_trace, use_trace
from ....transforms.partial_eval import PartialEvalTrace
from ....transforms.partial_eval import dce_jaxpr as dce_jaxpr
from ....transforms.partial_eval import partial_eval_jaxpr as partial_eval_jaxpr

JaxprTracer = DynamicJaxprTracer
dce_rules = RuleTable("dce")
partial_eval_jaxpr_custom_rules = RuleTable("partial_eval_jaxpr_custom")
custom_partial_eval_rules = RuleTable("partial_eval")


class PartialVal(tuple):  # type: ignore[type-arg]
    """(aval, None) for an unknown value, (None, value) for a known one."""

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


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Any, **options: Any) -> Any:
    """(jaxpr, types of the results, constants) of a wrapped function."""
    jaxpr, consts = _trace_to_jaxpr(fun.call_wrapped, in_avals, getattr(fun, "debug_info", None))
    return jaxpr, [v.aval for v in jaxpr.outvars], consts
