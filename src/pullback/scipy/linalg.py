"""Linear algebra under the names of `scipy.linalg`: factorisations, systems, matrix functions,
special matrices.
"""

# Longer than other files: one short function for each of SciPy's.

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax, numpy as jnp
from ..api.derivatives import jvp
from ..api.jit import jit
from ..api.vmap import vmap
from ..control.while_loop import fori_loop
from ..core.avals import typeof
from ..numpy import linalg as np_linalg
from ..numpy.util import check_arraylike, promote_dtypes, promote_dtypes_inexact
from ..primitives import linalg as lax_linalg


def _arrays(name: str, *args: Any) -> list[Any]:
    check_arraylike(name, *args)
    return [jnp.asarray(x) for x in promote_dtypes_inexact(*args)]


def _from_lists(*args: Any) -> list[Any]:
    """The same for functions that take nested lists of numbers, too. ValueError for None."""
    return promote_dtypes_inexact(*(jnp.asarray(x) for x in args))


def _in_stacks(fun: Callable[..., Any], *args: Any) -> Any:
    """A function of matrices, of stacks of them that broadcast."""
    batch = jnp.broadcast_shapes(*(typeof(x).shape[:-2] for x in args))
    args = tuple(jnp.broadcast_to(x, (*batch, *typeof(x).shape[-2:])) for x in args)
    for _ in batch:
        fun = vmap(fun)
    return fun(*args)


def _h(a: Any) -> Any:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _mm(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _square(name: str, a: Any) -> int:
    shape = typeof(a).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{name}: expected a square matrix, got shape {shape}")
    return int(shape[-1])


# --- Cholesky ---
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The upper triangular U with a = U^H U (with `lower`, the lower triangular L with a = L L^H).

    >>> pb.scipy.linalg.cholesky(jnp.array([[4.]]))
    Array([[2.]], dtype=float32)
    """
    return _cholesky(a, lower)


@functools.partial(jit, static_argnames=("lower",))
def _cholesky(a: Any, lower: bool) -> Any:
    (a,) = _from_lists(a)
    if typeof(a).ndim < 2:
        raise ValueError(
            "The input to cholesky must be a square matrix, or a stack of them, got a: "
            f"{typeof(a).str_short()}"
        )
    factor = lax_linalg.cholesky(a if lower else _h(a), symmetrize_input=False)
    return factor if lower else _h(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """(the Cholesky factor, lower), as `cho_solve` takes it.

    `a`: (..., n, n), Hermitian positive definite; the triangle of the factor that is not wanted is
    not zeroed. NaN where `a` is not positive definite. As `scipy.linalg.cho_factor`.

    >>> from pullback.scipy import linalg
    >>> factor, lower = linalg.cho_factor(jnp.array([[4., 2.], [2., 5.]]), lower=True)
    >>> jnp.tril(factor)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return cholesky(a, lower=lower), lower


def _as_columns(b: Any, like: Any) -> tuple[Any, bool]:
    """A vector, or a stack of them, as matrices of one column, and whether it was one."""
    if not typeof(b).ndim:
        raise ValueError(
            f"b of shape () does not have enough dimensions for a matrix of shape "
            f"{typeof(like).shape}. Fix: a vector or a matrix."
        )
    shape, m = typeof(b).shape, typeof(like).shape[-1]
    vector = len(shape) == 1 or (len(shape) == typeof(like).ndim - 1 and shape[-1] == m)
    return (b[..., None] if vector else b), vector


@functools.partial(jit, static_argnames=("lower",))
def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    c, b = _from_lists(c, b)
    _square("cho_solve", c)
    b, vector = _as_columns(b, c)
    batch = jnp.broadcast_shapes(typeof(c).shape[:-2], typeof(b).shape[:-2])
    c = jnp.broadcast_to(c, (*batch, *typeof(c).shape[-2:]))
    b = jnp.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    y = lax_linalg.triangular_solve(
        c, b, left_side=True, lower=lower, transpose_a=not lower, conjugate_a=not lower
    )
    x = lax_linalg.triangular_solve(
        c, y, left_side=True, lower=lower, transpose_a=lower, conjugate_a=lower
    )
    return x[..., 0] if vector else x


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solves a x = b, given `cho_factor(a)`.

    `b`: (n,) or (n, k). Raises ValueError for shapes that do not fit. As `scipy.linalg.cho_solve`.

    `c_and_lower`: what `cho_factor` gives. `overwrite_b` and `check_finite` have no effect.

    >>> from pullback.scipy import linalg
    >>> factor = linalg.cho_factor(jnp.array([[4., 2.], [2., 5.]]))
    >>> linalg.cho_solve(factor, jnp.array([6., 7.])).round(3)
    Array([1., 1.], dtype=float32)
    """
    c, lower = c_and_lower
    return _cho_solve(c, b, bool(lower))


# --- LU ---
@functools.partial(jit, static_argnames=("overwrite_a", "check_finite"))
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """(L below the diagonal and U on and above it, pivots), as `lu_solve` takes them.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. As `scipy.linalg.lu_factor`.

    >>> from pullback.scipy import linalg
    >>> linalg.lu_factor(jnp.array([[1., 2.], [4., 4.]]))
    (Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32), Array([1, 1], dtype=int32))
    """
    (a,) = _from_lists(a)
    lu, pivots, _ = lax_linalg.lu(a)
    return lu, pivots


@functools.partial(jit, static_argnames=("trans", "overwrite_b", "check_finite"))
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solves a x = b (trans=1: a^T x = b, trans=2: a^H x = b), given `lu_factor(a)`.

    Raises ValueError for another `trans`.

    `b`: (n,) or (n, k). As `scipy.linalg.lu_solve`.

    >>> from pullback.scipy import linalg
    >>> factor = linalg.lu_factor(jnp.array([[1., 2.], [4., 4.]]))
    >>> linalg.lu_solve(factor, jnp.array([3., 8.]))
    Array([1., 1.], dtype=float32)
    """
    lu, pivots = lu_and_piv
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    lu, b = _from_lists(lu, b)
    _square("lu_solve", lu)
    m = typeof(lu).shape[-2]
    permutation = lax_linalg.lu_pivots_to_permutation(jnp.asarray(pivots), m)
    b, vector = _as_columns(b, lu)
    if typeof(b).shape[-2] != m:
        raise ValueError(
            f"inconsistent size for core dimension 'n': {typeof(b).shape[-2]} vs {m}: lu_solve got "
            f"b of shape {typeof(b).shape} for a matrix of {m} rows"
        )
    batch = jnp.broadcast_shapes(typeof(lu).shape[:-2], typeof(b).shape[:-2])
    lu = jnp.broadcast_to(lu, (*batch, m, m))
    b = jnp.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    permutation = jnp.broadcast_to(permutation, (*batch, m))
    if trans == 0:
        x = jnp.take_along_axis(b, permutation[..., None], axis=-2)
        x = lax_linalg.triangular_solve(lu, x, left_side=True, lower=True, unit_diagonal=True)
        x = lax_linalg.triangular_solve(lu, x, left_side=True, lower=False)
    else:
        conj = trans == 2
        x = lax_linalg.triangular_solve(
            lu, b, left_side=True, lower=False, transpose_a=True, conjugate_a=conj
        )
        x = lax_linalg.triangular_solve(
            lu,
            x,
            left_side=True,
            lower=True,
            unit_diagonal=True,
            transpose_a=True,
            conjugate_a=conj,
        )
        x = jnp.take_along_axis(x, jnp.argsort(permutation, axis=-1)[..., None], axis=-2)
    return x[..., 0] if vector else x


