"""Reverse mode through loops of unknown length: JAX has none, so the same loops of known length
are the oracle; with tapes that overflow as well as with ones that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import config, lax, numpy as jnp
from pullback.backends.llvm import compiler
from pullback.backends.llvm.target import host_target
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.control.expand import expand
from pullback.core.jaxpr import jaxprs_in_params
from pullback.loops.pipeline import compile_jaxpr

STEPS = [0, 1, 2, 15, 16, 17, 33, 40, 257, 300, 1000]
W = 0.3 * np.random.default_rng(0).standard_normal((4, 4)).astype("f4")
X = np.random.default_rng(1).standard_normal(4).astype("f4")


def loops(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A recurrence as a loop of unknown and of known length."""

    def step(w: Any, i: Any, y: Any) -> Any:
        return y * 0.99 + 0.02 * jnp.tanh(w @ y + jnp.sin(0.1 * i.astype("f4")))

    def unknown(w: Any, x: Any) -> Any:
        move = lambda s: (s[0] + 1, step(w, s[0], s[1]))
        return (lax.while_loop(lambda s: s[0] < n, move, (jnp.int32(0), x))[1] ** 2).sum()

    def known(w: Any, x: Any) -> Any:
        return (lax.fori_loop(0, n, lambda i, y: step(w, i, y), x) ** 2).sum()

    return unknown, known


def close(a: Any, b: Any, tol: float = 2e-5) -> None:
    for x, y in zip(pullback.tree.leaves(a), pullback.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tol, atol=tol)


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_equals_a_loop_of_known_length(limit: int) -> None:
    def f(n: Any, w: Any, x: Any) -> Any:
        step = lambda i, y: y * 0.99 + 0.02 * jnp.tanh(w @ y + jnp.sin(0.1 * i.astype("f4")))
        return (lax.fori_loop(0, n, step, x) ** 2).sum()

    with config.while_tape_bytes(limit):
        run = pullback.jit(pullback.value_and_grad(f, argnums=(1, 2)))
        for n in STEPS:
            close(run(n, W, X), pullback.value_and_grad(loops(n)[1], argnums=(0, 1))(W, X), 2e-4)


