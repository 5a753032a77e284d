"""Reductions: sum, prod, max, min, any, all, mean, var, std, average, argmax, argmin,
count_nonzero, ptp.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array
from ..primitives.convert import convert_weak, warn_of_real_parts
from .selecting import number, select_where
from .util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    dtype_of,
    literal,
    refuse_keys,
    refuse_out,
    shape_of,
    static_axes,
    to_type,
    unwrap,
    user_dtype,
)


def _reduction(
    a: Any,
    name: str,
    op: Callable[..., Any],
    start: Any,
    *,
    axis: Any,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    to_bool: bool = False,
    upcast: bool = False,
    combine: Any = None,
    has_identity: bool = True,
    promote_integers: bool = False,
) -> Any:
    """Reduces over `axis`. `start(dtype)` is the identity, used for `where`; `combine` joins
    `initial`; `upcast` sums half floats in float32, unless the caller chose their `dtype`.
    """
    check_arraylike(name, a)
    a = unwrap(a)
    shape = shape_of(a)
    axes, named = split_axes(axis, len(shape))
    if named and op not in _ACROSS:
        raise NotImplementedError(
            f"Named reductions not implemented for jnp.{name}(). "
            "Fix: lax.all_gather over the named axis, then a reduction over the new one."
        )
    if initial is None and not has_identity:
        if where is not None:
            check_arraylike(name, a)
            check_where(name, where)
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask one "
                "has to specify 'initial'"
            )
        if builtins.any(type(shape[k]) is int and shape[k] == 0 for k in axes):
            raise ValueError(
                f"zero-size array to reduction operation {name} which has no identity. "
                f"Fix: pass initial=, as in jnp.{name}(x, initial=0)."
            )
    result_dtype, compute = _dtypes(a, name, dtype, to_bool, upcast, promote_integers)
    if dtypes.is_complex(dtype_of(a)) and not dtypes.is_complex(compute):
        a = as_array(a)
        # Numbers without real part are true too: as NumPy and the array API standard have it.
        if to_bool:
            a = lax.ne(a, np.zeros((), typeof(a).dtype))
        else:
            warn_of_real_parts()
            a = lax.real(a)
    a = (
        to_type(a, compute, False)
        if type(a) in (bool, int, float, complex) or isinstance(a, np.ndarray | np.generic)
        else (convert_weak(a, compute, False))
    )
    if where is not None:
        check_where(name, where)
        a = select_where(where, a, start(compute))
    if dtypes.is_bool(compute) and not named:
        op, combine = _OF_BOOLS.get(op, (op, combine))
    out = getattr(lax, _ACROSS[op])(a, (*named, *axes)) if named else op(a, axes)
    if initial is not None:
        check_arraylike(name, initial)
        if shape_of(initial) != ():
            raise ValueError(
                f"initial value must be a scalar. Got array of shape {shape_of(initial)}"
            )
        out = combine(to_type(initial, typeof(out).dtype, False), out)
    if keepdims:
        out = lax.expand_dims(out, axes) if axes else out
    return out if typeof(out).dtype == result_dtype else convert_weak(out, result_dtype, False)


# Sums and products of bools that stay bools: (reduction, what joins `initial`).
_OF_BOOLS: dict[Any, tuple[Any, Any]] = {
    lax.reduce_sum: (lax.reduce_or, lax.bitwise_or),
    lax.reduce_prod: (lax.reduce_and, lax.bitwise_and),
}

# Reductions over axes that an enclosing `vmap` or map names, by the name of what in `lax` crosses
# its elements.
_ACROSS: dict[Any, str] = {
    lax.reduce_sum: "psum",
    lax.reduce_max: "pmax",
    lax.reduce_min: "pmin",
}


def split_axes(axis: Any, ndim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """(the positions, the names) among the axes of a reduction."""
    axis = static_axes(axis)
    if isinstance(axis, str):
        return (), (axis,)
    if isinstance(axis, tuple) and builtins.any(isinstance(k, str) for k in axis):
        named = tuple(k for k in axis if isinstance(k, str))
        return reduced_axes(tuple(k for k in axis if not isinstance(k, str)), ndim), named
    return reduced_axes(axis, ndim), ()


def axes_size(axis: Any, shape: tuple[Any, ...]) -> Any:
    """How many elements the axes of a reduction hold together, the named ones counted."""
    axes, named = split_axes(axis, len(shape))
    total: Any = lax.axis_size(named) if named else 1
    for k in axes:
        total = total * shape[k]
    return total


def check_where(name: str, where: Any) -> None:
    """Raises ValueError unless `where` is an array of bools, TypeError if it is no array."""
    check_arraylike(name, where)
    if not dtypes.is_bool(dtype_of(where)):
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got where.dtype="
            f"{dtype_of(where)!r}. Fix: compare, as in where=(w != 0)."
        )


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if isinstance(axis, Tracer):
        raise ConcretizationTypeError(
            axis,
            "The axis of a reduction must be an integer or a tuple of integers. "
            "Fix: static_argnames='axis'.",
        )
    axes = canonical_axes(axis, ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return tuple(axes)


def _counted(a: Any) -> Any:
    """What sums and products are made of: bools are numbers of 32 bits, whatever the result."""
    return to_type(unwrap(a), np.dtype("int32"), False) if dtypes.is_bool(dtype_of(a)) else a


def _dtypes(
    a: Any, name: str, dtype: Any, to_bool: bool, upcast: bool, promote_integers: bool
) -> tuple[Any, Any]:
    """(dtype of the result, dtype of the computation)."""
    own = dtype_of(a)
    if to_bool:
        return np.dtype(bool), np.dtype(bool)
    if dtype is not None:
        result = user_dtype(dtype, name)
    elif promote_integers:
        result = _promoted(own)
    else:
        result = own
    compute = result
    if (
        upcast
        and dtype is None
        and dtypes.is_inexact(result)
        and not dtypes.is_complex(result)
        and dtypes.itemsize_bits(result) < 32
    ):
        compute = np.dtype("float32")
    return result, compute


def _promoted(d: Any) -> Any:
    """The dtype of sums: bools and short integers take the default width."""
    refuse_keys(d)
    d = dtypes.canonicalize_dtype(d)  # of 64 bits, from where those were on
    if dtypes.is_bool(d):
        return default_int()
    wide = default_int()
    if dtypes.is_unsigned(d):
        return (
            dtypes.canonicalize_dtype(np.uint64)
            if dtypes.itemsize_bits(d) < 8 * wide.itemsize
            else d
        )
    if dtypes.is_integer(d):
        return wide if dtypes.itemsize_bits(d) < 8 * wide.itemsize else d
    return d


def _lowest(d: Any) -> Any:
    if dtypes.is_bool(d):
        return np.bool_(False)
    if dtypes.is_integer(d):
        return number(dtypes.iinfo(d).min, d)
    return number(-np.inf, d)


def _highest(d: Any) -> Any:
    if dtypes.is_bool(d):
        return np.bool_(True)
    if dtypes.is_integer(d):
        return number(dtypes.iinfo(d).max, d)
    return number(np.inf, d)


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over `axis` (an int, a tuple, or None for all). Short integers are summed in the
    default width.

    `keepdims` keeps the reduced axes with size 1; `initial` is added; `where`: a mask of what
    counts; without `promote_integers` short integers are summed as they are. `out` must be
    None.

    >>> jnp.sum(jnp.ones((2, 3)), axis=1)
    Array([3., 3.], dtype=float32)
    """
    refuse_out("sum", out)
    return sum_reduce(a, axis, dtype, keepdims, initial, where, promote_integers)


