"""Differences from JAX in loops, branches, checkpoints and stages that probing has shown; each made
small.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.ad_checkpoint
import jax.numpy
import numpy as np
import pytest

import pullback
import pullback.ad_checkpoint
import pullback.numpy

A = np.arange(3.0, dtype="float32")


def weak_types(m: Any) -> dict[str, Any]:
    """Derivatives of loops that start weakly typed."""
    scan = m.lax.scan

    def last(x: Any) -> Any:
        return scan(lambda c, a: (c * a, c), x, A)[0]

    def both(x: Any, y: Any) -> Any:
        c, ys = scan(lambda c, a: (c * a * y, c), x, A)
        return c.sum() + ys.sum()

    def doubled(x: Any) -> Any:
        c, ys = scan(lambda c, a: (c * a, c * 2), x, A)
        return ys.sum() + c

    return {
        "last": lambda: m.grad(last)(2.0),
        "last jitted": lambda: m.jit(m.grad(last))(2.0),
        "pulled back": lambda: m.jit(lambda x: m.vjp(last, x)[1](1.0))(2.0),
        "both": lambda: m.grad(both, (0, 1))(2.0, 3.0),
        "both, one strong": lambda: m.grad(both, (0, 1))(np.float32(2), 3.0),
        "both, other strong": lambda: m.grad(both, (0, 1))(2.0, np.float32(3)),
        "stacked": lambda: m.grad(lambda x: scan(lambda c, a: (c * a, c), x, A)[1].sum())(2.0),
        "doubled": lambda: m.grad(doubled)(2.0),
        "promoted": lambda: scan(lambda c, _: (c * 1.5, c), 1, None, length=2),
        "promoted in a loop": lambda: m.lax.fori_loop(
            0, 3, lambda i, c: (c[0] + 0.5, c[0]), (1, 2.0)
        ),
        "promoted until": lambda: m.lax.while_loop(lambda c: c < 9, lambda c: c * 1.5, 1),
        "hessian": lambda: m.hessian(both)(2.0, 3.0),
    }


@pytest.mark.parametrize("name", weak_types(pullback))
def test_weak_types(name: str) -> None:
    wanted = jax.tree.leaves(weak_types(jax)[name]())
    got = pullback.tree.leaves(weak_types(pullback)[name]())
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    assert [x.weak_type for x in got] == [x.weak_type for x in wanted]


def test_transposes_of_branches_that_lanes_choose() -> None:
    """JAX has none; loops of unknown length need them, whose transposes JAX lacks too."""
    which, by = np.array([True, False]), np.array([2.0, 0.0], "float32")

    def lane(p: Any, d: Any, t: Any) -> Any:
        return pullback.lax.cond(p, lambda t: t / d, lambda t: t * 3.0, t)

    transposed = pullback.linear_transpose(lambda t: pullback.vmap(lane)(which, by, t), by)
    np.testing.assert_array_equal(transposed(np.ones(2, "float32"))[0], [0.5, 3.0])

    def loop(x: Any, n: Any) -> Any:
        branch = lambda c: pullback.lax.cond(c > 2, lambda c: c * 1.5, lambda c: c * c, c)
        return pullback.lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, branch(s[1])), (0, x)
        )[1]

    pulled = pullback.jit(lambda x, n: pullback.vjp(loop, x, n)[1](1.0)[0])
    xs, ns = np.array([1.5, 0.5, 3.0], "float32"), np.array([3, 2, 4])
    np.testing.assert_allclose(
        pullback.vmap(pulled)(xs, ns),
        [pulled(x, n) for x, n in zip(xs, ns, strict=True)],
        rtol=1e-6,
    )


def checkpoint_traces(m: Any) -> list[int]:
    """How often functions are traced that are checkpointed again and again."""
    count = [0]
    found = []

    def f(x: Any, k: Any = 2) -> Any:
        count[0] += 1
        return m.numpy.sin(x) * k

    def traces(run: Any) -> None:
        before = count[0]
        run()
        found.append(count[0] - before)

    g = m.checkpoint(f)
    for _ in range(2):
        traces(lambda: g(1.0))
        traces(lambda: m.grad(g)(1.0))
        traces(lambda: m.checkpoint(f)(1.0))
        traces(lambda: g(1.0, k=3))
        traces(lambda: m.grad(lambda x: m.checkpoint(f)(x))(1.0))
        traces(lambda: m.vmap(g)(A))
    static = m.checkpoint(f, static_argnums=1)
    for k in (2, 2, 3, 3):
        traces(lambda k=k: static(1.0, k))
    return found


def test_checkpoints_are_traced_once() -> None:
    assert checkpoint_traces(pullback) == checkpoint_traces(jax)


def test_checkpoints_with_static_arguments_that_cannot_be_hashed() -> None:
    g = pullback.checkpoint(lambda x, k: x * k[0], static_argnums=1)
    assert [float(g(2.0, [k])) for k in (2, 3)] == [4.0, 6.0]
    assert float(pullback.checkpoint(lambda x, k: x * k, static_argnums=1)(2, True)) == 2
    h = pullback.checkpoint(lambda x, k: x + k, static_argnums=1)
    assert [h(1, k).dtype.name for k in (1, 1.0)] == ["int32", "float32"]  # equal, but not the same


def names(m: Any) -> list[Any]:
    """What the parts of programs are called."""
    jnp, lax = m.numpy, m.lax

    def info(closed: Any) -> Any:
        d = getattr(closed, "jaxpr", closed).debug_info
        return d.traced_for, d.arg_names, d.result_paths

    def of(f: Any, *args: Any) -> Any:
        return m.make_jaxpr(f)(*args)

    def step(c: Any, a: Any) -> Any:
        return (c[1] + 1, c[0] * jnp.sum(a["q"])), None

    two = of(lambda x: lax.scan(step, (x, x), {"q": A}), 1.0)
    loop = of(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[1], c[0]), (x, x)), 1.0)
    call = of(lambda y: m.jit(lambda x, *z, **r: {"z": x, "y": (z, r)})(y, y, k=y), 1.0)
    again = m.checkpoint(lambda x, k, *, z: {"q": x + k[0] + z})
    fixed = m.checkpoint(lambda x, y, k: x * y + k, static_argnums=(0,))
    return [
        info(two),
        info(two.eqns[0].params["jaxpr"]),
        info(loop.eqns[0].params["body_jaxpr"]),
        info(loop.eqns[0].params["cond_jaxpr"]),
        info(call.eqns[0].params["jaxpr"]),
        info(of(lambda y: fixed(2, y, [y][0]), 1.0).eqns[0].params["jaxpr"]),
        info(of(lambda y: again(y, [y], z=y), 1.0).eqns[0].params["jaxpr"]),
    ]


def test_names_of_arguments_and_results() -> None:
    assert names(pullback) == names(jax)


CONCRETE = {
    "scan": (lambda m: m.lax.scan(lambda c, a: (c if a["q"] > 0 else 1, None), 0.0, {"q": A}), "a"),
    "while": (lambda m: m.lax.while_loop(lambda c: True, lambda c: [c[0]][int(c[1])], (1, 2)), "c"),
    "fori": (lambda m: m.lax.fori_loop(0, 3, lambda i, c: c if i > 0 else 1, 1.0), "i"),
    "cond": (lambda m: m.lax.cond(True, lambda u: u if u else 1, lambda v: v, 1.0), "u"),
    "map": (lambda m: m.lax.map(lambda e: e if e else 1.0, A), "e"),
    "checkpoint": (lambda m: m.checkpoint(lambda x, y: x if y else y)(1.0, 2.0), "y"),
}


@pytest.mark.parametrize("name", CONCRETE)
def test_messages_name_the_argument_of_the_users_function(name: str) -> None:
    call, argument = CONCRETE[name]
    with pytest.raises(jax.errors.ConcretizationTypeError):
        call(jax)
    with pytest.raises(pullback.errors.ConcretizationTypeError, match=f"the argument {argument}"):
        call(pullback)


def test_compiled_calls_name_the_argument() -> None:
    f = pullback.jit(lambda x, y, **kw: x["a"] + y).lower({"a": 1.0}, 2.0, k=3.0).compile()
    with pytest.raises(
        TypeError, match=r"Argument 'x\['a'\]' compiled with float32\[\] and called"
    ):
        f({"a": 1}, 2.0, k=3.0)
    with pytest.raises(TypeError, match=r"Argument 'kw\['k'\]' compiled"):
        f({"a": 1.0}, 2.0, k=A)
    with pytest.raises(TypeError, match=r"at args\[0\], .* metadata does not match"):
        f({"b": 1.0}, 2.0, k=3.0)
    with pytest.raises(TypeError, match=r"at kwargs, .* symmetric difference of key sets: \{'k'\}"):
        f({"a": 1.0}, 2.0)


def test_named_call_takes_functions() -> None:
    with pytest.raises(AttributeError):
        jax.named_call(3)
    with pytest.raises(TypeError, match="Expected a callable"):
        pullback.named_call(3)


def bad_input(m: Any) -> dict[str, tuple[Any, str]]:
    """Faults, and what the message says."""
    lax, jnp = m.lax, m.numpy
    two = m.custom_jvp(lambda x: {"a": x, "b": x})
    two.defjvp(lambda p, t: ({"a": p[0], "b": p[0]}, {"a": t[0], "b": jnp.ones(2)}))
    rules = m.custom_jvp(lambda a, x: x * a)
    rules.defjvps(lambda t, ans, a, x: t)
    plain = m.custom_vjp(lambda x: x)
    plain.defvjp(lambda x: (x, None), lambda r, ct: (ct,))
    pair = (jnp.ones(3), 1.0)
    swap = lambda state, x: ({"a": state["a"], "b": x * jnp.ones(2)}, None)
    component = "at output component "
    return {
        "carry of scan": (
            lambda: lax.scan(swap, {"a": 1.0, "b": 1.0}, A),
            r"The input carry component state\['b'\] has type float32\[\] but .* float32\[2\]",
        ),
        "carry of fori": (
            lambda: lax.fori_loop(0, 3, lambda i, val: (val[0], val[0]), pair),
            r"The input carry component val\[1\] has type float32\[\] but .* float32\[3\]",
        ),
        "carry of while": (
            lambda: m.jit(lambda n: lax.fori_loop(0, n, lambda i, v: v[None], 1.0))(3),
            r"The input carry component v has type float32\[\] but .* float32\[1\]",
        ),
        "structure of fori": (
            lambda: lax.fori_loop(0, 3, lambda i, val: (val, val), 1.0),
            r"The input carry component loop_carry\[1\] is a .* is a <class 'tuple'>",
        ),
        "text from scan": (lambda: lax.scan(lambda c, x: (c, {"a": "s"}), 1.0, A), component),
        "text from cond": (
            lambda: lax.cond(True, lambda x: [x, "s"], lambda x: [x], 1.0),
            component,
        ),
        "text from jit": (
            lambda: m.jit(lambda x: {"a": [x, "s"]})(1.0),
            component + r"\['a'\]\[1\]",
        ),
        "rule of a part": (
            lambda: m.jvp(two, (1.0,), (1.0,)),
            r"expecting tangent float32\[\] \(at the output\['b'\]\)",
        ),
        "too few rules": (
            lambda: m.grad(rules)(1.0, 2.0),
            "given 1 rules, but .* with 2 arguments",
        ),
        "too many arguments": (
            lambda: plain(1.0, 2.0),
            "to the custom_vjp-decorated function <lambda>",
        ),
        "no backward function": (
            lambda: m.grad(m.custom_gradient(lambda x: x))(1.0),
            r"must return a pair \(output, backward function\), but returned",
        ),
        "scan without its axis": (
            lambda: lax.associative_scan(lambda a, b: a.sum(), A),
            r"returned float32\[\] for elements of type float32\[1\]: axis 0",
        ),
        "name of text": (
            lambda: m.ad_checkpoint.checkpoint_name("x", "name"),
            "is not a valid JAX type",
        ),
    }


@pytest.mark.parametrize("name", bad_input(pullback))
def test_bad_input(name: str) -> None:
    with pytest.raises(Exception) as wanted:
        bad_input(jax)[name][0]()
    call, text = bad_input(pullback)[name]
    with pytest.raises(Exception, match=text) as got:
        call()
    assert type(got.value) is type(wanted.value)


def test_linear_transpose_gives_arrays() -> None:
    assert pullback.linear_transpose(lambda x: x + 1, 1.0)(1.0)[0].weak_type


@pytest.mark.parametrize("jitted", [True, False])
def test_forward_with_auxiliary_values(jitted: bool) -> None:
    def of(m: Any) -> list[Any]:
        f = lambda x, y: (m.numpy.sin(x) * y, {"q": x})
        forward, backward = m.fwd_and_bwd(f, argnums=(0, 1), has_aux=True, jitted=jitted)
        out, residuals, aux = forward(2.0, 3.0)
        return [out, aux["q"], *backward(residuals, 1.0)]

    np.testing.assert_allclose(of(pullback), of(jax), rtol=1e-6)


def without_jit(m: Any) -> dict[str, Any]:
    """Control flow that runs in Python."""
    lax, jnp = m.lax, m.numpy
    x = {"a": A}

    def until(c: Any) -> Any:
        return c + (1 if float(c) > 2 else 0.5)

    def step(c: Any, e: Any) -> Any:
        return c + float(e["a"]), {"y": c, "z": (e["a"], None)}

    slope = lambda v: lax.scan(lambda c, a: (c * a * v, c), v, A)[1].sum()
    lanes = lambda v: lax.while_loop(lambda c: c < 9, lambda c: 2 * c + 1, v)
    return {
        "scan": lambda: lax.scan(step, 1.0, x),
        "scan backwards": lambda: lax.scan(step, 1.0, x, reverse=True),
        "scan of no steps": lambda: lax.scan(step, 1.0, None, length=0),
        "scan of anything": lambda: lax.scan(lambda c, _: (jnp.ones(2), c), 1.0, None, length=1),
        "scan of no pair": lambda: lax.scan(lambda c, _: c, 1.0, None, length=1),
        "while": lambda: lax.while_loop(lambda c: c < 5, until, 0.0),
        "fori": lambda: lax.fori_loop(0, 3, lambda i, c: c + (1 if i > 1 else 2), 0),
        "fori of no steps": lambda: lax.fori_loop(3, 1, lambda i, c: c + i, 2.0),
        "map": lambda: lax.map(lambda v: (v * 2 if v > 1 else v, 1), A),
        "gradient": lambda: m.grad(slope)(2.0),
        "batch of scans": lambda: m.vmap(lambda v: lax.scan(lambda c, a: (c * a + v, c), v, A))(A),
        "batch of whiles": lambda: m.vmap(lanes)(A),
        "gradient of while": lambda: m.grad(
            lambda v: lax.while_loop(lambda c: c < 9, lambda c: c * v, v)
        )(2.0),
    }


@pytest.mark.parametrize("name", without_jit(pullback))
def test_disable_jit(name: str) -> None:
    """The bodies of loops get values, as those of branches and jitted functions do."""

    def run(m: Any) -> Any:
        with m.disable_jit():
            return without_jit(m)[name]()

    try:
        wanted = run(jax)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            run(pullback)
        return
    got = run(pullback)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for x, y in zip(pullback.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
        assert getattr(x, "weak_type", None) == getattr(y, "weak_type", None)


def test_fori_loops_trace_a_body_once() -> None:
    def traces(m: Any) -> list[int]:
        count = [0]

        def body(i: Any, c: Any) -> Any:
            count[0] += 1
            return c + i

        bounds = [(0, 3), (0, 3), (1, 5), (m.numpy.int32(0), m.numpy.int32(3))] * 2
        found = []
        for low, high in bounds:
            m.lax.fori_loop(low, high, body, 0.0)
            m.jit(lambda n: m.lax.fori_loop(0, n, body, 0.0))(high)
            found.append(count[0])
        return found

    assert traces(pullback) == traces(jax)


def traced_nondiff(m: Any) -> dict[str, Any]:
    """Traced values as arguments without derivatives of a custom_jvp function."""
    f = m.custom_jvp(lambda a, x: x * a, nondiff_argnums=(0,))
    f.defjvp(lambda a, p, t: (p[0] * a, t[0] * a * 10))
    g = m.custom_jvp(lambda h, d, x: h(x) * d["k"], nondiff_argnums=(0, 1))
    g.defjvp(lambda h, d, p, t: (h(p[0]) * d["k"], t[0] * d["k"] * 100))
    z = m.custom_jvp(lambda a, x: x * a, nondiff_argnums=(0,))
    z.defjvp(lambda a, p, t: (p[0] * a, t[0] * a * 10), symbolic_zeros=True)
    sin = m.numpy.sin
    return {
        "alone": lambda: m.grad(lambda a: f(a, 1.0))(2.0),
        "twice": lambda: m.grad(lambda a: f(a, a))(2.0),
        "both": lambda: m.grad(lambda a, x: f(a, x), (0, 1))(2.0, 3.0),
        "forward": lambda: m.jvp(lambda a, x: f(a, x), (2.0, 3.0), (1.0, 1.0)),
        "second order": lambda: m.hessian(lambda x: f(2.0, x) ** 2)(3.0),
        "batches": lambda: [m.vmap(lambda a: f(a, 1.0))(A), m.vmap(lambda a: f(a, a))(A)],
        "batch of gradients": lambda: m.vmap(m.grad(lambda x, a: f(a, x)), (None, 0))(2.0, A),
        "jitted": lambda: m.jit(lambda a: f(a, 2.0))(3.0),
        "in a tree": lambda: m.grad(lambda k, x: g(sin, {"k": k, "s": "t"}, x), (0, 1))(2.0, 3.0),
        "symbolic zeros": lambda: m.grad(lambda a, x: z(a, x), (0, 1))(2.0, 3.0),
    }


@pytest.mark.parametrize("name", traced_nondiff(pullback))
def test_traced_values_without_derivatives(name: str) -> None:
    wanted = jax.tree.leaves(traced_nondiff(jax)[name]())
    got = pullback.tree.leaves(traced_nondiff(pullback)[name]())
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_traced_values_without_derivatives_in_jitted_gradients() -> None:
    """Where JAX leaks them."""
    f = pullback.custom_jvp(lambda a, x: x * a, nondiff_argnums=(0,))
    f.defjvp(lambda a, p, t: (p[0] * a, t[0] * a * 10))
    assert float(pullback.jit(pullback.grad(lambda a: f(a, a)))(2.0)) == 20.0
    assert float(pullback.grad(pullback.jit(lambda a: f(a, a)))(2.0)) == 20.0


@pytest.mark.parametrize("n", [3, 40, 1000])
def test_a_carry_is_read_after_its_next_value_is_known(n: int) -> None:
    """A next value that does not depend on the carry, beside one that needs both: it must not be
    written in the carry's place before that is read."""
    numpy, lax = pullback.numpy, pullback.lax
    rows = numpy.asarray(np.random.RandomState(n).randn(4, n).astype("f4"))
    start = numpy.full(n, 100.0), numpy.zeros(n), numpy.ones(n)

    def body(carry: Any, row: Any) -> Any:
        old, _, seen = carry
        new = row * 2.0
        return (new, new - old, seen + old * new), None

    def by_number(k: Any, carry: Any) -> Any:
        return body(carry, rows[k])[0]

    wanted = start
    for row in np.asarray(rows):
        wanted = tuple(np.asarray(x) for x in body(wanted, row)[0])
    loops = {
        "scan": lambda start: lax.scan(body, start, rows)[0],
        "fori_loop": lambda start: lax.fori_loop(0, 4, by_number, start),
        "while_loop": lambda start: lax.while_loop(
            lambda c: c[0] < 4, lambda c: (c[0] + 1, by_number(c[0], c[1])), (0, start)
        )[1],
    }
    for name, loop in loops.items():
        for x, y in zip(pullback.jit(loop)(start), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, err_msg=name)


