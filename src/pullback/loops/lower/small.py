"""Small matrices in stacks: factorisations and systems as code in lanes, a lane a matrix.

The tiniest are straight code on registers. Larger ones are taken in blocks of as many matrices as
there are lanes: copied to scratch in which one entry of all of them lies together, worked on by
serial loops, copied back. Single matrices, and large ones, are LAPACK's: linalg.py decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.graph import COMPLEX, Node, part_dtype, store_slot
from pullback.loops.lower.lapack import Where, each, room, width_of
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned

__all__ = [
    "STRAIGHT", "Entry", "Field", "Run", "as_i32", "cholesky", "fill", "in_lanes", "lu", "qr",
    "reflect", "reflector", "stack_of", "write",
]  # fmt: skip

STRAIGHT = 4  # rows and columns of a matrix that is kept in registers
LANES = {"f32": 16, "f64": 8}  # of a block

Value = Any  # an Atom, or a pair of them for complex
Entry = Callable[[Index, Index], Value]


class Field:
    """Arithmetic on real numbers, or on complex ones as pairs."""

    def __init__(self, b: Builder, dtype: str) -> None:
        self.b, self.dtype, self.part = b, dtype, part_dtype(dtype)
        self.complex = dtype in COMPLEX

    def real(self, op: str, *args: Atom) -> Atom:
        return self.b.let(op, args, self.part)

    def number(self, value: float) -> Value:
        c = Const(value, self.part)
        return (c, Const(0.0, self.part)) if self.complex else c

    def sub(self, x: Value, y: Value) -> Value:
        return cm.sub(self.b, x, y) if self.complex else self.real("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return cm.mul(self.b, x, y) if self.complex else self.real("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return cm.ratio(self.b, x, y) if self.complex else self.real("div", x, y)

    def conj(self, x: Value) -> Value:
        return (x[0], self.real("neg", x[1])) if self.complex else x

    def less(self, x: Value, y: Value, z: Value) -> Value:
        """x - y z"""
        return self.sub(x, self.mul(y, z))

    def scaled(self, x: Value, by: Atom) -> Value:
        """x / by, of a real number."""
        return (
            tuple(self.real("div", p, by) for p in x) if self.complex else self.real("div", x, by)
        )

    def size(self, x: Value) -> Atom:
        """The size by which LAPACK chooses pivots."""
        if not self.complex:
            return self.real("abs", x)
        return self.real("add", self.real("abs", x[0]), self.real("abs", x[1]))

    def where(self, p: Atom, x: Value, y: Value) -> Value:
        if isinstance(x, tuple):
            return tuple(self.b.select(p, u, v) for u, v in zip(x, y, strict=True))
        return self.b.select(p, x, y)

    def is_zero(self, x: Value) -> Atom:
        zero = Const(0.0, self.part)
        if not self.complex:
            return self.b.let("eq", (x, zero), "bool")
        return self.b.let("eq", (self.size(x), zero), "bool")


class Registers:
    """A matrix of a lane as values of the program; its loops are written out."""

    def __init__(self) -> None:
        self.entries: dict[Any, Value] = {}

    def get(self, i: Index, j: Index = 0) -> Value:
        return self.entries[i, j]

    def put(self, i: Index, j: Index, value: Value) -> None:
        self.entries[i, j] = value


class Lanes:
    """Matrices of a block: entry (i, j) of all of them side by side in scratch; `t` is the lane."""

    def __init__(self, b: Builder, dtype: str, rows: int, columns: int, lanes: int) -> None:
        self.b, self.dtype, self.columns, self.lanes = b, dtype, columns, lanes
        self.parts = width_of(dtype)
        self.buf: Buf = room(b, part_dtype(dtype), rows * columns * self.parts * lanes)
        self.t: Index = 0

    def _at(self, i: Index, j: Index, part: int) -> Atom:
        b, w = self.b, self.parts * self.lanes
        spot = [(i, self.columns * w), (j, w), (self.t, 1), (part * self.lanes, 1)]
        return b.atom(b.linear(spot))

    def get(self, i: Index, j: Index = 0) -> Value:
        found = tuple(self.b.load(self.buf, self._at(i, j, p)) for p in range(self.parts))
        return found if self.parts == 2 else found[0]

    def put(self, i: Index, j: Index, value: Value) -> None:
        for p, part in enumerate(value if isinstance(value, tuple) else (value,)):
            self.b.store(self.buf, self._at(i, j, p), part)


class Straight:
    """Loops written out."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def matrix(self, dtype: str, rows: int, columns: int = 1) -> Registers:
        return Registers()

    def loop(self, lo: Index, hi: Index, body: Callable[[Index], None]) -> None:
        assert isinstance(lo, int) and isinstance(hi, int)
        for i in range(lo, hi):
            body(i)

    def fold(
        self,
        lo: Index,
        hi: Index,
        start: Sequence[Atom],
        step: Callable[[Index, list[Atom]], Sequence[Atom]],
    ) -> list[Atom]:
        assert isinstance(lo, int) and isinstance(hi, int)
        state = list(start)
        for i in range(lo, hi):
            state = list(step(i, state))
        return state


