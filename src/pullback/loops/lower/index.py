"""Indexing: gather and dynamic slices as index functions; scatters and dynamic updates as
statements on a buffer.

Start positions are clamped or masked, never trusted: no program reads or writes outside its
buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index
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
    part_dtype,
    read,
    store_slot,
)
from pullback.loops.lower.shape import around, masked_read
from pullback.loops.lower.statements import box, copy_into
from pullback.loops.ops import identity_of, limits


def mode_name(mode: Any) -> str:
    """clip, fill or promise."""
    text = str(getattr(mode, "name", mode)).lower()
    return "clip" if "clip" in text else "promise" if "promise" in text else "fill"


def default_fill(dtype: str) -> Any:
    """What an index outside gives: NaN, the smallest signed, the largest unsigned, True."""
    if dtype == "bool":
        return True
    if dtype[0] == "u":
        return limits(dtype)[1]
    return limits(dtype)[0] if dtype[0] == "i" else float("nan")


def start_index(b: Builder, atom: Atom, limit: int, clip: bool) -> tuple[Index, Atom]:
    """A start position in 0..limit (clamped), and whether it was there to begin with."""
    if isinstance(atom, Const):
        value = int(atom.value)
        return min(max(value, 0), limit), Const(clip or 0 <= value <= limit, "bool")
    place = b.to_index(atom, 0, limit)
    if clip:
        return place, TRUE
    wide = atom if atom.dtype == "i64" else b.let("convert", (atom,), "i64")
    inside = b.both(
        b.let("ge", (wide, b.dim(0)), "bool"), b.let("le", (wide, b.dim(limit)), "bool")
    )
    return place, inside


@rule("gather")
def _gather(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, where = ins
    (shape, dtype), d = outs[0], params["dimension_numbers"]
    sizes, mode = tuple(params["slice_sizes"]), mode_name(params["mode"])
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window = [k for k in range(len(x.shape)) if k not in dropped]
    offset, batch = (
        tuple(d.offset_dims),
        [k for k in range(len(shape)) if k not in set(d.offset_dims)],
    )
    pairs = list(zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True))
    part = part_dtype(dtype)
    fill = params.get("fill_value")
    other: Any = Const(_typed(default_fill(part) if fill is None else fill, part), part)
    if dtype in COMPLEX:
        value = complex(float("nan"), float("nan")) if fill is None else complex(fill)
        other = (Const(value.real, part), Const(value.imag, part))
    if x.size == 0:
        return g.pointwise(shape, dtype, [], lambda b, idx: other, 1.0)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        spot = [idx[k] for k in batch]
        out: list[Index] = [0] * len(x.shape)
        for k, j in zip(window, offset, strict=True):
            out[k] = idx[j]
        for k, j in pairs:
            out[k] = spot[j]
        inside: Atom = TRUE
        for n, k in enumerate(d.start_index_map):
            first, ok = start_index(
                b, read(where, b, (*spot, n)), x.shape[k] - sizes[k], mode != "fill"
            )
            out[k] = b.add(out[k], first)
            inside = b.both(inside, ok)
        return masked_read(b, x, tuple(out), inside, other)

    mapped = set(d.start_index_map)
    axes: list[int | None] = [None] * len(x.shape)
    for k, j in zip(window, offset, strict=True):
        axes[k] = None if k in mapped and sizes[k] != x.shape[k] else j
    for k, j in pairs:
        axes[k] = batch[j]
    into = (*(batch[j] for j in range(len(where.shape) - 1)), None)
    touched = [j for k, j in zip(window, offset, strict=True) if sizes[k] != x.shape[k]]
    return g.pointwise(
        shape,
        dtype,
        [(x, tuple(axes)), (where, into)],
        at,
        4.0 * len(mapped),
        around(touched, len(shape)),
    )


def _typed(value: Any, dtype: str) -> Any:
    return bool(value) if dtype == "bool" else int(value) if dtype[0] in "iu" else float(value)


@rule("dynamic_slice")
def _dynamic_slice(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, starts, shape = ins[0], ins[1:], outs[0][0]

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        out = []
        for i, s, n, m in zip(idx, starts, x.shape, shape, strict=True):
            out.append(b.add(i, start_index(b, read(s, b, ()), n - m, True)[0]) if n != m else i)
        return read(x, b, tuple(out))

    axes = tuple(k if n == m else None for k, (n, m) in enumerate(zip(x.shape, shape, strict=True)))
    moved = [k for k, a in enumerate(axes) if a is None]
    deps: list[Any] = [(x, axes), *((s, ()) for k, s in enumerate(starts) if axes[k] is None)]
    return g.pointwise(shape, x.dtype, deps, at, 1.0, around(moved, len(shape)))


def apart(part: Sequence[int], whole: Sequence[int]) -> set[int]:
    """The boundaries of a box's axes that are not contiguous in the array it is a part of."""
    return {k for k in range(len(part) - 1) if part[k + 1] != whole[k + 1]}


