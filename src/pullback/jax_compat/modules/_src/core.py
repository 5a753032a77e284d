"""`jax._src.core`: what `jax.core` has, and the private names beside it."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from .... import errors as _errors
from ....api_util import shaped_abstractify as shaped_abstractify
from ....control.call import call_p as call_p, closed_call_p as closed_call_p
from ....control.refs import (
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    freeze_p as freeze_p,
)
from ....core import effects as _effects, high as _high
from ....core.avals import (
    ManualAxisType as ManualAxisType,
    ShapedArray,
    typematch as typematch,
    typeof as get_aval,
    typeof as typeof,
)
from ....core.dim_text import is_symbolic_dim as is_symbolic_dim
from ....core.refs import AbstractRef as AbstractRef
from ....core.trace import (
    Tracer,
    axis_env as get_axis_env,
    eval_context as eval_context,
)
from ....dtypes import is_extended
from ....errors import ShardingTypeError as ShardingTypeError
from ....extend.core import Token as Token
from ....primitives.dims import dim_as_value_p
from ....ref import Ref as Ref, new_ref as new_ref
from ....runtime.dispatch import EvalTrace as EvalTrace
from ..core import *  # noqa: F403
from ..core import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    OpaqueTraceState as OpaqueTraceState,
    gensym as gensym,
    max_dim as max_dim,
)
from .pp_names import (
    JaxprPpContext as JaxprPpContext,
    JaxprPpSettings as JaxprPpSettings,
    axis_frame as axis_frame,
    extend_axis_env_nd as extend_axis_env_nd,
    pp_eqn as pp_eqn,
    pp_eqns as pp_eqns,
    pp_jaxpr as pp_jaxpr,
    pp_jaxprs as pp_jaxprs,
    pp_kv_pairs as pp_kv_pairs,
    pp_vars as pp_vars,
    replace_jaxpr_effects as replace_jaxpr_effects,
    reset_trace_state as reset_trace_state,
)
from .util import safe_map as safe_map, safe_zip as safe_zip

AxisName = Hashable
DimSize = int | Any
Shape = Sequence[Any]
AvalQDD, cur_qdd, join_effects = _high.AvalQDD, _high.cur_qdd, _effects.join
TracerArrayConversionError = _errors.TracerArrayConversionError
TracerBoolConversionError = _errors.TracerBoolConversionError
TracerIntegerConversionError = _errors.TracerIntegerConversionError
UnexpectedTracerError = _errors.UnexpectedTracerError


def is_dim(v: Any) -> bool:
    """Is it a size, of a number or of symbols?"""
    return is_symbolic_dim(v) or type(v) is int or hasattr(v, "__index__")


def definitely_equal(x: Any, y: Any) -> bool:
    """Are two sizes equal, whatever their symbols stand for?"""
    if x is y:
        return True
    try:
        return bool(x == y)
    except _errors.InconclusiveDimensionOperation:
        return False


def definitely_equal_one_of_dim(d1: Any, dlist: Sequence[Any]) -> bool:
    """Is a size equal to one of several, whatever their symbols stand for?"""
    return any(definitely_equal(d1, d) for d in dlist)


def definitely_equal_shape(s1: Shape, s2: Shape) -> bool:
    """Are two shapes equal, whatever their symbols stand for?"""
    return len(s1) == len(s2) and all(map(definitely_equal, s1, s2))


def is_empty_shape(s: Shape) -> bool:
    """Has an array of that shape no elements?"""
    return any(definitely_equal(d, 0) for d in s)


def dilate_dim(d: Any, dilation: Any) -> Any:
    """The size of an axis with gaps between its elements."""
    if definitely_equal(dilation, 1):
        return d
    if type(d) is int:
        return 1 + dilation * (d - 1) if d > 0 else 0
    return max_dim(1 + dilation * (d - 1), 0)


def stride_dim(d: Any, window_size: Any, window_stride: Any) -> Any:
    """How many windows an axis has."""
    if definitely_equal(window_size, 1) and definitely_equal(window_stride, 1):
        return d
    count = (d - window_size) // window_stride + 1
    return max(count, 0) if type(count) is int else max_dim(count, 0)


def divide_shape_sizes(s1: Shape, s2: Shape) -> Any:
    """How many arrays of one shape have the elements of one of another.
    InconclusiveDimensionOperation if that is no whole number.
    """
    whole, part = math.prod(s1), math.prod(s2)
    if definitely_equal(whole, part):
        return 1
    count, rest = divmod(whole, part) if not definitely_equal(part, 0) else (0, whole)
    if not definitely_equal(rest, 0):
        raise InconclusiveDimensionOperation(
            f"Cannot divide evenly the sizes of shapes {s1} and {s2}"
        )
    return count


def canonicalize_shape(shape: Any, context: str = "") -> tuple[Any, ...]:
    """A shape as a tuple of sizes. TypeError for what is no shape."""
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    try:
        return tuple(d if is_symbolic_dim(d) else operator.index(d) for d in sizes)
    except TypeError:
        more = f" {context}" if context else ""
        raise TypeError(
            f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.{more}"
        ) from None


def concrete_dim_or_error(val: Any, context: str = "") -> Any:
    """A size, of a number or of symbols. TypeError for what is none."""
    return val if is_symbolic_dim(val) else operator.index(val)


def typecompat(aval_ref: Any, aval: Any) -> bool:
    """Are two types one, weak types aside?"""
    return bool(typematch(aval_ref, aval))


def typecheck(aval: Any, x: Any) -> bool:
    """Is a value of a type, weak types aside?"""
    return typecompat(aval, get_aval(x))


def physical_element_aval(edtype: Any) -> ShapedArray:
    """The type of the array that holds an element of an extended dtype."""
    return ShapedArray(*edtype.physical)


def unsafe_get_axis_names() -> list[Any]:
    """The names of axes that there are."""
    return [name for name, _ in get_axis_env()]


def nonempty_axis_env() -> bool:
    """Are there names of axes?"""
    return bool(unsafe_get_axis_names())


def physical_aval(aval: Any) -> Any:
    """The type of the array that holds a value of an extended dtype (a key's words, for
    example).
    """
    dtype = getattr(aval, "dtype", None)
    if dtype is None or not is_extended(dtype):
        return aval
    suffix, element = dtype.physical
    return ShapedArray((*aval.shape, *suffix), element)


def dimension_as_value(d: Any) -> Any:
    """A size as a number that arrays are computed with; of symbols, one that programs hold."""
    if is_symbolic_dim(d):
        return dim_as_value_p.bind(dim=d)
    return d if isinstance(d, (int, Tracer, np.integer)) else operator.index(d)
