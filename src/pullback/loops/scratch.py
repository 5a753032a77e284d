"""How much memory a program takes besides its arguments and results: its temporaries, as the plan
makes and frees them, and the scratch of the kernel that needs most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pullback.loops import plan
from pullback.loops.interpret import apply_op
from pullback.loops.ir import Alloc, Const, For, If, Kernel, Let, Var, While
from pullback.loops.ops import storage_bytes

__all__ = ["scratch_bytes", "temporary_bytes"]

# What sizes are computed with.
ARITHMETIC = {"add", "sub", "mul", "div", "rem", "idiv", "irem", "min", "max", "convert"}


def temporary_bytes(program: plan.Program, threads: int) -> int:
    """The largest sum, over the plan's steps, of the temporaries that are there and the scratch of
    the kernel that runs, with so many threads."""
    live = peak = 0
    sizes: dict[int, int] = {}
    for step in program.steps:
        if isinstance(step, plan.AllocStep):
            sizes[step.slot] = step.bytes
            live += step.bytes
            peak = max(peak, live)
        elif isinstance(step, plan.FreeStep):
            live -= sizes.pop(step.slot, 0)
        elif isinstance(step, plan.KernelStep):
            kernel = program.kernels[step.kernel]
            values = [value for value, _ in step.scalars]
            peak = max(peak, live + scratch_bytes(kernel, step.dims, values, threads))
    return peak


def scratch_bytes(kernel: Kernel, dims: Sequence[int], scalars: Sequence[Any], threads: int) -> int:
    """The scratch that a kernel holds at most, at once: each thread of a parallel loop has its own.
    Scratch whose size is found while the kernel runs counts as nothing."""
    known: dict[Var, Any] = dict(zip(kernel.dims, dims, strict=False))
    known.update(zip(kernel.scalars, scalars, strict=False))
    return _most(kernel.body, known, threads)


def _most(body: Sequence[Any], known: dict[Var, Any], threads: int) -> int:
    most = 0
    for s in body:
        if isinstance(s, Let):
            _remember(s, known)
        elif isinstance(s, Alloc):
            most = max(most, _size(s.buf, known) + _most(s.body, known, threads))
        elif isinstance(s, For):
            many = s.kind == "parallel"
            inner = _most(s.body, known, 1 if many else threads)
            most = max(most, inner * threads if many else inner)
        elif isinstance(s, If):
            most = max(most, _most(s.then, known, threads), _most(s.orelse, known, threads))
        elif isinstance(s, While):
            for region in (s.cond, s.body):
                most = max(most, _most(region.body, known, threads))
    return most


def _remember(s: Let, known: dict[Var, Any]) -> None:
    """Integers that follow from the extents."""
    if s.op not in ARITHMETIC or not s.out.dtype.startswith("i"):
        return
    args = [a.value if isinstance(a, Const) else known.get(a) for a in s.args]
    if all(isinstance(a, int) for a in args):
        known[s.out] = int(apply_op(s.op, s.out.dtype, s.attrs, *args))


def _size(buf: Any, known: Mapping[Var, Any]) -> int:
    shape = [d if isinstance(d, int) else known.get(d, 0) for d in buf.shape]
    return math.prod(shape) * storage_bytes(buf.dtype)