def sum_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """`sum` without `out`."""
    check_arraylike("sum", a)
    return _reduction(
        _counted(a),
        "sum",
        lax.reduce_sum,
        lambda d: number(0, d),
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        upcast=True,
        combine=lax.add,
        promote_integers=promote_integers,
    )


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over `axis`.

    Short integers are multiplied in the default width.

    `a`: an array; `keepdims` keeps the reduced axes with size 1; `initial` is a factor;
    `where`: a mask of what counts; without `promote_integers` short integers are multiplied
    as they are. `out` must be None.

    >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=1)
    Array([ 2, 12], dtype=int32)
    """
    refuse_out("prod", out)
    return prod_reduce(a, axis, dtype, keepdims, initial, where, promote_integers)


def prod_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """`prod` without `out`."""
    check_arraylike("prod", a)
    return _reduction(
        _counted(a),
        "prod",
        lax.reduce_prod,
        lambda d: number(1, d),
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        upcast=True,
        combine=lax.mul,
        promote_integers=promote_integers,
    )


def max(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over `axis`; NaN if there is one. An empty axis needs `initial`.

    `axis`: an int, a tuple, or None for all. With `where`, only the elements that it marks, and
    `initial` is needed.

    `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.max(jnp.array([[1, 5], [7, 3]]), axis=0)
    Array([7, 5], dtype=int32)
    """
    refuse_out("max", out)
    return max_reduce(a, axis, None, keepdims, initial, where)


def max_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`max` without `out`."""
    return _reduction(
        a,
        "max",
        lax.reduce_max,
        _lowest,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        combine=lax.max,
        has_identity=False,
    )


def min(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over `axis`; NaN if there is one. An empty axis needs `initial`.

    `axis`: an int, a tuple, or None for all. With `where`, only the elements that it marks, and
    `initial` is needed.

    `keepdims` keeps the reduced axes with size 1. `out` must be None.

    >>> jnp.min(jnp.array([[1, 5], [7, 3]]), axis=0)
    Array([1, 3], dtype=int32)
    """
    refuse_out("min", out)
    return min_reduce(a, axis, None, keepdims, initial, where)


