"""Where JAX's program of a public function has a jitted function by name, ours has it, too."""

from __future__ import annotations

import functools
from typing import Any

import named_jits
import pytest
import sweep_cases

# Programs that once were without a name.
FOUND = (
    "i4(2, 3, lo=0, hi=2).choose([i4(2, 3, s=2), 2, i4(2, 3, s=3)], mode='clip')",
    "i4(2, 3, lo=0, hi=2).choose([i4(2, 3, s=2), 2, i4(2, 3, s=3)], mode='wrap')",
    "jnp.frompyfunc(lambda x, y: x + y, 2, 1).reduce(i4(2, 3))",
    "jnp.isin(i4(0), i4(2))",
    "jnp.nancumprod(i4(4), axis=-1)",
    "jnp.quantile(f4(2, 3), 0.5, method='inverted_cdf', weights=None)",
    "jnp.roll(f4(3, 4), (1.5, -2.5), (0, 1))",
    "jnp.roll(u4(1), i4(2))",
    "jnp.subtract.reduce(f4(2, 3), initial=0.5, where=b1(2, 3))",
    "jnp.take(f4(300), u1(3))",
    "sp.special.sph_harm_y(jnp.array([2]), jnp.array([1]), f4(1), f4(1, s=2), n_max=3)",
    "sp.stats.gaussian_kde(f4(2, 6)).resample(key, (3,))",
    "jnp.linalg.solve(f4(3, 3), f4(3))",
    "jnp.linalg.tensorinv(f4(2, 3, 6))",
    "jnp.intersect1d(i4(5), i4(3), size=3, return_indices=True)",
    "jnp.setxor1d(i4(5), i4(3), size=4)",
    "jnp.unique(i4(5), size=4)",
    "jax.random.binomial(key, f4(3), 0.3, shape=(3,))",
    "sp.linalg.convolution_matrix(f4(3), 4)",
    "sp.linalg.expm(f4(3, 3))",
    "sp.linalg.expm(f4(2, 3, 3), upper_triangular=True)",
    "sp.linalg.funm(f4(3, 3), jnp.exp)",
    "sp.linalg.lu(f4(3, 3))",
    "sp.linalg.lu_solve(sp.linalg.lu_factor(f4(3, 3)), f4(3))",
    "sp.linalg.polar(f4(3, 3), method='svd')",
    "sp.linalg.rsf2csf(f4(3, 3), f4(3, 3))",
    "sp.linalg.solve_sylvester(f4(3, 3), f4(2, 2), f4(3, 2))",
    "sp.linalg.sqrtm(f4(3, 3))",
    "sp.ndimage.map_coordinates(f4(4, 5), [f4(3), f4(3)], order=1)",
    "sp.special.dawsn(f4(3))",
    "sp.special.erfcx(f4(3))",
    "sp.special.exp1(f4(3))",
    "sp.special.expi(f4(3))",
    "sp.special.expn(2, f4(3))",
    "sp.special.fresnel(f4(3))",
    "sp.special.loggamma(c8(3))",
    "sp.special.lpmn(2, 2, f4(3))",
    "sp.special.lpmn_values(2, 2, f4(3), True)",
    "sp.special.ndtri(f4(3))",
    "sp.special.sici(f4(3))",
    "sp.special.spence(f4(3))",
    "sp.special.wofz(c8(3))",
    "sp.stats.gaussian_kde(f4(6), weights=f4(6, lo=1, hi=2)).d",
    "sp.stats.mode(i4(5))",
    "sp.stats.norm.ppf(f4(3))",
    "ode.initial_step_size(lambda y, t: -y, 0.0, f4(2), 4, 1e-3, 1e-6, f4(2, s=2))",
)
# A program that is not JAX's may hold its jitted functions in other places; the public function
# itself is the outermost, as JAX's is.
OUTERMOST = (
    "sp.special.expi(f4(3))",
    "sp.special.exp1(f4(3))",
    "sp.linalg.expm(f4(3, 3))",
    "sp.linalg.polar(f4(3, 3))",
    "sp.stats.mode(i4(5))",
    "jnp.intersect1d(i4(5), i4(3), size=3)",
    "sp.ndimage.map_coordinates(f4(4, 5), [f4(3), f4(3)], order=1)",
)


pytestmark = pytest.mark.filterwarnings("ignore")  # JAX's, of what is to go


@functools.cache
def modules() -> tuple[dict[str, Any], dict[str, Any]]:
    return named_jits.modules()


@pytest.mark.parametrize("call", FOUND)
def test_found(call: str) -> None:
    assert named_jits.missing(call, *modules()) == set()


@pytest.mark.parametrize("call", OUTERMOST)
def test_outermost(call: str) -> None:
    scopes, libs = modules()
    arrays = named_jits.arrays_of(call, scopes["jax"], libs["jax"])
    ours, theirs = (
        [
            c.name
            for c in named_jits.calls(
                named_jits.traced(call, scopes[root], libs[root], arrays).jaxpr
            )
        ]
        for root in ("pullback", "jax")
    )
    assert ours == theirs


def test_some_of_all(fuzz_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 40th of the sample table; named_jits.py traces all of it."""
    monkeypatch.setitem(sweep_cases.RATES, "scalar", 0.0)
    monkeypatch.setitem(sweep_cases.RATES, "bad", 0.0)
    wrong = {}
    for template in sweep_cases.templates()[fuzz_seed % 40 :: 40]:
        call = sweep_cases.draw(template, 0, fuzz_seed, False)
        lost = named_jits.missing(call, *modules())
        if lost:
            wrong[call] = lost
    assert not wrong
