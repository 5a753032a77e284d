"""Bytes of machine code, labels in them, and places in a frame on the stack: what patched.py writes
code with that is put together from stencils."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pullback.backends.llvm.loader import PUT_TOGETHER, Image
from pullback.backends.llvm.patch_registers import MOVES_OF, NOTHING_HELD, SIZES, Held, Load
from pullback.backends.llvm.stencil_text import Key
from pullback.backends.llvm.stencils import Known, Stencils

__all__ = [
    "ADD",
    "ADDRESS",
    "ADD_LITERAL",
    "ARGUMENTS",
    "CALL_ALIGNED",
    "COMPARE",
    "FRAME_AGAIN",
    "GREATER",
    "IF_GREATER",
    "JUMP",
    "LESS",
    "LOAD",
    "NOT_GREATER",
    "NOT_LESS",
    "NOT_ZERO",
    "STORE",
    "SUB",
    "ZERO",
    "Code",
    "NoLanes",
    "Refused",
    "put_word",
    "word",
]  # fmt: skip

# What it takes to move a value, in additions; and what a stencil takes one of whose operands has
# just been computed, beside others: it is in a register.
MOVED, FROM_REGISTER = 0.5, 0.5
MOST_SLOTS = 48 << 10  # bytes of the frame that values take
word = struct.Struct("<i").pack
put_word = struct.Struct("<i").pack_into

# Instructions on rax and a place in the frame, whose address follows.
LOAD, STORE, ADD, SUB = b"\x48\x8b\x87", b"\x48\x89\x87", b"\x48\x03\x87", b"\x48\x2b\x87"
COMPARE, IF_GREATER, ADDRESS = b"\x48\x3b\x87", b"\x48\x0f\x4f\x87", b"\x48\x8d\x87"
ADD_LITERAL = b"\x48\x05"
JUMP, LESS, GREATER = b"\xe9", b"\x0f\x8c", b"\x0f\x8f"
NOT_LESS, NOT_GREATER = b"\x0f\x8d", b"\x0f\x8e"
ZERO, NOT_ZERO = b"\x0f\x84", b"\x0f\x85"
# rdi = rsp + 8: the stack lies as where a function begins, which LLVM took stencils for.
FRAME_AGAIN = b"\x48\x8d\x7c\x24\x08"
CALL_ALIGNED = b"\x48\x83\xec\x08\xff\xd0\x48\x83\xc4\x08"  # of rax
# Moves through the first vector register: bytes, in, out.
MOVES = (
    (64, b"\x62\xf1\x7c\x48\x10\x87", b"\x62\xf1\x7c\x48\x11\x87"),  # of AVX-512
    (32, b"\xc5\xfc\x10\x87", b"\xc5\xfc\x11\x87"),
    (16, b"\xc5\xf8\x10\x87", b"\xc5\xf8\x11\x87"),
    (8, LOAD, STORE),
)
# The registers of arguments after the context, from a place in the frame.
ARGUMENTS = (b"\x48\x8b\xb7", b"\x48\x8b\x97", b"\x48\x8b\x8f", b"\x4c\x8b\x87", b"\x4c\x8b\x8f")


class Refused(Exception):
    """A kernel, or a loop in lanes, that has something for which there is no stencil."""


class NoLanes(Refused):
    """Something that lanes have no code for; one by one, the kernel may have."""


class Code:
    """Bytes with labels, and the frame's places."""

    def __init__(self, stencils: Stencils, vector_bytes: int) -> None:
        self.stencils = stencils
        self.known: dict[Key, Known] = {}  # those that have been asked for
        self.moves = tuple(m for m in MOVES if m[0] <= vector_bytes)
        self.code = bytearray()
        self.labels: list[int] = []
        self.jumps: list[tuple[int, int]] = []  # places of distances, and their labels
        self.literals: list[tuple[int, bytes, int]] = []
        self.top = 8  # the context's address lies at 0
        self.times = 1.0  # how often what is written now runs
        self.executed = 0.0  # stencils, as often as they run, in additions
        self.held: Held = NOTHING_HELD
        self.dying: tuple[int, ...] = ()  # places that the next stencil only reads

    def slot(self, size: int = 8) -> int:
        """A new place; vectors do not lie across two lines of the cache."""
        unit = 8 if size <= 8 else 32 if size <= 32 else 64
        at = -(-self.top // unit) * unit
        self.top = at + -(-size // 8) * 8
        if self.top > MOST_SLOTS:
            raise Refused
        return at

    def find(self, key: Key) -> Known:
        """A stencil, which there must be."""
        found = self.stencils.find(key)
        if found is None:
            raise Refused(key)
        self.known[key] = found
        return found

    def stencil(self, key: Key, *places: int) -> None:
        """The code of a stencil whose operands, and then the result, lie at these places."""
        known = self.known.get(key) or self.find(key)
        (text, holes, literals, lost), (loads, begin, kind, end), cost = known
        code, held = self.code, self.held
        base = len(code)
        if (
            loads
            and base == held[0]
            and held[1] in places
            and self.from_register(text, holes, loads, places)
        ):
            base = len(code) - begin
            code += text[begin:]
            for at, k, more in holes[len(loads) :]:
                put_word(code, base + at, places[k] + more)
            self.executed += self.times * cost * FROM_REGISTER
        else:
            code += text
            for at, k, more in holes:
                put_word(code, base + at, places[k] + more)
            self.executed += self.times * cost
        for at, value, tail in literals:
            self.literals.append((base + at, value, tail))
        self.dying = ()
        if lost:
            code += FRAME_AGAIN
        elif kind:
            self.held = len(code), places[holes[-1][1]], kind, base + end

    def from_register(
        self,
        text: bytes,
        holes: Sequence[tuple[int, int, int]],
        loads: Sequence[Load],
        places: Sequence[int],
    ) -> bool:
        """Writes the loads that a stencil begins with, if one is of what the last stencil has
        stored from a register: that is moved there, or where it is. What nothing else reads is
        not stored."""
        _, place, kind, stored = self.held
        here, others = [], b""
        for start, end, of, register, number in loads:
            _, k, more = holes[number]
            if of == kind and places[k] + more == place:
                here.append(register)
            else:
                others += text[start : end - 4] + word(places[k] + more)
        if not here:
            return False
        code = self.code
        if place in self.dying:
            # A stencil may read a part of what it reads whole, too: the upper half, to convert it.
            past = place + SIZES[kind]
            if len(here) == sum(place <= places[k] + more < past for _, k, more in holes):
                del code[stored:]
        for register in here:
            code += MOVES_OF[kind][register]
        code += others
        return True

    def on(self, instruction: bytes, place: int) -> None:
        self.code += instruction + word(place)

    def label(self) -> int:
        self.labels.append(-1)
        return len(self.labels) - 1

    def mark(self, label: int) -> None:
        self.labels[label] = len(self.code)
        self.held = NOTHING_HELD

    def jump(self, how: bytes, label: int) -> None:
        code = self.code
        code += how
        self.jumps.append((len(code), label))
        code += b"\0\0\0\0"

    def copy(self, source: int, to: int, size: int = 8) -> None:
        """Moves a value; the smallest are as long as a slot."""
        self.executed += self.times * MOVED
        k, size = 0, max(size, 8)
        for step, get, put in self.moves:
            while size - k >= step:
                self.on(get, source + k)
                self.on(put, to + k)
                k += step

    def image(self) -> Image:
        """What has been written, linked."""
        code, pool = self.code, {}
        for at, label in self.jumps:
            put_word(code, at, self.labels[label] - at - 4)
        sizes = sorted({len(value) for _, value, _ in self.literals}, reverse=True)
        for size in sizes:
            code += bytes(-len(code) % 64)
            for _, value, _ in self.literals:
                if len(value) == size and value not in pool:
                    pool[value] = len(code)
                    code += value
        for at, value, tail in self.literals:
            put_word(code, at, pool[value] - at - 4 - tail)
        return Image(bytes(code), {"pb_kernel": 0}, quick=PUT_TOGETHER)
