"""What avals, dtypes, Python values and arrays are in MLIR: types, attributes, constants.

Everything here asks for the MLIR context that is current (`with context, location:`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ... import dtypes
from ...core.avals import AbstractToken, ShapedArray, typeof
from .library import hlo, ir

# ConstantHandler: (value, aval) -> value or values of the program.
ConstantHandler = Callable[..., Any]

_FLOATS = {
    "bfloat16": "BF16Type",
    "float16": "F16Type",
    "float32": "F32Type",
    "float64": "F64Type",
    "float8_e3m4": "Float8E3M4Type",
    "float8_e4m3": "Float8E4M3Type",
    "float8_e4m3fn": "Float8E4M3FNType",
    "float8_e4m3b11fnuz": "Float8E4M3B11FNUZType",
    "float8_e4m3fnuz": "Float8E4M3FNUZType",
    "float8_e5m2": "Float8E5M2Type",
    "float8_e5m2fnuz": "Float8E5M2FNUZType",
    "float8_e8m0fnu": "Float8E8M0FNUType",
    "float4_e2m1fn": "Float4E2M1FNType",
    "float6_e2m3fn": "Float6E2M3FNType",
    "float6_e3m2fn": "Float6E3M2FNType",
}
_COMPLEX = {"complex64": "F32Type", "complex128": "F64Type"}


def dtype_to_ir_type(dtype: Any) -> Any:
    """The MLIR type of one element. TypeError for a dtype that has none.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     [str(mlir.dtype_to_ir_type(np.dtype(d))) for d in ("float32", "uint8", "bool")]
    ['f32', 'ui8', 'i1']
    """
    if dtype == dtypes.float0:
        return ir.IntegerType.get_signless(1)
    name = np.dtype(dtype).name
    if name in _FLOATS:
        return getattr(ir, _FLOATS[name]).get()
    if name in _COMPLEX:
        return ir.ComplexType.get(getattr(ir, _COMPLEX[name]).get())
    if name == "bool":
        return ir.IntegerType.get_signless(1)
    if name.startswith("uint"):
        return ir.IntegerType.get_unsigned(int(name[4:]))
    if name.startswith("int"):
        return ir.IntegerType.get_signless(int(name[3:]))
    raise TypeError(f"No dtype_to_ir_type handler for dtype: {dtype}")


def physical(aval: Any) -> Any:
    """The type of the memory behind a value: keys are their words."""
    if isinstance(getattr(aval, "dtype", None), dtypes.ExtendedDType):
        suffix, base = aval.dtype.physical
        return ShapedArray((*aval.shape, *suffix), base)
    return aval


def _array_type(aval: Any) -> Any:
    aval = physical(aval)
    dynamic = ir.ShapedType.get_dynamic_size
    shape = [n if type(n) is int else dynamic() for n in aval.shape]
    return ranked(shape, dtype_to_ir_type(aval.dtype))


def ranked(shape: Sequence[int], element: Any) -> Any:
    """The MLIR type of an array, wherever it is asked for."""
    return ir.RankedTensorType.get(list(shape), element, loc=ir.Location.unknown())


def _token_type(_: Any = None) -> Any:
    return hlo.TokenType.get()


# How the types of values become MLIR types: by the class of the aval. Open: libraries add to it.
ir_type_handlers: dict[type, Callable[[Any], Any]] = {
    ShapedArray: _array_type,
    AbstractToken: _token_type,
}


def types_of(aval: Any) -> tuple[Any, ...]:
    """The MLIR types of a value. TypeError if the aval is of an unknown class."""
    for cls in type(aval).__mro__:
        handler = ir_type_handlers.get(cls)
        if handler is not None:
            found = handler(aval)
            return tuple(found) if isinstance(found, (tuple, list)) else (found,)
    raise TypeError(f"No ir_type_handler for aval type: {type(aval)}")


def type_of(aval: Any) -> Any:
    """The one MLIR type of a value."""
    (found,) = types_of(aval)
    return found


def tensor(shape: Sequence[int], dtype: Any) -> Any:
    """The MLIR type of an array."""
    return ranked(shape, dtype_to_ir_type(dtype))


# --- attributes ---
def i32_attr(i: Any) -> Any:
    """An integer of 32 bits as an attribute.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.i32_attr(3))
    3 : i32
    """
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), i)


def i64_attr(i: Any) -> Any:
    """An integer of 64 bits as an attribute.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.i64_attr(3))
    3 : i64
    """
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), i)


def ui64_attr(i: Any) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), i)


def dense_int_elements(xs: Any) -> Any:
    """Integers as an attribute with the type of a tensor of 64-bit integers.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.dense_int_elements([1, 2]))
    dense<[1, 2]> : tensor<2xi64>
    """
    return ir.DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def dense_attr(x: Any) -> Any:
    """An array as an attribute."""
    x = np.asarray(x)
    if x.dtype == dtypes.float0:
        x = np.zeros(x.shape, bool)
    element = dtype_to_ir_type(x.dtype)
    return ir.DenseElementsAttr.get(np.ascontiguousarray(x), type=element, shape=list(x.shape))


def ir_attribute(val: Any) -> Any:
    """A number, text, dtype, array, or a sequence or dictionary of them as an attribute. TypeError
    for anything else.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context():
    ...     print(mlir.ir_attribute({"axis": 1, "name": "rows"}))
    {axis = 1 : i64, name = "rows"}
    """
    if isinstance(val, ir.Attribute):
        return val
    for cls, maker in _ATTRIBUTES:
        if isinstance(val, cls):
            return maker(val)
    raise TypeError(f"No attribute handler defined for type: {type(val)}")


def _scalar_attribute(x: Any) -> Any:
    kind = dtype_to_ir_type(x.dtype)
    if x.dtype.kind == "b":
        return ir.BoolAttr.get(bool(x))
    if dtypes.is_integer(x.dtype):
        return ir.IntegerAttr.get(kind, int(x))
    if dtypes.is_float(x.dtype):
        return ir.FloatAttr.get(kind, float(x))
    raise TypeError(f"Unsupported scalar attribute type: {type(x)}")


_ATTRIBUTES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (bool, lambda x: ir.BoolAttr.get(x)),
    (np.generic, _scalar_attribute),
    (int, i64_attr),
    (float, lambda x: ir.FloatAttr.get(ir.F64Type.get(), x)),
    (complex, lambda x: _scalar_attribute(np.complex128(x))),
    ((str, bytes), lambda x: ir.StringAttr.get(x)),
    ((np.dtype, type), lambda x: ir.TypeAttr.get(dtype_to_ir_type(x))),
    (np.ndarray, dense_attr),
    (dict, lambda x: ir.DictAttr.get({k: ir_attribute(v) for k, v in x.items()})),
    ((list, tuple), lambda x: ir.ArrayAttr.get([ir_attribute(v) for v in x])),
)


# --- constants ---
_constant_handlers: dict[type, ConstantHandler] = {}


def register_constant_handler(type_: type, handler_fun: ConstantHandler) -> None:
    """Makes values of a type constants of programs: `handler_fun(value, aval)` gives the value in
    the program, or several.

    >>> from pullback.interpreters import mlir
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> def handler(value, aval):
    ...     return mlir.ir_constant(np.float32(value.degrees))
    >>> mlir.register_constant_handler(Celsius, handler)
    """
    _constant_handlers[type_] = handler_fun


def get_constant_handler(type_: type) -> ConstantHandler | None:
    for cls in type_.__mro__:
        if cls in _constant_handlers:
            return _constant_handlers[cls]
    return None


def ir_constants(val: Any, *, const_lowering: Any = None, aval: Any = None) -> tuple[Any, ...]:
    """`ir_constant`, as a tuple: a value of an own type may be several of MLIR's.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     with mlir.ir.InsertionPoint(mlir.ir.Module.create().body):
    ...         print(len(mlir.ir_constants(np.ones(3))))
    1
    """
    if const_lowering and aval is not None:
        known = const_lowering.get((id(val), aval))
        if known is not None:
            return tuple(known) if isinstance(known, (tuple, list)) else (known,)
    handler = get_constant_handler(type(val))
    if handler is not None:
        found = handler(val, aval)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return (_array_constant(val, aval),)


def ir_constant(val: Any, *, const_lowering: Any = None, aval: Any = None) -> Any:
    """An array or a number as a constant of the program that is being written, of the type `aval`
    if it is given. TypeError for what is neither.

    >>> from pullback.interpreters import mlir
    >>> with mlir.make_ir_context(), mlir.ir.Location.unknown():
    ...     module = mlir.ir.Module.create()
    ...     with mlir.ir.InsertionPoint(module.body):
    ...         print(mlir.ir_constant(np.float32(2)).type)
    tensor<f32>
    """
    (found,) = ir_constants(val, const_lowering=const_lowering, aval=aval)
    return found


def _array_constant(val: Any, aval: Any) -> Any:
    base = getattr(val, "_base_array", val)  # the words of keys
    if isinstance(base, (bool, int, float, complex)):
        dtype = (typeof(base) if aval is None else aval).dtype
        return hlo.constant(dense_attr(np.asarray(base).astype(dtype)))
    if not (isinstance(base, (np.ndarray, np.generic)) or hasattr(base, "__array__")):
        raise TypeError(
            f"No constant handler for type: {type(val)}. "
            "Fix: mlir.register_constant_handler(the type, handler)."
        )
    x = np.asarray(base)
    if x.dtype != dtypes.float0 and (x.dtype.kind not in "V" or hasattr(ml_dtypes, x.dtype.name)):
        wanted = x.dtype if aval is None else physical(aval).dtype
        if isinstance(wanted, np.dtype) and wanted != x.dtype and wanted != dtypes.float0:
            x = x.astype(wanted)
    if x.size > 1 and 0 in x.strides:
        return _broadcast_constant(x)
    return hlo.constant(dense_attr(x))


def _broadcast_constant(x: Any) -> Any:
    """An array that repeats itself along axes: what it repeats, broadcast."""
    kept = [d for d in range(x.ndim) if x.strides[d] or x.shape[d] == 1]
    inner = x[tuple(slice(None) if d in kept else 0 for d in range(x.ndim))]
    out = tensor(x.shape, x.dtype)
    return hlo.broadcast_in_dim(out, hlo.constant(dense_attr(inner)), ints(kept))


def ints(xs: Iterable[Any]) -> Any:
    """Integers as the attribute that most operations take."""
    return ir.DenseI64ArrayAttr.get([int(x) for x in xs])


def bools(xs: Iterable[Any]) -> Any:
    return ir.DenseBoolArrayAttr.get([bool(x) for x in xs])
