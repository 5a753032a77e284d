"""`x.at[idx]`: copies of arrays with some elements set, added to, or otherwise changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.eager import eager
from ..api.placement import freely, lay_out
from ..api.vmap import vmap
from ..core.avals import typeof
from ..core.trace import Tracer
from ..errors import NonConcreteBooleanIndexError
from ..lazy_imports import lazy_module
from ..primitives.common import as_array
from ..primitives.convert import convert_weak
from ..runtime.operands import Policy
from . import arithmetic
from .index_entries import as_tuple, fits_mask, parse, within_reach
from .indexing import Plan, gather_mode, plan, take_index
from .selecting import select_where
from .util import (
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    to_type,
    unwrap,
)

_creation: Any = lazy_module("pullback.numpy.creation")  # which is built on this module


def _ops() -> dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]]:
    """name -> (scatter, the same on whole arrays, for traced masks)."""
    return {
        "set": (lax.scatter, lambda x, v: v),
        "add": (lax.scatter_add, lax.add),
        "subtract": (lax.scatter_sub, lax.sub),
        "multiply": (lax.scatter_mul, lax.mul),
        "min": (lax.scatter_min, lax.min),
        "max": (lax.scatter_max, lax.max),
    }


_OPS = _ops()


def _as_value(values: Any) -> Any:
    try:
        check_arraylike("scatter", values)
    except TypeError:
        return _creation.asarray(values)  # sequences too, of traced numbers among others
    return unwrap(values)


def _as_number(value: int, dtype: Any) -> Any:
    """A Python number for an array of integers: weakly typed, so that strict promotion lets it
    through, but for one that is beyond the default integers and not beyond those of the array."""
    usual, own = (dtypes.iinfo(d) for d in (dtypes.default_int(), dtype))
    if usual.min <= value <= usual.max or not own.min <= value <= own.max:
        return value
    return np.asarray(value, dtype)


def update(
    x: Any,
    idx: Any,
    values: Any,
    how: str,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """A copy of `x` with `values` set at `idx` (or added, ...: `how`). Positions out of bounds are
    dropped, or clamped by mode 'clip'.
    """
    x = as_array(unwrap(x))
    if type(values) in (bool, int) and dtypes.is_integer(typeof(x).dtype):
        values = _as_number(int(values), typeof(x).dtype)
    y = _as_value(values)
    shape = x.shape
    mask = _traced_mask(idx)
    dtype, weak = typeof(x).dtype, typeof(x).weak_type
    warn_unsafe(x, y)
    if mask is not None:
        x, y = promote_dtypes(x, y)
        return _restore(_by_mask(x, mask, y, _OPS[how][1]), dtype, weak)
    entries, added = parse(shape, idx)
    p = plan(shape, within_reach(entries), added, wrap_negative_indices, writes=True)
    if p.empty:
        return x
    x, y = promote_dtypes(x, y)
    mode = lax.GatherScatterMode.FILL_OR_DROP if mode is None else gather_mode(mode)
    y = _fitted(y, typeof(x), p)
    if p.expanded:
        x = lax.expand_dims(x, p.expanded)
    out = _OPS[how][0](
        x,
        p.indices,
        y,
        _numbers(p),
        indices_are_sorted=indices_are_sorted or p.exact,
        unique_indices=unique_indices or p.exact,
        mode=mode,
    )
    if p.expanded:
        out = lax.squeeze(out, p.expanded)
    return _restore(out, dtype, weak)


def _restore(out: Any, dtype: Any, weak: bool) -> Any:
    aval = typeof(out)
    return out if aval.dtype == dtype and aval.weak_type == weak else convert_weak(out, dtype, weak)


def _numbers(p: Plan) -> Any:
    return lax.ScatterDimensionNumbers(
        update_window_dims=p.offset_dims,
        inserted_window_dims=p.collapsed,
        scatter_dims_to_operand_dims=p.index_map,
    )


def _fitted(y: Any, like: Any, p: Plan) -> Any:
    """The values in the shape that the scatter wants."""
    shape = shape_of(y)
    if shape != p.shape:
        _check_fits(shape, p.shape, like.dtype)
        y = lax.broadcast_in_dim(y, p.shape, tuple(range(len(p.shape) - len(shape), len(p.shape))))
    if p.new_axes:
        y = lax.squeeze(y, p.new_axes)
    return lax.rev(y, p.reverse) if p.reverse else y


def _check_fits(shape: tuple[Any, ...], target: tuple[Any, ...], dtype: Any) -> None:
    if len(shape) > len(target):
        # Leading axes of size 1 are let through by NumPy, not by JAX.
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={shape} shape={target}"
        )
    if any(n != m and n != 1 for n, m in zip(reversed(shape), reversed(target))):
        name = getattr(dtype, "name", dtype)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={name}[{','.join(map(str, shape))}] "
            "and requested "
            f"type={name}[{','.join(map(str, target))}]"
        )


def warn_unsafe(x: Any, y: Any) -> None:
    """FutureWarning if values `y` set in `x` might not be those that come out."""
    dx = typeof(x).dtype
    if dtypes.is_extended(dx):
        if typeof(y).dtype != dx:
            raise TypeError(
                f"scatter: values of dtype {typeof(y).dtype.name} cannot be set in an array "
                f"of {dx.name}. "
                "Fix: pass keys of the same implementation."
            )
        return
    joined = dtypes.result_type(dx, y)
    if joined != dx:
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from dtype="
            f"{typeof(y).dtype.name} to dtype={dx.name} with jax_numpy_dtype_promotion=standard. "
            "In future JAX releases this will result in an error.",
            FutureWarning,
            stacklevel=4,
        )


# --- traced masks: more than JAX does, since the result's shape does not depend on them ---
def _traced_mask(idx: Any) -> Any:
    entries = as_tuple(idx)
    if len(entries) != 1:
        return None
    mask = entries[0]
    if isinstance(mask, Tracer) and dtypes.is_bool(mask.aval.dtype):
        return mask
    return None


def _by_mask(x: Any, mask: Any, y: Any, op: Callable[[Any, Any], Any]) -> Any:
    """`op(x, y)` where the mask is true: y must be the same for every element that the mask
    selects.
    """
    shape, k = shape_of(x), len(shape_of(mask))
    if not fits_mask(shape_of(mask), shape[:k]):
        raise IndexError(
            f"boolean index did not match shape of indexed array in index 0: got {shape_of(mask)}, "
            f"expected {list(shape[:k])}"
        )
    if shape_of(mask) != shape[:k]:  # it has no elements
        return x
    rest = shape[k:]
    if len(shape_of(y)) > len(rest) and any(
        n != 1 for n in shape_of(y)[: len(shape_of(y)) - len(rest)]
    ):
        raise NonConcreteBooleanIndexError(mask)
    y = (
        lax.reshape(y, shape_of(y)[len(shape_of(y)) - len(rest) :])
        if len(shape_of(y)) > len(rest)
        else y
    )
    _check_fits(shape_of(y), rest, typeof(x).dtype)
    mask = lax.broadcast_in_dim(mask, shape, tuple(range(k)))
    y = lax.broadcast_in_dim(y, shape, tuple(range(len(shape) - len(shape_of(y)), len(shape))))
    return lax.select(mask, op(x, y), x)


# Positions and values are operands; how they are combined is not.
_eager_update = eager(update, Policy(~0b111, (), True))


# --- what users see ---
class _IndexUpdateHelper:
    """`x.at`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "'_IndexUpdateHelper' object does not support item assignment. Fix: x = "
            "x.at[idx].set(y), which gives a new array, instead of x.at[idx] = y."
        )

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class _IndexUpdateRef:
    """`x.at[idx]`: its methods return copies of `x`, changed at `idx`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def _freely(self, out_sharding: Any, *values: Any) -> tuple[Any, Any]:
        """This place, and values for it, in arrays that lie whole."""
        array, index, *rest = freely(out_sharding, self.array, self.index, *values)
        return _IndexUpdateRef(array, index), rest

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[idx]`, with a mode out of bounds: 'clip', 'fill' (with `fill_value`) or
        'promise_in_bounds'.
        """
        array, index = self.array, self.index
        if out_sharding is not None:
            array, index = freely(out_sharding, array, index)
        out = take_index(
            array,
            index,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            fill_value=fill_value,
            wrap_negative_indices=wrap_negative_indices,
        )
        return out if out_sharding is None else lay_out(out, ".get", out_sharding)

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] = values`. Of several values for one place, any may win.

        >>> jnp.zeros(3).at[1].set(5.)
        Array([0., 5., 0.], dtype=float32)
        """
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.set(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".set", out_sharding)
        return self._update(
            "set", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    def add(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] += values`; repeated places count each time."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.add(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".add", out_sharding)
        return self._update(
            "add", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    def subtract(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] -= values`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.subtract(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".subtract", out_sharding)
        return self._update(
            "subtract", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    def multiply(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] *= values`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.multiply(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".multiply", out_sharding)
        return self._update(
            "multiply", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    mul = multiply

    def min(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] = minimum(x[idx], values)`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.min(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".min", out_sharding)
        return self._update(
            "min", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    def max(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] = maximum(x[idx], values)`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.max(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".max", out_sharding)
        return self._update(
            "max", values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] /= values`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.divide(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".divide", out_sharding)
        ones = lax.full_like(self.array, 1)
        factors = _eager_update(
            ones,
            self.index,
            values,
            "multiply",
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )
        return lax.div(*promote_dtypes_inexact(self.array, factors))

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] **= values`."""
        if out_sharding is not None:
            at, (values,) = self._freely(out_sharding, values)
            out = at.power(
                values,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".power", out_sharding)
        ones = lax.full_like(self.array, 1)
        exponents = _eager_update(
            ones,
            self.index,
            values,
            "multiply",
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )
        return arithmetic.power(self.array, exponents)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `x[idx] = func(x[idx])`; `func` is elementwise, and applied again for each
        repetition of a place.
        """
        if out_sharding is not None:
            out = self._freely(out_sharding)[0].apply(
                func,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                wrap_negative_indices=wrap_negative_indices,
            )
            return lay_out(out, ".apply", out_sharding)
        x = self.array
        if dtypes.is_extended(typeof(x).dtype):  # a key's words are changed together
            each = vmap(func)
            return _apply_to_keys(x.at[self.index], each, mode, wrap_negative_indices)
        mask = _traced_mask(self.index)
        if mask is not None:
            full = lax.broadcast_in_dim(mask, x.shape, tuple(range(len(mask.shape))))
            return select_where(full, to_type(func(x), typeof(x).dtype, False), x)
        entries, added = parse(x.shape, self.index)
        p = plan(x.shape, entries, added, wrap_negative_indices, writes=True)
        if p.empty:
            return x
        how = lax.GatherScatterMode.FILL_OR_DROP if mode is None else gather_mode(mode)
        operand = lax.expand_dims(x, p.expanded) if p.expanded else x
        out = lax.scatter_apply(
            operand,
            p.indices,
            func,
            _numbers(p),
            update_shape=p.core_shape,
            indices_are_sorted=indices_are_sorted or p.exact,
            unique_indices=unique_indices or p.exact,
            mode=how,
        )
        return lax.squeeze(out, p.expanded) if p.expanded else out

    def _update(
        self, how: str, values: Any, is_sorted: bool, unique: bool, mode: Any, wrap: bool
    ) -> Any:
        if mode is None and wrap and not is_sorted and not unique:
            return _eager_update(self.array, self.index, values, how)
        return _eager_update(
            self.array,
            self.index,
            values,
            how,
            indices_are_sorted=is_sorted,
            unique_indices=unique,
            mode=mode,
            wrap_negative_indices=wrap,
        )


# What references (control/refs) are read and written with: positions out of bounds are clamped
# where elements are read; `mode` says what becomes of those that are written.
ref_get = take_index


def ref_set(x: Any, idx: Any, v: Any, mode: str = "drop") -> Any:
    """The value of a reference after x[idx] = v."""
    return _eager_update(x, idx, v, "set", mode=mode)


def ref_add(x: Any, idx: Any, v: Any, mode: str = "drop") -> Any:
    """The value of a reference after x[idx] += v."""
    return _eager_update(x, idx, v, "add", mode=mode)


def _apply_to_keys(places: Any, func: Callable[[Any], Any], mode: Any, wrap: bool) -> Any:
    """Keys with those at some places replaced by a function of each, `func` of a row of them."""
    found = places.get(mode="clip", wrap_negative_indices=wrap)
    changed = func(found.reshape(-1)).reshape(found.shape)
    return places.set(changed, mode=mode, wrap_negative_indices=wrap)
