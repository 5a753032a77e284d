"""Meshes and what depends on them, on eight devices: each as real JAX has it."""

from __future__ import annotations

import eight_devices
import pytest

HEAD = """
import copy, pickle, warnings
import numpy as np, pytest, pullback as pb, pullback.numpy as jnp
from pullback import lax
from pullback.errors import IndivisibleError, ShardingTypeError
from pullback.sharding import (
    AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding,
)
warnings.simplefilter("ignore")
devices = pb.devices()
auto = lambda shape, names: pb.make_mesh(shape, names, (AxisType.Auto,) * len(names))
mesh, turned = auto((4, 2), ("x", "y")), auto((2, 4), ("x", "y"))
explicit = pb.make_mesh((4, 2), ("x", "y"))
rows, columns, whole = (NamedSharding(mesh, s) for s in (P("x"), P(None, "x"), P()))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
put = lambda spec, m=mesh: pb.device_put(X, NamedSharding(m, spec))
text = lambda f, *args: str(pb.make_jaxpr(f)(*args))
"""

MESHES = """
assert auto((4, 2), ("x", "y")) is mesh is pickle.loads(pickle.dumps(mesh)) is copy.copy(mesh)
assert mesh.update(axis_types=(AxisType.Explicit,) * 2) is explicit != mesh
for error, wrong in [
    (ValueError, AxisType.Auto), (TypeError, ("a", "b")), (ValueError, (AxisType.Auto,)),
]:
    with pytest.raises(error):
        pb.make_mesh((4, 2), ("x", "y"), axis_types=wrong)
plain = AbstractMesh((4, 2), ("x", "y"))
assert plain.update(axis_sizes=(2, 2)) == AbstractMesh((2, 2), ("x", "y"))
for wrong in (lambda: plain.devices, lambda: plain.device_ids, lambda: plain.is_multi_process,
              lambda: plain.local_devices, lambda: plain.__enter__()):
    with pytest.raises(ValueError, match="does not implement"):
        wrong()
for wrong in (lambda: AbstractMesh((("x", 4),)), lambda: NamedSharding(mesh, None),
              lambda: NamedSharding(None, P())):
    with pytest.raises(TypeError):
        wrong()
with pytest.raises(AttributeError, match="partitions"):
    NamedSharding(mesh, ("x",))
with pytest.raises(ValueError, match="nested tuple"):
    P(("x", ("y",)))
with pytest.raises(IndexError):
    NamedSharding(mesh, P("x", "y")).shard_shape((8,))
with pb.set_mesh(mesh):
    with pb.set_mesh(None):
        assert pb.sharding.get_mesh().empty
    assert pb.sharding.get_mesh() is mesh
"""

PROGRAMS_DEPEND_ON_THE_MESH_IN_FORCE = """
f = pb.jit(lambda a: lax.with_sharding_constraint(a * 2, P("x")))
for m in (mesh, turned, mesh, turned):
    with m:
        assert f(X).sharding.mesh is m
    with pb.set_mesh(m):
        assert f(X).sharding.mesh is m
traced = []
g = pb.jit(lambda a: traced.append(1) or a * 2)
for _ in range(2):
    g(X)
    with mesh:
        g(X)
    with pb.sharding.use_abstract_mesh(turned.abstract_mesh):
        g(X)
assert len(traced) == 3
"""

SPECS_OF_THE_MESH_THAT_NAMES_AXES = """
from pullback.experimental.pjit import pjit
with mesh:
    assert pjit(lambda a: a, in_shardings=P(), out_shardings=P("x"))(X).sharding == rows
    assert pjit(lambda a: a + 1, P("x"), None)(X).sharding.mesh is mesh
    with pytest.raises(RuntimeError, match="non-empty mesh"):
        pb.jit(lambda a: a, in_shardings=P("x"))(X)
with pytest.raises(RuntimeError, match="non-empty mesh"):
    pjit(lambda a: a, P("x"), None)(X)
"""

