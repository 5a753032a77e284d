"""Products with few columns: the functions that multiply rows of A with columns of B in lanes that
run along the contracted index.

A vector of columns would have idle lanes. Here both operands are contiguous along the contracted
index, and a sum is a vector of partial sums, which is folded in halves at the end: the same order
whatever else is in registers.
"""

from __future__ import annotations

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.shuffles import shuffled
from pullback.backends.llvm.target import Target
from pullback.loops.tiles import DOTS, TILE_TYPES

__all__ = ["dots_text"]

TYPES = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
ARGUMENTS = (
    "ptr %a, i64 %a0, i64 %sa, i64 %rows, i64 %len, ptr %b, i64 %b0, i64 %sb, "
    "ptr %c, i64 %c0, i64 %ldc, i64 %more, i64 %columns"
)
MOST = 8  # rows of a block


def _height(target: Target, columns: int) -> int:
    """Rows of a block: their sums, an element of each and one of a column stay in registers."""
    return max(1, min(MOST, (target.registers - 1) // (columns + 1)))


class _Dots:
    """Emits one function; `columns` is zero for the code of all widths, a column at a time."""

    def __init__(self, target: Target, dtype: str, columns: int) -> None:
        self.t, self.size = TYPES[dtype], TILE_TYPES[dtype]
        self.n, self.target, self.columns = target.lanes(self.size), target, columns
        self.height = _height(target, columns) if columns else 1
        self.declarations: dict[str, str] = {}
        head = f"define i32 @pb_tile(ptr %ctx, {ARGUMENTS}) nounwind"
        self.b = Builder(target, head, self.declarations)

    def arg(self, name: str) -> Val:
        return Val(self.b, "ptr" if name in "abc" else "i64", 1, (f"%{name}",))

    def at(self, base: Val, offset: Val | int) -> Val:
        return self.b.gep(base, offset, self.size)

    def text(self) -> str:
        """The module."""
        b, rows = self.b, self.arg("rows")
        left, right, out = (self.at(self.arg(x), self.arg(x + "0")) for x in "abc")

        def block(r: Val, _: list[Val]) -> list[Val]:
            last = rows - 1  # a ragged block ends with its last row again and again
            places = [b.call("smin", r + i, last) for i in range(self.height)]
            lines = [self.at(left, place * self.arg("sa")) for place in places]
            targets = [self.at(out, place * self.arg("ldc")) for place in places]
            if self.columns:
                columns = [self.at(right, self.arg("sb") * j) for j in range(self.columns)]
                self.multiply(lines, columns, targets)
                return []

            def column(j: Val, _: list[Val]) -> list[Val]:
                source = self.at(right, self.arg("sb") * j)
                self.multiply(lines, [source], [self.at(x, j) for x in targets])
                return []

            b.loop(0, self.arg("columns"), 1, [], column)
            return []

        b.loop(0, rows, self.height, [], block)
        b.line("ret i32 0")
        head = f'target triple = "{self.target.triple}"\n'
        return head + "\n".join([*self.declarations.values(), b.text()])

    def multiply(self, lines: list[Val], columns: list[Val], targets: list[Val]) -> None:
        """Rows with columns: their sums to memory."""
        b, n, wide = self.b, self.n, len(columns)
        length, more = self.arg("len"), self.arg("more").ne(0)
        whole = length & b.lit(-n, "i64")
        ahead = self.arg("sa") * (self.height * self.size)

        def step(k: Val, state: list[Val], mask: str = "") -> list[Val]:
            regs = list(state[0].regs)
            for line in lines if not mask and self.columns else ():
                b.prefetch(self.at(b.gep(line, ahead), k), 2)
            rows = [self.fetch(line, k, mask) for line in lines]
            for j, source in enumerate(columns):
                column = self.fetch(source, k, mask)
                for i, row in enumerate(rows):
                    at = i * wide + j
                    regs[at] = self.added(row, column, Val(b, self.t, n, (regs[at],))).regs[0]
            return [Val(b, self.t, n, tuple(regs))]

        def rest() -> list[Val]:
            limit = b.cast("trunc", length - whole, "i32")
            return step(whole, sums, (b.lanes_of("i32", n) < limit).regs[0])

        zero = b.splat(b.lit(0, self.t), n).regs * (len(lines) * wide)
        sums = b.loop(0, whole, n, [Val(b, self.t, n, zero)], step)
        done = b.if_else(length > whole, rest, lambda: sums)[0]
        values = [
            x for i in range(len(lines)) for x in self.folded(done.regs[i * wide : (i + 1) * wide])
        ]
        places = [self.at(target, j) for target in targets for j in range(wide)]
        total = b.if_else(
            more,
            lambda: [b.load(self.t, p) + v for p, v in zip(places, values, strict=True)],
            lambda: values,
        )
        for place, value in zip(places, total, strict=True):
            b.store(value, place)

    def added(self, x: Val, y: Val, acc: Val) -> Val:
        return self.b.fma(x, y, acc) if self.t in ("float", "double") else acc + x * y

    def fetch(self, row: Val, k: Val, mask: str) -> Val:
        b, n, vt = self.b, self.n, f"<{self.n} x {self.t}>"
        p = self.at(row, k).regs[0]
        if not mask:
            return b.impure(f"load {vt}, ptr {p}, align {self.size}", self.t, n)
        suffix = {"float": "f32", "double": "f64"}.get(self.t, self.t)
        name, lanes = f"llvm.masked.load.v{n}{suffix}.p0", f"<{n} x i1>"
        self.declarations[name] = f"declare {vt} @{name}(ptr, i32, {lanes}, {vt})"
        text = f"call {vt} @{name}(ptr {p}, i32 {self.size}, {lanes} {mask}, {vt} zeroinitializer)"
        return b.impure(text, self.t, n)

    def folded(self, regs: tuple[str, ...]) -> list[Val]:
        """The sum of each vector's lanes: of halves, then of their halves. Two vectors are folded
        into one as long as there are two."""
        count, length, lanes, vectors = len(regs), self.n, self.n, list(regs)
        while length > 1:
            half = length // 2
            if len(vectors) > 1:
                vectors += vectors[-1:] * (len(vectors) % 2)
                starts = range(0, 2 * lanes, length)
            else:
                vectors, starts = vectors * 2, range(0, lanes, length)
            low = [s + k for s in starts for k in range(half)]
            vectors = [
                self.halves(x, y, lanes, low, half)
                for x, y in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            length, lanes = half, len(low)
        b, t = self.b, self.t
        if lanes > 1:
            places = [(vectors[j // lanes], j % lanes) for j in range(count)]
            vectors = [b.extract(reg, t, lanes, lane) for reg, lane in places]
        return [Val(b, t, 1, (reg,)) for reg in vectors]

    def halves(self, x: str, y: str, lanes: int, low: list[int], half: int) -> str:
        """Lanes of two vectors, and those `half` a stretch further on, added."""
        b, vt = self.b, f"<{lanes} x {self.t}>"
        if len(low) == 1:
            both = (b.extract(x, self.t, lanes, k) for k in (low[0], low[0] + half))
            first, second = (Val(b, self.t, 1, (reg,)) for reg in both)
            return (first + second).regs[0]
        parts = []
        for picks in (low, [k + half for k in low]):
            parts.append(Val(b, self.t, len(low), (shuffled(b, vt, x, y, picks),)))
        return (parts[0] + parts[1]).regs[0]


def dots_text(target: Target, dtype: str, columns: int, brief: bool) -> str:
    """The module of the function for so many columns, up to `DOTS`; `brief` writes the least code,
    which is the same for all."""
    assert columns <= DOTS
    return _Dots(target, dtype, 0 if brief else columns).text()
