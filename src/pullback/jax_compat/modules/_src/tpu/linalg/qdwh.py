"""`jax._src.tpu.linalg.qdwh`: the polar decomposition, A = U H with U's columns orthonormal and H
positive semidefinite.

Halley's iteration with weights that are chosen anew in each step (Nakatsukasa, Bai and Gygi 2010):
three steps triple the digits of a bound on the least singular value, whatever it was.
"""

from __future__ import annotations

from typing import Any

from ...... import lax, numpy as jnp
from ......numpy import linalg


def _weights(bound: Any) -> tuple[Any, Any, Any]:
    """The weights of a step, for singular values between `bound` and 1."""
    square = bound * bound
    d = jnp.cbrt(4.0 * (1.0 / square - 1.0) / square)
    root = jnp.sqrt(1.0 + d)
    a = root + jnp.sqrt(8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * root)) / 2.0
    b = (a - 1.0) ** 2 / 4.0
    return a, b, a + b - 1.0


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """A step by the factors of [sqrt(c) U; I], stable for any weight."""
    m, n = u.shape
    stacked = jnp.concatenate([jnp.sqrt(c).astype(u.dtype) * u, jnp.eye(n, dtype=u.dtype)])
    q = linalg.qr(stacked)[0]
    mixed = q[:m] @ q[m:].T.conj()
    return (b / c) * u + (a - b / c) / jnp.sqrt(c) * mixed


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """A step by the factor of I + c U^H U, for small weights."""
    n = u.shape[1]
    x = c * (u.T.conj() @ u) + jnp.eye(n, dtype=u.dtype)
    y = linalg.solve(x, u.T.conj()).T.conj()
    return (b / c) * u + (a - b / c) * y


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """(U, H, how many steps were made, whether they converged) of a matrix of at least as many rows
    as columns. Only the corner of `dynamic_shape` counts, if it is given. ValueError for other
    matrices.
    """
    if x.shape[0] < x.shape[1]:
        raise ValueError(
            f"The input matrix of shape M x N must have M >= N, got {x.shape}. Fix: transpose it."
        )
    steps = 10 if max_iterations is None else max_iterations
    kind = jnp.finfo(x.dtype)
    precision = float(kind.eps) if eps is None else eps
    m, n = x.shape if dynamic_shape is None else dynamic_shape
    inside = (jnp.arange(x.shape[0])[:, None] < m) & (jnp.arange(x.shape[1])[None] < n)
    x = jnp.where(inside, x, 0)
    # The norm from above: the singular values of x / scale are at most 1.
    norms = [jnp.sum(jnp.abs(x), axis=k).max() for k in (0, 1)]
    scale = jnp.sqrt(norms[0] * norms[1])
    scale = jnp.where(scale == 0, 1, scale)
    u, bound = x / scale.astype(x.dtype), jnp.array(precision, kind.dtype)
    close = jnp.cbrt(jnp.array(5 * precision, kind.dtype))

    def going(state: Any) -> Any:
        _, _, count, far = state
        return far & (count < steps)

    def step(state: Any) -> Any:
        u, bound, count, _ = state
        a, b, c = _weights(bound)
        following = lax.cond(
            c > 100, _by_qr, _by_cholesky, u, *(w.astype(u.dtype) for w in (a, b, c))
        )
        bound = bound * (a + b * bound**2) / (1.0 + c * bound**2)
        bound = jnp.minimum(bound, 1.0)
        change = linalg.norm((following - u).ravel())
        far = (change > close) | (jnp.abs(bound - 1.0) > 5 * precision)
        return following, bound, count + 1, far

    u, _, count, far = lax.while_loop(
        going, step, (u, bound, jnp.array(0, "int32"), jnp.array(True))
    )
    # One step of Newton and Schulz takes the last rounding away.
    u = 1.5 * u - 0.5 * u @ (u.T.conj() @ u)
    u = jnp.where(inside, u, 0)
    h = u.T.conj() @ x
    h = (h + h.T.conj()) / 2
    return u, h, count, ~far
