"""Hypergeometric functions and spherical harmonics."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...control.scan import scan
from ...control.while_loop import while_loop
from ...core.avals import typeof
from ...numpy.util import promotes_freely, shown_as
from .basic import inexact, known, real
from .gammas import gamma, gammasgn


def _series(ratio: Any, x: Any) -> Any:
    """1 + r(0) x + r(0) r(1) x^2 + ..., with `ratio(k)` the k-th ratio of coefficients; stops at
    the precision or after 4000 terms.
    """
    eps = float(jnp.finfo(typeof(x).dtype).eps)

    def running(loop: Any) -> Any:
        k, active, _, _ = loop
        return (k < 4000) & jnp.any(active)

    def body(loop: Any) -> Any:
        k, active, term, total = loop
        # A term of 0 ends a polynomial, also where a later ratio is infinite.
        new = jnp.where(term == 0, 0, term * ratio(k.astype(typeof(x).dtype)) * x)
        # Two zero terms in a row would be needed to miss a growing series; small steps at the start
        # are not the end.
        more = (jnp.abs(new) > eps * jnp.abs(total) * 0.1) & jnp.isfinite(new)
        return (
            k + 1,
            active & (more | (k < 8)),
            jnp.where(active, new, term),
            jnp.where(active, total + new, total),
        )

    start = (
        jnp.array(0, np.int32),
        jnp.ones(typeof(x).shape, bool),
        lax.full_like(x, 1),
        lax.full_like(x, 1),
    )
    return while_loop(running, body, start)[3]


@jit
@shown_as("hyp1f1")
def _hyp1f1_value(a: Any, b: Any, x: Any) -> Any:
    # Kummer's transformation makes the terms positive for negative x.
    negative = x < 0
    a1, x1 = jnp.where(negative, b - a, a), jnp.abs(x)
    far = x1 > 100
    near_x = jnp.where(far, 1, x1)
    near = _series(lambda k: (a1 + k) / ((b + k) * (k + 1)), near_x)
    # Beyond 100: Gamma(b) / Gamma(a) e^x x^(a - b) (1 + (1 - a)(b - a) / x + ...).
    far_x = jnp.where(far, x1, 101)
    term, total = lax.full_like(x1, 1), lax.full_like(x1, 1)
    for k in range(12):
        term = term * (1 - a1 + k) * (b - a1 + k) / ((k + 1) * far_x)
        total = total + term
    sign = gammasgn(b) * gammasgn(a1)
    shift = jnp.where(negative, 0, far_x)
    scale = jnp.exp(lax.lgamma(b) - lax.lgamma(a1) + shift + (a1 - b) * jnp.log(far_x))
    beyond = sign * scale * total
    near = jnp.where(negative, jnp.exp(-near_x) * near, near)
    out = jnp.where(far, beyond, near)
    return jnp.where(x == 0, 1, out)


def _array(x: Any) -> Any:
    """A list as an array: these two functions take lists, as in JAX."""
    return jnp.asarray(x) if isinstance(x, list | tuple) else x


@custom_jvp
def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Kummer's confluent hypergeometric function 1F1(a; b; x).

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.hyp1f1`.

    >>> from pullback.scipy import special
    >>> special.hyp1f1(1., 1., 1.).round(3)
    Array(2.718, dtype=float32)
    """
    a, b, x = jnp.broadcast_arrays(*real("hyp1f1", *map(_array, (a, b, x))))
    return _hyp1f1_value(a, b, x)


def _by_difference(f: Any, v: Any) -> Any:
    """df/dv by central differences: parameters have no closed derivative."""
    v = jnp.asarray(v)
    step = float(jnp.finfo(typeof(v).dtype).eps) ** (1 / 3) * jnp.maximum(jnp.abs(v), 1)
    return (f(v + step) - f(v - step)) / (2 * step)


@hyp1f1.defjvp
def _hyp1f1_jvp(primals: Any, tangents: Any) -> Any:
    a, b, x = jnp.broadcast_arrays(*real("hyp1f1", *primals))
    ta, tb, tx = tangents
    out = hyp1f1(a, b, x)
    change = _by_difference(lambda v: hyp1f1(v, b, x), a) * ta
    change = change + _by_difference(lambda v: hyp1f1(a, v, x), b) * tb
    return out, (change + a / b * hyp1f1(a + 1, b + 1, x) * tx).astype(typeof(out).dtype)