class Looped:
    """Loops in order, on matrices of a block."""

    def __init__(self, b: Builder, lanes: int, extent: int) -> None:
        self.b, self.lanes, self.extent = b, lanes, extent
        self.made: list[Lanes] = []

    def matrix(self, dtype: str, rows: int, columns: int = 1) -> Lanes:
        m = Lanes(self.b, dtype, rows, columns, self.lanes)
        self.made.append(m)
        return m

    def loop(self, lo: Index, hi: Index, body: Callable[[Index], None]) -> None:
        def step(i: Index, _: list[Atom]) -> Sequence[Atom]:
            body(i)
            return ()

        self.fold(lo, hi, (), step)

    def fold(
        self,
        lo: Index,
        hi: Index,
        start: Sequence[Atom],
        step: Callable[[Index, list[Atom]], Sequence[Atom]],
    ) -> list[Atom]:
        b = self.b
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo < 2:
            return Straight(b).fold(lo, hi, start, step)
        carry = [(a, b.var(a.dtype, b.depth + 1, "s")) for a in start]

        def one(i: Index) -> Sequence[Atom]:
            with Pinned(b):
                return step(i, [v for _, v in carry])

        return list(b.loop(self.extent, "seq", one, carry, lo=b.atom(lo), hi=b.atom(hi)))

    def at(self, t: Index) -> None:
        for m in self.made:
            m.t = t


Run = Any  # Straight | Looped


def in_lanes(batch: Sequence[int], dtype: str, size: int, most: int) -> bool:
    """Whether a stack of matrices with `size` rows or columns, up to `most`, is done here."""
    count = math.prod(batch)
    return size <= STRAIGHT or (size <= most and count >= 4)


