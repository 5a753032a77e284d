"""Roots of functions of one unknown, as `scipy.optimize` names them, with derivatives by the
implicit function theorem.

The methods are Brent's ("Algorithms for minimization without derivatives", 1973, chapter 4),
bisection, Newton's, the secants' and Halley's. All run inside `while_loop`, so that `jit` and
`vmap` take them; what a root's derivative needs is the function's slope at the root, whatever the
method did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp, tree
from ..api.derivatives import jvp
from ..control.linear_solve import custom_root
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..core.trace import Tracer
from ..numpy.util import promote_dtypes_inexact

__all__ = [
    "RootResults",
    "bisect",
    "brentq",
    "newton",
    "root_scalar",
]


class RootResults(NamedTuple):
    """The result of `root_scalar`: the root, whether it converged, and how many steps and values of
    the function it took.

    A pytree; as `scipy.optimize.RootResults`.

    >>> from pullback.scipy import optimize
    >>> result = optimize.root_scalar(lambda x: x**2 - 4, bracket=(0., 5.))
    >>> result.converged, result.root.round(3)
    (Array(True, dtype=bool), Array(2., dtype=float32))
    """

    root: Any
    converged: Any
    iterations: Any
    function_calls: Any


# --- what all methods share ---
def arguments(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def count(name: str, maxiter: Any, default: int) -> int:
    n = default if maxiter is None else int(maxiter)
    if n < 1:
        raise ValueError(f"{name}: maxiter must be greater than 0, got {n}")
    return n


def _starts(name: str, *xs: Any) -> list[Any]:
    out = [jnp.asarray(x) for x in promote_dtypes_inexact(*xs)]
    if jnp.iscomplexobj(out[0]):
        raise TypeError(f"{name} looks for real roots, but got a start of {typeof(out[0]).dtype}")
    return out


def _tolerances(name: str, dtype: Any, xtol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerances of a root; by default what the dtype can tell apart."""
    eps = float(jnp.finfo(dtype).eps)
    xtol = max(2e-12, 4 * float(jnp.finfo(dtype).tiny)) if xtol is None else xtol
    rtol = 4 * eps if rtol is None else rtol
    if not isinstance(xtol, Tracer) and not np.all(np.asarray(xtol) > 0):
        raise ValueError(f"{name}: xtol must be greater than 0, got {xtol}")
    if isinstance(rtol, float) and rtol < 4 * eps:
        raise ValueError(f"{name}: rtol={rtol} is too small: {dtype} tells apart {4 * eps:g}")
    return jnp.asarray(xtol, dtype), jnp.asarray(rtol, dtype)


def integer(n: int) -> Any:
    return jnp.array(n, np.int32)


def _divided(g: Callable[[Any], Any], y: Any) -> Any:
    """g is multiplication, element by element."""
    return y / g(jnp.ones_like(y))


def _report(name: str, full: Any, disp: bool, full_output: bool) -> Any:
    """What SciPy's functions of one unknown return. Only where the answer is known while Python
    runs can a failure be raised; elsewhere the root is NaN.
    """
    if disp and not full_output and not isinstance(full.converged, Tracer):
        if not np.all(np.asarray(full.converged)):
            value = full.root
            shown = "" if isinstance(value, Tracer) else f", value is {value}"
            raise RuntimeError(
                f"{name}: failed to converge after {np.max(np.asarray(full.iterations))} "
                f"iterations{shown}. Fix: another start, more maxiter, or "
                "full_output=True to look at it."
            )
    return (full.root, full) if full_output else full.root


# --- one unknown, between bounds ---
class _Bracket(NamedTuple):
    """`b` is the best point, [b, c] holds the root, `a` was the best point before; `d` and `e` are
    the last two steps."""

    k: Any
    done: Any
    a: Any
    fa: Any
    b: Any
    fb: Any
    c: Any
    fc: Any
    d: Any
    e: Any


