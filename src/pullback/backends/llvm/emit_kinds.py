"""Which rule emits which kind of loop."""

from __future__ import annotations

from pullback.backends.llvm.abreast import rows_abreast, run_abreast
from pullback.backends.llvm.analysis import has, trip
from pullback.backends.llvm.build import Val
from pullback.backends.llvm.emit import Emitter
from pullback.backends.llvm.emit_reduce import in_any_order, vector_body
from pullback.backends.llvm.emit_scan import Scans
from pullback.backends.llvm.strides import is_unit
from pullback.loops.ir import For, Update

__all__ = ["AllLoops"]


class AllLoops(Scans):
    """The rules of every loop kind."""

    def emit_for(self, e: Emitter, s: For) -> None:
        around = e.fetching
        if e.ahead:
            e.fetching = e.ahead.get(id(s), {})
        self.emit_kind(e, s)
        e.fetching = around

    def rows(self, e: Emitter, s: For, first: Val, last: Val) -> bool:
        """Whether a loop over short rows has been emitted, some rows side by side."""
        found = rows_abreast(e, s, vector_body)
        if found is not None:
            run_abreast(self, e, found, first, last)
        return found is not None

    def emit_kind(self, e: Emitter, s: For) -> None:
        if s.kind == "rows":
            if not self.rows(e, s, e.val(s.lo), e.val(s.hi)):
                self.serial(e, s)
        elif (
            s.kind == "parallel"
            and e.lanes == 1
            and not e.parallel
            and not s.carry
            and not e.in_lanes
        ):
            self.parallel(e, s)
        elif s.kind == "vector" and e.lanes == 1 and not s.carry and not e.in_lanes:
            if not e.parallel and e.depth == 0 and not has(s.body, Update) and is_unit(s):
                self.parallel(e, s)
            else:
                self.vector(e, s)
        elif s.kind == "reduce":
            if e.lanes == 1 and not e.in_lanes and is_unit(s) and vector_body(s):
                self.reduce(e, s)
            else:
                self.reduce_in_order(e, s)
        elif s.kind == "scan":
            self.scan(e, s)
        elif s.kind == "seq" and (inner := in_any_order(e, s)) is not None:
            self.reduce_rows(e, s, inner)
        elif s.kind == "unroll" and (trip(s.lo, s.hi, s.step) or 99) <= 64:
            self.unroll(e, s)
        else:
            self.serial(e, s)
