"""Which values are kept in memory, and which of them one loop nest computes.

Before: a graph of nodes. After: a list of units in execution order, each an Opaque or a `Nest` of
root nodes, and on every node
`root` (computed by a nest of its own, not inside each of its readers) and `stored` (in memory,
because another unit reads it).

A value is a root if it is a result, feeds statements that need a buffer, is a reduction, or is
costly and would be computed more
than once. A root joins the nest of its operands when row i of the one needs row i of the other only
("aligned"): the nest then
is one loop over rows with phases inside, and row-sized values stay in registers or in scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.loops.build import Builder
from pullback.loops.epilogue import join_epilogues
from pullback.loops.lower.graph import (
    COMPLEX,
    Axes,
    Graph,
    Node,
    Opaque,
    Reduction,
    part_dtype,
)
from pullback.loops.ops import INTS, storage_bytes
from pullback.loops.pieces import worth_pieces
from pullback.loops.tall import is_tall

__all__ = [
    "IN_LANES", "SHORT_ROW", "Nest", "breaks_of", "counted_cheaply", "grouped", "in_lanes_across",
    "plan_units", "reduction_breaks", "seconds_of", "work_of",
]  # fmt: skip

COSTLY = 10.0  # a value cheaper than this is computed anew by each reader
CHEAP = 24.0  # indices that cost less are counted anew in loops
CHAIN = 200.0  # more than this in one element becomes a value of its own
TOGETHER = 120_000.0  # the same for results without axes; less than a parallel nest has
SHORT_ROW = 16  # elements of a row that are unrolled,
MANY_ROWS, FEW_ROWS = 64, 4  # in so many lanes at least; where they need whole rows, in so many
MOST_ACROSS = 4_000.0  # operations of such rows, all of which is code of its own
SHORT_TAIL = 8  # elements that leave lanes idle
MUCH_ALONE = 10_000.0  # work on single values after reductions that is worth lanes, and a loop
SMALL = 20_000.0  # work of a nest that is cheap enough to merge with others of any shape


class Nest:
    """Roots that share a loop over their first `k` axes."""

    __slots__ = ("index", "k", "lanes", "leaves", "members", "work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.k = 0
        self.members: list[Node] = []
        self.leaves: set[Any] = set()
        self.work = 0.0
        self.lanes = False  # whether a reduction among the members runs in lanes


Unit = Any  # Nest | Opaque

# Seconds: what a byte costs that comes from memory, and one that goes there; an operation in lanes;
# one elsewhere; one of those whose work is done in lanes, or in part. The work of a product counts
# ten operations as one.
_READ, _WRITTEN, IN_LANES, _ALONE = 1.8e-11, 4e-11, 6e-12, 5e-10
_NEAR = (1 << 21, 0.2), (1 << 24, 0.5)  # what bytes cost that caches hold, where they are so few
_OF = {
    "dot": 6e-11,
    "conv": 6e-11,
    "fft": 2e-11,
    "cumulative": 1e-10,
    "scatter": 2.5e-10,
    "select_and_scatter_add": 1e-10,
    "update_slice": 1e-10,
}


def seconds_of(unit: Unit, repeated: bool = False) -> float:
    """How long a unit takes, roughly. What is worth another thread is decided by it: to hand work
    over and to be told of its end takes a tenth of a millisecond. What is `repeated`, in a loop,
    updates arrays in place."""
    if not isinstance(unit, Nest):
        copied = unit.ins[0].size if repeated and unit.updates else 0
        work = max(float(unit.work) - copied, 1.0)
        return float(unit.seconds or work * _OF.get(unit.name, _ALONE))
    shapes = [
        m.red.shape if m.kind == "red" and m.red is not None else m.shape for m in unit.members
    ]
    most = max((math.prod(shape) for shape in shapes), default=0)
    read = sum(min(leaf.size, most) * _width(leaf) for leaf in unit.leaves)
    written = sum(m.size * _width(m) for m in unit.members)
    near = next((part for limit, part in _NEAR if read + written <= limit), 1.0)
    moved = near * (read * _READ + written * _WRITTEN)
    return float(moved + unit.work * IN_LANES)


def _width(node: Node) -> int:
    """Bytes of an element."""
    return storage_bytes(part_dtype(node.dtype)) * (2 if node.dtype in COMPLEX else 1)


def _mark_live(graph: Graph, outputs: Sequence[Node]) -> list[Opaque]:
    """Sets `live` and counts users; the opaque operations that run."""
    seen: list[Opaque] = []
    stack = list(outputs)

    def visit(op: Opaque) -> None:
        if not op.live:
            op.live = True
            seen.append(op)
            for n in op.ins:
                n.users += 1
                stack.append(n)

    for op in graph.effects:
        visit(op)
    while stack:
        node = stack.pop()
        if node.live:
            continue
        node.live = True
        for dep, _ in node.deps:
            dep.users += 1
            stack.append(dep)
        if node.source is not None:
            visit(node.source)
    return seen


def _choose_roots(graph: Graph, outputs: Sequence[Node], opaques: Sequence[Opaque]) -> None:
    for op in opaques:
        for n, mode in zip(op.ins, op.modes, strict=True):
            if mode == "buffer" and n.slot is None:
                n.wanted = True
    for n in outputs:
        if n.slot is None and n.kind != "opq":
            n.wanted = True
    many: set[Node] = {
        n
        for op in opaques
        for n, mode in zip(op.ins, op.modes, strict=True)
        if mode.startswith("many")
    }
    ends: dict[Node, set[Any]] = {}
    for node in graph.nodes:
        if not node.live or node.kind == "leaf":
            continue
        if node.kind == "opq":
            node.root = True
            continue
        cost = node.own
        if node.kind == "red":
            assert node.red is not None
            node.root, node.cost = True, 1.0
            tail = node.red.small_tail
            _expand(
                node.red.deps,
                node.red.shape[: len(node.red.shape) - tail] if tail else node.red.shape,
            )
            continue
        _expand(node.deps, node.shape, _reads_once(node, graph.repeats))
        repeat = node.red.count if node.red is not None else 1
        for dep, _ in node.deps:
            cost += repeat * (1.0 if dep.root else dep.cost)
        if cost > CHAIN:
            for dep, _ in node.deps:
                if dep.kind == "pw" and dep.cost > COSTLY:
                    dep.root = True
            cost = node.own + repeat * sum(1.0 if d.root else d.cost for d, _ in node.deps)
        if (cost > COSTLY or (node.reuse > 8 and cost > 1.5)) and is_counted(node):
            cost = 1.0
        node.cost = cost
        if (
            node.wanted
            or (node.reuse > 8 and cost > 1.5)
            or (node.users > 1 and cost > COSTLY and not _anew(graph, node, ends))
            or (node in many and cost > 4)
            or cost > 4 * CHAIN
        ):
            node.root = True


def _reached(node: Node) -> Iterator[Node]:
    """A value and what it is computed from, in the surrounding program too."""
    stack, seen = [node], {node}
    while stack:
        n = stack.pop()
        yield n
        sources = [dep for dep, _ in n.deps] + ([] if n.origin is None else [n.origin])
        stack += [dep for dep in sources if dep not in seen]
        seen.update(sources)


def is_counted(node: Node) -> bool:
    """Whether a value is an index that is computed from indices alone (iota, shifted or clipped):
    where it says what is read, addresses are known, which they would not be from memory."""
    if node.dtype not in INTS or node.red is not None or node.kind != "pw":
        return False
    for n in _reached(node):
        if n.kind != "pw" or n.red is not None or n.slot is not None or n.at is None:
            return False
    assert node.at is not None
    return Builder().is_counted(node.shape, node.at)


def counted_cheaply(node: Node) -> bool:
    """Whether a value is such an index and of little cost: a loop that is given one counts itself,
    and knows what it reads there."""
    cost = 0.0
    for n in _reached(node):
        cost += n.own
        if n.kind != "pw" or cost > CHEAP:
            return False
    return is_counted(node)


def _anew(graph: Graph, node: Node, ends: dict[Node, set[Any]]) -> bool:
    """Whether a value is only read by reductions of different axes, which cannot share a loop, and
    costs less to compute in each than to be stored and read. `ends` remembers who reads what."""
    rows = [n for n in node.shape if n != 1]
    if not rows or node.red is not None:
        return False
    size = node.size * _width(node)
    near = next((part for limit, part in _NEAR if size <= limit), 1.0)
    memory = near * 4 * (_WRITTEN + node.users * _READ) / IN_LANES / (node.users - 1)
    if rows[-1] <= SHORT_TAIL:  # few lanes are busy where such rows are stored
        memory = max(memory, 2 * COSTLY)
    if node.cost > memory:
        return False
    if not ends:
        _find_ends(graph, ends)
    kept = ends.get(node, set())
    return None not in kept and len(kept) == node.users


def _find_ends(graph: Graph, ends: dict[Node, set[Any]]) -> None:
    """For every value the reductions, by the axes that they keep, in which its elements end; None
    among them if it is read otherwise, too."""
    for node in reversed(graph.nodes):
        if not node.live:
            continue
        if node.kind == "red" and node.red is not None:
            red = node.red
            for dep, axes in red.deps:
                plain = _identity(axes, dep) and dep.shape == red.shape
                ends.setdefault(dep, set()).add(red.kept if plain else None)
            continue
        mine = ends.setdefault(node, set())
        if node.wanted or node.kind != "pw" or not mine:
            mine.add(None)
        for dep, axes in node.deps:
            same = _identity(axes, dep) and dep.shape == node.shape
            ends.setdefault(dep, set()).update(mine if same else (None,))


def _identity(axes: Axes, dep: Node) -> bool:
    return axes is None or axes == tuple(range(len(dep.shape)))


def _reads_once(node: Node, repeated: bool) -> bool | Node:
    """Whether a value reads each element of its operands once, if at computed places: a slice of
    them does, and several side by side, where they are stored in pieces (pieces.py) and no element
    computes more than its own. Or the operand of which it reads no more elements than there are."""
    how = getattr(node.at, "once", None)
    if isinstance(how, Node):
        return how
    if how == "reshaped":  # where it is stored, it is computed axis by axis (_before_reshape)
        return node.wanted
    return how == "alone" or (
        how == "joined" and node.wanted and worth_pieces(node.shape, repeated)
    )


def _expand(
    deps: Sequence[tuple[Node, Axes]], shape: tuple[int, ...], once: bool | Node = False
) -> None:
    """A costly operand that is stretched along an axis, or read at computed places, is a root;
    unless each of its elements is read `once`, and by nothing else."""
    rank = len(shape)
    for dep, axes in deps:
        if axes is None or dep.kind != "pw" or dep.root or dep.cost <= COSTLY:
            continue
        if (once is True or once is dep) and dep.users == 1:
            continue
        computed = any(a is None and dep.shape[k] != 1 for k, a in enumerate(axes))
        stretched = any(a not in axes and shape[a] != 1 for a in range(rank))
        if (computed and dep.shape) or stretched:
            _source(dep).root = True


def _source(node: Node) -> Node:
    """The value that a node only gives more axes of length 1: what runs beside it has its shape."""
    while node.kind == "pw" and not node.root and len(node.deps) == 1 and node.red is None:
        ((dep, axes),) = node.deps
        if dep.kind != "pw" or dep.size != node.size or node.own > 1.0 or axes is None:
            break
        if [n for n in dep.shape if n != 1] != [n for n in node.shape if n != 1]:
            break
        if node.cost > dep.cost + 1.0 or dep.cost <= COSTLY:
            break
        node = dep
    return node


def _compose(outer: Axes, inner: Axes, rank: int) -> Axes:
    """inner: root axis -> dep axis; outer: dep axis -> consumer axis."""
    if outer is None:
        return inner
    if inner is None:
        return outer
    return tuple(None if a is None else outer[a] for a in inner)


def _merge(deps: Sequence[tuple[Node, Axes]]) -> list[tuple[Node, Axes]]:
    """The roots (and values in memory) that a value reads, through the values computed inside it,
    with the index of each."""
    found: dict[tuple[Node, Axes], None] = {}
    for dep, axes in deps:
        if dep.kind == "leaf":
            if dep.slot is not None or dep.at is None:
                found[dep, None] = None
        elif dep.root:
            found[dep, axes] = None
        else:
            for root, inner in dep.roots or ():
                found[root, None if root.kind == "leaf" else _compose(axes, inner, 0)] = None
    return list(found)


def _leaves(node: Node) -> set[Any]:
    """What a root reads from memory."""
    return {r for r, _ in node.roots}


def work_of(node: Node) -> float:
    """Rough scalar operations to compute all of a root."""
    red = node.red
    if node.kind == "red" and red is not None:
        each = red.own + sum(1.0 if d.root else d.cost for d, _ in red.deps)
        return max(1.0, each) * math.prod(red.shape)
    return max(1.0, node.cost if node.kind == "pw" else 1.0) * node.size


def _is_in_lanes(node: Node) -> bool:
    return node.kind == "red" and node.red is not None and node.red.lanes


def _most_rows(node: Node) -> int:
    red = node.red
    if node.kind == "red" and red is not None and not red.lanes:
        return len(node.shape) - red.small_tail
    return len(node.shape)


def _aligned(dep: Node, node: Node, axes: Axes) -> int:
    """How many leading axes of both run together."""
    limit, k = min(len(dep.shape), len(node.shape)), 0
    while k < limit and dep.shape[k] == node.shape[k] and (axes is None or axes[k] == k):
        k += 1
    return k


class _Planner:
    def __init__(self) -> None:
        self.units: list[Unit] = []

    def unit_of(self, root: Node) -> int:
        return root.nest.index  # type: ignore[no-any-return]

    def place(self, node: Node) -> None:
        """Puts a root into a nest."""
        edges = node.roots
        lo = max((self.unit_of(r) for r, _ in edges if r.nest is not None), default=-1)
        for nest in self.candidates(node, lo):
            k = self.fits(nest, node)
            if k is not None:
                nest.k = k
                break
        else:
            nest = Nest(len(self.units))
            self.units.append(nest)
            nest.k = _most_rows(node)
        nest.members.append(node)
        nest.lanes = nest.lanes or _is_in_lanes(node)
        nest.work += work_of(node)
        nest.leaves |= _leaves(node)
        node.nest = nest

    def candidates(self, node: Node, lo: int) -> list[Nest]:
        found = [self.units[lo]] if lo >= 0 and isinstance(self.units[lo], Nest) else []
        leaves = _leaves(node)
        for unit in self.units[lo + 1 :][-4:]:
            if isinstance(unit, Nest) and (
                work_of(node) + unit.work < SMALL
                or not unit.leaves.isdisjoint(leaves)
                or (not leaves and not unit.leaves)  # both only count: nothing comes from memory
            ):
                found.append(unit)
        return found

    def fits(self, nest: Nest, node: Node) -> int | None:
        """The number of shared axes if the node joins, or None."""
        k = min(nest.k, _most_rows(node))
        first = nest.members[0]
        for root, axes in node.roots:
            if root.nest is nest:
                k = min(k, _aligned(root, node, axes))
        k = min(k, _aligned(first, node, None))
        small = nest.work + work_of(node) < SMALL
        lanes = _is_in_lanes(node)
        if len(nest.members) >= 64:
            return None
        if lanes or nest.lanes:
            same = k == nest.k == len(node.shape) and all(len(m.shape) == k for m in nest.members)
            inner = any(
                m.kind == "red" and m.red is not None and not m.red.lanes
                for m in [*nest.members, node]
            )
            if lanes and self._tall_again(nest, node):
                return None
            return k if same and not inner and k > 0 else None
        if k == 0:
            # Scalars that follow one another are one kernel until threads are worth waking.
            scalar = nest.k == 0 == len(node.shape) and nest.work + work_of(node) < TOGETHER
            return (
                0
                if small
                or scalar
                or (nest.k == 0 == len(node.shape) and self._only_scalars(nest, node))
                or self._siblings(nest, node)
                else None
            )
        if k < nest.k or k < len(node.shape):
            rows = math.prod(node.shape[:k])
            grown = k < nest.k and not any(m.kind == "red" for m in [*nest.members, node])
            if grown and not small and not self._short_rows(nest, node, k):
                return None
            return k if rows >= 8 or small else None
        return k

    def _tall_again(self, nest: Nest, node: Node) -> bool:
        """Whether a reduction down a few long columns needs what the nest computes of them: blocks
        of rows (tall.py) cannot do both in one pass."""
        tall = node.red is not None and is_tall([node.red], node.red.count)
        return tall and any(root.nest is nest for root, _ in node.roots)

    def _short_rows(self, nest: Nest, node: Node, k: int) -> bool:
        """Whether a value needs whole rows of the nest's, which are short and many: lanes then run
        across the rows, and each element of a row has code of its own."""
        whole = any(
            root.nest is nest and axes is not None and None in axes for root, axes in node.roots
        )
        return whole and k > 0 and in_lanes_across([*nest.members, node], k)

    def _siblings(self, nest: Nest, node: Node) -> bool:
        """Whether a reduction to a scalar runs over what the nest's reductions run over, none of
        which it needs: one loop over memory does for all. Accumulators of unlike widths would
        leave the lanes, and with them the order of a sum."""
        if node.shape or any(root.nest is nest for root, _ in node.roots):
            return False
        reds = [m.red for m in (node, *nest.members) if m.kind == "red" and not m.shape]
        kinds = {
            (r.shape, r.dtypes[0], isinstance(r.combine, tuple)) for r in reds if r is not None
        }
        return (
            len(reds) == 1 + len(nest.members)
            and len(kinds) == 1
            and all(r is not None and isinstance(r.combine, tuple) for r in reds)
            and all(len(set(r.dtypes)) == 1 for r in reds if r is not None)
        )

    def _only_scalars(self, nest: Nest, node: Node) -> bool:
        return node.kind == "pw" and all(m.kind == "pw" for m in nest.members)


def in_lanes_across(members: Sequence[Node], k: int) -> bool:
    """Whether values whose first k axes run together have rows so short that lanes run across
    them, and so little to compute in each that all of it may be written out."""
    rows = math.prod(members[0].shape[:k])
    return (
        rows >= FEW_ROWS
        and all(m.kind == "pw" for m in members)
        and all(math.prod(m.shape[k:]) <= SHORT_ROW for m in members)
        and sum(m.cost * math.prod(m.shape[k:]) for m in members) <= MOST_ACROSS
    )


def _in_lanes_afterwards(units: list[Unit]) -> None:
    """What is computed of each row's reductions, a number a row, and read by nothing in the nest
    would be computed one number at a time: where that is much, it is a nest of its own, in lanes
    across the rows."""
    for place in range(len(units) - 1, -1, -1):
        nest = units[place]
        tail = _after_rows(nest) if isinstance(nest, Nest) else []
        if not tail or sum(work_of(m) for m in tail) < MUCH_ALONE:
            continue
        later = Nest(place + 1)
        later.k, later.members = nest.k, tail
        nest.members = [m for m in nest.members if m not in tail]
        for part in (nest, later):
            part.work = sum(map(work_of, part.members))
            part.leaves = set().union(*map(_leaves, part.members))
        for m in tail:
            m.nest = later
        units.insert(place + 1, later)
    for place, unit in enumerate(units):
        unit.index = place


def _after_rows(nest: Nest) -> list[Node]:
    """The values of one number a row that no other value of the nest needs; none, if no reduction
    walks the rows."""
    members, k = nest.members, nest.k
    rows = math.prod(members[0].shape[:k])
    if k == 0 or rows < MANY_ROWS or nest.lanes or not any(m.kind == "red" for m in members):
        return []
    tail: list[Node] = []
    for m in reversed(members):
        readers = (n for n in members if any(root is m for root, _ in n.roots))
        alone = m.kind == "pw" and m.red is None and m.size == rows and len(m.shape) == k
        if alone and all(n in tail for n in readers):
            tail.insert(0, m)
    return tail


def plan_units(graph: Graph, outputs: Sequence[Node], atoms: Sequence[Node] = ()) -> list[Unit]:
    """The units in execution order. `outputs` end in memory; `atoms` are scalars that are read once
    all units have run."""
    join_epilogues(graph, [*outputs, *atoms])
    opaques = _mark_live(graph, [*outputs, *atoms])
    _choose_roots(graph, outputs, opaques)
    planner = _Planner()
    for node in graph.nodes:
        if not node.live or node.kind == "leaf":
            continue
        if node.kind == "opq":
            op = node.source
            assert op is not None
            if op.index < 0:
                if op.effect:
                    _place_effects(planner, graph.effects, op)
                _place_opaque(planner, op)
            node.nest = op
            continue
        node.roots = _merge(node.deps)
        if node.root:
            planner.place(node)
    for op in graph.effects:
        if op.index < 0:
            _place_opaque(planner, op)
    _in_lanes_afterwards(planner.units)
    for node in graph.nodes:
        if node.live and node.root and node.kind in ("pw", "red"):
            node.stored = node.stored or node.wanted
            for root, _ in node.roots:
                if root.nest is not node.nest:
                    root.stored = True
    for node in atoms:
        for root, _ in [(node, None)] if node.root else node.roots or ():
            root.stored = root.stored or bool(root.shape)
    return planner.units


def _place_effects(planner: _Planner, effects: Sequence[Opaque], op: Opaque) -> None:
    """Effects happen in program order: those before `op` that nobody's result has placed yet."""
    for other in effects:
        if other is op:
            return
        if other.index < 0:
            _place_opaque(planner, other)


