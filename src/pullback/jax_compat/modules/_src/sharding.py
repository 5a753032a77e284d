"""`jax._src.sharding`: what all shardings are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .... import errors, sharding
from .searched import searched
from .util import cache


@cache(trace_context_in_key=False)
def common_devices_indices_map(s: Any, global_shape: tuple[int, ...]) -> Mapping[Any, Any]:
    """Which part of an array each device has."""
    out: Mapping[Any, Any] = s.devices_indices_map(global_shape)
    return out


__getattr__ = searched("jax._src.sharding", sharding, errors)
