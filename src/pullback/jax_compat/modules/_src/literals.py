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
    """A NumPy array that may be weakly typed. What is computed of it is NumPy's."""

    __slots__ = ("_weak_type",)
    _weak_type: bool

    def __new__(cls, val: Any, aval: Any = None) -> TypedNdArray:
        self = np.asarray(val).view(cls)
        self._weak_type = aval is not None and bool(aval.weak_type)
        return self

    def __array_finalize__(self, obj: Any) -> None:
        self._weak_type = getattr(obj, "_weak_type", False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = (x.val if isinstance(x, TypedNdArray) else x for x in inputs)
        return getattr(ufunc, method)(*plain, **kwargs)

    def __repr__(self) -> str:
        text = np.array2string(self.val, separator=", ", prefix="TypedNdArray(")
        weak = ", weak_type=True" if self._weak_type else ""
        text += "" if self.size or self.shape == (0,) else f", shape={self.shape}"
        return f"TypedNdArray({text}, dtype={self.dtype.name}{weak})"

    def __reduce__(self) -> Any:
        return TypedNdArray, (self.val, self.aval)

    @property
    def val(self) -> Any:
        return self.view(np.ndarray)

    @property
    def weak_type(self) -> bool:
        return self._weak_type

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype, weak_type=self._weak_type)


typed_scalar_types = (TypedInt, TypedFloat, TypedComplex)
for _cls in typed_scalar_types:
    register_typeof(_cls, lambda x: ShapedArray((), x.dtype))
