"""Every body with every other: a table that should never be stored."""

from __future__ import annotations

from typing import Any

from ..space import Space
from . import numba_loops, torch_peers
from .registry import Case, data, workload


def n_body(space: Space, count: int) -> Case:
    jnp = space.jnp

    def forces(p: Any, m: Any) -> Any:
        d = p[:, None] - p[None]
        square = (d * d).sum(-1) + 1e-3
        return (d * (m[None, :] / (square * jnp.sqrt(square)))[:, :, None]).sum(1)

    return Case(forces, (space.array(data(count, 3)), space.array(data(count, low=0.5))))


@workload("pairwise", "n-body forces, 1000", numpy=True, source="xla#49131",
          numba=numba_loops.bodies, torch=torch_peers.bodies)  # fmt: skip
def bodies(space: Space) -> Case:
    return n_body(space, 1000)


@workload(
    "pairwise",
    "RBF kernel times a vector, 2000",
    numpy=True,
    source="xla#49131",
    torch=torch_peers.rbf,
)
def rbf(space: Space) -> Case:
    jnp = space.jnp

    def apply(x: Any, v: Any) -> Any:
        square = ((x[:, None] - x[None]) ** 2).sum(-1)
        return (jnp.exp(-0.5 * square) * v[None]).sum(1)

    return Case(apply, (space.array(data(2000, 3)), space.array(data(2000, seed=1))))


@workload(
    "pairwise",
    "nearest neighbours, 1000 in 8-d",
    numpy=True,
    source="xla#49131",
    torch=torch_peers.nearest,
)
def nearest(space: Space) -> Case:
    def nearest(x: Any, y: Any) -> Any:
        return ((x[:, None] - y[None]) ** 2).sum(-1).argmin(1)

    return Case(nearest, (space.array(data(1000, 8)), space.array(data(1000, 8, seed=1))))


@workload("pairwise", "gradient of the pair energy, 500", torch=torch_peers.energy)
def energy(space: Space) -> Case:
    jnp = space.jnp

    def energy(p: Any) -> Any:
        d = p[:, None] - p[None]
        return jnp.log1p((d * d).sum(-1)).sum()

    return Case(lambda p: space.jax.grad(energy)(p), (space.array(data(500, 3)),))
