"""Kernels on every instruction set against NumPy and the interpreter: loops, reductions, masks,
scatter, scratch, threads."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from llvm_kernels import ONE, ZERO, columnwise, elementwise, i64, loop, reduction, rowwise, var

from pullback.backends.llvm import (
    PlanError,
    link,
    run_kernel,
    target as llvm_target,
    target_for,
    thread_limit,
)
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.target import detect_level
from pullback.loops.interpret import interpret
from pullback.loops.ir import (
    Alloc,
    Buf,
    Call,
    Carry,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Store,
    Update,
    While,
)  # fmt: skip

LEVELS = {
    "avx512": ["avx512", "avx2", "sse2"],
    "avx2": ["avx2", "sse2"],
    "sse2": ["sse2"],
    "neon": ["neon"],
}
SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4095, 4096, 4097, 10007]
pytestmark = pytest.mark.skipif(detect_level() == "none", reason="no native code on this machine")


@pytest.fixture(params=LEVELS.get(detect_level(), []))
def isa(request):
    return target_for(request.param)


def check(kernel, arrays, dims, target, tol=0.0, scalars=(), calls=None):
    """Runs natively and in the interpreter; outputs must agree."""
    mine = [np.copy(a) for a in arrays]
    want = [np.copy(a) for a in arrays]
    run_kernel(kernel, mine, dims, scalars, target)
    interpret(kernel, want, dims, scalars, calls)
    for got, expected in zip(mine, want, strict=True):
        if tol:
            np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), rtol=tol, atol=tol)
        else:
            np.testing.assert_array_equal(got, expected)
    return mine


@pytest.mark.parametrize("n", SIZES)
def test_elementwise_lengths(isa, n):
    x = np.random.default_rng(n).normal(size=n).astype("f4")
    k = elementwise(
        [("f32", "mul", (0, Const(1.5, "f32"))), ("f32", "add", (1, 0))], ["f32"], "f32"
    )
    check(k, [x, np.zeros_like(x)], [n], isa)


@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i16", "i32", "i64", "u64", "f32", "f64"])
def test_elementwise_dtypes(isa, dtype):
    rng = np.random.default_rng(0)
    np_dtype = {
        "bool": "?",
        "i8": "i1",
        "u8": "u1",
        "i16": "i2",
        "i32": "i4",
        "i64": "i8",
        "u64": "u8",
        "f32": "f4",
        "f64": "f8",
    }
    x, y = (
        rng.integers(0, 2 if dtype == "bool" else 100, 333).astype(np_dtype[dtype]) for _ in "ab"
    )
    k = elementwise(
        [("bool", "lt", (0, 1)), (dtype, "max", (0, 1)), (dtype, "select", (2, 3, 0))],
        [dtype, dtype],
        dtype,
    )
    check(k, [x, y, np.zeros_like(x)], [333], isa)


def test_unaligned_and_in_place(isa):
    raw = np.zeros(4 * 1001 + 4, "u1")
    x = raw[4:].view("f4")[:1000]
    x[:] = np.arange(1000)
    k = elementwise([("f32", "add", (0, Const(1.0, "f32")))], ["f32"], "f32")
    run_kernel(k, [x, x], [1000], target=isa)
    np.testing.assert_array_equal(x, np.arange(1000, dtype="f4") + 1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("op", "dtype", "init"),
    [
        ("add", "f32", 0.0),
        ("add", "f64", 0.5),
        ("mul", "f64", 1.0),
        ("max", "f32", float("-inf")),
        ("add", "i32", 3),
        ("xor", "u8", 0),
        ("or", "bool", False),
        ("min", "i64", 2**62),
    ],
)
def test_reductions(isa, n, op, dtype, init):
    rng = np.random.default_rng(n)
    kinds = {"f32": "f4", "f64": "f8", "i32": "i4", "u8": "u1", "bool": "?", "i64": "i8"}
    x = rng.normal(size=n) if dtype[0] == "f" else rng.integers(0, 2 if dtype == "bool" else 200, n)
    x = (1.0 + x / n if op == "mul" else x).astype(kinds[dtype])
    tol = {"f32": 2e-4, "f64": 1e-11}.get(dtype, 0.0) if op in ("add", "mul") else 0.0
    check(reduction(op, dtype, init), [x, np.zeros((), kinds[dtype])], [n], isa, tol)


def contract_sum(x, lanes):
    """The sum as docs/contract.md defines it, in NumPy."""
    total = x.dtype.type(0)
    for start in range(0, len(x), 4096):
        block = x[start : start + 4096]
        padded = np.zeros(-(-max(len(block), 1) // (4 * lanes)) * 4 * lanes, x.dtype)
        padded[: len(block)] = block
        acc = np.zeros((4, lanes), x.dtype)
        for row in padded.reshape(-1, 4, lanes):
            acc = acc + row
        v = (acc[0] + acc[1]) + (acc[2] + acc[3])
        while len(v) > 1:
            v = v[: len(v) // 2] + v[len(v) // 2 :]
        total = total + v[0]
    return total


@pytest.mark.parametrize("n", [1, 5, 17, 63, 100, 4096, 5000, 100_003])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sum_has_the_contracts_shape(isa, n, dtype):
    kind = {"f32": "f4", "f64": "f8"}[dtype]
    x = np.random.default_rng(n).normal(size=n).astype(kind)
    out = np.zeros((), kind)
    run_kernel(reduction("add", dtype, 0.0), [x, out], [n], target=isa)
    assert out == contract_sum(x, isa.lanes(x.dtype.itemsize))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (3, 10), (70, 33), (300, 200)])
@pytest.mark.parametrize("outer", ["parallel", "seq", "vector"])
@pytest.mark.parametrize("op", ["add", "max"])
def test_row_reductions(isa, shape, outer, op):
    x = np.random.default_rng(1).normal(size=shape).astype("f4")
    check(rowwise("reduce", outer, op), [x, np.zeros(shape[0], "f4")], shape, isa, 1e-5)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (10, 3), (33, 70), (5000, 37), (9, 200)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_column_sums_add_in_index_order(isa, shape, dtype):
    x = np.random.default_rng(1).normal(size=shape).astype({"f32": "f4", "f64": "f8"}[dtype])
    out = np.zeros(shape[1], x.dtype)
    run_kernel(columnwise(dtype), [x, out], shape, target=isa)
    want = np.zeros(shape[1], x.dtype)
    for start in range(0, shape[0], 4096):
        block = np.zeros(shape[1], x.dtype)
        for row in x[start : start + 4096]:
            block = block + row
        want = want + block
    np.testing.assert_array_equal(out, want)


def test_threads_do_not_change_bits(isa):
    rng = np.random.default_rng(0)
    x = rng.normal(size=1_000_003).astype("f4")
    m = rng.normal(size=(700, 900)).astype("f4")
    results = []
    for threads in (1, 2, 7):
        with thread_limit(threads):
            s, r = np.zeros((), "f4"), np.zeros(700, "f4")
            run_kernel(reduction("add", "f32", 0.0), [x, s], [len(x)], target=isa)
            run_kernel(rowwise(), [m, r], m.shape, target=isa)
            results.append((s, r))
    for s, r in results[1:]:
        assert s == results[0][0]
        np.testing.assert_array_equal(r, results[0][1])


def argmax_kernel(kind="reduce"):
    n, i = var("n"), var("i")
    a, o, p = Buf("a", "f32", (n,), "in"), Buf("o", "f32", (), "out"), Buf("p", "i64", (), "out")
    x = var("x", "f32")
    pv, pi, qv, qi = var("pv", "f32"), var("pi"), var("qv", "f32"), var("qi")
    better, v, j = var("better", "bool"), var("v", "f32"), var("j")
    body = (
        Let(better, "gt", (qv, pv)),
        Let(v, "select", (better, qv, pv)),
        Let(j, "select", (better, qi, pi)),
    )
    combine = Region((pv, pi, qv, qi), body, (v, j))
    ov, oi = var("ov", "f32"), var("oi")
    carries = (Carry(ov, var("av", "f32"), Const(float("-inf"), "f32")), Carry(oi, var("ai"), ZERO))
    sweep = For(i, ZERO, n, ONE, kind, carries, (Load(x, a, (i,)),), (x, i), combine)
    return Kernel("argmax", (a, o, p), (n,), (), (sweep, Store(o, (), ov), Store(p, (), oi)))


@pytest.mark.parametrize("n", [1, 5, 64, 1000])
def test_argmax_by_region(isa, n):
    x = np.random.default_rng(n).integers(0, 50, n).astype("f4")
    _, value, place = check(argmax_kernel(), [x, np.zeros((), "f4"), np.zeros((), "i8")], [n], isa)
    assert value == x.max() and place == x.argmax()


@pytest.mark.parametrize("n", [0, 1, 17, 1000])
def test_scan_reads_the_updated_carry(isa, n):
    i, length = var("i"), var("n")
    a, o = Buf("a", "f32", (length,), "in"), Buf("o", "f32", (length,), "out")
    x, y, acc, out = var("x", "f32"), var("y", "f32"), var("acc", "f32"), var("out", "f32")
    body = (Load(x, a, (i,)), Let(y, "mul", (acc, Const(2.0, "f32"))), Store(o, (i,), y))
    k = For(
        i, ZERO, length, ONE, "scan", (Carry(out, acc, Const(0.0, "f32")),), body, (x,), ("add",)
    )
    data = np.random.default_rng(0).integers(-5, 5, n).astype("f4")
    _, got = check(
        Kernel("cumsum", (a, o), (length,), (), (k,)), [data, np.zeros_like(data)], [n], isa, 1e-5
    )
    np.testing.assert_allclose(got, 2 * np.cumsum(data, dtype="f4"), rtol=1e-5)


def gather_kernel(index_dtype="i64", masked=False):
    n, m, i = var("n"), var("m"), var("i")
    a, idx, o = (
        Buf("a", "f32", (m,), "in"),
        Buf("idx", index_dtype, (n,), "in"),
        Buf("o", "f32", (n,), "out"),
    )
    j, x, ok = var("j", index_dtype), var("x", "f32"), var("ok", "bool")
    body = [Load(j, idx, (i,))]
    if masked:
        low, high = var("low", "bool"), var("high", "bool")
        wide = var("wide")
        body += [
            Let(wide, "convert", (j,)),
            Let(low, "ge", (wide, ZERO)),
            Let(high, "lt", (wide, m)),
            Let(ok, "and", (low, high)),
        ]
        body += [Load(x, a, (wide,), ok, Const(-1.0, "f32"))]
    else:
        body += [Load(x, a, (j,))]
    return Kernel(
        "gather", (a, idx, o), (n, m), (), (loop(i, n, "vector", *body, Store(o, (i,), x)),)
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["i64", "i32", "u8"])
def test_gather(isa, masked, dtype):
    rng = np.random.default_rng(0)
    a = rng.normal(size=100).astype("f4")
    kind = {"i64": "i8", "i32": "i4", "u8": "u1"}[dtype]
    low, high = (0, 100) if not masked else (0 if dtype == "u8" else -50, 200)
    idx = rng.integers(low, high, 77).astype(kind)
    check(gather_kernel(dtype, masked), [a, idx, np.zeros(77, "f4")], [77, 100], isa)


def rows_kernel(dtype, count, computed):
    """Rows of so many numbers from places that an array says, as they are or each a sum with the
    number before."""
    n, m, size, i = var("n"), var("m"), var("size"), var("i")
    a, idx, o = (
        Buf("a", dtype, (m,), "in"),
        Buf("idx", "i64", (n,), "in"),
        Buf("o", dtype, (size,), "out"),
    )
    j, first, into = var("j"), var("first"), var("into")
    width = Const(count, "i64")
    body = [Load(j, idx, (i,)), Let(first, "mul", (j, width)), Let(into, "mul", (i, width))]
    before = None
    for k in range(count):
        place, there = (var(f"{name}{k}") for name in ("place", "there"))
        value, total = (var(f"{name}{k}", dtype) for name in ("value", "total"))
        body += [
            Let(place, "add", (first, Const(k, "i64"))),
            Load(value, a, (place,)),
            Let(total, "add", (value, before or value)),
            Let(there, "add", (into, Const(k, "i64"))),
            Store(o, (there,), total if computed else value),
        ]
        before = value
    return Kernel("rows", (a, idx, o), (n, m, size), (), (loop(i, n, "vector", *body),))


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("count", [3, 8, 11])
def test_rows_at_places_are_loaded_whole(isa, count, computed):
    """And stored whole, where they are only moved: no number is taken apart from the others."""
    rng = np.random.default_rng(count)
    for dtype, kind in (("f32", "f4"), ("f64", "f8"), ("i8", "i1")):
        a, idx = rng.integers(-50, 50, 40 * count).astype(kind), rng.integers(0, 40, 77)
        kernel = rows_kernel(dtype, count, computed)
        arrays = [a, idx, np.zeros(77 * count, kind)]
        check(kernel, arrays, [77, 40 * count, 77 * count], isa)
    text, _ = emit_module(rows_kernel("f32", count, computed), isa)
    whole = min(isa.lanes(4), 2 if count == 3 else 8)
    assert f"load <{whole} x float>" in text or (isa.gathers and computed and count == 3)
    assert not re.search(r"insertelement <\d+ x float>", text)


def test_masked_gather_from_an_empty_buffer(isa):
    out = np.zeros(33, "f4")
    run_kernel(
        gather_kernel("i64", True), [np.zeros(0, "f4"), np.arange(33), out], [33, 0], target=isa
    )
    np.testing.assert_array_equal(out, np.full(33, -1, "f4"))


@pytest.mark.parametrize("kind", ["vector", "parallel", "seq"])
def test_scatter_add(isa, kind):
    n, m, i = var("n"), var("m"), var("i")
    o, idx, u = (
        Buf("o", "f32", (m,), "inout"),
        Buf("idx", "i64", (n,), "in"),
        Buf("u", "f32", (n,), "in"),
    )
    j, x, ok = var("j"), var("x", "f32"), var("ok", "bool")
    body = [
        Load(j, idx, (i,)),
        Load(x, u, (i,)),
        Let(ok, "lt", (j, m)),
        Update(o, (j,), x, "add", ok),
    ]
    k = Kernel("scatter", (o, idx, u), (n, m), (), (loop(i, n, kind, *body),))
    rng = np.random.default_rng(0)
    check(
        k,
        [np.zeros(10, "f4"), rng.integers(0, 12, 99), rng.integers(0, 9, 99).astype("f4")],
        [99, 10],
        isa,
    )


def test_strided_and_broadcast_access(isa):
    n, i = var("n"), var("i")
    a, s, o = (
        Buf("a", "f32", (n, 2), "in"),
        Buf("s", "f32", (), "in"),
        Buf("o", "f32", (n, 2), "out"),
    )
    re, im, c, p, q = (var(k, "f32") for k in ("re", "im", "c", "p", "q"))
    body = [
        Load(re, a, (i, ZERO)),
        Load(im, a, (i, ONE)),
        Load(c, s, ()),
        Let(p, "mul", (re, c)),
        Let(q, "sub", (p, im)),
        Store(o, (i, ZERO), q),
        Store(o, (i, ONE), p),
    ]
    k = Kernel("strided", (a, s, o), (n,), (), (loop(i, n, "vector", *body),))
    rng = np.random.default_rng(0)
    for size in (0, 1, 5, 16, 33, 100):
        x = rng.normal(size=(size, 2)).astype("f4")
        check(k, [x, np.asarray(2.5, "f4"), np.zeros_like(x)], [size], isa)


def _divided_by_each(dtype, op):
    """Every row r of the result: x op y[r]."""
    m, n, r, i = var("m"), var("n"), var("r"), var("i")
    x, y = Buf("x", dtype, (n,), "in"), Buf("y", dtype, (m,), "in")
    o = Buf("o", dtype, (m, n), "out")
    p, d, q = (var(k, dtype) for k in "pdq")
    row = loop(i, n, "vector", Load(p, x, (i,)), Let(q, op, (p, d)), Store(o, (r, i), q))
    return Kernel("quotients", (x, y, o), (m, n), (), (loop(r, m, "seq", Load(d, y, (r,)), row),))


@pytest.mark.parametrize("op", ["div", "rem"])
@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_integers_in_lanes_are_divided_by_one_number(isa, dtype, op):
    t = np.dtype(dtype[0] + str(int(dtype[1:]) // 8))
    info, rng = np.iinfo(t), np.random.default_rng(0)
    powers = [1 << k for k in range(info.bits)]
    edges = [s * (p + e) for p in powers for e in (-1, 0, 1) for s in (1, -1)]
    edges += [info.min, info.min + 1, info.max // 3]
    y = np.array(sorted({e for e in edges if info.min <= e <= info.max}), t)
    near = rng.integers(info.min, info.max, 50, t) // 7 * 7
    x = np.concatenate([y, near, near - 1, near + 1, rng.integers(info.min, info.max, 50, t)])
    kernel = _divided_by_each(dtype, op)
    check(kernel, [x, y, np.zeros((len(y), len(x)), t)], [len(y), len(x)], isa)


@pytest.mark.parametrize("op", ["idiv", "irem"])
def test_indices_in_lanes_are_divided(isa, op):
    """Around multiples of each divisor, up to where doubles do not count halves any more."""
    y = np.array([1, 2, 3, 5, 7, 10, 77, 4097, 2**31 - 1, 2**31, 2**45 + 1, 2**51 - 1], np.int64)
    rng = np.random.default_rng(0)
    edges = np.array([2**k + e for k in range(51) for e in (-1, 0, 1)], np.int64)
    x = np.concatenate([edges, *((2**51 // y - k) * y + e for k in (1, 2) for e in (-1, 0, 1))])
    x = np.concatenate([x, rng.integers(0, 2**51, 50) // 7 * 7, rng.integers(0, 5000, 100)])
    x = np.clip(x, 0, 2**51 - 1)
    kernel = _divided_by_each("i64", op)
    check(kernel, [x, y, np.zeros((len(y), len(x)), np.int64)], [len(y), len(x)], isa)


def test_what_is_odd_about_one_divisor_is_asked_before_its_loop():
    text, _ = emit_module(_divided_by_each("i32", "div"))
    assert "fdiv double" in text and "fdiv <" not in text


def test_collapsed_index_reverse_and_iota(isa):
    n, i = var("n"), var("i")
    a, o = Buf("a", "f32", (7,), "in"), Buf("o", "f32", (n,), "out")
    col, row, back, last, x, y, z, r32 = (
        var("col"),
        var("row"),
        var("back"),
        var("last"),
        var("x", "f32"),
        var("y", "f32"),
        var("z", "f32"),
        var("r32", "i32"),
    )
    body = [
        Let(col, "irem", (i, i64(7))),
        Let(row, "idiv", (i, i64(7))),
        Let(last, "sub", (i64(6), col)),
        Load(x, a, (last,)),
        Let(r32, "convert", (row,)),
        Let(y, "convert", (r32,)),
        Let(back, "sub", (n, i)),
        Let(z, "add", (x, y)),
        Let(j := var("j"), "sub", (back, ONE)),
        Store(o, (j,), z),
    ]
    k = Kernel("collapsed", (a, o), (n,), (), (loop(i, n, "vector", *body),))
    for size in (1, 20, 100):
        check(k, [np.arange(7, dtype="f4"), np.zeros(size, "f4")], [size], isa)


def test_divergent_if_and_while(isa):
    """Lanes take different branches, and leave a while loop one by one."""
    n, i = var("n"), var("i")
    a, o, c = (
        Buf("a", "f32", (n,), "in"),
        Buf("o", "f32", (n,), "out"),
        Buf("c", "i32", (n,), "out"),
    )
    x, pos, r, l = var("x", "f32"), var("pos", "bool"), var("r", "f32"), var("l", "f32")
    out, count, steps = var("out", "f32"), var("count", "i32"), var("steps", "i32")
    p1, k1, p2, k2, big, half, more = (
        var("p1", "f32"),
        var("k1", "i32"),
        var("p2", "f32"),
        var("k2", "i32"),
        var("big", "bool"),
        var("half", "f32"),
        var("more", "i32"),
    )
    branch = If(
        pos,
        (Let(r, "sqrt", (x,)), Store(c, (i,), Const(7, "i32"))),
        (Let(l, "neg", (x,)), Store(c, (i,), Const(5, "i32"))),
        (out,),
        (r,),
        (l,),
    )
    cond = Region((p1, k1), (Let(big, "gt", (p1, Const(0.01, "f32"))),), (big,))
    body = Region(
        (p2, k2),
        (Let(half, "mul", (p2, Const(0.5, "f32"))), Let(more, "add", (k2, Const(1, "i32")))),
        (half, more),
    )
    final = var("final", "f32")
    w = While(
        (Carry(final, var("f", "f32"), out), Carry(count, var("g", "i32"), Const(0, "i32"))),
        cond,
        body,
    )
    total, tf = var("total", "f32"), var("tf", "f32")
    stmts = [
        Load(x, a, (i,)),
        Let(pos, "gt", (x, Const(0.0, "f32"))),
        branch,
        w,
        Let(steps, "add", (count, Const(0, "i32"))),
        Let(tf, "convert", (steps,)),
        Let(total, "add", (tf, final)),
        Store(o, (i,), total),
    ]
    k = Kernel("divergent", (a, o, c), (n,), (), (loop(i, n, "vector", *stmts),))
    for size in (1, 16, 50, 333):
        data = (np.random.default_rng(size).normal(size=size) * 100).astype("f4")
        check(k, [data, np.zeros_like(data), np.zeros(size, "i4")], [size], isa, 1e-6)


def test_divergent_bounds(isa):
    """A triangular sum: the inner loop's bound is the vector index."""
    n, i, j = var("n"), var("i"), var("j")
    a, o = Buf("a", "f64", (n,), "in"), Buf("o", "f64", (n,), "out")
    x, acc, nxt, out = (var(k, "f64") for k in ("x", "acc", "nxt", "out"))
    inner = For(
        j,
        ZERO,
        i,
        ONE,
        "seq",
        (Carry(out, acc, Const(0.0, "f64")),),
        (Load(x, a, (j,)), Let(nxt, "add", (acc, x))),
        (nxt,),
    )
    k = Kernel("triangle", (a, o), (n,), (), (loop(i, n, "vector", inner, Store(o, (i,), out)),))
    out = np.zeros(45)
    run_kernel(k, [np.arange(45.0), out], [45], target=isa)
    np.testing.assert_array_equal(out, np.concatenate([[0.0], np.cumsum(np.arange(44.0))]))


