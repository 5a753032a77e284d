"""Special functions that are loops: incomplete gamma and beta functions and their derivatives.

Each is a primitive; what it means is a program built on while_loop, which the back ends read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.jaxpr import ClosedJaxpr
from ..core.primitive import No, Primitive
from ..primitives.builders import binary, jvp_of, nary_batch
from ..primitives.common import FLOAT, broadcast_dims, const, nary_aval
from ..primitives.convert import convert_element_type
from ..primitives.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    div,
    eq,
    floor,
    ge,
    gt,
    le,
    log,
    lt,
    mul,
    ne,
    neg,
    select,
    sub,
)
from ..primitives.layout import broadcast_to
from ..primitives.maths import erfc, exp, expm1, lgamma, log1p, rsqrt, sqrt
from ..primitives.reductions import any_true
from ..primitives.shape import full_like
from ..transforms.jvp import jvp_flat
from .while_loop import while_loop

_MAX_STEPS = 2000
_REAL = (FLOAT,)


def _c(x: Any, value: float) -> Any:
    return full_like(x, value)


def _iterate(active: Any, step: Callable[[Any, Any], tuple[Any, Any]], state: Any) -> Any:
    """Repeats `state, more = step(k, state)` elementwise where `active`, until nothing is (k = 1,
    2, ...).
    """

    def running(loop: Any) -> Any:
        k, mask, _ = loop
        return bitwise_and(lt(k, _c(k, _MAX_STEPS)), any_true(mask))

    def body(loop: Any) -> Any:
        k, mask, held = loop
        new, more = step(k, held)
        new = tuple(select(mask, a, b) for a, b in zip(new, held, strict=True))
        return add(k, _c(k, 1)), bitwise_and(mask, more), new

    one = np.ones((), typeof(state[0]).dtype)[()]
    return while_loop(running, body, (one, active, state))[2]


_Step = Callable[[Any, Any], tuple[Any, Any]]


def _fraction(
    made: Callable[[Any], tuple[Any, _Step]], p: Any, active: Any, slopes: bool
) -> tuple[Any, ...]:
    """The last state of a continued fraction, which `made(p)` gives as its first state and a step.
    At an integer p a numerator vanishes and the value is found at once, its derivatives are not:
    for `slopes` the fraction goes on until that of a p between integers has converged, too.
    """
    state, step = made(p)
    if not slopes:
        return tuple(_iterate(active, step, state))
    other, other_step = made(sub(floor(p), _c(p, 0.5)))
    n = len(state)

    def both(k: Any, held: Any) -> tuple[Any, Any]:
        new, more = step(k, held[:n])
        beside, more_beside = other_step(k, held[n:])
        return (*new, *beside), bitwise_or(more, more_beside)

    return tuple(_iterate(active, both, (*state, *other))[:n])


# --- the incomplete gamma function ---
# Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM Journal on Mathematical
# Analysis 10 (1979); NIST's Digital Library of Mathematical Functions, 8.12.
_LARGE = 1e4  # of a: the expansion, which is exact there, instead of loops that grow with sqrt(a)
_FAR = 0.45  # of eta: further out, exp(-a eta^2 / 2) is 0 for such a


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Of coefficients, constant first."""
    out = _c(x, coefficients[-1])
    for value in reversed(coefficients[:-1]):
        out = add(mul(out, x), _c(x, value))
    return out


def _stirling(a: Any) -> Any:
    """lgamma(a + 1) - (a log a - a + log(2 pi a) / 2); exact for a from 10."""
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    return div(_polynomial(terms, div(_c(a, 1), mul(a, a))), a)


def _excess(mu: Any) -> Any:
    """(mu - log(1 + mu)) / mu^2 for |mu| up to 1/2, smooth at 0: with r = mu / (2 + mu), the
    logarithm is 2 artanh r."""
    long = add(mu, _c(mu, 2))
    r = div(mu, long)
    odd = _polynomial([1 / (2 * k + 3) for k in range(16)], mul(r, r))
    return div(sub(_c(mu, 1), div(mul(mul(_c(mu, 2), r), odd), long)), long)


