"""Binary searches of many values in one sorted table, as searches in blocks.

`numpy.searchsorted` is a loop that halves a range of places for each value: a read at a place that
is known late, at each of 17 steps for 1e5 elements. A loop whose body does that, in whatever order,
is recognised (`searched`). If the table is in order, which is looked at first, its answers are
found in blocks of 16 elements, a vector's
worth: the last elements of blocks are in blocks again, and so on until there is one block. At each
level a vector is compared at once, and the number of elements that are before the value says which
block is next: five reads for 1e5 elements, of which all but the last are of a small array. Other
tables, and what is not a number, are halved as the loop says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index, i64
from pullback.loops.epilogue import Finish
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.elementwise import Outs, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, read
from pullback.loops.lower.index import mode_name
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import BITS, FLOATS

__all__ = ["searched"]

WIDE = 16  # keys of 32 bits that are compared at once: four vectors, if these are wide
FEWEST = 32  # elements of a table that is worth it
MOST = 16  # elements of it for each value: the ends of its blocks are read first
SHORT = 1024  # elements of a table that is copied into whole blocks
COST = 12.0  # operations of a level
SAME = frozenset(("broadcast_in_dim", "reshape", "squeeze", "convert_element_type", "copy"))


def searched(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node] | None:
    """The carries of such a loop: where the range begins, and where it ends. None for others."""
    if (params["num_consts"], params["num_carry"], len(ins)) != (2, 2, 4) or params["reverse"]:
        return None
    found = _Reader(params["jaxpr"].jaxpr).side()
    if found is None:
        return None
    table, values = (ins[k] for k in found[:2])
    low, high = ins[2:]
    n = table.shape[0] if len(table.shape) == 1 else 0
    known = [getattr(x.at, "literal", None) for x in (low, high)]
    if n < FEWEST or n > MOST * values.size or known != [0, n] or params["length"] < n.bit_length():
        return None
    if BITS.get(table.dtype) not in (32, 64) or table.dtype != values.dtype:
        return None
    if table.dtype in COMPLEX or values.shape != high.shape:
        return None
    return _blocks(g, table, values, outs, found[2] == "left", params["length"])


class _Reader:
    """What the values of a loop's body are: the names of what a binary search computes."""

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr = jaxpr
        self.of: dict[Any, Any] = dict(zip(jaxpr.invars[2:], ("low", "high"), strict=True))

    def name(self, x: Any) -> Any:
        if hasattr(x, "val"):
            return ("literal", float(x.val)) if x.aval.shape == () else None
        return self.of.get(x, x)

    def side(self) -> tuple[int, int, str] | None:
        """Which constants are the table and the values, and the side on which equal elements
        are."""
        for e in self.jaxpr.eqns:
            names = [self.name(x) for x in e.invars]
            found = self.equation(e, names)
            if found is None or len(e.outvars) != 1:
                return None
            self.of[e.outvars[0]] = found
        if [self.name(x) for x in self.jaxpr.outvars] != ["new low", "new high"]:
            return None
        table, values, side = self.of["search"]
        consts = list(self.jaxpr.invars[:2])
        if table not in consts or values not in consts or table is values:
            return None
        return consts.index(table), consts.index(values), side

    def equation(self, e: Any, names: list[Any]) -> Any:
        """What an equation computes, if that is a part of a search."""
        op = e.primitive.name
        if op in SAME:
            whole = op != "convert_element_type" or e.outvars[0].aval.dtype.kind == "u"
            return names[0] if whole else None
        if op == "sub":
            return "length" if names == ["high", "low"] else None
        if op in ("jit", "pjit", "div"):
            halves = names == ["length", ("literal", 2.0)]
            return "half" if halves and (op == "div" or _divides(e.params["jaxpr"].jaxpr)) else None
        if op == "add":
            return "middle" if set(names) == {"low", "half"} else None
        if op == "gather":
            single = tuple(e.params["slice_sizes"]) == (1,) and names[1] == "middle"
            promised = single and mode_name(e.params["mode"]) != "fill"
            return ("element", names[0]) if promised else None
        if op in ("eq", "ne"):
            other = ("literal", 0.0) if op == "eq" else names[0]
            return (op, names[0]) if names[1] == other else None
        if op == "select_n":
            return self.chosen(*names)
        if op in ("le_to", "lt_to"):
            (value, element) = names
            if not isinstance(element, tuple) or element[0] != "element":
                return None
            self.of["search"] = (element[1], value, "left" if op == "le_to" else "right")
            return "left"
        return None

    def chosen(self, test: Any, no: Any, yes: Any) -> Any:
        """Zeros or NaNs that are made one, which the order does not tell apart; or a carry."""
        if test == "left":
            carry = {("middle", "low"): "new low", ("high", "middle"): "new high"}
            return carry.get((no, yes)) if isinstance(no, str) and isinstance(yes, str) else None
        if not isinstance(test, tuple) or test[1] != no:
            return None
        if not isinstance(yes, tuple) or yes[0] != "literal":
            return None
        number = yes[1]
        return no if (number != number if test[0] == "ne" else number == 0) else None


