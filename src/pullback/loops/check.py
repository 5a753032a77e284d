"""The checker of the loop IR: scoping, types, loop structure. It runs after every pass; what it
rejects is an internal error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

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
from pullback.loops.ops import BITS, COMBINERS, FLOATS, type_error

__all__ = ["LoopIRError", "check_kernel"]

show: Any = lazy_module("pullback.loops.show")

KINDS = frozenset({"seq", "parallel", "rows", "vector", "reduce", "scan", "unroll"})


# Operators with the types of their results and operands that have been found right: most statements
# of kernels are of a few such forms.
_well_typed: set[Any] = set()


class LoopIRError(AssertionError):
    """An ill-formed kernel: a fault of the compiler, never of the user."""


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.vars: set[Var] = set()
        self.bufs: set[Buf] = set()
        self.defined: set[Var] = set()

    def fail(self, why: str, stmt: Stmt | None = None) -> None:
        where = "" if stmt is None else "\n  in: " + show.show_stmt(stmt).strip()
        raise LoopIRError(f"internal error in pullback: kernel {self.kernel.name}: {why}{where}")

    def define(self, v: Var, s: Stmt | None = None) -> None:
        if v in self.defined:
            self.fail(f"{v!r} is defined twice", s)
        if v.dtype not in BITS:
            self.fail(f"{v!r} has unknown dtype {v.dtype!r}", s)
        self.defined.add(v)
        self.vars.add(v)

    def use(self, a: Any, s: Stmt, dtype: str | None = None) -> None:
        if isinstance(a, Var):
            if a not in self.vars:
                self.fail(f"{a!r} is not in scope", s)
        elif isinstance(a, Const):
            self.const(a, s)
        else:
            self.fail(f"{a!r} is not an atom", s)
        if dtype is not None and a.dtype != dtype:
            self.fail(f"{a!r} is {a.dtype}, expected {dtype}", s)

    def const(self, c: Const, s: Stmt) -> None:
        kind = bool if c.dtype == "bool" else float if c.dtype in FLOATS else int
        if type(c.value) is not kind:
            self.fail(f"the value of {c!r} is not a Python {kind.__name__}", s)

    def buf(self, b: Buf, s: Stmt, index: Sequence[Atom]) -> None:
        if b not in self.bufs:
            self.fail(f"buffer {b.name} is not in scope", s)
        if len(index) != len(b.shape):
            self.fail(f"buffer {b.name} has {len(b.shape)} axes, indexed with {len(index)}", s)
        for i in index:
            self.use(i, s, "i64")

    def block(self, stmts: Iterable[Stmt]) -> None:
        for s in stmts:
            self.stmt(s)

    def scoped(
        self,
        params: Sequence[Var],
        stmts: Iterable[Stmt],
        yields: Sequence[Atom],
        s: Stmt,
        types: Any,
    ) -> None:
        """A block with parameters, whose names end with it."""
        before = set(self.vars)
        for p in params:
            self.define(p, s)
        self.block(stmts)
        if len(yields) != len(types):
            self.fail(f"{len(yields)} yields, expected {len(types)}", s)
        for y, t in zip(yields, types, strict=True):
            self.use(y, s, t)
        self.vars = before

    def combine(self, how: Any, types: Sequence[str], s: Stmt) -> None:
        if isinstance(how, Region):
            if [p.dtype for p in how.params] != [*types, *types]:
                self.fail("the combiner's parameters are not (acc..., new...)", s)
            self.scoped(how.params, how.body, how.yields, s, types)
            return
        names = (how,) if isinstance(how, str) else how
        if len(names) != len(types) or any(n not in COMBINERS for n in names):
            self.fail(f"bad combiner {how!r}", s)

    def stmt(self, s: Stmt) -> None:
        _RULES[type(s)](self, s)

    def _let(self, s: Let) -> None:
        out, live = s.out, self.vars
        typing = [s.op, out.dtype]
        for a in s.args:
            if type(a) is not Var or a not in live:
                self.use(a, s)
            typing.append(a.dtype)
        form = tuple(typing)
        if s.attrs or form not in _well_typed:
            why = type_error(s)
            if why:
                self.fail(why, s)
            if not s.attrs:
                _well_typed.add(form)
        if out in self.defined or out.dtype not in BITS:
            self.define(out, s)
        self.defined.add(out)
        live.add(out)

    def _mask(self, mask: Atom | None, s: Stmt) -> None:
        if mask is not None:
            self.use(mask, s, "bool")

    def _load(self, s: Load) -> None:
        self.buf(s.buf, s, s.index)
        self._mask(s.mask, s)
        if s.other is not None:
            self.use(s.other, s, s.buf.dtype)
        if s.out.dtype != s.buf.dtype:
            self.fail("a load has its buffer's dtype", s)
        self.define(s.out, s)

    def _store(self, s: Store) -> None:
        if s.buf.role == "in":
            self.fail("a store to an input", s)
        self.buf(s.buf, s, s.index)
        self.use(s.value, s, s.buf.dtype)
        self._mask(s.mask, s)

    def _update(self, s: Update) -> None:
        self._store(Store(s.buf, s.index, s.value, s.mask))
        self.combine(s.combine, [s.buf.dtype], s)

    def _inits(self, carry: Sequence[Carry], s: Stmt) -> list[str]:
        for c in carry:
            self.use(c.init, s, c.var.dtype)
            if c.out.dtype != c.var.dtype:
                self.fail(f"{c.out!r} and {c.var!r} differ in dtype", s)
        return [c.var.dtype for c in carry]

    def _for(self, s: For) -> None:
        if s.kind not in KINDS:
            self.fail(f"unknown loop kind {s.kind!r}", s)
        for a in (s.lo, s.hi, s.step):
            self.use(a, s, "i64")
        types = self._inits(s.carry, s)
        combined = s.kind in ("reduce", "scan")
        if combined != (s.combine is not None):
            self.fail(f"a {s.kind} loop {'needs' if combined else 'takes no'} combiner", s)
        if s.kind in ("parallel", "rows", "vector") and s.carry:
            self.fail(f"a {s.kind} loop carries nothing", s)
        if combined:
            self.combine(s.combine, types, s)
        self.scoped([s.index, *(c.var for c in s.carry)], s.body, s.yields, s, types)
        for c in s.carry:
            self.define(c.out, s)

    def _while(self, s: While) -> None:
        types = self._inits(s.carry, s)
        for region, outs in ((s.cond, ["bool"]), (s.body, types)):
            if [p.dtype for p in region.params] != types:
                self.fail("a while region takes the carries", s)
            self.scoped(region.params, region.body, region.yields, s, outs)
        for c in s.carry:
            self.define(c.out, s)

    def _if(self, s: If) -> None:
        self.use(s.pred, s, "bool")
        types = [o.dtype for o in s.outs]
        self.scoped((), s.then, s.then_yields, s, types)
        self.scoped((), s.orelse, s.else_yields, s, types)
        for o in s.outs:
            self.define(o, s)

    def _alloc(self, s: Alloc) -> None:
        self.shape(s.buf, s)
        if s.buf in self.bufs or s.buf.role != "temp":
            self.fail(f"Alloc of {s.buf.name}: in scope already or not a temp", s)
        self.bufs.add(s.buf)
        self.block(s.body)  # its values stay: the body always runs, only the scratch ends with it
        self.bufs.discard(s.buf)

    def _turn(self, s: Turn) -> None:
        self.use(s.turned, s, "bool")
        if len({(b.dtype, b.shape) for b in (*s.bufs, *s.outs)}) != 1:
            self.fail("buffers that take turns are alike", s)
        for b in s.bufs:
            if b not in self.bufs:
                self.fail(f"buffer {b.name} is not in scope", s)
        self.bufs.update(s.outs)

    def shape(self, b: Buf, s: Any) -> None:
        for d in b.shape:
            if isinstance(d, Var):
                self.use(d, s, "i64")
        if b.dtype not in BITS:
            self.fail(f"buffer {b.name} has unknown dtype {b.dtype!r}", s)

    def _call(self, s: Call) -> None:
        for a in s.args:
            if isinstance(a, Buf):
                if a not in self.bufs:
                    self.fail(f"buffer {a.name} is not in scope", s)
            else:
                self.use(a, s)
        for o in s.outs:
            self.define(o, s)


_RULES: dict[type, Callable[[_Checker, Any], None]] = {
    Let: _Checker._let, Load: _Checker._load, Store: _Checker._store, Update: _Checker._update,
    For: _Checker._for, While: _Checker._while, If: _Checker._if, Alloc: _Checker._alloc,
    Turn: _Checker._turn, Call: _Checker._call,
}  # fmt: skip


def check_kernel(kernel: Kernel) -> None:
    """Raises LoopIRError unless the kernel is well formed: every name in scope and defined once,
    every type right."""
    c = _Checker(kernel)
    for v in (*kernel.dims, *kernel.scalars):
        c.define(v)
    for d in kernel.dims:
        if d.dtype != "i64":
            c.fail(f"dim {d!r} is not i64")
    for b in kernel.params:
        if b.role not in ("in", "out", "inout"):
            c.fail(f"parameter {b.name} has role {b.role!r}")
        c.shape(b, None)
        c.bufs.add(b)
    c.block(kernel.body)
