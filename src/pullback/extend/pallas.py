"""Kernels for libraries that compile them: the grid of a kernel as data, and rules of their own."""

from ..experimental.pallas.call import register_lowering_rule as register_lowering_rule
from ..experimental.pallas.mapping import GridMapping as GridMapping

__all__ = ["GridMapping", "register_lowering_rule"]
