"""Signal processing: convolution and correlation, detrending, short-time spectra."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax, numpy as jnp
from ..core.avals import typeof
from ..numpy.util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    promote_dtypes_inexact,
    promotes_freely,
)
from ..primitives.common import as_int
from .windows import window_of

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]


# --- convolution ---
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Sequence[int] | None = None) -> Any:
    """The convolution of two arrays by Fourier transforms, along `axes` (by default all); mode
    "full", "same" or "valid".

    Raises ValueError for another mode or shapes that do not fit.

    Other axes are of one size, or 1. As `scipy.signal.fftconvolve`.

    >>> from pullback.scipy import signal
    >>> signal.fftconvolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])).round(3)
    Array([1., 3., 5., 3.], dtype=float32)
    """
    check_arraylike("fftconvolve", in1, in2)
    a, b = (jnp.asarray(v) for v in promote_dtypes_inexact(in1, in2))
    if typeof(a).ndim != typeof(b).ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    if mode not in ("same", "full", "valid"):
        raise ValueError("mode must be one of ['same', 'full', 'valid']")
    ndim = typeof(a).ndim
    places = canonical_axes(axes, ndim)
    if len(set(places)) != len(places):
        raise ValueError("all axes must be unique")
    sa, sb = typeof(a).shape, typeof(b).shape
    if mode == "valid":
        if all(sa[k] < sb[k] for k in places) or all(sa[k] <= sb[k] for k in places):
            a, b, sa, sb = b, a, sb, sa
        if any(sa[k] < sb[k] for k in places):
            raise ValueError(
                "For 'valid' mode, One input must be at least as large as the other in every "
                "dimension."
            )
    for k in range(ndim):
        if k not in places and sa[k] != sb[k] and 1 not in (sa[k], sb[k]):
            raise ValueError(f"incompatible shapes for in1 and in2: {sa} and {sb}")
    if not places:
        return a * b
    full = [sa[k] + sb[k] - 1 for k in places]
    fast = [_fast_length(n) for n in full]
    if dtypes.is_complex(typeof(a).dtype):
        out = jnp.fft.ifftn(
            jnp.fft.fftn(a, fast, places) * jnp.fft.fftn(b, fast, places), axes=places
        )
    else:
        out = jnp.fft.irfftn(
            jnp.fft.rfftn(a, fast, places) * jnp.fft.rfftn(b, fast, places), fast, places
        )
    out = out[
        tuple(slice(0, full[places.index(k)]) if k in places else slice(None) for k in range(ndim))
    ]
    sizes = {
        "full": full,
        "same": [sa[k] for k in places],
        "valid": [sa[k] - sb[k] + 1 for k in places],
    }[mode]
    index = []
    for k in range(ndim):
        if k not in places:
            index.append(slice(None))
            continue
        n = sizes[places.index(k)]
        start = (full[places.index(k)] - n) // 2
        index.append(slice(start, start + n))
    return out[tuple(index)].astype(typeof(a).dtype)


def _fast_length(n: int) -> int:
    """The least number from n that has no prime factor above 5."""
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            m = three << max(-(-n // three) - 1, 0).bit_length()
            if n <= m < best:
                best = m
            three *= 3
        five *= 5
    return max(best, 1)


def _convolve_nd(a: Any, b: Any, mode: str, precision: Any) -> Any:
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    if typeof(a).ndim != typeof(b).ndim:
        raise ValueError("in1 and in2 must have the same number of dimensions")
    if typeof(a).size == 0 or typeof(b).size == 0:
        raise ValueError(
            f"zero-size arrays not supported in convolutions, got shapes {typeof(a).shape} and "
            f"{typeof(b).shape}."
        )
    a, b = (jnp.asarray(v) for v in promote_dtypes_inexact(a, b))
    sa, sb = typeof(a).shape, typeof(b).shape
    no_swap = all(p >= q for p, q in zip(sa, sb, strict=True))
    swap = all(p <= q for p, q in zip(sa, sb, strict=True))
    if not (no_swap or swap):
        raise ValueError("One input must be smaller than the other in every dimension.")
    if typeof(a).ndim == 0:
        return a * b
    if swap:  # the one that slides is the smaller, or the first
        a, b = b, a
    if mode == "valid":
        pads = [(0, 0)] * len(sa)
    elif mode == "full":
        pads = [(n - 1, n - 1) for n in typeof(b).shape]
    else:
        pads = [_middle(*sizes) for sizes in zip(sa, typeof(a).shape, typeof(b).shape, strict=True)]
    b = jnp.flip(b)
    return lax.conv_general_dilated(
        a[None, None], b[None, None], (1,) * typeof(a).ndim, pads, precision=precision
    )[0, 0]


def _middle(n: int, m: int, k: int) -> tuple[int, int]:
    """The padding of m elements under a window of k that gives the middle n of the m + k - 1."""
    low = k - 1 - (m + k - 1 - n) // 2
    return low, n - (m + low - k + 1)


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Any:
    """The convolution of two arrays of equal rank; method "direct" (and "auto") or "fft".

    Raises ValueError for another method or mode.

    `in1`, `in2`: arrays of numbers; `mode`: "full", "same" or "valid". As `scipy.signal.convolve`.

    >>> from pullback.scipy import signal
    >>> signal.convolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("direct", "auto"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    check_arraylike("convolve", in1, in2)
    return _convolve_nd(jnp.asarray(in1), jnp.asarray(in2), mode, precision)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Any:
    """The cross-correlation of two arrays of equal rank: the convolution with the reversed
    conjugate of the second.

    `mode`: "full", "same" or "valid"; ValueError for another, or another method. As
    `scipy.signal.correlate`.

    >>> from pullback.scipy import signal
    >>> signal.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]), mode='valid')
    Array([2., 3.], dtype=float32)
    """
    check_arraylike("correlate", in1, in2)
    return convolve(in1, jnp.flip(jnp.conj(jnp.asarray(in2))), mode, method, precision)


def _two_dimensional(
    name: str, in1: Any, in2: Any, boundary: str, fillvalue: Any
) -> tuple[Any, Any]:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}() only supports boundary='fill', fillvalue=0, got boundary={boundary!r}, "
            f"fillvalue={fillvalue!r}. Fix: jnp.pad in1 as wanted, and mode='valid'."
        )
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")
    check_arraylike(name, in1, in2)
    return jnp.asarray(in1), jnp.asarray(in2)


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """The convolution of two matrices, zero outside.

    Raises NotImplementedError for another boundary, ValueError for arrays of another rank.

    `mode`: "full", "same" or "valid". As `scipy.signal.convolve2d`.

    >>> from pullback.scipy import signal
    >>> signal.convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)))
    Array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]], dtype=float32)
    """
    a, b = _two_dimensional("convolve2d", in1, in2, boundary, fillvalue)
    return _convolve_nd(a, b, mode, precision)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """The cross-correlation of two matrices, zero outside.

    `mode`: "full", "same" or "valid". Raises NotImplementedError for another boundary, ValueError
    for arrays of another rank. As `scipy.signal.correlate2d`.

    >>> from pullback.scipy import signal
    >>> signal.correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode='valid')
    Array([[4.]], dtype=float32)
    """
    a, b = _two_dimensional("correlate2d", in1, in2, boundary, fillvalue)
    sa, sb = typeof(a).shape, typeof(b).shape
    swap = all(p <= q for p, q in zip(sa, sb, strict=True))
    same = sa == sb
    if mode == "same":
        a1, b1 = jnp.flip(a), jnp.conj(b)
        return jnp.flip(_convolve_nd(a1, b1, mode, precision))
    if mode == "valid" and swap and not same:
        # The matrices change places: the smaller is the one that is conjugated.
        return jnp.flip(_convolve_nd(jnp.flip(jnp.conj(a)), b, mode, precision))
    return _convolve_nd(a, jnp.flip(jnp.conj(b)), mode, precision)


