"""What bounds of indices say about arithmetic on integers: decided comparisons, results that are
indices themselves, and the places of a loop where that changes.

Before: c = clamp 0, (convert i) + 2, 99; x[c], for i in 0..50. After: x[i + 2].
Functions take the builder that makes the operations; indices are its own: an int or an `Ix`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.ir import Const

__all__ = ["ALWAYS_NEVER", "RANGED", "narrowed", "note_cut", "once_round"]

TRUE, FALSE = Const(True, "bool"), Const(False, "bool")


def narrowed(x: Any) -> bool:
    """Whether an index has bounds that hold in a block only."""
    if isinstance(x, int):
        return False
    return any(leaf.by < 0 if leaf.base is None else narrowed(leaf.base) for leaf, _ in x.terms)


# Of a comparison x op y: whether it always holds, or never, by the bounds of x - y.
ALWAYS_NEVER: dict[str, Any] = {
    "lt": (lambda lo, hi: hi < 0, lambda lo, hi: lo >= 0),
    "le": (lambda lo, hi: hi <= 0, lambda lo, hi: lo > 0),
    "gt": (lambda lo, hi: lo > 0, lambda lo, hi: hi <= 0),
    "ge": (lambda lo, hi: lo >= 0, lambda lo, hi: hi < 0),
    "eq": (lambda lo, hi: lo == hi == 0, lambda lo, hi: lo > 0 or hi < 0),
    "ne": (lambda lo, hi: lo > 0 or hi < 0, lambda lo, hi: lo == hi == 0),
}


def _compared(b: Any, op: str, values: Sequence[Any]) -> Any:
    gap = b.sub(*values)
    low, high = (gap, gap) if isinstance(gap, int) else (gap.lo, gap.hi)
    always, never = ALWAYS_NEVER[op]
    if always(low, high):
        return TRUE
    if never(low, high):
        return FALSE
    return (op, gap) if not isinstance(gap, int) else None


def _summed(b: Any, op: str, values: Sequence[Any]) -> Any:
    if op == "neg":
        return b.mul(values[0], -1)
    if op == "mul":
        x, c = values
        if isinstance(x, int):
            x, c = c, x
        return b.mul(x, c) if isinstance(c, int) else None
    return (b.add if op == "add" else b.sub)(*values)


def _chosen(b: Any, op: str, values: Sequence[Any]) -> Any:
    """The larger, the smaller, or the nearest of an interval."""
    if op == "clamp":
        least, x, most = values
        x = _chosen(b, "max", (x, least))
        return None if x is None else _chosen(b, "min", (x, most))
    x, y = values if op == "max" else values[::-1]  # the first one is asked for if x - y >= 0
    gap = b.sub(x, y)
    low, high = (gap, gap) if isinstance(gap, int) else (gap.lo, gap.hi)
    if low >= 0:
        return values[0]
    if high <= 0:
        return values[1]
    note_cut(b, "lt", gap)
    return None


def _quotient(b: Any, op: str, values: Sequence[Any]) -> Any:
    """The quotient or the remainder by a positive literal, truncated, if it is one index."""
    x, n = values
    if not isinstance(n, int) or n <= 0:
        return None
    low, high = (x, x) if isinstance(x, int) else (x.lo, x.hi)
    if -n < low and high < n:
        return 0 if op == "div" else x
    if low // n == high // n and low >= 0:
        return low // n if op == "div" else b.sub(x, low // n * n)
    return None


def once_round(x: Any, n: Any) -> bool:
    """Whether the remainder of x by n is x, or x - n where x is not less than n."""
    return not isinstance(x, int) and isinstance(n, int) and -n < x.lo and n <= x.hi < 2 * n


def note_cut(b: Any, op: str, gap: Any) -> None:
    """Notes where a comparison of an index with 0 changes along a loop."""
    if isinstance(gap, int) or len(gap.terms) != 1:
        return
    leaf, c = gap.terms[0]
    if leaf.kind != "var" or c not in (1, -1):
        return
    zero = -c * gap.const
    after = (op in ("le", "gt")) == (c == 1)
    at = {zero, zero + 1} if op in ("eq", "ne") else {zero + after}
    b.cuts.setdefault(leaf, set()).update(at)


# What the bounds of operands say about the result, by operator.
RANGED: dict[str, Callable[[Any, str, Sequence[Any]], Any]] = {
    **dict.fromkeys(ALWAYS_NEVER, _compared),
    **dict.fromkeys(("add", "sub", "mul", "neg"), _summed),
    **dict.fromkeys(("max", "min", "clamp"), _chosen),
    **dict.fromkeys(("div", "rem"), _quotient),
    "convert": lambda b, op, values: values[0],
    "select": lambda b, op, values: None,
}
