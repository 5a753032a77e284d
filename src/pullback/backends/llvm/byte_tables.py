"""Tables of bytes that bytes are looked up in, as pictures' are.

Before: one load for each lane, and indices eight times as wide as what is computed on. After, where
the processor permutes bytes (AVX-512 VBMI): the table lies in at most four registers, loaded before
the loop, and two permutations and a choice between them look up 64 lanes at a time. That is for
indices which are bytes themselves, added to what is the same in all lanes, into arrays that the
kernel only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pullback.backends.llvm.analysis import defines, uses, walk
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.convert import from_memory, memory_type
from pullback.loops.ir import Atom, Buf, Const, For, Let, Load, Stmt, Var
from pullback.loops.ops import SIGNED

if TYPE_CHECKING:
    from pullback.backends.llvm.emit import Emitter

__all__ = ["NO_TABLES", "Tables", "look_up", "tables_of"]

LANES = 64  # bytes of a register
VECTOR = f"<{LANES} x i8>"
WIDER = ("i16", "u16", "i32", "u32", "i64", "u64")  # which hold all bytes


class Place(NamedTuple):
    """An index into a table: min(octets, most) + base."""

    octets: Atom
    most: Atom | None
    base: Atom | None


class Tables(NamedTuple):
    """What a loop looks up, by its results; and the indices that nothing else reads."""

    places: dict[Var, Place]
    indices: frozenset[Var]


NO_TABLES = Tables({}, frozenset())


def tables_of(e: Emitter, s: For) -> Tables:
    """What the body of a vector loop looks up in tables."""
    if s.kind != "vector" or e.lanes > 1 or "+avx512vbmi" not in e.target.features:
        return NO_TABLES
    found = [x for x in walk(s.body) if isinstance(x, Load) and _is_table(x.buf)]
    if not found:
        return NO_TABLES
    stmts = tuple(walk(s.body))
    inside = {s.index, *(v for x in stmts for v in defines(x))}
    lets = {x.out: x for x in stmts if isinstance(x, Let)}
    places = {x.out: p for x in found if (p := _place(x, lets, inside)) is not None}
    return Tables(places, _only_indices(stmts, lets, places)) if places else NO_TABLES


def _is_table(buf: Buf) -> bool:
    return buf.role == "in" and len(buf.shape) == 1 and memory_type(buf.dtype) == "i8"


def _place(s: Load, lets: dict[Var, Let], inside: set[object]) -> Place | None:
    """The place that a load reads, if lanes differ in a byte."""
    at: Atom = s.index[0]
    base: Atom | None = None
    most: Atom | None = None
    while isinstance(at, Var) and at in lets and at.dtype in WIDER:
        let = lets[at]
        if let.op == "convert":
            at = let.args[0]
        elif let.op == "add" and base is None and most is None and at.dtype == "i64":
            x, y = let.args
            at, base = (y, x) if x not in inside else (x, y)
            if base in inside:
                return None
        elif let.op == "clamp" and most is None and _is_zero(let.args[0]):
            at, most = let.args[1], let.args[2]
            if most in inside or most.dtype not in SIGNED:
                return None
        else:
            return None
    return Place(at, most, base) if at.dtype == "u8" and at in inside else None


def _is_zero(a: Atom) -> bool:
    return isinstance(a, Const) and a.value == 0


def _only_indices(
    stmts: Sequence[Stmt], lets: dict[Var, Let], places: dict[Var, Place]
) -> frozenset[Var]:
    """What is computed for the places of tables alone (or for nothing)."""
    read: set[object] = {p.octets for p in places.values()}
    for s in stmts:
        if isinstance(s, Load) and s.out in places:
            read.update((s.mask, s.other))
        elif not isinstance(s, Let):
            read.update(uses(s))
    for s in reversed(stmts):  # the values that read another come after it
        if isinstance(s, Let) and s.out in read:
            read.update(s.args)
    return frozenset(v for v in lets if v not in read)


def look_up(e: Emitter, s: Load, place: Place) -> Val:
    """The bytes at a table's places, in the current lanes."""
    b = e.b
    octets = e.full(e.val(place.octets))
    if place.most is not None:
        most = b.cast("trunc", b.call("smin", b.call("smax", e.val(place.most), 0), 255), "i8")
        octets = b.call("umin", octets, most)
    (size,) = e.shape_of(s.buf)
    base = b.lit(0, "i64") if place.base is None else e.val(place.base)
    registers = _registers(b, e.buffers[s.buf], size, base)
    found = [_permuted(b, registers, octets.n, reg) for reg in octets.regs]
    return from_memory(b, s.buf.dtype, Val(b, "i8", octets.n, tuple(found)))


