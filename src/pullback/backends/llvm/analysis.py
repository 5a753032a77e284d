"""What the emitter asks about a kernel: free variables, costs, which loops can run in lanes and how
many lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Carry,
    Const,
    For,
    If,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)  # fmt: skip
from pullback.loops.ops import FLOATS, INTS, OPS, storage_bytes
from pullback.loops.tiles import is_tile

__all__ = [
    "body_cost", "children", "data_bytes", "free_names", "has", "integer_chain",
    "values_alive", "walk", "widenable",
]  # fmt: skip

LOOP_GUESS = 64  # iterations of a loop whose bounds are not literals


_SIMPLE = frozenset({Let, Load, Store})  # without blocks inside


def children(s: Stmt) -> Iterator[tuple[Stmt, ...]]:
    """The blocks inside a statement."""
    if isinstance(s, For):
        yield s.body
        if isinstance(s.combine, Region):
            yield s.combine.body
    elif isinstance(s, While):
        yield s.cond.body
        yield s.body.body
    elif isinstance(s, If):
        yield s.then
        yield s.orelse
    elif isinstance(s, Alloc):
        yield s.body
    elif isinstance(s, Update) and isinstance(s.combine, Region):
        yield s.combine.body


def walk(stmts: Iterable[Stmt]) -> list[Stmt]:
    """Every statement, outer ones first."""
    found: list[Stmt] = []
    _gather(stmts, found)
    return found


def _gather(stmts: Iterable[Stmt], found: list[Stmt]) -> None:
    """A generator within generators would pass each statement on through all blocks around it."""
    for s in stmts:
        found.append(s)
        if type(s) not in _SIMPLE:
            for block in children(s):
                _gather(block, found)


def has(stmts: Iterable[Stmt], *kinds: type) -> bool:
    """Whether any statement is of one of these kinds."""
    for s in stmts:
        if type(s) in kinds:
            return True
        if type(s) not in _SIMPLE:
            for block in children(s):
                if has(block, *kinds):
                    return True
    return False


def uses(s: Stmt) -> Iterator[Any]:
    """Vars and Bufs that a statement reads itself (not its blocks)."""
    if isinstance(s, Let):
        yield from s.args
    elif isinstance(s, Load):
        yield s.buf
        yield from s.index
        yield from (a for a in (s.mask, s.other) if a is not None)
    elif isinstance(s, (Store, Update)):
        yield s.buf
        yield from s.index
        yield s.value
        if s.mask is not None:
            yield s.mask
        if isinstance(s, Update) and isinstance(s.combine, Region):
            yield from s.combine.yields
    elif isinstance(s, For):
        yield from (s.lo, s.hi, s.step, *s.yields)
        yield from (c.init for c in s.carry)
        if isinstance(s.combine, Region):
            yield from s.combine.yields
    elif isinstance(s, While):
        yield from (c.init for c in s.carry)
        yield from s.cond.yields
        yield from s.body.yields
    elif isinstance(s, If):
        yield from (s.pred, *s.then_yields, *s.else_yields)
    elif isinstance(s, Turn):
        yield s.turned
        yield from s.bufs
    elif isinstance(s, Call):
        yield from s.args


def reads_of(stmts: Iterable[Stmt]) -> dict[Any, int]:
    """How often each value is named by statements; sizes of buffers, and what stands for other
    values (the parameters of a combiner), more than once."""
    found: dict[Any, int] = {}
    bufs: dict[Buf, None] = {}
    s: Any
    for s in walk(stmts):
        kind = type(s)
        if kind is Let:
            named = s.args
        elif kind is Load:
            bufs[s.buf] = None
            named = (*s.index, s.mask, s.other)
        elif kind is Store:
            bufs[s.buf] = None
            named = (*s.index, s.value, s.mask)
        else:
            named = uses(s)
        for x in named:
            if type(x) is Var:
                found[x] = found.get(x, 0) + 1
            elif type(x) is Buf:
                bufs[x] = None
        if kind is Alloc:
            bufs[s.buf] = None
        elif (kind is Update or kind is For) and isinstance(s.combine, Region):
            found.update((p, 2) for p in s.combine.params)
    found.update((d, 2) for buf in bufs for d in buf.shape if type(d) is Var)
    return found


def defines(s: Stmt) -> Iterator[Any]:
    if isinstance(s, (Let, Load)):
        yield s.out
    elif isinstance(s, (For, While)):
        for c in s.carry:
            yield from (c.out, c.var)
        if isinstance(s, For):
            yield s.index
            if isinstance(s.combine, Region):
                yield from s.combine.params
        else:
            yield from (*s.cond.params, *s.body.params)
    elif isinstance(s, (If, Call, Turn)):
        yield from s.outs
    elif isinstance(s, Alloc):
        yield s.buf
    elif isinstance(s, Update) and isinstance(s.combine, Region):
        yield from s.combine.params


def free_names(stmts: Iterable[Stmt], extra: Iterable[Any] = ()) -> tuple[list[Var], list[Buf]]:
    """Variables and buffers that a block reads but does not define, in order of first use."""
    used: dict[Any, None] = {}
    defined: set[Any] = set()
    for s in walk(stmts):
        for x in uses(s):
            if isinstance(x, (Var, Buf)):
                used.setdefault(x)
        defined.update(defines(s))
    for x in extra:
        if isinstance(x, (Var, Buf)):
            used.setdefault(x)
    free = [x for x in used if x not in defined]
    variables = [x for x in free if isinstance(x, Var)]
    buffers = [x for x in free if isinstance(x, Buf)]
    for buf in buffers:
        variables += [
            d for d in buf.shape if isinstance(d, Var) and d not in variables and d not in defined
        ]
    for s in walk(stmts):
        if isinstance(s, Alloc):
            more = [d for d in s.buf.shape if isinstance(d, Var)]
            variables += [d for d in more if d not in variables and d not in defined]
    return variables, buffers


def trip(lo: Atom, hi: Atom, step: Atom) -> int | None:
    """The number of iterations, when it is literal."""
    if isinstance(lo, Const) and isinstance(hi, Const) and isinstance(step, Const) and step.value:
        return max(0, len(range(int(lo.value), int(hi.value), int(step.value))))
    return None


def body_cost(stmts: Iterable[Stmt]) -> float:
    """Estimated cost of one execution, in scalar operations."""
    total = 0.0
    for s in stmts:
        if isinstance(s, Let):
            total += OPS[s.op].cost
        elif isinstance(s, (Load, Store)):
            total += 1.0
        elif isinstance(s, Update):
            total += 3.0
        elif isinstance(s, For):
            n = trip(s.lo, s.hi, s.step)
            speed = 0.2 if s.kind in ("vector", "reduce") else 1.0
            total += 2.0 + body_cost(s.body) * (LOOP_GUESS if n is None else n) * speed
        elif isinstance(s, While):
            total += LOOP_GUESS * (body_cost(s.cond.body) + body_cost(s.body.body) + 1.0)
        elif isinstance(s, If):
            total += 1.0 + max(body_cost(s.then), body_cost(s.orelse))
        elif isinstance(s, Alloc):
            total += 1.0 + body_cost(s.body)
        elif isinstance(s, Turn):
            total += 2.0
        else:
            known = dict(s.attrs) if isinstance(s, Call) else {}
            library = 200_000.0 if "long" in known else 2000.0 if "fortran" in known else 100.0
            total += 20_000.0 if isinstance(s, Call) and is_tile(s.name) else library
    return total


def integer_chain(stmts: Iterable[Stmt]) -> int:
    """The largest number of operations on integers each of which waits for the one before."""
    depths: dict[Var, int] = {}
    for s in stmts:
        if isinstance(s, Let):
            before = max((depths.get(a, 0) for a in s.args if isinstance(a, Var)), default=0)
            depths[s.out] = before + (s.out.dtype in INTS)
    return max(depths.values(), default=0)


def values_alive(stmts: Iterable[Stmt]) -> int:
    """The largest number of a body's own values that are read later on, at any one place."""
    made: dict[Var, int] = {}
    read: dict[Var, int] = {}
    for at, s in enumerate(stmts):
        for a in _reads(s):
            if a in made:
                read[a] = at
        if isinstance(s, (Let, Load)):
            made[s.out] = at
    changes = sorted([(made[v], 1) for v in read] + [(at, -1) for at in read.values()])
    alive = most = 0
    for _, change in changes:
        alive += change
        most = max(most, alive)
    return most


