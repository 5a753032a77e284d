"""Linear algebra: LAPACK's functions, which jaxlib has as custom calls, on stacks of matrices.

What LAPACK reports as failed is NaN, matrix by matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import dtypes
from ....control.while_loop import fori_loop
from ....core.avals import ShapedArray, typeof
from ....primitives import linalg_factor as f
from ....primitives.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim
from ....primitives.elementwise import add, conj, convert_element_type, div, eq, mul, select, sub
from ....primitives.layout import (
    broadcast_in_dim,
    broadcasted_iota,
    expand_dims,
    reduce_sum,
    transpose,
)
from ....primitives.linalg_systems import matmul, triangle
from ....primitives.maths import sqrt
from ....primitives.shape import pad, slice_in_dim
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import inlined, rule as plain_rule, traced
from ..types import i32_attr, ints, type_of
from .build import aval_of, compare, converted, flag, full, spread
from .callback import layout

_PREFIX = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# The names of functions that differ for complex matrices.
_UNITARY = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}


def rule(
    name: str, *platforms: str
) -> Callable[[Callable[..., list[Any]]], Callable[..., list[Any]]]:
    """Makes a function the rule of a primitive on CPUs, where LAPACK is, or on other platforms.
    Matrices of types that libraries do not know are converted to float32, and the results back."""

    def enter(fun: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def lower(ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
            if not any(map(_is_narrow, ctx.avals_in)):
                return fun(ctx, *args, **params)
            ins, outs = ([_widened(a) for a in avals] for avals in (ctx.avals_in, ctx.avals_out))
            wide = [_as_type(x, a, w) for x, a, w in zip(args, ctx.avals_in, ins, strict=True)]
            found = fun(ctx.replace(avals_in=ins, avals_out=outs), *wide, **params)
            return [_as_type(x, w, a) for x, w, a in zip(found, outs, ctx.avals_out, strict=True)]

        return plain_rule(name, platforms=platforms or ("cpu",))(lower)

    return enter


def _is_narrow(aval: Any) -> bool:
    return dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4


def _widened(aval: Any) -> Any:
    return aval_of(aval.shape, np.float32) if _is_narrow(aval) else aval


def _as_type(x: Any, have: Any, want: Any) -> Any:
    return x if have.dtype == want.dtype else converted(x, want.shape, want.dtype)


def letter(c: str) -> Any:
    """A letter, as LAPACK's functions take their options."""
    return ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), ord(c))


def _target(name: str, dtype: Any) -> str:
    real = not dtypes.is_complex(dtype)
    return f"lapack_{_PREFIX[dtype.name]}{name if real else _UNITARY.get(name, name)}_ffi"


def custom_call(
    target: str,
    values: Sequence[Any],
    avals: Sequence[Any],
    outs: Sequence[Any],
    batch: int,
    attributes: dict[str, Any],
    in_place: Sequence[tuple[int, int]] = (),
    *,
    by_rows: bool = False,
) -> list[Any]:
    """A call of a function of jaxlib's on matrices that it wants column by column, or row by row.
    `in_place` are pairs (result, operand) that share memory."""
    places = _rows if by_rows else _columns
    aliases = [
        hlo.OutputOperandAlias.get([out] if len(outs) > 1 else [], operand, [])
        for out, operand in in_place
    ]
    op = hlo.CustomCallOp(
        [type_of(a) for a in outs], list(values), call_target_name=ir.StringAttr.get(target),
        backend_config=ir.StringAttr.get(""), operand_layouts=places(avals, batch),
        result_layouts=places(outs, batch), output_operand_aliases=ir.ArrayAttr.get(aliases),
    )  # fmt: skip
    op.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get(attributes)
    count = {"num_batch_dims": ir.StringAttr.get(str(batch))}
    op.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(count)
    return list(op.results)


def _columns(avals: Sequence[Any], batch: int) -> Any:
    """Layouts in which the columns of matrices lie together; the batch goes last."""
    orders = []
    for a in avals:
        rank = len(a.shape)
        if rank - batch != 2:
            orders.append(layout(rank))
        else:
            orders.append(layout(rank, [batch, batch + 1, *range(batch - 1, -1, -1)]))
    return ir.ArrayAttr.get(orders)


