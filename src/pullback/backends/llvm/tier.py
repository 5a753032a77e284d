"""Better code for what runs often.

A first call wants its kernels at once, so what takes less time to run than LLVM's good path takes
to compile is compiled by its quick path. A plan counts the kernels it has run; a thread of ours
looks at the counts, compiles the kernels of plans that are used again, and writes the new addresses
into the plans' step tables. Both versions compute the same bits: the order of operations is the
emitter's, LLVM changes none of it. A plan with much to do wakes the thread when it has run, and
others are looked at now and then. Runs go on with quick code meanwhile. Where few kernels have so
much to do that some runs repay good code that is soon made, the second run has it begun; on a
single processor it waits for it.
The thread sleeps while nothing waits for it. `PULLBACK_TIER=0` compiles everything well at once.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.loader import PUT_TOGETHER, Code
from pullback.backends.llvm.os_shim import cpu_count
from pullback.loops.tiles import panel_width, parse_tile
from pullback.records import record
from pullback.switches import switched_off

__all__ = ["Haste", "effort", "enabled", "haste", "lost", "paused", "ran", "settled", "watch"]

# Quick code takes two to four times as long to run, a few milliseconds less to be made. By our
# estimates of good code: programs and, in longer ones, all runs of a kernel of fewer seconds than
# these are compiled quickly. Kernels that call tile functions spend most of their time there.
QUICK_PROGRAM, QUICK_KERNEL = 4e-3, 1e-3
# What good code of a kernel takes more than quick code, seconds a statement, and what a run of
# quick code loses beside good code, in runs of that.
GOOD_STATEMENT, LOST = 1e-4, 2.0
OUTSIDE_TILES = 0.02
LOST_AT_LEAST = 0.25  # of the time that first code takes, whatever we think of good code's
# Quick code without lanes takes LLVM half the time, about 30 us a statement less, and runs ten to
# twenty times as long: ten runs of what takes good code so many seconds a statement still gain. Of
# few statements there is nothing to gain.
ALONE, FEW_STATEMENTS = 2e-7, 10
# Code put together from stencils spares LLVM a kernel's module, so many seconds and so many a
# statement. What a run of it takes is counted while it is written (patched.py): two of them may
# lose, beside LLVM's quick code, which takes so many times what good code does, what was spared.
SPARED, SPARED_STATEMENT, SPARED_RUNS, QUICK = 2.5e-3, 8e-5, 2, 3.0
PUT_TOGETHER_RUN = 10.0  # a run of it, roughly, in runs of good code
SHARING = 2  # threads that a first run can count on
# Cutting loops for threads is more code, of a kernel of many loops much more; quick code of kernels
# that run so long is cut, and that run so long a statement: scatters into a thousand places take
# 2 ms less to be compiled uncut, and 0.7 ms more in a first run. Code from stencils is cut where it
# runs that long itself: a chunk is thirty instructions more.
SHARED, SHARED_STATEMENT = 5e-4, 8e-6
# Quick code of tile functions takes fifty times as long: for programs of fewer operations only. Of
# bytes, of which it multiplies two at a time, twenty times, and good code takes LLVM 60 ms.
QUICK_WORK, QUICK_WORK_OF_BYTES = 1e6, 3e8

MANY_RUNS = 3  # runs of a plan's kernels before it is worth anything
MUCH_WORK = 30_000.0  # elementary operations that they have done by then
VERY_MUCH_WORK = 1e6  # and of one run that is enough
FEW_KERNELS = 4  # that a second run has begun
# Seconds that good code takes, a kernel and a byte of its quick code. The second run has so many
# begun at most, if so many runs repay them, and any number that a few runs repay.
GOOD_KERNEL, GOOD_SECONDS = 3e-3, 8e-6
PUT_TOGETHER_BYTES = 2.4  # of code from stencils, for each of LLVM's quick code
SOME_SECONDS, SOME_RUNS, FEW_RUNS = 0.025, 30, 4
# Of other plans good code is made when quick code has lost that part of what it takes, or has run
# so often: LLVM at work beside them costs the runs more than a few of them
# can win, and of many kernels, most of which call tile functions, more than ten.
LOST_PART, SURE_RUNS = 0.25, 10
# Seconds between two looks: doubled while nothing happens. The first call and what follows it at
# once are over by the first: who runs code waits for the interpreter while its kernels are written.
FIRST_LOOK, LAST_LOOK = 0.02, 1.0
# The thread lets others have the interpreter so often and so long. Who asks for it otherwise waits
# for five milliseconds.
SPELL, REST = 3e-4, 1e-4
PATIENCE = 10.0  # that the end of the process has with the thread


class Watched(Protocol):
    """A plan, as this module sees it."""

    hasty: list[Any]  # steps whose code could be better
    work: float  # of one run
    seconds: float  # that good code takes for one
    again: bool  # whether a second run has been asked for

    def effort(self) -> float:
        """The seconds that good code takes to be made."""

    def lost(self) -> float:
        """The seconds that runs have taken longer than they would have with it."""

    def heat(self) -> tuple[float, float]:
        """How often each of its kernels has run on average, and the work done."""

    def improve(self, between: Callable[[], None] | None = None) -> bool:
        """Compiles one more of its kernels well; False when there is none left."""


@record(eq=True)
class Haste:
    """Whether quick code does: of a kernel, and of the tile functions that it calls; and whether
    quick code of the kernel is for several threads, as good code is, or without lanes; how many
    seconds a run may take of code from stencils (patched.py), which so many threads share: that
    may be `divided` where quick code is not, as it runs longer."""

    kernel: bool
    tiles: bool
    shared: bool = False
    alone: bool = False
    patience: float = math.inf
    sharing: int = 1
    divided: bool = False
    bytes: bool = False  # whether it does for tile functions of bytes

    def of(self, tile: str) -> bool:
        """Whether it does for a tile function by this name: what only transposes is a few times
        as slow, as kernels are."""
        if panel_width(tile) <= 0:
            return self.kernel
        return self.tiles or (self.bytes and parse_tile(tile)[0] in ("w8", "z8"))


def effort(code: Code | JitCode) -> float:
    """The seconds that good code of a kernel takes, by what its first code is."""
    first = PUT_TOGETHER_BYTES if code.quick == PUT_TOGETHER else 1.0
    return GOOD_KERNEL + GOOD_SECONDS * code.length / first


def lost(spent: float, good: float) -> float:
    """What runs that took so many seconds have lost, beside good code that would have taken so
    many, by our estimate."""
    return max(spent - good, LOST_AT_LEAST * spent)


def settled(plan: Watched) -> bool:
    """Whether the runs of a plan go their last way. Of what has run once, good code that is repaid
    soon is wanted now: who calls twice calls often. The thread has it made, or, where no other
    processor is, who calls."""
    if not plan.hasty or plan.work < VERY_MUCH_WORK or _watcher.pauses:
        return True
    if not plan.heat()[0]:
        return False
    plan.again = True
    if _is_hot(plan):
        if cpu_count() > 1:
            _watcher.ran()
        while cpu_count() == 1 and plan.improve():
            pass
    return True


def _is_repaid_soon(plan: Watched) -> bool:
    """Whether some runs repay good code of a plan's few kernels."""
    effort, so_far = plan.effort(), max(plan.heat()[0], 1.0)
    runs = SOME_RUNS if effort <= SOME_SECONDS else FEW_RUNS
    return _has_few(plan) and effort * so_far <= runs * plan.lost()


