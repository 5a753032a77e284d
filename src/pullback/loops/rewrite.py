"""Rewriting statements: putting one buffer in place of another, and when that is sound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pullback.loops.ir import (
    Alloc,
    Buf,
    Call,
    For,
    If,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    While,
)
from pullback.records import replaced

__all__ = ["may_share", "substitute", "touches"]


def substitute(stmts: Iterable[Stmt], bufs: Mapping[Buf, Buf]) -> list[Stmt]:
    """The same statements on other buffers."""
    return [_one(s, bufs) for s in stmts]


def _region(r: Region, bufs: Mapping[Buf, Buf]) -> Region:
    return replaced(r, body=tuple(substitute(r.body, bufs)))


def _one(s: Stmt, bufs: Mapping[Buf, Buf]) -> Stmt:
    if isinstance(s, (Load, Store, Update)):
        return replaced(s, buf=bufs[s.buf]) if s.buf in bufs else s
    if isinstance(s, (For, Alloc)):
        return replaced(s, body=tuple(substitute(s.body, bufs)))
    if isinstance(s, While):
        return replaced(s, cond=_region(s.cond, bufs), body=_region(s.body, bufs))
    if isinstance(s, If):
        return replaced(
            s, then=tuple(substitute(s.then, bufs)), orelse=tuple(substitute(s.orelse, bufs))
        )
    if isinstance(s, Turn):
        first, second = s.bufs
        return replaced(s, bufs=(bufs.get(first, first), bufs.get(second, second)))
    if isinstance(s, Call):
        return replaced(s, args=tuple(bufs.get(a, a) if isinstance(a, Buf) else a for a in s.args))
    return s


def touches(s: Any, *bufs: Buf) -> list[tuple[Any, int, bool, Buf]]:
    """Every access of a statement to buffers, in the order of its text: (index, innermost loop, is
    a store, buffer)."""
    found: list[tuple[Any, int, bool, Buf]] = []

    def visit(stmts: Iterable[Stmt], loop: int) -> None:
        for t in stmts:
            if isinstance(t, (Load, Store, Update)):
                if any(t.buf is buf for buf in bufs):
                    found.append((t.index, loop, not isinstance(t, Load), t.buf))
            elif isinstance(t, For):
                visit(t.body, id(t))
            elif isinstance(t, Alloc):
                visit(t.body, loop)
            elif isinstance(t, While):
                visit(t.cond.body, id(t))
                visit(t.body.body, id(t))
            elif isinstance(t, If):
                visit(t.then, id(t.then))
                visit(t.orelse, id(t.orelse))
            elif isinstance(t, (Call, Turn)):
                named = t.args if isinstance(t, Call) else t.bufs
                found.extend((None, 0, True, buf) for buf in bufs if buf in named)

    visit([s], 0)
    return found


def may_share(stmts: Sequence[Stmt], old: Buf, new: Buf) -> bool:
    """Whether `new` may be the same memory as `old`: it is written by one statement, which reads
    `old` at the written element only, and before it writes that; nothing reads `old` afterwards,
    and before that statement `old` is read freely."""
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    writers = [k for k, s in enumerate(stmts) if any(w for _, _, w, _ in touches(s, new))]
    if len(writers) != 1:
        return False
    at = writers[0]
    if any(touches(s, old) for s in stmts[at + 1 :]) or any(
        w for s in stmts for _, _, w, _ in touches(s, old)
    ):
        return False
    here = touches(stmts[at], old, new)
    if len({(index, loop) for index, loop, _, _ in here}) != 1:
        return False
    written = next(k for k, (_, _, writes, _) in enumerate(here) if writes)
    return not any(buf is old for *_, buf in here[written:])