@pytest.mark.parametrize("size", [3, 300, 40000])
def test_scratch_on_stack_and_heap(isa, size):
    n, r, c, d = var("n"), var("r"), var("c"), var("d")
    a, o = Buf("a", "f64", (4, n), "in"), Buf("o", "f64", (4, n), "out")
    for shape in ((n,), (size,)):
        t = Buf("t", "f64", shape, "temp")
        x, y, z = var("x", "f64"), var("y", "f64"), var("z", "f64")
        rev, last = var("rev"), var("last")
        fill = loop(c, n, "vector", Load(x, a, (r, c)), Let(y, "mul", (x, x)), Store(t, (c,), y))
        drain = loop(
            d,
            n,
            "vector",
            Let(last, "sub", (n, ONE)),
            Let(rev, "sub", (last, d)),
            Load(z, t, (rev,)),
            Store(o, (r, d), z),
        )
        k = Kernel("scratch", (a, o), (n,), (), (loop(r, 4, "parallel", Alloc(t, (fill, drain))),))
        data = np.random.default_rng(0).normal(size=(4, size))
        check(k, [data, np.zeros_like(data)], [size], isa)


def test_scalars_of_every_dtype(isa):
    import ml_dtypes

    for dtype, kind, value in (
        ("f32", "f4", 1.25),
        ("f64", "f8", -2.5),
        ("i32", "i4", -7),
        ("bool", "?", True),
        ("u8", "u1", 200),
        ("bf16", ml_dtypes.bfloat16, 1.5),
        ("f16", "f2", -0.75),
        ("i64", "i8", -(2**40)),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 2.5),
    ):
        n, i, s = var("n"), var("i"), var("s", dtype)
        o = Buf("o", dtype, (n,), "out")
        k = Kernel("fill", (o,), (n,), (s,), (loop(i, n, "vector", Store(o, (i,), s)),))
        out = np.zeros(37, kind)
        run_kernel(k, [out], [37], [value], isa)
        np.testing.assert_array_equal(out, np.full(37, value).astype(kind))


