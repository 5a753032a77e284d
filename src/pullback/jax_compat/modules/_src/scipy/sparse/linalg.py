"""`jax._src.scipy.sparse.linalg`: what `jax.scipy.sparse.linalg` has, and steps of GMRES."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ......scipy.sparse import linalg
from ......scipy.sparse.linalg import _orthogonal
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


__getattr__ = searched("jax._src.scipy.sparse.linalg", linalg)
