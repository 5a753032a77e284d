"""Linear algebra on stacks of matrices: Cholesky and LU factors, and the systems that they solve.
The last two axes are the matrix.

The other factorisations (QR, eigenvectors, singular vectors, ...) are in `linalg_factor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.dims import min_dim
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from .builders import add_tangents, batch_size, full_batch
from .common import COMPLEX, FLOAT, as_array, check_dtype, check_same_dtypes, const, zero_of
from .contract import Precision, dot_general
from .convert import convert_element_type, convert_weak
from .elementwise import add, bitwise_or, conj, div, eq, ge, mul, neg, select_n
from .index import gather, scatter
from .index_checks import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .layout import (
    broadcast_in_dim,
    broadcast_to,
    broadcasted_iota,
    expand_dims,
    move_batch_front,
    reduce_sum,
    reshape,
    squeeze,
    transpose,
)
from .shape import pad, slice_in_dim

INEXACT = (FLOAT, COMPLEX)
_HIGHEST = (Precision.HIGHEST, Precision.HIGHEST)


# --- what the rules are written in ---
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    n = typeof(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    x = matrix_transpose(x)
    return conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def matmul(a: Any, b: Any) -> Any:
    """Products of stacks of matrices, in full precision."""
    n = typeof(a).ndim
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision=_HIGHEST)


def _rows_and_columns(shape: Sequence[Any], k: int) -> tuple[Any, Any]:
    core, kind = tuple(shape[-2:]), dtypes.default_int()
    return add(broadcasted_iota(kind, core, 0), kind.type(k)), broadcasted_iota(kind, core, 1)


def triangle(x: Any, k: int = 0, upper: bool = False) -> Any:
    """The entries on and below diagonal `k` (with `upper`, on and above it); zero elsewhere."""
    shape = typeof(x).shape
    rows, columns = _rows_and_columns(shape, k - 1 if upper else k)
    mask = ge(rows, columns)
    if len(shape) > 2:
        mask = broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))
    zeros = broadcast_in_dim(const(x, 0), shape, ())
    return select_n(mask, x, zeros) if upper else select_n(mask, zeros, x)


def identity(n: Any, dtype: Any) -> Any:
    """The unit matrix."""
    rows, columns = _rows_and_columns((n, n), 0)
    return convert_element_type(eq(rows, columns), dtype)


def identity_like(x: Any) -> Any:
    """The unit matrix of the size and dtype of a stack of square matrices, with the axes of the
    stack.
    """
    aval = typeof(x)
    return broadcast_to(identity(aval.shape[-1], aval.dtype), aval.shape)


def diagonal(x: Any) -> Any:
    """The diagonals of a stack of square matrices."""
    aval = typeof(x)
    rows, columns = _rows_and_columns(aval.shape, 0)
    mask = broadcast_to(eq(rows, columns), aval.shape)
    return reduce_sum(
        select_n(mask, broadcast_in_dim(const(x, 0), aval.shape, ()), x), (aval.ndim - 1,)
    )


def block(x: Any, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    """A block of each matrix."""
    n = typeof(x).ndim
    return slice_in_dim(slice_in_dim(x, *rows, axis=n - 2), *columns, axis=n - 1)


def take_rows(x: Any, order: Any) -> Any:
    """The rows of each matrix in the order of a stack of permutations."""
    aval = typeof(x)
    if 0 in aval.shape:
        return x
    b = aval.ndim - 2
    batch = tuple(range(b))
    numbers = GatherDimensionNumbers((b + 1,), (b,), (b,), batch, batch)
    indices = expand_dims(order, (b + 1,))
    sizes = (*(1,) * (b + 1), aval.shape[-1])
    return gather(x, indices, numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def take_columns(x: Any, order: Any) -> Any:
    """The columns of each matrix in the order of a stack of permutations."""
    return matrix_transpose(take_rows(matrix_transpose(x), order))


def symmetrized(name: str, x: Any) -> Any:
    """The mean of each matrix and its adjoint; integers become floats. A sum of bools is "or"."""
    aval = typeof(x)
    if aval.ndim < 2 or aval.shape[-1] != aval.shape[-2]:
        raise TypeError(
            f"symmetrize_input needs square matrices, shape (..., n, n), got {aval.shape} "
            f"({name} of {aval.str_short()})"
        )
    total = (bitwise_or if aval.dtype == bool else add)(x, adjoint(x))
    if not dtypes.is_inexact(aval.dtype):
        wide = aval.dtype == bool or aval.dtype.itemsize == 8
        kind = dtypes.default_float() if wide else np.dtype(np.float32)
        total = convert_weak(total, kind, aval.dtype == bool)
    return div(total, const(total, 2))


# --- types ---
def matrix_aval(
    name: str, x: Any, square: bool = False, kinds: tuple[str, ...] = INEXACT, position: int = 0
) -> None:
    """Checks the shape, then the dtype of a stack of matrices. Raises TypeError or ValueError."""
    check_ranks(name, (x,), (2,), position)
    if square and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"The input to {name} must be a square matrix. Got shape {x.shape}.")
    check_dtype(name, x.dtype, kinds, position)


def check_dtypes(name: str, avals: Sequence[Any], kinds: tuple[str, ...] = INEXACT) -> None:
    """Raises TypeError unless all dtypes are one, of these kinds. Shapes are checked before."""
    for k, x in enumerate(avals):
        check_dtype(name, x.dtype, kinds, k)
    check_same_dtypes(name, avals)


def check_ranks(name: str, avals: Sequence[Any], least: Sequence[int], first: int = 0) -> None:
    """Raises TypeError if an operand has fewer axes than it needs."""
    for k, (x, rank) in enumerate(zip(avals, least, strict=True)):
        if x.ndim < rank:
            raise TypeError(
                f"Input {first + k} to {name} must have rank at least {rank}, but got "
                f"shape={x.shape}"
            )


def smaller(m: Any, n: Any) -> Any:
    """min, of sizes that may be symbolic."""
    return m if m is n or m == n else min_dim(m, n)


def check_batches(
    name: str, avals: Sequence[Any], cores: Sequence[int], unlike: type[Exception] = TypeError
) -> None:
    """The leading axes of all operands must be equal. Raises TypeError for numbers of axes, and
    `unlike` for sizes."""
    batches = [a.shape[: a.ndim - c] for a, c in zip(avals, cores)]
    ranks = [len(b) for b in batches]
    if len(set(ranks)) > 1:
        raise TypeError(
            f"All inputs to {name} must have the same number of batch dimensions, but got {ranks} "
            "batch dimensions for the inputs."
        )
    if any(b != batches[0] for b in batches):
        raise unlike(
            f"All inputs to {name} must have the same batch dimensions, but got {batches}."
        )


def stack_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The batch rule of an operation on stacks: one more leading axis, on all operands."""

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        p = get()
        n = batch_size(args, dims)
        out = p.bind(*(full_batch(x, d, n) for x, d in zip(args, dims)), **params)
        return (out, [0] * len(out)) if p.multiple_results else (out, 0)

    return batch


