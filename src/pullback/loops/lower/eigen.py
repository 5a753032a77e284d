"""Eigenvectors of small symmetric matrices in stacks, and singular values, a lane a matrix.

Reflections make a matrix tridiagonal, implicit QL steps make that diagonal. Lanes take the steps
that LAPACK would take (its reflectors, shifts, splits and ends from which a block is worked on), so
that eigenvectors have the signs that they have there; a lane that is done waits for the others.
Singular values are the lengths of columns that rotations, two columns at a time, have made
orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.graph import Node, store_slot
from pullback.loops.lower.lapack import Where
from pullback.loops.lower.small import (
    TINY,
    Entry,
    Field,
    Run,
    as_i32,
    fill,
    reflect,
    reflector,
    stack_of,
)
from pullback.loops.lower.updates import Pinned

__all__ = ["eigh", "singular_values"]

EPS = {"f32": 2.0**-24, "f64": 2.0**-53}
SCALE = {"f32": 2.0**100, "f64": 2.0**700}  # of numbers whose squares are none
BITS = Const(1, "i32"), Const(0, "i32")
STEPS = 30  # of an eigenvalue, before it is given up


def scaled(b: Builder, f: Field, a: Any, info: Any, rows: int, columns: int, run: Run) -> None:
    """Scales a matrix whose squares would leave the range of numbers. `info` is by what results are
    to be multiplied, and whether something is not finite."""
    one, zero = f.number(1.0), f.number(0.0)

    def larger(i: Index, best: list[Atom]) -> Sequence[Atom]:
        def step(j: Index, best: list[Atom]) -> Sequence[Atom]:
            value = a.get(i, j)
            nought = f.real("mul", value, zero)
            return f.real("max", best[0], f.real("abs", value)), f.real("add", best[1], nought)

        return list(run.fold(0, columns, best, step))

    norm, noughts = run.fold(0, rows, [zero, zero], larger)
    finite = b.let("eq", (noughts, zero), "bool")
    edge = TINY[f.part] ** 0.5 * 4.0
    small = b.let("lt", (norm, f.number(edge)), "bool")
    large = b.let("gt", (norm, f.number(1.0 / edge)), "bool")
    up, down = f.number(SCALE[f.part]), f.number(1.0 / SCALE[f.part])
    info.put(0, 0, b.select(small, down, b.select(large, up, one)))
    info.put(1, 0, b.select(finite, zero, one))
    by = b.select(small, up, b.select(large, down, one))
    run.loop(0, rows, lambda i: run.loop(0, columns, lambda j: a.put(i, j, f.mul(a.get(i, j), by))))


def ranked(b: Builder, d: Any, order: Any, n: int, before: str, run: Run) -> None:
    """Which value of d is first, second, ..., by a comparison."""

    def one(j: Index) -> None:
        value = d.get(j)

        def step(k: Index, total: list[Atom]) -> Sequence[Atom]:
            other = d.get(k)
            same = b.let("eq", (other, value), "bool")
            first = b.both(same, b.let("lt", (b.atom(k), b.atom(j)), "bool"))
            sooner = b.let("or", (b.let(before, (other, value), "bool"), first), "bool")
            return [b.let("add", (total[0], b.select(sooner, *BITS)), "i32")]

        rank = run.fold(0, n, [BITS[1]], step)[0]
        order.put(b.to_index(rank, 0, n - 1), 0, as_i32(b, j))

    run.loop(0, n, lambda i: order.put(i, 0, as_i32(b, i)))
    run.loop(0, n, one)


class _Eigen:
    """One stack; `run` and the scratch of a lane are those of the phase that is being written."""

    def __init__(self, b: Builder, dtype: str, n: int) -> None:
        self.b, self.n, self.f = b, n, Field(b, dtype)

    def make(self, run: Run) -> tuple[Any, ...]:
        n, d = self.n, self.f.part
        sizes = [(d, n, n), (d, n, n), *[(d, n, 1)] * 4, (d, 2, 1), ("i32", n, 1)]
        return tuple(run.matrix(*size) for size in sizes)

    # ---- the tridiagonal form

    def load(self, state: tuple[Any, ...], entry: Entry, run: Run) -> None:
        """The lower triangle in both, scaled where squares would leave the range of numbers."""
        b, f, n = self.b, self.f, self.n
        a, z, _, _, _, _, info, _ = state

        def symmetric(i: Index, j: Index) -> Any:
            swap = b.let("lt", (b.atom(i), b.atom(j)), "bool")
            row, column = (b.select(swap, b.atom(p), b.atom(q)) for p, q in ((j, i), (i, j)))
            return entry(b.to_index(row, 0, n - 1), b.to_index(column, 0, n - 1))

        fill(a, symmetric, n, n, run)
        scaled(b, f, a, info, n, n, run)
        one, zero = f.number(1.0), f.number(0.0)
        unit = lambda i, j: b.select(b.let("eq", (b.atom(i), b.atom(j)), "bool"), one, zero)
        fill(z, unit, n, n, run)

    def reduce(self, state: tuple[Any, ...], run: Run) -> None:
        """d and e are the diagonals, z the product of the reflections."""
        b, f, n = self.b, self.f, self.n
        a, z, d, e, taus, w, _, _ = state

        def column(i: Index) -> None:
            top = b.add(i, 1)
            tau = reflector(b, f, a, i, n, run, top)
            e.put(i, 0, a.get(top, i))
            a.put(top, i, f.number(1.0))
            taus.put(i, 0, tau)

            def product(r: Index) -> None:
                step = lambda c, total: [f.real("add", total[0], f.mul(a.get(r, c), a.get(c, i)))]
                w.put(r, 0, f.mul(tau, run.fold(top, n, [f.number(0.0)], step)[0]))

            run.loop(top, n, product)
            step = lambda r, total: [f.real("add", total[0], f.mul(w.get(r), a.get(r, i)))]
            inner = run.fold(top, n, [f.number(0.0)], step)[0]
            half = f.mul(f.mul(tau, f.number(0.5)), inner)
            run.loop(top, n, lambda r: w.put(r, 0, f.less(w.get(r), half, a.get(r, i))))

            def update(r: Index) -> None:
                def element(c: Index) -> None:
                    rest = f.less(a.get(r, c), a.get(r, i), w.get(c))
                    a.put(r, c, f.less(rest, w.get(r), a.get(c, i)))

                run.loop(top, n, element)

            run.loop(top, n, update)

        run.loop(0, n - 1, column)
        run.loop(0, n, lambda i: d.put(i, 0, a.get(i, i)))
        e.put(n - 1, 0, f.number(0.0))

        def build(t: Index) -> None:
            j = b.sub(n - 2, t)
            top = b.add(j, 1)
            run.loop(top, n, lambda c: reflect(b, f, a, j, taus.get(j), z, c, n, run, top))

        run.loop(0, n - 1, build)

    # ---- the diagonal form

    def is_(self, op: str, x: Atom, y: Atom) -> Atom:
        return self.b.let(op, (x, y), "bool")

    def place(self, i: Atom) -> Index:
        return self.b.to_index(i, 0, self.n - 1)

    def small(self, d: Any, e: Any, i: Index) -> Atom:
        """Whether e[i] is as good as zero."""
        f, off = self.f, e.get(i)
        sizes = f.mul(*(f.real("abs", d.get(j)) for j in (i, self.b.add(i, 1))))
        limit = f.mul(f.number(EPS[f.part] ** 2), sizes)
        return self.is_("le", f.mul(off, off), f.real("add", limit, f.number(TINY[f.part])))

    def first_small(self, d: Any, e: Any, start: Atom, run: Run) -> Any:
        """The first i from `start` on for which e[i] is, else the last row."""
        b, n = self.b, self.n

        def step(t: Index, found: list[Atom]) -> Sequence[Atom]:
            i = b.sub(n - 2, t)
            here = b.both(self.small(d, e, i), self.is_("ge", as_i32(b, i), start))
            return [b.select(here, as_i32(b, i), found[0])]

        return run.fold(0, n - 1, [Const(n - 1, "i32")], step)[0]

    def diagonalise(self, state: tuple[Any, ...], run: Run) -> None:
        b = self.b
        info = state[6]
        last, zero = Const(self.n, "i32"), Const(0, "i32")
        bad = self.is_("ne", info.get(1), self.f.number(0.0))

        def block(carry: list[Atom]) -> Sequence[Atom]:
            with Pinned(b):
                return self.block(state, run, carry)

        start = [b.select(bad, last, zero), zero]
        counted = b.while_loop(start, lambda c: self.is_("lt", c[0], last), block)[1]
        failed = self.is_("ge", counted, Const(STEPS * self.n, "i32"))
        info.put(1, 0, b.select(failed, self.f.number(1.0), info.get(1)))

    def block(self, state: tuple[Any, ...], run: Run, carry: list[Atom]) -> Sequence[Atom]:
        """A block of rows that nothing connects with others: from the end where the diagonal is
        smaller, reversed where that is its last row."""
        b, n = self.b, self.n
        _, z, d, e, w, _, _, _ = state
        lo, count = carry
        hi = self.first_small(d, e, lo, run)
        e.put(self.place(hi), 0, self.f.number(0.0))
        sizes = (self.f.real("abs", d.get(self.place(i))) for i in (hi, lo))
        turned = self.is_("lt", *sizes)
        both = b.let("add", (lo, hi), "i32")

        def source(i: Index, top: Atom) -> Index:
            """Where row i comes from; of what lies between rows, the last is none."""
            here = as_i32(b, i)
            inside = b.both(self.is_("ge", here, lo), self.is_("le", here, top))
            mirror = b.let(
                "sub", (b.let("sub", (both, here), "i32"), b.let("sub", (hi, top), "i32")), "i32"
            )
            return self.place(b.select(b.both(turned, inside), mirror, here))

        before = b.let("sub", (hi, Const(1, "i32")), "i32")
        for vector, top in ((d, hi), (e, before)):
            run.loop(0, n, lambda i, v=vector, t=top: w.put(i, 0, v.get(source(i, t))))
            run.loop(0, n, lambda i, v=vector: v.put(i, 0, w.get(i)))

        def row(r: Index) -> None:
            run.loop(0, n, lambda i: w.put(i, 0, z.get(r, source(i, hi))))
            run.loop(0, n, lambda i: z.put(r, i, w.get(i)))

        run.loop(0, n, row)
        limit = Const(STEPS * n, "i32")

        def goes_on(c: list[Atom]) -> Atom:
            return b.both(self.is_("le", c[0], hi), self.is_("lt", c[1], limit))

        def step(c: list[Atom]) -> Sequence[Atom]:
            with Pinned(b):
                return self.step(state, run, c, turned)

        done = b.while_loop([lo, count], goes_on, step)
        return [b.let("add", (hi, Const(1, "i32")), "i32"), done[1]]

    def step(self, state: tuple[Any, ...], run: Run, carry: list[Atom],
             turned: Atom) -> Sequence[Atom]:  # fmt: skip
        """A QL step on rows lo to m; or two rows at once; or row lo is done."""
        b, f = self.b, self.f
        _, _, d, e, _, _, _, _ = state
        one, two = Const(1, "i32"), Const(2, "i32")
        lo, count = carry
        m = self.first_small(d, e, lo, run)
        at, after = self.place(lo), self.place(b.let("add", (lo, one), "i32"))
        size = b.let("sub", (m, lo), "i32")
        pair, sweep = self.is_("eq", size, one), self.is_("gt", size, one)
        p, q, off = d.get(at), d.get(after), e.get(at)
        safe = b.select(f.is_zero(off), f.number(1.0), off)
        g = f.div(f.sub(q, p), f.mul(f.number(2.0), safe))
        root = f.real("sqrt", f.real("add", f.mul(g, g), f.number(1.0)))
        below = self.is_("lt", g, f.number(0.0))
        shifted = f.real("add", g, b.select(below, f.real("neg", root), root))
        g = f.real("add", f.sub(d.get(self.place(m)), p), f.div(off, shifted))
        self.rotate(state, run, (lo, m, pair, sweep, g), self.of_two(p, off, q, turned))
        advance = b.select(sweep, Const(0, "i32"), b.select(pair, two, one))
        more = b.select(sweep, one, Const(0, "i32"))
        return [b.let("add", (lo, advance), "i32"), b.let("add", (count, more), "i32")]

    def rotate(self, state: tuple[Any, ...], run: Run, what: tuple[Atom, ...],
               ends: tuple[Atom, ...]) -> None:  # fmt: skip
        """The rotations of a step, from the last row up; those of lanes that need none are none."""
        b, f, n = self.b, self.f, self.n
        _, z, d, e, _, _, _, _ = state
        lo, m, pair, sweep, shift = what
        cos2, sin2, first, second = ends
        zero, one = f.number(0.0), f.number(1.0)

        def rotation(t: Index, carry: list[Atom]) -> Sequence[Atom]:
            g, s, c, p = carry
            i = b.sub(n - 2, t)
            here, above = as_i32(b, i), b.add(i, 1)
            inside = b.both(self.is_("ge", here, lo), self.is_("lt", here, m))
            turns, both = b.both(inside, sweep), b.both(inside, pair)
            off, up, down = e.get(i), d.get(i), d.get(above)
            rest = f.mul(c, off)
            cos, sin, r = self.rotation_of(g, f.mul(s, off))
            inner = b.both(turns, self.is_("lt", as_i32(b, above), m))
            e.put(above, 0, b.select(inner, r, e.get(above)))
            e.put(i, 0, b.select(both, zero, off))
            lower = f.sub(down, p)
            r = f.mul(f.sub(up, lower), sin)
            r = f.real("add", r, f.mul(f.mul(f.number(2.0), cos), rest))
            moved = f.mul(sin, r)
            new = f.real("add", lower, moved)
            d.put(above, 0, b.select(turns, new, b.select(both, second, down)))
            d.put(i, 0, b.select(both, first, up))
            by_cos = b.select(turns, cos, b.select(both, cos2, one))
            by_sin = b.select(turns, sin, b.select(both, sin2, zero))

            def row(k: Index) -> None:
                u, v = z.get(k, i), z.get(k, above)
                z.put(k, above, f.real("add", f.mul(by_cos, v), f.mul(by_sin, u)))
                z.put(k, i, f.less(f.mul(by_cos, u), by_sin, v))

            run.loop(0, n, row)
            after = (f.sub(f.mul(cos, r), rest), sin, cos, moved)
            return [b.select(turns, x, y) for x, y in zip(after, carry, strict=True)]

        g, _, _, p = run.fold(0, n - 1, [shift, one, one, zero], rotation)
        at = self.place(lo)
        d.put(at, 0, b.select(sweep, f.sub(d.get(at), p), d.get(at)))
        e.put(at, 0, b.select(sweep, g, e.get(at)))

    def rotation_of(self, x: Atom, y: Atom) -> tuple[Atom, Atom, Atom]:
        """The cosine, not negative, and the sine of the rotation that takes (x, y) to (r, 0); r."""
        b, f = self.b, self.f
        one = f.number(1.0)
        size = f.real("max", f.real("abs", x), f.real("abs", y))
        none = f.is_zero(size)
        by = f.div(one, b.select(none, one, size))
        u, v = f.mul(x, by), f.mul(y, by)
        length = f.real("sqrt", f.real("add", f.mul(u, u), f.mul(v, v)))
        by = f.div(one, b.select(none, one, length))
        below = self.is_("lt", x, f.number(0.0))
        signed = b.select(below, f.real("neg", by), by)
        r = f.mul(size, length)
        cos = b.select(none, one, f.mul(f.real("abs", u), by))
        return cos, f.mul(v, signed), b.select(below, f.real("neg", r), r)

    def of_two(self, p: Atom, off: Atom, q: Atom, turned: Atom) -> tuple[Atom, ...]:
        """Of two rows (p, off; off, q): the cosine and the sine that make them diagonal, and what
        the first and the second then are."""
        b, f = self.b, self.f
        zero, one = f.number(0.0), f.number(1.0)
        x, y = b.select(turned, q, p), b.select(turned, p, q)
        total, apart, twice = f.real("add", x, y), f.sub(x, y), f.real("add", off, off)
        wide, high = f.real("abs", apart), f.real("abs", twice)
        larger, smaller = f.real("max", wide, high), f.real("min", wide, high)
        safe = b.select(f.is_zero(larger), one, larger)
        part = f.div(smaller, safe)
        root = f.mul(larger, f.real("sqrt", f.real("add", one, f.mul(part, part))))
        minus = self.is_("lt", total, zero)
        signed = b.select(minus, f.real("neg", root), root)
        first = f.mul(f.number(0.5), f.real("add", total, signed))
        more = self.is_("gt", f.real("abs", x), f.real("abs", y))
        most, least = b.select(more, x, y), b.select(more, y, x)
        safe = b.select(f.is_zero(first), one, first)
        second = f.sub(f.mul(f.div(most, safe), least), f.mul(f.div(off, safe), off))
        second = b.select(f.is_zero(total), f.mul(f.number(-0.5), root), second)
        # The vector of the first: of the two forms that which loses no digits.
        left = self.is_("lt", apart, zero)
        cs = f.real("add", apart, b.select(left, f.real("neg", root), root))
        steep = self.is_("gt", f.real("abs", cs), high)
        over, under = b.select(steep, f.real("neg", twice), f.real("neg", cs)), b.select(
            steep, cs, twice)  # fmt: skip
        nothing = f.is_zero(under)
        slope = f.div(over, b.select(nothing, one, under))
        near = f.div(one, f.real("sqrt", f.real("add", one, f.mul(slope, slope))))
        far = f.mul(slope, near)
        cos, sin = b.select(steep, far, near), b.select(steep, near, far)
        cos, sin = b.select(nothing, one, cos), b.select(nothing, zero, sin)
        same = b.let("eq", (minus, left), "bool")
        cos, sin = b.select(same, f.real("neg", sin), cos), b.select(same, cos, sin)
        mirrored = b.select(turned, sin, f.real("neg", sin))
        return cos, mirrored, b.select(turned, second, first), b.select(turned, first, second)


def eigh(b: Builder, x: Callable[[Where], Entry], vectors: Node, values: Node) -> None:
    """Eigenvectors, as columns, and eigenvalues, ascending, of real symmetric matrices, of which
    the lower triangle is read; NaN where a matrix has what is not finite."""
    *batch, n, _ = vectors.shape
    e = _Eigen(b, vectors.dtype, n)
    nan = Const(math.nan, e.f.part)

    def work(state: Any, run: Run) -> None:
        e.reduce(state, run)
        e.diagonalise(state, run)
        ranked(b, state[2], state[7], n, "lt", run)

    def store(state: Any, where: Where, run: Run) -> None:
        _, z, d, _, _, _, info, order = state
        bad = e.is_("ne", info.get(1), e.f.number(0.0))
        scale = info.get(0)

        def put(out: Node, place: Where, value: Atom) -> None:
            assert out.slot is not None
            store_slot(b, out.slot, out.shape, out.dtype, place, b.select(bad, nan, value))

        def column(j: Index) -> None:
            source = e.place(order.get(j))
            put(values, (*where, j), e.f.mul(d.get(source), scale))
            run.loop(0, n, lambda i: put(vectors, (*where, i, j), z.get(i, source)))

        run.loop(0, n, column)

    load = lambda state, where, run: e.load(state, x(where), run)
    stack_of(b, batch, vectors.dtype, n, 30.0 * n**3, e.make, load, work, store, straight=0)


class _Columns:
    """Columns of matrices of a stack, made orthogonal."""

    def __init__(self, b: Builder, dtype: str, m: int, n: int) -> None:
        self.b, self.f, self.m, self.n = b, Field(b, dtype), m, n

    def products(self, a: Any, p: Index, q: Index, run: Run) -> list[Atom]:
        """The squares of columns p and q, and their product."""
        f = self.f

        def step(r: Index, sums: list[Atom]) -> Sequence[Atom]:
            u, v = a.get(r, p), a.get(r, q)
            parts = (f.mul(u, u), f.mul(v, v), f.mul(u, v))
            return [f.real("add", x, y) for x, y in zip(sums, parts, strict=True)]

        return list(run.fold(0, self.m, [f.number(0.0)] * 3, step))

    def turn(self, a: Any, p: Index, q: Index, run: Run) -> Atom:
        """Rotates columns p and q where they are not orthogonal; whether they were not."""
        b, f = self.b, self.f
        one = f.number(1.0)
        first, second, inner = self.products(a, p, q, run)
        lengths = f.mul(f.real("sqrt", first), f.real("sqrt", second))
        limit = f.mul(f.number(4.0 * EPS[f.part]), lengths)
        turns = b.let("gt", (f.real("abs", inner), limit), "bool")
        twice = b.select(turns, f.real("add", inner, inner), one)
        zeta = f.div(f.sub(second, first), twice)
        size = f.real("abs", zeta)
        root = f.real("sqrt", f.real("add", f.mul(zeta, zeta), one))
        tangent = f.div(one, f.real("add", size, root))
        below = b.let("lt", (zeta, f.number(0.0)), "bool")
        tangent = b.select(below, f.real("neg", tangent), tangent)
        cos = f.div(one, f.real("sqrt", f.real("add", f.mul(tangent, tangent), one)))
        cos, sin = b.select(turns, cos, one), b.select(turns, f.mul(cos, tangent), f.number(0.0))

        def row(r: Index) -> None:
            u, v = a.get(r, p), a.get(r, q)
            a.put(r, p, f.less(f.mul(cos, u), sin, v))
            a.put(r, q, f.real("add", f.mul(sin, u), f.mul(cos, v)))

        run.loop(0, self.m, row)
        return turns

    def orthogonal(self, state: tuple[Any, ...], run: Run) -> None:
        """Turns all pairs of columns until none has to be; then d is their lengths."""
        b, f, n = self.b, self.f, self.n
        a, d, info, order = state
        finite = b.let("eq", (info.get(1), f.number(0.0)), "bool")

        def sweep(carry: list[Atom]) -> Sequence[Atom]:
            def column(p: Index, turned: list[Atom]) -> Sequence[Atom]:
                def pair(q: Index, turned: list[Atom]) -> Sequence[Atom]:
                    return [b.select(self.turn(a, p, q, run), BITS[0], turned[0])]

                return list(run.fold(b.add(p, 1), n, turned, pair))

            with Pinned(b):
                turned = run.fold(0, n - 1, [BITS[1]], column)[0]
            return [turned, b.let("add", (carry[1], BITS[0]), "i32")]

        def goes_on(carry: list[Atom]) -> Atom:
            more = b.let("lt", (carry[1], Const(STEPS, "i32")), "bool")
            return b.both(b.let("ne", (carry[0], BITS[1]), "bool"), more)

        b.while_loop([b.select(finite, *BITS), BITS[1]], goes_on, sweep)

        def length(j: Index) -> None:
            step = lambda r, total: [f.real("add", total[0], f.mul(a.get(r, j), a.get(r, j)))]
            d.put(j, 0, f.real("sqrt", run.fold(0, self.m, [f.number(0.0)], step)[0]))

        run.loop(0, n, length)
        ranked(b, d, order, n, "gt", run)


def singular_values(b: Builder, x: Callable[[Where], Entry], out: Node, m: int, n: int) -> None:
    """Singular values, descending, of real matrices with no fewer rows than columns; NaN where a
    matrix has what is not finite."""
    *batch, _ = out.shape
    e = _Columns(b, out.dtype, m, n)
    f, nan = e.f, Const(math.nan, e.f.part)

    def make(run: Run) -> tuple[Any, ...]:
        sizes = [(f.part, m, n), (f.part, n, 1), (f.part, 2, 1), ("i32", n, 1)]
        return tuple(run.matrix(*size) for size in sizes)

    def load(state: Any, where: Where, run: Run) -> None:
        fill(state[0], x(where), m, n, run)
        scaled(b, f, state[0], state[2], m, n, run)

    def store(state: Any, where: Where, run: Run) -> None:
        _, d, info, order = state
        bad, scale = b.let("ne", (info.get(1), f.number(0.0)), "bool"), info.get(0)

        def one(j: Index) -> None:
            value = f.mul(d.get(b.to_index(order.get(j), 0, n - 1)), scale)
            assert out.slot is not None
            store_slot(b, out.slot, out.shape, out.dtype, (*where, j), b.select(bad, nan, value))

        run.loop(0, n, one)

    stack_of(b, batch, out.dtype, m, 40.0 * m * n * n, make, load, e.orthogonal, store, straight=0)
