"""Under strict promotion of dtypes and without promotion of ranks, as the tests of JAX run: what
JAX computes there is computed here, and with the same numbers as without the flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import scipy as sp
from pullback.experimental.ode import odeint
from pullback.scipy.spatial import transform

RANDOM = np.random.default_rng(3)
X, M = RANDOM.normal(size=7).astype(np.float32), RANDOM.normal(size=(2, 3, 3)).astype(np.float32)
I, LONG = np.arange(6, dtype=np.int32).reshape(2, 3), RANDOM.normal(size=300).astype(np.float32)
TURNS = RANDOM.normal(size=(3, 3)).astype(np.float32)

CALLS: dict[str, Callable[[], Any]] = {
    "mgrid": lambda: jnp.mgrid[0:2:0.5, 0:3],
    "ogrid": lambda: jnp.ogrid[0:3, 0:1:4j],
    "cov with weights": lambda: jnp.cov(M[0], aweights=np.abs(M[1, 0])),
    "sph_harm_y": lambda: sp.special.sph_harm_y(I[0], I[0] - 1, X[:3], X[3:6], n_max=3),
    "inverse turns": lambda: transform.Rotation.from_quat(jnp.ones((3, 4))).inv().as_quat(),
    "array_equiv": lambda: jnp.array_equiv(I, I[0]),
    "setdiff1d": lambda: jnp.setdiff1d(jnp.zeros(0), I),
    "rfftn": lambda: jnp.fft.rfftn(I, norm="ortho"),
    "ihfft": lambda: jnp.fft.ihfft(M, axis=-1),
    "dct": lambda: sp.fft.dct(X),
    "idct": lambda: sp.fft.idct(I),
    "std": lambda: jnp.asarray(X).std(dtype=complex),
    "stft": lambda: sp.signal.stft(LONG),
    "istft": lambda: sp.signal.istft(sp.signal.stft(LONG)[2]),
    "welch": lambda: sp.signal.welch(LONG),
    "csd": lambda: sp.signal.csd(LONG, LONG[::-1]),
    "slerp": lambda: transform.Slerp.init(
        jnp.arange(3.0), transform.Rotation.from_rotvec(jnp.asarray(TURNS))
    )(jnp.array([0.5, 1.5])).as_quat(),
    "dawsn": lambda: sp.special.dawsn(X),
    "erfcx": lambda: sp.special.erfcx(X),
    "fresnel": lambda: sp.special.fresnel(X),
    "sici": lambda: sp.special.sici(X),
    "wofz": lambda: sp.special.wofz(X + 1j * X[::-1]),
    "grad dawsn": lambda: pb.vmap(pb.grad(sp.special.dawsn))(X),
    "bessel_jn": lambda: sp.special.bessel_jn(jnp.abs(M), v=2),
    "multigammaln": lambda: sp.special.multigammaln(np.abs(M) + 3, 2),
    "outer": lambda: jnp.maximum.outer(I[0], I),
    "pinv": lambda: jnp.linalg.pinv(M),
    "jvp pinv": lambda: pb.jvp(jnp.linalg.pinv, (M,), (M,)),
    "slogdet": lambda: jnp.linalg.slogdet(M),
    "complex slogdet": lambda: jnp.linalg.slogdet(M + 1j * M[::-1]),
    "jvp complex slogdet": lambda: pb.jvp(jnp.linalg.slogdet, (M + 1j * M[::-1],), (M + 1j * M,)),
    "rsf2csf": lambda: sp.linalg.rsf2csf(M, M),
    "complex logsumexp": lambda: sp.special.logsumexp(X + 1j * X, b=X + 0j),
    "sort_complex": lambda: jnp.sort_complex(I),
    "tensordot": lambda: jnp.tensordot(I, M[0], 1, preferred_element_type=np.float32),
    "quantile": lambda: jnp.quantile(X, np.array([0.25, 0.5], np.float16)),
    "percentile": lambda: jnp.percentile(X.astype(np.float16), np.float32([10, 90])),
    "nanquantile": lambda: jnp.nanquantile(X.astype(np.float16), np.float32(0.3)),
    "polyfit": lambda: jnp.polyfit(LONG[:6], TURNS[[0, 1, 2, 2, 1, 0]], 2),
    "polyfit cov": lambda: jnp.polyfit(LONG[:6], TURNS[[0, 1, 2, 2, 1, 0]], 2, cov=True),
    "histogramdd": lambda: jnp.histogramdd(TURNS, bins=2, density=True),
    "reduce from a float": lambda: jnp.subtract.reduce(I, axis=1, initial=0.5),
    "reduce from a number": lambda: jnp.logical_xor.reduce(X, initial=2),
    "compress": lambda: jnp.compress(I[0] > 0, I, axis=1, size=3, fill_value=2.5),
    "geomspace": lambda: jnp.geomspace(np.int8(1), np.float16(3), 3, dtype=np.float32),
    "logspace": lambda: jnp.logspace(np.int8(1), np.float16(3), 3, dtype=np.float32),
    "l-bfgs": lambda: (
        sp.optimize.minimize(
            lambda x: jnp.sum((x - 1) ** 2), X, method="l-bfgs-experimental-do-not-rely-on-this"
        ).x
    ),
    "odeint": lambda: odeint(lambda y, t: -y, jnp.ones(2), jnp.linspace(0.0, 1.0, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_functions_do_inside_mixes_freely(name: str) -> None:
    free = CALLS[name]()
    with pb.config.numpy_dtype_promotion("strict"), pb.config.numpy_rank_promotion("raise"):
        strict = CALLS[name]()
    for x, y in zip(pb.tree.leaves(free), pb.tree.leaves(strict), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("how", ("set", "add", "multiply", "max", "power"))
def test_a_bool_set_in_integers_is_a_number(how: str) -> None:
    """As JAX takes the literal True, though no array of bools; beside floats it takes neither."""
    with pb.config.numpy_dtype_promotion("strict"):
        for at in (0, slice(0, 2), jnp.array([True, False, True])):
            given = getattr(jnp.arange(3).at[at], how)(True)
            np.testing.assert_array_equal(given, getattr(jnp.arange(3).at[at], how)(1))
        for x, value in ((I[0], np.True_), (X, True), (X > 0, 1)):
            with pytest.raises(ValueError, match="promotion"):
                getattr(jnp.asarray(x).at[0], how)(value)


@pytest.mark.parametrize("name", ("lpmn", "lpmn_values"))
def test_legendre_functions_mix_freely_and_say_that_they_are_deprecated(name: str) -> None:
    call = getattr(sp.special, name)
    more = (True,) if name == "lpmn_values" else ()
    with pytest.warns(DeprecationWarning, match=f"special.{name} is deprecated"):
        want = call(3, 3, X / 9, *more)
    with (
        pb.config.numpy_dtype_promotion("strict"),
        pb.config.numpy_rank_promotion("raise"),
        pytest.warns(DeprecationWarning),
    ):
        for x, y in zip(
            pb.tree.leaves(call(3, 3, X / 9, *more)), pb.tree.leaves(want), strict=True
        ):
            np.testing.assert_array_equal(x, y)


def test_arguments_do_not_mix() -> None:
    with pb.config.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="promotion"):
        jnp.add(X, np.int32(1))
    with pb.config.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="promotion"):
        jnp.maximum.outer(X, I)
    with pb.config.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="promotion"):
        jnp.add(M, M[0])
    for signature in (None, "(n),(n)->(n)"):
        with pb.config.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="promotion"):
            jnp.vectorize(lambda x, y: x + y, signature=signature)(M, M[0, 0])
