"""BCSR: matrices by rows, with batch and dense axes.

`data` has the shape (*batch, nse, *dense), `indices` (*batch, nse), the columns, and `indptr`
(*batch, rows + 1): the elements of row k are those from indptr[k] to indptr[k + 1].
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes, numpy as jnp
from ...api.vmap import mapped_types
from ...lax import DotDimensionNumbers as DotDimensionNumbers
from .base import JAXSparse, register
from .bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dot_general,
    bcoo_fromdense,
    bcoo_sort_indices,
)
from .bcoo.array import check_batch_axis
from .bcoo.dot import check_sizes, dense_sums, matmul
from .bcoo.order import stored_once
from .bcoo.storage import batched, full, make
from .composed import SparseInfo, composed, info, numbers
from .csr import csr_rows
from .util import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    Shape as Shape,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    nfold_vmap as nfold_vmap,
)


class BCSRProperties(NamedTuple):
    """How many axes of each kind a BCSR array has beside its two sparse ones, and how many elements
    it stores.

    >>> from pullback.experimental.sparse import bcsr
    >>> bcsr.BCSRProperties(n_batch=0, n_dense=0, nse=3).nse
    3
    """

    n_batch: int
    n_dense: int
    nse: int


def _validate_bcsr(data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> BCSRProperties:
    """What the parts make of an array of this shape. Raises ValueError if they do not fit."""
    parts = (
        f"BCSR: data of shape {data.shape}, indices {indices.dtype}{list(indices.shape)} and "
        f"indptr {indptr.dtype}{list(indptr.shape)}"
    )
    if not (dtypes.is_integer(indices.dtype) and dtypes.is_integer(indptr.dtype)):
        raise ValueError(f"{parts}: indices and indptr must be integers. Fix: x.astype(jnp.int32)")
    n = indices.ndim - 1
    n_dense = data.ndim - indices.ndim
    if min(n, n_dense) < 0 or n + 2 + n_dense != len(shape) or indptr.ndim != n + 1:
        raise ValueError(f"{parts} do not make an array of shape {tuple(shape)}")
    leads = zip(data.shape[:n], indices.shape[:n], indptr.shape[:n], shape[:n], strict=True)
    fits = (
        all(size in (1, whole) for *sizes, whole in leads for size in sizes)
        and data.shape[n] in (1, indices.shape[n])
        and tuple(data.shape[n + 1 :]) == tuple(shape[n + 2 :])
        and indptr.shape[n] == shape[n] + 1
    )
    if not fits:
        raise ValueError(f"{parts} do not fit the shape {tuple(shape)}")
    return BCSRProperties(n, n_dense, indices.shape[n])


@register
class BCSR(JAXSparse):
    """A sparse matrix (batch) by rows: (data, indices, indptr).

    >>> from pullback.experimental import sparse
    >>> sparse.BCSR.fromdense(jnp.eye(3)) @ jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """

    indices: Any
    indptr: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        _validate_bcsr(self.data, self.indices, self.indptr, self.shape)

    n_sparse = 2

    @property
    def n_batch(self) -> int:
        """How many axes are batch axes."""
        return int(self.indices.ndim) - 1

    @property
    def n_dense(self) -> int:
        """How many axes each stored element has."""
        return int(self.data.ndim) - 1 - self.n_batch

    @property
    def nse(self) -> int:  # type: ignore[override]
        """How many elements are stored (of each batch)."""
        return int(self.indices.shape[-1])

    def _set_parts(self, children: tuple[Any, ...]) -> None:
        self.data, self.indices, self.indptr = children

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(tuple(self.shape), self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._bufs, self._info._asdict()

    def _repr_extra(self) -> str:
        parts = [f"{n}={getattr(self, n)}" for n in ("n_batch", "n_dense") if getattr(self, n)]
        return "".join(f", {p}" for p in parts)

    def _with_data(self, data: Any) -> BCSR:
        _, static = self.tree_flatten()
        return type(self).tree_unflatten(static, (data, self.indices, self.indptr))  # type: ignore[no-any-return]

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The elements of a dense array that are not zero; `nse` of them (needed under jit)."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The array by rows, its elements sorted."""
        if arr.n_sparse != 2:
            raise NotImplementedError(
                f"BCSR.from_bcoo requires n_sparse=2; got {arr.n_sparse}. Fix: "
                "arr.update_layout(n_batch=..., n_dense=...)."
            )
        arr = arr if arr.indices_sorted else bcoo_sort_indices(arr)
        data, indices = full(arr)
        # Rows are in order; of the columns within them JAX claims nothing either.
        parts = _bcoo_to_bcsr(indices, shape=arr.shape, index_dtype=indices.dtype)
        return cls((data, *parts), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The array of a SciPy sparse matrix."""
        if n_dense or n_batch:
            raise NotImplementedError(
                "BCSR from scipy.sparse has neither batch nor dense axes, got "
                f"n_batch={n_batch}, n_dense={n_dense}. Fix: "
                "BCSR.fromdense(a, n_batch=..., n_dense=...)."
            )
        mat = mat.tocsr()
        dtype = index_dtype or np.int32
        parts = (mat.data, mat.indices.astype(dtype), mat.indptr.astype(dtype))
        return cls(parts, shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Any, *, dtype: Any = None, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, **options))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._eye(N, M, k, dtype=dtype, **options))

    def to_bcoo(self) -> BCOO:
        """The array as a list of coordinates."""
        nse = self.nse
        rows = batched(lambda p: csr_rows(p, nse), self.n_batch)(self.indptr)
        indices = jnp.stack([rows.astype(self.indices.dtype), self.indices], -1)
        out = make(self.data, indices, self.shape)
        out.indices_sorted, out.unique_indices = self.indices_sorted, self.unique_indices
        return out

    def todense(self) -> Any:
        return bcsr_todense(self)

    def __getitem__(self, key: Any) -> BCSR:
        """The array with more batch axes in front: `m[None]`; no other index chooses anything."""
        keys = key if isinstance(key, tuple) else (key,)
        new = next((k for k, i in enumerate(keys) if i is not None), len(keys))
        whole = slice(None)
        if any(i is not Ellipsis and not (type(i) is slice and i == whole) for i in keys[new:]):
            raise NotImplementedError("BCSR.__getitem__. Fix: use a BCOO (m.to_bcoo()).")
        if not new:
            return self
        parts = (self.data, self.indices, self.indptr)
        parts = tuple(jnp.expand_dims(x, tuple(range(new))) for x in parts)
        return BCSR(parts, shape=(*(1,) * new, *self.shape))

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        raise NotImplementedError("Transpose of BCSR. Fix: m.to_bcoo().T.")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with each place stored once, in order."""
        return BCSR.from_bcoo(stored_once(self.to_bcoo(), nse, remove_zeros))

    def __mul__(self, other: Any) -> Any:
        return BCSR.from_bcoo(self.to_bcoo() * other) if jnp.ndim(other) else super().__mul__(other)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("product of a BCSR and a sparse array. Fix: m.to_bcoo() @ n.")
        other = jnp.asarray(other)
        if self.n_batch or self.n_dense or other.ndim not in (1, 2):
            return matmul(self.to_bcoo(), other)
        return bcsr_dot_general(
            self,
            other,
            dimension_numbers=(((1,), (0,)), ((), ())),
            preferred_element_type=jnp.result_type(self.dtype, other.dtype),
        )

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self.to_bcoo())


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = jnp.int32,
) -> BCSR:
    """The BCSR form of a dense array; `nse` (needed under jit): how many elements to store.

    `n_batch`, `n_dense`: how many leading axes are batches, how many trailing ones are stored
    dense; two axes are left for rows and columns.

    >>> from pullback.experimental import sparse
    >>> sparse.bcsr_fromdense(jnp.array([[0., 5.], [0., 0.]])).indptr
    Array([0, 1, 1], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"bcsr_fromdense: an array of {mat.ndim} axes with {n_batch} batch and {n_dense} dense "
            "ones does not have 2 sparse ones"
        )
    if nse is None:
        nse = bcoo_fromdense(mat, n_batch=n_batch, n_dense=n_dense).nse
    parts = bcsr_fromdense_p.bind(
        mat, nse=operator.index(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCSR(tuple(parts), shape=mat.shape)


def _fromdense(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Any, Any, Any]:
    out = BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )
    return out.data, out.indices, out.indptr


bcsr_fromdense_p = composed(
    "bcsr_fromdense",
    _fromdense,
    ("nse", "n_batch", "n_dense", "index_dtype"),
    multiple_results=True,
)


def bcsr_todense(mat: BCSR) -> Any:
    """The dense array.

    `mat`: a BCSR; elements at one place are added.

    >>> from pullback.experimental import sparse
    >>> sparse.bcsr_todense(sparse.BCSR.fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return bcsr_todense_p.bind(mat.data, mat.indices, mat.indptr, spinfo=info(mat))


def _of_info(data: Any, indices: Any, indptr: Any, spinfo: SparseInfo) -> BCSR:
    static = spinfo._asdict()
    return BCSR.tree_unflatten(static, (data, indices, indptr))  # type: ignore[no-any-return]


def _todense(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> Any:
    return _of_info(data, indices, indptr, spinfo).to_bcoo().todense()


bcsr_todense_p = composed("bcsr_todense", _todense, ("spinfo",))


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense matrix at the places of a BCSR.

    `indices`: (..., nse), `indptr`: (..., rows + 1), integers; the result is (..., nse).

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcsr_extract(m.indices, m.indptr, jnp.array([[10., 20.], [30., 40.]]))
    Array([10., 30., 40.], dtype=float32)
    """
    return bcsr_extract_p.bind(*map(jnp.asarray, (indices, indptr, mat)))


def _elements(indices: Any, indptr: Any, mat: Any) -> Any:
    nse = indices.shape[-1]

    def one(i: Any, p: Any, m: Any) -> Any:
        return m.at[csr_rows(p, nse), i].get(mode="fill", fill_value=0)

    return batched(one, indices.ndim - 1)(indices, indptr, mat)


bcsr_extract_p = composed("bcsr_extract", _elements, ())


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a BCSR with a dense array.

    `dimension_numbers`: those of `lax.dot_general`; the result is dense.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcsr_dot_general(m, jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 5.], dtype=float32)
    """
    wanted = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse):
        lhs, rhs = (x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs))
        return bcoo_dot_general(
            lhs, rhs, dimension_numbers=dimension_numbers, preferred_element_type=wanted
        )
    rhs, axes = jnp.asarray(rhs), numbers(dimension_numbers)
    check_sizes("bcsr_dot_general", lhs.shape, rhs.shape, axes)
    return bcsr_dot_general_p.bind(
        lhs.data,
        lhs.indices,
        lhs.indptr,
        rhs,
        dimension_numbers=axes,
        preferred_element_type=wanted,
        lhs_spinfo=info(lhs),
    )


