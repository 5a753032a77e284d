"""Linear algebra on stacks of matrices: the last two axes are the matrix, the others are a
batch.
"""

# Longer than other files: one short function for each of NumPy's.

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..control.custom import custom_jvp
from ..core.avals import typeof
from ..primitives import linalg as lax_linalg
from ..primitives.manual import vary_alike
from . import (
    arithmetic,
    comparison,
    complex_parts,
    creation,
    elementary,
    index_functions,
    manipulation,
    products,
    ranges,
    reductions,
    scalar_types,
    sorting,
)
from .einsums import einsum
from .util import (
    canonical_axes,
    check_arraylike,
    promote_dtypes_inexact,
    promotes_freely,
    static_axes,
)


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


def _inexact(name: str, *args: Any) -> list[Any]:
    check_arraylike(f"jnp.linalg.{name}", *args)
    return [creation.asarray(x) for x in promote_dtypes_inexact(*args)]


def _square(name: str, a: Any) -> int:
    shape = typeof(a).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Argument to {name} must have shape [..., n, n], got {shape} (a: "
            f"{typeof(a).str_short()})"
        )
    return int(shape[-1])


def _t(a: Any) -> Any:
    return manipulation.swapaxes(a, -1, -2)


def _h(a: Any) -> Any:
    return complex_parts.conj(_t(a)) if dtypes.is_complex(typeof(a).dtype) else _t(a)


def _mm(a: Any, b: Any) -> Any:
    return products.matmul(a, b, precision=lax.Precision.HIGHEST)


def _diagonal(a: Any) -> Any:
    return products.diagonal(a, axis1=-2, axis2=-1)


# --- factorisations ---
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
    (a,) = _inexact("cholesky", a)
    if typeof(a).ndim < 2:
        raise TypeError(f"cholesky: a must have rank at least 2, got shape={typeof(a).shape}")
    factor = lax_linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return _h(factor) if upper else factor


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
    s = index_functions.take_along_axis(size, order, axis=-1)
    if not compute_uv:
        return s
    v = index_functions.take_along_axis(v, order[..., None, :], axis=-1)
    sign = index_functions.take_along_axis(arithmetic.sign(w), order, axis=-1).astype(
        typeof(v).dtype
    )
    return v, s, _h(v * sign[..., None, :])


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
    (a,) = _inexact("svd", a)
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
    (a,) = _inexact("eigh", a)
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
    (a,) = _inexact("eig", a)
    w, v = lax_linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@jit
