"""BCOO: arrays of any rank as lists of elements with their indices, with batch and dense axes.

`data` has the shape (*batch, nse, *dense), `indices` (*batch, nse, n_sparse). The shape of the
array is (*batch, *sparse, *dense). Indices beyond the shape are padding, which counts as nothing;
elements stored twice add up. What mixes axes of several kinds first makes them all sparse: the cost
is that of the stored elements, never that of the dense array.
"""

# Longer than other files: the class and its operations call one another.

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes, lax
from ... import numpy as jnp
from ...api.vmap import mapped_types, vmap
from ...core.trace import Tracer
from .base import JAXSparse, SparseEfficiencyError, register
from .composed import SparseInfo, composed, info, numbers


@register
class BCOO(JAXSparse):
    """A sparse array: `data[k]` stands at `indices[k]`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(3)); m
    BCOO(float32[3, 3], nse=3)
    >>> m @ jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)

    Raises ValueError if data, indices and shape do not fit.
    """

    indices: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(jnp.asarray, args)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__(args, shape=shape)
        _check_layout(self.data, self.indices, self.shape)

    @property
    def n_batch(self) -> int:
        """How many axes are batch axes."""
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        """How many axes the indices index."""
        return int(self.indices.shape[-1])

    @property
    def n_dense(self) -> int:
        """How many axes each stored element has."""
        return int(self.data.ndim) - 1 - self.n_batch

    @property
    def nse(self) -> int:  # type: ignore[override]
        """How many elements are stored (of each batch)."""
        return int(self.indices.shape[-2])

    def _set_parts(self, children: tuple[Any, ...]) -> None:
        self.data, self.indices = children

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        static = {
            "shape": self.shape,
            "indices_sorted": self.indices_sorted,
            "unique_indices": self.unique_indices,
        }
        return (self.data, self.indices), static

    def _repr_extra(self) -> str:
        parts = [f"{n}={getattr(self, n)}" for n in ("n_batch", "n_dense") if getattr(self, n)]
        return "".join(f", {p}" for p in parts)

    def _with_data(self, data: Any) -> BCOO:
        return _make(data, self.indices, self.shape, self)

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
            raise NotImplementedError("BCOO from scipy.sparse has neither batch nor dense axes")
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
        batch, sparse, dense = _split(shape, n_batch, n_sparse)
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
        on_inefficient: str = "error",
    ) -> BCOO:
        """The array with other numbers of batch and dense axes."""
        return bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with each place stored once, in order."""
        return bcoo_sum_duplicates(self, nse, remove_zeros=remove_zeros)

    def sort_indices(self) -> BCOO:
        """The array with its elements in the order of their indices."""
        return bcoo_sort_indices(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        return bcoo_transpose(self, permutation=order)

    def reshape(self, *args: Any, **kwargs: Any) -> BCOO:
        """The array in another shape of as many elements."""
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return bcoo_reshape(self, new_sizes=_sizes(sizes, self.size), **kwargs)

    def sum(self, axis: Any = None) -> Any:
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        out = bcoo_reduce_sum(self, axes=tuple(axes))
        return out if out.ndim else out.todense()

    def __getitem__(self, key: Any) -> BCOO:
        return _getitem(self, key)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    # --- arithmetic ---
    def __mul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            return bcoo_multiply_sparse(self, other)  # type: ignore[arg-type]
        if jnp.ndim(other) == 0:
            return self._with_data(self.data * other)
        return self._with_data(bcoo_multiply_dense(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("division by a sparse array, which is zero almost everywhere")
        return self * (1 / jnp.asarray(other)) if jnp.ndim(other) else super().__truediv__(other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            return _add(self, other)
        raise NotImplementedError(
            "addition of a sparse and a dense array. Fix: m.todense() + x, or sparsify."
        )

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)


def _check_layout(data: Any, indices: Any, shape: tuple[int, ...]) -> None:
    if indices.ndim < 2 or not dtypes.is_integer(indices.dtype):
        raise ValueError(
            "BCOO: indices must be integers of shape (*batch, nse, n_sparse); got "
            f"{indices.dtype}{list(indices.shape)}"
        )
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    n_dense = data.ndim - 1 - n_batch
    if n_dense < 0 or n_batch + n_sparse + n_dense != len(shape):
        raise ValueError(
            f"BCOO: data of shape {data.shape} and indices of shape {indices.shape} do not make an "
            f"array of shape {shape}: {n_batch} batch, {n_sparse} sparse and {n_dense} dense axes"
        )
    batch, _, dense = _split(shape, n_batch, n_sparse)
    fits = all(
        d in (1, n) and i in (1, n)
        for d, i, n in zip(data.shape[:n_batch], indices.shape[:n_batch], batch, strict=True)
    )
    same = data.shape[n_batch] in (1, indices.shape[-2])
    if not fits or not same or tuple(data.shape[n_batch + 1 :]) != dense:
        raise ValueError(
            f"BCOO: data of shape {data.shape} and indices of shape {indices.shape} do not fit the "
            f"shape {shape}"
        )


def _split(shape: Sequence[int], n_batch: int, n_sparse: int) -> tuple[Any, Any, Any]:
    """Sizes of the batch, sparse and dense axes."""
    end = n_batch + n_sparse
    return tuple(shape[:n_batch]), tuple(shape[n_batch:end]), tuple(shape[end:])


def _make(data: Any, indices: Any, shape: Any, like: BCOO | None = None) -> BCOO:
    out: BCOO = object.__new__(BCOO)
    out.data, out.indices, out.shape = data, indices, tuple(shape)
    out.indices_sorted = like.indices_sorted if like is not None else False
    out.unique_indices = like.unique_indices if like is not None else False
    return out


def _of_info(data: Any, indices: Any, spinfo: SparseInfo) -> BCOO:
    """The array of its parts."""
    out = _make(data, indices, spinfo.shape)
    out.indices_sorted, out.unique_indices = spinfo.indices_sorted, spinfo.unique_indices
    return out


def _parts(mat: BCOO) -> tuple[Any, Any]:
    return mat.data, mat.indices


def _batched(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    for _ in range(n):
        f = vmap(f)
    return f


def _full(mat: BCOO) -> tuple[Any, Any]:
    """(data, indices) with every batch axis at its full size."""
    n = mat.n_batch
    batch = mat.shape[:n]
    data = jnp.broadcast_to(mat.data, (*batch, mat.nse, *mat.data.shape[n + 1 :]))
    return data, jnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[n:]))


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
    return _make(*_full(mat), (*mat.shape[:axis], *mat.shape[axis + 1 :]), mat)


def _whole(mat: BCOO, axis: int, size: int) -> BCOO:
    check_batch_axis(mat, axis, "out_axis")
    return _make(mat.data, mat.indices, (*mat.shape[:axis], size, *mat.shape[axis:]), mat)


mapped_types[BCOO] = (_element, _whole)


def _columns(indices: Any) -> tuple[Any, ...]:
    return tuple(indices[..., k] for k in range(indices.shape[-1]))


# --- dense and back ---
def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = jnp.int32,
) -> BCOO:
    """The BCOO form of a dense array; `nse` (needed under jit): how many elements to store.

    `n_batch`, `n_dense`: how many leading axes are batches, how many trailing ones are stored
    dense. Raises ConcretizationTypeError for traced `mat` without `nse`.

    >>> from pullback.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0., 5.], [0., 0.]])).indices
    Array([[0, 1]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(
            f"bcoo_fromdense: {n_batch} batch and {n_dense} dense axes of an array of {mat.ndim}"
        )
    if nse is None:
        if isinstance(mat, Tracer):
            raise ValueError("bcoo_fromdense: nse must be given under jit. Fix: nse=...")
        mask = _mask(mat, n_batch, n_dense)
        counts = mask.sum(axis=tuple(range(n_batch, mask.ndim)))
        nse = int(counts.max()) if counts.size else 0
    parts = bcoo_fromdense_p.bind(
        mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )
    return BCOO(parts, shape=mat.shape, indices_sorted=True, unique_indices=True)


def _mask(mat: Any, n_batch: int, n_dense: int) -> Any:
    """Which places of the batch and sparse axes hold something."""
    return (mat != 0).any(axis=tuple(range(mat.ndim - n_dense, mat.ndim)))


def _fromdense(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Any, Any]:
    _, sparse, _ = _split(mat.shape, n_batch, mat.ndim - n_batch - n_dense)

    def places(m: Any) -> Any:
        if not sparse:
            return jnp.zeros((nse, 0), index_dtype)
        found = jnp.nonzero(m, size=nse, fill_value=sparse)
        return jnp.stack(found, 1).astype(index_dtype)

    indices = _batched(places, n_batch)(_mask(mat, n_batch, n_dense))
    return _extract(mat, indices, n_batch), indices


bcoo_fromdense_p = composed(
    "bcoo_fromdense",
    _fromdense,
    ("nse", "n_batch", "n_dense", "index_dtype"),
    multiple_results=True,
)


def _extract(mat: Any, indices: Any, n_batch: int) -> Any:
    """Elements of a dense array at indices; zero for padding."""

    def one(m: Any, i: Any) -> Any:
        if not i.shape[-1]:
            kept = jnp.arange(i.shape[0]) == 0
            return jnp.where(kept.reshape((-1,) + (1,) * m.ndim), m[None], 0)
        return m.at[_columns(i)].get(mode="fill", fill_value=0)

    return _batched(one, n_batch)(mat, indices)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the places of a sparse one. Places stored more than once
    get the element once, unless `assume_unique`.

    `sparr`: a BCOO, as is the result. `arr`: dense, of the shape of `sparr`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_extract(m, jnp.array([10., 20., 30.])).data
    Array([10., 30.], dtype=float32)
    """
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"shape mismatch: sparr.shape={sparr.shape} arr.shape={arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    _, indices = _full(sparr)
    data = bcoo_extract_p.bind(indices, arr, assume_unique=bool(unique))
    return _make(data, indices, sparr.shape, sparr)


def _elements(indices: Any, arr: Any, *, assume_unique: bool) -> Any:
    n_batch = indices.ndim - 2
    data = _extract(arr, indices, n_batch)
    if assume_unique:
        return data
    first = _batched(_is_first, n_batch)(indices)
    n_dense = data.ndim - n_batch - 1
    return jnp.where(first.reshape(first.shape + (1,) * n_dense), data, 0)


bcoo_extract_p = composed("bcoo_extract", _elements, ("assume_unique",))


def _is_first(indices: Any) -> Any:
    """For each place, is it the first of its kind?"""
    n = indices.shape[0]
    if not indices.shape[1]:
        return jnp.arange(n) == 0
    order = jnp.lexsort(_columns(indices)[::-1])
    ordered = indices[order]
    new = jnp.ones(n, bool).at[1:].set((ordered[1:] != ordered[:-1]).any(-1))
    return jnp.zeros(n, bool).at[order].set(new)


def bcoo_todense(mat: BCOO) -> Any:
    """The dense array; elements at one place are added.

    `mat`: a BCOO.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [2]])), shape=(3,))
    >>> sparse.bcoo_todense(m)
    Array([0., 0., 4.], dtype=float32)
    """
    return bcoo_todense_p.bind(*_parts(mat), spinfo=info(mat))


def _todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    mat = _of_info(data, indices, spinfo)
    _, sparse, dense = _split(mat.shape, mat.n_batch, mat.n_sparse)
    data, indices = _full(mat)

    def one(d: Any, i: Any) -> Any:
        if not sparse:
            return d.sum(0, dtype=d.dtype) if d.dtype != bool else d.any(0)
        zeros = jnp.zeros((*sparse, *dense), d.dtype)
        return zeros.at[_columns(i)].add(d, mode="drop")

    return _batched(one, mat.n_batch)(data, indices)


bcoo_todense_p = composed("bcoo_todense", _todense, ("spinfo",))


# --- layouts ---
def _all_sparse(mat: BCOO) -> BCOO:
    """The same array with sparse axes only."""
    n_batch, n_dense = mat.n_batch, mat.n_dense
    if not n_batch and not n_dense:
        return mat
    data, indices = _full(mat)
    batch, _, dense = _split(mat.shape, n_batch, mat.n_sparse)
    full = (*batch, mat.nse, *dense)
    dtype = indices.dtype
    columns = [lax.broadcasted_iota(dtype, full, k) for k in range(n_batch)]
    spread = [c.reshape((*batch, mat.nse) + (1,) * n_dense) for c in _columns(indices)]
    # Padding stays padding: a first sparse index beyond the shape.
    columns += [jnp.broadcast_to(c, full) for c in spread]
    columns += [lax.broadcasted_iota(dtype, full, n_batch + 1 + k) for k in range(n_dense)]
    flat = jnp.stack([c.reshape(-1) for c in columns], -1)
    return _make(data.reshape(-1), flat, mat.shape)


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The array with other numbers of batch and dense axes. More of them need more memory: that is
    an error unless `on_inefficient` is None or "warn".

    `mat`: a BCOO, as is the result. Raises SparseEfficiencyError, ValueError for more axes than
    there are.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(2), n_batch=1)
    >>> sparse.bcoo_update_layout(m, n_batch=0).n_batch
    0
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"bcoo_update_layout: n_batch={n_batch} and n_dense={n_dense} of an array of "
            f"{mat.ndim} axes"
        )
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    if (n_batch > mat.n_batch or n_dense > mat.n_dense) and on_inefficient == "error":
        raise SparseEfficiencyError(
            f"For BCOO with {mat.n_batch} batch and {mat.n_dense} dense axes, more of them store "
            "zeros. Fix: on_inefficient=None."
        )
    flat = _all_sparse(mat)
    if not n_batch and not n_dense:
        return flat
    batch, sparse, dense = _split(mat.shape, n_batch, mat.ndim - n_batch - n_dense)
    nse = flat.nse
    columns = _columns(flat.indices)
    keep = columns[n_batch : n_batch + len(sparse)]
    lines = jnp.arange(nse)
    data = jnp.zeros((*batch, nse, *dense), flat.dtype)
    place = (*columns[:n_batch], lines, *columns[n_batch + len(sparse) :])
    data = data.at[place].add(flat.data, mode="drop")
    pad = jnp.array(sparse, flat.indices.dtype)
    own = jnp.stack(keep, -1) if keep else jnp.zeros((nse, 0), flat.indices.dtype)
    indices = jnp.broadcast_to(pad, (*batch, nse, len(sparse)))
    where = (*columns[:n_batch], lines)
    indices = indices.at[where].set(own, mode="drop") if batch else own
    return _make(data, indices, mat.shape)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The elements in the order of their indices.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [0]])), shape=(3,))
    >>> sparse.bcoo_sort_indices(m).data
    Array([1., 3.], dtype=float32)
    """
    data, indices = bcoo_sort_indices_p.bind(*_parts(mat), spinfo=info(mat))
    out = _make(data, indices, mat.shape, mat)
    out.indices_sorted = True
    return out


