"""BCOO arrays of dense ones, and back."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .... import errors, numpy as jnp
from ....core.trace import Tracer
from ....primitives.common import as_int
from ..composed import SparseInfo, composed, info
from .storage import (
    addable,
    batched,
    beside,
    columns_of,
    full,
    make,
    of_info,
    parts,
    scattered,
    sizes_of,
    split,
)

if TYPE_CHECKING:
    from .array import BCOO


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = jnp.int32,
) -> BCOO:
    """The BCOO form of a dense array; `nse` (needed under jit): how many elements to store.

    `n_batch`, `n_dense`: how many leading axes are batches, how many trailing ones are stored
    dense. Of bools integers are stored. Raises ConcretizationTypeError for traced `mat` without
    `nse`.

    >>> from pullback.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0., 5.], [0., 0.]])).indices
    Array([[0, 1]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    n_batch, n_dense = as_int(n_batch, "n_batch"), as_int(n_dense, "n_dense")
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(
            f"bcoo_fromdense: {n_batch} batch and {n_dense} dense axes of an array of {mat.ndim}"
        )
    if nse is None:
        if isinstance(mat, Tracer):
            raise errors.ConcretizationTypeError(
                mat,
                "The error arose for the nse argument of bcoo_fromdense, how many elements to "
                "store: it must be given under jit.",
            )
        mask = _mask(mat, n_batch, n_dense)
        counts = mask.sum(axis=tuple(range(n_batch, mask.ndim)))
        nse = int(counts.max()) if counts.size else 0
    data, indices = bcoo_fromdense_p.bind(
        mat, nse=operator.index(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return of_info(data, indices, SparseInfo(mat.shape, True, True))


def _mask(mat: Any, n_batch: int, n_dense: int) -> Any:
    """Which places of the batch and sparse axes hold something."""
    return (mat != 0).any(axis=tuple(range(mat.ndim - n_dense, mat.ndim)))


def _fromdense(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Any, Any]:
    _, sparse, _ = split(mat.shape, n_batch, mat.ndim - n_batch - n_dense)

    def places(m: Any) -> Any:
        if not sparse:
            return jnp.zeros((nse, 0), index_dtype)
        found = jnp.nonzero(m, size=nse, fill_value=sparse)
        return jnp.stack(found, 1).astype(index_dtype)

    indices = batched(places, n_batch)(_mask(mat, n_batch, n_dense))
    data = _extract(mat, indices, n_batch)
    if not sparse:  # one place, which the first element holds
        first = jnp.arange(nse) == 0
        data = jnp.where(first.reshape((-1,) + (1,) * (mat.ndim - n_batch)), data, 0)
    return addable(data), indices


bcoo_fromdense_p = composed(
    "bcoo_fromdense",
    _fromdense,
    ("nse", "n_batch", "n_dense", "index_dtype"),
    multiple_results=True,
)


def _extract(mat: Any, indices: Any, n_batch: int) -> Any:
    """Elements of a dense array at indices; zero for padding. Batch axes of one element are as
    long as the other's.
    """
    lead = jnp.broadcast_shapes(mat.shape[:n_batch], indices.shape[:n_batch])
    mat = jnp.broadcast_to(mat, (*lead, *mat.shape[n_batch:]))
    indices = jnp.broadcast_to(indices, (*lead, *indices.shape[n_batch:]))

    def one(m: Any, i: Any) -> Any:
        if not i.shape[-1]:
            return jnp.broadcast_to(m, (i.shape[0], *m.shape))
        if 0 in m.shape:  # all of the indices are padding
            return jnp.zeros((i.shape[0], *m.shape[i.shape[-1] :]), m.dtype)
        return m.at[columns_of(i)].get(mode="fill", fill_value=0)

    return batched(one, n_batch)(mat, indices)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the places of a sparse one. Places stored more than once
    get the element once, unless `assume_unique`.

    `sparr`: a BCOO, as is the result. `arr`: dense, of the shape of `sparr`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_extract(m, jnp.array([10., 20., 30.])).data
    Array([10., 30.], dtype=float32)
    """
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"shape mismatch: sparr.shape={sparr.shape} arr.shape={arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    _, indices = full(sparr)
    data = bcoo_extract_p.bind(indices, arr, assume_unique=bool(unique))
    return make(data, indices, sparr.shape, sparr)


def _elements(indices: Any, arr: Any, *, assume_unique: bool) -> Any:
    n_batch = indices.ndim - 2
    data = _extract(arr, indices, n_batch)
    if assume_unique:
        return data
    first = batched(_is_first, n_batch)(indices)
    return jnp.where(beside(first, data), data, 0)


bcoo_extract_p = composed("bcoo_extract", _elements, ("assume_unique",))


def _is_first(indices: Any) -> Any:
    """For each place, is it the first of its kind?"""
    n = indices.shape[0]
    if not indices.shape[1]:
        return jnp.arange(n) == 0
    order = jnp.lexsort(columns_of(indices)[::-1])
    ordered = indices[order]
    new = jnp.ones(n, bool).at[1:].set((ordered[1:] != ordered[:-1]).any(-1))
    return jnp.zeros(n, bool).at[order].set(new)


def bcoo_todense(mat: BCOO) -> Any:
    """The dense array; elements at one place are added.

    `mat`: a BCOO.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [2]])), shape=(3,))
    >>> sparse.bcoo_todense(m)
    Array([0., 0., 4.], dtype=float32)
    """
    return bcoo_todense_p.bind(*parts(mat), spinfo=info(mat))


def _todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    mat = of_info(data, indices, spinfo)
    _, sparse, dense = sizes_of(mat)
    data, indices = full(mat)

    def one(d: Any, i: Any) -> Any:
        if not sparse:
            return d.sum(0, dtype=d.dtype) if d.dtype != bool else d.any(0)
        return scattered((*sparse, *dense), columns_of(i), d)

    return batched(one, mat.n_batch)(data, indices)


bcoo_todense_p = composed("bcoo_todense", _todense, ("spinfo",))
