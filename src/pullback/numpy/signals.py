"""Functions of sequences: convolve, correlate, interp, diff, gradient, trapezoid, unwrap;
covariance; packed bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, lax
from ..api.jit import jit
from ..core.avals import typeof
from ..core.trace import Tracer
from ..primitives.common import as_array, as_int, is_symbolic
from . import averages, cumulative, indexing, reductions
from .arithmetic import absolute, mod, true_divide
from .joining import concatenate
from .manipulation import atleast_2d, flip, moveaxis, ravel, transpose
from .products import diag, dot
from .selecting import number, select_where
from .sorting import argsort, searchsorted
from .ufuncs import add, multiply, subtract
from .ufuncs_more import clip, clip_jit
from .util import (
    canonical_axes,
    canonical_axis,
    check_arraylike,
    dtype_of,
    is_weak,
    literal,
    ndim_of,
    promote_dtypes,
    promote_dtypes_inexact,
    promotes_freely,
    shape_of,
    static_axes,
    to_type,
    unwrap,
    user_dtype,
)


# --- convolution ---
def _conv(x: Any, y: Any, mode: str, op: str, precision: Any, preferred_element_type: Any) -> Any:
    if ndim_of(x) != 1 or ndim_of(y) != 1:
        raise ValueError(f"{op}() only support 1-dimensional inputs.")
    if not shape_of(x)[0] or not shape_of(y)[0]:
        raise ValueError(
            f"{op}: inputs cannot be empty, got shapes {shape_of(x)} and {shape_of(y)}."
        )
    swapped = False
    if op == "convolve":
        if shape_of(x)[0] < shape_of(y)[0]:
            x, y = y, x
        y = flip(y)
    else:
        if dtypes.is_complex(typeof(y).dtype):
            y = lax.conj(y)
        if shape_of(x)[0] < shape_of(y)[0]:
            x, y = y, x
            swapped = True
    n = shape_of(y)[0]
    pads = {"valid": [(0, 0)], "same": [(n // 2, n - n // 2 - 1)], "full": [(n - 1, n - 1)]}
    if mode not in pads:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    left, right = lax.expand_dims(x, (0, 1)), lax.expand_dims(y, (0, 1))
    out = lax.conv_general_dilated(
        left,
        right,
        (1,),
        pads[mode],
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    out = lax.squeeze(out, (0, 1))
    return flip(out) if swapped else out


_conv_jit = jit(_conv, static_argnames=("mode", "op", "precision", "preferred_element_type"))


def _filter(name: str, default: str, doc: str) -> Any:
    def run(
        a: Any,
        v: Any,
        mode: str = default,
        precision: Any = None,
        preferred_element_type: Any = None,
    ) -> Any:
        a, v = promote_dtypes_inexact(a, v)
        d = typeof(a).dtype
        return _conv_jit(
            to_type(a, d, typeof(a).weak_type),
            to_type(v, d, typeof(v).weak_type),
            mode=mode,
            op=name,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )

    run.__name__ = name
    call = jit(run, static_argnames=("mode", "precision", "preferred_element_type"))

    def f(
        a: Any,
        v: Any,
        mode: str = default,
        *,
        precision: Any = None,
        preferred_element_type: Any = None,
    ) -> Any:
        check_arraylike(name, a, v)
        wanted = user_dtype(preferred_element_type, name)
        return call(a, v, mode=mode, precision=precision, preferred_element_type=wanted)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


convolve = _filter(
    "convolve",
    "full",
    """The convolution of two sequences; `mode` 'full', 'same' or 'valid'.

    Sizes n and m give n + m - 1 ('full'), max(n, m) ('same') or max(n, m) - min(n, m) + 1
    ('valid'). ValueError for empty arrays or more than one axis.

    >>> jnp.convolve(jnp.array([1, 2, 3]), jnp.array([1, 1]))
    Array([1., 3., 5., 3.], dtype=float32)
    """,
)
correlate = _filter(
    "correlate",
    "valid",
    """The correlation of two sequences; `mode` 'full', 'same' or 'valid'.

    Sizes as for `convolve`; the second sequence is conjugated.

    >>> jnp.correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([2., 3.], dtype=float32)
    """,
)


# --- interpolation ---
def _interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    if ndim_of(xp) != 1 or ndim_of(fp) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    if shape_of(xp) != shape_of(fp):
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    x, xp = promote_dtypes_inexact(x, xp)
    (fp,) = promote_dtypes_inexact(fp)
    if dtypes.is_complex(typeof(x).dtype):
        raise ValueError("jnp.interp: complex x values not supported.")
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    n = shape_of(xp)[0]
    i = clip_jit(searchsorted(xp, x, side="right"), 1, n - 1)
    df, dx, delta = fp[i] - fp[i - 1], xp[i] - xp[i - 1], x - xp[i - 1]
    tiny = float(np.spacing(dtypes.finfo(typeof(xp).dtype).eps))
    flat = lax.le(lax.abs(dx), literal(dx, tiny))
    start, line = fp[i - 1], fp[i - 1] + delta / select_where(flat, 1, dx) * df
    out = select_where(flat, start, line)
    if period is None:
        if left != "extrapolate" if isinstance(left, str) else True:
            value = fp[0] if left is None else left
            out = select_where(x < xp[0], value, out)
        if right != "extrapolate" if isinstance(right, str) else True:
            value = fp[-1] if right is None else right
            out = select_where(x > xp[-1], value, out)
    return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    if ndim_of(period) != 0:
        raise ValueError(f"period must be a scalar; got {period}")
    p = lax.abs(to_type(as_array(unwrap(period)), typeof(xp).dtype, False))
    x, xp = mod(x, p), mod(xp, p)
    order = argsort(xp)
    xp, fp = indexing.take_index(xp, order), indexing.take_index(fp, order)
    ends = lambda v, k: lax.slice_in_dim(v, k, k + 1)
    n = shape_of(xp)[0]
    xp = concatenate([subtract(ends(xp, n - 1), p), xp, add(ends(xp, 0), p)])  # type: ignore[no-untyped-call]
    fp = concatenate([ends(fp, n - 1), fp, ends(fp, 0)])  # type: ignore[no-untyped-call]
    return x, xp, fp


_interp_static = jit(_interp, static_argnames=("left", "right"))
_interp_traced = jit(_interp)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation at x of the points (xp, fp), xp rising.

    Outside: the first and last values, or `left` and `right` (numbers, or 'extrapolate'). With
    `period`, x is periodic.

    >>> jnp.interp(jnp.array([0.5, 3.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
    Array([15., 20.], dtype=float32)
    """
    check_arraylike("interp", x, xp, fp)
    for name, v in (("left", left), ("right", right)):
        if isinstance(v, str) and v != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: {v!r}"
            )
    more = {
        k: v for k, v in (("left", left), ("right", right), ("period", period)) if v is not None
    }
    if any(isinstance(v, str) for v in more.values()):
        numbers = {k: v for k, v in more.items() if not isinstance(v, str)}
        if any(
            isinstance(v, Tracer) or hasattr(v, "aval") for k, v in numbers.items() if k != "period"
        ):
            return _interp(x, xp, fp, left, right, period)
        return _interp_static(x, xp, fp, **more)
    return _interp_traced(x, xp, fp, **more)


