"""Polar decomposition by dynamically weighted Halley iterations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes
from ..api.jit import jit
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..primitives import elementwise as ew
from ..primitives import linalg_factor, linalg_systems, maths
from ..primitives.common import as_array, const, real_dtype
from ..primitives.convert import convert_element_type
from ..primitives.layout import broadcast_in_dim, broadcasted_iota, reduce_sum
from ..primitives.linalg_systems import adjoint, block, identity, matmul
from ..primitives.reductions import reduce_max
from ..primitives.shape import concatenate

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


def _bound(x: Any) -> Any:
    """An upper bound of the largest singular value: the root of the largest sum of a column times
    that of a row."""
    size = ew.abs(x)
    columns, rows = (reduce_max(reduce_sum(size, (k,)), (0,)) for k in (0, 1))
    return ew.mul(maths.sqrt(columns), maths.sqrt(rows))


def _weights(low: Any) -> tuple[Any, Any, Any, Any]:
    """The weights a, b, c of a step for singular values in [low, 1], and the next lower bound.
    Nakatsukasa, Bai and Gygi, SIAM J. Matrix Anal. Appl. 31 (2010)."""

    def n(v: float) -> Any:
        return const(low, v)

    low2 = ew.mul(low, low)
    d = maths.cbrt(ew.div(ew.mul(n(4), ew.sub(ew.div(n(1), low2), n(1))), low2))
    root = maths.sqrt(ew.add(n(1), d))
    last = ew.div(ew.mul(n(8), ew.sub(n(2), low2)), ew.mul(low2, root))
    inner = ew.add(ew.sub(n(8), ew.mul(n(4), d)), last)
    a = ew.add(root, ew.div(maths.sqrt(inner), n(2)))
    less = ew.sub(a, n(1))
    b = ew.div(ew.mul(less, less), n(4))
    c = ew.sub(ew.add(a, b), n(1))
    up = ew.mul(low, ew.add(a, ew.mul(b, low2)))
    return a, b, c, ew.div(up, ew.add(n(1), ew.mul(c, low2)))


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """b/c U + (a - b/c) / sqrt(c) Q1 Q2^H, of the factors of [sqrt(c) U; I]."""
    m, n = typeof(u).shape
    root = maths.sqrt(c)
    tall = concatenate((_scaled(u, root), identity(n, typeof(u).dtype)), 0)
    q, _ = linalg_factor.qr(tall, full_matrices=False)
    product = matmul(block(q, (0, m), (0, n)), adjoint(block(q, (m, m + n), (0, n))))
    ratio = ew.div(b, c)
    return ew.add(_scaled(u, ratio), _scaled(product, ew.div(ew.sub(a, ratio), root)))


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """The same as b/c U + (a - b/c) U (I + c U^H U)^-1."""
    n = typeof(u).shape[-1]
    gram = ew.add(_scaled(matmul(adjoint(u), u), c), identity(n, typeof(u).dtype))
    factor = linalg_systems.cholesky(gram, symmetrize_input=False)
    solve = functools.partial(
        linalg_systems.triangular_solve, factor, left_side=True, lower=True, conjugate_a=True
    )
    solved = solve(adjoint(u), conjugate_a=False)
    right = adjoint(solve(solved, transpose_a=True))
    ratio = ew.div(b, c)
    return ew.add(_scaled(u, ratio), _scaled(right, ew.sub(a, ratio)))


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

    Iterations end when U changes by less than (5 eps)^(1/3), relatively, or after
    `max_iterations` (10). `dynamic_shape` is the shape of the matrix in `x`, if that is padded;
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
    near = 5 * least
    bound = _bound(x)
    bound = ew.select_n(ew.gt(bound, const(bound, 0)), const(bound, 1), bound)
    start = _scaled(x, ew.div(const(bound, 1), bound))
    one = const(bound, 1)

    def step(u: Any, low: Any, by: Any) -> tuple[Any, Any, Any]:
        a, b, c, up = _weights(low)
        new = by(u, a, b, c)
        change = _norm(ew.sub(new, u))
        small = ew.le(change, ew.mul(_norm(new), const(change, near ** (1 / 3))))
        tight = ew.lt(ew.abs(ew.sub(up, one)), const(up, near))
        return new, ew.min(up, one), ew.bitwise_and(small, tight)

    def iterate(by: Any, while_: Any, state: Any) -> Any:
        def on(s: Any) -> Any:
            count, _, low, done = s
            more = ew.bitwise_and(ew.bitwise_not(done), ew.lt(count, most))
            return more if while_ is None else ew.bitwise_and(more, while_(low))

        def body(s: Any) -> Any:
            count, u, low, _ = s
            return (count + 1, *step(u, low, by))

        return while_loop(on, body, state)

    def steep(low: Any) -> Any:
        return ew.gt(_weights(low)[2], const(low, BY_CHOLESKY))

    state = (0, start, broadcast_in_dim(const(bound, least), (), ()), np.bool_(False))
    state = iterate(_by_qr, steep, state)
    count, u, _, done = iterate(_by_cholesky, None, state)
    # One step of Newton and Schulz towards orthonormal columns: 1.5 U - 0.5 U U^H U.
    gram = matmul(adjoint(u), u)
    u = ew.sub(_scaled(u, const(bound, 1.5)), _scaled(matmul(u, gram), const(bound, 0.5)))
    h = matmul(adjoint(u), x)
    h = _scaled(ew.add(h, adjoint(h)), const(bound, 0.5))
    return u, h, count, done
