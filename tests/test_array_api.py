"""What the Python array API standard (2024.12) asks of a namespace, beside what the tables of
functions test: inspection, versions, special values of complex functions.
"""

from __future__ import annotations

import math
import operator
import pathlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback
import pullback.dlpack
import pullback.numpy as jnp

KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32"},
    "unsigned integer": {"uint8", "uint16", "uint32"},
    "real floating": {"float32"},
    "complex floating": {"complex64"},
}
WIDE = {
    "signed integer": "int64",
    "unsigned integer": "uint64",
    "real floating": "float64",
    "complex floating": "complex128",
}


@pytest.mark.parametrize("x64", (False, True))
def test_inspection(x64: bool) -> None:
    with pullback.enable_x64(x64):
        info = jnp.__array_namespace_info__()
        for kind, names in KINDS.items():
            wanted = names | ({WIDE[kind]} if x64 and kind in WIDE else set())
            found = info.dtypes(kind=kind)
            assert set(found) == wanted
            assert all(found[n] == np.dtype(n) for n in wanted)
        every = set(info.dtypes())
        assert every == set(info.dtypes(kind=("bool", "numeric")))
        assert every == set().union(*(info.dtypes(kind=k) for k in KINDS))
        assert info.dtypes(kind="integral") == {
            **info.dtypes(kind="signed integer"),
            **info.dtypes(kind="unsigned integer"),
        }
        defaults = info.default_dtypes()
        assert defaults == {
            "real floating": jnp.ones(()).dtype,
            "complex floating": jnp.asarray(1j).dtype,
            "integral": jnp.asarray(1).dtype,
            "indexing": jnp.argmax(jnp.ones(2)).dtype,
        }
        assert set(info.capabilities()) == {
            "boolean indexing", "data-dependent shapes", "max dimensions",
        }  # fmt: skip
        assert info.default_device() in info.devices()
        for device in info.devices():
            assert info.dtypes(device=device) == info.dtypes()
            assert jnp.zeros(2, device=device).shape == (2,)
        with pytest.raises(KeyError):
            info.dtypes(kind="floating")
        with pytest.raises(ValueError, match="unsupported device"):
            info.default_dtypes(device="somewhere")


def test_versions() -> None:
    x = jnp.ones(2)
    assert jnp.__array_api_version__ == "2024.12"
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="2031.12")


PARTS = np.array([0.0, -0.0, 1, -1, 0.5, 2, -3, np.inf, -np.inf, np.nan])
COMPLEX = "acos acosh asin asinh atan atanh cos cosh exp log log1p sin sinh sqrt tan tanh".split()


