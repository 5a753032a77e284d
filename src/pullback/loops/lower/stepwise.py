"""Loops and branches whose bodies need Python or a library: their steps stand in the plan, between
jumps.

Every carry has a buffer. The body's kernels and host steps make the next values in buffers of their
own, or in place where a carry is not read again; then the two are exchanged. A scan counts its
iterations in a buffer, too: kernels read the row of that number, and write it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import breaks_of
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, broadcast, literal, zipped
from pullback.loops.lower.graph import Graph, Node, Opaque, Slot, read, store_slot
from pullback.loops.lower.guarded import updated_where
from pullback.loops.lower.program_hook import add_program
from pullback.loops.lower.reduce import reduce_one
from pullback.loops.lower.statements import box

__all__ = ["choose", "cond_steps", "scan_steps", "while_steps"]

STEP_WORK = 1000.0  # of an iteration, in scalar operations: a host step takes microseconds
DIRECT = 4096  # bytes; a carry up to here lives in its result's buffer, whatever that is


def choose(g: Graph, pred: Node, new: Node, old: Node) -> Node:
    """new where pred, whose axes are the leading ones, else old."""
    found = updated_where(g, pred, tuple(range(len(pred.shape))), new, old)
    if found is not None:
        return found
    wide = broadcast(g, pred, new.shape, tuple(range(len(pred.shape))))

    def pick(b: Builder, p: Atom, x: Any, y: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(b.select(p, u, v) for u, v in zip(x, y, strict=True))
        return b.select(p, x, y)

    return zipped(g, [wide, new, old], new.shape, new.dtype, pick)


def _is_literal(x: Node) -> bool:
    return not x.shape and getattr(x.at, "literal", None) is not None


def _operand(graph: Graph, x: Node) -> Node:
    """A value of the surrounding program in a body's graph; by now it is in memory."""
    if _is_literal(x):
        return graph.pointwise((), x.dtype, [], x.at, 0.0)  # type: ignore[arg-type]
    assert x.slot is not None
    return graph.leaf(x.slot, x.shape, x.dtype)


def _stepped(
    g: Graph,
    name: str,
    ins: Sequence[Node],
    outs: Outs,
    work: float,
    effect: bool,
    write: Callable[[Any, Opaque, Callable[[], Graph]], None],
) -> list[Node]:
    """An operation that `write(steps, op, new_graph)` turns into steps when its turn comes."""
    real = [x for x in ins if not _is_literal(x)]
    op = Opaque(name, real, ["buffer"] * len(real), work=work, effect=effect, holds_host=True)
    equation = g.equation

    def graph() -> Graph:
        new = Graph(extents=g.extents)
        new.options, new.equation = g.options, equation
        return new

    op.steps = lambda steps: write(steps, op, graph)
    return g.opaque(op, outs)


def _start(
    steps: Any, op: Opaque, init: Sequence[Node], new_graph: Callable[[], Graph], count: bool
) -> list[Slot]:
    """Buffers that hold the initial carries, and a counter at 0 last if there is to be one."""
    carries: list[Slot] = []
    for k in range(len(init)):
        slot = op.outs[k].slot
        assert slot is not None
        if slot.role != "temp" and slot.bytes > DIRECT:
            slot = steps.temp(op.outs[k].dtype, slot.shape)
        carries.append(slot)
    graph = new_graph()
    values = [_operand(graph, x) for x in init]
    if count:
        values.append(literal(graph, 0, "i32"))
        carries.append(steps.temp("i32", ()))
    steps.pin(carries)
    places, _ = steps.run(graph, values, carries)
    steps.settle(places, carries)
    return carries


def _finish(steps: Any, op: Opaque, carries: Sequence[Slot], more: Sequence[Slot]) -> None:
    """The carries are the results."""
    outs = [op.outs[k].slot for k in range(len(carries))]
    steps.settle(carries, outs)
    steps.release([*(c for c, out in zip(carries, outs, strict=True) if c is not out), *more])
    steps.unpin(outs)


