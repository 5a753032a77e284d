"""Matrix products, from tiny to large."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from .registry import Case, data, workload


def product(space: Space, *shapes: tuple[int, ...]) -> Case:
    a, b = (space.array(data(*shape, seed=s)) for s, shape in enumerate(shapes))
    return Case(lambda a, b: a @ b, (a, b))


def torch_product(torch: Any, a: Any, b: Any) -> Any:
    return a @ b


@workload("matmul", "64 x 64", numpy=True, torch=torch_product)
def small(space: Space) -> Case:
    return product(space, (64, 64), (64, 64))


@workload("matmul", "512 x 512", numpy=True, torch=torch_product)
def middle(space: Space) -> Case:
    return product(space, (512, 512), (512, 512))


@workload("matmul", "1000 x 1000", numpy=True, torch=torch_product, tolerance=5e-3)
def large(space: Space) -> Case:
    return product(space, (1000, 1000), (1000, 1000))


@workload("matmul", "1000 of 8 x 8", numpy=True, torch=torch_product)
def batch(space: Space) -> Case:
    return product(space, (1000, 8, 8), (1000, 8, 8))


@workload("matmul", "matrix times vector, 2000", numpy=True, torch=torch_product)
def vector(space: Space) -> Case:
    return product(space, (2000, 2000), (2000,))


@workload(
    "matmul",
    "attention scores by einsum",
    numpy=True,
    torch=lambda torch, q, k: q @ k.transpose(-1, -2),
)
def scores(space: Space) -> Case:
    q, k = (space.array(data(4, 8, 128, 64, seed=s)) for s in (0, 1))
    return Case(lambda q, k: space.jnp.einsum("bhqd,bhkd->bhqk", q, k), (q, k))


@workload("matmul", "bytes into 32 bits, 512 x 512")
def bytes_(space: Space) -> Case:
    a, b = (space.array((100 * data(512, 512, seed=s)).astype(np.int8)) for s in (0, 1))
    wide = space.jnp.int32
    return Case(lambda a, b: space.lax.dot(a, b, preferred_element_type=wide), (a, b))


@workload("matmul", "tensor product of 1000 x 9 with 1000 x 9", numpy=True)
def tensor_product(space: Space) -> Case:
    x, y, table = (space.array(data(*s)) for s in ((1000, 9), (1000, 9), (9, 9, 9)))
    return Case(lambda c, x, y: space.jnp.einsum("ijk,bi,bj->bk", c, x, y), (table, x, y))
