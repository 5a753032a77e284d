"""Contractions: dot_general, and what a convolution (conv.py) has in common with it.

Small ones and products with vectors are reductions, fused with what surrounds them. The rest is
done by blocks (product.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.epilogue import Finish
from pullback.loops.fuse import breaks_of
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.elementwise import (
    Outs,
    broadcast,
    convert,
    rule,
    scalar_convert,
    to_dtype,
    transposed,
)
from pullback.loops.lower.graph import (
    COMPLEX,
    Graph,
    Node,
    Opaque,
    Reduction,
    part_dtype,
    read,
)
from pullback.loops.lower.masked import bare_mask, masked_term
from pullback.loops.lower.narrow import DEEP, emit_narrow, is_narrow
from pullback.loops.lower.operands import InPlace, Product, in_place, tile_type
from pullback.loops.lower.product import emit_product
from pullback.loops.lower.reduce import accumulator
from pullback.loops.ops import FLOATS, identity_of
from pullback.loops.tiles import WORDS, takes_pairs
from pullback.records import replaced


def term(b: Builder, x: Any, y: Any, xt: str, yt: str, acc: str) -> list[Atom]:
    """x * y in the accumulator's type."""
    if acc in COMPLEX:
        return list(cm.mul(b, convert(b, x, xt, acc), convert(b, y, yt, acc)))
    if xt in COMPLEX or yt in COMPLEX:  # of which the result keeps the real part
        wide = "c128" if "c128" in (xt, yt) else "c64"
        product = tuple(cm.mul(b, convert(b, x, xt, wide), convert(b, y, yt, wide)))
        return [convert(b, product, wide, acc)]
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
    return g.reduction(red, [dtype], cheap=True)[0]


def accumulator_type(operand: str, out: str) -> str:
    """The type of the sums: that of the result, but never less than the operands have."""
    acc, own = accumulator(out), accumulator(operand)
    return own if (own, acc) in (("f64", "f32"), ("c128", "c64")) else acc


