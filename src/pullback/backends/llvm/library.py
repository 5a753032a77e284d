"""Calls of LAPACK and BLAS from kernels: every argument is an address, results come last.

Compilers of Fortran pass the lengths of characters as further arguments after all others; so do
we, because routines may rely on the room that these take.

The library has threads of its own. They gain nothing on small matrices, they spin while they wait
for each other, and inside a loop over matrices they would fight ours: there, for few rows, and in
a call of one thread, it is told to use one while the call lasts. The number is the library's, not
the thread's, so calls are counted, and the last one to leave puts it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.backends.llvm.build import Val
from pullback.backends.llvm.convert import from_memory, memory_type, to_memory
from pullback.backends.llvm.table import NUM_THREADS, TABLE, function_offset
from pullback.loops.ir import Buf, Call
from pullback.loops.libraries import OWN_THREADS
from pullback.loops.ops import storage_bytes

if TYPE_CHECKING:
    from pullback.backends.llvm.emit import Emitter

__all__ = ["emit_library_call"]


def emit_library_call(e: Emitter, s: Call, form: str) -> None:
    """A call of a routine in a form of loops/libraries.py; its results become values."""
    b = e.b
    table = b.load("ptr", b.gep(e.ctx, TABLE))
    function = b.load("ptr", b.gep(table, function_offset(s.name)))
    args, parts = iter(s.args), []
    for letter in form:
        if letter == "n":
            parts.append("ptr null")
            continue
        a = next(args)
        if isinstance(a, Buf):
            pointer = e.buffers[a]
            if letter == "o":
                at = next(args)
                assert not isinstance(at, Buf)
                pointer = b.gep(pointer, e.val(at), storage_bytes(a.dtype))
        else:
            pointer = b.alloca(8, 8)
            b.store(to_memory(b, a.dtype, e.val(a)), pointer)
        parts.append(f"ptr {pointer.regs[0]}")
    slots = [b.alloca(8, 8) for _ in s.outs]
    for slot in slots:
        b.store(b.lit(0, "i64"), slot)
    parts += [f"ptr {slot.regs[0]}" for slot in slots]
    parts += ["i64 1"] * form.count("c")
    size = _first_size(e, s, form)
    alone = b.lit(True, "i1") if e.parallel or size is None else size < OWN_THREADS
    if alone.c is None:
        alone = alone | (b.load("i64", b.gep(e.ctx, NUM_THREADS)) < 2)
    limit = b.load("ptr", b.gep(table, function_offset("library_threads")))
    guarded = alone & b.cast("ptrtoint", limit, "i64").ne(0)
    calls = b.gep(table, function_offset("library_calls"))

    def enter() -> list[Val]:
        b.impure_reg(f"atomicrmw add ptr {calls.regs[0]}, i64 1 monotonic")
        b.line(f"call void {limit.regs[0]}(i32 1)")
        return []

    def leave() -> list[Val]:
        before = b.impure_reg(f"atomicrmw sub ptr {calls.regs[0]}, i64 1 monotonic")

        def restore() -> list[Val]:
            usual = b.load("i64", b.gep(table, function_offset("library_usual")))
            b.line(f"call void {limit.regs[0]}(i32 {b.cast('trunc', usual, 'i32').regs[0]})")
            return []

        b.if_else(Val(b, "i64", 1, (before,)).eq(1), restore)
        return []

    b.if_else(guarded, enter)
    b.line(f"call void {function.regs[0]}({', '.join(parts)})")
    b.if_else(guarded, leave)
    for out, slot in zip(s.outs, slots, strict=True):
        value: Val = b.load(memory_type(out.dtype), slot)
        e.env[out] = from_memory(b, out.dtype, value)


def _first_size(e: Emitter, s: Call, form: str) -> Val | None:
    """The first integer that a routine is given: the rows of its matrix."""
    args = iter(s.args)
    for letter in form:
        if letter == "n":
            continue
        a = next(args)
        if letter == "o":
            next(args)
        if letter == "s" and not isinstance(a, Buf) and a.dtype == "i32":
            return e.val(a)
    return None
