"""BCOO arrays with other numbers of batch and dense axes."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from .... import lax, numpy as jnp
from ..base import SparseEfficiencyError, SparseEfficiencyWarning
from .storage import batched, columns_of, full, make, scattered, sizes_of, stacked

if TYPE_CHECKING:
    from .array import BCOO


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The array with other numbers of batch and dense axes. More of them need more memory: that is
    an error unless `on_inefficient` is None or "warn".

    `mat`: a BCOO, as is the result. Raises SparseEfficiencyError, ValueError for more axes than
    there are.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2), n_batch=1)
    >>> sparse.bcoo_update_layout(m, n_batch=0).n_batch
    0
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_update_layout: n_batch and n_dense must be 0 or more, and the sum of {n_batch=} "
            f"and {n_dense=} cannot be larger than {mat.ndim=}."
        )
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    if n_batch > mat.n_batch or n_dense > mat.n_dense:
        _warn_of_zeros(mat, n_batch, n_dense, on_inefficient)
    # Axes become sparse before others become dense or batches.
    data, indices = full(mat)
    if n_dense < mat.n_dense:
        data, indices = _fewer_dense(data, indices, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        data, indices = _fewer_batches(data, indices, mat.n_batch - n_batch)
    if n_dense > mat.n_dense:
        data, indices = _more_dense(make(data, indices, mat.shape), n_dense - mat.n_dense)
    if n_batch > mat.n_batch:
        data, indices = _more_batches(make(data, indices, mat.shape), n_batch - mat.n_batch)
    return make(data, indices, mat.shape)


def _warn_of_zeros(mat: BCOO, n_batch: int, n_dense: int, on_inefficient: str | None) -> None:
    if on_inefficient is None:
        return
    dense = n_dense > mat.n_dense
    name, old, new = (
        ("n_dense", mat.n_dense, n_dense) if dense else ("n_batch", mat.n_batch, n_batch)
    )
    text = (
        f"For matrix of shape {mat.shape}, increasing {name} from {old} to {new} results in "
        "inefficient storage: zeros are stored. To disable this error, set the on_inefficient "
        "argument of bcoo_update_layout to 'warn' or None."
    )
    if on_inefficient == "error":
        raise SparseEfficiencyError(text)
    if on_inefficient != "warn":
        raise ValueError(f"{on_inefficient=}: expected 'error', 'warn', or None")
    warnings.warn(text, SparseEfficiencyWarning, stacklevel=3)


def _fewer_dense(data: Any, indices: Any, count: int) -> tuple[Any, Any]:
    """The first `count` dense axes become sparse ones: an element for each of their places."""
    n = indices.ndim - 2
    lead, sizes = data.shape[: n + 1], data.shape[n + 1 : n + 1 + count]
    shape = (*lead, *sizes)
    spread = (c.reshape(c.shape + (1,) * count) for c in columns_of(indices))
    own = (lax.broadcasted_iota(indices.dtype, shape, n + 1 + k) for k in range(count))
    wide = stacked((*spread, *own), indices, shape)
    nse = math.prod(shape[n:])
    data = data.reshape((*lead[:n], nse, *data.shape[n + 1 + count :]))
    return data, wide.reshape((*lead[:n], nse, wide.shape[-1]))


def _fewer_batches(data: Any, indices: Any, count: int) -> tuple[Any, Any]:
    """The last `count` batch axes become sparse ones: their elements are in one list."""
    n = indices.ndim - 2
    shape = indices.shape[:-1]
    own = (lax.broadcasted_iota(indices.dtype, shape, n - count + k) for k in range(count))
    wide = stacked((*own, *columns_of(indices)), indices, shape)
    lead, nse = shape[: n - count], math.prod(shape[n - count :])
    return data.reshape((*lead, nse, *data.shape[n + 1 :])), wide.reshape(
        (*lead, nse, wide.shape[-1])
    )


def _more_dense(mat: BCOO, count: int) -> tuple[Any, Any]:
    """The last `count` sparse axes become dense ones: rows that hold one element each."""
    left = mat.n_sparse - count
    sizes = sizes_of(mat)[1][left:]

    def rows(d: Any, i: Any) -> Any:
        where = (jnp.arange(d.shape[0]), *columns_of(i[:, left:]))
        return scattered((d.shape[0], *sizes, *d.shape[1:]), where, d)

    return batched(rows, mat.n_batch)(mat.data, mat.indices), mat.indices[..., :left]


def _more_batches(mat: BCOO, count: int) -> tuple[Any, Any]:
    """The first `count` sparse axes become batch axes, each batch with room for all elements."""
    _, sparse, _ = sizes_of(mat)
    sizes, others = sparse[:count], sparse[count:]

    def spread(d: Any, i: Any) -> tuple[Any, Any]:
        nse = d.shape[0]
        where = (*columns_of(i[:, :count]), jnp.arange(nse))
        data = scattered((*sizes, nse, *d.shape[1:]), where, d)
        pad = jnp.broadcast_to(jnp.array(others, i.dtype), (*sizes, nse, len(others)))
        return data, pad.at[where].set(i[:, count:], mode="drop") if 0 not in pad.shape else pad

    return batched(spread, mat.n_batch)(mat.data, mat.indices)  # type: ignore[no-any-return]
