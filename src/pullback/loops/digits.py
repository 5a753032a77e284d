"""Stable passes over digits of integers, of which long rows are sorted (loops/lower/radix.py): a
function that kernels call, as they call tile functions (tiles.py), and that is written in the loop
IR. It is compiled once per machine, not again with every kernel that sorts.

`radix_<dtype>` sorts integers by some of their bits, which count as unsigned, `radixes_<dtype>`
those of a row in parts:

    items counts at n parts low high width    the first of 2 n integers in `items`, at 0 or at n;
                                              parts of a row, none of them empty, 256 counts each;
                                              the bits from `low` on, below `high`, so many a pass
    -> where the first one is then

A pass counts how often every digit occurs, which says where the elements of each digit begin, and
moves every element to the next free place of its digit. Each part of a row has counts of its own,
and a pass works on all parts in parallel; the places are those of one part, so that the order is
the same. Digits that all elements share take no pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const, Kernel, Var
from pullback.loops.ops import storage_bytes

__all__ = ["DIGIT", "passes_kernel"]

DIGIT = 8  # bits: as many lines are written at a time as stay in the nearest cache
CELLS = 1 << DIGIT  # counts of a part
TOGETHER = 4  # elements of an iteration
MOST = 1 << 31  # elements of a row, of which there are less
COST = 2e5  # operations of a part, which threads are worth


def _i64(value: int) -> Const:
    return Const(value, "i64")


class _Passes:
    """The statements of the function."""

    def __init__(self, dtype: str, in_parts: bool) -> None:
        self.b, self.dtype, self.several = Builder(), dtype, in_parts
        names = ("at", "n", "parts", "low", "high", "width")
        self.dims = tuple(Var(name, "i64") for name in names)
        self.begin, self.n, self.parts, self.low, self.high, self.width = self.dims
        self.b.levels.update(dict.fromkeys(self.dims, 0))
        self.items = Buf("items", dtype, (self.n,), "inout")
        self.counts = Buf("counts", "i64", (self.parts,), "inout")
        self.result = Buf("result", "i64", (1,), "out")
        self.at: Atom = self.begin

    def op(self, name: str, *args: Atom | int) -> Atom:
        return self.b.let(name, [_i64(a) if isinstance(a, int) else a for a in args], "i64")

    def kernel(self) -> Kernel:
        """The function: its buffers, then its numbers, in order; where the result goes."""
        b = self.b
        size: Atom = self.n
        if self.several:
            most = self.op("sub", self.op("add", self.n, self.parts), 1)
            size = self.op("idiv", most, self.parts)
        bits = self.op("sub", self.high, self.low)
        count = self.op("idiv", self.op("sub", self.op("add", bits, self.width), 1), self.width)
        carry = [(self.begin, b.var("i64", 1, "at"))]

        def one(k: Index) -> list[Atom]:
            self.at = carry[0][1]
            first = self.op("add", self.low, self.op("mul", b.atom(k), self.width))
            return [self.one(first, size)]

        (at,) = b.loop(64, "seq", one, carry, hi=count)
        b.store(self.result, _i64(0), at)
        params = self.items, self.counts, self.result
        attrs = {"cost_per_iteration": COST}
        return Kernel("radix", params, self.dims, (), b.close(), attrs)

    def one(self, first: Atom, size: Atom) -> Atom:
        """A pass over the digit that begins with the bit `first`, in parts of so many elements;
        where the elements are then."""
        b = self.b
        digits = self.op("shl", 1, self.op("min", self.width, self.op("sub", self.high, first)))
        mask = self.op("sub", digits, 1)
        narrow = self.dtype != "i64"
        by = b.let("convert", (first,), "u32") if narrow else first

        def digit(word: Atom) -> Atom:
            word = b.let("bitcast", (word,), "u32") if narrow else word
            found = b.let("shr_logical", (word, by), by.dtype)
            return self.op("and", b.let("convert", (found,), "i64") if narrow else found, mask)

        def spot(p: Atom, word: Atom) -> Atom:
            return self.cell(p, digit(word))

        def count(p: Atom, lo: Atom, hi: Atom) -> None:
            def clear(d: Index) -> Sequence[Atom]:
                b.store(self.counts, self.cell(p, b.atom(d)), _i64(0))
                return ()

            b.loop(CELLS, "vector", clear, hi=digits)
            self.serially(lambda i: self.next(spot(p, self.load(i))), lo, hi)

        line = _i64(64 // storage_bytes(self.dtype))

        def move(p: Atom, lo: Atom, hi: Atom) -> None:
            def element(i: Atom) -> None:
                word = self.load(i)
                target = self.op("add", other, self.next(spot(p, word)))
                b.store(self.items, target, word)
                b.prefetch(self.items, self.op("add", target, line))

            self.serially(element, lo, hi)

        def moved() -> list[Atom]:
            self.starts(digits)
            self.in_parts(move, size)
            return [other]

        self.in_parts(count, size)
        other = self.op("sub", self.n, self.at)
        same = b.let("eq", (self.shared(digit(self.load(_i64(0)))), self.n), "bool")
        (at,) = b.branch(same, lambda: [self.at], moved)
        return at

    def kept(self, buf: Buf, place: Atom) -> Atom:
        """An element, read where it is asked for: what it is changes."""
        b = self.b
        b.region_level, before = b.depth, b.region_level
        found = b.load(buf, place)
        b.region_level = before
        return found

    def cell(self, part: Atom, digit: Atom) -> Atom:
        """The place of a count."""
        return self.op("add", self.op("mul", part, CELLS), digit)

    def load(self, i: Atom) -> Atom:
        return self.kept(self.items, self.op("add", self.at, i))

    def next(self, where: Atom) -> Atom:
        """A count, which is one more from now on. (An update would make the parts wait in turn.)"""
        count = self.kept(self.counts, where)
        self.b.store(self.counts, where, self.op("add", count, 1))
        return count

    def serially(self, body: Callable[[Atom], Any], lo: Atom, hi: Atom) -> None:
        """One after the other, some of them in one iteration."""
        b = self.b
        whole = self.op("and", self.op("sub", hi, lo), -TOGETHER)
        middle = self.op("add", lo, whole)

        def some(i: Index) -> Sequence[Atom]:
            for k in range(TOGETHER):
                body(b.atom(b.add(i, k)))
            return ()

        def one(i: Index) -> Sequence[Atom]:
            body(b.atom(i))
            return ()

        b.loop(MOST, "seq", some, lo=lo, hi=middle, step=TOGETHER)
        b.loop(MOST, "seq", one, lo=middle, hi=hi)

    def in_parts(self, body: Callable[[Atom, Atom, Atom], None], size: Atom) -> None:
        """For all elements, part by part: its number, where it begins and ends."""
        if not self.several:
            body(_i64(0), _i64(0), self.n)
            return

        def part(k: Index) -> Sequence[Atom]:
            p = self.b.atom(k)
            lo = self.op("mul", p, size)
            body(p, lo, self.op("min", self.op("add", lo, size), self.n))
            return ()

        self.b.loop(MOST, "parallel", part, hi=self.parts)

    def shared(self, digit: Atom) -> Atom:
        """How many elements have a digit."""
        b = self.b
        carry = [(_i64(0), b.var("i64", b.depth + 1, "c"))]

        def part(p: Index) -> list[Atom]:
            count = self.kept(self.counts, self.cell(b.atom(p), digit))
            return [self.op("add", carry[0][1], count)]

        if not self.several:
            return self.kept(self.counts, digit)
        return b.loop(MOST, "seq", part, carry, hi=self.parts)[0]

    def starts(self, digits: Atom) -> None:
        """Counts become the places of the first element of each digit in each part."""
        b = self.b
        so_far: list[tuple[Atom, Var]] = [(_i64(0), b.var("i64", b.depth + 1, "s"))]

        def digit(d: Index) -> list[Atom]:
            carry: list[tuple[Atom, Var]] = [(so_far[0][1], b.var("i64", b.depth + 1, "s"))]

            def part(p: Index) -> list[Atom]:
                place = self.cell(b.atom(p), b.atom(d))
                count = self.kept(self.counts, place)
                b.store(self.counts, place, carry[0][1])
                return [self.op("add", carry[0][1], count)]

            if not self.several:
                carry = so_far
                return part(0)
            return list(b.loop(MOST, "seq", part, carry, hi=self.parts))

        b.loop(CELLS, "seq", digit, so_far, hi=digits)


def passes_kernel(dtype: str, in_parts: bool) -> Kernel:
    """The function for integers of a type, for rows in several parts or in one: items, counts,
    where the result goes; then the numbers above, in order."""
    return _Passes(dtype, in_parts).kernel()
