"""Calls of LAPACK in code put together from stencils: what LLVM's code computes, and the library
has the threads back that it had."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from linked_code import run

from pullback.backends.llvm import link, loader
from pullback.backends.llvm.compiler import _provide_routine, emit_module
from pullback.backends.llvm.patched import patched
from pullback.backends.llvm.stencils import provide_stencils, provided
from pullback.backends.llvm.table import function_offset
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import prepare, runtime
from pullback.loops import libraries
from pullback.loops.ir import Alloc, Buf, Call, Const, For, Kernel, Let, Store, Var

prepare()
provide_stencils(host_target(), every=True)
STENCILS = provided(host_target())
pytestmark = pytest.mark.skipif(STENCILS is None, reason="no stencils on this machine")
ONE, ZERO = Const(1, "i64"), Const(0, "i64")


def factors_kernel(kind):
    """The lower factors of matrices, and what the routine says of each: the matrices' rows are
    Fortran's columns."""
    _provide_routine("dpotrf")
    count, size, i = Var("count", "i64"), Var("size", "i64"), Var("i", "i64")
    a = Buf("a", "f64", (count, size, size), "inout")
    said, room = Buf("said", "i32", (count,), "out"), Buf("room", "f64", (7,), "temp")
    n, square, at, info = (
        Var("n", "i32"),
        Var("square", "i64"),
        Var("at", "i64"),
        Var("info", "i32"),
    )
    call = Call((info,), "dpotrf", (Const(ord("U"), "u8"), n, a, at, n), (("fortran", "csos"),))
    body = Let(at, "mul", (i, square)), call, Store(said, (i,), info)
    loop = For(i, ZERO, count, ONE, kind, (), (Alloc(room, body),))
    stmts = Let(n, "convert", (size,)), Let(square, "mul", (size, size)), loop
    return Kernel("factors", (a, said), (count, size), (), stmts, {"cost_per_iteration": 1e6})


def library_count():
    get = getattr(libraries._library(), "scipy_openblas_get_num_threads", None)
    return None if get is None else int(get())


@pytest.mark.parametrize("size", [1, 6, 600])  # of the last, the library uses its own threads
@pytest.mark.parametrize("kind", ["seq", "parallel"])
def test_factors(kind, size):
    kernel = factors_kernel(kind)
    plain = loader.link(link.assemble(emit_module(kernel, brief=True)[0], host_target(), 0))
    count, usual = (9 if size < 100 else 2), library_count()
    data = np.random.default_rng(size).normal(size=(count, size, size))
    data = data @ data.transpose(0, 2, 1) + size * np.eye(size)
    data[1, size // 2, size // 2] = -1.0  # one that has no factors
    want, said = data.copy(), np.full(count, -5, "i4")
    run(plain, [want, said], [count, size], threads=1)
    assert said.tolist() == [0, size // 2 + 1, *[0] * (count - 2)]
    np.testing.assert_allclose(np.tril(want[0]), np.linalg.cholesky(data[0]), rtol=1e-9, atol=1e-9)
    for shared, threads in ((False, 1), (True, 1), (True, 2)):
        image = patched(kernel, host_target(), STENCILS, shared=shared)
        got, info = data.copy(), np.full(count, -5, "i4")
        run(image, [got, info], [count, size], threads=threads)
        np.testing.assert_array_equal(info, said)
        if size < libraries.OWN_THREADS:
            np.testing.assert_array_equal(got, want)
        else:  # more threads add up in another order
            np.testing.assert_allclose(got[0], want[0], rtol=1e-9, atol=1e-9)
        assert library_count() == usual
        calls = runtime().table + function_offset("library_calls")
        assert ctypes.c_int64.from_address(calls).value == 0
