"""`jax._src.sharding`: what all shardings are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .... import errors, sharding
from .searched import searched


def common_devices_indices_map(s: Any, global_shape: Sequence[int]) -> Mapping[Any, Any]:
    """Which part of an array each device has."""
    out: Mapping[Any, Any] = s.devices_indices_map(tuple(global_shape))
    return out


__getattr__ = searched("jax._src.sharding", sharding, errors)
