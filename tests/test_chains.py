"""Unrolled Python loops: bodies that repeat are lowered once, and compute what they computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.loops import chains, pipeline
from pullback.loops.run import run_program
from pullback.runtime.executable import reference_rule

RNG = np.random.default_rng(7)


def values(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


def lowered(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule, **options)


def found(function: Callable[..., Any], *arguments: Any) -> list[chains.Chain]:
    return chains.chains_of(pb.make_jaxpr(function)(*arguments).jaxpr)


def same_bits(function: Callable[..., Any], *arguments: Any, chain: bool = True) -> None:
    """The rolled program, the unrolled one, and jitted: the same bits; rolled if `chain` says."""
    assert bool(found(function, *arguments)) == chain
    flat = [np.asarray(x) for x in pb.tree.leaves(arguments)]
    rolled, plain = (lowered(function, *arguments, rolls=r) for r in (True, False))
    assert (len(rolled.equations) < len(plain.equations)) == chain
    want = run_program(plain, flat)
    for x, y in zip(run_program(rolled, flat), want, strict=True):
        np.testing.assert_array_equal(x, y)
    got = pb.tree.leaves(pb.jit(function)(*arguments))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(x), y.reshape(x.shape), rtol=2e-6, atol=1e-6)


def repetitions(np_: Any, count: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(count):
            x = np_.sin(x) * 1.01 + x.mean()
        return x

    return function


def test_the_number_of_repetitions_does_not_change_what_is_lowered() -> None:
    x = pnp.asarray(values(100))
    programs = [lowered(repetitions(pnp, n), x) for n in (45, 90, 180)]
    assert len({p.keys[0] for p in programs}) == 1
    assert {len(p.kernels) for p in programs} == {len(programs[0].kernels)}
    assert max(len(p.equations) for p in programs) < 110  # of 900 in the longest
    steps = [len(p.steps) for p in programs]
    assert steps[0] < steps[1] < steps[2]


def test_repetitions_equal_jax() -> None:
    x = values(50)
    got = pb.jit(repetitions(pnp, 40))(pnp.asarray(x))
    want = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, y: repetitions(jnp, 1)(y), x))(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)


def layers(np_: Any) -> Callable[..., Any]:
    def loss(weights: Any, x: Any) -> Any:
        for w, b in weights:
            h = x - x.mean(-1, keepdims=True)
            x = x + np_.tanh(h @ w + b)
        return (x**2).sum()

    return loss


def test_layers_with_weights_of_their_own() -> None:
    def step(space: Any, np_: Any) -> Callable[..., Any]:
        def f(weights: Any, x: Any) -> Any:
            grads = space.grad(layers(np_))(weights, x)
            return [(w - 0.1 * g, b - 0.1 * h) for (w, b), (g, h) in zip(weights, grads)]

        return f

    x = values(5, 8)
    sizes = []
    for count in (10, 20):
        weights = [(values(8, 8), values(8)) for _ in range(count)]
        ours = [(pnp.asarray(w), pnp.asarray(b)) for w, b in weights]
        program = lowered(step(pb, pnp), ours, pnp.asarray(x))
        sizes.append((len(program.kernels), len(program.equations)))
        if count == 10:
            got = pb.jit(step(pb, pnp))(ours, pnp.asarray(x))
            want = jax.jit(step(jax, jnp))(weights, x)
            for u, v in zip(pb.tree.leaves(got), jax.tree.leaves(want), strict=True):
                np.testing.assert_allclose(np.asarray(u), np.asarray(v), rtol=2e-4, atol=1e-5)
            plain = lowered(step(pb, pnp), ours, pnp.asarray(x), rolls=False)
    (kernels, equations), (more_kernels, more_equations) = sizes
    assert more_kernels <= kernels + 3
    assert more_equations < 1.6 * equations  # of the remaining ones, the first and last layer's
    assert more_equations < 0.6 * len(plain.equations)  # which has half the layers


def test_transposed_products_that_bodies_transpose_again() -> None:
    # An update of weights by their gradients: transposes of products, cheap to do again.
    def function(xs: Any, y: Any, carried: Any) -> Any:
        products = [pnp.dot(x, y) for x in xs]
        for w in [p.T for p in products]:
            for k in range(12):
                carried = pnp.tanh(carried * w + k) - 0.1 * pnp.sin(carried)
        return carried

    xs = tuple(pnp.asarray(values(3, 4)) for _ in range(4))
    same_bits(function, xs, pnp.asarray(values(4, 5)), pnp.asarray(values(5, 3)))


def test_numbers_of_each_iteration() -> None:
    def floats(x: Any) -> Any:
        for i in range(60):
            x = pnp.where(x > 0.01 * i, x * (1 + 0.1 * i), x - i) * 0.5
        return x

    def integers(x: Any) -> Any:
        for i in range(70):
            x = (x * (2 * i + 1)) ^ (x + i * i)
        return x

    def complexes(x: Any) -> Any:
        for i in range(70):
            x = x * complex(0.9, 0.01 * i) + complex(i, -1)
        return x

    same_bits(floats, pnp.asarray(values(9)))
    same_bits(integers, pnp.asarray(RNG.integers(0, 100, 9, np.int32)))
    same_bits(complexes, pnp.asarray((values(9) + 1j * values(9)).astype(np.complex64)))


def test_rows_of_an_array_in_turn() -> None:
    def forwards(xs: Any, w: Any) -> Any:
        h = pnp.zeros(4)
        for t in range(40):
            h = pnp.tanh(h @ w + xs[t])
        return h

    def backwards(xs: Any, w: Any) -> Any:
        h, hs = pnp.zeros(4), []
        for t in reversed(range(40)):
            h = pnp.tanh(w @ h + xs[t, 1:5] * xs[39 - t, :4])
            hs.append(h)
        return pnp.stack(hs)

    same_bits(forwards, pnp.asarray(values(40, 4)), pnp.asarray(values(4, 4)))
    same_bits(backwards, pnp.asarray(values(40, 6)), pnp.asarray(values(4, 4)))


def test_carries_that_change_places() -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        for _ in range(60):
            a, b, c = b, c, pnp.cos(a) + b * 0.5 - c
        return a, b, c

    same_bits(function, *(pnp.asarray(values(5)) for _ in range(3)))


def test_one_buffer_twice_in_an_iteration() -> None:
    """Two operands of the body are one array in the first iteration only."""

    def function(x: Any) -> Any:
        a = b = x
        for _ in range(60):
            a, b = 0.4 * pnp.sin(a) + 0.5 * b, 0.5 * pnp.cos(b) * a
        return a, b, x

    same_bits(function, pnp.asarray(values(5)))


def test_results_of_iterations_are_read_elsewhere() -> None:
    def function(x: Any) -> Any:
        kept = []
        for _ in range(60):
            y = pnp.exp(-x * x)
            x = y + x.sum() * 0.01
            kept.append(y)
        return x, kept[0], kept[3], kept[-1], pnp.stack(kept[10:20]).sum(0)

    same_bits(function, pnp.asarray(values(6)))


def test_scalars() -> None:
    def function(x: Any, v: Any) -> Any:
        for _ in range(80):
            a = -pnp.sin(x) - 0.1 * v
            x, v = x + 0.01 * v, v + 0.01 * a
        return x, v

    same_bits(function, pnp.float32(0.3), pnp.float32(-0.2))


def test_updates_in_place_inside_of_a_body() -> None:
    def function(x: Any) -> Any:
        for i in range(40):
            x = x.at[i % 3].set(x.sum() * 0.1).at[pnp.argmax(x)].add(-0.5)
        return x

    plain = lowered(function, pnp.asarray(values(6)), rolls=False)
    rolled = lowered(function, pnp.asarray(values(6)))
    x = values(6)
    np.testing.assert_array_equal(run_program(rolled, [x])[0], run_program(plain, [x])[0])


def test_a_donated_argument() -> None:
    function = repetitions(pnp, 60)
    x = pnp.asarray(values(300))
    want = np.asarray(pb.jit(function)(x))
    donating = pb.jit(lambda x: function(x), donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(donating(x)), want)
    assert x.is_deleted()


def test_inside_of_a_jitted_function_and_under_vmap() -> None:
    function = repetitions(pnp, 40)
    x = pnp.asarray(values(3, 20))
    inner = pb.jit(function)
    got = pb.jit(lambda x: pb.vmap(inner)(x) * 2)(x)
    want = np.stack([np.asarray(inner(row)) * 2 for row in x])
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)


def test_what_is_no_chain() -> None:
    def different(x: Any) -> Any:
        for name in ("sin", "cos", "tanh", "exp", "log1p", "sqrt") * 2:
            x = getattr(pnp, name)(x + 1.5)
        return x

    def powers(x: Any) -> Any:  # parameters differ
        for i in range(70):
            x = x ** (i + 3) + 0.5
        return x

    def effects(x: Any) -> Any:
        for _ in range(70):
            x = pnp.sin(x) + 1.0
            pb.debug.callback(lambda v: seen.append(float(v)), x[0], ordered=True)
        return x

    def from_afar(x: Any) -> Any:  # each iteration reads the one before the last
        before = x
        for _ in range(80):
            x, before = 0.5 * pnp.sin(x) + 0.4 * before, x
        return x

    x = pnp.asarray(values(4))
    assert not found(different, x)
    assert not found(powers, x)
    assert not found(effects, x)
    seen: list[float] = []
    pb.jit(effects)(x).block_until_ready()
    pb.effects_barrier()
    assert len(seen) == 70
    same_bits(from_afar, x)  # a chain: what is from afar is carried along


def test_bodies_that_do_not_wait() -> None:
    """Updates of many leaves are lowered once for all leaves of a shape, unless these are a few
    numbers each, which share kernels."""

    def update(slopes: Any, moments: Any, squares: Any) -> Any:
        moments = [0.9 * m + 0.1 * g for m, g in zip(moments, slopes, strict=True)]
        squares = [0.99 * v + 0.01 * g * g for v, g in zip(squares, slopes, strict=True)]
        return moments, squares

    def leaves(count: int) -> Any:
        return tuple([values(count) for _ in range(50)] for _ in range(3))

    assert len(found(update, *leaves(100))) == 2
    assert not found(update, *leaves(8))
    same_bits(update, *leaves(100))
    same_bits(update, *leaves(8), chain=False)


@pytest.mark.parametrize("count", [3, 4, 7])
def test_few_long_bodies(count: int) -> None:
    def function(ws: Any, x: Any) -> Any:
        for w in ws:
            for k in range(12):
                x = pnp.tanh(x * w + k) - pnp.sin(x[::-1]) * (0.05 + 0.02 * k)
        return x

    ws = [pnp.asarray(values(4)) for _ in range(count)]
    same_bits(function, ws, pnp.asarray(values(4)))


def test_a_program_from_disk_is_the_same(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    x = pnp.asarray(values(64))
    first = np.asarray(pb.jit(repetitions(pnp, 50))(x))
    pb.clear_caches()
    np.testing.assert_array_equal(np.asarray(pb.jit(repetitions(pnp, 50))(x)), first)
