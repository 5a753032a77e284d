"""Blocks of matrix products, and passes of sorts: the functions that kernels call, and what they
compute.

`tile_<dtype>_<lines>` multiplies a block of A with panels of B into a block of C. A panel is
`lines` * 64 bytes wide. Arguments, in elements:

    a a0 r0 w s0 s1 rows   row r of the block is row q = r0 + r of A, which begins at
                           a0 + (q / w) * s1 + (q % w) * s0
    n1 n2 len t1 t2 ks     the contracted index runs over (n1, n2, len) at strides (t1, t2, ks)
    b b0 u1 u2 bs bp cols  B: strides of the contracted index, of panels; columns
    c c0 ldc more          C: row stride; whether the product is added to what is there

`tile_w8_<lines>` and `tile_z8_<lines>` multiply signed and unsigned bytes into sums of 32 bits:
an element of A or of B is a word of four bytes that are neighbours along the contracted index, and
what they count are words. Their operands have one level of rows, one of the contracted index, and
B lies in whole panels. `tile_b16_<lines>` does the same with bf16 numbers, two to a word, into sums
in f32.

`flat_<dtype>_<rows>` does the same for blocks of few rows, one to four: a tile is as many rows high
and wider instead. The columns of B lie side by side, `bp` is not read.

`dots_<dtype>_<columns>` multiplies a block of A with few columns of B, both contiguous along the
contracted index: `a a0 sa rows len b b0 sb c c0 ldc more`, where `sa` is from row to row of A and
`sb` from column to column of B.

`pack_<dtype>_<lines>` copies rows of a B into panels: `b b0 sb rows cols c c0 bp`, element (k, j)
from b0 + k * sb + j to c0 + (j / width) * bp + k * width + j % width; zeros fill the last panel.

`radix_<dtype>` and `radixes_<dtype>` sort integers by some of their bits (loops/digits.py).

`turn_<dtype>` copies a block transposed: `a a0 sa rows cols b b0 sb`, element (r, c) from
a0 + r * sa + c to b0 + c * sb + r. What is narrower than a word goes by its bytes: `turn_i8`,
`turn_i16`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pullback.loops.ops import storage_bytes

__all__ = [
    "LINE", "TILE_TYPES", "TURN_TYPES", "WORDS", "is_tile", "panel_width", "parse_tile",
    "tile_name", "tile_reference",
]  # fmt: skip

LINE = 64  # bytes
TILE_TYPES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8}
TURN_TYPES = {**TILE_TYPES, "i16": 2, "i8": 1}  # that blocks are transposed in
RADIX_TYPES = ("i32", "i64")  # integers that are sorted
WORDS = {"i8": "w8", "u8": "z8", "bf16": "b16"}  # elements that are multiplied a word at a time
_LINES = (1, 2, 3, 4)
FLAT = 4  # rows that a flat tile has at most
DOTS = 8  # columns that are multiplied along the contracted index at most


def tile_name(dtype: str, lines: int) -> str:
    """The function for a type and a panel's width. Unsigned integers are multiplied as signed
    ones: the bits are the same."""
    return f"tile_{dtype.replace('u', 'i')}_{lines}"


def turn_name(dtype: str) -> str:
    """The function that transposes blocks of a type."""
    narrow = {1: "i8", 2: "i16"}.get(storage_bytes(dtype))
    return f"turn_{narrow or dtype.replace('u', 'i')}"


def pack_name(dtype: str, lines: int) -> str:
    """The function that copies rows into panels of a width."""
    return f"pack_{dtype.replace('u', 'i')}_{lines}"


def radix_name(dtype: str, in_parts: bool) -> str:
    """The function that sorts integers of a type by some of their bits."""
    return f"radixes_{dtype}" if in_parts else f"radix_{dtype}"


def flat_name(dtype: str, rows: int) -> str:
    """The function for blocks of so few rows."""
    return f"flat_{dtype.replace('u', 'i')}_{rows}"


def dots_name(dtype: str, columns: int) -> str:
    """The function for so few columns."""
    return f"dots_{dtype.replace('u', 'i')}_{columns}"


TILE_NAMES = tuple(tile_name(t, n) for t in TILE_TYPES for n in _LINES)
TILE_NAMES += tuple(map(turn_name, TURN_TYPES))
TILE_NAMES += tuple(pack_name(t, n) for t in TILE_TYPES for n in _LINES)
TILE_NAMES += tuple(tile_name(t, n) for t in WORDS.values() for n in _LINES)
TILE_NAMES += tuple(flat_name(t, n) for t in TILE_TYPES for n in range(1, FLAT + 1))
TILE_NAMES += tuple(dots_name(t, n) for t in TILE_TYPES for n in range(1, DOTS + 1))
TILE_NAMES += tuple(radix_name(t, p) for t in RADIX_TYPES for p in (False, True))
_KNOWN = frozenset(TILE_NAMES)
__all__ += [
    "DOTS",
    "FLAT",
    "TILE_NAMES",
    "dots_name",
    "flat_name",
    "is_radix",
    "pack_name",
    "radix_name",
    "set_pairs",
    "takes_pairs",
    "turn_name",
]
_pairs: list[Callable[[], bool]] = []


def set_pairs(f: Callable[[], bool]) -> None:
    """Gives the function that says whether the machine multiplies words of two bf16 numbers faster
    than numbers in f32."""
    _pairs[:] = [f]


def takes_pairs() -> bool:
    """Whether products of bf16 numbers are to be products of words."""
    return bool(_pairs) and _pairs[0]()


def is_tile(name: str) -> bool:
    """Whether a function's name is that of a tile."""
    return name in _KNOWN


