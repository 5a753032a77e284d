"""Loops: serial, in lanes, reductions, scans, loops over threads.

`vector` loops run SIMT style: the body is emitted once with every value standing for `lanes *
width` iterations. Where lanes
can be masked (AVX-512) a straight body is one all-masked loop; otherwise a main loop is followed by
a masked or a scalar
loop for the rest. A loop inside a vector loop keeps one accumulator per lane and adds in index
order, whether its
iteration runs in a lane or alone, so that the place of an element never shows in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pullback.backends.llvm.access import Lin, materialise, scattered_briefly
from pullback.backends.llvm.ahead import rows_ahead
from pullback.backends.llvm.analysis import (
    body_cost,
    data_bytes,
    free_names,
    has,
    integer_chain,
    trip,
    values_alive,
    walk,
    widenable,
)
from pullback.backends.llvm.build import FUNCTION_ATTRIBUTES, Val
from pullback.backends.llvm.byte_tables import tables_of
from pullback.backends.llvm.convert import register_type
from pullback.backends.llvm.emit import Emitter
from pullback.backends.llvm.forwarded import writing_around
from pullback.backends.llvm.strides import (
    is_unit,
    lane_by_lane,
    one_by_one,
    scattered_accesses,
    scattered_inside,
)
from pullback.backends.llvm.table import TABLE, function_offset
from pullback.backends.llvm.target import Target
from pullback.loops.ir import (
    Alloc,
    Atom,
    Call,
    Const,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Update,
    Var,
    While,
)
from pullback.loops.ops import storage_bytes

__all__ = ["UNPOLLED", "Loops", "lane_count", "maskable", "tail_mask", "updates_shared"]

UNPOLLED = 1024  # iterations that need not look whether they are to stop


def check_mask(s: While) -> int:
    """A loop of unknown length looks for signals once in this many iterations, less one."""
    return 0 if has((*s.cond.body, *s.body.body), For, While, Call) else 1023


class Loops:
    """The rules of every loop kind."""

    # ---- one iteration after the other

    def serial(self, e: Emitter, s: For) -> None:
        """seq, and whatever cannot or need not run in lanes."""
        bounds = [e.scalar_index(a) for a in (s.lo, s.hi, s.step)]
        if any(v is None for v in bounds):
            self.divergent_for(e, s)
            return
        lo, hi, step = (v for v in bounds if v is not None)
        e.module.straight, e.hot = False, True

        def body(i: Val, carries: list[Val]) -> list[Val]:
            self.enter(e, s, i)
            e.bind_carries(s.carry, carries)
            e.statements(s.body)
            return self.yielded(e, s.yields)

        inits = [e.full(e.val(c.init)) for c in s.carry]
        with e.scratch_of(s.body), writing_around(e, s.body):
            e.depth += 1
            outs = e.b.loop(lo, hi, step, inits, body)
            e.depth -= 1
        e.bind_results(s.carry, outs)

    def enter(self, e: Emitter, s: For, i: Val) -> None:
        """Binds the index and polls where a loop may run long."""
        e.env[s.index] = e.b.cast("trunc", i, register_type(s.index.dtype))
        n = trip(s.lo, s.hi, s.step)
        if e.lanes == 1 and (n is None or n > UNPOLLED):
            e.poll()

    def yielded(self, e: Emitter, yields: Sequence[object]) -> list[Val]:
        return [e.full(e.val(y)) for y in yields]  # type: ignore[arg-type]

    def unroll(self, e: Emitter, s: For) -> None:
        assert isinstance(s.lo, Const) and isinstance(s.hi, Const) and isinstance(s.step, Const)
        carries = [e.val(c.init) for c in s.carry]
        for i in range(int(s.lo.value), int(s.hi.value), int(s.step.value)):
            e.env[s.index] = e.b.lit(i, register_type(s.index.dtype))
            e.bind_carries(s.carry, carries)
            e.statements(s.body)
            carries = [e.val(y) for y in s.yields]
        e.bind_results(s.carry, carries)

    def emit_while(self, e: Emitter, s: While) -> None:
        e.module.straight, e.hot = False, True
        b = e.b
        inits = [e.full(e.val(c.init)) for c in s.carry]
        if e.lanes > 1:
            self.divergent_while(e, s, inits)
            return

        mask = check_mask(s)

        def cond(state: list[Val]) -> Val:
            e.check(state[0], mask)
            e.env.update(zip(s.cond.params, state[1:], strict=True))
            e.statements(s.cond.body)
            return e.val(s.cond.yields[0])

        def body(state: list[Val]) -> list[Val]:
            carries = state[1:]
            e.env.update(zip(s.body.params, carries, strict=True))
            e.bind_carries(s.carry, carries)
            e.statements(s.body.body)
            return [state[0] + 1, *(e.val(y) for y in s.body.yields)]

        e.depth += 1
        with writing_around(e, s.body.body):
            outs = b.while_loop([b.lit(0, "i64"), *inits], cond, body)[1:]
        e.depth -= 1
        e.bind_results(s.carry, outs)

    def divergent_while(self, e: Emitter, s: While, inits: list[Val]) -> None:
        """Lanes leave one by one; a lane that has left keeps its carries."""
        b, outer = e.b, e.mask
        all_on = e.full(b.lit(True, "i1")) if outer is None else e.full(outer)

        mask = check_mask(s)

        def cond(state: list[Val]) -> Val:
            e.check(state[0], mask)
            return b.any_lane(state[1])

        def test(active: Val, carries: list[Val]) -> Val:
            e.mask = active
            e.env.update(zip(s.cond.params, carries, strict=True))
            e.statements(s.cond.body)
            return active & e.full(e.val(s.cond.yields[0]))

        def body(state: list[Val]) -> list[Val]:
            active, carries = state[1], state[2:]
            e.mask = active
            e.env.update(zip(s.body.params, carries, strict=True))
            e.bind_carries(s.carry, carries)
            e.statements(s.body.body)
            new = [
                b.select(active, e.full(e.val(y)), c)
                for y, c in zip(s.body.yields, carries, strict=True)
            ]
            return [state[0] + 1, test(active, new), *new]

        first = test(all_on, inits)
        outs = b.while_loop([b.lit(0, "i64"), first, *inits], cond, body)[2:]
        e.mask = outer
        e.bind_results(s.carry, outs)

    def divergent_for(self, e: Emitter, s: For) -> None:
        """A loop whose bounds differ from lane to lane."""
        b, outer = e.b, e.mask
        e.module.straight = False
        lo, hi, step = (e.full(materialise(e.b, e.index(a))) for a in (s.lo, s.hi, s.step))
        inits = [e.full(e.val(c.init)) for c in s.carry]
        base = e.full(b.lit(True, "i1")) if outer is None else e.full(outer)

        def running(i: Val) -> Val:
            return base & b.select(step > 0, i < hi, i > hi)

        def cond(state: list[Val]) -> Val:
            return b.any_lane(running(state[0]))

        def body(state: list[Val]) -> list[Val]:
            i, carries = state[0], state[1:]
            active = e.mask = running(i)
            e.env[s.index] = b.cast("trunc", i, register_type(s.index.dtype))
            e.bind_carries(s.carry, carries)
            e.statements(s.body)
            new = [
                b.select(active, e.full(e.val(y)), c)
                for y, c in zip(s.yields, carries, strict=True)
            ]
            return [i + step, *new]

        outs = b.while_loop([lo, *inits], cond, body)[1:]
        e.mask = outer
        e.bind_results(s.carry, outs)

    # ---- in lanes

    def rows(self, e: Emitter, s: For, first: Val, last: Val) -> bool:
        """Whether rows have been emitted side by side; see abreast.py."""
        return False

    def vector(self, e: Emitter, s: For) -> None:
        lo, hi = e.index(s.lo), e.index(s.hi)
        if e.module.alone or not is_unit(s) or not widenable(s.body):
            e.in_lanes, before = True, e.in_lanes
            self.serial(e, s)
            e.in_lanes = before
            return
        assert isinstance(lo, Val) and isinstance(hi, Val)
        if _updates_cheaply(s.body):
            self.one_by_one(e, s, lo, hi)
            return
        self.vector_range(e, s, lo, hi)

    def one_by_one(self, e: Emitter, s: For, lo: Val, hi: Val) -> None:
        """Iterations that update memory with little arithmetic: in order, four to a turn. Lanes
        would be taken apart again, which costs more than they save."""
        b, e.hot, e.module.straight = e.b, True, False
        e.in_lanes, before = True, e.in_lanes

        def turn(count: int) -> Callable[[Val, list[Val]], list[Val]]:
            def body(i: Val, _: list[Val]) -> list[Val]:
                for k in range(count):
                    e.env[s.index] = b.cast("trunc", i + k, register_type(s.index.dtype))
                    e.statements(s.body)
                return []

            return body

        e.depth += 1
        middle = hi if e.module.brief else hi - self.remainder(e, hi - lo, UNROLLED)
        if not e.module.brief:
            b.loop(lo, middle, UNROLLED, [], turn(UNROLLED))
            lo = middle
        b.loop(lo, hi, 1, [], turn(1))
        e.depth -= 1
        e.in_lanes = before

    def vector_range(self, e: Emitter, s: For, lo: Val, hi: Val) -> None:
        """Iterations lo..hi of a vector loop."""
        e.tables, before = tables_of(e, s), e.tables
        self.lanes_over(e, s, lo, hi)
        e.tables = before

    def lanes_over(self, e: Emitter, s: For, lo: Val, hi: Val) -> None:
        """The same, with what the loop looks up in tables known."""
        e.hot = True
        lanes = lane_count(e, s)
        inner = has(s.body, For, While)
        cost = body_cost(x for x in walk(s.body) if isinstance(x, Let))
        brief = e.module.brief
        width = 4 if inner else 1
        if not inner and not brief:
            many = e.module.many and cost < PAIRED
            width = 1 if many else vectors_abreast(s.body, cost, e.target, lanes)
        if has(s.body, While) or (inner and brief):
            width = 1
        elif inner and cost >= MUCH_AROUND:
            width = 2 if _light_inside(s.body) and e.target.registers >= 32 else 1
        scattered = lane_by_lane(s, e.tables) and not _by_addresses(e, s, lanes)
        if lanes > FEW_SINGLE:  # of bytes: ever more lanes one by one are code, and gain nothing
            single = one_by_one(s, e.tables)
            while lanes > FEW_SINGLE and lanes * single > MANY_SINGLE:
                lanes //= 2
        if inner or has(s.body, If) or cost >= HEAVY:
            e.module.straight = False
        count = hi.c - lo.c if hi.c is not None and lo.c is not None else 0
        if count > 0:  # a literal number of iterations
            while width > 1 and lanes * width > count:
                width //= 2
            while lanes > 4 and lanes > count:
                lanes //= 2
            if e.target.masks and not (scattered or inner) and lanes < count <= 4 * lanes:
                width = -(-count // lanes)  # once, without a loop
            if count % (lanes * width) == 0:
                e.module.straight = e.module.straight and e.target.masks
                self.lane_loop(e, s, lo, hi, lanes, width, None)
                return
        if e.target.masks and not scattered and (brief or not inner):
            if width == MOST_ABREAST:
                self.many_then_two(e, s, lo, hi, lanes)
                return
            if MASKED <= cost and not brief:
                middle = hi - self.remainder(e, hi - lo, lanes * width)
                self.lane_loop(e, s, lo, middle, lanes, width, None)
                lo, width = middle, 1
            self.masked_lanes(e, s, lo, hi, lanes, width)
            return
        e.module.straight = e.module.straight and e.target.masks
        if scattered and not inner:
            width = 1
        rest_masked = e.target.masks or ((inner or cost >= HEAVY) and maskable(e, s.body))
        middle = lo
        if not (brief and scattered and _arithmetic(s.body) < BRIEFLY):
            middle = hi - self.remainder(e, hi - lo, lanes * width)
            self.lane_loop(e, s, lo, middle, lanes, width, None)
        if inner:
            rest_masked = rest_masked and not (scattered and scattered_inside(s))
        elif scattered:  # addresses lane by lane cost less than much arithmetic one by one
            much = max(HEAVY, LANE_BY_LANE * sum(1 for _ in scattered_accesses(s)))
            rest_masked = rest_masked and not (brief or cost < much or has(s.body, Update))
        if rest_masked:
            self.rest_in_lanes(e, s, middle, hi, lanes, width if inner else 1)
            return
        if width > 1 and not brief:
            turned, middle = middle, hi - self.remainder(e, hi - middle, lanes)
            self.lane_loop(e, s, turned, middle, lanes, 1, None)
        e.in_lanes, before = True, e.in_lanes

        def alone(i: Val, _: list[Val]) -> list[Val]:
            e.env[s.index] = e.b.cast("trunc", i, register_type(s.index.dtype))
            e.statements(s.body)
            return []

        e.depth += 1
        e.b.loop(middle, hi, 1, [], alone)
        e.depth -= 1
        e.in_lanes = before

    def rest_in_lanes(self, e: Emitter, s: For, lo: Val, hi: Val, lanes: int, width: int) -> None:
        """What fills no turn of a loop over `width` vectors. The loops inside wait for one addition
        after the other, so that a few vectors together take as long as one alone: they go together
        if they are more than half of a turn. Where they store in place what they read, row after
        row, a row would wait for the one before, which is written under a mask: all of its full
        vectors are stored first, without one."""
        if width > 1:
            in_place = stored_in_place(e, s.body)
            several = hi - lo > lanes * width // 2
            together = e.b.select(several, hi, lo)
            if in_place is not None:
                together = e.b.select(in_place, lo, together)
            self.masked_lanes(e, s, lo, together, lanes, width)
            lo = together
            if in_place is not None:
                middle = hi - self.remainder(e, hi - lo, lanes)
                self.lane_loop(e, s, lo, middle, lanes, 1, None)
                lo = middle
        self.masked_lanes(e, s, lo, hi, lanes, 1)

    def many_then_two(self, e: Emitter, s: For, lo: Val, hi: Val, lanes: int) -> None:
        """All of a loop under masks, as many vectors together as there may be; what would fill less
        than half of the last turn, two at a time: many loops are short, such as a few numbers for
        each of many keys."""
        turn = lanes * MOST_ABREAST
        rest = self.remainder(e, hi - lo, turn)
        middle = hi - e.b.select(rest > turn // 2, 0, rest, like="i64")
        self.masked_lanes(e, s, lo, middle, lanes, MOST_ABREAST)
        self.masked_lanes(e, s, middle, hi, lanes, 2)

    def remainder(self, e: Emitter, n: Val, step: int) -> Val:
        positive = e.b.call("smax", n, 0)
        return positive & (step - 1)

    def lane_loop(
        self,
        e: Emitter,
        s: For,
        lo: Val,
        hi: Val,
        lanes: int,
        width: int,
        mask: Callable[[Val], Val] | None,
    ) -> None:
        """The body for `lanes * width` iterations at a time."""
        b = e.b

        def body(i: Val, _: list[Val]) -> list[Val]:
            e.lanes, e.width = lanes, width
            e.mask = mask(i) if mask else None
            self.bind_lanes(e, s, i)
            e.statements(s.body)
            e.lanes, e.width, e.mask = 1, 1, None
            return []

        e.depth += 1
        b.loop(lo, hi, lanes * width, [], body)
        e.depth -= 1

    def bind_lanes(self, e: Emitter, s: For, i: Val) -> None:
        lin = Lin(i, e.b.lit(1, "i64"), e.lanes, e.width)
        if s.index.dtype == "i64":
            e.env[s.index] = lin if e.lanes > 1 else i
        else:
            e.env[s.index] = materialise(e.b, lin, register_type(s.index.dtype))

    def masked_lanes(self, e: Emitter, s: For, lo: Val, hi: Val, lanes: int, width: int) -> None:
        self.lane_loop(e, s, lo, hi, lanes, width, lambda i: tail_mask(e, i, hi, lanes, width))

    # ---- threads

    def parallel(self, e: Emitter, s: For) -> None:
        """Outlines the loop as a chunk function, called once below about 10 us of work, else
        through ctx.parallel_for."""
        lo, hi = e.val(s.lo), e.val(s.hi)
        if updates_shared(s.body) or not is_unit(s):
            before, e.parallel = e.parallel, True
            if s.kind == "vector":
                self.vector(e, s)
            else:
                self.serial(e, s)
            e.parallel = before
            return

        def run(inner: Emitter, first: Val, last: Val) -> None:
            if s.kind == "vector" and widenable(s.body):
                self.vector_range(inner, s, first, last)
                return
            if s.kind == "parallel" and self.rows(inner, s, first, last):
                return
            inner.in_lanes = s.kind == "vector"
            inner.ahead = rows_ahead(s)

            def body(i: Val, _: list[Val]) -> list[Val]:
                inner.poll()
                inner.env[s.index] = inner.b.cast("trunc", i, register_type(s.index.dtype))
                inner.statements(s.body)
                return []

            inner.module.straight = False
            with inner.scratch_of(s.body):
                inner.depth += 1
                inner.b.loop(first, last, 1, [], body)
                inner.depth -= 1

        cost = self.runtime_cost(e, s)
        grain = lane_count(e, s) * 2 if s.kind == "vector" else 1
        if s.kind == "vector" and has(s.body, For):
            grain *= 2
        self.outline(e, s.body, [s.lo, s.hi], lo, hi, cost, grain, run)

    def runtime_cost(self, e: Emitter, s: For) -> float | Val:
        """Estimated scalar operations of one iteration, as a literal or from the extents of the
        loops inside."""
        hint = dict(e.module.attrs).get("cost_per_iteration")
        if hint is not None:
            return float(hint)
        speed = 1.0 / max(1, lane_count(e, s) // 2) if s.kind == "vector" else 1.0
        best: float | Val = body_cost(s.body) * speed
        body = _unwrapped(s.body)
        for inner in _inner_loops(body):
            if trip(inner.lo, inner.hi, inner.step) is None:
                count = self.iterations(e, body, inner)
                if count is not None:
                    weight = max(
                        1, int(body_cost(inner.body) * (0.2 if inner.kind != "seq" else 1.0))
                    )
                    more = count * weight
                    best = more if isinstance(best, float) else best + more
        return best

    def iterations(self, e: Emitter, body: Sequence[Stmt], inner: For) -> Val | None:
        """How many iterations a loop in a body has, where that is known outside of the body: as
        the difference of its bounds, or as the size of the chunk that it walks."""
        count = self.extent(e, body, inner)
        step = inner.step
        if count is None or step == Const(1, "i64") or not (type(step) is Const or step in e.env):
            return count
        return e.b.binary("udiv", count, e.index(step))  # type: ignore[arg-type]

    def extent(self, e: Emitter, body: Sequence[Stmt], inner: For) -> Val | None:
        """What the bounds of such a loop differ by."""
        ends = [inner.lo, inner.hi]
        if all(isinstance(a, Const) or a in e.env for a in ends):
            lo, hi = (e.index(a) for a in ends)
            return (
                e.b.call("smax", hi - lo, 0)
                if isinstance(lo, Val) and isinstance(hi, Val)
                else None
            )
        lets = {x.out: x for x in body if isinstance(x, Let)}
        lows, highs = _terms(lets, inner.lo, "max"), _terms(lets, inner.hi, "min")
        for end in highs:
            added = lets.get(end)  # type: ignore[arg-type]
            low = next((a for a in added.args if a in lows), None) if added is not None else None
            if added is not None and added.op == "add" and low is not None:
                size = added.args[1 if added.args[0] is low else 0]
                if isinstance(size, Const) or size in e.env:
                    found = e.index(size)
                    return found if isinstance(found, Val) else None
        return None

    def outline(
        self,
        e: Emitter,
        body: Sequence[Stmt],
        extra: Sequence[object],
        lo: Val,
        hi: Val,
        cost: float | Val,
        grain: int,
        run: Callable[[Emitter, Val, Val], None],
        pointers: Sequence[Val] = (),
    ) -> None:
        """A function of a chunk over lo..hi, its closure, and the call."""
        b, module = e.b, e.module
        module.count += 1
        name = f"{module.name}_{module.count}"
        variables, buffers = free_names(body, extra)
        variables = [v for v in variables if v in e.env]
        head = (
            f"define internal void @{name}(ptr %ctx, ptr %closure, i64 %chunk) "
            f"{FUNCTION_ATTRIBUTES}"
        )
        inner = Emitter(module, head, void=True, loops=e.loops)
        inner.parallel = True
        values = [e.val(x) for x in variables]
        bases = [e.buffers[x] for x in buffers] + list(pointers)
        closure = b.alloca(8 * (3 + len(values) + len(bases)))
        slots = [lo, hi, hi, *bases, *values]  # the third word becomes the size of a chunk
        for k, v in enumerate(slots):
            raw = b.cast("zext", v, "i8") if v.t == "i1" else v
            b.store(raw, b.gep(closure, 8 * k))
        ib = inner.b
        first, last, size = (ib.argument("closure", k, "i64") for k in range(3))
        k = 3
        got: list[Val] = []
        for _ in bases:
            got.append(ib.argument("closure", k, "ptr"))
            k += 1
        for variable, outer_value in zip(variables, values, strict=True):
            if outer_value.c is not None:
                inner.env[variable] = ib.lit(outer_value.c, outer_value.t)
            elif outer_value.t == "i1":
                inner.env[variable] = ib.argument("closure", k, "i8").ne(0)
            else:
                inner.env[variable] = ib.argument("closure", k, outer_value.t)
            k += 1
        for buf, pointer in zip(buffers, got, strict=False):
            inner.buffers[buf] = pointer
        inner.pointers = got[len(buffers) :]
        chunk = Val(ib, "i64", 1, ("%chunk",))
        start = first + chunk * size
        end = ib.call("smin", start + size, last)
        stack, module.stack = module.stack, 0
        run(inner, start, end)
        module.stack = stack
        ib.line("ret void")
        module.functions.append(ib.text())
        self.launch(e, name, closure, hi - lo, cost, grain)

    def launch(
        self, e: Emitter, name: str, closure: Val, n: Val, cost: float | Val, grain: int
    ) -> None:
        """The runtime cuts 0..n into chunks by the work, and runs them; see native.py."""
        b = e.b
        weight = cost * 16 if isinstance(cost, Val) else b.lit(max(1, int(cost * 16)), "i64")
        table = b.load("ptr", b.gep(e.ctx, TABLE))
        f = b.load("ptr", b.gep(table, function_offset("launch")))
        where = f"ptr %ctx, ptr @{name}, ptr {closure.regs[0]}"
        b.line(
            f"call void {f.regs[0]}({where}, i64 {n.regs[0]}, i64 {weight.regs[0]}, i64 {grain})"
        )
        e.leave_if_failed()


# ---- helpers


UNROLLED = 4  # iterations of a loop of updates in one turn
MASKED = 10.0  # arithmetic of an iteration beside which masks take time, and memory does not
HEAVY = 24.0  # arithmetic of an iteration that is worth LLVM's scheduling and registers
LANE_BY_LANE = 2.0  # arithmetic that is worth taking one place lane by lane, where it is much
FEW_SINGLE, MANY_SINGLE = 8, 256  # lanes, and narrow elements that are taken one by one
MUCH_AROUND = 40.0  # arithmetic of an iteration that holds a loop, beyond which registers are few
PAIRED = 40.0  # arithmetic of an iteration that is worth as many vectors on every machine
MOST_ABREAST = 8  # vectors that a loop computes side by side
CHAIN = 32  # integer operations one after the other, beyond what the next iteration's can hide
BRIEFLY = 10.0  # arithmetic of an iteration that quick code does element by element
FEW = 14.0  # arithmetic of an iteration, beyond which lanes are worth taking apart


def vectors_abreast(body: Sequence[Stmt], cost: float, target: Target, lanes: int) -> int:
    """How many vectors of so many lanes a loop computes side by side. What follows from each other
    within one vector has to wait; wide vectors take twice as long on some processors, and little of
    the next iterations is in sight if an iteration is long. What registers do not hold is in the
    nearest cache meanwhile, which takes less. Of chains of integers, as random bits are, there may
    be most, as they need few registers; fewer where many values are kept, and where there are
    branches that lanes may all leave out."""
    if cost < MASKED:
        return 1
    if has(body, If):
        return 2 if cost >= PAIRED and target.registers >= 32 else 1
    stmts = tuple(walk(body))
    if integer_chain(stmts) >= CHAIN:
        most = MOST_ABREAST if target.masks else 4
        if 4 * values_alive(stmts) > 32:
            most = 2
        # Of narrow results a vector has many lanes: its words fill some registers themselves.
        return max(1, most // max(1, 4 * lanes // target.vector_bytes))
    return 4 if target.masks or cost >= PAIRED else 2


def _light_inside(body: Sequence[Stmt]) -> bool:
    """Whether the loops of a body do little each time around: its arithmetic comes before or after
    them, where more vectors side by side hide how long each operation takes."""
    inner = _inner_loops(body)
    return all(body_cost(walk(x.body)) <= FEW and not has(x.body, For) for x in inner)


def stored_in_place(e: Emitter, body: Sequence[Stmt]) -> Val | None:
    """Whether a result that the loops of a body store lies where an argument that they load does,
    as is known when they run. None if none can, or they pass on from turn to turn what they wait
    for."""
    inner = _inner_loops(body)
    if not inner or any(x.carry or not has(x.body, Store) for x in inner):
        return None
    inside = [x for loop in inner for x in walk(loop.body)]
    stored = [x.buf for x in inside if isinstance(x, Store) and x.buf.role == "out"]
    loaded = [x.buf for x in inside if isinstance(x, Load) and x.buf.role == "in"]
    same: Val | None = None
    for buf in dict.fromkeys(loaded):
        for out in dict.fromkeys(stored):
            if (buf.shape, buf.dtype) == (out.shape, out.dtype):
                equal = e.b.compare("eq", e.buffers[buf], e.buffers[out])
                same = equal if same is None else same | equal
    return same


def _unwrapped(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements of a body and those for which it takes scratch."""
    found: list[Stmt] = []
    for s in body:
        found += _unwrapped(s.body) if isinstance(s, Alloc) else [s]
    return found


