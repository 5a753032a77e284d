"""Random bits: the Threefry-2x32 cipher as straight code in lanes, and Philox and Threefry of one
number after another. Keys were lowered to their words before."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, power, rule, stretch, zipped
from pullback.loops.lower.graph import Graph, Node, Opaque, level_at, read, store_slot
from pullback.loops.lower.statements import box
from pullback.primitives.rng import halved_axis, is_threefry

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(b: Builder, k0: Atom, k1: Atom, x0: Atom, x1: Atom) -> tuple[Atom, Atom]:
    """The block cipher with 20 rounds (Salmon et al., 2011)."""

    def op(name: str, x: Atom, y: Atom) -> Atom:
        return b.let(name, (x, y), "u32")

    keys = (k0, k1, op("xor", op("xor", k0, k1), Const(_PARITY, "u32")))
    x0, x1 = op("add", x0, k0), op("add", x1, k1)
    for r in range(5):
        for n in _ROTATIONS[r % 2]:
            x0 = op("add", x0, x1)
            x1 = op("xor", op("rotl", x1, Const(n, "u32")), x0)
        x0 = op("add", x0, keys[(r + 1) % 3])
        x1 = op("add", x1, op("add", keys[(r + 2) % 3], Const(r + 1, "u32")))
    return x0, x1


@rule("threefry2x32")
def _threefry2x32(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    shape = outs[0][0]
    ins = [n if n.shape == shape or not n.shape else stretch(g, n, shape) for n in ins]
    scalar = [n.shape != shape for n in ins]
    token = object()

    def part(k: int) -> Node:
        def at(b: Builder, idx: tuple[Index, ...]) -> Atom:
            key = (token, idx, b.mask)
            memo = b.scopes[level_at(b, idx)].memo
            if key not in memo:
                memo[key] = threefry(
                    b, *[read(n, b, () if s else idx) for n, s in zip(ins, scalar, strict=True)]
                )
            return memo[key][k]  # type: ignore[no-any-return]

        # The two halves cost once together where both are read.
        return g.pointwise(
            shape,
            "u32",
            [(n, () if s else None) for n, s in zip(ins, scalar, strict=True)],
            at,
            60.0,
        )

    return [part(0), part(1)]


def _halves(b: Builder, wide: Atom) -> list[Atom]:
    """The words of 64 bits, low before high."""
    high = b.let("shr_logical", (wide, Const(32, "u64")), "u64")
    return [b.let("convert", (x,), "u32") for x in (wide, high)]


def _joined(b: Builder, low: Atom, high: Atom) -> Atom:
    low, high = (b.let("convert", (x,), "u64") for x in (low, high))
    return b.let("or", (low, b.let("shl", (high, Const(32, "u64")), "u64")), "u64")


def philox(b: Builder, key: Sequence[Atom], counter: Sequence[Atom]) -> list[Atom]:
    """Four words of Philox-4x32 with 10 rounds (Salmon et al., 2011)."""

    def product(x: Atom, factor: int) -> list[Atom]:
        wide = b.let("convert", (x,), "u64")
        return _halves(b, b.let("mul", (wide, Const(factor, "u64")), "u64"))

    def op(name: str, x: Atom, y: Atom) -> Atom:
        return b.let(name, (x, y), "u32")

    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        (low0, high0), (low1, high1) = product(c0, 0xD2511F53), product(c2, 0xCD9E8D57)
        c0, c1 = op("xor", op("xor", high1, c1), k0), low1
        c2, c3 = op("xor", op("xor", high0, c3), k1), low0
        k0 = op("add", k0, Const(0x9E3779B9, "u32"))
        k1 = op("add", k1, Const(0xBB67AE85, "u32"))
    return [c0, c1, c2, c3]


class _State:
    """What a generator is given: its key, and the number from which it counts (0 where the state
    holds none)."""

    def __init__(self, b: Builder, state: Node) -> None:
        words = [read(state, b, (k,)) for k in range(state.shape[0])]
        if state.dtype == "u64":
            words = [half for wide in words for half in _halves(b, wide)]
        self.words, self.key = words, words[:2]
        self.start = _joined(b, *words[2:]) if words[2:] else Const(0, "u64")

    def number(self, b: Builder, k: Index) -> Atom:
        """The number of a step."""
        return b.let("add", (self.start, b.let("convert", (b.atom(k),), "u64")), "u64")

    def philox(self, b: Builder, k: Index) -> list[Atom]:
        """A step's words: the upper half of the counter is the key, which takes the carry."""
        number = self.number(b, k)
        carry = b.let("convert", (b.let("lt", (number, self.start), "bool"),), "u64")
        upper = b.let("add", (_joined(b, *self.key), carry), "u64")
        return philox(b, self.key, [*_halves(b, number), *_halves(b, upper)])

    def threefry(self, b: Builder, k: Index) -> list[Atom]:
        return list(threefry(b, self.key[0], self.key[1], *_halves(b, self.number(b, k))))

    def after(self, b: Builder, steps: int, dtype: str) -> list[Atom]:
        """The state after so many steps."""
        words = list(self.words)
        if words[2:]:
            words[2:] = _halves(b, self.number(b, steps))
        if dtype == "u32":
            return words
        return [_joined(b, *words[k : k + 2]) for k in range(0, len(words), 2)]


