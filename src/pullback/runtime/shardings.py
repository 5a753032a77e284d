"""Shardings as data: meshes of devices with named axes, and how the axes of an array lie on them.

On one device every sharding is trivial; programs that name shardings run unchanged, and
transformations keep what is written here.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import config
from ..core.avals import (
    ManualAxisType as ManualAxisType,
    host_memory,
    order_of_axes,
    set_unsharded,
)
from ..core.build import is_staged
from ..core.trace import mesh_of_traces, set_mesh_of_traces
from ..errors import DuplicateSpecError, IndivisibleError
from .devices import Device, default_device_or_first, devices


class AxisType(enum.Enum):
    """Who decides how values lie on a mesh axis.

    >>> pb.make_mesh((1,), ("x",), (pb.sharding.AxisType.Auto,)).axis_types
    (Auto,)
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class Space(enum.Enum):
    """The kinds of memory that `device_put` may name."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__


host_memory[0] = Space.Host


class PartitionSpec:
    """For each array axis: the mesh axis (or tuple of them) that it is divided over, or None.

    `unreduced` and `reduced` are sets of mesh axes over which sums are, or were, still to come.

    >>> pb.sharding.PartitionSpec("x", None)
    P('x', None)

    A sequence, but no tuple: `tuple(spec)` is one. TypeError for sets that are none, ValueError
    if they name an axis that divides the array.
    """

    __slots__ = ("__weakref__", "_partitions", "_reduced", "_unreduced")
    UNCONSTRAINED: Any
    _partitions: tuple[Any, ...]
    _unreduced: frozenset[Any]
    _reduced: frozenset[Any]

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        put = object.__setattr__
        put(self, "_partitions", tuple(map(_part, partitions)))
        put(self, "_unreduced", frozenset(unreduced) if unreduced else frozenset())
        put(self, "_reduced", frozenset(reduced) if reduced else frozenset())
        if unreduced or reduced:
            self._check_sums(unreduced, reduced)

    partitions = property(lambda self: self._partitions)
    unreduced = property(lambda self: self._unreduced)
    reduced = property(lambda self: self._reduced)

    def _check_sums(self, unreduced: Any, reduced: Any) -> None:
        own = {n for part in self._partitions for n in _names(part)}
        for name, given in (("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(given, (set, frozenset)):
                raise TypeError(
                    f"{name} argument of PartitionSpec should of type `frozenset` or `set`. Got "
                    f"type {given}"
                )
            if None in given:
                raise ValueError(
                    f"{name} cannot contain None. All elements in {name} should refer to the mesh "
                    "axes."
                )
            if own & given:
                raise ValueError(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got "
                    f"partitions: {self._partitions} and {name} axes: {frozenset(given)}"
                )
        if self._unreduced & self._reduced:
            raise ValueError(
                "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got "
                f"unreduced: {self._unreduced} and reduced: {self._reduced}"
            )

    def update(self, partitions: Any = None, unreduced: Any = None, reduced: Any = None) -> Any:
        """This spec with some of its fields exchanged."""
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=self._unreduced if unreduced is None else unreduced,
            reduced=self._reduced if reduced is None else reduced,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self._partitions)) + ("," if len(self) == 1 else "")
        for name in ("unreduced", "reduced"):
            if names := getattr(self, name):
                gap = ", " if inner and not inner.endswith(",") else " " if inner else ""
                inner += f"{gap}{name}={set(names)!r}"
        return f"P({inner})"

    def __reduce__(self) -> Any:
        return _spec, (self._partitions, self._unreduced, self._reduced)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, k: Any) -> Any:
        return self._partitions[k]

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return _spec(
                (*self, *other), self._unreduced | other.unreduced, self._reduced | other.reduced
            )
        if isinstance(other, tuple):
            return _spec((*self, *other), self._unreduced, self._reduced)
        return NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        return _spec((*other, *self), self._unreduced, self._reduced)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and (
            self._partitions == other._partitions
            and self._unreduced == other._unreduced
            and self._reduced == other._reduced
        )

    def __hash__(self) -> int:
        return hash(("PartitionSpec", self._partitions))

    def index(self, value: Any, *rest: Any) -> int:
        return self._partitions.index(value, *rest)

    def count(self, value: Any) -> int:
        return self._partitions.count(value)


def _part(part: Any) -> Any:
    """An entry of a spec: one axis is no tuple of one, and no axis is None."""
    if not isinstance(part, (list, tuple)):
        return part
    for name in part:
        if isinstance(name, (list, tuple)):
            raise ValueError(
                "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                f"{part} and the nested tuple: {name}. Fix: name the mesh axes in one tuple."
            )
    return None if not part else part[0] if len(part) == 1 else tuple(part)


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()

    def __deepcopy__(self, memo: Any) -> _Unconstrained:
        return self


def _unconstrained() -> Any:
    return PartitionSpec.UNCONSTRAINED


PartitionSpec.UNCONSTRAINED = _Unconstrained()


class AbstractDevice:
    """A kind of device, without being one.

    >>> pb.sharding.AbstractDevice("cpu").device_kind
    'cpu'
    """

    def __init__(self, device_kind: str = "cpu", num_cores: int | None = None) -> None:
        self.device_kind, self.num_cores = device_kind, num_cores

    def __repr__(self) -> str:
        kind, cores = self.device_kind, self.num_cores
        return f"device_kind={kind}, num_cores={cores}, platform={kind}"


class _MeshBase:
    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[Any, int]:
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        return int(np.prod(self.axis_sizes, dtype=int)) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        return not self.axis_names

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    auto_axes = property(lambda self: self._of_type(AxisType.Auto))
    explicit_axes = property(lambda self: self._of_type(AxisType.Explicit))
    manual_axes = property(lambda self: self._of_type(AxisType.Manual))
    are_all_axes_auto = property(lambda self: all(t is AxisType.Auto for t in self.axis_types))
    are_all_axes_explicit = property(
        lambda self: bool(self.axis_types) and all(t is AxisType.Explicit for t in self.axis_types)
    )
    are_all_axes_manual = property(
        lambda self: bool(self.axis_types) and all(t is AxisType.Manual for t in self.axis_types)
    )


def _types(axis_types: Any, names: Sequence[Any]) -> tuple[AxisType, ...]:
    n = len(names)
    if axis_types is None:
        return (AxisType.Auto,) * n
    types = (axis_types,) if isinstance(axis_types, AxisType) else tuple(axis_types)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            "axis_types passed to Mesh must be of type `jax.sharding.AxisType`. Got "
            f"{axis_types} of type {tuple(map(type, types))}"
        )
    if len(types) != n:
        raise ValueError(
            "Number of axis names should match the number of axis_types. Got "
            f"axis_names={tuple(names)} and axis_types={types}"
        )
    return types


# Every mesh that is held, by what it is made of.
_meshes: weakref.WeakValueDictionary[Any, Mesh] = weakref.WeakValueDictionary()


class Mesh(_MeshBase):
    """An array of devices with named axes.

    >>> pb.sharding.Mesh(np.array(pb.devices()), ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))

    Raises ValueError if the number of names is not the number of axes.
    """

    devices: Any

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        if not isinstance(devices, np.ndarray):
            devices = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if None in names:
            raise ValueError(f"Mesh axis names cannot be None. Got: {names}")
        if devices.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of "
                f"its second argument (`axis_names`), but got devices.ndim == {devices.ndim} and "
                f"len(axis_names) == {len(names)}."
            )
        types = _types(axis_types, names)
        # One object for all meshes that are equal, as long as anybody holds it.
        key = devices.shape, tuple(devices.flat), names, types
        self = _meshes.get(key)
        if self is None:
            self = object.__new__(cls)
            self.devices, self.axis_names = devices.copy(), names
            self.devices.flags.writeable = False
            self.axis_sizes, self.axis_types = devices.shape, types
            _meshes[key] = self
        return self

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """This mesh with some of its fields exchanged."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    device_ids = property(lambda self: np.vectorize(lambda d: d.id, otypes=[int])(self.devices))
    local_mesh = property(lambda self: self)
    local_devices = property(lambda self: list(self.devices.flat))
    is_multi_process = property(lambda self: False)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        kind = AbstractDevice(self.devices.flat[0].device_kind) if self.devices.size else None
        found = AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind
        )
        _concrete[found] = self
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mesh)
            and self.axis_names == other.axis_names
            and self.axis_types == other.axis_types
            and self.devices.shape == other.devices.shape
            and all(a is b for a, b in zip(self.devices.flat, other.devices.flat, strict=True))
        )

    def __hash__(self) -> int:
        return hash(
            (self.axis_names, self.axis_sizes, self.axis_types, tuple(map(id, self.devices.flat)))
        )

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __str__(self) -> str:
        if self.empty:
            return "Mesh()"
        sizes = ", ".join(f"{n!r}: {s}" for n, s in self.shape_tuple)
        return (
            f"Mesh({sizes}, axis_types=("
            f"{', '.join(map(repr, self.axis_types))}{',' if len(self.axis_types) == 1 else ''}))"
        )

    def __enter__(self) -> Mesh:
        if config.disallow_mesh_context_manager.get():
            raise RuntimeError(
                "Mesh context manager is disabled. Fix: with jax.set_mesh(mesh), or unset the flag "
                "jax_disallow_mesh_context_manager."
            )
        warnings.warn(
            "`with mesh:` context manager has been deprecated. Please use `with "
            "jax.set_mesh(mesh):` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        _enter(_local.stack, self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _leave(_local.stack)


# The last mesh of devices that each abstract mesh was made of.
_concrete: weakref.WeakValueDictionary[AbstractMesh, Mesh] = weakref.WeakValueDictionary()


class AbstractMesh(_MeshBase):
    """A mesh without devices: names, sizes and types of its axes.

    >>> dict(pb.sharding.AbstractMesh((2, 4), ("data", "model")).shape)
    {'data': 2, 'model': 4}
    """

    def __init__(
        self,
        axis_sizes: Any,
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: Any = None,
    ) -> None:
        self.axis_names, self.axis_sizes = tuple(axis_names), tuple(axis_sizes)
        if len(self.axis_names) != len(self.axis_sizes):
            raise ValueError(
                f"AbstractMesh takes as many sizes as names, got {self.axis_sizes} and "
                f"{self.axis_names}."
            )
        self.axis_types = _types(axis_types, self.axis_names)
        self.abstract_device = abstract_device

    abstract_mesh = property(lambda self: self)
    devices = property(lambda self: self._lacks("devices"))
    device_ids = property(lambda self: self._lacks("device_ids"))
    local_devices = property(lambda self: self._lacks("local_devices"))
    is_multi_process = property(lambda self: self._lacks("is_multi_process"))

    def _lacks(self, name: str) -> Any:
        raise ValueError(
            f"AbstractMesh does not implement {name}: it has no devices. Fix: a mesh of "
            "jax.make_mesh."
        )

    def __enter__(self) -> Any:
        return self._lacks("__enter__")

    def __exit__(self, *exc: Any) -> None:
        self._lacks("__exit__")

    def update(
        self,
        axis_sizes: Any = None,
        axis_names: Any = None,
        axis_types: Any = None,
        *,
        abstract_device: Any = None,
    ) -> AbstractMesh:
        """This mesh with some of its fields exchanged."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=self.abstract_device if abstract_device is None else abstract_device,
        )

    def update_axis_types(self, changes: dict[Any, AxisType]) -> AbstractMesh:
        types = [changes.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True)]
        return AbstractMesh(
            self.axis_sizes, self.axis_names, types, abstract_device=self.abstract_device
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and (self.shape_tuple, self.axis_types) == (
            other.shape_tuple,
            other.axis_types,
        )

    def __hash__(self) -> int:
        return hash((self.shape_tuple, self.axis_types))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n!r}: {s}" for n, s in self.shape_tuple)
        return (
            f"AbstractMesh({sizes or '()'}, axis_types=("
            f"{', '.join(map(repr, self.axis_types))}{',' if len(self.axis_types) == 1 else ''})"
            f"{'' if self.abstract_device is None else f', {self.abstract_device!r}'})"
        )


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Mesh] = []  # of `with mesh:`, which names axes only
        self.chosen: list[Mesh] = []  # of `set_mesh`: what is made lies on it
        self.abstract: list[AbstractMesh] = []


_local = _Local()
_chosen: list[Mesh] = []  # one item for each mesh that `set_mesh` has put in force in any thread
_chosen_by_main: list[Mesh] = []  # those of the main thread
_entered: list[Any] = []  # the same for `with mesh:` and `use_abstract_mesh`
_entered_by_main: list[Any] = []


def any_mesh_chosen() -> bool:
    """Has `set_mesh` put a mesh in force in some thread?"""
    return bool(_chosen)


def any_mesh_in_force() -> bool:
    """Has some thread a mesh in force, of whatever kind?"""
    return bool(_chosen or _entered)


def meshes_of_main_thread() -> tuple[Any, ...] | None:
    """The meshes in force in the main thread, of each kind, if no other thread has one."""
    alone = len(_chosen) == len(_chosen_by_main) and len(_entered) == len(_entered_by_main)
    if not alone or not any_mesh_in_force():
        return None
    return (_chosen_by_main[-1] if _chosen_by_main else None, *_entered_by_main)


def _enter(stack: list[Any], mesh: Any) -> None:
    """Puts a mesh in force in this thread, as the last of its kind."""
    stack.append(mesh)
    _entered.append(mesh)
    if threading.current_thread() is threading.main_thread():
        _entered_by_main.append(mesh)
    _meshes_changed()


def _leave(stack: list[Any]) -> None:
    """Takes the last mesh of a kind out of force."""
    mesh = stack.pop()
    _entered.remove(mesh)
    if threading.current_thread() is threading.main_thread():
        _entered_by_main.remove(mesh)
    _meshes_changed()


def _meshes_changed() -> None:
    set_mesh_of_traces(_mesh_in_force(), _local.stack[-1] if _local.stack else None)
    config.traces_changed()


def _choose(meshes: Sequence[Mesh]) -> None:
    """Puts these meshes in force in this thread, the last one first."""
    for mesh in _local.chosen:
        _chosen.remove(mesh)
    _local.chosen[:] = meshes
    _chosen.extend(meshes)
    if threading.current_thread() is threading.main_thread():
        _chosen_by_main[:] = meshes
    _meshes_changed()


_EMPTY = Mesh(np.empty((), dtype=object), ())
_EMPTY_ABSTRACT = AbstractMesh((), ())


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` put in force (an empty one if none is).

    >>> with pb.set_mesh(pb.make_mesh((1,), ("i",))):
    ...     pb.sharding.get_mesh().axis_names
    ('i',)
    """
    return _local.chosen[-1] if _local.chosen else _EMPTY


def named_mesh() -> Mesh:
    """The mesh whose axes may be named here: of `set_mesh`, else of `with mesh:`."""
    return get_mesh() if _local.chosen or not _local.stack else _local.stack[-1]


def get_abstract_mesh() -> AbstractMesh:
    """The abstract mesh in force (an empty one if none is).

    >>> pb.sharding.get_abstract_mesh().empty
    True
    """
    return mesh_of_traces() or _EMPTY_ABSTRACT


def _mesh_in_force() -> AbstractMesh | None:
    """What `set_mesh` and `use_abstract_mesh` say; the bodies of `shard_map` change it."""
    if _local.abstract:
        return _local.abstract[-1]
    return _local.chosen[-1].abstract_mesh if _local.chosen else None


class set_mesh:
    """`set_mesh(mesh)` puts a mesh in force; as a context manager, for the duration.

    >>> with pb.set_mesh(pb.make_mesh((1,), ("i",))):
    ...     pb.sharding.get_abstract_mesh().axis_names
    ('i',)
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if not isinstance(mesh, Mesh | None):
            raise ValueError(f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}")
        if is_staged():
            raise ValueError(
                "`set_mesh` can only be used outside of `jax.jit`. Fix: set the mesh before the "
                "call, or jax.sharding.use_abstract_mesh inside."
            )
        self._before = list(_local.chosen)
        _choose([] if mesh is None else [*self._before, mesh])

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        _choose(self._before)


@contextlib.contextmanager
def mesh_in_force(mesh: Mesh) -> Iterator[None]:
    """`set_mesh` for what this package does while it traces."""
    before = list(_local.chosen)
    _choose([*before, mesh])
    try:
        yield
    finally:
        _choose(before)


@contextlib.contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Puts an abstract mesh in force.

    >>> with pb.sharding.use_abstract_mesh(pb.sharding.AbstractMesh((2,), ("i",))):
    ...     pb.sharding.get_abstract_mesh().axis_names
    ('i',)
    """
    _enter(_local.abstract, mesh)
    try:
        yield
    finally:
        _leave(_local.abstract)


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


_MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


def _memory_kind(kind: str | None) -> str:
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
        self._device, self.memory_kind = device, _memory_kind(memory_kind)

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


def _names(part: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry of a spec."""
    return part if isinstance(part, tuple) else () if part is None else (part,)


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
        if spec is None or not isinstance(mesh, _MeshBase):
            raise TypeError(
                "NamedSharding takes a mesh and a PartitionSpec. Got "
                f"{type(mesh).__name__} and {type(spec).__name__}"
            )
        spec.partitions  # noqa: B018 - AttributeError for what is no PartitionSpec
        self.mesh, self.spec = mesh, spec
        abstract = isinstance(mesh, AbstractMesh)
        self.memory_kind = memory_kind if abstract else _memory_kind(memory_kind)
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
        self._check_sums()

    def _check_sums(self) -> None:
        for kind in ("unreduced", "reduced"):
            names = getattr(self.spec, kind)
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
                    f"{tuple(global_shape)})"
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
                for name in _names(self.spec[k]) if count > 1 else ():
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
        for mesh in (get_mesh(), getattr(like, "mesh", None), _concrete.get(sharding.mesh)):
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


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    axis_types: Any = None,
    *,
    devices: Any = None,
) -> Mesh:
    """A mesh of the first devices. ValueError if there are not enough.

    >>> dict(pb.make_mesh((1, 1), ("data", "model")).shape)
    {'data': 1, 'model': 1}
    """
    chosen = _all_devices() if devices is None else list(devices)
    need = int(np.prod(axis_shapes, dtype=int))
    if need > len(chosen):
        raise ValueError(
            f"Number of devices {len(chosen)} must be >= the product of mesh_shape "
            f"{tuple(axis_shapes)}"
        )
    grid = np.empty(need, dtype=object)
    grid[:] = chosen[:need]
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(axis_shapes)
    return Mesh(grid.reshape(tuple(axis_shapes)), axis_names, axis_types)


def _all_devices() -> list[Device]:
    return devices()


@functools.lru_cache(1024)
def _whole(ndim: int, mesh: AbstractMesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*(None,) * ndim))


set_unsharded(lambda ndim: _whole(ndim, get_abstract_mesh()))
order_of_axes[0] = lambda: get_abstract_mesh().axis_names
