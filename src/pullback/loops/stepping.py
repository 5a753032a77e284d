"""Loops whose steps compute every element on its own: the steps of an element run one after the
other in registers, before those of the next one begin.

As written, each step walks over all elements: what it carries goes through memory, and threads are
called, once a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback.loops.ir import Alloc, Atom, Buf, Carry, Const, For, Let, Load, Stmt, Store, Var
from pullback.loops.ops import storage_bytes
from pullback.records import replaced

__all__ = ["steps_inside"]

MOST = 1 << 12  # steps: nothing looks for signals between them
NEAR = 1 << 15  # bytes that loops carry in the nearest cache: their elements do not wait there


def steps_inside(body: tuple[Stmt, ...], dims: Mapping[Var, int]) -> tuple[Stmt, ...]:
    """The same statements with such loops turned inside out. `dims`: the extents that are known."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc):
            inner = steps_inside(s.body, dims)
            s = s if inner is s.body else replaced(s, body=inner)
        elif isinstance(s, For) and s.kind == "seq":
            out += _Steps(s, dims).turned() or [s]
            continue
        out.append(s)
    same = len(out) == len(body) and all(x is y for x, y in zip(out, body, strict=True))
    return body if same else tuple(out)


class _Steps:
    """A loop of steps, with a loop over elements, perhaps in chunks for threads, inside."""

    def __init__(self, steps: For, dims: Mapping[Var, int]) -> None:
        self.steps, self.dims = steps, dims
        self.varying: set[Any] = {steps.index}  # from step to step
        self.values: dict[Var, Atom] = {}  # of loads from what is carried
        self.inside: list[Stmt] = []  # what each step computes
        self.count = 0

    def turned(self) -> list[Stmt] | None:
        """The loop over elements, with the steps inside; None if a step is not of that kind."""
        if self.steps.carry or not 1 < self.trips() <= MOST:
            return None
        path, found = [], self.steps
        while True:
            *before, last = found.body or (None,)
            if not isinstance(last, For) or last.carry:
                return None
            if not all(isinstance(s, (Let, Load)) for s in before):
                return None
            path.append((tuple(before), last))
            if last.kind == "vector":
                break
            if last.kind != "parallel" or len(path) > 1:
                return None
            found = last
        lanes = path[-1][1]
        if not all(isinstance(s, (Let, Load, Store)) for s in lanes.body):
            return None
        written = self.written(lanes)
        if written is None or any(s.buf in written for b, _ in path for s in b if type(s) is Load):
            return None
        return self.rebuilt(path, lanes, written)

    def trips(self) -> int:
        low, high = self.steps.lo, self.steps.hi
        if not isinstance(low, Const) or self.steps.step != Const(1, "i64"):
            return 0
        end = int(high.value) if isinstance(high, Const) else self.dims.get(high, 0)
        return end - int(low.value)

    def written(self, lanes: For) -> list[Buf] | None:
        """The buffers that steps write, if they touch no element but their own."""
        bufs = list(dict.fromkeys(s.buf for s in lanes.body if isinstance(s, Store)))
        touched = [s for s in lanes.body if isinstance(s, (Load, Store)) and s.buf in bufs]
        if any(s.mask is not None or s.index != (lanes.index,) for s in touched):
            return None
        held = sum(storage_bytes(b.dtype) * self.size(b) for b in bufs)
        return bufs if held > NEAR else None

    def size(self, buf: Buf) -> int:
        return math.prod(d if isinstance(d, int) else self.dims.get(d, 0) for d in buf.shape)

    def var(self, dtype: str) -> Var:
        self.count += 1
        return Var(f"s{self.count}", dtype)

    def rebuilt(
        self, path: list[tuple[tuple[Stmt, ...], For]], lanes: For, written: list[Buf]
    ) -> list[Stmt] | None:
        first = {b: self.var(b.dtype) for b in written}
        carried = {b: self.var(b.dtype) for b in written}
        self.varying.update(carried.values())
        now: dict[Buf, Atom] = dict(carried)
        outside = [[s for s in map(self.moved, before) if s] for before, _ in path]
        fixed: list[Stmt] = []
        for s in lanes.body:
            if isinstance(s, Store):
                now[s.buf] = self.value(s.value)
            elif isinstance(s, Load) and s.buf in carried:
                self.values[s.out] = now[s.buf]
            else:
                fixed += filter(None, [self.moved(s)])
        bounds = (a for _, loop in path for a in (loop.lo, loop.hi, loop.step))
        if any(a in self.varying for a in bounds):
            return None
        last = {b: self.var(b.dtype) for b in written}
        carry = tuple(Carry(last[b], carried[b], first[b]) for b in written)
        yields = tuple(now[b] for b in written)
        steps = replaced(self.steps, carry=carry, body=tuple(self.inside), yields=yields)
        at = (lanes.index,)
        loads = [Load(first[b], b, at) for b in written]
        stores = [Store(b, at, last[b]) for b in written]
        whole = replaced(lanes, body=(*fixed, *loads, steps, *stores))
        if len(path) > 1:
            whole = replaced(path[0][1], body=(*outside[1], whole))
        return [*outside[0], whole]

    def moved(self, s: Any) -> Stmt | None:
        """Writes a statement among those of a step, if it is a step's own; otherwise returns it."""
        if isinstance(s, Let):
            s = replaced(s, args=tuple(map(self.value, s.args)))
            used: tuple[Any, ...] = s.args
        else:
            s = replaced(
                s,
                index=tuple(map(self.value, s.index)),
                mask=None if s.mask is None else self.value(s.mask),
                other=None if s.other is None else self.value(s.other),
            )
            used = (*s.index, s.mask, s.other)
        if not any(isinstance(a, Var) and a in self.varying for a in used):
            return s  # type: ignore[no-any-return]
        self.varying.add(s.out)
        self.inside.append(s)
        return None

    def value(self, a: Atom) -> Atom:
        return self.values.get(a, a) if isinstance(a, Var) else a
