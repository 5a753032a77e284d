"""Indices of 32 bits, where an instruction gathers by them.

Before: the lanes of `clamp 0, (convert i), n` in twice as many registers, as all indices are i64.
After, beside them: the same numbers in words, by which one gather takes a whole vector of four-byte
elements; of AMD's Zen 5 it takes 4.7 cycles fewer for 16. An index that is converted from at most
32 bits and clamped to a range has room in a word whatever the range is. Unsigned words are less by
`HALF`, which the array's address makes up for. LLVM drops whichever of the two nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pullback.backends.llvm.access import offset
from pullback.backends.llvm.build import Builder, Val
from pullback.loops.ir import Atom, Buf, Const, Let
from pullback.loops.ops import BITS, SIGNED, storage_bytes

if TYPE_CHECKING:
    from pullback.backends.llvm.emit import Emitter

__all__ = ["short_place", "shorten"]

HALF = 1 << 31  # what unsigned words are less by
WORD = 4  # bytes of what is gathered
FEWEST = 8  # lanes


def shorten(e: Emitter, s: Let) -> None:
    """Notes the words of an index, if the statement makes one of a word, or keeps it one."""
    e.short.pop(s.out, None)
    if not e.target.gathers or e.lanes < FEWEST or s.out.dtype != "i64":
        return
    if s.op == "convert" and s.args[0].dtype[0] in "iu" and BITS[s.args[0].dtype] <= 32:
        x, signed = e.val(s.args[0]), s.args[0].dtype in SIGNED
        if x.n >= FEWEST:
            words = e.b.cast("sext" if signed else "zext", x, "i32")
            e.short[s.out] = words, s.args[0].dtype == "u32"
    elif s.op == "clamp" and s.args[1] in e.short:
        lo, hi = s.args[0], e.val(s.args[2])
        words, unsigned = e.short[s.args[1]]
        if isinstance(lo, Const) and lo.value == 0 and e.uniform(hi):
            e.short[s.out] = _clamped(e.b, words, hi, unsigned), unsigned


def _clamped(b: Builder, words: Val, hi: Val, unsigned: bool) -> Val:
    """Words from 0 to hi: what is above all words is above these."""
    limit = b.cast("trunc", b.call("smin", hi, (2 * HALF if unsigned else HALF) - 1), "i32")
    if unsigned:
        return b.call("umin", words, limit)
    return b.call("smin", b.call("smax", words, 0), limit)


def short_place(e: Emitter, buf: Buf, index: Sequence[Atom]) -> tuple[Val, Val] | None:
    """Where lanes are that words say, in a row that all of them share: its address, and the
    words. None if other indices say it."""
    if not index or index[-1] not in e.short or storage_bytes(buf.dtype) != WORD:
        return None
    rows = [e.scalar_index(a) for a in index[:-1]]
    words, unsigned = e.short[index[-1]]
    if any(r is None for r in rows) or words.n > 4 * FEWEST:
        return None
    b, base = e.b, e.buffers[buf]
    if rows:
        start = offset(b, e.shape_of(buf), [*(r for r in rows if r is not None), b.lit(0, "i64")])
        assert isinstance(start, Val)
        base = b.gep(base, start, WORD)
    if unsigned:
        base, words = b.gep(base, b.lit(HALF, "i64"), WORD), words ^ -HALF
    return base, words
