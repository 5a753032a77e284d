"""`colocated_python.serialization`: how values are named on other hosts. There is one host here."""

from __future__ import annotations

from typing import Any


class DeviceList(tuple[Any, ...]):
    """Devices in order.

    >>> len(DeviceList(pb.devices()))
    1
    """

    __slots__ = ()
