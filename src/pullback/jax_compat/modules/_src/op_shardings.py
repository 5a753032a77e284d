"""`jax._src.op_shardings`: what XLA's shardings say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....backends.xla.library import xla_client
from ....backends.xla.mesh import (
    are_hlo_shardings_equal as are_hlo_shardings_equal,
    is_hlo_sharding_replicated as is_hlo_sharding_replicated,
    op_sharding_to_indices as op_sharding_to_indices,
)


def get_num_ways_dim_sharded(
    op_sharding: Any, allow_partial_manual: bool = False
) -> tuple[list[int], int]:
    """How many parts each axis has, and how many devices have the same part."""
    if not isinstance(op_sharding, xla_client.HloSharding):
        op_sharding = xla_client.HloSharding.from_proto(op_sharding)
    if op_sharding.is_replicated():
        return [], 1
    sizes = list(op_sharding.tile_assignment_dimensions())
    last = sizes.pop() if op_sharding.replicate_on_last_tile_dim() else 1
    return sizes, last


def op_sharding_to_numpy_indices(
    op_sharding: Any, shape: Sequence[int], num_devices: int
) -> np.ndarray:
    """Which part of an array each device has, as an array of objects."""
    out = np.empty(num_devices, object)
    for k, part in enumerate(op_sharding_to_indices(op_sharding, shape, num_devices)):
        out[k] = part
    return out
