"""Many updates of single elements: by blocks, each in a row of its own; in turn, with places and
values that lanes have found before; in runs that go to one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import FALSE, Builder, Index, Ix, i64
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.graph import Node, Slot, load_slot, store_slot
from pullback.loops.ops import identity_of, limits

__all__ = [
    "AHEAD", "KEYS", "Ahead", "Pinned", "by_blocks", "in_runs", "in_turn", "injective", "key_of",
    "value_of",
]  # fmt: skip

# Integers in place of floats that are compared, and of booleans that are joined.
KEYS = {"f32": "i32", "f64": "i64", "bool": "u8"}
AHEAD = 512  # updates whose places are found before they are made
STRETCH = 64  # updates of a run that are looked at together


class Pinned:
    """Loads stay where they are asked for: what they read is written in between."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __enter__(self) -> None:
        self.saved, self.b.region_level = self.b.region_level, self.b.depth

    def __exit__(self, *_: Any) -> None:
        self.b.region_level = self.saved


def by_blocks(
    b: Builder,
    combine: str | None,
    slot: Slot,
    x: Node,
    count: int,
    blocks: int,
    visit: Callable[[Builder, Atom, Atom, Slot], None],
    spare: int,
    kind: str | None = None,
) -> None:
    """Each block of updates is combined in a row of its own, with `spare` elements for those that
    are outside; the rows are combined in order. A `kind` is the type of keys that stand for
    elements in the rows."""
    assert combine is not None
    dtype = kind or x.dtype
    rows = Slot(dtype, (blocks, x.size), "temp")
    b.bound[rows] = b.scratch(dtype, rows.size)
    each = -(-count // blocks)
    direct = not spare and kind is None  # the first block needs no row

    def bounds(k: Index) -> tuple[Atom, Atom]:
        low = b.atom(b.mul(k, each))
        return low, b.let("min", (b.let("add", (low, b.dim(each)), "i64"), b.dim(count)), "i64")

    def apart(k: Index) -> None:
        own = Slot(dtype, (x.size + spare,), "temp")
        b.bound[own] = b.scratch(dtype, own.size)

        def clear(i: Index) -> Sequence[Atom]:
            start: Atom = identity_of(combine, x.dtype)
            start = start if kind is None else key_of(b, start, combine)
            store_slot(b, own, own.shape, dtype, (i,), start)
            return ()

        def keep(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                value = load_slot(b, own, own.shape, dtype, (i,))
            store_slot(b, rows, rows.shape, dtype, (k, i), value)
            return ()

        b.loop(x.size + spare, "vector", clear)
        visit(b, *bounds(k), own)
        b.loop(x.size, "vector", keep)

    def block(k: Index) -> Sequence[Atom]:
        def here() -> list[Atom]:
            visit(b, *bounds(k), slot)
            return []

        def there() -> list[Atom]:
            apart(k)
            return []

        if direct:
            b.branch(b.in_range(k, 0, 1), here, there)
        else:
            apart(k)
        return ()

    b.loop(blocks, "parallel", block)

    def add(i: Index) -> Sequence[Atom]:
        total = b.var(x.dtype, b.depth + 1, "a")

        def one(k: Index) -> Sequence[Atom]:
            more = load_slot(b, rows, rows.shape, dtype, (k, i))
            more = more if kind is None else value_of(b, more, x.dtype)
            return [b.let(combine, (total, more), x.dtype)]

        start = load_slot(b, slot, (x.size,), x.dtype, (i,))
        first = int(direct)
        (out,) = b.loop(blocks, "seq", one, [(start, total)], lo=i64(first), first=first)
        store_slot(b, slot, (x.size,), x.dtype, (i,), out)
        return ()

    with Pinned(b):
        b.loop(x.size, "vector", add)


def key_of(b: Builder, value: Atom, combine: str | None) -> Atom:
    """An integer that orders floats as the numbers are, the negative zero below the other one, and
    NaN where it is what an extreme gives. An extreme of integers takes a third of the time."""
    kind = KEYS[value.dtype]
    if value.dtype == "bool":
        return b.let("convert", (value,), kind)
    low, high = limits(kind)
    bits = b.let("bitcast", (value,), kind)
    sign = b.let("shr_arith", (bits, Const(31 if kind == "i32" else 63, kind)), kind)
    key = b.let("xor", (bits, b.let("and", (sign, Const(high, kind)), kind)), kind)
    nan = b.let("ne", (value, value), "bool")
    return b.select(nan, Const(high if combine == "max" else low, kind), key)


def value_of(b: Builder, key: Atom, dtype: str) -> Atom:
    """The float of a key: the same steps lead back."""
    kind = KEYS[dtype]
    if dtype == "bool":
        return b.let("ne", (key, Const(0, kind)), "bool")
    sign = b.let("shr_arith", (key, Const(31 if kind == "i32" else 63, kind)), kind)
    flip = b.let("and", (sign, Const(limits(kind)[1], kind)), kind)
    return b.let("bitcast", (b.let("xor", (key, flip), kind),), dtype)


Bounds = tuple[Atom, Atom]
Item = Callable[[Index], tuple[Atom, Atom]]


def injective(place: Index, spot: Sequence[Index]) -> bool:
    """Whether a sum of loop variables, each times a number, is another one for other values."""
    if not isinstance(place, Ix):
        return all(isinstance(i, int) for i in spot)
    over = {i.terms[0][0] for i in spot if isinstance(i, Ix)}
    if over != {leaf for leaf, _ in place.terms}:
        return False
    reach = 0
    for leaf, c in sorted(place.terms, key=lambda term: abs(term[1])):
        if abs(c) <= reach:
            return False
        reach += abs(c) * (leaf.hi - leaf.lo)
    return True


class Ahead:
    """Places and values of updates, which lanes find a stretch at a time before they are made: what
    is left for every one is short."""

    def __init__(self, b: Builder, dtype: str, size: int) -> None:
        """`size`: how many places there are, before the one of updates that are outside."""
        self.b, self.dtype, self.size = b, dtype, size
        self.narrow = "i32" if size < (1 << 31) - 1 else "i64"
        self.places, self.values = (Slot(d, (AHEAD,), "temp") for d in (self.narrow, dtype))
        for slot in (self.places, self.values):
            b.bound[slot] = b.scratch(slot.dtype, AHEAD)

    def visit(self, item: Item, count: int, bounds: Bounds, make: Callable[[Atom], None]) -> None:
        """Updates in bounds, which `make` makes, so many of a stretch."""
        b = self.b

        def stretch(first: Index) -> Sequence[Atom]:
            lo = b.atom(first)
            hi = b.let("min", (b.let("add", (lo, b.dim(AHEAD)), "i64"), bounds[1]), "i64")

            def find(i: Index) -> Sequence[Atom]:
                place, value = item(i)
                place = place if self.narrow == "i64" else b.let("convert", (place,), "i32")
                at = b.let("sub", (b.atom(i), lo), "i64")
                b.store(self.places.buf(b), at, place)
                b.store(self.values.buf(b), at, value)
                return ()

            b.loop(count, "vector", find, lo=lo, hi=hi)
            make(b.let("sub", (hi, lo), "i64"))
            return ()

        b.loop(count, "seq", stretch, lo=bounds[0], hi=bounds[1], step=AHEAD)

    def update(self, k: Index) -> tuple[Atom, Atom]:
        """The place and the value of one of a stretch."""
        b = self.b
        with Pinned(b):
            place = load_slot(b, self.places, self.places.shape, self.narrow, (k,))
            value = load_slot(b, self.values, self.values.shape, self.dtype, (k,))
        return place if self.narrow == "i64" else b.let("convert", (place,), "i64"), value

    def inside(self, length: Atom) -> Atom:
        """How many of a stretch are inside, which then come first. Each is written, and the next
        one over it if it is not: nothing that a processor would have to guess."""
        b = self.b
        carry = [(i64(0), b.var("i64", b.depth + 1, "c"))]

        def one(k: Index) -> list[Atom]:
            at = carry[0][1]
            place, value = self.update(k)
            narrow = place if self.narrow == "i64" else b.let("convert", (place,), "i32")
            b.store(self.places.buf(b), at, narrow)
            b.store(self.values.buf(b), at, value)
            more = b.let("convert", (b.let("lt", (place, b.dim(self.size)), "bool"),), "i64")
            return [b.let("add", (at, more), "i64")]

        return b.loop(AHEAD, "seq", one, carry, hi=length)[0]

    def spread(self, length: Atom, spare: int) -> list[Atom]:
        """Gives the updates that are outside so many places in turn."""
        b, narrow = self.b, self.narrow

        def one(k: Index) -> Sequence[Atom]:
            turn = b.let("and", (b.atom(k), i64(spare - 1)), "i64")
            behind = b.let("add", (turn, b.dim(self.size)), "i64")
            behind = behind if narrow == "i64" else b.let("convert", (behind,), narrow)
            place, outside = self._looked_at(k)
            b.store(self.places.buf(b), b.atom(k), b.select(outside, behind, place))
            return ()

        b.loop(AHEAD, "vector", one, hi=length)
        return []

    def any_outside(self, length: Atom) -> Atom:
        """Whether an update of a stretch is outside."""
        b = self.b
        carry = [(FALSE, b.var("bool", b.depth + 1, "o"))]
        one = lambda k: [self._looked_at(k)[1]]
        return b.loop(AHEAD, "reduce", one, carry, ("or",), hi=length)[0]

    def _looked_at(self, k: Index) -> tuple[Atom, Atom]:
        """The place of one of a stretch, and whether it is outside."""
        b = self.b
        with Pinned(b):
            place = load_slot(b, self.places, self.places.shape, self.narrow, (k,))
        return place, b.let("ge", (place, b.const(self.size, self.narrow)), "bool")

    def furthest(self, length: Atom) -> Atom:
        """The largest place of a stretch."""
        b = self.b
        carry = [(Const(0, self.narrow), b.var(self.narrow, b.depth + 1, "m"))]

        def one(k: Index) -> list[Atom]:
            with Pinned(b):
                return [load_slot(b, self.places, self.places.shape, self.narrow, (k,))]

        most: Atom = b.loop(AHEAD, "reduce", one, carry, ("max",), hi=length)[0]
        return most if self.narrow == "i64" else b.let("convert", (most,), "i64")


def in_turn(
    b: Builder, combine: str, item: Item, dtype: str, count: int, bounds: Bounds, row: Slot,
    size: int,
) -> None:  # fmt: skip
    """Single elements are updated in order; those outside of `size`, where the row has several
    places for them, in one after the other, so that none has to wait for the one before."""
    ahead, spare = Ahead(b, dtype, size), row.size - size

    def update(k: Index) -> Sequence[Atom]:
        b.update(row.buf(b), *ahead.update(k), combine)
        return ()

    def make(length: Atom) -> None:
        if spare > 1:
            b.branch(ahead.any_outside(length), lambda: ahead.spread(length, spare), list)
        b.loop(AHEAD, "vector", update, hi=length)

    ahead.visit(item, count, bounds, make)


def in_runs(
    b: Builder, combine: str, item: Item, dtype: str, count: int, bounds: Bounds, row: Slot
) -> None:
    """The same where long runs of updates go to one element: a run is combined in a register, as
    memory that was just written takes longer to come back than the arithmetic; and stretches that
    lie within a run are combined in lanes."""
    narrow = "i32" if row.size < 1 << 31 else "i64"

    def place_of(place: Atom) -> Atom:
        return place if narrow == "i64" else b.let("convert", (place,), "i32")

    def put(place: Atom, value: Atom) -> None:
        wide = place if narrow == "i64" else b.let("convert", (place,), "i64")
        b.update(row.buf(b), wide, value, combine)

    def carried(start: Sequence[Atom]) -> list[tuple[Atom, Any]]:
        return [(a, b.var(a.dtype, b.depth + 1, "a")) for a in start]

    def step(i: Index, place_now: Atom, total: Atom) -> list[Atom]:
        where, value = item(i)
        place = place_of(where)

        def flush() -> list[Atom]:
            put(place_now, total)
            return [value]

        same = b.let("eq", (place, place_now), "bool")
        new = b.branch(same, lambda: [b.let(combine, (total, value), dtype)], flush)
        return [place, *new]

    def stretch(first: Index, place_now: Atom, total: Atom) -> list[Atom]:
        lo = b.atom(first)
        hi = b.let("min", (b.let("add", (lo, b.dim(STRETCH)), "i64"), bounds[1]), "i64")
        ends = [
            Const(sign * ((1 << (31 if narrow == "i32" else 63)) - 1), narrow) for sign in (1, -1)
        ]
        place = lambda i: [place_of(item(i)[0])] * 2
        low, high = b.loop(count, "reduce", place, carried(ends), ("min", "max"), lo=lo, hi=hi)
        within = b.both(
            b.let("eq", (low, place_now), "bool"), b.let("eq", (high, place_now), "bool")
        )

        def together() -> list[Atom]:
            start = carried([identity_of(combine, dtype)])
            value = lambda i: [item(i)[1]]
            (more,) = b.loop(count, "reduce", value, start, (combine,), lo=lo, hi=hi)
            return [place_now, b.let(combine, (total, more), dtype)]

        def apart() -> list[Atom]:
            carry = carried([place_now, total])
            one = lambda i: step(i, carry[0][1], carry[1][1])
            return list(b.loop(count, "seq", one, carry, lo=lo, hi=hi))

        return b.branch(within, together, apart)

    carry = carried([place_of(b.dim(row.size - 1)), identity_of(combine, dtype)])
    one = lambda first: stretch(first, carry[0][1], carry[1][1])
    put(*b.loop(count, "seq", one, carry, lo=bounds[0], hi=bounds[1], step=STRETCH))
