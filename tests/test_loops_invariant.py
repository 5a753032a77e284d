"""What no step of a loop changes is computed before it, where that is worth a place in memory; and
shows in no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.core.jaxpr import jaxprs_in_params
from pullback.loops.lower.program import _rearranged

W = np.random.default_rng(0).uniform(0.5, 1.5, (40, 40)).astype(np.float32)


def inside(f: Callable[..., Any], *args: Any) -> list[str]:
    """The operations in loops, once the program is rearranged."""

    def names(jaxpr: Any, loop: bool) -> list[str]:
        found = []
        for e in jaxpr.eqns:
            found += [e.primitive.name] if loop else []
            deeper = loop or e.primitive.name in ("scan", "while")
            for program in jaxprs_in_params(e.params):
                found += names(program, deeper)
        return found

    return names(_rearranged(pullback.make_jaxpr(f)(*args).jaxpr), False)


def repeated(step: Callable[..., Any], n: int = 9) -> Callable[..., Any]:
    return lambda w, x: lax.fori_loop(0, n, lambda i, c: step(w, c, i), x)


COSTLY: dict[str, tuple[Callable[..., Any], str]] = {
    "product": (lambda w, c, i: c + 0.01 * (w @ w), "dot_general"),
    "function": (lambda w, c, i: c * 0.5 + jnp.exp(-w), "exp"),
    "of a broadcast": (lambda w, c, i: c * jnp.tanh(w[0])[:, None], "tanh"),
    "sum": (lambda w, c, i: c / w.sum(0), "reduce_sum"),
    "instead of its operand": (lambda w, c, i: jnp.maximum(c * 0.5, -w / 3), "neg"),
    "the same twice": (lambda w, c, i: jnp.maximum(c * 0.5, -w / 3) - (-w / 3), "neg"),
    "sort": (lambda w, c, i: 0.5 * (c + jnp.sort(w, axis=1)), "sort"),
    "gather": (lambda w, c, i: 0.5 * (c + w[(100 * w[0]).astype(int) % 40]), "rem"),
    "in a call": (lambda w, c, i: pullback.jit(lambda w, c: 0.5 * (c + jnp.log(w)))(w, c), "log"),
    "in a loop": (
        lambda w, c, i: lax.fori_loop(0, 9, lambda _, d: 0.5 * d + jnp.sin(w), c),
        "sin",
    ),
}


@pytest.mark.parametrize("what", COSTLY)
def test_costly_values_are_computed_before_the_loop(what: str) -> None:
    step, name = COSTLY[what]
    f = repeated(step)
    assert name not in inside(f, W, W)
    x = W
    for i in range(9):
        x = np.asarray(step(W, x, i))
    np.testing.assert_allclose(pullback.jit(f)(W, W), x, rtol=2e-5)


CHEAP: dict[str, tuple[Callable[..., Any], str]] = {
    "sum of two": (lambda w, c, i: c * 0.5 + (w - 1), "sub"),
    "beside its operand": (lambda w, c, i: jnp.maximum(c * w, w / 3), "div"),
    "number": (lambda w, c, i: c * jnp.exp(-w[0, 0]), "exp"),
    "index from literals": (lambda w, c, i: c[(jnp.arange(40) + 1) % 40] * w, "rem"),
    "what varies": (lambda w, c, i: jnp.tanh(c + i * w), "tanh"),
    "branch": (lambda w, c, i: lax.cond(i > 3, lambda: c, lambda: c + jnp.exp(w)), "exp"),
}


@pytest.mark.parametrize("what", CHEAP)
def test_the_rest_stays_in_the_loop(what: str) -> None:
    step, name = CHEAP[what]
    assert name in inside(repeated(step), W, W)


def test_a_loop_in_which_it_is_seldom_worth_it_stays_as_it_is() -> None:
    """Few steps, or more bytes than the loop has in use."""
    step = lambda w, c, i: c + jnp.exp(w)
    assert "exp" in inside(repeated(step, 4), W, W)
    assert "exp" not in inside(repeated(step, 9), W, W)
    far = lambda x, c, _: (jnp.exp(-((x[:, None] - x) ** 2)) * c).sum(1)
    x = np.zeros(4000, np.float32)
    assert "exp" in inside(lambda x: lax.fori_loop(0, 9, lambda _, c: far(x, c, 0), x), x)
    assert "exp" not in inside(lambda x: lax.fori_loop(0, 9, lambda _, c: far(x, c, 0), x), x[:100])


def test_the_fewest_bytes_are_stored() -> None:
    """Weights of four neighbours are made of two fractions: those are stored, not the weights."""

    def step(w: Any, c: Any, _: Any) -> Any:
        f, g = jnp.exp(w), jnp.exp(w.T)
        return c * (1 - f) * (1 - g) + c * (f * (1 - g)) + c * ((1 - f) * g) - c * (f * g)

    program = _rearranged(pullback.make_jaxpr(repeated(step))(W, W).jaxpr)
    assert program.eqns[-1].params["num_consts"] == 2


def test_conditions_of_loops_too() -> None:
    def f(w: Any, x: Any) -> Any:
        small = lambda c: (c[1] ** 2).sum() < jnp.linalg.norm(w)
        return lax.while_loop(small, lambda c: (c[0] + 1, c[1] + jnp.cos(w)), (0, x))

    left = inside(f, W, W)
    assert "cos" not in left and "sqrt" not in left and left.count("reduce_sum") == 1
    count, x = 0, 0 * W.astype(float)
    while (x**2).sum() < np.linalg.norm(W):
        count, x = count + 1, x + np.cos(W.astype(float))
    assert pullback.jit(f)(W, 0 * W)[0] == count


def test_gradients_and_batches_of_such_loops() -> None:
    step = lambda w, c, i: jnp.tanh(c @ jnp.exp(-w)) + i * w.sum(1)
    f = lambda w, x: lax.scan(lambda c, i: (step(w, c, i), c.sum()), x, jnp.arange(9.0))[1].sum()
    with pullback.disable_jit():
        want = pullback.grad(f)(W, W), pullback.vmap(f, (0, None))(W[None] * W[:3, :1, None], W)
    np.testing.assert_allclose(pullback.jit(pullback.grad(f))(W, W), want[0], rtol=1e-3, atol=1e-4)
    batched = pullback.jit(pullback.vmap(f, (0, None)))(W[None] * W[:3, :1, None], W)
    np.testing.assert_allclose(batched, want[1], rtol=1e-4)
