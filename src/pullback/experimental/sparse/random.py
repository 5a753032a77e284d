"""Sparse arrays with random elements at random places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import numpy as jnp, random
from .bcoo import BCOO


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = jnp.float64,
    indices_dtype: Any = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Any = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A BCOO with random elements at random places; `nse`: how many, or their share.

    `key`: of `random.key`; `generator(key, shape, dtype)` makes the elements. The share of elements
    is rounded.

    >>> from pullback.experimental import sparse
    >>> m = sparse.random_bcoo(random.key(0), (4, 5), dtype='float32', nse=3)
    >>> m.nse, m.shape
    (3, (4, 5))
    """
    shape = tuple(shape)
    end = len(shape) - n_dense
    if n_batch < 0 or n_dense < 0 or n_batch > end:
        raise ValueError(f"Invalid n_batch={n_batch}, n_dense={n_dense} for shape={shape}")
    batch, sparse, dense = shape[:n_batch], shape[n_batch:end], shape[end:]
    total = math.prod(sparse)
    count = int(nse if nse >= 1 else -(-nse * total // 1))
    if not 0 <= nse or (unique_indices and count > total):
        raise ValueError(f"got nse={nse}, expected a share or a number up to {total}")
    key_places, key_data = random.split(key)
    indices_dtype = jnp.int32 if indices_dtype is None else indices_dtype

    def places(k: Any) -> Any:
        if unique_indices:
            flat = random.choice(k, total, (count,), replace=False)
        else:
            flat = random.randint(k, (count,), 0, total)
        flat = jnp.sort(flat) if sorted_indices else flat
        parts = jnp.unravel_index(flat, sparse) if sparse else ()
        return (
            jnp.stack(parts, 1).astype(indices_dtype)
            if parts
            else jnp.zeros((count, 0), indices_dtype)
        )

    lots = math.prod(batch)
    keys = random.split(key_places, lots)
    made = [places(keys[k]) for k in range(lots)]
    stacked = jnp.stack(made) if made else jnp.zeros((0, count, len(sparse)), indices_dtype)
    indices = stacked.reshape((*batch, count, len(sparse)))
    data = generator(key_data, (*batch, count, *dense), dtype=dtype, **kwds)
    return BCOO(
        (data, indices), shape=shape, indices_sorted=sorted_indices, unique_indices=unique_indices
    )


__all__ = ["random_bcoo"]
