"""Exponential, sine, cosine and Fresnel integrals, the Faddeeva function and what it gives, Owen's
T.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...control.while_loop import fori_loop, while_loop
from ...core.avals import typeof
from ...dtypes import default_float
from ...numpy.util import check_arraylike, promotes_freely, shown_as, to_type
from .basic import _ndtr, horner, inexact, real, together

_STEPS = 500
_EULER = 0.5772156649015328606


def _converge(step: Any, state: Any, done_shape: Any) -> Any:
    """Repeats state, change = step(k, state) until every change is below the precision, or 500
    times.
    """

    def running(loop: Any) -> Any:
        k, active, _ = loop
        return (k < _STEPS) & jnp.any(active)

    def body(loop: Any) -> Any:
        k, active, held = loop
        new, more = step(k.astype(done_shape.dtype), held)
        new = tuple(jnp.where(active, a, b) for a, b in zip(new, held, strict=True))
        return k + 1, active & more, new

    return while_loop(
        running, body, (jnp.array(1, np.int32), jnp.ones(done_shape.shape, bool), state)
    )[2]


def _eps(x: Any) -> float:
    return float(jnp.finfo(typeof(x).dtype).eps)


def _widened(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of half floats, computed in float32: sums would be rounded at each term."""

    def wide(*args: Any) -> Any:
        dtype = typeof(args[-1]).dtype
        if dtype.itemsize >= 4:
            return f(*args)
        return f(*(x.astype(np.float32) for x in args)).astype(dtype)

    return functools.wraps(f)(wide)


# --- exponential integrals ---
def _e1_series(x: Any) -> Any:
    """E1(x) = -euler - log(x) - sum of (-x)^k / (k k!), for x up to 1."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        term = -term * x / k
        part = term / k
        return (term, total + part), jnp.abs(part) > _eps(x) * jnp.abs(total) * 0.25

    _, total = _converge(step, (lax.full_like(x, 1), lax.full_like(x, 0)), typeof(x))
    return -_EULER - jnp.log(x) - total


def _en_fraction(n: Any, x: Any) -> Any:
    """exp(x) E_n(x) by its continued fraction, for x from 1: from the last of as many terms as
    x = 1 needs, so that what is rounded on the way is divided away again.
    """
    terms = 120 if typeof(x).dtype == np.float64 else 24

    def step(k: Any, tail: Any) -> Any:
        after = lax.convert_element_type(terms - k, typeof(x).dtype)  # an int without jit
        return x + n + 2 * (after - 1) - after * (n - 1 + after) / tail

    return 1 / fori_loop(0, terms, step, x + n + 2 * terms)


def _ei_series(x: Any) -> Any:
    """Ei(x) = euler + log(x) + sum of x^k / (k k!), for x up to about 40."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        term = term * x / k
        part = term / k
        return (term, total + part), part > _eps(x) * total * 0.25

    _, total = _converge(step, (lax.full_like(x, 1), lax.full_like(x, 0)), typeof(x))
    return _EULER + jnp.log(x) + total


