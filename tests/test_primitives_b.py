"""Indexing, sorting, linear algebra, FFT and callbacks: values, derivatives and batches equal
JAX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pullback
import pullback.lax
from pullback.backends.reference import sort as numpy_sort
from pullback.primitives import index

RNG = np.random.default_rng(0)


def _np(x: Any) -> Any:
    return np.asarray(x)


def same(ours: Any, theirs: Any, tol: float = 0.0) -> None:
    """Leaves are equal in value, dtype and shape."""
    a, b = (
        jax.tree.leaves(pullback.tree_util.tree_map(_np, ours)),
        jax.tree.leaves(jax.tree.map(_np, theirs)),
    )
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if tol:
            np.testing.assert_allclose(
                x.astype(np.complex128), y.astype(np.complex128), rtol=tol, atol=tol
            )
        else:
            np.testing.assert_array_equal(x, y)


def numbers(P: Any, kind: str, *parts: Any) -> Any:
    return getattr(P.lax if P is jax else index, f"{kind}DimensionNumbers")(*parts)


MODES = (None, "clip", "fill", "promise_in_bounds")
# operand, index shape, gather numbers, slice sizes
GATHERS = [
    ((3, 4), (5, 1), ((1,), (0,), (0,)), (1, 4)),
    ((3, 4), (5, 2), ((), (0, 1), (0, 1)), (1, 1)),
    ((3, 4), (2, 2, 1), ((2,), (1,), (1,)), (2, 1)),
    ((3, 4), (2,), ((0, 1), (), (0, 1)), (2, 3)),
    ((3, 4, 5), (3, 2, 1), ((2, 3), (), (1,), (0,), (0,)), (1, 2, 5)),
    ((3, 4), (0, 1), ((1,), (0,), (0,)), (1, 4)),
]


def _case(k: int, bounded: bool, dtype: str = "float32") -> Any:
    shape, ishape, nums, sizes = GATHERS[k]
    x = RNG.integers(-9, 9, size=shape).astype(dtype)
    i = RNG.integers(0 if bounded else -2, 2 if bounded else 6, size=ishape).astype(np.int32)
    return x, i, nums, sizes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ("float32", "int32", "uint8", "bool"))
@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_gather(k: int, dtype: str, mode: Any) -> None:
    x, i, nums, sizes = _case(k, mode in (None, "promise_in_bounds"), dtype)

    def run(P: Any) -> Any:
        return P.lax.gather(x, i, numbers(P, "Gather", *nums), sizes, mode=mode)

    same(run(pullback), run(jax))


def _scatter_case(k: int, dtype: str) -> Any:
    x, i, nums, sizes = _case(k, False, dtype)
    hidden = {*nums[1], *(nums[3] if len(nums) > 3 else ())}
    window = iter(n for d, n in enumerate(sizes) if d not in hidden)
    lead = iter(i.shape[:-1])
    rank = i.ndim - 1 + len(nums[0])
    shape = tuple(next(window) if d in nums[0] else next(lead) for d in range(rank))
    return x, i, RNG.integers(-5, 5, size=shape).astype(dtype), nums


@pytest.mark.parametrize("mode", (None, "clip"))
@pytest.mark.parametrize("dtype", ("float32", "int32"))
@pytest.mark.parametrize(
    "op", ("scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
)
@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_scatter(k: int, op: str, dtype: str, mode: Any) -> None:
    x, i, u, nums = _scatter_case(k, dtype)

    def run(P: Any) -> Any:
        return getattr(P.lax, op)(x, i, u, numbers(P, "Scatter", *nums), mode=mode)

    same(run(pullback), run(jax))


def test_scatter_replaces_and_applies() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    i = np.array([[2], [0], [7]], np.int32)
    u = np.ones((3, 4), np.float32)

    def run(P: Any) -> Any:
        dn = numbers(P, "Scatter", (1,), (0,), (0,))
        return [
            P.lax.scatter(x, i, u, dn),
            P.lax.scatter_apply(x, i, P.lax.neg, dn, update_shape=(3, 4)),
        ]

    same(run(pullback), run(jax))


@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_scatter_transposed(k: int, mode: str) -> None:
    """Updates of one target, too: the transpose is that of the derivative."""
    x, i, u, nums = _scatter_case(k, "float32")
    dn = numbers(pullback, "Scatter", *nums)

    def f(x: Any, u: Any) -> Any:
        return pullback.lax.scatter(x, i, u, dn, mode=mode)

    ct = np.random.default_rng(k).normal(size=x.shape).astype(np.float32)
    found, want = pullback.linear_transpose(f, x, u)(ct), pullback.vjp(f, x, u)[1](ct)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)


AXES = ((0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (1, 0, 1), (0, None, 1))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_batched(k: int, axes: Any) -> None:
    _x, _i, nums, sizes = _case(k, False)
    xs, iss, us, _ = _scatter_case(k, "float32")
    stack = [
        a if d is None else np.stack([a, a[::-1]], d)
        for a, d in zip((xs, iss, us), axes, strict=True)
    ]

    def run(P: Any) -> Any:
        out = [
            P.vmap(
                lambda a, b, c: P.lax.scatter_add(a, b, c, numbers(P, "Scatter", *nums)),
                in_axes=axes,
            )(*stack)
        ]
        if axes[:2] != (None, None):
            out.append(
                P.vmap(
                    lambda a, b: P.lax.gather(
                        a, b, numbers(P, "Gather", *nums), sizes, mode="fill"
                    ),
                    in_axes=axes[:2],
                )(*stack[:2])
            )
        return out

    same(run(pullback), run(jax))


def _derivatives(P: Any, f: Callable[..., Any], *args: Any) -> Any:
    out, tangent = P.jvp(f, args, tuple(a * np.float32(2) + np.float32(1) for a in args))
    primal, pull = P.vjp(f, *args)
    return out, tangent, primal, pull(_np(primal) + np.float32(1))


@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_gather_derivatives(k: int) -> None:
    x, i, nums, sizes = _case(k, False)
    for mode in ("clip", "fill"):

        def run(P: Any, mode: str = mode) -> Any:
            return _derivatives(
                P,
                lambda a: P.lax.gather(
                    a, i, numbers(P, "Gather", *nums), sizes, mode=mode, fill_value=0
                ),
                x,
            )

        same(run(pullback), run(jax), 1e-6)


@pytest.mark.parametrize("op", ("scatter_add", "scatter_sub", "scatter_min", "scatter_max"))
@pytest.mark.parametrize("k", range(len(GATHERS)))
def test_scatter_derivatives(k: int, op: str) -> None:
    x, i, u, nums = _scatter_case(k, "float32")

    def run(P: Any) -> Any:
        return _derivatives(
            P, lambda a, b: getattr(P.lax, op)(a, i, b, numbers(P, "Scatter", *nums)), x, u
        )

    same(run(pullback), run(jax), 1e-5)


@pytest.mark.parametrize("unique", (False, True))
def test_scatter_replace_derivatives(unique: bool) -> None:
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    i = np.array([[2], [0], [9]] if unique else [[2], [9], [1]], np.int32)
    u = RNG.normal(size=(3, 3)).astype(np.float32)

    def run(P: Any) -> Any:
        dn = numbers(P, "Scatter", (1,), (0,), (0,))
        return _derivatives(P, lambda a, b: P.lax.scatter(a, i, b, dn, unique_indices=unique), x, u)

    same(run(pullback), run(jax), 1e-6)


def test_scatter_mul_derivatives() -> None:
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    i = np.array([[2], [0], [9]], np.int32)
    u = RNG.normal(size=(3, 3)).astype(np.float32)

    def run(P: Any) -> Any:
        dn = numbers(P, "Scatter", (1,), (0,), (0,))
        return _derivatives(
            P, lambda a, b: P.lax.scatter_mul(a, i, b, dn, unique_indices=True), x, u
        )

    same(run(pullback), run(jax), 1e-6)


@pytest.mark.parametrize("start", (-5, -1, 0, 1, 2, 9))
def test_dynamic_slices(start: int) -> None:
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    u = np.full((2, 2), 7, np.float32)

    def run(P: Any) -> Any:
        L = P.lax
        s = np.int32(start)
        batch = np.array([start, 0, 3], np.int32)
        return [
            L.dynamic_slice(x, (s, 0), (2, 3)),
            L.dynamic_slice(x, (start, 0), (2, 3)),
            L.dynamic_slice(x, np.array([start, 1]), (2, 3)),
            L.dynamic_update_slice(x, u, (s, np.int32(1))),
            L.dynamic_slice_in_dim(x, s, 2, axis=-1),
            L.dynamic_index_in_dim(x, s, 0, keepdims=False),
            L.dynamic_update_index_in_dim(x, u[0, 0] * np.ones(4, np.float32), s, 0),
            L.dynamic_update_slice_in_dim(x, x[:2], s, 0),
            L.dynamic_slice(
                x, (max(s, np.int32(0)), np.int32(0)), (2, 3), allow_negative_indices=False
            ),
            P.vmap(lambda k: L.dynamic_slice(x, (k, 0), (2, 3)))(batch),
            P.vmap(lambda a, k: L.dynamic_slice(a, (k, 0), (2, 3)), in_axes=(1, 0))(
                np.stack([x] * 3, 1), batch
            ),
            P.vmap(lambda a: L.dynamic_slice(a, (s, np.int32(0)), (2, 3)))(np.stack([x] * 3)),
            P.vmap(lambda k: L.dynamic_update_slice(x, u, (k, 1)))(batch),
            P.vmap(lambda a, b: L.dynamic_update_slice(a, b, (s, np.int32(1))), in_axes=(None, 2))(
                x, np.stack([u] * 3, 2)
            ),
            _derivatives(P, lambda a: L.dynamic_slice(a, (s, np.int32(0)), (2, 3)), x),
            _derivatives(P, lambda a, b: L.dynamic_update_slice(a, b, (s, np.int32(1))), x, u),
        ]

    same(run(pullback), run(jax))


def test_narrow_starts_count_from_the_end_of_long_axes() -> None:
    """JAX adds the size of the axis in the index's dtype, which does not hold it."""
    x = np.arange(257, dtype=np.float32)
    for start in (-3, 100, -128):
        narrow, at = np.int8(start), start % 257
        window = x[at : at + 2]
        for f in (
            lambda x, k: pullback.lax.dynamic_slice(x, (k,), (2,)),
            pullback.jit(lambda x, k: pullback.lax.dynamic_slice_in_dim(x, k, 2)),
        ):
            np.testing.assert_array_equal(f(x, narrow), window)
        put = pullback.jit(lambda x, k: pullback.lax.dynamic_update_index_in_dim(x, -1.0, k, 0))
        got = put(x, narrow)
        assert int(np.argmin(got)) == at
    batch = np.array([-3, 100], np.int8)
    got = pullback.vmap(lambda k: pullback.lax.dynamic_index_in_dim(x, k, keepdims=False))(batch)
    np.testing.assert_array_equal(got, x[batch])


