"""Control flow as regions: `while`, `scan` and `cond` are one kernel each, with native loops and
branches inside.

Scalar carries live in registers. An array carry lives in the buffer of its result (carries.py).
Rows of a scan's stacked results are written where they belong. A body that needs Python or a
library becomes steps of the plan instead (stepwise.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import counted_cheaply
from pullback.loops.ir import Atom
from pullback.loops.lower.carries import (
    Carry,
    kept_buffers,
    make_in_place,
    separate,
    settle_turns,
    take_in_place,
)
from pullback.loops.lower.elementwise import Outs, rule
from pullback.loops.lower.graph import (
    COMPLEX,
    Graph,
    Node,
    Opaque,
    OuterSlot,
    Slot,
    load_slot,
    no_value,
    read,
    store_slot,
)
from pullback.loops.lower.program_hook import add_program
from pullback.loops.lower.reduce import reduce_one
from pullback.loops.lower.regions import Body, Entered, RowSlot
from pullback.loops.lower.registers import (
    Registers,
    atoms_of,
    elements,
    hold,
    spill,
)
from pullback.loops.lower.search import searched
from pullback.loops.lower.shape import reshape, sliced
from pullback.loops.lower.statements import copy_into, emit_units, give_scratch, value_at
from pullback.loops.lower.stepwise import choose, cond_steps, scan_steps, while_steps


def in_register(node: Node) -> bool:
    """Whether a carry is a scalar kept in a register."""
    return not node.shape


class Cell:
    """The register of a scalar carry: the leaf reads whatever atom is current."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.value: Any = None

    def leaf(self, g: Graph) -> Node:
        return g.computed_leaf((), self.dtype, lambda b, idx: self.value)

    @property
    def parts(self) -> int:
        return 2 if self.dtype in COMPLEX else 1


def _hold(b: Builder, held: Held) -> None:
    """Reads the scalars that a region uses."""
    for cell, x in held:
        cell.value = read(x, b, ())


def _flat(values: Sequence[Any]) -> list[Atom]:
    return [a for v in values for a in (v if isinstance(v, tuple) else (v,))]


def _regroup(cells: Sequence[Cell], atoms: Sequence[Atom]) -> None:
    """Sets the registers from a flat list of atoms."""
    it = iter(atoms)
    for c in cells:
        c.value = next(it) if c.parts == 1 else tuple(next(it) for _ in range(c.parts))


Held = list[tuple[Cell, Node]]


def outer_leaf(g: Graph, x: Node, held: Held) -> Node:
    """A value of the surrounding program as an operand of a region's graph. Scalars are read once,
    before the region."""
    literal = getattr(x.at, "literal", None)
    if x.slot is None and literal is not None and not x.shape:
        return g.pointwise((), x.dtype, [], x.at, 0.0)  # type: ignore[arg-type]
    if not x.shape:
        cell = Cell(x.dtype)
        held.append((cell, x))
        return cell.leaf(g)
    if counted_cheaply(x):
        return g.pointwise(x.shape, x.dtype, [], lambda b, idx: read(x, b, idx))
    return g.leaf(OuterSlot(x), x.shape, x.dtype)


def _mode(x: Node) -> str:
    """How a region takes a value of the surrounding program: arrays must be in memory, unless they
    only count."""
    if not x.shape:
        return "scalar"
    return "once" if counted_cheaply(x) else "buffer"


def _host_if(g: Graph, bodies: Sequence[Body], programs: Sequence[Any]) -> bool:
    planned = [body.plan() for body in bodies]  # each one is planned, whatever the others say
    if not all(planned):
        g.options.stepwise.update({id(p): p for p in programs})
    return not all(planned)


def _known(g: Graph, programs: Sequence[Any]) -> bool:
    """Whether a body has been found to hold host steps."""
    return any(id(p) in g.options.stepwise for p in programs)


