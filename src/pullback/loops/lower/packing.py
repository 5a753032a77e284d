"""Operands of a product of blocks, laid out for the tile functions: panels of B, blocks of A."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.operands import InPlace, Product, packed_type
from pullback.loops.ops import identity_of
from pullback.loops.tiles import pack_name, turn_name

__all__ = ["TASKS", "Packing"]

TURNED = 512  # of the contracted index, of a block that is transposed
TURNED_ROWS = 64  # rows of a block of A that are transposed at once
STRIP = 12  # rows of A that lie side by side, as many as the tallest tiles have
STRIP_APART = 16  # elements between strips, which would begin in the same places of the caches
TASKS = 8  # blocks that a product is cut into when it is worth several threads


class Packing:
    """The operands of the product of one batch index."""

    b: Builder
    p: Product
    bi: Index
    n: int  # columns
    line: int  # elements of a line of memory
    panel: int  # columns of a panel

    def pack_right(
        self, columns: tuple[Index, int], depth: tuple[Index, int, Any], parallel: bool
    ) -> InPlace:
        """Panels [block of columns][contracted index][column], zeros beyond the edge: (first, most)
        columns and (first, most, how many if fewer) of the contracted index."""
        b, p, panel = self.b, self.p, self.panel
        j0, cols = columns
        k0, deep, length = depth
        unit = 2 if p.pairs else 1
        blocks, wide, steps = -(-cols // panel), panel // unit, deep // unit
        kind = packed_type(p)
        buf = b.scratch(kind, blocks * deep * panel, "panel")
        form = (1, 1, deep, 0, 0, panel)
        if p.right_form is not None:
            n1, n2, inner, t1, t2, ks = p.right_form
            form = (n1, n2, inner, t1 * panel, t2 * panel, ks * panel)
        made = InPlace(lambda _b: buf, lambda _b, _i: 0, (panel, 1, 0), form, deep * panel)
        if p.right_source is not None:
            along = p.right_source.depth[5] == 1 and p.right_source.rows[1] != 1
            copy = self.turn_right if along else self.lay_right
            copy(p.right_source, buf, columns, depth, parallel)
            return made
        if p.right_depth and not p.pairs and p.words is None:
            self.turn_read(buf, columns, depth, parallel)
            return made
        zero = identity_of("add", kind)

        def put(jb: Index, k: Index, v: Index) -> None:
            j = b.linear([(self.part(j0), 1), (jb, wide), (v, 1)])
            inside = b.in_range(j, 0, p.n)
            saved = b.mask
            b.mask = None if inside == TRUE else b.both(saved, inside)
            value = p.right(b, self.bi, b.add(self.part(k0), k), j)
            b.mask = saved
            if not p.pairs:
                self._store(buf, (jb, k, v), (blocks, deep, panel), b.select(inside, value, zero))
                return
            re, im = (b.select(inside, x, zero) for x in value)
            minus = b.let("neg", (im,), p.acc)
            for r, c, x in ((0, 0, re), (0, 1, im), (1, 0, minus), (1, 1, re)):
                row, col = b.linear([(k, 2), (r, 1)]), b.linear([(v, 2), (c, 1)])
                self._store(buf, (jb, row, col), (blocks, deep, panel), x)

        order = (0, 2, 1) if p.right_depth else (1, 0, 2)
        # A panel's width is the same in all products: a literal, so that its lines are copied
        # without counting.
        shape, ends = (blocks, steps, wide), (None, length, Const(wide, "i64"))

        def nest(level: int, place: tuple[Index, ...], parallel: bool) -> None:
            if level == 3:
                found = dict(zip(order, place, strict=True))
                put(found[0], found[1], found[2])
                return
            axis = order[level]
            wanted = parallel and level < 2 and shape[axis] >= 4
            kind = "vector" if level == 2 else "parallel" if wanted else "seq"

            def body(i: Index) -> Sequence[Atom]:
                nest(level + 1, (*place, i), parallel and not wanted)
                return ()

            b.loop(shape[axis], kind, body, hi=ends[axis])

        nest(0, (), parallel)
        return made

    def _columns_from(self, first: Index, most: int) -> Atom:
        """How many columns a part has that begins at column `first`: `most`, fewer at the end."""
        rest = self.b.atom(self.b.linear([(first, -1), (self.n, 1)]))
        return self.b.let("clamp", (self.b.dim(0), rest, self.b.dim(most)), "i64")

    def _panels(
        self,
        columns: tuple[Index, int],
        parallel: bool,
        block: Callable[[Index, Index, Atom], None],
    ) -> None:
        """Panel after panel: `block` takes its number, its first column and how many are there."""
        b, panel = self.b, self.panel
        j0, cols = columns

        def one(jb: Index) -> Sequence[Atom]:
            first = b.linear([(j0, 1), (jb, panel)])
            block(jb, first, self._columns_from(first, panel))
            return ()

        self._blocks(-(-cols // panel), parallel, one)

    def _blocks(self, count: int, parallel: bool, block: Callable[[Index], Sequence[Atom]]) -> None:
        """A loop over blocks, which threads share if there are some."""
        self.b.loop(count, "parallel" if parallel and count >= 4 else "seq", block)

    def lay_right(
        self,
        source: InPlace,
        buf: Buf,
        columns: tuple[Index, int],
        depth: tuple[Index, int, Any],
        parallel: bool,
    ) -> None:
        """Panels of a B whose rows are contiguous in memory, some of them by a task."""
        b, panel = self.b, self.panel
        j0, cols = columns
        k0, deep, length = depth
        stride, base = source.depth[5], source.base(b, self.bi)
        blocks = -(-cols // panel)
        parts = min(TASKS, blocks) if parallel else 1
        most = -(-blocks // parts) * panel

        def part(t: Index) -> Sequence[Atom]:
            first = b.linear([(j0, 1), (t, most)])
            ends = first if isinstance(first, int) else None
            count: Atom | int = most
            if ends is None or ends + most > self.n or most > cols:
                count = self._columns_from(first, min(most, cols))
            at = b.linear([(base, 1), (first, 1), (k0, stride)])
            rows = deep if length is None else length
            to = b.mul(t, most * deep)
            args = [source.buf(b), at, stride, rows, count, buf, to, deep * panel]
            name = pack_name(self.p.acc, panel // self.line)
            self.call(name, args, (source.buf(b), buf), buf)
            return ()

        b.loop(-(-blocks * panel // most), "parallel" if parts > 3 else "seq", part)

    def turn_right(
        self,
        source: InPlace,
        buf: Buf,
        columns: tuple[Index, int],
        depth: tuple[Index, int, Any],
        parallel: bool,
    ) -> None:
        """Panels of a B whose columns are contiguous in memory, or in stretches of it: transposed,
        block by block. What lies beyond the last column is never read."""
        b, panel, stride = self.b, self.panel, source.rows[1]
        name, buffer = turn_name(packed_type(self.p)), source.buf(b)
        base = source.base(b, self.bi)
        k0, deep, length = depth

        def block(jb: Index, first: Index, left: Atom) -> None:
            at, to = b.linear([(base, 1), (first, stride)]), b.mul(jb, deep * panel)
            if stretches == 1:
                args = [buffer, b.add(at, k0), stride, left, length or deep, buf, to, panel]
                self.call(name, args, (buffer, buf), buf)
                return

            def stretch(s: Index) -> Sequence[Atom]:
                begin = b.let("max", (b.atom(b.mul(s, most)), b.atom(k0)), "i64")
                stop = b.let("min", (b.atom(b.linear([(s, most), (most, 1)])), b.atom(end)), "i64")
                count = b.let("sub", (stop, begin), "i64")
                k = b.to_index(begin, 0, stretches * most)
                inside = b.linear([(at, 1), (k, 1), (s, apart - most)])
                done = b.linear([(to, 1), (k, panel), (k0, -panel)])
                args = [buffer, inside, stride, left, count, buf, done, panel]
                self.call(name, args, (buffer, buf), buf)
                return ()

            b.loop(stretches, "seq", stretch, lo=lo, hi=hi)

        # The contracted index runs over stretches of `most` elements, `apart` from each other.
        _, stretches, most, _, apart, _ = source.depth
        some = deep if length is None else b.to_index(length, 0, deep)
        end = b.linear([(k0, 1), (some, 1)])
        lo = b.atom(b.div(k0, most))
        hi = b.atom(b.div(b.linear([(end, 1), (most - 1, 1)]), most))
        self._panels(columns, parallel, block)

    def turn_read(
        self,
        buf: Buf,
        columns: tuple[Index, int],
        depth: tuple[Index, int, Any],
        parallel: bool,
    ) -> None:
        """Panels of a B that is read along the contracted index: some of it goes to scratch as it
        is read, and from there transposed to its place."""
        b, p, panel = self.b, self.p, self.panel
        k0, deep, length = depth
        most = max(1, min(deep, TURNED))

        def block(jb: Index, first: Index, left: Atom) -> None:
            some = b.scratch(p.acc, panel * most, "read")

            def chunk(kb: Index) -> Sequence[Atom]:
                start = b.mul(kb, most)
                end = length if length is not None else b.dim(deep)
                rest = b.let("sub", (end, b.atom(start)), "i64")
                count = b.let("clamp", (b.dim(0), rest, b.dim(most)), "i64")

                def column(v: Index) -> Sequence[Atom]:
                    def along(k: Index) -> Sequence[Atom]:
                        at = b.linear([(k0, 1), (start, 1), (k, 1)])
                        value = p.right(b, self.bi, at, b.add(first, v))
                        b.store(some, b.atom(b.linear([(v, most), (k, 1)])), value)
                        return ()

                    b.loop(most, "vector", along, hi=count)
                    return ()

                b.loop(panel, "seq", column, hi=left)
                to = b.linear([(jb, deep * panel), (start, panel)])
                args = [some, 0, most, left, count, buf, to, panel]
                self.call(turn_name(p.acc), args, (some, buf), buf)
                return ()

            b.loop(-(-deep // most), "seq", chunk)

        self._panels(columns, parallel, block)

    def part(self, i: Index) -> Index:
        """A number of reals as one of elements."""
        return self.b.div(i, 2) if self.p.pairs else i

    def _store(self, buf: Buf, idx: Sequence[Index], shape: Sequence[int], value: Atom) -> None:
        self.b.store(buf, self.b.atom(self.b.ravel(idx, shape)), value)

    def pack_left(
        self,
        rows: tuple[Index, int, Any],
        depth: tuple[Index, int, Any],
        parallel: bool = False,
    ) -> InPlace:
        """A block of A in scratch: (first, most, how many if fewer) of rows and of the contracted
        index."""
        b, p, pairs = self.b, self.p, 2 if self.p.pairs else 1
        first, m, count = rows
        start, deep, length = depth
        by_rows = p.left_rows and not p.pairs
        if by_rows and not p.words:
            return self.pack_strips(rows, depth, parallel)
        buf = b.scratch(packed_type(p), m * deep, "rows")
        s0, ks = (1, m) if by_rows else (deep, 1)

        def put(i: Index, k: Index) -> None:
            value = p.left(b, self.bi, b.add(first, i), b.add(start, k))
            if pairs == 1:
                b.store(buf, b.atom(b.linear([(i, s0), (k, ks)])), value)
                return
            for part, x in enumerate(value):
                b.store(buf, b.atom(b.linear([(i, deep), (k, 2), (part, 1)])), x)

        loops = [(m, count if count != m else None), (deep // pairs, length)]
        if by_rows:
            loops.reverse()

        run = p.left_run if length is None and start == 0 and not by_rows and pairs == 1 else 0

        def outer(x: Index) -> Sequence[Atom]:
            def inner(y: Index) -> Sequence[Atom]:
                put(*((y, x) if by_rows else (x, y)))
                return ()

            def part(t: Index) -> Sequence[Atom]:
                b.loop(run, "vector", lambda y: inner(b.linear([(t, run), (y, 1)])))
                return ()

            if 1 < run < deep:
                b.loop(deep // run, "seq", part)
            else:
                b.loop(loops[1][0], "vector", inner, hi=loops[1][1])
            return ()

        kind = "parallel" if parallel and loops[0][0] >= 4 else "seq"
        b.loop(loops[0][0], kind, outer, hi=loops[0][1])
        if by_rows and p.words:  # their tiles want the contracted index contiguous
            buf, s0, ks = self.turn_left(buf, m, deep, parallel), deep, 1
        return InPlace(lambda _b: buf, lambda _b, _i: 0, (m, s0, 0), (1, 1, deep, 0, 0, ks))

    def pack_strips(
        self, rows: tuple[Index, int, Any], depth: tuple[Index, int, Any], parallel: bool
    ) -> InPlace:
        """A block of A that is read row by row of the contracted index: strips [contracted
        index][row] of as many rows as a tile has, which it reads from one end to the other."""
        b, p = self.b, self.p
        first, m, count = rows
        start, deep, length = depth
        size = STRIP * deep + STRIP_APART
        buf = b.scratch(packed_type(p), -(-m // STRIP) * size, "rows")
        fewer: Atom | None = None if count is None or count == m else count
        whole = None if fewer is None else b.let("idiv", (fewer, b.dim(STRIP)), "i64")

        def line(k: Index) -> Sequence[Atom]:
            def strip(s: Index, hi: Atom | None, most: int = STRIP) -> Sequence[Atom]:
                def put(v: Index) -> Sequence[Atom]:
                    i = b.linear([(s, STRIP), (v, 1)])
                    value = p.left(b, self.bi, b.add(first, i), b.add(start, k))
                    b.store(buf, b.atom(b.linear([(s, size), (k, STRIP), (v, 1)])), value)
                    return ()

                b.loop(most, "vector", put, hi=hi)
                return ()

            b.loop(m // STRIP, "seq", lambda s: strip(s, Const(STRIP, "i64")), hi=whole)
            if fewer is not None and whole is not None:
                done = b.to_index(whole, 0, m // STRIP)
                rest = b.let("sub", (fewer, b.atom(b.mul(done, STRIP))), "i64")
                strip(done, rest)
            elif m % STRIP:
                strip(m // STRIP, None, m % STRIP)
            return ()

        b.loop(deep, "parallel" if parallel and deep >= 4 else "seq", line, hi=length)
        form = (1, 1, deep, 0, 0, STRIP)
        return InPlace(lambda _b: buf, lambda _b, _i: 0, (STRIP, 1, size), form)

    def turn_left(self, source: Buf, m: int, deep: int, parallel: bool) -> Buf:
        """A block of A whose rows are contiguous, transposed."""
        b, name = self.b, turn_name(packed_type(self.p))
        buf = b.scratch(packed_type(self.p), m * deep, "turned")

        def block(t: Index) -> Sequence[Atom]:
            first = b.mul(t, TURNED_ROWS)
            rest = self.rest(t, TURNED_ROWS, m)
            args = [source, first, m, deep, rest, buf, b.mul(first, deep), deep]
            self.call(name, args, (source, buf), buf)
            return ()

        self._blocks(-(-m // TURNED_ROWS), parallel, block)
        return buf

    def rest(self, t: Index, size: int, total: int) -> Atom | int:
        """How much of a block is there."""
        b = self.b
        if total % size == 0:
            return size
        return b.let("min", (b.dim(size), b.atom(b.linear([(t, -size), (total, 1)]))), "i64")

    def call(self, name: str, args: list[Any], reads: tuple[Buf, Buf], writes: Buf) -> None:
        """Calls a tile function."""
        b = self.b
        given = tuple(x if isinstance(x, (Buf, Const, Var)) else b.atom(x) for x in args)
        for buf in (*reads, writes):
            b.loaded.add(buf)
        b.stored.add(writes)
        b.emit(Call((), name, given))