@rule("dynamic_update_slice")
def _dynamic_update_slice(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, update, starts = ins[0], ins[1], ins[2:]
    if update.shape == x.shape:
        return update

    def emit(b: Builder, op: Opaque) -> None:
        target = op.outs[0]
        assert target.slot is not None
        if 0 not in op.reused:
            copy_into(b, x, target.slot)
        firsts = [
            start_index(b, read(s, b, ()), n - m, True)[0]
            for s, n, m in zip(starts, x.shape, update.shape, strict=True)
        ]

        def body(idx: tuple[Index, ...]) -> None:
            place = [b.add(i, f) for i, f in zip(idx, firsts, strict=True)]
            assert target.slot is not None
            store_slot(b, target.slot, x.shape, x.dtype, place, read(update, b, idx))

        box(b, update.shape, body, "vector", apart(update.shape, x.shape))

    modes = ["once", "aliased", *("scalar" for _ in starts)]
    op = Opaque(
        "update_slice",
        list(ins),
        modes,
        emit=emit,
        inplace=((0, 0),),
        work=float(x.size + update.size),
        updates=update.size,
    )
    return g.opaque(op, outs)[0]


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
    g: Graph, combine: str | None, x: Node, where: Node, updates: Node, params: dict[str, Any]
) -> Node:
    d, mode = params["dimension_numbers"], mode_name(params["mode"])
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    window_axes = tuple(d.update_window_dims)
    batch_axes = [k for k in range(len(updates.shape)) if k not in set(window_axes)]
    window = [k for k in range(len(x.shape)) if k not in dropped]
    sizes = [1] * len(x.shape)
    for k, j in zip(window, window_axes, strict=True):
        sizes[k] = updates.shape[j]
    pairs = list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True))
    batch_shape = tuple(updates.shape[k] for k in batch_axes)
    window_shape = tuple(updates.shape[k] for k in window_axes)

    def emit(b: Builder, op: Opaque) -> None:
        target = op.outs[0]
        assert target.slot is not None
        slot = target.slot
        if 0 not in op.reused:
            copy_into(b, x, slot)
        if x.size == 0:
            return

        def one(spot: tuple[Index, ...]) -> tuple[list[Index], Atom]:
            first: list[Index] = [0] * len(x.shape)
            inside: Atom = TRUE
            for k, j in pairs:
                first[k] = spot[j]
            for n, k in enumerate(d.scatter_dims_to_operand_dims):
                at, ok = start_index(
                    b, read(where, b, (*spot, n)), x.shape[k] - sizes[k], mode == "clip"
                )
                first[k] = b.add(first[k], at)
                inside = b.both(inside, ok)
            return first, inside

        def element(
            spot: tuple[Index, ...], inner: tuple[Index, ...], first: Sequence[Index], inside: Atom
        ) -> None:
            full: list[Index] = [0] * len(updates.shape)
            for k, i in zip(batch_axes, spot, strict=True):
                full[k] = i
            place = list(first)
            for k, j, i in zip(window, window_axes, inner, strict=True):
                full[j] = i
                place[k] = b.add(place[k], i)
            value = read(updates, b, tuple(full))
            _write(b, combine, slot, x, place, value, inside, apart_from_others)

        one_by_one = all(n == 1 for n in window_shape)
        count = math.prod(batch_shape)
        # No two elements of one window are at one place, so that lanes may update them together.
        apart_from_others = not one_by_one or count == 1
        if one_by_one:
            zeros = tuple(0 for _ in window_shape)

            def lane(spot: tuple[Index, ...]) -> None:
                first, inside = one(spot)
                element(spot, zeros, first, inside)

            def partial(spot: tuple[Index, ...], row: Slot) -> None:
                first, inside = one(spot)
                full: list[Index] = [0] * len(updates.shape)
                for k, i in zip(batch_axes, spot, strict=True):
                    full[k] = i
                where_to = b.select(inside, b.atom(b.ravel(first, x.shape)), b.dim(x.size))
                b.update(row.buf(b), where_to, read(updates, b, tuple(full)), combine)

            blocks = _blocks(x, count, combine)
            if blocks > 1 and not b.unrolling:
                _by_blocks(b, combine, slot, x, batch_shape, blocks, partial)
            else:
                box(b, batch_shape, lane, "vector", parallel=False)
            return

        def outer(spot: tuple[Index, ...]) -> None:
            first, inside = one(spot)
            full = [x.shape[k] for k in window]
            box(
                b,
                window_shape,
                lambda inner: element(spot, inner, first, inside),
                "vector",
                apart(window_shape, full),
                None if count == 1 else False,
            )

        box(b, batch_shape, outer, "seq", parallel=False)

    op = Opaque(
        "scatter",
        [x, where, updates],
        ["once", "many_aliased", "aliased"],
        emit=emit,
        inplace=((0, 0),),
        work=float(x.size + 8 * updates.size),
        updates=updates.size,
    )
    return g.opaque(op, [(x.shape, x.dtype)])[0]


