"""Polynomials, as vectors of coefficients with the highest power first."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..control.scan import scan
from ..core.avals import typeof
from ..primitives.common import as_int
from . import (
    arithmetic,
    choosing,
    creation,
    cumulative,
    elementary,
    joining,
    linalg,
    manipulation,
    products,
    ranges,
    reductions,
    scalar_types,
    signals,
    sorting,
)
from .util import (
    as_complex,
    check_arraylike,
    concrete,
    ndim_of,
    promote_dtypes,
    promote_dtypes_inexact,
)


@functools.partial(jit, static_argnames=("unroll",))
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The value of the polynomial at `x`, by Horner's rule.

    `p`: coefficients, the highest power first; the result has the shape of `x`. `unroll`: steps of
    the loop written out at a time.

    >>> jnp.polyval(jnp.array([1., 0., -1.]), 3.)
    Array(8., dtype=float32)
    """
    check_arraylike("polyval", p, x)
    p, x = (creation.asarray(v) for v in promote_dtypes(p, x))
    shape = manipulation.broadcast_shapes(typeof(x).shape, typeof(p).shape[1:])
    start = creation.zeros(shape, typeof(x).dtype)
    return scan(lambda y, c: (y * x + c, ()), start, p, unroll=unroll)[0]


def _check_axes(name: str, *polynomials: Any) -> None:
    for p in polynomials:
        if not ndim_of(p):
            raise TypeError(
                f"{name}: a polynomial is an array of coefficients, got a scalar. "
                "Fix: jnp.atleast_1d(p)."
            )


