"""What native calls take: NumPy's arrays and numbers, named tuples, dataclasses; as values, types
and objects, and without leaks."""

from __future__ import annotations

import collections
import dataclasses
import gc
import sys
import threading
import time
import typing
from typing import Any

import numpy as np
import pytest

from pullback import (
    device_put,
    disable_jit,
    enable_x64,
    grad,
    jit,
    lax,
    numpy as jnp,
    tree_util,
    vmap,
)
from pullback.backends.llvm import aside
from pullback.runtime import memory, stub
from pullback.runtime.native import Native
from pullback.tree_util import tree_map

native_only = pytest.mark.skipif(
    not isinstance(memory.engine, Native), reason="about the native path"
)
Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: Any
    b: Any = 3


class Counted(Pair):
    """A named tuple that makes its objects itself."""

    made = 0

    def __new__(cls, a: Any, b: Any) -> Counted:
        cls.made += 1
        return super().__new__(cls, a, b)


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    name: str = "layer"


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    k: int = 3


@dataclasses.dataclass(slots=True)
class Slotted:
    w: Any


@dataclasses.dataclass
class Checked:
    w: Any
    seen: int = 0

    def __post_init__(self) -> None:
        self.twice = 2 * self.seen


class Shy:
    """Its child is made anew whenever it is asked for."""

    def __init__(self, w: Any) -> None:
        self.held = w

    @property
    def w(self) -> Any:
        return self.held + 0


tree_util.register_dataclass(Layer, ["w", "b"], ["name"])
tree_util.register_dataclass(Frozen, ["w"], ["k"])
tree_util.register_dataclass(Slotted, ["w"], [])
tree_util.register_dataclass(Checked, ["w"], ["seen"])
tree_util.register_dataclass(Shy, ["w"], [])

ONE = np.ones(3, np.float32)


def containers() -> dict[str, Any]:
    x = jnp.asarray(ONE)
    return {
        "tuple": Pair(x, (x, [x, None])),
        "typed": Typed(x),
        "counted": Counted(x, x),
        "layer": [Layer(x, {"z": x, "a": 2.5}, "first"), Layer(x, x)],
        "frozen": Frozen(x, 7),
        "slotted": Slotted(x),
        "checked": Checked(x, 4),
    }


