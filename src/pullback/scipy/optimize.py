"""Minimisation of functions of a vector; roots and fixed points are in roots.py and systems.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp
from ..api.derivatives import value_and_grad
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..dtypes import default_int
from ..numpy.util import to_type
from .roots import RootResults, bisect, brentq, newton, root_scalar
from .systems import RootSolution, fixed_point, root

__all__ = [
    "OptimizeResults",
    "RootResults",
    "RootSolution",
    "bisect",
    "brentq",
    "fixed_point",
    "minimize",
    "newton",
    "root",
    "root_scalar",
]

_dot = lax.Precision.HIGHEST


class OptimizeResults(NamedTuple):
    """The result of `minimize`: the point, whether it converged, a status (0 converged, 1 out of
    steps, 3 the line search failed), the value and gradient there, the inverse Hessian, and how
    many evaluations and steps it took.

    >>> from pullback.scipy import optimize
    >>> result = optimize.minimize(lambda x: jnp.sum(x**2), jnp.ones(2), method='BFGS')
    >>> result.success, result.status
    (Array(True, dtype=bool), Array(0, dtype=int32, weak_type=True))
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _Search(NamedTuple):
    """A line search between bounds: `low` is the best step so far, `g_low` the gradient there."""

    k: Any
    done: Any
    bracketed: Any
    low: Any
    f_low: Any
    d_low: Any
    g_low: Any
    high: Any
    f_high: Any
    d_high: Any
    step: Any
    f: Any
    g: Any


def _interpolate(a: Any, fa: Any, da: Any, b: Any, fb: Any, db: Any) -> Any:
    """The minimum of the cubic through two points and slopes, kept away from the ends; the middle
    where there is none.
    """
    width = b - a
    d1 = da + db - 3 * (fb - fa) / jnp.where(width == 0, 1, width)
    root = jnp.sqrt(jnp.maximum(d1 * d1 - da * db, 0)) * jnp.sign(width)
    denominator = db - da + 2 * root
    x = b - width * (db + root - d1) / jnp.where(denominator == 0, 1, denominator)
    low, high = jnp.minimum(a, b) + 0.1 * jnp.abs(width), jnp.maximum(a, b) - 0.1 * jnp.abs(width)
    good = (denominator != 0) & jnp.isfinite(x)
    return jnp.where(good, jnp.clip(x, low, high), a + 0.5 * width)


