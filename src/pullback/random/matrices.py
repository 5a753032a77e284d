"""Vectors and matrices: the multivariate normal distribution, and orthogonal matrices."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..api.jit import jit
from ..api.placement import lay_out
from ..core.avals import typeof
from ..numpy import linalg as np_linalg
from ..numpy.einsums import einsum
from ..numpy.products import diagonal
from ..numpy.util import promote_dtypes_inexact
from ..primitives import as_compiled
from ..primitives.common import as_int, canonical_shape
from ..primitives.elementwise import add, mul, sign
from ..primitives.layout import broadcast_in_dim, broadcast_shapes, transpose
from ..primitives.linalg_factor import geqrf_p, householder_product_p, qr_p
from ..primitives.linalg_systems import (
    cholesky_p,
    library_cholesky_p,
    stack_batch,
    symmetrized,
    triangle,
)
from ..primitives.maths import sqrt
from ..primitives.shape import slice_in_dim
from .base import consume, float_dtype, promoted, static_jit
from .continuous import _normal, _normal_dtype
from .elementary import product

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Any:
    """Vectors with a normal distribution of mean `mean`, (..., n), and covariance `cov`,
    (..., n, n).

    `shape` is that of the batch, without the last axis. `method` says how the covariance is
    factored: "cholesky" (fastest; nan unless `cov` is positive definite), "eigh" or "svd".

    >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2)).round(3)
    Array([1.623, 2.025], dtype=float32)
    """
    if out_sharding is not None:
        return lay_out(
            multivariate_normal(key, mean, cov, shape, dtype, method),
            "multivariate_normal",
            out_sharding,
        )
    typed = consume("multivariate_normal", key)
    d = float_dtype("multivariate_normal", dtype)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {set(_METHODS)}, got {method!r}")
    mean, cov = promote_dtypes_inexact(mean, cov)
    if dtype is None and dtypes.is_complex(typeof(mean).dtype):
        raise ValueError(
            "dtype argument to `multivariate_normal` must be a float dtype, got "
            f"{typeof(mean).dtype}: mean and cov are real. Fix: draw the parts apart."
        )
    if dtype is None:
        d = typeof(mean).dtype
    m, c = typeof(mean), typeof(cov)
    name = "multivariate_normal requires"
    if m.ndim < 1:
        raise ValueError(f"{name} mean.ndim >= 1, got mean.ndim == {m.ndim}")
    if c.ndim < 2:
        raise ValueError(f"{name} cov.ndim >= 2, got cov.ndim == {c.ndim}")
    n = m.shape[-1]
    if c.shape[-2:] != (n, n):
        raise ValueError(
            f"{name} cov.shape == (..., n, n) for n={n}, but got cov.shape == {c.shape}."
        )
    batch = broadcast_shapes(m.shape[:-1], c.shape[:-2])
    if shape is not None:
        shape = canonical_shape(shape)
        if broadcast_shapes(shape, batch) != shape:
            raise ValueError(
                f"{name} a shape that the batch axes of mean and cov, {batch}, broadcast to; got "
                f"shape={shape}"
            )
        batch = shape
    return _multivariate_normal(typed, mean, cov, shape=batch, dtype=d, method=method)


def _cholesky_by_library(avals: Any, x: Any) -> Any:
    if typeof(x).dtype.itemsize < 4:  # LAPACK has no half precision
        return cholesky_p.bind(x)
    return library_cholesky_p.bind(x)


_library_cholesky_p = as_compiled.compiled_as_jaxs(cholesky_p, _cholesky_by_library, stack_batch)


@jit
def cholesky(a: Any) -> Any:
    """Rounded as LAPACK's whatever the size, as JAX's is."""
    return triangle(_library_cholesky_p.bind(symmetrized("cholesky", a)))


@static_jit("shape", "dtype", "method")
def _multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any, dtype: Any, method: str) -> Any:
    if method == "cholesky":
        factor = cholesky(cov)
    elif method == "svd":
        vectors, values, _ = np_linalg.svd(cov)
        factor = mul(vectors, sqrt(_middle(values)))
    else:
        values, vectors = np_linalg.eigh(cov)
        factor = mul(vectors, sqrt(_middle(values)))
    n = typeof(mean).shape[-1]
    normals = _normal(key, shape=(*shape, n), dtype=dtype)
    out = einsum("...ij,...j->...i", factor, normals, _dot_general=product)
    mean, out = promoted(mean, out)
    return add(mean, out)


def _middle(x: Any) -> Any:
    """(..., n) as (..., 1, n)."""
    shape = typeof(x).shape
    last = len(shape) - 1
    return broadcast_in_dim(x, (*shape[:-1], 1, shape[-1]), (*range(last), last + 1))


def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Matrices of shape (*shape, n, m) with orthonormal columns (rows, if m > n), evenly
    distributed; unitary ones for a complex dtype.

    Method: the QR factors of normal numbers, signs fixed (Mezzadri, "How to generate random
    matrices from the classical compact groups", Notices of the AMS 54, 2007).

    `key`: of `random.key`; `shape`: a tuple of ints; `dtype`: a float dtype, float32 by default
    (float64 under x64).

    >>> q = random.orthogonal(random.key(0), 3)
    >>> jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5)
    Array(True, dtype=bool)
    """
    if out_sharding is not None:
        return lay_out(orthogonal(key, n, shape, dtype, m), "orthogonal", out_sharding)
    typed = consume("orthogonal", key)
    d = _normal_dtype(dtype)
    n = as_int(n, "n")
    m = n if m is None else as_int(m, "m")
    if n < 0 or m < 0:
        raise ValueError(f"orthogonal: negative dimensions are not allowed, got n={n} and m={m}")
    return _orthogonal(typed, n=n, m=m, shape=canonical_shape(shape), dtype=d)


def _qr_by_library(avals: Any, x: Any, **params: Any) -> Any:
    if typeof(x).dtype.itemsize < 4:  # LAPACK has no half precision
        return qr_p.bind(x, **params)
    packed, taus = geqrf_p.bind(x)
    rows = slice_in_dim(packed, 0, typeof(x).shape[-1], axis=-2)
    return householder_product_p.bind(packed, taus), rows


# The reduced factors of matrices with no more columns than rows. Of R what is read is there, its
# diagonal; below it there is something else.
_library_qr_p = as_compiled.compiled_as_jaxs(qr_p, _qr_by_library, stack_batch)


@jit
def qr(a: Any) -> Any:
    """Rounded as LAPACK's whatever the size, as JAX's are."""
    return _library_qr_p.bind(a, pivoting=False, full_matrices=False, use_magma=None)


@static_jit("n", "m", "shape", "dtype")
def _orthogonal(key: Any, n: int, m: int, shape: Any, dtype: Any) -> Any:
    size = (*shape, n, m) if n > m else (*shape, m, n)
    q, r = qr(_normal(key, shape=size, dtype=dtype))
    signs = sign(diagonal(r, 0, -2, -1))
    out = mul(q, _middle(signs))
    lead = len(shape)
    return transpose(out, (*range(lead), lead + 1, lead)) if m > n else out
