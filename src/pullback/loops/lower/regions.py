"""What regions consist of: the program inside, its scope, rows of stacked results as buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import plan_units, seconds_of
from pullback.loops.lower.graph import Graph, Node, Opaque, Slot
from pullback.loops.lower.program_hook import add_program

__all__ = ["Body", "Entered", "RowSlot"]


class Body:
    """A program inside a region. `leaves` are its operands as nodes of its own graph."""

    def __init__(
        self,
        g: Graph,
        closed: Any,
        make: Callable[[Graph], list[Node]],
        then: Callable[[Body], list[Node]] | None = None,
        repeats: bool = True,
    ) -> None:
        self.graph = Graph(parent=g)
        self.graph.repeats = repeats
        self.graph.options, self.graph.equation = g.options, g.equation
        self.leaves = make(self.graph)
        self.outs: list[Node] = add_program(self.graph, closed, self.leaves)
        if then is not None:
            self.outs = then(self)
        self.units: list[Any] = []

    def plan(self) -> bool:
        """Plans the units; false if the body needs Python."""
        arrays = [n for n in self.outs if n.shape]
        scalars = [n for n in self.outs if not n.shape]
        self.units = plan_units(self.graph, arrays, scalars)
        return not any(isinstance(u, Opaque) and u.holds_host for u in self.units)

    @property
    def work(self) -> float:
        return 1.0 + sum(float(u.work) for u in self.units)

    @property
    def seconds(self) -> float:
        """How long the body takes once; each unit at least as long as a loop takes to begin."""
        return sum(max(1e-8, seconds_of(u, self.graph.repeats)) for u in self.units)


class Entered:
    """Inside a region: loads stay inside it, and masks start anew."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __enter__(self) -> None:
        b = self.b
        self.saved = b.region_level, b.mask
        b.region_level, b.mask = b.depth, None

    def __exit__(self, *_: Any) -> None:
        self.b.region_level, self.b.mask = self.saved


class RowSlot(Slot):
    """One row of a stacked array, as a buffer: its elements start at row number * row size."""

    __slots__ = ("parent", "place")

    def __init__(self, parent: Slot, node: Node, place: list[Index]) -> None:
        super().__init__(node.dtype, node.shape, "temp")
        self.parent, self.place = parent, place

    def buf(self, b: Builder) -> Any:
        return self.parent.buf(b)

    def base(self, b: Builder) -> Index:
        return b.add(b.mul(self.place[0], self.size), self.parent.base(b))
