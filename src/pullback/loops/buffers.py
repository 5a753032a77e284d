"""Slots: which buffer each stored value lives in, over the whole plan.

Before: units in order, values marked `stored`. After: every stored value has a `Slot`, slots have
numbers, and temporaries that are
never alive together share one number. A value takes over the buffer of an operand that dies in its
nest where every access of
the two is to the same element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from pullback.loops.fuse import Nest
from pullback.loops.ir import (
    Alloc,
    Buf,
    Call,
    For,
    If,
    Load,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)
from pullback.loops.lower.graph import Node, Slot

__all__ = [
    "Ledger",
    "accesses",
    "assign_slots",
    "base_of",
    "reads_of",
    "same_element",
    "unit_values",
]


def base_of(slot: Slot) -> Slot:
    """The slot whose buffer a slot has taken over."""
    while slot.alias is not None:
        slot = slot.alias
    return slot


def unit_values(unit: Any) -> list[Node]:
    """The live values a unit makes."""
    return [m for m in (unit.members if isinstance(unit, Nest) else unit.outs) if m.live]


def assign_slots(units: Sequence[Any], outputs: Sequence[Node]) -> list[Slot]:
    """Gives every stored value a slot of its own; the slots in order of their making."""
    results = set(outputs)
    slots: list[Slot] = []
    for unit in units:
        for m in unit_values(unit) if isinstance(unit, Nest) else unit.outs:
            if (m.stored or m.kind == "opq") and m.slot is None:
                m.slot = Slot(m.dtype, m.shape, "out" if m in results else "temp")
                slots.append(m.slot)
    return slots


Access = tuple[Any, int, bool, int]


def accesses(stmts: Iterable[Stmt]) -> dict[Buf, list[Access]]:
    """For every buffer its (index, innermost loop, is a store, place in the kernel's text)."""
    found: dict[Buf, list[Access]] = {}
    places = itertools.count()

    def visit(body: Iterable[Stmt], loop: int) -> None:
        for s in body:
            if isinstance(s, (Load, Store, Update)):
                access = (s.index, loop, not isinstance(s, Load), next(places))
                found.setdefault(s.buf, []).append(access)
            elif isinstance(s, For):
                visit(s.body, id(s))
            elif isinstance(s, While):
                visit(s.cond.body, id(s))
                visit(s.body.body, id(s))
            elif isinstance(s, If):
                visit(s.then, id(s))
                visit(s.orelse, id(s))
            elif isinstance(s, Alloc):
                visit(s.body, loop)
            elif isinstance(s, (Call, Turn)):  # anywhere, and in no order
                for a in s.args if isinstance(s, Call) else s.bufs:
                    if isinstance(a, Buf):
                        found.setdefault(a, []).append(((object(),), id(s), True, next(places)))

    visit(stmts, 0)
    return found


def same_element(reads: Sequence[Access], writes: Sequence[Access]) -> bool:
    """Whether every read and every write is at one and the same index of one and the same loop, and
    every read is before the first write, so the buffers may be one."""
    spots = {(index, loop) for index, loop, *_ in (*reads, *writes)}
    if len(spots) != 1 or not all(isinstance(i, Var) for index, *_ in writes for i in index):
        return False
    first_write = min((place for *_, place in writes), default=0)
    return all(place < first_write for *_, place in reads)


class Ledger:
    """Numbers for slots: dead temporaries give theirs back, by size."""

    def __init__(self) -> None:
        self.table: list[Slot] = []
        self.free: list[Slot] = []
        self.live = 0
        self.peak = 0
        self.thrifty = False  # memory counts more than finding it again where it was

    def add(self, slot: Slot) -> int:
        slot.number = len(self.table)
        self.table.append(slot)
        return slot.number

    def take(self, slot: Slot) -> bool:
        """Gives a temporary a number; true if its memory is new and must be allocated."""
        best = self._idle(slot)
        if best is not None:
            self.free.remove(best)
            slot.number = best.number
            slot.alias = best
            return False
        self.add(slot)
        self.live += slot.bytes
        self.peak = max(self.peak, self.live)
        return True

    def _idle(self, slot: Slot) -> Slot | None:
        """The smallest idle memory that a slot fits in without much waste."""
        most = slot.bytes + slot.bytes // (8 if self.thrifty else 1) + 4096
        fits = [s for s in self.free if slot.bytes <= s.bytes <= most]
        return min(fits, key=lambda s: s.bytes, default=None)

    def drop(self, slot: Slot, room: int) -> list[int]:
        """Forgets idle memory, the largest first, until a slot that needs new memory has room; the
        numbers of what is to be freed."""
        gone: list[int] = []
        if self._idle(slot) is not None:
            return gone
        while self.live + slot.bytes > room and self.free:
            idle = max(self.free, key=lambda s: s.bytes)
            self.free.remove(idle)
            self.live -= idle.bytes
            gone.append(idle.number)
        return gone

    def give(self, slot: Slot) -> None:
        """A dead temporary's memory becomes available."""
        self.free.append(base_of(slot))


def reads_of(unit: Any) -> dict[Node, None]:
    """The values in memory that a unit reads; in order, so that equal programs have equal plans."""
    found: dict[Node, None] = {}
    roots = unit.members if isinstance(unit, Nest) else unit.ins
    stack: list[Node] = list(roots)
    seen: set[Node] = set()
    first = set(roots) if isinstance(unit, Nest) else set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.slot is not None and node not in first:
            found[node] = None
            continue
        for dep, _ in node.red.deps if node.kind == "red" and node.red is not None else node.deps:
            stack.append(dep)
    return found
