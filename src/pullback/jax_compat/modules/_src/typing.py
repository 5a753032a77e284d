"""`jax._src.typing`: what `jax.typing` has, and the private names beside it."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType as EllipsisType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ....dtypes import ExtendedDType as ExtendedDType
from ....runtime.array import Array as Array
from ....typing import ArrayLike as ArrayLike, DTypeLike as DTypeLike

DType = np.dtype
DimSize = Any
Shape = Sequence[DimSize]
AnyInt = int | np.integer
StaticScalar = np.bool_ | np.number | bool | int | float | complex
StaticIndex = AnyInt | slice | EllipsisType
Index = StaticIndex | None | Sequence[AnyInt] | Array | np.ndarray


class DeprecatedArg:
    """The default of a parameter that is going away."""

    def __repr__(self) -> str:
        return "Deprecated"


@runtime_checkable
class SupportsDType(Protocol):
    """What tells a dtype."""

    @property
    def dtype(self) -> Any: ...


@runtime_checkable
class SupportsNdim(Protocol):
    """What tells its number of axes."""

    @property
    def ndim(self) -> int: ...


@runtime_checkable
class SupportsShape(Protocol):
    """What tells a shape."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@runtime_checkable
class SupportsSize(Protocol):
    """What tells its number of elements."""

    @property
    def size(self) -> int: ...


@runtime_checkable
class DuckTypedArray(Protocol):
    """What tells a dtype and a shape."""

    @property
    def dtype(self) -> Any: ...

    @property
    def shape(self) -> Shape: ...
