"""Triangular systems in lanes, by substitution: a lane a system, or, of one matrix and many right
sides, a lane a right side. Where neither is many or the matrix is large, they are BLAS's: linalg.py
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom
from pullback.loops.lower.graph import Node, store_slot
from pullback.loops.lower.lapack import Where, each, scratch, stacked
from pullback.loops.lower.small import STRAIGHT, Entry, Field, Run, stack_of, write

__all__ = ["in_right_sides", "right_sides", "systems"]

# Of one matrix: the most rows, where right sides are stored as columns and as rows, whose entries
# are strided lanes; the least number of right sides, of the tiniest too, which need no scratch.
# BLAS, which packs its operands and has threads of its own for many, takes up to three times as
# long.
MOST, MOST_ROWS = 32, 8
LEAST, LEAST_TINY = 64, 32
VECTORS = 4  # of right sides, side by side: what is found of one waits for what is found before


def in_right_sides(n: int, count: int, stored_as_rows: bool) -> bool:
    """Whether systems of one matrix of `n` rows with `count` right sides are solved in lanes."""
    least = LEAST_TINY if n <= STRAIGHT else LEAST
    return n <= (MOST_ROWS if stored_as_rows else MOST) and count >= least


def _solve(
    f: Field, n: int, lower: bool, get: Entry, scale: Any, x: Any, c: Index, run: Run
) -> None:
    """Column c of x, from the right side that it holds. `get` gives the matrix below (or above)
    its diagonal, `scale` the reciprocals of the latter, None if those are ones."""

    def row(k: Index) -> None:
        i = k if lower else f.b.sub(n - 1, k)
        lo, hi = (0, i) if lower else (f.b.add(i, 1), n)
        start = x.get(i, c)

        def step(j: Index, sofar: list[Atom]) -> Sequence[Atom]:
            before = tuple(sofar) if f.complex else sofar[0]
            after = f.less(before, get(i, j), x.get(j, c))
            return after if f.complex else (after,)

        total = run.fold(lo, hi, start if f.complex else (start,), step)
        value = tuple(total) if f.complex else total[0]
        x.put(i, c, value if scale is None else f.mul(value, scale(i)))

    run.loop(0, n, row)


def systems(
    b: Builder,
    a: Callable[[Where], Entry],
    y: Callable[[Where], Entry],
    out: Node,
    lower: bool,
    unit: bool,
    transposed: bool,
) -> None:
    """A system a lane: `a` gives the entries of the matrix on the left of x; with `transposed`, x
    and y are stored with rows and columns exchanged."""
    *batch, rows, columns = out.shape
    if transposed:
        rows, columns = columns, rows
    n, f = rows, Field(b, out.dtype)

    def make(run: Run) -> Any:
        return run.matrix(out.dtype, n, n), run.matrix(out.dtype, n, columns)

    def load(state: Any, where: Where, run: Run) -> None:
        t, x = state
        left, right = a(where), _turned(y(where), transposed)
        half = (lambda i: (0, i)) if lower else (lambda i: (b.add(i, 1), n))
        run.loop(0, n, lambda i: run.loop(*half(i), lambda j: t.put(i, j, left(i, j))))
        if not unit:
            run.loop(0, n, lambda i: t.put(i, i, f.div(f.number(1.0), left(i, i))))
        run.loop(0, n, lambda i: run.loop(0, columns, lambda c: x.put(i, c, right(i, c))))

    def work(state: Any, run: Run) -> None:
        t, x = state
        scale = None if unit else lambda i: t.get(i, i)
        run.loop(0, columns, lambda c: _solve(f, n, lower, t.get, scale, x, c, run))

    def store(state: Any, where: Where, run: Run) -> None:
        write(b, out, where, _turned(state[1].get, transposed), run)

    cost = float(n * n * columns + n * columns)
    stack_of(b, batch, out.dtype, max(n, columns), cost, make, load, work, store)


def right_sides(
    b: Builder,
    a: Callable[[Where], Entry],
    y: Callable[[Where], Entry],
    out: Node,
    lower: bool,
    unit: bool,
    transposed: bool,
) -> None:
    """A right side a lane, matrix after matrix; arguments as above."""
    *batch, rows, columns = out.shape
    n, count = (columns, rows) if transposed else (rows, columns)
    f, slot = Field(b, out.dtype), out.slot
    assert slot is not None

    def one(where: Where) -> None:
        left, right = a(where), _turned(y(where), transposed)
        scale = None
        if not unit:
            diagonal = scratch(b, out.dtype, n)

            def invert(i: Index) -> None:
                diagonal.put(b, i, 0, f.div(f.number(1.0), left(i, i)))

            each(b, n, "seq", invert)
            scale = lambda i: diagonal.get(b, i)

        def load(x: Any, at: Where, run: Run) -> None:
            run.loop(0, n, lambda i: x.put(i, 0, right(i, at[0])))

        def work(x: Any, run: Run) -> None:
            _solve(f, n, lower, left, scale, x, 0, run)

        def store(x: Any, at: Where, run: Run) -> None:
            place = (lambda i: (at[0], i)) if transposed else (lambda i: (i, at[0]))

            def put(i: Index) -> None:
                value = x.get(i, 0)
                store_slot(b, slot, out.shape, out.dtype, (*where, *place(i)), value)

            run.loop(0, n, put)

        make = lambda run: run.matrix(out.dtype, n, 1)
        stack_of(b, (count,), out.dtype, n, n * n + n, make, load, work, store, vectors=VECTORS)

    stacked(b, batch, one, "seq")


def _turned(entry: Entry, turned: bool) -> Entry:
    return (lambda i, j: entry(j, i)) if turned else entry
