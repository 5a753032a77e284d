"""BCOO arrays transposed, reshaped, broadcast, joined, cut, reversed and summed.

Batch axes stay batches and dense axes dense ones wherever the operation lets them; what mixes axes
of several kinds makes them all sparse first. The cost is that of the stored elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import lax, numpy as jnp
from ....numpy.util import canonical_axis, promotes_freely
from ..composed import SparseInfo, composed, info
from .order import fitting
from .storage import (
    all_sparse,
    columns_of,
    full,
    inside,
    is_bcoo,
    kept,
    make,
    parts,
    sizes_of,
    split,
    stacked,
)

if TYPE_CHECKING:
    from .array import BCOO


def _axes(name: str, axes: Sequence[int], mat: BCOO) -> tuple[int, ...]:
    """Axes as ints, counted from the front, as those of primitives are."""
    found = tuple(operator.index(a) for a in axes)
    if not all(0 <= a < mat.ndim for a in found):
        raise TypeError(
            f"{name}: {found} are not all axes of an array of shape {mat.shape}. Fix: axes from 0 "
            f"to {mat.ndim - 1}."
        )
    return found


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The axes in another order; batch axes stay batch axes, dense axes dense ones.

    `mat`: a BCOO, as is the result. Raises TypeError for what is no permutation of the axes from 0,
    NotImplementedError for one that mixes the kinds of axes.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_transpose(m, permutation=(1, 0)).todense()
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    permutation = _axes("bcoo_transpose", permutation, mat)
    if sorted(permutation) != list(range(mat.ndim)):
        raise TypeError(f"bcoo_transpose: {permutation} is no permutation of {mat.ndim} axes")
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    batch, sparse, _ = split(permutation, n_batch, n_sparse)
    if any(p >= n_batch for p in batch) or any(
        not n_batch <= p < n_batch + n_sparse for p in sparse
    ):
        raise NotImplementedError(
            "transpose of batch, sparse or dense axes with each other. Fix: m.update_layout("
            "n_batch=0, n_dense=0) makes all axes sparse."
        )
    shape = tuple(mat.shape[p] for p in permutation)
    data, indices = bcoo_transpose_p.bind(*parts(mat), permutation=permutation, spinfo=info(mat))
    out = make(data, indices, shape, mat)
    out.indices_sorted = mat.indices_sorted and list(sparse) == sorted(sparse)
    return out


def _transposed(
    data: Any, indices: Any, *, permutation: tuple[int, ...], spinfo: SparseInfo
) -> tuple[Any, Any]:
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch, sparse, dense = split(permutation, n_batch, n_sparse)
    inner = [p - n_batch for p in sparse]
    data = data.transpose((*batch, n_batch, *(p - n_sparse + 1 for p in dense)))
    indices = indices[..., jnp.array(inner, int)] if inner else indices
    return data, indices.transpose((*batch, n_batch, n_batch + 1))


bcoo_transpose_p = composed(
    "bcoo_transpose", _transposed, ("permutation", "spinfo"), multiple_results=True
)


def _boundary(shape: Sequence[int], size: int) -> int | None:
    """How many leading axes hold `size` elements, axes of size 1 behind them included; None if no
    number of them does.
    """
    products = [math.prod(shape[:k]) for k in range(len(shape) + 1)]
    found = [k for k, n in enumerate(products) if n == size]
    return found[-1] if found else None


@promotes_freely
def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """Another shape of as many elements. Batch and dense axes stay what they are where the new
    shape does not mix them with others; they become sparse where it does.

    `mat`: a BCOO, as is the result. `dimensions`: the order in which the axes are read. Raises
    ValueError for another number of elements.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3., 0.]))
    >>> sparse.bcoo_reshape(m, new_sizes=(2, 2)).todense()
    Array([[1., 0.],
           [3., 0.]], dtype=float32)
    """
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = tuple(int(n) for n in new_sizes)
    if math.prod(new) != mat.size:
        raise ValueError(
            f"cannot reshape array of shape {mat.shape} (size {mat.size}) into shape {new} "
            f"(size {math.prod(new)})"
        )
    if new == tuple(mat.shape):
        return mat
    batch, sparse, dense = sizes_of(mat)
    first = _boundary(new, math.prod(batch))
    last = _boundary(new, math.prod((*batch, *sparse)))
    if not mat.size or first is None or last is None or (dense and last < first):
        mat, first, last = all_sparse(mat), 0, len(new)
        batch, sparse, dense = sizes_of(mat)
    last = max(last, first) if dense else len(new)
    data, indices = full(mat)
    ok = inside(mat, indices)
    sizes = new[first:last]
    position = jnp.ravel_multi_index(columns_of(indices), sparse, mode="clip") if sparse else 0
    found = jnp.unravel_index(position, sizes) if sizes and mat.size else [0] * len(sizes)
    lead = (*new[:first], mat.nse)
    indices = stacked(found, indices, indices.shape[:-1])
    data, indices = kept(ok, data, indices, sizes)
    return make(data.reshape((*lead, *new[last:])), indices.reshape((*lead, len(sizes))), new)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array repeated along new axes and axes of size 1. New axes before the sparse ones are
    batch axes, those behind the first dense one dense axes.

    `mat`: a BCOO, as is the result. `broadcast_dimensions`: the axis of the result for each axis of
    `mat`. Raises ValueError for shapes that do not fit.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0.]))
    >>> sparse.bcoo_broadcast_in_dim(m, shape=(2, 2), broadcast_dimensions=(1,)).todense()
    Array([[1., 0.],
           [1., 0.]], dtype=float32)
    """
    shape, to = tuple(shape), tuple(int(d) for d in broadcast_dimensions)
    fits = len(to) == mat.ndim and list(to) == sorted(set(to)) and all(d < len(shape) for d in to)
    if not fits or any(n not in (1, shape[d]) for n, d in zip(mat.shape, to, strict=True)):
        raise ValueError(
            f"bcoo_broadcast_in_dim: an array of shape {mat.shape} does not broadcast to {shape} "
            f"with broadcast_dimensions={to}"
        )
    to_batch, to_sparse, to_dense = split(to, mat.n_batch, mat.n_sparse)
    last = to_dense[0] if to_dense else len(shape)
    first = to_sparse[0] if to_sparse else last
    batch, sizes, dense = shape[:first], shape[first:last], shape[last:]
    nse = mat.nse
    data, indices = full(mat)
    data = lax.broadcast_in_dim(
        data, (*batch, nse, *dense), (*to_batch, first, *(d - last + first + 1 for d in to_dense))
    )
    indices = lax.broadcast_in_dim(
        indices, (*batch, nse, mat.n_sparse), (*to_batch, first, first + 1)
    )
    own = {d - first: k for k, d in enumerate(to_sparse)}
    if list(own) == list(range(len(sizes))) and sizes == sizes_of(mat)[1]:
        return make(data, indices, shape)
    return _repeated(make(data, indices, (*batch, *sizes_of(mat)[1], *dense)), sizes, own, shape)


