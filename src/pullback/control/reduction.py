"""`reduce` and `reduce_window` with any computation. Sums, products, extremes and logical
reductions become their own primitives.

The derivative of a general reduction folds its elements in halves; that of a general window folds
the positions of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core.avals import ShapedArray, typeof
from ..core.jaxpr import ClosedJaxpr, closed_without_consts, eval_jaxpr
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero, instantiate_zeros
from ..core.trace import Tracer
from ..primitives import elementwise as e
from ..primitives.builders import batch_size, full_batch
from ..primitives.common import canonical_size, int_tuple, zero_of
from ..primitives.convert import convert_weak
from ..primitives.convolution import dilated, padtype_to_pads
from ..primitives.layout import broadcast_in_dim, reduce_sum, reduced_aval, reshape, shifted_axes
from ..primitives.reductions import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from ..primitives.shape import concatenate, slice_in_dim, squeeze
from ..primitives.windows import (
    batched_window,
    check_window,
    extreme_fill,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_shape_tuple,
    reduce_window_sum_p,
    window_slices,
)
from ..transforms.batch import AxisData, batch_flat, matchaxis
from ..transforms.jvp import jvp_jaxpr
from .common import trace_function

__all__ = ["reduce", "reduce_p", "reduce_window", "reduce_window_p"]


# --- what both share ---
def _prepare(name: str, operands: Any, init_values: Any) -> tuple[list[Any], list[Any], Any]:
    """The leaves of operands and initial values. Raises ValueError or TypeError."""
    leaves, treedef = tree.flatten(operands)
    inits, init_tree = tree.flatten(init_values)
    if treedef != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {treedef} vs. {init_tree}"
        )
    if len(leaves) != len(inits):
        raise ValueError(
            f"Must have same total number of operands as init_values: {len(leaves)} vs. "
            f"{len(inits)}"
        )
    shapes = [typeof(i).shape for i in inits]
    if any(shapes):
        if name == "reduce_window":  # the classes are JAX's
            raise TypeError(
                "reduce_window expected init_values to be scalars but init_values have shapes "
                f"{shapes}."
            )
        raise ValueError(f"{name} found non-scalar initial value: {shapes}")
    return leaves, inits, treedef


def _scalar_program(
    name: str, fun: Callable[..., Any], leaves: Sequence[Any], treedef: Any
) -> tuple[ClosedJaxpr, list[Any], Any]:
    """The computation on scalars (accumulator leaves, then element leaves), what it closes over,
    and the structure of its results.
    """
    scalars = [ShapedArray((), typeof(x).dtype) for x in leaves]
    in_tree = tree.treedef_tuple([treedef, treedef])
    closed, consts, out_tree = trace_function(fun, in_tree, [*scalars, *scalars], name)
    if out_tree.num_leaves != len(leaves):
        raise ValueError(
            f"{name} got mismatched shape/tree from its computation: it must return {treedef} as "
            f"its operands, got {out_tree}."
        )
    for want, out in zip(scalars, closed.out_avals, strict=True):
        if out.shape or out.dtype != want.dtype:
            raise ValueError(
                f"{name} got mismatched dtypes or shapes from its computation: it must return a "
                f"scalar {want.dtype.name} for each operand of that dtype, got "
                f"{out.str_short()}. Fix: convert the result, or the operand."
            )
    return closed, consts, out_tree


_MONOIDS = {
    e.add_p: "add",
    e.mul_p: "mul",
    e.max_p: "max",
    e.min_p: "min",
    e.and_p: "and",
    e.or_p: "or",
    e.xor_p: "xor",
}


_NAMED = (e.add, e.mul, e.max, e.min, e.bitwise_and, e.bitwise_or, e.bitwise_xor)


def _monoid(closed: ClosedJaxpr, consts: Sequence[Any]) -> str | None:
    """The name of the one operation that a computation is, applied to its two arguments."""
    jaxpr = closed.jaxpr
    if consts or len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    same = eqn.outvars[0] is jaxpr.outvars[0] and set(eqn.invars) == set(jaxpr.invars)
    return _MONOIDS.get(eqn.primitive) if same else None


def _identity(kind: str, dtype: Any) -> Any:
    if kind in ("max", "min"):
        return extreme_fill(dtype, kind == "max")
    if kind == "and":
        return np.asarray(-1).astype(dtype)[()] if dtypes.is_integer(dtype) else np.True_
    return np.asarray(1 if kind == "mul" else 0).astype(dtype)[()]


def _is_identity(init: Any, kind: str, computation: Any, operand: Any) -> bool:
    """Whether a known initial value changes nothing. For an operation of lax itself, not one that
    was written anew, it need not have the operand's dtype.
    """
    if isinstance(init, Tracer):
        return False
    dtype = typeof(init).dtype
    plain = getattr(computation, "__wrapped__", computation)  # lax's are entered: api/eager
    if dtype != typeof(operand).dtype and plain not in _NAMED:
        return False
    return bool(np.asarray(init).astype(dtype) == _identity(kind, dtype))


def _elementwise(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """A program on scalars applied to arrays of one shape, element by element."""
    shape = typeof(args[0]).shape
    if not shape:
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)
    n = 1
    for m in shape:
        n = n * m
    flat = [reshape(x, (n,)) for x in args]
    outs, dims = batch_flat(
        lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs),
        flat,
        [0] * len(flat),
        AxisData(None, n),
    )
    return [reshape(matchaxis(n, d, 0, x), shape) for x, d in zip(outs, dims)]


def _halving(closed: ClosedJaxpr, xs: list[Any], axis: int) -> list[Any]:
    """All elements along an axis combined, in halves; the axis is gone. It has at least one
    element.
    """
    n = typeof(xs[0]).shape[axis]
    while n > 1:
        half = n // 2
        left, right = ([slice_in_dim(x, k, k + half, 1, axis) for x in xs] for k in (0, half))
        rest = [slice_in_dim(x, 2 * half, n, 1, axis) for x in xs] if n % 2 else None
        xs = _elementwise(closed, [*left, *right])
        if rest is not None:
            xs = [concatenate([x, r], axis) for x, r in zip(xs, rest)]
        n = half + n % 2
    return [squeeze(x, (axis,)) for x in xs]


def _reduce_by_halves(
    closed: ClosedJaxpr, xs: Sequence[Any], inits: Sequence[Any], axes: Sequence[int]
) -> list[Any]:
    """A reduction made of the computation on arrays, so that it has every derivative and batch that
    the computation has.
    """
    xs = list(xs)
    shape = typeof(xs[0]).shape
    kept = tuple(n for k, n in enumerate(shape) if k not in axes)
    start = [broadcast_in_dim(i, kept, ()) if kept else i for i in inits]
    if any(shape[a] == 0 for a in axes):
        return start
    for axis in sorted(axes, reverse=True):
        xs = _halving(closed, xs, axis)
    return _elementwise(closed, [*start, *xs])


# --- reduce ---
def _reduce_aval(*args: Any, computation: Any, jaxpr: Any, dimensions: Any) -> list[ShapedArray]:
    n = len(args) // 2
    operands, inits = args[:n], args[n:]
    if any(x.shape != operands[0].shape for x in operands):
        raise ValueError(
            f"reduce operands must have equal shapes, got {[x.shape for x in operands]}"
        )
    for x, i in zip(operands, inits):
        if x.dtype != i.dtype:
            raise TypeError(
                f"operand and init_value dtypes must match: got {x.dtype.name} and {i.dtype.name}"
            )
    shape = reduced_aval("reduce", operands[0], dimensions)
    return [
        ShapedArray(shape, x.dtype, x.weak_type and i.weak_type) for x, i in zip(operands, inits)
    ]


def _split(args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return args[: len(args) // 2], args[len(args) // 2 :]


def _reduce_jvp(
    primals: Any, tangents: Any, *, computation: Any, jaxpr: ClosedJaxpr, dimensions: Any
) -> Any:
    outs = reduce_p.bind(*primals, computation=computation, jaxpr=jaxpr, dimensions=dimensions)
    pairs = _pair_program(jaxpr)
    xs, inits = _split(primals)
    ts, t_inits = _split([_dense(t, x) for t, x in zip(tangents, primals)])
    both = _reduce_by_halves(pairs, [*xs, *ts], [*inits, *t_inits], dimensions)
    return outs, [_float_tangent(t, x) for t, x in zip(both[len(xs) :], outs)]


def _dense(t: Any, x: Any) -> Any:
    """A tangent as an array of its primal's dtype (zeros for integers, whose tangents are void)."""
    if type(t) is Zero or typeof(t).dtype == dtypes.float0:
        return instantiate_zeros(Zero(typeof(x).strip_weak_type()))
    return t