def _sorted(data: Any, indices: Any, *, spinfo: SparseInfo) -> tuple[Any, Any]:
    mat = _of_info(data, indices, spinfo)
    data, indices = _full(mat)

    def one(d: Any, i: Any) -> Any:
        if not i.shape[1]:
            return d, i
        order = jnp.lexsort(_columns(i)[::-1])
        return d[order], i[order]

    return _batched(one, mat.n_batch)(data, indices)  # type: ignore[no-any-return]


bcoo_sort_indices_p = composed("bcoo_sort_indices", _sorted, ("spinfo",), multiple_results=True)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """Each place stored once, in order; `nse` (needed under jit): how many places to keep room
    for.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([3., 1.]), jnp.array([[2], [2]])), shape=(3,))
    >>> sparse.bcoo_sum_duplicates(m).data
    Array([4.], dtype=float32)
    """
    if nse is None:
        _, counts = _groups(bcoo_sort_indices(mat), remove_zeros)
        if isinstance(counts, Tracer):
            raise ValueError("bcoo_sum_duplicates: nse must be given under jit. Fix: nse=...")
        nse = int(jnp.max(counts)) if counts.size else 0
    if remove_zeros:
        data, indices = bcoo_sum_duplicates_p.bind(*_parts(mat), spinfo=info(mat), nse=int(nse))
    else:
        data, indices = _summed(*_parts(mat), spinfo=info(mat), nse=int(nse), remove_zeros=False)
    out = _make(data, indices, mat.shape)
    out.indices_sorted = out.unique_indices = True
    return out


