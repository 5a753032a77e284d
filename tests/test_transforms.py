"""Transformations composed: every function under every stack of up to three against JAX, and what
single tests pin down: custom rules, control flow, named axes, tracing options, threads."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import fuzz_programs
import jax as J
import jax.numpy
import numpy as np
import pytest
from fuzz_compare import equal

import pullback as P
import pullback.nn
import pullback.numpy
import pullback.random

BOTH = (J, P)
x3 = np.array([0.3, -0.7, 1.1], "float32")
m23 = np.array([[0.2, -0.4, 0.9], [1.3, 0.5, -0.8]], "float32")


def same(build: Any, *args: Any) -> None:
    """`build(module)(*args)` gives the same leaves, types and tree with JAX and with Pullback."""
    theirs, ours = (build(m)(*m.tree_util.tree_map(m.numpy.asarray, args)) for m in BOTH)
    a, at = J.tree_util.tree_flatten(theirs)
    b, bt = P.tree_util.tree_flatten(ours)
    assert str(at) == str(bt)
    for v, w in zip(a, b, strict=True):
        assert getattr(v, "weak_type", False) == getattr(w, "weak_type", False)
        v, w = np.asarray(v), np.asarray(w)
        assert v.dtype == w.dtype and v.shape == w.shape
        assert equal(v, w, 0.0), (v, w)


def raises(build: Any, *args: Any) -> None:
    """Both refuse, with the same class of error."""
    with pytest.raises(Exception) as theirs:
        build(J)(*map(J.numpy.asarray, args))
    with pytest.raises(Exception) as ours:
        build(P)(*map(P.numpy.asarray, args))
    assert type(theirs.value).__name__ in [c.__name__ for c in type(ours.value).__mro__]


# --- functions x stacks ---
def _custom_jvp(m: Any) -> Any:
    f = m.custom_jvp(lambda x: m.numpy.sin(x) * x)
    f.defjvp(lambda p, t: (f(*p), m.numpy.cos(p[0]) * t[0] * 2))
    return f


def _custom_vjp(m: Any) -> Any:
    f = m.custom_vjp(lambda x: m.numpy.sin(x) * 2)
    f.defvjp(lambda x: (f(x), m.numpy.cos(x)), lambda r, ct: (r * ct * 3,))
    return f


FUNCTIONS: dict[str, Any] = {
    "smooth": lambda m: lambda x: m.numpy.tanh(x) * x.sum(),
    "matmul": lambda m: lambda x: m.numpy.outer(x, x) @ m.numpy.sin(x),
    "jit": lambda m: m.jit(lambda x: (m.numpy.exp(x * 0.3), m.numpy.float32(2.0) * x.max())[0]),
    "cond": lambda m: lambda x: m.lax.cond(x.sum() > 0.1, m.numpy.sin, lambda v: v * v, x),
    "switch": lambda m: (
        lambda x: m.lax.switch(m.numpy.argmax(x), [m.numpy.sin, lambda v: v * v, m.numpy.cos], x)
    ),
    "scan": lambda m: (
        lambda x: m.lax.scan(
            lambda c, v: (m.numpy.sin(c) * v, c + v), x, m.numpy.stack([x, x * 2])
        )[0]
    ),
    "fori": lambda m: lambda x: m.lax.fori_loop(0, 3, lambda i, v: m.numpy.sin(v) * (i + 1), x),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "checkpoint": lambda m: m.checkpoint(lambda x: m.numpy.sin(m.numpy.sin(x)) * x),
    "sort": lambda m: lambda x: m.numpy.sort(x) * m.numpy.arange(3.0),
    "scatter": lambda m: lambda x: x.at[m.numpy.array([0, 2])].multiply(x[1]),
    "closure": lambda m: lambda x: m.jit(lambda y: y * x.sum())(x),
}
STACKS = [s for n in (1, 2, 3) for s in itertools.product(fuzz_programs.TRANSFORMS, repeat=n)]


class _Namespace:
    def __init__(self, m: Any) -> None:
        self.jax, self.numpy, self.lax = m, m.numpy, m.lax


@pytest.mark.parametrize("name", FUNCTIONS)
def test_stacks(name: str) -> None:
    """An eighteenth of the 258 stacks for each function, of the lengths in turn: the fuzzer draws
    the others.
    """
    start = list(FUNCTIONS).index(name)
    for stack in STACKS[start % 18 :: 18]:
        sizes = [2] * stack.count("vmap")
        x = np.broadcast_to(x3, (*sizes, 3)) + 0.1 * np.arange(2.0 ** len(sizes)).reshape(*sizes, 1)

        def build(m: Any, stack: Any = stack) -> Any:
            f = FUNCTIONS[name](m)
            for t in stack:
                choice = {"axes": 0, "argnums": 0, "allow_int": False}
                f = fuzz_programs.wrap(_Namespace(m), t, f, 1, choice)
            return m.jit(f)

        try:
            build(J)(J.numpy.asarray(x, "float32"))
        except Exception as e:
            if not isinstance(e, NotImplementedError):
                raises(build, x.astype("float32"))
            continue
        same(build, x.astype("float32"))


# --- what went wrong once ---
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    # Auxiliary results of an inner gradient that are values of an outer one keep their derivative.
    "aux of outer": (
        lambda m: (
            lambda x: m.vjp(lambda v: m.value_and_grad(lambda u: (u.sum(), v), has_aux=True)(v), x)[
                1
            ](((m.numpy.float32(1), x), x))
        ),
        (x3,),
    ),
    "aux of same": (
        lambda m: m.grad(
            lambda x: m.grad(lambda u: ((u * u).sum(), u * x), has_aux=True)(x)[1].sum()
        ),
        (x3,),
    ),
    "linearize integers": (
        lambda m: (
            lambda i, x: m.linearize(lambda a, b: m.numpy.where(a * 0.5 > b, a * 0.5, b), i, x)[1](
                np.zeros((3,), fuzz_programs.FLOAT0), x
            )
        ),
        (np.array([1, 0, 2], "uint8"), x3),
    ),
    "empty sort": (
        lambda m: m.grad(lambda x: m.numpy.sort(x, 0).sum()),
        (np.zeros((2, 0), "float32"),),
    ),
    "zero tangents are arrays": (
        lambda m: lambda x: m.jvp(lambda v: m.lax.stop_gradient(v) * 2.0, (x[0],), (x[1],)),
        (x3,),
    ),
    "branches hand on numbers": (
        lambda m: (
            lambda x: m.lax.cond(x[0] > 0, lambda a, b: (a, b + 1), lambda a, b: (a, b - 1), 1.0, x)
        ),
        (x3,),
    ),
    "scan hands on": (
        lambda m: (
            lambda x, y: m.lax.scan(
                lambda c, v: ((c[0], c[1] + v), (v, c[0], v * 2)), (x * 2, x), y
            )
        ),
        (np.float32(2), x3),
    ),
    "scan hands on, reverse": (
        lambda m: m.grad(
            lambda x, y: sum(
                v.sum()
                for v in m.tree_util.tree_leaves(
                    m.lax.scan(lambda c, v: ((c[0], c[1] * v), (v, c[0], c[1])), (x, x), y)
                )
            ),
            (0, 1),
        ),
        (np.float32(2), x3),
    ),
    "branches with other residuals": (
        lambda m: m.vmap(
            m.grad(
                lambda x: m.lax.cond(
                    x[0] > 0, lambda v: m.numpy.sin(v).sum(), lambda v: v[0] * v[1] * 2, x
                )
            )
        ),
        (m23,),
    ),
    "jacobians of trees": (
        lambda m: (
            lambda x, y: [
                of(lambda a, b: {"u": m.numpy.sin(a) * b.sum(), "v": a.sum()}, argnums=(0, 1))(x, y)
                for of in (m.jacfwd, m.jacrev)
            ]
        ),
        (m23, x3),
    ),
    "jacobian of nothing": (lambda m: m.jacfwd(m.numpy.sin), (np.zeros((0,), "float32"),)),
    "hessian": (lambda m: m.hessian(lambda x: (x**3).sum() * x[0]), (x3,)),
    # --- second order through control flow ---
    "scan twice": (lambda m: m.hessian(lambda x: FUNCTIONS["scan"](m)(x).sum()), (x3,)),
    "cond twice": (lambda m: m.hessian(lambda x: FUNCTIONS["cond"](m)(x).sum()), (x3,)),
    "while forward twice": (
        lambda m: m.jacfwd(
            m.jacfwd(lambda x: m.lax.while_loop(lambda v: v.sum() < 9, lambda v: v * v + 1, x))
        ),
        (x3,),
    ),
    # --- custom rules ---
    "custom_gradient": (
        lambda m: m.vmap(m.grad(m.custom_gradient(lambda x: (x**2, lambda ct: (ct * x * 5,))))),
        (x3,),
    ),
    "linear_transpose": (
        lambda m: lambda x: m.linear_transpose(lambda v: m.numpy.cumsum(v) * 2, x)(x),
        (x3,),
    ),
    "closure_convert": (
        lambda m: (
            lambda x: m.grad(
                lambda v: (lambda f, consts: f(x, *consts).sum())(
                    *m.closure_convert(lambda u: u * v, x)
                )
            )(x)
        ),
        (x3,),
    ),
    "nondiff_argnums": (
        lambda m: _nondiff(m),
        (x3,),
    ),
    "symbolic zeros": (
        lambda m: _symbolic(m),
        (x3,),
    ),
    # --- named axes ---
    "psum": (
        lambda m: m.vmap(lambda v: v / m.lax.psum(v, "i") + m.lax.axis_index("i"), axis_name="i"),
        (m23,),
    ),
    "grad of psum": (
        lambda m: m.grad(
            lambda x: m.vmap(lambda v: m.lax.pmean(v * v, "i").sum(), axis_name="i")(x).sum()
        ),
        (m23,),
    ),
    "all_gather": (
        lambda m: m.vmap(lambda v: m.lax.all_gather(v, "i") @ v, axis_name="i"),
        (np.float32([[1, 2], [3, 4]]),),
    ),
    "ppermute": (
        lambda m: m.vmap(m.jit(lambda v: m.lax.ppermute(v, "i", [(0, 1), (1, 0)])), axis_name="i"),
        (m23,),
    ),
    "two axes": (
        lambda m: m.vmap(m.vmap(lambda v: m.lax.psum(v, ("i", "j")), axis_name="j"), axis_name="i"),
        (m23,),
    ),
    "axis in scan": (
        lambda m: m.vmap(
            lambda v: m.lax.scan(lambda c, u: (c + m.lax.psum(u, "i"), c), 0.0, v), axis_name="i"
        ),
        (m23,),
    ),
    # --- checkpoint policies ---
    **{
        f"policy {name}": (
            lambda m, name=name: m.grad(
                lambda x: m.checkpoint(
                    lambda v: m.numpy.sin(m.numpy.outer(v, v) @ v).sum(),
                    policy=getattr(m.checkpoint_policies, name),
                )(x)
            ),
            (x3,),
        )
        for name in (
            "everything_saveable",
            "nothing_saveable",
            "dots_saveable",
            "dots_with_no_batch_dims_saveable",
        )
    },
    # --- vmap's axes ---
    "out_axes tree": (
        lambda m: m.vmap(
            lambda a, b: {"s": a * b, "t": b}, in_axes=(1, None), out_axes={"s": -1, "t": None}
        ),
        (m23, np.float32(3)),
    ),
    "in_axes tree": (
        lambda m: (
            lambda x: m.vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0, "b": None},))(
                {"a": x, "b": 2.0}
            )
        ),
        (x3,),
    ),
}


def _nondiff(m: Any) -> Any:
    f = m.custom_vjp(lambda g, x: g(x), nondiff_argnums=(0,))
    f.defvjp(lambda g, x: (g(x), x), lambda g, r, ct: (g(r) * ct,))
    return m.grad(lambda x: f(m.numpy.sin, x).sum())


def _symbolic(m: Any) -> Any:
    f = m.custom_jvp(lambda x, y: x * y)

    def rule(p: Any, t: Any) -> Any:
        assert type(t[1]).__name__ == "SymbolicZero"
        return f(*p), t[0] * 7

    f.defjvp(rule, symbolic_zeros=True)
    return m.grad(lambda x: f(x, 3.0).sum())


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    build, args = CASES[name]
    same(build, *args)
    same(lambda m: m.jit(build(m)), *args)


@pytest.mark.parametrize("wide", ["float64", "int64", "uint64", "complex128"])
def test_what_checkpoint_hands_through_is_as_programs_take_it(wide: str) -> None:
    x = np.arange(3).astype(wide)
    theirs, ours = (
        [str(y.dtype) for y in m.checkpoint(lambda a, b: (a, b, a + b))(x, x[1])] for m in BOTH
    )
    assert ours == theirs


@pytest.mark.parametrize("wide", ["float64", "int64", "uint64", "complex128"])
@pytest.mark.parametrize("rules", ["custom_jvp", "custom_vjp"])
def test_a_custom_function_sees_arrays_of_numpy_as_programs_take_them(
    rules: str, wide: str
) -> None:
    """Called with 64 bits outside 64-bit mode, the function itself gets 32, and so returns them."""
    x = np.arange(3).astype(wide)
    theirs, ours = (_seen_by_custom_function(m, rules, x) for m in BOTH)
    assert ours == theirs and "64" not in str(ours).replace("complex64", "")


def _seen_by_custom_function(m: Any, rules: str, x: Any) -> list[str]:
    """The dtypes that a custom function and its rule find in `x`, and of what comes out."""
    saw = []

    def double(x: Any) -> Any:
        saw.append(str(x.dtype))
        return x * 2

    f = getattr(m, rules)(double)
    if rules == "custom_jvp":
        f.defjvp(lambda p, t: (double(*p), t[0] * 2))
    else:
        f.defvjp(lambda x: (double(x), None), lambda r, ct: (ct * 2,))
    out = f(x)
    if x.dtype == "float64":
        m.grad(lambda x: f(x).sum())(x)
    return [*saw, str(out.dtype)]


@pytest.mark.parametrize("jitted", [False, True])
def test_forward_of_custom_vjp(jitted: bool) -> None:
    """There is no forward derivative of a custom_vjp function, of empty arrays neither."""

    def build(m: Any) -> Any:
        def f(x: Any) -> Any:
            return m.linearize(_custom_vjp(m), x)[1](x)

        return m.jit(f) if jitted else f

    raises(build, np.zeros((0,), "float32"))
    raises(build, x3)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", ["cond", "while", "scan", "no steps", "dropped", "dropped inside"])
def test_forward_of_custom_vjp_not_reached(name: str, jitted: bool) -> None:
    """A forward derivative that there is not may not stand where it would not be evaluated, unless
    nothing needs its result."""

    def build(m: Any) -> Any:
        g, lax = _custom_vjp(m), m.lax
        f = {
            "cond": lambda x: lax.cond(x > 5, g, lambda v: v, x),
            "while": lambda x: lax.while_loop(lambda v: v < 0, g, x),
            "scan": lambda x: lax.scan(lambda v, _: (g(v), None), x, None, length=2)[0],
            "no steps": lambda x: lax.scan(lambda v, _: (g(v), None), x, None, length=0)[0],
        }.get(name, lambda x: lax.cond(x > 5, g, lambda v: v, x))
        if name == "dropped":
            return m.jit(lambda x: m.jvp(f, (x,), (x,))[0])
        if name == "dropped inside":
            return m.jit(lambda x: m.jit(lambda v: m.jvp(f, (v,), (v,)))(x)[0])
        forward = lambda x: m.jvp(f, (x,), (x,))
        return m.jit(forward) if jitted else forward

    check = same if name in ("no steps", "dropped", "dropped inside") else raises
    check(build, np.float32(0.5))


def test_static_arguments_and_traces() -> None:
    """Static arguments select programs; a second call with equal ones does not run the function."""
    runs: list[Any] = []

    def fun(x: Any, n: int, flag: bool = False) -> Any:
        runs.append((n, flag))
        return x * n if flag else x + n

    f = P.jit(fun, static_argnums=1, static_argnames="flag")
    x = P.numpy.asarray(x3)
    for _ in range(2):
        assert np.array_equal(f(x, 2), x3 + 2)
        assert np.array_equal(f(x, 2, flag=True), x3 * 2)
        assert np.array_equal(f(x, 3), x3 + 3)
    assert runs == [(2, False), (2, True), (3, False)]


def test_donation() -> None:
    f = P.jit(lambda x: x + 1, donate_argnums=0)
    x = P.numpy.asarray(x3) * 1
    assert np.allclose(f(x), x3 + 1)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_staging() -> None:
    """Shapes without values, types of results, and evaluation while tracing."""
    spec = P.ShapeDtypeStruct((2, 3), np.dtype("float32"))
    out = P.eval_shape(lambda a: {"s": a.sum(0), "t": (a > 0, 1.0)}, spec)
    assert out["s"].shape == (3,) and out["t"][0].dtype == bool and out["t"][1].shape == ()
    jaxpr, shapes = P.make_jaxpr(lambda a: (a @ a.T).sum(), return_shape=True)(spec)
    assert shapes.shape == () and len(jaxpr.jaxpr.eqns) == 3

    @P.jit
    def f(x: Any) -> Any:
        with P.ensure_compile_time_eval():
            n = int(P.numpy.arange(3).sum())
        return x * n

    assert f(2.0) == 6.0


@pytest.mark.usefixtures("few_objects")
def test_programs_of_mapped_custom_rules_hold_no_traces() -> None:
    """A program keeps the functions of a custom rule for batches, and they no trace: it would be
    taken for a leak, and its memory kept."""

    @P.custom_jvp
    def by_jvp(x: Any) -> Any:
        return x * 2.0

    by_jvp.defjvp(lambda primals, tangents: (by_jvp(*primals), tangents[0] * 2.0))

    @P.custom_vjp
    def by_vjp(x: Any) -> Any:
        return x * 2.0

    by_vjp.defvjp(lambda x: (by_vjp(x), None), lambda _, ct: (ct * 2.0,))
    for fun in (by_jvp, by_vjp):
        with P.checking_leaks():
            f = P.jit(lambda x, fun=fun: P.jit(lambda y: P.vmap(fun)(y * x))(x))
            np.testing.assert_array_equal(f(np.ones(3, np.float32)), np.full(3, 2.0))


@pytest.mark.usefixtures("few_objects")
def test_leaks() -> None:
    """A tracer that outlives its trace is recognised wherever it is used."""
    kept: list[Any] = []
    P.jit(lambda x: kept.append(x))(1.0)
    P.vmap(lambda x: (kept.append(x), x)[1])(P.numpy.ones(3))
    P.grad(lambda x: (kept.append(x), x)[1])(1.0)
    for t in kept:
        with pytest.raises(P.errors.UnexpectedTracerError):
            t + 1
        with pytest.raises(P.errors.UnexpectedTracerError):
            P.jit(lambda y, t=t: y + t)(1.0)
    with P.checking_leaks():
        for transform in (P.jit, P.vmap, P.grad):
            f = transform(lambda x: (kept.append(x * 1), x.sum())[1])
            with pytest.raises(Exception, match="Leaked trace"):
                f(P.numpy.ones(3))
            transform(lambda x: (x * 1).sum())(P.numpy.ones(3))


def test_threads() -> None:
    """Threads that trace, differentiate and map at once do not see each other's traces."""
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(5):
            f = P.jit(P.vmap(P.grad(lambda x: (P.numpy.sin(x) * k + x * x).sum())))
            results[k] = f(P.numpy.ones((2, 3)) * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(6):
        assert np.allclose(results[k], np.cos(k) * k + 2 * k, atol=1e-5)


def test_numbers_and_weak_arrays_share_calls() -> None:
    """A Python number and an array of its (weak) type meet the same compiled call, in
    either order.
    """
    for value, other in ((2.25, -0.5), (2 + 1j, 0.5j)):
        x = P.numpy.asarray(np.asarray(value, "complex64" if type(value) is complex else "float32"))
        weak = P.numpy.asarray(other)
        for first, second in ((weak, other), (other, weak)):
            f = P.jit(lambda a, b: a * b + 0)
            assert f(x, first) == f(x, second) == value * other
            assert f(first, x) == f(second, x) == value * other
            assert np.asarray(weak) == other
        assert x * weak == x * other == other * x == weak * x == value * other


def _recording_calls(package: Any, log: list[str]) -> dict[str, Any]:
    """Functions with backward rules that give a constant, or None, beside what calls them."""

    def make(name: str, gives: float | None) -> Any:
        @package.custom_vjp
        def f(x: Any) -> Any:
            return x * 2.0

        def bwd(x: Any, ct: Any) -> Any:
            log.append(name)
            return (None if gives is None else package.numpy.full_like(x, gives),)

        f.defvjp(lambda x: (f(x), x), bwd)
        return f

    f, h, lax = make("f", 7.0), make("h", None), package.lax
    return {
        "not used": lambda x: (f(x), x * 3.0)[1],
        "stopped": lambda x: lax.stop_gradient(f(x)) + x,
        "no cotangent": lambda x: h(f(x)) + x,
        "through arithmetic": lambda x: h(f(x) * 5.0) + x,
        "through integers": lambda x: (f(x) > 1).astype(float) * x,
        "in jit": lambda x: h(package.jit(f)(x)) + x,
        "in scan": lambda x: h(lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]) + x,
        "in cond": lambda x: h(lax.cond(x > 0, f, lambda v: v, x)) + x,
        "in remat": lambda x: h(package.checkpoint(f)(x)) + x,
    }


