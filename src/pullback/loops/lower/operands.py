"""What a product of blocks is of: its operands, and how they are read where they lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.loops.build import Builder, Index
from pullback.loops.ir import Atom, Buf
from pullback.loops.lower.graph import Node
from pullback.loops.ops import FLOATS
from pullback.loops.tiles import TILE_TYPES
from pullback.records import record

__all__ = ["InPlace", "Product", "acc_bits", "in_place", "packed_type", "tile_type"]


def tile_type(acc: str) -> str | None:
    """The type that a product of this accumulator is computed in; None if there is none."""
    if acc.replace("u", "i") in TILE_TYPES:
        return acc
    return "i32" if acc in ("i8", "u8", "i16", "u16") else None


@record(eq=True, frozen=False)
class InPlace:
    """An operand that is read where it lies: `base` for a batch index, the rows as (w, s0, s1),
    the contracted index as (n1, n2, len, t1, t2, ks). For a right operand, columns take the place
    of rows; `panel` is the stride of its panels where they do not lie side by side."""

    buf: Callable[[Builder], Buf]
    base: Callable[[Builder, Index], Index]
    rows: tuple[int, int, int]
    depth: tuple[int, int, int, int, int, int]
    panel: int = 0


@record(eq=True, frozen=False)
class Product:
    """C[b, i, j] = sum over k of A[b, i, k] * B[b, k, j].

    `left(b, bi, i, k)` and `right(b, bi, k, j)` give elements for packing; `put(b, bi, i, j, v)`
    takes those of C, unless they go straight `into` a buffer: (buffer, base of the batch index,
    row stride). With `pairs` the numbers are complex: elements are pairs, and the in-place forms
    count reals. Where only some columns count, `columns` is (groups, how many of a group, from one
    group to the next). `shared` says that B does not depend on the batch index, `fixed` that
    operands are read in place whatever their strides. `words` names the tile functions of elements
    that are words of 32 bits: four bytes, or two numbers of half the width, along the contracted
    index.

    `near` brings what a batch index reads of A to scratch: `left_place` says how that is read. Then
    C has `stacked` blocks of m rows each, from `left_apart` to the next in A and from `into_apart`
    to the next in the buffer of C. `lines` says how many lines a batch index has: rows are lines of
    `line` rows each, or the groups of `columns` are lines. With `turned`, elements are put along
    rows, in lines of so many, and `into` is C transposed. `right_source` is where a B that is to be
    packed lies, `right_form` the form of the packed B.
    """

    acc: str
    batch: int
    m: int
    n: int
    depth: int
    left: Callable[..., Any]
    right: Callable[..., Any]
    put: Callable[..., None]
    left_place: InPlace | None = None
    right_place: InPlace | None = None
    left_rows: bool = False  # neighbours in memory are rows of A
    right_depth: bool = False  # neighbours in memory are along the contracted index
    into: Callable[[Builder, Index], tuple[Buf, Index, int]] | None = None
    pairs: bool = False
    columns: tuple[int, int, int] | None = None
    shared: bool = False
    fixed: bool = False
    words: str | None = None
    right_source: InPlace | None = None
    near: Callable[[Builder, Index, bool], Buf] | None = None
    stacked: int = 1
    left_apart: int = 0
    into_apart: int = 0
    lines: Callable[[Builder, Index], Atom | int] | None = None
    line: int = 1
    turned: int = 0
    right_form: tuple[int, int, int, int, int, int] | None = None
    left_run: int = 0  # elements of a computed A along the contracted index that loops walk as one


def _levels(shape: Sequence[int], axes: Sequence[int]) -> list[tuple[int, int]]:
    """(extent, stride) of some axes of a row-major array, neighbours merged."""
    found: list[tuple[int, int]] = []
    for k in axes:
        n, stride = shape[k], math.prod(shape[k + 1 :])
        if n == 1:
            continue
        if found and found[-1][1] == n * stride:
            found[-1] = (found[-1][0] * n, stride)
        else:
            found.append((n, stride))
    return found


def in_place(
    x: Node, batch: Sequence[int], free: Sequence[int], deep: Sequence[int], pairs: bool
) -> InPlace | None:
    """How an operand is read where it lies, if its axes allow it."""
    unit = 2 if pairs else 1
    rows, depth = _levels(x.shape, free), _levels(x.shape, deep)
    if pairs and depth and depth[-1][1] == 1:
        depth[-1] = (2 * depth[-1][0], 1)
        depth[:-1] = [(n, 2 * s) for n, s in depth[:-1]]
    elif pairs:
        depth = [*((n, 2 * s) for n, s in depth), (2, 1)]
    if len(rows) > 2 or len(depth) > 3 or x.slot is None:
        return None
    rows = [(1, 0)] * (2 - len(rows)) + [(n, s * unit) for n, s in rows]
    depth = [(1, 0)] * (3 - len(depth)) + depth
    (_, s1), (w, s0) = rows
    (n1, t1), (n2, t2), (length, ks) = depth
    slot, shape = x.slot, x.shape

    def base(b: Builder, bi: Index) -> Index:
        parts = zip(b.unravel(bi, [shape[k] for k in batch]), batch, strict=True)
        offset = b.linear([(i, math.prod(shape[k + 1 :])) for i, k in parts])
        return b.add(b.mul(offset, unit), slot.base(b))

    return InPlace(slot.buf, base, (w, s0, s1), (n1, n2, length, t1, t2, ks))


def acc_bits(acc: str) -> str:
    """The type of the same size in the table of tiles."""
    return acc.replace("u", "i")


def packed_type(p: Product) -> str:
    """The type of packed elements."""
    return "u32" if p.words and p.acc in FLOATS else p.acc
