"""Products of BCOO arrays: with dense arrays, with each other, and of dense arrays at places."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import lax, numpy as jnp
from ....numpy.util import check_arraylike
from ..base import JAXSparse
from ..composed import SparseInfo, composed, info, numbers
from .dense import bcoo_extract_p
from .order import bcoo_sum_duplicates
from .shape import bcoo_broadcast_in_dim
from .storage import (
    all_sparse,
    batched,
    columns_of,
    is_bcoo,
    make,
    of_info,
    parts,
    places,
    scattered,
    stacked,
)

if TYPE_CHECKING:
    from .array import BCOO


def unlike_axes(name: str, left: Any, i: int, right: Any, j: int) -> TypeError:
    """What products say of axes of two sizes, in the words of dense arrays' products."""
    return TypeError(
        "dot_general requires contracting dimensions to have the same shape, got "
        f"({left[i]},) and ({right[j]},): {name} of shapes {left} and {right}"
    )


def check_sizes(name: str, left: Any, right: Any, dimension_numbers: Any) -> None:
    """TypeError unless axes that are multiplied have one size; `left`, `right`: shapes."""
    for axes in dimension_numbers:
        for i, j in zip(*axes, strict=True):
            if left[i] != right[j]:
                raise unlike_axes(name, left, i, right, j)


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a sparse with a dense array (dense result) or of two sparse ones (a
    sparse result). Axes are (batch, what is left of lhs, what is left of rhs).

    `dimension_numbers`: those of `lax.dot_general`.

    >>> from pullback.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[1., 0.], [2., 3.]]))
    >>> sparse.bcoo_dot_general(m, jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 5.], dtype=float32)
    """
    (lc, rc), (lb, rb) = dimension_numbers = numbers(dimension_numbers)
    left, right = is_bcoo(lhs), is_bcoo(rhs)
    check_sizes("bcoo_dot_general", lhs.shape, rhs.shape, dimension_numbers)
    wanted = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if left and right:
        return _product(lhs, rhs, dimension_numbers, wanted)
    if left:
        return _times_dense(lhs, rhs, dimension_numbers, wanted)
    if right:
        out = _times_dense(rhs, lhs, ((rc, lc), (rb, lb)), wanted)
        # The free axes of the sparse array came first.
        n_batch, n_sparse = len(lb), rhs.ndim - len(rb) - len(rc)
        last = tuple(range(n_batch, n_batch + n_sparse))
        first = tuple(range(n_batch + n_sparse, out.ndim))
        return out.transpose((*range(n_batch), *first, *last))
    return lax.dot_general(
        lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
    )


def _times_dense(sparse: BCOO, dense: Any, dimension_numbers: Any, wanted: Any) -> Any:
    return bcoo_dot_general_p.bind(
        *parts(sparse),
        jnp.asarray(dense),
        dimension_numbers=dimension_numbers,
        preferred_element_type=wanted,
        lhs_spinfo=info(sparse),
    )


def _dense_dot(
    lhs_data: Any,
    lhs_indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    out = _dense_sums(of_info(lhs_data, lhs_indices, lhs_spinfo), rhs, dimension_numbers)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _dense_sums(sparse: BCOO, dense: Any, dimension_numbers: Any) -> Any:
    """Each stored element times a slice of the dense array, added into the result."""
    flat = all_sparse(sparse)
    columns, data, shape = columns_of(flat.indices), flat.data, flat.shape
    return dense_sums(data, columns, shape, dense, dimension_numbers, sparse.indices_sorted)


def dense_sums(
    data: Any,
    columns: Sequence[Any],
    of_shape: Sequence[int],
    dense: Any,
    dimension_numbers: Any,
    in_order: bool,
) -> Any:
    """The same of elements (nse,) at places: their indices along each axis. `in_order`: the first
    of them do not decrease.
    """
    (sc, dc), (sb, db) = dimension_numbers
    free = [d for d in range(len(of_shape)) if d not in (*sc, *sb)]
    others = [d for d in range(dense.ndim) if d not in (*dc, *db)]
    dense = dense.transpose((*db, *dc, *others))
    read = tuple(columns[d] for d in (*sb, *sc))
    terms = dense.at[read].get(mode="fill", fill_value=0) if read else dense[None]
    dtype = jnp.result_type(data, dense)
    own = data.astype(dtype).reshape((-1,) + (1,) * len(others))
    terms = own * terms.astype(dtype)
    write = tuple(columns[d] for d in (*sb, *free))
    shape = (*(of_shape[d] for d in (*sb, *free)), *dense.shape[len(db) + len(dc) :])
    if not write:
        return terms.sum(0, dtype=dtype)
    return scattered(shape, write, terms, in_order and (*sb, *free) == (0,))


bcoo_dot_general_p = composed(
    "bcoo_dot_general", _dense_dot, ("dimension_numbers", "preferred_element_type", "lhs_spinfo")
)


def _product(a: BCOO, b: BCOO, dimension_numbers: Any, wanted: Any) -> BCOO:
    (lc, rc), (lb, rb) = dimension_numbers
    free_a = [n for d, n in enumerate(a.shape) if d not in (*lc, *lb)]
    free_b = [n for d, n in enumerate(b.shape) if d not in (*rc, *rb)]
    shape = (*(a.shape[d] for d in lb), *free_a, *free_b)
    data, indices = bcoo_spdot_general_p.bind(
        *parts(a),
        *parts(b),
        lhs_spinfo=info(a),
        rhs_spinfo=info(b),
        dimension_numbers=dimension_numbers,
        preferred_element_type=wanted,
    )
    return make(data, indices, shape)


def _sparse_dot(
    lhs_data: Any,
    lhs_indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo,
    dimension_numbers: Any,
    preferred_element_type: Any,
) -> tuple[Any, Any]:
    a, b = (
        of_info(lhs_data, lhs_indices, lhs_spinfo),
        of_info(rhs_data, rhs_indices, rhs_spinfo),
    )
    data, indices = parts(_pairs(a, b, dimension_numbers))
    return data if preferred_element_type is None else data.astype(preferred_element_type), indices


bcoo_spdot_general_p = composed(
    "bcoo_spdot_general",
    _sparse_dot,
    ("lhs_spinfo", "rhs_spinfo", "dimension_numbers", "preferred_element_type"),
    multiple_results=True,
)


def _batches_stay(a: BCOO, b: BCOO, dimension_numbers: Any) -> bool:
    """May batch axes remain such in the product? Those that are shared are, and those of b that are
    not do not come after sparse axes of a.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    if a.n_dense or b.n_dense:
        return False
    inside = all(d < a.n_batch for d in lb) and all(d < b.n_batch for d in rb)
    summed = all(d >= a.n_batch for d in lc) and all(d >= b.n_batch for d in rc)
    return inside and summed and (b.n_batch == len(rb) or a.n_sparse == len(lc))