@functools.partial(jit, static_argnames=("permute_l", "overwrite_a", "check_finite"))
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """(P, L, U) with a = P L U; with `permute_l`, (P L, U).

    `a`: (..., m, n), any numbers. As `scipy.linalg.lu`.

    >>> from pullback.scipy import linalg
    >>> p, l, u = linalg.lu(jnp.array([[1., 2.], [4., 4.]]))
    >>> l, u
    (Array([[1.  , 0.  ],
           [0.25, 1.  ]], dtype=float32), Array([[4., 4.],
           [0., 1.]], dtype=float32))
    """
    (a,) = _from_lists(a)
    packed, _, permutation = lax_linalg.lu(a)
    dtype = typeof(packed).dtype
    m, n = typeof(a).shape[-2:]
    p = jnp.asarray(
        permutation[..., None, :] == jnp.arange(m, dtype=typeof(permutation).dtype)[:, None],
        dtype=np.zeros((), dtype).real.dtype,
    )
    k = min(m, n)
    lower = jnp.tril(packed, -1)[..., :, :k] + jnp.eye(m, k, dtype=dtype)
    upper = jnp.triu(packed)[..., :k, :]
    return (_mm(p.astype(dtype), lower), upper) if permute_l else (p, lower, upper)


# --- systems ---
@functools.partial(jit, static_argnames=("trans", "lower", "unit_diagonal"))
def _solve_triangular(a: Any, b: Any, trans: Any, lower: bool, unit_diagonal: bool) -> Any:
    a, b = _from_lists(a, b)
    _square("solve_triangular", a)
    if trans not in (0, "N", 1, "T", 2, "C"):
        raise ValueError(f"Invalid 'trans' value {trans}")
    transpose, conj = trans in (1, "T", 2, "C"), trans in (2, "C")
    b, vector = _as_columns(b, a)
    batch = jnp.broadcast_shapes(typeof(a).shape[:-2], typeof(b).shape[:-2])
    a = jnp.broadcast_to(a, (*batch, *typeof(a).shape[-2:]))
    b = jnp.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    x = lax_linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=transpose,
        conjugate_a=conj,
        unit_diagonal=unit_diagonal,
    )
    return x[..., 0] if vector else x


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """Solves a x = b for a triangular `a`; trans "T" or 1: a^T x = b, "C" or 2: a^H x = b.

    Raises ValueError for another `trans`.

    `a`: (..., n, n), of which one triangle is read, `b`: (n,) or (..., n, k). As
    `scipy.linalg.solve_triangular`.

    `unit_diagonal`: the diagonal is taken for ones. `overwrite_b`, `debug` and `check_finite`
    have no effect.

    >>> from pullback.scipy import linalg
    >>> linalg.solve_triangular(jnp.array([[2., 0.], [1., 4.]]), jnp.array([2., 5.]), lower=True)
    Array([1., 1.], dtype=float32)
    """
    return _solve_triangular(a, b, trans, lower, unit_diagonal)


@functools.partial(jit, static_argnames=("assume_a", "lower"))
def _solve(a: Any, b: Any, *, assume_a: str, lower: bool) -> Any:
    if assume_a != "pos":
        return np_linalg.solve(a, b)
    a, b = _arrays("solve", a, b)
    return cho_solve(cho_factor(a, lower=lower), b)


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """Solves a x = b; `assume_a` "pos": by Cholesky.

    Raises ValueError for an unknown assume_a.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. `b`: (n,) or (..., n, k). As `scipy.linalg.solve`, which raises where a
    singular matrix gives NaN or infinities here.

    >>> from pullback.scipy import linalg
    >>> linalg.solve(jnp.array([[2., 1.], [1., 3.]]), jnp.array([3., 4.])).round(3)
    Array([1., 1.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}"
        )
    a, b = _from_lists(a, b)
    return _solve(a, b, assume_a=assume_a, lower=lower)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. As `scipy.linalg.inv`, which raises where this has infinities or NaN.

    >>> from pullback.scipy import linalg
    >>> linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return np_linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. The result is (...). As `scipy.linalg.det`.

    >>> from pullback.scipy import linalg
    >>> linalg.det(jnp.array([[1., 2.], [3., 4.]])).round(3)
    Array(-2., dtype=float32)
    """
    return np_linalg.det(a)


