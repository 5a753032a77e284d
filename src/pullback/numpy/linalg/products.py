"""Powers and products of matrices, and what the array API names here of the main namespace."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from ...api.jit import jit
from ...core.avals import typeof
from .. import creation, manipulation, products, ranges
from ..einsums import einsum
from ..util import check_arraylike
from .common import transposed
from .systems import inv


@functools.partial(jit, static_argnames=("n",))
def matrix_power(a: Any, n: int) -> Any:
    """`a` to an integer power; a negative one inverts first.

    Raises TypeError unless `n` is an integer and `a` is square.

    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [1, 0]]), 10)
    Array([[89, 55],
           [55, 34]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_power", a)
    a = creation.asarray(a)
    shape = typeof(a).shape
    if len(shape) < 2:
        raise TypeError(
            f"{len(shape)}-dimensional array given. Array must be at least two-dimensional: "
            f"matrix_power got a of {typeof(a).str_short()}"
        )
    if shape[-2] != shape[-1]:
        raise TypeError(
            "Last 2 dimensions of the array must be square: matrix_power got a of "
            f"{typeof(a).str_short()}"
        )
    try:
        n = operator.index(n)
    except TypeError as err:
        raise TypeError(f"matrix_power: exponent must be an integer, got {n!r}") from err
    if n == 0:
        return manipulation.broadcast_to(ranges.eye(shape[-2], dtype=typeof(a).dtype), shape)
    if n < 0:
        a, n = inv(a), -n
    out, square = None, a
    while n:
        n, bit = divmod(n, 2)
        if bit:
            out = square if out is None else products.matmul(out, square)
        if n:
            square = products.matmul(square, square)
    return out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of several matrices (the first and the last may be vectors), in the order that
    costs least.

    Raises ValueError for fewer than two arrays or shapes that do not fit.

    >>> a, b, c = jnp.ones((10, 100)), jnp.ones((100, 5)), jnp.ones((5, 2))
    >>> jnp.linalg.multi_dot([a, b, c]).shape
    (10, 2)
    """
    check_arraylike("jnp.linalg.multi_dot", *arrays)
    arrs = [creation.asarray(a) for a in arrays]
    if len(arrs) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrs)}")
    for k, a in enumerate(arrs):
        allowed = (1, 2) if k in (0, len(arrs) - 1) else (2,)
        if typeof(a).ndim not in allowed:
            raise ValueError(
                "multi_dot: input arrays must all be two-dimensional, except for the first and "
                "last array which may be 1 or 2 dimensional. Got array shapes "
                f"{[typeof(x).shape for x in arrs]}"
            )
    if any(typeof(a).shape[-1] != typeof(b).shape[0] for a, b in itertools.pairwise(arrs)):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following "
            "array. "
            f"Got array shapes {[typeof(a).shape for a in arrs]}"
        )
    labels = [[k, k + 1] for k in range(len(arrs))]
    if typeof(arrs[0]).ndim == 1:
        labels[0] = labels[0][1:]
    if typeof(arrs[-1]).ndim == 1:
        labels[-1] = labels[-1][:1]
    result = ([0] if typeof(arrs[0]).ndim == 2 else []) + (
        [len(arrs)] if typeof(arrs[-1]).ndim == 2 else []
    )
    return einsum(
        *(v for pair in zip(arrs, labels, strict=True) for v in pair),
        result,
        optimize="auto",
        precision=precision,
    )


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of size 3 along `axis`.

    ValueError for another size; the other axes broadcast.

    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    x1, x2 = creation.asarray(x1), creation.asarray(x2)
    if typeof(x1).shape[axis] != 3 or typeof(x2).shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they have x1.shape[axis]={typeof(x1).shape[axis]} and "
            f"x2.shape[axis]={typeof(x2).shape[axis]}"
        )
    return products.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of an element of each of two vectors.

    Raises ValueError unless both have one axis.

    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    check_arraylike("jnp.linalg.outer", x1, x2)
    x1, x2 = creation.asarray(x1), creation.asarray(x2)
    if typeof(x1).ndim != 1 or typeof(x2).ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={typeof(x1).ndim} "
            f"x2.ndim={typeof(x2).ndim}"
        )
    return x1[:, None] * x2[None, :]


def matrix_transpose(x: Any, /) -> Any:
    """The matrices in the last two axes, transposed.

    Shape (..., m, n) gives (..., n, m). ValueError for fewer than two axes.

    >>> jnp.linalg.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matrix_transpose", x)
    x = creation.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose requires at least 2 dimensions; got ndim={x.ndim}")
    return transposed(x)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of conj(x1) * x2 along `axis`.

    The other axes broadcast. ValueError if the sizes along `axis` differ.

    >>> jnp.linalg.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    check_arraylike("jnp.linalg.vecdot", x1, x2)
    return products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The matrix product.

    As `jnp.matmul`.

    >>> jnp.linalg.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [1]]))
    Array([[3],
           [7]], dtype=int32)
    """
    check_arraylike("jnp.linalg.matmul", x1, x2)
    return products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over pairs of axes: the last of `x1` with the first of `x2`, or those
    given.

    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 5)), axes=1).shape
    (2, 5)
    """
    check_arraylike("jnp.linalg.tensordot", x1, x2)
    return products.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes.

    Shape (..., m, n) gives (..., min(m, n)) for the main diagonal. ValueError for fewer than two
    axes.

    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]), offset=1)
    Array([2], dtype=int32)
    """
    check_arraylike("jnp.linalg.diagonal", x)
    return products.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes.

    Shape (..., m, n) gives (...). ValueError for fewer than two axes.

    >>> jnp.linalg.trace(jnp.ones((5, 2, 2)))
    Array([2., 2., 2., 2., 2.], dtype=float32)
    """
    check_arraylike("jnp.linalg.trace", x)
    return products.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)
