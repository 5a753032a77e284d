"""What this machine can do at most: bytes copied and products added a second, on all processors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

COPIED = 64 << 20  # bytes read, and as many written: out of every cache
SIDE = 2000  # of the square matrices whose product comes near the peak
ROUNDS = 9


@dataclass(frozen=True)
class Limits:
    """Bytes read and written, and operations of float32, a second."""

    bandwidth: float
    flops: float

    def seconds(self, nbytes: float, flops: float) -> float:
        """No program that reads and writes so many bytes and does so much is faster, unless its
        arrays stay in a cache."""
        return max(nbytes / self.bandwidth, flops / self.flops)


def _fastest(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure() -> Limits:
    """Both limits, by NumPy: copies on a thread for each processor, a product by its BLAS."""
    threads = os.cpu_count() or 1
    source = np.ones(COPIED // 4, np.float32)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads)))
    a = np.ones((SIDE, SIDE), np.float32)
    with ThreadPoolExecutor(threads) as pool:
        copying = _fastest(lambda: list(pool.map(lambda p: np.copyto(p[1], p[0]), parts)))
    return Limits(2 * COPIED / copying, 2 * SIDE**3 / _fastest(lambda: a @ a))
