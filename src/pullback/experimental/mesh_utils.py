"""Arrangements of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sharding import make_mesh

__all__ = ["create_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> Any:
    """The devices in an array of this shape. ValueError if there are not enough.

    `devices`: those of `pullback.devices()` by default; options for accelerators have no meaning
    here.

    >>> from pullback.experimental import mesh_utils
    >>> mesh_utils.create_device_mesh((1,), pullback.devices()[:1]).shape
    (1,)
    """
    return make_mesh(mesh_shape, tuple(map(str, range(len(mesh_shape)))), devices=devices).devices
