"""Convolution: small ones are reductions, fused with what surrounds them; the rest is done as a
product of blocks (convolution.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.ir import Atom
from pullback.loops.lower.contract import accumulator_type, contraction, term
from pullback.loops.lower.convolution import (
    product_convolution,
    without_padding,
    worth_a_product,
)
from pullback.loops.lower.elementwise import RULES, Outs, rule
from pullback.loops.lower.graph import COMPLEX, Graph, Node, part_dtype, read
from pullback.loops.lower.shape import masked_read
from pullback.loops.ops import identity_of

LANES = 8  # elements side by side that are worth lanes
FEW_POSITIONS = 8  # of a window for each of the result, where the two may change places


class Geometry:
    """The geometry of a convolution: where output (n, o, c) at window w and input feature f reads
    its operands."""

    def __init__(self, x: Node, w: Node, shape: tuple[int, ...], params: dict[str, Any]) -> None:
        d = params["dimension_numbers"]
        self.lhs, self.rhs, self.out = tuple(d.lhs_spec), tuple(d.rhs_spec), tuple(d.out_spec)
        self.x, self.w, self.shape = x, w, shape
        self.strides = tuple(params["window_strides"])
        self.lows = tuple(int(p[0]) for p in params["padding"])
        self.base, self.dilation = tuple(params["lhs_dilation"]), tuple(params["rhs_dilation"])
        # Groups have features of their own, or images of their own; never both.
        self.batch_groups = params["batch_group_count"]
        self.groups = params["feature_group_count"] * self.batch_groups
        self.batch = shape[self.out[0]]
        self.features = shape[self.out[1]]
        self.space = tuple(shape[k] for k in self.out[2:])
        self.window = tuple(w.shape[k] for k in self.rhs[2:])
        self.depth = w.shape[self.rhs[1]]
        self.per_group = self.features // self.groups

    def place(
        self, b: Builder, n: Index, o: Sequence[Index], c: Index, f: Index, k: Sequence[Index]
    ) -> tuple[tuple[Index, ...], Atom]:
        """The operand's index and whether it is inside (not padding)."""
        idx: list[Index] = [0] * len(self.lhs)
        if self.batch_groups > 1:
            n = b.add(b.mul(b.div(c, self.per_group), self.batch), n)
        elif self.groups > 1:
            f = b.add(b.mul(b.div(c, self.per_group), self.depth), f)
        idx[self.lhs[0]], idx[self.lhs[1]] = n, f
        inside: Atom = TRUE
        for axis, oo, kk, s, lo, gap, dil in zip(
            self.lhs[2:], o, k, self.strides, self.lows, self.base, self.dilation, strict=True
        ):
            size = self.x.shape[axis]
            i = b.add(b.linear([(oo, s), (kk, dil)]), -lo)
            if gap != 1:
                span = (size - 1) * gap + 1 if size else 0
                inside = b.both(inside, b.in_range(i, 0, span))
                i = b.to_index(b.atom(i), 0, max(0, span - 1))
                inside = b.both(inside, b.in_range(b.mod(i, gap), 0, 1))
                i = b.div(i, gap)
            else:
                inside = b.both(inside, b.in_range(i, 0, size))
            idx[axis] = i
        return tuple(idx), inside

    def weight(self, c: Index, f: Index, k: Sequence[Index]) -> tuple[Index, ...]:
        idx: list[Index] = [0] * len(self.rhs)
        idx[self.rhs[0]], idx[self.rhs[1]] = c, f
        for axis, kk in zip(self.rhs[2:], k, strict=True):
            idx[axis] = kk
        return tuple(idx)


def _along_window(conv: Geometry) -> bool:
    """Whether lanes run along the last axis of the window: it is long and contiguous, and the last
    of the result is short, as in the gradient by a filter of features that are convolved apart."""
    if not conv.window:
        return False  # no spatial axes: a product of matrices
    last = (conv.lhs[-1], conv.rhs[-1]) == (len(conv.lhs) - 1, len(conv.rhs) - 1)
    narrow = conv.shape[-1] < LANES <= conv.window[-1] and conv.out[-1] == len(conv.out) - 1
    return last and narrow and conv.dilation[-1] == 1


