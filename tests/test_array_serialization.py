"""`experimental.array_serialization`, beside JAX's: specs of stores, files that either writes and
the other reads, managers that write in the background.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import pullback

ts = pytest.importorskip("tensorstore")

from jax.experimental.array_serialization import (  # noqa: E402
    serialization as their_serialization,
    tensorstore_impl as their_impl,
)

from pullback.experimental.array_serialization import (  # noqa: E402
    serialization as our_serialization,
    tensorstore_impl as our_impl,
)

JAX = SimpleNamespace(lib=jax, many=their_serialization, one=their_impl)
OURS = SimpleNamespace(lib=pullback, many=our_serialization, one=our_impl)
X = np.arange(12, dtype="float32").reshape(3, 4)
SPECS: list[tuple[str, dict[str, Any]]] = [
    ("/a/b/c", {}),
    ("/a/b/c/", {}),
    ("/a/./b/c", {"ocdbt": False}),
    ("b/c", {"ocdbt": True}),
    ("b/c", {"ocdbt": False}),
    ("gs://bucket/b/c", {"ocdbt": True}),
    ("gs://bucket/b/c", {"ocdbt": False}),
    ("s3://bucket/b", {"ocdbt": False}),
    ("gs://bucket", {}),
    ("/a/b/c", {"process_idx": 3}),
    ("/a/b/c", {"arr": X}),
    ("/a/b/c", {"arr": X, "driver": "zarr"}),
    ("/a/b/c", {"arr": np.ones((2, 0), ml_dtypes.bfloat16), "ocdbt": False}),
    ("/a/b/c", {"arr": X, "driver": "n5"}),
]


def answer(f: Any) -> Any:
    try:
        return f()
    except Exception as e:
        return type(e).__name__


@pytest.mark.parametrize("k", range(len(SPECS)))
def test_specs(k: int) -> None:
    path, options = SPECS[k]
    for module in ("one", "many"):
        theirs, ours = (getattr(m, module).get_tensorstore_spec for m in (JAX, OURS))
        assert answer(lambda f=ours: f(path, **options)) == answer(
            lambda f=theirs: f(path, **options)
        )


def test_what_specs_are() -> None:
    file = {"driver": "zarr", "kvstore": {"driver": "file", "path": "/a"}}
    base = {"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": "gs://a/b"}}
    bucket = {"kvstore": {"driver": "ocdbt", "base": {"driver": "s3"}}}
    spec = their_impl.get_tensorstore_spec("/a/b/c", arr=X)
    for m in (JAX, OURS):
        remote = [m.many.is_remote_storage(s) for s in (file, base, bucket, "gs://a", "/a")]
        assert remote == [False, True, True, True, False]
        leaves = [m.one.is_tensorstore_spec_leaf(s) for s in (file, None, {"a": 1}, 3)]
        assert leaves == [True, True, False, False]
        merged = m.one.merge_nested_ts_specs(file, {"kvstore": {"path": "/b"}, "dtype": "int32"})
        assert merged == {**file, "kvstore": {"driver": "file", "path": "/b"}, "dtype": "int32"}
        m.one.verify_tensorstore_spec(spec, X, "/a/b", True)
        for bad in ((X, "/a/b/c", True), (X.T, "/a/b", True), (X.astype(int), "/a/b", True),
                    (None, "/a/b", True), (X, "/a/b", False)):  # fmt: skip
            with pytest.raises(ValueError):
                m.one.verify_tensorstore_spec(spec, *bad)


def here(m: Any) -> Any:
    return m.lib.sharding.SingleDeviceSharding(m.lib.devices()[0])


@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64", "bfloat16", "int4"])
def test_either_reads_what_the_other_wrote(dtype: str, ocdbt: bool, tmp_path: Path) -> None:
    x = (np.arange(12).reshape(3, 4) % 5).astype(getattr(ml_dtypes, dtype, dtype))
    for shape in ((3, 4), (), (0, 4)):
        value = x[: shape[0]] if shape else x[1, 1]
        for k, (writer, reader) in enumerate(((JAX, OURS), (OURS, JAX), (OURS, OURS))):
            path = str(tmp_path / f"{k}{len(shape)}{len(value) if shape else ''}")
            spec = writer.many.get_tensorstore_spec(path, ocdbt=ocdbt)
            writer.many.run_serialization([writer.lib.numpy.asarray(value)], [spec])
            spec = reader.many.get_tensorstore_spec(path, ocdbt=ocdbt)
            (back,) = reader.many.run_deserialization([here(reader)], [spec])
            assert back.dtype == x.dtype and back.committed
            np.testing.assert_array_equal(np.asarray(back), value)


def test_shapes_types_and_parts(tmp_path: Path) -> None:
    """What is read may have another shape, another dtype, and lie on several devices."""
    m, mesh = OURS, pullback.make_mesh((1,), ("i",))
    spread = pullback.NamedSharding(mesh, pullback.P("i"))
    path = str(tmp_path / "x")
    m.many.run_serialization([pullback.device_put(X, spread)], [m.many.get_tensorstore_spec(path)])
    for sharding in (here(m), spread):
        for shape, dtype in (((4, 6), "int32"), ((2, 3), "float16"), (None, "bool"), (None, None)):
            (got,) = m.many.run_deserialization(
                [sharding], [m.many.get_tensorstore_spec(path)], [shape], [dtype]
            )
            want = np.zeros(shape or X.shape, dtype or "float32")
            part = tuple(slice(0, min(n, k)) for n, k in zip(want.shape, X.shape, strict=True))
            want[part] = X[part].astype(want.dtype)
            assert got.sharding == sharding and got.dtype == want.dtype
            np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("m", [JAX, OURS], ids=["jax", "ours"])
def test_managers(m: Any, tmp_path: Path) -> None:
    manager, called = m.many.GlobalAsyncCheckpointManager(), []
    assert isinstance(manager, m.many.GlobalAsyncCheckpointManagerBase)
    x, paths = m.lib.numpy.asarray(X), [str(tmp_path / "a"), str(tmp_path / "b")]
    manager.serialize_with_paths([x, x.T], paths, on_commit_callback=lambda: called.append(1))
    manager.wait_until_finished()
    assert called == [1]
    a, b = manager.deserialize_with_paths([here(m)] * 2, paths)
    assert a.tolist() == X.tolist() and b.tolist() == X.T.tolist()
    with pytest.raises(ValueError, match="NOT_FOUND"):
        manager.deserialize_with_paths([here(m)], [str(tmp_path / "c")])

    def fails() -> None:
        raise KeyError("the disk is full")

    manager.serialize_with_paths([x], [str(tmp_path / "d")], on_commit_callback=fails)
    with pytest.raises(KeyError, match="full"):
        manager.wait_until_finished()
    manager.check_for_errors()  # said once


@pytest.mark.parametrize("m", [JAX, OURS], ids=["jax", "ours"])
def test_bad_arguments(m: Any, tmp_path: Path) -> None:
    spec = m.many.get_tensorstore_spec(str(tmp_path / "x"))
    x = m.lib.numpy.asarray(X)
    with pytest.raises(AttributeError, match="addressable_shards"):
        m.many.run_serialization([X], [dict(spec)])
    with pytest.raises(ValueError, match="different lengths"):
        m.many.run_serialization([x, x], [dict(spec)])
    m.many.run_serialization([x], [dict(spec)])
    with pytest.raises(TypeError, match="sharding"):
        m.many.run_deserialization([3], [dict(spec)])
    with pytest.raises(ValueError, match="different lengths"):
        m.many.run_deserialization([here(m)], [spec, spec])
    with pytest.raises(ValueError, match="Ranks"):
        m.many.run_deserialization([here(m)], [dict(spec)], [(2,)])


def test_few_bytes_at_once_and_running_loops(tmp_path: Path) -> None:
    spec = our_serialization.get_tensorstore_spec(str(tmp_path / "x"))

    async def inside() -> Any:  # where an event loop runs, as in notebooks
        our_serialization.run_serialization([pullback.numpy.asarray(X)], [dict(spec)])
        limiter = our_impl._LimitInFlightBytes(10)
        reads = [our_impl.async_deserialize(here(OURS), spec, None, None, limiter)] * 1
        return await asyncio.gather(*reads)

    assert asyncio.run(inside())[0].tolist() == X.tolist()
    store = ts.open(spec, open=True).result()
    for domain in (store.domain, store[1:2, 1:3].domain):
        want = their_impl.estimate_read_memory_footprint(store, domain)
        assert our_impl.estimate_read_memory_footprint(store, domain) == want == 48
