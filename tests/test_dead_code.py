"""What nothing needs is dropped where JAX drops it: dead code has no derivatives to be refused, and
no errors that only its values would show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax, random

X = jnp.arange(3, dtype="float32") + 1


def _unused(x: Any) -> Any:
    return lax.sin(x) * 3


def _in_jit(x: Any) -> Any:
    return pullback.jit(lambda v: (_unused(v), v * 2)[1])(x)


def _in_inner_jit(x: Any) -> Any:
    inner = pullback.jit(lambda v: (_unused(v), v * 2))
    return pullback.jit(lambda v: inner(v)[1])(x)


def _in_cond(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: (_unused(v), v)[1], lambda v: v * 2, x)


def _in_scan(x: Any) -> Any:
    return lax.scan(lambda c, _: ((_unused(c), c * 2)[1], None), x, None, length=2)[0]


def _in_fori(x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda _, c: (_unused(c), c * 2)[1], x)


@pytest.mark.parametrize("f", [_in_jit, _in_inner_jit, _in_cond, _in_scan, _in_fori])
def test_derivatives_drop_dead_code(f: Any) -> None:
    """Neither the known nor the linear part of a split program holds it, and no residual is of
    it."""
    text = str(pullback.make_jaxpr(pullback.grad(lambda x: f(x).sum()))(X))
    assert "sin" not in text and "cos" not in text


def test_needed_results_stay() -> None:
    f = lambda x: pullback.jit(lambda v: (_unused(v), v * 2))(x)
    text = str(pullback.make_jaxpr(pullback.grad(lambda x: f(x)[1].sum()))(X))
    assert "sin" in text  # a result of the jitted function, though nobody reads it


def test_second_derivatives_do_not_meet_it() -> None:
    """scatter_mul has no second derivative by its factors, and here it needs none."""

    def f(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            v.at[np.array([0, -1])].multiply(v[:1] * 0.5)
            return c * 0.5, v.sum() * 0

        return sum(y.sum() for y in lax.scan(step, 1.0, jnp.stack([x, x])))

    def g(c: Any, x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            v.at[np.array([0, -1])].multiply(v[:1] * 0.5)
            return c * 0.5, None

        return lax.scan(step, c, jnp.stack([x, x]))[0]

    with pytest.raises(NotImplementedError, match="scatter_mul"):
        pullback.grad(f)(X)
    slope = pullback.grad(g)
    assert pullback.vjp(slope, 2.0, X)[0] == 0.25


@pytest.mark.parametrize(
    "make",
    [
        lambda x: random.key(x),
        lambda x: random.PRNGKey(0.5),
        lambda x: lax.integer_pow(x, 0.5),
    ],
)
def test_errors_of_values_that_nobody_reads(make: Any) -> None:
    x = np.float32(1.5)
    assert pullback.jit(lambda v: (make(v), v)[1])(x) == 1.5
    assert pullback.jit(pullback.grad(lambda v: (make(v), v)[1]))(x) == 1
    with pytest.raises(TypeError, match=r"integer|whole"):
        make(x)
    with pytest.raises(TypeError, match=r"integer|whole"):
        pullback.jit(make)(x)
