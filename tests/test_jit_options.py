"""`compiler_options` of `jit`: the number of threads of one function's calls."""

from __future__ import annotations

import ctypes
import functools
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import config
from pullback.backends.llvm.table import NUM_THREADS
from pullback.runtime import native_layout as L, stub
from pullback.runtime.native import Native

native = pytest.mark.skipif(not isinstance(stub.engine, Native), reason="without native code")


def _double(x):
    return x * 2 + 1


def _word(address):
    return ctypes.c_int64.from_address(address).value


def _threads_of_entries(f):
    """For each entry of a function: the number in its context, and whether it is binding."""
    found = []
    for entry in f._entries.entries.values():
        context = _word(entry.address + L.E_CTX)
        binding = bool(_word(entry.address + L.E_FLAGS) & L.FLAG_THREADS)
        found.append((_word(context + NUM_THREADS), binding))
    return found


@native
def test_native_calls_have_their_own_number():
    x = jnp.arange(8.0)
    functions = {n: pb.jit(_double, compiler_options={"num_threads": n}) for n in (1, 2, 3)}
    plain = pb.jit(_double)
    for _ in range(2):
        for n, f in functions.items():
            assert f(x)[1] == 3 and _threads_of_entries(f) == [(n, True)]
        assert plain(x)[1] == 3
    ((_, binding),) = _threads_of_entries(plain)
    assert not binding
    with pb.num_threads(2):
        assert _threads_of_entries(functions[3]) == [(3, True)]


def test_calls_that_python_makes_have_it_too():
    seen = []

    def look(x):
        seen.append(config.num_threads.get())
        return x

    f = pb.jit(
        lambda x: pb.pure_callback(look, pb.ShapeDtypeStruct((3,), np.float32), x),
        compiler_options={"num_threads": 3},
    )
    before = config.num_threads.get()
    f(jnp.ones(3)).block_until_ready()
    assert seen[0] == 3 and config.num_threads.get() == before


def test_results_are_the_same_bits():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(700, 900)).astype(np.float32))
    work = lambda x: jnp.tanh(x @ x.T).sum(0)
    expected = np.asarray(pb.jit(work)(x))
    for n in (1, 2, 3):
        f = pb.jit(work, compiler_options={"num_threads": n})
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(f(x)), expected)
        with pb.num_threads(1):
            np.testing.assert_array_equal(np.asarray(f(x)), expected)


def test_transformed_and_nested():
    f = pb.jit(lambda x: (x * x).sum(), compiler_options={"num_threads": 1})
    x = jnp.arange(3.0)
    assert pb.grad(f)(x)[2] == 4
    assert pb.vmap(f)(jnp.ones((2, 3)))[1] == 3
    assert pb.jit(lambda x: f(x) + 1)(x) == 6


def test_stages_and_pickles():
    compiled = pb.jit(_double).lower(1.0).compile({"num_threads": 1})
    assert compiled(1.0) == 3
    f = pickle.loads(pickle.dumps(pb.jit(_double, compiler_options={"num_threads": 2})))
    assert f(1.0) == 3 and f._info.compiler_options == (("num_threads", 2),)


def test_what_is_no_option():
    assert pb.jit(_double, compiler_options={"xla_cpu_enable_fast_math": True})(1.0) == 3
    wrong = pb.jit(_double, compiler_options={"num_thread": 1})
    with pytest.raises(pb.errors.JaxRuntimeError, match="No such compile option: 'num_thread'"):
        wrong(1.0)
    with pytest.raises(pb.errors.JaxRuntimeError, match="No such compile option"):
        pb.jit(_double).lower(1.0).compile({"fast": True})
    for bad in (0, -1, "2", True, 1.5):
        with pytest.raises(ValueError, match="num_threads"):
            pb.jit(_double, compiler_options={"num_threads": bad})
    with pytest.raises(TypeError, match="compiler_options must be a dict"):
        pb.jit(_double, compiler_options=3)


class _Unnamed:
    def __call__(self, x: Any) -> Any:
        return x * 2.0


class _Named(_Unnamed):
    __name__ = "dee"


@pytest.mark.parametrize(
    "name", "vmap grad value_and_grad jacfwd jacrev hessian jit checkpoint pmap make_jaxpr".split()
)
def test_names_of_transformed_callables(name: str) -> None:
    """Partials have the name of their function; objects without names are said to be unnamed."""

    def names(m: Any) -> list[Any]:
        whole = functools.partial(m.numpy.add, 1.0)
        funs = [whole, functools.partial(whole), _Unnamed(), _Named(), _Unnamed().__call__, max]
        made = [getattr(m, name)(f) for f in funs]
        return [(f.__name__, f.__qualname__) for f in made]

    assert names(pb) == names(jax)


@pytest.mark.parametrize("name", ["lower", "trace", "eval_shape"])
def test_public_functions_have_stages_where_they_are_jitted(name: str) -> None:
    for public in "sin dot argsort clip sum where reshape einsum add".split():
        theirs, ours = (hasattr(getattr(m.numpy, public), name) for m in (jax, pb))
        assert theirs == ours, public


def test_stages_of_public_functions() -> None:
    s = pb.ShapeDtypeStruct((4,), np.float32)
    assert pb.numpy.argsort.eval_shape(s, axis=0).dtype == np.int32
    assert pb.numpy.dot.eval_shape(s, s).shape == ()
    text = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    assert str(pb.numpy.sin.trace(1.0).jaxpr) == text
    assert pb.numpy.sign.lower(s).compile()(np.float32([2, -3, 0, 1])).tolist() == [1, -1, 0, 1]


def test_types_of_a_stages_results() -> None:
    traced = pb.jit(lambda x, y=2: {"a": x + y}).trace(jnp.ones(2))
    theirs = jax.jit(lambda x, y=2: {"a": x + y}).trace(np.ones(2, np.float32))
    assert str(traced.out_avals) == str(theirs.out_avals)


def test_the_zero_tangent_of_a_value() -> None:
    for value in (1.0, 3, np.ones(2, np.complex64), np.arange(3)):
        ours = pb.custom_derivatives.SymbolicZero.from_primal_value(value)
        theirs = jax.custom_derivatives.SymbolicZero.from_primal_value(value)
        assert (ours.shape, str(ours.dtype)) == (theirs.shape, str(theirs.dtype))


def test_overridden_flags_are_managers_and_decorators() -> None:
    for m in (jax, pb):

        @m.numpy_rank_promotion("raise")
        def strict(n: int, m: Any = m) -> list[Any]:
            with m.numpy_rank_promotion("warn"):
                within = m.config.jax_numpy_rank_promotion
            inner = strict(n - 1) if n else []
            return [within, m.config.jax_numpy_rank_promotion, *inner]

        assert strict(2) == ["warn", "raise"] * 3
        assert m.config.jax_numpy_rank_promotion == "allow"
        with pytest.raises(ValueError, match="new enum value must be"):
            m.numpy_rank_promotion("foo")  # at once, not when it is entered
        with pytest.raises(KeyError), m.numpy_rank_promotion("raise"):
            raise KeyError("x")
        assert m.config.jax_numpy_rank_promotion == "allow"
