"""One name for what runs a demonstration: the same functions run on Pullback and on real JAX."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

ENGINES = ("pullback", "numpy", "jax")


@dataclass(frozen=True)
class Engine:
    """A JAX-like module and the submodules that the demonstrations use."""

    name: str
    jax: ModuleType
    jnp: ModuleType
    signal: ModuleType


def load(name: str) -> tuple[Engine, float]:
    """Imports an engine; gives it and the seconds that the import took."""
    start = time.perf_counter()
    module = importlib.import_module(name)
    engine = Engine(
        name,
        module,
        importlib.import_module(f"{name}.numpy"),
        importlib.import_module(f"{name}.scipy.signal"),
    )
    return engine, time.perf_counter() - start


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """A call's result, waited for, and its seconds."""
    start = time.perf_counter()
    result = function()
    wait(result)
    return result, time.perf_counter() - start


def wait(result: Any) -> None:
    """Waits for every array in a tuple, list or dict."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        for part in result:
            wait(part)
    elif hasattr(result, "block_until_ready"):
        result.block_until_ready()


def median_seconds(function: Callable[[], Any], repeats: int) -> float:
    """The median over repeated calls."""
    times = sorted(timed(function)[1] for _ in range(repeats))
    return times[len(times) // 2]


def milliseconds(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
