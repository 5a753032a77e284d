"""Arithmetic, comparison, bits, selection, elementary functions: element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import dtypes
from ....primitives.elementwise import RoundingMethod
from ...llvm.coefficients import I0_LARGE_F64, I0_SMALL_F64
from ..contexts import LoweringRuleContext
from ..library import chlo, hlo
from ..lowering import RULES, rule
from .build import (
    aval_of,
    compare,
    converted,
    extreme,
    full,
    late,
    matched,
    spread,
    through,
)

# Primitives that are one operation of StableHLO (or CHLO): name of ours, name of theirs.
_HLO = (
    "abs add and=and_ atan2 cbrt ceil clz=count_leading_zeros complex cos=cosine div=divide "
    "exp=exponential expm1=exponential_minus_one floor imag is_finite log log1p=log_plus_one "
    "mul=multiply neg=negate not=not_ or=or_ population_count=popcnt real rem=remainder rsqrt "
    "shift_left shift_right_arithmetic shift_right_logical sin=sine sqrt sub=subtract tan tanh xor"
)
_CHLO = (
    "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma mulhi "
    "nextafter=next_after polygamma sinh zeta"
)
for _module, _names in (("hlo", _HLO), ("chlo", _CHLO)):
    for _entry in _names.split():
        _ours, _, _theirs = _entry.partition("=")
        rule(_ours)(through(late(_module, _theirs or _ours)))


def _in_float32(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for numbers of 8 bits, which XLA's expansions of some functions do not know."""

    def lower(ctx: LoweringRuleContext, x: Any, **params: Any) -> list[Any]:
        (aval,) = ctx.avals_in
        if aval.dtype.itemsize > 1:
            return fun(ctx, x, **params)  # type: ignore[no-any-return]
        wide = aval_of(aval.shape, np.float32)
        inner = ctx.replace(avals_in=[wide], avals_out=[wide])
        (out,) = fun(inner, converted(x, aval.shape, np.float32), **params)
        return [converted(out, aval.shape, aval.dtype)]

    return lower


for _name in ("erfc", "bessel_i1e"):
    RULES[_name] = _in_float32(RULES[_name])


