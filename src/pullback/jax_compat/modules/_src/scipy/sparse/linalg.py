"""`jax._src.scipy.sparse.linalg`: what `jax.scipy.sparse.linalg` has, and steps of GMRES."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...... import numpy as jnp, tree
from ......control.while_loop import while_loop
from ......scipy.sparse import linalg
from ......scipy.sparse.linalg import _flatten_like, _gmres_cycle, _norm, _operator, _orthogonal
from ...searched import searched


def _kth_arnoldi_iteration(
    k: Any, A: Callable[[Any], Any], M: Callable[[Any], Any], V: Any, H: Any
) -> tuple[Any, Any, Any]:
    """One more column of the basis `V`, from column `k`, and row `k` of `H`: its products with all
    columns. The last result says whether the space was complete.
    """
    w, row, size = _orthogonal(V.T, M(A(V[:, k])))
    row = row.at[k + 1].set(size)
    return V.at[:, k + 1].set(w), H.at[k, :].set(row), size == 0


def _normalize_matvec(f: Any) -> Callable[[Any], Any]:
    """A matrix as the function that multiplies by it. TypeError or ValueError for what is none."""
    return _operator(f)


def _residual(A: Callable[[Any], Any], b: Any, x: Any, M: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a solution leaves of `b`, scaled to length 1 (or 0), and its length."""
    left = M(tree.map(lambda u, v: u - v, b, A(x)))
    size = _norm(left)
    return tree.map(lambda v: v / jnp.where(size == 0, 1, size).astype(v.dtype), left), size


def _gmres_batched(
    A: Callable[[Any], Any],
    b: Any,
    x0: Any,
    unit_residual: Any,
    residual_norm: Any,
    ptol: Any,
    restart: int,
    M: Callable[[Any], Any],
) -> tuple[Any, Any, Any]:
    """A better solution by one basis of `restart` vectors; what it leaves, scaled; and how long
    that is."""
    ravel, unravel = _flatten_like(b)
    x, _ = _gmres_cycle(
        lambda v: ravel(A(unravel(v))),
        lambda v: ravel(M(unravel(v))),
        ravel(b), ravel(x0), restart, ptol,
    )  # fmt: skip
    x = unravel(x)
    return x, *_residual(A, b, x, M)


_gmres_incremental = _gmres_batched  # the same space, and so the same solution


def _gmres_solve(
    A: Callable[[Any], Any],
    b: Any,
    x0: Any,
    atol: Any,
    ptol: Any,
    restart: int,
    maxiter: Any,
    M: Callable[[Any], Any],
    gmres_func: Callable[..., tuple[Any, Any, Any]],
) -> Any:
    """GMRES begun again from each solution, until less than `atol` is left or after `maxiter`."""

    def running(state: Any) -> Any:
        _, k, _, size = state
        return (k < maxiter) & (size > atol)

    def step(state: Any) -> Any:
        x, k, unit, size = state
        x, unit, size = gmres_func(A, b, x, unit, size, ptol, restart, M)
        return x, k + 1, unit, size

    return while_loop(running, step, (x0, 0, *_residual(A, b, x0, M)))[0]


__getattr__ = searched("jax._src.scipy.sparse.linalg", linalg)
