"""Names of `jax._src.interpreters.mlir`: operations that rules of lowering are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....backends.xla.library import hlo
from ....backends.xla.stablehlo.build import full, spread

__all__ = ["broadcast_in_dim", "compare_hlo", "full_like_aval"]


def broadcast_in_dim(
    ctx: Any, op: Any, aval_out: Any, *, broadcast_dimensions: Sequence[int]
) -> Any:
    """A value along new axes: its own become `broadcast_dimensions`."""
    return spread(op, broadcast_dimensions, aval_out)


def compare_hlo(x: Any, y: Any, direction: str, comparison_type: str | None = None) -> Any:
    """A comparison, EQ NE LT LE GT GE, of numbers that are SIGNED, UNSIGNED or FLOAT."""
    kind = comparison_type and hlo.ComparisonTypeAttr.get(comparison_type)
    return hlo.compare(x, y, hlo.ComparisonDirectionAttr.get(direction), compare_type=kind)


def full_like_aval(ctx: Any, value: Any, aval: Any) -> Any:
    """An array of one number, of the type `aval`."""
    return full(value, aval)
