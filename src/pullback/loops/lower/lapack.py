"""What calls of LAPACK on stacks of matrices need: loops over the stack, matrices copied to columns
and back, calls, workspace.

LAPACK's matrices lie column by column, ours row by row: matrices are copied on their way in, which
they must be anyway (routines work in place), and on their way out. The copy in computes what the
operand's producers would have stored. Where a routine fails, the results are NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.loops import libraries
from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf, Call, Const, Var
from pullback.loops.lower.graph import COMPLEX, Node, Slot, part_dtype, read
from pullback.loops.lower.updates import Pinned
from pullback.loops.ops import FLOATS

__all__ = [
    "LWORK",
    "SUPPORTED",
    "WORK",
    "Matrix",
    "all_finite",
    "columns_in",
    "each",
    "nan_of",
    "room",
    "rows_out",
    "run",
    "scratch",
    "slot_place",
    "stacked",
    "tiled",
    "vector_out",
]

SUPPORTED = frozenset({"f32", "f64", "c64", "c128"})
TILE = 16  # rows or columns of a block that is transposed in the first cache
SHORT = 8  # rows or columns that are copied one by one
ON_STACK = 4096  # words of scratch
LARGE = 4096  # elements of a matrix that is transposed in blocks

WORK = "work"  # in a list of arguments: workspace of the best size,
LWORK = "lwork"  # and that size

Value = Any  # an Atom, or a pair of them for complex
Where = tuple[Index, ...]


def stacked(
    b: Builder, batch: Sequence[int], body: Callable[[Where], None], kind: str = "parallel"
) -> None:
    """`body` for every matrix of a stack, over threads where there is enough to do."""
    n = math.prod(batch)
    if not n:
        return

    def one(k: Index) -> Sequence[Atom]:
        with Pinned(b):
            body(b.unravel(k, tuple(batch)))
        return ()

    b.loop(n, kind, one)


def each(b: Builder, n: int, kind: str, body: Callable[[Index], Any], **bounds: Any) -> None:
    """A loop over 0..n whose loads stay inside."""
    if not n:
        return

    def one(k: Index) -> Sequence[Atom]:
        with Pinned(b):
            body(k)
        return ()

    b.loop(n, kind, one, **bounds)


def tiled(b: Builder, outer: int, inner: int, body: Callable[[Index, Index], None]) -> None:
    """Every pair of indices, the second in lanes; in large boxes by blocks of the second, so that
    what lies close along the first is met soon again."""
    if outer * inner <= LARGE or inner <= TILE:
        kind = "vector" if inner >= SHORT else "seq"
        each(b, outer, "seq", lambda i: each(b, inner, kind, lambda j: body(i, j)))
        return

    def block(k: Index) -> None:
        lo = b.atom(b.mul(k, TILE))
        hi = b.let("min", (b.let("add", (lo, b.dim(TILE)), "i64"), b.dim(inner)), "i64")
        each(
            b,
            outer,
            "seq",
            lambda i: each(b, inner, "vector", lambda j: body(i, j), lo=lo, hi=hi),
        )

    each(b, -(-inner // TILE), "seq", block)


def width_of(dtype: str) -> int:
    """Words of an element."""
    return 2 if dtype in COMPLEX else 1


def nan_of(dtype: str) -> Value:
    nan = Const(math.nan, part_dtype(dtype))
    return (nan, nan) if dtype in COMPLEX else nan


def cast(b: Builder, value: Value, dtype: str) -> Value:
    """A value as an element of a stack: real ones become complex."""
    if dtype in COMPLEX and not isinstance(value, tuple):
        return value, Const(0.0, part_dtype(dtype))
    return value


class Matrix:
    """Memory of a matrix or vector, column by column, from the word `start` on."""

    def __init__(self, buf: Buf, dtype: str, lead: int, start: Index = 0) -> None:
        self.buf, self.dtype, self.lead, self.start = buf, dtype, lead, start

    def _at(self, b: Builder, row: Index, column: Index) -> Index:
        w = width_of(self.dtype)
        return b.linear([(self.start, 1), (row, w), (column, self.lead * w)])

    def get(self, b: Builder, row: Index, column: Index = 0) -> Value:
        at = self._at(b, row, column)
        first = b.load(self.buf, b.atom(at))
        if self.dtype not in COMPLEX:
            return first
        return first, b.load(self.buf, b.atom(b.add(at, 1)))

    def entries(self, b: Builder) -> Callable[[Index, Index], Value]:
        """`get`, as rows_out takes it."""
        return lambda row, column: self.get(b, row, column)

    def put(self, b: Builder, row: Index, column: Index, value: Value) -> None:
        at = self._at(b, row, column)
        parts = value if isinstance(value, tuple) else (value,)
        for k, part in enumerate(parts):
            b.store(self.buf, b.atom(b.add(at, k)), part)


def scratch(b: Builder, dtype: str, rows: int, columns: int = 1) -> Matrix:
    """A matrix that lives until the current scope closes."""
    part = part_dtype(dtype)
    size = max(1, rows * columns * width_of(dtype))
    return Matrix(room(b, part, size), dtype, max(1, rows))


def room(b: Builder, part: str, size: int) -> Buf:
    """Scratch, a little of it on the stack."""
    if size > ON_STACK:
        return b.scratch(part, size)
    # A literal size means the stack; of few different ones, so that kernels are shared.
    buf = Buf(f"w{b.count}", part, (1 << (size - 1).bit_length(),), "temp")
    b.count += 1
    b.scopes[-1].allocs.append(buf)
    b.buf_levels[buf] = b.depth
    return buf


def columns_in(
    b: Builder, x: Node, where: Where, rows: int, columns: int, into: Matrix | None = None
) -> Matrix:
    """The leading block of a matrix of a stack, column by column in scratch."""
    m = scratch(b, x.dtype, rows, columns) if into is None else into
    tiled(b, columns, rows, lambda c, r: m.put(b, r, c, read(x, b, (*where, r, c))))
    return m


def slot_place(
    b: Builder, slot: Slot, shape: Sequence[int], dtype: str, where: Where
) -> tuple[Buf, Index]:
    """Where a matrix of a stack in memory starts, in words of its buffer; a routine may read and
    write it there."""
    buf = slot.buf(b)
    b.stored.add(buf)
    b.loaded.add(buf)
    rest = (0,) * (len(shape) - len(where))
    return buf, b.add(b.mul(b.ravel((*where, *rest), shape), width_of(dtype)), slot.base(b))


def rows_out(
    b: Builder,
    out: Node,
    where: Where,
    get: Callable[[Index, Index], Value],
    bad: Atom | None = None,
) -> None:
    """Writes a matrix of a stack, row by row; NaN where `bad`."""
    rows, columns = out.shape[-2:]

    def one(r: Index, c: Index) -> None:
        _store(b, out, (*where, r, c), get(r, c), bad)

    tiled(b, rows, columns, one)


def vector_out(
    b: Builder, out: Node, where: Where, get: Callable[[Index], Value], bad: Atom | None = None
) -> None:
    """Writes a vector of a stack; NaN where `bad`."""
    each(b, out.shape[-1], "vector", lambda r: _store(b, out, (*where, r), get(r), bad))


def _store(b: Builder, out: Node, idx: Where, value: Value, bad: Atom | None) -> None:
    value = cast(b, value, out.dtype)
    parts = value if isinstance(value, tuple) else (value,)
    if bad is not None and part_dtype(out.dtype) in FLOATS:
        nan = Const(math.nan, part_dtype(out.dtype))
        parts = tuple(b.select(bad, nan, p) for p in parts)
    assert out.slot is not None
    buf = out.slot.buf(b)
    at = b.add(b.mul(b.ravel(idx, out.shape), len(parts)), out.slot.base(b))
    for k, part in enumerate(parts):
        b.store(buf, b.atom(b.add(at, k)), part)


def all_finite(b: Builder, m: Matrix, rows: int, columns: int) -> Atom:
    """Whether a matrix in scratch, without gaps, has neither infinities nor NaN."""
    d = part_dtype(m.dtype)
    zero = Const(0.0, d)
    carry = [(zero, b.var(d, b.depth + 1, "f"))]

    def one(k: Index) -> list[Atom]:
        with Pinned(b):
            return [b.let("mul", (b.load(m.buf, b.atom(k)), zero), d)]

    n = rows * columns * width_of(m.dtype)
    total = b.loop(n, "reduce", one, carry, ("add",))[0]
    return b.let("eq", (total, zero), "bool")


# --- calls ---
def integer(b: Builder, n: int | Atom) -> Atom:
    """A size as LAPACK takes it, if it is not one already."""
    if not isinstance(n, int):
        return n
    d = b.dim(n)
    return Const(n, "i32") if isinstance(d, Const) else b.let("convert", (d,), "i32")


@functools.lru_cache(maxsize=4096)
def _best_work(name: str, form: str, args: tuple[Any, ...], work: int, dtype: str) -> int:
    """The size of workspace that a routine asks for."""
    room = np.zeros(4, {"f32": np.float32, "f64": np.float64}[part_dtype(dtype)])
    given: list[Any] = []
    for k, (letter, a) in enumerate(zip(_letters(form), args, strict=True)):
        if letter in ("p", "at"):
            given.append(0 if letter == "at" else room if k == work else np.zeros(4))
        elif letter == "c":
            given.append(np.uint8(ord(a)))
        else:
            given.append(np.int32(-1 if a == LWORK else a))
    libraries.call(name, form, given)
    # Singles round: sizes above 2**24 may have become less than they were.
    return int(float(room[0]) * (1 + 1e-6)) + 1


def _letters(form: str) -> list[str]:
    """The kind of each element of a list of arguments."""
    out: list[str] = []
    for letter in form:
        if letter != "n":
            out += ["p", "at"] if letter == "o" else [letter]
    return out


def run(
    b: Builder, name: str, form: str, args: Sequence[Any], dtype: str = "", results: int = 1,
    long: bool = False,
) -> Var | None:  # fmt: skip
    """Calls a routine; its `info`. Arguments: characters, sizes, matrices (or buffers), after an
    "o" the offset, WORK and LWORK. `long` if a call takes longer than to share it with threads."""
    args = list(args)
    if WORK in args:
        plain = tuple(None if isinstance(a, (Matrix, Buf)) else _plain(a) for a in args)
        size = _best_work(name, form, plain, args.index(WORK), dtype)
        args[args.index(WORK)] = scratch(b, dtype, size)
        args[args.index(LWORK)] = size
    given: list[Atom | Buf] = []
    for letter, a in zip(_letters(form), args, strict=True):
        if isinstance(a, Matrix):
            given.append(a.buf)
        elif isinstance(a, Buf):
            given.append(a)
        elif letter == "c":
            given.append(Const(ord(a), "u8"))
        elif letter == "at":
            given.append(b.atom(a))
        else:
            given.append(integer(b, a))
    outs = tuple(b.var("i32", b.depth) for _ in range(results))
    attrs = (("fortran", form), *((("long", True),) if long else ()))
    b.emit(Call(outs, name, tuple(given), attrs))
    return outs[0] if outs else None


def _plain(a: Any) -> Any:
    return a if isinstance(a, (str, int)) else None
