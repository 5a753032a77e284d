"""Devices, shardings, debugging and profiling: the single-device forms that every script imports."""  # noqa: E501

from __future__ import annotations

import copy
import csv
import importlib
import io
import json
import logging
import pickle
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding


def test_where_an_array_is() -> None:
    x, device = jnp.arange(3.0), pb.devices()[0]
    assert x.devices() == {device} and x.device is device and not x.committed
    assert x.sharding == SingleDeviceSharding(device)
    (shard,) = x.addressable_shards
    assert shard.index == (slice(None),) and shard.replica_id == 0 and shard.data is x
    assert x.is_fully_addressable and x.is_fully_replicated
    assert str(device) == "cpu:0" and repr(device) == "CpuDevice(id=0)"
    placed = pb.device_put(x, device)
    assert placed.committed and placed.tolist() == x.tolist()
    assert pb.random.key(0).devices() == {device}


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_name_the_same_device(copied: Any) -> None:
    device = pb.devices()[0]
    assert copied(device) is device
    assert copied(device.client) is device.client
    mesh = pb.make_mesh((1,), ("x",))
    for x in (
        device.default_memory(),
        jnp.ones(2).sharding,
        mesh,
        NamedSharding(mesh, PartitionSpec("x")),
    ):
        assert copied(x) == x and hash(copied(x)) == hash(x)
    with pytest.raises(ValueError, match="no device 7"):
        type(device).__reduce__(SimpleNamespace(id=7))[0](7)


def test_device_put_of_trees_and_bad_targets() -> None:
    mesh = pb.make_mesh((1,), ("x",))
    assert mesh.axis_types == (AxisType.Explicit,)
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    out = pb.device_put({"a": np.arange(2), "b": (1.0, 2)}, {"a": sharding, "b": None})
    assert out["a"].sharding == sharding and not out["b"][0].committed
    assert sharding.devices_indices_map((2,)) == {pb.devices()[0]: (slice(None),)}
    with pytest.raises(ValueError, match="only accepts"):
        pb.device_put(1.0, "cpu")
    with pytest.raises(TypeError, match="not a valid JAX type"):
        pb.device_put({"a": "text"})


def test_layouts() -> None:
    def program(package: str) -> list[Any]:
        layout = importlib.import_module(f"{package}.experimental.layout")
        rows = layout.Layout((0, 1))
        with pytest.raises(ValueError, match="rank of the value") as refused:
            rows.check_compatible_aval((3,))
        turned = rows.update(major_to_minor=(1, 0), tiling=())
        return [repr(rows), repr(turned), rows == layout.Layout((0, 1), ()), str(refused.value)]

    assert program("pullback") == program("jax")
    assert repr(pb.numpy.ones((2, 3)).format.layout) == repr(jax.numpy.ones((2, 3)).format.layout)


def test_arrays_from_parts() -> None:
    sharding = SingleDeviceSharding(pb.devices()[0])
    made = pb.make_array_from_callback((4,), sharding, lambda index: np.arange(4.0)[index])
    assert made.tolist() == [0, 1, 2, 3] and made.sharding == sharding
    joined = pb.make_array_from_single_device_arrays((2,), sharding, [jnp.ones(2)])
    assert joined.tolist() == [1, 1]
    with pytest.raises(ValueError, match="Expected 1 per-device arrays"):
        pb.make_array_from_single_device_arrays((2,), sharding, [jnp.ones(1), jnp.ones(1)])


def test_flags_are_set_by_update_only() -> None:
    with pytest.raises(AttributeError, match=r"config.update\('jax_enable_x64', True\)"):
        pb.config.jax_enable_x64 = True
    with pytest.raises(AttributeError, match="Unrecognized config option: nothing"):
        pb.config.update("nothing", 1)


def test_debug_print_and_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    @pb.jit
    def f(x: object) -> object:
        pb.debug.print("x = {x:.1f} {what}", x=x, what="here", ordered=True)
        return x + 1

    assert f(2.0) == 3
    pb.effects_barrier()
    assert capsys.readouterr().out == "x = 2.0 here\n"
    with caplog.at_level(logging.INFO, "pullback.debug"):
        pb.debug.log("logged {}", 3)
    assert [(r.message, Path(r.pathname).name) for r in caplog.records] == [
        ("logged 3", "test_placement.py")
    ]
    with pytest.raises(ValueError, match="Unused"):
        pb.debug.print("nothing", 1)


def test_debug_print_of_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """A key outside of programs is shown as one, in a program as the numbers that it is made of."""
    found = []
    for m in (jax, pb):
        keys = m.random.split(m.random.key(3), 2)
        show = lambda k, m=m: m.debug.print("{} {}", k, 1)
        show(keys[0])
        m.vmap(show)(keys)
        m.grad(lambda x, show=show, k=keys[1]: (show(k), x)[1])(1.0)
        m.jit(show)(keys)
        m.effects_barrier()
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] and "key<fry>" in found[0]


