"""Sums, maxima, running totals; and normalisations, which are reductions and a map."""

from __future__ import annotations

from typing import Any

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload


@workload("reductions", "sum, 1e7", numpy=True, torch=lambda torch, x: x.sum())
def total(space: Space) -> Case:
    return Case(lambda x: x.sum(), (space.array(data(10_000_000, low=0)),))


@workload(
    "reductions",
    "sum of cos, 1e6",
    numpy=True,
    source="xla#16792",
    torch=lambda torch, x: torch.cos(x).sum(),
)
def sum_cos(space: Space) -> Case:
    return Case(lambda x: space.jnp.cos(x).sum(), (space.array(data(1_000_000)),))


@workload("reductions", "softmax, 1000 x 1000", numpy=True,
          torch=lambda torch, x: torch.softmax(x, -1))  # fmt: skip
def softmax(space: Space) -> Case:
    jnp = space.jnp

    def softmax(x: Any) -> Any:
        e = jnp.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    return Case(softmax, (space.array(data(1000, 1000)),))


@workload("reductions", "layer norm, 1000 x 1000", numpy=True, torch=torch_peers.layer_norm)
def layer_norm(space: Space) -> Case:
    jnp = space.jnp

    def norm(x: Any) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)

    return Case(norm, (space.array(data(1000, 1000)),))


@workload(
    "reductions",
    "logsumexp down columns, 2000 x 500",
    numpy=True,
    torch=lambda torch, x: torch.logsumexp(x, 0),
)
def logsumexp(space: Space) -> Case:
    jnp = space.jnp

    def lse(x: Any) -> Any:
        top = x.max(axis=0)
        return top + jnp.log(jnp.exp(x - top).sum(axis=0))

    return Case(lse, (space.array(data(2000, 500)),))


@workload(
    "reductions", "argmax of rows, 1000 x 1000", numpy=True, torch=lambda torch, x: x.argmax(1)
)
def argmax(space: Space) -> Case:
    return Case(lambda x: x.argmax(axis=1), (space.array(data(1000, 1000)),))


@workload("reductions", "cumsum, 1e6", numpy=True, source="jax#28097", tolerance=3e-3,
          torch=lambda torch, x: torch.cumsum(x, 0))  # fmt: skip
def cumsum(space: Space) -> Case:
    return Case(lambda x: space.jnp.cumsum(x), (space.array(data(1_000_000, low=0)),))


@workload("reductions", "associative scan of products, 1e5")
def associative(space: Space) -> Case:
    multiply = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    x, y = space.array(data(100_000)), space.array(data(100_000, seed=1))
    return Case(lambda x, y: space.lax.associative_scan(multiply, (x, y)), (x, y))
