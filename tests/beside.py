"""Other libraries with native code, imported and used in the process of the tests.

`PULLBACK_TESTS_BESIDE="numba torch" pytest ...` has them compute something before the first test,
and again before each file's: their thread pools run, Numba compiles by the LLVM that we use, and
PyTorch brings its own OpenMP and BLAS. Neither is installed by `make test`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

VARIABLE = "PULLBACK_TESTS_BESIDE"


def _numba() -> Callable[[], None]:
    """A loop over threads, compiled anew and called again each time."""
    numba: Any = importlib.import_module("numba")

    def total(x: Any) -> float:
        found = 0.0
        for i in numba.prange(x.size):
            found += x[i] * 2
        return found

    def use() -> None:
        compiled = numba.njit(total, parallel=True)
        x = np.arange(100_000.0)
        for _ in range(3):
            assert compiled(x) == x.sum() * 2

    return use


def _torch() -> Callable[[], None]:
    """A product, its gradient, and a sum that its threads share."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(2)

    def use() -> None:
        x = torch.arange(250_000.0).reshape(500, 500).div(1e6).requires_grad_()
        (x @ x).sum().backward()
        ours = np.asarray(x.detach().numpy(), np.float64)
        want = ours.sum(1)[None, :] + ours.sum(0)[:, None]
        np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4)
        assert float(torch.ones(1_000_000).sum()) == 1e6

    return use


_KNOWN = {"numba": _numba, "torch": _torch}


def users(names: str | None = None) -> list[Callable[[], None]]:
    """What uses the libraries, by default those that the environment names; they are imported."""
    return [_KNOWN[name]() for name in (names or os.environ.get(VARIABLE, "")).split()]
