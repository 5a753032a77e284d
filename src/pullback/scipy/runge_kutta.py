"""Ordinary differential equations: `odeint`, an adaptive Runge-Kutta method with a reverse mode.

The method is Dormand and Prince's 5(4) ("A family of embedded Runge-Kutta formulae", Journal of
Computational and Applied Mathematics 6, 1980), with steps chosen as in Hairer, Norsett and Wanner,
"Solving ordinary differential equations I", II.4, and Shampine's interpolation. Gradients solve the
adjoint equation backwards in time (Chen et al., "Neural ordinary differential equations", 2018):
their memory does not grow with the number of steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax, numpy as jnp, tree
from ..api.derivatives import vjp
from ..api.jit import jit
from ..api.staging import closure_convert
from ..api.vmap import vmap
from ..control.custom_vjp import custom_vjp
from ..core.avals import is_valid_value
from ..flatten_util import ravel_pytree
from ..numpy.util import promotes_freely

# Dormand and Prince's coefficients: times, stages, fifth order, its error, the middle of the step.
_ALPHA = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])
_BETA = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
_SOLUTION = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
_ERROR = np.array(
    [
        35 / 384 - 1951 / 21600,
        0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 + 12231 / 42400,
        11 / 84 - 649 / 6300,
        -1 / 60,
    ]
)
_MIDDLE = 0.5 * np.array(
    [
        6025192743 / 30085553152,
        0,
        51252292925 / 65400821598,
        -2691868925 / 45128329728,
        187940372067 / 1594534317056,
        -1776094331 / 19743644256,
        11237099 / 235043384,
    ]
)


def abs2(x: Any) -> Any:
    """|x|^2, real.

    `x`: a real or complex array.

    >>> from pullback.experimental import ode
    >>> ode.abs2(jnp.array([3 + 4j]))
    Array([25.], dtype=float32)
    """
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x**2


def interp_fit_dopri(y0: Any, y1: Any, k: Any, dt: Any) -> Any:
    """The quartic through a step's ends and middle, from its stages.

    `y0`, `y1`: (n,), `k`: (7, n), `dt`: a scalar; five coefficients (n,), highest power first.
    Source: Shampine, "Some Practical Runge-Kutta Formulas", Mathematics of Computation 46, 1986.

    >>> from pullback.experimental import ode
    >>> y0, h = jnp.array([1.]), jnp.float32(0.5)
    >>> y1, f1, error, k = ode.runge_kutta_step(lambda y, t: -y, y0, -y0, 0., h)
    >>> ode.interp_fit_dopri(y0, y1, k, h)[-1]
    Array([1.], dtype=float32)
    """
    middle = jnp.array(_MIDDLE, dt.dtype).astype(k.dtype)  # times may be of more bits than values
    y_mid = y0 + dt.astype(y0.dtype) * jnp.dot(middle, k)
    return jnp.asarray(fit_4th_order_polynomial(y0, y1, y_mid, k[0], k[-1], dt))


def fit_4th_order_polynomial(
    y0: Any, y1: Any, y_mid: Any, dy0: Any, dy1: Any, dt: Any
) -> tuple[Any, ...]:
    """Coefficients, highest power first, of the quartic in the share of the step that has the
    values and slopes at both ends and the value in the middle.

    Values and slopes are arrays of one shape, `dt` a scalar.

    >>> from pullback.experimental import ode
    >>> zero, half, one = jnp.array([0., 0.5, 1.])
    >>> [float(c) for c in ode.fit_4th_order_polynomial(zero, one, half, one, one, one)]
    [0.0, 0.0, 0.0, 1.0, 0.0]
    """
    dt = jnp.asarray(dt).astype(jnp.asarray(y0).dtype)
    a = -2.0 * dt * dy0 + 2.0 * dt * dy1 - 8.0 * y0 - 8.0 * y1 + 16.0 * y_mid
    b = 5.0 * dt * dy0 - 3.0 * dt * dy1 + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = -4.0 * dt * dy0 + dt * dy1 - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return a, b, c, dt * dy0, y0


def scaled(factor: Any, values: Any) -> Any:
    """A tree times a real number."""
    return tree.map(lambda x: jnp.asarray(factor).astype(jnp.asarray(x).dtype) * x, values)


def initial_step_size(fun: Any, t0: Any, y0: Any, order: int, rtol: Any, atol: Any, f0: Any) -> Any:
    """A first step for which an Euler step changes little.

    `y0`, `f0 = fun(y0, t0)`: arrays of one shape; the others are scalars. Source: Hairer, Norsett
    and Wanner, "Solving Ordinary Differential Equations I", II.4.

    >>> from pullback.experimental import ode
    >>> decay = lambda y, t: -y
    >>> y0 = jnp.array([1.])
    >>> 0 < ode.initial_step_size(decay, 0., y0, 4, 1e-3, 1e-3, decay(y0, 0.)) < 1
    Array(True, dtype=bool)
    """
    dtype = y0.dtype
    scale = atol + jnp.abs(y0) * rtol
    d0, d1 = (jnp.linalg.norm(x / scale.astype(dtype)) for x in (y0, f0))
    h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    y1 = y0 + h0.astype(dtype) * f0
    f1 = fun(y1, t0 + h0)
    d2 = jnp.linalg.norm((f1 - f0) / scale.astype(dtype)) / h0
    largest = jnp.maximum(d1, d2)
    h1 = jnp.where(
        largest <= 1e-15,
        jnp.maximum(1e-6, h0 * 1e-3),
        (0.01 / largest) ** (1.0 / (order + 1.0)),
    )
    return jnp.minimum(100.0 * h0, h1)


def runge_kutta_step(func: Any, y0: Any, f0: Any, t0: Any, dt: Any) -> tuple[Any, Any, Any, Any]:
    """(y, f, error estimate, the seven stages) of a step of size dt.

    `func(y, t)`: the slope, `f0` its value at `t0`; `y0` is (n,), the stages (7, n). Source:
    Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980.

    >>> from pullback.experimental import ode
    >>> y0, h = jnp.array([1.]), jnp.float32(0.5)
    >>> y1, f1, error, k = ode.runge_kutta_step(lambda y, t: -y, y0, -y0, 0., h)
    >>> y1.round(3), k.shape
    (Array([0.607], dtype=float32), (7, 1))
    """
    dt = jnp.asarray(dt)
    step = dt.astype(y0.dtype)
    stages = [f0]
    for row, alpha in zip(_BETA, _ALPHA, strict=True):
        yi = y0
        for weight, k in zip(row, stages, strict=False):
            if weight:
                yi = yi + step * jnp.asarray(weight, dt.dtype).astype(y0.dtype) * k
        stages.append(func(yi, t0 + dt * jnp.asarray(alpha, dt.dtype)))
    k = jnp.stack(stages)
    y1 = step * jnp.dot(jnp.array(_SOLUTION, dt.dtype).astype(k.dtype), k) + y0
    error = step * jnp.dot(jnp.array(_ERROR, dt.dtype).astype(k.dtype), k)
    return y1, k[-1], error, k


def mean_error_ratio(error_estimate: Any, rtol: Any, atol: Any, y0: Any, y1: Any) -> Any:
    """The error estimate in units of the tolerance, in the mean square: a step is good up to 1.

    Arrays of one shape and scalar tolerances; the result is a scalar.

    >>> from pullback.experimental import ode
    >>> one = jnp.array([1.])
    >>> ode.mean_error_ratio(0.2 * one, 0., 0.1, one, one).round(3)
    Array(2., dtype=float32)
    """
    tolerance = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    ratio = error_estimate / tolerance.astype(y0.dtype)
    return jnp.sqrt(jnp.mean(abs2(ratio)))


def optimal_step_size(
    last_step: Any,
    mean_error_ratio: Any,
    safety: float = 0.9,
    ifactor: float = 10.0,
    dfactor: float = 0.2,
    order: float = 5.0,
) -> Any:
    """The next step: what the order says of the error, within factors `dfactor` and `ifactor`.

    Scalars.

    >>> from pullback.experimental import ode
    >>> ode.optimal_step_size(1., 1.).round(3)
    Array(0.9, dtype=float32, weak_type=True)
    """
    least = jnp.where(mean_error_ratio < 1, 1.0, dfactor)
    factor = jnp.minimum(ifactor, jnp.maximum(mean_error_ratio ** (-1.0 / order) * safety, least))
    return jnp.where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: Any = jnp.inf,
    hmax: Any = jnp.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args), y(t[0]) = y0, at the times t (increasing).

    y0: a tree of float or complex arrays; the result has an axis of time before each of its
    arrays' axes. `mxstep` bounds the steps between two times (nan beyond), `hmax` a step's size.
    Differentiable in y0, t and args, in reverse mode.

    >>> pb.experimental.ode.odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]))
    Array([1.        , 0.36787942], dtype=float32)

    Raises TypeError for other times, starts and arguments.
    """
    for leaf in tree.leaves(args):
        if not is_valid_value(leaf):
            raise TypeError(f"The contents of odeint *args must be arrays or scalars, got {leaf}.")
    if not dtypes.is_float(jnp.result_type(t)):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    if jnp.ndim(t) != 1:
        raise TypeError(f"t must have one axis, but got shape {jnp.shape(t)}. Fix: all the times.")
    for leaf in tree.leaves(y0):
        if not dtypes.is_inexact(jnp.result_type(leaf)):
            raise TypeError(
                f"odeint: y0 must be of floats, but got {leaf} of dtype {jnp.result_type(leaf)}. "
                "Fix: convert it with jnp.float32."
            )
    y0 = tree.map(jnp.asarray, y0)
    t = jnp.asarray(t)
    example = (y0, t[0], *args)
    converted, consts = closure_convert(func, *example)
    return _odeint_wrapper(converted, rtol, atol, mxstep, hmax, y0, t, *args, *consts)


