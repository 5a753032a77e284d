"""Bodies of loops over arrays that are several kernels: what their loops cost, in structure, and
that no structure shows in a value."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.target import host_target
from pullback.loops import pipeline
from pullback.runtime.executable import reference_rule


def columns(n: int, rows: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return (
        rng.standard_normal((rows, n)).astype(np.float32),
        rng.standard_normal(rows).astype(np.float32),
    )


def descend(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Three steps down the columns of a matrix: sums in lanes, and much arithmetic after sums."""

    def step(_: int, w: pullback.Array) -> pullback.Array:
        p = 1 / (1 + jnp.exp(jnp.tanh(jnp.log1p(jnp.exp(-(x @ w))))))
        return w - 0.1 * (x.T @ (p - t))

    return np.asarray(pullback.jit(lambda: lax.fori_loop(0, 3, step, jnp.zeros(x.shape[1])))())


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33, 47, 48, 49, 63, 64, 65, 100, 129])
def test_sums_in_lanes_of_every_number_of_columns(n: int) -> None:
    x, t = columns(n)
    w = np.zeros(n)
    for _ in range(3):
        z = x.astype(float) @ w
        p = 1 / (1 + np.exp(np.tanh(np.log1p(np.exp(-z)))))
        w = w - 0.1 * (x.T.astype(float) @ (p - t))
    np.testing.assert_allclose(descend(x, t), w, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("n", [33, 50, 63, 100])
def test_the_place_of_a_column_shows_in_no_bit(n: int) -> None:
    """Columns that fill no turn of a loop are summed as those that do; but for very few ones."""
    x, t = columns(n)
    total = pullback.jit(
        lambda x: lax.fori_loop(0, 2, lambda _, s: s + (t[:, None] * x).sum(0), 0 * x[0])
    )
    whole = np.asarray(total(x))
    for k in (17, 20, 32, n - 1):
        np.testing.assert_array_equal(np.asarray(total(x[:, :k])), whole[:k])
        np.testing.assert_array_equal(np.asarray(total(x[:, n - k :])), whole[n - k :])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("size, count", [(1, 300), (77, 256), (100, 1025), (1000, 1001)])
def test_extremes_of_many_updates_in_a_loop(dtype: str, how: str, size: int, count: int) -> None:
    """Relaxations: the elements are integers while they are updated. Zeros keep their signs, what
    is not a number stays so, places that are outside are left out."""
    rng = np.random.default_rng(size)
    d = rng.choice([-0.0, 0.0, 1.5, -2.5, np.inf, -np.inf], size).astype(dtype)
    d[rng.random(size) < 0.02] = np.nan
    w = rng.choice([-0.0, 0.0, 0.25, -0.5, 1.0], count).astype(dtype)
    w[rng.random(count) < 0.005] = np.nan
    to, start = rng.integers(-size - 3, size + 3, count), rng.integers(0, size, count)

    def relax(_: int, d: pullback.Array) -> pullback.Array:
        return getattr(d.at[to], how)(d[start] + w)

    with pullback.enable_x64(True):
        relaxed = pullback.jit(lambda d: lax.fori_loop(0, 3, relax, d))
        got = np.asarray(relaxed(d))
        assert f"{how}= " in relaxed.lower(d).as_text("loops")
    inside = (-size <= to) & (to < size)
    ordered = lambda x: np.where(x == 0, np.copysign(1e-300, x.astype(float)), x.astype(float))
    for _ in range(3):
        new = ordered(d)
        with np.errstate(invalid="ignore"):
            values = ordered(d[start] + w)
            getattr(np, how + "imum").at(new, to[inside], values[inside])
        d = np.where(abs(new) == 1e-300, np.copysign(0.0, new), new).astype(dtype)
    np.testing.assert_array_equal(got, d)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(d[d == 0]))


def spread(u: pullback.Array) -> pullback.Array:
    """A next value that reads its neighbours: it cannot be made where it reads."""
    return 0.5 * u + 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, -1)) + 0.1


