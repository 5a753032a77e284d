"""Sorting by several keys, and the largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtypes
from ..contexts import LoweringRuleContext
from ..library import chlo, func, hlo, ir
from ..lowering import rule
from ..types import i64_attr, ints, tensor, type_of
from .build import compare, converted, flag, greatest, least, region, scalar, scalar_types


@rule("sort")
def _sort(
    ctx: LoweringRuleContext, *xs: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Any]:
    kinds = [a.dtype for a in ctx.avals_in]
    op = hlo.SortOp(
        [type_of(a) for a in ctx.avals_out], list(xs), dimension=i64_attr(dimension),
        is_stable=flag(is_stable),
    )  # fmt: skip
    pairs = [d for d in kinds for _ in range(2)]

    def less(*args: Any) -> list[Any]:
        keys = [_keys(args[2 * k], args[2 * k + 1], kinds[k]) for k in range(num_keys)]
        out = None
        for x, y, dtype in reversed([part for parts in keys for part in parts]):
            below = compare(x, y, "LT", dtype, total=True)
            if out is None:
                out = below
            else:
                equal = compare(x, y, "EQ", dtype, total=True)
                out = hlo.or_(below, hlo.and_(equal, out))
        return [out]

    region(op.regions[0], scalar_types(*pairs), less)
    return list(op.results)


def _keys(x: Any, y: Any, dtype: Any) -> list[tuple[Any, Any, Any]]:
    """What two elements are ordered by: real parts before imaginary ones, zeros of both signs and
    NaNs of all kinds alike."""
    if dtypes.is_complex(dtype):
        part = np.zeros((), dtype).real.dtype
        parts = [(hlo.real(x), hlo.real(y)), (hlo.imag(x), hlo.imag(y))]
        return [(_plain(a, part), _plain(b, part), part) for a, b in parts]
    if dtypes.is_float(dtype):
        return [(_plain(x, dtype), _plain(y, dtype), dtype)]
    return [(x, y, dtype)]


def _plain(x: Any, dtype: Any) -> Any:
    zero = compare(x, scalar(0, dtype), "EQ", dtype)
    out = hlo.select(zero, scalar(0, dtype), x)
    return hlo.select(compare(x, x, "NE", dtype), scalar(np.nan, dtype), out)


@rule("top_k")
def _top_k(ctx: LoweringRuleContext, x: Any, *, k: int, axis: int) -> list[Any]:
    (aval,), (out, _) = ctx.avals_in, ctx.avals_out
    dtype, last = aval.dtype, len(aval.shape) - 1
    narrow = dtypes.itemsize_bits(dtype) < 8  # XLA does not sort these beside their indices
    if narrow:
        wide = np.dtype("int8" if dtypes.is_signed(dtype) else "uint8")
        x = converted(x, aval.shape, wide)
    order = [*(d for d in range(last + 1) if d != axis), axis]
    if axis != last:
        x = hlo.transpose(x, ints(order))
    found = list(chlo.top_k(x, i64_attr(k)))
    if axis != last:
        found = [hlo.transpose(v, ints(int(d) for d in np.argsort(order))) for v in found]
    if narrow:
        found[0] = converted(found[0], out.shape, dtype)
    return found


@rule("approx_top_k")
def _approx_top_k(
    ctx: LoweringRuleContext, x: Any, *, k: int, reduction_dimension: int, recall_target: float,
    is_max_k: bool, reduction_input_size_override: int, aggregate_to_topk: bool,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    axis = reduction_dimension % len(aval.shape)
    dtype = aval.dtype
    comparator = _comparator(ctx, dtype, is_max_k)
    index = hlo.iota(tensor(aval.shape, np.int32), axis)
    worst = scalar((least if is_max_k else greatest)(dtype), dtype)
    options = {
        "top_k": i64_attr(k),
        "reduction_dim": i64_attr(axis),
        "recall_target": ir.FloatAttr.get(ir.F32Type.get(), recall_target),
        "aggregate_to_topk": flag(aggregate_to_topk),
        "reduction_input_size_override": i64_attr(reduction_input_size_override),
        "is_fallback": flag(True),
    }
    call = hlo.CustomCallOp(
        [type_of(a) for a in ctx.avals_out], [x, index, worst, scalar(-1, np.int32)],
        call_target_name=ir.StringAttr.get("ApproxTopK"), backend_config=ir.StringAttr.get(""),
        called_computations=ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(comparator)]),
    )  # fmt: skip
    call.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get(options)
    return list(call.results)


def _comparator(ctx: LoweringRuleContext, dtype: Any, larger: bool) -> str:
    """A function of the module that tells which of two elements comes first: its name."""
    module = ctx.module_context
    name = f"top_k_{'gt' if larger else 'lt'}_{tensor((), dtype).element_type}_comparator"
    if name in module.symbol_table:
        return name
    types = scalar_types(dtype, dtype, np.int32, np.int32)
    with module.ip:
        op = func.FuncOp(name, ir.FunctionType.get(types, scalar_types(np.bool_)))
    module.symbol_table.insert(op)
    with ir.InsertionPoint(op.add_entry_block()):
        x, y, *_ = op.arguments
        func.return_([compare(x, y, "GT" if larger else "LT", dtype)])
    return name