def _rows(avals: Sequence[Any], batch: int) -> Any:
    """Layouts in which the rows of matrices lie together."""
    orders = [layout(len(a.shape), range(len(a.shape) - 1, -1, -1)) for a in avals]
    return ir.ArrayAttr.get(orders)


class Call:
    """A function of LAPACK for a stack of matrices of one shape and type."""

    def __init__(self, aval: Any) -> None:
        self.batch = aval.shape[:-2]
        self.dtype = aval.dtype

    def aval(self, *shape: int, dtype: Any = None) -> ShapedArray:
        return ShapedArray((*self.batch, *shape), np.dtype(dtype or self.dtype))

    def __call__(
        self,
        name: str,
        values: Sequence[Any],
        avals: Sequence[Any],
        outs: Sequence[Any],
        attributes: dict[str, Any] | None = None,
        in_place: Sequence[tuple[int, int]] = (),
    ) -> list[Any]:
        target = _target(name, self.dtype)
        batch = len(self.batch)
        return custom_call(target, values, avals, outs, batch, attributes or {}, in_place)

    def checked(
        self, values: Sequence[Any], avals: Sequence[Any], info: Any, how: str
    ) -> list[Any]:
        """NaN where LAPACK's report `info` says that it failed."""
        report = self.aval(dtype=np.int32)
        good = compare(info, full(0, report), how, np.int32)
        found = []
        for x, a in zip(values, avals, strict=True):
            flags = spread(good, range(len(self.batch)), aval_of(a.shape, bool))
            nan = complex(np.nan, np.nan) if dtypes.is_complex(a.dtype) else np.nan
            found.append(hlo.select(flags, x, full(nan, a)))
        return found

    @property
    def info(self) -> ShapedArray:
        return self.aval(dtype=np.int32)


def composed(
    ctx: LoweringRuleContext, fun: Callable[..., Any], values: Sequence[Any], avals: Sequence[Any]
) -> list[Any]:
    """The results of a function of arrays, written in primitives."""
    closed = traced(lambda *xs: _as_list(fun(*xs)), avals)
    return inlined(ctx.replace(avals_in=list(avals)), closed, values)


def _as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