# --- spectra ---
@functools.partial(jit, static_argnames=("full_matrices", "compute_uv"))
def _svd(a: Any, *, full_matrices: bool, compute_uv: bool) -> Any:
    out = np_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, S, Vh) with a = U diag(S) Vh, S descending; S alone without `compute_uv`.

    `a`: (..., m, n), any numbers; S is real, (..., min(m, n)). As `scipy.linalg.svd`.

    >>> from pullback.scipy import linalg
    >>> linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    (a,) = _from_lists(a)
    return _svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


@functools.partial(jit, static_argnames=("lower", "eigvals_only"))
def _eigh(a: Any, b: Any, lower: bool, eigvals_only: bool) -> Any:
    (a,) = _from_lists(a)
    v, w = lax_linalg.eigh(a, lower=lower)
    return w if eigvals_only else (w, v)


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """(eigenvalues ascending, eigenvectors as columns) of a Hermitian matrix; eigenvalues alone
    with `eigvals_only`.

    Raises NotImplementedError for `b`, `eigvals` and another `type`.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. As `scipy.linalg.eigh`.

    >>> from pullback.scipy import linalg
    >>> linalg.eigh(jnp.array([[2., 1.], [1., 2.]]), eigvals_only=True).round(3)
    Array([1., 3.], dtype=float32)
    """
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    return _eigh(a, b, lower, eigvals_only)


@functools.partial(jit, static_argnames=("mode", "pivoting"))
def _qr(a: Any, mode: str, pivoting: bool) -> Any:
    (a,) = _from_lists(a)
    if pivoting:
        q, r, p = lax_linalg.qr(a, pivoting=True, full_matrices=mode != "economic")
        return (r, p) if mode == "r" else (q, r, p)
    q, r = lax_linalg.qr(a, full_matrices=mode != "economic")
    return (r,) if mode == "r" else (q, r)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(Q, R) with a = Q R: all of Q ("full"), its first columns ("economic"), or (R,) ("r"); with
    `pivoting` also the permutation.

    Raises ValueError for another mode.

    `a`: (..., m, n), any numbers. As `scipy.linalg.qr`.

    >>> from pullback.scipy import linalg
    >>> q, r = linalg.qr(jnp.array([[3., 1.], [4., 2.]]))
    >>> jnp.abs(r).round(3)
    Array([[5. , 2.2],
           [0. , 0.4]], dtype=float32)
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    return _qr(a, mode, pivoting)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """(T, Z) with a = Z T Z^H, T upper triangular ("complex") or with 2x2 blocks ("real").

    Raises ValueError for another output.

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. As `scipy.linalg.schur`.

    >>> from pullback.scipy import linalg
    >>> t, z = linalg.schur(jnp.array([[1., 2.], [0., 3.]]))
    >>> t
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(
            f"Expected 'output' to be either 'real' or 'complex', got output={output}."
        )
    return _schur(a, output)  # type: ignore[no-any-return]


@functools.partial(jit, static_argnames=("output",))
def _schur(a: Any, output: str) -> Any:
    (a,) = _arrays("schur", a)
    if output == "complex" and not dtypes.is_complex(typeof(a).dtype):
        a = a.astype(np.complex128 if typeof(a).dtype == np.float64 else np.complex64)
    return lax_linalg.schur(a)


def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form H of a = Q H Q^H; with `calc_q`, (H, Q).

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square. As `scipy.linalg.hessenberg`.

    >>> from pullback.scipy import linalg
    >>> h = linalg.hessenberg(jnp.array([[1., 2., 3.], [4., 5., 6.], [7., 8., 10.]]))
    >>> h[2, 0]
    Array(0., dtype=float32)
    """
    (a,) = _arrays("hessenberg", a)
    n = _square("hessenberg", a)
    if 0 in typeof(a).shape:
        return (a, a) if calc_q else a
    packed, taus = lax_linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    if n < 2:
        return h, jnp.broadcast_to(jnp.eye(n, dtype=typeof(a).dtype), typeof(a).shape)
    inner = lax_linalg.householder_product(packed[..., 1:, :-1], taus)
    q = jnp.zeros(typeof(a).shape, typeof(a).dtype).at[..., 0, 0].set(1).at[..., 1:, 1:].set(inner)
    return h, q


