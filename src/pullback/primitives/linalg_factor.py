"""Factorisations of stacks of matrices: QR, eigenvectors, singular vectors, Schur, Hessenberg and
tridiagonal forms.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import config, dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from .common import as_array, complex_dtype, const, real_dtype, zero_of
from .convert import convert_element_type
from .elementwise import (
    abs as lax_abs,
    add,
    complex as lax_complex,
    conj,
    div,
    eq,
    imag,
    integer_pow,
    le,
    mul,
    neg,
    real,
    select_n,
    sub,
)
from .layout import broadcast_in_dim, broadcast_to, broadcasted_iota, expand_dims, reduce_sum
from .linalg_systems import (
    adjoint,
    block,
    check_batches,
    check_dtypes,
    check_ranks,
    diagonal,
    identity,
    identity_like,
    lu,
    lu_solve,
    matmul,
    matrix_aval,
    smaller,
    stack_batch,
    symmetrized,
    take_columns,
    triangle,
    triangular_solve,
    weak_as_operands,
)
from .reductions import argmax, reduce_max
from .shape import concatenate, pad


class EigImplementation(enum.Enum):
    """Who computes `eig`; CPUs have LAPACK.

    An `implementation=` of `lax.linalg.eig`.

    >>> lax.linalg.EigImplementation.LAPACK.name
    'LAPACK'
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How `eigh` is computed; on CPUs always by divide and conquer on the tridiagonal form (QR).

    An `implementation=` of `lax.linalg.eigh`.

    >>> lax.linalg.EighImplementation.QR.name
    'QR'
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """How `svd` is computed. CPUs have DIVIDE_AND_CONQUER (the default) and QR.

    An `algorithm=` of `lax.linalg.svd`.

    >>> lax.linalg.svd(2 * jnp.eye(2), compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR)
    Array([2., 2.], dtype=float32)
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _rows(s: Any) -> Any:
    """A stack of vectors as rows that broadcast over matrices."""
    return expand_dims(s, (typeof(s).ndim - 1,))


def _columns(s: Any) -> Any:
    return expand_dims(s, (typeof(s).ndim,))


def _is_complex(x: Any) -> bool:
    return dtypes.is_complex(typeof(x).dtype)


def _same_kind(x: Any, like: Any) -> Any:
    """A real array in the dtype of `like`."""
    return (
        x if typeof(x).dtype == typeof(like).dtype else convert_element_type(x, typeof(like).dtype)
    )


# --- Householder reflectors ---
@weak_as_operands
def _geqrf_aval(x: Any) -> list[ShapedArray]:
    matrix_aval("geqrf", x)
    *batch, m, n = x.shape
    return [ShapedArray(x.shape, x.dtype), ShapedArray((*batch, smaller(m, n)), x.dtype)]


geqrf_p: Primitive = Primitive(
    "geqrf",
    abstract_eval=_geqrf_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: geqrf_p),
    multiple_results=True,
)


def geqrf(a: Any) -> tuple[Any, Any]:
    """(R above the Householder vectors, their factors): the QR factorisation in LAPACK's form."""
    packed, taus = geqrf_p.bind(as_array(a))
    return packed, taus


@weak_as_operands
def _householder_aval(a: Any, taus: Any) -> ShapedArray:
    name = "householder_product"
    check_ranks(name, (a, taus), (2, 1))
    check_batches(name, (a, taus), (2, 1))
    *_, m, n = a.shape
    if type(m) is int and type(n) is int and m < n:
        raise ValueError(
            f"The first argument to {name} must have at least as many rows as columns, got shape "
            f"{a.shape}"
        )
    if type(n) is int and type(taus.shape[-1]) is int and taus.shape[-1] > min(m, n):
        raise ValueError(
            f"The second argument to {name} must not have more rows than the minimum of the first "
            "argument's rows and columns."
        )
    check_dtypes(name, (a, taus))
    return ShapedArray(a.shape, a.dtype)


