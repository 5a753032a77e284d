"""Linear algebra through LAPACK and BLAS, matrix by matrix. Where LAPACK finds no result, NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...lazy_imports import lazy_module
from ...primitives import linalg_factor as f, linalg_systems as p
from .table import rule, widened

lapack: Any = lazy_module("scipy.linalg.lapack")
blas: Any = lazy_module("scipy.linalg.blas")

Shape = tuple[int, ...]
_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}
_REAL = {"f": np.float32, "d": np.float64, "F": np.float32, "D": np.float64}
_COMPLEX = {"f": np.complex64, "d": np.complex128, "F": np.complex64, "D": np.complex128}


def _routine(name: str, x: Any, complex_name: str | None = None, library: Any = None) -> Any:
    """LAPACK's routine for the dtype of `x`; some have another name for complex numbers."""
    if x.dtype.kind == "c" and complex_name is not None:
        name = complex_name
    return getattr(lapack if library is None else library, _PREFIX[x.dtype.char] + name)


def _each(
    fn: Callable[..., Any],
    arrays: Sequence[Any],
    cores: Sequence[int],
    outs: Sequence[tuple[Shape, Any]],
) -> list[Any]:
    """Applies a function of matrices (and vectors) over leading axes. `cores` are the ranks of its
    operands, `outs` the shapes and dtypes of its results, which it returns as a tuple; None in
    place of a tuple stands for NaN.
    """
    batch = arrays[0].shape[: arrays[0].ndim - cores[0]]
    n = math.prod(batch)
    flat = [x.reshape(n, *x.shape[x.ndim - c :]) for x, c in zip(arrays, cores, strict=True)]
    results = [np.empty((n, *shape), dtype) for shape, dtype in outs]
    for k in range(n):
        values = fn(*(x[k] for x in flat))
        if values is None:
            values = [np.nan] * len(results)
        for out, value in zip(results, values, strict=True):
            out[k] = value
    return [out.reshape(*batch, *out.shape[1:]) for out in results]


def _finite(x: Any) -> bool:
    return bool(np.isfinite(x).all())


# --- cholesky, triangular_solve, lu ---
@rule(p.cholesky_p, p.library_cholesky_p)
def cholesky(x: Any) -> Any:
    x = widened(x)
    potrf = _routine("potrf", x)

    def one(a: Any) -> Any:
        if not a.size:
            return (a,)
        factor, info = potrf(a, lower=1, clean=0)
        return (factor,) if info == 0 else None

    return _each(one, [x], [2], [(x.shape[-2:], x.dtype)])[0]


@rule(p.triangular_solve_p)
def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    a, b = widened(a), widened(b)
    trsm = _routine("trsm", a, library=blas)
    # NumPy's rows are BLAS's columns: the transposed system is solved, which needs no copies in
    # another order. There the matrix is a^T on the other side, with the other triangle. BLAS
    # conjugates only what it transposes.
    conj_only = conjugate_a and not transpose_a
    trans = (2 if conjugate_a else 1) if transpose_a else 0

    def one(m: Any, y: Any) -> Any:
        if not y.size:
            return (y,)
        m = m.conj() if conj_only else m
        x = trsm(1, m.T, y.T, side=left_side, lower=not lower, trans_a=trans, diag=unit_diagonal)
        return (x.T,)

    return _each(one, [a, b], [2, 2], [(b.shape[-2:], b.dtype)])[0]


def _permutation(pivots: Any, n: int) -> Any:
    order = np.arange(n, dtype=np.int32)
    for k, j in enumerate(pivots.tolist()):
        order[k], order[j] = order[j], order[k]
    return order


@rule(p.lu_p)
def lu(x: Any) -> Any:
    x = widened(x)
    getrf = _routine("getrf", x)
    m, n = x.shape[-2:]

    def one(a: Any) -> Any:
        if not a.size:
            return a, np.zeros(0, np.int32), np.arange(m, dtype=np.int32)
        packed, pivots, _ = getrf(a)
        return packed, pivots, _permutation(pivots, m)

    return _each(one, [x], [2], [((m, n), x.dtype), ((min(m, n),), np.int32), ((m,), np.int32)])


@rule(p.lu_pivots_to_permutation_p)
def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> Any:
    return _each(
        lambda row: (_permutation(row, permutation_size),),
        [pivots],
        [1],
        [((permutation_size,), pivots.dtype)],
    )[0]