@functools.partial(jit, static_argnames=("check_finite",))
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur form (T, Z) of a real one: 2x2 blocks are rotated to triangular ones.

    `T`, `Z`: (..., n, n), as `schur` gives them; the results are complex. As
    `scipy.linalg.rsf2csf`.

    >>> from pullback.scipy import linalg
    >>> t, z = linalg.rsf2csf(*linalg.schur(jnp.array([[0., 1.], [-1., 0.]])))
    >>> jnp.abs(jnp.diag(t)).round(3)
    Array([1., 1.], dtype=float32)
    """
    T, Z = _from_lists(T, Z)
    for name, x in (("T", T), ("Z", Z)):
        shape = typeof(x).shape
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError(f"Input '{name}' must be square. Its shape is {shape}.")
    if typeof(Z).shape[-1] != typeof(T).shape[-1]:
        raise ValueError(
            f"Input array shapes must match: Z: {typeof(Z).shape} vs. T: {typeof(T).shape}. "
            "Fix: T, Z = schur(a)."
        )
    kind = (
        np.complex128
        if typeof(T).dtype in (np.dtype("float64"), np.dtype("complex128"))
        else np.complex64
    )
    t, z = _in_stacks(_triangular_form, T.astype(kind), Z.astype(kind))
    return t, z


def _triangular_form(T: Any, Z: Any) -> tuple[Any, Any]:
    n, kind = typeof(T).shape[-1], typeof(T).dtype
    eps = float(np.finfo(kind).eps)
    for m in range(n - 1, 0, -1):
        block = T[m - 1 : m + 1, m - 1 : m + 1]
        significant = jnp.abs(T[m, m - 1]) > eps * (jnp.abs(T[m - 1, m - 1]) + jnp.abs(T[m, m]))
        half_trace, determinant = (
            (block[0, 0] + block[1, 1]) / 2,
            block[0, 0] * block[1, 1] - block[0, 1] * block[1, 0],
        )
        root = jnp.sqrt(half_trace * half_trace - determinant)
        mu = half_trace + root - block[1, 1]
        r = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(T[m, m - 1]) ** 2)
        r = jnp.where(r == 0, 1, r)
        c, s = mu / r, T[m, m - 1] / r
        g = jnp.stack([jnp.stack([jnp.conj(c), s]), jnp.stack([-s, c])]).astype(kind)
        t = T.at[m - 1 : m + 1, :].set(_mm(g, T[m - 1 : m + 1, :]))
        t = t.at[:, m - 1 : m + 1].set(_mm(t[:, m - 1 : m + 1], _h(g)))
        z = Z.at[:, m - 1 : m + 1].set(_mm(Z[:, m - 1 : m + 1], _h(g)))
        T, Z = jnp.where(significant, t, T), jnp.where(significant, z, Z)
        T = T.at[m, m - 1].set(0)
    return jnp.triu(T), Z


@functools.partial(jit, static_argnames=("eigvals_only", "select", "select_range", "tol"))
def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """The eigenvalues (ascending), and eigenvectors, of a symmetric tridiagonal matrix with
    diagonal `d` and off-diagonal `e`.

    `select`: "a" for all, "i" for those whose positions are in select_range. Raises ValueError for
    other choices.

    `d`: (n,), `e`: (n - 1,), real. As `scipy.linalg.eigh_tridiagonal`.

    >>> from pullback.scipy import linalg
    >>> linalg.eigh_tridiagonal(jnp.array([2., 2.]), jnp.array([1.]), eigvals_only=True).round(3)
    Array([1., 3.], dtype=float32)
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    if select not in ("a", "i", "v"):
        raise ValueError("Unknown value for select.")
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal: select='v' has a result whose size depends on values. Fix: "
            "select='i' or 'a'."
        )
    kind = jnp.result_type(d, e)
    n = typeof(d).shape[0]
    matrix = jnp.diag(d.astype(kind)) + (jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1) if n > 1 else 0)
    v, w = lax_linalg.eigh(matrix.astype(kind))
    if select == "i":
        if select_range is None or select_range[0] > select_range[1]:
            raise ValueError("Got invalid select_range: it must be (first, last) positions.")
        first, last = int(select_range[0]), int(select_range[1])
        w, v = w[first : last + 1], v[:, first : last + 1]
    return w if eigvals_only else (w, v)


# --- matrix functions ---
_PADE: dict[int, tuple[float, ...]] = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (
        17643225600.0,
        8821612800.0,
        2075673600.0,
        302702400.0,
        30270240.0,
        2162160.0,
        110880.0,
        3960.0,
        90.0,
        1.0,
    ),
    13: (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
}


def _pade(a: Any, norm: Any, theta: dict[int, float]) -> tuple[Any, Any]:
    """The odd and even parts (U, V) of the diagonal Pade approximant of exp (Higham 2005), of the
    least order that suffices for the norm. Those of orders below 13 are sums of the same powers,
    with other coefficients."""
    orders = [order for order in theta if order < 13]
    powers = [jnp.eye(typeof(a).shape[-1], dtype=typeof(a).dtype), _mm(a, a)]
    while len(powers) <= max(orders) // 2:
        powers.append(_mm(powers[-1], powers[1]))

    def coefficient(k: int) -> Any:
        found: Any = float(_PADE[max(orders)][k])
        for order in sorted(orders)[-2::-1]:
            own = float(_PADE[order][k]) if k <= order else 0.0
            found = jnp.where(norm < theta[order], own, found)
        return jnp.asarray(found).astype(typeof(a).dtype)

    even = [coefficient(2 * k) * power for k, power in enumerate(powers)]
    odd = [coefficient(2 * k + 1) * power for k, power in enumerate(powers)]
    u, v = _mm(a, functools.reduce(operator.add, odd)), functools.reduce(operator.add, even)
    if 13 not in theta:
        return u, v
    u2, v2 = _pade_13(a, powers)
    small = norm < theta[max(orders)]
    return jnp.where(small, u, u2), jnp.where(small, v, v2)


