"""example_libraries beside real JAX: every optimiser for five steps, and networks of layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.example_libraries import optimizers as jax_optimizers, stax as jax_stax

import pullback as pb
import pullback.numpy as pnp
from pullback.example_libraries import optimizers, stax

MAKERS = {
    "sgd": lambda o: o.sgd(o.inverse_time_decay(0.1, 3, 0.5, staircase=True)),
    "momentum": lambda o: o.momentum(0.01, 0.9),
    "nesterov": lambda o: o.nesterov(0.01, 0.9),
    "adagrad": lambda o: o.adagrad(0.01),
    "rmsprop": lambda o: o.rmsprop(0.01),
    "rmsprop_momentum": lambda o: o.rmsprop_momentum(0.01),
    "adam": lambda o: o.adam(o.exponential_decay(0.1, 3, 0.9)),
    "adamax": lambda o: o.adamax(o.polynomial_decay(0.1, 3, 0.01)),
    "sm3": lambda o: o.sm3(o.piecewise_constant([2, 4], [0.1, 0.05, 0.02])),
}


def trained(j: Any, n: Any, o: Any, name: str) -> list[Any]:
    params = {"w": n.arange(6.0).reshape(2, 3) / 5, "b": n.float32(0.3)}
    init, update, get_params = MAKERS[name](o)
    state = init(params)
    for k in range(5):
        grads = j.grad(lambda p: ((p["w"] ** 2).sum() - p["b"]) ** 2)(get_params(state))
        state = update(k, o.clip_grads(grads, 5.0), state)
    state = o.pack_optimizer_state(o.unpack_optimizer_state(state))
    return [np.asarray(x) for x in j.tree.leaves(get_params(state))]


@pytest.mark.parametrize("name", list(MAKERS))
def test_optimizers(name: str) -> None:
    expected = trained(jax, jnp, jax_optimizers, name)
    for a, b in zip(expected, trained(pb, pnp, optimizers, name), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


NETS = {
    "convolutions": lambda s: (
        s.serial(
            s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu,
            s.MaxPool((2, 2), strides=(2, 2)), s.Conv(3, (2, 2), (2, 2)), s.AvgPool((2, 2)),
            s.Flatten, s.Dense(5), s.LogSoftmax,
        ),
        (2, 8, 8, 3),
    ),
    "branches": lambda s: (
        s.serial(
            s.FanOut(2), s.parallel(s.serial(s.Dense(4), s.Tanh), s.Dense(4)), s.FanInSum,
            s.Dropout(0.7), s.FanOut(2), s.FanInConcat(), s.Elu, s.Gelu, s.Selu, s.Softplus,
        ),
        (3, 6),
    ),
    "transposes": lambda s: (
        s.serial(
            s.ConvTranspose(2, (3, 3), (2, 2), "SAME"), s.SumPool((2, 2)), s.Identity,
            s.shape_dependent(lambda shape: s.Dense(shape[-1])), s.Softmax, s.Exp,
        ),
        (2, 4, 4, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(NETS))
def test_stax(name: str) -> None:
    found = []
    for j, n, s in ((jax, jnp, jax_stax), (pb, pnp, stax)):
        (init, apply), shape = NETS[name](s)
        out_shape, params = init(j.random.PRNGKey(0), shape)
        x = n.cos(n.arange(np.prod(shape), dtype=n.float32)).reshape(shape)
        y = apply(params, x, rng=j.random.PRNGKey(1))
        assert tuple(map(int, out_shape)) == y.shape
        found.append(np.asarray(y))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_errors() -> None:
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="gradient tree that did not match"):
        update(0, {"b": 1.0}, init({"a": 1.0}))
    with pytest.raises(ValueError, match="one shorter"):
        optimizers.piecewise_constant([1], [1.0])
    with pytest.raises(ValueError, match="PRNG key"):
        stax.Dropout(0.5)[1]((), pnp.ones(3))
