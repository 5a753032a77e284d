"""Solvers of linear systems that need only products with the matrix: conjugate gradients, GMRES,
BiCGStab. Vectors may be pytrees.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp, tree
from ...api.staging import make_jaxpr
from ...control.while_loop import while_loop
from ...core.avals import typeof
from ...numpy.util import is_arraylike, to_type

__all__ = ["bicgstab", "cg", "gmres"]

_dot = functools.partial(jnp.dot, precision=lax.Precision.HIGHEST)


def _vdot(x: Any, y: Any) -> Any:
    """The inner product of two trees."""
    parts = [
        jnp.vdot(a, b, precision=lax.Precision.HIGHEST)
        for a, b in zip(tree.leaves(x), tree.leaves(y), strict=True)
    ]
    return functools.reduce(operator.add, parts)


def _vdot_real(x: Any, y: Any) -> Any:
    value = _vdot(x, y)
    return value.real if dtypes.is_complex(typeof(value).dtype) else value


def _norm(x: Any) -> Any:
    return jnp.sqrt(_vdot_real(x, x))


def _add(x: Any, y: Any) -> Any:
    return tree.map(operator.add, x, y)


def _sub(x: Any, y: Any) -> Any:
    return tree.map(operator.sub, x, y)


def _scale(c: Any, x: Any) -> Any:
    return tree.map(lambda v: c * v, x)


def _operator(A: Any) -> Callable[[Any], Any]:
    if callable(A):
        return A  # type: ignore[no-any-return]
    sparse = hasattr(A, "todense") and hasattr(A, "__matmul__")
    if not (sparse or (is_arraylike(A) and not isinstance(A, bool | int | float | np.generic))):
        raise TypeError(f"linear operator must be either a function or ndarray: {A}")
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {A.shape}")
    return (lambda v: A @ v) if sparse else functools.partial(_dot, jnp.asarray(A))


def _as_weak_as(A: Any, b: Any, x0: Any) -> Callable[[Any], Any]:
    """What makes a solution weakly typed if all that it is computed from is."""
    given = tree.leaves((b, b if x0 is None else x0))
    if not callable(A) or not all(typeof(v).weak_type for v in given):
        return lambda x: x
    outs = make_jaxpr(A)(b).out_avals
    weak = all(out.weak_type for out in outs)
    return lambda x: tree.map(lambda v: to_type(v, typeof(v).dtype, weak), x)


def _prepare(A: Any, b: Any, x0: Any, maxiter: int | None, M: Any) -> Any:
    b = tree.map(jnp.asarray, b)
    x0 = tree.map(jnp.zeros_like, b) if x0 is None else tree.map(jnp.asarray, x0)
    size = sum(int(np.prod(typeof(v).shape, dtype=np.int64)) for v in tree.leaves(b))
    maxiter = 10 * size if maxiter is None else maxiter
    product = _operator(A)
    precondition = (lambda v: v) if M is None else _operator(M)
    if tree.structure(x0) != tree.structure(b):
        raise ValueError(
            f"x0 and b must have matching tree structure: {tree.structure(x0)} vs "
            f"{tree.structure(b)}"
        )
    shapes = [[typeof(v).shape for v in tree.leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}"
        )
    # The iterates have the dtype that a step gives them.
    kind = jnp.result_type(*tree.leaves(b), *tree.leaves(x0), float)
    b, x0 = (tree.map(lambda v: v.astype(jnp.result_type(kind, v)), t) for t in (b, x0))
    return product, b, x0, maxiter, precondition


def _cg_solve(A: Any, b: Any, x0: Any, maxiter: int, tol: Any, atol: Any, M: Any) -> Any:
    limit = jnp.maximum(jnp.square(tol) * _vdot_real(b, b), jnp.square(atol))

    def running(state: Any) -> Any:
        _, r, gamma, _, k = state
        size = gamma if M is _identity else _vdot_real(r, r)
        return (size > limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        ap = A(p)
        alpha = gamma / _vdot_real(p, ap).astype(typeof(gamma).dtype)
        x = _add(x, _scale(alpha, p))
        r = _sub(r, _scale(alpha, ap))
        z = M(r)
        new = _vdot_real(r, z).astype(typeof(gamma).dtype)
        return x, r, new, _add(z, _scale(new / gamma, p)), k + 1

    r0 = _sub(b, A(x0))
    z0 = M(r0)
    return while_loop(running, step, (x0, r0, _vdot_real(r0, z0), z0, 0))[0]


def _identity(v: Any) -> Any:
    return v


def _bicgstab_solve(A: Any, b: Any, x0: Any, maxiter: int, tol: Any, atol: Any, M: Any) -> Any:
    limit = jnp.maximum(jnp.square(tol) * _vdot_real(b, b), jnp.square(atol))

    def running(state: Any) -> Any:
        _, r, *_, k = state
        # k is negative after a breakdown.
        return (_vdot_real(r, r) > limit) & (k < maxiter) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, rhat, alpha, omega, rho, p, q, k = state
        new = _vdot(rhat, r)
        beta = new / rho * alpha / omega
        p = _add(r, _scale(beta, _sub(p, _scale(omega, q))))
        phat = M(p)
        q = A(phat)
        alpha = new / _vdot(rhat, q)
        s = _sub(r, _scale(alpha, q))
        early = _vdot_real(s, s) < limit
        shat = M(s)
        t = A(shat)
        omega = _vdot(t, s) / _vdot(t, t)
        half = _add(x, _scale(alpha, phat))
        x = tree.map(lambda a, c: jnp.where(early, a, c), half, _add(half, _scale(omega, shat)))
        r = tree.map(lambda a, c: jnp.where(early, a, c), s, _sub(s, _scale(omega, t)))
        broken = (omega == 0) | (alpha == 0)
        return x, r, rhat, alpha, omega, new, p, q, jnp.where(broken & ~early, -11, k + 1)

    r0 = _sub(b, A(x0))
    one = jnp.ones((), jnp.result_type(*tree.leaves(b)))
    state = (x0, r0, r0, one, one, one, r0, r0, jnp.array(0, np.int32))
    return while_loop(running, step, state)[0]


def _isolve(
    solve: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: int | None,
    M: Any,
    symmetric: bool,
) -> Any:
    product, b, x0, maxiter, precondition = _prepare(A, b, x0, maxiter, M)
    precondition = _identity if M is None else precondition

    def run(matvec: Any, rhs: Any) -> Any:
        return solve(matvec, rhs, x0, maxiter, tol, atol, precondition)

    symmetric = symmetric and all(not dtypes.is_complex(typeof(v).dtype) for v in tree.leaves(b))
    return lax.custom_linear_solve(
        product, b, solve=run, transpose_solve=run, symmetric=symmetric
    ), None


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> Any:
    """(x, None) with A x = b, for a Hermitian positive definite matrix or function `A`, by
    conjugate gradients.

    Stops when the residual is below max(tol |b|, atol), or after `maxiter` steps (by default 10
    times the size of b). `M` approximates the inverse of A.

    Raises ValueError for shapes or structures that do not fit.

    As `scipy.sparse.linalg.cg`; `b` may be a pytree.

    >>> from pullback.scipy.sparse.linalg import cg
    >>> cg(lambda x: 2 * x, jnp.array([4., 8.]))[0].round(3)
    Array([2., 4.], dtype=float32)
    """
    return _isolve(_cg_solve, A, b, x0, tol, atol, maxiter, M, True)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> Any:
    """(x, None) with A x = b, for any matrix or function `A`, by the stabilised biconjugate
    gradient method. Arguments as for `cg`.

    As `scipy.sparse.linalg.bicgstab`.

    >>> from pullback.scipy.sparse.linalg import bicgstab
    >>> bicgstab(jnp.array([[2., 1.], [0., 4.]]), jnp.array([4., 8.]))[0].round(3)
    Array([1., 2.], dtype=float32)
    """
    x, _ = _isolve(_bicgstab_solve, A, b, x0, tol, atol, maxiter, M, False)
    return _as_weak_as(A, b, x0)(x), None


# --- GMRES ---
def _flatten_like(b: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """(tree -> vector, vector -> tree) for trees like b."""
    leaves, treedef = tree.flatten(b)
    shapes = [typeof(v).shape for v in leaves]
    kinds = [typeof(v).dtype for v in leaves]
    sizes = [int(np.prod(s, dtype=np.int64)) for s in shapes]

    def ravel(t: Any) -> Any:
        return jnp.concatenate([jnp.ravel(v) for v in tree.leaves(t)])

    def unravel(v: Any) -> Any:
        parts, at = [], 0
        for n, s, d in zip(sizes, shapes, kinds, strict=True):
            parts.append(jnp.reshape(v[at : at + n], s).astype(d))
            at += n
        return tree.unflatten(treedef, parts)

    return ravel, unravel


def _orthogonal(basis: Any, w: Any) -> tuple[Any, Any, Any]:
    """What is left of a vector without its parts along the rows of `basis`, of length 1, or 0 if
    nothing is; those parts; and the length that it had, or 0."""
    before = jnp.linalg.norm(w)
    parts = jnp.zeros(typeof(basis).shape[0], typeof(w).dtype)
    for _ in range(2):
        # Gram-Schmidt twice is enough for orthogonality to working precision.
        part = _dot(jnp.conj(basis), w)
        w = w - _dot(part, basis)
        parts = parts + part
    size = jnp.linalg.norm(w)
    fresh = size > float(jnp.finfo(typeof(w).dtype).eps) * before
    w = jnp.where(fresh, w / jnp.where(fresh, size, 1).astype(typeof(w).dtype), 0)
    return w, parts, jnp.where(fresh, size, 0).astype(typeof(w).dtype)


def _gmres_cycle(
    matvec: Any, precondition: Any, b: Any, x: Any, restart: int, limit: Any
) -> tuple[Any, Any]:
    """One Arnoldi basis of `restart` vectors, and the least-squares solution in it: (x, norm of the
    residual).
    """
    n = typeof(b).shape[0]
    r = precondition(b - matvec(x))
    beta = jnp.linalg.norm(r)
    safe = jnp.where(beta == 0, 1, beta)
    basis = jnp.zeros((restart + 1, n), typeof(b).dtype).at[0].set(r / safe.astype(typeof(b).dtype))
    h = jnp.zeros((restart + 1, restart), typeof(b).dtype)

    def grow(k: Any, held: Any) -> Any:
        basis, h = held
        w, column, size = _orthogonal(basis, precondition(matvec(basis[k])))
        return basis.at[k + 1].set(w), h.at[:, k].set(column.at[k + 1].set(size))

    basis, h = lax.fori_loop(0, restart, grow, (basis, h))
    rhs = jnp.zeros(restart + 1, typeof(b).dtype).at[0].set(beta.astype(typeof(b).dtype))
    y = jnp.linalg.lstsq(h, rhs)[0]
    x = x + _dot(y, basis[:restart])
    return x, jnp.linalg.norm(precondition(b - matvec(x)))


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> Any:
    """(x, None) with A x = b, for any matrix or function `A`, by GMRES with bases of `restart`
    vectors, at most `maxiter` of them.

    Raises ValueError for shapes or structures that do not fit, or an unknown solve_method.

    As `scipy.sparse.linalg.gmres`; `b` may be a pytree.

    >>> from pullback.scipy.sparse.linalg import gmres
    >>> gmres(jnp.array([[2., 1.], [0., 4.]]), jnp.array([4., 8.]))[0].round(3)
    Array([1., 2.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )
    weakly = _as_weak_as(A, b, x0)
    product, b, x0, maxiter, precondition = _prepare(A, b, x0, maxiter, M)
    size = sum(int(np.prod(typeof(v).shape, dtype=np.int64)) for v in tree.leaves(b))
    restart = min(restart, size)
    ravel, unravel = _flatten_like(b)

    def run(matvec: Any, rhs: Any) -> Any:
        def flat_matvec(v: Any) -> Any:
            return ravel(matvec(unravel(v)))

        def flat_precondition(v: Any) -> Any:
            return ravel(precondition(unravel(v)))

        flat = ravel(rhs)
        limit = jnp.maximum(tol * jnp.linalg.norm(flat_precondition(flat)), atol)

        def running(state: Any) -> Any:
            _, k, residual = state
            return (k < maxiter) & (residual > limit)

        def step(state: Any) -> Any:
            x, k, _ = state
            x, residual = _gmres_cycle(flat_matvec, flat_precondition, flat, x, restart, limit)
            return x, k + 1, residual

        start = ravel(x0)
        residual = jnp.linalg.norm(flat_precondition(flat - flat_matvec(start)))
        return unravel(while_loop(running, step, (start, 0, residual))[0])

    x = lax.custom_linear_solve(product, b, solve=run, transpose_solve=run)
    failed = jnp.isnan(_norm(x))
    return weakly(x), jnp.where(failed, -1, 0)
