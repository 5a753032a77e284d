"""One array written to, or read from, a store of the tensorstore library: specs of stores, and the
coroutines that copy.
"""

from __future__ import annotations

import asyncio
import copy
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...api.arguments import ShapeDtypeStruct
from ...api.placement import make_array_from_callback
from ...runtime.array import Array
from ...runtime.layouts import Format
from ...runtime.shardings import Sharding

try:
    import tensorstore as ts
except ImportError as e:
    raise ImportError(
        "pullback.experimental.array_serialization needs the tensorstore library: "
        "pip install tensorstore"
    ) from e

__all__ = [
    "TS_CONTEXT",
    "async_deserialize",
    "async_serialize",
    "combine_kvstores",
    "estimate_read_memory_footprint",
    "get_tensorstore_spec",
    "is_tensorstore_spec_leaf",
    "merge_nested_ts_specs",
    "verify_tensorstore_spec",
]

# The libraries' threads and cache, shared by all stores of this process.
TS_CONTEXT: Any = ts.Context(
    {
        "file_io_concurrency": {"limit": 128},
        "cache_pool": {"total_bytes_limit": 10_000_000_000},
        "cache_pool#remote": {"total_bytes_limit": 10_000_000_000},
        "data_copy_concurrency": {"limit": 128},
    }
)
_CHUNK_LAYOUT: Any = ts.ChunkLayout(
    {"read_chunk": {"elements": 100_000_000}, "write_chunk": {"elements": 100_000_000}}
)
_BUCKETS = {"gs": "gcs", "s3": "s3"}


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    ocdbt: bool = True,
    process_idx: int | None = None,
    arr: Any = None,
    driver: str = "zarr3",
) -> dict[str, Any]:
    """The spec of the store of an array at a path: a directory, `gs://bucket/path` or
    `s3://bucket/path`.

    With `ocdbt` the array is an entry of a database in the path's directory. `arr`: an array (or a
    `ShapeDtypeStruct`) whose shape and dtype the spec says, too. Raises ValueError for a relative
    path of a database, a bucket without a path, and an unknown `driver`.

    >>> from pullback.experimental.array_serialization import tensorstore_impl
    >>> tensorstore_impl.get_tensorstore_spec("/here/weights", ocdbt=False)
    {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/here/weights'}}
    """
    path = os.fspath(ckpt_path)
    bucket = re.match(r"^(gs|s3)://", path)
    if not bucket:
        path = os.path.normpath(path)
    elif not re.match(r"^(gs|s3)://[^/]*/.", path):
        raise ValueError(
            "The ckpt_path should contain the bucket name and the file path inside the bucket. "
            f"Got: {path}"
        )
    folder, name = os.path.split(path.rstrip("/"))
    if process_idx is not None:
        folder = os.path.join(folder, f"process_{process_idx}")
    if ocdbt:
        if not bucket and not os.path.isabs(folder):
            raise ValueError(f"Checkpoint path should be absolute. Got {folder}")
        kvstore = {"driver": "ocdbt", "base": _key_value_store(folder), "path": name}
    else:
        kvstore = _key_value_store(os.path.join(folder, name))
    spec: dict[str, Any] = {"driver": driver, "kvstore": kvstore}
    if arr is not None:
        spec["metadata"] = _metadata(driver, arr, arr.shape)
    return spec


def _key_value_store(path: str) -> dict[str, Any]:
    """Where a path's bytes are kept."""
    found = re.match(r"^(gs|s3)://([^/]*)/?(.*)$", path)
    if found:
        return {"driver": _BUCKETS[found[1]], "bucket": found[2], "path": found[3]}
    return {"driver": "file", "path": path}


def _metadata(driver: str, arr: Any, chunk: Sequence[int]) -> dict[str, Any]:
    """What a store's spec says of an array that is written in chunks of a shape."""
    chunks = [max(1, n) for n in chunk]  # a store refuses empty chunks
    if driver == "zarr":
        return {"compressor": {"id": "zstd"}, "shape": tuple(arr.shape), "chunks": chunks}
    if driver == "zarr3":
        return {
            "codecs": [],
            "shape": tuple(arr.shape),
            "data_type": np.dtype(arr.dtype).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        }
    raise ValueError(f"Unsupported driver: {driver}. Use 'zarr3' or 'zarr'.")


def is_tensorstore_spec_leaf(leaf: Any) -> bool:
    """Whether a value in a pytree is a spec of a store: None, or a dict with a driver."""
    return leaf is None or (isinstance(leaf, dict) and ("driver" in leaf or "kvstore" in leaf))


