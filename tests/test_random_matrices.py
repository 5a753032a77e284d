"""Orthogonal matrices and normal vectors: their factors are LAPACK's to the bit, as JAX's are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import lapack

import pullback
from pullback import random
from pullback.random import matrices


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 2), (3, 3), (5, 5), (7, 4), (4, 7), (20, 20)])
def test_orthogonal_matrices_are_rounded_as_lapacks(n: int, m: int, dtype: str) -> None:
    """As JAX's are: whatever their size and number, mapped or not."""
    with pullback.enable_x64(dtype == "float64"):
        tall = max(n, m), min(n, m)
        keys = random.split(random.key(7), 3)
        got = pullback.vmap(lambda k: random.orthogonal(k, n, dtype=dtype, m=m))(keys)
        for key, one in zip(keys, got, strict=True):
            x = np.asarray(random.normal(key, tall, dtype))
            letter = {"float32": "s", "float64": "d", "complex64": "c"}[dtype]
            packed, taus, *_ = getattr(lapack, f"{letter}geqrf")(x)
            product = "ungqr" if letter == "c" else "orgqr"
            q = getattr(lapack, letter + product)(packed[:, : tall[1]], taus)[0]
            q = q * np.asarray(pullback.numpy.sign(np.diag(packed)[: tall[1]]))
            np.testing.assert_array_equal(one, q.T if m > n else q)
            np.testing.assert_array_equal(random.orthogonal(key, n, dtype=dtype, m=m), one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 30])
def test_normal_vectors_have_lapacks_factor(n: int, dtype: str) -> None:
    with pullback.enable_x64(dtype == "float64"):
        a = np.random.default_rng(n).normal(size=(n, n))
        cov = (a @ a.T / n + np.eye(n)).astype(dtype)
        cov = (cov + cov.T) / 2
        factor = getattr(lapack, "dpotrf" if dtype == "float64" else "spotrf")(cov, lower=1)[0]
        key, mean = random.key(n), np.zeros(n, dtype)
        got = random.multivariate_normal(key, mean, cov, dtype=dtype)
        assert got[0] == factor[0, 0] * np.asarray(random.normal(key, (n,), dtype))[0]
        np.testing.assert_array_equal(matrices.cholesky(cov), np.tril(factor))
        mapped = pullback.vmap(matrices.cholesky)(np.stack([cov, 2 * cov]))
        np.testing.assert_array_equal(mapped[0], np.tril(factor))
