"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..core.avals import ShapedArray, typeof
from ..core.primitive import No, Primitive
from ..core.symbolic import Zero
from ..lazy_imports import lazy_module
from .builders import add_jaxvals
from .common import NUMBER, check_dtype, zero_of
from .elementwise import max, min, mul, share
from .layout import linear_jvp, reshape, rev
from .shape import concatenate, slice_in_dim, stack

ufuncs: Any = lazy_module("pullback.numpy.ufuncs")

__all__ = [
    "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod",
    "cumprod_p", "cumsum", "cumsum_p",
]  # fmt: skip

Pair = tuple[Any, Any]


def _aval(name: str) -> Callable[..., ShapedArray]:
    def rule(x: Any, *, axis: int, reverse: bool) -> ShapedArray:
        if axis < 0:
            raise ValueError("XLA operations do not allow negative axes")
        if axis >= x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {x.shape}")
        check_dtype(name, x.dtype, (NUMBER,))
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    return rule


def _batch(get: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(args: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (d,) = args, dims
        return get().bind(x, axis=axis + (axis >= d), reverse=reverse), d

    return batch


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ...; there may be one more of the even ones."""
    m, n = typeof(odd).shape[axis], typeof(even).shape[axis]
    first = slice_in_dim(even, 0, m, 1, axis) if n > m else even
    pairs = stack([first, odd], axis + 1)
    shape = typeof(first).shape
    out = reshape(pairs, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    return concatenate([out, slice_in_dim(even, m, n, 1, axis)], axis) if n > m else out


def _scan(combine: Callable[[Pair, Pair], Pair], pair: Pair, axis: int) -> Pair:
    """The running combination of (value, tangent) pairs, in a logarithmic number of steps
    (Blelloch, 1990).
    """
    n = typeof(pair[0]).shape[axis]
    if n < 2:
        return pair

    def cut(p: Pair, start: int, stop: int, step: int) -> Pair:
        return slice_in_dim(p[0], start, stop, step, axis), slice_in_dim(
            p[1], start, stop, step, axis
        )

    odd = _scan(combine, combine(cut(pair, 0, n - 1, 2), cut(pair, 1, n, 2)), axis)
    first = cut(pair, 0, 1, 1)
    if n == 2:
        even = first
    else:
        known = odd if n % 2 else cut(odd, 0, n // 2 - 1, 1)
        rest = combine(known, cut(pair, 2, n, 2))
        even = concatenate([first[0], rest[0]], axis), concatenate([first[1], rest[1]], axis)
    return _interleave(even[0], odd[0], axis), _interleave(even[1], odd[1], axis)


def _jvp(get: Callable[[], Primitive], combine: Callable[[Pair, Pair], Pair]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            out = get().bind(x, axis=axis, reverse=reverse)
            return out, zero_of(out)
        if not reverse:
            return _scan(combine, (x, t), axis)
        out, tangent = _scan(combine, (rev(x, (axis,)), rev(t, (axis,))), axis)
        return rev(out, (axis,)), rev(tangent, (axis,))

    return jvp


def _prod(a: Pair, b: Pair) -> Pair:
    return mul(a[0], b[0]), add_jaxvals(mul(a[1], b[0]), mul(a[0], b[1]))


def _extreme(op: Callable[[Any, Any], Any]) -> Callable[[Pair, Pair], Pair]:
    def combine(a: Pair, b: Pair) -> Pair:
        m = op(a[0], b[0])
        return m, add_jaxvals(mul(a[1], share(a[0], m, b[0])), mul(b[1], share(b[0], m, a[0])))

    return combine


def _logsumexp(a: Pair, b: Pair) -> Pair:
    """By the rule of `logaddexp`, a function with derivatives of its own: those of its formula are
    wrong where both operands are equal."""
    out: Pair = ufuncs.logaddexp_rule((a[0], b[0]), (a[1], b[1]))
    return out


def _has_start(x: Any, *, axis: int, reverse: bool) -> None:
    if x.shape[axis] and not dtypes.is_inexact(x.dtype):
        raise OverflowError(
            f"cumlogsumexp cannot convert its start, -infinity, to {x.dtype.name}. Fix: convert "
            "the operand, x.astype(float)."
        )


def _anything(x: Any, *, axis: int, reverse: bool) -> None:
    """Every operand that has a type has a result."""


def _running(
    name: str,
    combine: Callable[[Pair, Pair], Pair],
    computable: Callable[..., None] = _anything,
) -> Primitive:
    p: Primitive

    def get() -> Primitive:
        return p

    p = Primitive(
        name,
        abstract_eval=_aval(name),
        jvp=_jvp(get, combine),
        transpose=No.NOT_LINEAR,
        batch=_batch(get),
        computable=computable,
    )
    return p


def _cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    return [Zero(x.aval) if type(ct) is Zero else cumsum_p.bind(ct, axis=axis, reverse=not reverse)]


cumsum_p: Primitive = Primitive(
    "cumsum",
    abstract_eval=_aval("cumsum"),
    jvp=linear_jvp(lambda: cumsum_p),
    transpose=_cumsum_transpose,
    batch=_batch(lambda: cumsum_p),
)
cumprod_p = _running("cumprod", _prod)
cummax_p = _running("cummax", _extreme(max))
cummin_p = _running("cummin", _extreme(min))
cumlogsumexp_p = _running("cumlogsumexp", _logsumexp, computable=_has_start)


def _whole(axis: Any) -> int:
    """An axis as lax takes them, whole floats too; TypeError for what is no number, ValueError for
    a text that names none."""
    try:
        return int(axis)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise  # of traced values, which says more
        raise type(error)(f"{error}: axis must be an integer, got {axis!r}.") from None


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The sums of the elements up to each one along an axis (from each one on, if `reverse`).

    >>> lax.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return cumsum_p.bind(operand, axis=_whole(axis), reverse=bool(reverse))


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The products of the elements up to each one along an axis.

    The result has the shape and dtype of `operand`. `reverse` runs from the end. Raises ValueError
    for an axis out of bounds. As `numpy.cumprod`.

    >>> lax.cumprod(jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return cumprod_p.bind(operand, axis=_whole(axis), reverse=bool(reverse))


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The largest of the elements up to each one along an axis; NaN from the first NaN on.

    The result has the shape and dtype of `operand`. `reverse` runs from the end. Raises ValueError
    for an axis out of bounds. As `numpy.maximum.accumulate`.

    >>> lax.cummax(jnp.array([2, 1, 5, 3]))
    Array([2, 2, 5, 5], dtype=int32)
    """
    return cummax_p.bind(operand, axis=_whole(axis), reverse=bool(reverse))


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The smallest of the elements up to each one along an axis; NaN from the first NaN on.

    The result has the shape and dtype of `operand`. `reverse` runs from the end. Raises ValueError
    for an axis out of bounds. As `numpy.minimum.accumulate`.

    >>> lax.cummin(jnp.array([2, 1, 5, 3]))
    Array([2, 1, 1, 1], dtype=int32)
    """
    return cummin_p.bind(operand, axis=_whole(axis), reverse=bool(reverse))


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """log(sum(exp(elements))) of the elements up to each one along an axis.

    Raises OverflowError for integers when it is computed: they have no -infinity to start from.

    `operand`: a float or complex array, as is the result. As `numpy.logaddexp.accumulate`.

    >>> jnp.exp(lax.cumlogsumexp(jnp.log(jnp.array([1., 2., 3.])))).round(3)
    Array([1., 3., 6.], dtype=float32)
    """
    return cumlogsumexp_p.bind(operand, axis=_whole(axis), reverse=bool(reverse))