def test_collatz_region(isa):
    """A while loop alone in a kernel: scalar control flow with carries in registers."""
    o = Buf("o", "i64", (), "out")
    start, c, k = var("start"), var("c"), var("k")
    go, half, odd, bit, three, plus, nxt, k2 = (
        var("go", "bool"),
        var("half"),
        var("odd", "bool"),
        var("bit"),
        var("three"),
        var("plus"),
        var("nxt"),
        var("k2"),
    )
    cond = Region((c, k), (Let(go, "gt", (c, ONE)),), (go,))
    cb, kb = var("cb"), var("kb")
    body = Region(
        (cb, kb),
        (
            Let(bit, "and", (cb, ONE)),
            Let(odd, "ne", (bit, ZERO)),
            Let(half, "shr_logical", (cb, ONE)),
            Let(three, "mul", (cb, i64(3))),
            Let(plus, "add", (three, ONE)),
            Let(nxt, "select", (odd, plus, half)),
            Let(k2, "add", (kb, ONE)),
        ),
        (nxt, k2),
    )
    steps = var("steps")
    w = While((Carry(var("cc"), var("x1"), start), Carry(steps, var("x2"), ZERO)), cond, body)
    kern = Kernel("collatz", (o,), (), (start,), (w, Store(o, (), steps)))
    out = np.zeros((), "i8")
    run_kernel(kern, [out], [], [27], isa)
    assert out == 111


