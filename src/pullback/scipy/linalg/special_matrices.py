"""Matrices of a known form: Toeplitz, Hankel, companions, Hilbert, Hadamard, Fourier, blocks."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...core.avals import typeof
from ...numpy.util import check_arraylike, promote_dtypes
from ...primitives.common import as_int
from .common import along_last, arrays


@jit
def block_diag(*arrs: Any) -> Any:
    """The matrix with these blocks along its diagonal; vectors are rows.

    >>> pb.scipy.linalg.block_diag(1., jnp.ones((1, 2)))
    Array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)

    Raises ValueError for a block of more than two axes.
    """
    check_arraylike("block_diag", *arrs)
    blocks = [jnp.asarray(a) for a in (arrs or (jnp.zeros((1, 0)),))]
    bad = [k for k, a in enumerate(blocks) if typeof(a).ndim > 2]
    if bad:
        raise ValueError(
            "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got "
            f"{blocks[bad[0]]} at argument {bad[0]}."
        )
    kind = jnp.result_type(*blocks)
    blocks = [jnp.atleast_2d(a).astype(kind) for a in blocks]
    columns = sum(typeof(a).shape[1] for a in blocks)
    rows, at = [], 0
    for a in blocks:
        w = typeof(a).shape[1]
        rows.append(lax.pad(a, np.zeros((), kind)[()], ((0, 0, 0), (at, columns - at - w, 0))))
        at += w
    return jnp.concatenate(rows, axis=0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals: first column `c`, first row `r` (by default conj(c)).

    `c`: (..., m), `r`: (..., n), of which the first element is not read; the result is (..., m, n).
    As `scipy.linalg.toeplitz`.

    >>> from pullback.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2, 3]), jnp.array([1, 7]))
    Array([[1, 7],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    check_arraylike("toeplitz", c, c if r is None else r)
    c = jnp.atleast_1d(jnp.asarray(c))
    r = jnp.atleast_1d(jnp.conj(c) if r is None else jnp.asarray(r))
    n, m = typeof(c).shape[-1], typeof(r).shape[-1]
    kind = jnp.result_type(c, r)
    index = np.arange(n)[:, None] - np.arange(m)[None, :] + (m - 1)

    def one(c: Any, r: Any) -> Any:
        return jnp.concatenate([jnp.flip(r)[: max(m - 1, 0)], c])[index]

    return along_last(one, c.astype(kind), r.astype(kind))


def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with constant anti-diagonals: first column `c`, last row `r` (by default 0).

    `c`: (m,), `r`: (n,), of which the first element is not read; the result is (m, n). As
    `scipy.linalg.hankel`.

    >>> from pullback.scipy import linalg
    >>> linalg.hankel(jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    check_arraylike("hankel", c, c if r is None else r)
    for name, v in (("c", c), ("r", c if r is None else r)):
        if not jnp.ndim(v):
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    c = jnp.asarray(c)
    r = jnp.zeros_like(c) if r is None else jnp.asarray(r)
    n, m = typeof(c).shape[-1], typeof(r).shape[-1]
    kind = jnp.result_type(c, r)
    index = np.arange(n)[:, None] + np.arange(m)[None, :]
    return along_last(
        lambda c, r: jnp.concatenate([c, r[1:]])[index], c.astype(kind), r.astype(kind)
    )


def circulant(c: Any) -> Any:
    """The matrix whose columns are the rotations of `c`.

    `c`: (..., n); the result is (..., n, n). As `scipy.linalg.circulant`.

    >>> from pullback.scipy import linalg
    >>> linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    check_arraylike("circulant", c)
    c = jnp.atleast_1d(jnp.asarray(c))
    n = typeof(c).shape[-1]
    index = (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1)
    return along_last(lambda c: c[index], c)