def test_bounded_memory() -> None:
    """A million iterations need the tape's few entries."""

    def f(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, y: y + 1e-6 * jnp.cos(x + y), x)

    run = pullback.jit(pullback.grad(f))
    n = 1_000_000
    got = float(run(0.3, n))
    y, dy = 0.3, 1.0  # forward mode, in float64
    for _ in range(n // 1000):
        s = np.sin(0.3 + y)
        y, dy = y + 1e-3 * np.cos(0.3 + y), dy - 1e-3 * s * (1 + dy)
    assert abs(got - dy) < 5e-3
    memory = run.lower(0.3, n).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 4 << 20


def test_eager() -> None:
    unknown, known = loops(20)
    close(pullback.grad(unknown)(W, X), pullback.grad(known)(W, X))


def test_under_other_transformations() -> None:
    unknown, known = loops(21)
    with config.while_tape_bytes(0):
        close(pullback.jacrev(unknown)(W, X), pullback.jacfwd(known)(W, X))
        batch = np.stack([X, 2 * X, -X])
        each = lambda f: pullback.vmap(pullback.grad(f, argnums=1), (None, 0))(W, batch)
        close(each(unknown), each(known))
        together = lambda f: pullback.grad(lambda w: pullback.vmap(lambda x: f(w, x))(batch).sum())(
            W
        )
        close(together(unknown), together(known))
        twice = lambda f: pullback.hessian(lambda x: f(W, x))(X)
        close(twice(unknown), twice(known), 1e-4)


def test_reverse_over_reverse() -> None:
    def cube(x: Any, loop: Any) -> Any:
        return loop(jnp.int32(0), 2, lambda i, y: y * x, x)

    unknown = lambda x: cube(x, lambda lo, n, f, y: lax.fori_loop(lo, lo + n, f, y))
    known = lambda x: x * x * x
    for x in (0.5, -2.0):
        closed = expand(pullback.make_jaxpr(pullback.grad(pullback.grad(unknown)))(x))
        got = eval_jaxpr_numpy(closed.jaxpr, closed.consts, [np.float32(x)])
        close(got, [pullback.grad(pullback.grad(known))(x)])


def test_lanes_stop_one_by_one() -> None:
    """vmap over a loop whose lanes have different lengths, inside the gradient."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 10.0, lambda y: y * 1.5 + x, x)

    xs = np.array([1.0, 3.0, 7.0, 11.0], "f4")
    got = pullback.grad(lambda x: pullback.vmap(f)(x).sum())(xs)
    close(got, jnp.stack([pullback.jacfwd(f)(x) for x in xs]))
    close(pullback.vmap(pullback.grad(f))(xs), got)


def test_in_other_control_flow() -> None:
    def f(x: Any) -> Any:
        def row(c: Any, a: Any) -> Any:
            newton = lambda s: (s[0] - (s[0] ** 2 - a - c**2) / (2 * s[0]), s[1] + 1)
            go_on = lambda s: (jnp.abs(s[0] ** 2 - a - c**2) > 1e-5) & (s[1] < 50)
            root, _ = lax.while_loop(go_on, newton, (a + c, 0))
            return lax.cond(root > 1.5, lambda r: 0.5 * r, lambda r: r, root), root

        return lax.scan(row, x[0], x)[1].sum()

    x = np.array([0.5, 1.0, 2.0, 4.0], "f4")
    close(pullback.grad(f)(x), pullback.jacfwd(f)(x), 1e-4)


def test_what_is_not_linear_stays_out() -> None:
    """Integer carries, keys and Booleans go along; a carry may become linear after some steps."""

    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            i, key, a, b, _ = s
            key, sub = pullback.random.split(key)
            return i + 1, key, b, b + a * 0.1 + x * pullback.random.normal(sub), a.sum() > 3

        start = (0, pullback.random.key(3), jnp.zeros(2), x, False)
        out = lax.while_loop(lambda s: s[0] < 30, body, start)
        return out[3].sum()

    x = np.array([0.1, 0.2], "f4")
    close(pullback.grad(f)(x), pullback.jacfwd(f)(x), 1e-4)


def test_complex() -> None:
    def f(z: Any) -> Any:
        return jnp.abs(
            lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, s[1] * z), (0, z))[1]
        )

    def g(z: Any) -> Any:
        return jnp.abs(lax.fori_loop(0, 7, lambda i, y: y * z, z))

    close(pullback.grad(f)(0.5 + 0.8j), pullback.grad(g)(0.5 + 0.8j))


LANES: dict[str, Callable[..., Any]] = {
    "carry": lambda v, w: lax.while_loop(lambda s: s > 1.5, lax.sqrt, v) + w,
    "constant": lambda v, w: lax.while_loop(
        lambda s: s[0] > 1.5, lambda s: (lax.sqrt(s[0]), s[1] / w), (v, v * 0 + 1)
    )[1],
    "for": lambda v, w: lax.fori_loop(0, w.astype(int), lambda i, s: lax.sqrt(s), v),
    "rows": lambda v, w: lax.while_loop(
        lambda s: s[1] > 1.5, lax.sqrt, jnp.stack([v * 2, v])
    ).sum(),
}


@pytest.mark.parametrize("name", LANES)
def test_lanes_that_have_stopped_have_no_derivative(name: str) -> None:
    """The body runs on them all the same, and divides by zero there."""
    f = LANES[name]
    v, w = jnp.array([0.0, 16.0]), jnp.array([0.0, 2.0])
    alone = [pullback.grad(f, (0, 1))(*lane) for lane in zip(v, w, strict=True)]
    wanted = [np.stack(parts) for parts in zip(*alone, strict=True)]
    together = pullback.grad(lambda v, w: pullback.vmap(f)(v, w).sum(), (0, 1))(v, w)
    assert np.isfinite(wanted).all()
    close(together, wanted, 1e-6)


SHARED: dict[str, Callable[..., Any]] = {
    "division": lambda x, c: lax.while_loop(lambda y: y > 1.0, lambda y: y - c / (y - 1.0), x),
    "root": lambda x, c: lax.while_loop(
        lambda s: s[0] > 0, lambda s: (s[0] - 1, jnp.sqrt(s[1] * c)), (x, x)
    )[1],
    "count": lambda x, c: lax.fori_loop(
        0, x.astype(int), lambda i, s: s + c / (x.astype(int) - i), x
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_lanes_share_has_no_derivative_of_those_that_have_stopped(name: str) -> None:
    """Their cotangents are 0, their factors infinite; the sum over the lanes is finite."""
    f = SHARED[name]
    x, c = jnp.array([0.0, 1.0, 2.0, 4.0, 9.0]), 2.0
    alone = sum(pullback.grad(f, 1)(lane, c) for lane in x)
    assert np.isfinite(alone)
    every = pullback.vmap(f, (0, None))
    close(pullback.grad(lambda c: every(x, c).sum())(c), alone, 1e-6)
    outer = pullback.vmap(every, (0, None))
    rows = jnp.stack([jnp.zeros(5), x, jnp.ones(5)])
    ends = pullback.grad(lambda c: f(x[0], c))(c) * 5 + pullback.grad(lambda c: f(x[1], c))(c) * 5
    close(pullback.grad(lambda c: outer(rows, c).sum())(c), alone + ends, 1e-6)
    second = pullback.grad(pullback.grad(lambda c: every(x, c).sum()))(c)
    close(second, sum(pullback.grad(pullback.grad(f, 1), 1)(lane, c) for lane in x), 1e-5)


def test_the_longest_kernels_are_compiled_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's time for good code grows faster than a text: second derivatives must end."""
    f = pullback.grad(lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * 1.7 + x, x))
    program = compile_jaxpr(expand(pullback.make_jaxpr(f)(0.3)))
    kernel = max(program.kernels, key=lambda k: len(str(k.body)))
    for most, level in ((10, 0), (10**9, 2)):
        monkeypatch.setattr(compiler, "LONG", most)
        assert compiler._emitted(kernel, host_target(), False)[1] == level


