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
from pullback.backends.llvm.called import mark
from pullback.backends.llvm.calledcode import functions_of
from pullback.backends.llvm.compiler import CompiledKernel, needs_of, recalled_kernel
from pullback.backends.llvm.loader import Image
from pullback.backends.llvm.target import host_target
from pullback.compile_log import KernelEntry
from pullback.loops import plan
from pullback.loops.canon import canonical_text, statements
from pullback.loops.fingerprint import equations, fingerprint, source_stamp
from pullback.loops.ir import Const, Kernel
from pullback.loops.lower.program import spec_of
from pullback.records import record

__all__ = ["Recalled", "program_key", "recall", "remember"]

STEPS = (
    plan.KernelStep, plan.AllocStep, plan.FreeStep, plan.CopyStep, plan.SwapStep, plan.JumpStep,
    plan.JumpIfNotStep, plan.LibStep, plan.RetStep, plan.HostStep,
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


def program_key(closed: Any, donated: Sequence[bool], room: int | None = None) -> str | None:
    """The name of a program's entry, planned for so many bytes of temporaries; None for one that is
    not kept."""
    if disk_cache() is None:
        return None
    text = fingerprint(closed, donated)
    if text is None:
        return None
    what = "program " if room is None else f"program in {room} "
    target = host_target()
    return kernel_key(text, target.key, what + mark(target) + _STAMP)


def _packed_scalars(scalars: Any) -> tuple[Any, ...]:
    return tuple((v.value if isinstance(v, Const) else v, d) for v, d in scalars)


Host = tuple[int, str, int, list[tuple[int, tuple[int, ...]]], list[tuple[int, tuple[int, ...]]]]


def _packed_host(closed: Any, program: plan.Program) -> list[Host] | None:
    """What Python does between the kernels: the place of its equation among those of the program,
    whose rule does it, and the slots; None if one is no equation of the program's own."""
    if not program.host:
        return []
    where: dict[int, int] = {}
    for k, eqn in enumerate(equations(closed)):
        where.setdefault(id(eqn), k)
    packed: list[Host] = []
    for h in program.host:
        number = where.get(id(program.equations[h.equation])) if h.equation >= 0 else None
        if number is None:
            return None
        ins, outs = ([(slot, shape) for slot, shape, _ in views] for views in (h.ins, h.outs))
        packed.append((number, h.name, h.equation, ins, outs))
    return packed


def _host_calls(
    closed: Any, packed: Sequence[Host], reference: Callable[[Any], Callable[..., Any]]
) -> list[plan.HostCall] | None:
    """The same, done by the rules of this process; None if an equation is not what it was."""
    if not packed:
        return []
    eqns, calls = list(equations(closed)), []
    for number, name, equation, *views in packed:
        eqn = eqns[number] if number < len(eqns) else None
        if eqn is None or eqn.primitive.name != name:
            return None
        avals = [[v.aval for v in vs if spec_of(v.aval)] for vs in (eqn.invars, eqn.outvars)]
        if [len(a) for a in avals] != [len(v) for v in views]:
            return None
        ins, outs = (
            tuple((*view, aval) for view, aval in zip(v, a, strict=True))
            for v, a in zip(views, avals, strict=True)
        )
        calls.append(plan.HostCall(reference(eqn), ins, outs, name, equation))
    return calls


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
    host = _packed_host(closed, program)
    if host is None or any(id(v) not in where for _, v in program.consts):
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
        (k.key, k.name, sorted(needs_of(b)), functions_of(canonical_text(b)), statements(b))
        for k, b in zip(kernels, program.kernels, strict=True)
    ]
    consts = [(slot, where[id(v)]) for slot, v in program.consts]
    data = (
        made, list(program.keys), steps, slots, list(program.ins), consts, list(program.outs),
        [tuple(pair) for pair in program.donated], len(program.equations), program.peak_bytes,
        program.work, program.seconds, program.costs, unbounded, host,
    )  # fmt: skip
    try:
        cache.put(key, Image(marshal.dumps(data), {}, (), "program"))
    except ValueError:  # a number that is none of Python's own
        return


def recall(
    key: str,
    closed: Any,
    again: Callable[[], plan.Program],
    reference: Callable[[Any], Callable[..., Any]],
) -> Recalled | None:
    """A program from disk; None if it is not there, or not all of its kernels are. `again` lowers
    the program, `reference` gives the rule by which Python evaluates an equation."""
    cache = disk_cache()
    image = cache.get(key) if cache is not None else None
    if image is None or image.kind != "program":
        return None
    try:
        (made, keys, steps, slots, ins, consts, outs, donated, equations, peak, work,
         seconds, costs, unbounded, packed) = marshal.loads(image.data)  # fmt: skip
    except (ValueError, EOFError, TypeError):
        return None
    host = _host_calls(closed, packed, reference)
    if host is None:
        return None
    lowered: list[plan.Program] = []

    def program_again() -> plan.Program:
        if not lowered:
            lowered.append(again())
        return lowered[0]

    kernels, origins = [], []
    for number, (kernel_name, name, needs, functions, length) in enumerate(made):

        def kernel_again(number: int = number) -> Kernel:
            return program_again().kernels[number]

        haste = tier.haste(work, seconds, costs[number], bool(needs), length)
        found = recalled_kernel(kernel_name, name, needs, functions, kernel_again, haste)
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
        host,
        donated,
        _Later(lambda: program_again().equations, equations),  # type: ignore[arg-type]
        peak,
        work,
        seconds=seconds,
        costs=costs,
    )
    return Recalled(program, kernels, origins, unbounded)
