"""Roots of systems of equations and fixed points, as `scipy.optimize` names them, with derivatives
by the implicit function theorem.

The method is Powell's dog leg in a trust region (Nocedal and Wright, "Numerical optimization",
chapters 4 and 11; the rules of the radius are MINPACK's), with the Jacobian that forward mode
gives; for fixed points Steffensen's acceleration. A derivative is one linear solve at the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp, tree
from ..api.jacobians import jacfwd
from ..api.vmap import vmap
from ..control.linear_solve import custom_root
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..core.trace import Tracer
from ..flatten_util import ravel_pytree
from ..numpy.util import promote_dtypes_inexact
from .roots import arguments, count, integer
from .sparse.linalg import gmres

__all__ = ["RootSolution", "fixed_point", "root"]

_DENSE = 256  # unknowns up to which a derivative solves with the whole Jacobian


class RootSolution(NamedTuple):
    """The result of `root`: the point, whether it is a root, a status (1 converged, 2 out of steps,
    4 no progress), the function's values and Jacobian there, and how many values and steps it
    took.

    A pytree; as the object that `scipy.optimize.root` returns.

    >>> from pullback.scipy import optimize
    >>> result = optimize.root(lambda x: x**2 - 4, jnp.array([1.]))
    >>> result.success, result.x.round(3)
    (Array(True, dtype=bool, weak_type=True), Array([2.], dtype=float32))
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    nfev: Any
    nit: Any


class _Region(NamedTuple):
    """A point, its values and Jacobian, the scale of the unknowns, the radius that is trusted."""

    k: Any
    status: Any
    x: Any
    f: Any
    jacobian: Any
    scale: Any
    radius: Any
    slow: Any


def _length(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * x))


def _dog_leg(s: _Region) -> tuple[Any, Any]:
    """(step, Newton's step), both in scaled unknowns."""
    j = s.jacobian / s.scale
    full = jnp.linalg.solve(j, -s.f)
    full = jnp.where(jnp.all(jnp.isfinite(full)), full, 0)
    has_full = jnp.any(full != 0)
    down = -(j.T @ s.f)
    steep = _length(down)
    safe = jnp.where(steep == 0, 1, steep)
    unit = down / safe
    along = _length(j @ unit)
    best = jnp.where(along > 0, steep / jnp.where(along == 0, 1, along * along), s.radius)
    cauchy = unit * jnp.minimum(best, s.radius)
    # From the best point downhill towards Newton's, up to the radius.
    base, leg = unit * best, full - unit * best
    a, b = jnp.sum(leg * leg), jnp.sum(base * leg)
    c = jnp.minimum(jnp.sum(base * base) - s.radius**2, 0)
    share = (-b + jnp.sqrt(jnp.maximum(b * b - a * c, 0))) / jnp.where(a == 0, 1, a)
    bent = base + jnp.clip(share, 0, 1) * leg
    far = _length(full) > s.radius
    partly = jnp.where(best >= s.radius, cauchy, bent)
    return jnp.where(has_full, jnp.where(far, partly, full), cauchy), full


