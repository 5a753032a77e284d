"""Updates under a condition: where an array is chosen or its updated copy, the update itself is
made only where the condition holds, so that it may be made in place.

    y = scatter(x, i, u); select(p, y, x)  ->  scatter(x, i, u) if p

The condition is one number, or has axes of which every update knows its place, as those of `vmap`.
"""

from __future__ import annotations

from typing import Any

from pullback.loops.build import Builder
from pullback.loops.ir import Atom, Const
from pullback.loops.lower.elementwise import RULES, Outs, rule, zipped
from pullback.loops.lower.graph import Graph, Node, Opaque

__all__ = ["updated_where"]

LONGEST = 8  # updates one after the other that are looked at

_plain_select = RULES["select_n"]


@rule("select_n")
def _select_n(g: Graph, ins: list[Node], outs: Outs, params: dict[str, Any]) -> Node:
    which, *cases = ins
    if len(cases) == 2 and cases[0] is not cases[1] and any(map(_is_update, cases)):
        p, dims = which, tuple(range(len(which.shape)))
        if which.spread is not None:
            p, dims = which.spread
        found = updated_where(g, _truth(g, p), dims, cases[1], cases[0])
        if found is not None:
            return found
    return _plain_select(g, ins, outs, params)  # type: ignore[no-any-return]


def _is_update(x: Node) -> bool:
    return x.source is not None and x.source.under is not None


def _truth(g: Graph, p: Node) -> Node:
    """A selector of two cases as booleans."""
    if p.dtype == "bool":
        return p
    return zipped(g, [p], p.shape, "bool", lambda b, v: b.let("gt", (v, Const(0, p.dtype)), "bool"))


def updated_where(g: Graph, p: Node, dims: tuple[int, ...], new: Node, old: Node) -> Node | None:
    """`new` where p holds, whose axes are the axes `dims`, else `old`, if both are one array or
    updates of it; None if they are not, or if updates do not know their places along `dims`."""
    first, second = _history(new), _history(old)
    base = next((x for x in first if x in second), None)
    if base is None or (base is new and base is old):
        return None
    node = base
    for values, holds in ((first, True), (second, False)):
        updates = [x.source for x in values[: values.index(base)]]
        if updates and not holds:
            p = zipped(g, [p], p.shape, "bool", _inverted)
        for op in reversed(updates):
            assert op is not None and op.under is not None
            made = op.under(g, node, p, dims)
            if made is None:
                return None
            node = made
    return node


def _inverted(b: Builder, v: Atom) -> Atom:
    return b.let("not", (v,), "bool")


def _history(x: Node) -> list[Node]:
    """A value, and those before it of which it is the update."""
    found = [x]
    while len(found) <= LONGEST:
        op: Opaque | None = found[-1].source
        if op is None or op.under is None:
            break
        found.append(op.ins[0])
    return found
