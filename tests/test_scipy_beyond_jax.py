"""What `scipy` has and JAX lacks: Bessel functions of real order, integrals, roots; beside SciPy,
and their derivatives beside finite differences of SciPy's values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats

import pullback as pb
import pullback.numpy as jnp
import pullback.scipy.integrate as integrate
import pullback.scipy.optimize as optimize
import pullback.scipy.special as special
from pullback import lax
from pullback.scipy.stats import chi2


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with pb.enable_x64(True):
        yield


def near(got: Any, want: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


def slope(f: Any, x: Any, h: float = 1e-4) -> Any:
    """The derivative by five points."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


# --- Bessel functions ---
X = np.array([0.2, 0.9, 2.5, 7.0, 19.0])


@pytest.mark.parametrize("name", ("jv", "yv", "iv", "kv", "jve", "yve", "ive", "kve"))
def test_bessel_functions(name: str) -> None:
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    for v in (2, 1.3):
        want = theirs(v, X)
        near(pb.jit(ours)(v, X), want, 1e-13)
        near(pb.vmap(ours, (None, 0))(v, X), want, 1e-13)
        first = pb.vmap(pb.grad(lambda x, v=v: ours(v, x)))
        near(first(X), slope(lambda x, v=v: theirs(v, x), X), 1e-8)
        second = pb.vmap(pb.grad(pb.grad(lambda x, v=v: ours(v, x))))
        near(second(X), slope(lambda x, f=first: np.asarray(f(x)), X), 1e-7)
    near(ours(np.arange(3.0)[:, None], X), theirs(np.arange(3.0)[:, None], X), 1e-13)
    narrow = np.asarray(ours(np.float32(1.3), np.float32(X)))
    near(narrow, theirs(np.float32(1.3), np.float32(X)), 2e-7)
    assert narrow.dtype == np.float32


def test_bessel_edges_and_fixed_orders() -> None:
    edges = np.array([0.0, -0.0, -1.0, -2.5, np.inf, np.nan, 1e300, 1e-300])
    for name in ("jv", "yv", "iv", "kv"):
        np.testing.assert_allclose(
            np.asarray(getattr(special, name)(2.0, edges)), getattr(scipy.special, name)(2.0, edges)
        )
    for name in "j0 j1 y0 y1 k0 k1 k0e k1e".split():
        near(getattr(special, name)(X), getattr(scipy.special, name)(X), 1e-12)
    for name in ("jvp", "yvp", "ivp", "kvp"):
        for n in range(4):
            near(getattr(special, name)(1.5, X, n), getattr(scipy.special, name)(1.5, X, n), 1e-11)


def test_slopes_of_kve_at_its_pole() -> None:
    for v in (0.5, 1.0, 2.0):
        for x in (0.0, 1e-300):
            assert pb.grad(special.kve, 1)(v, x) == -np.inf


def test_bessel_refuses() -> None:
    with pytest.raises(ValueError, match="order v is not available"):
        pb.grad(special.jv)(1.0, 2.0)
    with pytest.raises(TypeError, match="complex"):
        special.kv(1.0, 2j)
    with pytest.raises(ValueError, match="n must not be negative"):
        special.jvp(0, 1.0, -1)
    with pytest.raises(TypeError, match="must be an int"):
        special.yvp(0, 1.0, 1.5)


def test_bessel_in_a_loop() -> None:
    total, _ = lax.scan(lambda c, x: (c + special.jv(1.0, x), None), 0.0, jnp.asarray(X))
    near(total, scipy.special.jv(1, X).sum(), 1e-13)


# --- integrals ---
QUADS: dict[str, tuple[Any, float, float, float]] = {
    "backwards": (jnp.exp, 1.0, 0.0, 1 - np.e),
    "bell": (lambda x: jnp.exp(-x * x), -np.inf, np.inf, np.sqrt(np.pi)),
    "down": (jnp.exp, -np.inf, 1.0, np.e),
    "endless backwards": (lambda x: jnp.exp(-x), np.inf, 0.0, -1.0),
    "root": (lambda x: 1 / jnp.sqrt(x), 0.0, 1.0, 2.0),
    "kink": (lambda x: jnp.abs(x - 0.3), 0.0, 1.0, 0.29),
    "peak": (
        lambda x: 1 / (1e-4 + (x - 0.37) ** 2),
        0.0,
        1.0,
        100 * (np.arctan(63) + np.arctan(37)),
    ),
}


