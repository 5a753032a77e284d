"""Loops that write single elements and read the array in vectors write whole vectors, which the
processor hands on (backends/llvm/forwarded.py)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.llvm import emit_module
from pullback.backends.llvm.target import detect_level, target_for
from pullback.loops import pipeline
from pullback.runtime.executable import reference_rule

LEVELS = {"avx512": ["avx512", "avx2", "sse2"], "avx2": ["avx2", "sse2"], "sse2": ["sse2"]}
STEPS = 150
WHOLE = re.compile(r"store volatile <\d+ x ")

pytestmark = pytest.mark.skipif(detect_level() == "none", reason="no native code on this machine")


def ring(buffer: Any, xs: Any) -> Any:
    """Means of the last numbers."""

    def step(carry: Any, x: Any) -> Any:
        buffer, i = carry
        buffer = buffer.at[i % buffer.size].set(x)
        return (buffer, i + 1), buffer.sum()

    return lax.scan(step, (buffer, 0), xs)


def added(buffer: Any, xs: Any) -> Any:
    """What is added to depends on what the array has."""

    def step(i: Any, buffer: Any) -> Any:
        return buffer.at[jnp.argmax(buffer)].add(-jnp.abs(xs[i]))

    return lax.fori_loop(0, xs.size, step, buffer)


def guarded(buffer: Any, xs: Any) -> Any:
    """Some steps write nothing."""

    def step(i: Any, carry: Any) -> Any:
        buffer, total = carry
        buffer = buffer.at[i].set(xs[i], mode="drop")
        return buffer, total + buffer.max()

    return lax.fori_loop(0, xs.size, step, (buffer, xs[0] * 0))


def unread(buffer: Any, xs: Any) -> Any:
    """Nothing is read in vectors."""

    def step(i: Any, buffer: Any) -> Any:
        return buffer.at[i % buffer.size].set(xs[i] + buffer[(i + 1) % buffer.size])

    return lax.fori_loop(0, xs.size, step, buffer)


def kernels(f: Any, size: int, dtype: str) -> Any:
    args = np.zeros(size, dtype), np.zeros(STEPS, dtype)
    return pipeline.compile_jaxpr(pullback.make_jaxpr(f)(*args), reference_rule).kernels


@pytest.mark.parametrize("f", [ring, added, guarded])
@pytest.mark.parametrize("level", LEVELS.get(detect_level(), []))
def test_whole_vectors_are_written(f: Any, level: str) -> None:
    texts = [emit_module(kernel, target_for(level))[0] for kernel in kernels(f, 64, "float32")]
    assert sum(bool(WHOLE.search(text)) for text in texts) == 1


def test_elements_are_written_alone_where_no_vector_reads_them() -> None:
    assert not any(WHOLE.search(emit_module(kernel)[0]) for kernel in kernels(unread, 64, "f4"))


@pytest.mark.parametrize("size", [1, 5, 16, 61, 64, 130])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "float16"])
@pytest.mark.parametrize("f", [ring, added, guarded, unread])
def test_loops_give_what_python_gives(f: Any, dtype: str, size: int, monkeypatch: Any) -> None:
    """The last vector of an array may not be all there: nothing beyond it is written."""
    monkeypatch.setenv("PULLBACK_TIER", "0")
    r = np.random.default_rng(size)
    buffer, xs = (r.integers(0, 9, n).astype(dtype) for n in (size, STEPS))
    got, want = pullback.jit(f)(buffer, xs), python(f, buffer, xs)
    for x, y in zip(pullback.tree_util.tree_leaves(got), want, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def python(f: Any, buffer: np.ndarray, xs: np.ndarray) -> list[Any]:
    buffer, outs = buffer.copy(), []
    for i, x in enumerate(xs):
        if f is ring:
            buffer[i % buffer.size] = x
            outs.append(buffer.sum(dtype=buffer.dtype))
        elif f is added:
            with np.errstate(over="ignore"):  # of unsigned integers
                buffer[np.argmax(buffer)] -= np.abs(x)
        elif f is guarded:
            if i < buffer.size:
                buffer[i] = x
            outs.append(buffer.max())
        else:
            buffer[i % buffer.size] = x + buffer[(i + 1) % buffer.size]
    if f is ring:
        return [buffer, np.int32(len(xs)), np.array(outs)]
    return [buffer, np.sum(outs, dtype=buffer.dtype)] if f is guarded else [buffer]
