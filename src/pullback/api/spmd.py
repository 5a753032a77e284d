"""One program on many devices: `pmap`, `shard_map` and `smap`.

The devices of this process are one machine's: the program runs batched, with the devices' axes as
named axes of the batch, so that collectives are operations within it. A mapped axis may be as long
as there are devices.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import tree
from ..control.shard_map import (
    bind,
    block_type,
    compute,
    freed,
    inside,
    names_of,
    parts,
    shard_map_p,
    sizes_of,
    start,
    variance_left,
    whole_type,
)
from ..core.avals import typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import convert_constvars
from ..core.source import take_names
from ..core.tracebacks import boundary
from ..errors import DuplicateSpecError, IndivisibleError
from ..primitives.collectives import pcast
from ..primitives.layout import expand_dims, squeeze
from ..runtime.commitment import name_shardings
from ..runtime.devices import local_devices
from ..runtime.meshes import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, named_mesh
from ..runtime.partition_spec import PartitionSpec
from ..runtime.placement import place
from ..runtime.shardings import NamedSharding
from .arguments import as_tuple, check_callable, debug_info
from .jit import jit
from .placement import lying_whole
from .vmap import canonical_mapped, mapped_size


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """`fun`, compiled and mapped over an axis, one element a device.

    `in_axes` and `out_axes` are as for `vmap`; `static_broadcasted_argnums` are part of
    the program.

    >>> pb.pmap(lambda x: x * 2)(jnp.ones((1, 3)))
    Array([[2., 2., 2.]], dtype=float32)

    Raises ValueError if the axis is longer than there are devices.
    """
    check_callable(fun)
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(a) is int or a is None for a in tree.leaves(axes)):
            raise TypeError(
                f"pmap {name} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes}."
            )
    if devices is not None and not len(devices):
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    available = list(local_devices(backend=backend) if devices is None else devices)
    static = as_tuple(static_broadcasted_argnums, "static_broadcasted_argnums")
    donated = as_tuple(donate_argnums, "donate_argnums")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        n = len(args)
        fixed = {k % n: args[k] for k in static if -n <= k < n}
        dynamic = [x for k, x in enumerate(args) if k not in fixed]
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for k, a in enumerate(in_axes) if k not in fixed)

        def call(*rest: Any, **kw: Any) -> Any:
            given = iter(rest)
            return fun(*(fixed[k] if k in fixed else next(given) for k in range(n)), **kw)

        _name_arguments(call, fun, fixed)
        size = axis_size or _axis_length(dynamic, kwargs, axes, ())
        return _on_each(
            call, tuple(dynamic), kwargs, (axes, out_axes), axis_name, available[: size or 0]
        )

    mapped.__name__ = "_fun"  # so programs name it
    compiled = jit(mapped, static_argnums=static, donate_argnums=donated)

    @take_names(fun, ())
    @boundary
    def pmap_f(*args: Any, **kwargs: Any) -> Any:
        if static and max(static) >= len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={static} but was called with "
                f"only {len(args)} positional argument{'s' if len(args) > 1 else ''}. All static "
                "broadcasted arguments must be passed positionally."
            )
        _check_static(fun, args, static)
        size = axis_size or _axis_length(args, kwargs, in_axes, static)
        if size is None:
            raise ValueError(
                "pmap requires at least one argument with a mapped axis. Fix: pass an array with "
                "an axis of one element a device, or axis_size."
            )
        if size is not None and size > len(available):
            raise IndivisibleError(
                f"compiling computation `{getattr(fun, '__name__', fun)}` that requires {size} "
                f"logical devices, but only {len(available)} devices are available (num_replicas="
                f"{size}). Fix: vmap instead of pmap, or a shorter mapped axis."
            )
        return compiled(*args, **kwargs)

    pmap_f.lower = compiled.lower
    return pmap_f


def _on_each(
    fun: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    axes: tuple[Any, Any],
    axis_name: Any,
    devices: Sequence[Any],
) -> Any:
    """`fun` on each device, which holds its own element of the mapped axes."""
    name = "_internal_pmap_axis_name" if axis_name is None else axis_name
    mesh, (in_axes, out_axes) = Mesh(list(devices), (name,)), axes
    leaves, in_tree = tree.flatten((args, kwargs))
    each = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
    if len(each) != len(args):
        raise ValueError(
            "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got len(in_axes)={len(each)}, "
            f"len(args)={len(args)}"
        )
    found = tree.flatten_axes("pmap in_axes", in_tree, tuple(each), kws=True)
    dims = [
        canonical_mapped(fun, k, x, a, args, kwargs)
        for k, (x, a) in enumerate(zip(leaves, found, strict=True))
    ]
    mapped_size(fun, leaves, dims, len(devices), args, kwargs)
    context = get_abstract_mesh()
    if context.manual_axes:
        raise ValueError(
            f"The context mesh {context} should match the mesh passed to shard_map {mesh}: pmap "
            "inside of pmap or shard_map needs devices that are taken. Fix: vmap inside."
        )
    params = {"mesh": mesh, "check_vma": False, "newly_manual_axes": frozenset((name,))}
    out: dict[str, Any] = {}

    def body(*blocks: Any) -> list[Any]:
        own = [x if d is None else squeeze(x, (d,)) for x, d in zip(blocks, dims, strict=True)]
        given, named = tree.unflatten(in_tree, own)
        results, out["tree"] = tree.flatten(fun(*given, **named))
        wanted = tree.flatten_axes("pmap out_axes", out["tree"], out_axes)
        out["specs"] = [_along(a, typeof(x).ndim + 1, name) for x, a in zip(results, wanted)]
        return [
            x if a is None else expand_dims(x, (a % (typeof(x).ndim + 1),))
            for x, a in zip(results, wanted, strict=True)
        ]

    ins = [_along(d, typeof(x).ndim, name) for x, d in zip(leaves, dims, strict=True)]
    avals = [block_type(typeof(x), s, params) for x, s in zip(leaves, ins, strict=True)]
    start()
    with inside(params):
        jaxpr, consts = trace_to_jaxpr(body, avals, debug_info("pmap", fun, args, kwargs))
    name_shardings()
    ins = [PartitionSpec()] * len(consts) + ins
    outs = bind([*consts, *leaves], convert_constvars(jaxpr), params, ins, out["specs"])
    return tree.unflatten(out["tree"], outs)


def _along(axis: int | None, ndim: int, name: Any) -> PartitionSpec:
    """The spec of an array with a mapped axis; ValueError if it has no such axis."""
    if axis is None:
        return PartitionSpec()
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"axis {axis} is out of bounds for array of dimension {ndim}. Fix: use an axis from "
            f"{-ndim} to {ndim - 1}."
        )
    return PartitionSpec(*[None] * (axis % ndim), name)


def _name_arguments(call: Any, fun: Any, fixed: Mapping[int, Any]) -> None:
    """Messages about `call` name the arguments of `fun` that are not fixed."""
    try:
        named = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return
    rest = [p for k, p in enumerate(named) if k not in fixed]
    call.__signature__ = inspect.Signature(rest, __validate_parameters__=False)


def _check_static(fun: Any, args: Sequence[Any], static: Sequence[int]) -> None:
    for k in static:
        if -len(args) <= k < len(args):
            try:
                hash(args[k])
            except TypeError:
                raise ValueError(
                    "Non-hashable static arguments are not supported, as this can lead to "
                    f"unexpected cache-misses. Static argument (index {k}) of type "
                    f"{type(args[k])} for function {getattr(fun, '__name__', fun)} is "
                    "non-hashable. Fix: pass a tuple instead of a list, or take the argument out "
                    "of static_broadcasted_argnums."
                ) from None


def _axis_length(args: Any, kwargs: Any, in_axes: Any, static: Sequence[int]) -> int | None:
    """The length of the mapped axis, from the first leaf that is mapped; vmap checks the others."""
    n = len(args)
    fixed = {k % n for k in static if -n <= k < n}
    each = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * n
    pairs = [(x, a) for k, (x, a) in enumerate(zip(args, each, strict=False)) if k not in fixed]
    for x, axes in [*pairs, (kwargs, 0)]:
        leaves, treedef = tree.flatten(x)
        for leaf, axis in zip(
            leaves, tree.flatten_axes("pmap in_axes", treedef, axes), strict=True
        ):
            if axis is not None and typeof(leaf).shape:
                return int(typeof(leaf).shape[axis])
    return None


class _Infer:
    """Stands for "as the arguments lie"."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Any = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f` on the blocks of its arguments that the devices of a mesh hold.

    `in_specs` and `out_specs` are pytree prefixes of PartitionSpecs: an axis of an array that names
    an axis of the mesh is cut into as many blocks; what does not name it, every device has whole.
    In `f` the axes of the mesh are named axes: psum, all_gather, ppermute and so on.

    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> total = lambda x: lax.psum(x.sum(), "i")
    >>> pb.shard_map(total, mesh=mesh, in_specs=pb.P("i"), out_specs=pb.P())(jnp.arange(4.0))
    Array(6., dtype=float32)

    Raises ValueError if an axis does not divide into its blocks, or a result that varies over the
    devices has a spec that says it does not.
    """
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(
            "`axis_names` argument of shard_map should be of type `frozenset` or `set`. Got type: "
            f"{type(axis_names)}"
        )
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable(f)
    start()

    @take_names(f, ())
    def sharded(*args: Any) -> Any:
        on, sizes = _mesh_in_use(mesh, axis_names)
        leaves, in_tree = tree.flatten(args)
        if in_specs is Infer:
            _check_explicit(on, sizes)
            specs = [_spec_of(x, sizes) for x in leaves]
        else:
            given = tuple(in_specs) if type(in_specs) is list else in_specs
            specs = _specs("in_specs", in_tree, given)
        _check_names("in_specs", specs, sizes)
        for x, spec in zip(leaves, specs, strict=True):
            _check_cut("in_specs", typeof(x).shape, spec, sizes)
            _check_as_it_lies(typeof(x), spec, on, sizes)
        params = {
            "mesh": _shown(on), "check_vma": check_vma, "newly_manual_axes": frozenset(sizes)
        }  # fmt: skip
        body = _Body(f, in_tree, out_specs, params)
        avals = [block_type(typeof(x), s, params) for x, s in zip(leaves, specs, strict=True)]
        with inside(params):
            jaxpr, consts = trace_to_jaxpr(body, avals, debug_info("shard_map", f, args, {}))
        specs = [PartitionSpec()] * len(consts) + specs
        if isinstance(on, Mesh):
            name_shardings()
        outs = bind([*consts, *leaves], convert_constvars(jaxpr), params, specs, body.specs)
        return tree.unflatten(body.tree, outs)

    return sharded


def _now(*args: Any, **params: Any) -> list[Any]:
    """The results of a `shard_map` of arrays, laid out as their specs say."""
    mesh = _mesh_with_devices(params["mesh"], args)
    outs = compute(*args, **params)
    if mesh is None:
        return outs
    laid = []
    for x, v, spec in zip(outs, params["jaxpr"].outvars, params["out_specs"], strict=True):
        said = whole_type(v.aval, spec, params)._sharding  # of axes that are not manual, too
        lies = NamedSharding(mesh, spec if said is None else said.spec)
        laid.append(place(x, lies) if hasattr(x, "_lies_on") else x)
    return laid


def _mesh_with_devices(mesh: Any, args: Sequence[Any]) -> Any:
    """The mesh whose devices compute now, as far as it, the mesh in force or an argument says."""
    held = [getattr(getattr(x, "_lies_on", None), "mesh", None) for x in args]
    for found in (mesh, get_mesh(), *held):
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found
    return None


shard_map_p.def_impl(_now)
freed[0] = lying_whole


def _shown(mesh: Any) -> Any:
    """The mesh that an equation names: what is in force, if some of its axes are manual already."""
    before = get_abstract_mesh()
    return before if before.manual_axes and before.shape_tuple == mesh.shape_tuple else mesh


class _Body:
    """The program of one device, as it is traced: a function of flat blocks."""

    def __init__(self, fun: Any, in_tree: Any, out_specs: Any, params: dict[str, Any]) -> None:
        self.fun, self.in_tree, self.out_specs, self.params = fun, in_tree, out_specs, params
        self.tree: Any = None
        self.specs: list[Any] = []

    def __call__(self, *xs: Any) -> list[Any]:
        outs, self.tree = tree.flatten(self.fun(*tree.unflatten(self.in_tree, xs)))
        self.specs = _specs("out_specs", self.tree, self.out_specs)
        _check_names("out_specs", self.specs, sizes_of(self.params))
        made = []
        for x, spec in zip(outs, self.specs, strict=True):
            _check_rank("out_specs", spec, typeof(x).shape)
            made.append(self._result(x, spec) if self.params["check_vma"] else x)
        return made

    def _result(self, x: Any, spec: Any) -> Any:
        """A result that varies over what its spec says. ValueError if it varies over more."""
        more = variance_left(typeof(x), spec, self.params)
        if more:
            mesh, name = self.params["mesh"], getattr(self.fun, "__name__", str(self.fun))
            over = ",".join(str(n) for n in mesh.axis_names if n in more)
            raise ValueError(
                f"shard_map applied to the function {name!r} was given out_specs which require "
                "replication which can't be statically inferred given the mesh:\n\nThe mesh given "
                f"has shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}.\n\n"
                f"out_specs is {spec}, which says that the value does not vary over {{{over}}}, "
                "but it was inferred to be possibly varying over it.\n\nFix: reduce it (lax.psum), "
                "name the axis in out_specs, or pass check_vma=False if it does not vary."
            )
        missing = names_of(spec) - typeof(x).vma
        return (
            pcast(x, tuple(n for n in sizes_of(self.params) if n in missing), to="varying")
            if (missing)
            else x
        )


def smap(f: Any = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Any:
    """`shard_map` over one axis of the mesh, with axes of arrays (or None) in place of specs.

    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> with pb.set_mesh(mesh):
    ...     pb.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name="i")(jnp.arange(4))
    Array([0, 2, 4, 6], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    def spec(axis: Any) -> PartitionSpec:
        return PartitionSpec(*([None] * axis), axis_name) if axis is not None else PartitionSpec()

    def specs(axes: Any) -> Any:
        return tree.tree_map(spec, axes, is_leaf=lambda a: a is None)

    ins = in_axes if in_axes is Infer else specs(in_axes)
    return shard_map(f, in_specs=ins, out_specs=specs(out_axes), axis_names={axis_name})


def _mesh_in_use(mesh: Any, axis_names: Any) -> tuple[Any, dict[Any, int]]:
    """The mesh, and its axes that become manual and their sizes, in the mesh's order."""
    context = get_abstract_mesh()
    found: Any = mesh
    if found is None:
        found = named_mesh() if context.empty or not context.manual_axes else context
        if found.empty and not context.empty:
            found = context
    if not isinstance(found, (Mesh, AbstractMesh)):
        raise TypeError(
            "shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh` instance "
            f"for its second argument, but got {mesh} of type {type(mesh)}."
        )
    if found.empty:
        raise ValueError(
            "The context mesh cannot be empty. Fix: pass mesh=, or use jax.set_mesh(mesh) to enter "
            "into a mesh context."
        )
    if not context.empty and context.shape_tuple != found.shape_tuple:
        raise ValueError(
            f"The context mesh {context} should match the mesh passed to shard_map {found}. Fix: "
            "leave out mesh=, or call it under that mesh."
        )
    known = found if context.empty else context
    wanted = set(axis_names) or set(found.axis_names) - set(known.manual_axes)
    missing = wanted - set(found.axis_names)
    if missing:
        raise ValueError(f"axis_names {missing} are not axes of the mesh {found.axis_names}.")
    return found, {name: int(found.shape[name]) for name in found.axis_names if name in wanted}


def _check_explicit(mesh: Any, names: Iterable[Any]) -> None:
    """TypeError unless arguments say how they lie on these axes."""
    found = mesh
    kinds = dict(zip(found.axis_names, found.axis_types, strict=True))
    if any(kinds[n] is not AxisType.Explicit for n in names):
        raise TypeError(
            "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` "
            f"instances, but it was `None` when axis_names={frozenset(names)} are of type "
            f"{', '.join(str(kinds[n]) for n in names)}. Fix: give in_specs."
        )


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec) or x is None


