"""Operations on bits, and on truth values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from .tables import OF_PAIRS, binary, documented, unary
from .util import literal, promote_args, promote_args_numeric

bitwise_and_pair = binary(
    "bitwise_and",
    lax.bitwise_and,
    """Bitwise and.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_and(0b1100, 0b1010)
    Array(8, dtype=int32, weak_type=True)
    """,
)

bitwise_or_pair = binary(
    "bitwise_or",
    lax.bitwise_or,
    """Bitwise or.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_or(0b1100, 0b1010)
    Array(14, dtype=int32, weak_type=True)
    """,
)

bitwise_xor_pair = binary(
    "bitwise_xor",
    lax.bitwise_xor,
    """Bitwise exclusive or.

    Integers and bools only: TypeError otherwise.

    >>> jnp.bitwise_xor(0b1100, 0b1010)
    Array(6, dtype=int32, weak_type=True)
    """,
)

left_shift = bitwise_left_shift = binary(
    "left_shift",
    lax.shift_left,
    """x shifted left by y bits.

        >>> jnp.left_shift(jnp.array([1, 3]), 2)
        Array([ 4, 12], dtype=int32)
        """,
    promote_args_numeric,
)

invert = bitwise_not = bitwise_invert = unary(
    "invert",
    lax.bitwise_not,
    """Every bit flipped; `not` for bools.

    >>> jnp.bitwise_not(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """,
    promote_args,
)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 shifted right by x2 bits; signed integers keep their sign.

    `x1`, `x2`: integers whose shapes broadcast, else TypeError.

    >>> jnp.right_shift(jnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    unsigned = dtypes.is_unsigned(typeof(x1).dtype)
    return lax.shift_right_logical(x1, x2) if unsigned else lax.shift_right_arithmetic(x1, x2)


bitwise_right_shift = right_shift


@jit
def bitwise_count(x: Any, /) -> Any:
    """The number of bits set in |x|, as uint8.

    `x`: integers of any shape, else TypeError.

    >>> jnp.bitwise_count(jnp.array([0, 7, -8]))
    Array([0, 3, 1], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    if dtypes.is_signed(typeof(x).dtype):
        x = lax.abs(x)
    return lax.convert_element_type(lax.population_count(x), np.uint8)


def _as_bools(name: str, *args: Any) -> list[Any]:
    out = []
    for x in promote_args(name, *args):
        bool_already = dtypes.is_bool(typeof(x).dtype)
        out.append(x if bool_already else lax.ne(x, literal(x, 0)))
    return out


def _logical(name: str, op: Callable[..., Any], doc: str) -> Any:
    def f(*args: Any) -> Any:
        return op(*_as_bools(name, *args))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = documented(doc, OF_PAIRS)
    return f


logical_and_pair = _logical(
    "logical_and",
    lax.bitwise_and,
    """Are both true (not 0)?

    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """,
)

logical_or_pair = _logical(
    "logical_or",
    lax.bitwise_or,
    """Is one true (not 0)?

    >>> jnp.logical_or(jnp.array([0, 1]), jnp.array([0.0, 0.0]))
    Array([False,  True], dtype=bool)
    """,
)

logical_xor_pair = _logical(
    "logical_xor",
    lax.bitwise_xor,
    """Is exactly one true (not 0)?

    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
)


def logical_not(x: Any, /) -> Any:
    """Is x 0?

    The result is an array of bools of the shape of `x`.

    >>> jnp.logical_not(jnp.array([0, 3]))
    Array([ True, False], dtype=bool)
    """
    return lax.bitwise_not(*_as_bools("logical_not", x))
