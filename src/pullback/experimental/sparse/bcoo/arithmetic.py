"""Sums and products of BCOO arrays, element by element."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .... import numpy as jnp
from ....numpy.util import promotes_freely
from .dense import bcoo_todense
from .layout import bcoo_update_layout
from .storage import all_sparse, batched, columns_of, full, make, sizes_of

if TYPE_CHECKING:
    from .array import BCOO


def add(a: BCOO, b: BCOO) -> BCOO:
    """The elements of both, in one list."""
    if a.shape != b.shape:
        raise NotImplementedError(
            f"Addition between sparse matrices of different shapes: {a.shape} and {b.shape}. Fix: "
            "bcoo_broadcast_in_dim gives one the shape of the other."
        )
    a, b = _alike(a, b)
    dtype, n = jnp.result_type(a.data, b.data), a.n_batch
    (x, i), (y, j) = full(a), full(b)
    data = jnp.concatenate([x.astype(dtype), y.astype(dtype)], n)
    return make(data, jnp.concatenate([i, j], n), a.shape)


def add_dense(m: BCOO, x: Any) -> Any:
    """The dense sum with a dense array whose shape it has."""
    if jnp.broadcast_shapes(m.shape, jnp.shape(x)) != jnp.shape(x):
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the "
            "output shape is larger than Y.shape. This is to prevent silent densification of a "
            f"large sparse array; got X.shape={m.shape}, Y.shape={jnp.shape(x)}. Fix: "
            "X.todense() + Y."
        )
    return bcoo_todense(m) + jnp.asarray(x)


def _alike(a: BCOO, b: BCOO) -> tuple[BCOO, BCOO]:
    """Both in one layout: with the fewer batch axes, and all axes sparse if dense ones differ."""
    if a.n_dense != b.n_dense:
        return all_sparse(a), all_sparse(b)
    n = min(a.n_batch, b.n_batch)
    return bcoo_update_layout(a, n_batch=n), bcoo_update_layout(b, n_batch=n)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The data of the product of a sparse and a dense array, which must broadcast to its shape.

    `sp_mat`: a BCOO. `v`: dense.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_multiply_dense(m, jnp.array([10., 20., 30.]))
    Array([10., 90.], dtype=float32)
    """
    v = jnp.asarray(v)
    if jnp.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        raise NotImplementedError(
            f"product of a sparse array of shape {sp_mat.shape} with a dense one of shape "
            f"{v.shape}, which is larger. Fix: bcoo_broadcast_in_dim the sparse one, or todense()."
        )
    if not v.ndim:
        return sp_mat.data * v
    data, indices = full(sp_mat)
    n_batch = sp_mat.n_batch
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    sparse = v.shape[n_batch : n_batch + sp_mat.n_sparse]
    v = jnp.broadcast_to(v, (*sp_mat.shape[:n_batch], *v.shape[n_batch:]))

    def one(d: Any, i: Any, w: Any) -> Any:
        columns = columns_of(i)
        at = tuple(jnp.zeros_like(c) if n == 1 else c for c, n in zip(columns, sparse, strict=True))
        return d * (w.at[at].get(mode="fill", fill_value=0) if at else w[None])

    return batched(one, n_batch)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product, element by element: stored where both are, with room for every pair of stored
    elements. Axes of size 1 are repeated.

    `lhs`, `rhs`: BCOO arrays of one rank, as is the result. Raises NotImplementedError or
    ValueError for layouts and shapes that do not fit.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_multiply_sparse(m, m).todense()
    Array([1., 0., 9.], dtype=float32)
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            f"bcoo_multiply_sparse: arrays must have the same number of axes; got shapes "
            f"{lhs.shape} and {rhs.shape}"
        )
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    lhs, rhs = _alike(lhs, rhs)
    n, own, other = lhs.n_batch, sizes_of(lhs)[1], sizes_of(rhs)[1]
    (x, i), (y, j) = full(lhs), full(rhs)
    lead = shape[:n]
    x, i, y, j = (jnp.broadcast_to(v, (*lead, *v.shape[n:])) for v in (x, i, y, j))
    data, indices = batched(functools.partial(_pairs, own, other), n)(x, i, y, j)
    return make(data, indices, shape)


@promotes_freely
def _match(own: Any, other: Any, i: Any, j: Any) -> Any:
    """Which elements of two arrays, (nse, nse), stand at places that meet."""
    ok = (i < jnp.array(own, i.dtype)).all(-1)[:, None]
    ok = ok & (j < jnp.array(other, j.dtype)).all(-1)[None]
    for k, (m, n) in enumerate(zip(own, other, strict=True)):
        if m == n:
            ok = ok & (i[:, None, k] == j[None, :, k])
    return ok


@promotes_freely
def _pairs(own: Any, other: Any, x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
    """The products of pairs that meet, then room for as many as there are pairs: how many meet is
    not known before, where elements may be stored twice.
    """
    ok = _match(own, other, i, j)
    (pair,) = jnp.nonzero(ok.reshape(-1), size=ok.size, fill_value=ok.size)
    columns = max(ok.shape[1], 1)
    p, q = pair // columns, jnp.where(pair < ok.size, pair % columns, ok.shape[1])
    dtype = jnp.result_type(x, y)
    data = x.astype(dtype).at[p].get(mode="fill", fill_value=0)
    data = data * y.astype(dtype).at[q].get(mode="fill", fill_value=0)
    pad = max((*own, *other), default=0)
    rows, others = (v.at[k].get(mode="fill", fill_value=0) for v, k in ((i, p), (j, q)))
    indices = jnp.where((pair < ok.size)[:, None], jnp.maximum(rows, others), pad)
    return data, indices
