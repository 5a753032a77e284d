"""The native call path: keys, entries, results, donation, errors, flags, threads, cycles; and the
same types without it."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from forked import in_child

import pullback
from pullback import config
from pullback.api import jit
from pullback.backends import llvm
from pullback.backends.llvm.cache import kernel_key
from pullback.backends.llvm.kept import load_text
from pullback.core import trace
from pullback.core.avals import ShapedArray, intern
from pullback.numpy import operators
from pullback.runtime import (
    array as A,
    array_methods as _methods,
    fallback,
    memory,
    native_layout as L,
    stub,
)
from pullback.runtime.native import Native

NATIVE = isinstance(memory.engine, Native)
native_only = pytest.mark.skipif(not NATIVE, reason="about the native call path")
F32 = np.dtype("float32")
N = 8
AVAL = intern(ShapedArray((N,), F32))
ROW = intern(ShapedArray((), F32))
assert _methods


# out[i] = x[i] + y[i * step] for i < n, then status; step and status are scalars.
KERNEL = """
define i32 @pb_test_add(ptr %c, ptr %b, ptr %d, ptr %s) nounwind {
e:
 %yp = getelementptr i8, ptr %b, i64 8
 %op = getelementptr i8, ptr %b, i64 16
 %sp = getelementptr i8, ptr %s, i64 8
 %x = load ptr, ptr %b
 %y = load ptr, ptr %yp
 %o = load ptr, ptr %op
 %n = load i64, ptr %d
 %step = load i64, ptr %s
 %status = load i64, ptr %sp
 br label %l
l:
 %i = phi i64 [0, %e], [%i1, %l]
 %xq = getelementptr float, ptr %x, i64 %i
 %j = mul i64 %i, %step
 %yq = getelementptr float, ptr %y, i64 %j
 %oq = getelementptr float, ptr %o, i64 %i
 %a = load float, ptr %xq
 %bb = load float, ptr %yq
 %r = fadd float %a, %bb
 store float %r, ptr %oq
 %i1 = add i64 %i, 1
 %m = icmp slt i64 %i1, %n
 br i1 %m, label %l, label %x1
x1:
 %code = trunc i64 %status to i32
 ret i32 %code
}
"""


@functools.cache
def kernel() -> Any:
    target = llvm.host_target()
    return load_text(KERNEL, target, 2, kernel_key(KERNEL, target.key))


def add_plan(step: int = 1, status: int = 0, host: bool = False, in_place: bool = False) -> Any:
    """slot 2 (or 0, in place) = slot 0 + slot 1."""
    plan = llvm.Plan(3)
    plan.keep.append(kernel())
    plan.kernel(kernel().symbols["pb_test_add"], [0, 1, 0 if in_place else 2], [N], [step, status])
    if host:
        plan.host_step(7)
    plan.ret()
    return plan.finish()


def full(v: float) -> Any:
    return A.make_array(np.full(N, v, F32), AVAL)


def slow(*args: Any, **kwargs: Any) -> Any:
    """What no entry does."""
    return "slow", args, kwargs


def is_slow(result: Any) -> bool:
    return type(result) is tuple and result[0] == "slow"


def add(function: Any, *args: Any, outs: Any = ((2, AVAL),), tree: Any = 0, **options: Any) -> Any:
    """Makes this call of `function` native."""
    kwargs = options.pop("kwargs", {})
    plan = options.pop("plan", None) or add_plan()
    statics = options.pop("statics", 0)
    order = options.pop("order", (0, 1))
    unflatten = options.pop("unflatten", None)
    key = stub.signature(statics, args, kwargs)
    assert key is not None
    entry = stub.plan_entry(
        key,
        args,
        kwargs,
        plan,
        [0, 1],
        order,
        [],
        list(outs),
        stub.result_of(tree, unflatten),
        statics=statics,
        **options,
    )
    assert entry is not None and stub.add_entry(function, entry)
    return entry


def values(a: Any) -> list[float]:
    return A.np_view(a).tolist()  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def bare_operators() -> Iterator[None]:
    """Arrays have no operators but those that a test sets; the library's come back after it."""
    _forget_operators()
    yield
    _forget_operators()
    operators.install_native()