class Carries:
    """The carries of a loop: scalars and small arrays in registers, other arrays in the buffers of
    the loop's results. The registers of one iteration are a flat list of atoms: the scalars, then
    the elements of the arrays."""

    def __init__(self, init: Sequence[Node]) -> None:
        self.init = init
        self.scalars = [k for k, n in enumerate(init) if in_register(n)]
        self.cells = [Cell(init[k].dtype) for k in self.scalars]
        self.arrays: list[int] = []  # in buffers
        self.small: Sequence[int] = ()  # arrays in registers

    def leaves(self, graph: Graph) -> list[Node]:
        """The carries as operands of a region's graph."""
        cells = iter(self.cells)
        return [
            next(cells).leaf(graph) if in_register(n) else graph.add(Node(n.shape, n.dtype, "leaf"))
            for n in self.init
        ]

    def keep(self, small: Sequence[int]) -> None:
        """These arrays are in registers."""
        self.small = small
        self.arrays = [k for k, n in enumerate(self.init) if not in_register(n) and k not in small]

    def counted(self, which: Iterable[int]) -> list[tuple[Cell, int]]:
        """Takes out the scalars that are the loop's own index: their cells and numbers."""
        pairs = list(zip(self.cells, self.scalars, strict=True))
        self.cells = [c for c, k in pairs if k not in which]
        self.scalars = [k for _, k in pairs if k not in which]
        return [(c, k) for c, k in pairs if k in which]

    def start(self, b: Builder) -> list[Atom]:
        """The registers before the first iteration."""
        atoms = _flat([read(self.init[k], b, ()) for k in self.scalars])
        for k in self.small:
            atoms += elements(b, self.init[k])
        return atoms

    def buffers(self, b: Builder, op: Opaque) -> list[Slot]:
        """The results' buffers, holding the initial carries."""
        slots = []
        for k in self.arrays:
            slot = op.outs[k].slot
            assert slot is not None
            if k not in op.reused:
                copy_into(b, self.init[k], slot)
            slots.append(slot)
        return slots

    def hold(self, leaves: Sequence[Node], atoms: Sequence[Atom]) -> None:
        """The carries of an iteration are these."""
        _regroup(self.cells, atoms)
        for k, own in self._elements(leaves, atoms):
            hold(leaves[k], own)

    def store(self, b: Builder, op: Opaque, finals: Sequence[Atom]) -> None:
        """After the loop: the registers go to the buffers of the results."""
        _regroup(self.cells, finals)
        _store_scalars(b, op, self.scalars, self.cells)
        for k, own in self._elements(op.outs, finals):
            spill(b, own, op.outs[k])

    def _elements(
        self, nodes: Sequence[Node], atoms: Sequence[Atom]
    ) -> Iterator[tuple[int, Sequence[Atom]]]:
        at = len(atoms) - sum(atoms_of(nodes[k]) for k in self.small)
        for k in self.small:
            size = atoms_of(nodes[k])
            yield k, atoms[at : at + size]
            at += size


def _store_scalars(b: Builder, op: Opaque, where: Sequence[int], cells: Sequence[Cell]) -> None:
    for k, cell in zip(where, cells, strict=True):
        out = op.outs[k]
        assert out.slot is not None
        store_slot(b, out.slot, (), out.dtype, (), cell.value)


