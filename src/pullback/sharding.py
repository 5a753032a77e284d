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
from .runtime.shardings import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    ManualAxisType as ManualAxisType,
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    make_mesh as make_mesh,
    make_single_device_sharding as make_single_device_sharding,
    named_mesh as named_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
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