BLOCKS = 8  # parts of many updates that are combined apart from each other, at most
EACH = 1 << 15  # updates in such a part, at least


def _blocks(x: Node, count: int, combine: str | None) -> int:
    """In how many parts many updates of few elements are cut; the number depends on sizes only,
    and with it the bits."""
    if combine is None or x.dtype in COMPLEX:
        return 1
    return min(BLOCKS, count // max(EACH, 4 * x.size))


def _by_blocks(
    b: Builder,
    combine: str | None,
    slot: Slot,
    x: Node,
    shape: Sequence[int],
    blocks: int,
    partial: Callable[[tuple[Index, ...], Slot], None],
) -> None:
    """Each block of updates is combined in a row of its own, with a last element for those that
    are outside; the rows are combined in order."""
    assert combine is not None
    rows = Slot(x.dtype, (blocks, x.size), "temp")
    b.bound[rows] = b.scratch(x.dtype, rows.size)
    count = math.prod(shape)
    each = -(-count // blocks)

    def block(k: Index) -> Sequence[Atom]:
        own = Slot(x.dtype, (x.size + 1,), "temp")
        b.bound[own] = b.scratch(x.dtype, own.size)

        def clear(i: Index) -> Sequence[Atom]:
            store_slot(b, own, own.shape, x.dtype, (i,), identity_of(combine, x.dtype))
            return ()

        def keep(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                value = load_slot(b, own, own.shape, x.dtype, (i,))
            store_slot(b, rows, rows.shape, x.dtype, (k, i), value)
            return ()

        def update(i: Index) -> Sequence[Atom]:
            partial(b.unravel(i, tuple(shape)), own)
            return ()

        b.loop(x.size + 1, "vector", clear)
        low = b.atom(b.mul(k, each))
        high = b.let("min", (b.let("add", (low, b.dim(each)), "i64"), b.dim(count)), "i64")
        b.loop(count, "vector", update, lo=low, hi=high)
        b.loop(x.size, "vector", keep)
        return ()

    b.loop(blocks, "parallel", block)

    def add(i: Index) -> Sequence[Atom]:
        total = load_slot(b, slot, (x.size,), x.dtype, (i,))
        for k in range(blocks):
            more = load_slot(b, rows, rows.shape, x.dtype, (k, i))
            total = b.let(combine, (total, more), x.dtype)
        store_slot(b, slot, (x.size,), x.dtype, (i,), total)
        return ()

    with Pinned(b):
        b.loop(x.size, "vector", add)


class Pinned:
    """Loads stay where they are asked for: what they read is written in between."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __enter__(self) -> None:
        self.saved, self.b.region_level = self.b.region_level, self.b.depth

    def __exit__(self, *_: Any) -> None:
        self.b.region_level = self.saved


def _write(
    b: Builder,
    combine: str | None,
    slot: Any,
    x: Node,
    place: Sequence[Index],
    value: Any,
    inside: Atom,
    alone: bool,
) -> None:
    """One element; `alone` where no other lane writes to its place."""
    if combine is None:
        store_slot(b, slot, x.shape, x.dtype, place, value, inside)
        return
    if alone or isinstance(slot, RegisterSlot):
        mask, level = b.mask, b.region_level
        if not isinstance(slot, RegisterSlot):
            b.mask = b.both(inside, mask)
            b.mask = None if b.mask == TRUE else b.mask
            b.region_level = b.depth  # an iteration reads what the one before has written
        old = load_slot(b, slot, x.shape, x.dtype, place)
        b.mask, b.region_level = mask, level
        pairs = zip(old, value, strict=True) if x.dtype in COMPLEX else [(old, value)]
        new = tuple(b.let(combine, pair, pair[0].dtype) for pair in pairs)
        value = new if x.dtype in COMPLEX else new[0]
        store_slot(b, slot, x.shape, x.dtype, place, value, inside)
        return
    offset = b.ravel(place, x.shape)
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