@rule("while")
def _while(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    programs = [params["cond_jaxpr"], params["body_jaxpr"]]
    if _known(g, programs):
        return while_steps(g, ins, outs, params, 0.0)
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = ins[:nc], ins[nc : nc + nb]
    carries, held = Carries(ins[nc + nb :]), Held()
    cond, body = _while_bodies(g, params, cond_consts, body_consts, carries, held)
    for leaf, out in zip(body.leaves[nb:], body.outs, strict=True):
        separate(body.graph, leaf, out, body.outs)
    if _host_if(g, [cond, body], programs):
        return while_steps(g, ins, outs, params, cond.work + body.work)
    cond_leaves, body_leaves = cond.leaves[nc:], body.leaves[nb:]
    tests = Registers(cond.units, [(k, x, x) for k, x in enumerate(cond_leaves) if x.shape])
    kept = Registers(
        body.units,
        [(k, body_leaves[k], body.outs[k]) for k in tests.carries],
    )
    carries.keep(kept.carries)

    def emit(b: Builder, op: Opaque) -> None:
        _hold(b, held)
        start = carries.start(b)  # numbers, before anything is written
        slots = carries.buffers(b, op)
        for k, slot in zip(carries.arrays, slots, strict=True):
            cond_leaves[k].slot, cond_leaves[k].ready = slot, True
        carry = _carry(body, body_leaves, carries, slots)
        carry.bind(b)
        give_scratch(b, cond.units, tests.values)
        give_scratch(b, body.units, kept.values)

        def test(atoms: list[Atom]) -> Atom:
            carries.hold(cond_leaves, atoms)
            with Entered(b):
                emit_units(b, cond.units, tests.short)
                return value_at(cond.outs[0], b)

        def step(atoms: list[Atom]) -> list[Atom]:
            carries.hold(body_leaves, atoms)
            with Entered(b):
                return _run_body(b, body, carry, carries.scalars, [], kept)

        # The registers hold the loop's own variables while its regions are written.
        finals = b.while_loop(start, test, step)
        settle_turns(b, carry)
        carries.store(b, op, finals)

    op = Opaque(
        "while",
        list(ins),
        ["scalar" if not n.shape else "once" for n in ins],
        emit=emit,
        inplace=tuple((nc + nb + k, k) for k in carries.arrays),
        numbers_first=True,
        work=64 * (body.work + cond.work),
        seconds=64 * (body.seconds + cond.seconds),
    )
    _need_memory(op, [*cond_consts, *body_consts], ins)
    _ask(op, [cond, body])
    return g.opaque(op, outs)


def _while_bodies(
    g: Graph,
    params: dict[str, Any],
    cond_consts: Sequence[Node],
    body_consts: Sequence[Node],
    carries: Carries,
    held: Held,
) -> tuple[Body, Body]:
    """The test and the body of a while loop. The predicate may have axes (from vmap): the loop
    goes on while any of its lanes holds, and lanes whose own is false keep their carries."""

    def any_lane(made: Body) -> list[Node]:
        pred = made.outs[0]
        return (
            [reduce_one(made.graph, "or", pred, tuple(range(len(pred.shape))))]
            if pred.shape
            else [pred]
        )

    def frozen(made: Body) -> list[Node]:
        gr, old = made.graph, made.leaves[len(body_consts) :]
        pred = add_program(
            gr, params["cond_jaxpr"], [*(outer_leaf(gr, n, held) for n in cond_consts), *old]
        )[0]
        return [choose(gr, pred, new, kept) for new, kept in zip(made.outs, old, strict=True)]

    batched = bool(params["cond_jaxpr"].jaxpr.outvars[0].aval.shape)
    cond = Body(
        g,
        params["cond_jaxpr"],
        lambda gr: [*(outer_leaf(gr, n, held) for n in cond_consts), *carries.leaves(gr)],
        any_lane,
    )
    body = Body(
        g,
        params["body_jaxpr"],
        lambda gr: [*(outer_leaf(gr, n, held) for n in body_consts), *carries.leaves(gr)],
        frozen if batched else None,
    )
    return cond, body


def _carry(
    body: Body, leaves: Sequence[Node], carries: Carries, slots: Sequence[Slot], again: bool = True
) -> Carry:
    """The array carries that are in buffers, from iteration to iteration."""
    arrays = carries.arrays
    return Carry(body, [leaves[k] for k in arrays], [body.outs[k] for k in arrays], slots, again)


def _need_memory(op: Opaque, nodes: Sequence[Node], ins: Sequence[Node]) -> None:
    """Arrays that a region reads over and over must be in memory."""
    for k, n in enumerate(ins):
        if n.shape and any(n is m for m in nodes):
            op.modes[k] = _mode(n)


def _ask(op: Opaque, bodies: Sequence[Body]) -> None:
    """The values that bodies want from outside beyond their operands."""
    for body in bodies:
        op.ins += body.graph.hoisted
        op.modes += ["buffer"] * len(body.graph.hoisted)


def _run_body(
    b: Builder,
    body: Body,
    carry: Carry,
    scalars: Sequence[int],
    rows: Sequence[Callable[[Builder], None]],
    kept: Registers,
) -> list[Atom]:
    """One iteration inside its region: units, carries, stacked rows; the next carries that are in
    registers."""
    start = len(b.scopes[-1].stmts)
    emit_units(b, body.units, kept.short)
    results = _flat([value_at(body.outs[k], b) for k in scalars])
    for k in kept.carries:
        results += elements(b, body.outs[k])
    for row in rows:
        row(b)
    take_in_place(b, body, carry, start)
    carry.finish(b)
    return results


def _know(b: Builder, ix: Index) -> Atom:
    """An index as an atom whose bounds the builder keeps in mind."""
    atom = b.atom(ix)
    if not isinstance(ix, int):
        b.know(atom, ix)
    return atom


def _counters(
    closed: Any, init: Sequence[Node], nk: int, length: int
) -> dict[int, tuple[int, int]]:
    """Carries that only count: (first value, step) of each. They are the loop's own index, so
    that what they select lies within known bounds."""
    jaxpr = closed.jaxpr
    made = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    found = {}
    for k, x in enumerate(init):
        first = getattr(x.at, "literal", None)
        if x.shape or x.dtype not in ("i32", "i64") or type(first) is not int:
            continue
        eqn = made.get(jaxpr.outvars[k]) if not hasattr(jaxpr.outvars[k], "val") else None
        if eqn is None or eqn.primitive.name != "add" or eqn.invars[0] is not jaxpr.invars[nk + k]:
            continue
        step = getattr(eqn.invars[1], "val", None)
        if step is None:
            continue
        last = first + int(step) * length
        if -(1 << 31) <= min(first, last) and max(first, last) < 1 << 31:
            found[k] = (first, int(step))
    return found


def _no_element(dtype: str, b: Builder, idx: Any) -> Any:
    return no_value(dtype)


@rule("scan")
def _scan(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    """A scan whose body stacks one value twice, as a result and as a residual, stacks it once."""
    closed, nc = params["jaxpr"], params["num_carry"]
    stacked = closed.jaxpr.outvars[nc:]
    at: dict[int, int] = {}
    place = [at.setdefault(id(v), len(at)) for v in stacked]
    if len(at) == len(stacked):
        return _scan_once(g, ins, outs, params)
    key = ("stacked once", nc)
    known = getattr(closed, "derived", {})  # another library's programs remember nothing
    if key not in known:
        once = [v for k, v in enumerate(stacked) if place[k] not in place[:k]]
        outvars = [*closed.jaxpr.outvars[:nc], *once]
        known[key] = closed.replace(jaxpr=closed.jaxpr.replace(outvars=outvars))
    firsts = [out for k, out in enumerate(outs[nc:]) if place[k] not in place[:k]]
    smaller = {**params, "jaxpr": known[key]}
    found = _scan_once(g, ins, [*outs[:nc], *firsts], smaller)
    return [*found[:nc], *(found[nc + k] for k in place)]


UNROLLED = 256  # values of a loop that is unrolled because its program asks for that, at most
LARGE = 4096  # elements of a carry from which on it is worth a pass over memory less


def _by_element(body: Body, length: int) -> bool:
    """Whether a loop of few steps computes large carries element by element: without the loop,
    all steps of an element are computed at once and the carries are never in memory."""
    nodes = body.graph.nodes
    if len(nodes) * length > UNROLLED or max((n.size for n in body.outs), default=0) < LARGE:
        return False
    for node in nodes:
        simple = node.kind == "leaf" or (node.kind == "pw" and not node.own_breaks)
        if not simple or any(_moved(dep, axes) for dep, axes in node.deps):
            return False
    return True


def _moved(x: Node, axes: Any) -> bool:
    """Whether an operand is read elsewhere than at the element that is computed."""
    return axes is not None and x.size > 1 and axes != tuple(range(len(x.shape)))


def _unrolled(
    g: Graph,
    closed: Any,
    consts: Sequence[Node],
    carry: Sequence[Node],
    xs: Sequence[Node],
    steps: Sequence[int],
) -> list[Node]:
    """The carries after all steps of a loop, one after the other."""
    state = list(carry)
    for k in steps:
        rows = []
        for x in xs:
            first = sliced(g, x, (1, *x.shape[1:]), (k, *[0] * (len(x.shape) - 1)), None)
            rows.append(reshape(g, first, x.shape[1:]))
        state = add_program(g, closed, [*consts, *state, *rows])
    return state


def _scan_once(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    length, reverse = params["length"], params["reverse"]
    nk, nc = params["num_consts"], params["num_carry"]
    consts, init, xs = ins[:nk], ins[nk : nk + nc], ins[nk + nc :]
    if length == 0:  # the body is never run, and need not have a meaning
        return [*init, *_no_rows(g, outs[nc:])]
    blocks = searched(g, ins, outs, params)
    if blocks is not None:
        return blocks
    if _known(g, [params["jaxpr"]]):
        return scan_steps(g, ins, outs, params, 0.0)
    carries, held = Carries(init), Held()
    place: list[Index] = [0]

    def leaves(graph: Graph) -> list[Node]:
        return [
            *(outer_leaf(graph, n, held) for n in consts),
            *carries.leaves(graph),
            *(_row(graph, x, place) for x in xs),
        ]

    body = Body(g, params["jaxpr"], leaves)
    for leaf, out in zip(body.leaves[nk : nk + nc], body.outs, strict=False):
        separate(body.graph, leaf, out, body.outs, length > 1)
    if length <= int(params.get("unroll", 1)) and nc == len(outs) and _by_element(body, length):
        return _unrolled(g, params["jaxpr"], consts, init, xs, range(length)[:: 1 - 2 * reverse])
    if _host_if(g, [body], [params["jaxpr"]]):
        return scan_steps(g, ins, outs, params, body.work)
    kept = Registers(
        body.units,
        [(k, body.leaves[nk + k], body.outs[k]) for k, n in enumerate(init) if n.shape],
    )
    carries.keep(kept.carries)
    counters = _counters(params["jaxpr"], init, nk, length)
    counting = [(cell, *counters[k]) for cell, k in carries.counted(counters)]

    def emit(b: Builder, op: Opaque) -> None:
        _hold(b, held)
        start = carries.start(b)  # numbers, before anything is written
        slots = carries.buffers(b, op)
        carry = _carry(body, body.leaves[nk:], carries, slots, length > 1)
        carry.bind(b)
        rows = _stacked(body, op, range(nc, len(outs)), place, kept)
        give_scratch(b, body.units, kept.values)
        registers = [(a, b.var(a.dtype, b.depth + 1, "c")) for a in start]

        def step(ix: Index) -> list[Atom]:
            place[0] = b.sub(length - 1, ix) if reverse else ix
            carries.hold(body.leaves[nk:], [v for _, v in registers])
            with Entered(b):
                _know(b, place[0])
                for cell, first, by in counting:
                    cell.value = _count(b, ix, cell.dtype, first, by)
                return _run_body(b, body, carry, carries.scalars, rows, kept)

        finals = b.loop(length, "seq", step, registers)
        settle_turns(b, carry)
        carries.store(b, op, finals)
        for k, (first, by) in counters.items():
            slot = op.outs[k].slot
            assert slot is not None
            store_slot(b, slot, (), init[k].dtype, (), b.const(first + by * length, init[k].dtype))

    op = Opaque(
        "scan",
        list(ins),
        _scan_modes(consts, init, xs, body, body.leaves[nk + nc :]),
        emit=emit,
        inplace=tuple((nk + k, k) for k in carries.arrays),
        numbers_first=True,
        work=length * body.work,
        seconds=length * body.seconds,
        rows_in=range(nk + nc, len(ins)),
        rows_out=range(nc, len(outs)),
    )
    _ask(op, [body])
    return g.opaque(op, outs)


def _no_rows(g: Graph, outs: Outs) -> Iterator[Node]:
    """The stacked results of no iteration."""
    return (
        g.pointwise(shape, dtype, [], partial(_no_element, dtype), 0.0) for shape, dtype in outs
    )


def _row(graph: Graph, x: Node, place: list[Index]) -> Node:
    """The row of an operand that an iteration takes."""
    return graph.computed_leaf(
        x.shape[1:], x.dtype, lambda b, idx: read(x, b, (place[0], *idx)), origin=x
    )


def _count(b: Builder, ix: Index, dtype: str, first: int, by: int) -> Atom:
    """A carry that only counts, in iteration `ix`."""
    value = _know(b, b.add(b.mul(ix, by), first))
    return value if dtype == "i64" else b.let("convert", (value,), dtype)


def _scan_modes(
    consts: Sequence[Node],
    init: Sequence[Node],
    xs: Sequence[Node],
    body: Body,
    rows: Sequence[Node],
) -> list[str]:
    """How a scan takes its operands. Stacked ones are computed where their rows are read: if that
    is in one place and once, or costs little."""
    modes = [_mode(n) for n in consts]
    modes += ["scalar" if not n.shape else "once" for n in init]
    for x, row in zip(xs, rows, strict=True):
        again = x.kind == "pw" and row.shape and _read_again(body, row)
        modes.append("buffer" if x.kind == "red" else "many" if again else "once")
    return modes


def _read_again(body: Body, row: Node) -> bool:
    """Whether a step reads a row's elements more than once: in several places, as factors of a
    product, or stretched along other axes."""
    if row.users > 1 or row.reuse > 1:
        return True
    forms = {row}
    for node in body.graph.nodes:
        if node.live and any(dep in forms for dep, _ in node.deps):
            if node.size > row.size:
                return True
            if not node.root:
                forms.add(node)
    return False


def _stacked(
    body: Body, op: Opaque, ys: Sequence[int], place: list[Index], kept: Registers
) -> list[Callable[[Builder], None]]:
    """How each row of the stacked results is written: where it is made if possible, else by a copy
    at the end of the body."""
    rows: list[Callable[[Builder], None]] = []
    for k in ys:
        node, out = body.outs[k], op.outs[k]
        slot = out.slot
        assert slot is not None

        def write(b: Builder, node: Node = node, out: Node = out, slot: Slot = slot) -> None:
            if not node.shape:
                store_slot(b, slot, out.shape, out.dtype, (place[0],), read(node, b, ()))
                return
            view = RowSlot(slot, node, place)
            copy_into(b, node, view)

        in_registers = node in kept.values
        made = node.kind in ("pw", "red", "opq") and node.slot is None
        if node.shape and made and not in_registers:
            node.slot = RowSlot(slot, node, place)
        else:
            rows.append(write)
    return rows


@rule("cond")
def _cond(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    which, operands = ins[0], ins[1:]
    if _known(g, params["branches"]):
        return cond_steps(g, ins, outs, params, 0.0)
    held: Held = []
    bodies = [
        Body(g, br, lambda gr: [outer_leaf(gr, n, held) for n in operands], repeats=False)
        for br in params["branches"]
    ]
    if _host_if(g, bodies, params["branches"]):
        return cond_steps(g, ins, outs, params, max(body.work for body in bodies))
    scalars = [k for k, (shape, _) in enumerate(outs) if not shape]
    arrays = [k for k, (shape, _) in enumerate(outs) if shape]
    kept = kept_buffers(bodies, arrays)

    def emit(b: Builder, op: Opaque) -> None:
        _hold(b, held)
        index = read(which, b, ())

        def branch(k: int) -> Callable[[], list[Atom]]:
            def run() -> list[Atom]:
                body = bodies[k]
                with Entered(b):
                    copies = _branch_slots(body, op, arrays, kept)
                    give_scratch(b, body.units)
                    emit_units(b, body.units)
                    for node, slot in copies:
                        copy_into(b, node, slot)
                    return _flat([value_at(body.outs[j], b) for j in scalars])

            return run

        def choose(k: int) -> list[Atom]:
            if k == len(bodies) - 1:
                return branch(k)()
            if index.dtype == "bool":
                return b.branch(index, branch(1), branch(0))
            pred = b.let("le", (index, b.const(k, index.dtype)), "bool")
            return b.branch(pred, branch(k), lambda: choose(k + 1))

        values = choose(0)
        cells = [Cell(outs[k][1]) for k in scalars]
        _regroup(cells, values)
        _store_scalars(b, op, scalars, cells)

    modes = ["scalar", *map(_mode, operands)]
    work, seconds = (max(getattr(body, k) for body in bodies) for k in ("work", "seconds"))
    op = Opaque(
        "cond",
        list(ins),
        modes,
        emit=emit,
        inplace=tuple((1 + j, k) for k, j in kept.items()),
        numbers_first=True,
        work=work,
        seconds=seconds,
    )
    _ask(op, bodies)
    return g.opaque(op, outs)


def _branch_slots(
    body: Body, op: Opaque, arrays: Sequence[int], kept: dict[int, int]
) -> list[tuple[Node, Slot]]:
    """A branch makes its arrays in the results' buffers where it can; the rest is copied. What was
    given the buffer of an operand is changed there."""
    copies = []
    for k in arrays:
        node, slot = body.outs[k], op.outs[k].slot
        assert slot is not None
        if k in op.reused:
            make_in_place(body, body.leaves[kept[k]], node, slot)
        elif node.slot is None and node.kind in ("pw", "red", "opq"):
            node.slot = slot
        else:
            copies.append((node, slot))
    return copies


__all__ = ["Body", "RowSlot", "load_slot"]