def eigvals(a: Any) -> Any:
    """The eigenvalues, complex, of any square matrix.

    Shape (..., n, n) gives (..., n). ValueError unless the matrices are square.

    >>> jnp.linalg.eigvals(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    (a,) = _inexact("eigvals", a)
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
    (a,) = _inexact("qr", a)
    if mode == "raw":
        reflectors, taus = lax_linalg.geqrf(a)
        return QRResult(_t(reflectors), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax_linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


# --- systems ---
def _solve(a: Any, b: Any) -> Any:
    """The x with a x = b, for stacks `b` of matrices; its derivatives are systems with the same
    factors.
    """
    batch = manipulation.broadcast_shapes(typeof(a).shape[:-2], typeof(b).shape[:-2])
    a = manipulation.broadcast_to(a, (*batch, *typeof(a).shape[-2:]))
    b = manipulation.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    a, b = vary_alike(a, b)
    # The factors count as constants: how x depends on `a` follows from the equation.
    lu, _, permutation = lax_linalg.lu(lax.stop_gradient(a))
    return lax.custom_linear_solve(
        lambda x: _mm(a, x),
        b,
        solve=lambda _, y: lax_linalg.lu_solve(lu, permutation, y),
        transpose_solve=lambda _, y: lax_linalg.lu_solve(lu, permutation, y, trans=1),
    )


@jit
def solve(a: Any, b: Any) -> Any:
    """The x with a x = b, for `b` a vector or a stack of matrices.

    Shapes (..., n, n) and (..., n, k), or (n,), give (..., n, k), or (..., n). ValueError unless
    the matrices are square and sizes fit; inf or NaN for a singular matrix.

    >>> pb.numpy.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([1., 1.]))
    Array([0.5 , 0.25], dtype=float32)

    Raises ValueError for shapes that do not fit. A singular matrix gives inf or NaN.
    """
    a, b = _inexact("solve", a, b)
    n = _square("solve", a)
    shape = typeof(b).shape
    if not shape:
        raise ValueError(
            f"input with shape () does not have enough dimensions: solve needs b of shape ({n},) "
            f"or (..., {n}, k)"
        )
    if len(shape) == 1:
        if shape[0] != n:
            raise ValueError(
                f"inconsistent size: solve got a of shape {typeof(a).shape} and b of shape {shape}"
            )
        return _solve(a, b[:, None])[..., 0]
    if shape[-2] != n:
        raise ValueError(
            f"Invalid shapes for solve: {typeof(a).shape}, {shape}. A stack of vectors must be "
            "given as solve(a, b[..., None]).squeeze(-1)."
        )
    return _solve(a, b)


@jit
def inv(a: Any) -> Any:
    """The inverse; inf or NaN for a singular matrix.

    Shape (..., n, n) stays; integers become floats. ValueError unless the matrices are square.

    >>> pb.numpy.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (a,) = _inexact("inv", a)
    shape = typeof(a).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Argument to inv must have shape [..., n, n], got {shape}. (a: "
            f"{typeof(a).str_short()})"
        )
    return _solve(a, manipulation.broadcast_to(ranges.eye(shape[-1], dtype=typeof(a).dtype), shape))


# --- determinants ---
@promotes_freely
def _parity(pivots: Any) -> Any:
    """How many rows LAPACK's pivots exchange."""
    n = typeof(pivots).shape[-1]
    return reductions.count_nonzero(pivots != ranges.arange(n, dtype=typeof(pivots).dtype), axis=-1)


def _det_small(a: Any) -> Any:
    n = typeof(a).shape[-1]
    if n == 0:
        return creation.ones(typeof(a).shape[:-2], typeof(a).dtype)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    return (
        a[..., 0, 0] * a[..., 1, 1] * a[..., 2, 2]
        + a[..., 0, 1] * a[..., 1, 2] * a[..., 2, 0]
        + a[..., 0, 2] * a[..., 1, 0] * a[..., 2, 1]
        - a[..., 0, 2] * a[..., 1, 1] * a[..., 2, 0]
        - a[..., 0, 0] * a[..., 1, 2] * a[..., 2, 1]
        - a[..., 0, 1] * a[..., 1, 0] * a[..., 2, 2]
    )


@custom_jvp
def _det(a: Any) -> Any:
    lu, pivots, _ = lax_linalg.lu(a)
    diagonal = _diagonal(lu)
    sign = index_functions.where(_parity(pivots) % 2 == 1, -1, 1).astype(typeof(a).dtype)
    product = reductions.prod(diagonal, axis=-1)
    # A product of many factors may leave the range of the dtype on the way to a result inside it:
    # then the size is found through logarithms, whose sum is less exact.
    size = arithmetic.abs(diagonal)
    inside = (arithmetic.abs(product) > 0) & comparison.isfinite(product)
    units = diagonal / index_functions.where(size == 0, 1, size).astype(typeof(a).dtype)
    by_logs = elementary.exp(reductions.sum(elementary.log(size), axis=-1)).astype(typeof(a).dtype)
    by_logs = by_logs * reductions.prod(units, axis=-1)
    singular = reductions.any(diagonal == 0, axis=-1)
    other = index_functions.where(singular, 0, by_logs)
    return sign * index_functions.where(inside, product, other)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    # The derivative is the cofactor matrix, which is finite where the inverse is not: there it is
    # made of the singular vectors, U diag(products of the other singular values) V^H, up to the
    # determinants of U and V.
    (a,), (da,) = primals, tangents
    out = _det(a)
    n = typeof(a).shape[-1]
    regular = (out != 0)[..., None, None]
    safe = index_functions.where(regular, a, ranges.eye(n, dtype=typeof(a).dtype))
    cofactors = _t(inv(safe)) * out[..., None, None]
    singular = _cofactors_by_svd(lax.stop_gradient(a))
    cofactors = index_functions.where(regular, cofactors, singular)
    return out, reductions.sum(cofactors * da, axis=(-2, -1))


