"""Public functions called outside of transformations: native after a few calls, and in nothing else
different from the functions as they are written."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import errors, grad, jit, lax, make_jaxpr, nn, numpy as jnp, random, vmap
from pullback.api.eager import TENTH
from pullback.runtime import memory, stub
from pullback.runtime.array import ArrayImpl
from pullback.runtime.native import Native

native_only = pytest.mark.skipif(
    not isinstance(memory.engine, Native), reason="about the native path"
)
X = jnp.asarray(np.linspace(-1, 2, 12, dtype=np.float32))
M = X.reshape(3, 4)
I = jnp.arange(4)
MASK = X > 0

CALLS: dict[str, Any] = {
    "exp": lambda: jnp.exp(X),
    "sum": lambda: jnp.sum(M, axis=1, keepdims=True),
    "sum, axis by position": lambda: jnp.sum(M, 0),
    "method": lambda: M.mean(axis=0),
    "where": lambda: jnp.where(MASK, X, 0.0),
    "maximum": lambda: jnp.maximum(X, 0.5),
    "power": lambda: jnp.power(X, 3),
    "reshape": lambda: X.reshape(4, -1),
    "astype by name": lambda: X.astype("int32"),
    "astype by type": lambda: X.astype(jnp.int32),
    "T": lambda: M.T,
    "zeros": lambda: jnp.zeros((2, 3), jnp.int32),
    "arange": lambda: jnp.arange(2, 9, 3),
    "full": lambda: jnp.full((3,), 2.5),
    "linspace": lambda: jnp.linspace(0, 1, 7),
    "slice": lambda: X[2:9:3],
    "slice and new axis": lambda: M[:, None, 1:],
    "integers": lambda: M[1, -2],
    "integer and slice": lambda: M[-1, ::2],
    "ellipsis": lambda: M[..., 1],
    "gather": lambda: X[I],
    "at set": lambda: X.at[3].set(7.0),
    "at add": lambda: X.at[I].add(1),
    "at slice": lambda: M.at[:, 1].multiply(2.0),
    "dot": lambda: jnp.dot(M, M.T),
    "concatenate": lambda: jnp.concatenate([X, I]),
    "stack": lambda: jnp.stack((X, X), axis=1),
    "split": lambda: jnp.split(X, 3),
    "meshgrid": lambda: jnp.meshgrid(I, I),
    "softmax": lambda: nn.softmax(M, axis=0),
    "relu": lambda: nn.relu(X),
    "gelu": lambda: nn.gelu(X),
    "var": lambda: jnp.var(M, axis=0, ddof=1),
    "einsum": lambda: jnp.einsum("ij,kj->ik", M, M),
    "numpy": lambda: jnp.add(X, np.ones(12)),
    "weak": lambda: jnp.multiply(2, jnp.float32(3)),
    "argmax": lambda: M.argmax(1),
    "sort": lambda: jnp.sort(-X),
    "norm": lambda: jnp.linalg.norm(M),
    "clip": lambda: jnp.clip(X, 0, 1),
    "take": lambda: jnp.take(X, 2),
    "round": lambda: jnp.round(X, 1),
    "tril": lambda: jnp.tril(M, 1),
    "nonzero": lambda: jnp.nonzero(MASK),
    "unique": lambda: jnp.unique(I),
    "by mask": lambda: X[MASK],
    "lax.add": lambda: lax.add(X, 1.0),
    "lax.max of numbers": lambda: lax.max(2, 3),
    "lax.reshape": lambda: lax.reshape(M, (4, 3), (1, 0)),
    "lax.dynamic_slice": lambda: lax.dynamic_slice(M, (1, 9), (2, 2)),
    "lax.integer_pow": lambda: lax.integer_pow(X, 3),
    "lax.sort": lambda: lax.sort((-X, X), num_keys=1),
    "lax.convert_element_type": lambda: lax.convert_element_type(X, jnp.int32),
    "array of floats": lambda: jnp.array([1.5, -0.0, float("nan"), 3e38]),
    "array of integers": lambda: jnp.array([[1, 2], [3, 4]]),
    "array of mixed numbers": lambda: jnp.array([1, 2.5]),
    "array of a number": lambda: jnp.array(2.5),
    "array, narrow": lambda: jnp.array([1.1], jnp.float16),
    "array of NumPy's": lambda: jnp.array(np.arange(6, dtype=np.uint8).reshape(2, 3).T),
    "array of an array": lambda: jnp.array(X, jnp.int32),
    "array of arrays": lambda: jnp.array([X, X]),
    "array, more axes": lambda: jnp.array([True], ndmin=2),
    "asarray": lambda: jnp.asarray(np.float32([1, 2])),
    "asarray of a number": lambda: jnp.asarray(3),
    "asarray by name": lambda: jnp.asarray(a=(1.0, 2.0), dtype="float32"),
}


def leaves(x: Any) -> list[Any]:
    return pullback.tree.leaves(x)


@pytest.mark.parametrize("name", CALLS)
def test_all_calls_are_alike(name: str) -> None:
    """The first call, which runs the function as it is written, and the later ones, which may be
    native, give the same bits, types and containers; and so does the function under jit."""
    first = CALLS[name]()
    for _ in range(TENTH + 2):
        again = CALLS[name]()
        assert type(again) is type(first)
        assert pullback.tree.structure(again) == pullback.tree.structure(first)
        for a, b in zip(leaves(first), leaves(again), strict=True):
            assert a.aval == b.aval
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_arrays_are_made_alike() -> None:
    """What `array` refuses, shares and copies is the same at every call."""
    held = np.arange(4, dtype=np.float32)
    for k in range(TENTH + 3):
        for wrong, error in (
            ([300], OverflowError), (2**40, OverflowError), ([1, [2]], ValueError),
            ("a", TypeError), (None, ValueError),
        ):  # fmt: skip
            with pytest.raises(error):
                jnp.array(wrong, None if wrong != [300] else jnp.uint8)
        assert jnp.asarray(X) is X
        assert jnp.array(X) is not X
        made, shared = jnp.array(held), jnp.asarray(held)
        held[0] = k
        assert made[0] == shared[0] == max(0, k - 1)
        assert jnp.array([float(k), 2.0]).tolist() == [k, 2.0]
        assert pullback.device_put(X, pullback.devices()[0]).committed


@native_only
def test_arrays_that_were_put_somewhere_are_operands() -> None:
    put = pullback.device_put(X, pullback.devices()[0])
    f = jit(lambda x: x + 1)
    f(X)
    assert stub.signature(f, (put,), {}) != stub.signature(f, (X,), {})  # results are committed
    for _ in range(2):
        assert f(put).committed and not f(X).committed
    assert stub.entry_count(f) == 2
    np.testing.assert_array_equal(np.asarray(f(put)), np.asarray(f(X)))


def test_keys_come_and_go() -> None:
    """Keys are arguments and results of jitted functions at every call, whatever holds them."""
    made = jit(random.key)
    step = jit(lambda k, x: (random.split(k), {"a": x + random.normal(k, (2,)), "k": k}))
    key, other = random.key(3), random.key(3, impl="rbg")
    same = jit(lambda k: k)
    joined = jit(lambda a, b: Pair(jnp.stack([a, b]), 1.0))
    first = step(key, 1.0)
    for _ in range(4):
        assert made(3).aval == key.aval and bool(made(3) == key)
        assert same(key).aval == key.aval and same(other).aval == other.aval
        again = step(key, 1.0)
        assert pullback.tree.structure(again) == pullback.tree.structure(first)
        for a, b in zip(leaves(first), leaves(again), strict=True):
            assert type(a) is type(b) and a.aval == b.aval and bool((a == b).all())
        pair = joined(key, first[0][0])
        assert pair.keys.shape == (2,) and bool(pair.keys[1] == first[0][0])
    for _ in range(TENTH + 2):
        stacked = jnp.stack([key, first[0][1]])
        assert stacked.aval == first[0].aval and bool(stacked[0] == key)


class Pair:
    """A container that makes its objects itself."""

    def __init__(self, keys: Any, number: Any) -> None:
        self.keys, self.number = keys, number


pullback.tree_util.register_pytree_node(
    Pair, lambda p: ((p.keys, p.number), None), lambda _, parts: Pair(*parts)
)


@native_only
def test_calls_with_keys_are_native() -> None:
    f = jit(lambda k, x: (random.fold_in(k, 1), x * 2))
    key = random.key(0)
    f(key, 1.0)
    assert stub.signature(0, (key, 1.0), {}) is not None
    assert stub.entry_count(f) == 1


@native_only
def test_they_are_native() -> None:
    """After a few calls Python's function does not run."""
    for f, args, kwargs in (
        (jnp.exp, (X,), {}), (jnp.sum, (M,), {"axis": 0}), (jnp.where, (MASK, X, 1.0), {}),
        (jnp.zeros, (8,), {}), (jnp.reshape, (X, (3, 4)), {}), (jnp.var, (M, 0), {}),
        (nn.softmax, (M,), {}), (nn.relu, (X,), {}), (lax.exp, (X,), {}),
        (lax.dynamic_slice, (X, (1,), (2,)), {}), (jnp.array, ([1.0, 2.0],), {}),
        (jnp.asarray, (np.float32([1, 2]),), {}), (jnp.array, (X,), {}),
    ):  # fmt: skip
        for _ in range(TENTH + 1):
            f(*args, **kwargs)
        assert stub.entry_count(f), f.__name__


