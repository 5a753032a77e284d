"""Reductions that pass over NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..primitives.common import as_array
from . import averages, reductions
from .selecting import number, select_where
from .util import (
    check_arraylike,
    dtype_of,
    given,
    inexact,
    refuse_out,
    static_axes,
    to_type,
    unwrap,
    user_dtype,
)

_STATIC = ("axis", "dtype", "keepdims")


def _nan_reduce(
    name: str,
    reduce: Any,
    fill: Any,
    nan_if_all_nan: bool,
    a: Any,
    axis: Any,
    keepdims: bool,
    **kwargs: Any,
) -> Any:
    a = as_array(unwrap(a))
    if not dtypes.is_inexact(typeof(a).dtype):
        return reduce(a, axis=axis, keepdims=keepdims, **kwargs)
    out = reduce(
        select_where(lax.ne(a, a), fill(typeof(a).dtype), a), axis=axis, keepdims=keepdims, **kwargs
    )
    if nan_if_all_nan:
        lost = reductions.all_reduce(lax.ne(a, a), axis, None, keepdims)
        return select_where(lost, number(np.nan, typeof(out).dtype), out)
    return out


def _jitted(name: str, reduce: Any, fill: Any, lost: bool) -> Any:
    def run(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        return _nan_reduce(
            name,
            reduce,
            fill,
            lost and initial is None,
            a,
            axis,
            keepdims,
            dtype=dtype,
            initial=initial,
            where=where,
        )

    run.__name__ = name
    return jit(run, static_argnames=_STATIC)


_sum = _jitted("nansum", reductions.sum_reduce, lambda d: number(0, d), False)
_prod = _jitted("nanprod", reductions.prod_reduce, lambda d: number(1, d), False)
_max = _jitted("nanmax", reductions.max_reduce, lambda d: number(-np.inf, d), True)
_min = _jitted("nanmin", reductions.min_reduce, lambda d: number(np.inf, d), True)


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over `axis`, NaN counted as 0.

    `axis`, `dtype`, `initial` and `where` as for `sum`.

    >>> jnp.nansum(jnp.array([[1.0, jnp.nan], [2.0, 3.0]]), axis=0)
    Array([3., 3.], dtype=float32)
    """
    refuse_out("nansum", out)
    check_arraylike("nansum", a)
    return _sum(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
        **given(initial=initial, where=where),
    )


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product over `axis`, NaN counted as 1.

    `axis`, `dtype`, `initial` and `where` as for `prod`.

    >>> jnp.nanprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array(6., dtype=float32)
    """
    refuse_out("nanprod", out)
    check_arraylike("nanprod", a)
    return _prod(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
        **given(initial=initial, where=where),
    )


def nanmax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over `axis`, passing over NaN; NaN where all are.

    `axis`, `initial` and `where` as for `max`.

    >>> jnp.nanmax(jnp.array([[1.0, jnp.nan], [2.0, jnp.nan]]), axis=0)
    Array([ 2., nan], dtype=float32)
    """
    refuse_out("nanmax", out)
    check_arraylike("nanmax", a)
    return _max(a, axis=static_axes(axis), keepdims=keepdims, **given(initial=initial, where=where))


