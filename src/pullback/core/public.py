"""The public names of the core: what `pullback.core` and `pullback.extend.core` show, under JAX's
names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .. import dtypes as _dtypes
from ..errors import (
    ConcretizationTypeError,
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JaxprTypeError as JaxprTypeError,
)
from ..lazy_imports import LateNames as _LateNames
from . import dims as _dims, effects as _effects
from .avals import (
    _TYPEOF,
    AbstractToken as AbstractToken,
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    abstract_token as abstract_token,
    is_valid_value,
)
from .check import check_jaxpr as check_jaxpr
from .effects import Effect as Effect, no_effects as no_effects
from .jaxpr import (
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Var as Var,
    eval_jaxpr as eval_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    jaxprs_in_params as jaxprs_in_params,
    literalable_types as literalable_types,
    new_jaxpr_eqn as new_jaxpr_eqn,
    subjaxprs as subjaxprs,
)
from .primitive import Primitive as Primitive, RuleTable
from .refs import AbstractRef
from .trace import (
    Trace as Trace,
    Tracer as Tracer,
    axis_env as _axis_env,
    current_trace as current_trace,
    eval_context as eval_context,
    trace_context,
    trace_state_clean as trace_state_clean,
    use_trace,
)

Atom = Var | Literal
Value = Any
ParamDict = dict[str, Any]
Effects = set[Effect]
OutputType = tuple[AbstractValue, ...]
effects = _effects

# The tables that libraries extend: how types of Python's are seen, which of them may be written as
# literals, and how equations are checked: `rule(context_factory, *in_atoms, **params)` gives the
# types of the results and the effects.
pytype_aval_mappings = _TYPEOF
custom_typechecks = RuleTable("typecheck")
valid_jaxtype = is_valid_value

# Given by control/call, which is above this layer.
CallPrimitive: Any = None
call: Any = None


class _NoAxisName:
    """What stands where an axis has no name."""

    def __repr__(self) -> str:
        return "<no axis name>"


no_axis_name = _NoAxisName()


class _TracingContext:
    """What this thread is tracing."""

    trace = property(lambda self: current_trace())
    axis_env = property(lambda self: _axis_env())

    def is_top_level(self) -> bool:
        return trace_state_clean()

    def set_trace(self, trace: Trace) -> Any:
        return use_trace(trace)


trace_ctx = _TracingContext()


def ensure_compile_time_eval() -> Any:
    """`with ensure_compile_time_eval():` operations on known values run at once, even inside a
    traced function.

    >>> with pb.core.ensure_compile_time_eval():
    ...     int(jnp.ceil(2.5))
    3
    """
    return eval_context()


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype: itself, or float0 for integers and booleans.

    >>> from pullback.extend import core
    >>> core.primal_dtype_to_tangent_dtype(np.dtype("int32"))
    dtype([('float0', 'V')])
    """
    return _dtypes.tangent_dtype(primal_dtype)


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes.

    >>> pb.core.max_dim(3, 5)
    5
    """
    return _dims.max_dim(d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes.

    >>> pb.core.min_dim(3, 5)
    3
    """
    return _dims.min_dim(d1, d2)


def is_constant_dim(d: Any) -> bool:
    """Is a size a number, rather than symbolic?

    >>> from pullback import core
    >>> core.is_constant_dim(3)
    True
    """
    return isinstance(d, int)


def is_constant_shape(s: Any) -> bool:
    """Are all sizes of a shape numbers, rather than symbolic?

    >>> from pullback import core
    >>> core.is_constant_shape((2, 3))
    True
    """
    return all(map(is_constant_dim, s))


def is_concrete(x: Any) -> bool:
    """Is it a value, rather than a stand-in for one that a transformation puts in its place?

    >>> from pullback import core
    >>> core.is_concrete(jnp.ones(2))
    True
    >>> out = pullback.eval_shape(lambda x: print(core.is_concrete(x)), 1.0)
    False
    """
    return not isinstance(x, Tracer) or x.is_concrete()