def _same_part(got: np.ndarray, want: np.ndarray, signs: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        close = np.isclose(got, want, rtol=1e-5, atol=1e-7, equal_nan=True)
    return close & (~signs | (want != 0) | (np.signbit(got) == np.signbit(want)))


@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_special_values(name: str, dtype: type) -> None:
    """NumPy's (C's annex G), signs of zeros too where the standard says them: not beside NaN."""
    z = np.empty((10, 10), dtype)
    z.real, z.imag = PARTS[:, None], PARTS[None, :]
    with np.errstate(all="ignore"), pullback.enable_x64(True):
        want = getattr(np, name)(z)
        got = np.asarray(getattr(jnp, name)(z))
    # Beside a NaN, of the operand or the result, C and XLA leave other signs and parts open.
    known = ~(np.isnan(z.real) | np.isnan(z.imag) | np.isnan(want.real) | np.isnan(want.imag))
    signs = known & (np.isfinite(z.imag) | (name != "exp"))  # of exp's zeros at infinite angles
    same = _same_part(got.real, want.real, signs) & _same_part(got.imag, want.imag, signs)
    if name in ("log1p", "sqrt"):  # of infinities XLA's parts, which JAX has
        same |= ~np.isfinite(z.real) | ~np.isfinite(z.imag)
    bad = known & ~same
    assert not bad.any(), [(z[k], got[k], want[k]) for k in zip(*np.nonzero(bad), strict=True)][:5]


INF, NAN = math.inf, math.nan
# What the standard says of operands without an angle, or with a zero beside a NaN.
UNANGLED = [
    ("exp", complex(-INF, INF), 0.0, 0.0, False),
    ("exp", complex(-INF, NAN), 0.0, 0.0, False),
    ("exp", complex(INF, INF), INF, NAN, False),
    ("exp", complex(INF, NAN), INF, NAN, False),
    ("expm1", complex(-INF, INF), -1.0, 0.0, False),
    ("expm1", complex(-INF, NAN), -1.0, 0.0, False),
    ("expm1", complex(INF, INF), INF, NAN, False),
    ("expm1", complex(INF, NAN), INF, NAN, False),
    ("sinh", complex(INF, INF), INF, NAN, False),
    ("sinh", complex(INF, NAN), INF, NAN, False),
    ("cosh", complex(INF, INF), INF, NAN, False),
    ("cosh", complex(INF, NAN), INF, NAN, False),
    ("tanh", complex(0, INF), 0.0, NAN, True),
    ("tanh", complex(0, NAN), 0.0, NAN, True),
    ("tanh", complex(-0.0, NAN), -0.0, NAN, True),
]


@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize("name, z, re, im, signed", UNANGLED)
def test_complex_without_angle(
    name: str, z: complex, re: float, im: float, signed: bool, dtype: type
) -> None:
    """The signs of zeros and infinities are open except where `signed` says otherwise."""
    with pullback.enable_x64(True):
        got = np.asarray(getattr(jnp, name)(np.full(5, z, dtype)))
    for found, wanted in ((got.real, re), (got.imag, im)):
        if signed:
            np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted))
        np.testing.assert_array_equal(np.abs(found), np.abs(wanted))
    assert name != "expm1" or z.real > 0 or (got.real == -1).all()


def test_large_integers_fill() -> None:
    """A Python integer fills every array that has an element for it."""
    with pullback.enable_x64(True):
        for d in ("uint64", "float32", "float64", "complex128"):
            like = jnp.zeros(2, d)
            for k in range(12):  # before and after calls become native
                value = 2**63 + 2**40 * k
                for x in (jnp.full((2,), value, d), jnp.full_like(like, value)):
                    np.testing.assert_array_equal(x, np.full(2, value, d))


BASES = (np.int8(3), np.full(2, 3, np.int8), np.uint32(3), np.float32(1.5), np.bool_(True))
POWERS = (np.int16(2), np.int64(1), np.uint8(3), np.uint32(0))


@pytest.mark.parametrize("how", ("operator", "power", "pow", "scalar"))
def test_one_integer_is_a_static_power(how: str) -> None:
    """It leaves the dtype as it is, as in JAX, in the first call and in those after many."""
    function = operator.pow if how in ("operator", "scalar") else getattr(jnp, how)
    with pullback.enable_x64(True):
        for base in BASES:
            x = jnp.asarray(base)
            for power in POWERS:
                y = power if how == "scalar" else jnp.asarray(power)
                out = {(function(x, y).dtype, function(x, y).weak_type) for _ in range(12)}
                want = np.dtype(np.int32) if base.dtype == bool else base.dtype
                assert out == {(want, False)}, (base, power)
        weak = {(2.5 ** jnp.asarray(k % 3, jnp.int8)).weak_type for k in range(12)}
        assert weak == {True}


