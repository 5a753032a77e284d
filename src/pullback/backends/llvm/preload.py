"""LLVM's library on its way: a native thread maps it while Python lowers the first program that
needs it.

Mapping takes 5 ms of a process (a hundred thousand addresses are relocated): a quarter of a small
program's first call. The thread never enters Python. Who asks for the library waits until it is
mapped; so do a fork and the end of the process.

That the thread also compiles a first function, which takes LLVM 3 ms more than the next ones, gains
nothing: both threads then touch the same memory for the first time.

Block: 0 state (2: mapped, or not to be had) | 8 dlopen | 16 dlsym | 24 path | 32 syscall
       40 first name | 48 second name | 56 initialised
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable
from ctypes import c_int64

from pullback.backends.llvm import os_shim
from pullback.forking import Gate, renewed

__all__ = ["NATIVE_TEXT", "begin", "mapped"]

DONE = 2
PATIENCE = 60.0  # seconds that somebody waits for the library
NAMES = b"LLVMPY_InitializeNativeTarget", b"LLVMPY_InitializeNativeAsmPrinter"

NATIVE_TEXT = """
define void @pb_preload(ptr %block) nounwind {
entry:
 %openp = getelementptr i8, ptr %block, i64 8
 %findp = getelementptr i8, ptr %block, i64 16
 %pathp = getelementptr i8, ptr %block, i64 24
 %sysp = getelementptr i8, ptr %block, i64 32
 %ap = getelementptr i8, ptr %block, i64 40
 %bp = getelementptr i8, ptr %block, i64 48
 %ip = getelementptr i8, ptr %block, i64 56
 %open = load ptr, ptr %openp
 %find = load ptr, ptr %findp
 %path = load ptr, ptr %pathp
 %sys = load ptr, ptr %sysp
 %a = load ptr, ptr %ap
 %b = load ptr, ptr %bp
 %handle = call ptr %open(ptr %path, i32 2)
 %none = icmp eq ptr %handle, null
 br i1 %none, label %say, label %first
first:
 %f = call ptr %find(ptr %handle, ptr %a)
 %nof = icmp eq ptr %f, null
 br i1 %nof, label %say, label %second
second:
 %g = call ptr %find(ptr %handle, ptr %b)
 %nog = icmp eq ptr %g, null
 br i1 %nog, label %say, label %both
both:
 %i = call i32 %f()
 %j = call i32 %g()
 store i64 1, ptr %ip
 br label %say
say:
 store atomic i32 2, ptr %block release, align 8
 %r = call i64 (i64, ...) %sys(i64 {futex}, ptr %block, i64 129, i32 2147483647)
 ret void
}
"""


class _Preload(Gate):
    """A thread that maps the library at `path`; `wait(block, word)` returns when a word of the
    block may have become 2."""

    def __init__(self, path: str, serve: int, wait: Callable[[int, int], None]) -> None:
        super().__init__()
        self._wait = wait
        self._strings = [ctypes.create_string_buffer(s) for s in (os.fsencode(path), *NAMES)]
        at = [ctypes.addressof(s) for s in self._strings]
        calls = [os_shim.address_of(name) for name in ("dlopen", "dlsym", "syscall")]
        self._block = (c_int64 * 8)(0, *calls[:2], at[0], calls[2], *at[1:], 0)
        atexit.register(self._until_mapped)
        read = self._block, *self._strings
        if not all(calls) or not os_shim.start_thread(serve, ctypes.addressof(self._block), *read):
            self._block[0] = DONE

    def _until_mapped(self) -> None:
        end = time.monotonic() + PATIENCE
        address = ctypes.addressof(self._block)
        while self._block[0] != DONE and time.monotonic() < end:
            self._wait(address, address)

    def mapped(self) -> bool:
        """Waits until the library is mapped; whether LLVM has been initialised."""
        self._until_mapped()
        return bool(self._block[7])

    def close(self) -> None:
        """Before a fork."""
        self._until_mapped()

    def open(self) -> None:
        """After it, in the parent."""

    def renew(self) -> None:
        """In the child, which has the library if its parent has."""
        self._block[0] = DONE


_begun: list[_Preload] = []
_lock = renewed(threading.Lock())


def begin(path: str, serve: int, wait: Callable[[int, int], None]) -> None:
    """Has a native thread, which runs `serve` of the text above, map the library; once a
    process."""
    with _lock:
        if not _begun:
            _begun.append(_Preload(path, serve, wait))


def mapped() -> bool:
    """Waits for the thread, if there is one; whether it has initialised LLVM."""
    return bool(_begun) and _begun[0].mapped()