def test_raise_if(isa):
    n, i, bad, x = var("n"), var("i"), var("bad", "bool"), var("x", "f32")
    a = Buf("a", "f32", (n,), "in")
    check_stmt = Call((), "raise_if", (bad,), (("code", 5), ("equation", 42)))
    k = Kernel(
        "nan",
        (a,),
        (n,),
        (),
        (loop(i, n, "seq", Load(x, a, (i,)), Let(bad, "ne", (x, x)), check_stmt),),
    )
    data = np.zeros(100, "f4")
    run_kernel(k, [data], [100], target=isa)
    data[70] = np.nan
    with pytest.raises(PlanError) as info:
        run_kernel(k, [data], [100], target=isa)
    assert (info.value.code, info.value.equation) == (5, 42)


@pytest.mark.parametrize("seed", range(6))
def test_random_elementwise_chains(isa, seed):
    rng = np.random.default_rng(seed)
    pool = ["add", "sub", "mul", "max", "min", "sin", "tanh", "exp", "abs", "neg", "floor"]
    ops = []
    for k in range(int(rng.integers(3, 60))):
        op = pool[rng.integers(len(pool))]
        count = 2 if op in ("add", "sub", "mul", "max", "min") else 1
        ops.append(("f64", op, tuple(int(v) for v in rng.integers(0, 2 + k, count))))
        if op in ("mul", "exp"):
            ops[-1] = ("f64", "tanh", ops[-1][2][:1])
    k = elementwise(ops, ["f64", "f64"], "f64")
    x, y = rng.normal(size=(2, 101))
    check(k, [x, y, np.zeros(101)], [101], isa, 1e-9)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "u8", "i16"])