def _forget_operators() -> None:
    stub.clear_operator_entries()
    for name in L.OPERATOR_NAMES:
        if NATIVE:
            A.set_operator(name, slow)
            where = L.OPERATORS + L.OPERATOR_BYTES * L.OPERATOR_INDEX[name]
            memory.engine.functions["set_object"](where + L.OPERATOR_SLOW, None)
    if not NATIVE:
        fallback._OPERATORS.clear()


def test_functions_are_functions() -> None:
    f = stub.new_function(slow)
    functools.update_wrapper(f, slow)
    assert f.__name__ == "slow" and f.__wrapped__ is slow and "no entry" in f.__doc__
    assert f(1, 2, k=3) == ("slow", (1, 2), {"k": 3})
    f.extra = 1
    assert f.extra == 1 and weakref.ref(f)() is f and callable(f)

    class C:
        method = f
        held = staticmethod(f)

    c = C()
    assert c.method(1) == ("slow", (c, 1), {}) and C.method is f and c.held(1) == ("slow", (1,), {})
    with pytest.raises(TypeError):
        type(f)()
    with pytest.raises(TypeError, match="callable"):
        stub.new_function(3)  # type: ignore[arg-type]


def test_functions_raise_what_is_raised() -> None:
    def boom(*args: Any) -> Any:
        raise KeyError("boom")

    f = stub.new_function(boom)
    with pytest.raises(KeyError, match="boom"):
        f(1)


def test_functions_are_collected() -> None:
    def outer() -> Any:
        f = stub.new_function(lambda *a: f)
        f.self = f
        return weakref.ref(f)

    watch = outer()
    gc.collect()
    assert watch() is None


def test_operators_without_entries() -> None:
    a = full(1)
    with pytest.raises(TypeError):
        a + 1
    A.set_operator("add", lambda x, y: ("add", x, y))
    A.set_operator("lt", lambda x, y: ("lt", x, y))
    A.set_operator("negative", lambda x: ("neg", x))
    A.set_operator("power", lambda x, y: ("pow", x, y))
    A.set_operator("getitem", lambda x, i: ("get", x, i))
    A.set_operator("matmul", lambda x, y: NotImplemented)
    assert a + 1 == ("add", a, 1)[:0] or (a + 1)[0] == "add"
    assert (a + 1)[2] == 1 and (1 + a)[1] == 1 and (1 + a)[2] is a
    assert (
        (a < 2)[0] == "lt"
        and (-a)[1] is a
        and (a**2)[2] == 2
        and (2**a)[1] == 2
        and a[1:][2] == slice(1, None)
    )
    assert (np.ones(3) + a)[0] == "add"  # NumPy stands back
    with pytest.raises(TypeError):
        a @ a
    with pytest.raises(TypeError, match="modulus"):
        pow(a, 2, 3)
    with pytest.raises(ValueError, match="no operator"):
        A.set_operator("nonsense", slow)


@native_only
def test_hits_and_misses() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    assert is_slow(f(a, b))
    add(f, a, b)
    assert stub.entry_count(f) == 1
    r = f(a, b)
    assert values(r) == [3.0] * N and r.aval is AVAL and r._owner is None
    other = A.make_array(np.ones(N + 1, F32))
    weak = A.make_array(np.ones(N, F32), ShapedArray((N,), F32, True))
    for args in (
        (a,),
        (a, b, b),
        (a, other),
        (a, weak),
        (a, A.np_view(b)),
        (a, "b"),
        (a, None),
        (a, 2.0),
        (),
    ):
        assert is_slow(f(*args)), args
    assert is_slow(f(a, y=b)) and values(f(b, b)) == [4.0] * N
    stub.clear_entries(f)
    assert is_slow(f(a, b))