# --- detrending ---
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None
) -> Any:
    """The data along `axis` without its mean ("constant") or without the line that fits it best
    ("linear"), piecewise between the points bp.

    Raises ValueError for another type, or break points out of range.

    `data`: an array of numbers; the result is float or complex, of its shape. As
    `scipy.signal.detrend`.

    >>> from pullback.scipy import signal
    >>> signal.detrend(jnp.array([1., 2., 6.]), type='constant')
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError(
            "detrend: overwrite_data argument not implemented. Fix: leave it out; arrays do "
            "not change."
        )
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    check_arraylike("detrend", data)
    data = jnp.asarray(promote_dtypes_inexact(jnp.asarray(data))[0])
    if type == "constant":
        return data - data.mean(axis, keepdims=True)
    axis = canonical_axis(axis, typeof(data).ndim)
    n = typeof(data).shape[axis]
    points = np.sort(np.unique(np.r_[0, np.asarray(bp), n]))
    if points[0] < 0 or points[-1] > n:
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along given axis."
        )
    moved = jnp.moveaxis(data, axis, 0)
    shape = typeof(moved).shape
    flat = jnp.reshape(moved, (n, math.prod(shape[1:])))
    parts = []
    for low, high in itertools.pairwise(points):
        count = int(high - low)
        design = np.stack([np.ones(count), np.arange(1, count + 1) / count], axis=1).astype(
            typeof(data).dtype
        )
        piece = flat[int(low) : int(high)]
        coefficients = jnp.linalg.lstsq(jnp.asarray(design), piece)[0]
        parts.append(
            piece - jnp.matmul(jnp.asarray(design), coefficients, precision=lax.Precision.HIGHEST)
        )
    return jnp.moveaxis(jnp.reshape(jnp.concatenate(parts), shape), 0, axis)


# --- short-time spectra ---
def _window(window: Any, nperseg: int | None, length: int, dtype: Any) -> tuple[Any, int]:
    """The window as an array, and how many elements a segment has."""
    if isinstance(window, (str, tuple)):
        nperseg = 256 if nperseg is None else int(nperseg)
        if nperseg > length:
            nperseg = length
        return jnp.asarray(window_of(window, nperseg), dtype=dtype), nperseg
    win = jnp.asarray(window, dtype=dtype)
    if typeof(win).ndim != 1:
        raise ValueError("window must be 1-D")
    if typeof(win).shape[0] > length:
        raise ValueError(
            f"window is longer than input signal: {typeof(win).shape[0]} elements, of {length}"
        )
    if nperseg is not None and nperseg != typeof(win).shape[0]:
        raise ValueError("value specified for nperseg is different from length of window")
    return win, int(typeof(win).shape[0])


def _segments(x: Any, nperseg: int, step: int) -> Any:
    """Overlapping segments along the last axis: (..., segments, nperseg)."""
    n = typeof(x).shape[-1]
    starts = np.arange(0, n - nperseg + 1, step)
    return x[..., starts[:, None] + np.arange(nperseg)[None, :]]


def _extend(x: Any, count: int, kind: str | None) -> Any:
    """The signal continued by `count` elements at both ends of its last axis."""
    if kind is None or count == 0:
        return x
    if kind == "zeros":
        return jnp.pad(x, [(0, 0)] * (typeof(x).ndim - 1) + [(count, count)])
    n = typeof(x).shape[-1]
    if kind == "constant":
        return jnp.pad(x, [(0, 0)] * (typeof(x).ndim - 1) + [(count, count)], mode="edge")
    if kind in ("even", "odd"):
        before, after = (
            jnp.flip(x[..., 1 : count + 1], -1),
            jnp.flip(x[..., n - count - 1 : n - 1], -1),
        )
        if kind == "odd":
            before, after = 2 * x[..., :1] - before, 2 * x[..., -1:] - after
        return jnp.concatenate([before, x, after], axis=-1)
    raise ValueError(
        f"Unknown boundary option '{kind}', must be one of: ['even', 'odd', 'constant', 'zeros', "
        "None]"
    )


def _with_zeros(v: Any, count: int) -> Any:
    """An array with zeros behind its last axis."""
    return jnp.pad(v, [(0, 0)] * (typeof(v).ndim - 1) + [(0, count)])


def _transform_size_and_step(
    nperseg: int, noverlap: int | None, nfft: int | None
) -> tuple[int, int]:
    """(the size of a segment's transform, the distance of the segments' first elements)"""
    nfft = nperseg if nfft is None else int(nfft)
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return nfft, nperseg - noverlap


def _scale(win: Any, fs: Any, scaling: str) -> Any:
    """What power spectra are multiplied by."""
    if scaling == "density":
        return 1.0 / (fs * jnp.sum(win * win))
    if scaling == "spectrum":
        return 1.0 / jnp.sum(win) ** 2
    raise ValueError(f"Unknown scaling: {scaling}")


def _spectrum(
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend_type: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    mode: str,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Any, Any, Any]:
    """(frequencies, times, spectra of the segments): cross spectra for mode "psd", transforms for
    "stft".
    """
    same = y is None
    arrays = promote_dtypes_inexact(x) if same else promote_dtypes_inexact(x, y)
    _others_broadcast([typeof(v).shape for v in arrays], axis)
    if nperseg is not None and nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    if any(0 in typeof(v).shape for v in arrays):
        return _spectrum_of_nothing(arrays, axis)
    arrays = [jnp.moveaxis(jnp.asarray(v), canonical_axis(axis, np.ndim(v)), -1) for v in arrays]
    first = arrays[0]
    second = first if same else arrays[1]
    if not same:
        n = max(typeof(first).shape[-1], typeof(second).shape[-1])
        first, second = (_with_zeros(v, n - typeof(v).shape[-1]) for v in (first, second))
    is_complex = dtypes.is_complex(typeof(first).dtype)
    real = np.zeros((), typeof(first).dtype).real.dtype
    win, nperseg = _window(window, nperseg, typeof(first).shape[-1], real)
    nfft, step = _transform_size_and_step(nperseg, noverlap, nfft)
    first = _extend(first, nperseg // 2, boundary)
    second = first if same else _extend(second, nperseg // 2, boundary)
    if padded:
        extra = (-(typeof(first).shape[-1] - nperseg) % step) % nperseg
        first, second = (_with_zeros(v, extra) for v in (first, second))
    onesided = return_onesided and not is_complex

    def transformed(v: Any) -> Any:
        pieces = _segments(v, nperseg, step)
        if callable(detrend_type):
            pieces = detrend_type(pieces)
        elif detrend_type:
            pieces = detrend(pieces, axis=-1, type=detrend_type)
        pieces = win * pieces
        return jnp.fft.rfft(pieces, n=nfft) if onesided else jnp.fft.fft(pieces, n=nfft)

    spectra = transformed(first)
    if mode == "psd":
        other = spectra if same else transformed(second)
        spectra = jnp.conj(spectra) * other
    scale = _scale(win, fs, scaling)
    spectra = spectra * (jnp.sqrt(scale) if mode == "stft" else scale)
    if onesided and mode == "psd":
        last = None if nfft % 2 else -1
        spectra = spectra.at[..., 1:last].mul(2)
    of_result = np.zeros((), typeof(spectra).dtype).real.dtype  # no transform has half floats
    frequencies_of = jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq
    frequencies = frequencies_of(nfft, 1 / fs, dtype=of_result)
    total = typeof(first).shape[-1]
    times = jnp.asarray(np.arange(nperseg / 2, total - nperseg / 2 + 1, step), of_result) / fs
    if boundary is not None:
        times = times - (nperseg / 2) / fs
    if same and mode == "psd":
        spectra = spectra.real
    return frequencies, times, jnp.moveaxis(spectra, -1, -2)


def _others_broadcast(shapes: Sequence[tuple[int, ...]], axis: int) -> None:
    """ValueError for signals whose axes beside that of time do not broadcast."""
    others = [np.delete(s, canonical_axis(axis, len(s))) for s in shapes]
    try:
        np.broadcast_shapes(*map(tuple, others))
    except ValueError:
        raise ValueError(
            f"x and y cannot be broadcast together: their shapes are {shapes[0]} and {shapes[1]}, "
            f"of which axis {axis} is time."
        ) from None


def _spectrum_of_nothing(arrays: Sequence[Any], axis: int) -> tuple[Any, Any, Any]:
    """What SciPy and JAX answer for signals without elements: three arrays of the signals' shape,
    broadcast, and as long as the shorter one."""
    shapes = [list(typeof(v).shape) for v in arrays]
    lengths = [shape.pop(canonical_axis(axis, len(shape))) for shape in shapes]
    shape = list(np.broadcast_shapes(*shapes))
    shape.insert(canonical_axis(axis, len(shape) + 1), min(lengths))
    real = np.zeros((), dtypes.result_type(typeof(arrays[0]).dtype, np.complex64)).real.dtype
    times = jnp.zeros(shape, real)
    return times, times, lax.complex(times, times)


@promotes_freely
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """(frequencies, times, transforms of windowed overlapping segments), the new axis of times
    last.

    `x`: a real or complex array; `window`: a name, a tuple or an array. Raises ValueError for
    arguments that do not fit. As `scipy.signal.stft`.

    >>> from pullback.scipy import signal
    >>> frequencies, times, z = signal.stft(jnp.ones(16), nperseg=8)
    >>> z.shape, frequencies[:3]
    ((5, 5), Array([0.   , 0.125, 0.25 ], dtype=float32))
    """
    f, t, z = _spectrum(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        axis,
        "stft",
        boundary,
        padded,
    )
    return (f, t, _place(z, axis)) if z.size else (f, t, z)


def _place(z: Any, axis: int) -> Any:
    """The frequency axis back where the signal's axis was (the axis of times stays last)."""
    return (
        z
        if axis in (-1, typeof(z).ndim - 2)
        else jnp.moveaxis(z, -2, axis if axis >= 0 else axis - 1)
    )


