"""What every function here does with its arguments: checks that they are arrays, promotes their
dtypes, aligns their ranks.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import config, dtypes
from ..core.avals import ShapedArray, typeof
from ..core.build import is_staged, mention
from ..core.dims import DimExpr
from ..core.explicit import parts_of, said, said_by
from ..core.trace import Tracer
from ..errors import ConcretizationTypeError, TypePromotionError, incompatible_shapes
from ..primitives.common import FLOAT0, as_array, as_int, axis_error, requested_dtype
from ..primitives.convert import convert_element_type, convert_weak
from ..primitives.elementwise import real
from ..primitives.layout import broadcast_in_dim_p, broadcast_to, broadcast_to_rank, converted
from ..runtime.array import ArrayImpl

_F = TypeVar("_F", bound=Callable[..., Any])
PYTHON_SCALARS = (bool, int, float, complex)
_SIMPLE = frozenset(PYTHON_SCALARS)
_ARRAYS = (ArrayImpl, Tracer)
_NO_NUMBERS = "OSUMm"  # NumPy's kinds of objects, texts and times
# Dtypes that are the same whatever the flags say.
_CANONICAL_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.complex64)))
_CANONICAL = _CANONICAL_FLOATS | frozenset(
    map(np.dtype, (np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32))
)
_FLOAT32 = type(np.dtype("float32"))

# How a number joins an array: (type of the array, kind of number, flags) -> the dtype and weakness
# of both, None where the array itself must change.
_joining: dict[tuple[Any, ...], tuple[Any, bool] | None] = {}
_MOST_JOINS = 4096


def is_arraylike(x: Any) -> bool:
    """Is `x` an array, a tracer, a NumPy array or scalar, a Python number, or something with
    `__jax_array__`?
    """
    if type(x) in _SIMPLE or isinstance(x, (np.ndarray, np.generic, *PYTHON_SCALARS)):
        return True
    if hasattr(x, "__jax_array__"):  # asked first: proxies of arrays may forward any name
        return True
    aval = getattr(x, "aval", None)
    return aval is not None and not getattr(aval, "is_reference", False)


def check_arraylike(name: str, *args: Any, none_ok: bool = False) -> None:
    """TypeError, naming the position, unless every argument is an array or a number."""
    for k, x in enumerate(args):
        if type(x) in _SIMPLE or isinstance(x, _ARRAYS):
            continue
        if is_arraylike(x) or (none_ok and x is None):
            if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in _NO_NUMBERS:
                raise TypeError(
                    f"{name} requires arrays of numbers, got dtype {x.dtype} at position {k}. "
                    "Fix: x.astype(float), if numbers are what it holds."
                )
            continue
        fix = " Fix: pass an array or a number."
        if hasattr(x, "aval"):
            fix = " Fix: read the reference, ref[...]."
        elif isinstance(x, (list, tuple)):
            fix = " Fix: convert it with jnp.asarray(...)."
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {type(x)} at position {k}.{fix}"
        )


def unwrap(x: Any) -> Any:
    """The array that an object with `__jax_array__` stands for; anything else unchanged."""
    if isinstance(x, _ARRAYS):
        return x
    while hasattr(x, "__jax_array__"):  # arrays have none, though proxies of them may have an aval
        x = x.__jax_array__()
    return x


def one_array(name: str, x: Any) -> Any:
    """An argument, checked, as an array."""
    check_arraylike(name, x)
    return as_array(unwrap(x))


def shape_of(x: Any) -> tuple[Any, ...]:
    """The shape of any array-like."""
    if type(x) in _SIMPLE:
        return ()
    shape = getattr(x, "shape", None)
    if shape is None:
        shape = () if isinstance(x, PYTHON_SCALARS) else typeof(unwrap(x)).shape
    return shape


def ndim_of(x: Any) -> int:
    return len(shape_of(x))


def dtype_of(x: Any) -> Any:
    """The canonical dtype of an array-like."""
    return typeof(unwrap(x)).dtype


def is_weak(x: Any) -> bool:
    return bool(typeof(x).weak_type)


def is_concrete(x: Any) -> bool:
    """Can the value be read now?"""
    return not isinstance(x, Tracer)


def concrete(x: Any, what: str) -> Any:
    """`x`, which must not be traced; ConcretizationTypeError saying what needs it."""
    while isinstance(x, Tracer) and x.is_concrete():  # a size has no derivative to be lost
        x = x.primal
    if isinstance(x, Tracer):
        raise ConcretizationTypeError(x, what)
    return x


# --- dtypes ---
def to_type(x: Any, dtype: Any, weak: bool) -> Any:
    """An array-like as an operand of exactly this type. Numbers are converted on the host, and
    NumPy arrays too unless a program is being written: that mentions them as they are.
    """
    kind = type(x)
    if kind in _SIMPLE:
        return _convert_number(x, kind, dtype, weak)
    if isinstance(x, np.generic | np.ndarray) and not weak and not dtypes.is_extended(dtype):
        if x.ndim and is_staged():
            return convert_weak(as_array(x), dtype, False)
        y: Any = x if x.dtype == dtype else converted(canonical(x), dtype)
        return y[()] if not y.ndim else y
    x = unwrap(x)
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return convert_weak(x, dtype, weak)


def canonical(x: Any) -> Any:
    """An array or number of NumPy's as a program takes it: 64 bits only where x64 is on."""
    dtype = dtypes.canonicalize_dtype(x.dtype)
    return x if x.dtype == dtype else x.astype(dtype)


