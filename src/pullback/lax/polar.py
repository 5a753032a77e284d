"""Polar decomposition by dynamically weighted Halley iterations."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import dtypes
from ..api.jit import jit
from ..control.scan import scan
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..primitives import elementwise as ew, linalg_factor, linalg_systems, maths
from ..primitives.common import as_array, const, real_dtype
from ..primitives.convert import convert_element_type
from ..primitives.layout import broadcast_in_dim, broadcasted_iota, reduce_sum, squeeze
from ..primitives.linalg_systems import adjoint, block, identity, matmul
from ..primitives.reductions import reduce_max
from ..primitives.shape import concatenate, slice_in_dim

__all__ = ["qdwh"]

MOST_ITERATIONS = 10
BY_CHOLESKY = 100.0  # weights up to here leave I + c U^H U well conditioned


def _scaled(x: Any, by: Any) -> Any:
    """x times a real scalar."""
    d = typeof(x).dtype
    by = by if typeof(by).dtype == d else convert_element_type(by, d)
    return ew.mul(x, broadcast_in_dim(by, typeof(x).shape, ()))


def _squared(x: Any) -> Any:
    size = ew.abs(x)
    return ew.mul(size, size)


def _norm(x: Any) -> Any:
    return maths.sqrt(reduce_sum(_squared(x), (0, 1)))


def _starting_scale(x: Any) -> Any:
    """One over an upper bound of the largest singular value: the roots of the largest sum of a
    column and of a row. 1 for a matrix of zeros.
    """
    size = ew.abs(x)
    columns, rows = (reduce_max(reduce_sum(size, (k,)), (0,)) for k in (0, 1))
    scale = ew.mul(maths.rsqrt(columns), maths.rsqrt(rows))
    return ew.select_n(ew.eq(columns, const(columns, 0)), scale, const(scale, 1))


def _schedule(eps: float, most: int) -> list[tuple[float, float, float]]:
    """The weights a, b, c of steps that take singular values from [eps, 1] to 1, but for 5 eps.
    They depend on the bounds only, so that they are known before the matrix is.
    Nakatsukasa, Bai and Gygi, SIAM J. Matrix Anal. Appl. 31 (2010).
    """
    steps: list[tuple[float, float, float]] = []
    low = eps
    while len(steps) < most and abs(1 - low) > 5 * eps:
        low2 = low * low
        d = float(np.cbrt(4 * (1 / low2 - 1) / low2))
        root = math.sqrt(1 + d)
        a = root + math.sqrt(8 - 4 * d + 8 * (2 - low2) / (low2 * root)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        steps.append((a, b, c))
        low = min(low * (a + b * low2) / (1 + c * low2), 1.0)
    return steps


def _by_qr(u: Any, weights: Any) -> Any:
    """b/c U + (a - b/c) / sqrt(c) Q1 Q2^H, of the factors of [sqrt(c) U; I]."""
    m, n = typeof(u).shape
    of_product, root, of_u = (_one(weights, k) for k in range(3))
    tall = concatenate((_scaled(u, root), identity(n, typeof(u).dtype)), 0)
    q, _ = linalg_factor.qr(tall, full_matrices=False)
    product = matmul(block(q, (0, m), (0, n)), adjoint(block(q, (m, m + n), (0, n))))
    return ew.add(_scaled(u, of_u), _scaled(product, of_product))


def _qr_weights(a: float, b: float, c: float) -> tuple[float, ...]:
    return (a - b / c) / math.sqrt(c), math.sqrt(c), b / c


def _by_cholesky(u: Any, weights: Any) -> Any:
    """The same as b/c U + (a - b/c) U (I + c U^H U)^-1."""
    n = typeof(u).shape[-1]
    of_gram, of_solved, of_u = (_one(weights, k) for k in range(3))
    gram = ew.add(_scaled(matmul(adjoint(u), u), of_gram), identity(n, typeof(u).dtype))
    factor = linalg_systems.cholesky(gram, symmetrize_input=False)
    solve = functools.partial(
        linalg_systems.triangular_solve, factor, left_side=True, lower=True, conjugate_a=True
    )
    solved = solve(adjoint(u), conjugate_a=False)
    right = adjoint(solve(solved, transpose_a=True))
    return ew.add(_scaled(u, of_u), _scaled(right, of_solved))


def _cholesky_weights(a: float, b: float, c: float) -> tuple[float, ...]:
    return c, a - b / c, b / c


def _one(weights: Any, k: int) -> Any:
    return squeeze(slice_in_dim(weights, k, k + 1), (0,))


def _masked(x: Any, shape: tuple[Any, Any]) -> Any:
    """The leading part of a padded matrix; zero elsewhere."""
    full = typeof(x).shape
    inside = [
        ew.lt(
            broadcasted_iota(np.int32, full, k),
            broadcast_in_dim(convert_element_type(as_array(s), np.int32), full, ()),
        )
        for k, s in enumerate(shape)
    ]
    zeros = broadcast_in_dim(const(x, 0), full, ())
    return ew.select_n(ew.bitwise_and(*inside), zeros, x)


@functools.partial(jit, static_argnames=("is_hermitian", "max_iterations", "eps"))
def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """(U, H, number of iterations, whether they converged) with x = U H, for `x` of shape (m, n)
    with m >= n and full rank: U has orthonormal columns, H is Hermitian and positive semidefinite.

    Iterations end when U changes by less than (5 eps)^(1/3) in norm, or after `max_iterations`
    (10). `dynamic_shape` is the shape of the matrix in `x`, if that is padded;
    `is_hermitian` is not used.

    >>> u, h, count, converged = pb.lax.linalg.qdwh(jnp.array([[0., 2.], [3., 0.]]))
    >>> u.round(3)
    Array([[0., 1.],
           [1., 0.]], dtype=float32)

    Raises ValueError for more columns than rows, another rank, or a dtype that is not inexact.
    """
    x = as_array(x)
    aval = typeof(x)
    if aval.ndim != 2:
        raise ValueError(f"qdwh needs a matrix, of shape (m, n), got shape {aval.shape}")
    if not dtypes.is_inexact(aval.dtype):
        raise ValueError(
            f"qdwh: data type {aval.dtype} not inexact. Fix: x.astype(float), or complex."
        )
    if aval.shape[0] < aval.shape[1]:
        raise ValueError(
            f"The input matrix of shape M x N must have M >= N, got {aval.shape}. Fix: qdwh(x.T)."
        )
    if dynamic_shape is not None:
        x = _masked(x, dynamic_shape)
    most = MOST_ITERATIONS if max_iterations is None else max_iterations
    return _iterated(x, most, eps)


def _iterated(x: Any, most: int, eps: float | None) -> tuple[Any, Any, Any, Any]:
    real = np.dtype(real_dtype(typeof(x).dtype))
    least = float(dtypes.finfo(real).eps if eps is None else eps)
    near = (5 * least) ** (1 / 3)
    steps = _schedule(least, most)
    by_qr = [_qr_weights(*w) for w in steps if w[2] > BY_CHOLESKY]
    by_cholesky = [_cholesky_weights(*w) for w in steps if w[2] <= BY_CHOLESKY]
    limit = np.asarray(_cholesky_weights(3.0, 1.0, 3.0), real)

    def step(u: Any, weights: Any) -> tuple[Any, Any]:
        new = _by_cholesky(u, weights)
        change = _norm(ew.sub(new, u))
        return new, ew.gt(change, const(change, near))

    u = _scaled(x, _starting_scale(x))
    moving: Any = np.bool_(True)
    if by_qr:  # far from the end: nobody asks how far they moved
        u, _ = scan(lambda u, w: (_by_qr(u, w), None), u, np.asarray(by_qr, real))
    if by_cholesky:
        table = np.asarray(by_cholesky, real)
        (u, moving), _ = scan(lambda s, w: (step(s[0], w), None), (u, np.bool_(True)), table)

    def on(s: Any) -> Any:
        return ew.bitwise_and(s[2], ew.lt(s[0], most))

    def body(s: Any) -> Any:
        return (s[0] + 1, *step(s[1], limit))

    count, u, moving = while_loop(on, body, (len(steps), u, moving))
    # One step of Newton and Schulz towards orthonormal columns: 1.5 U - 0.5 U U^H U.
    gram = matmul(adjoint(u), u)
    half = real.type(0.5)
    u = ew.sub(_scaled(u, real.type(1.5)), matmul(_scaled(u, half), gram))
    h = matmul(adjoint(u), x)
    h = _scaled(ew.add(h, adjoint(h)), half)
    return u, h, count, ew.bitwise_not(moving)