@pytest.mark.parametrize(
    "call",
    (
        lambda L, x: L.dynamic_slice(x, (1,), (1, 2)),
        lambda L, x: L.dynamic_slice(x, (1, 1.0), (1, 2)),
        lambda L, x: L.dynamic_slice(x, (1, 1), (1, 7)),
        lambda L, x: L.dynamic_slice(x, (1, np.arange(2)), (1, 1)),
        lambda L, x: L.dynamic_update_slice(x, x[0], (1, 1)),
        lambda L, x: L.dynamic_update_slice(x, np.ones((9, 4), np.float32), (1, 1)),
        lambda L, x: L.dynamic_update_slice(x, np.ones((1, 4), np.int32), (1, 1)),
        lambda L, x: L.sort(x, dimension=5),
        lambda L, x: L.sort((x, x), num_keys=3),
        lambda L, x: L.top_k(x, 9),
        lambda L, x: L.top_k(x, -1),
    ),
)
def test_errors(call: Any) -> None:
    x = np.ones((3, 4), np.float32)
    kinds = []
    for P in (jax, pullback):
        with pytest.raises((TypeError, ValueError, IndexError)) as e:
            call(P.lax, x)
        kinds.append(e.type)
    assert issubclass(kinds[1], kinds[0])


SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1, 0.0, -0.0, 2, 1], np.float32)


