"""Bessel functions of any real order, and their derivatives: names that `scipy.special` has and JAX
lacks.

The values are SciPy's (Amos, "Algorithm 644", ACM Transactions on Mathematical Software 12, 1986),
asked for by a callback, in double precision whatever the dtype. Derivatives in the argument are the
recurrences between neighbouring orders (Abramowitz and Stegun 9.1.27, 9.6.26; NIST's Digital
Library of Mathematical Functions, 10.6 and 10.29), so that they are exact to any number of times.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, numpy as jnp
from ...control.custom_jvp import custom_jvp
from ...core.avals import ShapedArray, typeof
from ...core.symbolic import SymbolicZero, Zero
from ...lazy_imports import lazy_module
from ...primitives.callback import pure_callback
from .basic import real

host_special: Any = lazy_module("scipy.special")


def _on_host(name: str, v: Any, x: Any) -> Any:
    """SciPy's function of arrays, rounded once to their dtype."""
    dtype = typeof(x).dtype

    def call(v: Any, x: Any) -> Any:
        v, x = np.float64(v), np.float64(x)
        out = np.asarray(getattr(host_special, name)(v, x))
        return (_far_out(name, v, x, out) if name in _FAR_OUT else out).astype(dtype)

    v, x = jnp.broadcast_arrays(v, x)
    wanted = ShapedArray(typeof(x).shape, dtype)
    return pure_callback(call, wanted, v, x, vmap_method="broadcast_all")


# The scaled functions of large arguments, which Amos's code does not take: (the factor of
# x**-1/2, the sign of the series in (4 v**2 - 1) / 8 x) of Abramowitz and Stegun 9.7.1 and 9.7.2.
_FAR_OUT = {"ive": (1 / math.sqrt(2 * math.pi), -1), "kve": (math.sqrt(math.pi / 2), 1)}


def _far_out(name: str, v: Any, x: Any, out: Any) -> Any:
    """`out`, with values in place of NaN where x is so large that three terms are exact."""
    with np.errstate(all="ignore"):
        m = 4 * v * v
        lost = np.isnan(out) & (x > 1e8) & (m < 1e-4 * x)
        if not lost.any():
            return out
        factor, sign = _FAR_OUT[name]
        term = sign * (m - 1) / (8 * x)
        series = 1 + term * (1 + sign * (m - 9) / (16 * x))
        return np.where(lost, factor / np.sqrt(x) * series, out)


def _of_order(name: str, slope: Callable[[Any, Any, Any], Any]) -> Any:
    """The function with its derivative in x, which is `slope(order, x, value)`."""

    @custom_jvp
    def value(v: Any, x: Any) -> Any:
        return _on_host(name, v, x)

    def jvp(primals: Any, tangents: Any) -> Any:
        (v, x), (dv, dx) = primals, tangents
        if not isinstance(dv, SymbolicZero | Zero):
            raise ValueError(
                f"{name}: the derivative with respect to the order v is not available. "
                "Fix: keep v constant, for example with pullback.lax.stop_gradient(v)."
            )
        out = value(v, x)
        if isinstance(dx, SymbolicZero | Zero):
            return out, jnp.zeros_like(out)
        return out, jnp.broadcast_to(dx * slope(v, x, out), typeof(out).shape)

    value.defjvp(jvp, symbolic_zeros=True)
    return value


_jv: Any = _of_order("jv", lambda v, x, _: (_jv(v - 1, x) - _jv(v + 1, x)) / 2)
_yv: Any = _of_order("yv", lambda v, x, _: (_yv(v - 1, x) - _yv(v + 1, x)) / 2)
_iv: Any = _of_order("iv", lambda v, x, _: (_iv(v - 1, x) + _iv(v + 1, x)) / 2)
_kv: Any = _of_order("kv", lambda v, x, _: -(_kv(v - 1, x) + _kv(v + 1, x)) / 2)
_ive: Any = _of_order(
    "ive", lambda v, x, out: (_ive(v - 1, x) + _ive(v + 1, x)) / 2 - jnp.sign(x) * out
)
_kve: Any = _of_order(
    "kve", lambda v, x, out: _kve_slope(out, (_kve(v - 1, x) + _kve(v + 1, x)) / 2)
)