def _cofactors_by_svd(a: Any) -> Any:
    u, s, vh = lax_linalg.svd(a, full_matrices=False)
    n = typeof(a).shape[-1]
    others = index_functions.where(ranges.eye(n, dtype=bool), 1, s[..., None, :])
    products = reductions.prod(others, axis=-1).astype(typeof(a).dtype)
    sign = _det(u) * _det(vh)
    return sign[..., None, None] * _mm(
        complex_parts.conj(u) * products[..., None, :], complex_parts.conj(vh)
    )


@jit
def det(a: Any) -> Any:
    """The determinant.

    Shape (..., n, n) gives (...); integers become floats. ValueError unless the matrices are
    square.

    `a`: (..., n, n).

    >>> pb.numpy.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (a,) = _inexact("det", a)
    n = _square("_det()", a)
    return _det_small(a) if n <= 3 else _det(a)


@functools.partial(jit, static_argnames=("method",))
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """(sign, log of the absolute value) of the determinant, which itself may overflow; `method` is
    "lu" or "qr".

    Raises ValueError unless the matrices are square, or for another method.

    >>> jnp.linalg.slogdet(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(1.7917595, dtype=float32))
    """
    (a,) = _inexact("slogdet", a)
    _square("slogdet()", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    return SlogdetResult(*(_slogdet_qr(a) if method == "qr" else _slogdet(a)))


@custom_jvp
def _slogdet(a: Any) -> Any:
    lu, pivots, _ = lax_linalg.lu(a)
    diagonal = _diagonal(lu)
    odd = _parity(pivots)
    if not dtypes.is_complex(typeof(a).dtype):
        odd = odd + reductions.count_nonzero(diagonal < 0, axis=-1)
        sign = creation.ones((), typeof(a).dtype)
    else:
        sign = reductions.prod(diagonal / arithmetic.abs(diagonal), axis=-1)
    sign = sign * (1 - 2 * (odd % 2)).astype(typeof(a).dtype)
    zero = reductions.any(diagonal == 0, axis=-1)
    logdet = reductions.sum(elementary.log(arithmetic.abs(diagonal)), axis=-1)
    return index_functions.where(
        zero, creation.zeros((), typeof(a).dtype), sign
    ), index_functions.where(zero, -np.inf, logdet)


def _slogdet_tangent(a: Any, da: Any, sign: Any, logdet: Any) -> Any:
    change = products.trace(_solve(a, da), axis1=-1, axis2=-2)
    if dtypes.is_complex(typeof(a).dtype):
        return (sign, logdet), ((1j * change.imag).astype(typeof(sign).dtype) * sign, change.real)
    return (sign, logdet), (creation.zeros_like(sign), change)


@custom_jvp
def _slogdet_qr(a: Any) -> Any:
    # Householder reflections have determinant -1 (those that reflect at all); R carries the rest.
    reflectors, taus = lax_linalg.geqrf(a)
    diagonal = _diagonal(reflectors)
    taus = taus[..., : typeof(a).shape[-1]]
    norms = (
        reductions.sum(arithmetic.abs(ranges.tril(reflectors, -1)) ** 2, axis=-2)[
            ..., : typeof(taus).shape[-1]
        ]
        + 1
    )
    each = index_functions.where(taus == 0, 1, 1 - taus * norms.astype(typeof(taus).dtype))
    phase = (
        diagonal / arithmetic.abs(diagonal)
        if dtypes.is_complex(typeof(a).dtype)
        else arithmetic.sign(diagonal)
    )
    sign = reductions.prod(phase, axis=-1) * reductions.prod(each / arithmetic.abs(each), axis=-1)
    return sign.astype(typeof(a).dtype), reductions.sum(
        elementary.log(arithmetic.abs(diagonal)), axis=-1
    )


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    return _slogdet_tangent(primals[0], tangents[0], *_slogdet(primals[0]))


@_slogdet_qr.defjvp
def _slogdet_qr_jvp(primals: Any, tangents: Any) -> Any:
    return _slogdet_tangent(primals[0], tangents[0], *_slogdet_qr(primals[0]))


# --- least squares, rank, inverse of any matrix ---
@functools.partial(jit, static_argnames=("hermitian",))
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values exceed `rtol`; by default max(m, n) * eps times the largest one.

    As in JAX, and unlike in NumPy, `rtol` is not multiplied by the largest singular value; `tol`
    means the same.

    >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_rank", M)
    M = creation.asarray(M)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    shape = typeof(M).shape
    if len(shape) < 2:
        return (M != 0).any().astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    given = tol if rtol is None else rtol
    if given is None:
        if 0 in shape[-2:]:
            return creation.zeros(shape[:-2], dtypes.default_int())
        largest = s.max(axis=-1) * max(shape[-2:])
        limit = (largest * scalar_types.finfo(typeof(s).dtype).eps)[..., None]
    else:
        limit = creation.asarray(given)[..., None]
    return reductions.sum(s > limit, axis=-1)


@custom_jvp
@promotes_freely
def _pinv_fixed(a: Any, rtol: Any) -> Any:
    u, s, vh = svd(a, full_matrices=False)
    limit = creation.asarray(rtol)[..., None] * s[..., 0:1]
    s = index_functions.where(s > limit, s, np.inf).astype(typeof(u).dtype)
    return _mm(_h(vh), _h(u) / s[..., None])


@_pinv_fixed.defjvp
@promotes_freely
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    # Golub and Pereyra (1973), equation 4.12.
    a, rtol = primals
    da = tangents[0]
    p = _pinv_fixed(a, rtol)
    left = _mm(_mm(p, _h(p)), _h(da))
    dp = left - _mm(_mm(left, a), p) - _mm(p, _mm(da, p))
    right = _mm(_h(da), _mm(_h(p), p))
    dp = dp + right - _mm(p, _mm(a, right))
    return p, dp


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest (by default 10
    max(m, n) eps) count as 0.

    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    (a,) = _inexact("pinv", a)
    shape = typeof(a).shape
    if len(shape) < 2:
        raise ValueError(
            f"pinv needs matrices, got an array of shape {shape} (a: {typeof(a).str_short()})"
        )
    if a.size == 0:
        return creation.zeros((*shape[:-2], shape[-1], shape[-2]), typeof(a).dtype)
    if rtol is None:
        rtol = 10.0 * max(shape[-2:]) * float(scalar_types.finfo(typeof(a).dtype).eps)
    real = np.zeros((), typeof(a).dtype).real.dtype
    if hermitian:
        u, s, vh = svd(a, full_matrices=False, hermitian=True)
        limit = creation.asarray(rtol, real)[..., None] * s[..., 0:1]
        s = index_functions.where(s > limit, s, np.inf).astype(typeof(u).dtype)
        return _mm(_h(vh), _h(u) / s[..., None])
    return _pinv_fixed(a, creation.asarray(rtol, real))


def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """(x, squared residuals, rank, singular values) with x the least solution that minimises |a x -
    b|.

    With `numpy_resid`, the residuals are empty where NumPy leaves them out. Raises ValueError for
    shapes that do not fit.

    >>> a = jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> x, residuals, rank, s = jnp.linalg.lstsq(a, jnp.array([1.0, 3.0, 5.0]))
    >>> x.round(3), rank
    (Array([1., 2.], dtype=float32), Array(2, dtype=int32))
    """
    check_arraylike("jnp.linalg.lstsq", a, b)
    x, residuals, rank, s = (
        _least_squares(a, b, rcond, numpy_resid) if numpy_resid else _lstsq(a, b, rcond)
    )
    return x, residuals, rank, s


def _least_squares(a: Any, b: Any, rcond: Any, numpy_resid: bool) -> Any:
    a, b = _inexact("lstsq", a, b)
    if typeof(a).ndim != 2:
        raise TypeError(
            f"{typeof(a).ndim}-dimensional array given. Array must be two-dimensional: lstsq got a "
            f"of {typeof(a).str_short()}"
        )
    if typeof(b).ndim not in (1, 2):
        raise TypeError(
            f"{typeof(b).ndim}-dimensional array given. Array must be one or two-dimensional: "
            f"lstsq got b of {typeof(b).str_short()}"
        )
    m, n = typeof(a).shape
    if typeof(b).shape[0] != m:
        raise ValueError(
            "Leading dimensions of input arrays must match: lstsq got a of "
            f"{typeof(a).str_short()} and b of {typeof(b).str_short()}"
        )
    vector = typeof(b).ndim == 1
    b = b[:, None] if vector else b
    dtype = typeof(a).dtype
    if typeof(a).size == 0:
        s, rank, x = (
            creation.empty(0, dtype),
            creation.array(0, np.int32),
            creation.zeros((n, typeof(b).shape[-1]), dtype),
        )
    else:
        rcond = (
            (max(m, n) * float(scalar_types.finfo(dtype).eps))
            if rcond is None
            else index_functions.where(
                creation.asarray(rcond) < 0, scalar_types.finfo(dtype).eps, rcond
            )
        )
        u, s, vt = svd(a, full_matrices=False)
        mask = (s > 0) & (s >= creation.asarray(rcond, typeof(s).dtype) * s[0])
        rank = mask.sum()
        safe = index_functions.where(mask, s, 1).astype(dtype)
        s_inv = index_functions.where(mask, 1 / safe, 0)[:, None]
        x = _mm(_h(vt), s_inv * _mm(_h(u), b))
    if numpy_resid and (int(rank) < n or m <= n):
        resid = creation.asarray([])
    else:
        fit = b - _mm(a, x)
        resid = norm(fit, axis=0) ** 2
    return (x.ravel() if vector else x), resid, rank, s


@jit
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    return _least_squares(a, b, rcond, False)


# --- powers and products ---
@functools.partial(jit, static_argnames=("n",))
def matrix_power(a: Any, n: int) -> Any:
    """`a` to an integer power; a negative one inverts first.

    Raises TypeError unless `n` is an integer and `a` is square.

    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [1, 0]]), 10)
    Array([[89, 55],
           [55, 34]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_power", a)
    a = creation.asarray(a)
    shape = typeof(a).shape
    if len(shape) < 2:
        raise TypeError(
            f"{len(shape)}-dimensional array given. Array must be at least two-dimensional: "
            f"matrix_power got a of {typeof(a).str_short()}"
        )
    if shape[-2] != shape[-1]:
        raise TypeError(
            "Last 2 dimensions of the array must be square: matrix_power got a of "
            f"{typeof(a).str_short()}"
        )
    try:
        n = operator.index(n)
    except TypeError as err:
        raise TypeError(f"matrix_power: exponent must be an integer, got {n!r}") from err
    if n == 0:
        return manipulation.broadcast_to(ranges.eye(shape[-2], dtype=typeof(a).dtype), shape)
    if n < 0:
        a, n = inv(a), -n
    out, square = None, a
    while n:
        n, bit = divmod(n, 2)
        if bit:
            out = square if out is None else products.matmul(out, square)
        if n:
            square = products.matmul(square, square)
    return out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of several matrices (the first and the last may be vectors), in the order that
    costs least.

    Raises ValueError for fewer than two arrays or shapes that do not fit.

    >>> a, b, c = jnp.ones((10, 100)), jnp.ones((100, 5)), jnp.ones((5, 2))
    >>> jnp.linalg.multi_dot([a, b, c]).shape
    (10, 2)
    """
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    arrs = [creation.asarray(a) for a in arrays]
    if len(arrs) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrs)}")
    for k, a in enumerate(arrs):
        allowed = (1, 2) if k in (0, len(arrs) - 1) else (2,)
        if typeof(a).ndim not in allowed:
            raise ValueError(
                "multi_dot: input arrays must all be two-dimensional, except for the first and "
                "last array which may be 1 or 2 dimensional. Got array shapes "
                f"{[typeof(x).shape for x in arrs]}"
            )
    if any(typeof(a).shape[-1] != typeof(b).shape[0] for a, b in itertools.pairwise(arrs)):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following "
            "array. "
            f"Got array shapes {[typeof(a).shape for a in arrs]}"
        )
    labels = [[k, k + 1] for k in range(len(arrs))]
    if typeof(arrs[0]).ndim == 1:
        labels[0] = labels[0][1:]
    if typeof(arrs[-1]).ndim == 1:
        labels[-1] = labels[-1][:1]
    result = ([0] if typeof(arrs[0]).ndim == 2 else []) + (
        [len(arrs)] if typeof(arrs[-1]).ndim == 2 else []
    )
    return einsum(
        *(v for pair in zip(arrs, labels, strict=True) for v in pair),
        result,
        optimize="auto",
        precision=precision,
    )


@functools.partial(jit, static_argnames=("p",))
def cond(x: Any, p: Any = None) -> Any:
    """The condition number: of the 2-norm by singular values (p None, 2, -2), else norm(x, p) *
    norm(inv(x), p).

    Raises ValueError below two axes.

    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 0.5]]))
    Array(8., dtype=float32)
    """
    check_arraylike("jnp.linalg.cond", x)
    arr = creation.asarray(x)
    if typeof(arr).ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={typeof(arr).shape}"
        )
    if 0 in typeof(arr).shape[-2:]:
        raise ValueError(
            f"jnp.linalg.cond: input array must not be empty; got arr.shape={typeof(arr).shape}"
        )
    if p is None or p in (2, -2):
        s = svd(arr, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    (arr,) = _inexact("cond", arr)
    rows, columns = typeof(arr).shape[-2:]
    if rows != columns:
        raise ValueError(
            f"jnp.linalg.cond: for {p=}, array must be square; got arr.shape={typeof(arr).shape}"
        )
    r = norm(arr, ord=p, axis=(-2, -1)) * norm(inv(arr), ord=p, axis=(-2, -1))
    # Singular, not NaN: infinite.
    unknown = comparison.isnan(r) & ~reductions.any(comparison.isnan(arr), axis=(-2, -1))
    return index_functions.where(unknown, np.inf, r)


# --- tensors ---
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of the map that tensordot(a, x, axes=x.ndim) is, the first `ind` axes of `a`
    being its result.

    Raises ValueError unless the first `ind` sizes and the others have one product.

    >>> a = jnp.eye(6).reshape(2, 3, 6)
    >>> jnp.linalg.tensorinv(a).shape
    (6, 2, 3)
    """
    check_arraylike("jnp.linalg.tensorinv", a)
    arr = creation.asarray(a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    shape = typeof(arr).shape
    rows, columns = shape[:ind], shape[ind:]
    n, m = (int(np.prod(s, dtype=np.int64)) for s in (rows, columns))
    if n != m:
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals "
            f"that of the remaining dimensions. got arr.shape={shape} with ind={ind}."
        )
    return manipulation.reshape(inv(manipulation.reshape(arr, (n, m))), (*columns, *rows))


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of `a` are moved to its end first, in the
    order that they have in `a`.

    >>> a = 2.0 * jnp.eye(6).reshape(2, 3, 6)
    >>> jnp.linalg.tensorsolve(a, jnp.ones((2, 3)))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    check_arraylike("jnp.linalg.tensorsolve", a, b)
    a, b = creation.asarray(a), creation.asarray(b)
    if axes is not None:  # in the order that they have in `a`, however they are listed
        ndim = typeof(a).ndim
        axes = tuple(sorted(canonical_axes(axes, ndim)))
        a = manipulation.moveaxis(a, axes, tuple(range(ndim - len(axes), ndim)))
    out = typeof(a).shape[typeof(b).ndim :]
    if typeof(a).shape[: typeof(b).ndim] != typeof(b).shape:
        raise ValueError(
            "After moving axes to end, leading shape of a must match shape of b. got "
            f"a.shape={typeof(a).shape}, b.shape={typeof(b).shape}"
        )
    n = int(np.prod(typeof(b).shape, dtype=np.int64))
    if n != int(np.prod(out, dtype=np.int64)):
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={typeof(a).shape}, b.ndim={typeof(b).ndim}."
        )
    return manipulation.reshape(solve(manipulation.reshape(a, (n, n)), manipulation.ravel(b)), out)


