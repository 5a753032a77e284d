"""Boxes of BCOO arrays, and what their indexing makes of integers, slices and index vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import dtypes, lax, numpy as jnp
from ....core.trace import Tracer
from ....errors import NonConcreteBooleanIndexError
from ....numpy.index_entries import fits_mask, sequence_error
from ....numpy.util import promotes_freely
from .order import fitting
from .shape import (
    bcoo_broadcast_in_dim,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
    box,
)
from .storage import all_sparse, batched, make

if TYPE_CHECKING:
    from .array import BCOO


@promotes_freely
def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """`lax.gather` of a sparse array: boxes of it, one for each vector of `start_indices`.

    `operand`: a BCOO, as is the result; the axes of `start_indices` but its last are batch axes of
    the result. Boxes are moved inside the array; negative starts count from the end unless `mode`
    is "clip". Raises NotImplementedError for mode "fill".

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> sparse.bcoo_gather(m, jnp.array([[1], [0]]), numbers, (1, 2)).todense()
    Array([[2., 3.],
           [1., 0.]], dtype=float32)
    """
    how = lax.GatherScatterMode.from_any(mode)
    if how == lax.GatherScatterMode.FILL_OR_DROP and mode is not None:
        raise NotImplementedError(
            "bcoo_gather: mode='fill' would fill a sparse array. Fix: mode='clip'."
        )
    starts, read, gone = _starts(jnp.asarray(start_indices), dimension_numbers)
    sizes = tuple(int(n) for n in slice_sizes)
    room = [n - k for n, k in zip(operand.shape, sizes, strict=True)]
    dtype = operand.indices.dtype

    def one(start: Any) -> tuple[Any, Any]:
        corner = [jnp.zeros((), dtype)] * operand.ndim
        for k, d in enumerate(read):
            own = start[k].astype(dtype)
            if how != lax.GatherScatterMode.CLIP:
                own = jnp.where(own < 0, own + operand.shape[d], own)
            corner[d] = jnp.clip(own, 0, room[d])
        out = bcoo_squeeze(box(operand, corner, sizes), dimensions=gone)
        return out.data, out.indices

    n = starts.ndim - 1
    data, indices = batched(one, n)(starts)
    left = tuple(k for d, k in enumerate(sizes) if d not in gone)
    out = make(data, indices, (*starts.shape[:-1], *left))
    offset = tuple(dimension_numbers.offset_dims)
    if offset == tuple(range(n, out.ndim)):
        return out
    lead = [d for d in range(out.ndim) if d not in offset]
    order = [(*lead, *offset).index(d) for d in range(out.ndim)]
    return fitting(bcoo_transpose(all_sparse(out), permutation=order))


def _starts(starts: Any, numbers: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """(starts, the operand's axes that they are on, the axes that go). An axis of the operand that
    is a batch of both starts, in the k-th lot, at k.
    """
    axes = tuple(numbers.operand_batching_dims)
    own = tuple(numbers.start_indices_batching_dims)
    shape = (*starts.shape[:-1], 1)
    lots = [lax.broadcasted_iota(starts.dtype, shape, d) for d in own]
    starts = jnp.concatenate([starts, *lots], -1) if lots else starts
    read = (*numbers.start_index_map, *axes)
    return starts, read, (*numbers.collapsed_slice_dims, *axes)


@promotes_freely
def getitem(mat: BCOO, key: Any) -> BCOO:
    """mat[key]: as of arrays, integers beyond the last are the last."""
    keys = _without_dots(mat, list(key) if isinstance(key, tuple) else [key])
    mat, keys = _take_arrays(mat, _without_masks(mat, keys))
    bounds: list[tuple[int, int, int]] = []
    gone: list[int] = []
    back: list[int] = []
    for k in keys:
        axis = len(bounds)
        if k is None:
            continue
        n = mat.shape[axis]
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            count = len(range(start, stop, step))
            if step < 0 and count:
                back.append(axis)
                start, stop, step = start + (count - 1) * step, start + 1, -step
            bounds.append((start, max(start, stop), step) if count else (0, 0, 1))
        else:
            at = min(max(int(k) + (n if k < 0 else 0), 0), max(n - 1, 0))
            bounds.append((at, min(at + 1, n), 1))
            gone.append(axis)
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    out = mat
    if bounds != [(0, n, 1) for n in mat.shape]:
        out = bcoo_slice(mat, start_indices=starts, limit_indices=stops, strides=steps)
    out = bcoo_rev(out, back) if back else out
    return _with_new_axes(bcoo_squeeze(out, dimensions=gone) if gone else out, keys)


def _without_dots(mat: BCOO, keys: list[Any]) -> list[Any]:
    """A key for each axis, and None for new ones."""
    dots = [at for at, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    missing = mat.ndim - sum(map(_axes_of, keys))
    if missing < 0:
        raise IndexError(f"too many indices for an array of {mat.ndim} axes")
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *[slice(None)] * missing, *keys[at + 1 :]]


def _axes_of(key: Any) -> int:
    """How many axes a key indexes: a mask as many as it has."""
    if key is None or key is Ellipsis:
        return 0
    if isinstance(key, slice | str | list):
        return 1
    return jnp.ndim(key) if dtypes.is_bool(jnp.asarray(key).dtype) else 1


def _with_new_axes(mat: BCOO, keys: list[Any]) -> BCOO:
    left = [k for k in keys if k is None or isinstance(k, slice)]
    if None not in left:
        return mat
    to = [d for d, k in enumerate(left) if k is not None]
    shape = [1] * len(left)
    for n, d in zip(mat.shape, to, strict=True):
        shape[d] = n
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=to)


def _take_arrays(mat: BCOO, keys: list[Any]) -> tuple[BCOO, list[Any]]:
    """Index arrays are done, and integers beside them; the other keys are left. What they index is
    where they stand if they stand together, else in front, as in NumPy.
    """
    places = [at for at, k in enumerate(keys) if not (k is None or isinstance(k, slice))]
    if not any(jnp.ndim(keys[at]) for at in places):
        return mat, keys
    axes = tuple(sum(k is not None for k in keys[:at]) for at in places)
    arrays = jnp.broadcast_arrays(*(jnp.asarray(keys[at]) for at in places))
    n = arrays[0].ndim
    together = places[-1] - places[0] == len(places) - 1
    first = axes[0] if together else 0
    kept = mat.ndim - len(axes)
    offsets = tuple(d if d < first else d + n for d in range(kept))
    numbers = lax.GatherDimensionNumbers(offsets, axes, axes)
    sizes = [1 if d in axes else size for d, size in enumerate(mat.shape)]
    taken = bcoo_gather(mat, jnp.stack(arrays, -1), numbers, sizes)
    at = places[0] if together else 0
    left = [k for j, k in enumerate(keys) if j not in places]
    return taken, [*left[:at], *[slice(None)] * n, *left[at:]]


def _without_masks(mat: BCOO, keys: list[Any]) -> list[Any]:
    """The keys, each mask as the positions where it is true. TypeError for what is no key."""
    out: list[Any] = []
    axis = 0
    for k in keys:
        if isinstance(k, list):
            raise sequence_error(k)
        if isinstance(k, str):
            raise TypeError(f"JAX does not support string indexing; got idx={k!r}")
        if k is None or k is Ellipsis or isinstance(k, slice):
            out.append(k)
            axis += isinstance(k, slice)
            continue
        kind = jnp.asarray(k).dtype
        if dtypes.is_bool(kind) and jnp.ndim(k):
            if isinstance(k, Tracer):
                raise NonConcreteBooleanIndexError(k)
            found = np.nonzero(np.asarray(k))
            here = mat.shape[axis : axis + len(found)]
            if not fits_mask(jnp.shape(k), here):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {axis}: got "
                    f"{jnp.shape(k)}, expected {list(here)}"
                )
            out.extend(found)
        elif dtypes.is_bool(kind) and bool(k):
            out.append(None)
            continue
        elif dtypes.is_integer(kind):
            found = (k,)
            out.append(k)
        else:
            raise TypeError(
                f"Indexer must have integer or boolean type, got indexer with type {kind}"
            )
        axis += len(found)
    return out
