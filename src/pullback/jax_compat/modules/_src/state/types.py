"""`jax._src.state.types`: the type of mutable references."""

from __future__ import annotations

from collections.abc import Callable
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


class StateEffect(RefEffect):
    """An effect on a reference. The effects of our programs do not tell them apart: each equals
    `RefEffect`."""

    __hash__ = RefEffect.__hash__

    def __init__(self, input_index: Any = None) -> None:
        self.input_index = input_index


class ReadEffect(StateEffect):
    """A reference is read."""


class WriteEffect(StateEffect):
    """A reference is written."""


class AccumEffect(StateEffect):
    """Something is added to what a reference holds."""


class Uninitialized:
    """What a reference holds that nothing has been written to."""


uninitialized = Uninitialized()
# By class: what a value becomes a reference of in `run_state`, and what that holds at first.
_ref_type_aval_mappings: dict[type, Callable[[Any], tuple[Any, Any]]] = {}


def shaped_array_ref(shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> AbstractRef:
    """The type of references to arrays of a shape and dtype."""
    return AbstractRef(ShapedArray(shape, np.dtype(dtype), weak_type=weak_type))
