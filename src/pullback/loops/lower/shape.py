"""Shape primitives as index functions: broadcast, reshape, transpose, slice, pad, concatenate,
reverse, iota, split, tile."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import Outs, broadcast, rule, scalar_convert, transposed
from pullback.loops.lower.graph import COMPLEX, Graph, Node, part_dtype, read
from pullback.loops.ops import INTS, limits

__all__ = ["around", "masked_read", "merged_axes", "merges", "reshape", "sliced"]


def around(axes: Sequence[int], rank: int) -> frozenset[int]:
    """The boundaries (k: between axis k and k+1) next to these axes: they cannot be merged with
    their neighbours."""
    return frozenset(k for a in axes for k in (a - 1, a) if 0 <= k < rank - 1)


@rule("broadcast_in_dim")
def _broadcast_in_dim(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, dims = ins[0], params["broadcast_dimensions"]
    order = sorted(range(len(dims)), key=dims.__getitem__)
    return broadcast(g, transposed(g, x, order), outs[0][0], [dims[k] for k in order])


@rule("reshape")
def _reshape(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    order = params.get("dimensions")
    return reshape(g, ins[0] if order is None else transposed(g, ins[0], order), outs[0][0])


@rule("squeeze", "expand_dims")
def _squeeze(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return reshape(g, ins[0], outs[0][0])


def reshape(g: Graph, x: Node, shape: tuple[int, ...]) -> Node:
    """x's elements in row-major order in another shape. Axes that stay, or gain and lose ones, keep
    their index."""
    if x.shape == shape:
        return x
    old, groups = x.shape, _groups(x.shape, shape)
    axes: list[int | None] = [None] * len(old)
    touched: list[int] = []
    plans: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for o, n in groups:
        if len(o) == 1 and len(n) == 1:
            axes[o[0]] = n[0]
        elif len(o) and len(n) and math.prod(old[k] for k in o) != 1:
            touched += n
        plans.append((tuple(o), tuple(n)))

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        out: list[Index] = [0] * len(old)
        for o, n in plans:
            if len(o) == 1 and len(n) == 1:
                out[o[0]] = idx[n[0]]
            elif o and n:
                flat = b.ravel([idx[k] for k in n], [shape[k] for k in n])
                for k, i in zip(o, b.unravel(flat, [old[k] for k in o]), strict=True):
                    out[k] = i
        return read(x, b, tuple(out))

    at.once = "reshaped"  # type: ignore[attr-defined]
    # Axes inside one group may be merged again: their row-major index is all that is used.
    inside = {k for o, n in groups if len(n) > 1 for k in n[:-1] if len(o) == 1}
    node = g.pointwise(
        shape, x.dtype, [(x, tuple(axes))], at, 0.0, around(touched, len(shape)) - inside
    )
    node.reshaped = x
    return node


def merges(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a reshape makes one axis of several, so that its index must be divided."""
    return any(len(o) > 1 and n for o, n in _groups(old, new))


def merged_axes(old: Sequence[int], new: Sequence[int]) -> list[list[int]] | None:
    """The axes that each axis of a reshape is made of, if it merges some and does nothing else."""
    groups = _groups(old, new)
    if not any(len(o) > 1 for o, _ in groups) or any(len(n) != 1 for _, n in groups):
        return None
    return [o for o, _ in groups]


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The finest split of both shapes into runs of equal product; axes of length one belong to runs
    of their own."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            groups.append(([i], []))
            i += 1
            continue
        if j < len(new) and new[j] == 1:
            groups.append(([], [j]))
            j += 1
            continue
        if i >= len(old) or j >= len(new):
            groups.append((list(range(i, len(old))), list(range(j, len(new)))))
            break
        o, n, p, q = [i], [j], old[i], new[j]
        i, j = i + 1, j + 1
        while p != q:
            if p < q and i < len(old):
                p *= old[i]
                o.append(i)
                i += 1
            elif j < len(new):
                q *= new[j]
                n.append(j)
                j += 1
            else:
                break
        groups.append((o, n))
    return groups


