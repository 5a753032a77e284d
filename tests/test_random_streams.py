"""Random streams beside JAX's, recorded: every sampler, keys, shapes, dtypes and generators; and
float64 numbers beside their formula without rounding.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback
from pullback.backends.llvm.target import host_target
from pullback.random import elementary
from tests.random_streams import SAMPLERS, Numbers, Stream, dtype_named, recorded, streams

# Units in the last place are those of a number of this size, where it is larger: the number is a
# difference of such. (For scalars JAX takes other logarithms than for vectors, a unit apart.)
SIZES: dict[str, Callable[[Any], Any]] = {
    "multivariate_normal": np.ones_like,
    "orthogonal": lambda x: np.full_like(x, 2),  # reflections: one less twice a product
    "wald": lambda x: 4 / x,  # mean squared / x
}
# What is recorded is of a processor that multiplies and adds at once. JAX's own numbers of one that
# does not (XLA_FLAGS=--xla_cpu_max_isa=SSE4_2) are up to 320 units from these, and ours on these.
FLOATS = 2 if host_target().fma else 512

# Gamma numbers have a reciprocal root, which JAX computes in float64 from AVX-512's approximation
# where the processor has it, as that of the record has.
GAMMAS = (
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "gamma small", "generalized_normal",
    "loggamma", "t",
)  # fmt: skip
GAMMAS_F64 = FLOATS if host_target().masks else 512

jaxs = functools.cache(recorded)


def ulps(got: Any, want: Any, sizes: Any) -> float:
    """The largest distance in units of the last place of `want`, or of `sizes`."""
    unit = np.spacing(np.maximum(np.abs(want), sizes)).astype(np.float64)
    apart = np.where(got == want, 0, np.abs(got.astype(np.float64) - want) / unit)
    return float(np.max(apart, initial=0))


def array(numbers: Numbers) -> Any:
    dtype, shape, data = numbers
    return np.frombuffer(data, dtype_named(dtype)).reshape(shape)


def check(stream: Stream, got: Any, want: Any) -> None:
    """Integers and bools exactly, floats within `FLOATS` units in the last place."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    if got.dtype.kind == "c":
        part = want.real.dtype
        got, want = got.ravel().view(part), want.ravel().view(part)
    sizes = SIZES.get(stream.sampler, np.zeros_like)(want)
    root = stream.sampler in GAMMAS and got.dtype == np.float64
    assert ulps(got, want, sizes) <= (GAMMAS_F64 if root else FLOATS), (got, want)


def marked(name: str) -> list[Any]:
    """A sampler's streams: its first dtype and every third; others are for `make test-all`."""
    every = list(streams(name))
    return [
        pytest.param(s, id=str(s), marks=[pytest.mark.slow] if k and (k + len(name)) % 3 else [])
        for k, s in enumerate(every)
    ]


@pytest.mark.parametrize("stream", [s for name in SAMPLERS for s in marked(name)])
def test_stream(stream: Stream) -> None:
    """All keys and shapes."""
    for ours, theirs in zip(stream.draws(pullback), jaxs()[stream.kept()], strict=True):
        if isinstance(ours, str) or isinstance(theirs, str):
            # JAX has no decompositions of half precision.
            half = theirs == "NotImplementedError" and stream.dtype in ("float16", "bfloat16")
            assert ours == theirs or half
        else:
            check(stream, array(ours), array(theirs))


FUNCTIONS = {
    "erf": lambda r: 2 * r.normal(size=3000),
    "erf_inv": lambda r: r.uniform(-1, 1, 3000),
    "exp": lambda r: np.r_[r.normal(size=2000) * 20, -708.5, -745, 709.7, 710],
    "log": lambda r: np.r_[r.random(3000), r.uniform(0.9, 1.1, 3000), r.random(999) * 1e9],
    "log1p": lambda r: np.r_[r.uniform(-1, 1, 3000), r.random(999) * 1e-9, 1 - 2.0**-53],
    "rsqrt": lambda r: np.r_[r.random(3000), r.random(999) * 1e200],
}
EDGES = np.array([0.0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan])


