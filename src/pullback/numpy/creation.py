"""Making arrays: of values, of one number, of buffers and files."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.placement import check_one_place, elsewhere, lay_out, placed
from ..core.avals import ShapedArray, typeof
from ..core.build import array_of, staged
from ..core.dims import DimExpr
from ..core.trace import Tracer
from ..dtypes import default_float
from ..primitives.common import as_array, as_int, canonical_shape
from ..primitives.convert import convert_weak, copy_p, warn_of_real_parts
from ..primitives.dims import dim_as_value_p
from ..primitives.keys import is_key_dtype
from ..runtime.array import ArrayImpl, make_array
from ..runtime.capsules import check_copied, view_of
from ..runtime.devices import devices
from .manipulation import broadcast_to
from .util import (
    check_arraylike,
    is_arraylike,
    ndim_of,
    real_where_asked,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


# --- of values ---
def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array of a number, a nested sequence of numbers and arrays, an array, or a buffer.
    `copy=False` shares memory where it can.

    `object`: what becomes an array; `order`: "K", "C" or "A", all of them C order;
    `ndmin`: axes of size 1
    are put in front up to as many. `device`: where the result lies, a device or a sharding;
    `out_sharding`: the sharding of the result.

    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)

    Raises TypeError for what is not numeric, ValueError for ragged sequences.
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(
            array(object, dtype, *args, copy=copy, order=order, ndmin=ndmin),
            "jnp.array",
            out_sharding,
            follows=True,
        )
    if args:  # the older order of arguments
        warnings.warn(
            "Passing the copy, order, and ndmin arguments to jnp.array positionally is deprecated. "
            "Use keyword arguments instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        if len(args) > 3:
            raise TypeError(f"array() takes from 1 to 5 positional arguments, got {2 + len(args)}")
        given: list[Any] = [copy, order, ndmin]
        given[: len(args)] = args
        copy, order, ndmin = given
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(
            f"Only implemented for order='K', got order={order!r}. Fix: arrays have no memory "
            "order; drop it."
        )
    out = None
    dtype = None if dtype is None else _checked_dtype(dtype)
    if type(object) is list or type(object) is tuple:
        out = _of_numbers(object, dtype)
    elif type(object) is np.ndarray and object.dtype in _SAME:
        out = make_array(object, None, copy) if dtype is None or dtype == object.dtype else None
    if out is None:
        out = _array(object, dtype, copy)
    if type(out) is ArrayImpl and out is not object:
        if dtype is None and type(object) is np.ndarray:
            out = array_of(object, lambda _: out)
        out = staged(out, new=True)
    if ndmin and ndmin > ndim_of(out):
        out = lax.expand_dims(out, tuple(range(ndmin - ndim_of(out))))
    return placed(out, device)


# Dtypes that mean the same with and without 64-bit types, by what users call them.
_CHECKED: dict[Any, Any] = {}


def _checked_dtype(dtype: Any, name: str = "array") -> Any:
    """The dtype that a user means. TypeError for what is none that arrays have."""
    try:
        found = _CHECKED.get(dtype)
    except TypeError:  # an array, in place of its dtype
        return _user_dtype(dtype, name)
    if found is None:
        found = _user_dtype(dtype, name)
        if found == dtypes.dtype(dtype) and found.name in _NARROW:
            _CHECKED[dtype] = found
    return found


_NARROW = frozenset("bool int8 int16 int32 uint8 uint16 uint32 float16 bfloat16 float32".split())
_SAME = frozenset(map(dtypes.dtype, _NARROW))


def _user_dtype(dtype: Any, name: str) -> Any:
    try:
        dtypes.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"data type {dtype!r} not understood; use a dtype such as jnp.float32 or its name"
        ) from None
    return user_dtype(dtype, name)


def _array(x: Any, dtype: Any, copy: bool) -> Any:
    if hasattr(x, "__jax_array__"):
        x = unwrap(x)
        dtype = typeof(x).dtype if dtype is None else dtype  # what the object holds is not weak
    if getattr(x, "aval", None) is not None:
        if isinstance(getattr(x, "has_no_value", None), str):  # a sparse array
            raise ValueError(f"setting an array element with a sequence. {x.has_no_value}")
        check_arraylike("array", x)
        return _of_array(x, dtype, copy)
    kind = type(x)
    if kind in (bool, int, float, complex):
        return _of_number(x, kind, dtype)
    if isinstance(x, np.ndarray | np.generic):
        if kind is not np.ndarray and not copy and dtype is None and np.ma.is_masked(x):
            typeof(x)  # ValueError: a copy is of the numbers, masked ones too, as NumPy's is
        return _of_numpy(x, dtype, copy)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    if isinstance(x, list | tuple):
        return _of_sequence(x, dtype)
    if isinstance(x, DimExpr):
        return _of_array(dim_as_value_p.bind(dim=x), dtype, copy)
    if isinstance(x, bool | int | float | complex):
        return _of_number(
            x, next(t for t in (bool, int, float, complex) if isinstance(x, t)), dtype
        )
    return _of_foreign(x, dtype, copy)


def _of_array(x: Any, dtype: Any, copy: bool) -> Any:
    out = copy_p.bind(x) if copy else x
    if dtype is None:
        return out
    return (
        lax.convert_element_type(out, dtype)
        if typeof(out).dtype != dtype or typeof(out).weak_type
        else out
    )


def _of_number(x: Any, kind: type, dtype: Any) -> Any:
    if dtype is not None:
        _check_real([x], dtype)
        return make_array(_of_python([x], x, dtype), ShapedArray((), dtype))
    d = dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind])
    if kind is int and not np.iinfo(d).min <= x <= np.iinfo(d).max:
        raise OverflowError(f"Python int {x} too large to convert to {d.name}")
    return make_array(np.asarray(x, d), ShapedArray((), d, weak_type=kind is not bool))


def _of_numpy(x: Any, dtype: Any, copy: bool) -> Any:
    x = np.asarray(x)
    if x.dtype == dtypes.float0 and dtype in (None, dtypes.float0):
        return x.copy() if copy else x  # tangents of integers stay NumPy's
    if x.dtype.kind in "OSUMm" and dtype is not None and not dtypes.is_extended(dtype):
        x = x.astype(dtype)  # NumPy reads numbers from text, dates and objects
    if x.dtype.kind in "OSUMm" or (x.dtype.kind == "V" and x.dtype.names):
        raise TypeError(
            f"Value {x.tolist()!r} with dtype {x.dtype} is not a valid JAX array type. Only arrays "
            "of numeric types are supported by JAX. Fix: convert it to numbers, x.astype(float)."
        )
    d = dtypes.canonicalize_dtype(x.dtype) if dtype is None else dtype
    if dtypes.is_extended(d):
        raise TypeError(
            f"a NumPy array cannot be converted to {d.name}; use random.wrap_key_data for keys"
        )
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(d) and not dtypes.is_bool(d):
        warn_of_real_parts()
        x = x.real
    if x.dtype != d:
        x, copy = x.astype(d), False
    return make_array(x, ShapedArray(x.shape, d), copy)


def _check_real(numbers: list[Any], dtype: Any) -> None:
    """Python's complex numbers have no real dtype, as in NumPy; arrays of them lose a part."""
    if dtypes.is_complex(dtype) or dtype == np.bool_:
        return
    for x in numbers:
        if type(x) is complex:
            raise TypeError(
                f"the complex number {x} cannot be converted to {np.dtype(dtype).name}. "
                "Fix: take its real part, x.real, or give a complex dtype."
            )


