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
    Let,
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

    def visit(stmts: Iterable[Any], loop: int) -> None:
        for t in stmts:
            kind = type(t)
            if kind is Let:
                continue
            if kind is Load or kind is Store or kind is Update:
                if t.buf in bufs:
                    found.append((t.index, loop, kind is not Load, t.buf))
            elif kind is For:
                visit(t.body, id(t))
            elif kind is Alloc:
                visit(t.body, loop)
            elif kind is While:
                visit(t.cond.body, id(t))
                visit(t.body.body, id(t))
            elif kind is If:
                visit(t.then, id(t.then))
                visit(t.orelse, id(t.orelse))
            elif kind is Call or kind is Turn:
                named = t.args if kind is Call else t.bufs
                found.extend((None, 0, True, buf) for buf in bufs if buf in named)

    visit([s], 0)
    return found


def may_share(stmts: Sequence[Stmt], old: Buf, new: Buf) -> bool:
    """Whether `new`, each of whose elements is written once, may be the same memory as `old`. From
    the first write on (a value may be written in pieces) `old` is read at elements only that are
    written next; before, it is read freely."""
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    writers = [k for k, s in enumerate(stmts) if any(w for _, _, w, _ in touches(s, new))]
    if not writers or any(w for s in stmts for _, _, w, _ in touches(s, old)):
        return False
    first, last = writers[0], writers[-1]
    if any(touches(s, old) for s in stmts[last + 1 :]):
        return False
    here = [access for s in stmts[first : last + 1] for access in touches(s, old, new)]
    if len(writers) > 1 and any(buf is new and not writes for _, _, writes, buf in here):
        return False
    if len(writers) == 1 and len({(index, loop) for index, loop, _, _ in here}) != 1:
        return False
    written: dict[tuple[object, int], int] = {}
    for k, (index, loop, writes, _) in enumerate(here):
        if writes and (index is None or (index, loop) in written):
            return False
        if writes:
            written[index, loop] = k
    reads = ((k, (index, loop)) for k, (index, loop, _, buf) in enumerate(here) if buf is old)
    return all(k < written.get(place, -1) for k, place in reads)
