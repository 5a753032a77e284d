"""Gathers and dynamic slices as index functions; dynamic updates of slices as statements on a
buffer.

Start positions are clamped or masked, never trusted: no program reads or writes outside its
buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, rule
from pullback.loops.lower.graph import (
    COMPLEX,
    Graph,
    Node,
    Opaque,
    RegisterSlot,
    part_dtype,
    read,
    store_slot,
)
from pullback.loops.lower.shape import around, masked_read
from pullback.loops.lower.statements import box, copy_into
from pullback.loops.ops import limits


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
    """A start position, and whether it is in 0..limit. With `clip` it is brought there; otherwise
    it may be used only where it is there."""
    if isinstance(atom, Const):
        value = int(atom.value)
        return min(max(value, 0), limit), Const(clip or 0 <= value <= limit, "bool")
    if clip:
        return b.to_index(atom, 0, limit), TRUE
    known = b.known_index(atom)
    if known is not None:
        return known, b.in_range(known, 0, limit + 1)
    wide = atom if atom.dtype == "i64" else b.let("convert", (atom,), "i64")
    # One comparison for both ends: as an unsigned number, what is negative is large.
    ends = [b.let("convert", (x,), "u64") for x in (wide, b.dim(limit))]
    return b.leaf_of(wide, 0, limit), b.let("le", (ends[0], ends[1]), "bool")


def columns(x: Node) -> list[tuple[Node, int]]:
    """The components of index vectors, each as a value and its place along the last axis there: a
    reader of single components need not put them together first."""
    found: list[tuple[Node, int]] = []
    parts = x.parts if x.parts is not None and x.kind == "pw" else None
    for part in (x,) if parts is None or x.root else parts:
        if part is not x and part.parts is not None:
            found += columns(part)
        else:
            found += [(part, k) for k in range(part.shape[-1])]
    return found


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
    other: Any
    if dtype in COMPLEX:
        value = complex(float("nan"), float("nan")) if fill is None else complex(fill)
        other = (Const(value.real, part), Const(value.imag, part))
    else:
        other = Const(_typed(default_fill(part) if fill is None else fill, part), part)
    if x.size == 0:
        return g.pointwise(shape, dtype, [], lambda b, idx: other, 1.0)
    parts = columns(where)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        spot = [idx[k] for k in batch]
        out: list[Index] = [0] * len(x.shape)
        for k, j in zip(window, offset, strict=True):
            out[k] = idx[j]
        for k, j in pairs:
            out[k] = spot[j]
        inside: Atom = TRUE
        for (part, n), k in zip(parts, d.start_index_map, strict=True):
            first, ok = start_index(
                b, read(part, b, (*spot, n)), x.shape[k] - sizes[k], mode != "fill"
            )
            out[k] = b.add(out[k], first)
            inside = b.both(inside, ok)
        return masked_read(b, x, tuple(out), inside, other)

    if math.prod(shape) <= x.size:
        at.once = x  # type: ignore[attr-defined]
    at.one_by_one = len(shape) - 1 not in offset  # type: ignore[attr-defined]
    at.of_rows = len(shape) - 1 in offset  # type: ignore[attr-defined]
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
        [(x, tuple(axes)), *((part, into) for part in dict(parts))],
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


def literal_index(x: Node) -> bool:
    """Whether an index is written in the program: it is computed of nothing."""
    return x.kind == "pw" and all(literal_index(dep) for dep, _ in x.deps)


@rule("dynamic_update_slice")
def _dynamic_update_slice(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, update, starts = ins[0], ins[1], ins[2:]
    if update.shape == x.shape:
        return update
    return _update_slice(g, x, update, starts, None)


def _update_slice(
    g: Graph, x: Node, update: Node, starts: Sequence[Node], when: Node | None
) -> Node:
    """x with a slice written over, if a condition holds."""

    def emit(b: Builder, op: Opaque) -> None:
        slot = op.outs[0].slot
        assert slot is not None
        holds = None if when is None else read(when, b, ())
        if 0 not in op.reused:
            copy_into(b, x, slot)
        firsts = [
            start_index(b, read(s, b, ()), n - m, True)[0]
            for s, n, m in zip(starts, x.shape, update.shape, strict=True)
        ]
        # Of a few elements each is selected, more are skipped together.
        each = update.size == 1 or isinstance(slot, RegisterSlot)

        def body(idx: tuple[Index, ...]) -> None:
            place = [b.add(i, f) for i, f in zip(idx, firsts, strict=True)]
            value, mask = read(update, b, idx), holds if each else None
            store_slot(b, slot, x.shape, x.dtype, place, value, mask)

        def write() -> list[Atom]:
            box(b, update.shape, body, "vector", apart(update.shape, x.shape))
            return []

        if each or holds is None:
            write()
        else:
            b.branch(holds, write, list)

    def under(g: Graph, x: Node, p: Node, dims: tuple[int, ...]) -> Node | None:
        return None if p.shape or when is not None else _update_slice(g, x, update, starts, p)

    numbers = list(starts) if when is None else [*starts, when]
    op = Opaque(
        "update_slice",
        [x, update, *numbers],
        ["once", "aliased", *("scalar" for _ in numbers)],
        emit=emit,
        inplace=((0, 0),),
        numbers_first=True,
        work=float(x.size + update.size),
        updates=update.size,
        fixed=lambda: when is None and all(map(literal_index, starts)),
        under=under,
    )
    return g.opaque(op, [(x.shape, x.dtype)])[0]
