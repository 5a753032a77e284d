"""CSR and CSC: matrices by rows, and by columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as jnp
from .base import JAXSparse, nonzero_size, register
from .composed import COOInfo as COOInfo, composed
from .coo import check_operand, coo_elements, product_with_dense, times, two_axes
from .util import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning, Shape as Shape


def csr_rows(indptr: Any, nse: int) -> Any:
    """The row of each element: how many rows end at or before it. Padding is in no row."""
    if not nse:
        return jnp.zeros(0, indptr.dtype)
    ends = jnp.zeros(nse, indptr.dtype).at[indptr[1:]].add(1, mode="drop")
    return jnp.cumsum(ends, dtype=indptr.dtype)


def _csr_product(
    data: Any, indices: Any, indptr: Any, dense: Any, *, shape: tuple[int, int], transpose: bool
) -> Any:
    rows = csr_rows(indptr, data.shape[0])
    return product_with_dense(data, rows, indices, dense, shape, transpose, not transpose)


csr_matvec_p = composed("csr_matvec", _csr_product, ("shape", "transpose"))
csr_matmat_p = composed("csr_matmat", _csr_product, ("shape", "transpose"))


def _csr_dense(data: Any, indices: Any, indptr: Any, *, shape: tuple[int, int]) -> Any:
    rows = csr_rows(indptr, data.shape[0])
    return jnp.zeros(shape, data.dtype).at[rows, indices].add(data, mode="drop")


csr_todense_p = composed("csr_todense", _csr_dense, ("shape",))


def _csr_elements(mat: Any, *, nse: int, index_dtype: Any) -> tuple[Any, Any, Any]:
    data, row, col = coo_elements(mat, nse=nse, index_dtype=index_dtype)
    stored = (jnp.arange(nse) < (mat != 0).sum()).astype(index_dtype)
    counts = jnp.zeros(mat.shape[0], index_dtype).at[row].add(stored)
    sums = jnp.cumsum(counts, dtype=index_dtype)
    return data, col, jnp.concatenate([jnp.zeros(1, index_dtype), sums])


csr_fromdense_p = composed(
    "csr_fromdense", _csr_elements, ("nse", "index_dtype"), multiple_results=True
)


class _Compressed(JAXSparse):
    """(data, indices, indptr): the elements of row (column) k are those from indptr[k] to
    indptr[k + 1].
    """

    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self._set_parts(tuple(map(jnp.asarray, args)))
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:  # type: ignore[override]
        """How many elements are stored."""
        return int(self.data.size)

    def _set_parts(self, children: tuple[Any, ...]) -> None:
        self.data, self.indices, self.indptr = children

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._bufs, {"shape": self.shape}

    def _with_data(self, data: Any) -> Any:
        return type(self).tree_unflatten({"shape": self.shape}, (data, self.indices, self.indptr))

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        two_axes(cls.__name__, shape)
        lines = shape[0] if cls.__name__ == "CSR" else shape[1]
        none = jnp.empty(0, index_dtype)
        return cls((jnp.empty(0, dtype), none, jnp.zeros(lines + 1, index_dtype)), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> Any:
        nse = max(0, min(N + min(k, 0), M - max(k, 0)))
        return cls.fromdense(  # type: ignore[attr-defined]
            jnp.eye(N, M, k, dtype=dtype), nse=nse, index_dtype=index_dtype
        )


@register
class CSR(_Compressed):
    """A matrix by rows: (data, indices of columns, indptr of rows).

    `args`: data (nse,), indices (nse,) and indptr (rows + 1,), integers. Made by `CSR.fromdense`;
    as `scipy.sparse.csr_array`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.CSR.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> m.indices, m @ jnp.ones(2)
    (Array([0, 0, 1], dtype=int32), Array([1., 5.], dtype=float32))
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = jnp.int32) -> CSR:
        """The elements of a dense matrix that are not zero; `nse` of them."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(self) -> Any:
        return csr_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        if axes is not None and tuple(axes) != (1, 0):
            raise NotImplementedError(f"CSR.transpose of axes {axes}. Fix: leave them out.")
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Any:
        return times(self, other, csr_matvec, csr_matmat)


@register
class CSC(_Compressed):
    """A matrix by columns: (data, indices of rows, indptr of columns).

    `args`: data (nse,), indices (nse,) and indptr (columns + 1,), integers. Made by
    `CSC.fromdense`; as `scipy.sparse.csc_array`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.CSC.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> m.indices, m @ jnp.ones(2)
    (Array([0, 1, 1], dtype=int32), Array([1., 5.], dtype=float32))
    """

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = jnp.int32) -> CSC:
        """The elements of a dense matrix that are not zero; `nse` of them."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T  # type: ignore[no-any-return]

    def todense(self) -> Any:
        return csr_todense(self.T).T

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        if axes is not None and tuple(axes) != (1, 0):
            raise NotImplementedError(f"CSC.transpose of axes {axes}. Fix: leave them out.")
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Any:
        rows = self.T
        return times(
            self,
            other,
            lambda _, v: csr_matvec(rows, v, transpose=True),
            lambda _, B: csr_matmat(rows, B, transpose=True),
        )


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """The CSR form of a dense matrix. `nse` (needed under jit): how many elements to store.

    Raises ConcretizationTypeError for traced `mat` without `nse`. As `scipy.sparse.csr_array`.

    >>> from pullback.experimental import sparse
    >>> sparse.csr_fromdense(jnp.array([[0., 5.], [7., 0.]])).indptr
    Array([0, 1, 2], dtype=int32)
    """
    mat = jnp.asarray(mat)
    two_axes("CSR", mat.shape)
    nse = nonzero_size(mat != 0) if nse is None else int(nse)
    return CSR(
        tuple(csr_fromdense_p.bind(mat, nse=nse, index_dtype=np.dtype(index_dtype))),
        shape=mat.shape,
    )


