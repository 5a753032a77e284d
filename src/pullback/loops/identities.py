"""Identities, of integers and booleans mostly: operations on values of known making, as simpler
ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback.loops.ir import Atom, Const, Var
from pullback.loops.ops import BITS, BOOL, FLOATS, INTS, SIGNED

__all__ = ["Simpler", "is_known", "simpler"]

Simpler = Atom | tuple[str, tuple[Atom, ...], str]  # an operand, or (operator, operands, dtype)
Made = Mapping[Any, tuple[str, tuple[Atom, ...]]]

TRUE, FALSE = Const(True, "bool"), Const(False, "bool")
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
_OF_LITERALS = {**_COMPARED, "and": operator.and_, "or": operator.or_}
_TOTAL = frozenset(("lt_total", "le_total", "eq_total"))  # one zero, one NaN
_ASKED = frozenset((*_COMPARED, *_TOTAL, "convert", "sign", "and", "or", "not", "select", "add"))
_KEPT = frozenset(("convert", "not", "lt", "ne", "sign", "rem", "div", "sub", "add"))
_WHOLE = frozenset((*INTS, *BOOL))


def is_known(op: str, args: Sequence[Atom], attrs: Sequence[tuple[str, Any]] = ()) -> bool:
    """Whether the definition of a value is of use to `simpler`."""
    if args[0].dtype in FLOATS:
        return op in ("eq", "ne") or _is_square(op, args, attrs)
    if op == "select" and args[1].dtype in FLOATS:
        return isinstance(args[1], Const)
    return op in _KEPT and args[0].dtype in _WHOLE


def _is_square(op: str, args: Sequence[Atom], attrs: Sequence[tuple[str, Any]]) -> bool:
    """Whether a float is an even power, which is no negative zero."""
    if op == "mul":
        return args[0] == args[1]
    return op == "integer_pow" and dict(attrs)["y"] % 2 == 0


def simpler(op: str, args: tuple[Atom, ...], dtype: str, made: Made) -> Simpler | None:
    """What op(args) of a dtype is in fewer operations, if it is known. `made` has definitions.

    x // c and x % c of numpy for a positive literal c are quotients and remainders that truncate
    and are corrected where the remainder is negative: for powers of two, a shift and a mask.
    """
    if op not in _ASKED:
        return None
    x = args[0]
    if op == "add":
        return _beside_zero(x, args[1], made) if x.dtype in FLOATS else None
    if op == "select":
        return _select(args[0], args[1], args[2], made)
    if op in _TOTAL:
        plain = tuple(_plain(v, made) for v in args)
        return (op, plain, dtype) if plain != args else None
    if x.dtype not in _WHOLE:
        return None
    if op == "convert":
        return _converted(x, dtype) if isinstance(x, Const) and dtype in _WHOLE else None
    if op == "sign":
        if not isinstance(x, Const) or x.dtype not in SIGNED:
            return None
        return Const((x.value > 0) - (x.value < 0), x.dtype)
    if x.dtype == "bool":
        return _of_booleans(op, args, made)
    return _comparison(op, x, args[1], made) if op in _COMPARED else None


def _plain(x: Atom, made: Made) -> Atom:
    """What a float was before its zeros, or NaNs, were made one: an order in which these are equal
    needs none of that."""
    chosen = _definition(x, "select", made)
    if chosen is None:
        return x
    test, literal, other = chosen
    assert isinstance(literal, Const)
    source, value = _plain(other, made), float(literal.value)
    bad = value != value
    asked = ("ne", (source, source)) if bad else ("eq", (source, Const(0.0, x.dtype)))
    return source if (bad or value == 0) and made.get(test) == asked else x


def _beside_zero(x: Atom, y: Atom, made: Made) -> Atom | None:
    """0.0 + y is y, unless that is -0.0: sums of squares begin so."""
    begins = isinstance(x, Const) and x.value == 0 and math.copysign(1.0, x.value) > 0
    square = isinstance(y, Var) and y in made and made[y][0] != "select"
    return y if begins and square else None


def _definition(x: Atom, op: str, made: Made) -> tuple[Atom, ...] | None:
    """The operands of x, if it is made by this operator."""
    found = made.get(x) if isinstance(x, Var) else None
    return found[1] if found is not None and found[0] == op else None


def _literal(x: Atom, value: int | None = None) -> bool:
    return isinstance(x, Const) and (value is None or x.value == value)


def _converted(x: Const, dtype: str) -> Const:
    """A literal in another dtype: it wraps."""
    value, bits = int(x.value), BITS[dtype]
    if dtype == "bool":
        return Const(value != 0, dtype)
    value &= (1 << bits) - 1
    return Const(value - (1 << bits) if dtype in SIGNED and value >> (bits - 1) else value, dtype)


def _of_booleans(op: str, args: tuple[Atom, ...], made: Made) -> Simpler | None:
    x = args[0]
    if op == "not":
        if isinstance(x, Const):
            return FALSE if x.value else TRUE
        inner = _definition(x, "not", made)
        return inner[0] if inner else None
    y = args[1]
    if isinstance(x, Const) and isinstance(y, Const):
        return Const(bool(_OF_LITERALS[op](x.value, y.value)), "bool")
    if isinstance(x, Const):
        x, y = y, x
    if op in ("eq", "ne") and isinstance(y, Const):
        return x if bool(y.value) == (op == "eq") else ("not", (x,), "bool")
    if op in ("and", "or") and isinstance(y, Const):
        return x if bool(y.value) == (op == "and") else y
    if op == "and":
        return _negative_remainder(x, y, made) or _negative_remainder(y, x, made)
    return None


def _negative_remainder(p: Atom, q: Atom, made: Made) -> Simpler | None:
    """p and q, where q is r != 0: r < 0 is enough if that is p, or if r is a remainder by a
    positive literal and p says that the dividend is not positive."""
    apart = _definition(q, "ne", made)
    if apart is None or not _literal(apart[1], 0):
        return None
    r = apart[0]
    below = _definition(p, "lt", made)
    if below is not None and below[0] == r and _literal(below[1], 0):
        return p
    parts, signs = _definition(r, "rem", made), _definition(p, "ne", made)
    if parts is None or signs is None or not _literal(signs[1], 1):
        return None
    x, divisor = parts
    sign = _definition(signs[0], "sign", made)
    if sign is None or sign[0] != x or x.dtype not in SIGNED:
        return None
    if isinstance(divisor, Const) and divisor.value > 0:
        return "lt", (r, Const(0, r.dtype)), "bool"
    return None


def _comparison(op: str, x: Atom, y: Atom, made: Made) -> Simpler | None:
    if not isinstance(y, Const):
        return None
    if y.value == 0 and x.dtype not in SIGNED and op in ("lt", "ge"):
        return FALSE if op == "lt" else TRUE
    source = _definition(x, "convert", made)
    if source is None or source[0].dtype != "bool":
        return None
    no, yes = (bool(_COMPARED[op](v, y.value)) for v in (0, 1))
    if no == yes:
        return TRUE if yes else FALSE
    return source[0] if yes else ("not", (source[0],), "bool")


def _select(p: Atom, x: Atom, y: Atom, made: Made) -> Simpler | None:
    """x where p holds, else y."""
    inner = _definition(p, "not", made)
    if inner is not None:
        return "select", (inner[0], y, x), x.dtype
    negative = _definition(p, "lt", made)
    if negative is None or not _literal(negative[1], 0) or x.dtype not in SIGNED:
        return None
    r = negative[0]
    parts = _definition(r, "rem", made)
    if parts is None or not isinstance(parts[1], Const) or BITS[r.dtype] < 8:
        return None
    whole, divisor = parts
    c = int(parts[1].value)
    if c <= 0 or c & (c - 1):
        return None
    less, more = _definition(x, "sub", made), _definition(x, "add", made)
    if less is not None and less[0] == y and _literal(less[1], 1):
        if _definition(y, "div", made) == (whole, divisor):
            return "shr_arith", (whole, Const(c.bit_length() - 1, r.dtype)), r.dtype
    if more is not None and y == r and more in ((r, divisor), (divisor, r)):
        return "and", (whole, Const(c - 1, r.dtype)), r.dtype
    return None
