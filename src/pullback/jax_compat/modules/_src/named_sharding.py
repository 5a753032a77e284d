"""`jax._src.named_sharding`: shardings over meshes whose axes have names."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any

from .... import sharding
from ....control import call
from ....runtime import meshes, partition_spec, shardings
from .searched import searched
from .sharding_impls import array_mapping_to_axis_resources as array_mapping_to_axis_resources

ArrayMapping = OrderedDict[Any, int]


@dataclasses.dataclass(frozen=True)
class SdyDim:
    """The names of axes that an array's axis is divided over, as Shardy has them."""

    axes: tuple[str, ...]
    is_open: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class SdyArray:
    """A sharding, as Shardy has it."""

    mesh_shape: tuple[tuple[str, int], ...] | None
    dim_shardings: tuple[SdyDim, ...]
    logical_device_ids: tuple[int, ...] | None = None
    replicated_axes: frozenset[str] = frozenset()
    unreduced_axes: frozenset[str] = frozenset()


def get_array_mapping(spec: Any) -> OrderedDict[Any, int]:
    """Of a PartitionSpec: which axis of the array each mesh axis divides."""
    found: OrderedDict[Any, int] = OrderedDict()
    for axis, part in enumerate(spec):
        for name in part if isinstance(part, tuple) else (part,):
            if name is not None:
                found[name] = axis
    return found


__getattr__ = searched("jax._src.named_sharding", sharding, shardings, meshes, partition_spec, call)
