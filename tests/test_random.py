"""Keys and random numbers equal JAX's: bits exactly, floats within a few units in the last
place.
"""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import numpy as np
import pytest

import pullback
import pullback.lax
import pullback.random
from pullback.backends.llvm import compiler, tier
from pullback.backends.llvm.target import host_target
from pullback.extend.random import threefry2x32_p
from pullback.processor import computes_halves

SEEDS = (0, 1, 42, -1, 2**31, 2**40 + 3)
P5 = np.array([0.1, 0.2, 0.4, 0.05, 0.25], np.float32)
X = np.arange(12, dtype=np.float32).reshape(3, 4)
COL = np.array([[0.5], [1.5], [4.0]], np.float32)
I5 = np.arange(5) + 10


def same(ours: Any, theirs: Any, tol: float = 0.0) -> None:
    a, b = np.asarray(ours), np.asarray(theirs)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if tol and a.dtype.kind in "fc":
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("partitionable", (True, False))
@pytest.mark.parametrize("seed", SEEDS)
def test_keys(seed: int, partitionable: bool) -> None:
    out = []
    for P in (pullback, jax):
        R = P.random
        with P.threefry_partitionable(partitionable):
            k = R.key(seed)
            ks = R.split(k, (2, 3))
            out.append(
                [
                    R.key_data(x)
                    for x in (
                        k,
                        R.split(k),
                        R.split(k, 3),
                        ks,
                        R.fold_in(k, 7),
                        R.fold_in(k, np.uint32(2**32 - 1)),
                    )
                ]
                + [R.PRNGKey(seed), R.split(R.PRNGKey(seed), 3), R.fold_in(R.PRNGKey(seed), 3)]
                + [R.bits(k, (n,), d) for n in (1, 2, 3, 5) for d in ("uint8", "uint16", "uint32")]
                + [R.bits(k), R.bits(k, (2, 3)), R.bits(k, (0,))]
            )
    for a, b in zip(*out, strict=True):
        same(a, b)


@pytest.mark.parametrize("impl", ("rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"))
def test_generators(impl: str) -> None:
    out = []
    for P in (pullback, jax):
        R = P.random
        k = R.key(5, impl=impl)
        out.append(
            [R.key_data(x) for x in (k, R.split(k, 3), R.fold_in(k, 2))]
            + [R.bits(k, (5,)), R.bits(k, (3,), "uint8")]
            + [R.randint(k, (4,), -3, 9), R.uniform(k, (2,)), R.permutation(k, 5)]
        )
        assert R.key_impl(k) == impl and repr(R.split(k)) == repr(R.split(R.clone(k)))
    for a, b in zip(*out, strict=True):
        same(a, b)


@pytest.mark.parametrize("impl", ("philox2x32", "philox4x32", "threefry4x32"))
def test_ciphers(impl: str) -> None:
    """Wide seeds and numbers, arrays of keys, and the flag that names the generator of new keys."""
    out = []
    for P in (pullback, jax):
        R, np_ = P.random, P.numpy
        with P.enable_x64(True):
            keys = [R.key(seed, impl=impl) for seed in (0, -5, 2**40 + 3, np.uint32(2**32 - 1))]
            got = [R.key_data(k) for k in keys] + [R.bits(k, (2, 3), "uint64") for k in keys]
        many = R.split(R.key(1, impl=impl), (2, 3))
        got.append(R.key_data(many))
        got.append(P.vmap(lambda k, R=R: R.bits(k, (3,), "uint16"))(many[0]))
        got.append(R.key_data(P.vmap(R.fold_in)(many[1], np_.arange(3))))
        got.append(R.key_data(P.vmap(R.fold_in, (None, 0))(many[1, 0], np_.arange(3))))
        got.append(P.jit(lambda s, R=R: R.bits(R.key(s, impl=impl), (5,)))(np.int32(7)))
        with P.default_prng_impl(impl):
            got += [R.PRNGKey(3), R.bits(R.PRNGKey(3), (2,)), R.split(R.PRNGKey(3))]
        with P.threefry_partitionable(False):
            got.append(R.bits(R.key(9, impl=impl), (3,)))
        out.append(got)
    for a, b in zip(*out, strict=True):
        same(a, b)