BATCHES_OF_WHAT_IS_ASKED_TO_LIE_SO = r"""
double = pb.jit(lambda a: a * 2, in_shardings=rows, out_shardings=rows)
assert pb.vmap(double)(X).sharding.spec == P(None, "x")
down = pb.jit(lambda a: a * 2, out_shardings=NamedSharding(mesh, P("y")))
assert pb.vmap(down, spmd_axis_name="x")(X).sharding.spec == P("x", "y")
x = jnp.asarray(X)
pb.vmap(pb.jit(lambda a: a * 2, donate_argnums=0))(x)
assert x.is_deleted()
cut = pb.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
constrained = lambda a: lax.with_sharding_constraint(a, rows)
for f, v in [(cut, np.ones((4, 8, 2))), (constrained, X), (double, X)]:
    with pytest.raises(ValueError, match=r"spmd_axis_name (x |\('x',\) )?cannot appear in"):
        pb.vmap(f, spmd_axis_name="x")(v)
with pb.set_mesh(explicit):
    laid = put(P("x"), explicit)
    moved = pb.vmap(lambda a: pb.reshard(a, P("y")))
    assert pb.reshard(laid, P("y", None, None)).sharding.spec == P("y", None)
    assert "f32[8@x,8@y] = reshard" in text(moved, laid)
    with pytest.raises(ValueError, match="Only one of spmd_axis_name"):
        pb.vmap(lambda a: a, spmd_axis_name="y")(laid)
"""

PARTS_AND_WHOLES = """
make = pb.make_array_from_callback
with pytest.raises(ValueError, match="must match the dtype"):
    make((8, 8), rows, lambda index: X[index], dtype=jnp.int32)
with pytest.raises(TypeError, match="should be an instance"):
    make((8, 8), P("x"), lambda index: X[index])
parts = [pb.device_put(X[k : k + 1].astype(np.int32 if k else np.float32), d)
         for k, d in enumerate(devices)]
line = NamedSharding(auto((8,), ("i",)), P("i"))
with pytest.raises(ValueError, match="matching dtypes"):
    pb.make_array_from_single_device_arrays((8, 8), line, parts)
local = pb.make_array_from_process_local_data(rows, {"a": X, "b": [X]})
assert local["b"][0].sharding == local["a"].sharding == rows
with pytest.raises(TypeError, match="leaf specifications"):
    lax.with_sharding_constraint(X, "x")
keys = pb.device_put(pb.random.split(pb.random.key(0), 8), rows)
assert keys.committed and not pb.random.key(0).committed
assert [s.data.shape for s in keys.addressable_shards] == [(2,)] * 8
assert str(keys.addressable_shards[0].data.dtype) == "key<fry>"
"""

PMAP = """
assert "name=_fun" in text(pb.pmap(lambda a: a * 2), X)
with pytest.raises(IndivisibleError):
    pb.pmap(lambda a: a * 2)(np.ones((9, 2)))
"""

MEMORIES = """
host = pb.device_put(X, rows.with_memory_kind("pinned_host"))
assert host.at[0].set(1).sharding.memory_kind == "pinned_host"
"""

LAYOUTS = """
from pullback.experimental.layout import Format, Layout
for wrong in (lambda: Format(Layout((0, 1)), "x"), lambda: Format("x", rows)):
    with pytest.raises(TypeError, match="Invalid value received for the"):
        wrong()
"""

PROGRAMS_THAT_MOVE = """
move = lambda to: pb.jit(lambda a: pb.device_put(a * 2, to))
assert move(rows)(X).sharding == whole and move(rows)(put(P("x"))).sharding == rows
assert move(NamedSharding(explicit, P("x")))(X).sharding.spec == P("x", None)
assert move(SingleDeviceSharding(devices[1]))(X).devices() == {devices[1]}
assert not move(devices[1])(X).committed
with pytest.raises(ValueError, match="incompatible devices"):
    move(rows)(pb.device_put(X, devices[1]))
"""

MESHES_WITHOUT_DEVICES = """
bare = NamedSharding(mesh.abstract_mesh, P("x"))
double = lambda a: a * 2
cut = pb.shard_map(double, mesh=mesh.abstract_mesh, in_specs=P("x"), out_specs=P("x"))
laid = put(P("x"))
for wrong in (
    lambda: pb.device_put(X, bare), lambda: pb.device_put(laid, bare),
    lambda: pb.jit(double, out_shardings=bare)(X), lambda: pb.jit(double, in_shardings=bare)(X),
    lambda: lax.with_sharding_constraint(X, bare),
):
    with pytest.raises(ValueError):
        wrong()
assert not pb.jit(lambda a: lax.with_sharding_constraint(a, bare))(X).committed
for f in (cut, pb.jit(double, out_shardings=bare), lambda a: lax.with_sharding_constraint(a, bare)):
    assert f(laid).sharding == rows
"""

