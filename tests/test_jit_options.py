"""What `jit` is told: `compiler_options`, donated arguments; what it traces anew, and the names and
docstrings of what transformations return."""

from __future__ import annotations

import ctypes
import functools
import gc
import logging
import pickle
import warnings
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import config
from pullback.api import jit as jit_module
from pullback.backends.llvm import aside
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
    assert pb.vmap(f)(jnp.ones((2, 3)))[1] == 3
    assert pb.jvp(f, (x,), (x,)) == (5, 10)
    assert pb.eval_shape(f, x).shape == ()
    assert f.lower(x).compile()(x) == 5


@pytest.mark.parametrize(
    ("lib", "options"), [(pb, {"num_threads": 1}), (jax, {"xla_embed_ir_in_executable": True})]
)
def test_options_are_those_of_the_outermost_function(lib, options):
    g = lib.jit(lambda x: (x * x).sum(), compiler_options=options)
    for nested in (
        lambda x: lib.jit(lambda x: g(x) + 1)(x),
        lambda x: lib.jit(lambda x: g(x) + 1, compiler_options=options)(x),
        lambda x: lib.grad(g)(x),
        lambda x: lib.make_jaxpr(lambda x: g(x))(x),
        lambda x: lib.lax.scan(lambda c, _: (g(x), None), g(x), None, length=2),
    ):
        with pytest.raises(ValueError, match=r"can only be passed to top-level `jax.jit`"):
            nested(lib.numpy.arange(3.0))


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


# ---- what is traced anew, and what is kept alive


def test_a_function_is_traced_once_whatever_looks_at_it() -> None:
    counts = {}
    for m in (jax, pb):
        seen = []

        def f(x, y, seen=seen):
            seen.append(x)
            return x + y

        x = m.numpy.ones(3)
        place = m.sharding.SingleDeviceSharding(m.devices()[0])
        for options in ({}, {"inline": True}, {"keep_unused": True}, {"out_shardings": place}):
            m.jit(f, **options)(x, x)
        m.jit(f, donate_argnums=0)(x + 0, x)
        m.eval_shape(f, x, x), m.make_jaxpr(f)(x, x), m.jit(f).lower(x, x)
        m.jit(lambda x, f=f, m=m: m.jit(f)(x, x))(x)
        m.jit(f, static_argnums=1)(x, 2.0), m.make_jaxpr(f, static_argnums=1)(x, 2.0)
        m.jit(f).clear_cache()
        m.eval_shape(f, x, x)
        counts[m] = len(seen)
    assert counts[pb] == counts[jax] == 3


def test_flags_that_do_not_change_programs_trace_nothing() -> None:
    traced = pb.jit(lambda x: x * 2)
    traced(1.0)
    before = pb.trace_count()
    for flag in (pb.debug_nans, pb.debug_infs, pb.enable_checks, pb.checking_leaks):
        with flag(True):
            traced(1.0)
    assert pb.trace_count() == before
    with pb.debug_nans(True), pytest.raises(FloatingPointError):
        traced(np.nan)
    with pb.no_tracing(True):
        traced(2.0)
        with pytest.raises(RuntimeError, match=r"re-tracing function <lambda>.*no_tracing"):
            traced(2)


@pytest.mark.parametrize(
    "flag", ["enable_checks", "explain_cache_misses", "log_compiles", "no_tracing"]
)
def test_flags_of_the_making_of_programs_leave_calls_native(flag: str) -> None:
    """Tests of JAX's class run with `enable_checks`, and count the calls that are left to
    Python."""
    if not stub.fast_path_open():
        pytest.skip("about the native call path")
    with getattr(config, flag)(True):
        assert stub.fast_path_open()
    with pb.debug_nans(True):
        assert not stub.fast_path_open()


def test_what_only_a_dead_function_held_is_gone_at_once() -> None:
    x = jnp.ones(10)
    f = (lambda x: lambda: x)(x)
    g = pb.jit(f)
    g(), g()
    aside.settle()  # the program has been written to disk
    gone = [weakref.ref(x), weakref.ref(f), weakref.ref(g)]
    gc.disable()
    try:
        del x, f, g
        assert [r() for r in gone] == [None] * 3
    finally:
        gc.enable()


# ---- donation

_DONATING: dict[str, Any] = {
    "same type": (lambda x: x * 2, [(4,)], 0),
    "same bytes": (lambda x: x.astype("int32"), [(4,)], 0),
    "other shape": (lambda x: x.reshape(2, 2) + 1, [(4,)], 0),
    "fewer bytes": (lambda x: x.astype("int16"), [(4,)], 0),
    "fewer elements": (lambda x: x[:2], [(4,)], 0),
    "a sum": (lambda x: x.sum(), [(4,)], 0),
    "two for one": (lambda x, y: x + y, [(4,), (4,)], (0, 1)),
    "two for two": (lambda x, y: (x + y, x - y), [(4,), (4,)], (0, 1)),
    "not used": (lambda x, y: y * 2, [(4,), (4,)], 0),
    "named": (lambda x, y: y * 2, [(4,), (3,)], (0, 1)),
}


