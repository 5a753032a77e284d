"""Changes of representation, and identities."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtypes
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..sharding import constrained
from ..types import type_of
from .build import aval_of, compare, converted, full


@rule("convert_element_type")
def _convert_element_type(
    ctx: LoweringRuleContext, x: Any, *, new_dtype: Any, **params: Any
) -> list[Any]:
    (aval,) = ctx.avals_in
    dtype = aval.dtype
    if dtypes.is_complex(dtype) and not dtypes.is_complex(new_dtype):
        x, dtype = hlo.real(x), np.zeros((), dtype).real.dtype
    if dtypes.is_bool(new_dtype) and not dtypes.is_bool(dtype):
        return [compare(x, full(0, aval_of(aval.shape, dtype)), "NE", dtype)]
    return [converted(x, aval.shape, new_dtype)]


@rule("bitcast_convert_type")
def _bitcast(ctx: LoweringRuleContext, x: Any, *, new_dtype: Any) -> list[Any]:
    return [hlo.bitcast_convert(type_of(ctx.avals_out[0]), x)]


@rule("reduce_precision")
def _reduce_precision(
    ctx: LoweringRuleContext, x: Any, *, exponent_bits: int, mantissa_bits: int
) -> list[Any]:
    return [hlo.reduce_precision(x, exponent_bits, mantissa_bits)]


@rule("optimization_barrier")
def _optimization_barrier(ctx: LoweringRuleContext, *xs: Any) -> Any:
    return list(hlo.OptimizationBarrierOp(list(xs)).results) if xs else []


@rule("sharding_constraint")
def _sharding_constraint(
    ctx: LoweringRuleContext, x: Any, *, sharding: Any, **params: Any
) -> list[Any]:
    return [constrained(ctx.module_context, x, sharding, len(ctx.avals_in[0].shape))]


@rule("reshard")
def _reshard(ctx: LoweringRuleContext, x: Any, *, dst_sharding: Any, **params: Any) -> list[Any]:
    return [constrained(ctx.module_context, x, dst_sharding, len(ctx.avals_in[0].shape))]


@rule("copy", "stop_gradient", "stage", "name")
def _identity(ctx: LoweringRuleContext, x: Any, *_: Any, **params: Any) -> list[Any]:
    return [x]


@rule("device_put")
def _device_put(ctx: LoweringRuleContext, *xs: Any, **params: Any) -> list[Any]:
    return list(xs)
