"""The numbers that JAX draws, recorded: every sampler, keys, shapes and dtypes.

`python tests/random_streams.py` (with JAX installed) writes data/random_streams.jsonl anew.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

try:
    from recorded_answers import answer
except ImportError:
    from tests.recorded_answers import answer  # type: ignore[no-redef]

FILE = Path(__file__).resolve().parent / "data" / "random_streams.jsonl"
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTS = ("int32", "int8", "uint16", "int64")
# (key, shape) of the first dtype; the others are drawn with the second pair.
DRAWS = ((0, ()), (42, (7,)), (2**40 + 3, (2, 3)))

P3 = np.array([0.2, 0.3, 0.5], np.float32)
COV = np.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 0.7]], np.float32)

Sampler = Callable[[Any, Any, Any, Any], Any]  # (random, key, shape, dtype)

SAMPLERS: dict[str, tuple[Sampler, tuple[str, ...]]] = {
    "ball": (lambda R, k, s, d: R.ball(k, 3, 1.5, s, d), FLOATS[:1]),
    "bernoulli": (lambda R, k, s, d: R.bernoulli(k, 0.3, s), ("",)),
    "bernoulli high": (lambda R, k, s, d: R.bernoulli(k, 0.3, s, mode="high"), ("",)),
    "beta": (lambda R, k, s, d: R.beta(k, 2.0, 0.5, s, d), FLOATS[:1]),
    "binomial few": (lambda R, k, s, d: R.binomial(k, 10, 0.3, s, d), FLOATS[:1]),
    "binomial many": (lambda R, k, s, d: R.binomial(k, 100, 0.4, s, d), FLOATS),
    "bits": (lambda R, k, s, d: R.bits(k, s, d), ("uint32", "uint8", "uint16", "uint64")),
    "categorical": (lambda R, k, s, d: R.categorical(k, np.log(P3), shape=s), ("",)),
    "cauchy": (lambda R, k, s, d: R.cauchy(k, s, d), FLOATS),
    "chisquare": (lambda R, k, s, d: R.chisquare(k, 3.0, s, d), FLOATS[:1]),
    "choice": (lambda R, k, s, d: R.choice(k, 100, s), ("",)),
    "choice p": (lambda R, k, s, d: R.choice(k, 3, s, p=P3), ("",)),
    "dirichlet": (lambda R, k, s, d: R.dirichlet(k, P3 * 3, s, d), FLOATS[:1]),
    "double_sided_maxwell": (
        lambda R, k, s, d: R.double_sided_maxwell(k, 0.5, 2.0, s, d),
        FLOATS[:1],
    ),
    "exponential": (lambda R, k, s, d: R.exponential(k, s, d), FLOATS),
    "f": (lambda R, k, s, d: R.f(k, 3.0, 4.0, s, d), FLOATS[:1]),
    "gamma": (lambda R, k, s, d: R.gamma(k, 2.0, s, d), FLOATS),
    "gamma small": (lambda R, k, s, d: R.gamma(k, 0.3, s, d), FLOATS[:1]),
    "generalized_normal": (lambda R, k, s, d: R.generalized_normal(k, 0.7, s, d), FLOATS[:1]),
    "geometric": (lambda R, k, s, d: R.geometric(k, 0.3, s, d), INTS),
    "gumbel": (lambda R, k, s, d: R.gumbel(k, s, d), FLOATS[:1] + FLOATS[2:]),
    "gumbel high": (lambda R, k, s, d: R.gumbel(k, s, d, mode="high"), FLOATS[:1]),
    "laplace": (lambda R, k, s, d: R.laplace(k, s, d), FLOATS),
    "loggamma": (lambda R, k, s, d: R.loggamma(k, 0.3, s, d), FLOATS[:1]),
    "logistic": (lambda R, k, s, d: R.logistic(k, s, d), FLOATS[:1] + FLOATS[2:]),
    "lognormal": (lambda R, k, s, d: R.lognormal(k, 0.5, s, d), FLOATS[:1]),
    "maxwell": (lambda R, k, s, d: R.maxwell(k, s, d), FLOATS[:1]),
    "multinomial": (lambda R, k, s, d: R.multinomial(k, 20, P3, shape=(*s, 3)), ("",)),
    "normal": (lambda R, k, s, d: R.normal(k, s, d), (*FLOATS[:3], "complex64")),
    "pareto": (lambda R, k, s, d: R.pareto(k, 2.0, s, d), FLOATS[:1]),
    "permutation": (lambda R, k, s, d: R.permutation(k, 30), ("",)),
    "poisson few": (lambda R, k, s, d: R.poisson(k, 3.0, s, d), INTS[:3]),
    "poisson many": (lambda R, k, s, d: R.poisson(k, 60.0, s, d), INTS[:1]),
    "rademacher": (lambda R, k, s, d: R.rademacher(k, s, d), INTS),
    "randint": (lambda R, k, s, d: R.randint(k, s, -5, 17, d), INTS[:2] + INTS[3:]),
    "rayleigh": (lambda R, k, s, d: R.rayleigh(k, 2.0, s, d), FLOATS[:1]),
    "t": (lambda R, k, s, d: R.t(k, 3.0, s, d), FLOATS[:1]),
    "triangular": (lambda R, k, s, d: R.triangular(k, 0.0, 1.0, 3.0, s, d), FLOATS[:1]),
    "truncated_normal": (lambda R, k, s, d: R.truncated_normal(k, -1.0, 2.0, s, d), FLOATS[:1]),
    "uniform": (lambda R, k, s, d: R.uniform(k, s, d), FLOATS),
    "uniform range": (lambda R, k, s, d: R.uniform(k, s, d, minval=-2.0, maxval=5.0), FLOATS[:1]),
    "wald": (lambda R, k, s, d: R.wald(k, 2.0, s, d), FLOATS[:1]),
    "weibull_min": (lambda R, k, s, d: R.weibull_min(k, 1.5, 2.0, s, d), FLOATS[:1]),
}
IMPLS = ("rbg", "unsafe_rbg")


def draws(R: Any, name: str, x64: bool) -> Iterator[tuple[str, Any]]:
    """(what it is, numbers) for each key, shape and dtype of a sampler; the 64-bit dtypes if x64 is
    on, the others if not.
    """
    f, kinds = SAMPLERS[name]
    for dtype in kinds:
        if ("64" in dtype and dtype != "complex64") != x64:
            continue
        for seed, shape in DRAWS if dtype == kinds[0] else DRAWS[1:2]:
            numbers = f(R, R.key(seed), shape, dtype or None)
            yield f"{name} {dtype} {seed} {shape}", numbers
    if not x64 and name in ("uniform", "normal", "gamma", "randint"):
        for impl in IMPLS:
            numbers = f(R, R.key(3, impl=impl), (7,), kinds[0])
            yield f"{name} {impl}", numbers


def record() -> None:
    import jax

    warnings.simplefilter("ignore")
    with FILE.open("w") as file:
        for name in SAMPLERS:
            for x64 in (False, True):
                with jax.enable_x64(x64):
                    for what, numbers in draws(jax.random, name, x64):
                        line = [what, answer(lambda v=numbers: np.asarray(v))]
                        file.write(json.dumps(line) + "\n")


# --- all of them, for the slow sweep: too many to be kept ---
ALL_SHAPES: tuple[tuple[int, ...], ...] = ((), (7,), (2, 3))
ALL_KEYS = (0, 42, 2**40 + 3)
ALL_INTS = ("int32", "int8", "uint8", "int16", "uint16", "uint32")
Numbers = tuple[str, tuple[int, ...], bytes]  # dtype, shape, content


def dtypes_of(name: str) -> tuple[str, ...]:
    """All dtypes of at most 32 bits that a sampler takes."""
    kinds = SAMPLERS[name][1]
    if "float32" in kinds:
        return FLOATS[:3] + (("complex64",) if name == "normal" else ())
    if "int32" in kinds:
        return ALL_INTS
    return ("uint8", "uint16", "uint32") if "uint32" in kinds else kinds


def all_draws(R: Any, name: str) -> Iterator[tuple[str, Numbers | str]]:
    """(what it is, the numbers or the class of the error) of every dtype, key and shape."""
    f = SAMPLERS[name][0]
    for dtype in dtypes_of(name):
        for seed in ALL_KEYS:
            for shape in ALL_SHAPES:
                try:
                    x = np.asarray(f(R, R.key(seed), shape, dtype or None))
                    found: Numbers | str = (x.dtype.name, x.shape, x.tobytes())
                except Exception as error:
                    found = type(error).__name__
                yield f"{name} {dtype} {seed} {shape}", found


def record_all(path: str) -> None:
    """What JAX draws, as its users have it: the tests' own JAX runs with flags that round
    otherwise.
    """
    import jax

    warnings.simplefilter("ignore")
    found = {what: x for name in SAMPLERS for what, x in all_draws(jax.random, name)}
    Path(path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:]:
        record_all(sys.argv[1])
    else:
        record()
