"""Products: dot, matmul, tensordot, outer, inner, kron, cross, vecdot; diagonals and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.placement import freely, lay_out
from ..core.avals import typeof
from ..dtypes import default_int
from ..primitives.common import as_array, as_int
from ..primitives.convert import convert_weak
from . import indexing, reductions
from .core_axes import check_core
from .manipulation import moveaxis, ravel
from .selecting import select_where
from .util import (
    canonical_axis,
    check_arraylike,
    ndim_of,
    promote_args,
    promote_dtypes,
    refuse_out,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


def _operands(name: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any, bool]:
    """(a, b, dtype of the result, its weakness). The operands keep their own dtypes: a product
    converts what it reads.
    """
    check_arraylike(name, a, b)
    a, b = unwrap(a), unwrap(b)
    x, y = as_array(a), as_array(b)
    if preferred is not None:
        return x, y, user_dtype(preferred, name), False
    d, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
    return x, y, d, weak


def _finish(out: Any, weak: bool) -> Any:
    return convert_weak(out, typeof(out).dtype, True) if weak and not typeof(out).weak_type else out


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum over the last axis of `a` and the second last of `b` (the only one of a vector); a
    scalar multiplies.

    `precision`: of the products; `preferred_element_type`: the dtype that they are summed in,
    and of the result; `out_sharding`: the sharding of the result.

    >>> jnp.dot(jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array(11., dtype=float32)
    """
    a, b, d, weak = _operands("dot", a, b, preferred_element_type)
    na, nb = ndim_of(a), ndim_of(b)
    contract: tuple[Any, Any] = ((), ())
    if na and nb:
        contract = ((na - 1,), (0,) if nb == 1 else (nb - 2,))
    out = lax.dot_general(
        a, b, (contract, ((), ())), precision=precision, preferred_element_type=d,
        out_sharding=out_sharding,
    )  # fmt: skip
    return _finish(out, weak)


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The matrix product over the last two axes; the others broadcast. Vectors act as a row on the
    left, a column on the right.

    The dtype is the promoted one, or `preferred_element_type`. Raises TypeError or ValueError if
    the shapes do not fit.

    `b`: an array too. `precision`: of the products; `out_sharding`: the sharding of the
    result.

    >>> jnp.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    if out_sharding is not None and (ndim_of(b) != 2 or ndim_of(a) < 2):
        a, b = freely(out_sharding, a, b)
        out = matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
        return lay_out(out, "dot_general", out_sharding, follows=True)
    check_arraylike("matmul", a, b)
    for k, x in enumerate((a, b)):
        if ndim_of(x) < 1:
            raise ValueError(
                f"matmul input operand {k} must have ndim at least 1, but it has ndim {ndim_of(x)}"
            )
    a, b, d, weak = _operands("matmul", a, b, preferred_element_type)
    na, nb = ndim_of(a), ndim_of(b)
    if nb == 2 and na > 1:  # nothing broadcasts, and every axis is where it belongs
        plain = (((na - 1,), (0,)), ((), ()))
        out = lax.dot_general(
            a, b, plain, precision=precision, preferred_element_type=d, out_sharding=out_sharding
        )
        return _finish(out, weak)
    batch_a, batch_b = shape_of(a)[:-2], shape_of(b)[:-2]
    n = max(len(batch_a), len(batch_b))
    batch_a, batch_b = (1,) * (n - len(batch_a)) + batch_a, (1,) * (n - len(batch_b)) + batch_b
    lax.broadcast_shapes(batch_a, batch_b)
    # An axis of size 1 on one side only is no batch axis: it is squeezed, and the other side's
    # stays free.
    a_drop, b_drop, a_batch, b_batch, places = [], [], [], [], []
    ka = kb = 0
    for j, (p, q) in enumerate(zip(batch_a, batch_b, strict=True)):
        in_a, in_b = j >= n - (na - 2), j >= n - (nb - 2)
        if in_a and in_b and (p is q or p == q):
            a_batch.append(ka)
            b_batch.append(kb)
            places.append(("batch", j))
        elif in_b and (not in_a or (type(p) is int and p == 1)):
            if in_a:
                a_drop.append(j - (n - (na - 2)))
            places.append(("b", j))
        else:
            if in_b:
                b_drop.append(j - (n - (nb - 2)))
            places.append(("a", j))
        ka += in_a and not (in_b and type(p) is int and p == 1 and not (p is q or p == q))
        kb += in_b and not (in_a and type(q) is int and q == 1 and not (p is q or p == q))
    a = lax.squeeze(a, tuple(a_drop)) if a_drop else a
    b = lax.squeeze(b, tuple(b_drop)) if b_drop else b
    na, nb = ndim_of(a), ndim_of(b)
    contract = ((na - 1,), (0,) if nb == 1 else (nb - 2,))
    out = lax.dot_general(
        a,
        b,
        (contract, (tuple(a_batch), tuple(b_batch))),
        precision=precision,
        preferred_element_type=d,
    )
    # dot_general gives (batch, rest of a, rest of b): put each axis where it belongs.
    kinds = [j for kind, j in places if kind == "batch"]
    rest_a = [j for kind, j in places if kind == "a"] + ([n] if na > 1 else [])
    rest_b = [j for kind, j in places if kind == "b"] + ([n + 1] if nb > 1 else [])
    order = kinds + rest_a + rest_b
    if order != sorted(order):
        out = lax.transpose(out, tuple(int(k) for k in np.argsort(order)))
    return _finish(out, weak)


