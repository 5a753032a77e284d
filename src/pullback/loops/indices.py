"""Symbolic index arithmetic.

Indices are ints or `Ix`: affine sums over loop variables and over quotients and remainders of such
sums, with known ranges. Reshapes become quotients and remainders that cancel again in the offset of
a contiguous buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Index", "Indices", "Ix", "Leaf"]


FEW_TURNS = 4  # pieces of a loop, each with one quotient of its variable


class Leaf:
    """What an affine sum is over: a variable, or the quotient or remainder of another sum by a
    constant."""

    __slots__ = ("base", "by", "hi", "kind", "level", "lo", "number", "var")

    def __init__(
        self, number: int, kind: str, var: Any, base: Any, by: int, level: int, lo: int, hi: int
    ) -> None:
        self.number, self.kind, self.var, self.base, self.by = number, kind, var, base, by
        self.level, self.lo, self.hi = level, lo, hi


class Ix:
    """A symbolic index: sum of coefficient * leaf, plus a constant; `lo`..`hi` bound it; `level` is
    the scope it needs."""

    __slots__ = ("const", "hi", "level", "lo", "terms")

    def __init__(self, terms: tuple[tuple[Leaf, int], ...], const: int) -> None:
        self.terms, self.const = terms, const
        lo = hi = const
        level = 0
        for leaf, c in terms:
            lo += c * (leaf.lo if c > 0 else leaf.hi)
            hi += c * (leaf.hi if c > 0 else leaf.lo)
            level = max(level, leaf.level)
        self.lo, self.hi, self.level = lo, hi, level

    def __repr__(self) -> str:
        return " + ".join(
            [*(f"{c}*{leaf.kind}{leaf.number}" for leaf, c in self.terms), str(self.const)]
        )


Index = int | Ix


def _rest_of(whole: Ix, leaf: Leaf) -> bool:
    """Whether the remainder of `whole` is this leaf: it is a remainder itself, by a multiple."""
    if len(whole.terms) != 1 or whole.const or whole.terms[0][1] != 1:
        return False
    inner = whole.terms[0][0]
    return inner.kind == "mod" and inner.by % leaf.by == 0 and inner.base == leaf.base


class Indices:
    """Makes indices, each once."""

    def __init__(self) -> None:
        self.turns: dict[Leaf, set[int]] = {}  # where a remainder begins anew, if at few places
        self.periods: dict[Leaf, int] = {}  # after how many steps all remainders are the same
        self._interned: dict[Any, Ix] = {}
        self._leaves: dict[Any, Leaf] = {}

    def _make(self, terms: Iterable[tuple[Leaf, int]], const: int) -> Index:
        kept = [term for term in terms if term[1]]
        if not kept:
            return const
        if len(kept) > 1:
            kept.sort(key=_leaf_order)
        key = (*[(leaf.number, c) for leaf, c in kept], const)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = Ix(tuple(kept), const)
        return found

    def leaf(self, kind: str, var: Any, base: Any, by: int, level: int, lo: int, hi: int) -> Index:
        key = (kind, var if var is not None else id(base), by)
        leaf = self._leaves.get(key)
        if leaf is None:
            leaf = self._leaves[key] = Leaf(len(self._leaves), kind, var, base, by, level, lo, hi)
        return self._make([(leaf, 1)], 0)

    def within(self, x: Ix, lo: int, hi: int) -> Index:
        """A loop's index where it is known to be in lo..hi (inclusive)."""
        leaf = x.terms[0][0]
        return self.leaf("var", leaf.var, None, -1 - len(self._leaves), leaf.level, lo, hi)

    def add(self, x: Index, y: Index) -> Index:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if isinstance(x, int):
            x, y = y, x
        assert isinstance(x, Ix)
        if isinstance(y, int):
            return x if y == 0 else self._make(x.terms, x.const + y)
        return self.linear([(x, 1), (y, 1)])

    def sub(self, x: Index, y: Index) -> Index:
        return self.linear([(x, 1), (y, -1)])

    def mul(self, x: Index, c: int) -> Index:
        if isinstance(x, int):
            return x * c
        return x if c == 1 else self._make([(leaf, k * c) for leaf, k in x.terms], x.const * c)

    def linear(self, parts: Iterable[tuple[Index, int]]) -> Index:
        """sum of index * coefficient, with quotients and remainders of the same sum joined
        again."""
        total: dict[Leaf, int] = {}
        const = 0
        remainders = False
        for x, c in parts:
            if isinstance(x, int):
                const += x * c
                continue
            const += x.const * c
            for leaf, k in x.terms:
                total[leaf] = total.get(leaf, 0) + k * c
                remainders = remainders or leaf.kind == "mod"
        if remainders:
            joined = self._join(total)
            if joined is not None:
                return self.linear(
                    [
                        *((self._make([(leaf, 1)], 0), k) for leaf, k in total.items()),
                        joined,
                        (const, 1),
                    ]
                )
        return self._make(total.items(), const)

    def _join(self, total: dict[Leaf, int]) -> tuple[Index, int] | None:
        """Takes k*(e mod n) and k*n*(e div n) out of the sum, for k*e."""
        for leaf, k in total.items():
            if leaf.kind != "mod" or not k:
                continue
            quotient = self.div(leaf.base, leaf.by)
            if (
                isinstance(quotient, Ix)
                and len(quotient.terms) == 1
                and not quotient.const
                and quotient.terms[0][1] == 1
            ):
                other = quotient.terms[0][0]
                if total.get(other) == k * leaf.by:
                    del total[leaf], total[other]
                    return leaf.base, k
            for other in total:
                whole = other.base if other.kind == "div" and other.by == leaf.by else None
                if whole is not None and total[other] == k * leaf.by and _rest_of(whole, leaf):
                    del total[leaf], total[other]
                    return whole, k
        return None

    def div(self, x: Index, n: int) -> Index:
        """Quotient of an index that is >= 0."""
        if n == 1:
            return x
        if isinstance(x, int):
            return x // n
        if 0 <= x.lo and x.lo // n == x.hi // n:
            return x.lo // n
        outer = [(leaf, c // n) for leaf, c in x.terms if c % n == 0]
        inner = [(leaf, c) for leaf, c in x.terms if c % n]
        rest = self._make(inner, x.const % n)
        low, high = (rest, rest) if isinstance(rest, int) else (rest.lo, rest.hi)
        if (outer or x.const // n) and low >= 0:
            return self.linear(
                [(self._make(outer, x.const // n), 1), (self.div(rest, n) if high >= n else 0, 1)]
            )
        if len(x.terms) == 1 and not x.const and x.terms[0][1] == 1 and x.terms[0][0].kind == "div":
            leaf = x.terms[0][0]
            return self.div(leaf.base, leaf.by * n)
        unit, coarse, _ = self._in_units(x, n)
        if unit > 1:
            return self.div(coarse, n // unit)
        return self.leaf("div", None, x, n, x.level, x.lo // n, x.hi // n)

    def _in_units(self, x: Ix, n: int) -> tuple[int, Index, Index]:
        """A divisor of n such that x is so many times a sum, and less than one unit more: what is
        less does not change the quotient. Channels in groups, of which each has whole pictures, are
        divided by the group's channels then, once a picture. The divisor is 1 if there is none."""
        terms = sorted(x.terms, key=lambda term: -abs(term[1]))
        unit = n
        for k in range(1, len(terms)):
            unit = math.gcd(unit, terms[k - 1][1])
            if unit == 1:
                break
            fine = self._make(terms[k:], x.const % unit)
            low, high = (fine, fine) if isinstance(fine, int) else (fine.lo, fine.hi)
            coarse = self._make([(leaf, c // unit) for leaf, c in terms[:k]], x.const // unit)
            if 0 <= low and high < unit and (coarse if isinstance(coarse, int) else coarse.lo) >= 0:
                return unit, coarse, fine
        return 1, x, 0

    def divided(self, x: Index, n: int) -> Any:
        """x / n, or False if that is no integer; None if it depends on variables which it is."""
        if isinstance(x, int):
            return False if x % n else x // n
        if any(c % n for _, c in x.terms):
            return None
        if x.const % n:
            return False
        return self._make([(leaf, c // n) for leaf, c in x.terms], x.const // n)

    def mod(self, x: Index, n: int) -> Index:
        """Remainder of an index that is >= 0."""
        if n == 1:
            return 0
        if isinstance(x, int):
            return x % n
        if 0 <= x.lo and x.lo // n == x.hi // n:
            return self.linear([(x, 1), (-(x.lo // n) * n, 1)])
        inner = self._make([(leaf, c) for leaf, c in x.terms if c % n], x.const % n)
        low, high = (inner, inner) if isinstance(inner, int) else (inner.lo, inner.hi)
        if low >= 0 and high < n:
            return inner
        base = inner if low >= 0 and isinstance(inner, Ix) else x
        unit, coarse, fine = self._in_units(base, n)
        if unit > 1:
            return self.linear([(self.mod(coarse, n // unit), unit), (fine, 1)])
        if len(base.terms) == 1 and not base.const and base.terms[0][1] == 1:
            leaf = base.terms[0][0]
            if leaf.kind == "mod" and leaf.by % n == 0:
                return self.mod(leaf.base, n)
            if leaf.kind == "var" and base.hi < n * FEW_TURNS:
                self.turns.setdefault(leaf, set()).update(range(n, base.hi + 1, n))
            elif leaf.kind == "var":
                self.periods[leaf] = math.lcm(self.periods.get(leaf, 1), n)
        return self.leaf("mod", None, base, n, base.level, 0, min(n - 1, base.hi))

    def unravel(self, x: Index, shape: Sequence[int]) -> tuple[Index, ...]:
        """Row-major coordinates of a linear index."""
        out: list[Index] = []
        rest = x
        for n in reversed(shape[1:]):
            out.append(self.mod(rest, n) if n else 0)
            rest = self.div(rest, n) if n else 0
        return (rest, *reversed(out)) if shape else ()

    def ravel(self, idx: Sequence[Index], shape: Sequence[int]) -> Index:
        """Row-major linear index."""
        stride, parts = 1, []
        for i, n in zip(reversed(idx), reversed(shape), strict=True):
            if n != 1:
                parts.append((i, stride))
            stride *= n
        return self.linear(parts)


def _leaf_order(term: tuple[Leaf, int]) -> int:
    return term[0].number
