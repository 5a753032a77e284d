"""Many arrays written and read at once, and managers that write them while the program goes on."""

from __future__ import annotations

import abc
import asyncio
import functools
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from . import tensorstore_impl as ts_impl
from .tensorstore_impl import TS_CONTEXT, async_deserialize, async_serialize

__all__ = [
    "TS_CONTEXT",
    "AsyncManager",
    "BarrierTimeoutError",
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "async_deserialize",
    "async_serialize",
    "get_tensorstore_spec",
    "is_remote_storage",
    "run_deserialization",
    "run_serialization",
]

# As `tensorstore_impl` has it, but files of their own in the older format: what checkpoints of
# years ago are.
get_tensorstore_spec = functools.partial(ts_impl.get_tensorstore_spec, ocdbt=False, driver="zarr")
_REMOTE = ("gcs", "s3")


class BarrierTimeoutError(Exception):
    """Other processes did not come in time. (Pullback's programs are one process.)"""


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Whether a path or a spec leads to a bucket.

    >>> from pullback.experimental.array_serialization import serialization
    >>> serialization.is_remote_storage("gs://bucket/path"), serialization.is_remote_storage("/a")
    (True, False)
    """
    if isinstance(tspec, str):
        return re.match(r"^(gs|s3)://", tspec) is not None
    if tspec.get("driver") in _REMOTE:
        return True
    return any(key in tspec and is_remote_storage(tspec[key]) for key in ("base", "kvstore"))


def _run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine to its end, also where an event loop is running (in notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    result: list[Any] = []
    errors: list[BaseException] = []

    def alone() -> None:
        try:
            result.append(asyncio.run(work()))
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


def run_serialization(arrays: Sequence[Any], tensorstore_specs: Sequence[Any]) -> None:
    """Writes arrays into the stores of their specs, and returns when they are there. Raises
    ValueError if there are not as many arrays as specs.
    """

    async def work() -> None:
        await asyncio.gather(*map(async_serialize, arrays, tensorstore_specs))

    _check_lengths("arrays", arrays, tensorstore_specs)
    _run(work)


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Any] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> list[Any]:
    """Reads arrays: a list of them.

    `global_shapes`, `dtypes`: those of the results, where they are not the stored ones.
    `concurrent_gb` bounds the gigabytes that are being read at once. Raises ValueError if the
    sequences differ in length, or for what is not there.
    """
    for name, given in (("shardings", shardings), ("global_shapes", global_shapes),
                        ("dtypes", dtypes)):  # fmt: skip
        if given is not None:
            _check_lengths(name, given, tensorstore_specs)
    shapes = [None] * len(tensorstore_specs) if global_shapes is None else global_shapes
    kinds = [None] * len(tensorstore_specs) if dtypes is None else dtypes

    async def work() -> list[Any]:
        limiter = ts_impl._LimitInFlightBytes(concurrent_gb * 10**9)
        reads = (
            async_deserialize(sharding, spec, shape, dtype, limiter)
            for sharding, spec, shape, dtype in zip(
                shardings, tensorstore_specs, shapes, kinds, strict=True
            )
        )
        return list(await asyncio.gather(*reads))

    return list(_run(work))


def _check_lengths(name: str, given: Sequence[Any], specs: Sequence[Any]) -> None:
    if len(given) != len(specs):
        raise ValueError(
            f"different lengths: {len(given)} {name} and {len(specs)} tensorstore_specs. Fix: pass "
            "one for each array."
        )


class AsyncManager:
    """Waits in a thread of its own until what was written is stored, and calls back.

    `timeout_secs` bounds how long processes wait for each other; here there is one.
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout_secs = timeout_secs
        self._commit_futures: list[Any] | None = None
        self._thread: threading.Thread | None = None
        self._exception: BaseException | None = None

    def _add_futures(self, futures: Sequence[Any]) -> None:
        self._commit_futures = list(futures)

    def _start_async_commit(self, on_commit_callback: Callable[[], None] | None) -> None:
        self._thread = threading.Thread(
            target=self._commit, args=(self._commit_futures or [], on_commit_callback)
        )
        self._thread.start()

    def _commit(self, futures: Sequence[Any], callback: Callable[[], None] | None) -> None:
        try:
            for future in futures:
                future.result()
            if callback is not None:
                callback()
        except BaseException as e:  # for whoever waits
            self._exception = e

    def check_for_errors(self) -> None:
        """Raises what went wrong since the last time."""
        if self._exception is not None:
            exception, self._exception = self._exception, None
            raise exception

    def wait_until_finished(self) -> None:
        """Returns when everything is stored; raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What a manager of checkpoints can do."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises what went wrong while it was storing."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Returns when everything is stored."""

    @abc.abstractmethod
    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], None]
    ) -> None:
        """Begins to write arrays."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Reads arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes arrays while the program goes on.

    >>> import tempfile
    >>> from pullback.experimental.array_serialization import serialization
    >>> x, manager = jnp.arange(3), serialization.GlobalAsyncCheckpointManager()
    >>> path = tempfile.mkdtemp() + "/x"
    >>> manager.serialize_with_paths([x], [path])
    >>> manager.wait_until_finished()
    >>> manager.deserialize_with_paths([x.sharding], [path])
    [Array([0, 1, 2], dtype=int32)]
    """

    def serialize(
        self,
        arrays: Any,
        tensorstore_specs: Any,
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """Copies arrays and begins to write them into the stores of their specs; a thread waits for
        the end and calls `on_commit_callback`. What was begun before is waited for.
        """
        self.wait_until_finished()
        _check_lengths("arrays", arrays, tensorstore_specs)
        futures: list[Any] = []

        async def work() -> None:
            writes = (
                async_serialize(x, spec, futures, transaction=transaction)
                for x, spec in zip(arrays, tensorstore_specs, strict=True)
            )
            await asyncio.gather(*writes)

        _run(work)
        self._add_futures(futures)
        self._start_async_commit(on_commit_callback)

    def serialize_with_paths(
        self,
        arrays: Sequence[Any],
        paths: Sequence[str],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: Any = None,
    ) -> None:
        """`serialize`, into files at paths."""
        specs = [get_tensorstore_spec(p) for p in paths]
        self.serialize(
            arrays, specs, on_commit_callback=on_commit_callback, transaction=transaction
        )

    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """`run_deserialization`, when what is being written is there."""
        self.wait_until_finished()
        return run_deserialization(
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb
        )

    def deserialize_with_paths(
        self,
        shardings: Sequence[Any],
        paths: Sequence[str],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """`deserialize`, from files at paths."""
        specs = [get_tensorstore_spec(p) for p in paths]
        return self.deserialize(shardings, specs, global_shapes, dtypes, concurrent_gb)
