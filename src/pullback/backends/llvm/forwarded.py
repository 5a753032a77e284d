"""Single elements that are written just before, or after, vectors read the array: whole vectors are
written instead.

What has been written recently is handed on to loads that ask for no more than one write has put
there. A vector around an element that was just written waits until the write has reached the cache,
for which everything before it must have ended: steps of a loop that could overlap run one after the
other. A vector with the element put in its place is handed on as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pullback.backends.llvm.access import Index, store
from pullback.backends.llvm.analysis import walk
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.convert import memory_type, to_memory
from pullback.loops.ir import Buf, For, If, Load, Stmt, Store, Update
from pullback.loops.ops import storage_bytes

if TYPE_CHECKING:
    from pullback.backends.llvm.emit import Emitter

__all__ = ["NONE", "write_around", "writing_around"]

NONE: frozenset[Buf] = frozenset()
_WHOLE = ("f32", "f64", "i32", "i64", "u32", "u64")  # the same in memory and in registers


def _read_in_lanes(body: Iterable[Stmt]) -> frozenset[Buf]:
    """The arrays of which an iteration of a serial loop writes single elements and which it reads
    in vectors. Other threads must not write to them meanwhile."""
    steps = list(_steps(body))
    written = {s.buf for s in steps if isinstance(s, (Store, Update)) and s.buf.dtype in _WHOLE}
    if not written:
        return NONE
    read = {
        load.buf
        for s in steps
        if isinstance(s, For) and s.kind in ("vector", "reduce")
        for load in walk(s.body)
        if isinstance(load, Load) and load.index and load.index[-1] is s.index
    }
    return frozenset(written & read)


@contextlib.contextmanager
def writing_around(e: Emitter, body: Iterable[Stmt]) -> Iterator[None]:
    """What is in force while a serial loop's body is emitted."""
    before = e.forwarded
    e.forwarded = NONE if e.parallel or e.in_lanes else _read_in_lanes(body)
    yield
    e.forwarded = before


def _steps(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Statements of a body that are no loop's."""
    for s in body:
        yield s
        if isinstance(s, If):
            yield from _steps(s.then)
            yield from _steps(s.orelse)


def write_around(e: Emitter, buf: Buf, base: Val, at: Index, value: Val, mask: Val | None) -> bool:
    """Writes one element, if the mask says so, with the vector that it is in, where the array has
    all of that. False where it is to be written as always."""
    if buf not in e.forwarded or e.in_lanes or not isinstance(at, Val):
        return False
    b, t, size = e.b, memory_type(buf.dtype), storage_bytes(buf.dtype)
    lanes = e.target.lanes(size)
    if lanes < 2:
        return False
    raw = to_memory(b, buf.dtype, value)
    first, count = at & -lanes, b.lit(1, "i64")
    for extent in e.shape_of(buf):
        count = count * extent
    vector, name = f"<{lanes} x {t}>", "i32" if size == 4 else "i64"

    def around() -> list[Val]:
        pointer = b.gep(base, first, size).regs[0]
        old = Val(b, t, lanes, (b.impure_reg(f"load {vector}, ptr {pointer}, align {size}"),))
        lane = b.cast("trunc", at - first, "i32") if name == "i32" else at - first
        new = b.select(b.compare("eq", b.lanes_of(name, lanes), lane), b.splat(raw, lanes), old)
        # LLVM would write under a mask what puts other elements back as they were.
        b.line(f"store volatile {vector} {new.regs[0]}, ptr {pointer}, align {size}")
        return []

    def alone() -> list[Val]:
        store(b, buf.dtype, base, at, value, mask)
        return []

    whole = first + lanes <= count
    b.if_else(whole if mask is None else whole & mask, around, alone)
    return True