def _repeated(mat: BCOO, sizes: tuple[int, ...], own: dict[int, int], shape: Any) -> BCOO:
    """The array with these sparse axes: `own` has the axis of mat for those that are not new."""
    n, nse, old = mat.n_batch, mat.nse, sizes_of(mat)[1]
    grown = [d for d, k in enumerate(sizes) if d not in own or old[own[d]] != k]
    times = math.prod(sizes[d] for d in grown)
    whole = (*mat.shape[:n], nse, times)
    copies = np.unravel_index(np.arange(times), [sizes[d] for d in grown]) if times else ()
    columns: list[Any] = []
    for d in range(len(sizes)):
        if d in grown:
            columns.append(jnp.asarray(copies[grown.index(d)]) if times else 0)
        else:
            columns.append(mat.indices[..., own[d]][..., None])
    indices = stacked(columns, mat.indices, whole).reshape((*whole[:n], nse * times, len(sizes)))
    data = jnp.repeat(mat.data, times, axis=n)
    ok = jnp.repeat(inside(mat, mat.indices), times, axis=n)
    return make(*kept(ok, data, indices, sizes), shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some axes of size 1.

    `arr`: a BCOO, as is the result. Raises ValueError for axes of another size, and for those that
    it does not have.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.]]))
    >>> sparse.bcoo_squeeze(m, dimensions=(0,)).shape
    (2,)
    """
    gone = {canonical_axis(d, arr.ndim) for d in dimensions}
    if any(arr.shape[d] != 1 for d in gone):
        raise ValueError(
            f"bcoo_squeeze: axes {sorted(gone)} of shape {arr.shape} are not all of size 1"
        )
    left = [d for d in range(arr.ndim) if d not in gone]
    data, indices = full(arr)
    n, dense_at = arr.n_batch, arr.n_batch + arr.n_sparse
    lead = tuple(arr.shape[d] for d in left if d < n)
    columns = [d - n for d in left if n <= d < dense_at]
    if len(columns) < arr.n_sparse:
        sparse = [arr.shape[n + c] for c in columns]
        chosen = indices[..., np.array(columns, int)]
        data, indices = kept(inside(arr, indices), data, chosen, sparse)
    dense = tuple(arr.shape[d] for d in left if d >= dense_at)
    return make(
        data.reshape((*lead, arr.nse, *dense)),
        indices.reshape((*lead, arr.nse, len(columns))),
        tuple(arr.shape[d] for d in left),
        arr,
    )


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays joined along an axis; along a dense one all axes become sparse.

    Their other sizes, and numbers of batch and dense axes, are equal: ValueError otherwise. Raises
    TypeError for an axis that they do not have, and for several dtypes; axes count from 0.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0.]))
    >>> sparse.bcoo_concatenate([m, m], dimension=0).todense()
    Array([1., 0., 1., 0.], dtype=float32)
    """
    operands = list(operands)
    if not operands or not all(map(is_bcoo, operands)):
        raise ValueError("bcoo_concatenate: expected BCOO arrays, at least one")
    if len({(x.n_batch, x.n_dense) for x in operands}) != 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching nbatch/ndense.")
    mat = operands[0]
    (dimension,) = _axes("bcoo_concatenate", [dimension], mat)
    if len({x.shape[:dimension] + x.shape[dimension + 1 :] for x in operands}) != 1:
        raise TypeError(
            f"bcoo_concatenate: shapes {[x.shape for x in operands]} differ beside axis {dimension}"
        )
    if len({x.dtype for x in operands}) != 1:
        raise TypeError(
            f"bcoo_concatenate requires arrays of one dtype, got {[x.dtype for x in operands]}. "
            "Fix: x.astype(dtype)."
        )
    if dimension >= mat.n_batch + mat.n_sparse:
        operands = [all_sparse(x) for x in operands]
    shape = list(mat.shape)
    shape[dimension] = sum(x.shape[dimension] for x in operands)
    if dimension < operands[0].n_batch:
        return _joined_batches(operands, dimension, shape)
    n = operands[0].n_batch
    starts = np.cumsum([0] + [x.shape[dimension] for x in operands])
    moved = []
    for x, start in zip(operands, starts[:-1], strict=True):
        data, indices = full(x)
        ok = inside(x, indices)
        indices = indices.at[..., dimension - n].add(int(start))
        moved.append(kept(ok, data, indices, split(shape, n, x.n_sparse)[1]))
    datas, places = zip(*moved, strict=True)
    return make(jnp.concatenate(datas, n), jnp.concatenate(places, n), shape)