def _ei_asymptotic(x: Any) -> Any:
    """Ei(x) = exp(x) / x * (1 + 1!/x + 2!/x^2 + ...), for large x."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        new = term * k / x
        return (new, total + new), (new > _eps(x) * total) & (k < x)

    _, total = _converge(step, (lax.full_like(x, 1), lax.full_like(x, 1)), typeof(x))
    # exp(x / 2) twice: the result can be finite where exp(x) is not.
    half = jnp.exp(x / 2)
    return half / x * total * half


@jit
@shown_as("_piecewise")
def _e1_pieces(x: Any) -> Any:
    """E1 of positive numbers."""
    small = _e1_series(jnp.where(x <= 1, x, 0.5))
    middle = jnp.where(x > 1, x, 2)
    return jnp.where(x <= 1, small, jnp.exp(-middle) * _en_fraction(lax.full_like(x, 1), middle))


@jit
@shown_as("expn")
@promotes_freely
@_widened
def _e1_value(x: Any) -> Any:
    usual = (x > 0) & (x < np.inf)
    out = jnp.where(usual, _e1_pieces(jnp.where(usual, x, 2)), jnp.where(x == 0, np.inf, 0))
    return jnp.where((x < 0) | jnp.isnan(x), np.nan, out)


@jit
@shown_as("_piecewise")
def _ei_pieces(x: Any) -> Any:
    """Ei of finite numbers but 0."""
    limit = 40.0
    below = -_e1_value(jnp.where(x < 0, -x, 2))
    near = _ei_series(jnp.where((x > 0) & (x <= limit), x, 1))
    far = _ei_asymptotic(jnp.where(x > limit, x, 2 * limit))
    return jnp.where(x < 0, below, jnp.where(x <= limit, near, far))


@jit
@shown_as("expi")
@promotes_freely
@_widened
def _expi_value(x: Any) -> Any:
    zero, endless = x == 0, jnp.isinf(x)
    out = _ei_pieces(jnp.where(zero | endless | jnp.isnan(x), 1, x))
    out = jnp.where(zero, -np.inf, out)
    out = jnp.where(endless, jnp.where(x < 0, 0, np.inf), out)
    return jnp.where(jnp.isnan(x), x, out)


@custom_jvp
def expi(x: Any) -> Any:
    """The exponential integral, the integral of exp(t) / t from -inf to x.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.expi`.

    >>> from pullback.scipy import special
    >>> special.expi(jnp.array([0., 1.])).round(3)
    Array([ -inf, 1.895], dtype=float32)
    """
    (x,) = real("expi", x)
    return _expi_value(x)


expi.defjvps(lambda t, out, x: t * jnp.exp(x) / x)


def exp1(x: Any) -> Any:
    """The integral of exp(-t) / t from x to inf, for x >= 0 (NaN below).

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.exp1`.

    >>> from pullback.scipy import special
    >>> special.exp1(jnp.array([0., 1.])).round(3)
    Array([  inf, 0.219], dtype=float32)
    """
    (x,) = real("exp1", x)
    return _e1(x)


_e1 = custom_jvp(_e1_value)
_e1.defjvps(lambda t, out, x: t * jnp.where(x < 0, np.nan, -jnp.exp(-x) / x))


def _expn_series(n: Any, x: Any) -> Any:
    """E_n(x), x up to 1: (-x)^(n-1)/(n-1)! (psi(n) - log x) - sum over k != n - 1 of (-x)^k / ((k -
    n + 1) k!).
    """
    safe_n = jnp.maximum(n, 1)
    psi = lax.digamma(safe_n)
    sign = jnp.where(jnp.remainder(n - 1, 2) == 0, 1, -1)
    head = sign * jnp.exp((safe_n - 1) * jnp.log(x) - lax.lgamma(safe_n)) * (psi - jnp.log(x))
    first = jnp.where(n == 1, 0, -1 / jnp.where(n == 1, 1, 1 - n))

    def step(k: Any, state: Any) -> Any:
        term, total = state
        term = -term * x / k
        skip = k == n - 1
        part = jnp.where(skip, 0, -term / jnp.where(skip, 1, k - n + 1))
        return (term, total + part), (jnp.abs(term) > _eps(x) * 0.25) | (k < n)

    _, total = _converge(step, (lax.full_like(x, 1), first), typeof(x))
    return head + total


@jit
@shown_as("_piecewise")
def _en_pieces(n: Any, x: Any) -> Any:
    """E_n of positive numbers."""
    series = _expn_series(jnp.where(x <= 1, n, 1), jnp.where(x <= 1, x, 0.5))
    middle = jnp.where(x > 1, x, 2)
    return jnp.where(x <= 1, series, jnp.exp(-middle) * _en_fraction(n, middle))


@jit
@shown_as("expn")
@promotes_freely
@_widened
def _expn_value(n: Any, x: Any) -> Any:
    # The series is of integers n from 0; the fraction and the value at 0 are of every n.
    orders = (n >= 0) & (n == jnp.floor(n))
    wrong = (x < 0) | jnp.isnan(x) | jnp.isnan(n) | ((x > 0) & (x <= 1) & ~orders)
    edge = wrong | (x == 0) | jnp.isinf(x) | (n == 0)
    out = _en_pieces(jnp.where(edge, 1, n), jnp.where(edge, 1, x))
    out = jnp.where(n == 0, jnp.exp(-x) / x, out)
    out = jnp.where(x == 0, jnp.where(n <= 1, np.inf, 1 / jnp.where(n == 1, 1, n - 1)), out)
    out = jnp.where(jnp.isinf(x), 0, out)
    return jnp.where(wrong, np.nan, out)


@custom_jvp
def expn(n: Any, x: Any) -> Any:
    """The generalised exponential integral, the integral of exp(-x t) / t^n from 1 to inf, for
    integers n.

    `n`: integers, `x`: a real array; they broadcast against each other, the result is float. As
    `scipy.special.expn`.

    >>> from pullback.scipy import special
    >>> special.expn(2, jnp.array([0., 1.])).round(3)
    Array([1.   , 0.148], dtype=float32)
    """
    n, x = jnp.broadcast_arrays(*real("expn", n, x))
    return _expn_value(n, x)


@expn.defjvp
@promotes_freely
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    n, x = primals
    out = expn(n, x)
    slope = -expn(jnp.asarray(n) - 1, x)
    tangent, dtype = tangents[1], typeof(slope).dtype
    if typeof(tangent).dtype != dtype:
        tangent = lax.convert_element_type(tangent, dtype)
    # Not promoted any further: cotangents are then as strongly typed as the slope.
    return out, lax.mul(jnp.broadcast_to(tangent, typeof(slope).shape), slope)


# --- the Faddeeva function ---
@functools.lru_cache(maxsize=2)
def _weideman(count: int) -> tuple[float, np.ndarray[Any, Any]]:
    """The scale and coefficients of Weideman's rational expansion (SIAM J. Numer. Anal. 31,
    1994).
    """
    m = 2 * count
    scale = np.sqrt(count / np.sqrt(2))
    theta = np.arange(-m + 1, m) * np.pi / m
    t = scale * np.tan(theta / 2)
    f = np.concatenate([[0.0], np.exp(-(t**2)) * (scale**2 + t**2)])
    a = np.real(np.fft.fft(np.fft.fftshift(f))) / (2 * m)
    return float(scale), np.flipud(a[1 : count + 1])


def _faddeeva_upper(z: Any) -> Any:
    """w(z) for z in the upper half plane."""
    scale, coefficients = _weideman(44 if typeof(z).dtype == np.complex128 else 24)
    iz = 1j * z
    denominator = scale - iz
    ratio = (scale + iz) / denominator
    p = horner(coefficients.tolist(), ratio)
    return 2 * p / (denominator * denominator) + (1 / np.sqrt(np.pi)) / denominator


@functools.partial(jit, inline=True)
@promotes_freely
def _wofz_value(z: Any) -> Any:
    below = z.imag < 0
    w = _faddeeva_upper(jnp.where(below, -z, z))
    return jnp.where(below, 2 * jnp.exp(-z * z) - w, w)


@custom_jvp
def _wofz(z: Any) -> Any:
    return _wofz_value(z)


_wofz.defjvps(lambda t, out, z: t * (-2 * z * out + 2j / np.sqrt(np.pi)))


def wofz(z: Any) -> Any:
    """The Faddeeva function exp(-z^2) erfc(-i z), complex.

    `z`: a real or complex array. As `scipy.special.wofz`.

    >>> from pullback.scipy import special
    >>> special.wofz(jnp.array([0., 1.])).round(3)
    Array([1.   +0.j   , 0.368+0.607j], dtype=complex64)
    """
    check_arraylike("wofz", z)
    z = jnp.asarray(z)
    own = typeof(z).dtype
    narrow = own.itemsize <= 4 or own == np.complex64
    kind = np.complex64 if narrow else np.complex128
    return _wofz(z.astype(kind)).astype(kind)


def _complex_of(x: Any, re: Any, im: Any) -> Any:
    return lax.complex(jnp.broadcast_to(re, typeof(x).shape), jnp.broadcast_to(im, typeof(x).shape))


@custom_jvp
@promotes_freely
def _erfcx(x: Any) -> Any:
    wide = typeof(x).dtype if typeof(x).dtype.itemsize >= 4 else np.dtype(np.float32)
    y = x.astype(wide)
    size = jnp.abs(y)
    finite = jnp.where(jnp.isinf(size), 0, size)
    w = _faddeeva_upper(_complex_of(finite, lax.full_like(finite, 0), finite)).real
    w = jnp.where(jnp.isinf(size), 0, w)
    return jnp.where(y < 0, 2 * jnp.exp(y * y) - w, w).astype(typeof(x).dtype)


_erfcx.defjvps(lambda t, out, x: t * (2 * x * out - 2 / np.sqrt(np.pi)))


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x), without overflow for large x; complex x too.

    `x`: a real or complex array; the result is float or complex, of its shape. As
    `scipy.special.erfcx`.

    >>> from pullback.scipy import special
    >>> special.erfcx(jnp.array([0., 100.])).round(4)
    Array([1.    , 0.0056], dtype=float32)
    """
    (x,) = inexact("erfcx", x)
    return wofz(1j * x) if dtypes.is_complex(typeof(x).dtype) else _erfcx(x)


