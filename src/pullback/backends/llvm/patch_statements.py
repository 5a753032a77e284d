"""Loop IR without its loops as stencils one after the other (see patched.py): values, memory,
branches, scratch, calls, and the function around them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.backends.llvm.analysis import has, reads_of
from pullback.backends.llvm.beside import Total, follows, read_side_by_side, sum_of
from pullback.backends.llvm.convert import round_to
from pullback.backends.llvm.emit import PAST_END, STACK_LIMIT
from pullback.backends.llvm.loader import Image
from pullback.backends.llvm.patch_code import (
    ADD,
    ADD_LITERAL,
    ADDRESS,
    ARGUMENTS,
    CALL_ALIGNED,
    FRAME_AGAIN,
    JUMP,
    LOAD,
    NOT_ZERO,
    STORE,
    ZERO,
    Code,
    NoLanes,
    Refused,
    put_word,
    word,
)  # fmt: skip
from pullback.backends.llvm.patch_library import library_call
from pullback.backends.llvm.patch_loops import Loops
from pullback.backends.llvm.patch_trips import Trips
from pullback.backends.llvm.stencil_text import NARROW, SCALARS, Key, slot_bytes
from pullback.backends.llvm.stencils import Stencils
from pullback.backends.llvm.table import ERROR_CODE, ERROR_EQUATION, TABLE, function_offset
from pullback.backends.llvm.target import Target
from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)  # fmt: skip
from pullback.loops.ops import FLOATS, SIGNED, storage_bytes
from pullback.loops.tiles import is_tile, panel_width

__all__ = ["FAILED", "Statements"]

# How often a branch is taken, roughly; and one that has loops where the other side has nothing:
# what is seldom needed is looked for in order not to be done.
TAKEN, RARELY = 0.6, 0.1
FAILED = -1  # the code of a way out: what the context has

HELD = frozenset((*SCALARS, *NARROW))  # the dtypes of values that have stencils
# What gives narrow floats without rounding, or none at all; the other operators round.
_EXACT = frozenset(
    "neg abs copysign sign max min clamp select round lt le gt ge eq ne is_finite lt_total "
    "le_total eq_total".split()
)


class Statements(Code, Loops):
    """The function of a kernel, without its loops."""

    def __init__(
        self, kernel: Kernel, target: Target, stencils: Stencils, dims: Sequence[int] = ()
    ) -> None:
        super().__init__(stencils, target.vector_bytes)
        self.kernel, self.target = kernel, target
        self.trips = Trips(kernel, dims)
        self.sharing = 1  # threads that share what is `shared`
        self.where: dict[Var, int] = {}
        self.consts: dict[tuple[str, bytes], int] = {}
        self.whole: dict[tuple[int, str], int] = {}  # of these, integers by value
        self.buffers: dict[Buf, int] = {}
        self.offsets: dict[Any, Any] = {}  # of places in buffers that have been computed
        self.exits: dict[tuple[Any, ...], int] = {}
        self.heap: tuple[tuple[int, int], ...] = ()
        self.scratch = 0  # bytes of the frame that buffers take
        self.placed: list[tuple[int, int]] = []  # slots with addresses of such buffers, and where
        # Chunks of loops: labels of what is done before them and where they go on; their scratch.
        self.chunks: list[tuple[int, int, int, int]] = []
        self.sizes: list[int] = []  # where the frame's size stands, and its values' words
        self.words: list[int] = []
        self.taken: dict[int, int] = {}  # scratch from the context, and the places of its sizes
        self.shared = False  # whether threads share loops, and none is being written
        self.in_lanes = False
        self.counted_reads: dict[Any, int] | None = None
        self.sums: dict[Atom, Total] = {}  # of indices that are sums: their terms
        self.added: list[Let] = []  # sums whose terms nobody has asked for yet
        self.n = 1
        self.wide: dict[Var, int] = {}
        self.steps: dict[Var, tuple[int, int]] = {}  # where they begin, and by how much they grow
        self.before: list[tuple[Key, int, int]] = []  # what a loop in lanes has spread before it
        self.spread: dict[Any, int] = {}
        self.inside: set[Var] = set()  # values that the loop in lanes computes

    # ---- the function

    def image(self) -> Image:
        kernel = self.kernel
        self.code += b"\x55\x48\x89\xe5\x48\x81\xec\0\0\0\0\x48\x83\xe4\xc0\x50\x48\x89\x7c\x24\x08"
        self.sizes.append(7)
        blocks = ((b"\x48\x8b\x86", kernel.params), (b"\x48\x8b\x82", kernel.dims),
                  (b"\x48\x8b\x81", kernel.scalars))  # fmt: skip
        for load, names in blocks:
            for k, x in enumerate(names):
                at = self.slot()
                if type(x) is Var:
                    if x.dtype not in HELD or x.dtype in NARROW:
                        raise Refused
                    self.where[x] = at
                else:
                    self.buffers[x] = at  # type: ignore[index]
                self.on(load, 8 * k)
                self.on(b"\x48\x89\x84\x24", at + 8)
        self.code += FRAME_AGAIN
        begin, literals = self.label(), self.label()
        self.jump(JUMP, literals)
        self.mark(begin)
        self.block(kernel.body)
        out = self.label()
        self.code += b"\x31\xc0"
        self.mark(out)
        self.code += b"\xc5\xf8\x77\x48\x89\xec\x5d\xc3"
        for (code, equation, heap), label in list(self.exits.items()):
            self.mark(label)
            self.leave(code, equation, heap)
            self.jump(JUMP, out)
        self.mark(literals)
        base = -(-self.top // 64) * 64
        for (_, raw), at in self.consts.items():
            self.store_literal(int.from_bytes(raw, "little"), at)
        for prepare, start, first, last in ((-1, begin, 0, len(self.placed)), *self.chunks):
            if prepare >= 0:
                self.mark(prepare)
            for at, offset in self.placed[first:last]:
                self.on(ADDRESS, base + offset)
                self.on(STORE, at)
            self.jump(JUMP, start)
        for at in self.sizes:
            put_word(self.code, at, base + self.scratch + 64)
        for at in self.words:
            put_word(self.code, at, base // 8)
        return super().image()

    def store_literal(self, bits: int, at: int) -> None:
        if bits < 1 << 31:
            self.on(b"\x48\xc7\x87", at)
            self.code += struct.pack("<I", bits)
        elif bits >= (1 << 64) - (1 << 31):
            self.on(b"\x48\xc7\x87", at)
            self.code += struct.pack("<I", bits & 0xFFFFFFFF)
        else:
            self.code += b"\x48\xb8" + struct.pack("<Q", bits)
            self.on(STORE, at)

    def leave(self, code: int, equation: int | None, heap: Sequence[tuple[int, int]]) -> None:
        self.code += b"\x48\x8b\x07"  # rax = context
        if code == FAILED:
            for pointer, size in reversed(heap):
                self.free(pointer, size)
            self.code += b"\x48\x8b\x07"
            self.on(b"\x8b\x80", ERROR_CODE)
            return
        for offset, value in ((ERROR_CODE, code), (ERROR_EQUATION, equation)):
            if value is not None:
                self.on(b"\x48\xc7\x80", offset)
                self.code += word(value)
        for pointer, size in reversed(heap):
            self.free(pointer, size)
        self.code += b"\xb8" + word(code)

    # ---- values

    def const(self, a: Const) -> int:
        dtype, value = a.dtype, a.value
        known = self.whole.get((value, dtype)) if type(value) is int else None
        if known is not None:
            return known
        if dtype not in HELD:
            raise Refused
        if dtype in FLOATS:
            raw = struct.pack("<d" if dtype == "f64" else "<f", round_to(float(value), dtype))
        else:
            raw = struct.pack("<Q", int(value) & 0xFFFFFFFFFFFFFFFF)
        at = self.consts.get((dtype, raw))
        if at is None:
            at = self.consts[dtype, raw] = self.slot()
        if type(value) is int:
            self.whole[value, dtype] = at
        return at

    def number(self, value: int) -> int:
        """The place of an index that is known."""
        return self.const(Const(value, "i64"))

    def at(self, a: Atom) -> int:
        """The place of a value that is the same in all lanes."""
        if type(a) is Const:
            return self.const(a)
        found = self.where.get(a)  # type: ignore[arg-type]
        if found is None:
            raise NoLanes if self.n > 1 else Refused
        return found

    def new(self, v: Var) -> int:
        if v.dtype not in HELD:
            raise Refused
        at = self.where[v] = self.slot()
        if self.n > 1:
            self.wide.pop(v, None)
            self.steps.pop(v, None)
            self.inside.add(v)
        return at

    def new_wide(self, v: Var) -> int:
        if v.dtype not in HELD:
            raise Refused
        self.where.pop(v, None)
        self.steps.pop(v, None)
        at = self.wide[v] = self.slot(self.size(v.dtype))
        return at

    def size(self, dtype: str) -> int:
        return self.lane_bytes(dtype, self.n)

    def lane_bytes(self, dtype: str, n: int) -> int:
        """The bytes of a value of so many lanes."""
        return slot_bytes(dtype, n, self.target) if n > 1 else 8

    def is_uniform(self, a: Atom) -> bool:
        return type(a) is Const or a in self.where

    def lanes(self, a: Atom) -> int:
        """The place of a value in lanes."""
        if type(a) is not Const:
            found = self.wide.get(a)  # type: ignore[arg-type]
            if found is not None:
                return found
            if a in self.steps:
                return self.counted(*self.steps[a], "i64")  # type: ignore[index]
        return self.spread_out(self.at(a), a.dtype, a not in self.inside)

    def value(self, a: Atom) -> int:
        """The place of a value in the shape of the current lanes."""
        return self.lanes(a) if self.n > 1 else self.at(a)

    def spread_out(self, place: int, dtype: str, outside: bool) -> int:
        """A number in all lanes: before the loop, if it is known there."""
        key = ("splat", _held(dtype), self.n)
        if not outside:
            at = self.slot(self.size(dtype))
            self.stencil(key, place, at)
            return at
        return self.before_loop(key, place, dtype)

    def before_loop(self, key: Key, place: int, dtype: str) -> int:
        """Lanes that are made of a number before the loop."""
        at = self.spread.get((key, place), -1)
        if at < 0:
            self.find(key)
            at = self.spread[key, place] = self.slot(self.size(dtype))
            self.before.append((key, place, at))
        return at

    def counted(self, base: int, step: int, dtype: str) -> int:
        """The lanes of an index that grows."""
        at = self.slot(self.size(dtype))
        if step == 1:
            self.stencil(("count", dtype, self.n), base, at)
            return at
        if dtype != "i64":
            raise NoLanes
        start = self.spread_out(base, dtype, False)
        self.stencil(("add", dtype, self.n), self.steps_of(step), start, at)
        return at

    def steps_of(self, step: int) -> int:
        """The lanes of an index that begins at 0."""
        return self.before_loop(("steps", "i64", self.n), self.number(step), "i64")

    # ---- statements

    def block(self, stmts: Sequence[Stmt]) -> None:
        if self.n > 1:
            self.block_in_lanes(stmts)
            return
        for s in stmts:
            _RULES[type(s)](self, s)

    def block_in_lanes(self, stmts: Sequence[Stmt]) -> None:
        """The same, with both parts of complex numbers loaded and stored together."""
        pairs, taken = read_side_by_side(stmts, self.totals), set[Load]()
        waiting: Store | None = None
        for s in stmts:
            kind = type(s)
            if waiting is not None and kind is not Let:
                first, waiting = waiting, None
                if kind is Store and self.both_parts(first, s):  # type: ignore[arg-type]
                    continue
                self.store(first)
            if kind is Load and s in taken:
                continue
            if kind is Load and self.parts_of(pair := pairs.get(s, ())):  # type: ignore[arg-type]
                taken.update(pair)
            elif kind is Store and s.mask is None:  # type: ignore[union-attr]
                waiting = s  # type: ignore[assignment]
            else:
                _RULES[kind](self, s)
        if waiting is not None:
            self.store(waiting)

    def totals(self) -> dict[Atom, Total]:
        """The terms of all sums of indices so far."""
        sums = self.sums
        for s in self.added:
            sums[s.out] = sum_of(s, sums)  # type: ignore[assignment]
        self.added.clear()
        return sums

    def both_parts(self, s: Store, other: Store) -> bool:
        """Stores a real and an imaginary part together, where that is what two statements do."""
        dtype, near = s.buf.dtype, other.buf is s.buf and other.mask is None
        if not near or len(s.index) != 1 or ("together", dtype, self.n) not in self.stencils:
            return False
        if not follows(other.index[0], s.index[0], self.totals()):
            return False
        found = self.stepping(s.index[0])
        if found is None or found[1] != 2:
            return False
        values = self.lanes(s.value), self.lanes(other.value)
        self.stencil(("together", dtype, self.n), self.buffers[s.buf], found[0], *values)
        return True

    def parts_of(self, pair: Sequence[Load]) -> bool:
        """Loads both parts of complex numbers, if two statements do so, the first one of which is
        about to come."""
        if len(pair) != 2:
            return False
        first, second = pair
        key, found = ("apart", first.buf.dtype, self.n), self.stepping(first.index[0])
        if found is None or found[1] != 2 or key not in self.stencils:
            return False
        outs = self.new_wide(first.out), self.new_wide(second.out)
        self.stencil(key, self.buffers[first.buf], found[0], *outs)
        return True

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Code that may not run, or run again: what it computes is not known after it."""
        offsets, self.offsets = self.offsets, dict(self.offsets)
        yield
        self.offsets = offsets

    @contextmanager
    def repeated(self, times: float) -> Iterator[None]:
        """Code that runs so often as often as what is around it."""
        before, self.times = self.times, self.times * times
        yield
        self.times = before

    def let(self, s: Let) -> None:
        if s.op == "add" and s.out.dtype == "i64":
            self.added.append(s)
        if self.n > 1 and not all(map(self.is_uniform, s.args)):
            self.let_in_lanes(s)
            return
        op, args = s.op, s.args
        dtype = args[-1].dtype
        if op in ("convert", "bitcast"):
            source = dtype if op == "bitcast" else _held(dtype)
            if source == s.out.dtype:
                self.copy(self.at(args[0]), self.new(s.out))
                return
            self.stencil((op, source, 1, s.out.dtype), self.at(args[0]), self.new(s.out))
            return
        places = [self.at(a) for a in args]
        if op == "integer_pow":
            self.power(s, places[0], 1)
            return
        self.dying = self.last_reads(args, places)
        self.operate(_key(s, dtype, 1), *places, self.new(s.out))

    def let_in_lanes(self, s: Let) -> None:
        op, args, n = s.op, s.args, self.n
        dtype = args[-1].dtype
        if s.out.dtype == "i64" and op in ("add", "sub", "mul") and self.let_steps(s):
            return
        if op == "convert" and args[0] in self.steps and s.out.dtype in ("i32", "u32"):
            base, step = self.steps[args[0]]  # type: ignore[index]
            if step == 1:
                self.where.pop(s.out, None)
                self.wide[s.out] = self.counted(base, step, s.out.dtype)
                return
        if op in ("convert", "bitcast"):
            source = self.lanes(args[0])
            dtype = dtype if op == "bitcast" else _held(dtype)
            if dtype == s.out.dtype:
                self.copy(source, self.new_wide(s.out), self.size(dtype))
                return
            self.stencil((op, dtype, n, s.out.dtype), source, self.new_wide(s.out))
            return
        places = [self.lanes(a) for a in args]
        if op == "integer_pow":
            self.power(s, places[0], n)
            return
        self.dying = self.last_reads(args, places)
        self.operate(_key(s, dtype, n), *places, self.new_wide(s.out))

    def last_reads(self, atoms: Sequence[Atom | None], places: Sequence[int]) -> tuple[int, ...]:
        """The places of values that nothing else reads."""
        held = self.held
        if held[0] != len(self.code) or held[1] not in places:
            return ()
        atom = atoms[places.index(held[1])]
        if self.counted_reads is None:
            self.counted_reads = reads_of(self.kernel.body)
        return held[1:2] if self.counted_reads.get(atom) == 1 else ()

    def operate(self, key: Key, *places: int) -> None:
        """The code of an operator; of narrow floats that of f32, and what rounds its result."""
        if key[1] not in NARROW:
            self.stencil(key, *places)
            return
        op, dtype, n, *more = key
        if op == "nextafter":
            raise Refused
        elif op in _EXACT:
            self.stencil((op, "f32", n, *more), *places)
        else:
            exact = self.slot(self.size("f32"))
            self.stencil((op, "f32", n, *more), *places[:-1], exact)
            self.stencil(("convert", "f32", n, dtype), exact, places[-1])

    def let_steps(self, s: Let) -> bool:
        """An index that grows from lane to lane by a known number, or not at all."""
        first, second = (self.stepping(a) for a in s.args)
        if first is None or second is None:
            return False
        (p, x), (q, y) = first, second
        if s.op == "mul":
            factor = s.args[1] if x else s.args[0]
            if (x and y) or type(factor) is not Const:
                return False
            step = (x or y) * int(factor.value)
        else:
            step = x + y if s.op == "add" else x - y
        at = self.slot()
        self.stencil((s.op, "i64", 1), p, q, at)
        self.bind_steps(s.out, at, step)
        return True

    def bind_steps(self, v: Var, at: int, step: int) -> None:
        self.wide.pop(v, None)
        self.steps.pop(v, None)
        self.where.pop(v, None)
        if step:
            self.steps[v] = at, step
        else:
            self.where[v] = at
            self.inside.add(v)

    def stepping(self, a: Atom) -> tuple[int, int] | None:
        if type(a) is not Const:
            if a in self.steps:
                return self.steps[a]  # type: ignore[index]
            if a not in self.where:
                return None
        return self.at(a), 0

    def power(self, s: Let, x: int, n: int) -> None:
        """By repeated squaring, as arith.py does it."""
        dtype, y = s.out.dtype, int(dict(s.attrs)["y"])
        if dtype in NARROW or (dtype not in ("f32", "f64") and y < 0):
            raise Refused
        width = self.size(dtype)
        out = self.new(s.out) if n == 1 else self.new_wide(s.out)
        one = Const(1.0 if dtype in FLOATS else 1, dtype)
        unit = self.const(one) if n == 1 else self.spread_out(self.const(one), dtype, True)
        result, square, rest = -1, x, abs(y)
        while rest:
            if rest & 1:
                if result < 0:
                    result = square
                else:
                    at = self.slot(width)
                    self.stencil(("mul", dtype, n), result, square, at)
                    result = at
            rest >>= 1
            if rest:
                at = self.slot(width)
                self.stencil(("mul", dtype, n), square, square, at)
                square = at
        result = unit if result < 0 else result
        if y < 0:
            self.stencil(("div", dtype, n), unit, result, out)
        else:
            self.copy(result, out, width)

    # ---- memory

    def offset(self, buf: Buf, index: Sequence[Atom]) -> tuple[int, int]:
        """Where the place of an element is told, and by how much it grows from lane to lane."""
        if len(index) == 1:
            found = self.stepping(index[0])
            if found is None:
                raise NoLanes
            return found
        if not index:
            return self.number(0), 0
        key = buf.shape, index
        found = self.offsets.get(key)
        if found is None:
            found = self.offsets[key] = self.row_major(buf.shape, index)
        return found

    def row_major(self, shape: Sequence[int | Var], index: Sequence[Atom]) -> tuple[int, int]:
        first = self.stepping(index[0])
        if first is None:
            raise NoLanes
        total, grows = first
        for d, i in zip(shape[1:], index[1:], strict=True):
            part = self.stepping(i)
            if part is None or (grows and type(d) is not int):
                raise NoLanes
            grows = (grows * d if grows else 0) + part[1]  # type: ignore[operator]
            size = self.number(d) if type(d) is int else self.at(d)  # type: ignore[arg-type]
            at = self.slot()
            self.stencil(("fma", "i64", 1), total, size, part[0], at)
            total = at
        return total, grows

    def load(self, s: Load) -> None:
        dtype = s.buf.dtype
        mask, other = s.mask, s.other
        if mask is not None and other is None:
            other = Const(False if dtype == "bool" else 0.0 if dtype in FLOATS else 0, dtype)
        key, places, wide = self.places(s.buf, s.index, "load", "gather")
        if not wide:
            if mask is None:
                self.stencil((key, dtype, 1, False), *places, self.new(s.out))
                return
            more = self.at(mask), self.at(other)  # type: ignore[arg-type]
            self.stencil((key, dtype, 1, True), *places, *more, self.new(s.out))
            return
        more = () if mask is None else (self.lanes(mask), self.lanes(other))  # type: ignore
        self.stencil((key, dtype, self.n, bool(more)), *places, *more, self.new_wide(s.out))

    def places(
        self, buf: Buf, index: Sequence[Atom], near: str, far: str
    ) -> tuple[str, tuple[int, ...], bool]:
        """Which stencils take the elements at an index, `near` or `far`; what these need to know
        of where; and whether each lane has one of its own."""
        base = self.buffers[buf]
        if self.n > 1 and len(index) == 1 and index[0] in self.wide:
            return far, (base, self.number(0), self.wide[index[0]]), True  # type: ignore[index]
        place, grows = self.offset(buf, index)
        if grows in (0, 1):
            return near, (base, place), grows == 1
        return far, (base, place, self.steps_of(grows)), True

    def store(self, s: Store) -> None:
        dtype = s.buf.dtype
        key, places, wide = self.places(s.buf, s.index, "store", "scatter")
        if self.n > 1:
            if not wide:
                raise NoLanes
            mask = () if s.mask is None else (self.lanes(s.mask),)
            value = self.lanes(s.value)
            self.dying = self.last_reads((s.value,), (value,))
            self.stencil((key, dtype, self.n, bool(mask)), *places, *mask, value)
            return
        value = self.at(s.value)
        self.dying = self.last_reads((s.value,), (value,))
        self.store_one(dtype, places[0], places[1], value, s.mask)

    def store_one(self, dtype: str, base: int, place: int, value: int, mask: Atom | None) -> None:
        if mask is None:
            self.stencil(("store", dtype, 1, False), base, place, value)
            return
        key = ("store", dtype, 1, True)
        self.stencil(key, base, place, self.at(mask), value, self.slot())

    def update(self, s: Update) -> None:
        if self.n > 1:
            raise NoLanes
        dtype = s.buf.dtype
        base, (place, _) = self.buffers[s.buf], self.offset(s.buf, s.index)
        value, old = self.at(s.value), self.slot()
        if s.mask is None:
            self.stencil(("load", dtype, 1, False), base, place, old)
        else:
            self.stencil(("load", dtype, 1, True), base, place, self.at(s.mask), value, old)
        if isinstance(s.combine, str):
            new = self.slot()
            self.operate((s.combine, dtype, 1), old, value, new)
        else:
            (new,) = self.combine(s.combine, [dtype], [old], [value])
        self.store_one(dtype, base, place, new, s.mask)

    def combine(
        self, how: Any, dtypes: Sequence[str], old: Sequence[int], new: Sequence[int]
    ) -> list[int]:
        """The places of what a combiner gives."""
        if isinstance(how, Region):
            places = self.wide if self.n > 1 else self.where
            for p, at in zip(how.params, (*old, *new), strict=True):
                self.where.pop(p, None)
                places[p] = at
            self.block(how.body)
            return [self.value(y) for y in how.yields]
        out = []
        for op, dtype, x, y in zip(how, dtypes, old, new, strict=True):
            at = self.slot(self.size(dtype))
            self.operate((op, dtype, self.n), x, y, at)
            out.append(at)
        return out

    # ---- branches, scratch, calls

    def branch(self, s: If) -> None:
        if self.n > 1:
            raise NoLanes
        outs = [self.new(o) for o in s.outs]
        other, done = self.label(), self.label()
        self.on(b"\x80\xbf", self.at(s.pred))
        self.code += b"\0"
        self.jump(ZERO, other)
        with self.nested(), self.repeated(_taken(s.then, s.orelse)):
            self.block(s.then)
            for at, y in zip(outs, s.then_yields, strict=True):
                self.copy(self.at(y), at)
        if s.orelse or s.outs:
            self.jump(JUMP, done)
        self.mark(other)
        with self.nested(), self.repeated(_taken(s.orelse, s.then)):
            self.block(s.orelse)
            for at, y in zip(outs, s.else_yields, strict=True):
                self.copy(self.at(y), at)
        self.mark(done)

    def alloc(self, s: Alloc) -> None:
        buf = s.buf
        if buf.dtype not in HELD:
            raise Refused
        known, size = storage_bytes(buf.dtype), -1
        for d in buf.shape:
            if type(d) is int:
                known *= d
        for d in buf.shape:
            if not isinstance(d, int):
                at = self.slot()
                before = self.number(known) if size < 0 else size
                self.stencil(("mul", "i64", 1), before, self.at(d), at)
                size = at
        pointer = self.buffers[buf] = self.slot()
        if size < 0 and self.scratch + known <= STACK_LIMIT:
            self.placed.append((pointer, self.scratch))
            self.scratch += -(-max(64, known) // 64) * 64
            self.block(s.body)
            return
        size = self.number(known) if size < 0 else size
        self.take(pointer, size)
        heap, self.heap = self.heap, (*self.heap, (pointer, self.taken[pointer]))
        self.block(s.body)
        self.heap = heap
        self.free(pointer, self.taken[pointer])

    def take(self, pointer: int, size: int) -> None:
        """Scratch from the context, and some bytes after it, the last of which is touched."""
        at = self.taken[pointer] = self.slot()
        self.on(LOAD, size)
        self.code += ADD_LITERAL + word(PAST_END)
        self.on(STORE, at)
        self.code += b"\x48\x8b\x07\x48\x8b\x00"  # rax = the context's first function
        self.on(b"\x48\x8b\xbf", at)
        self.code += CALL_ALIGNED + FRAME_AGAIN
        self.on(STORE, pointer)
        self.code += b"\x48\x85\xc0"
        self.jump(ZERO, self.exit(2, None))
        self.on(ADD, at)
        self.code += b"\xc6\x40\xff\x00"  # byte [rax - 1] = 0

    def free(self, pointer: int, size: int) -> None:
        self.code += b"\x48\x8b\x07\x48\x8b\x40\x08"
        self.on(b"\x48\x8b\xb7", size)
        self.on(b"\x48\x8b\xbf", pointer)
        self.code += CALL_ALIGNED + FRAME_AGAIN

    def exit(self, code: int, equation: int | None) -> int:
        """The label of a way out after an error."""
        key = code, equation, self.heap
        if key not in self.exits:
            self.exits[key] = self.label()
        return self.exits[key]

    def turn(self, s: Turn) -> None:
        turned, (x, y) = self.at(s.turned), (self.buffers[b] for b in s.bufs)
        places = self.slot(), self.slot()
        self.stencil(("select", "i64", 1), turned, y, x, places[0])
        self.stencil(("select", "i64", 1), turned, x, y, places[1])
        self.buffers.update(zip(s.outs, places, strict=True))

    def call(self, s: Call) -> None:
        attrs = dict(s.attrs)
        if s.name == "prefetch":
            return
        code, equation = int(attrs.get("code", 4)), attrs.get("equation")
        if s.name == "raise_if":
            self.on(b"\x80\xbf", self.at(s.args[0]))  # type: ignore[arg-type]
            self.code += b"\0"
            self.jump(NOT_ZERO, self.exit(code, equation))
            return
        if self.n > 1:
            raise Refused
        if "fortran" in attrs:
            library_call(self, s, str(attrs["fortran"]))
            return
        places = [self.argument(a) for a in s.args]
        if is_tile(s.name) and (width := panel_width(s.name)):
            places.append(self.number(width))
        for out in s.outs:
            if out.dtype == "bool":
                raise Refused
            at, address = self.new(out), self.slot()
            self.on(ADDRESS, at)
            self.on(STORE, address)
            places.append(address)
        self.function(s.name, places)
        self.code += b"\x85\xc0"
        self.jump(NOT_ZERO, self.exit(code, equation))

    def argument(self, a: Any) -> int:
        if isinstance(a, Buf):
            return self.buffers[a]
        if a.dtype == "i64":
            return self.at(a)
        if a.dtype in FLOATS or a.dtype == "bool" or a.dtype not in HELD:
            raise Refused
        wide = "i64" if a.dtype in SIGNED else "u64"
        if a.dtype == wide:
            return self.at(a)
        at = self.slot()
        self.stencil(("convert", a.dtype, 1, wide), self.at(a), at)
        return at

    def function(self, name: str, places: Sequence[int]) -> None:
        """Calls a function of the context's table."""
        more = places[len(ARGUMENTS) :]
        room = -(-8 * len(more) // 16) * 16 + 8
        self.code += b"\x48\x81\xec" + word(room)
        for k, at in enumerate(more):
            self.on(LOAD, at)
            self.on(b"\x48\x89\x84\x24", 8 * k)
        for register, at in zip(ARGUMENTS, places):
            self.on(register, at)
        self.code += b"\xc5\xf8\x77\x48\x8b\x3f"  # vzeroupper; rdi = context
        self.on(LOAD, TABLE)
        self.on(b"\xff\x90", function_offset(name))
        self.code += b"\x48\x81\xc4" + word(room)
        self.code += FRAME_AGAIN


def _taken(side: Sequence[Stmt], other: Sequence[Stmt]) -> float:
    """How often a side of a branch is taken."""
    return RARELY if not other and has(side, For) else TAKEN


def _held(dtype: str) -> str:
    """The type that values of a dtype have in the frame."""
    return "f32" if dtype in NARROW else dtype


def _key(s: Let, dtype: str, n: int) -> Key:
    return (s.op, dtype, n, *(v for _, v in s.attrs)) if s.attrs else (s.op, dtype, n)


def _refuse(_: Statements, s: Stmt) -> None:
    raise Refused


class _Rules(dict[type, Callable[[Statements, Any], None]]):
    def __missing__(self, kind: type) -> Callable[[Statements, Any], None]:
        return _refuse


_RULES = _Rules({
    Let: Statements.let, Load: Statements.load, Store: Statements.store,
    Update: Statements.update,
    For: lambda e, s: e.loops(s), While: lambda e, s: e.unknown(s),
    If: Statements.branch, Alloc: Statements.alloc,
    Turn: Statements.turn, Call: Statements.call,
})  # fmt: skip
