"""Prefix loops: whole vectors where their order allows, else one element after the other."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm.analysis import free_names, has
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.emit import Emitter
from pullback.backends.llvm.emit_loops import lane_count
from pullback.backends.llvm.emit_reduce import Reductions
from pullback.backends.llvm.shuffles import shuffled
from pullback.backends.llvm.strides import is_unit, lane_by_lane
from pullback.loops.ir import (
    Alloc,
    Call,
    For,
    If,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Update,
    Var,
    While,
)

__all__ = ["Scans", "scans_in_lanes", "split_scan"]

SIDE_BY_SIDE = 8  # vectors of a prefix of one carry: the steps of each wait for each other


class Scans(Reductions):
    """The rules of prefix loops."""

    def scan(self, e: Emitter, s: For) -> None:
        """Inclusive prefix: what the yields need runs first, then the carries are updated, then the
        rest of the body."""
        bounds = [e.scalar_index(a) for a in (s.lo, s.hi, s.step)]
        if any(v is None for v in bounds):
            raise AssertionError(
                "internal error in pullback: a scan whose bounds differ from lane to lane"
            )
        lo, hi, step = (v for v in bounds if v is not None)
        e.module.straight, e.hot = False, True
        late, early = split_scan(s)

        def body(i: Val, carries: list[Val]) -> list[Val]:
            self.enter(e, s, i)
            e.statements(early)
            new = self.merge(e, s, carries, self.yielded(e, s.yields))
            e.bind_carries(s.carry, new)
            e.statements(late)
            return [e.full(v) for v in new]

        e.depth += 1
        inits = [e.full(e.val(c.init)) for c in s.carry]
        if e.lanes == 1 and not e.in_lanes and is_unit(s) and scans_in_lanes(s):
            lo, inits = self.scan_lanes(e, s, lo, hi, inits, early, late)
        outs = e.b.loop(lo, hi, step, inits, body)
        e.depth -= 1
        e.bind_results(s.carry, outs)

    def scan_lanes(
        self,
        e: Emitter,
        s: For,
        lo: Val,
        hi: Val,
        inits: list[Val],
        early: Sequence[Stmt],
        late: Sequence[Stmt],
    ) -> tuple[Val, list[Val]]:
        """A prefix of whole vectors, some at a time: each one's own prefixes in log2(lanes) steps,
        then what came before it is combined with all of them. Returns where it ends, and the
        carries there."""
        b, lanes = e.b, lane_count(e, s)
        middle = hi - self.remainder(e, hi - lo, lanes)
        zero = self.identities(e, s)

        def shifted(v: Val, by: int, fill: Val | None) -> Val:
            """Lane k has what lane k - by had; the first ones have `fill`, or what they had."""
            vt = f"<{lanes} x {v.t}>"
            picks = [k - by if k >= by else k if fill is None else lanes for k in range(lanes)]
            regs = []
            for own in v.regs:
                other = own if fill is None else b.spread(fill, lanes)[0]
                regs.append(shuffled(b, vt, own, other, picks))
            return Val(b, v.t, lanes, tuple(regs))

        def prefixes(values: list[Val]) -> list[Val]:
            by = 1
            while by < lanes:
                if zero is not None:
                    moved = [shifted(v, by, z) for v, z in zip(values, zero, strict=True)]
                    values = self.merge(e, s, moved, values)
                else:
                    moved = [shifted(v, by, None) for v in values]
                    inside = b.compare("ge", b.lanes_of("i32", lanes), b.lit(by, "i32"))
                    merged = self.merge(e, s, moved, values)
                    values = [b.select(inside, m, v) for m, v in zip(merged, values, strict=True)]
                by *= 2
            return values

        def last(v: Val, reg: str) -> Val:
            end = b.extract(reg, v.t, lanes, lanes - 1)
            return b.splat(Val(b, v.t, 1, (end,)), lanes)

        def run(i: Val, accs: list[Val], width: int) -> list[Val]:
            e.poll()
            e.lanes, e.width, e.mask = lanes, width, None
            self.bind_lanes(e, s, i)
            e.statements(early)
            values = prefixes([e.full(v) for v in self.yielded(e, s.yields)])
            e.width, before = 1, []
            for k in range(width):
                before.append(accs)
                accs = self.merge(e, s, accs, [last(v, v.regs[k]) for v in values])
            e.width = width
            sides = [tuple(v.regs[0] for v in c) for c in zip(*before, strict=True)]
            wide = [Val(b, v.t, lanes, regs) for v, regs in zip(values, sides, strict=True)]
            e.bind_carries(s.carry, self.merge(e, s, wide, values))
            e.statements(late)
            e.lanes, e.width = 1, 1
            return accs

        wide = [Val(b, v.t, lanes, b.spread(v, lanes)) for v in inits]
        width = 1 if e.module.brief else max(1, SIDE_BY_SIDE >> (len(s.carry) - 1))
        if width > 1:
            many = hi - self.remainder(e, hi - lo, lanes * width)
            wide = b.loop(lo, many, lanes * width, wide, lambda i, accs: run(i, accs, width))
            lo = many
        accs = b.loop(lo, middle, lanes, wide, lambda i, accs: run(i, accs, 1))
        firsts = [Val(b, v.t, 1, (b.extract(v.regs[0], v.t, lanes, 0),)) for v in accs]
        return middle, firsts


def scans_in_lanes(s: For) -> bool:
    """Whether a prefix loop runs in lanes: straight code, accesses that are contiguous."""
    region = s.combine.body if isinstance(s.combine, Region) else ()
    straight = not has((*s.body, *region), Call, Alloc, Update, For, While, If)
    return straight and not lane_by_lane(s)


def split_scan(s: For) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """(statements that need the updated carries, statements that come before)."""
    tainted: set[object] = {c.var for c in s.carry}
    late: list[Stmt] = []
    early: list[Stmt] = []
    for stmt in s.body:
        reads, _ = free_names([stmt])
        effect = has([stmt], Store, Update, Call) and bool(late)
        if effect or any(v in tainted for v in reads):
            late.append(stmt)
            tainted.update(_outs(stmt))
        else:
            early.append(stmt)
    return tuple(late), tuple(early)


def _outs(s: Stmt) -> list[Var]:
    if isinstance(s, (Let, Load)):
        return [s.out]
    if isinstance(s, (For, While)):
        return [c.out for c in s.carry]
    return list(s.outs) if isinstance(s, (If, Call)) else []
