"""Many short rows are sorted side by side, a row to a lane, by a network of comparisons.

Batcher's merge exchange compares the same places of every row, whatever the rows hold: minima and
maxima of whole vectors, and no branch that depends on data. A tile of rows lies turned in a core's
nearest cache, so that neighbouring lanes are neighbours in memory.

One operand is sorted by itself, several by words: a key above the element's number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.graph import Node, Opaque, read
from pullback.loops.lower.radix import LOW, Row, key_bits, signed_key, value_of
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS, FLOATS, storage_bytes
from pullback.loops.schedule import PARALLEL_WORK

__all__ = ["sort_lanes", "suits"]

LONGEST = 256  # elements of a row; of longer ones, passes over digits take less
LONGEST_ALONE = 64  # of one operand: NumPy's sort in vectors takes longer rows as quickly,
SORTED_IN_VECTORS = frozenset("i16 u16 i32 u32 f32 i64 u64 f64".split())  # of these
ROWS = 16  # at least
TILE = 256  # bytes of the rows of a tile at one place


def suits(ins: Sequence[Node], axis: int, num_keys: int, inside: bool) -> bool:
    """Whether rows are short, many, and sorted by one key that leaves room for a number. `inside`
    a loop, where nothing else is quick, they may be longer."""
    n, x = ins[0].shape[axis], ins[0]
    if x.size < ROWS * n:
        return False
    if len(ins) == 1:
        return n <= (LONGEST_ALONE if x.dtype in SORTED_IN_VECTORS and not inside else LONGEST)
    return n <= LONGEST and num_keys == 1 and key_bits(x.dtype)[1] <= 32


def comparisons(n: int) -> int:
    """About how many there are to a row."""
    levels = (n - 1).bit_length()
    return n * levels * (levels + 1) // 4


def sort_lanes(b: Builder, op: Opaque, axis: int) -> None:
    """The statements of a sort of many short rows."""
    x = op.ins[0]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    work = 2.0 * comparisons(x.shape[axis]) * x.size / x.shape[axis]
    parallel = work / 8 > PARALLEL_WORK
    inner = math.prod(after)
    if math.prod(before) > 1 and inner >= ROWS:  # tiles of neighbours
        many = math.prod(before) >= 4

        def outer(o: Index) -> Sequence[Atom]:
            at = b.unravel(o, before)
            _Tiles(b, op, axis, inner, lambda r: (*at, *b.unravel(r, after))).sort(
                parallel and not many
            )
            return ()

        b.loop(math.prod(before), "parallel" if parallel and many else "seq", outer)
        return
    rows = (*before, *after)
    _Tiles(b, op, axis, math.prod(rows), lambda r: b.unravel(r, rows)).sort(parallel)


class _Tiles:
    """The statements that sort `count` rows, tile by tile."""

    def __init__(self, b: Builder, op: Opaque, axis: int, count: int, row: Any) -> None:
        self.b, self.op, self.count, self.row = b, op, count, row
        self.x, self.n = op.ins[0], op.ins[0].shape[axis]
        self.one = Row(b, op.ins, axis, 1)
        self.alone = len(op.ins) == 1
        wide = not self.alone or key_bits(self.x.dtype)[1] == 64
        self.dtype = "i64" if wide else "i32"
        self.width = TILE // storage_bytes(self.dtype)

    def sort(self, parallel: bool) -> None:
        b, tiles = self.b, -(-self.count // self.width)

        def tile(t: Index) -> Sequence[Atom]:
            first = b.mul(t, self.width)
            left = b.let("sub", (b.dim(self.count), b.atom(first)), "i64")
            self.tile(first, b.let("min", (left, b.dim(self.width)), "i64"))
            return ()

        b.loop(tiles, "parallel" if parallel and tiles > 1 else "seq", tile)

    def tile(self, first: Index, rows: Atom) -> None:
        b = self.b
        self.words = b.scratch(self.dtype, self.n * self.width)
        carry = [(Const(False, "bool"), b.var("bool", b.depth + 1, "m"))]
        careful = self.alone and self.x.dtype in FLOATS

        def fill(i: Index) -> list[Atom]:
            inner = [(carry[0][1], b.var("bool", b.depth + 1, "m"))] if careful else []

            def lane(r: Index) -> list[Atom]:
                value = read(self.x, b, self.one.place(self.row(self.at(first, r)), i))
                b.store(self.words, self.spot(i, r), self.word(value, i))
                return [self.odd(value)] if careful else []

            kind, how = ("reduce", ("or",)) if careful else ("vector", None)
            return list(b.loop(self.width, kind, lane, inner, how, hi=rows))

        some = b.loop(self.n, "seq", fill, carry if careful else ())
        self.network()
        for k in range(len(self.op.outs)):

            def empty(i: Index, k: int = k) -> Sequence[Atom]:
                return self.empty(i, first, rows, k)

            b.loop(self.n, "seq", empty)
        if careful:

            def again() -> list[Atom]:
                def row(r: Index) -> Sequence[Atom]:
                    self.one.equals(self.row(self.at(first, r)), self.op.outs[0])
                    return ()

                b.loop(self.width, "seq", row, hi=rows)
                return []

            b.branch(some[0], again, list)

    def at(self, first: Index, r: Index) -> Index:
        """The row of a lane."""
        b = self.b
        return b.leaf_of(b.atom(b.add(first, r)), 0, self.count - 1)

    def spot(self, i: Index, r: Index) -> Atom:
        return self.b.atom(self.b.add(self.b.mul(i, self.width), r))

    def word(self, value: Atom, i: Index) -> Atom:
        b = self.b
        key = signed_key(b, value)
        if self.alone:
            return key
        upper = b.let("shl", (b.let("convert", (key,), "i64"), Const(32, "i64")), "i64")
        return b.let("or", (upper, b.atom(i)), "i64")

    def odd(self, value: Atom) -> Atom:
        """Whether a number is equal to others that are not the same: -0.0 or NaN."""
        b = self.b
        wide = value if value.dtype in ("f32", "f64") else b.let("convert", (value,), "f32")
        kind = f"i{BITS[wide.dtype]}"
        lowest = Const(-(1 << (BITS[kind] - 1)), kind)
        minus = b.let("eq", (b.let("bitcast", (wide,), kind), lowest), "bool")
        return b.let("or", (minus, b.let("ne", (wide, wide), "bool")), "bool")

    def empty(self, i: Index, first: Index, rows: Atom, k: int) -> Sequence[Atom]:
        """The elements at one place of the rows, from the tile."""
        b, out = self.b, self.op.outs[k]

        def lane(r: Index) -> Sequence[Atom]:
            row = self.row(self.at(first, r))
            with Pinned(b):
                word = b.load(self.words, self.spot(i, r))
            if self.alone:
                value = value_of(b, word, out.dtype)
            else:
                number = b.let("and", (word, Const(LOW, "i64")), "i64")
                place = self.one.place(row, b.leaf_of(number, 0, self.n - 1))
                value = read(self.op.ins[k], b, place)
            self.one.put(out, self.one.place(row, i), value)
            return ()

        b.loop(self.width, "vector", lane, hi=rows)
        return ()

    def network(self) -> None:
        """Stage after stage: places that are `near` apart, in blocks of twice `far`."""
        b, n = self.b, self.n
        one = Const(1, "i64")

        def stage(s: Index, t: Index) -> None:
            far = b.let("shl", (one, b.atom(s)), "i64")
            near = b.let("shr_logical", (far, b.atom(t)), "i64")
            block = b.let("neg", (b.let("add", (far, far), "i64"),), "i64")
            merging = b.let("gt", (b.atom(t), Const(0, "i64")), "bool")

            def place(i: Index) -> Sequence[Atom]:
                here = b.atom(i)
                there = b.let("add", (here, near), "i64")
                none = Const(0, "i64")
                upper = b.let("ne", (b.let("and", (here, near), "i64"), none), "bool")
                apart = b.let("and", (b.let("xor", (here, there), "i64"), block), "i64")
                inside = b.let("eq", (apart, none), "bool")
                due = b.let("and", (b.let("eq", (upper, merging), "bool"), inside), "bool")
                b.branch(due, lambda: self.exchange(here, there), list)
                return ()

            b.loop(n, "seq", place, hi=b.let("sub", (b.dim(n), near), "i64"))

        def level(s: Index) -> Sequence[Atom]:
            def finer(t: Index) -> Sequence[Atom]:
                stage(s, t)
                return ()

            b.loop(n, "seq", finer, hi=b.atom(b.add(s, 1)))
            return ()

        b.loop((n - 1).bit_length(), "seq", level)

    def exchange(self, here: Atom, there: Atom) -> list[Atom]:
        b = self.b
        width = Const(self.width, "i64")
        left, right = (b.let("mul", (a, width), "i64") for a in (here, there))

        def lane(r: Index) -> Sequence[Atom]:
            spots = [b.let("add", (a, b.atom(r)), "i64") for a in (left, right)]
            with Pinned(b):
                x, y = (b.load(self.words, s) for s in spots)
            for s, how in zip(spots, ("min", "max"), strict=True):
                b.store(self.words, s, b.let(how, (x, y), self.dtype))
            return ()

        b.loop(self.width, "vector", lane, hi=width)
        return []
