"""`jax._src.earray`: arrays of extended dtypes, which hold the array that their elements are made
of."""

from __future__ import annotations

from typing import Any


class EArray:
    """An array of an extended dtype (`aval` says which), over the array `data`."""

    __slots__ = ("_data", "aval")

    def __init__(self, aval: Any, data: Any) -> None:
        self.aval, self._data = aval, data

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    itemsize = property(lambda self: self._data.nbytes // max(self.size, 1))
    devices = property(lambda self: self._data.devices)
    device = property(lambda self: self._data.device)
    sharding = property(lambda self: self._data.sharding)
    committed = property(lambda self: self._data.committed)
    is_deleted = property(lambda self: self._data.is_deleted)
    delete = property(lambda self: self._data.delete)

    def block_until_ready(self) -> EArray:
        """Waits for the array."""
        self._data.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        """Has the array on the host soon."""
        self._data.copy_to_host_async()

    def copy(self) -> EArray:
        """Another array of the same elements."""
        return EArray(self.aval, self._data.copy())

    def __repr__(self) -> str:
        return f"E{self._data!r}"

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        element = self.aval.update(shape=self.shape[1:])
        return (EArray(element, row) for row in self._data)
