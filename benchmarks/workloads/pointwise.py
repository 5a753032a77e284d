"""Elementwise programs: arithmetic and memory traffic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload


def selu_case(space: Space, count: int) -> Case:
    jnp = space.jnp

    def selu(x: Any, alpha: float = 1.67, scale: float = 1.05) -> Any:
        return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)

    return Case(selu, (space.array(data(count, low=-3, high=3)),))


@workload(
    "pointwise", "selu, 1e6", numpy=True, torch=lambda torch, x: torch.selu(x), tolerance=2e-3
)
def selu_small(space: Space) -> Case:
    return selu_case(space, 1_000_000)


@workload(
    "pointwise", "selu, 1e7", numpy=True, torch=lambda torch, x: torch.selu(x), tolerance=2e-3
)
def selu_large(space: Space) -> Case:
    return selu_case(space, 10_000_000)


@workload("pointwise", "gelu (tanh), 1e6", numpy=True, torch=torch_peers.gelu)
def gelu(space: Space) -> Case:
    jnp = space.jnp

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + jnp.tanh(0.7978846 * (x + 0.044715 * x * x * x)))

    return Case(gelu, (space.array(data(1_000_000, low=-3, high=3)),))


@workload("pointwise", "exp, log, power, 1e6", numpy=True, torch=torch_peers.mixture)
def mixture(space: Space) -> Case:
    jnp = space.jnp
    x = space.array(data(1_000_000, low=0.5, high=2))
    return Case(lambda x: jnp.log(x + 1) * jnp.exp(-x) + x**1.7, (x,))


@workload("pointwise", "axpy in bfloat16, 1e6")
def half_axpy(space: Space) -> Case:
    x, y = (space.array(data(1_000_000, seed=s)).astype(space.jnp.bfloat16) for s in (0, 1))
    return Case(lambda x, y: 2 * x + y, (x, y), wait_each=True)


@workload("pointwise", "Black-Scholes, 1e6 options", torch=torch_peers.black_scholes)
def black_scholes(space: Space) -> Case:
    jnp = space.jnp
    price, strike = (data(1_000_000, seed=s, low=50, high=150) for s in (0, 1))
    years = data(1_000_000, seed=2, low=0.1, high=2)

    def call(price: Any, strike: Any, years: Any, rate: float = 0.02, vol: float = 0.3) -> Any:
        root = vol * jnp.sqrt(years)
        d1 = (jnp.log(price / strike) + (rate + vol * vol / 2) * years) / root
        normal = lambda d: 0.5 * (1 + space.lax.erf(d * 0.70710678))
        return price * normal(d1) - strike * jnp.exp(-rate * years) * normal(d1 - root)

    return Case(call, tuple(space.array(a) for a in (price, strike, years)))


@workload(
    "pointwise", "20 times sin(x) * 1.01 + x.mean(), 1e5", numpy=True, torch=torch_peers.repeated
)
def repeated(space: Space) -> Case:
    def body(x: Any) -> Any:
        for _ in range(20):
            x = space.jnp.sin(x) * 1.01 + x.mean()
        return x

    return Case(body, (space.array(data(100_000)),))


@workload(
    "pointwise",
    "standardise columns, 10000 x 10",
    numpy=True,
    source="seed 000",
    torch=torch_peers.standardise,
)
def standardise(space: Space) -> Case:
    def norm(X: Any) -> Any:
        X = X - X.mean(0)
        return X / X.std(0)

    return Case(norm, (space.array(data(10_000, 10)),))


@workload("pointwise", "polynomial of degree 9, 1e6", numpy=True, torch=torch_peers.polynomial)
def polynomial(space: Space) -> Case:
    return Case(space.jnp.polyval, (space.array(data(10)), space.array(data(1_000_000, seed=1))))


@workload("pointwise", "remainders, 1e6", numpy=True,
          torch=lambda torch, x, y: torch.remainder(x, y))  # fmt: skip
def remainders(space: Space) -> Case:
    x, y = data(1_000_000, low=-100, high=100), data(1_000_000, seed=1, low=0.5, high=2)
    return Case(lambda x, y: x % y, (space.array(x), space.array(y)))


@workload("pointwise", "integers modulo 17, 1e6", numpy=True,
          torch=lambda torch, x: torch.remainder(x, 17))  # fmt: skip
def integer_remainders(space: Space) -> Case:
    x = np.random.default_rng(0).integers(-1_000_000, 1_000_000, 1_000_000).astype(np.int32)
    return Case(lambda x: x % 17, (space.array(x),))
