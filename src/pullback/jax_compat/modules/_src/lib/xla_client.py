"""`jax._src.lib.xla_client`: jaxlib's classes of XLA, with Pullback's own devices and errors."""

from __future__ import annotations

from typing import Any

from ..... import errors
from .....backends.xla.library import xla_client
from .....runtime.array import Array as Array, ArrayImpl as ArrayImpl
from .....runtime.devices import Device as Device
from .....sharding import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from ..gspmd import GSPMDSharding as GSPMDSharding

XlaRuntimeError = errors.JaxRuntimeError


def __getattr__(name: str) -> Any:
    try:
        return getattr(xla_client, name)
    except ImportError as e:  # guards of libraries expect an AttributeError
        raise AttributeError(
            f"module 'jaxlib.xla_client' has no attribute {name!r} here: {e}"
        ) from None
