"""Calls of LAPACK and BLAS from kernels: every argument is an address, results come last.

Compilers of Fortran pass the lengths of characters as further arguments after all others; so do
we, because routines may rely on the room that these take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.backends.llvm.build import Val
from pullback.backends.llvm.convert import from_memory, memory_type, to_memory
from pullback.backends.llvm.table import TABLE, function_offset
from pullback.loops.ir import Buf, Call
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
    b.line(f"call void {function.regs[0]}({', '.join(parts)})")
    for out, slot in zip(s.outs, slots, strict=True):
        value: Val = b.load(memory_type(out.dtype), slot)
        e.env[out] = from_memory(b, out.dtype, value)