def _better_turned(conv: Geometry) -> bool:
    """Whether the operand would do better as the window: a product of many images with few output
    features, at few positions, as in the gradient by a filter with few output features, leaves most
    lanes idle; images then become the features."""
    plain = all(s == 1 for s in (*conv.strides, *conv.base, *conv.dilation))
    few = conv.per_group < LANES and 2 * conv.per_group <= conv.batch
    return (
        plain
        and few
        and conv.groups == 1
        and 0 < FEW_POSITIONS * math.prod(conv.space) <= math.prod(conv.window)
    )


def _turned(g: Graph, conv: Geometry, dtype: str, params: dict[str, Any]) -> Node:
    """The convolution with its operands exchanged. At position o it reads element q of the operand
    and element q - o + low of the window: with the operand as the window, that is position
    last - o where padding is last - low."""
    d, x, w = params["dimension_numbers"], conv.x, conv.w
    padding = []
    for n, low, a, r in zip(conv.space, conv.lows, conv.lhs[2:], conv.rhs[2:], strict=True):
        before = n - 1 - low
        padding.append((before, n - 1 + x.shape[a] - w.shape[r] - before))
    numbers = type(d)(d.rhs_spec, d.lhs_spec, (conv.out[1], conv.out[0], *conv.out[2:]))
    given = {**params, "padding": tuple(padding), "dimension_numbers": numbers}
    found: Node = _conv(g, [w, x], [(conv.shape, dtype)], given)
    axes = tuple(a for a in conv.out[2:] if conv.shape[a] > 1)
    result: Node = RULES["rev"](g, [found], [(conv.shape, dtype)], {"dimensions": axes})
    return result


@rule("conv_general_dilated")
def _conv(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (x, w), (shape, dtype) = ins, outs[0]
    conv, acc = Geometry(x, w, shape, params), accumulator_type(x.dtype, dtype)
    if _better_turned(conv):
        return _turned(g, conv, dtype, params)
    x.reuse, w.reuse = max(x.reuse, 64), max(w.reuse, 64)
    if worth_a_product(conv, acc):
        make = lambda x, params: Geometry(x, w, shape, params)
        return product_convolution(g, make, x, w, shape, dtype, params, acc)
    along = conv.out[1] != len(shape) - 1  # lanes run along positions: padding would mask them
    if along and math.prod(conv.window) > 1 and x.dtype not in COMPLEX:
        x, params = without_padding(g, x, params)
        x.reuse = 64
        conv = Geometry(x, w, shape, params)
    rank = len(shape)
    # Iteration space: the result's axes in the order of memory, the window and the input feature
    # before the last of them, along which lanes run; or behind it, and lanes run along the window.
    inner = _along_window(conv)
    first = rank if inner else rank - 1
    reduced = (conv.depth, *conv.window) if inner else (*conv.window, conv.depth)
    space = (*shape[:first], *reduced, *shape[first:])
    axes = tuple(range(first, first + len(reduced)))
    zero = identity_of("add", part_dtype(x.dtype))
    outside = (zero, zero) if x.dtype in COMPLEX else zero

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        at, part = (*idx[:first], *idx[axes[-1] + 1 :]), idx[first : axes[-1] + 1]
        n, c, *o = (at[k] for k in conv.out)
        f, k = (part[0], part[1:]) if inner else (part[-1], part[:-1])
        place, inside = conv.place(b, n, o, c, f, k)
        value = masked_read(b, x, place, inside, outside)
        return term(b, value, read(w, b, conv.weight(c, f, k)), x.dtype, w.dtype, acc)

    none_x: list[int | None] = [None] * len(x.shape)
    weights: list[int | None] = [0] * len(w.shape)
    feature = conv.out[1] if conv.out[1] < first else len(space) - 1
    deep = axes if inner else (axes[-1], *axes[:-1])
    for axis, where in zip(conv.rhs, (feature, *deep), strict=True):
        weights[axis] = where
    node = contraction(
        g, space, axes, dtype, acc, element, [(x, tuple(none_x)), (w, tuple(weights))]
    )
    if node.red is not None:
        node.red.own_breaks = frozenset(range(len(space) - 1))
        node.own_breaks = frozenset(range(len(node.shape) - 1))
    return node
