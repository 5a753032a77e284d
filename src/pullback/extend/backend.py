"""The one backend of this process: its devices, its programs in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..api.jit import clear_caches
from ..runtime.devices import client, default_backend as default_backend
from ..version import __version__

_factories: dict[str, tuple[int, Callable[[], Any]]] = {}
_caches: list[Any] = []


def get_backend(platform: Any = None) -> Any:
    """The client of a platform. RuntimeError for one that is not present.

    >>> from pullback.extend import backend
    >>> backend.get_backend("cpu").platform
    'cpu'
    """
    if platform in (None, "cpu") or platform is client():
        return client()
    if platform in _factories:
        return _registered(platform)
    raise RuntimeError(
        f"Unknown backend: '{platform}' requested, but no platforms that are instances of "
        f"{platform} are present. Platforms present are: {', '.join(['cpu', *_factories])}."
    )


@functools.cache
def _registered(platform: str) -> Any:
    return _factories[platform][1]()


def backends() -> dict[str, Any]:
    """Every platform that is present, and its client.

    >>> from pullback.extend import backend
    >>> backend.backends()["cpu"].platform
    'cpu'
    """
    return {"cpu": client(), **{name: _registered(name) for name in _factories}}


def backend_xla_version(platform: Any = None) -> int | None:
    """The version of the XLA that a backend is made of: None, the native backend has none in it.

    >>> from pullback.extend import backend
    >>> backend.backend_xla_version() is None
    True
    """
    get_backend(platform)
    return None


def clear_backends(_crash: bool = False) -> None:
    """Forgets every compiled program. The devices stay: arrays live on them.

    >>> from pullback.extend import backend
    >>> backend.clear_backends()
    """
    clear_caches()
    for cache in _caches:
        cache.cache_clear()


def clear_in_memory_compilation_cache() -> None:
    """Forgets the compiled programs of this process; those on disk stay.

    >>> from pullback.extend import backend
    >>> backend.clear_in_memory_compilation_cache()
    """
    clear_caches()


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Any = None,
    env_options_overrides: dict[str, str] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Any = None,
) -> dict[str, Any]:
    """The options of a compilation, as a dictionary.

    >>> from pullback.extend import backend
    >>> backend.get_compile_options(1, 1)["num_replicas"]
    1
    """
    return {
        "num_replicas": num_replicas,
        "num_partitions": num_partitions,
        "device_assignment": device_assignment,
        "env_option_overrides": dict(env_options_overrides or {}),
        "fdo_profile": fdo_profile,
        "version": __version__,
    }


def get_default_device() -> Any:
    """The device of new arrays, if nothing else is said.

    >>> from pullback.extend import backend
    >>> backend.get_default_device()
    CpuDevice(id=0)
    """
    return client().devices()[0]


def register_backend_factory(
    name: str,
    factory: Callable[[], Any],
    *,
    priority: int = 0,
    fail_quietly: bool = True,
    experimental: bool = False,
    make_topology: Any = None,
    c_api: Any = None,
) -> None:
    """Makes `get_backend(name)` give what `factory()` makes, once.

    >>> from pullback.extend import backend
    >>> backend.register_backend_factory("example_chip", lambda: "the client")
    >>> backend.get_backend("example_chip")
    'the client'
    """
    _factories[name] = priority, factory
    _registered.cache_clear()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """`cache.cache_clear()` is called when the backends are cleared.

    >>> import functools
    >>> from pullback.extend import backend
    >>> square = functools.cache(lambda x: x * x)
    >>> backend.register_backend_cache(square, "squares")
    """
    _caches.append(cache)


def add_clear_backends_callback(callback: Callable[[], Any]) -> None:
    """`callback()` is called when the backends are cleared."""
    _caches.append(_Clearing(callback))


class _Clearing:
    def __init__(self, callback: Callable[[], Any]) -> None:
        self.cache_clear = callback
