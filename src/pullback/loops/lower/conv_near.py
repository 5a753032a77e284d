"""Convolutions whose operand is brought near: the lines that a block of positions reads are copied
to scratch that stays in a core's cache, with their padding, converted, features last.

So padding, narrow types and features that lie apart in memory (NCHW) cost a copy within the cache,
not one through memory, and a product reads rows of features whatever the layout. A result with
positions last is transposed in the cache as well. Of three spatial axes the first one is taken
apart: what a position's windows read of several planes lies side by side, as more features do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.epilogue import Finish
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.conv_axes import Axis, Form, Line, levels, merged
from pullback.loops.lower.elementwise import scalar_convert
from pullback.loops.lower.graph import COMPLEX, Node, Opaque
from pullback.loops.lower.operands import InPlace, Product
from pullback.loops.lower.statements import box
from pullback.loops.ops import identity_of, storage_bytes
from pullback.loops.tiles import turn_name

__all__ = ["brought_near", "near_product", "weights_in_columns", "without_taps"]

NEAR = 1 << 20  # bytes of scratch that a block's lines may take
FEW, MANY = 64, 512  # rows of a block
TASKS = 16
UNIT = Line(1, 0, 1, 1, 1, 0, 1, 1, 0)
STRIDED = 16  # features from which on weights may be read in strides
_Levels = tuple[int, int, int, int, int, int]  # as in the form of InPlace


def brought_near(
    conv: Any, x: Node, config: Sequence[tuple[int, int, int]], choices: Sequence[Any], acc: str
) -> bool:
    """Whether a convolution is done this way: up to three spatial axes, side by side in memory with
    the features before or behind them, something to be padded, converted or transposed, and a
    single line that fits."""
    if conv.groups != 1 or len(conv.space) not in (1, 2, 3) or x.dtype in COMPLEX:
        return False
    order = (*conv.lhs[2:], conv.lhs[1])
    last = order == tuple(range(len(x.shape) - len(order), len(x.shape)))
    if not last and tuple(conv.lhs[1:]) != tuple(range(1, len(x.shape))):
        return False
    if conv.lhs[0] != 0 or conv.out[0] != 0 or conv.out[1] not in (1, len(conv.out) - 1):
        return False
    inner = conv.out[2:]
    if any(p > q for p, q in pairwise(inner)):
        return False
    if any(gap for _, _, gap in config) or (not last and x.dtype != acc):
        return False
    plain = not any(any(c) for c in config)
    if plain and ((last and x.dtype == acc) or math.prod(conv.window) == 1):
        return False
    longest = [max(c, key=_reach) for c in choices]
    tall, wide = _two(longest, last)
    return _lines_bytes(1, tall, wide, conv.depth * _planes(longest).taps, acc) <= NEAR


def _reach(v: Line) -> int:
    """How many elements of its operand a line of positions covers."""
    return _cover(v.count, v)


def _cover(count: int, v: Line) -> int:
    return (count - 1) * v.stride + max(0, v.taps - 1) * v.dilation + 1


def _two(lines: Sequence[Any], last: bool, single: Any = None) -> tuple[Any, Any]:
    """The last two spatial axes. A lone one is that of lines where features are last, else that of
    the positions of a line; the other has a single position."""
    if len(lines) >= 2:
        return lines[-2], lines[-1]
    other = UNIT if single is None else single
    return (lines[0], other) if last else (other, lines[0])


def _planes(lines: Sequence[Any], single: Any = None) -> Any:
    """The first of three spatial axes; else one with a single position."""
    if len(lines) == 3:
        return lines[0]
    return UNIT if single is None else single


def _lines_bytes(count: int, tall: Line, wide: Line, depth: int, acc: str) -> int:
    return _cover(count, tall) * _reach(wide) * depth * storage_bytes(acc)


def _blocks(f: Form, tall: Line, wide: Line, depth: int, acc: str) -> tuple[int, int]:
    """How many images and how many lines of positions are a block: enough rows for the weights to
    be read seldom, few enough for all threads to have blocks and for the scratch."""
    batch, area = f.conv.batch, tall.count * wide.count
    if len(f.lines) == 3:  # planes of an image are blocks of their own
        batch = 1

    def fits(images: int, count: int) -> bool:
        return images * _lines_bytes(count, tall, wide, depth, acc) <= NEAR

    if batch * area <= MANY and f.conv.per_group >= 256 and fits(batch, tall.count):
        return batch, tall.count  # threads share the features
    rows = min(MANY, max(FEW, batch * area // TASKS))
    if area <= rows and fits(1, tall.count):
        found = [d for d in range(1, batch + 1) if batch % d == 0 and d * area <= rows]
        return max([d for d in found if fits(d, tall.count)], default=1), tall.count
    lines = max(1, min(tall.count, round(rows / wide.count)))
    while lines > 1 and not fits(1, lines):
        lines -= 1
    blocks = -(-tall.count // lines)
    return 1, -(-tall.count // blocks)


class _Near:
    """Where the lines of a block lie in scratch, and how they come there."""

    def __init__(self, f: Form, acc: str) -> None:
        self.f, self.acc, conv = f, acc, f.conv
        shape = f.x.shape
        strides = [math.prod(shape[a + 1 :]) for a in conv.lhs]
        self.image, self.feature = strides[:2]
        last = self.feature == 1 and conv.lhs[1] == len(shape) - 1
        self.last = last
        self.tall, self.wide = _two(f.lines, last)
        self.tall_axis, self.wide_axis = _two(f.space, last, Axis(1, 0))
        self.planes, self.plane_axis = _planes(f.lines), _planes(f.space, Axis(1, 0))
        self.plane, self.thick = (
            _planes(strides[2:], 0),
            _planes([shape[a] for a in conv.lhs[2:]], 1),
        )
        # Of a position: those of every plane that its windows reach.
        self.own, self.features = conv.depth, conv.depth * self.planes.taps
        self.images, self.lines = _blocks(f, self.tall, self.wide, self.features, acc)
        self.blocks = -(-self.tall.count // self.lines)
        self.extents = (conv.batch // self.images, self.planes.count, self.blocks)
        self.high, self.broad = _cover(self.lines, self.tall), _reach(self.wide)
        self.height, self.width = _two([shape[a] for a in conv.lhs[2:]], last, 1)
        self.line, self.step = _two(strides[2:], last, 0)
        # Of a line: places of padding, of elements from `start` on, and of padding again.
        begin = self.wide.begin
        self.start = max(0, begin)
        self.left = min(self.broad, max(0, -begin))
        self.count = max(0, min(self.width, begin + self.broad) - self.start)
        self.right = self.broad - self.left - self.count

    def place(self) -> tuple[tuple[int, int, int], int, int, int]:
        """Rows as (w, s0, s1), the strides of the window's axes, from image to image."""
        row, c = self.broad * self.features, self.features
        line = (self.lines, self.tall.stride * row)
        across = (self.wide.count, self.wide.stride * c)
        if line[1] == across[0] * across[1] or line[0] == 1:
            rows = (line[0] * across[0], across[1], 0)
        elif across[0] == 1:
            rows = (line[0], line[1], 0)
        else:
            rows = (across[0], across[1], line[1])
        return rows, self.tall.dilation * row, self.wide.dilation * c, self.high * row

    def bring(self, b: Builder, bi: Index, parallel: bool) -> Buf:
        """Copies the lines of a block."""
        f, c = self.f, self.features
        slot = f.slot
        image, plane, block = b.unravel(bi, self.extents)
        buf = b.scratch(self.acc, self.images * self.high * self.broad * c, "near")

        def line(idx: tuple[Index, ...]) -> None:
            t, k = idx
            first = self.lines * self.tall.stride
            y = b.linear([(block, first), (k, 1), (self.tall.begin, 1)])
            to = b.mul(b.ravel(idx, (self.images, self.high)), self.broad * c)
            far = b.linear([(image, self.images * self.image), (t, self.image), (y, self.line)])
            source = b.linear([(far, 1), (slot.base(b), 1), (self.start * self.step, 1)])

            def copy() -> Sequence[Atom]:
                level, b.region_level = b.region_level, b.depth
                self.zeros(b, buf, to, self.left * c)
                self.copy_planes(b, buf, b.add(to, self.left * c), slot.buf(b), source, plane)
                self.zeros(b, buf, b.add(to, (self.left + self.count) * c), self.right * c)
                b.region_level = level
                return ()

            def blank() -> Sequence[Atom]:
                self.zeros(b, buf, to, self.broad * c)
                return ()

            if self.count:
                b.branch(b.in_range(y, 0, self.height), copy, blank)
            else:
                blank()

        box(b, (self.images, self.high), line, "seq", parallel=parallel)
        return buf

    def zeros(self, b: Builder, buf: Buf, at: Index, count: int) -> None:
        zero = identity_of("add", self.acc)

        def one(i: Index) -> Sequence[Atom]:
            b.store(buf, b.atom(b.add(at, i)), zero)
            return ()

        b.loop(count, "vector", one)

    def copy_planes(
        self, b: Builder, buf: Buf, at: Index, x: Buf, source: Index, plane: Index
    ) -> None:
        """The elements of a line, in every plane that is reached from one."""
        if len(self.f.lines) != 3:
            self.copy(b, buf, at, x, source)
            return
        planes, own = self.planes, self.own

        def tap(p: Index) -> Sequence[Atom]:
            z = b.linear([(plane, planes.stride), (p, planes.dilation), (planes.begin, 1)])
            to = b.linear([(at, 1), (p, own)])

            def some() -> Sequence[Atom]:
                self.copy(b, buf, to, x, b.linear([(source, 1), (z, self.plane)]))
                return ()

            def none() -> Sequence[Atom]:
                zero = identity_of("add", self.acc)
                self.positions(b, buf, to, lambda i, k: zero)
                return ()

            b.branch(b.in_range(z, 0, self.thick), some, none)
            return ()

        b.loop(planes.taps, "seq", tap)

    def positions(
        self, b: Builder, buf: Buf, at: Index, value: Callable[[Index, Index], Atom]
    ) -> None:
        """A plane's features of each position of a line."""

        def position(i: Index) -> Sequence[Atom]:
            def one(k: Index) -> Sequence[Atom]:
                to = b.linear([(at, 1), (i, self.features), (k, 1)])
                b.store(buf, b.atom(to), value(i, k))
                return ()

            b.loop(self.own, "vector", one)
            return ()

        b.loop(self.count, "seq", position)

    def copy(self, b: Builder, buf: Buf, at: Index, x: Buf, source: Index) -> None:
        own, c = self.own, self.features

        def element(place: Index) -> Atom:
            return scalar_convert(b, b.load(x, b.atom(b.add(source, place))), self.acc)

        if self.last and own == c:

            def one(i: Index) -> Sequence[Atom]:
                b.store(buf, b.atom(b.add(at, i)), element(i))
                return ()

            b.loop(self.count * c, "vector", one)
            return
        if self.last:
            self.positions(b, buf, at, lambda i, k: element(b.linear([(i, own), (k, 1)])))
            return
        args = [x, source, self.feature, own, self.count, buf, at, c]
        given = tuple(v if isinstance(v, (Buf, Const, Var)) else b.atom(v) for v in args)
        for touched in (x, buf):
            b.loaded.add(touched)
        b.stored.add(buf)
        b.emit(Call((), turn_name(self.acc), given))


