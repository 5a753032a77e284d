"""Derivatives of the incomplete gamma and beta functions, of any order and by every operand: they
are primitives of one family, so that reverse mode transposes no loop.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

import pullback
from pullback import lax

GAMMA = (1.3, 2.4)
BETA = (1.3, 2.4, 0.4)


def _difference(f: Any, at: Any, k: int) -> Any:
    step = 1e-5
    up, down = ([v + s * (j == k) for j, v in enumerate(at)] for s in (step, -step))
    return (f(*up) - f(*down)) / (2 * step)


@pytest.mark.parametrize(
    ("name", "orders"),
    [
        ("igamma", (0, 0)),
        ("igammac", (0, 1)),
        ("igamma_grad_a", (0,)),
        ("igamma_grad_a", (1, 1)),
        ("random_gamma_grad", (0,)),
        ("betainc", (0, 1)),
        ("betainc", (1, 2)),
    ],
)
def test_derivatives(name: str, orders: tuple[int, ...]) -> None:
    at = BETA if name == "betainc" else GAMMA
    with pullback.enable_x64(True):
        f = getattr(lax, name)
        for k in orders[:-1]:
            f = pullback.grad(f, k)
        found = pullback.grad(f, orders[-1])(*at)
        np.testing.assert_allclose(found, _difference(f, at, orders[-1]), rtol=1e-6)


def test_no_loop_is_transposed() -> None:
    """The program of a third derivative is a few equations."""
    third = pullback.grad(pullback.grad(pullback.grad(lax.igamma)))
    program = pullback.make_jaxpr(third)(*GAMMA)
    assert "orders=(3, 0)" in str(program) and "while" not in str(program)


def test_batched_and_broadcast() -> None:
    a = np.array([1.3, 2.0], "float32")
    slope = pullback.grad(lax.igamma_grad_a)
    many = pullback.vmap(slope, (0, None))(a, np.float32(2.4))
    np.testing.assert_allclose(many, [slope(v, np.float32(2.4)) for v in a], rtol=1e-5)


def test_what_has_no_derivative_says_so() -> None:
    """An order is not differentiated: no zeros are given for it."""
    with pytest.raises(ValueError, match="polygamma gradient with respect to m"):
        pullback.grad(lax.polygamma)(1.0, 2.0)
    with pytest.raises(NotImplementedError, match="zeta"):
        pullback.grad(lax.zeta)(2.0, 1.5)
    assert pullback.grad(lax.polygamma, 1)(1.0, 2.0) < 0


@pytest.mark.parametrize("a", [1.0, 1.0 + 1e-9, 2.0, 3.0])
def test_at_integers_the_derivatives_converge_too(a: float) -> None:
    """There the continued fractions of the values end early: their derivatives do not."""
    with pullback.enable_x64(True):
        for x in (a + 0.01, 1.5 * a, 2.0 * a):
            expected = _difference(lax.igamma, (a, x), 0)
            np.testing.assert_allclose(lax.igamma_grad_a(a, x), expected, rtol=1e-6)
        for x in (0.3, 0.5, 0.9):
            expected = _difference(lax.betainc, (2.0, a, x), 1)
            np.testing.assert_allclose(
                pullback.grad(lax.betainc, 1)(2.0, a, x), expected, rtol=1e-6
            )


def test_no_derivative_where_there_is_no_function() -> None:
    for a, x in ((-1.0, 1.0), (1.0, -1.0), (0.0, 1.0), (0.0, 0.0)):
        assert np.isnan(lax.igamma_grad_a(a, x))
    assert lax.igamma_grad_a(1.0, 0.0) == 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.0, 2.0],
        [0.0] * 5,
        [np.inf, -np.inf, 2.0],
        [-np.inf, -np.inf, 1.0],
        [1.0, np.inf, 2.0],
    ],
)
def test_running_logsumexp_of_equal_and_of_infinite_numbers(
    values: list[float], reverse: bool
) -> None:
    """Where two operands are equal their maximum has a kink, and the sum of exponentials none."""
    x = np.array(values, np.float32)
    weights = np.arange(1.0, len(x) + 1, dtype=np.float32)

    def all_of(m: Any) -> Any:
        f = lambda x: (m.lax.cumlogsumexp(x, 0, reverse) * weights).sum()
        return f(x), m.grad(f)(x), m.jit(m.hessian(f))(x)

    for ours, theirs in zip(all_of(pullback), all_of(jax), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


def test_edges_of_zeta_and_polygamma() -> None:
    """Poles and infinities are XLA's: a whole q up to 0 is infinite for even x, and NaN for odd."""
    at = np.array([-np.inf, -3, -2.5, -1, -0.5, -0.0, 0, 0.5, 1, 3, np.inf, np.nan], np.float32)
    for order in (0, 1, 2, 3, -1, 0.5, np.inf, np.nan):
        for name in ("polygamma", "zeta"):
            ours, theirs = (
                np.asarray(getattr(m.lax, name)(np.full_like(at, order), at))
                for m in (pullback, jax)
            )
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, err_msg=f"{name} {order}")
    ours = pullback.vmap(pullback.grad(pullback.grad(lax.digamma)))(at)
    np.testing.assert_allclose(ours, jax.vmap(jax.grad(jax.grad(jax.lax.digamma)))(at), rtol=2e-4)


