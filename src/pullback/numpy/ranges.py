"""Arrays by rule: arange, linspace and its kin, eye, tri, diagonals, grids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..api.placement import check_one_place, device_put, lay_out, placed, resharded
from ..api.vmap import vmap
from ..core.avals import typeof
from ..core.dims import DimExpr, max_dim
from ..core.trace import Tracer
from ..dtypes import default_float, default_int
from ..errors import ConcretizationTypeError, InconclusiveDimensionOperation
from ..primitives.common import as_array, as_int, canonical_shape, canonical_size
from ..primitives.convert import convert_weak
from .selecting import LOG10_E, number, select_where
from .util import (
    canonical_axis,
    check_arraylike,
    concrete,
    inexact,
    literal,
    ndim_of,
    promote_dtypes_inexact,
    promote_shapes,
    promotes_freely,
    real_where_asked,
    shape_of,
    to_type,
    unwrap,
    user_dtype,
)


# --- steps ---
def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """start, start + step, ... below stop; `arange(stop)` starts at 0. All must be known now (not
    traced).

    `device`: where the result lies, a device or a sharding; `out_sharding`: the sharding of
    the result.

    >>> jnp.arange(2, 8, 3)
    Array([2, 5], dtype=int32)
    """
    if out_sharding is not None:
        check_one_place(device, out_sharding)
        return lay_out(arange(start, stop, step, dtype), "jnp.arange", out_sharding)
    if device is not None:
        return device_put(arange(start, stop, step, dtype), device)
    if stop is None:  # where a range ends has no derivative, unlike its elements
        start = concrete(start, "It arose in the jnp.arange argument 'stop'")
    for k, (name, x) in enumerate((("start", start), ("stop", stop), ("step", step))):
        if x is None and k:
            continue
        if isinstance(x, Tracer):
            if name == "stop" and x.is_concrete():
                stop = x = concrete(x, "")
            else:
                raise ConcretizationTypeError(x, f"It arose in the jnp.arange argument '{name}'")
        try:
            check_arraylike("arange", x)
        except TypeError:
            raise TypeError(
                f"arange requires ndarray, scalar, or None arguments, got {type(x)} at position "
                f"{k}."
            ) from None
        if ndim_of(x):
            raise ValueError(
                f"jnp.arange: arguments must be scalars, got shape {shape_of(x)} for '{name}'"
            )
    given = [x for x in (start, stop, step) if x is not None]
    if any(isinstance(x, DimExpr) for x in given):
        return _symbolic_arange(start, stop, step, dtype)
    if any(dtypes.is_complex(dtypes.result_type(x)) for x in given):
        raise ValueError(
            "Passing complex start/stop/step to jnp.arange is no longer supported starting in JAX "
            "v0.10.0. Fix: jnp.arange(n) * step + start."
        )
    d = dtypes.result_type(*given) if dtype is None else user_dtype(dtype, "arange")
    values = [_own_number(x) for x in given]
    if stop is None and step is None:
        return lax.iota(d, max(0, math.ceil(values[0])))
    lo, hi = (0, values[0]) if stop is None else (values[0], values[1])
    by = values[-1] if step is not None else 1
    n = max(0, math.ceil(_exact_div(hi - lo, by)))
    if step is None:
        return lax.iota(d, n) if lo == 0 else lax.add(number(lo, d), lax.iota(d, n))
    # Multiples of a step that narrow floats would round are computed in float32.
    narrow = dtypes.is_float(d) and dtypes.itemsize_bits(d) < 32
    wide = np.dtype(np.float32) if narrow else d
    out = lax.add(number(lo, wide), lax.mul(number(by, wide), lax.iota(wide, n)))
    return lax.convert_element_type(out, d) if narrow else out


def _symbolic_arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    """A range with a symbolic end: all ends must be sizes or integers."""
    lo, hi = (0, start) if stop is None else (start, stop)
    by = 1 if step is None else step
    for name, x in (("start", lo), ("stop", hi), ("step", by)):
        if not isinstance(x, int | np.integer | DimExpr):
            raise ValueError(
                "jnp.arange with symbolic dimensions: arguments must be either dimension "
                f"expressions or integers, got {name}={x!r}. Fix: use an integer for {name}."
            )
    if type(by) is int and by == 0:
        raise ValueError("jnp.arange has step == 0. Fix: give another step.")
    d = dtypes.default_int() if dtype is None else user_dtype(dtype, "arange")
    try:
        up = by > 0
    except InconclusiveDimensionOperation as error:
        raise InconclusiveDimensionOperation(
            f"jnp.arange: of the step {by} it must be resolved statically if it is > 0 or < 0. "
            f"Fix: promise it, symbolic_shape(..., constraints=['{by} >= 1'])."
        ) from error
    n = max_dim(0, (hi - lo + by - (1 if up else -1)) // by)
    return lax.add(number(lo, d), lax.mul(number(by, d), lax.iota(d, n)))


def _own_number(x: Any) -> Any:
    """A scalar for Python's arithmetic, floats in their own precision: it decides how many steps
    fit."""
    if isinstance(x, int | float):
        return x
    x = np.asarray(x)[()]
    return x if dtypes.is_float(x.dtype) else x.item()


def _exact_div(a: Any, b: Any) -> Any:
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else a / b


def _linspace(
    start: Any,
    stop: Any,
    num: int,
    endpoint: bool,
    retstep: bool,
    dtype: Any,
    axis: int,
    device: Any = None,
) -> Any:
    start, stop = unwrap(start), unwrap(stop)
    result = inexact(dtypes.result_type(start, stop)) if dtype is None else dtype
    compute = inexact(result)
    start, stop = (to_type(real_where_asked(x, compute), compute, False) for x in (start, stop))
    shape = lax.broadcast_shapes(shape_of(start), shape_of(stop))
    b_start, b_stop = (
        v
        if shape_of(v) == shape
        else lax.broadcast_in_dim(v, shape, tuple(range(len(shape) - ndim_of(v), len(shape))))
        for v in (start, stop)
    )
    k = len(shape) + 1 + axis if axis < 0 else axis
    div = num - 1 if endpoint else num
    row = (*(1,) * k, -1, *(1,) * (len(shape) - k))
    lifted = (*shape[:k], 1, *shape[k:])
    if num > 1:
        step = lax.div(lax.sub(b_stop, b_start), number(div, compute))
        steps = lax.iota(
            np.zeros((), compute).real.dtype if dtypes.is_complex(compute) else compute, div
        )
        t = lax.div(
            _to(
                lax.reshape(steps, tuple(div if n == -1 else n for n in row)) if shape else steps,
                compute,
            ),
            number(div, compute),
        )
        first = lax.mul(lax.reshape(b_start, lifted), lax.sub(number(1, compute), t))
        second = lax.mul(lax.reshape(b_stop, lifted), t)
        out = lax.add(first, second)
        if endpoint:
            out = lax.concatenate([out, lax.expand_dims(b_stop, (k,))], k)
    elif num == 1:
        step = number(np.nan, compute) if endpoint else lax.sub(b_stop, b_start)
        out = lax.reshape(b_start, lifted)
    else:
        step = number(np.nan, compute)
        out = lax.full((*shape[:k], 0, *shape[k:]), 0, compute)
    if dtypes.is_integer(result):
        out = lax.floor(out)
    out = out if typeof(out).dtype == result else convert_weak(out, result, False)
    out = placed(out, device)
    return (out, step) if retstep else out


def _to(x: Any, dtype: Any) -> Any:
    return x if typeof(x).dtype == dtype else convert_weak(x, dtype, False)


_linspace_jit = jit(
    _linspace, static_argnames=("num", "endpoint", "retstep", "dtype", "axis", "device")
)


def _count(num: Any, name: str) -> Any:
    if isinstance(num, Tracer):
        raise ConcretizationTypeError(num, f"It arose in the 'num' argument of jnp.{name}")
    n = canonical_size(num)
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    return n


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from start to stop (included if `endpoint`), along a new `axis`.

    With `retstep` the step comes too. `device`: where the result lies, a device or a
    sharding.

    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    check_arraylike("linspace", start, stop)
    return _linspace_jit(
        start,
        stop,
        num=_count(num, "linspace"),
        endpoint=endpoint,
        retstep=retstep,
        dtype=user_dtype(dtype, "linspace"),
        axis=as_int(axis, "axis"),
        device=device,
    )


def _logspace(
    start: Any, stop: Any, base: Any, num: int, endpoint: bool, dtype: Any, axis: int
) -> Any:
    if dtype is None:
        start, stop = promote_dtypes_inexact(start, stop)
    else:  # exponents are of the kind of the result: a real one drops angles
        d = inexact(dtype)
        start, stop = (_to(real_where_asked(as_array(x), d), d) for x in (start, stop))
    exponents = linspace(start, stop, num, endpoint, False, None, axis)
    (base,) = promote_dtypes_inexact(base)
    d = dtypes.result_type(base, exponents)
    base, exponents = to_type(base, d, False), _to(exponents, d)
    if ndim_of(base) and ndim_of(base) != ndim_of(exponents):
        base = (
            lax.expand_dims(base, (axis,))
            if ndim_of(base) + 1 == ndim_of(exponents)
            else lax.broadcast_to_rank(base, ndim_of(exponents))
        )
    out = lax.pow(base, exponents)
    return out if dtype is None else lax.convert_element_type(out, dtype)


_logspace_jit = jit(_logspace, static_argnames=("num", "endpoint", "dtype", "axis"))


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """base ** linspace(start, stop): numbers evenly spaced on a logarithmic scale.

    >>> jnp.logspace(0, 3, 4)
    Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    check_arraylike("logspace", start, stop, base)
    return _logspace_jit(
        start,
        stop,
        base,
        num=_count(num, "logspace"),
        endpoint=endpoint,
        dtype=user_dtype(dtype, "logspace"),
        axis=as_int(axis, "axis"),
    )