def test_key_arrays() -> None:
    R, J = pullback.random, jax.random
    k, j = R.key(0), J.key(0)
    assert repr(k) == repr(j) and str(R.split(k, 3)) == str(J.split(j, 3))
    ks, js = R.split(k, 6), J.split(j, 6)
    for a, b in (
        (ks[0], js[0]),
        (ks[1:3], js[1:3]),
        (ks.reshape(2, 3).T, js.reshape(2, 3).T),
        (list(ks)[-1], list(js)[-1]),
    ):
        same(R.key_data(a), J.key_data(b))
    assert (ks.shape, ks.ndim, ks.size, len(ks), ks.dtype.name, ks.nbytes) == (
        js.shape,
        js.ndim,
        js.size,
        len(js),
        js.dtype.name,
        js.nbytes,
    )
    same(ks == ks[0], js == js[0])
    same(ks != ks[0], js != js[0])
    same(pullback.numpy.isclose(ks, ks[0]), jax.numpy.isclose(js, js[0]))
    assert pullback.numpy.allclose(ks, ks)
    for bad in (np.asarray, hash, int):
        with pytest.raises(TypeError):
            bad(k)
    same(
        R.key_data(R.wrap_key_data(np.arange(4, dtype=np.uint32).reshape(2, 2))),
        np.arange(4, dtype=np.uint32).reshape(2, 2),
    )