def spread_in_numpy(u: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        u = 0.5 * u + 0.25 * (np.roll(u, 1, 0) + np.roll(u, -1, -1)) + 0.1
    return u


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(23, 29), (1, 700), (513, 2)])
@pytest.mark.parametrize("form", ["fori", "scan", "while", "lanes", "inside", "backwards"])
def test_carries_take_turns(form: str, shape: tuple[int, int], steps: int) -> None:
    u = np.random.default_rng(steps).standard_normal(shape).astype(np.float32)

    def run(u: pullback.Array) -> pullback.Array:
        if form == "fori":
            return lax.fori_loop(0, steps, lambda _, u: spread(u), u)
        if form in ("scan", "backwards"):
            step = lambda c, k: ((spread(c[0]), c[0][0, 0] + k), c[0].sum())
            start = (u, jnp.float32(0))
            reverse = form == "backwards"
            return lax.scan(step, start, jnp.arange(float(steps)), reverse=reverse)[0][0]
        going, step = (lambda s: s[0] < steps), (lambda s: (s[0] + 1, spread(s[1])))
        if form == "while":
            return lax.while_loop(going, step, (0, u))[1]
        if form == "lanes":
            many = lambda n, u: lax.while_loop(lambda s: s[0] < n, step, (0, u))[1]
            return pullback.vmap(many)(jnp.array([steps, 1]), jnp.stack([u, u]))[0]
        twice = lambda _, u: lax.fori_loop(0, steps, lambda _, u: spread(u), spread(u))
        return lax.fori_loop(0, 2, twice, u)

    want = spread_in_numpy(u, 2 * steps + 2 if form == "inside" else steps)
    compiled = pullback.jit(run)
    np.testing.assert_allclose(np.asarray(compiled(u)), want, rtol=2e-5, atol=2e-5)
    if steps > 1 and form == "fori":
        assert compiled.lower(u).as_text("loops").count("= turn ") == 1


def test_the_condition_of_a_loop_reads_the_present_turn() -> None:
    u = np.random.default_rng(0).standard_normal((31, 33)).astype(np.float32)
    got = pullback.jit(lambda u: lax.while_loop(lambda u: u.max() < 7.5, spread, u))(u)
    want = u
    while want.max() < 7.5:
        want = spread_in_numpy(want, 1).astype(np.float32)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4)


BOXES = {
    "set": lambda u, box, x: u.at[box].set(u[box] + x),
    "add": lambda u, box, x: u.at[box].add(x),
    "mul": lambda u, box, x: u.at[box].multiply(1 + 0.1 * x),
    "min": lambda u, box, x: u.at[box].min(u[box] + x),
    "slice": lambda u, box, x: lax.dynamic_update_slice(u, u[box] + x, [k.start for k in box]),
}


@pytest.mark.parametrize(
    "how, dtype",
    [
        *((how, dtype) for how in BOXES for dtype in ("float32", "float64")),
        *((how, "complex64") for how in ("set", "add", "slice")),
    ],
)
@pytest.mark.parametrize("shape", [(45, 47), (128, 33), (3, 700)])
def test_a_box_of_a_carry_is_updated_across(how: str, shape: tuple[int, int], dtype: str) -> None:
    """As finite differences are written: the inside changes, the boundary stays. No array but the
    second buffer is made, and nothing is copied back."""
    u = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    box = slice(1, shape[0] - 1), slice(1, shape[1] - 1)

    def step(u: pullback.Array) -> pullback.Array:
        x = 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        return BOXES[how](u, box, x)

    with pullback.enable_x64(True):
        for steps in (1, 5, 2):
            run = pullback.jit(partial(lax.fori_loop, 0, steps, lambda _, u: step(u)))
            want = jnp.asarray(u)
            for _ in range(steps):
                want = step(want)
            tolerance = {"rtol": 1e-5, "atol": 1e-6}
            np.testing.assert_allclose(np.asarray(run(u)), np.asarray(want), **tolerance)
        text = run.lower(u).as_text("loops")
    assert text.count("= turn ") == 1
    assert text.count("alloc ") == 1
    # Into both buffers, what the box becomes, and, after an odd number of steps, into the first.
    assert text.count("for vector") == 4


