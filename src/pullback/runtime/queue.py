"""The in-order queue of a device: long computations run on its thread while their caller goes on
with pending arrays.

A pending array's event is the job that makes it. Waiting for a job raises what it raised; an
interrupt from the keyboard while waiting cancels it. Work that is submitted from the queue's own
thread (inside a callback) runs at once.

An interrupt may strike between any two lines of the waiting thread, so a waiter holds no lock that
others need: each has its own, which the queue's thread opens.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import errors


class Job:
    """One computation: `run(job)` does it, `targets` are the pending arrays that it fulfils;
    `cancel_hooks` stop it from outside."""

    def __init__(self, name: str, run: Callable[[Job], None], fail: Callable[[Job], None]) -> None:
        self.name, self._run, self._fail = name, run, fail
        self.error: BaseException | None = None
        self.cancelled = False
        self.targets: list[Any] = []
        self.cancel_hooks: list[Callable[[], None]] = []
        # Held while results go to their targets, and while a target is exchanged for another.
        self.lock = threading.RLock()
        self._finished = False
        self._waiters: list[Any] = []

    def execute(self) -> None:
        """Does the work, on the queue's thread; keeps the error for whoever waits."""
        try:
            if self.cancelled:
                raise KeyboardInterrupt(f"the computation {self.name} was interrupted")
            self._run(self)
        except BaseException as error:
            # The interrupt belongs to the thread that was interrupted; others learn of it.
            self.error = (
                errors.JaxRuntimeError(f"the computation {self.name} was interrupted")
                if self.cancelled or isinstance(error, KeyboardInterrupt)
                else error
            )
            self._fail(self)
        finally:
            with self.lock:
                self.cancel_hooks.clear()
            self._run = self._fail = _nothing
            self.targets = []
            self._finished = True
            for waiter in self._waiters:
                waiter.release()

    def abandon(self) -> None:
        """In a forked child, whose parent alone has the thread that does the work: it has failed
        here."""
        self.lock = threading.RLock()
        self._waiters = []
        if not self._finished:
            self.error = errors.JaxRuntimeError(
                f"the computation {self.name} was under way in the parent when this process was "
                "forked; its result is there alone. Fix: x.block_until_ready() before os.fork()."
            )
            self._fail(self)
            self._finished = True

    def hook(self, cancel: Callable[[], None]) -> None:
        """From now on `cancel()` stops what the job does; at once if it was cancelled before."""
        with self.lock:
            self.cancel_hooks.append(cancel)
            if self.cancelled:
                cancel()

    def unhook(self, cancel: Callable[[], None]) -> None:
        """What `cancel` would stop has ended."""
        with self.lock:
            if cancel in self.cancel_hooks:
                self.cancel_hooks.remove(cancel)

    def cancel(self) -> None:
        """Stops the work as soon as it can be stopped."""
        self.cancelled = True
        with self.lock:
            for hook in self.cancel_hooks:
                hook()

    def finished(self) -> bool:
        return self._finished

    def _block(self) -> None:
        """Returns when the work is done."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        if not self._finished:  # whoever finishes after this line opens the waiter
            waiter.acquire()

    def wait(self) -> None:
        """Returns when the work is done; raises its error."""
        if not self._finished:
            try:
                self._block()
            except BaseException:  # a signal's handler raised: Ctrl-C, mostly
                self.cancel()
                self._block()
                raise
        if self.error is not None:
            raise self.error.with_traceback(None)


def _nothing(*_: Any) -> None:
    return None


class Queue:
    """Runs jobs one after another on a thread of its own, which starts with the first job."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._wake = threading.Semaphore(0)
        self._starting = threading.Lock()
        self._running: Job | None = None
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Queues a job (runs it at once if the caller is the queue itself)."""
        if self.is_current():
            job.execute()
            return
        if self._thread is None or not self._thread.is_alive():
            self._start()
        self._jobs.append(job)
        self._wake.release()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._work, name="pullback-queue", daemon=True)
                thread.start()
                self._thread = thread

    def is_current(self) -> bool:
        """Is the caller the queue's own thread?"""
        thread = self._thread
        return thread is not None and thread.ident == threading.get_ident()

    def current(self) -> Job | None:
        """The job that the calling thread runs for, if it is the queue's thread."""
        return self._running if self.is_current() else None

    def idle(self) -> bool:
        return self._running is None and not self._jobs

    def drain(self) -> None:
        """Waits until everything that has been submitted is done (not for what others submit
        meanwhile). Errors stay with their arrays."""
        if self.is_current():
            return
        last: Job | None
        try:
            last = self._jobs[-1]
        except IndexError:
            last = self._running
        if last is not None and not last.finished():
            last._block()

    def inherit(self, other: Queue) -> None:
        """In a forked child: takes over what the parent's queue had not begun; what it was doing
        has failed here, unless the thread that forked was doing it."""
        if other._running is not None and not other.is_current():
            other._running.abandon()
        for job in other._jobs:
            if job is not other._running:
                job.lock = threading.RLock()
                self.submit(job)

    def _work(self) -> None:
        while True:
            self._wake.acquire()
            # The job is in one of both places at every moment: drain looks there.
            job = self._running = self._jobs[0]
            self._jobs.popleft()
            job.execute()
            self._running = None
            del job


_queue = [Queue()]


def queue() -> Queue:
    """The queue of this process's device."""
    return _queue[0]


def _restart() -> None:
    # A child has the jobs' memory but not the thread.
    old, _queue[0] = _queue[0], Queue()
    _queue[0].inherit(old)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: queue().drain(), after_in_child=_restart)
atexit.register(lambda: queue().drain())