DISTRIBUTIONS: dict[str, tuple[Any, float]] = {
    "uniform": (lambda R, k: R.uniform(k, (1000,)), 0),
    "uniform range": (lambda R, k: R.uniform(k, (7,), minval=-2.0, maxval=5.0), 2e-7),
    "uniform bf16": (lambda R, k: R.uniform(k, (50,), "bfloat16").astype("float32"), 0),
    "uniform f16": (lambda R, k: R.uniform(k, (50,), "float16"), 0),
    "normal": (lambda R, k: R.normal(k, (1000,)), 3e-6),
    "normal scalar": (lambda R, k: R.normal(k), 3e-6),
    "normal complex": (lambda R, k: R.normal(k, (9,), "complex64"), 3e-6),
    "randint": (lambda R, k: R.randint(k, (1000,), -5, 17), 0),
    "randint big": (lambda R, k: R.randint(k, (9,), -(2**31), 2**31 - 1), 0),
    "randint uint8": (lambda R, k: R.randint(k, (99,), 0, 256, "uint8"), 0),
    "randint int8": (lambda R, k: R.randint(k, (99,), -300, 300, "int8"), 0),
    "randint uint32": (lambda R, k: R.randint(k, (9,), 3, 100, "uint32"), 0),
    "randint empty range": (lambda R, k: R.randint(k, (9,), 5, 5), 0),
    "randint floats": (lambda R, k: R.randint(k, (9,), 0.5, 7.7), 0),
    "randint arrays": (lambda R, k: R.randint(k, (3,), np.arange(3), np.arange(3) + 9), 0),
    "bernoulli": (lambda R, k: R.bernoulli(k, 0.3, (100,)), 0),
    "bernoulli array": (lambda R, k: R.bernoulli(k, P5), 0),
    "bernoulli high": (lambda R, k: R.bernoulli(k, 0.3, (100,), mode="high"), 0),
    "rademacher": (lambda R, k: R.rademacher(k, (100,)), 0),
    "permutation": (lambda R, k: R.permutation(k, 100), 0),
    "permutation array": (lambda R, k: R.permutation(k, X), 0),
    "permutation axis": (lambda R, k: R.permutation(k, X, axis=1), 0),
    "permutation independent": (lambda R, k: R.permutation(k, X, axis=1, independent=True), 0),
    "choice": (lambda R, k: R.choice(k, 100, (20,)), 0),
    "choice array": (lambda R, k: R.choice(k, X, (2,), axis=1), 0),
    "choice without": (lambda R, k: R.choice(k, 100, (20,), replace=False), 0),
    "choice array without": (lambda R, k: R.choice(k, X, (2,), replace=False), 0),
    "choice p": (lambda R, k: R.choice(k, 5, (50,), p=P5), 0),
    "choice p without": (lambda R, k: R.choice(k, 5, (3,), replace=False, p=P5), 0),
    "categorical": (lambda R, k: R.categorical(k, np.log(P5), shape=(99,)), 0),
    "categorical rows": (lambda R, k: R.categorical(k, X), 0),
    "categorical without": (
        lambda R, k: R.categorical(k, np.log(P5), shape=(3,), replace=False),
        0,
    ),
    "gumbel": (lambda R, k: R.gumbel(k, (100,)), 1e-5),
    "gumbel high": (lambda R, k: R.gumbel(k, (100,), mode="high"), 1e-5),
    "exponential": (lambda R, k: R.exponential(k, (100,)), 3e-6),
    "laplace": (lambda R, k: R.laplace(k, (100,)), 3e-6),
    "logistic": (lambda R, k: R.logistic(k, (100,)), 1e-5),
    "truncated_normal": (lambda R, k: R.truncated_normal(k, -1.0, 2.0, (100,)), 1e-5),
    "cauchy": (lambda R, k: R.cauchy(k, (50,)), 1e-4),
    "pareto": (lambda R, k: R.pareto(k, 2.0, (50,)), 1e-5),
    "rayleigh": (lambda R, k: R.rayleigh(k, 2.0, (50,)), 1e-5),
    "weibull_min": (lambda R, k: R.weibull_min(k, 1.5, 2.0, (50,)), 1e-5),
    "maxwell": (lambda R, k: R.maxwell(k, (50,)), 1e-5),
    "double_sided_maxwell": (lambda R, k: R.double_sided_maxwell(k, 0.5, 2.0, (50,)), 1e-5),
    "lognormal": (lambda R, k: R.lognormal(k, 0.5, (50,)), 1e-5),
    "triangular": (lambda R, k: R.triangular(k, 0.0, 1.0, 3.0, (50,)), 1e-5),
    "wald": (lambda R, k: R.wald(k, 2.0, (50,)), 1e-4),
    # Parameters of different ranks.
    "uniform bounds": (lambda R, k: R.uniform(k, (2, 3, 5), minval=-COL, maxval=P5), 2e-6),
    # Batches that are broadcast to the shape.
    "categorical of one": (lambda R, k: R.categorical(k, P5[None], shape=(3, 4)), 0),
    "categorical along 1": (
        lambda R, k: R.categorical(k, np.stack([P5, I5])[..., None], 1, (6, 2, 10)),
        0,
    ),
    # Bounds of more axes than the numbers: minval's shape is the result's.
    "uniform maxval (1, 1)": (lambda R, k: R.uniform(k, (), maxval=np.full((1, 1), 3.0)), 2e-7),
    "uniform minval (1, 1)": (lambda R, k: R.uniform(k, (), minval=np.full((1, 1), -3.0)), 2e-7),
    "uniform maxval (1, 2)": (lambda R, k: R.uniform(k, (2,), maxval=P5[None, :2]), 2e-7),
    "randint bounds": (lambda R, k: R.randint(k, (3, 5), np.arange(3)[:, None], I5), 0),
    "truncated bounds": (lambda R, k: R.truncated_normal(k, -COL, P5), 1e-5),
    "weibull_min shapes": (lambda R, k: R.weibull_min(k, COL, 2 * P5), 1e-4),
    "double_sided_maxwell shapes": (lambda R, k: R.double_sided_maxwell(k, COL, P5), 1e-5),
    "rademacher bool": (lambda R, k: R.rademacher(k, (9,), bool), 0),
    "permutation of none": (lambda R, k: R.permutation(k, -1), 0),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str) -> None:
    f, tol = DISTRIBUTIONS[name]
    same(f(pullback.random, pullback.random.key(3)), f(jax.random, jax.random.key(3)), tol)


def test_mapped() -> None:
    out = []
    for P in (pullback, jax):
        ks = P.random.split(P.random.key(1), 4)
        out.append(
            [
                P.vmap(lambda k, P=P: P.random.uniform(k, (3,)))(ks),
                P.vmap(lambda i, P=P: P.random.key_data(P.random.fold_in(P.random.key(2), i)))(
                    np.arange(3)
                ),
                P.vmap(lambda k, P=P: P.random.key_data(P.random.split(k, 2)))(ks),
                P.vmap(lambda s, P=P: P.random.key_data(P.random.key(s)))(np.arange(3)),
            ]
        )
    for a, b in zip(*out, strict=True):
        same(a, b)


