"""Compiled functions for other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..api.serialized import dump_compiled, load_compiled
from ..api.stages import Compiled
from ..runtime.devices import devices

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """(a compiled function as bytes, the structure of its arguments, that of its results).

    >>> from pullback.experimental import serialize_executable as se
    >>> compiled = pb.jit(lambda x: x + 1).lower(jnp.zeros(3)).compile()
    >>> se.deserialize_and_load(*se.serialize(compiled))(jnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)

    NotImplementedError if it calls Python; ValueError if it has operations that are not of this
    package.
    """
    return dump_compiled(compiled), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """The compiled function of what `serialize` gave, on the platform `backend` and the devices
    `execution_devices`: by default those of this process. The machine code is compiled here, or
    found on disk if it was compiled on this machine before.

    >>> from pullback.experimental import serialize_executable as se
    >>> parts = se.serialize(pb.jit(jnp.sin).lower(0.0).compile())
    >>> se.deserialize_and_load(*parts)(0.0)
    Array(0., dtype=float32, weak_type=True)

    ValueError for other bytes; RuntimeError for a platform that there is not.
    """
    if backend is not None:
        devices(backend if isinstance(backend, str) else backend.platform)
    return load_compiled(serialized, in_tree, out_tree, execution_devices)
