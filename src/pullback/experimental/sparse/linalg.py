"""Linear algebra with sparse matrices: a direct solver, and the largest eigenpairs by products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...core.avals import ShapedArray
from ...lazy_imports import lazy_module
from ...primitives.callback import pure_callback
from .composed import composed
from .csr import csr_matvec_p

_scipy_sparse = lazy_module("scipy.sparse")
_scipy_solvers = lazy_module("scipy.sparse.linalg")


# --- spsolve ---
def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: Any = 1e-6, reorder: Any = 1) -> Any:
    """The solution x of a @ x = b, a being a sparse matrix by rows; by SciPy's direct solver, on
    the host. Differentiable in the elements of the matrix and in b.

    `data`, `indices`, `indptr`: the matrix in CSR form, (n, n). `b`: (n,), of the dtype of data.
    `tol` and `reorder` are of solvers on accelerators. Raises ValueError for others.

    >>> from pullback.experimental import sparse
    >>> from pullback.experimental.sparse.linalg import spsolve
    >>> m = sparse.CSR.fromdense(jnp.array([[2., 0.], [1., 4.]]))
    >>> spsolve(m.data, m.indices, m.indptr, jnp.array([2., 9.]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    if b.ndim != 1 or indptr.ndim != 1 or indptr.shape[0] != b.shape[0] + 1:
        raise ValueError(
            f"spsolve: b of shape {b.shape} needs a matrix of as many rows; indptr has shape "
            f"{indptr.shape}"
        )
    if data.ndim != 1 or data.shape != indices.shape:
        raise ValueError(
            f"spsolve: data of shape {data.shape} and indices of shape {indices.shape} need one "
            "axis of one size"
        )
    if reorder not in range(5):
        raise ValueError(f"spsolve: reorder={reorder!r} is not 0, 1, 2, 3 or 4")
    if data.dtype != b.dtype or not dtypes.is_inexact(b.dtype):
        raise ValueError(
            f"spsolve: data and b need one floating-point or complex dtype; got {data.dtype} and "
            f"{b.dtype}. Fix: b.astype(data.dtype)."
        )
    return spsolve_p.bind(data, indices, indptr, b, tol=tol, reorder=reorder)


def _solved(data: Any, indices: Any, indptr: Any, b: Any, *, tol: Any, reorder: Any) -> Any:
    n = b.shape[0]

    def product(x: Any) -> Any:
        return csr_matvec_p.bind(data, indices, indptr, x, shape=(n, n), transpose=False)

    def solver(transpose: bool) -> Callable[[Any, Any], Any]:
        def solve(_: Any, right: Any) -> Any:
            def on_host(*parts: Any) -> Any:
                return _direct(*map(np.asarray, parts), transpose=transpose)

            result = ShapedArray(right.shape, right.dtype)
            parts = map(lax.stop_gradient, (data, indices, indptr))
            return pure_callback(on_host, result, *parts, right, vmap_method="sequential")

        return solve

    return lax.custom_linear_solve(product, b, solver(False), solver(True))


def _direct(data: Any, indices: Any, indptr: Any, b: Any, *, transpose: bool) -> Any:
    wide = np.promote_types(data.dtype, np.float32)  # SciPy has no narrower floats
    parts = (data.astype(wide), indices, indptr)
    matrix = _scipy_sparse.csr_matrix(parts, shape=(b.shape[0],) * 2)
    matrix = matrix.T.tocsc() if transpose else matrix.tocsc()
    return np.asarray(_scipy_solvers.spsolve(matrix, b.astype(wide)), b.dtype)


spsolve_p = composed("spsolve", _solved, ("tol", "reorder"))


# --- lobpcg ---
def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """The k largest eigenvalues, and their eigenvectors, of a symmetric positive matrix that is
    known by its products with blocks of vectors.

    `A`: (n, n), or a function of (n, k) to (n, k). `X`: (n, k) with 0 < 5 k < n, where the search
    starts; floating-point. `m`: how many steps at most. `tol`: how small a residual is, relative to
    10 n (|A u| + theta); the dtype's precision by default. Returns (theta, (k,), the largest first;
    U, (n, k), orthonormal; how many steps). Raises ValueError for other shapes.

    The locally optimal block method of Knyazev, SIAM J. Sci. Comput. 23 (2001), 517: each step
    solves the problem in the space of the last vectors, their residuals and their last changes,
    whose orthonormal basis a QR decomposition makes, of dependent vectors too.

    >>> from pullback.experimental.sparse.linalg import lobpcg_standard
    >>> theta, U, steps = lobpcg_standard(jnp.diag(jnp.arange(1., 9.)), jnp.ones((8, 1)))
    >>> theta.round(3)
    Array([8.], dtype=float32)
    """
    X = jnp.asarray(X)
    product = A if callable(A) else (lambda v: jnp.matmul(A, v, precision=lax.Precision.HIGHEST))
    _check_search(product, X, m)
    n, k = X.shape
    limit = jnp.finfo(X.dtype).eps if tol is None else tol
    start = _pairs(product, jnp.linalg.qr(X)[0], k)
    none = jnp.zeros_like(X)

    def unfinished(state: Any) -> Any:
        step, (theta, _, image, residual), _ = state
        scale = 10 * n * (jnp.linalg.norm(image, axis=0) + jnp.abs(theta))
        return (step < m) & (jnp.linalg.norm(residual, axis=0) > limit * scale).any()

    def step(state: Any) -> Any:
        count, (_, U, _, residual), change = state
        basis = jnp.linalg.qr(jnp.concatenate([U, residual, change], 1))[0]
        return (count + 1, *_improved(product, basis, k))

    count, (theta, U, _, _), _ = lax.while_loop(unfinished, step, (0, start, none))
    return theta, U, count


def _check_search(product: Callable[[Any], Any], X: Any, m: int) -> None:
    if X.ndim != 2:
        raise ValueError(f"expected X to be 2-dimensional, got shape {X.shape}")
    n, k = X.shape
    if not k:
        raise ValueError("lobpcg_standard: expected at least one column of X")
    if 5 * k >= n:
        raise ValueError(
            f"lobpcg_standard: 5 times the columns of X must be less than its rows; got {k} "
            f"columns and {n} rows. Fix: jnp.linalg.eigh."
        )
    if not dtypes.is_inexact(X.dtype):
        raise TypeError(f"lobpcg_standard: X must be of floating-point numbers, got {X.dtype}")
    image = product(X)
    if image.shape != X.shape or image.dtype != X.dtype:
        raise ValueError(
            f"lobpcg_standard: A of X of shape {X.shape} and dtype {X.dtype} has shape "
            f"{image.shape} and dtype {image.dtype}"
        )


def _pairs(product: Callable[[Any], Any], basis: Any, k: int) -> tuple[Any, Any, Any, Any]:
    """(eigenvalues, vectors, their images, residuals): the k largest in the space of the basis."""
    found, _ = _improved(product, basis, k)
    return found  # type: ignore[no-any-return]


def _improved(product: Callable[[Any], Any], basis: Any, k: int) -> tuple[Any, Any]:
    """((eigenvalues, vectors, their images, residuals), the vectors' change from the first k)."""
    images = product(basis) if basis.shape[1] == k else _in_blocks(product, basis, k)
    high = lax.Precision.HIGHEST
    small = jnp.matmul(basis.T.conj(), images, precision=high)
    values, vectors = jnp.linalg.eigh((small + small.T.conj()) / 2)
    theta, mix = values[::-1][:k], vectors[:, ::-1][:, :k]
    U, image = (jnp.matmul(v, mix, precision=high) for v in (basis, images))
    change = jnp.matmul(basis[:, k:], mix[k:], precision=high)
    return (theta, U, image, image - theta * U), change


def _in_blocks(product: Callable[[Any], Any], basis: Any, k: int) -> Any:
    """A function that is A may know blocks of k columns only."""
    blocks = [basis[:, at : at + k] for at in range(0, basis.shape[1], k)]
    return jnp.concatenate([product(b) for b in blocks], 1)


__all__ = ["lobpcg_standard", "spsolve", "spsolve_p"]
