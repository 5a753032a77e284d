"""The time of each kernel of a compiled function, beside what it moves and computes, and the user's
lines that it comes from.

The function's plan is packed once more, with a host step before and after every kernel that looks
at the clock; the cost of looking is measured with a pair that has nothing between.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.jit import JitWrapped, jit
from pullback.api.staging import make_jaxpr
from pullback.backends import llvm
from pullback.control.cost import equation_cost
from pullback.core.jaxpr import ClosedJaxpr
from pullback.core.refs import ref_effect
from pullback.formatting import duration, table
from pullback.loops import pipeline, plan
from pullback.records import record, replaced
from pullback.runtime import dispatch
from pullback.runtime.executable import NativeExecutable, reference_rule

from .page import html_of

__all__ = ["KernelProfile", "KernelTime", "LineTime", "profile_kernels"]


@record
class KernelTime:
    """One kernel step of a plan. `seconds` is the median over the runs of the time that it took in
    one run (all `calls` of it, for a kernel in a loop of the plan); `bytes` what it reads and
    writes if it touches each of its buffers once, `operations` the elementary operations of its
    equations (of loops of unknown length: of one iteration), both of one run; `equations` what it
    computes, `lines` where that was written.

    >>> from pullback import profiler
    >>> profile = profiler.profile_kernels(jnp.sum, jnp.ones(1000))
    >>> kernel = profile.kernels[0]
    >>> kernel.seconds >= 0, kernel.bytes >= 4000
    (True, True)
    """

    name: str
    calls: float
    seconds: float
    bytes: int
    operations: float
    equations: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds if self.seconds else 0.0


@record
class LineTime:
    """A line of the user's program, and its part of the kernels' time: each kernel's time is shared
    equally among its equations.

    >>> from pullback import profiler
    >>> profile = profiler.profile_kernels(jnp.sum, jnp.ones(1000))
    >>> all(line.seconds >= 0 for line in profile.lines)
    True
    """

    line: str
    seconds: float
    source: str


class KernelProfile:
    """What `profile_kernels` found: `kernels` in the order of the plan, `lines` with the dearest
    first, `seconds` of a whole run without any clock inside, `copy_bandwidth` of this machine in
    bytes a second. As text a table; in a notebook, or with `save(path)`, a page.

    >>> from pullback import profiler
    >>> profile = profiler.profile_kernels(jnp.sum, jnp.ones(1000))
    >>> profile.seconds > 0, profile.copy_bandwidth > 0
    (True, True)
    """

    def __init__(
        self, name: str, seconds: float, kernels: Sequence[KernelTime], copy_bandwidth: float
    ) -> None:
        self.name, self.seconds = name, seconds
        self.kernels, self.copy_bandwidth = tuple(kernels), copy_bandwidth

    @property
    def lines(self) -> tuple[LineTime, ...]:
        shares: dict[str, float] = {}
        for kernel in self.kernels:
            for line in kernel.lines:
                share = kernel.seconds / len(kernel.lines)
                shares[line] = shares.get(line, 0.0) + share
        order = sorted(shares, key=lambda line: -shares[line])
        return tuple(LineTime(line, shares[line], _source(line)) for line in order)

    def __str__(self) -> str:
        whole = sum(k.seconds for k in self.kernels) or 1.0
        rows = [["kernel", "calls", "time", "part", "GB/s", "of copy", "Gop/s", "computes"]]
        for k in sorted(self.kernels, key=lambda k: -k.seconds):
            rows.append([
                k.name, f"{k.calls:g}", duration(k.seconds), f"{k.seconds / whole:.0%}",
                f"{k.bandwidth / 1e9:.1f}", f"{k.bandwidth / self.copy_bandwidth:.0%}",
                f"{k.rate / 1e9:.1f}", _shortened(k.equations),
            ])  # fmt: skip
        lines = [["line", "time", "part", "source"]]
        for line in self.lines:
            part = f"{line.seconds / whole:.0%}"
            lines.append([os.path.basename(line.line), duration(line.seconds), part, line.source])
        head = f"{self.name}: {duration(self.seconds)} a run, {duration(whole)} in kernels"
        return "\n\n".join([head, table(rows, left={0, 7}), table(lines, left={0, 3})])

    __repr__ = __str__

    def to_html(self) -> str:
        """The profile as a page that needs nothing else."""
        return html_of(self)

    _repr_html_ = to_html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page. OSError if the file can't be written."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_html())


def profile_kernels(
    f: Callable[..., Any], *args: Any, runs: int = 20, **kwargs: Any
) -> KernelProfile:
    """Runs `jit(f)(*args, **kwargs)` and tells where its time goes, kernel by kernel and line by
    line.

    Arguments:
      f: a function of arrays (jitted or not).
      args, kwargs: its arguments, of any shapes and dtypes; none is donated.
      runs: how many runs are measured (after one that is not); at least 1.

    Returns a `KernelProfile`: `print` it, or `.save("profile.html")`.

    Raises ValueError for `runs` below 1 and for functions with mutable references, and what
    tracing `f` raises.

    >>> from pullback.profiler import profile_kernels
    >>> profile = profile_kernels(lambda x: jnp.exp(x - x.max()).sum(), jnp.ones(100))
    >>> len(profile.kernels) >= 1
    True
    """
    if runs < 1:
        raise ValueError(f"profile_kernels: runs={runs} is below 1. Fix: runs=20.")
    jitted: Any = f if isinstance(getattr(f, "_slow", None), JitWrapped) else jit(f)
    call, leaves, _ = jitted._slow._infer(args, kwargs)
    if ref_effect in call.closed.effects:
        raise ValueError(
            f"profile_kernels: {call.params['name']} has mutable references. Fix: profile a "
            "function of their values (`ref[...]`), which returns the new ones."
        )
    arrays = [dispatch.to_array(x) for x in (*call.consts, *leaves)]
    closed = dispatch.physical(call.closed)
    plain, clocked = NativeExecutable(closed), _Clocked(closed)
    plain.run(arrays)
    clocked.run(arrays)
    seconds, samples = [], []
    for _ in range(runs):
        start = time.perf_counter()
        plain.run(arrays)
        seconds.append(time.perf_counter() - start)
        clocked.begin()
        clocked.run(arrays)
        samples.append(clocked.end())
    times = clocked.kernel_times(samples)
    return KernelProfile(call.params["name"], statistics.median(seconds), times, _copy_bandwidth())


class _Clocked(NativeExecutable):
    """A program whose kernels stand between looks at the clock."""

    def _compile(self, closed: ClosedJaxpr, donated: Sequence[bool]) -> None:
        program = pipeline.compile_jaxpr(closed, reference_rule, donated, origins=True)
        self.kernels = llvm.compile_kernels(program.kernels)
        self.plain, self._unbounded = program, True
        self.first_mark = len(program.host)
        self.program, self.timed = _with_marks(program)
        self.begin()

    def begin(self) -> None:
        """A run begins."""
        self.spent = [0] * (len(self.timed) + 1)
        self.calls = [0] * (len(self.timed) + 1)
        self.since = 0

    def end(self) -> tuple[list[int], list[int]]:
        """The nanoseconds and calls of each kernel in this run; the pair of marks around nothing
        comes first."""
        return self.spent, self.calls

    def run_host(self, number: int, slots: Any) -> None:
        now = time.perf_counter_ns()
        mark = number - self.first_mark
        if mark < 0:
            super().run_host(number, slots)
        elif mark % 2:
            self.spent[mark // 2] += now - self.since
            self.calls[mark // 2] += 1
        else:
            self.since = time.perf_counter_ns()

    def kernel_times(self, samples: Sequence[tuple[list[int], list[int]]]) -> list[KernelTime]:
        """Medians over the runs; what looking at the clock takes is subtracted."""
        looking = min(spent[0] for spent, _ in samples)
        return [
            self._kernel_time(
                k,
                max(
                    0.0, statistics.median(s[k + 1] - looking * c[k + 1] for s, c in samples) / 1e9
                ),
                statistics.fmean(c[k + 1] for _, c in samples),
            )
            for k in range(len(self.timed))
        ]

    def _kernel_time(self, k: int, seconds: float, calls: float) -> KernelTime:
        step = self.timed[k]
        equations = [self.plain.equations[n] for n in self.plain.origins[k]]
        kernel = self.plain.kernels[step.kernel]
        sizes = [
            self.plain.slots[slot].bytes * (2 if buf.role == "inout" else 1)
            for slot, buf in zip(step.bufs, kernel.params, strict=True)
        ]
        return KernelTime(
            kernel.name,
            calls,
            seconds,
            int(sum(sizes) * calls),
            sum(equation_cost(e).total for e in equations) * calls,
            tuple(str(e.primitive) for e in equations),
            tuple(_place(e.source_info.summary()) for e in equations),
        )


def _with_marks(program: plan.Program) -> tuple[plan.Program, list[plan.KernelStep]]:
    """The program with host steps around its kernels, numbered from the last of its own: 2k before
    and 2k + 1 after kernel step k - 1; the first pair stands at the beginning around nothing."""
    first = len(program.host)
    steps: list[Any] = [plan.HostStep(first), plan.HostStep(first + 1)]
    places: list[int] = []  # of each old step among the new ones
    timed: list[plan.KernelStep] = []
    for step in program.steps:
        places.append(len(steps))
        if isinstance(step, plan.KernelStep):
            timed.append(step)
            mark = first + 2 * len(timed)
            steps += [plan.HostStep(mark), step, plan.HostStep(mark + 1)]
        else:
            steps.append(step)
    moved = [
        plan.JumpStep(places[s.pc]) if isinstance(s, plan.JumpStep)
        else plan.JumpIfNotStep(s.slot, places[s.pc]) if isinstance(s, plan.JumpIfNotStep)
        else s
        for s in steps
    ]  # fmt: skip
    return replaced(program, steps=moved), timed


@functools.cache
def _copy_bandwidth() -> float:
    """Bytes a second that a kernel reads and writes which does nothing else, out of caches."""
    x = np.ones(1 << 23, np.float32)
    closed = make_jaxpr(lambda x: x + 1.0)(x)
    copy, operand = NativeExecutable(closed), dispatch.to_array(x)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        copy.run([operand])
        best = min(best, time.perf_counter() - start)
    return 2 * x.nbytes / best


def _source(line: str) -> str:
    """The text of a `file:line (function)`."""
    file, _, rest = line.partition(" (")[0].rpartition(":")
    try:
        with open(file, encoding="utf-8") as text:
            return next(t.strip() for k, t in enumerate(text, 1) if k == int(rest))
    except (OSError, ValueError, StopIteration, UnicodeDecodeError):
        return ""


def _place(summary: str) -> str:
    """`file:line (function)` of a place that names its column too."""
    place, bracket, function = summary.partition(" (")
    return place.rpartition(":")[0] + bracket + function if bracket else summary


def _shortened(names: Sequence[str], most: int = 6) -> str:
    kept = ", ".join(names[:most])
    return kept if len(names) <= most else f"{kept}, {len(names) - most} more"