@rule("dot_general")
def _dot_general(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    x, y = ins
    shape, dtype = outs[0]
    if x.dtype != y.dtype and part_dtype(dtype) not in FLOATS:
        # Of two types, none of which the result has: both become integers first, as in XLA.
        x, y = ins = [to_dtype(g, v, dtype) for v in ins]
    if part_dtype(x.dtype) in FLOATS and part_dtype(dtype) not in FLOATS:
        # Floats that are to give integers are multiplied and summed as floats.
        return to_dtype(g, _dot_general(g, ins, [(shape, x.dtype)], params), dtype)
    (xc, yc), (xb, yb) = [tuple(map(tuple, pair)) for pair in params["dimension_numbers"]]
    xf = tuple(k for k in range(len(x.shape)) if k not in xc and k not in xb)
    yf = tuple(k for k in range(len(y.shape)) if k not in yc and k not in yb)
    selects = False
    if _of_vectors(x, y, xc, xf, yf):
        x, y, selects = bare_mask(x, y, dtype)
    x, (xc, xb, xf) = _as_stored(x, (xc, xb, xf))
    y, (yc, yb, yf) = _as_stored(y, (yc, yb, yf))
    shared = _shared(g, x, y, (xc, xb, xf), (yc, yb, yf), shape, dtype, params)
    if shared is not None:
        return shared
    acc = accumulator_type(x.dtype, dtype)
    m, n = math.prod(x.shape[k] for k in xf), math.prod(y.shape[k] for k in yf)
    depth = math.prod(x.shape[k] for k in xc)
    worth = _worth_blocks(math.prod(x.shape[k] for k in xb), m, n, depth)
    worth = worth or _thin(x, (xb, xf, xc), y, (yb, yc, yf), acc)
    if tile_type(part_dtype(acc)) and worth:
        if m <= ROWS_OF_A_STEP and y.dtype == acc and yc and max(yc) == len(y.shape) - 1:
            # Few rows leave a step of a loop little to do but to turn the other operand.
            found = g.turned(y, (*yb, *yc, *yf))
            if found is not None:
                y, (yb, yc, yf) = found, _in_order(len(yb), len(yc), len(yf))
        return _blocked_dot(g, x, y, shape, dtype, acc, (xb, xf, xc), (yb, yf, yc))
    for operand, reuse in ((x, n), (y, m)):
        operand.reuse = max(operand.reuse, reuse)
    return _reduced_dot(g, x, y, dtype, acc, (xb, xf, xc), (yb, yf, yc), selects)


def _reduced_dot(
    g: Graph,
    x: Node,
    y: Node,
    dtype: str,
    acc: str,
    x_axes: tuple[Any, Any, Any],
    y_axes: tuple[Any, Any, Any],
    selects: bool,
) -> Node:
    """A product as a reduction, which fuses with what surrounds it; the axes are those of the
    batch, free and contracted ones. With `selects`, x or y is a mask of the other."""
    (xb, xf, xc), (yb, yf, yc) = x_axes, y_axes
    m, n = math.prod(x.shape[k] for k in xf), math.prod(y.shape[k] for k in yf)
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
    b_axes, m_axes, n_axes, k_axes = _loop_order(x, y, (xb, xf, xc), (yb, yf, yc))
    space = [0] * (nb + nm + nn + len(xc))
    xa, ya = (
        _places(x, (*xb, *xf, *xc), (*b_axes, *m_axes, *k_axes)),
        _places(y, (*yb, *yf, *yc), (*b_axes, *n_axes, *k_axes)),
    )
    for source, places in ((x, xa), (y, ya)):
        for axis, where in enumerate(places):
            space[where] = source.shape[axis]

    def element(b: Builder, idx: tuple[Index, ...]) -> list[Atom]:
        u = read(x, b, tuple(idx[a] for a in xa))
        v = read(y, b, tuple(idx[a] for a in ya))
        if selects:
            return masked_term(b, u, v, x.dtype == "bool")
        return term(b, u, v, x.dtype, y.dtype, acc)

    return contraction(g, tuple(space), k_axes, dtype, acc, element, [(x, xa), (y, ya)])


def _loop_order(
    x: Node, y: Node, x_axes: tuple[Any, Any, Any], y_axes: tuple[Any, Any, Any]
) -> tuple[tuple[int, ...], ...]:
    """The places of the batch's, x's, y's and the contracted axes among the loops of a product."""
    (xb, xf, xc), (_, yf, _) = x_axes, y_axes
    nb, nm, nn = len(xb), len(xf), len(yf)
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
    b_axes = tuple(range(nb))
    if not xf and not yf and _batch_last(x, xb) and _batch_last(y, y_axes[0]):
        b_axes = (*range(nb - 1), nb - 1 + len(xc))
        k_axes = tuple(range(nb - 1, nb - 1 + len(xc)))
    return b_axes, tuple(range(nb, first)), n_axes, k_axes


def _batch_last(x: Node, batch: Sequence[int]) -> bool:
    """Whether neighbours in memory are along the last axis of a product's batch: lanes then run
    along it, and the contracted index outside."""
    return bool(batch) and batch[-1] == len(x.shape) - 1 and x.shape[-1] >= LANES


def _of_vectors(x: Node, y: Node, xc: Sequence[int], xf: Any, yf: Any) -> bool:
    """Is it a sum of products of one vector with one, for each element of the batch?"""
    alone = all(n.shape[k] == 1 for n, free in ((x, xf), (y, yf)) for k in free)
    return alone and (not xf or not yf or all(x.shape[k] == 1 for k in xc))


def _shared(
    g: Graph, x: Node, y: Node, xs: Split, ys: Split, shape: Any, dtype: str, params: dict[str, Any]
) -> Node | None:
    """A batch of products with one matrix, as vmap makes of operands that are not mapped, is one
    product, in which the batch is a free axis of the other operand. None if it is not that."""
    (_, xb, xf), (_, yb, yf) = xs, ys
    loose = _repeated_along(y, yb)
    if not loose:
        # From the left as well, where the result's axes do not tell the two apart.
        swapped = _repeated_along(x, xb) and not (xf and yf) and x.dtype == y.dtype
        return _shared(g, y, x, ys, xs, shape, dtype, params) if swapped else None
    rest = loose[0]
    if loose != list(range(rest, len(yb))):
        return None  # the result's axes would have to be permuted
    y, ys = _without(y, ys, [yb[k] for k in loose], g)
    x, y = _by_parts(g, x, xs), _by_parts(g, y, ys)
    batch = tuple(range(rest))
    ends = (len(node.shape) - len(ys[0]) for node in (x, y))
    contracted = tuple(tuple(range(end, end + len(ys[0]))) for end in ends)
    numbers = {"dimension_numbers": (contracted, (batch, batch))}
    product: Node = _dot_general(g, [x, y], [(shape, dtype)], {**params, **numbers})
    return product


def _by_parts(g: Graph, x: Node, axes: Split) -> Node:
    """An operand with the axes of the batch first, then the free ones, then the contracted."""
    contracted, batch, free = axes
    order = (*batch, *free, *contracted)
    return x if order == tuple(range(len(order))) else transposed(g, x, order)


def _repeated_along(x: Node, batch: tuple[int, ...]) -> list[int]:
    """Which of the batch's axes only repeat the operand."""
    if x.spread is None:
        return []
    return [k for k, a in enumerate(batch) if a not in x.spread[1] and x.shape[a] > 1]


def _without(x: Node, axes: Split, gone: Sequence[int], g: Graph) -> tuple[Node, Split]:
    """A repeated value without these axes, and the others by their new numbers."""
    source, dims = x.spread
    left = [a for a in range(len(x.shape)) if a not in gone]
    new = {a: k for k, a in enumerate(left)}
    x = broadcast(g, source, tuple(x.shape[a] for a in left), [new[d] for d in dims])
    c, b, f = (tuple(new[a] for a in part if a in new) for part in axes)
    return x, (c, b, f)


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
PER_WORD = {"i8": 4, "u8": 4, "bf16": 2}  # elements of a word
WHOLE_ROWS = 64
ROWS_OF_A_STEP = 128
LANES = 8  # elements side by side that are worth lanes
WIDE = 1 << 16  # elements of a matrix that two or three rows are multiplied with by blocks
SUMS_OF_WORDS = {"i8": ("i32", "u32"), "u8": ("i32", "u32"), "bf16": ("f32",)}


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


def _as_stored(x: Node, axes: Split) -> tuple[Node, Split]:
    """An operand before its transposition, and the axes by their numbers there."""
    while x.permuted is not None:
        x, perm = x.permuted
        c, b, f = axes
        axes = tuple(perm[k] for k in c), tuple(perm[k] for k in b), tuple(perm[k] for k in f)
    return x, axes


def _worth_blocks(batch: int, m: int, n: int, depth: int) -> bool:
    """Whether a product is done by blocks, not unrolled among its neighbours."""
    one = m * n * depth
    return min(m, n, depth) >= 4 and one >= 512 and one * min(batch, 64) >= 8192


def _thin(x: Node, left: Split, y: Node, right: Split, acc: str) -> bool:
    """Whether a product of two or three rows or columns is done by blocks: of a matrix that lies in
    memory with rows that are read whole. (Axes in the order of memory then.)"""
    batch, m, depth = (math.prod(x.shape[k] for k in part) for part in left)
    n = math.prod(y.shape[k] for k in right[2])
    if n < 4:
        deep = n > 1 and depth >= DEEP
        return deep and _worth_blocks(batch, m, 4, depth) and _lies(x, left, acc)
    return 1 < m < 4 and n * depth >= WIDE and _lies(y, right, acc)


def _lies(x: Node, order: Split, acc: str) -> bool:
    """Whether an operand is an array in memory, of the accumulator's type, its axes in an order."""
    axes = tuple(k for part in order for k in part)
    stored = x.kind in ("opq", "red", "leaf") and x.dtype == acc
    return stored and axes == tuple(range(len(x.shape)))


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
    return real[-1] if axes is None else axes[real[-1]]


def _run(x: Node, deep: tuple[int, ...]) -> int:
    """How many contracted elements of an operand that is computed one loop walks without dividing
    their index: as products of each with each have several axes, of which only the last ones may
    be walked as one."""
    if x.kind != "pw" or x.root or not deep:
        return 0
    first = len(deep) - 1
    while first and deep[first - 1] == deep[first] - 1 and deep[first - 1] not in breaks_of(x):
        first -= 1
    return math.prod(x.shape[k] for k in deep[first:])


def _outer_rows(x: Node, free: tuple[int, ...]) -> tuple[int, ...]:
    """The free axes of an operand outside of those along which its elements are neighbours, where
    contracted ones lie between: they are a batch, so that rows are copied whole."""
    if _neighbours(x) not in free:
        return ()
    inner = len(free) - 1
    while inner and free[inner - 1] == free[inner] - 1:
        inner -= 1
    rows = math.prod(x.shape[k] for k in free[inner:])
    return free[:inner] if rows >= WHOLE_ROWS else ()


def _for_all(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a batch index that is the same for all."""
    return lambda b, _bi, *rest: f(b, 0, *rest)


def _blocked_dot(
    g: Graph, x: Node, y: Node, shape: Any, dtype: str, acc: str, xs: Split, ys: Split
) -> Node:
    """A product by blocks, as an operation that what follows it may join."""
    pairs = acc in COMPLEX
    part = part_dtype(acc)
    kind = tile_type(part)
    assert kind is not None
    free = () if xs[0] else _outer_rows(x, xs[1])
    if free:
        xs = free, tuple(k for k in xs[1] if k not in free), xs[2]
    batch = math.prod(x.shape[k] for k in xs[0])
    m, n = math.prod(x.shape[k] for k in xs[1]), math.prod(y.shape[k] for k in ys[1])
    depth = math.prod(x.shape[k] for k in xs[2])
    left, right = _reader(x, xs), _reader(y, ys)
    if free:  # the right operand is the same for all of them
        right = _for_all(right)
    words = x.dtype == y.dtype and kind in SUMS_OF_WORDS.get(x.dtype, ())
    words = words and (x.dtype != "bf16" or takes_pairs())
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

        place = in_place(y, *ys, pairs)
        if free and place is not None:
            place = replaced(place, base=_for_all(place.base))
        product = Product(
            kind,
            batch,
            m,
            n,
            depth,
            lambda b, bi, i, k: whole(b, left(b, bi, i, k), x.dtype),
            lambda b, bi, k, j: whole(b, right(b, bi, j, k), y.dtype),
            put,
            in_place(x, *xs, pairs) if x.dtype == acc == (acc if pairs else kind) else None,
            place if y.dtype == acc == (acc if pairs else kind) else None,
            _neighbours(x) in xs[1],
            _neighbours(y) in ys[2],
            into if dtype == acc == (acc if pairs else kind) and finish.into else None,
            pairs,
            shared=bool(free),
            left_run=_run(x, xs[2]),
        )
        if words:
            _in_words(product, x.dtype, in_place(x, *xs, False), place)
        (emit_narrow if is_narrow(product) else emit_product)(b, product)

    if words:
        work /= PER_WORD[x.dtype]
    else:
        g.options.foresee(kind, work)
    modes = [_how_read(n, free, depth) for n, free in ((x, xs[1]), (y, ys[2]))]
    op = Opaque("dot", [x, y], modes, emit=emit, work=work)
    op.joins = True
    return g.opaque(op, [(shape, dtype)])[0]


SHORT = 16  # contracted elements that are few beside the lanes of a vector


def _how_read(x: Node, free: tuple[int, ...], depth: int) -> str:
    """How blocks take the elements of an operand. They are copied along the contracted index if its
    elements are neighbours: where these are few, what costs something is computed beforehand, in
    full vectors."""
    if x.kind in ("opq", "red", "leaf"):
        return "buffer"
    return "many" if depth < SHORT and _neighbours(x) not in free else "once"


def _in_words(p: Product, dtype: str, x: InPlace | None, y: InPlace | None) -> None:
    """Makes a product one of words: two or four elements along the contracted index are one, zeros
    beyond its end. Where such words lie in memory, they are read there."""
    depth, left, right = p.depth, p.left, p.right
    per = PER_WORD[dtype]
    kind, bits = ("u32", 16) if dtype == "bf16" else (p.acc, 8)

    def part(b: Builder, q: int, value: Atom) -> Atom:
        """The bits of an element at its place in a word."""
        if dtype != "bf16":
            v = b.let("and", (value, Const(255, kind)), kind)
            return b.let("shl", (v, Const(bits * q, kind)), kind) if q else v
        whole = b.let("bitcast", (scalar_convert(b, value, "f32"),), kind)  # its upper half
        return whole if q else b.let("shr_logical", (whole, Const(bits, kind)), kind)

    def word(b: Builder, k: Index, value: Callable[[Index], Atom]) -> Atom:
        total: Atom | None = None
        for q in range(per):
            at = b.linear([(k, per), (q, 1)])
            inside = b.in_range(at, 0, depth)
            saved = b.mask
            b.mask = None if (both := b.both(saved, inside)) == TRUE else both
            v = part(b, q, value(at))
            b.mask = saved
            v = b.select(inside, v, identity_of("add", kind))
            total = v if total is None else b.let("or", (total, v), kind)
        assert total is not None
        return total

    p.left = lambda b, bi, i, k: word(b, k, lambda at: left(b, bi, i, at))
    p.right = lambda b, bi, k, j: word(b, k, lambda at: right(b, bi, at, j))
    p.words, p.depth = WORDS[dtype], -(-depth // per)
    p.left_place = _place_of_words(p, x, p.m, per)
    p.right_place = _place_of_words(p, y, p.n, per)


def _place_of_words(p: Product, x: InPlace | None, rows: int, per: int) -> InPlace | None:
    """An operand whose words lie in memory: the contracted index is contiguous and ends with a
    whole word, as every row does then."""
    if x is None or x.depth[:2] != (1, 1) or x.depth[5] != 1 or x.depth[2] % per:
        return None
    w, s0, s1 = x.rows
    if w < rows or s0 % per:
        return None
    base = lambda b, bi: b.div(x.base(b, bi), per)
    return InPlace(x.buf, base, (w, s0 // per, s1 // per), (1, 1, x.depth[2] // per, 0, 0, 1))
