"""Reductions along axes: sums, products, extremes, logic, positions, any computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....core.jaxpr import ClosedJaxpr
from ..contexts import LoweringRuleContext, TokenSet
from ..library import hlo
from ..lowering import inlined, rule
from ..types import type_of
from .build import aval_of, compare, extreme, greatest, least, reduced, scalar


def _reduction(combine: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    def reduce(ctx: LoweringRuleContext, x: Any, *, axes: Sequence[int], **_: Any) -> list[Any]:
        (aval,) = ctx.avals_in
        start = scalar(identity(aval.dtype), aval.dtype)
        return reduced([x], [start], [aval], axes, lambda a, b: [combine(a, b, aval.dtype)])

    return reduce


def add(x: Any, y: Any, dtype: Any) -> Any:
    return hlo.or_(x, y) if dtypes.is_bool(dtype) else hlo.add(x, y)


def _ones(dtype: Any) -> Any:
    """All bits set."""
    return np.asarray(True) if dtypes.is_bool(dtype) else np.asarray(-1).astype(dtype)


rule("reduce_sum")(_reduction(add, lambda d: 0))
rule("reduce_prod")(_reduction(lambda x, y, d: hlo.multiply(x, y), lambda d: 1))
rule("reduce_max")(_reduction(lambda x, y, d: extreme(x, y, d, True), least))
rule("reduce_min")(_reduction(lambda x, y, d: extreme(x, y, d, False), greatest))
rule("reduce_and")(_reduction(lambda x, y, d: hlo.and_(x, y), _ones))
rule("reduce_or")(_reduction(lambda x, y, d: hlo.or_(x, y), lambda d: 0))
rule("reduce_xor")(_reduction(lambda x, y, d: hlo.xor(x, y), lambda d: 0))


def _position(larger: bool) -> Any:
    """The first position of the extreme; NaN is the extreme where there is one."""

    def reduce(
        ctx: LoweringRuleContext, x: Any, *, axes: Sequence[int], index_dtype: Any
    ) -> list[Any]:
        (aval,), (axis,) = ctx.avals_in, axes
        places = aval_of(aval.shape, index_dtype)
        index = hlo.iota(type_of(places), axis)
        bound = (least if larger else greatest)(aval.dtype)
        inits = [scalar(bound, aval.dtype), scalar(0, index_dtype)]

        def better(a: Any, i: Any, b: Any, k: Any) -> list[Any]:
            first = compare(a, b, "GT" if larger else "LT", aval.dtype)
            first = hlo.or_(first, compare(a, a, "NE", aval.dtype))
            equal = compare(a, b, "EQ", aval.dtype)
            tie = hlo.and_(equal, compare(i, k, "LT", index_dtype))
            return [hlo.select(first, a, b), hlo.select(hlo.or_(first, tie), i, k)]

        return [reduced([x, index], inits, [aval, places], axes, better)[1]]

    return reduce


rule("argmax")(_position(True))
rule("argmin")(_position(False))


def computation(
    ctx: LoweringRuleContext, closed: ClosedJaxpr, consts: Sequence[Any] = ()
) -> Callable[..., list[Any]]:
    """A program of scalars as the body of a region."""
    inner = ctx.replace(
        avals_in=closed.in_avals, avals_out=closed.out_avals, tokens_in=TokenSet(), tokens_out=None
    )
    return lambda *args: inlined(inner, closed, [*consts, *args])


@rule("reduce")
def _reduce(
    ctx: LoweringRuleContext, *args: Any, jaxpr: ClosedJaxpr, dimensions: Any, **_: Any
) -> list[Any]:
    n = len(args) // 2
    body = computation(ctx, jaxpr)
    return reduced(args[:n], args[n:], ctx.avals_in[:n], dimensions, body)