@pytest.mark.parametrize("name", _DONATING)
def test_donated_arguments_go_where_jaxs_do(name: str) -> None:
    f, shapes, donated = _DONATING[name]
    found = {}
    for m in (jax, pb):
        args = [m.numpy.ones(s) + 1 for s in shapes]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            jitted = m.jit(f, donate_argnums=donated)
            m.block_until_ready(jitted(*args))
            gone = [x.is_deleted() for x in args]
            jitted.lower(*[m.ShapeDtypeStruct(s, "float32") for s in shapes])  # says nothing more
        found[m] = gone, [str(w.message).split("\n")[0] for w in said]
    assert found[pb] == found[jax]


def test_a_donated_argument_that_is_another_one_too_is_refused() -> None:
    x = jnp.arange(4.0)
    f = pb.jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(3):
        f(x + 0, x)  # native from here on
    with pytest.raises(pb.errors.JaxRuntimeError, match="donate a buffer that the same call uses"):
        f(x, x)
    assert not x.is_deleted()
    pb.jit(lambda x, y: x * 2, donate_argnums=0)(x, x)  # y is not used
    assert x.is_deleted()


# ---- docstrings


@pytest.mark.parametrize("transform", ["vmap", "grad", "value_and_grad", "jacfwd", "jacrev"])
def test_docstrings_say_what_was_done_to_what(transform: str) -> None:
    def energy(x):
        """Of a spring."""

    made = getattr(pb, transform)(energy)
    assert made.__name__ == "energy" and made.__wrapped__ is energy
    assert " of energy" in made.__doc__ and "Original documentation:\n\nOf a spring" in made.__doc__


# ---- what is said of what jit does


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> list[str]:
        logging.getLogger("pullback").addHandler(self)
        return self.lines

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("pullback").removeHandler(self)


def test_log_compiles_says_what_is_traced_and_compiled() -> None:
    @pb.jit
    def shifted(x):
        return x * 3 + 1

    with pb.log_compiles(True), _Log() as lines:
        shifted(1.0), shifted(2.0)
    assert sum("Finished tracing shifted for jit in" in line for line in lines) == 1
    assert sum("compilation of jit(shifted) in" in line for line in lines) == 1
    with _Log() as lines:
        shifted(jnp.ones(3))
    assert not lines


_MISSES: dict[str, tuple[Any, Any, Any, list[str]]] = {
    "structure": (
        lambda *a, **k: a[0],
        lambda f: f(0.0, 1.0, y=(2.0, 2.1)),
        lambda f: f(0.0, (1.0, 1.1), y=2.0),
        ["different input pytree", "[1]['y']"],
    ),
    "dtype": (
        lambda x, y: x,
        lambda f: f(np.float32(0), np.float32(1)),
        lambda f: f(np.float32(0), np.int32(1)),
        ["different input types", "at y, now i32[] and before f32[]"],
    ),
    "weak": (
        lambda x: x,
        lambda f: f(jnp.float32(0)),
        lambda f: f(0.0),
        ["now f32[]{weak_type=True} and before f32[]{weak_type=False}"],
    ),
    "closest": (
        lambda x: x,
        lambda f: (f(np.ones((1, 2))), f(np.ones((3, 2, 3)))),
        lambda f: f(np.ones((3, 2, 4))),
        ["at x, now f32[3,2,4] and before f32[3,2,3]"],
    ),
    "flags": (
        lambda x: x,
        lambda f: f(1.0),
        lambda f: pb.numpy_rank_promotion("warn")(f)(1.0),
        ["jax_numpy_rank_promotion differs: now warn and before allow"],
    ),
}


@pytest.mark.parametrize("name", _MISSES)
def test_explained_misses(name: str) -> None:
    function, before, after, said = _MISSES[name]
    f = pb.jit(lambda *a, **k: function(*a, **k)) if name == "structure" else pb.jit(function)
    pb.clear_caches()
    before(f)
    with pb.explain_cache_misses(True), _Log() as lines:
        after(f), after(f)
    (line,) = lines
    assert line.startswith("TRACING CACHE MISS at ") and all(words in line for words in said)


