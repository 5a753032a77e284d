"""Systems of linear equations and inverses: of square matrices, and of tensors as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...api.jit import jit
from ...core.avals import typeof
from ...lax.jitted import lu_solve
from ...primitives import linalg as lax_linalg
from ...primitives.common import as_int
from ...primitives.manual import vary_alike
from .. import creation, manipulation, ranges
from ..core_axes import check_core
from ..util import canonical_axes, check_arraylike
from .common import inexact, mm


def _solve(a: Any, b: Any) -> Any:
    """The x with a x = b, for stacks `b` of matrices; its derivatives are systems with the same
    factors.
    """
    batch = manipulation.broadcast_shapes(typeof(a).shape[:-2], typeof(b).shape[:-2])
    a = manipulation.broadcast_to(a, (*batch, *typeof(a).shape[-2:]))
    b = manipulation.broadcast_to(b, (*batch, *typeof(b).shape[-2:]))
    a, b = vary_alike(a, b)
    # The factors count as constants: how x depends on `a` follows from the equation.
    lu, _, permutation = lax_linalg.lu(lax.stop_gradient(a))
    return lax.custom_linear_solve(
        lambda x: mm(a, x),
        b,
        solve=lambda _, y: lu_solve(lu, permutation, y, 0),
        transpose_solve=lambda _, y: lu_solve(lu, permutation, y, 1),
    )


@jit
def solve(a: Any, b: Any) -> Any:
    """The x with a x = b, for `b` a vector or a stack of matrices.

    Shapes (..., n, n) and (..., n, k), or (n,), give (..., n, k), or (..., n). ValueError unless
    the matrices are square and sizes fit; inf or NaN for a singular matrix.

    >>> pb.numpy.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([1., 1.]))
    Array([0.5 , 0.25], dtype=float32)

    Raises ValueError for shapes that do not fit. A singular matrix gives inf or NaN.
    """
    a, b = inexact("solve", a, b)
    if typeof(a).ndim < 2:
        raise ValueError(
            "left hand array must be at least two dimensional: solve got a of shape "
            f"{typeof(a).shape}"
        )
    shape, n = typeof(b).shape, typeof(a).shape[-1]
    if len(shape) == 1:
        check_core("solve", "(m,m),(m)->(m)", a, b)
        return _solve(a, b[:, None])[..., 0]
    if len(shape) == typeof(a).ndim - 1 and shape[-1] == n and shape[-2] != n:
        raise ValueError(
            f"Invalid shapes for solve: {typeof(a).shape}, {shape}. A stack of vectors must be "
            "given as solve(a, b[..., None]).squeeze(-1)."
        )
    check_core("solve", "(m,m),(m,n)->(m,n)", a, b)
    return _solve(a, b)


@jit
def inv(a: Any) -> Any:
    """The inverse; inf or NaN for a singular matrix.

    Shape (..., n, n) stays; integers become floats. ValueError unless the matrices are square.

    >>> pb.numpy.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)

    Raises ValueError unless the matrices are square.
    """
    (a,) = inexact("inv", a)
    shape = typeof(a).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Argument to inv must have shape [..., n, n], got {shape}. (a: "
            f"{typeof(a).str_short()})"
        )
    return solve(a, manipulation.broadcast_to(ranges.eye(shape[-1], dtype=typeof(a).dtype), shape))


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of the map that tensordot(a, x, axes=x.ndim) is, the first `ind` axes of `a`
    being its result.

    Raises ValueError unless the first `ind` sizes and the others have one product.

    >>> a = jnp.eye(6).reshape(2, 3, 6)
    >>> jnp.linalg.tensorinv(a).shape
    (6, 2, 3)
    """
    check_arraylike("jnp.linalg.tensorinv", a)
    arr = creation.asarray(a)
    ind = as_int(ind, "ind")
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    shape = typeof(arr).shape
    rows, columns = shape[:ind], shape[ind:]
    n, m = (int(np.prod(s, dtype=np.int64)) for s in (rows, columns))
    if n != m:
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals "
            f"that of the remaining dimensions. got arr.shape={shape} with ind={ind}."
        )
    return manipulation.reshape(inv(manipulation.reshape(arr, (n, m))), (*columns, *rows))


def tensorsolve(a: Any, b: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of `a` are moved to its end first, in the
    order that they have in `a`.

    >>> a = 2.0 * jnp.eye(6).reshape(2, 3, 6)
    >>> jnp.linalg.tensorsolve(a, jnp.ones((2, 3)))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    check_arraylike("jnp.linalg.tensorsolve", a, b)
    a, b = creation.asarray(a), creation.asarray(b)
    if axes is not None:  # in the order that they have in `a`, however they are listed
        ndim = typeof(a).ndim
        axes = tuple(sorted(canonical_axes(axes, ndim)))
        a = manipulation.moveaxis(a, axes, tuple(range(ndim - len(axes), ndim)))
    out = typeof(a).shape[typeof(b).ndim :]
    if typeof(a).shape[: typeof(b).ndim] != typeof(b).shape:
        raise ValueError(
            "After moving axes to end, leading shape of a must match shape of b. got "
            f"a.shape={typeof(a).shape}, b.shape={typeof(b).shape}"
        )
    n = int(np.prod(typeof(b).shape, dtype=np.int64))
    if n != int(np.prod(out, dtype=np.int64)):
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={typeof(a).shape}, b.ndim={typeof(b).ndim}."
        )
    return manipulation.reshape(solve(manipulation.reshape(a, (n, n)), manipulation.ravel(b)), out)