def _geomspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    if dtype is None:
        start, stop = promote_dtypes_inexact(start, stop)
    start, stop = promote_shapes("geomspace", start, stop)
    d = typeof(start).dtype if dtype is None else inexact(dtype)
    start, stop = (convert_weak(real_where_asked(x, d), d, False) for x in (start, stop))
    sign = lax.sign(start)
    if dtypes.is_complex(d):
        # Both on one ray: the magnitudes are interpolated, and the angle kept.
        sign = lax.div(start, _to(lax.abs(start), d))
    logs = [
        lax.mul(lax.log(lax.div(v, s)), number(LOG10_E, d))
        for v, s in ((start, sign), (stop, sign))
    ]
    out = logspace(logs[0], logs[1], num, endpoint, 10.0, None, 0)
    out = lax.mul(lax.broadcast_to_rank(sign, ndim_of(out)) if ndim_of(sign) else sign, _to(out, d))
    if axis != 0:
        k = canonical_axis(axis, ndim_of(out))
        out = lax.transpose(out, (*range(1, k + 1), 0, *range(k + 1, ndim_of(out))))
    return out if dtype is None else lax.convert_element_type(out, dtype)


_geomspace_jit = jit(_geomspace, static_argnames=("num", "endpoint", "dtype", "axis"))


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Numbers from start to stop, each a fixed multiple of the one before.

    `start` and `stop` may be arrays; the numbers are then along `axis` of the result.
    `endpoint=False` leaves `stop` out.

    >>> jnp.geomspace(1.0, 8.0, 4).round(3)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    check_arraylike("geomspace", start, stop)
    return _geomspace_jit(
        start,
        stop,
        num=_count(num, "geomspace"),
        endpoint=endpoint,
        dtype=user_dtype(dtype, "geomspace"),
        axis=as_int(axis, "axis"),
    )


