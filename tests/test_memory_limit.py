"""`compiler_options={"memory_limit": n}`: values are computed again rather than kept."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import in_child

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.errors import JaxRuntimeError
from pullback.runtime import memory, native_layout


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """Each thread has scratch memory of its own, which counts."""
    with pb.num_threads(2):
        yield


def _perceptron(weights: Any, x: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).mean()


def _convolutions(filters: Any, x: Any) -> Any:
    for w in filters:
        window = ("NHWC", "HWIO", "NHWC")
        x = pb.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=window))
    return x.mean()


def _norms(scales: Any, x: Any) -> Any:
    for s in scales:
        x = x + jnp.sin((x - x.mean(1, keepdims=True)) * s) * lax.rsqrt(1 + x.var(1, keepdims=True))
    return x.sum()


def _data(*shape: int) -> Any:
    values = np.random.RandomState(sum(shape)).randn(*shape) / np.sqrt(shape[-1])
    return jnp.asarray(values.astype(np.float32))


CASES = {
    "products": (_perceptron, ([_data(64, 64)] * 10, _data(512, 64)), 0.75),
    "unequal widths": (
        _perceptron,
        (
            [_data(a, b) for a, b in itertools.pairwise((64, 90, 40, 120, 60, 130, 80, 44, 100))],
            _data(512, 64),
        ),
        0.9,
    ),
    "convolutions": (_convolutions, ([_data(3, 3, 4, 4)] * 8, _data(4, 24, 24, 4)), 0.7),
    "rows": (_norms, ([_data(96)] * 8, _data(512, 96)), 0.7),
}


def _peak(f: Any, args: Any) -> int:
    return int(f.lower(*args).compile().memory_analysis().peak_memory_in_bytes)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if k % 2 else []) for k, n in enumerate(CASES)],
)
def test_a_gradient_fits_its_limit_with_the_same_bits(name: str) -> None:
    function, args, part = CASES[name]
    plain = pb.jit(pb.grad(function))
    limit = int(_peak(plain, args) * part)
    limited = pb.jit(pb.grad(function), compiler_options={"memory_limit": limit})
    want, got = plain(*args), limited(*args)
    assert _peak(limited, args) <= limit < _peak(plain, args)
    for a, b in zip(pb.tree.leaves(want), pb.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_limit_that_the_program_keeps_changes_nothing() -> None:
    function, args, _ = CASES["products"]
    plain = pb.jit(pb.grad(function))
    limited = pb.jit(pb.grad(function), compiler_options={"memory_limit": 1 << 30})
    texts = [f.lower(*args).compile().as_text() for f in (plain, limited)]
    assert texts[0] == texts[1]


def test_idle_memory_is_freed_where_there_is_no_room() -> None:
    """Values of different sizes, one after the other: as much as two of them need."""
    sizes = (300, 600, 150, 900, 450)
    weights = [_data(a, b) for a, b in zip((200, *sizes), sizes, strict=False)]

    def chain(x: Any) -> Any:
        for w in weights:
            x = jnp.sort(x @ w, axis=1)
        return x

    args = (_data(64, 200),)
    plain = pb.jit(chain)
    limit = int(_peak(plain, args) * 0.8)
    limited = pb.jit(chain, compiler_options={"memory_limit": limit})
    assert _peak(limited, args) <= limit
    np.testing.assert_array_equal(np.asarray(plain(*args)), np.asarray(limited(*args)))


def test_effects_and_random_numbers_happen_once() -> None:
    seen: list[float] = []

    def f(key: Any, x: Any) -> Any:
        total = 0.0
        for k in range(6):
            x = jnp.sin(x) * pb.random.uniform(pb.random.fold_in(key, k), x.shape)
            pb.debug.callback(lambda v: seen.append(float(v)), x.sum(), ordered=True)
            total += (x * x).sum()
        return total

    args = (pb.random.key(1), _data(256, 64))
    plain = pb.jit(pb.grad(f, 1))
    limit = int(_peak(plain, args) * 0.85)
    want = plain(*args)
    pb.effects_barrier()
    count = len(seen)
    got = pb.jit(pb.grad(f, 1), compiler_options={"memory_limit": limit})(*args)
    pb.effects_barrier()
    np.testing.assert_array_equal(np.asarray(want), np.asarray(got))
    assert len(seen) == 2 * count and seen[:count] == seen[count:]


def test_a_limit_that_cannot_be_kept_says_so() -> None:
    f = pb.jit(lambda x: x @ x.T, compiler_options={"memory_limit": 1000})
    with pytest.raises(JaxRuntimeError, match=r"RESOURCE_EXHAUSTED.*memory_limit is 1,000\. Fix"):
        f(_data(64, 64))
    for bad in (0, -1, 1.5, True, "1GB"):
        with pytest.raises(ValueError, match="memory_limit"):
            pb.jit(lambda x: x, compiler_options={"memory_limit": bad})


def test_donated_arguments_count_once() -> None:
    function, args, part = CASES["rows"]

    def step(scales: Any, x: Any) -> Any:
        grads = pb.grad(function)(scales, x)
        return [s - 0.1 * g for s, g in zip(scales, grads, strict=True)]

    limit = int(_peak(pb.jit(step, donate_argnums=0), args) * part)
    fitted = pb.jit(step, donate_argnums=0, compiler_options={"memory_limit": limit})
    fresh = ([jnp.array(s, copy=True) for s in args[0]], args[1])
    want = pb.jit(step)(*args)
    for a, b in zip(want, fitted(*fresh), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize(
    "program",
    [
        lambda: jnp.zeros((1 << 42,)),
        lambda: jnp.zeros((1 << 62, 4)),  # more bytes than 64 bits can count
        lambda: jnp.zeros((1 << 70,)),
        lambda: pb.jit(lambda x: jnp.sort(x * jnp.ones((1 << 40, 4)))[0, 0])(1.0),
        lambda: jnp.ones((1 << 20, 1)) @ jnp.ones((1, 1 << 22)),
        lambda: lax.scan(lambda c, _: (c, c), jnp.ones(1000), None, length=1 << 36),
    ],
    ids=["array", "overflow", "beyond", "temporary", "product", "stacked"],
)
def test_too_little_memory_says_how_much_and_what_to_do(program: Any) -> None:
    with pytest.raises(JaxRuntimeError, match=r"RESOURCE_EXHAUSTED: .*allocating \d+ bytes") as e:
        pb.block_until_ready(program())
    assert isinstance(e.value, MemoryError) and "Fix: smaller" in str(e.value)


def test_no_block_is_larger_than_the_machines_memory() -> None:
    """Also where the system promises any amount, and ends the process when it is written to."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    word = memory.engine.word(native_layout.MEMORY_TOTAL)
    assert total <= word.value < 1 << 46
    f, before = pb.jit(lambda x: jnp.zeros(1 << 20) + x), word.value
    try:
        word.value = 1 << 20
        with pytest.raises(JaxRuntimeError, match=r"Out of memory allocating 4194304 bytes"):
            f(1.0)
    finally:
        word.value = before
    assert f(1.0).sum() == 1 << 20


def test_calls_that_have_run_before_say_it_too() -> None:
    n = 1 << 18
    x, mine, theirs = jnp.zeros(n, jnp.int8), np.zeros(n, np.int8), np.zeros(n, np.float64)
    f = pb.jit(lambda x: x + 1)
    runs = [lambda: f(x), lambda: x + x, lambda: f(theirs), lambda: jnp.array(mine)]
    for run in runs * 3:
        run()

    def with_little_memory() -> None:
        memory.trim()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (32 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        for run in runs:
            kept = []
            with pytest.raises(JaxRuntimeError, match=r"Out of memory allocating \d+ bytes"):
                while True:
                    kept.append(run())

    in_child(with_little_memory)
