"""Special cases of complex elementwise functions, as the Python array API standard (2024.12) lists
them (C's annex G), beside NaN too: eager and jitted, in complex64 and complex128.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

# A rule is `re,im:result`, `result` again two parts. Operands: 0 a zero, p0 and n0 one of a sign, 1
# and -1 themselves, p a positive finite number, m a finite one that is not 0, f any finite one, +i
# and -i an infinity, i either, N NaN, * anything. The imaginary part's sign is positive: the other
# half follows by conjugation. Results: `u` before one whose sign is open; pi, pi/2, ...; `cis`
# after a magnitude is its product with cos and sin of the angle, `-1+` before it adds -1.
RULES = {
    "acos": "0,0:pi/2,-0 0,N:pi/2,N f,+i:pi/2,-i m,N:N,N -i,p:pi,-i +i,p:0,-i -i,+i:3*pi/4,-i "
    "+i,+i:pi/4,-i i,N:N,ui N,f:N,N N,+i:N,-i N,N:N,N",
    "acosh": "0,0:0,pi/2 f,+i:+i,pi/2 m,N:N,N 0,N:N,upi/2 -i,p:+i,pi +i,p:+i,0 -i,+i:+i,3*pi/4 "
    "+i,+i:+i,pi/4 i,N:+i,N N,f:N,N N,+i:+i,N N,N:N,N",
    "asinh": "p0,0:0,0 p,+i:+i,pi/2 f,N:N,N +i,p:+i,0 +i,+i:+i,pi/4 +i,N:+i,N N,0:N,0 N,m:N,N "
    "N,+i:ui,N N,N:N,N",
    "atanh": "p0,0:0,0 p0,N:0,N 1,0:+i,0 p,+i:0,pi/2 m,N:N,N +i,p:0,pi/2 +i,+i:0,pi/2 +i,N:0,N "
    "N,f:N,N N,+i:u0,pi/2 N,N:N,N",
    "cosh": "p0,0:1,0 p0,+i:N,u0 p0,N:N,u0 m,+i:N,N m,N:N,N +i,0:+i,0 +i,p:icis +i,+i:ui,N "
    "+i,N:+i,N N,0:N,u0 N,m:N,N N,N:N,N",
    "sinh": "p0,0:0,0 p0,+i:u0,N p0,N:u0,N p,+i:N,N p,N:N,N +i,0:+i,0 +i,p:icis +i,+i:ui,N "
    "+i,N:ui,N N,0:N,0 N,m:N,N N,N:N,N",
    "tanh": "p0,0:0,0 m,+i:N,N p0,+i:0,N m,N:N,N p0,N:0,N +i,p:1,u0 +i,+i:1,u0 +i,N:1,u0 N,0:N,0 "
    "N,m:N,N N,N:N,N",
    "exp": "0,0:1,0 f,+i:N,N f,N:N,N +i,0:+i,0 -i,f:0cis +i,m:icis -i,+i:u0,u0 +i,+i:ui,N "
    "-i,N:u0,u0 +i,N:ui,N N,0:N,0 N,m:N,N N,N:N,N",
    "expm1": "0,0:0,0 f,+i:N,N f,N:N,N +i,0:+i,0 -i,f:-1+0cis +i,m:icis -i,+i:-1,u0 +i,+i:ui,N "
    "-i,N:-1,u0 +i,N:ui,N N,0:N,0 N,m:N,N N,N:N,N",
    "log": "n0,0:-i,pi p0,0:-i,0 f,+i:+i,pi/2 f,N:N,N -i,p:+i,pi +i,p:+i,0 -i,+i:+i,3*pi/4 "
    "+i,+i:+i,pi/4 i,N:+i,N N,f:N,N N,+i:+i,N N,N:N,N",
    "log1p": "-1,0:-i,0 f,+i:+i,pi/2 f,N:N,N -i,p:+i,pi +i,p:+i,0 -i,+i:+i,3*pi/4 +i,+i:+i,pi/4 "
    "i,N:+i,N N,f:N,N N,+i:+i,N N,N:N,N",
    "sqrt": "0,0:0,0 *,+i:+i,+i f,N:N,N -i,p:0,+i +i,p:+i,0 -i,N:N,ui +i,N:+i,N N,*:N,N",
}
ROTATED = {"sin": "sinh", "tan": "tanh", "asin": "asinh", "atan": "atanh"}  # f(z) = -i g(iz)
ODD, EVEN = ("asinh", "atanh", "sinh", "tanh"), ("cosh",)
VALUES = [0.0, 1.0, 0.5, 2.0, 3.0, 1e30, 1e-30, math.inf, math.nan]
PARTS = [sign * v for v in VALUES for sign in (1, -1)]


def is_a(kind: str, v: float) -> bool:
    """Whether v is of a kind of operands."""
    finite, positive = math.isfinite(v), math.copysign(1, v) > 0
    return {
        "*": True, "N": math.isnan(v), "0": v == 0, "p0": v == 0 and positive,
        "n0": v == 0 and not positive, "1": v == 1, "-1": v == -1, "p": finite and v > 0,
        "m": finite and v != 0, "f": finite, "+i": v == math.inf, "-i": v == -math.inf,
        "i": math.isinf(v),
    }[kind]  # fmt: skip


def is_part(rule: str, got: float) -> bool:
    """Whether a part of a result is what a rule says."""
    if rule == "N":
        return math.isnan(got)
    open_sign, rule = rule[0] == "u", rule.removeprefix("u")
    want = eval(rule.replace("i", "inf").replace("pinf", "pi"), {"pi": math.pi, "inf": math.inf})
    want = -0.0 if rule == "-0" else float(want)
    if open_sign:
        got, want = abs(got), abs(want)
    same = got == want or abs(got - want) < 1e-6 * abs(want)
    return same and math.copysign(1, got) == math.copysign(1, want)


def is_result(rule: str, got: complex, im: float, dtype: type) -> bool:
    if not rule.endswith("cis"):
        return all(map(is_part, rule.split(","), (got.real, got.imag)))
    size = math.inf if "icis" in rule else 0.0
    angle = dtype(im).real
    re, im = size * float(np.cos(angle)), size * float(np.sin(angle))
    if rule.startswith("-1+"):
        return got.real == -1 and repr(got.imag) == repr(im)
    return repr((got.real, got.imag)) == repr((re, im))


def reflected(name: str, z: complex, out: complex) -> tuple[complex, complex]:
    """The case in the half plane, or quadrant, that the rules are of."""
    if math.copysign(1, z.imag) < 0:
        z, out = z.conjugate(), out.conjugate()
    if name in ODD + EVEN and math.copysign(1, z.real) < 0:
        z = complex(-z.real, z.imag)
        out = out.conjugate() if name in EVEN else complex(-out.real, out.imag)
    return z, out


def operands(dtype: type) -> np.ndarray:
    z = np.empty((len(PARTS),) * 2, dtype)
    z.real, z.imag = np.array(PARTS)[:, None], np.array(PARTS)
    return z.ravel()


def results(name: str, z: np.ndarray) -> Iterator[np.ndarray]:
    """A function of all operands together, jitted, and of each on its own."""
    f: Any = getattr(jnp, name)
    yield np.asarray(f(jnp.asarray(z)))
    yield np.asarray(pullback.jit(f)(jnp.asarray(z)))
    yield np.array([np.asarray(f(one)) for one in z])


@pytest.mark.parametrize("name", [*RULES, *ROTATED, "cos"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_special_cases(name: str, dtype: type) -> None:
    base = {**ROTATED, "cos": "cosh"}.get(name, name)
    rules = [rule.split(":") for rule in RULES[base].split()]
    z = operands(dtype)
    with pullback.enable_x64(True), np.errstate(all="ignore"):
        found = [out.tolist() for out in results(name, z)]
    for number, out in enumerate(found):
        for x, y in zip(z.tolist(), out, strict=True):
            if name != base:
                x = complex(-x.imag, x.real)
                y = y if name == "cos" else complex(-y.imag, y.real)
            at, got = reflected(base, x, y)
            for kinds, wanted in rules:
                re, im = kinds.split(",")
                if is_a(re, at.real) and is_a(im, at.imag):
                    assert is_result(wanted, got, at.imag, dtype), (number, x, y, kinds, wanted)
                    break


@pytest.mark.parametrize("dtype, far", ((np.complex64, 90.0), (np.complex128, 711.0)))
@pytest.mark.parametrize("name", ("exp", "sinh", "cosh", "sin", "cos"))
def test_parts_beside_an_infinite_one(name: str, dtype: type, far: float) -> None:
    """exp(re) may leave the numbers where its product with a sine or cosine does not."""
    z = np.array([far + 3.1415927j, far + 1e-7j, -far + 1e-7j, far - 2 + 2j, 5 + 1j], dtype)
    z = 1j * z if name in ("sin", "cos") else z
    with np.errstate(over="ignore"), pullback.enable_x64(True):
        got, want = np.asarray(getattr(jnp, name)(z)), getattr(np, name)(z)
    assert np.isfinite(want).any()
    for mine, theirs in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
