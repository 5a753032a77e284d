"""Determinants, their logarithms, and derivatives of both."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes, lax
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...core.avals import typeof
from ...primitives import linalg as lax_linalg
from .. import (
    arithmetic,
    choosing,
    comparison,
    complex_parts,
    creation,
    elementary,
    products,
    ranges,
    reductions,
)
from ..util import promotes_freely
from .common import diagonal_of, inexact, mm, square_size, transposed
from .systems import _solve, inv


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


@promotes_freely
def _parity(pivots: Any) -> Any:
    """How many rows LAPACK's pivots exchange."""
    n = typeof(pivots).shape[-1]
    return reductions.count_nonzero(pivots != ranges.arange(n, dtype=typeof(pivots).dtype), axis=-1)


def _det_small(a: Any) -> Any:
    n = typeof(a).shape[-1]
    if n == 0:
        return creation.ones(typeof(a).shape[:-2], typeof(a).dtype)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    return (
        a[..., 0, 0] * a[..., 1, 1] * a[..., 2, 2]
        + a[..., 0, 1] * a[..., 1, 2] * a[..., 2, 0]
        + a[..., 0, 2] * a[..., 1, 0] * a[..., 2, 1]
        - a[..., 0, 2] * a[..., 1, 1] * a[..., 2, 0]
        - a[..., 0, 0] * a[..., 1, 2] * a[..., 2, 1]
        - a[..., 0, 1] * a[..., 1, 0] * a[..., 2, 2]
    )


@custom_jvp
def _det(a: Any) -> Any:
    lu, pivots, _ = lax_linalg.lu(a)
    diagonal = diagonal_of(lu)
    sign = choosing.where(_parity(pivots) % 2 == 1, -1, 1).astype(typeof(a).dtype)
    product = reductions.prod(diagonal, axis=-1)
    # A product of many factors may leave the range of the dtype on the way to a result inside it:
    # then the size is found through logarithms, whose sum is less exact.
    size = arithmetic.abs(diagonal)
    inside = (arithmetic.abs(product) > 0) & comparison.isfinite(product)
    units = diagonal / choosing.where(size == 0, 1, size).astype(typeof(a).dtype)
    by_logs = elementary.exp(reductions.sum(elementary.log(size), axis=-1)).astype(typeof(a).dtype)
    by_logs = by_logs * reductions.prod(units, axis=-1)
    singular = reductions.any(diagonal == 0, axis=-1)
    other = choosing.where(singular, 0, by_logs)
    return sign * choosing.where(inside, product, other)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    # The derivative is the cofactor matrix, which is finite where the inverse is not: there it is
    # made of the singular vectors, U diag(products of the other singular values) V^H, up to the
    # determinants of U and V.
    (a,), (da,) = primals, tangents
    out = _det(a)
    n = typeof(a).shape[-1]
    regular = (out != 0)[..., None, None]
    safe = choosing.where(regular, a, ranges.eye(n, dtype=typeof(a).dtype))
    cofactors = transposed(inv(safe)) * out[..., None, None]
    singular = _cofactors_by_svd(lax.stop_gradient(a))
    cofactors = choosing.where(regular, cofactors, singular)
    return out, reductions.sum(cofactors * da, axis=(-2, -1))


def _cofactors_by_svd(a: Any) -> Any:
    u, s, vh = lax_linalg.svd(a, full_matrices=False)
    n = typeof(a).shape[-1]
    others = choosing.where(ranges.eye(n, dtype=bool), 1, s[..., None, :])
    products = reductions.prod(others, axis=-1).astype(typeof(a).dtype)
    sign = _det(u) * _det(vh)
    return sign[..., None, None] * mm(
        complex_parts.conj(u) * products[..., None, :], complex_parts.conj(vh)
    )


@jit
def det(a: Any) -> Any:
    """The determinant.

    Shape (..., n, n) gives (...); integers become floats. ValueError unless the matrices are
    square.

    `a`: (..., n, n).

    >>> pb.numpy.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (a,) = inexact("det", a)
    n = square_size("_det()", a)
    return _det_small(a) if n <= 3 else _det(a)


@functools.partial(jit, static_argnames=("method",))
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """(sign, log of the absolute value) of the determinant, which itself may overflow; `method` is
    "lu" or "qr".

    Raises ValueError unless the matrices are square, or for another method.

    >>> jnp.linalg.slogdet(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(1.7917595, dtype=float32))
    """
    (a,) = inexact("slogdet", a)
    square_size("slogdet()", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    return SlogdetResult(*(_slogdet_qr(a) if method == "qr" else _slogdet(a)))


@custom_jvp
def _slogdet(a: Any) -> Any:
    lu, pivots, _ = lax_linalg.lu(a)
    diagonal = diagonal_of(lu)
    odd = _parity(pivots)
    if not dtypes.is_complex(typeof(a).dtype):
        odd = odd + reductions.count_nonzero(diagonal < 0, axis=-1)
        sign = creation.ones((), typeof(a).dtype)
    else:
        sign = reductions.prod(diagonal / arithmetic.abs(diagonal).astype(typeof(a).dtype), axis=-1)
    sign = sign * (1 - 2 * (odd % 2)).astype(typeof(a).dtype)
    zero = reductions.any(diagonal == 0, axis=-1)
    logdet = reductions.sum(elementary.log(arithmetic.abs(diagonal)), axis=-1)
    return choosing.where(zero, creation.zeros((), typeof(a).dtype), sign), choosing.where(
        zero, -np.inf, logdet
    )


def _slogdet_tangent(a: Any, da: Any, sign: Any, logdet: Any) -> Any:
    change = products.trace(_solve(a, da), axis1=-1, axis2=-2)
    if dtypes.is_complex(typeof(a).dtype):
        turn = lax.complex(creation.zeros_like(change.imag), change.imag)
        return (sign, logdet), (turn * sign, change.real)
    return (sign, logdet), (creation.zeros_like(sign), change)


@custom_jvp
def _slogdet_qr(a: Any) -> Any:
    # Householder reflections have determinant -1 (those that reflect at all); R carries the rest.
    reflectors, taus = lax_linalg.geqrf(a)
    diagonal = diagonal_of(reflectors)
    taus = taus[..., : typeof(a).shape[-1]]
    norms = (
        reductions.sum(arithmetic.abs(ranges.tril(reflectors, -1)) ** 2, axis=-2)[
            ..., : typeof(taus).shape[-1]
        ]
        + 1
    )
    each = choosing.where(taus == 0, 1, 1 - taus * norms.astype(typeof(taus).dtype))
    phase = (
        diagonal / arithmetic.abs(diagonal)
        if dtypes.is_complex(typeof(a).dtype)
        else arithmetic.sign(diagonal)
    )
    sign = reductions.prod(phase, axis=-1) * reductions.prod(each / arithmetic.abs(each), axis=-1)
    return sign.astype(typeof(a).dtype), reductions.sum(
        elementary.log(arithmetic.abs(diagonal)), axis=-1
    )


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    return _slogdet_tangent(primals[0], tangents[0], *_slogdet(primals[0]))


@_slogdet_qr.defjvp
def _slogdet_qr_jvp(primals: Any, tangents: Any) -> Any:
    return _slogdet_tangent(primals[0], tangents[0], *_slogdet_qr(primals[0]))
