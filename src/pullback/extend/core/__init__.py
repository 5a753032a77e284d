"""Programs and primitives, for libraries that interpret or define them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ...control.extras import Token as Token
from ...core import public
from ...core.public import *  # noqa: F403
from ...core.public import (
    AbstractToken as AbstractToken,
    ClosedJaxpr as ClosedJaxpr,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Primitive as Primitive,
    TraceTag as TraceTag,
    Var as Var,
    jaxpr_as_fun as jaxpr_as_fun,
)
from . import primitives as primitives

CallPrimitive = public.CallPrimitive
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
