"""Linear algebra and Fourier transforms as native code: small matrices in lanes, LAPACK called from
kernels, transforms of every length; none of it runs Python, in loops neither."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.lax.linalg
import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback.backends.reference import rule_of
from pullback.loops import libraries, pipeline
from pullback.loops.run import run_program
from pullback.loops.show import show_kernel

RNG = np.random.default_rng(3)
LINALG = lax.linalg
_STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def the_same_numbers_in_any_order() -> None:
    """What a test draws does not depend on the tests that ran before it in the process."""
    RNG.bit_generator.state = _STATE


def normal(*shape: int, dtype: str = "f") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype in "FD" else x).astype(dtype)


def positive(*shape: int, dtype: str = "f") -> Any:
    x = normal(*shape, dtype=dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype) * shape[-1]


def steps(f: Callable[..., Any], *xs: Any) -> str:
    return str(pb.jit(f).lower(*xs).compile().as_text())


def close(got: Any, want: Any, dtype: str) -> None:
    tolerance = 2e-4 if dtype in "fF" else 1e-10
    for x, y in zip(pb.tree.leaves(got), jax.tree.leaves(want), strict=True):
        a, b = np.asarray(x), np.asarray(y)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- small matrices, in lanes ---
STACKS = [(2, 2), (7, 3, 3), (37, 4, 4), (5, 6, 6), (3, 9, 5, 5), (18, 12, 12), (4, 1, 1)]


OPTIONS: list[dict[str, bool]] = [
    {"left_side": True},
    {"lower": True, "transpose_a": True},
    {"left_side": True, "lower": True, "conjugate_a": True},
    {"transpose_a": True, "conjugate_a": True, "unit_diagonal": True},
]
CASES = [(s, t) for k, s in enumerate(STACKS) for t in ("fD", "dF")[k % 2]]


@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_small_matrices(shape: Any, dtype: str) -> None:
    """Blocks that are full, that are not, and matrices that are alone; with pivots of zero."""
    with pb.enable_x64(True), jax.enable_x64(True):
        a, s, y = normal(*shape, dtype=dtype), positive(*shape, dtype=dtype), normal(*shape)
        y = y.astype(dtype)
        a[..., 0] *= RNG.integers(0, 2, shape[:-2])[..., None]
        close(LINALG.cholesky(s), jax.lax.linalg.cholesky(s), dtype)
        packed, pivots, order = LINALG.lu(a)
        low = np.tril(packed, -1) + np.eye(shape[-1])
        rows = np.take_along_axis(a, np.asarray(order)[..., None], -2)
        np.testing.assert_allclose(low @ np.triu(packed), rows, atol=1e-5)
        assert np.abs(np.tril(packed, -1)).max(initial=0) <= 1.5
        close(LINALG.lu_pivots_to_permutation(pivots, shape[-1]), order, dtype)
        for options in OPTIONS:
            m = s / shape[-1] if "unit_diagonal" in options else s
            want = jax.lax.linalg.triangular_solve(m, y, **options)
            close(LINALG.triangular_solve(m, y, **options), want, dtype)


MANY_SIDES = [((3, 3), 40), ((4, 4), 1000), ((2, 7, 7), 130), ((17, 17), 64), ((32, 32), 100)]


@pytest.mark.parametrize(("shape", "count"), MANY_SIDES, ids=str)
@pytest.mark.parametrize("dtype", "fD")
def test_many_right_sides(shape: Any, count: int, dtype: str) -> None:
    """Right sides of one matrix are lanes: nothing of BLAS is called, whose threads would meet
    ours."""
    *batch, n, _ = shape
    with pb.enable_x64(True), jax.enable_x64(True):
        m = positive(*shape, dtype=dtype) / n
        for options in OPTIONS:
            if not options.get("left_side") and n > 8:
                continue
            y = normal(*batch, *((n, count) if options.get("left_side") else (count, n)))
            f = functools.partial(LINALG.triangular_solve, **options)
            y = y.astype(dtype)
            close(f(m, y), jax.lax.linalg.triangular_solve(m, y, **options), dtype)
            jaxpr = pb.make_jaxpr(f)(m, y)
            compiled = pipeline.compile_jaxpr(jaxpr, lambda eqn: rule_of(eqn.primitive))
            text = "".join(show_kernel(k) for k in compiled.kernels)
            assert len(compiled.kernels) == 1 and "trsm" not in text


QRS = [(3, 3), (7, 2, 2), (5, 4, 3), (6, 3, 4), (9, 8, 5), (9, 5, 8), (17, 16, 16), (5, 1, 3)]


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("dtype", "fdFD")
def test_many_right_sides_are_shared_by_our_threads(dtype: str, left: bool) -> None:
    """In parts that sizes alone tell, whatever the number of threads: the library's own wait for
    one another."""
    n, sides = 120, 600
    a = normal(n, n, dtype=dtype) / 8 + 4 * np.eye(n, dtype=dtype)
    y = normal(*((n, sides) if left else (sides, n)), dtype=dtype)
    with pb.enable_x64(dtype in "dD"):
        for transpose, lower in ((False, True), (True, False)):
            options = {"left_side": left, "lower": lower, "transpose_a": transpose}
            f = functools.partial(LINALG.triangular_solve, **options)
            with jax.enable_x64(dtype in "dD"):
                want = jax.lax.linalg.triangular_solve(a, y, **options)
            close(f(a, y), want, dtype)
            closed = pb.make_jaxpr(f)(a, y)
            (kernel,) = pipeline.compile_jaxpr(closed, lambda eqn: rule_of(eqn.primitive)).kernels
            parallel = re.findall(r"for parallel \S+ in 0:i64\.\.4:i64", show_kernel(kernel))
            assert len(parallel) == 1
            with pb.num_threads(1):
                alone = np.asarray(pb.jit(f)(a, y))
            assert alone.tobytes() == np.asarray(pb.jit(f)(a, y)).tobytes()


@pytest.mark.parametrize("shape", QRS, ids=str)
def test_small_qr(shape: Any) -> None:
    """The signs are LAPACK's; nothing of it is called."""
    x = normal(*shape)
    for full in (False, True):
        f = lambda a, full=full: LINALG.qr(a, full_matrices=full)
        close(f(x), jax.lax.linalg.qr(x, full_matrices=full), "f")
        compiled = pipeline.compile_jaxpr(pb.make_jaxpr(f)(x), lambda eqn: rule_of(eqn.primitive))
        text = "".join(show_kernel(k) for k in compiled.kernels)
        assert len(compiled.kernels) == 1 and "geqrf" not in text


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (3, 20, 20)], ids=str)
def test_what_nobody_reads_of_a_qr_is_not_computed(shape: Any) -> None:
    x = normal(*shape)
    texts, routines = [], ("orgqr", "geqrf")
    for f in (lambda a: LINALG.qr(a, full_matrices=False)[1], LINALG.qr):
        compiled = pipeline.compile_jaxpr(pb.make_jaxpr(f)(x), lambda eqn: rule_of(eqn.primitive))
        text = "".join(show_kernel(k) for k in compiled.kernels)
        texts.append([name in text for name in routines])
    assert texts == [[False, True], [True, True]]
    r = pb.jit(lambda a: LINALG.qr(a, full_matrices=False)[1])(x)
    close(r, jax.lax.linalg.qr(x, full_matrices=False)[1], "f")


