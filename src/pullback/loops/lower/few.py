"""The largest few elements of long rows.

An element is one word: its rank, in the order of top_k, above the complement of its place, so that
words order as results do and no two are equal.

A bound comes first: elements are dealt to columns like cards, lanes find every column's maximum,
and the k-th largest maximum is exceeded by hardly more than the k elements that are wanted. What
reaches it is collected; the place of each of these in the order is the number of larger ones. A
long row that is alone is cut into parts, each with a bound of its own.

Where more is wanted, or rows are not long enough for a bound, the largest words so far are kept in
order: most elements are below all of them, which is found out for many at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.elementwise import Outs, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.index import Pinned
from pullback.loops.lower.radix import ordered_bits
from pullback.loops.lower.statements import box
from pullback.loops.ops import BITS

__all__ = ["BOUNDED", "scannable", "scanned"]

LOOKED_AT = 64  # elements that are looked at together
BOUNDED = 32  # so many are wanted at most where a bound is found first
SPARSE = 512  # elements to one that is wanted, so that most blocks have none,
GLANCED = 16  # or else so many elements are looked at together,
TOGETHER = 4  # of which so many in an iteration
COUNTED = 64  # so many elements at most are ordered by counting what is larger
PARTS = 8  # of a row that is alone, each of
PART = 1 << 14  # so many elements at least


def scannable(dtype: str) -> bool:
    """Whether an element's rank takes half a word."""
    return dtype not in COMPLEX and (dtype == "bool" or BITS[dtype] <= 32)


def _rank(b: Builder, value: Atom) -> Atom:
    """An i32 that orders as top_k does."""
    if value.dtype == "u32":
        return b.let("xor", (b.let("bitcast", (value,), "i32"), Const(-(1 << 31), "i32")), "i32")
    rank = ordered_bits(b, value)
    return rank if rank.dtype == "i32" else b.let("convert", (rank,), "i32")


LOW = (1 << 32) - 1
LEAST = Const(-(1 << 63), "i64")


