"""Shardings as data: how the axes of an array lie on the axes of a mesh.

On one device every sharding is trivial; programs that name shardings run unchanged, and
transformations keep what is written here.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import config
from ..core.avals import Space as Space, set_unsharded
from ..errors import DuplicateSpecError, IndivisibleError
from ..lazy_imports import lazy_module
from .devices import Device, default_device_or_first, devices
from .meshes import AbstractMesh, Mesh, MeshBase, concrete_mesh, get_abstract_mesh, mesh_here
from .partition_spec import PartitionSpec, axes_of


class Sharding:
    """How an array lies on devices.

    >>> isinstance(jnp.zeros(3).sharding, pb.sharding.Sharding)
    True
    """

    memory_kind: str | None = None

    @property
    def device_set(self) -> set[Device]:
        raise TypeError(f"{type(self).__name__} must define device_set")

    addressable_devices = property(lambda self: self.device_set)
    is_fully_addressable = property(lambda self: True)
    num_devices = property(lambda self: len(self.device_set))
    # The devices in the order of an array's parts: what libraries read and write by.
    _device_assignment = property(lambda self: tuple(self.devices_indices_map(())))
    _addressable_device_assignment = property(lambda self: self._device_assignment)

    @property
    def is_fully_replicated(self) -> bool:
        return len(self.device_set) == 1

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        return {d: tuple(slice(None) for _ in global_shape) for d in self.device_set}

    addressable_devices_indices_map = devices_indices_map

    def _blocks(self, ndim: int) -> dict[Device, tuple[tuple[int, int], ...]]:
        """Which block of how many each device holds, axis by axis."""
        return dict.fromkeys(self.device_set, ((0, 1),) * ndim)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Do arrays of `ndim` axes lie alike in both: each device holds the same elements?

        >>> mesh = pb.make_mesh((1,), ("x",))
        >>> pb.NamedSharding(mesh, pb.P("x")).is_equivalent_to(pb.NamedSharding(mesh, pb.P()), 2)
        True
        """
        return self == other or (
            isinstance(other, Sharding)
            and self.memory_kind == other.memory_kind
            and self._blocks(ndim) == other._blocks(ndim)
        )

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """ValueError if arrays of this shape have too few axes for this sharding."""

    def with_memory_kind(self, kind: str) -> Sharding:
        """This sharding in another kind of memory."""
        return self

    # What libraries hand to XLA, and to its partitioner.
    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return _xla_mesh.tiles_of({}, (), num_dimensions)

    def _to_sdy_sharding(self, num_dimensions: int) -> Any:
        return _xla_sharding.as_array(None, (), num_dimensions)

    _internal_device_list = property(lambda self: self._device_assignment)


_xla_mesh: Any = lazy_module("pullback.backends.xla.mesh")
_xla_sharding: Any = lazy_module("pullback.backends.xla.sharding")

_MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


