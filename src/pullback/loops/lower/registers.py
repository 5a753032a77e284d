"""Which arrays of a loop's body stay in registers: those of a few elements that only short,
unrolled code touches. A carry of three numbers then costs what its arithmetic costs, not a trip
through memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder
from pullback.loops.fuse import Nest
from pullback.loops.ir import Atom
from pullback.loops.lower.graph import (
    COMPLEX,
    Node,
    Opaque,
    RegisterSlot,
    load_slot,
    read,
    store_slot,
)

__all__ = ["FEW", "Registers", "reads", "unit_reads"]

FEW = 16  # elements of an array in registers
UNROLLED = 1500.0  # work of one unit, in scalar operations
LANES = 4  # elements from which on costly operations are better done in lanes
COSTLY = 30.0  # what costs more is worth lanes
# Operations and loads of a unit that are worth lanes, if each element is computed of its own alone;
# in registers a step waits for arithmetic only, in lanes for the memory that the carry is in, too.
MUCH = 200.0
TOTAL = 64  # registers that one loop carries


def reads(node: Node, seen: set[Node], found: set[Node]) -> None:
    """The leaves and roots that computing a value reads."""
    if node in seen:
        return
    seen.add(node)
    for dep, _ in node.red.deps if node.kind == "red" and node.red is not None else node.deps:
        found.add(dep)
        if not dep.root and dep.kind != "leaf":
            reads(dep, seen, found)


def unit_reads(unit: Any) -> set[Node]:
    """Every value that a unit reads, inlined ones included."""
    found: set[Node] = set()
    seen: set[Node] = set()
    if isinstance(unit, Nest):
        for m in unit.members:
            reads(m, seen, found)
    else:
        for n in unit.ins:
            found.add(n)
            if not n.root and n.kind != "leaf":
                reads(n, seen, found)
    return found


def atoms_of(node: Node) -> int:
    """How many registers an array takes."""
    return node.size * (2 if node.dtype in COMPLEX else 1)


def _is_short(unit: Any) -> bool:
    """Whether a unit is unrolled: every loop of it has few iterations."""
    if isinstance(unit, Opaque):
        return bool(
            unit.name in ("update_slice", "scatter")
            and atoms_of(unit.outs[0]) <= FEW
            and 0 < unit.updates <= FEW
        )
    if any(m.kind != "pw" or atoms_of(m) > FEW for m in unit.members):
        return False
    if any(m.size > LANES and m.cost > COSTLY for m in unit.members):
        return False
    if _element_by_element(unit) and sum(map(_work, unit.members)) >= MUCH:
        return False
    # A single number is the same code in either way.
    unrolled = sum(m.size * max(m.cost, 1.0) for m in unit.members if m.size > 1)
    return bool(unrolled <= UNROLLED)


def _work(m: Node) -> float:
    """Operations and loads of a value."""
    found: set[Node] = set()
    reads(m, set(), found)
    return m.size * (m.cost + sum(bool(n.shape) for n in found))


def _element_by_element(unit: Nest) -> bool:
    """Whether a unit's values have more elements than a few, and compute each of them from that
    element of what they read, or from single numbers."""
    stack, seen = list(unit.members), set(unit.members)
    while stack:
        node = stack.pop()
        joined = node.parts is not None or node.padded is not None or node.own_breaks
        if node.size > 1 and (node.size <= LANES or len(node.shape) != 1 or joined):
            return False
        for dep, axes in node.deps:
            if dep.size > 1 and axes not in (None, (0,)):
                return False
            if dep not in seen and dep.kind == "pw":
                seen.add(dep)
                stack.append(dep)
    return True


class Registers:
    """What stays in registers in one body.

    `short` are the units that are unrolled, `values` the results of such units that nobody else
    reads, `carries` the numbers of the carries that only they read and make.
    """

    def __init__(
        self, units: Sequence[Any], carries: Sequence[tuple[int, Node, Node]], others: Any = ()
    ) -> None:
        self.short = {u for u in units if _is_short(u)}
        outside: set[Node] = set()
        for u in [*units, *others]:
            if u not in self.short:
                outside |= unit_reads(u)
        self.values = {
            m
            for u in self.short
            for m in (u.members if isinstance(u, Nest) else u.outs)
            if m.shape and m not in outside
        }
        made = {m for u in units if u not in self.short for m in _made(u)}
        self.carries: list[int] = []
        free = TOTAL
        for k, leaf, out in carries:
            size = atoms_of(leaf)
            if 0 < size <= min(FEW, free) and leaf not in outside and out not in made:
                self.carries.append(k)
                free -= size


def _made(unit: Any) -> Sequence[Node]:
    return unit.members if isinstance(unit, Nest) else unit.outs


def elements(b: Builder, node: Node) -> list[Atom]:
    """Every element of a value, in order, in the current scope."""
    out: list[Atom] = []
    for k in range(node.size):
        value = read(node, b, b.unravel(k, node.shape))
        out += value if node.dtype in COMPLEX else (value,)
    return out


def hold(leaf: Node, atoms: Sequence[Atom]) -> None:
    """A leaf's elements are these atoms."""
    slot = RegisterSlot(leaf.dtype, leaf.shape)
    slot.values = list(atoms)
    leaf.slot, leaf.ready = slot, True


def spill(b: Builder, atoms: Sequence[Atom], target: Node) -> None:
    """Writes elements to the buffer of a value."""
    held = Node(target.shape, target.dtype, "leaf")
    hold(held, atoms)
    assert held.slot is not None and target.slot is not None
    for k in range(target.size):
        idx = b.unravel(k, target.shape)
        value = load_slot(b, held.slot, target.shape, target.dtype, idx)
        store_slot(b, target.slot, target.shape, target.dtype, idx, value)


__all__ += ["atoms_of", "elements", "hold", "spill"]
