"""Factorisations: Cholesky, LU, QR, Schur, Hessenberg, polar; singular values and eigenvalues."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...control.while_loop import fori_loop
from ...core.avals import typeof
from ...numpy import linalg as np_linalg
from ...numpy.linalg.common import adjoint, mm
from ...numpy.util import shown_as
from ...primitives import linalg as lax_linalg
from .common import arrays, from_lists, in_stacks


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
    (a,) = from_lists(a)
    if typeof(a).ndim < 2:  # the upper factor is of the transpose, which refuses them as values
        raise (TypeError if lower else ValueError)(
            "The input to cholesky must be a square matrix, or a stack of them, got a: "
            f"{typeof(a).str_short()}"
        )
    factor = lax_linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


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
    (a,) = from_lists(a)
    lu, pivots, _ = lax_linalg.lu(a)
    return lu, pivots


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
    (a,) = from_lists(a)
    return _lu(a, permute_l)


@functools.partial(jit, static_argnums=1)
def _lu(a: Any, permute_l: bool) -> Any:
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
    return (mm(p.astype(dtype), lower), upper) if permute_l else (p, lower, upper)


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
    (a,) = from_lists(a)
    return _svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


@functools.partial(jit, static_argnames=("lower", "eigvals_only"))
def _eigh(a: Any, b: Any, lower: bool, eigvals_only: bool) -> Any:
    (a,) = from_lists(a)
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
        raise NotImplementedError(
            "Only the b=None case of eigh is implemented. Fix: with l = cholesky(b, lower=True), "
            "eigh of l^-1 a l^-H (two times solve_triangular) has the same eigenvalues."
        )
    if type != 1:
        raise NotImplementedError(
            f"Only the type=1 case of eigh is implemented. It was given type={type}. Fix: leave it "
            "out; types differ with b alone."
        )
    if eigvals is not None:
        raise NotImplementedError(
            "Only the eigvals=None case of eigh is implemented. Fix: w, v = eigh(a), then "
            "w[low : high + 1] and v[:, low : high + 1]."
        )
    return _eigh(a, b, lower, eigvals_only)


@functools.partial(jit, static_argnames=("mode", "pivoting"))
def _qr(a: Any, mode: str, pivoting: bool) -> Any:
    (a,) = from_lists(a)
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
    (a,) = arrays("schur", a)
    if output == "complex" and not dtypes.is_complex(typeof(a).dtype):
        a = a.astype(np.complex128 if typeof(a).dtype == np.float64 else np.complex64)
    return lax_linalg.schur(a)


@functools.partial(jit, static_argnames=("calc_q", "overwrite_a", "check_finite"))
def hessenberg(
    a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form H of a = Q H Q^H; with `calc_q`, (H, Q).

    `a`: (..., n, n), any numbers (integers are converted to float). Raises ValueError unless the
    matrices are square, TypeError for vectors, IndexError for scalars. As
    `scipy.linalg.hessenberg`.

    >>> from pullback.scipy import linalg
    >>> h = linalg.hessenberg(jnp.array([[1., 2., 3.], [4., 5., 6.], [7., 8., 10.]]))
    >>> h[2, 0]
    Array(0., dtype=float32)
    """
    a = jnp.asarray(a)
    if not typeof(a).ndim:
        raise IndexError(f"hessenberg needs a matrix, got a: {typeof(a).str_short()}")
    if not typeof(a).shape[-1]:
        return (jnp.zeros_like(a), jnp.zeros_like(a)) if calc_q else jnp.zeros_like(a)
    (a,) = arrays("hessenberg", a)
    packed, taus = lax_linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    inner = lax_linalg.householder_product(packed[..., 1:, :-1], taus)
    *batch, n = typeof(a).shape[:-1]
    dtype = typeof(a).dtype
    one, row = jnp.ones((*batch, 1, 1), dtype), jnp.zeros((*batch, 1, n - 1), dtype)
    return h, jnp.block([[one, row], [jnp.zeros((*batch, n - 1, 1), dtype), inner]])


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
    T, Z = from_lists(T, Z)
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
    t, z = in_stacks(_triangular_form, T.astype(kind), Z.astype(kind))
    return t, z


