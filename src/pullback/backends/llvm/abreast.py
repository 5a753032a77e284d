"""Rows side by side: of a loop over many short rows, each row's loops run in lanes along the row,
one row after the other, and what is computed once a row runs in lanes across them.

    for rows i:                     for rows i by G:
      reduce k: a[i, k] -> m          for g in 0..G: vectors of a[i + g, :] -> slot[g]
      t = log(m)                      m[0:G] = fold of all slots together
      out[i] = t                      t[0:G] = log(m[0:G]);  out[i:i+G] = t[0:G]

A row of twenty numbers is two vectors, but adding the lanes of one takes a shuffle and an addition
for each halving, each waiting for the one before. Of G rows together, a halving of two rows fills
one vector: G - 1 additions in the place of G * log2(G), and none waits. The lanes are halved as
`fold` halves them, so that results are the same bits. Where elements are to be added in order of
their index (`seq` loops of up to 16), the G vectors are transposed, and then added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.backends.llvm.access import Lin
from pullback.backends.llvm.analysis import free_names, trip
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.convert import register_type
from pullback.backends.llvm.emit import Emitter
from pullback.backends.llvm.emit_loops import maskable, tail_mask
from pullback.backends.llvm.literals import BITS
from pullback.backends.llvm.shuffles import shuffled, transposed
from pullback.backends.llvm.strides import is_unit, lane_by_lane
from pullback.loops.ir import Alloc, Atom, Buf, For, Let, Load, Stmt, Store, Var
from pullback.loops.ops import storage_bytes
from pullback.records import record

if TYPE_CHECKING:
    from pullback.backends.llvm.emit_reduce import Reductions

__all__ = ["Rows", "rows_abreast", "run_abreast"]

LONGEST = 128  # elements of a row
MOST_IN_ORDER = 16  # elements of a row that are combined in order
SCRATCH = 1 << 14  # bytes, of all rows that run together


@record
class Rows:
    """A loop over rows that may run so."""

    loop: For
    body: tuple[Stmt, ...]  # without the allocations of scratch
    scratch: tuple[Buf, ...]
    together: int  # rows
    counted: tuple[Let, ...]  # indices, which are counted again for each row
    across: tuple[Stmt, ...]  # of the body, what lanes across rows compute, and the loops
    ordered: dict[int, For]  # by `id`, loops that combine in order, as reductions


def rows_abreast(e: Emitter, s: For, vectors: Any) -> Rows | None:
    """The loop as rows side by side, if it is of that kind. `vectors` says which reductions run in
    lanes."""
    if e.lanes > 1 or e.in_lanes or s.carry or not is_unit(s) or e.module.brief or e.module.alone:
        return None
    scratch: list[Buf] = []
    body = _flat(s.body, scratch)
    ordered = {id(x): found for x in body if (found := _in_order(x)) is not None}
    loops = [ordered.get(id(x), x) for x in body if isinstance(x, For)]
    if not any(x.kind == "reduce" for x in loops):
        return None
    if not all(_short(e, x, vectors) for x in loops):
        return None
    if not all(isinstance(x, (Let, Load, Store, For)) for x in body):
        return None
    wide = any(_bytes(x) == 8 for x in body)
    together = e.target.lanes(8 if wide else 4)
    if any(2 * (trip(x.lo, x.hi, x.step) or 0) <= together for x in ordered.values()):
        return None
    sizes = [_size(buf) for buf in scratch]
    if None in sizes or sum(n or 0 for n in sizes) * together > SCRATCH:
        return None
    own = [x for x in body if isinstance(x, (Load, Store)) and x.buf in scratch]
    read = {b for x in loops for b in free_names([x])[1]}
    if any(isinstance(x, Load) or x.buf in read for x in own):
        return None  # of one number a row, which lanes would have to share
    counted = _counted(s, body)
    across = _across(body, counted, scratch)
    return Rows(s, body, tuple(scratch), together, counted, across, ordered)


def _in_order(s: Stmt) -> For | None:
    """A loop that combines what its elements are one after the other, as a reduction: its elements
    are computed without what is carried, and combined by named operations."""
    if not isinstance(s, For) or s.kind != "seq" or not s.carry or not is_unit(s):
        return None
    n, carried = trip(s.lo, s.hi, s.step), {c.var for c in s.carry}
    if n is None or n > MOST_IN_ORDER:
        return None
    body: list[Stmt] = []
    steps: dict[Atom, Let] = {}
    for x in s.body:
        if carried.isdisjoint(free_names([x])[0]):
            body.append(x)
        elif isinstance(x, Let):
            steps[x.out] = x
        else:
            return None
    values: list[Atom] = []
    combine: list[str] = []
    for c, y in zip(s.carry, s.yields, strict=True):
        step = steps.pop(y, None)
        if step is None or len(step.args) != 2 or step.args[0] is not c.var:
            return None
        values.append(step.args[1])
        combine.append(step.op)
    if steps or any(v in carried for v in values):
        return None
    return For(
        s.index, s.lo, s.hi, s.step, "reduce", s.carry, tuple(body), tuple(values), tuple(combine)
    )


def _flat(body: Sequence[Stmt], scratch: list[Buf]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc):
            scratch.append(s.buf)
            out += _flat(s.body, scratch)
        else:
            out.append(s)
    return tuple(out)


def _size(buf: Buf) -> int | None:
    total = storage_bytes(buf.dtype)
    for d in buf.shape:
        if not isinstance(d, int):
            return None
        total *= d
    return -(-total // 64) * 64


def _bytes(s: Stmt) -> int:
    """The bytes of a number that lanes across rows compute with."""
    if isinstance(s, (Let, Load)):
        types = [s.out.dtype]
    elif isinstance(s, For):
        types = [c.out.dtype for c in s.carry]
    else:
        types = []
    return max((8 for t in types if t == "f64"), default=4)


def _short(e: Emitter, s: For, vectors: Any) -> bool:
    """Whether a row's loop is straight code over a few vectors."""
    n = trip(s.lo, s.hi, s.step)
    if n is None or not 0 < n <= LONGEST or not is_unit(s):
        return False
    if not all(isinstance(x, (Let, Load, Store)) for x in s.body):
        return False
    if s.kind == "reduce" and not vectors(s):
        return False
    return s.kind in ("reduce", "vector") and maskable(e, s.body) and not lane_by_lane(s)


