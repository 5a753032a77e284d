"""Products of blocks: the loops around the tile functions of loops/tiles.py.

    pack B into panels (unless it can be read in place)
    for blocks of rows and of columns, over threads:
        for blocks of the contracted index: pack that part of A (unless ...), multiply
        what follows the product, element by element

C is the result's own buffer when nothing follows, else scratch that stays in the cache. Which sums
are formed, and in which order, depends on the extents only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf
from pullback.loops.lower.operands import InPlace, Product, acc_bits
from pullback.loops.lower.packing import TASKS, Packing
from pullback.loops.lower.statements import box
from pullback.loops.tiles import FLAT, LINE, TILE_TYPES, flat_name, tile_name, turn_name
from pullback.records import replaced

__all__ = ["PARALLEL", "Blocks", "emit_product", "task_rows"]

BLOCK_K = 1024  # of the contracted index: what is in use of both operands stays in the cache
LOCAL_K = 256  # where a task packs several panels of B: they are read in longer stretches
SHALLOW = 64  # of the contracted index, where rows of B share their places in the caches
PAGE = 4096  # bytes
STORED_ROWS = 12  # of a task that stores more than it computes,
STORED_DEPTH = 32  # of the contracted index at most,
STORED_LINE = 2048  # bytes of a row at least
FEW = 32  # rows, for which B is not packed
LARGE = 4 << 20  # bytes
BLOCK_ROWS = 252
# Bytes of one operand that stay in a core's cache: half of a second cache of 1 MB. No machine is
# asked for its own, as which sums are formed follows from it.
HALF_CACHE = 1 << 19
DIRECT = 128 << 10  # bytes of a right operand that is read without packing
PARALLEL = 400_000  # multiplications below which it is not


def emit_product(b: Builder, p: Product) -> None:
    """The statements of a product."""
    if p.left_place is not None and not (p.fixed or _left_in_place(p)):
        p.left_place = None
    if p.right_place is not None and (p.words or not _right_in_place(p)):
        place, p.right_place = p.right_place, None
        if place.depth[0] == 1 and not (p.pairs or p.words) and place.rows[0] >= p.n:
            # Its rows are contiguous, or its columns, or stretches of these.
            if place.depth[5] == 1 or (place.depth[1] == 1 and place.rows[1] == 1):
                p.right_source = place
    wide = p.batch * p.stacked * p.m * p.n * p.depth > PARALLEL
    many = p.batch >= 8 or (p.batch > 1 and p.m * p.n * p.depth <= PARALLEL)
    if p.shared and p.right_place is None and p.batch > 1:
        blocks = Blocks(b, p, 0, wide)
        p.right_place = blocks.pack_right((0, blocks.n), (0, blocks.depth, None), wide)

    def one(idx: tuple[Index, ...]) -> None:
        mine, parallel = p, wide and not many
        if p.near is not None:
            assert p.left_place is not None
            buf = p.near(b, idx[0], parallel)
            mine = replaced(
                p, left_place=replaced(p.left_place, buf=lambda _b: buf, base=lambda _b, _i: 0)
            )
        Blocks(b, mine, idx[0], parallel).emit()

    box(b, (p.batch,), one, "seq", parallel=wide and many)


def _right_in_place(p: Product) -> bool:
    """B is read where it lies if its rows are contiguous and it is small, or read but once."""
    place = p.right_place
    assert place is not None
    w, s0, s1 = place.rows
    if p.columns is not None:
        return True
    if p.pairs or (w > 1 and s0 != 1) or s1:
        return False
    if place.depth[:2] != (1, 1) and (
        p.left_place is None or p.left_place.depth[:3] != place.depth[:3]
    ):
        return False
    size = TILE_TYPES[acc_bits(p.acc)]
    return p.depth * p.n * size <= DIRECT or p.m <= FEW or p.n <= 4 * LINE // size


def _left_in_place(p: Product) -> bool:
    """A is read where it lies if the contracted index is contiguous, or it is small."""
    place = p.left_place
    assert place is not None
    small = p.m * p.depth * TILE_TYPES[acc_bits(p.acc)] <= DIRECT // 2
    return place.depth[5] == 1 or small or p.n <= 32


def task_rows(m: int, lines: int) -> int:
    """Rows of a task where the rows of A are shared out among eight of them or a multiple of
    eight. Tiles two lines across are 12 rows high and end in ones of 8, so that tasks of any
    multiple of four compute nothing in vain: in twelves, 512 rows were seven tasks of 72 and one
    of 8, and two threads an eighth slower."""
    height = {2: 4, 4: 6}.get(lines, 8)
    tall = max(1, min(TASKS * -(-m // (TASKS * BLOCK_ROWS)), m // 24))
    return min(m, -(-m // (tall * height)) * height)


def _crowded(p: Product) -> bool:
    """Whether the rows of a B that lies in memory begin whole pages apart."""
    place, size = p.right_place, TILE_TYPES[acc_bits(p.acc)]
    return place is not None and place.depth[5] >= p.n and place.depth[5] * size % PAGE == 0


class Blocks(Packing):
    """The product of one batch index."""

    def __init__(self, b: Builder, p: Product, bi: Index, parallel: bool) -> None:
        self.b, self.p, self.bi, self.parallel = b, p, bi, parallel
        unit = 2 if p.pairs else 1
        self.m, self.n, self.depth = p.m, p.n * unit, p.depth * unit
        self.line = LINE // TILE_TYPES[acc_bits(p.acc)]
        self.panel = self.line * min(self._lines(), -(-self.n // self.line))
        self.rows, self.cols = self._block_sizes()
        self.tall, self.broad = -(-self.m // self.rows), -(-self.n // self.cols)
        self.flat = (
            self.m <= FLAT
            and p.right_place is not None
            and p.columns is None
            and p.right_place.panel == 0
            and not p.words
            and p.near is None
        )

    def _lines(self) -> int:
        """Of a panel. Two are what tall tiles are made for. Where B is read once, in place, four
        or three are read in longer stretches: tiles of four are six rows high, those of three
        eight, and the choice is that which needs fewer rows."""
        if self.p.words:
            return 4
        place = self.p.right_place
        lies = place is not None and place.panel == 0  # not in panels, whose width is given
        if lies and self.m <= FEW and self.p.columns is None:
            return 3 if -(-self.m // 8) * 8 < -(-self.m // 6) * 6 else 4
        return 3 if 2 * self.line < self.n <= 3 * self.line else 2

    def _depth_of_block(self) -> int:
        """How much of the contracted index is multiplied at once. Rows of B that begin whole pages
        apart share their places in the caches: where it is read in place, few of them, so that the
        columns of a task are read in long stretches."""
        if self.local and self.cols > self.panel:
            return LOCAL_K
        lies = self.right is not None and self.right is self.p.right_place
        if not lies or self.p.columns is not None or self.m > FEW:
            return BLOCK_K
        return SHALLOW if _crowded(self.p) else BLOCK_K

    def _block_sizes(self) -> tuple[int, int]:
        """Rows and columns of a task."""
        size = TILE_TYPES[acc_bits(self.p.acc)]
        self.local = False
        if self.p.columns is not None:
            return min(self.m, BLOCK_ROWS), self.n
        if self._mostly_stores():
            return min(self.m, STORED_ROWS), self.n
        if self.p.near is not None:
            tile = HALF_CACHE // 4 // (max(1, self.m * self.p.stacked) * self.panel * size)
            parts = max(1, tile)
            if self.parallel:
                parts = min(parts, -(-self.n // (TASKS * self.panel)))
            elif self.p.into is not None and not self.p.turned:
                parts = self.n
            return self.m, min(-(-self.n // self.panel), parts) * self.panel
        small = self.m <= BLOCK_ROWS or self.m * self.depth * size <= HALF_CACHE
        self.local = self.p.right_place is None and small
        if self.parallel and self.n < 4 * self.panel:
            self.local = False
        if self.local:  # each task packs its own columns
            fit = HALF_CACHE // 2 // (min(max(1, self.depth), LOCAL_K) * size * self.panel)
            parts = max(1, fit)
            if self.parallel:
                parts = min(parts, -(-self.n // (TASKS * self.panel)))
            return self.m, min(-(-self.n // self.panel), parts) * self.panel
        if not self.parallel:
            return min(self.m, BLOCK_ROWS), self.n
        if self.p.right_place is not None and self.depth * self.n * size > LARGE:
            # A large B is read once: each task has columns of its own.
            return self.m, -(-self.n // (TASKS * self.panel)) * self.panel
        rows = task_rows(self.m, self.panel // self.line)
        tall = -(-self.m // rows)
        cols = self.n
        if tall < TASKS // 2 and self.n >= 2 * self.panel:
            parts = min(-(-TASKS // tall), self.n // self.panel)
            cols = -(-self.n // (parts * self.panel)) * self.panel
        return rows, cols

    def _mostly_stores(self) -> bool:
        """Whether C is long and takes little to compute: it is written row by row then, as memory
        lies, not panel by panel."""
        size = TILE_TYPES[acc_bits(self.p.acc)]
        return (
            self.p.near is None
            and self.m > FEW
            and self.depth <= STORED_DEPTH
            and self.depth * self.n * size <= DIRECT
            and self.n * size >= STORED_LINE
            and self.m * self.n * size > HALF_CACHE
        )

    def _levels(self) -> tuple[int, int, int]:
        """The loops over the contracted index that both operands can follow."""
        for place in (self.p.left_place, self.right):
            if self.depth and place is not None and place.depth[:2] != (1, 1):
                return place.depth[:3]
        return 1, 1, self.depth

    def strides(self, x: InPlace) -> tuple[int, int, int]:
        """The strides of those loops in an operand."""
        n1, n2, _, t1, t2, ks = x.depth
        if (n1, n2) != (1, 1):
            return t1, t2, ks
        _, inner, most = self.levels
        return inner * most * ks, most * ks, ks

    # ---- operands

    def emit(self) -> None:
        b, p = self.b, self.p
        self.right = p.right_place
        if self.right is None and not self.local:
            self.right = self.pack_right((0, self.n), (0, self.depth, None), self.parallel)
        self.levels = self._levels()
        self.early = None
        if p.left_place is None and self.broad > 1:
            whole = (0, self.m, self.m), (0, self.depth, None)
            self.early = self.pack_left(*whole, parallel=self.parallel)
        box(b, (self.tall, self.broad), self.task, "seq", parallel=self.parallel)

    # ---- one task

    def task(self, idx: tuple[Index, ...]) -> None:
        b, p = self.b, self.p
        i0, j0 = b.mul(idx[0], self.rows), b.mul(idx[1], self.cols)
        rows = self.rest(idx[0], self.rows, self.m)
        cols = self.rest(idx[1], self.cols, self.n)
        lines: Atom | int | None = None
        if p.lines is not None:
            lines = p.lines(b, self.bi)
            if p.columns is None:
                rows = self._times(lines, p.line)
            else:
                _, most, step = p.columns
                less = self._times(lines, step)
                cols = most - step + less if isinstance(less, int) else b.let(
                    "add", (less, b.dim(most - step)), "i64")  # fmt: skip
        if p.into is not None and not p.turned:
            buf, base, ldc = p.into(b, self.bi)
            c0 = b.linear([(base, 1), (i0, ldc), (j0, 1)])
            self.multiply(i0, rows, j0, cols, (buf, c0, ldc))
            return
        buf = b.scratch(p.acc, p.stacked * self.rows * self.cols, "tile")
        self.multiply(i0, rows, j0, cols, (buf, 0, self.cols))
        if p.turned:
            self.follow_turned(rows, j0, cols, buf, lines)
        else:
            self.follow(i0, rows, j0, cols, buf, lines)

    def _times(self, x: Atom | int, factor: int) -> Atom | int:
        if isinstance(x, int):
            return x * factor
        return self.b.let("mul", (x, self.b.dim(factor)), "i64")

    def follow_turned(
        self, rows: Atom | int, j0: Index, cols: Atom | int, buf: Buf, lines: Atom | int | None
    ) -> None:
        """A block of C goes transposed to its place, or to what follows along its rows."""
        b, p, most = self.b, self.p, self.rows
        place = p.into(b, self.bi) if p.into is not None else None
        other = buf if place else b.scratch(p.acc, self.cols * most, "turned")

        def block(t: Index) -> Sequence[Atom]:
            target, step = other, most
            at: Index = 0
            if place is not None:
                target, base, step = place
                at = b.linear([(base, 1), (t, p.into_apart), (j0, step)])
            args = [buf, b.mul(t, most * self.cols), self.cols, rows, cols, target, at, step]
            self.call(turn_name(p.acc), args, (buf, target), target)
            if place is None:
                b.loop(self.cols, "seq", lambda c: column(t, c), hi=self._limit(cols))
            return ()

        def column(t: Index, c: Index) -> Sequence[Atom]:
            def line(q: Index) -> Sequence[Atom]:
                b.loop(p.turned, "vector", lambda v: one(t, c, b.linear([(q, p.turned), (v, 1)])))
                return ()

            if p.turned == most:
                b.loop(most, "vector", lambda r: one(t, c, r), hi=self._limit(rows))
            else:
                b.loop(most // p.turned, "seq", line, hi=self._limit(lines))
            return ()

        def one(t: Index, c: Index, r: Index) -> Sequence[Atom]:
            value = b.load(other, b.atom(b.linear([(c, most), (r, 1)])))
            i = b.linear([(t, most), (r, 1)])
            p.put(b, self.bi, i, b.add(j0, c), value)
            return ()

        b.loop(p.stacked, "seq", block)

    def _limit(self, n: Atom | int | None) -> Atom | None:
        return None if n is None or isinstance(n, int) else n

    def follow(
        self,
        i0: Index,
        rows: Atom | int,
        j0: Index,
        cols: Atom | int,
        buf: Buf,
        lines: Atom | int | None,
    ) -> None:
        """What happens to the elements of a block of C."""
        b, p = self.b, self.p
        unit = 2 if p.pairs else 1
        limit = cols // unit if isinstance(cols, int) else self._halved(cols)
        groups, most, stride = p.columns or (1, self.cols // unit, 0)

        def row(r: Index) -> Sequence[Atom]:
            def group(q: Index) -> Sequence[Atom]:
                hi = None if isinstance(limit, int) or p.columns else limit
                b.loop(most, "vector", lambda c: column(b.linear([(q, stride), (c, 1)])), hi=hi)
                return ()

            def column(c: Index) -> Sequence[Atom]:
                at = b.linear([(r, self.cols), (c, unit)])
                parts = [b.load(buf, b.atom(b.add(at, q))) for q in range(unit)]
                first = self.part(j0)
                value = tuple(parts) if p.pairs else parts[0]
                p.put(b, self.bi, b.add(i0, r), b.add(first, c), value)
                return ()

            b.loop(groups, "seq", group, hi=self._limit(lines) if p.columns else None)
            return ()

        if p.stacked > 1:
            b.loop(p.stacked * self.rows, "seq", row)
        else:
            b.loop(self.rows, "seq", row, hi=self._limit(rows))

    def _halved(self, cols: Atom) -> Atom:
        return self.b.let("idiv", (cols, self.b.dim(2)), "i64") if self.p.pairs else cols

    def multiply(
        self,
        i0: Index,
        rows: Atom | int,
        j0: Index,
        cols: Atom | int,
        out: tuple[Buf, Index, int],
    ) -> None:
        """A block of C, over the blocks of the contracted index."""
        b, p = self.b, self.p
        place = self.early or p.left_place
        n1, n2, length = self.levels
        counts, step = [1, 1, 1], length
        most = self._depth_of_block()
        if n1 * n2 * length > most:
            if n1 * n2 > 1 and length <= most:
                counts = [n1, 1 if n2 * length <= most else n2, 1]
            else:
                step = -(-length // -(-length // most))
                step += step % 2  # a complex number is not torn apart
                counts = [n1, n2, -(-length // step)]

        def block(idx: tuple[Index, ...]) -> None:
            k1, k2, k3 = idx
            start = b.mul(k3, step)
            part = self.rest(k3, step, length) if length else 0
            more = b.linear([(k1, counts[1] * counts[2]), (k2, counts[2]), (k3, 1)])
            inner = n2 if counts[1] == 1 else 1
            outer = n1 if counts[0] == 1 else 1
            done = b.linear([(k1, n2 * length), (k2, length), (start, 1)])
            a, first, deep = place, i0, outer * inner * step
            a0: Index
            b0: Index
            hi = None if isinstance(part, int) else self._halved(part)
            if a is None:
                part_rows = (i0, self.rows, None if isinstance(rows, int) else rows)
                a, first, a0 = self.pack_left(part_rows, (self.part(done), deep, hi)), 0, 0
            else:
                t1, t2, ks = self.strides(a)
                a0 = b.linear([(a.base(b, self.bi), 1), (k1, t1), (k2, t2), (start, ks)])
            right = self.right
            if right is None:
                right, b0 = self.pack_right((j0, self.cols), (done, deep, hi), False), 0
            else:
                u1, u2, bs = self.strides(right)
                first_panel = b.div(j0, self.panel)
                b0 = b.linear([(right.base(b, self.bi), 1), (k1, u1), (k2, u2), (start, bs)])
                b0 = b.linear([(b0, 1), (first_panel, right.panel or self.panel)])
            sizes = (outer, inner, part)
            self.calls(a, a0, first, rows, sizes, right, b0, cols, out, more)

        box(b, counts, block, "seq", {0, 1}, parallel=False)

    def calls(
        self,
        a: InPlace,
        a0: Index,
        first: Index,
        rows: Atom | int,
        depth: tuple[int, int, Atom | int],
        right: InPlace,
        b0: Index,
        cols: Atom | int,
        out: tuple[Buf, Index, int],
        more: Index,
    ) -> None:
        """Whole panels, then the narrower rest of the columns."""
        b, p, panel = self.b, self.p, self.panel
        buf, c0, ldc = out
        rest = self.n % panel
        lines = -(-rest // self.line)
        split = self.broad == 1 and rest and lines < panel // self.line and self.n > panel
        split = split and (p.lines is None or p.columns is None)
        spans = [(0, cols, panel // self.line)]
        flat = self.flat
        if split and not flat:
            spans = [(0, self.n - rest, panel // self.line), (self.n - rest, rest, lines)]
        bp, panels = right.panel or panel, right.buf(b)
        for j, width, lines in spans:
            args: list[Any] = [
                a.buf(b), a0, first, *a.rows, rows, *depth, *self.strides(a),
                panels, b.add(b0, j // panel * bp), *self.strides(right), bp, width,
                buf, b.add(c0, j), ldc, more,
            ]  # fmt: skip
            name = flat_name(p.acc, self.m) if flat else tile_name(p.words or p.acc, lines)
            reads = a.buf(b), panels
            if p.stacked == 1:
                self.call(name, args, reads, buf)
                continue
            apart = p.into_apart if p.into is not None and not p.turned else self.rows * self.cols
            self._stacked(name, args, apart, reads, buf)

    def _stacked(
        self, name: str, args: list[Any], apart: int, reads: tuple[Buf, Buf], writes: Buf
    ) -> None:
        """A call for each block of rows."""
        b = self.b

        def block(t: Index) -> Sequence[Atom]:
            at = b.linear([(args[1], 1), (t, self.p.left_apart)])
            to = b.linear([(args[21], 1), (t, apart)])
            self.call(name, [args[0], at, *args[2:21], to, *args[22:]], reads, writes)
            return ()

        b.loop(self.p.stacked, "seq", block)