_NUMBER_KINDS: dict[frozenset[type], type] = {
    frozenset({kind}): kind for kind in (bool, int, float, complex)
}


def _of_numbers(x: Any, dtype: Any) -> Any:
    """An array of a nested sequence of Python numbers of one kind; None for other sequences."""
    items = x
    kinds = frozenset(map(type, items))
    while kinds and kinds <= _SEQUENCES:
        items = list(chain.from_iterable(items))
        kinds = frozenset(map(type, items))
    kind = _NUMBER_KINDS.get(kinds)
    if kind is None:
        return None
    d = dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind])
    if dtype is not None and dtype != d:
        return None
    return make_array(np.array(x, d))


_SEQUENCES = frozenset({list, tuple})


def is_settled(object: Any = None, dtype: Any = None, *args: Any, **kwargs: Any) -> bool:
    """Are the types of `array`'s arguments all that its result depends on, apart from values?
    Then such calls can be one program."""
    x = kwargs.get("a", object)
    kind = type(x)
    if kind is ArrayImpl:
        return True
    if kind is np.ndarray:
        # Larger ones may share their memory.
        return x.nbytes <= 256 and x.dtype in _SAME and (dtype is None or dtype == x.dtype)
    items: Any = (x,)
    for _ in range(4):
        if len(items) > 16:  # every number would be an operand
            return False
        kinds = frozenset(map(type, items))
        number = _NUMBER_KINDS.get(kinds)
        if number is not None:
            return dtype is None or dtype == dtypes.canonicalize_dtype(
                dtypes.python_scalar_dtypes[number]
            )
        if not kinds or not kinds <= _SEQUENCES:
            return False
        items = list(chain.from_iterable(items))
    return False


