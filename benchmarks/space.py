"""What a workload is written against: a JAX-like module and its parts, or NumPy in their place."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

ENGINES = ("pullback", "jax", "numpy", "torch", "torch.compile", "numba")
NEWEST = "jax-newest"  # the JAX of another interpreter: its newest release wants a newer Python


@dataclass(frozen=True)
class Space:
    """One engine. `jax` and what hangs from it is None under NumPy."""

    name: str
    jax: Any
    jnp: Any
    lax: Any
    random: Any
    import_seconds: float

    def jit(self, function: Any) -> Any:
        return function if self.jax is None else self.jax.jit(function)

    def array(self, value: np.ndarray) -> Any:
        return value if self.jax is None else self.jnp.asarray(value)


def installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def load(name: str, x64: bool = False) -> Space:
    """Imports an engine, timed."""
    if name not in ("pullback", "jax"):
        return Space(name, None, np, None, None, 0.0)
    start = time.perf_counter()
    module = importlib.import_module(name)
    jnp = importlib.import_module(f"{name}.numpy")
    seconds = time.perf_counter() - start
    if x64:
        module.config.update("jax_enable_x64", True)
    lax, random = (importlib.import_module(f"{name}.{part}") for part in ("lax", "random"))
    return Space(name, module, jnp, lax, random, seconds)


def fresh_environment(cache: str) -> dict[str, str]:
    """A worker's environment: an empty kernel cache; byte code kept, as installed packages do."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PULLBACK_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}


def wait(result: Any) -> Any:
    """Blocks until every array in nested tuples, lists and dicts is there."""
    if isinstance(result, dict):
        wait(list(result.values()))
    elif isinstance(result, tuple | list):
        for part in result:
            wait(part)
    elif hasattr(result, "block_until_ready"):
        result.block_until_ready()
    return result


def numbers(result: Any) -> list[np.ndarray]:
    """The arrays of a result, flat, as NumPy float64 or complex: for comparing engines."""
    if isinstance(result, dict):
        result = [result[key] for key in sorted(result)]
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in numbers(part)]
    if result is None or isinstance(result, str):
        return []
    if hasattr(result, "detach"):
        result = result.detach()
    array = np.asarray(result)
    if array.dtype.kind not in "biufcV":
        return []
    return [array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)]
