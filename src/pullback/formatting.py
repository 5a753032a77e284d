"""How durations and tables are written: compile reports, kernel profiles and their page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

__all__ = ["duration", "table"]


def duration(seconds: float) -> str:
    """A duration with three digits, in the largest unit of which it is one or more."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.3g} ns"


def table(rows: Sequence[Sequence[Any]], left: Collection[int] = (0,)) -> str:
    """Columns side by side; those numbered in `left` begin at the left, the others end at the
    right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)
