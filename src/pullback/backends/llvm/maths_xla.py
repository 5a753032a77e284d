"""float64 functions as JAX's CPU compiler computes them, to the bit: what random numbers are made
of where a formula magnifies the last bit of a logarithm. In float32 our functions are its own.

The compiler calls the C library's `log`, `erf` and `pow`, expands `log1p` by Moshier's Cephes
library (outside of its polynomial's range, too, where it is wrong by up to 128 ulp), `exp`
likewise, and `erf_inv` by Giles's polynomials. Without fused multiply-adds ours are the more
accurate ones: JAX's differ there from its own elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pullback.backends.llvm import maths, x86
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.literals import BITS
from pullback.backends.llvm.maths import INF, LOG1P_P, LOG1P_Q, SHAPES, horner
from pullback.backends.llvm.table import TABLE, function_offset

__all__ = ["erf", "erf_inv", "exp", "log", "log1p", "log1p_near", "pow_", "rsqrt"]


# ---- the C library's functions


def _call(b: Builder, name: str, xs: Sequence[Val]) -> Val:
    """A function of the C library, of numbers."""
    f_table = b.load("ptr", b.gep(Val(b, "ptr", 1, ("%ctx",)), TABLE))
    f = b.load("ptr", b.gep(f_table, function_offset(f"libm_{name}")))
    given = ", ".join(f"double {x.regs[0]}" for x in xs)
    return b.impure(f"call double {f.regs[0]}({given})", "double")


def _lanes_set(b: Builder, mask: Val) -> Val:
    """The lanes of all registers as bits of an i64, the first lane lowest."""
    if mask.n == 1:
        parts = [b.cast("zext", Val(b, "i1", 1, (r,)), "i64") for r in mask.regs]
    else:
        t = f"i{mask.n}"
        bits = [b.impure_reg(f"bitcast <{mask.n} x i1> {r} to {t}") for r in mask.regs]
        parts = [b.impure(f"zext {t} {r} to i64", "i64") for r in bits]
    found = parts[0]
    for k, part in enumerate(parts[1:], 1):
        found = found | (part << (k * mask.n))
    return found


def _where_called(b: Builder, name: str, xs: Sequence[Val], mask: Val, otherwise: Val) -> Val:
    """The C library's function in the lanes of a mask, `otherwise` in the others."""
    t, n, width = xs[0].t, mask.n, len(mask.regs)
    if n == width == 1:
        return b.if_else(mask, lambda: [_call(b, name, xs)], lambda: [otherwise])[0]
    regs = [b.spread(v, n) for v in (*xs, otherwise)]

    def called() -> list[Val]:
        size = BITS[t] // 8
        tables = [b.alloca(size * n * width) for _ in regs]
        places = [
            [f"ptr {b.gep(table, k * size * n).regs[0]}, align 8" for k in range(width)]
            for table in tables
        ]
        for row, sources in zip(places, regs, strict=True):
            for k, place in enumerate(row):
                b.line(f"store {b.ty(t, n)} {sources[k % len(sources)]}, {place}")
        *given, made = tables

        def step(state: list[Val]) -> list[Val]:
            lane = b.call("cttz", state[0], flags="i1 true")
            value = _call(b, name, [b.load(t, b.gep(table, lane, size)) for table in given])
            b.store(value, b.gep(made, lane, size))
            return [state[0] & (state[0] - 1)]

        b.while_loop([_lanes_set(b, mask)], lambda state: state[0].ne(0), step)
        outs = (b.impure_reg(f"load {b.ty(t, n)}, {place}") for place in places[-1])
        return [Val(b, t, n, tuple(outs))]

    kept = Val(b, t, n, tuple(regs[-1][k % len(regs[-1])] for k in range(width)))
    return b.if_else(b.any_lane(mask), called, lambda: [kept])[0]


def _everywhere(x: Val) -> Val:
    return x.eq(x) | x.ne(x)


def pow_(b: Builder, x: Val, y: Val) -> Val:
    return _where_called(b, "pow", (x, y), _everywhere(x + y), x)


# ---- the logarithm

# The C library's logarithm is the nearest double unless the middle of two is as near to the truth
# as this, plus 2**-8 ulp (found are half of that, in millions) or, for logarithms near 0, a
# fortieth of an ulp. Ours, to 2**-64, knows where that is.
_SLACK = 2.0**-61
_SLACK_NEAR = 2.0**-58


def _log_where(b: Builder, x: Val, asked: Val | None = None) -> Val:
    """log(x); other lanes than those asked for may hold anything."""
    usual = (x >= SHAPES[x.t].least) & (x < INF)
    high, low = maths.log_double(b, b.select(usual, x, 1.0))
    near = b.fabs(high) * _SLACK_NEAR
    slack = b.copysign(b.select(near < _SLACK, near, _SLACK, like=x.t), low)
    open_ = (high + b.fma(low, 1.0 + 2.0**-7, slack)).ne(high) | ~usual
    return _where_called(b, "log", (x,), open_ if asked is None else open_ & asked, high)


def log(b: Builder, x: Val) -> Val:
    return _log_where(b, x)


# ---- what is made of it


def log1p(b: Builder, x: Val) -> Val:
    far = ~_central(b, x)
    return b.select(far, _log_where(b, x + 1.0, far), _log1p_central(b, x))


def log1p_near(b: Builder, x: Val) -> Val:
    """The same formula of our logarithm."""
    return b.select(_central(b, x), _log1p_central(b, x), maths.log(b, x + 1.0))


