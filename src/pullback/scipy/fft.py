"""Discrete cosine transforms."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax, numpy as jnp
from ..core.avals import typeof
from ..numpy.util import canonical_axis, promote_args_inexact, promotes_freely, static_axes
from ..primitives.common import as_int

__all__ = ["dct", "dctn", "idct", "idctn"]


def _checked(name: str, x: Any, type: int, norm: str | None) -> Any:
    if type != 2:
        raise NotImplementedError(
            f"Only DCT type 2 is implemented, got type={type} in "
            f"jax.scipy.fft.{name}. Fix: scipy.fft.{name}(x, type={type}) on the host, or write it "
            "with jnp.fft.fft."
        )
    if norm not in (None, "backward", "ortho"):
        raise ValueError(
            f"jax.scipy.fft.{name}: norm={norm!r} is not implemented; expected None, 'backward' or "
            "'ortho'"
        )
    out = jnp.asarray(promote_args_inexact(name, x)[0])
    # Complex numbers, which transforms are made of, have no half precision.
    half = typeof(out).dtype.itemsize < 4
    return out.astype(np.float32) if half else out


def _sized(x: Any, axis: int, n: int | None) -> Any:
    """The axis cut or zero-padded to n elements."""
    if n is None:
        return x
    have = typeof(x).shape[axis]
    if n < have:
        return x[(slice(None),) * axis + (slice(0, n),)]
    return jnp.pad(x, [(0, n - have if k == axis else 0) for k in range(typeof(x).ndim)])


def _along(values: Any, axis: int, ndim: int) -> Any:
    return jnp.reshape(values, [-1 if k == axis else 1 for k in range(ndim)])


def _phases(n: int, sign: int, dtype: Any) -> Any:
    kind = np.complex128 if dtype == np.float64 else np.complex64
    return jnp.asarray(np.exp(sign * 0.5j * np.pi * np.arange(n) / n).astype(kind))


def _by_parts(one: Any, x: Any, axis: int, norm: str | None) -> Any:
    return lax.complex(one(lax.real(x), axis, norm), one(lax.imag(x), axis, norm))


def _dct(x: Any, axis: int, norm: str | None) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return _by_parts(_dct, x, axis, norm)
    # A transform of length n of the even elements followed by the odd ones, backwards (Makhoul
    # 1980).
    n, ndim = typeof(x).shape[axis], typeof(x).ndim
    head = (slice(None),) * axis
    order = jnp.concatenate(
        [x[(*head, slice(None, None, 2))], lax.rev(x[(*head, slice(1, None, 2))], (axis,))],
        axis=axis,
    )
    spectrum = jnp.fft.fft(order, axis=axis)
    out = 2 * (spectrum * _along(_phases(n, -1, typeof(x).dtype), axis, ndim)).real
    if norm == "ortho":
        factor = np.full(n, 1 / math.sqrt(2 * n))
        factor[0] = 1 / math.sqrt(4 * n)
        out = out * _along(jnp.asarray(factor, dtype=typeof(out).dtype), axis, ndim)
    return out.astype(typeof(x).dtype)


def _idct(x: Any, axis: int, norm: str | None) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return _by_parts(_idct, x, axis, norm)
    n, ndim = typeof(x).shape[axis], typeof(x).ndim
    if norm == "ortho":
        factor = np.full(n, math.sqrt(2 * n))
        factor[0] = math.sqrt(4 * n)
        x = x * _along(jnp.asarray(factor, dtype=typeof(x).dtype), axis, ndim)
    head = (slice(None),) * axis
    mirrored = lax.rev(x[(*head, slice(1, None))], (axis,))
    mirrored = jnp.concatenate([jnp.zeros_like(x[(*head, slice(0, 1))]), mirrored], axis=axis)
    spectrum = 0.5 * (x - 1j * mirrored) * _along(_phases(n, 1, typeof(x).dtype), axis, ndim)
    order = jnp.fft.ifft(spectrum, axis=axis).real.astype(typeof(x).dtype)
    places = np.empty(n, np.int64)
    places[::2] = np.arange((n + 1) // 2)
    places[1::2] = np.arange(n - 1, (n + 1) // 2 - 1, -1)
    return order.at[(*head, places)].get(mode="promise_in_bounds")


@promotes_freely
def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """The cosine transform of type 2 along an axis, cut or zero-padded to n elements; norm None or
    "ortho".

    Raises NotImplementedError for other types.

    `x`: a real or complex array, as is the result. As `scipy.fft.dct`.

    >>> from pullback.scipy import fft
    >>> fft.dct(jnp.array([1., 1.])).round(3)
    Array([4., 0.], dtype=float32)
    """
    x = _checked("dct", x, type, norm)
    axis = canonical_axis(axis, typeof(x).ndim)
    if n is not None and as_int(n, "n") <= 0:
        raise ValueError(f"jax.scipy.fft.dct: invalid number of data points n={n}")
    return _dct(_sized(x, axis, n), axis, norm)


@promotes_freely
def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """The inverse of `dct`.

    `x`: a real or complex array, as is the result. Raises NotImplementedError for other types. As
    `scipy.fft.idct`.

    >>> from pullback.scipy import fft
    >>> fft.idct(jnp.array([4., 0.])).round(3)
    Array([1., 1.], dtype=float32)
    """
    x = _checked("idct", x, type, norm)
    axis = canonical_axis(axis, typeof(x).ndim)
    if n is not None and as_int(n, "n") <= 0:
        raise ValueError(f"jax.scipy.fft.idct: invalid number of data points n={n}")
    return _idct(_sized(x, axis, n), axis, norm)


def _many(name: str, given: Any, type: int, one: Any, s: Any, axes: Any, norm: str | None) -> Any:
    x = _checked(name, given, type, norm)
    ndim = typeof(x).ndim
    axes, s = ((v,) if isinstance(v, int) else v for v in map(static_axes, (axes, s)))
    if s is not None and len(s) > ndim:
        raise ValueError(f"s must have at most x.ndim ({ndim}) elements, got {len(s)}")
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    places = [canonical_axis(a, ndim) for a in axes]
    if len(set(places)) < len(places):
        raise ValueError(f"repeated axis: {axes}. Fix: name each axis once.")
    if not places:  # not even converted
        return jnp.asarray(given)
    if s is not None and any(operator.index(n) <= 0 for n in s):
        raise ValueError(f"jax.scipy.fft: invalid number of data points in s={s}")
    # Sizes without an axis, and axes without a size, are as if not given.
    sizes = () if s is None else map(operator.index, s)
    for axis, n in itertools.zip_longest(places, itertools.islice(sizes, len(places))):
        x = one(_sized(x, axis, n), axis, norm)
    return x


@promotes_freely
def dctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """The cosine transform of type 2 along several axes (by default all).

    `x`: a real array; `s`: the sizes that the axes are cut or padded to. Raises NotImplementedError
    for other types. As `scipy.fft.dctn`.

    >>> from pullback.scipy import fft
    >>> fft.dctn(jnp.ones((2, 2))).round(3)
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _many("dctn", x, type, _dct, s, axes, norm)


@promotes_freely
def idctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """The inverse of `dctn`.

    `x`: a real array; `s`: the sizes that the axes are cut or padded to. Raises NotImplementedError
    for other types. As `scipy.fft.idctn`.

    >>> from pullback.scipy import fft
    >>> fft.idctn(fft.dctn(jnp.ones((2, 2)))).round(3)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _many("idctn", x, type, _idct, s, axes, norm)