def _contracted(axes: Any, a: Any, b: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    na, nb = ndim_of(a), ndim_of(b)
    if type(axes) is int:  # as in JAX neither a bool nor an integer of NumPy
        k = axes
        if k > min(na, nb):
            raise TypeError(
                f"Number of tensordot axes (axes {k}) exceeds input ranks ({shape_of(a)} and "
                f"{shape_of(b)})"
            )
        return tuple(range(na - k, na)), tuple(range(k))
    if isinstance(axes, list | tuple) and len(axes) == 2:
        first, second = axes
        if isinstance(first, int) and isinstance(second, int):
            first, second = (first,), (second,)
        if isinstance(first, list | tuple) and isinstance(second, list | tuple):
            if len(first) != len(second):
                raise TypeError(
                    f"tensordot requires axes lists to have equal length, got {first} and {second}."
                )
            return tuple(canonical_axis(k, na) for k in first), tuple(
                canonical_axis(k, nb) for k in second
            )
        raise TypeError(
            "tensordot requires both axes lists to be either ints, tuples or lists, got "
            f"{first} and {second}"
        )
    raise TypeError(
        "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of "
        f"ints, got {axes!r}."
    )


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum over pairs of axes: so many last of `a` with first of `b`, or two lists of axes.

    Raises TypeError or ValueError if the sizes do not fit.

    `precision`: of the products; `preferred_element_type`: the dtype that they are summed in,
    and of the result; `out_sharding`: the sharding of the result.

    >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5)), axes=2).shape
    (2, 5)
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((5, 3)), axes=([1], [1])).shape
    (2, 5)
    """
    a, b, d, weak = _operands("tensordot", a, b, preferred_element_type)
    contract = _contracted(axes, a, b)
    out = lax.dot_general(
        a, b, (contract, ((), ())), precision=precision, preferred_element_type=d,
        out_sharding=out_sharding,
    )  # fmt: skip
    return _finish(out, weak)


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The inner product of the flattened arrays, the first conjugated.

    One number. TypeError if the numbers of elements differ.

    >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 1]))
    Array(3.+0.j, dtype=complex64)
    """
    check_arraylike("vdot", a, b)
    a, b = ravel(a), ravel(b)
    if dtypes.is_complex(typeof(a).dtype):
        a = lax.conj(a)
    return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The inner product along `axis`, the first conjugated; the other axes broadcast.

    >>> jnp.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    check_arraylike("vecdot", x1, x2)
    x1, x2 = as_array(unwrap(x1)), as_array(unwrap(x2))
    if not ndim_of(x1) or not ndim_of(x2):
        raise ValueError(
            f"vecdot requires arrays with at least one axis, got shapes {shape_of(x1)} and "
            f"{shape_of(x2)}"
        )
    k1, k2 = canonical_axis(axis, ndim_of(x1)), canonical_axis(axis, ndim_of(x2))
    if shape_of(x1)[k1] != shape_of(x2)[k2]:
        raise ValueError(
            f"axes must match; got shapes {shape_of(x1)} and {shape_of(x2)} with axis={axis}"
        )
    x1, x2 = moveaxis(x1, k1, -1), moveaxis(x2, k2, -1)
    if dtypes.is_complex(typeof(x1).dtype):
        x1 = lax.conj(x1)
    out = (
        matmul(
            lax.expand_dims(x1, (ndim_of(x1) - 1,)),
            lax.expand_dims(x2, (ndim_of(x2),)),
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
        if shape_of(x1) != shape_of(x2)
        else None
    )
    if out is not None:
        return lax.squeeze(out, (ndim_of(out) - 2, ndim_of(out) - 1))
    a, b, d, weak = _operands("vecdot", x1, x2, preferred_element_type)
    n = ndim_of(a)
    batch = tuple(range(n - 1))
    return _finish(
        lax.dot_general(
            a,
            b,
            (((n - 1,), (n - 1,)), (batch, batch)),
            precision=precision,
            preferred_element_type=d,
        ),
        weak,
    )


@jit
def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices times vectors; the leading axes broadcast.

    Shapes (..., m, n) and (..., n) give (..., m).

    >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([[1, 0], [0, 1]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    check_arraylike("matvec", x1, x2)
    check_core("matvec", "(n,m),(m)->(n)", x1, x2)
    if ndim_of(x2) == 1:
        return matmul(x1, x2)
    out = matmul(x1, lax.expand_dims(x2, (ndim_of(x2),)))
    return lax.squeeze(out, (ndim_of(out) - 1,))


@jit
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Conjugated vectors times matrices; the leading axes broadcast.

    Shapes (..., m) and (..., m, n) give (..., n).

    >>> jnp.vecmat(jnp.array([1, 1]), jnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """
    check_arraylike("vecmat", x1, x2)
    check_core("vecmat", "(n),(n,m)->(m)", x1, x2)
    x1 = as_array(unwrap(x1))
    if dtypes.is_complex(typeof(x1).dtype):
        x1 = lax.conj(x1)
    if ndim_of(x1) == 1:
        return matmul(x1, x2)
    out = matmul(lax.expand_dims(x1, (ndim_of(x1) - 1,)), x2)
    return lax.squeeze(out, (ndim_of(out) - 2,))


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum over the last axis of both.

    The other axes of `a`, then those of `b`, stand in the result.

    >>> jnp.inner(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    check_arraylike("inner", a, b)
    if not ndim_of(a) or not ndim_of(b):
        a, b = promote_dtypes(a, b)
        both = lax.bitwise_and if dtypes.is_bool(typeof(a).dtype) else lax.mul
        out = both(a, b)
        if preferred_element_type is None:
            return out
        return to_type(out, user_dtype(preferred_element_type, "inner"), False)
    return tensordot(
        a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: Any, b: Any, out: None = None) -> Any:
    """Every product of an element of `a` and one of `b`, both flattened: a matrix.

    `out` must be None.

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([10, 20, 30]))
    Array([[10, 20, 30],
           [20, 40, 60]], dtype=int32)
    """
    refuse_out("outer", out)
    check_arraylike("outer", a, b)
    a, b = promote_dtypes(a, b)
    a, b = ravel(a), ravel(b)
    left, right = lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,))
    return lax.bitwise_and(left, right) if dtypes.is_bool(typeof(a).dtype) else lax.mul(left, right)


@jit
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: blocks of `b` scaled by each element of `a`.

    Axis by axis, the sizes are multiplied; the shorter shape gets axes of size 1 in front.

    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2, 3]))
    Array([ 1,  2,  3, 10, 20, 30], dtype=int32)
    """
    check_arraylike("kron", a, b)
    a, b = promote_dtypes(a, b)
    n = max(ndim_of(a), ndim_of(b))
    a, b = lax.broadcast_to_rank(a, n), lax.broadcast_to_rank(b, n)
    left = lax.expand_dims(a, tuple(range(1, 2 * n, 2)))
    right = lax.expand_dims(b, tuple(range(0, 2 * n, 2)))
    product = (
        lax.bitwise_and(left, right) if dtypes.is_bool(typeof(a).dtype) else lax.mul(left, right)
    )
    return lax.reshape(product, tuple(p * q for p, q in zip(shape_of(a), shape_of(b), strict=True)))


def _cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote_dtypes(a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    na, nb = shape_of(a)[-1], shape_of(b)[-1]
    if na not in (2, 3) or nb not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    parts_a = [indexing.take_index(a, (..., j)) for j in range(na)]
    parts_b = [indexing.take_index(b, (..., j)) for j in range(nb)]
    two_d = na == 2 and nb == 2

    def minus(x: Any, y: Any) -> Any:
        return lax.sub(*promote_args("cross", x, y))

    def times(x: Any, y: Any) -> Any:
        return lax.mul(*promote_args("cross", x, y))

    if two_d:
        return minus(times(parts_a[0], parts_b[1]), times(parts_a[1], parts_b[0]))
    parts_a += [lax.full_like(parts_a[0], 0)] * (3 - na)
    parts_b += [lax.full_like(parts_b[0], 0)] * (3 - nb)
    (a0, a1, a2), (b0, b1, b2) = parts_a, parts_b
    rows = [
        minus(times(a1, b2), times(a2, b1)),
        minus(times(a2, b0), times(a0, b2)),
        minus(times(a0, b1), times(a1, b0)),
    ]
    rows = [to_type(r, typeof(r).dtype, False) for r in rows]
    n = ndim_of(rows[0])
    k = canonical_axis(axisc, n + 1)
    return lax.concatenate([lax.expand_dims(r, (k,)) for r in rows], k)


_cross.__name__ = "cross"
_cross_jit = jit(_cross, static_argnames=("axisa", "axisb", "axisc", "axis"))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors with 2 or 3 components, along an axis.

    Two components count as three with the third 0; two such vectors give one number.

    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("cross", a, b)
    return _cross_jit(a, b, axisa=axisa, axisb=axisb, axisc=axisc, axis=axis)


# --- diagonals ---
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    if ndim_of(a) < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    moved = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = shape_of(moved)[-2:]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    most = np.iinfo(np.int32).max
    offset = max(-most, min(offset, most))  # what lies farther is as empty
    i, j = lax.iota(np.int32, n), lax.iota(np.int32, n)
    if offset:  # the second counts from there
        j = lax.add(np.int32(abs(offset)), j)
    if offset < 0:
        i, j = j, i
    out = indexing.take_index(moved, (..., i, j))
    if ndim_of(a) == 2 and rows == columns and not offset:  # as in JAX, these alone
        return to_type(out, typeof(out).dtype, False)
    return out


_diagonal.__name__ = "diagonal"
_diagonal_jit = jit(_diagonal, static_argnames=("offset", "axis1", "axis2"))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of matrices in two axes, as a last axis.

    The other axes stay in front. ValueError for fewer than two axes, TypeError for one named twice.

    >>> jnp.diagonal(jnp.array([[1, 2, 3], [4, 5, 6]]), offset=1)
    Array([2, 6], dtype=int32)
    """
    check_arraylike("diagonal", a)
    if (n := ndim_of(a)) > 1 and canonical_axis(axis1, n) == canonical_axis(axis2, n):
        raise TypeError(
            f"diagonal: axis1 and axis2 must be two axes, got {axis1} and {axis2} of shape "
            f"{shape_of(a)}"
        )
    return _diagonal_jit(
        a,
        **_nonzero(offset=offset),
        **({} if (axis1, axis2) == (0, 1) else {"axis1": axis1, "axis2": axis2}),
    )


def _nonzero(**kwargs: Any) -> dict[str, Any]:
    return {k: as_int(v, k) for k, v in kwargs.items() if v != 0}


def _diag(v: Any, k: int) -> Any:
    v = as_array(unwrap(v))
    if ndim_of(v) == 1:
        zero = to_type(0, typeof(v).dtype, typeof(v).weak_type)
        n = shape_of(v)[0] + abs(k)
        padded = lax.pad(v, zero, ((max(0, -k), max(0, k), 0),))  # row i holds its element
        rows, columns = (
            lax.broadcasted_iota(np.int32, (n, n), 0),
            lax.broadcasted_iota(np.int32, (n, n), 1),
        )
        mask = lax.eq(lax.add(rows, np.int32(k)), columns)
        return select_where(mask, lax.expand_dims(padded, (1,)), zero)
    if ndim_of(v) == 2:
        return diagonal(v, k)
    raise ValueError("diag input must be 1d or 2d")


_diag_jit = jit(_diag, static_argnames=("k",))


def diag(v: Any, k: int = 0) -> Any:
    """The matrix with `v` on its k-th diagonal; of a matrix, its k-th diagonal.

    Raises ValueError for more than two axes.

    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    >>> jnp.diag(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    check_arraylike("diag", v)
    return _diag_jit(v, k=as_int(k, "k"))


def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the flattened `v` on its k-th diagonal.

    A square matrix of size number of elements + |k|.

    >>> jnp.diagflat(jnp.array([1, 2]), k=1)
    Array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=int32)
    """
    check_arraylike("diagflat", v)
    flat = ravel(v)
    return diag(to_type(flat, typeof(flat).dtype, False), k)


def _trace(a: Any, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    if ndim_of(a) < 2:
        raise ValueError(
            f"trace requires an array of at least two dimensions, got shape {shape_of(a)}"
        )
    if canonical_axis(axis1, ndim_of(a)) == canonical_axis(axis2, ndim_of(a)):
        raise ValueError(f"axis1 and axis2 can not be same. axis1={axis1} and axis2={axis2}")
    moved = (
        moveaxis(a, (axis1, axis2), (-2, -1))
        if (axis1, axis2) != (0, 1) or ndim_of(a) > 2
        else as_array(a)
    )
    shape = shape_of(moved)[-2:]
    kind = default_int()
    rows, columns = lax.broadcasted_iota(kind, shape, 0), lax.broadcasted_iota(kind, shape, 1)
    mask = lax.eq(lax.add(rows, to_type(offset, kind, False)), columns)
    kept = select_where(mask, moved, lax.full_like(moved, 0))
    return reductions.sum_reduce(kept, (-2, -1), dtype)


_trace.__name__ = "trace"
_trace_jit = jit(_trace, static_argnames=("offset", "axis1", "axis2", "dtype"))


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    """The sum of the diagonal.

    The matrix lies in `axis1` and `axis2`; the other axes stay. `offset` as for `diagonal`;
    integers that are short are summed in the default width. ValueError for fewer than two axes.

    `a`: an array of two axes at least. `out` must be None.

    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    refuse_out("trace", out)
    check_arraylike("trace", a)
    return _trace_jit(a, offset=as_int(offset, "offset"), axis1=axis1, axis2=axis2, dtype=dtype)


__all__: Sequence[str] = [
    "cross",
    "diag",
    "diagflat",
    "diagonal",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]
