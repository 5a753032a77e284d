"""`jax._src.numpy.error`: errors of NumPy's functions that programs note while they run."""

from __future__ import annotations

from typing import Any

from ....config import FLAGS
from ....numpy.error_check import (
    error_checking_behavior as error_checking_behavior,
    note_nan as _set_error_if_nan,  # noqa: F401
    note_outside,
    note_zero as _set_error_if_divide_by_zero,  # noqa: F401
)


def _is_category_disabled(category: str | None) -> bool:
    """Are errors of a category not noted?"""
    if category is None:
        return False
    name = f"jax_error_checking_behavior_{category}"
    if name not in FLAGS:
        raise ValueError(f"Invalid category: {category}")
    return bool(FLAGS[name].get() == "ignore")


def _check_precondition_oob_gather(shape: tuple[int, ...], gather_indices: Any) -> None:
    """Notes indices beyond the ends of an array of a shape."""
    note_outside(gather_indices, shape)