householder_product_p: Primitive = Primitive(
    "householder_product",
    abstract_eval=_householder_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: householder_product_p),
)


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflectors that `geqrf` and `hessenberg` leave below
    the diagonal.

    Raises ValueError if there are more columns than rows or more factors than columns.

    `a`: (..., m, n), `taus`: (..., k), of one dtype; the result is (..., m, n). As LAPACK's orgqr
    and ungqr.

    >>> jnp.abs(lax.linalg.householder_product(jnp.eye(3)[:, :2], jnp.zeros(2)))
    Array([[1., 0.],
           [0., 1.],
           [0., 0.]], dtype=float32)
    """
    return householder_product_p.bind(as_array(a), as_array(taus))


@weak_as_operands
def _ormqr_aval(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> ShapedArray:
    check_ranks("ormqr", (a, taus, c), (2, 1, 2))
    check_batches("ormqr", (a, taus, c), (2, 1, 2))
    *_, m, n = a.shape
    if c.shape[-2 if left else -1] != m:
        side = "rows" if left else "columns"
        raise ValueError(
            f"ormqr with left={left} expects c to have the same number of {side} as the "
            "Householder matrix a"
            f"{'' if left else ' has rows'}. Got a shape {a.shape} and c shape {c.shape}."
        )
    if type(m) is int and type(taus.shape[-1]) is int and taus.shape[-1] > min(m, n):
        raise ValueError(
            f"ormqr takes at most {min(m, n)} factors for reflectors of shape {a.shape}, got "
            f"{taus.shape[-1]}"
        )
    check_dtypes("ormqr", (a, taus, c))
    return ShapedArray(c.shape, c.dtype)


ormqr_p: Primitive = Primitive(
    "ormqr", abstract_eval=_ormqr_aval, transpose=No.NOT_LINEAR, batch=stack_batch(lambda: ormqr_p)
)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Q C (`left`) or C Q, with `transpose` of the adjoint of Q: the product of reflectors, which
    is never formed.

    Raises ValueError for shapes that do not fit.

    `a`: (..., m, k), `taus`: (..., k), `c`: (..., m, n) or, unless `left`, (..., n, m). As LAPACK's
    ormqr and unmqr.

    >>> lax.linalg.ormqr(jnp.eye(2), jnp.array([2., 0.]), jnp.ones((2, 1)))
    Array([[-1.],
           [ 1.]], dtype=float32)
    """
    return ormqr_p.bind(as_array(a), as_array(taus), as_array(c), left=left, transpose=transpose)