@pytest.mark.parametrize("width", [3, 4, 5, 8])
def test_numbers_side_by_side_are_stored_as_vectors(isa, width, dtype):
    """Columns become rows: what lanes have is interleaved, not put down one by one."""
    n, m, i, row = var("n"), var("m"), var("i"), var("row")
    a, o = Buf("a", dtype, (width, n), "in"), Buf("o", dtype, (m,), "out")
    body = [Let(row, "mul", (i, i64(width)))]
    for k in (*range(1, width), 0):
        x, at = var(f"x{k}", dtype), var(f"at{k}")
        body += [Load(x, a, (i64(k), i)), Let(at, "add", (i64(k), row)), Store(o, (at,), x)]
    kernel = Kernel("rows", (a, o), (n, m), (), (loop(i, n, "vector", *body),))
    for count in (0, 3, 37, 513):
        x = np.arange(width * count).reshape(width, count).astype(SOME_KINDS[dtype])
        check(kernel, [x, np.zeros(count * width, x.dtype)], [count, count * width], isa)
    assert emit_module(kernel, isa)[0].count(" store <") >= width


SOME_KINDS = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8, "i16": np.int16,
}  # fmt: skip


@pytest.mark.parametrize("dtype", SOME_KINDS)
@pytest.mark.parametrize("width", [4, 8])
def test_numbers_side_by_side_are_loaded_as_vectors(isa, width, dtype):
    """Rows become columns: vectors of memory are loaded once, in whatever order the columns are
    asked for, and not across a write."""
    n, m, i, row = var("n"), var("m"), var("i"), var("row")
    a, o = Buf("a", dtype, (m,), "inout"), Buf("o", dtype, (n,), "out")
    for write in (False, True):
        body, total = [Let(row, "mul", (i, i64(width)))], None
        for k in (*range(1, width), 0):
            x, at = var(f"x{k}", dtype), var(f"at{k}")
            body += [Let(at, "add", (i64(k), row)), Load(x, a, (at,))]
            more = var(f"t{k}", dtype)
            body.append(Let(more, "sub", (x, x if total is None else total)))
            if write and k == 2:
                body.append(Store(a, (row,), more))
            total = more
        body.append(Store(o, (i,), total))
        kernel = Kernel("columns", (a, o), (n, m), (), (loop(i, n, "vector", *body),))
        for count in (0, 3, 37, 513):
            x = (np.arange(width * count) * 37).astype(SOME_KINDS[dtype])
            check(kernel, [x, np.zeros(count, x.dtype)], [count, count * width], isa)
        if not write:
            lanes = isa.vector_bytes // np.dtype(SOME_KINDS[dtype]).itemsize
            text = emit_module(kernel, isa)[0]
            assert lanes < 4 or text.count(" = load <") == width * text.count(" store <")


