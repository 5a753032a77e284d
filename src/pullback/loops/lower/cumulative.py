"""Cumulative operations: prefix scans along one axis, in lanes along it when it is the last, across
it otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Const
from pullback.loops.lower import complex_math as cm
from pullback.loops.lower.elementwise import RULES, Outs, Rule, scalar_convert
from pullback.loops.lower.graph import COMPLEX, Graph, Node, Opaque, part_dtype, read, store_slot
from pullback.loops.lower.reduce import accumulator
from pullback.loops.lower.statements import box
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import identity_of

BLOCK = 1 << 15  # elements of a long row that one thread takes at a time


def log_add_exp(b: Builder, old: list[Atom], new: list[Atom]) -> list[Atom]:
    """log(exp x + exp y): the larger plus log1p(exp(-|difference|)); equal infinities have no
    difference to take."""
    (x,), (y,) = old, new
    d = x.dtype
    big = b.let("max", (x, y), d)
    gap = b.let("abs", (b.let("sub", (x, y), d),), d)
    more = b.let("log1p", (b.let("exp", (b.let("neg", (gap,), d),), d),), d)
    return [
        b.select(
            b.let("eq", (x, y), "bool"),
            b.let("add", (big, Const(math.log(2.0), d)), d),
            b.let("add", (big, more), d),
        )
    ]


def _cumulative(op: str) -> Rule:
    def lower(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
        x, axis, reverse = ins[0], params["axis"], params["reverse"]
        dtype, part = x.dtype, part_dtype(x.dtype)
        acc = accumulator(part) if op in ("add", "mul", "logaddexp") else part
        combine: Any = (op,)
        starts: list[Atom] = (
            [Const(float("-inf"), acc)] if op == "logaddexp" else [identity_of(op, acc)]
        )
        if op == "logaddexp":
            combine = log_add_exp
        elif dtype in COMPLEX:
            starts = [Const(0.0 if op == "add" else 1.0, part), Const(0.0, part)]
            combine = (
                ("add", "add")
                if op == "add"
                else lambda b, p, q: list(cm.mul(b, (p[0], p[1]), (q[0], q[1])))
            )
        n, shape = x.shape[axis], x.shape
        outer, inner = shape[:axis], shape[axis + 1 :]
        long = n == x.size >= 4 * BLOCK and isinstance(combine, tuple)

        def emit(b: Builder, o: Opaque) -> None:
            out = o.outs[0]
            assert out.slot is not None
            slot = out.slot

            def element(
                before: Sequence[Index], after: Sequence[Index], k: Index
            ) -> tuple[tuple[Index, ...], list[Atom]]:
                spot = (*before, b.sub(n - 1, k) if reverse else k, *after)
                value = read(x, b, spot)
                parts = value if isinstance(value, tuple) else (value,)
                return spot, [scalar_convert(b, p, acc) for p in parts]

            def put(spot: tuple[Index, ...], accs: Sequence[Atom]) -> None:
                values = tuple(scalar_convert(b, a, part) for a in accs)
                store_slot(b, slot, shape, dtype, spot, values if dtype in COMPLEX else values[0])

            if math.prod(inner) >= 4:
                _across(b, outer, inner, n, starts, combine, element, put)
            elif long:
                flat = lambda k: element((0,) * len(outer), (0,) * len(inner), k)
                _in_blocks(b, n, starts, combine, flat, put)
            else:
                _along(b, (*outer, *inner), len(outer), n, starts, combine, element, put)

        cost = 4.0 + x.cost + (40.0 if op == "logaddexp" else 0.0)
        node = Opaque(
            "cumulative", [x], ["many" if long else "once"], emit=emit, work=x.size * cost
        )
        return g.opaque(node, outs)[0]

    return lower


def _step(b: Builder, combine: Any, old: list[Atom], new: list[Atom]) -> list[Atom]:
    if callable(combine):
        return list(combine(b, old, new))
    return [b.let(op, (p, q), p.dtype) for op, p, q in zip(combine, old, new, strict=True)]


def _along(
    b: Builder,
    rows: tuple[int, ...],
    split: int,
    n: int,
    starts: list[Atom],
    combine: Any,
    element: Any,
    put: Any,
) -> None:
    """Each row is one prefix loop."""

    def row(idx: tuple[Index, ...]) -> None:
        dtypes = [a.dtype for a in starts]
        how = (
            b.region(
                [*dtypes, *dtypes], lambda ps: combine(b, ps[: len(dtypes)], ps[len(dtypes) :])
            )
            if callable(combine)
            else combine
        )
        carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in starts]

        def body(k: Index) -> list[Atom]:
            spot, new = element(idx[:split], idx[split:], k)
            put(spot, [v for _, v in carry])
            return list(new)

        b.loop(n, "scan", body, carry, how)

    box(b, rows, row, "seq", range(len(rows)), cost=4.0 * n)


def _in_blocks(
    b: Builder, n: int, starts: list[Atom], combine: tuple[str, ...], element: Any, put: Any
) -> None:
    """One long row: the totals of its blocks, in parallel; what comes before each block; then the
    blocks from there, in parallel. The blocks depend on the length only, and so do the bits."""
    blocks = -(-n // BLOCK)
    totals = [b.scratch(a.dtype, blocks, "totals") for a in starts]

    def carried(inits: Sequence[Atom]) -> list[tuple[Atom, Any]]:
        return [(a, b.var(a.dtype, b.depth + 1, "a")) for a in inits]

    def bounds(c: Index) -> tuple[Atom, Atom]:
        lo = b.atom(b.mul(c, BLOCK))
        end = b.let("add", (lo, b.dim(BLOCK)), "i64")
        return lo, b.let("min", (end, b.dim(n)), "i64")

    def total(c: Index) -> Sequence[Atom]:
        value = lambda k: list(element(k)[1])
        lo, hi = bounds(c)
        sums = b.loop(n, "reduce", value, carried(starts), combine, lo=lo, hi=hi)
        for buf, a in zip(totals, sums, strict=True):
            b.store(buf, b.atom(c), a)
        return ()

    def running(c: Index) -> Sequence[Atom]:
        with Pinned(b):
            new = [b.load(buf, b.atom(c)) for buf in totals]
        old = [v for _, v in carry]
        for buf, a in zip(totals, old, strict=True):
            b.store(buf, b.atom(c), a)
        return _step(b, combine, old, list(new))

    def block(c: Index) -> Sequence[Atom]:
        with Pinned(b):
            carry = carried([b.load(buf, b.atom(c)) for buf in totals])

        def body(k: Index) -> list[Atom]:
            spot, new = element(k)
            put(spot, [v for _, v in carry])
            return list(new)

        lo, hi = bounds(c)
        b.loop(n, "scan", body, carry, combine, lo=lo, hi=hi)
        return ()

    b.loop(blocks, "parallel", total)
    carry = carried(starts)
    b.loop(blocks, "seq", running, carry)
    b.loop(blocks, "parallel", block)


def _across(
    b: Builder,
    outer: Any,
    inner: Any,
    n: int,
    starts: list[Atom],
    combine: Any,
    element: Any,
    put: Any,
) -> None:
    """Lanes run over the axes after the scanned one; each keeps its own running value."""

    def lane(idx: tuple[Index, ...]) -> None:
        before, after = idx[: len(outer)], idx[len(outer) :]
        carry = [(a, b.var(a.dtype, b.depth + 1, "a")) for a in starts]

        def body(k: Index) -> list[Atom]:
            spot, new = element(before, after, k)
            accs = _step(b, combine, [v for _, v in carry], new)
            put(spot, accs)
            return accs

        b.loop(n, "seq", body, carry)

    broken = {len(outer) - 1} if outer else set()
    box(b, (*outer, *inner), lane, "vector", broken, cost=4.0 * n)


for _name, _op in (
    ("cumsum", "add"),
    ("cumprod", "mul"),
    ("cummax", "max"),
    ("cummin", "min"),
    ("cumlogsumexp", "logaddexp"),
):
    RULES[_name] = _cumulative(_op)
