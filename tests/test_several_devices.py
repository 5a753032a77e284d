"""What calls on several devices refuse, and where what they make lies: each in a process with eight
virtual devices."""

import functools

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.experimental.layout import Format, Layout
from pullback.experimental.pjit import pjit
from pullback.sharding import SingleDeviceSharding
from tests import eight_devices

START = """
import functools
import warnings
import numpy as np
import pytest
import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

mesh = Mesh(np.array(pb.devices()).reshape(4, 2), ("x", "y"))
small = Mesh(np.array(pb.devices()[:4]).reshape(2, 2), ("x", "y"))
there = pb.device_put(np.arange(16.0).reshape(8, 2), NamedSharding(small, P("x")))
"""


@pytest.mark.parametrize(
    "program",
    [
        # the mesh in force is among what must be in one place
        """
with pb.set_mesh(mesh), pytest.raises(ValueError, match="argument .* and jit's context mesh"):
    there + 1
""",
        """
with pytest.raises(ValueError, match=r"ids \\[0\\].*and sharding_constraint inside jit with"):
    pb.jit(lambda v: lax.with_sharding_constraint(v, NamedSharding(small, P("x"))))(
        pb.device_put(jnp.zeros((8, 2)), pb.devices()[0])
    )
inner = pb.jit(lambda v: v * 2, in_shardings=NamedSharding(small, P("x")))
with pytest.raises(ValueError, match=r"and jit inside jit with device ids \\[0, 1, 2, 3\\]"):
    pb.jit(lambda v: inner(v))(pb.device_put(jnp.zeros((8, 2)), pb.devices()[0]))
""",
        # only device_put moves an array that was put somewhere
        """
turned = Mesh(np.array(pb.devices()[3::-1]).reshape(2, 2), ("x", "y"))
for move in (
    lambda: lax.with_sharding_constraint(there, NamedSharding(turned, P("x"))),
    lambda: jnp.array(there, device=pb.devices()[1]),
):
    with pytest.raises(ValueError, match="Received incompatible devices"):
        move()
assert pb.device_put(there, NamedSharding(turned, P("x"))).sharding.mesh == turned
copied = pb.device_put(there, may_alias=False)
assert copied.sharding == there.sharding
""",
        # constraints over meshes without devices
        """
wanted = NamedSharding(small.abstract_mesh, P("x"))
constrain = lambda v: lax.with_sharding_constraint(v, wanted)
assert constrain(there).sharding == there.sharding
with pytest.raises(ValueError, match="should be a `jax.Array`.*with shape float"):
    constrain(np.zeros((8, 2), np.float32))
with pytest.raises(TypeError, match="input must be a `NamedSharding`"):
    constrain(jnp.zeros((8, 2)))
other = pb.device_put(jnp.zeros((8, 2)), NamedSharding(Mesh(pb.devices()[:4], "i"), P("i")))
with pytest.raises(ValueError, match="Mesh shape of the input .*does not match"):
    constrain(other)
""",
        # axes that the compiler may choose are open in what is handed to Shardy
        """
free = P(P.UNCONSTRAINED, "y")
text = pb.jit(lambda v: lax.with_sharding_constraint(v, NamedSharding(small, free))).lower(
    np.zeros((8, 2), np.float32)).as_text()
assert '<@mesh, [{?}, {"y"}]>' in text
with pytest.raises(ValueError, match="Unconstrained dims are not allowed when passed to in_sh"):
    pb.jit(lambda v: v, in_shardings=NamedSharding(small, free))
""",
        # what is made like a type lies as the type says
        """
kind = pb.ShapeDtypeStruct((8, 2), jnp.float32, sharding=NamedSharding(small, P("x", "y")))
for make in (jnp.zeros_like, jnp.ones_like, functools.partial(jnp.full_like, fill_value=3)):
    assert make(kind).sharding == kind.sharding
assert jnp.zeros_like(kind, shape=(3,)).sharding == SingleDeviceSharding(pb.devices()[0])
""",
        # the words of keys lie as the keys do
        """
seeds = pb.device_put(np.arange(16).reshape(8, 2), NamedSharding(small, P("x", "y")))
keys = pb.jit(lambda v: pb.vmap(pb.vmap(pb.random.key))(v).T)(seeds)
assert keys.sharding.spec == P("y", "x")
assert tuple(pb.random.key_data(keys).sharding.spec)[:2] == ("y", "x")
""",
        # arguments in another kind of memory than is asked for; values of the host go there
        """
x = jnp.arange(8.0)
on_host = NamedSharding(small, P("x"), memory_kind="pinned_host")
on_device = NamedSharding(small, P("x"))
kinds = "Memory kinds passed to jax.jit does not match memory kind on the respective arg. Got "
for wanted, have in ((on_host, x), (on_host, pb.device_put(x, on_device)),
                     (on_device, pb.device_put(x, on_host))):
    for f in (lambda v: v * 2, lambda v: 1):
        g = pb.jit(f, in_shardings=wanted)
        for call in (g, g.lower):
            with pytest.raises(ValueError, match=kinds + "jit memory kind: " + wanted.memory_kind):
                call(have)
assert pb.jit(lambda v: v * 2, in_shardings=on_host)(np.arange(8.0)).tolist()[1] == 2
""",
        # jit(device=...) moves what is elsewhere
        """
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    f = pb.jit(lambda v, scale: v * scale["by"], device=pb.devices()[2])
for k in (0, 1, 2, 1):
    v = pb.device_put(jnp.arange(3.0), pb.devices()[k])
    got = f(v, {"by": v})
    assert got.tolist() == [0, 1, 4] and got.sharding.device_set == {pb.devices()[2]}
    assert v.sharding.device_set == {pb.devices()[k]} and v.tolist() == [0, 1, 2]
""",
        # out_shardings of programs that close over references
        """
at = lambda *spec: NamedSharding(small, P(*spec))
r = pb.new_ref(pb.device_put(jnp.arange(8.0), at("x")))
s = pb.new_ref(pb.device_put(jnp.arange(8.0), at("x")))
def f(y):
    s[...] = y + r[...]
    return r[...] * 2, y * 3
for _ in range(2):
    a, b = pb.jit(f, out_shardings=(at(), at("y")))(pb.device_put(jnp.arange(8.0), at("x")))
    assert (a.sharding, b.sharding) == (at(), at("y")) and a.tolist()[1] == 2
    assert s[...].tolist()[3] == 6 and s[...].sharding.is_equivalent_to(at("x"), 1)
match = "does not match the sharding"
with pytest.raises(ValueError, match=match):
    pb.jit(lambda y: y + r[...], in_shardings=at("y"))(pb.device_put(jnp.arange(8.0), at("x")))
""",
        """
match = "does not match the sharding.*\\n.*for arg type: float32.8,2., argument v of"
with pytest.raises(ValueError, match=match):
    pb.jit(lambda v: v, in_shardings=NamedSharding(small, P(None, "y")))(there)
with pytest.raises(ValueError, match=r"spmd_axis_name \\('x',\\) cannot appear"):
    pb.vmap(
        lambda v: lax.with_sharding_constraint(v, NamedSharding(small, P("x"))), spmd_axis_name="x"
    )(jnp.zeros((4, 16)))
""",
    ],
)  # fmt: skip
def test_programs_of_eight_devices(program):
    eight_devices.run("-c", START + program)