def weak_as_operands(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for types, whose results are weakly typed where every operand is: of every dtype,
    pivots and permutations too."""

    @wraps(rule)
    def abstract_eval(*avals: Any, **params: Any) -> Any:
        out = rule(*avals, **params)
        if not all(aval.weak_type for aval in avals):
            return out
        if isinstance(out, list):
            return [aval.update(weak_type=True) for aval in out]
        return out.update(weak_type=True)

    return abstract_eval


# --- cholesky ---
@weak_as_operands
def _cholesky_aval(x: Any) -> ShapedArray:
    matrix_aval("cholesky", x, square=True)
    return ShapedArray(x.shape, x.dtype)


def _half_lower(x: Any) -> Any:
    """The lower triangle with half of the diagonal: the L with L + L^H = x, for Hermitian x."""
    one = identity(typeof(x).shape[-1], typeof(x).dtype)
    half = triangle(x)
    if typeof(half).weak_type:  # so that cotangents, which are not, become weak again
        half = convert_element_type(half, typeof(x).dtype)
    return div(half, broadcast_to(add(const(one, 1), one), typeof(x).shape))


def _cholesky_jvp(primals: Any, tangents: Any) -> Any:
    # dA = dL L^H + L dL^H, so L^-1 dA L^-H = (L^-1 dL) + (L^-1 dL)^H, of which L^-1 dL is the lower
    # half.
    factor = triangle(cholesky_p.bind(*primals))
    right = triangular_solve(
        factor, tangents[0], left_side=False, transpose_a=True, conjugate_a=True, lower=True
    )
    both = triangular_solve(factor, right, left_side=True, lower=True)
    return factor, matmul(factor, _half_lower(both))


cholesky_p: Primitive = Primitive(
    "cholesky",
    abstract_eval=_cholesky_aval,
    jvp=_cholesky_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: cholesky_p),
)


# As LAPACK rounds it, whatever the size. Only the lowering of programs on keys makes it.
library_cholesky_p: Primitive = Primitive(
    "library_cholesky",
    abstract_eval=_cholesky_aval,
    jvp=_cholesky_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: library_cholesky_p),
    register=False,
)


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with x = L L^H, for Hermitian positive definite matrices; NaN where a
    matrix is not.

    With `symmetrize_input` the mean of `x` and its adjoint is factored; otherwise only the lower
    triangle is read.

    `x`: (..., n, n), float or complex. Raises ValueError unless the matrices are square. As
    `numpy.linalg.cholesky`, which raises where this has NaN.

    >>> lax.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = as_array(x)
    if symmetrize_input:
        x = symmetrized("cholesky", x)
    return triangle(cholesky_p.bind(x))


# --- triangular_solve ---
@weak_as_operands
def _triangular_aval(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> ShapedArray:
    name = "triangular_solve"
    check_ranks(name, (a, b), (2, 2))
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"The first input to triangular_solve must be a square matrix. Got shape {a.shape}."
        )
    if b.shape[-2 if left_side else -1] != a.shape[-1]:
        raise ValueError(
            f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape}."
        )
    check_dtypes(name, (a, b))
    check_batches(name, (a, b), (2, 2), ValueError)
    return ShapedArray(b.shape, b.dtype)


def _triangular_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    # op(a) x = b, so op(a) dx = db - op(da) x: one more solve with the same matrix.
    a, b = primals
    da, db = tangents
    x = triangular_solve_p.bind(a, b, **params)
    change: Any = db
    if type(da) is not Zero:
        strict = 1 if params["unit_diagonal"] else 0
        da = triangle(da, -strict) if params["lower"] else triangle(da, strict, upper=True)
        if params["transpose_a"]:
            da = matrix_transpose(da)
        if params["conjugate_a"] and dtypes.is_complex(typeof(da).dtype):
            da = conj(da)
        moved = matmul(da, x) if params["left_side"] else matmul(x, da)
        change = add_tangents(neg(moved), db)
    if type(change) is Zero:
        return x, zero_of(x)
    return x, triangular_solve_p.bind(a, change, **params)


def _triangular_transpose(
    ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any
) -> list[Any]:
    # Linear in b alone: the transpose of op(a)^-1 is op(a^T)^-1.
    if type(b) is not UndefinedPrimal:
        return [None, None]
    if type(ct) is Zero:
        return [None, Zero(b.aval)]
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_batch(args: Any, dims: Any, *, left_side: bool, **params: Any) -> Any:
    (a, b), (ad, bd) = args, dims
    shape = typeof(b).shape
    if ad is None and len(shape) == 3:
        # One matrix, many right sides: they are columns (or rows) of one system.
        if left_side:
            b = move_batch_back(b, bd)
            rows, columns, n = typeof(b).shape
            wide = reshape(b, (rows, columns * n))
        else:
            b = move_batch_front(b, bd)
            n, rows, columns = typeof(b).shape
            wide = reshape(b, (n * rows, columns))
        out = triangular_solve_p.bind(a, wide, left_side=left_side, **params)
        return reshape(out, typeof(b).shape), 2 if left_side else 0
    n = batch_size(args, dims)
    full = [full_batch(x, d, n) for x, d in zip(args, dims)]
    return triangular_solve_p.bind(*full, left_side=left_side, **params), 0


def move_batch_back(x: Any, dim: int) -> Any:
    """`x` with its batch axis last."""
    n = typeof(x).ndim
    return transpose(x, (*(k for k in range(n) if k != dim), dim))


triangular_solve_p: Primitive = Primitive(
    "triangular_solve",
    abstract_eval=_triangular_aval,
    jvp=_triangular_jvp,
    transpose=_triangular_transpose,
    batch=_triangular_batch,
)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The x with op(a) x = b (`left_side`) or x op(a) = b, of which only one triangle of `a` is
    read.

    op conjugates and transposes as asked; with `unit_diagonal` the diagonal counts as ones. `b` may
    be a vector.

    Raises TypeError or ValueError for dtypes and shapes that do not fit.

    `a`: (..., n, n), `b`: (..., n, k) with `left_side`, else (..., k, n). As
    `scipy.linalg.solve_triangular`.

    >>> a = jnp.array([[2., 0.], [1., 4.]])
    >>> lax.linalg.triangular_solve(a, jnp.array([[2.], [5.]]), left_side=True, lower=True)
    Array([[1.],
           [1.]], dtype=float32)
    """
    a, b = as_array(a), as_array(b)
    conjugate_a = bool(conjugate_a and dtypes.is_complex(typeof(a).dtype))
    vector = typeof(b).ndim == typeof(a).ndim - 1
    axis = typeof(b).ndim if left_side else typeof(b).ndim - 1
    if vector:
        b = expand_dims(b, (axis,))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    return squeeze(out, (axis,)) if vector else out


# --- lu ---
@weak_as_operands
def _lu_aval(x: Any) -> list[ShapedArray]:
    matrix_aval("lu", x)
    *batch, m, n = x.shape
    i32 = np.dtype("int32")
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, smaller(m, n)), i32),
        ShapedArray((*batch, m), i32),
    ]


