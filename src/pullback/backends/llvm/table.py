"""Offsets in the context block, and the table of functions that kernels call through it.

A table entry is a C function. Library routines have the form `i32 f(ctx*, arguments..., result
pointers...)`; the entries
marked internal belong to our own elementary functions and have their own form.
"""

from __future__ import annotations

import ctypes

from pullback.loops.libraries import NAMES
from pullback.loops.tiles import TILE_NAMES

__all__ = [
    "ALLOC",
    "AT_UNFINISHED",
    "CANCEL",
    "CONTEXT_BYTES",
    "ERROR_CODE",
    "ERROR_EQUATION",
    "FREE",
    "FUNCTIONS_CALLED",
    "LIBM",
    "NEXT_CHECK",
    "NUM_THREADS",
    "PARALLEL_FOR",
    "POOL",
    "TABLE",
    "TABLE_ENTRIES",
    "UNFINISHED",
    "attach",
    "function_offset",
    "provide",
    "register_function",
]

ALLOC, FREE, PARALLEL_FOR, CANCEL, ERROR_EQUATION, ERROR_CODE, TABLE, NUM_THREADS = range(0, 64, 8)
POOL = 64  # ours: the thread pool's state
NEXT_CHECK = 72  # ours: the cycle count from which a loop looks for signals again
CONTEXT_BYTES = 128
# A kernel's result: its first code has given up, and good code is to begin again (patch_while.py).
UNFINISHED = 9
# What the driver tells of such a step: its number less one, as what goes on behind it, and this.
AT_UNFINISHED = 1 << 40
TABLE_ENTRIES = 512

# The C library's functions of doubles that kernels call: double f(double, ...).
LIBM = ("log", "erf", "pow")

_names: dict[str, int] = {}
_provided: dict[str, int] = {}  # addresses that are known, perhaps before there is a table
_table = [0]


def register_function(name: str) -> int:
    """The number of a table entry, given on first use; the same names in the same order give the
    same numbers."""
    if name not in _names:
        if len(_names) >= TABLE_ENTRIES:
            raise ValueError(
                f"the function table is full ({TABLE_ENTRIES} entries); {name!r} does not fit"
            )
        _names[name] = len(_names)
    return _names[name]


def function_offset(name: str) -> int:
    """Byte offset of an entry in the table.

    Raises KeyError for a name that nobody registered.
    """
    return 8 * _names[name]


def provide(name: str, address: int) -> None:
    """Fills an entry with the address of a function, now or when there is a table."""
    register_function(name)
    _provided[name] = address
    if _table[0]:
        ctypes.c_int64.from_address(_table[0] + function_offset(name)).value = address


def attach(table: int) -> None:
    """Names the memory of the table; what has been provided is written to it."""
    _table[0] = table
    for name, address in list(_provided.items()):
        provide(name, address)


# Elementary functions that quick code calls, of full vectors of each type (called.py).
FUNCTIONS_CALLED = tuple(
    "exp exp2 expm1 log log1p logistic pow cbrt sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e".split()
)

# The first entries are fixed: cached kernels refer to them by number.
for _name in (
    "rem_pio2",  # internal: i64 quadrant(double x, ptr remainder[2]), exact for huge arguments
    # internal: void launch(ctx*, fn, closure, i64 n, i64 cost of an iteration in sixteenths, i64
    # grain)
    "launch",
    "memcpy",  # the C library's
    "memmove",
    "memset",
    # internal: void check(ctx*): sets the cancel word if a signal handler raised (native.py)
    "check",
    # the C library's, and the main thread's identity; what Python offers for signals
    "pthread_self",
    "main_thread",
    "gil_ensure",
    "gil_release",
    "check_signals",
    "error_fetch",
    "pending_error",  # what a handler raised: type, value, traceback
    "pending_value",
    "pending_traceback",
    *NAMES,  # of LAPACK and BLAS: loops/libraries.py
    *TILE_NAMES,  # blocks of matrix products: loops/tiles.py
    # internal: how many threads LAPACK's library uses: void set(i32), the usual number, and how
    # many calls that want one thread are under way (library.py)
    "library_threads",
    "library_usual",
    "library_calls",
    *(f"libm_{name}" for name in LIBM),
    *(f"{name}_{t}" for t in ("float", "double") for name in FUNCTIONS_CALLED),
):
    register_function(_name)
