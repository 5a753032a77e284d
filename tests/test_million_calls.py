"""Memory after a million calls is what it was before them."""

from __future__ import annotations

import gc
import sys

import pytest

import pullback as pb
from pullback import numpy as jnp
from pullback.runtime import memory


def resident_pages() -> int:
    with open("/proc/self/statm") as s:
        return int(s.read().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.usefixtures("at_rest")
def test_a_million_calls_do_not_grow() -> None:
    f = pb.jit(lambda x, y: {"a": jnp.sin(x) + y, "b": (x, y * 2)})
    x, y = jnp.ones(8), jnp.arange(8.0)

    def use(n: int) -> None:
        for _ in range(n):
            f(x, y)
            x + y  # an eager operator
            x[3]
            f(x, 2.5)

    use(2_000)
    gc.collect()
    pages, used = resident_pages(), memory.memory_stats()["bytes_in_use"]
    use(250_000)
    assert memory.memory_stats()["bytes_in_use"] == used
    assert resident_pages() - pages < 300
