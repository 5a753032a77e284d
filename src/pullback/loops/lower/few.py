"""The largest few elements of long rows.

An element is one word: its rank, in the order of top_k, above the complement of its place, so that
words order as results do and no two are equal.

A bound comes first: elements are dealt to columns like cards, lanes find every column's maximum,
and the k-th largest maximum is exceeded by hardly more than the k elements that are wanted. What
reaches it is collected, of equal ones no more than k; the place of each of these in the order is
the number of larger ones. A long row that is alone is cut into parts, each with a bound of its own.

Where rows are not long enough for a bound, the largest words so far are kept in order: most
elements are below all of them, which is found out for many at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index, i64
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.elementwise import Outs, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.radix import ordered_bits
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS

__all__ = ["BOUNDED", "scannable", "scanned"]

LOOKED_AT = 64  # elements that are looked at together
BOUNDED = 32  # so many are wanted at most: of more, sorting what is left takes less
SPARSE = 512  # elements to one that is wanted, so that most blocks have none,
GLANCED = 16  # or else so many elements are looked at together,
TOGETHER = 4  # of which so many in an iteration
COUNTED = 64  # so many words at a time are ordered by counting what is larger,
LANES = 8  # for so many of them side by side
PARTS = 8  # of a row that is alone, each of
PART = 1 << 16  # so many elements at least
READ = 2e-10  # seconds an element, measured for 5 to 10 wanted of rows of a hundred to a million


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
LEAST, NONE = Const(-(1 << 63), "i64"), i64(0)


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
        elif math.prod(rows) == 1:  # in a loop of its own, or threads would share its columns

            def alone(_: Index) -> Sequence[Atom]:
                scan.whole(tuple(0 for _ in rows), targets)
                return ()

            b.loop(1, "seq", alone, hi=i64(1))
        else:
            box(b, rows, lambda row: scan.whole(row, targets), "seq", cost=2.0 * n)

    op = Opaque("top_k", [x], ["buffer"], emit=emit, work=2.0 * x.size, seconds=READ * x.size)
    return g.opaque(op, outs)


Targets = Sequence[tuple[Node, str]]


class _Scan:
    """The statements that find the k largest elements of rows."""

    def __init__(self, b: Builder, x: Node, axis: int, k: int) -> None:
        self.b, self.x, self.axis, self.k, self.n = b, x, axis, k, x.shape[axis]
        self.size = LOOKED_AT if self.n >= SPARSE * k else GLANCED  # of a block
        self.blocks = -(-self.n // self.size)
        # Loops over these are whole vectors, with no code for what is left, and their scratch is on
        # the stack.
        b.literal |= {self.size, self.columns(), COUNTED, COUNTED - k, k + 1}

    def whole(self, row: tuple[Index, ...], targets: Targets) -> None:
        if self.n < max(self.columns(), self.size):
            kept = _Kept(self.b, self.k)
            self.scan(row, kept)
            self.write(row, kept.words, 1, targets)
            return
        self.room()
        end = self.collect(row, 0, self.bound(row, 0, self.n), self.blocks)
        self.take(0, end, NONE)
        self.write(row, self.words, 0, targets)

    def in_parts(self, row: tuple[Index, ...], parts: int, targets: Targets) -> None:
        """What reaches the bounds of the parts, in parallel; then the largest of that."""
        b, blocks = self.b, self.blocks
        many = -(-blocks // parts)  # the last part may have fewer
        each = many * self.size
        self.room()
        ends = b.scratch("i64", parts)

        def part(p: Index) -> Sequence[Atom]:
            low = b.mul(p, each)
            bound = self.bound(row, low, self.n - (parts - 1) * each)
            left = b.let("sub", (b.dim(blocks), b.atom(b.mul(p, many))), "i64")
            hi = b.let("min", (left, b.dim(many)), "i64")
            b.store(ends, b.atom(p), self.collect(row, low, bound, many, hi))
            return ()

        have = [(NONE, b.var("i64", b.depth + 1, "h"))]

        def merge(p: Index) -> list[Atom]:
            with Pinned(b):
                end = b.load(ends, b.atom(p))
            return [self.take(b.mul(p, each), end, have[0][1])]

        b.loop(parts, "parallel", part)
        b.loop(parts, "seq", merge, have)
        self.write(row, self.words, 0, targets)

    def room(self) -> None:
        """For the words that reach the bound, and for the first k of them in order."""
        b = self.b
        self.found = b.scratch("i64", self.n + LANES)
        self.words, self.places = b.scratch("i64", self.k + 1), b.scratch("i64", COUNTED)

    def columns(self) -> int:
        """What a bound is found among."""
        columns = 16
        while columns < 3 * self.k:
            columns *= 2
        return columns

    def bound(self, row: tuple[Index, ...], low: Index, n: int) -> Atom:
        """The k-th largest rank of the columns' maxima, of whole rows of them among n elements from
        `low` on: at least k elements are not below it."""
        b, columns = self.b, self.columns()
        least, maxima = Const(-(1 << 31), "i32"), b.scratch("i32", columns)

        def maximum(t: Index) -> Sequence[Atom]:
            carry = [(least, b.var("i32", b.depth + 1, "m"))]

            def element(r: Index) -> list[Atom]:
                rank = self.rank(row, b.add(low, b.add(b.mul(r, columns), t)))
                return [b.let("max", (carry[0][1], rank), "i32")]

            b.store(maxima, b.atom(t), b.loop(n // columns, "seq", element, carry)[0])
            return ()

        b.loop(columns, "vector", maximum)
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
        self, row: tuple[Index, ...], low: Index, bound: Atom, blocks: int, hi: Atom | None = None
    ) -> Atom:
        """The words that reach the bound, in the order of their places, of so many blocks (or up to
        `hi`) from `low` on; they lie in `found` from `low` on. Where they end."""
        b, size = self.b, self.size
        listed, lifted = b.scratch("i64", blocks), self.lifted(bound)
        count = [(NONE, b.var("i64", b.depth + 1, "c"))]

        def glance(c: Index) -> list[Atom]:
            """Notes a block that has any, written over by the next one if it has none. Behind k of
            them no equal one is wanted."""
            start, at = b.atom(b.add(low, b.mul(c, size))), count[0][1]
            first, least = self.first(start), b.select(self.enough(at), lifted, bound)
            carry = [(Const(False, "bool"), b.var("bool", b.depth + 1, "m"))]

            def reaches(t: Index) -> list[Atom]:
                return [b.let("ge", (self.rank(row, b.add(first, t)), least), "bool")]

            (some,) = b.loop(size, "reduce", reaches, carry, ("or",))
            b.store(listed, at, start)
            return [b.let("add", (at, b.let("convert", (some,), "i64")), "i64")]

        many = b.loop(blocks, "seq", glance, count, hi=hi)[0]
        end = [(b.atom(low), b.var("i64", b.depth + 1, "c"))]
        equal = self.high(bound)
        above = b.let("or", (equal, Const(LOW, "i64")), "i64")

        def look(j: Index) -> list[Atom]:
            with Pinned(b):
                start = b.load(listed, b.atom(j))
            at = end[0][1]
            so_far = b.let("sub", (at, b.atom(low)), "i64")
            return [self.append(row, start, b.select(self.enough(so_far), above, equal), at)]

        return b.loop(blocks, "seq", look, end, hi=many)[0]

    def first(self, start: Atom) -> Index:
        """Where a block is read: the last one ends with the row, and begins in the one before."""
        last = self.n - self.size
        if self.n % self.size:
            start = self.b.let("min", (start, self.b.dim(last)), "i64")
        return self.b.leaf_of(start, 0, last)

    def enough(self, count: Atom) -> Atom:
        return self.b.let("ge", (count, self.b.dim(self.k)), "bool")

    def lifted(self, bound: Atom) -> Atom:
        """What exceeds a rank; the largest rank itself."""
        more = self.b.let("add", (bound, Const(1, "i32")), "i32")
        return self.b.let("max", (bound, more), "i32")

    def append(self, row: tuple[Index, ...], start: Atom, bound: Atom, at: Atom) -> Atom:
        """The words of a block that exceed one. Each is written, and the next one over it unless it
        does: nothing that a processor would have to guess."""
        b, size, words = self.b, self.size, self.b.scratch("i64", self.size)
        first = self.first(start)
        end = [(at, b.var("i64", b.depth + 1, "c"))]

        def word(t: Index) -> Sequence[Atom]:
            i = b.add(first, t)
            mine = self.word(i, self.rank(row, i))
            if self.n % size:
                mine = b.select(b.let("lt", (b.atom(i), start), "bool"), LEAST, mine)
            b.store(words, b.atom(t), mine)
            return ()

        def some(t: Index) -> list[Atom]:
            spot: Atom = end[0][1]
            for k in range(TOGETHER):
                with Pinned(b):
                    mine = b.load(words, b.atom(b.add(t, k)))
                b.store(self.found, spot, mine)
                more = b.let("convert", (b.let("gt", (mine, bound), "bool"),), "i64")
                spot = b.let("add", (spot, more), "i64")
            return [spot]

        b.loop(size, "vector", word)
        return b.loop(size, "seq", some, end, step=TOGETHER)[0]

    def take(self, low: Index, end: Atom, have: Atom) -> Atom:
        """The first k of what was found from `low` to `end` and of `have` words that were in order
        before; how many these are. Some are ordered at a time, those in order lie before them."""
        b, k = self.b, self.k
        room = COUNTED - k
        kept = [(have, b.var("i64", b.depth + 1, "h"))]

        def some(s: Index) -> list[Atom]:
            had = kept[0][1]
            first = b.let("sub", (b.atom(s), had), "i64")
            last = b.let("min", (end, b.atom(b.add(s, room))), "i64")

            def before(t: Index) -> Sequence[Atom]:
                with Pinned(b):
                    word = b.load(self.words, b.atom(t))
                b.store(self.found, b.let("add", (first, b.atom(t)), "i64"), word)
                return ()

            b.loop(k, "seq", before, hi=had)
            self.order(first, b.let("sub", (last, first), "i64"))
            return [b.dim(k)]

        return b.loop(self.n, "seq", some, kept, lo=b.atom(low), hi=end, step=room)[0]

    def order(self, first: Atom, count: Atom) -> None:
        """The first k of a few words, each at the place that the number of larger ones says;
        the others behind them, over each other."""
        b, places = self.b, self.places

        def word_at(t: Index) -> Atom:
            with Pinned(b):
                return b.load(self.found, b.let("add", (first, b.atom(t)), "i64"))

        def one(t: Index) -> Sequence[Atom]:
            mine = word_at(t)
            carry = [(NONE, b.var("i64", b.depth + 1, "r"))]

            def larger(u: Index) -> list[Atom]:
                more = b.let("convert", (b.let("gt", (word_at(u), mine), "bool"),), "i64")
                return [b.let("add", (carry[0][1], more), "i64")]

            place = b.loop(COUNTED, "seq", larger, carry, hi=count)[0]
            b.store(places, b.atom(t), b.let("min", (place, b.dim(self.k)), "i64"))
            return ()

        def vector(s: Index) -> Sequence[Atom]:
            b.loop(LANES, "vector", lambda t: one(b.add(s, t)))
            return ()

        def move(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                place = b.load(places, b.atom(t))
            b.store(self.words, place, word_at(t))
            return ()

        b.loop(COUNTED, "seq", vector, hi=count, step=LANES)
        b.loop(COUNTED, "seq", move, hi=count)

    def rank(self, row: tuple[Index, ...], i: Index) -> Atom:
        return _rank(self.b, read(self.x, self.b, (*row[: self.axis], i, *row[self.axis :])))

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

        b.loop(self.k, "seq", one)


def _coprime(n: int) -> int:
    """A stride through n blocks that meets all of them, near ones far apart in time."""
    return next(s for s in range(max(1, int(0.618 * n)), n + 2) if math.gcd(s, n) == 1)
