"""Sparse arrays: lists of elements and their places (COO, BCOO) or rows (CSR, CSC, BCSR).

They are pytrees of arrays: jit, grad and vmap take them. Products cost what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import numpy as _jnp
from ... import random as _random
from ... import tree as _tree
from .base import (
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from .bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_p,
    bcoo_dot_general_sampled,
    bcoo_dot_general_sampled_p,
    bcoo_dynamic_slice,
    bcoo_extract,
    bcoo_extract_p,
    bcoo_fromdense,
    bcoo_fromdense_p,
    bcoo_gather,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_sort_indices,
    bcoo_sort_indices_p,
    bcoo_spdot_general_p,
    bcoo_squeeze,
    bcoo_sum_duplicates,
    bcoo_sum_duplicates_p,
    bcoo_todense,
    bcoo_todense_p,
    bcoo_transpose,
    bcoo_transpose_p,
    bcoo_update_layout,
)
from .bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_dot_general_p,
    bcsr_extract,
    bcsr_extract_p,
    bcsr_fromdense,
    bcsr_fromdense_p,
    bcsr_sum_duplicates,
    bcsr_todense,
    bcsr_todense_p,
)
from .composed import composed as _composed
from .coo import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_fromdense_p,
    coo_matmat,
    coo_matmat_p,
    coo_matvec,
    coo_matvec_p,
    coo_todense,
    coo_todense_p,
    csr_fromdense,
    csr_fromdense_p,
    csr_matmat,
    csr_matmat_p,
    csr_matvec,
    csr_matvec_p,
    csr_todense,
    csr_todense_p,
)
from .transform import SparseTracer, grad, jacfwd, jacobian, jacrev, sparsify, value_and_grad

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(f"sparse_format={name!r} not recognized; must be one of {list(_FORMATS)}")
    return _FORMATS[name]


def todense(arr: Any) -> Any:
    """The dense array of a sparse one; dense arrays as they are.

    >>> from pullback.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    parts, structure = _tree.flatten(arr)
    return todense_p.bind(*parts, tree=structure)


def _todense(*parts: Any, tree: Any) -> Any:
    arr = _tree.unflatten(tree, parts)
    return arr.todense() if isinstance(arr, JAXSparse) else _jnp.asarray(arr)


todense_p = _composed("todense", _todense, ("tree",))


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array of zeros that stores nothing.

    `sparse_format`: "bcoo", "bcsr", "coo", "csr" or "csc"; ValueError for another.

    >>> from pullback.experimental import sparse
    >>> sparse.empty((2, 3)).nse
    0
    """
    return _format(sparse_format)._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse matrix with ones on its k-th diagonal.

    `N`, `M`: rows and columns; `sparse_format`: "bcoo", "bcsr", "coo", "csr" or "csc"; ValueError
    for another.

    >>> from pullback.experimental import sparse
    >>> sparse.eye(3, k=1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    M = N if M is None else M
    return _format(sparse_format)._eye(N, M, k, dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = _jnp.float64,
    indices_dtype: Any = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Any = _random.uniform,
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
    total = 1
    for n in sparse:
        total *= n
    count = int(nse if nse >= 1 else -(-nse * total // 1))
    if not 0 <= nse or (unique_indices and count > total):
        raise ValueError(f"got nse={nse}, expected a share or a number up to {total}")
    key_places, key_data = _random.split(key)
    indices_dtype = _jnp.int32 if indices_dtype is None else indices_dtype

    def places(k: Any) -> Any:
        if unique_indices:
            flat = _random.choice(k, total, (count,), replace=False)
        else:
            flat = _random.randint(k, (count,), 0, total)
        flat = _jnp.sort(flat) if sorted_indices else flat
        parts = _jnp.unravel_index(flat, sparse) if sparse else ()
        return (
            _jnp.stack(parts, 1).astype(indices_dtype)
            if parts
            else _jnp.zeros((count, 0), indices_dtype)
        )

    lots = 1
    for n in batch:
        lots *= n
    keys = _random.split(key_places, lots)
    made = [places(keys[k]) for k in range(lots)]
    stacked = _jnp.stack(made) if made else _jnp.zeros((0, count, len(sparse)), indices_dtype)
    indices = stacked.reshape((*batch, count, len(sparse)))
    data = generator(key_data, (*batch, count, *dense), dtype=dtype, **kwds)
    return BCOO(
        (data, indices), shape=shape, indices_sorted=sorted_indices, unique_indices=unique_indices
    )


__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseTracer",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_p",
    "bcoo_dot_general_sampled",
    "bcoo_dot_general_sampled_p",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_extract_p",
    "bcoo_fromdense",
    "bcoo_fromdense_p",
    "bcoo_gather",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_sort_indices_p",
    "bcoo_spdot_general_p",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_sum_duplicates_p",
    "bcoo_todense",
    "bcoo_todense_p",
    "bcoo_transpose",
    "bcoo_transpose_p",
    "bcoo_update_layout",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_dot_general_p",
    "bcsr_extract",
    "bcsr_extract_p",
    "bcsr_fromdense",
    "bcsr_fromdense_p",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "bcsr_todense_p",
    "coo_fromdense",
    "coo_fromdense_p",
    "coo_matmat",
    "coo_matmat_p",
    "coo_matvec",
    "coo_matvec_p",
    "coo_todense",
    "coo_todense_p",
    "csr_fromdense",
    "csr_fromdense_p",
    "csr_matmat",
    "csr_matmat_p",
    "csr_matvec",
    "csr_matvec_p",
    "csr_todense",
    "csr_todense_p",
    "empty",
    "eye",
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "random_bcoo",
    "sparsify",
    "todense",
    "todense_p",
    "value_and_grad",
]