# --- matrices ---
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on the k-th diagonal of an N x M matrix of zeros.

    `dtype`: by default the float type. Sizes are Python ints, known while tracing.

    `device`: where the result lies, a device or a sharding.

    >>> jnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    shape = _matrix_shape(N, M, "eye")
    d = default_float() if dtype is None else user_dtype(dtype, "eye")
    check_arraylike("eye", k)
    if dtypes.is_float(dtypes.result_type(k)):
        raise ValueError(f"k must be a scalar integer; got {k}")
    most = np.iinfo(default_int()).max
    if isinstance(k, int) and not -most <= k <= most:
        k = most  # as every diagonal beyond the matrix: empty
    out = lax.convert_element_type(_diagonal_mask(shape, k), d)
    return out if device is None else device_put(out, device)


def _matrix_shape(N: Any, M: Any, name: str) -> tuple[Any, ...]:
    sizes = canonical_shape((N, N if M is None else M))
    if any(type(n) is int and n < 0 for n in sizes):
        raise (ValueError if name == "eye" else TypeError)(
            f"negative dimensions are not allowed, got {sizes[0]} and {sizes[1]} in jnp.{name}"
        )
    return sizes


def _diagonal_mask(shape: tuple[Any, ...], k: Any) -> Any:
    kind = _offset_type(k)
    rows = lax.broadcasted_iota(kind, shape, 0)
    columns = lax.broadcasted_iota(kind, shape, 1)
    return lax.eq(lax.add(rows, to_type(k, kind, False)), columns)