@pytest.mark.parametrize("at", [(2.0, 3.0), (1.1, 0.3), (5.0, 10.0), (20.0, 1.0), (1.01, 200.0)])
def test_zeta_by_its_exponent(at: tuple[float, float]) -> None:
    """The sum of -log(k + q) (k + q)^-x, by Euler and Maclaurin; and its own derivatives."""
    mpmath = pytest.importorskip("mpmath")
    zeta = pullback.scipy.special.zeta
    with pullback.enable_x64(True):
        with mpmath.workprec(120):
            exact = mpmath.diff(lambda x: mpmath.zeta(x, at[1]), at[0])
        np.testing.assert_allclose(pullback.grad(zeta)(*at), float(exact), rtol=2e-15)
        for k in (0, 1):
            slope = pullback.grad(zeta, k)
            for n in (0, 1):
                second = pullback.grad(slope, n)(*at)
                np.testing.assert_allclose(second, _difference(slope, at, n), rtol=1e-5)


def test_zeta_by_its_exponent_as_jax() -> None:
    x, q = np.array([1.0, 1.5, 2.0, 8.0], "float32"), np.array([[3.0], [0.5]], "float32")
    every = [
        m.vmap(m.vmap(m.grad(m.scipy.special.zeta), (0, None)), (None, 0))(x, q[:, 0])
        for m in (pullback, jax)
    ]
    np.testing.assert_allclose(*every, rtol=1e-6)
    assert np.isnan(pullback.grad(pullback.scipy.special.zeta)(2.0, -1.5))


@pytest.mark.parametrize("x", [-30.0, 0.5, 20.0])
def test_gradients_of_numbers_are_as_strong_as_jaxs(x: float) -> None:
    for f in (
        lambda m: m.scipy.special.log_ndtr,
        lambda m: lambda x: m.scipy.special.expn(2, x * x),
        lambda m: lambda x: m.scipy.special.expn(2, x),
    ):
        ours, theirs = (m.grad(f(m))(x) for m in (pullback, jax))
        assert ours.weak_type == theirs.weak_type


def slopes(lib: Any, f: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    """The derivatives of a sum by each argument."""
    args = tuple(lib.numpy.asarray(v, "float32") for v in args)
    every = lib.grad(lambda *a: lib.numpy.sum(f(lib.scipy, *a)), tuple(range(len(args))))
    return [np.asarray(s) for s in every(*args)]


OUTSIDE = [-np.inf, -2.0, 0.5, 9.0, np.inf]


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda s, x: s.stats.laplace.cdf(x), ([-1.0, -0.0, 0.0, 2.0],)),
        (lambda s, x, c: s.stats.laplace.cdf(x, c), ([0.3, 1.0], [0.3, 1.0])),
        (lambda s, p: s.special.ndtri(p), ([0.0, 0.3, 1.0],)),
        (lambda s, p: s.stats.norm.ppf(p), ([0.0, 0.3, 1.0],)),
        (lambda s, x, b: s.stats.pareto.logcdf(x, b), ([0.2, 0.9, 3.0], [1.5, 2.0, 0.5])),
        (lambda s, x: s.stats.gamma.logsf(x, 0.5), ([0.0, 0.3],)),
        (lambda s, x: s.stats.gamma.logcdf(x, 1.5), ([-np.inf, -1.0, 0.3],)),
        (lambda s, h, a: s.special.owens_t(h, a), ([0.5, 1, -1, 2], [np.inf, np.inf, -np.inf, 3])),
        (lambda s, x: s.special.fresnel(x)[0], ([0.3, 2.0, 41.3, 1e8, 1e30],)),
        (lambda s, x: s.special.fresnel(x)[1], ([0.3, 2.0, -41.3, 1e8, 1e30],)),
        (lambda s, x: s.stats.cauchy.logsf(x), ([-3.0, 0.0, 40.0, 1e3],)),
    ],
)
def test_slopes_at_edges_are_jaxs(f: Any, args: Any) -> None:
    for got, want in zip(slopes(pullback, f, *args), slopes(jax, f, *args), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["cdf", "logcdf", "sf", "logsf"])