def while_steps(
    g: Graph, ins: Sequence[Node], outs: Outs, params: dict[str, Any], work: float
) -> list[Node]:
    """A `while`: test, leave or go on, body, back."""
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, init = ins[:nc], ins[nc : nc + nb], ins[nc + nb :]
    batched = bool(test.jaxpr.outvars[0].aval.shape)

    def predicate(graph: Graph, leaves: Sequence[Node]) -> Node:
        return add_program(graph, test, [*(_operand(graph, x) for x in cond_consts), *leaves])[0]

    def write(steps: Any, op: Opaque, new_graph: Callable[[], Graph]) -> None:
        def leaves(graph: Graph) -> list[Node]:
            return [graph.leaf(s, n.shape, n.dtype) for s, n in zip(carries, init, strict=True)]

        carries = _start(steps, op, init, new_graph, False)
        flag = steps.temp("bool", ())
        top, end = steps.label(), steps.label()
        steps.mark(top)
        graph = new_graph()
        pred = predicate(graph, leaves(graph))
        if batched:  # the loop goes on while any lane's predicate holds
            pred = reduce_one(graph, "or", pred, tuple(range(len(pred.shape))))
        places, mine = steps.run(graph, [pred], [flag])
        steps.settle(places, [flag])
        steps.release([s for s in mine if s is not flag])
        steps.jump_if_not(flag, end)
        graph = new_graph()
        old = leaves(graph)
        new = add_program(graph, body, [*(_operand(graph, x) for x in body_consts), *old])
        if batched:  # lanes whose predicate is false keep their carries
            alive = predicate(graph, old)
            new = [choose(graph, alive, x, y) for x, y in zip(new, old, strict=True)]
        places, mine = steps.run(graph, new, mutable=carries)
        steps.advance(carries, places, mine)
        steps.release(mine)
        steps.jump(top)
        steps.mark(end)
        _finish(steps, op, carries, [flag])

    effect = bool(getattr(body, "effects", ())) or bool(getattr(test, "effects", ()))
    return _stepped(g, "while", ins, outs, 64 * (work + STEP_WORK), effect, write)


def _row(graph: Graph, x: Node, counter: Node, length: int, reverse: bool) -> Node:
    """The row of an array that the counter says."""
    leaf = _operand(graph, x)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(leaf, b, (_place(b, counter, length, reverse), *idx))

    axes = (None, *range(len(x.shape) - 1))
    return graph.pointwise(x.shape[1:], x.dtype, [(leaf, axes), (counter, ())], at, 1.0)


def _place(b: Builder, counter: Node, length: int, reverse: bool) -> Index:
    i = b.to_index(read(counter, b, ()), 0, length - 1)
    return b.sub(length - 1, i) if reverse else i


def _put_row(graph: Graph, y: Node, counter: Node, out: Node, length: int, reverse: bool) -> None:
    """An operation that writes a value into its row of a stacked result."""

    def emit(b: Builder, op: Opaque) -> None:
        value, count = op.ins
        place = _place(b, count, length, reverse)

        def one(idx: tuple[Index, ...]) -> None:
            assert out.slot is not None
            element = read(value, b, idx)
            store_slot(b, out.slot, out.shape, out.dtype, (place, *idx), element)

        broken = () if value.slot is not None or value.root else breaks_of(value)
        box(b, value.shape, one, "vector", broken, cost=max(2.0, value.cost))

    op = Opaque("row", [y, counter], ["once", "buffer"], emit=emit, effect=True, work=y.size)
    graph.opaque(op, [])