@native_only
def test_external_pending_committed_and_deleted_operands() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)
    foreign = A.make_array(np.arange(400, dtype=F32)[:N])
    wide = A._from_buffer(AVAL, np.arange(N, dtype=F32), 0)
    assert wide._state == L.EXTERNAL and values(f(a, wide)) == [1.0 + k for k in range(N)]
    assert values(f(a, foreign))[:2] == [1, 2]
    assert is_slow(f(a, A.pending(AVAL, None)))
    gone = full(1)
    gone.delete()
    assert is_slow(f(a, gone))
    placed = full(1)
    placed._lies_on = object()  # where it was put is part of the key: results lie there too
    assert is_slow(f(a, placed))
    add(f, a, placed)
    assert values(f(a, placed)) == [2.0] * N and values(f(a, b)) == [3.0] * N


@native_only
def test_static_keywords_are_native_calls() -> None:
    def scaled(x: Any, *, times: int = 2, more: Any = None) -> Any:
        assert isinstance(times, int)
        return x * times if more is None else x * times + 1

    f = pullback.jit(scaled, static_argnames=("times", "more"))
    x, name = full(1), "".join(["ti", "mes"])  # another string than the name in calls
    calls = [{}, {"times": 3}, {"times": 4}, {"more": "one"}, {"times": 3, "more": "one"}]
    for _ in range(3):
        for k, expected in enumerate((2.0, 3.0, 4.0, 3.0, 4.0)):
            assert values(f(x, **calls[k])) == [expected] * N
    assert stub.entry_count(f) == len(calls)
    assert values(f(x, **{name: 3})) == [3.0] * N and values(f(x, times=True)) == [1.0] * N
    assert values(f(x=x, times=5)) == values(f(times=5, x=x)) == [5.0] * N


@native_only
def test_static_positions_may_be_given_by_name() -> None:
    f = pullback.jit(lambda x, y, n: x * n - y, static_argnums=2)
    x, y = full(1), full(2)
    for _ in range(3):
        assert values(f(x, y, n=4)) == values(f(n=4, y=y, x=x)) == values(f(x, y, 4)) == [2.0] * N
    assert stub.entry_count(f) == 3


@native_only
def test_many_entries_and_eviction() -> None:
    f = stub.new_function(slow)
    arrays = [A.make_array(np.ones((N, k), F32)) for k in range(1, 700)]
    entry = None
    for x in arrays:
        entry = add(f, x, x)
    assert stub.entry_count(f) <= 512 and entry is not None
    assert not is_slow(f(arrays[-1], arrays[-1])) and is_slow(f(arrays[0], arrays[0]))
    hits = sum(not is_slow(f(x, x)) for x in arrays)
    assert hits == stub.entry_count(f)


@native_only
def test_structures() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(
        f,
        [a, {"u": b}],
        tree={"k": 0, "l": [1, None, (2,)]},
        outs=[(2, AVAL), (0, AVAL), (2, AVAL)],
    )
    r = f([a, {"u": b}])
    assert (
        values(r["k"]) == [3.0] * N
        and values(r["l"][0]) == values(a)
        and r["l"][1] is None
        and values(r["l"][2][0]) == values(r["k"])
    )
    assert len({id(x) for x in (a, r["l"][0], r["k"], r["l"][2][0])}) == 4  # each its own array
    for args in (
        ((a, {"u": b}),),
        ([a, {"v": b}],),
        ([a, [b]],),
        ([a, {"u": b}, b],),
        (a, b),
        ([a, {"u": (b,)}],),
    ):
        assert is_slow(f(*args)), args
    add(f, a, kwargs={"y": b})
    assert values(f(a, y=b)) == [3.0] * N and is_slow(f(a, z=b)) and is_slow(f(x=a, y=b))
    add(
        f,
        {"b": b, "a": a},
        order=stub.leaf_order(
            lambda t: [t[0][0][k] for k in sorted(t[0][0])], ({"b": b, "a": a},), {}
        ),
    )
    assert values(f({"b": b, "a": a})) == [3.0] * N and is_slow(f({"a": a, "b": b}))
    add(f, a, (b,), tree=(0, 1), outs=[(2, AVAL), (1, AVAL)])
    r = f(a, (b,))
    assert type(r) is tuple and r[1] is not b and values(r[1]) == values(b)
    add(f, a, [b], tree=[0], outs=[(2, AVAL)])
    assert type(f(a, [b])) is list

    class Box:
        def __init__(self, items: Any) -> None:
            self.items = items

    add(f, [a], b, tree=Box((0,)), unflatten=Box)
    assert type(f([a], b)) is Box and values(f([a], b).items[0]) == [3.0] * N
    deep: Any = a
    for _ in range(40):
        deep = (deep,)
    assert stub.signature(0, (deep,), {}) is None and is_slow(f(deep))
    assert stub.signature(0, ([a] * 2000,), {}) is None
    big = [a, *[b] * 800]
    key = stub.signature(0, (big,), {})
    assert key is not None and len(stub.native_leaves((big,), {})[0]) == 801


