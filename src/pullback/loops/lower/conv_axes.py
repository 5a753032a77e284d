"""The geometry of a convolution that is done by products: its axes, where each lies in the operand,
in the weights and in the result, and which positions belong together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.lower.elementwise import scalar_convert
from pullback.loops.lower.graph import Node, Slot, read
from pullback.records import record

__all__ = ["Axis", "Form", "Line", "levels", "lines_of", "merged", "where_stored"]


@record(eq=True, frozen=False)
class Axis:
    """An axis of the computation: its extent, its strides in the operand, in the weights and in
    the result, and which axis of the result (or of the weights) it is: index start + step * i."""

    extent: int
    x: int
    w: int = 0
    out: int = 0
    place: int = -1
    start: int = 0
    step: int = 1

    def index(self, b: Builder, i: Index) -> Index:
        return b.add(b.mul(i, self.step), self.start)


@record(eq=True, frozen=False)
class Line:
    """One spatial axis: `count` positions from `start` on in steps of `step`, window positions
    likewise, and where in the padded operand the first of both reads."""

    count: int
    start: int
    step: int
    stride: int
    taps: int
    first_tap: int
    tap_step: int
    dilation: int
    begin: int


def lines_of(conv: Any, axis: int, high: int) -> tuple[list[Line], tuple[int, int, int]]:
    """A spatial axis as lines, and its padding (low, high, between elements).

    A dilated operand has an element in one of `gap` places only. Where windows move by one, the
    positions that meet elements at the same window positions are a convolution of their own,
    without any zeros: one line for each remainder of the position by `gap`.
    """
    n, taps = conv.space[axis], conv.window[axis]
    stride, dilation, gap = conv.strides[axis], conv.dilation[axis], conv.base[axis]
    low, size = conv.lows[axis], conv.x.shape[conv.lhs[2:][axis]]
    if gap == 1 or stride != 1 or dilation != 1:
        line = Line(n, 0, 1, stride, taps, 0, 1, dilation, 0)
        return [line], (low, high, gap - 1)
    found, least, most = [], 0, size - 1
    for start in range(min(gap, n)):
        first = (low - start) % gap
        count = -(-(n - start) // gap)
        own = max(0, -(-(taps - first) // gap))
        begin = (start + first - low) // gap
        found.append(Line(count, start, gap, 1, own, first, gap, 1, begin))
        if own:
            least, most = min(least, begin), max(most, begin + count + own - 2)
    for line in found:
        line.begin = line.begin - least if line.taps else 0
    return found, (-least, most - (size - 1), 0)


def strides_of(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def merged(axes: Sequence[Axis], *of: str) -> list[tuple[int, ...]]:
    """(extent, strides...) of axes in order, neighbours merged where all these strides allow it."""
    found: list[tuple[int, ...]] = []
    for a in axes:
        steps = tuple(getattr(a, name) for name in of)
        if a.extent == 1:
            continue
        if found and all(p == a.extent * s for p, s in zip(found[-1][1:], steps, strict=True)):
            found[-1] = (found[-1][0] * a.extent, *steps)
        else:
            found.append((a.extent, *steps))
    return found


def where_stored(x: Node) -> Node:
    """The value that x, an operand that must be stored, lies in memory as: in another shape, if it
    is there already in that."""
    y = x
    while y.reshaped is not None:
        y = y.reshaped
    return y if y.kind in ("leaf", "opq", "red") else x


class Form:
    """What both forms share: the axes and where everything lies."""

    def __init__(
        self, conv: Any, x: Node, w: Node, shape: tuple[int, ...], lines: Sequence[Line]
    ) -> None:
        sx, sw, so = strides_of(x.shape), strides_of(w.shape), strides_of(shape)
        self.conv, self.x, self.w, self.shape, self.lines = conv, x, w, shape, tuple(lines)
        self.there = where_stored(x)
        lhs, rhs, out = conv.lhs, conv.rhs, conv.out
        self.image = Axis(conv.batch, sx[lhs[0]], 0, so[out[0]], out[0])
        self.space = [
            Axis(v.count, v.stride * sx[a], 0, v.step * so[o], o, v.start, v.step)
            for v, a, o in zip(lines, lhs[2:], out[2:], strict=True)
        ]
        window = [
            Axis(v.taps, v.dilation * sx[a], v.tap_step * sw[r], 0, r, v.first_tap, v.tap_step)
            for v, a, r in zip(lines, lhs[2:], rhs[2:], strict=True)
        ]
        self.deep = [Axis(conv.depth, sx[lhs[1]], sw[rhs[1]], 0, rhs[1]), *window]
        # Where everything begins.
        self.x_base = sum(v.begin * sx[a] for v, a in zip(lines, lhs[2:], strict=True))
        self.w_base = sum(v.first_tap * sw[r] for v, r in zip(lines, rhs[2:], strict=True))
        self.out_base = sum(v.start * so[o] for v, o in zip(lines, out[2:], strict=True))
        # The contracted index in the order of the weights' memory.
        self.deep.sort(key=lambda a: -a.w)
        images = conv.batch_groups > 1
        self.group_x = conv.batch * sx[lhs[0]] if images else conv.depth * sx[lhs[1]]
        self.feature = Axis(conv.per_group, 0, sw[rhs[0]], so[out[1]], out[1])
        self.depth = math.prod(a.extent for a in self.deep)

    @property
    def slot(self) -> Slot:
        """Where the operand lies: its elements, in the order of its axes."""
        slot = self.there.slot
        assert slot is not None
        return slot

    def offset(self, b: Builder, axes: Sequence[Axis], idx: Sequence[Index], of: str) -> Index:
        return b.linear([(i, getattr(a, of)) for a, i in zip(axes, idx, strict=True)])

    def weight(
        self, b: Builder, c: Index, k: Index, acc: str, order: Sequence[Axis] | None = None
    ) -> Any:
        """The weight of feature c at contracted index k, which runs through the axes in memory's
        order or in the one given."""
        axes = [a for a in order or self.deep if a.place >= 0]
        idx: list[Index] = [0] * len(self.w.shape)
        idx[self.conv.rhs[0]] = c
        for a, i in zip(axes, b.unravel(k, [a.extent for a in axes]), strict=True):
            idx[a.place] = a.index(b, i)
        return scalar_convert(b, read(self.w, b, tuple(idx)), acc)

    def element(self, b: Builder, at: Index, k: Index) -> Any:
        """The operand's element at an offset and contracted index k."""
        deep = b.unravel(k, [a.extent for a in self.deep])
        flat = b.linear([(at, 1), (self.x_base, 1), (self.offset(b, self.deep, deep, "x"), 1)])
        return read(self.x, b, b.unravel(flat, self.x.shape))


def levels(axes: Sequence[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    width = len(axes[0]) if axes else 2
    return [(1, *[0] * (width - 1))] * (count - len(axes)) + list(axes)