WHAT_COMPILED_PROGRAMS_WERE_MADE_FOR = """
for example in (put(P("x")), pb.ShapeDtypeStruct((8, 8), jnp.float32, sharding=rows)):
    compiled = pb.jit(lambda a: a * 2).lower(example).compile()
    for given in (X, jnp.asarray(X), put(P("x"))):
        assert compiled(given).sharding == rows
"""

PROGRAMS_AS_TEXT = """
head = (
    'attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {'
    '@sdy.mesh @mesh = <["x"=4, "y"=2]> {stablehlo.mesh = {axes = '
    '[{name = "x", size = 4 : i64}, {name = "y", size = 2 : i64}]}}'
    '@func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = '
    '#sdy.sharding<@mesh, [{"x"}, {}]>'
).replace("@sdy.mesh", chr(10) + "  sdy.mesh").replace("@func", chr(10) + "  func")
double = lambda a: a * 2
one, two = '#sdy.sharding<@mesh, [{"x"}, {}]>', 'sdy.sharding_constraint %1 <@mesh, [{"x"}, {}]>'
for f, x in [(pb.jit(double), put(P("x"))), (pb.jit(double, in_shardings=rows), X)]:
    told = f.lower(x).as_text()
    assert head in told and told.count(one) == 1
same = pb.jit(double, donate_argnums=0, in_shardings=rows, out_shardings=rows).lower(X).as_text()
assert head + ", tf.aliasing_output = 0 : i32}" in same
told = pb.jit(double).lower(put(P("x"), explicit)).as_text()
assert head in told and told.count(one) == 2 and two in told
assert "num_partitions = 1 " in pb.jit(double).lower(X).as_text()
"""

ARRAYS_OF_TWO_MESHES = """
line = pb.make_mesh((8,), ("b",))
a, b = put(P("x"), explicit), put(P("b"), line)
for wrong in (lambda: a + b, lambda: pb.jit(jnp.add)(a, b)):
    with pytest.raises(ValueError, match="Mesh for all inputs should be equal"):
        wrong()
with pb.set_mesh(line):
    for wrong in (lambda: a * 2, lambda: pb.jit(lambda x: x * 2)(a)):
        with pytest.raises(ValueError, match="should match the aval mesh"):
            wrong()
    assert pb.vjp(jnp.sin, b)[1](X)[0].sharding.spec == P("b", None)
    assert (pb.reshard(a, P("b")) * 2).sharding == b.sharding.update(spec=P("b", None))
"""