def test_sort() -> None:
    x = RNG.integers(-5, 5, size=(4, 6)).astype(np.float32)
    y = RNG.integers(0, 3, size=(4, 6)).astype(np.int32)

    def run(P: Any) -> Any:
        L = P.lax
        return [
            L.sort(SPECIAL),
            L.sort((SPECIAL, np.arange(10, dtype=np.int32))),
            L.sort(x, dimension=0),
            L.sort((y, x), dimension=1, num_keys=2),
            L.sort((y, x, x), dimension=0, num_keys=1),
            L.sort_key_val(x, y),
            L.sort(np.array([True, False, True])),
            L.sort((x[0] + 1j * x[1]).astype(np.complex64)),
            L.top_k(SPECIAL, 10),
            L.top_k(x, 3, axis=0),
            L.top_k(y, 2),
            P.vmap(lambda a, b: L.sort((a, b)), in_axes=(1, None))(x, y[:, 0]),
            P.vmap(lambda a: L.top_k(a, 2), in_axes=1)(x),
            L.approx_max_k(x, 2),
            L.approx_min_k(x, 2),
        ]

    same(run(pullback), run(jax))


def test_approx_top_k_answers_with_lists() -> None:
    """Like JAX, so that trees of results fit one another."""
    x = np.arange(4.0, dtype=np.float32)
    for pick in (pullback.lax.approx_max_k, pullback.lax.approx_min_k):
        assert type(pick(x, 2)) is list
        assert type(pullback.jit(lambda x, pick=pick: pick(x, 2))(x)) is list


