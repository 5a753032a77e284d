"""Callbacks in a batch, and loops and branches with some in them, for each element: a loop rather
than as many equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.effects import NamedAxisEffect
from ..core.jaxpr import ClosedJaxpr
from ..core.primitive import Primitive
from ..primitives.layout import move_batch_front
from .call import mentions_axis
from .scan import scan


def apart_on_devices(axis: Any, *programs: ClosedJaxpr) -> bool:
    """Does each device of a mapped axis run these programs by itself? Where they have effects, each
    has its own: a loop that goes on for one does not call Python for those that are done. Not
    where they talk to each other, which they do side by side."""
    effects = [e for p in programs for e in p.effects if not isinstance(e, NamedAxisEffect)]
    return bool(
        axis.devices and effects and not any(mentions_axis(p.effects, axis.name) for p in programs)
    )


def sequentially(
    p: Primitive,
    args: Sequence[Any],
    dims: Sequence[Any],
    n: int,
    params: dict[str, Any],
    unroll: bool = False,
) -> tuple[list[Any], list[int]]:
    """The batch rule of a primitive that takes one of `n` elements at a time: a scan."""
    mapped = [move_batch_front(x, d) for x, d in zip(args, dims, strict=True) if d is not None]

    def body(_: tuple[()], parts: Sequence[Any]) -> tuple[tuple[()], list[Any]]:
        rest = iter(parts)
        operands = [x if d is None else next(rest) for x, d in zip(args, dims, strict=True)]
        return (), p.bind(*operands, **params)

    outs = scan(body, (), mapped, length=n, unroll=unroll or 1)[1]
    return list(outs), [0] * len(outs)
