"""Loops in pieces: where conditions on a loop's variable change, so that inside a piece they are
known.

What joins arrays (concatenate, pad, roll, stack) asks of every element which array it comes from.
The loop is written once as it stands, and the builder notes where the answers change; if they
change at few places, the loop is written again, piece by piece, without the questions. Loops in
lanes become several; others keep their form and choose by a branch, long pieces only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.loops.build import TRUE, Builder, Index, Ix
from pullback.loops.ir import Atom, For, If, Stmt

__all__ = ["SHORT", "branches", "lane_pieces", "pieces_of", "worth_pieces"]

SPLIT_FROM = 4096  # elements below which loops are not worth more code
ROW_FROM = 256  # the same of a last axis that an outer loop walks again and again
SHORT = 64  # a loop in lanes that is not worth it
MOST = 24  # pieces of a loop in lanes
GROWTH = 4  # how many times the statements may become
CHOICES = 4  # pieces of any other loop
LONGEST_PERIOD = 4  # neighbours that a lane computes


def worth_pieces(extents: Sequence[int], repeated: bool, each: int = 1) -> bool:
    """Whether loops over a box, in which so many elements are computed for each index, are worth
    the code of pieces; `repeated` inside of a loop."""
    return each * math.prod(extents) >= SPLIT_FROM or (
        repeated and len(extents) > 0 and extents[-1] >= ROW_FROM
    )


Body = Callable[[Index], Sequence[Atom]]


def _emitted(b: Builder, extent: int, kind: str, body: Body, lo: Atom | None, hi: Atom | None,
             first: int = 0) -> tuple[list[int], int]:  # fmt: skip
    """Writes a loop; the places where conditions on its variable change, and after how many of its
    steps they, and what is read, are the same again."""
    found: list[Ix] = []

    def noted(ix: Index) -> Sequence[Atom]:
        if isinstance(ix, Ix):
            found.append(ix)
        return body(ix)

    b.loop(extent, kind, noted, lo=lo, hi=hi, first=first)
    cuts = b.cuts.pop(found[0].terms[0][0], set()) if found else set()
    turns = b.turns.pop(found[0].terms[0][0], set()) if found else set()
    cuts |= turns if kind == "vector" else set()  # elsewhere a remainder costs less than a branch
    period = b.periods.pop(found[0].terms[0][0], 1) if found else 1
    return sorted(c for c in cuts if first < c < extent), period


def _size(stmts: Sequence[Stmt]) -> int:
    """Statements, those inside loops and branches too."""
    total = 0
    for s in stmts:
        total += 1
        if isinstance(s, For):
            total += _size(s.body)
        elif isinstance(s, If):
            total += _size(s.then) + _size(s.orelse)
    return total


def lane_pieces(
    b: Builder, n: int, body: Body, lo: Atom | None = None, hi: Atom | None = None
) -> None:
    """A loop in lanes over 0..n, or the part lo..hi of it."""
    pieces_of(b, n, "vector", body, lo, hi)


def pieces_of(
    b: Builder, n: int, kind: str, body: Body, lo: Atom | None = None, hi: Atom | None = None
) -> None:
    """A loop over 0..n, or the part lo..hi of it, as loops over the pieces in which conditions are
    known; in lanes also as one that computes some neighbours an iteration, where every so many
    elements are computed alike."""
    cuts, period = _emitted(b, n, kind, body, lo, hi)
    if n < SHORT or b.unrolling:
        return
    whole = b.scopes[-1].stmts.pop()
    hoisted = len(b.scopes[-1].stmts)
    if 0 < len(cuts) < MOST:
        for start, end in zip([0, *cuts], [*cuts, n], strict=True):
            low, high = b.dim(start), b.dim(end)
            if lo is not None and hi is not None:
                low = b.let("max", (lo, low), "i64") if start else lo
                high = b.let("min", (hi, high), "i64") if end < n else hi
            _emitted(b, end, kind, body, low, high, start)
    elif not cuts and kind == "vector" and 1 < period <= LONGEST_PERIOD:
        _in_rounds(b, n, period, body, lo, hi)
    if not 0 < _size(b.scopes[-1].stmts[hoisted:]) <= GROWTH * (_size([whole]) + 4):
        kept = [s for s in b.scopes[-1].stmts[hoisted:] if not isinstance(s, For)]
        b.scopes[-1].stmts[hoisted:] = [*kept, whole]


def _in_rounds(
    b: Builder, n: int, period: int, body: Body, lo: Atom | None, hi: Atom | None
) -> None:
    """A loop in lanes of which a lane computes a whole period, each element by code of its own;
    what is left of the last one follows. Parts lo..hi take the periods that begin in them."""

    def neighbours(ix: Index) -> Sequence[Atom]:
        for k in range(period):
            body(b.add(b.mul(ix, period), k))
        return ()

    def rest() -> Sequence[Atom]:
        for k in range(n - n % period, n):
            body(k)
        return ()

    if lo is None or hi is None:
        b.loop(n // period, "vector", neighbours)
        rest()
        return

    def after(end: Atom) -> Atom:
        up = b.let("add", (end, b.dim(period - 1)), "i64")
        return b.let("idiv", (up, b.dim(period)), "i64")

    whole = b.let("min", (after(hi), b.dim(n // period)), "i64")
    b.loop(n // period, "vector", neighbours, lo=after(lo), hi=whole)
    if n % period:
        last = b.let("eq", (hi, b.dim(n)), "bool")
        b.branch(last, lambda: _there(b, rest), lambda: ())


def branches(b: Builder, n: int, kind: str, body: Body) -> None:
    """Any other loop over 0..n: a branch for each long piece, one for what remains."""
    cuts, _ = _emitted(b, n, kind, body, None, None)
    if not cuts or n < 2 or b.unrolling:
        return
    ends = list(zip([0, *cuts], [*cuts, n], strict=True))
    long = sorted((p for p in ends if (p[1] - p[0]) * 2 * CHOICES > n), key=lambda p: p[0] - p[1])
    if not long or len(long) > CHOICES:
        return
    b.scopes[-1].stmts.pop()
    whole = len(long) == len(ends)

    def choose(ix: Index, rest: Sequence[tuple[int, int]]) -> Sequence[Atom]:
        if not rest:
            return body(ix)
        assert isinstance(ix, Ix)
        (start, end), rest = rest[0], rest[1:]

        def inside() -> Sequence[Atom]:
            return _there(b, lambda: body(b.within(ix, start, end - 1)))

        if whole and not rest:
            return inside()
        at = b.atom(ix)
        above = b.let("ge", (at, b.dim(start)), "bool") if start else TRUE
        below = b.let("lt", (at, b.dim(end)), "bool") if end < n else TRUE
        b.branch(b.both(above, below), inside, lambda: _there(b, lambda: choose(ix, rest)))
        return ()

    _emitted(b, n, kind, lambda ix: choose(ix, long), None, None)


def _there(b: Builder, body: Callable[[], Sequence[Atom]]) -> Sequence[Atom]:
    """Loads of a branch stay in it."""
    before, b.region_level = b.region_level, b.depth
    body()
    b.region_level = before
    return ()
