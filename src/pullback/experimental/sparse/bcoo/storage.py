"""What a BCOO array is made of, how it is made, and the steps that its operations share.

`data` has the shape (*batch, nse, *dense), `indices` (*batch, nse, n_sparse). The shape of the
array is (*batch, *sparse, *dense). Indices beyond the shape are padding, which counts as nothing;
elements stored twice add up. The class BCOO itself, whose operators are made of the operations,
stands above them; they make its arrays by `make`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from .... import dtypes, lax, numpy as jnp
from ....api.vmap import vmap
from ....numpy.util import promotes_freely
from ..base import FORMATS, JAXSparse
from ..composed import SparseInfo

if TYPE_CHECKING:
    from .array import BCOO


class Stored(JAXSparse):
    """Elements and their indices: a BCOO array without its operations."""

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
        _validate_bcoo(self.data, self.indices, self.shape)

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

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return self.data, self.indices

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(tuple(self.shape), self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._bufs, self._info._asdict()

    def _repr_extra(self) -> str:
        parts = [f"{n}={getattr(self, n)}" for n in ("n_batch", "n_dense") if getattr(self, n)]
        return "".join(f", {p}" for p in parts)

    def _with_data(self, data: Any) -> BCOO:
        return make(data, self.indices, self.shape, cast("BCOO", self))


class Buffer(Protocol):
    """What is taken for a part of a sparse array: anything that has a shape and a dtype.

    >>> from pullback.experimental.sparse import bcoo
    >>> def size(part: bcoo.Buffer) -> int:
    ...     return math.prod(part.shape)
    >>> size(jnp.ones((2, 3)))
    6
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """How long each axis is."""

    @property
    def dtype(self) -> Any:
        """The type of an element."""


class BCOOProperties(NamedTuple):
    """How many axes of each kind a BCOO array has, and how many elements it stores.

    >>> from pullback.experimental.sparse import bcoo
    >>> bcoo.BCOOProperties(n_batch=0, n_sparse=2, n_dense=0, nse=3).nse
    3
    """

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def _validate_bcoo(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """What the parts make of an array of this shape. Raises ValueError if they do not fit."""
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
    batch, _, dense = split(shape, n_batch, n_sparse)
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
    return BCOOProperties(n_batch, n_sparse, n_dense, indices.shape[-2])


def is_bcoo(x: Any) -> bool:
    """Is it a BCOO array?"""
    return isinstance(x, Stored)


def split(shape: Sequence[Any], n_batch: int, n_sparse: int) -> tuple[Any, Any, Any]:
    """What belongs to the batch, sparse and dense axes."""
    end = n_batch + n_sparse
    return tuple(shape[:n_batch]), tuple(shape[n_batch:end]), tuple(shape[end:])


def sizes_of(mat: BCOO) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Sizes of the batch, sparse and dense axes."""
    return split(mat.shape, mat.n_batch, mat.n_sparse)


def make(data: Any, indices: Any, shape: Any, like: BCOO | None = None) -> BCOO:
    """The array of its parts, unchecked; what is known of the indices is what is of `like`'s."""
    out: BCOO = object.__new__(cast("type[BCOO]", FORMATS["BCOO"]))
    out.data, out.indices, out.shape = data, indices, tuple(shape)
    out.indices_sorted = like.indices_sorted if like is not None else False
    out.unique_indices = like.unique_indices if like is not None else False
    return out


def of_info(data: Any, indices: Any, spinfo: SparseInfo) -> BCOO:
    """The array of a primitive's operands."""
    out = make(data, indices, spinfo.shape)
    out.indices_sorted, out.unique_indices = spinfo.indices_sorted, spinfo.unique_indices
    return out


def parts(mat: BCOO) -> tuple[Any, Any]:
    """(data, indices): the operands of primitives."""
    return mat.data, mat.indices


def batched(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """f, mapped n times."""
    for _ in range(n):
        f = vmap(f)
    return f


def full(mat: BCOO) -> tuple[Any, Any]:
    """(data, indices) with every batch axis at its full size."""
    n = mat.n_batch
    batch = mat.shape[:n]
    data = jnp.broadcast_to(mat.data, (*batch, mat.nse, *mat.data.shape[n + 1 :]))
    return data, jnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[n:]))


def columns_of(indices: Any) -> tuple[Any, ...]:
    """The indices along each sparse axis."""
    return tuple(indices[..., k] for k in range(indices.shape[-1]))


def stacked(columns: Sequence[Any], like: Any, shape: Sequence[int]) -> Any:
    """Indices of their columns, each of this shape: of the dtype of the indices `like`."""
    if not columns:
        return jnp.zeros((*shape, 0), like.dtype)
    return jnp.stack([jnp.broadcast_to(c, tuple(shape)).astype(like.dtype) for c in columns], -1)


@promotes_freely
def inside(mat: BCOO, indices: Any) -> Any:
    """Which of the indices are places of the array, (*batch, nse); the others are padding."""
    _, sparse, _ = sizes_of(mat)
    return (indices < jnp.array(sparse, indices.dtype)).all(-1)


def beside(mask: Any, data: Any) -> Any:
    """A mask of elements, (*batch, nse), with axes of size 1 for the dense axes of data."""
    return mask.reshape(mask.shape + (1,) * (data.ndim - mask.ndim))


def kept(ok: Any, data: Any, indices: Any, sparse: Sequence[int]) -> tuple[Any, Any]:
    """(data, indices), where not ok zeros and padding."""
    pad = jnp.array(tuple(sparse), indices.dtype)
    return jnp.where(beside(ok, data), data, 0), jnp.where(ok[..., None], indices, pad)


def addable(data: Any) -> Any:
    """Elements that are stored: integers for bools, since those of one place add up."""
    return jnp.where(data, data, 0) if data.dtype == bool else data


def scattered(shape: Sequence[int], at: Sequence[Any], values: Any, in_order: bool = False) -> Any:
    """Zeros of this shape, to which values are added at places; those outside of it are dropped.
    `in_order`: the places follow each other.
    """
    zeros = jnp.zeros(tuple(shape), values.dtype)
    if 0 in zeros.shape:
        return zeros
    return zeros.at[tuple(at)].add(values, mode="drop", indices_are_sorted=in_order)


def all_sparse(mat: BCOO) -> BCOO:
    """The same array with sparse axes only."""
    n_batch, n_dense = mat.n_batch, mat.n_dense
    if not n_batch and not n_dense:
        return mat
    data, indices = full(mat)
    batch, _, dense = sizes_of(mat)
    shape = (*batch, mat.nse, *dense)
    dtype = indices.dtype
    columns = [lax.broadcasted_iota(dtype, shape, k) for k in range(n_batch)]
    spread = [c.reshape((*batch, mat.nse) + (1,) * n_dense) for c in columns_of(indices)]
    # Padding stays padding: a first sparse index beyond the shape.
    columns += [jnp.broadcast_to(c, shape) for c in spread]
    columns += [lax.broadcasted_iota(dtype, shape, n_batch + 1 + k) for k in range(n_dense)]
    flat = jnp.stack([c.reshape(-1) for c in columns], -1)
    return make(data.reshape(-1), flat, mat.shape)


def places(mat: BCOO) -> int:
    """How many places the sparse axes have."""
    return math.prod(sizes_of(mat)[1])
