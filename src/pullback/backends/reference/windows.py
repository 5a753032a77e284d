"""NumPy rules of reductions over windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...primitives import elementwise, windows as p
from ...primitives.convolution import dilated
from .elementwise import _ordered
from .table import RULES, computed, rule


def positions(x: Any, fill: Any, params: dict[str, Any]) -> Iterator[Any]:
    """For each position in the window, the elements there, for all windows; outside the array they
    are `fill`.
    """
    out = p.reduce_window_shape_tuple(x.shape, **params)
    n = x.ndim
    base = params.get("base_dilation") or (1,) * n
    dilation = params.get("window_dilation") or (1,) * n
    for axis, (d, (low, high)) in enumerate(zip(base, params["padding"])):
        wide = dilated(x.shape[axis], d)
        grown = np.full(
            (*x.shape[:axis], max(low, 0) + wide + max(high, 0), *x.shape[axis + 1 :]),
            fill,
            x.dtype,
        )
        before = (slice(None),) * axis
        grown[(*before, slice(max(low, 0), max(low, 0) + wide, d))] = x
        x = grown[(*before, slice(max(-low, 0), grown.shape[axis] - max(-high, 0)))]
    for at in np.ndindex(*params["window_dimensions"]):
        window = tuple(
            slice(k * d, k * d + (m - 1) * s + 1 if m else k * d, s)
            for k, d, m, s in zip(at, dilation, out, params["window_strides"])
        )
        yield x[window]


def _fold(x: Any, fill: Any, fn: Any, params: dict[str, Any]) -> Any:
    total = np.full(p.reduce_window_shape_tuple(x.shape, **params), fill, x.dtype)
    for part in positions(x, fill, params):
        total = fn(total, part)
    return total


RULES[p.reduce_window_sum_p] = computed(lambda x, **params: _fold(x, 0, lambda a, b: a + b, params))
RULES[p.reduce_window_max_p] = computed(
    lambda x, **params: _fold(
        x, p.extreme_fill(x.dtype, True), lambda a, b: _ordered(a, b, True), params
    )
)
RULES[p.reduce_window_min_p] = computed(
    lambda x, **params: _fold(
        x, p.extreme_fill(x.dtype, False), lambda a, b: _ordered(a, b, False), params
    )
)


def _chosen(operand: Any, select_prim: Any, params: dict[str, Any], pad: bool) -> Any:
    """The flat index, for each window, of the element that is selected; -1 if it is none.

    The element that loses to all others comes before each window, or stands (`pad`) wherever a
    window leaves the array; the earlier of equals stays.
    """
    index = np.arange(operand.size).reshape(operand.shape)
    lost = p.extreme_fill(operand.dtype, select_prim is elementwise.ge_p)
    best: Any = None
    chosen: Any = None
    for part, at in zip(positions(operand, lost, params), positions(index, -1, params)):
        if best is None:
            best, chosen = part.copy(), at.copy()
            if pad:
                continue
            best, chosen = np.full_like(best, lost), np.full_like(chosen, -1)
        stays = (best >= part) if select_prim is elementwise.ge_p else (best <= part)
        take = ~stays if pad else ~stays & (at >= 0)
        best, chosen = np.where(take, part, best), np.where(take, at, chosen)
    return chosen


@rule(p.select_and_gather_add_p)
def _gather(tangents: Any, operand: Any, *, select_prim: Any, **params: Any) -> Any:
    chosen = _chosen(operand, select_prim, params, False)
    if not tangents.size:
        return np.zeros(chosen.shape, tangents.dtype)
    picked = tangents.reshape(-1)[np.maximum(chosen, 0)]
    return np.where(chosen >= 0, picked, np.zeros((), tangents.dtype)).astype(tangents.dtype)


@rule(p.select_and_scatter_add_p)
def _scatter(source: Any, operand: Any, *, select_prim: Any, **params: Any) -> Any:
    wide = (
        source.astype(np.float32)
        if source.dtype.itemsize < 4 and source.dtype.kind not in "iub"
        else source
    )
    chosen = _chosen(operand, select_prim, params, True)
    out = np.zeros(operand.size, wide.dtype)
    np.add.at(out, chosen[chosen >= 0], wide[chosen >= 0])
    return out.reshape(operand.shape)