def min_reduce(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`min` without `out`."""
    return _reduction(
        a,
        "min",
        lax.reduce_min,
        _highest,
        axis=axis,
        dtype=dtype,
        keepdims=keepdims,
        initial=initial,
        where=where,
        combine=lax.min,
        has_identity=False,
    )


def amax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`max`.

    >>> jnp.amax(jnp.array([1, 5, 3]))
    Array(5, dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """`min`.

    >>> jnp.amin(jnp.array([1, 5, 3]))
    Array(1, dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


def _of_bits(name: str, op: Any, start: int, combine: Any, *, to_bool: bool = False) -> Any:
    """A reduction of bits, or of truth values, as `reduce` of ufuncs calls it."""

    def reduce(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        return _reduction(
            a,
            name,
            op,
            lambda d: np.bool_(start) if to_bool else number(start, d),
            axis=axis,
            dtype=None if to_bool else dtype,
            keepdims=keepdims,
            initial=initial,
            where=where,
            to_bool=to_bool,
            combine=combine,
        )

    return reduce


all_reduce = _of_bits("all", lax.reduce_and, True, lax.bitwise_and, to_bool=True)
any_reduce = _of_bits("any", lax.reduce_or, False, lax.bitwise_or, to_bool=True)
# Whether an odd number of elements is not 0.
logical_xor_reduce = _of_bits("logical_xor", lax.reduce_xor, False, lax.bitwise_xor, to_bool=True)
bitwise_and_reduce = _of_bits("bitwise_and", lax.reduce_and, -1, lax.bitwise_and)
bitwise_or_reduce = _of_bits("bitwise_or", lax.reduce_or, 0, lax.bitwise_or)
bitwise_xor_reduce = _of_bits("bitwise_xor", lax.reduce_xor, 0, lax.bitwise_xor)


def all(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Are all elements true (not 0)?

    `axis`: an int, a tuple, or None for all. True over nothing.

    `keepdims` keeps the reduced axes with size 1; `where`: a mask of what counts. `out` must
    be None.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    refuse_out("all", out)
    return all_reduce(a, axis, None, keepdims, None, where)


def any(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Is one element true (not 0)?

    `axis`: an int, a tuple, or None for all. False over nothing.

    `keepdims` keeps the reduced axes with size 1; `where`: a mask of what counts. `out` must
    be None.

    >>> jnp.any(jnp.array([[0, 0], [0, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    refuse_out("any", out)
    return any_reduce(a, axis, None, keepdims, None, where)


def _count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return sum_reduce(lax.ne(a, literal(a, 0)), axis, default_int(), keepdims)


_count_nonzero.__name__ = "count_nonzero"

_count_nonzero_jit = jit(_count_nonzero, static_argnames=("axis", "keepdims"))


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not 0, over `axis`.

    `axis`: an int, a tuple, or None for all; the result has the default integer type.

    >>> jnp.count_nonzero(jnp.array([[0, 1], [2, 3]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return _count_nonzero_jit(a, axis=static_axes(axis), keepdims=keepdims)


def _ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return lax.sub(max_reduce(a, axis, None, keepdims), min_reduce(a, axis, None, keepdims))


_ptp_jit = jit(_ptp, static_argnames=("axis", "keepdims"))


def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest element less the smallest, over `axis`.

    `axis`: an int, a tuple, or None for all.

    >>> jnp.ptp(jnp.array([[1, 5], [7, 3]]), axis=1)
    Array([4, 4], dtype=int32)
    """
    refuse_out("ptp", out)
    check_arraylike("ptp", a)
    return _ptp_jit(a, axis=static_axes(axis), keepdims=keepdims)


def _arg(name: str, op: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    check_arraylike(name, a)
    a = as_array(unwrap(a))
    shape = shape_of(a)
    if axis is None:
        flat, k, kept = _ravel(a), 0, tuple(range(len(shape)))
    else:
        k = canonical_axis(axis, len(shape)) if shape or axis not in (0, -1) else 0
        flat, kept = (a, (k,)) if shape else (_ravel(a), ())
    if type(shape_of(flat)[k]) is int and shape_of(flat)[k] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    if dtypes.is_complex(typeof(a).dtype):
        raise TypeError(
            f"jnp.{name}: complex numbers have no order. Fix: use jnp.abs(x), x.real or x.imag."
        )
    out = op(flat, k, default_int())
    return lax.expand_dims(out, kept) if keepdims else out


def _ravel(a: Any) -> Any:
    n: Any = 1
    for m in shape_of(a):
        n = n * m
    return lax.reshape(a, (n,))


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first largest element (of the first NaN), over `axis` or over the flattened
    array.

    `a`: an array; `keepdims` keeps the axis with size 1. `out` must be None.

    >>> jnp.argmax(jnp.array([[1, 5, 2], [7, 3, 7]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    refuse_out("argmax", out)
    return _arg("argmax", lax.argmax, a, axis, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The index of the first smallest element (of the first NaN), over `axis` or over the flattened
    array.

    `a`: an array; `keepdims` keeps the axis with size 1. `out` must be None.

    >>> jnp.argmin(jnp.array([[1, 5, 2], [7, 3, 9]]))
    Array(0, dtype=int32)
    """
    refuse_out("argmin", out)
    return _arg("argmin", lax.argmin, a, axis, keepdims)
