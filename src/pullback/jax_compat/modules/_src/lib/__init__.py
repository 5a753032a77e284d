"""`jax._src.lib`: what libraries and tests take from XLA's bindings. What is jaxlib's is loaded
when it is asked for."""

from __future__ import annotations

from typing import Any

from .....lazy_imports import lazy_module
from ... import version as _version
from . import _jax as _jax, mlir as mlir, xla_client as xla_client

__all__ = ["version", "version_str", "xla_client"]

version = _version.__version_info__
version_str = _version.__version__
cuda_versions = None  # CUDA is not there
_MODULES = (
    "cpu_feature_guard gpu_linalg gpu_prng gpu_rnn gpu_solver gpu_sparse gpu_triton lapack utils "
    "weakref_lru_cache _pretty_printer _profile_data _profiler"
).split()


def __getattr__(name: str) -> Any:
    """The numbers that jaxlib's interfaces are counted by."""
    if name == "jaxlib_extension_version":
        return xla_client._version
    if name == "ifrt_version":
        return xla_client._ifrt_version
    if name in _MODULES:
        return lazy_module(f"jaxlib.{name}")
    if name in ("ffi", "guard_lib", "jax_jit", "pytree"):
        return getattr(_jax, name)
    raise AttributeError(f"module 'jax._src.lib' has no attribute {name!r}")
