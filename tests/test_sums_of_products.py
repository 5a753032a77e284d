"""Sums over a loop's steps of products are one product after the loop."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import numpy as jax_numpy

import pullback as pb
from pullback import numpy as jnp
from pullback.loops.sums_of_products import products_after_loops

RANDOM = np.random.default_rng(3)
T, B, N, M = 7, 3, 36, 40


def numbers(*shape, dtype="float32"):
    return (RANDOM.standard_normal(shape) * 4).astype(dtype)


def recurrent(module, np_, w, u, x, h):
    def step(h, x):
        h = np_.tanh(h @ w + x @ u)
        return h, h

    return (module.lax.scan(step, h, x)[1] ** 2).sum()


def gradient(module, np_, *a):
    return module.grad(lambda *p: recurrent(module, np_, *p, *a[2:]), (0, 1))(*a[:2])


def summed(module, np_, s, x, y, reverse=False):
    def step(s, row):
        x, y = row
        return s + x.T @ np_.sin(y), None

    return module.lax.scan(step, s, (x, y), reverse=reverse)[0]


def turned(module, np_, s, x, y):
    """With a batch axis, a transposition, an operand that the step carries, and one it returns."""

    def step(state, row):
        s, last = state
        x, y = row
        z = x[:, :, None] * y[0, 0]
        found = np_.swapaxes(np_.einsum("bik,bjk->bij", z, last), 1, 2)
        return (found + s, z + 0.5 * last), z

    start = np_.zeros((B, N, N), x.dtype) + s[:N, :N], np_.ones((B, N, 1), x.dtype)
    return module.lax.scan(step, start, (x, y))


def kept(module, np_, s, x, y):
    """Sums that a step reads, or returns, stay in the loop; so do those of large products."""

    def step(state, row):
        a, b, c = state
        x, y = row
        a, b = a + x.T @ y, b + x.T @ y * a[0, 0]
        return (a, b, c + s.T @ (s * y[0, 0])), b[:2, :2]

    return module.lax.scan(step, (s, s, s.T @ s), (x, y))


WEIGHTS = numbers(N, N) / 20, numbers(M, N) / 20, numbers(T, B, M), numbers(B, N)
SUMS = numbers(N, M), numbers(T, B, N), numbers(T, B, M)
PROGRAMS = {
    "gradient": (gradient, WEIGHTS),
    "summed": (summed, SUMS),
    "backwards": (lambda m, n, *a: summed(m, n, *a, reverse=True), SUMS),
    "turned": (turned, SUMS),
    "kept": (kept, SUMS),
}


def loops(program):
    """What a program's loops carry, and how many products there are outside of them."""
    after = products_after_loops(program.jaxpr)
    carried = [e.params["num_carry"] for e in after.eqns if e.primitive.name == "scan"]
    return carried, sum(e.primitive.name == "dot_general" for e in after.eqns)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mapped", [False, True])
def test_values(name, mapped):
    f, arguments = PROGRAMS[name]
    if mapped:
        arguments = [np.stack([a, -0.5 * a]) for a in arguments]
    under = lambda m, n: m.vmap(lambda *a: f(m, n, *a)) if mapped else lambda *a: f(m, n, *a)
    want = jax.jit(under(jax, jax_numpy))(*arguments)
    got = pb.jit(under(pb, jnp))(*arguments)
    for w, g in zip(jax.tree.leaves(want), pb.tree.leaves(got), strict=True):
        w, g = np.asarray(w), np.asarray(g)
        assert w.shape == g.shape and w.dtype == g.dtype
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * np.abs(w).max())


@pytest.mark.parametrize(
    ("name", "carried", "products"),
    [("gradient", 1, 2), ("summed", 0, 1), ("backwards", 0, 1), ("turned", 1, 1), ("kept", 3, 1)],
)
def test_structure(name, carried, products):
    f, arguments = PROGRAMS[name]
    found, outside = loops(pb.make_jaxpr(lambda *a: f(pb, jnp, *a))(*arguments))
    assert found[-1] == carried
    assert outside == products


def test_whole_numbers_are_exact_and_long_loops_take_no_more_memory():
    x, y = ((v * 10).astype(np.int32) for v in SUMS[1:])
    f = lambda s, x, y: pb.lax.scan(lambda s, r: (s + r[0].T @ r[1], None), s, (x, y))[0]
    s = np.zeros((N, M), np.int32)
    np.testing.assert_array_equal(pb.jit(f)(s, x, y), np.einsum("tbi,tbj->ij", x, y))

    def wide(s, x):  # what is multiplied is far larger than what the loop reads
        return pb.lax.scan(
            lambda s, x: (s + jnp.sin(jnp.ones((8, N)) * x).T @ jnp.ones((8, M)) * 1.0, None), s, x
        )[0]

    assert loops(pb.make_jaxpr(wide)(SUMS[0], np.zeros(1000, np.float32)))[0] == [1]