# --- differences ---
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    a = as_array(unwrap(a))
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not ndim_of(a):
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    k = canonical_axis(axis, ndim_of(a))
    parts = []
    for extra in (prepend, "a", append):
        if isinstance(extra, str):
            parts.append(a)
        elif extra is not None:
            e = as_array(unwrap(extra))
            shape = tuple(1 if j == k else m for j, m in enumerate(shape_of(a)))
            parts.append(lax.broadcast_in_dim(e, shape, ()) if not ndim_of(e) else e)
    if len(parts) > 1:
        a = concatenate(parts, k)
    bools = dtypes.is_bool(typeof(a).dtype)
    head = (slice(None),) * k
    for _ in range(n):
        later, sooner = (
            indexing.take_index(a, (*head, slice(1, None))),
            indexing.take_index(a, (*head, slice(None, -1))),
        )
        a = lax.ne(later, sooner) if bools else lax.sub(later, sooner)
    return a


_diff.__name__ = "diff"
_diff_jit = jit(_diff, static_argnames=("n", "axis"))


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, taken n times.

    The size along `axis` falls by n; `prepend` and `append` are put before and after first. Bools
    are compared instead of subtracted.

    `a`: an array.

    >>> jnp.diff(jnp.array([1, 4, 9, 16]))
    Array([3, 5, 7], dtype=int32)
    """
    check_arraylike("diff", a)
    extra = {k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    check_arraylike("diff", *extra.values())
    return _diff_jit(a, n=as_int(n, "n"), axis=axis, **extra)


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    arr = ravel(ary)
    out = lax.sub(
        indexing.take_index(arr, slice(1, None)), indexing.take_index(arr, slice(None, -1))
    )
    if to_begin is not None:
        out = concatenate(
            [ravel(lax.convert_element_type(as_array(unwrap(to_begin)), typeof(arr).dtype)), out]
        )
    if to_end is not None:
        out = concatenate(
            [out, ravel(lax.convert_element_type(as_array(unwrap(to_end)), typeof(arr).dtype))]
        )
    return out


_ediff1d.__name__ = "ediff1d"
_ediff1d_jit = jit(_ediff1d)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with values put before and after.

    >>> jnp.ediff1d(jnp.array([[1, 4], [9, 16]]), to_begin=0)
    Array([0, 3, 5, 7], dtype=int32)
    """
    check_arraylike("ediff1d", ary)
    return _ediff1d_jit(
        ary, **{k: v for k, v in (("to_end", to_end), ("to_begin", to_begin)) if v is not None}
    )


