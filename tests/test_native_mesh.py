"""Native calls where `set_mesh` has put a mesh in force: as without native code, in each thread."""

from __future__ import annotations

import threading

import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback.runtime import stub
from pullback.sharding import AxisType, NamedSharding, PartitionSpec

KINDS = (AxisType.Auto, AxisType.Explicit)
CALLS = 14  # enough for every function to have become native


def _mesh(kind, name="i"):
    return pb.make_mesh((1,), (name,), axis_types=(kind,))


def _how(x):
    return x.committed, x.sharding, x.aval, type(x.sharding)


def _operations(x, y):
    yield lambda: x + y
    yield lambda: x + 1
    yield lambda: -x
    yield lambda: x[2]
    yield lambda: x[1:3]
    yield lambda: jnp.sin(x)
    yield lambda: jnp.where(x > 1, x, y)
    yield lambda: jnp.zeros_like(x)
    yield lambda: jnp.zeros(4)
    yield lambda: jnp.concatenate([x, y])
    yield lambda: x.sum()
    yield lambda: x.reshape(2, 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("committed", [False, True])
def test_results_lie_as_those_of_the_first_call(kind, committed):
    mesh = _mesh(kind)
    x, y = jnp.arange(8.0), jnp.ones(8)
    with pb.set_mesh(mesh):
        if committed:
            x = pb.device_put(x, NamedSharding(mesh, PartitionSpec("i")))
        for number, operation in enumerate(_operations(x, y)):
            first = _how(operation())
            for _ in range(CALLS):
                assert _how(operation()) == first, number


@pytest.mark.parametrize("kind", KINDS)
def test_jitted_calls_are_native_under_a_mesh(kind):
    f = pb.jit(lambda x, n: {"a": x + n, "b": x})
    x = jnp.arange(8.0)
    plain = _how(f(x, 2)["a"])
    without = stub.entry_count(f)
    with pb.set_mesh(_mesh(kind)):
        first = _how(f(x, 2)["a"])
        assert first != plain and first[0]
        assert stub.entry_count(f) == without + bool(stub._native)
        traces = pb.trace_count()
        assert all(_how(f(x, k)["a"]) == first for k in range(CALLS))
        assert pb.trace_count() == traces
    assert _how(f(x, 2)["a"]) == plain


def test_two_meshes_in_turn():
    f = pb.jit(lambda x: x * 2)
    x = jnp.arange(3.0)
    meshes = [_mesh(AxisType.Auto, name) for name in ("i", "j")]
    for _ in range(3):
        for mesh in meshes:
            with pb.set_mesh(mesh):
                assert f(x).sharding.mesh == mesh
                assert jnp.sin(x).sharding.mesh == mesh
                with pb.set_mesh(meshes[0]):
                    assert (x + 1).sharding.mesh == meshes[0]
                assert (x + 1).sharding.mesh == mesh
        assert not f(x).committed and not jnp.sin(x).committed and not (x + 1).committed


def _in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_other_threads_have_no_mesh():
    f = pb.jit(lambda x: x * 2)
    x = jnp.arange(3.0)
    assert not f(x).committed
    with pb.set_mesh(_mesh(AxisType.Auto)):
        for _ in range(3):
            assert f(x).committed and (x + 1).committed
            assert not _in_thread(lambda: f(x).committed or (x + 1).committed)
    assert not f(x).committed


def test_a_mesh_of_another_thread_is_its_own():
    f = pb.jit(lambda x: x * 2)
    x = jnp.arange(3.0)
    mesh = _mesh(AxisType.Auto)

    def work():
        with pb.set_mesh(mesh):
            mine = [f(x).committed for _ in range(3)]
            begun.set()
            assert go_on.wait(60)
            return mine + [f(x).committed for _ in range(3)]

    begun, go_on, found = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    assert begun.wait(60)
    assert not any(f(x).committed for _ in range(3))
    with pb.set_mesh(_mesh(AxisType.Auto, "k")):
        assert all(f(x).sharding.mesh.axis_names == ("k",) for _ in range(3))
    go_on.set()
    thread.join()
    assert all(found[0])
    assert not f(x).committed


def test_flags_under_a_mesh():
    f = pb.jit(lambda x: x * 2.5)
    x = jnp.arange(3)
    with pb.set_mesh(_mesh(AxisType.Auto)):
        assert f(x).dtype == "float32"
        with pb.enable_x64(True):
            assert f(3).dtype == "float64"
        assert f(3).dtype == "float32" and f(x).committed
