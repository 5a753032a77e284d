"""From a nest of roots to statements: row loops, phases, vector and reduce loops, blocks, scratch.

    for rows (outermost parallel when there is enough work):
        phase 1: one loop that feeds the reductions and stores the values that iterate alike
        phase 2: ... reads the results of phase 1 from registers or row scratch

Kinds: a nest whose members are all pointwise over the same axes, or that reduces over leading axes,
runs its last row loop in
lanes; otherwise lanes run inside a phase. The shape of a sum depends on extents only: blocks of
4096, added in order.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index, Ix
from pullback.loops.folded import emitted_folded, folds
from pullback.loops.fuse import (
    Nest,
    breaks_of,
    grouped,
    in_lanes_across,
    work_of,
)
from pullback.loops.ir import Atom
from pullback.loops.lower.graph import (
    COMPLEX,
    Node,
    Reduction,
    RegisterSlot,
    Slot,
    load_slot,
    part_dtype,
    store_slot,
)
from pullback.loops.lower.shape import merges
from pullback.loops.pieces import SHORT, branches, lane_pieces, pieces_of, worth_pieces
from pullback.loops.reducing import (
    Targets,
    parallel_reduce,
    reduce_loops,
    reduce_tall,
    rows_of,
)
from pullback.loops.short_axes import narrow_axes, row_breaks, short_inside
from pullback.loops.tall import CHUNK, chunk_of_columns, is_tall
from pullback.loops.turned import emit_turned, turned_reads

__all__ = ["PARALLEL_WORK", "LoopBuilder", "emit_nest", "open_rows"]

PARALLEL_WORK = 150_000.0  # scalar operations, about 20 us: less is not worth waking anyone
# The same in lanes, inside of loops. It takes 3 to 4 us, and to hand half of it over and wait takes
# one; but what one thread computes and the next nest reads on the other comes from the other's
# cache then, step after step: 10 us of three arrays of 16,000 numbers.
LANES_WORK = 450_000.0
LONGEST_PERIOD = 4
FEW_ROWS, WORDS, CHEAP = (
    64,
    16,
    8.0,
)  # of short rows: how many, words of a vector, an element's cost
SHORT_REDUCED, MANY_ROWS = 128, 64
SHORT_TAIL = 8  # numbers of a row that lanes run across


class LoopBuilder(Builder):
    """A builder that can also run a reduction where its value is first asked for."""

    def inline_reduction(self, node: Node, idx: tuple[Index, ...]) -> Any:
        """A reduction inside a loop that has not been planned for it: as far out as its index
        allows."""
        red = node.red
        assert red is not None
        level = self.region_level
        for i in idx:
            level = max(level, 0 if isinstance(i, int) else i.level)
        if self.mask is not None:
            level = max(level, self.level_of(self.mask))
        inner = self.at_level(level)
        accs = reduce_loops(self, [(red, idx)], [], (), self.scopes[-1].kind == "vector")
        self.restore(inner)
        return red.finish(self, accs)[node.out]


def _tail(node: Node, k: int) -> tuple[int, ...]:
    return node.shape[k:]


class _Phase:
    """Members of a nest whose loops run together: values with this tail, and reductions over it."""

    def __init__(self, tail: tuple[int, ...]) -> None:
        self.tail = tail
        self.values: list[Node] = []
        self.reds: list[Reduction] = []


def _phases(nest: Nest) -> tuple[list[_Phase], set[Node]]:
    """The phases in order, and the members that a later phase reads from memory."""
    k, lanes = nest.k, nest.lanes
    level: dict[Node, int] = {}
    keys: dict[Node, Any] = {}
    in_memory: set[Node] = set()
    found: dict[Any, _Phase] = {}
    for m in nest.members:
        red = m.red if m.kind == "red" else None
        if red is not None:
            simple = len(m.shape) == k
            tail = red.extents
            trailing = simple and red.kept == tuple(range(k))
            few = not (simple or lanes) and _keeps_few(red, k)
            edges = _operand_edges(red)
        else:
            tail, simple, trailing, few, edges = _tail(m, k), True, True, False, m.roots
        depth = 0
        same: list[tuple[Node, bool]] = []
        for dep, axes in edges:
            if dep.nest is not nest or dep is m or dep.kind == "leaf":
                continue
            identical = axes is None or axes == tuple(range(len(dep.shape)))
            joined = (
                dep.kind == "pw"
                and identical
                and (trailing or few)
                and _tail(dep, k) == tail
                and len(dep.shape) == k + len(tail)
            )
            depth = max(depth, level[dep] + (0 if joined else 1))
            same.append((dep, joined))
        level[m] = depth
        # Reductions with several results appear once; those that keep a long tail run alone.
        key: Any = (depth, tail, True) if simple and (trailing or lanes) else (depth, tail, red)
        if red is not None and not simple:
            key = (depth, tail, red.kept, red.shape)
        home = (depth, tail, True)
        others = {(r.kept, r.shape) for r in found[home].reds} if home in found else set()
        if few and red is not None and others <= {(red.kept, red.shape)}:
            key = home if any(j and keys[dep] == home for dep, j in same) else key
        elif key == home and red is not None and others - {(red.kept, red.shape)}:
            key = (depth, tail, red.kept)
        keys[m] = key
        for dep, joined in same:
            if _tail(dep, k) and not (joined and keys[dep] == key):
                in_memory.add(dep)
        phase = found.setdefault(key, _Phase(tail))
        if red is None:
            phase.values.append(m)
        elif red not in phase.reds:
            phase.reds.append(red)
    return sorted(
        found.values(), key=lambda p: min(level[m] for m in _members(p) if m in level)
    ), in_memory


def _keeps_few(red: Reduction, k: int) -> bool:
    """Whether a reduction keeps, besides k axes of rows, only axes behind the reduced ones that are
    so short that each index has accumulators of its own."""
    return red.kept[:k] == tuple(range(k)) and len(red.kept) == k + red.small_tail


def _members(p: _Phase) -> list[Node]:
    return [*p.values, *(n for r in p.reds for n in r.nodes)]


def _operand_edges(red: Reduction) -> list[tuple[Node, Any]]:
    """The roots a reduction reads, with axes in its iteration space."""
    out: list[tuple[Node, Any]] = []
    for dep, axes in red.deps:
        if dep.kind == "leaf":
            continue
        if dep.root:
            out.append((dep, axes))
        else:
            for root, inner in dep.roots or ():
                composed = (
                    inner
                    if axes is None
                    else axes
                    if inner is None
                    else tuple(None if a is None else axes[a] for a in inner)
                )
                out.append((root, composed))
    return out


def emit_nest(b: Builder, nest: Nest) -> None:
    """Writes the statements of a nest into the builder's current scope."""
    k, members = nest.k, nest.members
    if any(0 in m.shape[:k] for m in members):
        for m in members:
            m.ready = m.slot is not None
        return
    before = _before_reshape(members[0]) if len(members) == 1 else None
    if before is not None:
        emit_nest(b, _nest_of(nest, before))
        members[0].ready = True
        return
    if not folds(nest) or not _emit_folded(b, nest):
        _emit_apart(b, nest)
    for m in members:
        if m.stored:
            m.ready = True


