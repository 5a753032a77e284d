"""Meshes of devices with named axes, with devices and without, and those in force."""

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
from ..core.avals import order_of_axes
from ..core.build import is_staged
from ..core.trace import mesh_of_traces, set_mesh_of_traces
from .devices import Device, devices


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


class MeshBase:
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
    _name_to_type = property(lambda self: dict(zip(self.axis_names, self.axis_types, strict=True)))
    _any_axis_manual = property(lambda self: AxisType.Manual in self.axis_types)
    _any_axis_explicit = property(lambda self: AxisType.Explicit in self.axis_types)
    are_all_axes_auto = property(lambda self: all(t is AxisType.Auto for t in self.axis_types))
    are_all_axes_explicit = property(
        lambda self: bool(self.axis_types) and all(t is AxisType.Explicit for t in self.axis_types)
    )
    are_all_axes_manual = property(
        lambda self: bool(self.axis_types) and all(t is AxisType.Manual for t in self.axis_types)
    )


def _types(axis_types: Any, names: Sequence[Any], of: str = "Mesh") -> tuple[AxisType, ...]:
    n = len(names)
    if axis_types is None:
        return (AxisType.Auto,) * n
    types = tuple(axis_types) if isinstance(axis_types, (list, tuple)) else (axis_types,)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            f"axis_types passed to {of} must be of type `jax.sharding.AxisType`. Got "
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


class Mesh(MeshBase, contextlib.ContextDecorator):
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
    # What libraries and tests of JAX read that is not public.
    _flat_devices_tuple = property(lambda self: tuple(self.devices.flat))
    _flat_devices_set = property(lambda self: set(self.devices.flat))
    _local_devices_set = property(lambda self: set(self.devices.flat))
    _internal_device_list = property(lambda self: tuple(self.devices.flat))
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


class AbstractMesh(MeshBase):
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
        self.axis_types = _types(axis_types, self.axis_names, "AbstractMesh")
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


def mesh_here() -> Mesh:
    """The mesh that `set_mesh` put in force, with the axes that `use_abstract_mesh`, or the body of
    a `shard_map`, has given it since (an empty one if none is)."""
    mesh, abstract = get_mesh(), mesh_of_traces()
    if abstract is None or mesh.empty or abstract.size != mesh.size or abstract.empty:
        return mesh
    if (abstract.shape_tuple, abstract.axis_types) == (mesh.shape_tuple, mesh.axis_types):
        return mesh
    devices = mesh.devices.reshape(abstract.axis_sizes)
    return Mesh(devices, abstract.axis_names, abstract.axis_types)


def concrete_mesh(mesh: AbstractMesh) -> Mesh | None:
    """The last mesh of devices that `mesh` was made of."""
    return _concrete.get(mesh)


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
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using `jax.set_mesh`. "
                "Please use `jax.shard_map` to enter into `Manual` mode instead."
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
    """Puts an abstract mesh in force. ValueError if it is of another size than that in force.

    >>> with pb.sharding.use_abstract_mesh(pb.sharding.AbstractMesh((2,), ("i",))):
    ...     pb.sharding.get_abstract_mesh().axis_names
    ('i',)
    """
    before = get_abstract_mesh()
    if not before.empty and not mesh.empty and before.size != mesh.size:
        raise ValueError(
            f"use_abstract_mesh cannot change the size of the mesh. Got new mesh: {mesh} with size="
            f"{mesh.size} and prev mesh: {before} with size={before.size}"
        )
    _enter(_local.abstract, mesh)
    try:
        yield
    finally:
        _leave(_local.abstract)


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
    if not all(isinstance(n, int | np.integer) for n in axis_shapes):
        raise ValueError(
            "`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got "
            f"{tuple(axis_shapes)}"
        )
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


order_of_axes[0] = lambda: get_abstract_mesh().axis_names