def _inner_loops(body: Sequence[Stmt]) -> list[For]:
    """The loops of a body; of branches, those of the one with more statements."""
    found: list[For] = []
    for s in body:
        if isinstance(s, For):
            found.append(s)
        elif isinstance(s, If):
            then, orelse = _inner_loops(s.then), _inner_loops(s.orelse)
            found += then if len(then) >= len(orelse) else orelse
    return found


def _terms(lets: Mapping[Var, Let], atom: Atom, op: str) -> list[Atom]:
    """What an atom is the least, or the greatest, of; itself included."""
    out = [atom]
    for a in out:
        let = lets.get(a)  # type: ignore[arg-type]
        if let is not None and let.op == op:
            out += let.args
    return out


def _updates_cheaply(body: Sequence[Stmt]) -> bool:
    """Whether iterations update single elements, and compute next to nothing."""
    if not has(body, Update) or has(body, For, While, If):
        return False
    return body_cost(x for x in body if isinstance(x, Let)) <= FEW


def _arithmetic(body: Sequence[Stmt]) -> float:
    """What a body computes but addresses."""
    return body_cost(x for x in walk(body) if isinstance(x, Let) and x.out.dtype != "i64")


def updates_shared(body: Sequence[Stmt]) -> bool:
    """Whether iterations update memory that they share: not scratch of their own."""
    stmts = list(walk(body))
    own = {x.buf for x in stmts if isinstance(x, Alloc)}
    return any(isinstance(x, Update) and x.buf not in own for x in stmts)


