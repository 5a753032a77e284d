"""Random numbers: threefry, bit for bit the same on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from .registry import Case, workload

GENERATOR = np.random.default_rng(0)


def key(space: Space) -> Any:
    return None if space.jax is None else space.random.key(7)


@workload("random", "uniform, 1e6")
def uniform(space: Space) -> Case:
    return Case(lambda k: space.random.uniform(k, (1_000_000,)), (key(space),))


@workload("random", "normal, 1e6")
def normal(space: Space) -> Case:
    return Case(lambda k: space.random.normal(k, (1_000_000,)), (key(space),))


@workload("random", "randint, 1e6")
def randint(space: Space) -> Case:
    return Case(lambda k: space.random.randint(k, (1_000_000,), 0, 1000), (key(space),))


@workload("random", "permutation, 1e5")
def permutation(space: Space) -> Case:
    return Case(lambda k: space.random.permutation(k, 100_000), (key(space),))


@workload("random", "1000 keys, 100 normals each")
def many_keys(space: Space) -> Case:
    def draw(k: Any) -> Any:
        keys = space.random.split(k, 1000)
        return space.jax.vmap(lambda k: space.random.normal(k, (100,)))(keys)

    return Case(draw, (key(space),))