def test_backward_rules_without_cotangents() -> None:
    """A backward rule runs as in JAX, with zeros, where no cotangent reaches it."""
    ours: list[str] = []
    theirs: list[str] = []
    programs, oracle = _recording_calls(P, ours), _recording_calls(jax, theirs)
    for name, program in programs.items():
        ours.clear()
        theirs.clear()
        assert float(P.grad(program)(1.5)) == float(jax.grad(oracle[name])(1.5)), name
        assert ours == theirs, name


def test_integer_results_take_any_cotangent_of_their_shape() -> None:
    for package in (P, jax):
        np_ = package.numpy
        _, back = package.vjp(lambda x: (x * 2, (x * 2).astype(int)), np_.ones(3))
        for ct in (np_.arange(3), np_.ones(3), np.zeros(3, package.dtypes.float0)):
            (x,) = back((np_.ones(3), ct))
            assert np.asarray(x).tolist() == [2.0] * 3
        with pytest.raises(ValueError, match="unexpected JAX type"):
            back((np_.ones(3), np_.arange(4)))


def test_backward_rules_get_arrays() -> None:
    @P.custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defvjp(lambda x: (f(x), 3.0), lambda res, ct: (ct.reshape(()) * res,))
    assert float(P.grad(f)(1.5)) == 3.0
    assert float(P.jit(P.grad(f))(1.5)) == 3.0