def test_boxes_that_move_and_carries_that_pass_on_are_as_in_a_python_loop() -> None:
    rng = np.random.default_rng(1)
    u, v = (rng.standard_normal((40, 41)).astype(np.float32) for _ in range(2))

    def step(k: object, s: tuple[pullback.Array, ...]) -> tuple[pullback.Array, ...]:
        u, v, w = s
        moved = lax.dynamic_update_slice(u, u[1:-1, 1:-1] * 0.5 + v[2:, 2:], (k % 3, k % 2))
        inside = v.at[1:-1, 2:-2].add(0.1 * (v[2:, 2:-2] - v[:-2, 2:-2]) + u[1:-1, 2:-2])
        return moved, inside, u + v[0, 0] * w

    got = pullback.jit(lambda u, v: lax.fori_loop(0, 5, step, (u, v, u)))(u, v)
    state = tuple(map(jnp.asarray, (u, v, u)))
    for k in range(5):
        state = step(k, state)
    for x, y in zip(got, state, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)


def test_gradients_through_boxes_updated_across() -> None:
    u = np.random.default_rng(2).standard_normal((33, 35))

    def loss(u: pullback.Array) -> pullback.Array:
        step = lambda _, u: u.at[1:-1, 1:-1].add(0.1 * jnp.sin(u[2:, 1:-1] * u[1:-1, :-2]))
        return (lax.fori_loop(0, 4, step, u) ** 2).sum()

    with pullback.enable_x64(True):
        slope = np.asarray(pullback.jit(pullback.grad(loss))(u))
        way = np.random.default_rng(3).standard_normal(u.shape)
        ends = [float(loss(jnp.asarray(u + h * way))) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose((slope * way).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 5, 18])
@pytest.mark.parametrize("size", [100, 1000, 1023])
@pytest.mark.parametrize("form", ["fori", "while", "stacked"])
def test_recurrences_of_two_terms_exchange_their_buffers(form: str, size: int, steps: int) -> None:
    """Waves: the next value is made where the last but one was."""
    u, v = np.random.default_rng(size).standard_normal((2, size))

    def step(s: tuple[pullback.Array, ...]) -> tuple[pullback.Array, ...]:
        u, before = s
        return 2 * u - before + 0.2 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), u

    def run(u: pullback.Array, v: pullback.Array) -> object:
        if form == "fori":
            return lax.fori_loop(0, steps, lambda _, s: step(s), (u, v))
        if form == "stacked":
            return lax.scan(lambda s, _: (step(s), s[1]), (u, v), None, length=steps)
        going, count = (lambda s: s[0] < steps), (lambda s: (s[0] + 1, step(s[1])))
        return lax.while_loop(going, count, (0, (u, v)))[1]

    with pullback.enable_x64(True):
        compiled = pullback.jit(run)
        got = compiled(u, v)
        text = compiled.lower(u, v).as_text("loops")
    carries, rows = got if form == "stacked" else (got, ())
    want = u, v
    for k in range(steps):
        if form == "stacked":
            np.testing.assert_allclose(np.asarray(rows[k]), want[1], rtol=1e-10, atol=1e-10)
        around = np.roll(want[0], 1) - 2 * want[0] + np.roll(want[0], -1)
        want = 2 * want[0] - want[1] + 0.2 * around, want[0]
    for x, y in zip(carries, want, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-10, atol=1e-10)
    if size == 1000 and steps == 18 and form != "stacked":
        assert text.count("= turn ") == 1
        assert "alloc " not in text


