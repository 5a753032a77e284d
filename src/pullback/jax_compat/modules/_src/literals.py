"""`jax._src.literals`: Python scalars that carry a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.avals import ShapedArray, register_typeof


class TypedInt(int):
    """A Python int with a dtype."""

    dtype: Any

    def __new__(cls, value: Any, dtype: Any) -> TypedInt:
        self = super().__new__(cls, value)
        self.dtype = np.dtype(dtype)
        return self

    def __repr__(self) -> str:
        return f"TypedInt({int(self)}, dtype={self.dtype.name})"


class TypedFloat(float):
    """A Python float with a dtype."""

    dtype: Any

    def __new__(cls, value: Any, dtype: Any) -> TypedFloat:
        self = super().__new__(cls, value)
        self.dtype = np.dtype(dtype)
        return self

    def __repr__(self) -> str:
        return f"TypedFloat({float(self)}, dtype={self.dtype.name})"


class TypedComplex(complex):
    """A Python complex number with a dtype."""

    dtype: Any

    def __new__(cls, value: Any, dtype: Any) -> TypedComplex:
        self = super().__new__(cls, value)
        self.dtype = np.dtype(dtype)
        return self

    def __repr__(self) -> str:
        return f"TypedComplex({complex(self)}, dtype={self.dtype.name})"


class TypedNdArray(np.ndarray):
    """A NumPy array that may be weakly typed."""

    weak_type = False


typed_scalar_types = (TypedInt, TypedFloat, TypedComplex)
for _cls in typed_scalar_types:
    register_typeof(_cls, lambda x: ShapedArray((), x.dtype))
