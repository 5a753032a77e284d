"""The canonical text of a kernel: equal texts mean equal machine code. Names of variables do not
show; order does."""

from __future__ import annotations

import struct
from typing import Any

from pullback.loops.ir import (
    Alloc,
    Buf,
    Call,
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

__all__ = ["CODE_ATTRS", "called_by", "canonical_text", "statements", "waits"]

# The attributes of a kernel that the emitter reads.
CODE_ATTRS = frozenset({"cost_per_iteration", "codegen", "streamed", "vast"})


class _Names(dict[Any, str]):
    """The text of every atom and buffer: variables by order of appearance, literals by value."""

    def __missing__(self, x: Any) -> str:
        text = self[x] = f"{'v' if type(x) is Var else 'B'}{len(self)}"
        return text


def _literal(c: Const) -> str:
    v = c.value
    return f"{c.dtype}#{struct.pack('<d', v).hex() if type(v) is float else int(v)}"


class _Printer:
    def __init__(self) -> None:
        self.names = _Names()
        self.out: list[str] = []

    def define(self, x: Var | Buf) -> str:
        if type(x) is Var:
            return f"{self.names[x]}:{x.dtype}"
        assert isinstance(x, Buf)
        shape = ",".join([str(d) if type(d) is int else self.names[d] for d in x.shape])
        return f"{self.names[x]}:{x.dtype}[{shape}]{x.role}"

    def atom(self, a: Any) -> str:
        return "_" if a is None else _literal(a) if type(a) is Const else self.names[a]

    def atoms(self, xs: Any) -> str:
        names = self.names
        return ",".join([_literal(x) if type(x) is Const else names[x] for x in xs])

    def region(self, r: Region) -> None:
        self.out.append("(" + ",".join([self.define(p) for p in r.params]) + "){")
        self.block(r.body)
        self.out.append("}->" + self.atoms(r.yields))

    def how(self, combine: Any) -> None:
        if isinstance(combine, Region):
            self.region(combine)
        else:
            self.out.append(str(combine))

    def block(self, stmts: tuple[Stmt, ...]) -> None:
        names, put = self.names, self.out.append
        for s in stmts:
            kind = type(s)
            if kind is Let:
                assert isinstance(s, Let)
                args = self.atoms(s.args)
                put(f"{names[s.out]}:{s.out.dtype}={s.op} {args} {s.attrs or ''}")
            elif kind is Load:
                assert isinstance(s, Load)
                at = f"{names[s.buf]}[{self.atoms(s.index)}]"
                mask = "" if s.mask is None else f" {self.atom(s.mask)} {self.atom(s.other)}"
                put(f"{names[s.out]}:{s.out.dtype}=load {at}{mask}")
            elif kind is Store or kind is Update:
                assert isinstance(s, Store | Update)
                at = f"{names[s.buf]}[{self.atoms(s.index)}]"
                put(f"{kind.__name__} {at} {self.atom(s.value)} {self.atom(s.mask)}")
                if isinstance(s, Update):
                    self.how(s.combine)
            else:
                self.compound(s)

    def compound(self, s: Stmt) -> None:
        out = self.out
        if isinstance(s, For | While):
            self.carries(s)
        elif isinstance(s, If):
            out.append(f"if {self.atom(s.pred)}" + "{")
            self.block(s.then)
            out.append("}else{")
            self.block(s.orelse)
            out.append("}" + ",".join([self.define(o) for o in s.outs]))
            out.append(self.atoms(s.then_yields) + ";" + self.atoms(s.else_yields))
        elif isinstance(s, Alloc):
            out.append(f"alloc {self.define(s.buf)}" + "{")
            self.block(s.body)
            out.append("}")
        elif isinstance(s, Turn):
            turns = f"turn {self.atom(s.turned)} {self.atoms(s.bufs)} "
            out.append(turns + ",".join([self.define(b) for b in s.outs]))
        elif isinstance(s, Call):
            outs = ",".join([self.define(o) for o in s.outs])
            out.append(f"{outs}=call {s.name} {self.atoms(s.args)} {s.attrs}")

    def carries(self, s: For | While) -> None:
        inits = self.atoms([c.init for c in s.carry])
        inside = ",".join([self.define(c.var) for c in s.carry])
        if isinstance(s, For):
            bounds = self.atoms((s.lo, s.hi, s.step))
            self.out.append(
                f"for {s.kind} {self.define(s.index)} {bounds} ({inits})({inside})" + "{"
            )
            self.block(s.body)
            self.out.append("}" + self.atoms(s.yields))
            self.how(s.combine)
        else:
            self.out.append(f"while ({inits})({inside})")
            self.region(s.cond)
            self.region(s.body)
        self.out.append("->" + ",".join([self.define(c.out) for c in s.carry]))


def canonical_text(kernel: Kernel) -> str:
    """One string that determines the machine code of a kernel for a target. It is written once and
    kept with the kernel."""
    known: str | None = kernel.written.get("canonical")
    if known is None:
        p = _Printer()
        for group in (kernel.dims, kernel.scalars, kernel.params):
            p.out.append(" ".join([p.define(x) for x in group]))
        p.out.append(repr(sorted((k, v) for k, v in kernel.attrs.items() if k in CODE_ATTRS)))
        p.block(kernel.body)
        known = kernel.written["canonical"] = "\n".join(p.out)
    return known


def called_by(kernel: Kernel) -> frozenset[str]:
    """The names of the functions that a kernel calls."""
    parts = canonical_text(kernel).split("=call ")[1:]
    return frozenset([part.split(" ", 1)[0] for part in parts])


def statements(kernel: Kernel) -> int:
    """How many statements a kernel has, roughly: the lines of its text."""
    return canonical_text(kernel).count("\n")


def waits(kernel: Kernel) -> bool:
    """Whether a kernel has a loop of unknown length."""
    return "\nwhile (" in canonical_text(kernel)