def _powell(
    f: Any, jacobian: Any, x0: Any, xtol: float, maxiter: int, factor: float
) -> tuple[Any, _Region]:
    def scale_of(j: Any) -> Any:
        norms = jnp.sqrt(jnp.sum(j * j, axis=0))
        return jnp.where(norms > 0, norms, 1)

    def running(s: _Region) -> Any:
        return (s.status == 0) & (s.k < maxiter)

    def body(s: _Region) -> _Region:
        step, full = _dog_leg(s)
        x = s.x + step / s.scale
        f_new = f(x)
        before, after = _length(s.f), _length(f_new)
        after = jnp.where(jnp.isfinite(after), after, np.inf)
        hoped = _length(s.f + s.jacobian @ (step / s.scale))
        gain = (before - after) * (before + after)
        promised = (before - hoped) * (before + hoped)
        ratio = jnp.where(promised > 0, gain / jnp.where(promised > 0, promised, 1), 0)
        ratio = jnp.where(jnp.isfinite(ratio), ratio, -1)
        good = (ratio > 1e-4) | (after == 0)
        size, moved = _length(s.scale * s.x), _length(step)
        radius = jnp.where(
            ratio < 0.25,
            moved / 4,
            jnp.where(ratio > 0.75, jnp.maximum(s.radius, 2 * moved), s.radius),
        )
        slow = jnp.where(gain >= 0.001 * before * before, 0, s.slow + 1)
        # Newton's step is what is left to go: a short step alone may only be a lack of trust.
        left = _length(full)
        arrived = (good & (moved <= xtol * size)) | (radius <= xtol * size)
        arrived &= (left <= np.sqrt(xtol) * jnp.maximum(size, xtol)) & jnp.any(full != 0)
        arrived |= after == 0
        stuck = (slow >= 10) | (~good & (radius <= xtol * size))
        status = jnp.where(arrived, 1, jnp.where(stuck, 4, 0))
        # The last values are noise: the gain is what rounding leaves.
        x = jnp.where(good, x, s.x)
        new_j = jnp.where(good, jacobian(x), s.jacobian)
        scale = jnp.maximum(s.scale, scale_of(new_j))
        return _Region(s.k + 1, status, x, jnp.where(good, f_new, s.f), new_j, scale, radius, slow)

    f0, j0 = f(x0), jacobian(x0)
    scale = scale_of(j0)
    size = _length(scale * x0)
    radius = factor * jnp.where(size > 0, size, 1)
    status = jnp.where(jnp.all(f0 == 0), 1, jnp.where(jnp.all(jnp.isfinite(f0)), 0, 4))
    start = _Region(integer(0), status, x0, f0, j0, scale, radius.astype(x0.dtype), integer(0))
    end = while_loop(running, body, start)
    return end.x, end


def _solved(g: Callable[[Any], Any], y: Any) -> Any:
    """x with g(x) = y, g linear: with the whole matrix, or by GMRES where that would be large."""
    n = typeof(y).shape[0]
    if n > _DENSE:
        return gmres(g, y, tol=float(jnp.finfo(typeof(y).dtype).eps) * 8, restart=40)[0]
    matrix = vmap(g, out_axes=1)(jnp.eye(n, dtype=typeof(y).dtype))
    return jnp.linalg.solve(matrix, y)


