"""The canonical text of a kernel: equal texts mean equal machine code. Names of variables do not
show; order does."""

from __future__ import annotations

import struct
from typing import Any

from pullback.loops.ir import (
    Alloc,
    Atom,
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
    Update,
    Var,
    While,
)

__all__ = ["canonical_text"]


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.out: list[str] = []

    def name(self, x: Var | Buf) -> str:
        found = self.names.get(x)
        if found is None:
            found = self.names[x] = f"{'v' if isinstance(x, Var) else 'B'}{len(self.names)}"
        return found

    def define(self, x: Var | Buf) -> str:
        if isinstance(x, Var):
            return f"{self.name(x)}:{x.dtype}"
        shape = ",".join(str(d) if isinstance(d, int) else self.name(d) for d in x.shape)
        return f"{self.name(x)}:{x.dtype}[{shape}]{x.role}"

    def atom(self, a: Atom | Buf | None) -> str:
        if a is None:
            return "_"
        if isinstance(a, Const):
            v = a.value
            return f"{a.dtype}#{struct.pack('<d', v).hex() if isinstance(v, float) else int(v)}"
        return self.name(a)

    def atoms(self, xs: Any) -> str:
        return ",".join([self.atom(x) for x in xs])

    def region(self, r: Region) -> None:
        self.out.append("(" + ",".join(self.define(p) for p in r.params) + "){")
        self.block(r.body)
        self.out.append("}->" + self.atoms(r.yields))

    def how(self, combine: Any) -> None:
        if isinstance(combine, Region):
            self.region(combine)
        else:
            self.out.append(str(combine))

    def block(self, stmts: tuple[Stmt, ...]) -> None:
        for s in stmts:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        out = self.out
        if isinstance(s, Let):
            out.append(f"{self.define(s.out)}={s.op} {self.atoms(s.args)} {s.attrs or ''}")
        elif isinstance(s, Load):
            at = f"{self.name(s.buf)}[{self.atoms(s.index)}]"
            out.append(f"{self.define(s.out)}=load {at} {self.atom(s.mask)} {self.atom(s.other)}")
        elif isinstance(s, (Store, Update)):
            at = f"{self.name(s.buf)}[{self.atoms(s.index)}]"
            out.append(f"{type(s).__name__} {at} {self.atom(s.value)} {self.atom(s.mask)}")
            if isinstance(s, Update):
                self.how(s.combine)
        elif isinstance(s, (For, While)):
            self.carries(s)
        elif isinstance(s, If):
            out.append(f"if {self.atom(s.pred)}" + "{")
            self.block(s.then)
            out.append("}else{")
            self.block(s.orelse)
            out.append("}" + ",".join(self.define(o) for o in s.outs))
            out.append(self.atoms(s.then_yields) + ";" + self.atoms(s.else_yields))
        elif isinstance(s, Alloc):
            out.append(f"alloc {self.define(s.buf)}" + "{")
            self.block(s.body)
            out.append("}")
        elif isinstance(s, Call):
            outs = ",".join(self.define(o) for o in s.outs)
            out.append(f"{outs}=call {s.name} {self.atoms(s.args)} {s.attrs}")

    def carries(self, s: For | While) -> None:
        inits = self.atoms(c.init for c in s.carry)
        inside = ",".join(self.define(c.var) for c in s.carry)
        if isinstance(s, For):
            bounds = f"{self.atom(s.lo)},{self.atom(s.hi)},{self.atom(s.step)}"
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
        self.out.append("->" + ",".join(self.define(c.out) for c in s.carry))


def canonical_text(kernel: Kernel) -> str:
    """One string that determines the machine code of a kernel for a target."""
    p = _Printer()
    for group in (kernel.dims, kernel.scalars, kernel.params):
        p.out.append(" ".join(p.define(x) for x in group))
    p.out.append(repr(sorted((k, v) for k, v in kernel.attrs.items() if k in CODE_ATTRS)))
    p.block(kernel.body)
    return "\n".join(p.out)


CODE_ATTRS = frozenset(
    {"cost_per_iteration", "codegen"}
)  # the attributes of a kernel that the emitter reads