@custom_jvp
@promotes_freely
def _dawsn(x: Any) -> Any:
    wide = typeof(x).dtype if typeof(x).dtype.itemsize >= 4 else np.dtype(np.float32)
    y = x.astype(wide)
    endless = jnp.abs(y) > 1e10
    held = jnp.where(endless, 1, y)
    far = _faddeeva_upper(_complex_of(held, held, lax.full_like(y, 0))).imag
    far = jnp.where(endless, 0.5 / y, far * (np.sqrt(np.pi) / 2))
    # Near 0, where the expansion's absolute error shows: x (1 - 2/3 x^2 + 4/15 x^4 - ...), each
    # term -2 x^2 / (2 k + 1) of the last.
    small = jnp.where(jnp.abs(y) < 0.5, y, 0)
    terms, c = [1.0], 1.0
    for k in range(1, 14):
        c *= -2.0 / (2 * k + 1)
        terms.append(c)
    near = small * horner(terms[::-1], small * small)
    return jnp.where(jnp.abs(y) < 0.5, near, far).astype(typeof(x).dtype)


_dawsn.defjvps(lambda t, out, x: t * (1 - 2 * x * out))


def dawsn(x: Any) -> Any:
    """Dawson's integral, exp(-x^2) times the integral of exp(t^2) from 0 to x.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.dawsn`.

    >>> from pullback.scipy import special
    >>> special.dawsn(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.538], dtype=float32)
    """
    (x,) = real("dawsn", x)
    return _dawsn(x)