def _counted(s: For, body: Sequence[Stmt]) -> tuple[Let, ...]:
    """The indices that follow from the row's own by arithmetic."""
    found: list[Let] = []
    known: set[Var] = {s.index}
    defined = {x.out for x in body if isinstance(x, (Let, Load))}
    defined |= {c.out for x in body if isinstance(x, For) for c in x.carry}
    for x in body:
        if isinstance(x, Let) and x.out.dtype == "i64":
            if all(not isinstance(a, Var) or a in known or a not in defined for a in x.args):
                known.add(x.out)
                found.append(x)
    return tuple(found)


def _across(
    body: Sequence[Stmt], counted: Sequence[Let], scratch: Sequence[Buf]
) -> tuple[Stmt, ...]:
    """What is left for lanes across rows: not indices that only the rows' loops need."""
    wanted: set[Atom] = set()
    own = set(map(id, counted))
    out: list[Stmt] = []
    for x in reversed(body):
        if isinstance(x, For):
            wanted.update(c.init for c in x.carry)
        elif isinstance(x, Store):
            if x.buf in scratch:
                continue  # nobody reads it
            wanted.update((*x.index, x.value, *(() if x.mask is None else (x.mask,))))
        elif isinstance(x, Let):
            if id(x) in own and x.out not in wanted:
                continue
            wanted.update(x.args)
        elif isinstance(x, Load):
            more = (a for a in (x.mask, x.other) if a is not None)
            wanted.update((*x.index, *more))
        out.insert(0, x)
    return tuple(out)