def _kve_slope(value: Any, fall: Any) -> Any:
    """value - fall; at 0, where both are infinite, the fall is steeper."""
    return jnp.where(jnp.isinf(fall), -fall, value - fall)


def _operands(name: str, v: Any, x: Any) -> list[Any]:
    v, x = real(name, v, x, error=TypeError)
    return [v, x]


def jv(v: Any, x: Any) -> Any:
    """The Bessel function of the first kind of real order v, at real x.

    v and x are broadcast. NaN at negative x unless v is an integer. Differentiable in x.

    >>> pb.scipy.special.jv(0, 1.)
    Array(0.7651977, dtype=float32)

    Raises TypeError for complex arguments, ValueError when differentiated in v.
    """
    return _jv(*_operands("jv", v, x))


def jve(v: Any, x: Any) -> Any:
    """`jv` scaled by exp(-|imag(x)|): at real x, `jv` itself.

    `v`, `x`: real arrays, broadcast against each other; the result is float. Differentiable in x.
    Raises TypeError for complex arguments, ValueError when differentiated in v.

    >>> from pullback.scipy import special
    >>> special.jve(0, 1.).round(4)
    Array(0.7652, dtype=float32)
    """
    return _jv(*_operands("jve", v, x))


def yv(v: Any, x: Any) -> Any:
    """The Bessel function of the second kind of real order v, at real x: -inf at 0, NaN below.

    >>> pb.scipy.special.yv(0, 1.)
    Array(0.08825696, dtype=float32)

    Raises TypeError for complex arguments, ValueError when differentiated in v.
    """
    return _yv(*_operands("yv", v, x))


def yve(v: Any, x: Any) -> Any:
    """`yv` scaled by exp(-|imag(x)|): at real x, `yv` itself.

    `v`, `x`: real arrays, broadcast against each other; the result is float. Differentiable in x.
    Raises TypeError for complex arguments, ValueError when differentiated in v.

    >>> from pullback.scipy import special
    >>> special.yve(0, 1.).round(4)
    Array(0.0883, dtype=float32)
    """
    return _yv(*_operands("yve", v, x))


def iv(v: Any, x: Any) -> Any:
    """The modified Bessel function of the first kind of real order v, at real x.

    >>> pb.scipy.special.iv(0.5, 1.)
    Array(0.9376749, dtype=float32)

    Raises TypeError for complex arguments, ValueError when differentiated in v.
    """
    return _iv(*_operands("iv", v, x))


def ive(v: Any, x: Any) -> Any:
    """exp(-|x|) iv(v, x), which does not overflow.

    `v`, `x`: real arrays, broadcast against each other; the result is float. Differentiable in x.
    Raises TypeError for complex arguments, ValueError when differentiated in v.

    >>> from pullback.scipy import special
    >>> special.ive(0.5, jnp.array([1., 1000.])).round(4)
    Array([0.345 , 0.0126], dtype=float32)
    """
    return _ive(*_operands("ive", v, x))


def kv(v: Any, x: Any) -> Any:
    """The modified Bessel function of the second kind of real order v, at real x: inf at 0, NaN
    below.

    >>> pb.scipy.special.kv(0.5, 1.)
    Array(0.4610685, dtype=float32)

    Raises TypeError for complex arguments, ValueError when differentiated in v.
    """
    return _kv(*_operands("kv", v, x))


def kve(v: Any, x: Any) -> Any:
    """exp(x) kv(v, x), which does not underflow.

    `v`, `x`: real arrays, broadcast against each other; the result is float. Differentiable in x.
    Raises TypeError for complex arguments, ValueError when differentiated in v.

    >>> from pullback.scipy import special
    >>> special.kve(0.5, jnp.array([1., 1000.])).round(4)
    Array([1.2533, 0.0396], dtype=float32)
    """
    return _kve(*_operands("kve", v, x))