@rule("transpose")
def _transpose(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return transposed(g, ins[0], params["permutation"])


@rule("slice")
def _slice(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    return sliced(g, ins[0], outs[0][0], params["start_indices"], params["strides"])


def sliced(
    g: Graph, x: Node, shape: tuple[int, ...], start: Sequence[int], strides: Sequence[int] | None
) -> Node:
    """x[start : : stride] along each axis, of the given shape."""
    step = tuple(strides) if strides is not None else (1,) * len(start)
    whole = [n == m for n, m in zip(shape, x.shape, strict=True)]
    if all(whole):
        return x
    first = tuple(start)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(
            x,
            b,
            tuple(
                i if w else b.add(b.mul(i, s), o)
                for i, w, s, o in zip(idx, whole, step, first, strict=True)
            ),
        )

    at.once = "alone"  # type: ignore[attr-defined]
    axes = tuple(k if w else None for k, w in enumerate(whole))
    cut = [k for k, w in enumerate(whole) if not w]
    node = g.pointwise(shape, x.dtype, [(x, axes)], at, 0.0, around(cut, len(shape)))
    if len(cut) == 1:
        (k,) = cut
        node.rows = _rows_of(x, k, lambda b, i: b.add(b.mul(i, step[k]), first[k]))
    return node


@rule("split")
def _split(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    axis, start, nodes = params["axis"], 0, []
    for (shape, _), size in zip(outs, params["sizes"], strict=True):
        first = [0] * len(shape)
        first[axis] = start
        nodes.append(sliced(g, ins[0], shape, first, None))
        start += size
    return nodes


@rule("rev")
def _rev(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, dims = ins[0], frozenset(params["dimensions"])
    shape = x.shape

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(
            x,
            b,
            tuple(
                b.sub(n - 1, i) if k in dims else i
                for k, (i, n) in enumerate(zip(idx, shape, strict=True))
            ),
        )

    at.once = "alone"  # type: ignore[attr-defined]
    axes = tuple(None if k in dims else k for k in range(len(shape)))
    node = g.pointwise(shape, x.dtype, [(x, axes)], at, 0.0, around(sorted(dims), len(shape)))
    if len(dims) == 1:
        (k,) = dims
        node.rows = _rows_of(x, k, lambda b, i: b.sub(shape[k] - 1, i))
    return node


Place = Callable[[Builder, Index], Index]


Rows = tuple[Node, int, Place, int]


def _rows_of(x: Node, axis: int, place: Place) -> Rows:
    """The value whose rows along an axis are picked, the axis, and which row stands at a place: of
    x, or of what the rows of x are picked from in their turn; the choices that a place takes."""
    if x.rows is None or x.rows[1] != axis:
        return x, axis, place, 1
    source, _, inner, choices = x.rows
    return source, axis, lambda b, i: inner(b, place(b, i)), choices


CHOICES = 12  # that finding a row may take
LONG_ROWS = 64  # elements from which on a row is worth finding out where it lies


def _picked(g: Graph, parts: Sequence[Node], shape: tuple[int, ...], axis: int) -> Node | None:
    """What joins rows of one array (mirrored or wrapped edges, rolls), where rows are long: for
    each the row of that array is found first, then it is read once, without a condition."""
    picks: list[Rows] = [_rows_of(n, axis, lambda b, i: i) for n in parts]
    source, choices = picks[0][0], sum(pick[3] for pick in picks)
    short = math.prod(shape[axis + 1 :]) < LONG_ROWS
    if short or choices > CHOICES or any(pick[0] is not source for pick in picks):
        return None
    ends = list(itertools.accumulate(n.shape[axis] for n in parts))

    def place(b: Builder, i: Index) -> Index:
        if isinstance(i, int):
            k = next(k for k, end in enumerate(ends) if i < end)
            return picks[k][2](b, i - (ends[k - 1] if k else 0))
        found = None
        for (_, _, row, _), start, end in reversed(
            list(zip(picks, [0, *ends], ends, strict=False))
        ):
            here = b.atom(row(b, b.add(i, -start)))
            before = b.let("lt", (b.atom(i), b.dim(end)), "bool")
            found = here if found is None else b.select(before, here, found)
        assert found is not None
        return b.leaf_of(found, 0, source.shape[axis] - 1)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        return read(source, b, (*idx[:axis], place(b, idx[axis]), *idx[axis + 1 :]))

    at.once = "alone"  # type: ignore[attr-defined]
    axes = tuple(None if k == axis else k for k in range(len(shape)))
    node = g.pointwise(shape, source.dtype, [(source, axes)], at, 0.0, around([axis], len(shape)))
    node.rows = (source, axis, place, choices)
    return node


@rule("iota")
def _iota(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, dtype), axis = outs[0], params["dimension"]
    part = part_dtype(dtype)

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        v = scalar_convert(b, b.atom(idx[axis]), part)
        if part in INTS and shape[axis] - 1 <= limits(part)[1]:
            b.know(v, idx[axis])
        return (v, Const(0.0, part)) if dtype in COMPLEX else v

    return g.pointwise(shape, dtype, [], at, 1.0, around([axis], len(shape)))


@rule("empty2")
def _empty(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    shape, dtype = outs[0]
    part = part_dtype(dtype)
    zero = Const(False if part == "bool" else 0 if part[0] in "iu" else 0.0, part)
    return g.pointwise(
        shape, dtype, [], lambda b, idx: (zero, zero) if dtype in COMPLEX else zero, 0.0
    )


def masked_read(b: Builder, x: Node, idx: tuple[Index, ...], inside: Atom, other: Any) -> Any:
    """x[idx] where `inside` holds, else `other`; x is not touched elsewhere."""
    if isinstance(inside, Const):
        return read(x, b, idx) if inside.value else other
    saved = b.mask
    b.mask = b.both(saved, inside)
    value = read(x, b, idx)
    b.mask = saved
    if isinstance(value, tuple):
        return tuple(b.select(inside, v, o) for v, o in zip(value, other, strict=True))
    return b.select(inside, value, other)


@rule("pad")
def _pad(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (x, fill), (shape, _), config = (
        ins,
        outs[0],
        [tuple(map(int, c)) for c in params["padding_config"]],
    )
    changed = [k for k, c in enumerate(config) if any(c)]

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        inside: Atom = Const(True, "bool")
        out = list(idx)
        for k in changed:
            lo, _, gap = config[k]
            i = b.add(idx[k], -lo)
            exact = b.divided(i, gap + 1)
            if exact is False:
                return read(fill, b, ())
            if exact is not None:
                i = exact
                inside = b.both(inside, b.in_range(i, 0, x.shape[k]))
            elif gap:
                span = (x.shape[k] - 1) * (gap + 1) + 1 if x.shape[k] else 0
                inside = b.both(inside, b.in_range(i, 0, span))
                nonneg = b.to_index(b.atom(i), 0, max(0, span - 1))
                inside = b.both(inside, b.in_range(b.mod(nonneg, gap + 1), 0, 1))
                i = b.div(nonneg, gap + 1)
            else:
                inside = b.both(inside, b.in_range(i, 0, x.shape[k]))
            out[k] = i
        return masked_read(b, x, tuple(out), inside, read(fill, b, ()))

    at.once = "joined"  # type: ignore[attr-defined]
    axes = tuple(None if k in changed else k for k in range(len(shape)))
    node = g.pointwise(
        shape, x.dtype, [(x, axes), (fill, ())], at, 2.0, around(changed, len(shape))
    )
    node.padded = x, config, fill
    if shape and config[-1][2]:
        node.period = config[-1][2] + 1
    return node


# A loop that asks of every element which of thousands of arrays it comes from is long to compile:
# where there are more than so many they are joined in groups, which are stored.
MOST_PARTS, PART_GROUP = 32, 16


def _in_groups(g: Graph, parts: list[Node], out: Any, axis: int) -> Node:
    shape, dtype = out
    groups = []
    for k in range(0, len(parts), PART_GROUP):
        some = parts[k : k + PART_GROUP]
        size = sum(n.shape[axis] for n in some)
        own = (*shape[:axis], size, *shape[axis + 1 :])
        group: Node = _concatenate(g, some, [(own, dtype)], {"dimension": axis})
        group.wanted = True
        groups.append(group)
    whole: Node = _concatenate(g, groups, [out], {"dimension": axis})
    return whole


@rule("concatenate")
def _concatenate(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, dtype), axis = outs[0], params["dimension"]
    parts = [n for n in ins if n.shape[axis]] or ins[:1]
    if len(parts) == 1:
        return parts[0]
    if len(parts) > MOST_PARTS:
        return _in_groups(g, parts, outs[0], axis)
    picked = _picked(g, parts, shape, axis)
    if picked is not None:
        return picked
    starts = [0]
    for n in parts:
        starts.append(starts[-1] + n.shape[axis])

    def at(b: Builder, idx: tuple[Index, ...]) -> Any:
        i = idx[axis]
        value: Any = None
        for n, lo, hi in reversed(list(zip(parts, starts, starts[1:], strict=False))):
            inside = b.in_range(i, lo, hi)
            if isinstance(inside, Const) and not inside.value:
                continue
            place = (*idx[:axis], b.add(i, -lo), *idx[axis + 1 :])
            if value is None:
                if isinstance(inside, Const):
                    value = read(n, b, place)
                    continue
                zero = Const(
                    False if part_dtype(dtype) == "bool" else 0 if dtype[0] in "iu" else 0.0,
                    part_dtype(dtype),
                )
                value = masked_read(b, n, place, inside, (zero, zero) if dtype in COMPLEX else zero)
            else:
                value = masked_read(b, n, place, inside, value)
        return value

    at.once = "joined"  # type: ignore[attr-defined]
    axes = tuple(None if k == axis else k for k in range(len(shape)))
    node = g.pointwise(
        shape, dtype, [(n, axes) for n in parts], at, 2.0 * len(parts), around([axis], len(shape))
    )
    if axis == len(shape) - 1:
        node.parts = parts
    if len(parts) == shape[axis]:
        node.stacked = parts, axis
    return node


@rule("tile")
def _tile(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    """Axes of repetitions before those that repeat, and both as one."""
    x, shape = ins[0], outs[0][0]
    wide: list[int] = []
    places: list[int] = []
    for m, n in zip(shape, x.shape, strict=True):
        wide += [n] if m == n or not n else [m // n, n]
        places.append(len(wide) - 1)
    return reshape(g, broadcast(g, x, tuple(wide), places), shape)


@rule("stack")
def _stack(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (shape, _), axis = outs[0], params["axis"]
    parts = [reshape(g, x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in ins]
    node: Node = _concatenate(g, parts, [(shape, ins[0].dtype)], {"dimension": axis})
    return node


@rule("unstack")
def _unstack(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
    x, axis = ins[0], params["axis"]
    nodes = []
    for k, (shape, _) in enumerate(outs):
        first = [0] * len(x.shape)
        first[axis] = k
        row = sliced(g, x, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, None)
        nodes.append(reshape(g, row, shape))
    return nodes