@pytest.mark.parametrize("name", QUADS)
def test_quad(name: str) -> None:
    f, a, b, want = QUADS[name]
    value, error = pb.jit(lambda: integrate.quad(f, a, b))()
    near(value, want, 1e-8)
    assert abs(value - want) <= max(float(error), 1e-15)


def test_derivatives_of_quad() -> None:
    def ours(a: Any, b: Any, c: Any) -> Any:
        return integrate.quad(lambda x, c: jnp.exp(-c * x) * jnp.cos(x), a, b, (c,))[0]

    def theirs(p: Any) -> float:
        f = scipy.integrate.quad(lambda x: np.exp(-p[2] * x) * np.cos(x), *p[:2], epsabs=1e-13)
        return float(f[0])

    p = np.array([0.2, 1.5, 0.7])
    steps = np.eye(3)
    want = [slope(lambda t, k=k: theirs(p + t * steps[k]), 0.0, 1e-3) for k in range(3)]
    gradient = pb.jit(pb.grad(lambda p: ours(*p)))
    near(gradient(p), want, 1e-9)
    rows = [slope(lambda t, k=k: np.asarray(gradient(p + t * steps[k])), 0.0) for k in range(3)]
    near(pb.jit(pb.jacfwd(gradient))(p), rows, 1e-8)
    near(pb.grad(lambda c: integrate.quad(lambda x: jnp.exp(-c * x), 0.0, jnp.inf)[0])(2.0), -0.25)
    near(
        pb.jacobian(lambda c: integrate.quad(lambda x: jnp.stack([x, c * x]), 0, c)[0])(2.0), [2, 6]
    )


def test_quad_refuses() -> None:
    for call in (
        lambda: integrate.quad(jnp.exp, 0.0, 1j),
        lambda: integrate.quad(jnp.exp, np.zeros(2), 1.0),
        lambda: integrate.quad(lambda x: 1, 0.0, 1.0),
    ):
        with pytest.raises(TypeError, match="quad"):
            call()
    with pytest.raises(ValueError, match="limit"):
        integrate.quad(jnp.exp, 0.0, 1.0, limit=0)


def test_limits_and_endless_ranges_of_quad() -> None:
    assert np.isnan(integrate.quad(lambda x: x * x, np.nan, 2.0)[0])
    assert np.isnan(integrate.quad(lambda x: jnp.ones_like(x), 0.0, np.nan)[0])
    for limits in ((np.inf, np.inf), (-np.inf, -np.inf), (2.0, 2.0)):
        assert integrate.quad(lambda x: jnp.exp(-x * x), *limits)[0] == 0
    # The tail far out counts, and so does its error.
    value, error = integrate.quad(lambda x: x**-1.05, 1.0, np.inf, limit=400)
    near(value, 20.0, 1e-6)
    value, error = integrate.quad(lambda x: x**-1.05, 1.0, np.inf)
    assert error > 0.01
    near(integrate.quad(lambda x: x**-1.5, 1.0, np.inf)[0], 2.0, 1e-9)
    near(integrate.quad(lambda x: jnp.exp(x), 1.0, -np.inf)[0], -np.e, 1e-9)
    with pytest.raises(TypeError, match="limit must be an int"):
        integrate.quad(jnp.exp, 0.0, 1.0, limit=2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="quad"):
        integrate.quad(jnp.exp, None, 1.0)


def test_integrals_of_samples() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 4, 9):
        y, x = rng.normal(size=(3, n)), np.sort(rng.normal(size=n))
        for keywords in ({}, {"x": x}, {"dx": 0.3}):
            near(integrate.simpson(y, **keywords), scipy.integrate.simpson(y, **keywords), 1e-11)
            for more in ({}, {"initial": 0}):
                near(
                    integrate.cumulative_trapezoid(y.T, axis=0, **keywords, **more),
                    scipy.integrate.cumulative_trapezoid(y.T, axis=0, **keywords, **more),
                    1e-12,
                )
    with pytest.raises(ValueError, match="points"):
        integrate.simpson(np.ones(4), x=np.ones(3))


