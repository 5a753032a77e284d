"""Sorting inside kernels.

A few short rows are sorted by counting: an element's place is the number of elements before it.
Quadratic, but lanes count for many elements at once. Many short rows take a network (network.py),
bytes the counts of their values (counting.py), longer rows passes over digits (radix.py); many rows
of some hundreds outside of loops, and complex keys, a host step. The largest few of a long row are
found by few.py, more of them by largest.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.counting import countable, sort_by_counts
from pullback.loops.lower.elementwise import Outs, rule, scalar_convert
from pullback.loops.lower.few import BOUNDED, scannable, scanned
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.largest import largest_of
from pullback.loops.lower.network import comparisons, sort_lanes, suits
from pullback.loops.lower.radix import ordered_bits, signed_key, sort_rows
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS

SHORT = 64  # rows up to here are counted
ALONE = 1 << 11  # elements of one operand: of more, in rows up to
VECTORS = 1 << 10  # so many elements, NumPy's sort in vectors takes less
AS_INTEGERS = 16  # elements of a row whose keys become integers first
FEW = 1 << 15  # comparisons that take no longer than calling Python
INSIDE = 128  # inside a loop, where a row that is alone is as quickly counted as moved by digits
SCANNED = 32  # rows longer than this are scanned for their largest few elements
NETWORK, SEVERAL = 128, 16  # many rows up to here are sorted whole where several are wanted


def counted(g: Graph, n: int, size: int) -> bool:
    """Whether `size` elements in rows of n are sorted in a kernel."""
    if g.parent is None:
        return n <= SHORT and n * size <= FEW
    return n <= INSIDE


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
        return ordered_bits(b, value) if largest else value

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


def _as_integers(
    b: Builder, keys: Sequence[Node], row: tuple[Index, ...], axis: int, n: int
) -> list[Buf]:
    """Integers that order as the keys of a row do: they are compared in fewer operations."""
    found = []
    for x in keys:
        buf = b.scratch("i64" if x.dtype != "bool" and BITS[x.dtype] == 64 else "i32", n)

        def fill(i: Index, x: Node = x, buf: Buf = buf) -> Sequence[Atom]:
            b.store(buf, b.atom(i), signed_key(b, read(x, b, (*row[:axis], i, *row[axis:]))))
            return ()

        b.loop(n, "vector", fill)
        found.append(buf)
    return found


def _place_among(b: Builder, keys: Sequence[Buf], i: Index, n: int) -> Atom:
    """How many elements of a row of integers come before element i."""
    carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "r"))]
    here = b.atom(i)
    with Pinned(b):
        mine = [b.load(buf, here) for buf in keys]

    def count(j: Index) -> list[Atom]:
        other = b.atom(j)
        before: Atom = b.let("lt", (other, here), "bool")
        for buf, v in zip(reversed(keys), reversed(mine), strict=True):
            with Pinned(b):
                w = b.load(buf, other)
            less, same = (b.let(op, (w, v), "bool") for op in ("lt", "eq"))
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
    if any(x.dtype in COMPLEX for x in keys):
        return NotImplemented
    if suits(ins, axis, len(keys), g.parent is not None):
        lanes = lambda b, op: sort_lanes(b, op, axis)
        work = float(comparisons(n)) * ins[0].size / n / 4
        return g.opaque(Opaque("sort", list(ins), ["many"] * len(ins), emit=lanes, work=work), outs)
    if len(ins) == 1 and countable(ins[0].dtype, n) and n < 1 << 31:
        tables = lambda b, op: sort_by_counts(b, op, axis)
        op = Opaque("sort", list(ins), ["buffer"], emit=tables, work=2.0 * ins[0].size)
        return g.opaque(op, outs)
    if not counted(g, n, ins[0].size):
        vectors = len(ins) == 1 and n <= VECTORS and ins[0].size > ALONE
        if n >= 1 << 31 or (vectors and g.parent is None):
            return NotImplemented
        passes = lambda b, op: sort_rows(b, op, axis, len(keys))
        work = 16.0 * ins[0].size
        return g.opaque(
            Opaque("sort", list(ins), ["many"] * len(ins), emit=passes, work=work), outs
        )
    rows = (*shape[:axis], *shape[axis + 1 :])

    def emit(b: Builder, op: Opaque) -> None:
        def put(row: tuple[Index, ...], i: Index, rank: Atom) -> None:
            place = b.to_index(rank, 0, n - 1)
            source, target = (*row[:axis], i, *row[axis:]), (*row[:axis], place, *row[axis:])
            for x, out in zip(ins, op.outs, strict=True):
                assert out.slot is not None
                store_slot(b, out.slot, shape, x.dtype, target, read(x, b, source))

        def one(idx: tuple[Index, ...]) -> None:
            put(idx[:-1], idx[-1], _place(b, keys, idx[:-1], idx[-1], axis, n, False))

        def whole(row: tuple[Index, ...]) -> None:
            integers = _as_integers(b, keys, row, axis, n)

            def element(i: Index) -> Sequence[Atom]:
                put(row, i, _place_among(b, integers, i, n))
                return ()

            b.loop(n, "vector", element)

        if n < AS_INTEGERS or b.unrolling:
            box(b, (*rows, n), one, "vector", {len(rows) - 1}, cost=4.0 * n)
        else:
            box(b, rows, whole, "seq", range(len(rows)), cost=4.0 * n * n)

    op = Opaque("sort", list(ins), ["buffer"] * len(ins), emit=emit, work=4.0 * ins[0].size * n)
    return g.opaque(op, outs)


@rule("approx_top_k")
def _approx_top_k(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    """Exact; with more results than are asked for, if candidates are."""
    axis = int(params["reduction_dimension"]) % len(ins[0].shape)
    k, largest = outs[0][0][axis], bool(params["is_max_k"])
    if largest:
        return _top_k(g, ins, outs, {"k": k, "axis": axis})
    return largest_of(g, ins[0], axis, k, outs, largest=False)


@rule("top_k")
def _top_k(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    x, k = ins[0], int(params["k"])
    axis = int(params.get("axis", len(x.shape) - 1)) % len(x.shape)
    n, index = x.shape[axis], outs[1][1]
    if x.dtype in COMPLEX or not x.size or not k or n >= 1 << 31:
        return NotImplemented
    if n <= NETWORK and k >= SEVERAL and suits([x], axis, 1, True):
        return largest_of(g, x, axis, k, outs)
    if SCANNED < n and k <= min(BOUNDED, n) and scannable(x.dtype):
        return scanned(g, x, axis, k, outs)
    if not counted(g, n, x.size):
        return largest_of(g, x, axis, k, outs)
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
