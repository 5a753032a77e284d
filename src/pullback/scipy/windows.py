"""Windows of spectra by name. What programs name nearly always are sums of a few cosines, computed
here as SciPy does, whose import of `scipy.signal` takes longer than most first calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..lazy_imports import lazy_module

host_signal: Any = lazy_module("scipy.signal")

__all__ = ["window_of"]

# Of the k-th cosine, over one period whose ends are the window's.
_COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 1 - 0.54),
    "blackman": (0.42, 0.50, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
}


def window_of(name: Any, length: int) -> np.ndarray:
    """The periodic window that `scipy.signal.get_window(name, length)` gives, f64[length].

    Raises what SciPy does for a name that it does not know, or wrong parameters.
    """
    weights = _COSINES.get(name) if isinstance(name, str) else None
    if weights is None or length < 2:
        found: np.ndarray = host_signal.get_window(name, length)
        return found
    angles = np.linspace(-np.pi, np.pi, length + 1)
    total = np.zeros(length + 1)
    for k, weight in enumerate(weights):
        total += weight * np.cos(k * angles)
    return total[:-1]
