"""Dtypes: canonical widths, extended types, weak types, and the promotion lattice."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from . import config
from .errors import TypePromotionError


class extended(np.generic):
    """The scalar type above every extended dtype (a dtype that NumPy does not know).

    >>> pb.dtypes.issubdtype(random.key(0).dtype, pb.dtypes.extended)
    True
    """


class prng_key(extended):
    """The scalar type of PRNG key arrays.

    >>> pb.dtypes.issubdtype(random.key(0).dtype, pb.dtypes.prng_key)
    True
    """


class ExtendedDType:
    """An element type with a physical form: `physical` gives the (shape suffix, dtype) that stores
    one element.
    """

    type: type = extended
    name: str = "extended"
    kind = "V"

    @property
    def physical(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        rules = getattr(self, "_rules", None)  # how JAX's extension point says it
        if rules is None:
            raise TypeError(
                f"the dtype {self.name} does not say how it is stored; define `physical`"
            )
        element = rules.physical_element_aval(self)
        return tuple(element.shape), element.dtype


float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])
bfloat16 = ml_dtypes.bfloat16

_NARROW_NAMES = (
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e8m0fnu", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz",
)  # fmt: skip
_NARROW_FLOATS = tuple(np.dtype(getattr(ml_dtypes, n)) for n in _NARROW_NAMES)
_BF16 = np.dtype(bfloat16)
_SMALL_INTS = tuple(
    np.dtype(getattr(ml_dtypes, n))
    for n in ("uint1", "int1", "uint2", "int2", "uint4", "int4")
    if hasattr(ml_dtypes, n)  # ml_dtypes has one bit since 0.6
)
_BOOL = np.dtype("bool")
_UINTS = tuple(np.dtype(n) for n in ("uint8", "uint16", "uint32", "uint64"))
_INTS = tuple(np.dtype(n) for n in ("int8", "int16", "int32", "int64"))
_FLOATS = (_BF16, np.dtype("float16"), np.dtype("float32"), np.dtype("float64"))
_COMPLEX = (np.dtype("complex64"), np.dtype("complex128"))

ALL_DTYPES = (_BOOL, *_SMALL_INTS, *_UINTS, *_INTS, *_NARROW_FLOATS, *_FLOATS, *_COMPLEX)
_BY_NAME = {d.name: d for d in ALL_DTYPES}
_KNOWN = frozenset({*ALL_DTYPES, float0})
_SHORT = {"bool": "bool", "bfloat16": "bf16"}
for _d in ALL_DTYPES:
    _n = _d.name
    _SHORT.setdefault(
        _n,
        _n.replace("uint", "u").replace("int", "i").replace("float", "f").replace("complex", "c"),
    )

_WEAK: dict[str, np.dtype[Any]] = {
    "i": np.dtype("int64"),
    "f": np.dtype("float64"),
    "c": np.dtype("complex128"),
}
python_scalar_dtypes: dict[type, np.dtype[Any]] = {
    bool: _BOOL,
    int: _WEAK["i"],
    float: _WEAK["f"],
    complex: _WEAK["c"],
}


def python_scalar_type(x: Any) -> type | None:
    """`bool`, `int`, `float` or `complex`, if `x` is such a number or of a class derived from one,
    as members of an `enum.IntEnum` are; else None. NumPy's scalars are arrays, whatever they are
    derived from.
    """
    kind = type(x)
    if kind in python_scalar_dtypes:
        return kind
    if isinstance(x, np.generic):
        return None
    return next((t for t in (int, float, complex) if isinstance(x, t)), None)


_NARROWED = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}


def dtype(x: Any) -> Any:
    """The dtype that `x` names (a dtype, a scalar type, a string); extended dtypes pass through."""
    if isinstance(x, (np.dtype, ExtendedDType)):
        return x
    if isinstance(x, str) and x in _BY_NAME:
        return _BY_NAME[x]
    if x is None:
        raise TypeError("a dtype is needed here, got None; name one, such as jnp.float32")
    held = getattr(x, "dtype", None)
    if held is not None and isinstance(held, (np.dtype, ExtendedDType)):
        return held
    if isinstance(x, type) and x in python_scalar_dtypes:
        return python_scalar_dtypes[x]
    return np.dtype(x)  # which reads lists, too, as structured dtypes


_as_dtype = dtype  # where an argument has the name


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype with which arrays are made: 64-bit types become 32-bit ones unless x64 is
    enabled. None is NumPy's default, float64.

    >>> pb.dtypes.canonicalize_dtype("int64")
    dtype('int32')
    """
    d = _as_dtype(np.float64 if dtype is None else dtype)
    if isinstance(d, ExtendedDType):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype called on extended dtype: {d.name}")
        return d
    if d not in _KNOWN and _in_our_order(d) not in _KNOWN:
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {d.name}")
    d = _in_our_order(d)
    return d if config.enable_x64.get() else narrowed(d)


