"""Bessel functions."""

from __future__ import annotations

import functools
from typing import Any

from ... import lax, numpy as jnp
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...control.scan import scan
from ...core.avals import typeof
from ...numpy.util import promotes_freely
from ...primitives.common import as_int
from .basic import real


def i0e(x: Any) -> Any:
    """exp(-|x|) i0(x).

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.i0e`.

    >>> from pullback.scipy import special
    >>> special.i0e(jnp.array([0., 1.])).round(3)
    Array([1.   , 0.466], dtype=float32)
    """
    (x,) = real("i0e", x, error=TypeError)
    return lax.bessel_i0e(x)


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0.

    >>> pb.scipy.special.i0(0.)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = real("i0", x, error=TypeError)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def i1e(x: Any) -> Any:
    """exp(-|x|) i1(x).

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.i1e`.

    >>> from pullback.scipy import special
    >>> special.i1e(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.208], dtype=float32)
    """
    (x,) = real("i1e", x, error=TypeError)
    return lax.bessel_i1e(x)


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.i1`.

    >>> from pullback.scipy import special
    >>> special.i1(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.565], dtype=float32)
    """
    (x,) = real("i1", x, error=TypeError)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x))


def _shrink(z: Any, k: Any) -> Any:
    """min(1, |z| / (2 k))."""
    return jnp.minimum(jnp.abs(z) / (2 * k), 1)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
@promotes_freely
def _miller(z: Any, v: int, n_iter: int) -> Any:
    """J_0 ... J_v at z, along a new first axis."""
    zero = z == 0
    safe = jnp.where(zero, 1, z)

    def step(carry: Any, k: Any) -> Any:
        # J_{k-1} = (2 k / z) J_k - J_{k+1}; J_0 + 2 (J_2 + J_4 + ...) = 1 fixes the scale. Where
        # 2 k > |z|, J_{k-1} is about 2 k / |z| times J_k, which would overflow in a few dozen
        # steps: each step is taken together with this factor's inverse.
        after, here, total = carry
        shrink = _shrink(safe, k)
        before = 2 * k * (shrink / safe) * here - shrink * after
        total = shrink * total + jnp.where(jnp.remainder(k - 1, 2) == 0, 2 * before, 0)
        return (shrink * here, before, total), before

    orders = jnp.arange(n_iter, 0, -1).astype(typeof(z).dtype)
    (_, j0, total), values = scan(
        step, (lax.full_like(safe, 0), lax.full_like(safe, 1), lax.full_like(safe, 0)), orders
    )
    # What the steps below an order shrank by, it has not been multiplied by yet.
    later = [lax.full_like(safe, 1)]
    for k in range(1, v + 1):
        later.append(later[-1] * _shrink(safe, lax.full_like(safe, k)))
    values = values[::-1][: v + 1] * jnp.stack(later) / (total - j0)
    at_zero = jnp.arange(v + 1) == 0
    at_zero = jnp.reshape(at_zero, (v + 1,) + (1,) * typeof(z).ndim).astype(typeof(values).dtype)
    return jnp.where(zero, at_zero, values)


@promotes_freely
def _miller_jvp(v: int, n_iter: int, primals: Any, tangents: Any) -> Any:
    """J_k' = (J_{k-1} - J_{k+1}) / 2, where J_{-1} is -J_1 (Abramowitz and Stegun 9.1.27)."""
    wide = _miller(*primals, v + 1, max(n_iter, v + 1))
    below = jnp.concatenate([-wide[1:2], wide[:v]])
    return wide[:-1], tangents[0] * (below - wide[1:]) / 2


_miller.defjvp(_miller_jvp)


@functools.partial(jit, static_argnames=("v", "n_iter"))
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """The Bessel functions J_0 ... J_v of the first kind at z, shape (v + 1, *z.shape), by Miller's
    downward recurrence of n_iter steps; none at all for v = -1.

    Raises TypeError for complex z, ValueError for orders below -1 or above n_iter.

    >>> from pullback.scipy import special
    >>> special.bessel_jn(jnp.array([8.]), v=1).round(3)
    Array([[0.172],
           [0.235]], dtype=float32)
    """
    z = jnp.asarray(z)
    (z,) = real("bessel_jn", z, error=TypeError)
    v = as_int(v, "v")
    n_iter = as_int(n_iter, "n_iter")
    if v < -1:
        raise ValueError(f"bessel_jn: v={v} must be -1 or larger: the orders are 0 ... v")
    if v > n_iter:
        raise ValueError(f"bessel_jn: n_iter={n_iter} must exceed the order v={v}")
    return _miller(z, v, n_iter)
