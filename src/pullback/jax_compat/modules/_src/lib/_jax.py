"""`jax._src.lib._jax`: jaxlib's classes of XLA, with Pullback's own devices and errors."""

from __future__ import annotations

from typing import Any

from .....backends.xla.library import mlir_api
from .....errors import JaxRuntimeError as JaxRuntimeError
from .....runtime.array import Array as Array, ArrayImpl as ArrayImpl
from .....runtime.devices import Device as Device
from .....runtime.stub import JitFunction
from .....sharding import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from .....tree_util import PyTreeDef as PyTreeDef
from ..gspmd import GSPMDSharding as GSPMDSharding

PjitFunction = JitFunction


def __getattr__(name: str) -> Any:
    try:
        return getattr(mlir_api, name)
    except ImportError as e:  # guards of libraries expect an AttributeError
        raise AttributeError(f"module 'jaxlib._jax' has no attribute {name!r} here: {e}") from None
