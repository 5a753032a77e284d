"""Sparse and matrix-free linear algebra, under the names of `scipy.sparse`."""

from . import linalg as linalg

__all__ = ["linalg"]