@promotes_freely
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """(frequencies, the cross power spectral density), by Welch's method: the average over
    overlapping segments, "mean" or "median".

    `x`, `y`: real or complex arrays whose other axes broadcast. Raises ValueError for arguments
    that do not fit. As `scipy.signal.csd`.

    >>> from pullback.scipy import signal
    >>> t = jnp.arange(64.)
    >>> f, pxy = signal.csd(jnp.cos(t * jnp.pi / 4), jnp.cos(t * jnp.pi / 4), nperseg=32)
    >>> f[jnp.argmax(jnp.abs(pxy))]
    Array(0.125, dtype=float32)
    """
    if y is not None and np.ndim(x) != np.ndim(y):
        raise ValueError(f"csd: x and y must have the same rank, got {np.ndim(x)} and {np.ndim(y)}")
    f, _, p = _spectrum(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, "psd"
    )
    if not p.size:
        return f, p
    n = typeof(p).shape[-1]
    if n == 1:
        out = p[..., 0]
    elif average == "mean":
        out = jnp.mean(p, axis=-1)
    elif average == "median":
        even = 2 * np.arange(1, (n - 1) // 2 + 1, dtype=np.float64)
        bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
        if dtypes.is_complex(typeof(p).dtype):
            out = lax.complex(jnp.median(p.real, axis=-1), jnp.median(p.imag, axis=-1)) / bias
        else:
            out = jnp.median(p, axis=-1) / bias
    else:
        raise ValueError(f'average must be "median" or "mean", got {average}')
    return f, jnp.moveaxis(out, -1, canonical_axis(axis, typeof(out).ndim))


@promotes_freely
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """(frequencies, the power spectral density), by Welch's method.

    `x`: a real or complex array; `window`: a name, a tuple or an array. Raises ValueError for
    arguments that do not fit. As `scipy.signal.welch`.

    >>> from pullback.scipy import signal
    >>> f, pxx = signal.welch(jnp.cos(jnp.arange(64.) * jnp.pi / 4), nperseg=32)
    >>> f[jnp.argmax(pxx)]
    Array(0.125, dtype=float32)
    """
    f, p = csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
    return f, p.real


@promotes_freely
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """(times, the signal) of a short-time Fourier transform, by overlapping and adding its
    segments.

    Raises ValueError for arguments that do not fit.

    `Zxx`: complex; its axes of frequencies and of times are named. As `scipy.signal.istft`.

    >>> from pullback.scipy import signal
    >>> x = jnp.arange(16.)
    >>> _, _, z = signal.stft(x, nperseg=8)
    >>> signal.istft(z, nperseg=8)[1].round(3)
    Array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12.,
           13., 14., 15.], dtype=float32)
    """
    check_arraylike("istft", Zxx)
    z = jnp.asarray(Zxx)
    if typeof(z).ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    t_axis, f_axis = (
        canonical_axis(time_axis, typeof(z).ndim),
        canonical_axis(freq_axis, typeof(z).ndim),
    )
    if t_axis == f_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    z = jnp.moveaxis(z, (t_axis, f_axis), (-2, -1))
    count, bins = typeof(z).shape[-2:]
    default = 2 * (bins - 1) if input_onesided else bins
    nperseg = default if nperseg is None else as_int(nperseg, "nperseg")
    if nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        nfft = default + 1 if input_onesided and nperseg == default + 1 else default
    elif nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    step = nperseg - noverlap
    pieces = jnp.fft.irfft(z, n=nfft) if input_onesided else jnp.fft.ifft(z, n=nfft)
    real = np.zeros((), typeof(pieces).dtype).real.dtype
    win, _ = _window(window, nperseg, nperseg, real)
    if typeof(win).shape[0] != nperseg:
        raise ValueError(f"window must have length of {nperseg}")
    pieces = pieces[..., :nperseg]
    length = nperseg + (count - 1) * step
    places = np.arange(count)[:, None] * step + np.arange(nperseg)[None, :]
    batch = typeof(pieces).shape[:-2]
    x = jnp.zeros((*batch, length), typeof(pieces).dtype).at[..., places].add(pieces * win)
    weight = jnp.zeros(length, real).at[places].add(jnp.broadcast_to(win * win, (count, nperseg)))
    x = x * jnp.sum(win)
    if boundary:
        cut = nperseg // 2
        x, weight = x[..., cut : length - cut], weight[cut : length - cut]
    x = x / jnp.where(weight > 1e-10, weight, 1.0)
    if typeof(x).ndim > 1:
        x = jnp.moveaxis(x, -1, t_axis - (f_axis < t_axis))  # the axis of frequencies is no more
    times = jnp.arange(typeof(x).shape[0], dtype=real) / fs  # of stacks too, as in SciPy
    return times, x
