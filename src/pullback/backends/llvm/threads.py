"""The fork-join pool and the context blocks that kernels run with.

Workers are native threads running our own code (native.py); they never touch Python. How many
threads a call uses is the flag `num_threads` (config.py: PULLBACK_NUM_THREADS, `config.update`, or
a block of one thread), else the CPUs of this process; a run's context has the number, and the pool
seats no more. Results do not depend on it. After a fork the child has no workers and runs serially
until its first plan starts new ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable

from pullback import config
from pullback.backends.llvm import first_import, native, os_shim
from pullback.backends.llvm.cache import kernel_key
from pullback.backends.llvm.kept import load_text
from pullback.backends.llvm.pool_text import POOL_BYTES
from pullback.backends.llvm.rem_pio2 import REM_PIO2
from pullback.backends.llvm.table import (
    ALLOC,
    CANCEL,
    CONTEXT_BYTES,
    ERROR_CODE,
    ERROR_EQUATION,
    FREE,
    LIBM,
    NEXT_CHECK,
    NUM_THREADS,
    PARALLEL_FOR,
    POOL,
    TABLE,
    TABLE_ENTRIES,
    attach,
    function_offset,
    register_function,
)  # fmt: skip
from pullback.backends.llvm.target import host_target

__all__ = [
    "Context",
    "num_threads",
    "prepare",
    "runtime",
    "set_function",
    "set_num_threads",
    "thread_limit",
]

_SPIN_CYCLES = 150_000  # about 50 us


def _word(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)


class Runtime:
    """The native runtime of this process: its code, function table and pool."""

    def __init__(self) -> None:
        target = host_target()
        self.kind = os_shim.sleep_kind()
        flush = flushes_denormals()
        text = native.runtime_text(target, self.kind, function_offset("memmove"), REM_PIO2, flush)
        loader_kind = os.environ.get("PULLBACK_LOADER", "")
        self.code = load_text(
            text, target, 0, kernel_key(text, target.key, "runtime" + loader_kind)
        )  # the quick path: the code waits, or calls kernels; LLVM's best would cost 20 ms
        self.code.keep_forever()
        self.lock = threading.Lock()
        self.cycles = ctypes.PYFUNCTYPE(ctypes.c_int64)(self.code.symbols["pb_cycles"])
        self.first_cycle, self.made = self.cycles(), time.perf_counter()
        libc = os_shim.libc()
        self.table = libc.calloc(TABLE_ENTRIES, 8)
        attach(self.table)
        self.pool = (libc.calloc(1, POOL_BYTES + 64) + 63) & ~63
        self.workers = 0
        self.usual = min(os_shim.cpu_count(), 64)
        for name in ("memcpy", "memmove", "memset"):
            self.set_function(name, os_shim.address_of(name))
        for name in LIBM:
            self.set_function(f"libm_{name}", os_shim.mathematics_address_of(name))
        self.set_function("rem_pio2", self.code.symbols["pb_rem_pio2"])
        self.set_function("launch", self.code.symbols["pb_launch"])
        self.set_function("check", self.code.symbols["pb_check"])
        self.set_function("pthread_self", os_shim.address_of("pthread_self"))
        for name, address in os_shim.signal_functions().items():
            self.set_function(name, address)
        self._note_main_thread()
        self.prepare_pool()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.after_fork)

    def set_function(self, name: str, address: int) -> None:
        """Fills a table entry with the address of a C function."""
        _word(self.table + 8 * register_function(name)).value = address

    def seconds_of(self, cycles: float) -> float:
        """How long so many cycles of the processor's clock take; 0 where it does not tell."""
        passed = self.cycles() - self.first_cycle
        return cycles * (time.perf_counter() - self.made) / passed if passed > 0 else 0.0

    def _note_main_thread(self) -> None:
        self.set_function("main_thread", threading.main_thread().ident or 0)

    def take_error(self) -> BaseException | None:
        """What a signal handler raised while a loop was running, once; None if nothing did."""
        first = self.table + function_offset("pending_error")
        words = [_word(first + 8 * k).value for k in range(3)]
        if not words[0]:
            return None
        ctypes.memset(first, 0, 24)
        return os_shim.as_exception(*words)

    def prepare_pool(self) -> None:
        """Zeroes the pool's state and writes the functions it uses."""
        ctypes.memset(self.pool, 0, POOL_BYTES)
        _word(self.pool + 384).value = _SPIN_CYCLES
        names = (
            "syscall",
            "sched_yield",
            "pthread_mutex_lock",
            "pthread_mutex_unlock",
            "pthread_cond_wait",
            "pthread_cond_broadcast",
        )
        for k, name in enumerate(names):
            _word(self.pool + 392 + 8 * k).value = os_shim.address_of(name)
        if self.kind == "condition":
            libc = os_shim.libc()
            libc.pthread_mutex_init(ctypes.c_void_p(self.pool + 512), None)
            libc.pthread_cond_init(ctypes.c_void_p(self.pool + 640), None)

    @property
    def threads(self) -> int:
        """How many threads a call from here uses."""
        return config.num_threads.get() or self.usual

    @property
    def process_threads(self) -> int:
        """How many threads calls use where their thread does not say."""
        return config.num_threads.value or self.usual

    def ensure_workers(self, threads: int) -> None:
        """Starts the workers that so many threads need and that are missing."""
        wanted = threads - 1 if self.kind != "none" else 0
        if self.workers >= wanted:
            return
        with self.lock:
            while self.workers < wanted and os_shim.start_thread(
                self.code.symbols["pb_worker"], self.pool
            ):
                self.workers += 1

    def after_fork(self) -> None:
        """In the child: no workers, and whatever the parent's pool was doing is not ours."""
        self.lock = threading.Lock()
        self.workers = 0
        self._note_main_thread()
        self.prepare_pool()


