"""Whole programs on disk: the steps of a plan and the keys of its kernels, found by the program's
text, so that a warm start lowers nothing.

What only questions about a program need (its kernels in the loop IR, its equations), and better
code for a kernel that was made quickly, is had by lowering the program after all.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from pullback.backends.llvm import tier
from pullback.backends.llvm.cache import DiskCache, disk_cache, kernel_key
from pullback.backends.llvm.compiler import CompiledKernel, needs_of, recalled_kernel
from pullback.backends.llvm.loader import Image
from pullback.backends.llvm.target import host_target
from pullback.compile_log import KernelEntry
from pullback.loops import plan
from pullback.loops.fingerprint import fingerprint, source_stamp
from pullback.loops.ir import Const, Kernel
from pullback.loops.tiles import is_tile
from pullback.records import record

__all__ = ["Recalled", "program_key", "recall", "remember"]

STEPS = (
    plan.KernelStep, plan.AllocStep, plan.FreeStep, plan.CopyStep, plan.SwapStep, plan.JumpStep,
    plan.JumpIfNotStep, plan.LibStep, plan.RetStep,
)  # fmt: skip
_NUMBER = {kind: k for k, kind in enumerate(STEPS)}
_STAMP = source_stamp()  # of the files as they were when their code was loaded


class _Later(Sequence[Any]):
    """A list that is made when somebody looks into it."""

    def __init__(self, make: Callable[[], Sequence[Any]], length: int) -> None:
        self.make, self.length = make, length

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, k: int) -> Any: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[Any]: ...

    def __getitem__(self, k: Any) -> Any:
        return self.make()[k]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.make())


@record
class Recalled:
    """A program from disk, with the machine code of its kernels."""

    program: plan.Program
    kernels: list[CompiledKernel]
    origins: list[str]
    unbounded: bool

    def entries(self) -> tuple[KernelEntry, ...]:
        """How each kernel was had, for `explain_compile`."""
        pairs = zip(self.kernels, self.origins, strict=True)
        return tuple(KernelEntry(k.name, o, k.source is not None, 0.0, 0.0, 0) for k, o in pairs)

    def tile_entries(self) -> tuple[KernelEntry, ...]:
        """None: they are on disk, too."""
        return ()


def program_key(closed: Any, donated: Sequence[bool]) -> str | None:
    """The name of a program's entry; None for one that is not kept."""
    if disk_cache() is None:
        return None
    text = fingerprint(closed, donated)
    if text is None:
        return None
    return kernel_key(text, host_target().key, "program " + _STAMP)


def _packed_scalars(scalars: Any) -> tuple[Any, ...]:
    return tuple((v.value if isinstance(v, Const) else v, d) for v, d in scalars)


def remember(
    cache: DiskCache,
    key: str,
    closed: Any,
    program: plan.Program,
    kernels: Sequence[CompiledKernel],
    unbounded: bool,
) -> None:
    """Puts a program on disk, where its kernels go, if all of it can be told."""
    where = {id(c): k for k, c in enumerate(closed.consts)}
    if program.host or any(id(v) not in where for _, v in program.consts):
        return
    steps = []
    for step in program.steps:
        number = _NUMBER.get(type(step))
        if number is None:
            return
        fields = [getattr(step, name) for name in step.__match_args__]
        if isinstance(step, plan.KernelStep | plan.LibStep):
            fields[3] = _packed_scalars(fields[3])
        steps.append((number, *fields))
    slots = [(s.number, s.role, s.dtype, s.shape, s.bytes) for s in program.slots]
    made = [
        (k.key, k.name, sorted(needs_of(b))) for k, b in zip(kernels, program.kernels, strict=True)
    ]
    consts = [(slot, where[id(v)]) for slot, v in program.consts]
    data = (
        made, list(program.keys), steps, slots, list(program.ins), consts, list(program.outs),
        [tuple(pair) for pair in program.donated], len(program.equations), program.peak_bytes,
        program.work, program.seconds, program.costs, unbounded,
    )  # fmt: skip
    try:
        cache.put(key, Image(marshal.dumps(data), {}, (), "program"))
    except ValueError:  # a number that is none of Python's own
        return


def recall(key: str, closed: Any, again: Callable[[], plan.Program]) -> Recalled | None:
    """A program from disk; None if it is not there, or not all of its kernels are. `again` lowers
    the program."""
    cache = disk_cache()
    image = cache.get(key) if cache is not None else None
    if image is None or image.kind != "program":
        return None
    try:
        (made, keys, steps, slots, ins, consts, outs, donated, equations, peak, work,
         seconds, costs, unbounded) = marshal.loads(image.data)  # fmt: skip
    except (ValueError, EOFError, TypeError):
        return None
    lowered: list[plan.Program] = []

    def program_again() -> plan.Program:
        if not lowered:
            lowered.append(again())
        return lowered[0]

    kernels, origins = [], []
    for number, (kernel_name, name, needs) in enumerate(made):

        def kernel_again(number: int = number) -> Kernel:
            return program_again().kernels[number]

        haste = tier.haste(work, seconds, costs[number], any(map(is_tile, needs)))
        found = recalled_kernel(kernel_name, name, needs, kernel_again, haste)
        if found is None:
            return None
        kernels.append(found[0])
        origins.append(found[1])
    program = plan.Program(
        _Later(lambda: program_again().kernels, len(made)),  # type: ignore[arg-type]
        keys,
        [STEPS[number](*fields) for number, *fields in steps],
        [plan.Slot(*fields) for fields in slots],
        ins,
        [(slot, closed.consts[k]) for slot, k in consts],
        outs,
        [],
        donated,
        _Later(lambda: program_again().equations, equations),  # type: ignore[arg-type]
        peak,
        work,
        seconds=seconds,
        costs=costs,
    )
    return Recalled(program, kernels, origins, unbounded)
