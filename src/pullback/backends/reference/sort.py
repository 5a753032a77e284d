"""Sorting in NumPy.

NumPy's sort of plain numbers runs in vectors; its stable orders do not, and are ten times slower.
So a stable order is made of plain sorts: a key of up to 32 bits and the element's number go into
one word of 64, and these words are sorted. Longer keys are cut into words; those after the first
decide among elements whose first words are equal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...primitives import sort
from .table import is_narrow, rule, widened

Words = list[np.ndarray[Any, Any]]
_LITTLE = sys.byteorder == "little"
SHORT = 32  # rows up to here: NumPy's own stable order has less to prepare


def _total_order(x: Any) -> Any:
    """Integers that order floats by their bits: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    if is_narrow(x.dtype):
        x = x.astype(np.float32)
    if x.dtype.kind != "f":
        return widened(x)
    return _signed_bits(x)


def _signed_bits(x: Any) -> Any:
    kind = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(kind)
    flip = bits >> np.array(8 * kind.itemsize - 1, kind)
    flip &= np.iinfo(kind).max
    flip ^= bits
    return flip


def _ordered(x: Any) -> Any:
    """Integers in the order of a sort: 0.0 and -0.0 are equal, and so are all NaNs, the largest."""
    if x.dtype.kind != "f":
        return x
    bits = _signed_bits(x + x.dtype.type(0))
    bad = np.isnan(x)
    if bad.any():
        bits[bad] = np.iinfo(bits.dtype).max
    return bits


def _words(x: Any) -> Words:
    """Integers cut into signed words of 32 bits, the most significant first."""
    if x.dtype.itemsize <= 4:
        return [x]
    low = x & np.array(0xFFFFFFFF, x.dtype)
    return [x >> np.array(32, x.dtype), low.astype(np.int64) - (1 << 31)]


def _pack(word: Any, count: int) -> Any:
    """(word << 32) | place along the last axis."""
    if not _LITTLE:
        return (word.astype(np.int64) << 32) | np.arange(count)
    halves = np.empty((*word.shape, 2), np.int32)
    halves[..., 0] = np.arange(count, dtype=np.int32)
    halves[..., 1] = word
    return halves.view(np.int64)[..., 0]


def _ranked(word: Any) -> Any:
    """A word as an int that fits the upper half of an i64."""
    if word.dtype.kind == "u" and word.dtype.itemsize >= 4:
        return word.astype(np.int64) - (1 << 31)
    return word


def _order_of(word: Any) -> tuple[Any, Any]:
    """The stable order along the last axis by one word, and the words in that order."""
    packed = _pack(_ranked(word), word.shape[-1])
    packed.sort(axis=-1)
    order = packed & 0xFFFFFFFF
    packed >>= 32
    return order, packed


def stable_order(words: Words) -> Any:
    """The order along the last axis that sorts by the first word, then the second, ..., then by
    place."""
    order, ranks = _order_of(words[0])
    for word in words[1:]:
        new = np.ones(order.shape, bool)
        np.not_equal(ranks[..., 1:], ranks[..., :-1], out=new[..., 1:])
        if new.all():
            break
        groups = np.cumsum(new.ravel())
        lone = new.ravel()
        lone = lone & np.append(lone[1:], True)
        places = np.flatnonzero(~lone)  # of elements that have equals
        flat = order.ravel()
        source = np.take_along_axis(word, order, -1).ravel()[places]
        by_word, _ = _order_of(source)
        by_group, _ = _order_of(groups[places][by_word])
        chosen = places[by_word[by_group]]
        flat[places] = flat[chosen]
        order = flat.reshape(order.shape)
        sorted_word = np.take_along_axis(word, order, -1)
        # Equal so far: in one group, and of one word. Groups are numbered anew.
        changed = new | _differs(sorted_word)
        ranks = np.cumsum(changed.ravel()).reshape(order.shape)
    return order


def _differs(x: Any) -> Any:
    out = np.ones(x.shape, bool)
    np.not_equal(x[..., 1:], x[..., :-1], out=out[..., 1:])
    return out


