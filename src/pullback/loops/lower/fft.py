"""Fourier transforms as kernels.

One axis is one operation: many transforms of the same length run side by side, a lane each, through
the stages of Stockham's algorithm, which sorts as it goes: a stage of radix r takes entries p + k m
(k < r, m a part of what is left of the length) to r p + k, turned by roots of unity, between two
blocks of scratch. The first stage reads the operand, the last writes the result.

A long transform that is alone is taken as a matrix (its length n = n1 n2, x[j1 n2 + j2]): columns
are transformed, turned by roots of order n, then rows are transformed; entry k1 + n1 k2 of the
result is entry k2 of row k1. Lengths with large prime factors are convolutions of lengths that have
none. Real transforms of even length are complex ones of half the length, but for many short rows.
Prime factors up to 13 are written out; sums of larger ones, up to 127, are loops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.loops.build import TRUE, Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.elementwise import Outs, rule, transposed
from pullback.loops.lower.graph import Graph, Node, Opaque, part_dtype, read, store_slot
from pullback.loops.lower.lapack import each, room
from pullback.loops.lower.small import LANES, Lanes
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned

__all__: list[str] = []

LARGEST = 13  # prime factor whose butterfly is written out
WIDE = 127  # prime factor whose butterfly is loops
MATRIX = 32  # transforms of contiguous entries, from this length on, are taken as matrices
LONG = 8192  # and from this length on their columns and rows are operations of their own
# Many short rows of real numbers are transformed as complex ones: to take a transform of half the
# length apart reads rows backwards, whose frequencies are too few for loops of their own.
SHORT_REAL, FEW_REAL = 120, 16
SHARED = 400_000.0  # work of transforms, 5 to 10 us, from which on threads share them

Pair = tuple[Atom, Atom]
Load = Callable[[Builder, Index, Index, Index], Pair]  # (builder, outer, entry, inner)
Store = Callable[[Builder, Index, Index, Index, Pair], None]

FFT, IFFT, RFFT, IRFFT = range(4)


@functools.lru_cache(maxsize=1024)
def radices(n: int) -> tuple[int, ...] | None:
    """A length as a product of radices, the largest first; None if a prime factor is large."""
    twos = (n & -n).bit_length() - 1 if n > 0 else 0
    n >>= twos
    fours = {0: 0, 1: 2, 2: 1}[twos % 3] if twos > 1 else 0
    out = [4] * fours + [8] * ((twos - 2 * fours) // 3) + [2] * (twos == 1)
    for p in range(3, WIDE + 1, 2):
        while n % p == 0:
            out.append(p)
            n //= p
    return tuple(sorted(out, reverse=True)) if n == 1 else None


@functools.lru_cache(maxsize=1024)
def halves(n: int) -> tuple[int, int]:
    """Two factors of about the same size."""
    best = next(k for k in range(math.isqrt(n), 0, -1) if n % k == 0)
    return n // best, best


# A quarter of a turn: with more digits than double precision has, where the machine has them, so
# that roots are rounded once. Their errors add up over the stages of a transform.
_QUARTER = np.longdouble("1.57079632679489661923132169163975144")


def _roots(order: int, powers: Any, sign: int) -> Any:
    """exp(sign 2 pi i powers / order), exact at quarter turns and as symmetric as the circle: each
    is an angle of at most an eighth of a turn, mirrored and turned. What should cancel does."""
    quarter, rest = np.divmod(4 * (powers % order), order)  # rest / order: part of a quarter
    upper = 2 * rest > order
    angle = _QUARTER * np.where(upper, order - rest, rest) / order
    one, other = (f(angle).astype(np.float64) for f in (np.cos, np.sin))
    root = np.where(upper, other, one) + sign * 1j * np.where(upper, one, other)
    return root * np.array([1, sign * 1j, -1, -sign * 1j])[quarter]


@functools.lru_cache(maxsize=256)
def stage_roots(n: int, sign: int, dtype: str) -> Any:
    """The roots of unity of all stages: for each p, those by which outputs 1.. are turned; then, of
    the stages of large radix, those of the butterfly."""
    parts, left = [], n
    for r in radices(n) or ():
        m = left // r
        powers = np.arange(m)[:, None] * np.arange(1, r)
        parts.append(_roots(left, powers, sign).reshape(-1))
        left = m
    for r in wide_radices(n):
        some = np.arange(1, r // 2 + 1)
        parts.append(_roots(r, some[:, None] * some, sign).reshape(-1))
    whole = np.concatenate(parts) if parts else np.ones(1)
    return whole.astype(np.complex64 if dtype == "c64" else np.complex128)


def wide_radices(n: int) -> tuple[int, ...]:
    """The radices of a length whose butterflies are loops, each once."""
    return tuple(dict.fromkeys(r for r in radices(n) or () if r > LARGEST))


@functools.lru_cache(maxsize=64)
def matrix_roots(n1: int, n2: int, sign: int, dtype: str) -> Any:
    """Roots of order n1 n2, entry (k1, j2) to the power k1 j2; real parts, then imaginary ones."""
    powers = np.arange(n1)[:, None] * np.arange(n2)
    roots = _roots(n1 * n2, powers, sign)
    return np.stack([roots.real, roots.imag]).astype(np.float32 if dtype == "c64" else np.float64)


@functools.lru_cache(maxsize=256)
def half_roots(n: int, sign: int, dtype: str) -> Any:
    """exp(sign 2 pi i k / n) for k = 0 .. n/2."""
    roots = _roots(n, np.arange(n // 2 + 1), sign)
    return roots.astype(np.complex64 if dtype == "c64" else np.complex128)


# --- one stage ---
def _turned(b: Builder, x: Pair, quarter: int) -> Pair:
    """x times i (quarter 1) or -i (-1)."""
    flipped = x[1] if quarter > 0 else x[0]
    minus = b.let("neg", (flipped,), flipped.dtype)
    return (minus, x[0]) if quarter > 0 else (x[1], minus)


def _rotated(b: Builder, x: Pair, root: Pair) -> Pair:
    """x times a root of unity; products and sums may be one operation."""
    t, (c, d) = x[0].dtype, root
    minus = b.let("neg", (b.let("mul", (x[1], d), t),), t)
    return b.let("fma", (x[0], c, minus), t), b.let("fma", (x[0], d, b.let("mul", (x[1], c), t)), t)


def _more(b: Builder, total: Pair, x: Pair, c: float) -> Pair:
    """total + c x, likewise."""
    k = Const(c, x[0].dtype)
    re, im = (b.let("fma", (part, k, whole), k.dtype) for part, whole in zip(x, total, strict=True))
    return re, im


def _times(b: Builder, x: Pair, c: float) -> Pair:
    k = Const(c, x[0].dtype)
    return b.let("mul", (x[0], k), k.dtype), b.let("mul", (x[1], k), k.dtype)


def _eighth(b: Builder, x: Pair, sign: int) -> Pair:
    """x times (1 + i) / sqrt(2) (sign 1) or its conjugate."""
    ops = ("sub", "add") if sign > 0 else ("add", "sub")
    re = b.let(ops[0], (x[0], x[1]), x[0].dtype)
    im = b.let(ops[1], (x[1], x[0]), x[0].dtype)
    return _times(b, (re, im), math.sqrt(0.5))


def butterfly(b: Builder, a: list[Pair], sign: int) -> list[Pair]:
    """The transform of a few numbers."""
    r = len(a)
    if r == 1:
        return a
    if r == 2:
        return [cm.add(b, a[0], a[1]), cm.sub(b, a[0], a[1])]
    if r == 4:
        even, odd = butterfly(b, [a[0], a[2]], sign), butterfly(b, [a[1], a[3]], sign)
        turned = _turned(b, odd[1], sign)
        return [
            cm.add(b, even[0], odd[0]),
            cm.add(b, even[1], turned),
            cm.sub(b, even[0], odd[0]),
            cm.sub(b, even[1], turned),
        ]
    if r == 8:
        even, odd = butterfly(b, a[::2], sign), butterfly(b, a[1::2], sign)
        odd = [odd[0], _eighth(b, odd[1], sign), _turned(b, odd[2], sign), odd[3]]
        odd[3] = _turned(b, _eighth(b, odd[3], sign), sign)
        pairs = list(zip(even, odd, strict=True))
        return [cm.add(b, x, y) for x, y in pairs] + [cm.sub(b, x, y) for x, y in pairs]
    # Entries j and r - j have conjugate roots: their sum takes cosines, their difference sines.
    half = (r - 1) // 2
    sums = [cm.add(b, a[j], a[r - j]) for j in range(1, half + 1)]
    gaps = [cm.sub(b, a[j], a[r - j]) for j in range(1, half + 1)]
    first = a[0]
    for s in sums:
        first = cm.add(b, first, s)
    out, roots = [first] * r, _roots(r, np.arange(r), 1).tolist()
    for k in range(1, half + 1):
        whole = a[0]
        total = _times(b, gaps[0], roots[k].imag)
        for j in range(1, half + 1):
            root = roots[j * k % r]
            whole = _more(b, whole, sums[j - 1], root.real)
            if j > 1:
                total = _more(b, total, gaps[j - 1], root.imag)
        turned = _turned(b, total, sign)
        out[k], out[r - k] = cm.add(b, whole, turned), cm.sub(b, whole, turned)
    return out


def _wide_stage(
    b: Builder, r: int, m: int, s: int, roots: Callable[[Index], Pair],
    circle: Callable[[Index, Index], Pair], pairs: Lanes, get: Callable[[Index], Pair],
    put: Callable[[Index, Pair], None],
) -> None:  # fmt: skip
    """A stage of large radix in a lane: `circle(k, j)` is the root to the power (k + 1) (j + 1),
    `pairs` room for the sums and differences of entries with conjugate roots."""
    half = r // 2

    def at(p: Index, q: Index) -> None:
        def entry(j: Index) -> Pair:
            return get(b.linear([(q, 1), (p, s), (j, m * s)]))

        def out(k: Index, value: Pair) -> None:
            put(b.linear([(q, 1), (p, s * r), (k, s)]), value)

        first = entry(0)
        zero = Const(0.0, first[0].dtype)
        imaginary = [first[1]]

        def pair(j: Index, total: list[Atom]) -> list[Atom]:
            low, high = entry(b.add(j, 1)), entry(b.sub(r - 1, j))
            imaginary.extend((low[1], high[1]))
            both = cm.add(b, low, high)
            pairs.put(j, 0, both)
            pairs.put(j, 1, cm.sub(b, low, high))
            return list(cm.add(b, (total[0], total[1]), both))

        re, im = _fold(b, half, first, pair)
        out(0, (re, im))
        # The imaginary parts of real numbers are not summed. All entries are asked: the first one
        # of an inverse of real numbers is real, the others are not.
        parts = 1 if all(x == zero for x in imaginary) else 2

        def some(start: Index, count: int) -> None:
            """Frequencies start + 1 .. start + count, and those that mirror them."""

            def term(j: Index, sofar: list[Atom]) -> list[Atom]:
                values = [(pairs.get(j, way)[part], way) for way in (0, 1) for part in range(parts)]
                new: list[Atom] = []
                for c in range(count):
                    root = circle(b.add(start, c), j)
                    for x, way in values:
                        new.append(b.let("fma", (x, root[way], sofar[len(new)]), x.dtype))
                return new

            sums = _fold(b, half, [*first[:parts], *[zero] * parts] * count, term)
            for c in range(count):
                found = sums[2 * parts * c :][: 2 * parts]
                whole, part = ((x[0], x[-1] if parts > 1 else zero)
                               for x in (found[:parts], found[parts:]))  # fmt: skip
                turned, k = _turned(b, part, 1), b.add(start, c)
                for k_out, value in (
                    (b.add(k, 1), cm.add(b, whole, turned)),
                    (b.sub(r - 1, k), cm.sub(b, whole, turned)),
                ):
                    if m > 1:
                        root = roots(b.linear([(p, r - 1), (k_out, 1), (-1, 1)]))
                        value = _rotated(b, value, root)
                    out(k_out, value)

        each(b, half // TOGETHER, "seq", lambda k: some(b.mul(k, TOGETHER), TOGETHER))
        for k in range(half - half % TOGETHER, half):
            some(k, 1)

    each(b, m, "seq", lambda p: each(b, s, "seq", lambda q: at(p, q)))


TOGETHER = 4  # frequencies of a large radix that are summed in one pass


def _fold(
    b: Builder, n: int, start: Sequence[Atom], step: Callable[[Index, list[Atom]], list[Atom]]
) -> list[Atom]:
    """What `step` makes of a state, n times in order."""
    carry = [(a, b.var(a.dtype, b.depth + 1, "s")) for a in start]

    def one(i: Index) -> Sequence[Atom]:
        with Pinned(b):
            return step(i, [v for _, v in carry])

    return list(b.loop(n, "seq", one, carry))


def _stage(
    b: Builder,
    r: int,
    m: int,
    s: int,
    roots: Callable[[Index], Pair],
    get: Callable[[Index], Pair],
    put: Callable[[Index, Pair], None],
    sign: int,
) -> None:
    """One stage in a lane; `roots` gives the root at p (r - 1) + k - 1."""

    def part(p: Index) -> None:
        turns = [roots(b.add(b.mul(p, r - 1), k)) for k in range(r - 1)] if m > 1 else []

        def one(q: Index) -> None:
            spots = [b.linear([(q, 1), (p, s), (k * m * s, 1)]) for k in range(r)]
            values = butterfly(b, [get(i) for i in spots], sign)
            for k, value in enumerate(values):
                at = b.linear([(q, 1), (p, s * r), (k * s, 1)])
                put(at, _rotated(b, value, turns[k - 1]) if turns and k else value)

        each(b, s, "seq", one)

    each(b, m, "seq", part)


def transforms(
    b: Builder, n: int, dtype: str, outer: int, inner: int, sign: int, table: Node | None,
    load: Load, store: Store, shared: bool = True,
) -> None:  # fmt: skip
    """outer * inner transforms of length n, in lanes along `inner` where it is long enough;
    `shared` among threads where that is worth it."""
    most = LANES[part_dtype(dtype)]
    along = inner >= 4 or outer == 1
    count = inner if along else outer * inner
    lanes = most
    while lanes > count:
        lanes //= 2
    blocks = -(-count // lanes)
    groups = outer if along else 1

    def block(k: Index) -> Sequence[Atom]:
        with Pinned(b):
            group, part = (b.div(k, blocks), b.mod(k, blocks)) if groups > 1 else (0, k)
            # The last block begins earlier, not to be shorter: some are done twice.
            start: Index = b.mul(part, lanes)
            if count % lanes:
                first = b.let("min", (b.atom(start), b.dim(count - lanes)), "i64")
                start = b.leaf_of(first, 0, count - lanes)
            _block(
                b, n, dtype, lanes, sign, table, _spot(b, along, inner, group, start), load, store
            )
        return ()

    wide = shared and _work(n, outer * inner) > SHARED
    b.loop(groups * blocks, "parallel" if wide else "seq", block)


def _spot(
    b: Builder, along: bool, inner: int, group: Index, start: Index
) -> Callable[[Index], tuple[Index, Index]]:
    """Where the transform of a lane is: (outer, inner)."""

    def at(t: Index) -> tuple[Index, Index]:
        place = b.add(start, t)
        return (group, place) if along else (b.div(place, inner), b.mod(place, inner))

    return at


def _block(
    b: Builder, n: int, dtype: str, lanes: int, sign: int, table: Node | None,
    spot: Callable[[Index], tuple[Index, Index]], load: Load, store: Store,
) -> None:  # fmt: skip
    stages = radices(n)
    assert stages is not None
    stages = stages or (1,)
    rooms = [Lanes(b, dtype, n, 1, lanes) for _ in range(min(2, len(stages) - 1))]
    wide = wide_radices(n)
    if wide:
        rooms.append(Lanes(b, dtype, max(wide) // 2, 2, lanes))
    circles, end = {}, sum(a * (r - 1) for r, a in _parts(n))
    for r in wide:
        circles[r] = end
        end += (r // 2) ** 2
    left, s, offset = n, 1, 0
    for number, r in enumerate(stages):
        m = left // r
        source = rooms[(number - 1) % 2] if number else None
        target = rooms[number % 2] if number < len(stages) - 1 else None
        base = offset

        def lane(t: Index, r: int = r, m: int = m, s: int = s, base: int = base,
                 source: Any = source, target: Any = target) -> None:  # fmt: skip
            where = spot(t)
            for space in rooms:
                space.t = t

            def get(i: Index) -> Pair:
                if source is None:
                    return load(b, where[0], i, where[1])
                return source.get(i)  # type: ignore[no-any-return]

            def put(i: Index, value: Pair) -> None:
                if target is None:
                    store(b, where[0], i, where[1], value)
                else:
                    target.put(i, 0, value)

            def roots(i: Index) -> Pair:
                assert table is not None
                return read(table, b, (b.add(i, base),))  # type: ignore[no-any-return]

            if r in circles:
                circle = lambda k, j: roots(b.linear([(k, r // 2), (j, 1), (circles[r] - base, 1)]))
                _wide_stage(b, r, m, s, roots, circle, rooms[-1], get, put)
            else:
                _stage(b, r, m, s, roots, get, put, sign)

        each(b, lanes, "vector", lane)
        left, s, offset = m, s * r, offset + m * (r - 1)


def _parts(n: int) -> list[tuple[int, int]]:
    """The radix of each stage, and what is left of the length after it."""
    out, left = [], n
    for r in radices(n) or ():
        left //= r
        out.append((r, left))
    return out


# --- one axis ---
def _constant(g: Graph, value: Any, dtype: str) -> Node:
    return g.options.constant(g, value, (value.shape, dtype))  # type: ignore[no-any-return]


def _table(g: Graph, n: int, sign: int, dtype: str) -> Node | None:
    """The roots of the stages of a length; None if there is but one stage, written out."""
    plan = radices(n)
    needed = plan is not None and (len(plan) > 1 or plan[:1] > (LARGEST,))
    return _constant(g, stage_roots(n, sign, dtype), dtype) if needed else None


def _work(n: int, count: int) -> float:
    return count * n * (12.0 + 4.0 * math.log2(max(2, n)))


def _apply(
    g: Graph, x: Node, n: int, dtype: str, outer: int, inner: int, sign: int, load: Load,
    outs: Outs, store: Callable[[Opaque], Store],
) -> Node:  # fmt: skip
    """One operation of transforms of length n of what `load` gives of x."""
    table = _table(g, n, sign, dtype)

    def emit(b: Builder, op: Opaque) -> None:
        transforms(b, n, dtype, outer, inner, sign, table, load, store(op))

    op = Opaque("fft", [x], ["once"], emit=emit, work=_work(n, outer * inner))
    return g.opaque(op, outs)[0]


def along_axis(
    g: Graph, x: Node, n: int, dtype: str, lead: tuple[int, ...], trail: tuple[int, ...],
    sign: int, element: Callable[[Builder, tuple[Index, ...], Index, tuple[Index, ...]], Pair],
    out: tuple[tuple[int, ...], str],
    put: Callable[[Builder, Node, tuple[Index, ...], Index, tuple[Index, ...], Pair], None],
    half: bool = False,
) -> Node:  # fmt: skip
    """Transforms of length n of `element(b, lead index, entry, trail index)`; `put` writes. Of real
    numbers, an odd number of them, `half` of the frequencies may be enough: 0 .. n/2."""
    outer, inner = math.prod(lead), math.prod(trail)

    def load(b: Builder, o: Index, i: Index, k: Index) -> Pair:
        return element(b, b.unravel(o, lead), i, b.unravel(k, trail))

    def write(op: Opaque) -> Store:
        return lambda b, o, i, k, v: put(
            b, op.outs[0], b.unravel(o, lead), i, b.unravel(k, trail), v
        )

    way, n1, n2 = _way(n, outer, inner)
    if way == "convolution":
        return _by_convolution(g, x, n, dtype, lead, trail, sign, element, out, put)
    if way == "stages":
        return _apply(g, x, n, dtype, outer, inner, sign, load, [out], write)
    return _as_matrix(g, x, n1, n2, dtype, outer, sign, load, out, write, half)


def _way(n: int, outer: int, inner: int) -> tuple[str, int, int]:
    """How outer * inner transforms of a length are done; as matrices of which size."""
    n1, n2 = halves(n) if inner == 1 and n >= MATRIX else (1, 1)
    matrix = n2 >= 4 and (n2 >= 8 or outer < 8)
    # Loops of a large radix pay only in lanes.
    if radices(n) is None or (wide_radices(n) and not matrix and outer * inner < 4):
        return "convolution", 1, 1
    return ("matrix", n1, n2) if matrix else ("stages", 1, 1)


@functools.lru_cache(maxsize=64)
def chirps(n: int, sign: int, dtype: str) -> tuple[int, Any, Any]:
    """A length m of small factors, exp(sign pi i j^2 / n) for j < n, and the transform, of length
    m, of their conjugates as a filter."""
    m = min(p << (-(-(2 * n - 1) // p) - 1).bit_length() for p in (1, 3, 5))
    w = _roots(2 * n, np.arange(n, dtype=np.int64) ** 2, sign)
    spread = np.zeros(m, np.complex128)
    spread[:n] = w.conj()
    spread[m - n + 1 :] = w[1:][::-1].conj()
    d = np.complex64 if dtype == "c64" else np.complex128
    return m, w.astype(d), np.fft.fft(spread).astype(d)


def _by_convolution(
    g: Graph, x: Node, n: int, dtype: str, lead: tuple[int, ...], trail: tuple[int, ...],
    sign: int, element: Callable[[Builder, tuple[Index, ...], Index, tuple[Index, ...]], Pair],
    out: tuple[tuple[int, ...], str],
    put: Callable[[Builder, Node, tuple[Index, ...], Index, tuple[Index, ...], Pair], None],
) -> Node:  # fmt: skip
    """A length with a large prime factor: 2 j k = j^2 + k^2 - (k - j)^2 makes it a convolution
    (Bluestein), which longer transforms compute."""
    m, turns, kernel = chirps(n, sign, dtype)
    w, filter_ = _constant(g, turns, dtype), _constant(g, kernel, dtype)
    axis, shape = len(lead), (*lead, m, *trail)
    zero = Const(0.0, part_dtype(dtype))

    def padded(b: Builder, idx: tuple[Index, ...]) -> Pair:
        inside = b.in_range(idx[axis], 0, n)
        i = b.to_index(b.select(inside, b.atom(idx[axis]), b.dim(0)), 0, n - 1)
        value = element(b, idx[:axis], i, idx[axis + 1 :])
        re, im = cm.mul(b, value, read(w, b, (i,)))
        return b.select(inside, re, zero), b.select(inside, im, zero)

    def product(b: Builder, idx: tuple[Index, ...]) -> Pair:
        return cm.mul(b, read(a, b, idx), read(filter_, b, (idx[axis],)))

    deps: list[Any] = [(x, (None,) * len(x.shape)), (w, (None,))]
    a = _complex_axis(g, g.pointwise(shape, dtype, deps, padded, 12.0), axis, -1, 1.0, dtype)
    deps = [(a, None), (filter_, (axis,))]
    filtered = g.pointwise(shape, dtype, deps, product, 6.0)
    c = _complex_axis(g, filtered, axis, 1, 1.0 / m, dtype)
    result = (*lead, n, *trail)

    def emit(b: Builder, op: Opaque) -> None:
        def one(idx: tuple[Index, ...]) -> None:
            i = idx[axis]
            value = cm.mul(b, read(c, b, idx), read(w, b, (i,)))
            put(b, op.outs[0], idx[:axis], i, idx[axis + 1 :], value)

        box(b, result, one, "vector", range(len(result)), cost=8.0)

    op = Opaque("chirp", [c], ["buffer"], emit=emit, work=8.0 * math.prod(result))
    return g.opaque(op, [out])[0]


def _as_matrix(
    g: Graph, x: Node, n1: int, n2: int, dtype: str, outer: int, sign: int, load: Load,
    out: tuple[tuple[int, ...], str], write: Callable[[Opaque], Store], half: bool,
) -> Node:  # fmt: skip
    """Long transforms, alone or one after the other, as matrices of n1 rows and n2 columns. Those
    that stay in the cache are done whole by one thread; the others are two operations."""
    part = part_dtype(dtype)
    turns = _constant(g, matrix_roots(n1, n2, sign, dtype), part)
    tables = [_table(g, n, sign, dtype) for n in (n1, n2)]
    apart = n1 * n2 >= LONG
    # Of real numbers the frequencies n - k = (n1 - k1) + n1 (n2 - 1 - k2) and k are conjugate: rows
    # k1 <= n1/2 have one of each pair.
    kept = n1 // 2 + 1 if half else n1

    def columns(b: Builder, o: Index, j1: Index, j2: Index) -> Pair:
        return load(b, o, b.linear([(j1, n2), (j2, 1)]), 0)

    def turned(b: Builder, k1: Index, j2: Index, value: Pair) -> Pair:
        root = read(turns, b, (0, k1, j2)), read(turns, b, (1, k1, j2))
        return _rotated(b, value, root)

    def spread(put: Store) -> Store:
        def store(b: Builder, o: Index, k2: Index, k1: Index, v: Pair) -> None:
            def direct() -> list[Atom]:
                put(b, o, b.linear([(k1, 1), (k2, n1)]), 0, v)
                return []

            def mirrored() -> list[Atom]:
                other = b.linear([(k1, -1), (k2, -n1), (n1 * n2, 1)])
                put(b, o, other, 0, (v[0], b.let("neg", (v[1],), part)))
                return []

            b.branch(b.in_range(k2, 0, n2 // 2 + 1) if half else TRUE, direct, mirrored)

        return store

    if not apart:

        def emit(b: Builder, op: Opaque) -> None:
            put = spread(write(op))

            def row(o: Index) -> Sequence[Atom]:
                with Pinned(b):
                    rooms = [room(b, part, n1 * n2) for _ in range(2)]

                    def keep(b: Builder, _: Index, k1: Index, j2: Index, v: Pair) -> None:
                        at = b.atom(b.linear([(k1, n2), (j2, 1)]))
                        for buf, p in zip(rooms, turned(b, k1, j2, v), strict=True):
                            b.store(buf, at, p)

                    def again(b: Builder, _: Index, j2: Index, k1: Index) -> Pair:
                        at = b.atom(b.linear([(k1, n2), (j2, 1)]))
                        return b.load(rooms[0], at), b.load(rooms[1], at)

                    first = lambda b, _, i, k: columns(b, o, i, k)
                    last = lambda b, _, i, k, v: put(b, o, i, k, v)
                    transforms(b, n1, dtype, 1, n2, sign, tables[0], first, keep, False)
                    transforms(b, n2, dtype, 1, kept, sign, tables[1], again, last, False)
                return ()

            wide = _work(n1 * n2, outer) > SHARED
            b.loop(outer, "parallel" if wide else "seq", row)

        op = Opaque("fft", [x], ["once"], emit=emit, work=_work(n1 * n2, outer))
        return g.opaque(op, [out])[0]
    shape = (outer, 2, n1, n2)

    def first_store(op: Opaque) -> Store:
        slot = op.outs[0].slot
        assert slot is not None

        def put(b: Builder, o: Index, k1: Index, j2: Index, value: Pair) -> None:
            for p, v in enumerate(turned(b, k1, j2, value)):
                store_slot(b, slot, shape, part, (o, p, k1, j2), v)

        return put

    made = [(shape, part)]
    middle = _apply(g, x, n1, dtype, outer, n2, sign, columns, made, first_store)

    def rows(b: Builder, o: Index, j2: Index, k1: Index) -> Pair:
        return read(middle, b, (o, 0, k1, j2)), read(middle, b, (o, 1, k1, j2))

    last = lambda op: spread(write(op))
    return _apply(g, middle, n2, dtype, outer, kept, sign, rows, [out], last)


# --- the primitive ---
def _either(b: Builder, x: Atom, y: Atom) -> Atom:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Const):
            return one if one.value else other
    return b.let("or", (x, y), "bool")


def _place(b: Builder, p: Atom, x: Index, y: Index, most: int) -> Index:
    """x or y, 0 .. most; as it stands where p is known, so that lanes read side by side."""
    if isinstance(p, Const):
        return x if p.value else y
    return b.to_index(b.select(p, b.atom(x), b.atom(y)), 0, most)


def _complex(b: Builder, value: Any) -> Pair:
    return value if isinstance(value, tuple) else (value, Const(0.0, value.dtype))


def _complex_axis(g: Graph, x: Node, axis: int, sign: int, scale: float, dtype: str) -> Node:
    shape = x.shape

    def element(b: Builder, lead: Any, i: Index, trail: Any) -> Pair:
        return _complex(b, read(x, b, (*lead, i, *trail)))

    def put(b: Builder, out: Node, lead: Any, i: Index, trail: Any, v: Pair) -> None:
        assert out.slot is not None
        v = v if scale == 1.0 else _times(b, v, scale)
        store_slot(b, out.slot, shape, dtype, (*lead, i, *trail), v)

    lead, trail = shape[:axis], shape[axis + 1 :]
    return along_axis(g, x, shape[axis], dtype, lead, trail, sign, element, (shape, dtype), put)


def _real_axis(g: Graph, x: Node, dtype: str) -> Node:
    """The last axis of real numbers; frequencies 0 .. n/2."""
    *lead, n = x.shape
    out = ((*lead, n // 2 + 1), dtype)
    if not n % 2 and n <= SHORT_REAL and math.prod(lead) >= FEW_REAL and radices(n):
        return _short_real_rows(g, x, dtype)
    if n % 2 or n < 4:

        def real(b: Builder, before: Any, i: Index, _: Any) -> Pair:
            return _complex(b, read(x, b, (*before, i)))

        def some(b: Builder, node: Node, before: Any, i: Index, _: Any, v: Pair) -> None:
            def store() -> list[Atom]:
                assert node.slot is not None
                store_slot(b, node.slot, node.shape, dtype, (*before, i), v)
                return []

            wanted = b.in_range(i, 0, node.shape[-1]) if way == "stages" else TRUE
            b.branch(wanted, store, list)

        # A convolution stores all frequencies, and half of them are read: stores that are masked
        # by the entry would be made one lane after the other.
        way = _way(n, math.prod(lead), 1)[0]
        made = ((*lead, n), dtype) if way == "convolution" else out
        z = along_axis(g, x, n, dtype, tuple(lead), (), -1, real, made, some, True)
        if made is out:
            return z
        return g.pointwise(*out, [(z, None)], lambda b, idx: read(z, b, idx), 1.0)
    h = n // 2

    def pair(b: Builder, before: Any, i: Index, _: Any) -> Pair:
        return read(x, b, (*before, b.mul(i, 2))), read(x, b, (*before, b.add(b.mul(i, 2), 1)))

    def put(b: Builder, node: Node, before: Any, i: Index, _: Any, v: Pair) -> None:
        assert node.slot is not None
        store_slot(b, node.slot, node.shape, dtype, (*before, i), v)

    z = along_axis(g, x, h, dtype, tuple(lead), (), -1, pair, ((*lead, h), dtype), put)
    table = _constant(g, half_roots(n, -1, dtype), dtype)

    def at(b: Builder, idx: tuple[Index, ...]) -> Pair:
        # z_k and conj(z_-k) are even + i odd and even - i odd, the transforms of the even and of
        # the odd entries; frequency k is even + root^k odd.
        *before, k = idx
        zero, end = b.in_range(k, 0, 1), b.in_range(k, h, h + 1)
        here = _place(b, end, 0, k, h - 1)
        mirror = _place(b, _either(b, zero, end), 0, b.sub(h, k), h - 1)
        x1, x2 = read(z, b, (*before, here)), read(z, b, (*before, mirror))
        x2 = (x2[0], b.let("neg", (x2[1],), x2[1].dtype))
        even = _times(b, cm.add(b, x1, x2), 0.5)
        odd = _turned(b, _times(b, cm.sub(b, x1, x2), 0.5), -1)
        return cm.add(b, even, cm.mul(b, odd, read(table, b, (k,))))

    rank = len(x.shape)
    batch = tuple(range(rank - 1))
    deps = [(z, (*batch, None)), (table, (rank - 1,))]
    return g.pointwise(*out, deps, at, 12.0)


def _short_real_rows(g: Graph, x: Node, dtype: str) -> Node:
    """Rows of real numbers, of even length, side by side in lanes; frequencies 0 .. n/2. The first
    and the last are real."""
    *lead, n = x.shape
    h, zero = n // 2, Const(0.0, part_dtype(dtype))

    def load(b: Builder, o: Index, i: Index, _: Index) -> Pair:
        return _complex(b, read(x, b, (*b.unravel(o, lead), i)))

    def write(op: Opaque) -> Store:
        node = op.outs[0]

        def store(b: Builder, o: Index, i: Index, _: Index, v: Pair) -> None:
            alone = _either(b, b.in_range(i, 0, 1), b.in_range(i, h, h + 1))
            value = v[0], b.select(alone, zero, v[1])

            def put() -> list[Atom]:
                assert node.slot is not None
                store_slot(b, node.slot, node.shape, dtype, (*b.unravel(o, lead), i), value)
                return []

            b.branch(b.in_range(i, 0, h + 1), put, list)

        return store

    outs = [((*lead, h + 1), dtype)]
    return _apply(g, x, n, dtype, math.prod(lead), 1, -1, load, outs, write)


def _real_inverse(g: Graph, x: Node, n: int, dtype: str, scale: float) -> Node:
    """Real numbers of the last axis, of frequencies 0 .. n/2."""
    *lead, _ = x.shape
    part, h = part_dtype(dtype), n // 2
    out = ((*lead, n), part)
    nothing = Const(0.0, part)

    def freq(b: Builder, before: Any, k: Index) -> Pair:
        return read(x, b, (*before, k))  # type: ignore[no-any-return]

    def conj(b: Builder, v: Pair) -> Pair:
        return v[0], b.let("neg", (v[1],), part)

    if n % 2 or n < 4:

        def whole(b: Builder, before: Any, i: Index, _: Any) -> Pair:
            low = b.in_range(i, 0, h + 1)
            re, im = freq(b, before, _place(b, low, i, b.sub(n, i), h))
            im = b.select(low, im, b.let("neg", (im,), part))
            alone = b.in_range(i, 0, 1)
            if n % 2 == 0:
                alone = _either(b, alone, b.in_range(i, h, h + 1))
            return re, b.select(alone, nothing, im)

        def real(b: Builder, node: Node, before: Any, i: Index, _: Any, v: Pair) -> None:
            assert node.slot is not None
            store_slot(b, node.slot, node.shape, part, (*before, i), _times(b, v, scale)[0])

        return along_axis(g, x, n, dtype, tuple(lead), (), 1, whole, out, real)
    table = _constant(g, half_roots(n, 1, dtype), dtype)

    def packed(b: Builder, before: Any, k: Index, _: Any) -> Pair:
        # even + i odd, whose inverse transform has the even entries as its real part.
        x1, x2 = freq(b, before, k), conj(b, freq(b, before, b.sub(h, k)))
        zero = b.in_range(k, 0, 1)
        x1, x2 = ((v[0], b.select(zero, nothing, v[1])) for v in (x1, x2))
        odd = cm.mul(b, cm.sub(b, x1, x2), read(table, b, (k,)))
        return cm.add(b, cm.add(b, x1, x2), _turned(b, odd, 1))

    def put(b: Builder, node: Node, before: Any, i: Index, _: Any, v: Pair) -> None:
        assert node.slot is not None
        for p, value in enumerate(_times(b, v, scale)):
            at = (*before, b.add(b.mul(i, 2), p))
            store_slot(b, node.slot, node.shape, part, at, value)

    return along_axis(g, x, h, dtype, tuple(lead), (), 1, packed, out, put)


@rule("fft")
def _fft(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    (x,) = ins
    kind, lengths = int(params["fft_type"]), tuple(params["fft_lengths"])
    real = kind in (RFFT, IRFFT)
    if 0 in x.shape or 0 in lengths:
        return NotImplemented
    dtype = "c128" if part_dtype(x.dtype) == "f64" else "c64"
    if x.dtype not in ("f32", "f64", "c64", "c128"):
        return NotImplemented
    rank, count = len(x.shape), len(lengths)
    first = rank - count
    scale = 1.0 / math.prod(lengths) if kind in (IFFT, IRFFT) else 1.0
    sign = 1 if kind in (IFFT, IRFFT) else -1
    axes = list(range(first, rank - 1 if real else rank))[::-1]
    if not real and x.permuted is not None:
        # Axes are transformed where they lie, the result is permuted: most often back.
        source, order = x.permuted
        found = _along(g, source, [order[a] for a in axes], sign, scale, dtype)
        return transposed(g, found, order)
    if kind == RFFT:
        x = _real_axis(g, x, dtype)
    x = _along(g, x, axes, sign, 1.0 if kind == IRFFT else scale, dtype)
    if kind == IRFFT:
        x = _real_inverse(g, x, lengths[-1], dtype, scale)
    return x


def _along(g: Graph, x: Node, axes: Sequence[int], sign: int, scale: float, dtype: str) -> Node:
    """One axis after the other; the last one scales."""
    for axis in axes:
        x = _complex_axis(g, x, axis, sign, scale if axis == axes[-1] else 1.0, dtype)
    return x
