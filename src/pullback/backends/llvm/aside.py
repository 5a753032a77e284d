"""Work that nobody waits for: one thread, started when there is some and gone when there is none.

`concurrent.futures` does this too, and more; its import takes a thirtieth of what the import of the
whole package may take.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["aside", "settle"]

LINGER = 1.0  # seconds that the thread waits for more
PATIENCE = 10.0  # and that the end of the process waits for the thread


class _Aside:
    def __init__(self) -> None:
        self.work: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self.changed = threading.Condition()
        self.thread = False  # whether there is one
        self.closed = False

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        with self.changed:
            if not self.closed:
                self.work.append((function, arguments))
                if self.thread:
                    self.changed.notify_all()
                    return
                try:
                    # `Thread.start` would wait until the new thread has had the interpreter.
                    _thread.start_new_thread(self.run, ())
                    self.thread = True
                    return
                except RuntimeError:  # no thread can be had, as while the interpreter ends
                    self.work.pop()
        function(*arguments)

    def run(self) -> None:
        while True:
            with self.changed:
                if not self.work:
                    self.changed.notify_all()
                    self.changed.wait_for(lambda: self.work or self.closed, LINGER)
                if not self.work:
                    self.thread = False
                    self.changed.notify_all()
                    return
                function, arguments = self.work[0]
            with contextlib.suppress(Exception):  # who needs the result meets the error
                function(*arguments)
            del function, arguments  # a program and its constants, while there is nothing to do
            with self.changed:
                self.work.popleft()
                if not self.work:
                    self.changed.notify_all()

    def drain(self) -> None:
        """At exit: what has been begun is finished."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            self.closed = True
            self.changed.notify_all()
            while self.work and self.thread and time.monotonic() < end:
                self.changed.wait(0.05)

    def after_fork(self) -> None:
        """The child has no thread; the parent's work is the parent's."""
        self.changed, self.thread = threading.Condition(), False
        self.work.clear()


_aside = _Aside()
atexit.register(_aside.drain)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_aside.after_fork)


def aside(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls the function soon, on a thread of ours; here and now where no thread can be had."""
    _aside.add(function, *arguments)


def settle(patience: float = PATIENCE) -> bool:
    """Waits until nothing is left to do aside; False if that takes more seconds than `patience`."""
    with _aside.changed:
        return _aside.changed.wait_for(lambda: not _aside.work, patience)
