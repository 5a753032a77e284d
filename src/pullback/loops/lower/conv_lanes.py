"""Convolutions with few output features: lanes run along the positions of lines.

A product whose columns are one or three features leaves most lanes of a vector idle. Here features
are the rows of a block instead, and its columns are positions:

    each task copies the lines that its block of positions reads to scratch, padded, converted,
    as [feature][line][position]
    a block of positions is every window position and feature of these, times its weight

Columns run through the padding at the ends of lines as well; what is computed there is left out. A
dilated operand, as in the gradient of a convolution with strides, is one convolution for each
remainder of the position (conv_axes.py): all of them read the same scratch, and no zero between
elements is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.epilogue import Finish
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.conv_axes import Axis, Form, Line, lines_of, strides_of
from pullback.loops.lower.elementwise import scalar_convert
from pullback.loops.lower.graph import COMPLEX, Opaque
from pullback.loops.lower.statements import box
from pullback.loops.ops import identity_of
from pullback.loops.tiles import FLAT, LINE, TILE_TYPES, flat_name, tile_name, turn_name

__all__ = ["emit_in_lanes", "in_lanes"]

NEAR = 1 << 20  # bytes that a single line may take with what its windows reach
BLOCK = 384 << 10  # bytes that the lines of a block should take
TASKS = 8  # blocks that a convolution is cut into at least
PARALLEL = 400_000  # multiplications below which one thread does it
BLOCK_K = 1024  # of the contracted index: sums of longer ones are added in order
REUSE = 6  # multiplications of an element, below which it is not worth a copy
UNIT = Line(1, 0, 1, 1, 1, 0, 1, 1, 0)


def in_lanes(conv: Any, acc: str) -> bool:
    """Whether a convolution is better done this way: few output features, windows that move by
    one, lines that fit in a core's cache and are not mostly padding."""
    n: int = conv.per_group
    rank = len(conv.space)
    if rank not in (1, 2) or conv.groups != 1 or conv.x.dtype in COMPLEX:
        return False
    torn = (g != 1 and d != 1 for g, d in zip(conv.base, conv.dilation, strict=True))
    if any(s != 1 for s in conv.strides) or any(torn) or n * math.prod(conv.window) < REUSE:
        return False
    choices = [lines_of(conv, axis, 0)[0] for axis in range(rank)]
    broad = max(_span(choices[-1]))
    high = 1 if rank == 1 else max(v.taps * v.dilation for v in choices[0])
    size = TILE_TYPES[acc.replace("u", "i")]
    if conv.depth * broad * high * size > NEAR:
        return False
    own = _rows(n) * max(v.count for v in choices[-1]) / broad
    lanes = LINE // size
    return bool(n < 4 or own > n / (lanes * -(-n // lanes)))


def _rows(n: int) -> float:
    """Which part of the arithmetic units a block of n rows keeps busy."""
    if n <= FLAT:
        return (0.6, 0.9, 1.0, 1.0)[n - 1]
    height = 6 if n in (5, 6) else 8
    return n / (height * -(-n // height))


def _span(lines: Sequence[Line]) -> tuple[int, ...]:
    """How many elements lines of positions cover, each from where the first of them begins."""
    real = [v for v in lines if v.taps] or [UNIT]
    first = min(v.begin for v in real)
    return tuple(v.begin - first + (v.taps - 1) * v.dilation + v.count for v in real)


class _Lines:
    """Where the lines of a block lie in scratch, and how they come there."""

    def __init__(self, forms: Sequence[Form], acc: str) -> None:
        f = forms[0]
        conv, shape = f.conv, f.x.shape
        steps = [strides_of(shape)[a] for a in conv.lhs]
        flat = len(conv.space) == 1
        self.f, self.acc = f, acc
        self.image, self.feature = steps[:2]
        self.line: int = 0 if flat else steps[2]
        self.step: int = steps[-1]
        self.height: int = 1 if flat else shape[conv.lhs[2]]
        self.width: int = shape[conv.lhs[-1]]
        pairs = [_pair(form) for form in forms]
        tall, wide = ([p[k] for p in pairs] for k in (0, 1))
        # The first element that a block reads, counted from its first position.
        self.top, self.begin = (min(v.begin for v in axis) for axis in (tall, wide))
        reach = max(v.begin + (v.taps - 1) * v.dilation for v in tall) - self.top
        self.broad = max(v.begin + (v.taps - 1) * v.dilation + v.count for v in wide) - self.begin
        self.most = max(v.count for v in tall)
        self.lines = self._block(reach)
        self.high = self.lines + reach
        self.blocks = -(-self.most // self.lines)
        # Of a line: places of padding, of elements from `start` on, and of padding again.
        self.start = max(0, self.begin)
        self.left = min(self.broad, max(0, -self.begin))
        self.count = max(0, min(self.width, self.begin + self.broad) - self.start)
        self.blank = self.broad - self.count  # before a line's elements, and behind the last
        self.plane = self.left + self.high * self.broad

    def _block(self, reach: int) -> int:
        """Lines of a block: as many as fit, but a block for every thread."""
        conv = self.f.conv
        one: int = conv.depth * self.broad * TILE_TYPES[self.acc.replace("u", "i")]
        lines = max(1, BLOCK // one - reach)
        wanted = -(-self.most // max(1, TASKS // conv.batch))
        lines = max(1, min(self.most, lines, max(wanted, min(reach, self.most))))
        blocks: int = -(-self.most // lines)
        return -(-self.most // blocks)

    def bring(self, b: Builder, image: Index, block: Index) -> Buf:
        """Copies the lines of a block."""
        f, features = self.f, self.f.conv.depth
        slot = f.slot
        buf = b.scratch(self.acc, features * self.plane, "near")
        self.zeros(b, buf, 0, self.left)

        def line(idx: tuple[Index, ...]) -> None:
            (t,) = idx
            y = b.linear([(block, self.lines), (t, 1), (self.top, 1)])
            to = b.linear([(t, self.broad), (self.left, 1)])

            def copy() -> Sequence[Atom]:
                level, b.region_level = b.region_level, b.depth
                far = b.linear([(image, self.image), (y, self.line), (slot.base(b), 1)])
                self.copy(b, buf, to, slot.buf(b), b.add(far, self.start * self.step))
                self.zeros(b, buf, b.add(to, self.count), self.blank)
                b.region_level = level
                return ()

            def nothing() -> Sequence[Atom]:
                self.zeros(b, buf, to, self.broad)
                return ()

            if self.count:
                b.branch(b.in_range(y, 0, self.height), copy, nothing)
            else:
                nothing()

        box(b, (self.high,), line, "seq", parallel=False)
        return buf

    def zeros(self, b: Builder, buf: Buf, at: Index, count: int) -> None:
        """So many zeros in the line of every feature."""
        zero = identity_of("add", self.acc)

        def feature(c: Index) -> Sequence[Atom]:
            def one(i: Index) -> Sequence[Atom]:
                b.store(buf, b.atom(b.linear([(c, self.plane), (at, 1), (i, 1)])), zero)
                return ()

            b.loop(count, "vector", one)
            return ()

        if count:
            b.loop(self.f.conv.depth, "seq", feature)

    def copy(self, b: Builder, buf: Buf, at: Index, x: Buf, source: Index) -> None:
        """The elements of a line, of every feature."""
        c, acc = self.f.conv.depth, self.acc
        if self.step == 1 or self.feature != 1:

            def feature(k: Index) -> Sequence[Atom]:
                def one(i: Index) -> Sequence[Atom]:
                    place = b.linear([(source, 1), (k, self.feature), (i, self.step)])
                    value = scalar_convert(b, b.load(x, b.atom(place)), acc)
                    b.store(buf, b.atom(b.linear([(k, self.plane), (at, 1), (i, 1)])), value)
                    return ()

                b.loop(self.count, "vector", one)
                return ()

            b.loop(c, "seq", feature)
            return
        step = self.step
        if x.dtype != acc:
            some = b.scratch(acc, self.count * c, "read")

            def position(i: Index) -> Sequence[Atom]:
                def one(k: Index) -> Sequence[Atom]:
                    value = b.load(x, b.atom(b.linear([(source, 1), (i, self.step), (k, 1)])))
                    to = b.atom(b.linear([(i, c), (k, 1)]))
                    b.store(some, to, scalar_convert(b, value, acc))
                    return ()

                b.loop(c, "vector", one)
                return ()

            b.loop(self.count, "seq", position)
            x, source, step = some, 0, c
        args = [x, source, step, self.count, c, buf, at, self.plane]
        _call(b, turn_name(acc), args, (x, buf), buf)


def _call(b: Builder, name: str, args: list[Any], reads: tuple[Buf, Buf], writes: Buf) -> None:
    given = tuple(v if isinstance(v, (Buf, Const, Var)) else b.atom(v) for v in args)
    for touched in (*reads, writes):
        b.loaded.add(touched)
    b.stored.add(writes)
    b.emit(Call((), name, given))


def _pair(f: Form) -> tuple[Line, Line]:
    """The spatial axes of a form; a lone one is that of the positions of a line."""
    return f.lines if len(f.lines) == 2 else (UNIT, f.lines[0])


def emit_in_lanes(b: Builder, forms: Sequence[Form], op: Opaque, dtype: str, acc: str) -> None:
    """The statements of a convolution's forms, each of which has window positions."""
    near, conv = _Lines(forms, acc), forms[0].conv
    packed = [_weights(b, f, acc) for f in forms]
    work = math.prod(op.outs[0].shape) * sum(f.depth for f in forms) // len(forms)

    def block(idx: tuple[Index, ...]) -> None:
        buf = near.bring(b, *idx)
        for f, weights in zip(forms, packed, strict=True):
            _multiply(b, near, f, weights, buf, op, dtype, idx)

    wide = work > PARALLEL and conv.batch * near.blocks > 1
    box(b, (conv.batch, near.blocks), block, "seq", parallel=wide)


def _weights(b: Builder, f: Form, acc: str) -> Buf:
    """The weights as [output feature][feature][window], converted."""
    order = _order(f)
    buf = b.scratch(acc, f.conv.per_group * f.depth, "weights")

    def row(c: Index) -> Sequence[Atom]:
        def one(k: Index) -> Sequence[Atom]:
            value = f.weight(b, c, k, acc, order)
            b.store(buf, b.atom(b.linear([(c, f.depth), (k, 1)])), value)
            return ()

        b.loop(f.depth, "vector", one)
        return ()

    b.loop(f.conv.per_group, "seq", row)
    return buf


def _order(f: Form) -> list[Axis]:
    places = (f.conv.rhs[1], *f.conv.rhs[2:])
    return [next(a for a in f.deep if a.place == r) for r in places]


def _multiply(
    b: Builder,
    near: _Lines,
    f: Form,
    weights: Buf,
    lines: Buf,
    op: Opaque,
    dtype: str,
    idx: tuple[Index, ...],
) -> None:
    """The positions of a block in one form, and what follows them."""
    conv, acc, finish, (image, block) = f.conv, near.acc, Finish(op), idx
    tall, wide = _pair(f)
    n, size = conv.per_group, near.lines
    columns = (size - 1) * near.broad + wide.count
    out = b.scratch(acc, n * columns, "tile")
    have: Atom | None = None
    cols: Any = columns
    if tall.count != near.blocks * size:  # the last block has fewer lines, or none
        rest = b.atom(b.linear([(block, -size), (tall.count, 1)]))
        have = b.let("clamp", (b.dim(0), rest, b.dim(size)), "i64")
        span = b.let("mul", (have, b.dim(near.broad)), "i64")
        span = b.let("add", (span, b.dim(wide.count - near.broad)), "i64")
        cols = b.let("max", (span, b.dim(0)), "i64")
    taps = tall.taps * wide.taps
    some = max(1, BLOCK_K // taps)
    some = -(-conv.depth // -(-conv.depth // some))
    first = (tall.begin - near.top) * near.broad + wide.begin - near.begin
    name, panel = _tile(n, acc)

    def part(at: tuple[Index, ...]) -> None:
        (k,) = at
        count: Any = some
        if conv.depth % some:
            rest = b.atom(b.linear([(k, -some), (conv.depth, 1)]))
            count = b.let("min", (b.dim(some), rest), "i64")
        args: list[Any] = [
            weights, b.mul(k, some * taps), 0, n, f.depth, 0, n,
            count, tall.taps, wide.taps, taps, wide.taps, 1,
            lines, b.linear([(k, some * near.plane), (first, 1)]),
            near.plane, tall.dilation * near.broad, wide.dilation, panel, cols,
            out, 0, columns, k,
        ]  # fmt: skip
        _call(b, name, args, (weights, lines), out)

    box(b, (-(-conv.depth // some),), part, "seq", parallel=False)
    axes = f.space if len(f.space) == 2 else (Axis(1, 0), f.space[0])

    def row(c: Index) -> Sequence[Atom]:
        def line(t: Index) -> Sequence[Atom]:
            def one(i: Index) -> Sequence[Atom]:
                at = b.linear([(c, columns), (t, near.broad), (i, 1)])
                value = b.load(out, b.atom(at))
                place: list[Index] = [0] * len(f.shape)
                place[f.image.place], place[f.feature.place] = image, c
                down = b.linear([(block, size), (t, 1)])
                for axis, j in zip(axes, (down, i), strict=True):
                    if axis.place >= 0:
                        place[axis.place] = axis.index(b, j)
                finish.put(b, tuple(place), scalar_convert(b, value, dtype))
                return ()

            b.loop(wide.count, "vector", one)
            return ()

        b.loop(size, "seq", line, hi=have)
        return ()

    b.loop(n, "seq", row)


def _tile(n: int, acc: str) -> tuple[str, int]:
    """The function for blocks of n rows, and its panels' width."""
    if n <= FLAT:
        return flat_name(acc, n), 0
    lines = 4 if n in (5, 6) else 3
    return tile_name(acc, lines), lines * LINE // TILE_TYPES[acc.replace("u", "i")]
