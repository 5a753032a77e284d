"""`jax._src.xla_bridge`: which backends there are, and their devices."""

from __future__ import annotations

from typing import Any

from ....extend.backend import backends as backends, get_backend as get_backend
from ....runtime.devices import (
    client,
    default_backend as default_backend,
    device_count as device_count,
    devices as devices,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
)

__all__ = ["backends", "devices", "get_backend", "local_devices"]


def __getattr__(name: str) -> Any:
    if name == "_backends":  # those in use: how many devices there are is still open before
        return backends() if client.cache_info().currsize else {}
    raise AttributeError(f"module 'jax._src.xla_bridge' has no attribute {name!r}")