def _joined_batches(operands: list[BCOO], dimension: int, shape: list[int]) -> BCOO:
    """Along a batch axis: each with room for as many elements as the longest."""
    nse = max(x.nse for x in operands)
    n, datas, places = operands[0].n_batch, [], []
    for x in operands:
        data, indices = full(x)
        more = nse - x.nse
        beyond = jnp.array(sizes_of(x)[1], indices.dtype)
        pad = jnp.broadcast_to(beyond, (*indices.shape[:n], more, x.n_sparse))
        zeros = jnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
        datas.append(jnp.concatenate([data, zeros], n) if more else data)
        places.append(jnp.concatenate([indices, pad], n) if more else indices)
    return make(jnp.concatenate(datas, dimension), jnp.concatenate(places, dimension), shape)


@promotes_freely
def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A box of the array; what lies outside of it becomes padding.

    `mat`: a BCOO, as is the result. Bounds and strides are Python ints, one an axis. Raises
    ValueError where they do not lie inside, or are too few or too many.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_slice(m, start_indices=(1,), limit_indices=(3,)).todense()
    Array([0., 3.], dtype=float32)
    """
    steps = tuple(strides) if strides is not None else (1,) * mat.ndim
    if not len(tuple(start_indices)) == len(tuple(limit_indices)) == len(steps) == mat.ndim:
        raise ValueError(
            f"bcoo_slice: start_indices, limit_indices and strides need {mat.ndim} elements"
        )
    bounds = list(
        zip(
            map(operator.index, start_indices),
            map(operator.index, limit_indices),
            steps,
            strict=True,
        )
    )
    for n, (start, stop, step) in zip(mat.shape, bounds, strict=True):
        if not 0 <= start <= stop <= n or step < 1:
            raise ValueError(f"bcoo_slice: from {start} to {stop} by {step} of an axis of size {n}")
    shape = tuple(-(-(stop - start) // step) for start, stop, step in bounds)
    batch, sparse, dense = split(bounds, mat.n_batch, mat.n_sparse)
    data, indices = full(mat)
    lead = tuple(slice(*b) for b in batch)
    data = data[(*lead, slice(None), *(slice(*b) for b in dense))]
    indices = indices[lead]
    ok = jnp.ones(indices.shape[:-1], bool)
    columns = []
    for own, (start, stop, step) in zip(columns_of(indices), sparse, strict=True):
        ok &= (own >= start) & (own < stop) & ((own - start) % step == 0)
        columns.append((own - start) // step)
    sizes = split(shape, mat.n_batch, mat.n_sparse)[1]
    data, indices = kept(ok, data, stacked(columns, indices, ok.shape), sizes)
    return fitting(make(data, indices, shape))


@promotes_freely
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A box of the array whose start is a value, clamped so that the box lies inside.

    `mat`: a BCOO, as is the result. `start_indices`: an integer scalar for each axis;
    `slice_sizes`: Python ints. Raises TypeError for others, ValueError for too few or too many.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_dynamic_slice(m, (1,), (2,)).todense()
    Array([0., 3.], dtype=float32)
    """
    sizes, starts = tuple(map(operator.index, slice_sizes)), list(map(jnp.asarray, start_indices))
    if not len(starts) == len(sizes) == mat.ndim:
        raise ValueError(
            f"bcoo_dynamic_slice: start_indices and slice_sizes need {mat.ndim} elements"
        )
    if not all(jnp.issubdtype(s.dtype, np.integer) for s in starts):
        raise TypeError("bcoo_dynamic_slice: start_indices must be integers")
    starts = [s.astype(mat.indices.dtype) for s in starts]
    if any(not 0 <= n <= whole for n, whole in zip(sizes, mat.shape, strict=True)):
        raise TypeError(f"bcoo_dynamic_slice: slice_sizes={sizes} of an array of shape {mat.shape}")
    # From the end, and clamped, as by lax.dynamic_slice.
    starts = [jnp.where(s < 0, s + n, s) for s, n in zip(starts, mat.shape, strict=True)]
    starts = [jnp.clip(s, 0, n - k) for s, n, k in zip(starts, mat.shape, sizes)]
    out: BCOO = box(mat, starts, sizes)
    return out


