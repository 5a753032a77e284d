"""Elements at places that an array holds, as native code: every type of index, out of range as
well, beside NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.backends.llvm import host_target
from pullback.backends.llvm.compiler import emit_module
from pullback.loops import pipeline
from pullback.runtime.executable import reference_rule

INDICES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16])
@pytest.mark.parametrize("index", INDICES, ids=lambda d: np.dtype(d).name)
def test_places_of_every_type(index, dtype):
    """Indices of at most 32 bits are words for the instruction that gathers; unsigned ones go
    beyond what signed words hold."""
    rng = np.random.default_rng(0)
    bounds = np.iinfo(index)
    for n, m in ((1, 40), (5, 64), (300, 1000), (70000, 999)):
        table = (rng.standard_normal(n) * 1000).astype(dtype)
        i = rng.integers(bounds.min, bounds.max, m, dtype=index, endpoint=True)
        i[::2] %= min(n, bounds.max)
        i[:2] = bounds.min, bounds.max
        wide = i.astype(np.int64)
        clipped = pb.jit(lambda t, i: jnp.take(t, i, mode="clip"))(table, i)
        assert np.array_equal(clipped, table[np.clip(wide, 0, n - 1)])
        filled = pb.jit(lambda t, i: t.at[i].get(mode="fill", fill_value=7))(table, i)
        if index in (np.int32, np.uint32):
            inside = (-n <= wide) & (wide < n)
            assert np.array_equal(filled, np.where(inside, table[np.where(inside, wide, 0)], 7))


def test_rows_share_their_address():
    rng = np.random.default_rng(0)
    x, i = rng.standard_normal((50, 70)).astype(np.float32), rng.integers(0, 70, (50, 200))
    i = i.astype(np.int32)
    found = pb.jit(lambda x, i: jnp.take_along_axis(x, i, 1))(x, i)
    assert np.array_equal(found, np.take_along_axis(x, i, 1))


@pytest.mark.skipif(not host_target().gathers, reason="elements are loaded one by one here")
@pytest.mark.parametrize("index", [np.uint8, np.int32, np.uint32])
def test_words_are_indices(index):
    jaxpr = pb.make_jaxpr(lambda x, i: jnp.take(x, i, mode="clip"))(
        jnp.zeros(1000), jnp.zeros(100_000, index)
    )
    (kernel,) = pipeline.compile_jaxpr(jaxpr, reference_rule).kernels
    text, _ = emit_module(kernel, host_target())
    assert re.search(r"getelementptr \w+, ptr %[\w.]+, <16 x i32>", text)