# Every elementwise function of the standard, by the dtypes that it takes.
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEXES = ("float32", "float64"), ("complex64", "complex128")
TAKEN = {
    "numeric": (*INTEGERS, *FLOATS, *COMPLEXES),
    "real": (*INTEGERS, *FLOATS),
    "floating": (*FLOATS, *COMPLEXES),
    "real floating": FLOATS,
    "complex": COMPLEXES,
    "bits": ("bool", *INTEGERS),
    "integer": INTEGERS,
    "bool": ("bool",),
    "all": ("bool", *INTEGERS, *FLOATS, *COMPLEXES),
}
UNARY = {
    "numeric": "abs isfinite isinf isnan negative positive round sign square",
    "real": "ceil floor trunc",
    "floating": "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 "
    "reciprocal sin sinh sqrt tan tanh",
    "real floating": "signbit",
    "complex": "conj imag real",
    "bits": "bitwise_invert",
    "bool": "logical_not",
}
BINARY = {
    "numeric": "add multiply pow subtract",
    "real": "floor_divide greater greater_equal less less_equal maximum minimum remainder",
    "floating": "divide",
    "real floating": "atan2 copysign hypot logaddexp nextafter",
    "bits": "bitwise_and bitwise_or bitwise_xor",
    "integer": "bitwise_left_shift bitwise_right_shift",
    "bool": "logical_and logical_or logical_xor",
    "all": "equal not_equal",
}
SYMBOLS = {
    "add": "add iadd", "subtract": "sub isub", "multiply": "mul imul", "divide": "truediv itruediv",
    "floor_divide": "floordiv ifloordiv", "remainder": "mod imod", "pow": "pow ipow",
    "bitwise_and": "and_ iand", "bitwise_or": "or_ ior", "bitwise_xor": "xor ixor",
    "bitwise_left_shift": "lshift ilshift", "bitwise_right_shift": "rshift irshift",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge",
}  # fmt: skip


def _cases(table: dict[str, str]) -> list[Any]:
    return [
        pytest.param(name, TAKEN[kind], id=name)
        for kind, names in table.items()
        for name in names.split()
    ]


def _values(dtype: str) -> np.ndarray:
    """A few values of a dtype that every function takes, the special ones among them."""
    d = np.dtype(dtype)
    if d.kind == "b":
        return np.array([False, True, True])
    if d.kind in "iu":
        return np.array([1, 2, 3, 5, 7], d)
    real = np.array([0.5, -0.25, 1, -2.5, 3.5, 0.0, -0.0, np.inf, -np.inf, np.nan])
    return (real if d.kind == "f" else real[:5] + 1j * real[4::-1]).astype(d)


def _agree(got: Any, want: Any, signs: bool = True) -> None:
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    single = want.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, want, rtol=2e-6 if single else 1e-13)
    if want.dtype.kind == "f" and signs:
        assert np.array_equal(np.signbit(got) | np.isnan(want), np.signbit(want) | np.isnan(want))


@pytest.mark.parametrize("name, taken", _cases(UNARY))
def test_unary(name: str, taken: tuple[str, ...]) -> None:
    with pullback.enable_x64(True), np.errstate(all="ignore"):
        for dtype in taken:
            x = _values(dtype)
            _agree(getattr(jnp, name)(x), getattr(np, name)(x), signs=name != "sign")