# --- norms ---
@functools.partial(jit, static_argnames=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors (one axis) or matrices (two axes); by default of all elements, the root
    of the sum of squares.

    Vectors: any number, inf, -inf, 0 (how many are not 0). Matrices: "fro", "nuc", 1, -1, 2, -2,
    inf, -inf.

    `x`: an array; `ord`: which norm; `keepdims` keeps the axes with size 1.

    >>> pb.numpy.linalg.norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)

    Raises ValueError for another order or number of axes.
    """
    (x,) = _inexact("norm", x)
    ndim = typeof(x).ndim
    if axis is None:
        if ord is None:
            return elementary.sqrt(
                reductions.sum(complex_parts.real(x * complex_parts.conj(x)), keepdims=keepdims)
            )
        axis = tuple(range(ndim))
    axes = canonical_axes(axis, ndim)
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axis': {axes}")
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, "
        "or two axes to compute a matrix-norm."
    )


def _vector_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if ord is None or (not isinstance(ord, str) and ord == 2):
        return elementary.sqrt(
            reductions.sum(
                complex_parts.real(x * complex_parts.conj(x)), axis=axis, keepdims=keepdims
            )
        )
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord == np.inf:
        return reductions.max(arithmetic.abs(x), axis=axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return reductions.min(arithmetic.abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        real = np.zeros((), typeof(x).dtype).real.dtype
        return reductions.sum(x != 0, dtype=real, axis=axis, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(arithmetic.abs(x), axis=axis, keepdims=keepdims)
    size = arithmetic.abs(x)
    dtype = typeof(size).dtype
    total = reductions.sum(size ** creation.asarray(ord, dtype), axis=axis, keepdims=keepdims)
    return arithmetic.power(total, creation.asarray(1.0 / ord, dtype))


def _matrix_norm(x: Any, ord: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axis
    if ord is None or ord in ("f", "fro"):
        return elementary.sqrt(
            reductions.sum(
                complex_parts.real(x * complex_parts.conj(x)), axis=axis, keepdims=keepdims
            )
        )
    if ord in (1, -1, np.inf, -np.inf) and not isinstance(ord, str):
        inner, outer = (row, column) if ord in (1, -1) else (column, row)
        if not keepdims and outer > inner:
            outer -= 1
        sums = reductions.sum(arithmetic.abs(x), axis=inner, keepdims=keepdims)
        return (
            reductions.max(sums, axis=outer, keepdims=keepdims, initial=0)
            if ord in (1, np.inf)
            else reductions.min(sums, axis=outer, keepdims=keepdims)
        )
    if ord in ("nuc", 2, -2):
        s = svd(manipulation.moveaxis(x, axis, (-2, -1)), compute_uv=False)
        if ord == "nuc":
            y = reductions.sum(s, axis=-1)
        else:
            y = reductions.max(s, axis=-1, initial=0) if ord == 2 else reductions.min(s, axis=-1)
        return manipulation.expand_dims(y, axis) if keepdims else y
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of the elements along `axis` (one, several, or None for all), taken as one
    vector.

    >>> jnp.linalg.vector_norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    check_arraylike("jnp.linalg.vector_norm", x)
    x, axis = creation.asarray(x), static_axes(axis)
    ndim = typeof(x).ndim
    if not dtypes.is_inexact(typeof(x).dtype):
        if not isinstance(ord, str) and ord in (1, np.inf, -np.inf):  # exact: whole numbers
            size, keep = arithmetic.abs(x), {"axis": axis, "keepdims": keepdims}
            if ord == 1:
                return reductions.sum(size, **keep)
            return (reductions.max if ord > 0 else reductions.min)(size, **keep)
        x = x.astype(dtypes.default_float())
    axes = canonical_axes(axis, ndim)
    if len(axes) != len(set(axes)):
        raise ValueError(f"duplicate value in 'axis': {axes}")
    return _vector_norm(x, ord, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two axes.

    `ord`: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf. Raises ValueError for fewer than two axes.

    >>> jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
    Array(5., dtype=float32)
    """
    check_arraylike("jnp.linalg.matrix_norm", x)
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


