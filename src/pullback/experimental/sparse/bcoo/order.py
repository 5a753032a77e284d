"""BCOO arrays with their elements in order, each place stored once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .... import numpy as jnp
from ....core.trace import Tracer
from ....numpy.util import promotes_freely
from ..composed import SparseInfo, composed, info
from .storage import batched, columns_of, make, of_info, parts, places, sizes_of

if TYPE_CHECKING:
    from .array import BCOO


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The elements in the order of their indices.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [0]])), shape=(3,))
    >>> sparse.bcoo_sort_indices(m).data
    Array([1., 3.], dtype=float32)
    """
    data, indices = bcoo_sort_indices_p.bind(*parts(mat), spinfo=info(mat))
    out = make(data, indices, mat.shape, mat)
    out.indices_sorted = True
    return out


def _sorted(data: Any, indices: Any, *, spinfo: SparseInfo) -> tuple[Any, Any]:
    # Batch axes of one element stay so: those of indices are sorted once for all data.
    n = of_info(data, indices, spinfo).n_batch
    if not indices.shape[-1]:
        return data, indices
    order = batched(lambda i: jnp.lexsort(columns_of(i)[::-1]), n)(indices)
    taken = batched(lambda x, at: x[at], n)
    lead = jnp.broadcast_shapes(data.shape[:n], indices.shape[:n])
    spread = jnp.broadcast_to(order, (*lead, *order.shape[n:]))
    return taken(jnp.broadcast_to(data, (*lead, *data.shape[n:])), spread), taken(indices, order)


bcoo_sort_indices_p = composed("bcoo_sort_indices", _sorted, ("spinfo",), multiple_results=True)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Each place stored once, in order, zeros among them; `nse` (needed under jit): how many places
    to keep room for.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [2]])), shape=(3,))
    >>> sparse.bcoo_sum_duplicates(m).data
    Array([4.], dtype=float32)
    """
    return stored_once(mat, nse, remove_zeros=False)


def stored_once(mat: BCOO, nse: int | None, remove_zeros: bool) -> BCOO:
    """Each place stored once, in order; without zeros where that is asked for."""
    if nse is None:
        _, counts = _groups(bcoo_sort_indices(mat), remove_zeros)
        if isinstance(counts, Tracer):
            raise ValueError(
                "bcoo_sum_duplicates: nse must be specified when using the function within jit, "
                "vmap, and other transformations requiring abstract evaluation. Fix: nse=..."
            )
        nse = int(jnp.max(counts)) if counts.size else 0
    nse = operator.index(nse)
    if remove_zeros:
        data, indices = _summed(*parts(mat), spinfo=info(mat), nse=nse, remove_zeros=True)
    else:
        data, indices = bcoo_sum_duplicates_p.bind(*parts(mat), spinfo=info(mat), nse=nse)
    out = make(data, indices, mat.shape)
    out.indices_sorted = out.unique_indices = True
    return out


@promotes_freely
def _groups(mat: BCOO, remove_zeros: bool) -> tuple[Any, Any]:
    """(each element's group, number of groups) of an array with sorted indices."""
    _, sparse, _ = sizes_of(mat)
    limit = jnp.array(sparse, mat.indices.dtype)

    def groups(d: Any, i: Any) -> tuple[Any, Any]:
        """(each element's group, number of groups), padding in none."""
        inside = (i < limit).all(-1)
        if remove_zeros:
            inside &= (d != 0).any(tuple(range(1, d.ndim)))
        if not i.shape[1]:
            new = jnp.arange(i.shape[0]) == 0
            return jnp.zeros(i.shape[0], jnp.int32), new.sum()
        # Skipped elements do not part what stands on both sides of them.
        order = jnp.argsort(~inside, stable=True)
        shown, ok = i[order], inside[order]
        new = jnp.ones(i.shape[0], bool).at[1:].set((shown[1:] != shown[:-1]).any(-1)) & ok
        rank = jnp.cumsum(new) - 1
        where = jnp.where(ok, rank, jnp.iinfo(rank.dtype).max)  # no place has room for those
        return jnp.zeros(i.shape[0], where.dtype).at[order].set(where), new.sum()

    return batched(groups, mat.n_batch)(mat.data, mat.indices)  # type: ignore[no-any-return]


def _summed(
    data: Any, indices: Any, *, spinfo: SparseInfo, nse: int, remove_zeros: bool = False
) -> tuple[Any, Any]:
    mat = bcoo_sort_indices(of_info(data, indices, spinfo))
    group, _ = _groups(mat, remove_zeros)
    _, sparse, _ = sizes_of(mat)
    limit = jnp.array(sparse, mat.indices.dtype)

    def one(d: Any, i: Any, g: Any) -> Any:
        if not nse:
            return d[:0], i[:0]
        data = jnp.zeros((nse, *d.shape[1:]), d.dtype).at[g].add(d, mode="drop")
        full = jnp.broadcast_to(limit, (nse, i.shape[1]))
        return data, full.at[g].set(i, mode="drop")

    return batched(one, mat.n_batch)(mat.data, mat.indices, group)  # type: ignore[no-any-return]


bcoo_sum_duplicates_p = composed(
    "bcoo_sum_duplicates", _summed, ("spinfo", "nse"), multiple_results=True
)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array without stored zeros, each place stored once; `nse` (needed under jit): how many
    places to keep room for.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 0.]), jnp.array([[2], [1]])), shape=(3,))
    >>> sparse.bcoo.bcoo_eliminate_zeros(m).nse
    1
    """
    return stored_once(mat, nse, remove_zeros=True)


def fitting(mat: BCOO) -> BCOO:
    """No more elements are stored than there are places; of their order nothing is claimed."""
    room = places(mat)
    if mat.nse <= room:
        return mat
    return make(*parts(bcoo_sum_duplicates(mat, nse=room)), mat.shape)
