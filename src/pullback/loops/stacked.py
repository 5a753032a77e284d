"""What a loop stacks for another loop, one number a step of each, lies side by side in memory.

    for i: a[i] = .., b[i] = .., c[i] = ..         for i: s[i, 0] = .., s[i, 1] = .., s[i, 2] = ..
    for i: .. a[i] .. b[i] .. c[i]           ->    for i: .. s[i, 0] .. s[i, 1] .. s[i, 2]

The gradient of a scan keeps some numbers of every step for its way back: of a step with 60 scalars
two for each. Apart they are as many buffers, each with an address that no register has room for,
and a step touches a cache line of each: where their lengths are near a power of two, all of these
lines want the same few places of the nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.buffers import reads_of
from pullback.loops.build import Builder, Index
from pullback.loops.fuse import Nest
from pullback.loops.ir import Buf
from pullback.loops.lower.graph import COMPLEX, Node, Slot

__all__ = ["ColumnSlot", "share_rows", "whole_slot"]

FEW = 8  # columns: so many buffers have registers for their addresses


class ColumnSlot(Slot):
    """One column of a table of numbers, as a buffer."""

    __slots__ = ("column", "table")

    def __init__(self, table: Slot, column: int, slot: Slot) -> None:
        super().__init__(slot.dtype, slot.shape, slot.role)
        self.table, self.column = table, column

    def buf(self, b: Builder) -> Buf:
        return self.table.buf(b)

    def base(self, b: Builder) -> Index:
        return self.column

    def element(self, b: Builder, offset: Index) -> Index:
        return b.add(b.mul(offset, self.table.shape[1]), self.column)


def whole_slot(slot: Slot) -> Slot:
    """The slot whose memory is allocated: of a column, the table."""
    return slot.table if isinstance(slot, ColumnSlot) else slot


def share_rows(units: Sequence[Any]) -> None:
    """Gives results that loops stack for other loops only, a number a step, tables to share: those
    that the same loops write and read."""
    made = [
        (unit, m)
        for unit in units
        for m in (() if isinstance(unit, Nest) else (unit.outs[k] for k in unit.rows_out))
        if m.slot is not None and m.slot.role == "temp" and m.slot.number < 0
        and len(m.shape) == 1 and m.dtype not in COMPLEX
    ]  # fmt: skip
    if len(made) < FEW:
        return
    readers = _readers(units, {m for _, m in made})
    tables: dict[Any, list[Node]] = {}
    for unit, m in made:
        if readers[m] is not None:
            key = id(unit), m.dtype, m.shape, tuple(readers[m] or ())
            tables.setdefault(key, []).append(m)
    for columns in tables.values():
        if len(columns) >= FEW:
            first = columns[0]
            table = Slot(first.dtype, (*first.shape, len(columns)), "temp")
            for k, m in enumerate(columns):
                assert m.slot is not None
                m.slot = ColumnSlot(table, k, m.slot)


def _readers(units: Sequence[Any], nodes: set[Node]) -> dict[Node, list[int] | None]:
    """For every node the loops that read it, by their places; None if something else does, or a
    loop does otherwise than a row a step."""
    found: dict[Node, list[int] | None] = {m: [] for m in nodes}
    for place, unit in enumerate(units):
        rows = set() if isinstance(unit, Nest) else {unit.ins[k] for k in unit.rows_in}
        others = unit if isinstance(unit, Nest) else _Others(unit)
        for m in reads_of(others):
            if m in found:
                found[m] = None
        for m in rows:
            at = found.get(m)
            if at is not None:
                at.append(place)
    return found


class _Others:
    """What a loop reads otherwise than a row a step."""

    def __init__(self, unit: Any) -> None:
        self.ins = [n for k, n in enumerate(unit.ins) if k not in unit.rows_in]
