"""`jax._src.core`: what `jax.core` has, and the private names beside it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ....core.avals import (
    ShapedArray,
    typeof as get_aval,  # noqa: F401
    typeof as typeof,
)
from ....core.refs import AbstractRef as AbstractRef
from ....core.trace import (
    axis_env as get_axis_env,  # noqa: F401
    eval_context as eval_context,
)
from ....dtypes import is_extended
from ....extend.core import Token as Token
from ....ref import Ref as Ref, new_ref as new_ref
from ....runtime.dispatch import EvalTrace as EvalTrace
from ..core import *  # noqa: F403
from ..core import OpaqueTraceState as OpaqueTraceState, gensym as gensym
from .util import safe_map as safe_map, safe_zip as safe_zip

AxisName = Hashable


def physical_aval(aval: Any) -> Any:
    """The type of the array that holds a value of an extended dtype (a key's words, for
    example).
    """
    dtype = getattr(aval, "dtype", None)
    if dtype is None or not is_extended(dtype):
        return aval
    suffix, element = dtype.physical
    return ShapedArray((*aval.shape, *suffix), element)