def test_small_qr_of_hard_matrices() -> None:
    """Zero columns, the identity, very small and very large numbers; NaN stays in its lane."""
    x = np.zeros((6, 5, 5), "f")
    x[1], x[2], x[3] = np.eye(5), 1e-30 * normal(5, 5), 1e30 * normal(5, 5)
    x[4, 1, 0], x[5] = np.nan, normal(5, 5)
    (q, r), (want_q, want_r) = map(np.asarray, LINALG.qr(x)), map(np.asarray, np.linalg.qr(x))
    assert np.isnan(q[4]).any()
    for k in (0, 1, 2, 3, 5):
        np.testing.assert_allclose(q[k], want_q[k], atol=3e-6)
        np.testing.assert_allclose(r[k], want_r[k], atol=3e-6 * (np.abs(want_r[k]).max() + 1e-38))


def test_failures_stay_in_their_lane() -> None:
    s = positive(40, 6, 6)
    s[7], s[20, 0, 0], s[31, 3, 3] = -s[7], np.nan, 0
    bad = np.isnan(np.asarray(LINALG.cholesky(s))).any((1, 2))
    assert np.flatnonzero(bad).tolist() == [7, 20, 31]
    assert np.isnan(np.asarray(LINALG.cholesky(s[7]))).any()
    a = normal(40, 6, 6)
    a[3] = 0
    assert np.isfinite(np.asarray(LINALG.lu(a)[0])).all()
    assert np.asarray(pb.numpy.linalg.det(a))[3] == 0


