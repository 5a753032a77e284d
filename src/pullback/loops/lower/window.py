"""Windows: sums, extrema and general reductions over sliding windows, and the scatter of the
windows' selected elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pullback.loops.build import FALSE, TRUE, Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower.elementwise import RULES, Outs, Rule, rule, scalar_convert
from pullback.loops.lower.graph import (
    COMPLEX,
    Graph,
    Node,
    Opaque,
    Reduction,
    part_dtype,
    read,
    store_slot,
)
from pullback.loops.lower.program_hook import add_program
from pullback.loops.lower.reduce import accumulator, reduce_one
from pullback.loops.lower.shape import masked_read
from pullback.loops.lower.statements import box
from pullback.loops.ops import FLOATS, INTS, identity_of

FREE = frozenset(("add", "mul", "max", "min", "and", "or", "xor"))  # in any order, in lanes
REPEATED = frozenset(("max", "min", "and", "or"))  # an element may be taken twice


def window_place(
    b: Builder,
    out: Sequence[Index],
    win: Sequence[Index],
    x: tuple[int, ...],
    strides: Sequence[int],
    lows: Sequence[int],
    base: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[Index, ...], Atom]:
    """Where element `win` of window `out` reads its operand, and whether that is inside."""
    place: list[Index] = []
    inside: Atom = TRUE
    for o, w, n, s, lo, gap, d in zip(out, win, x, strides, lows, base, dilation, strict=True):
        i = b.add(b.add(b.mul(o, s), b.mul(w, d)), -lo)
        if gap != 1:
            span = (n - 1) * gap + 1 if n else 0
            inside = b.both(inside, b.in_range(i, 0, span))
            i = b.to_index(b.atom(i), 0, max(0, span - 1))
            inside = b.both(inside, b.in_range(b.mod(i, gap), 0, 1))
            i = b.div(i, gap)
        else:
            inside = b.both(inside, b.in_range(i, 0, n))
        place.append(i)
    return tuple(place), inside


def _config(params: dict[str, Any], rank: int) -> tuple[Any, Any, Any, Any, Any]:
    dims = tuple(params["window_dimensions"])
    ones = (1,) * rank
    lows = tuple(int(p[0]) for p in params["padding"])
    base, dilation = params.get("base_dilation") or ones, params.get("window_dilation") or ones
    return dims, tuple(params["window_strides"]), lows, tuple(base), tuple(dilation)


def windowed(
    g: Graph,
    xs: Sequence[Node],
    shape: tuple[int, ...],
    params: dict[str, Any],
    accs: Sequence[str],
    starts: Any,
    combine: Any,
    dtypes: Sequence[str],
) -> list[Node]:
    """A reduction over (result axes, window axes)."""
    rank = len(shape)
    dims, strides, lows, base, dilation = _config(params, rank)
    real = [k for k in range(rank) if dims[k] != 1]
    # Window axes come before the last result axis: lanes run along results.
    last = len(real) + rank - 1
    space = (*shape[:-1], *(dims[k] for k in real), shape[-1])

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        win: list[Index] = [0] * rank
        for k, i in zip(real, idx[rank - 1 : last], strict=True):
            win[k] = i
        place, inside = window_place(
            b, (*idx[: rank - 1], idx[last]), win, xs[0].shape, strides, lows, base, dilation
        )
        init = starts(b)
        out: list[Atom] = []
        for x, acc in zip(xs, accs, strict=True):
            outside = scalar_convert(b, init[len(out)], part_dtype(x.dtype))
            value = masked_read(b, x, place, inside, outside)
            out.append(scalar_convert(b, value, acc))
        return out

    def finish(b: Builder, values: Sequence[Atom]) -> list[Any]:
        return [scalar_convert(b, v, d) for v, d in zip(values, dtypes, strict=True)]

    whole = [dims[k] == 1 and strides[k] == 1 and xs[0].shape[k] == shape[k] for k in range(rank)]
    free = tuple((last if k == rank - 1 else k) if whole[k] else None for k in range(rank))
    red = Reduction(
        space,
        tuple(range(rank - 1, last)),
        tuple(accs),
        element,
        starts,
        combine,
        finish,
        [(x, free) for x in xs],
        own=3.0,
        own_breaks=frozenset(k for k in range(len(space) - 1)),
    )
    return g.reduction(red, dtypes)


def _stretched_sum(
    g: Graph, x: Node, shape: tuple[int, ...], params: dict[str, Any], acc: str
) -> list[Node] | None:
    """Sums over windows of an operand between whose elements there are zeros, as in the gradient
    of windows with strides: only the elements themselves are added, one in `gap` of each axis.
    None where there are no zeros between."""
    rank = len(shape)
    dims, strides, lows, base, dilation = _config(params, rank)
    if x.padded is not None and not any(p != (0, 0) for p in params["padding"]):
        source, config, fill = x.padded
        zeros = getattr(fill.at, "literal", None) == 0
        if zeros and max(base) == 1 and all(lo >= 0 <= hi for lo, hi, _ in config):
            x, lows = source, tuple(lo for lo, _, _ in config)
            base = tuple(gap + 1 for _, _, gap in config)
    if max(base) == 1 or max(strides) > 1 or max(dilation) > 1 or 0 in (*shape, *x.shape):
        return None
    real = [k for k in range(rank) if (dims[k], lows[k]) != (1, 0) or x.shape[k] != shape[k]]
    terms = [-(-dims[k] // base[k]) for k in real]
    last = len(real) + rank - 1
    space = (*shape[:-1], *terms, shape[-1])
    dtype = x.dtype

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        inside: Atom = TRUE
        place = [*idx[: rank - 1], idx[last]]
        for k, j in zip(real, idx[rank - 1 : last], strict=True):
            gap, whole = base[k], -(-lows[k] // base[k])
            # The first element at or after the window's begin, counted from -whole.
            begin = b.add(place[k], whole * gap - lows[k])
            i = b.add(b.add(b.div(b.add(begin, gap - 1), gap), -whole), j)
            if dims[k] % gap:  # not every window has the last one
                end = b.add(place[k], dims[k] - lows[k])
                inside = b.both(inside, b.in_range(b.sub(end, b.mul(i, gap)), 1, dims[k] + 1))
            inside = b.both(inside, b.in_range(i, 0, x.shape[k]))
            place[k] = i
        zero = scalar_convert(b, Const(0.0, "f32"), dtype)
        return [scalar_convert(b, masked_read(b, x, tuple(place), inside, zero), acc)]

    def finish(b: Builder, values: Sequence[Atom]) -> list[Any]:
        start = Const(0.0 if acc[0] in "fb" else 0, acc)
        return [scalar_convert(b, b.let("add", (values[0], start), acc), dtype)]

    same = tuple((last if k == rank - 1 else k) if k not in real else None for k in range(rank))
    red = Reduction(
        space,
        tuple(range(rank - 1, last)),
        (acc,),
        element,
        lambda b: (Const(0.0, acc) if acc[0] in "fb" else identity_of("add", acc),),
        ("add",),
        finish,
        [(x, same)],
        own=3.0,
        own_breaks=frozenset(range(len(space) - 1)),
    )
    return g.reduction(red, [dtype])


LONG = 32  # places of a window along an axis that are read one by one
STORED = 3.0  # places that take as long as storing an element and reading it again

Step = tuple[int, int]  # places, and how far apart


def _steps_along(n: int, again: bool) -> list[Step]:
    """A window of n places along an axis as windows of windows: each of so many places of the one
    before, which lie apart as far as that reaches. `again`: places may be read twice."""
    steps: list[Step] = []
    reach = 1
    while n > LONG * reach:
        left = n // reach
        count = next((c for c in range(8, 1, -1) if left % c == 0), 0) if not again else 8
        if not count:
            return [*steps, (left, reach)]
        steps.append((count, reach))
        reach *= count
    count = n // reach
    steps += [(count, reach)] if count > 1 else []
    return steps if count * reach == n else [*steps, (2, n - count * reach)]


def _in_steps(
    g: Graph,
    x: Node,
    shape: tuple[int, ...],
    params: dict[str, Any],
    op: str,
    acc: str,
    first: Atom,
) -> list[Node] | None:
    """A reduction over windows as reductions along one axis after the other, long windows as
    windows of windows: 11 x 11 places are 22, and 1000 are 33. None where that is not less."""
    rank, dtype = len(shape), x.dtype
    dims, strides, _, base, _ = _config(params, rank)
    if max(base, default=1) > 1 or 0 in (*shape, *x.shape):
        return None
    # Axes that leave fewer windows than elements come first, then those of neighbours.
    axes = sorted((k for k in range(rank) if dims[k] > 1), key=lambda k: (-strides[k], -k))
    todo: list[tuple[tuple[int, ...], dict[str, Any]]] = []
    now, cost = x.shape, 0.0
    for k in axes:
        for length, count, how in _steps_of(params, k, shape, op):
            now = (*now[:k], length, *now[k + 1 :])
            todo.append((now, how))
            cost += math.prod(now) * (count + STORED)
    if len(todo) < 2 or 1.5 * cost > math.prod(shape) * (math.prod(dims) + STORED) or now != shape:
        return None
    for k, (after, how) in enumerate(todo):
        kind = acc if k < len(todo) - 1 else dtype
        (x,) = windowed(g, [x], after, how, [acc], lambda b: (first,), (op,), [kind])
    return [x]


def _steps_of(
    params: dict[str, Any], k: int, shape: tuple[int, ...], op: str
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The steps along axis k: how long it is afterwards, how many places each window has, and the
    parameters."""
    rank = len(shape)
    dims, strides, lows, _, dilation = _config(params, rank)

    def only(value: Any, other: Any) -> tuple[Any, ...]:
        return tuple(value if i == k else other for i in range(rank))

    steps = _steps_along(dims[k], op in REPEATED)
    seen, low = 1, lows[k]
    for j, (count, apart) in enumerate(steps):
        last = j == len(steps) - 1
        seen += (count - 1) * apart
        length = (shape[k] - 1) * strides[k] + 1 + (dims[k] - seen) * dilation[k]
        how = {
            "window_dimensions": only(count, 1), "padding": only((low, 0), (0, 0)),
            "window_strides": only(strides[k] if last else 1, 1),
            "window_dilation": only(apart * dilation[k], 1),
        }  # fmt: skip
        yield shape[k] if last else length, count, how
        low = 0