def _promoted(taken: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The pairs of dtypes whose promotion the standard defines: one of each kind of pair."""
    for k, first in enumerate(taken):
        for second in (first, taken[(k + 1) % len(taken)], taken[(k + 3) % len(taken)]):
            kinds = {{"u": "i", "c": "f"}.get(c, c) for c in map(_kind, (first, second))}
            mixed = {_kind(first), _kind(second)} == {"i", "u"} and "uint64" in (first, second)
            if len(kinds) == 1 and not mixed:
                yield first, second


def _kind(dtype: str) -> str:
    return np.dtype(dtype).kind


@pytest.mark.parametrize("name, taken", _cases(BINARY))
def test_binary(name: str, taken: tuple[str, ...]) -> None:
    """Functions and operators, of two arrays and of an array and a Python scalar on either side."""
    with pullback.enable_x64(True), np.errstate(all="ignore"):
        for first, second in _promoted(taken):
            x, y = _values(first), _values(second)
            x, y = x[:5], y[:5][::-1].copy()
            want = getattr(np, name)(x, y)
            a, b = jnp.asarray(x), jnp.asarray(y)
            _agree(getattr(jnp, name)(a, b), want)
            for symbol in SYMBOLS.get(name, "").split():
                if symbol[0] != "i" or want.dtype == x.dtype:
                    _agree(getattr(operator, symbol)(a, b), want)
        for dtype in taken:
            x = _values(dtype)[:3]
            scalar = {"b": True, "i": 2, "u": 2, "f": 1.5, "c": 2 - 1j}[_kind(dtype)]
            a, f, known = jnp.asarray(x), getattr(jnp, name), getattr(np, name)
            _agree(f(a, scalar), known(x, scalar))
            _agree(f(scalar, a), known(scalar, x))


def test_complex_functions_where_terms_cancel() -> None:
    """Logarithms near the unit circle, squares near the diagonals, tan far from the real axis."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(-3, 3, 500)
    near = np.exp(1j * angle) * (1 + 1e-4 * rng.normal(size=500))
    for name, z in (
        ("log", near),
        ("log1p", near - 1),
        ("square", near.real * (1 + 1j) + 1e-3 * near.imag),
        ("tan", near * 4),
        ("tanh", near * 4),
    ):
        z = z.astype(np.complex64)
        got, want = np.asarray(getattr(jnp, name)(z)), getattr(np, name)(z.astype(np.complex128))
        np.testing.assert_allclose(got.real, want.real, rtol=2e-6)
        np.testing.assert_allclose(got.imag, want.imag, rtol=2e-6)


def test_complex_powers_without_logarithm() -> None:
    nan, inf = math.nan, math.inf
    with pullback.enable_x64(True):
        for x, y, re, im in (
            (0, 0, 1, 0), (0, 2, 0, 0), (0, 1 + 1j, nan, nan), (0, -1, nan, nan), (nan, 0, 1, 0),
            (1, complex(inf, nan), 1, 0), (complex(1, -0.0), 2j, 1, 0), (inf, 0.5, inf, 0),
            (inf, -1, 0, 0), (inf, nan, nan, nan), (2, 3, 8, 0), (1j, 2, -1, 0),
        ):  # fmt: skip
            got = complex(jnp.pow(jnp.asarray(x, complex), jnp.asarray(y, complex)))
            np.testing.assert_allclose((got.real, got.imag), (re, im), atol=1e-14)


@pytest.mark.parametrize("name", ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool"))
def test_dlpack_of_every_dtype(name: str) -> None:
    x = jnp.asarray([0, 1, 1], name)
    for out in (jnp.from_dlpack(x, copy=False), pullback.dlpack.from_dlpack(x, copy=True)):
        assert out.dtype == x.dtype and out.tolist() == x.tolist()
    for size in (3, 300):  # `copy=False` promises one memory, however small
        x = jnp.zeros(size, name)
        assert jnp.from_dlpack(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
        copied = jnp.from_dlpack(x, copy=True)
        assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_dlpack_says_when_it_must_copy() -> None:
    x = np.arange(6, dtype=np.float32)
    assert jnp.from_dlpack(x, copy=False).tolist() == x.tolist()
    assert jnp.from_dlpack(x, copy=False).unsafe_buffer_pointer() == x.ctypes.data
    for other in (x[::2], x.reshape(2, 3).T, x.astype(np.float64)):
        with pytest.raises(ValueError, match="requires a copy"):
            jnp.from_dlpack(other, copy=False)
        assert np.array_equal(jnp.from_dlpack(other), other)
    y = jnp.from_dlpack(x, device=pullback.devices()[0], copy=True)
    x[0] = 9
    assert y[0] == 0
    for wrong in ([1.0], x.__dlpack__()):
        with pytest.raises(TypeError, match="__dlpack__"):
            jnp.from_dlpack(wrong)
    assert [pullback.dlpack.is_supported_dtype(t) for t in ("bfloat16", "bool", "float8_e5m2")] == [
        True, True, False,
    ]  # fmt: skip
    assert not pullback.dlpack.is_supported_dtype(ml_dtypes.int4)


def test_containers_are_no_operands() -> None:
    """Python would repeat a list as often as an integer array says."""
    x = jnp.asarray(2)
    for f in (operator.mul, operator.eq, operator.ne, operator.add, operator.matmul):
        for other in ([1], (1,), {1}, {1: 1}):
            for args in ((x, other), (other, x)):
                with pytest.raises(TypeError, match="unsupported operand"):
                    f(*args)
    with pytest.raises(TypeError, match="unsupported operand"):
        pullback.jit(lambda x: x == [1])(x)
    assert (x == None, x != "a") == (False, True)  # noqa: E711


def test_in_asks_vectors_for_scalars() -> None:
    x = jnp.arange(3)
    assert 2 in x and 5 not in x and 1.0 in x and 1 not in x[:0]
    for bad, value in ((x[0], 1), (x[None], 1), (x, x)):
        with pytest.raises(ValueError, match="must be"):
            operator.contains(bad, value)


def test_kinds_of_dtypes() -> None:
    assert jnp.isdtype(jnp.float32, ("bool", jnp.float32)) and not jnp.isdtype(jnp.float32, None)
    for bad in (3, ["bool"], ("bool", ("integral",))):
        with pytest.raises(TypeError, match="Expected kind"):
            jnp.isdtype(jnp.float32, bad)


def test_nothing_repeated() -> None:
    assert jnp.repeat(jnp.ones((0, 3)), jnp.zeros(3, int), axis=1).shape == (0, 0)
    assert jnp.repeat(jnp.ones((2, 3)), jnp.zeros(3, int), axis=1).shape == (2, 0)


def test_array_attributes_for_other_libraries() -> None:
    x = jnp.asarray(17)
    assert (x.__hex__(), x.__oct__(), hex(x)) == ("0x11", "0o21", "0x11")
    with pytest.warns(DeprecationWarning, match="use dtype=arr.dtype"):
        assert np.dtype(x) == x.dtype  # type: ignore[call-overload]
    assert x.clone() == x and x.clone() is not x
    with pytest.raises(ValueError, match="0d array"):
        jnp.asarray(1j).view("float32")


def _immutable() -> bool:
    with pytest.raises(TypeError, match="immutable"):
        jnp.zeros(2)[0] = 1.0
    return True


# What tests/data/array_api_xfails.txt says of each group of tests that are expected to fail.
LISTED = {
    "Arrays are immutable.": _immutable,
    "Attributes of finfo are NumPy's numbers: no Python float where they are float32.": lambda: (
        type(jnp.finfo(jnp.complex64).eps) is np.float32
    ),
    "Positions are int32 with 64-bit types on, too.": lambda: (
        jnp.searchsorted(jnp.arange(3), 1).dtype == np.int32
    ),
    "sign keeps the sign of a zero.": lambda: math.copysign(1, jnp.sign(-0.0)) == -1,
    "C's results, of which the standard's text differs.": lambda: (
        complex(jnp.sqrt(complex(math.inf, 2))) == complex(math.inf)
        and math.copysign(1, jnp.tanh(complex(math.inf, 2)).imag) == -1
    ),
    "Floors of infinite quotients are NaN, those of tiny ones below zero -1.": lambda: (
        math.isnan(jnp.floor_divide(math.inf, 2.0)) and jnp.floor_divide(1.0, -math.inf) == -1
    ),
    "With 64-bit types off the suite asks for int64 all the same.": lambda: (
        jnp.promote_types("uint32", "int8") == np.int64
    ),
}


def test_the_listed_failures_of_the_public_suite() -> None:
    """Each group is still as its heading says: one that is mended leaves the list."""
    text = (pathlib.Path(__file__).parent / "data" / "array_api_xfails.txt").read_text()
    groups = [g.splitlines() for g in text.split("\n\n")[1:]]
    assert [g[0].removeprefix("# ") for g in groups] == list(LISTED)
    assert all(x.startswith("array_api_tests/test_") for g in groups for x in g[1:])
    with pullback.enable_x64():
        assert all(holds() for holds in LISTED.values())
