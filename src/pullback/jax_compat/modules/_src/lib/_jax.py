"""`jax._src.lib._jax`: jaxlib's classes of XLA, with Pullback's own devices and errors."""

from __future__ import annotations

from typing import Any

from .....backends.xla.library import mlir_api
from .....errors import JaxRuntimeError as JaxRuntimeError
from .....runtime.array import ArrayImpl as ArrayImpl
from .....runtime.devices import Device as Device
from .....sharding import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from .....tree_util import PyTreeDef as PyTreeDef
from ..gspmd import GSPMDSharding as GSPMDSharding


def __getattr__(name: str) -> Any:
    return getattr(mlir_api, name)