def _float_tangent(t: Any, x: Any) -> Any:
    return t if dtypes.is_inexact(typeof(x).dtype) else zero_of(x)


def _pair_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """(a, a', b, b') -> (c, c') of a computation (a, b) -> c; integers have zeros for tangents."""
    key = "pair_program"
    found = closed.derived.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    n = len(closed.jaxpr.outvars)
    avals = closed.in_avals
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]
    jvp, out_nonzero = jvp_jaxpr(closed, inexact, [True] * n)

    def fun(args: Any) -> list[Any]:
        a, ta, b, tb = (args[k * n : (k + 1) * n] for k in range(4))
        ts = [t for t, f in zip([*ta, *tb], inexact) if f]
        outs = eval_jaxpr(jvp.jaxpr, jvp.consts, *a, *b, *ts)
        rest = iter(outs[n:])
        tangents = [next(rest) if nz else None for nz in out_nonzero]
        return [
            *outs[:n],
            *(
                t
                if dtypes.is_inexact(o.aval.dtype) and t is not None
                else instantiate_zeros(Zero(o.aval))
                for t, o in zip(tangents, closed.jaxpr.outvars)
            ),
        ]

    leaves = [*avals[:n], *avals[:n], *avals[n:], *avals[n:]]
    in_tree = tree.treedef_tuple([tree.flatten([0] * (4 * n))[1]])
    found, _, _ = trace_function(fun, in_tree, leaves, "reduce")
    closed.derived[key] = found
    return found


