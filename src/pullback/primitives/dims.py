"""The value of a symbolic size, as an operation: what arithmetic on `x.shape[0]` becomes in a
program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.avals import ShapedArray
from ..core.build import dim_value
from ..core.dims import DimExpr, as_number
from ..core.primitive import No, Primitive
from ..dtypes import default_int
from ..errors import InconclusiveDimensionOperation


def _value_aval(*avals: Any, dim: Any) -> ShapedArray:
    return ShapedArray((), default_int(), weak_type=True)


def _value_now(*args: Any, dim: Any) -> Any:
    if isinstance(dim, DimExpr):
        raise InconclusiveDimensionOperation(
            f"the symbolic dimension '{dim}' has no value here. Fix: use it inside a traced "
            "function only."
        )
    return np.asarray(dim, default_int())


dim_as_value_p = Primitive(
    "dim_as_value",
    abstract_eval=_value_aval,
    impl=_value_now,
    jvp=No.HOLDS_NO_ARRAYS,
    transpose=No.HOLDS_NO_ARRAYS,
    batch=No.HOLDS_NO_ARRAYS,
)


def _write(trace: Any, dim: DimExpr) -> Any:
    return trace.emit(dim_as_value_p, [], {"dim": dim})


dim_value[:] = [_write]
as_number[:] = [lambda dim: dim_as_value_p.bind(dim=dim)]
