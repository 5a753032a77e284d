"""`jax._src.named_sharding`: shardings over meshes whose axes have names."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .... import sharding
from ....backends.xla.sharding import SdyArray as SdyArray, SdyDim as SdyDim
from ....control import call
from ....runtime import meshes, partition_spec, shardings
from .searched import searched
from .sharding_impls import array_mapping_to_axis_resources as array_mapping_to_axis_resources

ArrayMapping = OrderedDict[Any, int]


def get_array_mapping(spec: Any) -> OrderedDict[Any, int]:
    """Of a PartitionSpec: which axis of the array each mesh axis divides."""
    found: OrderedDict[Any, int] = OrderedDict()
    for axis, part in enumerate(spec):
        for name in part if isinstance(part, tuple) else (part,):
            if name is not None:
                found[name] = axis
    return found


__getattr__ = searched("jax._src.named_sharding", sharding, shardings, meshes, partition_spec, call)