def _in_our_order(d: Any) -> Any:
    """A dtype of NumPy's in the machine's order of bytes, as our arrays are."""
    return d if not isinstance(d, np.dtype) or d.isnative else d.newbyteorder("=")


def narrowed(d: Any) -> Any:
    """A dtype as it is while x64 is off."""
    return _NARROWED.get(d, d)


def short_name(d: Any) -> str:
    """`f32` for float32, as jaxprs print it."""
    return _SHORT.get(d.name, d.name) if d != float0 else "float0"


def is_extended(d: Any) -> bool:
    return isinstance(d, ExtendedDType)


_INEXACT_EXTRA = frozenset({_BF16, *_NARROW_FLOATS})
_INT_EXTRA = frozenset(_SMALL_INTS)


def is_float(d: Any) -> bool:
    return isinstance(d, np.dtype) and (d.kind == "f" or d in _INEXACT_EXTRA)


def is_complex(d: Any) -> bool:
    return isinstance(d, np.dtype) and d.kind == "c"


def is_inexact(d: Any) -> bool:
    return isinstance(d, np.dtype) and (d.kind in "fc" or d in _INEXACT_EXTRA)


def is_integer(d: Any) -> bool:
    return isinstance(d, np.dtype) and (d.kind in "iu" or d in _INT_EXTRA)


def is_unsigned(d: Any) -> bool:
    return isinstance(d, np.dtype) and (
        d.kind == "u" or (d in _INT_EXTRA and d.name.startswith("u"))
    )


def is_signed(d: Any) -> bool:
    return is_integer(d) and not is_unsigned(d)


def is_narrow(d: Any) -> bool:
    """Is it an integer dtype of less than a byte?"""
    return is_integer(d) and itemsize_bits(d) < 8


def is_bool(d: Any) -> bool:
    return d == _BOOL  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=4096)
def _issubdtype(a: Any, b: Any) -> bool:
    if isinstance(a, ExtendedDType):
        a = a.type
    if isinstance(b, ExtendedDType):
        return bool(a == b)
    if isinstance(b, type) and issubclass(b, extended):
        return isinstance(a, type) and issubclass(a, b)
    if isinstance(a, type) and issubclass(a, extended):
        return isinstance(b, type) and issubclass(a, b)
    target = b if isinstance(b, type) and issubclass(b, np.generic) else None
    d = a if isinstance(a, np.dtype) else None
    if d is None and isinstance(a, type) and issubclass(a, np.generic):
        if a in (
            np.generic,
            np.number,
            np.integer,
            np.signedinteger,
            np.unsignedinteger,
            np.inexact,
            np.floating,
            np.complexfloating,
            np.flexible,
            np.character,
        ):
            return target is not None and issubclass(a, target)
        d = np.dtype(a)
    if d is None:
        d = dtype(a)
    if d in _INEXACT_EXTRA or d in _INT_EXTRA:
        if target is None:
            return bool(d == dtype(b))
        if target is d.type:
            return True
        parents = (
            (np.floating, np.inexact)
            if d in _INEXACT_EXTRA
            else (np.unsignedinteger if d.name.startswith("u") else np.signedinteger, np.integer)
        )
        return target in (*parents, np.number, np.generic)
    return bool(np.issubdtype(d, b if target is not None else dtype(b)))