def linear_calls(m: Any) -> list[str]:
    @m.custom_vjp
    def product(x: Any, y: Any) -> Any:
        return x * y

    def backward(res: Any, g: Any) -> Any:
        return g * res[1], g * res[0]

    product.defvjp(lambda x, y: (x * y, (x, y)), backward)

    def tangent(f: Any) -> str:
        return str(m.make_jaxpr(lambda x: m.jvp(f, (x,), (x,)))(A))

    return [tangent(lambda x: product(x, m.numpy.cos(x))), tangent(lambda x: product(x, 2.0))]


def test_linear_calls_are_written_as_in_jax() -> None:
    """The operands without tangents are named, and no zeros are made for them."""
    assert linear_calls(pullback) == linear_calls(jax)


def test_sums_of_what_is_the_same_everywhere_and_effects_are_as_in_jax() -> None:
    found = []
    for m in (jax, pullback):
        count = m.vmap(lambda x, m=m: m.lax.psum(True, "i"), axis_name="i")(A)
        inner = m.make_jaxpr(lambda x, m=m: m.jit(m.numpy.sin)(x))(A)
        text = inner.pretty_print(use_color=False, print_effects=True)
        found.append((count.weak_type, count.tolist(), text))
    assert found[0] == found[1]


def test_second_derivatives_of_scans_follow_rules_of_functions() -> None:
    """A body is not taken apart for what can be computed before the loop. (JAX's second derivative
    of a scan loses a custom_jvp rule: one of a loop in Python does not.)"""
    jnp = pullback.numpy
    f = pullback.custom_vjp(lambda x, w: jnp.sin(x) * w)
    f.defvjp(lambda x, w: (f(x, w), (x, w)), lambda res, ct: (3 * jnp.cos(res[0]) * ct, ct))
    g = pullback.custom_jvp(jnp.cos)
    g.defjvp(lambda primals, tangents: (g(*primals), 2 * g(*primals) * tangents[0]))

    def step(c: Any, w: Any) -> Any:
        return g(f(c, jnp.exp(w)))

    def scanned(x: Any, w: Any) -> Any:
        return pullback.lax.scan(lambda c, _: (step(c, w), None), x, None, length=3)[0]

    def in_python(x: Any, w: Any) -> Any:
        return step(step(step(x, w), w), w)

    def second(loss: Any) -> Any:
        both = lambda x, w: sum(pullback.grad(loss, (0, 1))(x, w))
        return np.array(pullback.grad(both, (0, 1))(np.float32(0.4), np.float32(0.3)))

    np.testing.assert_allclose(second(scanned), second(in_python), rtol=1e-5)


