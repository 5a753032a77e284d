"""Taylor series of primitives: how the coefficients of a result follow from those of the operands.

A series is [x0, x1, ..., xK], of the path x0 + x1 t + ... + xK t^K. A coefficient that is known to
be zero is `zero_term`: products with it are never computed. A rule is a function
(primitive, list of series, params) -> series of the result, or None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtypes, lax, numpy as jnp
from ..core.avals import typeof


class ZeroTerm:
    """The coefficient that is zero, of whatever shape.

    >>> from pullback.experimental import jet
    >>> isinstance(jet.zero_term, jet.ZeroTerm)
    True
    """


class ZeroSeries:
    """All coefficients after the first of a value that does not move along the path.

    >>> from pullback.experimental import jet
    >>> isinstance(jet.zero_series, jet.ZeroSeries)
    True
    """


zero_term = ZeroTerm()
zero_series = ZeroSeries()

Series = list[Any]
Rule = Callable[[Any, list[Series], dict[str, Any]], Series | None]
rules: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(f: Rule) -> Rule:
        rules.update(dict.fromkeys(names, f))
        return f

    return add


def _unary(*names: str) -> Callable[[Any], Any]:
    """A rule of one operand without zeros: (the result, series of the operand) -> series."""

    def add(f: Callable[[Any, Series], Series]) -> Any:
        def rule(p: Any, args: list[Series], params: dict[str, Any]) -> Series | None:
            (x,) = args
            return f(p.bind(x[0], **params), x)

        rules.update(dict.fromkeys(names, rule))
        return f

    return add


# --- arithmetic of coefficients ---
def is_zero(x: Any) -> bool:
    return x is zero_term


def moves(x: Series) -> bool:
    """Does any coefficient after the first differ from zero?"""
    return not all(map(is_zero, x[1:]))


def differentiable(x: Any) -> bool:
    """Is this a value that has derivatives: of a float or complex type?"""
    dtype = getattr(typeof(x), "dtype", None)
    return dtype is not None and dtypes.is_inexact(dtype)


def zeros_like(x: Any) -> Any:
    return lax.full_like(x, 0)


def instantiate(term: Any, like: Any) -> Any:
    return zeros_like(like) if is_zero(term) else term


def _plus(a: Any, b: Any) -> Any:
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    return lax.add(a, b)


def minus(a: Any, b: Any) -> Any:
    if is_zero(b):
        return a
    return lax.neg(b) if is_zero(a) else lax.sub(a, b)


def _times(a: Any, b: Any) -> Any:
    return zero_term if is_zero(a) or is_zero(b) else lax.mul(a, b)


def scaled(a: Any, by: float) -> Any:
    """by * a, of a's type."""
    if is_zero(a) or by == 0:
        return zero_term
    return a if by == 1 else lax.mul(a, lax.full_like(a, by))


def divided(a: Any, by: float) -> Any:
    """a / by, of a's type."""
    return a if is_zero(a) or by == 1 else lax.div(a, lax.full_like(a, by))


def _over(a: Any, b: Any) -> Any:
    return zero_term if is_zero(a) else lax.div(a, b)


def _sum(terms: Sequence[Any]) -> Any:
    total: Any = zero_term
    for term in terms:
        total = _plus(total, term)
    return total


def _convolved(times: Callable[[Any, Any], Any], a: Series, b: Series, k: int) -> Any:
    """The k-th coefficient of the product of two series."""
    return _sum([times(a[j], b[k - j]) for j in range(k + 1)])


def product(a: Series, b: Series) -> Series:
    return [_convolved(_times, a, b, k) for k in range(len(a))]


def quotient(a: Series, b: Series, first: Any) -> Series:
    """a / b, whose first coefficient is known."""
    out = [first]
    for k in range(1, len(a)):
        known = _sum([_times(out[j], b[k - j]) for j in range(k)])
        out.append(_over(minus(a[k], known), b[0]))
    return out


def _integrated(slope: Series, x: Series, k: int) -> Any:
    """The k-th coefficient of y where y' = slope * x', from the first k coefficients of slope."""
    return divided(_sum([scaled(_times(x[j], slope[k - j]), j) for j in range(1, k + 1)]), k)


def integral(slope: Series, x: Series, first: Any) -> Series:
    """The series of y where y' = slope * x' and y starts with `first`."""
    return [first, *(_integrated(slope, x, k) for k in range(1, len(x)))]