def test_sort_derivatives() -> None:
    x = RNG.permutation(24).reshape(4, 6).astype(np.float32)
    y = RNG.normal(size=(4, 6)).astype(np.float32)

    def run(P: Any) -> Any:
        return [
            _derivatives(P, lambda a: P.lax.sort(a, dimension=0), x),
            _derivatives(P, lambda a: P.lax.top_k(a, 3)[0], x),
            _derivatives(P, lambda a, b: P.lax.sort((a, b))[1], x, y),
        ]

    same(run(pullback), run(jax), 1e-6)


@pytest.mark.parametrize("kind", ("FFT", "IFFT", "RFFT", "IRFFT"))
@pytest.mark.parametrize("lengths", ((6,), (5,), (4, 6), (3, 5)))
def test_fft(kind: str, lengths: Any) -> None:
    shape = (2, *lengths[:-1], lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1])
    x = RNG.normal(size=shape).astype(np.float32)
    if kind != "RFFT":
        x = (x + 1j * RNG.normal(size=shape)).astype(np.complex64)

    def run(P: Any) -> Any:
        def f(a: Any) -> Any:
            return P.lax.fft(a, kind, lengths)

        out, t = P.jvp(f, (x,), (x * 2,))
        ct = _np(out) * np.float32(0.5)
        return out, t, P.vjp(f, x)[1](ct), P.vmap(f, in_axes=1, out_axes=1)(np.stack([x, x], 1))

    same(run(pullback), run(jax), 2e-5)


def _matrices(*shape: int, complex_: bool = False) -> Any:
    x = RNG.normal(size=shape).astype(np.float32)
    return (x + 1j * RNG.normal(size=shape)).astype(np.complex64) if complex_ else x


def _positive(x: Any) -> Any:
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(x.shape[-1])).astype(x.dtype)


