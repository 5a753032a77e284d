"""Elements taken from arrays by their positions, or by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array, as_int, size_of
from ..primitives.convert import convert_weak
from . import arithmetic, comparison, indexing
from .manipulation import broadcast_to, moveaxis, ravel
from .nonzeros import nonzero
from .selecting import select_where
from .util import (
    canonical_axis,
    check_arraylike,
    dtype_of,
    literal,
    ndim_of,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
)


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """Elements (slices along `axis`) at `indices`. Out of range: `mode` 'fill' (the default: NaN,
    or the lowest integer), 'clip' or 'wrap'.

    `a`: an array. `unique_indices`, `indices_are_sorted`: promises about `indices`;
    `fill_value`: what stands for an element out of range. `out` must be None.

    >>> jnp.take(jnp.array([1., 2., 3.]), jnp.array([0, 5]))
    Array([ 1., nan], dtype=float32)
    """
    refuse_out("take", out)
    if isinstance(indices, list | tuple):
        raise TypeError(
            f"take requires ndarray or scalar arguments, got {type(indices)} at position 1. Fix: "
            "jnp.array(indices)."
        )
    check_arraylike("take", a, indices)
    return _take_jit(
        a,
        indices,
        axis=None if axis is None else as_int(axis, "axis"),
        mode=mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


def _take(
    a: Any,
    indices: Any,
    axis: Any,
    mode: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: Any,
) -> Any:
    a, indices = as_array(unwrap(a)), as_array(unwrap(indices))
    if axis is None:
        a, axis = ravel(a), 0
    k = canonical_axis(axis, ndim_of(a))
    n = shape_of(a)[k]
    if dtypes.is_bool(typeof(indices).dtype) and mode != "clip":
        indices = to_type(indices, default_int(), False)
    if not dtypes.is_integer(typeof(indices).dtype):
        raise ValueError(
            "`indices` must have an integer type"
            if mode == "wrap"
            else "indices must have an integer type"
        )
    if mode in ("drop", "promise_in_bounds", "one_hot"):
        raise ValueError(
            f"Invalid mode {mode!r} for np.take. Fix: mode='fill', 'clip' or 'wrap'; or "
            "x.at[indices].get(mode=...)."
        )
    if mode == "raise":
        raise NotImplementedError(
            "The 'raise' mode to jnp.take is not supported. Fix: use mode='fill', 'clip' or 'wrap'."
        )
    if mode == "wrap":
        indices = arithmetic.remainder(indices, literal(indices, n))
        how: Any = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    elif mode in ("fill", None):
        how = lax.GatherScatterMode.FILL_OR_DROP
        own = typeof(indices).dtype
        if type(n) is int and n > dtypes.iinfo(own).max:
            indices = lax.convert_element_type(indices, np.int32)
        negative = lax.lt(indices, literal(indices, 0))
        indices = select_where(negative, lax.add(indices, literal(indices, n)), indices)
    elif mode == "clip":
        how = lax.GatherScatterMode.CLIP
    elif mode in ("promise_in_bounds", "one_hot", "drop"):
        how = lax.GatherScatterMode.from_any(mode)
    else:
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    shape, m = shape_of(a), ndim_of(indices)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(k), *range(k + m, len(shape) + m - 1)),
        collapsed_slice_dims=(k,),
        start_index_map=(k,),
    )
    sizes = tuple(1 if j == k else s for j, s in enumerate(shape))
    if n == 0 and size_of(shape_of(indices)):
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if n == 0:
        return lax.full_like(a, 0)  # whatever the shape of the indices, as in JAX
    columns = lax.broadcast_in_dim(indices, (*shape_of(indices), 1), tuple(range(m)))
    return lax.gather(
        a,
        columns,
        numbers,
        sizes,
        mode=how,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


_take_jit = jit(
    _take, static_argnames=("axis", "mode", "unique_indices", "indices_are_sorted", "fill_value")
)


def _take_along_axis(
    arr: Any, indices: Any, axis: Any, mode: Any, fill_value: Any, wrap: bool
) -> Any:
    arr, indices = as_array(unwrap(arr)), as_array(unwrap(indices))
    if axis is None:
        if ndim_of(indices) != 1:
            raise ValueError(
                f"take_along_axis indices must be 1D if axis=None, got shape {shape_of(indices)}"
            )
        arr, axis = ravel(arr), 0
    k = canonical_axis(axis, ndim_of(arr))
    shape, own = shape_of(arr), shape_of(indices)
    if len(own) != len(shape):
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {len(own)} vs. {len(shape)}"
        )
    n = shape[k]
    how = (
        lax.GatherScatterMode.FILL_OR_DROP if mode is None else lax.GatherScatterMode.from_any(mode)
    )
    wide = dtypes.itemsize_bits(typeof(indices).dtype) == 64
    indices = convert_weak(indices, np.dtype("int64" if wide else "int32"), False)
    if wrap:
        negative = lax.lt(indices, literal(indices, 0))
        indices = lax.select(negative, lax.add(indices, literal(indices, n)), indices)
    if how == lax.GatherScatterMode.ONE_HOT:
        return _picked_along(arr, indices, k)
    return _gather_along(arr, indices, k, shape, own, how, fill_value)


def _picked_along(arr: Any, indices: Any, k: int) -> Any:
    """Elements along axis k as products with rows that are 1 at one place: 0 for places beyond."""
    around = lax.broadcast_shapes(*(tuple(np.delete(shape_of(x), k)) for x in (arr, indices)))
    n, own = shape_of(arr)[k], shape_of(indices)[k]
    arr = broadcast_to(arr, (*around[:k], n, *around[k:]))
    indices = broadcast_to(indices, (*around[:k], own, *around[k:]))
    places = lax.broadcasted_iota(typeof(indices).dtype, (*(1,) * ndim_of(arr), n), ndim_of(arr))
    hot = comparison.equal(lax.expand_dims(indices, (ndim_of(arr),)), places)
    others = [j for j in range(ndim_of(arr)) if j != k]
    d = typeof(arr).dtype
    out = lax.dot_general(
        hot, arr, (([ndim_of(arr)], [k]), (others, others)),
        precision=lax.Precision.HIGHEST if dtypes.is_inexact(d) else None, preferred_element_type=d,
    )  # fmt: skip
    return moveaxis(out, -1, k)


def _gather_along(
    arr: Any, indices: Any, k: int, shape: Any, own: Any, how: Any, fill_value: Any
) -> Any:
    # Axes of one size on both sides are batch axes; where one side has size 1, it is broadcast.
    batch = [j for j in range(len(shape)) if j != k and shape[j] != 1 and own[j] != 1]
    for j in range(len(shape)):
        if j != k and shape[j] != own[j] and shape[j] != 1 and own[j] != 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={[shape, own]}")
    if not size_of(shape):
        out_shape = tuple(
            own[j] if j == k else max(shape[j], own[j]) if 0 not in (shape[j], own[j]) else 0
            for j in range(len(shape))
        )
        nothing = lax.full_like(arr, 0, shape=out_shape)
        return nothing if own[k] else convert_weak(nothing, typeof(arr).dtype, False)
    windows = [
        j for j in range(len(shape)) if j != k and j not in batch and own[j] == 1 and shape[j] != 1
    ]
    # The axes of the indices that remain batch axes of the gather: all but those where the array
    # supplies a window.
    kept = [j for j in range(len(shape)) if j not in windows]
    columns = lax.reshape(indices, (*(own[j] for j in kept), 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(windows),
        collapsed_slice_dims=tuple(
            j for j in range(len(shape)) if j not in windows and j not in batch
        ),
        start_index_map=(k,),
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(kept.index(j) for j in batch),
    )
    sizes = tuple(shape[j] if j in windows else 1 for j in range(len(shape)))
    return lax.gather(arr, columns, numbers, sizes, mode=how, fill_value=fill_value)


_take_along_axis.__name__ = "take_along_axis"

_take_along_axis_jit = jit(_take_along_axis, static_argnames=("axis", "mode", "fill_value", "wrap"))


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """The elements that `indices` name along `axis`, position by position in the other axes (as
    `argsort` gives them).

    `indices` has the axes of `arr`; the others broadcast. Out of range: NaN (or the least integer),
    unless `mode` is 'clip' or 'wrap'. `axis=None` flattens `arr`.

    >>> x = jnp.array([[30, 10, 20]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[10, 20, 30]], dtype=int32)
    """
    check_arraylike("take_along_axis", arr, indices)
    if not dtypes.is_integer(dtype_of(indices)):
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {dtype_of(indices).name}"
        )
    wrap = True if wrap_negative_indices is None else wrap_negative_indices
    return _take_along_axis_jit(
        arr, indices, axis=axis, mode=mode, fill_value=fill_value, wrap=wrap
    )


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The slices along `axis` where `condition` is true. Traced conditions need `size`; the rest is
    `fill_value`.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
    Array([[1, 3],
           [4, 6]], dtype=int32)
    """
    refuse_out("compress", out)
    check_arraylike("compress", condition, a, fill_value)
    condition = as_array(unwrap(condition))
    if ndim_of(condition) != 1:
        raise ValueError("condition must be a 1D array")
    a = as_array(unwrap(a))
    if axis is None:
        a, axis = ravel(a), 0
    k = canonical_axis(axis, ndim_of(a))
    if not dtypes.is_bool(typeof(condition).dtype):
        condition = lax.ne(condition, literal(condition, 0))
    n = shape_of(a)[k]
    if size is not None and not 0 <= size <= n:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got "
            f"size={size} for a.shape[axis]={n}"
        )
    if isinstance(condition, Tracer):
        condition = condition.settled()
    # With a size, JAX leaves out what lies beyond, since it could not see it under jit.
    beyond = size is None and not isinstance(condition, Tracer)
    if beyond and np.asarray(condition)[n:].any():
        raise ValueError(
            f"condition contains entries that are out of bounds: it is true beyond {n}, the size "
            "of the array's axis"
        )
    condition = indexing.take_index(condition, slice(0, n))
    if size is None:
        if isinstance(condition, Tracer):
            raise ConcretizationTypeError(
                condition, "jnp.compress needs a static `size` for a traced condition."
            )
        keep = np.nonzero(np.asarray(condition))[0].astype(np.int32)
        return indexing.take_index(a, (*(slice(None),) * k, keep))
    (keep,) = nonzero(condition, size=size, fill_value=n)
    picked = take(a, keep, axis=k, mode="clip")
    missing = lax.ge(keep, literal(keep, n))
    shape = tuple(size if j == k else 1 for j in range(ndim_of(a)))
    fill = lax.convert_element_type(as_array(unwrap(fill_value)), typeof(a).dtype)
    return to_type(select_where(lax.reshape(missing, shape), fill, picked), typeof(a).dtype, False)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements where `condition` is true, flattened.

    `size` and `fill_value` as for `compress`.

    >>> x = jnp.arange(6)
    >>> jnp.extract(x % 2 == 1, x)
    Array([1, 3, 5], dtype=int32)
    """
    check_arraylike("extract", condition, arr)
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)
