"""What programs become: how many kernels, which temporaries, how often code is generated; and that
quickly compiled kernels compute the bits of well compiled ones."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import pullback as pb
from pullback import lax, nn, numpy as jnp
from pullback.backends import llvm
from pullback.backends.llvm import tier
from pullback.backends.llvm.analysis import has, walk
from pullback.backends.reference import RULES
from pullback.loops import pipeline
from pullback.loops.canon import called_by, canonical_text, waits
from pullback.loops.ir import Call, For, Store, While
from pullback.loops.run import run_program
from pullback.loops.show import show_kernel
from pullback.runtime.executable import ASYNC_SECONDS, reference_rule

assert RULES
F32 = np.float32


def program(function, *arguments):
    """The compiled program of a function, before machine code."""
    return pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule)


def largest_temporary(compiled) -> int:
    return max((s.bytes for s in compiled.slots if s.role == "temp"), default=0)


def softmax(x):
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def nbody(p):
    d = p[:, None] - p[None]
    r2 = (d * d).sum(-1) + 0.01
    return (d / (r2 * jnp.sqrt(r2))[..., None]).sum(1)


def test_softmax_is_one_kernel_without_temporaries():
    compiled = program(softmax, np.zeros((1000, 1000), F32))
    assert len(compiled.kernels) == 1
    assert largest_temporary(compiled) == 0


def test_costly_numbers_of_rows_are_computed_in_lanes_across_them():
    """What follows a reduction of rows is a nest of its own, if nothing else of a row needs it."""

    def f(x, w):
        z = x @ w
        return jnp.tanh(z) * jnp.exp(-z), z

    x, w = np.random.default_rng(3).normal(size=(2, 1000, 24)).astype(F32)
    w = w[0]
    compiled = program(f, x, w)
    assert [show_kernel(k).count("for vector") for k in compiled.kernels] == [0, 1]
    wide = x.astype(np.float64) @ w.astype(np.float64)
    for got, expected in zip(pb.jit(f)(x, w), (np.tanh(wide) * np.exp(-wide), wide), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-4)
    assert len(program(f, x[:100], w).kernels) == 1
    assert len(program(softmax, x).kernels) == 1  # the row needs its numbers


def test_nbody_makes_no_pairs():
    compiled = program(nbody, np.zeros((1000, 3), F32))
    assert largest_temporary(compiled) <= 1000 * 3 * 4


def test_sibling_reductions_share_a_kernel():
    compiled = program(lambda x: (x.sum(), x.max(), (x * x).sum()), np.zeros((300, 70), F32))
    assert len(compiled.kernels) == 1


def test_only_short_axes_of_a_row_have_accumulators_of_their_own():
    """A row of results is as long as it likes: what is unrolled is its last, short axis."""
    f = lambda a, b: (a + 1) @ (b * 2)
    short, long = (program(f, zeros(9, m, 70), zeros(9, 70, 3)) for m in (20, 2000))
    texts = [show_kernel(kernel) for c in (short, long) for kernel in c.kernels]
    assert len(texts[0].splitlines()) == len(texts[1].splitlines()) < 60
    a, b = np.arange(9.0 * 20 * 70, dtype=F32).reshape(9, 20, 70) % 7, np.ones((9, 70, 3), F32)
    np.testing.assert_allclose(pb.jit(f)(a, b), (a + 1) @ (b * 2), rtol=1e-6)


def zeros(*shape):
    return np.zeros(shape, F32)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(F32)


def text_of(f, *arguments):
    return "\n".join(show_kernel(kernel) for kernel in program(f, *arguments).kernels)


@pytest.mark.parametrize("shape", [(9000, 50), (20001, 128), (2, 6000, 33)])
def test_tall_columns_are_reduced_by_blocks_of_rows_on_all_threads(shape):
    """Two passes over an array need two kernels then; what is a number a column follows there."""
    axes, x = tuple(range(len(shape) - 1)), numbers(*shape)
    f = lambda x: (jnp.exp(x).max(axes) * 2, x.var(axes), (x * x).sum(axes))
    compiled = program(f, x)
    text = text_of(f, x)
    assert len(compiled.kernels) == 2
    assert text.count("@partial") == 3 * text.count("alloc @partial") >= 9
    assert largest_temporary(compiled) <= 4 * shape[-1]
    expected = (np.exp(x).max(axes) * 2, x.astype(float).var(axes), (x * x.astype(float)).sum(axes))
    for a, b in zip(pb.jit(f)(x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    best = pb.jit(lambda x: x.reshape(-1, shape[-1]).argmax(0))(x)
    np.testing.assert_array_equal(best, x.reshape(-1, shape[-1]).argmax(0))


def test_columns_that_are_long_are_shared_out_by_few():
    assert "parallel" in text_of(lambda x: x.sum(0), zeros(2000, 1000))
    assert "parallel" not in text_of(lambda x: x.sum(0), zeros(20, 1000))


@pytest.mark.parametrize("dtype", [F32, np.int32, np.float16])
def test_short_last_axes_are_reduced_after_the_others(dtype):
    x = (numbers(50, 300, 3) * 10).astype(dtype)
    for f in (lambda x: x.sum((0, 2), dtype=dtype), lambda x: x.max((0, 2))):
        assert "reduce" not in text_of(f, x)  # no vector of three
        np.testing.assert_allclose(pb.jit(f)(x), f(x), rtol=1e-3, atol=1e-3 if dtype is F32 else 1)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("order", [(1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1)])
def test_transposed_arrays_are_reduced_as_they_lie(order, axis):
    x = numbers(*(40, 50, 60)[: len(order)])
    f = lambda x: x.transpose(order).sum(axis) - x.transpose(order).max(axis)
    assert ("reduce" in text_of(f, x)) == ("reduce" in text_of(lambda x: x.sum(order[axis]), x))
    np.testing.assert_allclose(pb.jit(f)(x), f(x), rtol=1e-4, atol=1e-4)


def test_sums_of_bytes_that_become_bytes_stay_bytes():
    f = lambda x: x.sum(1).astype(np.uint8)
    x = np.arange(9000, dtype=np.uint8).reshape(-1, 9)
    assert "u32" not in text_of(f, x)
    np.testing.assert_array_equal(pb.jit(f)(x), f(x))
    np.testing.assert_array_equal(pb.jit(jnp.packbits)(x & 1), np.packbits(x & 1))
    both = lambda x: (f(x), x.sum(1))
    for got, want in zip(pb.jit(both)(x), both(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_fewer_elements_than_there_are_are_taken_where_they_lie():
    """One choice of another is no array of its own; one that repeats elements is."""
    x = numbers(3, 90, 80, 3)
    few, many = np.arange(0, 80, 2), np.arange(200) // 3
    twice = lambda i: lambda x: (jnp.tanh(x) * 2)[:, :, i][:, i]
    few_of, many_of = (program(twice(i), x) for i in (few, many))
    assert largest_temporary(few_of) == 0 < largest_temporary(many_of)
    for i in (few, many, np.array([1, -1, 99, -99, 5])):
        out = pb.jit(lambda x, i=i: x.at[:, i].get(mode="fill").at[:, :, i].get(mode="fill"))(x)
        inside = lambda n, i=i: (i >= -n) & (i < n)
        rows, columns = inside(90), inside(80)
        want = x[:, np.where(rows, i, 0)][:, :, np.where(columns, i, 0)]
        want[:, ~rows] = want[:, :, ~columns] = np.nan
        np.testing.assert_array_equal(out, want)


def test_branches_that_only_choose_do_not_branch():
    """Nor does a chain of steps go through memory for what a branch gave."""
    pick = lambda c, x: (lax.cond(x > 0, lambda c: c + 1, lambda c: c * 0.5, c), c)
    f = lambda x: lax.scan(pick, 0.0, x)
    x, text = numbers(100), text_of(f, numbers(100))
    assert "if " not in text and "select" in text
    assert re.search(r"yield %(v\d+)\n  @", text).group(1) in re.findall(
        r"%(v\d+):f32 = select", text
    )
    last, steps = pb.jit(f)(x)
    c, want = F32(0), []
    for v in x:
        want.append(c)
        c = F32(c + 1 if v > 0 else c * F32(0.5))
    np.testing.assert_array_equal(steps, want)
    assert last == c


def test_a_mean_and_a_variance_ask_for_one_sum():
    f = lambda x: (x.mean(1), x.var(1), x.sum(1))
    assert text_of(f, zeros(500, 600)).count("combine") == 2


def test_batches_that_are_contiguous_run_in_lanes():
    f = lambda x, y: jnp.einsum("ij,ij->j", x, y)
    x, y = numbers(2, 300, 70)
    assert "vector" in text_of(f, x, y) and "reduce" not in text_of(f, x, y)
    np.testing.assert_allclose(pb.jit(f)(x, y), np.einsum("ij,ij->j", x, y), rtol=1e-3, atol=1e-4)


def test_what_holds_everywhere_is_not_computed_again_where_a_condition_holds():
    f = lambda x: jnp.pad(x, 4, mode="mean")
    assert text_of(f, zeros(300, 300)).count("for reduce") <= 1
    x = numbers(300, 301)
    np.testing.assert_allclose(pb.jit(f)(x), np.pad(x, 4, mode="mean"), rtol=1e-4, atol=1e-5)


MERGED = {
    "tile": lambda x: jnp.tile(x, (3, 2)),
    "repeat": lambda x: jnp.repeat(x, 3, 1),
    "side by side": lambda x: jnp.stack([x, x * 2], -1).reshape(-1),
    "kron": lambda x: jnp.kron(x, x[:3, :5]),
    "depth": lambda x: x.reshape(20, 2, 25, 4).transpose(0, 2, 1, 3).reshape(500, 8),
    "bits": lambda x: jnp.unpackbits(x.astype(np.uint8)),
}


@pytest.mark.parametrize("name", MERGED)
def test_merged_axes_are_walked_one_by_one(name):
    """No index is divided where an array is stored with axes merged."""
    f, x = MERGED[name], numbers(40, 100) + 5
    text = text_of(f, x)
    assert text.count("kernel") == 1 and " idiv " not in text and " irem " not in text
    np.testing.assert_array_equal(pb.jit(f)(x), f(jnp.asarray(x)))
    np.testing.assert_array_equal(pb.jit(f)(x), pb.jit(lambda x: f(x) + 0)(x))


@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_rows_that_fill_no_vector_run_in_lanes_across(n):
    f = lambda x, b, w: jnp.exp(x * b[:, None]) * w
    x, b, w = numbers(1000, n), numbers(1000), numbers(n)
    text = text_of(f, x, b, w)
    assert text.count("for vector") == 1 and text.count("exp") == n
    np.testing.assert_allclose(pb.jit(f)(x, b, w), np.exp(x * b[:, None]) * w, rtol=1e-5)


@pytest.mark.parametrize("rows", [20, 31, 100])
@pytest.mark.parametrize("n", [2, 6])
def test_systems_of_few_equations_run_in_lanes_across_them(rows, n):
    slope = lambda y: jnp.stack([y[(i + 1) % n] * (1 - y[i]) - y[i - 1] for i in range(n)])
    half = lambda y: slope(y + 0.01 * slope(y))
    run = lambda y: lax.fori_loop(0, 9, lambda _, y: y + 0.02 * pb.vmap(half)(y), y)
    y = numbers(rows, n)
    assert text_of(run, y).count("for seq") == 1  # the steps
    expected = np.stack([pb.jit(run)(row[None])[0] for row in y])
    np.testing.assert_allclose(pb.jit(run)(y), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [9, 16, 20, 32])
def test_rows_of_single_numbers_have_code_for_each(n):
    """No loop along the row, which would ask of each element which of the numbers it is."""
    f = lambda x: 1 + jnp.stack([x[:, i] * x[:, (i + 3) % n] for i in range(n)], 1)
    x = numbers(103, n)
    text = text_of(f, x)
    assert text.count("for ") == 1 and "select" not in text
    np.testing.assert_array_equal(pb.jit(f)(x), 1 + x * np.roll(x, -3, 1))


@pytest.mark.parametrize("f", [lambda m: 0.5 * m, lambda m: m - 1.0, jnp.exp])
def test_what_is_done_to_a_transposed_matrix_is_done_as_it_lies(f):
    x, y = numbers(300, 40), numbers(300)
    after, before = (lambda x, y: f(x.T) @ y), (lambda x, y: f(x).T @ y)
    assert text_of(after, x, y) == text_of(before, x, y)
    assert text_of(lambda x: f(x.T).sum(1), x) == text_of(lambda x: f(x).sum(0), x)
    assert text_of(lambda x: f(x.T).var(), x) == text_of(lambda x: f(x).var(), x)
    np.testing.assert_allclose(pb.jit(after)(x, y), np.asarray(f(x)).T @ y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(301, 97), (31, 37, 41)])
def test_rows_of_a_transposed_array_are_reduced_as_they_lie(shape):
    """What a reduction gives is repeated along the axis that it has in memory, too."""
    x, last = numbers(*shape), len(shape) - 1
    for axis in range(len(shape)):
        after = lambda x, axis=axis: nn.softmax(x.T, axis=axis).T
        before = lambda x, axis=axis: nn.softmax(x, axis=last - axis)
        assert text_of(after, x) == text_of(before, x)
        after = lambda x, axis=axis: nn.logsumexp(x.T, axis=axis)
        before = lambda x, axis=axis: nn.logsumexp(x, axis=last - axis).T
        assert text_of(after, x) == text_of(before, x)
        np.testing.assert_array_equal(pb.jit(after)(x), pb.jit(before)(x))


def test_a_row_beside_a_transposed_matrix_is_a_column_of_the_matrix():
    x, row, column = numbers(301, 97), numbers(301), numbers(97, 1)
    after = lambda x, row, column: ((x.T - column) * row).sum(1)
    before = lambda x, row, column: ((x - column[:, 0]) * row[:, None]).sum(0)
    assert text_of(after, x, row, column) == text_of(before, x, row, column)
    expected = ((x.T - column) * row).sum(1)
    np.testing.assert_allclose(pb.jit(after)(x, row, column), expected, rtol=1e-4, atol=1e-3)


SHORT = {  # a tenth of a millisecond or two: not worth what handing it to another thread takes
    "transforms": (jnp.fft.fft, zeros(1000, 128)),
    "search": (jnp.searchsorted, zeros(10_000), zeros(20_000)),
    "rows": (lambda x, i: x.at[i].add(1.0), zeros(1000, 8), np.zeros(60_000, np.int32)),
    "running sum": (jnp.cumsum, zeros(500_000)),
    "sum": (jnp.sum, zeros(4_000_000)),
    "matrix times vector": (jnp.dot, zeros(2000, 2000), zeros(2000)),
    "product": (jnp.dot, zeros(500, 500), zeros(500, 500)),
    "softmax": (softmax, zeros(1000, 1000)),
}
SHORT["rows in a loop"] = (
    lambda x, y: lax.fori_loop(
        0, 1000, lambda i, x: lax.dynamic_update_slice(x, y[i][None], (i % 100, 0)), x
    ),
    zeros(100, 128),
    zeros(1000, 128),
)
SHORT["elements in a loop"] = (
    lambda x: lax.fori_loop(0, 1000, lambda i, x: x.at[7 * i].add(1.0), x),
    zeros(10_000),
)
SHORT["factorisation"] = (jnp.linalg.cholesky, zeros(200, 200))
SHORT["system"] = (jnp.linalg.solve, zeros(200, 200), zeros(200, 1))
LONG = {
    "eigenvalues": (jnp.linalg.eigh, zeros(200, 200)),
    "pointwise": (lambda x: x * 2 + 1, zeros(10_000_000)),
    "product": (jnp.dot, zeros(1000, 1000), zeros(1000, 1000)),
    "transforms": (jnp.fft.fft, zeros(1000, 1024)),
    "steps": (lambda x: lax.scan(lambda c, a: (jnp.tanh(c + a), None), x[0], x), zeros(9999, 999)),
    "far rows": (lambda x, i: x.at[i].add(1.0), zeros(1 << 20), np.zeros(200_000, np.int32)),
}


@pytest.mark.parametrize("name", SHORT)
def test_what_runs_in_lanes_is_known_to_be_short(name):
    assert program(*SHORT[name]).seconds < ASYNC_SECONDS


@pytest.mark.parametrize("name", LONG)
def test_what_is_long_is_known_to_be_long(name):
    assert program(*LONG[name]).seconds > ASYNC_SECONDS


def test_repetitions_share_kernels():
    def body(x):
        for _ in range(200):
            x = jnp.sin(x) * 1.01 + x.mean()
        return x

    assert len(program(body, np.zeros(1000, F32)).kernels) <= 4


@pytest.mark.usefixtures("at_rest")
def test_a_hundred_lengths_are_one_set_of_kernels(monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    f = pb.jit(lambda x: (jnp.sin(x) - x.mean()).sum() * 1.0625)
    f(np.ones(17, F32))
    traces, kernels = pb.trace_count(), pb.kernel_compile_count()
    for n in range(100, 200):
        f(np.ones(n, F32))
    assert pb.trace_count() - traces == 100
    assert pb.kernel_compile_count() - kernels == 0


RANDOM = np.random.default_rng(5)
PROGRAMS = [
    (softmax, [RANDOM.normal(size=(37, 131)).astype(F32)]),
    (nbody, [RANDOM.normal(size=(150, 3)).astype(F32)]),
    (lambda x: (x.sum(), (x * x).max(), jnp.sin(x).sum()), [RANDOM.normal(size=9999)]),
    (lambda x: x.sum(), [RANDOM.normal(size=10_003).astype(F32)]),
    (lambda x: x.sum(0), [RANDOM.normal(size=(203, 77)).astype(F32)]),
    (lambda x: x.T + x[0], [RANDOM.normal(size=(75, 75)).astype(F32)]),
    (lambda x, y: x @ y, [RANDOM.normal(size=s).astype(F32) for s in ((33, 70), (70, 91))]),
    (lambda x, y: x.T @ y, [RANDOM.normal(size=s) for s in ((64, 70), (64, 20))]),
    (lambda x: lax.cumsum(x), [RANDOM.normal(size=1000).astype(F32)]),
    (lambda x: (x > 3).any(), [RANDOM.integers(0, 5, 700)]),
    *[
        (lambda x: (x.max(-1), x.argmin(-1), jnp.exp(x).sum(-1), (x > 1).all(-1)), [x])
        for n in (1, 63, 64, 65, 4095, 4097, 9000)
        for x in [RANDOM.normal(size=(3, n)).astype(F32)]
    ],
    (lambda x: jnp.cos(x).sum(), [RANDOM.normal(size=70_001).astype(F32)]),
    (
        lambda x: (jnp.nansum(x, -1), x.min(-1)),
        [np.where(RANDOM.random((5, 777)) < 0.1, np.nan, -0.0)],
    ),
    (lambda x: x.astype(jnp.bfloat16).sum(-1), [RANDOM.normal(size=(4, 1001)).astype(F32)]),
    *[
        (
            lambda x: ((x[:, None] - x[None]) ** 2).sum(-1).argmin(-1),
            [RANDOM.normal(size=(n, 8)).astype(F32)],
        )
        for n in (1, 15, 101)
    ],
    (lambda x: jnp.stack([x[::2] * 2, x[1::2] + 1]), [RANDOM.normal(size=1002).astype(F32)]),
    (lambda x: jnp.power(jnp.exp(-x * x), 1.7) / jnp.log1p(x * x), [RANDOM.normal(size=501)]),
]


def outputs(function, arguments):
    out = pb.jit(lambda *a: function(*a))(*arguments)
    return [np.asarray(x) for x in pb.tree.leaves(out)]


@pytest.mark.parametrize("isa", ["host", "sse2"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_quick_and_good_code_compute_the_same_bits(number, isa, monkeypatch):
    """The two versions of every kernel, one after the other over the same memory."""
    if isa != "host" and llvm.target_for("host").level == "neon":
        pytest.skip("another architecture")
    function, arguments = PROGRAMS[number]
    target = llvm.target_for(isa)
    compiled = program(function, *arguments)
    results = []
    for quick in (True, False):
        monkeypatch.setenv("PULLBACK_CACHE", "0")
        llvm.compiler._live.clear()
        kernels = llvm.compile_kernels(compiled.kernels, target, quick=quick)
        results.append(run(compiled, llvm.encode(compiled, kernels), arguments))
    for quick, good in zip(*results, strict=True):
        assert quick.tobytes() == good.tobytes()


def run(compiled, plan, arguments):
    """The plan over NumPy arrays."""
    held = {}
    for slot, x in zip(compiled.ins, arguments, strict=True):
        held[slot] = np.ascontiguousarray(x, pb.dtypes.canonicalize_dtype(x.dtype))
    for slot, x in compiled.consts:
        held[slot] = np.ascontiguousarray(x)
    for slot in compiled.outs:
        held.setdefault(slot, np.zeros(compiled.slots[slot].bytes, np.uint8))
    words = (llvm.driver.ctypes.c_int64 * plan.slot_words)()
    for slot, x in held.items():
        words[slot] = x.ctypes.data
    plan.run(words, llvm.Context())
    return [held[slot].copy() for slot in compiled.outs]


def test_what_runs_often_gets_good_code(monkeypatch):
    """The plan's step table takes the new address; the results stay."""
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    if not tier.enabled():
        pytest.skip("PULLBACK_TIER=0")
    x = RANDOM.normal(size=(40, 300)).astype(F32)
    f = pb.jit(lambda x: (x * 1.3125).sum(0) @ jnp.ones(300, F32))
    expected = np.asarray(f(x))
    compiled = program(lambda x: (x * 1.3125).sum(0) @ jnp.ones(300, F32), x)
    kernels = llvm.compile_kernels(compiled.kernels, quick=True)
    deadline = time.monotonic() + 120
    while any(k.source is not None for k in kernels) and time.monotonic() < deadline:
        for _ in range(100):
            assert np.asarray(f(x)) == expected
    assert all(k.source is None for k in kernels)


