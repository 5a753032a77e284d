"""Arrays that the garbage collector frees: what the flag jax_array_garbage_collection_guard says is
told, or ends the process. They were in cycles of references, which hold memory for long."""

from __future__ import annotations

import faulthandler
import functools
import gc
import os
import sys
import weakref
from typing import Any

from .. import config
from .live import live_arrays

_SAID = (
    "`jax.Array` was deleted by the Python garbage collector instead of reference counting. Break "
    "the reference cycle that delays the deletion of this `jax.Array` to avoid hogging memory."
)
_alive: list[Any] = []


@functools.cache
def watch() -> None:
    """From now on, each collection is watched in threads where the flag is set."""
    gc.callbacks.append(_heard)


def _heard(phase: str, info: Any) -> None:
    level = config.array_garbage_collection_guard.get()
    if phase == "start":
        if level in ("log", "fatal"):
            _alive[:] = [(weakref.ref(x), x.aval) for x in live_arrays()]
        return
    gone = [aval for ref, aval in _alive if ref() is None]
    _alive.clear()
    for aval in gone:
        print(f"RuntimeError: {_SAID} It is of type {aval.str_short()}.", file=sys.stderr)
    if gone and level == "fatal":
        sys.stderr.flush()
        faulthandler.dump_traceback()
        os.abort()