def issubdtype(a: Any, b: Any) -> bool:
    """Like `numpy.issubdtype`, and right for bfloat16, the narrow types, and extended dtypes.

    `a`, `b`: dtypes, scalar types or their names.

    >>> pullback.dtypes.issubdtype(jnp.bfloat16, jnp.floating)
    True
    """
    return _issubdtype(_kind_or_dtype(a), _kind_or_dtype(b))


def _kind_or_dtype(x: Any) -> Any:
    """What `issubdtype` compares; None is NumPy's default type there, as in NumPy and JAX."""
    if isinstance(x, (type, np.dtype, ExtendedDType)):
        return x
    return np.dtype("float64") if x is None else dtype(x)


def itemsize_bits(dtype: Any) -> int:
    """Bits of one element (4 for int4).

    >>> pb.dtypes.itemsize_bits(jnp.int4), pb.dtypes.itemsize_bits("float64")
    (4, 64)
    """
    return _bits_of(_as_dtype(dtype))


@functools.lru_cache(maxsize=256)
def _bits_of(d: Any) -> int:
    # What is narrower than a byte says so in its name: int4, float6_e2m3fn. Without a regular
    # expression: to compile one takes longer than all else that a small program's trace does here.
    if d.itemsize == 1:
        kind, _, _ = d.name.removeprefix("u").partition("_")
        digit = kind.removeprefix("int").removeprefix("float")
        if digit != kind and digit in set("1234567"):
            return int(digit)
    return int(d.itemsize * 8)


# What numbers without a width leave the types as they are that they meet.
_KINDS: dict[Any, int] = {
    **dict.fromkeys((*_SMALL_INTS, *_UINTS, *_INTS, "i"), 1),
    **dict.fromkeys((*_NARROW_FLOATS, *_FLOATS, "f"), 2),
    **dict.fromkeys((*_COMPLEX, "c"), 3),
}


# --- the lattice: each type's immediate superiors; a string is a weak type (int, float or complex
#  of no width) ---
@functools.lru_cache(maxsize=1)
def _edges() -> dict[Any, tuple[Any, ...]]:
    u8, u16, u32, u64 = _UINTS
    i8, i16, i32, i64 = _INTS
    bf16, f16, f32, f64 = _FLOATS
    c64, c128 = _COMPLEX
    table: dict[Any, tuple[Any, ...]] = {
        _BOOL: ("i", *_SMALL_INTS),
        "i": (u8, i8),
        u8: (i16, u16), u16: (i32, u32), u32: (i64, u64), u64: ("f",),
        i8: (i16,), i16: (i32,), i32: (i64,), i64: ("f",),
        "f": (*_NARROW_FLOATS, bf16, f16, "c"),
        bf16: (f32,), f16: (f32,), f32: (f64, c64), f64: (c128,),
        "c": (c64,), c64: (c128,), c128: (),
    }  # fmt: skip
    table["i"] = (u8, i8, *_SMALL_INTS)
    for d in (*_NARROW_FLOATS, *_SMALL_INTS):
        table[d] = ()
    return table


@functools.lru_cache(maxsize=256)
def _above(node: Any) -> frozenset[Any]:
    """A type with all that are above it: of those types only that a process joins."""
    return frozenset((node,)).union(*map(_above, _edges()[node]))


@functools.lru_cache(maxsize=4096)
def _lub(nodes: frozenset[Any]) -> Any:
    common = frozenset.intersection(*map(_above, nodes))
    least = [n for n in common if common <= _above(n)]
    if len(least) == 1:
        return least[0]
    names = ", ".join(sorted(repr(_node_name(n)) for n in nodes))
    narrow = [_bits_of(n) for n in nodes if n in _NARROW_FLOATS]
    if narrow:
        why = f"{min(narrow)}-bit floats do not support implicit promotion"
    elif any(n in _SMALL_INTS for n in nodes):
        why = "1-bit, 2-bit and 4-bit integers do not support implicit promotion"
    else:
        why = "the promotion lattice has no type above both"
    raise TypePromotionError(
        f"Input dtypes ({names}) have no available implicit dtype promotion path: {why}. "
        "Fix: convert one explicitly, such as x.astype('float32')."
    )