def _specs(what: str, treedef: Any, prefix: Any) -> list[Any]:
    """A spec for each leaf, from a pytree prefix of them."""
    if _is_spec(prefix):
        return [prefix or PartitionSpec()] * treedef.num_leaves
    wrong = [s for s in tree.leaves(prefix, is_leaf=_is_spec) if not _is_spec(s)]
    if wrong:
        raise TypeError(
            f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` "
            f"instances, but:\n\n  {what} is or has {wrong[0]!r} of type "
            f"{type(wrong[0]).__name__}, which is not a `jax.sharding.PartitionSpec`. Fix: P(...)"
        )
    holder = tree.unflatten(treedef, range(treedef.num_leaves))
    found: list[Any] = []
    try:
        tree.tree_map(
            lambda s, part: found.extend([s or PartitionSpec()] * len(tree.flatten(part)[0])),
            prefix,
            holder,
            is_leaf=_is_spec,
        )
    except ValueError as e:
        raise ValueError(
            f"shard_map {what} is not a pytree prefix of what it describes: {prefix} for {holder}. "
            f"{e}"
        ) from None
    return found


def _spec_of(x: Any, sizes: dict[Any, int]) -> PartitionSpec:
    """How an argument lies over the axes that become manual."""
    found = parts(typeof(x).sharding.spec, typeof(x).ndim)
    return PartitionSpec(*[tuple(n for n in names if n in sizes) for names in found])


def _check_names(what: str, specs: Sequence[Any], sizes: dict[Any, int]) -> None:
    """ValueError if a spec names what is no axis of the mesh, DuplicateSpecError if it names one
    twice."""
    for spec in specs:
        names = [n for part in parts(spec, len(spec)) for n in part]
        for name in names:
            if name not in sizes:
                raise ValueError(
                    f"shard_map {what} argument must refer to an axis marked as manual "
                    f"({list(sizes)}), but {what} refers to {name!r} in {spec}."
                )
            if names.count(name) > 1:
                raise DuplicateSpecError(
                    f"shard_map {what} {spec} has duplicate entries for `{name}`: an axis of the "
                    "mesh can cut one axis of an array."
                )


def _check_cut(what: str, shape: Any, spec: Any, sizes: dict[Any, int]) -> None:
    """ValueError if an array cannot be cut into the blocks that its spec says."""
    _check_rank(what, spec, shape)
    for n, names in zip(shape, parts(spec, len(shape)), strict=True):
        blocks = math.prod([sizes[name] for name in names])
        if n % blocks:
            raise ValueError(
                f"shard_map applied to an array of shape {shape}: {what} {spec} cuts an axis of "
                f"size {n} into {blocks} blocks, which does not divide it evenly."
            )


def _check_as_it_lies(aval: Any, spec: Any, mesh: Any, sizes: dict[Any, int]) -> None:
    """ValueError if an array whose type says how it lies over axes that become manual is cut in
    another way."""
    lies = aval._sharding
    if lies is None or set(mesh.explicit_axes) - set(sizes):
        return
    have = [tuple(n for n in p if n in sizes) for p in parts(lies.spec, aval.ndim)]
    if any(have) and have != parts(spec, aval.ndim):
        raise ValueError(
            f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
            f"{lies.spec} for arg: {aval.str_short()}. `in_specs` is an optional argument so you "
            "can omit specifying it. Fix: leave it out, or jax.reshard the array first."
        )


def _check_rank(what: str, spec: Any, shape: Any) -> None:
    if len(spec) > len(shape):
        raise ValueError(
            f"shard_map was given an entry of {what} which is too long to be compatible with its "
            f"array: {spec} has length {len(spec)}, but the array has shape {shape}, which has "
            f"rank {len(shape)}. Fix: one entry an axis; add an axis to scalars with x[None]."
        )
