"""Rows that are fetched before their turn: a kernel that walks each row several times asks for the
next row's memory while it computes on this one.

The first walk over a row waits for memory, the later ones compute on what is in the cache and leave
memory idle; a softmax of 1000 x 1000 spends a quarter of its time so. Which walk asks: of those
that read again what an earlier one has read, the one that computes most. One that computes little
asks only where two rows fit into the first cache: it would drive out what it is about to read.

A reduction that computes little asks for what it reads itself some iterations later, where that is
a long operand: the processor looks ahead by less, and begins anew where blocks and rows end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.backends.llvm.access import Lin
from pullback.backends.llvm.analysis import body_cost, walk
from pullback.backends.llvm.build import Builder, Val
from pullback.loops.ir import Alloc, Atom, Buf, For, Let, Load, Stmt, Var

__all__ = ["FAR", "fetch", "rows_ahead"]

Step = tuple[Atom, bool]  # elements from row to row; whether rows of any length are fetched
Ahead = dict[int, dict[Buf, Step]]
MUCH = 10.0  # scalar operations of an element
SHORT = 1 << 14  # bytes of a row
FAR = 1 << 13  # bytes by which a reduction looks ahead of itself
LINE = 64  # bytes that are fetched at once


def rows_ahead(rows: For) -> Ahead:
    """For the innermost loops of a row's walks (by `id`): the buffers whose next row they fetch,
    and how many elements further on that is."""
    found: Ahead = {}
    walks = list(_walks(rows.body))
    if len(walks) < 2:
        return found
    steps = _steps(rows)
    best: dict[Buf, tuple[float, For, Atom]] = {}
    seen: dict[Buf, Atom] = {}
    for k, loop in enumerate(walks):
        cost = body_cost([loop])
        for load, step in _reads(loop, steps):
            again = k > 0 and seen.get(load.buf) == step
            if again and cost > best.get(load.buf, (0.0,))[0]:
                best[load.buf] = cost, loop, step
        seen.update((load.buf, step) for load, step in _reads(loop, steps))
    for buf, (_, loop, step) in best.items():
        for inner in walk([loop]):
            if isinstance(inner, For) and any(isinstance(s, Load) for s in inner.body):
                found.setdefault(id(inner), {})[buf] = step, body_cost(inner.body) >= MUCH
    return found


def _walks(body: Sequence[Stmt]) -> Iterator[For]:
    """The loops of a row, one after the other."""
    for s in body:
        if isinstance(s, Alloc):
            yield from _walks(s.body)
        elif isinstance(s, For):
            yield s


def _steps(rows: For) -> dict[Var, Atom]:
    """Of indices, by how much they grow from row to row, where that is one atom."""
    steps: dict[Var, Atom] = {}
    for s in walk(rows.body):
        if not isinstance(s, Let) or s.op not in ("add", "mul") or s.out.dtype != "i64":
            continue
        x, y = s.args
        if s.op == "mul" and rows.index in (x, y):
            steps[s.out] = y if x is rows.index else x
        elif s.op == "add":
            known = [steps[a] for a in (x, y) if isinstance(a, Var) and a in steps]
            if len(known) == 1 and rows.index not in (x, y):
                steps[s.out] = known[0]
    return steps


def _reads(loop: For, steps: dict[Var, Atom]) -> Iterator[tuple[Load, Atom]]:
    for s in walk([loop]):
        if isinstance(s, Load) and s.buf.role != "temp" and len(s.index) == 1:
            step = steps.get(s.index[0])  # type: ignore[arg-type]
            if step is not None:
                yield s, step


def fetch(b: Builder, base: Val, at: Lin, step: Val, always: bool, size: int) -> None:
    """Asks for the elements `step` further on than those at `at`; for those themselves, which costs
    nothing, where rows are too long. An address past the end of the buffer does no harm."""
    if not always and step.c is None:
        step = b.select(step > SHORT // size, 0, step, like=step.t)
    first = b.gep(b.gep(base, step, size), at.base, size)
    for offset in range(0, at.width * at.n * size, max(LINE, at.n * size)):
        b.prefetch(b.gep(first, b.lit(offset, "i64")))