def run_abreast(loops: Reductions, e: Emitter, rows: Rows, first: Val, last: Val) -> None:
    """The rows from `first` to `last`. Without masks, those that fill no vector run alone."""
    b, size, s = e.b, rows.together, rows.loop
    e.module.straight, e.hot = False, True
    spaces = {buf: b.alloca((_size(buf) or 64) * size) for buf in rows.scratch}
    middle = last if e.target.masks else last - loops.remainder(e, last - first, size)

    def group(i: Val, _: list[Val]) -> list[Val]:
        e.poll()
        _Group(loops, e, rows, i, last, spaces).run()
        return []

    def alone(i: Val, _: list[Val]) -> list[Val]:
        e.env[s.index] = b.cast("trunc", i, register_type(s.index.dtype))
        e.statements(s.body)
        return []

    e.depth += 1
    b.loop(first, middle, size, [], group)
    if middle is not last:
        b.loop(middle, last, 1, [], alone)
    e.depth -= 1


class _Group:
    """The code of a few rows that run together."""

    def __init__(
        self, loops: Reductions, e: Emitter, rows: Rows, i: Val, last: Val, spaces: dict[Buf, Val]
    ) -> None:
        self.loops, self.e, self.rows, self.i, self.spaces = loops, e, rows, i, spaces
        size, self.mask = rows.together, None
        self.count = e.b.lit(size, "i64")
        if e.target.masks:
            self.count = e.b.call("smin", last - i, size)
            self.mask = tail_mask(e, i, last, size, 1)

    def run(self) -> None:
        e, waiting = self.e, []
        e.kept.clear()
        e.env[self.rows.loop.index] = Lin(self.i, e.b.lit(1, "i64"), self.rows.together, 1)
        for s in self.rows.across:
            if not isinstance(s, For):
                waiting.append(s)
                continue
            self.lanes(waiting)
            waiting = []
            self.each(s)
        self.lanes(waiting)
        e.kept.clear()

    def lanes(self, stmts: Sequence[Stmt]) -> None:
        e = self.e
        e.lanes, e.mask = self.rows.together, self.mask
        e.statements(stmts)
        e.lanes, e.mask = 1, None

    def each(self, s: For) -> None:
        """A loop of every row, one row after the other; of reductions, the results in lanes."""
        e, b, size = self.e, self.e.b, self.rows.together
        ordered = self.rows.ordered.get(id(s))
        s = s if ordered is None else ordered
        env, kept = dict(e.env), {x.out for x in self.rows.counted}
        names, _ = free_names([s])
        slots = []
        for v in names:
            if v in kept or v is self.rows.loop.index or v not in e.env:
                continue
            value = e.val(v)
            if not e.uniform(value):
                slots.append((v, value.t, self.spilled(value)))
        sums: list[Val] = []
        widths: list[int] = []

        def one(g: Val, _: list[Val]) -> list[Val]:
            e.env[self.rows.loop.index] = self.i + g
            for buf, space in self.spaces.items():
                e.buffers[buf] = b.gep(space, g * (_size(buf) or 64))
            e.statements(self.rows.counted)
            for v, t, slot in slots:
                raw = b.load("i8" if t == "i1" else t, b.gep(slot, g, _slot_bytes(t)))
                e.env[v] = raw.ne(0) if t == "i1" else raw
            if s.kind == "vector":
                self.loops.vector(e, s)
                return []
            whole = self.loops.vectors if ordered is not None else self.loops.one_vector
            for k, value in enumerate(whole(e, s)):
                if len(sums) == k:
                    widths.append(value.n * len(value.regs))
                    sums.append(b.alloca(size * widths[k] * _slot_bytes(value.t)))
                self.put(value, sums[k], g)
            return []

        e.depth += 1
        e.kept.clear()
        b.loop(0, self.count, 1, [], one)
        e.kept.clear()
        e.depth -= 1
        e.env.clear()
        e.env.update(env)
        if s.kind == "reduce":
            self.folded(s, sums, widths[0], ordered is not None)

    def spilled(self, value: Val) -> Val:
        """Memory that holds the lanes of a value."""
        b, size = self.e.b, self.rows.together
        slot = b.alloca(size * _slot_bytes(value.t))
        self.put(Val(b, value.t, size, b.spread(value, size)), slot, b.lit(0, "i64"))
        return slot

    def put(self, value: Val, slot: Val, g: Val) -> None:
        b, wide = self.e.b, value.n * _slot_bytes(value.t)
        raw = b.cast("zext", value, "i8") if value.t == "i1" else value
        first = b.gep(slot, g * (wide * len(raw.regs)))
        for k, reg in enumerate(raw.regs):
            place = b.gep(first, k * wide).regs[0]
            b.line(f"store <{raw.n} x {raw.t}> {reg}, ptr {place}, align {min(wide, 64)}")

    def folded(self, s: For, sums: Sequence[Val], width: int, in_order: bool) -> None:
        """The lanes of every row's vectors combined, a row to a lane."""
        e, size = self.e, self.rows.together
        columns = [
            self.loaded(slot, register_type(c.var.dtype), width, in_order)
            for slot, c in zip(sums, s.carry, strict=True)
        ]
        e.mask = self.mask
        inits = [e.val(c.init) for c in s.carry]
        if in_order:
            e.lanes = size
            outs = [e.full(v) for v in inits]
            for k in range(trip(s.lo, s.hi, s.step) or 0):
                outs = self.loops.merge(e, s, outs, [column[k] for column in columns])
        else:
            vectors = [list(row) for row in zip(*columns, strict=True)]
            values = _folded(self.loops, e, s, vectors, width)
            e.lanes = size
            outs = self.loops.merge(e, s, [e.full(v) for v in inits], values)
        e.lanes, e.mask = 1, None
        e.bind_results(s.carry, outs)

    def loaded(self, slot: Val, t: str, width: int, turned: bool) -> list[Val]:
        """What each row has put in a slot, a vector a row; or turned, a vector an element."""
        b, size = self.e.b, self.rows.together
        raw, bits = ("i8" if t == "i1" else t), _slot_bytes(t)
        part = size if turned else width
        columns: list[Val] = []
        for start in range(0, width, part):
            block = []
            for g in range(size):
                place = b.gep(slot, b.lit((g * width + start) * bits, "i64")).regs[0]
                at = f"ptr {place}, align {min(part * bits, 64)}"
                v = Val(b, raw, part, (b.impure_reg(f"load <{part} x {raw}>, {at}"),))
                block.append(v.ne(0) if t == "i1" else v)
            columns += _transposed(block) if turned else block
        return columns


