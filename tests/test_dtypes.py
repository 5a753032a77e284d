"""The promotion lattice, weak types and canonical widths equal JAX's, for every pair of dtypes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback.numpy
from pullback import config, dtypes

jax = pytest.importorskip("jax")

NAMES = [
    "bool",
    "uint1",
    "int1",
    "uint2",
    "int2",
    "uint4",
    "int4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


# ml_dtypes has integers of one bit since 0.6.
NAMES = [n for n in NAMES if hasattr(ml_dtypes, n) or not n.endswith("int1")]


def make(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return type(e).__name__


@pytest.mark.parametrize("x64", [False, True])
def test_pairs(x64):
    bad = []
    with jax.enable_x64(x64), config.enable_x64(x64):
        for a, b in itertools.product(NAMES, NAMES):
            want = outcome(jax.numpy.promote_types, make(a), make(b))
            got = outcome(dtypes.promote_types, make(a), make(b))
            if want != got:
                bad.append((a, b, want, got))
    assert not bad


@pytest.mark.parametrize("x64", [False, True])
def test_weak(x64):
    bad = []
    values = [True, 1, 1.0, 1j, *map(make, NAMES)]
    with jax.enable_x64(x64), config.enable_x64(x64):
        for pair in itertools.chain(
            itertools.product(values, values), itertools.product(values[:4], values[:4], values)
        ):
            want = outcome(lambda *p: jax.dtypes.result_type(*p, return_weak_type_flag=True), *pair)
            got = outcome(lambda *p: dtypes.result_type(*p, return_weak_type_flag=True), *pair)
            if want != got:
                bad.append((pair, want, got))
    assert not bad


def test_issubdtype():
    kinds = [
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
        np.bool_,
        np.float32,
        np.int32,
        ml_dtypes.bfloat16,
    ]
    bad = []
    others = [None, "f4", "float", "x", int, float, np.float32(1)]
    for a in [*map(make, NAMES), *kinds, *others]:
        for b in [*kinds, *map(make, NAMES), *others]:
            want, got = outcome(jax.numpy.issubdtype, a, b), outcome(dtypes.issubdtype, a, b)
            if want != got:
                bad.append((a, b, want, got))
    assert not bad


def test_canonical():
    for name in NAMES:
        assert dtypes.canonicalize_dtype(make(name)) == jax.dtypes.canonicalize_dtype(make(name))
    for bad in ("U", "O", "datetime64[s]"):
        with pytest.raises(TypeError):
            dtypes.canonicalize_dtype(np.dtype(bad))


@pytest.mark.parametrize("name", NAMES)
def test_itemsize_bits(name):
    assert dtypes.itemsize_bits(make(name)) == jax.dtypes.itemsize_bits(make(name))


def test_strict():
    """A number takes an array's dtype where that holds numbers like it, and nothing else does."""
    bad = []
    values = [True, 1, 1.0, 1j, *map(make, NAMES)]
    with jax.numpy_dtype_promotion("strict"), config.numpy_dtype_promotion("strict"):
        for pair in itertools.product(values, values[:4] + values[-8:]):
            want = outcome(lambda *p: jax.dtypes.result_type(*p, return_weak_type_flag=True), *pair)
            got = outcome(lambda *p: dtypes.result_type(*p, return_weak_type_flag=True), *pair)
            if want != got:
                bad.append((pair, want, got))
    assert not bad


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "power"])
def test_arithmetic_of_bools_is_of_32_bits(name, x64):
    """As in JAX, under x64 too."""
    x = np.array([True])
    with jax.enable_x64(x64), config.enable_x64(x64):
        want = getattr(jax.numpy, name)(x, x).dtype
        assert getattr(pullback.numpy, name)(x, x).dtype == want == np.int32
        assert (pullback.numpy.asarray(x) ** 2).dtype == np.int32


@pytest.mark.parametrize("x", ["a", b"a", "S1", "U2", object, str, np.datetime64(1, "s"), int, [1]])
def test_what_has_no_promotion_is_refused(x: Any) -> None:
    """With JAX's error classes; none is a KeyError of a table of ours."""
    calls: list[Callable[[Any], Any]] = [
        lambda m: m.numpy.result_type(x),
        lambda m: m.numpy.result_type(x, m.numpy.bfloat16),
        lambda m: m.numpy.result_type(m.numpy.int8(1), x),
        lambda m: m.numpy.promote_types(x, m.numpy.int8),
    ]

    def outcome(m: Any, call: Callable[[Any], Any]) -> Any:
        try:
            return call(m)
        except Exception as e:
            return type(e)

    assert [outcome(pullback, c) for c in calls] == [outcome(jax, c) for c in calls]


def test_numbers_without_a_width_leave_types_as_the_lattice_says() -> None:
    """The common case is decided without the lattice's table: the same answers."""
    weak = [np.dtype(n) for n in ("int32", "float32", "complex64", "bool")]
    for d, w in itertools.product(dtypes.ALL_DTYPES, weak):
        nodes = frozenset((dtypes._node(d, False), dtypes._node(w, True)))
        try:
            found = dtypes._lub(nodes)
        except dtypes.TypePromotionError:
            with pytest.raises(dtypes.TypePromotionError):
                dtypes.join_types([(d, False), (w, True)])
            continue
        expected = (dtypes._WEAK[found], True) if isinstance(found, str) else (found, False)
        assert dtypes.join_types([(d, False), (w, True)]) == expected, (d, w)