@native_only
@pytest.mark.usefixtures("at_rest")
def test_unflatten_that_raises() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)

    class Odd:
        pass

    def bad(leaves: Any) -> Any:
        raise ZeroDivisionError

    add(f, a, b, tree=Odd(), unflatten=bad)
    before = memory.memory_stats()["bytes_in_use"]
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            f(a, b)
    assert memory.memory_stats()["bytes_in_use"] == before


@native_only
def test_python_scalars() -> None:
    f = stub.new_function(slow)
    a = full(1)
    add(f, a, 2.5, plan=add_plan(step=0))
    assert values(f(a, 2.5)) == [3.5] * N and values(f(a, -1.0)) == [0.0] * N
    assert values(f(a, np.inf)) == [np.inf] * N
    assert (
        is_slow(f(a, 1e300))  # no float32: Python takes it as JAX does
        and is_slow(f(a, 2))
        and is_slow(f(a, True))
        and is_slow(f(a, 2j))
        and is_slow(f(a, np.float32(2)))
    )
    assert (
        stub.signature(0, (2**31,), {}) is None and stub.signature(0, (-(2**31),), {}) is not None
    )
    assert stub.signature(0, (1 << 80,), {}) is None


@native_only
def test_static_arguments_are_compared_by_identity() -> None:
    f = stub.new_function(slow, 0b010)
    a, b = full(1), full(2)
    mode = object()
    add(f, a, mode, b, statics=0b010)
    assert values(f(a, mode, b)) == [3.0] * N and is_slow(f(a, object(), b)) and is_slow(f(a, b, b))


@native_only
def test_operators_with_entries() -> None:
    a, b = full(1), full(2)
    A.set_operator("add", lambda x, y: ("slow", (x, y), {}))
    A.set_operator("negative", lambda x: ("slow", (x,), {}))
    for args, plan in (((a, b), add_plan()), ((a, 2.5), add_plan(step=0))):
        key = stub.signature(0, args, {})
        entry = stub.plan_entry(
            key, args, {}, plan, [0, 1], [0, 1], [], [(2, AVAL)], stub.result_of(0)
        )
        assert stub.add_operator_entry("add", entry)
    assert values(a + b) == [3.0] * N and values(a + 2.5) == [3.5] * N
    assert is_slow(2.5 + a) and is_slow(a + 2) and is_slow(-a)
    a += b
    assert values(a) == [3.0] * N
    stub.clear_operator_entries()
    assert is_slow(a + b)


@native_only
def test_operators_through_a_jitted_function() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    calls: list[int] = []

    def operator(x: Any, y: Any) -> Any:
        calls.append(1)
        return f(x, y)

    A.set_operator("add", operator, fast=f)
    assert is_slow(a + b) and len(calls) == 1
    add(f, a, b)
    assert values(a + b) == [3.0] * N and len(calls) == 1
    assert is_slow(a + 1) and is_slow(1 + a) and len(calls) == 3
    stub.clear_entries(f)
    assert is_slow(a + b) and len(calls) == 4
    with pytest.raises(TypeError, match="jitted"):
        A.set_operator("add", operator, fast=slow)


@native_only
def test_rows() -> None:
    A.set_operator("getitem", lambda x, i: ("slow", (x, i), {}))
    a = A.make_array(np.arange(12, dtype=F32).reshape(4, 3))
    row = intern(ShapedArray((3,), F32))
    assert is_slow(a[0]) and stub.add_row_entry(a.aval, row)
    assert values(a[0]) == [0, 1, 2] and values(a[-1]) == [9, 10, 11] and a[2].aval is row
    for i in (4, -5, True, None, 1.0, slice(1), (0,), 1 << 70):
        assert is_slow(a[i]), i
    assert [values(r) for r in a][3] == [9, 10, 11]


