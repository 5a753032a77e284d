"""Sparse and dense values as numbers of buffers: what rules of `sparsify` that users add are called
with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ... import numpy as jnp, tree
from ...core.avals import typeof
from .base import is_sparse
from .bcoo import BCOO
from .bcsr import BCSR


class SparsifyValue(NamedTuple):
    """A dense or sparse array whose parts are buffers of a SparsifyEnv, by their numbers.

    A dense one has data only, a BCOO array indices, too, and a BCSR array also indptr.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> env.dense(jnp.ones(3)).is_dense()
    True
    """

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    def is_sparse(self) -> bool:
        """Has it indices?"""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Has it data only?"""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """Has it indices of every axis?"""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """Has it rows by pointers?"""
        return self.is_sparse() and self.indptr_ref is not None


def is_spvalue(x: Any) -> bool:
    """Is it a SparsifyValue?"""
    return isinstance(x, SparsifyValue)


class SparsifyEnv:
    """The buffers that SparsifyValues share.

    `bufs`: arrays; `dense` and `sparse` add more. Raises RuntimeError for parts that a value lacks.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> value = env.dense(jnp.ones(3))
    >>> value.data_ref, env.data(value)
    (0, Array([1., 1., 1.], dtype=float32))
    """

    def __init__(self, bufs: Iterable[Any] = ()) -> None:
        self._buffers = list(bufs)

    def _push(self, arr: Any) -> int:
        self._buffers.append(jnp.asarray(arr))
        return len(self._buffers) - 1

    def _at(self, ref: int | None, part: str) -> Any:
        if ref is None:
            raise RuntimeError(f"SparsifyEnv: a value with {part}_ref=None has no {part}")
        return self._buffers[ref]

    def data(self, spvalue: SparsifyValue) -> Any:
        """Its elements."""
        return self._at(spvalue.data_ref, "data")

    def indices(self, spvalue: SparsifyValue) -> Any:
        """Their places."""
        return self._at(spvalue.indices_ref, "indices")

    def indptr(self, spvalue: SparsifyValue) -> Any:
        """Where its rows begin and end."""
        return self._at(spvalue.indptr_ref, "indptr")

    def dense(self, data: Any) -> SparsifyValue:
        """A dense value."""
        return SparsifyValue(jnp.shape(data), self._push(data))

    def sparse(
        self,
        shape: Sequence[int],
        data: Any = None,
        indices: Any = None,
        indptr: Any = None,
        *,
        data_ref: int | None = None,
        indices_ref: int | None = None,
        indptr_ref: int | None = None,
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> SparsifyValue:
        """A sparse value of arrays, or of the numbers of buffers that are there."""
        given = {"data": (data, data_ref), "indices": (indices, indices_ref)}
        for part, (array, ref) in given.items():
            if (array is None) == (ref is None):
                raise ValueError(f"SparsifyEnv.sparse: give either {part} or {part}_ref")
        if indptr is not None and indptr_ref is not None:
            raise ValueError("SparsifyEnv.sparse: give either indptr or indptr_ref")
        data_ref = self._push(data) if data_ref is None else data_ref
        indices_ref = self._push(indices) if indices_ref is None else indices_ref
        indptr_ref = indptr_ref if indptr is None else self._push(indptr)
        return SparsifyValue(
            tuple(shape), data_ref, indices_ref, indptr_ref, indices_sorted, unique_indices
        )


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """The arrays of a pytree, BCOO, BCSR and dense ones, as SparsifyValues.

    `spenv`: gets their buffers. Raises NotImplementedError for other formats.

    >>> from pullback.experimental.sparse import transform
    >>> transform.arrays_to_spvalues(transform.SparsifyEnv(), jnp.ones(3)).shape
    (3,)
    """

    def value(x: Any) -> SparsifyValue:
        if not is_sparse(x):
            return spenv.dense(x)
        if not isinstance(x, BCOO | BCSR):
            raise NotImplementedError(
                f"sparsify: no rules for {type(x).__name__} arrays. Fix: use BCOO or BCSR."
            )
        return spenv.sparse(x.shape, *x._bufs, **_flags(x))

    return tree.map(value, args, is_leaf=is_sparse)


def _flags(x: Any) -> dict[str, bool]:
    return {"indices_sorted": x.indices_sorted, "unique_indices": x.unique_indices}


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """The SparsifyValues of a pytree as arrays.

    `spenv`: has their buffers. Raises RuntimeError if a part of one is not there.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> transform.spvalues_to_arrays(env, [env.dense(jnp.ones(2))])
    [Array([1., 1.], dtype=float32)]
    """

    def array(v: SparsifyValue) -> Any:
        if v.is_dense():
            return spenv.data(v)
        parts = (spenv.data(v), spenv.indices(v))
        flags = {name: bool(getattr(v, name)) for name in ("indices_sorted", "unique_indices")}
        if v.is_bcsr():
            return BCSR((*parts, spenv.indptr(v)), shape=v.shape, **flags)
        return BCOO(parts, shape=v.shape, **flags)

    return tree.map(array, spvalues, is_leaf=is_spvalue)


def spvalues_to_avals(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """The types of the dense arrays that the SparsifyValues of a pytree stand for.

    `spenv`: has their buffers. Raises RuntimeError if a part of one is not there.

    >>> from pullback.experimental.sparse import transform
    >>> env = transform.SparsifyEnv()
    >>> transform.spvalues_to_avals(env, env.dense(jnp.ones(2)))
    ShapedArray(float32[2])
    """

    def aval(v: SparsifyValue) -> Any:
        data = typeof(spenv.data(v))
        return data if v.is_dense() else data.update(shape=tuple(v.shape))

    return tree.map(aval, spvalues, is_leaf=is_spvalue)