def _node_name(node: Any) -> str:
    return {"i": "int", "f": "float", "c": "complex"}[node] if isinstance(node, str) else node.name


def _node(d: Any, weak: bool) -> Any:
    if not weak:
        return d
    if d == _BOOL:
        return _BOOL
    return "c" if d.kind == "c" else "i" if is_integer(d) else "f"


def is_weakly_typed(x: Any) -> bool:
    """Does `x` (an array, a tracer or a Python scalar) have a weak type?"""
    if type(x) in python_scalar_dtypes:
        return type(x) is not bool
    aval = getattr(x, "aval", None)
    if aval is None:
        return python_scalar_type(x) is not None
    return bool(getattr(aval, "weak_type", False))


def _describe(x: Any) -> tuple[Any, bool]:
    kind = type(x)
    if kind in python_scalar_dtypes:
        return python_scalar_dtypes[kind], kind is not bool
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, bool(getattr(aval, "weak_type", False))
    if isinstance(x, type) and x in python_scalar_dtypes:
        return python_scalar_dtypes[x], x is not bool
    if x is None:
        return _WEAK["f"], False
    scalar = python_scalar_type(x)
    if scalar is not None:
        return python_scalar_dtypes[scalar], True
    d = _in_our_order(dtype(x))
    if d not in _KNOWN and not isinstance(d, ExtendedDType):
        raise TypeError(
            f"JAX only supports number, bool, and string dtypes, got dtype {d.name}. "
            "Only arrays of numeric types are supported by JAX."
        )
    return d, False


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """The dtype and weakness of an operation on `args`; operands are of canonical width first."""
    described = [_describe(a) for a in args]
    if not config.enable_x64.get():
        described = [
            (_NARROWED.get(d, d), weak) if isinstance(d, np.dtype) else (d, weak)
            for d, weak in described
        ]
        d, weak = join_types(described)
        return _NARROWED.get(d, d), weak
    return join_types(described)


def join_types(described: list[tuple[Any, bool]]) -> tuple[Any, bool]:
    """The least type above each (dtype, weak) pair, and whether it is weak."""
    first = described[0]
    if all(d == first for d in described):
        d, weak = first
        return d, weak and d != _BOOL
    dts = {d for d, _ in described}
    if any(isinstance(d, ExtendedDType) for d in dts):
        if len(dts) == 1:
            return first[0], False
        names = ", ".join(sorted(d.name for d in dts))
        raise TypePromotionError(f"extended dtypes do not promote: got ({names})")
    if all(w for _, w in described):
        # Among weak types alone the widths matter: the least upper bound of the dtypes themselves,
        # still weak.
        strong = _lub(frozenset(d for d in dts))
        result = _lub(frozenset(_node(d, True) for d in dts))
        if isinstance(result, str):
            return (strong if not isinstance(strong, str) else _WEAK[strong]), True
        return result, False
    if config.numpy_dtype_promotion.get() == "strict":
        nodes = {_node(d, w) for d, w in described}
        concrete = {n for n in nodes if not isinstance(n, str)}
        taken = "".join(_WEAK_BELOW[kind] for kind in map(_strict_kind, concrete))
        if len(concrete) > 1 or any(isinstance(n, str) and n not in taken for n in nodes):
            names = ", ".join(sorted(repr(_node_name(n)) for n in nodes))
            raise TypePromotionError(
                f"Input dtypes ({names}) have no available implicit dtype promotion path when "
                "jax_numpy_dtype_promotion=strict. "
                "Fix: convert explicitly with x.astype(...), or set "
                "jax_numpy_dtype_promotion=standard."
            )
    strong = {d for d, weak in described if not weak}
    if len(strong) == 1:  # a type with a width, and numbers without one
        (d,) = strong
        kind = _KINDS.get(d, -1)
        if all(not weak or _KINDS.get(_node(x, True), 0) <= kind for x, weak in described):
            return d, False  # as the lattice says, whose table is made when it is asked for
    result = _lub(frozenset(_node(d, w) for d, w in described))
    if isinstance(result, str):
        # Only weak types and bools, or 64-bit integers of both signs: a type of no width, so of the
        # default one.
        return _WEAK[result], True
    return result, False


