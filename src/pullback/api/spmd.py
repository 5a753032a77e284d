"""One program on many devices: `pmap`, `shard_map` and `smap`.

The devices of this process are one machine's: the program runs batched, with the devices' axes as
named axes of the batch, so that collectives are operations within it. A mapped axis may be as long
as there are devices.
"""

from __future__ import annotations

import functools
import inspect
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
    on_blocks,
    shard_map_p,
    sizes_of,
    start,
    variance_left,
    whole_type,
)
from ..core.avals import typeof
from ..core.build import is_staged, trace_to_jaxpr
from ..core.effects import check_on_several_devices
from ..core.explicit import names_in
from ..core.jaxpr import convert_constvars
from ..core.source import take_names
from ..core.trace import current_trace
from ..core.tracebacks import boundary
from ..errors import ConcretizationTypeError, IndivisibleError
from ..primitives.collectives import pcast
from ..primitives.layout import expand_dims, squeeze
from ..runtime.commitment import name_shardings
from ..runtime.devices import local_devices
from ..runtime.meshes import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, named_mesh
from ..runtime.partition_spec import PartitionSpec
from ..runtime.placement import place
from ..runtime.shardings import NamedSharding
from ..transforms.batch import axes_around
from .arguments import as_tuple, check_callable, debug_info
from .jit import jit
from .placement import lying_whole
from .shard_specs import Specs, check_explicit, spec_of
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
    _check_pmap(fun, in_axes, out_axes, devices)
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
        _check_call(fun, args, kwargs, in_axes, static, axis_size, len(available))
        return compiled(*args, **kwargs)

    pmap_f.lower = compiled.lower
    return pmap_f


def _check_pmap(fun: Any, in_axes: Any, out_axes: Any, devices: Any) -> None:
    """What pmap itself is given."""
    check_callable(fun)
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(a) is int or a is None for a in tree.leaves(axes)):
            raise TypeError(
                f"pmap {name} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes}."
            )
    if devices is not None and not len(devices):
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")


def _check_call(
    fun: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_axes: Any,
    static: tuple[int, ...],
    axis_size: int | None,
    available: int,
) -> None:
    """What a function that was mapped by pmap is called with: static arguments by position, and a
    mapped axis that has as many elements as devices are available, at most."""
    if static and max(static) >= len(args):
        raise ValueError(
            f"pmapped function has static_broadcasted_argnums={static} but was called with "
            f"only {len(args)} positional argument{'s' if len(args) > 1 else ''}. All static "
            "broadcasted arguments must be passed positionally."
        )
    _check_static(fun, args, static)
    length = _axis_length(args, kwargs, in_axes, static)
    if axis_size is not None and length not in (None, axis_size):
        raise ValueError(
            f"Specified axis_size {axis_size} doesn't match received axis_size {length}. Fix: "
            "leave it out."
        )
    size = axis_size or length
    if size is None:
        raise ValueError(
            "pmap requires at least one argument with a mapped axis. Fix: pass an array with "
            "an axis of one element a device, or axis_size."
        )
    if size > available:
        raise IndivisibleError(
            f"compiling computation `{getattr(fun, '__name__', fun)}` that requires {size} "
            f"logical devices, but only {available} devices are available (num_replicas="
            f"{size}). Fix: vmap instead of pmap, or a shorter mapped axis."
        )


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
    if mesh.size > 1:
        check_on_several_devices(jaxpr.effects)
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
_CUT = object()  # stands for an argument's block


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
    if not callable(f):
        raise TypeError(
            f"shard_map requires a callable for its first argument, but got {f} of type {type(f)}."
        )
    start()

    @take_names(f, ())
    def sharded(*args: Any) -> Any:
        on, sizes = _mesh_in_use(mesh, axis_names)
        values, in_tree = tree.flatten(args)
        if in_specs is Infer:
            check_explicit(on, sizes)
            given = tree.unflatten(in_tree, [spec_of(x, sizes) for x in values])
        else:
            given = tuple(in_specs) if type(in_specs) is list else in_specs
        found = Specs("in_specs", f, in_tree, given, on, sizes)
        wholes = [None if s is None else typeof(x) for x, s in zip(values, found.each, strict=True)]
        found.check_cut(wholes)
        found.check_lying(wholes)
        held = [x if s is None else _CUT for x, s in zip(values, found.each, strict=True)]
        leaves = [x for x, h in zip(values, held, strict=True) if h is _CUT]
        specs = [s for s in found.each if s is not None]
        params = {
            "mesh": _shown(on), "check_vma": check_vma, "newly_manual_axes": frozenset(sizes)
        }  # fmt: skip
        body = _Body(f, in_tree, held, out_specs, params)
        cut = [a for a in wholes if a is not None]
        avals = [block_type(a, s, params) for a, s in zip(cut, specs, strict=True)]
        try:
            with inside(params):
                jaxpr, consts = trace_to_jaxpr(body, avals, debug_info("shard_map", f, args, {}))
        except ConcretizationTypeError:
            if is_staged():
                raise
            outs = body.at_once(leaves, specs)
            return tree.unflatten(body.tree, outs)
        specs = [PartitionSpec()] * len(consts) + specs
        if isinstance(on, Mesh):
            name_shardings()
        outs = bind([*consts, *leaves], convert_constvars(jaxpr), params, specs, body.specs)
        return tree.unflatten(body.tree, outs)

    return sharded


