"""`jax._src.lib`: what libraries take from XLA's bindings."""

from __future__ import annotations

from types import SimpleNamespace

from ....errors import JaxRuntimeError
from .. import version as _version

__all__ = ["version", "version_str", "xla_client"]

version = _version.__version_info__
version_str = _version.__version__
xla_client = SimpleNamespace(XlaRuntimeError=JaxRuntimeError)