def _reduce_batch(
    args: Any, dims: Any, *, computation: Any, jaxpr: ClosedJaxpr, dimensions: Any
) -> Any:
    size = batch_size(args, dims)
    (xs, inits), (x_dims, i_dims) = _split(args), _split(dims)
    xs = [full_batch(x, d, size) for x, d in zip(xs, x_dims)]
    axes, out = shifted_axes(dimensions, 0)
    if all(d is None for d in i_dims):
        outs = reduce_p.bind(*xs, *inits, computation=computation, jaxpr=jaxpr, dimensions=axes)
        return outs, [out] * len(outs)
    # An initial value per element: reduce each, with its own.
    n = len(xs)
    flat = [*xs, *(full_batch(i, d, size) for i, d in zip(inits, i_dims))]
    outs, found = batch_flat(
        lambda *vs: _reduce_by_halves(jaxpr, vs[:n], vs[n:], dimensions),
        flat,
        [0] * len(flat),
        AxisData(None, size),
    )
    return [matchaxis(size, d, 0, x) for x, d in zip(outs, found)], [0] * n


reduce_p: Primitive = Primitive(
    "reduce",
    abstract_eval=_reduce_aval,
    jvp=_reduce_jvp,
    transpose=No.NOT_LINEAR,
    batch=_reduce_batch,
    multiple_results=True,
)
_REDUCERS = {
    "mul": reduce_prod_p,
    "max": reduce_max_p,
    "min": reduce_min_p,
    "and": reduce_and_p,
    "or": reduce_or_p,
    "xor": reduce_xor_p,
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combines the elements over `dimensions` by an associative `computation(accumulator,
    element)`, from `init_values` (its identity).

    Operands may be a pytree of arrays of one shape, with a scalar for each.

    >>> lax.reduce(jnp.arange(5), 0, lax.add, (0,))
    Array(10, dtype=int32)
    """
    leaves, inits, treedef = _prepare("reduce", operands, init_values)
    axes = int_tuple(dimensions)
    closed, consts, out_tree = _scalar_program("reduce", computation, leaves, treedef)
    kind = _monoid(closed, consts) if len(leaves) == 1 else None
    if kind is not None:
        if _is_identity(inits[0], kind, computation, leaves[0]):
            if kind == "add":
                out = reduce_sum(leaves[0], axes, out_sharding=out_sharding)
            elif out_sharding is not None:
                raise NotImplementedError(
                    "lax.reduce lays out sums only. Fix: apply lax.with_sharding_constraint to the "
                    "result."
                )
            else:
                out = _REDUCERS[kind].bind(leaves[0], axes=axes)
            aval = typeof(out)
            weak = aval.weak_type and typeof(inits[0]).weak_type
            return tree.unflatten(out_tree, [convert_weak(out, aval.dtype, weak)])
    closed = _close_over("reduce", closed, consts)
    outs = reduce_p.bind(*leaves, *inits, computation=computation, jaxpr=closed, dimensions=axes)
    return tree.unflatten(out_tree, outs)


def _close_over(name: str, closed: ClosedJaxpr, consts: Sequence[Any]) -> ClosedJaxpr:
    """The computation with the values that it closes over inside: they must be concrete."""
    if not consts:
        return closed
    if any(isinstance(c, Tracer) for c in consts):
        raise NotImplementedError(
            f"{name} computations can't close over traced values. Fix: pass the value as one more "
            "operand, or use vmap and scan."
        )
    jaxpr = closed.jaxpr
    k = len(consts)
    return ClosedJaxpr(jaxpr.replace(constvars=jaxpr.invars[:k], invars=jaxpr.invars[k:]), consts)


# --- reduce_window ---
_WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def _window_aval(*args: Any, jaxpr: Any, consts: Any, **window: Any) -> list[ShapedArray]:
    xs, inits = _split(args)
    for x, i in zip(xs, inits):
        if x.dtype != i.dtype:
            raise TypeError(
                "reduce_window got inconsistent dtypes for operands and init_values: got operand "
                f"dtypes {[x.dtype for x in xs]} and init_value dtypes {[i.dtype for i in inits]}."
            )
        if x.shape != xs[0].shape:
            raise ValueError(
                f"reduce_window operands must have equal shapes, got {[x.shape for x in xs]}"
            )
    check_window("reduce_window", xs[0].shape, **window)
    shape = reduce_window_shape_tuple(xs[0].shape, **window)
    return [ShapedArray(shape, x.dtype, x.weak_type and i.weak_type) for x, i in zip(xs, inits)]


def _window_program(jaxpr: Any, consts: Any) -> ClosedJaxpr:
    return ClosedJaxpr(jaxpr, consts) if consts else closed_without_consts(jaxpr)


def _fold_windows(
    closed: ClosedJaxpr, xs: Sequence[Any], inits: Sequence[Any], window: dict[str, Any]
) -> list[Any]:
    """The positions of the window combined one after another; what lies outside of the operand is
    left out, for the initial values need not be neutral.
    """
    full = typeof(xs[0]).shape
    shape = reduce_window_shape_tuple(full, **window)
    total = [broadcast_in_dim(i, shape, ()) if shape else i for i in inits]
    parts = [window_slices(x, i, window) for x, i in zip(xs, inits)]
    outside = any(p != (0, 0) for p in window["padding"]) or any(
        d != 1 for d in window["base_dilation"]
    )
    inside: Sequence[Any] = [None] * len(parts[0])
    if outside:
        inside = window_slices(broadcast_in_dim(np.True_, full, ()), np.False_, window)
    for at, where in zip(zip(*parts), inside):
        both = _elementwise(closed, [*total, *at])
        total = [e.select_n(where, t, b) for t, b in zip(total, both)] if outside else both
    return total


def _window_jvp(primals: Any, tangents: Any, *, jaxpr: Any, consts: Any, **window: Any) -> Any:
    outs = reduce_window_p.bind(*primals, jaxpr=jaxpr, consts=consts, **window)
    pairs = _pair_program(_window_program(jaxpr, consts))
    xs, inits = _split(primals)
    ts, t_inits = _split([_dense(t, x) for t, x in zip(tangents, primals)])
    both = _fold_windows(pairs, [*xs, *ts], [*inits, *t_inits], window)
    return outs, [_float_tangent(t, x) for t, x in zip(both[len(xs) :], outs)]


def _window_batch(args: Any, dims: Any, *, jaxpr: Any, consts: Any, **window: Any) -> Any:
    size = batch_size(args, dims)
    (xs, inits), (x_dims, i_dims) = _split(args), _split(dims)
    xs = [full_batch(x, d, size) for x, d in zip(xs, x_dims)]
    n = len(xs)
    if all(d is None for d in i_dims):
        outs = reduce_window_p.bind(
            *xs, *inits, jaxpr=jaxpr, consts=consts, **batched_window(window, 0)
        )
        return outs, [0] * n
    closed = _window_program(jaxpr, consts)
    flat = [*xs, *(full_batch(i, d, size) for i, d in zip(inits, i_dims))]
    outs, found = batch_flat(
        lambda *vs: _fold_windows(closed, vs[:n], vs[n:], window),
        flat,
        [0] * len(flat),
        AxisData(None, size),
    )
    return [matchaxis(size, d, 0, x) for x, d in zip(outs, found)], [0] * n


reduce_window_p: Primitive = Primitive(
    "reduce_window",
    abstract_eval=_window_aval,
    jvp=_window_jvp,
    transpose=No.NOT_LINEAR,
    batch=_window_batch,
    multiple_results=True,
)
_WINDOW_REDUCERS = {
    "add": reduce_window_sum_p,
    "max": reduce_window_max_p,
    "min": reduce_window_min_p,
}


def _window_pads(shape: Any, sizes: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    """Pairs of pads; as in JAX, those that text means are for the operand before it is dilated."""
    if isinstance(padding, str):
        padding = padtype_to_pads(
            shape, [dilated(k, d) for k, d in zip(sizes, dilation)], strides, padding
        )
    try:
        pairs = [(lo, hi) for lo, hi in padding]
    except (TypeError, ValueError) as error:  # no sequence, and no pair
        raise type(error)(
            f"reduce_window: padding must have a pair (low, high) for each of the {len(sizes)} "
            f"axes of the window, got {padding}"
        ) from None
    return tuple((canonical_size(lo), canonical_size(hi)) for lo, hi in pairs)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combines the elements of windows that slide along every axis, by an associative computation,
    from its identity `init_value`.

    >>> lax.reduce_window(jnp.arange(5.), 0., lax.add, (2,))
    Array([1., 3., 5., 7.], dtype=float32)

    Raises TypeError if the window does not fit the operand.
    """
    leaves, inits, treedef = _prepare("reduce_window", operand, init_value)
    if not leaves:
        raise ValueError("reduce_window must have at least one operand.")
    sizes = int_tuple(window_dimensions)
    ones = (1,) * len(sizes)
    strides = ones if window_strides is None else int_tuple(window_strides)
    base = ones if base_dilation is None else int_tuple(base_dilation)
    dilation = ones if window_dilation is None else int_tuple(window_dilation)
    shape = typeof(leaves[0]).shape
    pads = _window_pads(shape, sizes, strides, padding, dilation)
    window = dict(zip(_WINDOW, (sizes, strides, pads, base, dilation)))
    closed, consts, out_tree = _scalar_program("reduce_window", computation, leaves, treedef)
    if out_tree != treedef:
        raise ValueError(
            "reduce_window output must have the same tree structure as the operands "
            f"{treedef} vs. {out_tree}"
        )
    check_window("reduce_window", shape, **window)
    if not sizes and all(not typeof(x).shape for x in leaves):
        # A scalar has one window, of one element.
        lone = tree.unflatten(treedef, [reshape(x, (1,)) for x in leaves])
        outs = reduce_window(lone, init_value, computation, (1,))
        return tree.tree_map(lambda x: reshape(x, ()), outs)
    kind = _monoid(closed, consts) if len(leaves) == 1 else None
    if kind in _WINDOW_REDUCERS:
        if _is_identity(inits[0], kind, computation, leaves[0]):
            return tree.unflatten(out_tree, [_WINDOW_REDUCERS[kind].bind(leaves[0], **window)])
    closed = _close_over("reduce_window", closed, consts)
    outs = reduce_window_p.bind(
        *leaves, *inits, jaxpr=closed.jaxpr, consts=tuple(closed.consts), **window
    )
    return tree.unflatten(out_tree, outs)
