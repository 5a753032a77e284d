"""What the families share: checks of arguments, types of results, and builders of rules. No
primitive is defined here.
"""

from __future__ import annotations

import enum
import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, dtypes, errors
from ..core.avals import ShapedArray, typeof
from ..core.build import array_of
from ..core.symbolic import Zero
from ..core.trace import Tracer

# Filled by the runtime: makes a device array of a NumPy array or a number. Functions that have
# nothing to do return their operand through it.
array_maker: list[Callable[[Any], Any]] = [lambda x: x]

# Filled by the API: `(result, function, sharding, follows)` gives the result, laid out as an
# argument `out_sharding` asks; and `(result, sharding)` as an argument `sharding` does.
layers: dict[str, Callable[..., Any]] = {}


def laid_out(x: Any, name: str, out_sharding: Any, follows: bool = False) -> Any:
    """The result of the function `name`, laid out as its argument `out_sharding` asks. `follows`:
    it lies as the operands do where no mesh is in force.
    """
    return layers["out_sharding"](x, name, out_sharding, follows)


def asked_layout(
    name: str, out_sharding: Any, shape: Any, follows: bool = False, what: str = ""
) -> Any:
    """What an operation's parameter says for `out_sharding`: how its result lies over axes of
    explicit type, for each of its axes; None if nothing is asked for."""
    if out_sharding is None:
        return None
    return layers["asked"](name, out_sharding, tuple(shape), follows, what)


FLOAT, COMPLEX, INT, SIGNED, UNSIGNED, BOOL = (
    "floating",
    "complexfloating",
    "integer",
    "signedinteger",
    "unsignedinteger",
    "bool",
)
F32, F64, NUMBER, EXTENDED = "float32", "float64", "number", "extended"
_IS: dict[str, Callable[[Any], bool]] = {
    FLOAT: dtypes.is_float,
    COMPLEX: dtypes.is_complex,
    INT: dtypes.is_integer,
    SIGNED: lambda d: dtypes.is_signed(d) and not dtypes.is_narrow(d),
    UNSIGNED: dtypes.is_unsigned,
    BOOL: dtypes.is_bool,
    F32: lambda d: d == np.float32,
    F64: lambda d: d == np.float64,
    NUMBER: lambda d: isinstance(d, np.dtype) and not dtypes.is_bool(d) and d != dtypes.float0,
    EXTENDED: dtypes.is_extended,
}
ANY = (INT, FLOAT, COMPLEX, BOOL)
NUM = (INT, FLOAT, COMPLEX)


def as_array(x: Any) -> Any:
    """`x` if it is an array or a tracer, else the array of it."""
    if isinstance(x, Tracer):
        return x
    if hasattr(x, "__jax_array__"):  # asked first: proxies of arrays may forward any name
        return as_array(x.__jax_array__())
    return x if hasattr(x, "aval") else array_of(x, array_maker[0])


@functools.lru_cache(maxsize=4096)
def accepts(dtype: Any, kinds: tuple[str, ...]) -> bool:
    """Is the dtype of one of these kinds?"""
    return any(_IS[k](dtype) for k in kinds)


FLOAT0 = (
    "float0s do not support any operations by design: they are the tangents of integers. Fix: "
    "leave them out, or take zeros of the integers' shape and of a dtype of your choice."
)


def check_dtype(name: str, dtype: Any, kinds: tuple[str, ...], position: int | None = None) -> None:
    """Raises TypeError unless the dtype is of one of the kinds."""
    if not accepts(dtype, kinds):
        at = "" if position is None else f" at position {position}"
        if dtype == dtypes.float0:
            raise TypeError(f"Called {name} with a float0{at or ' array'}. {FLOAT0}")
        raise TypeError(
            f"{name} does not accept dtype {_dtype_name(dtype)}{at}. "
            f"Accepted dtypes{at} are subtypes of {', '.join(k for k in kinds if k != EXTENDED)}."
        )


def _dtype_name(d: Any) -> str:
    return "float0" if d == dtypes.float0 else str(getattr(d, "name", d))


_TIPS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "max": "maximum",
    "min": "minimum",
    "eq": "equal",
    "ne": "not_equal",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "shift_right_logical": "right_shift",
    "select": "where",
    "concatenate": "concatenate",
    "rem": "remainder",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "clamp": "clip",
    "stack": "stack",
    "atan2": "arctan2",
    "nextafter": "nextafter",
    "pow": "power",
}


