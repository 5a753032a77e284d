"""The examples of seed 004: a short tour of JAX, its transformations and its random keys."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import grad, jit, vmap

from seedlib import shows


def test_impure_function_keeps_what_it_saw():
    bias = jnp.array(0)

    def impure_example(x):
        total = x + bias
        return total

    compiled = jit(impure_example)
    shows(compiled(1), "Array(1, dtype=int32, weak_type=True)")
    bias = jnp.array(5)
    shows(compiled(1), "Array(1, dtype=int32, weak_type=True)")
    shows(impure_example(1), "Array(6, dtype=int32, weak_type=True)")


def test_pure_function():
    def pure_example(x, weights, bias):
        activation = weights @ x + bias
        return activation

    weights = jnp.arange(6.0).reshape(2, 3)
    result = pure_example(jnp.ones(3), weights, jnp.ones(2))
    shows(result, "Array([ 4., 13.], dtype=float32)")
    shows(jit(pure_example)(jnp.ones(3), weights, jnp.ones(2)), "Array([ 4., 13.], dtype=float32)")


def test_uniform():
    key = jax.random.PRNGKey(42)
    u = jax.random.uniform(key)
    shows(u, "Array(0.48870957, dtype=float32)")


def test_split_and_consume():
    key = jax.random.PRNGKey(43)

    key, subkey = jax.random.split(key)
    u = jax.random.uniform(subkey)
    shows(u, "Array(0.02785075, dtype=float32)")

    key, subkey = jax.random.split(key)
    u = jax.random.uniform(subkey)
    shows(u, "Array(0.07010841, dtype=float32)")


def test_selu():
    @jit
    def selu(x, α=1.67, λ=1.05):
        return λ * jnp.where(x > 0, x, α * jnp.exp(x) - α)

    result = selu(jnp.arange(-2.0, 3.0))
    shows(result, "Array([-1.5161895, -1.1084234, 0., 1.05, 2.1], dtype=float32)")


def test_grad_of_grad():
    def f(x):
        return x + 0.5 * x**2

    df_dx = grad(f)
    d2f_dx2 = grad(grad(f))
    shows(df_dx(3.0), "Array(4., dtype=float32, weak_type=True)")
    shows(d2f_dx2(3.0), "Array(1., dtype=float32, weak_type=True)")


weights = np.arange(12, dtype=np.float32).reshape(3, 4)


def linear(x):
    return weights @ x


def naively_batched_linear(X_batched):
    return jnp.stack([linear(x) for x in X_batched])


def vmap_batched_linear(X_batched):
    return vmap(linear)(X_batched)


@pytest.mark.parametrize(
    "make", [lambda: jnp.asarray(weights), lambda: weights], ids=["jax", "numpy"]
)
def test_vmap_of_a_linear_function(make, monkeypatch):
    monkeypatch.setitem(globals(), "weights", make())
    X = jnp.arange(20.0).reshape(5, 4)
    expected = np.arange(20.0).reshape(5, 4) @ np.asarray(weights).T
    np.testing.assert_allclose(vmap_batched_linear(X), expected, rtol=1e-6)
    np.testing.assert_allclose(naively_batched_linear(X), expected, rtol=1e-6)


def test_pmap():
    doubled = jax.pmap(lambda x: 2 * x)(jnp.arange(jax.device_count(), dtype=jnp.float32))
    np.testing.assert_array_equal(doubled, 2 * np.arange(jax.device_count()))
