"""Sparse arrays with random elements at random places."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from ... import dtypes, numpy as jnp, random
from ...api.vmap import vmap
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
    """A BCOO with random elements at random places: JAX's, for the same key.

    Args:
      key: of `random.key` or `random.PRNGKey`. The first of its parts makes the elements, each
        other the places of one entry of the batch.
      shape: of the whole array: batch, sparse and dense dimensions.
      dtype: of the elements.
      indices_dtype: of the indices; the default integer unless given.
      nse: how many places of the sparse dimensions have elements, an integer less than their
        number; or their share, a float between 0 and 1, rounded up.
      n_batch, n_dense: how many dimensions are batch and dense ones.
      unique_indices: draw places without replacement.
      sorted_indices: sort the places that were drawn, and their elements along.
      generator: called as `generator(key, shape=..., dtype=..., **kwds)` for the elements.

    Raises ValueError for layouts that `shape` does not have, for `nse` out of range and for
    an `indices_dtype` too narrow for the places; AssertionError for a float `nse` that is no share.

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
    count = _number(nse, total)
    wanted = dtypes.canonicalize_dtype(jnp.int64 if indices_dtype is None else indices_dtype)
    if total > jnp.iinfo(wanted).max:
        raise ValueError(
            f"indices_dtype={indices_dtype!r} does not have enough range to generate sparse "
            f"indices of size {total}."
        )

    def places(key: Any) -> Any:
        if not sparse:
            return jnp.empty((count, 0), dtype=wanted)
        flat = random.choice(
            key, jnp.arange(total, dtype=wanted), (count,), replace=not unique_indices
        )
        return jnp.column_stack(jnp.unravel_index(flat, sparse))

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    indices = vmap(places)(keys[1:]).reshape((*batch, count, len(sparse)))
    made = BCOO((data, indices), shape=shape)
    return made.sort_indices() if sorted_indices else made


def _number(nse: int | float, total: int) -> int:
    """How many of `total` places have elements."""
    if not 0 <= nse < total and not 0 <= nse < 1:
        raise ValueError(f"got nse={nse}, expected to be between 0 and {total}")
    if not isinstance(nse, float) and not 0 < nse < 1:
        return operator.index(nse)
    if not 0 < nse < 1:
        raise AssertionError(
            f"got nse={nse}, expected an integer, or a share of the places between 0 and 1; "
            f"for a number of places pass nse={int(nse)}"
        )
    return math.ceil(nse * total)


__all__ = ["random_bcoo"]
