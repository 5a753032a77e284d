"""Axes of meshes whose use is part of types: arrays laid out over them anew, and functions that
leave such axes to the compiler, or take them from it.

All devices of a process share its memory: what changes is how results say that they lie.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .. import tree
from ..core.avals import typeof
from ..core.build import is_staged
from ..core.explicit import names_in, parts_of
from ..core.trace import Tracer
from ..primitives.sharding import reshard_p
from ..runtime.dispatch import to_array
from ..runtime.meshes import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    mesh_here,
    mesh_in_force,
    use_abstract_mesh,
)
from ..runtime.partition_spec import PartitionSpec
from ..runtime.placement import place, sharding_of
from ..runtime.shardings import NamedSharding
from .asked import check_fits
from .placement import asked_sharding, resharded

__all__ = ["auto_axes", "explicit_axes", "reshard"]


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of the pytree `xs`, laid out anew over mesh axes of explicit type.

    `out_shardings`: a NamedSharding, a PartitionSpec for the mesh in force, or a pytree prefix of
    them.

    ValueError for None, a PartitionSpec without a mesh, axes that the compiler places, or a shape
    that cannot be divided; TypeError for what is no such sharding.

    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> x = pb.reshard(jnp.arange(3), pb.NamedSharding(mesh, pb.P("i")))
    >>> x.sharding.spec, pb.typeof(x)
    (P('i',), ShapedArray(int32[3@i]))
    """
    leaves, structure = tree.flatten(xs)
    wanted = tree.flatten_axes("reshard out_shardings", structure, out_shardings)
    return tree.unflatten(structure, list(map(_resharded, leaves, wanted)))


def _resharded(x: Any, wanted: Any) -> Any:
    if wanted is None:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have a "
            "non-empty mesh. Got sharding None. Fix: a PartitionSpec under set_mesh, or a "
            "NamedSharding."
        )
    sharding, aval = asked_sharding("reshard", wanted), typeof(x)
    if not any(sharding.spec[aval.ndim :]):  # nothing is asked of axes that are not there
        sharding = sharding.update(spec=sharding.spec.update(partitions=sharding.spec[: aval.ndim]))
    if len(sharding.spec) > aval.ndim:
        raise ValueError(
            f"reshard: out_shardings {sharding.spec} has {len(sharding.spec)} entries, the array "
            f"{aval.ndim} axes. Fix: an entry for each axis at most."
        )
    parts = (*sharding.spec, *([None] * (aval.ndim - len(sharding.spec))))
    target = sharding.update(spec=sharding.spec.update(partitions=parts))
    check_fits([target], [aval], lambda k: "", "reshard arguments")
    if not isinstance(x, Tracer) and not is_staged():
        return place(to_array(x, True), _with_auto(target, x))
    return resharded(x, target)


def _with_auto(target: NamedSharding, x: Any) -> NamedSharding:
    """`target`; over axes that the compiler places an array lies as it did."""
    auto = set(target.mesh.auto_axes)
    lies = getattr(x, "_lies_on", None)
    if not auto or not isinstance(lies, NamedSharding) or lies.mesh != target.mesh:
        return target
    rest = (*lies.spec, *[None] * (len(target.spec) - len(lies.spec)))
    parts = [
        (*names_in(p), *(n for n in names_in(q) if n in auto))
        for p, q in zip(target.spec, rest, strict=True)
    ]
    return target.update(spec=PartitionSpec(*parts))


def _reshard_now(x: Any, *, dst_sharding: NamedSharding, **params: Any) -> Any:
    return place(to_array(x, True), dst_sharding)


reshard_p.def_impl(_reshard_now)