def _gamma_front(a: Any, x: Any) -> Any:
    """x^a e^-x / Gamma(a + 1): from a = 10 on, what nearly cancels is taken together."""
    ten = ge(a, _c(a, 10))
    small, large = select(ten, _c(a, 10), a), select(ten, a, _c(a, 10))
    direct = sub(sub(mul(small, log(x)), x), lgamma(add(small, _c(a, 1))))
    mu = div(sub(x, large), large)
    near = lt(abs(mu), _c(mu, 0.5))
    held = select(near, mu, _c(mu, 0))
    away = sub(mu, log(select(near, _c(mu, 1), div(x, large))))
    excess = select(near, mul(mul(held, held), _excess(held)), away)
    joint = neg(add(mul(large, excess), _stirling(large)))
    root = select(ten, rsqrt(mul(_c(a, 2 * math.pi), large)), _c(a, 1))
    return mul(exp(select(ten, joint, direct)), root)


@functools.cache
def _temme() -> list[list[float]]:
    """Taylor coefficients in eta of c_0 ... c_3: c_0 = 1 / mu - 1 / eta, and c_k = c_(k-1)' / eta +
    (-1)^k g_k / mu with Stirling's g_k, where eta^2 / 2 = mu - log(1 + mu). The poles cancel."""
    n = 28
    # mu = eta (b_0 + b_1 eta + ...), by mu mu' = eta (1 + mu).
    b = [Fraction(1)]
    for k in range(1, n + 1):
        inner = sum(((j + 1) * b[j] * b[k - j] for j in range(1, k)), Fraction(0))
        b.append((b[k - 1] - inner) / (k + 2))
    inverse = [Fraction(1)]  # eta / mu
    for k in range(1, n + 1):
        inverse.append(-sum((b[j] * inverse[k - j] for j in range(1, k + 1)), Fraction(0)))
    lines = [inverse[1:]]
    for g in (Fraction(-1, 12), Fraction(1, 288), Fraction(139, 51840)):
        slope = [k * c for k, c in enumerate(lines[-1])][1:]
        # [1 / eta] of both: slope[0] + g inverse[0] = 0.
        lines.append([s + g * i for s, i in zip(slope[1:], inverse[1:], strict=False)])
    return [
        [float(c) for c in line[:size]] for line, size in zip(lines, (20, 14, 9, 4), strict=True)
    ]