@jit
@shown_as("hyp2f1")
def _hyp2f1_value(a: Any, b: Any, c: Any, x: Any) -> Any:
    # Pfaff's transformation for x < 0, Euler's series below 0.9, the transformation to 1 - x above.
    negative = x < 0
    y = jnp.where(negative, x / (x - 1), x)
    b1 = jnp.where(negative, c - b, b)
    one, beyond = y == 1, y > 1
    inner = jnp.where(one | beyond, 0.5, y)
    excess = c - a - b1
    whole = excess == jnp.round(excess)
    near_one = (inner > 0.9) & ~whole
    direct_x = jnp.where(near_one, 0.5, inner)
    direct = _series(lambda k: (a + k) * (b1 + k) / ((c + k) * (k + 1)), direct_x)
    z = jnp.where(near_one, 1 - inner, 0.1)
    e = jnp.where(near_one, excess, 0.5)
    first = _series(lambda k: (a + k) * (b1 + k) / ((1 - e + k) * (k + 1)), z)
    second = _series(lambda k: (c - a + k) * (c - b1 + k) / ((1 + e + k) * (k + 1)), z)
    g1 = gamma(c) * gamma(e) * _reciprocal_gamma(c - a) * _reciprocal_gamma(c - b1)
    g2 = gamma(c) * gamma(-e) * _reciprocal_gamma(a) * _reciprocal_gamma(b1)
    turned = g1 * first + z**e * g2 * second
    out = jnp.where(near_one, turned, direct)
    at_one = (
        gamma(c)
        * gamma(jnp.where(excess > 0, excess, 1))
        * _reciprocal_gamma(c - a)
        * _reciprocal_gamma(c - b1)
    )
    out = jnp.where(one, jnp.where(excess > 0, at_one, np.inf), out)
    out = jnp.where(beyond, np.inf, out)
    out = jnp.where(negative, (1 - x) ** (-a) * out, out)
    return _hyp2f1_finite(a, b, c, x, out)


def _hyp2f1_finite(a: Any, b: Any, c: Any, x: Any, out: Any) -> Any:
    """`out`, but where the series ends: at a or b of 0, -1, -2, ... it is a polynomial, which has
    values beyond 1, too; at such a c it has none, unless it ended before.
    """
    degree = jnp.minimum(_degree(a), _degree(b))
    last = _degree(c)
    ends = degree < last
    whole = ends & ((jnp.abs(x) > 0.9) | (last < np.inf))

    def ratio(k: Any) -> Any:
        above = (a + k) * (b + k)
        return jnp.where(above == 0, 0, above / jnp.where(above == 0, 1, (c + k) * (k + 1)))

    polynomial = _series(ratio, jnp.where(whole, x, 0))
    out = jnp.where(whole, polynomial, out)
    power = jnp.where(a == c, b, a)  # of 1 - x, where the other parameter and c are one
    as_power = (x > 1) & ((a == c) | (b == c)) & (power == jnp.round(power))
    out = jnp.where(as_power, jnp.where(as_power, 1 - x, 1) ** -power, out)
    out = jnp.where((last < np.inf) & ~ends | (c == 0), np.inf, out)
    return jnp.where(x == 0, 1, out)


def _degree(a: Any) -> Any:
    """n where `a` is -n, else infinity."""
    return jnp.where((a <= 0) & (a == jnp.floor(a)), -a, np.inf)


def _reciprocal_gamma(x: Any) -> Any:
    pole = (x <= 0) & (x == jnp.floor(x))
    return jnp.where(pole, 0, 1 / gamma(jnp.where(pole, 1, x)))


