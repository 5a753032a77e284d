"""`jax.core`: the names of the core that libraries use."""

from __future__ import annotations

from typing import Any

from ...api.staging import ensure_compile_time_eval as ensure_compile_time_eval
from ...core import effects as _effects
from ...core.avals import AbstractToken as AbstractToken
from ...core.avals import AbstractValue as AbstractValue
from ...core.avals import ShapedArray as ShapedArray
from ...core.avals import abstract_token as abstract_token
from ...core.check import check_jaxpr as check_jaxpr
from ...core.effects import Effect as Effect
from ...core.effects import no_effects as no_effects
from ...core.jaxpr import ClosedJaxpr as ClosedJaxpr
from ...core.jaxpr import DebugInfo as DebugInfo
from ...core.jaxpr import DropVar as DropVar
from ...core.jaxpr import Jaxpr as Jaxpr
from ...core.jaxpr import JaxprEqn as JaxprEqn
from ...core.jaxpr import Literal as Literal
from ...core.jaxpr import Var as Var
from ...core.jaxpr import eval_jaxpr as eval_jaxpr
from ...core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from ...core.jaxpr import jaxprs_in_params as jaxprs_in_params
from ...core.jaxpr import new_jaxpr_eqn as new_jaxpr_eqn
from ...core.jaxpr import subjaxprs as subjaxprs
from ...core.primitive import Primitive as Primitive
from ...core.trace import Trace as Trace
from ...core.trace import Tracer as Tracer
from ...core.trace import axis_env as _axis_env
from ...core.trace import current_trace as current_trace
from ...core.trace import eval_context as eval_context
from ...core.trace import trace_context, use_trace
from ...core.trace import trace_state_clean as trace_state_clean
from ...errors import ConcretizationTypeError
from ...errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from ...errors import JaxprTypeError as JaxprTypeError

Atom = Var | Literal
Value = Any
ParamDict = dict[str, Any]
Effects = set[Effect]
effects = _effects


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes."""
    return max(d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes."""
    return min(d1, d2)


def is_constant_dim(d: Any) -> bool:
    return isinstance(d, int)


def is_constant_shape(shape: Any) -> bool:
    return all(map(is_constant_dim, shape))


def is_concrete(x: Any) -> bool:
    return not isinstance(x, Tracer) or x.is_concrete()


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)` of a concrete value; ConcretizationTypeError for a traced one."""
    if not is_concrete(val):
        raise ConcretizationTypeError(val, context)
    return val if force is None else force(val)


def get_opaque_trace_state(convention: Any = None) -> Any:
    """A value that is equal for two moments at which the same things are being traced."""
    return OpaqueTraceState(current_trace(), trace_context())


class OpaqueTraceState:
    """Which trace is in force, for comparison only."""

    def __init__(self, trace: Trace, context: Any) -> None:
        self.trace, self.context = trace, context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self.trace is other.trace

    def __hash__(self) -> int:
        return hash(id(self.trace))


def find_top_trace(_: Any = None) -> Trace:
    return current_trace()


def set_current_trace(trace: Trace, check_leaks: bool = False) -> Any:
    return use_trace(trace)


class take_current_trace:
    """`with take_current_trace() as trace:` takes the trace that is in force out of force."""

    def __enter__(self) -> Trace:
        taken = current_trace()
        self._inner = eval_context()
        self._inner.__enter__()
        return taken

    def __exit__(self, *exc: Any) -> None:
        self._inner.__exit__(*exc)


class TraceTag:
    """An identity that the traces of one transformation share."""

    __slots__ = ("__weakref__",)


def full_lower(val: Any) -> Any:
    """A tracer that stands for a plain value, as that value."""
    return val.full_lower() if isinstance(val, Tracer) else val


def nonempty_axis_env_DO_NOT_USE() -> bool:
    return bool(_axis_env())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    return [name for name, _ in _axis_env()]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    return "JaxprTrace" in [type(t).__name__ for t in _traces()]


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    return "BatchTrace" in [type(t).__name__ for t in _traces()]


def _traces() -> list[Trace]:
    found, trace = [], current_trace()
    while trace is not None:
        found.append(trace)
        trace = trace.parent_trace  # type: ignore[assignment]
    return found  # type: ignore[unreachable]


class gensym:
    """Makes fresh variables of a type."""

    def __call__(self, aval: Any) -> Var:
        return Var(aval)


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    return f.call_wrapped(*args)


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of an element of a value mapped along an axis."""
    return (
        aval if axis is None else aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))
    )


def unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of a value whose elements along a new axis have this type."""
    return (
        aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))
    )
