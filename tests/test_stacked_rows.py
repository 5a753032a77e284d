"""Numbers that one loop stacks for another lie in one table, a row a step: structure, and values
against real JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from loops_oracle import compile_fun

import pullback as pb

COUNT = 9


def coupled(space: Any, length: int, reverse: bool = False) -> Callable[..., Any]:
    """A loss of a scan whose step keeps more than eight numbers for its gradient."""

    def loss(state: Any, forcing: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            following = [*state[1:], state[0]]
            new = [
                0.9 * s + 0.2 * space.numpy.tanh(t + x)
                for s, t in zip(state, following, strict=True)
            ]
            return new, new[0] * x

        last, outs = space.lax.scan(step, state, forcing, length=length, reverse=reverse)
        return (outs * outs).sum() + last[1] * last[-1]

    return loss


def arguments(length: int, dtype: Any = np.float32, count: int = COUNT) -> tuple[Any, Any]:
    draw = np.random.default_rng(length)
    state = [dtype(x) for x in draw.normal(size=count)]
    return state, draw.normal(size=length).astype(dtype)


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], *args: Any) -> None:
    got, want = pb.jit(ours)(*args), jax.jit(theirs)(*args)
    for a, b in zip(pb.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)


def tables(program: Any) -> list[tuple[int, ...]]:
    return [s.shape for s in program.slots if s.role == "temp" and len(s.shape) == 2]


def test_residuals_share_a_table() -> None:
    program = compile_fun(jax.grad(coupled(jax, 33)), *arguments(33))
    (table,) = tables(program)
    assert table[0] == 33 and table[1] >= COUNT
    apart = [s for s in program.slots if s.role == "temp" and s.shape == (33,)]
    assert len(apart) <= 2  # the loss reads the results of the scan
    assert all(len(k.params) < 4 * COUNT for k in program.kernels)


def test_few_results_keep_buffers_of_their_own() -> None:
    program = compile_fun(jax.grad(coupled(jax, 33)), *arguments(33, count=2))
    assert not tables(program)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 64])
def test_gradients(length: int, reverse: bool) -> None:
    args = arguments(length)
    compare(pb.grad(coupled(pb, length, reverse)), jax.grad(coupled(jax, length, reverse)), *args)


def test_second_derivatives() -> None:
    def hessian_product(space: Any) -> Callable[..., Any]:
        gradient = space.grad(coupled(space, 17), argnums=(0, 1))
        return lambda *args: space.jvp(gradient, args, args)

    compare(hessian_product(pb), hessian_product(jax), *arguments(17))


def test_batches_and_numbers_together() -> None:
    """Rows that are no single numbers keep buffers of their own."""

    def run(space: Any) -> Callable[..., Any]:
        gradient = space.grad(coupled(space, 20))
        return lambda states, x: (space.vmap(gradient, (0, None))(states, x), gradient(
            [s[0] for s in states], x))  # fmt: skip

    state, forcing = arguments(20)
    compare(run(pb), run(jax), [np.stack([s, 2 * s]) for s in state], forcing)


def test_several_types_and_other_readers() -> None:
    """A table holds numbers of one type; what something else reads too is not in it."""

    def run(space: Any) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            def step(c: Any, x: Any) -> Any:
                ys = [space.numpy.sin(k * x + c) for k in range(12)]
                flags = [y > 0.1 * k for k, y in enumerate(ys)]
                counts = [space.numpy.int32(y * 10) for y in ys]
                return c + ys[0], (ys, flags, counts)

            c, (ys, flags, counts) = space.lax.scan(step, space.numpy.float32(0), x)

            def back(c: Any, row: Any) -> Any:
                ys, flags, counts = row
                for y, flag, count in zip(ys, flags, counts, strict=True):
                    c = c * 0.5 + space.numpy.where(flag, y, 0.1) * count
                return c, c

            return space.lax.scan(back, c, (ys, flags, counts), reverse=True), ys[3].sum(), flags[5]

        return function

    x = np.random.default_rng(5).normal(size=50).astype(np.float32)
    compare(run(pb), run(jax), x)
    program = compile_fun(run(jax), x)
    assert sorted({columns for _, columns in tables(program)}) == [11, 12]


def test_two_readers() -> None:
    """Loops that read the same numbers read them from one table; some are read by one loop only."""

    def run(space: Any) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            step = lambda c, x: (c * 0.9 + x, [space.numpy.cos(c + k * x) for k in range(20)])
            c, ys = space.lax.scan(step, space.numpy.float32(1), x)
            add = lambda c, row: (c + sum(r * c for r in row), None)
            first, _ = space.lax.scan(add, c, ys)
            second, _ = space.lax.scan(add, c, ys[10:], reverse=True)
            return first, second

        return function

    x = 0.1 * np.random.default_rng(6).normal(size=30).astype(np.float32)
    compare(run(pb), run(jax), x)
    assert sorted(tables(compile_fun(run(jax), x))) == [(30, 10), (30, 10)]


def test_a_limit_of_memory_holds() -> None:
    limited = pb.jit(pb.grad(coupled(pb, 4000)), compiler_options={"memory_limit": 1 << 20})
    args = arguments(4000)
    got, want = limited(*args), jax.grad(coupled(jax, 4000))(*args)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-6)
