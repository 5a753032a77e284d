"""gather and the scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....core.jaxpr import ClosedJaxpr
from ....primitives.index_checks import GatherScatterMode
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..types import dense_attr, ints, type_of
from .build import (
    aval_of,
    compare,
    converted,
    extreme,
    flag,
    full,
    reduced,
    region,
    scalar,
    scalar_types,
    spread,
)
from .reductions import add, computation


def _bounds(
    indices: Any, aval: Any, shape: Sequence[int], sizes: Sequence[int], axes: Sequence[int]
) -> tuple[Any, Any, Any]:
    """The indices in a type that holds the last valid starts, their aval, and those starts."""
    limits = np.asarray([shape[d] - sizes[d] for d in axes], np.int64)
    if dtypes.is_unsigned(aval.dtype) and aval.dtype.itemsize == 8:
        return indices, aval, limits.astype(np.uint64)
    if limits.size and int(limits.max()) > int(dtypes.iinfo(aval.dtype).max):
        wide = aval_of(aval.shape, np.int64)
        return converted(indices, aval.shape, np.int64), wide, limits
    return indices, aval, limits.astype(aval.dtype)


def _row(values: Any, aval: Any) -> Any:
    """A number for each component of the starts, spread over them."""
    from_last = len(aval.shape) - 1
    return spread(hlo.constant(dense_attr(values)), (from_last,), aval)


def _clipped(indices: Any, aval: Any, limits: Any) -> Any:
    return hlo.clamp(full(0, aval), indices, _row(limits, aval))


def _inside(indices: Any, aval: Any, limits: Any) -> Any:
    """Which starts are in bounds."""
    dtype = aval.dtype
    ok = hlo.and_(
        compare(indices, full(0, aval), "GE", dtype),
        compare(indices, _row(limits, aval), "LE", dtype),
    )
    last = len(aval.shape) - 1
    flags = aval_of(aval.shape, bool)
    (out,) = reduced([ok], [scalar(True, bool)], [flags], [last], lambda a, b: [hlo.and_(a, b)])
    return out


@rule("gather")
def _gather(
    ctx: LoweringRuleContext, x: Any, indices: Any, *_: Any, dimension_numbers: Any,
    slice_sizes: Sequence[int], unique_indices: bool, indices_are_sorted: bool, mode: Any,
    fill_value: Any,
) -> list[Any]:  # fmt: skip
    (aval, starts, *_rest), (out,), dn = ctx.avals_in, ctx.avals_out, dimension_numbers
    mode = GatherScatterMode.from_any(mode)
    shape, axes = aval.shape, dn.start_index_map
    keep = None
    if mode in (GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP) and axes:
        indices, starts, limits = _bounds(indices, starts, shape, slice_sizes, axes)
        if mode is GatherScatterMode.FILL_OR_DROP:
            keep = _inside(indices, starts, limits)
        else:
            indices = _clipped(indices, starts, limits)
    numbers = hlo.GatherDimensionNumbers.get(
        list(dn.offset_dims), list(dn.collapsed_slice_dims), list(dn.operand_batching_dims),
        list(dn.start_indices_batching_dims), list(dn.start_index_map), len(starts.shape) - 1,
    )  # fmt: skip
    found = hlo.gather(
        x, indices, numbers, ints(slice_sizes), indices_are_sorted=flag(indices_are_sorted)
    )
    if keep is None:
        return [found]
    batch = [d for d in range(len(out.shape)) if d not in dn.offset_dims]
    keep = spread(keep, batch, aval_of(out.shape, bool))
    fill = _default_fill(out.dtype) if fill_value is None else fill_value
    return [hlo.select(keep, found, full(fill, out))]


def _default_fill(dtype: Any) -> Any:
    """NaN, the least integer, the greatest unsigned one, True."""
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtypes.is_bool(dtype):
        return True
    info = dtypes.iinfo(dtype)
    return int(info.max if dtypes.is_unsigned(dtype) else info.min)


# --- scatter ---
def _scatter(combine: Callable[..., Any]) -> Callable[..., Any]:
    def scatter(
        ctx: LoweringRuleContext, x: Any, indices: Any, updates: Any, *, update_jaxpr: Any,
        update_consts: Any, dimension_numbers: Any, indices_are_sorted: bool,
        unique_indices: bool, mode: Any,
    ) -> list[Any]:  # fmt: skip
        aval, starts, new = ctx.avals_in
        dn = dimension_numbers
        if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP:
            sizes = _window(aval.shape, new.shape, dn)
            axes = dn.scatter_dims_to_operand_dims
            indices, starts, limits = _bounds(indices, starts, aval.shape, sizes, axes)
            indices = _clipped(indices, starts, limits)
        numbers = hlo.ScatterDimensionNumbers.get(
            list(dn.update_window_dims), list(dn.inserted_window_dims),
            list(dn.operand_batching_dims), list(dn.scatter_indices_batching_dims),
            list(dn.scatter_dims_to_operand_dims), len(starts.shape) - 1,
        )  # fmt: skip
        op = hlo.ScatterOp(
            [type_of(aval)], [x], indices, [updates], numbers,
            indices_are_sorted=flag(indices_are_sorted), unique_indices=flag(unique_indices),
        )  # fmt: skip
        body = lambda a, b: [combine(a, b, aval.dtype)]
        if combine is _replace and update_jaxpr is not None:
            body = computation(ctx, ClosedJaxpr(update_jaxpr, update_consts))
        region(op.regions[0], scalar_types(aval.dtype, aval.dtype), body)
        return list(op.results)

    return scatter


def _window(shape: Sequence[int], updates: Sequence[int], dn: Any) -> list[int]:
    """The extents of the windows that are written, by axis of the operand."""
    sizes = iter([updates[d] for d in dn.update_window_dims])
    ones = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    return [1 if d in ones else next(sizes) for d in range(len(shape))]


def _replace(old: Any, new: Any, dtype: Any) -> Any:
    return new


rule("scatter")(_scatter(_replace))
rule("scatter-add")(_scatter(add))
rule("scatter-sub")(_scatter(lambda x, y, d: hlo.subtract(x, y)))
rule("scatter-mul")(_scatter(lambda x, y, d: hlo.multiply(x, y)))
rule("scatter-min")(_scatter(lambda x, y, d: extreme(x, y, d, False)))
rule("scatter-max")(_scatter(lambda x, y, d: extreme(x, y, d, True)))
