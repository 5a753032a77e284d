"""Sorts as native code: the stable order, zeros and NaNs as they were, without Python."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax

TYPES = (
    np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int32, np.uint8, np.uint32, bool,
)  # fmt: skip
SHAPES = ((2, 1), (65, 1), (200, 1), (257, 3), (70000, 1), (3, 40), (16, 70), (64, 17), (130, 16))


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    x, u = rng.standard_normal(shape), rng.random(shape)
    x = np.where(u < 0.1, 0.0, x)
    for low, value in (
        (0.0, -0.0),
        (0.9, np.nan),
        (0.94, -np.nan),
        (0.96, np.inf),
        (0.98, -np.inf),
    ):
        x = np.where((low <= u) & (u < low + 0.04), value, x)
    return x.astype(dtype)


def bits(x):
    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}")


def stable_order(x, axis):
    if np.asarray(x).dtype.kind in "iub":
        return np.argsort(x, axis=axis, kind="stable")
    x = np.asarray(x, np.float32) + np.float32(0)
    return np.argsort(np.where(np.isnan(x), np.float32(np.nan), x), axis=axis, kind="stable")


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sorts_are_stable_to_the_bit(shape, axis, dtype):
    shape = shape if axis == 0 else shape[::-1]
    x = numbers(shape, dtype, 1)
    order = stable_order(x, axis)
    sorted_x, places = pb.jit(lambda x: (jnp.sort(x, axis), jnp.argsort(x, axis)))(x)
    assert (bits(sorted_x) == bits(np.take_along_axis(x, order, axis))).all()
    assert (np.asarray(places) == order).all()


@pytest.mark.parametrize("n", [100, 300, 3000])
def test_sorts_inside_loops(n):
    x, y = numbers((3, n), np.float32, 2), numbers((3, n), np.int32, 3)
    rows = lambda c, row: (c, tuple(lax.sort(row, num_keys=1)) + (jnp.sort(row[0]),))
    out = pb.jit(lambda x, y: lax.scan(rows, 0, (x, y))[1])(x, y)
    order = stable_order(x, 1)
    for found, source in zip(out, (x, y, x), strict=True):
        assert (bits(found) == bits(np.take_along_axis(source, order, 1))).all()


def test_sorts_inside_loops_compare_integers():
    rows = lambda x: lax.scan(lambda c, r: (c, jnp.sort(r)), 0, x)[1]
    assert "total" not in pb.jit(rows).lower(np.zeros((3, 100), np.float32)).compile().as_text()


@pytest.mark.parametrize("n", [90, 70000])
def test_sorts_by_several_keys_of_64_bits(n):
    with pb.enable_x64(True):
        rng = np.random.default_rng(4)
        keys = [
            rng.integers(-2, 2, n),
            np.round(rng.standard_normal(n) * 2),
            rng.integers(0, 3, n).astype(np.uint8),
        ]
        keys[0][:50] <<= 60
        order = pb.jit(lambda *ks: jnp.lexsort(ks))(*keys)
        assert (np.asarray(order) == np.lexsort(keys)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_a_long_row_do_not_show(threads):
    x = numbers((300_000,), np.float32, 5)
    with pb.num_threads(threads):
        assert (np.asarray(pb.jit(jnp.argsort)(x)) == stable_order(x, 0)).all()


@pytest.mark.parametrize(
    "f",
    [
        jnp.sort,
        jnp.argsort,
        lambda x: lax.sort((x, x), num_keys=1),
        lambda x: lax.scan(lambda c, r: (c, jnp.sort(r)), 0, x.reshape(4, -1))[1],
        lambda x: jnp.sort(x.reshape(-1, 50), 1),
        lambda x: jnp.argsort(x.reshape(-1, 50), 0),
    ],
)
def test_sorts_need_no_python(f):
    plan = pb.jit(f).lower(np.zeros(100_000, np.float32)).as_text("loops")
    assert "KernelStep" in plan and "HostStep" not in plan


def largest(x, k, sign=1):
    """Places of the k largest of each row, equal ones in order: of numbers without NaN."""
    return np.argsort(-sign * x.astype(np.float64), axis=-1, kind="stable")[..., :k]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint32, np.int8, bool])
@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((5000,), 33),
        ((3, 3000), 40),
        ((200_001,), 200),
        ((50_001,), 10),
        ((2, 3000), 5),
        ((7, 300), 20),
        ((3, 130), 32),
        ((3, 40), 1),
        ((500,), 129),
        ((3, 90), 4),
    ],
)
def test_the_largest_need_no_python(kind, shape, k):
    x = np.random.default_rng(6).integers(0, 100, shape).astype(kind)
    if x.ndim > 1:
        x[0] = x[0, 0]  # a row of equal elements
    with pb.enable_x64(True):
        found = pb.jit(lambda x: lax.top_k(x, k))
        assert "HostStep" not in found.lower(x).as_text("loops")
        values, places = found(x)
    assert (np.asarray(places) == largest(x, k)).all()
    assert (np.asarray(values) == np.take_along_axis(x, largest(x, k), -1)).all()


def test_the_largest_by_their_bits():
    """NaN is the largest, and -0.0 is less than 0.0."""
    x = np.random.default_rng(7).standard_normal(20_000).astype(np.float32)
    x[7::50], x[::3], x[1::3], x[5], x[9] = np.nan, 0.0, -0.0, np.inf, -np.nan
    values, places = pb.jit(lambda x: lax.top_k(x, 7500))(x)
    ranks = x.view(np.int32)
    ranks = ranks ^ ((ranks >> 31) & 0x7FFFFFFF)
    order = largest(ranks, 7500)
    assert (np.asarray(places) == order).all()
    assert (bits(values) == bits(x[order])).all()


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("k", [100, 300])
def test_the_largest_of_numbers_near_each_other(spread, k):
    """The bits of the bound are found until little more than k elements reach it, be they the first
    or the last ones."""
    x = (1000 + spread * np.random.default_rng(10).normal(size=30_000)).astype(np.float32)
    found = pb.jit(lambda x: lax.top_k(x, k))
    assert (np.asarray(found(x)[1]) == largest(x, k)).all()
    text = found.lower(x).as_text("loops")
    assert text.count("<-2147483647:i32]:") == 2  # how many are known to reach what has been found


@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize("f", [lax.approx_max_k, lax.approx_min_k])
def test_approximate_ones_are_exact(f, aggregate):
    x = np.random.default_rng(8).integers(-999, 999, (2, 4000)).astype(np.float32)
    found = pb.jit(lambda x: f(x, 10, aggregate_to_topk=aggregate))
    assert "HostStep" not in found.lower(x).as_text("loops")
    values, places = found(x)
    order = largest(x, values.shape[1], 1 if f is lax.approx_max_k else -1)
    assert (np.asarray(places) == order).all()
    assert (np.asarray(values) == np.take_along_axis(x, order, -1)).all()


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("shape", "k"), [((40_000,), 7), ((3, 1000), 10), ((5, 7000), 1), ((17, 300), 100)]
)
def test_the_largest_of_rows_in_order(shape, k, turn):
    x = np.sort(numbers(shape, np.int32, 8), -1)[..., ::turn]
    values, places = pb.jit(lambda x: lax.top_k(x, k))(x)
    assert (np.asarray(places) == largest(x, k)).all()
    assert (np.asarray(values) == np.take_along_axis(x, largest(x, k), -1)).all()


def test_the_largest_inside_loops():
    x = np.random.default_rng(9).integers(0, 99, (3, 3000)).astype(np.float32)
    rows = pb.jit(lambda x: lax.scan(lambda c, r: (c, lax.top_k(r, 60)[1]), 0, x)[1])
    assert (np.asarray(rows(x)) == largest(x, 60)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.float16])
@pytest.mark.parametrize("n", [97, 255])
def test_many_rows_of_narrow_numbers_take_a_network(n, dtype):
    x = numbers((n, 40), dtype, 11).T  # NumPy compares these one by one
    f = pb.jit(lambda x: jnp.sort(x))
    assert "HostStep" not in f.lower(x).as_text("loops")
    order = stable_order(x, 1)
    assert (bits(f(x)) == bits(np.take_along_axis(x, order, 1))).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, ml_dtypes.int4])
@pytest.mark.parametrize(("shape", "axis"), [((70_001,), 0), ((5, 300), 1), ((1001, 3), 0)])
def test_bytes_are_counted(shape, axis, dtype):
    x = np.random.default_rng(10).integers(-8, 8, shape).astype(dtype)
    f = pb.jit(lambda x: jnp.sort(x, axis))
    assert "HostStep" not in f.lower(x).as_text("loops")
    found = np.asarray(f(x))
    assert found.dtype == x.dtype
    assert (found.astype(int) == np.sort(x.astype(int), axis)).all()
    rows = pb.jit(lambda x: lax.scan(lambda c, r: (c, jnp.sort(r)), 0, x)[1])
    whole = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    assert (np.asarray(rows(whole)).astype(int) == np.sort(whole.astype(int), 1)).all()


SEARCHED = (np.float32, np.int32, np.uint32, np.int16)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", SEARCHED, ids=lambda d: np.dtype(d).name)
def test_many_values_are_searched_in_blocks(dtype, side):
    """At every size of the table: whole blocks, one element more, several levels; among the values
    are those of the table, extremes and what is not a number."""
    rng = np.random.default_rng(0)
    search = pb.jit(lambda t, v: jnp.searchsorted(t, v, side=side))
    for n in (31, 32, 33, 48, 255, 256, 257, 1024, 1025, 5000):
        if np.dtype(dtype).kind == "f":
            t = np.sort(rng.standard_normal(n).astype(dtype))
            t[n // 2 : n // 2 + 4] = -0.0, 0.0, -0.0, 0.0
            t[:2], t[-2:] = -np.inf, np.nan if n % 2 else np.inf
            extremes = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0], dtype)
        else:
            bounds = np.iinfo(dtype)
            extremes = np.array([bounds.min, bounds.max, 0, 1, 2], dtype)
            t = rng.integers(0, n, n).astype(dtype)
            t[:2] = extremes[:2]
        t = np.sort(t)
        v = np.concatenate([t, extremes, (numbers(999, dtype, 1) if dtype != np.int16 else t)])
        assert np.array_equal(search(t, v), np.searchsorted(t, v, side=side)), n
        flat = np.full(n, extremes[0], dtype)  # one value that is equal to all of its table
        assert np.array_equal(search(flat, v), np.searchsorted(flat, v, side=side)), n


def test_a_table_without_order_is_halved_as_the_loop_says():
    """A search in blocks would end elsewhere; a program's own loop need not look for anything."""
    rng = np.random.default_rng(0)
    t, v = rng.standard_normal(1000).astype(np.float32), rng.standard_normal(3000)
    for table in (t, np.concatenate([np.sort(t), t[:1]])):
        low, high = np.zeros(3000, np.int64), np.full(3000, len(table))
        for _ in range(10):
            middle = low + (high - low) // 2
            left = v.astype(np.float32) <= table[np.minimum(middle, len(table) - 1)]
            low, high = np.where(left, low, middle), np.where(left, middle, high)
        assert np.array_equal(pb.jit(jnp.searchsorted)(table, v.astype(np.float32)), high)


def test_only_searches_of_many_values_are_in_blocks():
    table = jnp.arange(1000.0)
    lowered = lambda m: pb.jit(jnp.searchsorted).lower(table, jnp.zeros(m)).as_text("loops")
    assert "kernel search" in lowered(500)
    assert "kernel search" not in lowered(10)  # to look at all blocks' ends takes longer