# --- updates ---
@rule(p.cholesky_update_p)
def cholesky_update(r: Any, w: Any) -> Any:
    """Plane rotations that turn [R; w^T] into [S; 0], row by row, over the whole batch at once."""
    r, w = widened(r).copy(), widened(w).copy()
    for k in range(r.shape[-1]):
        top, row = r[..., k, k].copy(), r[..., k, :].copy()
        size = np.hypot(top, w[..., k])
        safe = np.where(size == 0, 1, size)
        c, s = np.where(size == 0, 1, top / safe)[..., None], (w[..., k] / safe)[..., None]
        r[..., k, :] = c * row + s * w
        w = c * w - s * row
    return r


@rule(p.symmetric_product_p)
def symmetric_product(a: Any, c: Any, *, alpha: float, beta: float) -> Any:
    a, c = widened(a), widened(c)
    out = np.asarray(alpha, a.dtype) * np.matmul(a, np.swapaxes(a, -1, -2))
    return out if beta == 0 else out + np.asarray(beta, a.dtype) * c


# --- tridiagonal systems ---
@rule(p.tridiagonal_solve_p)
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    dl, d, du, b = map(widened, (dl, d, du, b))
    gtsv = _routine("gtsv", d)

    def one(low: Any, mid: Any, up: Any, y: Any) -> Any:
        if not y.size:
            return (y,)
        if len(mid) == 1:
            if mid[0] != 0:
                return (y / mid[0],)
        else:
            *_, x, info = gtsv(low[1:], mid, up[:-1], y)
            if info == 0:
                return (x,)
        return (_perturbed(low, mid, up, y),) if perturb_singular else None

    return _each(one, [dl, d, du, b], [1, 1, 1, 2], [(b.shape[-2:], b.dtype)])[0]


def _perturbed(dl: Any, d: Any, du: Any, b: Any) -> Any:
    """Elimination with partial pivoting, in which a pivot of zero becomes epsilon times the largest
    entry (the least normal number if there is none).
    """
    n = len(d)
    largest = np.abs(np.concatenate([d, dl[1:], du[:-1]])).max()
    tiny = max(np.finfo(d.dtype).eps * largest, np.finfo(d.dtype).tiny)
    rows = np.zeros((n, 3), d.dtype)  # row k of U: columns k, k+1, k+2
    rows[:, 0], rows[:-1, 1] = d, du[:-1]
    x = b.copy()
    for k in range(n - 1):
        below = np.array([dl[k + 1], *rows[k + 1, :2]], d.dtype)
        if abs(below[0]) > abs(rows[k, 0]):
            below, rows[k] = rows[k].copy(), below
            x[[k, k + 1]] = x[[k + 1, k]]
        if rows[k, 0] == 0:
            rows[k, 0] = tiny
        factor = below[0] / rows[k, 0]
        rows[k + 1] = [*(below[1:] - factor * rows[k, 1:]), 0]
        x[k + 1] -= factor * x[k]
    if rows[n - 1, 0] == 0:
        rows[n - 1, 0] = tiny
    for k in range(n - 1, -1, -1):
        for j in range(1, min(3, n - k)):
            x[k] -= rows[k, j] * x[k + j]
        x[k] /= rows[k, 0]
    return x


# --- reflectors and qr ---
def _geqrf(a: Any, pivoting: bool = False) -> tuple[Any, Any, Any]:
    """(R and the reflectors, their factors, order of the columns or None)."""
    m, n = a.shape
    if pivoting:
        packed, order, taus, _, _ = _routine("geqp3", a)(a)
        return packed, taus, order - 1
    lwork = int(_routine("geqrf_lwork", a)(m, n)[0].real)
    packed, taus, _, _ = _routine("geqrf", a)(a, lwork=lwork)
    return packed, taus, None


def _product(a: Any, taus: Any) -> Any:
    """The first columns of the product of reflectors, as many as `a` has."""
    m, n = a.shape
    if not len(taus) or not a.size:
        return np.eye(m, n, dtype=a.dtype)
    routine = _routine("orgqr", a, "ungqr")
    lwork = int(routine(a, taus, lwork=-1)[1][0].real)
    return routine(a, taus, lwork=lwork)[0]


