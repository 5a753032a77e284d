"""Specs, named shardings and what lies on eight devices: as real JAX says."""

from __future__ import annotations

import copy
import pickle

import eight_devices
import pytest

import pullback as pb
from pullback.sharding import AbstractMesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding


def test_specs_are_sequences_but_no_tuples() -> None:
    spec = P("x", None, ["y"], ())
    assert repr(spec) == "P('x', None, 'y', None)" and list(spec) == ["x", None, "y", None]
    assert (
        not isinstance(spec, tuple) and spec != tuple(spec) and P(("x",)) == P("x") != P("x", None)
    )
    assert spec[0] == "x" and spec.index("y") == 2 and spec.count(None) == 2 and len(spec) == 4
    assert ("a",) + P("x") + ("b",) + P("c") == P("a", "x", "b", "c")
    for same in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)), spec.update()):
        assert same == spec and hash(same) == hash(spec)
    free = P(P.UNCONSTRAINED)
    assert copy.deepcopy(free)[0] is pickle.loads(pickle.dumps(free))[0] is P.UNCONSTRAINED
    with pytest.raises(AttributeError, match="cannot assign to field 'partitions'"):
        spec.partitions = ()  # type: ignore[misc]


def test_sums_to_come_are_part_of_specs() -> None:
    spec = P("x", unreduced={"y"})
    assert repr(spec) == "P('x', unreduced={'y'})" and spec != P("x")
    assert spec.update(partitions=("z",)) == P("z", unreduced={"y"}) == P("z") + P(unreduced={"y"})
    assert pickle.loads(pickle.dumps(spec)) == spec
    for wrong in ({"x"}, {None}):
        with pytest.raises(ValueError, match="cannot"):
            P("x", unreduced=wrong)
    with pytest.raises(ValueError, match="cannot overlap"):
        P(unreduced={"y"}, reduced={"y"})
    with pytest.raises(TypeError, match=r"`set`\. Got type y"):
        P("x", reduced="y")
    mesh = AbstractMesh((4, 2), ("x", "y"))
    with pytest.raises(ValueError, match="Unreduced axes can only refer to mesh axes"):
        NamedSharding(mesh, spec)


def test_kinds_of_memory() -> None:
    device = SingleDeviceSharding(pb.devices()[0])
    assert device.memory_kind == "device" == device.with_memory_kind("device").memory_kind
    assert device.with_memory_kind("pinned_host") != device
    assert device == SingleDeviceSharding(pb.devices()[0], memory_kind="device")
    mesh = pb.make_mesh((1,), ("x",))
    assert NamedSharding(mesh, P()) == NamedSharding(mesh, P(), memory_kind="device")
    assert NamedSharding(AbstractMesh((1,), ("x",)), P()).memory_kind is None
    for make in (device.with_memory_kind, NamedSharding(mesh, P()).with_memory_kind):
        with pytest.raises(ValueError, match="Got memory kind: fast"):
            make("fast")


def test_too_few_axes_for_a_sharding() -> None:
    sharding = NamedSharding(AbstractMesh((4, 2), ("x", "y")), P("x", "y"))
    sharding.check_compatible_aval((8, 2))
    with pytest.raises(ValueError, match=r"rank 0\. For scalars the PartitionSpec should be"):
        sharding.check_compatible_aval(())


HEAD = """
import numpy as np, pytest, pullback as pb, pullback.numpy as jnp
from pullback.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding
mesh = pb.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
x = pb.device_put(np.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("x", "y")))
"""

PARTS_AND_THEIR_DEVICES = """
assert not x.is_fully_replicated
assert [s.data.devices() for s in x.addressable_shards] == [{d} for d in pb.devices()]
assert all(s.data.committed for s in x.addressable_shards)
assert x.addressable_data(2).tolist() == [[8, 9], [12, 13]]
whole = pb.device_put(np.arange(3.0), NamedSharding(mesh, P()))
assert whole.addressable_data(3).tolist() == [0, 1, 2]
parts = [s.data for s in x.addressable_shards]
make = pb.make_array_from_single_device_arrays
assert make((8, 4), x.sharding, parts[::-1]).tolist() == x.tolist()
for error, match, wrong in [
    (ValueError, "must be from distinct devices", [parts[0]] * 8),
    (ValueError, "Expected 8 per-device arrays", parts[:3]),
    (TypeError, "Unsupported type for elements", [np.ones((2, 2))] * 8),
    (TypeError, "must be a list or tuple", parts[0]),
]:
    with pytest.raises(error, match=match):
        make((8, 4), x.sharding, wrong)
"""

