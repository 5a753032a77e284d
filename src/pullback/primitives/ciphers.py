"""Generators of random bits by other ciphers of Random123 than Threefry of two words: Philox of two
and four words with 10 rounds, Threefry of four with 20 (Salmon and others, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011). Made of arithmetic on uint32: they need no primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.avals import typeof
from .convert import convert_element_type
from .elementwise import (
    add,
    bitwise_or,
    bitwise_xor,
    mul,
    mulhi,
    shift_left,
    shift_right_logical,
)
from .keys import PRNGImpl, register_prng
from .layout import broadcast_in_dim, expand_dims
from .rng import integer_words, key_words, positions
from .shape import concatenate

Words = Sequence[Any]  # arrays of uint32 that broadcast with each other
Cipher = Callable[[Words, Words], list[Any]]  # (key, block) -> block

_ZERO = np.uint32(0)
_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)  # golden ratio, sqrt(3) - 1
_FACTOR = np.uint32(0xD256D193)
_FACTORS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_PARITY = np.uint32(0x1BD11BDA)
_TURNS = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)


def _xor(first: Any, *others: Any) -> Any:
    for x in others:
        first = bitwise_xor(first, x)
    return first


def philox2x32(key: Words, block: Words) -> list[Any]:
    """Philox of two words: the key is one word."""
    (k,), (x, y) = key, block
    for turn in range(10):
        k = add(k, _STEPS[0]) if turn else k
        x, y = _xor(mulhi(_FACTOR, x), y, k), mul(_FACTOR, x)
    return [x, y]


def philox4x32(key: Words, block: Words) -> list[Any]:
    """Philox of four words: the key is two words."""
    (k, m), (x, y, z, w) = key, block
    for turn in range(10):
        if turn:
            k, m = add(k, _STEPS[0]), add(m, _STEPS[1])
        high = mulhi(_FACTORS[0], x), mulhi(_FACTORS[1], z)
        low = mul(_FACTORS[0], x), mul(_FACTORS[1], z)
        x, y, z, w = _xor(high[1], y, k), low[1], _xor(high[0], w, m), low[0]
    return [x, y, z, w]


def _rotate(x: Any, by: int) -> Any:
    return bitwise_or(shift_left(x, np.uint32(by)), shift_right_logical(x, np.uint32(32 - by)))


def threefry4x32(key: Words, block: Words) -> list[Any]:
    """Threefry of four words: so is the key."""
    schedule = [*key, _xor(*key, _PARITY)]
    x = [add(word, k) for word, k in zip(block, key, strict=True)]
    for turn in range(20):
        for into, other in ((0, 1), (2, 3)) if turn % 2 == 0 else ((0, 3), (2, 1)):
            x[into] = add(x[into], x[other])
            x[other] = bitwise_xor(_rotate(x[other], _TURNS[turn % 8][into // 2]), x[into])
        if turn % 4 == 3:
            since = turn // 4 + 1
            x = [add(word, schedule[(since + n) % 5]) for n, word in enumerate(x)]
            x[3] = add(x[3], np.uint32(since))
    return x


def _padded(words: Words, size: int, front: bool = False) -> list[Any]:
    """`size` words: zeros behind, or in front of, those given."""
    zeros = [_ZERO] * (size - len(words))
    return [*zeros, *words] if front else [*words, *zeros]


def _joined(words: Words) -> Any:
    """Words as the last axis of one array."""
    shape = max((typeof(w).shape for w in words), key=len)
    full = [w if typeof(w).shape == shape else broadcast_in_dim(w, shape, ()) for w in words]
    return concatenate([expand_dims(w, (len(shape),)) for w in full], len(shape))


def _of_width(words: Words, width: int, pairs: bool) -> Any:
    """Bits of a block: all of its words combined, or two halves for 64 bits."""
    if width != 64:
        bits = _xor(*words)
        return bits if width == 32 else convert_element_type(bits, np.dtype(f"uint{width}"))
    halves = (_xor(words[0], words[2]), _xor(words[1], words[3])) if pairs else words[:2]
    high, low = (convert_element_type(h, np.dtype("uint64")) for h in halves)
    return bitwise_or(shift_left(high, np.uint64(32)), low)


def _generator(name: str, tag: str, cipher: Cipher, key_size: int, size: int) -> PRNGImpl:
    """Keys of `key_size` words from a cipher of blocks of `size` words, as JAX makes them.

    A position is encrypted for bits as the first words of a block, for new keys as the last ones.
    """
    seeded_by_key = key_size == size

    def seed(seeds: Any) -> Any:
        words = integer_words(seeds)
        key, block = (words, ()) if seeded_by_key else ((), words)
        return _joined(cipher(_padded(key, key_size), _padded(block, size))[:key_size])

    def split(base: Any, shape: Any) -> Any:
        rank = typeof(base).ndim - 1
        block = _padded(positions(shape, rank), size, front=True)
        return _joined(cipher(key_words(base, len(shape)), block)[:key_size])

    def random_bits(base: Any, bit_width: int, shape: Any) -> Any:
        rank = typeof(base).ndim - 1
        words = cipher(key_words(base, len(shape)), _padded(positions(shape, rank), size))
        return _of_width(words, bit_width, seeded_by_key)

    def fold_in(base: Any, data: Any) -> Any:
        block = _padded([convert_element_type(data, np.dtype("uint32"))], size, front=True)
        return _joined(cipher(key_words(base, 0), block)[:key_size])

    return PRNGImpl((key_size,), seed, split, random_bits, fold_in, name, tag, batched=True)


philox2x32_prng_impl = _generator("philox2x32", "phx2", philox2x32, 1, 2)
philox4x32_prng_impl = _generator("philox4x32", "phx4", philox4x32, 2, 4)
threefry4x32_prng_impl = _generator("threefry4x32", "fry4", threefry4x32, 4, 4)
for _impl in (philox2x32_prng_impl, philox4x32_prng_impl, threefry4x32_prng_impl):
    register_prng(_impl)