def tail_mask(e: Emitter, i: Val, hi: Val, lanes: int, width: int) -> Val:
    """Which of the lanes from i on are below hi."""
    b = e.b
    regs: list[str] = []
    if i.c is not None and hi.c is not None:
        for u in range(width):
            bits = ("true" if i.c + u * lanes + k < hi.c else "false" for k in range(lanes))
            regs.append("<" + ", ".join(f"i1 {bit}" for bit in bits) + ">")
        b.some.add(regs[0])
        return Val(b, "i1", lanes, tuple(regs))
    t = "i8" if lanes * width <= 64 < 4 * lanes else "i16" if lanes > 16 else "i32"
    left = b.cast("trunc", b.call("smin", hi - i, lanes * width), t)
    for u in range(width):
        regs += b.compare("lt", b.lanes_of(t, lanes), left - u * lanes).regs
    b.some.add(regs[0])  # the loop has not ended: lane 0 is below hi
    return Val(b, "i1", lanes, tuple(regs))


def maskable(e: Emitter, body: Sequence[Stmt]) -> bool:
    """Whether lanes can be left out of what a body loads and stores: on AVX2, those of numbers of
    four and eight bytes."""
    if e.target.masks:
        return True
    return not has(body, Update) and all(
        e.target.can_mask(storage_bytes(x.buf.dtype))
        for x in walk(body)
        if isinstance(x, (Load, Store))
    )


def lane_count(e: Emitter, s: For) -> int:
    return min(64, e.target.lanes(data_bytes(s.body, s.carry, tables_of(e, s).indices)))


def _by_addresses(e: Emitter, s: For, lanes: int) -> bool:
    """Whether quick code takes scattered lanes by their addresses, under a mask as well: then one
    loop does for all iterations. Where there is little to compute, lanes do not help."""
    return _arithmetic(s.body) >= BRIEFLY and all(
        not isinstance(x, Update) and scattered_briefly(e.b, storage_bytes(x.buf.dtype), lanes)
        for x in scattered_accesses(s)
    )
