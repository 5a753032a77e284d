"""Prefixes (loops of kind `scan`) in code that is put together from stencils (see patched.py).

Whole vectors come first, as in LLVM's code: each one's own prefixes in log2(lanes) steps, then what
came before it is combined with all of them. What is left goes one by one, and so do prefixes that
no vector can compute where their order is all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm.analysis import trip
from pullback.backends.llvm.emit_scan import scans_in_lanes, split_scan
from pullback.backends.llvm.patch_code import Refused
from pullback.backends.llvm.patch_threads import Threads
from pullback.backends.llvm.strides import is_unit
from pullback.loops.ir import Atom, For, Region, Stmt
from pullback.loops.ops import FLOATS

__all__ = ["Prefixes"]


class Prefixes(Threads):
    """A kernel's function, with prefixes."""

    def scan(self, s: For) -> None:
        """A prefix, in lanes as LLVM's code has it, or in order."""
        late, early = split_scan(s)
        inits = [self.value(c.init) for c in s.carry]
        alone = self.n == 1 and not self.in_lanes and is_unit(s) and scans_in_lanes(s)
        start: Atom | int = s.lo
        if alone and not isinstance(s.combine, Region):
            found = self.scan_vectors(s, inits, early, late)
            if found is not None:
                start, inits = found
                alone = False
        if alone and not self.is_free(s):
            raise Refused
        types = [c.var.dtype for c in s.carry]
        places = self.begin_carries(s.carry, inits)

        def body() -> None:
            self.block(early)
            new = self.combine(s.combine, types, places, [self.value(y) for y in s.yields])
            self.carry_on(s.carry, places, new)
            self.block(late)

        sure = start is s.lo and bool(trip(s.lo, s.hi, s.step))
        times = self.trips.between(s.lo, s.hi, s.step)
        times = times if start is s.lo else times % self.lane_count(s)
        self.loop(self.index_of(s), start, self.at(s.hi), s.step, body, times, sure)
        self.end_carries(s.carry, places)

    def is_free(self, s: For) -> bool:
        """Whether any order gives the same bits."""
        ops = s.combine if isinstance(s.combine, tuple) else ("",) * len(s.carry)
        region = isinstance(s.combine, Region)
        return all(
            (c.var.dtype not in FLOATS and not region) or op in ("max", "min")
            for c, op in zip(s.carry, ops, strict=True)
        )

    def scan_vectors(
        self, s: For, inits: Sequence[int], early: Sequence[Stmt], late: Sequence[Stmt]
    ) -> tuple[int, list[int]] | None:
        """The prefix's whole vectors: the places of where they end and of what is carried from
        there; None if there is something without lanes."""
        n, types = self.lane_count(s), [c.var.dtype for c in s.carry]
        if not n or any(("shift", t, n, 1) not in self.stencils for t in types):
            return None
        from_before = [self.slot(self.lane_bytes(t, n)) for t in types]
        for t, init, at in zip(types, inits, from_before, strict=True):
            self.stencil(("splat", t, n), init, at)

        def each() -> None:
            values = self.own_prefixes(s, types, [self.value(y) for y in s.yields])
            ends = [self.slot(self.size(t)) for t in types]
            for t, value, end in zip(types, values, ends, strict=True):
                self.stencil(("last", t, n), value, end)
            after = self.combine(s.combine, types, from_before, ends)
            here = self.combine(s.combine, types, from_before, values)
            for c, at in zip(s.carry, here, strict=True):
                self.where.pop(c.var, None)
                self.wide[c.var] = at
            self.block(late)
            for t, at, value in zip(types, from_before, after, strict=True):
                self.copy(value, at, self.size(t))

        index, times = self.slot(), self.trips.between(s.lo, s.hi, s.step)
        if not self.vectors(s, n, index, self.at(s.lo), self.at(s.hi), times, each, early):
            return None
        return index, from_before

    def own_prefixes(self, s: For, types: Sequence[str], values: list[int]) -> list[int]:
        """The prefixes of vectors' lanes, by steps that double."""
        by, zeros = 1, self.zeros(s)
        while by < self.n:
            moved = [self.slot(self.size(t)) for t in types]
            for t, value, zero, at in zip(types, values, zeros, moved, strict=True):
                self.stencil(("shift", t, self.n, by), value, zero, at)
            values = self.combine(s.combine, types, moved, values)
            by *= 2
        return values
