"""Numbers that lanes store, or load, side by side: rows of some numbers, an element of each by a
statement.

Every statement alone would put its lanes to places a stride apart, one by one. Where statements of
a block fill the whole stride, their vectors are interleaved in registers and stored as they lie;
where the loads of a block read the whole stride, its vectors are loaded once and taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pullback.loops.ir import Atom, Const, Let, Load, Store

__all__ = ["Total", "follows", "read_side_by_side", "side_by_side", "sum_of"]

WRITTEN = range(3, 17)  # elements of a row that is stored whole; of two see `both_parts` in emit.py
TAKEN_APART = range(2, 17)  # and of one that is loaded whole


Access = TypeVar("Access", Store, Load)
Total = tuple[tuple[Atom, ...], int]  # what an index is the sum of, in one order; a literal


def sum_of(s: Let, known: Mapping[Atom, Total]) -> Total | None:
    """What a sum of indices is the sum of, if a statement is one: whatever the order in which its
    terms were added, a literal among them, and wherever that was done."""
    if s.op != "add" or s.out.dtype != "i64":
        return None
    (x, i), (y, k) = (_total(a, known) for a in s.args)
    return tuple(sorted((*x, *y), key=id)), i + k


def _total(a: Atom, known: Mapping[Atom, Total]) -> Total:
    if isinstance(a, Const):
        return (), int(a.value)
    return known.get(a) or ((a,), 0)


def follows(index: Atom, other: Atom, known: Mapping[Atom, Total]) -> bool:
    """Whether an index is the next one after another."""
    terms, literal = _total(other, known)
    return _total(index, known) == (terms, literal + 1)


class _Runs(Generic[Access]):
    """Accesses of a block by what they add to one index of one buffer. A run is closed where what
    follows could not change places with it."""

    def __init__(self, lengths: Container[int]) -> None:
        self.lengths = lengths
        self.open: dict[Any, dict[int, Access]] = {}
        self.found: dict[Access, tuple[Access, ...]] = {}

    def add(self, access: Access, base: tuple[Atom, ...], place: int) -> None:
        self.open.setdefault((access.buf, base), {})[place] = access

    def close(self, keys: Iterable[Any]) -> None:
        """Ends runs: those without a gap, and of a good length, are found."""
        for key in list(keys):
            run = self.open.pop(key)
            order = sorted(run)
            whole = order == list(range(order[0], order[0] + len(order)))
            if whole and len(order) in self.lengths:
                group = tuple(run[k] for k in order)
                self.found.update(dict.fromkeys(group, group))


def side_by_side(
    stmts: Sequence[Any], known: Mapping[Atom, Total]
) -> dict[Store, tuple[Store, ...]]:
    """Of a block, the stores to neighbouring places that may be one, in the order of places: by
    each of them, with nothing between that could tell. `known`: sums from outside of the block."""
    if sum(type(s) is Store for s in stmts) < WRITTEN[0]:
        return {}
    sums = dict(known)
    runs: _Runs[Store] = _Runs(WRITTEN)

    for s in stmts:
        kind = type(s)
        if kind is Let:
            one = sum_of(s, sums)
            if one is not None:
                sums[s.out] = one
        elif kind is Store and s.mask is None and len(s.index) == 1:
            base, place = _total(s.index[0], sums)
            runs.close(
                k
                for k, run in runs.open.items()
                if k[0] is s.buf and (k[1] != base or place in run)
            )
            runs.add(s, base, place)
        elif kind is Load or kind is Store:
            runs.close(k for k in runs.open if k[0] is s.buf)
        else:
            runs.close(runs.open)
    runs.close(runs.open)
    return runs.found


def read_side_by_side(
    stmts: Sequence[Any], known: Callable[[], Mapping[Atom, Total]]
) -> dict[Load, tuple[Load, ...]]:
    """Of a block, the loads of neighbouring places that may be one, in the order of places: by each
    of them, with nothing between that could write there. `known` gives the sums from outside of the
    block."""
    if sum(type(s) is Load for s in stmts) < TAKEN_APART[0]:
        return {}
    sums = dict(known())
    runs: _Runs[Load] = _Runs(TAKEN_APART)

    for s in stmts:
        kind = type(s)
        if kind is Let:
            one = sum_of(s, sums)
            if one is not None:
                sums[s.out] = one
        elif kind is Load and s.mask is None and len(s.index) == 1:
            base, place = _total(s.index[0], sums)
            runs.add(s, base, place)
        elif kind is Store:
            runs.close(k for k in runs.open if k[0] is s.buf)
        elif kind is not Load:
            runs.close(runs.open)
    runs.close(runs.open)
    return runs.found
