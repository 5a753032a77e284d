"""Plans: the steps of docs/contract.md packed into a table that native code walks, and running
them.

`encode(program, kernels)` turns loops.plan.Program into a `Plan`. `Plan.run(slots, ctx)` fills in
nothing by itself: the
caller puts the addresses of inputs, constants and outputs into `slots` (a ctypes array of
`plan.slot_words` words).
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import errors
from pullback.backends.llvm import tier
from pullback.backends.llvm.compiler import CompiledKernel
from pullback.backends.llvm.table import AT_UNFINISHED, function_offset
from pullback.backends.llvm.threads import Context, runtime
from pullback.lazy_imports import lazy_module
from pullback.loops.ir import Const
from pullback.loops.ops import BITS, FLOATS, SIGNED
from pullback.loops.plan import (
    AllocStep,
    CopyStep,
    FreeStep,
    HostStep,
    JumpIfNotStep,
    JumpStep,
    KernelStep,
    LibStep,
    Program,
    RetStep,
    SwapStep,
)  # fmt: skip

ml_dtypes = lazy_module("ml_dtypes")
logging: Any = lazy_module("logging")

__all__ = ["ERRORS", "Plan", "PlanError", "encode", "functions", "scalar_word"]

RET, KERNEL, ALLOC, FREE, COPY, SWAP, JUMP, JUMP_IF_NOT, HOST = range(9)
ERRORS = {
    1: "cancelled",
    2: "out of memory",
    3: "index out of bounds",
    4: "assertion failed",
    5: "NaN",
}


class PlanError(RuntimeError):
    """A run that stopped: `code` (see ERRORS), the equation's number (-1 unknown) and the step."""

    def __init__(self, code: int, equation: int, pc: int) -> None:
        super().__init__(f"{ERRORS.get(code, f'error {code}')} in step {pc} (equation {equation})")
        self.code, self.equation, self.pc = code, equation, pc


def scalar_word(value: Any, dtype: str) -> int:
    """A kernel scalar as one machine word: the bits of the dtype in the low bytes."""
    if dtype == "f64":
        return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
    if dtype == "f32":
        return int(struct.unpack("<I", struct.pack("<f", _finite_f32(float(value))))[0])
    if dtype in FLOATS:
        return _narrow_bits(float(value), dtype)
    bits = BITS[dtype]
    word = int(value) & ((1 << max(bits, 8)) - 1)
    return word - (1 << 64) if word >> 63 and dtype in SIGNED else word


def _finite_f32(value: float) -> float:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _narrow_bits(value: float, dtype: str) -> int:
    """The stored code of a small float, found among the codes near it."""
    if dtype == "bf16":
        raw = int(struct.unpack("<I", struct.pack("<f", _finite_f32(value)))[0])
        return (
            (raw >> 16 | 0x40)
            if value != value
            else ((raw + 0x7FFF + (raw >> 16 & 1)) >> 16) & 0xFFFF
        )
    if dtype == "f16":
        try:
            return int(struct.unpack("<H", struct.pack("<e", value))[0])
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    return int(np.asarray(value, np.float32).astype(getattr(ml_dtypes, dtype)).view(np.uint8))


