"""Moving values to and from devices, and waiting for them."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import said, typeof
from ..core.build import is_staged, staged
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import Tracer
from ..errors import UnexpectedTracerError
from ..lazy_imports import lazy_module
from ..primitives.common import layers, zero_of
from ..primitives.keys import PRNGKeyArray
from ..primitives.sharding import reshard_p, sharding_constraint_p
from ..runtime.array import ArrayImpl, make_array
from ..runtime.commitment import check_stays, name_shardings
from ..runtime.devices import Device, default_backend, devices
from ..runtime.dispatch import to_array
from ..runtime.layouts import Format, Layout
from ..runtime.meshes import AxisType, get_abstract_mesh, get_mesh, mesh_here, named_mesh
from ..runtime.partition_spec import PartitionSpec, axes_of
from ..runtime.placement import from_shards, place, sharding_of
from ..runtime.shardings import NamedSharding, Sharding, SingleDeviceSharding, Space, has_devices
from .asked import check_fits, check_layouts, checked

running: Any = lazy_module("pullback.runtime.queue")


class ArrayCopySemantics(enum.IntEnum):
    """What `device_put` does with the memory of an operand.

    >>> program = pullback.make_jaxpr(pullback.device_put)(1.0)
    >>> program.eqns[0].params["copy_semantics"]
    (ArrayCopySemantics.REUSE_INPUT,)
    """

    ALWAYS_COPY = 0
    REUSE_INPUT = 1
    DONATE_INPUT = 2

    def __repr__(self) -> str:
        return f"ArrayCopySemantics.{self.name}"

    __str__ = __repr__


def _put_impl(*args: Any, devices: Any, srcs: Any, copy_semantics: Any) -> list[Any]:
    return list(map(_put_now, args, devices, copy_semantics))


def _put_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    outs = device_put_p.bind(*primals, **params)
    moved = [k for k, x in enumerate(primals) if dtypes.is_inexact(typeof(x).dtype)]
    out_tangents: list[Any] = list(map(zero_of, outs))
    if any(type(tangents[k]) is not Zero for k in moved):
        put = device_put_p.bind(
            *[instantiate_zeros(tangents[k]) for k in moved], **_only(params, moved)
        )
        for k, t in zip(moved, put, strict=True):
            out_tangents[k] = t
    return outs, out_tangents


def _only(params: dict[str, Any], which: Sequence[int]) -> dict[str, Any]:
    return {name: tuple(values[k] for k in which) for name, values in params.items()}


def _put_transpose(cts: Any, *args: Any, devices: Any, srcs: Any, copy_semantics: Any) -> list[Any]:
    linear = [type(x) is UndefinedPrimal for x in args]
    moved = [k for k, ct in enumerate(cts) if linear[k] and type(ct) is not Zero]
    if any(copy_semantics[k] == ArrayCopySemantics.DONATE_INPUT for k in moved):
        raise ValueError(
            "donate=True is not allowed during transposition of device_put. Fix: device_put "
            "without donate in functions that are differentiated."
        )
    out: list[Any] = [
        (Zero(x.aval) if is_linear else None) for x, is_linear in zip(args, linear, strict=True)
    ]
    if moved:
        back = {
            "devices": srcs,
            "srcs": devices,
            "copy_semantics": (ArrayCopySemantics.ALWAYS_COPY,) * len(args),
        }
        put = device_put_p.bind(*[cts[k] for k in moved], **_only(back, moved))
        for k, ct in zip(moved, put, strict=True):
            out[k] = ct
    return out


device_put_p: Primitive = Primitive(
    "device_put",
    multiple_results=True,
    abstract_eval=lambda *avals, **params: list(avals),
    impl=_put_impl,
    jvp=_put_jvp,
    transpose=_put_transpose,
    batch=lambda args, dims, **params: (device_put_p.bind(*args, **params), list(dims)),
)


# The kinds of memory, as `pullback.memory.Space`.
memory = types.SimpleNamespace(Space=Space)


def _sharding(device: Any) -> Sharding | None:
    """The sharding that a `device` argument means; None if it asks for nothing."""
    if isinstance(device, Format):
        device = device.sharding
    if device is None or isinstance(device, Space):
        return None
    if isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return SingleDeviceSharding(device)
    raise ValueError(
        "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`, `jax.Device`, `Format`, "
        "`jax.memory.Space` or a pytree of these values. "
        f"Received invalid value: {device}"
    )


def _target(device: Any) -> Any:
    """`device` as equations hold it: what a PartitionSpec means under the mesh in force."""
    if isinstance(device, PartitionSpec):
        mesh = get_mesh()
        if mesh.empty:
            raise ValueError(
                "Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put"
            )
        return NamedSharding(mesh, device)
    _sharding(device)
    return device


def _put_now(leaf: Any, device: Any, semantics: Any) -> Any:
    if isinstance(device, Format):
        _check_format(leaf, device)
    # An array of keys stays one: as an operand it would be its words.
    keys = isinstance(leaf, PRNGKeyArray)
    x = leaf if keys else to_array(leaf, True)
    if semantics == ArrayCopySemantics.ALWAYS_COPY and keys:
        x = x.copy()
    elif semantics == ArrayCopySemantics.ALWAYS_COPY and type(leaf) is ArrayImpl:
        x = make_array(np.asarray(x), x.aval, True)
    if isinstance(device, Space):
        kind = "pinned_host" if device is Space.Host else "device"
        return place(x, sharding_of(x).with_memory_kind(kind))
    sharding = _sharding(device)
    if sharding is None:
        own = getattr(leaf, "_lies_on", None)
        return x if x is leaf or not isinstance(own, Sharding) else place(x, own)
    if not has_devices(sharding) and get_mesh().empty:
        raise ValueError(
            "device_put takes shardings with devices, got one over a `jax.sharding.AbstractMesh`: "
            f"{sharding}. Fix: NamedSharding(mesh, spec) over a mesh of jax.make_mesh."
        )
    check_fits([sharding], [typeof(x)], lambda k: "", "device_put args")
    return x if x is leaf and getattr(x, "_lies_on", None) == sharding else place(x, sharding)


def _check_format(leaf: Any, wanted: Format) -> None:
    """ValueError for a format that leaves the layout open, or is not one of arrays of this rank."""
    aval = typeof(leaf)
    if wanted.layout is Layout.AUTO:
        raise ValueError(
            "sharding and layout in `Layout` instance should be concrete. Got layout: "
            f"{wanted} for input {aval.str_short()}"
        )
    check_layouts([wanted], [aval], lambda k: "result", "jit outputs")


def _check_value(leaf: Any) -> None:
    try:
        typeof(leaf)
    except TypeError:
        raise TypeError(
            f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type: device_put takes "
            "arrays, numbers, and pytrees of them."
        ) from None


def _source(leaf: Any, src: Any) -> Any:
    return leaf.sharding if src is None and type(leaf) is ArrayImpl else src


def _semantics(donate: Any, may_alias: Any) -> ArrayCopySemantics:
    if donate and may_alias:
        raise ValueError(
            "may_alias and donate cannot be True at the same time. Fix: pass one of them."
        )
    if donate:
        return ArrayCopySemantics.DONATE_INPUT
    if may_alias is None or may_alias:
        return ArrayCopySemantics.REUSE_INPUT
    return ArrayCopySemantics.ALWAYS_COPY


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: Any = False,
    may_alias: bool | None = None,
) -> Any:
    """The arrays of a pytree, on a device or with a sharding (or a pytree prefix of them). Within
    one machine's memory nothing is copied, unless `may_alias=False` asks for it. `src`, `donate`
    and `may_alias` may be pytree prefixes too.

    `x`: a pytree of arrays.

    >>> pb.device_put(np.arange(3))
    Array([0, 1, 2], dtype=int32)

    Raises TypeError for a leaf that is not an array or a number, ValueError for a `device` that is
    none, a shape that its sharding cannot divide, or a leaf that is donated and may be aliased.
    """
    plain = device is None and may_alias is None and not donate
    if plain and isinstance(x, np.ndarray | np.generic):
        return staged(to_array(x, True), new=True)
    writes = is_staged()
    if plain and not writes and type(x) is ArrayImpl:
        return x
    leaves, structure = tree.flatten(x)

    def spread(name: str, prefix: Any) -> list[Any]:
        return tree.flatten_axes(f"device_put {name}", structure, prefix)

    targets = [_target(to) for to in spread("device", device)]
    sources = spread("source", src)
    semantics = list(map(_semantics, spread("donate", donate), spread("may_alias", may_alias)))
    for leaf in leaves:
        _check_value(leaf)
    if plain and writes and leaves:  # what is NumPy's is made an array as in any other place
        writes = not all(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves)
    written = writes or any(isinstance(leaf, Tracer) for leaf in leaves)
    if any(
        t is Space.Host
        or getattr(t, "memory_kind", "") == "pinned_host"
        or (written and isinstance(t, Sharding))
        for t in targets
    ):
        _layouts_are_named()
    if written:
        outs = device_put_p.bind(
            *leaves,
            devices=tuple(targets),
            srcs=tuple(map(_source, leaves, sources)),
            copy_semantics=tuple(semantics),
        )
    else:
        outs = [staged(x) for x in map(_put_now, leaves, targets, semantics)]
    return tree.unflatten(structure, outs)


def make_array_from_callback(
    shape: Any, sharding: Any, data_callback: Callable[[Any], Any], *, dtype: Any = None
) -> Any:
    """An Array whose part on each device is `data_callback(index)`, for the index of that part in
    the whole.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_callback((2,), sharding, lambda index: np.arange(2.0)[index])
    Array([0., 1.], dtype=float32)
    """
    target = sharding.sharding if isinstance(sharding, Format) else sharding
    if isinstance(sharding, Format) and sharding.layout is Layout.AUTO:
        raise TypeError(
            "`Layout.AUTO` cannot be used in place of a device-local layout when calling "
            f"`jax.make_array_from_callback`. Got {sharding}"
        )
    if not isinstance(target, Sharding):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {target} of type "
            f"{type(target)}. Fix: NamedSharding(mesh, spec)"
        )
    parts = []
    for device, index in target.devices_indices_map(tuple(shape)).items():
        part = data_callback(index)
        if isinstance(part, Tracer):
            raise UnexpectedTracerError(
                "jax.make_array_from_callback cannot be called within a traced context. Fix: make "
                "the array outside of the traced function."
            )
        part = to_array(part)
        if dtype is not None and part.dtype != dtype:
            raise ValueError(
                "If `dtype` is provided to `jax.make_array_from_callback`, it must match the dtype "
                f"of the addressable shards. Got dtype={np.dtype(dtype)} and shard "
                f"dtype={part.dtype}. Fix: leave it out, or have the callback give that dtype."
            )
        parts.append(place(part, SingleDeviceSharding(device)))
    return from_shards(shape, target, parts)


def make_array_from_single_device_arrays(
    shape: Any, sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """An Array made of the parts that the devices of a sharding hold, in any order. TypeError if
    they are no list or tuple of arrays, ValueError if they do not fit, or lie on other devices.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_single_device_arrays((3,), sharding, [jnp.arange(3)])
    Array([0, 1, 2], dtype=int32)
    """
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(
            "jax.make_array_from_single_device_arrays `arrays` argument must be a list or tuple, "
            f"but got {type(arrays)}."
        )
    traced = {type(part) for part in arrays if isinstance(part, Tracer)}
    if traced:
        raise ValueError(
            "jax.make_array_from_single_device_arrays requires a list of concrete arrays as input, "
            f"but got types {traced}. Fix: make the array outside of the traced function."
        )
    if not arrays and dtype is None:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
            "argument to `jax.make_array_from_single_device_arrays`."
        )
    for part in arrays:
        if not isinstance(part, ArrayImpl | PRNGKeyArray):
            raise TypeError(
                f"Unsupported type for elements in `arrays`: {type(part)}. Fix: "
                "jax.device_put(part, device)"
            )
        if (count := len(part.sharding.device_set)) > 1:
            raise ValueError(
                "When making an array from single-device arrays the input arrays must have one "
                f"shard each. An argument array had {count} shard(s). Fix: [s.data for s in "
                "part.addressable_shards]"
            )
        if dtype is not None and part.dtype != dtype:
            raise ValueError(
                "If `dtype` is provided to `jax.make_array_from_single_device_arrays`, it must "
                f"match the dtype of the addressable shards. Got dtype={np.dtype(dtype)} and shard "
                f"dtype={part.dtype}. Fix: leave it out."
            )
    return from_shards(shape, sharding, arrays)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None, *, dtype: Any = None
) -> Any:
    """An Array of the data that this process holds; with one process, of all of it. A pytree of
    data gives one of Arrays; `sharding` may be a prefix of it, `global_shape` one shape for all.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_process_local_data(sharding, np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    leaves, structure = tree.flatten(local_data)
    targets = tree.flatten_axes("sharding", structure, sharding)
    shapes: Any = [None] * len(leaves)
    if global_shape is not None:
        shapes = [global_shape] * len(leaves)
        if leaves and not _is_shape(global_shape):
            shapes = tree.flatten(global_shape, is_leaf=_is_shape)[0]
    made = []
    for leaf, target, shape in zip(leaves, targets, shapes, strict=True):
        data = np.asarray(leaf, dtype)
        if shape is not None and tuple(shape) != data.shape:
            raise ValueError(
                "make_array_from_process_local_data: with one process the local data must have the "
                f"global shape {tuple(shape)}, got {data.shape}"
            )
        made.append(place(to_array(data), target))
    return tree.unflatten(structure, made)


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(n is None or isinstance(n, int) for n in x)


def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays; other leaves as they are, keys and traced values too.

    `x`: a pytree of arrays.

    >>> pb.device_get({"a": jnp.arange(3), "b": "text"})
    {'a': array([0, 1, 2], dtype=int32), 'b': 'text'}
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, Tracer | PRNGKeyArray):
            return leaf
        return np.asarray(leaf) if hasattr(leaf, "__array__") else leaf

    return tree.map(get, x)