def _pade_13(a: Any, powers: list[Any]) -> tuple[Any, Any]:
    """Those of order 13, in fewer products than it has powers."""
    b = [float(c) for c in _PADE[13]]
    eye, a2, a4, a6 = powers[:4]
    high = _mm(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    u = _mm(a, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = _mm(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    return u, v + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye


_THETA = {
    np.dtype("float32"): {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660},
    np.dtype("float64"): {
        3: 1.495585217958292e-2,
        5: 2.539398330063230e-1,
        7: 9.504178996162932e-1,
        9: 2.097847961257068,
        13: 5.371920351148152,
    },
}


def _expm(a: Any, upper_triangular: bool, max_squarings: int) -> Any:
    real = np.zeros((), typeof(a).dtype).real.dtype
    theta = _THETA.get(real, _THETA[np.dtype("float32")])
    norm = jnp.max(jnp.sum(jnp.abs(a), axis=-2))
    top = max(theta)
    squarings = jnp.maximum(0, jnp.ceil(jnp.log2(norm / theta[top])))
    squarings = jnp.where(jnp.isfinite(squarings), squarings, 0)
    scaled = a / (2.0**squarings).astype(typeof(a).dtype)
    u, v = _pade(scaled, norm, theta)
    p, q = u + v, v - u
    r = solve_triangular(q, p) if upper_triangular else np_linalg.solve(q, p)
    steps = squarings.astype(np.int32)

    def square(k: Any, held: Any) -> Any:
        return lax.cond(k < steps, lambda x: _mm(x, x), lambda x: x, held)

    # Half a squaring beyond `max_squarings` is rounded up for accuracy, and is not too many.
    r = fori_loop(0, max_squarings + 1, square, r)
    return jnp.where(jnp.log2(norm / theta[top]) >= max_squarings + 1, jnp.nan, r)


@functools.partial(jit, static_argnames=("upper_triangular", "max_squarings"))
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The matrix exponential, by scaling, a Pade approximant, and squaring; NaN if more than
    `max_squarings` are needed.

    >>> pb.scipy.linalg.expm(jnp.zeros((1, 1)))
    Array([[1.]], dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (A,) = _arrays("expm", A)
    shape = typeof(A).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Expected A to be a (batched) square matrix, got A.{shape=}. (expm, A: "
            f"{typeof(A).str_short()})"
        )
    if 0 in shape:
        return A
    if dtypes.itemsize_bits(typeof(A).dtype) < 32:
        # What the approximants' coefficients are too large for.
        wide = A.astype(np.float32)
        out = expm(wide, upper_triangular=upper_triangular, max_squarings=max_squarings)
        return out.astype(typeof(A).dtype)
    run = functools.partial(
        _expm, upper_triangular=upper_triangular, max_squarings=operator.index(max_squarings)
    )
    for _ in range(len(shape) - 2):
        run = vmap(run)  # type: ignore[assignment]
    return run(A)


@functools.partial(jit, static_argnames=("method", "compute_expm"))
def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """(expm(A), its derivative in the direction E); the derivative alone without `compute_expm`.

    Raises ValueError for shapes that differ, or an unknown method.

    `A`, `E`: (n, n), float or complex. As `scipy.linalg.expm_frechet`.

    >>> from pullback.scipy import linalg
    >>> linalg.expm_frechet(jnp.zeros((2, 2)), jnp.eye(2), compute_expm=False).round(3)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    A, E = jnp.asarray(A), jnp.asarray(E)
    if typeof(A).ndim < 2 or typeof(A).shape[-1] != typeof(A).shape[-2]:
        raise ValueError(f"expected A to be a square matrix, got A.shape={typeof(A).shape}")
    if typeof(A).shape != typeof(E).shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={typeof(A).shape} "
            f"E.shape={typeof(E).shape}"
        )
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet: method is 'SPS' or 'blockEnlarge', got {method=}")
    value, change = jvp(expm, (A,), (E,))
    return (value, change) if compute_expm else change


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """func of a matrix, from func of its eigenvalues, by the Schur-Parlett recurrence; without
    `disp`, (the matrix, an error estimate).

    `A`: (n, n), with distinct eigenvalues; `func` maps arrays elementwise. The result is complex.
    As `scipy.linalg.funm`.

    >>> from pullback.scipy import linalg
    >>> linalg.funm(jnp.array([[1., 2.], [0., 4.]]), jnp.sqrt).real.round(3)
    Array([[1.   , 0.667],
           [0.   , 2.   ]], dtype=float32)
    """
    A = jnp.asarray(A)
    if typeof(A).ndim != 2 or typeof(A).shape[0] != typeof(A).shape[1]:
        raise ValueError("expected square array_like input")
    t, z = schur(A, output="complex")
    f = jnp.diag(func(jnp.diag(t)))
    n = typeof(A).shape[0]
    least = jnp.abs(t[0, 0])
    for p in range(1, n):
        for i in range(n - p):
            j = i + p
            s = t[i, j] * (f[j, j] - f[i, i])
            s = (
                s
                + jnp.dot(t[i, i + 1 : j], f[i + 1 : j, j])
                - jnp.dot(f[i, i + 1 : j], t[i + 1 : j, j])
            )
            gap = t[j, j] - t[i, i]
            f = f.at[i, j].set(jnp.where(gap == 0, s, s / jnp.where(gap == 0, 1, gap)))
            least = jnp.minimum(least, jnp.abs(gap))
    f = _mm(_mm(z, f), _h(z))
    if disp:
        return f
    tol = jnp.finfo(typeof(f).dtype).eps
    least = jnp.where(least == 0, tol, least)
    err = jnp.minimum(
        jnp.max(jnp.stack([jnp.asarray(tol), (tol / least) * np_linalg.norm(jnp.triu(t, 1), 1)])), 1
    )
    return f, jnp.where(jnp.any(~jnp.isfinite(f)), np.inf, err)


@jit
def _sqrtm(a: Any) -> Any:
    t, z = schur(a, output="complex")
    n = typeof(t).shape[0]
    root = jnp.diag(jnp.sqrt(jnp.diag(t)))

    def column(j: int, root: Any) -> Any:
        def row(k: Any, held: Any) -> Any:
            i = j - 1 - k
            between = (jnp.arange(n) > i) & (jnp.arange(n) < j)
            s = jnp.sum(jnp.where(between, held[i, :] * held[:, j], 0))
            denominator = held[i, i] + held[j, j]
            value = t[i, j] - s
            value = jnp.where(value == 0, 0, value / jnp.where(value == 0, 1, denominator))
            return held.at[i, j].set(value)

        return fori_loop(0, j, row, root)

    for j in range(1, n):
        root = column(j, root)
    return _mm(_mm(z, root), _h(z))


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The principal square root of a matrix, complex.

    Raises NotImplementedError for a block size above 1.

    `A`: (n, n). As `scipy.linalg.sqrtm`.

    >>> from pullback.scipy import linalg
    >>> linalg.sqrtm(jnp.array([[4., 5.], [0., 9.]])).real.round(3)
    Array([[2., 1.],
           [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    (A,) = _arrays("sqrtm", A)
    return _sqrtm(A)


@functools.partial(jit, static_argnames=("side", "method", "eps", "max_iterations"))
def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """(U, P) with a = U P ("right") or P U ("left"), U with orthonormal columns (or rows), P
    positive semidefinite.

    Raises ValueError for another side or method.

    `a`: (..., m, n), float or complex. As `scipy.linalg.polar`.

    >>> from pullback.scipy import linalg
    >>> u, p = linalg.polar(jnp.array([[0., -2.], [2., 0.]]))
    >>> u.round(3), p.round(3)
    (Array([[-0., -1.],
           [ 1.,  0.]], dtype=float32), Array([[2., 0.],
           [0., 2.]], dtype=float32))
    """
    (a,) = _from_lists(a)
    if typeof(a).ndim < 2:
        raise ValueError("The input `a` must be a 2-D array, or a stack of them.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    w, s, vh = np_linalg.svd(a, full_matrices=False)
    s = s.astype(typeof(a).dtype)[..., None, :]
    u = _mm(w, vh)
    p = _mm(_h(vh) * s, vh) if side == "right" else _mm(w * s, _h(w))
    return u, p


@functools.partial(jit, static_argnames=("method", "tol"))
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Any:
    """The X with A X + X B = C; NaN where A and -B share an eigenvalue (to `tol`).

    Raises ValueError for shapes that do not fit, or a method other than "schur" and "eigen".

    `A`: (..., m, m), `B`: (..., n, n), `C`: (..., m, n), as is the result. As
    `scipy.linalg.solve_sylvester`.

    >>> from pullback.scipy import linalg
    >>> linalg.solve_sylvester(jnp.array([[2.]]), jnp.array([[3.]]), jnp.array([[10.]])).round(3)
    Array([[2.]], dtype=float32)
    """
    A, B, C = _from_lists(A, B, C)
    m, n = typeof(C).shape[-2:]
    if typeof(A).shape[-2:] != (m, m) or typeof(B).shape[-2:] != (n, n):
        raise ValueError(
            f"Incompatible shapes: A.shape={typeof(A).shape}, B.shape={typeof(B).shape}, "
            f"C.shape={typeof(C).shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(f"Unknown method {method}")
    return _in_stacks(functools.partial(_sylvester, tol=tol), A, B, C)


def _sylvester(A: Any, B: Any, C: Any, tol: float) -> Any:
    m, n = typeof(C).shape
    dtype = typeof(C).dtype
    r, u = schur(A, output="complex")
    s, v = schur(_h(B), output="complex")
    f = _mm(_mm(_h(u), C.astype(typeof(u).dtype)), v)
    # B^H = V S V^H, so B = V S^H V^H: columns of R Y + Y S^H = F are solved from the last, whose
    # equation stands alone.
    y = jnp.zeros_like(f)
    sh = _h(s)
    eye = jnp.eye(m, dtype=typeof(f).dtype)
    gap = jnp.min(jnp.abs(jnp.diag(r)[:, None] + jnp.diag(sh)[None, :]))
    for k in range(n - 1, -1, -1):
        rhs = f[:, k] - (_mm(y[:, k + 1 :], sh[k + 1 :, k]) if k + 1 < n else 0)
        y = y.at[:, k].set(solve_triangular(r + sh[k, k] * eye, rhs))
    x = _mm(_mm(u, y), _h(v))
    x = x if dtypes.is_complex(dtype) else x.real.astype(dtype)
    return jnp.where(gap <= tol, jnp.nan, x)


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> Any:
    """(c Q, R), or (Q c, R) for mode "left", of the QR factorisation of `a`; with `pivoting` also
    the permutation.

    `a`: (m, n), `c`: a vector, or a matrix with m columns (rows, for mode "left"). As
    `scipy.linalg.qr_multiply`.

    >>> from pullback.scipy import linalg
    >>> a = jnp.array([[3., 1.], [4., 2.]])
    >>> cq, r = linalg.qr_multiply(a, jnp.eye(2))
    >>> jnp.allclose(cq @ r, a, atol=1e-5)
    Array(True, dtype=bool)
    """
    if mode not in ("right", "left"):
        raise ValueError(f"Unsupported mode '{mode}'; must be 'left' or 'right'.")
    a, c = _arrays("qr_multiply", a, c)
    vector = typeof(c).ndim == 1
    matrix = (c[None, :] if mode == "right" else c[:, None]) if vector else c
    m, n = typeof(a).shape
    rows = typeof(matrix).shape[0 if mode == "left" else 1]
    if rows not in ((m,) if mode == "right" else (m, min(m, n))):
        raise ValueError(
            f"qr_multiply: c of shape {typeof(c).shape} does not fit Q of a, whose shape is "
            f"{typeof(a).shape}, for mode={mode!r}"
        )
    out = qr(
        a, mode="economic" if mode == "right" or rows == min(m, n) else "full", pivoting=pivoting
    )
    q = jnp.conj(out[0]) if conjugate else out[0]
    r = out[1][: min(m, n)]
    product = _mm(matrix, q) if mode == "right" else _mm(q, matrix)
    return (product.ravel() if vector else product, r, *out[2:])


# --- special matrices ---
@jit
def block_diag(*arrs: Any) -> Any:
    """The matrix with these blocks along its diagonal; vectors are rows.

    >>> pb.scipy.linalg.block_diag(1., jnp.ones((1, 2)))
    Array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)

    Raises ValueError for a block of more than two axes.
    """
    check_arraylike("block_diag", *arrs)
    blocks = [jnp.asarray(a) for a in (arrs or (jnp.zeros((1, 0)),))]
    bad = [k for k, a in enumerate(blocks) if typeof(a).ndim > 2]
    if bad:
        raise ValueError(
            "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got "
            f"{blocks[bad[0]]} at argument {bad[0]}."
        )
    kind = jnp.result_type(*blocks)
    blocks = [jnp.atleast_2d(a).astype(kind) for a in blocks]
    columns = sum(typeof(a).shape[1] for a in blocks)
    rows, at = [], 0
    for a in blocks:
        w = typeof(a).shape[1]
        rows.append(lax.pad(a, np.zeros((), kind)[()], ((0, 0, 0), (at, columns - at - w, 0))))
        at += w
    return jnp.concatenate(rows, axis=0)


def _vectorised(fun: Callable[..., Any], *args: Any) -> Any:
    """Applies a function of vectors along the last axes, the other axes broadcast."""
    batch = jnp.broadcast_shapes(*(typeof(a).shape[:-1] for a in args))
    args = tuple(jnp.broadcast_to(a, (*batch, typeof(a).shape[-1])) for a in args)
    for _ in batch:
        fun = vmap(fun)
    return fun(*args)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals: first column `c`, first row `r` (by default conj(c)).

    `c`: (..., m), `r`: (..., n), of which the first element is not read; the result is (..., m, n).
    As `scipy.linalg.toeplitz`.

    >>> from pullback.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([1, 7]))
    Array([[1, 7],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    check_arraylike("toeplitz", c, c if r is None else r)
    c = jnp.atleast_1d(jnp.asarray(c))
    r = jnp.conj(c) if r is None else jnp.atleast_1d(jnp.asarray(r))
    n, m = typeof(c).shape[-1], typeof(r).shape[-1]
    kind = jnp.result_type(c, r)
    index = np.arange(n)[:, None] - np.arange(m)[None, :] + (m - 1)

    def one(c: Any, r: Any) -> Any:
        return jnp.concatenate([jnp.flip(r)[: max(m - 1, 0)], c])[index]

    return _vectorised(one, c.astype(kind), r.astype(kind))


def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with constant anti-diagonals: first column `c`, last row `r` (by default 0).

    `c`: (m,), `r`: (n,), of which the first element is not read; the result is (m, n). As
    `scipy.linalg.hankel`.

    >>> from pullback.scipy import linalg
    >>> linalg.hankel(jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    check_arraylike("hankel", c, c if r is None else r)
    for name, v in (("c", c), ("r", c if r is None else r)):
        if not jnp.ndim(v):
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    c = jnp.asarray(c)
    r = jnp.zeros_like(c) if r is None else jnp.asarray(r)
    n, m = typeof(c).shape[-1], typeof(r).shape[-1]
    kind = jnp.result_type(c, r)
    index = np.arange(n)[:, None] + np.arange(m)[None, :]
    return _vectorised(
        lambda c, r: jnp.concatenate([c, r[1:]])[index], c.astype(kind), r.astype(kind)
    )


def circulant(c: Any) -> Any:
    """The matrix whose columns are the rotations of `c`.

    `c`: (..., n); the result is (..., n, n). As `scipy.linalg.circulant`.

    >>> from pullback.scipy import linalg
    >>> linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    check_arraylike("circulant", c)
    c = jnp.atleast_1d(jnp.asarray(c))
    n = typeof(c).shape[-1]
    index = (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1)
    return _vectorised(lambda c: c[index], c)


def companion(a: Any) -> Any:
    """The companion matrix of a polynomial (highest power first).

    `a`: (n + 1,), numbers of which the first is not 0; the result is (n, n). As
    `scipy.linalg.companion`.

    >>> from pullback.scipy import linalg
    >>> linalg.companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = jnp.atleast_1d(_arrays("companion", a)[0])
    n = typeof(a).shape[-1]
    if n < 2:
        raise ValueError(
            "The length of `a` along the last axis must be at least 2; got shape "
            f"{typeof(a).shape}."
        )
    return _vectorised(
        lambda a: jnp.diag(jnp.ones(n - 2, typeof(a).dtype), -1).at[0].set(-a[1:] / a[0]), a
    )


def fiedler(a: Any) -> Any:
    """The matrix of |a_i - a_j|.

    `a`: (..., n); the result is (..., n, n). As `scipy.linalg.fiedler`.

    >>> from pullback.scipy import linalg
    >>> linalg.fiedler(jnp.array([1, 4, 9]))
    Array([[0, 3, 8],
           [3, 0, 5],
           [8, 5, 0]], dtype=int32)
    """
    check_arraylike("fiedler", a)
    a = jnp.atleast_1d(jnp.asarray(a))
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """The pentadiagonal companion matrix of a polynomial (highest power first).

    `a`: (n + 1,); the result is (n, n). As `scipy.linalg.fiedler_companion`.

    >>> from pullback.scipy import linalg
    >>> linalg.fiedler_companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = jnp.atleast_1d(_arrays("fiedler_companion", a)[0])
    if not typeof(a).shape[-1]:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an "
            f"array of shape {typeof(a).shape}."
        )
    a = a / a[..., :1]
    n = typeof(a).shape[-1] - 1
    if n < 1:
        return a[..., :0, None][..., :0]

    def one(a: Any) -> Any:
        if n == 1:
            return -a[1:2][None]
        c = jnp.zeros((n, n), typeof(a).dtype)
        up = np.arange(0, n - 2, 2)
        c = c.at[up, up + 2].set(1)
        down = np.arange(1, n - 2, 2)
        c = c.at[down + 2, down].set(1)
        even = np.arange(0, n - 1, 2)
        c = c.at[even, even + 1].set(-a[even + 2])
        odd = np.arange(1, n - 1, 2)
        c = c.at[odd + 1, odd].set(-a[odd + 2])
        c = c.at[0, 0].set(-a[1])
        return c.at[1, 0].set(1)

    return _vectorised(one, a)


def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix: fecundities `f` in the first row, survival rates `s` below the
    diagonal.

    `f`: (n,), `s`: (n - 1,); the result is (n, n). Raises ValueError for other sizes. As
    `scipy.linalg.leslie`.

    >>> from pullback.scipy import linalg
    >>> linalg.leslie(jnp.array([0., 2.]), jnp.array([0.5]))
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    check_arraylike("leslie", f, s)
    f, s = (jnp.atleast_1d(v) for v in promote_dtypes(f, s))
    n = typeof(f).shape[-1]
    if n < 2:
        raise ValueError(
            f"The length of f along the last axis must be at least 2; got shape {typeof(f).shape}."
        )
    if typeof(s).shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less "
            f"than the length of f; got f shape {typeof(f).shape} and s shape {typeof(s).shape}."
        )
    return _vectorised(lambda f, s: jnp.diag(s, -1).at[0].set(f), f, s)


@functools.partial(jit, static_argnames=("n", "mode"))
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix that convolves vectors of size n with `a`.

    `a`: (m,); `mode`: "full", "same" or "valid", as for `numpy.convolve`: ValueError for another.
    As `scipy.linalg.convolution_matrix`.

    >>> from pullback.scipy import linalg
    >>> linalg.convolution_matrix(jnp.array([1, 2]), 3)
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1],
           [0, 0, 2]], dtype=int32)
    """
    a = jnp.asarray(a)
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if not typeof(a).ndim:
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got a scalar.")
    if typeof(a).shape[-1] == 0:
        raise ValueError("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of ('full', 'valid', 'same'); got {mode!r}")
    k = typeof(a).shape[-1]
    full = _vectorised(
        lambda v: toeplitz(
            jnp.concatenate([v, jnp.zeros(n - 1, typeof(v).dtype)]),
            jnp.concatenate([v[:1], jnp.zeros(n - 1, typeof(v).dtype)]),
        ),
        a,
    )
    if mode == "full":
        return full
    trim = min(n, k) - 1
    if mode == "same":
        low = trim // 2
        return full[..., low : low + max(n, k), :]
    return full[..., trim : n + k - 1 - trim, :]


@functools.partial(jit, static_argnames=("n", "scale", "dtype"))
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform; `scale` None, "sqrtn" or "n" divides by 1,
    sqrt(n) or n.

    `n`: a Python int; the result is complex, (n, n). Raises ValueError for another scale. As
    `scipy.linalg.dft`.

    >>> from pullback.scipy import linalg
    >>> linalg.dft(2).real.round(3)
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; {scale!r} is not valid.")
    kind = dtypes.canonicalize_dtype(np.complex128 if dtype is None else dtype)
    if not dtypes.is_complex(kind):
        raise ValueError(f"dtype must be a complex floating-point type; got {kind.name}.")
    power = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    m = np.exp(-2j * np.pi * power / max(n, 1))
    m = m / (math.sqrt(n) if scale == "sqrtn" else n if scale == "n" else 1)
    return jnp.asarray(m, dtype=kind)


@functools.partial(jit, static_argnames=("n", "dtype"))
def hadamard(n: int, dtype: Any = int) -> Any:
    """The Hadamard matrix of size n, a power of 2.

    `n`: a Python int: ValueError unless it is a power of 2. As `scipy.linalg.hadamard`.

    >>> from pullback.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n < 1 or int(n) != n or int(n) & (int(n) - 1):
        raise ValueError(f"hadamard: n must be a positive power of 2; got {n}")
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return jnp.asarray(h, dtype=dtypes.canonicalize_dtype(dtype))