@pytest.mark.parametrize("kept", [1, 12])
def test_chains_of_integers_run_many_abreast(isa, kept):
    """Where each operation waits for the one before, as in random bits, two vectors leave units
    idle: four go side by side, and one of what is left, or eight and two. Not where many values
    would have to stay in registers: there it is two, and one of what is left."""
    n, i, rounds = var("n"), var("i"), 24
    a, o = Buf("a", "u32", (n,), "in"), Buf("o", "u32", (n,), "out")
    values = [var("v0", "u32")]
    body = [Load(values[0], a, (i,))]

    def then(op, *args):
        values.append(var(f"v{len(values)}", "u32"))
        body.append(Let(values[-1], op, args))

    for k in range(rounds):
        then("add", values[-1], values[-min(k + 1, kept)])
        then("xor", values[-1], values[max(0, len(values) - 2 * kept)])
    for old in values[: kept - 1]:
        then("xor", values[-1], old)
    body.append(Store(o, (i,), values[-1]))
    kernel = Kernel("chain", (a, o), (n,), (), (loop(i, n, "vector", *body),))
    for count in (0, 5, 64, 128, 185, 200, 1000):
        x = np.random.default_rng(count).integers(0, 2**32, count, np.uint32)
        check(kernel, [x, np.zeros_like(x)], [count], isa)
    text, _ = emit_module(kernel, isa)
    abreast = len(re.findall(r" = add <\d+ x i32> ", text)) // rounds
    most = 2 if kept > 1 else 8 if isa.masks else 4
    assert abreast == most + (2 if most == 8 else 1)
    brief, _ = emit_module(kernel, isa, brief=True)
    once = 2 if isa.can_mask(4) and not isa.masks else 1  # whose rest is masked apart
    assert len(re.findall(r" = add <\d+ x i32> ", brief)) == once * rounds  # which runs but once