@pytest.mark.parametrize(
    ("call", "error"),
    (
        (lambda R: R.key(1.5), TypeError),
        (lambda R: R.key(np.array([1, 2])), TypeError),
        (lambda R: R.key(0, impl="no such"), ValueError),
        (lambda R: R.wrap_key_data(np.arange(3, dtype=np.uint32)), TypeError),
        (lambda R: R.wrap_key_data(np.arange(2, dtype=np.int32)), TypeError),
        (lambda R: R.uniform(R.split(R.key(0), 3)), ValueError),
        (lambda R: R.uniform(0), TypeError),
        (lambda R: R.uniform(R.key(0), dtype=int), ValueError),
        (lambda R: R.uniform(R.key(0), (2.5,)), TypeError),
        (lambda R: R.uniform(R.key(0), (), maxval=np.ones(2)), ValueError),
        (lambda R: R.uniform(R.key(0), (1,), minval=np.ones((1, 1))), TypeError),
        (lambda R: R.uniform(R.key(0), (2,), minval=np.ones(3), maxval=np.ones(2)), TypeError),
        (lambda R: R.uniform(R.key(0), (1,), maxval=np.ones((1, 2))), ValueError),
        (lambda R: R.fold_in(R.key(0), -1), OverflowError),
        (lambda R: R.fold_in(R.key(0), None), ValueError),
        (lambda R: R.fold_in(R.key(0), "a"), ValueError),
        (lambda R: R.fold_in(R.key(0), [1, 2]), TypeError),
        (lambda R: R.split(R.split(R.key(0), 3)), ValueError),
        (lambda R: R.choice(R.key(0), 3, (5,), replace=False), ValueError),
        (lambda R: R.bernoulli(R.key(0), 1), TypeError),
        (lambda R: R.gumbel(R.key(0), mode="x"), ValueError),
    ),
)
def test_errors(call: Any, error: type[Exception]) -> None:
    for P in (jax, pullback):
        with pytest.raises(error):
            call(P.random)


def test_numbers_out_of_range_stay_errors_when_calls_are_native() -> None:
    key = pullback.random.key(0)
    for k in range(12):
        pullback.random.fold_in(key, k)
    for data in (-1, -(2**40), 2**32):
        with pytest.raises(OverflowError, match="out of bounds for uint32"):
            pullback.random.fold_in(key, data)
    assert pullback.random.fold_in(key, 2**32 - 1) == pullback.random.fold_in(key, np.int32(-1))


# The first words of SHA-256 sums of what JAX 0.10.2 gives, compiled as users have it: the tests'
# own JAX runs with flags that round otherwise.
DIGESTS = {
    "log": "5a12fb251f737d00",
    "log1p of large": "0c20048f309e1985",
    "log1p": "abb7b3ad6d667ecc",
    "erf_inv": "ed651636f4b2f771",
    "normal": "187f3f23003e7953",
    "gumbel": "2a5010d47dcc9f97",
    "exponential": "3c8559b785b2bd99",
}


@pytest.mark.skipif(not host_target().fma, reason="XLA has fused multiply-adds")
def test_float32_streams_are_jaxs_to_the_bit() -> None:
    rng = np.random.default_rng(4)
    x = np.exp(rng.uniform(-80, 80, 20000)).astype(np.float32)
    u = rng.uniform(-1, 1, 20000).astype(np.float32)
    k, n = pullback.random.key(0), (20000,)
    results = {
        "log": pullback.lax.log(x),
        "log1p of large": pullback.lax.log1p(x),
        "log1p": pullback.lax.log1p(u),
        "erf_inv": pullback.lax.erf_inv(u),
        "normal": pullback.random.normal(k, n),
        "gumbel": pullback.random.gumbel(k, n),
        "exponential": pullback.random.exponential(k, n),
    }
    got = {
        name: hashlib.sha256(np.asarray(v).tobytes()).hexdigest()[:16]
        for name, v in results.items()
    }
    assert got == DIGESTS


