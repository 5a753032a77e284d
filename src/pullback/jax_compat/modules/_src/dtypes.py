"""`jax._src.dtypes`: what `jax.dtypes` has, and the private names beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import config, dtypes as _dtypes
from ....core.dims import DimExpr
from ....dtypes import *  # noqa: F403
from ....dtypes import (
    ExtendedDType as ExtendedDType,
    bfloat16 as bfloat16,
    canonicalize_dtype as canonicalize_dtype,
    extended as extended,
    finfo as finfo,
    float0 as float0,
    iinfo as iinfo,
    is_extended as is_extended,
    is_weakly_typed as is_weakly_typed,
    issubdtype as issubdtype,
    prng_key as prng_key,
    promote_types as promote_types,
    scalar_type_of as scalar_type_of,
)
from ....errors import TypePromotionError as TypePromotionError
from ....experimental.primal_tangent import primal_tangent_dtype as primal_tangent_dtype
from ....numpy.scalar_types import isdtype as isdtype
from ....primitives.common import requested_dtype

DType = np.dtype
bool_, int_, uint, float_, complex_ = np.bool_, np.int64, np.uint64, np.float64, np.complex128
_jax_types = list(_dtypes.ALL_DTYPES)
_jax_dtype_set = {_dtypes.float0, *_dtypes.ALL_DTYPES}
python_scalar_types_to_dtypes = {**_dtypes.python_scalar_dtypes, DimExpr: np.dtype("int64")}
_bool_types = [np.dtype("bool")]
_int_types = [d for d in _dtypes.ALL_DTYPES if _dtypes.is_integer(d)]
_float_types = [d for d in _dtypes.ALL_DTYPES if _dtypes.is_float(d)]
_float8_dtypes = [d for d in _float_types if d.name.startswith("float8_")]
_custom_float_dtypes = [d for d in _float_types if d.isbuiltin != 1]
_intn_dtypes = [d for d in _int_types if d.isbuiltin != 1]
short_dtype_name = _dtypes.short_name


def default_int_dtype() -> Any:
    """The dtype of Python's integers."""
    return canonicalize_dtype(np.int64)


def default_uint_dtype() -> Any:
    """The unsigned dtype of the width that Python's integers have."""
    return canonicalize_dtype(np.uint64)


def default_float_dtype() -> Any:
    """The dtype of Python's floats."""
    return canonicalize_dtype(np.float64)


def default_complex_dtype() -> Any:
    """The dtype of Python's complex numbers."""
    return canonicalize_dtype(np.complex128)


default_types = {
    "b": lambda: np.dtype("bool"),
    "i": default_int_dtype,
    "u": default_uint_dtype,
    "f": default_float_dtype,
    "c": default_complex_dtype,
}


def jax_dtype(obj: Any, *, align: bool = False, copy: bool = False) -> Any:
    """The dtype that something names; None names that of Python's floats."""
    if obj is None:
        return default_float_dtype()
    return obj if is_extended(obj) else np.dtype(obj, align=align, copy=copy)


def check_valid_dtype(dtype: Any) -> None:
    """TypeError for a dtype that arrays cannot have."""
    if dtype not in _jax_dtype_set:
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {dtype}")


def coerce_to_array(x: Any) -> np.ndarray:
    """A value as an array of NumPy's, a Python number of its default dtype. OverflowError for an
    integer that does not fit into it."""
    if type(x) not in _dtypes.python_scalar_dtypes:
        return np.asarray(x)
    return np.asarray(x, canonicalize_dtype(_dtypes.python_scalar_dtypes[type(x)]))


def safe_to_cast(input_dtype_or_value: Any, output_dtype_or_value: Any) -> bool:
    """Does promotion with the second give the second's dtype?"""
    target, given = dtype(output_dtype_or_value), input_dtype_or_value
    # Types of numbers are as weak as those; NumPy's dtypes, which are none, equal them.
    if any(given is kind for kind in python_scalar_types):
        given = given(0)
    if is_python_scalar(given):
        return bool(result_type(given, target) == target)
    return bool(promote_types(dtype(input_dtype_or_value), target) == target)


def dtype(x: Any) -> Any:  # type: ignore[no-redef]
    """The dtype that a value has as an array, canonical; of a dtype, or of what names one, that
    dtype. ValueError for None.
    """
    if x is None:
        raise ValueError("Invalid argument to dtype: None.")
    if isinstance(x, (str, type, np.dtype)) or is_extended(x):
        named = _dtypes.dtype(x)
        return requested_dtype(x, "dtype") if named in _dtypes.ALL_DTYPES else named
    if type(x) in _dtypes.python_scalar_dtypes:
        return canonicalize_dtype(_dtypes.python_scalar_dtypes[type(x)])
    found = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return found if is_extended(found) else canonicalize_dtype(found)


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:  # type: ignore[no-redef]
    """The dtype of an operation on values and dtypes, and whether it is weak if that is asked for;
    a weak one is the default of its kind."""
    found, weak = _dtypes.result_type(*args, return_weak_type_flag=True)
    found = _dtypes.of_default_width(found, weak)
    return (found, weak) if return_weak_type_flag else found


