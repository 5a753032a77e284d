"""Scatters as statements on a buffer: which updates may be made side by side, in parts or in
order, and how.

Positions are masked, never trusted: no program writes outside its buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index, i64
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import RULES, Outs, Rule, rule
from pullback.loops.lower.graph import (
    COMPLEX,
    Graph,
    Node,
    Opaque,
    RegisterSlot,
    Slot,
    load_slot,
    read,
    store_slot,
)
from pullback.loops.lower.index import apart, columns, literal_index, mode_name, start_index
from pullback.loops.lower.statements import box, copy_into
from pullback.loops.lower.updates import (
    AHEAD,
    KEYS,
    Ahead,
    Pinned,
    by_blocks,
    in_runs,
    in_turn,
    injective,
    key_of,
    value_of,
)
from pullback.loops.schedule import PARALLEL_WORK


def _scatter(combine: str | None) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
        x, where, updates = ins
        dtype = x.dtype
        if combine is None and params.get("update_jaxpr") is not None:
            return NotImplemented
        if dtype in COMPLEX and combine not in (None, "add"):
            return NotImplemented
        return _scatter_node(g, combine, x, where, updates, params)

    return lower


def _scatter_node(
    g: Graph,
    combine: str | None,
    x: Node,
    where: Node,
    updates: Node,
    params: dict[str, Any],
    when: tuple[Node, tuple[int, ...]] | None = None,
) -> Node:
    """x, updated; `when` says under which condition, and which axes of x are the condition's."""
    how = _Scatter(combine, x, where, updates, params)
    how.when = when
    others = [*dict(how.parts), *([] if when is None else when[:1])]

    def under(g: Graph, x: Node, p: Node, dims: tuple[int, ...]) -> Node | None:
        if when is not None or not {*dims} <= {k for k, _ in how.pairs}:
            return None
        return _scatter_node(g, combine, x, where, updates, params, (p, dims))

    op = Opaque(
        "scatter",
        [x, updates, *others],
        ["once", "aliased", *("aliased" for _ in others)],
        emit=how.emit,
        inplace=((0, 0),),
        numbers_first=True,
        work=how.work(),
        updates=updates.size,
        fixed=how.fixed,
        under=under,
    )
    return g.opaque(op, [(x.shape, x.dtype)])[0]


