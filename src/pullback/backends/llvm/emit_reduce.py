"""Loops that combine.

`reduce` loops have the shape that docs/contract.md fixes: blocks of 4096, four accumulators of W
lanes, pairwise, halving.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from pullback.backends.llvm.analysis import body_cost, free_names, has, trip
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.convert import literal, register_type
from pullback.backends.llvm.emit import Emitter
from pullback.backends.llvm.emit_loops import (
    Loops,
    lane_count,
    maskable,
    tail_mask,
)
from pullback.backends.llvm.literals import BITS as TYPE_BITS, FLOATS as FLOAT_TYPES
from pullback.backends.llvm.strides import is_unit, lane_by_lane, lanes_apart
from pullback.backends.llvm.target import Target
from pullback.loops.ir import (
    Alloc,
    Call,
    Carry,
    Const,
    For,
    Let,
    Load,
    Region,
    Stmt,
    Update,
    Var,
    While,
)
from pullback.loops.ops import FLOATS, INTS, identity_of

__all__ = [
    "ACCUMULATORS", "BLOCK", "Reductions", "as_serial", "in_any_order", "ordered_lanes",
    "vector_body",
]  # fmt: skip

BLOCK = 4096
ACCUMULATORS = 4
MUCH = 10.0  # scalar operations of an element: of less, memory takes the time, and is asked ahead
VERY_MUCH = 100.0  # of which a masked copy would be much code: the rest goes through memory


class Reductions(Loops):
    """The rules of loops that combine."""

    # ---- reductions

    def reduce_in_order(self, e: Emitter, s: For) -> None:
        """One accumulator an element, in index order within blocks of 4096."""
        how, zero = s.combine, self.identities(e, s)
        e.hot = True
        bounds = [e.scalar_index(a) for a in (s.lo, s.hi, s.step)]
        e.module.straight = False
        if zero is None or any(v is None for v in bounds):
            self.serial(e, as_serial(s))
            return
        lo, hi, step = (v for v in bounds if v is not None)
        inits = [e.full(e.val(c.init)) for c in s.carry]

        def body(i: Val, carries: list[Val]) -> list[Val]:
            e.env[s.index] = e.b.cast("trunc", i, register_type(s.index.dtype))
            e.bind_carries(s.carry, carries)
            e.statements(s.body)
            return self.merge(e, s, carries, self.yielded(e, s.yields))

        def block(first: Val, carries: list[Val]) -> list[Val]:
            if e.lanes == 1:
                e.poll()
            last = e.b.call("smin", first + step * BLOCK, hi)
            inside = e.b.loop(first, last, step, [e.full(z) for z in zero], body)
            return self.merge(e, s, carries, inside)

        e.depth += 1
        n = trip(s.lo, s.hi, s.step)
        if not isinstance(how, Region) and all(
            c.var.dtype not in FLOATS or h in ("max", "min")
            for c, h in zip(s.carry, how or (), strict=True)
        ):
            outs = e.b.loop(lo, hi, step, inits, body)
        elif n is not None and n <= BLOCK:
            outs = self.merge(e, s, inits, e.b.loop(lo, hi, step, [e.full(z) for z in zero], body))
        else:
            outs = e.b.loop(lo, hi, step * BLOCK, inits, block)
        e.depth -= 1
        e.bind_results(s.carry, outs)

    def identities(self, e: Emitter, s: For) -> list[Val] | None:
        """The neutral element of each carry; None when the combiner is a region, which has none
        that we know."""
        if s.combine is None or isinstance(s.combine, Region):
            return None
        return [
            literal(e.b, identity_of(op, c.var.dtype))
            for op, c in zip(s.combine, s.carry, strict=True)
        ]

    def merge(self, e: Emitter, s: For, old: list[Val], new: list[Val]) -> list[Val]:
        if isinstance(s.combine, Region):
            return [
                e.full(v) for v in e.combine(s.combine, [c.var.dtype for c in s.carry], old, new)
            ]
        assert s.combine is not None
        return [
            e.combine(op, [c.var.dtype], [x], [y])[0]
            for op, c, x, y in zip(s.combine, s.carry, old, new, strict=True)
        ]

    def reduce(self, e: Emitter, s: For) -> None:
        """Blocks, accumulators and lanes of the contract; a long one at the top of a kernel goes
        over threads."""
        e.module.straight = False
        lo, hi = e.val(s.lo), e.val(s.hi)
        inits = [e.val(c.init) for c in s.carry]
        n = trip(s.lo, s.hi, s.step)
        e.depth += 1
        if n is not None and n <= BLOCK:
            outs = self.merge(e, s, inits, self.reduce_block(e, s, lo, hi))
        else:

            def block(first: Val, carries: list[Val]) -> list[Val]:
                e.poll()
                last = e.b.call("smin", first + BLOCK, hi)
                return self.merge(e, s, carries, self.reduce_block(e, s, first, last))

            if (e.depth == 1 and not e.parallel and n is None) or (n or 0) > 1 << 16:
                outs = self.reduce_threads(e, s, lo, hi, inits)
            else:
                outs = e.b.loop(lo, hi, BLOCK, inits, block)
        e.depth -= 1
        e.bind_results(s.carry, outs)

    def reduce_block(self, e: Emitter, s: For, lo: Val, hi: Val) -> list[Val]:
        """One block: its accumulators' lanes combined."""
        e.hot = True
        bits = self.counted(e, s)
        if bits is not None:
            return [bits]
        zero = self.identities(e, s)
        assert zero is not None
        if e.module.alone and all(z.t != "i1" for z in zero) and e.depth == 1:
            return self.reduce_alone(e, s, lo, hi, zero, _reduce_lanes(e, s))
        accs, lanes = self.accumulators(e, s, lo, hi, zero)
        return self.fold(e, s, accs, lanes)

    def counted(self, e: Emitter, s: For) -> Val | None:
        """How many lanes of a few vectors hold: bits are counted, not ones added up."""
        n, kind = trip(s.lo, s.hi, s.step), s.carry[0].var.dtype
        if n is None or s.combine != ("add",) or kind not in INTS or e.module.alone or e.lanes > 1:
            return None
        ones = [x for x in s.body if isinstance(x, Let) and x.out is s.yields[0]]
        if not ones or ones[0].op != "convert" or ones[0].args[0].dtype != "bool":
            return None
        (one,), carry = ones, s.carry[0]
        held = Carry(carry.out, Var("held", "bool"), Const(False, "bool"))
        body = tuple(x for x in s.body if x is not one)
        flags = For(s.index, s.lo, s.hi, s.step, s.kind, (held,), body, one.args, ("or",))
        lanes = _reduce_lanes(e, flags)
        if not 8 <= lanes <= 64 or n % lanes or n > ACCUMULATORS * lanes:
            return None
        (flag,) = self.vectors(e, flags)
        b, t, total = e.b, f"i{lanes}", e.b.lit(0, register_type(kind))
        for reg in flag.regs:
            count = b.call("ctpop", b.impure(f"bitcast <{lanes} x i1> {reg} to {t}", t))
            size = TYPE_BITS[total.t]
            total += (
                count
                if size == lanes
                else b.cast("zext" if size > lanes else "trunc", count, total.t)
            )
        return total

    def vectors(self, e: Emitter, s: For) -> list[Val]:
        """The elements of a short reduction as vectors, one behind the other."""
        zero = self.identities(e, s)
        assert zero is not None
        return self.reduce_short(e, s, e.val(s.lo), e.val(s.hi), zero, _reduce_lanes(e, s))[0]

    def one_vector(self, e: Emitter, s: For) -> list[Val]:
        """A short reduction up to where the lanes of one vector are left to be combined."""
        zero = self.identities(e, s)
        assert zero is not None
        accs, lanes = self.accumulators(e, s, e.val(s.lo), e.val(s.hi), zero)
        return self.pairwise(e, s, accs, lanes)

    def reduce_rows(self, e: Emitter, s: For, inner: For) -> None:
        """A reduction over several axes whose order does not matter: one set of accumulators for
        all of its rows, combined at the end and not after each row."""
        b, zero = e.b, self.identities(e, inner)
        assert zero is not None
        e.module.straight, e.hot = False, True
        lanes = _reduce_lanes(e, inner)
        start = [Val(b, z.t, lanes, b.spread(z, lanes) * ACCUMULATORS) for z in zero]

        def row(i: Val, accs: list[Val]) -> list[Val]:
            self.enter(e, s, i)
            e.statements(s.body[:-1])
            return self.accumulators(e, inner, e.val(inner.lo), e.val(inner.hi), zero, accs)[0]

        e.depth += 2
        accs = b.loop(e.val(s.lo), e.val(s.hi), e.val(s.step), start, row)
        e.depth -= 2
        inits = [e.val(c.init) for c in s.carry]
        outs = self.merge(e, inner, inits, self.fold(e, inner, accs, lanes))
        e.bind_results(s.carry, outs)

    def accumulators(
        self,
        e: Emitter,
        s: For,
        lo: Val,
        hi: Val,
        zero: list[Val],
        begun: list[Val] | None = None,
    ) -> tuple[list[Val], int]:
        """A loop of four vectors, the rest as four masked ones (or through memory); and how many
        lanes they have. `begun`: what they hold before."""
        b, lanes = e.b, _reduce_lanes(e, s)
        step = lanes * ACCUMULATORS
        storable = all(z.t != "i1" for z in zero)
        masked = maskable(e, s.body) and not (e.module.brief and lane_by_lane(s))
        masked = masked and not lanes_apart(s, e.target)
        short = lo.c is not None and hi.c is not None and 0 < hi.c - lo.c <= 2 * step
        if masked and short and begun is None:
            return self.reduce_short(e, s, lo, hi, zero, lanes)
        if masked and short and begun is not None and 2 * (hi.c - lo.c) > lanes:
            values = self.reduce_short(e, s, lo, hi, zero, lanes)[0]
            return self.onto(e, s, begun, values), lanes
        start = [Val(b, z.t, lanes, b.spread(z, lanes) * ACCUMULATORS) for z in zero]
        start = start if begun is None else begun
        if masked and storable and e.module.brief:
            return self.reduce_in_memory(e, s, lo, hi, start, zero, lanes), lanes
        cost = body_cost(s.body)
        cheap = not e.module.brief and cost < MUCH
        all_masked = masked and not cheap and (e.module.brief or (e.target.masks and not storable))
        middle = hi if all_masked else hi - self.remainder(e, hi - lo, step)

        def part(i: Val, accs: list[Val], mask: bool) -> list[Val]:
            """Four vectors from i on. What is masked adds nothing: the bits are the same."""
            e.lanes, e.width, e.mask = lanes, ACCUMULATORS, None
            if mask:
                e.mask = tail_mask(e, i, hi, lanes, ACCUMULATORS)
            self.bind_lanes(e, s, i)
            e.statements(s.body)
            values = self.yielded(e, s.yields)
            if e.mask is not None:
                values = [b.select(e.mask, v, z) for v, z in zip(values, zero, strict=True)]
            new = self.merge(e, s, accs, values)
            e.lanes, e.width, e.mask = 1, 1, None
            return new

        e.streaming = cheap and not e.ahead
        accs = b.loop(lo, middle, step, start, lambda i, accs: part(i, accs, all_masked))
        e.streaming = False
        if masked and not all_masked and not _whole(lo, hi, step):
            before = accs

            def rest() -> list[Val]:
                if cheap or not storable or (e.target.masks and cost < VERY_MUCH):
                    return part(middle, before, True)
                return self.reduce_in_memory(e, s, middle, hi, before, zero, lanes)

            accs = b.if_else(middle < hi, rest, lambda: before)
        elif not masked:
            accs = self.reduce_rest_alone(e, s, middle, hi, accs, zero, lanes)
        return accs, lanes

    def reduce_short(
        self, e: Emitter, s: For, lo: Val, hi: Val, zero: list[Val], lanes: int
    ) -> tuple[list[Val], int]:
        """A block of a known length that fits into the accumulators, or fills them twice at most,
        as straight code: those that would hold nothing are left out, and so are halves of
        lanes."""
        count = hi.c - lo.c
        while lanes >= 2 * count and lanes > 4:
            lanes //= 2
        width = -(-count // lanes)
        e.lanes, e.width, e.mask = lanes, width, None
        if count % lanes:
            e.mask = tail_mask(e, lo, hi, lanes, width)
        self.bind_lanes(e, s, lo)
        e.statements(s.body)
        values = self.yielded(e, s.yields)
        if e.mask is not None:
            values = [e.b.select(e.mask, v, z) for v, z in zip(values, zero, strict=True)]
        if width > ACCUMULATORS:
            values = self.twice(e, s, values)
        e.lanes, e.width, e.mask = 1, 1, None
        return values, lanes

    def twice(self, e: Emitter, s: For, values: list[Val]) -> list[Val]:
        """Four accumulators, of vectors that come round to some of them once more."""
        first = [Val(e.b, v.t, v.n, v.regs[:ACCUMULATORS]) for v in values]
        more = [Val(e.b, v.t, v.n, v.regs[ACCUMULATORS:]) for v in values]
        return self.onto(e, s, first, more)

    def onto(self, e: Emitter, s: For, accs: list[Val], more: list[Val]) -> list[Val]:
        """Accumulators, and onto the first of them as many vectors as there are."""
        e.lanes, e.width = accs[0].n, len(more[0].regs)
        begun = [Val(e.b, v.t, v.n, v.regs[: e.width]) for v in accs]
        added = self.merge(e, s, begun, more)
        e.lanes, e.width = 1, 1
        return [
            Val(e.b, v.t, v.n, a.regs + v.regs[len(a.regs) :])
            for a, v in zip(added, accs, strict=True)
        ]

    def reduce_in_memory(
        self, e: Emitter, s: For, lo: Val, hi: Val, accs: list[Val], zero: list[Val], lanes: int
    ) -> list[Val]:
        """A block, or the rest of one, as a loop over single vectors, the four accumulators in
        memory: the same bits from a quarter of the text. Quick code keeps nothing in registers
        around a loop anyway."""
        b, step = e.b, lanes * ACCUMULATORS
        sizes = [TYPE_BITS[z.t] // 8 for z in zero]
        slots = [b.alloca(step * size) for size in sizes]

        def place(slot: Val, z: Val, size: int, at: Val | int) -> str:
            return f"ptr {b.gep(slot, at, size).regs[0]}, align {min(lanes * size, 64)}"

        def put(values: list[Val], at: Val | int, which: int = 0) -> None:
            for slot, z, size, v in zip(slots, zero, sizes, values, strict=True):
                raw = b.spread(v, lanes)[which]
                b.line(f"store <{lanes} x {z.t}> {raw}, {place(slot, z, size, at)}")

        def get(at: Val | int) -> list[Val]:
            loads = [
                b.impure_reg(f"load <{lanes} x {z.t}>, {place(slot, z, size, at)}")
                for slot, z, size in zip(slots, zero, sizes, strict=True)
            ]
            return [Val(b, z.t, lanes, (reg,)) for z, reg in zip(zero, loads, strict=True)]

        def part(i: Val, _: list[Val]) -> list[Val]:
            e.lanes, e.width = lanes, 1
            e.mask = tail_mask(e, i, hi, lanes, 1)
            self.bind_lanes(e, s, i)
            e.statements(s.body)
            values = self.yielded(e, s.yields)
            values = [b.select(e.mask, v, z) for v, z in zip(values, zero, strict=True)]
            at = (i - lo) & (step - 1)
            put(self.merge(e, s, get(at), values), at)
            e.lanes, e.width, e.mask = 1, 1, None
            return []

        for k in range(ACCUMULATORS):
            put(accs, k * lanes, k)
        b.loop(lo, hi, lanes, [], part)
        parts = [get(k) for k in range(0, step, lanes)]
        return [Val(b, z.t, lanes, tuple(p[n].regs[0] for p in parts)) for n, z in enumerate(zero)]

    def reduce_alone(
        self, e: Emitter, s: For, lo: Val, hi: Val, zero: list[Val], lanes: int
    ) -> list[Val]:
        """A block one element after the other, what would be the accumulators' lanes in memory: the
        same bits, and no vector in the text."""
        b, step = e.b, lanes * ACCUMULATORS
        sizes = [TYPE_BITS[z.t] // 8 for z in zero]
        slots = [b.alloca(step * size) for size in sizes]

        def put(at: Val, values: list[Val]) -> list[Val]:
            for slot, size, v in zip(slots, sizes, values, strict=True):
                b.store(v, b.gep(slot, at, size))
            return []

        def get(at: Val) -> list[Val]:
            places = [b.gep(slot, at, size) for slot, size in zip(slots, sizes, strict=True)]
            return [b.load(z.t, place) for z, place in zip(zero, places, strict=True)]

        def body(i: Val, _: list[Val]) -> list[Val]:
            e.env[s.index] = b.cast("trunc", i, register_type(s.index.dtype))
            e.in_lanes, before = True, e.in_lanes
            e.statements(s.body)
            e.in_lanes = before
            at = (i - lo) & (step - 1)
            return put(at, self.merge(e, s, get(at), self.yielded(e, s.yields)))

        def onto(count: Val, distance: Val) -> None:
            """The first `count` lanes take what lies a distance behind them."""
            b.loop(
                0, count, 1, [], lambda k, _: put(k, self.merge(e, s, get(k), get(k + distance)))
            )

        def halve(_: Val, carries: list[Val]) -> list[Val]:
            onto(carries[0], carries[0])
            return [carries[0] >> 1]

        b.loop(0, step, 1, [], lambda k, _: put(k, zero))
        b.loop(lo, hi, 1, [], body)
        size = b.lit(lanes, "i64")
        onto(size * (ACCUMULATORS - 1), size)  # 0 + 1, 2 + 3; the second is not looked at again
        onto(size, size * 2)
        b.loop(0, lanes.bit_length() - 1, 1, [size >> 1], halve)
        return get(b.lit(0, "i64"))

    def reduce_rest_alone(
        self, e: Emitter, s: For, lo: Val, hi: Val, accs: list[Val], zero: list[Val], lanes: int
    ) -> list[Val]:
        """The rest one element at a time, into memory laid out like the accumulators."""
        b = e.b
        total = lanes * ACCUMULATORS
        types = [_slot_type(a.t) for a in accs]
        slots = [b.alloca(total * (TYPE_BITS[t] // 8)) for t in types]

        def rest() -> list[Val]:
            for slot, t, z in zip(slots, types, zero, strict=True):
                raw = b.splat(_to_slot(e, z, t), lanes).regs[0]
                step = lanes * (TYPE_BITS[t] // 8)
                for j in range(ACCUMULATORS):
                    at = f"ptr {b.gep(slot, j * step).regs[0]}, align {min(step, 16)}"
                    b.line(f"store <{lanes} x {t}> {raw}, {at}")

            def body(i: Val, _: list[Val]) -> list[Val]:
                e.env[s.index] = b.cast("trunc", i, register_type(s.index.dtype))
                e.in_lanes, before = True, e.in_lanes
                e.statements(s.body)
                e.in_lanes = before
                for slot, t, y in zip(slots, types, s.yields, strict=True):
                    b.store(_to_slot(e, e.val(y), t), b.gep(slot, i - lo, TYPE_BITS[t] // 8))
                return []

            b.loop(lo, hi, 1, [], body)
            loaded = []
            for slot, t, a in zip(slots, types, accs, strict=True):
                regs = []
                step = lanes * (TYPE_BITS[t] // 8)
                for j in range(ACCUMULATORS):
                    at = f"ptr {b.gep(slot, j * step).regs[0]}, align {min(step, 16)}"
                    regs.append(b.impure_reg(f"load <{lanes} x {t}>, {at}"))
                raw_val = Val(b, t, lanes, tuple(regs))
                loaded.append(raw_val.ne(0) if a.t == "i1" else raw_val)
            e.lanes, e.width = lanes, ACCUMULATORS
            merged = self.merge(e, s, accs, loaded)
            e.lanes, e.width = 1, 1
            return merged

        return b.if_else(lo < hi, rest, lambda: accs)

    def pairwise(self, e: Emitter, s: For, accs: list[Val], lanes: int) -> list[Val]:
        """(0+1)+(2+3): one vector."""
        b, width = e.b, len(accs[0].regs)
        parts = [[Val(b, a.t, lanes, (a.regs[j],)) for a in accs] for j in range(width)]
        e.lanes, e.width = lanes, 1
        while len(parts) > 1:
            pairs = [parts[j : j + 2] for j in range(0, len(parts), 2)]
            parts = [self.merge(e, s, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        e.lanes = 1
        return parts[0]

    def fold(self, e: Emitter, s: For, accs: list[Val], lanes: int) -> list[Val]:
        """One vector, whose lanes are combined by halving."""
        b, total = e.b, self.pairwise(e, s, accs, lanes)
        if all(v.t == "i1" for v in total) and _any_or_all(s.combine):
            e.lanes, e.width = 1, 1
            pairs = list(zip(s.combine, total, strict=True))
            some = [b.any_lane(v if op == "or" else ~v) for op, v in pairs]
            return [v if op == "or" else ~v for (op, _), v in zip(pairs, some, strict=True)]
        n = size = lanes  # what is left, in registers of so many lanes: none smaller than x86's
        while n > 1:
            half = n // 2
            same = all(v.t in FLOAT_TYPES and size * TYPE_BITS[v.t] <= 128 for v in total)
            halves = []
            for start in (0, half):
                if same and start == 0:
                    halves.append(total)
                    continue
                lanes_of = range(start, start + (size if same else half))
                picks = ", ".join(f"i32 {min(k, size - 1)}" for k in lanes_of)
                side = []
                for v in total:
                    vt = f"<{size} x {v.t}>"
                    if half == 1 and not same:
                        side.append(Val(b, v.t, 1, (b.extract(v.regs[0], v.t, size, start),)))
                        continue
                    text = (
                        f"shufflevector {vt} {v.regs[0]}, {vt} poison, "
                        f"<{len(lanes_of)} x i32> <{picks}>"
                    )
                    side.append(b.impure(text, v.t, len(lanes_of)))
                halves.append(side)
            size = size if same else half
            e.lanes = size
            total = self.merge(e, s, halves[0], halves[1])
            n = half
        if size > 1:
            total = [Val(b, v.t, 1, (b.extract(v.regs[0], v.t, size, 0),)) for v in total]
        e.lanes, e.width = 1, 1
        return total

    def reduce_threads(self, e: Emitter, s: For, lo: Val, hi: Val, inits: list[Val]) -> list[Val]:
        """Blocks over threads into a scratch row, added up in order afterwards: the bits do not
        depend on the threads."""
        b = e.b
        blocks = b.call("smax", (hi - lo + (BLOCK - 1)) >> 12, 0)
        types = [_slot_type(v.t) for v in inits]
        sizes = [b.call("smax", blocks * (TYPE_BITS[t] // 8), 8) for t in types]
        rows = [e.take(size) for size in sizes]

        def run(inner: Emitter, first: Val, last: Val) -> None:
            ib = inner.b
            start, stop = inner.val(s.lo), inner.val(s.hi)

            def block(k: Val, _: list[Val]) -> list[Val]:
                inner.poll()
                at = start + (k << 12)
                values = self.reduce_block(inner, s, at, ib.call("smin", at + BLOCK, stop))
                for row, t, v in zip(inner.pointers, types, values, strict=True):
                    ib.store(_to_slot(inner, v, t), ib.gep(row, k, TYPE_BITS[t] // 8))
                return []

            inner.depth += 1
            ib.loop(first, last, 1, [], block)
            inner.depth -= 1

        cost = max(1.0, body_cost(s.body)) * BLOCK / max(1, _reduce_lanes(e, s) // 2)
        self.outline(
            e,
            s.body,
            [s.lo, s.hi, *s.yields, *_region_inputs(s)],
            b.lit(0, "i64"),
            blocks,
            cost,
            1,
            run,
            rows,
        )

        def add(k: Val, carries: list[Val]) -> list[Val]:
            new = []
            for row, t, v in zip(rows, types, inits, strict=True):
                raw = b.load(t, b.gep(row, k, TYPE_BITS[t] // 8))
                new.append(raw.ne(0) if v.t == "i1" else raw)
            return self.merge(e, s, carries, new)

        outs = b.loop(0, blocks, 1, inits, add)
        for row, size in zip(reversed(rows), reversed(sizes), strict=True):
            e.release(row, size)
        return outs


# ---- helpers


def _whole(lo: Val, hi: Val, step: int) -> bool:
    """Whether it is known that steps leave no rest."""
    return lo.c is not None and hi.c is not None and (hi.c - lo.c) % step == 0


def _any_or_all(combine: object) -> TypeGuard[tuple[str, ...]]:
    return isinstance(combine, tuple) and set(combine) <= {"or", "and"}


def _region_inputs(s: For) -> list[object]:
    return list(s.combine.yields) if isinstance(s.combine, Region) else []


def _slot_type(t: str) -> str:
    return "i8" if t == "i1" else t


def _to_slot(e: Emitter, v: Val, t: str) -> Val:
    return e.b.cast("zext", v, "i8") if v.t == "i1" else v


def _reduce_lanes(e: Emitter, s: For) -> int:
    return ordered_lanes(e.target, s) or lane_count(e, s)


def ordered_lanes(target: Target, s: For) -> int:
    """W where order matters: fixed by the accumulators, so that fusing more into the loop changes
    nothing. 0 where it does not."""
    assert isinstance(s.combine, tuple)
    ordered = [
        8 if c.var.dtype == "f64" else 4
        for c, op in zip(s.carry, s.combine, strict=True)
        if c.var.dtype in FLOATS and op in ("add", "mul")
    ]
    return target.lanes(max(ordered)) if ordered else 0


def in_any_order(e: Emitter, s: For) -> For | None:
    """The inner loop of a reduction over several axes that may be combined in any order, bit for
    bit, and runs in lanes. None if a loop is not that."""
    inner = s.body[-1] if s.body else None
    if e.lanes > 1 or e.in_lanes or e.module.brief or e.module.alone or not s.carry:
        return None
    if not isinstance(inner, For) or inner.kind != "reduce" or not is_unit(inner):
        return None
    if not all(isinstance(x, (Let, Load)) for x in s.body[:-1]) or not vector_body(inner):
        return None
    if tuple(c.init for c in inner.carry) != tuple(c.var for c in s.carry):
        return None
    if tuple(s.yields) != tuple(c.out for c in inner.carry):
        return None
    variables, _ = free_names([*s.body[:-1], *inner.body])
    if any(c.var in variables for c in s.carry):
        return None
    pairs = zip(inner.carry, inner.combine or (), strict=True)  # type: ignore[arg-type]
    free = all(op in ("max", "min") or c.var.dtype not in FLOATS for c, op in pairs)
    return inner if free and maskable(e, inner.body) and not lane_by_lane(inner) else None


def vector_body(s: For) -> bool:
    """Whether a reduction runs in lanes: named combiners, accumulators of one width, a body without
    loops or effects."""
    if not isinstance(s.combine, tuple) or has(s.body, Call, Alloc, Update, For, While):
        return False
    if any(isinstance(x, Var) and x in {c.var for c in s.carry} for x in _read(s.body)):
        return False
    sizes = {
        8 if c.var.dtype == "f64" else 4
        for c, op in zip(s.carry, s.combine, strict=True)
        if c.var.dtype in FLOATS and op in ("add", "mul")
    }
    return len(sizes) <= 1


def _read(stmts: Sequence[Stmt]) -> list[object]:
    variables, _ = free_names(stmts)
    return list(variables)


def as_serial(s: For) -> For:
    """A reduction as a plain loop over its carries: the combiner is applied by the body."""
    old = tuple(c.var for c in s.carry)
    if isinstance(s.combine, Region):
        r = s.combine
        rename: list[Stmt] = [
            Let(p, "select", (Const(True, "bool"), a, a))
            for p, a in zip(r.params, (*old, *s.yields), strict=True)
        ]
        return For(
            s.index, s.lo, s.hi, s.step, "seq", s.carry, (*s.body, *rename, *r.body), r.yields
        )
    outs = tuple(Var(f"{c.var.name}_next", c.var.dtype) for c in s.carry)
    assert s.combine is not None
    steps = [
        Let(o, op, (c.var, y))
        for o, op, c, y in zip(outs, s.combine, s.carry, s.yields, strict=True)
    ]
    return For(s.index, s.lo, s.hi, s.step, "seq", s.carry, (*s.body, *steps), outs)
