"""What a body reads of an array after it has begun to change it is read before, if it is little:
the changes are then made in the array's own buffer, where else it would be copied.

    y = update(x, ...); z = update(y, x[j])  ->  v = x[j]; y = update(x, ...); z = update(y, v)
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.loops.lower.graph import Graph, Node, Opaque

__all__ = ["LITTLE", "read_first"]

LITTLE = 16  # a value that is so many times smaller than the array that it reads


def read_first(g: Graph, leaf: Node, out: Node, outs: Sequence[Node]) -> None:
    """Before planning: of the updates that lead from a carry to its next value, all but the last
    overwrite what later ones, and the body's other results, may read."""
    chain = _chain(leaf, out)
    if not chain:
        return
    place = {op: k for k, (op, _) in enumerate(chain)}
    arrays = {op.ins[pair]: k for k, (op, pair) in enumerate(chain)}
    arrays.pop(out, None)
    latest = _latest(g, place, arrays, out, outs)
    moves = _Moves(g)
    for m in g.nodes:
        when = latest.get(m, -1)
        if m.kind != "pw" or when < 0:
            continue
        changed = [arrays[dep] for dep, _ in m.deps if dep in arrays and arrays[dep] < when]
        if changed and all(_is_little(m, dep) for dep, _ in m.deps if dep in arrays):
            moves.before(m, chain[min(changed)][0])
    moves.make()


def _is_little(m: Node, x: Node) -> bool:
    return LITTLE * m.size <= x.size


def _chain(leaf: Node, out: Node) -> list[tuple[Opaque, int]]:
    """The updates from a carry to its next value, first to last, and which operand each changes."""
    found: list[tuple[Opaque, int]] = []
    while out is not leaf:
        op = out.source
        pair = None if op is None else next((i for i, o in op.inplace if o == out.out), None)
        if op is None or pair is None:
            return []
        found.append((op, pair))
        out = op.ins[pair]
    return found[::-1]


def _latest(
    g: Graph, place: dict[Opaque, int], arrays: dict[Node, int], out: Node, outs: Sequence[Node]
) -> dict[Node, int]:
    """For every value, at which of the updates it is last read; their number means after all."""
    latest: dict[Node, int] = {}

    def note(x: Node, when: int) -> None:
        if latest.get(x, -1) < when:
            latest[x] = when

    for n in outs:
        if n is not out:
            note(n, len(place))
    done, before = len(place), set()
    for node in reversed(g.nodes):
        op = node.source
        if op is None:
            for dep, _ in node.deps if node in latest else ():
                note(dep, latest[node])
        elif op not in before:
            before.add(op)
            done = place.get(op, done)
            for n in op.ins:
                if n not in arrays or arrays[n] != place.get(op):
                    note(n, done)
    return latest


class _Moves:
    """Values that come before an operation, with what they are made of, unless they need others."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.order = {n: k for k, n in enumerate(g.nodes)}
        self.starts: dict[Opaque, int] = {}
        for k, n in enumerate(g.nodes):
            if n.source is not None:
                self.starts.setdefault(n.source, k)
        self.goes: dict[Node, int] = {}

    def before(self, m: Node, op: Opaque) -> None:
        start = self.starts[op]
        moved: set[Node] = set()
        stack = [m]
        while stack:
            node = stack.pop()
            if min(self.order[node], self.goes.get(node, start)) < start or node in moved:
                continue
            if node.kind == "opq":
                return
            moved.add(node)
            stack += [dep for dep, _ in node.deps]
        m.wanted = True
        self.goes.update(dict.fromkeys(moved, start))

    def make(self) -> None:
        """All at once: one after the other would take the square of their number."""
        if not self.goes:
            return
        # What goes comes in its old order before the operation, which stays.
        place = lambda n: (self.goes[n], 0) if n in self.goes else (self.order[n], 1)
        self.g.nodes.sort(key=place)
        for k, node in enumerate(self.g.nodes):
            node.order = k