def _unit_lower(packed: Any) -> Any:
    """The m by m L of packed m by n factors: ones on the diagonal, zeros right of the columns that
    there are.
    """
    *batch, m, n = typeof(packed).shape
    zero = const(packed, 0)
    k = smaller(m, n)
    strict = triangle(block(packed, (0, m), (0, k)), -1)
    strict = pad(strict, zero, (*((0, 0, 0),) * len(batch), (0, 0, 0), (0, m - k, 0)))
    return add(strict, broadcast_to(identity(m, typeof(packed).dtype), (*batch, m, m)))


def _square_upper(packed: Any) -> Any:
    """The n by n U of packed m by n factors, continued by the unit matrix below the rows that there
    are.
    """
    *batch, m, n = typeof(packed).shape
    zero = const(packed, 0)
    k = smaller(m, n)
    upper = triangle(block(packed, (0, k), (0, n)), upper=True)
    lead = ((0, 0, 0),) * len(batch)
    upper = pad(upper, zero, (*lead, (0, n - k, 0), (0, 0, 0)))
    rest = pad(identity(n - k, typeof(packed).dtype), zero, ((k, 0, 0), (k, 0, 0)))
    return add(upper, broadcast_to(rest, (*batch, n, n)))


def _lu_jvp(primals: Any, tangents: Any) -> Any:
    # P dA = dL U + L dU, so L^-1 P dA U^-1 = (L^-1 dL) + (dU U^-1): strictly lower, and upper.
    packed, pivots, order = lu_p.bind(*primals)
    low, up = _unit_lower(packed), _square_upper(packed)
    both = triangular_solve(
        low, take_rows(tangents[0], order), left_side=True, lower=True, unit_diagonal=True
    )
    both = triangular_solve(up, both, left_side=False, lower=False)
    change = add(matmul(low, triangle(both, -1)), matmul(triangle(both, upper=True), up))
    return [packed, pivots, order], [change, zero_of(pivots), zero_of(order)]


