"""Kernels written by hand: what the loop IR can say, that the checker accepts it and the
interpreter runs it.
"""

import numpy as np
import pytest

from pullback.loops.build import Builder, i64, kernel_of
from pullback.loops.check import LoopIRError, check_kernel
from pullback.loops.interpret import apply_op, interpret
from pullback.loops.ir import (
    Alloc,
    Buf,
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
    Var,
    While,
)
from pullback.loops.show import canonical, show_kernel

F0, ZERO, ONE = Const(0.0, "f32"), i64(0), i64(1)


def v(name, dtype="i64"):
    return Var(name, dtype)


def loop(i, n, kind, body, carry=(), yields=(), combine=None):
    return For(i, ZERO, n, ONE, kind, tuple(carry), tuple(body), tuple(yields), combine)


def run(kernel, *arrays, dims=()):
    check_kernel(kernel)
    assert show_kernel(kernel)
    interpret(kernel, arrays, dims)


def argmax_kernel():
    n, i, x = v("n"), v("i"), v("x", "f32")
    x_buf, out = Buf("x", "f32", (n,), "in"), Buf("out", "i64", (1,), "out")
    best, at = v("best", "f32"), v("at")
    b0, a0, b1, a1 = v("b0", "f32"), v("a0"), v("b1", "f32"), v("a1")
    more, bs, as_ = v("more", "bool"), v("bs", "f32"), v("as")
    region = Region(
        (b0, a0, b1, a1),
        (
            Let(more, "gt", (b1, b0)),
            Let(bs, "select", (more, b1, b0)),
            Let(as_, "select", (more, a1, a0)),
        ),
        (bs, as_),
    )
    carry = [Carry(v("bo", "f32"), best, Const(float("-inf"), "f32")), Carry(v("ao"), at, ZERO)]
    body = [
        loop(i, n, "reduce", [Load(x, x_buf, (i,))], carry, (x, i), region),
        Store(out, (ZERO,), carry[1].out),
    ]
    return Kernel("argmax", (x_buf, out), (n,), (), tuple(body))


def test_argmax():
    x, out = np.array([1, 5, 2, 5, 3], np.float32), np.zeros(1, np.int64)
    run(argmax_kernel(), x, out, dims=[5])
    assert out[0] == 1


def test_scatter_add():
    n, i, k, x = v("n"), v("i"), v("k"), v("x", "f32")
    where, values, out = (
        Buf("w", "i64", (n,), "in"),
        Buf("v", "f32", (n,), "in"),
        Buf("o", "f32", (4,), "inout"),
    )
    inside, low, high = v("in", "bool"), v("lo", "bool"), v("hi", "bool")
    body = [
        Load(k, where, (i,)),
        Load(x, values, (i,)),
        Let(low, "ge", (k, ZERO)),
        Let(high, "lt", (k, i64(4))),
        Let(inside, "and", (low, high)),
        Update(out, (k,), x, "add", inside),
    ]
    kernel = Kernel("scatter", (where, values, out), (n,), (), (loop(i, n, "seq", body),))
    o = np.zeros(4, np.float32)
    run(kernel, np.array([1, 3, 1, 9, -1]), np.arange(1, 6, dtype=np.float32), o, dims=[5])
    assert o.tolist() == [0, 4, 0, 2]


def test_reverse_cumsum():
    n, i, j, x, last, acc = v("n"), v("i"), v("j"), v("x", "f32"), v("last"), v("acc", "f32")
    src, dst = Buf("s", "f32", (n,), "in"), Buf("d", "f32", (n,), "out")
    carry = [Carry(v("end", "f32"), acc, F0)]
    body = [
        Let(last, "sub", (n, ONE)),
        Let(j, "sub", (last, i)),
        Load(x, src, (j,)),
        Store(dst, (j,), acc),
    ]
    kernel = Kernel("rev", (src, dst), (n,), (), (loop(i, n, "scan", body, carry, (x,), ("add",)),))
    x_, d = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    run(kernel, x_, d, dims=[5])
    assert d.tolist() == [10, 10, 9, 7, 4]


