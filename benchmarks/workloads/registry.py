"""The table of workloads and how one is declared."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..space import Space

FAMILIES = (
    "dispatch", "pointwise", "reductions", "pairwise", "matmul", "convolution",
    "loops", "indexing", "sorting", "random", "linalg", "models",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A workload on one engine: what is called and with what.

    `function` is compiled before it is timed, unless `eager`. `wait_each` is false where
    the time until the call returns is what is measured.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    eager: bool = False
    wait_each: bool = True


def mapped(function: Callable[..., Any], value: Any) -> Any:
    """Nested tuples, lists and dicts, the function called on what they hold."""
    if isinstance(value, dict):
        return {key: mapped(function, part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(mapped(function, part) for part in value)
    return function(value)


@dataclass(frozen=True)
class Workload:
    """A named workload; `numpy`, `torch` and `numba` are its versions for those: True means the
    same; torch's takes the module first and is compiled too, Numba's is plain Python."""

    name: str
    family: str
    make: Callable[[Space], Case]
    numpy: bool | Callable[..., Any]
    torch: Callable[..., Any] | None
    numba: Callable[..., Any] | None
    x64: bool
    source: str
    tolerance: float

    def case(self, space: Space) -> Case:
        """The case on this engine; raises LookupError where the engine has none."""
        if space.jax is not None or (space.name == "numpy" and self.numpy is True):
            return self.make(space)
        engine, _, how = space.name.partition(".")
        other = getattr(self, engine)
        if not callable(other):
            raise LookupError(f"{self.name} has no version for {space.name}")
        case = self.make(Space("numpy", None, np, None, None, 0.0))
        function, arguments = other, case.arguments
        if engine == "torch":
            torch = importlib.import_module("torch")
            arguments = mapped(torch.as_tensor, arguments)
            function = lambda *args: other(torch, *args)
            function = torch.compile(function) if how else function
        elif engine == "numba":
            function = importlib.import_module("numba").njit(other)
        return Case(function, arguments, case.eager, case.wait_each)


REGISTRY: dict[str, Workload] = {}


def workload(
    family: str, name: str, *, numpy: bool | Callable[..., Any] = False,
    torch: Callable[..., Any] | None = None, numba: Callable[..., Any] | None = None,
    x64: bool = False, source: str = "", tolerance: float = 1e-3,
) -> Callable[[Callable[[Space], Case]], Callable[[Space], Case]]:  # fmt: skip
    """Registers the decorated `make(space) -> Case` under a name."""
    assert family in FAMILIES and name not in REGISTRY, name

    def register(make: Callable[[Space], Case]) -> Callable[[Space], Case]:
        REGISTRY[name] = Workload(name, family, make, numpy, torch, numba, x64, source, tolerance)
        return make

    return register


def data(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Uniform float32 numbers, the same for every engine."""
    random = np.random.default_rng(seed)
    return (low + (high - low) * random.random(shape)).astype(np.float32)
