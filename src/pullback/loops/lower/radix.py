"""Sorting of long rows inside kernels: stable passes over digits of integers that order alike.

The passes are a function of its own (loops/digits.py). Long rows that are alone are cut into parts,
on which a pass works in parallel.

One operand is sorted by itself. Several are sorted by words: the upper half of a word holds (a part
of) a key, the lower one the element's number, by which the operands are gathered in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.loops.build import Builder, Index
from pullback.loops.digits import DIGIT
from pullback.loops.ir import Atom, Call, Const
from pullback.loops.lower.elementwise import scalar_convert
from pullback.loops.lower.graph import Node, Opaque, read, store_slot
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS, FLOATS, SIGNED
from pullback.loops.tiles import radix_name

__all__ = ["ordered_bits", "sort_rows"]

PART = 1 << 15  # elements of a part at least
PARTS = 8  # of a row at most
ROWS_TOGETHER = 4  # so many rows are sorted side by side rather than in parts
LOW = (1 << 32) - 1
UNUSED = {"bf16": 16, "f16": 13}  # low bits of an f32 that such a number leaves zero


def ordered_bits(b: Builder, value: Atom) -> Atom:
    """An integer that orders floats by their bits: -NaN < -inf < ... < -0.0 < 0.0 < ... < NaN."""
    if value.dtype not in FLOATS:
        return value
    wide = value if value.dtype in ("f32", "f64") else scalar_convert(b, value, "f32")
    size = BITS[wide.dtype]
    kind = f"i{size}"
    bits = b.let("bitcast", (wide,), kind)
    sign = b.let("shr_arith", (bits, Const(size - 1, kind)), kind)
    flip = b.let("and", (sign, Const((1 << (size - 1)) - 1, kind)), kind)
    return b.let("xor", (bits, flip), kind)


def key_bits(dtype: str) -> tuple[int, int]:
    """Which bits of a key's word differ: from the first on, and below the second."""
    if dtype in FLOATS:
        return UNUSED.get(dtype, 0), 64 if dtype == "f64" else 32
    return 0, BITS[dtype]


def signed_key(b: Builder, value: Atom) -> Atom:
    """An integer of that many bits, in i32 or i64, that orders as a sort does: 0.0 and -0.0 are
    equal, and so are all NaNs, the largest."""
    dtype = value.dtype
    if dtype in FLOATS:
        wide = value if dtype in ("f32", "f64") else scalar_convert(b, value, "f32")
        zero = b.let("eq", (wide, Const(0.0, wide.dtype)), "bool")
        bits = ordered_bits(b, b.select(zero, Const(0.0, wide.dtype), wide))
        most = Const((1 << (BITS[bits.dtype] - 1)) - 1, bits.dtype)
        return b.select(b.let("ne", (wide, wide), "bool"), most, bits)
    kind = "i64" if BITS[dtype] == 64 else "i32"
    whole = value if dtype == kind else scalar_convert(b, value, kind)
    return whole if dtype in SIGNED else _raised(b, whole, -_half(dtype))


def value_of(b: Builder, key: Atom, dtype: str) -> Atom:
    """The number that has such a key."""
    kind = key.dtype
    if dtype in FLOATS:
        size = BITS[kind]
        sign = b.let("shr_arith", (key, Const(size - 1, kind)), kind)
        flip = b.let("and", (sign, Const((1 << (size - 1)) - 1, kind)), kind)
        key = b.let("bitcast", (b.let("xor", (key, flip), kind),), f"f{size}")
    elif dtype not in SIGNED:
        key = _raised(b, key, _half(dtype))
    return key if key.dtype == dtype else scalar_convert(b, key, dtype)


def _half(dtype: str) -> int:
    return 1 << (key_bits(dtype)[1] - 1)


def _raised(b: Builder, key: Atom, by: int) -> Atom:
    """key + by, which wraps; a constant of the integer's width."""
    if abs(by) == 1 << (BITS[key.dtype] - 1):
        by = -abs(by)
    return b.let("add", (key, Const(by, key.dtype)), key.dtype)


def digits_of(b: Builder, value: Atom) -> Atom:
    """The same key as an unsigned integer."""
    return _raised(b, signed_key(b, value), _half(value.dtype))