@pytest.mark.parametrize("parts", [2, 12])
def test_of_many_loops_none_is_widened(isa, parts):
    """Vectors side by side are several times the code, which takes LLVM long: the gradient of
    differences along three axes is a dozen loops."""
    n = var("n")
    a, o = Buf("a", "f32", (n,), "in"), Buf("o", "f32", (n,), "out")

    def part(k):
        i = var(f"i{k}")
        values = [var(f"v{k}_{j}", "f32") for j in range(16)]
        body = [Load(values[0], a, (i,))]
        body += [Let(y, "mul", (x, Const(1.0 + k, "f32"))) for x, y in itertools.pairwise(values)]
        return loop(i, n, "vector", *body, Store(o, (i,), values[-1]))

    kernel = Kernel("parts", (a, o), (n,), (), tuple(part(k) for k in range(parts)))
    for count in (0, 5, 64, 200):
        check(kernel, [np.ones(count, np.float32), np.zeros(count, np.float32)], [count], isa)
    text, _ = emit_module(kernel, isa)
    products = len(re.findall(r" = fmul <\d+ x float> ", text)) // (parts * 15)
    assert products <= 1 if parts > 2 else products > 1 or not isa.masks


def test_what_literals_make_is_a_literal(isa):
    """A shift by a literal asks for no comparison, a literal's bits are a literal."""
    n, i = var("n"), var("i")
    a, o = Buf("a", "i32", (n,), "in"), Buf("o", "i32", (n,), "out")
    x, bits, moved, y = var("x", "i32"), var("bits", "i32"), var("moved", "i32"), var("y", "i32")
    body = (
        Load(x, a, (i,)),
        Let(bits, "bitcast", (Const(-1.5, "f32"),)),
        Let(moved, "shr_arith", (bits, Const(7, "i32"))),
        Let(y, "xor", (x, moved)),
        Store(o, (i,), y),
    )
    kernel = Kernel("literals", (a, o), (n,), (), (loop(i, n, "vector", *body),))
    x0 = np.arange(-50, 50, dtype=np.int32)
    out = np.zeros_like(x0)
    run_kernel(kernel, [x0, out], [100], (), isa)
    np.testing.assert_array_equal(out, x0 ^ (np.float32(-1.5).view(np.int32) >> 7))
    text, _ = emit_module(kernel, isa)
    assert "bitcast float" not in text and "icmp ult" not in text and "ashr" not in text


