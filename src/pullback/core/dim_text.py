"""Symbolic sizes as users write them: shapes as text, and promises about their sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from .dims import DimExpr, Scope, bounds, is_constant_dim, max_dim, min_dim, symbolic_dims, terms_of
from .source import user_summary

__all__ = ["SymbolicScope", "is_symbolic_dim", "symbolic_shape"]

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
            raise self.unexpected()
        self.at += found.end()
        return found.group().strip()

    def unexpected(self) -> ValueError:
        left = self.text[self.at :].strip()
        return ValueError(
            f"syntax error in symbolic shape {self.text!r}: unexpected {left or 'end'!r}"
        )

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
        closing = 0
        while self.peek() == "(":
            self.next()
            closing += 1
        while self.peek() not in ("", ")"):
            if self.peek() == "...":
                self.next()
                like = self.filled(like, len(sizes), "...")
                sizes += like[len(sizes) :]
            elif self.peek() == "_":
                self.next()
                like = self.filled(like, len(sizes), "_")
                sizes.append(like[len(sizes)])
            else:
                sizes.append(self.sum())
            if self.peek() != ",":
                break
            self.next()
        for _ in range(closing):
            self.expect(")")
        if self.peek() or self.text[self.at :].strip():
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r}: unexpected "
                f"{self.text[self.at :].strip()!r}"
            )
        if like is not None:
            for k, (d, known) in enumerate(zip(sizes, like, strict=False)):
                if isinstance(d, int) and known is not None and d != known:
                    raise ValueError(
                        f"syntax error in symbolic shape {self.text!r} in dimension {k}: "
                        f"different size {d} for known dimension; like={tuple(like)}"
                    )
        return tuple(sizes)

    def filled(self, like: Sequence[Any] | None, k: int, token: str) -> Sequence[Any]:
        if like is None:
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r} in dimension {k}: spec contains ... "
                "but no 'like' shape was given. Fix: pass like=array.shape."
            )
        if len(like) < k + (token == "_"):
            raise ValueError(
                f"syntax error in symbolic shape {self.text!r} in dimension {k}: cannot resolve "
                f"placeholder {token!r} because we parsed {k} already and 'like' shape has only "
                f"{len(like)} dimensions"
            )
        return like

    def expression(self) -> Any:
        found = self.sum()
        if self.text[self.at :].strip():
            self.expect("")
        return found

    def sum(self) -> Any:
        negative = self.peek() == "-"
        if self.peek() in ("-", "+"):
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
            if not self.peek().isdigit():
                raise self.unexpected()
            return base ** int(self.next())
        return base

    def factor(self) -> Any:
        token = self.next()
        if token.isdigit():
            return int(token)
        if token == "-":
            return -self.factor()
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


class SymbolicScope(Scope):
    """The sizes that are named together, and what is promised of them.

    `constraints_str`: promises of the form `e1 >= e2`, `e1 <= e2` or `e1 == e2`. Sizes of
    different scopes do not mix. Raises ValueError for a text of another form.

    >>> from pullback import export
    >>> scope = export.SymbolicScope(["n >= 8", "mod(n, 4) == 0"])
    >>> (n,) = export.symbolic_shape("n", scope=scope)
    >>> n >= 8, n % 4
    (True, 0)
    """

    __slots__ = ("_text", "_where")

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str) or not all(isinstance(c, str) for c in constraints_str):
            raise ValueError(
                "The symbolic constraints should be a sequence of strings. "
                f"Got {constraints_str!r}. Fix: pass a list, ['n >= 8']."
            )
        super().__init__()
        self._text = tuple(constraints_str)
        self._where = user_summary()
        for c in constraints_str:
            _promise(c, self)

    def __str__(self) -> str:
        at = f" created at {self._where}" if self._where else ""
        lines = "".join(f"\n  {c}" for c in self._text)
        return f"{id(self)}{at}" + (f" with constraints:{lines}" if lines else "")

    __repr__ = __str__


def is_symbolic_dim(p: Any) -> bool:
    """Is a size symbolic?

    >>> from pullback import export
    >>> [export.is_symbolic_dim(n) for n in export.symbolic_shape("b, 4")]
    [True, False]
    """
    return not is_constant_dim(p)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: Scope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """The sizes that a text names: `symbolic_shape("b, 2*n")`. `constraints` are promises such as
    `"b >= 8"`.

    Sizes with one name are equal if they have one `scope`; without one, each call makes its own.
    `like`: the sizes that stand for `_` and `...` in the text, and that numbers must equal. Raises
    ValueError for text that is no list of sizes.

    >>> from pullback import export
    >>> export.symbolic_shape("b, 2*n")
    (b, 2*n)
    >>> export.symbolic_shape("b, ...", like=(3, 4))
    (b, 4)
    """
    if scope is not None and constraints:
        raise ValueError(
            "Cannot specify both a `scope` and `constraints`. "
            "Fix: give the constraints to SymbolicScope."
        )
    scope = scope or SymbolicScope(constraints)
    return _Parser("..." if shape_spec is None else shape_spec, scope).shape(like)


def _promise(text: str, scope: Scope) -> None:
    found = re.fullmatch(r"([^=<>]+)(>=|<=|==)([^=<>]+)", text)
    if not found:
        raise ValueError(
            "Constraint parsing error: must contain one of '==' or '>=' or '<='. "
            f"Got {text!r}. Fix: write promises such as 'n >= 8'."
        )
    left, right = (_Parser(side, scope).expression() for side in found.group(1, 3))
    if found.group(2) == "==":
        return _promise_equal(text, left, right, scope)
    return _promise_order(text, left - right if found.group(2) == ">=" else right - left, scope)


def _promise_order(text: str, more: Any, scope: Scope) -> None:
    """From now on an expression is at least 0."""
    if not isinstance(more, DimExpr):
        if more < 0:
            raise ValueError(f"Unsatisfiable explicit constraint: {text}")
        return None
    low, high = bounds(more)
    if high < 0:
        raise ValueError(f"Unsatisfiable constraint: {text}")
    if low >= 0:
        return None
    more = _rounded(more)
    scope._promises.append(more)
    (monomial, c), *others = more.terms
    if len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].args and abs(c) == 1:
        name = monomial[0][0].name
        if not others or (len(others) == 1 and others[0][0] == ()):
            constant = others[0][1] if others else 0
            if c > 0:
                scope._lower[name] = max(scope._lower.get(name, 1), -constant)
            else:
                scope._upper[name] = min(scope._upper.get(name, constant), constant)
    return None


def _rounded(more: DimExpr) -> Any:
    """What must be at least 0 if an expression must, and has no common factor: 2*n - 5 is n - 3."""
    divisor = math.gcd(*(c for monomial, c in more.terms if monomial))
    constant = dict(more.terms).get((), 0)
    return (more - constant) // divisor + constant // divisor


def _promise_equal(text: str, left: Any, right: Any, scope: Scope) -> None:
    """From now on the right side stands in place of the left one: a name or an operation."""
    if not isinstance(left - right, DimExpr) and left != right:
        raise ValueError(f"Unsatisfiable explicit constraint: {text}")
    terms = terms_of(left)
    if len(terms) != 1:
        raise ValueError(
            f"Invalid equality constraint: {text}. The left-hand-side must be of the form `term`. "
            "Fix: write a name or an operation there, 'n == 2*m', 'mod(n, 2) == 0'."
        )
    (monomial, c) = terms[0]
    if c == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        atom = monomial[0][0]
        scope._equal[atom.key] = right
        if atom.name in ("max", "min"):  # no operand is beyond it
            for x in atom.args:
                _promise_order(text, right - x if atom.name == "max" else x - right, scope)
        return
    _promise_order(text, left - right, scope)
    _promise_order(text, right - left, scope)