def test_bits_do_not_depend_on_the_place() -> None:
    """A matrix gives the same bits wherever it stands in its stack."""
    a = normal(33, 7, 7)
    whole = np.asarray(pb.numpy.linalg.inv(a))
    turned = np.asarray(pb.numpy.linalg.inv(a[::-1].copy()))
    assert (whole == turned[::-1]).all()


# --- LAPACK from kernels ---
OPERATIONS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a: LINALG.cholesky(a @ a.mT + 9 * pb.numpy.eye(40)),
    "lu": LINALG.lu,
    "qr": LINALG.qr,
    "qr pivoted": lambda a: LINALG.qr(a, pivoting=True, full_matrices=False),
    "ormqr": lambda a: LINALG.ormqr(a, a[..., 0, :], a),
    "eigh": LINALG.eigh,
    "eig": LINALG.eig,
    "svd": LINALG.svd,
    "svd values": lambda a: LINALG.svd(a, compute_uv=False),
    "schur": LINALG.schur,
    "hessenberg": LINALG.hessenberg,
    "tridiagonal": LINALG.tridiagonal,
    "solve": lambda a: pb.numpy.linalg.solve(a, a[..., 0]) if a.ndim == 2 else a,
    "symmetric_product": lambda a: LINALG.symmetric_product(a, a, alpha=2.0, beta=1.0),
    "tridiagonal_solve": lambda a: LINALG.tridiagonal_solve(a[0], a[1] + 9, a[2], a),
    "cholesky_update": lambda a: LINALG.cholesky_update(pb.numpy.triu(a) + 9, a[0]),
    "fft": pb.numpy.fft.fft,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_python(name: str) -> None:
    f, x = OPERATIONS[name], normal(40, 40)
    assert "HostStep" not in steps(f, x)
    stack = np.stack([x, x + 1])
    assert "HostStep" not in steps(pb.vmap(f), stack)

    def loop(stack: Any) -> Any:
        return lax.scan(lambda c, a: (c + 1, f(a)), 0, stack)[1]

    assert "HostStep" not in steps(loop, stack)
    for one, k in zip(pb.tree.leaves(pb.jit(loop)(stack)), pb.tree.leaves(f(x)), strict=True):
        np.testing.assert_allclose(np.asarray(one)[0], np.asarray(k), rtol=2e-3, atol=2e-3)


def test_interpreted() -> None:
    """Where there is no compiler, the interpreter calls the same routines."""
    x = normal(5, 4)
    closed = pb.make_jaxpr(lambda x: LINALG.svd(x, full_matrices=False))(x)
    program = pipeline.compile_jaxpr(closed, lambda eqn: rule_of(eqn.primitive))
    got = run_program(program, [x])
    close(got, [np.asarray(v) for v in LINALG.svd(x, full_matrices=False)], "f")


def test_routines_without_the_wheels_library(monkeypatch: Any) -> None:
    """The pointers that SciPy exports are the same routines."""
    monkeypatch.setattr(libraries, "_opened", [None])
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    monkeypatch.setattr(libraries, "_addresses", {})
    size, letter = np.int32(2), np.uint8(ord("U"))
    assert libraries.call("dpotrf", "csps", [letter, size, a, size]) == [0]
    assert a.tolist() == [[2.0, 2.0], [1.0, 2.0]]
    assert ctypes.sizeof(ctypes.c_void_p) == 8


WARM = """
import numpy as np
import pullback as pb
def f(x):
    w, v = pb.numpy.linalg.eigh(x @ x.T)
    q, r = pb.numpy.linalg.qr(x + v)
    return pb.numpy.linalg.svd(q * w + r, compute_uv=False).sum()
print(float(pb.jit(f)(np.sin(np.arange(900.0)).reshape(30, 30))))
"""


