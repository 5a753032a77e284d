"""Products with few columns: sums run in lanes along the contracted index.

B is transposed, which is little, unless its columns lie in memory
for blocks of rows, over threads:
    for blocks of the contracted index: rows of A where they lie, times all columns
    what follows the product, element by element
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf
from pullback.loops.lower.operands import Product, tile_type
from pullback.loops.lower.product import PARALLEL, Blocks
from pullback.loops.lower.statements import box
from pullback.loops.tiles import DOTS, LINE, TILE_TYPES, dots_name

__all__ = ["DEEP", "emit_narrow", "is_narrow"]

DEEP = 64  # of the contracted index, from which on it is worth folding the lanes
NEAR = 32 << 10  # bytes of B that are in use at once
TASKS = 8
STEP = 24  # rows: a multiple of the heights of most blocks


def few(columns: int, acc: str) -> bool:
    """Whether so many columns leave half of a vector's lanes idle."""
    size = TILE_TYPES[acc.replace("u", "i")]
    return 1 < columns <= DOTS and 2 * columns * size <= LINE


def is_narrow(p: Product) -> bool:
    """Whether a product is done this way: rows of A lie in memory along the contracted index."""
    place = p.left_place
    if place is None or p.pairs or p.words or p.shared or tile_type(p.acc) != p.acc:
        return False
    rows = place.depth[:2] == (1, 1) and place.depth[5] == 1 and place.rows[0] >= p.m
    return rows and p.depth >= DEEP and p.m >= 4 and few(p.n, p.acc)


def emit_narrow(b: Builder, p: Product) -> None:
    """The statements of a product with few columns."""
    wide = p.batch * p.m * p.n * p.depth > PARALLEL
    many = p.batch >= 8 or (p.batch > 1 and p.m * p.n * p.depth <= PARALLEL)
    one = lambda idx: _Narrow(b, p, idx[0], wide and not many).emit()
    box(b, (p.batch,), one, "seq", parallel=wide and many)


class _Narrow(Blocks):
    """The product of one batch index."""

    def _block_sizes(self) -> tuple[int, int]:
        self.local = False
        if not self.parallel:
            return super()._block_sizes()[0], self.n
        return min(self.m, -(-self.m // (TASKS * STEP)) * STEP), self.n

    def emit(self) -> None:
        self.turned, self.base, self.apart = self._columns()
        box(self.b, (self.tall, 1), self.task, "seq", parallel=self.parallel)

    def _columns(self) -> tuple[Buf, Index, int]:
        """B with the contracted index last: the buffer, where it begins, from column to column."""
        b, p, place = self.b, self.p, self.p.right_place
        if place is not None and place.depth[:2] == (1, 1) and place.depth[5] == 1:
            if place.rows[0] >= p.n:
                return place.buf(b), place.base(b, self.bi), place.rows[1]
        buf = b.scratch(p.acc, p.n * p.depth, "columns")

        def column(j: Index) -> Sequence[Atom]:
            def one(k: Index) -> Sequence[Atom]:
                at = b.atom(b.linear([(j, p.depth), (k, 1)]))
                b.store(buf, at, p.right(b, self.bi, k, j))
                return ()

            b.loop(p.depth, "vector", one)
            return ()

        b.loop(p.n, "seq", column)
        return buf, 0, p.depth

    def multiply(
        self,
        i0: Index,
        rows: Atom | int,
        j0: Index,
        cols: Atom | int,
        out: tuple[Buf, Index, int],
    ) -> None:
        """Rows times all columns, over the blocks of the contracted index."""
        b, p, place = self.b, self.p, self.p.left_place
        assert place is not None
        buf, c0, ldc = out
        most = NEAR // (TILE_TYPES[p.acc.replace("u", "i")] * p.n)
        step = -(-p.depth // -(-p.depth // most))
        row = place.rows[1]

        def block(idx: tuple[Index, ...]) -> None:
            start = b.mul(idx[0], step)
            a0 = b.linear([(place.base(b, self.bi), 1), (i0, row), (start, 1)])
            args: list[Any] = [
                place.buf(b), a0, row, rows, self.rest(idx[0], step, p.depth),
                self.turned, b.add(self.base, start), self.apart, buf, c0, ldc, idx[0],
            ]  # fmt: skip
            self.call(dots_name(p.acc, p.n), args, (place.buf(b), self.turned), buf)

        box(b, (-(-p.depth // step),), block, "seq", parallel=False)
