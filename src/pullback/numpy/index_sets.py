"""Sets of positions: of diagonals and triangles, flat positions and back, open grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..core.avals import typeof
from ..core.trace import Tracer
from ..dtypes import default_int
from ..errors import ConcretizationTypeError
from ..primitives.common import as_array, as_int, canonical_shape
from . import arithmetic, comparison, indexing
from .creation import array
from .manipulation import broadcast_arrays
from .nonzeros import nonzero
from .selecting import number, select_where
from .util import (
    check_arraylike,
    is_arraylike,
    literal,
    ndim_of,
    promote_dtypes,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The positions along each axis of flat positions in an array of `shape`; out of range, the
    nearest valid.

    A tuple of arrays of the shape of `indices`. Sizes may be traced.

    >>> jnp.unravel_index(jnp.array([4, 1]), (2, 3))
    (Array([1, 0], dtype=int32), Array([1, 1], dtype=int32))
    """
    check_arraylike("unravel_index", indices)
    sizes = tuple(shape) if isinstance(shape, Sequence) or ndim_of(shape) else (shape,)
    rest = as_array(unwrap(indices))
    own = typeof(rest).dtype
    short = dtypes.is_integer(own) and own.itemsize < 4
    wide = short and any(type(n) is int and n > dtypes.iinfo(own).max for n in sizes)
    if wide:
        rest = lax.convert_element_type(rest, np.dtype("int32"))
    positions = []
    for n in reversed(sizes):
        rest, position = arithmetic.divmod(rest, n)
        positions.append(position)
    if not sizes:
        return ()
    over = comparison.greater(rest, 0)
    under = False if dtypes.is_unsigned(typeof(rest).dtype) else comparison.less(rest, -1)
    clamped = (
        select_where(over, n - 1, select_where(under, 0, i))
        for n, i in zip(sizes, reversed(positions), strict=True)
    )
    return tuple(lax.convert_element_type(i, own) if wide else i for i in clamped)


