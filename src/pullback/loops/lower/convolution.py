"""Convolution as a product of blocks: what the window covers is read where it lies.

With padding written out, the operand's element at output position o, window position k and feature
f lies at a sum of strides, so positions are the rows (or columns) of a product and (k, f) is its
contracted index: nothing is gathered. Two forms:

    positions are rows, output features columns      features last in memory, and whatever else
    output features are rows, positions columns      positions last in memory, window strides 1

In the second form columns run through the padding at the ends of lines as well; what is computed
there is left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.epilogue import Finish
from pullback.loops.ir import Atom, Buf
from pullback.loops.lower.conv_axes import Axis, Form, levels, lines_of, merged, where_stored
from pullback.loops.lower.conv_lanes import emit_in_lanes, in_lanes
from pullback.loops.lower.conv_near import (
    brought_near,
    near_product,
    weights_in_columns,
    without_taps,
)
from pullback.loops.lower.elementwise import RULES, literal, scalar_convert
from pullback.loops.lower.graph import Graph, Node, Opaque, part_dtype, read
from pullback.loops.lower.operands import InPlace, Product, tile_type
from pullback.loops.lower.product import emit_product
from pullback.loops.ops import FLOATS
from pullback.records import replaced

__all__ = ["product_convolution", "without_padding", "worth_a_product"]

LONG = 1024  # columns of a product whose columns are positions
IMAGES = 8  # parts that such a convolution is cut into for threads
SMALL = 400_000  # multiplications
FEW_ROWS = 48  # of a product, with which its columns are read too often


def worth_a_product(conv: Any, acc: str) -> bool:
    """Whether a convolution is done by products: not where a result feature reads few elements."""
    if tile_type(acc) != acc:
        return False
    if not (conv.x.size and conv.w.size and math.prod(conv.shape)):
        return False
    depth = conv.depth * math.prod(conv.window)
    return depth >= 4 and (conv.per_group >= 4 or in_lanes(conv, acc))


def padded(g: Graph, x: Node, config: Sequence[tuple[int, int, int]], acc: str) -> Node:
    """The operand with its padding (low, high, between) written out, in the accumulator's type."""
    if any(any(c) for c in config):
        fill = literal(g, 0.0 if part_dtype(x.dtype) in FLOATS else 0, x.dtype)
        shape = tuple(
            n + lo + hi + max(0, n - 1) * gap
            for n, (lo, hi, gap) in zip(x.shape, config, strict=True)
        )
        x = RULES["pad"](g, [x, fill], [(shape, x.dtype)], {"padding_config": list(config)})
    if x.dtype != acc:
        source = x
        x = g.pointwise(
            source.shape,
            acc,
            [(source, None)],
            lambda b, idx: scalar_convert(b, read(source, b, idx), acc),
        )
    return x


def without_padding(g: Graph, x: Node, params: dict[str, Any]) -> tuple[Node, dict[str, Any]]:
    """The operand with padding and dilation written out, and the parameters without them."""
    config = [(0, 0, 0)] * len(x.shape)
    lhs = tuple(params["dimension_numbers"].lhs_spec)
    for axis, (lo, hi), gap in zip(lhs[2:], params["padding"], params["lhs_dilation"], strict=True):
        config[axis] = (int(lo), int(hi), int(gap) - 1)
    ones = (1,) * (len(x.shape) - 2)
    flat = {**params, "padding": ((0, 0),) * len(ones), "lhs_dilation": ones}
    return padded(g, x, config, x.dtype), flat


def _by_features(f: Form) -> bool:
    """Whether positions lie side by side in the operand and in the result, and are many."""
    if len(f.space) not in (1, 2) or any(s != 1 for s in f.conv.strides) or not f.depth:
        return False
    if any(a.step != 1 for a in f.space):
        return False
    last = f.space[-1]
    return last.x == 1 and last.out == 1 and last.extent >= 8


def product_convolution(
    g: Graph, make: Any, x: Node, w: Node, shape: tuple[int, ...], dtype: str, params: Any, acc: str
) -> Node:
    """A convolution by products. `make(x, params)` is the geometry for an operand."""
    conv = make(x, params)
    config = [(0, 0, 0)] * len(x.shape)
    choices = []
    for axis, (place, (_, high)) in enumerate(zip(conv.lhs[2:], params["padding"], strict=True)):
        lines, config[place] = lines_of(conv, axis, int(high))
        choices.append(lines)
    lanes = in_lanes(conv, acc)
    near = lanes or brought_near(conv, x, config, choices, acc)
    if near:
        choices = [
            [replaced(v, begin=v.begin - config[place][0]) for v in lines]
            for place, lines in zip(conv.lhs[2:], choices, strict=True)
        ]
    else:
        x = padded(g, x, config, acc)
    forms = [Form(conv, x, w, shape, lines) for lines in itertools.product(*choices)]
    work = 0.12 * math.prod(shape) * max(f.depth for f in forms)

    def emit(b: Builder, op: Opaque) -> None:
        if lanes and any(f.depth for f in forms):
            emit_in_lanes(b, [f for f in forms if f.depth], op, dtype, acc)
        for f in forms:
            if not f.depth:
                without_taps(b, f, op, dtype)
            elif lanes:
                continue
            elif near:
                emit_product(b, near_product(f, op, dtype, acc))
            else:
                form = _features_by_positions if _by_features(f) else _positions_by_features
                emit_product(b, form(b, f, op, dtype, acc))

    x.reuse = 64
    mode = "buffer" if w.kind in ("opq", "red", "leaf") else "once"
    op = Opaque("conv", [where_stored(x), w], ["buffer", mode], emit=emit, work=work)
    op.joins = True
    return g.opaque(op, [(shape, dtype)])[0]