# --- linear, bilinear ---
@_rule(
    *"neg real imag complex conj add_any convert_element_type broadcast_in_dim reshape".split(),
    *"squeeze transpose slice rev concatenate stack pad reduce_sum cumsum copy copy_p".split(),
    *"select_n gather dynamic_slice dynamic_update_slice scatter-add reduce_precision".split(),
    *"fft expand_dims reduce_window_sum psum device_put reshard sharding_constraint".split(),
)
def _linear(p: Any, args: list[Series], params: dict[str, Any]) -> Series | None:
    """Linear in the operands that have derivatives; the others (indices, predicates) choose."""
    if p.multiple_results:
        return None
    varying = [differentiable(x[0]) for x in args]
    out = [p.bind(*(x[0] for x in args), **params)]
    for k in range(1, len(args[0])):
        if all(is_zero(x[k]) for x, v in zip(args, varying, strict=True) if v):
            out.append(zero_term)
            continue
        operands = [
            instantiate(x[k], x[0]) if v else x[0] for x, v in zip(args, varying, strict=True)
        ]
        out.append(p.bind(*operands, **params))
    return out


@_rule("add", "sub")
def _plus_or_minus(p: Any, args: list[Series], params: dict[str, Any]) -> Series | None:
    x, y = args
    if typeof(x[0]).shape != typeof(y[0]).shape:
        return _linear(p, args, params)
    of_terms = _plus if p.name == "add" else minus
    return [p.bind(x[0], y[0], **params), *map(of_terms, x[1:], y[1:])]


@_rule("mul", "dot_general", "conv_general_dilated")
def _bilinear(p: Any, args: list[Series], params: dict[str, Any]) -> Series:
    def times(a: Any, b: Any) -> Any:
        return zero_term if is_zero(a) or is_zero(b) else p.bind(a, b, **params)

    x, y = args
    return [_convolved(times, x, y, k) for k in range(len(x))]


@_rule("div")
def _div(p: Any, args: list[Series], params: dict[str, Any]) -> Series:
    x, y = args
    return quotient(x, y, p.bind(x[0], y[0], **params))


@_rule("triangular_solve")
def _triangular_solve(p: Any, args: list[Series], params: dict[str, Any]) -> Series:
    """x of op(a) x = b: op(a0) x_k = b_k - (the products of the others), from the triangle read."""
    a, b = args
    lower, left = params["lower"], params["left_side"]
    strict = 1 if params["unit_diagonal"] else 0

    def operator(term: Any) -> Any:
        term = jnp.tril(term, -strict) if lower else jnp.triu(term, strict)
        term = jnp.conj(term) if params["conjugate_a"] else term
        return term.mT if params["transpose_a"] else term

    factors = [a[0], *(t if is_zero(t) else operator(t) for t in a[1:])]

    def times(m: Any, x: Any) -> Any:
        if is_zero(m) or is_zero(x):
            return zero_term
        return jnp.matmul(m, x) if left else jnp.matmul(x, m)

    out = [p.bind(a[0], b[0], **params)]
    for k in range(1, len(a)):
        rest = minus(b[k], _sum([times(factors[j], out[k - j]) for j in range(1, k + 1)]))
        out.append(zero_term if is_zero(rest) else p.bind(a[0], rest, **params))
    return out


# --- powers ---
@_rule("square")
def _square(p: Any, args: list[Series], params: dict[str, Any]) -> Series:
    (x,) = args
    return [p.bind(x[0], **params), *product(x, x)[1:]]


@_rule("integer_pow")
def _integer_pow(p: Any, args: list[Series], params: dict[str, Any]) -> Series:
    """By repeated squaring, so that nothing is divided by a zero."""
    (x,), n = args, params["y"]
    first = p.bind(x[0], **params)
    order = len(x) - 1
    if n == 0:
        return [first, *[zero_term] * order]
    power: Series | None = None
    square, left = x, abs(n)
    while left:
        if left & 1:
            power = square if power is None else product(power, square)
        left >>= 1
        if left:
            square = product(square, square)
    assert power is not None
    if n > 0:
        return [first, *power[1:]]
    one = [lax.full_like(first, 1), *[zero_term] * order]
    return quotient(one, power, first)


@_unary("sqrt")
def _sqrt(y: Any, x: Series) -> Series:
    out, twice = [y], scaled(y, 2)
    for k in range(1, len(x)):
        known = _sum([_times(out[j], out[k - j]) for j in range(1, k)])
        out.append(_over(minus(x[k], known), twice))
    return out