FUNCTIONS_THAT_SAY_HOW_THEY_ARE_DIVIDED = """
from pullback.experimental.custom_partitioning import SdyShardingRule, custom_partitioning
def divided(rule, fun=lambda a: a * 2, **options):
    told, f = [], custom_partitioning(fun)
    def partition(m, args, results):
        args_lie, results_lie = (pb.tree.map(lambda a: a.sharding, t) for t in (args, results))
        told.append([tuple(s.spec) for s in pb.tree.leaves((args_lie, results_lie))])
        mine = lambda *a: pb.tree.map(lambda v: v * 3, fun(*a))
        return m, mine, results_lie, args_lie
    f.def_partition(partition, sharding_rule=rule, **options)
    return f, told
laid, n = put(P("x")), None
f, told = divided("i j -> i j")
assert (pb.jit(f)(laid) == X * 6).all() and told == [[("x", n), ("x", n)]]
g = pb.jit(lambda a: pb.jit(f)(a * 1) + 0)
for _ in range(3):
    assert g(laid).sharding == rows
g(put(P("y")))
assert told[1:] == [[("x", n), ("x", n)], [("y", n), ("y", n)]]
assert (pb.jit(f)(X) == X * 2).all() and (f(laid) == X * 2).all() and len(told) == 3
assert (pb.jit(f, out_shardings=rows)(X) == X * 6).all() and told[3:] == [[("x", n), ("x", n)]]
twice = pb.jit(lambda a: lax.scan(lambda c, _: (f(c), None), a, None, length=2)[0])
assert (twice(laid) == X * 36).all() and len(told) == 5
f, told = divided("i k, k j -> i j", lambda a, b: a @ b)
out = pb.jit(f)(laid, put(P(None, "y")))
assert out.sharding.spec == P("x", "y") and (out == 3 * (X @ X)).all()
assert told == [[("x", n), (n, "y"), ("x", "y")]]
f, told = divided("... j -> ... j, ...", lambda a: (a, a.sum(1)))
assert pb.jit(f)(laid)[1].sharding.spec == P("x") and told[0][2] == ("x",)
assert (pb.grad(lambda a: f(a)[0].sum())(X) == 1).all()
assert "b:f32[8,8] c:f32[8] = custom_partitioning[" in text(f, X)
for rule, match in [("i j", "no ->"), ("(i) j -> i j", "at least two"), ("1 -> i", "start with a")]:
    with pytest.raises(ValueError, match=match):
        divided(rule)
with pytest.raises(TypeError):
    divided(3)
with pytest.raises(ValueError, match="not used"):
    divided("i -> i", need_replication_factors=("q",))
with pytest.raises(ValueError, match="0th operand has rank 3"):
    pb.jit(divided("i j k -> i j k")[0])(laid)
with pytest.raises(AttributeError, match="rule is missing"):
    custom_partitioning(lambda a: a)(X)
"""

WHAT_IS_GIVEN_AWAY = """
def gone(x, f=lambda a: a * 2, *rest, **options):
    pb.jit(f, donate_argnums=0, **options)(x, *rest)
    return x.is_deleted()
alone = lambda: jnp.asarray(X)
for _ in range(3):
    assert gone(alone()) and gone(put(P("x"))) and gone(put(P("x")), out_shardings=rows)
    assert not gone(put(P("x")), out_shardings=whole)
    assert not gone(put(P("x")), out_shardings=NamedSharding(mesh, P("y")))
    assert not gone(alone(), in_shardings=rows, out_shardings=rows)
    assert not gone(alone(), lambda a, b: a + b, put(P("x")))
x = alone()
pb.pmap(lambda a: a * 2, donate_argnums=0)(x)
assert not x.is_deleted()
y = pb.pmap(lambda a: a * 2)(x)
pb.pmap(lambda a: a * 2, donate_argnums=0)(y)
assert y.is_deleted()
"""

NEW_ARRAYS_LIE_ON_THE_DEFAULT_DEVICE = """
def places(*arrays):
    assert not any(a.committed for a in arrays)
    return [next(iter(a.devices())).id for a in arrays]
z = jnp.arange(6.0).reshape(2, 3)
made = lambda: places(
    jnp.ones(2), jnp.asarray(X), jnp.asarray([1]), jnp.sin(z), z + 1, z[0], jnp.zeros_like(z),
    pb.random.key(0), pb.jit(lambda a: a * 2)(np.ones(3)), pb.device_put(1), z.copy(),
    z.at[0].set(1),
)
for _ in range(3):  # natively in the end
    for k in (2, 3):
        with pb.default_device(devices[k]):
            assert made() == [k] * 12
            x = jnp.ones(2)
            assert (pb.device_put(1, devices[1]) + x).devices() == {devices[1]}
            assert places(z, pb.device_put(z)) == [0, 0]
    assert made() == [0] * 12 and places(x, x + 1, jnp.asarray(x)) == [3, 0, 3]
pb.config.update("jax_default_device", devices[4])
assert made() == [4] * 12
pb.config.update("jax_default_device", None)
assert made() == [0] * 12
with pb.default_device("gpu"), pytest.raises(RuntimeError, match="gpu"):
    jnp.ones(2)
"""

SNIPPETS = {name: text for name, text in globals().items() if name.isupper() and name != "HEAD"}


@pytest.mark.parametrize("half", [0, 1])
def test_eight_devices(half: int) -> None:
    eight_devices.run("-c", HEAD + "\n".join(list(SNIPPETS.values())[half::2]))
