"""What nothing needs is dropped where JAX drops it: dead code has no derivatives to be refused, and
no errors that only its values would show.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax, random
from pullback.transforms import partial_eval

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


def _chain(loop: Any, n: int) -> Any:
    """A loop each of whose carries reads the next one, but for the last two, which are alone."""

    def step(c: Any) -> Any:
        inner = pullback.jit(lambda a, b: (a + 1, a * b))
        moved = [inner(b, a)[k % 2] for k, (a, b) in enumerate(itertools.pairwise(c[:-1]))]
        return (*moved, c[-2] * 2, c[-1] + 1)

    if loop == "scan":
        return lambda *c: lax.scan(lambda c, _: (step(c), c[-1]), c, None, length=3)[0][0]
    return lambda *c: lax.fori_loop(0, 3, lambda _, c: step(c), c)[0]


@pytest.mark.parametrize("loop", ["scan", "fori_loop"])
def test_chains_of_carries_are_walked_once(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many carries as need each other, the body is taken apart once, not once for each."""
    n, bodies = 30, []
    program = pullback.make_jaxpr(_chain(loop, n))(*np.ones(n, "float32"))
    body = next(
        e.params.get("jaxpr") or e.params["body_jaxpr"]
        for e in program.eqns
        if e.primitive.name in ("scan", "while")
    )
    whole = partial_eval.dce_jaxpr

    def counted(jaxpr: Any, *args: Any) -> Any:
        bodies.append(jaxpr is body.jaxpr)
        return whole(jaxpr, *args)

    monkeypatch.setattr(partial_eval, "dce_jaxpr", counted)
    smaller, used = counted(program.jaxpr, [True])
    assert sum(bodies) == 1
    assert used == [True] * (n - 1) + [False]
    want = pullback.jit(_chain(loop, n))(*np.ones(n, "float32"))
    assert pullback.core.eval_jaxpr(smaller, program.consts, *np.ones(n - 1, "float32")) == [want]


@pytest.mark.parametrize("seed", range(8))
def test_used_carries_are_the_least_that_suffice(seed: int) -> None:
    """They are what one finds by dropping dead code again and again until nothing more is needed,
    through calls and branches too."""
    rng, n = np.random.default_rng(seed), 7
    reads = rng.integers(0, n, (n, 2))
    wanted = [bool(x) for x in rng.integers(0, 5, n) == 0]

    def body(*c: Any) -> Any:
        swap = pullback.jit(lambda a, b: (b * 2, a))
        out = []
        for k, (a, b) in enumerate(reads):
            if k % 3 == 0:
                out.append(swap(c[a], c[b])[k % 2])
            elif k % 3 == 1:
                out.append(
                    lax.cond(True, lambda x, y: (x, x + y), lambda x, y: (x, x), c[a], c[b])[0]
                )
            else:
                out.append(c[a] + c[b])
        return out

    jaxpr = pullback.make_jaxpr(body)(*np.ones(n, "float32")).jaxpr
    found = partial_eval.used_carries(jaxpr, wanted, 0, n)
    needed = wanted
    while (more := partial_eval.dce_jaxpr(jaxpr, needed, needed)[1]) != needed:
        needed = more
    assert found == needed


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
