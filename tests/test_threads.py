"""How many threads compute a call: of the process, of a block, and that no more do."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from forked import in_child
from llvm_kernels import loop, var

import pullback
import pullback.numpy as jnp
from pullback.backends import llvm
from pullback.backends.llvm import os_shim
from pullback.backends.llvm.table import NUM_THREADS
from pullback.backends.llvm.target import detect_level
from pullback.loops.ir import Buf, Call, Const, Kernel, Load, Store
from pullback.runtime import native_layout as L, stub

pytestmark = pytest.mark.skipif(detect_level() == "none", reason="no native code on this machine")

N = 16


@pytest.fixture
def usual() -> Iterator[int]:
    """The process's number of threads, put back after the test."""
    flag = pullback.config.read("pullback_num_threads")
    yield llvm.num_threads()
    pullback.config.update("pullback_num_threads", flag)


def test_blocks_nest_and_belong_to_their_thread(usual: int) -> None:
    seen: list[int] = []
    with pullback.num_threads(1):
        with pullback.num_threads(5):
            assert llvm.num_threads() == 5
        assert llvm.num_threads() == pullback.num_threads.get() == 1
        other = threading.Thread(target=lambda: seen.append(llvm.num_threads()))
        other.start()
        other.join()
    assert seen == [usual] and llvm.num_threads() == usual
    pullback.config.update("pullback_num_threads", usual + 2)
    assert llvm.num_threads() == usual + 2
    with pullback.num_threads(3):
        assert llvm.num_threads() == 3


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "two"])
def test_bad_numbers(bad: Any) -> None:
    with (
        pytest.raises(ValueError, match=r"PULLBACK_NUM_THREADS.*positive integer"),
        pullback.num_threads(bad),
    ):
        pass
    with pytest.raises(ValueError, match="positive integer"):
        pullback.config.update("pullback_num_threads", bad)


def test_native_calls_have_their_threads_number(usual: int) -> None:
    """A call that no Python sees has the number of the thread that makes it."""
    if stub._native is None:
        pytest.skip("calls are not native here")
    seen: list[int] = []

    def kernel(context: int, _slots: int, _plan: int, _scalars: int) -> int:
        seen.append(ctypes.c_int64.from_address(context + NUM_THREADS).value)
        return 0

    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(kernel)
    f = stub.new_function(lambda *_: None)
    a = jnp.ones(N)
    key = stub.signature(0, (a,), {})
    assert key is not None
    address = ctypes.cast(prototype, ctypes.c_void_p).value or 0
    run = {L.E_MODE: L.MODE_KERNEL, L.E_FN: address}
    outs = [(L.OUT_ALLOCATE, 1, 4 * N, a.aval)]
    entry = stub.make_entry(
        key, [], [(0, 0)], run, [0, 0], outs, (L.RESULT_SINGLE, None), keep=[prototype]
    )
    stub.add_entry(f, entry)

    def call() -> int:
        assert f(a) is not None
        return seen[-1]

    def elsewhere() -> int:
        found: list[int] = []
        other = threading.Thread(target=lambda: found.append(call()))
        other.start()
        other.join()
        return found[0]

    assert call() == usual
    with pullback.num_threads(1):
        assert (call(), elsewhere()) == (1, usual)
        with pullback.num_threads(4):
            assert call() == 4
        assert call() == 1
    assert call() == usual


def _slow_kernel(name: str) -> Kernel:
    """A parallel loop of so much work for each iteration that every thread gets some."""
    i, x, y = var("i"), var("x", "f64"), var("y", "f64")
    a, o = Buf("a", "f64", (24,), "in"), Buf("o", "f64", (24,), "out")
    body = Load(x, a, (i,)), Call((y,), name, (x,)), Store(o, (i,), y)
    rows = loop(i, Const(24, "i64"), "parallel", *body)
    return Kernel("slow", (a, o), (), (), (rows,), {"cost_per_iteration": 1e6})


@pytest.mark.skipif(os_shim.sleep_kind() == "none", reason="no pool")
def test_no_more_threads_help_than_were_asked_for(usual: int) -> None:
    """However many workers there are."""
    helpers: set[int] = set()

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p)
    def probe(_context: int, x: float, result: int) -> int:
        helpers.add(threading.get_ident())
        time.sleep(0.001)
        ctypes.c_double.from_address(result).value = x
        return 0

    llvm.set_function("test_probe", ctypes.cast(probe, ctypes.c_void_p).value)
    kernel = _slow_kernel("test_probe")
    data, out = np.arange(24.0), np.zeros(24)
    for threads in (6, 1, 2, 3, 2):
        helpers.clear()
        with pullback.num_threads(threads):
            llvm.run_kernel(kernel, [data, out], [])
        assert np.array_equal(out, data)
        assert 1 <= len(helpers) <= threads
    assert llvm.runtime().workers >= 5


def test_long_computations_keep_the_number_of_their_caller(usual: int) -> None:
    """They run on a queue's thread, after the caller's block has ended."""
    seen: list[int] = []

    def look(x: Any) -> Any:
        seen.append(llvm.num_threads())
        return x

    @pullback.jit
    def f(x: Any) -> Any:
        y = pullback.pure_callback(look, pullback.ShapeDtypeStruct((), jnp.float32), x[0, 0])
        return x @ x + y

    x = jnp.ones((700, 700))
    f(x).block_until_ready()
    with pullback.num_threads(usual + 1):
        result = f(x)
    result.block_until_ready()
    assert seen == [usual, usual + 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_child_knows_nothing_of_its_parents_other_threads(usual: int) -> None:
    """One of its own may have the identity of one of theirs."""
    inside, over = threading.Event(), threading.Event()

    def hold() -> None:
        with pullback.num_threads(usual + 3):
            inside.set()
            over.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()

    def look() -> None:
        assert not pullback.config.thread_counts
        assert llvm.num_threads() == usual

    try:
        in_child(look)
    finally:
        over.set()
        other.join()
