"""Steps of loops and branches whose bodies hold host or library steps.

A loop's body is planned like a program of its own: its kernels and host steps stand between jumps.
Buffers that it needs are allocated before the outermost loop begins, so that no iteration
allocates. The rules in lower/stepwise.py say what a loop consists of; `Looping` writes it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pullback.loops import buffers, plan
from pullback.loops.fuse import plan_units, seconds_of
from pullback.loops.lower.graph import Graph, Node, Slot
from pullback.loops.stacked import whole_slot

__all__ = ["Label", "Looping", "last_uses", "resolve"]

SWAP_FROM = 256  # bytes; less is copied


class Label:
    """A place between steps; stands in the list of steps until `resolve`."""


def last_uses(units: Sequence[Any], outs: Sequence[Node]) -> dict[Slot, int]:
    """The number of the last unit that touches each slot's memory; of results, one past the last
    unit."""
    last: dict[Slot, int] = {}
    for index, unit in enumerate(units):
        for node in [*buffers.reads_of(unit), *buffers.unit_values(unit)]:
            if node.slot is not None:
                last[whole_slot(node.slot)] = index
    for n in outs:
        if n.slot is not None:
            last[n.slot] = len(units)
    return last


def resolve(steps: Sequence[Any]) -> list[plan.Step]:
    """The steps without labels, jumps to numbers."""
    where: dict[Label, int] = {}
    count = 0
    for s in steps:
        if isinstance(s, Label):
            where[s] = count
        else:
            count += 1
    out: list[plan.Step] = []
    for s in steps:
        if isinstance(s, plan.JumpStep):
            s = plan.JumpStep(where[s.pc])  # type: ignore[index]
        elif isinstance(s, plan.JumpIfNotStep):
            s = plan.JumpIfNotStep(s.slot, where[s.pc])  # type: ignore[index]
        if not isinstance(s, Label):
            out.append(s)
    return out


class Assembler(Protocol):
    """What writes a program's steps, as loops know it."""

    steps: list[Any]
    ledger: buffers.Ledger
    pinned: set[Slot]  # temporaries that are not to be given back
    origins: list[Any] | None  # of each kernel step, if anybody asked
    budget: float  # the seconds that the loop of steps takes which is being written
    scale: float  # how often its body runs

    def allocate(self, slots: list[Slot]) -> None: ...

    def unit(self, index: int, unit: Any, last: dict[Slot, int]) -> None: ...

    def number_constants(self) -> None: ...

    def give(self, slots: Sequence[Slot]) -> None: ...


class Looping:
    """Writes the steps of one loop or branch into an assembler's list."""

    def __init__(self, asm: Assembler) -> None:
        self.asm, self.steps, self.ledger, self.pinned = asm, asm.steps, asm.ledger, asm.pinned

    def temp(self, dtype: str, shape: tuple[int, ...]) -> Slot:
        """A buffer that stays until `release`."""
        slot = Slot(dtype, shape, "temp")
        self.asm.allocate([slot])
        self.pin([slot])
        return slot

    def pin(self, slots: Sequence[Slot]) -> None:
        self.pinned.update(buffers.base_of(s) for s in slots)

    def unpin(self, slots: Sequence[Slot]) -> None:
        self.pinned.difference_update(buffers.base_of(s) for s in slots)

    def release(self, slots: Sequence[Slot]) -> None:
        """Gives temporaries back."""
        for slot in dict.fromkeys(buffers.base_of(s) for s in slots):
            if slot.role == "temp":
                self.pinned.discard(slot)
                self.ledger.give(slot)

    def run(
        self,
        graph: Graph,
        outs: Sequence[Node],
        into: Sequence[Slot | None] = (),
        mutable: Sequence[Slot] = (),
    ) -> tuple[list[Slot], list[Slot]]:
        """The units of a graph: where its results are, and which temporaries of its own hold them.

        `into` says where results should be if that can be had for nothing; the buffers `mutable`
        may be overwritten once they have been read for the last time.
        """
        units = plan_units(graph, outs)
        for node, slot in zip(outs, into, strict=False):
            if slot is not None and node.slot is None and node.kind != "leaf":
                node.slot = slot
        self.asm.number_constants()
        own = set(buffers.assign_slots(units, []))
        own.update(mutable)
        last = {s: k for s, k in last_uses(units, outs).items() if s in own}
        scale, once = self.asm.scale, sum(seconds_of(u, True) for u in units)
        self.asm.scale = self.asm.budget / once if once else 1.0
        for index, unit in enumerate(units):
            self.asm.unit(index, unit, last)
        self.asm.scale = scale
        places: list[Slot] = []
        for n in outs:
            assert n.slot is not None
            places.append(n.slot)
        held = {buffers.base_of(s) for s in mutable}
        mine = [s for s in dict.fromkeys(places) if s in own and buffers.base_of(s) not in held]
        self.pin(mine)
        return places, mine

    def settle(self, places: Sequence[Slot], into: Sequence[Slot]) -> None:
        """Copies results to where they are wanted; none of them is where another goes."""
        for place, slot in zip(places, into, strict=True):
            if place.number != slot.number and slot.bytes:
                self.steps.append(plan.CopyStep(slot.number, place.number, slot.bytes))

    def advance(
        self, carries: Sequence[Slot], places: Sequence[Slot], mine: Sequence[Slot]
    ) -> None:
        """The next values, which are at `places`, become the carries: large ones by exchanging
        buffers."""
        numbers = {c.number for c in carries}
        free = {s.number for s in mine}
        staged: list[Slot] = []
        moves: list[tuple[Slot, Slot, bool]] = []
        for carry, place in zip(carries, places, strict=True):
            if place.number == carry.number or not carry.bytes:
                continue
            source, swaps = place, False
            if place.number in numbers:
                source = self.temp(carry.dtype, carry.shape)
                staged.append(source)
                self.steps.append(plan.CopyStep(source.number, place.number, carry.bytes))
            elif place.number in free:
                same = self._capacity(place) == self._capacity(carry)
                swaps = same and carry.role == "temp" and carry.bytes >= SWAP_FROM
                free.discard(place.number)
            moves.append((carry, source, swaps))
        # A result that is also another carry's is copied while it is still in its place.
        for carry, source, swaps in sorted(moves, key=lambda m: m[2]):
            step = plan.SwapStep(carry.number, source.number)
            copy = plan.CopyStep(carry.number, source.number, carry.bytes)
            self.steps.append(step if swaps else copy)
        self.release(staged)

    def _capacity(self, slot: Slot) -> int:
        return self.ledger.table[slot.number].bytes

    def label(self) -> Label:
        return Label()

    def mark(self, label: Label) -> None:
        self.steps.append(label)

    def jump(self, label: Label) -> None:
        self.steps.append(plan.JumpStep(label))  # type: ignore[arg-type]

    def jump_if_not(self, slot: Slot, label: Label) -> None:
        self.steps.append(plan.JumpIfNotStep(slot.number, label))  # type: ignore[arg-type]
