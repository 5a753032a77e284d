"""Rematerialisation: a program rewritten so that its plan fits a memory limit.

Before: calls inlined. After: the same operations on the same values; those that were held over the
place where most memory is used, and that nothing reads there, are computed again behind it, from
what is held anyway. Of all such values those go first that give most bytes for the seconds of
computing them again. A new plan shows what that has gained; this is repeated until the plan fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.jaxpr import ClosedJaxpr, JaxprEqn, Var
from pullback.loops import buffers, plan
from pullback.loops.fuse import IN_LANES, Nest, seconds_of, work_of
from pullback.loops.looping import last_uses
from pullback.loops.lower.graph import Node, Opaque, Slot
from pullback.loops.lower.program import inlined
from pullback.loops.scratch import temporary_bytes
from pullback.primitives.keys import lower_keys
from pullback.records import made, record
from pullback.transforms.partial_eval import dce_closed

__all__ = ["Survey", "fixed_bytes", "peak_bytes", "within"]

ROUNDS = 64  # plans that are tried
MOST = 256  # operations that one value is computed again with; values of a round


@record(frozen=False)
class Survey:
    """What a plan is made of: the value of each variable, the units, and the slots of temporaries
    that live in the memory of results."""

    values: dict[Any, Node] = made(default_factory=dict)
    units: Sequence[Any] = ()
    outs: Sequence[Node] = ()
    lent: frozenset[int] = frozenset()


def fixed_bytes(program: plan.Program) -> int:
    """The bytes of a plan's arguments and results, however they are computed."""
    given = sum(s.bytes for s in program.slots if s.role in ("in", "out"))
    shared = sum(program.slots[program.ins[k]].bytes for k, _ in program.donated)
    return given - shared


def peak_bytes(program: plan.Program, threads: int) -> int:
    """The bytes of a plan's arguments, its results and, where most, its temporaries."""
    return fixed_bytes(program) + temporary_bytes(program, threads)


def within(
    closed: ClosedJaxpr,
    limit: int,
    room: int,
    planned: Callable[[ClosedJaxpr, int, Survey], plan.Program],
    threads: int,
    tell: Callable[[str], None],
) -> tuple[ClosedJaxpr, int, int]:
    """The program so rewritten that its peak is `limit` bytes or less, or as near as that comes;
    the bytes that its temporaries may take (`room` to begin with), and its peak.
    `planned(closed, room, survey)` plans it."""
    closed = inlined(lower_keys(closed))
    now = dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)[0]
    program = planned(now, room, survey := Survey())
    best = now, room, peak_bytes(program, threads)
    spare, lives, count = room, _Lives(survey), MOST
    tried: set[Any] = set()
    for _ in range(ROUNDS):
        tell(f"memory {best[2]:,} bytes, {limit:,} wanted")
        over = best[2] - limit
        if over <= 0:
            break
        if lives.highest()[0] <= spare:  # kernels use some besides, and so do gaps
            spare, room = lives.highest()[0] - over, max(0, room - over)
        rewriting = _Rewriting(now, survey, lives, spare, tried, count)
        again, seen = rewriting.program(), Survey()
        program = planned(again, room, seen)
        after = _Lives(seen)
        if peak_bytes(program, threads) < best[2]:
            best = again, room, peak_bytes(program, threads)
        elif not rewriting.chosen:
            break
        if after.highest() < lives.highest():
            now, survey, lives, count = again, seen, after, MOST
        elif len(rewriting.chosen) > 1:
            count = len(rewriting.chosen) // 2
        else:
            tried.update(rewriting.chosen)
    return best


class _Lives:
    """From where to where each temporary lives, in numbers of units, and what that comes to."""

    def __init__(self, survey: Survey) -> None:
        self.made: dict[Slot, int] = {}
        self.reads: dict[Slot, list[int]] = {}
        for k, unit in enumerate(survey.units):
            own = buffers.unit_values(unit) if isinstance(unit, Nest) else unit.outs
            for n in own:
                if (
                    n.slot is not None
                    and n.slot.role == "temp"
                    and n.slot.number not in survey.lent
                ):
                    self.made.setdefault(n.slot, k)
            for n in buffers.reads_of(unit):
                if n.slot is not None:
                    self.reads.setdefault(n.slot, []).append(k)
        self.last = last_uses(survey.units, survey.outs)
        self.end = {s: self.last.get(s, k) for s, k in self.made.items()}
        for s, k in self.made.items():  # in place of a value that dies here
            if s.alias in self.end and self.end[s.alias] == k:
                self.end[s.alias] = k - 1
        self.live = [0] * (len(survey.units) + 1)
        for s, k in self.made.items():
            for at in range(k, self.end[s] + 1):
                self.live[at] += s.bytes

    def highest(self) -> tuple[int, int]:
        """The most bytes that live at once, and at how many units so many do."""
        most = max(self.live)
        return most, self.live.count(most)


