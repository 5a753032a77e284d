"""Carries with two buffers: each iteration reads one and writes the other, so that nothing is
copied.

    for i: ... = old[..]; new[..] = ...; old[..] = new[..]
 -> for i: now, next = old, new (new, old where i is odd); ... = now[..]; next[..] = ...
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.loops import rewrite
from pullback.loops.build import Builder, i64
from pullback.loops.ir import Alloc, Atom, Buf, Carry, For, Let, Region, Stmt, Turn, Var, While
from pullback.records import replaced

__all__ = ["TURNED_FROM", "take_turns"]

TURNED_FROM = 2048  # bytes; less is copied in less time than it takes to say which buffer is which

Pair = tuple[Buf, Buf]  # the buffer that the first iteration reads, and the one that it writes


def take_turns(b: Builder, pairs: Sequence[Pair]) -> Atom:
    """The loop that was just written, with such pairs of buffers. Gives whether, after it, the
    values are in the second buffers."""
    for pair in pairs:
        b.stored.update(pair)
        b.loaded.update(pair)
    stmts = b.scopes[-1].stmts
    loop = stmts[-1]
    if isinstance(loop, For):
        stmts[-1] = _counted(b, loop, pairs)
        return b.let("ne", (b.let("and", (loop.hi, i64(1)), "i64"), i64(0)), "bool")
    assert isinstance(loop, While)
    stmts[-1], turned = _unknown(b, loop, pairs)
    return turned


def _counted(b: Builder, loop: For, pairs: Sequence[Pair]) -> For:
    """Where iterations are counted, the odd ones are the turned ones."""
    odd, turned = (b.var(dtype, b.depth + 1) for dtype in ("i64", "bool"))
    lets = [Let(odd, "and", (loop.index, i64(1))), Let(turned, "ne", (odd, i64(0)))]
    return replaced(loop, body=_turning(b, loop.body, pairs, turned, lets))


def _unknown(b: Builder, loop: While, pairs: Sequence[Pair]) -> tuple[While, Var]:
    """Where nothing counts, the loop carries whether its buffers are turned."""
    after = b.var("bool", b.depth)
    own, test, body, following = (b.var("bool", b.depth + 1) for _ in range(4))
    carry = Carry(after, own, b.const(False, "bool"))
    done = (*_turning(b, loop.body.body, pairs, body, []), Let(following, "not", (body,)))
    cond = Region(
        (*loop.cond.params, test), _turning(b, loop.cond.body, pairs, test, []), loop.cond.yields
    )
    inside = Region((*loop.body.params, body), done, (*loop.body.yields, following))
    return While((*loop.carry, carry), cond, inside), after


def _turning(
    b: Builder, body: tuple[Stmt, ...], pairs: Sequence[Pair], turned: Var, before: list[Let]
) -> tuple[Stmt, ...]:
    """Statements on the buffers of the present turn. Scratch that holds for all of them stays
    outermost, where a loop takes it once."""
    if len(body) == 1 and isinstance(body[0], Alloc):
        inner = _turning(b, body[0].body, pairs, turned, before)
        return (replaced(body[0], body=inner),)
    names: dict[Buf, Buf] = {}
    turns: list[Stmt] = []
    for pair in pairs:
        if not any(rewrite.touches(s, *pair) for s in body):
            continue
        b.count += 1
        now, following = (
            Buf(f"{name}{b.count}", pair[0].dtype, pair[0].shape, "temp")
            for name in ("now", "next")
        )
        names.update(zip(pair, (now, following), strict=True))
        turns.append(Turn((now, following), turned, pair))
    return (*before, *turns, *rewrite.substitute(body, names))
