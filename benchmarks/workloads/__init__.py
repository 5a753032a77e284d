"""The workloads, by family; importing this package fills the registry."""

from . import (
    convolution,
    dispatch,
    indexing,
    linalg,
    loops,
    matmul,
    models,
    pairwise,
    pointwise,
    random,
    reductions,
    sorting,
)
from .registry import FAMILIES, REGISTRY, Case, Workload

__all__ = [
    "FAMILIES", "REGISTRY", "Case", "Workload",
    "convolution", "dispatch", "indexing", "linalg", "loops", "matmul",
    "models", "pairwise", "pointwise", "random", "reductions", "sorting",
]  # fmt: skip
