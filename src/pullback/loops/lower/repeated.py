"""Chains in a plan: the body's kernels are written once, and called for each iteration with its own
buffers and numbers.

The body is lowered and planned like a program of its own, with slots of made-up numbers for what
differs between iterations. Its steps are then written down once for each iteration, with that
iteration's slots in their places. Results get memory when their iteration makes them, operands
give theirs back after the last iteration that reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops import buffers, plan
from pullback.loops.build import Builder, Index
from pullback.loops.chains import Chain
from pullback.loops.fuse import plan_units, seconds_of
from pullback.loops.looping import last_uses
from pullback.loops.lower.elementwise import literal, zipped
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, Slot, part_dtype
from pullback.loops.lower.masked import nonzero
from pullback.loops.lower.program_hook import add_program

__all__ = ["add_chain"]

MADE_UP = 1 << 40  # numbers of slots from here on stand for what an iteration has in their place

Specs = Callable[[Any], Any]


class _Number:
    """Stands for a number in the arguments of the body's kernels."""

    __slots__ = ("operand", "part")

    def __init__(self, operand: int, part: str = "real") -> None:
        self.operand, self.part = operand, part


def _number(g: Graph, operand: int, dtype: str) -> Node:
    """An iteration's own number: an argument of the kernels that use it."""
    part = part_dtype(dtype)
    marks = [_Number(operand, "real"), _Number(operand, "imag")]

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        if dtype in COMPLEX:
            return tuple(b.argument(m, part) for m in marks)
        return b.argument(marks[0], part)

    return g.pointwise((), dtype, [], at, 0.0)


class _Body:
    """A chain's body, lowered and planned."""

    def __init__(
        self, g: Graph, chain: Chain, node_of: Callable[[Any], Node], spec_of: Specs
    ) -> None:
        self.chain, numbers = chain, itertools.count(MADE_UP)
        self.graph = Graph(extents=g.extents)
        self.graph.options, self.graph.equation = g.options, g.equation
        self.ins: list[Slot | None] = []
        leaves: list[Node] = []
        for k, (operand, v) in enumerate(zip(chain.operands, chain.body.invars, strict=True)):
            shape, dtype = spec_of(v.aval)
            if operand.number:
                self.ins.append(None)
                leaves.append(_number(self.graph, k, dtype))
                continue
            slot = Slot(dtype, shape, "in")
            slot.number = next(numbers)
            self.ins.append(slot)
            leaf = self.graph.leaf(slot, shape, dtype)
            if operand.carry < 0 and all(node_of(x).truth is not None for x in operand.values):
                leaf.truth = nonzero(self.graph, leaf)
            leaves.append(leaf)
        outs = add_program(self.graph, chain.body, leaves)
        self.outs = [self._own(n) for n in outs]
        self.into: list[Slot] = []
        for n in self.outs:
            slot = Slot(n.dtype, n.shape, "held")
            slot.number = next(numbers)
            self.into.append(slot)
        self.units = plan_units(self.graph, self.outs)
        self.work = sum(float(u.work) for u in self.units)
        self.seconds = sum(seconds_of(u, True) for u in self.units)

    @property
    def holds_host(self) -> bool:
        """Whether Python takes part in it."""
        return any(isinstance(u, Opaque) and u.holds_host and not u.gradual for u in self.units)

    def _own(self, node: Node) -> Node:
        """A result as something that can be stored."""
        if node.kind == "leaf" and node.slot is None:
            return zipped(self.graph, [node], node.shape, node.dtype, lambda b, x: x)
        return node

    def write(self, steps: Any) -> list[Any]:
        """The body's steps, taken out of the plan again."""
        asm, start = steps.asm, len(steps.steps)
        for node, slot in zip(self.outs, self.into, strict=True):
            if node.slot is None and node.kind != "leaf":
                node.slot = slot
        asm.number_constants()
        own = set(buffers.assign_slots(self.units, []))
        last = {s: k for s, k in last_uses(self.units, self.outs).items() if s in own}
        for index, unit in enumerate(self.units):
            asm.unit(index, unit, last)
        places = [n.slot for n in self.outs]
        steps.settle(places, self.into)
        steps.release([s for s in dict.fromkeys(places) if s in own])
        written = steps.steps[start:]
        del steps.steps[start:]
        return written  # type: ignore[no-any-return]


