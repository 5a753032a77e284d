"""Cholesky factorisations of real matrices by blocks of rows.

The work is done on the upper factor U of A = U^T U, row by row, as what follows from a row's blocks
lies along rows: what the rows above a block add to it is a product, by tile functions; in a block,
pivots come one after the other, and what they mean for columns behind it is computed in lanes along
those. Sums are kept negated, since products are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.graph import Node, part_dtype, read
from pullback.loops.lower.lapack import Where, each, rows_out, slot_place
from pullback.loops.tiles import LINE, TILE_TYPES, tile_name, turn_name

__all__ = ["cholesky", "in_blocks"]

LEAST, MOST = 24, 512  # rows; the library has threads for more
BLOCK = 16  # rows of a block
LINES = 2  # of a panel


def in_blocks(dtype: str, n: int) -> bool:
    """Whether a matrix of so many rows is factored here."""
    return dtype in ("f32", "f64") and LEAST <= n < MOST


def cholesky(b: Builder, x: Node, out: Node, where: Where) -> None:
    """The factor of one matrix of a stack, in its lower triangle; NaN if a pivot is not
    positive."""
    assert out.slot is not None
    n, dtype = x.shape[-1], x.dtype
    rows_out(b, out, where, lambda r, c: b.let("neg", (read(x, b, (*where, r, c)),), dtype))
    buf, start = slot_place(b, out.slot, out.shape, out.dtype, where)
    upper = b.scratch(part_dtype(dtype), n * n, "upper")
    _turn(b, dtype, (buf, start), (upper, 0), n)
    factor = _Upper(b, upper, dtype, n)
    each(b, -(-n // BLOCK), "seq", factor.block)
    good = factor.has_pivots()

    def spoil() -> list[Atom]:
        rows_out(b, out, where, lambda r, c: Const(float("nan"), dtype))
        return []

    def done() -> list[Atom]:
        _turn(b, dtype, (upper, 0), (buf, start), n)
        return []

    b.branch(good, done, spoil)


class _Upper:
    """Row by row, the upper factor; in rows that are not done yet, what remains, negated."""

    def __init__(self, b: Builder, buf: Buf, dtype: str, n: int) -> None:
        self.b, self.buf, self.dtype, self.n = b, buf, dtype, n

    def get(self, row: Index, column: Index) -> Atom:
        return self.b.load(self.buf, self.b.atom(self.at(row, column)))

    def put(self, row: Index, column: Index, value: Atom) -> None:
        self.b.store(self.buf, self.b.atom(self.at(row, column)), value)

    def at(self, row: Index, column: Index) -> Index:
        return self.b.linear([(row, self.n), (column, 1)])

    def block(self, number: Index) -> None:
        """The rows of a block."""
        b, n = self.b, self.n
        first = b.mul(number, BLOCK)
        begin = b.atom(first)
        end = b.let("min", (b.atom(b.add(first, BLOCK)), b.dim(n)), "i64")
        self.add_above(first, end)
        self.each(begin, end, "seq", lambda k: self.pivot(k, end))
        each(b, n, "vector", lambda c: self.column(begin, end, c), lo=end)

    def add_above(self, first: Index, end: Atom) -> None:
        """The products of the rows above."""
        b, n = self.b, self.n
        panel = LINES * LINE // TILE_TYPES[self.dtype]
        rows = b.let("sub", (end, b.atom(first)), "i64")
        a = [self.buf, first, 0, n, 1, 0, rows]  # a row of the left factor is a column of U
        deep = [1, 1, first, 0, 0, n]
        right = [self.buf, first, 0, 0, n, panel, b.linear([(first, -1), (n, 1)])]
        args = [*a, *deep, *right, self.buf, self.at(first, first), n, 1]
        _call(b, tile_name(self.dtype, LINES), args)

    def pivot(self, k: Index, end: Atom) -> None:
        """A row up to the end of its block, and what it means for those below."""
        b, d = self.b, self.dtype
        root = b.let("sqrt", (b.let("neg", (self.get(k, k),), d),), d)
        self.put(k, k, root)
        scale = b.let("div", (Const(-1.0, d), root), d)
        after = b.atom(b.add(k, 1))
        self.each(after, end, "vector", lambda c: self.scale(k, c, scale))

        def below(p: Index) -> None:
            times = self.get(k, p)
            self.each(after, end, "vector", lambda c: self.add(p, c, times, self.get(k, c)))

        self.each(after, end, "seq", below)

    def column(self, first: Atom, end: Atom, c: Index) -> None:
        """A column of a block's rows, behind it."""
        b, d = self.b, self.dtype

        def row(k: Index) -> None:
            scale = b.let("div", (Const(-1.0, d), self.get(k, k)), d)
            value = self.scale(k, c, scale)
            after = b.atom(b.add(k, 1))
            self.each(after, end, "seq", lambda p: self.add(p, c, self.get(k, p), value))

        self.each(first, end, "seq", row)

    def scale(self, k: Index, c: Index, by: Atom) -> Atom:
        value = self.b.let("mul", (self.get(k, c), by), self.dtype)
        self.put(k, c, value)
        return value

    def add(self, p: Index, c: Index, x: Atom, y: Atom) -> None:
        self.put(p, c, self.b.let("fma", (x, y, self.get(p, c)), self.dtype))

    def each(self, lo: Atom, hi: Atom, kind: str, body: Callable[[Index], Any]) -> None:
        each(self.b, self.n, kind, body, lo=lo, hi=hi)

    def has_pivots(self) -> Atom:
        """Whether every pivot is positive: its root is NaN or 0 otherwise."""
        b, d = self.b, self.dtype
        most = Const(float("inf"), d)
        carry = [(most, b.var(d, b.depth + 1, "f"))]
        least = b.loop(self.n, "reduce", lambda k: [self.get(k, k)], carry, ("min",))[0]
        return b.let("gt", (least, Const(0.0, d)), "bool")


def _turn(
    b: Builder, dtype: str, source: tuple[Buf, Index], target: tuple[Buf, Index], n: int
) -> None:
    """A matrix, transposed."""
    _call(b, turn_name(dtype), [*source, n, n, n, *target, n])


def _call(b: Builder, name: str, args: Sequence[Any]) -> None:
    given = tuple(x if isinstance(x, (Buf, Const, Var)) else b.atom(x) for x in args)
    for buf in (x for x in args if isinstance(x, Buf)):
        b.loaded.add(buf)
        b.stored.add(buf)
    b.emit(Call((), name, given))
