"""What tests of JAX ask of arrays, shardings and meshes on eight devices: run with real JAX, and by
`python -m pullback run`; the printed lines are compared."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import array, dtypes, test_util as jtu
from jax._src.lax import parallel
from jax._src.lib import xla_client as xc
from jax._src.named_sharding import SdyArray, SdyDim
from jax._src.pjit import pjit
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

devices = jax.devices()
mesh = jtu.create_mesh((4, 2), ("x", "y"))
explicit = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)


def refused(name, call):
    try:
        print(name, "gave", call())
    except Exception as error:  # the first words of both messages are the same
        print(name, type(error).__name__, str(error).splitlines()[0][:50])


# what XLA and Shardy are told
for spec in (P("x", "y"), P(), P(None, "y"), P(("y", "x")), P(P.UNCONSTRAINED, "x"), P("x")):
    for ndim in (2, 3):
        sharding = NamedSharding(mesh, spec)
        tiles = sharding._to_xla_hlo_sharding(ndim)
        print(spec, tiles, sharding._to_sdy_sharding(ndim))
    found = GSPMDSharding(list(mesh.devices.flat), sharding._to_xla_hlo_sharding(2))
    print(found, found.is_fully_replicated, found._to_sdy_sharding(2))
    assert found.devices_indices_map((8, 4)) == sharding.devices_indices_map((8, 4))
for spec in (P("x", unreduced={"y"}), P(unreduced={"x", "z"}), P(None, "z", unreduced={"x", "y"})):
    sharding = NamedSharding(explicit, spec)
    print(sharding._to_xla_hlo_sharding(2), sorted(sharding._to_sdy_sharding(2).unreduced_axes))
single = jax.sharding.SingleDeviceSharding(devices[1])
print(single._to_xla_hlo_sharding(2), single._to_sdy_sharding(2))
sdy = SdyArray(
    mesh_shape=mesh.shape_tuple, dim_shardings=(SdyDim(("x",), False), SdyDim((), False))
)
print(sdy == NamedSharding(mesh, P("x"))._to_sdy_sharding(2))
proto = xc.OpSharding()
proto.type = xc.OpSharding.Type.OTHER
proto.tile_assignment_dimensions = [4, 1, 2]
proto.tile_assignment_devices = list(range(8))
proto.replicate_on_last_tile_dim = True
print(GSPMDSharding(devices, proto))

# how results lie
a = jax.device_put(np.arange(512).reshape(16, 4, 8), NamedSharding(mesh, P("x", "y")))
for name, f in {
    "split": lambda a: jnp.split(a, 2)[0],
    "split 1": lambda a: jnp.split(a, 2, 1)[1],
    "slice": lambda a: lax.slice_in_dim(a, 0, 8),
    "dynamic slice": lambda a: lax.dynamic_slice_in_dim(a, 0, 8),
    "where it starts": lambda a: lax.dynamic_slice_in_dim(a, a[0, 0, 0], 8),
}.items():
    for how, run in (("", f), ("jit", jax.jit(f))):
        out = run(a)
        print(name, how, out.sharding.shard_shape(out.shape))
replicated = jax.device_put(np.arange(16.0), NamedSharding(mesh, P()))
for x in (a, replicated):
    print(x.on_device_size_in_bytes(), x.addressable_shards[0].data.on_device_size_in_bytes())


# `pjit` under `with mesh:`, where None means whole
def described(x):
    return type(x.sharding).__name__, str(getattr(x.sharding, "spec", None)), x._committed


with jtu.create_mesh((2,), ("x",)) as two:
    for name, kwargs in {
        "in": {"in_shardings": P("x")},
        "in, out None": {"in_shardings": P("x"), "out_shardings": None},
        "out": {"in_shardings": None, "out_shardings": P("x")},
        "both None": {"in_shardings": None, "out_shardings": None},
    }.items():
        print(name, described(pjit(lambda x: x * 2, **kwargs)(np.ones(8))))
    uneven = pjit(lambda x: jnp.pad(lax.with_sharding_constraint(x[:3], P("x")), [[0, 1]]))
    print(np.asarray(uneven(np.arange(4.0))))


@two
def decorated():
    return described(pjit(lambda x: x, in_shardings=P("x"), out_shardings=None)(jnp.arange(8)))


print(decorated())
compiled = jax.jit(lambda x: x * 2).lower(1.0).compile()
print(len(compiled._executable.in_avals))

print(jax.vmap(lambda x: lax.dynamic_update_slice(x, 7, []))(jnp.arange(3)).weak_type)
for where in (parallel.pargmax, parallel.pargmin):
    rows = jnp.array([[3, 1, 3], [2, 5, 2], [2, 0, 9]])
    print(jax.vmap(partial(where, axis_name="i"), in_axes=1, out_axes=None, axis_name="i")(rows))

kinds = (np.int8, np.float32, bool, int, float, complex)
print([dtypes.safe_to_cast(a, b) for a in kinds for b in (np.int32, np.float16, np.complex64)])
print([dtypes.coerce_to_array(x).dtype for x in (1, 1.0, True, 1j, np.int64(1))])

# what is refused
shape = (8, 2)
over_two = NamedSharding(jtu.create_mesh((2,), ("x",)), P("x"))
x = jax.device_put(jnp.arange(10), over_two)
one = jax.sharding.SingleDeviceSharding(devices[0])
make = jax.make_array_from_single_device_arrays
auto = jtu.create_mesh((1, 1), ("x", "y"))
for name, call in {
    "two shards": lambda: make(x.shape, over_two, [x, x]),
    "traced part": lambda: jax.jit(lambda x: make(x.shape, one, [x]))(jnp.arange(3)),
    "no parts": lambda: make(shape, NamedSharding(mesh, P("x", "y")), []),
    "dtype": lambda: make((3,), one, [jnp.arange(3)], dtype=jnp.float32),
    "traced callback": lambda: jax.jit(
        lambda a: array.make_array_from_callback(a.shape, NamedSharding(mesh, P()), lambda i: a[i])
    )(jnp.arange(math.prod(shape))),
    "sums and a tuple": lambda: P("x", unreduced={"z"}) + (None, None),
    "a tuple and sums": lambda: (None, None) + P("x", unreduced={"z"}),
    "no set": lambda: P("x", unreduced=3),
    "lost": lambda: NamedSharding(auto, P("x", unreduced={"a"})),
    "not explicit": lambda: NamedSharding(auto, P("x", unreduced={"y"})),
    "type of axes": lambda: AbstractMesh((2,), ("x",), axis_types=("explicit",)),
    "no mesh": lambda: pjit(lambda x: x, in_shardings=P("x"))(np.ones(8)),
    "no mesh to lie on": lambda: lax.with_sharding_constraint(np.ones(8), P("x")),
    "unconstrained": lambda: jax.jit(
        lambda x: x, out_shardings=NamedSharding(mesh, P(P.UNCONSTRAINED))
    )(np.ones(8)),
    "device and backend": lambda: jax.jit(lambda x: x, device=devices[0], backend="cpu"),
    "device and shardings": lambda: jax.jit(lambda x: x, device=devices[0], in_shardings=one),
    "static and donated": lambda: jax.jit(lambda x: x, static_argnums=0, donate_argnums=0),
    "axis_size": lambda: jax.pmap(lambda x: x, axis_size=3)(np.ones(8)),
    "memory": lambda: NamedSharding(AbstractMesh((2,), ("x",)), P(), memory_kind="weird"),
}.items():
    refused(name, call)
print(mesh._flat_devices_tuple == tuple(mesh.devices.flat), mesh._any_axis_explicit)
