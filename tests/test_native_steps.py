"""Loops and branches whose bodies call Python or LAPACK run as steps of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.loops.plan import JumpStep, SwapStep
from pullback.runtime.executable import NativeExecutable

F = np.float32
_ROOT = np.random.default_rng(0).normal(size=(4, 4)).astype(F)
MATRIX = _ROOT @ _ROOT.T + 4 * np.eye(4, dtype=F)
PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(f)
    return f


def twice(x: Any) -> Any:
    """A host step: 2 x + 1."""
    shape = pullback.ShapeDtypeStruct(x.shape, x.dtype)
    call = lambda y: np.asarray(y) * 2 + 1
    return pullback.pure_callback(call, shape, x, vmap_method="expand_dims")


@program
def scan_with_lapack(x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        return c * 0.5 + jnp.linalg.cholesky(r + c * 1e-3), c.sum()

    return lax.scan(step, x, jnp.stack([x] * 7))


@program
def counted_while(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, twice(c[1])), (0, x))


@program
def carries_trade_places(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, c: (c[1], twice(c[0])), (x, x + 1))


@program
def three_carries_turn(x: Any) -> Any:
    step = lambda c, r: ((c[1], c[0], c[0]), twice(c[2]))
    return lax.scan(step, (x, x + 1, x + 2), None, length=3)


@program
def branches(x: Any) -> Any:
    many = [lambda y: y, twice, lambda y: twice(y) + 1]
    return (
        lax.cond(x.sum() > 0, twice, lambda y: y * 3, x),
        lax.cond(x.sum() < 0, lambda y: (twice(y), y), lambda y: (y, y), x),
        *(lax.switch(jnp.int32(x[0, 0]) * 0 + k, many, x) for k in (-1, 0, 1, 2, 5)),
    )


@program
def reversed_scan(x: Any) -> Any:
    step = lambda c, r: (c.at[0].set(r[0]), twice(r))
    return lax.scan(step, x, jnp.stack([x, x * 2, x * 3]), reverse=True)


@program
def nested(x: Any) -> Any:
    inner = lambda i, c: lax.fori_loop(0, i, lambda j, d: twice(d) + j, c) + 1
    return lax.fori_loop(0, 3, inner, x)


@program
def batched_predicate(x: Any) -> Any:
    return pullback.vmap(lambda y: lax.while_loop(lambda c: c.sum() < 100, twice, y))(x)


@program
def branch_in_a_scan_of_large_carries(x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        return lax.cond(r.sum() > 0, twice, lambda y: y - 1, c) * 0.1, c

    return lax.scan(step, jnp.zeros((64, 64)) + x[0, 0], jnp.arange(6.0) - 3)


@program
def complex_carry(x: Any) -> Any:
    return lax.scan(lambda c, r: (twice(c) * 1j * c * 1e-2, None), x + 0j, None, length=3)


@program
def rows_written_in_place(x: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        return c[0].at[i].set(twice(c[0][i])), jnp.sin(c[1]) + c[0]

    y = jnp.ones((100, 100)) + x[0, 0]
    return lax.fori_loop(0, 4, step, (y, y * 2))


@program
def no_iterations(x: Any) -> Any:
    return lax.scan(lambda c, r: (c + 1, twice(r)), x, jnp.zeros((0, 4)))


@program
def sorts_in_a_loop(x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        return twice(jnp.sort(c + r)), lax.top_k(c, 2)[0]

    return lax.scan(step, jnp.sin(jnp.arange(100.0)) + x[0, 0], jnp.arange(3.0))


@program
def gradient_of_a_scan(x: Any) -> Any:
    def loss(z: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return jnp.linalg.cholesky(c @ c.T + jnp.eye(4)), c.sum()

        return lax.scan(step, z, None, length=3)[1].sum()

    return pullback.grad(loss)(x)


@program
def used_after_and_before(x: Any) -> Any:
    y = jnp.sin(x) @ x
    z = lax.fori_loop(0, 3, lambda i, c: twice(c) * 0.1 + y, y)
    return z + y, lax.fori_loop(0, 2, lambda i, c: twice(c), z * y)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_steps(f: Callable[[Any], Any]) -> None:
    closed = pullback.make_jaxpr(f)(MATRIX)
    compiled = NativeExecutable(closed)
    assert not {"scan", "while", "cond"} & {h.name for h in compiled.program.host}
    want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, [MATRIX])
    for _ in range(2):
        got = compiled([jnp.asarray(MATRIX)])
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=2e-4, atol=1e-5)


def test_large_carries_are_exchanged() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: jnp.cumsum(twice(c), 0), x)

    program = NativeExecutable(pullback.make_jaxpr(f)(np.ones((64, 64), F))).program
    assert any(isinstance(s, SwapStep) for s in program.steps)
    assert any(isinstance(s, JumpStep) for s in program.steps)


def test_errors_and_effects() -> None:
    """A callback that raises stops its loop; io_callback runs once an iteration, in order."""
    seen: list[int] = []

    def note(i: Any) -> None:
        seen.append(int(i))

    def noisy(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            pullback.experimental.io_callback(note, None, i, ordered=True)
            return c + 1

        return lax.fori_loop(0, 5, step, x)

    assert float(pullback.jit(noisy)(0.0)) == 5.0
    pullback.effects_barrier()
    assert seen == list(range(5))

    def broken(x: Any) -> Any:
        if np.asarray(x) > 2:
            raise ValueError("from the callback")
        return np.asarray(x)

    def failing(x: Any) -> Any:
        shape = pullback.ShapeDtypeStruct((), np.float32)
        return lax.fori_loop(0, 9, lambda i, c: pullback.pure_callback(broken, shape, c) + 1, x)

    for _ in range(3):
        with pytest.raises(Exception, match="from the callback"):
            pullback.jit(failing)(0.0).block_until_ready()
