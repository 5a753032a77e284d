"""`jax._src.state.types`: the type of mutable references."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....control.ref_places import (
    Bitcast as BitcastTransform,  # noqa: F401
    Reshaped as ReshapeTransform,  # noqa: F401
    Transposed as TransposeTransform,  # noqa: F401
)
from .....core.avals import ShapedArray
from .....core.refs import (
    AbstractRef as AbstractRef,
    RefEffect as RefEffect,
    RefIndexer as RefIndexer,
    TransformedRef as TransformedRef,
)


def shaped_array_ref(shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> AbstractRef:
    """The type of references to arrays of a shape and dtype."""
    return AbstractRef(ShapedArray(shape, np.dtype(dtype), weak_type=weak_type))