def test_warm_start(tmp_path: Any) -> None:
    """Code from disk finds the routines it calls."""
    env = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", WARM], env=env, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [r.returncode for r in runs] == [0, 0], runs[1].stderr
    assert runs[0].stdout == runs[1].stdout


def test_stacks_are_shared_among_threads() -> None:
    """Matrices of a stack are done side by side, also large ones, for which the library has threads
    of its own; but a few very large ones are left to these."""
    stack = positive(8, 520, 520)
    text = str(pb.jit(LINALG.cholesky).lower(stack).as_text("loops"))
    assert text.index("for parallel") < text.index("call spotrf")
    stack = positive(8, 120, 120)
    text = str(pb.jit(LINALG.cholesky).lower(stack).as_text("loops"))
    assert text.index("for parallel") < text.index("call tile_f32")
    few = pb.ShapeDtypeStruct((2, 600, 600), "float32")
    assert (
        "for parallel" not in pb.jit(LINALG.cholesky).lower(few).as_text("loops").split("spotrf")[0]
    )
    got, want = LINALG.cholesky(stack), np.linalg.cholesky(stack)
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("n", [24, 25, 31, 32, 33, 48, 65, 127, 200, 301, 511])
def test_factors_in_blocks(n: int, dtype: str) -> None:
    """Blocks of rows: products by tiles, no routine of the library; in loops as well. Only the
    lower triangle is read. Pivots that are not positive, wherever they stand, and NaN give NaN."""
    with pb.enable_x64(dtype == "d"):
        a = positive(n, n, dtype=dtype) / np.asarray(n, dtype)
        text = str(pb.jit(LINALG.cholesky).lower(a).as_text("loops"))
        assert "potrf" not in text
        assert f"call tile_{'f32' if dtype == 'f' else 'f64'}_2" in text
        want = np.linalg.cholesky(a)
        close(np.tril(LINALG.cholesky(a)), want, dtype)
        lower = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
        close(np.tril(LINALG.cholesky(lower, symmetrize_input=False)), want, dtype)
        twice = lambda a: lax.fori_loop(0, 2, lambda _, x: LINALG.cholesky(x @ x.T), a)
        again = np.linalg.cholesky(a @ a.T)
        close(pb.jit(twice)(a), np.linalg.cholesky(again @ again.T), dtype)
        for k in (0, 15, 16, n - 1):
            for value in (-1, 0, np.nan):
                bad = a.copy()
                bad[k, k] = value
                lost = np.tril_indices(n)
                assert np.isnan(np.asarray(pb.jit(LINALG.cholesky)(bad))[lost]).all()


def test_stacks_of_nothing() -> None:
    for shape in ((0, 3, 3), (2, 0, 0)):
        x = np.zeros(shape, "f")
        for f in ("cholesky", "lu", "eigh", "svd", "qr", "schur"):
            want = jax.tree.leaves(jax.eval_shape(getattr(jax.lax.linalg, f), x))
            got = pb.tree.leaves(getattr(LINALG, f)(x))
            assert [g.shape for g in got] == [w.shape for w in want]