def test_what_wraps_a_jitted_function_is_not_jitted():
    f = pb.jit(lambda x: x + 1)
    g = functools.wraps(f)(lambda x: f(2 * x))
    assert not any(hasattr(g, name) for name in ("lower", "trace", "eval_shape", "clear_cache"))
    h = pb.jit(g)  # whose methods are its own, not those of what it wraps
    assert h(3.0) == 7.0 and len(h.lower(1.0).as_text("jaxpr").split("mul")) == 2
    f.note = "kept"
    assert f.note == "kept" and jnp.sin.lower(1.0) is not None


def test_pjit_takes_keywords():
    f = pjit(lambda x, y=2: x + y, static_argnames="y")
    assert f(x=1) == 3 and f(1, y=5) == 6
    with pytest.raises(ValueError, match="kwargs when in_shardings is specified"):
        pjit(lambda x: x, in_shardings=SingleDeviceSharding(pb.devices()[0]))(x=1)


def test_types_are_no_arguments_of_calls():
    kind = pb.ShapeDtypeStruct((4, 2), np.int32)
    with pytest.raises(TypeError, match=r"Argument 'x\['b'\]' of shape int32\[4,2\] of type.*not"):
        pb.jit(lambda x: x)({"a": 1, "b": kind})


def test_formats_that_are_no_ones_are_refused():
    place = SingleDeviceSharding(pb.devices()[0])
    x, three = np.ones((2, 2)), Format(Layout((0, 1, 2)), place)
    for wanted in (Format(Layout.AUTO), Format(Layout.AUTO, place)):
        with pytest.raises(ValueError, match="should be concrete"):
            pb.device_put(x, wanted)
    for call in (
        lambda: pb.device_put(x, three),
        lambda: pb.jit(lambda v: v, in_shardings=three)(x),
        lambda: pb.jit(lambda v: v, out_shardings=three)(x),
    ):
        with pytest.raises(ValueError, match="Length of major_to_minor and the rank of the value"):
            call()
    with pytest.raises(ValueError, match="does not accept device-local layouts directly"):
        pb.jit(lambda v: v, in_shardings=Layout.AUTO)
    with pytest.raises(TypeError, match=r"`Layout[.]AUTO` cannot be used"):
        pb.ShapeDtypeStruct((2, 2), np.float32, sharding=Format(Layout.AUTO))
    with pytest.raises(TypeError, match=r"`Layout[.]AUTO` cannot be used"):
        pb.make_array_from_callback((2, 2), Format(Layout.AUTO, place), lambda i: x[i])
    kind = pb.ShapeDtypeStruct((2, 2), np.float32, sharding=Format(Layout((0, 1)), place))
    with pytest.raises(ValueError, match="You are updating ShapeDtypeStruct"):
        kind.update(sharding=place)


