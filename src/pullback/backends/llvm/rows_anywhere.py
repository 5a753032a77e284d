"""Rows of some numbers at places that an array says, one to a lane: `x[i]` of points.

A statement for each number would take the same lanes apart for every one of them. Where loads of a
block read neighbours of one place, each lane's row is loaded as it lies, as one vector or two that
overlap, and blocks of rows are turned about in registers; LLVM drops what nobody asks for. Where
rows are stored as they were read, they go from memory to memory and are never turned.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple, TypeGuard

from pullback.backends.llvm.access import Index, Lin, lane_pointers
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.convert import from_memory, memory_type
from pullback.backends.llvm.shuffles import shuffled, transposed
from pullback.loops.ir import Atom
from pullback.loops.ops import storage_bytes

__all__ = ["Rows", "fills", "load_rows_at", "store_whole", "worth_turning"]

FEWEST = 3  # numbers of a row; of two, a lane's address costs as much as the numbers
GATHERED = 8  # the same where an instruction gathers well, and rows are computed with


class Rows(NamedTuple):
    """Rows that were loaded: their numbers, by column, and each row's vectors."""

    values: list[Val]
    pieces: tuple[int, ...]  # where in a row its vectors begin
    vector: str  # their type
    regs: list[list[str]]  # by row, by piece


def worth_turning(
    b: Builder, at: Val, row: tuple[Atom, ...], moved: Container[tuple[Atom, ...]]
) -> bool:
    """Whether lanes' rows should be loaded whole. `moved`: what is stored as a row."""
    fewest = GATHERED if b.target.gathers and row not in moved else FEWEST
    return at.n >= 4 and len(row) >= fewest and not b.brief


def load_rows_at(b: Builder, dtype: str, base: Val, at: Val, before: int, count: int) -> Rows:
    """So many numbers of rows; lanes have the place of the one with so many before it."""
    t, size, n = memory_type(dtype), storage_bytes(dtype), at.n
    length = min(1 << (count.bit_length() - 1), n)
    pieces = tuple(min(first, count - length) for first in range(0, count, length))
    vector, rows = f"<{length} x {t}>", list[list[str]]()
    columns: list[list[str]] = [[] for _ in range(count)]
    for pointers in lane_pointers(b, size, base, at, None):
        regs = []
        for pointer in pointers:
            places = (b.gep(pointer, b.lit((k - before) * size, "i64")) for k in pieces)
            regs.append(
                [b.impure_reg(f"load {vector}, ptr {p.regs[0]}, align {size}") for p in places]
            )
        rows += regs
        for j, first in enumerate(pieces):
            lines = [row[j] for row in regs]
            blocks = [transposed(b, vector, lines[k : k + length]) for k in range(0, n, length)]
            skipped = pieces[j - 1] + length - first if j else 0
            for k in range(skipped, length):
                columns[first + k].append(_joined(b, t, length, [x[k] for x in blocks]))
    values = [from_memory(b, dtype, Val(b, t, n, tuple(column))) for column in columns]
    return Rows(values, pieces, vector, rows)


def _joined(b: Builder, t: str, length: int, parts: list[str]) -> str:
    """One register of several of so many lanes, which are a power of two."""
    while len(parts) > 1:
        vt, order = f"<{length} x {t}>", range(2 * length)
        parts = [shuffled(b, vt, x, y, order) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        length *= 2
    return parts[0]


def fills(at: Index, rows: Rows) -> TypeGuard[Lin]:
    """Whether lanes store rows one after the other, as many as were loaded."""
    if not isinstance(at, Lin):
        return False
    return at.stride.c == len(rows.values) and at.n * at.width == len(rows.regs)


def store_whole(b: Builder, dtype: str, base: Val, at: Val, rows: Rows) -> None:
    """Rows as they were loaded, one after the other from a place on."""
    size, stride = storage_bytes(dtype), len(rows.values)
    origin = b.gep(base, at, size)
    for k, regs in enumerate(rows.regs):
        for place, reg in zip(rows.pieces, regs, strict=True):
            pointer = b.gep(origin, b.lit((k * stride + place) * size, "i64")).regs[0]
            b.line(f"store {rows.vector} {reg}, ptr {pointer}, align {size}")
