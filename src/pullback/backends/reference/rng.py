"""Random bits in NumPy: the Threefry and Philox ciphers. Keys were lowered to their words
before.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...primitives import as_compiled, rng
from .table import rule

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@rule(rng.threefry2x32_p)
def threefry2x32(k1: Any, k2: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """The Threefry-2x32 block cipher with 20 rounds (Salmon et al., 2011)."""
    k1, k2, x1, x2 = (np.asarray(v, np.uint32) for v in (k1, k2, x1, x2))
    keys = (k1, k2, k1 ^ k2 ^ np.uint32(0x1BD11BDA))
    shape = np.broadcast_shapes(k1.shape, k2.shape, x1.shape, x2.shape)
    a, b = np.empty(shape, np.uint32), np.empty(shape, np.uint32)
    np.add(x1, k1, out=a)
    np.add(x2, k2, out=b)
    for r in range(5):
        for n in _ROTATIONS[r % 2]:
            a += b
            b = (b << np.uint32(n)) | (b >> np.uint32(32 - n))
            b ^= a
        a += keys[(r + 1) % 3]
        b += keys[(r + 2) % 3]
        b += np.uint32(r + 1)
    return a, b


def philox4x32(key: tuple[int, int], counter: int, blocks: int) -> Any:
    """`4 * blocks` words of Philox-4x32 with 10 rounds, from a 64-bit counter (Salmon et al.,
    2011).
    """
    n = np.arange(blocks, dtype=np.uint64) + np.uint64(counter)
    low = np.uint64(0xFFFFFFFF)
    k0, k1 = key
    # The upper half of the counter starts as the key, and takes the carry.
    upper = np.uint64(k0 | k1 << 32) + (n < np.uint64(counter)).astype(np.uint64)
    c = [n & low, n >> np.uint64(32), upper & low, upper >> np.uint64(32)]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=1).astype(np.uint32).reshape(-1)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


@rule(rng.rng_bit_generator_p)
def rng_bit_generator(
    state: Any, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any = None
) -> Any:
    """New state and bits, as `rng.rng_bit_generator_p`."""
    flat = np.asarray(state)
    words = flat.reshape(-1).view(np.uint32) if flat.dtype == np.uint64 else flat.reshape(-1)
    out = np.dtype(dtype)
    n = _size(shape) * (2 if out.itemsize == 8 else 1)
    key = int(words[0]), int(words[1])
    counter = int(words[2]) | int(words[3]) << 32 if len(words) >= 4 else 0
    if rng.is_threefry(algorithm):
        bits, step = _counter_stream(key, counter, shape, wide=out.itemsize == 8)
    else:
        bits, step = philox4x32(key, counter, -(-n // 4))[:n], -(-n // 4)
    counter = (counter + step) & (2**64 - 1)
    after = words.copy()
    if len(words) >= 4:
        after[2:4] = counter & 0xFFFFFFFF, counter >> 32
    result = bits.view("<u8").astype(np.uint64) if out.itemsize == 8 else bits.astype(out)
    return [after.view(flat.dtype).reshape(flat.shape), result.reshape(shape)]


def _counter_stream(
    key: tuple[int, int], counter: int, shape: tuple[int, ...], wide: bool
) -> tuple[Any, int]:
    """The flat words, low before high, of the 64-bit numbers that an array takes, and how many of
    these. Words of 32 bits lie in turn along one axis.
    """
    shape = shape or (1,)
    axis = rng.halved_axis(shape)
    half = shape if wide else (*shape[:axis], -(-shape[axis] // 2), *shape[axis + 1 :])
    count = _size(half)
    number = np.arange(count, dtype=np.uint64) + np.uint64(counter)
    pair = threefry2x32(
        key[0], key[1], number.astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32)
    )
    if wide:
        return np.stack(pair, axis=1).reshape(-1), count
    words = np.stack([x.reshape(half) for x in pair], axis=axis + 1)
    words = words.reshape(*half[:axis], 2 * half[axis], *half[axis + 1 :])
    return words[tuple(slice(n) for n in shape)].reshape(-1), count


@rule(rng.rng_uniform_p)
def rng_uniform(a: Any, b: Any, *, shape: Any) -> Any:
    """Numbers from the system's entropy: not reproducible by design."""
    generator = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    if a.dtype.kind in "iu":
        return generator.integers(a, b, size=shape, dtype=a.dtype)
    return (a + (b - a) * generator.random(shape)).astype(a.dtype)


@rule(as_compiled.fused_multiply_add_p)
def fused_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """Rounded once, in the next wider type."""
    wide = np.float64 if x.dtype.itemsize < 8 else np.longdouble
    return (np.multiply(x, y, dtype=wide) + z).astype(x.dtype)


@rule(as_compiled.library_pow_p)
def library_pow(x: Any, y: Any) -> Any:
    """NumPy's power is the C library's."""
    return np.power(x, y)
