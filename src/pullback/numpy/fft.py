"""Discrete Fourier transforms along any axes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..core.avals import typeof
from ..primitives.common import as_int
from ..primitives.convert import convert_weak
from . import arithmetic, complex_parts, creation, elementary, manipulation, padding, ranges
from .util import canonical_axis, check_arraylike, inexact, user_dtype


def _norm_factor(
    norm: str | None, sizes: Sequence[int], forward: bool, dtype: Any, name: str
) -> Any:
    """What the unscaled forward, or scaled backward, transform must be multiplied by; None
    for 1.
    """
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    if norm in (None, "backward"):
        return None
    n = creation.asarray(np.prod(np.asarray(sizes, np.float64)), dtype=dtype)
    if norm == "ortho":
        return 1 / elementary.sqrt(n) if forward else elementary.sqrt(n)
    return 1 / n if forward else n


def _resize(a: Any, sizes: dict[int, int]) -> Any:
    """Cuts or zero-pads axes to these sizes."""
    shape = typeof(a).shape
    keep = tuple(
        slice(0, min(shape[k], sizes[k])) if k in sizes else slice(None) for k in range(len(shape))
    )
    if any(k in sizes and sizes[k] < shape[k] for k in range(len(shape))):
        a = a[keep]
    widths = [(0, max(sizes.get(k, n) - n, 0)) for k, n in enumerate(shape)]
    return padding.pad(a, widths)


def _transform(name: str, kind: lax.FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    check_arraylike(f"jax.numpy.fft.{name}", a)
    a = creation.asarray(a)
    ndim = typeof(a).ndim
    if s is not None:
        s = tuple(operator.index(n) for n in s)
        if any(n <= 0 for n in s):
            raise ValueError(f"Shape should be positive. jax.numpy.fft.{name} was given s={s}.")
    if s is not None and axes is not None and len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    given = axes
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    axes = tuple(canonical_axis(k, ndim) for k in axes)
    if len(axes) != len(set(axes)):
        raise ValueError(f"jax.numpy.fft.{name} does not support repeated axes. Got axes {given}.")
    real_in, real_out = kind == lax.FftType.RFFT, kind == lax.FftType.IRFFT
    dtype = typeof(a).dtype
    if real_in and dtypes.is_complex(dtype):
        raise ValueError(
            f"only real valued inputs supported for rfft: jnp.fft.{name} was given {dtype.name}. "
            f"Fix: jnp.fft.{name[1:]}."
        )
    sizes = list(s) if s is not None else [typeof(a).shape[k] for k in axes]
    if s is None and real_out and axes:
        sizes[-1] = max(0, 2 * (sizes[-1] - 1))
    if any(n == 0 for n in s or ()) or (real_in and axes and sizes[-1] == 0):
        raise ValueError(f"jnp.fft.{name}: a transformed axis has size 0 (shape {typeof(a).shape})")
    wide = dtype in (np.dtype("float64"), np.dtype("complex128")) or (
        dtypes.is_integer(dtype) and dtype.itemsize == 8 and dtypes.default_float() == np.float64
    )
    wanted = (
        np.dtype("float64" if wide else "float32")
        if real_in
        else np.dtype("complex128" if wide else "complex64")
    )
    if not axes:
        _norm_factor(norm, (), True, np.dtype(np.float32), name)  # ValueError for an unknown one
        return convert_weak(a, inexact(dtype) if real_in else wanted, False)
    if dtype != wanted and real_in:
        a = lax.convert_element_type(a, wanted)  # the transform itself makes numbers complex
    cut = dict(zip(axes, sizes, strict=True))
    if real_out:
        cut[axes[-1]] = sizes[-1] // 2 + 1
    if s is not None or typeof(a).shape[axes[-1]] != cut[axes[-1]]:
        a = _resize(a, cut)
    out = _along(a, kind, axes, tuple(sizes))
    real = np.zeros((), typeof(out).dtype).real.dtype
    factor = _norm_factor(norm, sizes, kind in (lax.FftType.FFT, lax.FftType.RFFT), real, name)
    return _scaled(out, factor)


def _scaled(out: Any, factor: Any) -> Any:
    """The transform times what `_norm_factor` found."""
    if factor is None:
        return out
    return lax.mul(out, lax.convert_element_type(factor, typeof(out).dtype))


def _along(a: Any, kind: lax.FftType, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    ndim = typeof(a).ndim
    last = tuple(range(ndim - len(axes), ndim))
    if len(axes) > 3:
        # The engine transforms up to three axes at once; the rest is done axis by axis (the real
        # one first or last).
        if kind == lax.FftType.RFFT:
            a = _along(a, kind, axes[-1:], sizes[-1:])
            return _along(a, lax.FftType.FFT, axes[:-1], sizes[:-1])
        if kind == lax.FftType.IRFFT:
            a = _along(a, lax.FftType.IFFT, axes[:-1], sizes[:-1])
            return _along(a, kind, axes[-1:], sizes[-1:])
        return _along(_along(a, kind, axes[-3:], sizes[-3:]), kind, axes[:-3], sizes[:-3])
    if axes == last:
        return lax.fft(a, kind, sizes)
    rest = tuple(k for k in range(ndim) if k not in axes)
    order = (*rest, *axes)
    out = lax.fft(lax.transpose(a, order), kind, sizes)
    return lax.transpose(out, tuple(order.index(k) for k in range(ndim)))


def fftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The Fourier transform along several axes (by default all), each cut or zero-padded to its
    size in `s`.

    Integers and floats become complex. `norm`: 'backward' (the default), 'ortho' or 'forward'.

    >>> jnp.fft.fftn(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", lax.FftType.FFT, a, s, axes, norm)


def ifftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`.

    The result is complex; `s`, `axes` and `norm` as for `fftn`.

    >>> jnp.fft.ifftn(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _transform("ifftn", lax.FftType.IFFT, a, s, axes, norm)


def rfftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The Fourier transform of real numbers along several axes; the last of them keeps its n // 2 +
    1 non-negative frequencies.

    >>> jnp.fft.rfftn(jnp.ones((2, 4))).shape
    (2, 3)
    """
    return _transform("rfftn", lax.FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Any:
    """The inverse of `rfftn`; the last size is even unless `s` says otherwise.

    The result is real; `axes` and `norm` as for `fftn`.

    >>> jnp.fft.irfftn(jnp.fft.rfftn(jnp.ones((2, 4))))
    Array([[1., 1., 1., 1.],
           [1., 1., 1., 1.]], dtype=float32)
    """
    return _transform("irfftn", lax.FftType.IRFFT, a, s, axes, norm)


def _check_one(name: str, axis: Any) -> None:
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use jax.numpy.fft.{name}n"
            f". Got axis = {axis!r}."
        )