@native_only
@pytest.mark.usefixtures("at_rest")
def test_donation() -> None:
    f = stub.new_function(slow)
    b = full(2)
    before = memory.memory_stats()["bytes_in_use"]
    x = full(5)
    add(f, x, b, donated=(True, False))
    assert values(f(x, b)) == [7.0] * N and x.is_deleted()
    assert is_slow(f(x, b))
    x = full(5)
    assert is_slow(f(x, x)) and not x.is_deleted()  # still needed as the other operand
    view = A.np_view(x)
    assert is_slow(f(x, b)) and view[0] == 5
    del view
    shared = A._from_buffer(AVAL, np.ones(N, F32), 0)
    assert is_slow(f(shared, b))
    assert values(f(x, b)) == [7.0] * N
    del x, shared
    assert memory.memory_stats()["bytes_in_use"] == before


@native_only
@pytest.mark.usefixtures("at_rest")
def test_failing_kernels_leave_nothing_behind() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b, plan=add_plan(status=3))
    before = memory.memory_stats()["bytes_in_use"]
    for _ in range(5):
        with pytest.raises(llvm.PlanError, match="out of bounds"):
            f(a, b)
    assert memory.memory_stats()["bytes_in_use"] == before

    def explain(pc: int, code: int, equation: int) -> None:
        raise FloatingPointError(f"{pc} {code}")

    add(f, a, b, plan=add_plan(status=5), on_error=explain, release_gil=True, donated=(False, True))
    with pytest.raises(FloatingPointError, match="0 5"):
        f(a, b)
    assert b.is_deleted() and a._pins == 0
    del b
    assert memory.memory_stats()["bytes_in_use"] == before - 64


@native_only
@pytest.mark.usefixtures("at_rest")
def test_host_steps() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    seen: list[int] = []

    def host(number: int, slots: Any) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise LookupError("host")
        out = (np.ctypeslib.ctypes.c_float * N).from_address(slots[2])
        out[0] = 99.0
        assert a._pins == 1

    add(f, a, b, plan=add_plan(host=True), on_host=host)
    assert values(f(a, b)) == [99.0, *[3.0] * (N - 1)] and seen == [7] and a._pins == 0
    before = memory.memory_stats()["bytes_in_use"]
    with pytest.raises(LookupError):
        f(a, b)
    assert memory.memory_stats()["bytes_in_use"] == before and a._pins == 0


@native_only
def test_the_fast_path_stands_back() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)

    class Any_(trace.Trace):
        pass

    with trace.use_trace(Any_()):
        assert is_slow(f(a, b)) and not stub.fast_path_open()
        with trace.eval_context():
            assert not is_slow(f(a, b))
    assert not is_slow(f(a, b))
    with config.enable_x64(True):
        assert is_slow(f(a, b)) and stub.fast_path_open()
    assert not is_slow(f(a, b))
    for stands_back in (config.debug_nans(True), config.transfer_guard("log")):
        with stands_back:
            assert is_slow(f(a, b)) and stub.config_key() < 0
        assert not is_slow(f(a, b))
    config.update("jax_enable_x64", True)
    try:
        assert is_slow(f(a, b)) and stub.fast_path_open()
        assert stub.signature(0, (2**40,), {}) is not None
        add(f, a, b)
        assert not is_slow(f(a, b))
    finally:
        config.update("jax_enable_x64", False)
    assert not is_slow(f(a, b)) and stub.entry_count(f) == 2
    config.update("jax_debug_nans", True)
    try:
        assert is_slow(f(a, b))
    finally:
        config.update("jax_debug_nans", False)
    assert not is_slow(f(a, b))