def weights_in_columns(f: Form, acc: str, base: Callable[..., Index]) -> InPlace | None:
    """Weights whose contracted index is contiguous, or in stretches: where they are to be packed
    from. `base` is where those of a batch index begin."""
    deep = levels(merged(f.deep, "w"), 2)
    there = f.w.slot is not None and f.w.dtype == acc and f.feature.w != 1
    if not there or len(deep) != 2 or deep[1][1] != 1:
        return None
    assert f.w.slot is not None
    (count, apart), (length, _) = deep
    return InPlace(
        f.w.slot.buf, base, (f.conv.per_group, f.feature.w, 0), (1, count, length, 0, apart, 1)
    )


def near_product(f: Form, op: Opaque, dtype: str, acc: str) -> Product:
    """The product of a convolution whose operand is brought near."""
    conv, finish, near = f.conv, Finish(op), _Near(f, acc)
    n = conv.per_group
    rows, _, _, apart = near.place()
    m = near.lines * near.wide.count
    turned, by_feature = f.feature.out != 1, f.feature.w == 1
    tall, wide = near.tall_axis, near.wide_axis
    own = f.w.slot is not None and f.w.dtype == acc and by_feature and len(conv.space) < 3
    packed, form, there, right_form = _contracted(f, near, own)
    slot, right_place = f.w.slot, None
    base = lambda b, bi: b.add(slot.base(b), f.w_base)  # type: ignore[union-attr]
    source = weights_in_columns(f, acc, base) if packed is f.deep else None
    if own:
        assert slot is not None
        right_place = InPlace(slot.buf, base, (n, 1, 0), there)

    def right(b: Builder, bi: Index, k: Index, j: Index) -> Any:
        return f.weight(b, j, k, acc, packed)

    def put(b: Builder, bi: Index, i: Index, j: Index, value: Any) -> None:
        image, plane, block = b.unravel(bi, near.extents)
        t, line, column = b.unravel(i, (near.images, near.lines, near.wide.count))
        idx: list[Index] = [0] * len(f.shape)
        idx[f.image.place] = b.linear([(image, near.images), (t, 1)])
        line = b.linear([(block, near.lines), (line, 1)])
        for axis, at in ((near.plane_axis, plane), (tall, line), (wide, column)):
            if axis.place >= 0:
                idx[axis.place] = axis.index(b, at)
        idx[f.feature.place] = j
        finish.put(b, tuple(idx), scalar_convert(b, value, dtype))

    lines = merged([tall, wide], "out")
    straight = dtype == acc and len(lines) <= 1 and finish.into
    if turned:
        straight = straight and (not lines or lines[0][1] == 1)
        ldc = f.feature.out
    else:
        straight = straight and f.feature.out == 1
        ldc = lines[0][1] if lines else n

    def into(b: Builder, bi: Index) -> tuple[Buf, Index, int]:
        buf, base = finish.into(b)
        image, plane, block = b.unravel(bi, near.extents)
        far = b.linear([(image, near.images * f.image.out), (block, near.lines * tall.out)])
        far = b.linear([(far, 1), (plane, near.plane_axis.out)])
        return buf, b.linear([(base, 1), (far, 1), (f.out_base, 1)]), ldc

    def count(b: Builder, bi: Index) -> Atom:
        rest = b.linear([(b.unravel(bi, near.extents)[2], -near.lines), (tall.extent, 1)])
        return b.let("min", (b.dim(near.lines), b.atom(rest)), "i64")

    return Product(
        acc,
        math.prod(near.extents),
        m,
        n,
        f.depth,
        _nowhere,
        right,
        put,
        InPlace(_nowhere, _nowhere, rows, form),
        right_place,
        right_depth=not by_feature,
        into=into if straight else None,
        shared=True,
        fixed=True,
        near=near.bring,
        stacked=near.images,
        left_apart=apart,
        into_apart=f.image.out,
        lines=count if near.blocks * near.lines != tall.extent else None,
        line=near.wide.count,
        turned=(m if len(lines) <= 1 else near.wide.count) if turned else 0,
        right_form=right_form,
        right_source=source,
    )