# --- Fresnel, sine and cosine integrals ---
def _in_single(f: Any, x: Any) -> tuple[Any, Any]:
    """A pair of functions of a half float, computed in float32: complex numbers have no half."""
    dtype = typeof(x).dtype
    first, second = f(x.astype(np.float32) if dtype.itemsize < 4 else x)
    return first.astype(dtype), second.astype(dtype)


@jit
@shown_as("sincospisquaredhalf")
def _turned(x: Any) -> tuple[Any, Any]:
    """The sine and cosine of pi x^2 / 2, for x from 0: of x^2 modulo 4, by its parts."""
    whole = jnp.floor(x)
    part = x - whole
    turns = jnp.fmod(jnp.fmod(whole, 4) ** 2, 4) + jnp.fmod(2 * whole * part, 4) + part * part
    phase = np.pi / 2 * jnp.fmod(turns, 4)
    return jnp.sin(phase), jnp.cos(phase)


@functools.partial(jit, inline=True)
@promotes_freely
def _fresnel_value(x: Any) -> tuple[Any, Any]:
    # Beyond this the oscillation is below the precision.
    size = jnp.abs(x)
    size = jnp.where(size > 4 / jnp.finfo(typeof(x).dtype).eps, np.inf, size)
    near_x = jnp.where(size < 1, size, 0)
    t = (np.pi / 2 * near_x * near_x) ** 2
    s_terms, c_terms, factorial = [], [], 1.0
    for k in range(12):
        c_terms.append((-1) ** k / (factorial * (4 * k + 1)))
        s_terms.append((-1) ** k / (factorial * (2 * k + 1) * (4 * k + 3)))
        factorial *= (2 * k + 1) * (2 * k + 2)
    c_near = near_x * horner(c_terms[::-1], t)
    s_near = near_x**3 * (np.pi / 2) * horner(s_terms[::-1], t)
    far_x = jnp.where((size >= 1) & ~jnp.isinf(size), size, 1)
    root = np.sqrt(np.pi) / 2
    w = _faddeeva_upper(_complex_of(far_x, root * far_x, root * far_x))
    sine, cosine = _turned(far_x)
    decay = _complex_of(far_x, cosine, sine) * w
    both = (0.5 + 0.5j) * (1 - decay)
    s = jnp.where(size < 1, s_near, both.imag)
    c = jnp.where(size < 1, c_near, both.real)
    s, c = (jnp.where(jnp.isinf(size), 0.5, jnp.where(jnp.isnan(size), np.nan, v)) for v in (s, c))
    sign = jnp.where(x < 0, -1, 1)
    return (sign * s).astype(typeof(x).dtype), (sign * c).astype(typeof(x).dtype)


