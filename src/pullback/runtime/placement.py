"""Where arrays are: the device and sharding of an Array, and arrays put somewhere on purpose
(committed).

All devices of a process share its memory, so that a placed array is the same memory with its
sharding noted. Installed on ArrayImpl when this module is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import config
from ..core.avals import ShapedArray, typeof as aval_of
from ..primitives.keys import PRNGKeyArray, wrap_results
from . import native_layout as L
from .array import ArrayImpl, deleted_error, make_array, np_view, place_new, twin, wait
from .commitment import commit, laid_out
from .devices import Device, devices as all_devices
from .layouts import Format, Layout
from .shardings import Sharding, SingleDeviceSharding, default_place, interned, on_devices

__all__ = ["Shard", "place", "sharding_of", "typeof"]


class Shard:
    """The part of an array that one device holds: `data` is an array, `index` its place in the
    whole.

    >>> shard = jnp.arange(3).addressable_shards[0]
    >>> shard.device, shard.data
    (CpuDevice(id=0), Array([0, 1, 2], dtype=int32))
    """

    def __init__(
        self, device: Device, sharding: Sharding, global_shape: Any, data: Any, replica_id: int = 0
    ) -> None:
        self.device, self._sharding, self._global_shape = device, sharding, tuple(global_shape)
        self.data, self.replica_id = data, replica_id

    @property
    def index(self) -> tuple[slice, ...]:
        return self._sharding.devices_indices_map(self._global_shape)[self.device]

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def sharding_of(x: Any) -> Sharding:
    """The sharding that an array was put with, or that of the default device."""
    held = getattr(getattr(x, "_base_array", x), "_lies_on", None)
    if isinstance(held, Sharding):
        return held
    return SingleDeviceSharding(_first_device()) if held is None else held.sharding


def _first_device() -> Device:
    return all_devices()[0]


def _place_new(x: Any) -> Any:
    """A new array, on the default device of this thread."""
    x._lies_on = default_place()
    return x


def _default_changed() -> None:
    """New arrays are told where they lie if that may be another device than the first."""
    flag = config.default_device
    given = (flag.value, *(own.get(flag) for own in config.overrides().values()))
    place_new[:] = [_place_new] if any(d is not None for d in given) else []


config.on_change.append(_default_changed)


def typeof(x: Any) -> Any:
    """The aval of any value that a primitive accepts: array, tracer, NumPy array or scalar, Python
    scalar. That of an array on axes of explicit type says over which of them it lies.

    Raises TypeError for anything else.

    >>> pb.typeof(jnp.zeros((2, 3))), pb.typeof(1.5)
    (ShapedArray(float32[2,3]), ShapedArray(float32[], weak_type=True))
    """
    return aval_of(x)


def place(x: Any, sharding: Sharding) -> Any:
    """The same values as another Array, committed to a sharding. ValueError if the shape cannot be
    divided so.
    """
    sharding = on_devices(sharding, sharding_of(x))
    sharding.shard_shape(aval_of(x).shape)
    if isinstance(x, PRNGKeyArray):
        words = place(x._base_array, sharding)
        return wrap_results([words], [laid_out(x.aval, sharding)])[0]
    wait(x)
    placed = twin(x)
    commit([placed], [interned(sharding)])
    return placed


def _device(self: Any) -> Any:
    _check_there(self)
    sharding = sharding_of(self)
    devices = sharding.device_set
    return next(iter(devices)) if len(devices) == 1 else sharding


def _shards(self: Any) -> list[Shard]:
    _check_there(self)
    sharding = sharding_of(self)
    shape = self.aval.shape
    if isinstance(self, PRNGKeyArray):
        return [_shard_of_keys(self, s) for s in _shards(self._base_array)]
    alone = self if len(sharding.device_set) == 1 else None
    shards, copies = [], {}  # type: ignore[var-annotated]
    for device, index in sharding.devices_indices_map(shape).items():
        key = tuple((s.start, s.stop) for s in index)
        data = self
        if alone is None:
            whole = all(s == slice(None) for s in index)
            part = self if whole else make_array(np_view(self)[index], copy=True)
            data = place(part, SingleDeviceSharding(device, memory_kind=sharding.memory_kind))
        shards.append(Shard(device, sharding, shape, data, copies.get(key, 0)))
        copies[key] = copies.get(key, 0) + 1
    return shards


def _shard_of_keys(keys: Any, words: Shard) -> Shard:
    """The part of an array of keys whose words are this part."""
    shape = words.data.shape[: keys.ndim]
    data = wrap_results([words.data], [keys.aval.update(shape=shape, sharding=None)])[0]
    return Shard(words.device, keys.sharding, keys.shape, data, words.replica_id)


def devices(self: Any) -> set[Device]:
    """The devices that hold the array.

    >>> jnp.zeros(3).devices()
    {CpuDevice(id=0)}
    """
    _check_there(self)
    return sharding_of(self).device_set


def _check_there(x: Any) -> None:
    """RuntimeError for a deleted array, which lies nowhere."""
    held = x._base_array if isinstance(x, PRNGKeyArray) else x
    if getattr(held, "_state", None) == L.DELETED:
        raise deleted_error(held)


def addressable_data(self: Any, index: int) -> Any:
    """The array that the device number `index` of this process holds: where each holds all of it,
    whatever the number.

    >>> jnp.arange(3).addressable_data(0)
    Array([0, 1, 2], dtype=int32)
    """
    return _shards(self)[0 if self.is_fully_replicated else index].data


def to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device, or with another sharding."""
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device(). Fix: leave it out.")
    return place(self, device if isinstance(device, Sharding) else SingleDeviceSharding(device))


