"""Random streams beside JAX's, recorded: every sampler, keys, shapes, dtypes and generators; and
float64 numbers beside their formula without rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback.backends.llvm.target import host_target
from tests.random_streams import SAMPLERS, Numbers, Stream, dtype_named, recorded, streams

# Units in the last place are those of a number of this size, where it is larger: the number is a
# difference of such. (For scalars JAX takes other logarithms than for vectors, a unit apart.)
SIZES: dict[str, Callable[[Any], Any]] = {
    "multivariate_normal": np.ones_like,
    "orthogonal": lambda x: np.full_like(x, 2),  # reflections: one less twice a product
    "wald": lambda x: 4 / x,  # mean squared / x
}
# JAX's float64 log1p is wrong by up to 128 units between -0.41 and -0.2: which side is nearer to
# the formula is tested below.
JAX_LOG1P_F64 = 130
# What is recorded is of a processor that multiplies and adds at once. JAX's own numbers of one that
# does not (XLA_FLAGS=--xla_cpu_max_isa=SSE4_2) are up to 320 units from these, and ours on these.
FLOATS = 2 if host_target().fma else 512

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
    limit = JAX_LOG1P_F64 if got.dtype.name in ("float64", "complex128") else FLOATS
    sizes = SIZES.get(stream.sampler, np.zeros_like)(want)
    assert ulps(got, want, sizes) <= limit, (got, want)


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
    for ours, theirs in zip(stream.draws(pullback), jaxs()[str(stream)], strict=True):
        if isinstance(ours, str) or isinstance(theirs, str):
            # JAX has no decompositions of half precision.
            half = theirs == "NotImplementedError" and stream.dtype in ("float16", "bfloat16")
            assert ours == theirs or half
        else:
            check(stream, array(ours), array(theirs))


def check_against_truth(names: tuple[str, ...], n: int) -> None:
    exact_streams = pytest.importorskip("tests.exact_streams", reason="mpmath is not installed")
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no extended precision here")
    for name, (largest, most, mean), theirs in exact_streams.compared(n, (0, 42), names):
        # Ours are no further from the formula's value than JAX's, and as near as a few roundings.
        # The largest distance alone is chance: it is where differences cancel.
        assert most <= max(theirs[1], 2) and mean <= max(theirs[2], 1) + 0.2, (name, most, mean)
        assert largest <= max(2 * theirs[0], 4), (name, largest, theirs)


def test_float64_numbers_are_nearer_to_their_formula() -> None:
    check_against_truth(("exponential", "gumbel", "laplace", "logistic", "normal"), 20)


@pytest.mark.slow
def test_all_float64_numbers_are_nearer_to_their_formula() -> None:
    check_against_truth((), 60)
