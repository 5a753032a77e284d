"""NumPy rules of the reductions that hold a computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...control.reduction import reduce_p, reduce_window_p
from ...core.jaxpr import ClosedJaxpr, Jaxpr, closed_without_consts
from ...core.primitive import Primitive
from ...transforms.batch import AxisData, batch_jaxpr
from .windows import positions

Evaluate = Callable[[Jaxpr, Sequence[Any], Sequence[Any]], list[Any]]


def reduction_rules(evaluate: Evaluate) -> dict[Primitive, Callable[..., Any]]:
    """The rules, given what evaluates a jaxpr: (jaxpr, consts, arguments) -> results."""

    def combine(closed: ClosedJaxpr, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        shape = left[0].shape
        n = int(np.prod(shape, dtype=int))
        if n == 0:
            return list(left)
        args = [*left, *right]
        batched, _ = batch_jaxpr(closed, AxisData(None, n), [True] * len(args), True)
        outs = evaluate(batched.jaxpr, batched.consts, [x.reshape(n) for x in args])
        return [x.reshape(shape) for x in outs]

    def reduce(*args: Any, computation: Any, jaxpr: ClosedJaxpr, dimensions: Any) -> list[Any]:
        n = len(args) // 2
        kept = [k for k in range(args[0].ndim) if k not in dimensions]
        shape = tuple(args[0].shape[k] for k in kept)
        count = int(np.prod([args[0].shape[k] for k in dimensions], dtype=int))
        rows = [np.transpose(x, (*dimensions, *kept)).reshape(count, *shape) for x in args[:n]]
        total = [np.full(shape, i, i.dtype) for i in args[n:]]
        for k in range(count):
            total = combine(jaxpr, total, [r[k] for r in rows])
        return total

    def reduce_window(*args: Any, jaxpr: Jaxpr, consts: Any, **window: Any) -> list[Any]:
        n = len(args) // 2
        closed = ClosedJaxpr(jaxpr, consts) if consts else closed_without_consts(jaxpr)
        total: list[Any] | None = None
        inside = positions(np.ones(args[0].shape, bool), np.False_, window)
        places = zip(*(positions(x, i, window) for x, i in zip(args[:n], args[n:])))
        for where, at in zip(inside, places):
            if total is None:
                total = [np.full(at[0].shape, i, i.dtype) for i in args[n:]]
            both = combine(closed, total, at)
            # What lies outside is left out: the initial value need not be neutral.
            total = [np.where(where, b, t) for b, t in zip(both, total)]
        return total or []

    return {reduce_p: reduce, reduce_window_p: reduce_window}
