"""Register tiles of matrix products: the functions that contractions and convolutions call.

One function multiplies a block: rows of A, read in place or packed, with panels of B into a block
of C (loops/tiles.py says what its arguments are). A tile of `height` rows times `group` vectors
stays in registers while the contracted index runs. Functions are compiled well, once per machine,
and called through the context's table, so that the kernels around them (packing, what follows the
product) stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.dots import dots_text
from pullback.backends.llvm.panels import Pack, Turn
from pullback.backends.llvm.target import Target
from pullback.loops.tiles import LINE, TILE_TYPES, WORDS, parse_tile

__all__ = ["tile_text"]

TYPES = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
TYPES |= dict.fromkeys(WORDS.values(), "i32")
SIZES = {**TILE_TYPES, **dict.fromkeys(WORDS.values(), 4)}
ROWS = 504  # of one table of row offsets
ROWS_AHEAD = 24  # rows of a B that was not packed, between what is read and what is fetched
LARGE = 1 << 17  # bytes of a B that does not stay in a core's caches
BYTE_FEATURES = "+avx512vnni"
FLIPPED, ONES = -0x7F7F7F80, 0x01010101  # of four bytes: the first bits, ones
TALL, SHORT = 12, 8  # rows of tiles two vectors across, and of those that end a block
NARROW = 8  # rows of tiles one vector across
Branch = Callable[[], list[Val]]
Masks = Sequence[str | None]  # the lanes of each vector across that are inside; None: all
AHEAD = 32  # bytes of the next panel that are fetched in a step of the contracted index
ARGUMENTS = (
    "ptr %a, i64 %a0, i64 %r0, i64 %w, i64 %s0, i64 %s1, i64 %rows, "
    "i64 %n1, i64 %n2, i64 %len, i64 %t1, i64 %t2, i64 %ks, "
    "ptr %b, i64 %b0, i64 %u1, i64 %u2, i64 %bs, i64 %bp, i64 %cols, "
    "ptr %c, i64 %c0, i64 %ldc, i64 %more, i64 %panel"
)


def _shape(target: Target, lines: int) -> tuple[int, int]:
    """Vectors across and rows of a tile: as many accumulators as there are registers for. Of those
    two vectors across a panel's part stays closest to the units: half as much of it comes from the
    second cache as of four."""
    if target.vector_bytes == LINE:
        return lines, (8, TALL, 8, 6)[lines - 1]
    if target.registers >= 32:
        return 4, 6
    return 2, 6 if target.fma else 4


def _flat_shape(target: Target, rows: int) -> tuple[int, int]:
    """Vectors across and rows of a tile of few rows."""
    many = (8, 8, 8, 4) if target.registers >= 32 else (6, 5, 4, 3)
    return many[rows - 1], rows


def _type_of_sums(dtype: str) -> str:
    """The type of the elements of C."""
    return "float" if dtype == "b16" else TYPES[dtype]


class _Fetch(NamedTuple):
    """What a tile asks for ahead of time: where it begins, how far that moves with each step, and
    how far apart the vectors of a step are."""

    begin: Val
    pace: Val
    apart: Val


class _Tile:
    """Emits one tile function; a flat one for so many `rows`."""

    def __init__(
        self,
        target: Target,
        dtype: str,
        lines: int,
        brief: bool = False,
        rows: int = 0,
        named: str = "i32 @pb_tile",
        bytewise: bool = False,
    ) -> None:
        self.bytewise = bytewise
        self.t, self.size, self.kind = TYPES[dtype], SIZES[dtype], dtype
        self.sum = _type_of_sums(dtype)
        self.lanes = target.lanes(self.size)
        self.panel = lines * LINE // self.size
        self.flat = rows > 0
        shape = _flat_shape(target, rows) if rows else _shape(target, lines)
        if bytewise:
            shape = (3, SHORT) if lines == 3 else (min(2, lines), TALL)
        self.width, self.height = (1, 1) if brief else shape
        self.target = target
        # Where masks cost, what is no wider than a vector has tiles of its own.
        self.narrow = 0 if brief or target.masks or self.width == 1 else rows or NARROW
        self.tallest = max(self.height, self.narrow)
        self.declarations: dict[str, str] = {}
        head = f"define {named}(ptr %ctx, {ARGUMENTS}) nounwind"
        if bytewise:
            features = ",".join(x for x in (target.features, BYTE_FEATURES) if x)
            head += f' "target-features"="{features}"'
        self.b = Builder(target, head, self.declarations)

    def arg(self, name: str) -> Val:
        return Val(self.b, "ptr" if name in "abc" else "i64", 1, (f"%{name}",))

    def at(self, base: Val, offset: Val | int) -> Val:
        return self.b.gep(base, offset, self.size)

    def function(self, brief: bool) -> str:
        """The function; what it needs declared is in `declarations` then."""
        (self.write_brief if brief else self.write_whole)()
        self.b.line("ret i32 0")
        return self.b.text()

    def text(self, brief: bool) -> str:
        """The module."""
        return _module(self.target, self.declarations, self.function(brief))

    def write_whole(self) -> None:
        """Tiles in registers."""
        b = self.b
        rows = self.arg("rows")
        table = b.alloca(8 * (ROWS + self.tallest))

        def block(first: Val, _: list[Val]) -> list[Val]:
            count = b.call("smin", rows - first, ROWS)
            self.row_table(table, first + self.arg("r0"), count)
            self.panels(table, first, count)
            return []

        b.loop(0, rows, ROWS, [], block)

    def write_brief(self) -> None:
        """The least code that computes the same bits: one row and one vector at a time, whatever
        the panel's width."""
        b, n = self.b, self.lanes
        w, cols, more = self.arg("w"), self.arg("cols"), self.arg("more").ne(0)
        left, right = (self.at(self.arg(x), self.arg(x + "0")) for x in "ab")
        out = self.at(self.arg("c"), self.arg("c0"))
        n1, n2, length = self.arg("n1"), self.arg("n2"), self.arg("len")
        t1, t2, ks = self.arg("t1"), self.arg("t2"), self.arg("ks")
        u1, u2, bs = self.arg("u1"), self.arg("u2"), self.arg("bs")

        def row(r: Val, _: list[Val]) -> list[Val]:
            q = self.arg("r0") + r
            m = b.pure("udiv {T} {0}, {1}", (q, w), "i64")
            source = self.at(left, m * self.arg("s1") + (q - m * w) * self.arg("s0"))
            target = self.at(out, r * self.arg("ldc"))
            b.loop(0, cols, n, [], lambda j, _: across(j, source, target))
            return []

        def across(j: Val, source: Val, target: Val) -> list[Val]:
            masks = self.masks(cols - j)
            panel = self.columns(right, j, None if self.flat else self.arg("panel"))

            def element(at: Val, state: list[Val]) -> list[Val]:
                value = self.factor(b.splat(b.load(self.t, self.at(source, at)), n))
                acc = self.step(value, self.factor(self.column(state[1], 0, masks)), state[0])
                return [acc, self.at(state[1], bs)]

            def outer(i: Val, state: list[Val]) -> list[Val]:
                return b.loop(0, n2, 1, state, lambda k, s: middle(i, k, s))

            def middle(i: Val, k: Val, state: list[Val]) -> list[Val]:
                at, begin = i * t1 + k * t2, self.at(panel, i * u1 + k * u2)
                step = lambda x, s: element(at + x * ks, s)
                return b.loop(0, length, 1, [state[0], begin], step)[:1]

            done = b.loop(0, n1, 1, [b.splat(b.lit(0, self.sum), n)], outer)[0]
            place = self.at(target, j)
            total = b.select(more, self.column(place, 0, masks, self.sum) + done, done)
            self.write(place, 0, total.regs[0], masks)
            return []

        b.loop(0, self.arg("rows"), 1, [], row)

    def row_table(self, table: Val, first: Val, count: Val) -> None:
        """Where each row of A begins. A ragged tile ends with its last row again and again: it
        computes and stores the same values."""
        b = self.b
        w, s0, s1 = self.arg("w"), self.arg("s0"), self.arg("s1")
        q = b.pure("udiv {T} {0}, {1}", (first, w), "i64")
        m = first - q * w
        turn = s1 - w * s0 + s0

        def row(r: Val, state: list[Val]) -> list[Val]:
            at, place, _ = state
            b.store(at, b.gep(table, r, 8))
            wraps = (place + 1).eq(w)
            after = at + b.select(wraps, turn, s0)
            return [after, b.select(wraps, b.lit(0, "i64"), place + 1), at]

        start = [q * s1 + m * s0, m, b.lit(0, "i64")]
        last = b.loop(0, count, 1, start, row)[2]
        for k in range(self.tallest - 1):
            b.store(last, b.gep(b.gep(table, count, 8), 8 * k))

    def panels(self, table: Val, first: Val, count: Val) -> None:
        """Groups of columns, and the tiles of each from top to bottom."""
        b, step = self.b, self.lanes * self.width
        cols, ldc, bp = self.arg("cols"), self.arg("ldc"), self.arg("bp")
        left = self.at(self.arg("a"), self.arg("a0"))
        right = self.at(self.arg("b"), self.arg("b0"))
        out = self.at(self.at(self.arg("c"), self.arg("c0")), first * ldc)
        tall = self.in_tall_tiles(count) if self.height == TALL else count

        def across(j: Val, _: list[Val]) -> list[Val]:
            more = b.lit(0, "i64")
            if not self.flat:
                more = b.select(cols - j > self.panel, bp, more)  # else the panel itself

            def run(masks: Masks, height: int = self.height, j: Val = j) -> list[Val]:
                source = self.columns(right, j)

                def down(height: int) -> Callable[[Val, list[Val]], list[Val]]:
                    def tile(r: Val, _: list[Val]) -> list[Val]:
                        place = self.at(out, j)
                        self.tile(left, source, more, place, r, height, count, table, masks)
                        return []

                    return tile

                b.loop(0, tall, height, [], down(height))
                if height == TALL:
                    b.loop(tall, count, SHORT, [], down(SHORT))
                return []

            self.by_width(j, cols, run)
            return []

        b.loop(0, cols, step, [], across)

    def by_width(self, j: Val, cols: Val, run: Callable[..., list[Val]]) -> None:
        """The tiles of a group of columns, from column j on."""
        b, n, inside = self.b, self.lanes, cols - j
        whole: Masks = [None] * self.width

        def one_by_one(j: Val, _: list[Val]) -> list[Val]:
            full: Branch = lambda: run([None], NARROW, j)
            return b.if_else(cols - j >= n, full, lambda: part(j))

        def part(j: Val) -> list[Val]:
            return run(self.masks(cols - j)[:1], self.narrow, j)

        def ragged() -> list[Val]:
            masked: Branch = lambda: run(self.masks(inside))
            if not self.narrow:
                return masked()
            if self.flat:
                return b.if_else(inside > n, masked, lambda: part(j))
            return b.loop(j, cols, n, [], one_by_one)

        if self.target.masks:
            run(self.masks(inside))
        else:
            b.if_else(inside >= n * self.width, lambda: run(whole), ragged)

    def in_tall_tiles(self, count: Val) -> Val:
        """How many of the rows are in tall tiles, so that the least is computed in vain: the rest
        is one or two short tiles."""
        b = self.b
        rest = count - b.pure("udiv {T} {0}, {1}", (count, b.lit(TALL, "i64")), "i64") * TALL
        two = (rest > 0) & (rest <= 2 * SHORT - TALL)
        less = b.select(two, rest + TALL, b.select(rest > SHORT, b.lit(0, "i64"), rest))
        return b.call("smax", count - less, 0)

    def columns(self, right: Val, j: Val, panel: Val | None = None) -> Val:
        """Where B's columns from j on begin; `panel` is a width that is not known here."""
        if self.flat:
            return self.at(right, j)
        panel = self.b.lit(self.panel, "i64") if panel is None else panel
        number = self.b.pure("udiv {T} {0}, {1}", (j, panel), "i64")
        return self.at(self.at(right, number * self.arg("bp")), j - number * panel)

    def masks(self, left: Val) -> Masks:
        """Which lanes of each vector are inside, as registers."""
        b, n = self.b, self.lanes
        out = []
        for k in range(self.width):
            limit = b.cast("trunc", b.call("smin", left - k * n, n), "i32")
            inside = (b.lanes_of("i32", n) < limit).regs[0]
            out.append(b.impure_reg(f"freeze <{n} x i1> {inside}"))
        return out

    def hidden(self, x: Val) -> Val:
        """A number or an address, of which LLVM does not know how it is counted: of tiles that are
        tall it would keep a pointer for each row and step, more than there are registers, and each
        load from a row would come after one from the stack."""
        if self.height < SHORT:
            return x
        return self.b.impure(f"freeze {x.t} {x.regs[0]}", x.t, 1)

    def tile(
        self,
        left: Val,
        right: Val,
        following: Val,
        out: Val,
        r: Val,
        height: int,
        rows: Val,
        table: Val,
        masks: Masks,
    ) -> None:
        b, n, width = self.b, self.lanes, len(masks)
        last = rows - 1
        targets = [
            self.at(out, b.call("smin", r + i, last) * self.arg("ldc")) for i in range(height)
        ]
        for row in targets:
            for k in range(width):
                self.b.prefetch(self.at(row, k * n), writes=True)
        begin = [b.load("i64", b.gep(b.gep(table, r, 8), 8 * i)) for i in range(height)]
        # A B that lies in memory as it was is fetched by rows, a few steps before it is read.
        n1, n2, length, bs = (self.arg(x) for x in ("n1", "n2", "len", "bs"))
        lies = (bs > self.panel) & (bs * n1 * n2 * length > LARGE // self.size)
        ahead = self.next_panel(right, following, r, n1 * n2 * length)
        fetch = _Fetch(
            b.select(lies, self.at(right, bs * ROWS_AHEAD), ahead),
            b.select(lies, bs * self.size, b.lit(AHEAD, "i64")),
            b.select(lies, b.lit(n * self.size, "i64"), b.lit(0, "i64")),
        )
        apart = self.arg("s0")
        even = (r + height <= rows) & (begin[-1] - begin[0]).eq(apart * (height - 1))
        evenly: Branch = lambda: self.along(left, right, begin, fetch, masks, apart * self.size)
        along: Branch = lambda: self.along(left, right, begin, fetch, masks)
        done = (b.if_else(even, evenly, along) if height == TALL else along())[0]
        if self.bytewise:
            done = self.without_flips(done, height)

        def added() -> list[Val]:
            regs: list[str] = []
            for row in targets:
                for k in range(width):
                    regs += self.column(row, k, masks, self.sum).regs
            return [Val(b, self.sum, n, tuple(regs)) + done]

        total = b.if_else(self.arg("more").ne(0), added, lambda: [done])[0]
        for i, row in enumerate(targets):
            for k in range(width):
                self.write(row, k, total.regs[i * width + k], masks)

    def along(
        self,
        left: Val,
        right: Val,
        begin: Sequence[Val],
        fetch: _Fetch,
        masks: Masks,
        apart: Val | None = None,
    ) -> list[Val]:
        """The sums of a tile, over the contracted index. Where its rows lie `apart` by as many
        bytes each, a few registers hold where all of them are."""
        b, height, width = self.b, len(begin), len(masks)
        sums = height + self.bytewise  # a row more: sums of columns
        start = b.splat(b.lit(0, self.sum), self.lanes).regs * (sums * width)
        n1, n2, length = self.arg("n1"), self.arg("n2"), self.arg("len")
        t1, t2, ks = self.arg("t1"), self.arg("t2"), self.arg("ks")
        u1, u2, bs = self.arg("u1"), self.arg("u2"), self.arg("bs")
        pointers = [self.at(left, at) for at in begin]

        def single(_: Val, state: list[Val]) -> list[Val]:
            sums, source, ahead, at = state
            for k in range(width):
                b.prefetch(b.gep(ahead, fetch.apart * k), 2)
            if apart is None:
                places = [self.at(p, at) for p in pointers]
                after = self.hidden(at + ks)
            else:
                fours = [b.gep(at, apart * k) for k in range(0, height, 4)]
                places = [b.gep(fours[i // 4], apart * (i % 4)) for i in range(height)]
                after = self.hidden(self.at(at, ks))
            sums = self.element(places, source, sums, masks)
            return [sums, self.at(source, bs), b.gep(ahead, fetch.pace), after]

        def outer(i: Val, state: list[Val]) -> list[Val]:
            def middle(j: Val, inside: list[Val]) -> list[Val]:
                base, source = i * t1 + j * t2, self.at(right, i * u1 + j * u2)
                at = base if apart is None else self.at(pointers[0], base)
                state, paired = [inside[0], source, inside[1], at], b.lit(0, "i64")
                if height == TALL:  # two steps at a time: counting takes the units' time too
                    paired = length & -2
                    state = b.loop(0, paired, 2, state, lambda k, s: single(k, single(k, s)))
                out = b.loop(paired, length, 1, state, single)
                return [out[0], out[2]]

            return b.loop(0, n2, 1, state, middle)

        sums_and_ahead = [Val(b, self.sum, self.lanes, start), fetch.begin]
        return b.loop(0, n1, 1, sums_and_ahead, outer)[:1]

    def element(self, places: Sequence[Val], source: Val, acc: Val, masks: Masks) -> Val:
        """One step of the contracted index."""
        b, n, width, height = self.b, self.lanes, len(masks), len(places)
        columns = [self.factor(self.column(source, k, masks)) for k in range(width)]
        regs: list[str] = []
        for i, place in enumerate(places):
            word = b.load(self.t, place)
            value = self.factor(b.splat(word ^ FLIPPED if self.bytewise else word, n))
            for k in range(width):
                old = Val(b, self.sum, n, (acc.regs[i * width + k],))
                regs += self.step(value, columns[k], old).regs
        for k in range(width if self.bytewise else 0):
            old = Val(b, self.sum, n, (acc.regs[height * width + k],))
            regs += self.step(b.splat(b.lit(ONES, "i32"), n), columns[k], old).regs
        return Val(b, self.sum, n, tuple(regs))

    def next_panel(self, right: Val, following: Val, r: Val, depth: Val) -> Val:
        """Where the tile from row r on begins to fetch the next panel of B into the second-level
        cache: each of the first tiles fetches its share."""
        b = self.b
        number = b.pure("udiv {T} {0}, {1}", (r, b.lit(self.height, "i64")), "i64")
        share, whole = depth * AHEAD, self.arg("bp") * self.size
        at = b.call("smax", b.call("smin", number * share, whole - share), 0)
        return b.gep(self.at(right, following), at)

    def factor(self, x: Val) -> Val:
        """What `step` multiplies. Of words: their first and third bytes as numbers of 16 bits, and
        their second and fourth ones. Of pairs of bf16 numbers: the first ones and the second."""
        if self.kind not in WORDS.values() or self.bytewise:
            return x
        n = x.n
        if self.kind == "b16":
            return Val(self.b, "float", n, tuple(map(self.as_float, (x << 16, x & -65536))))
        halves, vt = f"<{2 * n} x i16>", f"<{n} x i32>"
        whole = self.b.impure_reg(f"bitcast {vt} {x.regs[0]} to {halves}")
        eight, low = (f"<{', '.join([f'i16 {v}'] * (2 * n))}>" for v in (8, 255))
        if self.kind == "w8":
            up = self.b.impure_reg(f"shl {halves} {whole}, {eight}")
            parts = [f"ashr {halves} {up}, {eight}", f"ashr {halves} {whole}, {eight}"]
        else:
            parts = [f"and {halves} {whole}, {low}", f"lshr {halves} {whole}, {eight}"]
        return Val(self.b, "i32", n, tuple(self.b.impure_reg(part) for part in parts))

    def as_float(self, x: Val) -> str:
        return self.b.impure_reg(f"bitcast <{x.n} x i32> {x.regs[0]} to <{x.n} x float>")

    def step(self, x: Val, y: Val, acc: Val) -> Val:
        if self.kind == "b16":
            for u, v in zip(x.regs, y.regs, strict=True):
                first, second = (Val(self.b, "float", acc.n, (reg,)) for reg in (u, v))
                acc = self.b.fma(first, second, acc)
            return acc
        if self.bytewise:
            return self.four(x, y, acc)
        if self.kind in WORDS.values():
            for u, v in zip(x.regs, y.regs, strict=True):
                acc = acc + self.pairs(u, v, acc.n)
            return acc
        return self.b.fma(x, y, acc) if self.t in ("float", "double") else acc + x * y

    def four(self, x: Val, y: Val, acc: Val) -> Val:
        """Sums of four products of bytes. The instruction multiplies unsigned with signed ones:
        those of A have their first bits flipped, which adds 128 to signed ones, and takes it from
        unsigned ones."""
        vt, name = f"<{acc.n} x i32>", f"llvm.x86.avx512.vpdpbusd.{32 * acc.n}"
        self.declarations[name] = f"declare {vt} @{name}({vt}, {vt}, {vt})"
        unsigned, signed = (x, y) if self.kind == "w8" else (y, x)
        args = ", ".join(f"{vt} {v.regs[0]}" for v in (acc, unsigned, signed))
        return self.b.impure(f"call {vt} @{name}({args})", "i32", acc.n)

    def without_flips(self, done: Val, height: int) -> Val:
        """What flipped bits have added: 128 times the sums of columns, which follow the tile's."""
        b, n = self.b, done.n
        sums = [Val(b, self.sum, n, (reg,)) << 7 for reg in done.regs[height * self.width :]]
        regs: list[str] = []
        for i in range(height * self.width):
            part, more = Val(b, self.sum, n, (done.regs[i],)), sums[i % self.width]
            regs += (part - more if self.kind == "w8" else part + more).regs
        return Val(b, self.sum, n, tuple(regs))

    def pairs(self, x: str, y: str, n: int) -> Val:
        """Sums of two products of neighbours of 16 bits."""
        b, halves, vt = self.b, f"<{2 * n} x i16>", f"<{n} x i32>"
        known = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
        if n in known and self.target.triple.startswith("x86_64"):
            name = "llvm.x86." + known[n]
            self.declarations[name] = f"declare {vt} @{name}({halves}, {halves})"
            return b.impure(f"call {vt} @{name}({halves} {x}, {halves} {y})", "i32", n)
        total: Val | None = None
        for first in (0, 1):
            picks = ", ".join(f"i32 {2 * i + first}" for i in range(n))
            wide = []
            for reg in (x, y):
                part = b.impure_reg(
                    f"shufflevector {halves} {reg}, {halves} poison, <{n} x i32> <{picks}>"
                )
                wide.append(b.impure(f"sext <{n} x i16> {part} to {vt}", "i32", n))
            product = wide[0] * wide[1]
            total = product if total is None else total + product
        assert total is not None
        return total

    def column(self, source: Val, k: int, masks: Masks, t: str = "") -> Val:
        b, n, t = self.b, self.lanes, t or self.t
        vt = f"<{n} x {t}>"
        p = self.at(source, k * n).regs[0]
        if masks[k] is not None:
            lanes = f"<{n} x i1> {masks[k]}"
            name = self.masked("load", t)
            text = f"call {vt} @{name}(ptr {p}, i32 {self.size}, {lanes}, {vt} zeroinitializer)"
            return b.impure(text, t, n)
        return b.impure(f"load {vt}, ptr {p}, align {self.size}", t, n)

    def masked(self, kind: str, t: str) -> str:
        n = self.lanes
        suffix = {"float": "f32", "double": "f64"}.get(t, t)
        name, vt = f"llvm.masked.{kind}.v{n}{suffix}.p0", f"<{n} x {t}>"
        self.declarations[name] = (
            f"declare {vt} @{name}(ptr, i32, <{n} x i1>, {vt})"
            if kind == "load"
            else f"declare void @{name}({vt}, ptr, i32, <{n} x i1>)"
        )
        return name

    def write(self, row: Val, k: int, reg: str, masks: Masks) -> None:
        b, n = self.b, self.lanes
        vt = f"<{n} x {self.sum}>"
        p = self.at(row, k * n).regs[0]
        if masks[k] is not None:
            name = self.masked("store", self.sum)
            lanes = f"<{n} x i1> {masks[k]}"
            b.line(f"call void @{name}({vt} {reg}, ptr {p}, i32 {self.size}, {lanes})")
        else:
            b.line(f"store {vt} {reg}, ptr {p}, align {self.size}")


MATRIX_FEATURES = "+amx-tile,+amx-int8,+amx-bf16"
ACROSS = 16  # rows, and words of a row, of a matrix register
LEAST = 142  # see _Matrix.keeps_denormals


def _module(target: Target, declarations: dict[str, str], *functions: str) -> str:
    head = f'target triple = "{target.triple}"\n'
    return head + "\n".join([*declarations.values(), *functions])


class _Matrix:
    """Emits the function for words on the processor's matrix registers: 16 rows of 64 bytes each.
    Four of them hold sums, the others rows of A and of a panel, whole ones and those at the end of
    the contracted index.

    Products of bf16 numbers treat denormals as zeros there, which Pullback keeps: where there may
    be some, among the operands or the sums, the function without matrix registers is called."""

    A, B, LAST_A, LAST_B = 4, 5, 6, 7

    def __init__(self, target: Target, kind: str, lines: int) -> None:
        self.lines, self.panel, self.kind = lines, lines * LINE // 4, kind
        self.product = {"w8": "tdpbssd", "z8": "tdpbuud", "b16": "tdpbf16ps"}[kind]
        self.sum = _type_of_sums(kind)
        self.target = target
        features = ",".join(x for x in (target.features, MATRIX_FEATURES) if x)
        head = (
            f"define i32 @pb_tile(ptr %ctx, {ARGUMENTS}) nounwind "
            f'"target-features"="{features}" "frame-pointer"="none"'
        )
        self.declarations: dict[str, str] = {}
        self.b = Builder(target, head, self.declarations)

    def arg(self, name: str) -> Val:
        return Val(self.b, "ptr" if name in "abc" else "i64", 1, (f"%{name}",))

    def at(self, base: Val, offset: Val | int) -> Val:
        return self.b.gep(base, offset, 4)

    def unit(self, name: str, *args: str) -> None:
        """An instruction on matrix registers."""
        full = f"llvm.x86.{name}"
        types = ", ".join(a.split()[0] for a in args)
        self.declarations[full] = f"declare void @{full}({types})"
        self.b.line(f"call void @{full}({', '.join(args)})")

    def text(self, brief: bool) -> str:
        """The module."""
        b = self.b
        if self.kind != "b16":
            self.write()
            b.line("ret i32 0")
            return _module(self.target, self.declarations, b.text())
        plain = _Tile(self.target, self.kind, self.lines, brief, named="internal i32 @pb_plain")
        arguments = f"(ptr %ctx, {ARGUMENTS})"

        def fast() -> list[Val]:
            self.write()
            return []

        def slow() -> list[Val]:
            b.line(f"call i32 @pb_plain{arguments}")
            return []

        b.if_else(self.keeps_denormals(), fast, slow)
        b.line("ret i32 0")
        functions = b.text(), plain.function(brief)
        return _module(self.target, {**self.declarations, **plain.declarations}, *functions)

    def keeps_denormals(self) -> Val:
        """Whether there are none: the least numbers that are not zero have biased exponents e and
        f of at least 1, and e + f >= 142. Every product is a multiple of 2^(e - 134) * 2^(f - 134)
        >= 2^-126 then (a bf16 number is one of 2^(e - 134)), and so are sums of them, rounded or
        not: they are zero or not denormal."""
        b = self.b
        length, cols = self.arg("len"), self.arg("cols")
        left = self.at(self.at(self.arg("a"), self.arg("a0")), self.arg("r0") * self.arg("s0"))
        right = self.at(self.arg("b"), self.arg("b0"))
        least = Val(b, "i16", 32, (f"<{', '.join(['i16 -1'] * 32)}>",))

        def row(r: Val, state: list[Val]) -> list[Val]:
            source = self.at(left, r * self.arg("s0"))
            step = lambda k, s: [self.smaller(s[0], self.at(source, k), length - k)]
            return b.loop(0, length, ACROSS, state, step)

        def panel(j: Val, state: list[Val]) -> list[Val]:
            number = b.pure("udiv {T} {0}, {1}", (j, b.lit(self.panel, "i64")), "i64")
            source = self.at(right, number * self.arg("bp"))

            def across(k: Val, state: list[Val]) -> list[Val]:
                line = self.at(source, k * self.arg("bs"))
                for n in range(self.lines):
                    place = self.at(line, n * ACROSS)
                    state = [self.smaller(state[0], place, cols - j - n * ACROSS)]
                return state

            return b.loop(0, length, 1, state, across)

        found = [
            self.exponent(b.loop(0, self.arg("rows"), 1, [least], row)[0]),
            self.exponent(b.loop(0, cols, self.panel, [least], panel)[0]),
        ]
        some = b.call("smin", found[0], found[1]) > 0
        return some & (found[0] + found[1] >= LEAST)

    def smaller(self, least: Val, place: Val, count: Val) -> Val:
        """The lesser magnitudes, less one unit so that zeros are the greatest of all."""
        b, n = self.b, 2 * ACROSS
        limit = b.cast("trunc", b.call("smin", b.call("smax", count, 0), ACROSS), "i32")
        mask = (b.lanes_of("i32", ACROSS) < limit).regs[0]
        vt, words = f"<{n} x i16>", f"<{ACROSS} x i32>"
        load, umin = f"llvm.masked.load.v{ACROSS}i32.p0", f"llvm.umin.v{n}i16"
        lanes = f"<{ACROSS} x i1>"
        self.declarations[load] = f"declare {words} @{load}(ptr, i32, {lanes}, {words})"
        self.declarations[umin] = f"declare {vt} @{umin}({vt}, {vt})"
        some = b.impure_reg(
            f"call {words} @{load}(ptr {place.regs[0]}, i32 4, {lanes} {mask}, "
            f"{words} zeroinitializer)"
        )
        both = b.impure_reg(f"bitcast {words} {some} to {vt}")
        sizes, ones = (f"<{', '.join([f'i16 {v}'] * n)}>" for v in (0x7FFF, 1))
        size = b.impure_reg(f"and {vt} {both}, {sizes}")
        less = b.impure_reg(f"sub {vt} {size}, {ones}")
        return b.impure(f"call {vt} @{umin}({vt} {least.regs[0]}, {vt} {less})", "i16", n)

    def exponent(self, least: Val) -> Val:
        """The biased exponent of the least magnitude; greater than any where all are zero."""
        b, name, vt = self.b, "llvm.vector.reduce.umin.v32i16", "<32 x i16>"
        self.declarations[name] = f"declare i16 @{name}({vt})"
        bits = b.impure(f"call i16 @{name}({vt} {least.regs[0]})", "i16", 1)
        return (b.cast("zext", bits, "i64") + 1) >> 7

    def write(self) -> None:
        """The loops over rows and panels."""
        b = self.b
        shape, out = b.alloca(64), b.alloca(ACROSS * LINE)
        length = self.arg("len")
        rest = length & (ACROSS - 1)
        whole = length - rest

        def block(r: Val, _: list[Val]) -> list[Val]:
            count = b.call("smin", self.arg("rows") - r, ACROSS)
            self.configure(shape, count, rest)
            left = self.at(self.arg("a"), self.arg("a0"))
            left = self.at(left, (self.arg("r0") + r) * self.arg("s0"))
            b.loop(0, self.arg("cols"), self.panel, [], lambda j, _: panel(r, count, left, j))
            return []

        def panel(r: Val, count: Val, left: Val, j: Val) -> list[Val]:
            number = b.pure("udiv {T} {0}, {1}", (j, b.lit(self.panel, "i64")), "i64")
            right = self.at(self.at(self.arg("b"), self.arg("b0")), number * self.arg("bp"))
            for k in range(self.lines):
                self.unit("tilezero", f"i8 {k}")
            steps = lambda k, _: self.multiply(left, right, k, self.A, self.B)
            b.loop(0, whole, ACROSS, [], steps)
            last = lambda: self.multiply(left, right, whole, self.LAST_A, self.LAST_B)
            b.if_else(rest > 0, last)
            target = self.at(self.at(self.arg("c"), self.arg("c0")), r * self.arg("ldc") + j)
            for k in range(self.lines):
                self.unit("tilestored64", f"i8 {k}", f"ptr {out.regs[0]}", f"i64 {LINE}")
                self.put(out, target, k, count, self.arg("cols") - j)
            return []

        b.loop(0, self.arg("rows"), ACROSS, [], block)
        self.unit("tilerelease")

    def configure(self, shape: Val, count: Val, rest: Val) -> None:
        """The shapes of the registers: bytes of a row from byte 16 on, rows from byte 48 on."""
        b = self.b
        for k in range(0, 64, 8):
            b.store(b.lit(0, "i64"), b.gep(shape, k))
        b.store(b.lit(1, "i8"), shape)
        some = b.select(rest > 0, rest, b.lit(ACROSS, "i64"))
        for k in range(8):
            wide = some * 4 if k == self.LAST_A else b.lit(LINE, "i64")
            rows = {self.B: b.lit(ACROSS, "i64"), self.LAST_B: some}.get(k, count)
            b.store(b.cast("trunc", wide, "i16"), b.gep(shape, 16 + 2 * k))
            b.store(b.cast("trunc", rows, "i8"), b.gep(shape, 48 + k))
        self.unit("ldtilecfg", f"ptr {shape.regs[0]}")

    def multiply(self, left: Val, right: Val, k: Val, a: int, b_: int) -> list[Val]:
        b = self.b
        self.fetch(a, self.at(left, k), self.arg("s0"))
        row = self.at(right, k * self.arg("bs"))
        for n in range(self.lines):
            self.fetch(b_, b.gep(row, n * LINE), self.arg("bs"))
            self.unit(self.product, f"i8 {n}", f"i8 {a}", f"i8 {b_}")
        return []

    def fetch(self, number: int, pointer: Val, stride: Val) -> None:
        step = (stride * 4).regs[0]
        self.unit("tileloadd64", f"i8 {number}", f"ptr {pointer.regs[0]}", f"i64 {step}")

    def put(self, out: Val, target: Val, k: int, count: Val, cols: Val) -> None:
        """A register's rows to C, as far as there are columns."""
        b, n, t = self.b, ACROSS, self.sum
        lanes, vt = f"<{n} x i1>", f"<{n} x {t}>"
        limit = b.cast("trunc", b.call("smin", b.call("smax", cols - k * n, 0), n), "i32")
        mask = (b.lanes_of("i32", n) < limit).regs[0]
        more = self.arg("more").ne(0)
        lane_mask = f"{lanes} {mask}"
        kept = b.select(b.splat(more, n), Val(b, "i1", n, (mask,)), b.lit(False, "i1")).regs[0]
        suffix = f"v{n}{'f32' if t == 'float' else t}.p0"
        loads, stores = f"llvm.masked.load.{suffix}", f"llvm.masked.store.{suffix}"
        self.declarations[loads] = f"declare {vt} @{loads}(ptr, i32, {lanes}, {vt})"
        self.declarations[stores] = f"declare void @{stores}({vt}, ptr, i32, {lanes})"

        def row(i: Val, _: list[Val]) -> list[Val]:
            p = self.at(target, i * self.arg("ldc") + k * n).regs[0]
            old = b.impure(
                f"call {vt} @{loads}(ptr {p}, i32 4, {lanes} {kept}, {vt} zeroinitializer)", t, n
            )
            new = b.impure(f"load {vt}, ptr {self.at(out, i * n).regs[0]}, align 64", t, n)
            b.line(f"call void @{stores}({vt} {(old + new).regs[0]}, ptr {p}, i32 4, {lane_mask})")
            return []

        b.loop(0, count, 1, [], row)


def tile_text(
    target: Target, name: str, brief: bool = False, matrix: bool = False, bytewise: bool = False
) -> str:
    """The module of the tile function of a name; `brief` writes the least code, not the fastest;
    `matrix` says that the processor has matrix registers, `bytewise` that it multiplies bytes."""
    dtype, lines = parse_tile(name)
    if not lines:
        return Turn(target, dtype).text(brief)
    if name.startswith("dots"):
        return dots_text(target, dtype, lines, brief)
    if name.startswith("pack"):
        return Pack(target, dtype, lines).text(brief)
    if matrix and dtype in WORDS.values():
        return _Matrix(target, dtype, lines).text(brief)
    flat = name.startswith("flat")
    bytewise = bytewise and not brief and dtype in ("w8", "z8")
    rows = lines if flat else 0
    return _Tile(target, dtype, 1 if flat else lines, brief, rows, bytewise=bytewise).text(brief)
