"""The class BCOO: its constructors, methods and operators, made of the operations beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import numpy as jnp
from ....api.vmap import mapped_types
from ..base import JAXSparse, no_quotient, no_rule, register
from .arithmetic import add, add_dense, bcoo_multiply_dense, bcoo_multiply_sparse
from .dense import bcoo_fromdense, bcoo_todense
from .dot import matmul
from .gather import getitem
from .layout import bcoo_update_layout
from .order import bcoo_sort_indices, bcoo_sum_duplicates, stored_once
from .shape import bcoo_broadcast_in_dim, bcoo_reduce_sum, bcoo_reshape, bcoo_transpose
from .storage import Stored, full, is_bcoo, make, split


@register
class BCOO(Stored):
    """A sparse array: `data[k]` stands at `indices[k]`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(3)); m
    BCOO(float32[3, 3], nse=3)
    >>> m @ jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)

    Raises ValueError if data, indices and shape do not fit.
    """

    # --- conversions ---
    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The elements of a dense array that are not zero; `nse` of them (needed under jit)."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The array of a SciPy sparse matrix."""
        if n_dense or n_batch:
            raise NotImplementedError(
                "BCOO from scipy.sparse has neither batch nor dense axes, got "
                f"n_batch={n_batch}, n_dense={n_dense}. Fix: m.update_layout(...) of the result."
            )
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], 1).astype(index_dtype or np.int32)
        return cls((coo.data, indices), shape=mat.shape)

    @classmethod
    def _empty(
        cls,
        shape: Any,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if n_sparse < 0 or n_dense < 0 or n_batch < 0:
            raise ValueError(f"Invalid inputs: shape={shape}, n_dense={n_dense}, n_batch={n_batch}")
        batch, sparse, dense = split(shape, n_batch, n_sparse)
        data = jnp.zeros((*batch, nse, *dense), dtype)
        indices = jnp.full((*batch, nse, n_sparse), jnp.array(sparse, index_dtype))
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32", **layout: Any
    ) -> BCOO:
        if layout.get("n_batch") or layout.get("n_dense"):
            return cls.fromdense(jnp.eye(N, M, k, dtype=dtype), index_dtype=index_dtype, **layout)
        n = max(0, min(N + min(k, 0), M - max(k, 0)))
        places = jnp.arange(n, dtype=index_dtype)
        indices = jnp.stack([places - min(k, 0), places + max(k, 0)], 1)
        args = (jnp.ones(n, dtype), indices)
        return cls(args, shape=(N, M), indices_sorted=True, unique_indices=True)

    def todense(self) -> Any:
        return bcoo_todense(self)

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:
        """The array with other numbers of batch and dense axes."""
        return bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with each place stored once, in order."""
        return stored_once(self, nse, remove_zeros)

    def sort_indices(self) -> BCOO:
        """The array with its elements in the order of their indices."""
        return bcoo_sort_indices(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        return bcoo_transpose(self, permutation=order)

    def reshape(self, *args: Any, **kwargs: Any) -> BCOO:
        """The array in another shape of as many elements."""
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        out: BCOO = bcoo_reshape(self, new_sizes=_sizes(sizes, self.size), **kwargs)
        return out

    def sum(self, axis: Any = None) -> Any:
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        out = bcoo_reduce_sum(self, axes=tuple(axes))
        return out if out.ndim else out.todense()

    def __getitem__(self, key: Any) -> BCOO:
        out: BCOO = getitem(self, key)
        return out

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    # --- arithmetic ---
    def __mul__(self, other: Any) -> Any:
        if is_bcoo(other):
            rank = max(self.ndim, other.ndim)
            return bcoo_multiply_sparse(_of_rank(self, rank), _of_rank(other, rank))
        if isinstance(other, JAXSparse):
            raise TypeError(f"product of a BCOO and a {type(other).__name__}. Fix: use BCOO arrays")
        if jnp.ndim(other) == 0:
            return self._with_data(self.data * other)
        return self._with_data(bcoo_multiply_dense(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise no_quotient()
        return self * (1 / jnp.asarray(other)) if jnp.ndim(other) else super().__truediv__(other)

    def __add__(self, other: Any) -> Any:
        if is_bcoo(other):
            return add(self, other)
        if isinstance(other, JAXSparse):
            raise NotImplementedError(
                f"Addition between a BCOO and a {type(other).__name__}. Fix: make both BCOO arrays."
            )
        return add_dense(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __pow__(self, other: Any) -> Any:
        if not isinstance(other, int | np.integer) or isinstance(other, bool) or other < 1:
            raise NotImplementedError(
                f"power {other!r} of a sparse array. Fix: an integer of 1 or more, or todense()."
            )
        once = self if self.unique_indices or other == 1 else bcoo_sum_duplicates(self, self.nse)
        return once._with_data(once.data ** int(other))

    def __rtruediv__(self, other: Any) -> Any:
        raise no_quotient()

    def __eq__(self, other: object) -> Any:
        raise no_rule("eq")

    def __ne__(self, other: object) -> Any:
        raise no_rule("ne")

    def __lt__(self, other: Any) -> Any:
        raise no_rule("lt")

    def __le__(self, other: Any) -> Any:
        raise no_rule("le")

    def __gt__(self, other: Any) -> Any:
        raise no_rule("gt")

    def __ge__(self, other: Any) -> Any:
        raise no_rule("ge")

    __hash__ = None  # type: ignore[assignment]

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)


def _of_rank(mat: BCOO, rank: int) -> BCOO:
    """With leading axes of size 1, that it has so many."""
    more = rank - mat.ndim
    if not more:
        return mat
    shape = (*(1,) * more, *mat.shape)
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=tuple(range(more, rank)))


def _sizes(sizes: Sequence[int], total: int) -> tuple[int, ...]:
    known = math.prod(n for n in sizes if n != -1)
    return tuple(total // max(known, 1) if n == -1 else int(n) for n in sizes)


def check_batch_axis(mat: Any, axis: Any, what: str) -> None:
    """Only batch axes can be mapped. Raises ValueError."""
    if not 0 <= axis < mat.n_batch:
        name = type(mat).__name__
        raise ValueError(
            f"Cannot map {what}={axis} for {name} array with n_batch={mat.n_batch}. {what[:-2]}es "
            f"for batched {name} operations must correspond to a batch dimension. Fix: "
            "m.update_layout(n_batch=...)."
        )


def _element(mat: BCOO, axis: int) -> BCOO:
    check_batch_axis(mat, axis, "in_axis")
    return make(*full(mat), (*mat.shape[:axis], *mat.shape[axis + 1 :]), mat)


def _whole(mat: BCOO, axis: int, size: int) -> BCOO:
    check_batch_axis(mat, axis, "out_axis")
    return make(mat.data, mat.indices, (*mat.shape[:axis], size, *mat.shape[axis:]), mat)


mapped_types[BCOO] = (_element, _whole)