def _now(*args: Any, **params: Any) -> list[Any]:
    """The results of a `shard_map` of arrays, laid out as their specs say."""
    mesh = _mesh_with_devices(params["mesh"], args)
    try:
        outs = compute(*args, **params)
    except FloatingPointError as fault:
        what = "nan" if "(nan)" in str(fault) else "inf"
        fault.args = (f"Invalid value ({what}) encountered in sharded computation: {fault}",)
        raise
    if mesh is None:
        return outs
    specs = []
    for v, spec in zip(params["jaxpr"].outvars, params["out_specs"], strict=True):
        said = whole_type(v.aval, spec, params)._sharding  # of axes that are not manual, too
        specs.append(spec if said is None else said.spec)
    return _laid(outs, specs, mesh)


def _laid(outs: Sequence[Any], specs: Sequence[Any], mesh: Any) -> list[Any]:
    return [
        place(x, NamedSharding(mesh, spec)) if hasattr(x, "_lies_on") else x
        for x, spec in zip(outs, specs, strict=True)
    ]


def _mesh_with_devices(mesh: Any, args: Sequence[Any]) -> Any:
    """The mesh whose devices compute now, as far as it, the mesh in force or an argument says.
    ValueError if nothing says it, or an argument lies over another mesh."""
    if isinstance(mesh, Mesh):
        return mesh
    if mesh.manual_axes:  # in the body of another one, which lays out what comes out of it
        return None
    arrays = [x for x in args if hasattr(x, "_lies_on")]
    held = [getattr(x._lies_on, "mesh", None) for x in arrays]
    for x, other in zip(arrays, held, strict=True):
        if isinstance(other, Mesh) and other.shape_tuple != mesh.shape_tuple:
            raise ValueError(
                f"Mesh shape of the input {other.shape_tuple} does not match the mesh shape passed "
                f"to shard_map {mesh.shape_tuple} for shape {typeof(x).str_short()}. Fix: "
                "jax.device_put it over that mesh."
            )
    for found in (get_mesh(), *held):
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found
    raise ValueError(
        "Please pass `jax.Array`s with a `NamedSharding` as input to `shard_map` when passing "
        "`AbstractMesh` to the mesh argument."
    )


shard_map_p.def_impl(_now)
freed[0] = lying_whole


def _shown(mesh: Any) -> Any:
    """The mesh that an equation names: what is in force, if some of its axes are manual already."""
    before = get_abstract_mesh()
    return before if before.manual_axes and before.shape_tuple == mesh.shape_tuple else mesh