@native_only
def test_a_block_with_flags_of_its_own_has_native_calls_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, call = [], jit.JitWrapped.__call__

    @pullback.jit
    def f(x: Any) -> Any:
        return x * 1.5 + 1

    def python(*args: Any) -> Any:
        calls.append(args)
        return call(*args)

    a = full(1)
    monkeypatch.setattr(jit.JitWrapped, "__call__", python)
    for name, value in (
        ("enable_x64", True), ("default_matmul_precision", "highest"),
        ("numpy_dtype_promotion", "strict"), ("enable_x64", True),
    ):  # fmt: skip
        calls.clear()
        with getattr(config, name)(value):
            for x, k in ((a, 3), (2.0, 3), (2**20, 3)):
                for _ in range(k):
                    out = f(x)
            wide = value is True
            assert len(calls) <= 3 and out.dtype == ("float64" if wide else "float32")
            np.testing.assert_allclose(f(0.1), 1.15, rtol=1e-15 if wide else 1e-6)
        assert f(2.0).dtype == np.float32
    assert not calls  # the last block is the first one again


@native_only
def test_flags_of_one_thread_are_not_those_of_another() -> None:
    f = pullback.jit(lambda x: x + 1.5)
    inside, leave, seen = threading.Event(), threading.Event(), []

    def work(flag: Any, value: Any) -> None:
        with flag(value):
            for _ in range(3):
                seen.append(f(1).dtype)
            inside.set()
            leave.wait(10)
            seen.append(f(1).dtype)

    def beside(flag: Any, value: Any) -> list[bool]:
        """Is the fast path open in this thread, while another has a flag, and has it no more?"""
        thread = threading.Thread(target=work, args=(flag, value))
        thread.start()
        assert inside.wait(10)
        found = [stub.fast_path_open()]
        assert all(f(1).dtype == np.float32 for _ in range(3))
        with config.default_matmul_precision("highest"):  # two threads with flags of their own
            found.append(stub.fast_path_open())
            assert f(1).dtype == np.float32
        leave.set()
        thread.join()
        inside.clear()
        leave.clear()
        return [*found, stub.fast_path_open()]

    assert beside(config.enable_x64, True) == [False, False, True]
    assert seen == [np.dtype("float64")] * 4
    assert beside(config.numpy_rank_promotion, "raise") == [True, False, True]
    assert f(1).dtype == np.float32


@native_only
def test_a_trace_in_another_thread_closes_the_fast_path() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with trace.use_trace(trace.Trace()):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10) and is_slow(f(a, b))
    leave.set()
    thread.join()
    assert not is_slow(f(a, b))


@native_only
def test_threads_while_entries_come_and_go() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    stop = threading.Event()
    wrong: list[Any] = []

    def call() -> None:
        while not stop.is_set():
            r = f(a, b)
            if not is_slow(r) and values(r) != [3.0] * N:
                wrong.append(r)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for k in range(200):
        add(f, a, b, release_gil=bool(k & 1))
        if k % 3 == 0:
            stub.clear_entries(f)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong and a._pins == 0 and b._pins == 0


@native_only
@pytest.mark.usefixtures("at_rest")
def test_calls_do_not_leak() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)
    add(f, [a, {"u": b}], tree={"k": 0, "l": [1, (2,)]}, outs=[(2, AVAL), (0, AVAL), (2, AVAL)])
    add(f, a, 2.5, plan=add_plan(step=0))
    add(f, b, kwargs={"y": a}, release_gil=True)

    def use(n: int) -> None:
        for _ in range(n):
            f(a, b)
            f([a, {"u": b}])
            f(a, 2.5)
            f(b, y=a)
            f(a, "slow")

    use(1000)
    with open("/proc/self/statm") as s:
        before = int(s.read().split()[1])
    counts = [sys.getrefcount(x) for x in (a, b, AVAL, f, None)][:4]
    use(200_000)
    with open("/proc/self/statm") as s:
        assert int(s.read().split()[1]) - before < 300
    assert [sys.getrefcount(x) for x in (a, b, AVAL, f, None)][:4] == counts


@native_only
def test_entries_and_functions_are_collected() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    entry = weakref.ref(add(f, a, b, on_error=functools.partial(slow, f)))
    assert not is_slow(f(a, b))
    watch = weakref.ref(f)
    del f
    gc.collect()
    assert watch() is None and entry() is None