def to_concrete_value(x: Any) -> Any:
    """The value that a traced one stands for, derivatives set aside; None if there is none yet.

    >>> from pullback import core
    >>> core.to_concrete_value(jnp.float32(2))
    Array(2., dtype=float32)
    """
    return x.to_concrete_value() if isinstance(x, Tracer) else x


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)` of a concrete value, which under `grad` and `jvp` is the primal;
    ConcretizationTypeError for a traced one.

    >>> from pullback.extend import core
    >>> core.concrete_or_error(int, jnp.array(3))
    3
    >>> out = pb.grad(lambda x: x * core.concrete_or_error(int, x))(3.0)
    >>> out
    Array(3., dtype=float32, weak_type=True)
    """
    value = to_concrete_value(val)
    if value is None:
        raise ConcretizationTypeError(val, context)
    return value if force is None else force(value)


def concretization_function_error(fun: Any, suggest_astype: bool = False) -> Any:
    """A function that refuses traced values in the name of `fun`, one of Python's conversions.

    >>> from pullback import core
    >>> refuse = core.concretization_function_error(float)
    >>> callable(refuse)
    True
    """
    name = getattr(fun, "__name__", fun)
    context = f"The problem arose with the `{name}` function. "
    if suggest_astype:
        context += (
            f"If trying to convert the data type of a value, try using `x.astype({name})` "
            f"or `jnp.array(x, {name})` instead."
        )

    def error(self: Any, arg: Any) -> NoReturn:
        raise ConcretizationTypeError(arg, context)

    return error


def get_opaque_trace_state(convention: Any = None) -> Any:
    """A value that is equal for two moments at which the same things are being traced.

    >>> from pullback.extend import core
    >>> core.get_opaque_trace_state() == core.get_opaque_trace_state()
    True
    """
    return OpaqueTraceState(current_trace(), trace_context())


class OpaqueTraceState:
    """Which trace is in force, for comparison only."""

    def __init__(self, trace: Trace, context: Any) -> None:
        self.trace, self.context = trace, context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self.trace is other.trace

    def __hash__(self) -> int:
        return hash(id(self.trace))


def find_top_trace(_: Any) -> Trace:
    """The trace that is in force; the operands have no say.

    >>> from pullback.extend import core
    >>> core.find_top_trace([1.0]) is core.current_trace()
    True
    """
    return current_trace()


def set_current_trace(trace: Trace, check_leaks: bool = False) -> Any:
    """A context manager: `trace` is in force in the block.

    >>> from pullback.extend import core
    >>> with core.set_current_trace(core.current_trace()):
    ...     jnp.add(1, 2)
    Array(3, dtype=int32, weak_type=True)
    """
    return use_trace(trace)


class take_current_trace:
    """`with take_current_trace() as trace:` takes the trace that is in force out of force.

    >>> from pullback.extend import core
    >>> with core.take_current_trace() as trace:
    ...     isinstance(trace, core.Trace)
    True
    """

    def __enter__(self) -> Trace:
        taken = current_trace()
        self._inner = eval_context()
        self._inner.__enter__()
        return taken

    def __exit__(self, *exc: Any) -> None:
        self._inner.__exit__(*exc)


class TraceTag:
    """An identity that the traces of one transformation share.

    >>> from pullback.extend import core
    >>> core.TraceTag() == core.TraceTag()
    False
    """

    __slots__ = ("__weakref__",)


def full_lower(val: Any) -> Any:
    """A tracer that stands for a plain value, as that value."""
    return val.full_lower() if isinstance(val, Tracer) else val


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Is a named axis in force? Only for programs that JAX's users have already.

    >>> from pullback.extend import core
    >>> core.nonempty_axis_env_DO_NOT_USE()
    False
    """
    return bool(_axis_env())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The named axes in force. Only for programs that JAX's users have already.

    >>> from pullback.extend import core
    >>> core.unsafe_get_axis_names_DO_NOT_USE()
    []
    """
    return [name for name, _ in _axis_env()]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Is a program being traced? Only for programs that JAX's users have already.

    >>> from pullback.extend import core
    >>> core.unsafe_am_i_under_a_jit_DO_NOT_USE()
    False
    """
    return "JaxprTrace" in [type(t).__name__ for t in _traces()]


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Is a function being vectorised? Only for programs that JAX's users have already.

    >>> from pullback.extend import core
    >>> core.unsafe_am_i_under_a_vmap_DO_NOT_USE()
    False
    """
    return "BatchTrace" in [type(t).__name__ for t in _traces()]


def _traces() -> list[Trace]:
    found: list[Trace] = []
    trace: Trace | None = current_trace()
    while trace is not None:
        found.append(trace)
        trace = trace.parent_trace
    return found


def gensym() -> Callable[[Any], Var]:
    """A function that makes fresh variables of a type.

    >>> from pullback.extend import core
    >>> new_variable = core.gensym()
    >>> new_variable(pb.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """
    return Var


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """What a primitive that calls a function does outside of transformations: calls it.

    >>> from pullback.extend import core, linear_util
    >>> f = linear_util.wrap_init(lambda x: x + 1)
    >>> core.call_impl(f, 2)
    3
    """
    return f.call_wrapped(*args)


def _map_shaped(size: int, axis: int | None, aval: Any) -> Any:
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))


def _unmap_shaped(size: int, axis: int | None, explicit_mesh_axis: Any, aval: Any) -> Any:
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


# For each class of types: (type of an element of a batch, type of a batch of elements).
aval_mapping_handlers: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ShapedArray: (_map_shaped, _unmap_shaped),
    AbstractRef: (_map_shaped, _unmap_shaped),
    AbstractToken: (lambda size, axis, aval: aval, lambda size, axis, mesh_axis, aval: aval),
}


def _handlers(aval: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    found = aval_mapping_handlers.get(type(aval))
    if found is None:
        raise TypeError(f"no mapping handler for {aval} of type {type(aval)}")
    return found


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of an element of a value mapped along an axis.

    >>> from pullback.extend import core
    >>> core.mapped_aval(3, 0, pb.typeof(jnp.zeros((3, 2))))
    ShapedArray(float32[2])
    """
    return _handlers(aval)[0](size, axis, aval)


def unmapped_aval(size: int, axis: int | None, aval: Any, explicit_mesh_axis: Any = None) -> Any:
    """The type of a value whose elements along a new axis have this type.

    >>> from pullback.extend import core
    >>> core.unmapped_aval(3, 0, pb.typeof(jnp.zeros(2)))
    ShapedArray(float32[3,2])
    """
    return _handlers(aval)[1](size, axis, explicit_mesh_axis, aval)


# The printer is loaded when something is printed.
_late = _LateNames("pullback.core", {"show": "JaxprPpContext=Context JaxprPpSettings=Settings"})


def __getattr__(name: str) -> Any:
    return _late(name)