def test_quick_code_goes_on_where_good_code_cannot_be_had(monkeypatch, caplog):
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    if not tier.enabled():
        pytest.skip("PULLBACK_TIER=0")

    def refused(*_):
        raise llvm.link.CompileError("LLVM has had enough")

    monkeypatch.setattr(llvm.compiler, "_well_made", refused)
    x = RANDOM.normal(size=(2000, 601)).astype(F32)
    f = pb.jit(lambda x: jnp.cos(x * 1.4375).sum(0))
    expected = np.asarray(f(x))
    end = time.monotonic() + 30
    while not caplog.records and time.monotonic() < end:  # a thread looks now and then
        assert np.array_equal(f(x), expected)
        time.sleep(0.01)
    assert np.array_equal(f(x), expected)
    assert [r.getMessage().count("keeps its quick code") for r in caplog.records] == [1]


def test_threads_do_not_change_bits():
    x = RANDOM.normal(size=300_000).astype(F32)
    y = RANDOM.normal(size=(700, 301)).astype(F32)
    seen = []
    for n in (1, 2, 7):
        with llvm.thread_limit(n):
            seen.append(
                [a.tobytes() for f, v in ((lambda x: x.sum(), x), (lambda y: y.sum(0), y),
                 (softmax, y)) for a in outputs(f, [v])]
            )  # fmt: skip
    assert seen[0] == seen[1] == seen[2]


