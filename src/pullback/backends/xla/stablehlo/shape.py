"""Layout, cutting and joining."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..types import ints, tensor, type_of
from .build import aval_of, scalar, spread


@rule("broadcast_in_dim")
def _broadcast_in_dim(
    ctx: LoweringRuleContext, x: Any, *_: Any, broadcast_dimensions: Sequence[int], **params: Any
) -> list[Any]:
    return [spread(x, broadcast_dimensions, ctx.avals_out[0])]


@rule("reshape")
def _reshape(
    ctx: LoweringRuleContext, x: Any, *_: Any, dimensions: Any = None, **params: Any
) -> list[Any]:
    if dimensions is not None:
        x = hlo.transpose(x, ints(dimensions))
    return [hlo.reshape(type_of(ctx.avals_out[0]), x)]


@rule("squeeze")
def _squeeze(ctx: LoweringRuleContext, x: Any, *, dimensions: Any) -> list[Any]:
    return [hlo.reshape(type_of(ctx.avals_out[0]), x)]


@rule("transpose")
def _transpose(ctx: LoweringRuleContext, x: Any, *, permutation: Sequence[int]) -> list[Any]:
    if tuple(permutation) == tuple(range(len(permutation))):
        return [x]
    return [hlo.transpose(x, ints(permutation))]


@rule("rev")
def _rev(ctx: LoweringRuleContext, x: Any, *, dimensions: Sequence[int]) -> list[Any]:
    return [hlo.reverse(x, ints(dimensions))]


@rule("iota")
def _iota(ctx: LoweringRuleContext, *_: Any, dimension: int, **params: Any) -> list[Any]:
    (aval,) = ctx.avals_out
    if aval.dtype == np.dtype(bool):
        counted = hlo.iota(tensor(aval.shape, np.int32), dimension)
        return [hlo.convert(type_of(aval), counted)]
    return [hlo.iota(type_of(aval), dimension)]


@rule("empty2")
def _empty2(ctx: LoweringRuleContext, **params: Any) -> list[Any]:
    return [spread(scalar(0, ctx.avals_out[0].dtype), (), ctx.avals_out[0])]


@rule("slice")
def _slice(
    ctx: LoweringRuleContext, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> list[Any]:
    steps = strides or [1] * len(start_indices)
    return [hlo.slice(x, ints(start_indices), ints(limit_indices), ints(steps))]


@rule("pad")
def _pad(ctx: LoweringRuleContext, x: Any, value: Any, *, padding_config: Any) -> list[Any]:
    low, high, interior = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    return [hlo.pad(x, value, ints(low), ints(high), ints(interior))]


@rule("concatenate")
def _concatenate(ctx: LoweringRuleContext, *xs: Any, dimension: int) -> list[Any]:
    return [hlo.concatenate(list(xs), dimension)]


@rule("stack")
def _stack(ctx: LoweringRuleContext, *xs: Any, axis: int) -> list[Any]:
    aval = ctx.avals_in[0]
    slab = aval_of((*aval.shape[:axis], 1, *aval.shape[axis:]), aval.dtype)
    kept = [d for d in range(len(slab.shape)) if d != axis]
    return [hlo.concatenate([spread(x, kept, slab) for x in xs], axis)]


@rule("tile")
def _tile(ctx: LoweringRuleContext, x: Any, *, reps: Sequence[int]) -> list[Any]:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    sizes = [m for n, r in zip(aval.shape, reps, strict=True) for m in (r, n)]
    apart = spread(x, range(1, 2 * len(reps), 2), aval_of(sizes, aval.dtype))
    return [hlo.reshape(type_of(out), apart)]


def cut(x: Any, shape: Sequence[int], axis: int, start: int, stop: int) -> Any:
    """A part of an array along one axis."""
    low = [start if d == axis else 0 for d in range(len(shape))]
    high = [stop if d == axis else n for d, n in enumerate(shape)]
    return hlo.slice(x, ints(low), ints(high), ints([1] * len(shape)))


@rule("split")
def _split(ctx: LoweringRuleContext, x: Any, *, sizes: Sequence[int], axis: int) -> list[Any]:
    ends = np.cumsum(sizes)
    shape = ctx.avals_in[0].shape
    return [cut(x, shape, axis, int(e - n), int(e)) for n, e in zip(sizes, ends, strict=True)]


@rule("unstack")
def _unstack(ctx: LoweringRuleContext, x: Any, *, axis: int) -> list[Any]:
    shape = ctx.avals_in[0].shape
    return [
        hlo.reshape(type_of(out), cut(x, shape, axis, k, k + 1))
        for k, out in enumerate(ctx.avals_out)
    ]