@jit
@shown_as("_rsf2csf_2d")
def _triangular_form(T: Any, Z: Any) -> tuple[Any, Any]:
    """One rotation for each element below the diagonal, from the last. A rotation reaches columns
    from its own and rows up to its own: what else a general matrix has there stays, as in SciPy.
    """
    n, kind = typeof(T).shape[-1], typeof(T).dtype
    eps, at = float(np.finfo(kind).eps), jnp.arange(n)

    def turn(step: Any, state: Any) -> Any:
        T, Z = state
        m = n - 1 - step
        k = m - 1
        block = lax.dynamic_slice(T, (k, k), (2, 2))
        below = block[1, 0]
        significant = jnp.abs(below) > eps * (jnp.abs(block[0, 0]) + jnp.abs(block[1, 1]))
        mu = np_linalg.eigvals(block)[0] - block[1, 1]
        r = jnp.hypot(jnp.abs(mu), jnp.abs(below))
        r = jnp.where(r == 0, 1, r).astype(kind)
        c, s = mu / r, below / r
        g = jnp.stack([jnp.stack([jnp.conj(c), s]), jnp.stack([-s, c])])
        g = jnp.where(significant, g, jnp.eye(2, dtype=kind))
        rows = lax.dynamic_slice(T, (k, 0), (2, n))
        rows = jnp.where(at[None] >= k, mm(g, rows), rows)
        T = lax.dynamic_update_slice(T, rows, (k, 0))
        columns = lax.dynamic_slice(T, (0, k), (n, 2))
        columns = jnp.where(at[:, None] <= m, mm(columns, adjoint(g)), columns)
        columns = jnp.where((at[:, None] == m) & (jnp.arange(2)[None] == 0), 0, columns)
        T = lax.dynamic_update_slice(T, columns, (0, k))
        turned = mm(lax.dynamic_slice(Z, (0, k), (n, 2)), adjoint(g))
        return T, lax.dynamic_update_slice(Z, turned, (0, k))

    T, Z = fori_loop(0, max(n - 1, 0), turn, (T, Z))
    return T, Z


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
        raise ValueError(f"select must have a value in {{'a', 'i', 'v'}}, got {select!r}")
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
        if select_range is None:
            raise ValueError("for select='i', select_range must be specified: (first, last).")
        if select_range[0] > select_range[1]:
            raise ValueError("Got invalid select_range: it must be (first, last) positions.")
        first, last = int(select_range[0]), int(select_range[1])
        w, v = w[first : last + 1], v[:, first : last + 1]
    return w if eigvals_only else (w, v)


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
    (a,) = from_lists(a)
    if typeof(a).ndim < 2:
        raise ValueError("The input `a` must be a 2-D array, or a stack of them.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    return _polar_2d(a, side)  # type: ignore[no-any-return]


@functools.partial(jit, static_argnums=1)
def _polar_2d(a: Any, side: str) -> tuple[Any, Any]:
    w, s, vh = np_linalg.svd(a, full_matrices=False)
    s = s.astype(typeof(a).dtype)[..., None, :]
    u = mm(w, vh)
    p = mm(adjoint(vh) * s, vh) if side == "right" else mm(w * s, adjoint(w))
    return u, p


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

    `a`: (..., m, n), `c`: a vector, or matrices with m columns (rows, for mode "left"); stacks
    are broadcast. As `scipy.linalg.qr_multiply`.

    >>> from pullback.scipy import linalg
    >>> a = jnp.array([[3., 1.], [4., 2.]])
    >>> cq, r = linalg.qr_multiply(a, jnp.eye(2))
    >>> jnp.allclose(cq @ r, a, atol=1e-5)
    Array(True, dtype=bool)
    """
    if mode not in ("right", "left"):
        raise ValueError(f"Unsupported mode '{mode}'; must be 'left' or 'right'.")
    a, c = arrays("qr_multiply", a, c)
    vector = typeof(c).ndim == 1
    matrix = (c[None, :] if mode == "right" else c[:, None]) if vector else c
    *batch, m, n = typeof(a).shape
    rows = typeof(matrix).shape[-2 if mode == "left" else -1]
    if rows not in ((m,) if mode == "right" else (m, min(m, n))):
        raise ValueError(
            f"qr_multiply: c of shape {typeof(c).shape} does not fit Q of a, whose shape is "
            f"{typeof(a).shape}, for mode={mode!r}"
        )
    stack = jnp.broadcast_shapes(tuple(batch), typeof(matrix).shape[:-2])
    a, matrix = (jnp.broadcast_to(x, (*stack, *typeof(x).shape[-2:])) for x in (a, matrix))
    out = qr(
        a, mode="economic" if mode == "right" or rows == min(m, n) else "full", pivoting=pivoting
    )
    q = jnp.conj(out[0]) if conjugate else out[0]
    r = out[1][..., : min(m, n), :]
    product = mm(matrix, q) if mode == "right" else mm(q, matrix)
    return (product.ravel() if vector else product, r, *out[2:])