def supports_inf(dtype: Any) -> bool:
    """Has the dtype an infinity?"""
    d = _dtypes.dtype(dtype)
    return bool(_dtypes.is_inexact(d) and np.isinf(np.asarray(np.inf).astype(d)))


def is_python_scalar(x: Any) -> bool:
    """Is it a Python bool, int, float or complex?"""
    return type(x) in (bool, int, float, complex)


def to_inexact_dtype(dtype: Any) -> Any:
    """The dtype itself if it holds fractions; for integers and bools float64 if they have 64 bits,
    else float32.
    """
    d = _dtypes.dtype(dtype)
    if _dtypes.is_inexact(d):
        return d
    return np.dtype("float64" if d.itemsize == 8 else "float32")


def to_floating_dtype(dtype: Any) -> Any:
    """As `to_inexact_dtype`, and for complex dtypes that of their parts."""
    d = to_inexact_dtype(dtype)
    return _dtypes.finfo(d).dtype if _dtypes.is_complex(d) else d


def to_complex_dtype(dtype: Any) -> Any:
    """complex128 for dtypes of 64 bits and itself, else complex64."""
    d = to_inexact_dtype(dtype)
    return np.dtype("complex128" if d in (np.float64, np.complex128) else "complex64")


def to_numeric_dtype(dtype: Any) -> Any:
    """int32 for bools; any other dtype itself."""
    d = _dtypes.dtype(dtype)
    return np.dtype("int32") if d == np.bool_ else d


class InvalidInputException(TypeError):
    """A value that is no array, where one was expected."""


def _dtype_and_weaktype(value: Any) -> tuple[Any, bool]:
    """The dtype of a value, or the one that is named, and whether it is weak."""
    if isinstance(value, type) and value in _dtypes.python_scalar_dtypes:
        return dtype(value(0)), value is not bool
    return dtype(value), is_weakly_typed(value)


def _jax_type(dtype: Any, weak_type: bool) -> Any:
    """A dtype, or the type of Python's numbers that a weak one is as good as."""
    if not weak_type or dtype == np.bool_:
        return dtype
    return complex if _dtypes.is_complex(dtype) else int if _dtypes.is_integer(dtype) else float


def _least_upper_bound(jax_numpy_dtype_promotion: str, x64: bool, *nodes: Any) -> Any:
    """The least type above some, each a dtype or one of Python's numbers. TypePromotionError if
    there is none.
    """
    with config.numpy_dtype_promotion(jax_numpy_dtype_promotion), config.enable_x64(x64):
        return _jax_type(*_dtypes.join_types([_weak(n) for n in nodes]))


def _weak(node: Any) -> tuple[Any, bool]:
    if isinstance(node, type) and node in _dtypes.python_scalar_dtypes:
        return _dtypes.python_scalar_dtypes[node], True
    return np.dtype(node), False


def check_and_canonicalize_user_dtype(dtype: Any, fun_name: str | None = None) -> Any:
    """The dtype that a user asked a function for, canonical; warns when 64 bits were asked for that
    there are not. ValueError for None, TypeError for what arrays cannot hold.
    """
    return requested_dtype(dtype, fun_name or "dtype")


python_scalar_types = {bool, int, float, complex}


def __getattr__(name: str) -> Any:
    """The types of narrow elements: `int4`, `float8_e4m3fn` and others."""
    for kind in _dtypes.ALL_DTYPES:
        if kind.name == name:
            return kind.type
    raise AttributeError(f"module 'jax._src.dtypes' has no attribute {name!r}")


# Python's numbers, which are weakly typed.
_weak_types: list[type] = [int, float, complex]


def register_weak_scalar_type(typ: type) -> None:
    """Has numbers of a class be weakly typed. Those of classes derived from Python's numbers are so
    anyway; TypeError for other classes."""
    if not (isinstance(typ, type) and issubclass(typ, tuple(_weak_types))):
        raise TypeError(
            f"register_weak_scalar_type: {typ!r} is not derived from int, float or complex. Fix: "
            "derive it from one of them."
        )


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """May values of a dtype be converted to another, by NumPy's rules?"""
    return bool(np.can_cast(np.dtype(from_), np.dtype(to), casting))  # type: ignore[arg-type]