def _concrete(x: Any, name: str) -> int:
    if isinstance(x, Tracer):
        raise ConcretizationTypeError(x, f"The sizes of the result depend on `{name}`.")
    return as_int(x, name)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of size n.

    A tuple of `ndim` arrays, each of size n.

    >>> jnp.arange(9).reshape(3, 3)[jnp.diag_indices(3)]
    Array([0, 4, 8], dtype=int32)
    """
    n, ndim = _concrete(n, "n"), _concrete(ndim, "ndim")
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (lax.iota(default_int(), n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of `arr`.

    Raises ValueError unless `arr` has two or more axes, all of one size.

    >>> jnp.diag_indices_from(jnp.zeros((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    check_arraylike("diag_indices_from", arr)
    shape = shape_of(arr)
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def _mask_positions(mask: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return tuple(as_array(w.astype(default_int())) for w in np.nonzero(mask))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the lower triangle of an n x m matrix.

    A tuple of two arrays, rows and columns; `k` shifts the diagonal; m is by default n.

    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _mask_positions(_tri("tril_indices", n, m, as_int(k, "k")))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the upper triangle of an n x m matrix.

    A tuple of two arrays, rows and columns; `k` shifts the diagonal; m is by default n.

    >>> jnp.triu_indices(2, k=1)
    (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    return _mask_positions(~_tri("triu_indices", n, m, as_int(k, "k") - 1))


def _tri(name: str, n: int, m: int | None, k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    rows = _concrete(n, "n")
    columns = rows if m is None else _concrete(m, "m")
    if rows < 0 or columns < 0:
        raise TypeError(f"{name}: sizes must be nonnegative, got n={n} and m={m}")
    return np.tri(rows, columns, k, dtype=bool)


def _two_axes(name: str, arr: Any) -> tuple[int, int]:
    shape = shape_of(arr)
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted by jnp.{name}, got {len(shape)} dimensions")
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the lower triangle of `arr`.

    A tuple of two arrays. ValueError unless `arr` has two axes.

    >>> jnp.tril_indices_from(jnp.zeros((2, 3)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _two_axes("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the upper triangle of `arr`.

    A tuple of two arrays. ValueError unless `arr` has two axes.

    >>> jnp.triu_indices_from(jnp.zeros((2, 3)), k=1)
    (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    n, m = _two_axes("triu_indices_from", arr)
    return triu_indices(n, k, m)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, Any]:
    """Where `mask_func(ones((n, n)), k)` is not 0.

    A tuple of two arrays of indices, as from `nonzero`.

    >>> jnp.mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return nonzero(mask_func(lax.full((n, n), 1, np.float32), k), size=size)


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Any:
    """The flat position of positions along each axis. `mode` 'raise' (not under jit), 'wrap' or
    'clip' for what is out of range; 'ignore' computes as if nothing were.

    >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    """
    sizes = canonical_shape(dims)
    parts = (
        list(multi_index)
        if isinstance(multi_index, list | tuple)
        else list(indexing.iterate(as_array(multi_index)))
    )
    if len(parts) != len(sizes):
        raise ValueError(f"len(multi_index)={len(parts)} != len(dims)={len(sizes)}")
    check_arraylike("ravel_multi_index", *parts)
    parts = [as_array(unwrap(p)) for p in parts]
    if any(not dtypes.is_integer(typeof(p).dtype) for p in parts):
        kinds = [typeof(p).dtype.name for p in parts]
        error = TypeError if "bool" in kinds else ValueError
        raise error(f"ravel_multi_index: only int indices permitted, got {kinds}")
    if mode not in ("raise", "clip", "wrap", "ignore"):
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    done = []
    for p, n in zip(parts, sizes, strict=True):
        if mode == "ignore":
            done.append(p)
        elif mode == "raise":
            if isinstance(p, Tracer):
                raise ConcretizationTypeError(
                    p,
                    "The error occurred because ravel_multi_index was jit-compiled with "
                    "mode='raise'. Use mode='wrap' or mode='clip' instead.",
                )
            if (np.asarray(p) < 0).any() or (np.asarray(p) >= n).any():
                raise ValueError("invalid entry in coordinates array")
            done.append(p)
        elif mode == "clip":
            done.append(lax.clamp(literal(p, 0), p, literal(p, n - 1)))
        else:
            r = lax.rem(p, lax.full_like(p, n))
            done.append(
                lax.select(lax.lt(r, lax.full_like(r, 0)), lax.add(r, lax.full_like(r, n)), r)
            )
    if dtype is not None:
        dtype = user_dtype(dtype, "ravel_multi_index")
        if not dtypes.is_integer(dtype):
            raise ValueError(f"ravel_multi_index: {dtype=} is not an integer type.")
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1] if order == "C" else np.cumprod([1, *sizes[:-1]])
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    done = broadcast_arrays(*promote_dtypes(*done)) if done else []
    out: Any = number(0, typeof(done[0]).dtype if done else np.int32)
    for p, s in zip(done, strides, strict=True):
        out = lax.add(out, lax.mul(p, literal(p, int(s))))
    out = as_array(out)
    return out if dtype is None else lax.convert_element_type(out, dtype)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Arrays of indices (or masks) shaped so that together they index a grid.

    >>> rows, columns = jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))
    >>> jnp.arange(12).reshape(3, 4)[rows, columns]
    Array([[ 1,  3],
           [ 9, 11]], dtype=int32)
    """
    out = []
    for k, a in enumerate(args):
        a = array(a, copy=False) if not is_arraylike(a) else as_array(unwrap(a))
        if ndim_of(a) != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {shape_of(a)}"
            )
        if dtypes.is_bool(typeof(a).dtype):
            (a,) = nonzero(a)
        if not shape_of(a)[0]:
            a = to_type(a, default_int(), False)
        out.append(lax.reshape(a, tuple(shape_of(a)[0] if j == k else 1 for j in range(len(args)))))
    return tuple(out)
