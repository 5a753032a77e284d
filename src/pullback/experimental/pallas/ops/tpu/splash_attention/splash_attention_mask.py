"""Masks of attention: which keys a query sees, as formulas of both positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BoolArray = np.ndarray[Any, Any]


class Mask:
    """Which of the keys (the columns) a query (a row) sees; `mask[rows, columns]` is a bool array.

    Subclasses have `shape`, (queries, keys), and `_allowed(q, k)` of positions that broadcast.
    """

    shape: tuple[int, ...]

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        raise NotImplementedError(f"{type(self).__name__} does not say which keys a query sees")

    def _data(self) -> tuple[Any, ...]:
        """What tells it from other masks of its class."""
        return (self.shape,)

    def __getitem__(self, idx: Any) -> BoolArray:
        if not (isinstance(idx, tuple) and len(idx) == len(self.shape)):
            raise NotImplementedError(f"Unsupported slice: {idx}. Fix: give a slice for each axis.")
        rows, columns = (np.arange(n)[i] for n, i in zip(self.shape, idx, strict=True))
        seen = self._allowed(rows[..., None], columns)
        return np.broadcast_to(seen, (*rows.shape, *columns.shape))

    def __and__(self, other: Mask) -> LogicalAnd:
        return LogicalAnd(self, other)

    def __or__(self, other: Mask) -> LogicalOr:
        return LogicalOr(self, other)

    def __bool__(self) -> bool:
        raise NotImplementedError(
            "Conversion to bool is unsupported. Fix: combine masks with & and |, not `and`, `or`."
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._data() == other._data()

    def __hash__(self) -> int:
        return hash((type(self), self._data()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._data()}"


class FullMask(Mask):
    """Every query sees every key."""

    def __init__(self, _shape: tuple[int, int]) -> None:
        self.shape = tuple(_shape)

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        return np.ones(np.broadcast_shapes(q.shape, k.shape), bool)


class CausalMask(Mask):
    """A query sees the keys up to its own place, which is `offset` further on among the keys."""

    def __init__(self, shape: tuple[int, int], offset: int = 0, shard_count: int = 1) -> None:
        self.shape, self.offset = tuple(shape), offset
        _check_shards(shape, shard_count)

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        return q + self.offset >= k

    def _data(self) -> tuple[Any, ...]:
        return self.shape, self.offset


class LocalMask(Mask):
    """A query sees so many keys before and after its place; None is no limit."""

    def __init__(
        self,
        shape: tuple[int, int],
        window_size: tuple[int | None, int | None],
        offset: int,
        shard_count: int = 1,
    ) -> None:
        self.shape, self.window_size, self.offset = tuple(shape), window_size, offset
        _check_shards(shape, shard_count)

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        before, after = self.window_size
        place = q + self.offset
        seen: Any = np.ones(np.broadcast_shapes(q.shape, k.shape), bool)
        if before is not None:
            seen = seen & (k >= place - before)
        if after is not None:
            seen = seen & (k <= place + after)
        return seen  # type: ignore[no-any-return]

    def _data(self) -> tuple[Any, ...]:
        return self.shape, self.window_size, self.offset


class ChunkedCausalMask(Mask):
    """A query sees the keys up to its own place in its own chunk of the sequence."""

    def __init__(self, shape: tuple[int, int], chunk_size: int, shard_count: int = 1) -> None:
        if chunk_size <= 0:
            raise ValueError("chunk_size must be positive")
        self.shape, self.chunk_size = tuple(shape), chunk_size
        _check_shards(shape, shard_count)

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        seen: BoolArray = (q // self.chunk_size == k // self.chunk_size) & (q >= k)
        return seen

    def _data(self) -> tuple[Any, ...]:
        return self.shape, self.chunk_size


class NumpyMask(Mask):
    """A mask that an array says."""

    def __init__(self, array: BoolArray) -> None:
        if array.ndim != 2:
            raise ValueError(f"Expected a 2-dim array, got {array.ndim}-dim one.")
        if array.dtype != np.bool_:
            raise ValueError("Mask must be a boolean array. Fix: array.astype(bool).")
        self.array = array
        self.shape = array.shape

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        seen: BoolArray = np.asarray(self.array)[q, k]
        return seen

    def _data(self) -> tuple[Any, ...]:
        return self.shape, np.asarray(self.array).tobytes()

    def __repr__(self) -> str:
        return f"NumpyMask(array={self.array!r})"


class _Both(Mask):
    def __init__(self, left: Mask, right: Mask) -> None:
        if left.shape != right.shape:
            raise ValueError("Masks must have the same shape")
        self.left, self.right, self.shape = left, right, left.shape

    def _data(self) -> tuple[Any, ...]:
        return self.left, self.right


class LogicalAnd(_Both):
    """What both masks let through."""

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        return self.left._allowed(q, k) & self.right._allowed(q, k)


class LogicalOr(_Both):
    """What either mask lets through."""

    def _allowed(self, q: BoolArray, k: BoolArray) -> BoolArray:
        return self.left._allowed(q, k) | self.right._allowed(q, k)


class MultiHeadMask(Mask):
    """A mask for each head, all of one shape; indexed by head, query and key."""

    def __init__(self, masks: Sequence[Mask]) -> None:
        if not masks:
            raise ValueError("Unsupported empty tuple of masks")
        if any(m.shape != masks[0].shape for m in masks):
            raise ValueError("Unexpected mask shape: all masks must have the same shape")
        self.masks = tuple(masks)
        self.shape = (len(self.masks), *self.masks[0].shape)

    def __getitem__(self, idx: Any) -> BoolArray:
        if not (isinstance(idx, tuple) and len(idx) == 3):
            raise NotImplementedError(f"Unsupported slice: {idx}. Fix: give head, query and key.")
        head, *rest = idx
        if isinstance(head, slice):
            return np.stack([m[tuple(rest)] for m in self.masks[head]])
        return self.masks[head][tuple(rest)]

    def _data(self) -> tuple[Any, ...]:
        return self.masks


def _check_shards(shape: tuple[int, int], shard_count: int) -> None:
    if shape[0] % (shard_count * shard_count):
        raise ValueError(
            f"shard_count must divide q_seq_len into equal blocks twice over; got "
            f"shard_count={shard_count} and shape={tuple(shape)}"
        )


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> BoolArray:
    """A CausalMask as an array."""
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(
    shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
) -> BoolArray:
    """A LocalMask as an array."""
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> BoolArray:
    """A ChunkedCausalMask as an array."""
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> BoolArray:
    """An array that lets through each pair with the probability 1 - sparsity."""
    draws = np.random.RandomState(seed)
    return draws.binomial(n=1, p=1.0 - sparsity, size=shape).astype(np.bool_)
