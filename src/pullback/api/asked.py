"""The shardings that a call of a jitted function asks for: its `in_shardings` and `out_shardings`,
checked, and spread over arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tree
from ..control.call import UNSPECIFIED, UnspecifiedValue
from ..core.avals import typeof
from ..errors import IndivisibleError
from ..runtime.array import ArrayImpl
from ..runtime.devices import Device
from ..runtime.layouts import Format, Layout
from ..runtime.meshes import get_mesh, named_mesh
from ..runtime.partition_spec import PartitionSpec
from ..runtime.placement import place
from ..runtime.shardings import NamedSharding, Sharding, SingleDeviceSharding
from .arguments import ShapeDtypeStruct

__all__ = [
    "OfNamedMesh",
    "asked_or_typed",
    "check_fits",
    "check_layouts",
    "check_memory",
    "checked",
    "device_sharding",
    "moved",
    "of_arguments",
    "of_results",
]


class OfNamedMesh(PartitionSpec):
    """A spec that may be about the mesh of `with mesh:`, as those of `pjit` are."""

    __slots__ = ()


class WholeOnNamedMesh(OfNamedMesh):
    """None, as `pjit` takes it: whole on each device of the mesh of `with mesh:`, if one is in
    force."""

    __slots__ = ()


def _is_leaf(x: Any) -> bool:
    return isinstance(x, PartitionSpec | Sharding | Format | UnspecifiedValue)


def checked(shardings: Any, what: str) -> Any:
    """The argument `in_shardings` or `out_shardings` of `jit`; TypeError for a bad leaf."""
    if shardings is None:
        return shardings
    for leaf in tree.flatten(shardings, is_leaf=_is_leaf)[0]:
        if isinstance(leaf, NamedSharding):
            _check_constrained(leaf, what)
        if leaf is Layout.AUTO or isinstance(leaf, Layout):
            raise ValueError(
                "`jax.jit` does not accept device-local layouts directly. Create a `Format` "
                "instance wrapping this device-local layout and pass that to `jit` instead. Got "
                f"{leaf}"
            )
        if not _is_leaf(leaf):
            raise TypeError(
                f"{what} leaf specifications are expected to be PartitionSpec instances or None, "
                f"but got {leaf}"
            )
    return shardings


def device_sharding(device: Any) -> Sharding | None:
    """What `jit(device=...)` means."""
    if device is None or isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return SingleDeviceSharding(device)
    raise TypeError(f"jit: device must be a Device or a Sharding, got {device!r}")


def _check_constrained(sharding: NamedSharding, what: str) -> None:
    if what != "shardings" and PartitionSpec.UNCONSTRAINED in sharding.spec:
        raise ValueError(
            f"Unconstrained dims are not allowed when passed to {what}: {sharding}. Fix: None, or "
            "lax.with_sharding_constraint in the function."
        )


def _resolved(sharding: Any, what: str) -> Any:
    """A sharding for the mesh in force; UNSPECIFIED where nothing is asked for."""
    if isinstance(sharding, Format):
        sharding = sharding.sharding
    if isinstance(sharding, PartitionSpec):
        named = isinstance(sharding, OfNamedMesh)
        mesh = named_mesh() if named else get_mesh()
        if isinstance(sharding, WholeOnNamedMesh) and (mesh.empty or mesh is get_mesh()):
            return UNSPECIFIED
        if mesh.empty:
            raise RuntimeError(
                f"{'pjit' if named else 'jit'} requires a non-empty mesh in context if you are "
                f"passing `PartitionSpec`s to {what}. You can define a context mesh via "
                f"`jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to {what} and then the "
                "mesh context manager is not required."
            )
        made = NamedSharding(mesh, sharding.update())
        _check_constrained(made, what)
        return made
    return sharding if isinstance(sharding, Sharding) else UNSPECIFIED


def of_arguments(
    shardings: Any, dynamic: Sequence[Any], avals: Sequence[Any], names: Any
) -> list[Any]:
    """A sharding or UNSPECIFIED for each leaf of the positional arguments, whose types are `avals`.
    `names(k)`: what the k-th is called."""
    if shardings is None or isinstance(shardings, UnspecifiedValue):
        return [UNSPECIFIED] * len(avals)
    if isinstance(shardings, list):
        shardings = tuple(shardings)
    if type(shardings) is tuple and len(shardings) != len(dynamic):
        raise ValueError(
            "pjit in_shardings specification must be a tree prefix of the positional arguments "
            "tuple. In particular, pjit in_shardings must either be a Sharding, a PartitionSpec, "
            "or a tuple of length equal to the number of positional arguments. But pjit "
            f"in_shardings is the wrong length: got a tuple or list of length {len(shardings)} for "
            f"an args tuple of length {len(dynamic)}."
        )
    structure = tree.flatten(tuple(dynamic))[1]
    found = tree.flatten_axes("pjit in_shardings", structure, shardings)
    check_layouts(found, avals, names, "jit arguments")
    return [_resolved(s, "in_shardings") for s in found]


def of_results(shardings: Any, out_tree: Any, avals: Sequence[Any], names: Any) -> list[Any]:
    """A sharding or UNSPECIFIED for each leaf of the results."""
    if shardings is None or isinstance(shardings, UnspecifiedValue):
        return [UNSPECIFIED] * len(avals)
    found = tree.flatten_axes("pjit out_shardings", out_tree, shardings)
    check_layouts(found, avals, names, "jit outputs")
    return [_resolved(s, "out_shardings") for s in found]


def asked_or_typed(asked: Any, avals: Any, placed: Any = None) -> list[Any]:
    """For each argument or result the sharding that was asked for, or that its type says."""
    given = placed or [None] * len(avals)
    found = zip(asked, avals, given, strict=True)
    typed = (getattr(a, "_sharding", None) for a in avals)
    return [
        s if isinstance(s, NamedSharding) else p or t
        for (s, _, p), t in zip(found, typed, strict=True)
    ]


def check_memory(asked: Sequence[Any], args: Sequence[Any]) -> None:
    """ValueError for an array, or a type that says how its arrays lie, in another kind of memory
    than a call asks for. Values of the host go where they are asked for."""
    for wanted, x in zip(asked, args, strict=True):
        have = x.sharding if isinstance(x, ArrayImpl | ShapeDtypeStruct) else None
        if not isinstance(wanted, Sharding) or have is None:
            continue
        if wanted.memory_kind != have.memory_kind:
            raise ValueError(
                "Memory kinds passed to jax.jit does not match memory kind on the respective arg. "
                f"Got jit memory kind: {wanted.memory_kind}, arg memory kind: {have.memory_kind} "
                f"for arg type: {typeof(x).str_short()}. Fix: jax.device_put(x, sharding)."
            )


def moved(args: Any, sharding: Sharding) -> Any:
    """Arguments whose arrays are on the device of `jit(device=...)`."""

    def elsewhere(x: Any) -> bool:
        return isinstance(x, ArrayImpl) and x.committed and x.sharding != sharding

    if not any(map(elsewhere, tree.leaves(args))):
        return args
    return tree.map(lambda x: place(x, sharding) if elsewhere(x) else x, args)


def check_layouts(asked: Sequence[Any], avals: Sequence[Any], names: Any, what: str) -> None:
    """ValueError for a format whose layout is one of arrays of another rank. `names(k)`: what the
    k-th array is called."""
    for k, (wanted, aval) in enumerate(zip(asked, avals, strict=True)):
        if not isinstance(wanted, Format) or not isinstance(wanted.layout, Layout):
            continue
        try:
            wanted.layout.check_compatible_aval(aval.shape)
        except ValueError as e:
            raise ValueError(
                f"One of {what}{_with_path(names(k))} is incompatible with its layout annotation "
                f"{wanted.layout}: {e}"
            ) from None


def _with_path(name: str) -> str:
    return f" with pytree key path {name}" if name else ""


def check_fits(
    shardings: Sequence[Any], avals: Sequence[Any], names: Any, what: str,
    uneven: Sequence[bool] = (),
) -> None:  # fmt: skip
    """ValueError if an array cannot lie as asked: too few axes, or one that cannot be divided.
    `names(k)`: what the k-th is called. `uneven`: which need not be divided evenly."""
    for k, (sharding, aval) in enumerate(zip(shardings, avals, strict=True)):
        if not isinstance(sharding, Sharding):
            continue
        rank, need = len(aval.shape), len(getattr(sharding, "spec", ()))
        if need > rank:
            raise ValueError(
                f"One of {what}{_with_path(names(k))} is incompatible with its sharding "
                f"annotation {sharding}: Sharding {sharding} is only valid for values of rank at "
                f"least {need}, but was applied to a value of rank {rank}."
            )
        if uneven and uneven[k]:
            continue
        try:
            sharding.shard_shape(aval.shape)
        except ValueError as e:
            raise IndivisibleError(
                f"One of {what}{_with_path(names(k))} was given the sharding of {sharding}, which "
                f"cannot divide it: {e}"
            ) from None
