"""NumPy rules of layout, cutting and joining, and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...primitives import layout, reductions, shape as p
from .elementwise import _ordered
from .table import RULES, computed, rule, widened


@rule(layout.broadcast_in_dim_p)
def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any) -> Any:
    inner, rank = [1] * len(shape), len(broadcast_dimensions)
    for k, d in enumerate(broadcast_dimensions):
        inner[d] = x.shape[k]
    extra = x.shape[rank:]
    order = sorted(range(rank), key=broadcast_dimensions.__getitem__)
    x = x.transpose(*order, *range(rank, x.ndim))
    return np.broadcast_to(x.reshape(*inner, *extra), (*shape, *extra)).copy()


@rule(layout.reshape_p)
def _reshape(x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
    return (x if dimensions is None else np.transpose(x, dimensions)).reshape(new_sizes)


@rule(layout.squeeze_p)
def _squeeze(x: Any, *, dimensions: Any) -> Any:
    return np.squeeze(x, axis=dimensions) if dimensions else x


@rule(layout.iota_p)
def _iota(*, dtype: Any, shape: Any, dimension: int, sharding: Any) -> Any:
    wrapped = (
        np.dtype(f"u{dtype.itemsize}") if dtypes.is_integer(dtype) and dtype.itemsize < 8 else None
    )
    line = np.arange(shape[dimension])
    line = line.astype(wrapped).astype(dtype) if wrapped is not None else line.astype(dtype)
    return np.broadcast_to(
        line.reshape([-1 if k == dimension else 1 for k in range(len(shape))]), shape
    ).copy()


@rule(layout.empty2_p)
def _empty2(*, dtype: Any, memory_space: Any) -> Any:
    return np.zeros((), dtype)


RULES[layout.transpose_p] = lambda x, *, permutation: np.array(
    np.transpose(x, (*permutation, *range(len(permutation), x.ndim)))
)
RULES[layout.rev_p] = lambda x, *, dimensions: np.flip(x, dimensions).copy() if dimensions else x


@rule(p.slice_p)
def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (1,) * len(start_indices)
    return x[tuple(slice(*b) for b in zip(start_indices, limit_indices, steps))].copy()


@rule(p.pad_p)
def _pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    for axis, (low, high, interior) in enumerate(padding_config):
        n = x.shape[axis]
        spread = n + max(n - 1, 0) * interior
        shape = (*x.shape[:axis], max(low, 0) + spread + max(high, 0), *x.shape[axis + 1 :])
        out = np.full(shape, value, x.dtype)
        if n:
            at = slice(max(low, 0), max(low, 0) + spread, interior + 1)
            out[(slice(None),) * axis + (at,)] = x
        cut = slice(max(-low, 0), shape[axis] - max(-high, 0))
        x = out[(slice(None),) * axis + (cut,)]
    return np.array(x)


RULES[p.concatenate_p] = lambda *xs, dimension: np.concatenate(xs, axis=dimension)
RULES[p.stack_p] = lambda *xs, axis: np.stack(xs, axis=axis)
RULES[p.tile_p] = lambda x, *, reps: np.tile(x, reps)
RULES[p.split_p] = lambda x, *, sizes, axis: [
    np.asarray(part, order="C") for part in np.split(x, np.cumsum(sizes)[:-1], axis=axis)
]
RULES[p.unstack_p] = lambda x, *, axis: [
    np.array(np.take(x, k, axis=axis)) for k in range(x.shape[axis])
]


# --- reductions ---
@rule(layout.reduce_sum_p)
def _reduce_sum(x: Any, *, axes: Any, out_sharding: Any) -> Any:
    x = widened(x)
    return np.sum(x, axis=axes, dtype=x.dtype)


@rule(reductions.reduce_prod_p)
def _reduce_prod(x: Any, *, axes: Any) -> Any:
    x = widened(x)
    return np.prod(x, axis=axes, dtype=x.dtype)


def extreme_identity(d: Any, larger: bool) -> Any:
    """What the largest (or smallest) of no elements is."""
    if dtypes.is_bool(d):
        return np.asarray(not larger)
    if dtypes.is_integer(d):
        info = dtypes.iinfo(d)
        return np.asarray(int(info.min if larger else info.max)).astype(d)
    return np.asarray(-np.inf if larger else np.inf).astype(d)


def _extreme(larger: bool) -> Any:
    def reduce(x: Any, *, axes: Any, out_sharding: Any = None) -> Any:
        if not axes:
            return x
        if x.dtype.kind == "c":
            return _fold(
                x, axes, lambda a, b: _ordered(a, b, larger), extreme_identity(x.dtype, larger)
            )
        fn = np.max if larger else np.min
        x = widened(x)
        return fn(x, axis=axes, initial=extreme_identity(x.dtype, larger)[()])

    return reduce


def _fold(x: Any, axes: Any, fn: Any, identity: Any) -> Any:
    kept = [k for k in range(x.ndim) if k not in axes]
    shape = tuple(x.shape[k] for k in kept)
    rows = math.prod(x.shape[k] for k in axes)  # -1 says nothing beside axes of size 0
    flat = np.transpose(x, (*axes, *kept)).reshape(rows, *shape)
    out = np.full(shape, identity, x.dtype)
    for row in flat:
        out = fn(out, row)
    return out


RULES[reductions.reduce_max_p] = _extreme(True)
RULES[reductions.reduce_min_p] = _extreme(False)
RULES[reductions.reduce_and_p] = computed(
    lambda x, *, axes: np.bitwise_and.reduce(x, axis=axes) if axes else x
)
RULES[reductions.reduce_or_p] = computed(
    lambda x, *, axes: np.bitwise_or.reduce(x, axis=axes) if axes else x
)
RULES[reductions.reduce_xor_p] = computed(
    lambda x, *, axes: np.bitwise_xor.reduce(x, axis=axes) if axes else x
)


def _arg(larger: bool) -> Any:
    def reduce(x: Any, *, axes: Any, index_dtype: Any) -> Any:
        x = widened(x)
        if x.dtype.kind == "c":
            return _arg_complex(x, axes[0], larger).astype(index_dtype)
        fn = np.argmax if larger else np.argmin
        return fn(x, axis=axes[0]).astype(index_dtype)

    return reduce


def _arg_complex(x: Any, axis: int, larger: bool) -> Any:
    best = np.take(x, 0, axis=axis)
    out = np.zeros(best.shape, np.int64)
    for k in range(1, x.shape[axis]):
        other = np.take(x, k, axis=axis)
        better = _ordered(best, other, larger) != best
        best, out = np.where(better, other, best), np.where(better, k, out)
    return out


RULES[reductions.argmax_p] = _arg(True)
RULES[reductions.argmin_p] = _arg(False)