@custom_jvp
def fresnel(x: Any) -> tuple[Any, Any]:
    """The Fresnel integrals (S, C): of sin(pi t^2 / 2) and of cos(pi t^2 / 2) from 0 to x.

    `x`: a real array; the results are float, of its shape. As `scipy.special.fresnel`.

    >>> from pullback.scipy import special
    >>> special.fresnel(jnp.array([0., 1.]))[1].round(3)
    Array([0.  , 0.78], dtype=float32)
    """
    (x,) = real("fresnel", x, error=NotImplementedError)
    return _in_single(_fresnel_value, x)


@fresnel.defjvp
@promotes_freely
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    sine, cosine = _turned(jnp.abs(x))
    return fresnel(x), (sine * t, cosine * t)


@jit
@shown_as("sici")
@promotes_freely
def _sici_value(x: Any) -> tuple[Any, Any]:
    size = jnp.abs(x)
    near_x = jnp.where((size <= 4) & (size > 0), size, 1)
    t = near_x * near_x
    s_terms, c_terms, factorial = [], [], 1.0
    for k in range(24):
        s_terms.append((-1) ** k / (factorial * (2 * k + 1)))
        factorial *= 2 * k + 2
        c_terms.append((-1) ** (k + 1) / (factorial * (2 * k + 2)))
        factorial *= 2 * k + 3
    si_near = near_x * horner(s_terms[::-1], t)
    ci_near = _EULER + jnp.log(near_x) + t * horner(c_terms[::-1], t)
    far_x = jnp.where((size > 4) & ~jnp.isinf(size), size, 5)
    # E1(i x) by its continued fraction: Ci = -Re, Si = pi/2 + Im.
    one = _complex_of(far_x, lax.full_like(far_x, 1), lax.full_like(far_x, 0))
    b = _complex_of(far_x, lax.full_like(far_x, 1), far_x)

    def step(k: Any, state: Any) -> Any:
        b, c, d, h = state
        a = -k * k
        b = b + 2
        d = 1 / (a * d + b)
        c = b + a / c
        change = c * d
        return (b, c, d, h * change), jnp.abs(change - 1) > _eps(far_x)

    h = _converge(step, (b, one * 1e30, 1 / b, 1 / b), typeof(far_x))[3]
    e1 = h * _complex_of(far_x, jnp.cos(far_x), -jnp.sin(far_x))
    si = jnp.where(size <= 4, si_near, np.pi / 2 + e1.imag)
    ci = jnp.where(size <= 4, ci_near, -e1.real)
    si = jnp.where(size == 0, 0, jnp.where(jnp.isinf(size), np.pi / 2, si))
    ci = jnp.where(size == 0, -np.inf, jnp.where(jnp.isinf(size), 0, ci))
    sign = jnp.where(x < 0, -1, 1)
    bad = jnp.isnan(x)
    return (
        jnp.where(bad, np.nan, sign * si).astype(typeof(x).dtype),
        jnp.where(bad | (x == -np.inf), np.nan, ci).astype(typeof(x).dtype),
    )