def _gradient_along(a: Any, h: Any, k: int) -> Any:
    n = shape_of(a)[k]
    part = lambda lo, hi: lax.slice_in_dim(a, lo, hi, axis=k)
    if not ndim_of(h):
        before, after = lax.sub(part(1, 2), part(0, 1)), lax.sub(part(n - 1, n), part(n - 2, n - 1))  # type: ignore[no-untyped-call]
        inner = lax.mul(lax.sub(part(2, n), part(0, n - 2)), literal(a, 0.5))  # type: ignore[no-untyped-call]
        h = to_type(h, typeof(a).dtype, False)
        inner, after, before = lax.div(inner, h), lax.div(after, h), lax.div(before, h)
        return lax.concatenate([before, inner, after], k)
    # Positions, not a step: a second-order formula for unequal steps.
    steps = _diff(h)
    shape = tuple(-1 if j == k else 1 for j in range(ndim_of(a)))
    column = lambda v: lax.reshape(v, tuple(shape_of(v)[0] if m == -1 else 1 for m in shape))
    h1, h2 = column(lax.slice_in_dim(steps, 0, n - 2)), column(lax.slice_in_dim(steps, 1, n - 1))  # type: ignore[no-untyped-call]
    total = lax.add(h1, h2)
    low = lax.div(lax.neg(h2), lax.mul(h1, total))
    mid = lax.div(lax.sub(h2, h1), lax.mul(h1, h2))
    high = lax.div(h1, lax.mul(h2, total))
    inner = add(
        add(multiply(low, part(0, n - 2)), multiply(mid, part(1, n - 1))),  # type: ignore[no-untyped-call]
        multiply(high, part(2, n)),  # type: ignore[no-untyped-call]
    )
    first = true_divide(lax.sub(part(1, 2), part(0, 1)), column(lax.slice_in_dim(steps, 0, 1)))  # type: ignore[no-untyped-call]
    last = true_divide(
        lax.sub(part(n - 1, n), part(n - 2, n - 1)),  # type: ignore[no-untyped-call]
        column(lax.slice_in_dim(steps, n - 2, n - 1)),  # type: ignore[no-untyped-call]
    )
    return concatenate([first, inner, last], k)


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = None) -> Any:
    a, *given = promote_dtypes_inexact(f, *varargs)
    a = as_array(a)
    axes = canonical_axes(axis, ndim_of(a))
    if any(shape_of(a)[k] < 2 for k in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are "
            "required."
        )
    if not axes:
        return []
    if not given:
        steps: list[Any] = [1.0] * len(axes)
    elif len(given) == 1:
        steps = list(given) * len(axes)
    elif len(given) == len(axes):
        steps = list(given)
    else:
        raise TypeError(f"Invalid number of spacing arguments {len(given)} for axis={axis}")
    for h, k in zip(steps, axes, strict=True):
        if ndim_of(h) > 1 or (ndim_of(h) == 1 and shape_of(h)[0] != shape_of(a)[k]):
            raise ValueError(
                "Spacing arrays must be 1D arrays or scalars, of the size of their axis."
            )
    weak = typeof(a).weak_type and not any(ndim_of(h) or not is_weak(h) for h in steps)
    out = []
    for h, k in zip(steps, axes, strict=True):
        values, spacing = promote_dtypes_inexact(a, h)
        d = typeof(values).dtype
        if ndim_of(h):
            spacing = to_type(as_array(unwrap(spacing)), d, False)
        else:
            spacing = h
        out.append(to_type(_gradient_along(values, spacing, k), d, weak))
    return out[0] if len(out) == 1 else out


