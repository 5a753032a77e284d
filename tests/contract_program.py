"""One small program through every promise of docs/contract.md; test_contract.py runs it.

`python contract_program.py` prints a line of JSON: what each part saw. Run again with the same
kernel cache, it compiles nothing and never loads llvmlite.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from forked import in_child
from llvm_kernels import i64, loop, var

import pullback
from pullback import jit, lax, numpy as jnp
from pullback.backends import llvm
from pullback.backends.llvm import tier
from pullback.core import trace
from pullback.loops.ir import Buf, Kernel, Let, Load, Store
from pullback.runtime import memory, stub

SCALE = np.float32(1.5)


class Model:
    """What a jitted method belongs to."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @functools.partial(jit, static_argnums=0)
    def apply(self, x: Any) -> Any:
        """sin(weight x) + 1."""
        return jnp.sin(self.weight * x) + 1


def jitted_method() -> None:
    """Two objects, two programs; a second call traces nothing."""
    x = jnp.arange(8, dtype=jnp.float32)
    one, two = Model(1.0), Model(2.0)
    for model in (one, two, one):
        expected = np.sin(np.float32(model.weight) * np.asarray(x)) + 1
        np.testing.assert_allclose(model.apply(x), expected, rtol=1e-6)


# --- a while with a growing result ---
def growth_kernels() -> list[llvm.CompiledKernel]:
    """size < limit; size *= 2; new[i] = 2 old[i / 2] + i % 2."""
    size, limit = Buf("size", "i64", (), "in"), Buf("limit", "i64", (), "in")
    flag, out = Buf("flag", "bool", (), "out"), Buf("out", "i64", (), "out")
    s, m, t, d = var("s"), var("m"), var("t", "bool"), var("d")
    test = Kernel(
        "test", (size, limit, flag), (), (),
        (Load(s, size, ()), Load(m, limit, ()), Let(t, "lt", (s, m)), Store(flag, (), t)),
    )  # fmt: skip
    twice = Kernel(
        "twice", (size, out), (), (),
        (Load(s, size, ()), Let(d, "mul", (s, i64(2))), Store(out, (), d)),
    )  # fmt: skip
    n, i = var("n"), var("i")
    old, new = Buf("old", "i64", (n,), "in"), Buf("new", "i64", (n,), "out")
    half, bit, x, y, z = (var(name) for name in ("half", "bit", "x", "y", "z"))
    grow = Kernel(
        "grow", (old, new), (n,), (),
        (loop(i, n, "seq",
              Let(half, "idiv", (i, i64(2))), Let(bit, "irem", (i, i64(2))), Load(x, old, (half,)),
              Let(y, "mul", (x, i64(2))), Let(z, "add", (y, bit)), Store(new, (i,), z)),),
    )  # fmt: skip
    return [llvm.compile_kernel(k) for k in (test, twice, grow)]


def growing_while() -> None:
    """Each round's buffer is allocated with the size that the round before has computed."""
    test, twice, grow = growth_kernels()
    data, size, new, flag, limit, size2 = range(6)
    plan = llvm.Plan(6)
    plan.alloc(data, 8, size)
    plan.kernel(grow, [data, data], [1])  # one element: 2 * data[0]; the caller zeroes it below
    top = plan.kernel(test, [size, limit, flag])
    leave = plan.jump_if_not(flag, top + 8)
    assert leave == top + 1
    plan.kernel(twice, [size, size2])
    plan.copy(size, size2, 8)
    plan.alloc(new, 8, size)
    plan.kernel(grow, [data, new], [0], dim_slots=[(0, size)])
    plan.swap(data, new)
    plan.free(new)
    plan.steps[leave][2] = plan.jump(top) + 1
    plan.ret()
    plan.finish()
    for wanted in (1, 2, 1000, 100_000):
        cells = [np.array([k], np.int64) for k in (1, wanted, 0)]
        flags = np.zeros(1, bool)
        slots = (ctypes.c_int64 * plan.slot_words)(
            0, cells[0].ctypes.data, 0, flags.ctypes.data, cells[1].ctypes.data,
            cells[2].ctypes.data,
        )  # fmt: skip
        plan.run(slots, llvm.Context(memory.alloc_address, memory.free_address))
        count = int(cells[0][0])
        assert wanted <= count < 2 * wanted or count == wanted == 1, (wanted, count)
        found = np.ctypeslib.as_array(
            ctypes.cast(slots[data], ctypes.POINTER(ctypes.c_int64)), (count,)
        )
        # The first element was uninitialised memory: every element counts from it.
        np.testing.assert_array_equal(found - found[0], np.arange(count))
        memory.free(slots[data], slots[plan.slots + data])


def native_while() -> None:
    """A while whose carry is an array, as one kernel."""
    step = jit(lambda x, n: lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * SCALE, c[1] + 1),
                                           (x, 0)))  # fmt: skip
    x, count = step(jnp.ones(5), 3)
    np.testing.assert_allclose(x, np.full(5, 1.5**3, np.float32))
    assert int(count) == 3


