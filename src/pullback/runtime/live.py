"""The arrays that are alive."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType
from typing import Any

from .array import ArrayImpl
from .devices import devices


def live_arrays(platform: str | None = None) -> list[Any]:
    """Every array of this process that something holds and that was not deleted, in no order.

    RuntimeError for a platform that is not present.

    >>> x = jnp.arange(3)
    >>> any(y is x for y in pb.live_arrays())
    True

    Arrays hold no Python objects that could form cycles, so that the garbage collector does not
    list them: they are what its objects, and the functions that are running, refer to.
    """
    devices(platform)
    found: dict[int, Any] = {}
    seen: set[int] = set()
    heap = gc.get_objects()
    seen.update(map(id, heap))
    todo = gc.get_referents(*heap)
    # Not of this function: its frame would hold itself, and the next call walk through its lists.
    todo += _locals(sys._getframe(1))
    others = sys._current_frames()
    others.pop(threading.get_ident(), None)
    for frame in others.values():
        todo += _locals(frame)
    while todo:
        inner = []
        for x in todo:
            if id(x) in seen:
                continue
            seen.add(id(x))
            if isinstance(x, ArrayImpl):
                found[id(x)] = x
            elif not gc.is_tracked(x):  # a dictionary or a tuple of nothing but arrays, say
                inner.append(x)
        todo = gc.get_referents(*inner) if inner else []
    return [x for x in found.values() if not x.is_deleted()]


def _locals(frame: FrameType | None) -> list[Any]:
    """What the functions that are running hold in their variables."""
    held: list[Any] = []
    while frame is not None:
        held += frame.f_locals.values()
        frame = frame.f_back
    return held
