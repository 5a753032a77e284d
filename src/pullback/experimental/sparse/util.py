"""The exceptions of sparse arrays, what is static of them, and functions mapped several times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ... import numpy as jnp
from ...api.arguments import ShapeDtypeStruct
from ...api.staging import eval_shape
from ...api.vmap import vmap
from ...lax import DotDimensionNumbers as DotDimensionNumbers, dot_general
from .base import CuSparseEfficiencyWarning, SparseEfficiencyError, SparseEfficiencyWarning
from .composed import SparseInfo

Shape = tuple[int, ...]


def broadcasting_vmap(
    fun: Callable[..., Any], in_axes: int | tuple[int | None, ...] | None = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """`vmap` under which mapped axes of size 1 are repeated as often as the others are long.

    >>> from pullback.experimental import sparse
    >>> add = sparse.util.broadcasting_vmap(lambda x, y: x + y)
    >>> add(jnp.ones((3,)), jnp.ones((1,)))
    Array([2., 2., 2.], dtype=float32)

    Raises ValueError for other sizes that differ.
    """

    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        sizes = {jnp.shape(x)[a] for x, a in zip(args, axes, strict=True) if a is not None}
        if len(sizes - {1}) > 1:
            raise ValueError(f"broadcasting_vmap: mapped axes of sizes {sorted(sizes)}")
        size = max(sizes) if 0 not in sizes else 0
        single = [a is not None and jnp.shape(x)[a] == 1 for x, a in zip(args, axes, strict=True)]
        if size == 1:
            return vmap(fun, axes, out_axes)(*args)
        args = tuple(
            jnp.squeeze(x, a) if one else x for x, a, one in zip(args, axes, single, strict=True)
        )
        axes = tuple(None if one else a for a, one in zip(axes, single, strict=True))
        return vmap(fun, axes, out_axes)(*args)

    return mapped


def nfold_vmap(
    fun: Callable[..., Any], N: int, *, broadcasted: bool = True, in_axes: Any = 0
) -> Callable[..., Any]:
    """`fun` mapped N times, over leading axes; with `broadcasted`, axes of size 1 are repeated.

    >>> from pullback.experimental import sparse
    >>> sparse.util.nfold_vmap(jnp.sum, 1)(jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    mapping = broadcasting_vmap if broadcasted else vmap
    for _ in range(N):
        fun = mapping(fun, in_axes=in_axes)
    return fun


def _count_stored_elements(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    """How many elements a BCOO form of a dense array stores: those of the fullest batch."""
    return _count_stored_elements_per_batch(mat, n_batch, n_dense).max(initial=0)


def _count_stored_elements_per_batch(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    """How many elements a BCOO form of a dense array stores of each batch, in its batch axes."""
    mat = jnp.asarray(mat)
    mask = (mat != 0).any(axis=tuple(range(mat.ndim - n_dense, mat.ndim)))
    return mask.sum(axis=tuple(range(n_batch, mask.ndim)), dtype=jnp.int32)


def _coo_extract(row: Any, col: Any, mat: Any) -> Any:
    """The elements of a dense matrix at places."""
    return mat[row, col]


def _csr_to_coo(indices: Any, indptr: Any) -> tuple[Any, Any]:
    """Rows and columns of elements that are listed by rows."""
    return jnp.cumsum(jnp.zeros_like(indices).at[indptr].add(1)) - 1, indices


def _csr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense matrix at places that are listed by rows."""
    return _coo_extract(*_csr_to_coo(indices, indptr), mat)


def _dot_general_validated_shape(
    lhs_shape: Shape, rhs_shape: Shape, dimension_numbers: DotDimensionNumbers
) -> Shape:
    """The shape of a product of arrays of these shapes. TypeError if they do not fit."""
    lhs, rhs = (ShapeDtypeStruct(shape, "float32") for shape in (lhs_shape, rhs_shape))
    product = partial(dot_general, dimension_numbers=dimension_numbers)
    return tuple(eval_shape(product, lhs, rhs).shape)


__all__ = [
    "CuSparseEfficiencyWarning",
    "Shape",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseInfo",
    "broadcasting_vmap",
    "nfold_vmap",
]
