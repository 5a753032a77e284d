"""Axes that are too short for lanes: each of their indices gets code of its own."""

from __future__ import annotations

import math

from pullback.loops.fuse import SHORT_ROW, Nest, breaks_of, reduction_breaks
from pullback.loops.lower.graph import Node
from pullback.loops.turned import places_read

__all__ = ["narrow_axes", "row_breaks", "short_inside"]

FEWEST = 2  # times as long as a last axis is the one before it, for lanes along that one
LARGE = 1 << 12  # elements of an array of which code for several indices is worth writing
SEVERAL_COST = 30.0  # of an element whose code is written for every index of several axes


def narrow_axes(nest: Nest) -> int:
    """How many last axes are so short that each of their indices gets code (or accumulators) of
    its own, where lanes cannot run along them and those before as if they were one: the last one
    of a nest that reduces leading axes, lane by lane; one or more of values element by element.
    0 if none are."""
    k, members = nest.k, nest.members
    if k < 2 or any(len(m.shape) != k for m in members):
        return 0
    shape = members[0].shape
    few = 1 < shape[-1] <= 8 or any(map(_of_singles, members))
    if not few or not any(k - 2 in row_breaks(m, k) for m in members):
        return 0
    alike = all(m.kind == "pw" for m in members)
    if shape[-2] >= 16:
        apart = alike and (any(map(_joined, members)) or _apart(nest))
        return 1 if nest.lanes or apart else 0
    if not alike:
        return 0
    # Where lanes are few either way, there are more along the longer axis.
    longer = 1 if any(map(_joined, members)) and shape[-2] >= FEWEST * shape[-1] else 0
    if sum(m.cost for m in members) > SEVERAL_COST or _apart(nest) is None:
        return longer
    count = 2
    while count < k and math.prod(shape[k - count - 1 :]) <= SHORT_ROW and shape[-count - 1] < 16:
        count += 1
    many = count < k and shape[-count - 1] >= 16
    return count if many and math.prod(shape[k - count :]) <= SHORT_ROW else longer


def short_inside(nest: Nest) -> int | None:
    """An axis of a nest of values element by element, not its last one, that is short and last in
    an array that is read, as channels are where they go to planes: each of its indices gets code
    of its own, so that lanes read what lies side by side."""
    k, members = nest.k, nest.members
    shape = members[0].shape
    if k < 2 or shape[-1] < 16 or any(m.kind != "pw" or len(m.shape) != k for m in members):
        return None
    if math.prod(shape) < LARGE or sum(m.cost for m in members) > SEVERAL_COST:
        return None
    found: set[int] = set()
    for m in members:
        reads = places_read(m, nest)
        if reads is None or m.period > 1:
            return None
        for node, axes in reads:
            last = axes[-1] if axes else None
            if last is not None and last < k - 1 and node.size >= LARGE:
                found.add(last)
    axis = found.pop() if len(found) == 1 else None
    return axis if axis is not None and 2 <= shape[axis] <= 8 else None


def _apart(nest: Nest) -> bool | None:
    """Whether values with a short last axis are better computed an index of that axis at a time:
    all, where none of what they read is as large; else those that fill no vector as they lie. None
    if parts of them are computed each in its own way."""
    whole = nest.members[0]
    found = [places_read(m, nest) for m in nest.members]
    large = [node for reads in found for node, _ in reads or () if node.size == whole.size]
    if None in found:
        return None
    return not large or whole.shape[-1] not in (4, 8)


def _of_singles(m: Node) -> bool:
    """Whether a value is made of others of one number a row, as `_joined` says: then there is code
    for each number anyway."""
    return any(len(node.parts or ()) == node.shape[-1] for node in _joins(m))


def _joined(m: Node) -> bool:
    """Whether a value is made of others side by side along its last axis, or of such a value
    element by element: each index of that axis is computed in its own way."""
    return bool(_joins(m))


def _joins(m: Node) -> list[Node]:
    seen: set[Node] = set()
    found, stack = [], [m]
    while stack:
        node = stack.pop()
        if node in seen or node.kind != "pw" or (node.root and node is not m):
            continue
        seen.add(node)
        if node.parts is not None:
            found.append(node)
            continue
        last = len(node.shape) - 1
        stack += [dep for dep, axes in node.deps if axes is None or (axes and axes[-1] == last)]
    return found


def row_breaks(node: Node, k: int) -> set[int]:
    """Boundaries below k, in a root's own axes, that its row loops cannot merge."""
    red = node.red
    if node.kind != "red" or red is None:
        return {a for a in breaks_of(node) if a < k - 1}
    kept, inner = red.kept, reduction_breaks(red)
    return {j for j in range(k - 1) if kept[j + 1] != kept[j] + 1 or kept[j] in inner}
