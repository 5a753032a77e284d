"""Reductions over segments: elements with one identifier are summed, multiplied, or reduced to
their maximum or minimum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes, lax
from .core.avals import typeof
from .core.trace import Tracer
from .errors import ConcretizationTypeError, NonConcreteBooleanIndexError
from .primitives.common import as_array, is_symbolic

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _array(name: str, x: Any, position: int) -> Any:
    if isinstance(x, (list, tuple, str)) or x is None:
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}. "
            "Fix: use jnp.asarray(...)."
        )
    d = typeof(x).dtype
    held = dtypes.canonicalize_dtype(d)  # of 64 bits, from where those were on
    return as_array(x) if d == held else lax.convert_element_type(x, held)


def _identity(kind: str, dtype: Any) -> Any:
    if kind in ("sum", "prod"):
        return np.asarray(1 if kind == "prod" else 0).astype(dtype)[()]
    if dtypes.is_bool(dtype):
        return np.bool_(kind == "min")
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        return np.asarray(info.min if kind == "max" else info.max).astype(dtype)[()]
    return np.asarray(-np.inf if kind == "max" else np.inf).astype(dtype)[()]


def _num_segments(name: str, ids: Any, num_segments: int | None) -> Any:
    if num_segments is None:
        if isinstance(ids, Tracer):
            raise ConcretizationTypeError(
                ids,
                f"{name}() `num_segments` argument. Give num_segments=..., which is the size of "
                "the result.",
            )
        values = np.asarray(ids)
        num_segments = int(values.max()) + 1
    if isinstance(num_segments, Tracer):  # type: ignore[unreachable]
        raise ConcretizationTypeError(num_segments, f"{name}() `num_segments` argument.")
    n: Any = num_segments if is_symbolic(num_segments) else operator.index(num_segments)
    if n < 0:
        raise ValueError("num_segments must be non-negative.")
    return n


def _chosen(name: str, mask: Any, n: int, bucket_size: int | None) -> Any:
    """The segments that a mask chooses: booleans are an index, as those of `x.at[mask]`."""
    if isinstance(mask, Tracer):
        raise NonConcreteBooleanIndexError(mask)
    if typeof(mask).shape not in ((), (n,)) or bucket_size is not None:
        raise IndexError(
            f"boolean index did not match shape of indexed array: segment_ids of {name} are a mask "
            f"of shape {typeof(mask).shape} for {n} segments. Fix: segment_ids.astype(int)"
        )
    return as_array(np.nonzero(np.broadcast_to(np.asarray(mask), n))[0].astype(np.int32))


def _segment(
    kind: str, scatter: Callable[..., Any], data: Any, segment_ids: Any, num_segments: int | None,
    indices_are_sorted: bool, unique_indices: bool, bucket_size: int | None, mode: Any,
) -> Any:  # fmt: skip
    name = f"segment_{kind}"
    data, ids = _array(name, data, 0), _array(name, segment_ids, 1)
    n = _num_segments(name, ids, num_segments)
    if dtypes.is_bool(typeof(ids).dtype):
        ids = _chosen(name, ids, n, bucket_size)
    id_aval, aval = typeof(ids), typeof(data)
    rest = aval.shape[1:]
    wanted = (*id_aval.shape, *rest)
    buckets = None if bucket_size is None else -(-int(wanted[0]) // bucket_size)
    if not dtypes.is_integer(id_aval.dtype):
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{id_aval.dtype.name}: segment_ids of {name}"
        )
    mode = (
        lax.GatherScatterMode.FILL_OR_DROP if mode is None else lax.GatherScatterMode.from_any(mode)
    )
    fill = _identity(kind, aval.dtype)
    if 0 in rest:  # nothing is reduced, whatever the number of elements
        return lax.full((n, *rest), fill, aval.dtype)
    if aval.shape != wanted:
        if len(wanted) < aval.ndim or any(
            a not in (1, b) for a, b in zip(aval.shape[::-1], wanted[::-1])
        ):
            raise ValueError(
                f"Incompatible types for broadcasting: input type={aval.str_short()} and requested "
                f"type={aval.dtype.name}"
                f"[{','.join(map(str, wanted))}]: {name} needs one segment id for each element "
                "along the leading axis of data"
            )
    updates = data if aval.shape == wanted else _broadcast(data, wanted)
    if buckets is None:
        operand = lax.full((n, *rest), fill, aval.dtype)
        return _scatter(scatter, operand, [ids], updates, indices_are_sorted, unique_indices, mode)
    operand = lax.full((buckets, n, *rest), fill, aval.dtype)
    if typeof(ids).dtype.itemsize < 4:  # the two indices are concatenated
        ids = lax.convert_element_type(ids, np.int32)
    which = lax.iota(typeof(ids).dtype, wanted[0])
    which = lax.div(which, typeof(ids).dtype.type(bucket_size))
    partial = _scatter(
        scatter, operand, [which, ids], updates, indices_are_sorted, unique_indices, mode
    )
    return _COMBINE[kind](partial, fill)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """With axes in front, and axes of one element repeated."""
    given = typeof(x).shape
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(given), len(shape))))


def _scatter(
    scatter: Callable[..., Any],
    operand: Any,
    ids: list[Any],
    updates: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Any:
    shape = typeof(ids[0]).shape
    columns = [lax.broadcast_in_dim(k, (*shape, 1), tuple(range(len(shape)))) for k in ids]
    indices = columns[0] if len(columns) == 1 else lax.concatenate(columns, len(shape))
    depth = len(ids)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(shape), typeof(updates).ndim)),
        inserted_window_dims=tuple(range(depth)),
        scatter_dims_to_operand_dims=tuple(range(depth)),
    )
    return scatter(
        operand,
        indices,
        updates,
        numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, fill: lax.reduce(x, fill, lax.add, (0,)),
    "prod": lambda x, fill: lax.reduce(x, fill, lax.mul, (0,)),
    "max": lambda x, fill: lax.reduce(x, fill, lax.max, (0,)),
    "min": lambda x, fill: lax.reduce(x, fill, lax.min, (0,)),
}


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of the elements of `data` (along its leading axis) in each segment: shape
    (num_segments, *data.shape[1:]).

    `segment_ids` are integers, one for each element; an id outside [0, num_segments) is dropped
    (`mode` may say otherwise). num_segments must be given under jit; by default it is the largest
    id plus one. `bucket_size` sums buckets of that many elements apart first.

    >>> pb.ops.segment_sum(jnp.arange(5), jnp.array([0, 0, 1, 1, 2]))
    Array([1, 5, 4], dtype=int32)
    """
    return _segment(
        "sum",
        lax.scatter_add,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of each segment; 1 where it is empty. See `segment_sum`.

    >>> pullback.ops.segment_prod(jnp.array([2, 5, 3]), jnp.array([0, 0, 2]))
    Array([10,  1,  3], dtype=int32)
    """
    return _segment(
        "prod",
        lax.scatter_mul,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The maximum of each segment; the least value of the dtype (-inf) where it is empty. See
    `segment_sum`.

    >>> pullback.ops.segment_max(jnp.array([1, 5, 2]), jnp.array([0, 0, 1]))
    Array([5, 2], dtype=int32)
    """
    return _segment(
        "max",
        lax.scatter_max,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The minimum of each segment; the greatest value of the dtype (inf) where it is empty. See
    `segment_sum`.

    >>> pullback.ops.segment_min(jnp.array([1, 5, 2]), jnp.array([0, 0, 1]))
    Array([1, 2], dtype=int32)
    """
    return _segment(
        "min",
        lax.scatter_min,
        data,
        segment_ids,
        num_segments,
        indices_are_sorted,
        unique_indices,
        bucket_size,
        mode,
    )
