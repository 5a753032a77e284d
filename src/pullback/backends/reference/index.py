"""Indexing in NumPy: gather and scatter by full index arrays, and dynamic slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...core.jaxpr import Jaxpr
from ...primitives import index
from ...primitives.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...primitives.index_checks import GatherScatterMode
from .table import rule

Evaluate = Callable[[Jaxpr, Sequence[Any], Sequence[Any]], list[Any]]
_FILL = GatherScatterMode.FILL_OR_DROP


def _positions(
    shape: tuple[int, ...],
    indices: Any,
    sizes: Sequence[int],
    start_map: Any,
    hidden: Any,
    batching: Any,
    fill: bool,
) -> tuple[list[Any], Any]:
    """For each axis of an operand, an index array over (axes of starts, axes of the window), and
    which starts are in bounds.
    """
    lead = indices.shape[:-1]
    window = [d for d in range(len(shape)) if d not in hidden]
    rank = len(lead) + len(window)
    ok = np.ones(lead, bool)
    out = []
    for d, n in enumerate(shape):
        start = np.zeros(lead, np.int64)
        if d in start_map:
            raw = indices[..., list(start_map).index(d)]
            start = (
                np.minimum(raw, np.uint64(2**62)).astype(np.int64)
                if raw.dtype.kind == "u"
                else raw.astype(np.int64)
            )
            ok &= (start >= 0) & (start <= n - sizes[d])
            start = np.clip(start, 0, max(n - sizes[d], 0))
        for operand_dim, starts_dim in batching:
            if operand_dim == d:
                along = [1] * len(lead)
                along[starts_dim] = lead[starts_dim]
                start = np.broadcast_to(np.arange(lead[starts_dim]).reshape(along), lead)
        start = start.reshape((*lead, *(1,) * len(window)))
        if d in window:
            step = [1] * rank
            step[len(lead) + window.index(d)] = sizes[d]
            start = start + np.arange(sizes[d]).reshape(step)
        out.append(start)
    return out, ok if fill else np.ones(lead, bool)


def _window_order(ndim: int, window_dims: Sequence[int]) -> list[int]:
    """The axes of an array with its window axes last."""
    return [d for d in range(ndim) if d not in window_dims] + list(window_dims)


def _default_fill(d: Any) -> Any:
    if dtypes.is_inexact(d):
        return np.nan
    if dtypes.is_bool(d):
        return True
    info = dtypes.iinfo(d)
    return info.max if dtypes.is_unsigned(d) else info.min


@rule(index.gather_p)
def gather(
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: Any,
    fill_value: Any,
) -> Any:
    dn = dimension_numbers
    hidden = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    batching = list(zip(dn.operand_batching_dims, dn.start_indices_batching_dims))
    at, ok = _positions(
        operand.shape, indices, slice_sizes, dn.start_index_map, hidden, batching, mode is _FILL
    )
    lead = indices.shape[:-1]
    window = tuple(n for d, n in enumerate(slice_sizes) if d not in hidden)
    if operand.size == 0:
        out = np.zeros((*lead, *window), operand.dtype)
    else:
        out = np.broadcast_to(operand[tuple(at)] if at else operand, (*lead, *window))
    if mode is _FILL:
        fill = np.asarray(
            _default_fill(operand.dtype) if fill_value is None else fill_value
        ).astype(operand.dtype)
        out = np.where(ok.reshape(*lead, *(1,) * len(window)), out, fill)
    order = _window_order(out.ndim, dn.offset_dims)
    return np.array(np.transpose(out, np.argsort(order)))


def _targets(operand: Any, indices: Any, updates: Any, dn: Any, mode: Any) -> tuple[Any, Any]:
    """Flat positions in the operand, and the updates, of all updates that are not dropped."""
    hidden = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    window = iter(updates.shape[d] for d in dn.update_window_dims)
    sizes = [1 if d in hidden else next(window) for d in range(operand.ndim)]
    batching = list(zip(dn.operand_batching_dims, dn.scatter_indices_batching_dims))
    drop = mode is not GatherScatterMode.CLIP
    at, ok = _positions(
        operand.shape, indices, sizes, dn.scatter_dims_to_operand_dims, hidden, batching, drop
    )
    values = np.transpose(updates, _window_order(updates.ndim, dn.update_window_dims))
    if values.size == 0 or operand.size == 0:
        return np.zeros(0, np.int64), updates.reshape(-1)[:0]
    flat = np.zeros(values.shape, np.int64)
    for n, i in zip(operand.shape, at):
        flat = flat * n + i
    ok = np.reshape(ok, (*np.shape(ok), *(1,) * (values.ndim - np.ndim(ok))))
    keep = np.broadcast_to(ok, values.shape)
    return flat[keep], values[keep]


def _scatter_with(combine: Any) -> Callable[..., Any]:
    def scatter(
        operand: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **_: Any
    ) -> Any:
        out = np.array(operand)
        at, values = _targets(operand, indices, updates, dimension_numbers, mode)
        combine(out.reshape(-1), at, values)
        return out

    return scatter


def _rounds(at: Any) -> Any:
    """Selections of updates such that no two of one selection have one target, in order."""
    order = np.argsort(at, kind="stable")
    ranked = at[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]] if len(at) else np.zeros(0, bool)
    starts = (
        np.maximum.accumulate(np.where(first, np.arange(len(at)), 0))
        if len(at)
        else np.zeros(0, np.int64)
    )
    rank = np.empty(len(at), np.int64)
    rank[order] = np.arange(len(at)) - starts
    for k in range(int(rank.max(initial=-1)) + 1):
        yield rank == k


def _at(op: Any, ufunc: Any) -> Callable[[Any, Any, Any], None]:
    """NumPy's own accumulation, for the dtypes that it knows."""
    rounds = _in_rounds(op)

    def combine(flat: Any, at: Any, values: Any) -> None:
        if flat.dtype.kind in "iufc":
            ufunc.at(flat, at, values)
        else:
            rounds(flat, at, values)

    return combine


