"""Running sums, products and extremes: reductions over windows that end at each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import dtypes
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from .build import compare, extreme, greatest, least, scalar, windows
from .reductions import add


def _running(combine: Callable[..., Any], identity: Callable[[Any], Any]) -> Any:
    def run(ctx: LoweringRuleContext, x: Any, *, axis: int, reverse: bool) -> list[Any]:
        (aval,) = ctx.avals_in
        n, ndim = aval.shape[axis], len(aval.shape)
        if 0 in aval.shape:
            return [x]
        ones, none = [1] * ndim, [(0, 0)] * ndim
        pads = (0, n - 1) if reverse else (n - 1, 0)
        return windows(
            [x], [scalar(identity(aval.dtype), aval.dtype)], ctx.avals_out,
            lambda a, b: [combine(a, b, aval.dtype)],
            window_dimensions=[n if d == axis else 1 for d in range(ndim)], window_strides=ones,
            padding=[pads if d == axis else none[d] for d in range(ndim)],
        )  # fmt: skip

    return run


def _logaddexp(x: Any, y: Any, dtype: Any) -> Any:
    larger = extreme(x, y, dtype, True)
    apart = hlo.subtract(x, y)
    if dtypes.is_complex(dtype):
        smaller = extreme(x, y, dtype, False)
        return hlo.add(larger, hlo.log_plus_one(hlo.exponential(hlo.subtract(smaller, larger))))
    rest = hlo.log_plus_one(hlo.exponential(hlo.negate(hlo.abs(apart))))
    # Infinities of one sign are apart by NaN; what they are together is their sum.
    return hlo.select(compare(apart, apart, "NE", dtype), hlo.add(x, y), hlo.add(larger, rest))


rule("cumsum")(_running(add, lambda d: 0))
rule("cumprod")(_running(lambda x, y, d: hlo.multiply(x, y), lambda d: 1))
rule("cummax")(_running(lambda x, y, d: extreme(x, y, d, True), least))
rule("cummin")(_running(lambda x, y, d: extreme(x, y, d, False), greatest))
rule("cumlogsumexp")(_running(_logaddexp, least))