def _equations(jaxpr: Any) -> int:
    return sum(1 + sum(map(_equations, jaxprs_in_params(e.params))) for e in jaxpr.eqns)


def test_derivatives_of_any_order_are_of_the_size_of_the_loop() -> None:
    def unknown(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x))[
            1
        ]

    def unrolled(x: Any) -> Any:
        y = x
        for _ in range(5):
            y = jnp.sin(y) * x
        return y

    sizes, f, g = [], unknown, unrolled
    for order in range(4):
        sizes.append(_equations(expand(pullback.make_jaxpr(f)(0.7)).jaxpr))
        if order < 3:
            np.testing.assert_allclose(pullback.jit(f)(0.7), pullback.jit(g)(0.7), rtol=2e-5)
        f, g = pullback.grad(f), pullback.grad(g)
    assert sizes[2] < 4 * sizes[1] and sizes[3] < 4 * sizes[2], sizes


def test_so_they_are_in_a_batch() -> None:
    """The transpose of many loops is one operation, whose derivatives are as large."""

    def f(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x))[
            1
        ]

    xs, ns, sizes = np.float32([0.3, 0.7]), np.int32([2, 4]), []
    for _ in range(3):
        f = pullback.grad(f)
        batched = pullback.make_jaxpr(pullback.vmap(f))(xs, ns)
        sizes.append(_equations(batched.jaxpr))
    assert sizes[1] < 4 * sizes[0] and sizes[2] < 4 * sizes[1], sizes
    twice = pullback.grad(pullback.grad(lambda x: jnp.sin(jnp.sin(x) * x) * x))(xs[0])
    g = pullback.grad(pullback.grad(lambda x, n: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x))[1]))  # fmt: skip
    close(pullback.vmap(g)(xs, ns)[0], twice, 1e-5)