_gradient.__name__ = "gradient"
_gradient_jit = jit(_gradient, static_argnames=("axis", "edge_order"))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """The derivative along each axis, by central differences; `varargs` are steps or positions for
    each axis.

    >>> jnp.gradient(jnp.array([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError(
            "The 'edge_order' argument to jnp.gradient is not supported. Fix: leave it out."
        )
    check_arraylike("gradient", f, *varargs)
    return _gradient_jit(f, *varargs, axis=static_axes(axis))


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if x is None:
        (y,) = promote_dtypes_inexact(y)
        steps = dx
        if ndim_of(dx):  # aligned with y's axes, as in NumPy
            steps = moveaxis(lax.broadcast_to_rank(as_array(dx), ndim_of(y)), axis, -1)
        y = moveaxis(y, axis, -1)
        if not ndim_of(dx) or shape_of(steps)[-1] == 1:
            steps = lax.squeeze(steps, (ndim_of(steps) - 1,)) if ndim_of(dx) else steps
            total = reductions.sum_reduce(y, -1)
            edges = add(indexing.take_index(y, (..., 0)), indexing.take_index(y, (..., -1)))
            return multiply(steps, lax.sub(total, lax.mul(literal(edges, 0.5), edges)))
    else:
        y, x = promote_dtypes_inexact(y, x)
        y, x = as_array(y), as_array(x)
        steps = diff(x) if ndim_of(x) == 1 else moveaxis(diff(x, axis=axis), axis, -1)
        y = moveaxis(y, axis, -1)
    pairs = add(
        indexing.take_index(y, (..., slice(1, None))),
        indexing.take_index(y, (..., slice(None, -1))),
    )
    total = reductions.sum_reduce(multiply(steps, pairs), -1)
    return lax.mul(literal(total, 0.5), total)


_trapezoid.__name__ = "trapezoid"
_trapezoid_jit = jit(_trapezoid, static_argnames=("axis",))


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of y along `axis` by the trapezoidal rule, at positions x or with steps dx.

    >>> jnp.trapezoid(jnp.array([0.0, 1.0, 4.0]), dx=0.5)
    Array(1.5, dtype=float32)
    """
    check_arraylike("trapezoid", y)
    more = {"x": x} if x is not None else {} if isinstance(dx, float) and dx == 1.0 else {"dx": dx}
    return _trapezoid_jit(y, axis=axis, **more)


