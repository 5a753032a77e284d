"""Reductions: sums, products, extrema, logical ones, argmin and argmax, and `reduce` with a
combiner of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.elementwise import RULES, Outs, Rule, scalar_convert, transposed
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Reduction, read, runs_abreast
from pullback.loops.lower.shape import merged_axes, reshape
from pullback.loops.ops import BITS, FLOATS, INTS, NARROW_FLOATS, identity_of, limits

SHORT = 16  # elements of a reduction that is unrolled
END = 8  # elements that are fewer than lanes
LANES = 64  # elements that are worth lanes


def accumulator(dtype: str) -> str:
    """Narrow floats are summed in f32."""
    return "f32" if dtype in NARROW_FLOATS else dtype


def simple(op: str) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
        return [reduce_one(g, op, ins[0], tuple(params["axes"]))]

    return lower


def reduce_one(g: Graph, op: str, x: Node, axes: tuple[int, ...], dtype: str | None = None) -> Node:
    """x reduced over axes by a named combiner, in its own dtype or another."""
    if x.permuted is not None and axes:
        return _as_it_lies(g, op, x, axes, dtype)
    if (found := _axis_by_axis(g, op, x, axes, dtype)) is not None:
        return found
    if x.dtype in COMPLEX:
        return _reduce_complex(g, op, x, axes)
    acc = accumulator(x.dtype) if op in ("add", "mul") else x.dtype
    dtype = dtype or x.dtype
    key = op, x, tuple(sorted(axes)), dtype
    if key not in g.reduced:
        g.reduced[key] = _reduce_real(g, op, x, key[2], acc, dtype)
        if op == "add" and dtype in INTS:
            g.reduced[key].summed = (x, axes)
    return g.reduced[key]


def narrowed(g: Graph, x: Node, dtype: str) -> Node | None:
    """Integers that fewer bits of are wanted, without the others, where they need not be computed:
    widened ones, and sums of these, which wrap."""
    if dtype not in INTS or x.dtype not in INTS or BITS[dtype] >= BITS[x.dtype]:
        return None
    if x.widened is not None:
        return x.widened if x.widened.dtype == dtype else None
    if x.summed is None or x.summed[0].widened is None or x.summed[0].widened.dtype != dtype:
        return None
    return reduce_one(g, "add", x.summed[0].widened, x.summed[1])


def _as_it_lies(
    g: Graph, op: str, x: Node, axes: tuple[int, ...], dtype: str | None = None
) -> Node:
    """A transposed value reduced over the axes that it has in memory, where it is read in order."""
    assert x.permuted is not None
    inner, perm = x.permuted
    kept = [perm[a] for a in range(len(perm)) if a not in axes]
    found = reduce_one(g, op, inner, tuple(perm[a] for a in axes), dtype)
    order = [sorted(kept).index(a) for a in kept]
    return found if order == sorted(order) else transposed(g, found, order)


def _axis_by_axis(
    g: Graph, op: str, x: Node, axes: tuple[int, ...], dtype: str | None
) -> Node | None:
    """A computed value whose axes are merged, reduced down columns before they are: the same
    elements in the same order, and no index is divided."""
    inner, last = x.reshaped, len(x.shape) - 1
    if inner is None or inner.kind != "pw" or inner.root or last in axes or not axes:
        return None
    if (parts := merged_axes(inner.shape, x.shape)) is None or inner.shape[-1] < SHORT:
        return None
    found = reduce_one(g, op, inner, tuple(k for a in axes for k in parts[a]), dtype)
    return reshape(g, found, tuple(n for a, n in enumerate(x.shape) if a not in axes))


def _reduce_real(g: Graph, op: str, x: Node, axes: tuple[int, ...], acc: str, dtype: str) -> Node:
    end = _short_end(x.shape, axes)
    if end:
        lanes = reduce_one(g, op, x, tuple(a for a in axes if a < end), acc)
        rank = len(lanes.shape)
        return reduce_one(g, op, lanes, tuple(range(rank - len(x.shape) + end, rank)), dtype)
    element, deps = _elements(x, axes)
    red = Reduction(
        x.shape,
        axes,
        (acc,),
        lambda b, idx: (scalar_convert(b, element(b, idx), acc),),
        lambda b: (Const(0.0, acc) if op == "add" and acc[0] == "f" else identity_of(op, acc),),
        (op,),
        lambda b, accs: (scalar_convert(b, accs[0], dtype),),
        deps,
    )
    return g.reduction(red, [dtype])[0]


def _elements(x: Node, axes: tuple[int, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """How a reduction reads its operand, and what that is. Of a few values that were stacked to be
    reduced, each is read where it is where the reduction is unrolled: they are not joined."""
    parts, axis = x.stacked or ((), 0)
    if axes != (axis,) or axis == len(x.shape) - 1 or not 0 < len(parts) <= SHORT:
        return (lambda b, idx: read(x, b, idx)), [(x, None)]

    def element(b: Builder, idx: tuple[Index, ...]) -> Any:
        k = idx[axis]
        if not isinstance(k, int):  # beside a reduction that is a loop
            return read(x, b, idx)
        return read(parts[k], b, (*idx[:axis], 0, *idx[axis + 1 :]))

    own = tuple(None if k == axis else k for k in range(len(x.shape)))
    return element, [(part, own) for part in parts]


def _short_end(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Where the reduced axes begin that are last in memory, if they are so short that lanes had
    better run along them and the kept axis before: the others are reduced first. 0 if not."""
    first = len(shape)
    while first - 1 in axes:
        first -= 1
    rest = math.prod(shape[a] for a in axes if a < first)
    wide = 0 < first < len(shape) and shape[first - 1] * math.prod(shape[first:]) >= LANES
    return first if wide and rest > SHORT and math.prod(shape[first:]) <= END else 0


