"""What functions of matrices share: arguments as floats, sizes, adjoints, products of full
precision.
"""

from __future__ import annotations

from typing import Any

from ... import dtypes, lax
from ...core.avals import typeof
from .. import complex_parts, creation, manipulation, products
from ..util import check_arraylike, promote_dtypes_inexact


def inexact(name: str, *args: Any) -> list[Any]:
    check_arraylike(f"jnp.linalg.{name}", *args)
    return [creation.asarray(x) for x in promote_dtypes_inexact(*args)]


def square_size(name: str, a: Any) -> int:
    """n of an argument of shape (..., n, n). ValueError for others."""
    shape = typeof(a).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            f"Argument to {name} must have shape [..., n, n], got {shape} (a: "
            f"{typeof(a).str_short()})"
        )
    return int(shape[-1])


def transposed(a: Any) -> Any:
    return manipulation.swapaxes(a, -1, -2)


def adjoint(a: Any) -> Any:
    return (
        complex_parts.conj(transposed(a)) if dtypes.is_complex(typeof(a).dtype) else transposed(a)
    )


def mm(a: Any, b: Any) -> Any:
    return products.matmul(a, b, precision=lax.Precision.HIGHEST)


def diagonal_of(a: Any) -> Any:
    return products.diagonal(a, axis1=-2, axis2=-1)