def _positions_by_features(b: Builder, f: Form, op: Opaque, dtype: str, acc: str) -> Product:
    conv, finish = f.conv, Finish(op)
    groups = Axis(
        conv.groups, f.group_x, conv.per_group * f.feature.w, conv.per_group * f.feature.out
    )
    rows, inner = _rows_of(
        sorted((a for a in [f.image, *f.space] if a.extent > 1), key=lambda a: -a.x)
    )
    if len(inner) > 1 and rows == [] and _many(inner[0].extent, f, inner):
        rows = [inner.pop(0)]
    outer = [groups, *rows]
    m, n = math.prod(a.extent for a in inner), conv.per_group
    own = f.w.slot is not None and f.w.dtype == acc and f.feature.w == 1
    left_place, right_form = _read_in_place(f, outer, inner, own)
    there = f.w.slot

    def weights(b: Builder, bi: Index) -> Index:
        assert there is not None
        group = b.unravel(bi, [a.extent for a in outer])[0]
        return b.linear([(group, groups.w), (there.base(b), 1), (f.w_base, 1)])

    right_place = None
    if right_form is not None:
        assert there is not None
        right_place = InPlace(there.buf, weights, (n, 1, 0), right_form)

    def left(b: Builder, bi: Index, i: Index, k: Index) -> Any:
        at = f.offset(b, outer, b.unravel(bi, [a.extent for a in outer]), "x")
        at = b.add(at, f.offset(b, inner, b.unravel(i, [a.extent for a in inner]), "x"))
        return f.element(b, at, k)

    def right(b: Builder, bi: Index, k: Index, j: Index) -> Any:
        group = b.unravel(bi, [a.extent for a in outer])[0]
        return f.weight(b, b.linear([(group, n), (j, 1)]), k, acc)

    def put(b: Builder, bi: Index, i: Index, j: Index, value: Any) -> None:
        group, *far = b.unravel(bi, [a.extent for a in outer])
        idx: list[Index] = [0] * len(f.shape)
        for a in f.space:
            idx[a.place] = a.start
        for a, v in zip(rows, far, strict=True):
            idx[a.place] = a.index(b, v)
        for a, v in zip(inner, b.unravel(i, [a.extent for a in inner]), strict=True):
            idx[a.place] = a.index(b, v)
        idx[f.feature.place] = b.linear([(group, n), (j, 1)])
        finish.put(b, tuple(idx), scalar_convert(b, value, dtype))

    lines = merged(inner, "out")
    straight = dtype == acc and f.feature.out == 1 and len(lines) <= 1
    ldc = lines[0][1] if lines else n

    def into(b: Builder, bi: Index) -> tuple[Buf, Index, int]:
        buf, base = finish.into(b)
        far = f.offset(b, outer, b.unravel(bi, [a.extent for a in outer]), "out")
        return buf, b.linear([(base, 1), (far, 1), (f.out_base, 1)]), ldc

    return Product(
        acc,
        math.prod(a.extent for a in outer),
        m,
        n,
        f.depth,
        left,
        right,
        put,
        left_place,
        right_place,
        False,
        f.feature.w != 1,
        into if straight and finish.into else None,
        shared=conv.groups == 1,
        fixed=True,
        right_source=weights_in_columns(f, acc, weights),
    )


def _read_in_place(
    f: Form, outer: Sequence[Axis], inner: Sequence[Axis], own: bool
) -> tuple[InPlace | None, tuple[int, int, int, int, int, int] | None]:
    """How windows are read where they lie, the positions of `inner` as rows; and the form of the
    contracted index in the weights, where these are read in place (`own`), too. None for windows
    with more axes than an operand in place has."""
    deep = merged(f.deep, "x", "w") if own else merged(f.deep, "x")
    if len(deep) > 3:
        return None, None
    (_, s1), (wide, s0) = levels(merged(inner, "x"), 2)
    (n1, t1, *u1), (n2, t2, *u2), (length, ks, *bs) = levels(deep, 3) if deep else [(1, 0, 0)] * 3
    slot = f.slot

    def base(b: Builder, bi: Index) -> Index:
        return b.add(
            f.offset(b, outer, b.unravel(bi, [a.extent for a in outer]), "x"),
            b.add(slot.base(b), f.x_base),
        )

    place = InPlace(slot.buf, base, (wide, s0, s1), (n1, n2, length, t1, t2, ks))
    return place, (n1, n2, length, u1[0], u2[0], bs[0]) if own else None