def _wolfe_search(
    evaluate: Any,
    x: Any,
    p: Any,
    f0: Any,
    g0: Any,
    first: Any,
    limit: int,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> _Search:
    """A step that satisfies the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and
    3.6), if `limit` evaluations find one.
    """
    slope = jnp.dot(g0, p, precision=_dot)
    zero = jnp.zeros_like(f0)

    def running(s: _Search) -> Any:
        return ~s.done & (s.k < limit)

    def body(s: _Search) -> _Search:
        f, g = evaluate(x + s.step * p)
        d = jnp.dot(g, p, precision=_dot)
        bad = ~jnp.isfinite(f) | (f > f0 + c1 * s.step * slope) | ((f >= s.f_low) & (s.k > 0))
        done = ~bad & (jnp.abs(d) <= -c2 * slope)
        # The new point is the upper end if it is too far; else the lower end, the old one becoming
        # the upper end if the slope turned.
        turned = jnp.where(s.bracketed, d * (s.high - s.low) >= 0, d >= 0)
        high = jnp.where(bad, s.step, jnp.where(turned, s.low, s.high))
        f_high = jnp.where(bad, f, jnp.where(turned, s.f_low, s.f_high))
        d_high = jnp.where(bad, d, jnp.where(turned, s.d_low, s.d_high))
        low, f_low, d_low, g_low = (
            jnp.where(bad, a, b)
            for a, b in ((s.low, s.step), (s.f_low, f), (s.d_low, d), (s.g_low, g))
        )
        bracketed = s.bracketed | bad | turned
        inner = _interpolate(low, f_low, d_low, high, f_high, d_high)
        inner = jnp.where(jnp.isfinite(f_high) & jnp.isfinite(d_high), inner, 0.5 * (low + high))
        step = jnp.where(done, s.step, jnp.where(bracketed, inner, 2 * s.step))
        lower, upper = (low, f_low, d_low, g_low), (high, f_high, d_high)
        return _Search(s.k + 1, done, bracketed, *lower, *upper, step, f, g)

    start = _Search(
        jnp.array(0, np.int32),
        jnp.array(False),
        jnp.array(False),
        *(zero, f0, slope, g0),
        *(zero, f0, slope),
        first,
        f0,
        g0,
    )
    return while_loop(running, body, start)  # type: ignore[no-any-return]


def _line_search(
    evaluate: Any, x: Any, p: Any, f0: Any, g0: Any, first: Any, limit: int
) -> _Search:
    """As `_wolfe_search`; out of steps, the best lower end is still a decrease."""
    found = _wolfe_search(evaluate, x, p, f0, g0, first, limit)
    usable = ~found.done & (found.low > 0)
    return found._replace(
        done=found.done | usable,
        step=jnp.where(found.done, found.step, found.low),
        f=jnp.where(found.done, found.f, found.f_low),
        g=jnp.where(found.done, found.g, found.g_low),
    )


class _State(NamedTuple):
    k: Any
    converged: Any
    failed: Any
    x: Any
    f: Any
    g: Any
    h: Any
    f_old: Any
    evaluations: Any


def _bfgs(
    fun: Callable[[Any], Any],
    x0: Any,
    gtol: float,
    maxiter: int | None,
    norm: Any,
    line_search_maxiter: int,
) -> OptimizeResults:
    n = typeof(x0).shape[0]
    maxiter = n * 200 if maxiter is None else maxiter
    evaluate = value_and_grad(fun)
    f0, g0 = evaluate(x0)
    eye = jnp.eye(n, dtype=typeof(x0).dtype)

    def size(g: Any) -> Any:
        return jnp.linalg.norm(g, ord=norm)

    def running(s: _State) -> Any:
        return ~s.converged & ~s.failed & (s.k < maxiter)

    def body(s: _State) -> _State:
        p = -jnp.dot(s.h, s.g, precision=_dot)
        slope = jnp.dot(s.g, p, precision=_dot)
        guess = 1.01 * 2 * (s.f - s.f_old) / jnp.where(slope == 0, -1, slope)
        first = jnp.where((guess > 0) & (guess < 1), guess, 1)
        found = _line_search(
            evaluate, s.x, p, s.f, s.g, first.astype(typeof(s.f).dtype), line_search_maxiter
        )
        move = jnp.where(found.done, found.step, 0).astype(typeof(s.x).dtype) * p
        x, g = s.x + move, jnp.where(found.done, found.g, s.g)
        y = g - s.g
        curvature = jnp.dot(y, move, precision=_dot)
        rho = 1 / jnp.where(curvature == 0, 1, curvature)
        left = eye - rho * jnp.outer(move, y)
        h = jnp.dot(jnp.dot(left, s.h, precision=_dot), left.T, precision=_dot) + rho * jnp.outer(
            move, move
        )
        h = jnp.where((curvature > 0) & jnp.all(jnp.isfinite(h)), h, s.h)
        f = jnp.where(found.done, found.f, s.f)
        return _State(
            s.k + 1, size(g) < gtol, ~found.done, x, f, g, h, s.f, s.evaluations + found.k
        )

    start = _State(
        jnp.array(0, np.int32),
        size(g0) < gtol,
        jnp.array(False),
        x0,
        f0,
        g0,
        eye,
        f0 + jnp.linalg.norm(g0) / 2,
        jnp.array(1, np.int32),
    )
    end = while_loop(running, body, start)
    status = jnp.where(
        end.converged, 0, jnp.where(end.k >= maxiter, 1, jnp.where(end.failed, 3, -1))
    )
    good = end.converged & jnp.all(jnp.isfinite(end.x))
    calls, steps = (_weak(k) for k in (end.evaluations, end.k))
    return OptimizeResults(end.x, good, status, end.f, end.g, end.h, calls, calls, steps)


def _weak(count: Any) -> Any:
    return to_type(count, default_int(), True)


def _descent(g: Any, s: Any, y: Any, rho: Any, gamma: Any) -> Any:
    """The direction of the next step: the two-loop recursion over the latest pairs of moves and
    changes of the gradient; unused ones have rho = 0."""
    q = g
    a: list[Any] = []
    kept = range(typeof(rho).shape[0])
    for k in reversed(kept):
        a.append(rho[k] * jnp.dot(s[k], q, precision=_dot))
        q = q - a[-1] * y[k]
    q = gamma * q
    for k, ak in zip(kept, reversed(a), strict=True):
        q = q + (ak - rho[k] * jnp.dot(y[k], q, precision=_dot)) * s[k]
    return -q


def _remembered(pairs: Any, move: Any, change: Any) -> Any:
    """The pairs with a new one in the place of the oldest, if its curvature is positive."""
    s, y, rho, gamma = pairs
    curvature = jnp.dot(change, move, precision=_dot)
    keep = curvature > 0
    safe = jnp.where(keep, curvature, 1)
    s = jnp.where(keep, jnp.roll(s, -1, 0).at[-1].set(move), s)
    y = jnp.where(keep, jnp.roll(y, -1, 0).at[-1].set(change), y)
    rho = jnp.where(keep, jnp.roll(rho, -1).at[-1].set(1 / safe), rho)
    squares = jnp.dot(change, change, precision=_dot)
    gamma = jnp.where(keep, curvature / jnp.where(squares == 0, 1, squares), gamma)
    return s, y, rho, gamma


def _lbfgs(
    fun: Callable[[Any], Any],
    x0: Any,
    maxiter: int | None,
    norm: Any,
    maxcor: int,
    ftol: float,
    gtol: float,
    maxfun: float | None,
    maxls: int,
) -> OptimizeResults:
    n = typeof(x0).shape[0]
    maxiter = n * 200 if maxiter is None else maxiter
    most = int(np.iinfo(np.int32).max)
    limit = most if maxfun is None else int(min(np.ceil(maxfun), most))
    evaluate = value_and_grad(fun)
    f0, g0 = evaluate(x0)
    dtype = typeof(x0).dtype

    def running(state: Any) -> Any:
        k, converged, failed, *_, evaluations = state
        return ~converged & ~failed & (k < maxiter) & (evaluations < limit)

    def body(state: Any) -> Any:
        k, _, _, x, f, g, *pairs, evaluations = state
        p = _descent(g, *pairs)
        first = jnp.where(
            k == 0, jnp.minimum(1, 1 / jnp.maximum(jnp.linalg.norm(g), 1e-30)), 1
        ).astype(typeof(f).dtype)
        found = _line_search(evaluate, x, p, f, g, first, maxls)
        move = jnp.where(found.done, found.step, 0).astype(dtype) * p
        g_new = jnp.where(found.done, found.g, g)
        f_new = jnp.where(found.done, found.f, f)
        pairs = _remembered(pairs, move, g_new - g)
        small = (
            f - f_new <= ftol * jnp.maximum(jnp.maximum(jnp.abs(f), jnp.abs(f_new)), 1)
        ) & found.done
        done = (jnp.linalg.norm(g_new, ord=norm) < gtol) | small
        return (
            *(k + 1, done, ~found.done),
            *(x + move, f_new, g_new),
            *pairs,
            evaluations + found.k,
        )

    start = (
        jnp.array(0, np.int32),
        jnp.linalg.norm(g0, ord=norm) < gtol,
        jnp.array(False),
        x0,
        f0,
        g0,
        jnp.zeros((maxcor, n), dtype),
        jnp.zeros((maxcor, n), dtype),
        jnp.zeros(maxcor, dtype),
        jnp.ones((), dtype),
        jnp.array(1, np.int32),
    )
    k, converged, failed, x, f, g, *_, evaluations = while_loop(running, body, start)
    status = jnp.where(converged, 0, jnp.where(k >= maxiter, 1, jnp.where(failed, 5, 2)))
    calls = _weak(evaluations)
    return OptimizeResults(x, converged, status, f, g, None, calls, calls, _weak(k))


def _check_options(options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := sorted(set(options) - set(known)):
        raise TypeError(f"minimize: unknown options {unknown}: known are {' '.join(known)}")


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of fun(x, *args) over vectors x, from x0, by "BFGS" (or
    "l-bfgs-experimental-do-not-rely-on-this").

    `options`: gtol, maxiter, norm, line_search_maxiter (for the other method maxiter, norm, maxcor,
    ftol, gtol, maxfun, maxls). fun must return a scalar.

    >>> pb.scipy.optimize.minimize(lambda x: jnp.sum((x - 1) ** 2), jnp.zeros(2), method="BFGS").x
    Array([1., 1.], dtype=float32)

    Raises TypeError if args is not a tuple and for other options, ValueError for another method.
    """
    options = dict(options or {})
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args}")

    def fun_of(x: Any) -> Any:
        return fun(x, *args)

    x0 = jnp.asarray(x0)
    if not jnp.issubdtype(typeof(x0).dtype, np.inexact):
        x0 = x0.astype(jnp.result_type(float))
    if typeof(x0).ndim != 1:
        kind = IndexError if method.lower() == "bfgs" and not typeof(x0).ndim else TypeError
        raise kind(
            f"minimize: x0 must be a vector, got shape {typeof(x0).shape}. Fix: "
            "x0.ravel(), and fun reshapes its argument."
        )
    if method.lower() == "bfgs":
        _check_options(options, ("gtol", "maxiter", "norm", "line_search_maxiter"))
        return _bfgs(
            fun_of,
            x0,
            options.pop("gtol", 1e-5 if tol is None else tol),
            options.pop("maxiter", None),
            options.pop("norm", np.inf),
            options.pop("line_search_maxiter", 10),
        )
    if method.lower() == "l-bfgs-experimental-do-not-rely-on-this":
        _check_options(options, ("maxiter", "norm", "maxcor", "ftol", "gtol", "maxfun", "maxls"))
        return _lbfgs(
            fun_of,
            x0,
            options.pop("maxiter", None),
            options.pop("norm", np.inf),
            options.pop("maxcor", 10),
            options.pop("ftol", 2.220446049250313e-09),
            options.pop("gtol", 1e-05 if tol is None else tol),
            options.pop("maxfun", None),
            options.pop("maxls", 20),
        )
    raise ValueError(f"Method {method} not recognized. Fix: method='BFGS'.")
