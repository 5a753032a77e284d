"""Linear algebra on stacks of matrices: LAPACK called from kernels, so that it runs inside loops,
without the GIL, and over threads where there are many matrices. What it needs is in lapack.py;
small matrices have code of their own in small.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Const
from pullback.loops.libraries import OWN_THREADS, routine
from pullback.loops.lower import blocked, complex_math as cm, eigen, small, substitute
from pullback.loops.lower.elementwise import Outs, rule
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, part_dtype, read
from pullback.loops.lower.lapack import (
    LWORK,
    SUPPORTED,
    WORK,
    Matrix,
    Where,
    all_finite,
    columns_in,
    each,
    rows_out,
    run,
    scratch,
    slot_place,
    stacked,
    vector_out,
)

__all__: list[str] = []

# Matrices up to so many rows are done in lanes where there are several: LAPACK is faster beyond.
CHOLESKY_MOST, LU_MOST, SOLVE_MOST, QR_MOST = 16, 16, 16, 16
EIGH_MOST, LEAST = 8, 4  # rows of matrices whose eigenvectors are; matrices
MANY = 8  # matrices, which are always shared among our threads

ZERO, ONE = Const(0, "i32"), Const(1, "i32")

# Seconds of a call of the library, and of an entry of the matrix, in methods that iterate and in
# others; and of an operation.
ITERATIVE, DIRECT, LIBRARY = (5e-6, 4e-8), (1e-6, 2e-9), 2e-11
LANES = 5e-11  # of an operation of methods in lanes


def _stack_op(
    g: Graph,
    name: str,
    ins: Sequence[Node],
    outs: Outs,
    batch: Sequence[int],
    work: float,
    one: Callable[[Builder, Opaque, Where], None],
    modes: Sequence[str] | None = None,
) -> list[Node]:
    """An operation that does `one` matrix of a stack after the other. `work` is that of one."""

    # The library has threads of its own for large matrices; they must not meet ours.
    count, largest = math.prod(batch), max(n for x in ins for n in x.shape[-2:])
    kind = "parallel" if largest < OWN_THREADS or count >= MANY else "seq"

    def emit(b: Builder, op: Opaque) -> None:
        stacked(b, batch, lambda where: one(b, op, where), kind)

    modes = list(modes or ["once"] * len(ins))
    call, entry = ITERATIVE if name in ("eigh", "eig", "svd") else DIRECT
    seconds = count * (call + entry * largest**2 + LIBRARY * work)
    work = count * (2000.0 + work)
    op = Opaque(name, list(ins), modes, emit=emit, work=work, seconds=seconds)
    return g.opaque(op, outs)


def _lanes_op(
    g: Graph,
    name: str,
    ins: Sequence[Node],
    outs: Outs,
    work: float,
    emit: Callable[[Builder, Opaque], None],
    modes: Sequence[str] | None = None,
) -> list[Node]:
    """An operation on small matrices in lanes. `work` is that of all of them."""
    modes = list(modes or ["once"] * len(ins))
    op = Opaque(name, list(ins), modes, emit=emit, work=work, seconds=LANES * work)
    return g.opaque(op, outs)


def _entries(b: Builder, x: Node, turned: bool = False) -> Callable[[Where], small.Entry]:
    """The entries of the matrix at a place of a stack, or of its transpose."""
    return lambda where: lambda i, j: read(x, b, (*where, *((j, i) if turned else (i, j))))


def _fits(ins: Sequence[Node], rank: int = 2) -> bool:
    """Whether LAPACK computes in the dtype, and there is something to compute on."""
    return all(x.dtype in SUPPORTED and 0 not in x.shape for x in ins) and len(ins[0].shape) >= rank


def _failed(b: Builder, info: Any) -> Atom:
    return b.let("ne", (info, ZERO), "bool")


def _if_finite(b: Builder, m: Matrix, rows: int, columns: int, then: Callable[[], Any]) -> Atom:
    """Runs a routine that must not be given infinities or NaN; whether it failed."""
    finite = all_finite(b, m, rows, columns)
    return _failed(b, b.branch(finite, lambda: [then()], lambda: [ONE])[0])


def _conj(value: Any, b: Builder) -> Any:
    if not isinstance(value, tuple):
        return value
    return value[0], b.let("neg", (value[1],), value[1].dtype)


# --- cholesky, triangular_solve, lu ---
@rule("cholesky")
def _cholesky(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape
    if small.in_lanes(batch, x.dtype, n, CHOLESKY_MOST):
        in_lanes = lambda b, op: small.cholesky(b, _entries(b, x), op.outs[0])
        return _lanes_op(g, "cholesky", ins, outs, x.size * (n + 4.0), in_lanes)[0]
    if blocked.in_blocks(x.dtype, n):
        one_of = lambda b, op, where: blocked.cholesky(b, x, op.outs[0], where)
        return _stack_op(g, "cholesky", ins, outs, batch, n**3 / 3, one_of)[0]
    name = routine(x.dtype, "potrf")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        # By rows the lower triangle lies as the upper one does by columns, of the transpose; and
        # x^T = (L L^H)^T = (L^T)^H L^T is its factorisation.
        out = op.outs[0]
        assert out.slot is not None
        rows_out(b, out, where, lambda r, c: read(x, b, (*where, r, c)))
        buf, start = slot_place(b, out.slot, out.shape, out.dtype, where)
        info = run(b, name, "csos", ["U", n, buf, start, n])
        nan = Const(float("nan"), part_dtype(x.dtype))

        def spoil() -> list[Atom]:
            rows_out(b, out, where, lambda r, c: (nan, nan) if x.dtype in COMPLEX else nan)
            return []

        b.branch(_failed(b, info), spoil, list)

    return _stack_op(g, "cholesky", ins, outs, batch, n**3 / 3, one)[0]


@rule("library_cholesky")
def _library_cholesky(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    """Of the lower triangle by columns: of the upper one LAPACK's last bits are others."""
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a = columns_in(b, x, where, n, n)
        info = run(b, routine(x.dtype, "potrf"), "csps", ["L", n, a, n])
        rows_out(b, op.outs[0], where, a.entries(b), _failed(b, info))

    return _stack_op(g, "cholesky", ins, outs, batch, n**3 / 3, one)[0]


