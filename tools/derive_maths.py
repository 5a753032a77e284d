"""Derives the polynomial coefficients of the native elementary functions: prints
src/pullback/backends/llvm/coefficients.py.

Each set is a near-minimax polynomial: the Chebyshev interpolant of the (smooth) function named
beside it on its interval,
computed by mpmath with 60 digits, written in powers of the variable. Needs mpmath; run: python
tools/derive_maths.py > FILE; with --pieces it prints pieces.py.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
from mpmath import mp, mpf

mp.dps = 60
F = Callable[[Any], Any]


def fit(f: F, lo: Any, hi: Any, degree: int) -> list[float]:
    """Coefficients, constant first, of the interpolant at the Chebyshev nodes of [lo, hi]."""
    lo, hi = mpf(lo), mpf(hi)
    n = degree + 1
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    values = [f((lo + hi) / 2 + (hi - lo) / 2 * t) for t in nodes]
    cheb = [
        2
        / mpf(n)
        * sum(v * mp.cos(mp.pi * j * (2 * k + 1) / (2 * n)) for k, v in enumerate(values))
        for j in range(n)
    ]
    cheb[0] /= 2
    # sum of c_j T_j(t), t = a x + b, expanded in powers of x
    a, b = 2 / (hi - lo), -(hi + lo) / (hi - lo)
    t0, t1 = [mpf(1)], [b, a]
    total = [mpf(0)] * n

    def add(p: list[Any], c: Any) -> None:
        for k, v in enumerate(p):
            total[k] += c * v

    add(t0, cheb[0])
    if n > 1:
        add(t1, cheb[1])
    for j in range(2, n):
        t2 = [mpf(0)] * (j + 1)
        for k, v in enumerate(t1):
            t2[k] += 2 * b * v
            t2[k + 1] += 2 * a * v
        for k, v in enumerate(t0):
            t2[k] -= v
        add(t2, cheb[j])
        t0, t1 = t1, t2
    return [float(v) for v in total]


def safe(f: F, limit: Any) -> F:
    """f with its value at 0 given (removable singularities)."""
    return lambda z: limit if abs(z) < mpf(10) ** -40 else f(z)


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def shepherd(t: Any, c: int) -> Any:
    """(1 + 2x) exp(x^2) erfc(x) as a function of t = (x - c) / (x + c), smooth on [-1, 1]."""
    if t >= 1 - mpf(10) ** -20:
        return 2 / mp.sqrt(mp.pi)
    x = c * (1 + t) / (1 - t)
    if x > 60:
        s = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(20))
        return (1 + 2 * x) * s / (x * mp.sqrt(mp.pi))
    return (1 + 2 * x) * erfcx(x)


def inverse_erf(y: Any) -> Any:
    """erf_inv by Newton's method on log(erfc) from a rough start."""
    if y == 0:
        return mpf(0)
    q = 1 - y
    w = -mp.log((1 - y) * (1 + y))
    x = (
        mp.sqrt(w) * mpf("0.8")
        if w < 1
        else mp.sqrt(max(w - mp.log(mp.sqrt(mp.pi * w)), mpf("0.3")))
    )
    for _ in range(200):
        e = mp.erfc(x)
        step = (e - q) / (2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
        step = max(min(step, mpf("0.5")), mpf("-0.5"))
        x += step
        if abs(step) < mpf(10) ** -45:
            break
    return x


def erfinv_ratio(w: Any) -> Any:
    """erf_inv(y) / y as a function of w = -log(1 - y^2)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    y = mp.sqrt(-mp.expm1(-w))
    if w > 30:
        mp.dps += 20
        y = mp.sqrt(-mp.expm1(-w))
    value = inverse_erf(y) / y
    mp.dps = 60
    return value


def sets() -> dict[str, tuple[F, Any, Any, int, int]]:
    """name -> (function, lo, hi, degree for f32, degree for f64)."""
    ln2 = mp.log(2)
    third = mpf(1) / 3
    s2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    quarter = (mp.pi / 4) ** 2
    t8 = mp.tan(mp.pi / 8) ** 2 * mpf("1.01")
    root = mp.findroot(mp.digamma, mpf("1.46"))
    return {
        # exp(r) = 1 + r + r^2 P(r), |r| <= ln2/2
        "EXP": (
            safe(lambda r: (mp.expm1(r) - r) / r**2, mpf(1) / 2),
            -ln2 / 2 * 1.01,
            ln2 / 2 * 1.01,
            5,
            10,
        ),
        # log((1+s)/(1-s)) = 2s + s z P(z), z = s^2
        "LOG": (
            safe(
                lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z,
                2 * third,
            ),
            0,
            s2 * 1.02,
            None,
            7,
        ),
        # log2((1+s)/(1-s)) = 2 s / ln 2 + s z P(z), z = s^2; float32 alone
        "LOG2": (
            safe(
                lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z / ln2,
                2 * third / ln2,
            ),
            0,
            s2 * 1.02,
            4,
            None,
        ),
        # 2^r = 1 + r P(r), |r| <= 1/2; float32 alone
        "EXP2": (safe(lambda r: mp.expm1(r * ln2) / r, ln2), -0.505, 0.505, 6, None),
        # 1 / (1 + m), m from sqrt(1/2) to sqrt(2), to 2^-13
        "HALF": (lambda m: 1 / (1 + m), mp.sqrt(0.5), mp.sqrt(2), 3, None),
        # sin r = r + r z P(z); cos r = 1 - z/2 + z^2 P(z), z = r^2
        "SIN": (
            safe(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 6),
            0,
            quarter * 1.02,
            3,
            6,
        ),
        "COS": (
            safe(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24),
            0,
            quarter * 1.02,
            3,
            6,
        ),
        # tanh x = x + x z P(z), |x| <= 0.625; float32 has one formula for all x
        "TANH": (
            safe(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -third),
            0,
            mpf("0.4"),
            None,
            14,
        ),
        # sinh x = x + x z P(z), |x| <= 1
        "SINH": (
            safe(lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mpf(1) / 6),
            0,
            mpf("1.01"),
            3,
            7,
        ),
        # asin x = x + x z P(z), z <= 1/4
        "ASIN": (
            safe(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mpf(1) / 6),
            0,
            mpf("0.2505"),
            6,
            15,
        ),
        # atan x = x + x z P(z), |x| <= tan(pi/8)
        "ATAN": (safe(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -third), 0, t8, 5, 12),
        # asinh x = x + x z P(z), |x| <= 1/2
        "ASINH": (
            safe(lambda z: (mp.asinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 6),
            0,
            mpf("0.2505"),
            6,
            16,
        ),
        # erf x = x + x P(z), |x| <= 1
        "ERF": (
            safe(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1),
            0,
            mpf("1.01"),
            7,
            13,
        ),
        # (1 + 2x) exp(x^2) erfc(x), t = (x - 4) / (x + 4)
        "ERFC": (lambda t: shepherd(t, 4), -1, 1, 11, 26),
        # erf_inv(y) / y over w - 3, w = -log(1 - y^2), then over sqrt(w) - 3.25 and sqrt(w) - 5
        "ERFINV_A": (lambda t: erfinv_ratio(t + 3), -3, mpf("3.3"), 10, 24),
        "ERFINV_B": (
            lambda s: erfinv_ratio((s + mpf("3.25")) ** 2),
            mpf("-0.8"),
            mpf("0.9"),
            8,
            20,
        ),
        "ERFINV_C": (lambda s: erfinv_ratio((s + 5) ** 2), mpf("-1.05"), mpf("1.15"), 8, 18),
        # lgamma(x) / ((x - 1)(x - 2)) on [1, 2.5], over x - 1.75
        "LGAMMA": (lambda t: lgamma_ratio(t + mpf("1.75")), mpf("-0.75"), mpf("0.75"), 12, 26),
        # digamma(x) / (x - root) on [1, 2], over x - 1.5
        "DIGAMMA": (lambda t: digamma_ratio(t + mpf("1.5"), root), mpf("-0.5"), mpf("0.5"), 12, 24),
        # exp(-x) I_0(x) and exp(-x) I_1(x) / x on [0, 8], over x/4 - 1; sqrt(x) exp(-x)
        # I(x) over 1/x beyond
        "I0_SMALL": (lambda t: mp.exp(-4 * t - 4) * mp.besseli(0, 4 * t + 4), -1, 1, 20, 32),
        "I1_SMALL": (
            lambda t: mp.exp(-4 * t - 4) * mp.besseli(1, 4 * t + 4) / (4 * t + 4),
            -1,
            1,
            20,
            32,
        ),
        "I0_LARGE": (
            safe(
                lambda u: mp.exp(-1 / u) * mp.besseli(0, 1 / u) / mp.sqrt(u), 1 / mp.sqrt(2 * mp.pi)
            ),
            0,
            mpf(1) / 8,
            8,
            22,
        ),
        "I1_LARGE": (
            safe(
                lambda u: mp.exp(-1 / u) * mp.besseli(1, 1 / u) / mp.sqrt(u), 1 / mp.sqrt(2 * mp.pi)
            ),
            0,
            mpf(1) / 8,
            8,
            22,
        ),
    }


def lgamma_ratio(x: Any) -> Any:
    for k, limit in ((1, mp.euler), (2, 1 - mp.euler)):
        if abs(x - k) < mpf(10) ** -25:
            return limit
    return mp.loggamma(x).real / ((x - 1) * (x - 2))


def digamma_ratio(x: Any, root: Any) -> Any:
    return mp.digamma(x) / (x - root) if abs(x - root) > mpf(10) ** -25 else mp.polygamma(1, root)


ERFC_WIDTH = mpf(21) / 64  # 16 pieces reach from 1 to 6


def erfc_pieces() -> list[list[float]]:
    """erfc(k w + t), |t| <= w / 2, the piece k in row k modulo 16: degree 12 for all."""
    half, rows = ERFC_WIDTH / 2 * mpf("1.0001"), {}
    for k in range(3, 19):
        centre = k * ERFC_WIDTH
        rows[k % 16] = fit(lambda t, centre=centre: mp.erfc(centre + t), -half, half, 12)
    return [rows[k] for k in range(16)]


LOG_FIRST = 0x3FE6800000000000  # of a double, 45/64: numbers from there to twice of it are reduced


def log_rows() -> Iterator[tuple[Any, Any]]:
    """(1/c, log c) for the 16 numbers c in whose neighbourhoods logarithms are series: 1 for what
    is nearest to it. The reciprocals have some 20 bits."""
    for k in range(16):
        ends = [LOG_FIRST + ((k + j) << 48) for j in (0, 1)]
        low, high = (mpf(struct.unpack("<d", struct.pack("<Q", e))[0]) for e in ends)
        inverse = mpf(1) if low < 1 < high else mp.nint(2 / (low + high) * 2**20) / 2**20
        yield inverse, -mp.log(inverse)


def log_tables() -> dict[str, list[list[float]]]:
    """Rows of 1/c and log c in two parts, of which multiples of log 2 may be added to the first
    exactly; for float32, of 1/c and its base-2 logarithm."""
    doubles, floats = [], []
    for inverse, log in log_rows():
        high = mp.nint(log * 2**42) / 2**42
        doubles.append([float(inverse), float(high), float(log - high)])
        floats.append([float(inverse), float(log / mp.log(2))])
    return {"LOG_ROWS_F64": doubles, "LOG_ROWS_F32": floats}


def log_series() -> dict[str, tuple[F, int]]:
    """Of log(1 + r) for |r| <= 1/32: the function and its degree; by r^2 without r, by r^3 without
    the first two terms; and its base-2 logarithm by r, for float32."""
    ln2 = mp.log(2)
    return {
        "LOG1P_F64": (safe(lambda r: (mp.log1p(r) - r) / r**2, -mpf(1) / 2), 8),
        "LOG1P_TAIL_F64": (safe(lambda r: (mp.log1p(r) - r + r * r / 2) / r**3, mpf(1) / 3), 8),
        "LOG1P_F32": (safe(lambda r: mp.log1p(r) / r / ln2, 1 / ln2), 6),
    }


def pieces() -> None:
    """Prints src/pullback/backends/llvm/pieces.py."""
    print('"""Functions in pieces, a row each; written by tools/derive_maths.py --pieces."""\n')
    print("# fmt: off")
    print(f"ERFC_WIDTH = {float(ERFC_WIDTH)!r}")
    print(f"LOG_FIRST = 0x{LOG_FIRST:X}")
    for name, rows in {"ERFC_PIECES": erfc_pieces(), **log_tables()}.items():
        print(f"{name} = (")
        for row in rows:
            print("    (\n        " + ",\n        ".join(repr(v) for v in row) + ",\n    ),")
        print(")")
    for name, (f, degree) in log_series().items():
        values = fit(f, -mpf(1) / 32 * mpf("1.0001"), mpf(1) / 32 * mpf("1.0001"), degree)
        print(f"{name} = (\n    " + ",\n    ".join(repr(v) for v in values) + ",\n)")


def main() -> None:
    if "--pieces" in sys.argv:
        return pieces()
    print(
        '"""Polynomial coefficients, constant first; written by tools/derive_maths.py, which says '
        'what each set is."""\n'
    )
    print("# fmt: off")
    for name, (f, lo, hi, d32, d64) in sets().items():
        for suffix, degree in (("F32", d32), ("F64", d64)):
            if degree is None:
                continue
            values = fit(f, lo, hi, degree)
            print(f"{name}_{suffix} = (\n    " + ",\n    ".join(repr(v) for v in values) + ",\n)")
    root = mp.findroot(mp.digamma, mpf("1.46"))
    constants = {"LN2": mp.log(2), "PIO2": mp.pi / 2, "LOG2E": 1 / mp.log(2), "DIGAMMA_ROOT": root}
    for name, value in constants.items():
        high = float(value)
        low = float(value - mpf(high))
        lowest = float(value - mpf(high) - mpf(low))
        print(f"{name} = ({high!r}, {low!r}, {lowest!r})")


if __name__ == "__main__":
    mpmath.mp.dps = 60
    main()
