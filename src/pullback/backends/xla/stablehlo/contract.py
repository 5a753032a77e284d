"""dot_general and convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....primitives.contract import DotAlgorithm
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import rule
from ..types import dtype_to_ir_type, i64_attr, ints, tensor, type_of
from .build import aval_of, converted, pairs


def _precision(precision: Any) -> Any:
    """The precision of each operand as an attribute."""
    asked = (precision,) * 2
    if isinstance(precision, tuple) and not isinstance(precision, DotAlgorithm):
        asked = precision
    names = [str(getattr(p, "name", "DEFAULT")) for p in asked]
    known = [n if n in ("HIGH", "HIGHEST") else "DEFAULT" for n in names]
    return ir.ArrayAttr.get([hlo.PrecisionAttr.get(n) for n in known])


# Types of parts in the names of algorithms.
_PARTS = {
    "F16": "F16Type",
    "BF16": "BF16Type",
    "TF32": "FloatTF32Type",
    "F32": "F32Type",
    "F64": "F64Type",
}


def _algorithm(precision: Any, dtype: Any) -> Any:
    """How products are to be formed, as an attribute; None where the types of the operands say it.

    CPUs form them in the types of operands and results: only what they know is asked of them.
    """
    if isinstance(precision, DotAlgorithm):
        kinds = [dtype_to_ir_type(np.dtype(d)) for d in precision[:3]]
        return hlo.DotAlgorithm.get(*kinds, *precision[3:])
    words = str(getattr(precision, "name", "")).split("_")
    if len(words) < 3 or any(w not in _PARTS for w in words[:3]):
        return None
    if dtype.name not in ("float32", "bfloat16") or not {*words[:3]} <= {"F32", "BF16"}:
        return None
    if words[2] == "BF16":
        return None
    kinds = [getattr(ir, _PARTS[w]).get() for w in words[:3]]
    times = int(words[3][1:]) if len(words) > 3 else 1
    return hlo.DotAlgorithm.get(*kinds, 1, 1, times, False)


_WIDER = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}


@rule("dot_general")
def _dot_general(
    ctx: LoweringRuleContext, x: Any, y: Any, *_: Any, dimension_numbers: Any, precision: Any,
    **params: Any,
) -> list[Any]:  # fmt: skip
    (lhs, rhs, *_rest), (out,) = ctx.avals_in, ctx.avals_out
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
    wide = out.dtype
    if dtypes.is_complex(out.dtype) and not dtypes.is_complex(kind):
        # A product of reals is real.
        wide = np.zeros((), out.dtype).real.dtype
    found = hlo.dot_general(
        tensor(out.shape, wide), x, y, numbers, precision_config=_precision(precision),
        algorithm=_algorithm(precision, kind),
    )  # fmt: skip
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

    def convolved(aval: Any, x: Any, w: Any) -> Any:
        return hlo.convolution(
            type_of(aval), x, w, numbers, i64_attr(feature_group_count),
            i64_attr(batch_group_count), window_strides=ints(window_strides),
            padding=pairs(np.asarray(padding, np.int64).reshape(n, 2)),
            lhs_dilation=ints(lhs_dilation), rhs_dilation=ints(rhs_dilation),
            window_reversal=ir.DenseBoolArrayAttr.get([False] * n),
            precision_config=_precision(precision),
        )  # fmt: skip

    platforms = ctx.platforms or ctx.module_context.platforms
    if dtypes.is_complex(out.dtype) and tuple(platforms) != ("tpu",):
        real = aval_of(out.shape, np.zeros((), out.dtype).real.dtype)
        return [_by_three(lambda x, w: convolved(real, x, w), x, w)]
    return [convolved(out, x, w)]


def _by_three(product: Callable[[Any, Any], Any], x: Any, w: Any) -> Any:
    """A complex product by three real ones: XLA has slow complex convolutions on CPUs, and none on
    GPUs."""
    a, b, c, d = hlo.real(x), hlo.imag(x), hlo.real(w), hlo.imag(w)
    both = product(hlo.add(a, b), c)
    turned = product(a, hlo.subtract(d, c))
    return hlo.complex(hlo.subtract(both, product(b, hlo.add(c, d))), hlo.add(both, turned))
