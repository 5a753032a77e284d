"""Arrangements of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sharding import make_mesh

__all__ = ["create_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> Any:
    """The devices in an array of this shape. ValueError if there are not enough."""
    return make_mesh(mesh_shape, tuple(map(str, range(len(mesh_shape)))), devices=devices).devices