def _unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * np.pi) -> Any:
    p = as_array(unwrap(p))
    if dtypes.is_complex(typeof(p).dtype):
        raise ValueError(
            "jnp.unwrap does not support complex inputs. Fix: unwrap jnp.angle of them."
        )
    if not dtypes.is_inexact(typeof(p).dtype) and not (
        isinstance(period, int) or dtypes.is_integer(dtype_of(period))
    ):
        p, period = promote_dtypes_inexact(p, period)
    elif dtypes.is_bool(typeof(p).dtype) or not dtypes.is_integer(typeof(p).dtype):
        p, period = promote_dtypes(p, period)
    d = typeof(p).dtype
    period = to_type(period, d, False)
    k = canonical_axis(axis, ndim_of(p))
    if shape_of(p)[k] == 0:
        return p
    half = lax.div(period, literal(p, 2))
    limit = half if discont is None else discont
    step = diff(p, axis=k)
    reduced = subtract(mod(add(step, half), period), half)
    at_edge = lax.bitwise_and(_eq(reduced, lax.neg(half)), lax.gt(step, literal(step, 0)))
    reduced = select_where(at_edge, half, reduced)
    size = step if d.kind == "u" else lax.abs(step)
    correction = select_where(_lt(size, limit), 0, subtract(reduced, step))
    first = lax.slice_in_dim(p, 0, 1, axis=k)
    rest = add(lax.slice_in_dim(p, 1, shape_of(p)[k], axis=k), cumulative.cumsum(correction, k))
    return concatenate([first, rest], k)


def _eq(x: Any, y: Any) -> Any:
    return lax.eq(*promote_dtypes(x, y))


def _lt(x: Any, y: Any) -> Any:
    return lax.lt(*promote_dtypes(x, y))


_unwrap.__name__ = "unwrap"
_unwrap_jit = jit(_unwrap, static_argnames=("axis", "period"))


def unwrap_phase(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * np.pi) -> Any:
    """Angles without jumps: differences of neighbours above half a period (or `discont`) are
    changed by whole periods.

    >>> jnp.unwrap(jnp.array([0, 90, 181, 270, 1]), period=360)
    Array([  0,  90, 181, 270, 361], dtype=int32)
    """
    check_arraylike("unwrap", p)
    more = {} if discont is None else {"discont": discont}
    if isinstance(period, Tracer) or hasattr(period, "aval"):
        return _unwrap(p, discont, axis, period)
    return _unwrap_jit(p, axis=axis, period=period, **more)


# --- covariance ---
def _cov(
    m: Any, y: Any, fweights: Any, aweights: Any, rowvar: bool, bias: bool, ddof: Any, dtype: Any
) -> Any:
    x = _observations(m, y, rowvar, dtype)
    if shape_of(x)[0] == 0 or shape_of(x)[1] == 0:
        n_rows = shape_of(x)[0]
        square = () if n_rows == 1 else (n_rows, n_rows)
        own = [m] if y is None else [m, y]  # as in JAX, `dtype` says nothing of nothing
        return lax.full(square, np.nan, typeof(promote_dtypes_inexact(*own)[0]).dtype)
    if ddof is None:
        ddof = 1 if not bias else 0
    d = typeof(x).dtype
    w: Any = None
    if fweights is not None:
        _check_weights("fweights", fweights, x, True)
        w = absolute(as_array(unwrap(fweights)))  # negative ones cannot be refused while tracing
    if aweights is not None:
        _check_weights("aweights", aweights, x, False)
        aweights = absolute(as_array(unwrap(aweights)))
        w = multiply(w, aweights) if w is not None else aweights
    if w is not None and dtype is not None:
        w = lax.convert_element_type(w, dtype)
    avg, total = averages.average(x, axis=1, weights=w, returned=True)
    total = indexing.take_index(total, 0)
    if w is None:
        n = shape_of(x)[1] - ddof
        scale: Any = number(n, d) if is_symbolic(n) else literal(x, float(n))
    elif ddof == 0:
        scale = total
    elif aweights is None:
        scale = subtract(total, ddof)
    else:
        scale = subtract(
            total, true_divide(multiply(ddof, reductions.sum_reduce(multiply(w, aweights))), total)
        )
    x = subtract(x, lax.expand_dims(avg, (1,)))  # weights may be of a wider type
    other = transpose(x if w is None else multiply(x, w))
    if dtypes.is_complex(d):
        other = lax.conj(other)
    out = true_divide(dot(x, other), scale)
    return indexing.take_index(out, (0, 0)) if shape_of(out) == (1, 1) else out


