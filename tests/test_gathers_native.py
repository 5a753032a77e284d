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


@pytest.mark.skipif("vbmi" not in host_target().features, reason="bytes are loaded one by one here")
@pytest.mark.parametrize("mode", [None, "clip", "fill", "promise_in_bounds"])
def test_bytes_are_looked_up_in_registers(mode):
    """Two permutations of two registers each, for every look-up; no element is loaded alone, and
    nothing is as wide as an index."""
    table, x = jnp.zeros(256, np.uint8), jnp.zeros(100_000, np.uint8)
    for times in (1, 3):

        def f(table, x, times=times):
            for _ in range(times):
                x = table.at[x].get(mode=mode)
            return x

        (kernel,) = pipeline.compile_jaxpr(pb.make_jaxpr(f)(table, x), reference_rule).kernels
        text, _ = emit_module(kernel, host_target())
        assert len(re.findall(r"call .*@llvm.x86.avx512.vpermi2var", text)) == 2 * times
        assert " load i8," not in text
        assert "x i64>" not in text


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 129, 200, 255, 256, 300])
def test_tables_of_bytes(n, dtype):
    """Of every length, at places that it has and has not; rows of larger tables; chains; values
    that something else reads, too; beside arithmetic of other widths."""
    rng = np.random.default_rng(n)
    table = rng.integers(0, 256, n).astype(np.uint8).view(np.uint8).astype(dtype)
    rows = rng.integers(0, 256, (3, n)).astype(dtype)
    for m in (1, 63, 64, 129, 5000):
        x = rng.integers(0, 256, m).astype(np.uint8)
        small, wide = x % n if n < 256 else x, x.astype(np.int32)
        clipped = np.clip(wide, 0, n - 1)
        assert np.array_equal(pb.jit(lambda t, i: t[i])(table, x), table[clipped])
        filled = pb.jit(lambda t, i: t.at[i].get(mode="fill", fill_value=1))(table, x)
        assert np.array_equal(filled, np.where(wide < n, table[clipped], dtype(1)))
        assert np.array_equal(pb.jit(lambda t, i: t[1][i])(rows, small), rows[1][small])
        offset = pb.jit(lambda t, i, k: t[jnp.clip(i.astype(np.int32) + k, 0, 5)])
        assert np.array_equal(
            offset(table, x, -3), table[np.clip(np.clip(wide - 3, 0, 5), 0, n - 1)]
        )
        both = pb.jit(lambda t, i: (t[i].astype(np.float32) * 0.5 + i, i.astype(np.int32) * 3))
        value, triple = both(table, small)
        assert np.array_equal(value, table[small].astype(np.float32) * np.float32(0.5) + small)
        assert np.array_equal(triple, small.astype(np.int32) * 3)


def test_chains_of_tables_inside_loops():
    rng = np.random.default_rng(3)
    table = rng.permutation(256).astype(np.uint8)
    x = rng.integers(0, 256, (7, 130)).astype(np.uint8)
    found = pb.jit(lambda t, x: pb.lax.fori_loop(0, 5, lambda _, x: t[x] ^ x, x))(table, x)
    for _ in range(5):
        x = table[x] ^ x
    assert np.array_equal(found, x)