def block_until_ready(x: Any) -> Any:
    """`x`, after every array in it has been computed. Raises what a computation raised.

    >>> pb.block_until_ready({"a": jnp.ones(2) * 2})
    {'a': Array([2., 2.], dtype=float32)}
    """

    def wait(leaf: Any) -> Any:
        method = getattr(leaf, "block_until_ready", None)
        return method() if callable(method) else leaf

    return tree.map(wait, x)


def copy_to_host_async(x: Any) -> Any:
    """`x`, after the `copy_to_host_async` of each leaf that has one. Arrays have nothing to do:
    host and device share memory.

    >>> pb.copy_to_host_async([jnp.arange(2)])
    [Array([0, 1], dtype=int32)]
    """
    for leaf in tree.leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def effects_barrier() -> None:
    """Waits for the effects of the computations that were started.

    >>> _ = pb.jit(lambda x: pb.debug.print("x is {}", x))(1)
    x is 1
    >>> pb.effects_barrier()
    """
    running.queue().drain()


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a pytree, laid out as asked. A traced value on one device is as asked already.

    `shardings` is a Sharding, a PartitionSpec for the mesh in force, or a pytree prefix of them.
    RuntimeError for a PartitionSpec without a mesh, ValueError for an array whose shape cannot be
    divided; a traced value lies whole along such an axis.

    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> sharding = pullback.sharding.NamedSharding(mesh, pullback.sharding.PartitionSpec('i'))
    >>> pullback.jit(lambda x: lax.with_sharding_constraint(2 * x, sharding))(jnp.arange(2))
    Array([0, 2], dtype=int32)
    """
    leaves, structure = tree.flatten(x)
    checked(shardings, "shardings")
    wanted = tree.map(_constraint, shardings, is_leaf=lambda s: isinstance(s, PartitionSpec))
    targets = tree.flatten_axes("with_sharding_constraint shardings", structure, wanted)
    traced = [isinstance(leaf, Tracer) or is_staged() for leaf in leaves]
    check_fits(
        targets, list(map(typeof, leaves)), lambda k: "", "with_sharding_constraint arguments",
        uneven=traced,
    )  # fmt: skip
    explicit = get_abstract_mesh().are_all_axes_explicit
    made = []
    for leaf, target in zip(leaves, targets, strict=True):
        if target is None:
            raise ValueError(
                "One of with_sharding_constraint arguments got sharding None which is not allowed. "
                "Please only pass `jax.sharding.Sharding` instances."
            )
        if isinstance(target, NamedSharding):
            _check_not_manual(target)
            if explicit and target.mesh.are_all_axes_explicit:
                _check_lies(leaf, target)
                made.append(leaf)
                continue
            _check_auto(target)
        made.append(_constrained(leaf, target))
    return tree.unflatten(structure, made)


def _check_not_manual(target: NamedSharding) -> None:
    """ValueError for an axis that a `shard_map` around has cut arrays by."""
    taken = set(get_abstract_mesh().manual_axes)
    named = [n for part in target.spec for n in axes_of(part) if n in taken]
    if named:
        raise ValueError(
            f"pspec {target.spec} contains a manual axes {tuple(named)} of mesh which is not "
            "allowed. If you are using a with_sharding_constraint under a shard_map, only use the "
            "mesh axis in PartitionSpec which are not manual."
        )


def _constrained(leaf: Any, target: Sharding | None) -> Any:
    if target is None:
        return leaf
    if not isinstance(leaf, Tracer) and not is_staged():
        free = not getattr(leaf, "committed", False) and not mesh_here().empty
        if not has_devices(target) and not free:
            _check_on_mesh(leaf, target)
        check_stays(leaf, target, "x of with_sharding_constraint")
        return place(to_array(leaf, True), target)
    free = PartitionSpec.UNCONSTRAINED
    name_shardings()
    return sharding_constraint_p.bind(
        leaf,
        sharding=target,
        layout=None,
        context_mesh=_context_mesh(),
        unconstrained_dims=frozenset(
            k for k, part in enumerate(getattr(target, "spec", ())) if part is free
        ),
    )


def _check_on_mesh(x: Any, target: Any) -> None:
    """ValueError or TypeError unless an array lies on a mesh of the shape of an abstract one."""
    shape = typeof(x).str_short()
    if not isinstance(x, ArrayImpl):
        raise ValueError(
            "Target sharding contains a `jax.sharding.AbstractMesh` which requires the input "
            f"passed should be a `jax.Array` on such a mesh. Got {type(x)} with shape {shape}"
        )
    if not isinstance(x.sharding, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an "
            f"`AbstractMesh` in it. Got sharding type {type(x.sharding)} for shape {shape}"
        )
    have, want = x.sharding.mesh.shape_tuple, target.mesh.shape_tuple
    if have != want:
        raise ValueError(
            f"Mesh shape of the input {have} does not match the mesh shape of the target sharding "
            f"{want} for shape {shape}"
        )


def _check_auto(target: NamedSharding) -> None:
    """ValueError if a constraint is about axes that the compiler does not place."""
    auto = set(target.mesh.auto_axes)
    for part in target.spec:
        for name in part if isinstance(part, tuple) else (part,):
            if name is not None and name is not PartitionSpec.UNCONSTRAINED and name not in auto:
                raise ValueError(
                    "The spec of NamedSharding passed to with_sharding_constraint can only refer "
                    f"to Auto axes of the mesh. Got spec={target.spec} and "
                    f"mesh={target.mesh.abstract_mesh}. Fix: jax.sharding.reshard(x, sharding)."
                )


def _check_lies(x: Any, target: NamedSharding) -> None:
    """AssertionError unless an array lies as a sharding over explicit axes says."""
    aval = typeof(x)
    have, want = aval.sharding.spec, _for_rank(target, aval.ndim).spec
    if have != want:
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
            f"`Explicit`. The array sharding: {have} did not match the sharding provided: {want}. "
            "Fix: jax.sharding.reshard changes it."
        )


def _context_mesh() -> Any:
    """The mesh in force: an abstract one, else that of `with mesh:`."""
    abstract = get_abstract_mesh()
    return named_mesh() if abstract.empty else abstract


def _constraint(sharding: Any) -> Sharding | None:
    if not isinstance(sharding, PartitionSpec):
        return _sharding(sharding)
    mesh = _context_mesh()
    if mesh.empty:
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh in context if you are passing "
            "`PartitionSpec`s to shardings. You can define a context mesh via "
            "`jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to shardings and then the "
            "mesh context manager is not required."
        )
    return NamedSharding(mesh, sharding)


def lay_out(x: Any, name: str, out_sharding: Any, *, follows: bool = False) -> Any:
    """`x`, laid out as the argument `out_sharding` of the function `name` asks. `follows`: the
    result of an operation on arrays lies as they do, so that without a mesh in force nothing is
    asked for.

    TypeError for what is no NamedSharding or PartitionSpec, ValueError for a PartitionSpec without
    a mesh, axes that the compiler places, or a shape that cannot be divided.
    """
    if out_sharding is None:
        return x
    sharding = asked_sharding(name, out_sharding)
    if follows and get_mesh().empty:
        return x
    aval = typeof(x)
    target = _for_rank(sharding, aval.ndim)
    check_fits([target], [aval], lambda k: "", f"{name} results")
    if not target.mesh.explicit_axes or not (isinstance(x, Tracer) or is_staged()):
        return _constrained(x, target)
    return resharded(x, target)


def _layouts_are_named() -> None:
    """From now on types of results follow what operations say of layouts, and programs are
    searched for it."""
    said[0] = True
    name_shardings()


def _for_rank(sharding: NamedSharding, ndim: int) -> NamedSharding:
    spec = sharding.spec
    parts = (*spec, *([None] * ndim))[:ndim]
    return sharding.update(spec=spec.update(partitions=parts))


def resharded(x: Any, target: NamedSharding) -> Any:
    """An array that becomes part of a program, laid out anew over axes of explicit type."""
    _layouts_are_named()
    lies = target.update(mesh=target.mesh.abstract_mesh, memory_kind=None)
    return reshard_p.bind(x, dst_sharding=lies, concrete_mesh=mesh_here())


def laid_anew(x: Any, target: NamedSharding) -> Any:
    """An array, laid out anew over axes of explicit type: now, or by the program that makes it."""
    if isinstance(x, Tracer) or is_staged():
        return resharded(x, target)
    return place(x, target)


def _asked(name: str, out_sharding: Any, shape: Any, follows: bool, what: str) -> Any:
    """What a parameter of an operation says for its argument `out_sharding`; None where no mesh of
    explicit axes is meant."""
    sharding = asked_sharding(name, out_sharding)
    mesh = sharding.mesh
    if not mesh.explicit_axes or (follows and get_mesh().empty and mesh.size == 1):
        return None
    target = _for_rank(sharding, len(shape))
    _layouts_are_named()
    return target.update(mesh=mesh.abstract_mesh, memory_kind=None)


def freely(out_sharding: Any, *operands: Any) -> Any:
    """The operands of a function whose result is asked to lie in some way, lying whole: what it
    does with them need not say how its intermediates lie."""
    return [tree.tree_map(lying_whole, x) for x in operands]


def lying_whole(x: Any) -> Any:
    """An array on every device of its mesh."""
    known = type(x) is ArrayImpl and not is_staged()
    if known and isinstance(x._lies_on, NamedSharding):
        return place(x, x._lies_on.update(spec=PartitionSpec(*[None] * x.ndim)))
    lies = typeof(x)._sharding if hasattr(x, "aval") else None
    if lies is None:
        return x
    return resharded(x, lies.update(spec=PartitionSpec(*[None] * x.aval.ndim)))


def elsewhere(device: Any) -> bool:
    """Does a `device` argument mean another device than the first, whose memory is the host's?"""
    asked = _sharding(_target(device))
    if asked is None:
        return False
    if len(asked.device_set) > 1:
        raise ValueError(
            "from_dlpack can only unpack a dlpack tensor onto a singular device, but a Sharding "
            f"with {len(asked.device_set)} devices was provided. Fix: device_put(from_dlpack(x), "
            "sharding)."
        )
    return asked.device_set != {devices()[0]}


