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
PULLBACK_FLUSH_DENORMALS, PULLBACK_DEBUG=llvm,asm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.lazy_imports import LateNames

if TYPE_CHECKING:
    from . import first_import, tier
    from .compiler import (
        Compilation,
        CompiledKernel,
        compile_kernel,
        compile_kernels,
        emit_module,
        foresee_llvm,
        kernel_compile_count,
        tiles_of,
    )
    from .driver import ERRORS, Plan, PlanError, encode, scalar_word
    from .single import run_kernel
    from .target import Target, host_target, target_for
    from .threads import (
        Context,
        num_threads,
        prepare,
        runtime,
        set_function,
        set_num_threads,
        thread_limit,
    )

__all__ = [
    "ERRORS",
    "Compilation",
    "CompiledKernel",
    "Context",
    "Plan",
    "PlanError",
    "Target",
    "compile_kernel",
    "compile_kernels",
    "emit_module",
    "encode",
    "first_import",
    "foresee_llvm",
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
    "tiles_of",
]

# Loaded when they are asked for: who imports the package may need the loader and the cache only.
_late = LateNames(
    "pullback.backends.llvm",
    {
        "compiler": "Compilation CompiledKernel compile_kernel compile_kernels emit_module "
        "foresee_llvm kernel_compile_count tiles_of",
        "driver": "ERRORS Plan PlanError encode scalar_word",
        "single": "run_kernel",
        "target": "Target host_target target_for",
        "threads": "Context num_threads prepare runtime set_function set_num_threads thread_limit",
        "first_import": "first_import",
        "tier": "tier",
    },
)


_late.complete()


def __getattr__(name: str) -> Any:
    return _late(name)