def argsort(keys: Sequence[Any], axis: int) -> Any:
    """The stable order along an axis by the first key, then the second, ..."""
    if any(k.dtype.kind == "c" for k in keys) or keys[0].shape[axis] <= SHORT:
        if len(keys) == 1:
            return np.argsort(keys[0], axis=axis, kind="stable")
        return np.lexsort(tuple(keys[::-1]), axis=axis)
    words = [w for k in keys for w in _words(_ordered(np.moveaxis(k, axis, -1)))]
    return np.moveaxis(stable_order(words), -1, axis)


def _sorted(x: Any, axis: int) -> Any:
    """One operand sorted. Zeros keep the order of their signs."""
    out = np.sort(x, axis=axis)
    if x.dtype.kind != "f":
        return out
    if x.ndim == 1:  # zeros are neighbours now
        zeros = out[slice(*(np.searchsorted(out, out.dtype.type(0), side) for side in _SIDES))]
    else:
        zeros = out[out == 0]
    if not zeros.size:
        return out
    negative = int(np.count_nonzero(np.signbit(zeros)))
    if negative in (0, zeros.size):
        return out
    return _taken(x, argsort([x], axis), axis)


_SIDES: tuple[Any, Any] = ("left", "right")


@rule(sort.sort_p)
def sort_operands(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    keys = [widened(x) for x in operands[:num_keys]]
    if len(operands) == 1 and keys[0].dtype.kind != "c":
        return [_sorted(keys[0], dimension).astype(operands[0].dtype, copy=False)]
    order = argsort(keys, dimension)
    return [_taken(x, order, dimension) for x in operands]


def _taken(x: Any, order: Any, axis: int) -> Any:
    """`x` in an order along an axis: one flat `take`, several times faster than index arrays."""
    if x.ndim == 1:
        return np.take(x, order)
    if axis != x.ndim - 1 or not x.size:
        return np.take_along_axis(x, order, axis=axis)
    n = x.shape[-1]
    rows = np.arange(0, x.size, n).reshape(*x.shape[:-1], 1)
    return np.take(x.ravel(), order + rows)


def _largest(operand: Any, k: int, axis: int, largest: bool = True) -> Any:
    ranks = _total_order(operand)
    if ranks.dtype == bool:
        ranks = ranks.astype(np.int8)
    # Descending and stable: the complement reverses the order of integers without overflow.
    ranks = np.moveaxis(~ranks if largest else ranks, axis, -1)
    order = np.moveaxis(_smallest(ranks, k), -1, axis)
    return [np.take_along_axis(operand, order, axis=axis), order.astype(np.int32)]


def _smallest(ranks: Any, k: int) -> Any:
    """Where the k smallest integers of each row are, in stable order."""
    n = ranks.shape[-1]
    if 4 * k > n or n <= SHORT or k == 0:
        return stable_order(_words(ranks))[..., :k]
    edge = np.partition(ranks, k - 1, axis=-1)[..., k - 1 : k]
    inside = np.flatnonzero(ranks <= edge)
    rows = ranks.size // n
    if len(inside) == rows * k:
        places = inside.reshape(rows, k)
    elif rows == 1:
        places = inside[None]
    else:  # equals at the edge of some row: there are more than k, in different numbers
        return stable_order(_words(ranks))[..., :k]
    words = [ranks.ravel()[places]]
    chosen = stable_order([w for x in words for w in _words(x)])[:, :k]
    found = np.take_along_axis(places, chosen, -1) % n
    return found.reshape(*ranks.shape[:-1], k)


@rule(sort.top_k_p)
def top_k(operand: Any, *, k: int, axis: int) -> Any:
    return _largest(operand, k, axis)


@rule(sort.approx_top_k_p)
def approx_top_k(
    operand: Any,
    *,
    k: int,
    reduction_dimension: int,
    is_max_k: bool,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> Any:
    if not aggregate_to_topk:
        override = reduction_input_size_override
        k = sort.candidates(operand.shape, reduction_dimension, k, recall_target, override)
    return _largest(operand, k, reduction_dimension, is_max_k)
