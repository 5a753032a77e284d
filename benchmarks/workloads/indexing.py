"""Gathers, scatters, slices and transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..space import Space
from . import numba_loops, torch_peers
from .registry import Case, data, workload


def indices(count: int, limit: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, limit, count).astype(np.int32)


@workload("indexing", "gather, 1e6 of 1e6", numpy=True, torch=lambda torch, x, i: x[i])
def gather(space: Space) -> Case:
    x, i = space.array(data(1_000_000)), space.array(indices(1_000_000, 1_000_000))
    return Case(lambda x, i: x[i], (x, i))


def numpy_scatter(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    return np.bincount(i, x, minlength=1000).astype(np.float32)


@workload("indexing", "scatter-add, 1e6 into 1000", numpy=numpy_scatter, source="jax#695",
          tolerance=3e-3, torch=torch_peers.scatter_add)  # fmt: skip
def scatter_add(space: Space) -> Case:
    x, i = space.array(data(1_000_000, low=0)), space.array(indices(1_000_000, 1000))
    return Case(lambda x, i: space.jnp.zeros(1000, x.dtype).at[i].add(x), (x, i))


def numpy_maximum(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    out = np.full(1000, -np.inf, np.float32)
    np.maximum.at(out, i, x)
    return out


@workload(
    "indexing",
    "segment maximum, 1e6 into 1000",
    numpy=numpy_maximum,
    torch=torch_peers.segment_maximum(1000),
)
def segment_maximum(space: Space) -> Case:
    x, i = space.array(data(1_000_000)), space.array(indices(1_000_000, 1000))
    return Case(lambda x, i: space.jax.ops.segment_max(x, i, 1000), (x, i))


@workload(
    "indexing",
    "segment sum of sorted ids, 1e6 into 1000",
    tolerance=3e-3,
    torch=torch_peers.scatter_add,
)
def sorted_segments(space: Space) -> Case:
    ids = np.sort(indices(1_000_000, 1000))

    def sums(x: Any, i: Any) -> Any:
        return space.jax.ops.segment_sum(x, i, 1000, indices_are_sorted=True)

    return Case(sums, (space.array(data(1_000_000, low=0)), space.array(ids)))


def numpy_dropped(x: np.ndarray, i: np.ndarray, values: np.ndarray) -> np.ndarray:
    inside = i < len(x)
    return x + np.bincount(i[inside], values[inside], minlength=len(x)).astype(np.float32)


@workload("indexing", "updates dropped, 1e5 of which a quarter into 1000", numpy=numpy_dropped,
          torch=torch_peers.dropped, tolerance=3e-3)  # fmt: skip
def dropped(space: Space) -> Case:
    x, values = space.array(data(1000)), space.array(data(100_000, seed=1))
    i = space.array(indices(100_000, 4000))
    return Case(lambda x, i, values: x.at[i].add(values, mode="drop"), (x, i, values))


@workload("indexing", "rows added, 10000 into 10000 x 64", torch=torch_peers.added_rows)
def added_rows(space: Space) -> Case:
    x, rows = (space.array(data(10_000, 64, seed=s)) for s in (0, 1))
    i = space.array(indices(10_000, 10_000))
    return Case(lambda x, i, rows: x.at[i].add(rows), (x, i, rows))


@workload(
    "indexing",
    "pairs of indices, 1e5 of 1000 x 1000",
    numpy=True,
    torch=lambda torch, x, i, j: x[i, j],
)
def pairs(space: Space) -> Case:
    i, j = (space.array(indices(100_000, 1000, seed=s)) for s in (5, 6))
    return Case(lambda x, i, j: x[i, j], (space.array(data(1000, 1000)), i, j))


@workload(
    "indexing", "embedding rows and gradient, 4096 of 10000 x 64", torch=torch_peers.embedding
)
def embedding(space: Space) -> Case:
    table, i = space.array(data(10_000, 64)), space.array(indices(4096, 10_000))
    slope = lambda t, i: space.jax.grad(lambda t: (t[i] ** 2).sum())(t)
    return Case(slope, (table, i))


@workload("indexing", "ring buffer, 1000 slice updates", numba=numba_loops.ring)
def ring(space: Space) -> Case:
    def run(buffer: Any, rows: Any) -> Any:
        def step(i: Any, buffer: Any) -> Any:
            return space.lax.dynamic_update_slice(buffer, rows[i][None], (i % 100, 0))

        return space.lax.fori_loop(0, 1000, step, buffer)

    return Case(run, (space.array(data(100, 32)), space.array(data(1000, 32, seed=1))))


def numpy_transpose(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.T)


@workload(
    "indexing",
    "transpose, 2000 x 2000",
    numpy=numpy_transpose,
    torch=lambda torch, x: x.T.contiguous(),
)
def transpose(space: Space) -> Case:
    return Case(lambda x: x.T, (space.array(data(2000, 2000)),))


@workload("indexing", "stencil by rolls, 1000 x 1000", numpy=True, torch=torch_peers.stencil)
def stencil(space: Space) -> Case:
    roll = space.jnp.roll

    def laplace(u: Any) -> Any:
        return roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u

    return Case(laplace, (space.array(data(1000, 1000)),))


@workload("indexing", "concatenate and pad, 1000 x 500", numpy=True, torch=torch_peers.joined)
def joined(space: Space) -> Case:
    jnp = space.jnp
    a, b = space.array(data(1000, 500)), space.array(data(1000, 500, seed=1))
    return Case(lambda a, b: jnp.pad(jnp.concatenate([a, 2 * b], axis=1), 1), (a, b))


@workload("indexing", "segment maximum, 1e6 into 1e5", torch=torch_peers.segment_maximum(100_000))
def many_segments(space: Space) -> Case:
    x, i = space.array(data(1_000_000)), space.array(indices(1_000_000, 100_000))
    return Case(lambda x, i: space.jax.ops.segment_max(x, i, 100_000), (x, i))


@workload("indexing", "mirrored edges, 1000 x 1000", numpy=True, torch=torch_peers.mirrored)
def mirrored(space: Space) -> Case:
    return Case(lambda x: space.jnp.pad(x, 3, mode="reflect"), (space.array(data(1000, 1000)),))


@workload("indexing", "mirrored edges of pictures, 16 x 32 x 32 x 3", numpy=True)
def mirrored_pictures(space: Space) -> Case:
    edges = ((0, 0), (4, 4), (4, 4), (0, 0))
    pictures = space.array(data(16, 32, 32, 3))
    return Case(lambda x: space.jnp.pad(x, edges, mode="reflect"), (pictures,))


@workload(
    "indexing",
    "central differences, 1000 x 1000",
    numpy=True,
    torch=lambda torch, x: torch.gradient(x),
)
def differences(space: Space) -> Case:
    return Case(lambda x: space.jnp.gradient(x), (space.array(data(1000, 1000)),))


@workload(
    "indexing",
    "cross products, 100000 of 3",
    numpy=True,
    torch=lambda torch, a, b: torch.linalg.cross(a, b),
)
def cross(space: Space) -> Case:
    a, b = (space.array(data(100_000, 3, seed=s)) for s in (0, 1))
    return Case(lambda a, b: space.jnp.cross(a, b), (a, b))


def numpy_columns(x: np.ndarray, i: np.ndarray, columns: np.ndarray) -> np.ndarray:
    out = x.copy()
    np.add.at(out.T, i, columns.T)
    return out


@workload(
    "indexing",
    "columns added, 300 into 1000 x 1000",
    numpy=numpy_columns,
    torch=torch_peers.added_columns,
)
def added_columns(space: Space) -> Case:
    x, columns = space.array(data(1000, 1000)), space.array(data(1000, 300, seed=1))
    i = space.array(indices(300, 1000))
    return Case(lambda x, i, columns: x.at[:, i].add(columns), (x, i, columns))


@workload("indexing", "narrow rows added, 1e5 into 10000 x 3", torch=torch_peers.added_rows)
def narrow_rows(space: Space) -> Case:
    x, rows = space.array(data(10_000, 3)), space.array(data(100_000, 3, seed=1))
    i = space.array(indices(100_000, 10_000))
    return Case(lambda x, i, rows: x.at[i].add(rows), (x, i, rows))


@workload("indexing", "segment sums of rows, 10000 x 64 into 1000", torch=torch_peers.summed_rows)
def summed_rows(space: Space) -> Case:
    rows, i = space.array(data(10_000, 64)), space.array(indices(10_000, 1000))
    return Case(lambda rows, i: space.jax.ops.segment_sum(rows, i, 1000), (rows, i))