@functools.partial(jit, static_argnums=(0, 1, 2, 3, 4))
def _odeint_wrapper(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    flat0, unravel = ravel_pytree(y0)

    def flat(y: Any, t: Any, *args: Any) -> Any:
        return ravel_pytree(func(unravel(y), t, *args))[0]

    out = _odeint(flat, rtol, atol, mxstep, hmax, flat0, ts, *args)
    return vmap(unravel)(out)


@promotes_freely
def _fewer(count: Any, limit: Any) -> Any:
    """Whether a limit, infinity perhaps, is not reached."""
    return count < limit


@functools.partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _odeint(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    def f(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    def advance(carry: Any, target: Any) -> Any:
        def unfinished(state: Any) -> Any:
            count, (_, _, t, dt, _, _) = state
            return (t < target) & _fewer(count, mxstep) & (dt > 0)

        def step(state: Any) -> Any:
            count, (y, slope, t, dt, last_t, coeff) = state
            next_y, next_slope, error, k = runge_kutta_step(f, y, slope, t, dt)
            ratio = mean_error_ratio(error, rtol, atol, y, next_y)
            new = (
                next_y,
                next_slope,
                t + dt,
                jnp.clip(optimal_step_size(dt, ratio), 0.0, hmax),
                t,
                interp_fit_dopri(y, next_y, k, dt),
            )
            old = (y, slope, t, new[3], last_t, coeff)
            good = ratio <= 1.0
            kept = tuple(jnp.where(good, a, b) for a, b in zip(new, old, strict=True))
            return count + 1, kept

        _, carry = lax.while_loop(unfinished, step, (jnp.zeros((), int), carry))
        _, _, t, _, last_t, coeff = carry
        # Before the first step, and at times that are repeated there, `coeff` is y0 everywhere.
        share = (target - last_t) / jnp.where(t == last_t, 1, t - last_t)
        value = jnp.polyval(coeff, share.astype(coeff.dtype))
        return carry, jnp.where(t < target, np.nan, value)

    f0 = f(y0, ts[0])
    dt = jnp.clip(initial_step_size(f, ts[0], y0, 4, rtol, atol, f0), 0.0, hmax)
    coeff = jnp.stack([y0] * 5)
    start = (y0, f0, ts[0], dt.astype(ts.dtype), ts[0], coeff)
    _, ys = lax.scan(advance, start, ts[1:])
    return jnp.concatenate([y0[None], ys])


def _forward(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Any, *args: Any
) -> Any:
    ys = _odeint(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _backward(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, residuals: Any, g: Any
) -> tuple[Any, ...]:
    ys, ts, args = residuals

    def dynamics(augmented: Any, t: Any, *args: Any) -> Any:
        """The adjoint system in negative time: the state is solved again beside it."""
        y, y_bar, _, _ = augmented
        slope, pullback = vjp(func, y, -t, *args)
        return (-slope, *pullback(y_bar))

    def back(carry: Any, i: Any) -> Any:
        y_bar, t0_bar, args_bar = carry
        t_bar = jnp.dot(func(ys[i], ts[i], *args), g[i]).real.astype(ts.dtype)
        t0_bar = t0_bar - t_bar
        times = jnp.stack([-ts[i], -ts[i - 1]])
        start = (ys[i], y_bar, t0_bar, args_bar)
        _, y_bar, t0_bar, args_bar = odeint(
            dynamics, start, times, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax
        )
        y_bar, t0_bar, args_bar = tree.map(lambda x: x[1], (y_bar, t0_bar, args_bar))
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar

    zeros = tree.map(jnp.zeros_like, args)
    start = (g[-1], jnp.zeros((), ts.dtype), zeros)
    order = jnp.arange(len(ts) - 1, 0, -1)
    (y_bar, t0_bar, args_bar), reversed_bars = lax.scan(back, start, order)
    t_bar = jnp.concatenate([t0_bar[None], reversed_bars[::-1]])
    return (y_bar, t_bar, *args_bar)


_odeint.defvjp(_forward, _backward)

__all__ = [
    "abs2",
    "fit_4th_order_polynomial",
    "initial_step_size",
    "interp_fit_dopri",
    "mean_error_ratio",
    "odeint",
    "optimal_step_size",
    "runge_kutta_step",
]
