"""`jnp.float32` and its kin: dtypes by name that, when called, make arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..core.trace import Tracer
from .creation import asarray


class _ScalarMeta(type):
    """The type of scalar types: each equals the NumPy scalar type of the same name and hashes like
    it.
    """

    dtype: Any

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        if cls is other:
            return True
        if isinstance(other, str):
            return False
        try:
            return bool(
                cls.dtype.type == other or (isinstance(other, np.dtype) and cls.dtype == other)
            )
        except TypeError:
            return False

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Any:
        return asarray(x, dtype=cls.dtype, copy=not isinstance(x, Tracer))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _make(scalar: Any) -> Any:
    dtype = np.dtype(scalar)
    name = dtype.name if dtype.name != "bool" else "bool"
    narrow = dtypes.canonicalize_dtype(dtype)
    wide = f" Without x64 it gives {narrow.name}." if narrow != dtype else ""
    return _ScalarMeta(
        name,
        (object,),
        {
            "dtype": dtype,
            "__module__": "jax.numpy",
            "__qualname__": name,
            "__doc__": f"""The scalar type of dtype {name}: `jnp.{name}(x)` makes an array of it.

    Wherever a dtype is asked for, it may be given.{wide}

    >>> jnp.{name}.dtype
    {dtype!r}
    """,
        },
    )


bool_ = _make(np.bool_)
uint8, uint16, uint32, uint64 = (_make(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
int8, int16, int32, int64 = (_make(t) for t in (np.int8, np.int16, np.int32, np.int64))
float16, float32, float64 = (_make(t) for t in (np.float16, np.float32, np.float64))
complex64, complex128 = (_make(t) for t in (np.complex64, np.complex128))
bfloat16 = _make(ml_dtypes.bfloat16)
int2, int4, uint2, uint4 = (
    _make(getattr(ml_dtypes, n)) for n in ("int2", "int4", "uint2", "uint4")
)
float8_e3m4, float8_e4m3, float8_e8m0fnu = (
    _make(getattr(ml_dtypes, n)) for n in ("float8_e3m4", "float8_e4m3", "float8_e8m0fnu")
)
float8_e4m3fn, float8_e4m3fnuz, float8_e5m2 = (
    _make(getattr(ml_dtypes, n)) for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2")
)
float6_e2m3fn, float6_e3m2fn = (_make(ml_dtypes.float6_e2m3fn), _make(ml_dtypes.float6_e3m2fn))
if hasattr(ml_dtypes, "int1"):  # since ml_dtypes 0.6
    int1, uint1 = _make(ml_dtypes.int1), _make(ml_dtypes.uint1)
float8_e5m2fnuz, float8_e4m3b11fnuz, float4_e2m1fn = (
    _make(getattr(ml_dtypes, n)) for n in ("float8_e5m2fnuz", "float8_e4m3b11fnuz", "float4_e2m1fn")
)
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

dtype = np.dtype
generic, number, integer, signedinteger, unsignedinteger = (
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
)
inexact, floating, complexfloating, flexible, character = (
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
)
object_ = np.object_
ComplexWarning = np.exceptions.ComplexWarning
finfo, iinfo = dtypes.finfo, dtypes.iinfo
can_cast = np.can_cast

_KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (np.bool_,),
    "signed integer": (np.signedinteger,),
    "unsigned integer": (np.unsignedinteger,),
    "integral": (np.integer,),
    "real floating": (np.floating,),
    "complex floating": (np.complexfloating,),
    "numeric": (np.number,),
}


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Is the dtype `arg1` at or below `arg2` in the hierarchy of types?

    >>> jnp.issubdtype(jnp.float32, jnp.floating), jnp.issubdtype("int8", np.floating)
    (True, False)
    """
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Is the dtype of this kind: a name such as 'real floating', a dtype, or a tuple of these?
    Raises for anything else.

    >>> jnp.isdtype(jnp.float32, "real floating"), jnp.isdtype(jnp.int8, ("bool", "integral"))
    (True, True)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    own = np.dtype(dtype) if dtype is None else dtypes.dtype(dtype)
    for k in kinds:
        if isinstance(k, str) and k in _KINDS:
            if any(dtypes.issubdtype(own, t) for t in _KINDS[k]):
                return True
            continue
        if isinstance(k, str):
            try:
                np.dtype(k)
            except TypeError:
                raise ValueError(
                    f"Unrecognized kind={k!r} expected one of {list(_KINDS)}, or a compatible "
                    "input for jnp.dtype()"
                ) from None
        if _kind_dtype(k) == own:
            return True
    return False


def _kind_dtype(kind: Any) -> np.dtype[Any]:
    try:
        return np.dtype(kind) if kind is None else dtypes.dtype(kind)
    except TypeError:
        raise TypeError(f"Expected kind to be a dtype, string, or tuple; got {kind=}") from None


def promote_types(a: Any, b: Any) -> Any:
    """The least dtype above both, under JAX's rules.

    Unlike NumPy's, an integer and a float give a float of the float's own width.

    >>> jnp.promote_types('int32', 'float16')
    dtype('float16')
    """
    return dtypes.promote_types(a, b)


def result_type(*args: Any) -> Any:
    """The dtype of an operation on arrays, numbers and dtypes.

    Weakly typed values (Python numbers) give way to dtypes of their kind.

    >>> jnp.result_type(jnp.int8, jnp.uint8), jnp.result_type(jnp.bfloat16, 1.0)
    (dtype('int16'), dtype(bfloat16))
    """
    return dtypes.of_default_width(*dtypes.result_type(*args, return_weak_type_flag=True))
