"""`jax._src.tpu.linalg.svd`: singular values by the polar factor and the eigenvectors of the other
one."""

from __future__ import annotations

from typing import Any

from ...... import numpy as jnp
from ......lax.polar import qdwh
from ......numpy import linalg


def svd(
    a: Any,
    full_matrices: bool,
    compute_uv: bool = True,
    hermitian: bool = False,
    max_iterations: int = 10,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """(U, s, V^H) of a matrix, or s alone; of the singular values of `subset_by_index` (first,
    after the last), if it is given. ValueError for a subset of full matrices."""
    m, n = a.shape
    if subset_by_index is not None and compute_uv and full_matrices:
        raise ValueError("full_matrices and subset_by_index cannot be both be set")
    if m < n:
        found = svd(
            a.T.conj(), full_matrices, compute_uv, hermitian, max_iterations, subset_by_index
        )
        if not compute_uv:
            return found
        u, s, vh = found
        return vh.T.conj(), s, u.T.conj()
    first, last = subset_by_index or (0, n)
    if n == 0:
        s = jnp.zeros(0, jnp.finfo(a.dtype).dtype)
        return (
            (jnp.eye(m, m if full_matrices else 0, dtype=a.dtype), s, jnp.zeros((0, 0), a.dtype))
            if compute_uv
            else s
        )
    q, r = linalg.qr(a) if m > n else (None, a)
    polar, h, _, _ = qdwh(r, is_hermitian=hermitian, max_iterations=max_iterations)
    values, vectors = linalg.eigh(h)
    s, v = jnp.maximum(values[::-1], 0), vectors[:, ::-1]
    s, v = s[first:last], v[:, first:last]
    if not compute_uv:
        return s
    u = polar @ v
    # Columns of singular values that vanish against the others are not orthogonal: they are again.
    u, upper = linalg.qr(u)
    diagonal = jnp.diagonal(upper)
    u = u * jnp.where(diagonal == 0, 1, diagonal / jnp.abs(diagonal))[None]
    if q is not None:
        u = q @ u
    if full_matrices and m > n:
        rest = linalg.qr(u, mode="complete")[0][:, u.shape[1] :]
        u = jnp.concatenate([u, rest], axis=1)
    return u, s, v.T.conj()