def companion(a: Any) -> Any:
    """The companion matrix of a polynomial (highest power first).

    `a`: (n + 1,), numbers of which the first is not 0; the result is (n, n). As
    `scipy.linalg.companion`.

    >>> from pullback.scipy import linalg
    >>> linalg.companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = jnp.atleast_1d(arrays("companion", a)[0])
    n = typeof(a).shape[-1]
    if n < 2:
        raise ValueError(
            "The length of `a` along the last axis must be at least 2; got shape "
            f"{typeof(a).shape}."
        )
    return along_last(
        lambda a: jnp.diag(jnp.ones(n - 2, typeof(a).dtype), -1).at[0].set(-a[1:] / a[0]), a
    )


def fiedler(a: Any) -> Any:
    """The matrix of |a_i - a_j|.

    `a`: (..., n); the result is (..., n, n). As `scipy.linalg.fiedler`.

    >>> from pullback.scipy import linalg
    >>> linalg.fiedler(jnp.array([1, 4, 9]))
    Array([[0, 3, 8],
           [3, 0, 5],
           [8, 5, 0]], dtype=int32)
    """
    check_arraylike("fiedler", a)
    a = jnp.atleast_1d(jnp.asarray(a))
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a: Any) -> Any:
    """The pentadiagonal companion matrix of a polynomial (highest power first).

    `a`: (n + 1,); the result is (n, n). As `scipy.linalg.fiedler_companion`.

    >>> from pullback.scipy import linalg
    >>> linalg.fiedler_companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = jnp.atleast_1d(arrays("fiedler_companion", a)[0])
    if not typeof(a).shape[-1]:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an "
            f"array of shape {typeof(a).shape}."
        )
    a = a / a[..., :1]
    n = typeof(a).shape[-1] - 1
    if n < 1:
        return a[..., :0, None][..., :0]

    def one(a: Any) -> Any:
        if n == 1:
            return -a[1:2][None]
        c = jnp.zeros((n, n), typeof(a).dtype)
        up = np.arange(0, n - 2, 2)
        c = c.at[up, up + 2].set(1)
        down = np.arange(1, n - 2, 2)
        c = c.at[down + 2, down].set(1)
        even = np.arange(0, n - 1, 2)
        c = c.at[even, even + 1].set(-a[even + 2])
        odd = np.arange(1, n - 1, 2)
        c = c.at[odd + 1, odd].set(-a[odd + 2])
        c = c.at[0, 0].set(-a[1])
        return c.at[1, 0].set(1)

    return along_last(one, a)


def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix: fecundities `f` in the first row, survival rates `s` below the
    diagonal.

    `f`: (n,), `s`: (n - 1,); the result is (n, n). Raises ValueError for other sizes. As
    `scipy.linalg.leslie`.

    >>> from pullback.scipy import linalg
    >>> linalg.leslie(jnp.array([0., 2.]), jnp.array([0.5]))
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    check_arraylike("leslie", f, s)
    f, s = (jnp.atleast_1d(v) for v in promote_dtypes(f, s))
    n = typeof(f).shape[-1]
    if n < 2:
        raise ValueError(
            f"The length of f along the last axis must be at least 2; got shape {typeof(f).shape}."
        )
    if typeof(s).shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less "
            f"than the length of f; got f shape {typeof(f).shape} and s shape {typeof(s).shape}."
        )
    return along_last(lambda f, s: jnp.diag(s, -1).at[0].set(f), f, s)


@functools.partial(jit, static_argnames=("n", "mode"))
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix that convolves vectors of size n with `a`.

    `a`: (m,); `mode`: "full", "same" or "valid", as for `numpy.convolve`: ValueError for another.
    As `scipy.linalg.convolution_matrix`.

    >>> from pullback.scipy import linalg
    >>> linalg.convolution_matrix(jnp.array([1, 2]), 3)
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1],
           [0, 0, 2]], dtype=int32)
    """
    a = jnp.asarray(a)
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if not typeof(a).ndim:
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got a scalar.")
    if typeof(a).shape[-1] == 0:
        raise ValueError("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of ('full', 'valid', 'same'); got {mode!r}")
    k = typeof(a).shape[-1]
    full = along_last(
        lambda v: toeplitz(
            jnp.pad(v, (0, n - 1)),
            jnp.pad(v[:1], (0, n - 1)),
        ),
        a,
    )
    if mode == "full":
        return full
    trim = min(n, k) - 1
    if mode == "same":
        low = trim // 2
        return full[..., low : low + max(n, k), :]
    return full[..., trim : n + k - 1 - trim, :]


@functools.partial(jit, static_argnames=("n", "scale", "dtype"))
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform; `scale` None, "sqrtn" or "n" divides by 1,
    sqrt(n) or n.

    `n`: a Python int; the result is complex, (n, n). Raises ValueError for another scale. As
    `scipy.linalg.dft`.

    >>> from pullback.scipy import linalg
    >>> linalg.dft(2).real.round(3)
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; {scale!r} is not valid.")
    kind = dtypes.canonicalize_dtype(np.complex128 if dtype is None else dtype)
    if not dtypes.is_complex(kind):
        raise ValueError(f"dtype must be a complex floating-point type; got {kind.name}.")
    power = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    m = np.exp(-2j * np.pi * power / max(n, 1))
    m = m / (math.sqrt(max(n, 0)) if scale == "sqrtn" else n if scale == "n" else 1)
    return jnp.asarray(m, dtype=kind)


@functools.partial(jit, static_argnames=("n", "dtype"))
def hadamard(n: int, dtype: Any = int) -> Any:
    """The Hadamard matrix of size n, a power of 2.

    `n`: a Python int: ValueError unless it is a power of 2. As `scipy.linalg.hadamard`.

    >>> from pullback.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n < 1 or int(n) != n or int(n) & (int(n) - 1):
        raise ValueError(f"hadamard: n must be a positive power of 2; got {n}")
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return jnp.asarray(h, dtype=dtypes.canonicalize_dtype(dtype))