def stack_of(
    b: Builder,
    batch: Sequence[int],
    dtype: str,
    size: int,
    cost: float,
    make: Callable[[Run], Any],
    load: Callable[[Any, Where, Run], None],
    work: Callable[[Any, Run], None],
    store: Callable[[Any, Where, Run], None],
    straight: int = STRAIGHT,
    vectors: int = 1,
) -> None:
    """Runs `load`, `work` and `store` for every matrix of a stack; `make` reserves what they
    share. A block has so many vectors of matrices."""
    if size <= straight:

        def one(where: Where) -> None:
            run = Straight(b)
            with Pinned(b):
                state = make(run)
                load(state, where, run)
                work(state, run)
                store(state, where, run)

        return box(b, tuple(batch), one, "vector", cost=cost)
    count = math.prod(batch)
    lanes = vectors * LANES[part_dtype(dtype)]
    while lanes > count:
        lanes //= 2

    def block(k: Index) -> Sequence[Atom]:
        # The last block begins earlier, not to be shorter: some matrices are done twice.
        last = b.dim(count - lanes)
        first = b.let("min", (b.atom(b.mul(k, lanes)), last), "i64")
        start = b.leaf_of(first, 0, count - lanes)
        run = Looped(b, lanes, size)
        state = make(run)
        for phase in (load, lambda s, w, r: work(s, r), store):

            def lane(t: Index, phase: Any = phase) -> None:
                run.at(t)
                phase(state, b.unravel(b.add(start, t), tuple(batch)), run)

            each(b, lanes, "vector", lane)
        return ()

    b.loop(-(-count // lanes), "parallel", block)


def fill(m: Any, entry: Entry, rows: int, columns: int, run: Run) -> None:
    run.loop(0, rows, lambda i: run.loop(0, columns, lambda j: m.put(i, j, entry(i, j))))


def write(b: Builder, out: Node, where: Where, entry: Entry, run: Run) -> None:
    rows, columns = out.shape[-2:]

    def put(i: Index, j: Index) -> None:
        assert out.slot is not None
        store_slot(b, out.slot, out.shape, out.dtype, (*where, i, j), entry(i, j))

    run.loop(0, rows, lambda i: run.loop(0, columns, lambda j: put(i, j)))


# --- cholesky ---
def cholesky(b: Builder, x: Callable[[Where], Entry], out: Node) -> None:
    """The factor of every matrix, row by row; NaN where a pivot is not positive. Those of
    doubles are rounded as LAPACK's, which random numbers are made of: fused sums of products are
    subtracted, and columns multiplied by a reciprocal.
    """
    *batch, n, _ = out.shape
    f = Field(b, out.dtype)
    zero, lapacks = Const(0.0, f.part), out.dtype == "f64"

    def make(run: Run) -> Any:
        return run.matrix(out.dtype, n, n), run.matrix(f.part, 1)

    def load(state: Any, where: Where, run: Run) -> None:
        fill(state[0], x(where), n, n, run)

    def work(state: Any, run: Run) -> None:
        a, failed = state

        def dot(i: Index, j: Index) -> Value:
            """a[i, j] less the products of what has been found of rows i and j."""
            start = a.get(i, j)
            if lapacks:
                fused = lambda k, s: [f.real("fma", a.get(i, k), a.get(j, k), s[0])]
                return f.real("sub", start, run.fold(0, j, [zero], fused)[0])

            parts = start if f.complex else (start,)

            def step(k: Index, sofar: list[Atom]) -> Sequence[Atom]:
                before = tuple(sofar) if f.complex else sofar[0]
                after = f.less(before, a.get(i, k), f.conj(a.get(j, k)))
                return after if f.complex else (after,)

            total = run.fold(0, j, parts, step)
            return tuple(total) if f.complex else total[0]

        def column(j: Index, good: list[Atom]) -> Sequence[Atom]:
            pivot = dot(j, j)
            pivot = pivot[0] if f.complex else pivot
            root = f.real("sqrt", pivot)
            a.put(j, j, (root, zero) if f.complex else root)
            over = f.real("div", Const(1.0, f.part), root) if lapacks else root
            scaled = f.mul if lapacks else f.scaled
            run.loop(b.add(j, 1), n, lambda i: a.put(i, j, scaled(dot(i, j), over)))
            # The least pivot: NaN if any is.
            return [f.real("min", good[0], pivot)]

        least = run.fold(0, n, [Const(math.inf, f.part)], column)[0]
        failed.put(0, 0, least)

    def store(state: Any, where: Where, run: Run) -> None:
        a, failed = state
        good = b.let("gt", (failed.get(0, 0), zero), "bool")
        nan = Const(math.nan, f.part)
        bad = (nan, nan) if f.complex else nan
        write(b, out, where, lambda i, j: f.where(good, a.get(i, j), bad), run)

    stack_of(b, batch, out.dtype, n, n**3 / 3 + n * n, make, load, work, store)


# --- lu ---
def lu(b: Builder, x: Callable[[Where], Entry], packed: Node, pivots: Node, order: Node) -> None:
    """Elimination with partial pivoting, as LAPACK chooses pivots."""
    *batch, m, n = packed.shape
    f, least = Field(b, packed.dtype), min(m, n)

    def make(run: Run) -> Any:
        return run.matrix(packed.dtype, m, n), run.matrix("i32", least), run.matrix("i32", m)

    def load(state: Any, where: Where, run: Run) -> None:
        a, _, rows = state
        fill(a, x(where), m, n, run)
        run.loop(0, m, lambda i: rows.put(i, 0, as_i32(b, i)))

    def work(state: Any, run: Run) -> None:
        a, chosen, rows = state

        def eliminate(k: Index) -> None:
            def larger(i: Index, best: list[Atom]) -> Sequence[Atom]:
                size = f.size(a.get(i, k))
                more = b.let("gt", (size, best[0]), "bool")
                return b.select(more, size, best[0]), b.select(more, as_i32(b, i), best[1])

            below = b.add(k, 1)
            where = run.fold(below, m, [f.size(a.get(k, k)), as_i32(b, k)], larger)[1]
            chosen.put(k, 0, where)

            def exchanged(matrix: Any, j: Index) -> None:
                """Exchanges rows k and `where`, which differs from lane to lane."""
                old = matrix.get(k, j)
                parts = old if isinstance(old, tuple) else (old,)

                def step(i: Index, found: list[Atom]) -> Sequence[Atom]:
                    here = b.let("eq", (where, as_i32(b, i)), "bool")
                    value = matrix.get(i, j)
                    matrix.put(i, j, f.where(here, old, value))
                    new = value if isinstance(value, tuple) else (value,)
                    return [b.select(here, p, q) for p, q in zip(new, found, strict=True)]

                new = run.fold(below, m, parts, step)
                matrix.put(k, j, tuple(new) if isinstance(old, tuple) else new[0])

            run.loop(0, n, lambda j: exchanged(a, j))
            exchanged(rows, 0)
            pivot = a.get(k, k)
            none = f.is_zero(pivot)
            safe = f.where(none, f.number(1.0), pivot)

            def row(i: Index) -> None:
                factor = f.div(a.get(i, k), safe)
                a.put(i, k, factor)
                run.loop(below, n, lambda j: a.put(i, j, f.less(a.get(i, j), factor, a.get(k, j))))

            run.loop(below, m, row)

        run.loop(0, least, eliminate)

    def store(state: Any, where: Where, run: Run) -> None:
        a, chosen, rows = state
        write(b, packed, where, a.get, run)
        for out, source in ((pivots, chosen), (order, rows)):
            assert out.slot is not None
            slot, shape = out.slot, out.shape
            run.loop(
                0,
                shape[-1],
                lambda i, slot=slot, shape=shape, source=source: store_slot(
                    b, slot, shape, "i32", (*where, i), source.get(i, 0)
                ),
            )

    cost = 2 / 3 * m * n * least + m * n * least
    stack_of(b, batch, packed.dtype, max(m, n), cost, make, load, work, store)


def as_i32(b: Builder, i: Index) -> Atom:
    if isinstance(i, int):
        return Const(i, "i32")
    return b.let("convert", (b.atom(i),), "i32")


# --- qr ---
TINY = {"f32": 2.0**-126, "f64": 2.0**-1022}  # the least number that is not denormal


def reflector(b: Builder, f: Field, a: Any, j: Index, m: int, run: Run,
              top: Index | None = None) -> Value:  # fmt: skip
    """The reflector that takes column j of real numbers, from row `top` on (the diagonal's), to a
    multiple of a unit vector, as LAPACK chooses it: beta has the other sign than the top entry, and
    a column that is done is left. Its vector (1 above it) replaces the column, beta the top entry;
    its factor."""
    zero, one, tiny = f.number(0.0), f.number(1.0), f.number(TINY[f.part])
    top = j if top is None else top
    below, alpha = b.add(top, 1), a.get(top, j)

    def larger(i: Index, best: list[Atom]) -> Sequence[Atom]:
        return [f.real("max", best[0], f.real("abs", a.get(i, j)))]

    largest = run.fold(below, m, [zero], larger)[0]
    # Squares of numbers divided by the largest neither overflow nor vanish.
    safe = f.real("max", f.real("max", largest, f.real("abs", alpha)), tiny)
    by = f.div(one, safe)

    def square(i: Index | None, total: list[Atom]) -> Sequence[Atom]:
        part = f.mul(alpha if i is None else a.get(i, j), by)
        return [f.real("add", total[0], f.mul(part, part))]

    squares = run.fold(below, m, square(None, [zero]), square)[0]
    norm = f.mul(safe, f.real("sqrt", squares))
    beta = f.where(b.let("lt", (alpha, zero), "bool"), norm, f.real("neg", norm))
    done = b.let("eq", (largest, zero), "bool")
    tau = f.div(f.sub(beta, alpha), f.where(done, one, beta))
    scale = f.div(one, f.where(done, one, f.sub(alpha, beta)))
    run.loop(below, m, lambda i: a.put(i, j, f.mul(a.get(i, j), scale)))
    a.put(top, j, f.where(done, alpha, beta))
    return f.where(done, zero, tau)


def reflect(b: Builder, f: Field, a: Any, j: Index, tau: Value, y: Any, c: Index, m: int,
            run: Run, first: Index | None = None) -> None:  # fmt: skip
    """Column c of y, reflected by what `reflector` left in column j of a, from row `first` on."""
    first = j if first is None else first
    below, top = b.add(first, 1), y.get(first, c)

    def step(i: Index, total: list[Atom]) -> Sequence[Atom]:
        return [f.real("add", total[0], f.mul(a.get(i, j), y.get(i, c)))]

    by = f.mul(tau, run.fold(below, m, [top], step)[0])
    y.put(first, c, f.sub(top, by))
    run.loop(below, m, lambda i: y.put(i, c, f.less(y.get(i, c), a.get(i, j), by)))


def qr(b: Builder, x: Callable[[Where], Entry], q_out: Node, r_out: Node) -> None:
    """Real matrices as products of an orthogonal and an upper triangular one, by reflections."""
    *batch, m, k = q_out.shape
    n, f = r_out.shape[-1], Field(b, q_out.dtype)
    least = min(m, n)

    def make(run: Run) -> Any:
        return run.matrix(f.part, m, n), run.matrix(f.part, m, k), run.matrix(f.part, least)

    def load(state: Any, where: Where, run: Run) -> None:
        fill(state[0], x(where), m, n, run)
        fill(state[1], lambda i, j: _when(b, "eq", i, j, f, f.number(1.0)), m, k, run)

    def work(state: Any, run: Run) -> None:
        a, q, taus = state

        def eliminate(j: Index) -> None:
            tau = reflector(b, f, a, j, m, run)
            taus.put(j, 0, tau)
            run.loop(b.add(j, 1), n, lambda c: reflect(b, f, a, j, tau, a, c, m, run))

        def build(t: Index) -> None:
            j = b.sub(least - 1, t)
            tau = taus.get(j, 0)
            run.loop(j, k, lambda c: reflect(b, f, a, j, tau, q, c, m, run))

        run.loop(0, least, eliminate)
        run.loop(0, least, build)

    def store(state: Any, where: Where, run: Run) -> None:
        a, q, _ = state
        write(b, q_out, where, q.get, run)
        write(b, r_out, where, lambda i, j: _when(b, "le", i, j, f, a.get(i, j)), run)

    cost = 4.0 * m * k * least
    stack_of(b, batch, f.dtype, max(m, n), cost, make, load, work, store)


def _when(b: Builder, op: str, i: Index, j: Index, f: Field, value: Value) -> Value:
    """A value where two indices compare so, else zero."""
    return f.where(b.let(op, (b.atom(i), b.atom(j)), "bool"), value, f.number(0.0))