def same_tree(a: Any, b: Any) -> None:
    assert tree_util.tree_structure(a) == tree_util.tree_structure(b)
    for x, y in zip(tree_util.tree_leaves(a), tree_util.tree_leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.aval == y.aval


def test_containers_in_and_out() -> None:
    """Every kind of container goes through a jitted call, native or not, and comes out as it is
    made by Python."""
    f = jit(lambda t: tree_map(lambda x: x + 1, t))
    first = f(containers())
    for _ in range(3):
        out = f(containers())
        same_tree(first, out)
        for name, value in containers().items():
            assert type(out[name]) is type(value)
        assert vars(out["layer"][0]).keys() == vars(containers()["layer"][0]).keys()
        assert out["layer"][0].name == "first" and out["checked"].twice == 8
        assert out["frozen"].k == 7


@native_only
def test_containers_are_native() -> None:
    """A second call with any of them does not reach Python."""
    f = jit(lambda t: tree_map(lambda x: x * 2, t))
    for value in containers().values():
        f(value)
        slow = stub.signature(0, (value,), {})
        assert slow is not None
        entries = stub.entry_count(f)
        f(value)
        assert stub.entry_count(f) == entries


def test_static_fields_make_programs() -> None:
    traces = []

    @jit
    def f(layer: Any) -> Any:
        traces.append(layer.name)
        return layer.w * len(layer.name)

    for name, n in (("ab", 2), ("abc", 3), ("".join(["a", "b"]), 2)):
        for _ in range(2):
            np.testing.assert_array_equal(f(Layer(ONE, ONE, name)), n * ONE)
    assert traces == ["ab", "abc"]


def test_attributes_that_are_computed() -> None:
    """A property's value is nobody's but the reader's: such objects do not go the native way."""
    f = jit(lambda s: s.w * 2)
    shy = Shy(jnp.asarray(ONE))
    for _ in range(3):
        np.testing.assert_array_equal(f(shy), 2 * ONE)
    assert stub.signature(0, (shy,), {}) is None


NUMPY = [
    np.arange(3), np.arange(3.0), ONE, np.arange(3) > 1, np.arange(3) + 1j, np.zeros((0, 3)),
    np.arange(6.0)[::2], np.arange(3, dtype="u8"), np.float64(2.5),
    np.float32(1), np.int64(3), np.uint8(3), np.bool_(True), np.complex128(1 + 2j), 2, 2.5, True,
    np.arange(3, dtype=np.float16), np.array(4.0),
]  # fmt: skip


def test_numpy_operands() -> None:
    """NumPy's arrays and numbers, in any mixture: the same values and types at every call."""
    f = jit(lambda x, y: x * y)
    for a in NUMPY:
        for b in NUMPY:
            if np.zeros((0, 3)) is a or np.shape(a) == (0, 3) or np.shape(b) == (0, 3):
                continue
            want = np.asarray(a) * np.asarray(b)
            outs = [f(a, b) for _ in range(3)]
            for out in outs:
                np.testing.assert_allclose(np.asarray(out), want, rtol=1e-6)
                assert out.aval == outs[0].aval
            for _ in range(2):
                np.testing.assert_allclose(jnp.asarray(a) * b, want, rtol=1e-6)


@pytest.mark.parametrize("x", [np.array(1e300), np.array([1.0, -1e300]), np.array([1e300j])])
def test_numbers_that_become_infinite_are_told_of_at_every_call(x: Any) -> None:
    """NumPy warns where its arrays are narrowed by the function; native code leaves it to it."""
    f = jit(lambda x: x + 1)
    for call in (lambda y: jnp.add(y, 1.0), f, lambda y: jnp.ones(1) + y):
        for _ in range(14):
            with pytest.warns(RuntimeWarning, match="overflow encountered in cast"):
                assert np.isinf(np.asarray(call(x))).any()
    infinite = np.array([np.inf, -np.inf, np.nan])
    for _ in range(4):
        np.testing.assert_array_equal(f(infinite), infinite)


def test_numpy_arrays_are_read_at_the_call() -> None:
    """An array changed between two calls gives other results; results never share its memory."""
    f, same = jit(lambda x: x + 1), jit(lambda x: x)
    for n in (4, 4096):
        for x in (np.zeros(n, np.float32), np.zeros(n)):
            for k in range(4):
                x[:] = k
                np.testing.assert_array_equal(f(x), np.full(n, k + 1))
                y = same(x)
                x[:] = 99
                np.testing.assert_array_equal(y, np.full(n, k))


@pytest.mark.parametrize("n", (4, 4096))
def test_constants_keep_the_values_of_the_trace(n: int) -> None:
    """A function that closes over an array of NumPy does not follow what is written to it later."""
    b = np.zeros(n, np.float32)
    held = jnp.asarray(b)
    functions = (
        jit(lambda x: x + b),
        jit(lambda x: x + held),
        jit(lambda x: (b, x)[0]),
        jit(grad(lambda x: (x * b).sum())),
        jit(lambda x: lax.fori_loop(0, 2, lambda _, c: c + b, x)),
    )
    x = np.zeros(n, np.float32)
    compiled = jit(lambda x: x + b).lower(x).compile()
    for f in functions:
        f(x)
    b[:] = 5
    for f in (*functions, compiled):
        for _ in range(3):
            np.testing.assert_array_equal(f(x), np.zeros(n))


def test_donated_numpy_arrays() -> None:
    f = jit(lambda x: x + 1, donate_argnums=0)
    x = np.zeros(1000, np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(f(x), np.ones(1000))
    assert not x.any()


@native_only
@pytest.mark.usefixtures("at_rest")
def test_numpy_arguments_do_not_leak() -> None:
    f = jit(lambda t: t[0] + t[1])
    for kind in (np.float32, np.float64):
        x = np.ones(100, kind)
        for _ in range(3):
            f([x, x])
        gc.collect()
        counts, used = sys.getrefcount(x), memory.memory_stats()["bytes_in_use"]
        for _ in range(5000):
            f([x, x])
        assert sys.getrefcount(x) == counts
        assert abs(memory.memory_stats()["bytes_in_use"] - used) < 4096


@native_only
@pytest.mark.usefixtures("at_rest")
def test_containers_do_not_leak() -> None:
    f = jit(lambda t: tree_map(lambda x: x + 1, t))
    value = containers()
    for _ in range(3):
        f(value)
    gc.collect()
    watched = [value["layer"][0].w, value["layer"][0], "first", Layer, Pair, Frozen]
    counts = [sys.getrefcount(x) for x in watched]
    for _ in range(2000):
        f(value)
    gc.collect()
    for x, count in zip(watched, counts, strict=True):
        assert abs(sys.getrefcount(x) - count) < 10


@native_only
@pytest.mark.usefixtures("at_rest")
@pytest.mark.usefixtures("few_objects")
def test_calls_leave_no_garbage() -> None:
    """No call of a wrapper leaves cycles for the collector."""
    mapped = vmap(lambda x: x * 2.0 + 1)
    x = jnp.arange(8.0)
    for f in (mapped, jit(mapped), grad(lambda x: (x * x).sum()), lambda x: jnp.exp(x)[2:].sum()):
        for _ in range(12):
            f(x)
        assert aside.settle(60.0)
        gc.collect()
        gc.disable()
        try:
            for _ in range(1000):
                f(x)
            assert gc.collect() < 100
        finally:
            gc.enable()


def test_operands_that_threads_change() -> None:
    """A list that another thread empties while a computation reads it."""
    f = jit(lambda t: jnp.sin(t[0]).sum())
    box = [np.ones(400_000, np.float32)]
    expected = float(f(box))
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            box[:] = []
            box[:] = [np.ones(400_000, np.float32)]
            time.sleep(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            got = list(box)
            if got:
                assert float(f(got)) == expected
            try:
                assert float(f(box)) == expected
            except IndexError:
                pass
    finally:
        stop.set()
        thread.join()


def test_other_byte_orders() -> None:
    """Arrays in the other order of bytes become arrays in the machine's."""
    big = np.arange(3, dtype=">f4")
    for x in (device_put(big), jit(lambda x: x * 1)(big), jnp.ones(3) * big, jnp.asarray(big)):
        assert x.dtype == np.float32
        np.testing.assert_array_equal(x, [0, 1, 2])
    for dtype in (">f4", ">f8"):
        big = np.arange(3, dtype=dtype)
        assert jnp.result_type(big) == jnp.array(big).dtype == jnp.dot(big, big).dtype == np.float32
        for _ in range(3):
            np.testing.assert_array_equal(jnp.multiply(jnp.ones(3), big), [0, 1, 2])
            assert jnp.dot(big, big) == 5 and jnp.array(big).tolist() == [0, 1, 2]


def test_many_arrays_are_put() -> None:
    """Trees of NumPy's arrays, numbers and arrays of ours; types follow the flags."""
    x = jnp.ones(3)
    for _ in range(2):
        out = device_put([np.arange(2.0), {"a": x, "b": 2}, np.float64(1)])
        assert out[1]["a"] is x and out[0].dtype == np.float32 and out[1]["b"].weak_type
        with enable_x64(True):
            assert device_put([np.arange(2.0)])[0].dtype == np.float64
    with pytest.raises(TypeError, match="not a valid JAX"):
        device_put([np.array(["a"])])


class Opened:
    """A container that only its own functions open and make."""

    def __init__(self, a: Any, b: Any, note: str = "") -> None:
        self.a, self.b, self.note = a, b, note


tree_util.register_pytree_node(
    Opened, lambda o: ((o.a, o.b), o.note), lambda note, parts: Opened(*parts, note)
)


def test_containers_of_users_are_opened() -> None:
    """Calls with a class that has a flatten function become calls of its leaves."""
    f = jit(lambda o, y=1.0: Opened(o.a + y, o.b, o.note + "!"))
    gone = jit(lambda o: o.a * 2, donate_argnums=0)
    for _ in range(4):
        out = f(Opened(jnp.ones(3), 2.0))
        assert (out.a.tolist(), float(out.b), out.note) == ([2.0] * 3, 2.0, "!")
        assert f(Opened(jnp.ones(3), 2.0), y=3).a.tolist() == [4.0] * 3
        assert f(Opened(1, np.ones(2), "x")).note == "x!"
        assert f(Opened(np.ones(2), [jnp.zeros(1)])).b[0].tolist() == [0.0]
        assert jit(lambda o: None)(Opened(1, 2)) is None
        donated = Opened(jnp.ones(3), jnp.ones(3))
        assert gone(donated).tolist() == [2.0] * 3 and donated.a.is_deleted()
    assert vmap(f)(Opened(jnp.ones((2, 3)), jnp.zeros(2))).a.shape == (2, 3)
    with pytest.raises(TypeError):
        f(Opened("text", 1))
    with disable_jit():
        assert f(Opened(1.0, 2)).a == 2.0


@pytest.mark.parametrize("function", [lambda x: x, lambda x: (x, x + 1, {"a": x})])
def test_bools_that_are_returned(function: Any) -> None:
    """A Python bool after an array of its type, which is not weak: it is returned as an array."""
    f, x = jit(function), jnp.array(True)
    for value in (x, x, x, False, True, x, False, np.bool_(True), np.array(False), True):
        for _ in range(3):
            for out in (f(value), jnp.squeeze(value), jnp.conj(value)):
                first = out[0] if isinstance(out, tuple) else out
                assert type(first) is type(x) and bool(first) == bool(value)
                assert first.aval is x.aval
    held = jnp.arange(3.0)
    for value in (held, held, held, np.ones(3, "float32"), held):
        np.testing.assert_array_equal(jnp.squeeze(value), value)


def test_numbers_that_are_returned() -> None:
    """A Python number after an array of its type, returned as it came."""
    f = jit(lambda x, y: (x, y + 1))
    x = jnp.asarray(1.0)
    assert x.weak_type
    for value in (x, x, x, 1.0, 2.5, 3, True, x, 4.5):
        for _ in range(3):
            out, _ = f(value, jnp.ones(2))
            assert float(out) == float(value) and (out.aval is x.aval) == (
                type(value) is not int and type(value) is not bool
            )


@native_only
def test_arguments_that_are_no_arrays_are_returned_natively() -> None:
    """Numbers and arrays of NumPy in a structure that comes back: as arrays of their own."""
    f = jit(lambda d, k: ({"sum": d["a"] + k, "a": d["a"], "k": k}, d["b"]))
    own = np.ones(3, np.float32)
    calls = [
        ({"a": np.float32(1.5), "b": 2.5}, 3),
        ({"a": own, "b": np.bool_(True)}, np.int32(7)),
        ({"a": jnp.ones(3), "b": 1}, 2.5),
    ]
    for count, (d, k) in enumerate(calls, 1):
        for _ in range(3):
            out, b = f(d, k)
            assert stub.entry_count(f) == count
            for given, x in ((d["a"], out["a"]), (d["b"], b), (k, out["k"])):
                assert np.array_equal(x, given) and x.aval == jnp.asarray(given).aval
                assert x is not given
    out, _ = f(calls[1][0], np.int32(7))
    own[:] = 5.0
    assert out["a"].tolist() == [1.0] * 3


@native_only
def test_arrays_that_lie_otherwise_are_copied_and_read_natively() -> None:
    """Transposed, in steps, not aligned: an entry is made for them as for others."""
    f = jit(lambda d: d["x"] * 2)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    odd = np.frombuffer(bytes(1) + a.tobytes(), np.float32, 12, 1)
    for count, x in enumerate((a.T, a[:, ::2], odd), 1):
        assert not (x.flags.c_contiguous and x.flags.aligned)
        for _ in range(2):
            np.testing.assert_array_equal(f({"x": x}), x * 2)
            assert stub.entry_count(f) == count


@tree_util.register_dataclass
@dataclasses.dataclass
class Fixed:
    y: Any
    x: Any = dataclasses.field(metadata={"static": True})


@pytest.mark.parametrize(
    "values",
    [
        (np.float32(2), np.float32(3), np.float32(2)),
        ((2, np.float64(1)), (2, np.float64(5)), (2, np.float64(1))),
        ([1, 2], [1, 3], [1, 2]),
    ],
    ids=["a number of NumPy's", "in a tuple", "numbers"],
)
def test_static_fields_are_told_apart_by_value(values: Any) -> None:
    f = jit(lambda t: t.y + float(np.sum(t.x)))
    assert [float(f(Fixed(1.0, x))) for x in values] == [1 + float(np.sum(x)) for x in values]


@pytest.mark.parametrize("make", [np.arange, jnp.arange], ids=["NumPy's", "ours"])
def test_static_fields_that_cannot_be_compared_are_refused(make: Any) -> None:
    """The array was taken for an operand that the program does not read: calls with other arrays
    got what the first had computed."""
    f = jit(lambda t: t.y + t.x.sum())
    assert float(f(Fixed(1.0, make(4)))) == 7
    for _ in range(2):
        with pytest.raises(ValueError, match="while checking equality of metadata fields"):
            f(Fixed(1.0, make(4) + 1))