def _observations(m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """The variables as rows."""
    if dtype is not None:
        m = lax.convert_element_type(as_array(m), dtype)
        y = None if y is None else lax.convert_element_type(as_array(y), dtype)
    (m, *rest) = promote_dtypes_inexact(m) if y is None else promote_dtypes_inexact(m, y)
    if ndim_of(m) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = atleast_2d(m)
    if not rowvar and shape_of(x)[0] != 1:
        x = transpose(x)
    if rest:
        if ndim_of(rest[0]) > 2:
            raise ValueError("y has more than 2 dimensions")
        other = atleast_2d(rest[0])
        if not rowvar and shape_of(other)[0] != 1:
            other = transpose(other)
        x = concatenate([x, other], 0)
    return x


def _check_weights(name: str, w: Any, x: Any, whole: bool) -> None:
    check_arraylike("cov", w)
    if ndim_of(w) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if shape_of(w)[0] != shape_of(x)[1]:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if whole and not dtypes.is_integer(dtype_of(w)):
        raise TypeError("fweights must be integer.")


_cov.__name__ = "cov"
_cov_jit = jit(promotes_freely(_cov), static_argnames=("rowvar", "bias", "ddof", "dtype"))


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of variables in rows (columns unless `rowvar`).

    Shape (variables, observations) gives (variables, variables). `ddof` (by default 1, or 0 with
    `bias`) is taken off the number of observations; `fweights` and `aweights` weigh them.

    >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    Array([[ 1., -2.],
           [-2.,  4.]], dtype=float32)
    """
    check_arraylike("cov", m) if y is None else check_arraylike("cov", m, y)
    if ddof is not None and not isinstance(ddof, (int, float, np.integer, np.floating)):
        raise TypeError(f"cov: ddof must be a number, got {ddof!r}. Fix: pass an int or a float.")
    _check_inexact("cov", dtype)
    return _cov_jit(m, y, fweights, aweights, rowvar=rowvar, bias=bias, ddof=ddof, dtype=dtype)


def _check_inexact(name: str, dtype: Any) -> None:
    """ValueError for a dtype of integers asked for covariances."""
    if dtype is not None and not dtypes.is_inexact(dtypes.dtype(dtype)):
        raise ValueError(f"{name}: dtype must be a subclass of float or complex; got {dtype=}")


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not ndim_of(c):
        return lax.div(c, c)
    d = to_type(lax.sqrt(_real(diag(c))), typeof(c).dtype, False)
    c = true_divide(true_divide(c, lax.expand_dims(d, (1,))), lax.expand_dims(d, (0,)))
    if dtypes.is_complex(typeof(c).dtype):
        re, im = (clip(part(c), -1, 1) for part in (lax.real, lax.imag))
        return lax.complex(re, im)
    return clip(c, -1, 1)


def _real(x: Any) -> Any:
    return lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x


_corrcoef.__name__ = "corrcoef"
_corrcoef_jit = jit(_corrcoef, static_argnames=("rowvar", "dtype"))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """The matrix of Pearson's correlation coefficients of variables in rows (columns unless
    `rowvar`).

    >>> jnp.corrcoef(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 2.0, 4.0])).round(3)
    Array([[1.   , 0.982],
           [0.982, 1.   ]], dtype=float32)
    """
    check_arraylike("corrcoef", x) if y is None else check_arraylike("corrcoef", x, y)
    _check_inexact("corrcoef", dtype)
    return _corrcoef_jit(x, y, rowvar=rowvar, dtype=dtype)


# --- packed bits ---
def _bit_order(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")


def _packbits(a: Any, axis: Any = None, bitorder: str = "big") -> Any:
    a = as_array(unwrap(a))
    if not (dtypes.is_integer(typeof(a).dtype) or dtypes.is_bool(typeof(a).dtype)):
        raise TypeError("Expected an input array of integer or boolean data type")
    bits = lax.convert_element_type(lax.ne(a, literal(a, 0)), np.uint8)
    shifts = lax.iota(np.uint8, 8)
    if bitorder == "big":
        shifts = lax.rev(shifts, (0,))
    if axis is None:
        bits, axis = ravel(bits), 0
    bits = moveaxis(bits, axis, -1)
    missing = -shape_of(bits)[-1] % 8
    if missing:
        bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (ndim_of(bits) - 1) + [(0, missing, 0)])
    bits = lax.reshape(bits, (*shape_of(bits)[:-1], shape_of(bits)[-1] // 8, 8))
    shifted = lax.shift_left(
        bits, lax.broadcast_in_dim(shifts, shape_of(bits), (ndim_of(bits) - 1,))
    )
    packed = lax.convert_element_type(reductions.sum_reduce(shifted, -1), np.uint8)
    return moveaxis(packed, -1, axis)


_packbits.__name__ = "packbits"
_packbits_jit = jit(_packbits, static_argnames=("axis", "bitorder"))


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight bools to a byte.

    The size along `axis` (None: of the flattened array) is divided by 8, rounded up; the last byte
    is filled with zeros. `bitorder`: 'big' (the first bit is the highest) or 'little'. TypeError
    unless integers or bools.

    >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 1, 1]))
    Array([131], dtype=uint8)
    """
    check_arraylike("packbits", a)
    _bit_order(bitorder)
    return _packbits_jit(a, axis=axis, bitorder=bitorder)


