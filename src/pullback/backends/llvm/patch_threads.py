"""Loops for several threads in code that is put together from stencils (see patched.py).

The loop becomes a function of a chunk in the middle of the kernel's, which runs through the
context's `launch` as in LLVM's code. What it reads lies in the kernel's frame, on another thread's
stack perhaps: it begins with a copy of that frame, which nobody writes meanwhile, and goes on as
the kernel would. Scratch that the loop's body allocates is its own; what lies around it is shared.
"""

from __future__ import annotations

from pullback.backends.llvm.analysis import body_cost
from pullback.backends.llvm.emit_loops import updates_shared
from pullback.backends.llvm.patch_code import (
    ADDRESS,
    FRAME_AGAIN,
    JUMP,
    LOAD,
    NOT_ZERO,
    STORE,
    SUB,
)
from pullback.backends.llvm.patch_statements import FAILED, Statements
from pullback.backends.llvm.strides import is_unit
from pullback.backends.llvm.table import ERROR_CODE
from pullback.loops.ir import For

__all__ = ["Threads"]

FIRST, LAST, CHUNK, FRAME = range(0, 32, 8)  # words of a closure; `launch` writes the third
# rbp, rsp and the frame as in a kernel; r8 = context, r9 = number of the chunk, r10 = closure.
BEGIN = (
    b"\x55\x48\x89\xe5\x48\x81\xec", b"\x48\x83\xe4\xc0\x50\x49\x89\xf8\x49\x89\xd1\x49\x89\xf2"
)  # fmt: skip
ADDRESS_OF = b"\x48\x8d\x05"  # rax = where a label is
COPY_FRAME = b"\x49\x8b\x72\x18\xb9"  # rsi = the closure's frame; ecx = words of it
COPIED = b"\xf3\x48\xa5" + FRAME_AGAIN + b"\x4c\x89\x07"  # the context's address is the thread's
# r9 = where the chunk begins, r10's word after it where it would end; at most where the loop ends.
CHUNK_BEGINS = b"\x49\x8b\x42\x10\x4c\x0f\xaf\xc8\x4d\x03\x0a\x4c\x01\xc8"
CHUNK_ENDS = b"\x49\x3b\x42\x08\x49\x0f\x4f\x42\x08"
STORE_FIRST = b"\x4c\x89\x8f"  # r9
END = b"\xc5\xf8\x77\x48\x89\xec\x5d\xc3"


class Threads(Statements):
    """A kernel's function, with loops that threads share."""

    def is_shared(self, s: For) -> bool:
        """Whether threads share a loop."""
        known = s.kind == "parallel" and not s.carry and s.index.dtype == "i64"
        alone = self.n > 1 or self.in_lanes or not self.shared
        return known and not alone and is_unit(s) and not updates_shared(s.body)

    def parallel(self, s: For) -> None:
        """A loop whose iterations threads share."""
        lo, hi = self.at(s.lo), self.at(s.hi)
        chunk, over = self.label(), self.label()
        self.jump(JUMP, over)
        self.mark(chunk)
        self.chunk(s)
        self.mark(over)
        closure = self.slot(32)
        self.copy(lo, closure + FIRST)
        self.copy(hi, closure + LAST)
        self.on(ADDRESS, 0)
        self.on(STORE, closure + FRAME)
        where, function, count = self.slot(), self.slot(), self.slot()
        self.on(ADDRESS, closure)
        self.on(STORE, where)
        self.jump(ADDRESS_OF, chunk)
        self.on(STORE, function)
        self.on(LOAD, hi)
        self.on(SUB, lo)
        self.on(STORE, count)
        cost = dict(self.kernel.attrs).get("cost_per_iteration", body_cost(s.body))
        weight = self.number(max(1, int(float(cost) * 16)))
        self.function("launch", [function, where, count, weight, self.number(1)])
        self.code += b"\x48\x8b\x07"  # rax = context
        self.on(b"\x48\x83\xb8", ERROR_CODE)
        self.code += b"\0"
        self.jump(NOT_ZERO, self.exit(FAILED, None))

    def chunk(self, s: For) -> None:
        """The function of a chunk."""
        begin, end = BEGIN
        self.code += begin
        self.sizes.append(len(self.code))
        self.code += b"\0\0\0\0" + end + FRAME_AGAIN + COPY_FRAME
        self.words.append(len(self.code))
        self.code += b"\0\0\0\0" + COPIED
        index, last = self.slot(), self.slot()
        self.code += CHUNK_BEGINS + CHUNK_ENDS
        self.on(STORE_FIRST, index)
        self.on(STORE, last)
        prepare, start = self.label(), self.label()
        self.jump(JUMP, prepare)
        self.mark(start)
        placed, heap = len(self.placed), self.heap
        self.where[s.index], self.heap, self.shared = index, (), False
        times = self.trips.between(s.lo, s.hi, s.step) / self.sharing
        self.loop(index, index, last, 1, lambda: self.block(s.body), times)
        self.heap, self.shared = heap, True
        self.code += END
        self.chunks.append((prepare, start, placed, len(self.placed)))
