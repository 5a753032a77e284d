"""Chains: bodies that a program repeats one after the other, as unrolled Python loops do.

`chains_of(jaxpr)` finds stretches of equations that are k times the same body: the same primitives
with the same parameters and types, wired alike. Between two iterations the wiring may be: a value
of the iteration before (a carry), one value that all of them read (shared), values of their own
from before the chain (each), numbers of their own, and the starts of slices. Everything is decided
by the equations, nothing by where they come from; the cost is linear in their number.

Before: equations. After: a `Chain`, whose body is a jaxpr with an operand for every such value.
What an iteration reads of another chain and what is cheap to compute from what is kept anyhow (a
broadcast value, twice a value) is computed again in the body that reads it, instead of kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.avals import ShapedArray
from pullback.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from pullback.primitives.dynamic_slice import dynamic_slice_p
from pullback.records import record

__all__ = ["Chain", "Operand", "chains_of"]

MANY = 128  # equations; shorter programs are lowered as they are
SAVED = 64  # equations that a chain must save
LEAST = 3  # iterations
BODY = 80  # equations: shorter bodies are repeated inside one
STREAMS = 8  # arrays of their own that such bodies may read and write together
WINDOW = 4  # equations that must recur for their distance to be tried as a period
PERIODS = 8  # distances that are tried
FEW = 16  # elements that an update of few elements writes
# Elements that a body without carries computes, to be worth its own kernels: with arrays of its
# own, and where all bodies read the same ones, which one loop reads once.
INDEPENDENT, SHARING = 256, 10_000

# What may be computed again: a few operations an element, or none.
CHEAP = frozenset((
    "add", "add_any", "and", "broadcast_in_dim", "convert_element_type", "copy", "div", "eq",
    "expand_dims", "ge", "gt", "le", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "reshape",
    "rsqrt", "select_n", "slice", "sqrt", "square", "squeeze", "sub", "transpose",
))  # fmt: skip
DEPTH = 4  # operations that are computed again for one value

BEFORE, LITERAL, FAR = -1, -2, -3  # kinds of wiring that are no distance: see `wiring`


@record
class Operand:
    """What iteration t finds in an operand of the body: `values[t]`, or `values[0]` where there is
    one for all, or first `values[0]` and then result `carry` of the iteration before. `number` says
    that the values are Python's numbers."""

    values: list[Any]
    carry: int = -1
    number: bool = False


@record
class Chain:
    """Equations `start` to `end` as `count` runs of `body`. `results[j][t]` is the variable that
    result j of iteration t is outside of the chain, None where it is not read there."""

    start: int
    end: int
    count: int
    body: Jaxpr
    operands: list[Operand]
    results: list[list[Var | None]]


# --- where something recurs ---------------------------------------------------------------------


def _tokens(eqns: Sequence[JaxprEqn]) -> Any:
    """A number for each equation: equal ones may be the same equation of two iterations."""
    known: dict[Any, int] = {}
    found, alone = [], -1
    for e in eqns:
        outs = e.outvars
        if e.effects or not outs:
            alone -= 1
            found.append(alone)
            continue
        key = (e.primitive.name, len(e.invars), getattr(outs[0].aval, "shape", None))
        found.append(known.setdefault(key, len(known)))
    return np.array(found, np.int64)


def _periods(tokens: Any) -> list[int]:
    """Distances at which stretches of `WINDOW` equations recur, the most frequent ones."""
    n = len(tokens) - WINDOW + 1
    windows = np.zeros(n, np.int64)
    for k in range(WINDOW):
        windows = windows * 1_000_003 + tokens[k : k + n]
    order = np.argsort(windows, kind="stable")
    again = windows[order[1:]] == windows[order[:-1]]
    gaps = (order[1:] - order[:-1])[again]
    if len(gaps) < SAVED // 2:
        return []
    counts = np.bincount(gaps)
    best = np.argsort(-counts * np.arange(len(counts)), kind="stable")[:PERIODS]
    return sorted(int(p) for p in best if counts[p])