@native_only
def test_numbers_of_parameters_do_not_fill_the_table() -> None:
    """Numbers that are part of the program make programs, but not without end; numbers that are
    operands make one."""
    x = jnp.arange(500.0)
    for k in range(120):
        for _ in range(3):
            assert float(x[k : k + 2][1]) == k + 1
            assert float(jnp.maximum(float(k), x)[0]) == k
    assert stub.entry_count(jnp.roll) < 100
    for k in range(100):
        for _ in range(3):
            assert int(jnp.roll(jnp.arange(200), k)[k]) == 0
    assert stub.entry_count(jnp.roll) < 100


def test_python_integers_in_indices_wrap() -> None:
    for _ in range(4):
        for i in range(-3, 3):
            for j in range(-4, 4):
                assert float(M[i, j]) == float(np.asarray(M)[i, j])


def test_errors_do_not_change() -> None:
    """A call that is wrong fails alike each time, with the same words."""
    for call, kind in (
        (lambda: jnp.sum(M, axis=7), ValueError), (lambda: X.reshape(5, 5), TypeError),
        (lambda: jnp.dot(X, M.T @ M), TypeError), (lambda: jnp.exp("x"), TypeError),
        (lambda: jnp.zeros(3)["a"], TypeError),
        (lambda: jnp.concatenate([]), ValueError),
    ):  # fmt: skip
        texts = set()
        for _ in range(4):
            with pytest.raises(kind) as info:
                call()
            texts.add(str(info.value))
        assert len(texts) == 1


