"""Associated Legendre functions of the first kind, by their recurrences in the degree."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

from ... import numpy as jnp
from ...api.derivatives import jvp
from ...api.jit import jit
from ...core.avals import typeof
from ...numpy.util import promote_args_inexact, promotes_freely, shown_as


def _check(name: str, m: int, n: int, z: Any) -> Any:
    z = jnp.asarray(z)
    if z.ndim != 1:
        raise ValueError(f"{name}: z must be a 1D array, got shape {z.shape}.")
    if m != n:
        raise NotImplementedError(
            f"Computations for m!=n are not yet supported. {name} was given {m} and "
            f"{n}. Fix: {name}(n, n, z), and take the orders up to m."
        )
    (z,) = promote_args_inexact(name, z)
    return z


def _table(columns: list[list[Any]], z: Any) -> Any:
    """Rows are orders, columns degrees; zero where the order is above the degree."""
    zero = jnp.zeros_like(z)
    count = len(columns)
    return jnp.stack([jnp.stack([zero] * m + columns[m][: count - m]) for m in range(count)])


def _polynomials(n: int, z: Any) -> Any:
    """P_l^m over (1 - z^2)^(m/2), with the Condon-Shortley phase: (-1)^m (2m - 1)!! for l = m, and
    (l - m) P_l = (2l - 1) z P_(l-1) - (l + m - 1) P_(l-2).
    """
    columns = []
    for m in range(n + 1):
        start = jnp.full_like(z, (-1.0) ** m * math.prod(range(1, 2 * m, 2)))
        line = [start, (2 * m + 1) * z * start]
        for degree in range(m + 2, n + 1):
            upper = (2 * degree - 1) * z * line[-1] - (degree + m - 1) * line[-2]
            line.append(upper / (degree - m))
        columns.append(line)
    return _table(columns, z)


def _powers(n: int, z: Any) -> Any:
    """(1 - z^2)^(m/2), an order a row."""
    root = 1 - z * z
    rows = [jnp.ones_like(z)] + [jnp.power(root, m / 2) for m in range(1, n + 1)]
    return jnp.stack(rows)[:, None]


def _normalized(n: int, z: Any) -> Any:
    """The same times sqrt((2l + 1) (l - m)! / (4 pi (l + m)!)), with recurrences of its own: they
    stay in range for high degrees.
    """
    columns = []
    start = jnp.full_like(z, math.sqrt(1 / (4 * math.pi)))
    root = jnp.sqrt(1 - z * z)
    for m in range(n + 1):
        if m:
            start = -math.sqrt((2 * m + 1) / (2 * m)) * root * start
        line = [start, math.sqrt(2 * m + 3) * z * start]
        for degree in range(m + 2, n + 1):
            a = math.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = math.sqrt(((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1))
            line.append(a * (z * line[-1] - b * line[-2]))
        columns.append(line)
    return _table(columns, z)


def _real(values: Any, z: Any) -> Any:
    """The values that are real beyond [-1, 1]: those of order 0. The others are NaN there; from n =
    2, as in JAX, those of degrees below the order, too.
    """
    count = typeof(values).shape[0]
    lost = jnp.arange(count)[:, None, None] > 0
    if count == 2:
        lost = lost & (jnp.arange(count)[:, None] > 0)
    return jnp.where(lost & (jnp.abs(z) > 1), jnp.nan, values)


def _outside(n: int) -> Any:
    """Where the order is above the degree."""
    return jnp.tri(n + 1, k=-1, dtype=bool)[..., None]


@functools.partial(jit, static_argnums=(0, 2))
@shown_as("_gen_associated_legendre")
def _values(n: int, z: Any, normalized: bool) -> Any:
    if normalized:
        return _real(_normalized(n, z), z)
    return _real(jnp.where(_outside(n), 0, _powers(n, z) * _polynomials(n, z)), z)


@functools.partial(jit, static_argnums=0)
@shown_as("_gen_derivatives")
def _slopes(n: int, z: Any) -> Any:
    one = (jnp.ones_like(z),)
    p, dp = jvp(lambda z: _polynomials(n, z), (z,), one)
    w, dw = jvp(lambda z: _powers(n, z), (z,), one)
    # At +-1 the power's slope may be infinite where there is no function (p = 0).
    slopes = _real(w * dp + jnp.where(p == 0, 0, dw * p), z)
    return jnp.where(_outside(n), 0, slopes)


def _warn_deprecated(name: str) -> None:
    warnings.warn(
        f"jax.scipy.special.{name} is deprecated; no replacement is planned.",
        DeprecationWarning,
        stacklevel=4,  # the caller of what `promotes_freely` wraps
    )


@promotes_freely
def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """(values, derivatives) of the associated Legendre functions of orders 0 ... m and degrees
    0 ... n at z, of one axis, each of shape (m + 1, n + 1, len(z)); m must be n. Beyond [-1, 1]
    orders from 1 are NaN.

    >>> pb.scipy.special.lpmn(1, 1, jnp.array([0.5]))[0][..., 0]
    Array([[ 1.       ,  0.5      ],
           [ 0.       , -0.8660254]], dtype=float32)
    """
    z = _check("lpmn", m, n, z)
    _warn_deprecated("lpmn")
    return _values(n, z, False), _slopes(n, z)


@promotes_freely
def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """The values of `lpmn`; with `is_normalized`, those of spherical harmonics without their
    azimuthal factor.

    `z`: (k,), floats in [-1, 1] (beyond, orders from 1 are NaN); the result is (m + 1, n + 1, k).

    >>> from pullback.scipy import special
    >>> special.lpmn_values(1, 1, jnp.array([0.5]), False)[..., 0].round(3)
    Array([[ 1.   ,  0.5  ],
           [ 0.   , -0.866]], dtype=float32)
    """
    z = _check("lpmn_values", m, n, z)
    _warn_deprecated("lpmn_values")
    return _values(n, z, bool(is_normalized))


__all__ = ["lpmn", "lpmn_values"]