def _gamma_expansion(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q, for large a: half an erfc, and a series in 1 / a."""
    mu = div(sub(x, a), a)
    far = gt(abs(mu), _c(mu, 0.5))
    held = select(far, _c(mu, 0), mu)
    # sqrt as a power: smooth where mu is 0.
    eta = mul(held, exp(mul(_c(mu, 0.5), log(mul(_c(mu, 2), _excess(held))))))
    far = bitwise_or(far, gt(abs(eta), _c(eta, _FAR)))
    eta = select(far, select(gt(mu, _c(mu, 0)), _c(mu, 1), _c(mu, -1)), eta)
    held = select(far, _c(mu, 0), eta)
    again = div(_c(a, 1), a)
    series = _c(a, 0)
    for line in reversed(_temme()):
        series = add(mul(series, again), _polynomial(line, held))
    half = mul(_c(a, 0.5), a)
    rest = mul(mul(exp(neg(mul(half, mul(eta, eta)))), rsqrt(mul(_c(a, 2 * math.pi), a))), series)
    tail = mul(eta, sqrt(half))
    if upper:
        return add(mul(_c(a, 0.5), erfc(tail)), rest)
    return sub(mul(_c(a, 0.5), erfc(neg(tail))), rest)


def _gamma_series(a: Any, x: Any, active: Any) -> Any:
    """P(a, x) = x^a e^-x / Gamma(a + 1) * sum of x^n / ((a + 1) ... (a + n)); for x up to a."""
    eps = _c(x, float(np.finfo(typeof(x).dtype).eps) / 8)

    def step(k: Any, state: Any) -> Any:
        total, term = state
        term = mul(term, div(x, add(a, broadcast_to(k, typeof(a).shape))))
        total = add(total, term)
        return (total, term), gt(term, mul(eps, total))

    total, _ = _iterate(active, step, (_c(x, 1), _c(x, 1)))
    return mul(_gamma_front(a, x), total)


def _gamma_fraction(a: Any, x: Any, active: Any, slopes: bool) -> Any:
    """Q(a, x) = 1 - P(a, x) by its continued fraction (Lentz's method); for x above a and 1."""
    h = _fraction(lambda a: _gamma_steps(a, x), a, active, slopes)[3]
    return mul(mul(_gamma_front(a, x), a), h)


def _gamma_steps(a: Any, x: Any) -> tuple[Any, _Step]:
    eps = _c(x, float(np.finfo(typeof(x).dtype).eps) / 2)
    one, tiny = _c(x, 1), _c(x, 1e-30)
    b0 = add(sub(x, a), one)
    d0 = div(one, b0)

    def step(k: Any, state: Any) -> Any:
        b, c, d, h = state
        i = broadcast_to(k, typeof(a).shape)
        an = neg(mul(i, sub(i, a)))
        b = add(b, _c(b, 2))
        d = add(mul(an, d), b)
        d = select(lt(abs(d), tiny), tiny, d)
        c = add(b, div(an, c))
        c = select(lt(abs(c), tiny), tiny, c)
        d = div(one, d)
        change = mul(d, c)
        return (b, c, d, mul(h, change)), gt(abs(sub(change, one)), eps)

    return (b0, div(one, tiny), d0, d0), step


_SHORT = 0.5  # of a: up to it and x up to 1, P is so near to 1 that Q is no difference


@functools.cache
def _log_gamma_terms(count: int) -> list[float]:
    """(-1)^k (zeta(k) - 1) / k for k = 2, 3, ...; the tails of zeta's sums by Euler and Maclaurin's
    formula."""
    n = 256
    terms = []
    for k in range(2, count + 2):
        tail = n ** (1.0 - k) * (1 / (k - 1) + 0.5 / n + k / 12 / n**2)
        tail -= n ** (-k - 3.0) * k * (k + 1) * (k + 2) / 720
        terms.append((-1) ** k / k * (math.fsum(float(j) ** -k for j in range(2, n)) + tail))
    return terms


def _lgamma_beside_1(a: Any) -> Any:
    """lgamma(1 + a) for a from 0 to 1/2, of which 1 + a would lose the digits (DLMF 5.7.3)."""
    terms = _log_gamma_terms(12 if typeof(a).dtype == np.float32 else 26)
    return sub(mul(a, _polynomial([1 - np.euler_gamma, *terms], a)), log1p(a))


def _gamma_short(a: Any, x: Any, active: Any) -> Any:
    """Q(a, x) for small a and x, where it is nearly a E_1(x): 1 - P(a, x) is taken apart into 1 -
    x^a / Gamma(a + 1), and that power times the sum of a (-x)^n / ((a + n) n!) (DLMF 8.7.1)."""
    eps = _c(x, float(np.finfo(typeof(x).dtype).eps) / 8)

    def step(k: Any, state: Any) -> Any:
        total, term = state
        i = broadcast_to(k, typeof(a).shape)
        term = neg(mul(term, div(x, i)))
        total = add(total, div(term, add(a, i)))
        return (total, term), gt(abs(term), mul(eps, abs(total)))

    total, _ = _iterate(active, step, (_c(x, 0), _c(x, 1)))
    power = expm1(sub(mul(a, log(x)), _lgamma_beside_1(a)))
    return neg(add(power, mul(mul(a, total), add(power, _c(a, 1)))))


def _gamma_pair(a: Any, x: Any, upper: bool, slopes: bool = False) -> Any:
    """P(a, x), or Q(a, x) if `upper`; each element by the formula that converges for it. `slopes`:
    it is going to be differentiated.
    """
    one, zero = _c(x, 1), _c(x, 0)
    wrong = bitwise_or(bitwise_or(lt(x, zero), lt(a, zero)), bitwise_or(ne(a, a), ne(x, x)))
    inf = _c(x, np.inf)
    wrong = bitwise_or(wrong, bitwise_and(eq(a, zero), eq(x, zero)))
    wrong = bitwise_or(wrong, bitwise_and(eq(a, inf), eq(x, inf)))
    # All the mass of the distribution of shape 0 is at 0, that of an infinite one nowhere.
    at_zero = bitwise_or(eq(x, zero), eq(a, inf))
    at_inf = bitwise_or(eq(x, inf), eq(a, zero))
    edge = bitwise_or(bitwise_or(wrong, at_zero), at_inf)
    a1, x1 = select(edge, one, a), select(edge, one, x)
    large = ge(a1, _c(a, _LARGE))
    by_fraction = bitwise_and(bitwise_and(gt(x1, one), gt(x1, a1)), bitwise_not(large))
    by_series = bitwise_not(bitwise_or(by_fraction, large))
    if upper:
        short = bitwise_and(bitwise_and(by_series, le(a1, _c(a, _SHORT))), le(x1, one))
        by_series = bitwise_and(by_series, bitwise_not(short))
    # Each formula sees harmless operands where another one is used.
    a_s, x_s = select(by_series, a1, one), select(by_series, x1, one)
    a_f, x_f = select(by_fraction, a1, one), select(by_fraction, x1, _c(x, 2))
    a_l, x_l = (select(large, v, _c(v, _LARGE)) for v in (a1, x1))
    p = _gamma_series(a_s, x_s, by_series)
    q = _gamma_fraction(a_f, x_f, by_fraction, slopes)
    if upper:
        a_0, x_0 = select(short, a1, _c(a, _SHORT)), select(short, x1, one)
        out = select(short, _gamma_short(a_0, x_0, short), sub(one, p))
    else:
        out = p if slopes else select(gt(p, one), one, p)
    out = select(by_fraction, q if upper else sub(one, q), out)
    out = select(large, _gamma_expansion(a_l, x_l, upper), out)
    out = select(at_zero, one if upper else zero, out)
    out = select(at_inf, zero if upper else one, out)
    return select(wrong, _c(x, np.nan), out)


# --- the incomplete beta function ---
def _beta_steps(a: Any, b: Any, x: Any) -> tuple[Any, _Step]:
    """The continued fraction of the incomplete beta function (Numerical methods: Didonato and
    Morris 1992), by Lentz's method.
    """
    one, tiny = _c(x, 1), _c(x, 1e-30)
    eps = _c(x, float(np.finfo(typeof(x).dtype).eps) / 2)
    total = add(a, b)

    def guard(v: Any) -> Any:
        return select(lt(abs(v), tiny), tiny, v)

    d0 = div(one, guard(sub(one, div(mul(total, x), add(a, one)))))

    def step(k: Any, state: Any) -> Any:
        c, d, h = state
        m = broadcast_to(k, typeof(a).shape)
        m2 = add(a, add(m, m))
        even = div(mul(mul(m, sub(b, m)), x), mul(sub(m2, one), m2))
        d = div(one, guard(add(one, mul(even, d))))
        c = guard(add(one, div(even, c)))
        h = mul(h, mul(d, c))
        odd = neg(div(mul(mul(add(a, m), add(total, m)), x), mul(m2, add(m2, one))))
        d = div(one, guard(add(one, mul(odd, d))))
        c = guard(add(one, div(odd, c)))
        change = mul(d, c)
        return (c, d, mul(h, change)), gt(abs(sub(change, one)), eps)

    return (one, d0, d0), step


def _log_beta(a: Any, b: Any) -> Any:
    return sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))


