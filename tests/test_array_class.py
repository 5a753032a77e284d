"""The class of arrays as JAX's own tests use it, on eight devices: made of what devices hold, asked
for its parts, deleted. One program, run with real JAX and with ours in its place.
"""

from __future__ import annotations

import eight_devices

PROGRAM = r"""
import jax, numpy as np, pickle
import jax.numpy as jnp
from jax._src import core, dtypes
from jax._src.array import ArrayImpl
from jax.sharding import NamedSharding, PartitionSpec as P


def refused(words, call, error=ValueError):
    try:
        call()
    except error as e:
        assert words in str(e), e
    else:
        raise AssertionError(words)


mesh = jax.make_mesh((1, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
many = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
lies, aval = NamedSharding(mesh, P("x", "y")), core.ShapedArray((8, 2), np.dtype("float32"))
whole, devices = np.arange(16.0, dtype="float32").reshape(8, 2), jax.devices()
half = [jax.device_put(whole[:, k : k + 1], d) for k, d in enumerate(devices[:2])]
made = ArrayImpl(aval, lies, half, committed=True)
assert type(made) is ArrayImpl and made.sharding == lies and made._committed is True
np.testing.assert_array_equal(made, whole)
np.testing.assert_array_equal(made._value, whole)
assert [a.shape for a in made._arrays] == [(8, 1)] * 2 and made._check_if_deleted() is None
all_of = jax.device_put(whole, NamedSharding(many, P()))
assert all_of._fully_replicated_shard().shape == (8, 2)
assert [len(x.sharding.device_set) for x in all_of] == [8] * 8
assert [len(x.sharding.device_set) for x in reversed(all_of)] == [8] * 8
refused("Expected 2 per-device arrays", lambda: ArrayImpl(aval, lies, half[:1], committed=True))
far = [jax.device_put(whole, d) for d in devices[2:4]]
refused("contains devices {0, 1} that are not", lambda: ArrayImpl(aval, lies, far, committed=True))
twice = [jax.device_put(whole, devices[0])] * 2
refused("from distinct devices", lambda: ArrayImpl(aval, lies, twice, committed=True))
ints = [jax.device_put(np.zeros((8, 1), "int32"), d) for d in devices[:2]]
refused("Got int32, expected float32", lambda: ArrayImpl(aval, lies, ints, committed=True))
big = [jax.device_put(whole, d) for d in devices[:2]]
refused("Expected shard shape (8, 1) doesn't match the single device array shape (8, 2)",
        lambda: ArrayImpl(aval, lies, big, committed=True))
refused("Expected shard shape (2, 2) doesn't match", lambda: jax.make_array_from_callback(
    (8, 4), NamedSharding(many, P("x", "y")), lambda i: np.arange(5)))
refused("tiling factors: [4, 2] should evenly divide the shape",
        lambda: NamedSharding(many, P("x", "y")).shard_shape((8, 3)))
for name, xla in (("bfloat16", "BF16"), ("int4", "S4"), ("float8_e4m3fn", "F8E4M3FN")):
    refused(f"Buffers of type {xla} are not supported by the Python buffer protocol",
            lambda: memoryview(jnp.ones(2, name)), BufferError)
given = jnp.arange(16)
jax.jit(lambda x: x * 2, in_shardings=NamedSharding(many, P()), donate_argnums=0)(given)
assert given.is_deleted()
made.delete()
assert made._arrays is None
refused("Array has been deleted", made._check_if_deleted, RuntimeError)
refused("called on deleted or donated buffer", made.on_device_size_in_bytes, RuntimeError)
host = np.arange(8, dtype="float32")  # NumPy's memory need not lie where XLA has its own
first, second = (jax.device_put(host, d) for d in devices[:2])
moved = jnp.from_dlpack(first, device=devices[1])
assert moved.devices() == {devices[1]}
assert moved.unsafe_buffer_pointer() != first.unsafe_buffer_pointer()
for x in (first, host):
    refused("requires a copy since the source device is",
            lambda: jnp.from_dlpack(x, device=devices[1], copy=False))
refused("onto a singular device", lambda: jnp.from_dlpack(host, device=NamedSharding(many, P())))
assert first.__dlpack__(dl_device=(1, 1)) and second.__dlpack__(dl_device=(1, 1), copy=False)
refused("which requires a copy", lambda: first.__dlpack__(dl_device=(1, 1), copy=False))
assert not hasattr(jax, "jax")
assert dtypes.lattice_result_type("bool", float) == (np.dtype("float32"), True)
"""


def test_with_jax() -> None:
    eight_devices.run("-c", PROGRAM)


def test_with_ours() -> None:
    head = "import pullback.jax_compat\npullback.jax_compat.install()\n"
    eight_devices.run("-c", head + PROGRAM)
