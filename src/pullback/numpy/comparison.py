"""Comparison, the larger and the smaller of two, and kinds of numbers: finite, infinite, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..primitives.shape import full_like as filled_like
from .selecting import number
from .tables import OF_ANY, OF_PAIRS, binary, documented
from .util import one_array, promote_args


def _ordering(name: str, op: Callable[[Any, Any], Any], doc: str) -> Any:
    def f(x: Any, y: Any, /) -> Any:
        x, y = promote_args(name, x, y)
        if not dtypes.is_complex(typeof(x).dtype):
            return op(x, y)
        # Complex numbers are ordered by their real parts, then by their imaginary ones.
        same = lax.eq(lax.real(x), lax.real(y))
        by_imag = op(lax.imag(x), lax.imag(y))
        return lax.select(same, by_imag, op(lax.real(x), lax.real(y)))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = documented(doc, OF_PAIRS)
    return f


greater = _ordering(
    "greater",
    lax.gt,
    """x > y.

    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)

greater_equal = _ordering(
    "greater_equal",
    lax.ge,
    """x >= y.

    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)

less = _ordering(
    "less",
    lax.lt,
    """x < y.

    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)

less_equal = _ordering(
    "less_equal",
    lax.le,
    """x <= y.

    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)

equal = binary(
    "equal",
    lax.eq,
    """x == y.

    >>> jnp.equal(jnp.array([1, 2]), jnp.array([1.0, 3.0]))
    Array([ True, False], dtype=bool)
    """,
)

not_equal = binary(
    "not_equal",
    lax.ne,
    """x != y.

    >>> jnp.not_equal(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """,
)

maximum_pair = binary(
    "maximum",
    lax.max,
    """The larger; NaN if either is NaN.

    >>> jnp.maximum(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([ 2., nan,  3.], dtype=float32)
    """,
)

minimum_pair = binary(
    "minimum",
    lax.min,
    """The smaller; NaN if either is NaN.

    >>> jnp.minimum(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
    Array([ 1., nan,  2.], dtype=float32)
    """,
)


def isfinite(x: Any, /) -> Any:
    """Is x neither infinite nor NaN?

    The result is an array of bools; integers are always finite.

    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x = one_array("isfinite", x)
    dtype = typeof(x).dtype
    if dtypes.is_float(dtype):
        return lax.is_finite(x)
    if dtypes.is_complex(dtype):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return filled_like(x, True, dtype=np.bool_)


def _infinite(x: Any) -> Any:
    m = lax.abs(x)
    return lax.eq(m, number(np.inf, typeof(m).dtype))


@jit
def isinf(x: Any, /) -> Any:
    """Is x infinite?

    The result is an array of bools; a complex number is infinite if one of its parts is.

    >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    x = one_array("isinf", x)
    dtype = typeof(x).dtype
    if dtypes.is_float(dtype):
        return _infinite(x)
    if dtypes.is_complex(dtype):
        re, im = lax.real(x), lax.imag(x)
        return lax.bitwise_or(_infinite(re), _infinite(im))
    return lax.full_like(x, False, dtype=np.bool_)


def _signed_infinity(name: str, value: float) -> Any:
    def f(x: Any, /, out: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(
                f"The 'out' argument to jnp.{name} is not supported. Fix: use the returned array."
            )
        x = one_array(name, x)
        dtype = typeof(x).dtype
        if dtypes.is_float(dtype):
            return lax.eq(x, number(value, dtype))
        if dtypes.is_complex(dtype):
            raise ValueError(
                f"{name} is not well defined for complex dtypes. Fix: look at x.real and x.imag."
            )
        return lax.full_like(x, False, dtype=np.bool_)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = documented(
        f"""Is x {"minus" if value < 0 else "plus"} infinity? False for integers.

    >>> jnp.{name}(jnp.array([{value}, 1.0]))
    Array([ True, False], dtype=bool)
    """.replace("inf,", "jnp.inf,"),
        OF_ANY,
    )
    return f


isposinf = _signed_infinity("isposinf", np.inf)

isneginf = _signed_infinity("isneginf", -np.inf)


def isnan(x: Any, /) -> Any:
    """Is x NaN?

    The result is an array of bools; a complex number is NaN if one of its parts is.

    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = one_array("isnan", x)
    return lax.ne(x, x)
