"""Fast Fourier transforms over the last axes. The transform is linear; its transposes are
transforms again.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import Primitive
from ..core.symbolic import Zero
from .common import as_array, canonical_shape, size_of
from .convert import convert_element_type
from .elementwise import complex as lax_complex, conj, eq, mul, real, select_n
from .layout import broadcast_in_dim, broadcasted_iota, linear_jvp, move_batch_front
from .shape import pad


class FftType(enum.IntEnum):
    """Forward or inverse, of complex or of real numbers.

    The `fft_type` of `lax.fft`.

    >>> lax.FftType.RFFT.name
    'RFFT'
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _fft_aval(x: Any, *, fft_type: Any, fft_lengths: Any) -> ShapedArray:
    n = len(fft_lengths)
    if n > x.ndim:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as "
            f"fft_lengths {tuple(fft_lengths)}."
        )
    lead, last = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    if fft_type == FftType.RFFT:
        if last != tuple(fft_lengths):
            raise ValueError(
                f"RFFT input shape {x.shape} minor dimensions must be equal to fft_lengths "
                f"{fft_lengths}"
            )
        if not dtypes.is_float(x.dtype):
            raise ValueError(f"RFFT input must be float32 or float64, got {x.dtype}")
        out = np.dtype("complex128") if x.dtype == np.float64 else np.dtype("complex64")
        return ShapedArray((*lead, *fft_lengths[:-1], fft_lengths[-1] // 2 + 1), out)
    if not dtypes.is_complex(x.dtype):
        raise ValueError(
            f"{FftType(fft_type).name} input must be complex64 or complex128, got {x.dtype}"
        )
    if fft_type == FftType.IRFFT:
        want = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
        if last[:-1] != want[:-1]:
            raise ValueError(
                f"IRFFT input shape {x.shape} minor dimensions must be equal to all except the "
                f"last fft_length, got fft_lengths={tuple(fft_lengths)}"
            )
        if last != want:
            raise ValueError(
                f"IRFFT input shape {x.shape} minor dimensions must be {want} for fft_lengths "
                f"{fft_lengths}"
            )
        return ShapedArray(
            (*lead, *fft_lengths), np.dtype("float64" if x.dtype == np.complex128 else "float32")
        )
    if last != tuple(fft_lengths):
        raise ValueError(
            f"FFT input shape {x.shape} minor dimensions must be equal to fft_lengths {fft_lengths}"
        )
    return ShapedArray(x.shape, x.dtype)


def _fft_transpose(ct: Any, x: Any, *, fft_type: Any, fft_lengths: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if fft_type == FftType.RFFT:
        return [_rfft_transpose(ct, fft_lengths)]
    if fft_type == FftType.IRFFT:
        return [_irfft_transpose(ct, fft_lengths)]
    # The matrix of the transform is symmetric.
    return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]


def _rfft_transpose(ct: Any, lengths: Any) -> Any:
    """x_j = Re sum_k ct_k w^(jk): the full transform of the cotangent after it, with zeros for the
    frequencies that rfft leaves out.
    """
    shape = typeof(ct).shape
    zero = np.zeros((), typeof(ct).dtype)[()]
    edges = [(0, 0, 0)] * (len(shape) - 1) + [(0, lengths[-1] - shape[-1], 0)]
    return real(fft_p.bind(pad(ct, zero, edges), fft_type=FftType.FFT, fft_lengths=lengths))


def _irfft_transpose(ct: Any, lengths: Any) -> Any:
    """x_k = m_k / n conj(rfft(ct))_k, where m_k counts the two frequencies that x_k stands for (0
    and n/2 are their own partners).
    """
    out = conj(fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=lengths))
    shape, d = typeof(out).shape, typeof(ct).dtype
    n = lengths[-1]
    scale = 1.0 / size_of(lengths)
    places = broadcasted_iota(np.int32, shape, len(shape) - 1)
    weight = broadcast_in_dim(d.type(2 * scale), shape, ())
    single = broadcast_in_dim(d.type(scale), shape, ())
    weight = select_n(eq(places, np.int32(0)), weight, single)
    if n % 2 == 0:
        weight = select_n(eq(places, np.int32(n // 2)), weight, single)
    return mul(out, lax_complex(weight, broadcast_in_dim(d.type(0), shape, ())))


def _fft_batch(args: Any, dims: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    return fft_p.bind(
        move_batch_front(args[0], dims[0]), fft_type=fft_type, fft_lengths=fft_lengths
    ), 0


fft_p: Primitive = Primitive(
    "fft",
    abstract_eval=_fft_aval,
    jvp=linear_jvp(lambda: fft_p),
    transpose=_fft_transpose,
    batch=_fft_batch,
)


def fft(x: Any, fft_type: Any, fft_lengths: Any) -> Any:
    """The transform of the last `len(fft_lengths)` axes. RFFT keeps the non-negative frequencies of
    real input; IRFFT is its inverse.

    `fft_type`: an `FftType` or its name. The result is complex, but for IRFFT. Raises ValueError
    for dtypes and lengths that do not fit. As `numpy.fft`'s functions, without their
    normalisations.

    >>> lax.fft(jnp.array([1., 2., 3., 4.], 'complex64'), 'FFT', (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__:
            raise ValueError(f"Unknown FFT type '{fft_type}'")
        fft_type = fft_type.upper()
        fft_type = FftType[fft_type]
    if not isinstance(fft_type, FftType):
        raise TypeError(f"Unknown FFT type value {fft_type!r}. Fix: lax.FftType.FFT, or 'FFT'.")
    x = as_array(x)
    d = typeof(x).dtype
    if fft_type == FftType.RFFT:
        if dtypes.is_complex(d):
            raise ValueError("only real valued inputs supported for rfft")
        if dtypes.is_float(d) and d not in (np.dtype("float32"), np.dtype("float64")):
            raise ValueError(
                f"RFFT input must be float32 or float64, got {d}. Fix: x.astype('float32')."
            )
        x = convert_element_type(x, np.float64 if d.itemsize == 8 else np.float32)
    elif not dtypes.is_complex(d):
        x = convert_element_type(x, np.complex128 if d.itemsize == 8 else np.complex64)
    lengths = canonical_shape(fft_lengths)
    if not lengths:
        return x
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=lengths)
