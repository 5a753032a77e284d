"""Numbers that lanes store, or load, side by side: rows of three or more, an element of each by a
statement.

Every statement alone would put its lanes to places a stride apart, one by one. Where statements of
a block fill the whole stride, their vectors are interleaved in registers and stored as they lie;
where the loads of a block read the whole stride, its vectors are loaded once and taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback.loops.ir import Atom, Const, Let, Load, Store

__all__ = ["read_side_by_side", "side_by_side", "successor"]

NARROWEST, WIDEST = 3, 8  # elements of a row
TAKEN_APART = (4, 8)  # elements of a row that is loaded whole


def successor(s: Let) -> tuple[Atom, int] | None:
    """What a sum of an index and a literal is, if a statement is one."""
    if s.op != "add" or s.out.dtype != "i64":
        return None
    for x, y in (s.args, s.args[::-1]):
        if isinstance(x, Const) and not isinstance(y, Const):
            return y, int(x.value)
    return None


def side_by_side(
    stmts: Sequence[Any], known: Mapping[Atom, tuple[Atom, int]]
) -> dict[Store, tuple[Store, ...]]:
    """Of a block, the stores to neighbouring places that may be one, in the order of places: by
    each of them, with nothing between that could tell. `known`: sums from outside of the block."""
    if sum(type(s) is Store for s in stmts) < NARROWEST:
        return {}
    sums = dict(known)
    runs: dict[Any, dict[int, Store]] = {}
    found: dict[Store, tuple[Store, ...]] = {}

    def close(keys: Sequence[Any]) -> None:
        for key in keys:
            run = runs.pop(key)
            order = sorted(run)
            whole = order == list(range(order[0], order[0] + len(order)))
            if whole and NARROWEST <= len(order) <= WIDEST:
                group = tuple(run[k] for k in order)
                found.update(dict.fromkeys(group, group))

    for s in stmts:
        kind = type(s)
        if kind is Let:
            one = successor(s)
            if one is not None:
                sums[s.out] = one
        elif kind is Store and s.mask is None and len(s.index) == 1:
            base, place = sums.get(s.index[0], (s.index[0], 0))
            close([k for k in runs if k[0] is s.buf and (k[1] is not base or place in runs[k])])
            runs.setdefault((s.buf, base), {})[place] = s
        elif kind is Load or kind is Store:
            close([k for k in runs if k[0] is s.buf])
        else:
            close(list(runs))
    close(list(runs))
    return found


def read_side_by_side(
    stmts: Sequence[Any], known: Mapping[Atom, tuple[Atom, int]]
) -> dict[Load, tuple[Load, ...]]:
    """Of a block, the loads of neighbouring places that may be one, in the order of places: by each
    of them, with nothing between that could write there."""
    if sum(type(s) is Load for s in stmts) < TAKEN_APART[0]:
        return {}
    sums = dict(known)
    runs: dict[Any, dict[int, Load]] = {}
    found: dict[Load, tuple[Load, ...]] = {}

    def close(keys: Sequence[Any]) -> None:
        for key in keys:
            run = runs.pop(key)
            order = sorted(run)
            whole = order == list(range(order[0], order[0] + len(order)))
            if whole and len(order) in TAKEN_APART:
                group = tuple(run[k] for k in order)
                found.update(dict.fromkeys(group, group))

    for s in stmts:
        kind = type(s)
        if kind is Let:
            one = successor(s)
            if one is not None:
                sums[s.out] = one
        elif kind is Load and s.mask is None and len(s.index) == 1:
            base, place = sums.get(s.index[0], (s.index[0], 0))
            runs.setdefault((s.buf, base), {})[place] = s
        elif kind is Store:
            close([k for k in runs if k[0] is s.buf])
        elif kind is not Load:
            close(list(runs))
    close(list(runs))
    return found
