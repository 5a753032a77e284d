"""compile_jaxpr: the passes in order.

    graph    jaxpr -> nodes (lower/)          fuse     nodes -> units: nests and opaque operations
    slots    stored values get buffers        emit     unit -> kernel (schedule.py, or the
    operation's own statements)
    check    every kernel                     plan     kernels, host steps, allocation, reuse ->
    Program

PULLBACK_DEBUG=loops prints kernels, fusion the units, buffers the plan.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pullback.core.jaxpr import ClosedJaxpr
from pullback.lazy_imports import lazy_module
from pullback.loops import buffers, plan
from pullback.loops.build import kernel_of
from pullback.loops.canon import canonical_text
from pullback.loops.check import check_kernel
from pullback.loops.columns import columns_first
from pullback.loops.fuse import Nest, plan_units, seconds_of
from pullback.loops.ir import Kernel
from pullback.loops.lending import Lender, renamed
from pullback.loops.looping import Looping, last_uses, resolve
from pullback.loops.lower.graph import Graph, Node, Opaque, Slot, beside
from pullback.loops.lower.program import Spec, add_jaxpr, constant, own_copies, spec_of
from pullback.loops.moved import moved_as_integers
from pullback.loops.nesting import deep
from pullback.loops.schedule import LoopBuilder, emit_nest
from pullback.loops.stacked import share_rows, whole_slot
from pullback.loops.stepping import steps_inside
from pullback.primitives.keys import lower_keys
from pullback.records import record, replaced
from pullback.transforms.partial_eval import dce_closed

if TYPE_CHECKING:
    from pullback.loops.memory_limit import Survey

__all__ = ["Options", "compile_jaxpr"]

show: Any = lazy_module("pullback.loops.show")

Reference = Callable[[Any], Callable[..., Any]]
FEW = 16  # an operation that updates so few elements shares a kernel with others
UPDATES = 64  # of one kernel


def no_reference(eqn: Any) -> Callable[..., Any]:
    """The reference table of a compiler that was given none."""
    raise KeyError(
        "internal error in pullback: no lowering and no reference implementation for "
        f"{eqn.primitive.name!r}"
    )


class Options:
    """What lowering asks of its surroundings: constants, equation numbers, the reference
    implementation; and what it tells them: blocks of which type it is going to multiply."""

    def __init__(
        self,
        reference: Reference | None,
        rolls: bool = False,
        foresee: Callable[[str, float], None] | None = None,
        values: dict[Any, Node] | None = None,
        repeats: bool = False,
    ) -> None:
        self.reference = reference or no_reference
        self.values = values  # of the program's variables, if anybody asked
        self.repeats = repeats  # what the program does twice it is to do twice
        self.foresee = foresee or _ignore
        self.equations: list[Any] = []
        self.consts: list[tuple[Slot, Any]] = []
        self._known: dict[int, Slot] = {}
        self.rolls = rolls
        # Programs of loops and branches that are known to need steps of the plan.
        self.stepwise: dict[int, Any] = {}

    def equation(self, eqn: Any) -> int:
        self.equations.append(eqn)
        return len(self.equations) - 1

    def constant(self, g: Graph, value: Any, spec: Spec) -> Node:
        """A constant array as a leaf; the same object is one slot."""
        shape, dtype = spec
        slot = self._known.get(id(value))
        if slot is None or slot.shape != shape:
            slot = Slot(dtype, shape, "const")
            self._known[id(value)] = slot
            self.consts.append((slot, value))
        return g.leaf(slot, shape, dtype)


def debug() -> set[str]:
    """What PULLBACK_DEBUG asks to be printed."""
    text = os.environ.get("PULLBACK_DEBUG")
    return set(text.replace(";", ",").split(",")) if text else set()


def _ignore(_type: str, _work: float) -> None:
    pass


@record
class Cost:
    """Estimates: the elementary operations and the seconds of a program, and the seconds of all
    runs of a kernel of its; and the sizes and the number of these runs."""

    work: float
    seconds: float
    own: float
    dims: tuple[int, ...]
    runs: float


@deep
def compile_jaxpr(
    closed: Any,
    reference: Reference | None = None,
    donated: Sequence[bool] = (),
    check: bool = True,
    ready: Callable[[Kernel, Cost, bool], None] | None = None,
    origins: bool = False,
    rolls: bool = True,
    foresee: Callable[[str, float], None] | None = None,
    room: int | None = None,
    survey: Survey | None = None,
) -> plan.Program:
    """A closed jaxpr as kernels and a plan.

    `reference(eqn)` gives, for an equation that has no lowering, a function from arrays to a list
    of arrays. `donated[i]` allows
    input i's buffer to hold a result. `ready(kernel, cost, alone)` hears of each kernel as soon as
    it is written, with what it and the program cost and whether the program has no other: it may
    be compiled while the rest is written. `foresee(type, work)` hears, before there is a kernel,
    that one will call the tile functions of a type.
    With `origins` the program tells which equations each kernel computes. `rolls` lowers a body
    that the program repeats once (chains.py); the results are the same. Where temporaries would
    take more than `room` bytes, idle ones are freed. `survey` hears what the plan is made of.
    """
    if isinstance(closed, ClosedJaxpr):
        closed = lower_keys(closed)
        closed = dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)[0]
    values = None if survey is None else survey.values
    repeats = room is not None  # rather than keep values
    options, jaxpr = Options(reference, rolls, foresee, values, repeats), closed.jaxpr
    g = Graph()
    g.options = options
    ins: list[Any] = []
    in_slots: list[Slot] = []
    given: list[bool] = []
    for k, v in enumerate(jaxpr.invars):
        spec = spec_of(v.aval)
        if spec is None:
            ins.append(None)
            continue
        slot = Slot(spec[1], spec[0], "in")
        in_slots.append(slot)
        given.append(k < len(donated) and donated[k])
        g.extents.update(n for n in spec[0] if n >= 17)
        ins.append(g.leaf(slot, *spec))
    consts: list[Any] = []
    for c, v in zip(closed.consts, jaxpr.constvars, strict=True):
        spec = spec_of(v.aval)
        consts.append(None if spec is None else constant(g, c, spec))
    outs = own_copies(g, jaxpr, add_jaxpr(g, jaxpr, consts, ins))
    units = plan_units(g, outs)
    flags = debug()
    if "fusion" in flags:
        print(show_units(units), file=sys.stderr)
    assembler = _Assembler(g, options, units, in_slots, outs, given, check, flags)
    assembler.ready = ready
    assembler.origins = [] if origins else None
    assembler.room, assembler.ledger.thrifty = room, room is not None
    assembler.shares = room is None and survey is None
    program = assembler.program()
    if survey is not None:
        survey.units, survey.outs, survey.lent = units, outs, frozenset(assembler.names)
    return program


def show_units(units: Sequence[Any]) -> str:
    """The units, one a line."""
    lines = []
    for k, unit in enumerate(units):
        if isinstance(unit, Nest):
            members = ", ".join(
                f"{m.kind}{m.order}:{m.dtype}{list(m.shape)}{'*' if m.stored else ''}"
                for m in unit.members
            )
            lines.append(
                f"{k}: nest rows={unit.k} lanes={unit.lanes} work={unit.work:.0f} [{members}]"
            )
        else:
            lines.append(
                f"{k}: {unit.name} -> {', '.join(f'{m.dtype}{list(m.shape)}' for m in unit.outs)}"
            )
    return "\n".join(lines)


class _Assembler:
    """Emits units as kernels and lays out the plan."""

    def __init__(
        self,
        g: Graph,
        options: Options,
        units: Sequence[Any],
        ins: list[Slot],
        outs: list[Node],
        donated: Sequence[bool],
        check: bool,
        flags: set[str],
    ) -> None:
        self.g, self.options, self.units, self.outs = g, options, units, outs
        self.ins, self.donated, self.check, self.flags = ins, list(donated), check, flags
        self.ledger = buffers.Ledger()
        self.kernels: list[Kernel] = []
        self.ready: Callable[[Kernel, Cost, bool], None] | None = None
        self.room: int | None = None  # what temporaries may take before idle ones are freed
        self.shares = True  # whether values may share memory, none of which is given up alone
        self.work = sum(_work(u) for u in units)
        each = [seconds_of(u) for u in units]
        self.seconds = sum(each)
        self.repeats: dict[float, int] = {}  # what takes equally long is done by one kernel
        for s in each:
            self.repeats[s] = self.repeats.get(s, 0) + 1
        self.costs: list[float] = []
        # The seconds of the loop of steps that is being written, and how often its body runs.
        self.budget, self.scale = self.seconds, 1.0
        self.keys: dict[str, int] = {}
        self.steps: list[Any] = []
        self.origins: list[tuple[int, ...]] | None = None
        self.pinned: set[Slot] = set()
        self.prelude: list[Any] | None = None  # allocations of the loop that is being written
        self.host: list[plan.HostCall] = []
        self.names: dict[int, int] = {}  # slots whose buffer is another's after all
        self.extents = frozenset(g.extents)

    def program(self) -> plan.Program:
        made = buffers.assign_slots(self.units, self.outs)
        if self.shares:
            share_rows(self.units)
        for slot in self.ins:
            self.ledger.add(slot)
        self.number_constants()
        for slot in made:
            if slot.role == "out":
                self.ledger.add(slot)
        last = last_uses(self.units, self.outs)
        index = 0
        while index < len(self.units):
            count = self._updates_from(index)
            if count > 1:
                self._updates(index, count, last)
            else:
                self.unit(index, self.units[index], last)
            index += max(1, count)
        held = {s.number for s in self.ledger.free}
        self.steps += [plan.FreeStep(n) for n in sorted(held)]
        donations = self._share_memory()
        steps, self.host = renamed([*self.steps, plan.RetStep()], self.host, self.names)
        steps = resolve(steps)
        consts = [(slot.number, value) for slot, value in self.options.consts]
        table = [plan.Slot(s.number, s.role, s.dtype, s.shape, s.bytes) for s in self.ledger.table]
        if "buffers" in self.flags:
            print("\n".join(map(str, [*table, *steps])), file=sys.stderr)
        gone = [self.ledger.table[n] for n in self.names]
        fixed = sum(s.bytes for s in self.ledger.table if s.role != "temp")
        peak = fixed + self.ledger.peak - sum(s.bytes for s in gone)
        return plan.Program(
            self.kernels,
            list(self.keys),
            steps,
            table,
            [s.number for s in self.ins],
            consts,
            [self._number(n.slot) for n in self.outs if n.slot is not None],
            self.host,
            donations,
            self.options.equations,
            peak,
            self.work,
            self.origins or [],
            self.seconds,
            self.costs,
        )

    def _number(self, slot: Slot) -> int:
        number = slot.number
        while number in self.names:
            number = self.names[number]
        return number

    def _share_memory(self) -> list[tuple[int, int]]:
        """Results in the memory of donated arguments, temporaries in that of results; the pairs of
        argument and result by number."""
        lender = Lender(self.steps, self.kernels, self.host)
        results = [n.slot for n in self.outs if n.slot is not None]
        given = [s for s, d in zip(self.ins, self.donated, strict=False) if d and s not in results]
        taken = set(self.names.values())
        free = [s for s in given if s.number not in taken]
        whole = [s for s in results if s.number not in self.names and s.number not in taken]
        for old, new in lender.donations(free, whole):
            self.names[new.number] = old.number
        whole = [s for s in whole if s.number not in self.names]
        temps = [s for s in self.ledger.table if s.role == "temp" and s.number not in self.names]
        self.names.update(lender.loans(temps, whole))
        pairs = []
        for k, (old, d) in enumerate(zip(self.ins, self.donated, strict=False)):
            if d and old.bytes:
                n = next((j for j, s in enumerate(results) if self._number(s) == old.number), None)
                pairs += [] if n is None else [(k, n)]
        return pairs

    def number_constants(self) -> None:
        """Constants that have appeared get numbers."""
        for slot, _ in self.options.consts:
            if slot.number < 0:
                self.ledger.add(slot)

    def unit(self, index: int, unit: Any, last: dict[Slot, int]) -> None:
        if isinstance(unit, Nest) and all(0 in m.shape for m in unit.members):
            return self._empty(unit)
        new = [
            m.slot
            for m in (buffers.unit_values(unit) if isinstance(unit, Nest) else unit.outs)
            if m.slot is not None
        ]
        temps = list(dict.fromkeys(whole_slot(s) for s in new if s.role == "temp"))
        dying = self._dying(index, unit, last)
        if isinstance(unit, Opaque) and unit.steps is not None:
            self._stepwise(unit, temps, dying)
        elif isinstance(unit, Opaque) and unit.host is not None:
            self.allocate(temps)
            self._host(unit)
        else:
            if isinstance(unit, Opaque):
                self._inplace(unit, dying)
            kernel, keys, dims, scalars = self._kernel(unit)
            if isinstance(unit, Nest):
                self._reuse(kernel, keys, temps, dying)
            self.allocate([s for s in temps if s.number < 0])
            self._kernel_step(kernel, keys, dims, scalars, [unit])
        self.give([*dying, *(s for s in temps if last.get(s, index) == index)])

    def _dying(self, index: int, unit: Any, last: dict[Slot, int]) -> list[Slot]:
        """What a unit is the last to read."""
        reads = (n.slot for n in buffers.reads_of(unit))
        slots = dict.fromkeys(whole_slot(s) for s in reads if s is not None)
        return [s for s in slots if last.get(s) == index]

    def _kernel_step(
        self,
        kernel: Kernel,
        keys: Sequence[Slot],
        dims: Sequence[int],
        scalars: Any,
        units: Sequence[Any],
    ) -> None:
        bufs = tuple(s.number for s in keys)
        # Inside a loop of steps what equal units take in all is not known; how often it runs is.
        looping = self.prelude is not None
        each = [seconds_of(u, looping) for u in units]
        own = sum(s * self.scale if looping else s * max(1, self.repeats.get(s, 1)) for s in each)
        several = looping or all(isinstance(u, Nest) for u in units)  # else they are not alike
        runs = max(1.0, own / max(sum(each), 1e-12)) if several else 1.0
        number = self._intern(kernel, own, tuple(dims), runs)
        equation = _equation(units[0])
        self.steps.append(plan.KernelStep(number, bufs, tuple(dims), tuple(scalars), equation))
        if self.origins is not None:
            self.origins.append(tuple(dict.fromkeys(k for u in units for k in _equations(u))))

    def give(self, slots: Sequence[Slot]) -> None:
        """Temporaries that are not read again."""
        for slot in dict.fromkeys(slots):
            base = buffers.base_of(slot)
            if base.role == "temp" and base not in self.pinned:
                self.ledger.give(slot)

    def _updates_from(self, index: int) -> int:
        """How many units from here on write a few elements each."""
        end = index
        while end < min(len(self.units), index + UPDATES):
            op = self.units[end]
            few = isinstance(op, Opaque) and op.emit is not None and op.inplace
            if not few or not 0 < op.updates <= FEW:
                break
            end += 1
        return end - index

    def _updates(self, start: int, count: int, last: dict[Slot, int]) -> None:
        """Units that write a few elements each, as one kernel."""
        b, done = LoopBuilder(self.extents), []
        ops: list[Opaque] = self.units[start : start + count]  # type: ignore[assignment]
        for index, op in enumerate(ops, start):
            dying = self._dying(index, op, last)
            self._inplace(op, dying)
            for i, o in op.inplace:
                old, new = op.ins[i].slot, op.outs[o].slot
                if o in op.reused and old is not None and new is not None:
                    b.bound[new] = old.buf(b)
            temps = [n.slot for n in op.outs if n.slot is not None and n.slot.role == "temp"]
            self.allocate([s for s in temps if s.number < 0])
            assert op.emit is not None
            op.emit(b, op)
            for m in op.outs:
                m.ready = True
            done += [*dying, *(s for s in temps if last.get(s, index) == index)]
        work = sum(op.work for op in ops)
        self._kernel_step(*self._close(b, "updates", work), ops)  # type: ignore[call-arg]
        self.give(done)

    def _stepwise(self, op: Opaque, temps: list[Slot], dying: list[Slot]) -> None:
        """A loop or branch as steps; what it allocates comes before the outermost one."""
        start, outermost = len(self.steps), self.prelude is None
        if outermost:
            self.prelude = []
        if op.gradual:
            op.dying, dying[:] = list(dying), []
        else:
            self.allocate(temps)
        before, self.budget = self.budget, self.scale * seconds_of(op)
        op.steps(Looping(self))
        self.budget = before
        for m in op.outs:
            m.ready = True
        if outermost:
            self.steps[start:start], self.prelude = self.prelude or [], None

    def _empty(self, nest: Nest) -> None:
        """Values without elements have memory, which nothing writes."""
        for m in nest.members:
            if m.slot is not None:
                self.allocate([m.slot])
                m.ready = True

    def _inplace(self, op: Opaque, dying: list[Slot]) -> None:
        """Lets an operation work on the buffer of an operand that dies here."""
        for i, o in op.inplace:
            old, new = op.ins[i].slot, op.outs[o].slot
            if old is None or new is None or old not in dying or old.bytes != new.bytes:
                continue
            if any(n.slot is old for n in buffers.reads_of(beside(op, i))):
                continue
            if old.role == new.role == self.ledger.table[old.number].role == "temp":
                new.alias, new.number = old, old.number
            elif not self._given(old, new):
                continue
            dying.remove(old)
            op.reused.add(o)

    def _given(self, old: Slot, new: Slot) -> bool:
        """Whether a value is made in its operand's buffer, that of a donated argument, or (a
        result) in that of a temporary, which from its beginning was the result's."""
        if self.prelude is not None or new.number in self.names:
            return False
        base = self.ledger.table[old.number]
        if base.role == "temp":
            if new.role != "out":
                return False
            steps = any(isinstance(s, plan.SwapStep) for s in self.steps)
            if base.bytes != new.bytes or steps or base in self.pinned:
                return False
            self.names[old.number] = new.number
            return True
        donated = any(d and s is base for s, d in zip(self.ins, self.donated, strict=False))
        if not donated or base.number in self.names.values() or self._is_result(base):
            return False
        if new.role == "temp":
            new.alias, new.number = base, base.number
        else:
            self.names[new.number] = base.number
        return True

    def _is_result(self, slot: Slot) -> bool:
        return any(n.slot is slot for n in self.outs)

    def _reuse(
        self, kernel: Kernel, keys: list[Slot], temps: list[Slot], dying: list[Slot]
    ) -> None:
        """In place: a new temporary takes a dying one's buffer when both are only touched at the
        same element."""
        found = None
        for new in temps:
            for old in list(dying):
                if (
                    old.role != "temp"
                    or old.bytes != new.bytes
                    or old.dtype != new.dtype
                    or new.number >= 0
                ):
                    continue
                found = buffers.accesses(kernel.body) if found is None else found
                place = dict(zip(keys, kernel.params, strict=True))
                if (
                    old in place
                    and new in place
                    and buffers.same_element(found.get(place[old], ()), found.get(place[new], ()))
                ):
                    new.alias, new.number = old, old.number
                    dying.remove(old)

    def allocate(self, slots: list[Slot]) -> None:
        """Gives temporaries buffers: free ones, or new ones."""
        steps = self.steps if self.prelude is None else self.prelude
        for slot in slots:
            if slot.number >= 0:
                continue
            if self.room is not None and self.prelude is None:
                steps += [plan.FreeStep(n) for n in self.ledger.drop(slot, self.room)]
            if self.ledger.take(slot):
                steps.append(plan.AllocStep(slot.number, max(64, slot.bytes)))

    def _kernel(self, unit: Any) -> Any:
        b = LoopBuilder(self.extents)
        if isinstance(unit, Nest):
            emit_nest(b, unit)
            name, work = "_".join(sorted({m.kind for m in unit.members})), unit.work
        else:
            assert unit.emit is not None
            unit.emit(b, unit)
            name, work = unit.name, unit.work
            for m in unit.outs:
                m.ready = True
        return self._close(b, name, work)

    def _close(self, b: LoopBuilder, name: str, work: float) -> Any:
        """The finished kernel of a builder, and what it is called with."""
        kernel, keys, dims, scalars = kernel_of(b, f"{name}{len(self.kernels)}", {"work": work})
        known = {v: n for n, v in b.dims.items()}
        body = columns_first(steps_inside(kernel.body, known), known)
        if body is not kernel.body:
            kernel = replaced(kernel, body=body)
        kernel = moved_as_integers(kernel)
        if "loops" in self.flags:
            print(show.show_kernel(kernel), file=sys.stderr)
        return kernel, keys, dims, scalars

    def _intern(self, kernel: Kernel, seconds: float, dims: tuple[int, ...], runs: float) -> int:
        key = canonical_text(kernel)
        number = self.keys.get(key)
        if number is None:
            if self.check:
                check_kernel(kernel)
            number = self.keys[key] = len(self.kernels)
            self.kernels.append(kernel)
            self.costs.append(seconds)
            if self.ready is not None:
                cost = Cost(self.work, self.seconds, seconds, dims, runs)
                self.ready(kernel, cost, len(self.units) == 1)
        return number

    def _host(self, op: Opaque) -> None:
        """A host step on NumPy views of slots."""

        def view(n: Node, aval: Any) -> tuple[int, tuple[int, ...], Any]:
            assert n.slot is not None
            return n.slot.number, n.shape, aval

        ins = tuple(view(n, a) for n, a in zip(op.ins, op.host_ins, strict=True))
        avals = [a for a in op.host_outs if spec_of(a) is not None]
        outs = tuple(view(n, a) for n, a in zip(op.outs, avals, strict=True))
        self.steps.append(plan.HostStep(len(self.host)))
        assert op.host is not None
        self.host.append(plan.HostCall(op.host, ins, outs, op.name, op.equation))
        for m in op.outs:
            m.ready = True


def _equation(unit: Any) -> int:
    """The number of the equation that errors of a unit name."""
    return int(unit.members[0].equation if isinstance(unit, Nest) else unit.equation)


def _equations(unit: Any) -> list[int]:
    """The numbers of all equations that a unit computes: its values, and those that it reads
    without their being in memory."""
    own = unit.members if isinstance(unit, Nest) else unit.outs
    stack, seen = [*own] if isinstance(unit, Nest) else [*own, *unit.ins], set()
    while stack:
        node = stack.pop()
        if node in seen or (node.slot is not None and node not in own):
            continue
        seen.add(node)
        deps = node.red.deps if node.kind == "red" and node.red is not None else node.deps
        stack += [dep for dep, _ in deps]
    found = {node.equation for node in seen} | {_equation(unit)}
    return sorted(k for k in found if k >= 0)


def _work(unit: Any) -> float:
    return float(unit.work) if isinstance(unit, Nest) else max(unit.work, 1.0)