# JAX as its users have it: that of the tests runs with flags that round otherwise.
ASK_JAX = """
import sys, jax, numpy as np
jax.config.update("jax_enable_x64", True)
asked = np.load(sys.argv[1])
np.savez(sys.argv[2], **{k: jax.jit(getattr(jax.lax, k.split()[0]))(x) for k, x in asked.items()})
"""


# Formulas whose roundings a difference or a power magnifies, or whose divisor is broadcast.
MAGNIFIED = """
def draw(R, key, pb, d):
    part = pb.numpy.zeros((), d).real.dtype
    if part != d:
        return {"normal": R.normal(key, (500,), d), "lognormal": R.lognormal(key, 3.0, (500,), d)}
    cov = pb.numpy.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 0.7]], d)
    doubles = {"multivariate_normal": R.multivariate_normal(key, cov[0], cov, (400,), d)}
    return {
        **(doubles if d == "float64" else {}),
        "ball": R.ball(key, 3, 1.5, (300,), d),
        "weibull_min": R.weibull_min(key, 1.5, 0.3, (500,), d),
        "dirichlet": R.dirichlet(key, pb.numpy.array([0.6, 0.9, 1.5], d), (300,), d),
        "double_sided_maxwell": R.double_sided_maxwell(key, 0.5, 2.0, (500,), d),
        "double_sided_maxwell many": R.double_sided_maxwell(key, 0.5, 2.0, (1500,), d),
        "gamma": R.gamma(key, 30.0, (500,), d),
        "lognormal": R.lognormal(key, 3.0, (500,), d),
        "gamma whole": R.gamma(key, pb.numpy.full(500, 30.0, d), (500,), d),
        "pareto": R.pareto(key, 0.7, (1000,), d),
        "pareto rows": R.pareto(key, pb.numpy.array([[0.7], [1.3]], d), (2, 500), d),
        "pareto whole": R.pareto(key, pb.numpy.full(500, 0.7, d), (500,), d),
        "pareto vmapped": pb.vmap(lambda b: R.pareto(key, b, (200,), d))(
            pb.numpy.array([0.7, 1.9], d)
        ),
        "truncated_normal": R.truncated_normal(key, 1.5, 3.0, (1000,), d),
        "wald": R.wald(key, 0.2, (1000,), d),
    }


def numbers(pb):
    names = ("float32", "float64", "complex64", "complex128")
    drawn = {d: draw(pb.random, pb.random.key(42), pb, pb.numpy.dtype(d)) for d in names}
    return {f"{k} {d}": pb.numpy.asarray(v) for d, of in drawn.items() for k, v in of.items()}
"""


