"""Incomplete gamma functions of large parameters, tails of distributions and what is not a number:
beside SciPy, where JAX's own values are coarse or wrong."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

import pullback as pb
import pullback.numpy as jnp
import pullback.scipy.stats as stats
from pullback.scipy import linalg, special

ROOTS = np.array([-3, -1, -0.01, 0, 0.02, 1, 3.0])


@pytest.mark.parametrize("a", (9.9, 10.0, 300.0, 9999.0, 1e4, 1e5, 1e6, 1e8, 1e12))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_incomplete_gamma_functions_of_large_parameters(a: float, dtype: str) -> None:
    """At some standard deviations around their middle."""
    with pb.enable_x64(dtype == "float64"):
        x = np.abs(a + ROOTS * np.sqrt(a)).astype(dtype)
        shape = np.asarray(a, dtype)
        for name in ("gammainc", "gammaincc"):
            want = getattr(scipy.special, name)(np.float64(shape), np.float64(x))
            got = getattr(special, name)(shape, x)
            # SciPy's own error in the tails is 1e-9 for the largest.
            near = 5e-6 if dtype == "float32" else 1e-13 * np.sqrt(a) if a < 1e4 else 3e-9
            np.testing.assert_allclose(got, want, rtol=near)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_incomplete_gamma_functions_of_small_parameters(dtype: str) -> None:
    """There Q is a E_1(x), which 1 - P loses: values below 0 and probabilities above 1 came."""
    with pb.enable_x64(dtype == "float64"):
        powers = [1e-36, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.51]
        a = np.array(powers, dtype)[:, None]
        x = np.array([1e-30, 1e-9, 1e-3, 0.2, 0.9, 1, 1.01, 3], dtype)
        upper, lower = special.gammaincc(a, x), special.gammainc(a, x)
        want = scipy.special.gammaincc(a.astype(float), x.astype(float))
        # Just above 1 the continued fraction is used, which is slowest there.
        np.testing.assert_allclose(upper, want, rtol=2e-6 if dtype == "float32" else 4e-14)
        assert (upper >= 0).all() and (lower <= 1).all()


def test_far_tails_of_the_incomplete_gamma_function() -> None:
    """Values by mpmath."""
    with pb.enable_x64(True):
        for a, x, value in (
            (1e6, 980000.0, 1.8371857329071327e-90),
            (1e8, 99940000.0, 9.795213436473598e-10),
            (1e4, 8000.0, 6.135448501090494e-103),
        ):
            np.testing.assert_allclose(special.gammainc(a, x), value, rtol=2e-13)


def test_slopes_of_the_incomplete_gamma_function_of_large_parameters() -> None:
    with pb.enable_x64(True):
        for a, x, slope in (
            (2e4, 2e4, -0.0028209596717),
            (2e4, 2.01e4, -0.0021933116042),
            (1e6, 999500.0, -0.000352138723535),
        ):
            np.testing.assert_allclose(pb.grad(special.gammainc)(a, x), slope, rtol=1e-10)
            density = scipy.stats.gamma.pdf(x, a)
            np.testing.assert_allclose(pb.grad(special.gammainc, 1)(a, x), density, rtol=1e-8)
            assert np.isfinite(pb.grad(pb.grad(special.gammainc))(a, x))


def test_incomplete_gamma_functions_of_infinity() -> None:
    inf = np.inf
    for a, x in ((inf, 1.0), (1.0, inf), (inf, inf), (1e30, 1.0), (1.0, 1e30), (50.0, 1e-30)):
        np.testing.assert_array_equal(special.gammainc(a, x), scipy.special.gammainc(a, x))
        np.testing.assert_array_equal(special.gammaincc(a, x), scipy.special.gammaincc(a, x))


TAILS = {
    "norm.isf": (np.array([1e-300, 1e-20, 1e-8, 0.3, 1.0]), ()),
    "expon.logcdf": (np.array([1e-300, 0.5, 37.0, 100.0]), ()),
    "gumbel_l.logcdf": (np.array([-30.0, 0.5, 3.7]), ()),
    "chi2.logcdf": (np.array([0.5, 40.0, 100.0, 700.0]), (3.5,)),
    "chi2.logsf": (np.array([1e-20, 1e-8, 3.0, 700.0]), (3.5,)),
    "gamma.logcdf": (np.array([0.5, 37.0, 100.0]), (0.3,)),
    "gamma.logsf": (np.array([1e-20, 1e-8, 3.0, 300.0]), (2.0,)),
    "beta.logcdf": (np.array([1e-20, 0.3, 1 - 1e-12]), (2.0, 3.0)),
    "beta.logsf": (np.array([1e-20, 1e-8, 0.9]), (0.5, 0.5)),
    "beta.sf": (np.array([1e-300, 1e-20, 1e-3]), (1e-3, 1e3)),
    "gennorm.cdf": (np.array([-40.0, -3.0, -0.0, 0.5, 9.0]), (1.0,)),
    "poisson.cdf": (np.array([9e5, 1e6, 1.001e6, np.inf]), (1e6,)),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails(name: str) -> None:
    x, more = TAILS[name]
    family, f = name.split(".")
    ours, theirs = (getattr(getattr(m, family), f) for m in (stats, scipy.stats))
    with pb.enable_x64(True):
        want = theirs(x, *more)
        np.testing.assert_allclose(ours(x, *more), want, rtol=1e-9)
        inner = x[np.isfinite(want) & (x != 0) & np.isfinite(x) & (np.abs(want) > 1e-200)]
        slopes = pb.vmap(pb.grad(lambda v: ours(v, *more)))(inner)
        assert np.all(np.isfinite(slopes)), slopes


NANS = {
    "uniform.cdf": (),
    "gamma.pdf": (2.0,),
    "gamma.logpdf": (2.0,),
    "wrapcauchy.logpdf": (0.5,),
    "binom.logpmf": (5.0, 0.3),
    "poisson.logpmf": (3.0,),
    "truncnorm.cdf": (-1.0, 2.0),
    "truncnorm.logcdf": (-np.inf, np.inf),
    "truncnorm.sf": (0.0, np.inf),
    "truncnorm.logsf": (-1.0, 2.0),
    "poisson.entropy": None,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's
@pytest.mark.parametrize("name", NANS)
def test_of_what_is_not_a_number(name: str) -> None:
    family, f = name.split(".")
    ours, theirs = (getattr(getattr(m, family), f) for m in (stats, scipy.stats))
    more = NANS[name]
    args = (-np.inf,) if more is None else (np.nan, *more)
    assert np.isnan(theirs(*args))
    assert np.isnan(ours(*args))


def same(f: Any) -> None:
    """As JAX has it."""
    np.testing.assert_allclose(f(pb), f(jax), rtol=1e-5)


def test_survival_function_of_pareto_with_a_negative_scale() -> None:
    x = np.array([-3.0, -1.0, 0.5, 2.0], "float32")
    same(lambda m: m.scipy.stats.pareto.sf(x, 2.0, scale=-1.0))


def test_parts_of_a_degree_of_freedom() -> None:
    x = np.array([[1.0, 2.0, np.nan, 7.0], [0.5, np.nan, np.nan, 3.0]], "float32")
    for ddof in (0.5, 1.5, np.float32(0.25), 1):
        same(lambda m, d=ddof: m.numpy.nanvar(x, axis=1, ddof=d))
        same(lambda m, d=ddof: m.scipy.stats.sem(x.T, ddof=d, nan_policy="omit"))
    same(lambda m: m.numpy.nanstd(x.astype("float16"), ddof=0.5).astype("float32"))


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_quantiles_and_shapes_of_complex_operands() -> None:
    z = np.array([0.3 + 1j, 0.6], "complex64")
    for f in ("expon", "uniform"):
        same(lambda m, f=f: getattr(m.scipy.stats, f).ppf(np.float32([0.2, 0.7]), 0.5, z))
    same(lambda m: m.scipy.stats.norm.isf(np.float32(0.2), z))
    for call in (
        lambda m: m.stats.gumbel_r.sf(np.ones(10), z[:, None] * np.ones(3)),
        lambda m: m.stats.uniform.ppf(np.ones(10), np.ones((2, 3)), np.ones(3)),
    ):
        for m in (pb.scipy, jax.scipy):
            with pytest.raises(ValueError, match=r"[Ii]ncompatible shapes"):
                call(m)


def test_counts_of_several_dtypes() -> None:
    p = np.array([0.2, 0.3, 0.5], "float32")
    yes = np.array([True, True, False])
    same(lambda m: m.scipy.stats.multinomial.logpmf(yes, np.int32(2), p))
    for m in (pb, jax):
        with m.enable_x64(True), pytest.raises(ValueError, match="integer type"):
            m.scipy.stats.multinomial.pmf(m.numpy.ones(3, "uint64"), m.numpy.int32(3), p)


def test_relative_entropies_of_counts_and_a_number_are_as_strong_as_in_jax() -> None:
    counts = np.array([0, 3, 1], "uint8")
    for name in ("rel_entr", "kl_div"):
        ours, theirs = (getattr(m.scipy.special, name)(counts, 0.5) for m in (pb, jax))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert ours.weak_type == theirs.weak_type


def test_squarings_of_the_matrix_exponential_are_counted_as_in_jax() -> None:
    a = np.array([[7, 3, 6], [5, 0, 7], [1, 2, 5]], "float32")
    for most in (1, 2, 3):
        same(lambda m, k=most: m.scipy.linalg.expm(a, max_squarings=k))
    assert np.isnan(linalg.expm(a, max_squarings=1)).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_legendre_functions_outside_of_their_interval() -> None:
    z = np.array([-1.5, 0.3, 2.0], "float32")
    same(lambda m: m.scipy.special.lpmn(1, 1, m.numpy.asarray(z))[0])
    same(lambda m: m.scipy.special.lpmn_values(1, 1, m.numpy.asarray(z), False))
    assert not jnp.isnan(special.lpmn(1, 1, jnp.asarray(z))[1][1, 0]).any()