def _reads(s: Stmt) -> Iterator[Var]:
    if isinstance(s, Let):
        atoms: tuple[Atom | None, ...] = s.args
    elif isinstance(s, Load):
        atoms = (*s.index, s.mask, s.other)
    elif isinstance(s, Store):
        atoms = (*s.index, s.value, s.mask)
    else:
        atoms = ()
    return (a for a in atoms if isinstance(a, Var))


def widenable(stmts: Iterable[Stmt]) -> bool:
    """Whether a body can run in lanes: scratch and calls are per iteration and cannot."""
    return not has(stmts, Call, Alloc)


def data_bytes(
    stmts: tuple[Stmt, ...], carries: Iterable[Carry] = (), besides: frozenset[Var] = frozenset()
) -> int:
    """Bytes a lane needs: the widest float computed on, else the widest integer that is data and
    not an index, nor one of those `besides`."""
    floats, ints, indices = 0, 0, 0
    data: set[Var] = set()
    types = {c.var.dtype for c in carries}
    for s in walk(stmts):
        kind = type(s)
        if kind is Let:
            out = s.out  # type: ignore[union-attr]
            if out in besides:
                continue
            args = s.args  # type: ignore[union-attr]
            if out.dtype in FLOATS or any(a in data for a in args if type(a) is Var):
                data.add(out)
                types.add(out.dtype)
        elif kind is Load:
            data.add(s.out)  # type: ignore[union-attr]
            types.add(s.out.dtype)  # type: ignore[union-attr]
        elif isinstance(s, (Store, Update)):
            types.add(s.buf.dtype)
        elif isinstance(s, (For, While)):
            types.update([c.var.dtype for c in s.carry])
    for dtype in types:
        if dtype in FLOATS:
            floats = max(floats, 8 if dtype == "f64" else 4)
        elif dtype == "i64":
            indices = 8
        else:
            ints = max(ints, storage_bytes(dtype))
    return floats or max(ints, indices) or 8
