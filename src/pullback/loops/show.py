"""Printing kernels: readable text, and the canonical text that is a kernel's structural key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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

__all__ = ["canonical", "show_kernel", "show_stmt"]


class _Printer:
    """`canonical` numbers variables and buffers in order of appearance, so equal kernels print
    alike."""

    def __init__(self, canonical: bool) -> None:
        self.canonical = canonical
        self.names: dict[Any, str] = {}
        self.lines: list[str] = []

    def name(self, x: Var | Buf) -> str:
        found = self.names.get(x)
        if found is None:
            sigil = "%" if type(x) is Var or isinstance(x, Var) else "@"
            found = f"{sigil}{len(self.names)}" if self.canonical else f"{sigil}{x.name}"
            self.names[x] = found
        return found

    def atom(self, a: Any) -> str:
        if isinstance(a, Const):
            return f"{a.value!r}:{a.dtype}"
        return self.name(a)

    def atoms(self, xs: Iterable[Any]) -> str:
        return ", ".join(map(self.atom, xs))

    def buf(self, b: Buf) -> str:
        sizes = ",".join(str(d) if isinstance(d, int) else self.name(d) for d in b.shape)
        return f"{self.name(b)}: {b.dtype}[{sizes}] {b.role}"

    def carry(self, carry: Iterable[Carry]) -> str:
        return ", ".join(
            f"{self.name(c.out)}={self.name(c.var)}:{c.var.dtype}<-{self.atom(c.init)}"
            for c in carry
        )

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def region(self, r: Region, depth: int) -> None:
        self.put(depth, f"({self.typed(r.params)}) ->")
        self.block(r.body, depth + 1)
        self.put(depth + 1, f"yield {self.atoms(r.yields)}")

    def typed(self, vs: Iterable[Var]) -> str:
        return ", ".join(f"{self.name(v)}:{v.dtype}" for v in vs)

    def block(self, stmts: Iterable[Stmt], depth: int) -> None:
        for s in stmts:
            self.stmt(s, depth)

    def stmt(self, s: Stmt, depth: int) -> None:
        if isinstance(s, Let):
            attrs = "".join(f" {k}={v}" for k, v in s.attrs)
            args = self.atoms(s.args)
            self.put(depth, f"{self.name(s.out)}:{s.out.dtype} = {s.op}{attrs} {args}")
        elif isinstance(s, Load):
            index = self.atoms(s.index)
            source = f"{self.name(s.buf)}[{index}]{self._mask(s.mask, s.other)}"
            self.put(depth, f"{self.name(s.out)}:{s.out.dtype} = {source}")
        elif isinstance(s, Store):
            target = f"{self.name(s.buf)}[{self.atoms(s.index)}]"
            self.put(depth, f"{target} = {self.atom(s.value)}{self._mask(s.mask)}")
        elif isinstance(s, Update):
            how = s.combine if isinstance(s.combine, str) else "region"
            target = f"{self.name(s.buf)}[{self.atoms(s.index)}]"
            self.put(depth, f"{target} {how}= {self.atom(s.value)}{self._mask(s.mask)}")
            if isinstance(s.combine, Region):
                self.region(s.combine, depth + 1)
        else:
            self._block_stmt(s, depth)

    def _mask(self, mask: Atom | None, other: Atom | None = None) -> str:
        text = "" if mask is None else f" if {self.atom(mask)}"
        return text if other is None else f"{text} else {self.atom(other)}"

    def _block_stmt(self, s: Stmt, depth: int) -> None:
        if isinstance(s, For):
            bounds = f"{self.atom(s.lo)}..{self.atom(s.hi)} by {self.atom(s.step)}"
            how = (
                ""
                if s.combine is None
                else f" combine {'region' if isinstance(s.combine, Region) else s.combine}"
            )
            self.put(
                depth,
                f"for {s.kind} {self.name(s.index)} in {bounds} [{self.carry(s.carry)}]{how}:",
            )
            self.block(s.body, depth + 1)
            if s.yields:
                self.put(depth + 1, f"yield {self.atoms(s.yields)}")
            if isinstance(s.combine, Region):
                self.region(s.combine, depth + 1)
        elif isinstance(s, While):
            self.put(depth, f"while [{self.carry(s.carry)}]:")
            self.region(s.cond, depth + 1)
            self.region(s.body, depth + 1)
        elif isinstance(s, If):
            self.put(depth, f"if {self.atom(s.pred)} -> {self.typed(s.outs)}:")
            for body, yields in ((s.then, s.then_yields), (s.orelse, s.else_yields)):
                self.block(body, depth + 1)
                self.put(depth + 1, f"yield {self.atoms(yields)}")
        elif isinstance(s, Alloc):
            self.put(depth, f"alloc {self.buf(s.buf)}:")
            self.block(s.body, depth)
        elif isinstance(s, Turn):
            outs, bufs = (", ".join(map(self.buf, x)) for x in (s.outs, s.bufs))
            self.put(depth, f"{outs} = turn {self.atom(s.turned)} of {bufs}")
        elif isinstance(s, Call):
            self.put(
                depth, f"{self.typed(s.outs)} = call {s.name}({self.atoms(s.args)}) {s.attrs or ''}"
            )


def show_stmt(stmt: Stmt) -> str:
    """One statement as text."""
    p = _Printer(False)
    p.stmt(stmt, 0)
    return "\n".join(p.lines)


def _kernel(kernel: Kernel, canonical: bool) -> str:
    p = _Printer(canonical)
    dims, scalars = p.typed(kernel.dims), p.typed(kernel.scalars)
    params = ", ".join(map(p.buf, kernel.params))
    name = "" if canonical else " " + kernel.name
    p.put(0, f"kernel{name}({params}; {dims}; {scalars})")
    p.block(kernel.body, 1)
    return "\n".join(p.lines)


def show_kernel(kernel: Kernel) -> str:
    """A kernel as readable text."""
    return _kernel(kernel, False)


def canonical(kernel: Kernel) -> str:
    """The text that two kernels share exactly when they are the same program: names are replaced by
    numbers."""
    return _kernel(kernel, True)