@rule("square")
def _square(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    exact = dtypes.is_inexact(ctx.avals_in[0].dtype)
    return [chlo.square(x) if exact else hlo.multiply(x, x)]


@rule("mul")
def _mul(ctx: LoweringRuleContext, x: Any, y: Any, *, out_dtype: Any = None) -> list[Any]:
    aval = ctx.avals_out[0]
    args = matched(ctx, (x, y), aval.shape)
    if out_dtype is not None:
        args = [
            v if a.dtype == aval.dtype else converted(v, aval.shape, aval.dtype)
            for v, a in zip(args, ctx.avals_in, strict=True)
        ]
    return [hlo.multiply(*args)]


@rule("add_any")
def _add_any(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
    aval = ctx.avals_out[0]
    return [(hlo.or_ if dtypes.is_bool(aval.dtype) else hlo.add)(*matched(ctx, (x, y), aval.shape))]


@rule("conj")
def _conj(ctx: LoweringRuleContext, x: Any, **params: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    if dtypes.is_complex(aval.dtype):
        real, imag = hlo.real(x), hlo.imag(x)
        return [hlo.complex(real, hlo.negate(imag))]
    return [hlo.complex(x, full(0, aval))]


@rule("exp2")
def _exp2(ctx: LoweringRuleContext, x: Any, **params: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    return [hlo.exponential(hlo.multiply(full(np.log(2), aval), x))]


@rule("logistic")
def _logistic(ctx: LoweringRuleContext, x: Any, **params: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    e = hlo.exponential(hlo.negate(x))
    return [hlo.divide(full(1, aval), hlo.add(full(1, aval), e))]


@rule("sign")
def _sign(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    if not dtypes.is_unsigned(aval.dtype):
        return [hlo.sign(x)]
    zero = full(0, aval)
    return [hlo.select(compare(x, zero, "EQ", aval.dtype), full(0, aval), full(1, aval))]


@rule("round")
def _round(ctx: LoweringRuleContext, x: Any, *, rounding_method: Any) -> list[Any]:
    if rounding_method == RoundingMethod.AWAY_FROM_ZERO:
        return [hlo.round_nearest_afz(x)]
    return [hlo.round_nearest_even(x)]


@rule("integer_pow")
def _integer_pow(ctx: LoweringRuleContext, x: Any, *, y: int) -> list[Any]:
    (aval,) = ctx.avals_in
    n = abs(int(y))
    if n == 0:
        return [full(1, aval)]
    out = None
    while n:
        if n & 1:
            out = x if out is None else hlo.multiply(x, out)
        n >>= 1
        if n:
            x = hlo.multiply(x, x)
    return [out if y > 0 else hlo.divide(full(1, aval), out)]


@rule("pow")
def _pow(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
    aval, (_, exponent) = ctx.avals_out[0], ctx.avals_in
    x, y = matched(ctx, (x, y), aval.shape)
    if exponent.dtype != aval.dtype:
        y = converted(y, aval.shape, aval.dtype)
    return [hlo.power(x, y)]


@rule("max")
def _max(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
    aval = ctx.avals_out[0]
    x, y = matched(ctx, (x, y), aval.shape)
    return [extreme(x, y, aval.dtype, True)]


@rule("min")
def _min(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
    aval = ctx.avals_out[0]
    x, y = matched(ctx, (x, y), aval.shape)
    return [extreme(x, y, aval.dtype, False)]


@rule("clamp")
def _clamp(ctx: LoweringRuleContext, low: Any, x: Any, high: Any) -> list[Any]:
    aval = ctx.avals_out[0]
    low, x, high = matched(ctx, (low, x, high), aval.shape)
    return [hlo.clamp(low, x, high)]


# --- comparison ---
def _comparison(direction: str, total: bool = False) -> Any:
    def compared(ctx: LoweringRuleContext, x: Any, y: Any) -> list[Any]:
        x, y = matched(ctx, (x, y), ctx.avals_out[0].shape)
        return [compare(x, y, direction, ctx.avals_in[0].dtype, total)]

    return compared


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    rule(_name)(_comparison(_name.upper()))
for _name in ("eq", "lt", "le"):
    rule(f"{_name}_to")(_comparison(_name.upper(), True))


@rule("select_n")
def _select_n(ctx: LoweringRuleContext, which: Any, *cases: Any) -> list[Any]:
    aval, (index, *_) = ctx.avals_out[0], ctx.avals_in
    shape = aval.shape
    if len(cases) == 1:
        return [cases[0]]
    if index.shape != shape and not (dtypes.is_bool(index.dtype) and index.shape == ()):
        index = aval_of(shape, index.dtype)
        which = spread(which, range(len(ctx.avals_in[0].shape)), index)
    if dtypes.is_bool(index.dtype):
        return [hlo.select(which, cases[1], cases[0])]
    return [_choose(which, index, 0, list(cases))]


def _choose(which: Any, index: Any, first: int, cases: list[Any]) -> Any:
    """A tree of choices between halves."""
    if len(cases) == 1:
        return cases[0]
    middle = len(cases) // 2
    lower = compare(which, full(first + middle, index), "LT", index.dtype)
    return hlo.select(
        lower,
        _choose(which, index, first, cases[:middle]),
        _choose(which, index, first + middle, cases[middle:]),
    )


# --- Bessel's I0, scaled ---
@rule("bessel_i0e")
def _bessel_i0e(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    """One polynomial in |x| up to 8, another in 1/|x| beyond, as in native code."""
    (aval,) = ctx.avals_in
    narrow = aval.dtype.itemsize < 4
    work = aval_of(aval.shape, np.float32) if narrow else aval
    if narrow:
        x = converted(x, aval.shape, np.float32)
    size = hlo.abs(x)
    quarter = hlo.subtract(hlo.multiply(size, full(0.25, work)), full(1, work))
    inverse = hlo.divide(full(1, work), hlo.maximum(size, full(8, work)))
    near = _polynomial(quarter, I0_SMALL_F64, work)
    far = hlo.multiply(_polynomial(inverse, I0_LARGE_F64, work), hlo.sqrt(inverse))
    out = hlo.select(compare(size, full(8, work), "LE", work.dtype), near, far)
    return [converted(out, aval.shape, aval.dtype) if narrow else out]


def _polynomial(x: Any, coefficients: Any, aval: Any) -> Any:
    """Horner's scheme; the coefficients come in the order of native code, the highest last."""
    out = full(coefficients[-1], aval)
    for c in reversed(coefficients[:-1]):
        out = hlo.add(hlo.multiply(out, x), full(c, aval))
    return out
