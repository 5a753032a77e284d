"""Policies of `checkpoint` reach into loops and branches: what is computed again in the backward
pass is what JAX computes again, and gradients are those without a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import pullback
import pullback.lax
import pullback.numpy

WORDS = (" sin ", " cos ", " dot_general")
WEIGHTS = (np.random.RandomState(0).randn(4, 4) * 0.3).astype(np.float32)
START = np.random.RandomState(1).randn(4).astype(np.float32)


def policies(m: Any) -> dict[str, Any]:
    given = m.checkpoint_policies
    return {
        "dots": given.dots_saveable,
        "everything": given.everything_saveable,
        "nothing": given.nothing_saveable,
        "cos": lambda p, *_, **__: str(p) == "cos",
        "sin": lambda p, *_, **__: str(p) == "sin",
    }


def layer(m: Any, x: Any, w: Any) -> Any:
    return m.numpy.sin(m.numpy.dot(m.numpy.sin(m.numpy.dot(x, w)), w))


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda m, w: m.lax.scan(lambda x, _: (layer(m, x, w), x), START, None, length=2),
    "reverse": lambda m, w: m.lax.scan(
        lambda x, y: (layer(m, x, w) + y, None), START, m.numpy.ones((3, 4)), reverse=True),
    "nested": lambda m, w: m.lax.scan(lambda x, _: (m.lax.scan(
        lambda a, _: (layer(m, a, w), None), x, None, length=2)[0], None), START, None, length=2),
    "cond": lambda m, w: m.lax.cond(
        w.sum() > 0, lambda w: layer(m, START, w), lambda w: m.numpy.sin(w)[0], w),
    "cond in scan": lambda m, w: m.lax.scan(lambda x, y: (m.lax.cond(
        y > 0, lambda x: layer(m, x, w), lambda x: x * 2, x), None), START, np.array([1.0, -1.0])),
    "calls": lambda m, w: m.lax.map(m.jit(lambda y: layer(m, y, w)), m.numpy.ones((3, 4))),
}  # fmt: skip


def total(m: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda w: sum(m.numpy.sum(x * x) for x in m.tree.leaves(f(w)))


@pytest.mark.parametrize("policy", policies(pullback))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_computed_again(name: str, policy: str) -> None:
    counts = []
    for m in (jax, pullback):
        f = m.checkpoint(lambda w, m=m: PROGRAMS[name](m, w), policy=policies(m)[policy])
        y, backward = m.vjp(f, WEIGHTS)
        text = str(m.make_jaxpr(backward)(y))
        counts.append([text.count(word) for word in WORDS])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("policy", policies(pullback))
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_without(name: str, policy: str) -> None:
    m = pullback
    plain = total(m, lambda w: PROGRAMS[name](m, w))
    kept = total(m, m.checkpoint(lambda w: PROGRAMS[name](m, w), policy=policies(m)[policy]))
    close = np.testing.assert_allclose
    expected = m.grad(plain)(WEIGHTS)
    close(m.grad(kept)(WEIGHTS), expected, rtol=1e-5, atol=1e-5)
    close(m.jit(m.grad(kept))(WEIGHTS), expected, rtol=1e-5, atol=1e-5)
    second = [m.jvp(m.grad(f), (WEIGHTS,), (WEIGHTS,))[1] for f in (plain, kept)]
    close(second[0], second[1], rtol=1e-4, atol=1e-4)
    both = np.stack([WEIGHTS, -WEIGHTS])
    close(m.vmap(m.grad(kept))(both), m.vmap(m.grad(plain))(both), rtol=1e-5, atol=1e-5)