@functools.partial(jit, static_argnames=("n", "full"))
def helmert(n: int, full: bool = False) -> Any:
    """The Helmert matrix of size n; without `full`, without its first row.

    `n`: a Python int; the result is (n - 1, n), or (n, n). As `scipy.linalg.helmert`.

    >>> from pullback.scipy import linalg
    >>> linalg.helmert(3).round(3)
    Array([[ 0.707, -0.707,  0.   ],
           [ 0.408,  0.408, -0.816]], dtype=float32)
    """
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}")
    h = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    d = np.arange(n) * np.arange(1, n + 1)
    h[0], d[0] = 1, n
    h = h / np.sqrt(d)[:, None]
    return jnp.asarray(h if full else h[1:], dtype=dtypes.default_float())


@functools.partial(jit, static_argnames=("n",))
def hilbert(n: int) -> Any:
    """The Hilbert matrix, 1 / (i + j + 1).

    `n`: a Python int; the result is float, (n, n). As `scipy.linalg.hilbert`.

    >>> from pullback.scipy import linalg
    >>> linalg.hilbert(2).round(3)
    Array([[1.   , 0.5  ],
           [0.5  , 0.333]], dtype=float32)
    """
    k = np.arange(n)
    return jnp.asarray(1.0 / (k[:, None] + k[None, :] + 1), dtype=dtypes.default_float())