def test_warnings_do_not_change() -> None:
    """What warns goes on to warn."""
    for _ in range(4):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            jnp.zeros(3, np.float64)
        assert len(seen) == 1


def test_flags_reach_them() -> None:
    """Flags that change what a function does are obeyed at once."""
    for _ in range(4):
        assert jnp.zeros(3).dtype == np.float32
        with pullback.enable_x64(True):
            assert jnp.zeros(3).dtype == np.float64
        with pullback.debug_nans(True), pytest.raises(FloatingPointError):
            jnp.log(-X)
        assert np.isnan(jnp.log(-X)).any()
    for _ in range(3):
        with pullback.disable_jit():
            np.testing.assert_allclose(jnp.exp(X), np.exp(np.asarray(X)), rtol=1e-6)


def test_under_transformations() -> None:
    """While something is traced the functions are what they are written as."""
    for _ in range(4):
        jnp.sin(X)
        assert "sin" in str(make_jaxpr(jnp.sin)(X)) and "jit" not in str(make_jaxpr(jnp.sin)(X))
        np.testing.assert_allclose(grad(lambda x: jnp.sum(jnp.sin(x)))(X), jnp.cos(X), rtol=1e-6)
        np.testing.assert_allclose(vmap(jnp.sin)(X), jnp.sin(X), rtol=1e-6)
        np.testing.assert_allclose(jit(jnp.sin)(X), jnp.sin(X), rtol=1e-6)


def test_tracers_that_escaped() -> None:
    kept: list[Any] = []
    jit(lambda x: kept.append(x) or x)(X)
    for _ in range(3):
        with pytest.raises(errors.UnexpectedTracerError):
            jnp.exp(kept[0])


