"""The memory that arrays live in: the allocator's addresses for compiled code, its bound, its
statistics.

Blocks are 64-byte aligned and come from size classes; freed blocks of 32 KiB and more are kept for
reuse up to a bound (an eighth of the machine's memory, at most 8 GiB; `PULLBACK_MEMORY_CACHE` in
bytes sets another), because fresh pages cost more than most kernels.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any

from pullback.lazy_imports import lazy_module
from pullback.runtime import native_layout as L
from pullback.runtime.native import Native, load

if TYPE_CHECKING:
    from pullback.runtime.fallback import Fallback

__all__ = [
    "alloc", "alloc_address", "engine", "free", "free_address", "memory_stats", "native_reason",
    "set_cache_limit", "trim",
]  # fmt: skip

fallback: Any = lazy_module("pullback.runtime.fallback")

_native, native_reason = load()
engine: Native | Fallback = _native if _native is not None else fallback.Fallback()
if native_reason and native_reason != "PULLBACK_NATIVE=0" and os.environ.get("PULLBACK_DEBUG"):
    warnings.warn(f"Pullback runs without its native runtime: {native_reason}", stacklevel=2)

alloc_address: int = engine.alloc_address
free_address: int = engine.free_address
alloc = engine.alloc
free = engine.free


def _physical() -> int:
    """Bytes of memory that the machine has; 0 where the system does not say."""
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return max(0, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return 0


def _swap() -> int:
    """Bytes of swap space; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("SwapTotal:"))
    return 0


def _default_limit() -> int:
    text = os.environ.get("PULLBACK_MEMORY_CACHE", "").strip()
    if text.isdigit():
        return int(text)
    total = _physical() or 8 << 30
    return min(max(total // 8, 64 << 20), 8 << 30)


def bound_blocks() -> None:
    """No block is larger than memory and swap space together. Some systems promise any amount
    (`vm.overcommit_memory=1`) and end the process when it is written to."""
    total = _physical()
    most = min(total + _swap(), L.LARGEST) if total else L.LARGEST
    if isinstance(engine, Native):
        engine.word(L.MEMORY_TOTAL).value = most
    else:
        fallback.blocks.largest = most


def set_cache_limit(nbytes: int) -> int:
    """Bounds the free blocks kept for reuse; the bound before. Blocks above it go back at once.

    >>> before = set_cache_limit(1 << 30)
    """
    if nbytes < 0:
        raise ValueError(
            f"set_cache_limit: nbytes must not be negative, got {nbytes}; use 0 to keep nothing"
        )
    if not isinstance(engine, Native):
        return 0
    word = engine.word(L.CACHE_LIMIT)
    before, word.value = word.value, nbytes
    if engine.word(L.CACHED).value > nbytes:
        engine.trim()
    return int(before)


def trim() -> int:
    """Gives every free large block back to the system; how many there were."""
    return int(engine.trim())


def memory_stats() -> dict[str, int]:
    """Bytes in use (as size classes, now and at the peak), cached for reuse, and mapped; counts of
    allocations and maps. Public as `device.memory_stats()`."""
    if not isinstance(engine, Native):
        blocks = fallback.blocks
        return {
            "bytes_in_use": blocks.in_use, "peak_bytes_in_use": blocks.peak, "bytes_cached": 0,
            "bytes_limit": 0,
            "bytes_mapped": 0, "num_allocs": blocks.allocations, "num_maps": 0,
        }  # fmt: skip
    words = {
        "bytes_in_use": L.IN_USE, "peak_bytes_in_use": L.PEAK, "bytes_cached": L.CACHED,
        "bytes_limit": L.CACHE_LIMIT,
        "bytes_mapped": L.MAPPED, "num_allocs": L.ALLOCATIONS, "num_maps": L.SYSTEM_CALLS,
    }  # fmt: skip
    stats = {name: engine.word(offset).value for name, offset in words.items()}
    stats["bytes_in_use"] += engine.word(L.HELD_IN_USE).value
    stats["num_allocs"] += engine.word(L.HELD_ALLOCATIONS).value
    return stats


set_cache_limit(_default_limit())
bound_blocks()