def test_matrices() -> None:
    out = []
    for P in (pullback, jax):
        R, k = P.random, P.random.key(5)
        mean = np.arange(3, dtype=np.float32)
        cov = np.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 0.7]], np.float32)
        out.append(
            [R.multivariate_normal(k, mean, cov, (4,), method=m) for m in ("cholesky", "eigh")]
            + [R.multivariate_normal(k, np.zeros((2, 1, 3), np.float32), np.stack([cov] * 5))]
            + [R.orthogonal(k, 3), R.orthogonal(k, 3, m=5), R.orthogonal(k, 4, (2,), m=2)]
        )
    for a, b in zip(*out, strict=True):
        same(a, b, 1e-5)


def test_gradients_of_gamma_numbers() -> None:
    """By implicit differentiation, as JAX's."""
    a = np.array([0.3, 1.0, 2.5, 20.0], np.float32)
    out = []
    for P in (pullback, jax):
        R, k = P.random, P.random.key(7)
        out.append(
            [
                P.grad(lambda a, f=f, k=k: f(k, a).sum())(a)
                for f in (R.gamma, R.loggamma, R.chisquare, R.t)
            ]
            + [P.grad(lambda a, R=R, k=k: R.beta(k, a, 2.0, (4,)).sum())(np.float32(2))]
            + [P.vmap(R.gamma, (None, 0))(k, a), P.vmap(R.gamma, (0, None))(R.split(k, 3), a)]
        )
    for x, y in zip(*out, strict=True):
        same(x, y, 3e-5)


@pytest.mark.parametrize(
    ("call", "error"),
    (
        (lambda R, k: R.gamma(k, np.ones(3), (2,)), ValueError),
        (lambda R, k: R.gamma(k, 1.0, dtype=int), ValueError),
        (lambda R, k: R.beta(k, np.ones(3), np.ones(2)), ValueError),
        (lambda R, k: R.chisquare(k, np.float32(3), dtype="float16"), ValueError),
        (lambda R, k: R.dirichlet(k, 1.0), ValueError),
        (lambda R, k: R.dirichlet(k, np.ones((2, 3)), (3,)), ValueError),
        (lambda R, k: R.poisson(k, 2.0, dtype="float32"), ValueError),
        (lambda R, k: R.poisson(R.key(0, impl="rbg"), 2.0), NotImplementedError),
        (lambda R, k: R.binomial(k, 5, 0.5, dtype="int32"), ValueError),
        (lambda R, k: R.multinomial(k, 5, np.array(0.5)), ValueError),
        (lambda R, k: R.multinomial(k, 5, np.array([0.5, 0.5]), shape=(3,)), ValueError),
        (lambda R, k: R.geometric(k, 0.5, dtype="float32"), ValueError),
        (lambda R, k: R.orthogonal(k, -3), ValueError),
        (lambda R, k: R.orthogonal(k, 3.0), TypeError),
        (lambda R, k: R.ball(k, 2.5), TypeError),
        (lambda R, k: R.multivariate_normal(k, 0.0, np.eye(3)), ValueError),
        (lambda R, k: R.multivariate_normal(k, np.zeros(3), np.eye(2)), ValueError),
        (lambda R, k: R.multivariate_normal(k, np.zeros(3), np.eye(3), method="x"), ValueError),
        (lambda R, k: R.gamma(R.split(k), 2.0), ValueError),
        (lambda R, k: R.gamma(0.5, 2.0), TypeError),
    ),
)
def test_errors_of_distributions(call: Any, error: type[Exception]) -> None:
    for P in (jax, pullback):
        with pytest.raises(error):
            call(P.random, P.random.key(0))


def test_dtypes_of_parameters_and_places() -> None:
    """A Python number as a parameter does not widen; places in a range are of the default dtype."""
    key = pullback.random.key(0)
    for draw in (pullback.random.generalized_normal, pullback.random.pareto):
        assert pullback.eval_shape(lambda f=draw: f(key, 0.7, (2,), "float16")).dtype == "float16"
    p = np.array([0.2, 0.3, 0.5], np.float32)
    for x64 in (False, True):
        with pullback.enable_x64(x64):
            chosen = pullback.random.choice(key, 3, (2,), replace=False, p=p)
            assert chosen.dtype == ("int64" if x64 else "int32")


