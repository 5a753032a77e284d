"""Adaptive integration of functions: `quad`.

Gauss and Kronrod's 21 points with global bisection, as QUADPACK's QAGS and QAGI do it (Piessens, de
Doncker-Kapenga, Ueberhuber, Kahaner, "QUADPACK", 1983), without its extrapolation. The pieces are
chosen in a loop that has no derivatives; the integral is then one sum over all points of all
pieces, whose derivatives in what the function depends on are integrals of derivatives over the same
pieces (Leibniz's rule), and in the limits the function's values there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import lax, numpy as jnp
from ..api.derivatives import jvp
from ..api.staging import closure_convert
from ..api.vmap import vmap
from ..control.custom_jvp import custom_jvp
from ..control.while_loop import while_loop
from ..core.avals import typeof
from ..numpy.util import check_arraylike, promote_dtypes_inexact

__all__ = ["quad"]

# The positive points of the 21-point rule, its weights, and those of the 10-point rule in it.
_POINTS = np.array(
    [
        0.995657163025808080735527280689003,
        0.973906528517171720077964012084452,
        0.930157491355708226001207180059508,
        0.865063366688984510732096688423493,
        0.780817726586416897063717578345042,
        0.679409568299024406234327365114874,
        0.562757134668604683339000099272694,
        0.433395394129247190799265943165784,
        0.294392862701460198131126603103866,
        0.14887433898163121088482600112972,
        0.0,
    ]
)
_WEIGHTS = np.array(
    [
        0.011694638867371874278064396062192,
        0.03255816230796472747881897245938952,
        0.05475589657435199603138130024458,
        0.07503967481091995276704314091619,
        0.093125454583697605535065465083366,
        0.109387158802297641899210590325805,
        0.123491976262065851077958109585166,
        0.134709217311473325928054001771707,
        0.142775938577060080797094273138717,
        0.147739104901338491374841515972068,
        0.149445554002916905664936468389821,
    ]
)
_GAUSS = np.array(
    [
        0.066671344308688137593568809893332,
        0.149451349150580593145863396957658,
        0.219086362515982043995534934228163,
        0.269266719309996355091226921569469,
        0.295524224714752870173815619188769,
    ]
)


def _symmetric(values: np.ndarray[Any, Any], sign: float) -> np.ndarray[Any, Any]:
    """A rule's 21 numbers from the 11 of one half."""
    return np.concatenate([values, sign * values[-2::-1]])


POINTS = _symmetric(-_POINTS, -1.0)
WEIGHTS = _symmetric(_WEIGHTS, 1.0)
_odd = np.zeros(11)
_odd[1::2] = _GAUSS
GAUSS = _symmetric(_odd, 1.0)


class _Pieces(NamedTuple):
    """Pieces of [0, 1], `n` of them: where they begin, how long they are, their integrals and
    errors, and which of them rounding no longer divides."""

    n: Any
    start: Any
    length: Any
    value: Any
    error: Any
    narrow: Any
    total: Any
    total_error: Any
    rounding: Any


def _size(x: Any, axes: tuple[int, ...]) -> Any:
    return jnp.max(jnp.abs(x), axis=axes) if axes else jnp.abs(x)


def _rule(g: Callable[[Any], Any], start: Any, length: Any) -> tuple[Any, Any, Any]:
    """(integral, error estimate, what rounding alone may be) of g over a piece, as in QUADPACK."""
    dtype = typeof(start).dtype
    eps = float(jnp.finfo(dtype).eps)
    half = length / 2
    values = vmap(g)(start + half + half * jnp.asarray(POINTS, dtype))
    axes = tuple(range(typeof(values).ndim - 1))
    fine = jnp.tensordot(jnp.asarray(WEIGHTS, dtype), values, 1, precision=lax.Precision.HIGHEST)
    coarse = jnp.tensordot(jnp.asarray(GAUSS, dtype), values, 1, precision=lax.Precision.HIGHEST)
    spread = jnp.tensordot(jnp.asarray(WEIGHTS, dtype), jnp.abs(values - fine / 2), 1)
    height = jnp.tensordot(jnp.asarray(WEIGHTS, dtype), jnp.abs(values), 1)
    error = _size(fine - coarse, axes) * half
    wide = _size(spread, axes) * half
    ratio = 200 * error / jnp.where(wide == 0, 1, wide)
    error = jnp.where((wide != 0) & (error != 0), wide * jnp.minimum(1, ratio**1.5), error)
    floor = 50 * eps * _size(height, axes) * half
    return fine * half, jnp.maximum(error, floor), floor