def _over_windows(
    g: Graph, op: str, x: Node, shape: tuple[int, ...], params: dict[str, Any]
) -> list[Node]:
    """A reduction whose order is free, over windows; what is outside does not count."""
    acc = accumulator(x.dtype) if op == "add" else x.dtype
    first = Const(0.0, acc) if op == "add" and acc[0] == "f" else identity_of(op, acc)
    if op == "add":
        gradual = _stretched_sum(g, x, shape, params, acc)
        if gradual is not None:
            return gradual
    steps = _in_steps(g, x, shape, params, op, acc, first)
    if steps is not None:
        return steps
    return windowed(g, [x], shape, params, [acc], lambda b: (first,), (op,), [x.dtype])


def _simple(op: str) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
        if ins[0].dtype in COMPLEX:
            return NotImplemented
        return _over_windows(g, op, ins[0], outs[0][0], params)

    return lower


for _name, _op in (
    ("reduce_window_sum", "add"),
    ("reduce_window_max", "max"),
    ("reduce_window_min", "min"),
):
    RULES[_name] = _simple(_op)


def program_combiner(g: Graph, program: Any) -> Any:
    """A scalar program of (old..., new...) as a combiner; None if it does more than scalar
    arithmetic."""

    def combine(b: Builder, old: list[Atom], new: list[Atom]) -> list[Atom]:
        graph = Graph(parent=g)
        graph.options = g.options

        def leaf(a: Atom) -> Node:
            return graph.computed_leaf((), a.dtype, lambda _b, _i: a)

        leaves = [leaf(a) for a in (*old, *new)]
        return [read(n, b, ()) for n in add_program(graph, program, leaves)]

    return combine