def _traces_of_closures(m: Any) -> dict[str, list[int]]:
    """How often functions that close over tracers are traced, where each is used several times."""
    met: list[int] = []

    def noted(x: Any) -> Any:
        met.append(1)
        return x

    def calls(a: Any) -> Any:
        @m.jit
        def f(c: Any) -> Any:
            return noted(c) * a

        return f(1.0) + f(2.0) + m.grad(f)(3.0)

    def loops(a: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            return noted(c) * a, x

        return m.lax.scan(body, 1.0, A)[0] + m.lax.scan(body, 2.0, A)[0]

    def branches(a: Any) -> Any:
        def f(c: Any) -> Any:
            return noted(c) * a

        return m.lax.cond(a > 0, f, f, 1.0) + m.lax.cond(a > 1, f, f, 2.0)

    def again(a: Any) -> Any:
        @m.checkpoint
        def f(c: Any) -> Any:
            return noted(c) * a

        return f(1.0) + f(2.0)

    found = {}
    for fun in (calls, loops, branches, again):
        for change in (m.jit, m.grad, lambda f: m.vmap(f, axis_size=2, in_axes=None)):
            value = change(fun)(2.0)
            found[f"{fun.__name__} {len(found)}"] = [len(met), float(m.numpy.sum(value))]
            met.clear()
    return found


def test_closures_over_tracers_are_traced_once():
    assert _traces_of_closures(pullback) == _traces_of_closures(jax)


def test_closures_are_traced_again_where_their_variables_changed():
    """JAX computes with the first tracer, here these functions see what Python would."""
    lax, jit = pullback.lax, pullback.jit
    held: list[Any] = []

    @jit
    def rebound(a: Any, b: Any) -> Any:
        x = a

        def times(y: Any) -> Any:
            return y * x

        h = jit(lambda y: times(y))
        first, box = h(2.0), [a]

        def body(c: Any, y: Any) -> Any:
            return c * box[0], y

        scanned = lax.scan(body, 1.0, A)[0]
        x = box[0] = b
        held.append(h)
        return first, h(2.0), scanned, lax.scan(body, 1.0, A)[0]

    assert rebound(1.0, 10.0) == (2.0, 20.0, 1.0, 1000.0)
    with pytest.raises(pullback.errors.UnexpectedTracerError):
        held[0](2.0)  # its trace has ended
    assert rebound(2.0, 3) == (4.0, 6.0, 8.0, 27.0)