def _registers(b: Builder, table: Val, size: Val, base: Val) -> list[str]:
    """The elements from `base` on, of as many as bytes tell apart those that there are."""
    count = 4 if size.c is None or base.c != 0 else min(4, -(-size.c // LANES))
    name = f"llvm.masked.load.v{LANES}i8.p0"
    b.declarations[name] = f"declare {VECTOR} @{name}(ptr, i32, <{LANES} x i1>, {VECTOR})"
    lanes, found = b.lanes_of("i8", LANES), []
    for k in range(4 if count == 3 else max(count, 1)):
        first = base + k * LANES
        there = b.compare("lt", lanes, _within(b, size - first))
        if base.c != 0:
            there = there & b.compare("ge", lanes, _within(b, b.lit(0, "i64") - first))
        pointer = b.gep(table, first).regs[0]
        mask = b.spread(there, LANES)[0]
        rest = f"i32 1, <{LANES} x i1> {mask}, {VECTOR} zeroinitializer"
        found.append(b.pure_reg(f"call {VECTOR} @{name}(ptr {pointer}, {rest})", (pointer, mask)))
    return found


def _within(b: Builder, count: Val) -> Val:
    """A number of a register's lanes, as a byte."""
    return b.cast("trunc", b.call("smin", b.call("smax", count, 0), LANES), "i8")


def _permuted(b: Builder, registers: Sequence[str], n: int, octets: str) -> str:
    """The elements of registers that n octets count."""
    wide = octets
    if n < LANES:
        picks = ", ".join(f"i32 {k if k < n else 'poison'}" for k in range(LANES))
        wide = b.pure_reg(
            f"shufflevector <{n} x i8> {octets}, <{n} x i8> poison, <{LANES} x i32> <{picks}>",
            (octets,),
        )
    if len(registers) == 1:
        name = "llvm.x86.avx512.permvar.qi.512"
        b.declarations[name] = f"declare {VECTOR} @{name}({VECTOR}, {VECTOR})"
        text = f"call {VECTOR} @{name}({VECTOR} {registers[0]}, {VECTOR} {wide})"
        whole = b.pure_reg(text, (registers[0], wide))
    else:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        halves = [_of_two(b, low, high, wide) for low, high in pairs]
        whole = halves[0]
        if len(halves) == 2:
            above = b.pure_reg(f"icmp slt {VECTOR} {wide}, zeroinitializer", (wide,))
            whole = b.pure_reg(
                f"select <{LANES} x i1> {above}, {VECTOR} {halves[1]}, {VECTOR} {halves[0]}",
                (above, *halves),
            )
    if n == LANES:
        return whole
    picks = ", ".join(f"i32 {k}" for k in range(n))
    text = f"shufflevector {VECTOR} {whole}, {VECTOR} poison, <{n} x i32> <{picks}>"
    return b.pure_reg(text, (whole,))


def _of_two(b: Builder, low: str, high: str, octets: str) -> str:
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    b.declarations[name] = f"declare {VECTOR} @{name}({VECTOR}, {VECTOR}, {VECTOR})"
    text = f"call {VECTOR} @{name}({VECTOR} {low}, {VECTOR} {octets}, {VECTOR} {high})"
    return b.pure_reg(text, (low, octets, high))