def merge_nested_ts_specs(dict1: dict[Any, Any], dict2: dict[Any, Any] | None) -> dict[Any, Any]:
    """The first spec with the second's entries in the place of its own, those of its `kvstore` one
    by one.

    >>> from pullback.experimental.array_serialization import tensorstore_impl
    >>> first = {"driver": "zarr", "kvstore": {"driver": "file", "path": "/a"}}
    >>> tensorstore_impl.merge_nested_ts_specs(first, {"kvstore": {"path": "/b"}})
    {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': '/b'}}
    """
    if dict2 is None:
        return dict1
    kvstore = {**dict1.get("kvstore", {}), **dict2.get("kvstore", {})}
    return {**dict1, **dict2, "kvstore": kvstore}


def verify_tensorstore_spec(
    spec: dict[str, Any],
    arr: Any,
    path: str | os.PathLike[str],
    ocdbt: bool,
    check_metadata: bool = True,
) -> None:
    """Raises ValueError if a spec is not one of a store at `path` (of the database at `path`, with
    `ocdbt`), or if its metadata does not describe the array.
    """
    kvstore = spec.get("kvstore", {})
    if ocdbt and kvstore.get("driver") != "ocdbt":
        raise ValueError(f"Expected ocdbt driver, got {spec=}")
    if check_metadata:
        _verify_metadata(spec, arr)
    base = kvstore.get("base", {}) if ocdbt else kvstore
    found = base.get("path") if isinstance(base, dict) else base
    if found != os.fspath(path):
        raise ValueError(f"Provided {path=} does not match the spec path: {kvstore}")


def _verify_metadata(spec: dict[str, Any], arr: Any) -> None:
    if arr is None:
        raise ValueError("Array is required for metadata verification.")
    metadata = spec.get("metadata", {})
    if tuple(metadata.get("shape", arr.shape)) != tuple(arr.shape):
        raise ValueError(f"Provided shape ({metadata['shape']=}) doesn't match ({arr.shape=})")
    name = np.dtype(arr.dtype).name
    if metadata.get("data_type", name) != name:
        raise ValueError(f"Provided dtype ({metadata['data_type']=}) doesn't match ({arr.dtype=})")


class _LimitInFlightBytes:
    """Holds readers back while more than so many bytes are being read. What is larger than the
    limit itself is read alone.
    """

    def __init__(self, num_bytes: int) -> None:
        self._max = self._free = num_bytes
        self._changed = asyncio.Condition()

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        wanted = min(requested_bytes, self._max)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted

    async def release_bytes(self, requested_bytes: int) -> None:
        async with self._changed:
            self._free += min(requested_bytes, self._max)
            self._changed.notify_all()


async def async_serialize(
    arr_inp: Any,
    tensorstore_spec: Any,
    commit_future: list[Any] | None = None,
    context: Any = TS_CONTEXT,
    chunk_layout: Any = _CHUNK_LAYOUT,
    primary_host: int | None = None,
    replica_id: int = 0,
    transaction: Any = None,
) -> None:
    """Writes the shards of an array that have the number `replica_id` among their copies.

    With `commit_future`, a list, it returns once the values are copied, and puts there what to wait
    for; otherwise the array has been stored. A spec without metadata is given that of the array.
    `primary_host` means nothing here: there is one process.
    """
    spec = tensorstore_spec.to_json() if isinstance(tensorstore_spec, ts.Spec) else tensorstore_spec
    arr = arr_inp
    if not isinstance(arr_inp, Array):
        raise AttributeError(
            f"async_serialize: expected an Array, got {type(arr).__name__!r} object, which has "
            "no attribute 'addressable_shards'. Fix: pass jnp.asarray(value)."
        )
    if not spec.get("metadata"):
        chunk = arr.sharding.shard_shape(arr.shape)
        spec["metadata"] = _metadata(spec.get("driver"), arr, chunk)
    if "dtype" not in spec and spec["driver"] != "zarr3":
        spec["dtype"] = np.dtype(arr.dtype).name
    store = await ts.open(
        ts.Spec(spec), create=True, open=True, context=context, chunk_layout=chunk_layout,
        transaction=transaction,
    )  # fmt: skip

    async def write(shard: Any) -> None:
        future = store[shard.index].write(np.asarray(shard.data))
        if commit_future is None:
            await (future.commit if transaction is None else future.copy)
        else:
            commit_future.append(future.commit)
            await future.copy

    shards = [s for s in arr.addressable_shards if s.replica_id == replica_id]
    await asyncio.gather(*map(write, shards))


