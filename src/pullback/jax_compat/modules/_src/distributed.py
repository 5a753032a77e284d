"""`jax._src.distributed`: what this process knows of others."""

from __future__ import annotations

from ....distributed import (
    State as State,
    global_state as global_state,
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)

__all__ = ["State", "global_state", "initialize", "is_initialized", "shutdown"]