def plain_program(g: Graph, program: Any, dtypes: Sequence[str]) -> bool:
    """Whether a combiner's program is scalar arithmetic only."""
    if any(d in COMPLEX for d in dtypes):
        return False
    graph = Graph(parent=g)
    graph.options = g.options
    leaves = [graph.computed_leaf((), d, lambda _b, _i: None) for d in (*dtypes, *dtypes)]
    add_program(graph, program, leaves)
    return all(n.kind in ("pw", "leaf") and not n.shape and n.slot is None for n in graph.nodes)


def _one_each(jaxpr: Any, dtypes: list[str]) -> list[str] | None:
    """What a combiner does with each pair of its operands, where that is one operation each whose
    order is free; None if it does anything else. Complex numbers are ordered by their parts, which
    no one operator does."""
    half, made = len(jaxpr.invars) // 2, {e.outvars[0]: e for e in jaxpr.eqns}
    ops = []
    for k, out in enumerate(jaxpr.outvars):
        eqn = made.get(out)
        pair = {jaxpr.invars[k], jaxpr.invars[half + k]}
        if eqn is None or eqn.primitive.name not in FREE or {*eqn.invars} != pair:
            return None
        if dtypes[k] in COMPLEX and eqn.primitive.name in ("max", "min"):
            return None
        ops.append(eqn.primitive.name)
    return None if jaxpr.constvars else ops