def _partition(g: Any, limit: int, epsabs: Any, epsrel: Any, dtype: Any) -> _Pieces:
    """Bisects the piece of the largest error until the sum of errors is small, or does not
    matter."""
    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
    value, error, rounding = _rule(g, zero, one)
    axes = tuple(range(typeof(value).ndim))

    def column(x: Any) -> Any:
        empty = jnp.zeros((limit, *typeof(x).shape), typeof(x).dtype)
        return empty.at[0].set(x)

    first = _Pieces(
        jnp.array(1, np.int32),
        jnp.zeros(limit, dtype),
        column(one),
        column(value),
        column(error),
        jnp.zeros(limit, bool),
        value,
        error,
        rounding,
    )

    def running(s: _Pieces) -> Any:
        wanted = jnp.maximum(jnp.maximum(epsabs, epsrel * _size(s.total, axes)), s.rounding)
        left = jnp.any(~s.narrow & (s.error > 0))
        return (s.n < limit) & left & (s.total_error > wanted) & jnp.isfinite(s.total_error)

    def body(s: _Pieces) -> _Pieces:
        k = jnp.argmax(jnp.where(s.narrow, -1, s.error))
        half = s.length[k] / 2
        middle = s.start[k] + half
        left, left_error, left_floor = _rule(g, s.start[k], half)
        right, right_error, right_floor = _rule(g, middle, half)
        value = s.value.at[k].set(left).at[s.n].set(right)
        narrow = (middle + half / 2 == middle) | (half < 4 * jnp.finfo(dtype).tiny)
        error = s.error.at[k].set(left_error).at[s.n].set(right_error)
        return _Pieces(
            s.n + 1,
            s.start.at[s.n].set(middle),
            s.length.at[k].set(half).at[s.n].set(half),
            value,
            error,
            s.narrow.at[k].set(narrow).at[s.n].set(narrow),
            jnp.sum(value, axis=0),
            jnp.sum(error),
            jnp.maximum(s.rounding, left_floor + right_floor),
        )

    return while_loop(running, body, first)  # type: ignore[no-any-return]


def _stretched(f: Callable[[Any], Any], a: Any, b: Any) -> Callable[[Any], Any]:
    """The g whose integral from 0 to 1 is that of f from a to b.

    Endless ranges by x = a + (1 - t) / t and its like, t near 0 being far out, where numbers are
    dense; for limits that are known while Python runs or not: where a limit is infinite, the other
    form is selected.
    """
    low, high = jnp.isinf(a), jnp.isinf(b)
    a0, b0 = jnp.where(low, 0, a), jnp.where(high, 0, b)

    def places(t: Any) -> tuple[Any, Any, Any]:
        """(x, two factors of dx/dt: their product may overflow where f is 0)."""
        safe = jnp.where(t > 0, t, 1)
        far = (1 - safe) / safe
        # Both: x = u / (1 - u^2), u in (-1, 1).
        u = 2 * t - 1
        apart = jnp.where(jnp.abs(u) < 1, (1 - u) * (1 + u), 1)
        way = jnp.where(low & high & (a == b), 0, jnp.sign(b))
        forms = (
            (way * u / apart, way * 2 * (1 + u * u) / apart, 1 / apart),
            (a0 + jnp.sign(b) * far, jnp.sign(b) / safe, 1 / safe),
            (b0 + jnp.sign(a) * far, -jnp.sign(a) / safe, 1 / safe),
            (a0 + (b0 - a0) * t, b0 - a0, 1),  # descending ranges have the other sign
        )
        return tuple(
            jnp.where(low & high, p, jnp.where(high, q, jnp.where(low, r, s)))
            for p, q, r, s in zip(*forms, strict=True)
        )

    def g(t: Any) -> Any:
        x, scale, again = places(t)
        # Points at infinity, which rounding can meet, weigh nothing.
        return jnp.where(jnp.isinf(x) | (scale == 0), 0, f(x) * scale * again)

    return g


