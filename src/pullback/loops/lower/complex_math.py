"""Complex arithmetic on pairs of reals: (re, im) atoms in, atoms out. Division and modulus are
scaled against overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.loops.build import Builder
from pullback.loops.ir import Atom, Const

Pair = tuple[Atom, Atom]


_LARGE = {"f32": 8e37, "f64": 4e307}  # up to here moduli and their doubles are finite
_FAR = 1e10  # from here on 1 is nothing beside a square, in any type


class _Real:
    """Short names for the operators of one builder and dtype."""

    def __init__(self, b: Builder, dtype: str) -> None:
        self.b, self.d = b, dtype

    def __getattr__(self, op: str) -> Callable[..., Atom]:
        return lambda *xs: self.b.let(
            op.rstrip("_"), [self.c(x) if isinstance(x, float) else x for x in xs], self.d
        )

    def c(self, value: float) -> Const:
        return Const(float(value), self.d)

    def test(self, op: str, x: Atom, y: Atom | float) -> Atom:
        return self.b.let(op, (x, self.c(y) if isinstance(y, float) else y), "bool")

    def where(self, p: Atom, x: Atom | float, y: Atom | float) -> Atom:
        return self.b.select(
            p, self.c(x) if isinstance(x, float) else x, self.c(y) if isinstance(y, float) else y
        )


def _r(b: Builder, x: Pair) -> _Real:
    return _Real(b, x[0].dtype)


def add(b: Builder, x: Pair, y: Pair) -> Pair:
    r = _r(b, x)
    return r.add(x[0], y[0]), r.add(x[1], y[1])


def sub(b: Builder, x: Pair, y: Pair) -> Pair:
    r = _r(b, x)
    return r.sub(x[0], y[0]), r.sub(x[1], y[1])


def mul(b: Builder, x: Pair, y: Pair) -> Pair:
    r = _r(b, x)
    return r.sub(r.mul(x[0], y[0]), r.mul(x[1], y[1])), r.add(r.mul(x[0], y[1]), r.mul(x[1], y[0]))


def square(b: Builder, x: Pair) -> Pair:
    """(re - im)(re + im) and 2 re im: no cancellation of squares; a factor 0 makes 0, also where
    the other overflows."""
    r = _r(b, x)
    twice, less, more = r.mul(x[0], x[1]), r.sub(x[0], x[1]), r.add(x[0], x[1])
    even = b.let("or", (r.test("eq", less, 0.0), r.test("eq", more, 0.0)), "bool")
    return r.where(even, 0.0, r.mul(less, more)), r.add(
        twice, twice
    )  # 0 also where the other is inf


def neg(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    return r.neg(x[0]), r.neg(x[1])


def ratio(b: Builder, x: Pair, y: Pair) -> Pair:
    """x / y by Smith's method: divide by the larger part of the divisor first. For finite x and y
    that are not zero."""
    r = _r(b, x)
    swap = r.test("lt", r.abs(y[0]), r.abs(y[1]))
    big, small = r.where(swap, y[1], y[0]), r.where(swap, y[0], y[1])
    zero = r.test("eq", big, 0.0)
    t = r.where(zero, 0.0, r.div(small, big))
    scale = r.add(big, r.mul(small, t))
    p, q = r.where(swap, x[1], x[0]), r.where(swap, x[0], x[1])
    part = r.mul(p, t)
    im = r.sub(r.where(swap, part, q), r.where(swap, q, part))
    return r.div(r.add(p, r.mul(q, t)), scale), r.div(im, scale)


def div(b: Builder, x: Pair, y: Pair) -> Pair:
    """x / y, with C's infinities (C99, G.5.1): a zero divides into an infinity, what is finite
    divides an infinity, and an infinite divisor leaves a zero, whatever the other part is."""
    r = _r(b, x)

    def both(*tests: Atom) -> Atom:
        found = tests[0]
        for test in tests[1:]:
            found = b.let("and", (found, test), "bool")
        return found

    def nan(v: Pair) -> Atom:
        return both(*(r.test("ne", part, part) for part in v))

    def finite(v: Pair) -> Atom:
        return both(*(r.test("lt", r.abs(part), math.inf) for part in v))

    def infinite(v: Pair) -> Atom:
        return b.let("or", tuple(r.test("eq", r.abs(part), math.inf) for part in v), "bool")

    def signs(p: Atom, v: Pair) -> Pair:
        """Where p holds, infinities as ones and other numbers as zeros, with their signs."""
        ones = [r.where(r.test("eq", r.abs(part), math.inf), 1.0, 0.0) for part in v]
        first, second = (r.where(p, r.copysign(u, w), w) for u, w in zip(ones, v, strict=True))
        return first, second

    out = ratio(b, x, y)
    grows = both(nan(out), infinite(x), finite(y))
    vanishes = both(nan(out), finite(x), infinite(y))
    (u0, u1), (v0, v1) = signs(grows, x), signs(vanishes, y)
    scale = r.where(grows, math.inf, 0.0)
    special = b.let("or", (grows, vanishes), "bool")
    re = r.mul(scale, r.add(r.mul(u0, v0), r.mul(u1, v1)))
    im = r.mul(scale, r.sub(r.mul(u1, v0), r.mul(u0, v1)))
    re, im = r.where(special, re, out[0]), r.where(special, im, out[1])
    zero = both(r.test("eq", y[0], 0.0), r.test("eq", y[1], 0.0), b.let("not", (nan(x),), "bool"))
    pole = r.copysign(r.c(math.inf), y[0])
    return r.where(zero, r.mul(pole, x[0]), re), r.where(zero, r.mul(pole, x[1]), im)


def modulus(b: Builder, x: Pair) -> Atom:
    """hypot(re, im) without overflow; infinite if either part is."""
    r = _r(b, x)
    u, v = r.abs(x[0]), r.abs(x[1])
    nan = r.test("ne", r.add(u, v), r.add(u, v))
    hi, lo = r.max(u, v), r.min(u, v)
    ratio = r.where(r.test("eq", hi, 0.0), 0.0, r.div(lo, hi))
    size = r.mul(hi, r.sqrt(r.add(1.0, r.mul(ratio, ratio))))
    infinite = b.let("or", (r.test("eq", u, math.inf), r.test("eq", v, math.inf)), "bool")
    return r.where(infinite, math.inf, r.where(nan, math.nan, size))


def sign(b: Builder, x: Pair) -> Pair:
    r, size = _r(b, x), modulus(b, x)
    zero = r.test("eq", size, 0.0)
    return r.where(zero, 0.0, r.div(x[0], size)), r.where(zero, 0.0, r.div(x[1], size))


def _without_angle(b: Builder, x: Pair) -> Atom:
    """Where re is infinite and im is infinite or NaN: there is a size, but no direction."""
    r = _r(b, x)
    astray = r.test("ne", r.sub(x[1], x[1]), 0.0)
    return b.let("and", (r.test("eq", r.abs(x[0]), math.inf), astray), "bool")


def exp(b: Builder, x: Pair) -> Pair:
    """exp(re) (cos(im) + i sin(im)); where im has no angle, 0 at re = -inf, and an infinite real
    part at inf (C99, G.6.3.1)."""
    return _exp_of_size(b, x, _r(b, x).exp)


def xla_exp(b: Builder, x: Pair) -> Pair:
    """The same; in float64 of exp(re) as XLA has it."""
    r = _r(b, x)
    return _exp_of_size(b, x, r.xla_exp if r.d == "f64" else r.exp)


# Beyond these exp(x) may be infinite where its product with a cosine or sine is not.
_LONG = {"f32": 80.0, "f64": 700.0}


def _exp_of_size(b: Builder, x: Pair, exp: Callable[[Atom], Atom]) -> Pair:
    r, lost = _r(b, x), _without_angle(b, x)
    long = r.test("gt", x[0], _LONG[r.d])
    size = exp(r.where(long, r.mul(0.5, x[0]), x[0]))
    again = r.where(long, size, 1.0)
    nothing = b.let("and", (lost, r.test("lt", x[0], 0.0)), "bool")
    still = b.let("or", (nothing, r.test("eq", x[1], 0.0)), "bool")
    im = r.where(nothing, 0.0, x[1])
    re = r.mul(r.mul(size, r.where(lost, 1.0, r.cos(x[1]))), again)
    return re, r.where(still, im, r.mul(r.mul(size, r.sin(x[1])), again))


def _exact_square(r: _Real, x: Atom) -> tuple[Atom, Atom]:
    """x*x and what its rounding lost (Dekker's product, with Veltkamp's splitting)."""
    p, t = r.mul(x, x), r.mul(4097.0 if r.d == "f32" else 134217729.0, x)
    high = r.sub(t, r.sub(t, x))
    low = r.sub(x, high)
    rest = r.add(r.sub(r.mul(high, high), p), r.mul(r.add(high, high), low))
    return p, r.add(rest, r.mul(low, low))


def _exact_sum(r: _Real, x: Atom, y: Atom) -> tuple[Atom, Atom]:
    """x + y and what its rounding lost (Knuth's sum)."""
    s = r.add(x, y)
    t = r.sub(s, x)
    return s, r.add(r.sub(x, r.sub(s, t)), r.sub(y, t))


def _plus_squares(r: _Real, first: Atom, u: Atom, v: Atom) -> Atom:
    """first + u*u + v*v, right to the last bits where the terms cancel."""
    (p, e), (q, f) = _exact_square(r, u), _exact_square(r, v)
    s, lost = _exact_sum(r, first, p)
    s, more = _exact_sum(r, s, q)
    return r.add(s, r.add(r.add(lost, more), r.add(e, f)))


def _scales(r: _Real, x: Pair) -> tuple[Atom, Atom]:
    """A quarter and two where |x| may be beyond the largest number, ones elsewhere."""
    large = r.test("gt", r.max(r.abs(x[0]), r.abs(x[1])), _LARGE[r.d])
    return r.where(large, 0.25, 1.0), r.where(large, 2.0, 1.0)


def _log_modulus(b: Builder, x: Pair) -> Atom:
    """log |x|, also where |x| is beyond the largest number."""
    r = _r(b, x)
    scale, _ = _scales(r, x)
    size = r.log(modulus(b, (r.mul(scale, x[0]), r.mul(scale, x[1]))))
    return r.add(size, r.where(r.test("lt", scale, 1.0), math.log(4.0), 0.0))


def log(b: Builder, x: Pair) -> Pair:
    """Near the unit circle the modulus' logarithm is log1p(re*re + im*im - 1) / 2."""
    r = _r(b, x)
    size = r.max(r.abs(x[0]), r.abs(x[1]))
    close = b.let("and", (r.test("ge", size, 0.5), r.test("le", size, 1.5)), "bool")
    near = r.mul(0.5, r.log1p(_plus_squares(r, r.c(-1.0), *x)))
    return r.where(close, near, _log_modulus(b, x)), r.atan2(x[1], x[0])


def log1p(b: Builder, x: Pair) -> Pair:
    """log(1 + x): the modulus through log1p(2 re + re*re + im*im) / 2 unless 1 + x is near zero or
    far from it."""
    r = _r(b, x)
    one = (r.add(1.0, x[0]), x[1])
    s = _plus_squares(r, r.add(x[0], x[0]), *x)
    bounded = r.test("lt", r.max(r.abs(x[0]), r.abs(x[1])), 4.0)
    close = b.let("and", (bounded, r.test("gt", s, -0.75)), "bool")
    near = r.mul(0.5, r.log1p(s))
    return r.where(close, near, _log_modulus(b, one)), r.atan2(x[1], one[0])


def expm1(b: Builder, x: Pair) -> Pair:
    """exp(re) cos(im) - 1 = expm1(re) cos(im) - 2 sin(im/2)**2; a real part of 0 is +0."""
    r = _r(b, x)
    half = r.sin(r.mul(0.5, x[1]))
    less = r.expm1(x[0])
    re = r.sub(r.mul(less, r.cos(x[1])), r.mul(2.0, r.mul(half, half)))
    re = r.where(r.test("eq", less, -1.0), r.sub(r.sub(x[1], x[1]), 1.0), re)
    re = r.where(_without_angle(b, x), less, re)
    return r.add(re, 0.0), exp(b, x)[1]


def sqrt(b: Builder, x: Pair) -> Pair:
    """The principal root: t = sqrt((|x| + |re|) / 2), then the parts are t and im / 2t in the order
    that re's sign asks for. Where |x| may be beyond the largest number, it is twice the root of a
    quarter of x."""
    r = _r(b, x)
    scale, back = _scales(r, x)
    u, v = r.mul(scale, r.abs(x[0])), r.mul(scale, r.abs(x[1]))
    t = r.sqrt(r.add(r.mul(0.5, modulus(b, (u, v))), r.mul(0.5, u)))
    zero = r.test("eq", t, 0.0)
    other = r.mul(back, r.where(zero, 0.0, r.div(r.mul(0.5, v), t)))
    t = r.mul(back, t)
    right = r.test("ge", x[0], 0.0)
    re, im = r.where(right, t, other), r.where(right, other, t)
    infinite = r.test("eq", v, math.inf)
    return r.where(infinite, math.inf, re), r.copysign(r.where(infinite, math.inf, im), x[1])


def rsqrt(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    return div(b, (r.c(1.0), r.c(0.0)), sqrt(b, x))


def cbrt(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    return power(b, x, (r.c(1.0 / 3.0), r.c(0.0)))


def _zero_stays(b: Builder, value: Atom, part: Atom, zero: Atom) -> Atom:
    """A product that is NaN only since a zero part met an infinity or NaN is zero."""
    r = _Real(b, value.dtype)
    lost = b.let("and", (r.test("eq", part, 0.0), r.test("ne", value, value)), "bool")
    return r.where(lost, zero, value)


def _hyperbolic(r: _Real, x: Atom) -> tuple[Atom, Atom, Atom]:
    """sinh and cosh of x, and a factor of both, 1 unless they may be infinite where their products
    with cosines and sines are not."""
    long = r.test("gt", r.abs(x), _LONG[r.d])
    half = r.where(long, r.mul(0.5, x), x)
    sinh, cosh = r.sinh(half), r.cosh(half)
    return sinh, cosh, r.where(long, r.add(cosh, cosh), 1.0)


def sinh(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    c = r.where(_without_angle(b, x), 1.0, r.cos(x[1]))
    sinh, cosh, again = _hyperbolic(r, x[0])
    re, im = r.mul(r.mul(sinh, c), again), r.mul(r.mul(cosh, r.sin(x[1])), again)
    return _zero_stays(b, re, x[0], x[0]), _zero_stays(b, im, x[1], x[1])


def cosh(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    sinh, cosh, again = _hyperbolic(r, x[0])
    im = r.mul(r.mul(sinh, r.sin(x[1])), again)
    zero = r.mul(r.copysign(r.c(0.0), x[0]), r.copysign(r.c(1.0), x[1]))
    im = _zero_stays(b, _zero_stays(b, im, x[0], zero), x[1], zero)
    c = r.where(_without_angle(b, x), 1.0, r.cos(x[1]))
    return r.mul(r.mul(cosh, c), again), im


def tanh(b: Builder, x: Pair) -> Pair:
    """sinh(2a) and sin(2b) over cosh(2a) + cos(2b), written with tanh and 1/cosh so that large a
    stays finite."""
    r = _r(b, x)
    t, s, c = r.tanh(x[0]), r.sin(x[1]), r.cos(x[1])
    big = r.test("gt", r.abs(x[0]), 15.0)
    sech = r.div(1.0, r.cosh(x[0]))  # 1 - t*t would cancel
    sech2 = r.mul(sech, sech)
    # tanh(a + ib) = (t + i tan b) / (1 + i t tan b); multiplied through by cos b to avoid tan's
    # poles
    scale = r.add(r.mul(c, c), r.mul(r.mul(t, t), r.mul(s, s)))
    re, im = r.div(t, scale), r.div(r.mul(sech2, r.mul(s, c)), scale)
    end = r.test("eq", r.abs(x[0]), math.inf)
    one = r.copysign(r.c(1.0), x[0])
    limit = r.where(end, one, r.add(one, r.sub(x[1], x[1])))  # no number where im is none
    re = r.where(big, limit, r.mul(re, r.add(r.mul(c, c), r.mul(s, s))))
    lost = b.let("and", (end, r.test("ne", im, im)), "bool")
    im = r.where(lost, r.copysign(r.c(0.0), x[1]), im)
    return _zero_stays(b, re, x[0], x[0]), _zero_stays(b, im, x[1], x[1])


def _rotate(f: Callable[[Builder, Pair], Pair]) -> Callable[[Builder, Pair], Pair]:
    """f(ix) / i: sin from sinh, tan from tanh, asin from asinh, atan from atanh."""

    def g(b: Builder, x: Pair) -> Pair:
        r = _r(b, x)
        re, im = f(b, (r.neg(x[1]), x[0]))
        return im, r.neg(re)

    return g


sin, tan = _rotate(sinh), _rotate(tanh)


def cos(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    return cosh(b, (r.neg(x[1]), x[0]))


# Inverse functions by Kahan, "Branch cuts for complex elementary functions, or much ado about
# nothing's sign bit" (1987): exact on the branch cuts, no overflow on the way.
def _roots(b: Builder, x: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - x) and sqrt(1 + x)."""
    r = _r(b, x)
    return sqrt(b, (r.sub(1.0, x[0]), r.neg(x[1]))), sqrt(b, (r.add(1.0, x[0]), x[1]))


def _far_away(b: Builder, x: Pair) -> tuple[Atom, Atom, Atom, Atom]:
    """(is x far away, the parts as `atan2` takes them, log 2|x|). There asin, acos and acosh are
    angles and this logarithm; the products of roots would overflow."""
    r = _r(b, x)
    ends = [r.test("eq", r.abs(part), math.inf) for part in x]
    end = b.let("or", (ends[0], ends[1]), "bool")
    far = b.let("or", (end, r.test("gt", r.max(r.abs(x[0]), r.abs(x[1])), _FAR)), "bool")
    u, v = (
        r.where(end, r.where(is_end, r.copysign(r.c(1.0), part), r.mul(part, 0.0)), part)
        for is_end, part in zip(ends, x, strict=True)
    )
    size = r.add(_log_modulus(b, x), math.log(2.0))
    return far, u, v, r.where(end, math.inf, size)


def asin(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    p, q = _roots(b, x)
    re = r.atan2(x[0], r.sub(r.mul(p[0], q[0]), r.mul(p[1], q[1])))
    re = r.where(r.test("eq", x[0], 0.0), x[0], re)  # also beside a NaN, as C has it
    im = r.asinh(r.sub(r.mul(p[0], q[1]), r.mul(p[1], q[0])))
    far, u, v, size = _far_away(b, x)
    return (
        r.where(far, r.atan2(u, r.abs(v)), re),
        r.where(far, r.copysign(size, x[1]), im),
    )


def acos(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    p, q = _roots(b, x)
    re = r.mul(2.0, r.atan2(p[0], q[0]))
    re = r.where(r.test("eq", x[0], 0.0), math.pi / 2, re)
    im = r.asinh(r.sub(r.mul(q[0], p[1]), r.mul(q[1], p[0])))
    far, u, v, size = _far_away(b, x)
    return (
        r.where(far, r.atan2(r.abs(v), u), re),
        r.where(far, r.neg(r.copysign(size, x[1])), im),
    )


def acosh(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    p, q = sqrt(b, (r.sub(x[0], 1.0), x[1])), sqrt(b, (r.add(x[0], 1.0), x[1]))
    re = r.asinh(r.add(r.mul(p[0], q[0]), r.mul(p[1], q[1])))
    im = r.mul(2.0, r.atan2(p[1], q[0]))
    im = r.where(r.test("eq", x[0], 0.0), r.copysign(r.c(math.pi / 2), x[1]), im)
    far, u, v, size = _far_away(b, x)
    return (
        r.where(far, size, re),
        r.where(far, r.copysign(r.atan2(r.abs(v), u), x[1]), im),
    )


def atanh(b: Builder, x: Pair) -> Pair:
    """On the right half plane; odd."""
    r = _r(b, x)
    large = 4e18 if x[0].dtype == "f32" else 3e153
    u, v = r.abs(x[0]), r.where(r.test("lt", x[0], 0.0), r.neg(x[1]), x[1])
    y = r.add(r.abs(v), 1 / large)
    near = r.sub(1.0, u)
    y2 = r.mul(y, y)
    re = r.mul(0.25, r.log1p(r.div(r.mul(4.0, u), r.add(r.mul(near, near), y2))))
    im = r.mul(0.5, r.atan2(r.mul(2.0, v), r.sub(r.mul(near, r.add(1.0, u)), y2)))
    # At re = 1, where the real part's denominator would underflow: log(1 + 4/im**2) / 4.
    one, w = r.test("eq", u, 1.0), r.abs(v)
    small = r.sub(r.mul(0.25, r.log(r.add(4.0, r.mul(w, w)))), r.mul(0.5, r.log(w)))
    half = r.div(2.0, w)
    great = r.mul(0.25, r.log1p(r.mul(half, half)))
    re = r.where(one, r.where(r.test("lt", w, 1.0), small, great), re)
    turn = r.mul(0.5, r.add(math.pi / 2, r.atan(r.mul(0.5, y))))
    im = r.where(one, r.copysign(turn, v), im)
    pole = b.let("and", (one, r.test("eq", v, 0.0)), "bool")
    re, im = r.where(pole, math.inf, re), r.where(pole, v, im)
    # Far away: pi/2 i + 1/x.
    far = b.let("or", (r.test("gt", u, large), r.test("gt", r.abs(v), large)), "bool")
    inverse = div(b, (r.c(1.0), r.c(0.0)), (u, v))
    size = r.max(u, r.abs(v))
    re = r.where(far, r.where(r.test("eq", size, math.inf), 0.0, inverse[0]), re)
    re = r.where(r.test("eq", u, 0.0), 0.0, re)
    whole = b.let("and", (r.test("eq", v, v), r.test("eq", u, u)), "bool")
    known = b.let("or", (whole, r.test("eq", r.abs(v), math.inf)), "bool")
    im = r.where(far, r.where(known, r.copysign(r.c(math.pi / 2), v), math.nan), im)
    im = r.where(r.test("lt", x[0], 0.0), r.neg(im), im)
    return r.copysign(re, x[0]), im


def asinh(b: Builder, x: Pair) -> Pair:
    """asin(ix) / i."""
    r = _r(b, x)
    re, im = asin(b, (r.neg(x[1]), x[0]))
    return im, r.neg(re)


atan = _rotate(atanh)


def power(b: Builder, x: Pair, y: Pair) -> Pair:
    """exp(y log x), and XLA's values where that has none: x**0 and 1**y are 1; 0 and infinity to a
    real power are as real numbers', 0 to any other is NaN."""
    r = _r(b, x)
    re, im = exp(b, mul(b, y, log(b, x)))

    def both(*tests: Atom) -> Atom:
        return b.let("and", tests, "bool")

    real_x, real_y = r.test("eq", x[1], 0.0), r.test("eq", y[1], 0.0)
    positive, negative = r.test("gt", y[0], 0.0), r.test("lt", y[0], 0.0)
    zero = both(real_x, r.test("eq", x[0], 0.0))
    at_zero = r.where(both(real_y, positive), 0.0, math.nan)
    re, im = r.where(zero, at_zero, re), r.where(zero, at_zero, im)
    end = both(both(real_x, real_y), r.test("eq", x[0], math.inf))
    at_end = r.where(positive, math.inf, r.where(negative, 0.0, math.nan))
    known = r.where(r.test("eq", y[0], y[0]), 0.0, math.nan)
    re, im = r.where(end, at_end, re), r.where(end, known, im)
    nothing = both(real_y, r.test("eq", y[0], 0.0))
    one = b.let("or", (nothing, both(real_x, r.test("eq", x[0], 1.0))), "bool")
    return r.where(one, 1.0, re), r.where(one, 0.0, im)


def integer_pow(b: Builder, x: Pair, y: int) -> Pair:
    r = _r(b, x)
    result: Pair | None = None
    base, n = x, abs(y)
    while n:
        if n & 1:
            result = base if result is None else mul(b, result, base)
        n >>= 1
        base = square(b, base) if n else base
    one = (r.c(1.0), r.c(0.0))
    if result is None:
        return one
    return div(b, one, result) if y < 0 else result


def logistic(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    re, im = exp(b, neg(b, x))
    return div(b, (r.c(1.0), r.c(0.0)), (r.add(1.0, re), im))


def exp2(b: Builder, x: Pair) -> Pair:
    r = _r(b, x)
    return exp(b, (r.mul(math.log(2.0), x[0]), r.mul(math.log(2.0), x[1])))


def eq(b: Builder, x: Pair, y: Pair) -> Atom:
    r = _r(b, x)
    return b.let("and", (r.test("eq", x[0], y[0]), r.test("eq", x[1], y[1])), "bool")


def ne(b: Builder, x: Pair, y: Pair) -> Atom:
    return b.let("not", (eq(b, x, y),), "bool")


def is_finite(b: Builder, x: Pair) -> Atom:
    return b.let("and", [b.let("is_finite", (p,), "bool") for p in x], "bool")


FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (
        add,
        sub,
        mul,
        neg,
        div,
        sign,
        exp,
        xla_exp,
        exp2,
        log,
        log1p,
        expm1,
        sqrt,
        rsqrt,
        cbrt,
        sinh,
        cosh,
        tanh,
        asinh,
        acosh,
        atanh,
        acos,
        cos,
        logistic,
        eq,
        ne,
        is_finite,
    )
} | {"sin": sin, "tan": tan, "asin": asin, "atan": atan}
