"""Reductions down the columns of tall arrays: blocks of rows, in parallel, and then their results.

Lanes run along the columns. Where these are few, one loop over all rows for each vector of columns
would read the lines of memory that columns share again and again, and leave nothing to other
threads; a block of rows stays in a cache while all its columns are reduced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pullback.loops.lower.graph import Node, Reduction

__all__ = ["BLOCK", "CHUNK", "chunk_of_columns", "is_tall"]

BLOCK = 4096  # elements of a sum, rows of a tall array; docs/contract.md
WIDE = 128  # columns that are cut into chunks instead
TASK = 1 << 15  # elements that are worth handing to a thread
TASKS = 8  # chunks of columns that are enough
NARROWEST, CHUNK = 64, 8192  # columns of a chunk


def is_tall(reds: Sequence[Reduction], rows: int) -> bool:
    """Whether reductions run down columns that are few, and all that they keep. `rows` are those
    that the outermost loop runs over."""
    return rows > 2 * BLOCK and all(
        red.lanes
        and red.axes == tuple(range(len(red.axes)))
        and math.prod(red.shape[k] for k in red.kept) <= WIDE
        for red in reds
    )


def chunk_of_columns(members: Sequence[Node], columns: int) -> int:
    """How many of the columns a thread is given at once: fewer where each is long, but no narrow
    strips of a wide array."""
    most = max((m.red.count for m in members if m.kind == "red" and m.red is not None), default=1)
    chunk = max(-(-TASK // max(1, most)), columns // TASKS)
    return min(CHUNK, -(-chunk // NARROWEST) * NARROWEST)