def check_same_dtypes(name: str, avals: Sequence[Any]) -> None:
    """Raises TypeError unless all dtypes are equal."""
    first = avals[0].dtype
    if any(a.dtype != first for a in avals):
        tip = _TIPS.get(name)
        hint = (
            f" (Tip: jnp.{tip} is a similar function that does automatic type promotion on inputs)."
            f" Fix: jnp.{tip}, or convert one operand with x.astype(...)."
            if tip
            else ""
        )
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got "
            f"{', '.join(_dtype_name(a.dtype) for a in avals)}.{hint}"
        )


def broadcast_dims(name: str, shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape of an elementwise operation: scalars join any shape, other ranks must agree, sizes
    must be equal or 1.
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    arrays = [s for s in shapes if s]
    if len({len(s) for s in arrays}) != 1:
        ranks = {len(s) for s in shapes if s}
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got {ranks}. "
            "Fix: add axes with lax.expand_dims, or use the jnp function, which broadcasts."
        )
    out = []
    for sizes in zip(*arrays):
        n = sizes[0]
        for other in sizes[1:]:
            if other is not n and other != n and n == 1:
                n = other
        if any(m is not n and m != n and m != 1 for m in sizes):
            raise TypeError(
                f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}. "
                "Fix: sizes of an axis must be equal, or 1 (add axes with x[:, None])."
            )
        out.append(n)
    return tuple(out)


class Formula(enum.Enum):
    """An `accuracy` of elementary functions that programs do not show: in float64 they are computed
    as JAX's compiler does it, where ours are more exact. Random numbers are made so: they are
    JAX's. `XLA` is to the bit, `NEAR` the same formula of our logarithm, within an ulp of it.
    """

    XLA = 1
    NEAR = 2

    def __repr__(self) -> str:
        return "None"


def nary_aval(
    name: str,
    kinds: Sequence[tuple[str, ...]],
    result: Callable[[Any], Any] | None = None,
    same_dtypes: bool = True,
) -> Callable[..., ShapedArray]:
    """The abstract_eval of an elementwise operation: `kinds` per operand; `result` maps the first
    dtype to the result's.
    """

    def rule(*avals: Any, **params: Any) -> ShapedArray:
        single = len(avals) == 1
        for k, (aval, accepted) in enumerate(zip(avals, kinds)):
            check_dtype(name, aval.dtype, accepted, None if single else k)
        if same_dtypes and not single:
            check_same_dtypes(name, avals)
        dtype = avals[0].dtype if result is None else result(avals[0].dtype)
        shape = avals[0].shape if single else broadcast_dims(name, [a.shape for a in avals])
        return ShapedArray(
            shape, dtype, all(a.weak_type for a in avals), memory_space=avals[0].memory_space
        )

    return rule


def real_dtype(d: Any) -> Any:
    """float32 for complex64, float64 for complex128; others unchanged."""
    return np.zeros((), d).real.dtype if d.kind == "c" else d


def complex_dtype(d: Any) -> Any:
    """complex128 for float64 and itself, else complex64."""
    return (
        np.dtype("complex128")
        if d in (np.dtype("float64"), np.dtype("complex128"))
        else np.dtype("complex64")
    )


def const(like: Any, value: Any) -> Any:
    """The scalar `value` with the dtype and weakness of `like`, as it stands in equations."""
    aval = typeof(like)
    if aval.weak_type:
        kind = dtypes.scalar_type_of(like)
        if dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind]) == aval.dtype:
            return kind(value)
    return np.asarray(value).astype(aval.dtype)[()]


def zero_of(out: Any) -> Zero:
    """The zero tangent of a result (or of each of several results)."""
    return Zero(typeof(out).to_tangent_aval())


def requested_dtype(dtype: Any, where: str) -> Any:
    """The dtype that a user asked for, canonical; warns when 64 bits were asked for and x64 is off.
    Raises ValueError for None, TypeError for what arrays cannot hold.
    """
    if dtype is None:
        raise ValueError("dtype must be specified.")
    if isinstance(dtype, np.ndarray):
        raise TypeError("Cannot construct a dtype from an array. Fix: dtype=arr.dtype.")
    if isinstance(getattr(dtype, "aval", None), ShapedArray):
        raise ValueError(
            "Passing an array as a dtype argument is no longer supported; instead of dtype=arr use "
            "dtype=arr.dtype."
        )
    if dtype is int or dtype is float or dtype is complex or dtype is bool:
        return dtypes.canonicalize_dtype(dtype)
    asked = dtypes.dtype(dtype)
    if dtypes.is_extended(asked):
        return asked
    try:
        got = dtypes.canonicalize_dtype(asked)
    except TypeError:
        raise TypeError(
            f"JAX only supports number, bool, and string dtypes, got dtype {dtype} in {where}"
        ) from None
    if got != asked and config.explicit_x64_dtypes.get() == "warn":
        warnings.warn(
            f"Explicitly requested dtype {asked.name} requested in {where} is not available, and "
            "will be truncated to dtype "
            f"{got.name}. To enable more dtypes, set the jax_enable_x64 configuration option or "
            "the JAX_ENABLE_X64 shell "
            "environment variable.",
            UserWarning,
            stacklevel=4,
        )
    return got