_PROPERTIES = {
    "sharding": (
        sharding_of,
        """How the array lies on devices.

    >>> jnp.zeros(3).sharding.device_set
    {CpuDevice(id=0)}
    """,
    ),
    "device": (
        _device,
        """The device, if there is one; else the sharding.

    >>> jnp.zeros(3).device
    CpuDevice(id=0)
    """,
    ),
    "addressable_shards": (
        _shards,
        """The parts that this process's devices hold, as `Shard`s.

    >>> [shard.index for shard in jnp.zeros(3).addressable_shards]
    [(slice(None, None, None),)]
    """,
    ),
    "global_shards": (
        _shards,
        """The parts that all devices hold, as `Shard`s.

    >>> len(jnp.zeros(3).global_shards)
    1
    """,
    ),
    "is_fully_replicated": (
        lambda self: sharding_of(self).is_fully_replicated,
        """Has every device every element?

    >>> jnp.zeros(3).is_fully_replicated
    True
    """,
    ),
    "format": (
        lambda self: Format(Layout(tuple(range(len(self.aval.shape))), ()), sharding_of(self)),
        """The order of the axes in memory, and the sharding.

    >>> jnp.zeros((2, 3)).format.layout.major_to_minor
    (0, 1)
    """,
    ),
    "traceback": (
        lambda self: None,
        """None: the line that made an array is known while tracing only.

    >>> jnp.zeros(3).traceback is None
    True
    """,
    ),
}


def _install() -> None:
    for cls in (ArrayImpl, PRNGKeyArray):
        for name, (get, doc) in _PROPERTIES.items():
            setattr(cls, name, property(get, doc=doc))
        for function in (devices, addressable_data, to_device):
            setattr(cls, function.__name__, function)


_install()


def from_shards(shape: Any, sharding: Sharding, arrays: Any, dtype: Any = None) -> Any:
    """One array of the parts that devices hold, each of them the part of its own device and of
    `dtype`, by default that of the first part."""
    shape = tuple(shape)
    places = sharding.devices_indices_map(shape)
    if len(places) != len(arrays):
        raise ValueError(
            f"Expected {len(places)} per-device arrays (this is how many devices are addressable "
            f"by the sharding), but got {len(arrays)}"
        )
    by_device = {d: a for a in arrays for d in a.devices()}
    if len(by_device) != len(arrays):
        ids = [d.id for a in arrays for d in a.devices()]
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be from "
            f"distinct devices, but got device IDs {ids}. Fix: jax.device_put(part, device) "
            "for each device of the sharding."
        )
    if by_device.keys() != places.keys():
        here, there = ({d.id for d in x} for x in (places, by_device))
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding contains "
            f"devices {here - there} that are not present in per-device arrays. Per-device arrays "
            f"contain devices {there - here} that are not present in the sharding."
        )
    if any(isinstance(a, PRNGKeyArray) for a in arrays):
        words = [a._base_array for a in arrays]
        whole = from_shards((*shape, *words[0].shape[len(shape) :]), sharding, words)
        return wrap_results([whole], [arrays[0].aval.update(shape=shape)])[0]
    want = sharding.shard_shape(shape)
    dtype = arrays[0].dtype if dtype is None else dtype
    for part in arrays:
        if part.dtype != dtype:
            raise ValueError(
                "Input buffers to `Array` must have matching dtypes. Got "
                f"{part.dtype}, expected {dtype}. Fix: part.astype(dtype)"
            )
    whole = np.empty(shape, by_device[next(iter(places))].dtype)
    for device, index in places.items():
        part = np.asarray(by_device[device])
        if part.shape != want:
            own = ShapedArray(shape, part.dtype).str_short()
            raise ValueError(
                f"Expected shard shape {want} doesn't match the single device array shape "
                f"{part.shape}. Shape of Array is {own} with sharding {sharding}"
            )
        whole[index] = part
    return place(make_array(whole), sharding)


def _made(
    cls: type, aval: Any, sharding: Sharding, arrays: Any, committed: bool = True,
    _skip_checks: bool = False,
) -> Any:  # fmt: skip
    """An array of the parts that devices hold, as tests of JAX call its class."""
    out = from_shards(aval.shape, sharding, arrays, aval.dtype)
    if not committed and len(sharding.device_set) == 1:
        out._lies_on = None
    return out


def _parts(self: Any) -> Any:
    """What each device holds; None of a deleted array."""
    return None if self._state == L.DELETED else [shard.data for shard in _shards(self)]


def _install_private() -> None:
    """What tests of JAX read of arrays that is not public."""
    cls: Any = ArrayImpl
    cls.__new__ = staticmethod(_made)
    cls._arrays = property(_parts)
    cls._value = property(np.asarray)
    cls._check_if_deleted = _check_there
    cls._fully_replicated_shard = lambda self: addressable_data(self, 0)


_install_private()
