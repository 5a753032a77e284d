"""No garbage collection while a program is traced and compiled.

Both make many objects, few of them in cycles; and looking through everything that the process has
imported takes longer than compiling a program of ordinary size.
"""

from __future__ import annotations

import gc
import os
import threading

from .forking import renewed

__all__ = ["settle", "uncollected"]


# So often the objects that were made inside are declared old when the last one leaves. What the
# first programs of a process leave behind mostly stays, and to look through it takes a tenth of a
# millisecond each time; garbage among it waits for the next full collection, hence the bound.
EARLY = 8


class _Uncollected:
    """`with uncollected:` switches the collector off, on all threads, until the last of those
    inside leaves; one who had switched it off finds it so."""

    def __init__(self) -> None:
        self.lock = renewed(threading.Lock())
        self.inside = 0
        self.before = True
        self.early = EARLY

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = gc.isenabled()
                gc.disable()

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.before:
                if self.early:
                    self.early -= 1
                    settle()
                gc.enable()

    def after_fork(self) -> None:
        """The child has none of the threads that were inside."""
        if self.inside:
            self.inside = 0
            if self.before:
                gc.enable()


uncollected = _Uncollected()


def settle() -> None:
    """Declares every object of the process old, at no cost: modules and classes stay, and the next
    young collection has no need to look at all that an import has made. Nothing is exempt from full
    collections."""
    if hasattr(gc, "freeze") and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=uncollected.after_fork)
