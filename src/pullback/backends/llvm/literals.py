"""LLVM's types of numbers, literals as text, and what is computed of literals while emitting."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback.backends.llvm.build import Builder, Val

__all__ = [
    "BITS", "FLOATS", "INTEGERS", "float_bits", "float_word", "folded", "holds", "round_f32",
]  # fmt: skip

BITS = {
    "half": 16,
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
FLOATS = ("float", "double")
INTEGERS = ("i8", "i16", "i32", "i64")


def round_f32(value: float) -> float:
    """The nearest float32, overflowing to infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def float_bits(value: float, t: str) -> str:
    """A float literal of LLVM: the bits of the double."""
    if t == "float":
        value = round_f32(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def float_word(value: float, t: str) -> int:
    """The bits of a float as a signed integer."""
    if t == "float":
        return int(struct.unpack("<i", struct.pack("<f", round_f32(value)))[0])
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def holds(how: str, x: Val, y: Val, unsigned: bool) -> bool:
    """A comparison of literal integers, which literals keep with their sign."""
    p, q = (int(v.c) & ((1 << BITS[v.t]) - 1) if unsigned else int(v.c) for v in (x, y))
    return bool(getattr(operator, how)(p, q))


_ON_LITERALS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_SHIFTS_OF_LITERALS: dict[str, Callable[[int, int, int], int]] = {
    "shl": lambda p, q, _: p << q,
    "lshr": lambda p, q, bits: (p & ((1 << bits) - 1)) >> q,
    "ashr": lambda p, q, _: p >> q,
}


def folded(b: Builder, name: str, x: Val, y: Val) -> Val | None:
    """The value of an instruction that literals decide: what index arithmetic is full of. None for
    others, and for floats, which round."""
    if x.t in FLOATS or x.t == "ptr":
        return None
    if x.c is not None and y.c is not None and x.t in INTEGERS:
        p, q, bits = int(x.c), int(y.c), BITS[x.t]
        if name in _ON_LITERALS:
            return b.lit(_ON_LITERALS[name](p, q), x.t)
        if name in _SHIFTS_OF_LITERALS and 0 <= q < bits:
            return b.lit(_SHIFTS_OF_LITERALS[name](p, q, bits), x.t)
    if x.t == "i1":
        if name == "and":
            const, other = (x, y) if x.c is not None else (y, x)
            return other if const.c is True else None
        return None
    if name == "add" and x.c == 0:
        return y
    if name in ("add", "sub", "shl", "lshr", "ashr", "or", "xor") and y.c == 0:
        return x
    if name == "mul":
        if y.c == 1:
            return x
        if x.c == 1:
            return y
        if y.c == 0:
            return y
        if x.c == 0:
            return x
    return None
