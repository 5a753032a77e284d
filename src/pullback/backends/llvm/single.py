"""One kernel, compiled and run over NumPy arrays: for tests and for looking at what it does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from pullback.backends.llvm.compiler import compile_kernel
from pullback.backends.llvm.driver import Plan, scalar_word
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.threads import Context
from pullback.loops.ir import Kernel

__all__ = ["run_kernel"]


def run_kernel(
    kernel: Kernel,
    arrays: Sequence[Any],
    dims: Sequence[int] = (),
    scalars: Sequence[Any] = (),
    target: Target | None = None,
    quick: bool = False,
) -> None:
    """Compiles a kernel, `quick` if that is to be its first code, and runs it once over NumPy
    arrays, in the order of its params, dims and scalars.

    Raises PlanError when the kernel fails.
    """
    plan = Plan(len(arrays))
    words = [scalar_word(v, s.dtype) for v, s in zip(scalars, kernel.scalars, strict=True)]
    plan.kernel(compile_kernel(kernel, target, quick), range(len(arrays)), dims, words)
    plan.ret()
    plan.finish()
    slots = (ctypes.c_int64 * plan.slot_words)(*[a.ctypes.data for a in arrays])
    plan.run(slots, Context())