class _Rewriting:
    """One round: which values are computed again, and the program that does it."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        survey: Survey,
        lives: _Lives,
        spare: int,
        tried: set[Any],
        count: int,
    ) -> None:
        self.closed, self.survey, self.lives, self.tried = closed, survey, lives, tried
        self.eqns, self.count = closed.jaxpr.eqns, count
        self.maker = {v: k for k, e in enumerate(self.eqns) for v in e.outvars}
        self.readers: dict[Any, list[int]] = {}
        for k, e in enumerate(self.eqns):
            for v in e.invars:
                if isinstance(v, Var):
                    self.readers.setdefault(v, []).append(k)
        self.results = {v for v in closed.jaxpr.outvars if isinstance(v, Var)}
        self.joined = {
            u.joined: u for u in survey.units if isinstance(u, Opaque) and u.joined is not None
        }
        self.runs = self._runs()
        self.changed: dict[int, JaxprEqn] = {}
        self.before: dict[int, list[JaxprEqn]] = {}
        self.chosen: list[Any] = []  # the variables, with the places that they do not live over
        self.relied: set[Any] = set()
        live = list(self.lives.live)
        while True:
            place = max(range(len(live)), key=live.__getitem__)
            if live[place] <= spare or not self._relieve(place, live, live[place] - spare):
                break

    # --- when equations run
    def _stored_by(self, k: int) -> Node | None:
        """The value in memory, or the operation, that an equation is."""
        eqn, values = self.eqns[k], self.survey.values
        given = {id(values.get(v)) for v in eqn.invars if isinstance(v, Var)}
        for v in eqn.outvars:
            node = values.get(v)
            if node is not None and id(node) not in given and (node.root or node.kind == "opq"):
                return node if node.nest is not None else None
        return None

    def _joined(self, k: int) -> Any:
        """The operation that an equation is, if its result is never in memory: another value is
        computed by it at once (epilogue.py)."""
        node = self.survey.values.get(self.eqns[k].outvars[0])
        return None if node is None else self.joined.get(node)

    def _runs(self) -> list[frozenset[int]]:
        """The units that each equation is computed in: its own, or those that read it."""
        runs: list[frozenset[int]] = [frozenset()] * len(self.eqns)
        self.stored: dict[int, Node] = {}
        for k in reversed(range(len(self.eqns))):
            node = self._stored_by(k)
            if node is not None:
                self.stored[k] = node
                runs[k] = frozenset([node.nest.index])
                continue
            found: set[int] = set()
            for v in self.eqns[k].outvars:
                found.update(*(runs[j] for j in self.readers.get(v, ())))
                if v in self.results:
                    found.add(len(self.survey.units))
            runs[k] = frozenset(found)
        return runs

    # --- what is computed again
    def _relieve(self, place: int, live: list[int], excess: int) -> bool:
        """Chooses values whose bytes at `place` come to the excess, if there are so many; whether
        there was one."""
        found = []
        for k, node in self.stored.items():
            s = node.slot
            if s is None or s not in self.lives.made or self.eqns[k].effects:
                continue
            if not self.lives.made[s] < place < self.lives.end[s]:
                continue
            if place in self.lives.reads.get(s, ()):
                continue
            v = next(v for v in self.eqns[k].outvars if self.survey.values.get(v) is node)
            if (v, place) in self.tried or v in self.relied:
                continue
            again = self._again(v, place)
            if again is not None:
                found.append((again.seconds / max(1, s.bytes), k, s, again))
        gained = 0
        for _, _, s, again in sorted(found, key=lambda f: f[:2]):
            if gained >= excess or len(self.chosen) >= self.count:
                break
            gone = {v for v, _ in self.chosen}
            if again.var in self.relied | gone or again.needs & gone:
                continue
            self._enter(again, place)
            gained += s.bytes
            held = [r for r in self.lives.reads.get(s, ()) if r < place]
            for at in range(max(held, default=self.lives.made[s]) + 1, again.first):
                live[at] -= s.bytes
        return gained > 0

    def _again(self, v: Any, place: int) -> _Again | None:
        """How a value is computed again for its readers behind a place; None if it can't be."""
        late, carried = self._late(v, place)
        if not late:
            return None
        first = min(min(self.runs[k]) for k in late)
        again = _Again(v, late, first)
        position = min(late)

        def anew(x: Any) -> Any:
            """The variable that holds x behind the place."""
            if not isinstance(x, Var) or x not in self.maker:
                return x
            if x in again.names:
                return again.names[x]
            k = self.maker[x]
            eqn, node = self.eqns[k], self.stored.get(k)
            joined = self._joined(k)
            dead = x is v or joined is not None or not (node is None or self._held(node, first))
            if not dead and node is not None:
                if k >= position:
                    raise _CannotBe
                again.needs.add(x)
                return x
            inputs = [anew(y) for y in eqn.invars]
            moved = any(a is not b for a, b in zip(inputs, eqn.invars, strict=True))
            if not dead and not moved and k < position:
                return x
            if eqn.effects or len(again.eqns) > MOST:
                raise _CannotBe
            outs = [type(o)(o.aval) for o in eqn.outvars]
            again.names.update(zip(eqn.outvars, outs, strict=True))
            again.eqns.append(eqn.replace(invars=inputs, outvars=outs))
            again.seconds += seconds_of(joined) if joined is not None else _seconds(node)
            return again.names[x]

        try:
            for k in sorted(late):
                for x in self.eqns[k].invars:
                    if x is v or x in carried:
                        anew(x)
        except _CannotBe:
            return None
        return again

    def _late(self, v: Any, place: int) -> tuple[set[int], set[Any]]:
        """The equations behind a place that read a value, also through others that are computed
        where they are read; and the variables of those."""
        late: set[int] = set()
        carried: set[Any] = set()
        rest = [v]
        while rest:
            for k in self.readers.get(rest.pop(), ()):
                if not self.runs[k] or max(self.runs[k]) <= place:
                    continue
                if k in self.stored:
                    late.add(k)
                    continue
                new = [o for o in self.eqns[k].outvars if o not in carried]
                if any(o in self.results for o in new):
                    return set(), carried
                carried.update(new)
                rest += new
        return late, carried

    def _held(self, node: Node, first: int) -> bool:
        """Whether a value is in memory anyway when unit `first` runs."""
        s = node.slot
        if s is None:
            return False
        return s not in self.lives.made or self.lives.end[s] >= first

    def _enter(self, again: _Again, place: int) -> None:
        self.chosen.append((again.var, place))
        self.relied |= again.needs
        self.before.setdefault(min(again.late), []).extend(again.eqns)
        for k in again.late:
            eqn = self.changed.get(k, self.eqns[k])
            inputs = [again.names.get(x, x) if isinstance(x, Var) else x for x in eqn.invars]
            self.changed[k] = eqn.replace(invars=inputs)

    def program(self) -> ClosedJaxpr:
        """The program that computes what was chosen again."""
        eqns: list[JaxprEqn] = []
        for k, eqn in enumerate(self.eqns):
            eqns += self.before.get(k, [])
            eqns.append(self.changed.get(k, eqn))
        jaxpr = self.closed.jaxpr.replace(eqns=eqns)
        used = [True] * len(jaxpr.outvars)
        return dce_closed(ClosedJaxpr(jaxpr, self.closed.consts), used, True)[0]


class _CannotBe(Exception):
    """A value has effects, or what it needs comes too late."""


class _Again:
    """A value that is computed again: for which equations, with which, from what."""

    def __init__(self, var: Any, late: set[int], first: int) -> None:
        self.var, self.late, self.first = var, late, first
        self.eqns: list[JaxprEqn] = []
        self.names: dict[Any, Any] = {}
        self.needs: set[Any] = set()
        self.seconds = 0.0


def _seconds(node: Node | None) -> float:
    """How long a value takes; nothing, where its readers compute it."""
    if node is None:
        return 0.0
    if node.kind == "opq" and node.source is not None:
        return seconds_of(node.source)
    return work_of(node) * IN_LANES