def placed(x: Any, device: Any, *, filled: bool = False) -> Any:
    """The result of a function that takes a `device`: moved there now, or asked to lie there by
    the program that computes it. `filled`: such a result lies anywhere.
    """
    if device is None:
        return x
    if not is_staged() and not isinstance(x, Tracer):
        asked = None if filled or isinstance(device, PartitionSpec) else _sharding(device)
        if asked is not None:
            check_stays(x, asked, "args[0] of convert_element_type")
        return device_put(x, device)
    target = _sharding(_target(device))
    known = not isinstance(x, Tracer)
    if target is None or filled or (known and isinstance(target, SingleDeviceSharding)):
        return x
    check_fits([target], [typeof(x)], lambda k: "", "device")
    return _constrained(x, target)


def _lay_out(x: Any, name: str, out_sharding: Any, follows: bool) -> Any:
    return lay_out(x, name, out_sharding, follows=follows)


def _place_as(x: Any, sharding: Any) -> Any:
    """`x` with a sharding, for functions that take no PartitionSpec."""
    if not isinstance(sharding, Sharding):
        raise AttributeError(
            f"sharding must be a pullback.sharding.Sharding or None, got {sharding!r}. Fix: "
            "SingleDeviceSharding(device), or NamedSharding(mesh, spec)."
        )
    check_fits([sharding], [typeof(x)], lambda k: "", "lax.full results")
    return _constrained(x, sharding)


