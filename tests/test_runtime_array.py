"""The Array and the allocator: values, printing, life, views, cycles, threads; native and in plain
Python."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import operator
import os
import pickle
import subprocess
import sys
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from forked import in_child

import pullback
from pullback import errors
from pullback.core.avals import ShapedArray, intern
from pullback.runtime import array as A, array_methods, memory, native_layout as L
from pullback.runtime.native import Native

NATIVE = isinstance(memory.engine, Native)
native_only = pytest.mark.skipif(not NATIVE, reason="about the native types")
F32 = np.dtype("float32")
VALUES = [
    np.arange(6, dtype="float32").reshape(2, 3), np.array(3), np.array(True), np.zeros((0, 3)),
    np.array(1 + 2j),
    np.arange(5).astype(ml_dtypes.bfloat16), np.arange(-3, 4).astype(ml_dtypes.int4),
    np.arange(300.0), np.arange(24).reshape(2, 3, 4)[:, ::2], np.arange(4, dtype=">i4"),
    np.float16([1.5, 2]), ]  # fmt: skip


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.parametrize("x", VALUES, ids=lambda x: f"{x.dtype}{x.shape}")
@pytest.mark.parametrize("duplicate", [False, True])
def test_round_trip(x: np.ndarray, duplicate: bool) -> None:
    a = A.make_array(x, ShapedArray(x.shape, x.dtype.newbyteorder("=")), copy=duplicate)
    assert a.shape == x.shape and a.ndim == x.ndim and a.size == x.size and a.nbytes == x.nbytes
    view = A.np_view(a)
    assert (
        view.dtype == x.dtype.newbyteorder("=")
        and np.array_equal(view, x)
        and not view.flags.writeable
    )
    assert np.array_equal(np.asarray(a), x)
    assert np.array_equal(
        a.tolist(), x.astype(object).tolist() if x.dtype.kind == "V" else x.tolist()
    )


@pytest.mark.usefixtures("at_rest")
def test_sharing() -> None:
    x = np.arange(1000, dtype="float32")
    a = A.make_array(x)
    assert a.unsafe_buffer_pointer() == x.ctypes.data and a._owner is x
    held = sys.getrefcount(x)
    del a
    assert sys.getrefcount(x) == held - 1
    assert A.make_array(x, copy=True).unsafe_buffer_pointer() != x.ctypes.data
    assert A.make_array(x[::2]).unsafe_buffer_pointer() != x.ctypes.data
    raw = np.zeros(4001, np.uint8)
    misaligned = raw[1:].view(F32)
    assert not misaligned.flags.aligned and A.make_array(misaligned)._owner is not misaligned
    with pytest.raises(ValueError, match="make_array"):
        A.make_array(x, ShapedArray((3,), F32))


def test_avals_are_interned() -> None:
    a, b = A.make_array(np.ones(3, F32)), A.make_array(np.zeros(3, F32))
    assert a.aval is b.aval is intern(ShapedArray((3,), F32))


def test_scalars() -> None:
    for name in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ):
        x = np.array(np.iinfo(name).max if "int" in name else 1.5, name)
        a = A.make_array(x)
        assert a.item() == x.item() and type(a.item()) is type(x.item())
        assert int(a) == int(x) and float(a) == float(x) and complex(a) == complex(x) and bool(a)
        if "int" in name:
            assert a.__index__() == int(x) and range(200)[A.make_array(np.array(7, name))] == 7
    assert type(A.make_array(np.array(2, ml_dtypes.bfloat16)).item()) is float
    for f in (bool, int, float, complex):
        with pytest.raises((TypeError, ValueError)):
            f(A.make_array(np.ones(2)))
    with pytest.raises(TypeError, match="Only integer scalar arrays"):
        A.make_array(np.array(True)).__index__()
    with pytest.raises(ValueError, match="empty array"):
        bool(A.make_array(np.ones(0)))
    with pytest.raises(TypeError, match="not 'complex'"):
        float(A.make_array(np.array(1j)))
    assert (
        bool(A.make_array(np.ones((1, 1))))
        and A.make_array(np.arange(6).reshape(2, 3)).item(1, 2) == 5
    )
    with pytest.raises(IndexError):
        A.make_array(np.ones(2)).item(5)


def test_printing() -> None:
    def show(x: object, weak: bool = False) -> str:
        x = np.asarray(x)
        return repr(A.make_array(x, ShapedArray(x.shape, x.dtype, weak)))

    assert show(np.array([1, 2], F32)) == "Array([1., 2.], dtype=float32)"
    assert show(np.array(3, np.int32), True) == "Array(3, dtype=int32, weak_type=True)"
    assert show(np.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float64)"
    assert show(np.arange(2).astype(ml_dtypes.bfloat16)) == "Array([0, 1], dtype=bfloat16)"
    assert show(np.eye(2)) == "Array([[1., 0.],\n       [0., 1.]], dtype=float64)"
    assert show((np.arange(10.0) * 1.2345678).astype(F32)).endswith(
        "11.11111  ],      dtype=float32)"
    )
    a = A.make_array(np.array(2.5, ml_dtypes.bfloat16))
    assert f"{a:.2f}" == "2.50" and f"{a}" == "2.5" and str(A.make_array(np.ones(2))) == "[1. 1.]"


def test_what_arrays_refuse() -> None:
    a = A.make_array(np.ones(3, F32))
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
    with pytest.raises(TypeError, match=r"x\.at\[idx\]\.set"):
        a[0] = 1
    with pytest.raises(AttributeError):
        a.shape = (1,)
    with pytest.raises(TypeError):
        type(a)()
    with pytest.raises(TypeError):
        type("Sub", (type(a),), {})
    with pytest.raises(TypeError, match="Cannot create"):
        A.Array()
    with pytest.raises(TypeError, match="unsized"):
        len(A.make_array(np.array(1)))
    with pytest.raises(TypeError, match="0-d"):
        iter(A.make_array(np.array(1)))


def test_array_class() -> None:
    a = A.make_array(np.ones(3))

    class Stand:
        pass

    assert isinstance(a, A.Array) and issubclass(type(a), A.Array)
    assert not isinstance(Stand(), A.Array) and not isinstance(np.ones(2), A.Array)
    A.register_array_class(Stand)
    assert isinstance(Stand(), A.Array)


def test_copies_and_pickles_keep_the_weak_type() -> None:
    a = A.make_array(np.array(3, np.int32), ShapedArray((), np.dtype("int32"), True))
    for b in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), a.copy()):
        assert b is not a and b.weak_type and b.aval is a.aval and int(b) == 3


def test_views_pin() -> None:
    a = A.make_array(np.ones(100, F32), copy=True)
    view = A.np_view(a)
    assert a._pins == 1 and A.steal(a) == 0
    part = view[3:]
    del view
    assert a._pins == 1
    A.delete(a)
    assert a.is_deleted() and part.sum() == 97  # the memory stays while a view needs it
    del part
    assert a._pins == 0
    del a


def test_deleted() -> None:
    a = A.make_array(np.ones(3, F32))
    a.delete()
    a.delete()
    assert a.is_deleted() and a.shape == (3,) and a.nbytes == 12
    for use in (
        repr,
        np.asarray,
        copy.deepcopy,
        pickle.dumps,
        lambda x: x.tolist(),
        lambda x: x.__dlpack__(),
    ):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]"):
            use(a)
    with pytest.raises(errors.JaxRuntimeError):
        a.block_until_ready()
    with pytest.raises(errors.JaxRuntimeError):
        a.unsafe_buffer_pointer()


def test_pending() -> None:
    class Event:
        error: Exception | None = None

        def wait(self) -> None:
            if self.error is not None:
                raise self.error
            address = memory.alloc(64)
            ctypes.memmove(address, np.arange(3, dtype=F32).tobytes(), 12)
            A.fulfil(a, address, 64)

    a = A.pending(ShapedArray((3,), F32), Event())
    assert not a.is_ready() and a.shape == (3,)
    assert a.block_until_ready() is a and a.is_ready() and a.tolist() == [0, 1, 2]
    failed = A.pending(ShapedArray((3,), F32), Event())
    A.fail(failed)
    failed._event.error = errors.JaxRuntimeError("it went wrong")
    with pytest.raises(errors.JaxRuntimeError, match="it went wrong"):
        np.asarray(failed)


def test_dlpack() -> None:
    x = np.arange(6, dtype=F32).reshape(2, 3)
    a = A.make_array(x, copy=True)
    b = np.from_dlpack(a)
    assert np.array_equal(b, x) and a._pins == 1
    del b
    gc.collect()
    assert a._pins == 0 and tuple(map(int, a.__dlpack_device__())) == (1, 0)
    with pytest.raises(BufferError, match="device"):
        a.__dlpack__(dl_device=(2, 0))
    assert A.make_array(np.ones(3, ml_dtypes.bfloat16)).__dlpack__() is not None
    with pytest.raises(BufferError, match="int4"):
        A.make_array(np.ones(3, ml_dtypes.int4)).__dlpack__()
    with pytest.raises(errors.JaxRuntimeError, match="stream"):
        a.__dlpack__(stream=1)


@pytest.mark.skipif(
    not NATIVE and sys.version_info < (3, 12), reason="Python code exports buffers from 3.12 on"
)
def test_buffer_protocol() -> None:
    a = A.make_array(np.arange(6, dtype=F32).reshape(2, 3), copy=True)
    m = memoryview(a)
    assert (
        m.readonly
        and m.shape == (2, 3)
        and m.format == "f"
        and m.tolist() == [[0, 1, 2], [3, 4, 5]]
        and a._pins == 1
    )
    m.release()
    assert a._pins == 0
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(A.make_array(np.ones(2, ml_dtypes.bfloat16)))
    a.delete()
    with pytest.raises(BufferError, match="deleted"):
        memoryview(a)


@pytest.mark.skipif(not NATIVE, reason="the native runtime exports buffers without NumPy's help")
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "complex64"])
def test_buffers_are_the_arrays_own(shape: tuple[int, ...], dtype: str) -> None:
    want = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    a = A.make_array(want, copy=True)
    m, theirs = memoryview(a), memoryview(want)
    assert m.obj is a and a._pins == 1 and m.readonly
    for name in ("nbytes", "itemsize", "format", "ndim", "shape", "strides"):
        assert getattr(m, name) == getattr(theirs, name)
    view = np.asarray(a)
    assert view.base.obj is a and a._pins == 2 and view.dtype == want.dtype
    a.delete()  # what views hold stays
    np.testing.assert_array_equal(view, want)
    m.release()
    del view
    assert a._pins == 0
    references = sys.getrefcount(a.aval.buffer_layout)
    b = A.make_array(want, copy=True)
    for _ in range(10):
        np.asarray(b), bytes(b)
    after = sys.getrefcount(a.aval.buffer_layout)  # outside of the assertion, which holds its parts
    assert b._pins == 0 and after == references


def test_numpy_conversion() -> None:
    a = A.make_array(np.ones(3, F32))
    assert not np.asarray(a).flags.writeable and np.array(a).flags.writeable
    assert np.asarray(a, dtype="float64").dtype == np.float64
    assert a.__array__(copy=True).flags.writeable
    with pytest.raises(ValueError, match="avoid copy"):
        a.__array__(np.float64, copy=False)


def test_attributes_weakrefs_and_cycles() -> None:
    a = A.make_array(np.ones(3, F32), copy=True)
    a.note = [a]
    died: list[int] = []
    watch = weakref.ref(a, lambda _: died.append(1))
    del a
    gc.collect()
    assert watch() is None and died == [1]

    class Owner(np.ndarray):
        pass

    owner = np.ones(1000).view(Owner)
    b = A.make_array(np.asarray(owner))
    owner.array = b
    watch = weakref.ref(b)
    del b, owner
    gc.collect()
    assert watch() is None


def test_object_memory_is_recycled_clean() -> None:
    a = A.make_array(np.ones(3, F32), copy=True)
    a.note = 1
    a._event = object()
    del a
    b = A.make_array(np.ones(3, F32), copy=True)
    assert not hasattr(b, "note") and b._event is None and b._owner is None and b._pins == 0


@native_only
@pytest.mark.usefixtures("at_rest")
def test_blocks() -> None:
    aval = intern(ShapedArray((1,), F32))
    alloc = memory.engine.functions["alloc_array"]
    before = memory.memory_stats()["bytes_in_use"]
    for size in (
        0,
        1,
        63,
        64,
        65,
        512,
        513,
        640,
        641,
        32768,
        32769,
        1 << 20,
        (1 << 20) + 1,
        5 << 20,
    ):
        a = alloc(aval, size)
        address = a._data
        assert address % 64 == 0 and (size < 1 << 20 or address % (2 << 20) == 0)
        ctypes.memset(address, 255, size)
        del a
        a = alloc(aval, size)
        assert a._data == address  # reused
        del a
    assert memory.memory_stats()["bytes_in_use"] == before
    with pytest.raises(MemoryError):
        alloc(aval, 1 << 45)
    with pytest.raises(MemoryError):
        alloc(aval, -1)


@native_only
@pytest.mark.usefixtures("at_rest")
def test_statistics_of_the_device() -> None:
    (device, *_) = pullback.devices()
    before = device.memory_stats()["bytes_in_use"]
    kept = A.empty(ShapedArray((1 << 16,), np.dtype("uint8")))
    stats = device.memory_stats()
    assert stats["bytes_in_use"] >= before + (1 << 16) and stats["num_allocs"] > 0
    assert stats["peak_bytes_in_use"] >= stats["bytes_in_use"]
    del kept
    assert device.memory_stats()["bytes_in_use"] == before


@native_only
@pytest.mark.usefixtures("at_rest")
def test_cache_is_bounded() -> None:
    limit = memory.set_cache_limit(4 << 20)
    try:
        aval = ShapedArray((16 << 20,), np.dtype("uint8"))
        mapped = memory.memory_stats()["bytes_mapped"]
        arrays = [A.empty(aval) for _ in range(3)]
        assert memory.memory_stats()["bytes_mapped"] >= mapped + (48 << 20)
        del arrays
        assert memory.memory_stats()["bytes_cached"] <= 4 << 20
        assert memory.memory_stats()["bytes_mapped"] <= mapped + (4 << 20)
        small = [A.empty(ShapedArray((1 << 20,), np.dtype("uint8"))) for _ in range(3)]
        del small
        assert memory.trim() >= 1 and memory.memory_stats()["bytes_cached"] == 0
    finally:
        memory.set_cache_limit(limit)
    with pytest.raises(ValueError, match="negative"):
        memory.set_cache_limit(-1)


@native_only
@pytest.mark.usefixtures("at_rest")
def test_blocks_do_without_huge_pages_for_a_while_where_those_are_slow() -> None:
    """A pause counts maps down, and what is mapped meanwhile is as good; what the first huge page
    takes after it says whether there is another one."""
    assert isinstance(memory.engine, Native)
    pause = memory.engine.word(L.HUGE_PAUSE)
    before, limit = pause.value, memory.set_cache_limit(0)  # what is freed is mapped anew
    try:
        pause.value = 2
        for left in (1, 0):
            block = A.empty(ShapedArray((64 << 20,), np.dtype("uint8")))
            ctypes.memset(block._data, 7, 64 << 20)
            assert pause.value == left and np.asarray(block).min() == 7
            del block
        A.empty(ShapedArray((64 << 20,), np.dtype("uint8")))
        assert pause.value in (0, L.HUGE_PAUSED_MAPS)
    finally:
        pause.value = before
        memory.set_cache_limit(limit)


@native_only
@pytest.mark.usefixtures("at_rest")
def test_blocks_from_many_threads() -> None:
    """The allocator without the GIL: ctypes releases it around each call."""
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(memory.free_address)
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(memory.alloc_address)
    before = memory.memory_stats()["bytes_in_use"]
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        live: list[tuple[int, int]] = []
        for size in rng.integers(1, 3000, 4000):
            n = int(size) * (40 if size % 50 == 0 else 1)
            address = alloc(n)
            ctypes.memset(address, seed, n)
            live.append((address, n))
            if len(live) > 40:
                p, m = live.pop(int(rng.integers(len(live))))
                if ctypes.string_at(p, m) != bytes([seed]) * m:
                    wrong.append(f"a block of {m} bytes was given twice")
                free(p, m)
        for p, m in live:
            free(p, m)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and memory.memory_stats()["bytes_in_use"] == before


@pytest.mark.usefixtures("at_rest")
def test_nothing_leaks() -> None:
    x = np.ones(8, F32)
    aval = intern(ShapedArray((8,), F32))

    def use(n: int) -> None:
        for _ in range(n):
            a = A.make_array(x, aval)
            A.np_view(a)
            a.shape  # noqa: B018

    use(2000)
    before, counts = resident(), (sys.getrefcount(aval), sys.getrefcount(x))
    use(100_000)
    assert resident() - before < 1 << 20
    assert (sys.getrefcount(aval), sys.getrefcount(x)) == counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_fork_while_another_thread_allocates() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            A.make_array(np.ones(64, F32), copy=True)

    def allocate() -> None:
        a = A.make_array(np.ones(100, F32), copy=True)
        assert float(A.np_view(a).sum()) == 100

    thread = threading.Thread(target=churn)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads change places between any two hooks of a fork
    try:
        for _ in range(20):
            in_child(allocate)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


@pytest.mark.skipif(not NATIVE, reason="runs itself with the fallback")
def test_everything_in_plain_python() -> None:
    """This file and the calls' file again, with PULLBACK_NATIVE=0."""
    here = os.path.dirname(__file__)
    names = [os.path.join(here, n) for n in ("test_runtime_array.py", "test_runtime_calls.py")]
    environment = dict(os.environ, PULLBACK_NATIVE="0")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *names],
        env=environment, capture_output=True, text=True, timeout=380, cwd=os.path.dirname(here),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_import_stays_light() -> None:
    code = (
        "import sys; import pullback.runtime.array_methods;"
        "bad = {'llvmlite', 'scipy', 'jaxlib', 'jax'} & set(sys.modules); assert not bad, bad"
    )
    source = os.path.join(os.path.dirname(os.path.dirname(__file__)), "src")
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env=dict(os.environ, PYTHONPATH=source),
        timeout=240,
    )