def test_differential_equations() -> None:
    def slope_of(t: Any, y: Any, a: Any) -> Any:
        return [a * y[0] - y[0] * y[1], y[0] * y[1] - y[1]]

    def ours(t: Any, y: Any, a: Any) -> Any:
        return jnp.array(slope_of(t, y, a))

    times = np.linspace(0.5, 3, 6)
    start = np.array([1.0, 2.0])
    tight = {"rtol": 1e-9, "atol": 1e-10}
    got = integrate.solve_ivp(ours, (0.0, 3.0), start, t_eval=times, args=(1.3,), **tight)
    want = scipy.integrate.solve_ivp(slope_of, (0, 3), start, t_eval=times, args=(1.3,), **tight)
    near(got.y, want.y, 1e-7)
    assert bool(got.success)
    back = integrate.solve_ivp(ours, (3.0, 0.0), start, args=(1.3,), **tight)
    want = scipy.integrate.solve_ivp(slope_of, (3, 0), start, args=(1.3,), **tight)
    near(back.y[:, -1], want.y[:, -1], 1e-7)

    def last(t: Any) -> Any:
        return integrate.odeint(lambda y, t: -y * t, 1.0, jnp.stack([jnp.ones(()), t]))[-1]

    near(last(0.5), np.exp(0.5 - 0.125), 1e-7)
    near(pb.grad(last)(0.5), -0.5 * np.exp(0.375), 1e-6)
    for bad in (
        lambda: integrate.solve_ivp(ours, (0.0, 3.0), start, method="LSODA", args=(1.3,)),
        lambda: integrate.solve_ivp(ours, (0.0, 3.0), start, t_eval=[4.0], args=(1.3,)),
        lambda: integrate.solve_ivp(ours, (0.0, 3.0), 1.0, args=(1.3,)),
    ):
        with pytest.raises(ValueError, match="solve_ivp"):
            bad()


def test_times_of_differential_equations() -> None:
    def decay(y: Any, t: Any) -> Any:
        return -y

    times = np.array([0.0, 0.0, 1.0, 1.0, 2.0])
    near(integrate.odeint(decay, 1.0, times), np.exp(-times), 1e-7)
    near(pb.grad(lambda y: integrate.odeint(decay, y, times)[0])(1.0), 1.0)
    near(integrate.odeint(decay, 1, np.arange(3)), np.exp(-np.arange(3.0)), 1e-7)
    few = integrate.odeint(lambda y, t: -50 * y, 1.0, np.arange(3.0), mxstep=2)
    assert few[0] == 1 and np.isnan(few[1:]).all()
    with pytest.raises(ValueError, match="increase or decrease"):
        integrate.odeint(decay, 1.0, np.array([0.0, 1.0, 0.5]))
    for tolerances in ({"rtol": -1.0}, {"atol": -1.0}, {"rtol": 0.0, "atol": 0.0}):
        with pytest.raises(ValueError, match="rtol and atol"):
            integrate.odeint(decay, 1.0, np.arange(3.0), **tolerances)
        with pytest.raises(ValueError, match="rtol and atol"):
            integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], **tolerances)
    # Lists, as SciPy's users write them.
    got = integrate.solve_ivp(lambda t, y: [y[1], -y[0]], (0, 1), [1, 0], t_eval=[0, 0.5, 1])
    near(got.y[0], np.cos([0, 0.5, 1]), 1e-3)
    with pytest.raises(ValueError, match="t_eval"):
        integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=[0.5, 0.2, 0.7])


# --- roots ---
def line(x: Any, a: Any) -> Any:
    return jnp.cos(x) - a * x


def crossing(a: float) -> float:
    return float(scipy.optimize.brentq(lambda x: np.cos(x) - a * x, 0, 2, xtol=1e-15))


FINDERS = {
    "brentq": lambda a: optimize.brentq(line, 0.0, 2.0, (a,)),
    "bisect": lambda a: optimize.bisect(line, 0.0, 2.0, (a,)),
    "newton": lambda a: optimize.newton(line, 1.0, args=(a,)),
    "secant": lambda a: optimize.newton(line, 1.0, x1=0.5, args=(a,)),
    "slope": lambda a: optimize.newton(line, 1.0, lambda x, a: -jnp.sin(x) - a, (a,)),
    "halley": lambda a: optimize.newton(line, 1.0, None, a, fprime2=lambda x, a: -jnp.cos(x)),
    "scalar": lambda a: optimize.root_scalar(line, a, bracket=(0.0, 2.0)).root,
    "scalar newton": lambda a: optimize.root_scalar(line, a, x0=1.0).root,
    "scalar halley": lambda a: optimize.root_scalar(line, a, "halley", x0=1.0).root,
    "scalar secant": lambda a: optimize.root_scalar(line, a, x0=1.0, x1=0.5).root,
    "closure": lambda a: optimize.brentq(lambda x: line(x, a), 0.0, 2.0),
    "fixed": lambda a: optimize.fixed_point(lambda x: x + 0.5 * line(x, a), 1.0),
    "iterated": lambda a: optimize.fixed_point(
        lambda x: x + 0.5 * line(x, a), 1.0, method="iteration"
    ),
    "system": lambda a: optimize.root(lambda x: line(x, a), jnp.ones(1)).x[0],
}


