"""What makes `os.fork` safe: locks that a child finds open, and work that a fork waits for.

A child has one thread, the one that forked. A lock that another thread held would stay shut for
ever, and a library that another thread was in the middle of would stay in the middle.

* `renewed(lock)`: the lock, open in every child. For locks that guard a few lines.
* `Gate`: `with gate:` around calls of foreign code with locks of its own. A fork waits until no
  other thread is inside, and keeps others out until it is done.

Native code's own locks do not belong here: Python may switch threads between two `before` hooks,
and a thread that spins with the GIL held waits for ever. They use the C library's hooks
(`runtime/native.py`).
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

__all__ = ["Gate", "renewed"]

PATIENCE = 30.0  # seconds that a fork waits for a gate before it goes on all the same

T = TypeVar("T")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


def renewed(lock: T) -> T:
    """`lock` (of `threading`), which every forked child finds open.

    >>> lock = renewed(threading.Lock())
    """
    _locks.add(lock)
    return lock


class Gate:
    """`with gate:` around what a fork must not cut in two.

    >>> gate = Gate()
    >>> with gate: pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # threads, and how often each has entered
        self._forks = 0  # threads that are about to fork
        _gates.add(self)

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._forks and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            left = self._inside.get(me, 1) - 1
            if left:
                self._inside[me] = left
            else:
                self._inside.pop(me, None)
                self._changed.notify_all()

    def close(self) -> None:
        """Waits until no other thread is inside; others stay out from then on."""
        me = threading.get_ident()
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._inside.keys() <= {me}, PATIENCE)

    def open(self) -> None:
        """The fork is done."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def renew(self) -> None:
        """In the child: nobody is inside but this thread."""
        me = threading.get_ident()
        self._changed, self._forks = threading.Condition(), 0
        self._inside = {me: self._inside[me]} if me in self._inside else {}


def _before() -> None:
    for gate in list(_gates):
        gate.close()


def _in_parent() -> None:
    for gate in list(_gates):
        gate.open()


def _in_child() -> None:
    for lock in list(_locks):
        if not getattr(lock, "_is_owned", bool)():  # a signal's handler may fork inside our lock
            lock._at_fork_reinit()
    for gate in list(_gates):
        gate.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