def nanmin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over `axis`, passing over NaN; NaN where all are.

    `axis`, `initial` and `where` as for `min`.

    >>> jnp.nanmin(jnp.array([2.0, jnp.nan, 1.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanmin", out)
    check_arraylike("nanmin", a)
    return _min(a, axis=static_axes(axis), keepdims=keepdims, **given(initial=initial, where=where))


def _mean(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None
) -> Any:
    a = as_array(unwrap(a))
    own = typeof(a).dtype
    dtype = user_dtype(dtype, "mean")  # as which JAX warns; what follows asks for none anew
    if dtypes.is_bool(own) or dtypes.is_integer(own):
        return averages.mean(a, axis, dtype, None, keepdims, where=where)
    result = dtype if dtype is not None else inexact(own)
    present = lax.bitwise_not(lax.ne(a, a))
    count = reductions.sum_reduce(present, axis, result, keepdims, None, where)
    total = nansum(a, axis, dtype, None, keepdims, None, where)
    return lax.div(total, count)


_mean.__name__ = "nanmean"
_mean_jit = jit(_mean, static_argnames=_STATIC)


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The mean over `axis` of what is not NaN.

    NaN where all are NaN; integers give floats.

    >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    check_arraylike("nanmean", a)
    return _mean_jit(
        a, axis=static_axes(axis), dtype=dtype, keepdims=keepdims, **given(where=where)
    )


def _var(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, mean: Any) -> Any:
    compute, result = averages.var_dtypes(a, dtype)
    a = to_type(as_array(unwrap(a)), inexact(compute), False)
    if mean is None:
        mean = nanmean(a, axis, compute if dtype is not None else None, None, True, where)
    missing = lax.ne(a, a)
    centered = select_where(
        missing, 0, lax.sub(*averages.rank_aligned(a, to_type(mean, typeof(a).dtype, False)))
    )
    if dtypes.is_complex(typeof(centered).dtype):
        squares = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        squares = lax.square(centered)
    present = lax.bitwise_not(lax.ne(a, a))
    count = reductions.sum_reduce(present, axis, None, keepdims, None, where)
    kind = typeof(count).dtype
    if dtypes.is_inexact(dtypes.result_type(ddof)):
        kind = dtypes.result_type(kind, ddof)  # parts of a degree of freedom count
    n = lax.sub(to_type(count, kind, False), to_type(ddof, kind, False))
    none = lax.le(n, number(0, typeof(n).dtype))
    total = reductions.sum_reduce(squares, axis, None, keepdims, None, where)
    total = select_where(none, np.nan, total)
    n = lax.convert_element_type(select_where(none, 1, n), typeof(total).dtype)
    return (
        lax.convert_element_type(lax.div(total, n), result)
        if typeof(total).dtype != result
        else lax.div(total, n)
    )


def _nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    return _var(a, axis, user_dtype(dtype, "nanvar"), ddof, keepdims, where, mean)


_nanvar.__name__ = "nanvar"
_nanvar_jit = jit(_nanvar, static_argnames=_STATIC)


def _nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    return lax.sqrt(
        _nanvar_jit(
            a,
            axis=axis,
            dtype=user_dtype(dtype, "nanstd"),
            ddof=ddof,
            keepdims=keepdims,
            **given(where=where, mean=mean),
        )
    )


_nanstd.__name__ = "nanstd"
_nanstd_jit = jit(_nanstd, static_argnames=_STATIC)


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The variance over `axis` of what is not NaN.

    The sum of squared distances from the mean, divided by the number of elements that are not NaN
    less `ddof`.

    >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanvar", out)
    check_arraylike("nanvar", a)
    more = {"ddof": ddof} if not (isinstance(ddof, int) and ddof == 0) else {}
    return _nanvar_jit(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
        **more,
        **given(where=where, mean=mean),
    )


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The standard deviation over `axis` of what is not NaN.

    The square root of `nanvar`.

    >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 5.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanstd", out)
    check_arraylike("nanstd", a)
    more = {"ddof": ddof} if not (isinstance(ddof, int) and ddof == 0) else {}
    return _nanstd_jit(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        keepdims=keepdims,
        **more,
        **given(where=where, mean=mean),
    )


def _nanarg(name: str, arg: Any, fill: float) -> Any:
    def run(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
        if not dtypes.is_inexact(dtype_of(a)):
            return arg(a, axis, None, keepdims)
        missing = lax.ne(a, a)
        found = arg(select_where(missing, fill, a), axis, None, keepdims)
        return select_where(reductions.all_reduce(missing, axis, None, bool(keepdims)), -1, found)

    run.__name__ = f"_{name}"
    call = jit(run, static_argnames=("axis", "keepdims"))

    def f(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
        refuse_out(name, out)
        check_arraylike(name, a)
        return call(a, axis=static_axes(axis), keepdims=bool(keepdims))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"""`{name[3:]}`, passing over NaN; -1 where all are NaN.

    >>> jnp.{name}(jnp.array([jnp.nan, 5.0, 5.0]))
    Array(1, dtype=int32)
    """
    return f


nanargmax = _nanarg("nanargmax", reductions.argmax, -np.inf)
nanargmin = _nanarg("nanargmin", reductions.argmin, np.inf)