def test_methods_of_traced_values_are_those_of_arrays() -> None:
    """No attribute of a tracer hides a method of arrays."""
    x = P.numpy.arange(6.0).reshape(2, 3)
    public = [n for n in dir(x) if not n.startswith("_") and n != "flat"]
    methods = {n for n in public if callable(getattr(x, n))}
    hidden: dict[str, list[str]] = {}

    def look(t: Any) -> Any:
        hidden[type(t).__name__] = [n for n in methods if not callable(getattr(t, n, len))]
        return (t * 1.0).sum()

    P.jit(P.grad(look))(x)
    P.vmap(look)(x)
    P.jit(look)(x)
    assert len(hidden) >= 3 and not any(hidden.values()), hidden
    np.testing.assert_allclose(P.jit(lambda x: x.var(axis=0))(x), x.var(axis=0))


def test_linearize_drops_tangents_that_do_not_depend_on_the_input() -> None:
    """A custom_jvp rule may give any: they are no part of a linear function. As in JAX."""

    def programs(lib: Any) -> list[Any]:
        x, c = lib.numpy.arange(3.0), lib.numpy.ones(3)

        @lib.custom_jvp
        def f(x: Any, y: Any) -> Any:
            return x * 2, y * y

        @f.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            return f(*primals), (tangents[0] * 2, tangents[1] * lib.numpy.inf + 7)

        def g(x: Any) -> Any:
            return f(x, c)

        def slope(h: Any) -> Any:
            return lambda x: lib.linearize(h, x)[1](x)

        return [
            str(lib.make_jaxpr(slope(g))(x)),
            *slope(g)(x),
            *slope(lib.jit(g))(x),
            *slope(lib.checkpoint(g))(x),
            *lib.jit(slope(g))(x),
            *lib.jvp(g, (x,), (x,))[1],
        ]

    for got, want in zip(programs(P), programs(J), strict=True):
        if isinstance(want, str):
            assert got == want
        else:
            np.testing.assert_array_equal(got, want)


