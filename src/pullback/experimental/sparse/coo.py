"""COO: matrices as lists of elements with their rows and columns.

Products with vectors and matrices read each stored element once: a gather of the operand and a
sum into the rows, compiled as one loop.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as jnp
from .base import JAXSparse, nonzero_size, register
from .bcoo.storage import addable, scattered
from .composed import COOInfo, composed
from .util import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning, Shape as Shape


def product_with_dense(
    data: Any, row: Any, col: Any, dense: Any, shape: Any, transpose: bool, in_order: bool
) -> Any:
    """sum over elements of data * dense[col], into row; `dense` is a vector or a matrix. Elements
    whose place is outside the matrix count as none. `in_order`: what is added into does not
    decrease.
    """
    out_at, read_at = (col, row) if transpose else (row, col)
    n = shape[1] if transpose else shape[0]
    terms = dense.at[read_at].get(mode="fill", fill_value=0)
    dtype = jnp.result_type(data, dense)
    terms = terms.astype(dtype) * (data[:, None] if dense.ndim == 2 else data).astype(dtype)
    return scattered((n, *dense.shape[1:]), (out_at,), terms, in_order)


def _coo_product(
    data: Any, row: Any, col: Any, dense: Any, *, spinfo: COOInfo, transpose: bool
) -> Any:
    in_order = spinfo.cols_sorted if transpose else spinfo.rows_sorted
    return product_with_dense(data, row, col, dense, spinfo.shape, transpose, in_order)


coo_matvec_p = composed("coo_matvec", _coo_product, ("spinfo", "transpose"))
coo_matmat_p = composed("coo_matmat", _coo_product, ("spinfo", "transpose"))


def _coo_dense(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> Any:
    return jnp.zeros(spinfo.shape, data.dtype).at[row, col].add(data, mode="drop")


coo_todense_p = composed("coo_todense", _coo_dense, ("spinfo",))


def coo_elements(mat: Any, *, nse: int, index_dtype: Any) -> tuple[Any, Any, Any]:
    row, col = jnp.nonzero(mat, size=nse, fill_value=mat.shape)
    data = addable(mat.at[row, col].get(mode="fill", fill_value=0))
    stored = row < mat.shape[0]  # what is not, is a zero at the first place
    row, col = jnp.where(stored, row, 0), jnp.where(stored, col, 0)
    return data, row.astype(index_dtype), col.astype(index_dtype)


coo_fromdense_p = composed(
    "coo_fromdense", coo_elements, ("nse", "index_dtype"), multiple_results=True
)


def check_operand(name: str, mat: Any, dense: Any, transpose: bool, ndim: int) -> Any:
    dense = jnp.asarray(dense)
    need = mat.shape[0] if transpose else mat.shape[1]
    if dense.ndim != ndim or dense.shape[0] != need:
        raise TypeError(
            f"{name}: a matrix of shape {mat.shape}{', transposed,' if transpose else ''} needs an "
            f"operand of {ndim} axes, the first of size {need}; got shape {dense.shape}"
        )
    return dense


def times(matrix: Any, other: Any, matvec: Any, matmat: Any) -> Any:
    if isinstance(other, JAXSparse):
        raise NotImplementedError("matmul between two sparse objects. Fix: use BCOO matrices.")
    other = jnp.asarray(other)
    if other.ndim == 1:
        return matvec(matrix, other)
    if other.ndim == 2:
        return matmat(matrix, other)
    raise NotImplementedError(
        f"matmul with object of shape {other.shape}. Fix: a vector or a matrix, or a BCOO "
        "on the left."
    )


@register
class COO(JAXSparse):
    """A matrix as (data, row, col), each of one axis.

    >>> from pullback.experimental import sparse
    >>> swap = sparse.COO((jnp.ones(2), jnp.array([0, 1]), jnp.array([1, 0])), shape=(2, 2))
    >>> swap @ jnp.arange(2.)
    Array([1., 0.], dtype=float32)
    """

    row: Any
    col: Any

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        self._set_parts(tuple(map(jnp.asarray, args)))
        self._rows_sorted, self._cols_sorted = bool(rows_sorted), bool(cols_sorted)
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:  # type: ignore[override]
        """How many elements are stored."""
        return int(self.data.size)

    def _set_parts(self, children: tuple[Any, ...]) -> None:
        self.data, self.row, self.col = children

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._bufs, self._info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: tuple[Any, ...]) -> COO:
        obj = object.__new__(cls)
        obj._set_parts(children)
        info = COOInfo(**aux_data)
        obj.shape, obj._rows_sorted, obj._cols_sorted = info
        return obj

    @property
    def _info(self) -> COOInfo:
        return COOInfo(tuple(self.shape), self._rows_sorted, self._cols_sorted)

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return self.data, self.row, self.col

    def _sort_indices(self) -> COO:
        """The matrix with its elements in the order of their rows, then of their columns."""
        order = jnp.lexsort((self.col, self.row))
        parts = tuple(x[order] for x in self._bufs)
        return type(self)(parts, shape=self.shape, rows_sorted=True)

    def _with_data(self, data: Any) -> COO:
        children, static = self.tree_flatten()
        return type(self).tree_unflatten(static, (data, *children[1:]))

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The elements of a dense matrix that are not zero; `nse` of them."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        two_axes("COO", shape)
        none = jnp.empty(0, index_dtype)
        return cls(
            (jnp.empty(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True
        )

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        n = max(0, min(N + min(k, 0), M - max(k, 0)))
        places = jnp.arange(n, dtype=index_dtype)
        args = (jnp.ones(n, dtype), places - min(k, 0), places + max(k, 0))
        return cls(args, shape=(N, M), rows_sorted=True, cols_sorted=True)

    def todense(self) -> Any:
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        if axes is not None and tuple(axes) != (1, 0):
            raise NotImplementedError(f"COO.transpose of axes {axes}. Fix: leave them out.")
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def __matmul__(self, other: Any) -> Any:
        return times(self, other, coo_matvec, coo_matmat)


def two_axes(name: str, shape: Any) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} must have ndim=2; got shape={tuple(shape)}")


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = jnp.int32) -> COO:
    """The COO form of a dense matrix. `nse` (needed under jit): how many elements to store.

    Raises ConcretizationTypeError for traced `mat` without `nse`. As `scipy.sparse.coo_array`.

    >>> from pullback.experimental import sparse
    >>> sparse.coo_fromdense(jnp.array([[0., 5.], [7., 0.]])).data
    Array([5., 7.], dtype=float32)
    """
    mat = jnp.asarray(mat)
    two_axes("COO", mat.shape)
    nse = nonzero_size(mat != 0) if nse is None else int(nse)
    parts = coo_fromdense_p.bind(mat, nse=nse, index_dtype=index_dtype)
    return COO(tuple(parts), shape=mat.shape, rows_sorted=True)


def coo_todense(mat: COO) -> Any:
    """The dense matrix; elements at one place are added.

    >>> from pullback.experimental import sparse
    >>> sparse.coo_todense(sparse.coo_fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return coo_todense_p.bind(mat.data, mat.row, mat.col, spinfo=mat._info)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """mat @ v, or mat.T @ v.

    `mat`: (m, n), `v`: dense, (n,), or (m,) for the transpose. Raises TypeError or ValueError for
    others.

    >>> from pullback.experimental import sparse
    >>> m = sparse.coo_fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.coo_matvec(m, jnp.ones(2))
    Array([1., 5.], dtype=float32)
    """
    v = check_operand("coo_matvec", mat, v, transpose, 1)
    return coo_matvec_p.bind(
        mat.data, mat.row, mat.col, v, spinfo=mat._info, transpose=bool(transpose)
    )


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """mat @ B, or mat.T @ B.

    `mat`: (m, n), `B`: dense, (n, k), or (m, k) for the transpose. Raises TypeError or ValueError
    for others.

    >>> from pullback.experimental import sparse
    >>> m = sparse.coo_fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.coo_matmat(m, jnp.eye(2), transpose=True)
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    B = check_operand("coo_matmat", mat, B, transpose, 2)
    return coo_matmat_p.bind(
        mat.data, mat.row, mat.col, B, spinfo=mat._info, transpose=bool(transpose)
    )


# --- the same on the parts of matrices ---
def _coo_fromdense(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> tuple[Any, Any, Any]:
    """The parts of a matrix that is dense."""
    return tuple(
        coo_fromdense_p.bind(jnp.asarray(mat), nse=operator.index(nse), index_dtype=index_dtype)
    )


def _coo_todense(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> Any:
    """The dense matrix of these parts."""
    return coo_todense_p.bind(data, row, col, spinfo=spinfo)


def _coo_matvec(
    data: Any, row: Any, col: Any, v: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    """The product of the matrix of these parts, or its transpose, and a vector."""
    return coo_matvec(_of_parts(data, row, col, spinfo), v, transpose)


def _coo_matmat(
    data: Any, row: Any, col: Any, B: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    """The product of the matrix of these parts, or its transpose, and a dense one."""
    return coo_matmat(_of_parts(data, row, col, spinfo), B, transpose=transpose)


def _of_parts(data: Any, row: Any, col: Any, spinfo: COOInfo) -> COO:
    return COO.tree_unflatten(spinfo._asdict(), (data, row, col))