def _groups(mat: BCOO, remove_zeros: bool) -> tuple[Any, Any]:
    """(each element's group, number of groups) of an array with sorted indices."""
    _, sparse, _ = _split(mat.shape, mat.n_batch, mat.n_sparse)
    limit = jnp.array(sparse, mat.indices.dtype)

    def groups(d: Any, i: Any) -> tuple[Any, Any]:
        """(each element's group, number of groups), padding in none."""
        inside = (i < limit).all(-1)
        if remove_zeros:
            inside &= (d != 0).reshape(d.shape[0], -1).any(-1)
        if not i.shape[1]:
            new = jnp.arange(i.shape[0]) == 0
            return jnp.zeros(i.shape[0], jnp.int32), new.sum()
        # Skipped elements do not part what stands on both sides of them.
        order = jnp.argsort(~inside, stable=True)
        shown, ok = i[order], inside[order]
        new = jnp.ones(i.shape[0], bool).at[1:].set((shown[1:] != shown[:-1]).any(-1)) & ok
        rank = jnp.cumsum(new) - 1
        where = jnp.where(ok, rank, i.shape[0])
        return jnp.zeros(i.shape[0], where.dtype).at[order].set(where), new.sum()

    return _batched(groups, mat.n_batch)(mat.data, mat.indices)  # type: ignore[no-any-return]


def _summed(
    data: Any, indices: Any, *, spinfo: SparseInfo, nse: int, remove_zeros: bool = True
) -> tuple[Any, Any]:
    mat = bcoo_sort_indices(_of_info(data, indices, spinfo))
    group, _ = _groups(mat, remove_zeros)
    _, sparse, _ = _split(mat.shape, mat.n_batch, mat.n_sparse)
    limit = jnp.array(sparse, mat.indices.dtype)

    def one(d: Any, i: Any, g: Any) -> Any:
        data = jnp.zeros((nse, *d.shape[1:]), d.dtype).at[g].add(d, mode="drop")
        full = jnp.broadcast_to(limit, (nse, i.shape[1]))
        return data, full.at[g].set(i, mode="drop")

    return _batched(one, mat.n_batch)(mat.data, mat.indices, group)  # type: ignore[no-any-return]


bcoo_sum_duplicates_p = composed(
    "bcoo_sum_duplicates", _summed, ("spinfo", "nse"), multiple_results=True
)


def _fitting(mat: BCOO) -> BCOO:
    """Without axes of batches: no more elements are stored than there are places."""
    places = math.prod(mat.shape)
    return mat if mat.nse <= places else bcoo_sum_duplicates(mat, nse=places)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The axes in another order; batch axes stay batch axes, dense axes dense ones.

    `mat`: a BCOO, as is the result. Raises ValueError for a permutation that mixes the kinds of
    axes.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_transpose(m, permutation=(1, 0)).todense()
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    permutation = tuple(int(p) % max(mat.ndim, 1) for p in permutation)
    if sorted(permutation) != list(range(mat.ndim)):
        raise ValueError(f"bcoo_transpose: {permutation} is no permutation of {mat.ndim} axes")
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    batch, sparse, _ = _split(permutation, n_batch, n_sparse)
    if any(p >= n_batch for p in batch) or any(
        not n_batch <= p < n_batch + n_sparse for p in sparse
    ):
        raise NotImplementedError(
            "transpose of batch, sparse or dense axes with each other. Fix: m.update_layout("
            "n_batch=0, n_dense=0) makes all axes sparse."
        )
    shape = tuple(mat.shape[p] for p in permutation)
    data, indices = bcoo_transpose_p.bind(*_parts(mat), permutation=permutation, spinfo=info(mat))
    out = _make(data, indices, shape, mat)
    out.indices_sorted = mat.indices_sorted and list(sparse) == sorted(sparse)
    return out