def test_float16_numbers_in_a_range_are_rounded_as_jax_does_it_here() -> None:
    """XLA fuses product and sum where the processor has arithmetic of 16 bits."""
    key = pullback.random.key(1)
    unit = np.asarray(pullback.random.uniform(key, (99,), "float16"), np.float32)
    got = np.asarray(pullback.random.uniform(key, (99,), "float16", -2, 5))
    product = unit * np.float32(7)
    if not computes_halves():
        product = product.astype(np.float16).astype(np.float32)
    assert np.array_equal(got, (product - np.float32(2)).astype(np.float16))


def test_placed_keys_stay_keys() -> None:
    """In trees too, copied, with a sharding; back on the host they are keys as well."""
    ks = pullback.random.split(pullback.random.key(0, impl="rbg"), 3)
    mesh = pullback.make_mesh((1,), ("x",))
    sharding = pullback.NamedSharding(mesh, pullback.P("x"))
    for placed in (
        pullback.device_put(ks),
        pullback.device_put([ks])[0],
        pullback.device_put(ks, pullback.devices()[0]),
        pullback.device_put(ks, may_alias=False),
        pullback.device_put(ks, sharding),
        pullback.device_get({"a": ks})["a"],
    ):
        assert placed.dtype == ks.dtype and bool((placed == ks).all())
    assert pullback.device_put(ks, sharding).sharding == sharding
    copied = pullback.device_put(ks, may_alias=False)
    assert copied.unsafe_buffer_pointer() != ks.unsafe_buffer_pointer()


def test_split_uses_a_key_up() -> None:
    with pullback.debug_key_reuse(True):
        key = pullback.random.key(0)
        pullback.random.fold_in(key, 1)
        pullback.random.split(key)
        for again in (pullback.random.split, pullback.random.bits):
            with pytest.raises(pullback.errors.KeyReuseError, match="clone"):
                again(key)


