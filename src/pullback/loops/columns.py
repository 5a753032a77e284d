"""Rows that lanes read at a stride, again and again: their columns are copied to scratch first.

Where bodies meet bodies, each a row of a few numbers, lanes run over rows and every number of a row
is a load at a stride: as many vectors as rows have numbers, and shuffles. What an outer loop reads
in the same way in each of its iterations is taken apart once, before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.loops.ir import Alloc, Atom, Buf, Const, For, Let, Load, Stmt, Store, Var
from pullback.loops.ops import storage_bytes
from pullback.loops.rewrite import touches
from pullback.records import replaced

__all__ = ["columns_first"]

NARROWEST, WIDEST = 3, 64  # strides; pairs are one shuffle
OFTEN = 16  # iterations of the outer loop,
LONG = 32  # and of the loop in lanes: less is not worth code
LIMIT = 1 << 20  # bytes of scratch: it should stay in a core's caches

_Form = dict[Var | None, int]  # coefficients of variables; of None, the constant


def columns_first(body: tuple[Stmt, ...], dims: Mapping[Var, int]) -> tuple[Stmt, ...]:
    """The same statements with such columns in scratch. `dims`: the extents that are known."""
    return _Columns(dims).block(body) if _strides(body) else body


def _strides(body: tuple[Stmt, ...]) -> bool:
    """Whether any index is multiplied by what may be such a stride."""
    stack = [body]
    while stack:
        for s in stack.pop():
            kind = type(s)
            if kind is Let:
                if s.op == "mul" and s.out.dtype == "i64":  # type: ignore[union-attr]
                    factors = (a.value for a in s.args if type(a) is Const)  # type: ignore[union-attr]
                    if any(NARROWEST <= c <= WIDEST for c in factors):
                        return True
            elif kind is For or kind is Alloc:
                stack.append(s.body)  # type: ignore[union-attr,arg-type]
    return False


class _Columns:
    def __init__(self, dims: Mapping[Var, int]) -> None:
        self.dims, self.count = dims, 0

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        scratch: list[Buf] = []
        for s in body:
            if isinstance(s, Alloc):
                out.append(_with(s, self.block(s.body)))
                continue
            if not isinstance(s, For) or s.kind not in ("seq", "parallel", "rows"):
                out.append(s)
                continue
            found = self.found(s) if self.trips(s) >= OFTEN else {}
            if found:
                fills, s = self.taken_apart(s, found, scratch)
                out += fills
            out.append(_with(s, self.block(s.body)))
        same = len(out) == len(body) and all(x is y for x, y in zip(out, body, strict=True))
        whole = body if same else tuple(out)
        for buf in reversed(scratch):
            whole = (Alloc(buf, whole),)
        return whole

    def trips(self, loop: For) -> int:
        low, high = loop.lo, loop.hi
        if not isinstance(low, Const) or low.value != 0 or loop.step != Const(1, "i64"):
            return 0
        return int(high.value) if isinstance(high, Const) else self.dims.get(high, 0)

    def found(self, outer: For) -> dict[Load, tuple[For, int, _Form]]:
        """The loads that are the same in every iteration, with their loops, their strides, and
        where they begin."""
        inside: dict[Any, Any] = {outer.index: None}
        found: dict[Load, tuple[For, int, _Form]] = {}
        for s, loop in _unconditional(outer.body):
            if isinstance(s, Let):
                inside[s.out] = s if s.out.dtype == "i64" else None
            elif isinstance(s, For):
                inside[s.index] = None
                inside.update((v, None) for c in s.carry for v in (c.var, c.out))
            elif isinstance(s, Load):
                inside[s.out] = None
                if loop is None or s.mask is not None or len(s.index) != 1:
                    continue
                form = _form(s.index[0], inside, loop.index)
                stride = form.pop(loop.index, 0) if form is not None else 0
                if form is None or not NARROWEST <= stride <= WIDEST:
                    continue
                outside = s.buf not in inside and all(v not in inside for v in form)
                if outside and self.trips(loop) >= LONG:
                    found[s] = loop, stride, form
            elif isinstance(s, Alloc):
                inside[s.buf] = None
            else:
                inside.update((v, None) for v in getattr(s, "outs", ()))
                inside.update((c.out, None) for c in getattr(s, "carry", ()))
        bufs = dict.fromkeys([s.buf for s in found])
        written = {buf for _, _, writes, buf in touches(outer, *bufs) if writes} if bufs else ()
        found = {s: v for s, v in found.items() if s.buf not in written}
        columns = {
            _key(s, v): self.trips(v[0]) * storage_bytes(s.buf.dtype) for s, v in found.items()
        }
        return found if sum(columns.values()) <= LIMIT else {}

    def taken_apart(
        self, outer: For, found: Mapping[Load, tuple[For, int, _Form]], scratch: list[Buf]
    ) -> tuple[list[Stmt], For]:
        """The loops that copy, and the outer loop on what they have copied."""
        made: dict[Any, Buf] = {}
        fills: dict[Atom, tuple[For, list[Stmt]]] = {}
        before: list[Stmt] = []
        for s, (loop, stride, form) in found.items():
            key = _key(s, (loop, stride, form))
            if key in made:
                continue
            self.count += 1
            size = int(loop.hi.value) if isinstance(loop.hi, Const) else loop.hi
            made[key] = Buf(f"column{self.count}", s.buf.dtype, (size,), "temp")
            scratch.append(made[key])
            if loop.hi not in fills:
                index = self.fresh("i64")
                fill = For(index, loop.lo, loop.hi, loop.step, "vector", (), ())
                fills[loop.hi] = fill, []
            fill, body = fills[loop.hi]
            start = self.sum(before, [(v, c) for v, c in form.items()])
            row = self.let(body, "mul", fill.index, Const(stride, "i64"))
            value = self.fresh(s.buf.dtype)
            body.append(Load(value, s.buf, (self.let(body, "add", row, start),)))
            body.append(Store(made[key], (fill.index,), value))
        places = {s: (made[_key(s, v)], v[0].index) for s, v in found.items()}
        copies = [replaced(fill, body=tuple(body)) for fill, body in fills.values()]
        return [*before, *copies], _with(outer, _reading(outer.body, places))

    def fresh(self, dtype: str) -> Var:
        self.count += 1
        return Var(f"c{self.count}", dtype)

    def let(self, out: list[Stmt], op: str, x: Atom, y: Atom) -> Atom:
        v = self.fresh("i64")
        out.append(Let(v, op, (x, y)))
        return v

    def sum(self, out: list[Stmt], terms: list[tuple[Var | None, int]]) -> Atom:
        total: Atom | None = None
        for v, c in terms:
            term: Atom = Const(c, "i64")
            if v is not None:
                term = v if c == 1 else self.let(out, "mul", v, term)
            total = term if total is None else self.let(out, "add", total, term)
        return total if total is not None else Const(0, "i64")


def _key(s: Load, v: tuple[For, int, _Form]) -> Any:
    return s.buf, v[0].hi, v[1], frozenset(v[2].items())


def _with(s: Any, body: tuple[Stmt, ...]) -> Any:
    return s if body is s.body else replaced(s, body=body)


def _unconditional(body: tuple[Stmt, ...]) -> list[tuple[Stmt, For | None]]:
    """Every statement that runs whenever a block does, with the loop in lanes that it is in."""
    found: list[tuple[Stmt, For | None]] = []

    def visit(stmts: tuple[Stmt, ...], loop: For | None, lanes: bool) -> None:
        for s in stmts:
            found.append((s, loop))
            kind = type(s)
            if kind is For:
                wide = s.kind in ("vector", "reduce")  # type: ignore[union-attr]
                inner = s if wide and not lanes else None
                visit(s.body, inner, lanes or wide)  # type: ignore[union-attr,arg-type]
            elif kind is Alloc:
                visit(s.body, loop, lanes)  # type: ignore[union-attr,arg-type]

    visit(body, None, False)
    return found


def _form(x: Atom, inside: Mapping[Var, Any], index: Var) -> _Form | None:
    """An index as a sum of multiples of variables that are not computed by `inside`."""
    if isinstance(x, Const):
        return {None: int(x.value)} if x.value else {}
    made = None if x is index else inside.get(x)
    if made is None:
        return {x: 1} if x is index or x not in inside else None
    parts = [_form(a, inside, index) for a in made.args]
    if made.op not in ("add", "sub", "mul") or None in parts:
        return None
    left, right = parts
    assert left is not None and right is not None
    if made.op == "mul":
        if left.keys() - {None}:
            left, right = right, left
        factor = left.get(None, 0)
        return (
            None
            if left.keys() - {None}
            else {v: c * factor for v, c in right.items() if c * factor}
        )
    sign = 1 if made.op == "add" else -1
    whole = {v: left.get(v, 0) + sign * right.get(v, 0) for v in {**left, **right}}
    return {v: c for v, c in whole.items() if c}


def _reading(body: tuple[Stmt, ...], places: Mapping[Load, tuple[Buf, Var]]) -> tuple[Stmt, ...]:
    """The same statements with such loads from scratch."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Load) and s in places:
            buf, index = places[s]
            s = replaced(s, buf=buf, index=(index,))
        elif isinstance(s, (For, Alloc)):
            s = _with(s, _reading(s.body, places))
        out.append(s)
    return tuple(out)
