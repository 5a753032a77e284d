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


@dataclass(frozen=True)
class Workload:
    """A named workload; `numpy` and `torch` are its versions for those, True meaning the same."""

    name: str
    family: str
    make: Callable[[Space], Case]
    numpy: bool | Callable[..., Any]
    torch: Callable[..., Any] | None
    x64: bool
    source: str
    tolerance: float

    def case(self, space: Space) -> Case:
        """The case on this engine; raises LookupError where the engine has none."""
        if space.jax is not None or (space.name == "numpy" and self.numpy is True):
            return self.make(space)
        other = self.torch if space.name == "torch" else self.numpy
        if not callable(other):
            raise LookupError(f"{self.name} has no version for {space.name}")
        case = self.make(Space("numpy", None, np, None, None, 0.0))
        if space.name == "torch":
            torch = importlib.import_module("torch")
            arguments = tuple(torch.as_tensor(a) for a in case.arguments)
            return Case(lambda *args: other(torch, *args), arguments, case.eager, case.wait_each)
        return Case(other, case.arguments, case.eager, case.wait_each)


REGISTRY: dict[str, Workload] = {}


def workload(
    family: str, name: str, *, numpy: bool | Callable[..., Any] = False,
    torch: Callable[..., Any] | None = None, x64: bool = False, source: str = "",
    tolerance: float = 1e-3,
) -> Callable[[Callable[[Space], Case]], Callable[[Space], Case]]:  # fmt: skip
    """Registers the decorated `make(space) -> Case` under a name."""
    assert family in FAMILIES and name not in REGISTRY, name

    def register(make: Callable[[Space], Case]) -> Callable[[Space], Case]:
        REGISTRY[name] = Workload(name, family, make, numpy, torch, x64, source, tolerance)
        return make

    return register


def data(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Uniform float32 numbers, the same for every engine."""
    random = np.random.default_rng(seed)
    return (low + (high - low) * random.random(shape)).astype(np.float32)