def _leaves(x: Any, out: list[Any]) -> list[Any]:
    for e in x:
        if isinstance(e, list | tuple):
            _leaves(e, out)
        else:
            out.append(e)
    return out


def _of_sequence(x: Any, dtype: Any) -> Any:
    leaves = [unwrap(e) if hasattr(e, "__jax_array__") else e for e in _leaves(x, [])]
    if any(e is None for e in leaves):
        raise ValueError("None is not a valid value for jnp.array. Fix: write jnp.nan for it.")
    if dtype is None and leaves:
        dtype = _sequence_dtype([0 if isinstance(e, DimExpr) else e for e in leaves])
    if any(isinstance(e, Tracer | DimExpr) for e in leaves) or dtypes.is_extended(dtype):
        return _joined(x, dtype)
    d = default_float() if dtype is None else dtype
    _check_real(leaves, d)
    plain = _hosted(x)
    try:
        values = _of_python(leaves, plain, d)
    except ValueError:  # of several shapes: among arrays the shapes are to be named
        if any(isinstance(e, ArrayImpl) for e in leaves):
            return _joined(x, dtype)
        raise
    return make_array(values, ShapedArray(values.shape, d))


def _joined(x: Any, dtype: Any) -> Any:
    return lax.concatenate([lax.expand_dims(_element(e, dtype), (0,)) for e in x], 0)


def _element(x: Any, dtype: Any) -> Any:
    """An element of a sequence as an array: a number stays one, which programs write out."""
    made = _array(x, dtype, False)
    is_number = isinstance(x, bool | int | float | complex) and not dtypes.is_extended(made.dtype)
    return np.asarray(made)[()] if is_number else made


def _of_python(leaves: list[Any], x: Any, dtype: Any) -> Any:
    """NumPy's array of `x`, whose numbers are `leaves`. As NumPy, raises OverflowError for one of
    Python's that integers of the dtype do not hold, ValueError for NaN."""
    numbers = (int, float, np.integer, np.floating)
    if dtypes.is_integer(dtype) and any(isinstance(e, numbers) for e in leaves):
        return np.array(x, dtype)
    return np.array(x).astype(dtype)


def _hosted(x: Any) -> Any:
    """`x` with NumPy's arrays in place of others; scalars stay, as NumPy checks that they fit."""
    if isinstance(x, list | tuple):
        return [_hosted(e) for e in x]
    x = unwrap(x)
    if isinstance(x, np.generic) or not (hasattr(x, "shape") or hasattr(x, "__array__")):
        return x
    return np.asarray(x)


