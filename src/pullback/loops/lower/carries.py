"""The array carries of a loop: where each lives, and how its next value gets there.

In place, where every read is of the element being written, or by updates of a slice; in a second
buffer that takes turns with the first; else beside it, and copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.loops import rewrite
from pullback.loops.build import Builder, Index
from pullback.loops.fuse import Nest
from pullback.loops.ir import Atom, Buf
from pullback.loops.lower.graph import Graph, Node, Opaque, RegisterSlot, Slot, beside, part_dtype
from pullback.loops.lower.pairs import TURNED_FROM, take_turns
from pullback.loops.lower.read_first import LITTLE, read_first
from pullback.loops.lower.regions import Body, Entered, RowSlot
from pullback.loops.lower.registers import FEW, reads, unit_reads
from pullback.loops.lower.statements import copy_into

__all__ = [
    "Carry",
    "kept_buffers",
    "make_in_place",
    "separate",
    "settle_turns",
    "take_in_place",
]


class Carry:
    """The array carries of a loop: where each lives and how its next value gets there."""

    def __init__(
        self,
        body: Body,
        leaves: Sequence[Node],
        outs: Sequence[Node],
        slots: Sequence[Slot],
        repeats: bool = True,
    ) -> None:
        self.exchanged: list[
            tuple[Slot, Slot]
        ] = []  # buffers of carries, one the other's next value
        self.repeats = repeats  # a loop of one step is no loop: nothing takes turns
        self.body, self.leaves, self.outs, self.slots = body, list(leaves), list(outs), list(slots)
        self.copies: list[tuple[Node, Slot, bool]] = []
        self.turns: list[tuple[Node, Slot]] = []  # values whose buffer takes turns with the carry's
        self.direct: dict[Node, Slot] = {}

    def bind(self, b: Builder) -> None:
        """Leaves read their slot; results that can be made in place get it, the others scratch of
        their own. What is updated across has its second buffer now, which holds what the first
        does."""
        taken: set[Node] = set()
        for leaf, slot in zip(self.leaves, self.slots, strict=True):
            leaf.slot, leaf.ready = slot, True
        last = _last_readers(self.body)
        for leaf, out, slot in zip(self.leaves, self.outs, self.slots, strict=True):
            if out is leaf:
                continue
            if out.source is not None and out.source.across:
                out.slot = Slot(out.dtype, out.shape, "temp")
                b.bound[out.slot] = b.scratch(part_dtype(out.dtype), out.slot.size)
                out.source.reused.add(out.out)
                copy_into(b, _leaf_of(out, slot), out.slot)
                self.turns.append((out, slot))
                taken.add(out)
                continue
            chain = _update_chain(self.body, leaf, out, last)
            if chain and out not in taken:
                for op, k in chain:
                    op.outs[k].slot = slot
                    op.reused.add(k)
                taken.add(out)
                continue
            if out.kind in ("pw", "red") and out not in taken and isinstance(out.nest, Nest):
                self.direct[out] = slot
                taken.add(out)
            self.copies.append((out, slot, out.kind == "leaf"))

    def finish(self, b: Builder) -> None:
        """After the body: what was not made in place moves to its carry. Values that are carries
        themselves move last, through scratch."""
        staged = []
        for out, slot, is_leaf in self.copies:
            if is_leaf:
                stage = Slot(out.dtype, out.shape, "temp")
                b.bound[stage] = b.scratch(part_dtype(out.dtype), stage.size)
                copy_into(b, out, stage)
                staged.append((out, stage, slot))
        for out, slot, is_leaf in self.copies:
            if not is_leaf and out.slot is not slot:
                copy_into(b, out, slot)
        for out, stage, slot in staged:
            copy_into(b, _leaf_of(out, stage), slot)


def _leaf_of(x: Node, slot: Slot) -> Node:
    """A value like another, in a buffer."""
    node = Node(x.shape, x.dtype, "leaf")
    node.slot, node.ready = slot, True
    return node


def _last_readers(body: Body) -> dict[Node, int]:
    last: dict[Node, int] = {}
    for k, unit in enumerate(body.units):
        for n in unit_reads(unit):
            last[n] = k
    end = len(body.units)
    for n in body.outs:
        last[n] = end
        if not n.shape and not n.root:
            found: set[Node] = set()
            reads(n, set(), found)
            for m in found:
                last[m] = end
    return last


def _update_chain(
    body: Body, leaf: Node, out: Node, last: dict[Node, int]
) -> list[tuple[Opaque, int]]:
    """The operations from a carry to its next value if each may work in the carry's own buffer;
    else nothing."""
    chain: list[tuple[Opaque, int]] = []
    node = out
    end = len(body.units)
    while node is not leaf:
        op = node.source
        if op is None or not op.live:
            return []
        pair = next((i for i, o in op.inplace if o == node.out), None)
        if pair is None or (node is not out and last.get(node) == end):
            return []
        before = op.ins[pair]
        if last.get(before, -1) != op.index:
            return []
        if before in unit_reads(beside(op, pair)):
            return []
        chain.append((op, node.out))
        node = before
    return chain if chain and sum(o is out for o in body.outs) == 1 else []


def kept_buffers(bodies: Sequence[Body], arrays: Sequence[int]) -> dict[int, int]:
    """Of the array results of branches, by number, the operand in whose buffer every branch can
    make it, or that it passes on: else each branch would copy what it changes little of."""
    last = [_last_readers(body) for body in bodies]
    found: dict[int, int] = {}

    def in_place(leaf: int, out: int) -> bool:
        pairs = ((body, body.leaves[leaf], body.outs[out]) for body in bodies)
        return all(
            x.kind == "leaf" and (x is y or bool(_update_chain(body, x, y, then)))
            for (body, x, y), then in zip(pairs, last, strict=True)
        )

    for k in arrays:
        same = (j for j in range(len(bodies[0].leaves)) if j not in found.values())
        j = next((j for j in same if in_place(j, k)), None)
        if j is not None:
            found[k] = j
    return found


def make_in_place(body: Body, leaf: Node, out: Node, slot: Slot) -> None:
    """A branch's result is made in its operand's buffer."""
    leaf.slot = slot
    for op, k in _update_chain(body, leaf, out, _last_readers(body)):
        op.outs[k].slot = slot
        op.reused.add(k)


def separate(g: Graph, leaf: Node, out: Node, outs: Sequence[Node], repeats: bool = True) -> None:
    """Before planning: what updates of a carry read of the carry itself is computed before them,
    so that they may work in its buffer: to copy the carry there and back costs more. So is what
    little the loop's other results read of it."""
    if repeats and _is_across(leaf, out, outs):
        assert out.source is not None
        out.source.across = True
        return
    if leaf.size > FEW:
        read_first(g, leaf, out, outs)
    node = out
    while node is not leaf:
        op = node.source
        pair = None if op is None else next((i for i, o in op.inplace if o == node.out), None)
        if op is None or pair is None:
            return
        before = op.ins[pair]
        for k, n in enumerate(op.ins):
            if k != pair and n.kind == "pw" and n.shape and op.updates != 1:
                found: set[Node] = set()
                reads(n, set(), found)
                if before in found and n.size <= before.size:
                    n.wanted = True
        for n in outs:
            if n.kind == "pw" and n is not out and LITTLE * n.size <= before.size:
                found = set()
                reads(n, set(), found)
                n.wanted = n.wanted or before in found
        node = before