def _convert_number(x: Any, kind: type, dtype: Any, weak: bool) -> Any:
    if kind is int and not -(2**31) <= x < 2**31:
        typeof(x)  # OverflowError: programs take no such number, whatever becomes of it
    if not weak:
        if kind is float and -1e30 < x < 1e30 and type(dtype) is _FLOAT32:
            return np.float32(x)
        if kind is not int:
            return converted(canonical(np.asarray(x)), dtype)[()]
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype)[()]  # integers wrap around, as everywhere else
    if dtypes.is_bool(dtype):
        return bool(x)
    for scalar in (int, float, complex):
        if dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[scalar]) == dtype:
            return x if kind is scalar else scalar(x)
    return convert_weak(as_array(x), dtype, True)


def wide_ints_as_floats(*args: Any) -> list[Any]:
    """Python's integers that no default integer need hold, as floats of the dtype that smaller ones
    give: for functions of floats whose steps are not one program.
    """
    wide = [type(x) is int and not -(2**31) <= x < 2**31 for x in args]
    if not any(wide):
        return list(args)
    smaller = (0 if w else unwrap(x) for x, w in zip(args, wide, strict=True))
    dtype, weak = dtypes.result_type(*smaller, return_weak_type_flag=True)
    kind = float if weak else inexact(dtype).type
    return [kind(x) if w else x for x, w in zip(args, wide, strict=True)]


def shown_as(name: str) -> Callable[[_F], _F]:
    """What programs call a function that is jitted: by the name of the public one that it is of."""

    def renamed(f: _F) -> _F:
        f.__name__ = name
        return f

    return renamed


def promotes_freely(f: Any) -> Any:
    """A function whose own steps mix dtypes and ranks, whatever the flags allow its caller: they
    are about the arguments, which the function checks where it should."""

    @functools.wraps(f)
    def freely(*args: Any, **kwargs: Any) -> Any:
        strict = config.numpy_dtype_promotion.get() != "standard"
        if not strict and config.numpy_rank_promotion.get() == "allow":
            return f(*args, **kwargs)
        with config.numpy_dtype_promotion("standard"), config.numpy_rank_promotion("allow"):
            return f(*args, **kwargs)

    return freely


