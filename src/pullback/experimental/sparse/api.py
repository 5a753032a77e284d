"""What is for sparse arrays of every format: zeros, ones on a diagonal, and the dense array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ... import numpy as jnp, tree as trees
from .base import JAXSparse, is_sparse
from .bcoo import BCOO
from .bcsr import BCSR
from .composed import composed
from .coo import COO
from .csr import CSC, CSR

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(f"sparse_format={name!r} not recognized; must be one of {list(_FORMATS)}")
    return _FORMATS[name]


def todense(arr: Any) -> Any:
    """The dense array of a sparse one, or of each in a pytree; dense arrays as they are.

    >>> from pullback.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return trees.map(_leaf_todense, arr, is_leaf=is_sparse)


def _leaf_todense(x: Any) -> Any:
    parts, structure = trees.flatten(x)
    return todense_p.bind(*parts, tree=structure)


def _todense(*parts: Any, tree: Any) -> Any:
    arr = trees.unflatten(tree, parts)
    return arr.todense() if isinstance(arr, JAXSparse) else jnp.asarray(arr)


todense_p = composed("todense", _todense, ("tree",))


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
    shape = tuple(map(operator.index, shape))
    return _format(sparse_format)._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


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


__all__ = ["empty", "eye", "todense", "todense_p"]