def drawn_by_both(program: str, made: Path) -> tuple[dict[str, Any], Any]:
    """What the program's `numbers(library)` draws with 64-bit types: here, and by real JAX, in a
    process without its flags."""
    ask = (
        "import sys, jax, numpy as np\n"
        'jax.config.update("jax_enable_x64", True)\n'
        f"{program}\n"
        "np.savez(sys.argv[1], **numbers(jax))\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    subprocess.run([sys.executable, "-c", ask, made], env=env, check=True)
    scope: dict[str, Any] = {}
    exec(program, scope)
    with pullback.enable_x64(True):
        return scope["numbers"](pullback), np.load(made)


@pytest.mark.slow
@pytest.mark.skipif(not host_target().fma, reason="JAX's own are others on such a machine")
def test_magnified_roundings_are_jaxs(tmp_path: Path) -> None:
    ours, wanted = drawn_by_both(MAGNIFIED, tmp_path / "made.npz")
    assert set(ours) == set(wanted)
    apart = {k: ulps(*_parts(ours[k], want), 0) for k, want in wanted.items()}
    # Sines and cosines are ours, within a unit of the C library's, times exponentials.
    assert all(n <= 2 * k.startswith("lognormal complex") for k, n in apart.items()), apart


# What JAX's compiler rounds in an order that depends on shapes, and on what it knows.
ORDERS = """
def numbers(pb):
    R, key = pb.random, pb.random.key(42)
    drawn = {name: getattr(R, name)(key, (3000,), "float16") for name in ("logistic", "gumbel")}
    for d in ("float32", "float64"):
        ones = [R.lognormal(k, 3.0, (), d) for k in R.split(key, 8)]
        drawn["lognormal ones " + d] = pb.numpy.stack(ones)
        for n in (9, 20, 32):
            drawn[f"dirichlet {n} {d}"] = R.dirichlet(key, pb.numpy.full(n, 0.7, d), (5,), d)
            drawn[f"ball {n} {d}"] = R.ball(key, n, 1.5, (3,), d)
        for n, shape in ((5, ()), (5, (60,)), (6, (2, 3)), (8, ()), (8, (60,))):
            row = pb.numpy.arange(n, dtype=d) / n
            cov = 2 * pb.numpy.eye(n, dtype=d) + pb.numpy.outer(row, row)
            drawn[f"vectors {n} {shape} {d}"] = R.multivariate_normal(key, row, cov, shape, d)
    return {k: pb.numpy.asarray(v) for k, v in drawn.items()}
"""


@pytest.mark.slow
@pytest.mark.skipif(not host_target().masks, reason="JAX's own are others on such a machine")
def test_order_of_roundings_is_jaxs(tmp_path: Path) -> None:
    ours, wanted = drawn_by_both(ORDERS, tmp_path / "made.npz")
    for k, want in wanted.items():  # a mean is added to vectors' products, which may cancel
        vectors = k.startswith("vectors")
        assert ulps(*_parts(ours[k], want), int(vectors)) <= 2 * vectors, k


def _parts(*arrays: Any) -> list[Any]:
    return [np.asarray(x).ravel().view(x.real.dtype) for x in map(np.asarray, arrays)]


@pytest.mark.skipif(not host_target().fma, reason="JAX's own are others on such a machine")
def test_functions_of_samplers_are_jaxs_to_the_bit(tmp_path: Path) -> None:
    asked = {}
    for name, numbers in FUNCTIONS.items():
        if name == "rsqrt":
            with np.errstate(over="ignore"):
                asked["rsqrt single"] = np.r_[EDGES, numbers(np.random.default_rng(0))].astype("f4")
            if not host_target().masks:
                continue
        x = np.r_[EDGES, numbers(np.random.default_rng(len(name)))]
        asked |= {name: x, f"{name} columns": x[:60, None], f"{name} rows": x[:900].reshape(-1, 3)}
    given, made = tmp_path / "given.npz", tmp_path / "made.npz"
    np.savez(given, **asked)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    subprocess.run([sys.executable, "-c", ASK_JAX, given, made], env=env, check=True)
    with pullback.enable_x64(True):
        for what, want in np.load(made).items():
            got = np.asarray(pullback.jit(getattr(elementary, what.split()[0]))(asked[what]))
            np.testing.assert_array_equal(got, want, what)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_do_not_show_how_samplers_compute_functions(name: str) -> None:
    shown, known = (getattr(module, name) for module in (elementary, pullback.lax))
    assert str(pullback.make_jaxpr(shown)(0.5)) == str(pullback.make_jaxpr(known)(0.5))


def check_against_truth(names: tuple[str, ...], n: int) -> None:
    exact_streams = pytest.importorskip("tests.exact_streams", reason="mpmath is not installed")
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no extended precision here")
    for name, (largest, most, mean), theirs in exact_streams.compared(n, (0, 42), names):
        # Ours are as far from the formula's value as JAX's, but for roundings of powers and
        # tangents. The largest distance alone is chance: it is where differences cancel.
        assert most <= max(theirs[1], 2) + 0.5 and mean <= max(theirs[2], 1) + 0.2, (
            name,
            most,
            mean,
        )
        assert largest <= max(2 * theirs[0], 4), (name, largest, theirs)


def test_float64_numbers_are_as_near_to_their_formula_as_jaxs() -> None:
    check_against_truth(("exponential", "gumbel", "laplace", "logistic", "normal"), 20)


@pytest.mark.slow
def test_all_float64_numbers_are_as_near_to_their_formula_as_jaxs() -> None:
    check_against_truth((), 60)
