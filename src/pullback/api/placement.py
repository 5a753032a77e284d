"""Moving values to and from devices, and waiting for them."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import config, tree
from ..core.avals import typeof
from ..core.primitive import Primitive
from ..core.trace import Tracer
from ..primitives.common import layers
from ..primitives.sharding import sharding_constraint_p
from ..runtime.array import ArrayImpl
from ..runtime.commitment import name_shardings
from ..runtime.devices import Device, default_backend
from ..runtime.dispatch import to_array
from ..runtime.layouts import Format
from ..runtime.placement import from_shards, place
from ..runtime.shardings import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    Space,
    get_abstract_mesh,
    get_mesh,
    named_mesh,
)
from .asked import check_fits

running: Any = config.lazy_module("pullback.runtime.queue")

device_put_p: Primitive = Primitive(
    "device_put",
    multiple_results=True,
    abstract_eval=lambda *avals, **params: list(avals),
    impl=lambda *args, **params: [to_array(x) for x in args],
    jvp=lambda primals, tangents, **params: (device_put_p.bind(*primals, **params), list(tangents)),
    transpose=lambda cts, *args, **params: list(cts),
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


def _put(leaf: Any, device: Any, src: Any) -> Any:
    if device is None and type(leaf) in (np.ndarray, ArrayImpl):
        return to_array(leaf, True)
    if isinstance(device, PartitionSpec):
        mesh = get_mesh()
        if mesh.empty:
            raise ValueError(
                "Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put"
            )
        device = NamedSharding(mesh, device)
    sharding = _sharding(device)
    if isinstance(leaf, Tracer):
        (out,) = device_put_p.bind(leaf, devices=(device,), srcs=(src,), copy_semantics=(0,))
        return out
    try:
        typeof(leaf)
    except TypeError:
        raise TypeError(
            f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type: device_put takes "
            "arrays, numbers, and pytrees of them."
        ) from None
    x = to_array(leaf, True)
    if sharding is None:
        return x
    check_fits([sharding], [typeof(x)], lambda k: "", "device_put args")
    return x if x is leaf and getattr(x, "_committed", None) == sharding else place(x, sharding)


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: Any = False,
    may_alias: bool | None = None,
) -> Any:
    """The arrays of a pytree, on a device or with a sharding (or a pytree prefix of them). Within
    one machine's memory nothing is copied.

    >>> pb.device_put(np.arange(3))
    Array([0, 1, 2], dtype=int32)

    Raises TypeError for a leaf that is not an array or a number, ValueError for a `device` that is
    none or a shape that its sharding cannot divide.
    """
    if device is None and type(x) in (np.ndarray, ArrayImpl):
        return _put(x, None, src)
    leaves, structure = tree.flatten(x)
    if device is None:
        return tree.unflatten(structure, [_put(leaf, None, src) for leaf in leaves])
    targets = tree.flatten_axes("device_put device", structure, device)
    return tree.unflatten(
        structure, [_put(leaf, to, src) for leaf, to in zip(leaves, targets, strict=True)]
    )


def make_array_from_callback(
    shape: Any, sharding: Any, data_callback: Callable[[Any], Any], *, dtype: Any = None
) -> Any:
    """An Array whose part on each device is `data_callback(index)`, for the index of that part in
    the whole.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_callback((2,), sharding, lambda index: np.arange(2.0)[index])
    Array([0., 1.], dtype=float32)
    """
    target = _sharding(sharding)
    if target is None:
        raise TypeError("make_array_from_callback: sharding must be given")
    parts = [data_callback(i) for i in target.devices_indices_map(tuple(shape)).values()]
    return make_array_from_single_device_arrays(shape, target, parts, dtype=dtype)


def make_array_from_single_device_arrays(
    shape: Any, sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """An Array made of the parts that the devices of a sharding hold. ValueError if the parts do
    not fit.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_single_device_arrays((3,), sharding, [jnp.arange(3)])
    Array([0, 1, 2], dtype=int32)
    """
    parts = [to_array(a if dtype is None else np.asarray(a, dtype)) for a in arrays]
    return from_shards(shape, sharding, parts)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None, *, dtype: Any = None
) -> Any:
    """An Array of the data that this process holds; with one process, of all of it.

    >>> sharding = pb.sharding.SingleDeviceSharding(pb.devices()[0])
    >>> pb.make_array_from_process_local_data(sharding, np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    data = np.asarray(local_data, dtype)
    if global_shape is not None and tuple(global_shape) != data.shape:
        raise ValueError(
            "make_array_from_process_local_data: with one process the local data must have the "
            f"global shape {tuple(global_shape)}, got {data.shape}"
        )
    return place(to_array(data), sharding)


def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays; other leaves, traced values too, as they are.

    >>> pb.device_get({"a": jnp.arange(3), "b": "text"})
    {'a': array([0, 1, 2], dtype=int32), 'b': 'text'}
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
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
    """`x`; host and device share memory.

    >>> pb.copy_to_host_async([jnp.arange(2)])
    [Array([0, 1], dtype=int32)]
    """
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
    RuntimeError for a PartitionSpec without a mesh, ValueError for a shape that cannot be divided.

    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> sharding = pullback.sharding.NamedSharding(mesh, pullback.sharding.PartitionSpec('i'))
    >>> pullback.jit(lambda x: lax.with_sharding_constraint(2 * x, sharding))(jnp.arange(2))
    Array([0, 2], dtype=int32)
    """
    leaves, structure = tree.flatten(x)
    wanted = tree.map(_constraint, shardings, is_leaf=lambda s: isinstance(s, PartitionSpec))
    targets = tree.flatten_axes("with_sharding_constraint shardings", structure, wanted)
    check_fits(
        targets, list(map(typeof, leaves)), lambda k: "", "with_sharding_constraint arguments"
    )
    return tree.unflatten(
        structure,
        [_constrained(leaf, target) for leaf, target in zip(leaves, targets, strict=True)],
    )


def _constrained(leaf: Any, target: Sharding | None) -> Any:
    if target is None:
        return leaf
    if not isinstance(leaf, Tracer):
        return place(to_array(leaf, True), target)
    free = PartitionSpec.UNCONSTRAINED
    name_shardings()
    return sharding_constraint_p.bind(
        leaf,
        sharding=target,
        layout=None,
        context_mesh=get_abstract_mesh(),
        unconstrained_dims=frozenset(
            k for k, part in enumerate(getattr(target, "spec", ())) if part is free
        ),
    )


def _constraint(sharding: Any) -> Sharding | None:
    if not isinstance(sharding, PartitionSpec):
        return _sharding(sharding)
    mesh = named_mesh()
    if mesh.empty:
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh if you are passing "
            "`PartitionSpec`s: Fix: pass a NamedSharding, or call it under `with mesh:`."
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
    parts = (*sharding.spec, *([None] * aval.ndim))[: aval.ndim]
    target = NamedSharding(sharding.mesh, PartitionSpec(*parts), memory_kind=sharding.memory_kind)
    check_fits([target], [aval], lambda k: "", f"{name} results")
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


layers.update(out_sharding=_lay_out, sharding=_place_as)


def asked_sharding(name: str, out_sharding: Any) -> NamedSharding:
    """The sharding over axes of explicit type that `out_sharding` means."""
    sharding = out_sharding
    if isinstance(sharding, PartitionSpec):
        mesh = get_mesh()
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

    NotImplementedError if there is a function for neither.
    """
    platform = default_backend()
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for the platform {platform!r} and no default: it "
            f"has {sorted(per_platform)}. Fix: give default=... or {platform}=..."
        )
    return chosen(*args)