SHARDINGS_THAT_LAY_ARRAYS_ALIKE = """
rows = NamedSharding(mesh, P("x"))
assert rows.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
assert not rows.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
assert not rows.is_equivalent_to(rows.with_memory_kind("pinned_host"), 2)
line = NamedSharding(pb.make_mesh((8,), ("z",)), P("z"))
assert NamedSharding(mesh, P(("x", "y"))).is_equivalent_to(line, 2)
assert not NamedSharding(mesh, P(("y", "x"))).is_equivalent_to(line, 2)
one = NamedSharding(pb.make_mesh((1,), ("z",)), P("z"))
assert SingleDeviceSharding(pb.devices()[0]).is_equivalent_to(one, 2)
"""

RESHARD = """
grid = pb.make_mesh((2, 4), ("a", "b"))
columns = NamedSharding(grid, P(None, "b"))
assert pb.reshard({"x": x}, columns)["x"].sharding == columns
with pb.set_mesh(grid):
    assert pb.reshard(np.arange(8.0), P("b")).sharding.spec == P("b")
    assert pb.jit(lambda x: pb.reshard(x, P("a")))(np.arange(8.0)).sharding.spec == P("a")
for error, wrong in [
    (ValueError, P("a")), (ValueError, None),
    (TypeError, SingleDeviceSharding(pb.devices()[0])),
    (ValueError, NamedSharding(mesh, P("x"))),
    (ValueError, NamedSharding(grid, P(("a", "b")))),
]:
    with pytest.raises(error):
        pb.reshard(np.arange(9.0), wrong)
"""

RESULTS_OF_PMAP_LIE_ON_THEIR_DEVICES = """
doubled = pb.pmap(lambda a: a * 2)(np.ones((8, 2)))
assert doubled.devices() == set(pb.devices()) and doubled.committed
assert doubled.addressable_shards[3].data.shape == (1, 2)
few = pb.pmap(lambda a: a, "i", devices=pb.devices()[2:4])(np.ones(2))
assert few.devices() == set(pb.devices()[2:4]) and few.sharding.spec == P("i")
first = pb.pmap(lambda a: (a * 2, a), out_axes=(None, 1))(np.arange(16.0).reshape(8, 2))
assert first[0].tolist() == [0, 2] and first[1].shape == (2, 8)
with pytest.raises(ValueError, match="must be non-empty"):
    pb.pmap(lambda a: a, devices=[])
"""

SHARD_MAP_SAYS_WHAT_IT_CANNOT_TAKE = """
for error, match, wrong in [
    (TypeError, "in_specs argument must be a pytree", dict(mesh=mesh, in_specs="x")),
    (TypeError, "out_specs argument must be a pytree",
     dict(mesh=mesh, in_specs=P(), out_specs="x")),
    (TypeError, "requires a `jax.sharding.Mesh`", dict(mesh=3, in_specs=P())),
    (TypeError, "it was `None` when", dict(mesh=mesh)),
]:
    with pytest.raises(error, match=match):
        pb.shard_map(lambda a: a, **{"out_specs": P(), **wrong})(x)
"""


WHAT_IS_REFUSED = """
from pullback.errors import DuplicateSpecError, IndivisibleError
from pullback.experimental import mesh_utils
grid = pb.make_mesh((4, 2), ("a", "b"), (pb.sharding.AxisType.Auto,) * 2)
rows = NamedSharding(grid, P("a"))
with pytest.raises(DuplicateSpecError):
    NamedSharding(grid, P("a", "a"))
for wrong in [lambda: rows.shard_shape((6,)), lambda: pb.device_put(np.ones(6), rows),
              lambda: pb.jit(lambda x: x, out_shardings=rows)(np.ones(3))]:
    with pytest.raises(IndivisibleError):
        wrong()
put = pb.device_put(np.ones((8, 4)), rows)
double = lambda x: x * 2
assert pb.jit(double, in_shardings=rows)(put).sharding == rows
with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
    pb.jit(double, in_shardings=NamedSharding(grid, P("b")))(put)
with pytest.raises(ValueError, match="must equal the product"):
    mesh_utils.create_device_mesh((3, 2))
with pytest.raises(ValueError, match="slice_index"):
    mesh_utils.create_hybrid_device_mesh((4, 1), (2, 1))
"""

PROGRAMS_TELL_HOW_VALUES_LIE = """
seen = []
def told(x):
    pb.debug.inspect_array_sharding(pb.numpy.sin(x).T, callback=lambda s: seen.append(s.spec))
    return x * 2
f = pb.jit(told)
compiled = f.lower(put).compile()
assert seen == [P(None, "a")], seen
f(put), f(put)
assert seen == [P(None, "a")], seen  # once for arguments that lie so
f(pb.device_put(np.ones((8, 4)), NamedSharding(grid, P("a", "b"))))
assert seen[1:] == [P("b", "a")], seen
"""

