"""Kernels over rows: the same bits whatever the rows' number and what is computed beside, exact
divisions by one number, NaN and signed zeros, and window sums of stretched operands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax
from pullback.backends.llvm import compiler, target, tier
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.driver import Plan
from pullback.backends.llvm.target import detect_level, host_target
from pullback.backends.llvm.threads import runtime
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

LENGTHS = (3, 5, 8, 10, 12, 16, 17, 20, 33, 48, 64, 65, 100)


def _rows(n: int, rows: int = 300, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(n).normal(size=(rows, n)).astype(dtype)


def _bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize(
    ("f", "whole"), [(jnp.exp, 4), (lambda x: jnp.exp(x).sum(), 4), (lambda x: x + 1, 0)]
)
def test_only_the_rest_of_costly_loops_is_masked(f: Callable[[Any], Any], whole: int) -> None:
    """Four vectors go side by side without a mask. Memory takes the time of other loops, and they
    are one copy of the body."""
    (kernel,) = pipeline.compile_jaxpr(
        pullback.make_jaxpr(f)(np.zeros(1000, np.float32)), reference_rule
    ).kernels
    text, _ = emit_module(kernel)
    if host_target().masks:
        assert len(re.findall(r"= load <\d+ x float>", text)) == whole
        assert "@llvm.masked.load" in text


@pytest.mark.parametrize("n", LENGTHS)
def test_the_number_of_rows_shows_in_no_bit(n: int) -> None:
    x = _rows(n)

    def f(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return x.sum(-1), e / e.sum(-1, keepdims=True), x.argmax(-1)

    many, few = pullback.jit(f)(x), pullback.jit(f)(x[:7])
    for a, b in zip(many, few):
        assert np.array_equal(_bits(a)[:7], _bits(b))
    assert np.array_equal(_bits(pullback.jit(lambda x: x.sum(-1))(x)), _bits(many[0]))
    assert np.array_equal(np.asarray(many[2]), x.argmax(-1))
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(many[1], e / e.sum(-1, keepdims=True), rtol=2e-6)


def _short_rows(x: Any) -> Any:
    m = x.max(-1)
    e = jnp.exp(x - m[:, None])
    return jnp.log(e.sum(-1)) + m, x.argmin(-1), (x > 1).any(-1), x.prod(-1), e / e.sum(-1)[:, None]


def _with_each_code(
    function: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch, kinds: Any
) -> list[Any]:
    """The results of a function compiled in each of these ways."""
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    seen = []
    for haste in kinds:
        monkeypatch.setattr(tier, "haste", lambda *_, h=haste, **__: h)
        compiler._live.clear()
        compiler._recent.clear()
        with tier.paused():
            seen.append(pullback.jit(lambda *a: function(*a))(*arguments))
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "int32"])
def test_rows_that_run_side_by_side_compute_the_bits_of_single_rows(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick code takes one row after the other; 269 rows leave some that fill no vector."""
    kinds = [tier.Haste(False, False), tier.Haste(True, True)]
    for n in (13, 20, 33, 128):
        with pullback.enable_x64():
            x = jnp.asarray(np.round(_rows(n, 269) * 4)).astype(dtype)
            good, quick = _with_each_code(_short_rows, [x], monkeypatch, kinds)
        for a, b in zip(good, quick, strict=True):
            assert a.dtype == b.dtype and np.array_equal(_bits(a), _bits(b))
        wide = np.asarray(x).astype(np.float64)
        assert np.array_equal(np.asarray(good[1]), wide.argmin(-1))
        if dtype in ("float32", "float64"):
            log = np.log(np.exp(wide - wide.max(-1)[:, None]).sum(-1)) + wide.max(-1)
            np.testing.assert_allclose(good[0], log, rtol=2e-6)


@pytest.mark.parametrize("n", [9, 12, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_short_products_of_rows_are_read_as_they_lie(n: int, dtype: str) -> None:
    """Not at a stride by lanes across the rows; a few rows give the bits of many."""
    rng = np.random.default_rng(n)
    a, v = (rng.normal(size=s).astype(np.float32) * 9 for s in ((90, 11, n), (90, n)))

    def f(a: Any, v: Any) -> Any:
        return jnp.tanh(jnp.einsum("bij,bj->bi", a, v)), (a * v[:, None]).sum(-1)

    with pullback.enable_x64():
        a, v = a.astype(dtype), v.astype(dtype)
        (kernel, *_) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(a, v), reference_rule).kernels
        assert "for rows" in show_kernel(kernel)
        many, few = pullback.jit(f)(a, v), pullback.jit(f)(a[:2], v[:2])
        for x, y in zip(many, few, strict=True):
            assert np.array_equal(_bits(x)[:2], _bits(y))
        wide = np.einsum("bij,bj->bi", a.astype(np.float64), v.astype(np.float64))
        np.testing.assert_allclose(many[1], wide, rtol=1e-4, atol=1e-3)


def test_rows_inside_of_rows_run_side_by_side() -> None:
    """The scores of a query, of which the weights of the same row are made."""
    rng = np.random.default_rng(12)
    q, k = (rng.normal(size=s).astype(np.float32) for s in ((70, 32), (70, 50, 32)))

    def f(q: Any, k: Any) -> Any:
        s = jnp.einsum("bd,btd->bt", q, k)
        e = jnp.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(q, k), reference_rule).kernels
    assert show_kernel(kernel).count("for rows") == 1
    s = np.einsum("bd,btd->bt", q.astype(np.float64), k)
    e = np.exp(s - s.max(-1, keepdims=True))
    expected = e / e.sum(-1, keepdims=True)
    np.testing.assert_allclose(pullback.jit(f)(q, k), expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_the_last_of_a_row_is_stored_alone(dtype: str) -> None:
    """A masked store of one lane of narrowed numbers is a store of four bytes for LLVM 22: it wrote
    over the next row, which another thread had written."""
    x = jnp.asarray(np.round(_rows(33, 269) * 4)).astype(dtype)

    def f(x: Any) -> Any:
        m = x.max(-1)
        return x - m[:, None], (x - m[:, None]).sum(-1)

    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x), reference_rule).kernels
    for brief in (False, True):
        text, _ = emit_module(kernel, brief=brief)
        masks = re.findall(r"masked\.store[^\n]*<(i1 [^>]*)>\)", text)
        assert not any(mask.count("true") == 1 for mask in masks)
    wide = np.asarray(x).astype(np.float64)
    expected = np.asarray(jnp.asarray(wide - wide.max(-1)[:, None]).astype(dtype))
    for _ in range(20):
        assert np.array_equal(np.asarray(pullback.jit(f)(x)[0]), expected)


