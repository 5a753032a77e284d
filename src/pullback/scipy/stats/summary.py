"""Summaries of samples: mode, ranks, standard error of the mean."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes, numpy as jnp
from ...api.jit import jit
from ...api.vmap import vmap
from ...core.avals import typeof
from ...numpy.util import canonical_axis, check_arraylike
from ..special.basic import inexact


class ModeResult(NamedTuple):
    mode: Any
    count: Any


def _policy(name: str, nan_policy: str, allowed: tuple[str, ...] = ("propagate",)) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(
            f"Illegal nan_policy value {nan_policy!r}; expected one of "
            f"{{'propagate', 'omit', 'raise'}}"
        )
    if nan_policy not in allowed:
        # JAX says of sem that it supports no others, of mode that it has none yet.
        raise (NotImplementedError if allowed == ("propagate",) else ValueError)(
            f"{name}: Logic for `nan_policy` of {nan_policy} is not implemented. Fix: "
            "nan_policy='propagate', or take the NaNs out first."
        )


@functools.partial(jit, static_argnames=("axis", "nan_policy", "keepdims"))
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """(the most frequent value along `axis`, the least of several; how often it occurs).

    >>> pb.scipy.stats.mode(jnp.array([1, 2, 2])).mode
    Array(2, dtype=int32)
    """
    check_arraylike("mode", a)
    _policy("mode", nan_policy)
    x = jnp.atleast_1d(jnp.asarray(a))
    ndim = typeof(x).ndim
    if axis is None:
        rows, axis_out = jnp.reshape(x, (1, -1)), tuple(range(ndim))
        rest: tuple[int, ...] = ()
    else:
        axis = canonical_axis(axis, ndim)
        moved = jnp.moveaxis(x, axis, -1)
        rest = typeof(moved).shape[:-1]
        rows, axis_out = jnp.reshape(moved, (math.prod(rest), typeof(moved).shape[-1])), (axis,)
    if typeof(rows).shape[-1] == 0:
        value, count = (
            jnp.full(rest, jnp.nan, jnp.result_type(float)),
            jnp.zeros(rest, jnp.result_type(float)),
        )
    else:
        value, count = (jnp.reshape(v, rest) for v in vmap(_row_mode)(rows))
    if keepdims:
        value, count = jnp.expand_dims(value, axis_out), jnp.expand_dims(count, axis_out)
    return ModeResult(value, count)


def _row_mode(row: Any) -> tuple[Any, Any]:
    values, counts = jnp.unique(row, return_counts=True, size=typeof(row).shape[0])
    place = jnp.argmax(counts)
    return values[place], counts[place].astype(int)


@functools.partial(jit, static_argnames=("method", "axis", "nan_policy"))
def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Any:
    """The ranks of the elements, from 1; equal ones share theirs by `method`: "average", "min",
    "max", "dense", or not: "ordinal".

    Raises ValueError for another method.

    `a`: a real array; `axis` None ranks all elements, flat. As `scipy.stats.rankdata`.

    >>> from pullback.scipy import stats
    >>> stats.rankdata(jnp.array([10., 30., 10.]))
    Array([1.5, 3. , 1.5], dtype=float32)
    """
    check_arraylike("rankdata", a)
    _policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method '{method}'")
    x = jnp.asarray(a)
    if axis is not None:
        return jnp.apply_along_axis(functools.partial(rankdata, method=method), axis, x)
    x = jnp.ravel(x)
    out = _ranks(x, method)
    # One NaN makes every rank NaN.
    lost = dtypes.is_inexact(typeof(x).dtype)
    return jnp.where(jnp.any(jnp.isnan(x)), np.nan, out) if lost else out


def _ranks(x: Any, method: str) -> Any:
    n = typeof(x).shape[0]
    order = jnp.argsort(x)
    inverse = (
        jnp.zeros(n, typeof(order).dtype).at[order].set(jnp.arange(n, dtype=typeof(order).dtype))
    )
    kind = jnp.result_type(float)
    if method == "ordinal":
        return (inverse + 1).astype(kind)
    ordered = x[order]
    fresh = jnp.concatenate([jnp.ones((min(n, 1),), bool), ordered[1:] != ordered[:-1]])
    dense = jnp.cumsum(fresh)[inverse]
    if method == "dense":
        return dense.astype(kind)
    starts = jnp.nonzero(fresh, size=n + 1, fill_value=n)[0]
    if method == "max":
        return starts[dense].astype(kind)
    if method == "min":
        return (starts[dense - 1] + 1).astype(kind)
    return 0.5 * (starts[dense] + starts[dense - 1] + 1).astype(kind)


@functools.partial(jit, static_argnames=("axis", "nan_policy", "ddof", "keepdims"))
def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The standard error of the mean along `axis`; nan_policy "omit" leaves NaNs out.

    `a`: a real array; the result lacks `axis` unless `keepdims`. As `scipy.stats.sem`.

    >>> from pullback.scipy import stats
    >>> stats.sem(jnp.array([1., 2., 3., 6.])).round(3)
    Array(1.08, dtype=float32)
    """
    _policy("sem", nan_policy, ("propagate", "omit"))
    (x,) = inexact("sem", a)
    if axis is None:
        x, axis = jnp.ravel(x), 0
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(x), axis=axis, keepdims=keepdims)
        return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(
            count.astype(typeof(x).dtype)
        )
    size = typeof(x).shape[axis]
    return jnp.std(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(
        jnp.asarray(np.float64(size), typeof(x).dtype)
    )