FACTORS = {
    "cholesky": (lambda L, x: L.cholesky(_sym(L, x)), (4, 4)),
    "lu square": (lambda L, x: L.lu(x), (4, 4)),
    "lu tall": (lambda L, x: L.lu(x), (5, 3)),
    "lu wide": (lambda L, x: L.lu(x), (3, 5)),
    "qr": (lambda L, x: L.qr(x, full_matrices=False), (5, 3)),
    "qr square": (lambda L, x: L.qr(x), (4, 4)),
    "eigh": (lambda L, x: L.eigh(x)[1], (4, 4)),
    "svd values": (lambda L, x: L.svd(x, compute_uv=False), (5, 3)),
    "svd": (lambda L, x: L.svd(x, full_matrices=False), (5, 3)),
    "svd wide": (lambda L, x: L.svd(x, full_matrices=False), (3, 5)),
}


def _sym(L: Any, x: Any) -> Any:
    return x


@pytest.mark.parametrize("complex_", (False, True))
@pytest.mark.parametrize("name", FACTORS)
def test_factorisations(name: str, complex_: bool) -> None:
    if complex_ and name.startswith("svd") and name != "svd values":
        pytest.skip("the phases of complex singular vectors are not determined")
    f, shape = FACTORS[name]
    x = _matrices(2, *shape, complex_=complex_)
    x = _positive(x) if name == "cholesky" else x

    def run(P: Any) -> Any:
        g = lambda a: f(P.lax.linalg, a)
        out, t = P.jvp(g, (x,), (x * np.float32(0.5) + np.float32(0.1),))
        return [x for x in (*_listed(out), *_listed(t)) if x.dtype != jax.dtypes.float0] + _listed(
            P.vmap(g)(x)
        )

    same(run(pullback), run(jax), 3e-3)


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("complex_", (pytest.param(False, marks=pytest.mark.slow), True))
@pytest.mark.parametrize("left", (True, False))
@pytest.mark.parametrize("lower", (True, False))
@pytest.mark.parametrize("trans", (True, False))
@pytest.mark.parametrize("unit", (True, False))
def test_triangular_solve(complex_: bool, left: bool, lower: bool, trans: bool, unit: bool) -> None:
    a = _matrices(2, 3, 3, complex_=complex_) + 3 * np.eye(3, dtype=np.float32)
    b = _matrices(2, *((3, 4) if left else (4, 3)), complex_=complex_)

    def run(P: Any) -> Any:
        def f(m: Any, y: Any) -> Any:
            return P.lax.linalg.triangular_solve(
                m,
                y,
                left_side=left,
                lower=lower,
                transpose_a=trans,
                conjugate_a=trans,
                unit_diagonal=unit,
            )

        out, t = P.jvp(f, (a, b), (a * np.float32(0.3), b * np.float32(0.2)))
        return (
            out,
            t,
            P.vjp(f, a, b)[1](_np(out)),
            P.vmap(f)(a, b),
            P.vmap(f, in_axes=(None, 0))(a[0], b),
        )

    same(run(pullback), run(jax), 1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u4", "i8", "u8", "i2", "u1", "b1"])
def test_orders_are_stable(dtype: str) -> None:
    """Orders made of plain sorts of packed words: NumPy's stable orders, ties and NaN included."""
    for shape in ((1000,), (40, 50), (50, 40, 3)):
        for axis in range(len(shape)):
            keys = []
            for _ in range(3):
                k = (RNG.standard_normal(shape) * RNG.choice([1, 3, 1e4])).round(RNG.integers(0, 3))
                if dtype[0] == "f":
                    for odd in (np.nan, -np.nan, -0.0, -np.inf):
                        k[RNG.random(shape) < 0.05] = odd
                keys.append(k.astype("f8" if dtype[0] == "f" else "i8").astype(dtype))
            for count in (1, 2, 3):
                want = np.lexsort(tuple(keys[:count][::-1]), axis=axis)
                np.testing.assert_array_equal(numpy_sort.argsort(keys[:count], axis), want)


def test_largest_of_ties() -> None:
    """top_k takes the first of equals, also where they lie at the edge."""
    for shape, k in (((5000,), 7), ((30, 200), 5), ((30, 200), 150)):
        for x in (np.round(3 * RNG.standard_normal(shape)), RNG.standard_normal(shape)):
            x = x.astype(np.float32)
            same(pullback.lax.top_k(x, k), jax.lax.top_k(x, k))