@rule("triangular_solve")
def _triangular_solve(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    a, y = ins
    *batch, rows, columns = y.shape
    n = a.shape[-1]
    left, conj = params["left_side"], params["conjugate_a"]
    if small.in_lanes(batch, a.dtype, max(n, rows, columns), SOLVE_MOST):
        in_lanes = lambda b, op: _substituted(b, op, params, substitute.systems)
        return _lanes_op(g, "triangular_solve", ins, outs, y.size * (n + 4.0), in_lanes)[0]
    if substitute.in_right_sides(n, columns if left else rows, not left):
        in_lanes = lambda b, op: _substituted(b, op, params, substitute.right_sides)
        modes = ["buffer", "once"]
        return _lanes_op(g, "triangular_solve", ins, outs, y.size * (n + 4.0), in_lanes, modes)[0]
    # By columns the transposed system is solved: op(a) x = y is x^T op(a)^T = y^T, with the
    # matrix on the other side and its other triangle. BLAS conjugates only what it transposes.
    copied = conj and not params["transpose_a"]
    trans = ("C" if conj else "T") if params["transpose_a"] else "N"
    options = ["R" if left else "L", "U" if params["lower"] else "L", trans]
    options.append("U" if params["unit_diagonal"] else "N")
    name = routine(a.dtype, "trsm")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        out = op.outs[0]
        assert out.slot is not None and a.slot is not None
        rows_out(b, out, where, lambda r, c: read(y, b, (*where, r, c)))
        alpha = scratch(b, a.dtype, 1)
        d = part_dtype(a.dtype)
        unit = Const(1.0, d)
        alpha.put(b, 0, 0, (unit, Const(0.0, d)) if a.dtype in COMPLEX else unit)
        if copied:
            m = scratch(b, a.dtype, n, n)
            each_entry(b, n, lambda r, c: m.put(b, c, r, _conj(read(a, b, (*where, r, c)), b)))
            place: tuple[Buf, Index] = m.buf, 0
        else:
            place = slot_place(b, a.slot, a.shape, a.dtype, where)
        buf, start = slot_place(b, out.slot, out.shape, out.dtype, where)

        def some(first: Index, count: Any, long: bool) -> None:
            sizes = [*options, *((count, rows) if left else (columns, count))]
            apart = (1 if left else columns) * (2 if a.dtype in COMPLEX else 1)  # in words
            at = b.add(start, b.mul(first, apart))
            args = [*sizes, alpha, *place, n, buf, at, columns]
            run(b, name, "ccccssposos", args, results=0, long=long)

        _shared(b, columns if left else rows, math.prod(batch) == 1 and work >= MUCH, some)

    work = float(n * rows * columns)
    return _stack_op(g, "triangular_solve", ins, outs, batch, work, one, ["buffer", "once"])[0]


# Of many right sides a routine has so many at a time, over our threads: each call is on one thread,
# as the library's own wait for one another without sleeping.
SIDES, MOST_PARTS, MUCH = 128, 8, 4e6


def _shared(b: Builder, sides: int, much: bool, some: Callable[[Index, Any, bool], None]) -> None:
    """Solves for right sides, which do not depend on each other: `some(first, count, long)`, in
    parts that depend on sizes alone."""
    parts = min(MOST_PARTS, sides // SIDES) if much else 1
    if parts < 2:
        some(0, sides, False)
        return
    step = -(-sides // parts)

    def part(k: Index) -> None:
        first = b.mul(k, step)
        left = b.let("sub", (b.dim(sides), b.atom(first)), "i64")
        count = b.let("min", (b.dim(step), left), "i64")
        some(first, b.let("convert", (count,), "i32"), True)

    each(b, -(-sides // step), "parallel", part)


def _substituted(
    b: Builder, op: Opaque, params: dict[str, Any], solve: Callable[..., None]
) -> None:
    """Triangular systems in lanes. x op(a) = y is solved as op(a)^T x^T = y^T."""
    a, y = op.ins
    left, conj = params["left_side"], params["conjugate_a"]
    turned = params["transpose_a"] == left

    def matrix(where: Where) -> small.Entry:
        def entry(i: Index, j: Index) -> Any:
            value = read(a, b, (*where, *((j, i) if turned else (i, j))))
            return _conj(value, b) if conj else value

        return entry

    lower = params["lower"] != turned
    unit = params["unit_diagonal"]
    solve(b, matrix, _entries(b, y), op.outs[0], lower, unit, not left)


def each_entry(b: Builder, n: int, body: Callable[[Index, Index], None]) -> None:
    """Every pair of indices below n."""
    each(b, n, "seq", lambda r: each(b, n, "vector", lambda c: body(r, c)))


def _order(b: Builder, out: Node, where: Where, count: int, pivot: Callable[[Index], Atom]) -> None:
    """Writes the permutation that exchanges of row k with row pivot(k) amount to."""
    size, d = out.shape[-1], out.dtype
    vector_out(b, out, where, lambda r: _as(b, b.atom(r), d))
    assert out.slot is not None
    buf, start = slot_place(b, out.slot, out.shape, d, where)
    m = Matrix(buf, d, size, start)

    def exchange(k: Index) -> None:
        j = b.to_index(pivot(k), 0, size - 1)
        here, there = m.get(b, k), m.get(b, j)
        m.put(b, k, 0, there)
        m.put(b, j, 0, here)

    each(b, count, "seq", exchange)


def _as(b: Builder, value: Atom, dtype: str) -> Atom:
    return value if value.dtype == dtype else b.let("convert", (value,), dtype)


@rule("lu")
def _lu(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, m, n = x.shape
    k = min(m, n)
    if small.in_lanes(batch, x.dtype, max(m, n), LU_MOST):
        in_lanes = lambda b, op: small.lu(b, _entries(b, x), *op.outs)
        return _lanes_op(g, "lu", ins, outs, x.size * (k + 8.0), in_lanes)
    name = routine(x.dtype, "getrf")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        packed, pivots, order = op.outs
        assert pivots.slot is not None
        a = columns_in(b, x, where, m, n)
        place = slot_place(b, pivots.slot, pivots.shape, "i32", where)
        run(b, name, "sspso", [m, n, a, m, *place])
        exchanges = Matrix(place[0], "i32", k, place[1])
        each(
            b,
            k,
            "vector",
            lambda i: exchanges.put(b, i, 0, b.let("sub", (exchanges.get(b, i), ONE), "i32")),
        )
        rows_out(b, packed, where, a.entries(b))
        _order(b, order, where, k, lambda i: exchanges.get(b, i))

    return _stack_op(g, "lu", ins, outs, batch, 2 / 3 * m * n * k, one)


@rule("lu_pivots_to_permutation")
def _permutation(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    (x,) = ins
    *batch, k = x.shape

    def one(b: Builder, op: Opaque, where: Where) -> None:
        _order(b, op.outs[0], where, k, lambda i: read(x, b, (*where, i)))

    return _stack_op(g, "permutation", ins, outs, batch, 4.0 * k, one, ["buffer"])[0]


@rule("cholesky_update")
def _cholesky_update(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    x, v = ins
    *batch, n, _ = x.shape

    def one(b: Builder, op: Opaque, where: Where) -> None:
        # Plane rotations turn [R; w^T] into [S; 0], row by row.
        r, w = columns_in(b, x, where, n, n), scratch(b, x.dtype, n)
        each(b, n, "vector", lambda j: w.put(b, j, 0, read(v, b, (*where, j))))

        def let(op: str, *args: Atom) -> Atom:
            return b.let(op, args, x.dtype)

        unit, zero = Const(1.0, x.dtype), Const(0.0, x.dtype)

        def row(k: Index) -> None:
            top, below = r.get(b, k, k), w.get(b, k)
            size = cm.modulus(b, (top, below))
            none = b.let("eq", (size, zero), "bool")
            safe = b.select(none, unit, size)
            c, s = b.select(none, unit, let("div", top, safe)), let("div", below, safe)

            def turn(j: Index) -> None:
                up, low = r.get(b, k, j), w.get(b, j)
                r.put(b, k, j, let("add", let("mul", c, up), let("mul", s, low)))
                w.put(b, j, 0, let("sub", let("mul", c, low), let("mul", s, up)))

            each(b, n, "vector", turn)

        each(b, n, "seq", row)
        rows_out(b, op.outs[0], where, r.entries(b))

    return _stack_op(g, "cholesky_update", ins, outs, batch, 6.0 * n * n, one)[0]


@rule("tridiagonal_solve")
def _tridiagonal_solve(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins, 1) or params["perturb_singular"]:
        return NotImplemented
    *diagonals, y = ins
    *batch, n, columns = y.shape
    name = routine(y.dtype, "gtsv")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        low, mid, up = (scratch(b, y.dtype, n) for _ in range(3))
        lower, middle, upper = diagonals

        def copy(i: Index) -> None:
            before = b.to_index(b.atom(b.sub(i, 1)), 0, n - 1)
            low.put(b, before, 0, read(lower, b, (*where, i)))
            mid.put(b, i, 0, read(middle, b, (*where, i)))
            up.put(b, i, 0, read(upper, b, (*where, i)))

        each(b, n, "seq", copy)
        x = columns_in(b, y, where, n, columns)
        bad = _failed(b, run(b, name, "sspppps", [n, columns, low, mid, up, x, n]))
        rows_out(b, op.outs[0], where, x.entries(b), bad)

    return _stack_op(g, "tridiagonal_solve", ins, outs, batch, 8.0 * n * columns, one)[0]


@rule("symmetric_product")
def _symmetric_product(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    x, y = ins
    *batch, n, k = x.shape
    alpha, beta = float(params["alpha"]), float(params["beta"])
    name = routine(x.dtype, "gemm")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        out = op.outs[0]
        assert out.slot is not None and x.slot is not None
        if beta:
            rows_out(b, out, where, lambda r, c: read(y, b, (*where, r, c)))
        scale = scratch(b, x.dtype, 2)
        scale.put(b, 0, 0, Const(alpha, x.dtype))
        scale.put(b, 1, 0, Const(beta, x.dtype))
        place = slot_place(b, x.slot, x.shape, x.dtype, where)
        target = slot_place(b, out.slot, out.shape, out.dtype, where)
        args = ["T", "N", n, n, k, scale, *place, k, *place, k, scale.buf, 1, *target, n]
        run(b, name, "ccssspososoos", args, results=0)

    return _stack_op(
        g, "symmetric_product", ins, outs, batch, 2.0 * n * n * k, one, ["buffer", "once"]
    )[0]


# --- reflectors and qr ---
def _factor(b: Builder, a: Matrix, m: int, n: int, taus: Any) -> None:
    """R and the reflectors, in place; `taus` is where their factors go, as (buffer, offset)."""
    args = [m, n, a, m, *taus, WORK, LWORK]
    run(b, routine(a.dtype, "geqrf"), "sspsops", args, a.dtype)


def _product(b: Builder, q: Matrix, m: int, n: int, k: int, taus: Any) -> None:
    """The first n columns of the product of k reflectors, in place."""
    args = [m, n, k, q, m, *taus, WORK, LWORK]
    run(b, routine(q.dtype, "orgqr", "ungqr"), "ssspsops", args, q.dtype)


@rule("geqrf")
def _geqrf(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, m, n = x.shape

    def one(b: Builder, op: Opaque, where: Where) -> None:
        packed, taus = op.outs
        assert taus.slot is not None
        a = columns_in(b, x, where, m, n)
        _factor(b, a, m, n, slot_place(b, taus.slot, taus.shape, taus.dtype, where))
        rows_out(b, packed, where, a.entries(b))

    return _stack_op(g, "geqrf", ins, outs, batch, 2.0 * m * n * min(m, n), one)


@rule("householder_product")
def _householder(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    x, taus = ins
    *batch, m, n = x.shape
    k = taus.shape[-1]

    def one(b: Builder, op: Opaque, where: Where) -> None:
        assert taus.slot is not None
        q = columns_in(b, x, where, m, n)
        _product(b, q, m, n, k, slot_place(b, taus.slot, taus.shape, taus.dtype, where))
        rows_out(b, op.outs[0], where, q.entries(b))

    return _stack_op(
        g, "householder_product", ins, outs, batch, 2.0 * m * n * k, one, ["once", "buffer"]
    )[0]


@rule("ormqr")
def _ormqr(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    x, taus, y = ins
    *batch, rows, columns = y.shape
    m, k = x.shape[-2], taus.shape[-1]
    complex_ = x.dtype in COMPLEX
    trans = ("C" if complex_ else "T") if params["transpose"] else "N"
    side = "L" if params["left"] else "R"
    name = routine(x.dtype, "ormqr", "unmqr")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        assert taus.slot is not None
        a = columns_in(b, x, where, m, k)
        c = columns_in(b, y, where, rows, columns)
        place = slot_place(b, taus.slot, taus.shape, taus.dtype, where)
        args = [side, trans, rows, columns, k, a, m, *place, c, rows, WORK, LWORK]
        run(b, name, "ccssspsopsps", args, x.dtype)
        rows_out(b, op.outs[0], where, c.entries(b))

    work = 2.0 * rows * columns * k
    return _stack_op(g, "ormqr", ins, outs, batch, work, one, ["once", "buffer", "once"])[0]


@rule("qr")
def _qr(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, m, n = x.shape
    least = min(m, n)
    k = m if params["full_matrices"] else least
    own = len(outs) == 2 and x.dtype not in COMPLEX
    if own and small.in_lanes(batch, x.dtype, max(m, n), QR_MOST):
        in_lanes = lambda b, op: small.qr(b, _entries(b, x), *op.outs)
        return _lanes_op(g, "qr", ins, outs, x.size * (4.0 * k + 8.0), in_lanes)

    def pivoted(b: Builder, a: Matrix, taus: Matrix, out: Node, where: Where) -> None:
        order = scratch(b, "i32", n)
        each(b, n, "vector", lambda i: order.put(b, i, 0, ZERO))
        form, args = "sspsppps", [m, n, a, m, order, taus, WORK, LWORK]
        if x.dtype in COMPLEX:
            form, args = form + "p", [*args, scratch(b, part_dtype(x.dtype), 2 * n)]
        run(b, routine(x.dtype, "geqp3"), form, args, x.dtype)
        vector_out(b, out, where, lambda i: b.let("sub", (order.get(b, i), ONE), "i32"))

    def one(b: Builder, op: Opaque, where: Where) -> None:
        q_out, r_out, *order_out = op.outs
        a, taus = columns_in(b, x, where, m, n), scratch(b, x.dtype, least)
        if order_out:
            pivoted(b, a, taus, order_out[0], where)
        else:
            _factor(b, a, m, n, (taus.buf, 0))
        zero = Const(0.0, part_dtype(x.dtype))
        nothing = (zero, zero) if x.dtype in COMPLEX else zero

        def upper(r: Index, c: Index) -> Any:
            keep = b.let("le", (b.atom(r), b.atom(c)), "bool")
            value = a.get(b, r, c)
            if not isinstance(value, tuple):
                return b.select(keep, value, zero)
            return tuple(b.select(keep, p, zero) for p in value)

        if k == least:
            rows_out(b, r_out, where, upper)
        else:  # more rows than the factorisation has: the rest of R is zero
            rows_out(b, r_out, where, lambda r, c: nothing)
            each(
                b,
                least,
                "seq",
                lambda r: each(
                    b, n, "vector", lambda c: _put_row(b, r_out, where, r, c, upper(r, c))
                ),
            )
        if not q_out.live:  # half of the work is its
            return
        q = a
        if k > n:
            q = scratch(b, x.dtype, m, k)
            each(
                b,
                n,
                "seq",
                lambda c: each(b, m, "vector", lambda r: q.put(b, r, c, a.get(b, r, c))),
            )
        _product(b, q, m, k, least, (taus.buf, 0))
        rows_out(b, q_out, where, q.entries(b))

    return _stack_op(g, "qr", ins, outs, batch, 4.0 * m * k * least, one)


def _put_row(b: Builder, out: Node, where: Where, r: Index, c: Index, value: Any) -> None:
    assert out.slot is not None
    buf, start = slot_place(b, out.slot, out.shape, out.dtype, where)
    Matrix(buf, out.dtype, out.shape[-1], start).put(b, c, r, value)


# --- eigenvalues ---
def _kept(subset: Any, n: int) -> int:
    """The first of a subset of n values."""
    return 0 if subset is None else range(n)[slice(*subset)].start


@rule("eigh")
def _eigh(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    algorithm = getattr(params["algorithm"], "name", "QR")
    if not _fits(ins) or algorithm != "QR":
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape
    first = _kept(params["subset_by_index"], n)
    plain = x.dtype not in COMPLEX and params["lower"] and params["subset_by_index"] is None
    if plain and n <= EIGH_MOST and x.size >= LEAST * n * n:
        in_lanes = lambda b, op: eigen.eigh(b, _entries(b, x), *op.outs)
        return _lanes_op(g, "eigh", ins, outs, x.size * (40.0 * n + 8.0), in_lanes)
    side = "L" if params["lower"] else "U"
    complex_ = x.dtype in COMPLEX
    part = part_dtype(x.dtype)
    name = routine(x.dtype, "syevd", "heevd")

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a, w = columns_in(b, x, where, n, n), scratch(b, part, n)
        whole = scratch(b, "i32", 3 + 5 * n)
        more: list[Any] = []
        if complex_:
            size = 1 + 5 * n + 2 * n * n
            more = [scratch(b, part, size), size]
        args = ["V", side, n, a, n, w, WORK, LWORK, *more, whole, 3 + 5 * n]
        form = "ccspsp" + "ps" + ("ps" if complex_ else "") + "ps"
        bad = _if_finite(b, a, n, n, lambda: run(b, name, form, args, x.dtype))
        rows_out(b, op.outs[0], where, lambda r, c: a.get(b, r, b.add(c, first)), bad)
        vector_out(b, op.outs[1], where, lambda r: w.get(b, b.add(r, first)), bad)

    return _stack_op(g, "eigh", ins, outs, batch, 9.0 * n**3, one)


@rule("eig")
def _eig(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    wanted = [params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]]
    if not _fits(ins) or getattr(params["implementation"], "name", "LAPACK") != "LAPACK":
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape
    part, name = part_dtype(x.dtype), routine(x.dtype, "geev")
    jobs = ["V" if on else "N" for on in wanted]

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a = columns_in(b, x, where, n, n)
        vectors = [scratch(b, x.dtype, n if on else 1, n if on else 1) for on in wanted]
        places = [p for v, on in zip(vectors, wanted, strict=True) for p in (v, n if on else 1)]
        outs = iter(op.outs[1:])
        if x.dtype in COMPLEX:
            w = scratch(b, x.dtype, n)
            args = [*jobs, n, a, n, w, *places, WORK, LWORK, scratch(b, part, 2 * n)]
            call = lambda: run(b, name, "ccspsppspspsp", args, x.dtype)
            bad = _if_finite(b, a, n, n, call)
            vector_out(b, op.outs[0], where, lambda r: w.get(b, r), bad)
            for v, on in zip(vectors, wanted, strict=True):
                if on:
                    rows_out(b, next(outs), where, v.entries(b), bad)
            return
        re, im = scratch(b, part, n), scratch(b, part, n)
        args = [*jobs, n, a, n, re, im, *places, WORK, LWORK]
        bad = _if_finite(b, a, n, n, lambda: run(b, name, "ccspspppspsps", args, x.dtype))
        vector_out(b, op.outs[0], where, lambda r: (re.get(b, r), im.get(b, r)), bad)
        for v, on in zip(vectors, wanted, strict=True):
            if on:
                rows_out(b, next(outs), where, _paired(b, v, im, n), bad)

    return _stack_op(g, "eig", ins, outs, batch, 25.0 * n**3, one)


def _paired(b: Builder, v: Matrix, im: Matrix, n: int) -> Callable[[Index, Index], Any]:
    """Eigenvectors of a real matrix: the columns of a pair of conjugate values are the real and the
    imaginary part of its vectors."""
    zero = Const(0.0, v.dtype)

    def get(r: Index, c: Index) -> Any:
        sign = im.get(b, c)
        first = b.let("gt", (sign, zero), "bool")
        second = b.let("lt", (sign, zero), "bool")
        column = b.atom(c)
        one = Const(1, "i64")
        down = b.select(second, b.let("sub", (column, one), "i64"), column)
        up = b.select(first, b.let("add", (column, one), "i64"), column)
        real = v.get(b, r, b.to_index(down, 0, n - 1))
        other = v.get(b, r, b.to_index(up, 0, n - 1))
        minus = b.let("neg", (other,), v.dtype)
        return real, b.select(first, other, b.select(second, minus, zero))

    return get


# --- svd ---
@rule("svd")
def _svd(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    algorithm = getattr(params["algorithm"], "name", "DEFAULT")
    if not _fits(ins) or algorithm not in ("DEFAULT", "QR", "DIVIDE_AND_CONQUER"):
        return NotImplemented
    (x,) = ins
    *batch, m, n = x.shape
    small, large = min(m, n), max(m, n)
    first = _kept(params["subset_by_index"], small)
    vectors, full = params["compute_uv"], params["full_matrices"]
    part, complex_ = part_dtype(x.dtype), x.dtype in COMPLEX
    if not (vectors or complex_) and params["subset_by_index"] is None and large <= EIGH_MOST:
        if x.size >= LEAST * m * n:
            in_lanes = lambda b, op: eigen.singular_values(
                b, _entries(b, x, m < n), op.outs[0], large, small
            )
            return _lanes_op(g, "svd", ins, outs, x.size * (60.0 * small + 8.0), in_lanes)
    by_qr = algorithm == "QR"
    job = ("A" if full else "S") if vectors else "N"
    name = routine(x.dtype, "gesvd" if by_qr else "gesdd")
    rows = (n if full else small) if vectors else 1  # of V^H
    columns = (m if full else small) if vectors else 1  # of U

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a, s = columns_in(b, x, where, m, n), scratch(b, part, small)
        u = scratch(b, x.dtype, m if vectors else 1, columns)
        vt = scratch(b, x.dtype, rows, n if vectors else 1)
        args = [job, *([job] if by_qr else []), m, n, a, m, s]
        args += [u, u.lead, vt, vt.lead, WORK, LWORK]
        form = ("cc" if by_qr else "c") + "sspsppspsps"
        if complex_:
            size = 5 * small * small + 7 * small
            size = max(size, 2 * large * small + 2 * small * small + small)
            args.append(scratch(b, part, 5 * small if by_qr else size))
            form += "p"
        if not by_qr:
            args.append(scratch(b, "i32", 8 * small))
            form += "p"
        bad = _if_finite(b, a, m, n, lambda: run(b, name, form, args, x.dtype))
        vector_out(b, op.outs[0], where, lambda r: s.get(b, b.add(r, first)), bad)
        if vectors:
            rows_out(b, op.outs[1], where, lambda r, c: u.get(b, r, b.add(c, first)), bad)
            rows_out(b, op.outs[2], where, lambda r, c: vt.get(b, b.add(r, first), c), bad)

    work = 4.0 * m * n * small + (9.0 * small**3 if vectors else 0.0)
    return _stack_op(g, "svd", ins, outs, batch, work, one)


# --- condensed forms ---
@rule("schur")
def _schur(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins) or params["sort_eig_vals"]:
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape
    part, complex_ = part_dtype(x.dtype), x.dtype in COMPLEX
    vectors = params["compute_schur_vectors"]
    name = routine(x.dtype, "gees")
    form = "ccnspsp" + ("p" if complex_ else "pp") + "psps" + ("p" if complex_ else "") + "p"

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a, none = columns_in(b, x, where, n, n), scratch(b, "i32", 1)
        w = [scratch(b, x.dtype, n) for _ in range(1 if complex_ else 2)]
        z = scratch(b, x.dtype, n if vectors else 1, n if vectors else 1)
        args = ["V" if vectors else "N", "N", n, a, n, none, *w, z, z.lead, WORK, LWORK]
        args += [scratch(b, part, n)] if complex_ else []
        args.append(scratch(b, "i32", n))
        bad = _if_finite(b, a, n, n, lambda: run(b, name, form, args, x.dtype))
        rows_out(b, op.outs[0], where, a.entries(b), bad)
        if vectors:
            rows_out(b, op.outs[1], where, z.entries(b), bad)

    return _stack_op(g, "schur", ins, outs, batch, 25.0 * n**3, one)


@rule("hessenberg")
def _hessenberg(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a, taus = columns_in(b, x, where, n, n), scratch(b, x.dtype, n)
        args = [n, 1, n, a, n, taus, WORK, LWORK]
        info = run(b, routine(x.dtype, "gehrd"), "ssspspps", args, x.dtype)
        rows_out(b, op.outs[0], where, a.entries(b), _failed(b, info))
        vector_out(b, op.outs[1], where, lambda r: taus.get(b, r), _failed(b, info))

    return _stack_op(g, "hessenberg", ins, outs, batch, 3.3 * n**3, one)


@rule("tridiagonal")
def _tridiagonal(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Any:
    if not _fits(ins):
        return NotImplemented
    (x,) = ins
    *batch, n, _ = x.shape
    part, name = part_dtype(x.dtype), routine(x.dtype, "sytrd", "hetrd")
    side = "L" if params["lower"] else "U"

    def one(b: Builder, op: Opaque, where: Where) -> None:
        a, d, e = columns_in(b, x, where, n, n), scratch(b, part, n), scratch(b, part, n)
        taus = scratch(b, x.dtype, n)
        args = [side, n, a, n, d, e, taus, WORK, LWORK]
        bad = _failed(b, run(b, name, "cspspppps", args, x.dtype))
        rows_out(b, op.outs[0], where, a.entries(b), bad)
        vector_out(b, op.outs[1], where, lambda r: d.get(b, r), bad)
        vector_out(b, op.outs[2], where, lambda r: e.get(b, r), bad)
        vector_out(b, op.outs[3], where, lambda r: taus.get(b, r), bad)

    return _stack_op(g, "tridiagonal", ins, outs, batch, 4 / 3 * n**3, one)
