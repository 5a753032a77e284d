"""Shardings of XLA: tiles of devices, as protocol buffers. Needs jaxlib (`pip install
pullback[xla]`).
"""

from __future__ import annotations

from typing import Any

from ..backends.xla.library import hlo_api as _hlo, xla_client as xla_client


def __getattr__(name: str) -> Any:
    """What is jaxlib's is looked up when it is asked for."""
    if name == "GSPMDSharding":
        return xla_client.GSPMDSharding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "GSPMDSharding"})


def get_op_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The sharding that the bytes of an OpSharding are, as a protocol buffer.

    >>> from pullback.extend import sharding
    >>> tiles = sharding.xla_client.HloSharding.iota_tile((2, 2))
    >>> data = sharding.get_serialized_proto_from_hlo_sharding(tiles)
    >>> sharding.get_op_sharding_from_serialized_proto(data).tile_assignment_dimensions
    [2, 2]
    """
    proto = _hlo.OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """The sharding that the bytes of an OpSharding are.

    >>> from pullback.extend import sharding
    >>> tiles = sharding.xla_client.HloSharding.iota_tile((2, 2))
    >>> data = sharding.get_serialized_proto_from_hlo_sharding(tiles)
    >>> sharding.get_hlo_sharding_from_serialized_proto(data)
    {devices=[2,2]<=[4]}
    """
    return _hlo.HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: Any) -> bytes:
    """The bytes of a sharding of XLA.

    >>> from pullback.extend import sharding
    >>> everywhere = sharding.xla_client.HloSharding.replicate()
    >>> type(sharding.get_serialized_proto_from_hlo_sharding(everywhere))
    <class 'bytes'>
    """
    return bytes(sharding.to_proto().SerializeToString())
