"""Factorisations: Cholesky, QR, singular values, eigenvalues."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ...api.jit import jit
from ...core.avals import typeof
from ...primitives import linalg as lax_linalg
from .. import arithmetic, sorting, taking
from .common import adjoint, inexact, transposed


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


@functools.partial(jit, static_argnames=("upper", "symmetrize_input"))
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with a = L L^H (with `upper`, U with a = U^H U); NaN where `a` is not
    positive definite.

    `symmetrize_input`: the mean of `a` and its conjugate transpose is factored; without it the
    lower triangle says what `a` is, for U too.

    >>> pb.numpy.linalg.cholesky(jnp.array([[4., 0.], [0., 9.]]))
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    (a,) = inexact("cholesky", a)
    if typeof(a).ndim < 2:
        raise TypeError(f"cholesky: a must have rank at least 2, got shape={typeof(a).shape}")
    factor = lax_linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def _svd(
    a: Any, full_matrices: bool, compute_uv: bool, hermitian: bool, subset_by_index: Any
) -> Any:
    if not hermitian:
        return lax_linalg.svd(
            a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
    w, v = eigh(a)
    size = arithmetic.abs(w)
    order = sorting.argsort(size, axis=-1, descending=True)
    s = taking.take_along_axis(size, order, axis=-1)
    if not compute_uv:
        return s
    v = taking.take_along_axis(v, order[..., None, :], axis=-1)
    sign = taking.take_along_axis(arithmetic.sign(w), order, axis=-1).astype(typeof(v).dtype)
    return v, s, adjoint(v * sign[..., None, :])


_svd.__name__ = "svd"

_svd_jit = jit(
    _svd, static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index")
)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular value decomposition a = U diag(S) Vh, S descending; only S without `compute_uv`.

    Raises ValueError if `full_matrices` and `subset_by_index` are both set.

    Shapes (..., m, n) give (..., m, m or k), (..., k), (..., n or k, n) with k = min(m, n): the
    smaller ones unless `full_matrices`.

    >>> u, s, vh = jnp.linalg.svd(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> s
    Array([3., 2.], dtype=float32)
    """
    (a,) = inexact("svd", a)
    if typeof(a).ndim < 2:
        raise TypeError(
            f"Input 0 to svd must have rank at least 2, but got shape={typeof(a).shape}"
        )
    if full_matrices and subset_by_index is not None and compute_uv:
        raise ValueError("full_matrices and subset_by_index cannot both be set")
    subset = None if subset_by_index is None else tuple(int(k) for k in subset_by_index)
    out = _svd_jit(a, full_matrices and subset is None, compute_uv, hermitian, subset)
    return SVDResult(*out) if compute_uv else out


def svdvals(x: Any, /) -> Any:
    """The singular values, descending.

    Shape (..., m, n) gives (..., min(m, n)). TypeError for fewer than two axes.

    >>> jnp.linalg.svdvals(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([3., 2.], dtype=float32)
    """
    return svd(x, compute_uv=False, hermitian=False)


@functools.partial(jit, static_argnames=("UPLO", "symmetrize_input"))
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """(eigenvalues ascending, eigenvectors as columns) of a symmetric or Hermitian matrix; `UPLO`
    names the triangle that is read.

    `symmetrize_input`: the mean of `a` and its conjugate transpose is taken.

    >>> pb.numpy.linalg.eigh(jnp.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    (a,) = inexact("eigh", a)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    v, w = lax_linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@functools.partial(jit, static_argnames=("UPLO", "symmetrize_input"))
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues, ascending, of a symmetric or Hermitian matrix.

    Only the lower triangle is read (`UPLO="U"`: the upper one) if `symmetrize_input` is False.

    >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """(eigenvalues, right eigenvectors as columns), complex, of any square matrix.

    Shape (..., n, n) gives (..., n) and (..., n, n); the columns have norm 1. Differentiable where
    the eigenvalues are distinct.

    >>> values, vectors = jnp.linalg.eig(jnp.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> values.imag
    Array([ 1., -1.], dtype=float32)
    """
    (a,) = inexact("eig", a)
    w, v = lax_linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@jit
def eigvals(a: Any) -> Any:
    """The eigenvalues, complex, of any square matrix.

    Shape (..., n, n) gives (..., n). ValueError unless the matrices are square.

    >>> jnp.linalg.eigvals(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    (a,) = inexact("eigvals", a)
    return lax_linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@functools.partial(jit, static_argnames=("mode",))
def qr(a: Any, mode: str = "reduced") -> Any:
    """a = Q R, Q with orthonormal columns, R upper triangular; `mode`: "reduced" (its old name:
    "full"), "complete", "r" (R alone), "raw" (LAPACK's form).

    Raises ValueError for another mode.

    >>> q, r = jnp.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> jnp.abs(r).round(3)
    Array([[5. , 2.2],
           [0. , 0.4]], dtype=float32)
    """
    (a,) = inexact("qr", a)
    if mode == "raw":
        reflectors, taus = lax_linalg.geqrf(a)
        return QRResult(transposed(reflectors), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax_linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)