def _has_few(plan: Watched) -> bool:
    """Whether few kernels of a plan could be better, in however many steps."""
    return len({id(kernel) for _, kernel, _ in plan.hasty}) <= FEW_KERNELS


def _is_hot(plan: Watched) -> bool:
    """Whether a plan has run so much that good code of its kernels is worth being made."""
    runs, work = plan.heat()
    if plan.lost() >= LOST_PART * plan.effort():
        return True
    if plan.work < VERY_MUCH_WORK:
        return runs >= MANY_RUNS and work >= MUCH_WORK
    return runs >= SURE_RUNS or (plan.again and _is_repaid_soon(plan))


def enabled() -> bool:
    """Whether kernels may be compiled quickly first."""
    return not switched_off("PULLBACK_TIER")


def haste(
    work: float, seconds: float, own: float, tiles: bool, statements: int = 0, runs: float = 1.0
) -> Haste:
    """How a kernel of so many statements is to be compiled all of whose `runs` take `own` seconds,
    in a program of `work` elementary operations and so many seconds; whether it calls tile
    functions, or routines of LAPACK and BLAS, which take most of its time as well."""
    if not enabled():
        return Haste(False, False)
    little = work <= QUICK_WORK
    shared = own > max(SHARED, statements * SHARED_STATEMENT)
    own *= OUTSIDE_TILES if tiles else 1.0
    quick = little or seconds <= QUICK_PROGRAM or own <= QUICK_KERNEL
    quick = quick or own * LOST <= statements * GOOD_STATEMENT
    alone = statements >= FEW_STATEMENTS and own <= statements * ALONE
    alone = quick and alone and not shared
    threads, divided = min(SHARING, cpu_count()), shared or own * PUT_TOGETHER_RUN > SHARED
    spared = (SPARED + statements * SPARED_STATEMENT) / SPARED_RUNS
    patience = (spared + own * QUICK / (threads if shared else 1)) / runs
    sharing, of_bytes = threads if divided else 1, work <= QUICK_WORK_OF_BYTES
    return Haste(quick, little, shared, alone, patience, sharing, divided, of_bytes)


