"""Many updates of single elements are few kernels, work in place, and read what they should."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.target import detect_level, target_for
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import NativeExecutable, reference_rule

F = np.float32
X = np.linspace(0.0, 1.0, 40).astype(F)


def check(f: Callable[..., Any], *args: Any, donated: tuple[bool, ...] = ()) -> NativeExecutable:
    """A program's native results against the reference's."""
    closed = pullback.make_jaxpr(f)(*args)
    compiled = NativeExecutable(closed, donated)
    want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, args)
    for _ in range(2):
        got = compiled([jnp.asarray(x) * 1 for x in args], donated)
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=2e-5, atol=1e-6)
    return compiled


def literal(x: Any) -> Any:
    for i in range(50):
        x = x.at[i % 40].set(1.5 * i)
    return x


def reading(x: Any) -> Any:
    for i in range(40):
        x = x.at[i].set(jnp.sin(x[i]) + x[39 - i])
    return x


def from_zeros(x: Any) -> Any:
    y = jnp.zeros((8, 8))
    for i in range(39):
        y = y.at[i % 8, (i * 3) % 8].set(x[i] * x[i + 1])
    return y.sum(0), y


def dynamic(x: Any, i: Any) -> Any:
    for k in range(20):
        x = lax.dynamic_update_slice(x, x[k : k + 1] + k, (i + k,))
        x = x.at[i - k].add(x[3], mode="drop")
    return x


@pytest.mark.parametrize("f", [literal, reading, from_zeros], ids=lambda f: f.__name__)
@pytest.mark.parametrize("donated", [False, True])
def test_many_updates(f: Callable[..., Any], donated: bool) -> None:
    compiled = check(f, X, donated=(donated,))
    assert len(compiled.program.kernels) <= 2
    assert compiled.memory_analysis().temp_size_in_bytes == 0
    if donated and f is not from_zeros:
        assert compiled.memory_analysis().alias_size_in_bytes == X.nbytes


def test_dynamic_places() -> None:
    for i in (0, 5, 39, 100, -3):
        check(dynamic, X, np.int32(i))


@pytest.mark.parametrize("seed", range(12))
def test_versions_fuzz(seed: int) -> None:
    """Random updates of random versions of arrays, which read random versions."""

    def f(x: Any, y: Any) -> Any:
        rng = np.random.default_rng(seed)
        versions = [x, y, jnp.zeros(40) + x[2]]
        for _ in range(14):
            base, other = (versions[int(k)] for k in rng.integers(0, len(versions), 2))
            i, j, n = (int(k) for k in rng.integers(0, 40, 3))
            kind = rng.integers(0, 7)
            if kind == 0:
                new = base.at[i].set(other[j])
            elif kind == 1:
                new = base.at[i].add(base[j] * other[n])
            elif kind == 2:
                new = lax.dynamic_update_slice(base, other[j : j + 3], (i,))
            elif kind == 3:
                new = base.at[jnp.array([i, j, n])].add(other[:3])
            elif kind == 4:
                new = base.at[i].set(other.sum() * 0.01)
            elif kind == 5:
                new = base.at[i].multiply(other[(i + 1) % 40])
            else:
                new = jnp.sin(base) + other.at[j].set(2.0)
            versions.append(new)
        return versions[-1], versions[-3], versions[int(rng.integers(0, len(versions)))]

    for donated in ((False, False), (True, False), (True, True)):
        check(f, X, np.cos(X), donated=donated)


def test_linear_in_program_size() -> None:
    """In the time of the processor, which other processes do not change."""

    def seconds(n: int) -> float:
        def f(x: Any) -> Any:
            for i in range(n):
                x = x.at[i % 40].set(0.5 * i + n)
            return x

        closed = pullback.make_jaxpr(f)(X)
        start = time.process_time()
        compiled = NativeExecutable(closed)
        assert len(compiled.program.kernels) <= -(-n // 64) + 1
        return time.process_time() - start

    seconds(10)
    assert seconds(800) < 12 * seconds(200)


def in_loop(name: str) -> Callable[[Any], Any]:
    """A loop whose updates read the array that they change."""

    def body(i: Any, a: Any) -> Any:
        slide = lambda n: lax.dynamic_slice(a, (i, 0), (n, 10))
        put = lambda v: lax.dynamic_update_slice(a, v, (i + 1, 0))
        return {
            "element": lambda: a.at[i, 3].set(a[i - 1, 2] * 0.5 + 1),
            "own row": lambda: a.at[i].set(a[i - 1] * 0.5 + a[39 - i]),
            "own row reversed": lambda: a.at[i].set(a[i, ::-1] + a[i]),
            "slices that overlap": lambda: put(slide(4) * 0.9),
            "added row": lambda: a.at[i].add(jnp.sin(a[i - 1]) + a.sum(1)[i]),
            "twice": lambda: a.at[i].set(a[i - 1] * 0.5).at[i - 1].add(a[i + 1]),
            "column": lambda: a.at[:, 0].set(a[:, 1] + a[::-1, 0]),
            "places": lambda: a.at[jnp.arange(3) + i, 0].set(a[i, :3]),
            "drops": lambda: a.at[i + 20, 2].set(a[i, 2] + 1, mode="drop"),
            "swap": lambda: a.at[i, 1].set(a[39 - i, 2]).at[39 - i, 2].set(a[i, 1]),
            "swap of rows": lambda: a.at[i].set(a[39 - i]).at[39 - i].set(a[i]),
            "rotation": lambda: (
                a.at[i].set(a[i + 1]).at[i + 1].set(a[i + 2]).at[i + 2].set(a[i] + a[i + 1])
            ),
            "read through another": lambda: (
                lambda b: b.at[i - 1].set(b[i] + a[a[i, 0].astype(int) % 40])
            )(a.at[i].add(1)),
            "chosen swap": lambda: jnp.where(
                a[i, 0] > a[39 - i, 0], a.at[i].set(a[39 - i]).at[39 - i].set(a[i]), a
            ),
            "read afterwards": lambda: a.at[i, 0].set(a[i, 1] + 1) + a[0, 0] * 0.01,
        }[name]()

    return lambda a: lax.fori_loop(0, 30, body, a)


LOOPS = ["element", "own row", "own row reversed", "slices that overlap", "added row", "twice"]
LOOPS += ["column", "places", "drops", "read afterwards", "swap", "swap of rows", "rotation"]
LOOPS += ["read through another", "chosen swap"]


@pytest.mark.parametrize("name", LOOPS)
def test_updates_in_loops(name: str) -> None:
    a = np.random.default_rng(5).standard_normal((40, 10)).astype(F)
    assert len(check(in_loop(name), a).program.kernels) == 1


def test_a_scan_that_gives_what_it_is_about_to_change_works_in_place() -> None:
    """The old element is read before the new one is written: no copy of the array is kept."""

    def body(a: Any, i: Any) -> Any:
        old = a[i]
        return a.at[i].add(old + 1), (old, a[i + 1, 2:4] * 2)

    f = lambda a: lax.scan(body, a, jnp.arange(20) % 7)
    a = np.random.default_rng(6).standard_normal((400, 10)).astype(F)
    check(f, a)
    donating = pullback.jit(f, donate_argnums=0)
    assert donating.lower(a).compile().memory_analysis().temp_size_in_bytes < 200


def test_an_inner_loop_whose_numbers_read_its_array_works_in_place() -> None:
    """They are read before the loop writes: a sieve keeps one array."""

    def strike(i: Any, a: Any) -> Any:
        step = jnp.where(a[i] > 0, i, a.shape[0])
        inner = lambda c: (c[0] + step, c[1].at[c[0]].set(0))
        return lax.while_loop(lambda c: c[0] < a.shape[0], inner, (i * i, a))[1]

    f = lambda a: lax.fori_loop(2, 30, strike, a)
    a = np.ones(900, np.int32)
    check(f, a)
    donating = pullback.jit(f, donate_argnums=0)
    assert donating.lower(a).compile().memory_analysis().temp_size_in_bytes < 200


@pytest.mark.parametrize(
    "name", ["swap", "swap of rows", "rotation", "read through another", "chosen swap"]
)
def test_what_is_read_late_is_read_before_updates(name: str) -> None:
    """Nothing as large as the array is kept beside it."""
    run = pullback.jit(in_loop(name), donate_argnums=0)
    memory = run.lower(jnp.zeros((40_000, 10))).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 2000


def test_an_old_element_that_is_given_after_the_update_is_read_before() -> None:
    def step(a: Any, i: Any) -> Any:
        b = a.at[i].set(i + 0.5)
        return b, (a[i] * 2, a[i + 1] + b[i])

    f = lambda a: lax.scan(step, a, jnp.arange(20) % 7)
    check(f, X)
    run = pullback.jit(f, donate_argnums=0)
    memory = run.lower(jnp.zeros(40_000)).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 2000


@pytest.mark.parametrize("name", ["element", "own row"])
def test_updates_in_loops_do_not_copy(name: str) -> None:
    """A step costs what it writes, however large the array is."""

    def seconds(rows: int) -> float:
        run = pullback.jit(in_loop(name))
        a = jnp.zeros((rows, 10))
        run(a).block_until_ready()
        best = 1.0
        for _ in range(10):
            start = time.process_time()
            run(a).block_until_ready()
            best = min(best, time.process_time() - start)
        return best

    assert seconds(40_000) < 20 * seconds(40) + 2e-3  # the copy at the start is there


@pytest.mark.parametrize("by", [1, 3, -2])
def test_counters_of_loops(by: int) -> None:
    """A carry that only counts is the loop's index: its bounds decide comparisons, not values."""

    def f(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            i, total = carry
            inside = jnp.where((i >= 0) & (i < 40), x[jnp.clip(i, 0, 39)], -1.0)
            return (i + by, total + inside * row), (i, x[i], i < 7, i * i)

        return lax.scan(step, (jnp.int32(5), jnp.float32(0)), x, reverse=by == 3)

    check(f, X)


def few(name: str) -> Callable[[Any], Any]:
    """Loops over a few numbers, which stay in registers; each body mixes them with other values."""
    turn = lambda c: jnp.stack([c[1] - 0.1 * c[0], 0.2 * c[2], c[0] * c[1]])
    rows = lambda x: x[:36].reshape(12, 3)

    def while_loop(x: Any) -> Any:
        step = lambda s: (turn(s[0]) + 0.1, s[1] + s[0].sum(), s[2] + 1)
        go_on = lambda s: (jnp.abs(s[0]).max() < 3.0) & (s[2] < 25)
        return lax.while_loop(go_on, step, (x[:3], 0.0, 0))

    def updates(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            c = c.at[i % 3].add(c[(i + 1) % 3] * 0.3)
            return lax.dynamic_update_slice(c, c[:2] * 0.9, (i % 2,))

        return lax.fori_loop(0, 20, step, x[:3])

    def masked(x: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, c: c.at[i - 2].set(x[i], mode="drop") * 1.1, x[:5])

    def shared(x: Any) -> Any:
        """The carry is also read by long loops, and handed on by another."""

        def step(c: Any, row: Any) -> Any:
            small, big = c
            return (turn(small) + row, big * 0.5 + small[1]), (big.sum() + small, row)

        return lax.scan(step, (x[:3], x), rows(x))

    def swapped(x: Any) -> Any:
        step = lambda c, row: ((c[1], c[0] + row, c[2] @ c[2].T * 0.1), (c[2][0], c[0]))
        return lax.scan(step, (x[:3], x[3:6], x[:9].reshape(3, 3)), rows(x))

    def solved(x: Any) -> Any:
        a = x[:9].reshape(3, 3) + 2 * jnp.eye(3)
        return lax.scan(lambda c, r: (jnp.linalg.solve(a, c + r), c), x[:3], rows(x))

    def nested(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = lax.fori_loop(0, 3, lambda i, d: turn(d) + row, c)
            return lax.cond(c[0] > 0.3, lambda d: d * 0.5, lambda d: d + 0.1, c), c

        return lax.scan(step, x[:3], rows(x), reverse=True)

    def complex_pair(x: Any) -> Any:
        return lax.fori_loop(0, 12, lambda i, z: z * z * 0.9 + (0.1 + 0.2j), x[:2] * (1 + 1j))

    def gradient(x: Any) -> Any:
        loss = lambda c: lax.scan(lambda c, r: (turn(c) + r, c.sum()), c, rows(x))[1].sum()
        return pullback.value_and_grad(loss)(x[:3])

    return {f.__name__: f for f in (
        while_loop, updates, masked, shared, swapped, solved, nested, complex_pair, gradient,
    )}[name]  # fmt: skip


FEW = ["while_loop", "updates", "masked", "shared", "swapped", "solved", "nested", "complex_pair"]


@pytest.mark.parametrize("name", [*FEW, "gradient"])
def test_few_numbers_in_registers(name: str) -> None:
    check(few(name), X + 0.05)


def test_costly_numbers_that_are_stacked_stay_in_registers() -> None:
    """A value of one element is the same code with or without loops, whatever it costs."""

    def slope(x: Any) -> Any:
        a, b, c, d = x
        first = jnp.sin(a - b) * jnp.exp(c) / (2 + jnp.cos(d)) + jnp.tanh(a * d) * jnp.sin(b)
        return jnp.stack([c, d, first, jnp.cos(first) * jnp.sin(a + d) + jnp.log1p(b * b)])

    def f(x: Any) -> Any:
        step = lambda x, _: (x + 0.1 * slope(x + 0.05 * slope(x)), x[0])
        return lax.scan(step, x, None, length=9)[1]

    check(f, X[:4])
    assert "alloc" not in pullback.jit(f).lower(X[:4]).as_text("loops").split("kernel")[1]


@pytest.mark.parametrize("name", ["add", "max", "min", "multiply"])
def test_many_updates_of_few_elements(name: str) -> None:
    """Blocks of updates over threads; what is outside is dropped."""
    rng = np.random.default_rng(0)
    how = {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}[name]
    for n, m in ((150_001, 33), (200_000, 5000)):
        places = rng.integers(-3, m + 5, n).astype("i4")
        inside = (places >= -m) & (places < m)
        where = np.where(places < 0, places + m, places)[inside]
        for dtype in (np.float32, np.int32):
            x = rng.integers(1, 3, n) if name == "multiply" else rng.standard_normal(n) * 9
            x = np.where(rng.random(n) < 1e-3, x, 1) if name == "multiply" else x
            x = x.astype(dtype)
            want = np.full(m, 7, dtype if dtype is np.int32 else np.float64)
            how.at(want, where, x[inside].astype(want.dtype))
            run = pullback.jit(
                lambda p, u, m=m, t=dtype: getattr(jnp.full(m, 7, t).at[p], name)(u, mode="drop")
            )
            got = np.asarray(run(jnp.asarray(places), jnp.asarray(x)))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-2 if dtype is F else 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_many_updates_of_single_elements(dtype):
    """Blocks of updates, found ahead in lanes; extremes of floats through integer keys."""
    random = np.random.default_rng(7)
    n, k = 140_001, 37
    x = random.standard_normal(n).astype(dtype)
    if dtype != np.int32:
        x[::1009], x[5], x[6] = -0.0, np.inf, -np.inf
    ids = random.integers(-3, k + 3, n).astype(np.int32)
    inside = (ids >= 0) & (ids < k)
    with pullback.enable_x64(dtype == np.float64):
        for name, ufunc, start in (
            ("max", np.maximum, dtype(-1)),
            ("min", np.minimum, dtype(1)),
            ("add", np.add, dtype(0)),
        ):
            expected = np.full(k, start, dtype)
            ufunc.at(expected, ids[inside], x[inside])

            def update(x: Any, i: Any, name: str = name, start: Any = start) -> Any:
                at = jnp.full(k, start).at[i]
                return getattr(at, name)(x, wrap_negative_indices=False)

            found = np.asarray(pullback.jit(update)(x, ids))
            assert found.dtype == dtype
            if name == "add":
                np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)
            else:
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_many_updates_keep_nan_and_the_sign_of_zero(name):
    n = 140_000
    ids = (np.arange(n) % 4).astype(np.int32)
    x = np.zeros(n, np.float32)
    x[::8], x[1] = -0.0, -np.nan  # segment 0 meets both zeros, segment 1 a NaN
    x[2::4] = np.where(np.arange(n // 4) % 2, 1e-40, -1e-40)  # denormal numbers
    first = np.full(4, -np.inf if name == "max" else np.inf, np.float32)
    found = np.asarray(pullback.jit(lambda f, x, i: getattr(f.at[i], name)(x))(first, x, ids))
    assert found[0] == 0 and np.signbit(found[0]) == (name == "min")
    assert np.isnan(found[1])
    assert found[2] == (np.float32(1e-40) if name == "max" else np.float32(-1e-40))
    assert found[3] == 0


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("order", ["none", "rising", "falling"])
def test_extremes_of_many_updates_are_found_without_branches(op, order):
    """Whatever the values' order: LLVM would make a branch of plain integers."""
    rng = np.random.default_rng(4)
    x, ids = rng.standard_normal(150_000).astype(F), rng.integers(0, 500, 150_000).astype(np.int32)
    x = {"none": x, "rising": np.sort(x), "falling": -np.sort(x)}[order]
    f = getattr(pullback.ops, f"segment_{op}")
    want = np.full(500, np.inf if op == "min" else -np.inf, F)
    getattr(np, f"{op}imum").at(want, ids, x)
    np.testing.assert_array_equal(pullback.jit(lambda x, i: f(x, i, 500))(x, ids), want)
    closed = pullback.make_jaxpr(lambda x, i: f(x, i, 500))(x, ids)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    assert f"@llvm.s{op}.v4i32" in text and f"@llvm.s{op}.i32" not in text


@pytest.mark.parametrize("count", [40_000, 70_000, 100_000, 170_000, 250_000, 400_000])
def test_blocks_of_updates_are_shared_equally(count: int) -> None:
    """As many blocks as two or four threads take in equal numbers."""
    i = np.random.default_rng(count).integers(0, 128, count).astype(np.int32)
    f = lambda i: jnp.zeros(128, jnp.int32).at[i].add(1)
    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(i), reference_rule).kernels
    blocks = [
        int(n) for n in re.findall(r"for parallel \S+ in 0:i64\.\.(\d+):", show_kernel(kernel))
    ]
    assert all(n in (1, 2, 4, 8) for n in blocks), blocks
    assert bool(blocks) == (count > 2 * 32768)
    np.testing.assert_array_equal(pullback.jit(f)(i), np.bincount(i, minlength=128))


@pytest.mark.parametrize("name", ["add", "max", "mul"])
@pytest.mark.parametrize("size", [50, 1000])
@pytest.mark.parametrize("inside", [0.0, 0.2, 0.999, 1.0])
def test_updates_that_are_outside_go_to_several_places(name, size, inside):
    """One after the other to the same place, each would wait for the one before."""
    rng = np.random.default_rng(size)
    n = 70_001
    x = (
        rng.integers(1, 3, n).astype(F)
        if name != "mul"
        else np.where(rng.random(n) < 0.001, F(2), F(1))
    )
    i = np.where(rng.random(n) < inside, rng.integers(0, size, n), size + rng.integers(0, 5, n))
    i = i.astype(np.int32)
    first = np.full(size, 1, F)
    f = lambda first, x, i: getattr(first.at[i], name)(x)
    want, kept = first.copy(), i < size
    {"add": np.add, "max": np.maximum, "mul": np.multiply}[name].at(want, i[kept], x[kept])
    np.testing.assert_array_equal(pullback.jit(f)(first, x, i), want)
    closed = pullback.make_jaxpr(f)(first, x, i)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    assert "and %i" in show_kernel(kernel) and ", 15:i64" in show_kernel(kernel)
    np.testing.assert_array_equal(
        eval_jaxpr_numpy(closed.jaxpr, closed.consts, [first, x, i])[0], want
    )


@pytest.mark.parametrize("level", ["avx2", "sse2"])
def test_places_of_lanes_are_masked_together(level):
    """No mask is taken apart for loads and stores of lanes that lie anywhere."""
    if (
        detect_level()
        not in {"avx2": ("avx2", "avx512"), "sse2": ("sse2", "avx2", "avx512")}[level]
    ):
        pytest.skip("code for a processor that this one is not")
    x, i = np.arange(300, dtype=F).reshape(30, 10), np.arange(-20, 280, dtype=np.int32)
    i = np.stack([i % 13] * 30)
    f = lambda x, i: jnp.take_along_axis(x, i, 1, mode="fill")
    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x, i), reference_rule).kernels
    text, _ = emit_module(kernel, target_for(level))
    assert "extractelement" in text and not re.search(r"extractelement <\d+ x i1>", text)
    want = np.where(i < 10, np.take_along_axis(x, np.minimum(i, 9), 1), np.nan)
    np.testing.assert_array_equal(pullback.jit(f)(x, i), want)