def test_select_and_scatter():
    """Each window of two adds its source to the larger element."""
    n, w, k = v("n"), v("w"), v("k")
    x, src, out = (
        Buf("x", "f32", (v("m"),), "in"),
        Buf("s", "f32", (n,), "in"),
        Buf("o", "f32", (4,), "inout"),
    )
    m = x.shape[0]
    best, at, two = v("best", "f32"), v("at"), v("two")
    j, e, g, keep, b2, a2 = (
        v("j"),
        v("e", "f32"),
        v("g", "f32"),
        v("keep", "bool"),
        v("b2", "f32"),
        v("a2"),
    )
    carry = [Carry(v("bo", "f32"), best, Const(float("-inf"), "f32")), Carry(v("ao"), at, ZERO)]
    inner = [
        Let(j, "add", (two, k)),
        Load(e, x, (j,)),
        Let(keep, "ge", (best, e)),
        Let(b2, "select", (keep, best, e)),
        Let(a2, "select", (keep, at, j)),
    ]
    body = [
        Let(two, "mul", (w, i64(2))),
        loop(k, i64(2), "seq", inner, carry, (b2, a2)),
        Load(g, src, (w,)),
        Update(out, (carry[1].out,), g, "add"),
    ]
    kernel = Kernel("sas", (x, src, out), (n, m), (), (loop(w, n, "seq", body),))
    o = np.zeros(4, np.float32)
    run(kernel, np.array([1, 3, 7, 2], np.float32), np.array([10, 20], np.float32), o, dims=[2, 4])
    assert o.tolist() == [0, 10, 20, 0]


def test_scan_with_residuals():
    n, i, x, c = v("n"), v("i"), v("x", "f32"), v("c", "f32")
    src, res, out = (
        Buf("s", "f32", (n,), "in"),
        Buf("r", "f32", (n,), "out"),
        Buf("o", "f32", (1,), "out"),
    )
    nxt = v("nxt", "f32")
    carry = [Carry(v("co", "f32"), c, Const(1.0, "f32"))]
    body = [Load(x, src, (i,)), Store(res, (i,), c), Let(nxt, "mul", (c, x))]
    kernel = Kernel(
        "scan",
        (src, res, out),
        (n,),
        (),
        (loop(i, n, "seq", body, carry, (nxt,)), Store(out, (ZERO,), carry[0].out)),
    )
    r, o = np.zeros(3, np.float32), np.zeros(1, np.float32)
    run(kernel, np.array([2, 3, 4], np.float32), r, o, dims=[3])
    assert r.tolist() == [1, 2, 6] and o[0] == 24


def test_nonzero():
    n, i, x, count, hit, nxt, one = (
        v("n"),
        v("i"),
        v("x", "f32"),
        v("c"),
        v("hit", "bool"),
        v("nxt"),
        v("one"),
    )
    src, dst, total = (
        Buf("s", "f32", (n,), "in"),
        Buf("d", "i64", (n,), "out"),
        Buf("k", "i64", (1,), "out"),
    )
    carry = [Carry(v("co"), count, ZERO)]
    body = [
        Load(x, src, (i,)),
        Let(hit, "ne", (x, F0)),
        Store(dst, (count,), i, hit),
        Let(one, "convert", (hit,)),
        Let(nxt, "add", (count, one)),
    ]
    kernel = Kernel(
        "nonzero",
        (src, dst, total),
        (n,),
        (),
        (loop(i, n, "seq", body, carry, (nxt,)), Store(total, (ZERO,), carry[0].out)),
    )
    d, k = np.zeros(4, np.int64), np.zeros(1, np.int64)
    run(kernel, np.array([0, 5, 0, 7], np.float32), d, k, dims=[4])
    assert k[0] == 2 and d[:2].tolist() == [1, 3]


def test_while_if_and_scratch():
    """Collatz steps, with the path's maximum kept in scratch."""
    n, s, m = v("n"), v("s"), v("m")
    out, tmp = Buf("o", "i64", (2,), "out"), Buf("t", "i64", (1,), "temp")
    p, q = v("p"), v("q")
    go, odd, r = v("go", "bool"), v("odd", "bool"), v("r")
    cond = Region((p, q), (Let(go, "gt", (p, ONE)),), (go,))
    a, c, up, up1, half, nxt, steps, old, top = (
        v(x) for x in "a c up up1 half nxt steps old top".split()
    )
    body = Region(
        (a, c),
        (
            Let(r, "irem", (a, i64(2))),
            Let(odd, "eq", (r, ONE)),
            If(
                odd,
                (Let(up, "mul", (a, i64(3))), Let(up1, "add", (up, ONE))),
                (Let(half, "idiv", (a, i64(2))),),
                (nxt,),
                (up1,),
                (half,),
            ),
            Load(old, tmp, (ZERO,)),
            Let(top, "max", (old, nxt)),
            Store(tmp, (ZERO,), top),
            Let(steps, "add", (c, ONE)),
        ),
        (nxt, steps),
    )
    carries = (Carry(v("po"), v("pv"), n), Carry(s, v("sv"), ZERO))
    inner = (
        Store(tmp, (ZERO,), n),
        While(carries, cond, body),
        Load(m, tmp, (ZERO,)),
        Store(out, (ZERO,), s),
        Store(out, (ONE,), m),
    )
    o = np.zeros(2, np.int64)
    run(Kernel("collatz", (out,), (n,), (), (Alloc(tmp, inner),)), o, dims=[6])
    assert o.tolist() == [8, 16]