# --- qr ---
@weak_as_operands
def _qr_aval(a: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> list[ShapedArray]:
    matrix_aval("qr", a)
    *batch, m, n = a.shape
    k = m if full_matrices else smaller(m, n)
    outs = [ShapedArray((*batch, m, k), a.dtype), ShapedArray((*batch, k, n), a.dtype)]
    return [*outs, ShapedArray((*batch, n), np.dtype("int32"))] if pivoting else outs


def _qr_tall_jvp(q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    """(dQ, dR) of a factorisation with as many columns as R has rows.

    dA R^-1 = dQ + Q (dR R^-1), so W = Q^H dA R^-1 = (Q^H dQ) + (dR R^-1): antihermitian, and upper
    triangular with a real diagonal. The antihermitian part is therefore fixed by what is below the
    diagonal and the imaginary part of the diagonal.
    """
    scaled = triangular_solve(r, da, left_side=False, lower=False)
    w = matmul(adjoint(q), scaled)
    below = triangle(w, -1)
    turn = sub(below, adjoint(below))
    if _is_complex(w):
        own = lax_complex(broadcast_in_dim(const(real(w), 0), typeof(w).shape, ()), imag(w))
        turn = add(turn, mul(identity_like(w), own))
    return add(matmul(q, sub(turn, w)), scaled), matmul(sub(w, turn), r)


def _qr_rest_jvp(q: Any, dq: Any, n: Any) -> Any:
    """The tangent of the columns n.. of Q, given that of the first n.

    A product of n reflectors is Q = I - V T V^H, with V = [V1; V2] and V1 square. With E the first
    n columns of I, Q's first columns Q1 give V T V1^H = E - Q1; the blocks of that equation give V2
    V1^-1 = -Q21 (I - Q11)^-1, so the others are Q2 = [0; I] + (Q1 - E) Y with (Q11 - I)^H Y =
    Q21^H.
    """
    m = typeof(q).shape[-2]
    first, top, low = block(q, (0, m), (0, n)), block(q, (0, n), (0, n)), block(q, (n, m), (0, n))
    d_top, d_low = block(dq, (0, n), (0, n)), block(dq, (n, m), (0, n))
    one = identity_like(top)
    shape = typeof(first).shape
    edge = pad(one, const(one, 0), (*((0, 0, 0),) * (len(shape) - 2), (0, m - n, 0), (0, 0, 0)))
    packed, _, order = lu(sub(top, one))
    y = lu_solve(packed, order, adjoint(low), trans=2)
    dy = lu_solve(packed, order, sub(adjoint(d_low), matmul(adjoint(d_top), y)), trans=2)
    return add(matmul(dq, y), matmul(sub(first, edge), dy))


def _qr_jvp(
    primals: Any, tangents: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> Any:
    (a,), (da,) = primals, tangents
    q, r, *order = qr_p.bind(a, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    if pivoting:
        a, da = take_columns(a, order[0]), take_columns(da, order[0])
    *batch, m, n = typeof(a).shape
    axis = len(batch) + 1
    k = smaller(m, n)
    q1, r1 = block(q, (0, m), (0, k)), block(r, (0, k), (0, k))
    dq, dr = _qr_tall_jvp(q1, r1, block(da, (0, m), (0, k)))
    if not (k is n or k == n):
        # A = Q [R1 R2]: the columns on the right are R2 = Q^H A2.
        right, d_right = block(a, (0, m), (k, n)), block(da, (0, m), (k, n))
        dr = concatenate((dr, add(matmul(adjoint(dq), right), matmul(adjoint(q1), d_right))), axis)
    elif full_matrices and not (m is n or m == n):
        dq = concatenate((dq, _qr_rest_jvp(q, dq, n)), axis)
        dr = pad(dr, const(dr, 0), (*((0, 0, 0),) * len(batch), (0, m - n, 0), (0, 0, 0)))
    return [q, r, *order], [dq, dr, *(zero_of(p) for p in order)]


qr_p: Primitive = Primitive(
    "qr",
    abstract_eval=_qr_aval,
    jvp=_qr_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: qr_p),
    multiple_results=True,
)


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Any, ...]:
    """(Q, R) with x = Q R; with `pivoting` (Q, R, p) with x[:, p] = Q R and a diagonal of R that
    does not grow.

    Q has m columns with `full_matrices`, else min(m, n). `use_magma` is for GPUs.

    `x`: (..., m, n), float or complex. As `numpy.linalg.qr` and `scipy.linalg.qr`.

    >>> q, r = lax.linalg.qr(jnp.array([[3., 1.], [4., 2.]]))
    >>> jnp.abs(r).round(3), jnp.allclose(q @ r, jnp.array([[3., 1.], [4., 2.]]), atol=1e-5)
    (Array([[5. , 2.2],
           [0. , 0.4]], dtype=float32), Array(True, dtype=bool))
    """
    return tuple(
        qr_p.bind(as_array(x), pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    )


# --- eigh ---
def _subset(name: str, subset: Any, n: Any) -> Any:
    """How many values a subset (start, end) of n has."""
    if subset is None:
        return n
    start, end = subset
    if start < 0 or end > n or start >= end:
        raise ValueError(
            f"{name}: subset_by_index must be (start, end) with 0 <= start < end <= {n}, got "
            f"{subset}"
        )
    return end - start


@weak_as_operands
def _eigh_aval(
    x: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any
) -> list[ShapedArray]:
    matrix_aval("eigh", x, square=True)
    *batch, n, _ = x.shape
    k = _subset("eigh", subset_by_index, n)
    return [ShapedArray((*batch, n, k), x.dtype), ShapedArray((*batch, k), real_dtype(x.dtype))]


def _where_apart(gaps: Any, values: Any) -> Any:
    """1 / gaps, zero where a gap is as good as none, measured by the largest of the values."""
    size = reduce_max(lax_abs(values), (typeof(values).ndim - 1,))
    eps = float(dtypes.finfo(typeof(size).dtype).eps) * 4 * typeof(values).shape[-1]
    limit = broadcast_in_dim(
        mul(size, const(size, eps)), typeof(gaps).shape, tuple(range(typeof(size).ndim))
    )
    near = le(lax_abs(gaps), limit)
    one, zero = (broadcast_in_dim(const(gaps, v), typeof(gaps).shape, ()) for v in (1, 0))
    return select_n(near, integer_pow(select_n(near, gaps, one), -1), zero)


def _inverse_gaps(w: Any, dtype: Any) -> Any:
    """1 / (w_j - w_i), zero on the diagonal."""
    if config.finite_degenerate_derivatives.get() and typeof(w).shape[-1]:
        square = (*typeof(w).shape, typeof(w).shape[-1])
        gaps = sub(broadcast_to(_rows(w), square), broadcast_to(_columns(w), square))
        out = _where_apart(gaps, w)
        return out if typeof(out).dtype == dtype else convert_element_type(out, dtype)
    shape = (*typeof(w).shape, typeof(w).shape[-1])
    one = broadcast_to(identity(shape[-1], typeof(w).dtype), shape)
    gaps = sub(add(one, broadcast_to(_rows(w), shape)), broadcast_to(_columns(w), shape))
    out = sub(integer_pow(gaps, -1), one)
    return out if typeof(out).dtype == dtype else convert_element_type(out, dtype)


def _eigh_jvp(primals: Any, tangents: Any, *, subset_by_index: Any, **params: Any) -> Any:
    # A V = V W; V^H dA V has dW on its diagonal, and (w_j - w_i) (V^H dV)_ij off it.
    (a,), (da,) = primals, tangents
    if subset_by_index is not None and tuple(subset_by_index) != (0, typeof(a).shape[-1]):
        raise NotImplementedError(
            "Derivatives not defined for partial eigen decomposition. Fix: eigh without "
            f"subset_by_index={subset_by_index}, and take the part of its results."
        )
    v, w = eigh_p.bind(a, subset_by_index=subset_by_index, **params)
    inner = matmul(matmul(adjoint(v), da), v)
    dv = matmul(v, mul(_inverse_gaps(w, typeof(inner).dtype), inner))
    dw = diagonal(real(inner) if _is_complex(inner) else inner)
    return [v, w], [dv, dw]


eigh_p: Primitive = Primitive(
    "eigh",
    abstract_eval=_eigh_aval,
    jvp=_eigh_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: eigh_p),
    multiple_results=True,
)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """(eigenvectors as columns, eigenvalues ascending) of Hermitian matrices.

    With `symmetrize_input` the mean of `x` and its adjoint is taken; otherwise one triangle is
    read, the `lower` or the upper one. `subset_by_index=(start, end)` keeps those eigenvalues.

    Eigenvectors to equal eigenvalues are not determined, and their derivatives are infinite or
    NaN, as in JAX. With the flag `pullback_finite_degenerate_derivatives` equal values (up to
    rounding) do not turn their vectors into one another: derivatives stay finite, and are right
    for functions of the eigenvalues and of the spaces that such vectors span (projections onto
    them, say), and for functions of singular vectors such as U V^H. Of V f(W) V^H the part between
    equal values is missing: `scipy.linalg.expm`, `sqrtm` and `funm` are such functions of matrices.

    >>> v, w = lax.linalg.eigh(jnp.array([[2., 1.], [1., 2.]]))
    >>> w.round(3)
    Array([1., 3.], dtype=float32)
    """
    x = as_array(x)
    if symmetrize_input:
        x = symmetrized("eigh", x)
    v, w = eigh_p.bind(
        x,
        lower=lower,
        sort_eigenvalues=sort_eigenvalues,
        subset_by_index=subset_by_index,
        algorithm=implementation,
    )
    return v, w


# --- eig ---
@weak_as_operands
def _eig_aval(
    x: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> list[ShapedArray]:
    matrix_aval("eig", x, square=True)
    d = complex_dtype(x.dtype)
    vectors = ShapedArray(x.shape, d)
    wanted = bool(compute_left_eigenvectors) + bool(compute_right_eigenvectors)
    return [ShapedArray(x.shape[:-1], d), *[vectors] * wanted]


def _eigenvector_tangent(v: Any, inner: Any, w: Any) -> Any:
    """The tangent of eigenvectors of norm 1 whose largest entry is real, of V^-1 dA V.

    V^-1 dV has inner_ij / (w_j - w_i) off its diagonal; the diagonal scales each vector so that
    norm and phase stay.
    """
    dv = matmul(v, mul(_inverse_gaps(w, typeof(v).dtype), inner))
    shape = typeof(v).shape
    axis = len(shape) - 2
    largest = argmax(lax_abs(v), axis, np.int32)
    here = eq(broadcasted_iota(np.int32, shape, axis), broadcast_to(_rows(largest), shape))
    chosen = convert_element_type(here, typeof(v).dtype)
    norm = neg(real(reduce_sum(mul(conj(v), dv), (axis,))))
    phase = neg(imag(reduce_sum(mul(chosen, dv), (axis,))))
    phase = div(phase, real(reduce_sum(mul(chosen, v), (axis,))))
    return add(dv, mul(v, broadcast_to(_rows(lax_complex(norm, phase)), shape)))


_NO_VECTOR_DERIVATIVES = (
    "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the input that "
    "JAX cannot check (see the "
    "enable_eigvec_derivs argument to jax.lax.linalg.eig). Pass enable_eigvec_derivs=True to "
    "jax.lax.linalg.eig to opt in. "
    "See https://github.com/jax-ml/jax/issues/2748 for discussion."
)


def _eig_jvp(
    primals: Any,
    tangents: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> Any:
    (a,), (da,) = primals, tangents
    if (compute_left_eigenvectors or compute_right_eigenvectors) and not enable_eigvec_derivs:
        raise NotImplementedError(_NO_VECTOR_DERIVATIVES)
    w, *vectors = eig_p.bind(
        a, compute_left_eigenvectors=compute_left_eigenvectors, compute_right_eigenvectors=True,
        enable_eigvec_derivs=enable_eigvec_derivs, implementation=implementation,
    )  # fmt: skip
    da = convert_element_type(da, typeof(w).dtype)
    v = vectors[-1]
    inner = _similar(v, da)
    outs, changes = [w], [diagonal(inner)]
    if compute_left_eigenvectors:
        # u^H A = w u^H: the left vectors are the right ones of A^H, whose values are conj(w).
        u = vectors[0]
        outs.append(u)
        changes.append(_eigenvector_tangent(u, _similar(u, adjoint(da)), conj(w)))
    if compute_right_eigenvectors:
        outs.append(v)
        changes.append(_eigenvector_tangent(v, inner, w))
    return outs, changes


def _similar(v: Any, x: Any) -> Any:
    """V^-1 X V."""
    packed, _, order = lu(v)
    return lu_solve(packed, order, matmul(x, v))


eig_p: Primitive = Primitive(
    "eig",
    abstract_eval=_eig_aval,
    jvp=_eig_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: eig_p),
    multiple_results=True,
)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """[eigenvalues, left eigenvectors, right eigenvectors] (those that are wanted), complex, of any
    square matrices.

    Eigenvectors are columns of norm 1 whose largest entry is real. Their derivatives hold for
    distinct eigenvalues only, so `enable_eigvec_derivs` must ask for them.

    `x`: (..., n, n). Raises ValueError unless the matrices are square. As `numpy.linalg.eig` and
    `scipy.linalg.eig`.

    >>> w, right = lax.linalg.eig(jnp.array([[0., 1.], [-1., 0.]]), compute_left_eigenvectors=False)
    >>> jnp.sort(jnp.abs(w.imag)), w.dtype
    (Array([1., 1.], dtype=float32), dtype('complex64'))
    """
    if use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    return list(
        eig_p.bind(
            as_array(x),
            compute_left_eigenvectors=compute_left_eigenvectors,
            implementation=implementation,
            compute_right_eigenvectors=compute_right_eigenvectors,
            enable_eigvec_derivs=enable_eigvec_derivs,
        )
    )


# --- svd ---
@weak_as_operands
def _svd_aval(
    x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any
) -> list[ShapedArray]:
    matrix_aval("svd", x)
    *batch, m, n = x.shape
    k = smaller(m, n)
    if subset_by_index is not None:
        if full_matrices and tuple(subset_by_index) != (0, k):
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        k = _subset("svd", subset_by_index, k)
    values = ShapedArray((*batch, k), real_dtype(x.dtype))
    if not compute_uv:
        return [values]
    u = ShapedArray((*batch, m, m if full_matrices else k), x.dtype)
    return [values, u, ShapedArray((*batch, n if full_matrices else k, n), x.dtype)]


def _svd_jvp(
    primals: Any,
    tangents: Any,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: Any,
    algorithm: Any,
) -> Any:
    """With P = U^H dA V: dS is the real diagonal of P; off it, dS being diagonal,
    (s_j^2 - s_i^2) (U^H dU)_ij = P_ij s_j + s_i conj(P_ji) and (s_j^2 - s_i^2) (V^H dV)_ij = s_i
    P_ij + conj(P_ji) s_j. The imaginary diagonal of P turns phases; U takes all of it. Outside the
    spans of U and V, dA V = dU S and dA^H U = dV S.
    """
    (a,), (da,) = primals, tangents
    m, n = typeof(a).shape[-2:]
    square = m is n or m == n
    if compute_uv and full_matrices and not square:
        raise NotImplementedError(
            "Singular value decomposition JVP not implemented for full matrices: the columns that "
            f"complete a basis, of svd of {typeof(a).str_short()}, are any. Fix: "
            "full_matrices=False."
        )
    s, u, vt = svd_p.bind(
        a,
        full_matrices=False,
        compute_uv=True,
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    v = adjoint(vt)
    p = matmul(matmul(adjoint(u), da), v)
    ds = diagonal(real(p) if _is_complex(p) else p)
    if not compute_uv:
        return [s], [ds]
    k = typeof(s).shape[-1]
    sizes = _same_kind(s, p)
    row = broadcast_to(_rows(sizes), typeof(p).shape)
    column = broadcast_to(_columns(sizes), typeof(p).shape)
    one = identity_like(p)
    if config.finite_degenerate_derivatives.get() and k:
        turn, other = _turns_apart(p, s, row, column, one)
    else:
        gaps = mul(add(row, column), sub(row, column))
        gaps = sub(integer_pow(add(gaps, one), -1), one)
        ps, sp = mul(p, row), mul(p, column)
        turn, other = mul(gaps, add(ps, adjoint(ps))), mul(gaps, add(sp, adjoint(sp)))
    if _is_complex(p):
        turn = add(turn, mul(_inverse_diagonal(s, p), mul(sub(p, adjoint(p)), const(p, 0.5))))
    du, dv = matmul(u, turn), matmul(v, other)
    if not (m is k or m == k):
        du = add(du, _outside(u, matmul(da, v), sizes))
    if not (n is k or n == k):
        dv = add(dv, _outside(v, matmul(adjoint(da), u), sizes))
    return [s, u, vt], [ds, du, adjoint(dv)]


def _turns_apart(p: Any, s: Any, row: Any, column: Any, one: Any) -> tuple[Any, Any]:
    """(U^H dU, V^H dV) without diagonals, as the halves of (P + P^H) / (s_j - s_i) plus and minus
    (P - P^H) / (s_j + s_i), of which only the first stands for turns among equal values.
    """
    both, odd = add(p, adjoint(p)), sub(p, adjoint(p))
    apart = mul(both, _where_apart(sub(row, column), s))
    joint = mul(odd, mul(_where_apart(add(row, column), s), sub(_ones(p), one)))
    half = const(p, 0.5)
    return mul(add(apart, joint), half), mul(sub(apart, joint), half)


def _ones(p: Any) -> Any:
    """Ones in the shape of p."""
    return broadcast_in_dim(const(p, 1), typeof(p).shape, ())


def _outside(u: Any, x: Any, s: Any) -> Any:
    """The part of X S^-1 that is orthogonal to the columns of U."""
    rest = sub(x, matmul(u, matmul(adjoint(u), x)))
    if config.finite_degenerate_derivatives.get() and typeof(s).shape[-1]:
        return mul(rest, broadcast_to(_rows(_where_apart(s, s)), typeof(rest).shape))
    return div(rest, broadcast_to(_rows(s), typeof(rest).shape))


def _inverse_diagonal(s: Any, like: Any) -> Any:
    """The diagonal matrix of 1 / s, zero where s is."""
    none = convert_element_type(eq(s, const(s, 0)), typeof(s).dtype)
    inverse = sub(integer_pow(add(s, none), -1), none)
    shape = typeof(like).shape
    return mul(identity_like(like), broadcast_to(_rows(_same_kind(inverse, like)), shape))


svd_p: Primitive = Primitive(
    "svd",
    abstract_eval=_svd_aval,
    jvp=_svd_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: svd_p),
    multiple_results=True,
)


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """(U, s, V^H) with x = U diag(s) V^H and s descending; s alone without `compute_uv`.

    U and V are square with `full_matrices`. `subset_by_index=(start, end)` keeps those singular
    values. Derivatives at equal singular values: see `eigh`.

    `x`: (..., m, n), float or complex; s is real, (..., min(m, n)). As `numpy.linalg.svd`.

    >>> lax.linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    s, *vectors = svd_p.bind(
        as_array(x),
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    return (vectors[0], s, vectors[1]) if compute_uv else s


# --- schur, hessenberg, tridiagonal ---
@weak_as_operands
def _schur_aval(
    x: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any
) -> list[ShapedArray]:
    matrix_aval("schur", x, square=True)
    return [ShapedArray(x.shape, x.dtype)] * (2 if compute_schur_vectors else 1)


schur_p: Primitive = Primitive(
    "schur",
    abstract_eval=_schur_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: schur_p),
    multiple_results=True,
)


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Any]:
    """[T, Z] with x = Z T Z^H: T is upper triangular, with 2 by 2 blocks on its diagonal where a
    real matrix has complex eigenvalues.

    Raises NotImplementedError for `sort_eig_vals`.

    `x`: (..., n, n), float or complex; without `compute_schur_vectors` [T] alone. As
    `scipy.linalg.schur`.

    >>> t, z = lax.linalg.schur(jnp.array([[1., 2.], [0., 3.]]))
    >>> t
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals:
        raise NotImplementedError(
            "The sort feature of LAPACK's gees routine is not implemented. Fix: "
            "schur(x, sort_eig_vals=False)."
        )
    return list(
        schur_p.bind(
            as_array(x),
            compute_schur_vectors=compute_schur_vectors,
            sort_eig_vals=sort_eig_vals,
            select_callable=select_callable,
        )
    )


@weak_as_operands
def _hessenberg_aval(a: Any) -> list[ShapedArray]:
    check_ranks("hessenberg", (a,), (2,))
    *batch, m, n = a.shape
    if m != n or m == 0:
        raise ValueError(
            f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {a.shape}"
        )
    check_dtypes("hessenberg", (a,))
    return [ShapedArray(a.shape, a.dtype), ShapedArray((*batch, n - 1), a.dtype)]


hessenberg_p: Primitive = Primitive(
    "hessenberg",
    abstract_eval=_hessenberg_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: hessenberg_p),
    multiple_results=True,
)


def hessenberg(a: Any) -> list[Any]:
    """[H above the Householder vectors, their factors]: x = Q H Q^H with H zero below its first
    subdiagonal.

    Raises ValueError unless the matrices are square and not empty.

    `a`: (..., n, n), float or complex; the factors are (..., n - 1). As LAPACK's gehrd.

    >>> h, taus = lax.linalg.hessenberg(jnp.array([[1., 2.], [3., 4.]]))
    >>> h, taus
    (Array([[1., 2.],
           [3., 4.]], dtype=float32), Array([0.], dtype=float32))
    """
    return list(hessenberg_p.bind(as_array(a)))


@weak_as_operands
def _tridiagonal_aval(a: Any, *, lower: bool) -> list[ShapedArray]:
    check_ranks("tridiagonal", (a,), (2,))
    *batch, m, n = a.shape
    if m != n or m == 0:
        raise ValueError(f"The input to tridiagonal must be a square matrix. Got shape {a.shape}.")
    check_dtypes("tridiagonal", (a,))
    d = real_dtype(a.dtype)
    return [
        ShapedArray(a.shape, a.dtype),
        ShapedArray((*batch, n), d),
        ShapedArray((*batch, n - 1), d),
        ShapedArray((*batch, n - 1), a.dtype),
    ]


tridiagonal_p: Primitive = Primitive(
    "tridiagonal",
    abstract_eval=_tridiagonal_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: tridiagonal_p),
    multiple_results=True,
)


def tridiagonal(a: Any, *, lower: bool = True) -> list[Any]:
    """[Householder vectors, diagonal, off-diagonal, factors] of Hermitian matrices: x = Q T Q^H
    with T real and tridiagonal.

    Raises ValueError unless the matrices are square and not empty.

    `a`: (..., n, n), float or complex, of which the `lower` or upper triangle is read. As LAPACK's
    sytrd and hetrd.

    >>> _, d, e, _ = lax.linalg.tridiagonal(jnp.array([[2., 1.], [1., 3.]]))
    >>> d, jnp.abs(e)
    (Array([2., 3.], dtype=float32), Array([1.], dtype=float32))
    """
    return list(tridiagonal_p.bind(as_array(a), lower=lower))
