"""Operands of matrix products on their way to panels: the functions that copy rows into panels, and
blocks transposed. What they compute is defined in loops/tiles.py.
"""

from __future__ import annotations

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.shuffles import transposed
from pullback.backends.llvm.target import Target
from pullback.loops.tiles import LINE, TILE_TYPES, TURN_TYPES

__all__ = ["Pack", "Turn"]

TYPES = {"f32": "float", "f64": "double", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8"}
SQUARE = 16  # rows and columns at most that registers hold to transpose
PACK_ARGUMENTS = (
    "ptr %b, i64 %b0, i64 %sb, i64 %rows, i64 %cols, ptr %c, i64 %c0, i64 %bp, i64 %panel"
)
AHEAD = 1 << 13  # bytes between what is copied into panels and what is fetched


class Pack:
    """Emits the function that copies rows of a B into panels. Rows lie apart, often by pages, where
    the processor does not look ahead by itself: the function fetches what it will read."""

    def __init__(self, target: Target, dtype: str, lines: int) -> None:
        self.t, self.size = TYPES[dtype], TILE_TYPES[dtype]
        self.n, self.target = target.lanes(self.size), target
        self.panel = lines * LINE // self.size
        self.declarations: dict[str, str] = {}
        head = f"define i32 @pb_tile(ptr %ctx, {PACK_ARGUMENTS}) nounwind"
        self.b = Builder(target, head, self.declarations)

    def arg(self, name: str) -> Val:
        return Val(self.b, "ptr" if name in "bc" else "i64", 1, (f"%{name}",))

    def at(self, base: Val, offset: Val | int) -> Val:
        return self.b.gep(base, offset, self.size)

    def text(self, brief: bool) -> str:
        """The module; `brief` is the least code, the same for all widths."""
        (self.one_by_one if brief else self.by_vectors)()
        self.b.line("ret i32 0")
        head = f'target triple = "{self.target.triple}"\n'
        return head + "\n".join([*self.declarations.values(), self.b.text()])

    def by_vectors(self) -> None:
        """Rows of whole panels, then what is in the last."""
        b, panel, bp = self.b, self.panel, self.arg("bp")
        rows, cols, sb = self.arg("rows"), self.arg("cols"), self.arg("sb")
        source, target = (self.at(self.arg(x), self.arg(x + "0")) for x in "bc")
        number = b.pure("udiv {T} {0}, {1}", (cols, b.lit(panel, "i64")), "i64")
        whole, last = number * panel, self.at(target, number * bp)
        line = b.call("smax", cols, 1) * self.size
        ahead = (b.pure("udiv {T} {0}, {1}", (b.lit(AHEAD, "i64"), line), "i64") + 1) * sb

        def row(k: Val, _: list[Val]) -> list[Val]:
            here = self.at(source, k * sb)

            def across(j: Val, state: list[Val]) -> list[Val]:
                self.copy(self.at(here, j), ahead, state[0], "")
                return [self.at(state[0], bp)]

            b.loop(0, whole, panel, [self.at(target, k * panel)], across)
            return []

        def ends(k: Val, _: list[Val]) -> list[Val]:
            self.copy(self.at(source, k * sb + whole), ahead, self.at(last, k * panel), rest)
            return []

        b.loop(0, rows, 1, [], row)
        rest = cols - whole
        b.if_else(rest > 0, lambda: b.loop(0, rows, 1, [], ends), list)

    def copy(self, here: Val, ahead: Val, there: Val, rest: Val | str) -> None:
        """A row of a panel: all of it, or `rest` elements and zeros."""
        b, n, vt = self.b, self.n, f"<{self.n} x {self.t}>"
        found = []
        for k in range(0, self.panel, n):
            place = self.at(here, k)
            if k * self.size % LINE == 0:
                b.prefetch(self.at(place, ahead), 2)
            found.append(self.fetch(place, k, rest))
        for k, reg in enumerate(found):
            p = self.at(there, k * n).regs[0]
            b.line(f"store {vt} {reg}, ptr {p}, align {self.size}")

    def fetch(self, place: Val, k: int, rest: Val | str) -> str:
        b, n, p, vt = self.b, self.n, place.regs[0], f"<{self.n} x {self.t}>"
        if isinstance(rest, str):
            return b.impure_reg(f"load {vt}, ptr {p}, align {self.size}")
        inside = b.call("smax", b.call("smin", rest - k, n), 0)
        mask = (b.lanes_of("i32", n) < b.cast("trunc", inside, "i32")).regs[0]
        suffix = {"float": "f32", "double": "f64"}.get(self.t, self.t)
        name, lanes = f"llvm.masked.load.v{n}{suffix}.p0", f"<{n} x i1>"
        self.declarations[name] = f"declare {vt} @{name}(ptr, i32, {lanes}, {vt})"
        args = f"ptr {p}, i32 {self.size}, {lanes} {mask}, {vt} zeroinitializer"
        return b.impure_reg(f"call {vt} @{name}({args})")

    def one_by_one(self) -> None:
        b, panel, cols = self.b, self.arg("panel"), self.arg("cols")
        source, target = (self.at(self.arg(x), self.arg(x + "0")) for x in "bc")
        width = b.pure("udiv {T} {0}, {1}", (cols + panel - 1, panel), "i64") * panel

        def one(k: Val, j: Val) -> list[Val]:
            line = self.at(source, k * self.arg("sb"))
            inside = lambda: [b.load(self.t, self.at(line, j))]
            value = b.if_else(j < cols, inside, lambda: [b.lit(0, self.t)])[0]
            number = b.pure("udiv {T} {0}, {1}", (j, panel), "i64")
            place = number * self.arg("bp") + k * panel + (j - number * panel)
            b.store(value, self.at(target, place))
            return []

        def row(k: Val, _: list[Val]) -> list[Val]:
            b.loop(0, width, 1, [], lambda j, _: one(k, j))
            return []

        b.loop(0, self.arg("rows"), 1, [], row)


TURN_ARGUMENTS = "ptr %a, i64 %a0, i64 %sa, i64 %rows, i64 %cols, ptr %b, i64 %b0, i64 %sb"


class Turn:
    """Emits the function that transposes a block: squares in registers, the rest one by one."""

    def __init__(self, target: Target, dtype: str) -> None:
        self.t, self.size = TYPES[dtype], TURN_TYPES[dtype]
        self.n, self.target = min(SQUARE, target.lanes(self.size)), target
        head = f"define i32 @pb_tile(ptr %ctx, {TURN_ARGUMENTS}) nounwind"
        self.b = Builder(target, head, {})

    def arg(self, name: str) -> Val:
        return Val(self.b, "ptr" if name in "ab" else "i64", 1, (f"%{name}",))

    def text(self, brief: bool) -> str:
        b, n = self.b, self.n
        rows, cols, zero = self.arg("rows"), self.arg("cols"), b.lit(0, "i64")
        if brief:
            self.single(zero, rows, zero, cols)
        else:
            whole_rows, whole_cols = (v & b.lit(-n, "i64") for v in (rows, cols))
            b.loop(0, whole_rows, n, [], lambda r, _: self.squares(r, whole_cols))
            self.single(zero, whole_rows, whole_cols, cols)
            self.single(whole_rows, rows, zero, cols)
        b.line("ret i32 0")
        return f'target triple = "{self.target.triple}"\n' + b.text()

    def place(self, name: str, at: Val) -> Val:
        base = self.b.gep(self.arg(name), self.arg(name + "0"), self.size)
        return self.b.gep(base, at, self.size)

    def squares(self, r: Val, cols: Val) -> list[Val]:
        self.b.loop(0, cols, self.n, [], lambda c, _: self.square(r, c))
        return []

    def square(self, r: Val, c: Val) -> list[Val]:
        b, n = self.b, self.n
        vt, sa, sb = f"<{n} x {self.t}>", self.arg("sa"), self.arg("sb")
        lines = []
        for i in range(n):
            p = self.place("a", (r + i) * sa + c).regs[0]
            lines.append(b.impure_reg(f"load {vt}, ptr {p}, align {self.size}"))
        for i, line in enumerate(transposed(b, vt, lines)):
            p = self.place("b", (c + i) * sb + r).regs[0]
            b.line(f"store {vt} {line}, ptr {p}, align {self.size}")
        return []

    def single(self, r0: Val, r1: Val, c0: Val, c1: Val) -> None:
        b, sa, sb = self.b, self.arg("sa"), self.arg("sb")

        def one(r: Val, c: Val) -> list[Val]:
            b.store(b.load(self.t, self.place("a", r * sa + c)), self.place("b", c * sb + r))
            return []

        def column(c: Val, _: list[Val]) -> list[Val]:
            b.loop(r0, r1, 1, [], lambda r, _: one(r, c))
            return []

        b.loop(c0, c1, 1, [], column)
