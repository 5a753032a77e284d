"""`jax.extend.core`: programs and primitives, for libraries that interpret or define them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .....control.call import _CallPrimitive
from .....core.avals import is_valid_value as valid_jaxtype  # noqa: F401
from .....dtypes import tangent_dtype as primal_dtype_to_tangent_dtype  # noqa: F401
from ...core import *  # noqa: F403
from ...core import AbstractToken as AbstractToken
from ...core import ClosedJaxpr as ClosedJaxpr
from ...core import Jaxpr as Jaxpr
from ...core import JaxprEqn as JaxprEqn
from ...core import Literal as Literal
from ...core import Primitive as Primitive
from ...core import TraceTag as TraceTag
from ...core import Var as Var
from ...core import jaxpr_as_fun as jaxpr_as_fun
from . import primitives as primitives

CallPrimitive = _CallPrimitive
array_types: set[Any] = {np.ndarray, np.bool_} | {
    np.dtype(name).type
    for name in (
        "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
        "complex128"
    ).split()
}
array_types |= {
    getattr(ml_dtypes, name)
    for name in ("bfloat16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
}


class Token:
    """A value that orders effects and holds nothing."""

    def block_until_ready(self) -> Token:
        return self