def _nowhere(*_: Any) -> Any:
    raise AssertionError("internal error in pullback: the operand is read in scratch")


def _contracted(
    f: Form, near: _Near, own: bool
) -> tuple[Sequence[Axis], _Levels, _Levels, _Levels | None]:
    """The contracted index: its axes in the order of packed weights; how it runs through what was
    brought near, through weights that are read in place (`own`), and through packed ones, where
    these have another order."""
    conv, c = f.conv, near.features
    _, t1, t2, _ = near.place()
    # It runs over the window, then over features: the weights are read so, or packed. Many features
    # that lie in another order are packed in that one, and read in strides.
    window = [next(a for a in f.deep if a.place == r) for r in conv.rhs[2:]]
    feature = next(a for a in f.deep if a.place == conv.rhs[1])
    order = [*_two(window, near.last, Axis(1, 0)), feature]
    n1, n2 = order[0].extent, order[1].extent
    packed: Sequence[Axis] = f.deep if c >= STRIDED else order
    if len(window) == 3:  # features of several planes are read as those of one
        order = [*order[:2], window[0], feature]
        packed = order
    natural = _real(packed) == _real(order)
    right_form = None if natural else (n1, n2, c, *_packed_strides(packed, order))
    form: _Levels = (n1, n2, c, t1, t2, 1)
    if len(window) == 3:
        there: _Levels = (n1, n2, c, 0, 0, 0)
    else:
        there = (n1, n2, c, order[0].w, order[1].w, order[2].w)
    if natural and t2 == c and not (own and there[4] != c * there[5]):
        form, there = (1, n1, n2 * c, 0, t1, 1), (1, n1, n2 * c, 0, there[3], there[5])
    return packed, form, there, right_form