def _reduce_complex(g: Graph, op: str, x: Node, axes: tuple[int, ...]) -> Node:
    part = COMPLEX[x.dtype]
    combine: Any = (
        ("add", "add")
        if op == "add"
        else lambda b, old, new: cm.mul(b, (old[0], old[1]), (new[0], new[1]))
    )
    start = (Const(0.0 if op == "add" else 1.0, part), Const(0.0, part))
    red = Reduction(
        x.shape,
        tuple(sorted(axes)),
        (part, part),
        lambda b, idx: read(x, b, idx),
        lambda b: start,
        combine,
        lambda b, accs: ((accs[0], accs[1]),),
        [(x, None)],
    )
    return g.reduction(red, [x.dtype])[0]


for _name, _op in (
    ("reduce_sum", "add"),
    ("reduce_prod", "mul"),
    ("reduce_max", "max"),
    ("reduce_min", "min"),
    ("reduce_and", "and"),
    ("reduce_or", "or"),
    ("reduce_xor", "xor"),
):
    RULES[_name] = simple(_op)


def _first_of_best(g: Graph, is_max: bool, x: Node, axis: int, index: str) -> Node:
    """Where a row has its extreme value: two reductions that run in lanes, where one that carries
    a value and its place does not. An extreme that is NaN is at the first NaN."""
    best = reduce_one(g, "max" if is_max else "min", x, (axis,))
    count, floats = x.shape[axis], x.dtype in FLOATS

    def element(b: Builder, idx: tuple[Index, ...]) -> Sequence[Atom]:
        value = read(x, b, idx)
        here = b.let("eq", (value, read(best, b, idx[:axis])), "bool")
        if floats:
            here = b.let("or", (here, b.let("ne", (value, value), "bool")), "bool")
        place = scalar_convert(b, b.atom(idx[axis]), index)
        return (b.select(here, place, b.const(count, index)),)

    red = Reduction(
        x.shape,
        (axis,),
        (index,),
        element,
        lambda b: (b.const(count, index),),
        ("min",),
        lambda b, accs: (accs[0],),
        [(x, None), (best, tuple(range(axis)))],
        own=4.0,
    )
    return g.reduction(red, [index])[0]


def _arg(is_max: bool) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> list[Node]:
        x, (axis,) = ins[0], tuple(params["axes"])
        index = outs[0][1]
        worst = limits(x.dtype)[0 if is_max else 1]
        last = axis == len(x.shape) - 1
        long = last and (x.shape[axis] > SHORT or runs_abreast(x.shape, (axis,), [x]))
        if long and index in ("i32", "i64"):
            return [_first_of_best(g, is_max, x, axis, index)]

        value, deps = _elements(x, (axis,))

        def element(b: Builder, idx: tuple[Index, ...]) -> Sequence[Atom]:
            return value(b, idx), scalar_convert(b, b.atom(idx[axis]), index)

        def combine(b: Builder, old: list[Atom], new: list[Atom]) -> list[Atom]:
            """The better value, NaN best of all, the first index among equals: the old one, as
            elements come in order."""
            (v, i), (w, j) = old, new
            keep = b.let("ge" if is_max else "le", (v, w), "bool")
            if x.dtype in FLOATS:
                keep = b.let("or", (keep, b.let("ne", (v, v), "bool")), "bool")
            return [b.select(keep, v, w), b.select(keep, i, j)]

        def finish(b: Builder, accs: Sequence[Atom]) -> Sequence[Atom]:
            """Where the best value is the worst there is, all are: nothing has been better than
            the start, and the first index is 0."""
            none = b.let("eq", (accs[0], Const(worst, x.dtype)), "bool")
            return (b.select(none, Const(zero, index), accs[1]),)

        zero = 0 if index in INTS else 0.0
        start = Const(worst, x.dtype), Const(zero, index)
        red = Reduction(
            x.shape,
            (axis,),
            (x.dtype, index),
            element,
            lambda b: start,
            combine,
            finish,
            deps,
            own=4.0,
        )
        return g.reduction(red, [index])

    return lower


RULES["argmax"], RULES["argmin"] = _arg(True), _arg(False)