def test_lanes_of_lanes() -> None:
    """A loop whose predicate has the axes of two maps, or of the outer one alone."""
    f = lambda n, m: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * m), (0.0, m))[1]
    n, m = np.float32([0, 1, 3]), np.float32([0.5, 2.0])
    wanted = np.stack([[f(a, b) for b in m] for a in n])
    slopes = np.stack([[float(b) ** float(a) * (1 + float(a)) for b in m] for a in n])
    for inner, outer in (((None, 0), (0, None)), ((0, None), (None, 0))):
        g = pullback.vmap(pullback.vmap(f, inner), outer)
        turned = outer == (None, 0)
        close(g(n, m).T if turned else g(n, m), wanted, 1e-6)
        close(pullback.grad(lambda m, g=g: g(n, m).sum())(m), slopes.sum(0), 1e-5)
        _, dots = pullback.jvp(lambda m, g=g: g(n, m), (m,), (np.ones_like(m),))
        close(dots.T if turned else dots, slopes, 1e-5)


def test_mixed_modes_of_second_order() -> None:
    w = jnp.array([[0.3, -0.2], [0.5, 0.1]])

    def f(x: Any, w: Any) -> Any:
        body = lambda c: (c[0] + 1, jnp.tanh(w @ c[1]) + x)
        return lax.while_loop(lambda c: c[0] < 4, body, (0, x))[1].sum()

    def g(x: Any, w: Any) -> Any:
        y = x
        for _ in range(4):
            y = jnp.tanh(w @ y) + x
        return y.sum()

    x = jnp.array([0.4, -0.7])
    for make in (
        lambda h: pullback.hessian(h),
        lambda h: pullback.jacrev(pullback.jacrev(h, 1)),
        lambda h: pullback.jacrev(
            pullback.grad(lambda a, b: pullback.jvp(h, (a, b), (b[0], b))[1])
        ),
        lambda h: pullback.grad(
            lambda a, b: (pullback.vmap(pullback.grad(h), (0, None))(b + a, b) ** 2).sum()
        ),
        lambda h: lambda a, b: pullback.linear_transpose(pullback.vjp(h, a, b)[1], 1.0)((a, b)),
    ):
        for got, want in zip(
            pullback.tree.leaves(make(f)(x, w)), pullback.tree.leaves(make(g)(x, w)), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_second_derivatives_where_users_gave_backward_rules() -> None:
    """What is linear in the body cannot be carried forwards; the loops of its transpose can."""
    f = pullback.custom_vjp(jnp.tanh)
    f.defvjp(lambda x: (jnp.tanh(x), x), lambda x, ct: (ct * (1 - jnp.tanh(x) ** 2),))

    def repeated(g: Any) -> Any:
        step = lambda x: lambda s: (s[0] + 1, g(s[1]) * x)
        return lambda x, n: lax.while_loop(lambda s: s[0] < n, step(x), (0, x))[1]

    ours, plain = repeated(f), repeated(jnp.tanh)
    x = np.float32(1.3)
    for _ in range(2):
        ours, plain = pullback.grad(ours), pullback.grad(plain)
        close(ours(x, 3), plain(x, 3), 1e-6)
    along = lambda g: pullback.jvp(lambda x: pullback.grad(repeated(g))(x, 3), (x,), (x,))[1]
    close(along(f), along(jnp.tanh), 1e-6)


def test_batches_of_derivatives_where_users_gave_backward_rules() -> None:
    """Their rules are followed backwards and then mapped, as in loops of known length."""
    f = pullback.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * jnp.cos(x) * ct,))

    def loop(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, c: f(c), x)

    x, lengths = jnp.array([1.0, 0.5, 2.0]), [0, 2, 3]
    d = pullback.grad(loop)
    expected = [[d(a, n), pullback.grad(d)(a, n)] for a, n in zip(x, lengths, strict=True)]
    mapped = pullback.vmap(d)
    summed = pullback.grad(lambda x, n: mapped(x, n).sum())  # reverse over a batch of reverses
    for g in (lambda g: g, pullback.jit):
        found = [g(h)(x, jnp.array(lengths)) for h in (mapped, summed)]
        np.testing.assert_allclose(np.stack(found, 1), expected, rtol=1e-5)
