"""Parts of complex numbers."""

from __future__ import annotations

from typing import Any

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.build import staged
from ..primitives.shape import full_like as filled_like
from .elementary import rad2deg
from .util import check_arraylike, literal, ndim_of, one_array, promote_dtypes_inexact, to_type


def conjugate(x: Any, /) -> Any:
    """The complex conjugate; real arrays unchanged.

    Shape and dtype are those of `x`.

    >>> jnp.conjugate(jnp.array([1 + 2j, 3.0]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    x = one_array("conjugate", x)
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def conj(x: Any, /) -> Any:
    """The complex conjugate; real arrays unchanged.

    `x`: any numbers.

    >>> jnp.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return conjugate(x)


def real(val: Any, /) -> Any:
    """The real part.

    The result has the real dtype that belongs to the argument's.

    >>> jnp.real(jnp.array([1 + 2j, 3.0]))
    Array([1., 3.], dtype=float32)
    """
    val = one_array("real", val)
    return lax.real(val) if dtypes.is_complex(typeof(val).dtype) else staged(val)


def imag(val: Any, /) -> Any:
    """The imaginary part: zeros for real arrays.

    The result has the real dtype that belongs to the argument's.

    >>> jnp.imag(jnp.array([1 + 2j, 3.0]))
    Array([2., 0.], dtype=float32)
    """
    val = one_array("imag", val)
    return lax.imag(val) if dtypes.is_complex(typeof(val).dtype) else filled_like(val, 0)


def _angle(z: Any, deg: bool = False) -> Any:
    if dtypes.is_complex(typeof(z).dtype):
        re = real(z)
        out = lax.atan2(imag(z), re)
    else:
        (re,) = promote_dtypes_inexact(z)
        if not dtypes.is_inexact(typeof(z).dtype):
            re = to_type(re, dtypes.default_float(), False)
        if not ndim_of(re):  # as in JAX, a scalar meets the zero of the default type
            re = to_type(re, dtypes.promote_types(typeof(re).dtype, dtypes.default_float()), False)
        out = lax.atan2(lax.full_like(re, 0), re)
    return rad2deg(out) if deg else out


_angle.__name__ = "angle"

_angle_jit = jit(_angle, static_argnames=("deg",))


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians (degrees if `deg`).

    >>> jnp.angle(jnp.array([1.0, 1j, -1.0]), deg=True)
    Array([  0.,  90., 180.], dtype=float32)
    """
    check_arraylike("angle", z)
    return _angle_jit(z, deg)


@jit
def iscomplex(x: Any) -> Any:
    """Is the imaginary part not 0?

    The result is an array of bools; see `iscomplexobj` for a question about the dtype.

    >>> jnp.iscomplex(jnp.array([1 + 1j, 2 + 0j]))
    Array([ True, False], dtype=bool)
    """
    i = imag(x)
    return lax.ne(i, literal(i, 0))


@jit
def isreal(x: Any) -> Any:
    """Is the imaginary part 0?

    The result is an array of bools; see `isrealobj` for a question about the dtype.

    >>> jnp.isreal(jnp.array([1 + 1j, 2 + 0j]))
    Array([False,  True], dtype=bool)
    """
    i = imag(x)
    return lax.eq(i, literal(i, 0))