def _is_across(leaf: Node, out: Node, outs: Sequence[Node]) -> bool:
    """Whether a carry's next value differs from it in a large box, whose place is fixed, and reads
    it there: the box is written in a second buffer, and the two take turns."""
    op = out.source
    if op is None or op.fixed is None or op.inplace != ((0, 0),) or op.ins[0] is not leaf:
        return False
    if LITTLE * op.updates < leaf.size or op.updates < TURNED_FROM // 4:
        return False
    found: set[Node] = set()
    for n in op.ins[1:]:
        found |= {n}
        reads(n, set(), found)
    return leaf in found and leaf not in outs and sum(n is out for n in outs) == 1 and op.fixed()


def take_in_place(b: Builder, body: Body, carry: Carry, start: int) -> None:
    """Statements just emitted: a result beside its carry moves into the carry's buffer if all
    accesses are to one element."""
    stmts = b.scopes[-1].stmts
    read_last = {
        out.slot for out, _, is_leaf in carry.copies if is_leaf
    }  # carries that are other carries' next values
    for out, slot in carry.direct.items():
        if out.slot is None or out.slot is slot or isinstance(out.slot, (RowSlot, RegisterSlot)):
            continue  # no buffer of its own that the carry could take
        if slot in read_last:
            _exchange(b, carry, out, slot, start)
            continue
        new, old = out.slot.buf(b), slot.buf(b)
        if rewrite.may_share(stmts[start:], old, new):
            stmts[start:] = rewrite.substitute(stmts[start:], {new: old})
            b.stored.add(old)
            scope = next(s for s in b.scopes if new in s.allocs)
            scope.allocs.remove(new)
            out.slot = slot
            b.bound[out.slot] = old
        elif _may_turn(b, carry, out, slot):
            carry.turns.append((out, slot))
            carry.copies = [c for c in carry.copies if c[1] is not slot]


