"""Values that are read across their rows, as transposes are: a block at a time is transposed in
registers to scratch, and read from there along its lanes.

Element by element such a read takes a line of memory for each element, and comes back for the next
one when the line has left the nearest cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import Nest
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.graph import COMPLEX, Node, RegisterSlot, level_at
from pullback.loops.ops import storage_bytes
from pullback.loops.tiles import is_tile, turn_name
from pullback.records import record

__all__ = ["Turned", "emit_turned", "places_read", "turned_reads"]

WORTHWHILE = 1 << 14  # elements: fewer are near, and the function that transposes must be compiled
SHORTEST = 16  # rows, and elements in each
NEAR = 1 << 16  # elements of an array whose matrices are read as they are,
SMALL = 1 << 11  # if these have so few: a line that is come back for is still in the nearest cache
BLOCK_BYTES = 8192  # of scratch: with what is read and written it stays in the nearest cache
LANES = 64  # elements of a block in the direction of lanes


@record
class Turned:
    """How a nest reads across rows: `axis` is its axis along which memory is contiguous there;
    each read is a value and, for the value's axes, the nest's."""

    axis: int
    reads: list[tuple[Node, tuple[int, ...]]]


def turned_reads(nest: Nest) -> Turned | None:
    """What a nest of values that iterate alike reads across rows, along one axis; None if there is
    nothing, or too little."""
    members, k = nest.members, nest.k
    shape = members[0].shape
    if k < 2 or math.prod(shape) < WORTHWHILE or shape[-1] < SHORTEST:
        return None
    if any(m.kind != "pw" or len(m.shape) != k or m.period > 1 for m in members):
        return None
    found: dict[tuple[Node, tuple[int, ...]], None] = {}
    for m in members:
        reads = places_read(m, nest)
        if reads is None:
            return None
        for node, places in reads:
            axes = tuple(a for a in places if a is not None)
            plain = len(axes) == len(places) and node.shape == tuple(shape[a] for a in axes)
            turned = plain and k - 1 in axes[:-1] and is_tile(_name(node.dtype))
            if node.dtype in COMPLEX and not (len(members) == 1 and _is_only(m, node)):
                turned = False  # parts are computed with apart
            if turned and not isinstance(node.slot, RegisterSlot):
                found[node, axes] = None
    inner = {axes[-1] for _, axes in found}
    if len(inner) != 1 or shape[min(inner)] < SHORTEST:
        return None
    matrix = {min(inner), k - 1}
    if math.prod(shape) < NEAR and math.prod(shape[a] for a in matrix) <= SMALL:
        only = len(members) == 1 and _is_only(members[0], next(iter(found))[0])
        if not only and all(set(axes[-2:]) == matrix for _, axes in found):
            return None
    return Turned(min(inner), list(found))


def _is_only(member: Node, node: Node) -> bool:
    """Whether a member is nothing but another value, transposed."""
    return member.permuted is not None and member.permuted[0] is node


def _name(dtype: str) -> str:
    """The function that transposes: complex numbers of eight bytes move as a whole."""
    return turn_name("f64" if dtype == "c64" else dtype)


def _base(b: Builder, node: Node) -> Index:
    """Where a value begins in its buffer, in elements."""
    assert node.slot is not None
    return b.div(node.slot.base(b), 2) if node.dtype in COMPLEX else node.slot.base(b)


def places_read(member: Node, nest: Nest) -> list[tuple[Node, tuple[int | None, ...]]] | None:
    """What a member reads from memory, through the values that are computed inside it, with the
    member's axis for each of theirs: None for one that is walked in another way. None if parts of
    it are computed each in its own way: its loops are cut there."""
    found, seen = [], set()
    stack: list[tuple[Node, tuple[int | None, ...]]] = [(member, tuple(range(len(member.shape))))]
    while stack:
        node, at = stack.pop()
        if (node, at) in seen:
            continue
        seen.add((node, at))
        if node.parts is not None or node.padded is not None:
            return None
        for dep, axes in node.deps:
            if axes is not None:
                place = tuple(None if a is None else at[a] for a in axes)
            else:
                place = at if dep.shape == node.shape else (None,) * max(1, len(dep.shape))
            if dep.nest is nest and dep in nest.members:
                continue
            if dep.kind == "pw" and not dep.root:
                stack.append((dep, place))
            else:
                found.append((dep, place))
    return found


def emit_turned(
    b: Builder,
    nest: Nest,
    turned: Turned,
    parallel: bool,
    element: Callable[[tuple[Index, ...]], None],
) -> None:
    """The loops of such a nest; `element` writes its members at an index. What is nothing but
    transposed goes to its place at once."""
    whole = nest.members[0]
    shape, axis, last = whole.shape, turned.axis, nest.k - 1
    only = len(nest.members) == 1 and _is_only(whole, turned.reads[0][0])
    widest = max(8 if n.dtype in COMPLEX else storage_bytes(n.dtype) for n, _ in turned.reads)
    rows = BLOCK_BYTES // (LANES * widest)
    outer = [a for a in range(last) if a != axis]

    def block(idx: dict[int, Index], rb: Index, cb: Index) -> Sequence[Atom]:
        first, start = b.mul(rb, rows), b.mul(cb, LANES)
        height, width = _left(b, shape[axis], first, rows), _left(b, shape[last], start, LANES)
        at = {**idx, axis: first, last: start}
        if only:
            assert whole.slot is not None
            place = b.add(b.ravel([at[a] for a in range(last + 1)], shape), _base(b, whole))
            target = whole.slot.buf(b), place, math.prod(shape[axis + 1 :])
            _turn(b, *turned.reads[0], at, (width, height), target)
            return ()
        held = []
        for node, axes in turned.reads:
            held.append(b.scratch(node.dtype, rows * LANES, "turned"))
            _turn(b, node, axes, at, (width, height), (held[-1], 0, LANES))

        def row(r: Index) -> Sequence[Atom]:
            def lane(c: Index) -> Sequence[Atom]:
                here = {**idx, axis: b.add(first, r), last: b.add(start, c)}
                for (node, axes), buf in zip(turned.reads, held, strict=True):
                    place = tuple(here[a] for a in axes)
                    value = b.load(buf, b.atom(b.linear([(r, LANES), (c, 1)])))
                    b.scopes[level_at(b, place)].memo[node, place, b.mask] = value
                element(tuple(here[a] for a in range(last + 1)))
                return ()

            b.loop(LANES, "vector", lane, hi=width)
            return ()

        b.loop(rows, "seq", row, hi=height)
        return ()

    def descend(level: int, idx: dict[int, Index], parallel: bool) -> None:
        n = shape[outer[level]] if level < len(outer) else -(-shape[axis] // rows)
        kind = "parallel" if parallel and n >= 4 else "seq"

        def run(i: Index) -> Sequence[Atom]:
            if level == len(outer):
                b.loop(-(-shape[last] // LANES), "seq", lambda cb: block(idx, i, cb))
            else:
                descend(level + 1, {**idx, outer[level]: i}, parallel and kind != "parallel")
            return ()

        b.loop(n, kind, run)

    descend(0, {}, parallel)


def _left(b: Builder, extent: int, first: Index, most: int) -> Atom:
    """How many of the `most` elements from `first` on there are."""
    rest = b.atom(b.linear([(first, -1), (extent, 1)]))
    return b.let("min", (rest, b.dim(most)), "i64")


def _turn(
    b: Builder,
    node: Node,
    axes: tuple[int, ...],
    at: dict[int, Index],
    block: tuple[Atom, Atom],
    target: tuple[Buf, Index, int],
) -> None:
    """Transposes a block of a value, so wide and so high, to where a buffer has its rows."""
    assert node.slot is not None
    source = node.slot.buf(b)
    stride = math.prod(node.shape[axes.index(max(axes)) + 1 :])  # of the nest's last axis
    where = b.add(b.ravel([at[a] for a in axes], node.shape), _base(b, node))
    args = [source, where, stride, *block, *target]
    given = tuple(x if isinstance(x, (Buf, Const, Var)) else b.atom(x) for x in args)
    b.loaded.update((source, target[0]))
    b.stored.add(target[0])
    b.emit(Call((), _name(node.dtype), given))