def test_short_values_that_pass_on_stay_in_registers() -> None:
    """A carry of three numbers that other loops read, and whose next value only short code does:
    L-BFGS keeps its last parameters so."""

    def step(k: object, s: tuple[pullback.Array, ...]) -> tuple[pullback.Array, ...]:
        u, before, table = s
        small = lambda t: (t[1] @ u[:, None])[0] * t[0] < 5.0
        grown = lax.while_loop(small, lambda t: (t[0] + 1.0, jnp.sort(t[1] + u)), (1.0, before))
        return 0.5 * u - 0.1 * grown[1], u, table.at[k].set(u - before)

    state = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.2, 0.1]), jnp.zeros((10, 3))
    got = pullback.jit(lambda *s: lax.fori_loop(0, jnp.argmax(s[0]) + 5, step, s))(*state)
    for k in range(7):
        state = step(k, state)
    for x, y in zip(got, state, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [17, 20, 32, 47])
def test_first_of_the_best_in_columns_that_fill_no_turn(n: int) -> None:
    """Viterbi's step: lanes run along columns although what follows is read at a stride."""
    rng = np.random.default_rng(n)
    t, e = (rng.integers(-3, 3, (n, k)).astype(np.float32) for k in (n, 10))
    t[rng.random((n, n)) < 0.01] = np.nan
    t[:, 3], t[:, 5] = -np.inf, np.inf

    def step(d: pullback.Array, o: pullback.Array) -> tuple[pullback.Array, ...]:
        s = d[:, None] + t
        return jnp.nan_to_num(s.max(0) + jnp.asarray(e)[:, o]) % 7, (s.argmax(0), s.argmin(0))

    places = rng.integers(0, 10, 5)
    found = pullback.jit(lambda d: lax.scan(step, d, jnp.asarray(places)))(e[:, 0])[1]
    d = e[:, 0]
    for k, o in enumerate(places):
        s = d[:, None] + t
        np.testing.assert_array_equal(found[0][k], s.argmax(0))
        np.testing.assert_array_equal(found[1][k], s.argmin(0))
        d = np.nan_to_num(s.max(0) + e[:, o]) % np.float32(7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "float32"])
def test_columns_of_the_worst_value_have_it_first_at_0(dtype: str) -> None:
    whole = dtype[-1] != "6" and dtype != "float32"
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-np.inf, np.inf)
    x = np.full((40, 20), low, dtype)
    x[:, 10:] = high
    x[7, 1], x[7, 11] = 1, 1
    for how, f in (("argmax", np.argmax), ("argmin", np.argmin)):
        np.testing.assert_array_equal(getattr(jnp, how)(x, 0), f(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_extremes_of_single_numbers(dtype: str) -> None:
    """In a scan, one after the other: NaN wins, zeros go by their sign, as in lanes; and without a
    way through integer registers, which takes three times as long."""
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.0, 6e-8], dtype)
    x, y = (a.ravel() for a in np.meshgrid(special, special))

    def f(x: Any, y: Any) -> Any:
        def step(c: Any, xy: Any) -> Any:
            both = jnp.minimum(*xy), jnp.maximum(*xy)
            return c + 1, (both, jnp.minimum(jnp.maximum(c, xy[0]), xy[1]))

        return lax.scan(step, jnp.zeros((), dtype), (x, y))[1]

    with pullback.enable_x64():
        (low, high), last = pullback.jit(f)(x, y)
        (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x, y), reference_rule).kernels
    count = np.arange(len(x)).astype(dtype)
    for mine, numbers in (
        (low, np.minimum(x, y)), (high, np.maximum(x, y)),
        (last, np.minimum(np.maximum(count, x), y)),
    ):  # fmt: skip
        np.testing.assert_array_equal(mine, numbers)
    for k in np.flatnonzero((x == 0) & (y == 0)):
        signs = np.signbit(x[k]), np.signbit(y[k])
        assert np.signbit(low[k]) == any(signs) and np.signbit(high[k]) == all(signs)
    text = emit_module(kernel)[0]
    if host_target().masks and dtype != "float16":
        assert "avx512.mask.range" in text and "minimum" not in text