_runtime: Runtime | None = None
_making = threading.RLock()


def runtime() -> Runtime:
    """The native runtime, made on first use."""
    global _runtime
    if _runtime is None:
        with _making:
            if _runtime is None:
                _runtime = Runtime()
    return _runtime


def flushes_denormals() -> bool:
    """Whether PULLBACK_FLUSH_DENORMALS asks kernels to take denormals for zeros.

    Raises ValueError for a value that says neither yes nor no.
    """
    text = os.environ.get("PULLBACK_FLUSH_DENORMALS", "0").strip().lower()
    if text not in ("0", "1", "false", "true", ""):
        raise ValueError(f"PULLBACK_FLUSH_DENORMALS={text!r}: say 1 (zeros) or 0 (kept)")
    return text in ("1", "true")


def prepare() -> None:
    """Makes the native runtime, so that no first call waits for it. Where that fails, who needs it
    meets the error."""
    with contextlib.suppress(Exception):
        runtime()
        first_import.end()


def set_function(name: str, address: int) -> None:
    """Makes a C function callable by `Call(name)` in kernels: `i32 f(ctx*, arguments..., result
    pointers...)`."""
    runtime().set_function(name, address)


def num_threads() -> int:
    """How many threads the calls of this thread use."""
    return runtime().threads


def set_num_threads(n: int) -> None:
    """Uses n threads from the next plan on, in this process. Results do not depend on it.

    Raises ValueError unless n is a positive integer.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of threads must be a positive integer, got {n!r}")
    config.num_threads.set_global(n)


def thread_limit(n: int) -> contextlib.AbstractContextManager[None]:
    """`with thread_limit(1): ...` runs the kernels of this thread on n threads in the block."""
    return config.num_threads(n)


class Context:
    """A context block (docs/contract.md). One run at a time; errors and the cancel word are its
    own."""

    __slots__ = ("_free", "address", "cancel_address")

    def __init__(self, alloc: int = 0, free: int = 0) -> None:
        r, libc = runtime(), os_shim.libc()
        self._free: Callable[[int], None] = libc.free
        self.address = libc.calloc(1, CONTEXT_BYTES)
        self.cancel_address = self.address + CONTEXT_BYTES - 8
        self.put(ALLOC, alloc or os_shim.address_of("malloc"))
        self.put(FREE, free or os_shim.address_of("free"))
        self.put(PARALLEL_FOR, r.code.symbols["pb_parallel_for"])
        self.put(CANCEL, self.cancel_address)
        self.put(TABLE, r.table)
        self.reset()

    def put(self, offset: int, value: int) -> None:
        _word(self.address + offset).value = value

    def reset(self, threads: int | None = None) -> None:
        """Before a run: no error, not cancelled, the thread count in force (or another one)."""
        r = runtime()
        threads = threads or r.threads
        r.ensure_workers(threads)
        self.put(ERROR_CODE, 0)
        self.put(ERROR_EQUATION, -1)
        self.put(NEXT_CHECK, 0)
        self.put(NUM_THREADS, threads)
        self.put(POOL, r.pool if threads > 1 and r.workers else 0)
        _word(self.cancel_address).value = 0

    def forget_workers(self) -> None:
        """In a forked child, which has none: the next reset starts some."""
        self.put(POOL, 0)

    def cancel(self) -> None:
        """Asks a run to stop, from any thread."""
        ctypes.c_int32.from_address(self.cancel_address).value = 1

    @property
    def error(self) -> tuple[int, int]:
        """(error code, equation) of the last run; the code is 0 when it went well."""
        return _word(self.address + ERROR_CODE).value, _word(self.address + ERROR_EQUATION).value

    def __del__(self) -> None:
        address = getattr(self, "address", None)
        if address:
            self._free(address)
