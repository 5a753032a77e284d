"""Rematerialisation."""

from .api.residuals import print_saved_residuals as print_saved_residuals
from .control.remat import Offloadable as Offloadable
from .control.remat import Recompute as Recompute
from .control.remat import Saveable as Saveable
from .control.remat import checkpoint_name as checkpoint_name
from .control.remat import checkpoint_policies as checkpoint_policies

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
]