class _Copier:
    """Writes the body's steps for one iteration after the other."""

    def __init__(self, steps: Any, op: Opaque, body: _Body, outs: dict[tuple[int, int], Node],
                 ins: Sequence[list[Node]]) -> None:  # fmt: skip
        self.steps, self.asm, self.op, self.body = steps, steps.asm, op, body
        self.outs, self.ins = outs, ins
        self.pairs: dict[tuple[int, int], Slot] = {}
        self.dying = set(op.dying)

    def run(self) -> None:
        told = len(self.asm.origins or ())
        written = self.body.write(self.steps)
        if self.asm.origins:
            self.asm.origins += (self.body.chain.count - 1) * self.asm.origins[told:]
        held = self._hold(written)
        before: list[int] = []
        over = self._over()
        for t in range(self.body.chain.count):
            place = self._operands(t, before)
            before = self._results(t)
            place.update(zip((s.number for s in self.body.into), before, strict=True))
            self._copy(written, place, t)
            self.asm.give([s for s, end in over.items() if end == t])
        self.asm.ledger.free += held
        self.steps.release(list(self.pairs.values()))

    def _hold(self, written: Sequence[Any]) -> list[Slot]:
        """Keeps the body's temporaries from everybody else until the last iteration."""
        touched: set[int] = set()
        for s in written:
            if isinstance(s, plan.KernelStep | plan.LibStep):
                touched.update(s.bufs)
            elif isinstance(s, plan.CopyStep):
                touched.update((s.dst, s.src))
        free = self.asm.ledger.free
        held = [s for s in free if s.number in touched]
        free[:] = [s for s in free if s.number not in touched]
        return held

    def _over(self) -> dict[Slot, int]:
        """The buffers that nobody reads after the chain, and the last iteration that does."""
        over: dict[Slot, int] = {}
        chain = self.body.chain
        for operand, nodes in zip(chain.operands, self.ins, strict=True):
            for t, n in enumerate(nodes):
                assert n.slot is not None
                end = t if operand.carry >= 0 or len(nodes) > 1 else chain.count - 1
                if n.slot in self.dying:
                    over[n.slot] = max(end, over.get(n.slot, 0))
        return over

    def _operands(self, t: int, before: Sequence[int]) -> dict[int, int]:
        """Where the body's operands are in iteration t; `before` are the last one's results."""
        place: dict[int, int] = {}
        for slot, operand, nodes in zip(
            self.body.ins, self.body.chain.operands, self.ins, strict=True
        ):
            if slot is None:
                continue
            if operand.carry >= 0 and t:
                place[slot.number] = before[operand.carry]
                continue
            source = nodes[t if len(nodes) > 1 else 0].slot
            assert source is not None
            place[slot.number] = source.number
        return place

    def _results(self, t: int) -> list[int]:
        """Where iteration t leaves its results: what nobody reads later goes to one of two buffers
        in turn, since the next iteration reads the one while it writes the other."""
        numbers = []
        for j, slot in enumerate(self.body.into):
            node = self.outs.get((j, t))
            if node is not None:
                assert node.slot is not None
                self.asm.allocate([node.slot] if node.slot.role == "temp" else [])
                numbers.append(node.slot.number)
                continue
            pair = self.pairs.get((j, t % 2))
            if pair is None:
                pair = self.pairs[j, t % 2] = self.steps.temp(self.body.outs[j].dtype, slot.shape)
            numbers.append(pair.number)
        return numbers

    def _copy(self, written: Sequence[Any], place: dict[int, int], t: int) -> None:
        """The body's steps with an iteration's slots and numbers."""
        for s in written:
            if isinstance(s, plan.KernelStep):
                bufs = tuple([place.get(n, n) for n in s.bufs])
                scalars = self._scalars(s.scalars, t)
                s = plan.KernelStep(s.kernel, bufs, s.dims, scalars, s.equation)
            elif isinstance(s, plan.CopyStep):
                s = plan.CopyStep(place.get(s.dst, s.dst), place.get(s.src, s.src), s.bytes)
            self.steps.steps.append(s)

    def _scalars(self, scalars: Any, t: int) -> Any:
        if not any(type(v) is _Number for v, _ in scalars):
            return scalars
        operands = self.body.chain.operands
        found = []
        for v, dtype in scalars:
            if type(v) is _Number:
                v = getattr(operands[v.operand].values[t], v.part)
                v = float(v) if dtype[0] in "fb" and dtype != "bool" else int(v)
            found.append((v, dtype))
        return tuple(found)


def add_chain(
    g: Graph, chain: Chain, node_of: Callable[[Any], Node], spec_of: Specs
) -> list[tuple[Any, Node]]:
    """Adds a chain to a graph: the variables that others read and their values."""
    body = _Body(g, chain, node_of, spec_of)
    if body.holds_host:
        return _inlined(g, chain, node_of, spec_of)
    ins = [[] if o.number else [node_of(v) for v in o.values] for o in chain.operands]
    flat = list(dict.fromkeys(n for nodes in ins for n in nodes))
    op = Opaque(
        "repeat",
        flat,
        ["buffer"] * len(flat),
        work=chain.count * body.work,
        seconds=chain.count * body.seconds,
        holds_host=True,
    )
    wanted = [
        (j, t, v)
        for t in range(chain.count)
        for j, vs in enumerate(chain.results)
        if (v := vs[t]) is not None
    ]
    nodes = g.opaque(op, [spec_of(v.aval) for _, _, v in wanted])
    outs = {(j, t): n for (j, t, _), n in zip(wanted, nodes, strict=True)}
    op.gradual = True
    op.steps = lambda steps: _Copier(steps, op, body, outs, ins).run()
    return [(v, n) for (_, _, v), n in zip(wanted, nodes, strict=True)]


def _inlined(
    g: Graph, chain: Chain, node_of: Callable[[Any], Node], spec_of: Specs
) -> list[tuple[Any, Node]]:
    """The iterations one by one, where Python takes part in them."""
    found: list[tuple[Any, Node]] = []
    before: list[Node] = []
    for t in range(chain.count):
        args = []
        for operand, v in zip(chain.operands, chain.body.invars, strict=True):
            value = operand.values[t if len(operand.values) > 1 else 0]
            if operand.number:
                args.append(literal(g, value, spec_of(v.aval)[1]))
            else:
                args.append(before[operand.carry] if operand.carry >= 0 and t else node_of(value))
        before = add_program(g, chain.body, args)
        found += [(vs[t], n) for vs, n in zip(chain.results, before, strict=True) if vs[t]]
    return found