def test_quick_code_takes_rows_apart_element_by_element(isa):
    """Columns of rows of eight numbers: shuffles of eight vectors for each are good code's."""
    n, m, i = var("n"), var("m"), var("i")
    a = Buf("a", "f32", (m,), "in")
    columns = [Buf(f"o{k}", "f32", (n,), "out") for k in range(8)]
    body = []
    for k, column in enumerate(columns):
        at, here, x = var(f"at{k}"), var(f"here{k}"), var(f"x{k}", "f32")
        body += [
            Let(at, "mul", (i, i64(8))),
            Let(here, "add", (at, i64(k))),
            Load(x, a, (here,)),
            Store(column, (i,), x),
        ]
    kernel = Kernel("apart", (a, *columns), (n, m), (), (loop(i, n, "vector", *body),))
    brief, _ = emit_module(kernel, isa, brief=True)
    assert "shufflevector" not in brief and brief.count("load float") == 8


def test_a_read_between_neighbouring_stores_sees_the_first(isa):
    n, m, i, row = var("n"), var("m"), var("i"), var("row")
    a, o = Buf("a", "f32", (n,), "in"), Buf("o", "f32", (m,), "inout")
    x, y, one, two = var("x", "f32"), var("y", "f32"), var("one"), var("two")
    body = [
        Let(row, "mul", (i, i64(3))), Let(one, "add", (i64(1), row)),
        Let(two, "add", (i64(2), row)),
        Load(x, a, (i,)), Store(o, (row,), x), Store(o, (one,), x),
        Load(y, o, (row,)), Store(o, (two,), y),
    ]  # fmt: skip
    kernel = Kernel("between", (a, o), (n, m), (), (loop(i, n, "vector", *body),))
    check(kernel, [np.arange(100, dtype="f4"), np.zeros(300, "f4")], [100, 300], isa)


def test_bytes_are_permuted_and_bits_counted_by_instructions_where_there_are_some():
    """Other levels are compiled for as they are, whatever the machine has."""
    best = llvm_target.target_for("host")
    wanted = best.level == "avx512" and llvm_target.permutes_bytes()
    assert ("avx512vbmi" in best.features) == wanted
    counts = best.level == "avx512" and "avx512_vpopcntdq" in llvm_target.linux_flags()
    assert ("avx512vpopcntdq" in best.features) == counts
    if best.level in ("avx2", "avx512"):
        assert "vbmi" not in llvm_target.target_for("avx2").features


def test_what_fills_no_vector_of_strided_loads_is_computed_in_lanes(isa):
    """Where there is much arithmetic: fifteen single logarithms take what many vectors do."""
    n, m, i = var("n"), var("m"), var("i")
    a, o = Buf("a", "f32", (m,), "in"), Buf("o", "f32", (n,), "out")
    at, x, y, z = var("at"), var("x", "f32"), var("y", "f32"), var("z", "f32")
    body = (
        Let(at, "mul", (i, i64(2))),
        Load(x, a, (at,)),
        Let(y, "log", (x,)),
        Let(z, "log", (y,)),
        Store(o, (i,), z),
    )
    kernel = Kernel("logs", (a, o), (n, m), (), (loop(i, n, "vector", *body),))
    for count in (0, 1, 5, 15, 16, 31, 127):
        x0 = np.random.default_rng(count).uniform(2, 9, 2 * count + 1).astype(np.float32)
        out, whole = np.zeros(count, np.float32), np.zeros(count + 64, np.float32)
        run_kernel(kernel, [x0, out], [count, len(x0)], (), isa)
        padded = np.full(2 * (count + 64), 5, np.float32)
        padded[: len(x0)] = x0
        run_kernel(kernel, [padded, whole], [count + 64, len(padded)], (), isa)
        np.testing.assert_array_equal(out, whole[:count])
        np.testing.assert_allclose(out, np.log(np.log(x0[::2][:count])), rtol=1e-5, atol=1e-6)
    if isa.masks:
        text, _ = emit_module(kernel, isa)
        assert not re.search(r"(fmul|fma\.f32|fadd) float ", text)


def test_what_a_mask_selects_is_stored_whole(isa):
    """LLVM makes masked stores of elements that are put back as they were read: slow where masks
    are vectors. See access.py."""
    n, i, x, y = var("n"), var("i"), var("x", "i32"), var("y", "i32")
    new, more = var("new", "i32"), var("more", "bool")
    b = Buf("b", "i32", (n,), "inout")
    body = (
        Load(x, b, (i,)),
        Let(more, "gt", (x, Const(3, "i32"))),
        Let(y, "add", (x, Const(7, "i32"))),
        Let(new, "select", (more, y, x)),
        Store(b, (i,), new),
    )
    kernel = Kernel("some", (b,), (n,), (), (loop(i, n, "vector", *body),))
    check(kernel, [np.arange(100, dtype="i4") % 7], [100], isa)
    if isa.level == "avx2":
        text, level = emit_module(kernel, isa)
        assert "vpmaskmovd\t%ymm" not in link.assembly(text, isa, level)
