"""What a call costs when its arithmetic costs nothing."""

from __future__ import annotations

import numpy as np

from ..space import Space
from . import torch_peers
from .registry import Case, data, workload


@workload("dispatch", "eager add, 8 floats", numpy=True, torch=lambda torch, a, b: a + b)
def eager_add(space: Space) -> Case:
    a, b = space.array(data(8)), space.array(data(8, seed=1))
    return Case(lambda a, b: a + b, (a, b), eager=True, wait_each=False)


@workload("dispatch", "jitted add, 8 floats", numpy=True, torch=lambda torch, a, b: a + b)
def jitted_add(space: Space) -> Case:
    a, b = space.array(data(8)), space.array(data(8, seed=1))
    return Case(lambda a, b: a + b, (a, b), wait_each=False)


@workload("dispatch", "jitted call, dict of 100 leaves", source="jax#29470")
def many_leaves(space: Space) -> Case:
    tree = {f"layer{i}": {"w": space.array(data(4, seed=i)), "b": space.array(data(4))}
            for i in range(50)}  # fmt: skip

    def scale(tree: dict) -> dict:
        return {k: {n: 2 * leaf for n, leaf in v.items()} for k, v in tree.items()}

    return Case(scale, (tree,), wait_each=False)


@workload("dispatch", "array from a list of one", source="jax#27460")
def creation(space: Space) -> Case:
    return Case(lambda: space.jnp.array([1.5]), (), eager=True)


@workload("dispatch", "device_put of 8 arrays", source="jax#16905")
def put(space: Space) -> Case:
    arrays = [data(100, seed=i) for i in range(8)]
    return Case(lambda: space.jax.device_put(arrays), (), eager=True)


@workload("dispatch", "array to NumPy")
def to_numpy(space: Space) -> Case:
    x = space.array(data(1000))
    return Case(lambda: np.asarray(x), (), eager=True)


@workload("dispatch", "ten eager operations, 100 floats", numpy=True, torch=torch_peers.eager_chain)
def eager_chain(space: Space) -> Case:
    jnp, x = space.jnp, space.array(data(100))

    def chain(x: object) -> object:
        y = jnp.sin(x) * 2 + 1
        y = jnp.exp(-y) + x
        y = jnp.sqrt(jnp.abs(y)) - 0.5
        return y.sum()

    return Case(chain, (x,), eager=True)


@workload("dispatch", "eager grad of a small function")
def eager_grad(space: Space) -> Case:
    gradient = space.jax.grad(lambda x: (space.jnp.sin(x) * x).sum())
    return Case(gradient, (space.array(data(8)),), eager=True)


@workload("dispatch", "trace of 500 operations")
def trace(space: Space) -> Case:
    x = space.array(data(8))

    def make() -> str:
        def long(x: object) -> object:  # a new function each time, so that no cache helps
            for _ in range(250):
                x = space.jnp.sin(x) * 1.01
            return x

        space.jax.make_jaxpr(long)(x)
        return ""

    return Case(make, (), eager=True)
