"""Narrow floats that a kernel only moves are moved as integers.

Lanes compute with narrow floats as float32: what is loaded is widened, and rounded where it is
stored. A transpose, a concatenation or a gather of bfloat16 numbers needs neither, takes twice the
lanes without, and leaves the bits of NaN as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.lazy_imports import lazy_module
from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Carry,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)
from pullback.loops.ops import BITS, NARROW_FLOATS
from pullback.records import replaced

__all__ = ["moved_as_integers"]

interpret: Any = lazy_module("pullback.loops.interpret")


def moved_as_integers(kernel: Kernel) -> Kernel:
    """The same kernel; of each narrow type of floats with which nothing is computed, integers."""
    types = {p.dtype for p in kernel.params if p.dtype in NARROW_FLOATS and BITS[p.dtype] >= 8}
    made = {s for s in kernel.body if type(s) is Let and s.out.dtype in types and _alone(s, types)}
    if types:
        types -= set(_computed([s for s in kernel.body if s not in made]))
    if not types:
        return kernel
    words = _Words({t: f"i{BITS[t]}" for t in types})

    def bits(v: Var) -> tuple[Stmt, ...]:
        return (Let(words.var(v), "bitcast", (v,)),) if v.dtype in types else ()

    body = [s for v in kernel.scalars for s in bits(v)]
    for s in kernel.body:
        body += [s, *bits(s.out)] if s in made else [words.stmt(s)]
    params = tuple(map(words.buf, kernel.params))
    return replaced(kernel, params=params, body=tuple(body))


def _alone(s: Let, types: set[str]) -> bool:
    """Whether a number is made of none of these types: a constant, converted before the loops."""
    return all(a.dtype not in types for a in s.args)


def _computed(stmts: Sequence[Stmt]) -> Iterator[str]:
    """The types of what is not only loaded, chosen, carried and stored."""
    for s in stmts:
        if isinstance(s, Let):
            if s.op != "select":
                yield from (s.out.dtype, *(a.dtype for a in s.args))
        elif isinstance(s, For):
            if s.combine is not None:
                yield from (c.var.dtype for c in s.carry)
            yield from _computed(s.body)
        elif isinstance(s, While):
            yield from _computed((*s.cond.body, *s.body.body))
        elif isinstance(s, If):
            yield from _computed((*s.then, *s.orelse))
        elif isinstance(s, Alloc):
            yield from _computed(s.body)
        elif isinstance(s, Update):
            yield s.buf.dtype
        elif isinstance(s, Call) and not s.name.startswith("turn_"):
            yield from (a.dtype for a in (*s.args, *s.outs))


class _Words:
    """Statements with integers in the place of such floats."""

    def __init__(self, types: dict[str, str]) -> None:
        self.types = types
        self.vars: dict[Var, Var] = {}
        self.bufs: dict[Buf, Buf] = {}

    def atom(self, a: Atom) -> Atom:
        if a.dtype not in self.types:
            return a
        if isinstance(a, Var):
            return self.var(a)
        word = self.types[a.dtype]
        bits = np.array(a.value, interpret.numpy_dtype(a.dtype)).view(interpret.numpy_dtype(word))
        return Const(int(bits), word)

    def var(self, v: Var) -> Var:
        if v.dtype not in self.types:
            return v
        if v not in self.vars:
            self.vars[v] = Var(v.name, self.types[v.dtype])
        return self.vars[v]

    def buf(self, buf: Buf) -> Buf:
        if buf.dtype not in self.types:
            return buf
        if buf not in self.bufs:
            self.bufs[buf] = replaced(buf, dtype=self.types[buf.dtype])
        return self.bufs[buf]

    def atoms(self, atoms: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(map(self.atom, atoms))

    def block(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(map(self.stmt, stmts))

    def region(self, r: Region) -> Region:
        return Region(tuple(map(self.var, r.params)), self.block(r.body), self.atoms(r.yields))

    def carry(self, carries: Sequence[Carry]) -> tuple[Carry, ...]:
        return tuple(Carry(self.var(c.out), self.var(c.var), self.atom(c.init)) for c in carries)

    def stmt(self, s: Stmt) -> Stmt:
        given: dict[str, Any] = {}
        if isinstance(s, Let):
            given = {"out": self.var(s.out), "args": self.atoms(s.args)}
        elif isinstance(s, Load):
            other = None if s.other is None else self.atom(s.other)
            given = {"out": self.var(s.out), "buf": self.buf(s.buf), "other": other}
        elif isinstance(s, Store):
            return Store(self.buf(s.buf), s.index, self.atom(s.value), s.mask)
        elif isinstance(s, For):
            given = {"carry": self.carry(s.carry), "body": self.block(s.body)}
            given["yields"] = self.atoms(s.yields)
        elif isinstance(s, While):
            given = {"carry": self.carry(s.carry), "cond": self.region(s.cond)}
            given["body"] = self.region(s.body)
        elif isinstance(s, If):
            given = {"then": self.block(s.then), "orelse": self.block(s.orelse)}
            given["outs"] = tuple(map(self.var, s.outs))
            given["then_yields"] = self.atoms(s.then_yields)
            given["else_yields"] = self.atoms(s.else_yields)
        elif isinstance(s, Alloc):
            given = {"buf": self.buf(s.buf), "body": self.block(s.body)}
        elif isinstance(s, Turn):
            first, second = map(self.buf, s.outs)
            given = {"outs": (first, second), "bufs": tuple(map(self.buf, s.bufs))}
        elif isinstance(s, Call):
            args = (self.buf(a) if isinstance(a, Buf) else self.atom(a) for a in s.args)
            given = {"args": tuple(args)}
        return replaced(s, **given) if given else s
