"""Many updates of single elements are few kernels, work in place, and read what they should."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax
from pullback import numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.runtime.executable import NativeExecutable

F = np.float32
X = np.linspace(0.0, 1.0, 40).astype(F)


def check(f: Callable[..., Any], *args: Any, donated: tuple[bool, ...] = ()) -> NativeExecutable:
    """A program's native results against the reference's."""
    closed = pullback.make_jaxpr(f)(*args)
    compiled = NativeExecutable(closed, donated)
    want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, args)
    for _ in range(2):
        got = compiled([jnp.asarray(x) * 1 for x in args], donated)
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=2e-5, atol=1e-6)
    return compiled


def literal(x: Any) -> Any:
    for i in range(50):
        x = x.at[i % 40].set(1.5 * i)
    return x


def reading(x: Any) -> Any:
    for i in range(40):
        x = x.at[i].set(jnp.sin(x[i]) + x[39 - i])
    return x


def from_zeros(x: Any) -> Any:
    y = jnp.zeros((8, 8))
    for i in range(39):
        y = y.at[i % 8, (i * 3) % 8].set(x[i] * x[i + 1])
    return y.sum(0), y


def dynamic(x: Any, i: Any) -> Any:
    for k in range(20):
        x = lax.dynamic_update_slice(x, x[k : k + 1] + k, (i + k,))
        x = x.at[i - k].add(x[3], mode="drop")
    return x


@pytest.mark.parametrize("f", [literal, reading, from_zeros], ids=lambda f: f.__name__)
@pytest.mark.parametrize("donated", [False, True])
def test_many_updates(f: Callable[..., Any], donated: bool) -> None:
    compiled = check(f, X, donated=(donated,))
    assert len(compiled.program.kernels) <= 2
    assert compiled.memory_analysis().temp_size_in_bytes == 0
    if donated and f is not from_zeros:
        assert compiled.memory_analysis().alias_size_in_bytes == X.nbytes


def test_dynamic_places() -> None:
    for i in (0, 5, 39, 100, -3):
        check(dynamic, X, np.int32(i))


@pytest.mark.parametrize("seed", range(12))
def test_versions_fuzz(seed: int) -> None:
    """Random updates of random versions of arrays, which read random versions."""

    def f(x: Any, y: Any) -> Any:
        rng = np.random.default_rng(seed)
        versions = [x, y, jnp.zeros(40) + x[2]]
        for _ in range(14):
            base, other = (versions[int(k)] for k in rng.integers(0, len(versions), 2))
            i, j, n = (int(k) for k in rng.integers(0, 40, 3))
            kind = rng.integers(0, 7)
            if kind == 0:
                new = base.at[i].set(other[j])
            elif kind == 1:
                new = base.at[i].add(base[j] * other[n])
            elif kind == 2:
                new = lax.dynamic_update_slice(base, other[j : j + 3], (i,))
            elif kind == 3:
                new = base.at[jnp.array([i, j, n])].add(other[:3])
            elif kind == 4:
                new = base.at[i].set(other.sum() * 0.01)
            elif kind == 5:
                new = base.at[i].multiply(other[(i + 1) % 40])
            else:
                new = jnp.sin(base) + other.at[j].set(2.0)
            versions.append(new)
        return versions[-1], versions[-3], versions[int(rng.integers(0, len(versions)))]

    for donated in ((False, False), (True, False), (True, True)):
        check(f, X, np.cos(X), donated=donated)


def test_linear_in_program_size() -> None:
    def seconds(n: int) -> float:
        def f(x: Any) -> Any:
            for i in range(n):
                x = x.at[i % 40].set(0.5 * i + n)
            return x

        closed = pullback.make_jaxpr(f)(X)
        start = time.perf_counter()
        compiled = NativeExecutable(closed)
        assert len(compiled.program.kernels) <= -(-n // 64) + 1
        return time.perf_counter() - start

    seconds(10)
    assert seconds(800) < 12 * seconds(200)