def _stretches(tokens: Any, periods: Sequence[int]) -> list[tuple[int, int, int]]:
    """(start, end, period) of disjoint stretches that repeat, those that save most first."""
    found: list[tuple[int, int, int, int]] = []
    for p in periods:
        same = np.concatenate(([False], tokens[p:] == tokens[:-p], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            saved = ((b + p - a) // p - 1) * p
            if saved >= SAVED and (b + p - a) >= LEAST * p:
                found.append((-saved, p, a, b + p))
    taken: list[tuple[int, int, int]] = []
    for _, p, a, b in sorted(found):
        for start, end, _ in taken:  # what is left of it
            if a < end and start < b:
                a, b = (a, start) if start - a >= b - end else (end, b)
        if b - a >= LEAST * p and (b - a) // p * p - p >= SAVED:
            taken.append((a, b, p))
    return sorted(taken)


def _bytes(v: Any) -> int:
    return int(math.prod(v.aval.shape) * getattr(v.aval.dtype, "itemsize", 4))


def _cut(eqns: Sequence[JaxprEqn], a: int, b: int, p: int) -> int:
    """Where the first body of a stretch begins: where the least is carried to the next."""
    count = (b - a) // p
    mid = a + max(0, (count - 3) // 2) * p
    made: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for i in range(mid, min(b, mid + 3 * p)):
        for v in eqns[i].invars:
            if v.__class__ is not Literal and v in made and i - made[v] < 2 * p:
                last[v] = i
        if i < mid + p:
            made.update((v, i) for v in eqns[i].outvars)
    carried = [0] * (3 * p + 1)
    for v, end in last.items():
        carried[made[v] + 1 - mid] += _bytes(v) + 64
        carried[end + 1 - mid] -= _bytes(v) + 64
    sums = np.cumsum(carried)[: 3 * p].reshape(3, p).sum(0)
    costs = [
        (float(sums[(a + o - mid) % p]) * (count / max(1, (b - a - o) // p)) ** 2, o)
        for o in range(p)
    ]
    return a + min(costs)[1]


# --- whether it is the same ---------------------------------------------------------------------


def _same_value(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    kind = type(a)
    if kind is int or kind is str or kind is bool or isinstance(a, np.dtype):
        return bool(a == b)
    if isinstance(a, ClosedJaxpr):
        same = len(a.consts) == len(b.consts)
        return same and all(map(_same_number, a.consts, b.consts)) and _same_value(a.jaxpr, b.jaxpr)
    if isinstance(a, Jaxpr):
        return _same_program(a, b)
    if isinstance(a, np.ndarray) or hasattr(a, "__jax_array__"):
        return False
    if type(a) in (tuple, list):
        return len(a) == len(b) and all(map(_same_value, a, b))
    try:
        return bool(a == b)
    except Exception:  # of a type that does not compare
        return False


def _same_number(a: Any, b: Any) -> bool:
    """The same literal, bit for bit: NaN is NaN, and -0.0 is not 0.0."""
    if a is b:
        return True
    if type(a) is float is type(b) and (a or b) and a == a:
        return a == b
    if type(a) is not type(b) or getattr(a, "shape", ()) != () or getattr(b, "shape", ()) != ():
        return False
    return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())


def _same_params(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if a is b or not a:
        return a is b or not b
    return a.keys() == b.keys() and all(_same_value(a[k], b[k]) for k in a)


def _same_program(a: Jaxpr, b: Jaxpr) -> bool:
    """The same program but for the names of its variables."""
    if len(a.eqns) != len(b.eqns) or len(a.invars) != len(b.invars):
        return False
    if a.effects or b.effects or len(a.constvars) != len(b.constvars):
        return False
    names: dict[Any, Any] = {}

    def defined(vs: Sequence[Any], ws: Sequence[Any]) -> bool:
        names.update(zip(vs, ws, strict=False))
        return len(vs) == len(ws) and all(v.aval == w.aval for v, w in zip(vs, ws, strict=True))

    def read(vs: Sequence[Any], ws: Sequence[Any]) -> bool:
        if len(vs) != len(ws):
            return False
        for v, w in zip(vs, ws, strict=True):
            if v.__class__ is Literal:
                same = w.__class__ is Literal and v.aval == w.aval
                if not (same and _same_number(v.val, w.val)):
                    return False
            elif names.get(v) is not w:
                return False
        return True

    if not defined([*a.constvars, *a.invars], [*b.constvars, *b.invars]):
        return False
    for e, f in zip(a.eqns, b.eqns, strict=True):
        if e.primitive is not f.primitive or not read(e.invars, f.invars):
            return False
        if not _same_params(e.params, f.params) or not defined(e.outvars, f.outvars):
            return False
    return read(a.outvars, b.outvars)


def _is_slice(e: JaxprEqn) -> bool:
    return e.primitive.name == "slice" and e.params.get("strides") is None


def _same_equation(e: JaxprEqn, f: JaxprEqn) -> bool:
    """The same operation on the same types. Slices may start elsewhere."""
    if e.primitive is not f.primitive or len(e.outvars) != len(f.outvars):
        return False
    if len(e.invars) != len(f.invars):
        return False
    for v, w in zip(e.outvars, f.outvars, strict=True):
        if v.aval is not w.aval and v.aval != w.aval:
            return False
    for v, w in zip(e.invars, f.invars, strict=True):
        if v.aval is not w.aval and v.aval != w.aval:
            return False
        if v.__class__ is Literal and v.aval.shape:
            return False
    return _same_params(e.params, f.params) or (_is_slice(e) and _is_slice(f))


def _plain(e: JaxprEqn) -> bool:
    """Whether an equation may be repeated: only arrays with elements, no effects."""
    return not e.effects and all(
        isinstance(v.aval, ShapedArray)
        and isinstance(v.aval.dtype, np.dtype)
        and not v.aval.dtype.names
        and all(type(n) is int and n > 0 for n in v.aval.shape)
        for v in (*e.invars, *e.outvars)
    )


def _updates_only(eqns: Sequence[JaxprEqn]) -> bool:
    """Whether a body writes a few elements into arrays and computes little else: many such updates
    share a kernel, in place (`pipeline.FEW`), which repeated bodies would not."""
    updates = 0
    for e in eqns:
        name = e.primitive.name
        if name == "dynamic_update_slice" or name.startswith("scatter"):
            written = e.invars[1 if name == "dynamic_update_slice" else 2].aval
            updates += 1
        else:
            written = e.outvars[0].aval
        if math.prod(written.shape) > FEW:
            return False
    return updates > 0


class _Finder:
    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr, self.eqns = jaxpr, jaxpr.eqns
        self.found: list[Chain] = []
        self.made: dict[Any, tuple[int, int]] = {}
        self.last: dict[Any, int] = {}
        for i, e in enumerate(self.eqns):
            for o, v in enumerate(e.outvars):
                self.made[v] = (i, o)
            for v in e.invars:
                if v.__class__ is not Literal:
                    self.last[v] = i
        for v in jaxpr.outvars:
            if v.__class__ is not Literal:
                self.last[v] = len(self.eqns)

    def wiring(self, start: int, p: int, t: int) -> list[int]:
        """For every operand of iteration t: 8 * how many equations before it was made + its number
        among their results; or that it is from before the chain, a literal, or from farther off
        than the iteration before."""
        out: list[int] = []
        made, first = self.made, start + t * p
        for e in range(p):
            i = first + e
            for v in self.eqns[i].invars:
                if v.__class__ is Literal:
                    out.append(LITERAL)
                    continue
                j, o = made.get(v, (-1, 0))
                if j < start:
                    out.append(BEFORE)
                else:
                    out.append((i - j) * 8 + o if i - j <= e + p and o < 8 else FAR)
        return out

    def count(self, start: int, end: int, p: int) -> int:
        """How many iterations from `start` on are the same; 0 if they read farther back than the
        iteration before."""
        eqns = self.eqns
        if not all(_plain(eqns[start + e]) for e in range(p)):
            return 1
        pattern = self.wiring(start, p, 1)
        if FAR in self.wiring(start, p, min(2, (end - start) // p - 1)):
            return 0
        if not self.begins(start, p, pattern):
            return 1
        t = 1
        while start + (t + 1) * p <= end:
            first = start + t * p
            if not all(_same_equation(eqns[start + e], eqns[first + e]) for e in range(p)):
                break
            if t > 1 and self.wiring(start, p, t) != pattern:
                break
            t += 1
        return t

    def begins(self, start: int, p: int, pattern: Sequence[int]) -> bool:
        """Whether the first iteration is wired like the others, with values from before the chain
        where those have carries: one for each carry."""
        places = iter(pattern)
        initial: dict[int, Any] = {}
        for e in range(p):
            for v in self.eqns[start + e].invars:
                want = next(places)
                literal = v.__class__ is Literal
                inside = not literal and self.made.get(v, (-1, 0))[0] >= start
                if want == LITERAL or want == BEFORE:
                    if literal != (want == LITERAL) or inside:
                        return False
                elif want >> 3 <= e:  # of the same iteration
                    j, o = self.made.get(v, (-1, 0)) if not literal else (-1, 0)
                    if (start + e - j) * 8 + o != want:
                        return False
                else:
                    if inside:
                        return False
                    key = (e - (want >> 3)) * 8 + (want & 7)
                    known = initial.setdefault(key, v)
                    alike = literal and known.__class__ is Literal
                    if known is not v and not (alike and _same_number(known.val, v.val)):
                        return False
        return True

    def search(self, a: int, b: int, p: int) -> None:
        """Finds the chains in a stretch."""
        start = _cut(self.eqns, a, b, p)
        while start + LEAST * p <= b:
            k = self.count(start, b, p)
            if k == 0:  # as one, several iterations may read no farther back than one
                if start + 2 * p * LEAST <= b and p <= 2 * BODY:
                    self.search(start, b, 2 * p)
                return
            chain = self.chain(start, p, k) if k >= LEAST and (k - 1) * p >= SAVED else None
            if chain is not None:
                self.found.append(chain)
                start = chain.end
                continue
            start += p if k < LEAST else k * p

    def used_after(self, start: int, p: int, t: int, end: int) -> set[tuple[int, int]]:
        """The results of iteration t that are read outside of the chain."""
        last = self.last
        return {
            (e, o)
            for e in range(p)
            for o, v in enumerate(self.eqns[start + t * p + e].outvars)
            if last.get(v, -1) >= end
        }

    def chain(self, start: int, p: int, k: int) -> Chain | None:
        """The chain of k iterations, without the first or the last where others read more of
        it, several short iterations as one."""
        carries: set[tuple[int, int]] = set()
        pattern = iter(self.wiring(start, p, 1))
        for e in range(p):
            for _ in self.eqns[start + e].invars:
                w = next(pattern)
                if w >= 0 and w >> 3 > e:
                    carries.add((e - (w >> 3) + p, w & 7))
        end = start + k * p
        middle = self.used_after(start, p, k // 2, end) - carries
        if k > LEAST and self.used_after(start, p, k - 1, end) - carries != middle:
            k, end = k - 1, end - p
            middle = self.used_after(start, p, k // 2, end) - carries
        if k > LEAST and self.used_after(start, p, 0, end) - carries != middle:
            k, start = k - 1, start + p
        # Each stream of memory more in a loop costs: few run side by side in a cache.
        streams = 1 + len(middle) + self.each(start, p)
        joined = max(1, min(BODY // p, k // LEAST, STREAMS // streams)) if carries else 1
        p, k = p * joined, k // joined
        if k < LEAST or (k - 1) * p < SAVED:
            return None
        if _updates_only(self.eqns[start : start + p]):
            return None
        chain = _Writer(self, start, p, k).chain()
        size = sum(math.prod(v.aval.shape) for e in chain.body.eqns for v in e.outvars)
        waits = any(o.carry >= 0 for o in chain.operands)
        # Bodies that do not wait for one another share kernels, if they are small.
        least = INDEPENDENT if self.each(start, p) else SHARING
        return chain if waits or size >= least else None

    def each(self, start: int, p: int) -> int:
        """How many arrays from before the chain the second iteration has for itself."""
        before = [
            {
                v
                for e in self.eqns[first : first + p]
                for v in e.invars
                if v.__class__ is not Literal and self.made.get(v, (-1, 0))[0] < start
            }
            for first in (start + p, start + 2 * p)
        ]
        return len(before[0] - before[1])

    def kept(self, v: Any) -> bool:
        """Whether a value is in memory, or cheap to have, after the chain that makes it."""
        i = self.made.get(v, (-1, 0))[0]
        chain = next((c for c in self.found if c.start <= i < c.end), None)
        return chain is None or self.last.get(v, -1) >= chain.end

    def settle(self) -> None:
        """Enters the results: the carries, and what somebody else reads after all."""
        read = {v for v in self.jaxpr.outvars if v.__class__ is not Literal}
        place = 0
        for c in self.found:
            for e in self.eqns[place : c.start]:
                read.update(v for v in e.invars if v.__class__ is not Literal)
            for operand in c.operands:
                if not operand.number:
                    read.update(v for v in operand.values if v.__class__ is not Literal)
            place = c.end
        for e in self.eqns[place:]:
            read.update(v for v in e.invars if v.__class__ is not Literal)
        for c in self.found:
            p, first = (c.end - c.start) // c.count, c.start
            inner = (v for e in self.eqns[c.start : c.end] for v in e.outvars if v in read)
            places = sorted({((i - first) % p, o) for i, o in map(self.made.__getitem__, inner)})
            outvars = [self.eqns[first + p + e].outvars[o] for e, o in places]
            c.body.outvars += [v for v in outvars if v not in c.body.outvars]
            for v in c.body.outvars:
                i, o = self.made[v]
                same = (self.eqns[i + (t - 1) * p].outvars[o] for t in range(c.count))
                c.results.append([w if w in read else None for w in same])


class _Writer:
    """Writes the body of a chain down."""

    def __init__(self, finder: _Finder, start: int, p: int, k: int) -> None:
        self.finder, self.start, self.p, self.k = finder, start, p, k
        self.end = start + k * p
        self.invars: list[Var] = []
        self.operands: list[Operand] = []
        self.known: dict[Any, Var] = {}
        self.places: list[tuple[int, int]] = []  # equation and number of each result
        self.eqns: list[JaxprEqn] = []
        self.before: list[JaxprEqn] = []  # what is computed again

    def operand(self, key: Any, aval: Any, make: Callable[[], Operand]) -> Var:
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Var(aval)
            self.invars.append(found)
            self.operands.append(make())
        return found

    def at(self, t: int, e: int) -> JaxprEqn:
        return self.finder.eqns[self.start + t * self.p + e]

    def numbers(self, values: list[Any], aval: Any) -> Any:
        """A number of each iteration's own."""
        first = values[0]
        if all(_same_number(first, v) for v in values):
            return Literal(first, aval)
        key = ("number", aval.dtype, *[np.asarray(v, aval.dtype).tobytes() for v in values])
        return self.operand(key, aval, lambda: Operand(values, number=True))

    def atom(self, e: int, q: int, want: int) -> Any:
        """Operand q of the body's equation e."""
        v = self.at(1, e).invars[q]
        if want == LITERAL:
            return self.numbers([self.at(t, e).invars[q].val for t in range(self.k)], v.aval)
        if want == BEFORE:
            return self.outer([self.at(t, e).invars[q] for t in range(self.k)])
        if want >> 3 <= e:
            return v
        made = (e - (want >> 3) + self.p, want & 7)
        first = self.at(0, e).invars[q]

        def carry() -> Operand:
            self.places.append(made)
            return Operand([first], len(self.places) - 1)

        return self.operand(("carry", made), v.aval, carry)

    def outer(self, values: list[Any]) -> Any:
        """Values from before the chain, one for each iteration."""
        v = values[1]
        if all(w is v for w in values):
            return self.operand(v, v.aval, lambda: Operand([v]))
        key = tuple(map(id, values))
        found = self.known.get(key)
        if found is None and self.again(values, DEPTH):
            eqns = [self.finder.eqns[self.finder.made[w][0]] for w in values]
            atoms = []
            for vs in zip(*(e.invars for e in eqns), strict=True):
                literal = vs[0].__class__ is Literal
                atoms.append(
                    self.numbers([w.val for w in vs], vs[0].aval)
                    if literal
                    else self.outer(list(vs))
                )
            found = self.known[key] = Var(v.aval)
            self.before.append(self.equation(eqns, atoms).replace(outvars=[found]))
        return found or self.operand(key, v.aval, lambda: Operand(values))

    def again(self, values: Sequence[Any], depth: int) -> bool:
        """Whether values from before the chain are computed again in the body."""
        finder = self.finder
        made = [finder.made.get(v, (-1, 0))[0] for v in values]
        first = finder.eqns[made[0]]
        if min(made) < 0 or first.primitive.name not in CHEAP or len(first.outvars) != 1:
            return False
        eqns = [finder.eqns[i] for i in made]
        if not _plain(first) or not all(_same_equation(first, e) for e in eqns[1:]):
            return False
        if first.primitive.name == "broadcast_in_dim" and len(first.invars) == 1:
            return first.invars[0].__class__ is not Literal
        for vs in zip(*(e.invars for e in eqns), strict=True):
            literals = sum(v.__class__ is Literal for v in vs)
            if literals not in (0, len(vs)):
                return False
            if literals or all(v is vs[0] for v in vs) or all(map(finder.kept, vs)):
                continue
            if depth <= 1 or not self.again(vs, depth - 1):
                return False
        return True

    def equation(self, eqns: Sequence[JaxprEqn], atoms: list[Any]) -> JaxprEqn:
        """One equation for those of all iterations. A slice that starts elsewhere each time is a
        dynamic one."""
        eqn = eqns[1]
        if not _is_slice(eqn):
            return eqn.replace(invars=atoms)
        starts = [e.params["start_indices"] for e in eqns]
        if all(s == starts[0] for s in starts):
            return eqn.replace(invars=atoms)
        aval = ShapedArray((), np.dtype("int32"))
        for axis in range(len(starts[0])):
            atoms.append(self.numbers([np.int32(s[axis]) for s in starts], aval))
        sizes = {"slice_sizes": tuple(eqn.outvars[0].aval.shape)}
        return eqn.replace(invars=atoms, primitive=dynamic_slice_p, params=sizes)

    def chain(self) -> Chain:
        pattern = iter(self.finder.wiring(self.start, self.p, 1))
        for e in range(self.p):
            atoms = [self.atom(e, q, next(pattern)) for q in range(len(self.at(1, e).invars))]
            self.eqns.append(self.equation([self.at(t, e) for t in range(self.k)], atoms))
        outvars = [self.at(1, e).outvars[o] for e, o in self.places]
        body = Jaxpr([], self.invars, outvars, [*self.before, *self.eqns])
        return Chain(self.start, self.end, self.k, body, self.operands, [])


def chains_of(jaxpr: Jaxpr) -> list[Chain]:
    """The chains of a program, in order; none for a short one."""
    if not isinstance(jaxpr, Jaxpr) or len(jaxpr.eqns) < MANY:
        return []
    tokens = _tokens(jaxpr.eqns)
    stretches = _stretches(tokens, _periods(tokens))
    if not stretches:
        return []
    finder = _Finder(jaxpr)
    for a, b, p in stretches:
        finder.search(a, b, p)
    finder.settle()
    return finder.found