# --- the array API's names for functions of the main namespace ---
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of size 3 along `axis`.

    ValueError for another size; the other axes broadcast.

    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    x1, x2 = creation.asarray(x1), creation.asarray(x2)
    if typeof(x1).shape[axis] != 3 or typeof(x2).shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they have x1.shape[axis]={typeof(x1).shape[axis]} and "
            f"x2.shape[axis]={typeof(x2).shape[axis]}"
        )
    return products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of an element of each of two vectors.

    Raises ValueError unless both have one axis.

    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    x1, x2 = creation.asarray(x1), creation.asarray(x2)
    if typeof(x1).ndim != 1 or typeof(x2).ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={typeof(x1).ndim} "
            f"x2.ndim={typeof(x2).ndim}"
        )
    return x1[:, None] * x2[None, :]


def matrix_transpose(x: Any, /) -> Any:
    """The matrices in the last two axes, transposed.

    Shape (..., m, n) gives (..., n, m). ValueError for fewer than two axes.

    >>> jnp.linalg.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_transpose", x)
    if np.ndim(x) < 2:
        raise ValueError(f"matrix_transpose requires at least 2 dimensions; got ndim={np.ndim(x)}")
    return _t(creation.asarray(x))


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of conj(x1) * x2 along `axis`.

    The other axes broadcast. ValueError if the sizes along `axis` differ.

    >>> jnp.linalg.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    check_arraylike("jnp.linalg.vecdot", x1, x2)
    return products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The matrix product.

    As `jnp.matmul`.

    >>> jnp.linalg.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [1]]))
    Array([[3],
           [7]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matmul", x1, x2)
    return products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over pairs of axes: the last of `x1` with the first of `x2`, or those
    given.

    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 5)), axes=1).shape
    (2, 5)
    """
    check_arraylike("jnp.linalg.tensordot", x1, x2)
    return products.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes.

    Shape (..., m, n) gives (..., min(m, n)) for the main diagonal. ValueError for fewer than two
    axes.

    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]), offset=1)
    Array([2], dtype=int32)
    """
    check_arraylike("jnp.linalg.diagonal", x)
    return products.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes.

    Shape (..., m, n) gives (...). ValueError for fewer than two axes.

    >>> jnp.linalg.trace(jnp.ones((5, 2, 2)))
    Array([2., 2., 2., 2., 2.], dtype=float32)
    """
    check_arraylike("jnp.linalg.trace", x)
    return products.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