def _sequence_dtype(leaves: list[Any]) -> Any:
    for e in leaves:
        if not is_arraylike(e):
            made = np.asarray(e)
            if made.dtype.kind not in "biufcV":
                raise TypeError(
                    f"Value {e!r} with dtype {made.dtype} is not a valid JAX array type. Only "
                    "arrays of numeric types are supported by JAX."
                )
    kinds = {type(e) for e in leaves}
    if len(kinds) == 1 and kinds <= {bool, int, float, complex}:
        return dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kinds.pop()])
    # Numbers of derived classes count as arrays here, with a width: not as Python's own numbers do.
    return dtypes.result_type(
        *(e if is_arraylike(e) and not _is_derived(e) else np.asarray(e) for e in leaves)
    )


def _is_derived(x: Any) -> bool:
    """Is `x` a number of a class derived from Python's, such as a member of an `enum.IntEnum`?"""
    return dtypes.python_scalar_type(x) not in (None, type(x))


def _of_foreign(x: Any, dtype: Any, copy: bool) -> Any:
    """Buffers, other libraries' arrays, and anything that NumPy takes."""
    if hasattr(x, "__array__"):
        return _of_numpy(np.asarray(x), dtype, copy)
    if isinstance(x, str | bytes) and dtype is not None and not dtypes.is_extended(dtype):
        values = np.array(x).astype(dtype)  # numbers are read from text, as NumPy does
        return make_array(values, ShapedArray((), dtype))
    if isinstance(x, bytes):
        raise TypeError(
            f"Value {str(x)!r} with dtype {np.asarray(x).dtype} is not a valid JAX array "
            "type. Only arrays of numeric types are "
            "supported by JAX. Fix: jnp.frombuffer(x, dtype='uint8')."
        )
    try:
        view = memoryview(x)
    except TypeError:
        view = None
    made = np.asarray(view) if view is not None else np.asarray(x)
    if made.dtype.kind in "OSUMm":
        raise TypeError(
            f"Value '{x}' with dtype {made.dtype} is not a valid JAX array type. Only arrays of "
            "numeric types are supported by JAX."
            if not isinstance(x, str)
            else f"Value {x!r} with dtype {made.dtype} is not a valid JAX array type. Only arrays "
            "of numeric types are supported by JAX."
        )
    return _of_numpy(made, dtype, copy)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`a` as an array; no copy is made unless asked for or needed.

    `dtype`: by default that of `a`, 64-bit types as 32-bit ones unless x64 is on. Raises TypeError
    for what is no array and cannot be made one.

    `order`: "K", "C" or "A", all of them C order. `device`: where the result lies, a device or
    a sharding;
    `out_sharding`: the sharding of the result.

    >>> jnp.asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    if dtype is not None:
        dtype = _checked_dtype(dtype, "asarray")
    return array(
        a, dtype=dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding
    )


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of `a`.

    `a`: anything that `asarray` accepts; shape and dtype stay.

    >>> a = jnp.arange(3)
    >>> b = jnp.copy(a)
    >>> b is a, b
    (False, Array([0, 1, 2], dtype=int32))
    """
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """`x` with another dtype. Complex to bool tests for zero; complex to real drops the imaginary
    part, with a warning.

    >>> jnp.astype(jnp.array([1.7, -1.7]), jnp.int32)
    Array([ 1, -1], dtype=int32)
    """
    check_arraylike("astype", x)
    x = as_array(unwrap(x))
    own = typeof(x).dtype
    d = user_dtype(dtype, "astype") if dtype is not None else default_float()
    if dtypes.is_complex(own) and not dtypes.is_complex(d):
        if dtypes.is_bool(d):
            zero = to_type(0j, own, False)
            return placed(lax.ne(x, zero), device)
        x = real_where_asked(x, d)
    out = convert_weak(x, d, False)
    return placed(array(out, copy=True) if copy and out is x else out, device)


# --- of one number ---
def _shape(shape: Any) -> tuple[Any, ...]:
    if (
        getattr(shape, "shape", None) == ()
        and not isinstance(shape, Tracer)
        and hasattr(shape, "__index__")
    ):
        shape = as_int(shape, "shape")
    return canonical_shape(shape)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Zeros. `shape` is an int or a tuple of ints.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.zeros((2, 2), dtype=int)
    Array([[0, 0],
           [0, 0]], dtype=int32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(zeros(shape, dtype), "jnp.zeros", out_sharding)
    return placed(lax.full(_shape(shape), 0, _or_float(shape, dtype, "zeros")), device, filled=True)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Ones.

    `shape`: an int or a tuple; `dtype`: by default the float type.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.ones((2, 2))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(ones(shape, dtype), "jnp.ones", out_sharding)
    return placed(lax.full(_shape(shape), 1, _or_float(shape, dtype, "ones")), device, filled=True)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of no particular values: zeros.

    `shape`: an int or a tuple; `dtype`: by default the float type.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.empty((2, 0)).shape
    (2, 0)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(empty(shape, dtype), "jnp.zeros", out_sharding)
    return placed(lax.full(_shape(shape), 0, _or_float(shape, dtype, "empty")), device, filled=True)


def _or_float(shape: Any, dtype: Any, name: str) -> Any:
    if dtype is None:
        return default_float()
    if isinstance(shape, int) and isinstance(dtype, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write "
            f"`jax.numpy.{name}({shape}, {dtype})` when you meant `jax.numpy.{name}(({shape}, "
            f"{dtype}))`, i.e. with a single tuple argument for the shape?"
        )
    return user_dtype(dtype, name)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """`fill_value`, which may be an array, broadcast to `shape`.

    `shape`: an int or a tuple; `dtype`: by default that of `fill_value`.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.full((2, 3), jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [1, 2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(full(shape, fill_value, dtype), "full", out_sharding)
    check_arraylike("full", fill_value)
    d = user_dtype(dtype, "full")
    shape = _shape(shape)
    fill_value = unwrap(fill_value)
    if not shape_of(fill_value):
        return placed(lax.full(shape, fill_value, d), device, filled=True)
    out = as_array(fill_value) if d is None else to_type(fill_value, d, False)
    return placed(broadcast_to(out, shape), device, filled=True)


def _like(name: str, a: Any, fill: Any, dtype: Any, shape: Any, device: Any) -> Any:
    check_like(name, a)
    shape = None if shape is None else _shape(shape)
    d = user_dtype(dtype, name)
    if _tells(a) or is_key_dtype(getattr(a, "dtype", None)):
        d = a.dtype if d is None else d
        if shape is None and device is None and not is_arraylike(a):
            device = getattr(a, "sharding", None)  # a type says where an array is to lie
        return placed(lax.full(a.shape if shape is None else shape, fill, d), device, filled=True)
    return placed(lax.full_like(unwrap(a), fill, d, shape), device, filled=True)


def _tells(a: Any) -> bool:
    """Has it a shape and a dtype without being an array? Then it need not be made one."""
    return not is_arraylike(a) or (
        hasattr(a, "__jax_array__") and hasattr(a, "shape") and hasattr(a, "dtype")
        and not hasattr(a, "aval")
    )  # fmt: skip


def check_like(name: str, a: Any) -> None:
    """TypeError unless `a` has a shape and a dtype."""
    if not (hasattr(a, "shape") and hasattr(a, "dtype")):
        check_arraylike(name, a)


def zeros_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Zeros of the shape and dtype of `a`.

    `dtype` and `shape` replace those of `a`.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.zeros_like(jnp.array([1.5, 2.5]), dtype=jnp.int32)
    Array([0, 0], dtype=int32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(zeros_like(a, dtype, shape), "jnp.zeros_like", out_sharding)
    return _like("zeros_like", a, 0, dtype, shape, device)


def ones_like(
    a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """Ones of the shape and dtype of `a`.

    `dtype` and `shape` replace those of `a`.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.ones_like(jnp.array([[1.5, 2.5]]))
    Array([[1., 1.]], dtype=float32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(ones_like(a, dtype, shape), "jnp.ones_like", out_sharding)
    return _like("ones_like", a, 1, dtype, shape, device)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros of the shape and dtype of `prototype`.

    `dtype` and `shape` replace those of `prototype`.

    >>> jnp.empty_like(jnp.array([1, 2])).dtype
    dtype('int32')
    """
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`fill_value` in the shape and dtype of `a`.

    `dtype` and `shape` replace those of `a`; `fill_value` is converted to the dtype of `a`
    otherwise.

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.full_like(jnp.array([1, 2, 3]), 7)
    Array([7, 7, 7], dtype=int32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(full_like(a, fill_value, dtype, shape), "full_like", out_sharding)
    check_like("full_like", a)
    if not is_arraylike(fill_value):
        raise TypeError(
            f"full_like requires ndarray or scalar arguments, got {type(fill_value)} at position 1."
        )
    if not shape_of(fill_value):
        return _like("full_like", a, unwrap(fill_value), dtype, shape, device)
    target = shape_of(a) if shape is None else _shape(shape)
    d = typeof(a).dtype if dtype is None else user_dtype(dtype, "full_like")
    return full(target, fill_value, d, device=device)


# --- of buffers and files ---
def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    r"""The array whose bytes a buffer holds.

    `count` elements (-1: all), from byte `offset` on.

    >>> jnp.frombuffer(b"\x01\x02\x03", dtype=jnp.uint8, offset=1)
    Array([2, 3], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer=buffer, dtype=dtype, count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Refused: reading a file is not a pure function.

    >>> jnp.fromfile("data.bin")
    Traceback (most recent call last):
        ...
    NotImplementedError: ...
    """
    raise NotImplementedError(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other JAX transformations. "
        "Fix: jnp.asarray(np.fromfile(...))."
    )


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """Refused: an iterator is not a pure function.

    >>> jnp.fromiter(range(3), dtype=int)
    Traceback (most recent call last):
        ...
    NotImplementedError: ...
    """
    raise NotImplementedError(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other JAX transformations. "
        "Fix: jnp.asarray(np.fromiter(...))."
    )


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in a text, separated by `sep`.

    >>> jnp.fromstring("1 2 3", dtype=int, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string=string, dtype=dtype, count=count, sep=sep))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array of what another library exports through DLPack, over the same memory unless a copy
    is asked for or needed, as for another `device` than the first; with `copy=False` a needed one
    raises ValueError.

    >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    if device is not None and elsewhere(device):
        check_copied(device, devices()[0], copy)
        copy = True  # what is written to the exporter's memory later does not reach that device
    view = view_of(x, copy)
    if not copy and dtypes.canonicalize_dtype(view.dtype) == view.dtype:
        # However small: who exports it may count on one memory.
        return placed(staged(make_array(view, shared=True), new=True), device)
    return placed(asarray(view, copy=copy), device)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a .npy file (or a dictionary-like of those in a .npz file).

    `file`: a path or an open binary file. Further arguments are those of `numpy.load`.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> position = file.seek(0)
    >>> jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray):
        # bfloat16 and its kin are stored by NumPy as raw bytes.
        if out.dtype == np.dtype("V2"):
            out = out.view(dtypes.bfloat16)
        try:
            return asarray(out)
        except TypeError:  # raw bytes and objects stay NumPy's
            return out
    return out


def isscalar(element: Any) -> bool:
    """Is `element` a number, or an array without axes?

    >>> jnp.isscalar(3), jnp.isscalar(jnp.array(3)), jnp.isscalar([3])
    (True, True, False)
    """
    if np.isscalar(element):
        return True
    return is_arraylike(element) and ndim_of(element) == 0