def _place_opaque(planner: _Planner, op: Opaque) -> None:
    for root, _ in _merge([(n, None) for n in op.ins]):
        root.stored = root.stored or root.kind != "leaf"
    op.index = len(planner.units)
    planner.units.append(op)


def breaks_of(node: Node) -> frozenset[int]:
    """Boundaries between a value's axes that its evaluation cannot merge (k: between axis k and
    k+1)."""
    if node.breaks is None:
        node.breaks = _breaks(node.deps, node.shape, node.own_breaks)
    return node.breaks  # type: ignore[no-any-return]


def grouped(extents: Sequence[int], broken: Callable[[int], bool]) -> list[list[int]]:
    """Runs of neighbouring axes that one loop can walk: broken(k) forbids merging axis k with k +
    1."""
    groups: list[list[int]] = []
    for k in range(len(extents)):
        if groups and not broken(k - 1):
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


def reduction_breaks(red: Reduction) -> frozenset[int]:
    """The same for the iteration space of a reduction."""
    return _breaks(red.deps, red.shape, red.own_breaks)


def _breaks(
    deps: Sequence[tuple[Node, Axes]], shape: tuple[int, ...], own: frozenset[int]
) -> frozenset[int]:
    rank = len(shape)
    if rank < 2:
        return frozenset()
    out = set(own)
    for dep, axes in deps:
        inner = (
            frozenset()
            if dep.root or dep.slot is not None or dep.kind == "leaf"
            else breaks_of(dep)
        )
        if axes is None:
            out |= inner
            continue
        where = {a: j for j, a in enumerate(axes) if a is not None}
        for a in range(rank - 1):
            p, q = where.get(a), where.get(a + 1)
            if (p is None) != (q is None) or (p is not None and (q != p + 1 or p in inner)):
                out.add(a)
    return frozenset(a for a in out if shape[a] != 1 and shape[a + 1] != 1)
