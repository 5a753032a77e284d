"""Loops of many lanes, as `vmap` makes them: lanes stop one by one, and the loop goes on while any
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr
from ..core.primitive import Primitive
from ..core.refs import is_ref_aval
from ..core.symbolic import Zero, instantiate_zeros
from ..primitives.elementwise import bitwise_and, eq, select_n
from ..primitives.layout import broadcasted_iota
from ..primitives.reductions import argmax, reduce_or, reduce_sum
from ..primitives.shape import broadcast_in_dim
from ..transforms.batch import matchaxis
from .expand import register_inline

__all__ = [
    "lane_axes_of",
    "masked",
    "remember_lanes",
    "select_lanes",
]


def lane_axes_of(body: ClosedJaxpr, n_bc: int) -> list[tuple[int, ...]]:
    """Per constant of a body, the axes of the predicate that are its leading axes, as far as
    that is known: it is only asked where JAX differentiates nothing.
    """
    found: list[tuple[int, ...]] = body.derived.get("lane axes", [()] * n_bc)
    return found


def remember_lanes(body: ClosedJaxpr, lane_axes: Sequence[tuple[int, ...]]) -> None:
    if any(lane_axes):
        body.derived["lane axes"] = list(lane_axes)


def masked(
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
    n_cc: int,
    lane_axes: Sequence[tuple[int, ...]],
    *,
    for_reverse: bool = False,
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The condition and the body of a loop whose lanes stop one by one; the body's first constants
    are the condition's. The body runs on lanes that have stopped all the same, and what it gives
    there reaches neither the carry nor the constants that are mapped (`lane_axes`).

    `for_reverse` lets it run there on the values of a lane that goes on: at its own, where it was
    never meant to be evaluated, its derivative may be infinite, and times a cotangent of 0 that
    would be NaN in the sums over all lanes which the constants that are not mapped get.
    """
    n_bc = len(lane_axes)
    key = "masked", n_cc, tuple(lane_axes), for_reverse
    found = body.derived.get(key)
    if found is not None and found[0] is cond:
        return found[1]  # type: ignore[no-any-return]
    carry_avals = body.in_avals[n_bc:]
    every = tuple(range(cond.out_avals[0].ndim))

    def new_body(*args: Any) -> list[Any]:
        cc, bc, carry = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *cc, *carry)
        alive = [_alive(pred, x, t, for_reverse) for x, t in zip(bc, lane_axes, strict=True)]
        alive += [_alive(pred, x, every, for_reverse) for x in carry]
        new = eval_jaxpr(body.jaxpr, body.consts, *alive)
        return [select_lanes(pred, old, x) for old, x in zip(carry, new, strict=True)]

    def new_cond(*args: Any) -> list[Any]:
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *args)
        return [reduce_or(pred, every)]

    body_avals = [*cond.in_avals[:n_cc], *body.in_avals[:n_bc], *carry_avals]
    made = (
        close_jaxpr(*trace_to_jaxpr(new_cond, cond.in_avals, cond.jaxpr.debug_info))[0],
        close_jaxpr(*trace_to_jaxpr(new_body, body_avals, body.jaxpr.debug_info))[0],
    )
    body.derived[key] = cond, made
    return made


def _alive(pred: Any, x: Any, axes: tuple[int, ...], borrow: bool) -> Any:
    """The value, with a derivative in the lanes that go on; `axes` of the predicate lead it."""
    aval = typeof(x)
    if not axes or is_ref_aval(aval) or dtypes.is_extended(aval.dtype):
        return x
    if not borrow and not dtypes.is_inexact(aval.dtype):
        return x
    others = tuple(k for k in range(typeof(pred).ndim) if k not in axes)
    return alive_p.bind(reduce_or(pred, others) if others else pred, x, borrow=borrow)


def _borrowed(pred: Any, x: Any) -> Any:
    """The values, with those of a lane that goes on in the place of those of the others: of the
    first one along the last axis, and where a whole row has stopped, of the first row."""
    zeros = instantiate_zeros(Zero(typeof(x)))
    total = reduce_or if typeof(x).dtype == bool else reduce_sum
    for axis in reversed(range(typeof(pred).ndim)):
        shape = typeof(pred).shape
        kept = tuple(k for k in range(len(shape)) if k != axis)
        first = broadcast_in_dim(argmax(pred, axis, np.int32), shape, kept)
        is_first = bitwise_and(pred, eq(broadcasted_iota(np.int32, shape, axis), first))
        whole = typeof(x).shape
        places = tuple(k for k in range(len(whole)) if k != axis)
        lent = total(select_lanes(is_first, zeros, x), (axis,))
        x = select_lanes(pred, broadcast_in_dim(lent, whole, places), x)
        pred = broadcast_in_dim(reduce_or(pred, (axis,)), shape, kept)
    return x


def select_lanes(pred: Any, on_false: Any, on_true: Any) -> Any:
    """Per lane of the predicate's axes, which lead, `on_true` or `on_false`."""
    aval, lanes = typeof(on_true), typeof(pred).ndim
    if aval.ndim > lanes:
        pred = broadcast_in_dim(pred, aval.shape, tuple(range(lanes)))
    return select_n(pred, on_false, on_true)


def _gated(pred: Any, t: Any) -> Any:
    if type(t) is Zero:
        return t
    return select_lanes(pred, instantiate_zeros(Zero(typeof(t))), t)


def _jvp(primals: Any, tangents: Any, *, borrow: bool) -> Any:
    pred, x = primals
    return alive_p.bind(pred, x, borrow=borrow), _gated(pred, tangents[1])


def _transpose(ct: Any, pred: Any, x: Any, *, borrow: bool) -> Any:
    return [None, _gated(pred, ct)]


def _batch(axis: Any, vals: Any, dims: Any, *, borrow: bool) -> Any:
    pred, x = (matchaxis(axis.size, d, 0, v) for v, d in zip(vals, dims, strict=True))
    return alive_p.bind(pred, x, borrow=borrow), 0


# alive(pred, x) is x in the lanes whose predicate is true. What it is in the others is never
# looked at, and has the derivative 0. It may be among what is linear or not: which of the two a
# value is, is not known where loops are masked.
alive_p = Primitive(
    "alive",
    abstract_eval=lambda pred, x, borrow: x,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)
register_inline(alive_p, lambda pred, x, borrow: _borrowed(pred, x) if borrow else x)
