"""Lowering: rules that libraries register, and the making of StableHLO from programs.

The native backend inlines rules that are functions (`lower_fun`). Rules that write MLIR are for the
xla backend, as is all that makes types, attributes and modules: it needs jaxlib, and raises
ImportError with the command that installs it where that is absent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..backends.xla.client import evaluated_alone
from ..backends.xla.contexts import (
    AxisContext as AxisContext,
    LoweringParameters as LoweringParameters,
    LoweringResult as LoweringResult,
    LoweringRuleContext as LoweringRuleContext,
    ModuleContext as ModuleContext,
    ShapePolyLoweringState as ShapePolyLoweringState,
    ShardingContext as ShardingContext,
    SPMDAxisContext as SPMDAxisContext,
    TokenSet as TokenSet,
)
from ..backends.xla.library import (
    func as func_dialect,  # noqa: F401
    hlo as hlo,
    ir as ir,
    mlir_api as _jax,
    new_context,
)
from ..backends.xla.lowering import (
    LoweredFunction,
    call,
    jaxpr_subcomp as jaxpr_subcomp,
    lower_jaxpr_to_fun as lower_jaxpr_to_fun,
    register,
)
from ..backends.xla.module import (
    lower_jaxpr_to_module as lower_jaxpr_to_module,
    merge_mlir_modules as merge_mlir_modules,
    module_to_bytecode as module_to_bytecode,
    module_to_string as module_to_string,
)
from ..backends.xla.stablehlo.callback import emit_python_callback as emit_python_callback
from ..backends.xla.types import (
    ConstantHandler as ConstantHandler,
    dense_int_elements as dense_int_elements,
    dtype_to_ir_type as dtype_to_ir_type,
    i32_attr as i32_attr,
    i64_attr as i64_attr,
    ir_attribute as ir_attribute,
    ir_constant as ir_constant,
    ir_constants as ir_constants,
    ir_type_handlers as ir_type_handlers,
    register_constant_handler as register_constant_handler,
    types_of,
)
from ..control.expand import register_inline
from ..core.effects import lowerable_effects as lowerable_effects
from ..core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from ..core.primitive import Primitive
from ..sharding import Mesh as Mesh

LoweringRule = Callable[..., Sequence[Any]]

# Numbers that JAX gives to kinds of channels.
DEVICE_TO_DEVICE_TYPE = 1
SEND_TO_HOST_TYPE = 2
RECV_FROM_HOST_TYPE = 3


@functools.cache
def _tree_registry() -> Any:
    """The trees that values in MLIR form: tuples and lists of them."""
    return _jax.pytree.PyTreeRegistry(enable_none=False, enable_dict=False)


# Names of jaxlib's: it is loaded when one of them is asked for.
_LATE: dict[str, Callable[[], Any]] = {
    "Token": lambda: ir.Value,
    "Value": lambda: ir.Value,
    "ir_tree_registry": _tree_registry,
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return _LATE[name]()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def make_ir_context() -> Any:
    """A context of MLIR with the dialects that programs are written in.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     print(mlir.ir.RankedTensorType.get([2], mlir.ir.F32Type.get()))
    tensor<2xf32>
    """
    return new_context()


# --- types and values ---
def dense_int_array(values: Sequence[int], context: Any = None) -> Any:
    """Integers of 64 bits as the attribute of an array.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.dense_int_array([1, 2]))
    array<i64: 1, 2>
    """
    return ir.DenseI64ArrayAttr.get(values, context)


def token_type() -> Any:
    """The MLIR type of tokens.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.token_type())
    !stablehlo.token
    """
    return hlo.TokenType.get()


def aval_to_ir_type(ctx: Any, aval: Any) -> Any:
    """The MLIR type of a value that has one. TypeError for an aval of an unknown class.

    `ctx`: the module's context, or None; keys have the type of their words.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.aval_to_ir_type(None, pb.typeof(jnp.zeros((2, 3)))))
    tensor<2x3xf32>
    """
    (found,) = aval_to_ir_types(ctx, aval)
    return found


def aval_to_ir_types(ctx: Any, aval: Any) -> tuple[Any, ...]:
    """The MLIR types of a value, which may be several values there.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     [str(t) for t in mlir.aval_to_ir_types(None, pb.typeof(1.0))]
    ['tensor<f32>']
    """
    cache = getattr(ctx, "aval_to_ir_types_cache", None)
    found = None if cache is None else cache.get(aval)
    if found is None:
        found = types_of(aval)
        if cache is not None:
            cache[aval] = found
    return tuple(found)


def flatten_ir_types(xs: Iterable[Any]) -> list[Any]:
    """Types, of which some are tuples of types, as one list.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     f32, i1 = (mlir.dtype_to_ir_type(np.dtype(d)) for d in ("float32", "bool"))
    ...     [str(t) for t in mlir.flatten_ir_types([f32, (i1, f32)])]
    ['f32', 'i1', 'f32']
    """
    return [t for x in xs for t in (x if isinstance(x, (tuple, list)) else (x,))]


def flatten_ir_values(xs: Iterable[Any]) -> list[Any]:
    """Values, of which some are tuples of values, as one list.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     with mlir.ir.InsertionPoint(mlir.ir.Module.create().body):
    ...         x = mlir.ir_constant(np.float32(1))
    ...         print(len(mlir.flatten_ir_values([x, (x, x)])))
    3
    """
    return [v for x in xs for v in (x if isinstance(x, (tuple, list)) else (x,))]


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[Any]) -> list[Any]:
    """A list of values grouped as the types `ys` are. ValueError for another number of them.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     with mlir.ir.InsertionPoint(mlir.ir.Module.create().body):
    ...         x = mlir.ir_constant(np.float32(1))
    ...         one, pair = mlir.unflatten_ir_values_like_types([x, x, x], [x.type, (x.type,) * 2])
    >>> len(pair)
    2
    """
    values = iter(xs)
    try:
        found = [
            tuple(next(values) for _ in y) if isinstance(y, (tuple, list)) else next(values)
            for y in ys
        ]
    except (StopIteration, RuntimeError):
        raise ValueError(f"there are fewer values than the types {ys} ask for") from None
    if rest := list(values):
        raise ValueError(f"there are {len(rest)} values more than the types {ys} ask for")
    return found


def shape_tensor(ctx: Any, sizes: Sequence[Any]) -> Any:
    """Sizes, numbers or values, as an array of 32-bit integers in the program.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     with mlir.ir.InsertionPoint(mlir.ir.Module.create().body):
    ...         print(mlir.shape_tensor(None, [2, 3]).type)
    tensor<2xi32>
    """
    one = ir.RankedTensorType.get([1], ir.IntegerType.get_signless(32))
    if all(isinstance(n, int) for n in sizes):
        return ir_constant(np.asarray(sizes, np.int32))
    rows = []
    for n in sizes:
        if isinstance(n, int):
            rows.append(ir_constant(np.asarray([n], np.int32)))
        else:
            scalar = ir.RankedTensorType.get([], one.element_type)
            narrow = n if n.type == scalar else hlo.convert(scalar, n)
            rows.append(hlo.reshape(one, narrow))
    return hlo.concatenate(rows, 0)


# --- rules ---
def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """A lowering rule that traces `fun(*args, **params)` in the primitive's place.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> double_p = core.Primitive("example_double")
    >>> _ = double_p.def_impl(lambda x: x * 2), double_p.def_abstract_eval(lambda aval: aval)
    >>> rule = mlir.lower_fun(lambda x: x * 2, multiple_results=False)
    >>> _ = mlir.register_lowering(double_p, rule)
    >>> pb.jit(lambda x: double_p.bind(x) + 1)(3.0)
    Array(7., dtype=float32, weak_type=True)
    """
    return LoweredFunction(fun, multiple_results)


def core_call_lowering(
    ctx: Any, *args: Any, name: str, backend: Any = None, call_jaxpr: ClosedJaxpr | Jaxpr
) -> list[Any]:
    """A lowering rule for primitives that call the program `call_jaxpr`: what it computes.

    >>> from pullback.interpreters import mlir
    >>> program = pb.make_jaxpr(lambda x: x * 2)(1.0)
    >>> mlir.core_call_lowering(None, jnp.ones(2), name="double", call_jaxpr=program)
    [Array([2., 2.], dtype=float32)]
    """
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr, ())
    if ctx is not None:
        return call(ctx, name, closed, args)
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def _call_lowered(prim: Primitive, rule: Any) -> LoweredFunction | None:
    """`core_call_lowering`, or a partial application of it, as a function of arrays."""
    if (rule.func if isinstance(rule, functools.partial) else rule) is not core_call_lowering:
        return None

    def fun(*args: Any, **params: Any) -> Any:
        known = {k: v for k, v in params.items() if k in ("name", "backend", "call_jaxpr")}
        if "name" not in known and not getattr(rule, "keywords", {}).get("name"):
            known["name"] = prim.name
        return rule(None, *args, **known)

    return LoweredFunction(fun, True)


def register_lowering(
    prim: Primitive,
    rule: Any,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> Any:
    """Registers how a primitive is compiled: `rule(ctx, *values, **params)` gives the values of its
    results. What is not `inline` is a function of the module.

    A `lower_fun` rule is part of native programs. One that writes MLIR is for the xla backend:
    native programs call it between their kernels, where jaxlib is installed.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> half_p = core.Primitive("example_half")
    >>> _ = half_p.def_impl(lambda x: x / 2), half_p.def_abstract_eval(lambda aval: aval)
    >>> rule = mlir.lower_fun(lambda x: x / 2, multiple_results=False)
    >>> _ = mlir.register_lowering(half_p, rule)
    >>> pb.jit(half_p.bind)(3.0)
    Array(1.5, dtype=float32, weak_type=True)
    """
    lowered = rule if isinstance(rule, LoweredFunction) else _call_lowered(prim, rule)
    register(prim, rule if lowered is None else lowered, platform, inline)
    if lowered is not None:
        if platform in (None, "cpu"):
            register_inline(prim, lowered.fun)
        if not prim.has_rule("impl"):
            prim.rules["impl"] = lowered.fun
    elif platform in (None, "cpu"):
        # What `impl` does may be to ask for this rule (`apply_primitive`), or something else.
        prim.rules["compiled"] = functools.partial(evaluated_alone, prim)
        if not prim.has_rule("impl"):
            prim.rules["impl"] = prim.rules["compiled"]
    return rule