@promotes_freely
def box(mat: BCOO, starts: Sequence[Any], sizes: tuple[int, ...]) -> BCOO:
    """The box of these sizes that starts there, inside the array."""
    data, indices = full(mat)
    batch, sparse, dense = split(starts, mat.n_batch, mat.n_sparse)
    n_batch, n_sparse, n_dense = split(sizes, mat.n_batch, mat.n_sparse)
    zero, nse = jnp.zeros((), indices.dtype), mat.nse
    data = lax.dynamic_slice(data, (*batch, zero, *dense), (*n_batch, nse, *n_dense))
    indices = lax.dynamic_slice(indices, (*batch, zero, zero), (*n_batch, nse, mat.n_sparse))
    moved = indices - (jnp.stack(sparse) if sparse else zero)
    ok = ((moved >= 0) & (moved < jnp.array(n_sparse, indices.dtype))).all(-1)
    return fitting(make(*kept(ok, data, moved, n_sparse), sizes))


@promotes_freely
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with some axes reversed.

    `operand`: a BCOO, as is the result. Raises TypeError for axes that it does not have, or that
    are named twice; axes count from 0.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3., 4.]))
    >>> sparse.bcoo_rev(m, (0,)).todense()
    Array([4., 3., 0., 1.], dtype=float32)
    """
    dims = _axes("bcoo_rev", dimensions, operand)
    if len(set(dims)) < len(dims):
        raise TypeError(f"bcoo_rev: dimensions {dims} name an axis twice")
    data, indices = full(operand)
    n, dense_at = operand.n_batch, operand.n_batch + operand.n_sparse
    ok = inside(operand, indices)
    columns = [
        size - 1 - c if n + k in dims else c
        for k, (c, size) in enumerate(zip(columns_of(indices), sizes_of(operand)[1], strict=True))
    ]
    data, indices = kept(ok, data, stacked(columns, indices, ok.shape), sizes_of(operand)[1])
    lead = tuple(d for d in dims if d < n)
    data = lax.rev(data, (*lead, *(d - operand.n_sparse + 1 for d in dims if d >= dense_at)))
    return make(data, lax.rev(indices, lead), operand.shape)


@promotes_freely
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum along axes: a sparse array of those that are left.

    `mat`: a BCOO, as is the result. Raises ValueError for axes that it does not have.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_reduce_sum(m, axes=(1,)).todense()
    Array([1., 5.], dtype=float32)
    """
    gone = {canonical_axis(a, mat.ndim) for a in axes}
    n, dense_at = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full(mat)
    chosen = [d for d in range(mat.n_sparse) if n + d not in gone]
    if len(chosen) < mat.n_sparse:
        sparse = [mat.shape[n + d] for d in chosen]
        ok = inside(mat, indices)
        data, indices = kept(ok, data, indices[..., np.array(chosen, int)], sparse)
    rows = tuple(d - mat.n_sparse + 1 for d in gone if d >= dense_at)
    data = data.sum(rows, dtype=data.dtype) if rows else data
    batches = [d for d in range(n) if d in gone]
    if batches:  # their elements in one list
        order = [*(d for d in range(n) if d not in gone), *batches]
        lead = tuple(mat.shape[d] for d in order[: n - len(batches)])
        nse = mat.nse * math.prod(mat.shape[d] for d in batches)
        data = data.transpose((*order, *range(n, data.ndim)))
        indices = indices.transpose((*order, n, n + 1))
        data = data.reshape((*lead, nse, *data.shape[n + 1 :]))
        indices = indices.reshape((*lead, nse, indices.shape[-1]))
    return make(data, indices, [k for d, k in enumerate(mat.shape) if d not in gone])
