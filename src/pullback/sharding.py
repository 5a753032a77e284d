"""Shardings as data: meshes of devices with named axes, and how the axes of an array lie on them.

On one device every sharding is trivial; programs that name shardings run unchanged, and
transformations keep what is written here.
"""

from __future__ import annotations

from .api.explicit import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
    reshard as reshard,
)
from .core.avals import ManualAxisType as ManualAxisType
from .runtime.meshes import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)
from .runtime.partition_spec import PartitionSpec
from .runtime.shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]