def test_meshes_have_whole_sizes():
    with pytest.raises(ValueError, match="should be a sequence of ints"):
        pb.make_mesh(((1,), 1), ("x", "y"))
    assert pb.make_mesh((1, np.int64(1)), ("x", "y")).size == 1


def test_spmd_axes_want_named_shardings():
    place = SingleDeviceSharding(pb.devices()[0])
    with pytest.raises(ValueError, match=r"spmd_axis_name parameter.*SingleDeviceSharding"):
        pb.jit(pb.vmap(lambda x: lax.with_sharding_constraint(x, place), spmd_axis_name="x"))(
            np.arange(3)
        )


def test_the_order_of_bits_is_that_of_the_block_where_they_are_drawn():
    def drawn(x):
        with pb.threefry_partitionable(not outer):
            return x + pb.random.bits(pb.random.key(7), (3,)), pb.random.split(pb.random.key(1), 3)

    for outer in (True, False):
        with pb.threefry_partitionable(outer):
            want, keys = drawn(np.uint32(0))
            here = pb.random.bits(pb.random.key(7), (3,))
            assert (want != here).any()
            for f in (pb.jit(drawn), pb.jit(lambda x: pb.jit(drawn)(x))):
                got, made = f(np.uint32(0))
                assert (got == want).all()
                assert (pb.random.key_data(made) == pb.random.key_data(keys)).all()
            rows = pb.jit(pb.vmap(drawn))(np.zeros(2, np.uint32))[0]
            assert (rows == want).all()
            assert "partitionable" not in str(pb.make_jaxpr(drawn)(np.uint32(0)))
