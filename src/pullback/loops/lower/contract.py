"""Contractions: dot_general and convolution.

Small ones and products with vectors are reductions, fused with what surrounds them. The rest is one
scheme: a tile of rows times 64
columns stays in registers while the contracted index runs; columns come from a packed panel (or the
operand itself when its rows
are contiguous and it is small), rows are read in place, one element broadcast at a time. A
convolution is the same with the
window's position in place of the contracted index and a mask in place of padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.epilogue import Finish
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.elementwise import RULES, Outs, convert, literal, rule, scalar_convert
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
from pullback.loops.lower.product import Product, emit_product, in_place, tile_type
from pullback.loops.lower.reduce import accumulator
from pullback.loops.lower.shape import masked_read
from pullback.loops.lower.statements import box
from pullback.loops.ops import FLOATS

PANEL = {"f32": 64, "f64": 32, "i32": 64, "u32": 64, "i64": 32, "u64": 32}
BLOCK_K = 384  # of the contracted index: a panel of it stays in the second-level cache
DIRECT = 1 << 16  # elements of a right operand that is read without packing


def _product(b: Builder, x: Any, y: Any, xt: str, yt: str, acc: str) -> list[Atom]:
    """x * y in the accumulator's type."""
    if acc in COMPLEX:
        return list(cm.mul(b, convert(b, x, xt, acc), convert(b, y, yt, acc)))
    u, v = scalar_convert(b, x, acc), scalar_convert(b, y, acc)
    return [b.let("and" if acc == "bool" else "mul", (u, v), acc)]


def contraction(
    g: Graph,
    space: tuple[int, ...],
    axes: tuple[int, ...],
    dtype: str,
    acc: str,
    element: Callable[..., list[Atom]],
    deps: Any,
) -> Node:
    """A sum over `axes` of element(idx)."""
    parts = 2 if acc in COMPLEX else 1
    part = part_dtype(acc)
    op = "or" if acc == "bool" else "add"
    zero = Const(False if part == "bool" else 0.0 if part in FLOATS else 0, part)

    def finish(b: Builder, accs: Sequence[Atom]) -> list[Any]:
        return [convert(b, tuple(accs) if parts == 2 else accs[0], acc, dtype)]

    red = Reduction(
        space,
        axes,
        (part,) * parts,
        element,
        lambda b: (zero,) * parts,
        (op,) * parts,
        finish,
        deps,
        own=2.0,
    )
    return g.reduction(red, [dtype])[0]


