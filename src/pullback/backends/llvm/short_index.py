"""Indices of 32 bits, where an instruction gathers by them.

Before: the lanes of `clamp 0, (convert i), n` in twice as many registers, as all indices are i64.
After, beside them: their lower words, by which one gather takes a whole vector of four-byte
elements; of AMD's Zen 5 it takes 4.7 cycles fewer for 16. They are all that there is to an index
within an array whose elements a word counts (`Module.short`: all but vast ones). LLVM drops
whichever of the two nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pullback.backends.llvm.access import materialise
from pullback.backends.llvm.build import Builder, Val
from pullback.loops.ir import Atom, Buf, Const, Let
from pullback.loops.ops import BITS, SIGNED, storage_bytes

if TYPE_CHECKING:
    from pullback.backends.llvm.emit import Emitter

__all__ = ["Short", "short_place", "shorten"]

WORD = 4  # bytes of what is gathered
FEWEST = 8  # lanes
HALF = 1 << 31


class Short(NamedTuple):
    """The lower words of an index."""

    words: Val
    kind: str  # "i32" or "u32" if the words' value is the index; else ""


def shorten(e: Emitter, s: Let) -> None:
    """Notes the words of an index, if what it is computed from has words."""
    e.short.pop(s.out, None)
    if not e.target.gathers or e.lanes < FEWEST or s.out.dtype != "i64":
        return
    if s.op == "convert" and s.args[0].dtype[0] in "iu" and BITS[s.args[0].dtype] <= 32:
        x, signed = e.val(s.args[0]), s.args[0].dtype in SIGNED
        if x.n >= FEWEST:
            words = e.b.cast("sext" if signed else "zext", x, "i32")
            e.short[s.out] = Short(words, "u32" if s.args[0].dtype == "u32" else "i32")
    elif s.op == "clamp" and s.args[1] in e.short:
        lo, short, hi = s.args[0], e.short[s.args[1]], e.val(s.args[2])
        if isinstance(lo, Const) and lo.value == 0 and e.uniform(hi) and short.kind:
            e.short[s.out] = Short(_clamped(e.b, short, hi), short.kind)
    elif s.op in ("add", "sub", "mul") and any(a in e.short for a in s.args):
        e.short[s.out] = Short(e.b.binary(s.op, *(_words(e, a) for a in s.args)), "")


def _words(e: Emitter, a: Atom) -> Val:
    if a in e.short:
        return e.short[a].words
    return materialise(e.b, e.atom(a), "i32")


def _clamped(b: Builder, x: Short, hi: Val) -> Val:
    """Words from 0 to hi: what is above all words is above these."""
    most = (HALF if x.kind == "i32" else 2 * HALF) - 1
    limit = b.cast("trunc", b.call("smin", hi, most), "i32")
    if x.kind == "u32":
        return b.call("umin", x.words, limit)
    return b.call("smin", b.call("smax", x.words, 0), limit)


def short_place(e: Emitter, buf: Buf, index: Sequence[Atom]) -> tuple[Val, Val] | None:
    """Where lanes are that words say: the array's address, and the words. None if other indices
    say it."""
    if len(index) != 1 or index[0] not in e.short or buf not in e.module.short:
        return None
    words = e.short[index[0]].words
    if storage_bytes(buf.dtype) != WORD or words.n > 2 * FEWEST:
        return None
    return e.buffers[buf], words