def sort_step() -> None:
    """A sort between kernels, with NaN and signed zeros where JAX puts them."""
    x = np.array([3, np.nan, -1, 0.0, -0.0, np.inf, -np.inf], np.float32)
    got = jit(lambda x: jnp.sort(x * 1) + 1)(x)
    np.testing.assert_array_equal(got, np.sort(x) + 1)
    keys = np.random.default_rng(0).integers(0, 100, 50_000).astype(np.int32)
    got = jit(lambda k: jnp.argsort(k, stable=True))(keys)
    np.testing.assert_array_equal(got, np.argsort(keys, kind="stable"))


def python_callback() -> None:
    """Python in the middle, which calls jitted functions itself; and what it raises."""
    inner = jit(lambda x: x * 2)

    def on_host(x: Any) -> Any:
        return np.asarray(inner(x)) + 1

    def f(x: Any) -> Any:
        shape = pullback.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.sin(pullback.pure_callback(on_host, shape, x + 1)) * 2

    x = np.arange(4, dtype=np.float32)
    expected = np.sin((x + 1) * 2 + 1) * 2
    compiled = jit(f)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-6)

    def broken(x: Any) -> Any:
        raise ValueError("from the callback")

    shape = pullback.ShapeDtypeStruct((4,), np.float32)
    bad = jit(lambda x: pullback.pure_callback(broken, shape, x) + 1)
    for _ in range(3):
        try:
            bad(x).block_until_ready()
        except Exception as error:
            assert "from the callback" in str(error), error
        else:
            raise AssertionError("the callback's error was lost")
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-6)


def bf16_kernel() -> None:
    """Every equation is rounded to bfloat16, as NumPy's extension rounds it."""
    bf16 = jnp.bfloat16
    x = np.random.default_rng(1).normal(size=1000).astype(bf16)
    y = np.random.default_rng(2).normal(size=1000).astype(bf16)
    got = jit(lambda x, y: (x * y + x) / y)(x, y)
    assert got.dtype == bf16
    np.testing.assert_array_equal(np.asarray(got).view(np.uint16),
                                  ((x * y + x) / y).view(np.uint16))  # fmt: skip


def asynchronous_donation() -> None:
    """The argument is gone at once, the result comes later and is right; a pending one, too."""
    n = 8_000_000
    step = jit(lambda x: jnp.sin(x) * 2 + 1, donate_argnums=0)
    start = np.linspace(0, 1, n, dtype=np.float32)
    x = jnp.array(start)
    y = step(x)
    assert x.is_deleted()
    z = step(y)
    assert y.is_deleted() and not z.is_deleted()
    expected = np.sin(np.sin(start) * 2 + 1) * 2 + 1
    np.testing.assert_allclose(z, expected, rtol=2e-5, atol=1e-5)
    for gone in (x, y):
        try:
            np.asarray(gone)
        except RuntimeError as error:
            assert "deleted" in str(error)
        else:
            raise AssertionError("a deleted array was read")
    # Memory that NumPy owns is read, not written.
    kept = start.copy()
    np.testing.assert_allclose(step(kept), np.sin(start) * 2 + 1, rtol=2e-5, atol=1e-5)
    np.testing.assert_array_equal(kept, start)


# --- Ctrl-C ---
@contextmanager
def interrupted_after(seconds: float) -> Iterator[list[float]]:
    """Sends SIGINT to this process; it must raise KeyboardInterrupt in the block, and promptly.

    Python drops what a handler raises inside a finalizer, so a signal is repeated like a user's.
    """
    sent: list[float] = []
    ended = threading.Event()

    def send() -> None:
        wait = seconds
        while not ended.wait(wait):
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
            wait = 0.5

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield sent
        ended.set()
    except KeyboardInterrupt:
        ended.set()
        sent[1:] = [time.perf_counter()]
    sender.join()
    assert len(sent) == 2, "no KeyboardInterrupt"
    sent[:] = [sent[1] - sent[0]]
    assert sent[0] < 1.5, f"the interrupt took {sent[0]:.2f} s"


def usable() -> None:
    """The process computes as before."""
    np.testing.assert_allclose(jit(lambda x: x * 2 + 1)(np.arange(3.0)), [1, 3, 5])
    np.testing.assert_allclose(jnp.ones(3) + 1, [2, 2, 2])
    assert trace.trace_state_clean()
    assert stub.fast_path_open() or os.environ.get("PULLBACK_NATIVE") == "0"


