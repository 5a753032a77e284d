"""Helpers of the opaque operations: loops over a box, copies of values into buffers, the units of a
region."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import Nest, breaks_of, grouped
from pullback.loops.ir import Atom
from pullback.loops.lower.graph import Node, RegisterSlot, Slot, part_dtype, read, store_slot
from pullback.loops.schedule import PARALLEL_WORK, emit_nest, open_rows

__all__ = ["box", "copy_into", "emit_units", "give_scratch"]


def box(
    b: Builder,
    shape: Sequence[int],
    body: Callable[[tuple[Index, ...]], None],
    kind: str = "seq",
    broken: Any = (),
    parallel: bool | None = None,
    cost: float = 2.0,
    pieces: bool = False,
) -> None:
    """Loops over a box whose neighbouring axes may merge unless `broken`; the last one of the given
    kind; in `pieces` where conditions on indices change."""
    shape = tuple(shape)
    if 0 in shape:
        return
    groups = grouped(shape, set(broken).__contains__)
    sizes = [math.prod(shape[a] for a in g) for g in groups]
    if parallel is None:
        parallel = math.prod(shape) * cost > PARALLEL_WORK

    def run(indices: list[Index]) -> None:
        idx: list[Index] = []
        for g, ix in zip(groups, indices, strict=True):
            idx += b.unravel(ix, [shape[a] for a in g])
        body(tuple(idx))

    open_rows(b, sizes, kind == "vector", parallel, run, pieces=pieces and kind == "vector")


def copy_into(b: Builder, x: Node, slot: Slot, shape: tuple[int, ...] | None = None) -> None:
    """Every element of a value into a buffer."""

    def body(idx: tuple[Index, ...]) -> None:
        store_slot(b, slot, x.shape, x.dtype, idx, read(x, b, idx))

    broken = () if x.slot is not None or x.root else breaks_of(x)
    before = b.unrolling
    b.unrolling = before or isinstance(x.slot, RegisterSlot) or isinstance(slot, RegisterSlot)
    box(b, x.shape, body, "vector", broken, cost=max(2.0, x.cost), pieces=True)
    b.unrolling = before


def give_scratch(b: Builder, units: Sequence[Any], registers: Collection[Node] = ()) -> None:
    """Scratch, in the current scope, for every stored value of a region that has no buffer yet;
    some stay in registers."""
    for unit in units:
        for m in unit.members if isinstance(unit, Nest) else unit.outs:
            if m.slot is None and (m.stored or m.kind == "opq") and m.live | (m.kind == "opq"):
                if m in registers:
                    m.slot = RegisterSlot(m.dtype, m.shape)
                    continue
                m.slot = Slot(m.dtype, m.shape, "temp")
                b.bound[m.slot] = b.scratch(part_dtype(m.dtype), m.slot.size)


def emit_units(b: Builder, units: Sequence[Any], short: Collection[Any] = ()) -> None:
    """The statements of a region's units, in order; the short ones without loops."""
    for unit in units:
        b.unrolling = unit in short
        if isinstance(unit, Nest):
            emit_nest(b, unit)
        else:
            unit.emit(b, unit)
            for m in unit.outs:
                m.ready = True
    b.unrolling = False


def value_at(node: Node, b: Builder) -> Atom:
    """A scalar's value in the current scope."""
    return read(node, b, ())  # type: ignore[no-any-return]


__all__ += ["value_at"]