def scan_steps(
    g: Graph, ins: Sequence[Node], outs: Outs, params: dict[str, Any], work: float
) -> list[Node]:
    """A `scan`: body with rows, count, leave or go back."""
    length, reverse, body = params["length"], params["reverse"], params["jaxpr"]
    nk, nc = params["num_consts"], params["num_carry"]
    consts, init, xs = ins[:nk], ins[nk : nk + nc], ins[nk + nc :]

    def write(steps: Any, op: Opaque, new_graph: Callable[[], Graph]) -> None:
        carries = _start(steps, op, init, new_graph, True)
        if length:
            iterate(steps, op, new_graph(), carries)
        _finish(steps, op, carries[:-1], carries[-1:])

    def iterate(steps: Any, op: Opaque, graph: Graph, carries: list[Slot]) -> None:
        flag = steps.temp("bool", ())
        top, end = steps.label(), steps.label()
        steps.mark(top)
        old = [graph.leaf(s, n.shape, n.dtype) for s, n in zip(carries, init, strict=False)]
        counter = graph.leaf(carries[-1], (), "i32")
        rows = [_row(graph, x, counter, length, reverse) for x in xs]
        new = add_program(graph, body, [*(_operand(graph, x) for x in consts), *old, *rows])
        for y, out in zip(new[nc:], op.outs[nc:], strict=True):
            _put_row(graph, y, counter, out, length, reverse)
        count = zipped(
            graph, [counter], (), "i32", lambda b, i: b.let("add", (i, Const(1, "i32")), "i32")
        )
        more = zipped(
            graph,
            [count],
            (),
            "bool",
            lambda b, i: b.let("lt", (i, b.const(length, "i32")), "bool"),
        )
        last = len(new[:nc]) + 1
        places, mine = steps.run(
            graph, [*new[:nc], count, more], [*[None] * last, flag], mutable=carries
        )
        steps.settle(places[last:], [flag])
        steps.advance(carries, places[:last], mine)
        steps.release([s for s in mine if s is not flag])
        steps.jump_if_not(flag, end)
        steps.jump(top)
        steps.mark(end)
        steps.release([flag])

    effect = bool(getattr(body, "effects", ()))
    return _stepped(g, "scan", ins, outs, length * (work + STEP_WORK), effect, write)


def cond_steps(
    g: Graph, ins: Sequence[Node], outs: Outs, params: dict[str, Any], work: float
) -> list[Node]:
    """A `cond`: a flag for each branch but the last, which jumps skip."""
    which, operands, branches = ins[0], ins[1:], params["branches"]

    def flags(graph: Graph) -> list[Node]:
        index = _operand(graph, which)
        if index.dtype == "bool":
            invert = lambda b, p: b.let("not", (p,), "bool")
            return [zipped(graph, [index], (), "bool", invert)]

        def first(k: int) -> Callable[[Builder, Atom], Atom]:
            return lambda b, i: b.let("le", (i, b.const(k, index.dtype)), "bool")

        return [zipped(graph, [index], (), "bool", first(k)) for k in range(len(branches) - 1)]

    def write(steps: Any, op: Opaque, new_graph: Callable[[], Graph]) -> None:
        graph = new_graph()
        cells = [steps.temp("bool", ()) for _ in branches[1:]]
        places, _ = steps.run(graph, flags(graph), cells)
        steps.settle(places, cells)
        results = [n.slot for n in op.outs]
        steps.pin([s for s in results if s.role == "temp"])  # type: ignore[union-attr]
        end = steps.label()
        for k, branch in enumerate(branches):
            skip = steps.label()
            if k < len(cells):
                steps.jump_if_not(cells[k], skip)
            graph = new_graph()
            values = add_program(graph, branch, [_operand(graph, x) for x in operands])
            places, mine = steps.run(graph, values, results)
            steps.settle(places, results)
            steps.release(mine)
            if k < len(cells):
                steps.jump(end)
            steps.mark(skip)
        steps.mark(end)
        steps.release(cells)
        steps.unpin(results)

    effect = any(bool(getattr(b, "effects", ())) for b in branches)
    return _stepped(g, "cond", ins, outs, work + STEP_WORK, effect, write)
