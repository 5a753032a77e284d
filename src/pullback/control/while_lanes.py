"""Loops of many lanes, as `vmap` makes them: lanes stop one by one, and the loop goes on while any
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..core.avals import typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr
from ..core.primitive import Primitive
from ..core.refs import is_ref_aval
from ..core.symbolic import Zero, instantiate_zeros
from ..primitives.elementwise import select_n
from ..primitives.reductions import reduce_or
from ..primitives.shape import broadcast_in_dim
from ..transforms.batch import matchaxis
from .expand import register_inline

__all__ = [
    "held_of",
    "lane_axes_of",
    "masked",
    "remember_held",
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


def held_of(body: ClosedJaxpr) -> tuple[int, ...]:
    """Which constants of a body were carries that it hands on: each lane has its own of them, so
    that a derivative which is NaN in one that has stopped does not reach the others.
    """
    found: tuple[int, ...] = body.derived.get("held", ())
    return found


def remember_held(body: ClosedJaxpr, held: Sequence[int]) -> None:
    if held:
        body.derived["held"] = tuple(held)


def masked(
    cond: ClosedJaxpr, body: ClosedJaxpr, n_cc: int, lane_axes: Sequence[tuple[int, ...]]
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The condition and the body of a loop whose lanes stop one by one; the body's first constants
    are the condition's. The body runs on lanes that have stopped all the same, and its derivative
    there may be NaN: it reaches neither the carry nor the constants that are mapped (`lane_axes`).
    """
    n_bc = len(lane_axes)
    key = "masked", n_cc, tuple(lane_axes)
    found = body.derived.get(key)
    if found is not None and found[0] is cond:
        return found[1]  # type: ignore[no-any-return]
    carry_avals = body.in_avals[n_bc:]
    every = tuple(range(cond.out_avals[0].ndim))

    def new_body(*args: Any) -> list[Any]:
        cc, bc, carry = args[:n_cc], args[n_cc : n_cc + n_bc], args[n_cc + n_bc :]
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *cc, *carry)
        alive = [_alive(pred, x, t) for x, t in zip(bc, lane_axes, strict=True)]
        alive += [_alive(pred, x, every) for x in carry]
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


def _alive(pred: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The value, with a derivative in the lanes that go on; `axes` of the predicate lead it."""
    aval = typeof(x)
    if not axes or is_ref_aval(aval) or not dtypes.is_inexact(getattr(aval, "dtype", None)):
        return x
    others = tuple(k for k in range(typeof(pred).ndim) if k not in axes)
    return alive_p.bind(reduce_or(pred, others) if others else pred, x)


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


def _jvp(primals: Any, tangents: Any) -> Any:
    pred, x = primals
    return alive_p.bind(pred, x), _gated(pred, tangents[1])


def _transpose(ct: Any, pred: Any, x: Any) -> Any:
    return [None, _gated(pred, ct)]


def _batch(axis: Any, vals: Any, dims: Any) -> Any:
    pred, x = (matchaxis(axis.size, d, 0, v) for v, d in zip(vals, dims, strict=True))
    return alive_p.bind(pred, x), 0


# alive(pred, x) is x, whose derivative is 0 in the lanes whose predicate is false. It may be among
# what is linear or not: which of the two a value is, is not known where loops are masked.
alive_p = Primitive(
    "alive",
    abstract_eval=lambda pred, x: x,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
)
register_inline(alive_p, lambda pred, x: x)