def _one_axis(
    name: str, kind: lax.FftType, a: Any, n: int | None, axis: int, norm: str | None
) -> Any:
    _check_one(name, axis)
    axes = None if axis is None else (axis,)  # None: all of them, or the last, cut to n
    return _transform(name, kind, a, None if n is None else (n,), axes, norm)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform along one axis, cut or zero-padded to `n` elements. `norm`: "backward",
    "ortho", "forward".

    >>> pb.numpy.fft.fft(jnp.array([1., 0.]))
    Array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one_axis("fft", lax.FftType.FFT, a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`.

    The result is complex; `n` and `norm` as for `fft`.

    >>> jnp.fft.ifft(jnp.array([6.0, 0.0, 0.0]))
    Array([2.+0.j, 2.+0.j, 2.+0.j], dtype=complex64)
    """
    return _one_axis("ifft", lax.FftType.IFFT, a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform of real numbers along one axis: its n // 2 + 1 non-negative
    frequencies.

    Raises ValueError for complex input.

    >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 3.0, 4.0])).real
    Array([10., -2., -2.], dtype=float32)
    """
    return _one_axis("rfft", lax.FftType.RFFT, a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`, with `n` elements (even, unless given).

    The result is real; `n` and `norm` as for `fft`.

    >>> jnp.fft.irfft(jnp.array([10.0, -2.0 + 2.0j, -2.0]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _one_axis("irfft", lax.FftType.IRFFT, a, n, axis, norm)


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _opposite(norm: str | None) -> str:
    if norm not in _OPPOSITE:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return _OPPOSITE[norm]


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The (real) Fourier transform of a signal with Hermitian symmetry, given by its first half.

    The result has `n` elements, by default 2 (m - 1) for m given ones.

    >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    check_arraylike("jax.numpy.fft.hfft", a)
    _check_one("hfft", axis)
    return _one_axis("irfft", lax.FftType.IRFFT, complex_parts.conj(a), n, axis, _opposite(norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`.

    The result is complex, with n // 2 + 1 elements. ValueError for complex input.

    >>> jnp.fft.ihfft(jnp.array([8.0, -4.0, 0.0, -4.0])).real
    Array([0., 2., 4.], dtype=float32)
    """
    a = creation.asarray(a)
    _check_one("ihfft", axis)
    out = _one_axis("rfft", lax.FftType.RFFT, a, n, axis, None)
    size = typeof(a).shape[axis] if n is None else n
    real = np.zeros((), typeof(out).dtype).real.dtype
    factor = _norm_factor(norm, (size,), False, real, "ihfft")
    # The last scale is a complex number, as in JAX: the conjugates of zeros become positive.
    out = complex_parts.conj(_scaled(out, factor))
    return _scaled(out, 1 / creation.asarray(size, dtype=real))


def _two_axes(
    name: str, kind: lax.FftType, a: Any, s: Any, axes: Sequence[int], norm: str | None
) -> Any:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}.")
    return _transform(name, kind, a, s, axes, norm)


def fft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The Fourier transform along two axes.

    `s`: the sizes to which the axes are cut or zero-padded; `norm`: 'backward' (the default),
    'ortho' or 'forward'. ValueError for an array with fewer axes.

    >>> jnp.fft.fft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _two_axes("fft2", lax.FftType.FFT, a, s, axes, norm)


def ifft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft2`.

    The result is complex; `s` and `norm` as for `fft2`.

    >>> jnp.fft.ifft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _two_axes("ifft2", lax.FftType.IFFT, a, s, axes, norm)


def rfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The Fourier transform of real numbers along two axes.

    The last axis keeps its n // 2 + 1 non-negative frequencies; `s` and `norm` as for `fft2`.
    ValueError for complex input.

    >>> jnp.fft.rfft2(jnp.ones((4, 4))).shape
    (4, 3)
    """
    return _two_axes("rfft2", lax.FftType.RFFT, a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `rfft2`.

    The result is real; `s` and `norm` as for `fft2`.

    >>> jnp.fft.irfft2(jnp.fft.rfft2(jnp.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _two_axes("irfft2", lax.FftType.IRFFT, a, s, axes, norm)


def _size(n: Any) -> Any:
    """A number of samples; JAX takes floats too."""
    if isinstance(n, (list, tuple)):
        return 1  # refused by name in `_frequencies`
    return float(n) if isinstance(n, (float, np.floating)) else as_int(n, "n")


def _frequencies(name: str, n: Any, d: Any, dtype: Any, device: Any, size: Any, half: Any) -> Any:
    """Frequencies in the order of a transform's results, of which the first `size - half` are not
    negative. The places are counted by the program: as its constants they would make masks of
    them constants too, which products do not select by (docs/numerics.md)."""
    if isinstance(n, (list, tuple)):
        raise ValueError(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {list(n)}."
        )
    if isinstance(d, (list, tuple)):
        raise ValueError(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {list(d)}."
        )
    if isinstance(d, (str, bytes)):
        raise ValueError(f"jax.numpy.fft.{name}: could not convert string to float: d = {d!r}.")
    if d is None:
        raise TypeError(f"The d argument of jax.numpy.fft.{name} must be a number, got None.")
    if dtypes.is_complex(dtypes.result_type(d)):
        raise TypeError(f"The d argument of jax.numpy.fft.{name} must be real, got {d!r}.")
    kind = dtypes.default_float() if dtype is None else user_dtype(dtype, "arange")
    if name == "rfftfreq" and not dtypes.is_inexact(kind):
        if dtypes.is_bool(kind):
            raise TypeError("jnp.fft.rfftfreq: dtype must be a number's, got bool.")
        # Its quotients are floats, those of fftfreq are cut off.
        kind = dtypes.canonicalize_dtype(np.float64 if kind.itemsize == 8 else np.float32)
    wide = kind if dtypes.is_inexact(kind) else dtypes.default_float()
    if dtypes.is_complex(wide):
        wide = np.dtype("float64" if wide.itemsize == 16 else "float32")
    places = ranges.arange(size, dtype=wide)
    if half is not None:
        places = arithmetic.remainder(places + half, n) - half
    out = places / creation.asarray(d * n, wide)
    return creation.astype(out, kind, device=device)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the elements of `fft`'s result, in cycles per unit of the sample spacing
    `d`.

    >>> pb.numpy.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    count = _size(n)
    return _frequencies("fftfreq", n, d, dtype, device, count, count // 2)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the elements of `rfft`'s result.

    `n`: the size of the signal, `d`: the distance of its samples.

    >>> jnp.fft.rfftfreq(6, d=0.5)
    Array([0.        , 0.33333334, 0.6666667 , 1.        ], dtype=float32)
    """
    count = _size(n)
    last = count // 2 if count % 2 == 0 else (count - 1) // 2
    return _frequencies("rfftfreq", n, d, dtype, device, last + 1, None)


def _shift(name: str, x: Any, axes: Any, sign: int) -> Any:
    check_arraylike(name, x)
    x = creation.asarray(x)
    shape = typeof(x).shape
    if axes is None:
        axes = tuple(range(len(shape)))
    if isinstance(axes, (int, np.integer)):
        return manipulation.roll(
            x, shape[axes] // 2 if sign > 0 else -(shape[axes] // 2), int(axes)
        )
    amounts = tuple(shape[k] // 2 if sign > 0 else -(shape[k] // 2) for k in axes)
    return manipulation.roll(x, amounts, tuple(axes))


def fftshift(x: Any, axes: Any = None) -> Any:
    """Moves frequency 0 to the middle of the axes.

    `axes`: an int, a tuple, or None for all. Shape and dtype stay.

    >>> pb.numpy.fft.fftshift(jnp.arange(4))
    Array([2, 3, 0, 1], dtype=int32)
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`.

    `axes`: an int, a tuple, or None for all. Shape and dtype stay.

    >>> jnp.fft.ifftshift(jnp.array([-2, -1, 0, 1]))
    Array([ 0,  1, -2, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
