"""Sorting inside kernels, by counting: an element's place is the number of elements before it.

Quadratic, but lanes count for many elements at once, so short rows beat a call of a library; inside
loops it keeps the loop one
kernel. Longer arrays are sorted by a host step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, rule, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.statements import box
from pullback.loops.ops import BITS, FLOATS

SHORT = 64  # rows up to here are counted; longer ones are left to NumPy's vectorised sort
FEW = 1 << 15  # comparisons that take no longer than calling Python
INSIDE = 256  # inside a loop, where a host step makes the whole loop steps


def counted(g: Graph, n: int, size: int) -> bool:
    """Whether `size` elements in rows of n are sorted in a kernel."""
    if g.parent is None:
        return n <= SHORT and n * size <= FEW
    return n <= INSIDE


def _ordered_bits(b: Builder, value: Atom) -> Atom:
    """An integer that orders floats by their bits: -NaN < -inf < ... < -0.0 < 0.0 < ... < NaN."""
    if value.dtype not in FLOATS:
        return value
    wide = value if value.dtype in ("f32", "f64") else scalar_convert(b, value, "f32")
    size = BITS[wide.dtype]
    kind = f"i{size}"
    bits = b.let("bitcast", (wide,), kind)
    sign = b.let("shr_arith", (bits, Const(size - 1, kind)), kind)
    flip = b.let("and", (sign, Const((1 << (size - 1)) - 1, kind)), kind)
    return b.let("xor", (bits, flip), kind)


def _place(
    b: Builder,
    keys: Sequence[Node],
    row: tuple[Index, ...],
    i: Index,
    axis: int,
    n: int,
    largest: bool,
) -> Atom:
    """How many elements of the row come before element i; equal ones in order of their index.

    `largest`: the largest first, floats in the order of their bits (as top_k has them).
    """

    def key(x: Node, where: tuple[Index, ...]) -> Atom:
        value = read(x, b, where)
        return _ordered_bits(b, value) if largest else value

    less_than, equal = ("lt", "eq") if largest else ("lt_total", "eq_total")
    at_i = (*row[:axis], i, *row[axis:])
    mine = [key(x, at_i) for x in keys]
    carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "r"))]
    here = b.atom(i)

    def count(j: Index) -> list[Atom]:
        at_j = (*row[:axis], j, *row[axis:])
        before: Atom = b.let("lt", (b.atom(j), here), "bool")
        for x, v in zip(reversed(keys), reversed(mine), strict=True):
            w = key(x, at_j)
            less = b.let(less_than, (v, w) if largest else (w, v), "bool")
            same = b.let(equal, (w, v), "bool")
            before = b.let("or", (less, b.let("and", (same, before), "bool")), "bool")
        return [b.let("add", (carry[0][1], b.let("convert", (before,), "i32")), "i32")]

    return b.loop(n, "seq", count, carry)[0]


@rule("sort")
def _sort(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    axis, keys = params["dimension"], ins[: params["num_keys"]]
    shape = ins[0].shape
    n = shape[axis]
    if n <= 1:
        return list(ins)
    if not counted(g, n, ins[0].size) or any(x.dtype in COMPLEX for x in keys):
        return NotImplemented
    rows = (*shape[:axis], *shape[axis + 1 :])

    def emit(b: Builder, op: Opaque) -> None:
        def one(idx: tuple[Index, ...]) -> None:
            row, i = idx[:-1], idx[-1]
            place = b.to_index(_place(b, keys, row, i, axis, n, False), 0, n - 1)
            source, target = (*row[:axis], i, *row[axis:]), (*row[:axis], place, *row[axis:])
            for x, out in zip(ins, op.outs, strict=True):
                assert out.slot is not None
                store_slot(b, out.slot, shape, x.dtype, target, read(x, b, source))

        box(b, (*rows, n), one, "vector", {len(rows) - 1}, cost=4.0 * n)

    op = Opaque("sort", list(ins), ["buffer"] * len(ins), emit=emit, work=4.0 * ins[0].size * n)
    return g.opaque(op, outs)


@rule("top_k")
def _top_k(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    x, k = ins[0], int(params["k"])
    axis = int(params.get("axis", len(x.shape) - 1)) % len(x.shape)
    n, index = x.shape[axis], outs[1][1]
    if not counted(g, n, x.size) or x.dtype in COMPLEX or not k:
        return NotImplemented
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    shape = outs[0][0]

    def emit(b: Builder, op: Opaque) -> None:
        def one(idx: tuple[Index, ...]) -> None:
            row, i = idx[:-1], idx[-1]
            rank = _place(b, [x], row, i, axis, n, True)
            inside = b.let("lt", (rank, b.const(k, "i32")), "bool")
            place = b.to_index(rank, 0, k - 1)
            source, target = (*row[:axis], i, *row[axis:]), (*row[:axis], place, *row[axis:])
            values, where = op.outs[0].slot, op.outs[1].slot
            assert values is not None and where is not None
            store_slot(b, values, shape, x.dtype, target, read(x, b, source), inside)
            store_slot(b, where, shape, index, target, scalar_convert(b, b.atom(i), index), inside)

        box(b, (*rows, n), one, "vector", {len(rows) - 1}, cost=4.0 * n)

    return g.opaque(Opaque("top_k", [x], ["buffer"], emit=emit, work=4.0 * x.size * n), outs)
