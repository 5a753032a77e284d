"""Integration of samples, of functions, and of differential equations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp, tree
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..numpy.util import promote_dtypes_inexact
from . import runge_kutta
from .quadrature import quad

__all__ = [
    "OdeResult",
    "cumulative_trapezoid",
    "odeint",
    "quad",
    "simpson",
    "solve_ivp",
    "trapezoid",
]


# --- samples ---
@functools.partial(jit, static_argnames=("axis",))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples along `axis` by the trapezoidal rule, at the points `x` or with
    spacing `dx`.

    >>> pb.scipy.integrate.trapezoid(jnp.array([0., 1., 2.]))
    Array(2., dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)


def _spacings(name: str, y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """(samples, spacings), the integrated axis last; the spacings broadcast."""
    if x is None:
        y, dx = (jnp.asarray(v) for v in promote_dtypes_inexact(y, dx))
        y = jnp.moveaxis(y, axis, -1)
        return y, jnp.broadcast_to(dx, (typeof(y).shape[-1] - 1,))
    y, x = (jnp.asarray(v) for v in promote_dtypes_inexact(y, x))
    y = jnp.moveaxis(y, axis, -1)
    x = jnp.moveaxis(x, axis, -1) if typeof(x).ndim > 1 else x
    if typeof(x).shape[-1] != typeof(y).shape[-1]:
        raise ValueError(
            f"{name}: x of shape {typeof(x).shape} does not have as many points along the axis as "
            f"y has samples, {typeof(y).shape[-1]}"
        )
    return y, jnp.diff(x, axis=-1)


@functools.partial(jit, static_argnames=("axis",))
def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The running integral of samples by the trapezoidal rule, one element shorter than y along
    `axis`; of y's length if `initial` (0) is put before it.

    >>> pb.scipy.integrate.cumulative_trapezoid(jnp.array([0., 1., 2.]), initial=0)
    Array([0. , 0.5, 2. ], dtype=float32)

    Raises ValueError if x has another number of points.
    """
    y, d = _spacings("cumulative_trapezoid", y, x, dx, axis)
    out = jnp.cumsum(d * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    if initial is not None:
        first = jnp.broadcast_to(jnp.asarray(initial), (*typeof(out).shape[:-1], 1))
        out = jnp.concatenate([first.astype(typeof(out).dtype), out], axis=-1)
    return jnp.moveaxis(out, -1, axis)


@functools.partial(jit, static_argnames=("axis",))
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples along `axis` by Simpson's rule, at the points `x` or with spacing
    `dx`.

    With an even number of samples the last interval is Cartwright's ("Simpson's rule cumulative
    integration with MS Excel and irregularly-spaced data", 2017), as in SciPy.

    >>> pb.scipy.integrate.simpson(jnp.array([0., 1., 4.]))
    Array(2.6666667, dtype=float32)
    """
    y, d = _spacings("simpson", y, x, dx, axis)
    n = typeof(y).shape[-1]
    if n < 3:
        return jnp.sum(d * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    odd = n if n % 2 else n - 1
    a, b = d[..., 0 : odd - 1 : 2], d[..., 1 : odd - 1 : 2]
    y0, y1, y2 = y[..., 0 : odd - 2 : 2], y[..., 1 : odd - 1 : 2], y[..., 2:odd:2]
    total = a + b
    ratio = a / jnp.where(b == 0, 1, b)
    safe = jnp.where(a == 0, 1, a)
    parts = y0 * (2 - b / safe) + y1 * total * total / (safe * jnp.where(b == 0, 1, b))
    out = jnp.sum(total / 6 * (parts + y2 * (2 - ratio)), axis=-1)
    if n % 2:
        return out
    h0, h1 = d[..., -2], d[..., -1]
    all_ = jnp.where(h0 + h1 == 0, 1, h0 + h1)
    s0 = jnp.where(h0 == 0, 1, h0)
    end = (2 * h1 * h1 + 3 * h0 * h1) / (6 * all_) * y[..., -1]
    middle = (h1 * h1 + 3 * h0 * h1) / (6 * s0) * y[..., -2]
    before = h1**3 / (6 * s0 * all_) * y[..., -3]
    return out + end + middle - before


# --- differential equations ---
def _inexact(x: Any) -> Any:
    return jnp.asarray(promote_dtypes_inexact(jnp.asarray(x))[0])


def _check_tolerances(name: str, rtol: Any, atol: Any) -> None:
    if rtol < 0 or atol < 0 or (rtol == 0 and atol == 0):
        raise ValueError(
            f"{name}: rtol and atol must not be negative, nor both 0: got rtol={rtol}, atol={atol}"
        )


def _check_monotone(name: str, argument: str, times: Any) -> None:
    """ValueError for times that go back and forth, if they are known while Python runs."""
    if isinstance(times, Tracer):
        return
    steps = np.diff(np.asarray(times))
    if np.any(steps > 0) and np.any(steps < 0):
        raise ValueError(
            f"{name}: the times {argument} must increase or decrease (they may repeat), got {times}"
        )


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    *,
    tfirst: bool = False,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    hmax: float = np.inf,
    mxstep: int | float = np.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args), y(t[0]) = y0, at the times t, which increase or
    decrease; with `tfirst`, func(t, y, *args).

    The steps are adaptive (Dormand and Prince's method of order 5). y0: a tree of arrays (integers
    become floats); the result has an axis of time before each of its arrays' axes. Times may be
    repeated. `hmax` bounds a step, `mxstep` the steps between two times (NaN beyond).
    Differentiable in reverse mode in y0, t, `args` and what func closes over, by the adjoint
    equation.

    >>> pb.scipy.integrate.odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]))
    Array([1.        , 0.367879...], dtype=float32)

    Raises TypeError for times that are not a vector of real numbers, ValueError for times that
    neither increase nor decrease and for negative tolerances.
    """
    args = args if isinstance(args, tuple) else (args,)
    t = _inexact(t)
    if typeof(t).ndim != 1 or typeof(t).shape[0] < 1:
        raise TypeError(f"odeint: t must be a vector of times, got shape {typeof(t).shape}")
    _check_tolerances("odeint", rtol, atol)
    _check_monotone("odeint", "t", t)
    y0 = tree.map(_inexact, y0)
    # Backwards in time is forwards in -t.
    way = lax.stop_gradient(jnp.where(t[-1] < t[0], -1, 1)).astype(typeof(t).dtype)

    def slope(y: Any, s: Any, way: Any, *args: Any) -> Any:
        now = way * s
        value = func(now, y, *args) if tfirst else func(y, now, *args)
        return runge_kutta.scaled(way, value)

    return runge_kutta.odeint(
        slope, y0, t * way, way, *args, rtol=rtol, atol=atol, hmax=hmax, mxstep=mxstep
    )


class OdeResult(NamedTuple):
    """The result of `solve_ivp`: the times, the solution with an axis of time last, whether it
    reached the end, and a status (0, or -1 if not).

    A pytree; as the object that `scipy.integrate.solve_ivp` returns.

    >>> from pullback.scipy import integrate
    >>> result = integrate.solve_ivp(lambda t, y: -y, (0., 1.), jnp.array([1.]))
    >>> result.success, result.status
    (Array(True, dtype=bool), Array(0, dtype=int32, weak_type=True))
    """

    t: Any
    y: Any
    success: Any
    status: Any


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_step: float = np.inf,
    max_steps: int | float = np.inf,
) -> OdeResult:
    """The solution of dy/dt = fun(t, y, *args), y(t_span[0]) = y0, for a vector y, at the times
    `t_eval`; without them, at both ends of `t_span` (the times must be known in number).

    `method` is "RK45". Of `odeint`'s it has the derivatives. `max_step` bounds a step, `max_steps`
    their number between two times.

    >>> pb.scipy.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), jnp.ones(1), rtol=1e-6).y[:, -1]
    Array([0.36787...], dtype=float32)

    Raises ValueError for another method, for y0 that is not a vector, for times outside or out of
    order, and for negative tolerances.
    """
    if method != "RK45":
        raise ValueError(f"solve_ivp: unknown method {method!r}. Fix: method='RK45'.")
    y0 = _inexact(y0)
    if typeof(y0).ndim != 1:
        raise ValueError(f"solve_ivp: y0 must be a vector, got shape {typeof(y0).shape}")
    _check_tolerances("solve_ivp", rtol, atol)
    ends = _inexact(jnp.stack([jnp.asarray(x) for x in t_span]))
    times = ends if t_eval is None else jnp.asarray(t_eval).astype(typeof(ends).dtype)
    if not isinstance(times, Tracer) and not isinstance(ends, Tracer):
        low, high = np.min(np.asarray(ends)), np.max(np.asarray(ends))
        if np.any((np.asarray(times) < low) | (np.asarray(times) > high)):
            raise ValueError(f"solve_ivp: values in t_eval are not within t_span {low}..{high}")
    grid = times if t_eval is None else jnp.concatenate([ends[:1], times, ends[1:]])
    _check_monotone("solve_ivp", "t_eval", grid)
    ys = odeint(
        fun, y0, grid, args, tfirst=True, rtol=rtol, atol=atol, hmax=max_step, mxstep=max_steps
    )
    good = jnp.all(jnp.isfinite(ys[-1]))
    inner = ys if t_eval is None else ys[1:-1]
    return OdeResult(times, jnp.moveaxis(inner, 0, -1), good, jnp.where(good, 0, -1))
