"""Loop IR -> machine code without LLVM: stencils (stencils.py) one after the other, the places of
their operands filled in. The first code of kernels that have little to do.

Every value has a place in a frame on the stack, no register holds anything between two stencils but
the frame's address (rdi). Bits are those of all other code: stencils are the
emitter's own operators, and loops combine in the order of docs/contract.md. What is not covered is
refused, before anything is kept: LLVM's quick path takes the kernel.

Vector loops run in lanes where all of their statements have stencils for lanes: full vectors first,
what is left one by one. Values are `wide` then, or `steps` (an index that grows from lane to lane),
or the same in all lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.backends.llvm.analysis import data_bytes, has, trip, widenable
from pullback.backends.llvm.emit_loops import UNPOLLED
from pullback.backends.llvm.emit_reduce import (
    ACCUMULATORS,
    BLOCK,
    as_serial,
    ordered_lanes,
    vector_body,
)  # fmt: skip
from pullback.backends.llvm.loader import Image
from pullback.backends.llvm.patch_code import (
    ADD,
    ADD_LITERAL,
    ADDRESS,
    COMPARE,
    GREATER,
    IF_GREATER,
    JUMP,
    LESS,
    LOAD,
    NOT_GREATER,
    NOT_LESS,
    NOT_ZERO,
    STORE,
    SUB,
    Refused,
    word,
)  # fmt: skip
from pullback.backends.llvm.patch_registers import NOTHING_HELD
from pullback.backends.llvm.patch_while import STENCIL, Whiles
from pullback.backends.llvm.stencil_text import NARROW, slot_bytes
from pullback.backends.llvm.stencils import Stencils
from pullback.backends.llvm.strides import is_unit
from pullback.backends.llvm.table import CANCEL
from pullback.backends.llvm.target import Target
from pullback.loops.ir import (
    Atom,
    Buf,
    Carry,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Stmt,
    Update,
)  # fmt: skip
from pullback.loops.ops import FLOATS, identity_of, storage_bytes

__all__ = ["patched"]


def patched(
    kernel: Kernel,
    target: Target,
    stencils: Stencils,
    shared: bool = False,
    dims: Sequence[int] = (),
    patience: float = math.inf,
    sharing: int = 1,
) -> Image | None:
    """A kernel's first code, for several threads if it is `shared`, `sharing` of which are there;
    None if it has something that is not covered, or if a run, with these `dims`, would take more
    than so many seconds."""
    try:
        loops = _Loops(kernel, target, stencils, dims)
        loops.shared, loops.sharing, loops.patience = shared, sharing, patience
        return loops.image()
    except Refused:
        return None


# rax = context, then the address of its cancel word; is that zero?
CANCELLED = b"\x48\x8b\x07\x48\x8b\x40" + bytes([CANCEL]) + b"\x83\x38\x00"


class _Loops(Whiles):
    """The function of a kernel, with its loops."""

    def loop(
        self, index: int, lo: Atom | int, hi: int, step: Atom | int, body: Callable[[], None],
        times: float, sure: bool = False,
    ) -> None:  # fmt: skip
        """`body` for the number at the place `index` from lo on, while it is below what the place
        `hi` has (above, if the step is negative): so many `times`, roughly."""
        self.copy(lo if isinstance(lo, int) else self.at(lo), index)
        start, done = self.label(), self.label()
        known = step if isinstance(step, int) else step.value if type(step) is Const else None
        if known == 0 or (known is not None and abs(int(known)) >= 1 << 31):
            raise Refused
        if not sure:
            self.goes_on(known, step, index, hi, start, done, False)
        self.mark(start)
        with self.nested(), self.repeated(times):
            body()
            self.executed += self.times
        self.on(LOAD, index)
        if known is None:
            self.on(ADD, self.at(step))  # type: ignore[arg-type]
        else:
            self.code += ADD_LITERAL + word(int(known))
        self.on(STORE, index)
        self.goes_on(known, step, index, hi, start, done, True)
        self.mark(done)

    def goes_on(
        self, known: Any, step: Any, index: int, hi: int, start: int, done: int, back: bool
    ) -> None:
        """Jumps to one of two labels, the first of which follows if this is not the way back; rax
        has the index."""
        if known is not None:
            self.on(COMPARE, hi)
            down = known < 0
            if back:
                self.jump(GREATER if down else LESS, start)
            else:
                self.jump(NOT_GREATER if down else NOT_LESS, done)
            return
        falling = self.label()
        self.on(b"\x48\x83\xbf", self.at(step))  # is the step positive?
        self.code += b"\0"
        self.jump(NOT_GREATER, falling)
        self.on(COMPARE, hi)
        self.jump(LESS, start)
        self.jump(JUMP, done)
        self.mark(falling)
        self.on(COMPARE, hi)
        self.jump(GREATER, start)
        self.jump(JUMP, done)

    def loops(self, s: For) -> None:
        """A loop of any kind."""
        self.loop_of_kind(s)
        if self.executed * STENCIL > self.patience:
            raise Refused

    def loop_of_kind(self, s: For) -> None:
        kind = s.kind
        if kind == "vector" and self.n == 1 and not self.in_lanes:
            if not self.vector(s):
                with self.one_by_one():
                    self.serial(s)
        elif kind == "reduce":
            in_blocks = self.n == 1 and not self.in_lanes and is_unit(s) and vector_body(s)
            (self.reduce if in_blocks else self.reduce_in_order)(s)
        elif kind == "scan":
            self.scan(s)
        elif self.is_shared(s):
            self.parallel(s)
        else:
            self.serial(s)

    @contextmanager
    def one_by_one(self) -> Iterator[None]:
        """Iterations of a loop in lanes that run one after the other."""
        self.in_lanes, before = True, self.in_lanes
        yield
        self.in_lanes = before

    def poll(self) -> None:
        """Leaves when the context's cancel word is set."""
        self.code += CANCELLED
        self.jump(NOT_ZERO, self.exit(1, None))

    def index_of(self, s: For) -> int:
        """The place of a loop's index."""
        if s.index.dtype != "i64":
            raise Refused
        return self.new(s.index)

    def begin_carries(self, carry: Sequence[Carry], inits: Sequence[int]) -> list[int]:
        """Places for what a loop carries, with what it begins with."""
        places = []
        for c, init in zip(carry, inits, strict=True):
            at = self.new_wide(c.var) if self.n > 1 else self.new(c.var)
            self.copy(init, at, self.size(c.var.dtype))
            places.append(at)
        return places

    def carry_on(self, carry: Sequence[Carry], places: Sequence[int], new: Sequence[int]) -> None:
        """The next values take their places: by way of others where one is read after it is
        written."""
        later = []
        for k, (c, at, value) in enumerate(zip(carry, places, new, strict=True)):
            size = self.size(c.var.dtype)
            if value == at:
                continue
            if at in new[k + 1 :]:
                other = self.slot(size)
                self.copy(value, other, size)
                later.append((other, at, size))
            else:
                self.copy(value, at, size)
        for other, at, size in later:
            self.copy(other, at, size)

    def end_carries(self, carry: Sequence[Carry], places: Sequence[int]) -> None:
        for c, at in zip(carry, places, strict=True):
            (self.wide if self.n > 1 else self.where)[c.out] = at
            if self.n > 1:
                self.where.pop(c.out, None)

    def serial(self, s: For) -> None:
        """One iteration after the other."""
        inits = [self.value(c.init) for c in s.carry]
        places = self.begin_carries(s.carry, inits)
        count = trip(s.lo, s.hi, s.step)
        may_be_long = self.n == 1 and not self.in_lanes and (count is None or count > UNPOLLED)

        def body() -> None:
            if may_be_long:
                self.poll()
            self.block(s.body)
            self.carry_on(s.carry, places, [self.value(y) for y in s.yields])

        sure = bool(trip(s.lo, s.hi, s.step))
        times = self.trips.between(s.lo, s.hi, s.step)
        self.loop(self.index_of(s), s.lo, self.at(s.hi), s.step, body, times, sure)
        self.end_carries(s.carry, places)

    def reduce_in_order(self, s: For) -> None:
        """One accumulator an element, in index order within blocks of 4096."""
        how, carry = s.combine, s.carry
        if isinstance(how, Region) or how is None:
            self.serial(as_serial(s))
            return
        types = [c.var.dtype for c in carry]
        inits = [self.value(c.init) for c in carry]
        free = all(t not in FLOATS or op in ("max", "min") for t, op in zip(types, how))
        n, index, hi = trip(s.lo, s.hi, s.step), self.index_of(s), self.at(s.hi)
        outer, times = inits if free else self.zeros(s), self.trips.between(s.lo, s.hi, s.step)
        places = self.begin_carries(carry, outer)

        def body() -> None:
            self.block(s.body)
            new = self.combine(how, types, places, [self.value(y) for y in s.yields])
            self.carry_on(carry, places, new)

        if free:
            self.loop(index, s.lo, hi, s.step, body, times, bool(n))
            self.end_carries(carry, places)
            return
        if n is not None and n <= BLOCK:
            self.loop(index, s.lo, hi, s.step, body, times, bool(n))
            outs = self.combine(how, types, inits, places)
            self.end_carries(carry, outs)
            return
        if type(s.step) is not Const or s.step.value <= 0:
            raise Refused
        stride = int(s.step.value) * BLOCK
        totals = [self.slot(self.size(t)) for t in types]
        for t, at, init in zip(types, totals, inits, strict=True):
            self.copy(init, at, self.size(t))
        zeros = outer

        def block() -> None:
            if self.n == 1:
                self.poll()
            for t, at, zero in zip(types, places, zeros, strict=True):
                self.copy(zero, at, self.size(t))
            last = self.least(first, stride, hi)
            self.loop(index, first, last, s.step, body, min(times, BLOCK), True)
            self.carry_on(carry, totals, self.combine(how, types, totals, places))

        first = self.slot()
        self.loop(first, s.lo, hi, stride, block, max(1.0, times / BLOCK), bool(n))
        self.end_carries(carry, totals)

    def zeros(self, s: For) -> list[int]:
        """The neutral elements of a combination."""
        assert isinstance(s.combine, tuple)
        found = []
        for op, c in zip(s.combine, s.carry, strict=True):
            zero = identity_of(op, c.var.dtype)
            at = self.const(zero)
            found.append(at if self.n == 1 else self.spread_out(at, c.var.dtype, True))
        return found

    def least(self, first: int, more: int, hi: int) -> int:
        """The place of the smaller of two: what one place has and so much more, or another."""
        at = self.slot()
        self.on(LOAD, first)
        self.code += ADD_LITERAL + word(more)
        self.on(COMPARE, hi)
        self.on(IF_GREATER, hi)
        self.on(STORE, at)
        return at

    # ---- lanes

    def lane_count(self, s: For) -> int:
        n = self.target.lanes(data_bytes(s.body, s.carry))
        return n if n * 8 in (self.target.vector_bytes, 2 * self.target.vector_bytes) else 0

    @contextmanager
    def in_vectors(self, n: int) -> Iterator[None]:
        """What is written stands for n iterations."""
        self.n, self.spread, self.before, self.inside = n, {}, [], set()
        offsets, self.offsets = self.offsets, {}
        try:
            yield
        finally:
            self.offsets = offsets
            self.n = 1
            self.wide.clear()
            self.steps.clear()

    def vectors(
        self, s: For, n: int, index: int, lo: int, hi: int, times: float,
        each: Callable[[], None], body: Sequence[Stmt] | None = None,
    ) -> bool:  # fmt: skip
        """The full vectors of a loop of so many iterations from the place `index` on, its body or a
        part of that, and `each`; afterwards the place has where the rest begins. False if there is
        something without lanes."""
        state = len(self.code), len(self.labels), len(self.jumps), len(self.literals)
        executed, around = self.executed, self.times
        prepare, start, done, end = self.label(), self.label(), self.label(), self.slot()
        self.on(LOAD, hi)
        self.code += ADD_LITERAL + word(1 - n)
        self.on(STORE, end)
        self.copy(lo, index)
        self.on(COMPARE, end)
        self.jump(NOT_LESS, done)
        self.jump(JUMP, prepare)
        self.mark(start)
        try:
            with self.in_vectors(n), self.repeated(times // n):
                self.steps[s.index] = index, 1
                self.where.pop(s.index, None)
                self.block(s.body if body is None else body)
                each()
                self.on(LOAD, index)
                self.code += ADD_LITERAL + word(n)
                self.on(STORE, index)
                self.on(COMPARE, end)
                self.jump(LESS, start)
                self.jump(JUMP, done)
                before = self.before
        except Refused:
            del self.code[state[0] :], self.labels[state[1] :], self.jumps[state[2] :]
            del self.literals[state[3] :]
            self.executed, self.times, self.held = executed, around, NOTHING_HELD
            return False
        self.mark(prepare)
        for key, source, at in before:
            self.stencil(key, source, at)
        self.jump(JUMP, start)
        self.mark(done)
        return True

    def vector(self, s: For) -> bool:
        """A vector loop in lanes, if it can be."""
        if is_unit(s) and self.updates(s):
            return True
        if not is_unit(s) or not widenable(s.body) or has(s.body, Update, If):
            return False
        if s.index.dtype != "i64":
            raise Refused
        n, count = self.lane_count(s), trip(s.lo, s.hi, s.step)
        if count is not None and count < n and self.stencils.has(("add", "f32", n // 2)):
            n //= 2  # numbers of four bytes beside places: half of a register
        if not n or (count is not None and count < n):
            return False
        index, lo, hi = self.slot(), self.at(s.lo), self.at(s.hi)
        times = self.trips.between(s.lo, s.hi, s.step)
        if not self.vectors(s, n, index, lo, hi, times, lambda: None):
            return False
        if count is None or count % n:
            self.where[s.index] = index
            self.rest(s, index, hi, times % n, lambda: None)
        return True

    def updates(self, s: For) -> bool:
        """A loop that does nothing but update elements at places of an array, by those of another,
        as one stencil."""
        last = s.body[-1] if s.body else None
        wide: dict[Any, Any] = {
            x.out: x.args[0] for x in s.body if type(x) is Let and x.op == "convert"
        }
        loads: dict[Any, Buf] = {
            x.out: x.buf
            for x in s.body
            if type(x) is Load and x.index == (s.index,) and x.mask is None
        }
        known = len(loads) + len(wide) + 1 == len(s.body)
        if not known or type(last) is not Update or last.mask is not None or len(last.index) != 1:
            return False
        place = wide.get(last.index[0], last.index[0])
        if place not in loads or last.value not in loads:
            return False
        places, numbers = loads[place], loads[last.value]
        key = ("updates", last.buf.dtype, last.combine, places.dtype)
        if not isinstance(last.combine, str) or key not in self.stencils:
            return False
        bases = (self.buffers[x] for x in (places, numbers, last.buf))
        with self.repeated(self.trips.between(s.lo, s.hi, s.step)):
            self.stencil(key, *bases, self.at(s.lo), self.at(s.hi))
        return True

    def rest(self, s: For, index: int, hi: int, times: float, each: Callable[[], None]) -> None:
        """What fills no vector, one by one."""

        def body() -> None:
            self.block(s.body)
            each()

        with self.one_by_one():
            self.loop(index, index, hi, 1, body, times)

    def reduce(self, s: For) -> None:
        """Blocks, accumulators and lanes of the contract."""
        assert isinstance(s.combine, tuple)
        types = [c.var.dtype for c in s.carry]
        if any(t in NARROW for t in types):
            raise Refused
        inits, lo, hi = [self.at(c.init) for c in s.carry], self.at(s.lo), self.at(s.hi)
        n, times = trip(s.lo, s.hi, s.step), self.trips.between(s.lo, s.hi, s.step)
        if n is not None and n <= BLOCK:
            outs = self.combine(s.combine, types, inits, self.reduce_block(s, lo, hi, times))
            self.end_carries(s.carry, outs)
            return
        totals, first = [self.slot() for _ in types], self.slot()
        for at, init in zip(totals, inits, strict=True):
            self.copy(init, at)

        def block() -> None:
            self.poll()
            last = self.least(first, BLOCK, hi)
            parts = self.reduce_block(s, first, last, min(times, BLOCK))
            self.carry_on(s.carry, totals, self.combine(s.combine, types, totals, parts))

        self.loop(first, s.lo, hi, BLOCK, block, max(1.0, times / BLOCK), bool(n))
        self.end_carries(s.carry, totals)

    def reduce_block(self, s: For, lo: int, hi: int, times: float) -> list[int]:
        """One block of so many elements: four accumulators of lanes in memory, full vectors onto
        them, then what is left, element by element; at last they are folded."""
        assert isinstance(s.combine, tuple)
        how = s.combine
        n = ordered_lanes(self.target, s) or min(64, self.target.lanes(data_bytes(s.body, s.carry)))
        types = [c.var.dtype for c in s.carry]
        sizes = [storage_bytes(t) for t in types]
        areas = [self.slot(ACCUMULATORS * n * size) for size in sizes]
        bases, at, index = [self.slot() for _ in types], self.slot(), self.index_of(s)
        vectors = all(
            t == "bool" or slot_bytes(t, n, self.target) == n * size
            for t, size in zip(types, sizes)
        )
        for t, size, area, base, zero in zip(
            types, sizes, areas, bases, self.zeros(s), strict=True
        ):
            self.fill(t, n, area, size, zero)
            self.on(ADDRESS, area)
            self.on(STORE, base)

        def place() -> None:
            self.on(LOAD, index)
            self.on(SUB, lo)
            self.code += b"\x48\x25" + word(ACCUMULATORS * n - 1)
            self.on(STORE, at)

        def each() -> None:
            place()
            wide = [self.value(y) for y in s.yields]
            old = [self.slot(self.size(t)) for t in types]
            for t, base, x in zip(types, bases, old, strict=True):
                self.stencil(("load", t, self.n, False), base, at, x)
            for t, base, x in zip(types, bases, self.combine(how, types, old, wide), strict=True):
                self.stencil(("store", t, self.n, False), base, at, x)

        count = trip(s.lo, s.hi, s.step)
        lanes = vectors and (count is None or count >= n) and not has(s.body, If)
        lanes = lanes and self.vectors(s, n, index, lo, hi, times, each)
        if not lanes:
            self.copy(lo, index)
        if not lanes or count is None or count % n:
            self.where[s.index] = index
            self.rest(s, index, hi, times % n if lanes else times, each)
        return self.fold(how, types, areas, sizes, n)

    def fill(self, dtype: str, n: int, area: int, size: int, zero: int) -> None:
        """A neutral element for all accumulators."""
        count = ACCUMULATORS * n
        if dtype == "bool" and count % 8 == 0:  # eight truth values a word, from a known one
            known = next(raw for (t, raw), at in self.consts.items() if t == dtype and at == zero)
            for k in range(0, count, 8):
                self.store_literal(int.from_bytes(known[:1] * 8, "little"), area + k)
            return
        key = ("splat", dtype, n)
        if key in self.stencils and slot_bytes(dtype, n, self.target) == n * size:
            self.stencil(key, zero, area)
            for k in range(1, ACCUMULATORS):
                self.copy(area, area + k * n * size, n * size)
            return
        base, last, k = self.slot(), self.number(count), self.slot()
        self.on(ADDRESS, area)
        self.on(STORE, base)
        put = lambda: self.stencil(("store", dtype, 1, False), base, k, zero)
        self.loop(k, self.number(0), last, 1, put, ACCUMULATORS * n, True)

    def fold(
        self, how: Sequence[str], types: Sequence[str], areas: Sequence[int], sizes: Sequence[int],
        n: int,
    ) -> list[int]:  # fmt: skip
        """(0 + 1) + (2 + 3), then lanes by halving."""
        out = []
        for op, t, area, size in zip(how, types, areas, sizes, strict=True):
            if t == "bool" and op in ("or", "and"):
                out.append(self.fold_bytes(op, area, ACCUMULATORS * n))
                continue
            whole = (op, t, n) in self.stencils and slot_bytes(t, n, self.target) == n * size
            for to, other in ((0, 1), (2, 3), (0, 2)):
                x, y = area + to * n * size, area + other * n * size
                if whole:
                    self.stencil((op, t, n), x, y, x)
                    continue
                for k in range(n):
                    self.stencil((op, t, 1), x + k * size, y + k * size, x + k * size)
            half = n
            while half > 1:
                half //= 2
                for k in range(half):
                    x = area + k * size
                    self.stencil((op, t, 1), x, x + half * size, x)
            at = self.slot()
            self.copy(area, at)
            out.append(at)
        return out

    def fold_bytes(self, op: str, area: int, count: int) -> int:
        """Truth values, a byte each: halves of them at once, as integers whose stencils are usual.
        In which order is all the same."""
        while count > 1:
            count //= 2
            width = 8 if count >= 8 else 4 if count >= 4 else 1
            for k in range(0, count, width):
                x = area + k
                self.stencil((op, f"i{8 * width}" if width > 1 else "bool", 1), x, x + count, x)
        at = self.slot()
        self.copy(area, at)
        return at