class Plan:
    """A packed step table. Append steps with the methods, then `finish()`; one plan may run many
    times, also at once."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.steps: list[list[int]] = []
        self.keep: list[Any] = []  # arrays and kernels that the table points at
        self.owned: list[int] = []
        self.max_bufs = self.max_dims = 1
        self.host: list[Callable[..., Any]] = []
        self.head: Any = None
        self.work = self.seconds = 0.0  # of one run
        # Steps whose code could be better: their numbers and kernels, and the three words before
        # their scalars that `pb_timed` reads (native.py).
        self.hasty: list[tuple[int, CompiledKernel, Any]] = []
        self.first: dict[int, CompiledKernel] = {}  # those that there were at first
        # The cycles that they have taken: outside of tile functions, and of kernels that call them.
        self.spent = array("q", [0, 0])
        # The seconds that good code would take for a run of the plan, by the former's kernels.
        self.good: dict[int, float] = {}
        self._effort = -1.0
        self.again = False
        self.table: Any = None
        self.kernel_steps = 0
        self.count: Any = None  # the table's head; its last word counts the kernels that have run

    @property
    def slot_words(self) -> int:
        """Words of a slot table: addresses, then the sizes of what the plan allocated."""
        return 2 * self.slots

    def _words(self, values: Sequence[int]) -> int:
        """The address of a block of words. Not of a type of ctypes: each length would be another
        one, which takes 20 us to make."""
        try:
            block = array("q", [v - (1 << 64) if v >> 63 > 0 else v for v in values] or [0])
        except OverflowError:
            largest = max(map(abs, values))
            raise errors.OutOfMemoryError.allocating(
                largest, ", more than 64 bits can count"
            ) from None
        self.keep.append(block)
        return block.buffer_info()[0]

    def _add(self, *words: int, equation: int = -1) -> int:
        self.steps.append([*words, *[0] * (7 - len(words)), equation])
        return len(self.steps) - 1

    def kernel(
        self,
        function: CompiledKernel | int,
        bufs: Sequence[int],
        dims: Sequence[int] = (),
        scalars: Sequence[int] = (),
        equation: int = -1,
        dim_slots: Sequence[tuple[int, int]] = (),
        cost: float = 0.0,
    ) -> int:
        """A kernel or library routine; `dim_slots` are (dim number, slot holding it as an i64),
        `cost` the seconds that a run is expected to take."""
        address = function if isinstance(function, int) else function.address
        self.keep.append(function)
        numbers = self._words(scalars)
        if isinstance(function, CompiledKernel) and function.source is not None:
            address, numbers = self._timed(function, scalars, cost)
        self.max_bufs, self.max_dims = max(self.max_bufs, len(bufs)), max(self.max_dims, len(dims))
        patch = 0
        if dim_slots:
            patch = self._words(
                [len(dims), len(dim_slots), *[w for pair in dim_slots for w in pair]]
            )
        self.kernel_steps += 1
        lists = self._words(bufs), len(bufs), self._words(dims), numbers
        return self._add(KERNEL, address, *lists, patch, equation=equation)

    def _timed(
        self, kernel: CompiledKernel, scalars: Sequence[int], cost: float
    ) -> tuple[int, int]:
        """What runs a kernel whose code could be better and notes how long it takes, and the
        scalars that it needs. What has been improved runs without it."""
        multiplies = kernel.multiplies
        if not multiplies:
            self.good[id(kernel)] = cost
        total = self.spent.buffer_info()[0] + 8 * multiplies
        numbers = self._words([total, 0, kernel.address, *scalars]) + 24
        self.hasty.append((len(self.steps), kernel, self.keep[-1]))
        self.first[len(self.steps)] = kernel
        return runtime().code.symbols["pb_timed"], numbers

    def alloc(self, slot: int, nbytes: int, size_slot: int = -1) -> int:
        """nbytes, or nbytes times the i64 in a slot."""
        if slot not in self.owned:
            self.owned.append(slot)
        return self._add(ALLOC, slot, nbytes, size_slot)

    def free(self, slot: int) -> int:
        return self._add(FREE, slot)

    def copy(self, dst: int, src: int, nbytes: int, size_slot: int = -1) -> int:
        return self._add(COPY, dst, src, nbytes, size_slot)

    def swap(self, a: int, b: int) -> int:
        for slot, other in ((a, b), (b, a)):
            if other in self.owned and slot not in self.owned:
                self.owned.append(slot)
        return self._add(SWAP, a, b)

    def jump(self, pc: int) -> int:
        return self._add(JUMP, pc)

    def jump_if_not(self, slot: int, pc: int) -> int:
        return self._add(JUMP_IF_NOT, slot, pc)

    def host_step(self, number: int) -> int:
        return self._add(HOST, number)

    def ret(self) -> int:
        return self._add(RET)

    def finish(self) -> Plan:
        """Packs the table; steps cannot be added afterwards."""
        flat = [w for step in self.steps for w in step]
        table = self._words(flat)
        self.table = self.keep[-1]
        owned = self._words(self.owned)
        words = [table, self.slots, self.max_bufs, self.max_dims, len(self.owned), owned, 0]
        self.head = ctypes.c_void_p(self._words(words))
        self.count = self.keep[-1]
        if self.hasty:
            tier.watch(self)
        return self

    def heat(self) -> tuple[float, float]:
        """How often each of its kernels has run on average, and the work done (see tier.py)."""
        runs = self.count[6] / max(1, self.kernel_steps)
        return runs, runs * max(self.work, 1000.0)

    def effort(self) -> float:
        """The seconds that good code of its kernels takes LLVM, roughly: by quick code's length."""
        if self._effort < 0:
            codes = {id(kernel): kernel.code for _, kernel, _ in self.hasty}
            self._effort = sum(map(tier.effort, codes.values()))
        return self._effort

    def lost(self) -> float:
        """The seconds that its runs have taken longer than with good code."""
        own, around_tiles = map(runtime().seconds_of, self.spent)
        good = self.heat()[0] * sum(self.good.values())
        return tier.lost(own, good) + tier.OUTSIDE_TILES * around_tiles

    def _lost(self, entry: tuple[int, CompiledKernel, Any]) -> float:
        """The same of one step. Whether its kernel multiplies is what was said when the step was
        made: of a kernel that another plan has improved meanwhile nobody knows any more."""
        _, kernel, words = entry
        own, good = runtime().seconds_of(words[1]), self.good.get(id(kernel))
        if good is None:
            return tier.OUTSIDE_TILES * own
        return tier.lost(own, self.heat()[0] * good)

    def improve(self, between: Callable[[], None] | None = None) -> bool:
        """Compiles one more of the kernels well that were compiled quickly, that which has lost
        most; False when there is none left. Runs go on meanwhile: a step takes the old address
        or the new one. What cannot be compiled keeps its quick code, which computes the same."""
        try:
            entry = step, kernel, _ = max(self.hasty, key=self._lost)
        except ValueError:  # there is none
            return False
        # Another thread may be at it: then this one waits for the same code.
        failed: Exception | None = None
        try:
            self.table[8 * step + 1] = kernel.improved(between)
        except Exception as error:
            failed = error
        try:
            self.hasty.remove(entry)
            self._effort = -1.0
        except ValueError:  # the other thread has, and has said so
            return bool(self.hasty)
        if failed is not None:
            logging.getLogger("pullback").warning(
                "%s keeps its quick code: better code could not be made. Fix: report this. %s",
                kernel.name,
                failed,
            )
        return bool(self.hasty)

    def run(
        self,
        slots: Any,
        ctx: Context,
        host: Callable[[int], None] | None = None,
        *,
        release_gil: bool = True,
    ) -> None:
        """Runs the plan over a slot table; `host(k)` does host step k.

        Raises PlanError when a step failed or the context was cancelled; what the plan
        allocated has been freed.
        """
        drive, cleanup = functions(release_gil)
        pc = 0
        while True:
            status = drive(self.head, slots, ctx.address, pc)
            if status == 0:
                return
            pc = (status - 1) >> 1
            if not status & 1:
                raise PlanError(*ctx.error, pc)
            try:
                if not self.finishes(pc):
                    if host is None:
                        raise RuntimeError(
                            "internal error in pullback: a plan with host steps was run without "
                            "them"
                        )
                    host(self.steps[pc][1])
            except BaseException:
                cleanup(self.head, slots, ctx.address)
                raise
            pc = (pc + 1) % AT_UNFINISHED

    def finishes(self, stopped: int) -> bool:
        """Whether a run has stopped at a step whose first code has given up (patch_while.py), which
        has good code then, and begins again."""
        if stopped < AT_UNFINISHED - 1:
            return False
        step = (stopped + 1) % AT_UNFINISHED
        kernel = self.first[step]
        self.table[8 * step + 1] = kernel.improved()
        if kernel.source is not None:
            raise RuntimeError(
                f"{kernel.name} takes long, and better code for it could not be made. "
                "Fix: PULLBACK_STENCILS=0, and report this."
            )
        self.hasty[:] = [entry for entry in self.hasty if entry[0] != step]
        self._effort = -1.0
        return True