def _offset_type(k: Any) -> Any:
    """The integers that rows and columns are counted in: an array `k`'s own, of 32 bits or more."""
    return default_int() if type(k) is int else np.result_type(typeof(k).dtype, np.int32)


def identity(n: Any, dtype: Any = None) -> Any:
    """The n x n identity matrix.

    `dtype`: by default the float type.

    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _below(shape: tuple[Any, ...], k: Any) -> Any:
    """True at and below the k-th diagonal."""
    kind = _offset_type(k)
    shifted = lax.add(lax.broadcasted_iota(kind, shape, 0), to_type(k, kind, False))
    return lax.ge(shifted, lax.broadcasted_iota(kind, shape, 1))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below the k-th diagonal.

    Shape (N, M), M by default N; `dtype`: by default the float type.

    >>> jnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    if np.dtype(getattr(k, "dtype", type(k))).kind not in "iu":
        raise TypeError(f"jnp.tri: the offset k must be an integer, got {k!r}. Fix: int(k).")
    return lax.convert_element_type(
        _below(_matrix_shape(N, M, "tri"), k),
        np.dtype("float32") if dtype is None else user_dtype(dtype, "tri"),
    )


def _triangle(name: str, lower: bool, doc: str) -> Any:
    def run(m: Any, k: int = 0) -> Any:
        m = as_array(unwrap(m))
        mask = _below(shape_of(m)[-2:], k if lower else k - 1)
        if ndim_of(m) > 2:
            mask = lax.broadcast_in_dim(mask, shape_of(m), (ndim_of(m) - 2, ndim_of(m) - 1))
        lies = typeof(m)._sharding
        if lies is not None:
            mask = resharded(mask, lies)
        zeros = lax.full_like(m, 0)
        return lax.select(mask, m, zeros) if lower else lax.select(mask, zeros, m)

    run.__name__ = name
    call = jit(run, static_argnames=("k",))

    def f(m: Any, k: int = 0) -> Any:
        check_arraylike(name, m)
        if ndim_of(m) < 2:
            raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
        return call(m, k=as_int(k, "k"))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


tril = _triangle(
    "tril",
    True,
    """The lower triangle of matrices, zeros above the k-th diagonal.

    Shape and dtype stay; the matrices are in the last two axes. ValueError for fewer than two axes.

    >>> jnp.tril(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 0],
           [3, 4]], dtype=int32)
    """,
)
triu = _triangle(
    "triu",
    False,
    """The upper triangle of matrices, zeros below the k-th diagonal.

    Shape and dtype stay; the matrices are in the last two axes. ValueError for fewer than two axes.

    >>> jnp.triu(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int32)
    """,
)


def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    x = as_array(unwrap(x))
    if ndim_of(x) != 1:
        raise ValueError("x must be a one-dimensional array")
    n = shape_of(x)[0] if N is None else N
    if n < 0:
        raise ValueError("N must be nonnegative")
    powers = lax.iota(typeof(x).dtype, n)
    if not increasing:
        powers = lax.sub(literal(powers, n - 1), powers)
    column, row = lax.expand_dims(x, (1,)), lax.expand_dims(powers, (0,))
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.pow(column, row)
    shape = (shape_of(x)[0], n)
    full = to_type(lax.broadcast_in_dim(x, shape, (0,)), typeof(x).dtype, False)
    return _integer_powers(full, lax.broadcast_in_dim(powers, shape, (1,)))


def _integer_powers(x: Any, p: Any) -> Any:
    one = literal(x, 1)
    acc = lax.full_like(x, 1)
    for _ in range(6):
        acc = select_where(lax.ne(lax.bitwise_and(p, one), literal(x, 0)), lax.mul(acc, x), acc)
        x, p = lax.mul(x, x), lax.shift_right_logical(p, one)
    return acc


_vander.__name__ = "vander"
_vander_jit = jit(_vander, static_argnames=("N", "increasing"))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The Vandermonde matrix: powers of x as columns, falling unless `increasing`.

    >>> jnp.vander(jnp.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    check_arraylike("vander", x)
    return _vander_jit(x, N=N if N is None else as_int(N, "N"), increasing=increasing)


# --- grids ---
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid from one-dimensional coordinates; 'xy' swaps the first two axes,
    'ij' does not.

    With `sparse`, the arrays have size 1 along the others' axes. Raises ValueError for another
    `indexing`.

    >>> x, y = jnp.meshgrid(jnp.array([1, 2, 3]), jnp.array([10, 20]))
    >>> x + y
    Array([[11, 12, 13],
           [21, 22, 23]], dtype=int32)
    """
    check_arraylike("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    args = [as_array(unwrap(x)) for x in xi]
    for k, a in enumerate(args):
        if ndim_of(a) != 1:
            raise ValueError(
                f"Arguments to jax.numpy.meshgrid must be 1D, got shape {shape_of(a)} at position "
                f"{k}"
            )
    if indexing == "xy" and len(args) >= 2:
        args[0], args[1] = args[1], args[0]
    shape = tuple(1 if sparse else shape_of(a)[0] for a in args)
    out = []
    for k, a in enumerate(args):
        target = (*shape[:k], shape_of(a)[0], *shape[k + 1 :])
        out.append(lax.broadcast_in_dim(a, target, (k,)))
    if indexing == "xy" and len(args) >= 2:
        out[0], out[1] = out[1], out[0]
    return out


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The positions of every element of an array of this shape, along each axis; a tuple of thin
    arrays if `sparse`.

    >>> rows, columns = jnp.indices((2, 3))
    >>> columns
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    shape = canonical_shape(tuple(dimensions))
    d = default_int() if dtype is None else user_dtype(dtype, "indices")
    out = []
    for k, n in enumerate(shape):
        target = tuple(m if j == k or not sparse else 1 for j, m in enumerate(shape))
        out.append(lax.broadcast_in_dim(lax.iota(d, n), target, (k,)))
    if sparse:
        return tuple(out)
    return lax.stack(out, 0) if out else lax.full((0,), 0, d)


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """The array whose element at each position is `function(*position)`.

    >>> jnp.fromfunction(lambda i, j: i + j, (2, 3), dtype=int)
    Array([[0, 1, 2],
           [1, 2, 3]], dtype=int32)
    """
    shape = canonical_shape(shape)
    d = default_int() if dtype is None else user_dtype(dtype, "fromfunction")
    call: Any = lambda *args: function(*args, **kwargs)
    for k in reversed(range(len(shape))):
        axes = [0 if j == k else None for j in range(len(shape))]
        call = vmap(call, in_axes=tuple(axes))
    return call(*(lax.iota(d, n) for n in shape))


class _Grid:
    """`mgrid[...]` and `ogrid[...]`: grids of slices; a complex step is a number of points.

    `ogrid` gives one array for each axis, with size 1 along the others.

    >>> jnp.mgrid[0:2, 0:3]
    Array([[[0, 0, 0],
            [1, 1, 1]],
    <BLANKLINE>
           [[0, 1, 2],
            [0, 1, 2]]], dtype=int32)
    >>> jnp.ogrid[0:1:3j]
    Array([0. , 0.5, 1. ], dtype=float32)
    """

    def __init__(self, sparse: bool, name: str) -> None:
        self.sparse, self.name = sparse, name

    def __repr__(self) -> str:
        return f"<jax.numpy.{self.name}>"

    @promotes_freely
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return slice_as_range(key, self.name)
        rows = [slice_as_range(k, self.name) for k in key]
        if rows:
            d = dtypes.result_type(*rows)
            rows = [_to(r, d) for r in rows]
        grids = meshgrid(*rows, indexing="ij", sparse=self.sparse)
        if self.sparse:
            return grids
        return lax.stack(grids, 0) if grids else lax.full((0,), 0, default_int())


def slice_as_range(key: Any, name: str) -> Any:
    """The numbers that a slice stands for in `jnp.<name>[...]`; a complex step counts them."""
    if not isinstance(key, slice):
        raise TypeError(f"jnp.{name} takes slices, got {key!r}")
    start, stop, step = (
        concrete(getattr(key, label), f"slice {label} of jnp.{name}")
        for label in ("start", "stop", "step")
    )
    start = 0 if start is None else start
    step = 1 if step is None else step
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


mgrid = _Grid(False, "mgrid")
ogrid = _Grid(True, "ogrid")