def _power(y: Any, x: Series, exponent: float) -> Series:
    """x^exponent: from x y' = exponent x' y."""
    out = [y]
    for k in range(1, len(x)):
        total = _sum(
            [scaled(_times(x[j], out[k - j]), exponent * j - (k - j)) for j in range(1, k + 1)]
        )
        out.append(divided(_over(total, x[0]), k))
    return out


_unary("rsqrt")(lambda y, x: _power(y, x, -0.5))
_unary("cbrt")(lambda y, x: _power(y, x, 1 / 3))


# --- exponentials, logarithms, and what solves differential equations of first order ---
def _self_made(y: Any, x: Series, slope: Callable[[Series], Any], first: Any) -> Series:
    """y' = f x', where `slope` tells the next coefficient of f from those of y; f starts with
    `first`.
    """
    out, f = [y], [first]
    for k in range(1, len(x)):
        out.append(_integrated(f, x, k))
        f.append(slope(out))
    return out


@_unary("exp")
def _exp(y: Any, x: Series) -> Series:
    return _self_made(y, x, lambda out: out[-1], y)


@_unary("exp2")
def _exp2(y: Any, x: Series) -> Series:
    log_2 = 0.6931471805599453
    return _self_made(y, x, lambda out: scaled(out[-1], log_2), scaled(y, log_2))


@_unary("expm1")
def _expm1(y: Any, x: Series) -> Series:
    return _self_made(y, x, lambda out: out[-1], lax.exp(x[0]))


def _last_of_square(out: Series) -> Any:
    return _convolved(_times, out, out, len(out) - 1)


@_unary("tan")
def _tan(y: Any, x: Series) -> Series:
    first = lax.add(lax.full_like(y, 1), lax.square(y))
    return _self_made(y, x, _last_of_square, first)


@_unary("tanh")
def _tanh(y: Any, x: Series) -> Series:
    first = lax.sub(lax.full_like(y, 1), lax.square(y))
    return _self_made(y, x, lambda out: minus(zero_term, _last_of_square(out)), first)


@_unary("logistic")
def _logistic(y: Any, x: Series) -> Series:
    first = lax.mul(y, lax.sub(lax.full_like(y, 1), y))
    return _self_made(y, x, lambda out: minus(out[-1], _last_of_square(out)), first)


def _logarithm(y: Any, x: Series, base: Any) -> Series:
    """base y' = x'; base moves as x does."""
    out = [y]
    for k in range(1, len(x)):
        known = _sum([scaled(_times(out[j], x[k - j]), j) for j in range(1, k)])
        out.append(_over(minus(x[k], divided(known, k)), base))
    return out


@_rule("pow")
def _pow(p: Any, args: list[Series], params: dict[str, Any]) -> Series | None:
    """exp(y log x) where the exponent moves. Powers with a fixed one go by their derivatives, which
    are right at zero, too.
    """
    x, y = args
    if not (differentiable(y[0]) and moves(y)):
        return None
    out = p.bind(x[0], y[0], **params)
    exponent = product(y, _logarithm(lax.log(x[0]), x, x[0]))
    return _self_made(out, exponent, lambda found: found[-1], out)


_unary("log")(lambda y, x: _logarithm(y, x, x[0]))
_unary("log1p")(lambda y, x: _logarithm(y, x, lax.add(x[0], lax.full_like(x[0], 1))))


def _coupled(s: Any, c: Any, x: Series, sign: float) -> tuple[Series, Series]:
    """s' = c x' and c' = sign s x'."""
    ss, cs = [s], [c]
    for k in range(1, len(x)):
        following = _integrated(cs, x, k)
        cs.append(scaled(_integrated(ss, x, k), sign))
        ss.append(following)
    return ss, cs


_unary("sin")(lambda y, x: _coupled(y, lax.cos(x[0]), x, -1.0)[0])
_unary("cos")(lambda y, x: _coupled(lax.sin(x[0]), y, x, -1.0)[1])
_unary("sinh")(lambda y, x: _coupled(y, lax.cosh(x[0]), x, 1.0)[0])
_unary("cosh")(lambda y, x: _coupled(lax.sinh(x[0]), y, x, 1.0)[1])


@_rule("abs")
def _abs(p: Any, args: list[Series], params: dict[str, Any]) -> Series | None:
    """Where a real path starts at zero, as it does where it is positive."""
    (x,) = args
    if dtypes.is_complex(typeof(x[0]).dtype):
        return None
    one = lax.full_like(lax.convert_element_type(x[0], typeof(x[0]).dtype), 1)
    sign = lax.select(lax.lt(x[0], zeros_like(x[0])), lax.neg(one), one)
    return [p.bind(x[0], **params), *(_times(sign, t) for t in x[1:])]
