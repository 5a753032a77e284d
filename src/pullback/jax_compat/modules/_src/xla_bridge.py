"""`jax._src.xla_bridge`: which backends there are, and their devices."""

from __future__ import annotations

from typing import Any

from ....extend.backend import backends as backends, get_backend as get_backend
from ....runtime.devices import (
    client,
    default_backend as default_backend,
    device_count as device_count,
    devices as devices,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
)

__all__ = ["backends", "devices", "get_backend", "local_devices"]

# What names of platforms stand for.
_ALIASES = {"gpu": ["cuda", "rocm", "oneapi"]}


def known_platforms() -> set[str]:
    """The names of platforms that there may be."""
    return {"cpu", "tpu", "cuda", "rocm", "oneapi", *_ALIASES}


def is_known_platform(platform: str) -> bool:
    """Is it a platform's name?"""
    return platform in known_platforms()


def expand_platform_alias(platform: str) -> list[str]:
    """The platforms that a name stands for."""
    return _ALIASES.get(platform, [platform])


def canonicalize_platform(platform: str) -> str:
    """The platform that a name stands for here. Raises RuntimeError if it is not here."""
    if platform not in _ALIASES:
        return platform
    found = [p for p in _ALIASES[platform] if p in backends()]
    if not found:
        raise RuntimeError(
            f"Unknown backend: '{platform}' requested, but no platforms that are instances of "
            f"{platform} are present. Platforms present are: {','.join(backends())}"
        )
    return found[0]


def using_pjrt_c_api(backend: Any = None) -> bool:
    """Does a plugin run programs? Never."""
    return False


def backends_are_initialized() -> bool:
    """Have devices been asked for?"""
    return bool(client.cache_info().currsize)


def host_id(backend: Any = None) -> int:
    """This process's number."""
    return process_index(backend)


def host_count(backend: Any = None) -> int:
    """How many processes there are."""
    return process_count(backend)


def get_device_backend(device: Any = None) -> Any:
    """The backend of a device; without one, that of the first."""
    return get_backend() if device is None else device.client


def __getattr__(name: str) -> Any:
    if name == "_backends":  # those in use: how many devices there are is still open before
        return backends() if client.cache_info().currsize else {}
    raise AttributeError(f"module 'jax._src.xla_bridge' has no attribute {name!r}")
