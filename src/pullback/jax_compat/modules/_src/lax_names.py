"""Names of `jax._src.lax.lax`, `.utils` and `.windowed_reductions`: small functions that operations
share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import lax
from ....core.avals import typeof
from ....dtypes import is_extended, python_scalar_dtypes
from ....primitives.common import real_dtype
from ....primitives.convert import convert_weak
from ....primitives.shape import full_like


def remaining(original: Sequence[Any], *removed_lists: Sequence[Any]) -> list[Any]:
    """What is in a list and in none of the others, in its order."""
    removed = {x for one in removed_lists for x in one}
    return [x for x in original if x not in removed]


def _convert_element_type(
    operand: Any,
    new_dtype: Any = None,
    weak_type: bool = False,
    sharding: Any = None,
    warn_on_complex_to_real_cast: bool = True,
) -> Any:
    return convert_weak(operand, new_dtype, weak_type)


def _const(example: Any, val: Any) -> Any:
    """A number of an array's dtype."""
    if type(example) in python_scalar_dtypes:
        return type(example)(val)
    return np.array(val, typeof(example).dtype)


def _zeros(x: Any, *, dtype: Any = None, shape: Any = None) -> Any:
    return full_like(x, 0, dtype=dtype, shape=shape)


def _ones(x: Any, *, dtype: Any = None, shape: Any = None) -> Any:
    return full_like(x, 1, dtype=dtype, shape=shape)


def _delta(dtype: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """One where the places along some axes are equal, else zero."""
    first, *others = (lax.broadcasted_iota(np.int32, shape, a) for a in axes)
    equal = lax.full(shape, True)
    for place in others:
        equal = lax.bitwise_and(equal, lax.eq(first, place))
    return lax.convert_element_type(equal, dtype)


def _eye(dtype: Any, shape: Sequence[int], offset: int = 0) -> Any:
    """One on a diagonal of the first two axes, else zero."""
    row, column = _rows_and_columns(shape, offset)
    return lax.convert_element_type(lax.eq(row, column), dtype)


def _tri(dtype: Any, shape: Sequence[int], offset: int) -> Any:
    """One on and below a diagonal of the first two axes, else zero."""
    row, column = _rows_and_columns(shape, offset)
    return lax.convert_element_type(lax.ge(row, column), dtype)


def _rows_and_columns(shape: Sequence[int], offset: int) -> tuple[Any, Any]:
    row, column = (lax.broadcasted_iota(np.int32, shape, a) for a in (0, 1))
    return lax.add(row, lax.full_like(row, offset)), column


def _isnan(x: Any) -> Any:
    return lax.ne(x, x)


def dtype_to_string(dtype: Any) -> str:
    """A dtype's name."""
    return str(dtype.name if is_extended(dtype) else np.dtype(dtype).name)


def input_dtype(x: Any, *_: Any, out_dtype: Any = None, **__: Any) -> Any:
    """The dtype of a result that has its operand's."""
    return x.dtype if out_dtype is None else out_dtype


def int_dtype_for_dim(d: Any, *, signed: bool) -> np.dtype[Any]:
    """The narrowest of 32 and 64 bits in which places along an axis can be counted."""
    top = np.iinfo(np.int32 if signed else np.uint32).max
    wide = not isinstance(d, int) or d > top
    return np.dtype(("" if signed else "u") + ("int64" if wide else "int32"))


def int_dtype_for_shape(shape: Sequence[Any], *, signed: bool) -> np.dtype[Any]:
    """The narrowest of 32 and 64 bits in which places in an array can be counted."""
    kinds = [int_dtype_for_dim(d, signed=signed) for d in shape]
    return max(kinds, key=lambda d: d.itemsize, default=int_dtype_for_dim(0, signed=signed))


def _complex_basetype(dtype: Any, **_: Any) -> Any:
    """The dtype of the parts of a complex number; of a real one its own."""
    return real_dtype(dtype)


def _select_and_gather_add(
    tangents: Any,
    operand: Any,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[Sequence[int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Any:
    """Of each window of `tangents` the element where that of `operand` is its extreme."""
    return lax.select_and_gather_add_p.bind(
        tangents,
        operand,
        select_prim=select_prim,
        **_window(window_dimensions, window_strides, padding),
        base_dilation=tuple(base_dilation),
        window_dilation=tuple(window_dilation),
    )


def _select_and_scatter_add(
    source: Any,
    operand: Any,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[Sequence[int]],
) -> Any:
    """Each element of `source` added where the window of `operand` has its extreme."""
    window = _window(window_dimensions, window_strides, padding)
    return lax.select_and_scatter_add_p.bind(source, operand, select_prim=select_prim, **window)


def _window(dimensions: Any, strides: Any, padding: Any) -> dict[str, Any]:
    return {
        "window_dimensions": tuple(dimensions),
        "window_strides": tuple(strides),
        "padding": tuple(map(tuple, padding)),
    }
