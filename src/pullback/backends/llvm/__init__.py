"""The native back end: loop-IR kernels -> machine code, plans, threads.

    from pullback.backends.llvm import Context, Plan, compile_kernel, encode

    k = compile_kernel(kernel)                  # a CompiledKernel; from memory, from disk, or
    through LLVM (milliseconds)
    plan = Plan(slots=2)                        # or encode(program, [compile_kernel(k) for k in
    program.kernels])
    plan.kernel(k, bufs=[0, 1], dims=[n], scalars=[scalar_word(1.5, "f32")])
    plan.ret()
    plan.finish()
    slots = (ctypes.c_int64 * plan.slot_words)(x.ctypes.data, y.ctypes.data)
    ctx = Context()                             # one run at a time; ctx.reset() before the
    next, ctx.cancel() from anywhere
    plan.run(slots, ctx)                        # PlanError carries code, equation and step

`run_kernel` does all that for NumPy arrays in one call. Function calls from kernels (`Call`) go
through `set_function`.
Knobs: PULLBACK_ISA, PULLBACK_NUM_THREADS, PULLBACK_CACHE, PULLBACK_CACHE_DIR, PULLBACK_CACHE_SIZE,
PULLBACK_DEBUG=llvm,asm.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from pullback.backends.llvm import tier
from pullback.backends.llvm.aside import aside
from pullback.backends.llvm.compiler import (
    Compilation,
    CompiledKernel,
    compile_kernel,
    compile_kernels,
    emit_module,
    kernel_compile_count,
)
from pullback.backends.llvm.driver import ERRORS, Plan, PlanError, encode, scalar_word
from pullback.backends.llvm.target import Target, host_target, target_for
from pullback.backends.llvm.threads import (
    Context,
    num_threads,
    prepare,
    runtime,
    set_function,
    set_num_threads,
    thread_limit,
)
from pullback.loops.ir import Kernel

__all__ = [
    "ERRORS",
    "Compilation",
    "CompiledKernel",
    "Context",
    "Plan",
    "PlanError",
    "Target",
    "aside",
    "compile_kernel",
    "compile_kernels",
    "emit_module",
    "encode",
    "host_target",
    "kernel_compile_count",
    "num_threads",
    "prepare",
    "run_kernel",
    "runtime",
    "scalar_word",
    "set_function",
    "set_num_threads",
    "target_for",
    "thread_limit",
    "tier",
]


def run_kernel(
    kernel: Kernel,
    arrays: Sequence[Any],
    dims: Sequence[int] = (),
    scalars: Sequence[Any] = (),
    target: Target | None = None,
) -> None:
    """Compiles a kernel and runs it once over NumPy arrays, in the order of its params, dims and
    scalars.

    Raises PlanError when the kernel fails.
    """
    plan = Plan(len(arrays))
    words = [scalar_word(v, s.dtype) for v, s in zip(scalars, kernel.scalars, strict=True)]
    plan.kernel(compile_kernel(kernel, target), range(len(arrays)), dims, words)
    plan.ret()
    plan.finish()
    slots = (ctypes.c_int64 * plan.slot_words)(*[a.ctypes.data for a in arrays])
    plan.run(slots, Context())