lu_p: Primitive = Primitive(
    "lu",
    abstract_eval=_lu_aval,
    jvp=_lu_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: lu_p),
    multiple_results=True,
)


def lu(x: Any) -> list[Any]:
    """[L and U in one matrix, pivots, permutation]: x[permutation] = L U, with partial pivoting; L
    has ones on its diagonal.

    Row k was exchanged with row pivots[k]. A singular matrix has zeros on the diagonal of U.

    `x`: (..., m, n), float or complex; pivots are int32 (..., min(m, n)), the permutation int32
    (..., m). As `scipy.linalg.lu_factor`.

    >>> lu, pivots, permutation = lax.linalg.lu(jnp.array([[1., 2.], [4., 4.]]))
    >>> lu, pivots, permutation
    (Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    return list(lu_p.bind(as_array(x)))


@weak_as_operands
def _permutation_aval(pivots: Any, *, permutation_size: Any) -> ShapedArray:
    check_dtype("lu_pivots_to_permutation", pivots.dtype, ("integer",), 0)
    if pivots.dtype not in (
        np.dtype("int32"),
        np.dtype("uint32"),
        np.dtype("int64"),
        np.dtype("uint64"),
    ):
        raise TypeError(
            f"lu_pivots_to_permutation needs pivots of 32 or 64 bits, got {pivots.dtype}"
        )
    if pivots.ndim < 1:
        raise TypeError(
            "Input 0 to lu_pivots_to_permutation must have rank at least 1, but got "
            f"shape={pivots.shape}"
        )
    if (
        type(pivots.shape[-1]) is int
        and type(permutation_size) is int
        and permutation_size < pivots.shape[-1]
    ):
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of "
            "the pivots. "
            f"Got pivots size {pivots.shape[-1]}"
        )
    return ShapedArray((*pivots.shape[:-1], permutation_size), pivots.dtype)


def _permutation_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = lu_pivots_to_permutation_p.bind(*primals, **params)
    return out, zero_of(out)


lu_pivots_to_permutation_p: Primitive = Primitive(
    "lu_pivots_to_permutation",
    abstract_eval=_permutation_aval,
    jvp=_permutation_jvp,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: lu_pivots_to_permutation_p),
)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation that the row exchanges of `lu` amount to.

    >>> pb.lax.linalg.lu_pivots_to_permutation(jnp.array([2, 2]), 3)
    Array([2, 0, 1], dtype=int32)

    Raises ValueError if there are more pivots than rows.
    """
    return lu_pivots_to_permutation_p.bind(as_array(pivots), permutation_size=permutation_size)


