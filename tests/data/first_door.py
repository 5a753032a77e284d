"""What test_first_door.py runs: each way to a feature, in a process of its own and after others."""

import os
import pickle
import warnings

import numpy as np

import pullback as pb
import pullback.numpy as jnp
from pullback import export, lax
from pullback.core.avals import said
from pullback.experimental import custom_partitioning as cp, shard_alike
from pullback.runtime import commitment
from pullback.sharding import (
    AxisType,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    auto_axes,
)

warnings.simplefilter("ignore")
P, Host = PartitionSpec, pb.memory.Space.Host
devices = pb.devices()
X = np.arange(32, dtype=np.float32).reshape(8, 4)
auto = pb.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
explicit = pb.make_mesh((4, 2), ("x", "y"))
rows, typed = NamedSharding(auto, P("x")), NamedSharding(explicit, P("x"))
host = NamedSharding(auto, P("x"), memory_kind="pinned_host")


def tell(x):
    if isinstance(x, (tuple, list)):
        return [tell(e) for e in x]
    if isinstance(x, pb.Array):
        return (
            str(np.asarray(x).tolist()),
            str(x.sharding),
            x.committed,
            str(pb.typeof(x)),
            str(pb.typeof(x).sharding),
        )
    return str(x)


def inside(mesh, f, *args):
    with pb.set_mesh(mesh):
        return f(*args)


def on_device(device, f, *args):
    with pb.default_device(device):
        return f(*args)


def under(mesh, f, *args):
    with mesh:
        return f(*args)


