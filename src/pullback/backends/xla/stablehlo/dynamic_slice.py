"""Slices whose place is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..types import ints
from .build import converted


def _one_type(starts: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Indices of one type, as StableHLO wants them."""
    kinds = [a.dtype for a in avals]
    if len(set(kinds)) <= 1:
        return list(starts)
    return [converted(s, (), np.int64) for s in starts]


@rule("dynamic_slice")
def _dynamic_slice(
    ctx: LoweringRuleContext, x: Any, *starts: Any, slice_sizes: Sequence[int]
) -> list[Any]:
    starts = tuple(_one_type(starts[: len(slice_sizes)], ctx.avals_in[1:]))
    if not slice_sizes:
        return [x]
    return [hlo.dynamic_slice(x, starts, ints(slice_sizes))]


@rule("dynamic_update_slice")
def _dynamic_update_slice(ctx: LoweringRuleContext, x: Any, update: Any, *starts: Any) -> list[Any]:
    return [hlo.dynamic_update_slice(x, update, _one_type(starts, ctx.avals_in[2:]))]
