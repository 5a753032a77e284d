"""Symbolic sizes: integer polynomials over named sizes that are at least 1, with floordiv, mod,
max, min.

    dim = int | DimExpr;  DimExpr = sum of coefficient * atom^power * ...;  atom = name |
    floordiv(dim, dim) | ...

Ordinary programs have int sizes only and never come here. Equality of two sizes is whether they are
the same expression; an order that does not hold for all values raises
InconclusiveDimensionOperation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ..dtypes import default_int
from ..errors import InconclusiveDimensionOperation
from .avals import ShapedArray

__all__ = [
    "Dim",
    "DimExpr",
    "evaluate",
    "is_constant_dim",
    "max_dim",
    "min_dim",
    "symbolic_dims",
    "symbolic_shape",
]

Dim = Union[int, "DimExpr"]
Bound = float  # an int, or an infinity


class Atom:
    """A factor: a named size, or an operation that polynomials cannot express."""

    __slots__ = ("args", "key", "name", "scope")

    def __init__(self, name: str, args: tuple[Dim, ...] = (), scope: Scope | None = None) -> None:
        self.name, self.args, self.scope = name, args, scope
        self.key = f"{name}({', '.join(map(str, args))})" if args else name

    def __repr__(self) -> str:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def bounds(self) -> tuple[Bound, Bound]:
        """(least, greatest) value."""
        if not self.args:
            return (self.scope.lower.get(self.name, 1) if self.scope else 1), (
                self.scope.upper.get(self.name, math.inf) if self.scope else math.inf
            )
        (alo, ahi), (blo, bhi) = bounds(self.args[0]), bounds(self.args[1])
        if self.name == "max":
            return max(alo, blo), max(ahi, bhi)
        if self.name == "min":
            return min(alo, blo), min(ahi, bhi)
        if self.name == "mod":
            return (0, bhi - 1) if blo > 0 else (blo + 1, 0) if bhi < 0 else (-math.inf, math.inf)
        if blo > 0:
            corners = [_floordiv(x, y) for x in (alo, ahi) for y in (blo, bhi)]
            return min(corners), max(corners)
        return -math.inf, math.inf


def _floordiv(x: Bound, y: Bound) -> Bound:
    if math.isinf(x):
        return x if not math.isinf(y) else (0 if x > 0 else -1)
    return (0 if x >= 0 else -1) if math.isinf(y) else x // y


class Scope:
    """The sizes that were named together, and what is promised of them."""

    def __init__(self) -> None:
        self.lower: dict[str, int] = {}
        self.upper: dict[str, int] = {}


Monomial = tuple[tuple[Atom, int], ...]


class DimExpr:
    """A symbolic size. Arithmetic gives sizes; a constant result is an int."""

    __slots__ = ("_hash", "terms")
    is_symbolic_dim = True
    __array_priority__ = 1000

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = tuple(sorted(terms.items(), key=lambda t: _order(t[0]), reverse=True))
        self._hash = hash(frozenset(self.terms))

    @property
    def aval(self) -> ShapedArray:
        """The type of its value in a program."""
        return ShapedArray((), default_int(), weak_type=True)

    def __repr__(self) -> str:
        parts: list[str] = []
        for monomial, c in self.terms:
            sign = "- " if c < 0 else "+ " if parts else ""
            factors = [f"{a}^{p}" if p > 1 else str(a) for a, p in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            parts.append(sign + "*".join(factors))
        return " ".join(parts)

    __str__ = __repr__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimExpr) and self.terms == other.terms

    # --- arithmetic ---
    def __add__(self, other: Any) -> Any:
        return _combine(self, other, 1) if _is_dim(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _combine(self, other, -1) if _is_dim(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return _combine(-self, other, 1) if _is_dim(other) else NotImplemented

    def __neg__(self) -> Any:
        return _make({m: -c for m, c in self.terms})

    def __mul__(self, other: Any) -> Any:
        if not _is_dim(other):
            return NotImplemented
        total: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in _terms(other):
                m = _times(m1, m2)
                total[m] = total.get(m, 0) + c1 * c2
        return _make(total)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        if not isinstance(power, int) or power < 0:
            raise InconclusiveDimensionOperation(
                f"Symbolic dimension cannot be raised to the power {power!r}"
            )
        out: Any = 1
        for _ in range(power):
            out = out * self
        return out

    def __floordiv__(self, other: Any) -> Any:
        return _divide(self, other)[0] if _is_dim(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return _divide(other, self)[0] if _is_dim(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return _divide(self, other)[1] if _is_dim(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return _divide(other, self)[1] if _is_dim(other) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return _divide(self, other) if _is_dim(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return _divide(other, self) if _is_dim(other) else NotImplemented

    # --- order: decided by bounds, or not at all ---
    def __ge__(self, other: Any) -> bool:
        low, high = bounds(self - other)
        if low >= 0:
            return True
        if high < 0:
            return False
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' >= '{other}' is inconclusive: it holds for "
            "some sizes and not for others. "
            f"Fix: promise it, symbolic_shape(..., constraints=['{self} >= {other}']), or avoid "
            "the comparison."
        )

    def __gt__(self, other: Any) -> bool:
        return self >= other + 1  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> bool:
        return bool(-self >= -other)

    def __lt__(self, other: Any) -> bool:
        return self <= other - 1  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0:
            return True
        raise InconclusiveDimensionOperation(
            f"Whether the symbolic dimension '{self}' is zero is inconclusive."
        )

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant. "
            "Fix: use it in shapes and size arithmetic only."
        )


def _is_dim(x: Any) -> bool:
    return isinstance(x, (int, DimExpr, np.integer))


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return sum(p for _, p in monomial), tuple(a.key for a, p in monomial for _ in range(p))


def _terms(x: Any) -> Sequence[tuple[Monomial, int]]:
    return x.terms if isinstance(x, DimExpr) else (((), int(x)),)


def _make(terms: dict[Monomial, int]) -> Any:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return DimExpr(kept)


def _combine(a: Any, b: Any, sign: int) -> Any:
    total = dict(_terms(a))
    for m, c in _terms(b):
        total[m] = total.get(m, 0) + sign * c
    return _make(total)


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def _divide(a: Any, b: Any) -> tuple[Any, Any]:
    """(a // b, a % b): terms that b divides come out, the rest stays under the operation."""
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError("symbolic dimension divided by zero")
    quotient, rest = _split_multiples(a, b)
    if not isinstance(rest, DimExpr) and not isinstance(b, DimExpr):
        q, r = divmod(rest, b)
        return quotient + q, r
    if not isinstance(rest, DimExpr) and rest == 0:
        return quotient, 0
    low, high = bounds(rest)
    blow, _ = bounds(b)
    if low >= 0 and high < blow:
        return quotient, rest
    return quotient + _atom("floordiv", rest, b), _atom("mod", rest, b)


def _split_multiples(a: Any, b: Any) -> tuple[Any, Any]:
    """a = quotient * b + rest, with every term that a one-term b divides in the quotient."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return (1, 0) if a == b else (0, a)
    (monomial, c) = divisor[0]
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in _terms(a):
        powers = dict(m)
        fits = all(powers.get(atom, 0) >= p for atom, p in monomial)
        if not fits:
            rest[m] = k
            continue
        for atom, p in monomial:
            powers[atom] -= p
        left = tuple((atom, p) for atom, p in sorted(powers.items(), key=lambda i: i[0].key) if p)
        if m == () or k % c == 0 or monomial:
            q, r = divmod(k, c)
            if q:
                quotient[left] = q
            if r:
                rest[m] = r
        else:
            q, r = divmod(k, c)
            if q:
                quotient[left] = q
            rest[m] = r
    return _make(quotient), _make(rest)


def _atom(name: str, *args: Any) -> Any:
    return DimExpr({((Atom(name, args), 1),): 1})


def bounds(x: Any) -> tuple[Bound, Bound]:
    """(least, greatest) value that a size can have."""
    low: Bound = 0
    high: Bound = 0
    for monomial, c in _terms(x):
        mlow: Bound = 1
        mhigh: Bound = 1
        for atom, p in monomial:
            alow, ahigh = atom.bounds()
            for _ in range(p):
                corners = [_product(u, v) for u in (mlow, mhigh) for v in (alow, ahigh)]
                mlow, mhigh = min(corners), max(corners)
        low += c * (mlow if c > 0 else mhigh)
        high += c * (mhigh if c > 0 else mlow)
    return low, high


def _product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def max_dim(a: Dim, b: Dim) -> Any:
    """The larger of two sizes."""
    return _choose("max", a, b)


def min_dim(a: Dim, b: Dim) -> Any:
    """The smaller of two sizes."""
    return _choose("min", a, b)


def _choose(name: str, a: Any, b: Any) -> Any:
    if not isinstance(a, DimExpr) and not isinstance(b, DimExpr):
        return max(a, b) if name == "max" else min(a, b)
    low, high = bounds(a - b)
    if low >= 0:
        return a if name == "max" else b
    if high <= 0:
        return b if name == "max" else a
    return _atom(name, a, b)


def is_constant_dim(d: Any) -> bool:
    """Is a size a number?"""
    return not isinstance(d, DimExpr)


def symbolic_dims(*names: str, scope: Scope | None = None) -> tuple[DimExpr, ...]:
    """Named sizes, each at least 1."""
    scope = scope or Scope()
    return tuple(DimExpr({((Atom(name, (), scope), 1),): 1}) for name in names)


_TOKEN = r"\s*(?:(\d+)|([A-Za-z_][A-Za-z_0-9]*)|(\.\.\.|[-+*^(),]))"


class _Parser:
    """Reads `2*n, floordiv(m, 2) + 1` as sizes."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope, self.at = text, scope, 0

    def peek(self) -> str:
        found = re.match(_TOKEN, self.text[self.at :])
        return found.group().strip() if found else ""

    def next(self) -> str:
        found = re.match(_TOKEN, self.text[self.at :])
        if not found:
            left = self.text[self.at :].strip()
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r}: unexpected {left or 'end'!r}"
            )
        self.at += found.end()
        return found.group().strip()

    def expect(self, token: str) -> None:
        got = self.peek()
        if got != token:
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r}: expected {token!r}, found "
                f"{got or 'the end'!r}"
            )
        self.next()

    def shape(self, like: Sequence[Any] | None) -> tuple[Any, ...]:
        sizes: list[Any] = []
        closing = self.peek() == "("
        if closing:
            self.next()
        while self.peek() not in ("", ")"):
            if self.peek() == "...":
                self.next()
                if like is None:
                    raise ValueError(
                        f"symbolic shape {self.text!r} has '...' but no `like` to fill it from"
                    )
                sizes += like[len(sizes) :]
            elif self.peek() == "_":
                self.next()
                if like is None:
                    raise ValueError(
                        f"symbolic shape {self.text!r} has '_' but no `like` to fill it from"
                    )
                sizes.append(like[len(sizes)])
            else:
                sizes.append(self.sum())
            if self.peek() != ",":
                break
            self.next()
        if closing:
            self.expect(")")
        if self.peek() or self.text[self.at :].strip():
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r}: unexpected "
                f"{self.text[self.at :].strip()!r}"
            )
        return tuple(sizes)

    def sum(self) -> Any:
        negative = self.peek() == "-"
        if negative:
            self.next()
        total = -self.product() if negative else self.product()
        while self.peek() in ("+", "-"):
            sign = self.next()
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Any:
        total = self.power()
        while self.peek() == "*":
            self.next()
            total = total * self.power()
        return total

    def power(self) -> Any:
        base = self.factor()
        if self.peek() == "^":
            self.next()
            return base ** int(self.next())
        return base

    def factor(self) -> Any:
        token = self.next()
        if token.isdigit():
            return int(token)
        if token in ("floordiv", "mod", "max", "min"):
            self.expect("(")
            a = self.sum()
            self.expect(",")
            b = self.sum()
            self.expect(")")
            return {"floordiv": lambda: a // b, "mod": lambda: a % b, "max": lambda: max_dim(a, b),
                    "min": lambda: min_dim(a, b)}[token]()  # fmt: skip
        if not token.isidentifier():
            raise ValueError(f"syntax error in symbolic shape {self.text!r}: unexpected {token!r}")
        return symbolic_dims(token, scope=self.scope)[0]


