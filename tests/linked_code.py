"""Runs linked kernels: for tests that compare several codes of one kernel."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence

import numpy as np

from pullback.backends.llvm import loader
from pullback.backends.llvm.calledcode import provide_functions
from pullback.backends.llvm.driver import Plan
from pullback.backends.llvm.table import FUNCTIONS_CALLED
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import Context, prepare, thread_limit

prepare()
# What loads kernels provides the functions that they call; here nothing does.
provide_functions(
    host_target(), [f"{op}_{t}" for op in FUNCTIONS_CALLED for t in ("float", "double")]
)


def run(
    image: loader.Image,
    arrays: Sequence[np.ndarray],
    dims: Sequence[int] = (),
    scalars: Sequence[int] = (),
    threads: int | None = None,
) -> None:
    """One run, which writes into the arrays; `scalars` are words (`driver.scalar_word`)."""
    code = loader.load_image(image)
    plan, context = Plan(len(arrays)), Context()
    plan.kernel(code.symbols["pb_kernel"], range(len(arrays)), dims, scalars)
    plan.ret()
    plan.finish()
    with thread_limit(threads) if threads else contextlib.nullcontext():
        context.reset()
        plan.run((ctypes.c_int64 * plan.slot_words)(*[a.ctypes.data for a in arrays]), context)