# --- factorisations ---
@rule("library_cholesky")
@rule("cholesky")
def _cholesky(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Call(aval)
    out, info = run(
        "potrf", [x], [aval], [aval, run.info], {"uplo": letter("L")}, in_place=[(0, 0)]
    )
    values = run.checked([out], [aval], info, "EQ")
    return composed(ctx, lambda a: triangle(a), values, [aval])


@rule("lu")
def _lu(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,), (_, pivots, _) = ctx.avals_in, ctx.avals_out
    run = Call(aval)
    out, places, info = run("getrf", [x], [aval], [aval, pivots, run.info], in_place=[(0, 0)])
    places = hlo.subtract(places, full(1, pivots))  # LAPACK counts from 1
    (out,) = run.checked([out], [aval], info, "GE")
    rows = aval.shape[-2]
    (order,) = composed(ctx, lambda p: _permutation(p, rows), [places], [pivots])
    return [out, places, order]


def _permutation(pivots: Any, size: int) -> Any:
    """The row exchanges, one after the other, as a permutation."""
    shape = typeof(pivots).shape
    axis = len(shape) - 1
    order = broadcasted_iota(typeof(pivots).dtype, (*shape[:-1], size), axis)
    places = broadcasted_iota(typeof(pivots).dtype, (*shape[:-1], size), axis)

    def exchange(k: Any, order: Any) -> Any:
        other = dynamic_index_in_dim(pivots, k, axis, keepdims=True)
        here = eq(places, broadcast_in_dim(convert_element_type(k, places.dtype), order.shape, ()))
        there = eq(places, broadcast_in_dim(other, order.shape, tuple(range(axis + 1))))
        mine = _picked(order, here)
        theirs = _picked(order, there)
        return select(there, mine, select(here, theirs, order))

    return fori_loop(0, shape[-1], exchange, order) if shape[-1] else order


def _picked(x: Any, where: Any) -> Any:
    """The one element of each row that is marked, along the row."""
    axis = typeof(x).ndim - 1
    zero = broadcast_in_dim(typeof(x).dtype.type(0), typeof(x).shape, ())
    total = reduce_sum(select(where, x, zero), (axis,))
    return broadcast_in_dim(total, typeof(x).shape, tuple(range(axis)))


@plain_rule("lu_pivots_to_permutation")
def _pivots(ctx: LoweringRuleContext, pivots: Any, *, permutation_size: int) -> list[Any]:
    return composed(ctx, lambda p: _permutation(p, permutation_size), [pivots], ctx.avals_in)


@rule("geqrf")
def _geqrf(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    return Call(aval)("geqrf", [x], [aval], ctx.avals_out, in_place=[(0, 0)])


@rule("householder_product")
def _householder_product(ctx: LoweringRuleContext, a: Any, taus: Any) -> list[Any]:
    aval = ctx.avals_in[0]
    return Call(aval)("orgqr", [a, taus], ctx.avals_in, ctx.avals_out, in_place=[(0, 0)])


@rule("ormqr")
def _ormqr(
    ctx: LoweringRuleContext, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool
) -> list[Any]:
    options = {"left": flag(left), "transpose": flag(transpose)}
    run = Call(ctx.avals_in[0])
    return run("ormqr", [a, taus, c], ctx.avals_in, ctx.avals_out, options, in_place=[(0, 2)])


@rule("qr")
def _qr(
    ctx: LoweringRuleContext, x: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> list[Any]:
    (aval,) = ctx.avals_in
    m, n = aval.shape[-2:]
    run = Call(aval)
    k = min(m, n)
    taus = run.aval(k)
    if pivoting:
        order = run.aval(n, dtype=np.int32)
        values, avals = [x, full(0, order)], [aval, order]
        packed, places, scales = run(
            "geqp3", values, avals, [aval, order, taus], in_place=[(0, 0), (1, 1)]
        )
        rest = [hlo.subtract(places, full(1, order))]
    else:
        packed, scales = run("geqrf", [x], [aval], [aval, taus], in_place=[(0, 0)])
        rest = []
    finish = lambda packed, taus: _q_and_r(packed, taus, full_matrices)
    return [*composed(ctx, finish, [packed, scales], [aval, taus]), *rest]


def _q_and_r(packed: Any, taus: Any, full_matrices: bool) -> tuple[Any, Any]:
    """The factors of reflectors as LAPACK packs them."""
    *batch, m, n = typeof(packed).shape
    k = min(m, n)
    rank = len(batch) + 2
    if m < n:
        reflectors = slice_in_dim(packed, 0, m, axis=rank - 1)
    elif full_matrices and m > n:
        zero = np.zeros((), typeof(packed).dtype)[()]
        reflectors = pad(packed, zero, [(0, 0, 0)] * (rank - 1) + [(0, m - n, 0)])
    else:
        reflectors = packed
    q = f.householder_product_p.bind(reflectors, taus)
    rows = m if full_matrices else k
    return q, _upper(slice_in_dim(packed, 0, rows, axis=rank - 2))


def _upper(x: Any) -> Any:
    return sub(x, triangle(x, -1))


@rule("eigh")
def _eigh(
    ctx: LoweringRuleContext, x: Any, *, lower: bool, subset_by_index: Any, **_: Any
) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Call(aval)
    n = aval.shape[-1]
    values = run.aval(n, dtype=ctx.avals_out[1].dtype)
    options = {"mode": letter("V"), "uplo": letter("L" if lower else "U")}
    v, w, info = run("syevd", [x], [aval], [aval, values, run.info], options, in_place=[(0, 0)])
    v, w = run.checked([v, w], [aval, values], info, "EQ")
    if subset_by_index is None or tuple(subset_by_index) == (0, n):
        return [v, w]
    return [
        _columns_of(v, aval.shape, subset_by_index),
        _columns_of(w, values.shape, subset_by_index),
    ]


def _columns_of(x: Any, shape: Sequence[int], subset: tuple[int, int]) -> Any:
    low = [0] * (len(shape) - 1) + [subset[0]]
    return hlo.slice(x, ints(low), ints([*shape[:-1], subset[1]]), ints([1] * len(shape)))


@rule("eig")
def _eig(
    ctx: LoweringRuleContext, x: Any, *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool, **_: Any,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    run = Call(aval)
    wanted = [compute_left_eigenvectors, compute_right_eigenvectors]
    left, right = (letter("V" if w else "N") for w in wanted)
    options = {"compute_left": left, "compute_right": right}
    return _eigen(ctx, run, wanted, lambda outs: run("geev", [x], [aval], outs, options))


def _eigen(
    ctx: LoweringRuleContext, run: Call, wanted: Sequence[bool],
    call: Callable[[list[Any]], list[Any]],
) -> list[Any]:  # fmt: skip
    """What is wanted of a library's function, which gives eigenvalues (of real matrices in two
    parts), left and right vectors and a report."""
    (aval,), out = ctx.avals_in, ctx.avals_out[0]
    n = aval.shape[-1]
    real = not dtypes.is_complex(aval.dtype)
    parts, vectors = [run.aval(n)] * 2 if real else [out], run.aval(n, n, dtype=out.dtype)
    *values, vl, vr, info = call([*parts, vectors, vectors, run.info])
    values = [hlo.complex(*values)] if real else values
    kept = [v for v, w in zip((vl, vr), wanted, strict=True) if w]
    return run.checked([*values, *kept], ctx.avals_out, info, "EQ")


@rule("svd")
def _svd(
    ctx: LoweringRuleContext, x: Any, *, full_matrices: bool, compute_uv: bool,
    subset_by_index: Any, algorithm: Any,
) -> list[Any]:  # fmt: skip
    (aval,) = ctx.avals_in
    run = Call(aval)
    k = min(aval.shape[-2:])
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    values, u, vt = _svd_avals(run, aval, ctx.avals_out[0].dtype, mode != "S")
    outs = [aval, values, u, vt, run.info]
    name = "gesvd" if algorithm is f.SvdAlgorithm.QR else "gesdd"
    _, *found, info = run(name, [x], [aval], outs, {"mode": letter(mode)}, in_place=[(0, 0)])
    avals = [values, u, vt] if compute_uv else [values]
    found = run.checked(found[: len(avals)], avals, info, "EQ")
    return _singular_subset(found, avals, subset_by_index, k)


def _svd_avals(run: Call, aval: Any, dtype: Any, full_matrices: bool) -> list[ShapedArray]:
    """The types of singular values, U and the adjoint of V."""
    m, n = aval.shape[-2:]
    size = min(m, n)
    rows, columns = (m, n) if full_matrices else (size, size)
    return [run.aval(size, dtype=dtype), run.aval(m, rows), run.aval(columns, n)]


def _singular_subset(
    found: list[Any], avals: Sequence[Any], subset: tuple[int, int] | None, size: int
) -> list[Any]:
    """Singular values, and vectors if there are any, of the indices that are wanted."""
    if subset is None or tuple(subset) == (0, size):
        return found
    low, high = subset
    kept = [_columns_of(x, a.shape, (low, high)) for x, a in zip(found[:2], avals[:2], strict=True)]
    if len(found) == 1:
        return kept
    shape = avals[2].shape
    start = [*[0] * (len(shape) - 2), low, 0]
    stop = [*shape[:-2], high, shape[-1]]
    return [*kept, hlo.slice(found[2], ints(start), ints(stop), ints([1] * len(shape)))]


@rule("schur")
def _schur(ctx: LoweringRuleContext, x: Any, *, compute_schur_vectors: bool, **_: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Call(aval)
    n = aval.shape[-1]
    parts = [run.aval(n)] * (1 if dtypes.is_complex(aval.dtype) else 2)
    options = {"mode": letter("V" if compute_schur_vectors else "N"), "sort": letter("N")}
    outs = [aval, aval, *parts, run.info, run.info]
    t, vectors, *_rest, info = run("gees", [x], [aval], outs, options, in_place=[(0, 0)])
    wanted = [t, vectors] if compute_schur_vectors else [t]
    return run.checked(wanted, ctx.avals_out, info, "EQ")


@rule("hessenberg")
def _hessenberg(ctx: LoweringRuleContext, x: Any) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Call(aval)
    options = {"low": i32_attr(1), "high": i32_attr(aval.shape[-1])}
    outs = [*ctx.avals_out, run.info]
    *found, info = run("gehrd", [x], [aval], outs, options, in_place=[(0, 0)])
    return run.checked(found, ctx.avals_out, info, "EQ")


@rule("tridiagonal")
def _tridiagonal(ctx: LoweringRuleContext, x: Any, *, lower: bool) -> list[Any]:
    (aval,) = ctx.avals_in
    run = Call(aval)
    options = {"uplo": letter("L" if lower else "U")}
    outs = [*ctx.avals_out, run.info]
    *found, info = run("sytrd", [x], [aval], outs, options, in_place=[(0, 0)])
    return run.checked(found, ctx.avals_out, info, "EQ")


# --- systems ---
@rule("triangular_solve")
def _triangular_solve(
    ctx: LoweringRuleContext, a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> list[Any]:  # fmt: skip
    aval = ctx.avals_in[0]
    is_complex = dtypes.is_complex(aval.dtype)
    if conjugate_a and is_complex and not transpose_a:
        (a,) = composed(ctx, lambda x: convert_element_type(conj(x), aval.dtype), [a], [aval])
        conjugate_a = False
    turn = "N" if not transpose_a else "C" if conjugate_a and is_complex else "T"
    options = {
        "side": letter("L" if left_side else "R"),
        "uplo": letter("L" if lower else "U"),
        "trans_x": letter(turn),
        "diag": letter("U" if unit_diagonal else "N"),
    }
    run = Call(aval)
    return run("trsm", [a, b], ctx.avals_in, ctx.avals_out, options, in_place=[(0, 1)])


@rule("tridiagonal_solve")
def _tridiagonal_solve(
    ctx: LoweringRuleContext, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
) -> list[Any]:
    low, mid, up, right = ctx.avals_in
    run = Call(right)
    if perturb_singular:
        batch = len(run.batch)
        target = "tridiagonal_solve_perturbed_ffi"
        return custom_call(target, [dl, d, du, b], ctx.avals_in, ctx.avals_out, batch, {})
    outs = [low, mid, up, right, run.info]
    same = [(k, k) for k in range(4)]
    found = run("gtsv", [dl, d, du, b], ctx.avals_in, outs, in_place=same)
    return run.checked([found[3]], [right], found[4], "EQ")


@plain_rule("symmetric_product")
def _symmetric_product(
    ctx: LoweringRuleContext, a: Any, c: Any, *, alpha: float, beta: float
) -> list[Any]:
    def product(a: Any, c: Any) -> Any:
        axes = range(typeof(a).ndim)
        turned = transpose(a, (*axes[:-2], axes[-1], axes[-2]))
        out = _scaled(matmul(a, turned), alpha)
        return out if beta == 0 else add(out, _scaled(c, beta))

    return composed(ctx, product, [a, c], ctx.avals_in)


def _scaled(x: Any, factor: float) -> Any:
    return mul(x, np.asarray(factor, typeof(x).dtype)[()])


@plain_rule("cholesky_update")
def _cholesky_update(ctx: LoweringRuleContext, r: Any, w: Any) -> list[Any]:
    """Plane rotations that turn [R; w^T] into [S; 0], row by row."""

    def update(r: Any, w: Any) -> Any:
        n, rank = typeof(r).shape[-1], typeof(r).ndim

        def rotate(k: Any, state: Any) -> Any:
            r, w = state
            row = dynamic_index_in_dim(r, k, rank - 2, keepdims=False)
            top = dynamic_index_in_dim(row, k, rank - 2, keepdims=True)
            low = dynamic_index_in_dim(w, k, rank - 2, keepdims=True)
            size = sqrt(add(mul(top, top), mul(low, low)))
            none = eq(size, np.zeros((), typeof(size).dtype)[()])
            one = broadcast_in_dim(np.ones((), typeof(size).dtype)[()], typeof(size).shape, ())
            safe = select(none, one, size)
            c, s = select(none, one, div(top, safe)), div(low, safe)
            new = add(mul(c, row), mul(s, w))
            w = sub(mul(c, w), mul(s, row))
            return dynamic_update_index_in_dim(r, expand_dims(new, (rank - 2,)), k, rank - 2), w

        return fori_loop(0, n, rotate, (r, w))[0]

    return composed(ctx, update, [r, w], ctx.avals_in)