def test_breakpoint_sees_the_values_of_the_program() -> None:
    out = io.StringIO()

    @pb.jit
    def f(x: object) -> object:
        y = x * 2
        pb.debug.breakpoint(stdin=io.StringIO("p y\nw\nc\n"), stdout=out, num_frames=1)
        return y

    assert f(3.0) == 6
    said = out.getvalue()
    assert said.startswith("Entering jdb:\n(jdb) Array(6., dtype=float32"), said
    assert "Traceback:\n  File" in said and "pb.debug.breakpoint(stdin" in said, said


def test_picture_of_a_sharding(capsys: pytest.CaptureFixture[str]) -> None:
    pb.debug.visualize_array_sharding(jnp.ones((8,)))
    assert capsys.readouterr().out == "┌───────┐\n│ CPU 0 │\n└───────┘\n"


def test_profile(tmp_path: Path) -> None:
    with pb.profiler.trace(tmp_path), pb.profiler.StepTraceAnnotation("train", step_num=1):
        pb.profiler.annotate_function(lambda: None, name="inner")()
    (path,) = tmp_path.glob("plugins/profile/*/perfetto_trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["inner", "train"]
    assert events[1]["args"] == {"step_num": "1"} and events[0]["dur"] <= events[1]["dur"]
    with pytest.raises(RuntimeError, match="No profile started"):
        pb.profiler.stop_trace()


def test_forward_and_backward() -> None:
    forward, backward = pb.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    out, residuals = forward(2.0, 3.0)
    assert out == 6 and backward(residuals, 1.0) == (3, 2)


def test_check_grads_moves_arguments_as_jax() -> None:
    def points(m: ModuleType) -> list[object]:
        test_util = importlib.import_module(f"{m.__name__}.test_util")
        seen: list[object] = []

        def f(x: object) -> object:
            if not isinstance(x, m.core.Tracer):
                seen.append(np.asarray(x).tolist())
            return m.numpy.sin(x)

        x = m.numpy.array([0.5, 1.0, 2.0])
        test_util.check_grads(f, (x,), 1)
        test_util.check_grads(f, (x,), 1, eps=1e-2, atol=1e-2)
        return seen

    assert points(pb) == points(jax)


def test_check_grads() -> None:
    pb.test_util.check_grads(lambda x, y: jnp.sin(x) * y, (0.5, 1.5), order=2)

    @pb.custom_jvp
    def wrong(x: object) -> object:
        return x * x

    wrong.defjvp(lambda xs, ts: (wrong(*xs), 3 * ts[0]))
    with pytest.raises(AssertionError, match="tangent of the jvp"):
        pb.test_util.check_grads(wrong, (2.0,), 1)
    pb.test_util.check_grads(wrong, (2.0,), 1, ["fwd"], {np.float32: 2.0}, {np.float64: 0.1})
    with pytest.raises(AssertionError, match="tangent of the jvp"):
        pb.test_util.check_grads(wrong, (2.0,), 1, ["fwd"], atol={np.float64: 2.0})


def test_every_flag_of_jax_is_known() -> None:
    with (Path(__file__).parent / "data" / "config_flags.csv").open() as file:
        names = [row["flag"] for row in csv.DictReader(file)]
    assert len(names) > 100 and not [n for n in names if n not in pb.config.FLAGS]


# What each gives, for a module, an array in the host's memory and one in the device's.
MEMORIES: dict[str, Any] = {
    "put": lambda j, h, x: h,
    "computed": lambda j, h, x: j.numpy.sin(h) * 2 + h,
    "a part": lambda j, h, x: h[0],
    "back": lambda j, h, x: j.device_put(h, j.memory.Space.Device) + x,
    "compiled": lambda j, h, x: j.jit(lambda v: j.device_put(v * 2, j.memory.Space.Host))(x),
    "of a compiled program": lambda j, h, x: j.jit(lambda v: v * 2)(h),
    "both": lambda j, h, x: h + x,
}


@pytest.mark.parametrize("name", MEMORIES)
def test_types_say_in_which_memory_arrays_are(name: str) -> None:
    found: list[Any] = []
    for j in (jax, pb):
        x = j.numpy.arange(6.0).reshape(2, 3)
        try:
            out = MEMORIES[name](j, j.device_put(x, j.memory.Space.Host), x)
            found.append((str(j.typeof(out)), out.sharding.memory_kind, np.asarray(out)))
        except ValueError as e:
            found.append((type(e), None, 0))
    assert found[0][:2] == found[1][:2]
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=1e-6)


def test_check_grads_where_values_are_infinite() -> None:
    def least(x: object) -> object:  # of windows that hold no element, too
        return pb.lax.reduce_window(x, np.float32(np.inf), pb.lax.min, (1,), (1,), [(0, 2)])

    x = np.arange(4, dtype=np.float32)
    assert np.isinf(least(x)).sum() == 2
    pb.test_util.check_grads(least, (x,), 2, eps=1e-2, atol=6e-2, rtol=6e-2)