MADE = {
    "a number": lambda np_: np_.asarray(False),
    "a weak number": lambda np_: np_.array(1.5),
    "a list": lambda np_: np_.array([1, 2]),
    "an array of NumPy": lambda np_: np_.asarray(np.ones(2), copy=False),
    "a scalar type": lambda np_: np_.float32(1),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_arrays_made_in_a_traced_function_are_traced(made: Any) -> None:
    """As in JAX: so that what a function does cannot depend on whether it is being compiled. Under
    other transformations, and outside, they are computed."""
    for ns in (J, P):
        seen: list[bool] = []

        def function(x: Any, ns: Any = ns, seen: list[bool] = seen) -> Any:
            out = made(ns.numpy)
            seen.append(type(out).__name__ != "ArrayImpl")
            return x + out.sum()

        ns.jit(function)(1.0)
        ns.jit(ns.vmap(ns.grad(function)))(np.ones(2))
        ns.grad(function)(1.0)
        ns.vmap(function)(np.ones(2))
        function(1.0)
        assert seen == [True, True, False, False, False]
    texts = [
        str(ns.make_jaxpr(lambda x, ns=ns: (made(ns.numpy), made(ns.numpy) + x))(1.0))
        for ns in (J, P)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("ns", [J, P])
def test_arrays_made_while_tracing_are_no_conditions(ns: Any) -> None:
    with pytest.raises(ns.errors.TracerBoolConversionError):
        ns.jit(lambda: 1 if ns.numpy.asarray(False) else 2)()
    with ns.ensure_compile_time_eval():
        assert not ns.numpy.asarray(False)


def test_derivatives_of_integers() -> None:
    """Rows of a Jacobian for an input without derivatives are zeros of its dtype; linear functions
    of integers have transposes through jitted functions, too."""
    for lib in (pullback, jax):
        x = lib.numpy.arange(3)
        rows = lib.jacrev(lambda x, y: x * y, argnums=(0, 1), allow_int=True)(x, lib.numpy.ones(3))
        assert [r.dtype for r in rows] == [np.int32, np.float32] and not rows[0].any()
        (back,) = lib.linear_transpose(lib.numpy.cumsum, x)(x)
        assert back.dtype == np.int32 and back.tolist() == [3, 3, 2]


def test_arguments_that_are_not_there() -> None:
    for lib in (pullback, jax):
        for kind, rule in (("custom_jvp", "defjvp"), ("custom_vjp", "defvjp")):
            f = getattr(lib, kind)(lambda x, y: x, nondiff_argnums=(5,))
            getattr(f, rule)(*[lambda *args: args] * (1 + (kind == "custom_vjp")))
            with pytest.raises(IndexError, match="tuple index out of range"):
                f(1.0, 2.0)
        with pytest.raises(ValueError, match="different lengths of tuple"):
            lib.checkpoint(lambda x, y: x * y, prevent_cse=(True,))(1.0, 2.0)
        with pytest.raises(TypeError, match="prevent_cse must be a bool or"):
            lib.checkpoint(lambda x, y: x * y, prevent_cse=3)(1.0, 2.0)


def test_keywords_only_of_custom_rules_keep_their_defaults() -> None:
    def seen(m: Any) -> Any:
        f = m.custom_jvp(lambda x, *, scale=3.0: x * scale)
        f.defjvp(lambda primals, tangents: (f(*primals), 5.0 * tangents[0]))
        g = m.custom_vjp(lambda x, n=2.0, *, scale=3.0: x * n * scale)
        g.defvjp(lambda x, n: (g(x, n), n), lambda n, ct: (7.0 * ct * n, None))
        found = [f(2.0), m.grad(f)(2.0), g(2.0), m.grad(g)(2.0), m.grad(g)(2.0, n=4.0)]
        for h in (f, g):
            with pytest.raises(TypeError, match="could not be resolved"):
                h(2.0, scale=4.0)
        return [float(x) for x in found]

    assert seen(P) == seen(J)


_OPERANDS = {"number": 1.5, "int": 2, "array": None, "numpy": np.float32(1.5), "wide": np.ones(2)}


@pytest.mark.parametrize("operand", _OPERANDS)
def test_what_is_handed_on_comes_back_as_it_was_given(operand: str) -> None:
    def run(P: Any) -> list[Any]:
        N = P.numpy
        x = N.float32(1.5) if operand == "array" else _OPERANDS[operand]
        f = lambda y: (N.sum(y * y) * 1.0, (y, 3.0, np.float32(2)))
        y, _, aux = P.vjp(f, x, has_aux=True)
        out = [y, aux, P.vjp(lambda y: (y, 2), x)[0]]
        if operand == "int":
            return out
        ct = N.ones_like(x)
        _, _, aux = P.linearize(f, x, has_aux=True)
        out += [aux, P.linearize(lambda y: y, x)[0], P.linearize(lambda y: y, x)[1](ct) is ct]
        out += [*P.jvp(f, (x,), (ct,), has_aux=True), P.jvp(lambda y: y, (x,), (x,))]
        out += [P.grad(f, has_aux=True)(x), P.value_and_grad(f, has_aux=True)(x)]
        return [*out, P.jit(P.grad(f, has_aux=True))(x), P.jacrev(f, has_aux=True)(x)]

    def kind(x: Any) -> str:
        # JAX's vjp hands on floats and arrays of classes of its own
        plain = next((t for t in (bool, int) if isinstance(x, t)), None)
        if plain is None and isinstance(x, float) and not isinstance(x, np.generic):
            plain = float
        numpys = isinstance(x, np.generic) or type(x) is np.ndarray
        what = plain or (type(x) if numpys else "array")
        return f"{what} {getattr(x, 'weak_type', None) if what == 'array' else ''}"

    want, got = (J.tree.map(kind, run(package)) for package in (J, P))
    assert got == want


@pytest.mark.parametrize("x", [1.5, np.float32(1.5)])
def test_derivatives_are_as_weak_as_jaxs(x: Any) -> None:
    def run(P: Any) -> list[Any]:
        N = P.numpy
        functions = [
            lambda x: P.lax.cond(x > 0, lambda x: x * x, lambda x: x, x),
            lambda x: P.lax.switch(1, [P.lax.sin, P.lax.cos], x),
            lambda x: P.jit(lambda x: x * x)(x),
            lambda x: P.checkpoint(lambda x: P.lax.sin(x) * x)(x),
            lambda x: N.where(x > 0, x * x, x),
            lambda x: N.broadcast_to(x, (3,))[1],
            lambda x: x**2.5,
            lambda x: N.float32(2) * x,
        ]
        out = []
        for f in functions:
            pull = P.vjp(f, x)[1]
            out += [P.grad(f)(x), P.jit(P.grad(f))(x), *pull(N.asarray(f(x)))]
            out += [P.jacfwd(f)(x), P.jacrev(f)(x), P.hessian(f)(x), P.jvp(f, (x,), (x,))[1]]
        for f in functions[:6]:  # a firm cotangent of a weak result
            out += P.vjp(f, x)[1](N.float32(1))
        return [y.weak_type for y in out]

    assert run(P) == run(J)


# ---- the functions that derivatives return are pytrees


def test_linear_functions_pass_through_jit() -> None:
    f = lambda x: 2.0 * P.numpy.sin(x)
    apply = P.jit(lambda g, x: g(x))
    made = P.jit(lambda x: (P.linearize(f, x)[1], P.vjp(f, x)[1]))(1.0)
    lin, pull = made
    np.testing.assert_allclose(apply(lin, 3.0), 6.0 * np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(apply(pull, 3.0)[0], 6.0 * np.cos(1.0), rtol=1e-6)
    turned = P.jit(lambda a: P.linear_transpose(lambda x: a * x, 1.0))(2.0)
    assert apply(turned, 3.0) == (6.0,)
    for g in (lin, turned):
        assert isinstance(g, P.tree_util.Partial) and len(P.tree.leaves(g)) == 1
    assert "mul" in str(lin.func.args[0])


def test_what_a_vjp_keeps_can_be_looked_at_and_replaced() -> None:
    x, w = P.numpy.arange(3.0), P.numpy.arange(3.0) + 1
    _, pull = P.vjp(lambda d, w: P.numpy.sin(d["x"]) * w + d["b"], {"x": x, "b": 1.0}, w)
    jaxs = J.vjp(
        lambda d, w: J.numpy.sin(d["x"]) * w + d["b"],
        {"x": J.numpy.ones(3), "b": 1.0},
        J.numpy.ones(3),
    )[1]
    assert pull.args_res[1] is w and len(pull.opaque_residuals) == 2
    assert len(jaxs.opaque_residuals) == 2 and len(P.tree.leaves(pull)) == 3
    _, pull = P.vjp(lambda x, w: x * w, x, w)
    assert [r is a for r, a in zip(pull.args_res, (x, w), strict=True)] == [True, True]
    pull.args_res[0] = x * 0 + 5
    np.testing.assert_array_equal(pull(x)[1], 5 * np.arange(3.0))
    doubled = P.tree.map(lambda r: 2 * r, pull)
    np.testing.assert_array_equal(doubled(x)[0], 2 * np.arange(3.0) * w)


# ---- conversions, leaks, rules that are missing


@pytest.mark.parametrize("convert", [int, float, complex, bool])
def test_conversions_of_traced_arrays_fail_as_those_of_arrays_do(convert: Any) -> None:
    for shape in ((2,), (0,)):
        texts = []
        for traced in (False, True):
            call = P.jit(convert) if traced else convert
            with pytest.raises((TypeError, ValueError)) as caught:
                call(P.numpy.ones(shape))
            texts.append((type(caught.value), str(caught.value).split(" Fix")[0]))
        assert texts[0] == texts[1]


def test_a_leak_is_traced_to_who_holds_it() -> None:
    class Model:
        def __init__(self) -> None:
            self.cache: dict[str, Any] = {}

    model = Model()

    def sketch(x):
        def later():
            return x

        model.cache["hi"] = [later]
        return x

    with P.checking_leaks(), pytest.raises(Exception, match="Leaked trace BatchTrace") as caught:
        P.vmap(sketch)(P.numpy.arange(3))
    text = str(caught.value)
    assert "(later) closed-over variable x" in text and "['hi']" in text and ">.cache" in text


def test_rules_that_a_primitive_does_not_have() -> None:
    foo = P.extend.core.Primitive("foo")
    call = lambda x: foo.bind(x)
    for run, said in (
        (call, "Evaluation rule for 'foo' not implemented"),
        (P.jit(call), "Abstract evaluation for 'foo' not implemented"),
        (P.grad(call), "Differentiation rule for 'foo' not implemented"),
        (P.vmap(call), "Batching rule for 'foo' not implemented"),
    ):
        with pytest.raises(NotImplementedError) as caught:
            run(P.numpy.ones(1)) if said.startswith("B") else run(1.0)
        assert str(caught.value).startswith(said)
    foo.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match=" rule for primitive 'foo' not found"):
        P.jit(call)(1.0)
    foo.def_abstract_eval(lambda x: [x])
    with pytest.raises(ValueError, match=r"should return a tuple or a list iff foo"):
        P.jit(lambda x: foo.bind(x))(1.0)


def _asked(ask: Any, x: Any) -> Any:
    try:
        return ask(x)
    except RuntimeError as error:
        return type(error).__name__, "deleted" in str(error)


def test_deleted_arrays_lie_nowhere() -> None:
    ask = [
        lambda x: x.devices(), lambda x: x.device, lambda x: x.addressable_shards,
        lambda x: x.addressable_data(0), lambda x: x.is_ready(), lambda x: x.block_until_ready(),
        lambda x: x.is_fully_replicated, lambda x: x.shape, lambda x: x.nbytes,
    ]  # fmt: skip
    found = []
    for m in (J, P):
        x = m.numpy.arange(3.0)
        m.jit(lambda x: x * 2, donate_argnums=0)(x)  # what `delete` deleted kills JAX's process
        found.append([_asked(a, x) for a in ask])
    assert found[0] == found[1]


def test_arrays_of_objects_that_stand_for_arrays() -> None:
    class Held:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __jax_array__(self) -> Any:
            return self.value

        dtype = property(lambda self: self.value.dtype)
        shape = property(lambda self: self.value.shape)

    x = Held(P.numpy.array(1))
    np.testing.assert_array_equal(P.numpy.array(((x, x), [x, x])), np.ones((2, 2)))


REST = {"t": 7.0, "x": 5.0, "u": 6.0}
NAMED: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "out of order": ({}, (1.0, 2.0), {**REST, "y": {"b": 1.0, "a": 2.0}, "z": 3.0}),
    "static number": ({"static_argnums": 0}, (1.0, 2.0, 3.0), {"y": 4.0, **REST}),
    "static name": ({"static_argnames": "y"}, (1.0, 2.0, 3.0), {**REST, "y": 4.0}),
    "static both": (
        {"static_argnums": 0, "static_argnames": ("y", "t")},
        (1.0,),
        {"y": 4.0, **REST, "b": 2.0, "z": 1.0},
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_names_of_arguments(what: str) -> None:
    """Those given by keyword are in the order of the leaves, whatever the order of the call."""
    options, args, kwargs = NAMED[what]
    names = []
    for m in (J, P):

        def f(a: Any, b: Any, z: Any, y: Any, x: Any, *, u: Any, t: Any) -> Any:
            return b

        def loose(a: Any, *rest: Any, **others: Any) -> Any:
            return a

        infos = [
            m.jit(g, **options).trace(*args, **kwargs).jaxpr.jaxpr.debug_info for g in (f, loose)
        ]
        names.append([(i.traced_for, i.func_name, tuple(i.arg_names)) for i in infos])
    assert names[0] == names[1]


def _nest(m: Any) -> Any:
    def call(f: Any, *args: Any) -> Any:
        f = m.custom_jvp(f)
        f.defjvp(lambda p, t: (f(*p), sum(t)))
        return f(*args)

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            q = call(lambda x: y, x) + call(lambda: y)
            return call(lambda w: call(m.numpy.sin, x) * y, 1.0) + q

        return call(inner, x)

    return outer


def _rule_that_closes_over_the_mapped(m: Any) -> Any:
    def h(z: Any) -> Any:
        def one(x: Any) -> Any:
            g = m.custom_jvp(lambda z: z * x)
            g.defjvp(lambda p, t: (g(*p), 2 * x * t[0]))
            return g(z)

        return m.vmap(one)(m.numpy.arange(3.0))

    return h


def _zero_from_a_rule(m: Any) -> Any:
    f = m.custom_jvp(lambda x, y: x * y)
    f.defjvp(lambda p, t: (f(*p), t[1]), symbolic_zeros=True)
    return m.grad(lambda x: m.vmap(f)(x, x * 0 + 2).sum() + m.vmap(f)(m.numpy.ones(3), x).sum())


@pytest.mark.parametrize("jitted", [False, True])
def test_custom_rules_under_vmap(jitted: bool) -> None:
    """Their functions and rules may close over what is mapped, and give symbolic zeros."""
    found = []
    for m in (J, P):
        wrap = m.jit if jitted else lambda f: f
        h = _rule_that_closes_over_the_mapped(m)
        x = np.arange(1, 4, dtype=np.float32)
        found.append([
            wrap(m.vmap(_nest(m)))(x), wrap(m.jacfwd(h))(2.0), wrap(m.jacrev(h))(2.0),
            wrap(m.vmap(m.jacrev(h)))(x), wrap(_zero_from_a_rule(m))(x),
        ])  # fmt: skip
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