def _brent_step(s: _Bracket, xtol: Any, rtol: Any, halves: bool) -> tuple[Any, Any, Any, Any]:
    """(done, step, d, e): inverse quadratic interpolation or a secant where it can be trusted, a
    half of the bracket elsewhere."""
    tolerance = (xtol + rtol * jnp.abs(s.b)) / 2
    middle = (s.c - s.b) / 2
    done = (jnp.abs(middle) <= tolerance) | (s.fb == 0)
    if halves:
        return done, middle, middle, middle
    one = jnp.ones_like(s.b)
    r_ab = s.fb / jnp.where(s.fa == 0, one, s.fa)
    r_ac = s.fa / jnp.where(s.fc == 0, one, s.fc)
    r_bc = s.fb / jnp.where(s.fc == 0, one, s.fc)
    secant = s.a == s.c
    p = jnp.where(
        secant,
        2 * middle * r_ab,
        r_ab * (2 * middle * r_ac * (r_ac - r_bc) - (s.b - s.a) * (r_bc - 1)),
    )
    q = jnp.where(secant, 1 - r_ab, (r_ac - 1) * (r_bc - 1) * (r_ab - 1))
    q = jnp.where(p > 0, -q, q)
    p = jnp.abs(p)
    trusted = (jnp.abs(s.e) >= tolerance) & (jnp.abs(s.fa) > jnp.abs(s.fb))
    trusted &= 2 * p < jnp.minimum(3 * middle * q - jnp.abs(tolerance * q), jnp.abs(s.e * q))
    d = jnp.where(trusted, p / jnp.where(q == 0, one, q), middle)
    e = jnp.where(trusted, s.d, middle)
    step = jnp.where(jnp.abs(d) > tolerance, d, jnp.where(middle > 0, tolerance, -tolerance))
    return done, step, d, e


def _in_order(s: _Bracket) -> _Bracket:
    """[b, c] holds the root again, and b is the better end."""
    same = jnp.sign(s.fb) == jnp.sign(s.fc)
    c, fc = jnp.where(same, s.a, s.c), jnp.where(same, s.fa, s.fc)
    d, e = jnp.where(same, s.b - s.a, s.d), jnp.where(same, s.b - s.a, s.e)
    turn = jnp.abs(fc) < jnp.abs(s.fb)
    return s._replace(
        a=jnp.where(turn, s.b, s.a),
        fa=jnp.where(turn, s.fb, s.fa),
        b=jnp.where(turn, c, s.b),
        fb=jnp.where(turn, fc, s.fb),
        c=jnp.where(turn, s.b, c),
        fc=jnp.where(turn, s.fb, fc),
        d=d,
        e=e,
    )


def _between(
    name: str,
    f: Any,
    bounds: tuple[Any, Any],
    args: Any,
    xtol: Any,
    rtol: Any,
    maxiter: Any,
    halves: bool,
) -> RootResults:
    fixed, maxiter = arguments(args), count(name, maxiter, 100)
    a, b = _starts(name, *bounds)
    if typeof(a).shape or typeof(b).shape:
        raise ValueError(
            f"{name}: the bounds must be scalars, got shapes {typeof(a).shape} and "
            f"{typeof(b).shape}. Fix: pullback.vmap over them."
        )
    dtype = typeof(a).dtype
    xtol, rtol = _tolerances(name, dtype, xtol, rtol)
    a, b = lax.stop_gradient(a), lax.stop_gradient(b)

    def solve(g: Any, x: Any) -> Any:
        fa, fb = g(a), g(b)
        valid = (jnp.sign(fa) * jnp.sign(fb) <= 0) & jnp.isfinite(a) & jnp.isfinite(b)

        def running(s: _Bracket) -> Any:
            return ~s.done & (s.k < maxiter)

        def body(s: _Bracket) -> _Bracket:
            done, step, d, e = _brent_step(s, xtol, rtol, halves)
            new = jnp.where(done, s.b, s.b + step)
            fn = jnp.where(done, s.fb, g(new))
            moved = s._replace(k=s.k + ~done, a=s.b, fa=s.fb, b=new, fb=fn, d=d, e=e)
            moved = _in_order(moved)
            kept = tree.map(lambda x, y: jnp.where(done, x, y), s, moved)
            return kept._replace(done=done | ~jnp.isfinite(fn))  # type: ignore[no-any-return]

        start = _in_order(_Bracket(integer(0), ~valid, a, fa, b, fb, a, fa, b - a, b - a))
        end = while_loop(running, body, start)
        tolerance = xtol + rtol * jnp.abs(end.b)
        good = valid & (end.fb == 0) | (valid & (jnp.abs(end.c - end.b) <= tolerance))
        good &= jnp.isfinite(end.fb)
        return jnp.where(valid, end.b, np.nan), (good, end.k, end.k + 2, valid)

    def value(x: Any) -> Any:
        return jnp.asarray(f(x, *fixed)).astype(dtype)

    found, (good, steps, calls, valid) = custom_root(value, (a + b) / 2, solve, _divided, True)
    if not isinstance(valid, Tracer) and not np.asarray(valid):
        if not np.isfinite(np.asarray(a)) or not np.isfinite(np.asarray(b)):
            raise ValueError(f"{name}: the bounds must be finite, got {a} and {b}")
        raise ValueError(
            f"{name}: f(a) and f(b) must have different signs, got f({a}) = {value(a)} and "
            f"f({b}) = {value(b)}. Fix: bounds on both sides of a root."
        )
    return RootResults(found, good, steps, calls)


