"""Vectors whose lanes are those of two others, and blocks of vectors turned about in registers."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.backends.llvm.build import Builder

__all__ = ["shuffled", "transposed"]


def shuffled(b: Builder, vt: str, x: str, y: str, picks: Sequence[int]) -> str:
    """The register of the lanes with these numbers of x and, behind them, of y."""
    order = ", ".join(f"i32 {k}" for k in picks)
    return b.impure_reg(f"shufflevector {vt} {x}, {vt} {y}, <{len(picks)} x i32> <{order}>")


def transposed(b: Builder, vt: str, rows: Sequence[str]) -> list[str]:
    """As many vectors as each has lanes, a power of two, with element k of vector j in lane j of
    vector k."""
    lines, n = list(rows), len(rows)
    half = n // 2
    while half:  # blocks off the diagonal change places, ever smaller ones
        for i in range(n):
            if i & half:
                continue
            x, y = lines[i], lines[i + half]
            low = [k if not k & half else n + k - half for k in range(n)]
            high = [k + half if not k & half else n + k for k in range(n)]
            lines[i], lines[i + half] = (shuffled(b, vt, x, y, picks) for picks in (low, high))
        half //= 2
    return lines
