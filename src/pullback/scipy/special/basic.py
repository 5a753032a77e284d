"""Logarithms, entropies, the error function and the normal distribution."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...api.jit import jit
from ...control.custom_jvp import custom_jvp
from ...core.avals import typeof
from ...core.trace import Tracer
from ...errors import ConcretizationTypeError
from ...nn import functions as nn
from ...numpy.util import (
    check_arraylike,
    check_ranks,
    promote_dtypes_inexact,
    promoted,
    shown_as,
    to_type,
    wide_ints_as_floats,
)


def known(convert: Callable[[Any], Any], x: Any, argument: str, name: str) -> Any:
    """`convert(x)`; ConcretizationTypeError for a traced value, whose number a program cannot
    depend on."""
    value = x.to_concrete_value() if isinstance(x, Tracer) else x
    if value is None:
        raise ConcretizationTypeError(x, f"{name}: {argument} must be known while tracing.")
    return convert(value)


def inexact(name: str, *args: Any) -> list[Any]:
    """The arguments as float or complex arrays of one dtype."""
    check_arraylike(name, *args)
    found = promoted(name, promote_dtypes_inexact, wide_ints_as_floats(*args))
    return [jnp.asarray(x) for x in found]


def aligned(name: str, *args: Any) -> list[Any]:
    """As `inexact`; ValueError for several ranks that do not broadcast."""
    arrays = inexact(name, *args)
    check_ranks(name, [typeof(x).shape for x in arrays])
    return arrays


def strong(
    name: str, *args: Any, like: tuple[int, ...] = (0,), compared: bool = False
) -> list[Any]:
    """As `inexact`, for a formula whose constants take the dtypes of the arguments `like`: beside
    one that is weak and no scalar they are strong, as `numpy.util.literal` says, and then so is
    the result. `compared`: TypeError for complex ones."""
    arrays = ordered(name, *args) if compared else aligned(name, *args)
    if any((aval := typeof(arrays[k])).weak_type and aval.shape for k in like):
        return [to_type(x, typeof(x).dtype, False) for x in arrays]
    return arrays


def ordered(name: str, *args: Any) -> list[Any]:
    """As `inexact`; TypeError for complex arguments, which the formula could not compare."""
    return real(name, *args, error=TypeError)


def real(name: str, *args: Any, error: type[Exception] = ValueError) -> list[Any]:
    """The arguments as float arrays of one dtype. An error (of JAX's class) for complex ones."""
    arrays = aligned(name, *args)
    dtype = typeof(arrays[0]).dtype
    if dtypes.is_complex(dtype):
        raise error(f"{name} does not support complex-valued inputs, got dtype {dtype.name}")
    return arrays


def together(name: str, *arrays: Any) -> list[Any]:
    """The arrays in one shape; TypeError for shapes that do not broadcast."""
    shapes = [typeof(x).shape for x in arrays]
    try:
        return list(jnp.broadcast_arrays(*arrays))
    except ValueError:
        raise TypeError(
            f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}. Fix: "
            "sizes of an axis must be equal, or 1 (add axes with x[:, None])."
        ) from None


