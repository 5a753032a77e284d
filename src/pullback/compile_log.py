"""Where the time of compilations went: `explain_compile()`; and the progress of a long one on the
terminal.

Programs are noted by the runtime when they have been compiled; the last few hundred are kept.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pullback import config, monitoring
from pullback.formatting import duration, table
from pullback.lazy_imports import lazy_module
from pullback.records import record
from pullback.switches import switched_off

__all__ = [
    "CompileReport", "KernelEntry", "ProgramEntry", "Progress", "explain_compile", "note",
    "note_trace",
]  # fmt: skip

KEPT = 256  # programs
PATIENCE = 1.0  # seconds before a compilation says that it is at work
EVERY = 0.1  # and between two lines


@record
class KernelEntry:
    """How one kernel was made: `origin` is "LLVM", "stencils" (put together from machine code of
    operators, without LLVM), "disk" or "process"; seconds for its text, or for putting it together,
    and in LLVM; whether its code is quick code that is to be replaced if it runs often."""

    name: str
    origin: str
    quick: bool
    text_seconds: float
    llvm_seconds: float
    lines: int


@record
class ProgramEntry:
    """One compilation. LLVM works beside lowering, so that `compile_seconds` is what was waited
    for after lowering; lowering includes the writing of kernels' texts. `tiles` are the blocks of
    matrix products that the kernels call, so far as LLVM had to be asked for them."""

    name: str
    equations: int
    trace_seconds: float
    lower_seconds: float
    compile_seconds: float
    kernels: tuple[KernelEntry, ...]
    tiles: tuple[KernelEntry, ...] = ()

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.trace_seconds + self.lower_seconds + self.compile_seconds

    def count(self, origin: str) -> int:
        """How many kernels came from there."""
        return sum(k.origin == origin for k in self.kernels)


_programs: deque[ProgramEntry] = deque(maxlen=KEPT)
logging: Any = lazy_module("logging")


# Who says what is traced, begun and done, and which callbacks failed. Where Pullback stands for
# JAX, they are JAX's.
OWN_LOGGERS = {
    **dict.fromkeys(("traced", "begun", "done"), "pullback.compile"),
    "callback": "pullback.callback",
}
LOGGERS = dict(OWN_LOGGERS)


def note_trace(name: str, seconds: float) -> None:
    """A function has been traced."""
    _tell("jaxpr_trace", name, seconds)
    _say("traced", lambda: f"Finished tracing {name} for jit", seconds)


def note(entry: ProgramEntry) -> None:
    """A program has been compiled."""
    _programs.append(entry)
    name = f"jit({entry.name})"
    size = f"{entry.equations} equations, {len(entry.kernels)} kernels"
    _say("begun", lambda: f"Compiling {name}, {size}.")
    _tell("jaxpr_to_mlir_module", name, entry.lower_seconds)
    _say("done", lambda: f"Finished lowering of jaxpr to loops of {name}", entry.lower_seconds)
    _tell("backend_compile", name, entry.compile_seconds)
    # What tools look for in the logs of programs written for JAX.
    _say("done", lambda: f"Finished XLA compilation of {name}", entry.compile_seconds)


def _tell(stage: str, name: str, seconds: float) -> None:
    """Who listens hears of a stage that ends now, under the names that JAX has for them."""
    event, end = f"/jax/core/compile/{stage}_duration", time.time()
    monitoring.record_scalar(event, end - seconds, fun_name=name)
    monitoring.record_event_duration_secs(event, seconds, fun_name=name)
    monitoring.record_event_time_span(event, end - seconds, end, fun_name=name)


def _heard(name: str) -> bool:
    """Whether a line for those who debug may have readers: nobody has imported `logging`, or asked
    for a logger of that name or above it and told the root to be so talkative, in most processes.
    (A logger is not made to be asked: that takes as long as a small pass of the compiler.) Another
    thread may be importing it."""
    root = getattr(sys.modules.get("logging"), "root", None)
    manager = getattr(root, "manager", None)
    if root is None or manager is None:
        return False
    known, parts = manager.loggerDict, name.split(".")
    named = any(".".join(parts[: k + 1]) in known for k in range(len(parts)))
    return named or bool(root.level <= logging.DEBUG)


def _say(what_is: str, what: Callable[[], str], seconds: float | None = None) -> None:
    """A line in the log of what is traced and compiled: a warning if the flag `log_compiles` is
    set, else for those who debug."""
    warn = config.log_compiles.get()
    if not warn and not _heard(LOGGERS[what_is]):
        return
    level = logging.WARNING if warn else logging.DEBUG
    logger = logging.getLogger(LOGGERS[what_is])
    if logger.isEnabledFor(level):
        took = "" if seconds is None else f" in {seconds:.6f} sec"
        logger.log(level, f"{what()}{took}")


class CompileReport:
    """The answer of `explain_compile`: `programs`, and as text a table of them and of the kernels
    of the slowest."""

    def __init__(self, programs: Sequence[ProgramEntry]) -> None:
        self.programs = tuple(programs)

    def __str__(self) -> str:
        if not self.programs:
            return "nothing has been compiled"
        head = ["program", "equations", "trace", "lower", "compile", "in all", "kernels",
                "from LLVM", "stencils", "from disk", "known"]  # fmt: skip
        rows = [
            [p.name, p.equations, duration(p.trace_seconds), duration(p.lower_seconds),
             duration(p.compile_seconds), duration(p.seconds), len(p.kernels), p.count("LLVM"),
             p.count("stencils"), p.count("disk"), p.count("process")]
            for p in self.programs
        ]  # fmt: skip
        slowest = max(self.programs, key=lambda p: p.seconds)
        text = table([head, *rows])
        if not slowest.kernels:
            return text
        kernels = [
            [k.name, k.origin, "quick" if k.quick else "good", duration(k.text_seconds),
             duration(k.llvm_seconds), k.lines]
            for k in sorted(
                slowest.kernels + slowest.tiles, key=lambda k: -k.text_seconds - k.llvm_seconds
            )
        ]  # fmt: skip
        columns = ["kernel", "from", "code", "text", "LLVM", "lines"]
        return f"{text}\n\nkernels of {slowest.name}:\n{table([columns, *kernels])}"

    __repr__ = __str__


def explain_compile(name: str | None = None) -> CompileReport:
    """Where the time of compilations went: tracing, lowering, LLVM; kernel by kernel for the
    slowest program.

    `name` picks the programs of functions of that name; without it all programs that were traced
    are told, eager operations (programs of one equation each) left out.

    Raises ValueError if nothing of that name has been compiled (or it was long ago: the last 256
    programs are kept).

    >>> f = pullback.jit(lambda x: x @ x)
    >>> out = f(jnp.ones((2, 2)))
    >>> print(pullback.explain_compile())  # doctest: +SKIP
    program   equations   trace   lower  compile  in all  kernels  from LLVM  stencils ...
    <lambda>          1  0.2 ms  1.1 ms   2.0 ms  3.3 ms        1          1         0 ...
    ...
    """
    if name is None:
        return CompileReport([p for p in _programs if p.trace_seconds > 0])
    found = [p for p in _programs if p.name == name]
    if not found:
        known = sorted({p.name for p in _programs if p.trace_seconds > 0})
        raise ValueError(
            f"explain_compile: no program of the name {name!r} has been compiled. "
            f"Fix: one of {', '.join(map(repr, known)) or 'those that will have been compiled'}."
        )
    return CompileReport(found)


class Progress:
    """A line on the terminal while a compilation takes longer than a second, and none afterwards.
    `PULLBACK_PROGRESS=0` switches it off; nothing is written where standard error is no terminal.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter()
        self.next = self.start + PATIENCE
        self.width = 0

    def tell(self, what: str) -> None:
        """Says what is being done, now and then."""
        now = time.perf_counter()
        if now < self.next:
            return
        self.next = now + EVERY
        if not self.width and not self._wanted():
            self.next = float("inf")
            return
        line = f"compiling {self.name}: {what}, {now - self.start:.1f} s"
        self._write(f"\r{line.ljust(self.width)}")
        self.width = max(self.width, len(line))

    def done(self) -> None:
        """Takes the line away."""
        if self.width:
            self._write("\r" + " " * self.width + "\r")
            self.width = 0

    @staticmethod
    def _wanted() -> bool:
        if switched_off("PULLBACK_PROGRESS"):
            return False
        return sys.stderr is not None and sys.stderr.isatty()

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # a stream that was closed
            pass
