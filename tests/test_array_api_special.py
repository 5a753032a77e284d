"""Special cases of real elementwise functions, as the Python array API standard (2024.12) lists
them: for functions and operators, arrays and Python scalars, in float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

# A rule is `operands:result`. Operands: N is NaN (nN any other), z a zero, i an infinity, f a
# finite number (nzf one that is not 0), each with a sign or of either; int an integer, odd and
# even ones after a comparison with 0; m1, e1, l1 a magnitude above, of, below 1. Results: also x
# and y, the operands themselves; pos and neg, a sign; 0, either zero; `|` divides what is allowed.
UNARY = {
    "abs": "N:N -0:+0 -i:+i",
    "acos": "N:N >1:N <-1:N =1:+0",
    "acosh": "N:N <1:N =1:+0 +i:+i",
    "asin": "N:N >1:N <-1:N +0:+0 -0:-0",
    "asinh": "N:N +0:+0 -0:-0 +i:+i -i:-i",
    "atan": "N:N +0:+0 -0:-0 +i:pi/2 -i:-pi/2",
    "atanh": "N:N <-1:N >1:N =-1:-i =1:+i +0:+0 -0:-0",
    "ceil": "int:x +i:+i -i:-i +0:+0 -0:-0 N:N",
    "floor": "int:x +i:+i -i:-i +0:+0 -0:-0 N:N",
    "trunc": "int:x +i:+i -i:-i +0:+0 -0:-0 N:N",
    "round": "int:x +i:+i -i:-i +0:+0 -0:-0 N:N half:even",
    "cos": "N:N z:1 i:N",
    "cosh": "N:N z:1 i:+i",
    "exp": "N:N z:1 +i:+i -i:+0",
    "expm1": "N:N +0:+0 -0:-0 +i:+i -i:-1",
    "isfinite": "i:F N:F f:T",
    "isinf": "i:T N:F f:F",
    "isnan": "N:T i:F f:F",
    "log": "N:N <0:N z:-i =1:+0 +i:+i",
    "log2": "N:N <0:N z:-i =1:+0 +i:+i",
    "log10": "N:N <0:N z:-i =1:+0 +i:+i",
    "log1p": "N:N <-1:N =-1:-i -0:-0 +0:+0 +i:+i",
    "negative": "+0:-0 -0:+0 +i:-i -i:+i N:N",
    "positive": "+0:+0 -0:-0 +i:+i -i:-i N:N",
    "reciprocal": "N:N +0:+i -0:-i +i:+0 -i:-0 +f:pos -f:neg",
    "sign": "<0:-1 z:0 >0:1 N:N",
    "signbit": "+0:F -0:T +i:F -i:T +f:F -f:T +N:F -N:T",
    "sin": "N:N +0:+0 -0:-0 i:N",
    "sinh": "N:N +0:+0 -0:-0 +i:+i -i:-i",
    "square": "N:N z:+0 i:+i",
    "sqrt": "N:N <0:N +0:+0 -0:-0 +i:+i",
    "tan": "N:N +0:+0 -0:-0 i:N",
    "tanh": "N:N +0:+0 -0:-0 +i:1 -i:-1",
}
QUOTIENTS = (
    "N,*:N *,N:N i,i:N z,z:N +0,>0:+0 -0,>0:-0 +0,<0:-0 -0,<0:+0 >0,+0:+i >0,-0:-i <0,+0:-i "
    "<0,-0:+i +f,+i:+0 -f,-i:+0 +f,+f:pos -f,-f:pos +f,-f:neg -f,+f:neg "
)
BINARY = {
    "add": "N,*:N *,N:N +i,-i:N -i,+i:N +i,+i:+i -i,-i:-i +i,f:+i -i,f:-i f,+i:+i f,-i:-i "
    "-0,-0:-0 -0,+0:+0 +0,-0:+0 +0,+0:+0 z,nzf:y nzf,z:x opposite:+0",
    "subtract": "N,*:N *,N:N +i,+i:N -i,-i:N +i,-i:+i -i,+i:-i +i,f:+i -i,f:-i f,-i:+i f,+i:-i "
    "-0,+0:-0 -0,-0:+0 +0,+0:+0 +0,-0:+0 nzf,z:x same:+0",
    "atan2": "N,*:N *,N:N >0,z:pi/2 +0,>0:+0 +0,+0:+0 +0,-0:pi +0,<0:pi -0,>0:-0 -0,+0:-0 "
    "-0,-0:-pi -0,<0:-pi <0,z:-pi/2 +f,+i:+0 +f,-i:pi -f,+i:-0 -f,-i:-pi +i,f:pi/2 -i,f:-pi/2 "
    "+i,+i:pi/4 +i,-i:3*pi/4 -i,+i:-pi/4 -i,-i:-3*pi/4",
    "copysign": "nN,<0:-|x| nN,-0:-|x| nN,+0:|x| nN,>0:|x| nN,-N:-|x| nN,+N:|x| N,<0:-N N,-0:-N "
    "N,+0:+N N,>0:+N N,-N:-N N,+N:+N",
    "divide": QUOTIENTS + "+i,+f:+i +i,-f:-i -i,+f:-i -i,-f:+i +f,-i:-0 -f,+i:-0",
    "floor_divide": QUOTIENTS
    + "+i,+f:+i|N +i,-f:-i|N -i,+f:-i|N -i,-f:+i|N +f,-i:-0|-1 -f,+i:-0|-1",
    "remainder": "N,*:N *,N:N i,i:N z,z:N z,>0:+0 z,<0:-0 >0,z:N <0,z:N i,nzf:N +f,+i:x +f,-i:y "
    "-f,+i:y -f,-i:x nzf,nzf:python",
    "hypot": "i,*:+i *,i:+i z,*:|y| *,z:|x| f,N:N N,N:N N,f:N",
    "logaddexp": "N,*:N *,N:N +i,nN:+i nN,+i:+i",
    "maximum": "N,*:N *,N:N",
    "minimum": "N,*:N *,N:N",
    "multiply": "N,*:N *,N:N i,z:N z,i:N +i,+i:+i -i,-i:+i +i,-i:-i -i,+i:-i +i,+f:+i +i,-f:-i "
    "-i,+f:-i -i,-f:+i +f,+i:+i -f,+i:-i +f,-i:-i -f,-i:+i +0,+0:+0 -0,-0:+0 +0,-0:-0 -0,+0:-0 "
    "+0,+f:+0 +0,-f:-0 -0,+f:-0 -0,-f:+0 +f,+f:pos -f,-f:pos +f,-f:neg -f,+f:neg",
    "nextafter": "N,*:N *,N:N -0,+0:+0 +0,-0:-0",
    "equal": "N,*:F *,N:F +i,+i:T -i,-i:T z,z:T same:T +i,-i:F f,i:F i,f:F",
    "not_equal": "N,*:T *,N:T +i,-i:T -i,+i:T same:F z,z:F +i,+i:F -i,-i:F f,i:T i,f:T",
    "less": "N,*:F *,N:F z,z:F -i,f:T f,+i:T",
    "greater": "N,*:F *,N:F z,z:F +i,f:T f,-i:T",
    "less_equal": "N,*:F *,N:F z,z:T -i,f:T f,+i:T",
    "greater_equal": "N,*:F *,N:F z,z:T +i,f:T f,-i:T",
    "pow": "n1,N:N *,z:1 N,n0:N m1,+i:+i m1,-i:+0 e1,i:1 =1,nN:1 l1,+i:+0 l1,-i:+i +i,>0:+i "
    "+i,<0:+0 -i,>0odd:-i -i,>0even:+i -i,<0odd:-0 -i,<0even:+0 +0,>0:+0 +0,<0:+i -0,>0odd:-0 "
    "-0,>0even:+0 -0,<0odd:-i -0,<0even:+i -f,nint:N",
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "pow": lambda x, y: x**y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "greater": lambda x, y: x > y,
    "less_equal": lambda x, y: x <= y,
    "greater_equal": lambda x, y: x >= y,
}
MAGNITUDES = (math.nan, 0.0, math.inf, 1, 0.5, 2, 3, 1.5, 2.5, 7.25, 1e30, 1e-30, 3.4e38, 1.2e-38)
VALUES = [sign * v for v in MAGNITUDES for sign in (1, -1)]


def is_a(kind: str, v: float) -> bool:
    """Whether v is of a kind of operands."""
    finite, odd = math.isfinite(v), math.isfinite(v) and v % 2 == 1
    if kind[0] in "+-":
        return is_a(kind[1:], v) and (math.copysign(1, v) > 0) == (kind[0] == "+")
    if kind[:2] in (">0", "<0") and len(kind) > 2:
        return is_a(kind[:2], v) and odd == (kind[2:] == "odd")
    return {
        "*": True, "N": math.isnan(v), "nN": not math.isnan(v), "0": v == 0, "z": v == 0,
        "n0": v != 0, "i": math.isinf(v), "f": finite and v != 0, "nzf": finite and v != 0,
        ">0": v > 0, "<0": v < 0, ">1": v > 1, "<1": v < 1, "<-1": v < -1, "=1": v == 1,
        "=-1": v == -1, "n1": v != 1, "m1": abs(v) > 1, "e1": abs(v) == 1, "l1": abs(v) < 1,
        "int": finite and v == int(v), "nint": finite and v != int(v),
        "half": finite and abs(v) % 1 == 0.5,
    }[kind]  # fmt: skip


def is_pair(kinds: str, x: float, y: float) -> bool:
    if kinds in ("same", "opposite"):
        return math.isfinite(x) and x != 0 and y == (x if kinds == "same" else -x)
    first, second = kinds.split(",")
    return is_a(first, x) and is_a(second, y)


def close(got: float, want: float) -> bool:
    """To a few units, zeros with their signs."""
    if math.isnan(want) or want == 0:
        return repr(got) == repr(want)
    return got == want or abs(got - want) <= 1e-6 * abs(want)


def is_right(rule: str, got: Any, x: float, y: float = 0.0) -> bool:
    """Whether a result is one that a rule allows."""
    if "|" in rule.replace("|x|", "").replace("|y|", ""):
        return any(is_right(r, got, x, y) for r in rule.split("|"))
    if rule in ("T", "F"):
        return got is (rule == "T")
    if rule in ("pos", "neg"):
        return not math.isnan(got) and (math.copysign(1, got) > 0) == (rule == "pos")
    if rule in ("N", "+N", "-N", "+0", "-0", "+i", "-i"):
        return is_a(rule, got)
    if rule == "0":
        return got == 0
    if rule == "python":  # remainders are exact but for the last sum
        return close(got, x % y) or abs(got - x % y) <= 1e-6 * abs(y)
    if rule in ("|x|", "|y|", "-|x|"):
        want = abs(y) if rule == "|y|" else math.copysign(x, 1 if rule == "|x|" else -1)
        return close(got, want)
    if rule == "even":
        return close(got, math.copysign(2 * round(x / 2), x))
    want = {"x": x, "y": y}.get(rule)
    return close(got, float(eval(rule, {"pi": math.pi})) if want is None else want)


def forms(name: str, values: np.ndarray) -> Iterator[np.ndarray]:
    """A function of all pairs of values, called in every way."""
    x, y = (jnp.asarray(a.ravel()) for a in np.meshgrid(values, values, indexing="ij"))
    yield np.asarray(getattr(jnp, name)(x, y))
    if operator := OPERATORS.get(name):
        yield np.asarray(operator(x, y))
        one, scalars = jnp.asarray(values), values.tolist()
        yield np.stack([np.asarray(operator(one, v)) for v in scalars], 1).ravel()
        yield np.stack([np.asarray(operator(v, one)) for v in scalars], 0).ravel()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    rules = [rule.rsplit(":", 1) for rule in UNARY[name].split()]
    for dtype in (np.float32, np.float64):
        with pullback.enable_x64(True):
            values = np.array(VALUES, dtype)
            results = np.asarray(getattr(jnp, name)(jnp.asarray(values))).tolist()
        for x, got in zip(values.tolist(), results, strict=True):
            for kind, result in rules:
                assert not is_a(kind, x) or is_right(result, got, x), (dtype, x, got, kind)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    rules = [rule.rsplit(":", 1) for rule in BINARY[name].split()]
    for dtype in (np.float32, np.float64):
        values = np.array(VALUES, dtype)
        pairs = [(x, y) for x in values.tolist() for y in values.tolist()]
        applied = [
            (k, x, y, result)
            for k, (x, y) in enumerate(pairs)
            for kinds, result in rules
            if is_pair(kinds, x, y)
        ]
        with pullback.enable_x64(True):
            for number, results in enumerate(forms(name, values)):
                got = results.tolist()
                for k, x, y, result in applied:
                    assert is_right(result, got[k], x, y), (dtype, number, x, y, got[k], result)


def test_zeros_of_remainders_have_derivatives() -> None:
    """The sign of a zero is the divisor's, and the derivative is that of any other remainder."""
    grad = pullback.grad(jnp.remainder, (0, 1))
    for x, y in ((4.0, 2.0), (-4.0, 2.0), (4.0, -2.0), (-0.0, 3.0)):
        assert [float(d) for d in grad(x, y)] == [1.0, -(x // y)]
        quotient, rest = jnp.divmod(x, y)
        assert repr(float(quotient)) == repr(x / y) and repr(float(rest)) == repr(x % y)
        assert [float(d) for d in pullback.grad(jnp.floor_divide, (0, 1))(x, y)] == [0.0, 0.0]