@jit
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials.

    Vectors of coefficients, the highest power first; the shorter one is padded in front.

    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([3, 0, 0]))
    Array([3, 1, 2], dtype=int32)
    """
    check_arraylike("polyadd", a1, a2)
    a1, a2 = (creation.asarray(v) for v in promote_dtypes(a1, a2))
    for position, a in enumerate((a1, a2)):
        if not typeof(a).ndim:
            raise IndexError(
                "polyadd: a polynomial is an array of coefficients, got a scalar at position "
                f"{position}. Fix: jnp.atleast_1d(p)."
            )
    if typeof(a2).shape[0] > typeof(a1).shape[0]:
        a1, a2 = a2, a1
    n, m = typeof(a1).shape[0], typeof(a2).shape[0]
    return a1.at[n - m :].add(a2) if m else a1


@jit
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials.

    Vectors of coefficients, the highest power first; the shorter one is padded in front.

    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([3, 0, 0]))
    Array([-3,  1,  2], dtype=int32)
    """
    check_arraylike("polysub", a1, a2)
    a1, a2 = (creation.asarray(v) for v in promote_dtypes(a1, a2))
    return polyadd(a1, -a2)


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials; `trim_leading_zeros` (not under jit) drops zeros in front.

    >>> jnp.polymul(jnp.array([1, 1]), jnp.array([1, -1]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    check_arraylike("polymul", a1, a2)
    _check_axes("polymul", a1, a2)
    a1, a2 = (creation.asarray(v) for v in promote_dtypes_inexact(a1, a2))
    if trim_leading_zeros and (typeof(a1).shape[0] > 1 or typeof(a2).shape[0] > 1):
        a1, a2 = joining.trim_zeros(a1, "f"), joining.trim_zeros(a2, "f")
    zero = creation.zeros(1, typeof(a1).dtype)
    a1 = a1 if typeof(a1).shape[0] else zero
    a2 = a2 if typeof(a2).shape[0] else zero
    return signals.convolve(a1, a2, mode="full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """(quotient, remainder) of two polynomials; `trim_leading_zeros` (not under jit) drops zeros in
    front of the remainder.

    >>> jnp.polydiv(jnp.array([1.0, 0.0, -1.0]), jnp.array([1.0, 1.0]))
    (Array([ 1., -1.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    check_arraylike("polydiv", u, v)
    _check_axes("polydiv", u, v)
    u, v = (creation.asarray(w) for w in promote_dtypes_inexact(u, v))
    m, n = typeof(u).shape[0] - 1, typeof(v).shape[0] - 1
    scale = 1.0 / v[0]
    quotient = creation.zeros(max(m - n + 1, 1), typeof(u).dtype)
    for k in range(m - n + 1):
        d = scale * u[k]
        quotient = quotient.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    if trim_leading_zeros:
        # What rounding left of a zero is one too.
        host = np.asarray(concrete(u, "trim_leading_zeros of jnp.polydiv needs a concrete value."))
        small = np.abs(host) <= np.sqrt(float(dtypes.finfo(typeof(u).dtype).eps))
        u = u[len(small) if small.all() else int(np.argmin(small)) :]
    return quotient, u


@functools.partial(jit, static_argnames=("m",))
def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative.

    Raises ValueError if m is negative.

    >>> jnp.polyder(jnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    check_arraylike("polyder", p)
    _check_axes("polyder", p)
    m = as_int(m, "m")
    (p,) = (creation.asarray(v) for v in promote_dtypes_inexact(p))
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    n = typeof(p).shape[0]
    left = max(n - m, 0)
    factors = np.ones(left)
    for k in range(m):
        factors *= np.arange(left, 0, -1) + m - 1 - k
    return p[:-m] * creation.asarray(factors, typeof(p).dtype)


@functools.partial(jit, static_argnames=("m",))
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th integral, with integration constants `k`.

    Raises ValueError if m is negative or there are not m constants.

    >>> jnp.polyint(jnp.array([3, 2, 1]))
    Array([1., 1., 1., 0.], dtype=float32)
    """
    m = as_int(m, "m")
    k = 0 if k is None else k
    check_arraylike("polyint", p, k)
    _check_axes("polyint", p)
    p, k = (creation.asarray(v) for v in promote_dtypes_inexact(p, k))
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = manipulation.atleast_1d(k)
    if typeof(k).shape[0] == 1:
        k = creation.full((m,), k[0])
    if typeof(k).shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    n = typeof(p).shape[0]
    grid = np.arange(n + m)[None, :] - np.arange(m)[:, None]
    factors = np.maximum(1, grid).prod(0)[::-1]
    return joining.concatenate([p, k]) / creation.asarray(factors, typeof(p).dtype)


@jit
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with these zeros, or the characteristic polynomial of a
    square matrix.

    >>> jnp.poly(jnp.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    check_arraylike("poly", seq_of_zeros)
    (zeros,) = (creation.asarray(v) for v in promote_dtypes_inexact(seq_of_zeros))
    zeros = manipulation.atleast_1d(zeros)
    shape = typeof(zeros).shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros = linalg.eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    dtype = typeof(zeros).dtype
    if not typeof(zeros).shape[0]:
        return creation.ones((), dtype)
    out = creation.ones((1,), dtype)
    one = out
    for k in range(typeof(zeros).shape[0]):
        out = signals.convolve(out, joining.concatenate([one, -zeros[k : k + 1]]), mode="full")
    return out


def _polyfit(
    x: Any, y: Any, deg: int, rcond: Any, full: bool, w: Any, cov: Any, has_w: bool
) -> Any:
    order = deg + 1
    lhs, rhs = ranges.vander(x, order), y
    if has_w:
        lhs = lhs * w[:, None]
        rhs = rhs * (w[:, None] if typeof(rhs).ndim == 2 else w)
    scale = elementary.sqrt((lhs * lhs).sum(axis=0))
    lhs = lhs / scale[None, :]
    c, resids, rank, s = linalg.lstsq(lhs, rhs, rcond)
    c = (c.T / (scale if typeof(c).ndim == 1 else scale[None, :])).T
    if full:
        return c, resids, rank, s, rcond
    if not cov:
        return c
    base = linalg.inv(products.dot(lhs.T, lhs)) / products.outer(scale, scale)
    if cov == "unscaled":
        factor: Any = 1
    else:
        n = typeof(x).shape[0]
        if n <= order:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance matrix"
            )
        factor = resids / (n - order)
        factor = manipulation.squeeze(factor) if typeof(y).ndim == 1 else factor
    if typeof(y).ndim == 1:
        return c, base * factor
    return c, base[:, :, None] * (factor if isinstance(factor, int) else factor[None, None, :])


_polyfit.__name__ = "polyfit"
_polyfit_jit = jit(_polyfit, static_argnames=("full", "cov", "deg", "has_w"))


def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool = False,
) -> Any:
    """The polynomial of this degree that fits the points best, in least squares; `w` weighs the
    residuals.

    `full`: (coefficients, residuals, rank, singular values, rcond); `cov`: (coefficients, their
    covariance).

    Raises TypeError for vectors that do not fit, ValueError for a negative degree.

    >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
    >>> jnp.polyfit(x, 2 * x + 1, 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    check_arraylike("polyfit", x, y) if w is None else check_arraylike("polyfit", x, y, w)
    deg = int(deg) if isinstance(deg, float) else as_int(deg, "deg")
    x, y = (creation.asarray(v) + 0.0 for v in (x, y))
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if typeof(x).ndim != 1:
        raise TypeError("expected 1D vector for x")
    if typeof(x).shape[0] == 0:
        raise TypeError("expected non-empty vector for x")
    if typeof(y).ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if typeof(x).shape[0] != typeof(y).shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = typeof(x).shape[0] * float(scalar_types.finfo(typeof(x).dtype).eps)
    if w is not None:
        (w,) = (creation.asarray(v) for v in promote_dtypes_inexact(w))
        w = w + 0.0
        if typeof(w).ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if typeof(w).shape[0] != typeof(y).shape[0]:
            raise TypeError("expected w and y to have the same length")
    return _polyfit_jit(
        x, y, deg, rcond, full, creation.zeros(0) if w is None else w, cov, w is not None
    )


@jit
def _companion_roots(p: Any) -> Any:
    n = typeof(p).shape[0]
    if n < 2:
        return creation.zeros((0,), as_complex(typeof(p).dtype))
    matrix = products.diag(creation.ones((n - 2,), typeof(p).dtype), -1)
    matrix = matrix.at[0, :].set(-p[1:] / p[0])
    return linalg.eigvals(matrix)


@jit
def _roots_padded(p: Any) -> Any:
    """Leading zeros move behind, as roots that are NaN; trailing zeros are roots 0 by
    themselves.
    """
    n = typeof(p).shape[0]
    leading = reductions.sum(cumulative.cumsum(p != 0) == 0)
    found = _companion_roots(manipulation.roll(p, -leading))
    # The roll appended as many roots 0 as there were leading zeros: zeros go last.
    found = found[sorting.argsort(found == 0)]
    nothing = complex(np.nan, np.nan)
    return choosing.where(ranges.arange(n - 1) < n - 1 - leading, found, nothing)


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The zeros of a polynomial, complex. Under jit use strip_zeros=False, which leaves NaN for the
    zeros of missing leading terms.

    Raises ValueError unless p has one axis.

    >>> jnp.sort(jnp.roots(jnp.array([1.0, 0.0, -4.0])).real).round(3)
    Array([-2.,  2.], dtype=float32)
    """
    check_arraylike("roots", p)
    (p,) = (creation.asarray(v) for v in promote_dtypes_inexact(p))
    p = manipulation.atleast_1d(p)
    if typeof(p).ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    n = typeof(p).shape[0]
    if n < 2:
        return creation.zeros((0,), as_complex(typeof(p).dtype))
    if not strip_zeros:
        return _roots_padded(p)
    value = concrete(
        p,
        "The error occurred in the jnp.roots() function. To use this within a JIT-compiled "
        "context, pass strip_zeros=False, but be aware that leading zeros will be result in "
        "some returned roots being set to NaN.",
    )
    host = np.asarray(value)
    held = np.flatnonzero(host)
    if not held.size:
        return creation.zeros((0,), as_complex(typeof(p).dtype))
    return _companion_roots(creation.asarray(p[held[0] :] if value is not p else host[held[0] :]))


# --- windows ---
def _count(M: Any) -> int:
    count = int(concrete(M, "The size of a window must be static."))
    if count < 0:
        raise TypeError(f"The number of points of a window must be nonnegative, got M={M}.")
    return count


def _window(M: int, values: Any) -> Any:
    kind = dtypes.default_float()
    if M <= 1:
        return creation.ones((M,), kind)
    return values(lax.iota(kind, M))


def bartlett(M: int) -> Any:
    """The triangular window of M points.

    >>> jnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    M = _count(M)
    return _window(M, lambda n: 1 - arithmetic.abs(2 * n + 1 - M) / (M - 1))


def blackman(M: int) -> Any:
    """The Blackman window of M points.

    >>> jnp.blackman(5).round(3)
    Array([-0.  ,  0.34,  1.  ,  0.34, -0.  ], dtype=float32)
    """
    M = _count(M)
    return _window(
        M,
        lambda n: (
            0.42
            - 0.5 * elementary.cos(2 * np.pi * n / (M - 1))
            + 0.08 * elementary.cos(4 * np.pi * n / (M - 1))
        ),
    )


def hamming(M: int) -> Any:
    """The Hamming window of M points.

    >>> jnp.hamming(5).round(3)
    Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    M = _count(M)
    return _window(M, lambda n: 0.54 - 0.46 * elementary.cos(2 * np.pi * n / (M - 1)))


def hanning(M: int) -> Any:
    """The Hann window of M points.

    >>> jnp.hanning(5).round(3)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    M = _count(M)
    return _window(M, lambda n: 0.5 * (1 - elementary.cos(2 * np.pi * n / (M - 1))))


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of M points and shape `beta`.

    >>> jnp.kaiser(5, 3.0).round(3)
    Array([0.205, 0.727, 1.   , 0.727, 0.205], dtype=float32)
    """
    M = _count(M)
    middle = 0.5 * (M - 1)
    return _window(
        M,
        lambda n: (
            _i0(beta * elementary.sqrt(1 - ((n - middle) / middle) ** 2))
            / _i0(creation.asarray(creation.asarray(beta), dtypes.default_float()))
        ),
    )


def _i0(x: Any) -> Any:
    return elementary.exp(arithmetic.abs(x)) * lax.bessel_i0e(x)


__all__ = [
    "bartlett",
    "blackman",
    "hamming",
    "hanning",
    "kaiser",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]