def _rows_of(axes: Sequence[Axis]) -> tuple[list[Axis], list[Axis]]:
    """Axes of positions that are a batch, and those that are the rows of its products, which lie at
    two strides: the innermost ones, or where these are few, as windows are in a gradient, those
    that make most rows: columns are read again for each product."""
    best: tuple[int, list[Axis]] = 0, []
    for count in range(len(axes) + 1):
        inner = list(axes[len(axes) - count :])
        if len(merged(inner, "x")) <= 2:
            best = math.prod(a.extent for a in inner), inner
    if best[0] < FEW_ROWS:
        for count in range(1, len(axes)):
            for chosen in itertools.combinations(axes, count):
                if len(merged(chosen, "x")) <= 2:
                    m = math.prod(a.extent for a in chosen)
                    best = max(best, (m, list(chosen)), key=lambda e: e[0])
    return [a for a in axes if a not in best[1]], best[1]


def _many(count: int, f: Form, inner: Sequence[Axis]) -> bool:
    """Whether images are better taken one by one: each thread has its own."""
    rows = math.prod(a.extent for a in inner) // max(1, count)
    return inner[0] is f.image and count >= IMAGES and rows >= 128


def _features_by_positions(b: Builder, f: Form, op: Opaque, dtype: str, acc: str) -> Product:
    conv, finish = f.conv, Finish(op)
    groups = Axis(conv.groups, f.group_x, conv.per_group * f.feature.w, 0)
    tall = f.space[0] if len(f.space) == 2 else Axis(1, 0, 0, 0, -1)
    wide = f.space[-1]
    step = tall.x or wide.extent  # from one line of positions to the next
    # Blocks of lines, as many columns as do well; the last block may have fewer.
    whole = conv.batch * conv.groups
    parts = round(tall.extent * step / LONG)
    if f.depth * math.prod(f.shape) > SMALL:
        parts = max(parts, -(-IMAGES // whole))
    lines = -(-tall.extent // max(1, min(parts, tall.extent)))
    blocks = -(-tall.extent // lines)
    n = (lines - 1) * step + wide.extent
    slot = f.slot
    extents = (conv.batch, conv.groups, blocks)

    def count(b: Builder, bi: Index) -> Atom:
        rest = b.linear([(b.unravel(bi, extents)[2], -lines), (tall.extent, 1)])
        return b.let("min", (b.dim(lines), b.atom(rest)), "i64")

    def base(b: Builder, bi: Index) -> Index:
        image, group, block = b.unravel(bi, extents)
        far = b.linear([(image, f.image.x), (group, groups.x), (block, lines * tall.x)])
        return b.linear([(far, 1), (slot.base(b), 1), (f.x_base, 1)])

    own = f.w.slot is not None and f.w.dtype == acc
    deep = merged(f.deep, "x", "w")
    if not own or len(deep) > 3:
        deep = merged(f.deep, "x")
    deep = levels(deep, 3)
    left_place = None
    if own and len(deep) == 3 and len(deep[0]) == 3:
        assert f.w.slot is not None
        there = f.w.slot
        (n1, u1, t1), (n2, u2, t2), (length, bs, ks) = deep

        def weights(b: Builder, bi: Index) -> Index:
            group = b.unravel(bi, extents)[1]
            return b.linear([(group, groups.w), (there.base(b), 1), (f.w_base, 1)])

        rows = (conv.per_group, f.feature.w, 0)
        left_place = InPlace(there.buf, weights, rows, (n1, n2, length, t1, t2, ks))
    else:
        (n1, u1, *_), (n2, u2, *_), (length, bs, *_) = deep
    form = (n1, n2, length, u1, u2, bs)

    def left(b: Builder, bi: Index, i: Index, k: Index) -> Any:
        group = b.unravel(bi, extents)[1]
        return f.weight(b, b.linear([(group, conv.per_group), (i, 1)]), k, acc)

    def right(b: Builder, bi: Index, k: Index, j: Index) -> Any:
        raise AssertionError("internal error in pullback: positions are read where they lie")

    def put(b: Builder, bi: Index, i: Index, j: Index, value: Any) -> None:
        image, group, block = b.unravel(bi, extents)
        idx: list[Index] = [0] * len(f.shape)
        idx[f.image.place] = image
        idx[f.feature.place] = b.linear([(group, conv.per_group), (i, 1)])
        line, column = (0, j) if tall.place < 0 else (b.div(j, step), b.mod(j, step))
        if tall.place >= 0:
            idx[tall.place] = b.linear([(block, lines), (line, 1)])
        idx[wide.place] = column
        finish.put(b, tuple(idx), scalar_convert(b, value, dtype))

    return Product(
        acc,
        math.prod(extents),
        conv.per_group,
        n,
        f.depth,
        left,
        right,
        put,
        left_place,
        InPlace(slot.buf, base, (n, 1, 0), form),
        columns=(lines, wide.extent, step),
        lines=count if blocks * lines != tall.extent else None,
        fixed=True,
    )