def test_deleted_arrays() -> None:
    for _ in range(3):
        jnp.exp(X)
    x = jnp.exp(X)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.exp(x)


def test_what_they_look_like() -> None:
    """Names, signatures, documentation, pickles and copies."""
    assert jnp.sum.__name__ == "sum" and "sum" in (jnp.sum.__doc__ or "").lower()
    assert list(inspect.signature(jnp.sum).parameters)[:2] == ["a", "axis"]
    assert jnp.abs is jnp.absolute
    assert isinstance(jnp.add, jnp.ufunc) and repr(jnp.add) == "<jnp.ufunc 'add'>"
    for f in (jnp.sum, jnp.exp, nn.softmax):
        assert copy.deepcopy(f) is f or copy.deepcopy(f)(X).shape == f(X).shape
        again = pickle.loads(pickle.dumps(f))
        np.testing.assert_array_equal(again(X), f(X))
    assert callable(ArrayImpl.sum) and X.sum.__name__ == "sum"


def test_what_jax_does_not_jit_is_a_function() -> None:
    """Libraries look for `isfunction`, take the code and the defaults, and pickle by name."""
    for f in (jnp.sum, lax.add, nn.softmax, random.normal, jnp.array, jnp.where):
        assert inspect.isfunction(f) and isinstance(f, type(jnp.sum)) and callable(f)
        assert repr(f) == f"<function {f.__name__} at {id(f):#x}>"
        code = f.__code__
        assert code.co_name == f.__name__ and f.__defaults__ == inspect.unwrap(f).__defaults__
        assert f.__globals__ is inspect.unwrap(f).__globals__ and f.__closure__ is None
        assert inspect.signature(f, follow_wrapped=False) == inspect.signature(f)
        assert (
            not hasattr(f, "__signature__") and f.__kwdefaults__ is inspect.unwrap(f).__kwdefaults__
        )
        assert getattr(sys.modules[f.__module__], f.__qualname__) is f
        assert pickle.loads(pickle.dumps(f)) is f and copy.copy(f) is f and copy.deepcopy(f) is f
    with pytest.raises(AttributeError, match=r"no setter|not writable"):
        jnp.sum.__class__ = dict


def test_what_jax_jits_is_no_function() -> None:
    for f in (jnp.sin, nn.silu, jit(lambda x: x), jit(int)):
        assert not inspect.isfunction(f) and isinstance(f, pullback.stages.Wrapped)
        for name in ("__code__", "__defaults__", "__globals__"):
            with pytest.raises(AttributeError, match=name):
                getattr(f, name)
    f = jit(lambda x, n=3, *, k: x, static_argnames="n")
    assert (
        str(f.__signature__) == str(inspect.signature(f, follow_wrapped=False)) == "(x, n=3, *, k)"
    )
    assert str(jnp.sin.__signature__).startswith("(x: ")
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(jit(dict))


def test_names_of_jitted_partials_and_objects() -> None:
    class Layer:
        def __call__(self, x: Any) -> Any:
            return -x

    def half(x: Any, by: float = 2.0) -> Any:
        return x / by

    unnamed = "<unnamed function>"
    for fun, name in [
        (functools.partial(half, by=3.0), "half"),
        (functools.partial(functools.partial(half), by=3.0), "half"),
        (Layer(), unnamed),
        (functools.partial(Layer()), unnamed),
        (dict, "dict"),
    ]:
        f = jit(fun)
        assert f.__name__ == f.__qualname__.rpartition(".")[2] == name
        if fun is not dict:
            (eqn,) = make_jaxpr(f)(1.0).eqns
            assert eqn.params["name"] == name and f.lower(1.0).compile()(4.0).shape == ()


def test_methods_are_functions_bound_to_their_arrays() -> None:
    class Model:
        norm = jnp.sum
        act = jnp.sin

        def __array__(self, *_: Any, **__: Any) -> Any:
            return np.ones(3, np.float32)

    assert inspect.ismethod(Model().norm) and inspect.ismethod(Model().act)
    assert inspect.isfunction(Model.norm) and not inspect.isfunction(Model.act)


def test_ufuncs_of_users_run_each_time() -> None:
    seen: list[Any] = []

    def f(x: Any, y: Any) -> Any:
        seen.append(1)
        return x + y

    add = jnp.frompyfunc(f, 2, 1)
    for _ in range(5):
        add(1.0, 2.0)
    assert seen