@rule(f.geqrf_p)
def geqrf(x: Any) -> Any:
    x = widened(x)
    m, n = x.shape[-2:]

    def one(a: Any) -> Any:
        return _geqrf(a)[:2] if a.size else (a, np.zeros(0, a.dtype))

    return _each(one, [x], [2], [((m, n), x.dtype), ((min(m, n),), x.dtype)])


@rule(f.householder_product_p)
def householder_product(a: Any, taus: Any) -> Any:
    a, taus = widened(a), widened(taus)
    return _each(lambda m, t: (_product(m, t),), [a, taus], [2, 1], [(a.shape[-2:], a.dtype)])[0]


@rule(f.ormqr_p)
def ormqr(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    a, taus, c = widened(a), widened(taus), widened(c)
    routine = _routine("ormqr", a, "unmqr")
    side, trans = "L" if left else "R", ("C" if a.dtype.kind == "c" else "T") if transpose else "N"

    def one(m: Any, t: Any, y: Any) -> Any:
        if not len(t) or not y.size:
            return (y,)
        m = m[:, : len(t)]
        lwork = int(routine(side, trans, m, t, y, lwork=-1)[1][0].real)
        return (routine(side, trans, m, t, y, lwork=lwork)[0],)

    return _each(one, [a, taus, c], [2, 1, 2], [(c.shape[-2:], c.dtype)])[0]


@rule(f.qr_p)
def qr(x: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> Any:
    x = widened(x)
    m, n = x.shape[-2:]
    k = m if full_matrices else min(m, n)

    def one(a: Any) -> Any:
        if not a.size:
            return (
                np.eye(m, k, dtype=a.dtype),
                np.zeros((k, n), a.dtype),
                *([np.arange(n)] if pivoting else []),
            )
        packed, taus, order = _geqrf(a, pivoting)
        square = np.zeros((m, k), a.dtype)
        square[:, : min(n, k)] = packed[:, :k]
        upper = np.zeros((k, n), a.dtype)
        upper[: min(m, k)] = np.triu(packed[:k])
        return _product(square, taus), upper, *([order] if pivoting else [])

    outs = [((m, k), x.dtype), ((k, n), x.dtype), ((n,), np.int32)]
    return _each(one, [x], [2], outs if pivoting else outs[:2])


# --- eigenvalues ---
def _chosen(subset: Any, n: int) -> slice:
    return slice(0, n) if subset is None else slice(*subset)


@rule(f.eigh_p)
def eigh(
    x: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any
) -> Any:
    if algorithm is f.EighImplementation.QDWH:
        raise NotImplementedError(
            "QDWH implementation is only supported on TPU. Fix: eigh without `implementation`, or "
            "with QR."
        )
    if algorithm is f.EighImplementation.JACOBI:
        raise NotImplementedError(
            "Jacobi implementation is not supported on CPU. Fix: leave `implementation` out, or "
            "use QR."
        )
    x = widened(x)
    n = x.shape[-1]
    keep = _chosen(subset_by_index, n)
    syevd = _routine("syevd", x, "heevd")

    def one(a: Any) -> Any:
        if not a.size:
            return a, np.zeros(0)
        if not _finite(a):
            return None
        w, v, info = syevd(a, lower=lower)
        return (v[:, keep], w[keep]) if info == 0 else None

    k = len(range(n)[keep])
    return _each(one, [x], [2], [((n, k), x.dtype), ((k,), _REAL[x.dtype.char])])


def _complex_vectors(wi: Any, v: Any) -> Any:
    """LAPACK's real columns, of which pairs are real and imaginary part of vectors to conjugate
    values.
    """
    out = v.astype(_COMPLEX[v.dtype.char])
    for k in np.flatnonzero(wi > 0):
        out[:, k] = v[:, k] + 1j * v[:, k + 1]
        out[:, k + 1] = out[:, k].conj()
    return out


@rule(f.eig_p)
def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
    implementation: Any,
) -> Any:
    if implementation not in (None, f.EigImplementation.LAPACK):
        raise ValueError(
            "Only the lapack implementation is supported on CPU. Fix: leave `implementation` out."
        )
    x = widened(x)
    n = x.shape[-1]
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    geev = _routine("geev", x)
    is_complex = x.dtype.kind == "c"

    def one(a: Any) -> Any:
        if not a.size:
            return np.zeros(0), *[a] * sum(wanted)
        if not _finite(a):
            return None
        w, *rest, left, right, info = geev(a, compute_vl=wanted[0], compute_vr=wanted[1])
        if info != 0:
            return None
        both = (
            (left, right)
            if is_complex
            else [_complex_vectors(rest[0], v) if on else v for v, on in zip((left, right), wanted)]
        )
        return w if is_complex else w + 1j * rest[0], *(v for v, on in zip(both, wanted) if on)

    d = _COMPLEX[x.dtype.char]
    return _each(one, [x], [2], [((n,), d), *[((n, n), d)] * sum(wanted)])


# --- svd ---
@rule(f.svd_p)
def svd(
    x: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any
) -> Any:
    if algorithm in (f.SvdAlgorithm.JACOBI, f.SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "The SVD Jacobi and Polar algorithms are not implemented on CPU. Fix: leave "
            "`algorithm` out, or use QR."
        )
    x = widened(x)
    m, n = x.shape[-2:]
    keep = _chosen(subset_by_index, min(m, n))
    name = "gesvd" if algorithm is f.SvdAlgorithm.QR else "gesdd"
    routine, lwork = _routine(name, x), _routine(name + "_lwork", x)
    options = {"compute_uv": compute_uv, "full_matrices": full_matrices}
    work = int(lwork(m, n, **options)[0].real) if m and n else 0

    def one(a: Any) -> Any:
        if not a.size:
            s = np.zeros(0)
            return (
                (s, np.eye(m, m if full_matrices else 0), np.eye(n if full_matrices else 0, n))
                if compute_uv
                else (s,)
            )
        if not _finite(a):
            return None
        u, s, vt, info = routine(a, lwork=work, **options)
        if info != 0:
            return None
        if not compute_uv:
            return (s[keep],)
        return (s, u, vt) if full_matrices else (s[keep], u[:, keep], vt[keep])

    k = len(range(min(m, n))[keep])
    outs: list[tuple[Shape, Any]] = [((k,), _REAL[x.dtype.char])]
    if compute_uv:
        outs += [
            ((m, m if full_matrices else k), x.dtype),
            ((n if full_matrices else k, n), x.dtype),
        ]
    return _each(one, [x], [2], outs)


# --- condensed forms ---
@rule(f.schur_p)
def schur(x: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any) -> Any:
    x = widened(x)
    gees = _routine("gees", x)

    def one(a: Any) -> Any:
        if not a.size:
            return (a, a) if compute_schur_vectors else (a,)
        if not _finite(a):
            return None
        out = gees(lambda *value: False, a, compute_v=compute_schur_vectors, sort_t=0)
        if out[-1] != 0:
            return None
        return (out[0], out[-3]) if compute_schur_vectors else (out[0],)

    return _each(one, [x], [2], [(x.shape[-2:], x.dtype)] * (2 if compute_schur_vectors else 1))


@rule(f.hessenberg_p)
def hessenberg(x: Any) -> Any:
    x = widened(x)
    n = x.shape[-1]
    gehrd, gehrd_lwork = _routine("gehrd", x), _routine("gehrd_lwork", x)
    work = int(gehrd_lwork(n)[0].real)

    def one(a: Any) -> Any:
        if n == 1:
            return a, np.zeros(0)
        packed, taus, _ = gehrd(a, lwork=work)
        return packed, taus

    return _each(one, [x], [2], [((n, n), x.dtype), ((n - 1,), x.dtype)])


@rule(f.tridiagonal_p)
def tridiagonal(x: Any, *, lower: bool) -> Any:
    x = widened(x)
    n = x.shape[-1]
    sytrd, sytrd_lwork = _routine("sytrd", x, "hetrd"), _routine("sytrd_lwork", x, "hetrd_lwork")
    work = int(sytrd_lwork(n, lower=lower)[0].real)

    def one(a: Any) -> Any:
        packed, d, e, taus, info = sytrd(a, lower=lower, lwork=work)
        return (packed, d, e, taus) if info == 0 else None

    real = _REAL[x.dtype.char]
    return _each(
        one, [x], [2], [((n, n), x.dtype), ((n,), real), ((n - 1,), real), ((n - 1,), x.dtype)]
    )
