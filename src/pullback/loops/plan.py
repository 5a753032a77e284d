"""What compilation gives: kernels, and the flat table of steps that one driver walks over a table
of buffer addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.loops.ir import Kernel
from pullback.records import made, record

__all__ = [
    "AllocStep",
    "CopyStep",
    "FreeStep",
    "HostCall",
    "HostStep",
    "JumpIfNotStep",
    "JumpStep",
    "KernelStep",
    "LibStep",
    "Program",
    "RetStep",
    "Slot",
    "Step",
    "SwapStep",
]


@record(eq=True)
class KernelStep:
    """Runs kernel number `kernel`; `scalars` are (value, dtype) pairs, one machine word each."""

    kernel: int
    bufs: tuple[int, ...]
    dims: tuple[int, ...]
    scalars: tuple[tuple[Any, str], ...] = ()
    equation: int = -1


@record(eq=True)
class AllocStep:
    slot: int
    bytes: int


@record(eq=True)
class FreeStep:
    slot: int


@record(eq=True)
class CopyStep:
    dst: int
    src: int
    bytes: int


@record(eq=True)
class SwapStep:
    a: int
    b: int


@record(eq=True)
class JumpStep:
    pc: int


@record(eq=True)
class JumpIfNotStep:
    slot: int
    pc: int


@record(eq=True)
class LibStep:
    """A library routine of the context's table, with the kernel's calling convention."""

    name: str
    bufs: tuple[int, ...]
    dims: tuple[int, ...]
    scalars: tuple[tuple[Any, str], ...] = ()
    equation: int = -1


@record(eq=True)
class HostStep:
    """Python runs `Program.host[number]` and re-enters at the next step."""

    number: int


@record(eq=True)
class RetStep:
    pass


Step = (
    KernelStep
    | AllocStep
    | FreeStep
    | CopyStep
    | SwapStep
    | JumpStep
    | JumpIfNotStep
    | LibStep
    | HostStep
    | RetStep
)


@record(eq=True)
class Slot:
    """A buffer address: `role` is in, const, out or temp. `dtype` and `shape` are the loop IR's
    (complex: last axis 2)."""

    number: int
    role: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@record(eq=True)
class HostCall:
    """Python work inside a plan: `call(*arrays) -> arrays`. Operands and results are slots with
    their NumPy shape and dtype."""

    call: Callable[..., Any]
    ins: tuple[tuple[int, tuple[int, ...], Any], ...]
    outs: tuple[tuple[int, tuple[int, ...], Any], ...]
    name: str = ""
    equation: int = -1


@record
class Program:
    """A compiled program before machine code.

    `ins`, `consts` and `outs` name slots; an output that is an input (or a constant) names that
    slot and nothing is copied.
    `donated` lists the inputs whose buffer the plan writes into: (input number, output number).
    `seconds` is how long a run takes, roughly.
    `origins` has, if that was asked for, the equations that each kernel step computes.
    `costs` has, for each kernel, about how many seconds all its runs take.
    """

    kernels: list[Kernel]
    keys: list[str]
    steps: list[Step]
    slots: list[Slot]
    ins: list[int]
    consts: list[tuple[int, Any]]
    outs: list[int]
    host: list[HostCall] = made(default_factory=list)
    donated: list[tuple[int, int]] = made(default_factory=list)
    equations: list[Any] = made(default_factory=list)
    peak_bytes: int = 0
    work: float = 0.0
    origins: list[tuple[int, ...]] = made(default_factory=list)
    seconds: float = 0.0
    costs: list[float] = made(default_factory=list)