# In strict mode a Python number takes the dtype of an array only if that holds numbers like it.
_WEAK_BELOW = {"b": "", "i": "i", "f": "if", "c": "ifc"}


def _strict_kind(d: Any) -> str:
    return "b" if d == _BOOL else _node(d, True)


_results: dict[Any, tuple[Any, bool]] = {}
_MOST_RESULTS = 4096


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The canonical dtype of an operation on `args`.

    >>> pb.dtypes.result_type(np.int32(1), np.float32(2))
    dtype('float32')
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    described = tuple([_describe(a) for a in args])
    key = (described, config.enable_x64.get(), config.numpy_dtype_promotion.get())
    found = _results.get(key)
    if found is None:
        try:
            d, weak = lattice_result_type(*args)
        except KeyError as e:  # a dtype that arrays cannot have
            if e.args[0] == float0:
                raise ValueError(
                    "float0, the dtype of integers' tangents, promotes to nothing. Fix: leave such "
                    "values out, or take zeros of a dtype of your choice."
                ) from None
            x = next(a for a, (d, _) in zip(args, described, strict=True) if d == e.args[0])
            raise TypeError(
                f"Value {x!r} with dtype {e.args[0]} is not a valid JAX array type. Only arrays of "
                "numeric types are supported by JAX."
            ) from None
        d = d if isinstance(d, ExtendedDType) else canonicalize_dtype(d)
        if len(_results) >= _MOST_RESULTS:
            _results.clear()
        found = _results[key] = (d, weak)
    return found if return_weak_type_flag else found[0]


def of_default_width(d: Any, weak: bool) -> Any:
    """The dtype that a weak type stands for, which has none of its own: the default one of its
    kind, whatever the width of the array that it is of."""
    if not weak or isinstance(d, ExtendedDType):
        return d
    return canonicalize_dtype(np.uint64 if d.kind == "u" else _WEAK.get(_node(d, True), d))


def promote_types(a: Any, b: Any) -> Any:
    """The least dtype above both, as `jax.numpy.promote_types`: 64-bit types that are given stay,
    whatever the flag for x64.
    """
    named = [x if x in (int, float, complex) else dtype(x) for x in (a, b)]
    for d in named:
        if isinstance(d, np.dtype) and _in_our_order(d) not in _KNOWN:
            raise ValueError(f"dtype={d!r} is not a valid dtype for JAX type promotion.")
    described = list(map(_describe, named))
    result = join_types(described)[0]
    # An unsigned and a signed integer of 32 bits meet in 64, which is 32 while x64 is off.
    made = is_integer(result) and all(result != d for d, _ in described)
    return canonicalize_dtype(result) if made else result


def tangent_dtype(d: Any) -> Any:
    """The dtype of tangents of arrays of dtype `d`: `d` itself if inexact, else float0. An extended
    dtype may name another."""
    if isinstance(d, ExtendedDType):
        return getattr(d, "tangent_dtype", float0)
    return d if is_inexact(d) else float0


def scalar_type_of(x: Any) -> type:
    """The Python scalar type (bool, int, float, complex) of the same kind as `x`.

    >>> pb.dtypes.scalar_type_of(jnp.zeros(3, dtype=jnp.int8))
    <class 'int'>
    """
    if x is None:
        raise ValueError("Invalid argument to dtype: None.")
    d = _describe(x)[0]
    if is_bool(d):
        return bool
    if is_integer(d):
        return int
    if is_float(d):
        return float
    if is_complex(d):
        return complex
    raise TypeError(f"Invalid scalar value {x}")


finfo: Any = ml_dtypes.finfo
iinfo: Any = ml_dtypes.iinfo


def default_int() -> np.dtype[Any]:
    return canonicalize_dtype(np.int64)  # type: ignore[no-any-return]


def default_float() -> np.dtype[Any]:
    return canonicalize_dtype(np.float64)  # type: ignore[no-any-return]