def _product(
    lhs_data: Any,
    lhs_indices: Any,
    lhs_indptr: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    lhs = _of_info(lhs_data, lhs_indices, lhs_indptr, lhs_spinfo)
    if not lhs.n_batch and not lhs.n_dense:
        rows = csr_rows(lhs_indptr, lhs.nse)
        out = dense_sums(
            lhs_data, (rows, lhs_indices), lhs.shape, rhs, dimension_numbers, in_order=True
        )
        return out if preferred_element_type is None else out.astype(preferred_element_type)
    return bcoo_dot_general(
        lhs.to_bcoo(),
        rhs,
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


bcsr_dot_general_p = composed(
    "bcsr_dot_general", _product, ("dimension_numbers", "preferred_element_type", "lhs_spinfo")
)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Each place stored once, in order, zeros among them.

    `mat`: a BCSR; `nse` (needed under jit): how many places to keep room for.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR((jnp.array([3., 1.]), jnp.array([1, 1]), jnp.array([0, 2])), shape=(1, 2))
    >>> sparse.bcsr_sum_duplicates(m).data
    Array([4.], dtype=float32)
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array without stored zeros, each place stored once; `nse` (needed under jit): how many
    places to keep room for.

    `mat`: a BCSR, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR((jnp.array([3., 0.]), jnp.array([1, 0]), jnp.array([0, 2])), shape=(1, 2))
    >>> sparse.bcsr.bcsr_eliminate_zeros(m).nse
    1
    """
    return mat.sum_duplicates(nse)


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array repeated along new axes and axes of size 1.

    `mat`: a BCSR. Raises ValueError for shapes that do not fit.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.eye(2))
    >>> sparse.bcsr_broadcast_in_dim(m, shape=(1, 2, 2), broadcast_dimensions=(1, 2)).shape
    (1, 2, 2)
    """
    out = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    n_batch = len(shape) - 2 - mat.n_dense
    return BCSR.from_bcoo(out.update_layout(n_batch=n_batch, on_inefficient=None))


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Matrices joined along an axis.

    Their other sizes are equal: ValueError otherwise.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.eye(2))
    >>> sparse.bcsr_concatenate([m, m], dimension=0).todense()
    Array([[1., 0.],
           [0., 1.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """
    return BCSR.from_bcoo(bcoo_concatenate([x.to_bcoo() for x in operands], dimension=dimension))


def _element(mat: BCSR, axis: int) -> BCSR:
    check_batch_axis(mat, axis, "in_axis")
    n = mat.n_batch
    parts, static = mat.tree_flatten()
    full = tuple(jnp.broadcast_to(x, (*mat.shape[:n], *x.shape[n:])) for x in parts)
    shape = (*mat.shape[:axis], *mat.shape[axis + 1 :])
    return BCSR.tree_unflatten({**static, "shape": shape}, full)  # type: ignore[no-any-return]


def _whole(mat: BCSR, axis: int, size: int) -> BCSR:
    check_batch_axis(mat, axis, "out_axis")
    parts, static = mat.tree_flatten()
    shape = (*mat.shape[:axis], size, *mat.shape[axis:])
    return BCSR.tree_unflatten({**static, "shape": shape}, parts)  # type: ignore[no-any-return]


mapped_types[BCSR] = (_element, _whole)


# --- the same on the parts of arrays ---
def _bcsr_fromdense(
    mat: Any, *, nse: int, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = jnp.int32
) -> tuple[Any, Any, Any]:
    """The parts of a dense array."""
    out = bcsr_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return out.data, out.indices, out.indptr


def _bcsr_todense(data: Any, indices: Any, indptr: Any, *, spinfo: SparseInfo) -> Any:
    """The dense array of these parts."""
    return bcsr_todense_p.bind(*map(jnp.asarray, (data, indices, indptr)), spinfo=spinfo)


def _bcoo_to_bcsr(indices: Any, *, shape: Sequence[int], index_dtype: Any) -> tuple[Any, Any]:
    """(indices, indptr) of a BCSR array of this shape, of the sorted indices of a BCOO."""
    n_batch, kind = indices.ndim - 2, dtypes.canonicalize_dtype(index_dtype)
    rows = shape[n_batch]

    def pointers(i: Any) -> Any:
        counts = jnp.zeros(rows, kind).at[i[:, 0]].add(1, mode="drop")
        return jnp.concatenate([jnp.zeros(1, kind), jnp.cumsum(counts, dtype=kind)])

    return indices[..., 1].astype(kind), batched(pointers, n_batch)(indices)


def _bcsr_to_bcoo(indices: Any, indptr: Any, *, shape: Sequence[int]) -> Any:
    """The indices of a BCOO array of this shape, of those of a BCSR."""
    data = jnp.zeros(indices.shape)
    return _of_info(data, indices, indptr, SparseInfo(tuple(shape))).to_bcoo().indices
