"""Programs of several processes. Pullback's are one process: what they say of others is checked,
and there is nobody to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["initialize", "is_initialized", "shutdown"]


class State:
    """What this process knows of the others. `client`, through which processes would talk, is None:
    libraries see by it that there is one process.
    """

    process_id = 0
    num_processes = 1
    service = client = preemption_sync_manager = partition_index = None

    def __init__(self) -> None:
        self.coordinator_address: str | None = None


global_state = State()


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Says that this process is one of several: of one, on this engine.

    `coordinator_address` ("host:port"), `num_processes` and `process_id` must be given. The other
    arguments are about connections, and without meaning where there is one process. Raises
    ValueError for a missing argument and for more than one process, RuntimeError for a second call.

    >>> pb.distributed.initialize("localhost:1234", num_processes=1, process_id=0)
    >>> pb.distributed.is_initialized(), pb.process_count()
    (True, 1)
    >>> pb.distributed.shutdown()
    """
    if is_initialized():
        raise RuntimeError(
            "distributed.initialize should only be called once. Fix: call it where the program "
            "starts, or ask distributed.is_initialized() before."
        )
    if coordinator_address is None:
        raise ValueError(
            "coordinator_address should be defined. Fix: pass coordinator_address='localhost:1234'."
        )
    if num_processes is None:
        raise ValueError("Number of processes must be defined. Fix: pass num_processes=1.")
    if process_id is None:
        raise ValueError(
            "The process id of the current process must be defined. Fix: pass process_id=0."
        )
    if not 0 <= process_id < num_processes:
        raise ValueError(
            "process_id and num_processes must be nonnegative, with process_id < num_processes. "
            f"Got {process_id=}, {num_processes=}."
        )
    if num_processes > 1:
        raise ValueError(
            f"{num_processes=}: programs on Pullback are one process, on several virtual devices "
            "if asked to. Fix: pass num_processes=1, process_id=0; "
            "config.update('jax_num_cpu_devices', n) makes more devices."
        )
    global_state.coordinator_address = coordinator_address


def is_initialized() -> bool:
    """Whether `initialize` was called.

    >>> pb.distributed.is_initialized()
    False
    """
    return global_state.coordinator_address is not None


def shutdown() -> None:
    """Takes back what `initialize` said; nothing if it was not called.

    >>> pb.distributed.shutdown()
    """
    global_state.coordinator_address = None