def lu_solve(packed: Any, order: Any, b: Any, trans: int = 0) -> Any:
    """The x with A x = b (trans 0), A^T x = b (1) or A^H x = b (2), of the factors and the
    permutation of `lu`; `b` is a stack of matrices.
    """
    solve = triangular_solve
    if trans == 0:
        y = solve(packed, take_rows(b, order), left_side=True, lower=True, unit_diagonal=True)
        return solve(packed, y, left_side=True, lower=False)
    c = trans == 2
    y = solve(packed, b, left_side=True, lower=False, transpose_a=True, conjugate_a=c)
    y = solve(
        packed, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=c
    )
    return take_rows(y, _inverse(order))


def _inverse(order: Any) -> Any:
    """The inverse of each of a stack of permutations."""
    shape = typeof(order).shape
    last = len(shape) - 1
    places = broadcasted_iota(typeof(order).dtype, shape, last)
    batch = tuple(range(last))
    numbers = ScatterDimensionNumbers((), (last,), (last,), batch, batch)
    return scatter(
        places,
        expand_dims(order, (last + 1,)),
        places,
        numbers,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


# --- cholesky_update, symmetric_product ---
@weak_as_operands
def _cholesky_update_aval(r: Any, w: Any) -> ShapedArray:
    name = "cholesky_update"
    check_ranks(name, (r, w), (2, 1))
    if w.ndim - 1 != r.ndim - 2:
        raise TypeError(
            f"{name}: the vector must have one axis fewer than {r.shape}, got {w.shape}"
        )
    if r.shape[-1] != r.shape[-2] or r.shape[-1] != w.shape[-1]:
        raise ValueError(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the "
            "same size as input. "
            f"Got shapes {r.shape} and {w.shape} instead"
        )
    check_batches(name, (r, w), (2, 1))
    check_dtypes(name, (r, w), (FLOAT,))
    return ShapedArray(r.shape, r.dtype)


cholesky_update_p: Primitive = Primitive(
    "cholesky_update",
    abstract_eval=_cholesky_update_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: cholesky_update_p),
)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangular S with S^T S = R^T R + w w^T, of the upper triangular R.

    Raises ValueError unless `r_matrix` is square and `w_vector` fits.

    `r_matrix`: (n, n), `w_vector`: (n,), floats of one dtype; the result is (n, n).

    >>> lax.linalg.cholesky_update(jnp.array([[3.]]), jnp.array([4.]))
    Array([[5.]], dtype=float32)
    """
    return cholesky_update_p.bind(as_array(r_matrix), as_array(w_vector))


@weak_as_operands
def _symmetric_product_aval(a: Any, c: Any, *, alpha: Any, beta: Any) -> ShapedArray:
    name = "symmetric_product"
    check_ranks(name, (a, c), (2, 2))
    if a.shape[-2] != c.shape[-1] or c.shape[-1] != c.shape[-2]:
        raise ValueError(
            "symmetric_update expects a rectangular matrix of shape (m, n) and a square matrix of "
            "shape (n, n). "
            f"Got shapes {a.shape} and {c.shape}."
        )
    check_batches(name, (a, c), (2, 2))
    check_dtypes(name, (a, c), (FLOAT,))
    return ShapedArray(c.shape, c.dtype)


symmetric_product_p: Primitive = Primitive(
    "symmetric_product",
    abstract_eval=_symmetric_product_aval,
    transpose=No.NOT_LINEAR,
    batch=stack_batch(lambda: symmetric_product_p),
)


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha A A^T + beta C, for symmetric C; with `symmetrize_output` the upper triangle is the
    mirror of the lower one.

    Raises ValueError for shapes that do not fit.

    `a_matrix`: (..., n, k), `c_matrix`: (..., n, n), of one dtype; the result is (..., n, n).

    >>> lax.linalg.symmetric_product(jnp.array([[1.], [2.]]), jnp.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    out = symmetric_product_p.bind(as_array(a_matrix), as_array(c_matrix), alpha=alpha, beta=beta)
    if not symmetrize_output:
        return out
    mirrored = matrix_transpose(triangle(out, -1))
    return add(triangle(out), mirrored)


# --- tridiagonal_solve ---
@weak_as_operands
def _tridiagonal_aval(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> ShapedArray:
    name = "tridiagonal_solve"
    avals = (dl, d, du, b)
    check_ranks(name, avals, (1, 1, 1, 2))
    if dl.shape != d.shape or d.shape != du.shape:
        raise TypeError(
            "tridiagonal_solve requires that all diagonal arguments have the same shape."
        )
    check_batches(name, (d, b), (1, 2))
    if d.shape[-1] != b.shape[-2]:
        raise TypeError(
            "The leading ndim-1 dimensions of b must equal the dimensions of the diagonals: got "
            f"{b.shape} and {d.shape}."
        )
    check_dtypes(name, avals)
    return ShapedArray(b.shape, b.dtype)


def _column(x: Any) -> Any:
    return expand_dims(x, (typeof(x).ndim,))


def _shifted(x: Any, axis: int, down: bool) -> Any:
    """Moves the entries along an axis by one place, down or up; a zero comes in."""
    edges = [(0, 0, 0)] * typeof(x).ndim
    edges[axis] = (1, -1, 0) if down else (-1, 1, 0)
    return pad(x, const(x, 0), edges)


def _tridiagonal_jvp(primals: Any, tangents: Any, *, perturb_singular: bool) -> Any:
    dl, d, du, b = primals
    x = tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=perturb_singular)
    t_dl, t_d, t_du, t_b = tangents
    axis = typeof(x).ndim - 2
    moved: Any = Zero(typeof(x).to_tangent_aval())
    if type(t_d) is not Zero:
        moved = add_tangents(moved, mul(_column(t_d), x))
    if type(t_dl) is not Zero:
        moved = add_tangents(moved, mul(_column(t_dl), _shifted(x, axis, down=True)))
    if type(t_du) is not Zero:
        moved = add_tangents(moved, mul(_column(t_du), _shifted(x, axis, down=False)))
    change = t_b if type(moved) is Zero else add_tangents(t_b, neg(moved))
    return x, tridiagonal_solve_p.bind(dl, d, du, change, perturb_singular=perturb_singular)


def _tridiagonal_transpose(
    ct: Any, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
) -> list[Any]:
    if type(b) is not UndefinedPrimal:
        return [None] * 4
    if type(ct) is Zero:
        return [None, None, None, Zero(b.aval)]
    # Entry (i, i-1) is dl[i] and (i-1, i) is du[i-1]: transposing exchanges them, one place on.
    axis = typeof(d).ndim - 1
    low, up = _shifted(du, axis, down=True), _shifted(dl, axis, down=False)
    return [
        None,
        None,
        None,
        tridiagonal_solve_p.bind(low, d, up, ct, perturb_singular=perturb_singular),
    ]


def _tridiagonal_batch(args: Any, dims: Any, *, perturb_singular: bool) -> Any:
    if all(d is None for d in dims[:3]):
        # One matrix, many right sides: they are columns of one system.
        b = args[3]
        last = move_batch_back(b, dims[3])
        shape = typeof(last).shape
        wide = reshape(last, (*shape[:-2], shape[-2] * shape[-1]))
        out = tridiagonal_solve_p.bind(*args[:3], wide, perturb_singular=perturb_singular)
        return reshape(out, shape), len(shape) - 1
    return stack_batch(lambda: tridiagonal_solve_p)(args, dims, perturb_singular=perturb_singular)


tridiagonal_solve_p: Primitive = Primitive(
    "tridiagonal_solve",
    abstract_eval=_tridiagonal_aval,
    jvp=_tridiagonal_jvp,
    transpose=_tridiagonal_transpose,
    batch=_tridiagonal_batch,
)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """The x with dl[i] x[i-1] + d[i] x[i] + du[i] x[i+1] = b[i]; dl[0] and du[-1] are not read.

    NaN for a singular matrix, unless `perturb_singular`: then pivots that are zero become epsilon
    times the largest entry.

    Raises TypeError for shapes and dtypes that do not fit.

    `dl`, `d`, `du`: (..., n), `b`: (..., n, k), floats of one dtype; the result is (..., n, k).

    >>> ones = jnp.ones(3)
    >>> lax.linalg.tridiagonal_solve(0 * ones, 2 * ones, 0 * ones, jnp.array([[2.], [4.], [6.]]))
    Array([[1.],
           [2.],
           [3.]], dtype=float32)
    """
    operands = [as_array(x) for x in (dl, d, du, b)]
    return tridiagonal_solve_p.bind(*operands, perturb_singular=perturb_singular)


__all__ = [
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "cholesky_update_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "lu_solve",
    "symmetric_product",
    "symmetric_product_p",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