def _unpackbits(a: Any, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    a = as_array(unwrap(a))
    shifts = lax.iota(np.uint8, 8)
    if bitorder == "big":
        shifts = lax.rev(shifts, (0,))
    if axis is None:
        a, axis = ravel(a), 0
    a = moveaxis(a, axis, -1)
    wide = (*shape_of(a), 8)
    words = lax.broadcast_in_dim(a, wide, tuple(range(ndim_of(a))))
    bits = lax.bitwise_and(
        lax.shift_right_logical(words, lax.broadcast_in_dim(shifts, wide, (ndim_of(a),))),
        lax.full_like(words, 1),
    )
    bits = lax.reshape(bits, (*shape_of(a)[:-1], shape_of(a)[-1] * 8))
    if count is not None:
        n = shape_of(bits)[-1]
        if count > n:
            bits = lax.pad(
                bits, np.uint8(0), [(0, 0, 0)] * (ndim_of(bits) - 1) + [(0, count - n, 0)]
            )
        else:
            bits = indexing.take_index(bits, (..., slice(0, count)))
    return moveaxis(bits, -1, axis)


_unpackbits.__name__ = "unpackbits"
_unpackbits_jit = jit(_unpackbits, static_argnames=("axis", "count", "bitorder"))


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of bytes, as zeros and ones.

    `a`: uint8, else TypeError. The size along `axis` (None: of the flattened array) is multiplied
    by 8, or cut or filled to `count`. `bitorder` as for `packbits`.

    >>> jnp.unpackbits(jnp.array([5], dtype=jnp.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    check_arraylike("unpackbits", a)
    if dtype_of(a) != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    _bit_order(bitorder)
    return _unpackbits_jit(a, axis=axis, count=count, bitorder=bitorder)