def _divides(jaxpr: Any) -> bool:
    """Whether a program of two integers that are not negative is their quotient."""
    names = [e.primitive.name for e in jaxpr.eqns]
    quotient = [e for e in jaxpr.eqns if e.primitive.name == "div"]
    if set(names) - {"div", "convert_element_type"} or len(quotient) != 1:
        return False
    (e,) = quotient
    return jaxpr.outvars[0] is e.outvars[0] and e.invars[0] is jaxpr.invars[0]


def _blocks(g: Graph, table: Node, values: Node, outs: Outs, left: bool, steps: int) -> list[Node]:
    """The search, on the `left` of equal elements or on their right."""
    wide = WIDE * 32 // BITS[table.dtype]
    n = table.shape[0]
    sizes = [n if n > SHORT else _whole(n, wide)]  # of it, of its blocks' ends, of theirs
    while sizes[-1] > wide:
        sizes.append(_whole(-(-sizes[-1] // wide), wide))

    def emit(b: Builder, op: Opaque) -> None:
        search = _Search(b, _levels(b, table, wide, sizes), n, sizes[0], wide, left)
        finish = Finish(op)

        def one(idx: tuple[Index, ...]) -> None:
            value = read(values, b, idx)
            (place,) = b.branch(
                search.in_order(value),
                lambda: [search.place(value)],
                lambda: [search.halving(value, steps)],
            )
            finish.put(b, idx, scalar_convert(b, place, op.outs[0].dtype))

        box(b, values.shape, one, "seq", cost=COST * len(sizes))

    work = COST * len(sizes) * values.size + 4.0 * sum(sizes[1:])
    modes = ["buffer", "once"]
    op = Opaque("search", [table, values], modes, emit=emit, work=work, joins=True)
    (end,) = g.opaque(op, outs[1:])
    return [_before(g, end), end]


def _whole(n: int, wide: int) -> int:
    return -(-n // wide) * wide


def _before(g: Graph, end: Node) -> Node:
    """Where the range begins that the search ends with."""

    def at(b: Builder, idx: tuple[Index, ...]) -> Atom:
        x = read(end, b, idx)
        one = Const(1, x.dtype)
        return b.let("sub", (b.let("max", (x, one), x.dtype), one), x.dtype)

    return g.pointwise(end.shape, end.dtype, [(end, None)], at, 2.0)


def _levels(b: Builder, table: Node, wide: int, sizes: Sequence[int]) -> list[Buf]:
    """The table, and arrays of the elements at the ends of blocks of the level below; these in
    whole blocks, and so is a table that is short."""
    assert table.slot is not None
    b.literal.add(wide)
    found, reach, last = [table.slot.buf(b)], 1, table.shape[0] - 1
    for k, size in enumerate(sizes):
        if k or size > table.shape[0] or table.slot.base(b) != 0:
            level = b.scratch(table.dtype, size)

            def end(i: Index, level: Buf = level, reach: int = reach) -> Sequence[Atom]:
                to = b.atom(b.add(b.mul(i, reach), reach - 1))
                place = b.leaf_of(b.let("min", (to, b.dim(last)), "i64"), 0, last)
                b.store(level, b.atom(i), read(table, b, (place,)))
                return ()

            b.loop(size, "seq", end)
            found[k:] = [level]
        reach *= wide
    return found


class _Search:
    """The statements that find places of values.

    What is behind all elements is not looked for: no block has to be kept from being behind the
    last one, which a processor would have to guess."""

    def __init__(
        self, b: Builder, levels: Sequence[Buf], n: int, size: int, wide: int, left: bool
    ) -> None:
        self.b, self.levels, self.n, self.size, self.wide = b, levels, n, size, wide
        self.left, self.kind = left, levels[0].dtype
        with Pinned(b):
            self.last = b.load(levels[0], b.dim(n - 1))
        self.sorted = self.is_sorted()

    def least(self) -> Atom:
        """What no element is less than, nor equal to."""
        if self.kind in FLOATS:
            return Const(math.nan, self.kind)
        return Const(0 if self.kind[0] == "u" else -(1 << BITS[self.kind] - 1), self.kind)

    def is_sorted(self) -> Atom:
        """Whether no element is behind a lesser one, block by block."""
        b, table, last = self.b, self.levels[0], self.n - 1 - self.wide

        def block(i: Index) -> list[Atom]:
            start = b.let("min", (b.atom(b.mul(i, self.wide)), b.dim(last)), "i64")

            def pair(t: Index) -> list[Atom]:
                at = b.let("add", (start, b.atom(t)), "i64")
                x, y = b.load(table, at), b.load(table, b.let("add", (at, i64(1)), "i64"))
                return [b.let("le_total", (x, y), "bool")]

            inner = [(Const(True, "bool"), b.var("bool", b.depth + 1, "c"))]
            (found,) = b.loop(self.wide, "reduce", pair, inner, ("and",))
            return [b.let("and", (outer[0][1], found), "bool")]

        outer = [(Const(True, "bool"), b.var("bool", b.depth + 1, "c"))]
        blocks = -(-(self.n - 1) // self.wide)
        return b.loop(blocks, "seq", block, outer)[0]

    def in_order(self, value: Atom) -> Atom:
        """Whether a value is found by blocks: what is not a number is not."""
        if self.kind not in FLOATS:
            return self.sorted
        return self.b.let("and", (self.sorted, self.b.let("eq", (value, value), "bool")), "bool")

    def halving(self, value: Atom, steps: int) -> Atom:
        """Where the loop ends, step by step."""
        b, table = self.b, self.levels[0]

        def one(_: Index, low: Atom, high: Atom) -> list[Atom]:
            half = b.let("shr_arith", (b.let("sub", (high, low), "i64"), i64(1)), "i64")
            middle = b.let("add", (low, half), "i64")
            at = b.let("min", (middle, b.dim(self.n - 1)), "i64")
            with Pinned(b):
                element = b.load(table, at)
            op = "le_total" if self.left else "lt_total"
            left = b.let(op, (value, element), "bool")
            return [b.select(left, low, middle), b.select(left, middle, high)]

        ends = (i64(0), b.dim(self.n))
        carry = [(x, b.var("i64", b.depth + 1, "c")) for x in ends]
        return b.loop(steps, "seq", lambda i: one(i, carry[0][1], carry[1][1]), carry)[1]

    def place(self, value: Atom) -> Atom:
        """How many elements of the sorted table are before a value."""
        b = self.b
        beyond = b.let("gt" if self.left else "ge", (value, self.last), "bool")
        op, bound = "lt", value
        if not self.left and self.kind in FLOATS:
            op = "le"
        elif not self.left:
            bound = b.let("add", (value, Const(1, self.kind)), self.kind)
        found = self.descend(b.select(beyond, self.least(), bound), op)
        return b.select(beyond, b.dim(self.n), found)

    def descend(self, value: Atom, op: str) -> Atom:
        """How many elements are less. The table's last block begins early enough to be whole: all
        that it shares with the one before is less."""
        b = self.b
        place: Atom = i64(0)
        for level in reversed(self.levels):
            start = b.let("shl", (place, i64(self.wide.bit_length() - 1)), "i64")
            if level is self.levels[0] and self.size % self.wide:
                start = b.let("min", (start, b.dim(self.size - self.wide)), "i64")
            carry = [(Const(0, "i32"), b.var("i32", b.depth + 1, "c"))]

            def one(t: Index, level: Buf = level, start: Atom = start) -> list[Atom]:
                with Pinned(b):
                    element = b.load(level, b.let("add", (start, b.atom(t)), "i64"))
                return [b.let("convert", (b.let(op, (element, value), "bool"),), "i32")]

            count = b.loop(self.wide, "reduce", one, carry, ("add",))[0]
            place = b.let("add", (start, b.let("convert", (count,), "i64")), "i64")
        return place