logsumexp = nn.logsumexp


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along `axis`, by default of all elements.

    `x`: a real array; the result is float, of its shape. `axis`: None, an int or a tuple. As
    `scipy.special.softmax`.

    >>> from pullback.scipy import special
    >>> special.softmax(jnp.array([0., 0.]))
    Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=axis)


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """The logarithm of `softmax`.

    `x`: a real array; the result is float, of its shape. `axis`: None (all elements), an int or a
    tuple. As `scipy.special.log_softmax`.

    >>> from pullback.scipy import special
    >>> special.log_softmax(jnp.array([0., 0.])).round(3)
    Array([-0.693, -0.693], dtype=float32)
    """
    return nn.log_softmax(x, axis=axis)


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> pb.scipy.special.expit(0.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    (x,) = inexact("expit", x)
    return lax.logistic(x)


@custom_jvp
def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of expit.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. Infinite at 0 and 1, NaN beyond. As `scipy.special.logit`.

    >>> from pullback.scipy import special
    >>> special.logit(jnp.array([0., 0.5, 0.75])).round(3)
    Array([ -inf, 0.   , 1.099], dtype=float32)
    """
    (x,) = inexact("logit", x)
    return lax.log(lax.div(x, 1 - x))


logit.defjvps(lambda t, out, x: t / (x * (1 - x)))


def _safe(mask: Any, value: Any) -> Any:
    return jnp.where(mask, value, lax.full_like(value, 0))


@custom_jvp
def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), 0 where x is 0.

    >>> pb.scipy.special.xlogy(0., 0.)
    Array(0., dtype=float32, weak_type=True)
    """
    x, y = inexact("xlogy", x, y)
    return _safe((x != 0.0) | jnp.isnan(y), x * jnp.log(y))


@xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    tx, ty = tangents
    out = xlogy(x, y)
    return out, (tx * jnp.log(y) + ty * (x / y)).astype(typeof(out).dtype)


@custom_jvp
def xlog1py(x: Any, y: Any) -> Any:
    """x * log(1 + y), 0 where x is 0.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.xlog1py`.

    >>> from pullback.scipy import special
    >>> special.xlog1py(jnp.array([0., 1.]), jnp.array([-1., 1.])).round(3)
    Array([0.   , 0.693], dtype=float32)
    """
    x, y = inexact("xlog1py", x, y)
    return _safe((x != 0.0) | jnp.isnan(y), x * jnp.log1p(y))


@xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    tx, ty = tangents
    out = xlog1py(x, y)
    return out, (tx * jnp.log1p(y) + ty * (x / (1 + y))).astype(typeof(out).dtype)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


_xlogx.defjvps(lambda t, out, x: t * (jnp.log(x) + 1))


def entr(x: Any) -> Any:
    """-x * log(x); 0 at 0, -inf below.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.entr`.

    >>> from pullback.scipy import special
    >>> special.entr(jnp.array([0., 0.5, -1.])).round(3)
    Array([-0.   ,  0.347,   -inf], dtype=float32)
    """
    (x,) = real("entr", x)
    return lax.select(x < 0, lax.full_like(x, -np.inf), -_xlogx(x))


def rel_entr(p: Any, q: Any) -> Any:
    """p * log(p / q); 0 where p is 0 and q is not negative, inf where it is not defined.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.rel_entr`.

    >>> from pullback.scipy import special
    >>> special.rel_entr(jnp.array([0., 2.]), 1.).round(3)
    Array([0.   , 1.386], dtype=float32)
    """
    p, q = strong("rel_entr", *real("rel_entr", p, q))
    both = (p > 0) & (q > 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    return jnp.where(
        both, _xlogx(safe_p) - xlogy(safe_p, safe_q), jnp.where((p == 0) & (q >= 0), 0.0, np.inf)
    )


def kl_div(p: Any, q: Any) -> Any:
    """rel_entr(p, q) - p + q.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. As `scipy.special.kl_div`.

    >>> from pullback.scipy import special
    >>> special.kl_div(2., 1.).round(3)
    Array(0.386, dtype=float32, weak_type=True)
    """
    p, q = real("kl_div", p, q)
    return rel_entr(p, q) - p + q


def boxcox(x: Any, lmbda: Any) -> Any:
    """(x^lmbda - 1) / lmbda, log(x) at lmbda = 0.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. NaN for negative `x`. As `scipy.special.boxcox`.

    >>> from pullback.scipy import special
    >>> special.boxcox(3., jnp.array([0., 1., 2.])).round(3)
    Array([1.099, 2.   , 4.   ], dtype=float32)
    """
    x, lmbda = inexact("boxcox", x, lmbda)
    return boxcox1p_of(jnp.log(x), lmbda)


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """((1 + x)^lmbda - 1) / lmbda, log(1 + x) at lmbda = 0.

    Arguments are real arrays (integers are converted), broadcast against one another; the result is
    float. NaN for `x` below -1. As `scipy.special.boxcox1p`.

    >>> from pullback.scipy import special
    >>> special.boxcox1p(2., jnp.array([0., 1., 2.])).round(3)
    Array([1.099, 2.   , 4.   ], dtype=float32)
    """
    x, lmbda = inexact("boxcox1p", x, lmbda)
    return boxcox1p_of(jnp.log1p(x), lmbda)


def boxcox1p_of(log: Any, lmbda: Any) -> Any:
    """expm1(lmbda * log) / lmbda, log at lmbda = 0."""
    zero = lmbda == 0
    safe = jnp.where(zero, 1, lmbda)
    return jnp.where(zero, log, jnp.expm1(safe * log) / safe)


# --- the error function ---
def erf(x: Any) -> Any:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.erf`.

    >>> from pullback.scipy import special
    >>> special.erf(jnp.array([0., 1.])).round(3)
    Array([0.   , 0.843], dtype=float32)
    """
    (x,) = real("erf", x, error=TypeError)
    return lax.erf(x)


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. As `scipy.special.erfc`.

    >>> from pullback.scipy import special
    >>> special.erfc(jnp.array([0., 1.])).round(3)
    Array([1.   , 0.157], dtype=float32)
    """
    (x,) = real("erfc", x, error=TypeError)
    return lax.erfc(x)


def erfinv(x: Any) -> Any:
    """The inverse of erf.

    `x`: a real array (integers are converted); the result is float, of its shape. Raises TypeError
    for complex numbers. Infinite at -1 and 1, NaN beyond. As `scipy.special.erfinv`.

    >>> from pullback.scipy import special
    >>> special.erfinv(jnp.array([0., 0.5, 1.])).round(3)
    Array([0.   , 0.477,   inf], dtype=float32)
    """
    (x,) = real("erfinv", x, error=TypeError)
    return lax.erf_inv(x)


def _normal_dtype(name: str, x: Any) -> Any:
    x = jnp.asarray(x)
    dtype = typeof(x).dtype
    x = lax.convert_element_type(x, dtype)
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise TypeError(
            f"x.dtype={dtype.name} is not supported, see docstring for supported types. Fix: give "
            f"{name} float32 or float64."
        )
    return x


def ndtr(x: Any) -> Any:
    """The probability that a standard normal variable is below x.

    >>> pb.scipy.special.ndtr(0.)
    Array(0.5, dtype=float32)

    Raises TypeError unless x is float32 or float64.
    """
    return _ndtr(_normal_dtype("ndtr", x))


def _ndtr(x: Any) -> Any:
    half = float(0.5 * np.sqrt(2.0))
    w = x * half
    z = lax.abs(w)
    small, middle = z < half, 1 + lax.erf(w)
    return 0.5 * lax.select(small, middle, lax.select(w > 0, 2 - lax.erfc(z), lax.erfc(z)))


# Coefficients of the Cephes library's approximations of the normal quantile (S. Moshier), for the
# middle, and for sqrt(-2 log p) below 8 and above.
_P0 = [
    -5.99633501014107895267e1,
    9.80010754185999661536e1,
    -5.66762857469070293439e1,
    1.39312609387279679503e1,
    -1.23916583867381258016e0,
]
_Q0 = [
    1.0,
    1.95448858338141759834e0,
    4.67627912898881538453e0,
    8.63602421390890590575e1,
    -2.25462687854119370527e2,
    2.00260212380060660359e2,
    -8.20372256168333339912e1,
    1.59056225126211695515e1,
    -1.18331621121330003142e0,
]
_P1 = [
    4.05544892305962419923e0,
    3.15251094599893866154e1,
    5.71628192246421288162e1,
    4.40805073893200834700e1,
    1.46849561928858024014e1,
    2.18663306850790267539e0,
    -1.40256079171354495875e-1,
    -3.50424626827848203418e-2,
    -8.57456785154685413611e-4,
]
_Q1 = [
    1.0,
    1.57799883256466749731e1,
    4.53907635128879210584e1,
    4.13172038254672030440e1,
    1.50425385692907503408e1,
    2.50464946208309415979e0,
    -1.42182922854787788574e-1,
    -3.80806407691578277194e-2,
    -9.33259480895457427372e-4,
]
_P2 = [
    3.23774891776946035970e0,
    6.91522889068984211695e0,
    3.93881025292474443415e0,
    1.33303460815807542389e0,
    2.01485389549179081538e-1,
    1.23716634817820021358e-2,
    3.01581553508235416007e-4,
    2.65806974686737550832e-6,
    6.23974539184983293730e-9,
]
_Q2 = [
    1.0,
    6.02427039364742014255e0,
    3.67983563856160859403e0,
    1.37702099489081330271e0,
    2.16236993594496635890e-1,
    1.34204006088543189037e-2,
    3.28014464682127739104e-4,
    2.89247864745380683936e-6,
    6.79019408009981274425e-9,
]


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial with these coefficients, highest power first."""
    return _horner(tuple(coefficients), x)


@functools.partial(jit, static_argnums=0)
@shown_as("polyval")
def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    y = lax.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        y = y * x + lax.full_like(x, c)
    return y


def ndtri(p: Any) -> Any:
    """The x below which a standard normal variable lies with probability p: the inverse of ndtr.

    Raises TypeError unless p is float32 or float64.

    Infinite at 0 and 1, NaN beyond. As `scipy.special.ndtri`.

    >>> from pullback.scipy import special
    >>> special.ndtri(jnp.array([0.5, 0.975])).round(3)
    Array([0.  , 1.96], dtype=float32)
    """
    return _ndtri(_normal_dtype("ndtri", p))


@custom_jvp
def _ndtri(p: Any) -> Any:
    tail = float(np.exp(-2.0))
    high = p > 1 - tail
    q = jnp.where(high, 1 - p, p)
    q = jnp.where(q == 0, lax.full_like(q, 0.5), q)
    w = q - 0.5
    ww = w * w
    middle = (w + w * ww * horner(_P0, ww) / horner(_Q0, ww)) * -float(np.sqrt(2 * np.pi))
    z = jnp.sqrt(-2.0 * jnp.log(q))
    first = z - jnp.log(z) / z
    r = 1 / z
    near = first - horner(_P1, r) / horner(_Q1, r) * r
    far = first - horner(_P2, r) / horner(_Q2, r) * r
    x = jnp.where(q > tail, middle, jnp.where(z >= 8.0, far, near))
    x = jnp.where(high, x, -x)
    # Constants, which jax_debug_infs does not find: no operation gives them.
    below, above = lax.full_like(p, -np.inf), lax.full_like(p, np.inf)
    x = jnp.where(p == 0, below, jnp.where(p == 1, above, x))
    return jnp.where((p < 0) | (p > 1) | jnp.isnan(p), lax.full_like(p, np.nan), x)


# At 0 and 1, whose quantiles are infinite, no slope, as JAX has it.
_ndtri.defjvps(
    lambda t, x, p: t * jnp.where(jnp.isinf(x), 0, jnp.exp(0.5 * x * x) * float(np.sqrt(2 * np.pi)))
)


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The logarithm of ndtr, accurate far into the lower tail, where an asymptotic series of
    `series_order` terms takes over.

    Raises TypeError unless x is float32 or float64, ValueError for a negative order or one above
    30.

    As `scipy.special.log_ndtr`.

    >>> from pullback.scipy import special
    >>> special.log_ndtr(jnp.array([0., -20.])).round(3)
    Array([  -0.693, -203.917], dtype=float32)
    """
    if not isinstance(series_order, (int, np.integer)):
        raise TypeError("series_order must be a Python integer.")
    if series_order < 0:
        raise ValueError("series_order must be non-negative.")
    if series_order > 30:
        raise ValueError("series_order must be <= 30.")
    _normal_dtype("log_ndtr", x)
    return _log_ndtr(jnp.asarray(x), int(series_order))


def _log_ndtr_value(x: Any, order: int) -> Any:
    lower, upper = (-20.0, 8.0) if typeof(x).dtype == np.float64 else (-10.0, 5.0)
    far = lax.full_like(x, lower)
    tail = lax.min(x, far)
    square = tail * tail
    even, odd, power = lax.full_like(x, 0), lax.full_like(x, 0), square
    double_factorial = 1.0
    for k in range(1, order + 1):
        double_factorial *= 2 * k - 1
        term = double_factorial / power
        even, odd = (even, odd + term) if k % 2 else (even + term, odd)
        power = power * square
    # Above 0 ndtr is 1 less what it is at -x, and rounding leaves little of that.
    beyond = _ndtr(-lax.abs(lax.max(x, far)))
    near = x > lower
    log_scale = -0.5 * square - 0.5 * float(np.log(2.0 * np.pi))
    below = jnp.log(jnp.where(near, beyond, (1 + even - odd) / -tail))
    below = jnp.where(near, below, log_scale + below)
    return jnp.where(x > upper, -beyond, jnp.where(x > 0, jnp.log1p(-beyond), below))


def _log_ndtr(x: Any, order: int) -> Any:
    @custom_jvp
    def log_ndtr(x: Any) -> Any:
        return _log_ndtr_value(_normal_dtype("log_ndtr", x), order)

    log_ndtr.defjvps(lambda t, out, x: lax.mul(t, _log_ndtr_slope(x, out)))
    return log_ndtr(x)


def _log_ndtr_slope(x: Any, log: Any) -> Any:
    """The density over the probability. In the lower tail, where their logarithms cancel, by
    Laplace's continued fraction, t + 1 / (t + 2 / (t + ...)) at x = -t.
    """
    wide = typeof(x).dtype == np.float64
    tail = x < (-20 if wide else -10)
    t = jnp.where(tail, -x, 20)
    fraction = t
    for k in range(8 if wide else 5, 0, -1):
        fraction = t + k / fraction
    held = jnp.where(tail, 0, x)
    return jnp.where(
        tail, fraction, jnp.exp(-0.5 * held * held - log - 0.5 * float(np.log(2 * np.pi)))
    )