def estimate_read_memory_footprint(t: Any, domain: Any) -> int:
    """How many bytes of memory it takes to read a domain of a store: those of all chunks that have
    an element of it.
    """
    elements, origin = 1, t.chunk_layout.grid_origin or (0,) * t.rank
    chunk = t.chunk_layout.read_chunk.shape or (1,) * t.rank
    for low, high, start, n in zip(
        domain.inclusive_min, domain.exclusive_max, origin, chunk, strict=True
    ):
        first, last = (low - start) // n, -((start - high) // n)
        elements *= max(0, last - first) * n
    return int(elements * t.dtype.numpy_dtype.itemsize)


async def async_deserialize(
    in_type: Any,
    tensorstore_spec: Any,
    global_shape: Sequence[int] | None = None,
    dtype: Any = None,
    byte_limiter: _LimitInFlightBytes | None = None,
    context: Any = TS_CONTEXT,
    chunk_layout: Any = _CHUNK_LAYOUT,
    assume_metadata: bool = False,
) -> Any:
    """Reads an array.

    `in_type`: the sharding of the result, or a `Format` or `ShapeDtypeStruct` that has one (and its
    dtype). With `global_shape` the result has that shape: what is stored is cut, or filled with
    zeros. Raises TypeError without a sharding, ValueError for what is not there, or has another
    rank.
    """
    struct = in_type if isinstance(in_type, ShapeDtypeStruct) else None
    sharding = in_type.sharding if isinstance(in_type, (Format, ShapeDtypeStruct)) else in_type
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "sharding passed to deserialization should be specified, concrete and an instance of "
            f"`jax.sharding.Sharding`. Got {sharding}"
        )
    spec = tensorstore_spec if isinstance(tensorstore_spec, ts.Spec) else ts.Spec(tensorstore_spec)
    store = await ts.open(
        spec, open=True, assume_metadata=assume_metadata, context=context,
        chunk_layout=chunk_layout,
    )  # fmt: skip
    shape = tuple(store.shape if global_shape is None else global_shape)
    wanted = dtype if dtype is not None or struct is None else struct.dtype
    wanted = dtypes.canonicalize_dtype(store.dtype.numpy_dtype if wanted is None else wanted)
    asked = set(map(_bounds(shape), sharding.addressable_devices_indices_map(shape).values()))
    regions = [ts.IndexDomain(inclusive_min=low, exclusive_max=high) for low, high in asked]
    parts = await asyncio.gather(*(_read(store, r, wanted, byte_limiter) for r in regions))
    read = dict(zip(asked, parts, strict=True))
    return make_array_from_callback(shape, sharding, lambda index: read[_bounds(shape)(index)])


def _bounds(shape: tuple[int, ...]) -> Any:
    """From the slices of a shard to its first places, and those after its last."""

    def bounds(index: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        ranges = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        return tuple(r[0] for r in ranges), tuple(r[1] for r in ranges)

    return bounds


async def _read(store: Any, region: Any, dtype: Any, limiter: _LimitInFlightBytes | None) -> Any:
    """The stored values of a region, with zeros for what is outside of the store."""
    there = store.domain.intersect(region)
    if limiter is None:
        values = await store[there].read()
    else:
        nbytes = estimate_read_memory_footprint(store, there)
        await limiter.wait_for_bytes(nbytes)
        try:
            values = await store[there].read()
        finally:
            await limiter.release_bytes(nbytes)
    values = np.asarray(values).astype(dtype, copy=False)
    if there == region:
        return values
    out = np.zeros(region.shape, dtype)
    if math.prod(there.shape):
        out[there.translate_by[tuple(-n for n in region.origin)].index_exp] = values
    return out


async def combine_kvstores(
    combined_kvstore: dict[str, Any],
    kvstores: list[dict[str, Any]],
    context: Any = TS_CONTEXT,
) -> None:
    """Copies the entries of several databases into one, in one transaction."""
    target = await ts.KvStore.open(copy.deepcopy(combined_kvstore), context=context)
    transaction = ts.Transaction(atomic=True)
    into = target.with_transaction(transaction)
    for spec in kvstores:
        source = await ts.KvStore.open(copy.deepcopy(spec), context=context)
        await source.experimental_copy_range_to(into)
    await transaction.commit_async()