class _Scatter:
    """One scatter: where its updates go, and the loops over them."""

    def __init__(
        self, combine: str | None, x: Node, where: Node, updates: Node, params: dict[str, Any]
    ) -> None:
        d = params["dimension_numbers"]
        self.combine, self.x, self.updates = combine, x, updates
        self.parts = columns(where)
        self.clip = mode_name(params["mode"]) == "clip"
        if x.dtype == "bool" and combine in LOGICAL:
            self.combine = combine = LOGICAL[combine]
        dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
        self.window_axes = tuple(d.update_window_dims)
        self.batch_axes = [k for k in range(len(updates.shape)) if k not in set(self.window_axes)]
        self.window = [k for k in range(len(x.shape)) if k not in dropped]
        sizes = [1] * len(x.shape)
        for k, j in zip(self.window, self.window_axes, strict=True):
            sizes[k] = updates.shape[j]
        self.room = [n - m for n, m in zip(x.shape, sizes, strict=True)]
        self.places = tuple(d.scatter_dims_to_operand_dims)
        self.pairs = list(
            zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True)
        )
        self.batch_shape = tuple(updates.shape[k] for k in self.batch_axes)
        self.window_shape = tuple(updates.shape[k] for k in self.window_axes)
        self.count, self.wide = math.prod(self.batch_shape), math.prod(self.window_shape)
        self.broken = apart(self.window_shape, [x.shape[k] for k in self.window])
        self.blocks = _blocks(x, updates, combine)
        self.across = False
        self.when: tuple[Node, tuple[int, ...]] | None = None
        self.holds: Atom = TRUE  # the condition, if it is one number
        self.keys = combine in ("min", "max", "and", "or") and x.dtype in KEYS
        self.unique = bool(params.get("unique_indices"))
        rank, last = len(x.shape), len(updates.shape)
        behind = len(self.window)
        self.flat = (  # whether neighbours of an update are neighbours in memory, on both sides
            not self.broken
            and self.window == list(range(rank - behind, rank))
            and self.window_axes == tuple(range(last - behind, last))
        )
        # Whether neighbours of an update lie far from each other in memory.
        widest = [k for k in range(rank) if x.shape[k] > 1]
        self.strided = bool(widest) and sizes[widest[-1]] == 1
        in_order = bool(params.get("indices_are_sorted"))
        self.long = in_order and self.count >= LONG * x.size
        self.by_range = (  # whether the updates of some rows of the array follow each other
            in_order
            and combine is not None
            and self.flat
            and not self.clip
            and self.places == (0,)
            and len(self.batch_shape) == len(self.parts) == 1
            and 4.0 * updates.size >= PARALLEL_WORK
        )

    def work(self) -> float:
        """A row of neighbours costs little more than one element; a row that is not in the cache
        must be waited for."""
        if not self.flat:
            rows = bool(self.window_shape) and self.window_shape[-1] > 8 and not self.strided
            return float(self.x.size + (1 if rows else 8) * self.updates.size)
        alone = self.count == self.updates.size
        each = (2.0 if alone else 4.0) if self.x.size <= NEAR else 16.0
        return float(self.x.size + each * self.count + 0.5 * self.updates.size)

    def fixed(self) -> bool:
        """Whether there is one update, of a place that the program says."""
        if (
            self.when is not None
            or self.count != 1
            or self.pairs
            or not all(literal_index(part) for part, _ in self.parts)
        ):
            return False
        first, inside = self.place(Builder(), (0,) * len(self.batch_shape))
        return inside == TRUE and all(isinstance(k, int) for k in first)

    def emit(self, b: Builder, op: Opaque) -> None:
        self.across = op.across
        slot = op.outs[0].slot
        assert slot is not None
        if self.when is not None and not self.when[0].shape:
            self.holds = read(self.when[0], b, ())
        if 0 not in op.reused:
            copy_into(b, self.x, slot)
        if self.x.size == 0 or self.updates.size == 0:
            return
        together = b.unrolling or isinstance(slot, RegisterSlot)
        if all(n == 1 for n in self.window_shape):
            self.elements(b, slot, together)
        elif together or (self.count == 1 and self.when is None):
            box(b, self.batch_shape, lambda spot: self.row(b, slot, spot), "seq", parallel=False)
        elif self.strided:
            self.by_windows(b, slot)
        elif self.by_range:
            self.by_ranges(b, slot)
        elif self.blocks > 1:
            by_blocks(b, self.combine, slot, self.x, self.count, self.blocks, self.rows, 0)
        elif (strips := 1 if self.broken else _strips(self.wide, self.updates)) > 1:
            self.strips(b, slot, strips)
        else:
            self.rows(b, i64(0), b.dim(self.count), slot)

    def start(self, b: Builder, spot: tuple[Index, ...]) -> tuple[list[Index], Atom]:
        """Where an update begins, and whether it is made: inside, and under the condition."""
        first, inside = self.place(b, spot)
        holds = self.holds
        if self.when is not None and self.when[0].shape:
            p, dims = self.when
            at = dict(self.pairs)
            holds = read(p, b, tuple(spot[at[k]] for k in dims))
        return first, b.both(inside, holds)

    def place(self, b: Builder, spot: tuple[Index, ...]) -> tuple[list[Index], Atom]:
        """Where an update begins, and whether it is inside."""
        first: list[Index] = [0] * len(self.x.shape)
        inside: Atom = TRUE
        for k, j in self.pairs:
            first[k] = spot[j]
        for (part, n), k in zip(self.parts, self.places, strict=True):
            at, ok = start_index(b, read(part, b, (*spot, n)), self.room[k], self.clip)
            first[k] = b.add(first[k], at)
            inside = b.both(inside, ok)
        return first, inside

    def value(self, b: Builder, spot: tuple[Index, ...], inner: tuple[Index, ...]) -> Any:
        full: list[Index] = [0] * len(self.updates.shape)
        for k, i in zip(self.batch_axes, spot, strict=True):
            full[k] = i
        for j, i in zip(self.window_axes, inner, strict=True):
            full[j] = i
        return read(self.updates, b, tuple(full))

    def cell(
        self,
        b: Builder,
        slot: Slot,
        spot: tuple[Index, ...],
        inner: tuple[Index, ...],
        first: Sequence[Index],
        inside: Atom,
        alone: bool,
    ) -> None:
        place = list(first)
        for k, i in zip(self.window, inner, strict=True):
            place[k] = b.add(place[k], i)
        value = self.value(b, spot, inner)
        before = self.x if self.across else None
        _write(b, self.combine, slot, self.x, place, value, inside, alone, before=before)

    def elements(self, b: Builder, slot: Slot, together: bool) -> None:
        """Updates of single elements."""
        none = tuple(0 for _ in self.window_shape)

        def one(spot: tuple[Index, ...]) -> None:
            self.cell(b, slot, spot, none, *self.start(b, spot), self.count == 1)

        spare = 1 if self.long or self.clip else SPARE

        def item(i: Index) -> tuple[Atom, Atom]:
            place, value = self.item(b, i)
            return place, key_of(b, value, self.combine) if self.keys else value

        def block(b: Builder, low: Atom, high: Atom, row: Slot) -> None:
            assert self.combine is not None
            bounds, size = (low, high), self.x.size
            if self.long:
                in_runs(b, self.combine, item, row.dtype, self.count, bounds, row)
            else:
                in_turn(b, self.combine, item, row.dtype, self.count, bounds, row, size)

        kind = KEYS.get(self.x.dtype) if self.keys else None
        if self.blocks > 1 and not together:
            by_blocks(b, self.combine, slot, self.x, self.count, self.blocks, block, spare, kind)
        elif kind is not None and self.count >= max(MANY, self.x.size) and not together:
            self.by_keys(b, slot, kind, spare, block)
        elif not self.collide() or together:
            box(b, self.batch_shape, one, "vector", parallel=False)
        elif self.combine is None and self.count >= MANY and self.x.dtype not in COMPLEX:
            self.in_order(b, slot)
        else:
            box(b, self.batch_shape, one, "vector" if self.combine else "seq", parallel=False)

    def item(self, b: Builder, i: Index) -> tuple[Atom, Any]:
        """The place and the value of update i; a place behind the last one if it is outside."""
        spot = b.unravel(i, self.batch_shape)
        first, inside = self.start(b, spot)
        place = b.select(inside, b.atom(b.ravel(first, self.x.shape)), b.dim(self.x.size))
        return place, self.value(b, spot, tuple(0 for _ in self.window_shape))

    def collide(self) -> bool:
        """Whether two updates may go to one place, as far as is known: the last one is to stay,
        and lanes and threads have no order."""
        if self.unique or self.count == 1:
            return False
        if self.pairs or not all(literal_index(part) for part, _ in self.parts):
            return True
        b = Builder()
        spot: list[Index] = []
        for n in self.batch_shape:
            b.open("seq")
            spot.append(b.loop_index(0, max(0, n - 1)))
        place = b.ravel(self.place(b, tuple(spot))[0], self.x.shape)
        return not injective(place, spot)

    def in_order(self, b: Builder, slot: Slot) -> None:
        """Many single elements are written, the last one at a place stays. Their places and values
        are found in lanes, a stretch at a time."""
        size, dtype = self.x.size, self.x.dtype
        ahead = Ahead(b, dtype, size)

        def put(k: Index) -> None:
            place, value = ahead.update(k)
            store_slot(b, slot, (size,), dtype, (b.leaf_of(place, 0, size - 1),), value)

        def write(length: Atom) -> None:
            inside = b.let("lt", (ahead.furthest(length), b.dim(size)), "bool")
            count = b.branch(inside, lambda: [length], lambda: [ahead.inside(length)])[0]
            rest = b.let("and", (count, i64(-TOGETHER)), "i64")
            for step, lo, hi in ((TOGETHER, i64(0), rest), (1, rest, count)):

                def some(k: Index, step: int = step) -> Sequence[Atom]:
                    for j in range(step):
                        put(b.add(k, j))
                    return ()

                b.loop(AHEAD, "seq", some, lo=lo, hi=hi, step=step)

        ahead.visit(lambda i: self.item(b, i), self.count, (i64(0), b.dim(self.count)), write)

    def by_keys(
        self,
        b: Builder,
        slot: Slot,
        kind: str,
        spare: int,
        visit: Callable[[Builder, Atom, Atom, Slot], None],
    ) -> None:
        """Extremes of floats: the array's elements are integers that order alike while they are
        updated."""
        assert self.combine is not None
        size, dtype = self.x.size, self.x.dtype
        own = Slot(kind, (size + spare,), "temp")  # the last elements take what is outside
        b.bound[own] = b.scratch(kind, own.size)

        def enter(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                value = load_slot(b, slot, (size,), dtype, (i,))
            store_slot(b, own, own.shape, kind, (i,), key_of(b, value, self.combine))
            return ()

        def leave(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                key = load_slot(b, own, own.shape, kind, (i,))
            store_slot(b, slot, (size,), dtype, (i,), value_of(b, key, dtype))
            return ()

        b.loop(size, "vector", enter)
        b.store(own.buf(b), b.dim(size), Const(0, kind))
        visit(b, i64(0), b.dim(self.count), own)
        b.loop(size, "vector", leave)

    def row(self, b: Builder, slot: Slot, spot: tuple[Index, ...]) -> None:
        """One update of many elements, masked. No two of them are at one place, so that lanes may
        update them together."""
        first, inside = self.start(b, spot)
        cell = lambda inner: self.cell(b, slot, spot, inner, first, inside, True)
        parallel = None if self.count == 1 else False
        box(b, self.window_shape, cell, "vector", self.broken, parallel)

    def rows(self, b: Builder, low: Atom, high: Atom, slot: Slot) -> None:
        """Updates of many elements each. What is masked when it is stored comes back late from
        memory: an update that is outside is skipped instead, and short ones are written out."""

        def step(i: Index) -> Sequence[Atom]:
            spot = b.unravel(i, self.batch_shape)
            first, inside = self.start(b, spot)

            def row() -> list[Atom]:
                if self.flat and self.wide <= WRITTEN:
                    self.neighbours(b, slot, spot, first, 0, self.wide)
                    return []
                cell = lambda inner: self.cell(b, slot, spot, inner, first, TRUE, True)
                box(b, self.window_shape, cell, "vector", self.broken, False)
                return []

            b.branch(inside, row, list)
            return ()

        b.loop(self.count, "seq", step, lo=low, hi=high)

    def by_ranges(self, b: Builder, slot: Slot) -> None:
        """Updates in the order of their places: threads take rows of the array, and look for the
        updates of these. Every row sees its own in order, whatever the number of threads."""
        rows = self.x.shape[0]
        blocks = min(RANGES, rows)
        each = -(-rows // blocks)
        ((where, axis),) = self.parts

        def place(i: Atom) -> Atom:
            found = read(where, b, (b.leaf_of(i, 0, self.count - 1), axis))
            return found if found.dtype == "i64" else b.let("convert", (found,), "i64")

        def lowest(row: Atom) -> Atom:
            """The first update at this row or a later one, by bisection."""

            def halve(_: Index) -> Sequence[Atom]:
                middle = b.let("shr_arith", (b.let("add", (low, high), "i64"), i64(1)), "i64")
                here = b.let("min", (middle, b.dim(self.count - 1)), "i64")
                left = b.let("lt", (low, high), "bool")
                before = b.both(left, b.let("lt", (place(here), row), "bool"))
                after = b.let("add", (middle, i64(1)), "i64")
                # Once both meet nothing moves: the middle is there too.
                return b.select(before, after, low), b.select(before, high, middle)

            low, high = b.var("i64", b.depth + 1, "a"), b.var("i64", b.depth + 1, "a")
            carry = [(i64(0), low), (b.dim(self.count), high)]
            return b.loop(self.count.bit_length(), "seq", halve, carry)[0]

        def block(k: Index) -> Sequence[Atom]:
            start = b.atom(b.mul(k, each))
            end = b.let("add", (start, b.dim(each)), "i64")
            low = lowest(start)
            high = lowest(b.let("min", (end, b.dim(rows)), "i64"))
            self.rows(b, low, high, slot)
            return ()

        def ranges() -> list[Atom]:
            b.loop(-(-rows // each), "parallel", block)
            return []

        def in_turn() -> list[Atom]:
            self.rows(b, i64(0), b.dim(self.count), slot)
            return []

        def falls(i: Index) -> Sequence[Atom]:
            now = b.atom(i)
            before = place(b.let("sub", (now, i64(1)), "i64"))
            return [b.select(b.let("gt", (before, place(now)), "bool"), i64(1), i64(0))]

        # That they are in order was only said. To look is cheap beside rows of updates.
        start = [(i64(0), b.var("i64", b.depth + 1, "a"))]
        (wrong,) = b.loop(self.count, "reduce", falls, start, ("max",), lo=i64(1))
        b.branch(b.let("eq", (wrong, i64(0)), "bool"), ranges, in_turn)

    def neighbours(
        self, b: Builder, slot: Slot, spot: tuple[Index, ...], first: Sequence[Index],
        low: Index, count: int,
    ) -> None:  # fmt: skip
        """`count` neighbours of one update from `low` on, in whole vectors without masks."""

        def cell(i: Index, at: int) -> Sequence[Atom]:
            inner = b.unravel(b.linear([(low, 1), (i, 1), (at, 1)]), self.window_shape)
            self.cell(b, slot, spot, inner, first, TRUE, True)
            return ()

        at = 0
        for size in _whole_vectors(count):
            body = lambda i, at=at: cell(i, at)
            b.loop(size, "vector", body, hi=i64(size) if size > 1 else None)
            at += size

    def strips(self, b: Builder, slot: Slot, count: int) -> None:
        """The same where rows are wide: threads take columns, and every one goes through all
        updates in order."""
        each = -(-self.wide // count // LINE) * LINE
        whole = self.flat and each <= WRITTEN and self.wide % each == 0

        def strip(k: Index) -> Sequence[Atom]:
            start = b.mul(k, each)
            low = b.atom(start)
            end = b.let("add", (low, b.dim(each)), "i64")
            high = b.let("min", (end, b.dim(self.wide)), "i64")

            def step(n: Index) -> Sequence[Atom]:
                spot = b.unravel(n, self.batch_shape)
                first, inside = self.start(b, spot)

                def cell(i: Index) -> Sequence[Atom]:
                    inner = b.unravel(i, self.window_shape)
                    self.cell(b, slot, spot, inner, first, TRUE, True)
                    return ()

                def cells() -> list[Atom]:
                    if whole:
                        self.neighbours(b, slot, spot, first, start, each)
                    else:
                        b.loop(self.wide, "vector", cell, lo=low, hi=high)
                    return []

                b.branch(inside, cells, list)
                return ()

            b.loop(self.count, "seq", step)
            return ()

        b.loop(-(-self.wide // each), "parallel", strip)

    def by_windows(self, b: Builder, slot: Slot) -> None:
        """Updates whose elements lie far apart (columns of a matrix): threads take the places in
        the window, and at each of them all updates are made in order; what they touch is close.
        Where updates begin is found once."""
        kind = "i32" if self.x.size < 1 << 31 else "i64"
        found = Slot(kind, (self.count,), "temp")
        b.bound[found] = b.scratch(kind, self.count)

        def find(i: Index) -> Sequence[Atom]:
            first, inside = self.start(b, b.unravel(i, self.batch_shape))
            place = b.select(inside, b.atom(b.ravel(first, self.x.shape)), i64(-1))
            place = place if kind == "i64" else b.let("convert", (place,), kind)
            store_slot(b, found, found.shape, kind, (i,), place)
            return ()

        def spread(idx: tuple[Index, ...]) -> None:
            step = b.ravel(_placed(len(self.x.shape), self.window, idx), self.x.shape)

            def one(i: Index) -> Sequence[Atom]:
                start = load_slot(b, found, found.shape, kind, (i,))
                start = start if kind == "i64" else b.let("convert", (start,), "i64")

                def write() -> list[Atom]:
                    at = b.add(b.leaf_of(start, 0, self.x.size - 1), step)
                    value = self.value(b, b.unravel(i, self.batch_shape), idx)
                    _write(b, self.combine, slot, self.x, (at,), value, TRUE, True, flat=True)
                    return []

                b.branch(b.let("ge", (start, i64(0)), "bool"), write, list)
                return ()

            with Pinned(b):
                b.loop(self.count, "seq", one)

        b.loop(self.count, "vector", find)
        axes = range(len(self.window_shape))
        box(b, self.window_shape, spread, "seq", axes, cost=4.0 * self.count)


def _placed(rank: int, window: Sequence[int], idx: Sequence[Index]) -> list[Index]:
    """A place in the window as one in the array."""
    out: list[Index] = [0] * rank
    for k, i in zip(window, idx, strict=True):
        out[k] = i
    return out


def _whole_vectors(count: int) -> list[int]:
    """A number as a sum of vectors' lengths, which no instruction set must mask, and ones."""
    sizes = [16] * (count // 16) + [n for n in (8, 4) if count & n]
    return sizes + [1] * (count & 3)


WRITTEN = 64  # elements of an update that is written out
RANGES = 32  # parts that the rows of an array are cut in whose updates are in order, at most
BLOCKS = 8  # parts of many updates that are combined apart from each other, at most
EACH = 1 << 15  # updates in such a part, about


MANY = 256  # updates from which on an array of extremes is worth being made integers
LONG = 128  # updates of one element in a row, from which on they are combined in a register
LOGICAL = {"min": "and", "max": "or"}
NEAR = 1 << 19  # elements of an array that stays in a core's cache
SPARE = 16  # places that take the updates that are outside, in turn: a power of two
TOGETHER = 4  # updates of an iteration
LINE = 16  # elements that threads should not share


def _blocks(x: Node, updates: Node, combine: str | None) -> int:
    """In how many parts many updates of few elements are cut; the number depends on sizes only,
    and with it the bits. A power of two: of three parts, one of two threads would do two."""
    if combine is None or x.dtype in COMPLEX:
        return 1
    worth = updates.size // max(EACH, 4 * x.size)
    return min(BLOCKS, 1 << (worth - 1).bit_length()) if worth > 1 else 1


def _strips(wide: int, updates: Node) -> int:
    """In how many strips of columns many updates of wide rows are cut. Every strip sees all of
    them, in order: the result is what it would be in one."""
    if 4.0 * updates.size < PARALLEL_WORK:
        return 1
    return min(BLOCKS, wide // (4 * LINE))


def _write(
    b: Builder,
    combine: str | None,
    slot: Any,
    x: Node,
    place: Sequence[Index],
    value: Any,
    inside: Atom,
    alone: bool,
    flat: bool = False,
    before: Node | None = None,
) -> None:
    """One element; `alone` where no other lane writes to its place; a `flat` place is an offset.
    What it was is read there, or in the value `before`."""
    shape = (x.size,) if flat else x.shape
    if combine is None:
        store_slot(b, slot, shape, x.dtype, place, value, inside)
        return
    if alone or isinstance(slot, RegisterSlot):
        mask, level = b.mask, b.region_level
        if not isinstance(slot, RegisterSlot):
            b.mask = b.both(inside, mask)
            b.mask = None if b.mask == TRUE else b.mask
            b.region_level = b.depth  # an iteration reads what the one before has written
        old = (
            load_slot(b, slot, shape, x.dtype, place)
            if before is None
            else read(before, b, tuple(place))
        )
        b.mask, b.region_level = mask, level
        pairs = zip(old, value, strict=True) if x.dtype in COMPLEX else [(old, value)]
        new = tuple(b.let(combine, pair, pair[0].dtype) for pair in pairs)
        value = new if x.dtype in COMPLEX else new[0]
        store_slot(b, slot, shape, x.dtype, place, value, inside)
        return
    offset = b.ravel(place, shape)
    if x.dtype in COMPLEX:
        offset = b.add(b.mul(offset, 2), slot.base(b))
        b.update(slot.buf(b), b.atom(offset), value[0], combine, inside)
        b.update(slot.buf(b), b.atom(b.add(offset, 1)), value[1], combine, inside)
        return
    b.update(slot.buf(b), b.atom(b.add(offset, slot.base(b))), value, combine, inside)


for _name, _op in (
    ("scatter", None),
    ("scatter-add", "add"),
    ("scatter-mul", "mul"),
    ("scatter-min", "min"),
    ("scatter-max", "max"),
):
    RULES[_name] = RULES[_name.replace("-", "_")] = _scatter(_op)


@rule("scatter-sub", "scatter_sub")
def _scatter_sub(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    negated = RULES["neg"](g, [ins[2]], [(ins[2].shape, ins[2].dtype)], {})
    return _scatter("add")(g, [ins[0], ins[1], negated], outs, params)
