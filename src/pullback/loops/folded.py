"""Short last axes that are walked as one with the axis before them, although arrays are joined,
padded, cut or mirrored along that one: pictures with a few channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.loops.build import Builder
from pullback.loops.fuse import Nest
from pullback.loops.ir import Atom, Const, For, If, Let, Stmt, Var
from pullback.loops.lower.graph import Node
from pullback.loops.pieces import SHORT, SPLIT_FROM

__all__ = ["emitted_folded", "folds"]

SHORT_LAST = 64  # elements of a last axis whose loop is worth being a part of a longer one
APART = 4  # a part of the elements that may be found by dividing, the rest lie side by side


def folds(nest: Nest) -> bool:
    """Whether a nest of values element by element moves things along the axis before a short last
    one, and whatever it reads has that last axis: where pieces of the two axes together lie side
    by side, lanes run along both."""
    k, members = nest.k, nest.members
    shape = members[0].shape
    if k < 2 or not 1 < shape[-1] < SHORT_LAST or shape[-1] * shape[-2] < SHORT:
        return False
    if math.prod(shape) < SPLIT_FROM or any(m.kind != "pw" or m.period > 1 for m in members):
        return False
    if any(len(m.shape) != k for m in members):
        return False
    moved, seen = False, set()
    stack: list[tuple[Node, tuple[int | None, ...]]] = [(m, tuple(range(k))) for m in members]
    while stack:
        node, at = stack.pop()
        if (node, at) in seen:
            continue
        seen.add((node, at))
        if node.parts is not None or len(at) < 2 or at[-1] != k - 1 or at[-2] not in (k - 2, None):
            return False
        moved = moved or at[-2] is None
        for dep, axes in node.deps:
            if dep.size == 1:
                continue
            if axes is None and dep.shape != node.shape:
                return False
            place = at if axes is None else tuple(None if a is None else at[a] for a in axes)
            if dep.nest is nest and dep in members:
                continue
            stack.append((dep, place))
            if dep.kind != "pw" or dep.root:
                seen.add((dep, place))
                if len(place) < 2 or place[-1] != k - 1 or place[-2] not in (k - 2, None):
                    return False
                moved = moved or place[-2] is None
    return moved


def emitted_folded(b: Builder, elements: int, emit: Callable[[], None]) -> bool:
    """Writes loops over two axes as one, of so many elements; False, and nothing is written, where
    more than a few of them are found by dividing the index."""
    start = len(b.scopes[-1].stmts)
    emit()
    extents = {var: value for value, var in b.dims.items()}
    if APART * _divided(b.scopes[-1].stmts[start:], extents, elements) <= elements:
        return True
    kept = [s for s in b.scopes[-1].stmts[start:] if not isinstance(s, (For, If))]
    b.scopes[-1].stmts[start:] = kept
    return False


def _divided(stmts: Sequence[Stmt], extents: dict[Var, int], elements: int) -> int:
    """How many iterations of the innermost loops divide an index of theirs."""

    def value(a: Atom, unknown: int) -> int:
        return int(a.value) if isinstance(a, Const) else extents.get(a, unknown)

    total = 0
    for s in stmts:
        if isinstance(s, If):
            total += max(_divided(side, extents, elements) for side in (s.then, s.orelse))
        elif isinstance(s, For) and s.kind != "vector":
            total += _divided(s.body, extents, elements)
        elif isinstance(s, For) and any(
            isinstance(x, Let) and x.op in ("idiv", "irem") for x in s.body
        ):
            total += max(0, value(s.hi, elements) - value(s.lo, 0))
    return total
