"""Rounding, to integers and to decimals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..primitives.common import as_array, as_int
from .elementary import by_parts
from .selecting import select_where
from .tables import OF_ANY, documented
from .util import check_arraylike, dtype_of, literal, one_array, refuse_out, to_type, unwrap


def _rounding(name: str, op: Callable[[Any], Any], doc: str) -> Any:
    def f(x: Any, /) -> Any:
        x = one_array(name, x)
        d = typeof(x).dtype
        return x if dtypes.is_integer(d) or dtypes.is_bool(d) else op(x)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = documented(doc, OF_ANY)
    return f


floor = _rounding(
    "floor",
    lax.floor,
    """The largest whole number not above x.

    >>> jnp.floor(jnp.array([1.2, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """,
)

ceil = _rounding(
    "ceil",
    lax.ceil,
    """The smallest whole number not below x.

    >>> jnp.ceil(jnp.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """,
)


@jit
def trunc(x: Any) -> Any:
    """The whole number next to x toward 0.

    Integers are returned as they are.

    >>> jnp.trunc(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    x = one_array("trunc", x)
    if dtypes.is_integer(typeof(x).dtype) or dtypes.is_bool(typeof(x).dtype):
        return x
    return select_where(lax.lt(x, literal(x, 0)), lax.ceil(x), lax.floor(x))


@jit
def rint(x: Any, /) -> Any:
    """The nearest whole number; halves go to the even one.

    Integers become floats.

    >>> jnp.rint(jnp.array([0.5, 1.5, 2.6]))
    Array([0., 2., 3.], dtype=float32)
    """
    check_arraylike("rint", x)
    dtype = typeof(x).dtype
    if dtypes.is_bool(dtype) or dtypes.is_integer(dtype):
        return to_type(unwrap(x), dtypes.default_float(), False)
    if dtypes.is_complex(dtype):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _round(a: Any, decimals: int = 0, out: None = None) -> Any:
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to jnp.round is not supported. Fix: use the returned array."
        )
    dtype = dtype_of(a)
    if dtypes.is_integer(dtype):
        if decimals < 0:
            raise NotImplementedError(
                "integer np.round not implemented for decimals < 0. Fix: a // 10**n * 10**n."
            )
        return as_array(a)
    if dtypes.is_bool(dtype):
        raise ValueError(
            "round: a bool array has nothing to round. Fix: convert it with x.astype(int)."
        )

    def real_round(x: Any) -> Any:
        if decimals == 0:
            return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
        wide = typeof(x).dtype
        if decimals > np.log10(float(dtypes.finfo(max(wide, np.dtype("float32"))).max)):
            return x  # no digit of any number is as far behind the point
        scale = literal(x, 10.0**decimals)
        if wide == np.float16:
            y = lax.div(
                lax.round(
                    lax.mul(lax.convert_element_type(x, np.float32), np.float32(10.0**decimals)),
                    lax.RoundingMethod.TO_NEAREST_EVEN,
                ),
                np.float32(10.0**decimals),
            )
            return lax.convert_element_type(y, wide)
        return lax.div(lax.round(lax.mul(x, scale), lax.RoundingMethod.TO_NEAREST_EVEN), scale)

    return by_parts(real_round, a)


_round.__name__ = "round"

_round_jit = jit(_round, static_argnames=("decimals", "out"))


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to a number of decimals; halves go to the even neighbour.

    The dtype is that of `a`, but for Python numbers.

    `out` must be None.

    >>> jnp.round(jnp.array([0.5, 1.5, 2.25]), 1)
    Array([0.5, 1.5, 2.2], dtype=float32)
    """
    check_arraylike("round", a)
    decimals = as_int(decimals, "decimals")
    refuse_out("round", out)
    return _round_jit(a, decimals, None)


def around(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`a` rounded to a number of decimals; halves go to the even neighbour.

    The dtype is that of `a`.

    >>> jnp.around(jnp.array([1.25, 2.678]), 1)
    Array([1.2, 2.7], dtype=float32)
    """
    check_arraylike("around", a)
    decimals = as_int(decimals, "decimals")
    refuse_out("around", out)
    return _around_jit(a, decimals)


def _around(a: Any, decimals: int) -> Any:
    return round(a, decimals)


_around.__name__ = "around"

_around_jit = jit(_around, static_argnames=("decimals",))