# --- transforms ---
LENGTHS = [1, 2, 3, 4, 7, 8, 17, 34, 64, 97, 105, 255, 512, 1009, 8192]


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int) -> None:
    x = normal(n, dtype="F")
    stack = normal(3, n, dtype="F") if n < 2000 else x[None]
    plane = normal(n, 5, dtype="F") if n < 2000 else x[:, None]
    fft, scale = pb.numpy.fft, 4e-6 * np.sqrt(n)
    for got, want in (
        (fft.fft(x), np.fft.fft(x)),
        (fft.ifft(stack), np.fft.ifft(stack)),
        (fft.rfft(x.real), np.fft.rfft(x.real)),
        (fft.irfft(stack[..., : n // 2 + 1], n), np.fft.irfft(stack[..., : n // 2 + 1], n)),
        (fft.fftn(plane), np.fft.fftn(plane)),
        (fft.rfftn(plane.real), np.fft.rfftn(plane.real)),
    ):
        a = np.asarray(got)
        assert a.dtype in ("F", "f")
        np.testing.assert_allclose(a, want, atol=scale * max(1.0, float(np.abs(want).max())))
    if n in (17, 512):
        assert "HostStep" not in steps(fft.rfftn, plane.real)


@pytest.mark.parametrize(("n", "dtype"), [(97, "F"), (97, "f"), (243, "f"), (255, "f"), (31, "f")])
def test_odd_lengths_are_one_kernel(n: int, dtype: str) -> None:
    """Neither primes up to 127 nor real numbers of odd count need a detour: nothing is stored but
    the result, and of real numbers only the frequencies that are wanted."""
    x = normal(40, n, dtype=dtype)
    f = pb.numpy.fft.fft if dtype == "F" else pb.numpy.fft.rfft
    compiled = pipeline.compile_jaxpr(pb.make_jaxpr(f)(x), lambda eqn: rule_of(eqn.primitive))
    assert len(compiled.kernels) == 1
    assert not [s for s in compiled.slots if s.role == "temp"]
    want = np.fft.fft(x) if dtype == "F" else np.fft.rfft(x)
    np.testing.assert_allclose(np.asarray(pb.jit(f)(x)), want, atol=1e-6 * np.abs(want).max())


# --- derivatives at equal values, polar decomposition ---
def test_finite_derivatives_at_equal_values() -> None:
    weights = np.sin(np.arange(16.0)).reshape(4, 4)
    with pb.enable_x64(True):
        q = np.linalg.qr(normal(4, 4, dtype="d"))[0]
        a = q @ np.diag([1.0, 1.0, 2.0, 3.0]) @ q.T

        def projection(a: Any) -> Any:
            w, v = pb.numpy.linalg.eigh(a)
            return (weights * (v[:, :2] @ v[:, :2].T)).sum() + w.sum()

        def turn(a: Any) -> Any:
            u, _, vt = pb.numpy.linalg.svd(a)
            return (weights * (u @ vt)).sum()

        exact = np.diag([1.0, 1.0, 2.0, 3.0])
        assert np.isnan(np.asarray(pb.grad(projection)(exact))).any()
        with pb.config.finite_degenerate_derivatives(True):
            assert np.isfinite(np.asarray(pb.grad(projection)(exact))).all()
            for f in (projection, turn):
                got = np.asarray(pb.grad(f)(a))
                e = 1e-6 * np.eye(16).reshape(16, 4, 4)
                want = [(f(a + d) - f(a - d)) / 2e-6 for d in e]
                np.testing.assert_allclose(got.reshape(-1), np.asarray(want), atol=1e-7)


@pytest.mark.parametrize("dtype", ["f", "D"])
def test_qdwh(dtype: str) -> None:
    with pb.enable_x64(True), jax.enable_x64(True):
        x = normal(6, 4, dtype=dtype)
        close(LINALG.qdwh(x), jax.lax.linalg.qdwh(x), dtype)
        x[4:], x[:, 3:] = 0, 0
        shape = {"dynamic_shape": (4, 3)}
        close(LINALG.qdwh(x, **shape), jax.lax.linalg.qdwh(x, **shape), dtype)
        close(LINALG.qdwh(np.zeros((2, 2))), jax.lax.linalg.qdwh(np.zeros((2, 2))), dtype)
        short = LINALG.qdwh(x[:4, :3], max_iterations=1)
        assert int(short[2]) == 1 and not bool(short[3])
    for wrong in (np.ones((2, 3), "f"), np.ones(3, "f"), np.ones((3, 3), "i")):
        with pytest.raises(ValueError, match=r"qdwh|M >= N"):
            LINALG.qdwh(wrong)


def test_small_matrices_in_lanes_are_known_to_be_quick() -> None:
    """A thousand take tens of microseconds, not hundreds: good code of the first run, which would
    take LLVM tens of milliseconds, is not worth it."""
    x = np.eye(4, dtype=np.float32)[None].repeat(1000, 0)
    for f in (pb.numpy.linalg.cholesky, pb.numpy.linalg.qr, lax.linalg.lu):
        program = pipeline.compile_jaxpr(pb.make_jaxpr(f)(x), rule_of)
        assert 1e-6 < program.seconds < 1e-4
