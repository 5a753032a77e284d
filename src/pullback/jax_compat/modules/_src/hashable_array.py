"""`jax._src.hashable_array`: arrays as keys of tables."""

from __future__ import annotations

from typing import Any

import numpy as np


class HashableArray:
    """An array that is hashed and compared by its dtype, shape and elements."""

    __slots__ = ("val",)

    def __init__(self, val: Any) -> None:
        self.val = np.array(val)
        self.val.setflags(write=False)

    def __repr__(self) -> str:
        return f"HashableArray({self.val!r})"

    def __hash__(self) -> int:
        return hash((self.val.shape, self.val.dtype, self.val.tobytes()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, HashableArray)
            and self.val.dtype == other.val.dtype
            and np.array_equal(self.val, other.val)
        )
