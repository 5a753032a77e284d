"""Random streams beside real JAX: every sampler, keys, shapes and dtypes (slow); and float64
numbers beside their formula without rounding.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import pullback
from tests.random_streams import SAMPLERS, all_draws
from tests.test_random import TOLERANCES, ulps

# XLA leaves out roundings to bfloat16 between operations that it fuses (exp of a rounded logarithm
# of a gamma number, for one); here every operation's result is rounded.
BFLOAT16 = 8

ROOT = Path(__file__).resolve().parent.parent


def array(numbers: Any) -> Any:
    dtype, shape, data = numbers
    return np.frombuffer(data, np.dtype(getattr(ml_dtypes, dtype, dtype))).reshape(shape)


@pytest.fixture(scope="module")
def jaxs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What JAX draws without the flags that the tests' own JAX runs with."""
    path = tmp_path_factory.mktemp("streams") / "jax.pickle"
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    script = ROOT / "tests" / "random_streams.py"
    subprocess.run([sys.executable, script, path], check=True, env=environment, cwd=ROOT)
    found: dict[str, Any] = pickle.loads(path.read_bytes())
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SAMPLERS)
def test_streams_of_all_dtypes(name: str, jaxs: dict[str, Any]) -> None:
    """3 keys, 3 shapes, all dtypes: integers exactly, floats within 2 units in the last place."""
    for what, ours in all_draws(pullback.random, name):
        theirs = jaxs[what]
        if isinstance(ours, str) or isinstance(theirs, str):
            assert isinstance(ours, str) and isinstance(theirs, str), (what, ours, theirs)
            continue
        got, want = array(ours), array(theirs)
        assert (got.dtype, got.shape) == (want.dtype, want.shape), what
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want, what)
            continue
        if got.dtype.kind == "c":
            got, want = got.view(np.float32), want.view(np.float32)
        limit = BFLOAT16 if " bfloat16 " in what else TOLERANCES.get(name, 2)
        assert ulps(got, want) <= limit, (what, got, want)


KEYS = (0, 42, 2**40 + 3)


def drawn(lib: Any, name: str, seed: int, shape: Any, dtype: str) -> Any:
    return np.asarray(SAMPLERS[name][0](lib.random, lib.random.key(seed), shape, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, (_, kinds) in SAMPLERS.items() if "int32" in kinds])
def test_integers_of_64_bits(name: str) -> None:
    with pullback.enable_x64(True), jax.enable_x64(True):
        for dtype in ("int64", "uint64", "int32"):
            for seed in KEYS:
                got, want = (drawn(lib, name, seed, (2, 3), dtype) for lib in (pullback, jax))
                np.testing.assert_array_equal(got, want, f"{name} {dtype} {seed}")


def check_against_truth(names: tuple[str, ...], n: int) -> None:
    exact_streams = pytest.importorskip("tests.exact_streams", reason="mpmath is not installed")
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no extended precision here")
    for name, (ours, mean), (theirs, their_mean) in exact_streams.compared(n, (0, 42), names):
        # Ours are no further from the formula's value than JAX's, and as near as a few roundings.
        assert ours <= max(theirs, 4), (name, ours, theirs)
        assert mean <= max(their_mean, 1) + 0.2, (name, mean, their_mean)


def test_float64_numbers_are_nearer_to_their_formula() -> None:
    check_against_truth(("exponential", "gumbel", "laplace", "logistic", "normal"), 20)


@pytest.mark.slow
def test_all_float64_numbers_are_nearer_to_their_formula() -> None:
    check_against_truth((), 60)