class _Body:
    """The program of one device, as it is traced: a function of flat blocks."""

    def __init__(
        self, fun: Any, in_tree: Any, held: list[Any], out_specs: Any, params: dict[str, Any]
    ) -> None:
        self.fun, self.in_tree, self.out_specs, self.params = fun, in_tree, out_specs, params
        self.held = held  # the leaves of the arguments: objects as they are, _CUT for a block
        self.tree: Any = None
        self.specs: list[Any] = []

    def __call__(self, *xs: Any) -> list[Any]:
        outs = self._run(xs)
        if not self.params["check_vma"]:
            return outs
        return [self._result(x, spec) for x, spec in zip(outs, self.specs, strict=True)]

    def _run(self, xs: Any) -> list[Any]:
        blocks = iter(xs)
        own = [next(blocks) if x is _CUT else x for x in self.held]
        outs, self.tree = tree.flatten(self.fun(*tree.unflatten(self.in_tree, own)))
        mesh, sizes = self.params["mesh"], sizes_of(self.params)
        said = Specs("out_specs", self.fun, self.tree, self.out_specs, mesh, sizes)
        self.specs[:] = said.each
        for k, x in enumerate(outs):
            said.check_rank(k, typeof(x))
        return outs

    def at_once(self, leaves: Sequence[Any], in_specs: Sequence[Any]) -> list[Any]:
        """The results for arrays, of a function that looks at values: it may look at those that are
        the same on all devices."""
        mesh = _mesh_with_devices(self.params["mesh"], leaves)

        def refuse(k: int, axis: Any) -> None:
            self._refuse(self.specs[k], (axis,))

        outs = on_blocks(
            lambda *xs: self._run(xs), leaves, in_specs, self.specs, self.params,
            refuse if self.params["check_vma"] else None,
        )  # fmt: skip
        return outs if mesh is None else _laid(outs, self.specs, mesh)

    def _refuse(self, spec: Any, more: Any) -> None:
        """ValueError: a result varies over more than its spec says."""
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

    def _result(self, x: Any, spec: Any) -> Any:
        """A result that varies over what its spec says. ValueError if it varies over more."""
        more = variance_left(typeof(x), spec, self.params)
        if more:
            self._refuse(spec, more)
        if spec.unreduced - typeof(x).vma:
            raise ValueError(
                f"out_specs passed to shard_map: {spec} says that sums over {set(spec.unreduced)} "
                f"are still to come, but the value of type {typeof(x).str_short()} is the same "
                "there. Fix: leave out unreduced."
            )
        missing = names_of(spec) - typeof(x).vma
        over = tuple(n for n in sizes_of(self.params) if n in missing)
        return pcast(x, over, to="varying") if over else x


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

    if in_axes is Infer:
        kinds = dict(zip((mesh := named_mesh()).axis_names, mesh.axis_types, strict=True))
        if kinds.get(axis_name, AxisType.Explicit) is not AxisType.Explicit:
            raise TypeError(
                f"in_axes was not specified when axis_name={frozenset((axis_name,))} was of type "
                f"{kinds[axis_name]}. Fix: give in_axes."
            )
    ins = in_axes if in_axes is Infer else specs(in_axes)
    return shard_map(f, in_specs=ins, out_specs=specs(out_axes), axis_names={axis_name})


def _mesh_in_use(mesh: Any, axis_names: Any) -> tuple[Any, dict[Any, int]]:
    """The mesh, and its axes that become manual and their sizes, in the mesh's order."""
    context = get_abstract_mesh()
    around = [axis.lies[1] for axis in axes_around(current_trace()) if axis.lies]
    mapped = {n for part in around for n in names_in(part)}
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
    alike = context.empty or (
        context.shape_tuple == found.shape_tuple
        and (not context.manual_axes or context.axis_types == found.axis_types)
    )
    if not alike:
        raise ValueError(
            f"The context mesh {context} should match the mesh passed to shard_map {found}. Fix: "
            "leave out mesh=, or call it under that mesh."
        )
    known = found if context.empty else context
    wanted = set(axis_names) or set(found.axis_names) - set(known.manual_axes)
    missing = (wanted - set(found.axis_names)) | (set(axis_names) & mapped)
    if not wanted:
        raise ValueError(
            f"The context mesh {context} should match the mesh passed to shard_map {found}: all "
            "its axes are manual already. Fix: call the function without shard_map."
        )
    if missing:
        raise ValueError(
            f"jax.shard_map requires axis_names={frozenset(axis_names)} to be a subset of "
            f"mesh.axis_names={frozenset(found.axis_names) - mapped}."
        )
    return found, {name: int(found.shape[name]) for name in found.axis_names if name in wanted}
