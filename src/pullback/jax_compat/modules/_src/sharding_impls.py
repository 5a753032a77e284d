"""`jax._src.sharding_impls`: the kinds of shardings."""

from __future__ import annotations

from typing import Any

from .... import sharding
from ....api.placement import asked_sharding
from ....backends.xla import contexts
from ....control import call
from ....lazy_imports import lazy_module
from ....runtime import meshes, partition_spec, shardings
from . import gspmd
from .searched import searched

named_sharding: Any = lazy_module("pullback.jax_compat.modules._src.named_sharding")


def is_single_device_sharding(s: Any) -> bool:
    """Does an array lie on one device?"""
    return bool(s.num_devices == 1)


def array_mapping_to_axis_resources(array_mapping: Any) -> Any:
    """A mapping of the names of mesh axes to axes of an array, as a PartitionSpec."""
    parts: list[Any] = [()] * (max(array_mapping.values(), default=-1) + 1)
    for name, axis in array_mapping.items():
        parts[axis] = (*parts[axis], name)
    return sharding.PartitionSpec(*(p[0] if len(p) == 1 else p or None for p in parts))


def canonicalize_sharding(sharding: Any, api_name: str, check_mesh_consistency: bool = True) -> Any:
    """The NamedSharding, over the mesh's axes without its devices, that an `out_sharding` of the
    function `api_name` means; None means none. ValueError for a PartitionSpec outside of a mesh,
    TypeError for anything else. Axes are looked at whether `check_mesh_consistency` or not."""
    if sharding is None:
        return None
    found = asked_sharding(api_name, sharding)
    return shardings.NamedSharding(found.mesh.abstract_mesh, found.spec)


__getattr__ = searched(
    "jax._src.sharding_impls",
    sharding,
    shardings,
    meshes,
    partition_spec,
    call,
    contexts,
    gspmd,
    named_sharding,
)