FINDERS_MAPPED = ("brentq", "newton", "secant", "iterated", "system")


@pytest.mark.parametrize("name", FINDERS)
def test_roots(name: str) -> None:
    find = FINDERS[name]
    near(find(1.3), crossing(1.3), 1e-8)
    if name in FINDERS_MAPPED:
        near(pb.vmap(find)(np.array([0.6, 1.3])), [crossing(0.6), crossing(1.3)], 1e-8)
    first = slope(crossing, 1.3, 1e-2)
    near(pb.jit(pb.grad(find))(1.3), first, 1e-7)
    if name in ("closure", "newton", "fixed"):
        near(pb.jvp(find, (1.3,), (1.0,))[1], first, 1e-7)
    if name not in ("brentq", "iterated", "system"):
        return
    second = slope(lambda a: slope(crossing, a, 1e-2), 1.3, 1e-2)
    near(pb.grad(pb.grad(find))(1.3), second, 1e-6)


def test_roots_that_are_not_there() -> None:
    for find in (optimize.brentq, optimize.bisect):
        with pytest.raises(ValueError, match="must be finite"):
            find(lambda x: jnp.arctan(x) - 0.1, -np.inf, np.inf)
    assert not optimize.root_scalar(lambda x: x * x + 1, x0=0.0).converged
    with pytest.raises(RuntimeError, match="failed to converge"):
        optimize.newton(lambda x: x * x + 1, 0.0)
    assert optimize.newton(lambda x: x**3, 0.0) == 0
    found = optimize.root_scalar(lambda x: x * x - np.array([4.0, -1.0]), x0=np.array([1.0, 0.0]))
    assert list(np.asarray(found.converged)) == [True, False]
    with pytest.raises(RuntimeError) as failed:
        pb.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 2.0, maxiter=2))(2.0)
    assert "Tracer" not in str(failed.value)


@pytest.mark.parametrize("method", ("BFGS", "l-bfgs-experimental-do-not-rely-on-this"))
def test_options_of_minimize(method: str) -> None:
    def bowl(x: Any) -> Any:
        return jnp.sum((x - 1) ** 2)

    near(optimize.minimize(bowl, jnp.zeros(2), method=method, options={"maxiter": 9}).x, [1, 1])
    with pytest.raises(TypeError, match="unknown options"):
        optimize.minimize(bowl, jnp.zeros(2), method=method, options={"maxiters": 9})


def test_systems() -> None:
    def pair(x: Any, a: Any) -> list[Any]:
        return [x[0] + 0.5 * (x[0] - x[1]) ** 3 - a, 0.5 * (x[1] - x[0]) ** 3 + x[1]]

    def ours(a: Any) -> Any:
        return optimize.root(lambda x: jnp.array(pair(x, a)), jnp.zeros(2)).x

    def theirs(a: float) -> Any:
        return scipy.optimize.root(pair, [0, 0], (a,), tol=1e-14).x

    near(ours(1.0), theirs(1.0), 1e-9)
    near(pb.vmap(ours)(np.array([1.0, 2.0])), [theirs(1.0), theirs(2.0)], 1e-9)
    near(pb.jacrev(ours)(1.0), slope(theirs, 1.0, 1e-2), 1e-6)
    found = optimize.root(
        lambda x: jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([-1.2, 1.0])
    )
    near(found.x, [1, 1], 1e-10)
    assert int(found.status) == 1
    none = optimize.root(lambda x: x**2 + 1, jnp.ones(2))
    assert not bool(none.success) and int(none.status) in (2, 4)
    tree = optimize.root(lambda t: {"a": t["a"] - 1, "b": t["b"] ** 2 - 4}, {"a": 0.0, "b": 1.0})
    near(tree.x["b"], 2.0, 1e-9)