class _Passes:
    """Integers of one row in two places in turn: where they are, and where the next pass puts
    them."""

    def __init__(self, b: Builder, n: int, dtype: str, parts: int) -> None:
        self.b, self.n, self.dtype, self.parts = b, n, dtype, parts
        self.items = b.scratch(dtype, 2 * n)
        self.counts = b.scratch("i64", parts << DIGIT)
        self.at: Atom = b.dim(0)  # where in `items` the row begins

    def load(self, i: Index) -> Atom:
        with Pinned(self.b):
            place = self.b.let("add", (self.at, self.b.atom(i)), "i64")
            return self.b.load(self.items, place)

    def store(self, i: Index, word: Atom) -> None:
        place = self.b.let("add", (self.at, self.b.atom(i)), "i64")
        self.b.store(self.items, place, word)

    def each(self, body: Callable[[Index], None]) -> None:
        """For all elements, part by part."""
        b, size = self.b, -(-self.n // self.parts)

        def run(i: Index) -> Sequence[Atom]:
            body(i)
            return ()

        def part(p: Index) -> Sequence[Atom]:
            lo = b.atom(b.mul(p, size))
            hi = b.let("min", (b.let("add", (lo, b.dim(size)), "i64"), b.dim(self.n)), "i64")
            b.loop(self.n, "vector", run, lo=lo, hi=hi)
            return ()

        if self.parts == 1:
            b.loop(self.n, "vector", run, lo=b.dim(0), hi=b.dim(self.n))
        else:
            b.loop(self.parts, "parallel", part)

    def sort(self, low: int, high: int) -> None:
        """By the bits from `low` on, below `high`."""
        b, passes = self.b, -(-(high - low) // DIGIT)
        width = -(-(high - low) // passes)
        numbers = (b.dim(self.n), *(Const(v, "i64") for v in (self.parts, low, high, width)))
        out = b.var("i64", b.depth, "p")
        args = (self.items, self.counts, self.at, *numbers)
        b.emit(Call((out,), radix_name(self.dtype, self.parts > 1), args))
        self.at = out


class Row:
    """The statements that sort one row of some operands."""

    def __init__(self, b: Builder, ins: Sequence[Node], axis: int, parts: int) -> None:
        self.b, self.ins, self.axis, self.parts = b, ins, axis, parts
        self.n = ins[0].shape[axis]

    def place(self, row: tuple[Index, ...], i: Index) -> tuple[Index, ...]:
        return (*row[: self.axis], i, *row[self.axis :])

    def alone(self, row: tuple[Index, ...], out: Node) -> None:
        """One operand, which its own keys become again."""
        b, x = self.b, self.ins[0]
        low, high = key_bits(x.dtype)
        passes = _Passes(b, self.n, "i64" if high == 64 else "i32", self.parts)
        passes.each(lambda i: passes.store(i, digits_of(b, read(x, b, self.place(row, i)))))
        passes.sort(low, high)

        def put(i: Index) -> None:
            key = _raised(b, passes.load(i), -_half(x.dtype))
            self.put(out, self.place(row, i), value_of(b, key, x.dtype))

        passes.each(put)
        if x.dtype in FLOATS:
            self.equals(row, out)

    def put(self, out: Node, at: tuple[Index, ...], value: Atom) -> None:
        assert out.slot is not None
        store_slot(self.b, out.slot, out.shape, out.dtype, at, value)

    def equals(self, row: tuple[Index, ...], out: Node) -> None:
        """What is equal and not the same, zeros and NaNs, as it was and in the order that it had:
        keys know one zero and one NaN."""
        b, x = self.b, self.ins[0]
        kinds = range(4)
        carry = [(Const(0, "i64"), b.var("i64", b.depth + 1, "c")) for _ in kinds]

        def tests(value: Atom) -> list[Atom]:
            wide = value if value.dtype in ("f32", "f64") else scalar_convert(b, value, "f32")
            kind = f"i{BITS[wide.dtype]}"
            zero = Const(0.0, wide.dtype)
            negative = b.let("lt", (b.let("bitcast", (wide,), kind), Const(0, kind)), "bool")
            is_zero = b.let("eq", (wide, zero), "bool")
            return [
                b.let("lt", (wide, zero), "bool"), is_zero,
                b.let("and", (is_zero, negative), "bool"), b.let("ne", (wide, wide), "bool"),
            ]  # fmt: skip

        def count(i: Index) -> list[Atom]:
            found = tests(read(x, b, self.place(row, i)))
            return [b.let("convert", (t,), "i64") for t in found]

        below, _, minus, bad = b.loop(self.n, "reduce", count, carry, ("add",) * 4)
        odd = b.let("add", (minus, bad), "i64")
        some = b.let("gt", (odd, Const(0, "i64")), "bool")

        def again() -> list[Atom]:
            first = b.let("sub", (b.dim(self.n), bad), "i64")
            places = [
                (below, b.var("i64", b.depth + 1, "z")),
                (first, b.var("i64", b.depth + 1, "z")),
            ]

            def element(i: Index) -> list[Atom]:
                value = read(x, b, self.place(row, i))
                _, zero, _, wrong = tests(value)
                nexts: list[Atom] = []
                for (_, at), here in zip(places, (zero, wrong), strict=True):

                    def write(at: Atom = at) -> list[Atom]:
                        spot = b.leaf_of(at, 0, self.n - 1)
                        self.put(out, self.place(row, spot), value)
                        return [b.let("add", (at, Const(1, "i64")), "i64")]

                    def stay(at: Atom = at) -> list[Atom]:
                        return [at]

                    nexts += b.branch(here, write, stay)
                return nexts

            b.loop(self.n, "seq", element, places)
            return []

        b.branch(some, again, list)

    def order(self, row: tuple[Index, ...], num_keys: int) -> _Passes:
        """Words whose lower halves are the elements' numbers, in order."""
        b = self.b
        passes = _Passes(b, self.n, "i64", self.parts)
        fresh = True
        for x in reversed(self.ins[:num_keys]):
            low, high = key_bits(x.dtype)
            for half in range(0, high, 32):

                def word(i: Index, first: bool = fresh, half: int = half, x: Node = x) -> None:
                    number = b.atom(i) if first else self.number(passes, i)
                    at = i if first else b.leaf_of(number, 0, self.n - 1)
                    bits = b.let("convert", (digits_of(b, read(x, b, self.place(row, at))),), "i64")
                    if half:
                        bits = b.let("shr_logical", (bits, Const(32, "i64")), "i64")
                    upper = b.let("shl", (bits, Const(32, "i64")), "i64")
                    passes.store(i, b.let("or", (upper, number), "i64"))

                passes.each(word)
                passes.sort(32 + (low if not half else 0), 32 + min(32, high - half))
                fresh = False
        return passes

    def number(self, passes: _Passes, i: Index) -> Atom:
        return self.b.let("and", (passes.load(i), Const(LOW, "i64")), "i64")

    def together(self, row: tuple[Index, ...], num_keys: int, outs: Sequence[Node]) -> None:
        """Several operands, by the first ones."""
        b = self.b
        passes = self.order(row, num_keys)

        def put(i: Index) -> None:
            at = b.leaf_of(self.number(passes, i), 0, self.n - 1)
            for x, out in zip(self.ins, outs, strict=True):
                self.put(out, self.place(row, i), read(x, b, self.place(row, at)))

        passes.each(put)


def sort_rows(b: Builder, op: Opaque, axis: int, num_keys: int) -> None:
    """The statements of a sort of rows that are not short."""
    ins, shape = op.ins, op.ins[0].shape
    n = shape[axis]
    rows = (*shape[:axis], *shape[axis + 1 :])
    beside = math.prod(rows) >= ROWS_TOGETHER
    parts = 1 if beside else max(1, min(PARTS, n // PART))
    one = Row(b, ins, axis, parts)

    def body(row: tuple[Index, ...]) -> None:
        if len(ins) == 1:
            one.alone(row, op.outs[0])
        else:
            one.together(row, num_keys, op.outs)

    box(
        b,
        rows,
        body,
        "seq",
        range(len(rows)),
        parallel=beside and math.prod(shape) > PART,
        cost=0.0,
    )
