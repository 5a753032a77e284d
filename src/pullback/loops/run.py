"""Running a Program without machine code: plan steps in Python, kernels in the interpreter. The
oracle, and the last fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.loops import plan
from pullback.loops.interpret import interpret, numpy_dtype

__all__ = ["run_program"]

Array = np.ndarray[Any, Any]


def run_program(
    program: plan.Program,
    args: Sequence[Any],
    kernel: Callable[..., None] | None = None,
    lib: Callable[..., None] | None = None,
) -> list[Array]:
    """The results of a program on NumPy arrays. `kernel(k, buffers, dims, scalars)` replaces the
    interpreter."""
    run = kernel or (
        lambda k, bufs, dims, scalars: interpret(program.kernels[k], bufs, dims, scalars)
    )
    memory: dict[int, Array] = {}
    for slot in program.slots:
        if slot.role == "out":
            memory[slot.number] = np.full(max(1, slot.bytes), 0xA5, np.uint8)
    for number, value in [*zip(program.ins, args, strict=True), *program.consts]:
        flat = np.ascontiguousarray(value).reshape(-1)
        raw = flat.view(np.uint8) if flat.size else np.zeros(1, np.uint8)
        memory[number] = raw.copy()
    words = {s.number: s for s in program.slots}
    pc = 0
    while True:
        s = program.steps[pc]
        pc += 1
        if isinstance(s, plan.KernelStep):
            params = program.kernels[s.kernel].params
            bufs = [_typed(memory[n], p.dtype) for n, p in zip(s.bufs, params, strict=True)]
            run(s.kernel, bufs, s.dims, [v for v, _ in s.scalars])
        elif isinstance(s, plan.AllocStep):
            memory[s.slot] = np.full(max(1, s.bytes), 0xA5, np.uint8)
        elif isinstance(s, plan.FreeStep):
            del memory[s.slot]
        elif isinstance(s, plan.CopyStep):
            memory[s.dst][: s.bytes] = memory[s.src][: s.bytes]
        elif isinstance(s, plan.SwapStep):
            memory[s.a], memory[s.b] = memory[s.b], memory[s.a]
        elif isinstance(s, plan.JumpStep):
            pc = s.pc
        elif isinstance(s, plan.JumpIfNotStep):
            pc = pc if memory[s.slot][0] else s.pc
        elif isinstance(s, plan.HostStep):
            run_host(program.host[s.number], memory)
        elif isinstance(s, plan.RetStep):
            break
        elif lib is not None:
            lib(s, memory)
        else:
            raise RuntimeError(f"internal error in pullback: no library to run {s}")
    return [_view(memory[n], words[n].shape, words[n].dtype) for n in program.outs]


def _typed(raw: Array, dtype: str) -> Array:
    d = numpy_dtype(dtype)
    usable = len(raw) // d.itemsize * d.itemsize
    return raw[:usable].view(d)


def _view(raw: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """A slot as an array of its logical shape; complex slots hold twice as many reals."""
    d = numpy_dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if (
        raw.nbytes >= 2 * n * d.itemsize
        and n
        and dtype in ("f32", "f64")
        and raw.nbytes // d.itemsize == 2 * n
    ):
        d = np.dtype(np.complex64 if dtype == "f32" else np.complex128)
    return raw[: n * d.itemsize].view(d).reshape(shape)


def run_host(step: plan.HostCall, memory: dict[int, Array]) -> None:
    """One host step on arrays that view the slots."""
    args = []
    for number, shape, aval in step.ins:
        d = (
            np.dtype(aval.dtype)
            if not hasattr(aval.dtype, "physical")
            else np.dtype(aval.dtype.physical[1])
        )
        n = int(np.prod(shape, dtype=np.int64))
        args.append(memory[number][: n * d.itemsize].view(d).reshape(shape))
    results = step.call(*args)
    for (number, _, _), value in zip(step.outs, results, strict=True):
        raw = (
            np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            if np.size(value)
            else np.zeros(0, np.uint8)
        )
        memory[number][: raw.size] = raw
