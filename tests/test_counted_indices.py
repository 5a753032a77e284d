"""Indices that are computed from indices alone: addresses with known bounds in every piece."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

import pullback as pb
from pullback import lax, numpy as jnp

N = 5000
DATA = np.random.default_rng(3).normal(size=N).astype(np.float32)
GRID = np.random.default_rng(4).normal(size=(70, 130)).astype(np.float32)


def windows(np_, x):
    return (x[np_.arange(N - 31)[:, None] + np_.arange(32)] * 2).sum(1)


def bytes_equal(np_, x):
    s = (x * 3).astype(np_.uint8)
    return (s[np_.arange(N - 3)[:, None] + np_.arange(4)] == 1).all(1)


def wrapped(np_, x):
    i = np_.arange(N)
    return x[(i + 1) % N] - x[(i - 1) % N] * x[i - 2]


def clipped(np_, x):
    i = np_.arange(N)
    return x[np_.clip(i + 3, 0, N - 1)] - x[np_.maximum(i - 5, 0)] + x[np_.minimum(i + 1, N - 7)]


def backwards(np_, x):
    return x[N - 1 - np_.arange(N)] + x[-np_.arange(1, N + 1)]


def filled(np_, x):
    i = np_.arange(N)
    return np_.take(x, i + 3), np_.take(x, i - 3, mode="fill", fill_value=7.0)


def strided(np_, x):
    return x[np_.arange(0, N, 2)] - x[np_.arange(1, N, 2, dtype=np_.uint32)]


def quotients(np_, x):
    k = np_.arange(N)
    return x[k // 2], x[k % 100], x[(k - N // 2) // N + 1], x[(2 * k) % N]


def narrow(np_, x):
    i = np_.arange(200, dtype=np_.uint8)
    return x[i + np_.uint8(100)], x[:100][np_.arange(100, dtype=np_.int8) - np_.int8(50)]


VECTORS = [windows, bytes_equal, wrapped, clipped, backwards, filled, strided, quotients, narrow]


def rolled_columns(np_, x):
    j = np_.arange(130)
    return x[:, (j + 1) % 130] - x[:, (j - 1) % 130], x[(np_.arange(70) + 69) % 70, :].sum(0)


def diagonals(np_, x):
    i = np_.arange(69)
    return x.at[i, i].add(1.0).at[i, i + 1].set(2.0).at[i + 5, 3].multiply(0.5)


def picked(np_, x):
    i = np_.arange(70)
    return x[i, (i * i) % 130], x[i[:, None], i[:, None] + np_.arange(60)].max(0)


def selected(np_, x):
    i, j = np_.arange(70)[:, None], np_.arange(130)
    return (
        np_.where(i < j - 200, 1.0, x),
        np_.where((i >= 0) & (j < 130), x, 0.0),
        x[i % 7, j // 13],
    )


GRIDS = [rolled_columns, diagonals, picked, selected]


@pytest.mark.parametrize("function", [*VECTORS, *GRIDS], ids=lambda f: f.__name__)
def test_computed_indices_read_what_jaxs_do(function):
    x = DATA if function in VECTORS else GRID
    want = jax.tree.leaves(jax.jit(lambda x: function(jax.numpy, x))(x))
    got = pb.tree_util.tree_leaves(pb.jit(lambda x: function(jnp, x))(x))
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("function", [windows, bytes_equal, wrapped, clipped, backwards, strided])
def test_computed_indices_are_addresses(function):
    text = pb.jit(lambda x: function(jnp, x)).lower(DATA).as_text("loops")
    assert "clamp" not in text


def test_indices_of_loops_are_known_through_arithmetic():
    def step(i, x):
        return x + lax.dynamic_slice(jnp.asarray(DATA), (i * 8 + 4,), (8,))

    f = lambda x: lax.fori_loop(0, 20, step, x)
    assert "clamp" not in pb.jit(f).lower(np.zeros(8, np.float32)).as_text("loops")
    want = sum(DATA[8 * k + 4 : 8 * k + 12] for k in range(20))
    np.testing.assert_allclose(np.asarray(pb.jit(f)(np.zeros(8, np.float32))), want, rtol=1e-5)


def test_counted_numbers_are_divided_as_indices_are():
    """A sieve: no divisor is 0 or negative, nor is what it divides."""

    def crossed(np_, sieve):
        def step(i, sieve):
            k = np_.arange(sieve.shape[0])
            return np_.where((k % i == 0) & (k > i), 0.0, sieve)

        fori_loop = lax.fori_loop if np_ is jnp else jax.lax.fori_loop
        return fori_loop(2, 20, step, sieve)

    with pb.enable_x64(), jax.enable_x64():
        sieve = np.ones(301)
        function = pb.jit(lambda s: crossed(jnp, s))
        assert "irem" in function.lower(sieve).as_text("loops")
        expected = jax.jit(lambda s: crossed(jax.numpy, s))(sieve)
        assert np.array_equal(function(sieve), expected)


@pytest.mark.parametrize(
    ("shape", "groups"), [((8, 32, 28, 28), (8, 4, 6272)), ((3, 12, 30, 20), (3, 4, 1800))]
)
def test_groups_of_whole_rows_are_divided_once_a_row(shape, groups):
    """What is counted inside of a row does not change which group it is in: no lane divides."""

    def normalised(np_, x):
        rows = x.reshape(groups)
        centred = rows - rows.mean(-1, keepdims=True)
        return (centred / np_.sqrt(rows.var(-1, keepdims=True) + 1e-5)).reshape(shape)

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    f = pb.jit(lambda x: normalised(jnp, x))
    loops = re.split(r"\n *for ", f.lower(x).as_text("loops"))
    assert not any("idiv" in loop or "irem" in loop for loop in loops if loop.startswith("vector"))
    np.testing.assert_allclose(f(x), normalised(np, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_reshapes_in_a_row_are_what_numpy_makes_of_them(seed):
    """Axes merged, split and turned in any way, so that indices are divided again and again."""
    rng = np.random.default_rng(seed)
    x = np.arange(720, dtype=np.float32)
    shapes = []
    for _ in range(4):
        left, shape = 720, []
        while left > 1 and len(shape) < 4:
            divisors = [d for d in range(2, left + 1) if left % d == 0]
            shape.append(int(rng.choice(divisors)))
            left //= shape[-1]
        shapes.append((*shape, left))
    orders = [rng.permutation(len(shape)) for shape in shapes]

    def turned(np_, x):
        for shape, order in zip(shapes, orders, strict=True):
            x = np_.transpose(x.reshape(shape), order) + 1
            x = x[:, ::-1]
        return x

    np.testing.assert_array_equal(pb.jit(lambda x: turned(jnp, x))(x), turned(np, x))