def _in_rounds(op: Any) -> Callable[[Any, Any, Any], None]:
    def combine(flat: Any, at: Any, values: Any) -> None:
        for chosen in _rounds(at):
            where = at[chosen]
            flat[where] = op(flat[where], values[chosen]).astype(flat.dtype)

    return combine


def _logical(real: Any, boolean: Any) -> Any:
    return lambda x, y: boolean(x, y) if x.dtype == bool else real(x, y)


rule(index.scatter_add_p)(_scatter_with(_at(_logical(np.add, np.logical_or), np.add)))
rule(index.scatter_sub_p)(_scatter_with(_at(np.subtract, np.subtract)))
rule(index.scatter_mul_p)(_scatter_with(_at(_logical(np.multiply, np.logical_and), np.multiply)))
rule(index.scatter_min_p)(_scatter_with(_at(np.minimum, np.minimum)))
rule(index.scatter_max_p)(_scatter_with(_at(np.maximum, np.maximum)))


@rule(dynamic_slice_p)
def dynamic_slice(operand: Any, *starts: Any, slice_sizes: Any) -> Any:
    at = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, operand.shape, slice_sizes)]
    return np.array(operand[tuple(np.s_[s : s + size] for s, size in zip(at, slice_sizes))])


@rule(dynamic_update_slice_p)
def dynamic_update_slice(operand: Any, update: Any, *starts: Any) -> Any:
    out = np.array(operand)
    at = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, operand.shape, update.shape)]
    out[tuple(np.s_[s : s + size] for s, size in zip(at, update.shape))] = update
    return out


def index_rules(evaluate: Evaluate) -> dict[Any, Callable[..., Any]]:
    """The rules that apply a program to elements, given the function that evaluates one."""

    def scatter(
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        update_jaxpr: Any,
        update_consts: Any,
        dimension_numbers: Any,
        mode: Any,
        **_: Any,
    ) -> Any:
        out = np.array(operand)
        at, values = _targets(operand, indices, updates, dimension_numbers, mode)
        if update_jaxpr is None:
            out.reshape(-1)[at] = values
            return out
        _in_rounds(
            lambda x, u: np.broadcast_to(evaluate(update_jaxpr, update_consts, [x, u])[0], x.shape)
        )(out.reshape(-1), at, values)
        return out

    return {index.scatter_p: scatter}