layers.update(out_sharding=_lay_out, sharding=_place_as, asked=_asked)


def asked_sharding(name: str, out_sharding: Any) -> NamedSharding:
    """The sharding over axes of explicit type that `out_sharding` means."""
    sharding = out_sharding
    if isinstance(sharding, PartitionSpec):
        mesh = mesh_here()
        if mesh.empty:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not allowed. Please "
                "pass a NamedSharding instance or enter into a mesh context via `jax.set_mesh`. "
                f"Got {sharding}"
            )
        sharding = NamedSharding(mesh, sharding)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(
            f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {out_sharding} of type: {type(out_sharding)}"
        )
    context = get_abstract_mesh()
    if name != "reshard" and not context.empty and sharding.mesh.abstract_mesh != context:
        raise ValueError(
            f"Context mesh {context} should match the mesh of sharding "
            f"{sharding.mesh.abstract_mesh} passed to {name}. Fix: a PartitionSpec, "
            "which means the context mesh."
        )
    kinds = dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_types, strict=True))
    for part in sharding.spec:
        for axis in part if isinstance(part, tuple) else (part,):
            if kinds.get(axis, AxisType.Explicit) is not AxisType.Explicit:
                raise ValueError(
                    f"PartitionSpec passed to {name} cannot contain axis names that are of type "
                    f"Auto or Manual. Got PartitionSpec: {sharding.spec} with axis name: {axis} of "
                    f"type: {kinds[axis]}. Fix: a mesh of explicit axes (make_mesh), or "
                    "with_sharding_constraint."
                )
    return sharding


def check_one_place(device: Any, out_sharding: Any) -> None:
    """ValueError if a function is told twice where its result lies."""
    if device is not None and out_sharding is not None:
        raise ValueError(
            f"Only one of `device` or `out_sharding` can be set. Got {device=} and {out_sharding=}"
        )


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any] | None
) -> Any:
    """Calls the function for the platform that runs the program, or `default`, with `args`.

    >>> lax.platform_dependent(1.0, cpu=jnp.sin, default=jnp.cos)
    Array(0.84147096, dtype=float32, weak_type=True)

    NotImplementedError if there is a function for neither, TypeError for what is no function.
    """
    for name, branch in {"default": default, **per_platform}.items():
        if branch is not None and not callable(branch):
            raise TypeError(f"lax.platform_dependent: the {name!r} branch must be a callable.")
    platform = default_backend()
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for the platform {platform!r} and no default: it "
            f"has {sorted(per_platform)}. Fix: give default=... or {platform}=..."
        )
    return chosen(*args)