def brentq(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: Any = None,
    rtol: Any = None,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root of f(x, *args) between scalars a and b, where f has different signs (Brent's method).

    `xtol` and `rtol` are the absolute and relative tolerance of the root (2e-12 and 4 eps unless
    given). With `full_output`, (root, RootResults). Differentiable in `args` and in what f closes
    over; the root does not depend on a and b.

    >>> pb.scipy.optimize.brentq(lambda x: x**2 - 2, 0.0, 2.0)
    Array(1.4142135, dtype=float32)

    Raises ValueError for equal signs, RuntimeError if `maxiter` steps do not do; inside jit and
    vmap, where neither can be raised, the root is NaN or the best one.
    """
    full = _between("brentq", f, (a, b), args, xtol, rtol, maxiter, False)
    return _report("brentq", full, disp, full_output)


def bisect(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: Any = None,
    rtol: Any = None,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root of f(x, *args) between a and b by bisection; otherwise as `brentq`.

    >>> float(pb.scipy.optimize.bisect(lambda x: x**3 - 8, 0.0, 3.0).round(3))
    2.0
    """
    full = _between("bisect", f, (a, b), args, xtol, rtol, maxiter, True)
    return _report("bisect", full, disp, full_output)


# --- one unknown, from a start ---
def _slope(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The derivative of a function that works element by element."""
    return lambda x: jvp(f, (x,), (jnp.ones_like(x),))[1]


def _iterated(
    f: Callable[[Any], Any],
    start: Any,
    step: Callable[[Any, Any], tuple[Any, Any]],
    memory: Any,
    tol: Any,
    rtol: Any,
    maxiter: int,
) -> RootResults:
    """x, memory = step(x, memory) until x moves by less than the tolerance, element by element;
    what has arrived stays."""

    def solve(g: Any, x: Any) -> Any:
        def running(state: Any) -> Any:
            k, done = state[:2]
            return (k < maxiter) & ~jnp.all(done)

        def body(state: Any) -> Any:
            k, done, good, count, x, memory = state
            new, memory = step(x, memory)
            # Where the slope is 0, there is no step: it ends, and has not arrived.
            lost = ~jnp.isfinite(new)
            new = jnp.where(done | lost, x, new)
            near = ~lost & (jnp.abs(new - x) <= tol + rtol * jnp.abs(new))
            return k + 1, done | near | lost, good | (near & ~done), count + ~done, new, memory

        none = jnp.zeros(typeof(x).shape, bool)
        state = (integer(0), none, none, jnp.zeros(typeof(x).shape, np.int32), x, memory)
        _, _, good, count, x, _ = while_loop(running, body, state)
        return x, (good & jnp.isfinite(g(x)) & jnp.isfinite(x), count)

    found, (good, steps) = custom_root(f, start, solve, _divided, True)
    return RootResults(found, good, steps, steps + 1)


def _newton(
    name: str,
    func: Any,
    x0: Any,
    fprime: Any,
    args: Any,
    tol: Any,
    maxiter: int,
    fprime2: Any,
    x1: Any,
    rtol: Any,
    halley: bool,
) -> RootResults:
    xs = _starts(name, x0) if x1 is None else _starts(name, x0, x1)
    dtype = typeof(xs[0]).dtype
    fixed = arguments(args)
    eps = float(jnp.finfo(dtype).eps)
    tol = jnp.asarray(max(1.48e-8, 4 * eps) if tol is None else tol, dtype)
    rtol = jnp.asarray(rtol, dtype)

    def f(x: Any) -> Any:
        return jnp.asarray(func(x, *fixed)).astype(dtype)

    slope = _slope(f) if fprime is None else lambda x: fprime(x, *fixed)
    xs = [lax.stop_gradient(x) for x in xs]

    def newton_step(x: Any, memory: Any) -> Any:
        value, d = f(x), slope(x)
        move = jnp.where(value == 0, 0, value / jnp.where(d == 0, np.nan, d))
        if halley:
            curve = _slope(slope)(x) if fprime2 is None else fprime2(x, *fixed)
            bend = move * curve / (2 * jnp.where(d == 0, 1, d))
            move = jnp.where(jnp.abs(bend) < 1, move / (1 - bend), move)
        return (x - move).astype(dtype), memory

    def secant_step(x: Any, memory: Any) -> Any:
        before, f_before = memory
        value = f(x)
        rise = value - f_before
        new = x - value * (x - before) / jnp.where(rise == 0, np.nan, rise)
        new = jnp.where(value == 0, x, new)
        return new.astype(dtype), (x, value)

    if x1 is None:
        return _iterated(f, xs[0], newton_step, (), tol, rtol, maxiter)
    first, second = jnp.broadcast_arrays(*xs)

    def memory_of(x: Any) -> Any:
        return (x, f(x))

    return _iterated(
        f, second, secant_step, lax.stop_gradient(memory_of(first)), tol, rtol, maxiter
    )


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Callable[..., Any] | None = None,
    args: Any = (),
    tol: Any = None,
    maxiter: int = 50,
    fprime2: Callable[..., Any] | None = None,
    x1: Any = None,
    rtol: Any = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root of func(x, *args) near x0, by Newton's method; by Halley's if `fprime2` is given, by
    the secants' from x0 and `x1` if that is given.

    Without `fprime` the derivative is that of forward mode. x0 may be an array, for a func that
    works element by element: each element has its own root. `tol` (1.48e-8, or what the dtype can
    tell apart) and `rtol` bound the last step. Differentiable in `args` and in what func closes
    over.

    >>> pb.scipy.optimize.newton(lambda x: x**2 - 2, 1.0)
    Array(1.4142135, dtype=float32)

    Raises RuntimeError if `maxiter` steps do not do (inside jit: look at full_output's converged).
    """
    n = count("newton", maxiter, 50)
    halley = fprime2 is not None
    full = _newton("newton", func, x0, fprime, args, tol, n, fprime2, x1, rtol, halley)
    return _report("newton", full, disp, full_output)


_BRACKETED = ("brentq", "bisect")
_OPEN = ("newton", "secant", "halley")


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Callable[..., Any] | None = None,
    fprime2: Callable[..., Any] | None = None,
    x0: Any = None,
    x1: Any = None,
    xtol: Any = None,
    rtol: Any = None,
    maxiter: int | None = None,
) -> RootResults:
    """A root of a function of one unknown, f(x, *args), and how it was found.

    `method` is "brentq" or "bisect" (with `bracket`, a pair of bounds), "newton", "halley" (with
    `x0`; derivatives that are not given are those of forward mode) or "secant" (with x0 and `x1`);
    without it, what is given decides. Differentiable in `args` and in what f closes over.

    >>> pb.scipy.optimize.root_scalar(lambda x: x**2 - 2, bracket=(0.0, 2.0)).root
    Array(1.4142135, dtype=float32)

    Raises ValueError for another method, or one whose start is not given; nothing if it does not
    converge: `.converged` tells.
    """
    if method is None:
        if bracket is None and x0 is None:
            raise ValueError("root_scalar: give bracket=(a, b) or x0=start")
        method = "brentq" if bracket is not None else "newton" if x1 is None else "secant"
    method = method.lower()
    if method not in _BRACKETED + _OPEN:
        raise ValueError(
            f"root_scalar: unknown method {method!r}. Fix: one of {_BRACKETED + _OPEN}."
        )
    if method in _BRACKETED:
        if bracket is None or len(bracket) != 2:
            raise ValueError(f"root_scalar: method {method!r} needs bracket=(a, b)")
        halves = method == "bisect"
        return _between("root_scalar", f, bracket, args, xtol, rtol, maxiter, halves)
    if x0 is None or (method == "secant" and x1 is None):
        raise ValueError(f"root_scalar: method {method!r} needs x0" + " and x1" * (x1 is None))
    n = count("root_scalar", maxiter, 50)
    second = x1 if method == "secant" else None
    rtol = 0.0 if rtol is None else rtol
    return _newton(
        "root_scalar", f, x0, fprime, args, xtol, n, fprime2, second, rtol, method == "halley"
    )