def _whole(n: Any) -> int:
    """A size: an integer, or a float without fraction. TypeError for others."""
    whole = isinstance(n, float | np.floating) and float(n).is_integer()
    return int(n) if whole else int(as_int(n, "n"))


@functools.partial(jit, static_argnames=("n", "full"))
def helmert(n: int, full: bool = False) -> Any:
    """The Helmert matrix of size n; without `full`, without its first row.

    `n`: a Python int; the result is (n - 1, n), or (n, n). As `scipy.linalg.helmert`.

    >>> from pullback.scipy import linalg
    >>> linalg.helmert(3).round(3)
    Array([[ 0.707, -0.707,  0.   ],
           [ 0.408,  0.408, -0.816]], dtype=float32)
    """
    n = _whole(n)
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}")
    h = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    d = np.arange(n) * np.arange(1, n + 1)
    h[0], d[0] = 1, n
    h = h / np.sqrt(d)[:, None]
    return jnp.asarray(h if full else h[1:], dtype=dtypes.default_float())


@functools.partial(jit, static_argnames=("n",))
def hilbert(n: int) -> Any:
    """The Hilbert matrix, 1 / (i + j + 1).

    `n`: a Python int; the result is float, (n, n). As `scipy.linalg.hilbert`.

    >>> from pullback.scipy import linalg
    >>> linalg.hilbert(2).round(3)
    Array([[1.   , 0.5  ],
           [0.5  , 0.333]], dtype=float32)
    """
    n = as_int(n, "n")
    if n < 0:
        raise TypeError(f"hilbert: n must be nonnegative, got {n}.")
    k = np.arange(n)
    return jnp.asarray(1.0 / (k[:, None] + k[None, :] + 1), dtype=dtypes.default_float())


@functools.partial(jit, static_argnames=("n",))
def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix.

    `n`: a Python int; the result is float, (n, n). As `scipy.linalg.invhilbert`.

    >>> from pullback.scipy import linalg
    >>> linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """

    def entry(i: int, j: int) -> int:
        s = i + j
        return (  # type: ignore[no-any-return]
            (-1) ** s
            * (s + 1)
            * math.comb(n + i, n - j - 1)
            * math.comb(n + j, n - i - 1)
            * math.comb(s, i) ** 2
        )

    n = max(_whole(n), 0)
    return jnp.asarray(
        np.array([[float(entry(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n),
        dtype=dtypes.default_float(),
    )


def _pascal(n: int, kind: str | None, sign: int) -> Any:
    kind, n = "symmetric" if kind is None else kind, max(_whole(n), 0)
    if kind not in ("symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be on of: 'symmetric', 'lower', 'upper'.\nGot {kind=}")
    lower = np.array(
        [
            [float(math.comb(i, j)) * (sign if (i + j) % 2 else 1) for j in range(n)]
            for i in range(n)
        ]
    ).reshape(n, n)
    if kind == "lower":
        return lower
    if kind == "upper":
        return lower.T
    return lower @ lower.T if sign == 1 else lower.T @ lower


@functools.partial(jit, static_argnames=("n", "kind"))
def pascal(n: int, kind: str | None = None) -> Any:
    """The matrix of binomial coefficients, "symmetric", "lower" or "upper".

    `n`: a Python int; the result is (n, n). Raises ValueError for another kind. As
    `scipy.linalg.pascal`.

    >>> from pullback.scipy import linalg
    >>> linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    return jnp.asarray(_pascal(n, kind, 1), dtype=np.float32)


@functools.partial(jit, static_argnames=("n", "kind"))
def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of `pascal`.

    `n`: a Python int; the result is (n, n). Raises ValueError for another kind. As
    `scipy.linalg.invpascal`.

    >>> from pullback.scipy import linalg
    >>> linalg.invpascal(3, kind='lower')
    Array([[ 1., -0.,  0.],
           [-1.,  1., -0.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    return jnp.asarray(_pascal(n, kind, -1), dtype=dtypes.default_float())
