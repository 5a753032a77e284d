"""How stencils begin and end, in bytes: with loads from the frame and the store of a result.

Where a stencil reads what the one before it has stored, the register still has it (patch_code.py):
no value waits for memory, and what nothing else reads is never stored.
"""

from __future__ import annotations

__all__ = ["MOVES_OF", "NOTHING_HELD", "SIZES", "Ends", "Held", "Load", "ends_of"]

# Loads of registers from a place in the frame, and stores of the first register of each kind: what
# stands before the place, the kind, the register. Words of 32 bits are kept apart from those of 64.
_REGISTERS = range(4)


def _frame_loads() -> dict[bytes, tuple[str, int]]:
    found = {}
    for k in _REGISTERS:
        mode = bytes([0x87 | k << 3])
        found[b"\x48\x8b" + mode], found[b"\x8b" + mode] = ("q", k), ("d", k)
        found[b"\xc5\xfa\x10" + mode], found[b"\xc5\xfb\x10" + mode] = ("s", k), ("r", k)
        for way in (b"\xf8\x10", b"\xf8\x28", b"\xfa\x6f", b"\xf9\x6f", b"\xf9\x10"):
            found[b"\xc5" + way + mode] = "x", k
        for way in (b"\xfc\x10", b"\xfc\x28", b"\xfe\x6f", b"\xfd\x6f", b"\xfd\x10"):
            found[b"\xc5" + way + mode] = "y", k
        for way in (b"\x7c\x48\x10", b"\x7c\x48\x28", b"\xfe\x48\x6f", b"\xfd\x48\x10",
                    b"\xfd\x48\x6f"):  # fmt: skip
            found[b"\x62\xf1" + way + mode] = "z", k
    return found


def _frame_stores() -> dict[bytes, str]:
    stores = {
        b"\x48\x89\x87": "q", b"\x89\x87": "d", b"\xc5\xfa\x11\x87": "s",
        b"\xc5\xfb\x11\x87": "r",
    }  # fmt: skip
    for way in (b"\xf8\x11", b"\xf8\x29", b"\xfa\x7f", b"\xf9\x7f", b"\xf9\x11"):
        stores[b"\xc5" + way + b"\x87"] = "x"
    for way in (b"\xfc\x11", b"\xfc\x29", b"\xfe\x7f", b"\xfd\x7f", b"\xfd\x11"):
        stores[b"\xc5" + way + b"\x87"] = "y"
    for way in (b"\x7c\x48\x11", b"\x7c\x48\x29", b"\xfe\x48\x7f", b"\xfd\x48\x11",
                b"\xfd\x48\x7f"):  # fmt: skip
        stores[b"\x62\xf1" + way + b"\x87"] = "z"
    return stores


_LOADS, _STORES = _frame_loads(), _frame_stores()
_PREFIXES = frozenset((0x66, *range(0x40, 0x50)))  # other registers, or half of one
# Moves from the first register of a kind to others. The upper half of a word is cleared.
_MOVES = {
    "q": b"\x48\x89", "d": b"\x89", "s": b"\xc5\xf8\x28", "r": b"\xc5\xf8\x28",
    "x": b"\xc5\xf8\x28", "y": b"\xc5\xfc\x28", "z": b"\x62\xf1\x7c\x48\x28",
}  # fmt: skip
# How many bytes of the frame each kind of register is.
SIZES = {"d": 4, "s": 4, "q": 8, "r": 8, "x": 16, "y": 32, "z": 64}


def _moved(kind: str, k: int) -> bytes:
    """An instruction that moves the first register of a kind to another."""
    if k == 0 and kind != "d":
        return b""
    mode = 0xC0 | k if kind in "qd" else 0xC0 | k << 3
    return _MOVES[kind] + bytes([mode])


MOVES_OF = {kind: tuple(_moved(kind, k) for k in _REGISTERS) for kind in _MOVES}
# Where a load begins and ends; the kind and the number of its register; the hole.
Load = tuple[int, int, str, int, int]
# The loads that a stencil begins with, and where they end; the kind of register that it ends with
# storing, and where that instruction begins.
Ends = tuple[tuple[Load, ...], int, str, int]
# What a stencil has stored from a register: where its code ends, the place, the register's kind,
# where the instruction begins.
Held = tuple[int, int, str, int]
NOTHING_HELD: Held = (-1, 0, "", 0)


def ends_of(text: bytes, holes: tuple[tuple[int, int, int], ...]) -> Ends:
    """How a stencil begins and ends."""
    loads, at = [], 0
    for number, (place, _, _) in enumerate(holes):
        found = _LOADS.get(text[at:place])
        if found is None:
            break
        loads.append((at, place + 4, *found, number))
        at = place + 4
    last, operand, more = max(holes, default=(0, 0, 0))
    kind, begin = "", len(text)
    if last + 4 == len(text) and [k for _, k, _ in holes].count(operand) == 1 and not more:
        for size in (6, 4, 3, 2):
            kind = _STORES.get(text[last - size : last], "")
            if kind:
                begin = last - size
                break
        if kind == "d" and begin and text[begin - 1] in _PREFIXES:
            kind, begin = "", len(text)
    return tuple(loads), at, kind, begin
