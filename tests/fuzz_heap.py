"""Whether the allocator's lists of free blocks are whole: a program that writes past its arrays
breaks them, and another program crashes later.
"""

from __future__ import annotations

import ctypes
import sys

from pullback.runtime import memory, native_layout as L
from pullback.runtime.native import Native

ALIGNMENT = 64
CLASSES = 33  # of blocks up to 32 KiB, which stay with the allocator
MAPPED = range(1 << 20, 1 << 47)  # where processes have memory; other addresses are not followed
LISTS = {
    "held": range(L.HELD_LISTS, L.HELD_LISTS + 8 * CLASSES, 8),
    "shared": range(L.FREE_LISTS, L.FREE_LISTS + 8 * CLASSES, 8),
}


def fault() -> str | None:
    """What is wrong with the free lists of small blocks, or None."""
    native = memory.engine
    if not isinstance(native, Native):
        return None
    found = None
    for _ in range(3):  # native threads may be changing the shared ones: what is broken stays so
        found = _fault(native)
        if found is None:
            break
    return found


def _fault(native: Native) -> str | None:
    seen: set[int] = set()
    before = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # threads of Python's allocate later
    try:
        for name, offsets in LISTS.items():
            for number, offset in enumerate(offsets):
                at = f"the {name} list {number} of free blocks"
                block = native.word(offset).value
                while block:
                    if block % ALIGNMENT or block not in MAPPED:
                        return (
                            f"list {number} ({name}) leads to {block:#x}: a free block was written"
                        )
                    if block in seen:
                        return f"{at} has {block:#x}, which was freed twice"
                    seen.add(block)
                    block = ctypes.c_int64.from_address(block).value
    finally:
        sys.setswitchinterval(before)
    return None
