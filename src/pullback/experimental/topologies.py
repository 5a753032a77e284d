"""The devices of machines, also of those that are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..runtime.devices import devices
from ..sharding import Mesh
from .mesh_utils import create_device_mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """The devices of a machine, `devices`.

    >>> from pullback.experimental import topologies
    >>> len(topologies.TopologyDescription(pb.devices()).devices) == len(pb.devices())
    True
    """

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of this machine. RuntimeError for a platform that there is not.

    >>> from pullback.experimental import topologies
    >>> topologies.get_attached_topology("cpu").devices[0]
    CpuDevice(id=0)
    """
    return TopologyDescription(devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: Any
) -> TopologyDescription:
    """The devices of a machine that is not there, by its name. There are none of CPUs, which
    NotImplementedError says, as in JAX, and no other platforms, which RuntimeError says.

    >>> from pullback.experimental import topologies
    >>> topologies.get_topology_desc("v4:2x2x1", "tpu")
    Traceback (most recent call last):
        ...
    RuntimeError: ...
    """
    if platform == "cpu":
        raise NotImplementedError(
            "topology not implemented for cpu. Fix: get_attached_topology() gives the devices that "
            "are there."
        )
    raise RuntimeError(
        f"the platform {platform or 'tpu'} is not there, and cannot describe the machine "
        f"{topology_name!r}. Fix: get_attached_topology() gives the devices that are there."
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh of a machine's devices, of the shape `mesh_shape`.

    >>> from pullback.experimental import topologies
    >>> topologies.make_mesh(topologies.get_attached_topology(), (1,), ("x",)).shape
    OrderedDict({'x': 1})

    ValueError for a shape of another number of devices.
    """
    grid = create_device_mesh(
        list(mesh_shape), list(topo.devices), contiguous_submeshes=contiguous_submeshes
    )
    return Mesh(grid, axis_names)
