"""What follows a contraction joins it: bias, activation, scaling, a residual are computed on the
elements of a block while it is in the cache.

Before: an operation that `joins`, and pointwise values that read its result element by element.
After: the operation makes the last of these values instead (and those before it that others read);
the result itself is never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Buf
from pullback.loops.lower.graph import Graph, Node, Opaque, store_slot

__all__ = ["Finish", "join_epilogues"]

LONGEST = 64  # values that join one operation


class Finish:
    """Stores the results of an operation that others may have joined."""

    def __init__(self, op: Opaque) -> None:
        self.op = op

    @property
    def into(self) -> Any:
        """Where the result may be written directly; None if something follows it."""
        if self.op.joined is not None:
            return None
        slot = self.op.outs[0].slot
        assert slot is not None

        def place(b: Builder) -> tuple[Buf, Index]:
            return slot.buf(b), slot.base(b)

        return place

    def put(self, b: Builder, idx: tuple[Index, ...], value: Any) -> None:
        """One element of the product, in the result's dtype."""
        op, out = self.op, self.op.outs[0]
        assert out.slot is not None
        if op.joined is not None:
            op.joined.at = lambda _b, _i: value
            value = op.last(b, idx)
        store_slot(b, out.slot, out.shape, out.dtype, idx, value)


def join_epilogues(graph: Graph, outputs: Sequence[Node]) -> None:
    """Lets pointwise values join the operations whose results they read."""
    ops = [
        n.source
        for n in graph.nodes
        if n.kind == "opq" and n.source is not None and n.source.joins and len(n.source.outs) == 1
    ]
    if not ops:
        return
    users = _users(graph, outputs)
    kept = set(outputs)
    for op in ops:
        _join(op, users, kept)


def _users(graph: Graph, outputs: Sequence[Node]) -> dict[Node, list[Any]]:
    """Who reads each live value: nodes and operations."""
    found: dict[Node, list[Any]] = {}
    seen: set[Any] = set()
    stack: list[Any] = [*outputs, *graph.effects]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, Opaque):
            reads = list(item.ins)
        else:
            reads = [d for d, _ in item.deps]
            if item.source is not None:
                stack.append(item.source)
        for dep in dict.fromkeys(reads):
            found.setdefault(dep, []).append(item)
            stack.append(dep)
    return found


def _join(op: Opaque, users: dict[Node, list[Any]], kept: set[Node]) -> None:
    """Grows the set of values that can join, in program order, and keeps as much of it as has but
    one value that others read: that one is stored instead of the operation's result."""
    first = op.outs[0]
    inside: dict[Node, None] = {}
    early: dict[Node, bool] = {}
    refused: set[Any] = set()
    waiting: list[Any] = [first]
    best: list[Node] = []
    while waiting and len(inside) < LONGEST:
        readers = {r for n in waiting for r in users.get(n, ()) if r not in refused}
        ready = [r for r in readers if isinstance(r, Node) and r not in inside]
        refused |= {r for r in readers if not isinstance(r, Node)}
        if not ready:
            break
        node = min(ready, key=lambda r: r.order)
        if not _fits(node, inside, first, early):
            refused.add(node)
            continue
        inside[node] = None
        waiting = [first, *inside]
        still_read = [
            n for n in waiting if n in kept or any(r not in inside for r in users.get(n, ()))
        ]
        if still_read == [node]:
            best = list(inside)
    if best:
        _commit(op, best, users)


def _commit(op: Opaque, inside: list[Node], users: dict[Node, list[Any]]) -> None:
    first, last = op.outs[0], inside[-1]
    outside = {d: None for n in inside for d, _ in n.deps if d is not first and d not in inside}
    op.joined, op.last, op.outs = first, last.at, [last]
    op.ins = [*op.ins, *outside]
    op.modes = [*op.modes, *("once" for _ in outside)]
    last.kind, last.source, last.out, last.deps = "opq", op, 0, []
    first.kind, first.source, first.deps = "pw", None, []
    for dep in outside:
        users.setdefault(dep, []).append(op)


def _fits(node: Node, inside: dict[Node, None], first: Node, early: dict[Node, bool]) -> bool:
    """Whether a value is computed element by element from those inside, and everything else that
    it reads is there before the operation."""
    if node.kind != "pw" or node.red is not None or node.shape != first.shape:
        return False
    same = tuple(range(len(first.shape)))
    for dep, axes in node.deps:
        if dep is first or dep in inside:
            if axes is not None and axes != same:
                return False
        elif not _early(dep, first, early):
            return False
    return True


def _early(node: Node, first: Node, known: dict[Node, bool]) -> bool:
    """Whether a value does not depend on what comes after the operation."""
    if node.kind == "leaf" or node.order < first.order:
        return True
    found = known.get(node)
    if found is None:
        found = node.kind == "pw" and all(_early(d, first, known) for d, _ in node.deps)
        known[node] = found
    return found