def test_explained_misses_of_new_functions() -> None:
    with pb.explain_cache_misses(True), _Log() as lines:
        for _ in range(2):
            pb.jit(lambda x: 2 * x)(3)
        jnp.sin(jnp.arange(7, dtype=np.float32))  # functions of our own are not spoken of
    assert ["never seen function" in line for line in lines] == [True, True]
    assert ["defined on the same line" in line for line in lines] == [False, True]
    with pb.explain_cache_misses(True), _Log() as lines:
        static = pb.jit(lambda x, n: x * n, static_argnames="n")
        static(1.0, n=2), static(1.0, n=3)
    assert "now n=3 and before n=2" in lines[1]


# ---- what jit and its kin refuse


def test_what_jit_is_not_given() -> None:
    with pytest.raises(TypeError, match="staticmethod arguments are not supported"):
        pb.jit(staticmethod(_double))
    for kind in ("static_argnames", "donate_argnames"):
        for name in ("a", "rest"):
            with pytest.raises(ValueError, match="positional-only"):
                pb.jit(lambda a, /, b, *rest, **kw: b, **{kind: (name, "b")})
    with pytest.raises(ValueError, match="static_argnames and donate_argnames cannot intersect"):
        pb.jit(_double, static_argnames="x", donate_argnames="x")
    with pytest.raises(ValueError, match="Device object"), pb.default_device("nowhere"):
        pass
    with pytest.raises(TypeError, match="pmap in_axes must be an int"):
        pb.pmap(_double, in_axes=False)
    with pytest.raises(ValueError, match=r"static_broadcasted_argnums=\(1,\) but was called with"):
        pb.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(jnp.ones(1), n=1)
    devices = pb.devices()
    with pytest.raises(RuntimeError, match="before backends are initialized"):
        config.update("jax_num_cpu_devices", len(devices) + 1)


def test_texts_of_jitted_functions_whatever_they_wrap() -> None:
    class Bad:
        def __call__(self, x):
            return x

        def __repr__(self) -> str:
            raise ValueError("no text")

    f = pb.jit(Bad())
    assert repr(f) == "<PjitFunction>"
    g = pb.jit(functools.partial(functools.partial(_double)))
    assert g.__getstate__()["function_name"] == "_double"
    del g.__wrapped__
    assert repr(g) == "<PjitFunction>"


def test_efforts_are_options_of_no_consequence() -> None:
    f = pb.jit(_double, compiler_options={"exec_time_optimization_effort": 0.5})
    assert f(1.0) == 3.0
    assert pb.jit(_double).lower(1.0).out_info == pb.ShapeDtypeStruct((), "float32")


# ---- tokens


def test_tokens_pass_through_jit() -> None:
    token = pb.lax.create_token()
    x, out = pb.jit(lambda x, t: (x + 1, t))(jnp.ones(3), token)
    assert type(out) is type(token) and out is not token
    np.testing.assert_array_equal(x, np.full(3, 2.0))
    assert type(pb.jit(lambda x: (x, token))(1.0)[1]) is type(token)
    assert isinstance(out, pb.extend.core.Token)


def test_large_constants_are_told() -> None:
    """Once for a program, at the call or at lowering; -1 allows any number of bytes."""
    held, words = jnp.ones(1000), "captured during lowering"
    with config.captured_constants_warn_bytes(3999):
        f = pb.jit(lambda x: x + held)
        with pytest.warns(UserWarning, match=words):
            f(1.0)
        g = pb.jit(lambda x: x * held)
        with pytest.warns(UserWarning, match=words):
            g.lower(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            f(1.0)
            g.lower(1.0).compile()
            with config.captured_constants_warn_bytes(-1):
                pb.jit(lambda x: x - held)(1.0)
            with config.captured_constants_warn_bytes(4000):
                pb.jit(lambda x: x / held)(1.0)


@native
def test_functions_jitted_anew_share_native_calls(monkeypatch):
    traces, slow = [], []
    called = jit_module.JitWrapped._called

    def counted(self, args, kwargs):
        slow.append(args)
        return called(self, args, kwargs)

    monkeypatch.setattr(jit_module.JitWrapped, "_called", counted)

    def f(x):
        traces.append(x)
        return x * 2

    first, x = pb.jit(f), jnp.arange(3.0)
    first(x)
    for _ in range(10):
        assert pb.jit(f)(x).tolist() == [0, 2, 4]
    assert (len(traces), len(slow)) == (1, 1)
    pb.jit(f, keep_unused=True)(x)  # with other options: a call of its own, the same trace
    assert (len(traces), len(slow)) == (1, 2)
    for n in range(40):  # the table grows, for each of those that share it
        pb.jit(f)(jnp.zeros(n))
    assert len(slow) == 41
    for n in range(40):
        first(jnp.zeros(n))
    assert len(slow) == 41
    first.clear_cache()
    pb.jit(f)(x)
    assert (len(traces), len(slow)) == (41, 42)
    pb.clear_caches()
    first(x)
    assert (len(traces), len(slow)) == (42, 43)