def _beta_value(a: Any, b: Any, x: Any, slopes: bool = False) -> Any:
    one, zero = _c(x, 1), _c(x, 0)
    wrong = bitwise_or(bitwise_or(lt(a, zero), lt(b, zero)), bitwise_or(lt(x, zero), gt(x, one)))
    wrong = bitwise_or(wrong, ne(add(add(a, b), x), add(add(a, b), x)))
    # Where one parameter is 0 or infinite, all the mass is at one end.
    inf = _c(x, np.inf)
    at_start = bitwise_or(eq(a, zero), eq(b, inf))
    at_end = bitwise_or(eq(b, zero), eq(a, inf))
    wrong = bitwise_or(wrong, bitwise_and(at_start, at_end))
    edge = bitwise_or(wrong, bitwise_or(eq(x, zero), eq(x, one)))
    edge = bitwise_or(edge, bitwise_or(at_start, at_end))
    a1, b1, x1 = select(edge, one, a), select(edge, one, b), select(edge, _c(x, 0.5), x)
    swap = gt(x1, div(add(a1, one), add(add(a1, b1), _c(x, 2))))
    y1 = sub(one, x1)
    a2, b2, x2 = select(swap, b1, a1), select(swap, a1, b1), select(swap, y1, x1)
    log_front = sub(add(mul(a1, log(x1)), mul(b1, log1p(neg(x1)))), _log_beta(a1, b1))
    fraction = _fraction(lambda b: _beta_steps(a2, b, x2), b2, eq(x2, x2), slopes)[2]
    part = div(mul(exp(log_front), fraction), a2)
    out = select(swap, sub(one, part), part)
    out = select(at_start, one, select(at_end, zero, out))
    out = select(eq(x, zero), zero, select(eq(x, one), one, out))
    return select(wrong, _c(x, np.nan), out)