_prototypes: dict[bool, tuple[Any, Any]] = {}


def functions(release_gil: bool) -> tuple[Any, Any]:
    """What runs a plan, and what frees when it ends early."""
    found = _prototypes.get(release_gil)
    if found is None:
        make = ctypes.CFUNCTYPE if release_gil else ctypes.PYFUNCTYPE
        p = ctypes.c_void_p
        symbols = runtime().code.symbols
        drive = make(ctypes.c_int64, p, p, p, ctypes.c_int64)(symbols["pb_drive"])
        cleanup = make(None, p, p, p)(symbols["pb_cleanup"])
        found = _prototypes[release_gil] = (drive, cleanup)
    return found


def encode(
    program: Program, kernels: Sequence[CompiledKernel], library: Callable[[str], int] | None = None
) -> Plan:
    """Packs a Program whose kernels have been compiled; `library` gives the address of a LIB
    routine by name."""
    plan = Plan(len(program.slots))
    plan.work, plan.seconds = program.work, program.seconds
    costs = program.costs or [0.0] * len(kernels)
    for step in program.steps:
        if isinstance(step, (KernelStep, LibStep)):
            words = [
                scalar_word(v.value if isinstance(v, Const) else v, d) for v, d in step.scalars
            ]
            if isinstance(step, KernelStep):
                target: CompiledKernel | int = kernels[step.kernel]
                cost = costs[step.kernel]
            else:
                target = library(step.name) if library is not None else table_address(step.name)
                cost = 0.0
            plan.kernel(target, step.bufs, step.dims, words, step.equation, cost=cost)
        elif isinstance(step, AllocStep):
            plan.alloc(step.slot, step.bytes)
        elif isinstance(step, FreeStep):
            plan.free(step.slot)
        elif isinstance(step, CopyStep):
            plan.copy(step.dst, step.src, step.bytes)
        elif isinstance(step, SwapStep):
            plan.swap(step.a, step.b)
        elif isinstance(step, JumpStep):
            plan.jump(step.pc)
        elif isinstance(step, JumpIfNotStep):
            plan.jump_if_not(step.slot, step.pc)
        elif isinstance(step, HostStep):
            plan.host_step(step.number)
        elif isinstance(step, RetStep):
            plan.ret()
    return plan.finish()


def table_address(name: str) -> int:
    """The address in the function table under a name.

    Raises KeyError for a name that nobody registered.
    """
    return ctypes.c_int64.from_address(runtime().table + function_offset(name)).value
