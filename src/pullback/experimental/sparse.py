"""Sparse arrays as lists of coordinates: `BCOO`.

A BCOO is a pytree of its stored elements and their indices, so that jit, grad and vmap take it as
an argument. Indices beyond the shape are padding, which counts as nothing; elements stored twice
add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import numpy as jnp
from .. import tree
from ..core.trace import Tracer

__all__ = ["BCOO", "JAXSparse", "bcoo_fromdense", "bcoo_todense", "empty", "eye"]


class JAXSparse:
    """The base of sparse arrays: a shape, and what follows from it."""

    # NumPy leaves operators to us.
    __array_priority__ = 100
    shape: tuple[int, ...]
    data: Any

    size = property(lambda self: math.prod(self.shape))
    ndim = property(lambda self: len(self.shape))
    dtype = property(lambda self: self.data.dtype)
    T = property(lambda self: self.transpose())

    def __len__(self) -> int:
        return self.shape[0]

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        raise TypeError(f"{type(self).__name__} must define transpose")


class BCOO(JAXSparse):
    """A sparse array: `data[k]` stands at `indices[k]`, of an array of the given shape.

    Trailing axes of `data` are dense axes: `shape` is that of the coordinates, then of those axes.

    >>> m = BCOO.fromdense(jnp.eye(3)); m
    BCOO(float32[3, 3], nse=3)
    >>> m @ jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)

    Raises ValueError if data, indices and shape do not fit.
    """

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(jnp.asarray, args)
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        if self.indices.ndim != 2 or self.data.ndim != len(self.shape) - self.n_sparse + 1:
            raise ValueError(
                f"invalid BCOO: data of shape {self.data.shape}, indices of shape "
                f"{self.indices.shape}, array of shape {self.shape}. Fix: indices are (stored, "
                "coordinates), data is (stored, *dense axes); for batches, vmap over BCOOs."
            )

    nse = property(lambda self: self.indices.shape[0])
    n_batch = 0
    n_sparse = property(lambda self: self.indices.shape[1])
    n_dense = property(lambda self: self.data.ndim - 1)

    def __repr__(self) -> str:
        dtype = getattr(self.data.dtype, "name", self.data.dtype)
        return f"BCOO({dtype}{list(self.shape)}, nse={self.nse})"

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
        """The stored form of an array. Under jit `nse`, how many elements to store, must be
        given.
        """
        mat = jnp.asarray(mat)
        if n_batch:
            raise ValueError("BCOO.fromdense: n_batch must be 0. Fix: vmap(BCOO.fromdense)(mat).")
        if not 0 <= n_dense <= mat.ndim:
            raise ValueError(f"n_dense={n_dense} is not between 0 and the rank {mat.ndim}")
        mask = mat != 0
        if n_dense:
            mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
        if nse is None:
            if isinstance(mat, Tracer):
                raise ValueError("BCOO.fromdense under jit needs nse, the number of elements.")
            nse = int(mask.sum())
        if not mask.ndim:
            found = jnp.zeros((nse, 0), index_dtype)
            return cls((jnp.broadcast_to(mat, (nse, *mat.shape)), found), shape=mat.shape)
        places = jnp.nonzero(mask, size=nse, fill_value=mask.shape)
        indices = jnp.stack(places, 1).astype(index_dtype)
        data = mat.at[places].get(mode="fill", fill_value=0)
        return cls((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A SciPy sparse matrix, as a BCOO."""
        if n_dense or n_batch:
            raise ValueError("BCOO.from_scipy_sparse: n_dense and n_batch must be 0")
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], 1).astype(index_dtype or np.int32)
        return cls((coo.data, indices), shape=mat.shape)

    def _places(self) -> tuple[Any, ...]:
        return tuple(self.indices[:, k] for k in range(self.n_sparse))

    def todense(self) -> Any:
        """The array."""
        zeros = jnp.zeros(self.shape, self.data.dtype)
        if self.data.dtype == np.dtype(bool):
            return zeros.at[self._places()].max(self.data, mode="drop")
        if not self.n_sparse:
            return self.data.sum(0)
        return zeros.at[self._places()].add(self.data, mode="drop")

    def _with(self, data: Any) -> BCOO:
        return BCOO(
            (data, self.indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def astype(self, dtype: Any) -> BCOO:
        return self._with(self.data.astype(dtype))

    def block_until_ready(self) -> BCOO:
        self.data.block_until_ready()
        return self

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes in another order; coordinates stay before dense axes."""
        order = tuple(axes) if axes is not None else tuple(reversed(range(self.ndim)))
        n = self.n_sparse
        if sorted(order) != list(range(self.ndim)) or any(a >= n for a in order[:n]):
            raise ValueError(
                f"transpose of a BCOO with {n} coordinates and {self.n_dense} dense axes: {order} "
                "mixes them"
            )
        dense = [0, *(a - n + 1 for a in order[n:])]
        data = jnp.transpose(self.data, dense)
        indices = self.indices[:, np.array(order[:n], int)] if n else self.indices
        return BCOO(
            (data, indices),
            shape=[self.shape[a] for a in order],
            unique_indices=self.unique_indices,
        )

    def _flat(self) -> Any:
        """One position for each stored element; beyond the end for padding."""
        sizes = self.shape[: self.n_sparse]
        total = math.prod(sizes)
        position = jnp.zeros(self.nse, np.int32)
        inside = jnp.ones(self.nse, bool)
        for k, n in enumerate(sizes):
            position = position * n + self.indices[:, k]
            inside = inside & (self.indices[:, k] < n)
        return jnp.where(inside, position, total)

    @staticmethod
    def _unflat(position: Any, sizes: Sequence[int]) -> Any:
        columns, rest = [], position
        for n in reversed(sizes[1:]):
            columns.append(rest % max(n, 1))
            rest = rest // max(n, 1)
        return jnp.stack([rest, *reversed(columns)], 1).astype(np.int32)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with each position stored once. Under jit `nse` must be given."""
        sizes = self.shape[: self.n_sparse]
        total = math.prod(sizes)
        flat = self._flat()
        if nse is None and isinstance(flat, Tracer):
            raise ValueError("BCOO.sum_duplicates under jit needs nse.")
        found = jnp.unique(flat, size=nse, fill_value=total)
        if nse is None:
            found = found[found < total]
        to = jnp.searchsorted(found, flat)
        data = jnp.zeros((found.shape[0], *self.data.shape[1:]), self.data.dtype)
        kept = jnp.where(flat < total, to, found.shape[0])
        data = data.at[kept].add(self.data, mode="drop")
        return BCOO(
            (data, self._unflat(found, sizes)),
            shape=self.shape,
            indices_sorted=True,
            unique_indices=True,
        )

    def sort_indices(self) -> BCOO:
        """The same array, stored in the order of its indices."""
        order = jnp.argsort(self._flat())
        return BCOO(
            (self.data[order], self.indices[order]),
            shape=self.shape,
            indices_sorted=True,
            unique_indices=self.unique_indices,
        )

    def reshape(self, *args: Any, **kwargs: Any) -> BCOO:
        """The array in another shape; dense axes must stay."""
        shape = tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args
        dense = self.shape[self.n_sparse :]
        known = math.prod(n for n in shape if n != -1)
        shape = tuple(self.size // known if n == -1 else n for n in shape)
        if math.prod(shape) != self.size or shape[len(shape) - len(dense) :] != dense:
            raise ValueError(f"cannot reshape a BCOO of shape {self.shape} into {shape}")
        sizes = shape[: len(shape) - len(dense)]
        return BCOO((self.data, self._unflat(self._flat(), sizes)), shape=shape)

    def sum(self, axis: Any = None) -> Any:
        """The sum over axes of coordinates; over all of them, an array."""
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        gone = {a % self.ndim for a in axes}
        if any(a >= self.n_sparse for a in gone) and len(gone) < self.ndim:
            raise ValueError("sum of a BCOO over dense axes alone. Fix: m.todense().sum(axis).")
        if len(gone) == self.ndim:
            inside = self._flat() < math.prod(self.shape[: self.n_sparse])
            mask = inside.reshape(-1, *([1] * self.n_dense))
            return jnp.where(mask, self.data, 0).sum()
        kept = [a for a in range(self.ndim) if a not in gone]
        columns = np.array([a for a in kept if a < self.n_sparse], int)
        inside = (self._flat() < math.prod(self.shape[: self.n_sparse]))[:, None]
        ends = np.array([self.shape[a] for a in columns], np.int32)
        indices = jnp.where(inside, self.indices[:, columns], ends)
        return BCOO((self.data, indices), shape=[self.shape[a] for a in kept])

    # --- operators ---
    def __neg__(self) -> BCOO:
        return self._with(-self.data)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            other = other.todense()
        other = jnp.asarray(other)
        if not other.ndim:
            return self._with(self.data * other)
        if self.n_dense:
            raise TypeError("BCOO * array with dense axes. Fix: multiply m.data, or m.todense().")
        whole = jnp.broadcast_to(other, self.shape)
        part = whole.at[self._places()].get(mode="fill", fill_value=0)
        return self._with(self.data * part)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> BCOO:
        return self._with(self.data / jnp.asarray(other)) if not np.ndim(other) else NotImplemented

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, BCOO):
            raise TypeError("BCOO + array. Fix: m.todense() + array.")
        if self.shape != other.shape or self.n_sparse != other.n_sparse:
            raise ValueError(f"adding BCOOs of shapes {self.shape} and {other.shape}")
        data = jnp.concatenate([self.data, other.data])
        return BCOO((data, jnp.concatenate([self.indices, other.indices])), shape=self.shape)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def tree_flatten(self) -> Any:
        aux = {
            "shape": self.shape,
            "indices_sorted": self.indices_sorted,
            "unique_indices": self.unique_indices,
        }
        return (self.data, self.indices), tuple(aux.items())

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> BCOO:
        self = object.__new__(cls)
        self.data, self.indices = children
        self.__dict__.update(aux)
        return self


tree.register_pytree_node(BCOO, BCOO.tree_flatten, BCOO.tree_unflatten)


def matmul(lhs: Any, rhs: Any) -> Any:
    """The product of matrices or vectors one or both of which are BCOOs."""
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(lhs, rhs)
    if isinstance(rhs, BCOO):
        lhs = jnp.asarray(lhs)
        _check_product(lhs.shape, rhs)
        if rhs.ndim == 1:
            return _sparse_dense(rhs, jnp.moveaxis(lhs, -1, 0))
        out = _sparse_dense(rhs.transpose(), jnp.moveaxis(lhs, -1, 0))
        return jnp.moveaxis(out, 0, -1)
    rhs = jnp.asarray(rhs)
    if lhs.n_dense or lhs.ndim > 2 or rhs.ndim > 2 or lhs.shape[-1] != rhs.shape[0]:
        raise ValueError(f"matmul of a BCOO of shape {lhs.shape} and an array of {rhs.shape}")
    return _sparse_dense(lhs, rhs)


def _check_product(shape: Any, m: BCOO) -> None:
    if m.n_dense or m.ndim > 2 or not shape or shape[-1] != m.shape[0]:
        raise ValueError(f"matmul of an array of shape {shape} and a BCOO of shape {m.shape}")


def _sparse_dense(m: BCOO, x: Any) -> Any:
    """m @ x, where x has the contracted axis first and any others."""
    inner = m.indices[:, -1]
    rows = x.at[inner].get(mode="fill", fill_value=0)
    terms = m.data.reshape(-1, *([1] * (x.ndim - 1))) * rows
    if m.ndim == 1:
        return terms.sum(0)
    zeros = jnp.zeros((m.shape[0], *x.shape[1:]), terms.dtype)
    return zeros.at[m.indices[:, 0]].add(terms, mode="drop")


def _sparse_sparse(a: BCOO, b: BCOO) -> Any:
    """Each pair of stored elements that meet; the others are padding."""
    if a.n_dense or b.n_dense or a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul of BCOOs of shapes {a.shape} and {b.shape}")
    meet = a.indices[:, 1][:, None] == b.indices[:, 0][None]
    meet = meet & (a.indices[:, 1] < a.shape[1])[:, None]
    data = jnp.where(meet, a.data[:, None] * b.data[None], 0).ravel()
    rows = jnp.where(meet, a.indices[:, 0][:, None], a.shape[0]).ravel()
    columns = jnp.where(meet, b.indices[:, 1][None], b.shape[1]).ravel()
    return BCOO((data, jnp.stack([rows, columns], 1)), shape=(a.shape[0], b.shape[1]))


def bcoo_fromdense(mat: Any, **options: Any) -> BCOO:
    """`BCOO.fromdense`."""
    return BCOO.fromdense(mat, **options)


def bcoo_todense(mat: BCOO) -> Any:
    """`mat.todense()`."""
    return mat.todense()


def empty(shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32") -> BCOO:
    """An array of zeros, nothing of it stored."""
    data = jnp.zeros(0, dtype or np.float32)
    return BCOO((data, jnp.zeros((0, len(shape)), index_dtype)), shape=shape)


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> BCOO:
    """Ones on the k-th diagonal of an n by m matrix."""
    m = n if m is None else m
    rows = np.arange(max(0, -k), max(0, -k, min(n, m - k)))
    data = jnp.ones(len(rows), dtype or np.float32)
    return BCOO((data, np.stack([rows, rows + k], 1).astype(np.int32)), shape=(n, m))