class _Kept:
    """The largest words so far, in descending order, after one that is larger than all."""

    def __init__(self, b: Builder, k: int, least: Atom = LEAST) -> None:
        self.b, self.k = b, k
        self.words, self.other = (b.scratch("i64", k + 1) for _ in range(2))

        def clear(t: Index) -> Sequence[Atom]:
            b.store(self.words, b.atom(t), least)
            return ()

        b.loop(k + 1, "vector", clear)
        b.store(self.words, b.dim(0), Const((1 << 63) - 1, "i64"))

    def last(self) -> Atom:
        """What a word must exceed to be kept."""
        with Pinned(self.b):
            return self.b.load(self.words, self.b.dim(self.k))

    def offer(self, word: Atom) -> None:
        b = self.b
        b.branch(b.let("gt", (word, self.last()), "bool"), lambda: self._insert(word), list)

    def _insert(self, word: Atom) -> list[Atom]:
        b = self.b

        def shift(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                here, above = (b.load(self.words, b.atom(b.add(t, d))) for d in (1, 0))
            stays = b.let("ge", (here, word), "bool")
            fits = b.let("ge", (above, word), "bool")
            moved = b.select(stays, here, b.select(fits, word, above))
            b.store(self.other, b.atom(b.add(t, 1)), moved)
            return ()

        def back(t: Index) -> Sequence[Atom]:
            place = b.atom(b.add(t, 1))
            with Pinned(b):
                b.store(self.words, place, b.load(self.other, place))
            return ()

        b.loop(self.k, "vector", shift)
        b.loop(self.k, "vector", back)
        return []


def scanned(g: Graph, x: Node, axis: int, k: int, outs: Outs) -> Any:
    """The k largest elements of rows and their places."""
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    n = x.shape[axis]
    parts = min(PARTS, n // PART) if math.prod(rows) == 1 and not g.repeats else 1

    def emit(b: Builder, op: Opaque) -> None:
        scan = _Scan(b, x, axis, k)
        targets = list(zip(op.outs, (x.dtype, outs[1][1]), strict=True))
        if parts > 1:
            scan.in_parts(tuple(0 for _ in rows), parts, targets)
        else:
            box(b, rows, lambda row: scan.whole(row, targets), "seq", cost=2.0 * n)

    return g.opaque(Opaque("top_k", [x], ["buffer"], emit=emit, work=2.0 * x.size), outs)


Targets = Sequence[tuple[Node, str]]


class _Scan:
    """The statements that find the k largest elements of rows."""

    def __init__(self, b: Builder, x: Node, axis: int, k: int) -> None:
        self.b, self.x, self.axis, self.k, self.n = b, x, axis, k, x.shape[axis]
        self.size = LOOKED_AT if self.n >= SPARSE * k else GLANCED  # of a block

    def whole(self, row: tuple[Index, ...], targets: Targets) -> None:
        b, columns = self.b, self.columns()
        if self.k > BOUNDED or self.n < (columns if self.k > 1 else LOOKED_AT):
            kept = _Kept(b, self.k)
            self.scan(row, kept)
            self.write(row, kept.words, 1, targets)
            return
        bound = self.bound(row, 0, self.n // columns, self.n % columns)
        found = b.scratch("i64", self.n)
        count = self.collect(row, 0, self.n // self.size, bound, found, rest=self.n % self.size)

        def one_by_one() -> list[Atom]:
            kept = _Kept(b, self.k, self.high(bound))
            self.offer_all(row, kept, found, 0, count)
            self.write(row, kept.words, 1, targets)
            return []

        def by_counting() -> list[Atom]:
            self.order(row, found, count, targets)
            return []

        b.branch(b.let("le", (count, Const(COUNTED, "i64")), "bool"), by_counting, one_by_one)

    def columns(self) -> int:
        """What a bound is found among."""
        columns = 16
        while columns < 3 * self.k:
            columns *= 2
        return columns

    def bound(self, row: tuple[Index, ...], low: Index, rows: int, rest: int) -> Atom:
        """The k-th largest rank of the columns' maxima, of so many rows and a rest from `low` on:
        at least k elements are not below it."""
        b, columns = self.b, self.columns()
        least, maxima = Const(-(1 << 31), "i32"), b.scratch("i32", columns)

        def maximum(t: Index) -> Sequence[Atom]:
            carry = [(least, b.var("i32", b.depth + 1, "m"))]

            def element(r: Index) -> list[Atom]:
                rank = self.rank(row, b.add(low, b.add(b.mul(r, columns), t)))
                return [b.let("max", (carry[0][1], rank), "i32")]

            b.store(maxima, b.atom(t), b.loop(rows, "seq", element, carry)[0])
            return ()

        def more(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                so_far = b.load(maxima, b.atom(t))
            rank = self.rank(row, b.add(low, b.add(t, rows * columns)))
            b.store(maxima, b.atom(t), b.let("max", (so_far, rank), "i32"))
            return ()

        b.loop(columns, "vector", maximum)
        if rest:
            b.loop(rest, "vector", more)
        return self.nth(maxima, columns)

    def nth(self, maxima: Buf, count: int) -> Atom:
        """The k-th largest of so many integers: the least that fewer than k exceed."""
        b, found = self.b, self.b.scratch("i32", count)

        def one(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                mine = b.load(maxima, b.atom(t))
            carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "r"))]

            def larger(u: Index) -> list[Atom]:
                with Pinned(b):
                    other = b.load(maxima, b.atom(u))
                more = b.let("convert", (b.let("gt", (other, mine), "bool"),), "i32")
                return [b.let("add", (carry[0][1], more), "i32")]

            above = b.loop(count, "seq", larger, carry)[0]
            few = b.let("lt", (above, Const(self.k, "i32")), "bool")
            b.store(found, b.atom(t), b.select(few, mine, Const((1 << 31) - 1, "i32")))
            return ()

        def least(t: Index) -> list[Atom]:
            with Pinned(b):
                return [b.load(found, b.atom(t))]

        b.loop(count, "vector", one)
        carry = [(Const((1 << 31) - 1, "i32"), b.var("i32", b.depth + 1, "m"))]
        return b.loop(count, "reduce", least, carry, ("min",))[0]

    def collect(
        self,
        row: tuple[Index, ...],
        low: Index,
        blocks: int,
        bound: Atom,
        found: Buf,
        hi: Atom | None = None,
        rest: int = 0,
    ) -> Atom:
        """The places of the elements that reach the bound, of so many blocks (or up to `hi`) and a
        rest from `low` on; they lie in `found` from `low` on. Where they end."""
        b, size = self.b, self.size
        listed = b.scratch("i64", max(1, blocks))
        count = [(Const(0, "i64"), b.var("i64", b.depth + 1, "c"))]

        def glance(c: Index) -> list[Atom]:
            """Notes a block that has any, written over by the next one if it has none."""
            first, at = b.add(low, b.mul(c, size)), count[0][1]
            carry = [(Const(False, "bool"), b.var("bool", b.depth + 1, "m"))]

            def reaches(t: Index) -> list[Atom]:
                return [b.let("ge", (self.rank(row, b.add(first, t)), bound), "bool")]

            (some,) = b.loop(size, "reduce", reaches, carry, ("or",))
            b.store(listed, at, b.atom(first))
            return [b.let("add", (at, b.let("convert", (some,), "i64")), "i64")]

        many = b.loop(blocks, "seq", glance, count, hi=hi)[0]
        end = [(b.atom(low), b.var("i64", b.depth + 1, "c"))]

        def look(j: Index) -> list[Atom]:
            with Pinned(b):
                first = b.load(listed, b.atom(j))
            start = b.leaf_of(first, 0, self.n - size)
            return [self.append(row, start, size, bound, found, end[0][1])]

        at: Atom = b.loop(blocks, "seq", look, end, hi=many)[0]
        return self.append(row, b.add(low, blocks * size), rest, bound, found, at) if rest else at

    def append(
        self, row: tuple[Index, ...], first: Index, n: int, bound: Atom, found: Buf, at: Atom
    ) -> Atom:
        """Those of n elements. Each is written, and the next one over it unless it reaches the
        bound: nothing that a processor would have to guess."""
        b, ranks = self.b, self.b.scratch("i32", n)
        step = math.gcd(n, TOGETHER)
        end = [(at, b.var("i64", b.depth + 1, "c"))]

        def rank(t: Index) -> Sequence[Atom]:
            b.store(ranks, b.atom(t), self.rank(row, b.add(first, t)))
            return ()

        def some(t: Index) -> list[Atom]:
            spot: Atom = end[0][1]
            for k in range(step):
                i = b.add(t, k)
                with Pinned(b):
                    more = b.let("ge", (b.load(ranks, b.atom(i)), bound), "bool")
                b.store(found, spot, b.atom(b.add(first, i)))
                spot = b.let("add", (spot, b.let("convert", (more,), "i64")), "i64")
            return [spot]

        b.loop(n, "vector", rank)
        return b.loop(n, "seq", some, end, step=step)[0]

    def offer_all(
        self, row: tuple[Index, ...], kept: _Kept, found: Buf, low: Index, count: Atom
    ) -> None:
        b = self.b

        def offer(t: Index) -> Sequence[Atom]:
            kept.offer(self.word_of(row, found, b.add(low, t)))
            return ()

        b.loop(self.n, "seq", offer, hi=count)

    def order(self, row: tuple[Index, ...], found: Buf, count: Atom, targets: Targets) -> None:
        """The first k of a few words, each at the place that the number of larger ones says;
        the others behind them, over each other."""
        b = self.b
        places, unordered = (b.scratch("i64", COUNTED) for _ in range(2))
        words = b.scratch("i64", self.k + 1)

        def word(t: Index) -> Sequence[Atom]:
            b.store(unordered, b.atom(t), self.word_of(row, found, t))
            return ()

        def word_at(t: Index) -> Atom:
            with Pinned(b):
                return b.load(unordered, b.atom(t))

        def one(t: Index) -> Sequence[Atom]:
            mine = word_at(t)
            carry = [(Const(0, "i64"), b.var("i64", b.depth + 1, "r"))]

            def larger(u: Index) -> list[Atom]:
                more = b.let("convert", (b.let("gt", (word_at(u), mine), "bool"),), "i64")
                return [b.let("add", (carry[0][1], more), "i64")]

            place = b.loop(self.n, "seq", larger, carry, hi=count)[0]
            b.store(places, b.atom(t), b.let("min", (place, b.dim(self.k)), "i64"))
            return ()

        def move(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                place = b.load(places, b.atom(t))
            b.store(words, place, word_at(t))
            return ()

        b.loop(COUNTED, "vector", word, hi=count)
        b.loop(COUNTED, "vector", one, hi=count)
        b.loop(COUNTED, "seq", move, hi=count)
        self.write(row, words, 0, targets)

    def in_parts(self, row: tuple[Index, ...], parts: int, targets: Targets) -> None:
        """What reaches the bounds of the parts, in parallel; then the largest of that."""
        b, k, columns = self.b, self.k, self.columns()
        blocks = self.n // self.size
        many = -(-blocks // parts)  # the last part may have fewer
        each = many * self.size
        found = b.scratch("i64", self.n)
        counts, bounds = b.scratch("i64", parts), b.scratch("i32", parts)

        def part(p: Index) -> Sequence[Atom]:
            low = b.mul(p, each)
            bound = self.bound(row, low, (self.n - (parts - 1) * each) // columns, 0)
            left = b.let("sub", (b.dim(blocks), b.atom(b.mul(p, many))), "i64")
            hi = b.let("min", (left, b.dim(many)), "i64")
            end = self.collect(row, low, many, bound, found, hi)
            count = b.let("sub", (end, b.atom(low)), "i64")

            def fewer() -> list[Atom]:
                kept = _Kept(b, k, self.high(bound))
                self.offer_all(row, kept, found, low, count)

                def keep(t: Index) -> Sequence[Atom]:
                    with Pinned(b):
                        word = b.load(kept.words, b.atom(b.add(t, 1)))
                    b.store(found, b.atom(b.add(low, t)), self.place_in(word))
                    return ()

                b.loop(k, "vector", keep)
                return [b.dim(k)]

            most = b.let("gt", (count, Const(COUNTED, "i64")), "bool")
            b.store(counts, b.atom(p), b.branch(most, fewer, lambda: [count])[0])
            b.store(bounds, b.atom(p), bound)
            return ()

        b.loop(parts, "parallel", part)
        kept = _Kept(b, k, self.high(self.largest_of(bounds, parts)))

        def merge(p: Index) -> Sequence[Atom]:
            with Pinned(b):
                count = b.load(counts, b.atom(p))
            self.offer_all(row, kept, found, b.mul(p, each), count)
            return ()

        def rest(t: Index) -> Sequence[Atom]:
            i = b.add(t, blocks * self.size)
            kept.offer(self.word(i, self.rank(row, i)))
            return ()

        b.loop(parts, "seq", merge)
        if self.n % self.size:
            b.loop(self.n % self.size, "seq", rest)
        self.write(row, kept.words, 1, targets)

    def largest_of(self, bounds: Buf, parts: int) -> Atom:
        b = self.b
        carry = [(Const(-(1 << 31), "i32"), b.var("i32", b.depth + 1, "m"))]

        def one(p: Index) -> list[Atom]:
            with Pinned(b):
                return [b.let("max", (carry[0][1], b.load(bounds, b.atom(p))), "i32")]

        return b.loop(parts, "seq", one, carry)[0]

    def rank(self, row: tuple[Index, ...], i: Index) -> Atom:
        return _rank(self.b, read(self.x, self.b, (*row[: self.axis], i, *row[self.axis :])))

    def word_of(self, row: tuple[Index, ...], found: Buf, t: Index) -> Atom:
        """The word of element t of those that were found."""
        with Pinned(self.b):
            place = self.b.load(found, self.b.atom(t))
        i = self.b.leaf_of(place, 0, self.n - 1)
        return self.word(i, self.rank(row, i))

    def place_in(self, word: Atom) -> Atom:
        low = self.b.let("and", (word, Const(LOW, "i64")), "i64")
        return self.b.let("xor", (low, Const(LOW, "i64")), "i64")

    def word(self, i: Index, rank: Atom) -> Atom:
        low = self.b.let("xor", (self.b.atom(i), Const(LOW, "i64")), "i64")
        return self.b.let("or", (self.high(rank), low), "i64")

    def high(self, rank: Atom) -> Atom:
        wide = self.b.let("convert", (rank,), "i64")
        return self.b.let("shl", (wide, Const(32, "i64")), "i64")

    def scan(self, row: tuple[Index, ...], kept: _Kept) -> None:
        """Offers all elements, block after block."""
        b = self.b
        blocks = -(-self.n // LOOKED_AT)
        stride = _coprime(blocks)

        def block(c: Index) -> Sequence[Atom]:
            # Not from the first to the last: every element of an ascending row would be kept.
            spot = b.mod(b.mul(c, stride), blocks) if blocks > 2 else c
            lo = b.atom(b.mul(spot, LOOKED_AT))
            hi = b.let("add", (lo, b.dim(LOOKED_AT)), "i64")
            hi = b.let("min", (hi, b.dim(self.n)), "i64")
            carry = [(Const(-(1 << 31), "i32"), b.var("i32", b.depth + 1, "m"))]
            element = lambda i: [self.rank(row, i)]
            (top,) = b.loop(self.n, "reduce", element, carry, ("max",), lo=lo, hi=hi)
            best = b.let("or", (self.high(top), Const(LOW, "i64")), "i64")

            def look() -> list[Atom]:
                def one(i: Index) -> Sequence[Atom]:
                    kept.offer(self.word(i, self.rank(row, i)))
                    return ()

                b.loop(self.n, "seq", one, lo=lo, hi=hi)
                return []

            b.branch(b.let("gt", (best, kept.last()), "bool"), look, list)
            return ()

        b.loop(blocks, "seq", block)

    def write(self, row: tuple[Index, ...], words: Buf, first: int, targets: Targets) -> None:
        """Values and their places, from words in order."""
        b = self.b
        (values, dtype), (places, index) = targets
        assert values.slot is not None and places.slot is not None
        value_slot, place_slot, shape = values.slot, places.slot, values.shape

        def one(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                word = b.load(words, b.atom(b.add(t, first)))
            place = b.leaf_of(self.place_in(word), 0, self.n - 1)
            source = (*row[: self.axis], place, *row[self.axis :])
            target = (*row[: self.axis], t, *row[self.axis :])
            store_slot(b, value_slot, shape, dtype, target, read(self.x, b, source))
            number = scalar_convert(b, b.atom(place), index)
            store_slot(b, place_slot, shape, index, target, number)
            return ()

        b.loop(self.k, "vector", one)


def _coprime(n: int) -> int:
    """A stride through n blocks that meets all of them, near ones far apart in time."""
    return next(s for s in range(max(1, int(0.618 * n)), n + 2) if math.gcd(s, n) == 1)
