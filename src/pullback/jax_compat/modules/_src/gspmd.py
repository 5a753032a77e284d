"""Shardings that XLA describes: tiles of devices, without a mesh whose axes have names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ....backends.xla.library import xla_client
from ....backends.xla.mesh import are_hlo_shardings_equal, op_sharding_to_indices, tiles_of
from ....backends.xla.sharding import as_array
from ....runtime.devices import Device
from ....runtime.shardings import checked_memory_kind
from ....sharding import AbstractMesh, PartitionSpec, Sharding


class GSPMDSharding(Sharding):
    """Devices, and how XLA lays an array over them."""

    def __init__(
        self, devices: Sequence[Device], op_sharding: Any, *, memory_kind: str | None = None
    ) -> None:
        self._devices, self.memory_kind = tuple(devices), checked_memory_kind(memory_kind)
        if isinstance(op_sharding, xla_client.OpSharding):
            op_sharding = xla_client.HloSharding.from_proto(op_sharding)
        self._hlo_sharding = op_sharding

    @classmethod
    def get_replicated(cls, devices: Sequence[Device], *, memory_kind: str | None = None) -> Any:
        """Each device has all of an array."""
        return cls(devices, tiles_of({}, (), 0), memory_kind=memory_kind)

    @property
    def device_set(self) -> set[Device]:
        """The devices."""
        return set(self._devices)

    def _blocks(self, ndim: int) -> dict[Device, tuple[tuple[int, int], ...]]:
        """Which block of how many each device holds, axis by axis."""
        whole = ((0, 1),) * ndim
        if self.is_fully_replicated:
            return dict.fromkeys(self._devices, whole)
        sizes = tuple(self._hlo_sharding.tile_assignment_dimensions())[:ndim]
        return {
            device: tuple((p.start or 0, n) for p, n in zip(part, sizes, strict=True))
            for device, part in self.devices_indices_map(sizes).items()
        }

    @property
    def is_fully_replicated(self) -> bool:
        """Does each device have all?"""
        return bool(self._hlo_sharding.is_replicated())

    def with_memory_kind(self, kind: str) -> Any:
        """In another kind of memory."""
        return GSPMDSharding(self._devices, self._hlo_sharding, memory_kind=kind)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Any]:
        """Which part each device has."""
        parts = op_sharding_to_indices(self._hlo_sharding, global_shape, len(self._devices))
        return dict(zip(self._devices, parts, strict=True))

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a part."""
        first = next(iter(self.devices_indices_map(global_shape).values()))
        return tuple(len(range(*p.indices(n))) for p, n in zip(first, global_shape, strict=True))

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return self._hlo_sharding

    def _to_sdy_sharding(self, num_dimensions: int) -> Any:
        if self.is_fully_replicated:
            return as_array(AbstractMesh((), ()), (), num_dimensions)
        sizes = self._hlo_sharding.get_axis_sizes()
        names = tuple(f"_axis_{k}" for k in range(len(sizes)))
        mesh = AbstractMesh(tuple(sizes), names)
        (spec,) = parse_flatten_op_sharding(self._hlo_sharding, mesh)
        return as_array(mesh, spec, num_dimensions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GSPMDSharding)
            and self._devices == other._devices
            and self.memory_kind == other.memory_kind
            and are_hlo_shardings_equal(self._hlo_sharding, other._hlo_sharding)
        )

    def __hash__(self) -> int:
        return hash((self._devices, self.memory_kind, str(self._hlo_sharding)))

    def __repr__(self) -> str:
        kind = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return f"GSPMDSharding({self._hlo_sharding!r}{kind})"


def parse_flatten_op_sharding(hlo_sharding: Any, mesh: Any) -> Sequence[PartitionSpec]:
    """The spec over a mesh that XLA's sharding is. Raises ValueError if no spec is."""
    if hlo_sharding.is_replicated():
        return [PartitionSpec()]
    ndim = len(hlo_sharding.tile_assignment_dimensions())
    ndim -= int(hlo_sharding.replicate_on_last_tile_dim())
    for spec in _specs(tuple(mesh.axis_names), ndim):
        found = tiles_of(dict(mesh.shape), tuple(spec), ndim)
        if are_hlo_shardings_equal(found, hlo_sharding):
            return [spec]
    raise ValueError(f"no axes of {mesh} divide an array as {hlo_sharding} does")


def _specs(names: tuple[Any, ...], ndim: int) -> Iterator[PartitionSpec]:
    """Every way to divide axes of an array over axes of a mesh, the shortest specs first."""
    for count in range(1, len(names) + 1):
        for order in itertools.permutations(names, count):
            for places in itertools.combinations_with_replacement(range(ndim), count):
                parts: list[Any] = [()] * (max(places) + 1)
                for name, place in zip(order, places, strict=True):
                    parts[place] = (*parts[place], name)
                yield PartitionSpec(*(p[0] if len(p) == 1 else p or None for p in parts))