def test_planted_faults_are_caught():
    n, i, x, y = v("n"), v("i"), v("x", "f32"), v("y", "f32")
    src, dst = Buf("s", "f32", (n,), "in"), Buf("d", "f32", (n,), "out")

    def bad(*body):
        with pytest.raises(LoopIRError, match="internal error"):
            check_kernel(Kernel("bad", (src, dst), (n,), (), (loop(i, n, "vector", body),)))

    bad(Store(dst, (i,), x))  # never defined
    bad(Load(x, src, (i,)), Load(x, src, (i,)))  # twice
    bad(Store(src, (i,), F0))  # into an input
    bad(Load(x, src, (i, i)))  # too many indices
    bad(Load(x, src, (i,)), Let(y, "add", (x, i)))  # mixed types
    bad(Load(x, src, (i,)), Let(y, "frobnicate", (x,)))  # no such operator
    bad(Load(x, src, (i,)), Let(y, "integer_pow", (x,)))  # no exponent
    bad(Load(v("h", "f64"), src, (i,)))  # dtype of the buffer
    with pytest.raises(LoopIRError):
        check_kernel(
            Kernel("bad", (dst,), (n,), (), (loop(i, n, "vector", (), (Carry(x, y, F0),), (F0,)),))
        )
    with pytest.raises(LoopIRError):
        check_kernel(
            Kernel("bad", (dst,), (n,), (), (loop(i, n, "reduce", (), (Carry(x, y, F0),), (F0,)),))
        )


def test_hoisting_and_common_subexpressions():
    b = Builder()
    buf = Buf("x", "f32", (100,), "out")
    b.params["x"] = buf

    def row(i):
        def col(j):
            at = b.ravel((i, j), (10, 10))
            b.store(buf, b.atom(at), b.let("sin", (b.const(2.0, "f32"),), "f32"))
            b.store(buf, b.atom(at), b.let("sin", (b.const(2.0, "f32"),), "f32"))
            return ()

        b.loop(10, "vector", col)
        return ()

    b.loop(10, "seq", row)
    kernel, *_ = kernel_of(b, "k")
    check_kernel(kernel)
    text = show_kernel(kernel)
    assert text.count("sin") == 1 and text.index("sin") < text.index("for seq")
    assert text.count("mul") == 1 and text.index("mul") < text.index("for vector")


def test_reshape_indices_cancel():
    b = Builder()
    b.open("seq")
    f = b.loop_index(0, 59)
    assert b.ravel(b.unravel(f, (3, 4, 5)), (3, 4, 5)) is f
    i, j = b.unravel(f, (12, 5))
    assert b.ravel((*b.unravel(i, (3, 4)), j), (3, 4, 5)) is f
    assert b.div(b.add(b.mul(f, 7), 3), 7) is f and b.mod(b.add(b.mul(f, 7), 3), 7) == 3


def test_canonical_text_ignores_names():
    assert canonical(argmax_kernel()) == canonical(argmax_kernel())


@pytest.mark.parametrize(
    "op,args,want",
    [
        ("div", (np.int32(7), np.int32(0)), -1),
        ("rem", (np.int32(7), np.int32(0)), 7),
        ("div", (np.int32(-7), np.int32(2)), -3),
        ("rem", (np.int32(-7), np.int32(2)), -1),
        ("div", (np.int32(-(2**31)), np.int32(-1)), -(2**31)),
        ("shl", (np.int32(1), np.int32(40)), 0),
        ("shr_arith", (np.int32(-8), np.int32(40)), -1),
        ("clz", (np.int32(1),), 31),
        ("popcount", (np.int32(-1),), 32),
        ("rotl", (np.uint32(0x80000001), np.uint32(1)), 3),
    ],
)
def test_integer_corners(op, args, want):
    dtype = "u32" if args[0].dtype == np.uint32 else "i32"
    assert int(apply_op(op, dtype, (), *args)) == want


def test_conversions_saturate():
    assert int(apply_op("convert", "i32", (), np.float32(1e20))) == 2**31 - 1
    assert int(apply_op("convert", "i32", (), np.float32("nan"))) == 0
    assert int(apply_op("convert", "u8", (), np.float32(-3.0))) == 0