@native_only
def test_recursion_through_the_slow_path() -> None:
    def down(n: int) -> int:
        return n if n == 0 else f(n - 1)  # type: ignore[no-any-return]

    f = stub.new_function(down)
    assert f(200) == 0

    def forever(*args: Any) -> Any:
        return g(*args)

    g = stub.new_function(forever)
    with pytest.raises(RecursionError):
        g(1)


@native_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_after_a_fork() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)

    def call() -> None:
        assert values(f(a, b)) == [3.0] * N

    in_child(call)


@native_only
def test_blocks_that_set_a_flag_to_what_it_is_leave_the_native_path_open() -> None:
    with config.enable_x64(config.enable_x64.value), config.debug_nans(False):
        assert stub.fast_path_open()
        with config.debug_infs(True):
            assert not stub.fast_path_open()
        assert stub.fast_path_open()
        try:
            config.update("jax_debug_nans", True)  # for others: this thread has its own value
            assert stub.fast_path_open() and not config.debug_nans.get()
        finally:
            config.update("jax_debug_nans", False)
        assert stub.fast_path_open()


@native_only
def test_what_make_entry_refuses() -> None:
    a, b = full(1), full(2)
    key = stub.signature(0, (a, b), {})
    assert key is not None
    with pytest.raises(ValueError, match="leaves"):
        stub.make_entry(key, [], [(0, 0)], {}, [0], [], (L.RESULT_TUPLE, None))
    with pytest.raises(ValueError, match="single"):
        stub.make_entry(key, [], [(0, 0), (1, 0)], {}, [0, 0], [], (L.RESULT_SINGLE, None))
    with pytest.raises(TypeError, match="unflatten"):
        stub.result_of(object())


@native_only
def test_threads_reach_the_shared_context() -> None:
    f = stub.new_function(slow)
    a, b = full(1), full(2)
    add(f, a, b)
    before = llvm.num_threads()
    try:
        llvm.set_num_threads(1)
        word = stub._contexts[None].address + 56
        assert ctypes.c_int64.from_address(word).value == 1 and values(f(a, b)) == [3.0] * N
    finally:
        llvm.set_num_threads(before)
    assert ctypes.c_int64.from_address(word).value == before


@pytest.mark.parametrize("order", ["nw", "wn", "nsw", "snw", "wsn"])
@pytest.mark.parametrize("jitted", [True, False])
def test_a_result_with_its_arguments_values_has_its_own_type(order: str, jitted: bool) -> None:
    """Python's number and an array of its weak type are one key: what the program of the one
    passes on is not of the other's type."""
    weak = pullback.numpy.asarray(0.5)
    strong = pullback.numpy.float32(0.5)

    def f(x: Any) -> Any:
        return pullback.numpy.array(x, dtype=F32)

    calls = pullback.jit(f) if jitted else f
    for which in order:
        x = {"n": 0.5, "w": weak, "s": strong}[which]
        for _ in range(30):
            out = calls(x)
            assert out.aval == ShapedArray((), F32), which
            assert float(out) == 0.5
    assert weak.weak_type


def test_the_native_runtime_is_there() -> None:
    """Code of it that does not compile would leave every call to Python, with equal results."""
    assert memory.native_reason in (None, "", "PULLBACK_NATIVE=0"), memory.native_reason


def test_a_result_and_the_same_value_of_another_type() -> None:
    """Two results of one value share memory, whose values are still to come when they are made: a
    copy would be of what stood there before."""

    def f(x: Any) -> Any:
        y = pullback.numpy.cos(x)
        return y, pullback.lax.convert_element_type(y, "float32"), y

    def written(ref: Any, x: Any) -> Any:
        y = pullback.numpy.cos(x)
        ref[...] = y
        return y

    for x in (1.0, pullback.numpy.broadcast_to(1.0, (5,))):
        for _ in range(3):
            outs = pullback.jit(f)(x)
            assert [out.weak_type for out in outs] == [True, False, True]
            for out in outs:
                np.testing.assert_allclose(out, np.cos(np.asarray(x, "f")), rtol=1e-6)
        ref = pullback.new_ref(pullback.numpy.zeros_like(x))
        pullback.jit(written)(ref, x)
        np.testing.assert_allclose(ref[...], np.cos(np.asarray(x, "f")), rtol=1e-6)
