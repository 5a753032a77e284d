"""Least squares, and what singular values tell: rank, and inverses of any matrix."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import dtypes
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...core.avals import typeof
from .. import choosing, creation, reductions, scalar_types
from ..util import check_arraylike, promotes_freely, shown_as
from .common import adjoint, inexact, mm
from .factor import svd
from .norms import norm


@functools.partial(jit, static_argnames=("hermitian",))
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values exceed `rtol`; by default max(m, n) * eps times the largest one.

    As in JAX, and unlike in NumPy, `rtol` is not multiplied by the largest singular value; `tol`
    means the same.

    >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_rank", M)
    M = creation.asarray(M)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    shape = typeof(M).shape
    if len(shape) < 2:
        return (M != 0).any().astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    given = tol if rtol is None else rtol
    if given is None:
        if 0 in shape[-2:]:
            return creation.zeros(shape[:-2], dtypes.default_int())
        largest = s.max(axis=-1) * max(shape[-2:])
        limit = (largest * scalar_types.finfo(typeof(s).dtype).eps)[..., None]
    else:
        limit = creation.asarray(given)[..., None]
    return reductions.sum(s > limit, axis=-1)


@custom_jvp
@jit
@shown_as("_pinv")
@promotes_freely
def _pinv_fixed(a: Any, rtol: Any) -> Any:
    u, s, vh = svd(a, full_matrices=False)
    limit = creation.asarray(rtol)[..., None] * s[..., 0:1]
    s = choosing.where(s > limit, s, np.inf).astype(typeof(u).dtype)
    return mm(adjoint(vh), adjoint(u) / s[..., None])


@_pinv_fixed.defjvp
@promotes_freely
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    # Golub and Pereyra (1973), equation 4.12.
    a, rtol = primals
    da = tangents[0]
    p = _pinv_fixed(a, rtol)
    left = _mm3(p, adjoint(p), adjoint(da))
    dp = left - _mm3(left, a, p) - _mm3(p, da, p)
    right = _mm3(adjoint(da), adjoint(p), p)
    dp = dp + right - _mm3(p, a, right)
    return p, dp


def _mm3(x: Any, y: Any, z: Any) -> Any:
    """x y z, by way of the smaller product: those of long and thin matrices are their short sides
    squared, or their long ones.
    """
    (i, j), (k, n) = typeof(x).shape[-2:], typeof(z).shape[-2:]
    if i * k * (j + n) <= j * n * (k + i):
        return mm(mm(x, y), z)
    return mm(x, mm(y, z))


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest (by default 10
    max(m, n) eps) count as 0.

    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    (a,) = inexact("pinv", a)
    shape = typeof(a).shape
    if len(shape) < 2:
        raise ValueError(
            f"pinv needs matrices, got an array of shape {shape} (a: {typeof(a).str_short()})"
        )
    if a.size == 0:
        return creation.zeros((*shape[:-2], shape[-1], shape[-2]), typeof(a).dtype)
    if rtol is None:
        rtol = 10.0 * max(shape[-2:]) * float(scalar_types.finfo(typeof(a).dtype).eps)
    real = np.zeros((), typeof(a).dtype).real.dtype
    if hermitian:
        u, s, vh = svd(a, full_matrices=False, hermitian=True)
        limit = creation.asarray(rtol, real)[..., None] * s[..., 0:1]
        s = choosing.where(s > limit, s, np.inf).astype(typeof(u).dtype)
        return mm(adjoint(vh), adjoint(u) / s[..., None])
    return _pinv_fixed(a, creation.asarray(rtol, real))


def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """(x, squared residuals, rank, singular values) with x the least solution that minimises |a x -
    b|.

    With `numpy_resid`, the residuals are empty where NumPy leaves them out. Raises ValueError for
    shapes that do not fit.

    >>> a = jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> x, residuals, rank, s = jnp.linalg.lstsq(a, jnp.array([1.0, 3.0, 5.0]))
    >>> x.round(3), rank
    (Array([1., 2.], dtype=float32), Array(2, dtype=int32))
    """
    check_arraylike("jnp.linalg.lstsq", a, b)
    x, residuals, rank, s = (
        _least_squares(a, b, rcond, numpy_resid) if numpy_resid else _lstsq(a, b, rcond)
    )
    return x, residuals, rank, s


def _least_squares(a: Any, b: Any, rcond: Any, numpy_resid: bool) -> Any:
    a, b = inexact("lstsq", a, b)
    if typeof(a).ndim and typeof(b).ndim and typeof(a).shape[0] != typeof(b).shape[0]:
        raise ValueError(
            "Leading dimensions of input arrays must match: lstsq got a of "
            f"{typeof(a).str_short()} and b of {typeof(b).str_short()}"
        )
    if typeof(a).ndim != 2:
        raise TypeError(
            f"{typeof(a).ndim}-dimensional array given. Array must be two-dimensional: lstsq got a "
            f"of {typeof(a).str_short()}"
        )
    if typeof(b).ndim not in (1, 2):
        raise TypeError(
            f"{typeof(b).ndim}-dimensional array given. Array must be one or two-dimensional: "
            f"lstsq got b of {typeof(b).str_short()}"
        )
    m, n = typeof(a).shape
    vector = typeof(b).ndim == 1
    b = b[:, None] if vector else b
    dtype = typeof(a).dtype
    if typeof(a).size == 0:
        s, rank, x = (
            creation.empty(0, dtype),
            creation.array(0, np.int32),
            creation.zeros((n, typeof(b).shape[-1]), dtype),
        )
    else:
        rcond = (
            (max(m, n) * float(scalar_types.finfo(dtype).eps))
            if rcond is None
            else choosing.where(creation.asarray(rcond) < 0, scalar_types.finfo(dtype).eps, rcond)
        )
        u, s, vt = svd(a, full_matrices=False)
        mask = (s > 0) & (s >= creation.asarray(rcond, typeof(s).dtype) * s[0])
        rank = mask.sum()
        safe = choosing.where(mask, s, 1).astype(dtype)
        s_inv = choosing.where(mask, 1 / safe, 0)[:, None]
        x = mm(adjoint(vt), s_inv * mm(adjoint(u), b))
    if numpy_resid and (int(rank) < n or m <= n):
        resid = creation.asarray([])
    else:
        fit = b - mm(a, x)
        resid = norm(fit, axis=0) ** 2
    return (x.ravel() if vector else x), resid, rank, s


@jit
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    return _least_squares(a, b, rcond, False)
