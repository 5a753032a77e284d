"""Every elementwise primitive on every dtype it takes, on edge values: machine code against the
reference, one program a dtype."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback
from pullback import dtypes, lax, numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.runtime.executable import NativeExecutable

FLOAT8 = [
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e3m4", "float8_e4m3",
]  # fmt: skip
INTS = ["int4", "int8", "int16", "int32", "uint4", "uint8", "uint16", "uint32"]
WIDE = ["int64", "uint64", "float64", "complex128"]
FLOATS = ["float16", "bfloat16", "float32"]
DTYPES = ["bool", *INTS, *FLOAT8, *FLOATS, "complex64", *WIDE]

UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos "
    "cosh digamma erf erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic "
    "neg population_count real round rsqrt sign sin sinh sqrt square tan tanh"
).split()
BINARY = (
    "add sub mul div rem max min pow atan2 nextafter eq ne lt le gt ge bitwise_and bitwise_or "
    "bitwise_xor shift_left shift_right_logical shift_right_arithmetic"
).split()


def values(name: str) -> Any:
    """Edge values of a dtype."""
    d = jnp.dtype(name)
    if name == "bool":
        return np.array([True, False, True, False])
    if "int" in name:
        info = ml_dtypes.iinfo(d)
        ends = [info.min, info.min + 1, 0, 1, 2, 3, 5, info.max - 1, info.max]
        return np.array([*ends, *([-1, -2] if info.min else [4, 6])]).astype(d)
    reals = [0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 1.5, 2.0, -3.0, 5.5, 0.1, -0.1]
    reals += [np.inf, -np.inf, np.nan, 100.0, -200.0, 1e-3]
    if "complex" in name:
        return np.array([complex(a, b) for a, b in zip(reals[:12], reals[3:12] + reals[:3])], d)
    info = ml_dtypes.finfo(d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        return np.array([*reals, *ends]).astype(d)


def operations(name: str) -> dict[str, Callable[[Any, Any], Any]]:
    """What can be done with two arrays of a dtype."""
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for op in UNARY:
        found[op] = lambda x, y, op=op: getattr(lax, op)(x)
    for op in BINARY:
        found[op] = lambda x, y, op=op: getattr(lax, op)(x, y)
    found["integer_pow"] = lambda x, y: lax.integer_pow(x, 3)
    found["select"] = lambda x, y: lax.select(x == y, x, y)
    found["clamp"] = lambda x, y: lax.clamp(y, x, y)
    for other in ("bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", *FLOAT8[:3]):
        found[f"to {other}"] = lambda x, y, d=other: lax.convert_element_type(x, jnp.dtype(d))
    return found


# The reference widens four bits to eight: see test_four_bits. It takes subnormals for zeros.
UNLIKE = {(n, op) for n in ("int4", "uint4") for op in (
    "clz", "shift_right_logical", "shift_right_arithmetic")} | {("float64", "lgamma")}  # fmt: skip


def accepted(name: str, x: Any, y: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """Those that the primitives' own rules accept."""
    found = {}
    for op, f in operations(name).items():
        if (name, op) in UNLIKE:
            continue
        try:
            pullback.make_jaxpr(f)(x, y)
        except (TypeError, ValueError):
            continue
        found[op] = f
    return found


def tolerance(dtype: Any) -> float:
    kind = np.dtype(dtype).name
    if kind in ("float64", "complex128"):
        return 1e-11
    if kind in ("float32", "complex64"):
        return 3e-5
    return 8 * float(ml_dtypes.finfo(dtype).eps) if kind not in ("bool",) else 0.0


def agree(op: str, got: Any, want: Any, x: Any, y: Any) -> str | None:
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{op}: {got.dtype}{got.shape} for {want.dtype}{want.shape}"
    if want.dtype.kind in "biu" or "int" in want.dtype.name:
        ok = got == want
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = got.astype(wide), want.astype(wide)
        tol = tolerance(want.dtype)
        with np.errstate(all="ignore"):
            ok = np.isclose(a, b, rtol=tol, atol=tol, equal_nan=True)
    if np.all(ok):
        return None
    k = int(np.flatnonzero(~ok)[0])
    return f"{op}({x[k]!r}, {y[k]!r}) = {got[k]!r}, not {want[k]!r}"


@pytest.mark.parametrize("name", DTYPES)
def test_elementwise(name: str) -> None:
    with pullback.enable_x64(name in WIDE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = values(name)
        y = np.roll(x, 3)
        names = accepted(name, x, y)
        closed = pullback.make_jaxpr(lambda x, y: [f(x, y) for f in names.values()])(x, y)
        want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, [x, y])
        got = NativeExecutable(closed)([jnp.asarray(x), jnp.asarray(y)])
        wrong = [agree(op, a, b, x, y) for op, a, b in zip(names, got, want, strict=True)]
    assert len(names) > 10
    assert not [w for w in wrong if w]


SUB_BYTE = [n for n in (
    "int1", "uint1", "int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn",
    "float6_e3m2fn",
) if hasattr(ml_dtypes, n)]  # fmt: skip


@pytest.mark.parametrize("name", SUB_BYTE)
def test_every_pair_of_sub_byte_values(name: str) -> None:
    """XLA has no arrays of some of these types on CPUs: ml_dtypes says what they are."""
    kind = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(2 ** dtypes.itemsize_bits(kind), dtype=np.uint8).view(kind)
    x = jnp.asarray(codes)
    assert x.dtype == jnp.dtype(getattr(jnp, name)) == kind
    computed = np.float32 if "float" in name else np.int32
    wide = codes.astype(computed)
    np.testing.assert_array_equal(x.astype(computed), wide)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(wide).astype(kind)), codes)
    np.testing.assert_array_equal(np.sort(wide), jnp.sort(x).astype(computed))
    operators = [operator.add, operator.sub, operator.mul, operator.lt, operator.eq]
    for f in [*operators, *([operator.truediv] if computed is np.float32 else [])]:
        with np.errstate(all="ignore"):
            want = f(wide[:, None], wide)
        want = want if want.dtype == bool else want.astype(kind)
        np.testing.assert_array_equal(np.asarray(f(x[:, None], x)), want, f.__name__)
    if computed is np.float32:
        got = np.asarray(lax.nextafter(x, jnp.zeros_like(x)))
        np.testing.assert_array_equal(got, np.nextafter(codes, np.zeros_like(codes)))


def test_four_bits() -> None:
    """What JAX gives."""
    for name, f, args, want in [
        ("int4", lax.clz, (0,), 4), ("int4", lax.clz, (-3,), 0), ("uint4", lax.clz, (3,), 2),
        ("int4", lax.population_count, (-8,), 5), ("int4", lax.shift_right_logical, (-8, 7), 0),
        ("int4", lax.shift_right_logical, (-8, 1), 4),
        ("uint8", lax.shift_right_arithmetic, (254, 2), 255),
        ("uint4", lax.shift_right_arithmetic, (14, 2), 15),
    ]:  # fmt: skip
        got = pullback.jit(f)(*(jnp.asarray(np.array(a).astype(jnp.dtype(name))) for a in args))
        assert int(got) == want, (name, f, args)