def _integral(f: Callable[..., Any], dtype: Any) -> Any:
    """integral(a, b, pieces, values): the sum over the pieces of f(x, *values), with its
    derivatives."""

    @custom_jvp
    def integral(a: Any, b: Any, pieces: Any, values: Any) -> Any:
        start, length = pieces
        g = _stretched(lambda x: f(x, *values), a, b)
        half = length[:, None] / 2
        t = start[:, None] + half + half * jnp.asarray(POINTS, dtype)
        weights = half * jnp.asarray(WEIGHTS, dtype)
        heights = vmap(g)(jnp.reshape(t, -1))
        weights = jnp.reshape(weights, (-1,) + (1,) * (typeof(heights).ndim - 1))
        # Pieces of no length are not there: what f is at their points does not matter.
        return jnp.sum(jnp.where(weights > 0, weights * heights, 0), axis=0)

    @integral.defjvp
    def integral_jvp(primals: Any, tangents: Any) -> Any:
        (a, b, pieces, values), (da, db, _, dvalues) = primals, tangents
        n = len(values)

        def change(x: Any, *both: Any) -> Any:
            return jvp(lambda *v: f(x, *v), both[:n], both[n:])[1]

        out = integral(a, b, pieces, values)
        moved = _integral(change, dtype)(a, b, pieces, (*values, *dvalues)) if n else 0

        def at(limit: Any, rate: Any) -> Any:
            known = jnp.isfinite(limit)
            return jnp.where(known, f(jnp.where(known, limit, 0), *values), 0) * rate

        return out, moved + at(b, db) - at(a, da)

    return integral


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    epsabs: float | None = None,
    epsrel: float | None = None,
    limit: int = 50,
) -> tuple[Any, Any]:
    """(the integral of func(x, *args) from a to b, an estimate of its error).

    a and b are scalars; either may be infinite. func takes a scalar and returns a float scalar, or
    an array whose elements are integrated together. Pieces are bisected until the estimate is below
    `epsabs` or `epsrel` times the integral (1.49e-8, in float32 1e-6, unless given), or there are
    `limit` of them. Differentiable, to any order, in a, b, `args` and what func closes over.

    >>> pb.scipy.integrate.quad(lambda x: jnp.exp(-x), 0.0, jnp.inf)[0]
    Array(1., dtype=float32)

    Raises TypeError for limits that are not real scalars and for func of integers, ValueError for
    a `limit` below 1.
    """
    check_arraylike("quad", a, b)
    a, b = (jnp.asarray(x) for x in promote_dtypes_inexact(a, b))
    if jnp.iscomplexobj(a) or typeof(a).shape or typeof(b).shape:
        raise TypeError(
            f"quad: the limits must be real scalars, got {typeof(a).str_short()} and "
            f"{typeof(b).str_short()}. Fix: pullback.vmap over several."
        )
    try:
        limit = operator.index(limit)
    except TypeError:
        raise TypeError(f"quad: limit must be an int, got {limit!r}") from None
    if limit < 1:
        raise ValueError(f"quad: limit must be at least 1, got {limit}")
    dtype = typeof(a).dtype
    args = args if isinstance(args, tuple) else (args,)
    usual = 1.49e-8 if jnp.finfo(dtype).eps < 1e-10 else 1e-6
    epsabs = usual if epsabs is None else epsabs
    epsrel = usual if epsrel is None else epsrel
    # x is known to be a float: `full` keeps a function of a constant from being a constant.
    converted, closed = closure_convert(lambda x: jnp.asarray(func(x, *args)), a)
    values = tuple(closed)
    kind = jnp.result_type(converted(a, *values))
    if not jnp.issubdtype(kind, np.inexact):
        raise TypeError(f"quad: func must return floats, got {kind}. Fix: convert with .astype.")
    fixed_a, fixed_b = lax.stop_gradient(a), lax.stop_gradient(b)
    fixed = tuple(lax.stop_gradient(v) for v in values)
    g = _stretched(lambda x: converted(x, *fixed), fixed_a, fixed_b)
    pieces = _partition(g, limit, epsabs, epsrel, dtype)
    chosen = (lax.stop_gradient(pieces.start), lax.stop_gradient(pieces.length))
    value = _integral(converted, dtype)(a, b, chosen, values)
    return value, lax.stop_gradient(pieces.total_error)