def _transposed(rows: list[Val]) -> list[Val]:
    """As many vectors as each has lanes, with element k of vector j in lane j of vector k."""
    first = rows[0]
    regs = transposed(first.b, f"<{first.n} x {first.t}>", [row.regs[0] for row in rows])
    return [Val(first.b, first.t, first.n, (reg,)) for reg in regs]


def _folded(
    loops: Reductions, e: Emitter, s: For, vectors: list[list[Val]], width: int
) -> list[Val]:
    """One vector of the results of as many rows, each of which is in lanes of its own vector."""
    size, live = len(vectors), width
    while width > size:  # more lanes than rows: each row alone at first
        width = live = width // 2
        e.lanes = width
        vectors = [
            loops.merge(e, s, _half(row, None, 1, live, 0), _half(row, None, 1, live, live))
            for row in vectors
        ]
    rows = 1  # of a vector
    while live > 1:
        half = live // 2
        e.lanes = width
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            loops.merge(e, s, _half(x, y, rows, half, 0), _half(x, y, rows, half, half))
            for x, y in pairs
        ]
        rows, live = 2 * rows, half
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_joined(x, y) for x, y in pairs]
    return vectors[0]


def _half(x: list[Val], y: list[Val] | None, rows: int, half: int, start: int) -> list[Val]:
    """Of every row in x, and then in y, the lower or the upper half of its lanes."""
    out = []
    for k, v in enumerate(x):
        other = v if y is None else y[k]
        picks = [row * 2 * half + start + lane for row in range(rows) for lane in range(half)]
        picks += [] if y is None else [v.n + at for at in picks]
        out.append(_picked(v, other, picks))
    return out


def _joined(x: list[Val], y: list[Val]) -> list[Val]:
    return [_picked(v, w, list(range(2 * v.n))) for v, w in zip(x, y, strict=True)]


def _picked(x: Val, y: Val, picks: list[int]) -> Val:
    reg = shuffled(x.b, f"<{x.n} x {x.t}>", x.regs[0], y.regs[0], picks)
    return Val(x.b, x.t, len(picks), (reg,))


def _slot_bytes(t: str) -> int:
    return 1 if t == "i1" else BITS[t] // 8