def canonical_shape(shape: Any, what: str = "Shapes") -> tuple[Any, ...]:
    """A shape as a tuple of ints (symbolic sizes pass). Raises TypeError for anything else."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    if is_symbolic(shape):
        return (shape,)
    try:
        return tuple(canonical_size(n) for n in shape)
    except TypeError:
        pass
    if getattr(shape, "shape", None) == () and not isinstance(shape, Tracer):
        try:
            return (operator.index(shape),)
        except TypeError:
            pass
    if isinstance(shape, (tuple, list)) and any(isinstance(n, Tracer) for n in shape):
        origins = "".join(dict.fromkeys(errors.origin(n) for n in shape if isinstance(n, Tracer)))
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape}. "
            "If using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions."
            f"{origins}"
        )
    hint = " Fix: pass an int or a tuple of ints."
    if isinstance(shape, Tracer):
        hint = (
            "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller "
            "subfunctions."
            f"{errors.origin(shape)}\nFix: make the size static, jit(f, static_argnums=...)."
        )
    raise TypeError(
        f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.{hint}"
    )


def canonical_size(n: Any) -> Any:
    """One size, as an int; a symbolic size passes."""
    if type(n) is int:
        return n
    if getattr(n, "is_symbolic_dim", False):
        return n
    if isinstance(n, Tracer):
        raise errors.TracerIntegerConversionError(n)
    return as_int(n, "a size")


def as_int(x: Any, what: str) -> int:
    """An integer of Python or NumPy as an int. TypeError that says what else was given, and for
    what; of a traced value, what it says itself."""
    try:
        return operator.index(x)
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise TypeError(
            f"{str(error).rstrip('.')}: {what} must be an integer, got {_given(x)}."
        ) from None


def as_size(x: Any, what: str) -> Any:
    """An integer as an int, or a symbolic size as it is; TypeError as that of `as_int`."""
    return x if is_symbolic(x) else as_int(x, what)


def as_sequence(x: Any, what: str) -> Any:
    """What holds several values, as it is. TypeError for what holds none, ConcretizationTypeError
    for a traced value without axes."""
    if hasattr(type(x), "__iter__") and getattr(x, "ndim", None) != 0:
        return x
    if isinstance(x, Tracer):
        raise errors.ConcretizationTypeError(
            x, f"{what[0].upper()}{what[1:]} must be static: an integer or a sequence of integers."
        )
    raise TypeError(
        f"{type(x).__name__!r} object is not iterable: {what} must be a sequence of integers, got "
        f"{_given(x)}. Fix: a tuple."
    )


def _given(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if hasattr(x, "shape") else repr(x)


def is_symbolic(n: Any) -> bool:
    return type(n) is not int and getattr(n, "is_symbolic_dim", False)


def check_nonnegative(name: str, what: str, sizes: Sequence[Any]) -> None:
    """Raises TypeError if a size is negative, InconclusiveDimensionOperation if one may be."""
    if any(not n >= 0 for n in sizes):  # asked so, as JAX asks: that is what its message says
        raise TypeError(
            f"{name} {what} must have every element be nonnegative, got {tuple(sizes)}."
        )


def axis_error(axis: int, ndim: int) -> errors.AxisError:
    """What is wrong with an axis, and which there are."""
    have = f"an axis from {-ndim} to {ndim - 1}" if ndim else "no axis: a scalar has none"
    return errors.AxisError(
        f"axis {axis} is out of bounds for array of dimension {ndim}. Fix: use {have}."
    )


def canonical_axis(axis: Any, ndim: int) -> int:
    """A negative axis counted from the end. Raises ValueError out of bounds."""
    k = as_int(axis, "axis")
    if not -ndim <= k < ndim:
        raise axis_error(k, ndim)
    return k + ndim if k < 0 else k


def int_tuple(values: Any) -> tuple[int, ...]:
    """A sequence of axes as a tuple of ints."""
    return tuple(as_int(v, "an axis") for v in as_sequence(values, "the axes"))


def size_of(shape: Sequence[Any]) -> Any:
    """The product of sizes."""
    total: Any = 1
    for n in shape:
        total = total * n
    return total