def test_methods_are_documented() -> None:
    for function in array_methods._INSTALLED:
        assert function.__name__.startswith("__") or function.__doc__, function


def test_the_abstract_class_has_what_arrays_have() -> None:
    """Libraries that wrap arrays read methods and properties of `Array` itself."""
    x = pullback.numpy.arange(3.0)
    assert pullback.Array.sum.__name__ == "sum" and pullback.Array.sum.__doc__
    assert pullback.Array.reshape is pullback.Array.reshape
    assert pullback.Array.__add__(x, 1).tolist() == [1.0, 2.0, 3.0]
    assert pullback.jit(lambda t: pullback.Array.sum(t))(x) == 3.0  # traced values too
    assert isinstance(pullback.Array.T, property) and pullback.Array.shape.__get__(x) == (3,)
    assert {"sum", "at", "dtype", "__matmul__"} <= set(dir(pullback.Array))
    for name in ("tolist", "weak_type", "__array__", "__len__", "_data", "no_such_name"):
        with pytest.raises(AttributeError, match=f"type object 'Array' has no attribute '{name}'"):
            getattr(pullback.Array, name)
    assert copy.deepcopy(pullback.Array) is pickle.loads(pickle.dumps(pullback.Array))


def test_attributes_are_properties_of_the_class() -> None:
    """Libraries copy an array's properties by asking for `property`, as JAX's are."""
    array = A.make_array(np.zeros((2, 3)))
    kind: Any = type(array)
    for name, want in {"shape": (2, 3), "ndim": 2, "size": 6, "weak_type": False}.items():
        attribute = getattr(kind, name)
        assert isinstance(attribute, property)
        assert attribute.fget(array) == want
        assert attribute.__doc__
    assert isinstance(kind.dtype, property)
    with pytest.raises(AttributeError):
        array.shape = (3, 2)


def test_numpy_takes_arrays_for_sequences() -> None:
    """Of arrays to join, of lengths, of axes: as it takes its own, and as it takes JAX's."""
    x = pullback.numpy.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.concatenate(x), np.arange(6.0))
    assert np.zeros(pullback.numpy.array([2, 3])).shape == (2, 3)
    assert np.ones(6).reshape(pullback.numpy.array([3, 2])).shape == (3, 2)
    assert np.transpose(np.ones((2, 3)), pullback.numpy.array([1, 0])).shape == (3, 2)
    np.testing.assert_array_equal(np.lexsort(x), [0, 1, 2])
    np.testing.assert_array_equal(np.choose(np.array([0, 1, 0]), x), [0.0, 4.0, 2.0])
    assert operator.concat(x, x).tolist() == (x + x).tolist()
    assert x[-1].tolist() == [3.0, 4.0, 5.0] and type(x).__getitem__(x, (0, 1)) == 1