def fails(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return type(e).__name__


def with_blocks(x):
    return pb.shard_map(lambda a: lax.psum(a, "x"), mesh=auto, in_specs=P("x"), out_specs=P())(x)


def told(x):
    seen = []
    pb.jit(lambda a: pb.debug.inspect_array_sharding(a * 2, callback=seen.append) or a)(x)
    return seen


def partitioned(x):
    f = cp.custom_partitioning(lambda a: a * 2)
    f.def_partition(
        partition=lambda mesh, args, out: (
            mesh,
            lambda a: a * 3,
            out.sharding,
            tuple(a.sharding for a in args),
        ),
        sharding_rule="i j -> i j",
    )
    return pb.jit(f)(x)


double = lambda a: a * 2
DOORS = {
    "device_put": lambda: pb.device_put(X, rows),
    "device_put, explicit": lambda: pb.device_put(X, typed) * 2,
    "device_put, named": lambda: inside(explicit, lambda: pb.device_put(X, P("x"))),
    "device_put in jit": lambda: pb.jit(lambda a: pb.device_put(a, rows) * 2)(X),
    "device_put in jit, explicit": lambda: pb.jit(lambda a: pb.device_put(a, typed) * 2)(X),
    "device_put to a device in jit": lambda: pb.jit(lambda a: pb.device_put(a, devices[1]) * 2)(X),
    "device_put to the host": lambda: pb.device_put(X, host),
    "device_put to the host in jit": lambda: pb.jit(lambda a: pb.device_put(a, Host))(X),
    "device_put of a program": lambda: pb.make_jaxpr(lambda a: pb.device_put(a, typed) * 2)(X),
    "with_memory_kind": lambda: pb.jit(double, out_shardings=host)(X),
    "in_shardings": lambda: pb.jit(double, in_shardings=rows)(X),
    "out_shardings": lambda: pb.jit(double, out_shardings=rows)(X),
    "in_shardings, explicit": lambda: pb.jit(double, in_shardings=typed)(X),
    "out_shardings of a device": lambda: pb.jit(
        double, out_shardings=SingleDeviceSharding(devices[1])
    )(X),
    "device": lambda: pb.jit(double, device=devices[2])(X),
    "inner in_shardings": lambda: pb.jit(lambda a: pb.jit(double, in_shardings=rows)(a))(X),
    "inner out_shardings": lambda: pb.vmap(pb.jit(double, out_shardings=rows))(X.reshape(2, 4, 4)),
    "constraint": lambda: pb.jit(lambda a: lax.with_sharding_constraint(a, rows))(X),
    "eager constraint": lambda: lax.with_sharding_constraint(X, rows),
    "constraint in a loop": lambda: pb.jit(
        lambda a: lax.fori_loop(0, 2, lambda i, c: lax.with_sharding_constraint(c, rows), a)
    )(X),
    "reshard": lambda: inside(explicit, lambda: pb.reshard(X, P("x"))),
    "reshard in jit": lambda: inside(
        explicit, lambda: pb.jit(lambda a: pb.reshard(a, P("x")) * 2)(X)
    ),
    "reshard of a program": lambda: inside(
        explicit, lambda: pb.make_jaxpr(lambda a: pb.reshard(a, P("x")) * 2)(X)
    ),
    "out_sharding": lambda: inside(explicit, lambda: jnp.zeros((8, 4), out_sharding=P("x"))),
    "out_sharding in jit": lambda: inside(
        explicit, pb.jit(lambda: jnp.zeros((8, 4), out_sharding=P("x")) * 2)
    ),
    "out_sharding of a program": lambda: inside(
        explicit, lambda: pb.make_jaxpr(lambda: jnp.arange(8, out_sharding=P("x")) * 2)()
    ),
    "out_sharding of iota": lambda: inside(
        explicit, lambda: lax.broadcasted_iota(jnp.int32, (8, 4), 0, out_sharding=P("x"))
    ),
    "out_sharding of random bits": lambda: inside(
        explicit, lambda: pb.random.normal(pb.random.key(0), (8,), out_sharding=P("x"))
    ),
    "out_sharding of a product": lambda: inside(
        explicit, lambda: jnp.matmul(X, X.T, out_sharding=P("x"))
    ),
    "out_sharding of a reshape": lambda: inside(
        explicit, lambda: lax.reshape(X, (4, 8), out_sharding=P("x"))
    ),
    "out_sharding of indexing": lambda: inside(
        explicit, lambda: jnp.asarray(X).at[jnp.arange(4)].get(out_sharding=P("x"))
    ),
    "device of zeros": lambda: jnp.zeros((8, 4), device=rows),
    "device of zeros in jit": lambda: pb.jit(lambda: jnp.zeros((8, 4), device=rows))(),
    "device of an array": lambda: jnp.array(X, device=rows),
    "a type": lambda: pb.make_jaxpr(double)(
        pb.ShapeDtypeStruct((8, 4), jnp.float32, sharding=typed)
    ),
    "a shape": lambda: (
        pb.eval_shape(double, pb.ShapeDtypeStruct((8, 4), jnp.float32, sharding=typed)).sharding
    ),
    "a lowered type": lambda: (
        pb.jit(double)
        .lower(pb.ShapeDtypeStruct((8, 4), jnp.float32, sharding=rows))
        .compile()
        .output_shardings
    ),
    "set_mesh": lambda: inside(explicit, lambda: jnp.arange(8) * 2),
    "set_mesh, jit": lambda: inside(auto, pb.jit(double), X),
    "with mesh": lambda: under(auto, pb.jit(lambda a: lax.with_sharding_constraint(a, P("x"))), X),
    "callback": lambda: pb.make_array_from_callback((8, 4), rows, lambda i: X[i]) + 1,
    "callback, explicit": lambda: pb.make_array_from_callback((8, 4), typed, lambda i: X[i]) + 1,
    "parts": lambda: pb.make_array_from_process_local_data(typed, X) + 1,
    "pickled": lambda: pickle.loads(pickle.dumps(typed)).spec,
    "shard_map": lambda: with_blocks(X),
    "shard_map in jit": lambda: pb.jit(with_blocks)(X),
    "shard_map of a program": lambda: pb.make_jaxpr(with_blocks)(X),
    "shard_map, abstract": lambda: pb.make_jaxpr(
        pb.shard_map(
            lambda a: a * lax.axis_index("x"),
            mesh=auto.abstract_mesh,
            in_specs=P("x"),
            out_specs=P("x"),
        )
    )(X),
    "shard_map, unchecked variance": lambda: fails(
        pb.shard_map(lambda a: a, mesh=auto, in_specs=P("x"), out_specs=P()), X
    ),
    "shard_map that makes arrays": lambda: fails(
        pb.shard_map(
            lambda a: lax.fori_loop(0, 2, lambda i, c: c + a, jnp.zeros((2, 4))),
            mesh=auto,
            in_specs=P("x"),
            out_specs=P("x"),
        ),
        X,
    ),
    "smap": lambda: inside(auto, pb.smap(double, in_axes=0, out_axes=0, axis_name="x"), X),
    "gradient of shard_map": lambda: pb.grad(lambda a: with_blocks(jnp.sin(a)).sum())(X),
    "pmap": lambda: pb.pmap(double)(X),
    "pmap, collective": lambda: pb.pmap(lambda a: lax.psum(a, "i"), "i")(X),
    "auto_axes": lambda: inside(
        explicit, lambda: auto_axes(double, out_sharding=P("x"))(jnp.ones(8))
    ),
    "export": lambda: export.export(pb.jit(double, in_shardings=rows))(X).call(
        pb.device_put(X, rows)
    ),
    "deserialized": lambda: export.deserialize(STORED).call(pb.device_put(X, rows)),
    "deserialized, types": lambda: [
        export.deserialize(TYPED).out_avals,
        export.deserialize(TYPED).call(pb.device_put(X, typed)),
    ],
    "shard_alike": lambda: pb.jit(lambda a, b: shard_alike.shard_alike(a, b))(X, X),
    "inspect": lambda: told(X),
    "custom_partitioning": lambda: partitioned(pb.device_put(X, rows)),
    "default device": lambda: on_device(devices[1], jnp.ones, 2),
    "vmap, spmd": lambda: pb.jit(
        pb.vmap(
            lambda a: lax.with_sharding_constraint(a, NamedSharding(auto, P("y"))),
            spmd_axis_name="x",
        )
    )(X),
    "select": lambda: fails(
        lax.select,
        pb.device_put(X, typed) > 1,
        pb.device_put(X, typed),
        pb.device_put(X, NamedSharding(explicit, P(None, "y"))),
    ),
    "scan": lambda: lax.scan(
        lambda c, a: (c + a, c),
        pb.device_put(X[:, 0], typed),
        pb.device_put(X.T, NamedSharding(explicit, P(None, "x"))),
    ),
}


def answers(doors, first=lambda: None):
    """What a process of its own says at these doors, after it has done `first`."""
    read, write = os.pipe()
    if not os.fork():
        first()
        found = []
        for door in doors:
            try:
                found.append(repr(tell(DOORS[door]())))
            except BaseException as e:
                found.append(f"{type(e).__name__}: {e}")
        os.write(write, pickle.dumps(found))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pickle.loads(pipe.read())
    os.wait()
    return found


def store():
    """Exported programs, made in a process of their own."""
    read, write = os.pipe()
    if not os.fork():
        both = [
            export.export(pb.jit(double, in_shardings=rows))(X).serialize(),
            export.export(pb.jit(double))(pb.device_put(X, typed)).serialize(),
        ]
        os.write(write, pickle.dumps([bytes(b) for b in both]))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pickle.loads(pipe.read())
    os.wait()
    return found


def met():
    said[0] = commitment._named[0] = True


STORED, TYPED = store()
assert not said[0] and not commitment._named[0]
later = answers(DOORS, met)
wrong = []
for door, expected in zip(DOORS, later):
    (first,) = answers([door])
    if first != expected or "Error: " in first:
        wrong.append(f"{door}:\n  first: {first}\n  later: {expected}")
assert not wrong, "\n".join(wrong)
