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
import operator
import threading
from collections.abc import Sequence
from operator import floordiv
from typing import Any, Union

import numpy as np

from ..dtypes import default_int
from ..errors import InconclusiveDimensionOperation
from .avals import ShapedArray

__all__ = [
    "Dim",
    "DimExpr",
    "Scope",
    "as_number",
    "bounds",
    "evaluate",
    "is_constant_dim",
    "max_dim",
    "min_dim",
    "names_of",
    "symbolic_dims",
    "terms_of",
]

Dim = Union[int, "DimExpr"]
Bound = float  # an int, or an infinity


class Atom:
    """A factor: a named size, or an operation that polynomials cannot express."""

    __slots__ = ("args", "key", "name", "scope")

    def __init__(self, name: str, args: tuple[Dim, ...] = (), scope: Scope | None = None) -> None:
        self.name, self.args = name, args
        scopes = (a.scope for a in args if isinstance(a, DimExpr))
        self.scope: Scope | None = scope or next(scopes, None)
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
            return (self.scope._lower.get(self.name, 1) if self.scope else 1), (
                self.scope._upper.get(self.name, math.inf) if self.scope else math.inf
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

    __slots__ = ("_equal", "_lower", "_promises", "_upper")

    def __init__(self) -> None:
        self._lower: dict[str, int] = {}
        self._upper: dict[str, int] = {}
        self._equal: dict[str, Any] = {}  # what stands in place of an atom, by the atom's key
        self._promises: list[DimExpr] = []  # expressions that are at least 0


Monomial = tuple[tuple[Atom, int], ...]


class DimExpr:
    """A symbolic size. Arithmetic gives sizes; a constant result is an int."""

    __slots__ = ("_hash", "scope", "terms")
    is_symbolic_dim = True
    __array_priority__ = 1000
    __array_ufunc__ = None  # NumPy's arrays leave arithmetic with sizes to them

    def __init__(self, terms: dict[Monomial, int], scope: Scope | None = None) -> None:
        self.scope = scope or next((a.scope for m in terms for a, _ in m if a.scope), None)
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
        if isinstance(other, np.ndarray) or (_computes(other) and hasattr(other, "aval")):
            return _number(operator.eq, self, other)  # type: ignore[no-any-return]
        return (
            isinstance(other, DimExpr) and self.terms == other.terms and self.scope is other.scope
        )

    def __ne__(self, other: object) -> bool:
        same = self == other
        return not same if isinstance(same, bool) else _number(operator.ne, self, other)

    # --- arithmetic: with integers a size, with other numbers the number that the size has ---
    def __add__(self, other: Any) -> Any:
        return _combine(self, other, 1) if _is_dim(other) else _number(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self + other if _is_dim(other) else _number(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _combine(self, other, -1) if _is_dim(other) else _number(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combine(-self, other, 1) if _is_dim(other) else _number(operator.sub, other, self)

    def __neg__(self) -> Any:
        return _make({m: -c for m, c in self.terms})

    def __mul__(self, other: Any) -> Any:
        if not _is_dim(other):
            return _number(operator.mul, self, other)
        _check_scopes(self, other)
        total: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in terms_of(other):
                m = _times(m1, m2)
                total[m] = total.get(m, 0) + c1 * c2
        return _make(total)

    def __rmul__(self, other: Any) -> Any:
        return self * other if _is_dim(other) else _number(operator.mul, other, self)

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int):
            return _number(operator.pow, self, power)
        if power < 0:
            raise ValueError(
                f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{power}'"
            )
        out: Any = 1
        for _ in range(power):
            out = out * self
        return out

    def __rpow__(self, base: Any) -> Any:
        return _number(operator.pow, base, self, of_any=True)

    def __truediv__(self, other: Any) -> Any:
        return _number(operator.truediv, self, other, of_any=True)

    def __rtruediv__(self, other: Any) -> Any:
        return _number(operator.truediv, other, self, of_any=True)

    def __floordiv__(self, other: Any) -> Any:
        return _divide(self, other)[0] if _is_dim(other) else _number(floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divide(other, self)[0] if _is_dim(other) else _number(floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return _divide(self, other)[1] if _is_dim(other) else _number(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _divide(other, self)[1] if _is_dim(other) else _number(operator.mod, other, self)

    def __divmod__(self, other: Any) -> Any:
        return _divide(self, other) if _is_dim(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return _divide(other, self) if _is_dim(other) else NotImplemented

    # --- order: decided by bounds, or not at all ---
    def __ge__(self, other: Any) -> bool:
        return self._is(">=", other, 0) if _is_dim(other) else _number(operator.ge, self, other)

    def __gt__(self, other: Any) -> bool:
        return self._is(">", other, 1) if _is_dim(other) else _number(operator.gt, self, other)

    def __le__(self, other: Any) -> bool:
        return self._is("<=", other, 0) if _is_dim(other) else _number(operator.le, self, other)

    def __lt__(self, other: Any) -> bool:
        return self._is("<", other, 1) if _is_dim(other) else _number(operator.lt, self, other)

    def _is(self, sign: str, other: Any, least: int) -> bool:
        """Is the difference at least so much?"""
        difference = (self - other if sign[0] == ">" else other - self) - least
        low, high = bounds(difference)
        if low >= 0:
            return True
        if high < 0:
            return False
        bound = other + least if sign[0] == ">" else other - least
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' {sign} '{other}' is inconclusive: it holds "
            "for some sizes and not for others. Fix: promise it, symbolic_shape(..., "
            f"constraints=['{self} {sign[0]}= {bound}']), or avoid the comparison."
        )

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


as_number: list[Any] = []  # what writes the number that a size has into the program at hand


def _computes(x: Any) -> bool:
    """Is it a number or an array that is no size?"""
    numbers = (float, complex, np.inexact, np.ndarray)
    return isinstance(x, numbers) or (hasattr(x, "aval") and not isinstance(x, DimExpr))


def _number(op: Any, a: Any, b: Any, of_any: bool = False) -> Any:
    """Arithmetic of sizes that gives no size: on the numbers that they have."""
    other = b if isinstance(a, DimExpr) else a
    if not (of_any if _is_dim(other) else _computes(other)):
        return NotImplemented
    return op(*(as_number[0](x) if isinstance(x, DimExpr) else x for x in (a, b)))


def _check_scopes(a: Any, b: Any) -> None:
    if not (isinstance(a, DimExpr) and isinstance(b, DimExpr)) or a.scope is b.scope:
        return
    raise ValueError(
        f"Invalid mixing of symbolic scopes for linear combination.\nExpected scope {a.scope}\n"
        f"and found for '{b}' scope {b.scope}\n"
        "Fix: name the sizes in one call of symbolic_shape, or pass it `scope`."
    )


def _order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return sum(p for _, p in monomial), tuple(a.key for a, p in monomial for _ in range(p))


def terms_of(x: Any) -> Sequence[tuple[Monomial, int]]:
    return x.terms if isinstance(x, DimExpr) else (((), int(x)),)


def _make(terms: dict[Monomial, int]) -> Any:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return DimExpr(kept)


def _combine(a: Any, b: Any, sign: int) -> Any:
    _check_scopes(a, b)
    total = dict(terms_of(a))
    for m, c in terms_of(b):
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
        raise ZeroDivisionError("integer division or modulo by zero")
    _check_scopes(a, b)
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
    divisor = terms_of(b)
    if len(divisor) != 1:
        exact = _exact_quotient(a, b)
        return (0, a) if exact is None else (exact, 0)
    (monomial, c) = divisor[0]
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, k in terms_of(a):
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


def _exact_quotient(a: Any, b: Any) -> Any:
    """The polynomial that `b`, of several terms, must be multiplied by to give `a`; None if there
    is none."""
    (lead, k), quotient = terms_of(b)[0], 0
    for _ in range(8):
        if not isinstance(a, DimExpr):
            return quotient if a == 0 else None
        monomial, c = a.terms[0]
        powers = dict(monomial)
        for atom, p in lead:
            powers[atom] = powers.get(atom, 0) - p
        if c % k or min(powers.values(), default=0) < 0:
            return None
        left = tuple((atom, p) for atom, p in sorted(powers.items(), key=lambda i: i[0].key) if p)
        part = _make({left: c // k})
        quotient, a = quotient + part, a - part * b
    return None


def _atom(name: str, *args: Any) -> Any:
    atom = Atom(name, args)
    if atom.scope is not None and atom.key in atom.scope._equal:
        return atom.scope._equal[atom.key]
    return DimExpr({((atom, 1),): 1})


def bounds(x: Any) -> tuple[Bound, Bound]:
    """(least, greatest) value that a size can have, as far as the promises of its scope say."""
    low, high = _alone(x)
    promised = isinstance(x, DimExpr) and x.scope is not None and x.scope._promises
    if promised and not _search.running:  # it makes sizes, and asks for the bounds of some
        _search.running = True
        try:
            low = max(low, _least(x, [MOST_COMBINATIONS]))
            high = min(high, -_least(-x, [MOST_COMBINATIONS]))
        finally:
            _search.running = False
    return low, high


class _Search(threading.local):
    """Is this thread looking for a bound by promises?"""

    running = False


_search = _Search()
MOST_COMBINATIONS = 200  # of promises that are tried for a bound


def _alone(x: Any) -> tuple[Bound, Bound]:
    """Bounds that follow from those of an expression's terms."""
    low, high = _bounds(x)
    for monomial, c in terms_of(x):
        if len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].args:
            other = _bounds_by(x, monomial, c)
            if other:
                return max(low, other[0]), min(high, other[1])
    return low, high


def _bounds_by(x: Any, monomial: Monomial, c: int) -> tuple[Bound, Bound] | None:
    """Bounds that are tighter because an operation's operands stand beside it: k * floordiv(e, k)
    is e - mod(e, k), and a maximum is one of its operands.
    """
    a, b = monomial[0][0].args
    rest = _make({m: d for m, d in terms_of(x) if m != monomial})
    match monomial[0][0].name:
        case "floordiv" if isinstance(b, int) and b > 0:
            low, high = _alone(b * rest + c * (a - a % b))
            return low if math.isinf(low) else -(-low // b), high if math.isinf(high) else high // b
        case "max" | "min" as name:
            (alow, ahigh), (blow, bhigh) = _alone(rest + c * a), _alone(rest + c * b)
            best = max if (name == "max") == (c > 0) else min
            return best(alow, blow), best(ahigh, bhigh)
    return None


def _least(x: Any, left: list[int], depth: int = 6) -> Bound:
    """The least value of an expression under the promises p >= 0 of its scope: as s * x is at least
    s * x - t * p, where s and t are such that a term is gone. `left`: how many may be tried."""
    low = _alone(x)[0]
    if not isinstance(x, DimExpr) or not depth or x.scope is None:
        return low
    terms = dict(x.terms)
    for p in x.scope._promises:
        for monomial, c in p.terms:
            d = terms.get(monomial, 0)
            if monomial == () or c * d <= 0 or not left[0]:
                continue
            left[0] -= 1
            s, t = abs(c) // math.gcd(c, d), abs(d) // math.gcd(c, d)
            found = _least(s * x - t * p, left, depth - 1)
            low = max(low, found if math.isinf(found) else -(-found // s))
    return low


def _bounds(x: Any) -> tuple[Bound, Bound]:
    low: Bound = 0
    high: Bound = 0
    for monomial, c in terms_of(x):
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
    return tuple(
        scope._equal.get(name, None) or DimExpr({((Atom(name, (), scope), 1),): 1})
        for name in names
    )


def evaluate(d: Any, sizes: dict[str, int]) -> int:
    """The number that a size is when the named sizes have these values. KeyError for a name without
    one.
    """
    if not isinstance(d, DimExpr):
        return int(d)
    return sum(c * math.prod(_value(a, sizes) ** p for a, p in m) for m, c in d.terms)


def names_of(d: Any) -> set[str]:
    """The named sizes that a size depends on."""
    found: set[str] = set()
    for monomial, _ in terms_of(d):
        for atom, _ in monomial:
            found |= set().union(*map(names_of, atom.args)) if atom.args else {atom.name}
    return found


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
