"""Identities of integers and booleans: kernels of fewer operations compute what was asked."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from jax import numpy as jax_numpy

import pullback as pb
from pullback import lax, numpy as jnp
from pullback.backends.reference import RULES
from pullback.loops import pipeline, run
from pullback.loops.build import Builder
from pullback.loops.ir import Const
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

assert RULES
DTYPES = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]
DIVISORS = [0, 1, 2, 3, 4, 7, 8, 10, 16, 64, 100, -1, -2, -3, -7, -64]


def edges(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 8, 9, 63, 64, 65]
    if info.min:
        near += [-v for v in (1, 2, 3, 5, 7, 8, 9, 63, 64, 65)]
    more = np.random.default_rng(5).integers(info.min, info.max, 37, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(near, dtype), more])


def program(function, *arguments):
    return pipeline.compile_jaxpr(pb.make_jaxpr(function)(*arguments), reference_rule)


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_and_remainders_by_literals_are_jaxs(dtype):
    x = edges(dtype)
    info = np.iinfo(dtype)
    ends = [info.max, info.max - 1, info.min, info.max // 2 + 1]
    divisors = [c for c in [*DIVISORS, *ends] if c >= 0 or dtype[0] == "i"]
    divisors = [c if c < 2**31 else np.uint32(c) for c in divisors]

    def every(np_, lax_):
        def f(x):
            parts = [(x // c, x % c, *np_.divmod(x, c), lax_.div(x, x.dtype.type(c)),
                      lax_.rem(x, x.dtype.type(c))) for c in divisors]  # fmt: skip
            return parts

        return f

    want = jax.tree.leaves(jax.jit(every(jax_numpy, jax.lax))(x))
    compiled = program(every(jnp, lax), x)
    interpreted = run.run_program(compiled, [x])
    native = pb.tree_util.tree_leaves(pb.jit(every(jnp, lax))(x))
    for w, n, i in zip(want, native, interpreted, strict=True):
        assert np.asarray(n).dtype == w.dtype
        np.testing.assert_array_equal(np.asarray(n), w)
        np.testing.assert_array_equal(i, w)


@pytest.mark.parametrize("size", [0, 1, 5, 64])
def test_scalars_and_lanes_of_any_number(size):
    x = np.arange(-size, size, 2, dtype=np.int32)[:size]
    f = lambda x: (x // 4, x % 4, (x % 2 == 0).astype(int) * 3)
    np.testing.assert_array_equal(np.asarray(pb.jit(f)(x)), np.asarray(f(x)))

    def steps(n):
        step = lambda s: (s[0] // 2 - s[0] % 4, s[1] + 1)
        return pb.lax.while_loop(lambda s: (s[0] > 1) & (s[1] < 50), step, (n, 0))

    def plainly(n):
        count = 0
        while n > 1 and count < 50:
            n, count = n // 2 - n % 4, count + 1
        return n, count

    for n in (1, 2, 77, 1000 + size):
        assert tuple(int(v) for v in pb.jit(steps)(n)) == plainly(n)
        lanes = pb.jit(pb.vmap(steps))(np.full(3, n, np.int32))
        assert tuple(int(v[1]) for v in lanes) == plainly(n)


def text_of(function, *arguments) -> str:
    return "".join(show_kernel(k) for k in program(function, *arguments).kernels)


def test_powers_of_two_are_shifts_and_masks():
    x = np.zeros(100, np.int32)
    text = text_of(lambda x: x // 8, x)
    assert "shr_arith" in text and "select" not in text
    text = text_of(lambda x: x % 8, x)
    assert " and %" in text and "select" not in text
    # By others, the sign of the remainder is all that is asked.
    text = text_of(lambda x: x // 10, x)
    assert "shr_arith" not in text and text.count(" and ") == 0


def test_literals_are_converted_when_the_kernel_is_built():
    for value, source, dtype, want in [
        (300, "i32", "u8", 44), (200, "i32", "i8", -56), (-1, "i32", "u16", 65535),
        (5, "u8", "i32", 5), (3, "i32", "bool", True), (True, "bool", "i16", 1),
    ]:  # fmt: skip
        assert Builder().let("convert", (Const(value, source),), dtype) == Const(want, dtype)
    text = text_of(lambda x: x % 7, np.zeros(100, np.int16))
    assert "eq 7" not in text and "rem %v" in text and "7:i16" in text


def test_a_branch_on_a_condition_asks_for_it_once():
    x = np.zeros(100, np.int32)
    f = pb.vmap(lambda n: lax.cond(n > 3, lambda n: n * 2, lambda n: n + 5, n))
    text = text_of(f, x)
    assert text.count("select") == 1 and " le " not in text


def test_comparisons_of_converted_booleans():
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
               "eq": np.equal, "ne": np.not_equal}  # fmt: skip
    for (op, truth), value, dtype in itertools.product(
        compare.items(), (-1, 0, 1, 2), ("i32", "u8")
    ):
        if value < 0 and dtype == "u8":
            continue
        b = Builder()
        p = b.var("bool", 0)
        y = b.let("convert", (p,), dtype)
        found = b.let(op, (y, Const(value, dtype)), "bool")
        no, yes = (bool(truth(v, value)) for v in (0, 1))
        if no == yes:
            assert found == Const(yes, "bool")
        elif yes:
            assert found is p
        else:
            assert b.made[found] == ("not", (p,))
            assert b.let("not", (found,), "bool") is p


@pytest.mark.parametrize("square", [lambda x: x * x, lambda x: x**2, lambda x: x**-4])
def test_sums_of_squares_begin_with_the_first(square):
    """0.0 + y is y for what is not -0.0."""
    x = np.array(
        [[-0.0, -0.0, -0.0], [0.0, -0.0, 1.5], [np.nan, 1, 2], [np.inf, -1, 0]], np.float32
    )
    f = lambda x: square(x).sum(-1)
    text = "\n".join(show_kernel(k) for k in program(f, x).kernels)
    assert "add 0.0" not in text
    np.testing.assert_array_equal(pb.jit(f)(x), jax.jit(f)(x))


def test_sums_of_negative_zeros_are_zero():
    x = np.full((4, 3), -0.0, np.float32)
    for f in (lambda x: x.sum(-1), lambda x: (x * abs(x)).sum(-1)):
        assert not np.signbit(pb.jit(f)(x)).any()


def _near(n, x, k):
    i = n.arange(40)
    return x[n.minimum(i + 1, 39)] - x[n.maximum(i[:, None] - i, 0)].min(0)


BOUNDED = {
    "counted": _near,
    "remainder": lambda n, x, k: x[k % 40] + x[k & 31],
    "clipped": lambda n, x, k: x[n.clip(k, 3, 30) + 5],
    "byte": lambda n, x, k: n.tile(x, 7)[k.astype(n.uint8)],
    "chosen": lambda n, x, k: x[n.where(k > 0, k % 20, 39)],
}
UNBOUNDED = {
    "remainder": lambda n, x, k: x[k % 41] + x[k & 63],
    "clipped": lambda n, x, k: x[n.clip(k, 3, 36) + 5],
    "byte": lambda n, x, k: n.tile(x, 6)[k.astype(n.uint8)],
}


@pytest.mark.parametrize(
    "name, bounded", [*((k, 1) for k in BOUNDED), *((k, 0) for k in UNBOUNDED)]
)
def test_places_within_their_bounds_are_not_clamped(name, bounded):
    """Smaller ones of two, remainders and bytes have bounds, though they are no counted index."""
    x, k = np.arange(40, dtype=np.float32), np.arange(-300, 300, dtype=np.int32)
    f = (BOUNDED if bounded else UNBOUNDED)[name]
    mine = lambda x, k: f(jnp, x, k)
    text = "\n".join(show_kernel(kernel) for kernel in program(mine, x, k).kernels)
    assert ("clamp 0:i64" in text) != bool(bounded)
    theirs = jax.jit(lambda x, k: f(jax_numpy, x, k))(x, k)
    np.testing.assert_array_equal(pb.jit(mine)(x, k), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_hold_where_integers_wrap_around(dtype):
    """What would be beyond a type's numbers is not bounded by its operands."""
    k, info = edges(dtype), np.iinfo(dtype)
    c = info.dtype.type(info.max // 2)

    def of(np_, lax_):
        def f(k):
            some, few = np_.maximum(k, c), np_.minimum(k, 100)
            rest = lax_.rem(k, info.dtype.type(7)) + few
            sums = some + some, few - 1 - k, (some - c) + c, rest
            return [(s, s < 0, s >= c, s.astype(np.int16) < 0, lax_.rem(s, few)) for s in sums]

        return f

    mine = pb.tree_util.tree_leaves(pb.jit(of(jnp, lax))(k))
    theirs = jax.tree_util.tree_leaves(jax.jit(of(jax_numpy, jax.lax))(k))
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(x, y)
