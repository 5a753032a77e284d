"""Fourier transforms through SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...lazy_imports import lazy_module
from ...primitives import fft
from .table import rule

scipy_fft = lazy_module("scipy.fft")


@rule(fft.fft_p)
def transform(x: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    if 0 in (*x.shape, *fft_lengths):
        shape = list(x.shape)
        real = fft_type == fft.FftType.IRFFT
        shape[-1] = fft_lengths[-1] // 2 + 1 if fft_type == fft.FftType.RFFT else fft_lengths[-1]
        return np.zeros(shape, np.float32 if real else np.complex64)
    if fft_type == fft.FftType.FFT:
        return scipy_fft.fftn(x, axes=axes)
    if fft_type == fft.FftType.IFFT:
        return scipy_fft.ifftn(x, axes=axes)
    if fft_type == fft.FftType.RFFT:
        return scipy_fft.rfftn(x, axes=axes)
    return scipy_fft.irfftn(x, s=fft_lengths, axes=axes)