def _derivative(name: str, f: Any, v: Any, z: Any, n: Any, sign: int, outer: int) -> Any:
    """The n-th derivative: outer**n sum_k (n over k) sign**k f(v - n + 2 k) / 2**n."""
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(
            f"{name}: n, how many times to differentiate, must be an int, got {n!r}"
        ) from None
    if n < 0:
        raise ValueError(f"{name}: n must not be negative, got n={n}")
    v, z = _operands(name, v, z)
    total = f(v - n, z)
    for k in range(1, n + 1):
        total = total + sign**k * math.comb(n, k) * f(v - n + 2 * k, z)
    return total * (outer**n / 2**n)


def jvp(v: Any, z: Any, n: int = 1) -> Any:
    """The n-th derivative of `jv` in its argument.

    >>> pb.scipy.special.jvp(0, 1.)
    Array(-0.44005057, dtype=float32)

    Raises TypeError unless n is an int, ValueError if it is negative.
    """
    return _derivative("jvp", _jv, v, z, n, -1, 1)


def yvp(v: Any, z: Any, n: int = 1) -> Any:
    """The n-th derivative of `yv` in its argument.

    Raises TypeError unless n is an int, ValueError if it is negative. As `scipy.special.yvp`.

    >>> from pullback.scipy import special
    >>> special.yvp(0, 1.).round(4)
    Array(0.7812, dtype=float32)
    """
    return _derivative("yvp", _yv, v, z, n, -1, 1)


def ivp(v: Any, z: Any, n: int = 1) -> Any:
    """The n-th derivative of `iv` in its argument.

    Raises TypeError unless n is an int, ValueError if it is negative. As `scipy.special.ivp`.

    >>> from pullback.scipy import special
    >>> special.ivp(0, 1.).round(4)
    Array(0.5652, dtype=float32)
    """
    return _derivative("ivp", _iv, v, z, n, 1, 1)


def kvp(v: Any, z: Any, n: int = 1) -> Any:
    """The n-th derivative of `kv` in its argument.

    Raises TypeError unless n is an int, ValueError if it is negative. As `scipy.special.kvp`.

    >>> from pullback.scipy import special
    >>> special.kvp(0, 1.).round(4)
    Array(-0.6019, dtype=float32)
    """
    return _derivative("kvp", _kv, v, z, n, 1, -1)


# What the examples show: the functions at 1, rounded.
_AT_ONE = {
    "j0": 0.7652,
    "j1": 0.4401,
    "y0": 0.0883,
    "y1": -0.7812,
    "k0": 0.421,
    "k1": 0.6019,
    "k0e": 1.1445,
    "k1e": 1.6362,
}


def _fixed_order(name: str, order: int, f: Any) -> Any:
    def function(x: Any) -> Any:
        (x,) = real(name, x, error=TypeError)
        return f(jnp.full((), order, dtypes.canonicalize_dtype(typeof(x).dtype)), x)

    function.__name__ = function.__qualname__ = name
    kind = {"j": "Bessel function of the first", "y": "Bessel function of the second"}.get(
        name[0], "modified Bessel function of the second"
    )
    scaled = ", times exp(x)" if name.endswith("e") else ""
    function.__doc__ = f"""The {kind} kind of order {order}{scaled}, at real x. Differentiable.

    `x`: a real array; the result is float, of its shape. Raises TypeError for complex numbers. As
    `scipy.special.{name}`.

    >>> pb.scipy.special.{name}(1.).round(4)
    Array({_AT_ONE[name]}, dtype=float32)
    """
    return function


j0, j1 = _fixed_order("j0", 0, _jv), _fixed_order("j1", 1, _jv)
y0, y1 = _fixed_order("y0", 0, _yv), _fixed_order("y1", 1, _yv)
k0, k1 = _fixed_order("k0", 0, _kv), _fixed_order("k1", 1, _kv)
k0e, k1e = _fixed_order("k0e", 0, _kve), _fixed_order("k1e", 1, _kve)
