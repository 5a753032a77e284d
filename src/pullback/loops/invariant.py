"""What a loop computes anew in each step, though no step changes it, is computed once before it.

    scan: const w, carry c                    y = exp w
      y = exp w                               scan: const y, carry c
      z = neg y                    ->           z = neg y
      c' = mul c z                              c' = mul c z

The values that depend on nothing that varies are a graph. Some of its operations are costly:
products, sorts, sums, gathers, and functions of every element that take longer than a load. A cut
separates them from what varies: the values that are stored, those of fewest bytes, and among
equals those nearest to what varies. What is cheap and below the cut stays in the loop, where it is
computed in the place where it is read.

Nothing is taken out that has effects, or may not end. Indices that are counted from literals alone
stay too: as addresses they have known bounds, from memory they would not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.core.jaxpr import ClosedJaxpr, Literal, Var
from pullback.loops.once import APART, COSTLY, merged

__all__ = ["invariants_first"]

# What an element costs, in simple operations. What is not named costs one.
FUNCTIONS = frozenset(
    "exp exp2 log log1p expm1 tanh tan sin cos sinh cosh asin acos atan atan2 asinh acosh atanh "
    "pow logistic erf erfc erf_inv lgamma digamma polygamma cbrt igamma igammac bessel_i0e "
    "bessel_i1e gather random_bits random_gamma".split()
)
DIVISIONS = frozenset("div rem sqrt rsqrt".split())
FUNCTION, DIVISION = 20.0, 8.0
FREE = frozenset(
    "reshape broadcast_in_dim squeeze expand_dims convert_element_type iota copy".split()
)
SUMS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin reduce_xor "
    "reduce_window reduce_window_sum reduce_window_max reduce_window_min".split()
)
LEAST = 8.0  # what an element must cost to be worth a load from a cache,
FAR = 20.0  # or from memory
CHAIN = 24.0  # cheap operations that together are worth a load
INSTEAD = 4.0  # or worth being stored, if that is loaded instead of what they are computed from
CACHED = 1 << 21  # bytes
SHORT = 8  # steps of a loop whose elements are all computed before the next one's
ROOM = 1 << 24  # bytes of what is stored, beyond what the loop has in use
MOST = 2000  # values of a graph: more are not looked at
# Loops inside may not end, a branch computes one of several.
STAYS = APART | {"while", "cond"}

Inline = Callable[[Any], Any]
Known = Callable[[str], bool]


def invariants_first(jaxpr: Any, inline: Inline, known: Known) -> Any:
    """A program with such values before its loops. `inline` gives a closed program without calls;
    `known` says of a primitive whether its results depend on its operands and parameters alone."""
    if not any(e.primitive.name in ("scan", "while") for e in jaxpr.eqns):
        return jaxpr
    eqns: list[Any] = []
    for e in jaxpr.eqns:
        if e.primitive.name == "scan" and e.params["length"] > 1:
            eqns += _scan(e, inline, known)
        elif e.primitive.name == "while":
            eqns += _while(e, inline, known)
        else:
            eqns.append(e)
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(eqns=eqns)


def _scan(e: Any, inline: Inline, known: Known) -> list[Any]:
    n, closed = e.params["num_consts"], e.params["jaxpr"]
    brief = e.params["length"] < SHORT
    found = _taken_out(closed, e.invars[:n], _held(e), brief, inline, known)
    if found is None:
        return [e]
    before, own, body = found
    params = {**e.params, "jaxpr": body, "num_consts": len(own)}
    return [*before, e.replace(invars=[*own, *e.invars[n:]], params=params)]


def _while(e: Any, inline: Inline, known: Known) -> list[Any]:
    nc, nb = e.params["cond_nconsts"], e.params["body_nconsts"]
    before: list[Any] = []
    consts = {"cond": e.invars[:nc], "body": e.invars[nc : nc + nb]}
    params = dict(e.params)
    for part, own in consts.items():
        found = _taken_out(e.params[f"{part}_jaxpr"], own, _held(e), False, inline, known)
        if found is not None:
            before += found[0]
            consts[part], params[f"{part}_jaxpr"] = found[1:]
            params[f"{part}_nconsts"] = len(found[1])
    invars = [*consts["cond"], *consts["body"], *e.invars[nc + nb :]]
    return [*before, e.replace(invars=invars, params=params)] if before else [e]


def _held(e: Any) -> int:
    """Bytes that a loop has in use."""
    return sum(_bytes(v.aval) for v in (*e.invars, *e.outvars))


def _taken_out(
    closed: Any, consts: Sequence[Any], held: int, brief: bool, inline: Inline, known: Known
) -> tuple[list[Any], list[Any], Any] | None:
    """Of a loop's body: the equations before the loop, and what the loop takes in place of its
    `consts` by the body beside that. None if nothing is worth it."""
    if not hasattr(closed, "jaxpr") or not any(_may_cost(e) for e in closed.jaxpr.eqns):
        return None
    closed = inline(closed)  # whose own loops are seen to
    jaxpr = closed.jaxpr
    jaxpr = merged(jaxpr, known, _unchanging(jaxpr, len(consts)))
    values = _Values(jaxpr, len(consts), brief)
    cut = values.cut(held + ROOM)
    if not cut:
        return None
    outer: dict[Any, Any] = dict(zip(jaxpr.invars, consts, strict=False))
    outer.update(
        (v, Literal(c, v.aval)) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
    )
    before = []
    for e in _needed(values.made, cut, ()):
        if not known(e.primitive.name):
            return None
        own = [Var(v.aval) for v in e.outvars]
        invars = [v if hasattr(v, "val") else outer[v] for v in e.invars]
        before.append(e.replace(invars=invars, outvars=own))
        outer.update(zip(e.outvars, own, strict=True))
    inside = [e for e in jaxpr.eqns if not _all_in(e.outvars, values.made)]
    read = [v for e in inside for v in e.invars] + list(jaxpr.outvars)
    kept = {id(e) for e in (*inside, *_needed(values.made, read, cut))}
    eqns = [e for e in jaxpr.eqns if id(e) in kept]
    read = [v for e in eqns for v in e.invars] + list(jaxpr.outvars)
    needed = {v for v in read if not hasattr(v, "val")}
    n = len(consts)
    own = [v for v in (*jaxpr.invars[:n], *cut) if v in needed]
    body = jaxpr.replace(invars=[*own, *jaxpr.invars[n:]], eqns=eqns)
    return before, [outer[v] for v in own], ClosedJaxpr(body, closed.consts)


def _unchanging(jaxpr: Any, consts: int) -> list[bool]:
    """Of each equation whether its results are the same in every step."""
    same, found = {*jaxpr.constvars, *jaxpr.invars[:consts]}, []
    for e in jaxpr.eqns:
        stays = e.effects or e.primitive.name in STAYS
        found.append(not stays and all(v in same for v in e.invars if not hasattr(v, "val")))
        if found[-1]:
            same.update(e.outvars)
    return found


def _all_in(vs: Sequence[Any], made: dict[Any, Any]) -> bool:
    return bool(vs) and all(v in made for v in vs)


def _needed(made: dict[Any, Any], ends: Iterable[Any], given: Iterable[Any]) -> list[Any]:
    """The equations that make some values from others that are given, in order."""
    seen, found = set(given), {}
    stack = [v for v in ends if not hasattr(v, "val")]
    while stack:
        v = stack.pop()
        if v in seen or v not in made:
            continue
        place, e = made[v]
        seen.update(e.outvars)
        found[place] = e
        stack += [x for x in e.invars if not hasattr(x, "val")]
    return [found[k] for k in sorted(found)]


def _may_cost(e: Any) -> bool:
    """A first look: whether any equation, or one that it calls, may be costly."""
    name = e.primitive.name
    if name in FUNCTIONS or name in DIVISIONS or name in SUMS or name in COSTLY or name == "scan":
        return True
    programs = [p for p in e.params.values() if hasattr(p, "jaxpr") or hasattr(p, "eqns")]
    return any(_may_cost(x) for p in programs for x in getattr(p, "jaxpr", p).eqns)


class _Values:
    """The values of a loop's body that no step changes. `made`: of each the equation and its
    place."""

    def __init__(self, jaxpr: Any, consts: int, brief: bool) -> None:
        self.made: dict[Any, Any] = {}
        self.costly: dict[Any, None] = {}
        self.brief = brief
        costs: dict[Any, float] = dict.fromkeys([*jaxpr.constvars, *jaxpr.invars[:consts]], 0.0)
        counted: set[Any] = set()  # integers that are computed from literals alone
        alone: dict[Any, int] = _read_once(jaxpr, costs)
        ends: list[Any] = [v for v in jaxpr.outvars if not hasattr(v, "val")]
        for place, e in enumerate(jaxpr.eqns):
            operands = [v for v in e.invars if not hasattr(v, "val")]
            stays = e.effects or e.primitive.name in STAYS or not all(v in costs for v in operands)
            if stays:
                ends += operands
                continue
            own = self.cost(e)
            alike = all(v in counted for v in operands) and own < math.inf
            if alike and all(_is_whole(v.aval) for v in e.outvars):
                counted.update(e.outvars)
                own = -math.inf
            total = max(0.0, own + sum(costs[v] for v in set(operands)))
            least = _least(e.outvars)
            worth = own >= least or (total >= max(CHAIN, least) and not brief)
            size = _instead_of(operands, alone)
            if size and not brief and all(_bytes(v.aval) <= size for v in e.outvars):
                alone.update(dict.fromkeys(e.outvars, size))
                worth = worth or total >= INSTEAD
            for v in e.outvars:
                self.made[v] = place, e
                costs[v] = 0.0 if worth else total
                if worth:
                    self.costly[v] = None
        self.ends = {v for v in ends if v in self.made}

    def cost(self, e: Any) -> float:
        """What an element costs, infinitely much for what is more than a function of elements."""
        name = e.primitive.name
        size = max((math.prod(v.aval.shape) for v in e.outvars), default=0)
        read = max((math.prod(v.aval.shape) for v in e.invars), default=0)
        if name == "dot_general":
            (axes, _), _ = e.params["dimension_numbers"]
            count = math.prod(e.invars[0].aval.shape[a] for a in axes)
            return math.inf if count >= LEAST else count
        if name in COSTLY or name == "scan":
            return math.inf
        if name in SUMS:
            return math.inf if read >= 2 * size and read >= LEAST else read / max(size, 1)
        if size <= 1 or self.brief:  # numbers are computed once in any case
            return 0.0
        if name in FUNCTIONS:
            return FUNCTION
        if name in DIVISIONS:
            alone = name in ("div", "rem") and not e.invars[1].aval.shape
            return DIVISION / 2 if alone and not _is_whole(e.outvars[0].aval) else DIVISION
        return 0.0 if name in FREE else 1.0

    def cut(self, room: int) -> list[Any]:
        """The values to store: no more than `room` bytes."""
        if len(self.made) > MOST:
            return []
        while self.costly:
            found = self.least_cut()
            if sum(_bytes(v.aval) for v in found) <= room:
                return found
            largest = max(self.costly, key=lambda v: _bytes(v.aval))
            del self.costly[largest]
        return []

    def least_cut(self) -> list[Any]:
        """The values of fewest bytes that separate what is costly from what varies (a minimal cut,
        by paths that add to the flow)."""
        graph = _Flow()
        for v, (_, e) in self.made.items():
            graph.edge((v, 0), (v, 1), _bytes(v.aval) + 1)
            for x in e.invars:
                if not hasattr(x, "val") and x in self.made:
                    graph.edge((x, 1), (v, 0), math.inf)
        for v in self.costly:
            graph.edge("source", (v, 0), math.inf)
        for v in self.ends:
            graph.edge((v, 1), "sink", math.inf)
        behind = graph.behind_cut("source", "sink")
        return [v for v in self.made if (v, 1) in behind and (v, 0) not in behind]


class _Flow:
    """A graph of capacities."""

    def __init__(self) -> None:
        self.left: dict[Any, dict[Any, float]] = {}

    def edge(self, a: Any, b: Any, capacity: float) -> None:
        self.left.setdefault(a, {})[b] = capacity
        self.left.setdefault(b, {}).setdefault(a, 0)

    def behind_cut(self, source: Any, sink: Any) -> set[Any]:
        """The nodes from which the sink can still be reached once nothing more flows."""
        while True:
            path = self.path(source, sink)
            if path is None:
                break
            most = min(self.left[a][b] for a, b in path)
            for a, b in path:
                self.left[a][b] -= most
                self.left[b][a] += most
        behind, queue = {sink}, deque([sink])
        while queue:
            b = queue.popleft()
            for a in self.left.get(b, ()):
                if a not in behind and self.left[a][b] > 0:
                    behind.add(a)
                    queue.append(a)
        return behind

    def path(self, source: Any, sink: Any) -> list[tuple[Any, Any]] | None:
        """A shortest one with room on it."""
        came: dict[Any, Any] = {source: None}
        queue = deque([source])
        while queue and sink not in came:
            a = queue.popleft()
            for b, room in self.left.get(a, {}).items():
                if room > 0 and b not in came:
                    came[b] = a
                    queue.append(b)
        if sink not in came:
            return None
        path = []
        while came[sink] is not None:
            path.append((came[sink], sink))
            sink = came[sink]
        return path


def _read_once(jaxpr: Any, given: Iterable[Any]) -> dict[Any, int]:
    """Of the arrays that a body is given those that one equation reads, with their bytes."""
    count: dict[Any, int] = {}
    for e in jaxpr.eqns:
        for v in {v for v in e.invars if not hasattr(v, "val")}:
            count[v] = count.get(v, 0) + 1
    ends = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    return {
        v: _bytes(v.aval) for v in given if count.get(v) == 1 and v not in ends and v.aval.shape
    }


def _instead_of(operands: Sequence[Any], alone: dict[Any, int]) -> int:
    """The bytes of the only array that an equation's operands come from, which is read nowhere
    else; 0 if there are others."""
    arrays = {v for v in operands if v.aval.shape}
    return alone.get(arrays.pop(), 0) if len(arrays) == 1 else 0


def _least(vs: Sequence[Any]) -> float:
    """What an element must cost to be worth a load."""
    return LEAST if sum(_bytes(v.aval) for v in vs) <= CACHED else FAR


def _is_whole(aval: Any) -> bool:
    return isinstance(aval.dtype, np.dtype) and aval.dtype.kind in "biu"


def _bytes(aval: Any) -> int:
    size = math.prod(getattr(aval, "shape", ()))
    return size * int(getattr(getattr(aval, "dtype", None), "itemsize", 8))