def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """`f`, inside which the mesh axes `axes` (None: all) are left to the compiler: types say
    nothing of them. Its results lie as `out_sharding` says, a pytree prefix of shardings, given
    here or to the call.

    TypeError if it is given in neither place.

    >>> double = pb.sharding.auto_axes(lambda x: x * 2, out_sharding=pb.P("i"))
    >>> with pb.set_mesh(pb.make_mesh((1,), ("i",))):
    ...     pb.typeof(double(jnp.ones(3)))
    ShapedArray(float32[3@i])
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    named = out_sharding

    @functools.wraps(f)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = _given("out_sharding", named if out_sharding is None else out_sharding)
        with _mesh_of(wanted):
            before = get_abstract_mesh()
            if _are_of_type(before, axes, AxisType.Auto):
                return f(*args, **kwargs)
            with _axes_of_type(before, axes, AxisType.Auto):
                outs = f(*_moved(args), **_moved(kwargs))
            return reshard(outs, wanted)

    return call


def explicit_axes(f: Any = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """`f`, inside which the mesh axes `axes` (None: all) are part of types. Its arguments lie as
    `in_sharding` says, a pytree prefix of shardings, given here or to the call.

    TypeError if it is given in neither place.

    >>> kind = pb.sharding.explicit_axes(pb.typeof, in_sharding=pb.P("i"))
    >>> with pb.set_mesh(pb.make_mesh((1,), ("i",), (pb.sharding.AxisType.Auto,))):
    ...     kind(jnp.ones(3))
    ShapedArray(float32[3@i])
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    named = in_sharding

    @functools.wraps(f)
    def call(*args: Any, in_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = _given("in_sharding", named if in_sharding is None else in_sharding)
        with _mesh_of(wanted):
            before = get_abstract_mesh()
            if before.empty:
                return f(*args, **kwargs)
            with _axes_of_type(before, axes, AxisType.Explicit):
                # One sharding stands for all arguments; a tuple has one for each.
                outs = f(*reshard(args, wanted), **kwargs)
            return _moved(outs)

    return call


def _given(name: str, value: Any) -> Any:
    if value is None:
        raise TypeError(f"Missing required keyword argument: '{name}'")
    return value


def _mesh_of(wanted: Any) -> Any:
    """A context with the mesh of the shardings that are asked for, unless one is in force."""
    if get_abstract_mesh().empty:
        for sharding in tree.leaves(wanted):
            mesh = getattr(sharding, "mesh", None)
            if isinstance(mesh, Mesh) and not mesh.empty:
                return mesh_in_force(mesh)
    return contextlib.nullcontext()


def _chosen(mesh: AbstractMesh, axes: Any) -> tuple[Any, ...]:
    if axes is None:
        return mesh.axis_names
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _are_of_type(mesh: AbstractMesh, axes: Any, kind: AxisType) -> bool:
    """Have these axes the type already?"""
    types = mesh._name_to_type
    return all(types.get(name) is kind for name in _chosen(mesh, axes))


def _axes_of_type(mesh: AbstractMesh, axes: Any, kind: AxisType) -> Any:
    """A context in which axes of the mesh in force have another type. NotImplementedError if they
    are manual ones."""
    chosen = _chosen(mesh, axes)
    if set(chosen).intersection(mesh.manual_axes):
        raise NotImplementedError(
            "Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not allowed. Fix: "
            f"name axes that the shard_map around leaves alone, none of {mesh.manual_axes}."
        )
    changed = mesh.update_axis_types(dict.fromkeys(chosen, kind))
    stack, concrete = contextlib.ExitStack(), get_mesh()
    if mesh == concrete.abstract_mesh:
        stack.enter_context(_set(concrete, changed.axis_types))
    else:
        stack.enter_context(use_abstract_mesh(changed))
    return stack


@contextlib.contextmanager
def _set(mesh: Mesh, axis_types: Any) -> Any:
    with mesh_in_force(Mesh(mesh.devices, mesh.axis_names, axis_types)):
        yield


def _moved(xs: Any) -> Any:
    """Arrays that lie on a mesh with the types that the axes have now."""
    mesh = mesh_here()
    move: Callable[[Any], Any] = functools.partial(_moved_one, mesh)
    return xs if mesh.empty else tree.map(move, xs)


def _retyped(x: Tracer) -> Any:
    """A traced array whose type says what it lies over of the axes that are explicit now."""
    lies, mesh = x.aval._sharding, get_abstract_mesh()
    if lies is not None and (lies.mesh == mesh or lies.mesh.shape_tuple != mesh.shape_tuple):
        return x
    named = set(mesh.explicit_axes)
    parts = [tuple(n for n in names_in(p) if n in named) for p in parts_of(x.aval)]
    return reshard_p.bind(
        x, dst_sharding=NamedSharding(mesh, PartitionSpec(*parts)), concrete_mesh=mesh_here()
    )


def _moved_one(mesh: Mesh, x: Any) -> Any:
    if isinstance(x, Tracer):
        return _retyped(x)
    if getattr(x, "_lies_on", None) is None:
        return x
    lies = sharding_of(x)
    if not isinstance(lies, NamedSharding) or lies.mesh == mesh:
        return x
    same = isinstance(lies.mesh, Mesh) and lies.mesh.shape_tuple == mesh.shape_tuple
    return place(x, lies.update(mesh=mesh)) if same else x
