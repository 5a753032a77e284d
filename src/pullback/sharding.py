"""Shardings as data: meshes of devices with named axes, and how the axes of an array lie on them.

On one device every sharding is trivial; programs that name shardings run unchanged, and
transformations keep what is written here.
"""

from __future__ import annotations

from typing import Any

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


def reshard(xs: Any, out_shardings: Any) -> Any:
    """`xs`, laid out as asked; on one device, `xs`.

    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> pb.reshard(jnp.arange(3), pb.NamedSharding(mesh, pb.P("i")))
    Array([0, 1, 2], dtype=int32)
    """
    return xs


def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """`f`, whose mesh axes the compiler decides; on one device, `f`.

    >>> pb.sharding.auto_axes(lambda x: x + 1, out_sharding=None)(1)
    2
    """
    return (
        (lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding))
        if f is None
        else _drop_sharding(f)
    )


def explicit_axes(f: Any = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """`f`, whose mesh axes are part of types; on one device, `f`.

    >>> pb.sharding.explicit_axes(lambda x: x + 1, in_sharding=None)(1)
    2
    """
    return (
        (lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding))
        if f is None
        else _drop_sharding(f)
    )


def _drop_sharding(f: Any) -> Any:
    def call(*args: Any, out_sharding: Any = None, in_sharding: Any = None, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return call
