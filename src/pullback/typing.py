"""Types for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .runtime.array import Array

__all__ = ["ArrayLike", "DTypeLike"]

ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type | np.dtype | Any
