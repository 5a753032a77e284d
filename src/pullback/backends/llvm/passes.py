"""The code of functions that are written in the loop IR (loops/digits.py).

Kernels call them as they call tile functions, with their arguments in registers.
"""

from __future__ import annotations

from typing import Any

from pullback.backends.llvm.build import FUNCTION_ATTRIBUTES, Val
from pullback.backends.llvm.emit import Emitter, Module
from pullback.backends.llvm.emit_kinds import AllLoops
from pullback.backends.llvm.target import Target
from pullback.lazy_imports import lazy_module
from pullback.loops.tiles import parse_tile

__all__ = ["passes_text"]

# What writes the function: few processes need it.
digits: Any = lazy_module("pullback.loops.digits")


def passes_text(target: Target, name: str, brief: bool = False) -> str:
    """The module of a function that sorts; `brief` writes the least code, not the fastest."""
    kernel = digits.passes_kernel(parse_tile(name)[0], name.startswith("radixes"))
    module = Module(target, "pb", attrs=dict(kernel.attrs), brief=brief)
    *operands, result = kernel.params
    buffers = {buf: f"%b{k}" for k, buf in enumerate(operands)}
    dims = {dim: f"%d{k}" for k, dim in enumerate(kernel.dims)}
    given = [f"ptr {b}" for b in buffers.values()] + [f"i64 {d}" for d in dims.values()]
    head = f"define i32 @pb_tile({', '.join(['ptr %ctx', *given, 'ptr %result'])}) "
    e = Emitter(module, head + FUNCTION_ATTRIBUTES, loops=AllLoops())
    for buf, register in (*buffers.items(), (result, "%result")):
        e.buffers[buf] = Val(e.b, "ptr", 1, (register,))
    for dim, register in dims.items():
        e.env[dim] = Val(e.b, "i64", 1, (register,))
    e.statements(kernel.body)
    e.b.line("ret i32 0")
    module.functions.append(e.b.text())
    return module.text()