def is_radix(name: str) -> bool:
    """Whether a function of this module sorts."""
    return name.startswith("radix")


def panel_width(name: str) -> int:
    """Columns of a panel, which the machine code is told as its last argument; zero for a function
    that does not multiply. A flat tile has one panel, as wide as its block: told as one column."""
    dtype, lines = parse_tile(name)
    if not lines or name.startswith("dots"):
        return lines
    return 1 if name.startswith("flat") else lines * (LINE // TILE_TYPES.get(dtype, 4))


def parse_tile(name: str) -> tuple[str, int]:
    """tile_f32_4 -> ("f32", 4); flat_f32_3 -> ("f32", 3); turn_f32 -> ("f32", 0)."""
    _, dtype, *lines = name.split("_")
    return dtype, int(lines[0]) if lines else 0


def tile_reference(name: str, args: list[Any]) -> Sequence[Any]:
    """What a tile function does, in NumPy: for the interpreter of kernels. Its results, if it has
    any."""
    if is_radix(name):
        return [_radix_reference(args)]
    _block_reference(name, args)
    return ()


def _radix_reference(args: list[Any]) -> Any:
    items = args[0].reshape(-1)
    at, n, _, low, high, _ = (int(x) for x in args[2:])
    words = items[at : at + n].view(f"u{items.itemsize}")
    digits = (words >> low) & ((1 << (high - low)) - 1)
    items[at : at + n] = items[at : at + n][np.argsort(digits, kind="stable")]
    return np.int64(at)


def _block_reference(name: str, args: list[Any]) -> None:
    dtype, lines = parse_tile(name)
    if not lines:
        return _turn_reference(dtype, args)
    if name.startswith("dots"):
        return _dots_reference(lines, args)
    if name.startswith("pack"):
        return _pack_reference(panel_width(name), args)
    a, b, c = args[0], args[13], args[20]
    words = dtype in WORDS.values()
    if words:  # two or four elements along the contracted index
        a, b = (x.reshape(-1).view(np.int32) for x in (a, b))
    a0, r0, w, s0, s1, rows, n1, n2, length, t1, t2, ks = (int(x) for x in args[1:13])
    b0, u1, u2, bs, bp, cols = (int(x) for x in args[14:20])
    c0, ldc, more = (int(x) for x in args[21:24])
    q = r0 + np.arange(rows)
    at = a0 + (q // w) * s1 + (q % w) * s0
    k1, k2, k3 = np.arange(n1)[:, None, None], np.arange(n2)[:, None], np.arange(length)
    j, panel = np.arange(cols), panel_width(name)
    columns = b0 + (j if name.startswith("flat") else (j // panel) * bp + j % panel)
    left = a.reshape(-1)[at[:, None] + (k1 * t1 + k2 * t2 + k3 * ks).reshape(-1)]
    right = b.reshape(-1)[columns + (k1 * u1 + k2 * u2 + k3 * bs).reshape(-1, 1)]
    if words:
        part = {"w8": np.int8, "z8": np.uint8, "b16": ml_dtypes.bfloat16}[dtype]
        wide = np.float32 if dtype == "b16" else np.int32
        left = left.view(part).astype(wide)
        right = np.ascontiguousarray(right.T).view(part).astype(wide).T
    target = c.reshape(-1)
    places = c0 + np.arange(rows)[:, None] * ldc + j
    product = (left @ right).astype(target.dtype)
    target[places] = product + target[places] if more else product


def _dots_reference(columns: int, args: list[Any]) -> None:
    a, b, c = (args[k].reshape(-1) for k in (0, 5, 8))
    a0, sa, rows, length, b0, sb, c0, ldc, more = (
        int(args[k]) for k in (1, 2, 3, 4, 6, 7, 9, 10, 11)
    )
    r, j, k = np.arange(rows)[:, None], np.arange(columns), np.arange(length)
    places = c0 + r * ldc + j
    product = (a[a0 + r * sa + k] @ b[b0 + j[:, None] * sb + k].T).astype(c.dtype)
    c[places] = product + c[places] if more else product


def _pack_reference(panel: int, args: list[Any]) -> None:
    b, c = args[0].reshape(-1), args[5].reshape(-1)
    b0, sb, rows, cols = (int(x) for x in args[1:5])
    c0, bp = int(args[6]), int(args[7])
    k, j = np.arange(rows)[:, None], np.arange(-(-cols // panel) * panel)
    values = b[b0 + k * sb + np.minimum(j, cols - 1)] if cols else b[:0]
    c[c0 + j // panel * bp + k * panel + j % panel] = np.where(j < cols, values, 0)


def _turn_reference(dtype: str, args: list[Any]) -> None:
    a, b = args[0].reshape(-1), args[5].reshape(-1)
    if a.itemsize < TURN_TYPES[dtype]:  # words of narrow elements, complex numbers as a whole
        b = b if b.itemsize == TURN_TYPES[dtype] else b.view(np.float64)
        a = a.view(b.dtype)
    a0, sa, rows, cols = (int(x) for x in args[1:5])
    b0, sb = int(args[6]), int(args[7])
    r, c = np.arange(rows)[:, None], np.arange(cols)
    b[b0 + c * sb + r] = a[a0 + r * sa + c]
