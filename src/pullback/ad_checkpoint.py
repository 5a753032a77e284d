"""Rematerialisation."""

from .control.remat import checkpoint_name as checkpoint_name
from .control.remat import checkpoint_policies as checkpoint_policies

__all__ = ["checkpoint_name", "checkpoint_policies"]