def _central(b: Builder, x: Val) -> Val:
    return b.fabs(x) < math.sqrt(2) - 1


def _log1p_central(b: Builder, x: Val) -> Val:
    z = x * x
    ratio = horner(b, x, LOG1P_P) / horner(b, x, LOG1P_Q)
    return x + b.fma(z, -0.5, (x * z) * ratio)


_EXP_P = (9.99999999999999999910e-1, 3.02994407707441961300e-2, 1.26177193074810590878e-4)
_EXP_Q = (
    2.00000000000000000005, 2.27265548208155028766e-1, 2.52448340349684104192e-3,
    3.00198505138664455042e-6,
)  # fmt: skip
_EXP_LN2 = (6.93145751953125e-1, 1.42860682030941723212e-6)
_EXP_RANGE = (-708.3964185322641, 709.782712893384)


def exp(b: Builder, x: Val) -> Val:
    """1 + 2 P / (Q - P), of what is left of x after multiples of ln 2."""
    low, high = _EXP_RANGE
    y = maths.clamp(b, x, low, high)
    n = maths.floor(b, b.fma(y, math.log2(math.e), 0.5))
    r = b.fma(-n, _EXP_LN2[1], b.fma(-n, _EXP_LN2[0], y))
    square = r * r
    p = horner(b, square, _EXP_P) * r
    part = b.fma(p / (horner(b, square, _EXP_Q) - p), 2.0, 1.0)
    k = b.bitcast(n + SHAPES[x.t].magic, "i64") - b.bitcast(b.lit(SHAPES[x.t].magic, x.t), "i64")
    value = maths.scale_by(b, part, k, n)
    return b.select(x < low, 0.0, b.select(x > high, INF, value, like=x.t), like=x.t)


# Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2011), double precision.
_ERFINV_CENTRE = (
    1.6536545626831027356, 0.24015818242558961693, -0.0060336708714301490533,
    -0.00074070253416626697512, 0.00018673420803405714, -1.3882523362786469e-05,
    -1.3654692000834679e-06, 4.2347877827932404e-07, -2.9070369957882005e-08,
    -4.1126339803469837e-09, 1.0512122733215323e-09, -5.4154120542946279e-11,
    -1.2975133253453532e-11, 2.6335093153082323e-12, -8.1519341976054722e-14,
    -4.0545662729752069e-14, 6.6376381343583238e-15, 2.0972767875968562e-17,
    -1.3331716628546209e-16, 1.1157877678025181e-17, 1.28584807152564e-18,
    -1.6850591381820166e-19, -3.64441206401782e-21,
)  # fmt: skip
_ERFINV_MIDDLE = (
    3.0838856104922208, 1.0052589676941592, 0.0053709145535900636, -0.0037512085075692412,
    0.0024914420961078508, -0.0016882755560235047, 0.0009532893797373805, -0.00035503752036284748,
    2.4031110387097894e-05, 6.8284851459573175e-05, -4.7318229009055734e-05, 1.2475304481671779e-05,
    2.9234449089955446e-06, -4.013867526981546e-06, 1.5027403968909828e-06, 1.8239629214389228e-08,
    -2.7517406297064545e-07, 9.0756561938885391e-08, 2.2137376921775787e-09,
)  # fmt: skip
_ERFINV_TAIL = (
    4.8499064014085844, 1.0103004648645344, -0.00013871931833623122, -0.00021503011930044477,
    7.5995277030017761e-05, -1.9681778105531671e-05, 4.5260625972231537e-06, -9.9298272942317e-07,
    2.2900482228026655e-07, -6.7711997758452339e-08, 2.9147953450901081e-08, -1.496002662714924e-08,
    7.61570120807834e-09, -3.789465440126737e-09, 1.5076572693500548e-09, -2.5556418169965252e-10,
    -2.7109920616438573e-11,
)  # fmt: skip


def erf_inv(b: Builder, x: Val) -> Val:
    """Polynomials in w = -log1p(-x^2), x^2 rounded; in the tails in sqrt(w)."""
    w = -log1p(b, -(x * x))
    centre = horner(b, w - 3.125, _ERFINV_CENTRE)

    def anywhere() -> list[Val]:
        s = b.sqrt(b.select(w < 1.0, 1.0, w, like=x.t))
        middle, tail = horner(b, s - 3.25, _ERFINV_MIDDLE), horner(b, s - 5.0, _ERFINV_TAIL)
        ratio = b.select(w < 6.25, centre, b.select(w < 16.0, middle, tail))
        return [b.select(b.fabs(x).eq(1.0), b.copysign(INF, x), ratio * x)]

    return b.if_else(b.any_lane(~(w < 6.25)), anywhere, lambda: [centre * x])[0]


def rsqrt(b: Builder, x: Val) -> Val:
    """Newton's steps from the machine's estimate, where it has one: two of 14 bits of a double, one
    or two, as the maker chose, of 12 bits of a float."""
    first = x86.rsqrt_estimate(b, x)
    if first is None:
        return 1.0 / b.sqrt(x)
    y = first
    for _ in range(b.target.root_steps if x.t == "float" else 2):
        y = b.fma(y * -0.5, b.fma(x * y, y, -1.0), y)
    return b.select((x >= SHAPES[x.t].least) & (x < INF), y, first)


def erf(b: Builder, x: Val) -> Val:
    return _where_called(b, "erf", (x,), _everywhere(x), x)