@custom_jvp
def sici(x: Any) -> tuple[Any, Any]:
    """The sine and cosine integrals (Si, Ci); below 0, the real part of Ci.

    `x`: a real array; the results are float, of its shape. As `scipy.special.sici`.

    >>> from pullback.scipy import special
    >>> special.sici(1.)[0].round(3)
    Array(0.946, dtype=float32)
    """
    (x,) = inexact("sici", x)
    if dtypes.is_complex(typeof(x).dtype):
        raise ValueError(
            f"Argument `x` to sici must be real-valued. Got dtype {typeof(x).dtype.name}."
        )
    return _in_single(_sici_value, x)


@sici.defjvp
@promotes_freely
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return sici(x), (jnp.sinc(x / np.pi) * t, jnp.cos(x) / x * t)


# --- Owen's T ---
@custom_jvp
@functools.partial(jit, inline=True)
@promotes_freely
def _owens_t(h: Any, a: Any) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(48)
    size_h, size_a = jnp.abs(h), jnp.abs(a)
    inside = size_a <= 1
    ah = size_a * size_h
    h1 = jnp.where(inside, size_h, ah)
    a1 = jnp.where(inside, size_a, 1 / jnp.where(inside, 1, size_a))
    total = lax.full_like(h1, 0)
    # Beyond |x| = 8 / h the integrand is below the precision.
    upper = jnp.minimum(a1, 8 / jnp.maximum(h1, 1e-6))
    for node, weight in zip(nodes, weights, strict=True):
        x = upper * (0.5 * (float(node) + 1))
        total = total + float(weight) * 0.5 * jnp.exp(-0.5 * h1 * h1 * (1 + x * x)) / (1 + x * x)
    value = total * upper / (2 * np.pi)
    p, q = _ndtr(size_h), _ndtr(ah)
    # For |a| > 1: T(h, a) = (P(h) + P(ah)) / 2 - P(h) P(ah) - T(ah, 1/a), written with upper tails.
    cp, cq = _ndtr(-size_h), _ndtr(-ah)
    beyond = 0.5 * (p * cq + q * cp) - value
    out = jnp.where(inside, value, jnp.where(jnp.isinf(size_a), 0.5 * cp, beyond))
    return jnp.where(a < 0, -out, out)


def _owens_t_by_h(t: Any, out: Any, h: Any, a: Any) -> Any:
    scale = -1 / (2 * float(np.sqrt(2 * np.pi)))
    return t * (scale * jnp.exp(-0.5 * h * h) * lax.erf(a * h * float(np.sqrt(0.5))))


def _owens_t_by_a(t: Any, out: Any, h: Any, a: Any) -> Any:
    square = 1 + a * a
    return t * (jnp.exp(-0.5 * h * h * square) / (2 * np.pi * square))


# Of the integral, not of the sum: an infinite `a` has slopes.
_owens_t.defjvps(_owens_t_by_h, _owens_t_by_a)


def owens_t(h: Any, a: Any) -> Any:
    """Owen's T function, the probability that a standard normal X > h and 0 < Y < a X.

    Arguments are real arrays, broadcast against one another; the result has the default float type.
    As `scipy.special.owens_t`.

    >>> from pullback.scipy import special
    >>> special.owens_t(0., 1.).round(3)
    Array(0.125, dtype=float32)
    """
    wide = default_float()
    h, a = together("owens_t", *(to_type(x, wide, False) for x in real("owens_t", h, a)))
    return _owens_t(h, a)
