"""`experimental.multihost_utils` in a program of one process, beside JAX's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
PACKAGES = ("pullback", "jax")


def described(x: Any) -> Any:
    return type(x).__name__, x.shape, str(x.dtype), x.tolist()


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("call", ["broadcast_one_to_all", "process_allgather"])
def test_trees_of_arrays(call: str, tiled: bool) -> None:
    got = []
    for package in PACKAGES:
        utils = importlib.import_module(f"{package}.experimental.multihost_utils")
        array = importlib.import_module(f"{package}.numpy").arange(3)
        options = {"tiled": tiled} if call == "process_allgather" else {}
        out = getattr(utils, call)({"a": np.arange(4.0), "b": array, "c": 3}, **options)
        got.append({k: described(v) for k, v in out.items()})
    assert got[0] == got[1]


def test_meshes_and_agreement() -> None:
    for package in PACKAGES:
        utils = importlib.import_module(f"{package}.experimental.multihost_utils")
        module = importlib.import_module(package)
        mesh, spec = module.make_mesh((1,), ("i",)), module.sharding.PartitionSpec("i")
        there = utils.host_local_array_to_global_array({"x": np.arange(4.0)}, mesh, spec)
        back = utils.global_array_to_host_local_array(there, mesh, spec)
        assert back["x"].tolist() == [0, 1, 2, 3] and back["x"].dtype == np.float32
        utils.sync_global_devices("here")
        utils.assert_equal({"x": np.arange(3)})
        with pytest.raises(AssertionError, match="differs"):
            utils.assert_equal(np.array([np.nan]), "differs")
        assert not utils.reached_preemption_sync_point(3)


def test_a_process_is_one_of_one() -> None:
    """`distributed`: what must be said, in JAX's order and words."""
    distributed = importlib.import_module("pullback.distributed")
    theirs = importlib.import_module("jax.distributed")
    assert distributed.shutdown() is None and not distributed.is_initialized()
    for options in ({}, {"coordinator_address": "localhost:12355"},
                    {"coordinator_address": "localhost:12355", "num_processes": 1}):  # fmt: skip
        said = []
        for module in (theirs, distributed):
            # JAX looks for clusters only before it computes; this process may have computed.
            with pytest.raises((ValueError, RuntimeError)) as e:
                module.initialize(**options)
            said.append(str(e.value))
        assert said[1].startswith(said[0]) or "must be called before any JAX calls" in said[0]
    with pytest.raises(ValueError, match="process_id < num_processes"):
        distributed.initialize("localhost:12355", 1, 3)
    with pytest.raises(ValueError, match="one process"):
        distributed.initialize("localhost:12355", 2, 1)
    distributed.initialize("localhost:12355", 1, 0)
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match="only be called once"):
        distributed.initialize("localhost:12355", 1, 0)
    distributed.shutdown()
    assert not distributed.is_initialized()
