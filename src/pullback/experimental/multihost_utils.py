"""What the processes of one program agree on. Pullback runs one process, so every agreement is with
itself; shapes and types are what JAX returns there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import tree
from ..api.placement import device_put
from ..runtime.devices import process_index
from ..sharding import NamedSharding, PartitionSpec

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]


def sync_global_devices(name: str) -> None:
    """Waits until every process has called this with the same `name`.

    >>> from pullback.experimental import multihost_utils
    >>> multihost_utils.sync_global_devices('after loading')
    """
    if not isinstance(name, str):
        raise TypeError(f"sync_global_devices: name must be a str, got {name!r}.")


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The source process's pytree of arrays, as NumPy arrays, on every process (the source is
    process 0 unless `is_source` says otherwise).

    >>> pb.experimental.multihost_utils.broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    return tree.map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Every process's pytree of arrays as NumPy arrays: joined along a new first axis of the number
    of processes, or, if `tiled`, along the first axis that they have.

    >>> pb.experimental.multihost_utils.process_allgather(np.arange(2.0))
    array([[0., 1.]])
    """
    return tree.map(lambda x: np.asarray(x) if tiled else np.asarray(x)[None], in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """AssertionError with `fail_message` unless every process has the same values.

    `in_tree`: a pytree of arrays.

    >>> from pullback.experimental import multihost_utils
    >>> multihost_utils.assert_equal({'step': jnp.array(7)}, 'steps differ')
    """
    source = broadcast_one_to_all(in_tree)

    def same(a: Any, b: Any) -> bool:
        return bool(np.all(np.asarray(a) == b))

    equal = tree.map(same, in_tree, source)
    if not all(tree.leaves(equal)):
        raise AssertionError(f"{fail_message} Expected: {source}; got: {in_tree}.")


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Arrays of the whole program from each process's part of them, laid out by `pspecs` (one
    PartitionSpec, or a pytree of them) on `global_mesh`.

    >>> from pullback.experimental import multihost_utils
    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> spec = pullback.sharding.PartitionSpec('i')
    >>> multihost_utils.host_local_array_to_global_array(np.arange(3), mesh, spec)
    Array([0, 1, 2], dtype=int32)
    """

    def lay(spec: Any, x: Any) -> Any:
        spec = PartitionSpec() if spec is None else spec
        return device_put(x, NamedSharding(global_mesh, spec))

    return _map_specs(lay, pspecs, local_inputs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """This process's part of arrays of the whole program.

    `global_inputs`: a pytree of arrays; `pspecs`: one PartitionSpec, or a pytree prefix of them.

    >>> from pullback.experimental import multihost_utils
    >>> mesh = pullback.sharding.Mesh(pullback.devices()[:1], ('i',))
    >>> spec = pullback.sharding.PartitionSpec('i')
    >>> multihost_utils.global_array_to_host_local_array(jnp.arange(3), mesh, spec)
    Array([0, 1, 2], dtype=int32)
    """
    return _map_specs(lambda _, x: device_put(x), pspecs, global_inputs)


def _map_specs(function: Any, pspecs: Any, inputs: Any) -> Any:
    if pspecs is None or isinstance(pspecs, PartitionSpec):
        return tree.map(lambda x: function(pspecs, x), inputs)

    def is_spec(x: Any) -> bool:
        return x is None or isinstance(x, PartitionSpec)

    specs = tree.broadcast(pspecs, inputs, is_leaf=is_spec)
    return tree.map(function, specs, inputs, is_leaf=is_spec)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Has the program been told to stop and save, as of this step? A single process hears of no
    preemption, so False.

    >>> from pullback.experimental import multihost_utils
    >>> multihost_utils.reached_preemption_sync_point(7)
    False
    """
    return False


@contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """The devices whose processes are alive.

    >>> with pb.experimental.multihost_utils.live_devices(pb.devices()) as alive:
    ...     len(alive)
    1
    """
    yield [d for d in devices if d.process_index == process_index()]
