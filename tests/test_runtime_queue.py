"""Long computations: what fails, who learns of it, what a callback may do, what waits for what."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from forked import in_child

import pullback
from pullback import jit, numpy as jnp
from pullback.errors import JaxRuntimeError
from pullback.runtime import memory
from pullback.runtime.queue import queue

N = 8_000_000  # numbers, on which even little arithmetic takes longer than a millisecond
KIND = pullback.ShapeDtypeStruct((), np.float32)


def broken(x: Any) -> Any:
    raise ValueError("from the callback")


@jit
def failing(x: Any) -> Any:
    """Long, and its callback raises."""
    y = jnp.sin(x) * 2
    return y + pullback.pure_callback(broken, KIND, y.sum())


def test_errors_come_with_the_value() -> None:
    """The call returns; whoever asks for the value learns, each time, and the queue goes on."""
    y = failing(np.zeros(N, np.float32))
    for _ in range(2):
        with pytest.raises(JaxRuntimeError, match="from the callback"):
            y.block_until_ready()
    with pytest.raises(JaxRuntimeError, match="from the callback"):
        np.asarray(y)
    np.testing.assert_allclose(jnp.ones(N)[:3] + 1, [2, 2, 2])


def test_errors_reach_what_depends_on_them() -> None:
    """A computation on an array that failed fails with the same error; others do not."""
    x = np.zeros(N, np.float32)
    y = failing(x)
    z = jit(lambda y: jnp.cos(y) + 1)(y)
    w = jit(lambda x: jnp.cos(x) + 1)(x)
    with pytest.raises(JaxRuntimeError, match="from the callback"):
        np.asarray(z)
    np.testing.assert_allclose(w[:3], [2, 2, 2])
    with pytest.raises(JaxRuntimeError, match="from the callback"):
        failing(y)[0]


def test_callbacks_compute() -> None:
    """Python on the queue's thread runs long and short programs at once, and fresh traces."""
    inner = jit(lambda x: jnp.sin(x) + 1)
    big = np.zeros(N, np.float32)

    def on_host(x: Any) -> Any:
        long = inner(big)
        fresh = jit(lambda v: v * 2)(x)
        return np.float32(float(fresh) + float(long[5]) + float(inner(x)))

    f = jit(lambda x: jnp.cos(x) + pullback.pure_callback(on_host, KIND, x[0]))
    for _ in range(3):
        np.testing.assert_allclose(f(big)[:2], [3, 3], rtol=1e-6)


def test_order_and_threads() -> None:
    """Chains of long computations from several threads, each reading only its own."""
    step = jit(lambda x: x * 2 + 1)
    results: dict[int, float] = {}

    def work(k: int) -> None:
        x = jnp.full(N, float(k))
        for _ in range(5):
            x = step(x)
        results[k] = float(x[-1])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == {k: k * 32 + 31 for k in range(4)}


@pytest.mark.usefixtures("at_rest")
def test_donation_frees_memory() -> None:
    """A loop of donated steps holds two arrays, not one a step; nothing stays behind."""
    step = jit(lambda x: jnp.sin(x) + 1, donate_argnums=0)
    x = step(jnp.zeros(N))
    x.block_until_ready()
    before = memory.memory_stats()["bytes_in_use"]
    for _ in range(10):
        x = step(x)
        x.block_until_ready()
    queue().drain()
    gc.collect()
    assert memory.memory_stats()["bytes_in_use"] <= before + 2 * 4 * N
    x.delete()
    gc.collect()
    assert memory.memory_stats()["bytes_in_use"] < before


def test_donated_argument_given_twice() -> None:
    """An error, as in JAX, whether the other use is donated or not; the array is still there."""
    f = jit(lambda x, y: jnp.sin(x) + y, donate_argnums=0)
    x = jnp.ones(N)
    with pytest.raises(JaxRuntimeError, match="donate"):
        f(x, x)
    np.testing.assert_array_equal(x[:2], 1)
    both = jit(lambda x, y: x + y, donate_argnums=(0, 1))
    for size in (3, N):
        x = jnp.ones(size)
        told = pytest.warns(UserWarning, match="donated")  # one of two can be used
        with told, pytest.raises(JaxRuntimeError, match="donat"):
            both(x, x)
        assert not x.is_deleted()


def test_results_that_are_arguments() -> None:
    """A long computation that also returns what it was given, twice."""
    f = jit(lambda x: (x, jnp.sin(x) + 1, x, jnp.sin(x) + 1))
    x = jnp.ones(N)
    a, b, c, d = f(x)
    assert not x.is_deleted()
    for got, expected in ((a, 1), (b, np.sin(1) + 1), (c, 1), (d, np.sin(1) + 1)):
        np.testing.assert_allclose(got[:2], expected, rtol=1e-6)
    for y in (a, b, c, d):
        y.delete()
    assert float(x[0]) == 1


def test_nothing_keeps_the_arguments() -> None:
    """After the result is there, the arguments of a long computation can go."""
    x = jnp.ones(N)
    y = jit(lambda x: jnp.sin(x) + 1)(x)
    y.block_until_ready()
    queue().drain()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_fork_while_another_thread_computes_and_compiles() -> None:
    """Long computations of the forking thread are done in the child too; those of another thread
    are done there, or have failed with a reason; and the child compiles."""
    stop = threading.Event()
    heavy = jit(lambda x: jnp.sin(x).sum())
    x = jnp.ones(N)
    expected = float(heavy(x))
    latest: list[Any] = []

    def work() -> None:
        k = 0
        while not stop.is_set():
            latest[:] = [heavy(x)]
            k += 1
            jit(lambda x, k=k: jnp.tanh(x * k) + k)(1.0)
            latest[0].block_until_ready()

    def check() -> None:
        assert float(mine) == expected
        assert float(heavy(x)) == expected
        try:
            theirs = float(latest[0]) if latest else expected
        except JaxRuntimeError as error:
            assert "block_until_ready() before os.fork()" in str(error)
        else:
            assert theirs == expected
        assert abs(float(jit(lambda x: jnp.cos(x) * 3 + 2)(1.0)) - 3.620907) < 1e-5

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(6):
            mine = heavy(x)
            in_child(check)
    finally:
        stop.set()
        thread.join()


def test_programs_that_prove_short_leave_the_queue() -> None:
    """An estimate far too long holds until a few runs have been timed: then calls are native."""
    f = jit(lambda x: jnp.sin(x) * 2)
    x = jnp.ones(8)
    compiled = f.lower(x).compile().runtime_executable()
    compiled._seconds = 1.0
    assert not compiled.nativable
    for _ in range(3):
        np.testing.assert_allclose(compiled([x])[0], np.sin(1.0) * 2 * np.ones(8), rtol=1e-6)
    queue().drain()
    assert compiled.nativable


def test_programs_that_take_long_stay_on_the_queue() -> None:
    f = jit(lambda x: jnp.sin(x) * 2)
    x = jnp.ones(N)
    compiled = f.lower(x).compile().runtime_executable()
    compiled._seconds = 1.0
    for _ in range(3):
        compiled._learn(2e-3)
    assert not compiled.nativable
