"""Fourier transforms over the last axes."""

from __future__ import annotations

from typing import Any

from ....primitives.fft import FftType
from ..contexts import LoweringRuleContext
from ..library import hlo
from ..lowering import rule
from ..types import ints
from .build import full


@rule("fft")
def _fft(ctx: LoweringRuleContext, x: Any, *, fft_type: Any, fft_lengths: Any) -> list[Any]:
    (out,) = ctx.avals_out
    if 0 in (*ctx.avals_in[0].shape, *out.shape):
        return [full(0, out)]
    if not fft_lengths:
        return [x]
    return [hlo.fft(x, hlo.FftTypeAttr.get(FftType(fft_type).name), ints(fft_lengths))]
