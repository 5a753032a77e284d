"""What the operating system gives our native runtime: libc functions, threads, how a worker
sleeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import lru_cache
from typing import Any

__all__ = [
    "address_of",
    "as_exception",
    "cpu_count",
    "libc",
    "mathematics_address_of",
    "signal_functions",
    "sleep_kind",
    "start_thread",
]


@lru_cache(maxsize=1)
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    lib = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.CDLL("msvcrt")
    lib.calloc.restype = lib.malloc.restype = ctypes.c_void_p
    lib.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    lib.malloc.argtypes = [ctypes.c_size_t]
    lib.free.argtypes = [ctypes.c_void_p]
    return lib


def address_of(name: str) -> int:
    """The address of a C library function, 0 where there is none."""
    try:
        return ctypes.cast(getattr(libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def mathematics_address_of(name: str) -> int:
    """The address of a function of the C library's part that may be a library of its own. OSError
    where there is none."""
    found = address_of(name)
    for file in () if found else ("libm.so.6", "libm.so", "ucrtbase"):
        with contextlib.suppress(OSError, AttributeError):
            found = ctypes.cast(getattr(ctypes.CDLL(file), name), ctypes.c_void_p).value or 0
            break
    if not found:
        raise OSError(f"pullback found no C library with the function {name}: is libm installed?")
    return found


def signal_functions() -> dict[str, int]:
    """Python's C functions with which native code lets signal handlers run (none elsewhere than in
    CPython)."""
    names = {
        "gil_ensure": "PyGILState_Ensure", "gil_release": "PyGILState_Release",
        "check_signals": "PyErr_CheckSignals", "error_fetch": "PyErr_Fetch",
    }  # fmt: skip
    try:
        return {
            k: ctypes.cast(getattr(ctypes.pythonapi, v), ctypes.c_void_p).value or 0
            for k, v in names.items()
        }
    except AttributeError:
        return {}


def as_exception(kind: int, value: int, traceback: int) -> BaseException:
    """The exception that PyErr_Fetch gave, whose references this takes over."""
    restore = ctypes.pythonapi.PyErr_Restore
    restore.argtypes = [ctypes.c_void_p] * 3
    restore.restype = None
    try:
        restore(kind, value, traceback)
    except BaseException as error:
        return error
    return KeyboardInterrupt()


def sleep_kind() -> str:
    """How pool workers sleep: futex, condition (a pthread condition variable), or none (no workers:
    serial)."""
    forced = os.environ.get("PULLBACK_POOL", "")
    if forced in ("futex", "condition", "none"):
        return forced
    if sys.platform == "linux" and address_of("syscall"):
        return "futex"
    return "condition" if address_of("pthread_cond_wait") and sys.platform != "win32" else "none"


def start_thread(function: int, argument: int, *read: Any) -> bool:
    """A detached native thread running `function(argument)`; False when the system refuses.

    `read`: the blocks that it reads. They are never freed: on a busy machine the thread may run for
    the first time when the interpreter has ended."""
    lib = libc()
    create, detach = lib.pthread_create, lib.pthread_detach
    create.argtypes = [ctypes.c_void_p] * 4
    detach.argtypes = [ctypes.c_void_p]
    handle = ctypes.c_void_p()
    if create(ctypes.byref(handle), None, function, argument) != 0:
        return False
    for block in read:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(block))
    detach(handle)
    return True


def cpu_count() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
