"""Functions of matrices: exponentials, square roots, any function of the eigenvalues."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.derivatives import jvp
from ...api.jit import jit
from ...api.vmap import vmap
from ...control.while_loop import fori_loop
from ...core.avals import typeof
from ...numpy import linalg as np_linalg
from ...numpy.linalg.common import adjoint, mm
from ...numpy.util import shown_as
from ...primitives.common import as_int
from .common import arrays
from .factor import schur
from .systems import solve_triangular

_PADE: dict[int, tuple[float, ...]] = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (
        17643225600.0,
        8821612800.0,
        2075673600.0,
        302702400.0,
        30270240.0,
        2162160.0,
        110880.0,
        3960.0,
        90.0,
        1.0,
    ),
    13: (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
}


def _pade(a: Any, norm: Any, theta: dict[int, float]) -> tuple[Any, Any]:
    """The odd and even parts (U, V) of the diagonal Pade approximant of exp (Higham 2005), of the
    least order that suffices for the norm. Those of orders below 13 are sums of the same powers,
    with other coefficients."""
    orders = [order for order in theta if order < 13]
    powers = [jnp.eye(typeof(a).shape[-1], dtype=typeof(a).dtype), mm(a, a)]
    while len(powers) <= max(orders) // 2:
        powers.append(mm(powers[-1], powers[1]))

    def coefficient(k: int) -> Any:
        found: Any = float(_PADE[max(orders)][k])
        for order in sorted(orders)[-2::-1]:
            own = float(_PADE[order][k]) if k <= order else 0.0
            found = jnp.where(norm < theta[order], own, found)
        return jnp.asarray(found).astype(typeof(a).dtype)

    even = [coefficient(2 * k) * power for k, power in enumerate(powers)]
    odd = [coefficient(2 * k + 1) * power for k, power in enumerate(powers)]
    u, v = mm(a, functools.reduce(operator.add, odd)), functools.reduce(operator.add, even)
    if 13 not in theta:
        return u, v
    u2, v2 = _pade_13(a, powers)
    small = norm < theta[max(orders)]
    return jnp.where(small, u, u2), jnp.where(small, v, v2)


def _pade_13(a: Any, powers: list[Any]) -> tuple[Any, Any]:
    """Those of order 13, in fewer products than it has powers."""
    b = [float(c) for c in _PADE[13]]
    eye, a2, a4, a6 = powers[:4]
    high = mm(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    u = mm(a, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = mm(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    return u, v + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye


_THETA = {
    np.dtype("float32"): {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660},
    np.dtype("float64"): {
        3: 1.495585217958292e-2,
        5: 2.539398330063230e-1,
        7: 9.504178996162932e-1,
        9: 2.097847961257068,
        13: 5.371920351148152,
    },
}


@jit
@shown_as("_calc_P_Q")
def _quotient(a: Any) -> tuple[Any, Any, Any]:
    """Matrices (P, Q) with exp(a) = (Q^-1 P)^(2^n), and n before it is rounded up."""
    real = np.zeros((), typeof(a).dtype).real.dtype
    theta = _THETA.get(real, _THETA[np.dtype("float32")])
    norm = np_linalg.norm(a, 1)
    needed = jnp.log2(norm / theta[max(theta)])
    squarings = jnp.maximum(0, jnp.ceil(needed))
    squarings = jnp.where(jnp.isfinite(squarings), squarings, 0)
    scaled = a / (2.0**squarings).astype(typeof(a).dtype)
    u, v = _pade(scaled, norm, theta)
    return u + v, v - u, needed


def _expm(a: Any, upper_triangular: bool, max_squarings: int) -> Any:
    p, q, needed = _quotient(a)
    r = solve_triangular(q, p) if upper_triangular else np_linalg.solve(q, p)
    return _squaring(r, needed, max_squarings)


@functools.partial(jit, static_argnums=2)
def _squaring(r: Any, needed: Any, max_squarings: int) -> Any:
    """`r` squared as often as is needed; NaN for more than `max_squarings`."""
    steps = jnp.ceil(jnp.where(jnp.isfinite(needed), needed, 0)).astype(np.int32)

    def square(k: Any, held: Any) -> Any:
        return lax.cond(k < steps, lambda x: mm(x, x), lambda x: x, held)

    # Half a squaring beyond `max_squarings` is rounded up for accuracy, and is not too many.
    r = fori_loop(0, max_squarings + 1, square, r)
    return jnp.where(needed >= max_squarings + 1, jnp.nan, r)


@functools.partial(jit, static_argnames=("upper_triangular", "max_squarings"))
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The matrix exponential, by scaling, a Pade approximant, and squaring; NaN if more than
    `max_squarings` are needed.

    >>> pb.scipy.linalg.expm(jnp.zeros((1, 1)))
    Array([[1.]], dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (A,) = arrays("expm", A)
    shape = typeof(A).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Expected A to be a (batched) square matrix, got A.{shape=}. (expm, A: "
            f"{typeof(A).str_short()})"
        )
    if 0 in shape:
        return A
    if dtypes.itemsize_bits(typeof(A).dtype) < 32:
        # What the approximants' coefficients are too large for.
        wide = A.astype(np.float32)
        out = expm(wide, upper_triangular=upper_triangular, max_squarings=max_squarings)
        return out.astype(typeof(A).dtype)
    run = functools.partial(
        _expm,
        upper_triangular=upper_triangular,
        max_squarings=as_int(max_squarings, "max_squarings"),
    )
    for _ in range(len(shape) - 2):
        run = vmap(run)  # type: ignore[assignment]
    return run(A)


@functools.partial(jit, static_argnames=("method", "compute_expm"))
def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """(expm(A), its derivative in the direction E); the derivative alone without `compute_expm`.

    Raises ValueError for shapes that differ, or an unknown method.

    `A`, `E`: (n, n), float or complex. As `scipy.linalg.expm_frechet`.

    >>> from pullback.scipy import linalg
    >>> linalg.expm_frechet(jnp.zeros((2, 2)), jnp.eye(2), compute_expm=False).round(3)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    A, E = jnp.asarray(A), jnp.asarray(E)
    if typeof(A).ndim < 2 or typeof(A).shape[-1] != typeof(A).shape[-2]:
        raise ValueError(f"expected A to be a square matrix, got A.shape={typeof(A).shape}")
    if typeof(A).shape != typeof(E).shape:
        raise ValueError(
            f"expected A and E to be the same shape, got A.shape={typeof(A).shape} "
            f"E.shape={typeof(E).shape}"
        )
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet: method is 'SPS' or 'blockEnlarge', got {method=}")
    value, change = jvp(expm, (A,), (E,))
    return (value, change) if compute_expm else change


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """func of a matrix, from func of its eigenvalues, by the Schur-Parlett recurrence; without
    `disp`, (the matrix, an error estimate).

    `A`: (n, n), with distinct eigenvalues; `func` maps arrays elementwise. The result is complex.
    As `scipy.linalg.funm`.

    >>> from pullback.scipy import linalg
    >>> linalg.funm(jnp.array([[1., 2.], [0., 4.]]), jnp.sqrt).real.round(3)
    Array([[1.   , 0.667],
           [0.   , 2.   ]], dtype=float32)
    """
    A = jnp.asarray(A)
    if typeof(A).ndim != 2 or typeof(A).shape[0] != typeof(A).shape[1]:
        raise ValueError("expected square array_like input")
    t, z = schur(A, output="complex")
    f = jnp.diag(func(jnp.diag(t)))
    f, least = _parlett(t, f)
    f = mm(mm(z, f), adjoint(z))
    if disp:
        return f
    tol = jnp.finfo(typeof(f).dtype).eps
    least = jnp.where(least == 0, tol, least)
    err = jnp.minimum(
        jnp.max(jnp.stack([jnp.asarray(tol), (tol / least) * np_linalg.norm(jnp.triu(t, 1), 1)])), 1
    )
    return f, jnp.where(jnp.any(~jnp.isfinite(f)), np.inf, err)