@rule("reduce")
def _reduce(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    half = len(ins) // 2
    xs, inits = ins[:half], ins[half:]
    dtypes = [x.dtype for x in xs]
    ops = _one_each(params["jaxpr"].jaxpr, dtypes)
    if ops is not None:
        axes = tuple(sorted(params["dimensions"]))
        sums = [reduce_one(g, op, x, axes) for op, x in zip(ops, xs, strict=True)]
        each = zip(ops, inits, sums, outs, strict=True)
        return [RULES[op](g, [init, x], [out], {}) for op, init, x, out in each]
    if not plain_program(g, params["jaxpr"], dtypes):
        return NotImplemented
    combine = program_combiner(g, params["jaxpr"])
    # The initial values need not be neutral, so they are the start of one ordered sweep, not of
    # every lane and block.
    return _ordered(g, xs, inits, tuple(sorted(params["dimensions"])), combine, outs)


def _ordered(
    g: Graph, xs: list[Node], inits: list[Node], axes: tuple[int, ...], combine: Any, outs: Outs
) -> list[Node]:
    """A reduction with any combiner: each result element folds its operands in index order,
    starting from the initial values."""
    shape = xs[0].shape
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    extents, rows = tuple(shape[k] for k in axes), tuple(shape[k] for k in kept)

    def emit(b: Builder, op: Opaque) -> None:
        start = [read(n, b, ()) for n in inits]

        def row(idx: tuple[Index, ...]) -> None:
            carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in start]

            def body(k: Index) -> list[Atom]:
                full: list[Index] = [0] * len(shape)
                for axis, i in (
                    *zip(kept, idx, strict=True),
                    *zip(axes, b.unravel(k, extents), strict=True),
                ):
                    full[axis] = i
                return list(
                    combine(b, [v for _, v in carry], [read(x, b, tuple(full)) for x in xs])
                )

            for out, v in zip(op.outs, b.loop(math.prod(extents), "seq", body, carry), strict=True):
                assert out.slot is not None
                store_slot(b, out.slot, rows, out.dtype, idx, v)

        box(b, rows, row, "vector", range(len(rows)), cost=8.0 * math.prod(extents))

    modes = [*("once" for _ in xs), *("scalar" for _ in inits)]
    op = Opaque("reduce", [*xs, *inits], modes, emit=emit, work=8.0 * xs[0].size)
    return g.opaque(op, outs)


@rule("reduce_window")
def _reduce_window(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    half = len(ins) // 2
    xs, inits = ins[:half], ins[half:]
    dtypes = [x.dtype for x in xs]
    ops = _one_each(params["jaxpr"], dtypes)
    if ops is not None and all(
        op in REPEATED or d in INTS for op, d in zip(ops, dtypes, strict=True)
    ):
        found = [
            _over_windows(g, op, x, o[0], params) for op, x, o in zip(ops, xs, outs, strict=True)
        ]
        return [
            RULES[op](g, [init, *windows], [out], {})
            for op, init, windows, out in zip(ops, inits, found, outs, strict=True)
        ]
    if not plain_program(g, params["jaxpr"], dtypes):
        return NotImplemented
    combine, shape, rank = program_combiner(g, params["jaxpr"]), outs[0][0], len(outs[0][0])
    dims, strides, lows, base, dilation = _config(params, rank)

    def emit(b: Builder, op: Opaque) -> None:
        start = [read(n, b, ()) for n in inits]

        def row(idx: tuple[Index, ...]) -> None:
            carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in start]

            def body(k: Index) -> list[Atom]:
                place, inside = window_place(
                    b, idx, b.unravel(k, dims), xs[0].shape, strides, lows, base, dilation
                )
                new = [masked_read(b, x, place, inside, s) for x, s in zip(xs, start, strict=True)]
                old = [v for _, v in carry]
                both = combine(b, old, new)
                if inside == TRUE:
                    return list(both)
                # The initial value need not be neutral: it is combined once, not for each place
                # outside.
                return [b.select(inside, c, v) for c, v in zip(both, old, strict=True)]

            for out, v in zip(op.outs, b.loop(math.prod(dims), "seq", body, carry), strict=True):
                assert out.slot is not None
                store_slot(b, out.slot, shape, out.dtype, idx, v)

        box(b, shape, row, "vector", range(rank), cost=8.0 * math.prod(dims))

    modes = [*("many" for _ in xs), *("scalar" for _ in inits)]
    return g.opaque(
        Opaque(
            "reduce_window",
            list(ins),
            modes,
            emit=emit,
            work=8.0 * math.prod(shape) * math.prod(dims),
        ),
        outs,
    )