class _Polite:
    """What the thread calls now and then while it writes a text or a few. Where it waits long to
    have the interpreter back, it keeps it as long."""

    def __init__(self) -> None:
        self.since, self.spell = time.perf_counter(), SPELL

    def __call__(self) -> None:
        now = time.perf_counter()
        if now - self.since > self.spell:
            time.sleep(REST)
            self.since = time.perf_counter()
            self.spell = max(SPELL, self.since - now - 2 * REST)


class _Watcher:
    """The plans that wait, and the thread that looks after them."""

    def __init__(self) -> None:
        # How often plans with much to do had run at the last look.
        self.plans: dict[weakref.ref[Watched], float] = {}
        self.thread = False  # whether there is one
        self.news = threading.Condition()
        self.working = threading.Lock()  # whoever holds it keeps the thread from compiling
        self.stopping = False
        self.pauses = 0
        self.fresh = False
        self.hot = False  # whether something has run that is worth good code

    def watch(self, plan: Watched) -> None:
        with self.news:
            self.plans[weakref.ref(plan)] = 0.0
            self.fresh = True
            if not self.thread and not self.stopping:
                # `Thread.start` would wait until the new thread has had the interpreter.
                _thread.start_new_thread(self.run, ())
                self.thread = True
            self.news.notify()

    def ran(self) -> None:
        with self.news:
            self.hot = True
            self.news.notify()

    def run(self) -> None:
        try:
            self.look_now_and_then()
        finally:
            with self.news:
                self.thread = False
                self.news.notify_all()

    def look_now_and_then(self) -> None:
        """Until the process ends."""
        pause = FIRST_LOOK
        while True:
            with self.news:
                while not self.plans and not self.stopping:
                    self.news.wait()
                pause = self.rest(pause)
                if self.stopping:
                    return
                waiting, self.hot = list(self.plans), False
            with self.working:
                busy = self.look(waiting)
            pause = FIRST_LOOK if busy else min(2 * pause, LAST_LOOK)

    def rest(self, pause: float) -> float:
        """Waits for so many seconds, or until a plan is hot; a new plan is looked at soon. How long
        the pause was to be; with the lock held."""
        end = time.monotonic() + pause
        while not self.stopping and not self.hot and (left := end - time.monotonic()) > 0:
            self.news.wait(left)
            if self.fresh:
                pause, self.fresh = FIRST_LOOK, False
                end = min(end, time.monotonic() + pause)
        return pause

    def look(self, waiting: list[weakref.ref[Watched]]) -> bool:
        """Improves the plans that are hot. Whether there were any, or soon may be."""
        done: list[weakref.ref[Watched]] = []
        busy = False
        for reference in waiting:
            plan = reference()
            if plan is None:
                done.append(reference)
                continue
            if not _is_hot(plan):
                busy = self.goes_on(reference, plan) or busy
                continue
            busy = True
            between = _Polite() if _has_few(plan) else None
            while not self.stopping and plan.improve(between):
                pass
            done.append(reference)
        if done:
            with self.news:
                for reference in done:
                    self.plans.pop(reference, None)
        return busy

    def goes_on(self, reference: weakref.ref[Watched], plan: Watched) -> bool:
        """Whether a plan with much to do has run since the last look: its next runs are counted
        soon. No native call says of itself that it has run."""
        if plan.work < VERY_MUCH_WORK:
            return False
        runs = plan.heat()[0]
        before = self.plans.get(reference, 0.0)
        self.plans[reference] = runs
        return runs > before

    def stop(self) -> None:
        """At exit: LLVM must not be at work while its library is torn down."""
        with self.news:
            self.stopping = True
            self.news.notify_all()
            self.news.wait_for(lambda: not self.thread, PATIENCE)

    def after_fork(self) -> None:
        """The child has no thread; the next plan starts one."""
        self.news, self.working = threading.Condition(), threading.Lock()
        self.thread = False


_watcher = _Watcher()
atexit.register(_watcher.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.after_fork)


def watch(plan: Watched) -> None:
    """Looks after a plan for as long as it lives."""
    _watcher.watch(plan)


def ran(plan: Watched) -> None:
    """A plan whose code could be better has run: the thread looks at it now if that was much work,
    where it has a processor of its own; elsewhere it may be that the next run waits. What takes
    long soon runs on good code."""
    early = plan.heat()[0] < 2 and cpu_count() == 1
    if plan.work >= VERY_MUCH_WORK and not early and _is_hot(plan):
        _watcher.ran()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Compiles nothing in the background meanwhile; what is being compiled is finished first."""
    with _watcher.working:
        _watcher.pauses += 1
        try:
            yield
        finally:
            _watcher.pauses -= 1
