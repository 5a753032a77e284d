"""The largest elements of rows, where they are more than a few: found without sorting the rest.

An element is known by its rank, an unsigned integer that orders as results do. Elements are dealt
to columns like cards; the k-th largest of the columns' maxima is exceeded by hardly more than the k
elements that are wanted. What reaches this bound is collected, in the order of places; the k-th
largest rank among that is found bit by bit; and those that stay are sorted. Where most of a row is
wanted, all of it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import RULES, Outs, scalar_convert
from pullback.loops.lower.graph import Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.radix import ordered_bits
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS, FLOATS, SIGNED

__all__ = ["columns_for", "largest_of"]

TIMES = 2  # so many elements to a column at least
DEALT = 4  # columns for each element that is wanted,
SPARED = 2  # or so many where a row is not long enough for more
FEWEST, MOST = 128, 4096  # columns, however few are wanted
LONG = 256  # elements to a column, of which there may be more then
SPARE = 6  # columns that may reach the bound besides half of k more than must
LOOKED_AT = 32  # elements that are looked at together
PARTS = 8  # of a row that is alone, each of
PART = 1 << 14  # so many elements at least

Place = tuple[Index, ...]


def columns_for(n: int, k: int) -> int:
    """How many columns a row is dealt to: a power of two, more where the row is long."""
    few, columns = (max(FEWEST, 1 << (d * k - 1).bit_length()) for d in (SPARED, DEALT))
    if n < 2 * TIMES * columns:
        columns = few
    while columns < MOST and n >= LONG * columns:
        columns *= 2
    return columns


def _selectable(n: int, k: int) -> bool:
    """Whether a row is so much longer than what is wanted of it that a bound pays."""
    return n >= TIMES * columns_for(n, k)


def _kind(dtype: str) -> str:
    return "u64" if dtype != "bool" and BITS[dtype] == 64 else "u32"


def _turned(b: Builder, rank: Atom) -> Atom:
    """The same integer with the other sign."""
    top = Const(1 << (BITS[rank.dtype] - 1), rank.dtype)
    return b.let("xor", (rank, top), rank.dtype)


def rank_of(b: Builder, value: Atom, largest: bool) -> Atom:
    """An unsigned integer that is larger the earlier an element comes."""
    kind = _kind(value.dtype)
    bits = ordered_bits(b, value)
    if bits.dtype in SIGNED:
        wide = scalar_convert(b, bits, f"i{BITS[kind]}")
        rank = _turned(b, b.let("bitcast", (wide,), kind))
    else:
        rank = scalar_convert(b, bits, kind)
    return rank if largest else b.let("not", (rank,), kind)


def value_at(b: Builder, rank: Atom, dtype: str, largest: bool) -> Atom:
    """The element that has such a rank."""
    kind = rank.dtype
    rank = rank if largest else b.let("not", (rank,), kind)
    if dtype == "bool" or dtype not in FLOATS + SIGNED:
        return scalar_convert(b, rank, dtype)
    size = BITS[kind]
    whole = b.let("bitcast", (_turned(b, rank),), f"i{size}")
    if dtype not in FLOATS:
        return scalar_convert(b, whole, dtype)
    sign = b.let("shr_arith", (whole, Const(size - 1, whole.dtype)), whole.dtype)
    flip = b.let("and", (sign, Const((1 << (size - 1)) - 1, whole.dtype)), whole.dtype)
    bits = b.let("xor", (whole, flip), whole.dtype)
    return scalar_convert(b, b.let("bitcast", (bits,), f"f{size}"), dtype)


def largest_of(g: Graph, x: Node, axis: int, k: int, outs: Outs, largest: bool = True) -> Any:
    """The k largest (or least) elements of rows, in order, and their places."""
    n = x.shape[axis]
    chosen = _selected(g, x, axis, k, largest) if _selectable(n, k) else _all(g, x, axis, largest)
    shape = chosen[0].shape
    kinds = [(shape, c.dtype) for c in chosen]
    params = {"dimension": axis, "num_keys": 1, "is_stable": True}
    keys, places = RULES["sort"](g, chosen, kinds, params)
    out, index = outs[0][0], outs[1][1]

    def value(b: Builder, idx: Place) -> Atom:
        key = read(keys, b, idx)
        return value_at(b, b.let("not", (key,), key.dtype), x.dtype, largest)

    def place(b: Builder, idx: Place) -> Atom:
        return scalar_convert(b, read(places, b, idx), index)

    axes = None if shape == out else tuple(range(len(out)))
    return [
        g.pointwise(out, x.dtype, [(keys, axes)], value, 4.0),
        g.pointwise(out, index, [(places, axes)], place, 1.0),
    ]


def _all(g: Graph, x: Node, axis: int, largest: bool) -> list[Node]:
    """Every element's key, which is less the earlier it comes, and its place."""
    kind = _kind(x.dtype)

    def key(b: Builder, idx: Place) -> Atom:
        return rank_of(b, read(x, b, idx), not largest)

    def place(b: Builder, idx: Place) -> Atom:
        return scalar_convert(b, b.atom(idx[axis]), "i32")

    return [
        g.pointwise(x.shape, kind, [(x, None)], key, 4.0),
        g.pointwise(x.shape, "i32", [], place, 1.0),
    ]