def _selection(params: dict[str, Any], dtype: str) -> tuple[str, Const]:
    """What says of an earlier and a later element whether the earlier stays, and the element that
    loses to all others: it stands wherever a window leaves the array, and wins there against its
    equals by coming first."""
    select = str(getattr(params["select_prim"], "name", params["select_prim"]))
    return select, identity_of({"ge": "max", "le": "min"}[select], dtype)


@rule("select_and_scatter_add")
def _select_and_scatter_add(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    source, x = ins
    if x.dtype in COMPLEX or x.dtype == "bool" or source.dtype != x.dtype:
        return NotImplemented

    def emit(b: Builder, op: Opaque) -> None:
        if not source.size:
            zero = scalar_convert(b, Const(0, "i32"), x.dtype)
            slot = op.outs[0].slot
            assert slot is not None
            box(b, x.shape, lambda idx: store_slot(b, slot, x.shape, x.dtype, idx, zero), "vector")
            return
        chosen = b.scratch("i32", source.size, "chosen")
        _choose(b, x, source.shape, params, chosen)
        _collect(b, op, chosen, params)

    op = Opaque(
        "select_and_scatter_add",
        [source, x],
        ["many", "many"],
        emit=emit,
        work=8.0 * source.size * math.prod(params["window_dimensions"]),
    )
    return g.opaque(op, outs)[0]


def _choose(
    b: Builder, x: Node, windows: tuple[int, ...], params: dict[str, Any], chosen: Buf
) -> None:
    """Which element of its window every window selects; -1 where that is padding."""
    rank, acc = len(x.shape), accumulator(x.dtype)
    dims, strides, lows, base, dilation = _config(params, rank)
    select, lost = _selection(params, acc)

    def window(idx: tuple[Index, ...]) -> None:
        carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in (lost, Const(-1, "i32"))]

        def body(k: Index) -> list[Atom]:
            place, inside = window_place(
                b, idx, b.unravel(k, dims), x.shape, strides, lows, base, dilation
            )
            outside = scalar_convert(b, lost, x.dtype)
            value = scalar_convert(b, masked_read(b, x, place, inside, outside), acc)
            best, which = (v for _, v in carry)
            begun = b.in_range(k, 1, math.prod(dims))
            stays = b.both(begun, b.let(select, (best, value), "bool"))
            here = scalar_convert(b, b.atom(k), "i32")
            here = b.select(inside, here, Const(-1, "i32"))
            return [b.select(stays, best, value), b.select(stays, which, here)]

        which = b.loop(math.prod(dims), "seq", body, carry)[1]
        b.store(chosen, b.atom(b.ravel(idx, windows)), which)

    box(b, windows, window, "vector", range(rank), cost=8.0 * math.prod(dims))