@custom_jvp
def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Gauss's hypergeometric function 2F1(a, b; c; x), x up to 1 (inf beyond).

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.hyp2f1`.

    >>> from pullback.scipy import special
    >>> special.hyp2f1(1., 1., 2., 0.5).round(3)
    Array(1.386, dtype=float32)
    """
    a, b, c, x = jnp.broadcast_arrays(*real("hyp2f1", *map(_array, (a, b, c, x)), error=TypeError))
    return _hyp2f1_value(a, b, c, x)


@hyp2f1.defjvp
def _hyp2f1_jvp(primals: Any, tangents: Any) -> Any:
    a, b, c, x = jnp.broadcast_arrays(*real("hyp2f1", *primals, error=TypeError))
    ta, tb, tc, tx = tangents
    out = hyp2f1(a, b, c, x)
    change = _by_difference(lambda v: hyp2f1(v, b, c, x), a) * ta
    change = change + _by_difference(lambda v: hyp2f1(a, v, c, x), b) * tb
    change = change + _by_difference(lambda v: hyp2f1(a, b, v, x), c) * tc
    return out, (change + a * b / c * hyp2f1(a + 1, b + 1, c + 1, x) * tx).astype(typeof(out).dtype)


# --- spherical harmonics ---
@functools.partial(jit, static_argnums=0)
@shown_as("_gen_associated_legendre")
def _legendre_table(n_max: int, z: Any) -> Any:
    """The associated Legendre functions P_l^m(z) for 0 <= m <= l <= n_max, orthonormal over the
    sphere: shape (m, l, *z.shape).
    """
    size = n_max + 1
    root = jnp.sqrt(jnp.maximum(1 - z * z, 0))
    start = lax.full_like(z, np.sqrt(1 / (4 * np.pi)))

    def diagonal(p: Any, m: Any) -> Any:
        new = -jnp.sqrt((2 * m + 1) / (2 * m)) * root * p
        return new, new

    orders = jnp.arange(1, size).astype(typeof(z).dtype)
    _, rest = scan(diagonal, start, orders)
    seeds = jnp.concatenate([start[None], rest]) if n_max else start[None]
    m = jnp.arange(size).astype(typeof(z).dtype)
    m = jnp.reshape(m, (size,) + (1,) * typeof(z).ndim)

    def climb(carry: Any, level: Any) -> Any:
        # P_l^m from the two degrees below it; P_m^m is its seed, degrees below m are 0.
        below2, below1 = carry
        gap = jnp.maximum(level * level - m * m, 1)
        a = jnp.sqrt((4 * level * level - 1) / gap)
        b = jnp.sqrt(
            jnp.maximum((level - 1) ** 2 - m * m, 0) / jnp.maximum(4 * (level - 1) ** 2 - 1, 1)
        )
        new = jnp.where(m == level, seeds, jnp.where(m < level, a * (z * below1 - b * below2), 0))
        return (below1, new), new

    zero = jnp.zeros_like(seeds)
    _, levels = scan(climb, (zero, zero), jnp.arange(size).astype(typeof(z).dtype))
    return jnp.moveaxis(levels, 0, 1)


def sph_harm_y(
    n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None
) -> Any:
    """The spherical harmonic of degree n and order m at polar angle theta and azimuth phi, complex;
    vectors of one length.

    `n_max` bounds the degrees (needed under jit). Raises NotImplementedError for `diff_n`.

    `n`, `m`: integers, `theta`, `phi`: real, of shape (k,), as is the result. As
    `scipy.special.sph_harm_y`.

    >>> from pullback.scipy import special
    >>> zero = jnp.array([0.])
    >>> special.sph_harm_y(jnp.array([0]), jnp.array([0]), zero, zero, n_max=0).real.round(3)
    Array([0.282], dtype=float32)
    """
    if diff_n is not None:
        raise NotImplementedError(
            "sph_harm_y: diff_n is not supported. Fix: differentiate with grad or jacfwd."
        )
    n, m = jnp.asarray(n), jnp.asarray(m)
    theta, phi = inexact("sph_harm_y", theta, phi)
    if n_max is None:
        n_max = known(lambda n: int(np.max(n)), n, "n, without n_max,", "sph_harm_y")
    n, m, theta, phi = jnp.broadcast_arrays(n, m, theta, phi)
    return _sph_harm(n, m, theta, phi, int(n_max))


@functools.partial(jit, static_argnums=4)
@promotes_freely
def _sph_harm(n: Any, m: Any, theta: Any, phi: Any, n_max: int) -> Any:
    shape = typeof(theta).shape
    n, m, theta, phi = (jnp.ravel(v) for v in (n, m, theta, phi))
    table = _legendre_table(n_max, jnp.cos(theta))
    order = jnp.abs(m)
    value = table[order, n, jnp.arange(typeof(n).shape[0])]
    angle = order.astype(typeof(phi).dtype) * phi
    out = lax.complex(value * jnp.cos(angle), value * jnp.sin(angle))
    flipped = jnp.conj(out) * jnp.where(jnp.remainder(order, 2) == 1, -1, 1)
    out = jnp.where(m < 0, flipped, out).astype(dtypes.canonicalize_dtype(np.complex128))
    return jnp.reshape(out, shape)
