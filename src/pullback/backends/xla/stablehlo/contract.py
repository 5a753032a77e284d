"""dot_general and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import rule
from ..types import i64_attr, ints, tensor, type_of
from .build import converted, pairs


def _precision(precision: Any, count: int = 2) -> Any:
    """The precision of each operand as an attribute."""
    asked = precision if isinstance(precision, tuple) else (precision,) * count
    names = [getattr(p, "name", None) or "DEFAULT" for p in asked]
    return ir.ArrayAttr.get([hlo.PrecisionAttr.get(str(n)) for n in names])


def _levels(precision: Any) -> tuple[Any, Any]:
    """Precision attributes, and the algorithm if one is asked for."""
    if precision is None or isinstance(precision, tuple):
        return _precision(precision), None
    if getattr(precision, "name", "") in ("DEFAULT", "HIGH", "HIGHEST"):
        return _precision(precision), None
    return _precision(None), _ALGORITHMS.get(str(getattr(precision, "name", precision)))


_ALGORITHMS: dict[str, Any] = {}


_WIDER = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}


@rule("dot_general")
def _dot_general(
    ctx: LoweringRuleContext, x: Any, y: Any, *_: Any, dimension_numbers: Any, precision: Any,
    **params: Any,
) -> list[Any]:  # fmt: skip
    (lhs, rhs, *_), (out,) = ctx.avals_in, ctx.avals_out
    (lc, rc), (lb, rb) = dimension_numbers
    if lhs.dtype != rhs.dtype:
        common = dtypes.result_type(lhs.dtype, rhs.dtype)
        x, y = converted(x, lhs.shape, common), converted(y, rhs.shape, common)
        kind = common
    else:
        kind = lhs.dtype
    if kind.name in _WIDER and out.dtype != kind:  # XLA converts neither from nor to half a byte
        kind = np.dtype(_WIDER[kind.name])
        x, y = converted(x, lhs.shape, kind), converted(y, rhs.shape, kind)
    numbers = hlo.DotDimensionNumbers.get(list(lb), list(rb), list(lc), list(rc))
    levels, _ = _levels(precision)
    wide = out.dtype
    if dtypes.is_complex(out.dtype) and not dtypes.is_complex(kind):
        # A product of reals is real.
        wide = np.zeros((), out.dtype).real.dtype
    found = hlo.dot_general(tensor(out.shape, wide), x, y, numbers, precision_config=levels)
    return [found if wide == out.dtype else converted(found, out.shape, out.dtype)]


@rule("conv_general_dilated")
def _conv_general_dilated(
    ctx: LoweringRuleContext, x: Any, w: Any, *_: Any, window_strides: Sequence[int],
    padding: Any, lhs_dilation: Sequence[int], rhs_dilation: Sequence[int],
    dimension_numbers: Any, feature_group_count: int, batch_group_count: int, precision: Any,
    **params: Any,
) -> list[Any]:  # fmt: skip
    (out,) = ctx.avals_out
    lhs, rhs, to = dimension_numbers
    numbers = hlo.ConvDimensionNumbers.get(
        lhs[0], lhs[1], list(lhs[2:]), rhs[1], rhs[0], list(rhs[2:]), to[0], to[1], list(to[2:])
    )
    n = len(window_strides)
    return [
        hlo.convolution(
            type_of(out), x, w, numbers, i64_attr(feature_group_count),
            i64_attr(batch_group_count), window_strides=ints(window_strides),
            padding=pairs(np.asarray(padding, np.int64).reshape(n, 2)),
            lhs_dilation=ints(lhs_dilation), rhs_dilation=ints(rhs_dilation),
            window_reversal=ir.DenseBoolArrayAttr.get([False] * n),
            precision_config=_precision(precision),
        )
    ]  # fmt: skip
