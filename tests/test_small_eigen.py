"""Eigenvectors and singular values of small matrices in stacks, computed in lanes: beside LAPACK's,
whose signs they have, and by what defines them where matrices are special."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

RANDOM = np.random.default_rng(31)


def symmetric(*shape: int) -> np.ndarray:
    a = RANDOM.standard_normal(shape)
    return a + np.swapaxes(a, -1, -2)


def special(n: int) -> dict[str, np.ndarray]:
    """Stacks of matrices with few eigenvalues, of several blocks, of very different sizes."""
    q = np.linalg.qr(RANDOM.standard_normal((20, n, n)))[0]
    few = q * np.repeat([1.0, 2.0], [n // 2, n - n // 2]) @ np.swapaxes(q, 1, 2)
    blocks, size = symmetric(20, n, n), 10.0 ** -np.arange(n)
    blocks[:, : n // 2, n // 2 :] = blocks[:, n // 2 :, : n // 2] = 0
    whole = RANDOM.integers(-1, 2, (20, n, n))
    near = abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    return {
        "zero": np.zeros((5, n, n)), "one": np.ones((5, n, n)), "few": few, "blocks": blocks,
        "diagonal": np.eye(n) * RANDOM.standard_normal((9, 1, n)), "tridiagonal": blocks * near,
        "graded": symmetric(20, n, n) * size * size[:, None],
        "whole": whole + np.swapaxes(whole, 1, 2),
    }  # fmt: skip


def checked(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> None:
    """What eigenvectors are, and that values ascend."""
    limit = 40 * a.shape[-1] * np.finfo(a.dtype).eps
    a, w, v = (np.asarray(x, np.float64) for x in (a, w, v))
    size = np.maximum(abs(a).max((1, 2), keepdims=True), 1e-300)
    assert (abs(a @ v - v * w[:, None]) <= limit * size).all()
    assert (abs(np.swapaxes(v, 1, 2) @ v - np.eye(a.shape[-1])) <= limit).all()
    assert (np.diff(w) >= 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_eigenvectors_are_those_of_lapack(n: int, dtype: str) -> None:
    same = np.zeros((0, n), bool)
    with pb.enable_x64(True), jax.enable_x64(True):
        for count in (4, 7, 50):
            a = symmetric(count, n, n).astype(dtype)
            w, v = pb.jit(pnp.linalg.eigh)(a)
            checked(a, w, v)
            want = jnp.linalg.eigh(a)
            limit = 200 * n * np.finfo(dtype).eps
            np.testing.assert_allclose(w, want[0], atol=limit, rtol=0)
            signs = (np.asarray(v, np.float64) * np.asarray(want[1])).sum(1) > 0
            same = np.concatenate([same, signs])
    # Steps are the same ones, and so are signs, where rounding does not decide about a step.
    assert same.mean() > 0.95 if n > 5 and dtype == "float32" else same.all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_special_matrices(n: int, dtype: str) -> None:
    with pb.enable_x64(True):
        f = pb.jit(pnp.linalg.eigh)
        for a in special(n).values():
            checked(a.astype(dtype), *f(a.astype(dtype)))
        info = np.finfo(dtype)
        for size in (float(info.tiny) * 8, float(info.max) / 2**8):
            a = symmetric(9, n, n).astype(dtype) * np.asarray(size, dtype)
            w, v = f(a)
            by = float(2.0 ** -np.round(np.log2(size)))
            checked((a * np.asarray(by, dtype)), np.asarray(w) * by, v)


def test_what_is_not_finite_stays_in_its_matrix() -> None:
    a = symmetric(6, 4, 4).astype(np.float32)
    a[1, 0, 0], a[3, 2, 2], a[4, 3, 3] = np.nan, np.inf, -np.inf
    w, v = pb.jit(pnp.linalg.eigh)(a)
    bad = [False, True, False, True, True, False]
    assert np.isnan(w).any(1).tolist() == np.isnan(v).any((1, 2)).tolist() == bad
    assert np.isnan(w).all(1).tolist() == bad
    checked(a[::5], np.asarray(w)[::5], np.asarray(v)[::5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3), (3, 8), (8, 8)])
def test_singular_values(shape: tuple[int, int], dtype: str) -> None:
    m, n = shape
    f = lambda lib: lambda a: lib.svd(a, compute_uv=False)
    with pb.enable_x64(True):
        low = RANDOM.standard_normal((9, m, 1)) * RANDOM.standard_normal((9, 1, n))
        stacks = [RANDOM.standard_normal((50, m, n)), low, np.zeros((4, m, n)), np.ones((4, m, n))]
        if m == n:
            stacks += special(n).values() if n > 1 else []
        info = np.finfo(dtype)
        sizes = [(1.0, 0), (1.0, 1), (1.0, 2), (1.0, 3), (float(info.tiny) * 64, 0)]
        sizes += [(float(info.max) / 2**12, 0)] + [(1.0, k) for k in range(4, len(stacks))]
        for size, k in sizes:
            a = (stacks[k] * np.asarray(size)).astype(dtype)
            by = float(2.0 ** -np.round(np.log2(size)))
            got = np.asarray(pb.jit(f(pnp.linalg))(a)) * by
            want = f(np.linalg)(a.astype(np.float64) * by)
            limit = 40 * max(shape) * info.eps * np.maximum(want.max(), 1e-30)
            np.testing.assert_allclose(got, want, atol=limit, rtol=0)
            assert got.dtype == dtype and (np.diff(got) <= 0).all()
        a[1, 0, 0] = np.nan
        got = np.isnan(np.asarray(pb.jit(f(pnp.linalg))(a)))
        assert got[1].all() and not got[[0, 2, 3]].any()


def test_threads_and_places_in_a_stack_do_not_show() -> None:
    a = symmetric(1333, 4, 4).astype(np.float32)
    results = []
    for threads in (1, 2):
        with pb.num_threads(threads):
            results.append([np.asarray(x) for x in pb.jit(pnp.linalg.eigh)(a)])
    checked(a, *results[0])
    part = [np.asarray(x) for x in pb.jit(pnp.linalg.eigh)(a[5:22])]
    for one, two, some in zip(*results, part, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one[5:22], some)


def test_small_matrices_in_stacks_do_not_call_the_library() -> None:
    text = lambda f, *shape: pb.jit(f).lower(np.ones(shape, np.float32)).as_text("loops")
    eigh = pnp.linalg.eigh
    assert "syevd" not in text(eigh, 40, 8, 8) and "syevd" in text(eigh, 40, 9, 9)
    assert "syevd" in text(eigh, 3, 3) and "syevd" in text(eigh, 2, 3, 3)
    assert "syevd" in text(lambda a: pb.lax.linalg.eigh(a, lower=False), 40, 3, 3)
    values = lambda a: pnp.linalg.svd(a, compute_uv=False)
    assert "gesdd" not in text(values, 40, 8, 5) and "gesdd" in text(values, 40, 9, 5)
    assert "gesdd" in text(pnp.linalg.svd, 40, 3, 3)
    assert pb.jit(values)(np.ones((0, 3, 2))).shape == (0, 2)
    assert pb.jit(eigh)(np.ones((0, 3, 3)))[1].shape == (0, 3, 3)


def test_derivatives_of_mapped_eigenvalues() -> None:
    a = symmetric(5, 3, 3)
    f = lambda lib, np_: lib.vmap(lib.grad(lambda x: (np_.linalg.eigh(x)[0] ** 3)[0]))
    with pb.enable_x64(True), jax.enable_x64(True):
        want = f(jax, jnp)(a)
        np.testing.assert_allclose(pb.jit(f(pb, pnp))(a), want, rtol=1e-9, atol=1e-10)