def interrupts() -> dict[str, float]:
    """An endless scalar loop, an endless loop over arrays, a long queued one, a long trace."""
    times: dict[str, float] = {}

    def check(name: str, function: Any, x: Any) -> None:
        if name != "trace":
            function.lower(x).compile()
        with interrupted_after(0.3) as sent:
            np.asarray(function(x))
        times[name] = round(sent[0], 3)
        usable()

    forever = jit(lambda x: lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] * 1, c[1] + 1),
                                           (x, 0))[0])  # fmt: skip
    check("while", forever, np.float32(1))
    check("while, known types", forever, np.float32(1))
    rows = jit(lambda x: lax.while_loop(lambda c: c.sum() >= 0, lambda c: jnp.abs(jnp.sin(c)), x))
    check("while over arrays", rows, jnp.ones(100_000))
    each = jit(pullback.vmap(lambda x: lax.while_loop(lambda c: c >= 0, lambda c: c * 1, x)))
    check("while under vmap", each, jnp.ones(100))
    long = jit(lambda x: lax.fori_loop(0, 1_000_000_000, lambda _, c: jnp.sin(c) + 1, x))
    check("queued loop", long, jnp.ones(8))
    check("queued loop, known types", long, jnp.ones(8))

    def unrolled(x: Any) -> Any:
        for _ in range(100_000):
            x = jnp.sin(x) + 1
        return x

    check("trace", jit(unrolled), np.float32(1))
    return times


def interrupted_compiles(count: int = 40) -> int:
    """Ctrl-C at many moments of tracing and compiling; how many struck."""
    struck = 0
    for k in range(count):

        def f(x: Any, k: int = k) -> Any:
            for j in range(8):
                x = jnp.sin(x * (k + j + 2)).sum() + jnp.sort(x) + jnp.where(x > k, x, 0)
            return lax.fori_loop(0, 3, lambda i, c: c + i, x)

        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.004 * k % 0.11)
        try:
            jit(pullback.grad(lambda x, f=f: f(x).sum()))(np.ones(100, np.float32))
        except KeyboardInterrupt:
            struck += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        usable()
    return struck


def fork() -> None:
    """The pool and the queue are warm; child and parent compute alike."""
    heavy = jit(lambda x: jnp.sin(x).sum() + x.max())
    x = jnp.arange(12_000_000, dtype=jnp.float32) / 12e6
    expected = float(heavy(x))
    later = heavy(x)  # under way while the process forks

    def child() -> None:
        assert float(heavy(x)) == expected
        assert float(later) == expected
        fresh = jit(lambda x: jnp.cos(x).sum() * 2)
        np.testing.assert_allclose(fresh(x), 2 * np.cos(np.asarray(x, np.float64)).sum(),
                                   rtol=1e-5)  # fmt: skip

    in_child(child)
    assert float(heavy(x)) == expected == float(later)


def many_threads() -> None:
    """Python threads that trace, compile, call and donate at once."""
    shared = jit(lambda x, k: jnp.sin(x) * k + x.sum())
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            own = jit(lambda x: x * (number + 2))
            taking = jit(lambda x: x + number, donate_argnums=0)
            for k in range(20):
                size = 5 + (k + number) % 7
                x = np.arange(size, dtype=np.float32)
                expected = np.sin(x) * number + x.sum()
                np.testing.assert_allclose(shared(x, float(number)), expected, rtol=1e-5)
                np.testing.assert_allclose(own(x), x * (number + 2))
                given = jnp.array(x)
                np.testing.assert_allclose(taking(given), x + number)
                big = shared(np.ones(400_000, np.float32), 1.0)
                np.testing.assert_allclose(big[0], np.sin(np.float32(1)) + 400_000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not errors, errors


def llvm_is_loaded() -> bool:
    """Has this process imported llvmlite, or opened its library?"""
    if "llvmlite" in sys.modules or "llvmlite.binding" in sys.modules:
        return True
    try:
        with open("/proc/self/maps") as maps:
            return "libllvmlite" in maps.read()
    except OSError:
        return False


def keep_plans() -> list[Any]:
    """The list of all plans whose code could be better, from now on."""
    kept: list[Any] = []
    watch = tier._watcher.watch
    tier._watcher.watch = lambda plan: (kept.append(plan), watch(plan))  # type: ignore[assignment]
    return kept


def main() -> None:
    """Every part, then what this process compiled. Signals only where they exist."""
    started = time.perf_counter()
    plans = keep_plans()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    parts = [
        jitted_method, growing_while, native_while, sort_step, python_callback, bf16_kernel,
        asynchronous_donation, fork, many_threads,
    ]  # fmt: skip
    for part in parts:
        if part is not fork or hasattr(os, "fork"):
            part()
    report: dict[str, Any] = {"interrupts": interrupts()}
    report |= {
        "kernels": llvm.kernel_compile_count(),
        "llvmlite": llvm_is_loaded(),
        "isa": llvm.host_target().level,
    }
    if "--compiles" in sys.argv:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        report["struck"] = interrupted_compiles()
    # How hot a plan becomes depends on how busy the machine is: a next process finds all good code.
    with tier.paused():
        for plan in plans:
            while plan.improve():
                pass
    report["seconds"] = round(time.perf_counter() - started, 1)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