@native_only
@pytest.mark.usefixtures("at_rest")
def test_they_do_not_leak() -> None:
    x = jnp.ones(16)
    calls = [
        lambda: jnp.exp(x), lambda: x.sum(), lambda: x[2:5], lambda: x.at[3].set(1.0), lambda: x.T,
        lambda: jnp.zeros(16), lambda: jnp.nonzero(x),
    ]  # fmt: skip
    for call in calls:
        for _ in range(TENTH + 2):
            call()
        gc.collect()
        before = sys.getrefcount(x), sys.getrefcount(x.aval), memory.memory_stats()["bytes_in_use"]
        for _ in range(1000):
            call()
        gc.collect()
        after = sys.getrefcount(x), sys.getrefcount(x.aval), memory.memory_stats()["bytes_in_use"]
        for a, b in zip(before, after, strict=True):
            assert abs(a - b) < 2000, call


def test_threads() -> None:
    """Threads that meet new types at once, while another traces."""
    wrong: list[Any] = []
    stop = threading.Event()

    def tracing() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            jit(lambda x, k=k: jnp.sum(jnp.tanh(x)) + k)(X)

    def work(seed: int) -> None:
        for n in range(1, 40):
            x = jnp.full((n,), float(seed))
            for _ in range(4):
                if float(jnp.sum(jnp.exp(x) * 0 + x)) != n * seed:
                    wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(3)]
    tracer = threading.Thread(target=tracing)
    for t in (*threads, tracer):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    tracer.join()
    assert not wrong


def test_keys_that_are_used_twice() -> None:
    """Native calls do not hide a second use from who asks to be told of it."""
    key = random.key(0)
    for _ in range(TENTH + 2):
        random.normal(key, (3,))
    with pullback.debug_key_reuse(True):
        watched = random.key(1)
        random.normal(watched, (3,))
        with pytest.raises(errors.KeyReuseError):
            random.normal(watched, (3,))


class Wide(int):
    """An integer of a class of its own."""


NUMBERS: dict[str, tuple[Any, Any, dict[Any, Any]]] = {  # call, what warms it, answers of JAX
    "add": (lambda v: jnp.add(X, v), 2, {2**31: OverflowError, 2**100: OverflowError}),
    "maximum": (lambda v: jnp.maximum(BYTES, v), 2, {2**31: OverflowError, 300: [44] * 3}),
    "less": (lambda v: jnp.less(I, v), 2, {-(2**31) - 1: OverflowError, 2: [1, 1, 0, 0]}),
    "set": (lambda v: BYTES.at[0].set(v), 2, {2**32: OverflowError, 300: [44, 2, 3]}),
    "set of half": (lambda v: HALVES.at[0].set(v), 2, {2**31: OverflowError, 300: [300, 2]}),
    "full": (lambda v: jnp.full(2, v), 2, {2**31: [-(2**31)] * 2, 2**64: OverflowError}),
    "full of floats": (lambda v: lax.full((2,), v, "float32"), 2, {2**100: [2.0**100] * 2}),
    "full of bytes": (
        lambda v: jnp.full(2, v, "uint8"),
        1.5,
        {1e300: [255] * 2, -1.0: [0, 0], np.inf: [255] * 2, np.nan: [0, 0]},
    ),
    "full_like": (lambda v: jnp.full_like(I, v), 1.5, {1e300: [2**31 - 1] * 4, np.nan: [0] * 4}),
    "full, NumPy's": (
        lambda v: jnp.full(2, v, "float32"),
        np.int64(2),
        {np.int64(2**40): [2.0**40] * 2},
    ),
    "full, derived": (lambda v: jnp.full(2, v), Wide(1), {Wide(2**31): OverflowError}),
    "full, derived, of floats": (
        lambda v: jnp.full(2, v, "float32"),
        Wide(1),
        {Wide(2**31): [2.0**31] * 2},
    ),
    "NumPy's": (lambda v: jnp.add(I, v), np.int64(2), {np.int64(2**40 + 1): [1, 2, 3, 4]}),
    "index": (lambda v: I[v], np.int64(2), {np.int64(2**40 + 1): 1}),
    "dynamic_slice": (
        lambda v: lax.dynamic_slice(I, (v,), (2,)),
        1,
        {2**31: [0, 1], 2**32: [0, 1], -(2**31) - 1: [0, 1], 2**64: OverflowError, 300: [2, 3]},
    ),
    "array": (
        lambda v: jnp.array(v, "uint8"),
        1.5,
        {1e300: OverflowError, np.nan: ValueError, 2.5: 2, 300: OverflowError},
    ),
    "array of a list": (lambda v: jnp.array([v], "int32"), 1.5, {1e300: OverflowError, 2.5: [2]}),
    "roll": (lambda v: jnp.roll(I, v), 1.5, {1e300: [1, 2, 3, 0], np.nan: [0, 1, 2, 3]}),
    "fold_in": (
        lambda v: random.key_data(random.fold_in(random.key(0), v)),
        1.5,
        {1e300: OverflowError, np.nan: ValueError, 1j: TypeError, 2**32: OverflowError},
    ),
}  # fmt: skip
BYTES = jnp.array([1, 2, 3], jnp.uint8)
HALVES = jnp.array([1, 2], jnp.float16)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range(name: str) -> None:
    """Python's numbers that a dtype does not hold wrap, saturate or are refused, as in JAX, by the
    function as it is written and by the native program alike."""
    call, usual, answers = NUMBERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            for number, wanted in answers.items():
                if isinstance(wanted, type):
                    with pytest.raises(wanted):
                        call(number)
                else:
                    np.testing.assert_array_equal(np.asarray(call(number)), wanted)
            for _ in range(TENTH + 2):
                call(usual)


