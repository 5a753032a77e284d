"""The numbers that JAX draws, recorded: every sampler, keys, shapes and dtypes.

`python tests/random_streams.py` (with JAX installed) adds to data/random_streams.jsonl what is not
there yet; delete the file to record all of it anew, which takes JAX half an hour of one processor.
Float16 numbers are recorded twice: on a processor with arithmetic of 16 bits, and on one without.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from pullback.processor import computes_halves

FILE = Path(__file__).resolve().parent / "data" / "random_streams.jsonl"
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTS = ("int32", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64")
BITS = ("uint32", "uint8", "uint16", "uint64")
COMPLEX = ("complex64", "complex128")
NO_DTYPE = ("",)
KEYS = (0, 42, 2**40 + 3)
SHAPES: tuple[tuple[int, ...], ...] = ((), (7,), (2, 3))

P3 = np.array([0.2, 0.3, 0.5], np.float32)
ROWS = np.arange(12).reshape(4, 3)
COV = np.array([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 0.7]], np.float32)


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def cast(x: Any, dtype: str) -> Any:
    return x.astype(dtype_named(dtype))


Sampler = Callable[[Any, Any, Any, Any], Any]  # (random, key, shape, dtype)

SAMPLERS: dict[str, tuple[Sampler, tuple[str, ...]]] = {
    "ball": (lambda R, k, s, d: R.ball(k, 3, 1.5, s, d), FLOATS),
    "bernoulli": (lambda R, k, s, d: R.bernoulli(k, 0.3, s), NO_DTYPE),
    "bernoulli high": (lambda R, k, s, d: R.bernoulli(k, 0.3, s, mode="high"), NO_DTYPE),
    "beta": (lambda R, k, s, d: R.beta(k, 2.0, 0.5, s, d), FLOATS),
    "binomial few": (lambda R, k, s, d: R.binomial(k, 10, 0.3, s, d), FLOATS),
    "binomial many": (lambda R, k, s, d: R.binomial(k, 100, 0.4, s, d), FLOATS),
    "bits": (lambda R, k, s, d: R.bits(k, s, d), BITS),
    "categorical": (lambda R, k, s, d: R.categorical(k, np.log(P3), shape=s), NO_DTYPE),
    "categorical without": (
        lambda R, k, s, d: R.categorical(k, np.log(P3), shape=(2,), replace=False),
        NO_DTYPE,
    ),
    "cauchy": (lambda R, k, s, d: R.cauchy(k, s, d), FLOATS),
    "chisquare": (lambda R, k, s, d: R.chisquare(k, 3.0, s, d), FLOATS),
    "choice": (lambda R, k, s, d: R.choice(k, 100, s), NO_DTYPE),
    "choice p": (lambda R, k, s, d: R.choice(k, 3, s, p=P3), NO_DTYPE),
    "choice rows": (lambda R, k, s, d: R.choice(k, ROWS, (2,), replace=False), NO_DTYPE),
    "choice p rows": (
        lambda R, k, s, d: R.choice(k, ROWS, (2,), replace=False, p=P3, axis=1),
        NO_DTYPE,
    ),
    "dirichlet": (lambda R, k, s, d: R.dirichlet(k, P3 * 3, s, d), FLOATS),
    "double_sided_maxwell": (
        lambda R, k, s, d: R.double_sided_maxwell(k, 0.5, 2.0, s, d),
        FLOATS,
    ),
    "exponential": (lambda R, k, s, d: R.exponential(k, s, d), FLOATS),
    "f": (lambda R, k, s, d: R.f(k, 3.0, 4.0, s, d), FLOATS),
    "gamma": (lambda R, k, s, d: R.gamma(k, 2.0, s, d), FLOATS),
    "gamma small": (lambda R, k, s, d: R.gamma(k, 0.3, s, d), FLOATS),
    "generalized_normal": (lambda R, k, s, d: R.generalized_normal(k, 0.7, s, d), FLOATS),
    "geometric": (lambda R, k, s, d: R.geometric(k, 0.3, s, d), INTS),
    "gumbel": (lambda R, k, s, d: R.gumbel(k, s, d), FLOATS),
    "gumbel high": (lambda R, k, s, d: R.gumbel(k, s, d, mode="high"), FLOATS),
    "laplace": (lambda R, k, s, d: R.laplace(k, s, d), FLOATS),
    "loggamma": (lambda R, k, s, d: R.loggamma(k, 0.3, s, d), FLOATS),
    "logistic": (lambda R, k, s, d: R.logistic(k, s, d), FLOATS),
    "lognormal": (lambda R, k, s, d: R.lognormal(k, 0.5, s, d), FLOATS),
    "lognormal wide": (
        lambda R, k, s, d: R.lognormal(k, 3.0, s, d),
        ("float32", "float64", "complex64", "bfloat16"),
    ),
    "maxwell": (lambda R, k, s, d: R.maxwell(k, s, d), FLOATS),
    "multinomial": (lambda R, k, s, d: R.multinomial(k, 20, P3, shape=(*s, 3)), NO_DTYPE),
    "multivariate_normal": (
        lambda R, k, s, d: R.multivariate_normal(k, cast(P3, d), cast(COV, d), s, d),
        FLOATS,
    ),
    "normal": (lambda R, k, s, d: R.normal(k, s, d), (*FLOATS, *COMPLEX)),
    "orthogonal": (lambda R, k, s, d: R.orthogonal(k, 2, s, d), FLOATS),
    "pareto": (lambda R, k, s, d: R.pareto(k, 2.0, s, d), FLOATS),
    "permutation": (lambda R, k, s, d: R.permutation(k, 30), NO_DTYPE),
    "permutation rows": (lambda R, k, s, d: R.permutation(k, ROWS, axis=1), NO_DTYPE),
    "permutation independent": (
        lambda R, k, s, d: R.permutation(k, ROWS, independent=True),
        NO_DTYPE,
    ),
    "poisson few": (lambda R, k, s, d: R.poisson(k, 3.0, s, d), INTS),
    "poisson many": (lambda R, k, s, d: R.poisson(k, 60.0, s, d), INTS),
    "rademacher": (lambda R, k, s, d: R.rademacher(k, s, d), INTS),
    "randint": (lambda R, k, s, d: R.randint(k, s, -5, 17, d), INTS),
    "rayleigh": (lambda R, k, s, d: R.rayleigh(k, 2.0, s, d), FLOATS),
    "t": (lambda R, k, s, d: R.t(k, 3.0, s, d), FLOATS),
    "triangular": (lambda R, k, s, d: R.triangular(k, 0.0, 1.0, 3.0, s, d), FLOATS),
    "truncated_normal": (lambda R, k, s, d: R.truncated_normal(k, -1.0, 2.0, s, d), FLOATS),
    "uniform": (lambda R, k, s, d: R.uniform(k, s, d), FLOATS),
    "uniform range": (lambda R, k, s, d: R.uniform(k, s, d, minval=-2.0, maxval=5.0), FLOATS),
    "wald": (lambda R, k, s, d: R.wald(k, 2.0, s, d), FLOATS),
    "weibull_min": (lambda R, k, s, d: R.weibull_min(k, 1.5, 2.0, s, d), FLOATS),
}


# (generator of keys, is threefry partitionable): the first is drawn with every dtype and shape, the
# others with the first dtype and the last shape.
GENERATORS = (
    ("threefry2x32", True),
    ("threefry2x32", False),
    ("rbg", True),
    ("unsafe_rbg", True),
)
# Samplers in whose programs a dtype of more than 32 bits is drawn with 64-bit types on.
WIDE = ("float64", "int64", "uint64", "complex128")

Numbers = tuple[str, tuple[int, ...], bytes]  # dtype, shape, content


class Stream(NamedTuple):
    """What one line of the file holds: all keys and shapes of a sampler with a dtype."""

    sampler: str
    dtype: str
    generator: str
    partitionable: bool
    x64: bool

    def __str__(self) -> str:
        parts = (self.sampler, self.dtype, "x64" if self.x64 else "", self.generator)
        return " ".join(p for p in parts if p) + ("" if self.partitionable else " sequential")

    def kept(self) -> str:
        """What names the numbers in the file: those of float16 depend on the processor."""
        apart = self.dtype == "float16" and not computes_halves()
        return str(self) + (" rounded each" if apart else "")

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return SHAPES if (self.generator, self.partitionable) == GENERATORS[0] else SHAPES[-1:]

    def draws(self, pb: Any) -> Iterator[Numbers | str]:
        """The numbers, or the class of the error, of every shape and key; `pb`: JAX or Pullback."""
        f = SAMPLERS[self.sampler][0]
        with pb.enable_x64(self.x64), pb.threefry_partitionable(self.partitionable):
            for shape in self.shapes():
                for seed in KEYS:
                    try:
                        key = pb.random.key(seed, impl=self.generator)
                        x = np.asarray(f(pb.random, key, shape, self.dtype or None))
                        yield x.dtype.name, x.shape, x.tobytes()
                    except Exception as error:
                        yield type(error).__name__


def streams(name: str) -> Iterator[Stream]:
    """All streams of a sampler."""
    kinds = SAMPLERS[name][1]
    for generator, partitionable in GENERATORS:
        for dtype in kinds if (generator, partitionable) == GENERATORS[0] else kinds[:1]:
            yield Stream(name, dtype, generator, partitionable, dtype in WIDE)
    if kinds == NO_DTYPE:
        yield Stream(name, "", *GENERATORS[0], True)


def recorded() -> dict[str, list[Numbers | str]]:
    """JAX's draws, by the names of their streams."""
    found = {}
    for line in FILE.read_text().splitlines() if FILE.exists() else ():
        what, draws = json.loads(line)
        found[what] = [
            d if isinstance(d, str) else (d[0], tuple(d[1]), base64.b64decode(d[2])) for d in draws
        ]
    return found


def record() -> None:
    """Adds what JAX draws, as its users have it: the tests' own JAX runs with flags that round
    otherwise.
    """
    import jax

    warnings.simplefilter("ignore")
    there = recorded()
    with FILE.open("a") as file:
        for stream in (s for name in SAMPLERS for s in streams(name) if s.kept() not in there):
            draws = [
                d if isinstance(d, str) else (d[0], d[1], base64.b64encode(d[2]).decode())
                for d in stream.draws(jax)
            ]
            file.write(json.dumps([stream.kept(), draws]) + "\n")
            file.flush()


if __name__ == "__main__":
    record()