def test_extremes_over_several_axes_are_combined_once() -> None:
    """The lanes of a row's accumulators are not combined before the next row."""
    x = np.random.default_rng(5).normal(size=(23, 5, 71)).astype(np.float32)
    x[3, 2, 7] = np.nan
    closed = pullback.make_jaxpr(lambda x: x.max((0, 2)))(x)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    if host_target().masks:
        text, _ = emit_module(kernel)
        assert len(re.findall(r"phi <16 x float>", text)) >= 8  # four in each of two loops
    for axes in ((0, 2), (0, 1), (1, 2)):
        for name in ("max", "min"):
            got = pullback.jit(lambda x, f=name, a=axes: getattr(jnp, f)(x, a))(x)
            assert np.array_equal(got, getattr(x, name)(axes), equal_nan=True)
    whole = (x > 0).astype(np.int32)
    assert np.array_equal(pullback.jit(lambda x: x.sum((0, 2)))(whole), whole.sum((0, 2)))


@pytest.mark.parametrize("n", [5, 20, 71, 128, 130])
def test_short_rows_over_several_axes_are_straight_code(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the reduced axes has a known length, if short; of many rows."""
    x = np.random.default_rng(n).normal(size=(9, 80, n)).astype(np.float32)

    def f(x: Any) -> Any:
        return x.max((0, 2)), x.min((0, 2)), x.sum((0, 2)), (x > 1).any((0, 2))

    for kernel in pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x), reference_rule).kernels:
        assert (f"in 0:i64..{n}:i64" in show_kernel(kernel)) is (n <= 128)
    kinds = [tier.Haste(False, False), tier.Haste(True, True)]
    good, quick = _with_each_code(f, [x], monkeypatch, kinds)
    for a, b in zip(good, quick, strict=True):
        assert np.array_equal(_bits(a), _bits(b))
    assert np.array_equal(good[0], x.max((0, 2))) and np.array_equal(good[1], x.min((0, 2)))
    np.testing.assert_allclose(good[2], x.sum((0, 2), dtype=np.float64), rtol=1e-5, atol=1e-4)
    assert np.array_equal(good[3], (x > 1).any((0, 2)))


def test_short_rows_run_side_by_side() -> None:
    """Lanes of single rows are not combined one row after the other, and what is computed once a
    row is computed in lanes: no vector is halved, and none is left for a single number."""
    x = _rows(20)
    closed = pullback.make_jaxpr(lambda x: (x * x).sum(-1) - x.max(-1))(x)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    if host_target().masks:
        text, _ = emit_module(kernel)
        assert "<4 x float>" not in text and "<8 x float>" not in text
        assert text.count("fsub <16 x float>") == 1 and "fsub float" not in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_rows_propagate_nan(dtype: str) -> None:
    with pullback.enable_x64():
        for n in LENGTHS:
            x = _rows(n, dtype=dtype)
            x[::3, n // 2] = np.nan
            x[1::5, 0] = -np.inf
            x[2::7] = np.inf
            found = pullback.jit(lambda x: (x.max(-1), x.min(-1), x.argmin(-1)))(x)
            for a, b in zip(found, (x.max(-1), x.min(-1), x.argmin(-1))):
                np.testing.assert_array_equal(a, b)


def test_extremes_order_zeros_by_their_sign() -> None:
    x = np.where(np.arange(300 * 20).reshape(300, 20) % 7 == 3, 0.0, -0.0).astype(np.float32)
    largest, least = pullback.jit(lambda x: (x.max(-1), x.min(-1)))(x)
    assert not np.signbit(largest).any()
    assert np.signbit(least).all()
    pairs = np.array([0.0, -0.0], np.float32)
    larger = pullback.jit(jnp.maximum)(np.tile(pairs, 20), np.repeat(pairs, 20))
    assert np.array_equal(
        np.signbit(larger), np.tile([False, True], 20) & np.repeat([False, True], 20)
    )


@pytest.mark.parametrize("seed", range(6))
def test_division_of_lanes_by_one_number_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = pullback.jit(lambda x, y: x / y)
    near = (2 - rng.random(40_000) * 1e-2).astype(np.float32)
    anything = rng.integers(0, 2**32, 40_000, dtype=np.uint32).view(np.float32)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38, 3e38], np.float32)
    x = np.concatenate([near, anything, np.tile(edges, 5)])
    divisors = [2 - 1e-3 * rng.random(), 1 + rng.random(), np.exp(8 * rng.normal()), -3.7, 1e-42]
    for y in np.array([*divisors, 2 - 2.0**-23, 0.0, np.inf], np.float32):
        with np.errstate(all="ignore"):
            exact = x / y
        found = np.asarray(f(x, y))
        same = (_bits(found) == _bits(exact)) | (np.isnan(found) & np.isnan(exact))
        assert same.all(), (y, x[~same][:3])


def test_exponentials_reach_the_ends_of_their_range() -> None:
    x = np.array([-np.inf, -200, -104, -103.3, -90, -0.0, 88.7, 88.8, 1e30, np.inf, np.nan] * 3)
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float32).astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(pullback.jit(jnp.exp)(x.astype(np.float32)), exact, rtol=2e-6)
    with pullback.enable_x64():
        y = np.array([-np.inf, -746.0, -745.0, -709.5, 0.0, 709.7, 710.0, np.nan] * 3)
        with np.errstate(over="ignore"):
            exact = np.exp(y)
        np.testing.assert_allclose(pullback.jit(jnp.exp)(y), exact, rtol=2e-15)


def _window_sum(x: Any, window: Any, padding: Any, base: Any) -> Any:
    """By the definition: zeros between elements and around, then every window's sum."""
    stretched = np.zeros([(n - 1) * b + 1 for n, b in zip(x.shape, base)], x.dtype)
    stretched[tuple(slice(None, None, b) for b in base)] = x
    whole = np.pad(stretched, padding)
    shape = [n - w + 1 for n, w in zip(whole.shape, window)]
    out = np.zeros([max(0, n) for n in shape], x.dtype)
    for at in product(*map(range, window)):
        out += whole[tuple(slice(k, k + n) for k, n in zip(at, out.shape))]
    return out


@pytest.mark.parametrize("seed", range(24))
def test_window_sums_of_stretched_operands(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 3
    draw: Callable[[int, int], Any] = lambda lo, hi: tuple(map(int, rng.integers(lo, hi, rank)))
    x = rng.integers(-5, 6, draw(1, 7)).astype(np.float32)
    base, window = draw(1, 4), draw(1, 5)
    padding = tuple(zip(draw(0, 4), draw(2, 5)))
    expected = _window_sum(x, window, padding, base)
    ones = (1,) * rank
    f = lambda x: lax.reduce_window(x, 0.0, lax.add, window, ones, padding, base_dilation=base)
    config = [(lo, hi, b - 1) for (lo, hi), b in zip(padding, base)]
    g = lambda x: lax.reduce_window(
        lax.pad(x, np.float32(0), config), 0.0, lax.add, window, ones, "VALID"
    )
    if 0 not in expected.shape:
        assert np.array_equal(_bits(pullback.jit(f)(x)), _bits(expected + 0.0))
        assert np.array_equal(_bits(pullback.jit(g)(x)), _bits(expected + 0.0))


def test_programs_over_short_rows_are_one_kernel() -> None:
    def f(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for n in (4, 10, 40):
        text = pullback.jit(f).lower(_rows(n)).compile().as_text()
        assert text.count("KernelStep") == 1


def test_rows_of_reductions_are_computed_once() -> None:
    """Those that keep an axis beyond the rows' are read from scratch, not reduced anew."""
    x = np.random.default_rng(0).normal(size=(6, 40, 10, 12)).astype(np.float32)

    def f(x: Any) -> Any:
        centred = x - x.mean((1, 3), keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean((1, 3), keepdims=True) + 1e-5)

    compiled = pullback.jit(f).lower(x).compile()
    assert compiled.as_text().count("for reduce") == 2
    wide = x.astype(np.float64)
    centred = wide - wide.mean((1, 3), keepdims=True)
    expected = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=1e-5)


def _softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _normalised(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("function", "fetches"),
    [(_softmax, True), (_normalised, True), (lambda x: jnp.exp(x).sum(-1), False),
     (lambda x: jnp.exp(x), False)],
)  # fmt: skip
def test_rows_that_are_read_again_fetch_the_next_one(function: Any, fetches: bool) -> None:
    """Where a row is walked several times, a later walk asks for the next row's memory."""
    for shape in ((1000, 1000), (40, 5000)):
        closed = pullback.make_jaxpr(function)(_rows(shape[1], shape[0]))
        (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
        text, _ = emit_module(kernel)
        assert ("call void @llvm.prefetch" in text) is fetches


@pytest.mark.parametrize(
    ("function", "shapes", "fetches"),
    [
        (lambda x: x.sum(-1), [(2000, 2000)], True),
        (lambda x: x.sum(-1), [(700, 700)], False),  # stays in a core's caches
        (lambda x: x.sum(), [(4_000_000,)], True),
        (lambda x, y: x @ y, [(2000, 2000), (2000,)], True),
        (lambda x: jnp.cos(x).sum(-1), [(2000, 2000)], False),  # does not wait for memory
    ],
)
def test_reductions_of_long_operands_look_ahead(
    function: Any, shapes: list[tuple[int, ...]], fetches: bool
) -> None:
    closed = pullback.make_jaxpr(function)(*(np.zeros(shape, np.float32) for shape in shapes))
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    assert ("call void @llvm.prefetch" in text) is fetches
    brief, _ = emit_module(kernel, brief=True)
    assert "llvm.prefetch" not in brief


def test_heavy_loops_are_scheduled_well() -> None:
    """Code of much arithmetic is worth LLVM's second level, but for a first run of little work;
    little arithmetic is not where masks make it one straight loop."""
    x = _rows(8000, 1)[0]
    light = 0 if host_target().masks else 2
    for function, level in ((lambda x: x + 1, light), (lambda x: jnp.tanh(x) * jnp.sin(x), 2)):
        closed = pullback.make_jaxpr(function)(x)
        (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
        assert emit_module(kernel)[1] == level
        _, first, quick = compiler._emitted(kernel, host_target(), True)
        assert (first, quick) == (0, level > 0)


def test_factors_of_one_are_left_out() -> None:
    """Derivatives are full of them."""
    closed = pullback.make_jaxpr(lambda x: (1.0 * x) * 1.0 / 1.0 + x)(_rows(8000, 1)[0])
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    assert "fmul" not in text and "fdiv" not in text and "fadd" in text


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither in this process nor on disk; quick code comes first."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    if not tier.enabled():
        pytest.skip("PULLBACK_TIER=0")
    compiler._live.clear()
    compiler._recent.clear()


@pytest.mark.usefixtures("nothing_compiled")
def test_heavy_code_for_a_first_run_does_not_stay() -> None:
    """One straight loop is compiled by LLVM's quick path at first, as all are, and known to be."""
    x = _rows(8000, 1)[0]
    f = pullback.jit(lambda x: jnp.tanh(x) * jnp.sin(x))
    with tier.paused():
        first = np.asarray(f(x))
        (kernel,) = compiler._live.values()
        assert kernel.source is not None
    for _ in range(200):
        assert np.array_equal(_bits(f(x)), _bits(first))
    kernel.improved()  # or waits for the thread that is at it
    assert kernel.source is None and np.array_equal(_bits(f(x)), _bits(first))


def test_quick_code_divides_lanes_by_one_number() -> None:
    """Good code multiplies by the reciprocal and corrects; the bits are the same (above)."""
    closed = pullback.make_jaxpr(_softmax)(_rows(1000, 20))
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    quick, good = (emit_module(kernel, brief=brief)[0] for brief in (True, False))
    if host_target().masks:
        assert quick.count("fdiv") == 1
        assert good.count("fdiv") > 1 and quick.count("fneg") < good.count("fneg")


@pytest.mark.skipif(
    host_target().vector_bytes < 32, reason="good code of longer texts is not made so soon"
)
@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("function", [lambda x: jnp.cosh(x) * 0.75, _softmax])
@pytest.mark.parametrize("beside", [True, False])
def test_the_second_run_has_good_code_made(
    function: Any, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few kernels have so much to do that some runs repay what is soon made: beside the runs,
    before the run where there is one processor. How long code takes is said here, not measured: on
    a quick machine two runs lost too little, on a slow one so much that nobody had to ask twice."""
    monkeypatch.setattr(tier, "cpu_count", lambda: 1 + beside)
    monkeypatch.setattr(Plan, "effort", lambda plan: 10e-3 if plan.hasty else 0.0)
    monkeypatch.setattr(Plan, "lost", lambda plan: 0.5e-3 * plan.heat()[0])
    # No watcher: what this one would do is done here.
    monkeypatch.setattr(tier, "_watcher", watcher := tier._Watcher())
    watcher.stopping = True
    f = pullback.jit(lambda x: function(x))
    x = jnp.asarray(_rows(1000, 1000))
    first = f(x).block_until_ready()
    plan = f.lower(x).compiler_ir("loops").plan
    assert plan.hasty and not plan.again
    f(x).block_until_ready()
    assert tier.settled(plan) and bool(plan.hasty) == watcher.hot == beside
    while plan.improve():
        pass
    assert not plan.hasty and np.array_equal(_bits(f(x)), _bits(first))


@pytest.mark.usefixtures("nothing_compiled")
def test_nothing_is_begun_while_compiling_is_paused() -> None:
    f = pullback.jit(lambda x: jnp.cosh(x) * 0.75)
    x = jnp.asarray(_rows(1000, 1000))
    with tier.paused():
        f(x).block_until_ready()
        plan = f.lower(x).compiler_ir("loops").plan
        f(x).block_until_ready()
        assert plan.hasty and all(kernel.better is None for _, kernel, _ in plan.hasty)


@pytest.mark.usefixtures("nothing_compiled")
def test_a_product_of_two_plans_is_improved_in_both() -> None:
    """What one plan has had made well is known to multiply no more: the other asked for seconds
    that it had not kept, and the thread that makes good code ended."""
    a = jnp.asarray(_rows(300, 300))
    with tier.paused():
        plans = []
        for function in (lambda a: a @ a, lambda a: (a @ a, jnp.cosh(a))):
            f = pullback.jit(function)
            f(a)
            plans.append(f.lower(a).compiler_ir("loops").plan)
    shared = {kernel for _, kernel, _ in plans[0].hasty} & {k for _, k, _ in plans[1].hasty}
    assert any(kernel.multiplies for kernel in shared)
    for plan in plans:
        while plan.improve():
            pass
        assert not plan.hasty


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    ("function", "size"),
    [(lambda x: jnp.fft.rfft2(x).real.sum(), 255), (lambda x: jnp.cosh(x) * 0.75, 400)],
)
def test_no_run_waits_for_code_that_a_few_runs_do_not_repay(function: Any, size: int) -> None:
    """A transform's: some thousand lines, a fraction of a millisecond; and LLVM takes as long for a
    hundred lines as a hundred runs on a hundred thousand numbers."""
    f = pullback.jit(function)
    x = jnp.asarray(_rows(size, size))
    with tier.paused():
        f(x).block_until_ready()
        plan = f.lower(x).compiler_ir("loops").plan
        assert plan.hasty and plan.work > tier.VERY_MUCH_WORK
        f(x).block_until_ready()
        assert plan.hasty and tier.settled(plan)
    while plan.improve():
        pass
    assert not plan.hasty


@pytest.mark.parametrize(
    ("steps", "kernels", "runs", "lost", "hot"),
    [
        (300, 3, 2, 1e-2, True),  # a few kernels, called often: soon repaid
        (300, 3, 2, 1e-4, False),
        (12, 12, 2, 1e-4, False),  # many, of which runs gain little
        (12, 12, 9, 1e-4, False),
        (12, 12, 10, 1e-4, True),
        (12, 12, 2, 1.1e-2, False),
        (12, 12, 3, 1.1e-2, True),  # quick code has lost a quarter of what they take
    ],
)
def test_when_good_code_is_begun(
    steps: int, kernels: int, runs: int, lost: float, hot: bool
) -> None:
    """By what kernels there are, not by how many steps call them, and by what a run has lost."""
    some = [object() for _ in range(kernels)]
    plan: Any = SimpleNamespace(
        hasty=[(k, some[k % kernels], None) for k in range(steps)], work=1e8, seconds=1e-2,
        again=True, effort=lambda: kernels * 1e-2, lost=lambda: runs * lost,
        heat=lambda: (float(runs), runs * 1e8),
    )  # fmt: skip
    assert tier._is_hot(plan) == hot


def test_what_has_lost_most_is_improved_first() -> None:
    """What takes longest loses little where tile functions do its work, or where good code takes
    as long; how long it takes is measured."""
    improved: list[str] = []

    def kernel(name: str, multiplies: bool) -> Any:
        def better(between: Any) -> int:
            improved.append(name)
            return 0

        code = SimpleNamespace(quick=1, length=1000)
        return SimpleNamespace(name=name, multiplies=multiplies, code=code, improved=better)

    plan, second = Plan(0), round(1e6 / runtime().seconds_of(1e6))
    plan.table, plan.count, plan.kernel_steps = [0] * 32, [0] * 6 + [4], 4
    plan.hasty = [
        (0, kernel("product", True), [0, second]),
        (1, kernel("short", False), [0, second // 200]),
        (2, kernel("long", False), [0, second // 2]),
        (3, kernel("as good", False), [0, second // 2 - second // 100]),
    ]
    costs = 1e-5, 1e-4, 0.48
    plan.good = {id(k): c for (_, k, _), c in zip(plan.hasty[1:], costs, strict=True)}
    while plan.improve():
        pass
    assert improved == ["long", "as good", "product", "short"]


@pytest.mark.usefixtures("nothing_compiled")
def test_first_code_is_timed_and_good_code_is_not() -> None:
    """By what runs in its place (native.py): the steps of good code are as if there had never been
    any other."""
    f = pullback.jit(lambda x: jnp.cosh(x) * 0.75)
    x = jnp.asarray(_rows(500, 500))
    with tier.paused():
        f(x).block_until_ready()
        plan = f.lower(x).compiler_ir("loops").plan
        once, ((step, kernel, _),) = sum(plan.spent), plan.hasty
        assert once > 0 and plan.lost() > 1e-5
        f(x).block_until_ready()
        assert sum(plan.spent) > once
    while plan.improve():
        pass
    spent = list(plan.spent)
    f(x).block_until_ready()
    assert list(plan.spent) == spent
    assert plan.table[8 * step + 1] == kernel.address


def test_plans_that_go_on_running_are_looked_at_soon() -> None:
    """Native calls do not say that they run: the thread's pauses are no longer doubled."""
    runs, work = [3.0], [1e8]
    plan: Any = SimpleNamespace(
        hasty=[(0, None, None)], work=work[0], seconds=1e-2, again=False,
        effort=lambda: 1.0, lost=lambda: runs[0] * 1e-6, heat=lambda: (runs[0], runs[0] * work[0]),
    )  # fmt: skip
    watcher, waiting = tier._Watcher(), [lambda: plan]
    assert watcher.look(waiting) and not watcher.look(waiting)
    runs[0] = 4.0
    assert watcher.look(waiting)
    plan.work, runs[0] = 1e3, 2.0  # so little that it matters little
    assert not watcher.look(waiting)


@pytest.mark.usefixtures("nothing_compiled")
def test_what_has_run_for_long_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the thread looks next: what is called some ten times meets good code, too. That it
    has run for long is said here: how long it runs is the machine's affair."""
    monkeypatch.setattr(tier, "FIRST_LOOK", 1e3)
    monkeypatch.setattr(Plan, "effort", lambda plan: 10e-3 if plan.hasty else 0.0)
    monkeypatch.setattr(Plan, "lost", lambda plan: 1e-3 * plan.heat()[0])
    monkeypatch.setattr(tier, "_watcher", watcher := tier._Watcher())
    f = pullback.jit(lambda x: jnp.cosh(x) * 0.75)
    x = jnp.asarray(_rows(1500, 1500))
    for _ in range(3):
        f(x).block_until_ready()
    plan = f.lower(x).compiler_ir("loops").plan
    end = time.monotonic() + 30
    while plan.hasty and time.monotonic() < end:
        time.sleep(1e-3)
    watcher.stop()
    assert not plan.hasty


def test_long_code_is_quick_at_first_also_where_runs_last() -> None:
    """Good code of a transform in three dimensions takes a hundred milliseconds, a run five."""
    if tier.enabled():
        assert tier.haste(1e8, 1.5e-2, 5e-3, False, statements=400).kernel
        assert not tier.haste(1e8, 1.5e-2, 5e-3, False, statements=60).kernel


def test_kernels_that_multiply_blocks_are_quick_code_at_first() -> None:
    """What is outside of the blocks is little of a product of 2000 x 2000, and takes LLVM as long
    as other code."""
    if tier.enabled():
        haste = tier.haste(1.6e9, 4e-2, 4e-2, True, statements=27)
        assert haste.kernel and haste.shared and not haste.tiles


def test_quick_code_of_long_runs_is_for_several_threads() -> None:
    """A first run that lasts is cut for threads; one that does not is not worth the code."""
    for rows, shared in ((200, False), (4000, True)):
        haste = tier.haste(1e9, 1e-3, 1e-7 * rows * 2, tiles=False)
        assert not tier.enabled() or (haste.kernel and haste.shared is shared)
    many_loops = tier.haste(1e9, 1e-3, 6e-4, tiles=False, statements=100)
    assert not tier.enabled() or (many_loops.kernel and not many_loops.shared)
    x = _rows(1000, 2000)
    closed = pullback.make_jaxpr(_softmax)(x)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    for shared in (False, True):
        text, _ = emit_module(kernel, brief=True, shared=shared)
        assert ("define internal void @pb_1" in text) is shared


@pytest.mark.parametrize(
    "function",
    [
        _softmax,
        _normalised,
        lambda x: x.sum(0),
        jnp.tanh,
        lambda x: (x * x).sum(),
        lambda x: x[3, :77].sum(),
        lambda x: x.astype(jnp.bfloat16).mean(),
        jnp.argmax,
        lambda x: (x < -4).any(),
        lambda x: jnp.cumsum(x, 1),
    ],
)
def test_threads_and_lanes_change_no_bit_of_quick_code(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [tier.Haste(False, False), tier.Haste(True, True), tier.Haste(True, True, True)]
    kinds.append(tier.Haste(True, True, alone=True))
    results = _with_each_code(function, [_rows(1000, 700)], monkeypatch, kinds)
    seen = [_bits(result) for result in results]
    assert all(np.array_equal(seen[0], other) for other in seen[1:])


def test_quick_code_of_what_runs_for_a_moment_has_no_vectors() -> None:
    """LLVM's quick path selects vectors from a graph, single numbers at once."""
    closed = pullback.make_jaxpr(lambda x: (jnp.tanh(x), jnp.sum(x * x)))(_rows(10, 10))
    for kernel in pipeline.compile_jaxpr(closed, reference_rule).kernels:
        assert not re.search(r"<\d+ x ", emit_module(kernel, brief=True, alone=True)[0])
    assert not tier.enabled() or tier.haste(1e4, 1e-5, 1e-6, False, statements=20).alone
    assert not tier.haste(1e4, 1e-5, 1e-5, False, statements=20).alone


@pytest.mark.parametrize("stride", [*range(2, 11), 12, 15, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int32", "bfloat16"])
def test_neighbours_at_a_stride_are_loaded_as_they_lie(stride: int, dtype: str) -> None:
    """Whole vectors are loaded once and taken apart, not once for each of the neighbours."""
    x = np.random.default_rng(stride).integers(0, 50, 1009 * stride)

    def f(x: Any) -> Any:
        total = x[::stride]
        for k in range(1, stride):
            total = total - x[k::stride]
        return total

    with pullback.enable_x64():
        a = jnp.asarray(x).astype(dtype)
        expected = x.reshape(-1, stride)[:, 0] - x.reshape(-1, stride)[:, 1:].sum(-1)
        if dtype != "bfloat16":  # of which sums are rounded
            assert np.array_equal(pullback.jit(f)(a), expected.astype(dtype))
        (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(a), reference_rule).kernels
    if dtype == "float32" and host_target().masks:
        text, _ = emit_module(kernel)
        assert text.count("load <16 x float>") == (stride if stride <= 8 else 16)


@pytest.mark.parametrize("stride", [2, 3, 5, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "bool"])
def test_neighbours_at_a_stride_are_loaded_backwards(stride: int, dtype: str) -> None:
    """As a picture that is mirrored: vectors are loaded as they lie, and their lanes turned."""

    def f(x: Any) -> Any:
        return x[2:, ::-1, ::-1][:, :, ::-1], x.reshape(len(x), -1)[:, ::-stride]

    for width in (1, 4, 15, 16, 17, 33, 100):
        x = np.random.default_rng(width).integers(0, 2, (5, width, stride)).astype(dtype)
        with pullback.enable_x64():
            for out, expected in zip(pullback.jit(f)(x), f(x), strict=True):
                assert np.array_equal(np.asarray(out), expected), width
    kernels = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x), reference_rule).kernels
    if dtype == "float32" and host_target().masks:
        assert not any("gather" in emit_module(kernel)[0] for kernel in kernels)


@pytest.mark.parametrize("stride", [5, 8, 9, 10, 13, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16"])
def test_neighbours_at_a_stride_are_stored_as_they_lie(stride: int, dtype: str) -> None:
    """Rows of which each element is computed in its own way, whatever their number: they are put
    together in registers, and nothing beside them is written."""

    def f(x: Any) -> Any:
        return jnp.stack([x[:, k] * (k + 2) + x[:, k - 1] for k in range(stride)], -1)

    for rows in (1, 2, 15, 16, 17, 33, 64, 127, 1000):
        x = np.random.default_rng(rows).integers(0, 12, (rows, stride))
        expected = x * np.arange(2, stride + 2) + np.roll(x, 1, -1)
        with pullback.enable_x64():
            out = pullback.jit(f)(jnp.asarray(x).astype(dtype))
        assert np.array_equal(np.asarray(out), expected.astype(dtype)), rows
    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x), reference_rule).kernels
    if dtype == "float32" and host_target().masks:
        text, _ = emit_module(kernel)
        assert "gather" not in text and "scatter" not in text


@pytest.mark.parametrize("axis", (0, 1, 2))
def test_parts_of_complex_numbers_move_together(axis: int) -> None:
    """Real and imaginary parts are loaded and stored as whole vectors, wherever the literals of
    their places stand: none is stored around the other, under a mask."""
    x = np.ones((40, 48, 64), np.complex64)
    closed = pullback.make_jaxpr(lambda x: jnp.fft.fft(x, axis=axis))(x)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    assert "masked.store" not in text


@pytest.mark.parametrize("mode", ("reflect", "symmetric", "wrap"))
def test_rows_of_one_array_are_found_before_they_are_read(mode: str) -> None:
    """Edges that mirror an array, however many pieces they take, are one pass over it: no array
    between its axes, no condition on a row's elements."""
    x = np.arange(70 * 100, dtype=np.float32).reshape(70, 100)
    closed = pullback.make_jaxpr(lambda x: jnp.pad(x, 9, mode=mode))(x)
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    assert len([b for b in kernel.params if b.role in ("in", "out")]) == 2
    for y in (x, x[:, :7], x[3:4]):
        want = np.pad(y, 9, mode=mode)
        np.testing.assert_array_equal(np.asarray(jnp.pad(y, 9, mode=mode)), want)


def test_rows_that_are_joined_many_times_over() -> None:
    """How a row is found stays short, however often rows of one array are joined anew."""
    x = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)

    def turned(x: Any) -> Any:
        for _ in range(40):
            x = jnp.concatenate([x[1:], x[:1]])
        return x

    np.testing.assert_array_equal(np.asarray(pullback.jit(turned)(x)), x)
    back = pullback.jit(lambda x: jnp.concatenate([x[::-1], x[1::2], x]).T)
    np.testing.assert_array_equal(np.asarray(back(x)), np.concatenate([x[::-1], x[1::2], x]).T)


@pytest.mark.parametrize("function", (jnp.sin, jnp.cos))
def test_arguments_of_sines_are_reduced_in_floats(function: Any) -> None:
    """In doubles only where one is large, and there for that one alone: the others' bits do not
    depend on their neighbours."""
    closed = pullback.make_jaxpr(function)(np.zeros(4000, np.float32))
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    if host_target().fma:  # without fused multiply-adds doubles are what is exact
        assert "fpext" not in text.split("fcmp ogt", 1)[0]
    x = np.linspace(-4000, 4000, 999).astype(np.float32)
    x = np.concatenate([x, np.float32([0.0, -0.0, 1e-40, np.inf, np.nan, 4096, 4097, 1e30])])
    alone = np.asarray(function(x))
    with np.errstate(invalid="ignore"):
        want = getattr(np, function.__name__)(x.astype(np.float64))
    np.testing.assert_allclose(alone, want, rtol=2.5e-7, atol=1e-12)
    mixed = x.copy()
    mixed[::3] = 1e8
    beside = np.asarray(function(mixed))
    np.testing.assert_array_equal(beside[1::3], alone[1::3])


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize(
    "function", (lambda a, x: a @ x, lambda a, x: x @ a, lambda a, x: _softmax(a))
)
def test_what_fills_no_turn_of_a_loop_runs_in_lanes(
    function: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where loads can be masked, on AVX2 too, the end of a row is not computed one element after
    the other."""
    if detect_level() not in ("avx2", "avx512"):
        pytest.skip("for AVX2")
    monkeypatch.setenv("PULLBACK_ISA", "avx2")
    with pullback.enable_x64(True):
        a, x = np.ones((45, 45), dtype), np.ones(45, dtype)
        closed = pullback.make_jaxpr(function)(a, x)
        (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    letter = "f32" if dtype == np.float32 else "f64"
    assert f"llvm.masked.load.v{32 // np.dtype(dtype).itemsize}{letter}" in text


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool", "int8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_hundreds_of_arrays_joined(axis: int, dtype: str) -> None:
    """They are joined in groups: a loop that asks for each of them is long to compile."""
    shape = [2, 3, 2]
    parts = []
    for k in range(150):
        shape[axis] = k % 3
        parts.append((np.arange(np.prod(shape)).reshape(shape) + k).astype(dtype))
    joined = pullback.jit(
        lambda xs: jnp.concatenate([x * x for x in xs], axis) + jnp.ones((), dtype)
    )
    want = np.concatenate([p * p for p in parts], axis) + np.ones((), dtype)
    np.testing.assert_array_equal(joined(parts), want)
    even = parts[2::3] * 3
    np.testing.assert_array_equal(
        pullback.jit(jnp.stack, static_argnums=1)(even, axis), np.stack(even, axis)
    )


def test_hundreds_of_arrays_joined_in_a_loop() -> None:
    def step(c: Any, x: Any) -> Any:
        rows = jnp.stack([c * k + x for k in range(200)])
        return rows[-1] / 200, rows.sum(0)

    xs = np.linspace(0, 1, 12, dtype="float32").reshape(4, 3)
    got = pullback.jit(lambda c: pullback.lax.scan(step, c, xs))(jnp.ones(3))
    with pullback.disable_jit():
        want = pullback.lax.scan(step, jnp.ones(3), xs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    begun = time.process_time()  # what else the machine does is not counted
    pullback.jit(lambda rows: jnp.stack(rows))([np.ones(7, "float32")] * 1000)
    assert time.process_time() - begun < 12  # it was 22 s, of 2000 rows 108 s


def _cofactors(x: Any) -> Any:
    (a, b, c), (d, e, f), (g, h, i) = (tuple(x[:, k, m] for m in range(3)) for k in range(3))
    rows = [[e * i - f * h, c * h - b * i, b * f - c * e],
            [f * g - d * i, a * i - c * g, c * d - a * f],
            [d * h - e * g, b * g - a * h, a * e - b * d]]  # fmt: skip
    det = a * rows[0][0] + b * rows[1][0] + c * rows[2][0]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2) / det[:, None, None]


@pytest.mark.parametrize(("function", "n"), [(_cofactors, 3), (jnp.linalg.qr, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quick_code_of_small_matrices_leaves_shuffles_to_good_code(
    function: Any, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM takes a tenth of a millisecond for each: lanes are loaded by their addresses."""
    kinds = [tier.Haste(False, False), tier.Haste(True, True)]
    with pullback.enable_x64():
        x = jnp.asarray(_rows(517, n * n).reshape(517, n, n)).astype(dtype)
        seen = _with_each_code(function, [x], monkeypatch, kinds)
        good, quick = ([_bits(y) for y in pullback.tree.leaves(result)] for result in seen)
        assert all(np.array_equal(a, b) for a, b in zip(good, quick, strict=True))
        closed = pullback.make_jaxpr(function)(x)
        kernels = pipeline.compile_jaxpr(closed, reference_rule).kernels
        if target.host_target().masks:
            texts = [emit_module(kernel, brief=True)[0] for kernel in kernels]
            assert sum(text.count(" = shufflevector ") for text in texts) < 8


@pytest.mark.parametrize("n", [97, 255])
def test_quick_code_of_transforms_takes_lanes_by_their_addresses(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of unknown strides as well, and under a mask: one loop does for full and other vectors."""
    kinds = [tier.Haste(False, False), tier.Haste(True, True)]
    x = jnp.asarray(_rows(n, 37) + 1j * _rows(n, 37)[::-1])
    good, quick = _with_each_code(jnp.fft.fft, [x], monkeypatch, kinds)
    assert np.array_equal(_bits(good), _bits(quick))
    kernels = pipeline.compile_jaxpr(pullback.make_jaxpr(jnp.fft.fft)(x), reference_rule).kernels
    if target.host_target().masks:
        texts = [emit_module(kernel, brief=True)[0] for kernel in kernels]
        assert not any(" = extractelement " in text for text in texts)


def test_lanes_that_store_to_one_place_under_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stride of nothing is not one that is taken by addresses."""
    kinds = [tier.Haste(False, False), tier.Haste(True, True)]
    with pullback.enable_x64():
        x = jnp.asarray(_rows(40, 3, np.float64))
        good, quick = _with_each_code(lambda x: pullback.lax.top_k(x, 1), [x], monkeypatch, kinds)
    assert all(np.array_equal(a, b) for a, b in zip(good, quick, strict=True))
    assert np.array_equal(good[0][:, 0], np.asarray(x).max(1))


@pytest.mark.parametrize("n", [9, 10, 15, 17, 24, 31, 33, 60, 65, 100, 127])
def test_short_rows_share_what_they_have_in_common(n: int) -> None:
    """It is computed once for a vector of columns, not again in each row; also in place, and by
    any number of threads."""
    x, m = _rows(n, 20_000), _rows(n, 2)
    f = lambda x, m: jnp.exp((x - m[0] / 7.0) / (m[1] * m[1] + 1.0)) - x
    kernels = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x, m), reference_rule).kernels
    (text,) = map(show_kernel, kernels)
    before, row = text.split("for seq")
    assert before.count(" div ") == 1 and row.count(" div ") == 1
    whole = np.asarray(pullback.jit(f)(x, m))
    for rows in (63, 64, 65, 1000):
        assert np.array_equal(_bits(whole[:rows]), _bits(pullback.jit(f)(x[:rows], m)))
    with pullback.num_threads(1):
        alone = pullback.jit(f, donate_argnums=0)(jnp.asarray(x) + 0, m)
    assert np.array_equal(_bits(whole), _bits(alone))
    assert np.allclose(whole, np.exp((x - m[0] / 7) / (m[1] ** 2 + 1)) - x, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("n", [33, 45, 47, 50, 63])
def test_rows_in_place_do_not_wait_for_what_is_stored_under_a_mask(n: int) -> None:
    """Where a result takes its argument's memory, full vectors of all rows are stored without a
    mask, before what is left of them; to the same bits as in memory of its own."""
    x, m = _rows(n, 3000), _rows(n, 1)[0]
    f = lambda x, m: x * m + m
    (kernel,) = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(x, m), reference_rule).kernels
    if target.host_target().masks:
        text = emit_module(kernel)[0]
        assert text.count("icmp eq ptr") == 1  # the argument inside of the loop over rows
        stores = re.findall(r"call void @llvm.masked.store|^ store <", text, re.MULTILINE)
        masked = ["masked" in s for s in stores]
        # A turn of four; together under masks; in place, one by one without; and the last of them.
        assert masked == [False] * 4 + [True] * 4 + [False] + [True]
    with pullback.num_threads(1):
        own = pullback.jit(f)(x, m)
        same = pullback.jit(f, donate_argnums=0)(jnp.asarray(x) + 0, m)
    assert np.array_equal(_bits(own), _bits(same))
    assert np.allclose(own, x * m + m, rtol=2e-6, atol=2e-6)
