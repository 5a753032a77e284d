"""Scatters, segments, top_k and long running totals, beside NumPy, with any number of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp, ops
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

RANDOM = np.random.default_rng(11)
UFUNCS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def data(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def segments(kind: str, x: Any, ids: Any, count: int) -> Any:
    """What a segment reduction should give, in 64 bits; ids outside are dropped."""
    start = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[kind]
    out = np.full((count, *x.shape[1:]), start)
    inside = (ids >= 0) & (ids < count)
    with np.errstate(invalid="ignore"):
        UFUNCS[kind].at(out, ids[inside], x[inside].astype(np.float64))
    return out


@pytest.mark.parametrize("kind", UFUNCS)
@pytest.mark.parametrize(
    ("n", "width", "count", "ordered"),
    [
        (140_001, None, 30, False),  # in blocks
        (140_001, None, 30, True),  # in runs
        (140_001, None, 9_000, True),
        (9_000, 16, 50, False),  # rows in blocks
        (3_000, 70, 2_000, False),  # strips of columns
        (2_000, 3, 2_000, False),
        (9_000, 16, 50, True),  # ranges of rows, by bisection
        (3_000, 70, 2_000, True),
        (5_000, 33, 3, True),
    ],
)
def test_segments(kind: str, n: int, width: int | None, count: int, ordered: bool) -> None:
    x = data(n) if width is None else data(n, width)
    if kind == "prod":
        x = (1 + 0.001 * x).astype(np.float32)
    if kind == "max":
        x[5] = np.nan
    ids = RANDOM.integers(-2, count + 2, n).astype(np.int32)
    ids = np.sort(ids) if ordered else ids
    segment = getattr(ops, f"segment_{kind}")
    f = pullback.jit(lambda x, i: segment(x, i, count, indices_are_sorted=ordered))
    np.testing.assert_allclose(f(x, ids), segments(kind, x, ids, count), rtol=2e-3, atol=2e-2)


def test_unsorted_runs_are_no_fault() -> None:
    x, ids = data(140_000), RANDOM.integers(0, 3, 140_000).astype(np.int32)
    got = ops.segment_sum(x, ids, 3, indices_are_sorted=True)
    np.testing.assert_allclose(got, segments("sum", x, ids, 3), rtol=1e-3, atol=1e-2)


def test_unsorted_rows_are_no_fault() -> None:
    x, ids = data(4_000, 40), RANDOM.integers(-1, 70, 4_000).astype(np.int32)
    got = ops.segment_sum(x, ids, 70, indices_are_sorted=True)
    np.testing.assert_allclose(got, segments("sum", x, ids, 70), rtol=1e-3, atol=1e-3)


def test_sorted_rows_are_added_by_threads() -> None:
    """Each takes rows of the result, which is then what it is in one thread, to the bit."""
    x, ids = data(4_000, 40), np.sort(RANDOM.integers(0, 70, 4_000)).astype(np.int32)
    f = pullback.jit(lambda x, i: ops.segment_sum(x, i, 70, indices_are_sorted=True))
    compiled = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x, ids), reference_rule)
    assert any("scatter" in k.name and "parallel" in show_kernel(k) for k in compiled.kernels)
    want = np.zeros((70, 40), np.float32)
    np.add.at(want, ids, x)
    assert np.array_equal(f(x, ids), want)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 16, 50, 64, 70, 130])
def test_rows(width: int) -> None:
    """Rows of every width, few and many for each target, inside and outside, into a donated array
    and not: short ones are written out in whole vectors, wide ones cut among threads."""
    for count, rows in ((300, 40), (80_000 // width, 7)):
        x, v = data(rows, width), data(count, width)
        i = RANDOM.integers(-rows, rows + 2, count).astype(np.int32)
        inside = i < rows
        want, last = x.astype(np.float64), x.copy()
        np.add.at(want, i[inside], v[inside])
        last[i[inside]] = v[inside]  # the last one stays
        for donated in ((), (0,)):
            add = pullback.jit(lambda x, i, v: x.at[i].add(v), donate_argnums=donated)
            put = pullback.jit(lambda x, i, v: x.at[i].set(v), donate_argnums=donated)
            got = add(jnp.array(x), i, v)
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-2)
            np.testing.assert_array_equal(put(jnp.array(x), i, v), last)


@pytest.mark.parametrize("shape", [(5, 9), (300, 70), (4, 6, 33)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int8])
def test_columns(shape: tuple[int, ...], dtype: Any) -> None:
    """Columns: at every row all updates are made, in order; some are outside."""
    n, count = shape[-1], 45
    x = (data(*shape) * 9).astype(dtype)
    v = (data(*shape[:-1], count) * 9).astype(dtype)
    i = RANDOM.integers(-n, n + 2, count).astype(np.int32)
    inside = i < n
    want, last = x.copy(), x.copy()
    np.add.at(want, (..., i[inside]), v[..., inside])
    last[..., i[inside]] = v[..., inside]
    got = pullback.jit(lambda x, i, v: x.at[..., i].add(v))(x, i, v)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    got = pullback.jit(lambda x, i, v: x.at[..., i].set(v))(x, i, v)
    np.testing.assert_array_equal(got, last)


def test_rows_and_columns_as_loops() -> None:
    """Threads take the rows of a column update, and find its places once; a row of eight is one
    vector, with nothing to mask; the first of several parts needs no room of its own."""

    def text(f: Any, *arguments: Any) -> str:
        closed = pullback.make_jaxpr(f)(*arguments)
        compiled = pipeline.compile_jaxpr(closed, reference_rule)
        return "".join(show_kernel(k) for k in compiled.kernels)

    i = np.zeros(1000, np.int32)
    shown = text(lambda x, i, v: x.at[:, i].add(v), data(600, 50), i, data(600, 1000))
    assert "for parallel" in shown and "update" not in shown
    assert shown.index("select") < shown.rindex("for parallel") < shown.rindex("for seq")
    rows = data(20_000, 8)
    shown = text(lambda x, i, v: x.at[i].add(v), data(50, 8), np.zeros(20_000, np.int32), rows)
    assert shown.count("0:i64..8:i64") == 2  # into the result, and into a part's room
    shown = text(lambda x, i, v: x.at[i].set(v), data(50, 13), np.zeros(99, np.int32), data(99, 13))
    assert "0:i64..8:i64" in shown and "0:i64..4:i64" in shown and "13:i64 by" not in shown


@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.bool_])
def test_gathers_and_scatters_by_places(mode: str, dtype: Any) -> None:
    with pullback.enable_x64(dtype == np.float64):
        x = (data(37, 41) * 9).astype(dtype)
        i, j = (RANDOM.integers(-n, n + 3, 3001).astype(np.int32) for n in x.shape)
        got = pullback.jit(lambda x, i, j: x.at[i, j].get(mode=mode, fill_value=1))(x, i, j)
        wrapped = [np.where(k < 0, k + n, k) for k, n in zip((i, j), x.shape, strict=True)]
        inside = (wrapped[0] < 37) & (wrapped[1] < 41)
        places = [np.minimum(k, n - 1) for k, n in zip(wrapped, x.shape, strict=True)]
        want = x[places[0], places[1]]
        if mode == "fill":
            want = np.where(inside, want, np.ones((), dtype))
        np.testing.assert_array_equal(got, want)
        flat = places[0] * 41 + places[1]
        first = np.unique(flat, return_index=True)[1]  # each place once: the order does not matter
        first = first[inside[first]]
        values = (data(len(first)) * 9).astype(dtype)
        got = pullback.jit(lambda x, i, j, v: x.at[i, j].set(v, mode="drop"))(
            x, i[first], j[first], values
        )
        expected = x.copy()
        expected.reshape(-1)[flat[first]] = values
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64])
@pytest.mark.parametrize(("count", "outside"), [(90, 3), (3_000, 0), (100_003, 3)])
def test_the_last_update_of_a_place_stays(dtype: Any, count: int, outside: int) -> None:
    """However many lanes and threads there are. Beside it, sums and extremes of booleans."""
    x, v = (data(70) * 9).astype(dtype), (data(count) * 9).astype(dtype)
    i = RANDOM.integers(-70, 70 + outside, count).astype(np.int32)
    inside = i < 70
    want = x.copy()
    want[i[inside]] = v[inside]
    np.testing.assert_array_equal(pullback.jit(lambda x, i, v: x.at[i].set(v))(x, i, v), want)
    if dtype is np.bool_:
        for name, f in (("max", np.logical_or), ("min", np.logical_and)):
            want = x.copy()
            f.at(want, i[inside], v[inside])
            put = pullback.jit(lambda x, i, v, name=name: getattr(x.at[i], name)(v))
            np.testing.assert_array_equal(put(x, i, v), want)


def test_counted_places_are_written_in_lanes() -> None:
    """Those that cannot meet; others are written one after the other, the last one stays."""

    def text(f: Any, *arguments: Any) -> str:
        closed = pullback.make_jaxpr(f)(*arguments)
        return "".join(
            show_kernel(k) for k in pipeline.compile_jaxpr(closed, reference_rule).kernels
        )

    x, v = data(3000), data(900)
    apart = lambda x, v: x.at[3 * jnp.arange(900) + 1].set(v)
    assert "alloc" not in text(apart, x, v) and "for seq" not in text(apart, x, v)
    meet = lambda x, v: x.at[jnp.arange(900) // 2].set(v)
    assert "for seq" in text(meet, x, v)
    want = x.copy()
    want[1:2701:3] = v
    np.testing.assert_array_equal(pullback.jit(apart)(x, v), want)
    want = x.copy()
    want[:450] = v[1::2]
    np.testing.assert_array_equal(pullback.jit(meet)(x, v), want)


def largest(x: Any, k: int) -> tuple[Any, Any]:
    """top_k by its definition: by the bits of floats, equal ones in order."""
    bits = x.astype(np.float32).view(np.int32) if x.dtype.kind in "fV" else x.astype(np.int64)
    if x.dtype.kind in "fV":
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    order = np.argsort(~bits, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint32", "int8", "bool"])
@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((5, 33), 33), ((3, 1000), 10), ((3, 259), 17), ((3, 65), 5), ((70_000,), 100),
        ((70_000,), 32), ((150_001,), 10),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arranged", ["random", "ascending", "equal", "in columns"])
def test_top_k(dtype: str, shape: tuple[int, ...], k: int, arranged: str) -> None:
    x = data(*shape) * 50
    if dtype == "float32" and arranged == "random":
        x[..., 3], x[..., 7], x[..., 9] = np.nan, -np.nan, np.inf
    if arranged == "ascending":
        x = np.sort(x)
    if arranged == "in columns":  # far more than k reach what any columns' maxima tell
        x[..., ::16], x[..., 5::16] = np.abs(x[..., ::16]) + 90, np.abs(x[..., 5::16]) + 90
    if dtype == "uint32":
        x = (np.abs(x) % 100 * 4e7).astype(np.uint32)
    x = np.asarray(jnp.asarray(x).astype(getattr(jnp, dtype if dtype != "bool" else "bool_")))
    if arranged == "equal":
        x = np.broadcast_to(x[..., :1], x.shape).copy()
    values, places = pullback.jit(lambda x: lax.top_k(x, k))(x)
    want = largest(x, k)
    np.testing.assert_array_equal(places, want[1])
    np.testing.assert_array_equal(np.asarray(values).astype(np.float64), want[0].astype(np.float64))


def test_top_k_is_little_code() -> None:
    """Its first call takes no longer than looking at the row a few times allows: loops over columns
    and blocks have literal lengths, a row that is alone is not cut among threads if it is short."""
    for shape in ((100_000,), (1000, 1000)):
        closed = pullback.make_jaxpr(lambda x: lax.top_k(x, 10)[0])(data(*shape))
        (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
        shown = show_kernel(kernel)
        assert shown.count("for ") <= 18 and "vector %i" in shown
        assert "0:i64..32:i64" in shown and shown.count("parallel") == len(shape) - 1
        assert shown.count(" = @in0[") == 4  # columns, blocks, what is found, and what is written


def test_top_k_inside_a_loop() -> None:
    x = data(4, 300)
    got = lax.map(lambda row: lax.top_k(row, 3)[1], x)
    np.testing.assert_array_equal(got, largest(x, 3)[1])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [131_072, 163_841])
def test_long_running_totals(n: int, reverse: bool) -> None:
    x = data(n)
    turn = (lambda a: a[::-1]) if reverse else (lambda a: a)
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lax.cumsum, np.cumsum), (lax.cummax, np.maximum.accumulate),
    ]  # fmt: skip
    for ours, theirs in cases:
        got = pullback.jit(lambda x, ours=ours: ours(x * 2, reverse=reverse))(x)
        want = turn(theirs(turn(2.0 * x.astype(np.float64))))
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-2)
    whole = (x * 4).astype(np.int32)
    got = lax.cumsum(whole, reverse=reverse)
    np.testing.assert_array_equal(got, turn(np.cumsum(turn(whole), dtype=np.int32)))


PROGRAM = """
import hashlib, numpy as np, pullback
from pullback import lax, ops
r = np.random.default_rng(0)
x, i = r.standard_normal(270_000).astype("f"), r.integers(0, 60, 270_000).astype("i4")
h = hashlib.sha256()
for f in (
    lax.cumsum,
    lambda x: ops.segment_sum(x, i, 60),
    lambda x: ops.segment_sum(x, np.sort(i), 60, indices_are_sorted=True),
    lambda x: x.at[i].add(x[::-1]),
    lambda x: ops.segment_sum(x.reshape(-1, 90), i[:3000], 1000),
    lambda x: ops.segment_sum(x.reshape(-1, 10), i[:27_000], 60),
    lambda x: lax.top_k(x, 50)[1],
):
    h.update(np.asarray(pullback.jit(f)(x)).tobytes())
print(h.hexdigest())
"""


def test_bits_do_not_depend_on_threads() -> None:
    def run(threads: int) -> str:
        environment = {**os.environ, "PULLBACK_NUM_THREADS": str(threads)}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    answers = {run(threads) for threads in (1, 2, 7)}
    assert len(answers) == 1 and len(answers.pop()) == hashlib.sha256().digest_size * 2


def test_unique_compiles_nothing_for_a_size_that_values_decide() -> None:
    for k in (3, 17, 41):
        x = np.repeat(RANDOM.permutation(k), 3).astype(np.int32)
        values, first, way, counts = jnp.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )
        np.testing.assert_array_equal(values, np.arange(k))
        np.testing.assert_array_equal(first, [np.flatnonzero(x == v)[0] for v in range(k)])
        np.testing.assert_array_equal(np.asarray(values)[np.asarray(way)], x)
        np.testing.assert_array_equal(counts, np.full(k, 3))
    signed = np.asarray(jnp.unique(np.array([2, 0.0, -0.0, np.nan, np.nan], np.float32)))
    np.testing.assert_array_equal(signed, [0, 2, np.nan])
    assert not np.signbit(signed[0])