def checked_memory_kind(kind: str | None) -> str:
    """The kind of memory that is meant. ValueError if devices have none such."""
    if kind is None:
        return "device"
    if kind not in _MEMORY_KINDS:
        raise ValueError(
            "Could not find memory addressable by device cpu. Device cpu can address the following "
            f"memory kinds: {', '.join(_MEMORY_KINDS)}. Got memory kind: {kind}"
        )
    return kind


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.device_put(jnp.arange(3), sharding).committed
    True
    """

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        self._device, self.memory_kind = device, checked_memory_kind(memory_kind)

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self._device, memory_kind=kind)

    @property
    def device_set(self) -> set[Device]:
        return {self._device}

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and (self._device, self.memory_kind) == (
            other._device,
            other.memory_kind,
        )

    def __hash__(self) -> int:
        return hash((id(self._device), self.memory_kind))


class NamedSharding(Sharding):
    """A mesh and a PartitionSpec.

    >>> mesh = pb.make_mesh((1,), ("x",))
    >>> pb.NamedSharding(mesh, pb.P("x")).shard_shape((4,))
    (4,)

    Raises ValueError if the spec names an axis that the mesh lacks, DuplicateSpecError if it names
    one twice.
    """

    def __init__(
        self,
        mesh: Any,
        spec: Any,
        *,
        memory_kind: str | None = None,
        _logical_device_ids: Any = None,
    ) -> None:
        self.mesh: Any
        if spec is None or not isinstance(mesh, MeshBase):
            raise TypeError(
                "NamedSharding takes a mesh and a PartitionSpec. Got "
                f"{type(mesh).__name__} and {type(spec).__name__}"
            )
        spec.partitions  # noqa: B018 - AttributeError for what is no PartitionSpec
        self.mesh, self.spec = mesh, spec
        abstract = isinstance(mesh, AbstractMesh)
        self.memory_kind = memory_kind if abstract else checked_memory_kind(memory_kind)
        if abstract and memory_kind not in (None, *_MEMORY_KINDS):
            raise ValueError(
                f"Got invalid memory kind: {memory_kind}. Valid memory kinds are: "
                f"{', '.join(_MEMORY_KINDS)}"
            )
        used: list[Any] = []
        for part in self.spec:
            if part is None or part is PartitionSpec.UNCONSTRAINED:
                continue
            for name in part if isinstance(part, tuple) else (part,):
                if name not in mesh.axis_names:
                    raise ValueError(
                        f"Resource axis: {name} of {self.spec} is not found in mesh: "
                        f"{tuple(mesh.axis_names)}."
                    )
                if name in used:
                    raise DuplicateSpecError(
                        "A single NamedSharding spec specification can map every mesh axis to at "
                        f"most one positional dimension, but {self.spec} has duplicate entries for "
                        f"`{name}`"
                    )
                used.append(name)
        if PartitionSpec.UNCONSTRAINED in spec and mesh.axis_names and not mesh.auto_axes:
            raise ValueError(
                f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are `Auto`. Got "
                f"mesh axis_types: {mesh.axis_types}. Fix: None, or the name of an axis."
            )
        self._check_sums()

    def _check_sums(self) -> None:
        for kind in ("unreduced", "reduced"):
            names = getattr(self.spec, kind)
            if lost := names.difference(self.mesh.axis_names):
                raise ValueError(
                    f"{kind.capitalize()} axes {', '.join(map(str, lost))} is not found in "
                    f"mesh.axis_names={tuple(self.mesh.axis_names)}. Got pspec={self.spec}"
                )
            if names - set(self.mesh.explicit_axes):
                raise ValueError(
                    f"{kind.capitalize()} axes can only refer to mesh axes that is of type "
                    f"`Explicit`. Got {kind} axes: {names} and mesh: {self.mesh}"
                )

    @property
    def device_set(self) -> set[Device]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError("device_set is not implemented for `jax.sharding.AbstractMesh`.")
        return set(self.mesh.devices.flat)

    num_devices = property(lambda self: self.mesh.size)
    _device_assignment = property(lambda self: tuple(self._blocks(0)))

    @property
    def is_fully_replicated(self) -> bool:
        sizes = self.mesh.shape
        names = [
            n for part in self.spec if part for n in (part if isinstance(part, tuple) else (part,))
        ]
        return all(sizes[n] == 1 for n in names)

    def _divisor(self, k: int) -> int:
        part = self.spec[k] if k < len(self.spec) else None
        if part is None or part is PartitionSpec.UNCONSTRAINED:
            return 1
        return int(
            np.prod(
                [self.mesh.shape[n] for n in (part if isinstance(part, tuple) else (part,))],
                dtype=int,
            )
        )

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        if len(self.spec) > len(aval_shape):
            scalar = "" if aval_shape else " For scalars the PartitionSpec should be P()"
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {len(self.spec)}, but "
                f"was applied to a value of rank {len(aval_shape)}.{scalar}"
            )

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        if len(self.spec) > len(global_shape):
            raise IndexError(
                f"Sharding {self} names {len(self.spec)} axes, the shape {tuple(global_shape)} has "
                f"{len(global_shape)}."
            )
        for k, n in enumerate(global_shape):
            if n % self._divisor(k):
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {k} is partitioned "
                    f"{self._divisor(k)} times, but the dimension size is {n} (full shape: "
                    f"{tuple(global_shape)}, per-dimension tiling factors: "
                    f"{[self._divisor(j) for j in range(len(global_shape))]} should evenly divide "
                    "the shape)"
                )
        return tuple(n // self._divisor(k) for k, n in enumerate(global_shape))

    def _blocks(self, ndim: int) -> dict[Device, tuple[tuple[int, int], ...]]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(
                "_device_assignment is not implemented for `jax.sharding.AbstractMesh`."
            )
        names, sizes = list(self.mesh.axis_names), self.mesh.devices.shape
        cut = [(k, self._divisor(k)) for k in range(ndim)]
        blocks = {}
        for position, device in np.ndenumerate(self.mesh.devices):
            place = []
            for k, count in cut:
                number = 0
                for name in axes_of(self.spec[k]) if count > 1 else ():
                    axis = names.index(name)
                    number = number * sizes[axis] + position[axis]
                place.append((number, count))
            blocks[device] = tuple(place)
        return blocks

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        local = self.shard_shape(global_shape)
        return {
            device: tuple(
                slice(None) if count == 1 or size == n else slice(at * size, (at + 1) * size)
                for (at, count), size, n in zip(place, local, global_shape, strict=True)
            )
            for device, place in self._blocks(len(local)).items()
        }

    addressable_devices_indices_map = devices_indices_map

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        spec, sizes = self.spec, dict(self.mesh.shape)
        return _xla_mesh.tiles_of(sizes, tuple(spec), num_dimensions, spec.unreduced)

    def _to_sdy_sharding(self, num_dimensions: int) -> Any:
        return _xla_sharding.as_array(self.mesh, self.spec, num_dimensions)

    def update(self, **changes: Any) -> NamedSharding:
        fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind, **changes}
        return NamedSharding(fields["mesh"], fields["spec"], memory_kind=fields["memory_kind"])

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return self.update(memory_kind=kind)

    def __repr__(self) -> str:
        memory = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec!r}{memory})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec, self.memory_kind) == (
            other.mesh,
            other.spec,
            other.memory_kind,
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec, self.memory_kind))


_interned: weakref.WeakValueDictionary[Sharding, Sharding] = weakref.WeakValueDictionary()


def interned(sharding: Any) -> Any:
    """The one object for all shardings equal to this: native keys compare them by address."""
    return _interned.setdefault(sharding, sharding)


def has_devices(sharding: Any) -> bool:
    """Is it no sharding over an abstract mesh?"""
    return not isinstance(getattr(sharding, "mesh", None), AbstractMesh)


def on_devices(sharding: Any, like: Any = None) -> Any:
    """A sharding over a mesh without devices as one over the mesh in force, or over that of the
    sharding `like`, if it has the same axes."""
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        for mesh in (mesh_here(), getattr(like, "mesh", None), concrete_mesh(sharding.mesh)):
            if isinstance(mesh, Mesh) and mesh.shape_tuple == sharding.mesh.shape_tuple:
                return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
    return sharding


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """A `SingleDeviceSharding` of this device and kind of memory.

    >>> pb.sharding.make_single_device_sharding(pb.devices()[0]).shard_shape((4,))
    (4,)
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def default_sharding() -> SingleDeviceSharding:
    """The sharding of new arrays."""
    return SingleDeviceSharding(default_device_or_first())


class Uncommitted:
    """Where an array lies that nobody put anywhere: on a device that was the default when it was
    made, and is not the first one. It stands where committed arrays have their sharding."""

    def __init__(self, device: Device) -> None:
        self.sharding, self.device_set = SingleDeviceSharding(device), {device}


@functools.cache
def _uncommitted(device: Device) -> Uncommitted:
    return Uncommitted(device)


def default_place() -> Uncommitted | None:
    """Where new arrays lie; None if on the first device."""
    if config.default_device.get() is None:
        return None
    device = default_device_or_first()
    return None if device is devices()[0] else _uncommitted(device)


@functools.lru_cache(1024)
def _whole(ndim: int, mesh: AbstractMesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*(None,) * ndim))


set_unsharded(lambda ndim: _whole(ndim, get_abstract_mesh()))
