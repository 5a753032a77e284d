"""Bounds of integers that are no indices: a remainder, a choice, a byte.

Before: m = min i + 1, n; k = select m < 0, m + 40, m; c = clamp 0, (convert k), 39; x[c]. After,
with n known to be 39 and i to be at least 0: m = min i + 1, n; x[convert m].
The builder asks for them where `bounds.py` knows no index; functions take the builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pullback.loops.bounds import ALWAYS_NEVER, narrowed
from pullback.loops.ir import Atom, Const
from pullback.loops.ops import INTS, limits

__all__ = ["BOUNDED", "bounds_of", "decided", "result_bounds"]

Bounds = tuple[int, int]


def bounds_of(b: Any, a: Atom) -> Bounds:
    """The least and the greatest that an integer can be."""
    x = b.known_index(a)
    if isinstance(x, int):
        return x, x
    if x is not None and not narrowed(x):
        return x.lo, x.hi
    return b.ranges.get(a) or _limits(a.dtype)


@lru_cache(maxsize=64)
def _limits(dtype: str) -> Bounds:
    low, high = limits(dtype)
    return int(low), int(high)


def result_bounds(b: Any, op: str, args: Sequence[Atom], dtype: str) -> Bounds | None:
    """Those of an operation's result, if they say more than its type."""
    numbers = args[1:] if op == "select" else args
    for a in numbers:
        if a.dtype not in INTS:
            return None
    wrapped = _wrapped(b, *args) if op == "select" else None
    found = wrapped or BOUNDED[op](*[bounds_of(b, a) for a in numbers])
    if found is None:
        return None
    least, most = _limits(dtype)
    inside = least <= found[0] and found[1] <= most
    return found if inside and found != (least, most) else None


def _wrapped(b: Any, below: Atom, x: Atom, y: Atom) -> Bounds | None:
    """Of y, or y + n where y is less than 0: places from the end, remainders of Python."""
    op, args = b.made.get(x, ("", ()))
    if op != "add" or y not in args or b.made.get(below) != ("lt", (y, Const(0, y.dtype))):
        return None
    (low, high), n = bounds_of(b, y), bounds_of(b, args[args[0] is y])
    return min(low + n[0], max(low, 0)), max(n[1] - 1, high) if low < 0 else high


def decided(b: Any, op: str, args: Sequence[Atom]) -> Const | None:
    """A comparison that has one answer."""
    if any(a.dtype not in INTS for a in args):
        return None
    (low, high), (least, most) = (bounds_of(b, a) for a in args)
    always, never = ALWAYS_NEVER[op]
    if always(low - most, high - least):
        return Const(True, "bool")
    return Const(False, "bool") if never(low - most, high - least) else None


def _least(x: Bounds, y: Bounds) -> Bounds:
    return min(x[0], y[0]), min(x[1], y[1])


def _greatest(x: Bounds, y: Bounds) -> Bounds:
    return max(x[0], y[0]), max(x[1], y[1])


def _remainder(x: Bounds, n: Bounds) -> Bounds | None:
    """Of the sign of x, as truncated quotients leave it."""
    if n[0] <= 0:
        return None
    most = n[1] - 1
    return max(-most, min(x[0], 0)), min(most, max(x[1], 0))


def _common_bits(x: Bounds, y: Bounds) -> Bounds | None:
    known = [v[1] for v in (x, y) if v[0] >= 0]
    return (0, min(known)) if known else None


BOUNDED: dict[str, Callable[..., Bounds | None]] = {
    "min": _least,
    "max": _greatest,
    "clamp": lambda lo, x, hi: _least(_greatest(lo, x), hi),
    "select": lambda x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "convert": lambda x: x,
    "rem": _remainder,
    "and": _common_bits,
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
}
