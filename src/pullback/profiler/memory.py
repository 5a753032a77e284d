"""Which arrays hold how much memory, in the format that pprof reads; and what else JAX's profiler
has: options of recordings, and a server for tools that ask for one."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..lazy_imports import lazy_module
from ..runtime.devices import devices
from ..runtime.live import live_arrays

_xla: Any = lazy_module("jaxlib._profiler")


class ProfileOptions:
    """What a recording is to hold. The attributes are JAX's, whose values are kept; recordings hold
    the annotated parts of every thread, whatever they say.

    >>> options = pb.profiler.ProfileOptions()
    >>> options.host_tracer_level
    2
    """

    def __init__(self) -> None:
        self.host_tracer_level = 2
        self.device_tracer_level = 1
        self.python_tracer_level = 1
        self.enable_hlo_proto = True
        self.include_dataset_ops = True
        self.advanced_configuration: dict[str, Any] = {}
        self.duration_ms = self.start_timestamp_ns = 0
        self.raise_error_on_start_failure = False
        self.repository_path = self.session_id = ""


# --- pprof: a message of Protocol Buffers, written by hand ---
def _number(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes((*out, n))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


def device_memory_profile(backend: str | None = None) -> bytes:
    """The memory of the arrays that are alive, by their types: a profile that pprof reads.
    `backend`: a platform's name.

    >>> pb.profiler.device_memory_profile()[:2] == bytes([31, 139])
    True

    RuntimeError for a platform that there is not.
    """
    place = str(devices(backend)[0])
    texts = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "device", place]
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for x in live_arrays(backend):
        counts[x.aval.str_short()] += 1
        sizes[x.aval.str_short()] += x.nbytes
    out = [_field(1, _field(1, 1) + _field(2, 2)), _field(1, _field(1, 3) + _field(2, 4))]
    for k, (name, count) in enumerate(counts.items(), 1):
        texts.append(name)
        values = _field(2, _number(count) + _number(sizes[name]))
        labels = b"".join(_field(3, _field(1, a) + _field(2, b)) for a, b in ((5, 6), (7, 8)))
        out.append(_field(2, _field(1, _number(k)) + values + labels))
        out.append(_field(4, _field(1, k) + _field(4, _field(1, k))))
        out.append(_field(5, _field(1, k) + _field(2, len(texts) - 1)))
    out += [_field(6, t.encode()) for t in texts]
    return gzip.compress(b"".join(out))


def save_device_memory_profile(
    filename: os.PathLike[str] | str, backend: str | None = None
) -> None:
    """Writes `device_memory_profile` of a platform (`backend`) to the file `filename`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pb.profiler.save_device_memory_profile(folder + "/memory.prof")
    """
    with open(filename, "wb") as file:
        file.write(device_memory_profile(backend))


# --- the server ---
_server: list[Any] = []


def start_server(port: int, requires_backend: bool = True) -> Any:
    """A server at a `port` that tools of XLA's ask for recordings; backends need no start
    (`requires_backend`). Needs jaxlib (`pip install pullback[xla]`). ValueError if one runs
    already.

    >>> server = pb.profiler.start_server(9012)  # doctest: +SKIP
    """
    if _server:
        raise ValueError("Only one profiler server can be active at a time.")
    _server.append(_xla.start_server(port))
    return _server[0]


def stop_server() -> None:
    """Ends the server. ValueError if none runs.

    >>> pb.profiler.stop_server()
    Traceback (most recent call last):
        ...
    ValueError: No active profiler server.
    """
    if not _server:
        raise ValueError("No active profiler server.")
    _server.clear()


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Has recordings of XLA's server ask another process, `pid`, which has a server at that `port`,
    too.
    Gives the function that ends this. Needs jaxlib. JaxRuntimeError if there is no server.

    >>> pb.profiler.register_subprocess.__name__
    'register_subprocess'
    """
    return _xla.register_subprocess(pid, port)  # type: ignore[no-any-return]
