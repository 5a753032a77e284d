"""Pieces that rules are made of: constants, comparisons, broadcasts, regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....core.avals import ShapedArray
from ..contexts import LoweringRuleContext
from ..library import chlo, hlo, ir
from ..types import dense_attr, dtype_to_ir_type, ints, tensor, type_of


def aval_of(shape: Sequence[int], dtype: Any) -> ShapedArray:
    return ShapedArray(tuple(shape), np.dtype(dtype))


def scalar(value: Any, dtype: Any) -> Any:
    """A number of this dtype. One that the type cannot hold wraps or saturates as NumPy has it."""
    return hlo.constant(dense_attr(np.asarray(value).astype(dtype)))


def full(value: Any, aval: Any) -> Any:
    """An array of one number."""
    return spread(scalar(value, aval.dtype), (), aval)


def spread(x: Any, dims: Sequence[int], aval: Any) -> Any:
    """`x` along new axes: its own become `dims`."""
    if tuple(dims) == tuple(range(len(aval.shape))) and x.type == type_of(aval):
        return x
    return hlo.broadcast_in_dim(type_of(aval), x, ints(dims))


def matched(ctx: LoweringRuleContext, args: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """The operands of an elementwise operation, all of its shape."""
    found = []
    for x, aval in zip(args, ctx.avals_in, strict=True):
        if aval.shape != tuple(shape):
            x = spread(x, range(len(aval.shape)), aval_of(shape, aval.dtype))
        found.append(x)
    return found


_SIGNED, _UNSIGNED, _FLOAT = "SIGNED", "UNSIGNED", "FLOAT"


def order_of(dtype: Any) -> str:
    """How elements of a dtype are compared."""
    dtype = np.dtype(dtype)
    if dtypes.is_bool(dtype) or dtypes.is_unsigned(dtype):
        return _UNSIGNED
    return _SIGNED if dtypes.is_integer(dtype) else _FLOAT


def compare(x: Any, y: Any, direction: str, dtype: Any, total: bool = False) -> Any:
    """A comparison of arrays of one shape: EQ NE LT LE GT GE."""
    kind = order_of(dtype)
    if total and kind == _FLOAT:
        kind = "TOTALORDER"
    return hlo.compare(
        x, y, hlo.ComparisonDirectionAttr.get(direction),
        compare_type=hlo.ComparisonTypeAttr.get(kind),
    )  # fmt: skip


def converted(x: Any, shape: Sequence[int], dtype: Any) -> Any:
    return hlo.convert(tensor(shape, dtype), x)


def lexicographic(x: Any, y: Any, direction: str) -> Any:
    """Which complex numbers are less (LT) or greater (GT): by their real parts, then by their
    imaginary ones."""
    rx, ry = hlo.real(x), hlo.real(y)
    equal = compare(rx, ry, "EQ", np.float32)
    first = compare(rx, ry, direction, np.float32)
    second = compare(hlo.imag(x), hlo.imag(y), direction, np.float32)
    return hlo.select(equal, second, first)


def extreme(x: Any, y: Any, dtype: Any, larger: bool) -> Any:
    """The larger or smaller of two arrays, element by element."""
    if dtypes.is_complex(dtype):
        return hlo.select(lexicographic(x, y, "GT" if larger else "LT"), x, y)
    return (hlo.maximum if larger else hlo.minimum)(x, y)


def least(dtype: Any) -> Any:
    """What the largest of no elements is."""
    return _bound(dtype, False)


def greatest(dtype: Any) -> Any:
    """What the smallest of no elements is."""
    return _bound(dtype, True)


def _bound(dtype: Any, upper: bool) -> Any:
    if dtypes.is_bool(dtype):
        return np.asarray(upper)
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        return np.asarray(int(info.max if upper else info.min)).astype(dtype)
    value = np.inf if upper else -np.inf
    found = np.asarray(value).astype(dtype)
    if np.isinf(found.astype(np.complex64).real):
        return found
    return np.asarray(float(dtypes.finfo(dtype).max) * (1 if upper else -1)).astype(dtype)


def region(block_region: Any, types: Sequence[Any], body: Callable[..., Sequence[Any]]) -> None:
    """Fills a region with one block: `body(*arguments)` gives what it returns."""
    block = block_region.blocks.append(*types)
    with ir.InsertionPoint(block):
        hlo.return_(list(body(*block.arguments)))


def scalar_types(*kinds: Any) -> list[Any]:
    return [ir.RankedTensorType.get([], dtype_to_ir_type(d)) for d in kinds]


def reduced(
    xs: Sequence[Any],
    inits: Sequence[Any],
    avals: Sequence[Any],
    axes: Sequence[int],
    body: Callable[..., Sequence[Any]],
) -> list[Any]:
    """Arrays reduced together along axes: `body(*totals, *elements)` gives the new totals."""
    kept = [n for d, n in enumerate(avals[0].shape) if d not in axes]
    kinds = [a.dtype for a in avals]
    op = hlo.ReduceOp([tensor(kept, d) for d in kinds], list(xs), list(inits), ints(axes))
    region(op.regions[0], scalar_types(*kinds, *kinds), body)
    return list(op.results)


def windows(
    xs: Sequence[Any],
    inits: Sequence[Any],
    outs: Sequence[Any],
    body: Callable[..., Sequence[Any]],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> list[Any]:
    """Arrays reduced together over windows; `outs` are the avals of the results."""
    ones = [1] * len(window_dimensions)
    pads = np.asarray(padding, np.int64).reshape(len(ones), 2)
    op = hlo.ReduceWindowOp(
        [type_of(a) for a in outs], list(xs), list(inits), ints(window_dimensions),
        window_strides=ints(window_strides), base_dilations=ints(base_dilation or ones),
        window_dilations=ints(window_dilation or ones), padding=pairs(pads),
    )  # fmt: skip
    kinds = [a.dtype for a in outs]
    region(op.regions[0], scalar_types(*kinds, *kinds), body)
    return list(op.results)


def pairs(values: Any) -> Any:
    """A table of integers as an attribute."""
    return ir.DenseIntElementsAttr.get(np.ascontiguousarray(values, np.int64))


def flag(value: Any) -> Any:
    return ir.BoolAttr.get(bool(value))


def through(op: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of an operation that has one of MLIR, on operands of one shape."""

    def rule(ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
        return [op(*matched(ctx, args, ctx.avals_out[0].shape))]

    return rule


def late(module: str, name: str) -> Callable[..., Any]:
    """An operation of MLIR by its name: jaxlib is not there while rules are defined."""
    library = {"hlo": hlo, "chlo": chlo}[module]
    return lambda *args: getattr(library, name)(*args)