# What writes one element: of an index, where a condition holds.
Put = Callable[[tuple[Index, ...], Atom, Atom | None], None]


def _philox_stream(b: Builder, state: _State, size: int, dtype: str, put: Put) -> int:
    """Numbers in their order, four words at a time; how many times."""
    wide = dtype == "u64"
    count = 2 if wide else 4

    def some(k: Index, many: int) -> None:
        words = state.philox(b, k)
        if wide:
            words = [_joined(b, *words[:2]), _joined(b, *words[2:])]
        for i, word in enumerate(words[:many]):
            put((b.add(b.mul(k, count), i),), word, None)

    whole, rest = divmod(size, count)
    box(b, (whole,), lambda idx: some(idx[0], count), cost=100.0)
    if rest:
        some(whole, rest)
    return whole + (rest > 0)


def _threefry_stream(
    b: Builder, state: _State, shape: tuple[int, ...], dtype: str, put: Put
) -> int:
    """A number of 64 bits at a time: an element, or one and its neighbour along an axis, the last
    of which may be left out; how many."""
    if dtype == "u64":

        def one(idx: tuple[Index, ...]) -> None:
            put(idx, _joined(b, *state.threefry(b, b.ravel(idx, shape))), None)

        box(b, shape, one, cost=100.0)
        return math.prod(shape)
    axis = halved_axis(shape)
    half = (*shape[:axis], -(-shape[axis] // 2), *shape[axis + 1 :])

    def two(idx: tuple[Index, ...]) -> None:
        for part, word in enumerate(state.threefry(b, b.ravel(idx, half))):
            k = b.add(b.mul(idx[axis], 2), part)
            there = b.in_range(k, 0, shape[axis]) if shape[axis] % 2 else None
            put((*idx[:axis], k, *idx[axis + 1 :]), word, there)

    box(b, half, two, cost=100.0)
    return math.prod(half)


@rule("rng_bit_generator")
def _rng_bit_generator(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    (state,), (shape, dtype) = ins, outs[1]
    size = math.prod(shape)
    by_threefry = is_threefry(params["algorithm"])
    flat = (shape or (1,)) if by_threefry else (size,)

    def emit(b: Builder, o: Opaque) -> None:
        after, bits = (out.slot for out in o.outs)
        assert after is not None and bits is not None

        def put(idx: tuple[Index, ...], word: Atom, there: Atom | None) -> None:
            value = b.let("convert", (word,), dtype) if word.dtype != dtype else word
            store_slot(b, bits, flat, dtype, idx, value, there)

        given = _State(b, state)
        if by_threefry:
            steps = _threefry_stream(b, given, flat, dtype, put)
        else:
            steps = _philox_stream(b, given, size, dtype, put)
        for k, word in enumerate(given.after(b, steps, state.dtype)):
            store_slot(b, after, state.shape, state.dtype, (k,), word)

    return g.opaque(Opaque("random", [state], ["many"], emit=emit, work=size * 30.0), outs)


@rule("fused_multiply_add")
def _fused_multiply_add(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    return zipped(g, ins, shape, dtype, lambda b, x, y, z: b.let("fma", (x, y, z), dtype))


@rule("library_pow")
def _library_pow(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return power(g, ins, outs, "xla_pow")