def _emit_folded(b: Builder, nest: Nest) -> bool:
    """The last two axes of values element by element in one loop; False, and nothing is written,
    where what these read does not lie side by side. See folded.py."""
    k, members = nest.k, nest.members
    rows = members[0].shape[:k]
    broken = set().union(*(row_breaks(m, k) for m in members)) - {k - 2}
    groups = grouped(rows, broken.__contains__)
    phases, in_memory = _phases(nest)
    if any(p.tail or p.reds for p in phases):
        return False
    parallel = nest.work > (LANES_WORK if b.repeated and not _picks(members) else PARALLEL_WORK)

    def body(indices: list[Index]) -> None:
        idx: list[Index] = []
        for g, ix in zip(groups, indices, strict=True):
            idx += b.unravel(ix, [rows[a] for a in g])
        _emit_rows(b, nest, phases, in_memory, tuple(idx), True, False)

    extents = [math.prod(rows[a] for a in g) for g in groups]
    emit = lambda: open_rows(b, extents, True, parallel, body, pieces=1)
    return emitted_folded(b, extents[-1], emit)


def _emit_apart(b: Builder, nest: Nest) -> None:
    """The loops of a nest over as few axes as what it reads allows."""
    k, members = nest.k, nest.members
    narrow = narrow_axes(nest)
    if narrow:  # the last axes are too short for lanes: they run along the one before them
        nest.k = k = k - narrow
    rows = members[0].shape[:k]
    broken: set[int] = set()
    for m in members:
        broken |= row_breaks(m, k)
    inner = None if narrow else short_inside(nest)
    if inner is not None:
        broken |= {inner - 1, inner}
    groups = [g for g in grouped(rows, broken.__contains__) if g != [inner]]
    across = 0 < k < max(len(m.shape) for m in members) and in_lanes_across(members, k)
    lanes = (
        narrow > 0
        or across
        or (
            bool(k)
            and all(len(m.shape) == k for m in members)
            and (nest.lanes or not any(m.kind == "red" for m in members))
        )
    )
    quick = lanes and b.repeated and not _picks(members)
    parallel = nest.work > (LANES_WORK if quick else PARALLEL_WORK)
    phases, in_memory = _phases(nest)
    if narrow or across:
        in_memory = set()  # every element of a row is known where it is read
    extents = [math.prod(rows[a] for a in g) for g in groups]
    short = set() if lanes else _short(nest, math.prod(rows))
    b.literal |= short

    def body(indices: list[Index]) -> None:
        idx: list[Index] = []
        for g, ix in zip(groups, indices, strict=True):
            idx += b.unravel(ix, [rows[a] for a in g])
        for c in range(1 if inner is None else rows[inner]):
            at = idx if inner is None else [*idx[:inner], c, *idx[inner:]]
            _emit_rows(b, nest, phases, in_memory, tuple(at), lanes, parallel and not k)

    period = max((_period(m) for m in members), default=1) if lanes else 1
    simple = lanes and not any(p.tail or p.reds for p in phases)
    turned = turned_reads(nest) if simple and period == 1 and not narrow else None
    if parallel and len(groups) == 1 and not narrow and _is_tall(nest, phases):
        _emit_tall(b, phases)
    elif turned is not None:
        rows_at = lambda idx: _emit_rows(b, nest, phases, in_memory, idx, lanes, False)
        emit_turned(b, nest, turned, parallel, rows_at)
    elif (
        simple
        and period == 1
        and not narrow
        and _short_rows(extents, members)
        and _emit_short_rows(b, extents, parallel, body)
    ):
        pass
    else:
        chunk = chunk_of_columns(members, extents[-1] if extents else 1)
        cut = simple or (narrow > 0 and all(m.kind == "pw" for m in members))
        pieces = math.prod(members[0].shape[k:]) if cut else 0
        open_rows(b, extents, lanes, parallel, body, period, pieces, chunk, abreast=bool(short))