@rule("dot_general")
def _dot_general(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, y = ins
    shape, dtype = outs[0]
    (xc, yc), (xb, yb) = [tuple(map(tuple, pair)) for pair in params["dimension_numbers"]]
    xf = tuple(k for k in range(len(x.shape)) if k not in xc and k not in xb)
    yf = tuple(k for k in range(len(y.shape)) if k not in yc and k not in yb)
    acc = accumulator(dtype)
    m, n = math.prod(x.shape[k] for k in xf), math.prod(y.shape[k] for k in yf)
    depth = math.prod(x.shape[k] for k in xc)
    if tile_type(part_dtype(acc)) and m >= 4 and n >= 4 and depth >= 4 and m * n * depth >= 8192:
        return _blocked_dot(g, x, y, shape, dtype, acc, (xb, xf, xc), (yb, yf, yc))
    for operand, reuse in ((x, n), (y, m)):
        operand.reuse = max(operand.reuse, reuse)
    nb, nm, nn = len(xb), len(xf), len(yf)
    # Lanes run along a free axis where one is contiguous. In loops, the matrix of a product with
    # a vector is turned for that beforehand.
    if not yf and m >= 8 and xc and max(xc) == len(x.shape) - 1:
        found = g.turned(x, (*xb, *xc, *xf))
        if found is not None:
            x, (xb, xc, xf) = found, _in_order(nb, len(xc), nm)
    if not xf and n >= 8 and yc and max(yc) == len(y.shape) - 1:
        found = g.turned(y, (*yb, *yc, *yf))
        if found is not None:
            y, (yb, yc, yf) = found, _in_order(nb, len(yc), nn)
    if not yf and m > 1 and max(xf) == len(x.shape) - 1:
        x, y, xb, yb, xc, yc, xf, yf, nm, nn = y, x, yb, xb, yc, xc, yf, xf, nn, nm
    # Where rows of the right operand are contiguous, lanes run along them and the contracted index
    # runs outside.
    wide = math.prod(y.shape[k] for k in yf) > 1
    across = wide and max(yf) == len(y.shape) - 1
    first = nb + nm
    k_axes = (
        tuple(range(first, first + len(xc)))
        if across
        else tuple(range(first + nn, first + nn + len(xc)))
    )
    n_axes = (
        tuple(range(first + len(xc), first + len(xc) + nn))
        if across
        else tuple(range(first, first + nn))
    )
    space = [0] * (first + nn + len(xc))
    xa, ya = (
        _places(x, (*xb, *xf, *xc), (*range(first), *k_axes)),
        _places(y, (*yb, *yf, *yc), (*range(nb), *n_axes, *k_axes)),
    )
    for source, places in ((x, xa), (y, ya)):
        for axis, where in enumerate(places):
            space[where] = source.shape[axis]

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        return _product(
            b,
            read(x, b, tuple(idx[a] for a in xa)),
            read(y, b, tuple(idx[a] for a in ya)),
            x.dtype,
            y.dtype,
            acc,
        )

    return contraction(g, tuple(space), k_axes, dtype, acc, element, [(x, xa), (y, ya)])


def _in_order(*counts: int) -> list[tuple[int, ...]]:
    """Consecutive axes in groups of these sizes."""
    groups, first = [], 0
    for count in counts:
        groups.append(tuple(range(first, first + count)))
        first += count
    return groups


def _places(x: Node, own: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    out = [0] * len(x.shape)
    for axis, where in zip(own, target, strict=True):
        out[axis] = where
    return tuple(out)


Split = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _reader(x: Node, parts: Split) -> Callable[[Builder, Index, Index, Index], Any]:
    """x at (batch, free, contracted) row-major indices."""
    extents = [[x.shape[k] for k in axes] for axes in parts]

    def at(b: Builder, *linear: Index) -> Any:
        idx: list[Index] = [0] * len(x.shape)
        for axes, shape, i in zip(parts, extents, linear, strict=True):
            for axis, v in zip(axes, b.unravel(i, shape), strict=True):
                idx[axis] = v
        return read(x, b, tuple(idx))

    return at


def _neighbours(x: Node) -> int | None:
    """The axis along which elements are neighbours in memory, as far as one can tell."""
    seen = 0
    axes: Any = None
    while x.slot is None and x.kind == "pw" and seen < 64:
        big = [(d, a) for d, a in x.deps if d.size > 1]
        if not big:
            break
        dep, own = max(big, key=lambda e: e[0].size)
        inner = own if own is not None else tuple(range(len(dep.shape)))
        axes = inner if axes is None else tuple(None if a is None else axes[a] for a in inner)
        x, seen = dep, seen + 1
    real = [k for k in range(len(x.shape)) if x.shape[k] != 1]
    if not real:
        return None
    return real[-1] if axes is None else axes[real[-1]]  # type: ignore[no-any-return]


def _blocked_dot(
    g: Graph, x: Node, y: Node, shape: Any, dtype: str, acc: str, xs: Split, ys: Split
) -> Node:
    """A product by blocks, as an operation that what follows it may join."""
    pairs = acc in COMPLEX
    part = part_dtype(acc)
    kind = tile_type(part)
    assert kind is not None
    batch = math.prod(x.shape[k] for k in xs[0])
    m, n = math.prod(x.shape[k] for k in xs[1]), math.prod(y.shape[k] for k in ys[1])
    depth = math.prod(x.shape[k] for k in xs[2])
    left, right = _reader(x, xs), _reader(y, ys)
    work = (0.4 if pairs else 0.1) * batch * m * n * depth  # many at once
    splits = ([x.shape[k] for k in xs[0]], [x.shape[k] for k in xs[1]], [y.shape[k] for k in ys[1]])

    def whole(b: Builder, value: Any, source: str) -> Any:
        return convert(b, value, source, acc) if pairs else scalar_convert(b, value, kind)

    def emit(b: Builder, op: Opaque) -> None:
        finish = Finish(op)

        def into(b: Builder, bi: Index) -> tuple[Buf, Index, int]:
            buf, base = finish.into(b)
            row = 2 * n if pairs else n
            return buf, b.linear([(base, 1), (bi, m * row)]), row

        def put(b: Builder, bi: Index, i: Index, j: Index, value: Any) -> None:
            idx = [v for k, e in zip((bi, i, j), splits, strict=True) for v in b.unravel(k, e)]
            finish.put(b, tuple(idx), convert(b, value, acc if pairs else kind, dtype))

        emit_product(
            b,
            Product(
                kind,
                batch,
                m,
                n,
                depth,
                lambda b, bi, i, k: whole(b, left(b, bi, i, k), x.dtype),
                lambda b, bi, k, j: whole(b, right(b, bi, j, k), y.dtype),
                put,
                in_place(x, *xs, pairs) if x.dtype == acc == (acc if pairs else kind) else None,
                in_place(y, *ys, pairs) if y.dtype == acc == (acc if pairs else kind) else None,
                _neighbours(x) in xs[1],
                _neighbours(y) in ys[2],
                into if dtype == acc == (acc if pairs else kind) and finish.into else None,
                pairs,
            ),
        )

    modes = ["buffer" if n.kind in ("opq", "red", "leaf") else "once" for n in (x, y)]
    op = Opaque("dot", [x, y], modes, emit=emit, work=work)
    op.joins = True
    return g.opaque(op, [(shape, dtype)])[0]


def rows_of_tile(count: int, width: int) -> int:
    """Rows of a register tile: a divisor of the count if there is a good one."""
    best = 6 if width > 32 else 8 if width > 16 else 12
    if count <= best:
        return count
    return next((r for r in range(best, best - 3, -1) if count % r == 0), best)


def _pack(b: Builder, source: Any, depth: int, n: int, panel: int, acc: str, parallel: bool) -> Buf:
    """The right operand as panels [column block][contracted][panel], zeros beyond its edge."""
    blocks = -(-n // panel)
    buf = b.scratch(acc, blocks * depth * panel, "panel")
    zero = Const(0.0 if acc in FLOATS else 0, acc)

    def row(idx: tuple[Index, ...]) -> None:
        jb, k, v = idx
        j = b.linear([(jb, panel), (v, 1)])
        inside = b.in_range(j, 0, n)
        saved = b.mask
        b.mask = None if inside == TRUE else b.both(saved, inside)
        value = source(k, j)
        b.mask = saved
        b.store(buf, b.atom(b.ravel(idx, (blocks, depth, panel))), b.select(inside, value, zero))

    box(b, (blocks, depth, panel), row, "vector", {0, 1}, parallel=parallel)
    return buf


def _tile(
    b: Builder,
    rows: int,
    depth: int,
    acc: str,
    inits: Sequence[Atom],
    step: Callable[[Index], tuple[list[Atom], Atom]],
    lo: Atom | None = None,
    hi: Atom | None = None,
) -> list[Atom]:
    """`rows` accumulators over the contracted index: acc[r] += a[r] * b."""
    carry = [(a, b.var(acc, b.depth + 1, "t")) for a in inits]

    def body(k: Index) -> list[Atom]:
        lefts, right = step(k)
        return [b.let("fma", (u, right, v), acc) for u, (_, v) in zip(lefts, carry, strict=True)]

    return list(b.loop(depth, "seq", body, carry, lo=lo, hi=hi))


def _clamped(b: Builder, first: Index, r: int, count: int) -> Index:
    """Row first + r, or the last row: a ragged tile computes it again and stores the same value."""
    i = b.add(first, r)
    return i if isinstance(i, int) or i.hi < count else b.to_index(b.atom(i), 0, count - 1)


# ---- convolution


class _Conv:
    """The geometry of a convolution: where output (n, o, c) at window w and input feature f reads
    its operands."""

    def __init__(self, x: Node, w: Node, shape: tuple[int, ...], params: dict[str, Any]) -> None:
        d = params["dimension_numbers"]
        self.lhs, self.rhs, self.out = tuple(d.lhs_spec), tuple(d.rhs_spec), tuple(d.out_spec)
        self.x, self.w, self.shape = x, w, shape
        self.strides = tuple(params["window_strides"])
        self.lows = tuple(int(p[0]) for p in params["padding"])
        self.base, self.dilation = tuple(params["lhs_dilation"]), tuple(params["rhs_dilation"])
        self.groups, self.batch_groups = params["feature_group_count"], params["batch_group_count"]
        self.batch = shape[self.out[0]]
        self.features = shape[self.out[1]]
        self.space = tuple(shape[k] for k in self.out[2:])
        self.window = tuple(w.shape[k] for k in self.rhs[2:])
        self.depth = w.shape[self.rhs[1]]
        self.per_group = self.features // self.groups

    def place(
        self, b: Builder, n: Index, o: Sequence[Index], c: Index, f: Index, k: Sequence[Index]
    ) -> tuple[tuple[Index, ...], Atom]:
        """The operand's index and whether it is inside (not padding)."""
        idx: list[Index] = [0] * len(self.lhs)
        if self.batch_groups > 1:
            n = b.add(b.mul(b.div(c, self.features // self.batch_groups), self.batch), n)
        idx[self.lhs[0]] = n
        idx[self.lhs[1]] = (
            f if self.groups == 1 else b.add(b.mul(b.div(c, self.per_group), self.depth), f)
        )
        inside: Atom = TRUE
        for axis, oo, kk, s, lo, gap, dil in zip(
            self.lhs[2:], o, k, self.strides, self.lows, self.base, self.dilation, strict=True
        ):
            size = self.x.shape[axis]
            i = b.add(b.linear([(oo, s), (kk, dil)]), -lo)
            if gap != 1:
                span = (size - 1) * gap + 1 if size else 0
                inside = b.both(inside, b.in_range(i, 0, span))
                i = b.to_index(b.atom(i), 0, max(0, span - 1))
                inside = b.both(inside, b.in_range(b.mod(i, gap), 0, 1))
                i = b.div(i, gap)
            else:
                inside = b.both(inside, b.in_range(i, 0, size))
            idx[axis] = i
        return tuple(idx), inside

    def origin(self, b: Builder, n: Index, o: Sequence[Index], c: Index) -> Index:
        """The row-major index of the operand's element at the window's first position, feature 0
        (no padding, features last)."""
        parts = [(n, self._stride(self.lhs[0]))]
        parts += [
            (i, s * self._stride(axis))
            for i, s, axis in zip(o, self.strides, self.lhs[2:], strict=True)
        ]
        if self.groups > 1:
            parts.append((b.mul(b.div(c, self.per_group), self.depth), 1))
        return b.linear(parts)

    def moved(self, b: Builder, f: Index, k: Sequence[Index]) -> Index:
        """How far position k and feature f are from the origin."""
        return b.linear(
            [
                (f, 1),
                *(
                    (i, d * self._stride(axis))
                    for i, d, axis in zip(k, self.dilation, self.lhs[2:], strict=True)
                ),
            ]
        )

    def _stride(self, axis: int) -> int:
        return math.prod(self.x.shape[axis + 1 :])

    def fetch(self, b: Builder, origin: Index, moved: Index, acc: str) -> Atom:
        x = self.x
        if x.slot is None:
            return scalar_convert(b, read(x, b, b.unravel(b.add(origin, moved), x.shape)), acc)
        base = b.atom(b.add(origin, x.slot.base(b)))
        value = b.load(x.slot.buf(b), b.let("add", (base, b.atom(moved)), "i64"))
        return scalar_convert(b, value, acc)

    def weight(self, c: Index, f: Index, k: Sequence[Index]) -> tuple[Index, ...]:
        idx: list[Index] = [0] * len(self.rhs)
        idx[self.rhs[0]], idx[self.rhs[1]] = c, f
        for axis, kk in zip(self.rhs[2:], k, strict=True):
            idx[axis] = kk
        return tuple(idx)

    def result(self, n: Index, o: Sequence[Index], c: Index) -> tuple[Index, ...]:
        idx: list[Index] = [0] * len(self.out)
        idx[self.out[0]], idx[self.out[1]] = n, c
        for axis, oo in zip(self.out[2:], o, strict=True):
            idx[axis] = oo
        return tuple(idx)


def _padded(g: Graph, x: Node, params: dict[str, Any]) -> tuple[Node, dict[str, Any]]:
    """The operand with its padding written out and features last, so that the inner loops need no
    masks and no strides."""
    d = params["dimension_numbers"]
    lhs, rank = tuple(d.lhs_spec), len(x.shape)
    config = [(0, 0, 0)] * rank
    for axis, (lo, hi), gap in zip(lhs[2:], params["padding"], params["lhs_dilation"], strict=True):
        config[axis] = (int(lo), int(hi), int(gap) - 1)
    if any(any(c) for c in config):
        part = part_dtype(x.dtype)
        fill = literal(g, 0.0 if part in FLOATS else 0, x.dtype)
        shape = tuple(
            n + lo + hi + max(0, n - 1) * gap
            for n, (lo, hi, gap) in zip(x.shape, config, strict=True)
        )
        x = RULES["pad"](g, [x, fill], [(shape, x.dtype)], {"padding_config": config})
    order = (lhs[0], *lhs[2:], lhs[1])
    if order != tuple(range(rank)):
        shape = tuple(x.shape[k] for k in order)
        x = RULES["transpose"](g, [x], [(shape, x.dtype)], {"permutation": order})
    x.reuse = 64
    ones = (1,) * (rank - 2)
    spec = _Spec((0, rank - 1, *range(1, rank - 1)), tuple(d.rhs_spec), tuple(d.out_spec))
    return x, {
        **params,
        "padding": ((0, 0),) * (rank - 2),
        "lhs_dilation": ones,
        "dimension_numbers": spec,
    }


class _Spec(NamedTuple):
    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


@rule("conv_general_dilated")
def _conv(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    (x, w), (shape, dtype) = ins, outs[0]
    conv, acc = _Conv(x, w, shape, params), accumulator(dtype)
    x.reuse, w.reuse = max(x.reuse, 64), max(w.reuse, 64)
    if (
        acc in PANEL
        and conv.batch_groups == 1
        and conv.per_group >= 8
        and x.size
        and w.size
        and math.prod(shape)
    ):
        x, params = _padded(g, x, params)
        conv = _Conv(x, w, shape, params)
        return _tiled_conv(g, conv, dtype, acc)
    spatial = len(conv.space)
    # Iteration space: batch, positions, window, input feature, output feature; lanes run along the
    # last.
    space = (conv.batch, *conv.space, *conv.window, conv.depth, conv.features)
    axes = tuple(range(1 + spatial, 2 + 2 * spatial))
    zero = Const(0.0 if part_dtype(x.dtype) in FLOATS else 0, part_dtype(x.dtype))
    outside = (zero, zero) if x.dtype in COMPLEX else zero

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        o, k, f, c = idx[1 : 1 + spatial], idx[1 + spatial : 1 + 2 * spatial], idx[-2], idx[-1]
        place, inside = conv.place(b, idx[0], o, c, f, k)
        value = masked_read(b, x, place, inside, outside)
        return _product(b, value, read(w, b, conv.weight(c, f, k)), x.dtype, w.dtype, acc)

    none_x: list[int | None] = [None] * len(x.shape)
    weights = [0] * len(w.shape)
    for axis, where in zip(
        conv.rhs,
        (len(space) - 1, len(space) - 2, *range(1 + spatial, 1 + 2 * spatial)),
        strict=True,
    ):
        weights[axis] = where
    node = contraction(
        g, space, axes, dtype, acc, element, [(x, tuple(none_x)), (w, tuple(weights))]
    )
    if node.red is not None:
        node.red.own_breaks = frozenset(range(len(space) - 1))
        node.own_breaks = frozenset(range(len(node.shape) - 1))
    back = tuple(conv.result(0, range(1, 1 + spatial), 1 + spatial))
    if back == tuple(range(len(shape))):
        return node
    # back[axis of the result] is the axis of the node
    order = [0] * len(shape)
    for axis in range(len(shape)):
        order[back[axis]] = axis  # type: ignore[index]
    return g.pointwise(
        shape,
        dtype,
        [(node, tuple(order))],
        lambda b, idx: read(node, b, tuple(idx[a] for a in order)),
        0.0,
    )


def _taps(
    b: Builder,
    conv: _Conv,
    inits: list[Atom],
    acc: str,
    origins: Sequence[Index],
    right: Callable[[Index, Index], Atom],
) -> list[Atom]:
    """The accumulators of a tile over the window's positions and the input features; operand reads
    share one moving offset."""

    def descend(level: int, k: tuple[Index, ...], accs: list[Atom]) -> list[Atom]:
        extent = conv.window[level] if level < len(conv.window) else conv.depth
        carry = [(a, b.var(acc, b.depth + 1, "t")) for a in accs]
        state: list[Atom] = [v for _, v in carry]

        def body(i: Index) -> list[Atom]:
            if level < len(conv.window):
                return descend(level + 1, (*k, i), state)
            column = right(b.ravel(k, conv.window), i)
            moved = conv.moved(b, i, k)
            return [
                b.let("fma", (conv.fetch(b, at, moved, acc), column, old), acc)
                for at, old in zip(origins, state, strict=True)
            ]

        return list(b.loop(extent, "seq", body, carry))

    return descend(0, (), inits)


def _tiled_conv(g: Graph, conv: _Conv, dtype: str, acc: str) -> Node:
    x, w, shape = conv.x, conv.w, conv.shape
    cols = conv.per_group
    panel = min(PANEL[acc], cols)
    taps = math.prod(conv.window)
    depth = taps * conv.depth
    last = conv.space[-1] if conv.space else 1
    rows = rows_of_tile(last, panel)
    lead = conv.space[:-1]
    work = 0.3 * math.prod(shape) * depth
    zero = Const(0.0 if acc in FLOATS else 0, acc)
    blocks = -(-cols // panel)

    def emit(b: Builder, op: Opaque) -> None:
        out = op.outs[0]
        assert out.slot is not None
        slot = out.slot

        def weights(gi: Index) -> Buf:
            def source(t: Index, j: Index) -> Atom:
                *k, f = b.unravel(t, (*conv.window, conv.depth))
                c = b.add(b.mul(gi, cols), j)
                return scalar_convert(b, read(w, b, conv.weight(c, f, k)), acc)

            return _pack(b, source, depth, cols, panel, acc, False)

        def group(gi: Index) -> None:
            buf = weights(gi)

            def line(idx: tuple[Index, ...]) -> None:
                n, o = idx[0], idx[1:-1]
                places: list[Index] = [0]
                if conv.space:
                    places = [_clamped(b, b.mul(idx[-1], rows), r, last) for r in range(rows)]
                box(
                    b,
                    (blocks,),
                    lambda pos: block(n, o, places, pos[0], gi, buf),
                    "seq",
                    parallel=False,
                )

            box(
                b,
                (conv.batch, *lead, -(-last // rows)),
                line,
                "seq",
                range(len(lead) + 1),
                parallel=work > 40_000,
            )

        def block(
            n: Index, o: tuple[Index, ...], places: list[Index], jb: Index, gi: Index, buf: Buf
        ) -> None:
            c0 = b.mul(gi, cols)

            def lane(v: Index) -> Sequence[Atom]:
                j = b.linear([(jb, panel), (v, 1)])
                origins = [conv.origin(b, n, (*o, p) if conv.space else (), c0) for p in places]
                accs = _taps(
                    b,
                    conv,
                    [zero] * len(places),
                    acc,
                    origins,
                    lambda t, f: b.load(
                        buf, b.atom(b.ravel((jb, t, f, v), (blocks, taps, conv.depth, panel)))
                    ),
                )
                inside = b.in_range(j, 0, cols)
                for p, value in zip(places, accs, strict=True):
                    target = conv.result(n, (*o, p) if conv.space else (), b.add(c0, j))
                    store_slot(
                        b,
                        slot,
                        shape,
                        dtype,
                        target,
                        scalar_convert(b, value, dtype),
                        None if inside == TRUE else inside,
                    )
                return ()

            b.loop(panel, "vector", lane)

        box(b, (conv.groups,), lambda idx: group(idx[0]), "seq", parallel=False)

    op = Opaque("conv", [x, w], ["buffer", "once"], emit=emit, work=work)
    return g.opaque(op, [(shape, dtype)])[0]