def _flat_start(name: str, x0: Any) -> tuple[Any, Callable[[Any], Any]]:
    leaves = [jnp.asarray(x) for x in tree.leaves(x0)]
    if not leaves or any(jnp.iscomplexobj(x) for x in leaves):
        raise TypeError(f"{name}: x0 must be real arrays, got {x0!r}")
    flat, unravel = ravel_pytree(tree.map(lambda x: promote_dtypes_inexact(x)[0], x0))
    return lax.stop_gradient(flat), unravel


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> RootSolution:
    """A root of a system of as many equations as unknowns: fun(x, *args) = 0, from x0.

    x0 is an array or a tree of arrays, fun returns the same structure. Powell's dog leg; the
    Jacobian is that of forward mode unless `jac(x, *args)` gives it, of shape (n, n) for n
    unknowns. `options`: xtol (the relative step at which it ends; also `tol`), maxiter, factor (of
    the first radius). Differentiable in `args` and in what fun closes over.

    >>> circle_and_line = lambda x: jnp.array([x @ x - 2, x[0] - x[1]])
    >>> pb.scipy.optimize.root(circle_and_line, jnp.array([1., 3.])).x
    Array([1., 1.], dtype=float32)

    Raises ValueError for another method or option, or a fun of another number of values; a system
    that has no root near is told by `.success`.
    """
    if method != "hybr":
        raise ValueError(f"root: unknown method {method!r}. Fix: method='hybr'.")
    options = dict(options or {})
    fixed = arguments(args)
    flat0, unravel = _flat_start("root", x0)
    dtype, n = typeof(flat0).dtype, typeof(flat0).shape[0]
    least = 1.49012e-8 if jnp.finfo(dtype).eps < 1e-10 else 4 * float(jnp.finfo(dtype).eps)
    xtol = options.pop("xtol", least if tol is None else tol)
    maxiter = count("root", options.pop("maxiter", None), 100 * (n + 1))
    factor = options.pop("factor", 100.0)
    if options:
        raise ValueError(f"root: unknown options {sorted(options)}: known are xtol maxiter factor")

    def f(x: Any) -> Any:
        values = ravel_pytree(fun(unravel(x), *fixed))[0]
        if typeof(values).shape != (n,):
            raise ValueError(
                f"root: fun must return as many values as there are unknowns, got "
                f"{typeof(values).shape[0]} for {n}"
            )
        return values.astype(dtype)

    def jacobian(g: Any) -> Any:
        if jac is None:
            return jacfwd(g)
        return lambda x: jnp.reshape(jnp.asarray(jac(unravel(x), *fixed)), (n, n)).astype(dtype)

    def solve(g: Any, start: Any) -> Any:
        return _powell(g, jacobian(g), start, xtol, maxiter, factor)

    x, end = custom_root(f, flat0, solve, _solved, True)
    status = jnp.where((end.status == 0) & (end.k >= maxiter), 2, end.status)
    return RootSolution(
        unravel(x), status == 1, status, unravel(end.f), end.jacobian, end.k + 1, end.k
    )


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float | None = None,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """The x with x = func(x, *args), from x0, an array or a tree of arrays.

    `method` is "del2" (Steffensen's acceleration, element by element) or "iteration" (x = func(x),
    again and again). `xtol` bounds the relative error (1e-8, or what the dtype can tell apart).
    Differentiable in `args` and in what func closes over, by one linear solve: with the whole
    matrix up to 256 unknowns, by GMRES beyond.

    >>> pb.scipy.optimize.fixed_point(lambda x: jnp.cos(x), 0.5)
    Array(0.7390851, dtype=float32)

    Raises ValueError for another method, RuntimeError if `maxiter` steps do not do; inside jit the
    result is NaN then.
    """
    if method not in ("del2", "iteration"):
        raise ValueError(f"fixed_point: unknown method {method!r}. Fix: 'del2' or 'iteration'.")
    fixed = arguments(args)
    n = count("fixed_point", maxiter, 500)
    flat0, unravel = _flat_start("fixed_point", x0)
    dtype = typeof(flat0).dtype
    tol = max(1e-8, 4 * float(jnp.finfo(dtype).eps)) if xtol is None else xtol

    def step(x: Any) -> Any:
        return ravel_pytree(func(unravel(x), *fixed))[0].astype(dtype)

    def solve(g: Any, start: Any) -> Any:
        def image(x: Any) -> Any:
            return g(x) + x

        def running(state: Any) -> Any:
            k, done, _ = state
            return ~done & (k < n)

        def body(state: Any) -> Any:
            k, _, x = state
            new = image(x)
            if method == "del2":
                after = image(new)
                bend = after - 2 * new + x
                leap = x - (new - x) ** 2 / jnp.where(bend == 0, 1, bend)
                new = jnp.where((bend == 0) | ~jnp.isfinite(leap), after, leap)
            near = jnp.abs(new - x) <= tol * jnp.where(x == 0, 1, jnp.abs(x))
            return k + 1, jnp.all(near), new

        k, done, x = while_loop(running, body, (integer(0), jnp.array(False), start))
        return jnp.where(done, x, np.nan), (done, k)

    x, (done, k) = custom_root(lambda x: step(x) - x, flat0, solve, _solved, True)
    if not isinstance(done, Tracer) and not np.asarray(done):
        raise RuntimeError(
            f"fixed_point: failed to converge after {k} iterations. Fix: another start, more "
            "maxiter, a larger xtol."
        )
    return unravel(x)