EXPORTED_PROGRAMS_KNOW_THEIR_DEVICES = """
from pullback import export
columns = NamedSharding(grid, P(None, "b"))
whole = export.export(pb.jit(double, in_shardings=rows, out_shardings=columns))(np.ones((8, 4)))
for exported in [whole, export.deserialize(whole.serialize())]:
    assert exported.nr_devices == 8
    assert exported.call(put).sharding.spec == P(None, "b")
    with pytest.raises(ValueError, match="exported for 8 devices and is called in a context with"):
        exported.call(np.ones((8, 4), np.float32))
    assert exported.in_shardings_jax(grid)[0].spec == P("a")
total = pb.shard_map(lambda a: pb.lax.psum(a, "a"), mesh=grid, in_specs=P("a"), out_specs=P())
blocks = export.export(pb.jit(total))(np.ones((8, 4), np.float32))
assert blocks.nr_devices == 8
np.testing.assert_array_equal(export.deserialize(blocks.serialize()).call(put), np.full((2, 4), 4))
with pb.set_mesh(pb.make_mesh((4, 2), ("a", "b"))):
    x = pb.device_put(np.ones((8, 4), np.float32), P("a", "b"))
    typed = export.export(pb.jit(lambda x: x.sum(1)))(x)
    again = export.deserialize(typed.serialize())
    assert str(again.in_avals[0]) == "float32[8@a,4@b]" and again.call(x).sharding.spec == P("a")
"""


CONSTRAINTS_AND_MESHES_OF_BOTH_TYPES = """
line = NamedSharding(grid, P("b"))
asked = pb.make_jaxpr(pb.vmap(lambda r: pb.lax.with_sharding_constraint(r, line),
                              spmd_axis_name="a"))(np.ones((8, 4)))
assert asked.eqns[0].params["sharding"].spec == P("a", "b")
with pytest.raises(ValueError, match="sharding None which is not allowed"):
    pb.lax.with_sharding_constraint(np.ones(8), None)
with pytest.raises(ValueError, match="only be used outside of"):
    pb.jit(lambda x: pb.set_mesh(grid) or x)(1.0)
assert pb.eval_shape(pb.jit(double, out_shardings=rows), np.ones((8, 4))).sharding == rows
with pytest.raises(ValueError, match="as many sizes as names"):
    pb.sharding.AbstractMesh((2,), ("a", "b"))
both = pb.make_mesh((4, 2), ("a", "b"), (AxisType.Explicit, AxisType.Auto))
with pb.set_mesh(both):
    x = pb.device_put(np.ones((8, 4)), P("a", "b"))
    assert str(pb.typeof(x)) == "float32[8@a,4]"
    assert pb.jit(lambda v: v.T)(x).sharding.spec == P("b", "a")
    assert pb.reshard(x, P(None, None)).sharding.spec == P(None, "b")
with pb.set_mesh(pb.make_mesh((4, 2), ("a", "b"))) as _:
    x = pb.device_put(np.ones((8, 4), np.float32), P("a", "b"))
    assert [str(pb.typeof(row)) for row in x] == ["float32[4]"] * 8
    ref = pb.new_ref(x)
    assert pb.jit(lambda r: r[...] * 2)(ref).sharding.spec == P("a", "b")
    with pytest.raises(ValueError, match="does not match the specs of the input"):
        pb.shard_map(lambda a: a, in_specs=P("b", "a"), out_specs=P("b", "a"))(x)
    info = pb.jit(lambda v: v.sum(1)).lower(x).out_info
    assert info.sharding.spec == P("a") and info.sharding.mesh.devices.size == 8
for what in (put.unsafe_buffer_pointer, put.__dlpack__, put.__dlpack_device__):
    with pytest.raises((pb.errors.JaxRuntimeError, BufferError)):
        what()
"""


def test_eight_devices() -> None:
    program = HEAD + PARTS_AND_THEIR_DEVICES + SHARDINGS_THAT_LAY_ARRAYS_ALIKE + RESHARD
    program += RESULTS_OF_PMAP_LIE_ON_THEIR_DEVICES + SHARD_MAP_SAYS_WHAT_IT_CANNOT_TAKE
    program += WHAT_IS_REFUSED + PROGRAMS_TELL_HOW_VALUES_LIE + EXPORTED_PROGRAMS_KNOW_THEIR_DEVICES
    program += CONSTRAINTS_AND_MESHES_OF_BOTH_TYPES
    eight_devices.run("-c", program)
