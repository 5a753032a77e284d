"""Sorting of bytes: how often each value occurs says all.

Long rows that are alone are counted in parts, in parallel. Each part has some tables of counts that
take elements in turn, as a count that was just changed has to be waited for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pullback.loops.build import Builder, Index, i64
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import scalar_convert
from pullback.loops.lower.graph import Node, Opaque, read, store_slot
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS, INTS, SIGNED

__all__ = ["countable", "sort_by_counts"]

TABLES = 4
PART = 1 << 15  # elements of a part at least
PARTS = 8  # of a row at most


def countable(dtype: str, n: int) -> bool:
    """Whether rows are of bytes, and longer than there are of these."""
    return (dtype == "bool" or (dtype in INTS and BITS[dtype] <= 8)) and n > 256


class _Counts:
    """The statements that sort one row."""

    def __init__(self, b: Builder, x: Node, axis: int, parts: int) -> None:
        self.b, self.x, self.axis, self.parts, self.n = b, x, axis, parts, x.shape[axis]
        self.values = 2 if x.dtype == "bool" else 1 << BITS[x.dtype]
        self.least = -(self.values // 2) if x.dtype in SIGNED else 0

    def place(self, row: tuple[Index, ...], i: Index) -> tuple[Index, ...]:
        return (*row[: self.axis], i, *row[self.axis :])

    def sort(self, row: tuple[Index, ...], out: Node) -> None:
        b = self.b
        self.counts = b.scratch("i32", self.parts * TABLES * self.values)

        def clear(v: Index) -> Sequence[Atom]:
            b.store(self.counts, b.atom(v), Const(0, "i32"))
            return ()

        b.loop(self.parts * TABLES * self.values, "vector", clear)
        if self.parts == 1:
            self.count(row, 0, b.dim(0), b.dim(self.n))
        else:
            size = -(-self.n // self.parts)

            def part(p: Index) -> Sequence[Atom]:
                lo = b.atom(b.mul(p, size))
                hi = b.let("min", (b.let("add", (lo, b.dim(size)), "i64"), b.dim(self.n)), "i64")
                self.count(row, p, lo, hi)
                return ()

            b.loop(self.parts, "parallel", part)
        self.fill(row, out)

    def count(self, row: tuple[Index, ...], p: Index, lo: Atom, hi: Atom) -> None:
        b = self.b
        whole = b.let("and", (b.let("sub", (hi, lo), "i64"), i64(-TABLES)), "i64")
        middle = b.let("add", (lo, whole), "i64")

        def element(i: Index, table: int) -> None:
            value = scalar_convert(b, read(self.x, b, self.place(row, i)), "i64")
            first = b.add(b.mul(p, TABLES * self.values), table * self.values - self.least)
            at = b.let("add", (value, b.atom(first)), "i64")
            with Pinned(b):
                count = b.load(self.counts, at)
            b.store(self.counts, at, b.let("add", (count, Const(1, "i32")), "i32"))

        def some(i: Index) -> Sequence[Atom]:
            for table in range(TABLES):
                element(b.add(i, table), table)
            return ()

        def one(i: Index) -> Sequence[Atom]:
            element(i, 0)
            return ()

        b.loop(self.n, "seq", some, lo=lo, hi=middle, step=TABLES)
        b.loop(self.n, "seq", one, lo=middle, hi=hi)

    def fill(self, row: tuple[Index, ...], out: Node) -> None:
        """Each value as often as it was counted."""
        b, tables = self.b, self.parts * TABLES
        so_far = [(i64(0), b.var("i64", b.depth + 1, "s"))]

        def value(v: Index) -> list[Atom]:
            first = so_far[0][1]
            total = [(Const(0, "i32"), b.var("i32", b.depth + 1, "c"))]

            def table(t: Index) -> list[Atom]:
                with Pinned(b):
                    count = b.load(self.counts, b.atom(b.add(b.mul(t, self.values), v)))
                return [b.let("add", (total[0][1], count), "i32")]

            (count,) = b.loop(tables, "seq", table, total)
            last = b.let("add", (first, b.let("convert", (count,), "i64")), "i64")
            what = scalar_convert(b, b.atom(b.add(v, self.least)), "i32")
            what = scalar_convert(b, what, self.x.dtype)

            def put(i: Index) -> Sequence[Atom]:
                assert out.slot is not None
                store_slot(b, out.slot, out.shape, out.dtype, self.place(row, i), what)
                return ()

            b.loop(self.n, "vector", put, lo=first, hi=last)
            return [last]

        b.loop(self.values, "seq", value, so_far)


def sort_by_counts(b: Builder, op: Opaque, axis: int) -> None:
    """The statements of a sort of long rows of bytes."""
    x = op.ins[0]
    n, rows = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
    alone = math.prod(rows) == 1
    parts = max(1, min(PARTS, n // PART)) if alone else 1
    one = lambda row: _Counts(b, x, axis, parts).sort(row, op.outs[0])
    box(b, rows, one, "seq", range(len(rows)), cost=2.0 * n)
