"""`jax._src.pickle_util`: values as bytes, functions without a name among them where cloudpickle is
installed."""

from __future__ import annotations

import importlib.util
import pickle
from typing import Any

from ....lazy_imports import lazy_module

cloudpickle: Any = lazy_module("cloudpickle") if importlib.util.find_spec("cloudpickle") else None


def dumps(obj: Any) -> bytes:
    """A value as bytes."""
    return bytes((cloudpickle or pickle).dumps(obj))


def loads(data: bytes) -> Any:
    """The value that `dumps` made bytes of."""
    return (cloudpickle or pickle).loads(data)