def promote_dtypes(*args: Any) -> list[Any]:
    """The operands converted to their common dtype; weakly typed if all are."""
    if len(args) == 1:
        x = args[0]
        if isinstance(x, _ARRAYS) or type(x) in _SIMPLE:
            return [x]
    elif len(args) == 2 and isinstance(args[0], _ARRAYS) and isinstance(args[1], _ARRAYS):
        a, b = args[0].aval, args[1].aval
        alike = type(a) is type(b) is ShapedArray and a.weak_type == b.weak_type
        if alike and a.dtype == b.dtype and a.dtype in _CANONICAL:
            return list(args)
    args = tuple(unwrap(x) for x in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    mention(args)
    return [to_type(x, dtype, weak) for x in args]


def refuse_keys(dtype: Any) -> None:
    """TypeError for a dtype that is none of numbers."""
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type of numbers. "
            "Fix: random.key_data(key) gives the words of a key."
        )


def inexact(dtype: Any) -> Any:
    """The dtype itself if it is floating or complex, else float32, or for 64-bit integers the
    default float."""
    if dtypes.is_inexact(dtype):
        return dtype
    refuse_keys(dtype)
    wide = np.dtype(dtype).itemsize == 8 and not dtypes.is_bool(dtype)
    return dtypes.canonicalize_dtype(np.float64 if wide else np.float32)


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """As `promote_dtypes`, with integers and bools promoted to the default float."""
    if len(args) == 1 and isinstance(args[0], _ARRAYS) and args[0].aval.dtype in _CANONICAL_FLOATS:
        return list(args)
    args = tuple(unwrap(x) for x in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    weak = weak and not dtypes.is_bool(dtype)
    mention(args)
    return [to_type(x, inexact(dtype), weak) for x in args]


def as_complex(dtype: Any) -> Any:
    """The complex dtype that holds the numbers of a floating or complex one."""
    wide = dtype in (np.dtype("float64"), np.dtype("complex128"))
    return np.dtype("complex128" if wide else "complex64")


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """As `promote_dtypes_inexact`, with floats promoted to complex numbers."""
    args = tuple(unwrap(x) for x in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    weak = weak and not dtypes.is_bool(dtype)
    mention(args)
    return [as_array(to_type(x, as_complex(inexact(dtype)), weak)) for x in args]


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """As `promote_dtypes`, with bools promoted to int32 (under x64 too)."""
    args = tuple(unwrap(x) for x in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    if dtypes.is_bool(dtype):
        dtype = np.dtype(np.int32)
    mention(args)
    return [to_type(x, dtype, weak) for x in args]


# --- shapes ---
def promote_shapes(name: str, *args: Any) -> list[Any]:
    """Gives every operand that is not a scalar the same rank, by leading axes of size 1."""
    shapes = [shape_of(x) for x in args]
    if not check_ranks(name, shapes):
        return list(args)
    rank = max(map(len, shapes))
    return [broadcast_to_rank(x, rank) if s and len(s) != rank else x for x, s in zip(args, shapes)]


def check_ranks(name: str, shapes: Sequence[tuple[Any, ...]]) -> bool:
    """Whether operands that are no scalars have several ranks. Raises ValueError where these do not
    fit, or as the flag says."""
    if len({len(s) for s in shapes if s}) < 2:
        return False
    check_rank_promotion(name, shapes)
    check_broadcast(shapes)
    return True


def check_broadcast(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape to which all broadcast. Raises ValueError if there is none."""
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes)):
        big = [n for n in sizes if type(n) is not int or n != 1]
        if any(n is not big[0] and n != big[0] for n in big[1:]):
            raise incompatible_shapes(shapes)
        out.append(big[0] if big else 1)
    return tuple(out)


def check_rank_promotion(name: str, shapes: Sequence[tuple[Any, ...]]) -> None:
    """Raises or warns, as the flag says, of operands of several ranks."""
    mode = config.numpy_rank_promotion.get()
    if mode == "allow":
        return
    text = " ".join(map(str, (s for s in shapes if s)))
    said = (
        f"Operands could not be broadcast together for {name} on shapes {text} and with the config "
        "option "
        "jax_numpy_rank_promotion='raise'."
    )
    if mode == "raise":
        raise ValueError(
            f"{said} Fix: add the axes explicitly, as in x[None, :], or set the option to 'allow'."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {text}. Set the "
        "jax_numpy_rank_promotion config option to 'allow' to disable this warning.",
        stacklevel=4,
    )


def promoted(name: str, promote: Callable[..., list[Any]], args: Any) -> list[Any]:
    """`promote(*args)`; TypeError that names the function for keys and float0, which have no type
    with others."""
    try:
        return promote(*args)
    except (TypeError, TypePromotionError, ValueError):  # float0 is in no table of dtypes
        found = [dtype_of(x) for x in args]
        if dtypes.float0 in found:
            raise TypeError(f"Called {name} with a float0 array. {FLOAT0}") from None
        if not any(map(dtypes.is_extended, found)):
            raise
    names = ", ".join(map(str, found))
    raise TypeError(f"{name} does not accept dtypes {names}. Fix: random.key_data(keys) are words.")


class _Typed:
    """Something of a type."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval


def _joined(aval: Any, kind: type) -> tuple[Any, bool] | None:
    """The dtype and weakness with which a number of Python's joins an array that stays as it is;
    None if it would not."""
    if type(aval) is not ShapedArray:
        return None
    key = (aval, kind, config.enable_x64.get(), config.numpy_dtype_promotion.get())
    if key in _joining:
        return _joining[key]
    try:
        dtype, weak = dtypes.result_type(_Typed(aval), kind, return_weak_type_flag=True)
    except (TypeError, TypePromotionError):
        return None
    same = dtype == aval.dtype and weak == aval.weak_type
    if len(_joining) >= _MOST_JOINS:
        _joining.clear()
    found = _joining[key] = (dtype, weak) if same else None
    return found


def promote_args(name: str, *args: Any) -> list[Any]:
    """Checked, of one dtype and of one rank (scalars stay scalars)."""
    if len(args) == 2:
        x, y = args
        if isinstance(x, _ARRAYS):
            if type(y) in _SIMPLE:
                joined = _joined(x.aval, type(y))
                if joined is not None:
                    return [x, _convert_number(y, type(y), *joined)]
            elif isinstance(y, _ARRAYS):
                a, b = x.aval, y.aval
                if a is b or (a == b and type(a) is ShapedArray):
                    return [x, y]
        elif type(x) in _SIMPLE and isinstance(y, _ARRAYS):
            joined = _joined(y.aval, type(x))
            if joined is not None:
                return [_convert_number(x, type(x), *joined), y]
    check_arraylike(name, *args)
    return promote_shapes(name, *promoted(name, promote_dtypes, args))


def promote_args_inexact(name: str, *args: Any) -> list[Any]:
    """`promote_args` to a floating or complex dtype."""
    check_arraylike(name, *args)
    return promote_shapes(name, *promoted(name, promote_dtypes_inexact, args))


def promote_args_numeric(name: str, *args: Any) -> list[Any]:
    """`promote_args` to a dtype other than bool."""
    check_arraylike(name, *args)
    return promote_shapes(name, *promoted(name, promote_dtypes_numeric, args))


def broadcast_all(*args: Any) -> list[Any]:
    """Every operand broadcast to the common shape."""
    shapes = [shape_of(x) for x in args]
    if len({*shapes}) <= 1:
        return [as_array(x) for x in args]
    shape = check_broadcast(shapes)
    if said[0]:
        lies = _layout_of_all(args, shape)
        if lies is not None:
            return [_broadcast_lying(x, shape, lies) for x in args]
    return [broadcast_to(x, shape) for x in args]


def _layout_of_all(args: Sequence[Any], shape: Any) -> Any:
    """How operands lie together over mesh axes of explicit type: for each axis as the first that
    says so and is not stretched. None if none says anything."""
    avals = [typeof(x) for x in args]
    found = said_by(avals)
    if found is None:
        return None
    parts: list[Any] = [None] * len(shape)
    for aval in avals:
        start = len(shape) - len(aval.shape)
        for k, (n, part) in enumerate(zip(aval.shape, parts_of(aval), strict=True), start):
            if n == shape[k] and parts[k] is None:
                parts[k] = part
    return found.update(
        spec=found.spec.update(partitions=parts, unreduced=frozenset(), reduced=frozenset())
    )


def _broadcast_lying(x: Any, shape: Any, lies: Any) -> Any:
    ndim = len(shape_of(x))
    if shape_of(x) == shape and parts_of(typeof(x)) == tuple(lies.spec):
        return as_array(x)
    last = tuple(range(len(shape) - ndim, len(shape)))
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=last, sharding=lies)


def canonical_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """A negative axis counted from the end; ValueError out of range."""
    if isinstance(axis, Tracer):
        raise ConcretizationTypeError(
            axis, f"The problem arose with the `{what}` argument, which must be static."
        )
    k = as_int(axis, what)
    if not -ndim <= k < ndim:
        raise axis_error(k, ndim)
    return k % ndim if ndim else k


def canonical_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """An axis, a sequence of axes, or None for all, as non-negative ints."""
    if axis is None:
        return tuple(range(ndim))
    axis = static_axes(axis)
    if isinstance(axis, tuple):
        return tuple(canonical_axis(a, ndim) for a in axis)
    return (canonical_axis(axis, ndim),)


def static_axes(axis: Any) -> Any:
    """One axis as an int, any iterable of axes as a tuple of ints, read once and hashable; None,
    names of mapped axes and tracers, which others refuse, stay."""
    if axis is None or type(axis) is int or isinstance(axis, str | Tracer):
        return axis
    try:
        return operator.index(axis)
    except TypeError:
        several = isinstance(axis, Iterable) and getattr(axis, "ndim", None) != 0
        return tuple(map(static_axes, axis)) if several else axis


def user_dtype(dtype: Any, name: str) -> Any:
    """A dtype that a user asked for, canonical (None passes)."""
    if dtype is None:
        return None
    return requested_dtype(dtype, name)


def real_where_asked(x: Any, dtype: Any) -> Any:
    """`x`, of complex numbers the real part, with a warning, if `dtype` is not complex."""
    if dtypes.is_complex(dtype) or not dtypes.is_complex(typeof(x).dtype):
        return x
    warnings.warn(
        "Casting from complex to real dtypes will soon raise a ValueError. Please first use "
        "jnp.real or jnp.imag to take the real/imaginary component of your input.",
        DeprecationWarning,
        stacklevel=4,
    )
    return real(x)


def refuse_out(name: str, out: Any) -> None:
    """NotImplementedError if `out` was given: arrays do not change."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{name} is not supported. Fix: arrays are immutable; use "
            "the returned value."
        )


def index_dtype(size: Any) -> Any:
    """The integer dtype of indices into an axis of this size: 64 bits only where 32 do not
    reach.
    """
    if type(size) is int and size >= 2**31 and config.enable_x64.get():
        return np.dtype("int64")
    return np.dtype("int32")


def literal(like: Any, value: Any) -> Any:
    """A number of the dtype of `like`; weak if that is a weak scalar (beside an array, as in JAX,
    it decides the type).
    """
    aval = typeof(like)
    if isinstance(value, DimExpr):  # its value in the program
        return convert_element_type(value, aval.dtype)
    if not aval.weak_type or aval.shape:
        with np.errstate(over="ignore"):  # infinite, as in JAX
            return np.asarray(value).astype(aval.dtype)[()]
    return to_type(value.item() if isinstance(value, np.generic) else value, aval.dtype, True)


def given(**kwargs: Any) -> dict[str, Any]:
    """The keyword arguments that are not None."""
    return {k: v for k, v in kwargs.items() if v is not None}
