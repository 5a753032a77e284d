"""`jax._src.export.shape_poly`: symbolic sizes."""

from __future__ import annotations

import enum
from typing import Any

from ..... import errors, export
from .....core import dim_text, dims
from .....core.dims import DimExpr as _DimExpr
from ..searched import searched

DimSize = int | Any
PolyShape = tuple[DimSize, ...]
InconclusiveDimensionOperation = errors.InconclusiveDimensionOperation
UnexpectedDimVar = errors.UnexpectedDimVar
_DimExpr._evaluate = dims.evaluate  # type: ignore[attr-defined]
_DimExpr._get_vars = dims.names_of  # type: ignore[attr-defined]
is_symbolic_dim = dim_text.is_symbolic_dim


class BoundsPrecision(enum.Enum):
    """How far a size's bounds are looked for. Ours are always the best that are found."""

    BEST = 0
    FOR_GEQ0_OR_LT0 = 1
    FOR_GEQ0 = 2


def _bounds_decision(d: Any, prec: BoundsPrecision) -> tuple[float, float]:
    """The least and the greatest value of a size."""
    if not isinstance(d, _DimExpr):
        return d, d
    least, most = dims.bounds(d)
    return (
        float("-inf") if least is None else least,
        float("inf") if most is None else most,
    )


__getattr__ = searched("jax._src.export.shape_poly", export, dim_text, dims)