@jit
@shown_as("_algorithm_11_1_1")
def _parlett(t: Any, f: Any) -> tuple[Any, Any]:
    """The function of a triangular matrix, of which `f` has the diagonal, and the least distance
    of two eigenvalues."""
    n = typeof(t).shape[0]
    least = jnp.abs(t[0, 0])
    for p in range(1, n):
        for i in range(n - p):
            j = i + p
            s = t[i, j] * (f[j, j] - f[i, i])
            s = (
                s
                + jnp.dot(t[i, i + 1 : j], f[i + 1 : j, j])
                - jnp.dot(f[i, i + 1 : j], t[i + 1 : j, j])
            )
            gap = t[j, j] - t[i, i]
            f = f.at[i, j].set(jnp.where(gap == 0, s, s / jnp.where(gap == 0, 1, gap)))
            least = jnp.minimum(least, jnp.abs(gap))
    return f, least


@jit
def _sqrtm(a: Any) -> Any:
    t, z = schur(a, output="complex")
    return mm(mm(z, _sqrtm_triu(t)), adjoint(z))


@jit
def _sqrtm_triu(t: Any) -> Any:
    n = typeof(t).shape[0]
    root = jnp.diag(jnp.sqrt(jnp.diag(t)))

    def column(j: int, root: Any) -> Any:
        def row(k: Any, held: Any) -> Any:
            i = j - 1 - k
            between = (jnp.arange(n) > i) & (jnp.arange(n) < j)
            s = jnp.sum(jnp.where(between, held[i, :] * held[:, j], 0))
            denominator = held[i, i] + held[j, j]
            value = t[i, j] - s
            value = jnp.where(value == 0, 0, value / jnp.where(value == 0, 1, denominator))
            return held.at[i, j].set(value)

        return fori_loop(0, j, row, root)

    for j in range(1, n):
        root = column(j, root)
    return root


def sqrtm(A: Any, blocksize: int = 1) -> Any:
    """The principal square root of a matrix, complex.

    Raises NotImplementedError for a block size above 1.

    `A`: (n, n). As `scipy.linalg.sqrtm`.

    >>> from pullback.scipy import linalg
    >>> linalg.sqrtm(jnp.array([[4., 5.], [0., 9.]])).real.round(3)
    Array([[2., 1.],
           [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError(
            f"Blocked version is not implemented yet. sqrtm was given blocksize={blocksize}. Fix: "
            "leave it out; the result is the same."
        )
    (A,) = arrays("sqrtm", A)
    return _sqrtm(A)
