"""Systems of linear equations, by matrices or by their factors; Sylvester's equation; inverses and
determinants.
"""

from __future__ import annotations

import functools
from typing import Any

from ... import dtypes, numpy as jnp
from ...api.jit import jit
from ...core.avals import typeof
from ...lax.jitted import lu_solve as lu_solve_permuted
from ...numpy import linalg as np_linalg
from ...numpy.core_axes import check_core
from ...numpy.linalg.common import adjoint, mm
from ...numpy.util import shown_as
from ...primitives import linalg as lax_linalg
from .common import arrays, from_lists, in_stacks
from .factor import cho_factor, schur


def _as_columns(name: str, a: Any, b: Any) -> tuple[Any, bool]:
    """A vector, or a stack of them, as matrices of one column, and whether it was one. ValueError
    unless it fits the square matrices `a`."""
    shape, m = typeof(b).shape, typeof(a).shape[-1:]
    vector = len(shape) == 1 or (len(shape) == typeof(a).ndim - 1 and shape[-1:] == m)
    axes = "(n)" if vector else "(n,k)"
    check_core(name, f"(n,n),{axes}->{axes}", a, b)
    return (b[..., None] if vector else b), vector


@functools.partial(jit, static_argnames=("lower",))
def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    c, b = from_lists(c, b)
    b, vector = _as_columns("cho_solve", c, b)
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
    lu, b = from_lists(lu, b)
    b, vector = _as_columns("lu_solve", lu, b)
    m = typeof(lu).shape[-2]
    permutation = lax_linalg.lu_pivots_to_permutation(jnp.asarray(pivots), m)
    batch = jnp.broadcast_shapes(typeof(lu).shape[:-2], typeof(b).shape[:-2])
    lu = jnp.broadcast_to(lu, (*batch, m, m))
    b = jnp.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    permutation = jnp.broadcast_to(permutation, (*batch, m))
    x = lu_solve_permuted(lu, permutation, b, trans)
    return x[..., 0] if vector else x


@functools.partial(jit, static_argnames=("trans", "lower", "unit_diagonal"))
def _solve_triangular(a: Any, b: Any, trans: Any, lower: bool, unit_diagonal: bool) -> Any:
    a, b = from_lists(a, b)
    if trans not in (0, "N", 1, "T", 2, "C"):
        raise ValueError(f"Invalid 'trans' value {trans}")
    transpose, conj = trans in (1, "T", 2, "C"), trans in (2, "C")
    b, vector = _as_columns("solve_triangular", a, b)
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
    a, b = arrays("solve", a, b)
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
    a, b = from_lists(a, b)
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
    A, B, C = from_lists(A, B, C)
    m, n = typeof(C).shape[-2:]
    if typeof(A).shape[-2:] != (m, m) or typeof(B).shape[-2:] != (n, n):
        raise ValueError(
            f"Incompatible shapes: A.shape={typeof(A).shape}, B.shape={typeof(B).shape}, "
            f"C.shape={typeof(C).shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(f"Unknown method {method}")
    return in_stacks(functools.partial(_sylvester, tol=tol), A, B, C)


@functools.partial(jit, static_argnames=("tol",))
@shown_as("_solve_sylvester_2d")
def _sylvester(A: Any, B: Any, C: Any, tol: float) -> Any:
    m, n = typeof(C).shape
    dtype = typeof(C).dtype
    r, u = schur(A, output="complex")
    s, v = schur(adjoint(B), output="complex")
    f = mm(mm(adjoint(u), C.astype(typeof(u).dtype)), v)
    # B^H = V S V^H, so B = V S^H V^H: columns of R Y + Y S^H = F are solved from the last, whose
    # equation stands alone.
    y = jnp.zeros_like(f)
    sh = adjoint(s)
    eye = jnp.eye(m, dtype=typeof(f).dtype)
    gap = jnp.min(jnp.abs(jnp.diag(r)[:, None] + jnp.diag(sh)[None, :]))
    for k in range(n - 1, -1, -1):
        rhs = f[:, k] - (mm(y[:, k + 1 :], sh[k + 1 :, k]) if k + 1 < n else 0)
        y = y.at[:, k].set(solve_triangular(r + sh[k, k] * eye, rhs))
    x = mm(mm(u, y), adjoint(v))
    x = x if dtypes.is_complex(dtype) else x.real.astype(dtype)
    return jnp.where(gap <= tol, jnp.nan, x)
