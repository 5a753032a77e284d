"""The devices of this process: one CPU, or several virtual ones over the same memory."""

from __future__ import annotations

import functools
import os
import platform as host_platform
import warnings
from typing import Any

from .. import config, errors
from . import memory

# One memory under three names: programs that move arrays between kinds run unchanged.
_MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class Device:
    """A device. All CPU devices share the machine's memory and threads.

    Devices are not made by users: `devices()` gives them.

    >>> device = pb.devices()[0]
    >>> device.platform, device.id
    ('cpu', 0)
    """

    def __init__(self, index: int, client: Client) -> None:
        self.id = self.local_hardware_id = index
        self.client = client
        self.platform = "cpu"
        self.device_kind = "cpu"
        self.process_index = self.host_id = self.task_id = 0

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and what is unpickled in another process, are that process's device."""
        return _device, (self.id,)

    def memory_stats(self) -> dict[str, int]:
        """Bytes in use, their peak, cached for reuse, mapped from the system and the limit of the
        cache; allocations and maps so far. Virtual devices share one memory."""
        return memory.memory_stats()

    def addressable_memories(self) -> list[Memory]:
        return [Memory(kind, self) for kind in _MEMORY_KINDS]

    def default_memory(self) -> Memory:
        return Memory("device", self)

    def memory(self, kind: str) -> Memory:
        """The memory of a kind; JaxRuntimeError if the device has none such."""
        if kind not in _MEMORY_KINDS:
            raise errors.JaxRuntimeError(
                "INVALID_ARGUMENT: Could not find memory addressable by device cpu. Device cpu can "
                "address the following memory kinds: "
                f"{', '.join(_MEMORY_KINDS)}. Got memory kind: {kind}"
            )
        return Memory(kind, self)

    def __enter__(self) -> Device:
        self._context = config.default_device(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)


class Memory:
    """A memory of a device."""

    def __init__(self, kind: str, device: Device) -> None:
        self.kind, self.device = kind, device

    platform = property(lambda self: self.device.platform)

    def __repr__(self) -> str:
        name = "CPU_DEVICE" if self.kind == "device" else self.kind.upper()
        return f"{name}_{_MEMORY_KINDS.index(self.kind) + len(_MEMORY_KINDS) * self.device.id}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and (self.kind, self.device) == (other.kind, other.device)

    def __hash__(self) -> int:
        return hash((self.kind, id(self.device)))


class Client:
    """The process's view of its devices.

    >>> from pullback.extend import backend
    >>> client = backend.get_backend()
    >>> client.platform, client.device_count()
    ('cpu', 1)
    """

    platform = "cpu"
    platform_version = host_platform.machine()
    runtime_type = "pullback"

    def __init__(self) -> None:
        n = config.num_cpu_devices.get()
        config.settled.add(config.num_cpu_devices)
        flags = os.environ.get("XLA_FLAGS", "")
        marker = "--xla_force_host_platform_device_count="
        if n < 1 and marker in flags:
            n = int(flags.split(marker)[1].split()[0])
        self._devices = [Device(k, self) for k in range(max(n, 1))]

    def devices(self) -> list[Device]:
        return self._devices

    local_devices = devices

    def device_count(self) -> int:
        return len(self._devices)

    local_device_count = device_count

    def process_index(self) -> int:
        return 0

    def live_arrays(self) -> list[Any]:
        return []

    def __reduce__(self) -> tuple[Any, ...]:
        return client, ()


@functools.cache
def client() -> Client:
    """The one client, made at first use."""
    return Client()


def _device(index: int) -> Device:
    """The device of a number. ValueError if the process has fewer."""
    found = client().devices()
    if index >= len(found):
        raise ValueError(
            f"this process has no device {index}, only {len(found)}: what was pickled names a "
            "device of another process. Fix: jax_num_cpu_devices makes more."
        )
    return found[index]


def _check_backend(backend: Any) -> None:
    if backend is not None and backend != "cpu" and not isinstance(backend, Client):
        raise RuntimeError(
            f"Unknown backend: '{backend}' requested, but no platforms that are instances of "
            f"{backend} are present. "
            "Platforms present are: cpu. Fix: leave out the backend, or install the xla extra."
        )


def devices(backend: str | None = None) -> list[Device]:
    """All devices. RuntimeError for a platform that is not present.

    >>> pb.devices()
    [CpuDevice(id=0)]
    """
    _check_backend(backend)
    return list(client().devices())


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of this process (or of the given one). `host_id` is an old name of
    `process_index`.

    Raises ValueError for a process that does not exist, RuntimeError for a platform that is not
    present.

    >>> pb.local_devices()
    [CpuDevice(id=0)]
    """
    _check_backend(backend)
    if host_id is not None:
        process_index = host_id
        warnings.warn(
            "The argument to jax.local_devices has been renamed from `host_id` to "
            "`process_index`. Fix: local_devices(process_index=...).",
            stacklevel=2,
        )
    if process_index not in (None, 0):
        raise ValueError(f"Unknown process_index {process_index}")
    return list(client().devices())


def device_count(backend: str | None = None) -> int:
    """How many devices there are, in all processes.

    >>> pb.device_count()
    1
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.

    >>> pb.local_device_count()
    1
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process: 0, since there is one.

    >>> pb.process_index()
    0
    """
    _check_backend(backend)
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes run this program: one.

    >>> pb.process_count()
    1
    """
    _check_backend(backend)
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes.

    >>> pb.process_indices()
    [0]
    """
    _check_backend(backend)
    return [0]


def default_backend() -> str:
    """The platform of new arrays.

    >>> pb.default_backend()
    'cpu'
    """
    return "cpu"


def default_device_or_first() -> Device:
    """The device in force for new arrays."""
    chosen = config.default_device.get()
    if chosen is None:
        return client().devices()[0]
    if isinstance(chosen, str):
        return devices(chosen)[0]
    return chosen  # type: ignore[no-any-return]