def test_slopes_of_truncated_normals_outside_and_far_out(name: str) -> None:
    """They were NaN: an unselected logarithm of nothing had an infinite slope."""
    for low, high in ((-1.0, 2.0), (0.5, np.inf), (-np.inf, 1.0), (8.0, 11.0), (-12.0, -7.0)):
        x = np.float32([v for v in OUTSIDE if name in ("cdf", "sf") or low < v < high] + [low + 1])
        x = x[np.isfinite(x)] if name.startswith("log") else x

        def f(s: Any, x: Any, low: float = low, high: float = high) -> Any:
            return getattr(s.stats.truncnorm, name)(x, low, high)

        assert np.isfinite(slopes(pullback, f, x)[0][np.isfinite(x)]).all(), (low, high)
    # By the ends, too.
    ends = ([0.7, -3.0, 5.0, 9.5], [-1.0, -1.0, -1.0, 9.0], [2.0, 2.0, 2.0, 10.0])
    if name in ("cdf", "sf"):
        by_ends = slopes(
            pullback, lambda s, x, a, b: getattr(s.stats.truncnorm, name)(x, a, b), *ends
        )
        assert all(np.isfinite(s).all() for s in by_ends)


def test_slopes_of_log_ndtr_far_into_the_tail() -> None:
    """JAX's logarithms cancel: at -1e8 it has 1. The ratio of density and probability is -x."""
    x = np.float32([-1e8, -1e4, -300, -41, -12, -10.5, -9.5, 0.3])
    wide = np.float64(x)
    want = np.exp(-0.5 * wide**2 - scipy.special.log_ndtr(wide)) / np.sqrt(2 * np.pi)
    want[:2] = -wide[:2]
    got = slopes(pullback, lambda s, x: s.special.log_ndtr(x), x)[0]
    np.testing.assert_allclose(got, want, rtol=3e-5)
    with pullback.enable_x64(True):
        wide = np.array([-1e3, -20.5, -19.5, -3.0])
        got = pullback.vmap(pullback.grad(pullback.scipy.special.log_ndtr))(wide)
        want = np.sqrt(2 / np.pi) / scipy.special.erfcx(-wide / np.sqrt(2))
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_gumbel_densities_at_infinity() -> None:
    for name, end in (("gumbel_l", np.inf), ("gumbel_r", -np.inf)):
        module = getattr(pullback.scipy.stats, name)
        assert module.logpdf(end) == -np.inf and module.pdf(end) == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_exponential_integrals_of_half_floats(dtype: str) -> None:
    """Their series were rounded at each term: six units in the last place."""
    special = pullback.scipy.special
    x = pullback.numpy.linspace(0.1, 6, 40).astype(dtype)
    exact = np.asarray(x, float)
    for got, want in (
        (special.exp1(x), scipy.special.exp1(exact)),
        (special.expi(x), scipy.special.expi(exact)),
        (special.expn(2, x), scipy.special.expn(2, exact)),
    ):
        assert got.dtype == x.dtype
        bound = 2.0**-8 if dtype == "bfloat16" else 2.0**-10
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=bound, atol=1e-6)


def test_exponential_integrals_keep_their_digits() -> None:
    """The fraction's factors were multiplied up: 30 units in the last place and more."""
    special = pullback.scipy.special
    x = np.concatenate([np.linspace(1.001, 3, 40), np.geomspace(3, 300, 60)])
    with pullback.enable_x64(True):
        eps = np.finfo(float).eps
        np.testing.assert_allclose(special.exp1(x), scipy.special.exp1(x), rtol=10 * eps)
        for n in (1, 2, 4, 7, 40):
            want = scipy.special.expn(n, x)
            np.testing.assert_allclose(special.expn(n, x), want, rtol=12 * eps, err_msg=str(n))
    single = np.float32(x[x < 80])
    want = scipy.special.expn(4, np.float64(single))
    np.testing.assert_allclose(special.expn(4, single), want, rtol=5e-7)