def _selected(g: Graph, x: Node, axis: int, k: int, largest: bool) -> list[Node]:
    """The same of the k first elements alone, in the order of their places."""
    n, rows = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
    alone = math.prod(rows) == 1 and not g.repeats
    parts = max(1, min(PARTS, n // PART)) if alone else 1
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])

    def emit(b: Builder, op: Opaque) -> None:
        def one(row: Place) -> None:
            _Selection(b, x, axis, k, largest, parts).row(row, op.outs)

        box(b, rows, one, "seq", range(len(rows)), cost=2.0 * n)

    op = Opaque("largest", [x], ["buffer"], emit=emit, work=2.0 * x.size)
    return g.opaque(op, [(shape, _kind(x.dtype)), (shape, "i32")])


class _Selection:
    """The statements that find the first k elements of a row."""

    def __init__(self, b: Builder, x: Node, axis: int, k: int, largest: bool, parts: int) -> None:
        self.b, self.x, self.axis, self.k, self.largest = b, x, axis, k, largest
        self.n, self.parts, self.kind = x.shape[axis], parts, _kind(x.dtype)
        each = -(-self.n // parts)
        self.each = -(-each // LOOKED_AT) * LOOKED_AT  # the last part may have fewer

    def row(self, row: Place, outs: list[Node]) -> None:
        b = self.b
        bound = self.bound(row)
        self.ranks, self.places = b.scratch(self.kind, self.n), b.scratch("i32", self.n)
        self.counts = b.scratch("i64", self.parts)
        self.in_parts(lambda p: self.collect(row, p, bound))
        last = self.nth(self.count_of)
        self.put(row, outs, last)

    def in_parts(self, body: Callable[[Index], None]) -> None:
        if self.parts == 1:
            body(0)
            return

        def part(p: Index) -> list[Atom]:
            body(p)
            return []

        self.b.loop(self.parts, "parallel", part)

    def rank(self, row: Place, i: Index) -> Atom:
        place = (*row[: self.axis], i, *row[self.axis :])
        return rank_of(self.b, read(self.x, self.b, place), self.largest)

    # ---- the bound

    def bound(self, row: Place) -> Atom:
        """The k-th largest of the columns' maxima: at least k elements reach it."""
        b, columns = self.b, columns_for(self.n, self.k)
        maxima, width = b.scratch(self.kind, columns), columns // self.parts

        def clear(t: Index) -> list[Atom]:
            b.store(maxima, b.atom(t), Const(0, self.kind))
            return []

        def deal(t: Index, first: Index) -> list[Atom]:
            at = b.atom(t)
            with Pinned(b):
                so_far = b.load(maxima, at)
            rank = self.rank(row, b.add(first, t))
            b.store(maxima, at, b.let("max", (so_far, rank), self.kind))
            return []

        def strip(p: Index) -> None:
            def line(r: Index) -> list[Atom]:
                first = b.mul(r, columns)
                b.loop(width, "vector", lambda t: deal(b.add(b.mul(p, width), t), first))
                return []

            b.loop(self.n // columns, "seq", line)

        b.loop(columns, "vector", clear)
        self.in_parts(strip)
        if rest := self.n % columns:
            b.loop(rest, "vector", lambda t: deal(t, self.n - rest))

        def reached(least: Atom) -> Atom:
            def one(t: Index) -> Atom:
                with Pinned(b):
                    return b.let("ge", (b.load(maxima, b.atom(t)), least), "bool")

            return self.counted(columns, one)

        return self.nth(reached, self.k // 2 + SPARE)

    def counted(self, n: int, test: Callable[[Index], Atom], hi: Atom | None = None) -> Atom:
        """How many of n elements, or of those below `hi`, pass a test."""
        b = self.b
        carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "c"))]
        one = lambda t: [b.let("convert", (test(t),), "i32")]
        return b.loop(n, "reduce", one, carry, ("add",), hi=hi)[0]

    def nth(self, reached: Callable[[Atom], Atom], spare: int = 0) -> Atom:
        """The largest rank that at least k elements reach, bit by bit; or a lower one that no more
        than k and some to spare do, as soon as there is one. Each bit waits for the count before:
        the last ones are most often not looked at."""
        b, bits = self.b, BITS[self.kind]
        first = Const(0, self.kind), Const((1 << 31) - 1, "i32")
        carry = [(v, b.var(v.dtype, b.depth + 1, "r")) for v in first]
        least, count = (v for _, v in carry)

        def bit(i: Index) -> list[Atom]:
            def look() -> list[Atom]:
                place = b.let("convert", (b.atom(b.add(bits - 1, b.mul(i, -1))),), self.kind)
                more = b.let("shl", (Const(1, self.kind), place), self.kind)
                larger = b.let("or", (least, more), self.kind)
                found = reached(larger)
                enough = b.let("ge", (found, b.const(self.k, "i32")), "bool")
                return [b.select(enough, larger, least), b.select(enough, found, count)]

            many = b.let("gt", (count, b.const(self.k + spare, "i32")), "bool")
            return b.branch(many, look, lambda: [least, count])

        return b.loop(bits, "seq", bit, carry)[0]

    # ---- what reaches it

    def collect(self, row: Place, p: Index, bound: Atom) -> None:
        """The ranks and places of a part's elements that reach the bound, from its begin on."""
        b = self.b
        low = b.mul(p, self.each)
        count = [(b.atom(low), b.var("i64", b.depth + 1, "c"))]

        def offer(i: Index, at: Atom) -> Atom:
            rank = self.rank(row, i)

            def keep() -> list[Atom]:
                b.store(self.ranks, at, rank)
                b.store(self.places, at, scalar_convert(b, b.atom(i), "i32"))
                return [b.let("add", (at, Const(1, "i64")), "i64")]

            reaches = b.let("ge", (rank, bound), "bool")
            return b.branch(reaches, keep, lambda: [at])[0]

        def offers(first: Index, n: int, at: Atom, hi: Atom | None = None) -> list[Atom]:
            carry = [(at, b.var("i64", b.depth + 1, "c"))]
            step = lambda t: [offer(b.add(first, t), carry[0][1])]
            return list(b.loop(n, "seq", step, carry, hi=hi))

        def block(c: Index) -> list[Atom]:
            first = b.add(low, b.mul(c, LOOKED_AT))
            none = [(Const(False, "bool"), b.var("bool", b.depth + 1, "m"))]
            reaches = lambda t: [b.let("ge", (self.rank(row, b.add(first, t)), bound), "bool")]
            (some,) = b.loop(LOOKED_AT, "reduce", reaches, none, ("or",))
            at = count[0][1]
            return b.branch(some, lambda: offers(first, LOOKED_AT, at), lambda: [at])

        def write(found: Atom) -> None:
            b.store(self.counts, b.atom(p), b.let("sub", (found, b.atom(low)), "i64"))

        whole, rest = self.n // LOOKED_AT, self.n % LOOKED_AT
        most = self.each // LOOKED_AT
        if self.parts == 1:
            (blocks,) = b.loop(whole, "seq", block, count)
            write(offers(self.n - rest, rest, blocks)[0] if rest else blocks)
            return
        mine = b.let("sub", (b.dim(whole), b.atom(b.mul(p, most))), "i64")
        end = b.let("min", (mine, b.dim(most)), "i64")
        found: Atom = b.loop(most, "seq", block, count, hi=end)[0]
        if rest:  # the last part's
            is_last = b.let("lt", (mine, b.dim(most)), "bool")
            found = b.branch(is_last, lambda: offers(self.n - rest, rest, found), lambda: [found])[
                0
            ]
        write(found)

    # ---- what stays

    def found(self, p: Index) -> Atom:
        """How many a part has collected."""
        with Pinned(self.b):
            return self.b.load(self.counts, self.b.atom(p))

    def collected(self, p: Index, t: Index) -> tuple[Atom, Atom]:
        """A rank that a part has collected, and where it lies."""
        b = self.b
        at = b.atom(b.add(b.mul(p, self.each), t))
        with Pinned(b):
            return b.load(self.ranks, at), at

    def count_of(self, least: Atom) -> Atom:
        """How many of those that were collected reach a rank."""
        b = self.b
        if self.parts == 1:
            return self.counted(self.n, self.reaches(0, least), self.found(0))
        carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "c"))]

        def part(p: Index) -> list[Atom]:
            mine = self.counted(self.each, self.reaches(p, least), self.found(p))
            return [b.let("add", (carry[0][1], mine), "i32")]

        return b.loop(self.parts, "seq", part, carry)[0]

    def reaches(self, p: Index, least: Atom) -> Callable[[Index], Atom]:
        return lambda t: self.b.let("ge", (self.collected(p, t)[0], least), "bool")

    def put(self, row: Place, outs: list[Node], last: Atom) -> None:
        """Those above the last rank, and the first of those that have it."""
        b = self.b
        top = Const((1 << BITS[self.kind]) - 1, self.kind)
        next_rank = b.let("add", (last, Const(1, self.kind)), self.kind)
        above = b.select(
            b.let("eq", (last, top), "bool"), Const(0, "i32"), self.count_of(next_rank)
        )
        equal = b.let("sub", (b.const(self.k, "i32"), above), "i32")
        state = [
            (Const(0, "i64"), b.var("i64", b.depth + 1, "o")),
            (equal, b.var("i32", b.depth + 1, "e")),
        ]

        def part(p: Index) -> list[Atom]:
            inner = [(v, b.var(v.dtype, b.depth + 1, "s")) for _, v in state]
            step = lambda t: self.one(row, outs, last, p, t, [v for _, v in inner])
            return list(b.loop(self.each, "seq", step, inner, hi=self.found(p)))

        b.loop(self.parts, "seq", part, state)

    def one(
        self, row: Place, outs: list[Node], last: Atom, p: Index, t: Index, state: list[Atom]
    ) -> list[Atom]:
        b, (at, equal) = self.b, state
        rank, where = self.collected(p, t)
        is_last = b.let("eq", (rank, last), "bool")
        fits = b.let("and", (is_last, b.let("gt", (equal, Const(0, "i32")), "bool")), "bool")
        stays = b.let("or", (b.let("gt", (rank, last), "bool"), fits), "bool")

        def keep() -> list[Atom]:
            with Pinned(b):
                place = b.load(self.places, where)
            spot = b.leaf_of(at, 0, self.k - 1)
            target = (*row[: self.axis], spot, *row[self.axis :])
            for out, value in zip(outs, (b.let("not", (rank,), self.kind), place), strict=True):
                assert out.slot is not None
                store_slot(b, out.slot, out.shape, out.dtype, target, value)
            less = b.let("sub", (equal, b.let("convert", (fits,), "i32")), "i32")
            return [b.let("add", (at, Const(1, "i64")), "i64"), less]

        return b.branch(stays, keep, lambda: [at, equal])
