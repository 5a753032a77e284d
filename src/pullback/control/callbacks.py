"""Callbacks in a batch, called for each element: a loop rather than as many equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.primitive import Primitive
from ..primitives.layout import move_batch_front
from .scan import scan


def sequentially(
    p: Primitive,
    args: Sequence[Any],
    dims: Sequence[Any],
    n: int,
    params: dict[str, Any],
    unroll: bool = False,
) -> tuple[list[Any], list[int]]:
    """The batch rule of a callback that takes one of `n` elements at a time: a scan."""
    mapped = [move_batch_front(x, d) for x, d in zip(args, dims, strict=True) if d is not None]

    def body(_: tuple[()], parts: Sequence[Any]) -> tuple[tuple[()], list[Any]]:
        rest = iter(parts)
        operands = [x if d is None else next(rest) for x, d in zip(args, dims, strict=True)]
        return (), p.bind(*operands, **params)

    outs = scan(body, (), mapped, length=n, unroll=unroll or 1)[1]
    return list(outs), [0] * len(outs)
