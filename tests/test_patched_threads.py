"""Loops that threads share, in code put together from stencils: what LLVM's code for one thread
computes, with as many threads as there are, and the first error of any chunk."""

from __future__ import annotations

import numpy as np
import pytest
from linked_code import run

import pullback as pb
from pullback.backends.llvm import compiler, link, loader, tier
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.driver import PlanError
from pullback.backends.llvm.patched import patched
from pullback.backends.llvm.stencils import provide_stencils, provided
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import prepare, thread_limit
from pullback.loops.ir import Alloc, Buf, Call, Const, For, Kernel, Let, Load, Store, Var

prepare()
provide_stencils(host_target(), every=True)
STENCILS = provided(host_target())
pytestmark = pytest.mark.skipif(STENCILS is None, reason="no stencils on this machine")
ONE, ZERO = Const(1, "i64"), Const(0, "i64")
SPLIT = {"cost_per_iteration": 1e6}  # chunks are of an iteration each


def loop(index, hi, kind, *body):
    return For(index, ZERO, hi, ONE, kind, (), body)


def rows_kernel(size, attrs):
    """Rows are turned round by way of scratch of their own, and a row that all read is added:
    scratch outside of the loop, and numbers from before it."""
    m, n, r, c, d, e = (Var(name, "i64") for name in "mnrcde")
    a, o = Buf("a", "f64", (m, n), "in"), Buf("o", "f64", (m, n), "out")
    own, common = Buf("own", "f64", (size,), "temp"), Buf("common", "f64", (size,), "temp")
    x, y, z, w, total = (Var(name, "f64") for name in ("x", "y", "z", "w", "total"))
    last, back = Var("last", "i64"), Var("back", "i64")
    begin = loop(c, n, "vector", Load(x, a, (ZERO, c)), Store(common, (c,), x))
    before = Let(last, "sub", (n, ONE))
    fill = loop(d, n, "vector", Load(y, a, (r, d)), Store(own, (d,), y))
    drain = loop(
        e, n, "vector", Let(back, "sub", (last, e)), Load(z, own, (back,)), Load(w, common, (e,)),
        Let(total, "add", (z, w)), Store(o, (r, e), total),
    )  # fmt: skip
    rows = loop(r, m, "parallel", Alloc(own, (fill, drain)))
    return Kernel("rows", (a, o), (m, n), (), (Alloc(common, (begin, before, rows)),), attrs)


@pytest.mark.parametrize("attrs", [{}, SPLIT])
@pytest.mark.parametrize("size", [9, 301, 20_000])  # scratch on the stack, and from the heap
def test_rows(size, attrs):
    kernel = rows_kernel(size, attrs)
    image = patched(kernel, host_target(), STENCILS, shared=True)
    assert image is not None
    plain = loader.link(link.assemble(emit_module(kernel, brief=True)[0], host_target(), 0))
    for rows in (0, 1, 2, 65):
        data = np.random.default_rng(rows).normal(size=(rows, size))
        want = np.zeros_like(data)
        if rows:  # the first one is read
            run(plain, [data, want], [rows, size], threads=1)
            np.testing.assert_array_equal(want, data[:, ::-1] + data[0])
        for threads in (1, 2, 7):
            got = np.zeros_like(data)
            if rows:
                run(image, [data, got], [rows, size], threads=threads)
            np.testing.assert_array_equal(got, want)


def test_no_iterations():
    n, i = Var("n", "i64"), Var("i", "i64")
    o = Buf("o", "i64", (n,), "out")
    kernel = Kernel("none", (o,), (n,), (), (loop(i, n, "parallel", Store(o, (i,), i)),), SPLIT)
    image = patched(kernel, host_target(), STENCILS, shared=True)
    for count in (0, 1, 33):
        out = np.full(40, -1)
        run(image, [out], [count], threads=2)
        assert out.tolist() == [*range(count), *[-1] * (40 - count)]


@pytest.mark.parametrize("size", [8, 40_000])
def test_a_chunk_that_fails(size):
    """The run ends with the chunk's error, after the loop; what is allocated is freed."""
    n, i = Var("n", "i64"), Var("i", "i64")
    o, t = Buf("o", "i64", (n,), "out"), Buf("t", "i64", (size,), "temp")
    wrong = Var("wrong", "bool")
    fails = Call((), "raise_if", (wrong,), (("code", 3), ("equation", 5)))
    body = (Let(wrong, "eq", (i, Const(20, "i64"))), fails, Store(o, (i,), i))
    after = Store(o, (ZERO,), Const(-7, "i64"))
    stmts = (loop(i, n, "parallel", Alloc(t, body)), after)
    kernel = Kernel("fails", (o,), (n,), (), (Alloc(t, stmts),), SPLIT)
    image = patched(kernel, host_target(), STENCILS, shared=True)
    for threads in (1, 2):
        out = np.zeros(40, "i8")
        run(image, [out], [20], threads=threads)
        assert out[0] == -7
        out = np.zeros(40, "i8")
        with pytest.raises(PlanError) as error:
            run(image, [out], [40], threads=threads)
        assert (error.value.code, error.value.equation) == (3, 5)
        assert out[0] == 0


def test_products_are_shared_without_llvm():
    """A program's first product that takes long is code from stencils, and the bits of LLVM's."""
    x, y = (np.random.default_rng(k).normal(size=(600, 600)).astype("f4") for k in (0, 1))
    # The number is the test's own: no other test has compiled the kernel.
    function = lambda x, y: pb.numpy.tanh(x @ y + 1.2345)
    got = np.asarray(pb.jit(function)(x, y))
    kernels = [k for p in pb.explain_compile().programs[-1:] for k in p.kernels]
    assert any(k.origin in ("stencils", "disk") for k in kernels)
    with thread_limit(1):
        again = np.asarray(pb.jit(function)(x, y))
    assert got.tobytes() == again.tobytes()
    np.testing.assert_allclose(got, np.tanh(x @ y + 1.2345), atol=1e-4)


def test_first_code_that_runs_longer_is_divided_sooner(monkeypatch):
    """LLVM's quick code of so much is not cut for threads, slower code is; of little, nothing."""
    divided = []

    def watched(kernel, target, stencils, shared=False, *more):
        divided.append(shared)
        return patched(kernel, target, stencils, shared, *more)

    monkeypatch.setattr(compiler, "patched", watched)
    for seconds, expected in ((2e-4, tier.enabled()), (1e-6, False)):
        haste = tier.haste(1e7, seconds, seconds, False, statements=22)
        assert not haste.shared or not tier.enabled()
        order = compiler._Ordered(rows_kernel(4, SPLIT), haste)
        if tier.enabled():
            assert order.put_together(host_target()) is not None
            assert divided.pop() is expected