# --- what each primitive computes ---
def _elementwise(core: Callable[..., Any]) -> Callable[..., Any]:
    """A function of operands of one shape and at least 32 bits, for scalars beside arrays and for
    narrow types.
    """

    @functools.wraps(core)
    def fun(*args: Any, **params: Any) -> Any:
        avals = [typeof(x) for x in args]
        dtype = avals[0].dtype
        wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
        shape = broadcast_dims(core.__name__, [a.shape for a in avals])
        args = tuple(convert_element_type(x, wide) for x in args)
        args = tuple(x if typeof(x).shape == shape else broadcast_to(x, shape) for x in args)
        return convert_element_type(core(*args, **params), dtype)

    return fun


@_elementwise
def _igamma(a: Any, x: Any) -> Any:
    return _gamma_pair(a, x, False)


@_elementwise
def _igammac(a: Any, x: Any) -> Any:
    return _gamma_pair(a, x, True)


_betainc = _elementwise(_beta_value)


def _slope(f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of an elementwise function of one operand."""
    return jvp_flat(lambda v: [f(v)], [x], [_c(x, 1)])[1][0]


def _derivative(f: Callable[..., Any], orders: tuple[int, ...]) -> Callable[..., Any]:
    """The derivative of an elementwise function, of an order for each operand."""
    for k, order in enumerate(orders):
        for _ in range(order):
            f = _slope_in(f, k)
    return f


def _slope_in(f: Callable[..., Any], k: int) -> Callable[..., Any]:
    return lambda *args: _slope(lambda v: f(*args[:k], v, *args[k + 1 :]), args[k])


@_elementwise
def _igamma_da(a: Any, x: Any) -> Any:
    slope = _derivative(_DIFFERENTIATED["igamma"], (1, 0))(a, x)
    defined = bitwise_and(gt(a, _c(a, 0)), ge(x, _c(x, 0)))
    return select(defined, slope, _c(a, np.nan))


def gamma_density(a: Any, x: Any) -> Any:
    """The density of the gamma distribution: exp(-x + (a - 1) log x - lgamma(a))."""
    return exp(sub(add(neg(x), mul(sub(a, const(a, 1)), log(x))), lgamma(a)))


def _betainc_dx(a: Any, b: Any, x: Any) -> Any:
    """The density of the beta distribution."""
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(mul(sub(b, const(b, 1)), log1p(neg(x))), mul(sub(a, const(a, 1)), log(x)))
    return exp(sub(powers, log_beta))


# --- the primitives ---
def _slope_of(name: str, *orders: int) -> Callable[..., Any]:
    """A derivative formula: the tangent times a derivative of a function of _DIFFERENTIATED. That
    derivative is a function of the primals alone, so that no loop is ever transposed, and the next
    derivative is one of the same family."""
    return lambda t, y, *args: mul(t, derivative_p.bind(*args, function=name, orders=orders))


def _next_slope(k: int) -> Callable[..., Any]:
    def formula(t: Any, y: Any, *args: Any, function: str, orders: tuple[int, ...]) -> Any:
        raised = tuple(n + (j == k) for j, n in enumerate(orders))
        return mul(t, derivative_p.bind(*args, function=function, orders=raised))

    return formula


igamma_p = binary(
    "igamma",
    _REAL,
    lambda t, y, a, x: mul(t, igamma_grad_a_p.bind(a, x)),
    lambda t, y, a, x: mul(t, gamma_density(a, x)),
)
igammac_p = binary(
    "igammac",
    _REAL,
    lambda t, y, a, x: mul(neg(t), igamma_grad_a_p.bind(a, x)),
    lambda t, y, a, x: mul(neg(t), gamma_density(a, x)),
)
igamma_grad_a_p: Primitive = binary(
    "igamma_grad_a", _REAL, _slope_of("igamma", 2, 0), _slope_of("igamma", 1, 1)
)
regularized_incomplete_beta_p: Primitive = Primitive(
    "regularized_incomplete_beta",
    abstract_eval=nary_aval("regularized_incomplete_beta", (_REAL,) * 3),
    jvp=jvp_of(
        lambda: regularized_incomplete_beta_p,
        _slope_of("betainc", 1, 0, 0),
        _slope_of("betainc", 0, 1, 0),
        lambda t, y, a, b, x: mul(_betainc_dx(a, b, x), t),
    ),
    transpose=No.NOT_LINEAR,
    batch=nary_batch(lambda: regularized_incomplete_beta_p),
)


def _derivative_aval(*avals: Any, function: str, orders: tuple[int, ...]) -> Any:
    return nary_aval(f"derivative of {function}", (_REAL,) * len(avals))(*avals)


derivative_p: Primitive = Primitive(
    "special_derivative",
    abstract_eval=_derivative_aval,
    jvp=jvp_of(lambda: derivative_p, *map(_next_slope, range(3))),
    transpose=No.NOT_LINEAR,
    batch=nary_batch(lambda: derivative_p),
)
_DIFFERENTIATED: dict[str, Callable[..., Any]] = {
    "igamma": lambda a, x: _gamma_pair(a, x, False, slopes=True),
    "betainc": lambda a, b, x: _beta_value(a, b, x, slopes=True),
}


@_elementwise
def _any_derivative(*args: Any, function: str, orders: tuple[int, ...]) -> Any:
    return _derivative(_DIFFERENTIATED[function], orders)(*args)


FUNCTIONS: dict[Primitive, Callable[..., Any]] = {
    igamma_p: _igamma,
    igammac_p: _igammac,
    igamma_grad_a_p: _igamma_da,
    regularized_incomplete_beta_p: _betainc,
    derivative_p: _any_derivative,
}


def program(
    primitive: Primitive, shapes: tuple[tuple[int, ...], ...], dtype: Any, params: dict[str, Any]
) -> ClosedJaxpr:
    """What a primitive computes, for operands of these shapes and this dtype."""
    return _program(primitive, shapes, dtype, tuple(sorted(params.items())))


@functools.lru_cache(maxsize=256)
def _program(
    primitive: Primitive, shapes: tuple[tuple[int, ...], ...], dtype: Any, params: Any
) -> ClosedJaxpr:
    fun = FUNCTIONS[primitive]
    avals = [ShapedArray(s, dtype) for s in shapes]
    return close_jaxpr(*trace_to_jaxpr(lambda *args: [fun(*args, **dict(params))], avals))[0]
