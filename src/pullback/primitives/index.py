"""Indexing: gather and scatter. Slices whose starts are values are in dynamic_slice.py.

gather reads a window of `slice_sizes` at each start index; scatter writes one. They are adjoint:
the transpose of gather is scatter-add. Under a batch of operands the window grows by the batch
axis; under a batch of starts the batch axis is one more axis of starts; under both, operand and
starts share it (`operand_batching_dims`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.build import trace_to_jaxpr
from ..core.jaxpr import Jaxpr
from ..core.primitive import No, Primitive
from ..core.symbolic import UndefinedPrimal, Zero, instantiate_zeros
from ..core.trace import Tracer
from .builders import add_jaxvals, batch_size, full_batch
from .common import (
    canonical_shape,
    check_same_dtypes,
    const,
    size_of,
    zero_of,
)
from .elementwise import add, div, eq, max, min, mul, neg, select_n, sub
from .index_checks import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_gather,
    check_scatter,
)
from .layout import broadcast_in_dim, full_of, iota, move_batch_front, reshape
from .shape import full_like, index_in_dim, slice as slice, slice_in_dim


def _shift(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(d + 1 for d in dims)


# --- gather ---
def _gather_aval(
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: Any,
    fill_value: Any,
) -> ShapedArray:
    dn = dimension_numbers
    check_gather(dn, operand, indices, slice_sizes)
    hidden = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    window = [n for d, n in enumerate(slice_sizes) if d not in hidden]
    return ShapedArray(
        _merged(indices.shape[:-1], window, dn.offset_dims), operand.dtype, operand.weak_type
    )


def _merged(
    batch: Sequence[Any], window: Sequence[Any], window_dims: Sequence[int]
) -> tuple[Any, ...]:
    """Sizes with those of the window at `window_dims` and the others in order."""
    rest, inside = iter(batch), iter(window)
    return tuple(
        next(inside) if d in window_dims else next(rest) for d in range(len(batch) + len(window))
    )


def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices = primals
    out = gather_p.bind(operand, indices, **params)
    if type(tangents[0]) is Zero:
        return out, zero_of(out)
    fill = params["fill_value"]
    params = {
        **params,
        "fill_value": 0 if params["mode"] is GatherScatterMode.FILL_OR_DROP else fill,
    }
    return out, gather_p.bind(tangents[0], indices, **params)


def _gather_transpose(
    ct: Any,
    operand: Any,
    indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: Any,
    fill_value: Any,
) -> list[Any]:
    if type(operand) is not UndefinedPrimal or type(ct) is Zero:
        return [Zero(operand.aval) if type(operand) is UndefinedPrimal else None, None]
    dn = dimension_numbers
    out = scatter_add(
        full_of(operand.aval, 0),
        indices,
        ct,
        ScatterDimensionNumbers(
            dn.offset_dims,
            dn.collapsed_slice_dims,
            dn.start_index_map,
            dn.operand_batching_dims,
            dn.start_indices_batching_dims,
        ),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    return [out, None]


def _gather_batch(
    args: Any, dims: Any, *, dimension_numbers: Any, slice_sizes: Any, **params: Any
) -> Any:
    (operand, indices), (od, sd), dn = args, dims, dimension_numbers
    shifted = dn._replace(
        offset_dims=_shift(dn.offset_dims),
        collapsed_slice_dims=_shift(dn.collapsed_slice_dims),
        start_index_map=_shift(dn.start_index_map),
        operand_batching_dims=_shift(dn.operand_batching_dims),
    )
    if sd is None:
        operand = move_batch_front(operand, od)
        n = typeof(operand).shape[0]
        new = shifted._replace(offset_dims=(0, *shifted.offset_dims))
        sizes = (n, *slice_sizes)
    elif od is None:
        indices = move_batch_front(indices, sd)
        new = dn._replace(
            offset_dims=_shift(dn.offset_dims),
            start_indices_batching_dims=_shift(dn.start_indices_batching_dims),
        )
        sizes = slice_sizes
        # Examples may read the same places, and are in no order.
        params |= {"indices_are_sorted": False, "unique_indices": False}
    else:
        operand, indices = move_batch_front(operand, od), move_batch_front(indices, sd)
        n = typeof(operand).shape[0]
        new = shifted._replace(
            operand_batching_dims=(0, *shifted.operand_batching_dims),
            start_indices_batching_dims=(0, *_shift(dn.start_indices_batching_dims)),
        )
        sizes = (0 if n == 0 else 1, *slice_sizes)
    return gather_p.bind(operand, indices, dimension_numbers=new, slice_sizes=sizes, **params), 0


gather_p = Primitive(
    "gather",
    abstract_eval=_gather_aval,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
)
gather_p.remember_types()


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """Windows of `operand` of `slice_sizes` at each start; the last axis of `start_indices` has the
    components of a start.

    Out of bounds: "clip" moves the window inside, "fill" gives `fill_value` (NaN; for integers the
    least value or, if unsigned, the greatest).

    `operand`: an array; `start_indices`: integers (..., k); the result has the shape of their
    leading axes and the axes of the windows, where `offset_dims` says. Raises TypeError or
    ValueError for numbers that do not fit. `x[i]` and `jnp.take` are written with it.

    >>> numbers = lax.GatherDimensionNumbers((), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.array([10, 20, 30]), jnp.array([[2], [0]]), numbers, slice_sizes=(1,))
    Array([30, 10], dtype=int32)
    """
    mode = GatherScatterMode.from_any(mode)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = _fill_of(typeof(operand).dtype)
    elif isinstance(fill_value, float) and dtypes.is_integer(typeof(operand).dtype):
        with np.errstate(all="ignore"):  # integers have no NaN: a number for it, as NumPy's casts
            fill_value = int(np.asarray(fill_value).astype(typeof(operand).dtype))
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=canonical_shape(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=mode,
        fill_value=fill_value,
    )


def _fill_of(d: Any) -> Any:
    """What stands for a missing element of a dtype."""
    if dtypes.is_inexact(d):
        return float("nan")
    if dtypes.is_bool(d):
        return True
    if dtypes.is_integer(d):
        return int(dtypes.iinfo(d).max if dtypes.is_unsigned(d) else dtypes.iinfo(d).min)
    return None


# --- scatter ---
def _scatter_aval(
    operand: Any,
    indices: Any,
    updates: Any,
    *,
    update_jaxpr: Any,
    update_consts: Any,
    dimension_numbers: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> ShapedArray:
    check_scatter(dimension_numbers, operand, indices, updates)
    check_same_dtypes("scatter", [operand, updates])
    return ShapedArray(operand.shape, operand.dtype, operand.weak_type and updates.weak_type)


def _gather_numbers(
    dn: ScatterDimensionNumbers, operand: Any, updates: Any
) -> tuple[GatherDimensionNumbers, tuple[Any, ...]]:
    """The gather that reads what the scatter writes: its dimension numbers and slice sizes."""
    hidden = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    window = iter(updates.shape[d] for d in dn.update_window_dims)
    sizes = tuple(1 if d in hidden else next(window) for d in range(operand.ndim))
    numbers = GatherDimensionNumbers(
        tuple(dn.update_window_dims),
        tuple(dn.inserted_window_dims),
        tuple(dn.scatter_dims_to_operand_dims),
        tuple(dn.operand_batching_dims),
        tuple(dn.scatter_indices_batching_dims),
    )
    return numbers, sizes


def _read_written(ct: Any, indices: Any, updates: Any, params: dict[str, Any]) -> Any:
    """What of `ct` lies where the updates went; 0 where they were dropped."""
    numbers, sizes = _gather_numbers(params["dimension_numbers"], typeof(ct), updates)
    return gather(ct, indices, numbers, sizes, mode=params["mode"], fill_value=0)


def _linear_scatter_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        _operand, indices, _updates = primals
        out = get().bind(*primals, **params)
        t_operand, _, t_updates = tangents
        if type(t_operand) is Zero and type(t_updates) is Zero:
            return out, zero_of(out)
        return out, get().bind(
            instantiate_zeros(t_operand), indices, instantiate_zeros(t_updates), **params
        )

    return jvp


def _linear_scatter_transpose(negate: bool) -> Callable[..., Any]:
    def transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        linear = [type(x) is UndefinedPrimal for x in (operand, updates)]
        if type(ct) is Zero:
            return [
                Zero(x.aval) if lin else None  # type: ignore[union-attr]
                for x, lin in ((operand, linear[0]), (None, False), (updates, linear[1]))
            ]
        ct_updates = None
        if linear[1]:
            ct_updates = _read_written(ct, indices, updates.aval, params)
            ct_updates = neg(ct_updates) if negate else ct_updates
        return [ct if linear[0] else None, None, ct_updates]

    return transpose


def _scatter_batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(args: Any, dims: Any, *, dimension_numbers: Any, **params: Any) -> Any:
        (operand, indices, updates), dn = args, dimension_numbers
        n = batch_size(args, dims)
        operand, updates = full_batch(operand, dims[0], n), full_batch(updates, dims[2], n)
        new = ScatterDimensionNumbers(
            _shift(dn.update_window_dims),
            _shift(dn.inserted_window_dims),
            _shift(dn.scatter_dims_to_operand_dims),
            _shift(dn.operand_batching_dims),
            tuple(dn.scatter_indices_batching_dims),
        )
        if dims[1] is None:
            new = new._replace(update_window_dims=(0, *new.update_window_dims))
        else:
            indices = move_batch_front(indices, dims[1])
            new = new._replace(
                operand_batching_dims=(0, *new.operand_batching_dims),
                scatter_indices_batching_dims=(0, *_shift(dn.scatter_indices_batching_dims)),
            )
        return get().bind(operand, indices, updates, dimension_numbers=new, **params), 0

    return batch


scatter_add_p: Primitive = Primitive(
    "scatter-add",
    abstract_eval=_scatter_aval,
    jvp=_linear_scatter_jvp(lambda: scatter_add_p),
    transpose=_linear_scatter_transpose(False),
    batch=_scatter_batch(lambda: scatter_add_p),
)
scatter_sub_p: Primitive = Primitive(
    "scatter-sub",
    abstract_eval=_scatter_aval,
    jvp=_linear_scatter_jvp(lambda: scatter_sub_p),
    transpose=_linear_scatter_transpose(True),
    batch=_scatter_batch(lambda: scatter_sub_p),
)


def _scatter_mul_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    out = scatter_mul_p.bind(*primals, **params)
    total: Any = None
    if type(t_operand) is not Zero:
        total = scatter_mul_p.bind(t_operand, indices, updates, **params)
    if type(t_updates) is not Zero:
        if not params["unique_indices"]:
            raise NotImplementedError(
                "scatter_mul gradients are only implemented if `unique_indices=True`. Fix: say so, "
                "if no place is named twice: x.at[indices].multiply(y, unique_indices=True)."
            )
        spread = scatter_add(
            full_of(typeof(operand).to_tangent_aval(), 0),
            indices,
            t_updates,
            params["dimension_numbers"],
            indices_are_sorted=params["indices_are_sorted"],
            unique_indices=True,
            mode=params["mode"],
        )
        part = mul(operand, spread)
        total = part if total is None else add_jaxvals(total, part)
    return out, zero_of(out) if total is None else total


def _scatter_mul_transpose(
    ct: Any, operand: Any, indices: Any, updates: Any, **params: Any
) -> list[Any]:
    if type(operand) is not UndefinedPrimal:
        raise NotImplementedError(
            "scatter_mul is linear in its operand only; its updates are differentiated by its jvp"
        )
    if type(ct) is Zero:
        return [Zero(operand.aval), None, None]
    return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]


scatter_mul_p: Primitive = Primitive(
    "scatter-mul",
    abstract_eval=_scatter_aval,
    jvp=_scatter_mul_jvp,
    transpose=_scatter_mul_transpose,
    batch=_scatter_batch(lambda: scatter_mul_p),
)


def _how(params: dict[str, Any]) -> dict[str, Any]:
    return {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}


def _extreme_jvp(get: Callable[[], Primitive]) -> Callable[..., Any]:
    """The tangent of the extreme is shared evenly among the operand and all updates that
    equal it.
    """

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        operand, indices, updates = primals
        out = get().bind(*primals, **params)
        t_operand, _, t_updates = tangents
        if type(t_operand) is Zero and type(t_updates) is Zero:
            return out, zero_of(out)
        t_operand, t_updates = instantiate_zeros(t_operand), instantiate_zeros(t_updates)
        numbers, sizes = _gather_numbers(
            params["dimension_numbers"], typeof(operand), typeof(updates)
        )
        how = _how(params)

        def read(x: Any) -> Any:
            return gather(x, indices, numbers, sizes)

        def count(zeros: Any, x: Any) -> Any:
            return read(scatter_add(zeros, indices, x, params["dimension_numbers"], **how))

        def filled(value: int) -> Any:
            return full_of(typeof(updates).update(weak_type=False), value)

        one = const(operand, 1)
        old, new = read(operand), read(out)
        from_update, from_operand = eq(updates, new), eq(old, new)
        nothing, ones = full_of(typeof(operand), 0), filled(1)
        winners = count(nothing, select_n(from_update, filled(0), ones))
        refs = count(full_of(typeof(operand), 0), filled(1))
        both = div(one, add(winners, one))
        share = select_n(from_operand, div(one, winners), both)
        to_update = select_n(from_update, filled(0), share)
        both = div(one, add(winners, one))
        kept = select_n(from_operand, filled(0), both)
        # Every window loses the operand's tangent once per reference and keeps its share.
        to_operand = div(add(const(operand, -1), kept), refs)
        change = add(mul(read(t_operand), to_operand), mul(t_updates, to_update))
        return out, scatter_add(t_operand, indices, change, params["dimension_numbers"], **how)

    return jvp


scatter_min_p: Primitive = Primitive(
    "scatter-min",
    abstract_eval=_scatter_aval,
    jvp=_extreme_jvp(lambda: scatter_min_p),
    transpose=No.NOT_LINEAR,
    batch=_scatter_batch(lambda: scatter_min_p),
)
scatter_max_p: Primitive = Primitive(
    "scatter-max",
    abstract_eval=_scatter_aval,
    jvp=_extreme_jvp(lambda: scatter_max_p),
    transpose=No.NOT_LINEAR,
    batch=_scatter_batch(lambda: scatter_max_p),
)


def _scatter_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    if params["update_jaxpr"] is not None:
        raise NotImplementedError(
            "scatter_apply JVP not implemented: x.at[indices].apply(func) cannot be "
            "differentiated. Fix: x.at[indices].set(func(x[indices]))."
        )
    if type(t_operand) is Zero and type(t_updates) is Zero:
        out = scatter_p.bind(*primals, **params)
        return out, zero_of(out)
    t_operand, t_updates = instantiate_zeros(t_operand), instantiate_zeros(t_updates)
    if params["unique_indices"]:
        return scatter_p.bind(*primals, **params), scatter_p.bind(
            t_operand, indices, t_updates, **params
        )
    return _scatter_jvp_by_owner(operand, indices, updates, t_operand, t_updates, params)


def _scatter_jvp_by_owner(
    operand: Any, indices: Any, updates: Any, t_operand: Any, t_updates: Any, params: dict[str, Any]
) -> Any:
    """Where several updates have one target, values and tangents must come from the same one: each
    update scatters its number, and only the updates whose number survived are added, to what nobody
    wrote."""
    dn, how = params["dimension_numbers"], _how(params)
    owner, written = _owners(typeof(operand), indices, typeof(updates), params)

    def masked(x: Any, u: Any) -> tuple[Any, Any]:
        free = eq(owner, broadcast_in_dim(np.uint32(0), typeof(operand).shape, ()))
        kept_x = select_n(free, full_of(typeof(x).strip_weak_type(), 0), x)
        return kept_x, select_n(written(), full_of(typeof(u).strip_weak_type(), 0), u)

    kept = [masked(operand, updates), masked(t_operand, t_updates)]
    return tuple(scatter_add(x, indices, u, dn, **how) for x, u in kept)


def _owners(
    operand: ShapedArray, indices: Any, updates: ShapedArray, params: dict[str, Any]
) -> tuple[Any, Callable[[], Any]]:
    """Which update each element of the result is from, counted from 1 (0: it is the operand's); and
    a function that says of each update whether it is in the result (as JAX's programs do, once for
    each use)."""
    dn, shape = params["dimension_numbers"], updates.shape
    scattered = [n for d, n in enumerate(shape) if d not in dn.update_window_dims]
    spread = tuple(1 if d in dn.update_window_dims else n for d, n in enumerate(shape))
    ids = reshape(iota(np.uint32, size_of(scattered)), spread)
    ids = add(ids, broadcast_in_dim(np.uint32(1), shape, ()))
    nobody = broadcast_in_dim(np.uint32(0), operand.shape, ())
    owner = scatter(nobody, indices, ids, dn, **_how(params))
    numbers, sizes = _gather_numbers(dn, operand, updates)
    seen = gather(owner, indices, numbers, sizes)
    return owner, lambda: eq(ids, seen)


def _scatter_transpose(
    ct: Any, operand: Any, indices: Any, updates: Any, **params: Any
) -> list[Any]:
    """The cotangent outside of what was written, and what was written of it: of several updates
    with one target, that of the one which is in the result."""
    linear = [type(x) is UndefinedPrimal for x in (operand, updates)]
    if type(ct) is Zero:
        return [
            Zero(x.aval) if lin else None  # type: ignore[union-attr]
            for x, lin in ((operand, linear[0]), (None, False), (updates, linear[1]))
        ]
    aval = updates.aval if linear[1] else typeof(updates)
    ct_operand = None
    if linear[0]:
        ct_operand = scatter_p.bind(
            ct, indices, full_of(aval.update(dtype=typeof(ct).dtype), 0), **params
        )
    ct_updates = None
    if linear[1]:
        ct_updates = _read_written(ct, indices, aval, params)
        if not params["unique_indices"]:
            _, written = _owners(typeof(ct), indices, aval, params)
            ct_updates = select_n(written(), full_of(typeof(ct_updates), 0), ct_updates)
    return [ct_operand, None, ct_updates]


scatter_p: Primitive = Primitive(
    "scatter",
    abstract_eval=_scatter_aval,
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=_scatter_batch(lambda: scatter_p),
)


@functools.lru_cache(maxsize=1024)
def _combiner(op: Callable[..., Any], dtype: Any) -> Jaxpr:
    """The program of two scalars that combines an element with an update."""
    aval = ShapedArray((), dtype)
    jaxpr, _ = trace_to_jaxpr(lambda x, y: [op(x, y)], [aval, aval])
    return jaxpr


def _bind_scatter(
    p: Primitive,
    op: Any,
    operand: Any,
    indices: Any,
    updates: Any,
    dn: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Any:
    mode = GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    return p.bind(
        operand,
        indices,
        updates,
        update_jaxpr=None if op is None else _combiner(op, typeof(operand).dtype),
        update_consts=(),
        dimension_numbers=dn,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=mode,
    )


def scatter(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with windows replaced by `updates`. Which of several updates of one element wins is
    not defined.

    `scatter_indices`: integers (..., k), `updates`: of the dtype of `operand`. Out of bounds:
    "clip" moves the window inside, "drop" leaves it out. Raises TypeError or ValueError for numbers
    that do not fit. `x.at[i].set(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter(jnp.zeros(3), jnp.array([[1]]), jnp.array([7.]), numbers)
    Array([0., 7., 0.], dtype=float32)
    """
    return _bind_scatter(
        scatter_p,
        None,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_add(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with `updates` added to windows of it; all updates of one element count.

    Arguments as of `lax.scatter`. `x.at[i].add(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_add(jnp.ones(3), jnp.array([[1], [1]]), jnp.array([2., 3.]), numbers)
    Array([1., 6., 1.], dtype=float32)
    """
    return _bind_scatter(
        scatter_add_p,
        add,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_sub(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with `updates` subtracted from windows of it.

    Arguments as of `lax.scatter`. `x.at[i].subtract(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(jnp.ones(3), jnp.array([[1], [1]]), jnp.array([2., 3.]), numbers)
    Array([ 1., -4.,  1.], dtype=float32)
    """
    return _bind_scatter(
        scatter_sub_p,
        sub,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_mul(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with windows of it multiplied by `updates`.

    Arguments as of `lax.scatter`. `x.at[i].mul(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_mul(jnp.array([1., 4.]), jnp.array([[0], [1]]), jnp.array([2., 3.]), numbers)
    Array([ 2., 12.], dtype=float32)
    """
    return _bind_scatter(
        scatter_mul_p,
        mul,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_min(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with windows of it replaced by the lesser of them and `updates`.

    Arguments as of `lax.scatter`. `x.at[i].min(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_min(jnp.array([1., 4.]), jnp.array([[0], [1]]), jnp.array([2., 3.]), numbers)
    Array([1., 3.], dtype=float32)
    """
    return _bind_scatter(
        scatter_min_p,
        min,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_max(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """`operand` with windows of it replaced by the greater of them and `updates`.

    Arguments as of `lax.scatter`. `x.at[i].max(v)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_max(jnp.array([1., 4.]), jnp.array([[0], [1]]), jnp.array([2., 3.]), numbers)
    Array([2., 4.], dtype=float32)
    """
    return _bind_scatter(
        scatter_max_p,
        max,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """`operand` with `func` applied to elements in windows of shape `update_shape`, once for each
    index that selects them.

    Other arguments as of `lax.scatter`. `x.at[i].apply(f)` is written with it.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = jnp.array([1., 4., 9.]), jnp.array([[1]])
    >>> lax.scatter_apply(x, i, jnp.sqrt, numbers, update_shape=(1,))
    Array([1., 2., 9.], dtype=float32)
    """
    aval = typeof(operand)
    scalar = ShapedArray((), aval.dtype)

    def apply(x: Any, _: Any) -> list[Any]:
        out = func(x)
        if typeof(out).shape != () or typeof(out).dtype != aval.dtype:
            raise TypeError(
                f"scatter_apply: func must map a scalar of dtype {aval.dtype} to the same, got "
                f"{typeof(out).str_short()}"
            )
        return [out]

    jaxpr, consts = trace_to_jaxpr(apply, [scalar, scalar])
    if any(isinstance(c, Tracer) for c in consts):
        raise NotImplementedError(
            "scatter_apply: func closes over a traced value. Fix: use gather, the function and "
            "scatter."
        )
    unused = full_like(operand, 0, shape=update_shape)
    return scatter_p.bind(
        operand,
        scatter_indices,
        unused,
        update_jaxpr=jaxpr,
        update_consts=tuple(consts),
        dimension_numbers=dimension_numbers,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode),
    )


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "gather_p",
    "index_in_dim",
    "scatter",
    "scatter_add",
    "scatter_add_p",
    "scatter_apply",
    "scatter_max",
    "scatter_max_p",
    "scatter_min",
    "scatter_min_p",
    "scatter_mul",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub",
    "scatter_sub_p",
    "slice",
    "slice_in_dim",
]