def _pairs(a: BCOO, b: BCOO, dimension_numbers: Any) -> BCOO:
    """Every pair of stored elements, of nothing where their shared indices differ; each place is
    stored once, in order.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    free_a = [d for d in range(a.ndim) if d not in (*lc, *lb)]
    free_b = [d for d in range(b.ndim) if d not in (*rc, *rb)]
    shape = (*(a.shape[d] for d in (*lb, *free_a)), *(b.shape[d] for d in free_b))
    if not _batches_stay(a, b, dimension_numbers):
        a, b = all_sparse(a), all_sparse(b)
    n, m = a.n_batch, b.n_batch
    own_a, own_b = ([d for d in free_a if d < n], [d for d in free_b if d < m])
    lots = len(lb) if n else 0
    x, i = _in_lots(a, (*lb[:lots], *own_a), n, len(own_b))
    y, j = _in_lots(b, (*rb[:lots], *own_b), lots, len(own_a))
    i, j = i[..., :, None, :], j[..., None, :, :]
    sizes = [x.shape[k:] for x, k in ((a, n), (b, m))]
    inside = (i < jnp.array(sizes[0], i.dtype)).all(-1) & (j < jnp.array(sizes[1], j.dtype)).all(-1)
    ok = inside
    for p, q in zip((*lc, *lb), (*rc, *rb), strict=True):
        if p >= n:
            ok = ok & (i[..., p - n] == j[..., q - m])
    dtype = jnp.result_type(x, y)
    data = jnp.where(ok, x.astype(dtype)[..., :, None] * y.astype(dtype)[..., None, :], 0)
    columns = [i[..., d - n] for d in (*lb, *free_a) if d >= n]
    columns += [j[..., d - m] for d in free_b if d >= m]
    pad = jnp.array(shape[len(shape) - len(columns) :], i.dtype)
    indices = jnp.where(inside[..., None], stacked(columns, i, ok.shape), pad)
    lead, count = ok.shape[:-2], ok.shape[-2] * ok.shape[-1]
    every = make(data.reshape(*lead, count), indices.reshape(*lead, count, len(columns)), shape)
    once = bcoo_sum_duplicates(every, min(count, places(every)))
    return make(*parts(once), shape)


def _in_lots(x: BCOO, order: Sequence[int], at: int, count: int) -> tuple[Any, Any]:
    """The parts with batch axes in this order, and `count` axes of size 1 put before axis `at`."""
    ones = tuple(range(at, at + count))
    last = (x.n_batch, x.n_batch + 1)
    data, indices = x.data.transpose((*order, last[0])), x.indices.transpose((*order, *last))
    return jnp.expand_dims(data, ones), jnp.expand_dims(indices, ones)


def _to_front(x: Any, axes: Sequence[int]) -> Any:
    return x.transpose((*axes, *(d for d in range(x.ndim) if d not in axes)))


def _without(axes: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    """What axes are called once others are gone."""
    return tuple(d - sum(g < d for g in gone) for d in axes)


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """The elements at `indices`, (*batch, nse, n), of the product of two dense arrays: only they
    are computed, unless there are more axes of a batch than the product has.

    `dimension_numbers`: those of `lax.dot_general`.

    >>> from pullback.experimental import sparse
    >>> a = jnp.array([[1., 2.], [3., 4.]])
    >>> where = jnp.array([[0, 1], [1, 0]])
    >>> sparse.bcoo_dot_general_sampled(a, a, where, dimension_numbers=(((1,), (0,)), ((), ())))
    Array([10., 15.], dtype=float32)
    """
    A, B, indices = map(jnp.asarray, (A, B, indices))
    dimension_numbers = numbers(dimension_numbers)
    if indices.ndim - 2 > len(dimension_numbers[1][0]):
        product = lax.dot_general(A, B, dimension_numbers=dimension_numbers)
        return bcoo_extract_p.bind(indices, product, assume_unique=True)
    return bcoo_dot_general_sampled_p.bind(A, B, indices, dimension_numbers=dimension_numbers)


def _sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    lots = indices.ndim - 2
    if lots:
        A, B = (_to_front(x, axes[:lots]) for x, axes in ((A, lb), (B, rb)))
        rest = tuple(
            tuple(_without(axes, gone[:lots]) for axes, gone in pair)
            for pair in (((lc, lb), (rc, rb)), ((lb[lots:], lb), (rb[lots:], rb)))
        )
        one = functools.partial(_sampled, dimension_numbers=rest)
        return batched(one, lots)(A, B, indices)
    free_a = [d for d in range(A.ndim) if d not in (*lc, *lb)]
    free_b = [d for d in range(B.ndim) if d not in (*rc, *rb)]
    columns = columns_of(indices)
    n_b, n_a = len(lb), len(free_a)
    at_a = columns[: n_b + n_a]
    at_b = (*columns[:n_b], *columns[n_b + n_a :])
    rows = A.transpose((*lb, *free_a, *lc)).at[at_a].get(mode="fill", fill_value=0)
    others = B.transpose((*rb, *free_b, *rc)).at[at_b].get(mode="fill", fill_value=0)
    if len(columns) == n_b + n_a + B.ndim - len(rc) - n_b:
        return (rows * others).sum(axis=tuple(range(1, rows.ndim)))
    # Fewer columns than axes: the last axes are computed whole.
    summed = tuple(tuple(range(x.ndim - len(lc), x.ndim)) for x in (rows, others))
    return lax.dot_general(rows, others, (summed, ((0,), (0,)) if at_b else ((), ())))


bcoo_dot_general_sampled_p = composed("bcoo_dot_general_sampled", _sampled, ("dimension_numbers",))


def _with_batch(x: Any, lead: tuple[int, ...]) -> Any:
    """A stack of matrices, repeated so that its other axes are these."""
    shape = (*lead, *x.shape[-2:])
    if not is_bcoo(x):
        return jnp.broadcast_to(x, shape)
    if x.shape == shape:
        return x
    to = tuple(range(len(shape) - x.ndim, len(shape)))
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=to)


def matmul(lhs: Any, rhs: Any) -> Any:
    """lhs @ rhs, with the axes of `jnp.matmul`."""
    for x in (lhs, rhs):
        if isinstance(x, JAXSparse) and not is_bcoo(x):
            raise TypeError(
                f"matmul of a BCOO and a {type(x).__name__}. Fix: sparse.BCOO.fromdense, or "
                "to_bcoo() of a BCSR."
            )
        if not is_bcoo(x):
            check_arraylike("matmul", x)
    lhs = lhs if is_bcoo(lhs) else jnp.asarray(lhs)
    rhs = rhs if is_bcoo(rhs) else jnp.asarray(rhs)
    if not lhs.ndim or not rhs.ndim:
        raise ValueError("matmul input operand has no axes; use * for products with numbers")
    rc = max(rhs.ndim - 2, 0)
    n_l, n_r = max(lhs.ndim - 2, 0), max(rhs.ndim - 2, 0)
    if lhs.shape[-1] != rhs.shape[rc]:
        raise unlike_axes("matmul", lhs.shape, -1, rhs.shape, rc)
    if n_l and n_r:
        lead = jnp.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
        lhs, rhs = _with_batch(lhs, lead), _with_batch(rhs, lead)
        rc, batch = len(lead), tuple(range(len(lead)))
    else:
        batch = ()
    numbers = (((lhs.ndim - 1,), (rc,)), (batch, batch))
    dtype = jnp.result_type(lhs.dtype, rhs.dtype)
    out = bcoo_dot_general(lhs, rhs, dimension_numbers=numbers, preferred_element_type=dtype)
    if batch or not n_r:
        return out
    # The batch axes of rhs, which came after lhs's, go first.
    own = lhs.ndim - 1
    order = (*range(own, own + n_r), *range(own), *range(own + n_r, out.ndim))
    return out.transpose(order)
