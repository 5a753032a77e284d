"""Loops of unknown length in code that is put together from stencils (see patched.py).

Nobody knows before a run how long it will take, and code from stencils may take twenty times as
long as good code. So a run has a budget: what compiling would have taken, roughly. When that is
used up, the kernel gives up: whoever runs the plan has good code made, and the kernel begins again
(driver.py). It can do that if it has changed nothing that it reads first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pullback.backends.llvm.analysis import uses, walk
from pullback.backends.llvm.patch_code import JUMP, LESS, ZERO, NoLanes, Refused, put_word, word
from pullback.backends.llvm.patch_prefixes import Prefixes
from pullback.backends.llvm.patch_trips import UNKNOWN
from pullback.backends.llvm.table import UNFINISHED
from pullback.loops.ir import Alloc, Buf, Const, For, Kernel, Stmt, Store, Var, While

__all__ = ["STENCIL", "Whiles", "begins_again"]

# Seconds that a stencil for an addition takes: its operands and its result go through memory.
STENCIL = 1e-9
MOST = (1 << 31) - 1  # of a budget: iterations take a number of 32 bits off it
TAKE_OFF = b"\x48\x81\xaf"  # a number from what a place has
IS_FALSE = b"\x80\xbf"


class Whiles(Prefixes):
    """A kernel's function, with loops of unknown length."""

    patience = math.inf  # seconds that a run may take

    def unknown(self, s: While) -> None:
        """Iterations while a condition holds and the budget lasts."""
        if self.n > 1:
            raise NoLanes
        places = self.begin_carries(s.carry, [self.value(c.init) for c in s.carry])
        for names in ([c.var for c in s.carry], s.cond.params, s.body.params):
            self.where.update(zip(names, places, strict=True))
        start, done = self.label(), self.label()
        self.mark(start)
        self.on(TAKE_OFF, self.budget())
        iteration = len(self.code)
        self.code += word(0)
        self.jump(LESS, self.exit(UNFINISHED, None))
        before = self.executed
        with self.nested(), self.repeated(UNKNOWN):
            self.block(s.cond.body)
            self.on(IS_FALSE, self.at(s.cond.yields[0]))
            self.code += b"\0"
            self.jump(ZERO, done)
            self.block(s.body.body)
            self.carry_on(s.carry, places, [self.value(y) for y in s.body.yields])
            takes = (self.executed - before) / self.times
        put_word(self.code, iteration, 1 + min(int(takes), MOST - 1))
        self.jump(JUMP, start)
        self.mark(done)
        self.end_carries(s.carry, places)
        if self.executed * STENCIL > self.patience:
            raise Refused

    def budget(self) -> int:
        """The place of what is left: additions, which all loops of a run share."""
        allowed = min(self.patience / STENCIL, MOST)
        key = "budget", int(allowed).to_bytes(8, "little")
        if key not in self.consts:
            self.consts[key] = self.slot()
        return self.consts[key]


def begins_again(kernel: Kernel) -> bool:
    """Whether a run that was given up changes nothing for the next: every buffer that the kernel
    both reads and writes is filled by it before anything else."""
    both = [p for p in kernel.params if p.role == "inout"]
    return all(_fills(_first(kernel.body, p), p) for p in both)


def _first(stmts: Iterable[Stmt], buf: Buf) -> Stmt | None:
    """The first statement that has to do with a buffer."""
    for s in stmts:
        if type(s) is Alloc:
            found = _first(s.body, buf)
            if found is not None:
                return found
        elif any(x == buf for inner in walk([s]) for x in uses(inner)):
            return s
    return None


def _fills(s: Stmt | None, buf: Buf) -> bool:
    """Whether a loop does nothing with a buffer but to write each of its elements."""
    if s is None:
        return True
    if type(s) is Store:
        return buf.shape == (1,) and s.index == (Const(0, "i64"),) and s.mask is None
    if type(s) is not For or s.carry or len(buf.shape) != 1:
        return False
    lo, hi, step = s.lo, s.hi, s.step
    if (lo, step) != (Const(0, "i64"), Const(1, "i64")) or not _same(hi, buf.shape[0]):
        return False
    own = [x for x in s.body if type(x) is Store and x.buf == buf]
    known = all(x.index == (s.index,) and x.mask is None for x in own)
    mentions = sum(x == buf for inner in walk(s.body) for x in uses(inner))
    return known and bool(own) and mentions == len(own)


def _same(hi: Any, size: int | Var) -> bool:
    return hi == size if type(size) is Var else type(hi) is Const and hi.value == size
