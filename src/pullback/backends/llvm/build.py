"""A builder of textual LLVM IR that does, while emitting, what no IR pass will do afterwards.

Pure instructions are value-numbered and placed in the outermost loop whose preheader has their
operands, so the emitter
may ask for the same address or splat again and again. A `Val` is a scalar or a vector of `n` lanes,
in one register or in
several interleaved ones (`regs`): every operation is emitted once per register, side by side, which
is how long dependent
chains are hidden. Scalars meet vectors by splatting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pullback.backends.llvm.literals import (
    BITS,
    FLOATS,
    INTEGERS,
    float_bits,
    float_word,
    folded,
    holds,
)
from pullback.backends.llvm.table import TABLE
from pullback.backends.llvm.target import Target

__all__ = ["FUNCTION_ATTRIBUTES", "TABLE_READ", "Builder", "Operand", "Scope", "Val"]

# The same for all functions: LLVM prepares itself anew for other words about the processor.
FUNCTION_ATTRIBUTES = "nounwind"
TABLE_READ = f" %table.at = getelementptr i8, ptr %ctx, i64 {TABLE}"
_SUFFIX = {"float": "f32", "double": "f64"}
_ELEMENTS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}  # by size, for addresses


@lru_cache(maxsize=256)
def _argument(block: str, k: int, t: str) -> str:
    """The lines that read the k-th word of a block of arguments."""
    align = max(1, BITS[t] // 8)
    if not k:
        return f" %{block}.0 = load {t}, ptr %{block}, align {align}"
    return (
        f" %{block}.at{k} = getelementptr i8, ptr %{block}, i64 {8 * k}\n"
        f" %{block}.{k} = load {t}, ptr %{block}.at{k}, align {align}"
    )


MANY_REGISTERS = 8  # of one value, whose chains LLVM would untangle


class Val:
    """A typed SSA value; `c` is its Python value when it is a literal."""

    __slots__ = ("b", "c", "n", "regs", "t")

    def __init__(self, b: Builder, t: str, n: int, regs: tuple[str, ...], c: Any = None) -> None:
        self.b, self.t, self.n, self.regs, self.c = b, t, n, regs, c

    def __add__(self, other: Operand) -> Val:
        return self.b.binary("fadd" if self.t in FLOATS else "add", self, other)

    def __sub__(self, other: Operand) -> Val:
        return self.b.binary("fsub" if self.t in FLOATS else "sub", self, other)

    def __mul__(self, other: Operand) -> Val:
        return self.b.binary("fmul" if self.t in FLOATS else "mul", self, other)

    def __truediv__(self, other: Operand) -> Val:
        return self.b.binary("fdiv", self, other)

    def __radd__(self, other: float) -> Val:
        return self.b.lit(other, self.t) + self

    def __rsub__(self, other: float) -> Val:
        return self.b.lit(other, self.t) - self

    def __rmul__(self, other: float) -> Val:
        return self.b.lit(other, self.t) * self

    def __rtruediv__(self, other: float) -> Val:
        return self.b.lit(other, self.t) / self

    def __neg__(self) -> Val:
        return self.b.unary("fneg", self) if self.t in FLOATS else self.b.binary("sub", 0, self)

    def __and__(self, other: Operand) -> Val:
        return self.b.binary("and", self, other)

    def __or__(self, other: Operand) -> Val:
        return self.b.binary("or", self, other)

    def __xor__(self, other: Operand) -> Val:
        return self.b.binary("xor", self, other)

    def __invert__(self) -> Val:
        return self.b.binary("xor", self, True if self.t == "i1" else -1)

    def __lshift__(self, other: Operand) -> Val:
        return self.b.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Val:
        """Logical shift."""
        return self.b.binary("lshr", self, other)

    def __lt__(self, other: Operand) -> Val:
        return self.b.compare("lt", self, other)

    def __le__(self, other: Operand) -> Val:
        return self.b.compare("le", self, other)

    def __gt__(self, other: Operand) -> Val:
        return self.b.compare("gt", self, other)

    def __ge__(self, other: Operand) -> Val:
        return self.b.compare("ge", self, other)

    def eq(self, other: Operand) -> Val:
        return self.b.compare("eq", self, other)

    def ne(self, other: Operand) -> Val:
        """Not equal; true for NaN."""
        return self.b.compare("ne", self, other)

    def is_nan(self) -> Val:
        return self.b.pure("fcmp uno {T} {0}, {0}", (self,), "i1")


Operand = Val | int | float | bool


class Scope:
    """A function, a loop or a branch: where its lines go, what goes before it."""

    __slots__ = ("is_loop", "lines", "pre")

    def __init__(self, is_loop: bool, pre: list[Any], lines: list[Any]) -> None:
        self.is_loop, self.pre, self.lines = is_loop, pre, lines


class Builder:
    """One LLVM function under construction. Modules are several builders sharing `declarations`."""

    def __init__(
        self, target: Target, head: str, declarations: dict[str, str], brief: bool = False
    ) -> None:
        self.target = target
        self.brief = brief  # the least code, not the fastest
        self.calls = False  # elementary functions instead of writing their bodies: see called.py
        self.head = head
        self.declarations = declarations
        self.entry: list[Any] = []  # allocas
        body: list[Any] = []
        self.scopes = [Scope(False, [], body)]
        self.depth: dict[str, int] = {}
        # Pure instructions: the register, and the scope where it is known, with its depth.
        self.known: dict[str, tuple[str, int, Scope]] = {}
        self.some: set[str] = set()  # masks that have a lane on, whichever lanes they have off
        self.selected: set[str] = set()  # vectors that a mask chose from two others
        self.count = 0
        self.block = "entry"
        self.literals: dict[tuple[str, float], Val] = {}
        self.dummy: Val | None = None
        self.places: set[int] = set()  # in the context's table, whose addresses have been read
        self.text_of_body = body
        self.blocks = 1

    # ---- lines, blocks and scopes

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def line(self, text: str) -> None:
        self.scopes[-1].lines.append(" " + text)

    def at(self, label: str) -> None:
        self.scopes[-1].lines.append(label + ":")
        self.block = label
        self.blocks += 1

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, cond: Val, yes: str, no: str) -> None:
        self.line(f"br i1 {cond.regs[0]}, label %{yes}, label %{no}")

    def push(self, is_loop: bool) -> Scope:
        """Opens a scope; call before the branch that enters it."""
        pre: list[Any] = []
        outer = self.scopes[-1].lines
        outer.append(pre)
        scope = Scope(is_loop, pre, outer)
        self.scopes.append(scope)
        return scope

    def pop(self) -> None:
        self.scopes.pop()

    def text(self) -> str:
        """The function's text."""
        body = _flat([*self.entry, *self.text_of_body])
        return f"{self.head} {{\nentry:\n{body}\n}}\n"

    # ---- instructions

    def _place(self, text: str, operands: Iterable[str], cheap: bool) -> str:
        scopes = self.scopes
        found = self.known.get(text)
        if found is not None:
            reg, at, scope = found
            if at < len(scopes) and scopes[at] is scope:
                return reg
        at = here = len(scopes) - 1
        depth = self.depth
        if here:
            lowest = 0
            for o in operands:
                if o in depth:
                    d = depth[o]
                    if d > lowest:
                        lowest = d
            while at > lowest and (scopes[at].is_loop or cheap):
                at -= 1
        self.count = count = self.count + 1
        reg = f"%v{count}"
        scope = scopes[at]
        lines = scope.lines if at == here else scopes[at + 1].pre
        lines.append(f" {reg} = {text}")
        self.known[text] = reg, at, scope
        depth[reg] = at
        return reg

    def impure(self, text: str, t: str, n: int = 1) -> Val:
        """An instruction that stays where it is (loads, calls, phis)."""
        return Val(self, t, n, (self.impure_reg(text),))

    def impure_reg(self, text: str) -> str:
        self.count += 1
        reg = f"%v{self.count}"
        self.scopes[-1].lines.append(f" {reg} = {text}")
        self.depth[reg] = len(self.scopes) - 1
        return reg

    def ty(self, t: str, n: int) -> str:
        return t if n == 1 else f"<{n} x {t}>"

    def pure(
        self, form: str, args: Sequence[Operand], t: str, *, cheap: bool = False, like: str = ""
    ) -> Val:
        """`form` with {T} the operand type, {R} the result type and {0}, {1}.. the operands, once
        per register."""
        vals = self.coerce(args, like)
        n = width = 1
        for v in vals:
            if v.n > n:
                n = v.n
            if len(v.regs) > width:
                width = len(v.regs)
        if n == 1 and width == 1:
            ops = [v.regs[0] for v in vals]
            return Val(self, t, 1, (self._place(form.format(*ops, T=vals[0].t, R=t), ops, cheap),))
        columns = [v.regs if v.n == n else self.spread(v, n) for v in vals]
        operand_type, result = self.ty(vals[0].t, n), self.ty(t, n)
        regs = []
        for k in range(width):
            ops = [c[k] if len(c) > 1 else c[0] for c in columns]
            regs.append(self._place(form.format(*ops, T=operand_type, R=result), ops, cheap))
        return Val(self, t, n, tuple(regs))

    def pure_reg(self, text: str, operands: Iterable[str]) -> str:
        """The register of an instruction that reads these, and no memory that a kernel writes."""
        return self._place(text, operands, False)

    def coerce(self, args: Sequence[Operand], like: str = "") -> list[Val]:
        """Python numbers become literals of the first Val's type."""
        for a in args:
            if type(a) is not Val:
                break
        else:
            return list(args)  # type: ignore[arg-type]
        t = like or next(a.t for a in args if type(a) is Val)
        return [a if type(a) is Val else self.lit(a, t) for a in args]  # type: ignore[arg-type]

    def lit(self, value: float, t: str) -> Val:
        """A literal scalar."""
        if t in FLOATS:
            return Val(self, t, 1, (float_bits(value, t),), float(value))
        known = self.literals.get((t, value))
        if known is not None:
            return known
        if t == "i1":
            known = Val(self, t, 1, ("true" if value else "false",), bool(value))
        else:
            bits = BITS[t]
            whole = int(value) & ((1 << bits) - 1)
            if whole >> (bits - 1):
                whole -= 1 << bits
            known = Val(self, t, 1, (str(whole),), whole)
        self.literals[t, value] = known
        return known

    def spread(self, v: Val, n: int) -> tuple[str, ...]:
        """The registers of a value as vectors of n lanes."""
        if v.n == n:
            return v.regs
        if v.n != 1:
            raise AssertionError(f"internal error in pullback: {v.n} lanes meet {n}")
        if v.c is not None:
            return (f"splat ({v.t} {v.regs[0]})",)
        regs = []
        for r in v.regs:
            first = self._place(f"insertelement <{n} x {v.t}> poison, {v.t} {r}, i64 0", (r,), True)
            zero = (
                f"shufflevector <{n} x {v.t}> {first}, <{n} x {v.t}> poison, <{n} x i32> "
                "zeroinitializer"
            )
            regs.append(self._place(zero, (first,), True))
        return tuple(regs)

    def splat(self, v: Val, n: int) -> Val:
        return v if v.n == n else Val(self, v.t, n, self.spread(v, n), v.c)

    # ---- arithmetic

    def binary(self, name: str, x: Operand, y: Operand) -> Val:
        if type(x) is Val:
            a, b = x, y if type(y) is Val else self.lit(y, x.t)  # type: ignore[arg-type]
        else:
            a, b = self.lit(x, y.t), y  # type: ignore[arg-type,assignment,union-attr]
        if a.c is not None or b.c is not None:
            known = folded(self, name, a, b)
            if known is not None:
                return known
        if a.n == b.n == len(a.regs) == len(b.regs) == 1:
            p, q, t = a.regs[0], b.regs[0], a.t
            return Val(self, t, 1, (self._place(f"{name} {t} {p}, {q}", (p, q), t == "i64"),))
        return self.pure(
            name + " {T} {0}, {1}", (a, b), a.t, cheap=a.n == 1 and b.n == 1 and a.t == "i64"
        )

    def unary(self, name: str, x: Val) -> Val:
        return self.pure(name + " {T} {0}", (x,), x.t)

    def compare(self, how: str, x: Operand, y: Operand, unsigned: bool = False) -> Val:
        if type(x) is Val:
            a, b = x, y if type(y) is Val else self.lit(y, x.t)  # type: ignore[arg-type]
        else:
            a, b = self.lit(x, y.t), y  # type: ignore[arg-type,assignment,union-attr]
        if a.c is not None and b.c is not None and a.t in INTEGERS:
            return self.lit(holds(how, a, b, unsigned), "i1")
        if a.t in FLOATS:
            code = "fcmp " + ("une" if how == "ne" else "o" + how)
        elif how in ("eq", "ne"):
            code = "icmp " + how
        else:
            code = "icmp " + ("u" if unsigned or a.t in ("i1", "ptr") else "s") + how
        if a.n == b.n == len(a.regs) == len(b.regs) == 1:
            p, q = a.regs[0], b.regs[0]
            return Val(self, "i1", 1, (self._place(f"{code} {a.t} {p}, {q}", (p, q), False),))
        return self.pure(code + " {T} {0}, {1}", (a, b), "i1")

    def select(self, cond: Val, x: Operand, y: Operand, like: str = "") -> Val:
        if cond.c is not None:
            a, b = self.coerce((x, y), like)
            return a if cond.c else b
        a, b = self.coerce((x, y), like)
        if cond.n == 1 and max(a.n, b.n) > 1 and len(cond.regs) == 1:
            n, width = max(a.n, b.n), max(len(a.regs), len(b.regs))
            left, right = self.spread(a, n), self.spread(b, n)
            t = self.ty(a.t, n)
            regs = []
            for k in range(width):
                p, q = left[k % len(left)], right[k % len(right)]
                c = cond.regs[0]
                regs.append(self._place(f"select i1 {c}, {t} {p}, {t} {q}", (c, p, q), False))
            return Val(self, a.t, n, tuple(regs))
        n = max(cond.n, a.n, b.n)
        chosen = self.pure(
            "select {T} {0}, " + f"{self.ty(a.t, n)} {{1}}, {self.ty(a.t, n)} {{2}}",
            (cond, a, b),
            a.t,
        )
        self.selected.update(chosen.regs)
        return chosen

    def cast(self, op: str, x: Val, t: str) -> Val:
        if x.t == t:
            return x
        if x.c is not None and op in ("sext", "zext", "trunc") and x.t != "i1":
            value = x.c if op != "zext" else x.c & ((1 << BITS[x.t]) - 1)
            return self.lit(value, t)
        if op == "bitcast" and x.c is not None and x.t in FLOATS and x.c == x.c:
            return self.lit(float_word(x.c, x.t), t)
        return self.pure(op + " {T} {0} to {R}", (x,), t, cheap=x.n == 1)

    def bitcast(self, x: Val, t: str) -> Val:
        return self.cast("bitcast", x, t)

    def regrouped(self, x: Val, t: str, n: int) -> Val:
        """The same registers as n lanes of another type."""
        one, other = self.ty(x.t, x.n), self.ty(t, n)
        regs = (self._place(f"bitcast {one} {r} to {other}", (r,), False) for r in x.regs)
        return Val(self, t, n, tuple(regs))

    def call(self, name: str, *args: Operand, t: str = "", flags: str = "", like: str = "") -> Val:
        """An overloaded intrinsic on the operands' common type."""
        vals = self.coerce(args, like)
        result = t or vals[0].t
        n = max(v.n for v in vals)
        full = self.intrinsic(name, vals[0].t, n, [v.t for v in vals], result, flags)
        operands = ", ".join(f"{self.ty(v.t, n)} {{{k}}}" for k, v in enumerate(vals))
        extra = f", {flags}" if flags else ""
        return self.pure(f"call {{R}} @{full}({operands}{extra})", vals, result)

    def intrinsic(
        self, name: str, t: str, n: int, args: list[str], result: str, flags: str = ""
    ) -> str:
        suffix = _SUFFIX.get(t, t)
        full = f"llvm.{name}.v{n}{suffix}" if n > 1 else f"llvm.{name}.{suffix}"
        if full not in self.declarations:
            types = [self.ty(a, n) for a in args] + ([flags.split()[0]] if flags else [])
            self.declarations[full] = f"declare {self.ty(result, n)} @{full}({', '.join(types)})"
        return full

    def fma(self, x: Operand, y: Operand, z: Operand) -> Val:
        """x*y + z: fused where the machine fuses, else two roundings."""
        a, b, c = self.coerce((x, y, z))
        if self.target.fma:
            return self.call("fma", a, b, c)
        return a * b + c

    def fence(self, x: Val) -> Val:
        """The same floats; nothing is simplified across this place."""
        return self.call("arithmetic.fence", x)

    def fabs(self, x: Val) -> Val:
        return self.call("fabs", x)

    def sqrt(self, x: Val) -> Val:
        return self.call("sqrt", x)

    def copysign(self, x: Operand, y: Val) -> Val:
        """By bits: LLVM's copysign looks through conversions for the sign, and may then need one
        that the machine has not got, such as float64 to float16."""
        (size, sign), t = self.coerce((x, y), y.t), f"i{BITS[y.t]}"
        last = -(1 << (BITS[y.t] - 1))
        bits = (self.bitcast(size, t) & ~last) | (self.bitcast(sign, t) & last)
        return self.bitcast(bits, y.t)

    def ashr(self, x: Val, k: Operand) -> Val:
        return self.binary("ashr", x, k)

    def lanes_of(self, t: str, n: int) -> Val:
        """<0, 1, 2, ..>."""
        if n == 1:
            return self.lit(0, t)
        return Val(self, t, n, ("<" + ", ".join(f"{t} {k}" for k in range(n)) + ">",))

    def extract(self, reg: str, t: str, n: int, lane: int) -> str:
        """One lane of a vector register."""
        return (
            self._place(f"extractelement <{n} x {t}> {reg}, i64 {lane}", (reg,), False)
            if n > 1
            else reg
        )

    def abreast(self, x: Val) -> Val:
        """x, of whose registers each is known to be computed before any is used. LLVM's scheduler
        believes that many chains side by side take more registers than there are, and puts one
        after the other; a processor that looks some hundred operations ahead then waits."""
        count, size = len(x.regs), BITS[x.t] * x.n // 8
        whole = size in (16, 32, 64) and size <= self.target.vector_bytes  # one of the machine's
        if count < MANY_REGISTERS or x.n == 1 or not (whole and self.target.masks):
            return x
        one = self.ty(x.t, x.n)
        types = "{ " + ", ".join([one] * count) + " }"
        places = ",".join(["=v"] * count + [str(k) for k in range(count)])  # results as they came
        args = ", ".join(f"{one} {r}" for r in x.regs)
        all_of_them = self._place(f'call {types} asm "", "{places}"({args})', x.regs, False)
        regs = (
            self._place(f"extractvalue {types} {all_of_them}, {k}", (all_of_them,), False)
            for k in range(count)
        )
        return Val(self, x.t, x.n, tuple(regs))

    def stays(self, x: Val) -> bool:
        """Whether a value is the same in all steps of a loop around this place."""
        if x.c is not None:
            return True
        depth = max(self.depth.get(r, 0) for r in x.regs)
        return any(scope.is_loop for scope in self.scopes[depth + 1 :])

    def any_lane(self, mask: Val) -> Val:
        """Whether any lane of any register is set."""
        reg = mask.regs[0]
        if reg in self.some:
            return self.lit(True, "i1")
        for other in mask.regs[1:]:
            reg = self._place(f"or {self.ty('i1', mask.n)} {reg}, {other}", (reg, other), False)
        if mask.n == 1:
            return Val(self, "i1", 1, (reg,))
        bits = self._place(f"bitcast <{mask.n} x i1> {reg} to i{mask.n}", (reg,), False)
        return Val(self, "i1", 1, (self._place(f"icmp ne i{mask.n} {bits}, 0", (bits,), False),))

    # ---- addresses and scalars in memory

    def gep(self, pointer: Val, offset: Operand, size: int = 1) -> Val:
        """pointer + offset * size bytes."""
        at = offset if type(offset) is Val else self.lit(offset, "i64")  # type: ignore[arg-type]
        if at.c == 0:
            return pointer
        element = _ELEMENTS[size]
        if at.n == pointer.n == len(at.regs) == len(pointer.regs) == 1:
            p, q = pointer.regs[0], at.regs[0]
            text = f"getelementptr {element}, ptr {p}, i64 {q}"
            return Val(self, "ptr", 1, (self._place(text, (p, q), True),))
        return self.pure(
            f"getelementptr {element}, {{T}} {{0}}, i64 {{1}}", (pointer, at), "ptr", cheap=True
        )

    def argument(self, block: str, k: int, t: str) -> Val:
        """The k-th word of a block of the function's arguments. Only at the function's
        beginning."""
        self.scopes[0].lines.append(_argument(block, k, t))
        return Val(self, t, 1, (f"%{block}.{k}",))

    def from_table(self, offset: int) -> str:
        """The address at an offset in the context's table, read where the function begins."""
        if not self.places:
            self.entry.append(TABLE_READ)
            self.entry.append(" %table = load ptr, ptr %table.at, align 8")
        if offset not in self.places:
            self.places.add(offset)
            self.entry.append(f" %table.at{offset} = getelementptr i8, ptr %table, i64 {offset}")
            self.entry.append(f" %table.{offset} = load ptr, ptr %table.at{offset}, align 8")
        return f"%table.{offset}"

    def load(self, t: str, pointer: Val, flags: str = "") -> Val:
        return self.impure(
            f"load {flags}{t}, ptr {pointer.regs[0]}, align {max(1, BITS[t] // 8)}", t
        )

    def store(self, value: Val, pointer: Val) -> None:
        size = max(1, BITS[value.t] // 8)
        self.line(f"store {value.t} {value.regs[0]}, ptr {pointer.regs[0]}, align {size}")

    def prefetch(self, pointer: Val, level: int = 3, writes: bool = False) -> None:
        """Asks for a line of memory, to read or to write it; 3 is the level nearest to the core."""
        name = "llvm.prefetch.p0"
        self.declarations[name] = f"declare void @{name}(ptr, i32, i32, i32)"
        args = f"ptr {pointer.regs[0]}, i32 {int(writes)}, i32 {level}, i32 1"
        self.line(f"call void @{name}({args})")

    def nowhere(self) -> Val:
        """Memory that masked lanes may touch."""
        if self.dummy is None:
            self.dummy = self.alloca(64)
        return self.dummy

    def alloca(self, size: int, align: int = 64) -> Val:
        """Stack memory, reserved at entry."""
        reg = self.fresh()
        self.entry.append(f" {reg} = alloca i8, i64 {size}, align {align}")
        self.depth[reg] = 0
        return Val(self, "ptr", 1, (reg,))

    # ---- control flow

    def loop(
        self,
        lo: Operand,
        hi: Operand,
        step: Operand,
        carries: Sequence[Val],
        body: Callable[[Val, list[Val]], Sequence[Val]],
    ) -> list[Val]:
        """for i in range(lo, hi, step): carries = body(i, carries). Returns the carries."""
        first, last, stride = self.coerce((lo, hi, step), "i64")
        down = stride.c is not None and stride.c < 0
        if (
            first.c is not None
            and last.c is not None
            and stride.c is not None
            and len(range(first.c, last.c, stride.c)) == 1
        ):
            once = zip(body(first, list(carries)), carries, strict=True)
            return [self._widen_to(v, like) for v, like in once]
        done = self.label()
        start = self.label()
        self.push(True)
        if not (
            first.c is not None
            and last.c is not None
            and (first.c > last.c if down else first.c < last.c)
        ):
            self.branch_if(self._goes_on(first, last, stride), start, done)
        else:
            self.branch(start)
        before = self.block
        self.at(start)
        hole: list[Any] = []
        self.scopes[-1].lines.append(hole)
        index = self._phi_val("i64", 1, 1)
        inside = [self._phi_val(c.t, c.n, len(c.regs)) for c in carries]
        result = [self._widen_to(r, c) for r, c in zip(body(index, inside), inside, strict=True)]
        after = self.binary("add", index, stride)
        self.branch_if(self._goes_on(after, last, stride), start, done)
        latch = self.block
        incoming = zip([index, *inside], [first, *carries], [after, *result], strict=True)
        for phi, init, value in incoming:
            self._phi_lines(hole, phi, [(init, before), (value, latch)])
        self.pop()
        self.at(done)
        if not carries:
            return []
        outs = [self._phi_val(c.t, c.n, len(c.regs)) for c in carries]
        guarded = self._guarded(first, last, down)
        for out, init, value in zip(outs, carries, result, strict=True):
            edges = [(init, before), (value, latch)] if guarded else [(value, latch)]
            self._phi_lines(self.scopes[-1].lines, out, edges)
        return outs

    @staticmethod
    def _guarded(first: Val, last: Val, down: bool) -> bool:
        if first.c is None or last.c is None:
            return True
        return not (first.c > last.c if down else first.c < last.c)

    def _goes_on(self, i: Val, hi: Val, step: Val) -> Val:
        if step.c is not None:
            return i > hi if step.c < 0 else i < hi
        return self.select(step > 0, i < hi, i > hi)

    def _phi_val(self, t: str, n: int, width: int) -> Val:
        regs = tuple(self.fresh() for _ in range(width))
        for r in regs:
            self.depth[r] = len(self.scopes) - 1
        return Val(self, t, n, regs)

    def _phi_lines(self, lines: list[Any], phi: Val, edges: list[tuple[Val, str]]) -> None:
        for k, reg in enumerate(phi.regs):
            parts = []
            for v, block in edges:
                if v.n == phi.n:
                    source = v.regs
                elif v.c is not None:
                    source = (f"splat ({v.t} {v.regs[0]})",)
                else:
                    raise AssertionError("internal error in pullback: a phi of unlike shapes")
                parts.append(f"[ {source[k % len(source)]}, %{block} ]")
            lines.append(f" {reg} = phi {self.ty(phi.t, phi.n)} {', '.join(parts)}")

    def _widen_to(self, v: Val, like: Val) -> Val:
        regs = self.spread(v, like.n)
        return Val(self, like.t, like.n, tuple(regs[k % len(regs)] for k in range(len(like.regs))))

    def while_loop(
        self,
        carries: Sequence[Val],
        cond: Callable[[list[Val]], Val],
        body: Callable[[list[Val]], Sequence[Val]],
    ) -> list[Val]:
        """while cond(carries): carries = body(carries)."""
        head, inside_label, done = self.label(), self.label(), self.label()
        self.push(True)
        self.branch(head)
        before = self.block
        self.at(head)
        hole: list[Any] = []
        self.scopes[-1].lines.append(hole)
        inside = [self._phi_val(c.t, c.n, len(c.regs)) for c in carries]
        test = cond(inside)
        self.branch_if(test, inside_label, done)
        self.at(inside_label)
        result = [self._widen_to(r, c) for r, c in zip(body(inside), inside, strict=True)]
        self.branch(head)
        latch = self.block
        for phi, init, value in zip(inside, carries, result, strict=True):
            self._phi_lines(hole, phi, [(init, before), (value, latch)])
        self.pop()
        self.at(done)
        for v in inside:  # the header dominates what follows
            for r in v.regs:
                self.depth[r] = len(self.scopes) - 1
        return inside

    def if_else(
        self,
        cond: Val,
        then: Callable[[], Sequence[Val]],
        orelse: Callable[[], Sequence[Val]] | None = None,
    ) -> list[Val]:
        """A branch on a scalar; both sides return the same shapes."""
        yes, no, done = self.label(), self.label(), self.label()
        pre = self.push(False).pre
        self.branch_if(cond, yes, no if orelse else done)
        before = self.block
        self.at(yes)
        left = list(then())
        left_hole: list[Any] = []
        self.scopes[-1].lines.append(left_hole)
        self.branch(done)
        left_block = self.block
        self.pop()
        right: list[Val] = []
        right_hole: list[Any] = []
        right_block = before
        if orelse:
            self.push(False).pre = pre
            self.at(no)
            right = list(orelse())
            self.scopes[-1].lines.append(right_hole)
            self.branch(done)
            right_block = self.block
            self.pop()
        self.at(done)
        outs = []
        for a, b in zip(left, right, strict=True):
            n, width = max(a.n, b.n), max(len(a.regs), len(b.regs))
            out = self._phi_val(a.t, n, width)
            edges = [
                (self._splat_into(left_hole, a, n), left_block),
                (self._splat_into(right_hole, b, n), right_block),
            ]
            self._phi_lines(self.scopes[-1].lines, out, edges)
            outs.append(out)
        return outs

    def _splat_into(self, hole: list[Any], v: Val, n: int) -> Val:
        """A splat written at the end of a block that is already closed."""
        if v.n == n or v.c is not None:
            return v
        regs = []
        for r in v.regs:
            first, full = self.fresh(), self.fresh()
            hole.append(f" {first} = insertelement <{n} x {v.t}> poison, {v.t} {r}, i64 0")
            zero = f"<{n} x {v.t}> poison, <{n} x i32> zeroinitializer"
            hole.append(f" {full} = shufflevector <{n} x {v.t}> {first}, {zero}")
            regs.append(full)
        return Val(self, v.t, n, tuple(regs))


def _flat(lines: list[Any]) -> str:
    """Lines, and lists of lines, as one text."""
    return "\n".join([_flat(x) if type(x) is list else x for x in lines if x])