def _collect(b: Builder, op: Opaque, chosen: Buf, params: dict[str, Any]) -> None:
    """Every element adds the sources of the windows that have selected it, in their order. Where
    windows move by steps, an axis is (step, remainder): which windows there are, and an element's
    place in them, is the same for all elements of one remainder."""
    (source, x), out = op.ins, op.outs[0]
    rank, dtype, acc = len(x.shape), x.dtype, accumulator(x.dtype)
    dims, strides, lows, _, _ = _config(params, rank)
    terms = [-(-n // s) for n, s in zip(dims, strides, strict=True)]
    split: list[int] = []
    for k, (n, s) in enumerate(zip(x.shape, strides, strict=True)):
        pair = [-(-n // s), s] if s != 1 else [n]
        split += pair[::-1] if k == rank - 1 else pair  # lanes run along steps
    assert out.slot is not None
    slot, zero = out.slot, scalar_convert(b, Const(0, "i32"), acc)

    def element(idx: tuple[Index, ...]) -> None:
        at = list(idx)
        place: list[Index] = []
        first: list[Index] = []  # the last window that has the element, and its place there
        within: list[Index] = []
        there: Atom = TRUE
        for k, s in enumerate(strides):
            q: Index = at.pop(0)
            r: Index = at.pop(0) if s != 1 else 0
            if s != 1 and k == rank - 1:
                q, r = r, q
            place.append(b.linear([(q, s), (r, 1)]))
            more = b.add(r, lows[k] % s)
            first.append(b.linear([(q, 1), (lows[k] // s, 1), (b.div(more, s), 1)]))
            within.append(b.mod(more, s))
            there = b.both(there, b.in_range(place[-1], 0, x.shape[k]))
        saved = b.mask
        b.mask = None if (mask := b.both(saved, there)) == TRUE else mask
        total = sums(first, within)
        store_slot(b, slot, x.shape, dtype, tuple(place), scalar_convert(b, total, dtype))
        b.mask = saved

    def sums(first: list[Index], within: list[Index]) -> Atom:
        carry = [(zero, b.var(acc, b.depth + 1, "a"))]

        def add(old: Atom, j: Index) -> Atom:
            back = b.unravel(j, terms)
            window: list[Index] = []
            spot: list[Index] = []
            inside: Atom = TRUE
            for k, s in enumerate(strides):
                before = b.linear([(back[k], -1), (terms[k] - 1, 1)])
                window.append(b.sub(first[k], before))
                spot.append(b.linear([(before, s), (within[k], 1)]))
                inside = b.both(inside, b.in_range(window[-1], 0, source.shape[k]))
                inside = b.both(inside, b.in_range(spot[-1], 0, dims[k]))
            if inside == FALSE:
                return old
            saved = b.mask
            b.mask = None if (mask := b.both(saved, inside)) == TRUE else mask
            place = b.atom(b.ravel(window, source.shape))
            which = b.load(chosen, place, Const(-1, "i32"))
            value = scalar_convert(b, read(source, b, tuple(window)), acc)
            b.mask = saved
            mine = scalar_convert(b, b.atom(b.ravel(spot, dims)), "i32")
            take = b.both(inside, b.let("eq", (which, mine), "bool"))
            new = scalar_convert(b, b.let("add", (old, value), acc), dtype)  # rounded each time
            return b.select(take, scalar_convert(b, new, acc), old)

        if math.prod(terms) == 1:
            return add(zero, 0)
        return b.loop(math.prod(terms), "seq", lambda j: [add(carry[0][1], j)], carry)[0]

    cost = 8.0 * math.prod(terms)
    box(b, split, element, "vector", range(len(split)), cost=cost)


@rule("select_and_gather_add")
def _select_and_gather_add(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    """The tangent of each window's selected element."""
    tangents, x = ins
    shape, rank = outs[0][0], len(x.shape)
    dims, strides, lows, base, dilation = _config(params, rank)
    select, lost = _selection(params, x.dtype)
    if x.dtype in COMPLEX or tangents.dtype != x.dtype:
        return NotImplemented

    def emit(b: Builder, op: Opaque) -> None:
        out = op.outs[0]
        assert out.slot is not None
        slot = out.slot
        zero = Const(0.0 if x.dtype in FLOATS else 0, x.dtype)

        def window(idx: tuple[Index, ...]) -> None:
            # The element that loses to all others comes first, with a tangent of zero.
            carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in (lost, zero)]

            def body(k: Index) -> list[Atom]:
                place, inside = window_place(
                    b, idx, b.unravel(k, dims), x.shape, strides, lows, base, dilation
                )
                value = masked_read(b, x, place, inside, lost)
                tangent = masked_read(b, tangents, place, inside, zero)
                best, chosen = (v for _, v in carry)
                take = b.both(inside, b.let("not", (b.let(select, (best, value), "bool"),), "bool"))
                return [b.select(take, value, best), b.select(take, tangent, chosen)]

            chosen = b.loop(math.prod(dims), "seq", body, carry)[1]
            store_slot(b, slot, shape, x.dtype, idx, chosen)

        box(b, shape, window, "vector", range(rank), cost=8.0 * math.prod(dims))

    op = Opaque(
        "select_and_gather_add",
        [tangents, x],
        ["many", "many"],
        emit=emit,
        work=8.0 * math.prod(shape) * math.prod(dims),
    )
    return g.opaque(op, outs)[0]