def _may_turn(b: Builder, carry: Carry, out: Node, slot: Slot) -> bool:
    """Whether a carry and its next value, which lies in scratch that the loop keeps, may exchange
    their buffers."""
    assert out.slot is not None
    new, old = out.slot.buf(b), slot.buf(b)
    kept = any(new in s.allocs for s in b.scopes[:-1])
    wanted = sum(n is out for n in carry.outs)
    return kept and wanted == 1 and carry.repeats and slot.bytes >= TURNED_FROM and _alike(new, old)


def _exchange(b: Builder, carry: Carry, out: Node, slot: Slot, start: int) -> None:
    """A carry that passes on to another, as in recurrences of two terms, and whose next value can
    be made where the other was: the two exchange their buffers."""
    stmts = b.scopes[-1].stmts
    others = [c for c in carry.copies if c[2] and c[0].slot is slot]
    if len(others) != 1 or out.slot is None or not _may_turn(b, carry, out, slot):
        return
    other = others[0][1]
    passed_on = any(c[2] and c[0].slot is other for c in carry.copies)
    new, old = out.slot.buf(b), other.buf(b)
    if passed_on or not rewrite.may_share(stmts[start:], old, new):
        return
    stmts[start:] = rewrite.substitute(stmts[start:], {new: old})
    next(s for s in b.scopes if new in s.allocs).allocs.remove(new)
    out.slot = other
    carry.exchanged.append((slot, other))
    carry.copies = [c for c in carry.copies if c[1] is not slot and c[1] is not other]


def _swap(b: Builder, x: Buf, y: Buf, size: int) -> None:
    """The elements of two buffers change places."""

    def one(i: Index) -> Sequence[Atom]:
        at, level = b.atom(i), b.region_level
        b.region_level = b.depth  # loads stay before the stores
        first, second = b.load(x, at), b.load(y, at)
        b.region_level = level
        b.store(x, at, second)
        b.store(y, at, first)
        return ()

    b.loop(size, "vector", one)


def _alike(x: Buf, y: Buf) -> bool:
    return (x.dtype, x.shape) == (y.dtype, y.shape)


def settle_turns(b: Builder, carry: Carry) -> None:
    """After a loop: values that are in their second buffers move to the first."""
    if not carry.turns and not carry.exchanged:
        return
    pairs = [(slot.buf(b), out.slot.buf(b)) for out, slot in carry.turns if out.slot is not None]
    pairs += [(slot.buf(b), other.buf(b)) for slot, other in carry.exchanged]
    turned = take_turns(b, pairs)

    def move() -> list[Atom]:
        with Entered(b):
            for out, slot in carry.turns:
                assert out.slot is not None
                copy_into(b, _leaf_of(out, out.slot), slot)
            for slot, other in carry.exchanged:
                _swap(b, slot.buf(b), other.buf(b), slot.size)
        return []

    b.branch(turned, move, list)