def _short_rows(extents: Sequence[int], members: Sequence[Node]) -> bool:
    """Whether rows are many and fill no vector, or few and a part of one more; wide rows, and those
    of which that is most, only if there is something to compute."""
    if len(extents) != 2 or extents[0] < FEW_ROWS or not 8 < extents[1] < 8 * WORDS:
        return False
    columns, rest = extents[1], extents[1] % WORDS
    if columns > WORDS and _picks(members, "of_rows"):
        return False  # each would be fetched from somewhere for every vector of columns
    if sum(m.cost for m in members) > CHEAP:
        return rest > 0
    return 0 < rest and columns < 4 * WORDS and (rest <= 12 or columns > 2 * WORDS)


def _emit_short_rows(
    b: Builder, extents: Sequence[int], parallel: bool, body: Callable[[list[Index]], None]
) -> bool:
    """Row after row for one vector of columns: what all rows have in common, and the mask of the
    lanes, stay in registers. False, and nothing is written, where conditions on a column change
    and rows are wide enough to be written in pieces, inside which they are known."""
    rows, columns = extents
    size = CHUNK // columns
    seen: list[Ix] = []

    def chunk(lo: Atom | None, hi: Atom | None) -> None:
        def column(j: Index) -> Sequence[Atom]:
            seen.extend([j] if isinstance(j, Ix) else [])

            def row(i: Index) -> Sequence[Atom]:
                body([i, j])
                return ()

            pieces_of(b, rows, "seq", row, lo, hi)
            return ()

        b.loop(columns, "vector", column)

    def part(c: Index) -> Sequence[Atom]:
        lo = b.atom(b.mul(c, size))
        chunk(lo, b.let("min", (b.let("add", (lo, b.dim(size)), "i64"), b.dim(rows)), "i64"))
        return ()

    if parallel and rows > size:
        b.loop(-(-rows // size), "parallel", part)
    else:
        chunk(None, None)
    if columns < SHORT or not any(b.cuts.get(j.terms[0][0]) for j in seen):
        return True
    b.scopes[-1].stmts.pop()
    return False


def _picks(members: Sequence[Node], what: str = "one_by_one") -> bool:
    """Whether elements are picked one by one from somewhere, which takes far longer in lanes than
    arithmetic does; or whole rows are."""
    stack, seen = list(members), set(members)
    while stack:
        node = stack.pop()
        if getattr(node.at, what, False):
            return True
        inner = {dep for dep, _ in node.deps if not dep.root} - seen
        seen |= inner
        stack += inner
    return False


def _before_reshape(m: Node) -> Node | None:
    """What a stored value that merges axes was computed as: the elements lie in memory in the same
    order, and indices of that shape need not be divided. None if it is none."""
    x = m.reshaped
    if not m.stored or m.slot is None or x is None or isinstance(m.slot, RegisterSlot):
        return None
    if x.kind != "pw" or x.root or x.slot is not None or not merges(x.shape, m.shape):
        return None
    same = copy.copy(x)
    same.slot, same.stored, same.root = m.slot, True, True
    return same


def _nest_of(nest: Nest, m: Node) -> Nest:
    """A nest of one value, that does the work of another."""
    alone = Nest(nest.index)
    alone.k, alone.members, alone.leaves, alone.work = len(m.shape), [m], nest.leaves, nest.work
    m.nest = alone
    return alone


def _short(nest: Nest, rows: int) -> set[int]:
    """Lengths of rows, where there are many short ones: code that knows the length needs no loop,
    and what a loop costs is more than what a few vectors do."""
    reds = [m.red for m in nest.members if m.kind == "red" and m.red is not None]
    lengths = {math.prod(red.extents) for red in reds}
    lengths |= {red.extents[-1] for red in reds if len(red.extents) > 1}
    return {n for n in lengths if n <= SHORT_REDUCED} if rows >= MANY_ROWS else set()


def _period(m: Node) -> int:
    """After how many elements of the last axis a value is computed alike: padding between elements
    is known to be padding then."""
    seen: set[Node] = set()

    def of(node: Node) -> int:
        if node in seen or node.kind == "leaf" or (node.root and node is not m):
            return 1
        seen.add(node)
        inner = 1
        last = len(node.shape) - 1
        for dep, axes in node.deps if node.kind == "pw" else ():
            if dep.shape and (
                node.period > 1 or axes is None or (axes[-1] == last and len(dep.shape) > 0)
            ):
                inner = max(inner, of(dep))
        both = node.period * inner
        return both if both <= LONGEST_PERIOD else node.period if node.period > 1 else inner

    return min(of(m), LONGEST_PERIOD)


def open_rows(
    b: Builder,
    extents: Sequence[int],
    lanes: bool,
    parallel: bool,
    body: Callable[[list[Index]], None],
    period: int = 1,
    pieces: int = 0,
    chunk: int = CHUNK,
    abreast: bool = False,
) -> None:
    """The row loops: the first long one parallel, the last one in lanes if asked, or of short
    rows that may run side by side (`abreast`). With a period, a lane computes so many
    neighbours, each by code of its own. Of so many elements an index as `pieces` says, loops may
    be cut where conditions on an index change (`body` can be written more than once). Threads
    take lanes by the `chunk`."""
    cut = pieces > 0 and worth_pieces(extents, b.repeated, pieces)

    def descend(level: int, indices: list[Index], parallel: bool) -> None:
        if level == len(extents):
            body(indices)
            return
        n = extents[level]
        last = level == len(extents) - 1
        if lanes and last and period > 1:
            rest = n - n % period
            if n >= period:

                def neighbours(ix: Index) -> None:
                    for k in range(period):
                        body([*indices, b.add(b.mul(ix, period), k)])

                open_rows(b, [n // period], True, parallel, lambda ix: neighbours(ix[0]))
            for k in range(rest, n):
                body([*indices, k])
            return
        if lanes and last and parallel and n > chunk:
            _chunked(b, n, chunk, lambda ix: descend(level + 1, [*indices, ix], False), cut)
            return
        kind = "vector" if lanes and last else "parallel" if parallel and n >= 4 else "seq"
        if kind == "seq" and abreast and last:
            kind = "rows"

        def run(ix: Index) -> Sequence[Atom]:
            descend(level + 1, [*indices, ix], parallel and kind != "parallel")
            return ()

        if cut and last:
            lane_pieces(b, n, run)
        elif cut:
            branches(b, n, kind, run)
        else:
            b.loop(n, kind, run)

    descend(0, [], parallel)


def _chunked(b: Builder, n: int, size: int, body: Callable[[Index], None], pieces: bool) -> None:
    """A flat loop as parallel chunks of vector loops."""

    def chunk(c: Index) -> Sequence[Atom]:
        lo = b.atom(b.mul(c, size))
        hi = b.let("min", (b.let("add", (lo, b.dim(size)), "i64"), b.dim(n)), "i64")

        def run(ix: Index) -> Sequence[Atom]:
            body(ix)
            return ()

        if pieces:
            lane_pieces(b, n, run, lo, hi)
        else:
            b.loop(n, "vector", run, lo=lo, hi=hi)
        return ()

    b.loop(-(-n // size), "parallel", chunk)


def _emit_rows(
    b: Builder,
    nest: Nest,
    phases: Sequence[_Phase],
    in_memory: set[Node],
    idx: tuple[Index, ...],
    lanes: bool,
    parallel: bool,
) -> None:
    """The phases of one row (of one lane of rows when `lanes`)."""
    k = nest.k
    own_at = {m: m.at for m in nest.members}
    for m in nest.members:
        if m in in_memory and not m.stored:
            _give_scratch(b, m, k)
    for phase in phases:
        if not phase.tail and not phase.reds:
            for m in phase.values:
                value = _value(b, m, idx, own_at[m])
                if m.stored:
                    assert m.slot is not None
                    store_slot(b, m.slot, m.shape, m.dtype, idx, value)
            continue
        _emit_phase(b, nest, phase, idx, lanes, parallel, own_at)
        for m in _members(phase):
            if m.stored and m.live:
                m.ready = True
    for m in nest.members:
        m.at, m.out_scratch = own_at[m], None


def _is_tall(nest: Nest, phases: Sequence[_Phase]) -> bool:
    """Whether a nest is reductions down a few long columns, followed by single values only."""
    first, *rest = phases
    alone = first.reds and not first.values and not any(p.reds or p.tail for p in rest)
    return bool(alone) and nest.lanes and is_tall(first.reds, rows_of(first.reds))


def _emit_tall(b: Builder, phases: Sequence[_Phase]) -> None:
    """Reductions down columns, and the single values that follow."""

    def finish(targets: Targets, accs: list[Atom]) -> None:
        _finish(b, targets, accs)
        kept = targets[0][1]
        for m in (m for p in phases[1:] for m in p.values):
            value = _value(b, m, kept, m.at)
            if m.stored:
                assert m.slot is not None
                store_slot(b, m.slot, m.shape, m.dtype, kept, value)

    reduce_tall(b, phases[0].reds, finish)


def _finish(b: Builder, targets: Targets, accs: list[Atom]) -> None:
    """The results of reductions in lanes, from their accumulators."""
    for red, kept in targets:
        results = red.finish(b, accs[: len(red.dtypes)])
        del accs[: len(red.dtypes)]
        for m in (m for m in red.nodes if m.live):
            _remember(b, m, kept, results[m.out])
            if m.stored:
                assert m.slot is not None
                store_slot(b, m.slot, m.shape, m.dtype, kept, results[m.out])


def _value(b: Builder, m: Node, idx: tuple[Index, ...], at: Any) -> Any:
    """A member's element, computed (not loaded) and remembered."""
    level = b.region_level
    for i in idx:
        if not isinstance(i, int):
            level = max(level, i.level)
    memo, key = b.scopes[level].memo, (m, idx, b.mask)
    if key not in memo:
        memo[key] = at(b, idx)
    return memo[key]


def _give_scratch(b: Builder, m: Node, k: int) -> None:
    """Row scratch for a value that a later phase of the same row reads."""
    tail, parts = m.shape[k:], 2 if m.dtype in COMPLEX else 1
    slot = Slot(m.dtype, tail, "temp")
    buf = b.scratch(part_dtype(m.dtype), math.prod(tail) * parts)
    b.bound[slot] = buf
    m.at = lambda b, idx: load_slot(b, slot, tail, m.dtype, idx[k:])
    m.out_scratch = slot


def _emit_phase(
    b: Builder,
    nest: Nest,
    phase: _Phase,
    idx: tuple[Index, ...],
    lanes: bool,
    parallel: bool,
    own_at: dict[Node, Any],
) -> None:
    k = nest.k

    def put(m: Node, full: tuple[Index, ...], value: Any) -> None:
        if m.stored:
            assert m.slot is not None
            store_slot(b, m.slot, m.shape, m.dtype, full, value)
        elif m in nest.members and m.out_scratch is not None:
            store_slot(b, m.out_scratch, m.shape[k:], m.dtype, full[k:], value)

    def values(inner: tuple[Index, ...]) -> None:
        for m in phase.values:
            put(m, (*idx, *inner), _value(b, m, (*idx, *inner), own_at[m]))

    if lanes and not phase.reds:
        for flat in range(math.prod(phase.tail)):
            values(b.unravel(flat, phase.tail))
        return
    if not phase.reds:
        _walk_values(b, phase.tail, {a - k for m in phase.values for a in breaks_of(m)}, values)
        return
    kept_tail = phase.reds[0].nodes[0].shape[k:]
    targets: Targets

    def finish(accs: list[Atom]) -> None:
        for red, kept in targets:
            n = len(red.dtypes)
            results = red.finish(b, accs[:n])
            del accs[:n]
            for m in red.nodes:
                if m.live:
                    _remember(b, m, kept, results[m.out])
                    put(m, kept, results[m.out])

    # The last of a row's kept axes may be so small that each index has accumulators of its own.
    outer = len(kept_tail) - phase.reds[0].small_tail

    def at_once(row: tuple[Index, ...], small: tuple[int, ...]) -> Targets:
        return [
            (red, (*row, *b.unravel(flat, small)))
            for red in phase.reds
            for flat in range(math.prod(small))
        ]

    if outer > 0 and not lanes:

        def run(inner: tuple[Index, ...]) -> None:
            nonlocal targets
            targets = at_once((*idx, *inner), kept_tail[outer:])
            finish(reduce_loops(b, targets, [], (), lanes))

        short = math.prod(phase.reds[0].extents) in b.literal
        _walk(b, kept_tail[:outer], set(range(outer)), "rows" if short else "seq", run)
        return
    targets = at_once(idx, kept_tail)
    work = sum(work_of(n) for r in phase.reds for n in r.nodes[:1])
    if parallel and work > PARALLEL_WORK and not phase.values:
        accs = parallel_reduce(b, targets, phase.tail)
    else:
        accs = reduce_loops(b, targets, phase.values, idx, lanes, values)
    finish(accs)


def _walk_values(
    b: Builder, tail: tuple[int, ...], broken: set[int], body: Callable[[tuple[Index, ...]], None]
) -> None:
    """Lanes along the last axis of a tail; across rows, where these are too short for them."""
    last = len(tail) - 1
    if last < 1 or not 1 < tail[-1] <= SHORT_TAIL or tail[-2] < WORDS or last - 1 not in broken:
        _walk(b, tail, broken, "vector", body, worth_pieces(tail, b.repeated))
        return

    def row(idx: tuple[Index, ...]) -> None:
        for column in range(tail[-1]):
            body((*idx, column))

    _walk(b, tail[:-1], broken, "vector", row)


def _remember(b: Builder, m: Node, kept: tuple[Index, ...], value: Any) -> None:
    level = b.region_level
    for i in kept:
        if not isinstance(i, int):
            level = max(level, i.level)
    b.scopes[level].memo[m, kept, b.mask] = value


def _walk(
    b: Builder,
    extents: tuple[int, ...],
    broken: set[int],
    kind: str,
    body: Callable[[tuple[Index, ...]], None],
    pieces: bool = False,
) -> None:
    """Loops over a box: outer ones in order, the innermost of the given kind, in lanes also in
    pieces."""
    groups = grouped(extents, broken.__contains__)
    sizes = [math.prod(extents[a] for a in g) for g in groups]

    def descend(level: int, idx: tuple[Index, ...]) -> None:
        if level == len(groups):
            body(idx)
            return

        def run(ix: Index) -> Sequence[Atom]:
            descend(level + 1, (*idx, *b.unravel(ix, [extents[a] for a in groups[level]])))
            return ()

        last = level == len(groups) - 1
        if pieces and last:
            lane_pieces(b, sizes[level], run)
        else:
            b.loop(sizes[level], kind if last else "seq", run)

    descend(0, ())