def _transposed(
    data: Any, indices: Any, *, permutation: tuple[int, ...], spinfo: SparseInfo
) -> tuple[Any, Any]:
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch, sparse, dense = _split(permutation, n_batch, n_sparse)
    inner = [p - n_batch for p in sparse]
    data = data.transpose((*batch, n_batch, *(p - n_sparse + 1 for p in dense)))
    indices = indices[..., jnp.array(inner, int)] if inner else indices
    return data, indices.transpose((*batch, n_batch, n_batch + 1))


bcoo_transpose_p = composed(
    "bcoo_transpose", _transposed, ("permutation", "spinfo"), multiple_results=True
)


def _sizes(sizes: Sequence[int], total: int) -> tuple[int, ...]:
    known = math.prod(n for n in sizes if n != -1)
    return tuple(total // max(known, 1) if n == -1 else int(n) for n in sizes)


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """Another shape of as many elements. Batch and dense axes become sparse.

    `mat`: a BCOO, as is the result. `dimensions`: the order in which the axes are read.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3., 0.]))
    >>> sparse.bcoo_reshape(m, new_sizes=(2, 2)).todense()
    Array([[1., 0.],
           [3., 0.]], dtype=float32)
    """
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=dimensions)
    new_sizes = tuple(new_sizes)
    if math.prod(new_sizes) != mat.size:
        raise TypeError(
            f"cannot reshape array of shape {mat.shape} (size {mat.size}) into shape {new_sizes} "
            f"(size {math.prod(new_sizes)})"
        )
    flat = _all_sparse(mat)
    columns = _columns(flat.indices)
    inside = (flat.indices < jnp.array(mat.shape, flat.indices.dtype)).all(-1)
    position = jnp.ravel_multi_index(columns, mat.shape, mode="clip") if columns else 0
    found = jnp.unravel_index(position, new_sizes) if new_sizes else ()
    dtype = flat.indices.dtype
    parts = [jnp.where(inside, p, n).astype(dtype) for p, n in zip(found, new_sizes, strict=True)]
    indices = jnp.stack(parts, -1) if parts else jnp.zeros((flat.nse, 0), dtype)
    return _make(flat.data, indices, new_sizes, flat)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array repeated along new axes and axes of size 1.

    `mat`: a BCOO, as is the result. `broadcast_dimensions`: the axis of the result for each axis of
    `mat`. Raises ValueError for shapes that do not fit.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0.]))
    >>> sparse.bcoo_broadcast_in_dim(m, shape=(2, 2), broadcast_dimensions=(1,)).todense()
    Array([[1., 0.],
           [1., 0.]], dtype=float32)
    """
    shape = tuple(shape)
    flat = _all_sparse(mat)
    new = [d for d in range(len(shape)) if d not in tuple(broadcast_dimensions)]
    grown = [d for k, d in enumerate(broadcast_dimensions) if flat.shape[k] == 1 and shape[d] != 1]
    repeated = sorted(new + grown)
    sizes = tuple(shape[d] for d in repeated)
    full = (*sizes, flat.nse)
    dtype = flat.indices.dtype
    columns: list[Any] = []
    for d in range(len(shape)):
        if d in repeated:
            column = lax.broadcasted_iota(dtype, full, repeated.index(d))
            if d in grown:  # padding stays outside
                own = flat.indices[:, tuple(broadcast_dimensions).index(d)]
                column = jnp.where(jnp.broadcast_to(own, full) < 1, column, shape[d])
        else:
            column = jnp.broadcast_to(flat.indices[:, tuple(broadcast_dimensions).index(d)], full)
        columns.append(column.reshape(-1))
    data = jnp.broadcast_to(flat.data, full).reshape(-1)
    n = math.prod(full)
    indices = jnp.stack(columns, -1) if columns else jnp.zeros((n, 0), dtype)
    return _make(data, indices, shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some axes of size 1.

    `arr`: a BCOO, as is the result. Raises ValueError for axes of another size.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.]]))
    >>> sparse.bcoo_squeeze(m, dimensions=(0,)).shape
    (2,)
    """
    dims = tuple(d % arr.ndim for d in dimensions)
    if any(arr.shape[d] != 1 for d in dims):
        raise ValueError(f"bcoo_squeeze: axes {dims} of shape {arr.shape} are not all of size 1")
    return bcoo_reshape(arr, new_sizes=[n for d, n in enumerate(arr.shape) if d not in dims])


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays joined along an axis.

    Their other sizes, and numbers of batch and dense axes, are equal: ValueError otherwise.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0.]))
    >>> sparse.bcoo_concatenate([m, m], dimension=0).todense()
    Array([1., 0., 1., 0.], dtype=float32)
    """
    operands = list(operands)
    if not operands or not all(isinstance(x, BCOO) for x in operands):
        raise ValueError("bcoo_concatenate: expected BCOO arrays, at least one")
    dimension %= operands[0].ndim
    flats = [_all_sparse(x) for x in operands]
    rest = {x.shape[:dimension] + x.shape[dimension + 1 :] for x in flats}
    if len(rest) != 1:
        raise ValueError(
            f"bcoo_concatenate: shapes {[x.shape for x in operands]} differ beside axis {dimension}"
        )
    starts = np.cumsum([0] + [x.shape[dimension] for x in flats])
    shape = list(flats[0].shape)
    shape[dimension] = int(starts[-1])
    moved = []
    for x, start in zip(flats, starts[:-1], strict=True):
        inside = (x.indices < jnp.array(x.shape, x.indices.dtype)).all(-1)
        shifted = x.indices.at[:, dimension].add(int(start))
        moved.append(jnp.where(inside[:, None], shifted, jnp.array(shape, x.indices.dtype)))
    data = jnp.concatenate([x.data for x in flats])
    return _make(data, jnp.concatenate(moved), shape)


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A box of the array; what lies outside of it becomes padding.

    `mat`: a BCOO, as is the result. Bounds and strides are Python ints, one an axis. Raises
    ValueError for others.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_slice(m, start_indices=(1,), limit_indices=(3,)).todense()
    Array([0., 3.], dtype=float32)
    """
    steps = tuple(strides) if strides is not None else (1,) * mat.ndim
    flat = _all_sparse(mat)
    columns, ok = [], jnp.ones(flat.nse, bool)
    shape = []
    for k, (start, stop, step) in enumerate(zip(start_indices, limit_indices, steps, strict=True)):
        if not 0 <= start <= stop <= mat.shape[k] or step < 1:
            raise TypeError(
                f"bcoo_slice: from {start} to {stop} by {step} of an axis of size {mat.shape[k]}"
            )
        own = flat.indices[:, k]
        ok &= (own >= start) & (own < stop) & ((own - start) % step == 0)
        columns.append((own - start) // step)
        shape.append(-(-(stop - start) // step))
    pad = jnp.array(shape, flat.indices.dtype)
    indices = jnp.stack(columns, -1) if columns else flat.indices
    data = jnp.where(ok, flat.data, 0)
    return _fitting(_make(data, jnp.where(ok[:, None], indices, pad), shape, flat))


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A box of the array whose start is a value, clamped so that the box lies inside.

    `mat`: a BCOO, as is the result. `start_indices`: an integer scalar for each axis;
    `slice_sizes`: Python ints.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_dynamic_slice(m, (1,), (2,)).todense()
    Array([0., 3.], dtype=float32)
    """
    flat = _all_sparse(mat)
    sizes = tuple(slice_sizes)
    dtype = flat.indices.dtype
    starts = jnp.stack([jnp.asarray(s, dtype) for s in start_indices])
    shape = jnp.array(mat.shape, dtype)
    starts = jnp.where(starts < 0, starts + shape, starts)  # from the end, as lax.dynamic_slice
    return _box(flat, jnp.clip(starts, 0, shape - jnp.array(sizes, dtype)), sizes)


def _box(flat: BCOO, starts: Any, sizes: tuple[int, ...]) -> BCOO:
    """The box of these sizes that starts there, inside the array."""
    dtype = flat.indices.dtype
    moved, pad = flat.indices - starts, jnp.array(sizes, dtype)
    ok = ((moved >= 0) & (moved < pad)).all(-1)
    return _fitting(_make(jnp.where(ok, flat.data, 0), jnp.where(ok[:, None], moved, pad), sizes))


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with some axes reversed.

    `operand`: a BCOO, as is the result. Raises ValueError for axes that it does not have.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3., 4.]))
    >>> sparse.bcoo_rev(m, (0,)).todense()
    Array([4., 3., 0., 1.], dtype=float32)
    """
    flat = _all_sparse(operand)
    indices = flat.indices
    shape = jnp.array(operand.shape, indices.dtype)
    inside = (indices < shape).all(-1)
    for d in dimensions:
        indices = indices.at[:, d].set(operand.shape[d] - 1 - indices[:, d])
    return _make(flat.data, jnp.where(inside[:, None], indices, shape), operand.shape)


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """`lax.gather` of a sparse array: boxes of it, one for each vector of `start_indices`.

    `operand`: a BCOO, as is the result; the axes of `start_indices` but its last are batch axes of
    the result. Boxes are moved inside the array; negative starts count from the end unless `mode`
    is "clip". Raises NotImplementedError for mode "fill" and for batching dimensions.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> sparse.bcoo_gather(m, jnp.array([[1], [0]]), numbers, (1, 2)).todense()
    Array([[2., 3.],
           [1., 0.]], dtype=float32)
    """
    how = lax.GatherScatterMode.from_any(mode)
    if how == lax.GatherScatterMode.FILL_OR_DROP and mode is not None:
        raise NotImplementedError(
            "bcoo_gather: mode='fill' would fill a sparse array. Fix: mode='clip'."
        )
    if getattr(dimension_numbers, "operand_batching_dims", ()):
        raise NotImplementedError("bcoo_gather: operand_batching_dims. Fix: map it with vmap.")
    flat, starts, sizes = _all_sparse(operand), jnp.asarray(start_indices), tuple(slice_sizes)
    gone = tuple(dimension_numbers.collapsed_slice_dims)
    kept = [d for d in range(flat.ndim) if d not in gone]
    shape, dtype = jnp.array(flat.shape, flat.indices.dtype), flat.indices.dtype
    room = shape - jnp.array(sizes, dtype)

    def one(start: Any) -> tuple[Any, Any]:
        full = jnp.zeros(flat.ndim, dtype)
        full = full.at[jnp.array(dimension_numbers.start_index_map, int)].set(start.astype(dtype))
        if how != lax.GatherScatterMode.CLIP:
            full = jnp.where(full < 0, full + shape, full)
        box = bcoo_squeeze(_box(flat, jnp.clip(full, 0, room), sizes), dimensions=gone)
        return box.data, box.indices

    n_batch = starts.ndim - 1
    data, indices = _batched(one, n_batch)(starts)
    out = _make(data, indices, (*starts.shape[:-1], *(sizes[d] for d in kept)))
    offset = tuple(dimension_numbers.offset_dims)
    if offset == tuple(range(n_batch, out.ndim)):
        return out
    lead = [d for d in range(out.ndim) if d not in offset]
    order = [(*lead, *offset).index(d) for d in range(out.ndim)]
    return bcoo_transpose(_all_sparse(out), permutation=order)


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """`lax.conv_general_dilated` of two sparse arrays: a product for every pair of stored elements
    that meet. Any number of window axes, strides and dilations.

    `lhs`, `rhs`: BCOO arrays of 2 + n axes, as is the result; of a dense array each element is
    stored. Other arguments as of `lax.conv_general_dilated`. Raises NotImplementedError for groups.

    >>> from pullback.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[1., 0., 2.]]]), n_batch=2)
    >>> k = sparse.BCOO.fromdense(jnp.array([[[1., 1.]]]), n_batch=2)
    >>> sparse.bcoo_conv_general_dilated(x, k, window_strides=(1,), padding="VALID").todense()
    Array([[[1., 2.]]], dtype=float32)
    """
    lhs, rhs = (
        x if isinstance(x, BCOO) else bcoo_fromdense(x, nse=jnp.size(x)) for x in (lhs, rhs)
    )
    if feature_group_count != 1 or batch_group_count != 1:
        raise NotImplementedError(
            "bcoo_conv_general_dilated: feature_group_count and batch_group_count other than 1"
        )
    axes = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    a, b = _all_sparse(lhs), _all_sparse(rhs)
    a = bcoo_transpose(a, permutation=axes.lhs_spec)
    b = bcoo_transpose(b, permutation=axes.rhs_spec)
    n = a.ndim - 2
    grown, spread = (tuple(d or (1,) * n) for d in (lhs_dilation, rhs_dilation))
    strides = tuple(window_strides)
    sizes = [(m - 1) * d + 1 if m else 0 for m, d in zip(a.shape[2:], grown, strict=True)]
    windows = [(m - 1) * d + 1 if m else 0 for m, d in zip(b.shape[2:], spread, strict=True)]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(sizes, windows, strides, padding)
    ends = tuple((int(low), int(high)) for low, high in padding)
    if a.shape[1] != b.shape[1]:
        raise TypeError(
            f"bcoo_conv_general_dilated: lhs has {a.shape[1]} features and rhs takes {b.shape[1]}"
        )
    outs = [
        max(0, (m + low + high - w) // s + 1)
        for m, w, s, (low, high) in zip(sizes, windows, strides, ends, strict=True)
    ]
    shape = (a.shape[0], b.shape[0], *outs)
    ok = (a.indices < jnp.array(a.shape, a.indices.dtype)).all(-1)[:, None]
    ok = ok & (b.indices < jnp.array(b.shape, b.indices.dtype)).all(-1)[None]
    ok = ok & (a.indices[:, None, 1] == b.indices[None, :, 1])
    columns = [
        jnp.broadcast_to(a.indices[:, None, 0], ok.shape),
        jnp.broadcast_to(b.indices[None, :, 0], ok.shape),
    ]
    for d in range(n):
        first = a.indices[:, None, d + 2] * grown[d] + ends[d][0]
        at = first - b.indices[None, :, d + 2] * spread[d]
        place = at // strides[d]
        ok = ok & (at >= 0) & (at % strides[d] == 0) & (place < outs[d])
        columns.append(place)
    wanted = preferred_element_type
    dtype = jnp.result_type(a.data, b.data) if wanted is None else np.dtype(wanted)
    data = jnp.where(ok, a.data.astype(dtype)[:, None] * b.data.astype(dtype)[None], 0)
    pad = jnp.array(shape, a.indices.dtype)
    indices = jnp.where(ok[..., None], jnp.stack(columns, -1), pad)
    out = _fitting(_make(data.reshape(-1), indices.reshape(-1, len(shape)), shape))
    back = [axes.out_spec.index(d) for d in range(out.ndim)]
    return bcoo_transpose(out, permutation=back)


def _take(mat: BCOO, picked: Any, axis: int) -> BCOO:
    """The slices at the places `picked` of an axis: each stored element is held against each."""
    flat = _all_sparse(mat)
    places = jnp.asarray(picked, flat.indices.dtype)
    places = jnp.where(places < 0, places + mat.shape[axis], places)
    hit = flat.indices[:, axis, None] == places
    shape = (*mat.shape[:axis], places.shape[0], *mat.shape[axis + 1 :])
    columns = [jnp.broadcast_to(c[:, None], hit.shape) for c in _columns(flat.indices)]
    columns[axis] = lax.broadcasted_iota(flat.indices.dtype, hit.shape, 1)
    pad = jnp.array(shape, flat.indices.dtype)
    indices = jnp.where(hit[..., None], jnp.stack(columns, -1), pad)
    data = jnp.where(hit, flat.data[:, None], 0)
    return _fitting(_make(data.reshape(-1), indices.reshape(-1, len(shape)), shape))


def _take_arrays(mat: BCOO, keys: list[Any]) -> tuple[BCOO, list[Any]]:
    """An index array of one axis is done, the other keys are left."""
    arrays = [k for k, key in enumerate(keys) if isinstance(key, list) or jnp.ndim(key)]
    if not arrays:
        return mat, keys
    at = arrays[0]
    kind = jnp.asarray(keys[at])
    if len(arrays) > 1 or kind.ndim != 1 or not dtypes.is_integer(kind.dtype):
        raise NotImplementedError(
            "indexing of a sparse array with several index arrays, with one of several axes or of "
            "bools. Fix: one vector of integers, slices and integers, or todense()."
        )
    axis = sum(k is not None for k in keys[:at])
    if axis >= mat.ndim:
        raise IndexError(f"too many indices for an array of {mat.ndim} axes")
    return _take(mat, kind, axis), [*keys[:at], slice(None), *keys[at + 1 :]]


def _getitem(mat: BCOO, key: Any) -> BCOO:
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [at for at, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if dots:
        missing = mat.ndim - sum(k is not None for k in keys) + 1
        keys[dots[0] : dots[0] + 1] = [slice(None)] * missing
    mat, keys = _take_arrays(mat, keys)
    box: list[tuple[int, int, int]] = []
    sizes: list[int] = []
    back: list[int] = []
    axis = 0
    for k in keys:
        if k is None:
            sizes.append(1)
            continue
        if axis >= mat.ndim:
            raise IndexError(f"too many indices for an array of {mat.ndim} axes")
        n = mat.shape[axis]
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            if step < 0:
                back.append(axis)
                count = len(range(start, stop, step))
                start, stop, step = start + (count - 1) * step, start + 1, -step
            box.append((start, max(start, stop), step))
            sizes.append(-(-(max(start, stop) - start) // step))
        elif isinstance(k, int | np.integer):
            if not -n <= k < n:
                raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
            at = int(k) % n
            box.append((at, at + 1, 1))
        else:
            raise NotImplementedError(
                f"indexing of a sparse array with {type(k).__name__}. Fix: integers and slices, or "
                "todense()."
            )
        axis += 1
    for d in range(axis, mat.ndim):
        box.append((0, mat.shape[d], 1))
        sizes.append(mat.shape[d])
    starts, stops, steps = ([part[k] for part in box] for k in range(3))
    out = bcoo_slice(mat, start_indices=starts, limit_indices=stops, strides=steps)
    out = bcoo_rev(out, back) if back else out
    return bcoo_reshape(out, new_sizes=sizes) if tuple(sizes) != out.shape else out


# --- arithmetic ---
def _add(a: BCOO, b: BCOO) -> BCOO:
    if a.shape != b.shape:
        raise NotImplementedError(f"addition of sparse arrays of shapes {a.shape} and {b.shape}")
    a, b = _all_sparse(a), _all_sparse(b)
    dtype = jnp.result_type(a.data, b.data)
    data = jnp.concatenate([a.data.astype(dtype), b.data.astype(dtype)])
    return _make(data, jnp.concatenate([a.indices, b.indices]), a.shape)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum along axes: a sparse array of those that are left.

    `mat`: a BCOO, as is the result.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_reduce_sum(m, axes=(1,)).todense()
    Array([1., 5.], dtype=float32)
    """
    gone = {a % max(mat.ndim, 1) for a in axes}
    kept = [d for d in range(mat.ndim) if d not in gone]
    flat = _all_sparse(mat)
    inside = (flat.indices < jnp.array(mat.shape, flat.indices.dtype)).all(-1)
    shape = tuple(mat.shape[d] for d in kept)
    pad = jnp.array(shape, flat.indices.dtype)
    own = flat.indices[:, jnp.array(kept, int)] if kept else jnp.zeros((flat.nse, 0), jnp.int32)
    data = jnp.where(inside, flat.data, 0)
    if not kept:
        return _make(data.sum(keepdims=True, dtype=data.dtype), own[:1], shape)
    return _make(data, jnp.where(inside[:, None], own, pad), shape)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The data of the product of a sparse and a dense array, which must broadcast to its shape.

    `sp_mat`: a BCOO. `v`: dense.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_multiply_dense(m, jnp.array([10., 20., 30.]))
    Array([10., 90.], dtype=float32)
    """
    v = jnp.asarray(v)
    if jnp.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        raise NotImplementedError(
            f"product of a sparse array of shape {sp_mat.shape} with a dense one of shape "
            f"{v.shape}, which is larger"
        )
    if not v.ndim:
        return sp_mat.data * v
    data, indices = _full(sp_mat)
    n_batch = sp_mat.n_batch
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    sparse = v.shape[n_batch : n_batch + sp_mat.n_sparse]
    v = jnp.broadcast_to(v, (*sp_mat.shape[:n_batch], *v.shape[n_batch:]))

    def one(d: Any, i: Any, w: Any) -> Any:
        columns = _columns(i)
        at = tuple(jnp.zeros_like(c) if n == 1 else c for c, n in zip(columns, sparse, strict=True))
        return d * (w.at[at].get(mode="fill", fill_value=0) if at else w[None])

    return _batched(one, n_batch)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product, element by element: stored where both are.

    `lhs`, `rhs`: BCOO arrays, as is the result. Raises NotImplementedError or ValueError for
    layouts and shapes that do not fit.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([1., 0., 3.]))
    >>> sparse.bcoo_multiply_sparse(m, m).todense()
    Array([1., 0., 9.], dtype=float32)
    """
    if lhs.shape != rhs.shape:
        raise NotImplementedError(f"product of sparse arrays of shapes {lhs.shape}, {rhs.shape}")
    a, b = bcoo_sum_duplicates(_all_sparse(lhs), _room(lhs)), _all_sparse(rhs)
    match = (a.indices[:, None, :] == b.indices[None, :, :]).all(-1)
    inside = (a.indices < jnp.array(a.shape, a.indices.dtype)).all(-1)
    other = jnp.where(match, b.data[None, :], 0).sum(1, dtype=b.data.dtype)
    data = jnp.where(inside, a.data * other, 0)
    return _make(data, a.indices, a.shape, a)


def _room(mat: BCOO) -> int:
    """As many places as are stored."""
    return _all_sparse(mat).nse


# --- products ---
def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a sparse with a dense array (dense result) or of two sparse ones (a
    sparse result). Axes are (batch, what is left of lhs, what is left of rhs).

    `dimension_numbers`: those of `lax.dot_general`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_dot_general(m, jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 5.], dtype=float32)
    """
    (lc, rc), (lb, rb) = dimension_numbers = numbers(dimension_numbers)
    left, right = isinstance(lhs, BCOO), isinstance(rhs, BCOO)
    for i, j in (*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)):
        if lhs.shape[i] != rhs.shape[j]:
            raise TypeError(
                f"bcoo_dot_general: axis {i} of shape {lhs.shape} and axis {j} of shape "
                f"{rhs.shape} differ"
            )
    wanted = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if left and right:
        return _product(lhs, rhs, dimension_numbers, wanted)
    if left:
        return _times_dense(lhs, rhs, dimension_numbers, wanted)
    if right:
        out = _times_dense(rhs, lhs, ((rc, lc), (rb, lb)), wanted)
        # The free axes of the sparse array came first.
        n_batch, n_sparse = len(lb), rhs.ndim - len(rb) - len(rc)
        last = tuple(range(n_batch, n_batch + n_sparse))
        first = tuple(range(n_batch + n_sparse, out.ndim))
        return out.transpose((*range(n_batch), *first, *last))
    return lax.dot_general(
        lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
    )


def _times_dense(sparse: BCOO, dense: Any, dimension_numbers: Any, wanted: Any) -> Any:
    return bcoo_dot_general_p.bind(
        *_parts(sparse),
        jnp.asarray(dense),
        dimension_numbers=dimension_numbers,
        preferred_element_type=wanted,
        lhs_spinfo=info(sparse),
    )


def _dense_dot(
    lhs_data: Any,
    lhs_indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    out = _dense_sums(_of_info(lhs_data, lhs_indices, lhs_spinfo), rhs, dimension_numbers)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _dense_sums(sparse: BCOO, dense: Any, dimension_numbers: Any) -> Any:
    """Each stored element times a slice of the dense array, added into the result."""
    (sc, dc), (sb, db) = dimension_numbers
    flat = _all_sparse(sparse)
    free = [d for d in range(flat.ndim) if d not in (*sc, *sb)]
    others = [d for d in range(dense.ndim) if d not in (*dc, *db)]
    dense = dense.transpose((*db, *dc, *others))
    columns = _columns(flat.indices)
    read = tuple(columns[d] for d in (*sb, *sc))
    terms = dense.at[read].get(mode="fill", fill_value=0) if read else dense[None]
    dtype = jnp.result_type(flat.data, dense)
    own = flat.data.astype(dtype).reshape((-1,) + (1,) * len(others))
    terms = own * terms.astype(dtype)
    write = tuple(columns[d] for d in (*sb, *free))
    shape = (*(flat.shape[d] for d in (*sb, *free)), *dense.shape[len(db) + len(dc) :])
    if not write:
        return terms.sum(0, dtype=dtype)
    return jnp.zeros(shape, dtype).at[write].add(terms, mode="drop")


bcoo_dot_general_p = composed(
    "bcoo_dot_general", _dense_dot, ("dimension_numbers", "preferred_element_type", "lhs_spinfo")
)


def _product(a: BCOO, b: BCOO, dimension_numbers: Any, wanted: Any) -> BCOO:
    (lc, rc), (lb, rb) = dimension_numbers
    free_a = [n for d, n in enumerate(a.shape) if d not in (*lc, *lb)]
    free_b = [n for d, n in enumerate(b.shape) if d not in (*rc, *rb)]
    shape = (*(a.shape[d] for d in lb), *free_a, *free_b)
    data, indices = bcoo_spdot_general_p.bind(
        *_parts(a),
        *_parts(b),
        lhs_spinfo=info(a),
        rhs_spinfo=info(b),
        dimension_numbers=dimension_numbers,
        preferred_element_type=wanted,
    )
    return _make(data, indices, shape)


def _sparse_dot(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
    dimension_numbers: Any,
    preferred_element_type: Any,
) -> tuple[Any, Any]:
    a, b = (
        _of_info(lhs_data, lhs_indices, lhs_spinfo),
        _of_info(rhs_data, rhs_indices, rhs_spinfo),
    )
    data, indices = _parts(_pairs(a, b, dimension_numbers))
    return data if preferred_element_type is None else data.astype(preferred_element_type), indices


bcoo_spdot_general_p = composed(
    "bcoo_spdot_general",
    _sparse_dot,
    ("lhs_spinfo", "rhs_spinfo", "dimension_numbers", "preferred_element_type"),
    multiple_results=True,
)


def _pairs(a: BCOO, b: BCOO, dimension_numbers: Any) -> BCOO:
    """Every pair of stored elements whose shared indices agree: nse of a times nse of b."""
    (lc, rc), (lb, rb) = dimension_numbers
    a, b = _all_sparse(a), _all_sparse(b)
    shared = tuple(zip((*lc, *lb), (*rc, *rb), strict=True))
    ok = jnp.ones((a.nse, b.nse), bool)
    for x, side in ((a, 0), (b, 1)):
        inside = (x.indices < jnp.array(x.shape, x.indices.dtype)).all(-1)
        ok &= inside[:, None] if side == 0 else inside[None, :]
    for i, j in shared:
        ok &= a.indices[:, None, i] == b.indices[None, :, j]
    free_a = [d for d in range(a.ndim) if d not in (*lc, *lb)]
    free_b = [d for d in range(b.ndim) if d not in (*rc, *rb)]
    shape = tuple(a.shape[d] for d in (*lb, *free_a)) + tuple(b.shape[d] for d in free_b)
    full = ok.shape
    columns = [jnp.broadcast_to(a.indices[:, None, d], full) for d in (*lb, *free_a)]
    columns += [jnp.broadcast_to(b.indices[None, :, d], full) for d in free_b]
    dtype = jnp.result_type(a.data, b.data)
    data = jnp.where(ok, a.data.astype(dtype)[:, None] * b.data.astype(dtype)[None, :], 0)
    if not columns:
        return _make(data.reshape(-1), jnp.zeros((data.size, 0), jnp.int32), shape)
    indices = jnp.where(ok[..., None], jnp.stack(columns, -1), jnp.array(shape, a.indices.dtype))
    return _fitting(_make(data.reshape(-1), indices.reshape(-1, len(shape)), shape))


def _to_front(x: Any, axes: Sequence[int]) -> Any:
    return x.transpose((*axes, *(d for d in range(x.ndim) if d not in axes)))


def _without(axes: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    """What axes are called once others are gone."""
    return tuple(d - sum(g < d for g in gone) for d in axes)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """The elements at `indices`, (*batch, nse, n), of the product of two dense arrays: only they
    are computed. Axes of a batch are the first ones of the product's.

    `dimension_numbers`: those of `lax.dot_general`.

    >>> from pullback.experimental import sparse
    >>> a = jnp.array([[1., 2.], [3., 4.]])
    >>> where = jnp.array([[0, 1], [1, 0]])
    >>> sparse.bcoo_dot_general_sampled(a, a, where, dimension_numbers=(((1,), (0,)), ((), ())))
    Array([10., 15.], dtype=float32)
    """
    A, B, indices = map(jnp.asarray, (A, B, indices))
    dimension_numbers = numbers(dimension_numbers)
    batched, given = indices.ndim - 2, len(dimension_numbers[1][0])
    if batched > given:
        raise ValueError(
            f"bcoo_dot_general_sampled: indices have {batched} batch axes, the product {given}"
        )
    return bcoo_dot_general_sampled_p.bind(A, B, indices, dimension_numbers=dimension_numbers)


def _sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    batched = indices.ndim - 2
    if batched:
        A, B = (_to_front(x, axes[:batched]) for x, axes in ((A, lb), (B, rb)))
        rest = tuple(
            tuple(_without(axes, gone[:batched]) for axes, gone in pair)
            for pair in (((lc, lb), (rc, rb)), ((lb[batched:], lb), (rb[batched:], rb)))
        )
        one = functools.partial(_sampled, dimension_numbers=rest)
        return _batched(one, batched)(A, B, indices)
    free_a = [d for d in range(A.ndim) if d not in (*lc, *lb)]
    free_b = [d for d in range(B.ndim) if d not in (*rc, *rb)]
    columns = _columns(indices)
    n_b, n_a = len(lb), len(free_a)
    at_a = columns[: n_b + n_a]
    at_b = (*columns[:n_b], *columns[n_b + n_a :])
    rows = A.transpose((*lb, *free_a, *lc)).at[at_a].get(mode="fill", fill_value=0)
    others = B.transpose((*rb, *free_b, *rc)).at[at_b].get(mode="fill", fill_value=0)
    return (rows * others).sum(axis=tuple(range(1, rows.ndim)))


bcoo_dot_general_sampled_p = composed("bcoo_dot_general_sampled", _sampled, ("dimension_numbers",))


def matmul(lhs: Any, rhs: Any) -> Any:
    """lhs @ rhs, with the axes of `jnp.matmul`."""
    if isinstance(rhs, JAXSparse) and not isinstance(rhs, BCOO):
        raise NotImplementedError("matmul of a BCOO and another format. Fix: use BCOO.")
    lhs = lhs if isinstance(lhs, BCOO) else jnp.asarray(lhs)
    rhs = rhs if isinstance(rhs, BCOO) else jnp.asarray(rhs)
    if not lhs.ndim or not rhs.ndim:
        raise ValueError("matmul input operand has no axes; use * for products with numbers")
    rc = max(rhs.ndim - 2, 0)
    n_l, n_r = max(lhs.ndim - 2, 0), max(rhs.ndim - 2, 0)
    if lhs.shape[-1] != rhs.shape[rc]:
        raise TypeError(f"matmul: shapes {lhs.shape} and {rhs.shape} do not fit")
    if n_l and n_r:
        if lhs.shape[:-2] != rhs.shape[:-2]:
            raise NotImplementedError(
                f"matmul of sparse arrays with batch axes {lhs.shape[:-2]} and {rhs.shape[:-2]}"
            )
        batch = tuple(range(n_l))
    else:
        batch = ()
    numbers = (((lhs.ndim - 1,), (rc,)), (batch, batch))
    dtype = jnp.result_type(lhs.dtype, rhs.dtype)
    out = bcoo_dot_general(lhs, rhs, dimension_numbers=numbers, preferred_element_type=dtype)
    if batch or not n_r:
        return out
    # The batch axes of rhs, which came after lhs's, go first.
    own = lhs.ndim - 1
    order = (*range(own, own + n_r), *range(own), *range(own + n_r, out.ndim))
    return out.transpose(order)
