"""Tables of a few rows of numbers that elementary functions are made of: coefficients of pieces of
a function, reciprocals and their logarithms.

Before: a function has one formula for all of its domain, with divisions and long polynomials, which
a loop that carries a number through it waits for. After: a row is chosen by a few bits of the
argument, and what follows is short. Of numbers one by one a row is read where it lies; lanes of
whole vectors are permutations of two registers, where the processor has such (AVX-512), else each
lane reads its row. All give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.literals import float_bits

__all__ = ["ROWS", "look_up"]

ROWS = 16  # of every table, of doubles: two registers of AVX-512 hold a column
_HALF = ROWS // 2

_SECTION = ".rodata.tables"

Table = Sequence[Sequence[float]]  # rows of as many doubles each


def look_up(b: Builder, name: str, table: Table, number: Val) -> list[Val]:
    """The columns of the rows that the last four bits of i64 numbers count, which others may stand
    before. `name` is the table's in the module."""
    # Brief code may be a stencil, which has room for literals, not for tables.
    if b.target.masks and (number.n > 1 or b.brief):
        columns = [[row[k] for row in table] for k in range(len(table[0]))]
        n, regs = number.n, number.regs
        return [Val(b, "double", n, tuple(_permuted(b, c, r, n) for r in regs)) for c in columns]
    rows = [_rows_of(b, name, table, number, reg) for reg in number.regs]
    return [
        Val(b, "double", number.n, tuple(_gathered(b, lanes, k) for lanes in rows))
        for k in range(len(table[0]))
    ]


def _permuted(b: Builder, column: Sequence[float], numbers: str, n: int) -> str:
    """The elements of a column at the places that a register's n lanes count."""
    found = [_permuted_once(b, column, part) for part in _in_eights(b, numbers, n)]
    if n == _HALF:
        return found[0]
    if n == 1:
        return b.extract(found[0], "double", _HALF, 0)
    first, last = found[0], found[-1]
    one, picks = f"<{_HALF} x double>", ", ".join(f"i32 {k}" for k in range(n))
    return b.pure_reg(
        f"shufflevector {one} {first}, {one} {last}, <{n} x i32> <{picks}>", (first, last)
    )


def _in_eights(b: Builder, reg: str, n: int) -> list[str]:
    """A register's numbers in registers of eight lanes; of fewer numbers as the first lanes."""
    if n == _HALF:
        return [reg]
    if n == 1:
        return [b.pure_reg(f"insertelement <{_HALF} x i64> poison, i64 {reg}, i64 0", (reg,))]
    parts = []
    for first in range(0, n, _HALF):
        lanes = (first + k for k in range(_HALF))
        picks = ", ".join(f"i32 {k if k < n else 'poison'}" for k in lanes)
        form = f"<{n} x i64> {reg}, <{n} x i64> poison, <{_HALF} x i32> <{picks}>"
        parts.append(b.pure_reg(f"shufflevector {form}", (reg,)))
    return parts


def _permuted_once(b: Builder, column: Sequence[float], numbers: str) -> str:
    one = f"<{_HALF} x double>"
    name = "llvm.x86.avx512.vpermi2var.pd.512"
    b.declarations[name] = f"declare {one} @{name}({one}, <{_HALF} x i64>, {one})"
    halves = [
        "<" + ", ".join(f"double {float_bits(v, 'double')}" for v in part) + ">"
        for part in (column[:_HALF], column[_HALF:])
    ]
    args = f"{one} {halves[0]}, <{_HALF} x i64> {numbers}, {one} {halves[1]}"
    return b.pure_reg(f"call {one} @{name}({args})", (numbers,))


def _rows_of(b: Builder, name: str, table: Table, number: Val, reg: str) -> list[Val]:
    """Where the rows lie that a register's lanes count."""
    width = len(table[0])
    words = ", ".join(f"double {float_bits(v, 'double')}" for row in table for v in row)
    size = ROWS * width
    # In a section of its own: what stencils take from the usual one are literals.
    form = f'[{size} x double] [{words}], section "{_SECTION}", align 64'
    b.declarations[f"@{name}"] = f"@{name} = private constant {form}"
    base = Val(b, "ptr", 1, (f"@{name}",))
    found = []
    for lane in range(number.n):
        k = Val(b, "i64", 1, (b.extract(reg, "i64", number.n, lane),))
        found.append(b.gep(base, (k & (ROWS - 1)) * width, 8))
    return found


def _gathered(b: Builder, rows: Sequence[Val], k: int) -> str:
    """The k-th numbers of rows, side by side. The table never changes: a load is as arithmetic."""
    whole, n = "poison", len(rows)
    for lane, row in enumerate(rows):
        at = b.gep(row, 8 * k).regs[0]
        one = b.pure_reg(f"load double, ptr {at}, align 8, !invariant.load !{{}}", (at,))
        if n == 1:
            return one
        known = (one,) if whole == "poison" else (one, whole)
        form = f"insertelement <{n} x double> {whole}, double {one}, i64 {lane}"
        whole = b.pure_reg(form, known)
    return whole
