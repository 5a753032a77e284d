"""Sorting inside kernels.

A few short rows are sorted by counting: an element's place is the number of elements before it.
Quadratic, but lanes count for many elements at once. Many short rows take a network (network.py),
bytes the counts of their values (counting.py), longer rows passes over digits (radix.py); many rows
of some hundreds outside of loops, and complex keys, a host step. The largest few of a long row are
found by one pass over it, more of them by largest.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.counting import countable, sort_by_counts
from pullback.loops.lower.elementwise import Outs, rule, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read, store_slot
from pullback.loops.lower.index import Pinned
from pullback.loops.lower.largest import largest_of, selectable
from pullback.loops.lower.network import comparisons, sort_lanes, suits
from pullback.loops.lower.radix import ordered_bits, signed_key, sort_rows
from pullback.loops.lower.statements import box
from pullback.loops.ops import BITS

SHORT = 64  # rows up to here are counted
ALONE = 1 << 11  # elements of one operand: of more, in rows up to
VECTORS = 1 << 10  # so many elements, NumPy's sort in vectors takes less
AS_INTEGERS = 16  # elements of a row whose keys become integers first
FEW = 1 << 15  # comparisons that take no longer than calling Python
INSIDE = 128  # inside a loop, where a row that is alone is as quickly counted as moved by digits
SCANNED = 32  # rows longer than this are scanned for their largest elements,
KEPT = 128  # if so many are wanted at most
LOOKED_AT = 64  # elements that are looked at together
NETWORK, SEVERAL = 128, 16  # many rows up to here are sorted whole where several are wanted
BOUNDED = 32  # so many are wanted at most where a bound is found first,
TIMES = 4  # in rows so many times longer than what the bound is found among,
GLANCED = 16  # and then so many elements are looked at together
PARTS = 8  # of a row that is alone, each of
PART = 1 << 14  # so many elements at least


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
    few = k <= BOUNDED or not selectable(n, k)
    if SCANNED < n and k <= min(KEPT, n) and scannable(x.dtype) and few:
        return _scanned(g, x, axis, k, outs)
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


# --- the largest few of long rows ---
#
# An element is one word: its rank, in the order of top_k, above the complement of its place, so
# that words order as results do and no two are equal. The largest words so far are kept in order.
# Most elements are below all of them, which is found out for many at once.
#
# In a row of some hundreds a block would often have one that is larger than those so far. There a
# bound comes first: elements are dealt to columns like cards, lanes find every column's maximum,
# and the k-th largest maximum is exceeded by hardly more than the k elements that are wanted.


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


def _scanned(g: Graph, x: Node, axis: int, k: int, outs: Outs) -> Any:
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

    def whole(self, row: tuple[Index, ...], targets: Targets) -> None:
        columns = 16
        while columns < 3 * self.k:
            columns *= 2
        if self.k <= BOUNDED and self.n >= TIMES * columns:
            kept = _Kept(self.b, self.k, self.high(self.bound(row, columns)))
            self.glance(row, kept)
        else:
            kept = _Kept(self.b, self.k)
            self.scan(row, 0, self.n, kept)
        self.write(row, kept, targets)

    def bound(self, row: tuple[Index, ...], columns: int) -> Atom:
        """The k-th largest rank of the columns' maxima: at least k elements are not below it."""
        b, rows = self.b, self.n // columns
        least, maxima = Const(-(1 << 31), "i32"), b.scratch("i32", columns)

        def maximum(t: Index) -> Sequence[Atom]:
            carry = [(least, b.var("i32", b.depth + 1, "m"))]

            def element(r: Index) -> list[Atom]:
                rank = self.rank(row, b.add(b.mul(r, columns), t))
                return [b.let("max", (carry[0][1], rank), "i32")]

            b.store(maxima, b.atom(t), b.loop(rows, "seq", element, carry)[0])
            return ()

        def rest(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                so_far = b.load(maxima, b.atom(t))
            rank = self.rank(row, b.add(t, rows * columns))
            b.store(maxima, b.atom(t), b.let("max", (so_far, rank), "i32"))
            return ()

        b.loop(columns, "vector", maximum)
        if self.n % columns:
            b.loop(self.n % columns, "vector", rest)
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

    def glance(self, row: tuple[Index, ...], kept: _Kept) -> None:
        """Offers all elements, most of which are below what is kept already."""
        b, last = self.b, self.n - self.n % GLANCED

        def offer(i: Index) -> Sequence[Atom]:
            kept.offer(self.word(row, i))
            return ()

        def block(c: Index) -> Sequence[Atom]:
            start = b.mul(c, GLANCED)
            enough = b.let("shr_arith", (kept.last(), Const(32, "i64")), "i64")
            bound = b.let("convert", (enough,), "i32")
            carry = [(Const(False, "bool"), b.var("bool", b.depth + 1, "m"))]

            def reaches(t: Index) -> list[Atom]:
                return [b.let("ge", (self.rank(row, b.add(start, t)), bound), "bool")]

            (some,) = b.loop(GLANCED, "reduce", reaches, carry, ("or",))

            def look() -> list[Atom]:
                b.loop(GLANCED, "seq", lambda t: offer(b.add(start, t)))
                return []

            b.branch(some, look, list)
            return ()

        b.loop(last // GLANCED, "seq", block)
        if self.n > last:
            b.loop(self.n - last, "seq", lambda t: offer(b.add(t, last)))

    def in_parts(self, row: tuple[Index, ...], parts: int, targets: Targets) -> None:
        """The largest of each part, in parallel, then the largest of those."""
        b, k, each = self.b, self.k, -(-self.n // parts)
        found = b.scratch("i64", parts * k)

        def part(p: Index) -> Sequence[Atom]:
            kept = _Kept(b, k)
            self.scan(row, b.mul(p, each), each, kept)

            def keep(t: Index) -> Sequence[Atom]:
                with Pinned(b):
                    word = b.load(kept.words, b.atom(b.add(t, 1)))
                b.store(found, b.atom(b.add(b.mul(p, k), t)), word)
                return ()

            b.loop(k, "vector", keep)
            return ()

        b.loop(parts, "parallel", part)
        kept = _Kept(b, k)

        def merge(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                kept.offer(b.load(found, b.atom(i)))
            return ()

        b.loop(parts * k, "seq", merge)
        self.write(row, kept, targets)

    def rank(self, row: tuple[Index, ...], i: Index) -> Atom:
        return _rank(self.b, read(self.x, self.b, (*row[: self.axis], i, *row[self.axis :])))

    def word(self, row: tuple[Index, ...], i: Index) -> Atom:
        low = self.b.let("xor", (self.b.atom(i), Const(LOW, "i64")), "i64")
        return self.b.let("or", (self.high(self.rank(row, i)), low), "i64")

    def high(self, rank: Atom) -> Atom:
        wide = self.b.let("convert", (rank,), "i64")
        return self.b.let("shl", (wide, Const(32, "i64")), "i64")

    def scan(self, row: tuple[Index, ...], low: Index, count: int, kept: _Kept) -> None:
        """Offers `count` elements from `low` on, block after block."""
        b = self.b
        blocks = -(-count // LOOKED_AT)
        stride = _coprime(blocks)

        def block(c: Index) -> Sequence[Atom]:
            # Not from the first to the last: every element of an ascending row would be kept.
            spot = b.mod(b.mul(c, stride), blocks) if blocks > 2 else c
            lo = b.atom(b.add(low, b.mul(spot, LOOKED_AT)))
            hi = b.let("add", (lo, b.dim(LOOKED_AT)), "i64")
            for end in (b.atom(b.add(low, count)), b.dim(self.n)):
                hi = b.let("min", (hi, end), "i64")
            carry = [(Const(-(1 << 31), "i32"), b.var("i32", b.depth + 1, "m"))]
            element = lambda i: [self.rank(row, i)]
            (top,) = b.loop(self.n, "reduce", element, carry, ("max",), lo=lo, hi=hi)
            best = b.let("or", (self.high(top), Const(LOW, "i64")), "i64")

            def look() -> list[Atom]:
                def one(i: Index) -> Sequence[Atom]:
                    kept.offer(self.word(row, i))
                    return ()

                b.loop(self.n, "seq", one, lo=lo, hi=hi)
                return []

            b.branch(b.let("gt", (best, kept.last()), "bool"), look, list)
            return ()

        b.loop(blocks, "seq", block)

    def write(self, row: tuple[Index, ...], kept: _Kept, targets: Targets) -> None:
        """Values and their places, from the words."""
        b = self.b

        def one(t: Index) -> Sequence[Atom]:
            with Pinned(b):
                word = b.load(kept.words, b.atom(b.add(t, 1)))
            low = b.let("and", (word, Const(LOW, "i64")), "i64")
            place = b.leaf_of(b.let("xor", (low, Const(LOW, "i64")), "i64"), 0, self.n - 1)
            source = (*row[: self.axis], place, *row[self.axis :])
            target = (*row[: self.axis], t, *row[self.axis :])
            (values, dtype), (places, index) = targets
            assert values.slot is not None and places.slot is not None
            shape = values.shape
            store_slot(b, values.slot, shape, dtype, target, read(self.x, b, source))
            store_slot(
                b, places.slot, shape, index, target, scalar_convert(b, b.atom(place), index)
            )
            return ()

        b.loop(self.k, "vector", one)


def _coprime(n: int) -> int:
    """A stride through n blocks that meets all of them, near ones far apart in time."""
    return next(s for s in range(max(1, int(0.618 * n)), n + 2) if math.gcd(s, n) == 1)
