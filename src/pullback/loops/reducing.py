"""The loops of reductions: nested, in lanes or in blocks, several in one, or on all threads.

The shape of a sum depends on extents only: blocks of 4096, added in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.fuse import breaks_of, grouped, reduction_breaks
from pullback.loops.ir import Atom, Var
from pullback.loops.lower.graph import Node, Reduction, combine_step, red_index
from pullback.loops.tall import BLOCK

__all__ = ["Targets", "parallel_reduce", "reduce_loops", "reduce_tall", "rows_of"]

Targets = Sequence[tuple[Reduction, tuple[Index, ...]]]  # with the indices that each keeps


def _combiner(b: Builder, targets: Targets) -> Any:
    """Operator names, or one region over every accumulator where a reduction has its own
    combiner."""
    if not any(callable(red.combine) for red, _ in targets):
        return tuple(op for red, _ in targets for op in red.combine)
    dtypes = [d for red, _ in targets for d in red.dtypes]

    def body(params: list[Atom]) -> list[Atom]:
        old, new, out, at = params[: len(dtypes)], params[len(dtypes) :], [], 0
        for red, _ in targets:
            n = len(red.dtypes)
            out += combine_step(b, red, old[at : at + n], new[at : at + n])
            at += n
        return out

    return b.region([*dtypes, *dtypes], body)


def _inits(b: Builder, targets: Targets) -> list[Atom]:
    return [a for red, _ in targets for a in red.init(b)]


def _elements(b: Builder, targets: Targets, inner: Sequence[Index]) -> list[Atom]:
    return [a for red, kept in targets for a in red.element(b, red_index(red, kept, inner))]


def _groups_of(targets: Targets, extents: tuple[int, ...]) -> list[list[int]]:
    """Merged loops over the reduced axes of every target."""
    broken: set[int] = set()
    for red, _ in targets:
        inner = reduction_breaks(red)
        broken |= {
            j
            for j in range(len(extents) - 1)
            if red.axes[j + 1] != red.axes[j] + 1 or red.axes[j] in inner
        }
    return grouped(extents, broken.__contains__)


def reduce_loops(
    b: Builder,
    targets: Targets,
    values: Sequence[Node],
    idx: tuple[Index, ...],
    lanes: bool,
    also: Callable[[tuple[Index, ...]], None] | None = None,
    part: tuple[Atom, Atom] | None = None,
) -> list[Atom]:
    """Loops that run every target's reduction together; the accumulators. In lanes, the outermost
    of them may be told to run over a part."""
    extents = targets[0][0].extents
    groups = _groups_of(targets, extents)
    for m in values:
        k = len(idx)
        groups = [h for g in groups for h in _cut(g, {a - k for a in breaks_of(m)})]
    sizes = [math.prod(extents[a] for a in g) for g in groups]
    limits = part or (None, None)

    def element(inner: tuple[Index, ...]) -> list[Atom]:
        if also is not None and values:
            also(inner)
        return _elements(b, targets, inner)

    def descend(level: int, inner: tuple[Index, ...], accs: list[Atom]) -> list[Atom]:
        shape = [extents[a] for a in groups[level]]
        if level < len(groups) - 1:
            carry = _carry(b, accs)
            outs = b.loop(
                sizes[level],
                "seq",
                lambda ix: descend(
                    level + 1, (*inner, *b.unravel(ix, shape)), [v for _, v in carry]
                ),
                carry,
                lo=limits[0] if not level else None,
                hi=limits[1] if not level else None,
            )
            return list(outs)
        return _innermost(
            b,
            targets,
            sizes[level],
            accs,
            lanes,
            lambda ix: element((*inner, *b.unravel(ix, shape))),
            part if not level else None,
        )

    return descend(0, (), _inits(b, targets)) if groups else element(())  # of no axes


def _cut(group: list[int], broken: set[int]) -> list[list[int]]:
    return [[group[i] for i in g] for g in grouped(group, lambda j: group[j] in broken)]


def _carry(b: Builder, accs: Sequence[Atom]) -> list[tuple[Atom, Var]]:
    return [(a, b.var(a.dtype, b.depth + 1, "a")) for a in accs]


def _innermost(
    b: Builder,
    targets: Targets,
    n: int,
    accs: list[Atom],
    lanes: bool,
    element: Callable[[Index], list[Atom]],
    part: tuple[Atom, Atom] | None = None,
) -> list[Atom]:
    """One loop of n elements into the accumulators, in blocks; in lanes or in order, over all or a
    part."""
    if lanes or any(red.in_order for red, _ in targets):
        carry = _carry(b, accs)

        def step(ix: Index) -> list[Atom]:
            new, old, out = element(ix), [v for _, v in carry], []
            for red, _ in targets:
                m = len(red.dtypes)
                out += combine_step(b, red, old[:m], new[:m])
                del old[:m], new[:m]
            return out

        lo, hi = part or (None, None)
        return list(b.loop(n, "seq", step, carry, lo=lo, hi=hi))
    if n <= BLOCK:
        carry = _carry(b, accs)
        return list(b.loop(n, "reduce", element, carry, _combiner(b, targets)))
    outer = _carry(b, accs)

    def block(c: Index) -> list[Atom]:
        new = _block(b, targets, c, n, element)
        return _combine_targets(b, targets, [v for _, v in outer], new)

    return list(b.loop(-(-n // BLOCK), "seq", block, outer))


def _block(
    b: Builder, targets: Targets, c: Index, n: int, element: Callable[[Index], list[Atom]]
) -> list[Atom]:
    """The sum of one block of 4096."""
    lo = b.atom(b.mul(c, BLOCK))
    hi = b.let("min", (b.let("add", (lo, b.dim(BLOCK)), "i64"), b.dim(n)), "i64")
    carry = _carry(b, _inits(b, targets))
    return list(b.loop(n, "reduce", element, carry, _combiner(b, targets), lo=lo, hi=hi))


def _combine_targets(
    b: Builder, targets: Targets, old: Sequence[Atom], new: Sequence[Atom]
) -> list[Atom]:
    out: list[Atom] = []
    old, new = list(old), list(new)
    for red, _ in targets:
        m = len(red.dtypes)
        out += combine_step(b, red, old[:m], new[:m])
        del old[:m], new[:m]
    return out


def parallel_reduce(b: Builder, targets: Targets, extents: tuple[int, ...]) -> list[Atom]:
    """A reduction to scalars: blocks in parallel, then their results in order."""
    groups = _groups_of(targets, extents)
    if len(groups) > 1:
        outer, inner_n = extents[: groups[0][-1] + 1], 0
        count = math.prod(outer)
    else:
        inner_n = math.prod(extents)
        count = -(-inner_n // BLOCK)
    begun = _inits(b, targets)
    partial = [b.scratch(a.dtype, count, "partial") for a in begun]

    def work(c: Index) -> Sequence[Atom]:
        if inner_n:
            new = _block(
                b, targets, c, inner_n, lambda ix: _elements(b, targets, b.unravel(ix, extents))
            )
        else:
            new = _rest(b, targets, groups, extents, b.unravel(c, outer))
        for buf, a in zip(partial, new, strict=True):
            b.store(buf, b.atom(c), a)
        return ()

    b.loop(count, "parallel", work)
    carry = _carry(b, begun)

    def add(c: Index) -> list[Atom]:
        return _combine_targets(
            b, targets, [v for _, v in carry], [b.load(buf, b.atom(c)) for buf in partial]
        )

    return list(b.loop(count, "seq", add, carry))


def _rest(
    b: Builder,
    targets: Targets,
    groups: list[list[int]],
    extents: tuple[int, ...],
    first: tuple[Index, ...],
) -> list[Atom]:
    """The loops inside the first group of reduced axes."""

    def descend(level: int, inner: tuple[Index, ...], accs: list[Atom]) -> list[Atom]:
        shape = [extents[a] for a in groups[level]]
        n = math.prod(shape)
        if level == len(groups) - 1:
            return _innermost(
                b,
                targets,
                n,
                accs,
                False,
                lambda ix: _elements(b, targets, (*inner, *b.unravel(ix, shape))),
            )
        carry = _carry(b, accs)
        step = lambda ix: descend(level + 1, (*inner, *b.unravel(ix, shape)), [v for _, v in carry])
        return list(b.loop(n, "seq", step, carry))

    return descend(1, first, _inits(b, targets))


def rows_of(reds: Sequence[Reduction]) -> int:
    """The rows that the outermost loop of reductions over the same extents runs over."""
    group = _groups_of([(red, ()) for red in reds], reds[0].extents)[0]
    return math.prod(reds[0].extents[a] for a in group)


def reduce_tall(
    b: Builder, reds: Sequence[Reduction], finish: Callable[[Targets, list[Atom]], None]
) -> None:
    """Reductions in lanes: of blocks of rows, on all threads (tall.py); then of each column the
    blocks' results in order, which `finish` is given."""
    shape, rows = reds[0].nodes[0].shape, rows_of(reds)
    width, blocks = math.prod(shape), -(-rows // BLOCK)
    begun = _inits(b, [(red, ()) for red in reds])
    partial = [b.scratch(a.dtype, blocks * width, "partial") for a in begun]

    def place(c: Index, ix: Index) -> Atom:
        return b.atom(b.linear([(c, width), (ix, 1)]))

    def targets_at(ix: Index) -> Targets:
        return [(red, tuple(b.unravel(ix, shape))) for red in reds]

    def block(c: Index) -> Sequence[Atom]:
        lo = b.atom(b.mul(c, BLOCK))
        hi = b.let("min", (b.let("add", (lo, b.dim(BLOCK)), "i64"), b.dim(rows)), "i64")

        def lane(ix: Index) -> Sequence[Atom]:
            accs = reduce_loops(b, targets_at(ix), [], (), True, part=(lo, hi))
            for buf, a in zip(partial, accs, strict=True):
                b.store(buf, place(c, ix), a)
            return ()

        b.loop(width, "vector", lane)
        return ()

    def combined(ix: Index) -> Sequence[Atom]:
        targets, carry = targets_at(ix), _carry(b, begun)

        def add(c: Index) -> list[Atom]:
            new = [b.load(buf, place(c, ix)) for buf in partial]
            return _combine_targets(b, targets, [v for _, v in carry], new)

        finish(targets, list(b.loop(blocks, "seq", add, carry)))
        return ()

    b.loop(blocks, "parallel", block)
    b.loop(width, "vector", combined)