def test_a_derivative_of_many_unknowns_is_matrix_free() -> None:
    w = np.random.default_rng(0).normal(size=(300, 300)) / 60

    def total(b: Any) -> Any:
        x = optimize.fixed_point(lambda x: jnp.tanh(w @ x + b), jnp.zeros(300), method="iteration")
        return x.sum()

    b = np.full(300, 0.3)
    x = np.asarray(
        optimize.fixed_point(lambda x: jnp.tanh(w @ x + b), np.zeros(300), method="iteration")
    )
    d = 1 - x**2
    near(pb.grad(total)(b), np.linalg.solve((np.eye(300) - d[:, None] * w).T, np.ones(300)) * d)


def test_roots_that_are_not_found() -> None:
    with pytest.raises(ValueError, match="different signs"):
        optimize.brentq(lambda x: x * x + 1, 0.0, 1.0)
    assert np.isnan(pb.jit(lambda: optimize.brentq(lambda x: x * x + 1, 0.0, 1.0))())
    for fails in (
        lambda: optimize.brentq(lambda x: x**3 - 2, 0.0, 2.0, maxiter=2),
        lambda: optimize.newton(lambda x: x * x + 1, 0.5),
        lambda: optimize.fixed_point(lambda x: 2 * x + 1, 1.0, method="iteration", maxiter=20),
    ):
        with pytest.raises(RuntimeError, match="converge"):
            fails()
    _, how = optimize.brentq(lambda x: x**3 - 2, 0.0, 2.0, maxiter=2, full_output=True)
    assert not bool(how.converged) and int(how.iterations) == 2
    for bad in (
        lambda: optimize.root_scalar(line, 1.0, "ridder", bracket=(0, 1)),
        lambda: optimize.root_scalar(line, 1.0),
        lambda: optimize.root_scalar(line, 1.0, "secant", x0=1.0),
        lambda: optimize.brentq(line, 0.0, 2.0, (1.0,), maxiter=0),
        lambda: optimize.brentq(line, 0.0, 2.0, (1.0,), xtol=-1.0),
        lambda: optimize.brentq(line, np.zeros(2), 2.0, (1.0,)),
        lambda: optimize.root(lambda x: x[:1], jnp.ones(2)),
        lambda: optimize.root(lambda x: x, jnp.ones(2), method="krylov"),
        lambda: optimize.root(lambda x: x, jnp.ones(2), options={"eps": 1}),
        lambda: optimize.fixed_point(jnp.cos, 1.0, method="x"),
    ):
        with pytest.raises(ValueError):
            bad()


def test_what_a_solver_closes_over_has_no_derivative() -> None:
    """`custom_root`'s solve may mention values that are being differentiated, as in JAX."""

    def root_of(a: Any) -> Any:
        def solve(f: Any, x: Any) -> Any:
            return lax.fori_loop(0, 30, lambda _, x: x - (x * x - a) / (2 * x), x)

        return lax.custom_root(lambda x: x * x - a, 1.0, solve, lambda g, y: y / g(1.0))

    near(pb.grad(root_of)(2.0), 0.5 / np.sqrt(2), 1e-12)
    near(pb.jit(pb.grad(pb.grad(root_of)))(2.0), -0.25 * 2**-1.5, 1e-12)


# --- where JAX is far from the truth, or ours was ---
def test_special_functions_at_the_ends() -> None:
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, 1e30, -1e12])
    for name in ("dawsn", "sici"):
        got, want = getattr(special, name)(ends), getattr(scipy.special, name)(ends)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-11)


def test_log_ndtr_of_positive_numbers_keeps_its_digits() -> None:
    x = np.linspace(0.1, 8, 40)
    got, want = np.asarray(special.log_ndtr(x)), scipy.special.log_ndtr(x)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_the_density_of_nan_is_nan() -> None:
    x = np.array([np.nan, -1.0, 0.0, 0.7])
    want = scipy.stats.chi2.pdf(x, 3.0)
    np.testing.assert_allclose(np.asarray(chi2.pdf(x, 3.0)), want, rtol=1e-12)


def test_scaled_bessel_functions_far_out() -> None:
    """SciPy's kve is NaN there, its k0e is not."""
    x = np.array([1e8, 1e10, 1e15, 1e100, np.inf])
    for ours, scipys in (
        (special.k0e, scipy.special.k0e),
        (special.k1e, scipy.special.k1e),
        (lambda x: special.ive(0, x), scipy.special.i0e),
        (lambda x: special.ive(1, x), scipy.special.i1e),
        (lambda x: special.kve(0.5, x), lambda x: np.sqrt(np.pi / 2 / x)),
    ):
        np.testing.assert_allclose(ours(x), scipys(x), rtol=1e-14)
