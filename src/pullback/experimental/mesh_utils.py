"""Arrangements of devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..runtime.devices import devices as all_devices
from ..runtime.meshes import make_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> Any:
    """The devices in an array of this shape. ValueError if there are more or fewer.

    `devices`: those of `pullback.devices()` by default; options for accelerators have no meaning
    here.

    >>> from pullback.experimental import mesh_utils
    >>> mesh_utils.create_device_mesh((1,), pullback.devices()[:1]).shape
    (1,)
    """
    count = len(all_devices() if devices is None else devices)
    if math.prod(mesh_shape) != count:
        raise ValueError(
            f"Number of devices {count} must equal the product of mesh_shape {tuple(mesh_shape)}. "
            "Fix: name the devices, devices=jax.devices()[:n]."
        )
    return make_mesh(mesh_shape, tuple(map(str, range(len(mesh_shape)))), devices=devices).devices


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Any = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> Any:
    """The devices of several groups that are connected more slowly, in an array whose shape is
    the product of both shapes. ValueError for processors, which are in no such groups, unless
    `process_is_granule` says that each process is one: here there is one.

    `mesh_shape` and `dcn_mesh_shape`: as many sizes each, in the group and of the groups.

    >>> from pullback.experimental import mesh_utils
    >>> one = pullback.devices()[:1]
    >>> mesh_utils.create_hybrid_device_mesh((1,), (1,), one, process_is_granule=True).shape
    (1,)
    """
    found = list(all_devices() if devices is None else devices)
    if not process_is_granule:
        raise ValueError(
            f"Device {found[0]} does not have attribute slice_index. See `process_is_granule` "
            "option."
        )
    groups = math.prod(dcn_mesh_shape)
    if groups != 1:
        raise ValueError(
            f"Number of slices/processes 1 must equal the product of dcn_mesh_shape "
            f"{tuple(dcn_mesh_shape)}"
        )
    return create_device_mesh(mesh_shape, found)
