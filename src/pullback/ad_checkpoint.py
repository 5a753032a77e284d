"""Rematerialisation."""

from typing import Any

from .api.residuals import print_saved_residuals as print_saved_residuals
from .control.remat import checkpoint_name as checkpoint_name
from .control.remat_policies import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_policies as checkpoint_policies,
)
from .removed import no_attribute

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
