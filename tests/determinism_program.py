"""Prints a digest of the bits of reductions of many shapes; test_determinism.py compares them.

Each program runs jitted, twice, and primitive by primitive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback
from pullback import jit, lax, numpy as jnp

RNG = np.random.default_rng(0)
LONG = RNG.normal(size=1_000_000).astype(np.float32)
SQUARE = RNG.normal(size=(1000, 1000)).astype(np.float32)
PLACES = RNG.integers(0, 1000, size=200_000).astype(np.int32)
UPDATES = LONG[:200_000]

IMAGES = LONG[: 3 * 40 * 40 * 32].reshape(3, 40, 40, 32)
WINDOW = LONG[: 9 * 32 * 64].reshape(3, 3, 32, 64)


def convolved(x: Any, w: Any, lhs: str, rhs: str) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=(lhs, rhs, lhs))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum": (lambda x: jnp.sum(x), (LONG,)),
    "sum, f16": (lambda x: jnp.sum(x), (LONG.astype(np.float16),)),
    "mean": (lambda x: jnp.mean(x), (LONG,)),
    "prod": (lambda x: jnp.prod(x), (1 + LONG[:300_000] * np.float32(1e-3),)),
    "max": (lambda x: jnp.max(x), (LONG,)),
    "sum both": (lambda x: jnp.sum(x), (SQUARE,)),
    "sum 0": (lambda x: jnp.sum(x, 0), (SQUARE,)),
    "sum 1": (lambda x: jnp.sum(x, 1), (SQUARE,)),
    "mean 0": (lambda x: jnp.mean(x, 0), (SQUARE,)),
    "mean 1": (lambda x: jnp.mean(x, 1), (SQUARE,)),
    "var": (lambda x: jnp.var(x), (SQUARE,)),
    "softmax": (lambda x: pullback.nn.softmax(x), (SQUARE,)),
    "softmax 0": (lambda x: pullback.nn.softmax(x, 0), (SQUARE,)),
    "dot": (lambda x, y: jnp.dot(x, y), (LONG, LONG[::-1].copy())),
    "matvec": (lambda x, y: x @ y, (SQUARE, LONG[:1000])),
    "vecmat": (lambda x, y: y @ x, (SQUARE, LONG[:1000])),
    "matmul": (lambda x: x[:300] @ x, (SQUARE,)),
    "matmul, turned": (lambda x: x[:700].T @ x[300:, :90], (SQUARE,)),
    "layer": (lambda x: jnp.tanh(x[:300] @ x.T + x[0]), (SQUARE,)),
    "convolution": (lambda x, w: convolved(x, w, "NHWC", "HWIO"), (IMAGES, WINDOW)),
    "convolution, features first": (
        lambda x, w: convolved(x, w, "NCHW", "OIHW"),
        (IMAGES.reshape(3, 32, 40, 40), WINDOW.reshape(64, 32, 3, 3)),
    ),
    "convolution, gradient": (
        lambda x, w: pullback.grad(lambda w: convolved(x, w, "NHWC", "HWIO").sum())(w),
        (IMAGES, WINDOW),
    ),
    "scatter-add": (lambda p, u: jnp.zeros(1000).at[p].add(u), (PLACES, UPDATES)),
    "cumsum": (lambda x: jnp.cumsum(x), (LONG,)),
    "cumsum 0": (lambda x: jnp.cumsum(x, 0), (SQUARE,)),
    "cumsum 1": (lambda x: jnp.cumsum(x, 1), (SQUARE,)),
    "logsumexp": (lambda x: lax.cumlogsumexp(x, 0), (SQUARE,)),
    "complex": (lambda x: jnp.sum(lax.complex(x, x[::-1])), (LONG,)),
    "argmax": (lambda x: jnp.argmax(jnp.round(x * 8), 1), (SQUARE,)),
}


def digest(result: Any) -> str:
    return hashlib.sha256(np.asarray(result).tobytes()).hexdigest()[:16]


def main() -> None:
    found: dict[str, list[str]] = {}
    for name, (f, args) in PROGRAMS.items():
        arrays = [jnp.asarray(x) for x in args]
        compiled = jit(f)
        found[name] = [digest(compiled(*arrays)), digest(compiled(*arrays)), digest(f(*arrays))]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
