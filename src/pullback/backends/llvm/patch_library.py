"""Calls of LAPACK and BLAS in code that is put together from stencils (see patched.py): library.py
says what they are, and when the library is told to use one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.backends.llvm.patch_code import (
    ADD,
    ADDRESS,
    ARGUMENTS,
    CALL_ALIGNED,
    FRAME_AGAIN,
    LESS,
    LOAD,
    NOT_LESS,
    NOT_ZERO,
    STORE,
    ZERO,
    word,
)
from pullback.backends.llvm.table import NUM_THREADS, TABLE, function_offset
from pullback.loops.ir import Buf, Call
from pullback.loops.libraries import OWN_THREADS
from pullback.loops.ops import storage_bytes

if TYPE_CHECKING:
    from pullback.backends.llvm.patch_statements import Statements

__all__ = ["library_call"]

CONTEXT = b"\x48\x8b\x07"  # rax = context
OF_RAX = b"\x48\x8b\x80"  # rax = a word of what it points to
TIMES = b"\x48\x69\xc0"  # rax = rax * literal
LITERAL = b"\x48\xc7\x87"  # a place = literal
AT_LEAST = b"\x81\xbf"  # compares 32 bits of a place with a literal
NOTHING = b"\x48\x83\xbf"  # compares a place with a byte
WORD_IS = b"\x48\x83\xb8"  # compares a word of what rax points to with a byte
ONE_MORE = b"\xf0\x48\xff\x80"  # adds to such a word, for all threads
ONE_LESS = b"\x48\xc7\xc1\xff\xff\xff\xff\xf0\x48\x0f\xc1\x88"  # and rcx = what it was
WAS_ONE = b"\x48\x83\xf9\x01"
THREADS_IN, ONE_THREAD = b"\x8b\xb8", b"\xbf\x01\x00\x00\x00"  # edi = a word, 1
TO_STACK = b"\x48\x89\x84\x24"
FUNCTION, FIRST, CALL = b"\x4c\x8b\x9f", b"\x48\x8b\xbf", b"\x41\xff\xd3"  # r11, rdi; of r11
VECTORS_END = b"\xc5\xf8\x77"


def library_call(e: Statements, s: Call, form: str) -> None:
    """A call of a routine in a form of loops/libraries.py; its results become values."""
    places, size = _arguments(e, s, form)
    for out in s.outs:
        at = e.new(out)
        e.store_literal(0, at)
        places.append(_address(e, at))
    places += [e.number(1)] * form.count("c")  # the lengths of characters
    function = e.slot()
    _table(e)
    e.on(OF_RAX, function_offset(s.name))
    e.on(STORE, function)
    alone = _enter(e, size)
    _call(e, function, places)
    _leave(e, alone)


def _address(e: Statements, at: int) -> int:
    """The place of a place's address."""
    place = e.slot()
    e.on(ADDRESS, at)
    e.on(STORE, place)
    return place


def _arguments(e: Statements, s: Call, form: str) -> tuple[list[int], int | None]:
    """The places of the addresses that the routine is given, and that of its first integer: the
    rows of its matrix."""
    args, places, size = iter(s.args), [], None
    for letter in form:
        if letter == "n":
            places.append(e.number(0))
            continue
        a = next(args)
        if not isinstance(a, Buf):
            own = e.slot()  # nobody else's: a routine may write there
            e.copy(e.at(a), own)
            places.append(_address(e, own))
            if size is None and letter == "s" and a.dtype == "i32":
                size = own
            continue
        if letter != "o":
            places.append(e.buffers[a])
            continue
        offset, place = next(args), e.slot()
        assert not isinstance(offset, Buf)
        e.on(LOAD, e.at(offset))
        e.code += TIMES + word(storage_bytes(a.dtype))
        e.on(ADD, e.buffers[a])
        e.on(STORE, place)
        places.append(place)
    return places, size


def _table(e: Statements) -> None:
    """rax = the context's table."""
    e.code += CONTEXT
    e.on(OF_RAX, TABLE)


def _enter(e: Statements, size: int | None) -> int:
    """Has the library use one thread from here on, if it is to; the place of whether it is."""
    alone, one, done = e.slot(), e.label(), e.label()
    e.store_literal(0, alone)
    if e.shared and size is not None:  # a large matrix, and a call of several threads
        e.on(AT_LEAST, size)
        e.code += word(OWN_THREADS)
        e.jump(LESS, one)
        e.code += CONTEXT
        e.on(WORD_IS, NUM_THREADS)
        e.code += b"\x02"
        e.jump(NOT_LESS, done)
    e.mark(one)
    _table(e)
    e.on(WORD_IS, function_offset("library_threads"))
    e.code += b"\0"
    e.jump(ZERO, done)
    e.on(ONE_MORE, function_offset("library_calls"))
    e.on(OF_RAX, function_offset("library_threads"))
    e.code += ONE_THREAD + CALL_ALIGNED + FRAME_AGAIN
    e.on(LITERAL, alone)
    e.code += word(1)
    e.mark(done)
    return alone


def _call(e: Statements, function: int, places: list[int]) -> None:
    more = places[1 + len(ARGUMENTS) :]
    room = -(-8 * len(more) // 16) * 16 + 8
    e.code += b"\x48\x81\xec" + word(room)
    for k, at in enumerate(more):
        e.on(LOAD, at)
        e.on(TO_STACK, 8 * k)
    for register, at in zip(ARGUMENTS, places[1:]):
        e.on(register, at)
    e.on(FUNCTION, function)
    e.code += VECTORS_END
    e.on(FIRST, places[0])  # the frame's address is lost
    e.code += CALL + b"\x48\x81\xc4" + word(room) + FRAME_AGAIN


def _leave(e: Statements, alone: int) -> None:
    """The last to leave gives the library its threads back."""
    done = e.label()
    e.on(NOTHING, alone)
    e.code += b"\0"
    e.jump(ZERO, done)
    _table(e)
    e.on(ONE_LESS, function_offset("library_calls"))
    e.code += WAS_ONE
    e.jump(NOT_ZERO, done)
    e.on(THREADS_IN, function_offset("library_usual"))
    e.on(OF_RAX, function_offset("library_threads"))
    e.code += CALL_ALIGNED + FRAME_AGAIN
    e.mark(done)
