"""`jax._src.typing`: what `jax.typing` has, and the private names beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....dtypes import ExtendedDType as ExtendedDType
from ....runtime.array import Array as Array
from ....typing import ArrayLike as ArrayLike, DTypeLike as DTypeLike

DType = np.dtype
DimSize = Any
Shape = Sequence[DimSize]