def csr_todense(mat: CSR) -> Any:
    """The dense matrix; elements at one place are added.

    >>> from pullback.experimental import sparse
    >>> sparse.csr_todense(sparse.csr_fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return csr_todense_p.bind(mat.data, mat.indices, mat.indptr, shape=mat.shape)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """mat @ v, or mat.T @ v.

    `mat`: (m, n), `v`: dense, (n,), or (m,) for the transpose. Raises TypeError or ValueError for
    others.

    >>> from pullback.experimental import sparse
    >>> m = sparse.csr_fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.csr_matvec(m, jnp.ones(2))
    Array([1., 5.], dtype=float32)
    """
    v = check_operand("csr_matvec", mat, v, transpose, 1)
    return csr_matvec_p.bind(
        mat.data, mat.indices, mat.indptr, v, shape=mat.shape, transpose=bool(transpose)
    )


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """mat @ B, or mat.T @ B.

    `mat`: (m, n), `B`: dense, (n, k), or (m, k) for the transpose. Raises TypeError or ValueError
    for others.

    >>> from pullback.experimental import sparse
    >>> m = sparse.csr_fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.csr_matmat(m, jnp.eye(2), transpose=True)
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    B = check_operand("csr_matmat", mat, B, transpose, 2)
    return csr_matmat_p.bind(
        mat.data, mat.indices, mat.indptr, B, shape=mat.shape, transpose=bool(transpose)
    )


# --- the same on the parts of matrices ---
def _csr_fromdense(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> tuple[Any, Any, Any]:
    """The parts of a matrix that is dense."""
    return tuple(
        csr_fromdense_p.bind(jnp.asarray(mat), nse=operator.index(nse), index_dtype=index_dtype)
    )


def _csr_todense(data: Any, indices: Any, indptr: Any, *, shape: Sequence[int]) -> Any:
    """The dense matrix of these parts."""
    return csr_todense(_of_parts(data, indices, indptr, shape))


def _csr_matvec(
    data: Any, indices: Any, indptr: Any, v: Any, *, shape: Sequence[int], transpose: bool = False
) -> Any:
    """The product of the matrix of these parts, or its transpose, and a vector."""
    return csr_matvec(_of_parts(data, indices, indptr, shape), v, transpose)


def _csr_matmat(
    data: Any, indices: Any, indptr: Any, B: Any, *, shape: Sequence[int], transpose: bool = False
) -> Any:
    """The product of the matrix of these parts, or its transpose, and a dense one."""
    return csr_matmat(_of_parts(data, indices, indptr, shape), B, transpose=transpose)


def _of_parts(data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> CSR:
    parts = (data, indices, indptr)
    return CSR.tree_unflatten({"shape": tuple(shape)}, parts)  # type: ignore[no-any-return]