@functools.partial(jit, static_argnames=("n",))
def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix.

    `n`: a Python int; the result is float, (n, n). As `scipy.linalg.invhilbert`.

    >>> from pullback.scipy import linalg
    >>> linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """

    def entry(i: int, j: int) -> int:
        s = i + j
        return (  # type: ignore[no-any-return]
            (-1) ** s
            * (s + 1)
            * math.comb(n + i, n - j - 1)
            * math.comb(n + j, n - i - 1)
            * math.comb(s, i) ** 2
        )

    n = max(n, 0)
    return jnp.asarray(
        np.array([[float(entry(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n),
        dtype=dtypes.default_float(),
    )


def _pascal(n: int, kind: str | None, sign: int) -> Any:
    kind, n = "symmetric" if kind is None else kind, max(n, 0)
    if kind not in ("symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be on of: 'symmetric', 'lower', 'upper'.\nGot {kind=}")
    lower = np.array(
        [
            [float(math.comb(i, j)) * (sign if (i + j) % 2 else 1) for j in range(n)]
            for i in range(n)
        ]
    ).reshape(n, n)
    if kind == "lower":
        return lower
    if kind == "upper":
        return lower.T
    return lower @ lower.T if sign == 1 else lower.T @ lower


@functools.partial(jit, static_argnames=("n", "kind"))
def pascal(n: int, kind: str | None = None) -> Any:
    """The matrix of binomial coefficients, "symmetric", "lower" or "upper".

    `n`: a Python int; the result is (n, n). Raises ValueError for another kind. As
    `scipy.linalg.pascal`.

    >>> from pullback.scipy import linalg
    >>> linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    return jnp.asarray(_pascal(n, kind, 1), dtype=np.float32)


@functools.partial(jit, static_argnames=("n", "kind"))
def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of `pascal`.

    `n`: a Python int; the result is (n, n). Raises ValueError for another kind. As
    `scipy.linalg.invpascal`.

    >>> from pullback.scipy import linalg
    >>> linalg.invpascal(3, kind='lower')
    Array([[ 1., -0.,  0.],
           [-1.,  1., -0.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    return jnp.asarray(_pascal(n, kind, -1), dtype=dtypes.default_float())


__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "convolution_matrix",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "leslie",
    "lu",
    "lu_factor",
    "lu_solve",
    "pascal",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]
