"""`select_where`: the three-argument `where`, on which much else is built."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.dims import DimExpr
from .util import broadcast_all, check_arraylike, literal, promote_dtypes, shape_of


def _where(condition: Any, x: Any, y: Any) -> Any:
    check_arraylike("where", condition, x, y)
    if not dtypes.is_bool(typeof(condition).dtype):
        condition = lax.ne(condition, literal(condition, 0))
    x, y = promote_dtypes(x, y)
    if not shape_of(condition):
        # A scalar condition chooses whole arrays.
        x, y = broadcast_all(x, y)
    else:
        condition, x, y = broadcast_all(condition, x, y)
    if 0 in shape_of(x):  # nothing to choose, and no derivative of the choice, as in JAX
        return x
    return lax.select(condition, x, y)


_where_jit = jit(_where)


def select_where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition`, else `y`; dtypes promoted, shapes broadcast."""
    check_arraylike("where", condition, x, y)
    return _where_jit(condition, x, y)


# 1 / log(10), rounded once: the quotient of the rounded log is a unit off, and log10(100) no 2.
LOG10_E = np.log10(np.e)


def number(value: Any, dtype: Any) -> Any:
    """A host scalar of exactly this dtype; of a symbolic size, its value in the program."""
    if isinstance(value, DimExpr):
        return lax.convert_element_type(value, dtype)
    return np.asarray(value).astype(dtype)[()]
