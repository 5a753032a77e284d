"""Random sparse arrays, and the layouts of a shape, for tests of one's own functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import is_sparse
from .bcoo import BCOO
from .bcsr import BCSR

# How far products may be from those of dense arrays, by dtype.
MATMUL_TOL = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


class SparseLayout(NamedTuple):
    """How many axes of each kind an array has."""

    n_batch: int
    n_dense: int
    n_sparse: int


class BatchedDotGeneralProperties(NamedTuple):
    """A product of two batched arrays."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: Any


def iter_subsets(s: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Every subset of a sequence, as a tuple, the small ones first.

    >>> from pullback.experimental import sparse
    >>> list(sparse.test_util.iter_subsets([1, 2]))
    [(), (1,), (2,), (1, 2)]
    """
    return itertools.chain.from_iterable(itertools.combinations(s, k) for k in range(len(s) + 1))


def iter_sparse_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """Every layout of a BCOO array of this shape.

    >>> from pullback.experimental import sparse
    >>> len(list(sparse.test_util.iter_sparse_layouts((2, 3))))
    6
    """
    for n_batch in range(min_n_batch, len(shape) + 1):
        for n_dense in range(len(shape) + 1 - n_batch):
            n_sparse = len(shape) - n_batch - n_dense
            yield SparseLayout(n_batch=n_batch, n_dense=n_dense, n_sparse=n_sparse)


def iter_bcsr_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """Every layout of a BCSR array of this shape: two of its axes are sparse.

    >>> from pullback.experimental import sparse
    >>> len(list(sparse.test_util.iter_bcsr_layouts((2, 3, 4))))
    2
    """
    return (x for x in iter_sparse_layouts(shape, min_n_batch) if x.n_sparse == 2)


def _normal(rng: Any) -> Callable[..., Any]:
    return lambda shape, dtype: 3 * rng.standard_normal(shape).astype(dtype)


def rand_sparse(
    rng: Any,
    nse: float = 0.5,
    post: Callable[[Any], Any] = lambda x: x,
    rand_method: Callable[..., Any] = _normal,
) -> Callable[..., Any]:
    """A function of (shape, dtype) that makes random arrays of which some elements are zero: all
    but `nse`, a number or a share. `rng`: a NumPy random state.

    >>> from pullback.experimental import sparse
    >>> make = sparse.test_util.rand_sparse(np.random.RandomState(0), nse=2)
    >>> int((make((3, 4), np.float32) != 0).sum())
    2
    """

    def make(shape: Sequence[int], dtype: Any) -> Any:
        full = rand_method(rng)(tuple(shape), dtype)
        size = int(np.prod(shape))
        count = int(size - nse) if nse >= 1 else round(size * (1 - nse))
        gone = rng.choice(size, size=max(0, min(size, count)), replace=False)
        out = np.array(full).reshape(-1)
        out[gone] = 0
        return post(out.reshape(tuple(shape)))

    return make


def rand_bcoo(
    rng: Any,
    rand_method: Callable[..., Any] = _normal,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., BCOO]:
    """A function of (shape, dtype) that makes random BCOO arrays.

    >>> from pullback.experimental import sparse
    >>> make = sparse.test_util.rand_bcoo(np.random.RandomState(0), nse=2)
    >>> make((3, 4), np.float32)
    BCOO(float32[3, 4], nse=2)
    """
    dense = rand_sparse(rng, nse=nse, rand_method=rand_method)
    axes = {"n_batch": n_batch, "n_dense": n_dense}
    return lambda shape, dtype: BCOO.fromdense(dense(shape, dtype), **axes)


def rand_bcsr(
    rng: Any,
    rand_method: Callable[..., Any] = _normal,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., BCSR]:
    """A function of (shape, dtype) that makes random BCSR arrays.

    >>> from pullback.experimental import sparse
    >>> make = sparse.test_util.rand_bcsr(np.random.RandomState(0), nse=2)
    >>> make((3, 4), np.float32)
    BCSR(float32[3, 4], nse=2)
    """
    dense = rand_sparse(rng, nse=nse, rand_method=rand_method)
    axes = {"n_batch": n_batch, "n_dense": n_dense}
    return lambda shape, dtype: BCSR.fromdense(dense(shape, dtype), **axes)


__all__ = [
    "MATMUL_TOL",
    "BatchedDotGeneralProperties",
    "SparseLayout",
    "is_sparse",
    "iter_bcsr_layouts",
    "iter_sparse_layouts",
    "iter_subsets",
    "rand_bcoo",
    "rand_bcsr",
    "rand_sparse",
]