def test_numbers_that_become_infinite_warn_each_time() -> None:
    for number in (1e300, np.float64(-1e300), 1e300j, np.complex128(1e300)):
        for _ in range(TENTH + 2):
            jnp.add(X, type(number)(1.5))
        for _ in range(3):
            with pytest.warns(RuntimeWarning, match="overflow"):
                assert np.isinf(np.asarray(jnp.add(X, number))).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in (np.inf, -np.inf, np.nan, 3e38, complex(np.inf, 1)):
            jnp.add(X, number)


def test_numbers_out_of_range_in_64_bits() -> None:
    huge = np.float64(1e300)
    with pullback.enable_x64(True):
        for _ in range(TENTH + 2):
            assert int(I[2**40]) == 3 and int(I[-(2**40)]) == 0  # clamped, as all indices
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as NumPy converts, and warns
                assert jnp.full(2, huge, "int32")[0] == huge.astype(np.int32)
            np.testing.assert_array_equal(lax.dynamic_slice(I, (2**40,), (2,)), [2, 3])
            for wrong in (
                lambda: jnp.add(X, 2**63),
                lambda: random.fold_in(random.key(0), 2**32),
                lambda: I[2**63],
            ):
                with pytest.raises(OverflowError):
                    wrong()
            random.fold_in(random.key(0), 2**31)


@pytest.mark.parametrize("axis", [0, 1])
def test_thousands_of_arrays_are_joined_in_groups(axis: int) -> None:
    """A program of thousands of operands takes a compiler minutes."""
    parts = [np.full((2, 1 + k % 2), k, "float32") for k in range(3000)]
    rows = [p.T for p in parts] if axis == 0 else parts
    arrays = [jnp.asarray(r) for r in rows]
    begun = time.perf_counter()
    np.testing.assert_array_equal(jnp.concatenate(arrays, axis), np.concatenate(rows, axis))
    even = arrays[::2]
    np.testing.assert_array_equal(jnp.stack(even, axis), np.stack(rows[::2], axis))
    assert time.perf_counter() - begun < 20  # it was 100 s
    weak = jnp.stack([jnp.asarray(1.0)] * 300)
    assert weak.weak_type and jnp.stack([*[jnp.asarray(1.0)] * 300, weak[0]]).shape == (301,)
    with pytest.raises(TypeError, match="Cannot concatenate arrays with shapes that differ"):
        jnp.concatenate([*arrays, jnp.ones((9, 9))], axis)
    grown = grad(lambda xs: jnp.concatenate(xs).sum())([jnp.ones(2)] * 200)
    assert len(grown) == 200
    assert len(make_jaxpr(lambda xs: jnp.stack(xs))(even[:200]).eqns) == 1