def _real(axes: Sequence[Axis]) -> list[Axis]:
    return [a for a in axes if a.extent > 1]


def _packed_strides(packed: Sequence[Axis], order: Sequence[Axis]) -> tuple[int, int, int]:
    """The strides of axes among contracted indices that run through the packed ones."""
    step, found = 1, {}
    for a in reversed(packed):
        found[a.place] = step
        step *= a.extent
    u1, u2, bs = (found.get(a.place, 0) for a in order)
    return u1, u2, bs


def without_taps(b: Builder, f: Form, op: Opaque, dtype: str) -> None:
    """Positions that no element of a dilated operand reaches: their sums are zero."""
    finish = Finish(op)
    extents = [f.image.extent, *(a.extent for a in f.space), f.conv.features]
    places = [f.image.place, *(a.place for a in f.space), f.feature.place]
    order = sorted(range(len(extents)), key=lambda k: places[k])
    zero = identity_of("add", dtype)
    scale = {a.place: a for a in f.space}

    def one(at: tuple[Index, ...]) -> None:
        idx: list[Index] = [0] * len(f.shape)
        for k, i in zip(order, at, strict=True):
            axis = scale.get(places[k])
            idx[places[k]] = axis.index(b, i) if axis is not None else i
        finish.put(b, tuple(idx), zero)

    box(b, [extents[k] for k in order], one, "vector", range(len(order)))