def symbolic_shape(
    text: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: Scope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """The sizes that a text names: `symbolic_shape("b, 2*n")`. `constraints` are promises such as
    `"b >= 8"`.

    >>> symbolic_shape("b, 2*n")
    (b, 2*n)

    Raises ValueError for text that is no list of sizes.
    """
    scope = scope or Scope()
    for c in constraints:
        _promise(c, scope)
    return _Parser("..." if text is None else text, scope).shape(like)


def _promise(text: str, scope: Scope) -> None:
    found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==)\s*(\d+)\s*", text)
    if not found:
        raise ValueError(
            f"a constraint compares a named size with a number, such as 'n >= 8'; got {text!r}"
        )
    name, op, number = found.group(1), found.group(2), int(found.group(3))
    if op in (">=", "=="):
        scope.lower[name] = max(scope.lower.get(name, 1), number)
    if op in ("<=", "=="):
        scope.upper[name] = min(scope.upper.get(name, number), number)


def evaluate(d: Any, sizes: dict[str, int]) -> int:
    """The number that a size is when the named sizes have these values. KeyError for a name without
    one.
    """
    if not isinstance(d, DimExpr):
        return int(d)
    return sum(c * math.prod(_value(a, sizes) ** p for a, p in m) for m, c in d.terms)


def _value(atom: Atom, sizes: dict[str, int]) -> int:
    if not atom.args:
        return sizes[atom.name]
    a, b = (evaluate(x, sizes) for x in atom.args)
    return {
        "floordiv": lambda: a // b,
        "mod": lambda: a % b,
        "max": lambda: max(a, b),
        "min": lambda: min(a, b),
    }[atom.name]()
