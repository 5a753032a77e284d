"""Reductions over windows, and what is adjoint to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.avals import ShapedArray
from ....core.jaxpr import ClosedJaxpr
from ....primitives.elementwise import ge_p
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..types import ints, type_of
from . import build
from .build import compare, extreme, greatest, least, pairs, scalar
from .reductions import add, computation


def _window(combine: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    def reduce(ctx: LoweringRuleContext, x: Any, **window: Any) -> list[Any]:
        (aval,) = ctx.avals_in
        start = scalar(identity(aval.dtype), aval.dtype)
        return build.windows(
            [x], [start], ctx.avals_out, lambda a, b: [combine(a, b, aval.dtype)], **window
        )

    return reduce


rule("reduce_window_sum")(_window(add, lambda d: 0))
rule("reduce_window_max")(_window(lambda x, y, d: extreme(x, y, d, True), least))
rule("reduce_window_min")(_window(lambda x, y, d: extreme(x, y, d, False), greatest))


@rule("reduce_window")
def _reduce_window(
    ctx: LoweringRuleContext, *args: Any, jaxpr: Any, consts: Any, **window: Any
) -> list[Any]:
    n = len(args) // 2
    body = computation(ctx, _closed(jaxpr, consts))
    return build.windows(args[:n], args[n:], ctx.avals_out, body, **window)


def _closed(jaxpr: Any, consts: Sequence[Any]) -> ClosedJaxpr:
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts)


def _direction(select_prim: Any) -> str:
    return "GE" if select_prim is ge_p else "LE"


@rule("select_and_gather_add")
def _select_and_gather_add(
    ctx: LoweringRuleContext, tangents: Any, operand: Any, *, select_prim: Any, **window: Any
) -> list[Any]:
    """The tangent of the element that each window chooses."""
    moved, aval = ctx.avals_in
    direction, dtype = _direction(select_prim), aval.dtype
    (out,) = ctx.avals_out
    start = (least if direction == "GE" else greatest)(dtype)

    def choose(a: Any, s: Any, b: Any, t: Any) -> list[Any]:
        first = compare(a, b, direction, dtype)
        return [hlo.select(first, a, b), hlo.select(first, s, t)]

    inits = [scalar(start, dtype), scalar(0, moved.dtype)]
    outs = [ShapedArray(out.shape, dtype), out]
    return [build.windows([operand, tangents], inits, outs, choose, **window)[1]]


def _scattered(
    ctx: LoweringRuleContext,
    operand: Any,
    source: Any,
    init: Any,
    select: Callable[..., list[Any]],
    scatter: Callable[..., list[Any]],
    aval: Any,
    window: dict[str, Any],
) -> Any:
    op = hlo.SelectAndScatterOp(
        type_of(aval), operand, source, init,
        window_dimensions=ints(window["window_dimensions"]),
        window_strides=ints(window["window_strides"]),
        padding=pairs(np.asarray(window["padding"]).reshape(-1, 2)),
    )  # fmt: skip
    kinds = build.scalar_types(aval.dtype, aval.dtype)
    build.region(op.regions[0], kinds, select)
    build.region(op.regions[1], kinds, scatter)
    return op.results[0]


@rule("select_and_scatter_add")
def _select_and_scatter_add(
    ctx: LoweringRuleContext, source: Any, operand: Any, *, select_prim: Any, **window: Any
) -> list[Any]:
    _, aval = ctx.avals_in
    direction, dtype = _direction(select_prim), aval.dtype
    pads = [tuple(p) for p in window["padding"]]
    outside = scalar((least if direction == "GE" else greatest)(dtype), dtype)
    wide = ShapedArray(
        tuple(n + lo + hi for n, (lo, hi) in zip(aval.shape, pads, strict=True)), dtype
    )
    zeros = ints([0] * len(pads))
    if any(p != (0, 0) for p in pads):
        operand = hlo.pad(
            operand, outside, ints(lo for lo, _ in pads), ints(hi for _, hi in pads), zeros
        )
    out = _scattered(
        ctx, operand, source, scalar(0, dtype), lambda a, b: [compare(a, b, direction, dtype)],
        lambda a, b: [add(a, b, dtype)], wide, {**window, "padding": [(0, 0)] * len(pads)},
    )  # fmt: skip
    if wide.shape != aval.shape:
        starts = [lo for lo, _ in pads]
        ends = [lo + n for lo, n in zip(starts, aval.shape, strict=True)]
        out = hlo.slice(out, ints(starts), ints(ends), ints([1] * len(pads)))
    return [out]


@rule("select_and_scatter")
def _select_and_scatter(
    ctx: LoweringRuleContext, operand: Any, source: Any, init: Any, *, select_jaxpr: Any,
    select_consts: Any, scatter_jaxpr: Any, scatter_consts: Any, **window: Any,
) -> list[Any]:  # fmt: skip
    select = computation(ctx, _closed(select_jaxpr, select_consts))
    scatter = computation(ctx, _closed(scatter_jaxpr, scatter_consts))
    aval = ctx.avals_out[0]
    return [_scattered(ctx, operand, source, init, select, scatter, aval, window)]
