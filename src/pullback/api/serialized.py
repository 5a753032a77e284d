"""Compiled functions as bytes: their programs, for other processes, which find the machine code on
disk if this machine has compiled it before."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from ..control.expand import expand
from ..core.avals import typeof
from ..core.jaxpr import ClosedJaxpr
from ..core.refs import is_ref_aval
from ..runtime.dispatch import executable
from ..runtime.shardings import SingleDeviceSharding
from .export_bytes import Reader, Writer, without_refs
from .jit import TracedCall
from .stages import Compiled

MAGIC = b"pullback compiled 1\n"
_PARAMS = (
    "donated_invars", "in_shardings", "out_shardings", "in_layouts", "out_layouts", "ctx_mesh",
    "keep_unused", "inline", "name", "compiler_options_kvs",
)  # fmt: skip


def _pack(writer: Writer, **fields: Any) -> bytes:
    data = {"scopes": writer.scopes, "programs": writer.programs, **fields}
    return MAGIC + zlib.compress(json.dumps(data, separators=(",", ":")).encode())


def _unpack(data: bytes) -> tuple[Reader, Any]:
    if not bytes(data).startswith(MAGIC):
        raise ValueError(
            "these bytes are no compiled function that this package wrote. Fix: serialize the "
            "function again."
        )
    fields = json.loads(zlib.decompress(bytes(data)[len(MAGIC) :]))
    return Reader(fields), fields


def dump_compiled(compiled: Compiled) -> bytes:
    """A compiled function as bytes. NotImplementedError if it calls Python; ValueError if it has
    operations that are not of this package, or holds references."""
    writer, call = Writer(), compiled._call
    if any(is_ref_aval(typeof(x)) for x in call.consts):
        raise ValueError(
            "can't serialize with a closed-over mutable array ref. Fix: pass it as an argument."
        )
    return _pack(
        writer,
        closed=writer.value(without_refs(expand(call.closed))),
        consts=writer.value(list(call.consts)),
        params=writer.value({k: call.params[k] for k in _PARAMS}),
        lies=writer.value(list(compiled._lies)),
        placed=writer.value(list(compiled._placed)),
    )


def load_compiled(
    data: bytes, in_tree: Any, out_tree: Any, execution_devices: Sequence[Any] | None = None
) -> Compiled:
    """The compiled function that bytes say, for these devices. ValueError for other bytes."""
    reader, fields = _unpack(data)
    closed, params = reader.value(fields["closed"]), reader.value(fields["params"])
    call = TracedCall(closed, reader.value(fields["consts"]), out_tree, {**params, "jaxpr": closed})
    where = [SingleDeviceSharding(d) for d in execution_devices or ()]
    lies = [
        x if hasattr(x, "memory_kind") else (where[0] if where else None)
        for x in reader.value(fields["lies"])
    ]
    compiled = Compiled(call, in_tree, None, lies)
    compiled._placed = [
        x if hasattr(x, "memory_kind") else None for x in reader.value(fields["placed"])
    ]
    compiled.runtime_executable()
    return compiled


def dump_executable(found: Any) -> bytes:
    """An executable as bytes. ValueError if its program has constants that it does not say."""
    if found.source.constvars:
        raise ValueError("an executable whose program closes over arrays cannot be written")
    writer = Writer()
    return _pack(writer, closed=writer.value(ClosedJaxpr(found.source, [])))


def load_executable(data: bytes) -> Any:
    """The executable that bytes say."""
    reader, fields = _unpack(data)
    return executable(reader.value(fields["closed"]))