# --- arguments beside JAX's: dtypes and error classes ---
ARGUMENTS = {
    "ball in half precision": lambda r, np_: r.ball(r.key(0), 3, dtype="float16"),
    "ball of a float power": lambda r, np_: r.ball(r.key(0), 3, p=1.5, dtype="bfloat16"),
    "ball of a strong power": lambda r, np_: r.ball(r.key(0), 3, p=np.int32(2), dtype="float16"),
    "logits of integers": lambda r, np_: r.categorical(r.key(0), np_.arange(3)),
    "logits of bools": lambda r, np_: r.categorical(r.key(0), np_.ones(3, bool), replace=False),
    "choice of a size": lambda r, np_: r.choice(r.key(0), 5, 3),
    "choice of an array as shape": lambda r, np_: r.choice(r.key(0), 5, np.array([3])),
    "a word for a number": lambda r, np_: r.binomial(r.key(0), "a", 0.3),
    "a negative size": lambda r, np_: r.gamma(r.key(0), np_.ones(3), (2, -1)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_mean_what_they_mean_to_jax(name: str) -> None:
    f = ARGUMENTS[name]
    try:
        want = f(jax.random, jax.numpy)
    except Exception as e:
        with pytest.raises(type(e)):
            f(pullback.random, pullback.numpy)
    else:
        got = f(pullback.random, pullback.numpy)
        assert (got.dtype, got.weak_type) == (want.dtype, want.weak_type)
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=2e-2)


@pytest.mark.parametrize("rows", [0, 3])
def test_bits_of_an_element_depend_on_its_place_alone(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many vectors are computed side by side, and whatever is left for the last ones: in
    good code, which computes many."""
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    monkeypatch.setattr(tier, "haste", lambda *_, **__: tier.Haste(False, False))
    compiler._live.clear()
    compiler._recent.clear()
    key = pullback.random.split(pullback.random.key(5), rows) if rows else pullback.random.key(5)
    draw = pullback.vmap(pullback.random.bits, (0, None)) if rows else pullback.random.bits
    words = np.atleast_2d(pullback.random.key_data(key))
    places = np.broadcast_to(np.arange(700, dtype=np.uint32), (len(words), 700))
    with np.errstate(over="ignore"):
        a, b = cipher(words[:, :1], words[:, 1:], np.zeros_like(places), places)
    want = (a ^ b).reshape(*words.shape[: bool(rows)], 700)
    for n in (1, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 256, 257, 700):
        np.testing.assert_array_equal(draw(key, (n,)), want[..., :n])


def cipher(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds, in NumPy."""
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + k0, x1 + k1
    for r in range(5):
        for n in ((13, 15, 26, 6), (17, 29, 16, 24))[r % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(n) | x1 >> np.uint32(32 - n)) ^ x0
        x0, x1 = x0 + keys[(r + 1) % 3], x1 + keys[(r + 2) % 3] + np.uint32(r + 1)
    return x0, x1


@pytest.mark.parametrize("tier_", ("0", "1"))
@pytest.mark.parametrize("dtype", ("uint8", "uint16", "uint64"))
def test_bits_of_other_widths_in_lanes(
    dtype: str, tier_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A vector of bytes has so many lanes that its words fill several registers.
    monkeypatch.setenv("PULLBACK_TIER", tier_)
    with pullback.enable_x64(True), jax.enable_x64(True):
        for n in (100, 1003):
            draw = pullback.jit(lambda k, n=n: pullback.random.bits(k, (n,), dtype))
            same(draw(pullback.random.key(5)), jax.random.bits(jax.random.key(5), (n,), dtype))


def test_bits_beyond_positions_of_32_bits() -> None:
    """The last elements of arrays of more than 2**32 elements: the high words of their places
    count."""
    key = pullback.random.key(3)
    k0, k1 = pullback.random.key_data(key)
    for shape in ((2**16 + 2, 2**16), (2**32 + 5,)):
        last = pullback.jit(lambda k, s=shape: pullback.random.bits(k, s)[..., -3:])
        got = np.asarray(last(key)).reshape(-1, 3)[-1]
        places = np.prod(shape) - 3 + np.arange(3)
        high, low = (places >> 32).astype(np.uint32), (places & 0xFFFFFFFF).astype(np.uint32)
        a, b = threefry2x32_p.bind(k0, k1, high, low)
        np.testing.assert_array_equal(got, a ^ b)


def test_keys_are_not_compared_with_numbers() -> None:
    for P in (pullback, jax):
        key = P.random.key(0)
        for compared in (lambda k: k == 3, lambda k: k != 1.0, lambda k: True == k):  # noqa: E712
            with pytest.raises(TypeError, match="does not accept dtypes"):
                compared(key)
        assert not key == None and not key == "a"  # noqa: E711
        with pytest.raises(TypeError, match="immutable"):
            P.random.split(key)[0] = key


@pytest.mark.parametrize("x64", (False, True))
def test_weak_probabilities_of_binomial_numbers(x64: bool) -> None:
    """They count with their whole dtype beside narrower numbers of trials; those do not."""
    counts, shares = np.array([3, 7, 80], "float32"), np.array([0.3, 0.4, 0.3], "float32")
    drawn = []
    for P in (jax, pullback):
        with P.enable_x64(x64):
            draw = P.random.binomial
            key = P.random.key(42)
            weak = P.numpy.asarray(0.3)
            drawn.append(
                [
                    np.asarray(x)
                    for x in (
                        draw(key, counts, 0.3),
                        draw(key, counts, weak),
                        draw(key, 10.0, shares),
                    )
                ]
            )
    for ours, theirs in zip(*drawn, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("x64", (False, True))
def test_normal_vectors_have_the_dtype_of_their_mean_and_covariance(x64: bool) -> None:
    cov = np.array([[2, 0.5], [0.5, 1]])
    with jax.enable_x64(x64), pullback.enable_x64(x64):
        for mean_dtype, cov_dtype in (("f4", "f4"), ("f8", "f4"), ("i4", "f4"), ("i4", "i4")):
            mean = np.zeros(2, mean_dtype)
            ours, theirs = (
                P.random.multivariate_normal(P.random.key(42), mean, cov.astype(cov_dtype) + 1)
                for P in (pullback, jax)
            )
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("p", [1.5, 2])
def test_points_of_balls_are_the_same_in_a_jit(impl: str, p: float) -> None:
    """A power that the program knows was a product with a root, 2 units off, in a jit alone."""
    key = pullback.random.key(42, impl=impl)
    draw = lambda key: pullback.random.ball(key, 3, p, (20, 3))
    np.testing.assert_array_equal(pullback.jit(draw)(key), draw(key))
