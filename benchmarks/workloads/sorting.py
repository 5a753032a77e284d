"""Sorts and what is made of them."""

from __future__ import annotations

import numpy as np

from ..space import Space
from .registry import Case, data, workload


@workload("sorting", "sort, 1e6", numpy=True, source="jax#10434",
          torch=lambda torch, x: torch.sort(x).values)  # fmt: skip
def sort(space: Space) -> Case:
    return Case(lambda x: space.jnp.sort(x), (space.array(data(1_000_000)),))


@workload("sorting", "stable argsort, 1e6", source="jax#10434",
          numpy=lambda x: np.argsort(x, kind="stable"),
          torch=lambda torch, x: torch.argsort(x, stable=True))  # fmt: skip
def argsort(space: Space) -> Case:
    return Case(lambda x: space.jnp.argsort(x), (space.array(data(1_000_000)),))


@workload(
    "sorting", "sort rows, 1000 x 100", numpy=True, torch=lambda torch, x: torch.sort(x).values
)
def rows(space: Space) -> Case:
    return Case(lambda x: space.jnp.sort(x, axis=1), (space.array(data(1000, 100)),))


@workload(
    "sorting",
    "top 10 of 1e5",
    numpy=lambda x: np.sort(np.partition(x, -10)[-10:])[::-1],
    torch=lambda torch, x: torch.topk(x, 10).values,
)
def top(space: Space) -> Case:
    return Case(lambda x: space.lax.top_k(x, 10)[0], (space.array(data(100_000)),))


@workload(
    "sorting",
    "searchsorted, 1e5 in 1e5",
    numpy=True,
    torch=lambda torch, t, x: torch.searchsorted(t, x),
)
def search(space: Space) -> Case:
    table, x = np.sort(data(100_000)), data(100_000, seed=1)
    arguments = (space.array(table), space.array(x))
    return Case(lambda t, x: space.jnp.searchsorted(t, x), arguments)


def numpy_top_rows(x: np.ndarray) -> np.ndarray:
    return np.sort(np.partition(x, -10, axis=1)[:, -10:], axis=1)[:, ::-1]


@workload(
    "sorting",
    "top 10 of rows, 1000 x 1000",
    numpy=numpy_top_rows,
    torch=lambda torch, x: torch.topk(x, 10).values,
)
def top_rows(space: Space) -> Case:
    return Case(lambda x: space.lax.top_k(x, 10)[0], (space.array(data(1000, 1000)),))


@workload("sorting", "unique with counts, 1e5 of 1000",
          numpy=lambda x: np.unique(x, return_counts=True),
          torch=lambda torch, x: torch.unique(x, return_counts=True))  # fmt: skip
def unique(space: Space) -> Case:
    x = np.random.default_rng(3).integers(0, 1000, 100_000).astype(np.int32)
    counts = lambda x: space.jnp.unique(x, return_counts=True)
    return Case(counts, (space.array(x),), eager=True)