def test_a_transposed_product_is_a_product():
    """As derivatives with respect to weights have it; not where the product itself is read."""
    x, y = RANDOM.normal(size=(2, 40, 50)), RANDOM.normal(size=(2, 50, 60))
    turned = lambda x, y: jnp.swapaxes(jnp.matmul(x, y), 1, 2)
    both = lambda x, y: (z := jnp.matmul(x, y), jnp.swapaxes(z, 1, 2))
    assert len(program(turned, x, y).kernels) == 1
    want = np.swapaxes(x @ y, 1, 2)
    np.testing.assert_allclose(outputs(turned, [x, y])[0], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(outputs(both, [x, y])[1], want, rtol=1e-5, atol=1e-5)
    other = lambda x, y: jnp.transpose(jnp.matmul(x, y), (2, 0, 1))
    np.testing.assert_allclose(
        outputs(other, [x, y])[0], np.transpose(x @ y, (2, 0, 1)), rtol=1e-5, atol=1e-5
    )


def test_literals_of_either_zero_are_two():
    x = np.array([-0.0, 1.0], F32)
    f = lambda x: (x + 0.0, x + (-0.0), jnp.where(x > 5, 0.0, -0.0), jnp.where(x > 5, 0.0, 0.0))
    signs = [np.signbit(out).tolist() for out in outputs(f, [x])]
    assert signs == [[False, False], [True, False], [True, True], [False, False]]


def masked_loads(compiled) -> int:
    return sum(show_kernel(k).count("] if ") for k in compiled.kernels)


def test_joined_arrays_are_copied_piece_by_piece():
    x, m = np.zeros(10_000, F32), np.zeros((300, 200), F32)
    for function, argument in (
        (lambda x: jnp.concatenate([x, x]), x),
        (lambda x: jnp.roll(x, 7), x),
        (lambda x: jnp.stack([x, x + 1]), x),
        (lambda m: jnp.roll(m, 3, 1), m),
        (lambda m: jnp.concatenate([m, 2 * m], 1), m),
        (lambda m: jnp.roll(m, 1, 1) + jnp.roll(m, -1, 1), m),
    ):
        compiled = program(function, argument)
        assert len(compiled.kernels) == 1
        assert masked_loads(compiled) == 0


@pytest.mark.parametrize("n", [4095, 8191, 8192, 16_385])
def test_pieces_meet_without_gaps(n):
    x = np.random.default_rng(n).standard_normal(n).astype(F32)
    m = np.resize(x, (70, 130))
    for ours in (
        lambda p, x, m: p.roll(x, 8190),
        lambda p, x, m: p.concatenate([x[::-1], x[:3], x]),
        lambda p, x, m: p.pad(m, ((2, 3), (65, 1)), mode="reflect"),
        lambda p, x, m: p.pad(p.roll(m, (3, -2), (0, 1)), 1) * 2,
        lambda p, x, m: p.stack([m, m[::-1], m[:, ::-1]], 1),
        lambda p, x, m: p.concatenate([p.pad(m, 2, mode="wrap")] * 3, 1),
    ):
        found = pb.jit(lambda x, m: ours(jnp, x, m))(x, m)  # noqa: B023
        np.testing.assert_array_equal(found, ours(np, x, m))


def _heat_edges(p, u):
    d = p.diff(u)
    inner = u[1:-1] + 0.25 * (d[1:] - d[:-1])
    return p.concatenate([u[-1:], inner, u[:1]])


@pytest.mark.parametrize("n", [256, 300, 1001])
def test_rows_in_loops_are_joined_piece_by_piece(n):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(F32)
    for step in (
        lambda p, u: u + 0.5 * p.pad(u[2:] - u[:-2], 1),
        lambda p, u: 0.5 * (p.roll(u, 7) - p.roll(u, -5)),
        _heat_edges,
    ):
        f = lambda x: pb.lax.fori_loop(0, 3, lambda _, u: step(jnp, u), x)  # noqa: B023
        assert masked_loads(program(f, x)) == 0
        want = step(np, step(np, step(np, x)))
        np.testing.assert_array_equal(pb.jit(f)(x), want)


def test_short_last_axes_that_are_joined_run_in_lanes_along_the_one_before():
    x, y = (np.random.default_rng(s).standard_normal((1003, 3)).astype(F32) for s in (1, 2))
    for function in (
        lambda p, x, y: p.concatenate([x, y[:, :1]], 1),
        lambda p, x, y: p.stack([x[:, 1], y[:, 2], x[:, 0]], -1) * 2,
        lambda p, x, y: p.concatenate([x[::-1], y], 1) + 1,
    ):
        compiled = program(lambda x, y: function(jnp, x, y), x, y)  # noqa: B023
        assert len(compiled.kernels) == 1
        assert masked_loads(compiled) == 0
        found = pb.jit(lambda x, y: function(jnp, x, y))(x, y)  # noqa: B023
        np.testing.assert_array_equal(found, function(np, x, y))
    compiled = program(jnp.cross, x, y)
    assert len(compiled.kernels) == 1
    assert masked_loads(compiled) == 0
    np.testing.assert_allclose(pb.jit(jnp.cross)(x, y), np.cross(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int16", "bfloat16", "float32"])
@pytest.mark.parametrize("few", [2, 3, 5, 7])
def test_short_rows_of_any_type_run_in_lanes_across_them(dtype, few):
    """Pixels: reversed, turned from features first, with a number of each feature."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 99, (1003, few))).astype(dtype)
    row = jnp.arange(few, dtype=F32)
    (kernel,) = program(lambda x: x[:, ::-1], x).kernels
    assert f"0:i64..{few}:i64" not in show_kernel(kernel)  # no loop along a row
    plain = np.asarray(x)
    np.testing.assert_array_equal(pb.jit(lambda x: x[:, ::-1])(x), plain[:, ::-1])
    np.testing.assert_array_equal(pb.jit(lambda x: x.T)(jnp.asarray(plain.T.copy())), plain)
    affine = pb.jit(lambda x, row: x.astype(F32) * 2 + row)
    np.testing.assert_array_equal(affine(x, row), plain.astype(F32) * 2 + np.arange(few, dtype=F32))
    above = pb.jit(lambda x, row: x > row.astype(x.dtype))
    np.testing.assert_array_equal(above(x, row), plain > np.arange(few).astype(plain.dtype))


@pytest.mark.parametrize("width", [20, 100])
def test_rows_from_anywhere_are_moved_once_each(width):
    """Not once for every vector of columns: each time they would come from far away again."""
    x, i = numbers(300, width), np.arange(1000) % 301 - 150
    (kernel,) = program(lambda x, i: x[i], x, i).kernels
    assert "seq" not in show_kernel(kernel)
    np.testing.assert_array_equal(pb.jit(lambda x, i: x[i])(x, i), x[i])


def test_bytes_far_apart_are_not_code_for_each_of_many_lanes():
    """Some loads of single bytes for each lane: more lanes are more code, and gain nothing."""
    x = np.random.default_rng(0).random((1000, 9, 9)) < 0.4
    function = lambda x: x[:, ::2].any(-1)
    (kernel,) = program(function, x).kernels
    text, _ = llvm.compiler.emit_module(kernel)
    assert 45 <= len(re.findall(r" load i8,", text)) <= 45 * 9  # eight lanes, and one
    np.testing.assert_array_equal(pb.jit(function)(x), x[:, ::2].any(-1))


@pytest.mark.parametrize("few", [2, 3, 5])
def test_short_rows_that_are_joined_are_written_in_pieces(few):
    """Rows of few numbers below each other, one part turned about: no element asks where it is
    from."""
    x = np.random.default_rng(0).standard_normal((1503, few)).astype(F32)
    join = lambda p, x: p.concatenate([x, x[:1], x[::-1], x * 2], 0)
    compiled = program(lambda x: join(jnp, x), x)
    assert masked_loads(compiled) == 0
    assert "select" not in "".join(map(show_kernel, compiled.kernels))
    np.testing.assert_array_equal(pb.jit(lambda x: join(jnp, x))(x), join(np, x))


def test_what_a_convolution_in_a_loop_pads_is_written_in_pieces():
    x, taps = np.linspace(-1, 1, 1000, dtype=F32), np.array([0.1, 0.8, 0.1], F32)
    blur = lambda x: lax.fori_loop(0, 5, lambda _, x: jnp.convolve(x, taps, "same"), x)
    assert masked_loads(program(blur, x)) == 0
    want = x
    for _ in range(5):
        want = np.convolve(want, taps, "same")
    np.testing.assert_allclose(pb.jit(blur)(x), want, rtol=1e-4, atol=1e-6)


def test_short_rows_behind_a_reduction_run_in_lanes_across_them():
    """Weights of rows that what is nearest decides: a self-organising map."""
    rng = np.random.default_rng(0)
    w, x = (rng.standard_normal(s).astype(F32) for s in ((31, 3), (40, 3)))

    def step(p, w, x):
        near = ((w - x) ** 2).sum(1).argmin()
        return w + 0.1 * p.exp(-0.5 * (p.arange(31) - near) ** 2)[:, None].astype(F32) * (x - w)

    def run(w, x):
        return lax.scan(lambda w, x: (step(jnp, w, x), None), w, x)[0]

    (kernel,) = program(run, w, x).kernels
    assert "0:i64..3:i64" not in show_kernel(kernel)
    want = w
    for row in x:
        want = step(np, want, row)
    np.testing.assert_allclose(pb.jit(run)(w, x), want, rtol=1e-4, atol=1e-5)


def test_a_short_loop_that_is_to_be_unrolled_is_one_pass_over_memory():
    p, x = np.arange(10, dtype=F32), np.linspace(-1, 1, 5000, dtype=F32)

    def run(unroll, reverse=False):
        def steps(p, x):
            step = lambda y, c: (jnp.sin(y) * x + c, None)
            return lax.scan(step, x, p, unroll=unroll, reverse=reverse)[0]

        return steps

    compiled = program(run(10), p, x)
    assert len(compiled.kernels) == 1
    assert show_kernel(compiled.kernels[0]).count("@out") == 2  # the parameter, and one store
    for reverse in (False, True):
        whole = pb.jit(run(10, reverse))(p, x)
        np.testing.assert_array_equal(whole, pb.jit(run(1, reverse))(p, x))
        assert not np.array_equal(whole, pb.jit(run(10, not reverse))(p, x))


def test_what_is_cut_or_joined_is_computed_where_it_is_stored():
    x = np.random.default_rng(4).standard_normal((90, 100)).astype(F32)
    for function in (
        lambda p, x: p.gradient(x, axis=0),
        lambda p, x: p.pad(p.sin(x) * p.cos(x), 2),
        lambda p, x: p.concatenate([p.sin(x)[:, ::-1] / 3, p.exp(x) + 1], 1),
        lambda p, x: p.sin(x)[1:] * 2,
    ):
        compiled = program(lambda x: function(jnp, x), x)  # noqa: B023
        assert len(compiled.kernels) == 1
        assert largest_temporary(compiled) == 0
        found = pb.jit(lambda x: function(jnp, x))(x)  # noqa: B023
        np.testing.assert_allclose(found, function(np, x), rtol=1e-5, atol=1e-6)
    compiled = program(lambda x: jnp.pad(jnp.sin(x) * jnp.cos(x), 2).sum(0), x)
    assert largest_temporary(compiled) <= x.nbytes


def until_small(x):
    return lax.while_loop(lambda c: c.sum() > 1, lambda c: c / 2, x)


MATRIX = np.ones((32, 32), F32)
TOLD = {
    "loop": (until_small, MATRIX[0]),
    "product": (lambda x: jnp.maximum(x @ x.T, 0) @ x, MATRIX),
    "library": (jnp.linalg.inv, MATRIX),
    "both": (lambda x: until_small(x @ x), MATRIX),
    "neither": (jnp.sin, MATRIX),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_canonical_text_tells_what_a_kernel_calls_and_whether_it_waits(name):
    function, x = TOLD[name]
    for kernel in program(function, x).kernels:
        assert called_by(kernel) == {s.name for s in walk(kernel.body) if isinstance(s, Call)}
        assert waits(kernel) == has(kernel.body, While)


def test_columns_that_lanes_read_at_a_stride_are_copied_once():
    """Every body meets every other: what lanes read of rows is taken apart before the outer loop,
    inside the loop that writes it."""

    def squares(x, y):
        return ((x[:, None] - y[None]) ** 2).sum(-1)

    x, y = np.random.default_rng(3).normal(size=(2, 67, 5)).astype(F32)
    (kernel,) = program(lambda x, y: squares(x, y).argmin(1), x, y).kernels
    shown = show_kernel(kernel)
    outer = shown.index("for parallel" if "for parallel" in shown else "for seq")
    assert shown.count("mul %c", 0, outer) == 5  # one load for each column, and none at a stride
    np.testing.assert_array_equal(
        pb.jit(lambda x, y: squares(x, y).argmin(1))(x, y), squares(x, y).argmin(1)
    )

    def steps(x):
        return lax.fori_loop(0, 3, lambda _, x: x + 1e-2 * nbody(x), x)

    want = x[:, :3]
    for _ in range(3):
        want = want + 1e-2 * np.asarray(nbody(want))
    np.testing.assert_allclose(pb.jit(steps)(x[:, :3]), want, rtol=1e-4)


def test_columns_of_a_value_that_the_loop_writes_are_read_where_they_are():
    """A row that is written between its reads."""

    def f(x):
        def step(i, x):
            return x.at[i, 1].set((x[:, 1] * x[:, 2]).sum())

        return lax.fori_loop(0, 40, step, x)

    x = np.linspace(0.0, 0.2, 50 * 3, dtype=F32).reshape(50, 3)
    want = x.copy()
    for i in range(40):
        want[i, 1] = (want[:, 1] * want[:, 2]).sum()
    np.testing.assert_allclose(pb.jit(f)(x), want, rtol=1e-5)


def test_what_reductions_of_different_axes_read_is_computed_in_each():
    """Gradients by both of a pair of bodies: rows of three numbers a pair are never stored."""

    def energy(p):
        d = p[:, None] - p[None]
        return jnp.log1p((d * d).sum(-1)).sum()

    p = np.random.default_rng(3).normal(size=(123, 3)).astype(F32)
    assert largest_temporary(program(pb.grad(energy), p)) == 4 * 123 * 123
    d = p[:, None].astype(np.float64) - p[None]
    want = 4 * (d / (1 + (d * d).sum(-1, keepdims=True))).sum(1)
    np.testing.assert_allclose(pb.jit(pb.grad(energy))(p), want, rtol=1e-4, atol=1e-4)
    x = np.zeros((100, 100), F32)
    costly = program(lambda x: [e.sum(k) for e in [jnp.exp(x)] for k in (0, 1)], x)
    assert largest_temporary(costly) == x.nbytes


def test_what_a_few_sums_a_row_read_is_stored_while_they_run():
    def energy(p):
        d = p[:, None] - p[None]
        return jnp.log1p((d * d).sum(-1)).sum()

    first = program(pb.grad(energy), np.zeros((123, 3), F32)).kernels[0]
    (sums,) = (s for s in walk(first.body) if isinstance(s, For) and s.kind == "reduce")
    assert len(sums.carry) == 3
    assert has(sums.body, Store)


@pytest.mark.parametrize("other", [3, 2])
def test_sums_of_few_numbers_a_row_meet_others_of_the_same_values(other):
    """Of rows alone, and of another few numbers a row."""
    rng = np.random.default_rng(5)
    x, y, z = (rng.normal(size=s).astype(F32) for s in ((40, 50), (40, 50, 3), (40, 50, other)))

    def f(x, y, z):
        e = jnp.exp(x)
        return e, e.sum(1), (e[..., None] * y).sum(1), (e[..., None] * z).sum(1), (e * x).sum(1)

    e = np.exp(x.astype(np.float64))
    few = [(e[..., None] * t).sum(1) for t in (y, z)]
    for got, want in zip(pb.jit(f)(x, y, z), (e, e.sum(1), *few, (e * x).sum(1)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def escape(c):
    """How many steps of z * z + c stay near: carries of three dtypes, and a number of each step."""

    def step(i, s):
        a, b, n = s
        a2, b2 = a * a - b * b + c, 2 * a * b + 0.01 * i
        near = a2 * a2 + b2 * b2 < 4
        return jnp.where(near, a2, a), jnp.where(near, b2, b), n + near

    zero = jnp.zeros_like(c)
    return lax.fori_loop(0, 30, step, (zero, zero, jnp.zeros(c.shape, "int32")))


@pytest.mark.parametrize("dtype", [F32, np.float16])
@pytest.mark.parametrize("n", [9000, 20_001])
def test_steps_of_elements_that_do_not_meet_are_made_in_registers(n, dtype):
    c = np.random.default_rng(3).normal(size=n).astype(dtype)
    shown = "\n".join(map(show_kernel, program(escape, c).kernels))
    loop = next(line for line in shown.splitlines() if "for seq" in line)
    assert loop.index("for") > 4 and loop.count("<-") == 3
    parts = [pb.jit(escape)(part) for part in np.array_split(c, n // 500)]
    for mine, *want in zip(pb.jit(escape)(c), *parts, strict=True):
        np.testing.assert_array_equal(mine, np.concatenate(want))


def test_steps_whose_elements_meet_stay_outside():
    x = np.random.default_rng(3).normal(size=20_000).astype(F32)

    def smoothed(x):
        return lax.fori_loop(0, 5, lambda _, x: 0.5 * (x + jnp.roll(x, 1)), x)

    want = x
    for _ in range(5):
        want = F32(0.5) * (want + np.roll(want, 1))
    np.testing.assert_array_equal(pb.jit(smoothed)(x), want)

    def weighted(x, w):  # what is read for a step is the same for all elements
        return lax.scan(lambda c, w: (c * w + x, None), x, w)[0]

    w = np.linspace(0.5, 1.5, 20, dtype=F32)
    want = x.astype(np.float64)
    for one in w:
        want = want * one + x
    np.testing.assert_allclose(pb.jit(weighted)(x, w), want, rtol=1e-4, atol=1e-3)


def test_parts_of_updates_are_combined_by_a_loop():
    """However many parts there are, the kernel is as long."""
    lines = []
    for count in (1 << 16, 1 << 18):
        v, i = np.ones(count, F32), np.arange(count, dtype=np.int32) % 10
        (kernel,) = program(lambda v, i: jnp.zeros(10, F32).at[i].add(v), v, i).kernels
        lines.append(canonical_text(kernel).count("\n"))
    assert lines[0] == lines[1]


@pytest.mark.parametrize("how", ["scan", "while", "cond"])
def test_loops_count_what_is_counted_outside(how):
    """Indices from arange, shifted or wrapped: not from memory, so that neighbours are known."""

    def f(u, k):
        i = jnp.arange(64)
        left, right = (i - 1) % 64, jnp.minimum(i + 1, 63)
        step = lambda u: jnp.where(i < k, u[left] + u[right], u)
        if how == "scan":
            return lax.scan(lambda u, _: (step(u), u[left][0]), u, None, length=5)
        if how == "while":
            return lax.while_loop(lambda c: c[1] < 5, lambda c: (step(c[0]), c[1] + 1), (u, 0))
        return lax.cond(k > 2, step, lambda u: u[left] * 2, u)

    u = np.arange(64, dtype=F32)
    compiled = program(f, u, 7)
    assert not [s for s in compiled.slots if s.role == "temp" and s.dtype == "i32" and s.shape]
    with pb.disable_jit():
        expected = pb.tree_util.tree_leaves(f(jnp.asarray(u), 7))
    for x, y in zip(pb.tree_util.tree_leaves(pb.jit(f)(u, 7)), expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("n", "lanes"), [(16, True), (8, True), (3, False)])
def test_elements_that_do_not_meet_are_worth_lanes(n, lanes):
    """A carry of some elements, each computed of its own with much arithmetic: in lanes, not one by
    one in registers, unless there are only a few."""

    def f(x, g):
        def step(s, g):
            x, m, v = s
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            return (x - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v), x

        return lax.scan(step, (x, jnp.zeros(n), jnp.zeros(n)), g)

    rng = np.random.default_rng(n)
    x, g = rng.normal(size=n).astype(F32), rng.normal(size=(20, n)).astype(F32)
    (kernel,) = program(f, x, g).kernels
    assert ("sqrt" in show_kernel(kernel)) and (show_kernel(kernel).count("sqrt") == 1) is lanes
    xs = np.asarray(pb.jit(f)(x, g)[1])
    alone = np.asarray(pb.jit(f)(np.repeat(x[:1], n), np.repeat(g[:, :1], n, 1))[1])
    np.testing.assert_array_equal(xs[:, 0], alone[:, n - 1])
    np.testing.assert_array_equal(xs, f(x, g)[1])


def _butterflies(x):
    n, h = x.shape[0], 1
    while h < n:
        pairs = x.reshape(-1, 2, h)
        x = jnp.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        h *= 2
    return x.reshape(n)


def test_what_is_stacked_to_be_reduced_is_not_stored():
    """Each value is read where it is; one that is asked for as well is stored, once."""
    x = np.random.default_rng(3).standard_normal((50, 70)).astype(np.float32)
    choose = lambda x: jnp.select([x < -1, x < 0, x < 1], [x * 2, x * 3, x * 4], 0.0)
    cases = [
        (choose, np.select([x < -1, x < 0, x < 1], [x * 2, x * 3, x * 4], 0)),
        (
            lambda x: jnp.stack([x, jnp.sin(x), x * x]).max(0),
            np.stack([x, np.sin(x), x * x]).max(0),
        ),
        (lambda x: jnp.stack([x, -x, x * x], 1).sum(1), x * x),
        (lambda x: jnp.argmin(jnp.stack([x, -x, 0 * x]), 0), np.stack([x, -x, 0 * x]).argmin(0)),
    ]
    for f, want in cases:
        compiled = program(f, x)
        assert len(compiled.kernels) == 1 and not largest_temporary(compiled)
        np.testing.assert_allclose(pb.jit(f)(x), want, rtol=1e-5, atol=1e-6)
    both = lambda x: (lambda s: (s, s.sum(0), s.mean(0)))(jnp.stack([x, jnp.exp(x)]))
    whole, total, mean = pb.jit(both)(x)
    np.testing.assert_allclose(whole, np.stack([x, np.exp(x)]), rtol=1e-5)
    np.testing.assert_allclose(total, x + np.exp(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mean, (x + np.exp(x)) / 2, rtol=1e-5, atol=1e-6)
    steps = lambda x: lax.scan(lambda c, r: (c, jnp.stack([r, c, -r]).max(0)), x[0], x)[1]
    np.testing.assert_array_equal(pb.jit(steps)(x), np.maximum(np.abs(x), x[0]))


def test_a_short_reduction_of_much_is_a_loop():
    """Unrolled it would be so much code that what it reads is stored before."""
    x, c = np.linspace(-2, 2, 3000, dtype=F32), np.linspace(-1, 1, 16, dtype=F32)
    near = lambda x, c: jnp.exp(-jnp.square(x[None] - c[:, None])).sum(0)
    compiled = program(near, x, c)
    assert len(compiled.kernels) == 1 and not largest_temporary(compiled)
    want = np.exp(-np.square(x[None] - c[:, None])).sum(0)
    np.testing.assert_allclose(pb.jit(near)(x, c), want, rtol=1e-5)
    place = lambda c, x: jnp.searchsorted(c, x, method="compare_all")
    compiled = program(place, c, x)
    assert len(compiled.kernels) == 1 and not largest_temporary(compiled)
    np.testing.assert_array_equal(pb.jit(place)(c, x), np.searchsorted(c, x))


def test_products_of_nothing_summed_are_computed() -> None:
    """An outer product of many elements is a reduction over no axes."""
    x, w = np.ones(64, np.float32), np.arange(784, dtype=np.float32)
    got = pb.jit(lambda x, w: pb.lax.dot_general(x, w, (((), ()), ((), ()))))(x, w)
    np.testing.assert_array_equal(got, np.outer(x, w))


def test_an_order_makes_no_zeros_and_nans_the_same():
    """In the order of sorts they are equal anyway."""
    table = np.array([-np.inf, -1, -0.0, 0.0, 0.0, 2, np.nan, np.nan], F32)
    x = np.array([0.0, -0.0, 1, np.nan, -np.nan, np.inf], F32)
    for side in ("left", "right"):
        place = lambda t, x, side=side: jnp.searchsorted(t, x, side=side)
        compiled = program(place, table, x)
        shown = "".join(map(show_kernel, compiled.kernels))
        sides = re.findall(r"l[et]_total (%\w+), (%\w+)", shown)
        assert sides
        assert all(re.search(rf"{v}:f32 = @", shown) for pair in sides for v in pair)
        np.testing.assert_array_equal(pb.jit(place)(table, x), np.searchsorted(table, x, side=side))


def test_stacked_rows_are_read_in_pieces():
    """Which of the stacked arrays an element of a merged axis comes from is known in each piece:
    no index is divided in lanes."""
    compiled = program(_butterflies, np.zeros(1 << 13, F32))
    assert not any("idiv" in show_kernel(k) for k in compiled.kernels)
    x = np.random.default_rng(2).normal(size=1 << 13).astype(F32)
    expected = x.astype(np.float64)
    h = 1
    while h < len(x):
        pairs = expected.reshape(-1, 2, h)
        expected = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        h *= 2
    np.testing.assert_allclose(pb.jit(_butterflies)(x), expected.reshape(-1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(60, 70), (5, 333), (130, 64)])
def test_repeated_rows_are_copied_in_pieces(shape):
    def f(x):
        return jnp.repeat(jnp.tile(x, (2, 3)), 2, 0)

    x = np.random.default_rng(3).normal(size=shape).astype(F32)
    (kernel,) = program(f, x).kernels
    text = show_kernel(kernel)
    assert text.count("for vector") == 3
    assert "irem" not in text[text.index("for vector") :]
    assert np.array_equal(pb.jit(f)(x), np.repeat(np.tile(x, (2, 3)), 2, 0))


@pytest.mark.parametrize(
    ("shape", "order"), [((300, 260), (1, 0)), ((40, 70, 50), (0, 2, 1)), ((70, 33, 90), (2, 1, 0))]
)
def test_complex_numbers_are_transposed_as_a_whole(shape, order):
    rng = np.random.default_rng(8)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    whole = program(lambda x: x.transpose(order), x)
    assert "call turn_f64(" in show_kernel(whole.kernels[0])
    assert np.array_equal(run_program(whole, [x])[0], x.transpose(order))
    assert np.array_equal(pb.jit(lambda x: x.transpose(order))(x), x.transpose(order))
    (kernel,) = program(lambda x: x.transpose(order) * 2j, x).kernels
    assert "call turn_" not in show_kernel(kernel)
    assert np.array_equal(pb.jit(lambda x: x.transpose(order) * 2j)(x), x.transpose(order) * 2j)


MOVES = {
    "transpose": lambda x, m, i: x.transpose(1, 0, 2),
    "join": lambda x, m, i: jnp.concatenate([x, x[:, ::-1]], 2),
    "choose": lambda x, m, i: jnp.where(m, x, -2.5),
    "pad": lambda x, m, i: jnp.pad(x, ((1, 2), (0, 3), (2, 0)), constant_values=1),
    "gather": lambda x, m, i: x[i],
    "update": lambda x, m, i: lax.fori_loop(
        0, 5, lambda k, x: x.at[jnp.asarray(i)[k]].set(x[k]), x
    ),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("name", MOVES)
def test_narrow_floats_that_are_moved_are_not_computed_with(name, dtype):
    """They are moved as integers: a NaN keeps its bits, and vectors hold twice as many."""
    rng = np.random.default_rng(4)
    x = np.array(jnp.asarray(rng.normal(size=(9, 37, 21)).astype(F32)).astype(dtype))
    word = np.int16 if x.itemsize == 2 else np.int8
    x.view(word)[0, :3] = 0x7FA1 if x.itemsize == 2 else 0x7F  # NaN that signals, with a payload
    m, i = rng.random(x.shape) > 0.5, rng.integers(0, 9, 30).astype(np.int32)
    compiled = program(MOVES[name], x, m, i)
    texts = [show_kernel(k) for k in compiled.kernels]
    assert not any(t in text for text in texts for t in ("bf16[", "f16[", "f8_e4m3fn["))
    got = np.asarray(pb.jit(MOVES[name])(x, m, i))
    assert got.dtype == x.dtype
    expected = np.asarray(MOVES[name](jnp.asarray(x.view(word)), m, i))
    fill = got.view(word) != expected  # constants have other bits than the integers have
    edge = np.pad(np.zeros(x.shape, bool), ((1, 2), (0, 3), (2, 0)), constant_values=True)
    at = {"choose": ~m, "pad": edge}.get(name, np.zeros(got.shape, bool))
    assert not (fill & ~at).any()
    assert (got[at].astype(F32) == {"choose": -2.5, "pad": 1.0}.get(name, 0.0)).all()


def test_narrow_floats_that_are_computed_with_stay_floats():
    x = jnp.ones((64, 64), jnp.bfloat16)
    (kernel,) = program(lambda x: (x.T, x.T + 1)[1], x).kernels
    assert "bf16[" in show_kernel(kernel)


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_merged_axes_are_reduced_down_columns_before_they_are_merged(name):
    """A Kronecker product's columns: no index is divided, nothing is stored."""
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=shape).astype(F32) for shape in ((30, 20), (24, 40)))

    f = lambda a, b: getattr(jnp.kron(a, b), name)(0)
    compiled = program(f, a, b)
    texts = [show_kernel(k) for k in compiled.kernels]
    assert not any(op in text for text in texts for op in ("idiv", "irem"))
    assert largest_temporary(compiled) <= 4 * 20 * 40
    expected = getattr(np.kron(a, b), name)(0)
    np.testing.assert_allclose(pb.jit(f)(a, b), expected, rtol=1e-4, atol=1e-4)
    three = np.kron(a, b).reshape(30, 24, 20, 40)[:, :, :, :3].reshape(720, 60)
    g = lambda a, b: (a[:, None, :, None] * b[:, None, :3][None]).reshape(720, 60).sum(0)
    np.testing.assert_allclose(pb.jit(g)(a, b), three.sum(0), rtol=1e-3, atol=1e-3)


def test_rows_that_a_step_reads_more_than_once_are_computed_before_the_loop():
    """Features of linear attention: a number at a time in each of a step's loops else."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(50, 24)).astype(F32) for _ in range(3))

    def f(q, k, v):
        def step(state, row):
            q, k, v = row
            state = state + jnp.outer(k, v)
            return state, q @ state

        xs = jnp.exp(jnp.tanh(q)), jnp.exp(jnp.tanh(k)), v
        return lax.scan(step, jnp.zeros((24, 24)), xs)[1]

    texts = [show_kernel(k) for k in program(f, q, k, v).kernels]
    (loop,) = (text for text in texts if "kernel scan" in text)
    assert "exp" not in loop and "tanh" not in loop
    q64, k64 = (np.exp(np.tanh(x.astype(np.float64))) for x in (q, k))
    state = np.cumsum(k64[:, :, None] * v[:, None], axis=0)
    np.testing.assert_allclose(pb.jit(f)(q, k, v), np.einsum("ti,tij->tj", q64, state), rtol=1e-4)
    once = lambda x: lax.scan(lambda c, r: (c + r, c[:3]), jnp.zeros(24), jnp.exp(x))[1]
    assert largest_temporary(program(once, q)) < q.nbytes


def test_short_nests_of_a_loop_stay_on_one_thread():
    """What a step computes on one thread and the next nest reads on another comes from the other's
    cache: arithmetic of a few microseconds is not shared out inside of loops. Gathers are."""

    def parts(step, n):
        x = np.zeros(n, F32)
        loop = lambda x: lax.scan(lambda x, _: (step(x), None), x, length=20)[0]
        return [show_kernel(k).count("for parallel") for k in program(loop, x).kernels]

    blur = lambda x: 0.5 * x + 0.3 * jnp.roll(x, 1) + 0.2 * jnp.exp(x)
    assert parts(blur, 12_000) == [0]
    assert parts(blur, 60_000) == [1]
    places = np.random.default_rng(0).integers(0, 50_000, 50_000).astype(np.int32)
    assert parts(lambda x: x[places] * 0.5, 50_000) == [1]
    once = program(lambda x: 0.5 * x + 0.2 * jnp.cos(x), np.zeros(12_000, F32))
    assert [show_kernel(k).count("for parallel") for k in once.kernels] == [1]


def test_values_that_are_made_of_indices_share_a_loop():
    """Nothing comes from memory for them, so that none need be stored for a kernel of its own."""

    def rotated(x):
        i, j = jnp.meshgrid(jnp.arange(200.0), jnp.arange(201.0), indexing="ij")
        places = [0.96 * i - 0.3 * j + 20, 0.3 * i + 0.96 * j]
        return pb.scipy.ndimage.map_coordinates(x, places, order=1)

    assert text_of(rotated, numbers(200, 201)).count("kernel ") <= 2


@pytest.mark.parametrize("isa", ["avx2", "host"])
def test_masked_loads_of_no_lane_are_of_the_stack(isa):
    """What rolled by a number that is known when it runs would read before the array's beginning is
    on pages that may not be there, where the processor takes hundreds of cycles to see that nothing
    is read."""
    if llvm.target_for("host").level not in ("avx2", "avx512"):
        pytest.skip("no masked loads")
    kernels = program(lambda x, k: jnp.roll(x, k) * 2, numbers(10_001), np.int32(7)).kernels
    found = []
    for kernel in kernels:
        text = llvm.compiler.emit_module(kernel, llvm.target_for(isa))[0]
        chosen = set(re.findall(r"(%\w+) = select i1 %\w+, ptr %\w+, ptr %\w+", text))
        loads = re.findall(r"@llvm\.masked\.load\S+\(ptr (%\w+)", text)
        found += [pointer in chosen for pointer in loads]
    assert found and all(found)
