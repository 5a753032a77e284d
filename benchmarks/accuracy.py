"""How far functions and random numbers are from the truth, beside JAX's: writes docs/accuracy.md.

`python -m benchmarks.accuracy` (mpmath and JAX installed). Every function is computed at numbers
drawn over its domain, in float32 and float64, and compared with mpmath's value of the same
arguments; an error is counted in units in the last place (ulp) of the true value. float64 random
numbers are compared with the same formula of the same bits in extended precision
(tests/exact_streams.py).
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import pathlib
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
POINTS = 300
mp = mpmath.mp


class Function(NamedTuple):
    """`path` after the library's name; `ranges` of each argument; the true function of mpmath's
    numbers; how many points."""

    path: str
    ranges: Sequence[tuple[float, float]]
    true: Callable[..., Any]
    points: int = POINTS


def _sinc(x: Any) -> Any:
    return mp.sinc(mp.pi * x)


def _log_ndtr(x: Any) -> Any:
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def _gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _gammaincc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def _betaln(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _spence(x: Any) -> Any:
    return mp.polylog(2, 1 - x).real


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _dawsn(x: Any) -> Any:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _ndtri(p: Any) -> Any:
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def _fresnel(k: int) -> Callable[[Any], Any]:
    return lambda x: (mp.fresnels, mp.fresnelc)[k](x)


def _gelu(x: Any) -> Any:  # the approximation, which is the default
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)))


def _kl_div(x: Any, y: Any) -> Any:
    return x * mp.log(x / y) - x + y


def _multigammaln(a: Any) -> Any:
    return mp.log(mp.pi) / 2 + mp.loggamma(a) + mp.loggamma(a - mp.mpf("0.5"))


def _owens_t(h: Any, a: Any) -> Any:
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def _slope(bessel: Callable[..., Any], v: Any, x: Any) -> Any:
    """The derivative of a Bessel function, by its neighbours of order."""
    below, above = bessel(v - 1, x), bessel(v + 1, x)
    if bessel == mp.besseli:
        return (below + above) / 2
    return -(below + above) / 2 if bessel == mp.besselk else (below - above) / 2


FUNCTIONS = (
    Function("numpy.exp", [(-80, 80)], mp.exp),
    Function("numpy.exp2", [(-120, 120)], lambda x: mp.mpf(2) ** x),
    Function("numpy.expm1", [(-20, 80)], mp.expm1),
    Function("numpy.log", [(1e-30, 1e30)], mp.log),
    Function("numpy.log2", [(1e-30, 1e30)], lambda x: mp.log(x, 2)),
    Function("numpy.log10", [(1e-30, 1e30)], mp.log10),
    Function("numpy.log1p", [(-0.999, 1e6)], mp.log1p),
    Function("numpy.sqrt", [(0, 1e30)], mp.sqrt),
    Function("numpy.cbrt", [(-1e20, 1e20)], lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    Function("numpy.power", [(1e-3, 50), (-15, 15)], mp.power),
    Function("numpy.sin", [(-1e5, 1e5)], mp.sin),
    Function("numpy.cos", [(-1e5, 1e5)], mp.cos),
    Function("numpy.tan", [(-1e5, 1e5)], mp.tan),
    Function("numpy.arcsin", [(-1, 1)], mp.asin),
    Function("numpy.arccos", [(-1, 1)], mp.acos),
    Function("numpy.arctan", [(-1e6, 1e6)], mp.atan),
    Function("numpy.arctan2", [(-1e3, 1e3), (-1e3, 1e3)], mp.atan2),
    Function("numpy.sinh", [(-80, 80)], mp.sinh),
    Function("numpy.cosh", [(-80, 80)], mp.cosh),
    Function("numpy.tanh", [(-20, 20)], mp.tanh),
    Function("numpy.arcsinh", [(-1e6, 1e6)], mp.asinh),
    Function("numpy.arccosh", [(1, 1e6)], mp.acosh),
    Function("numpy.arctanh", [(-0.9999, 0.9999)], mp.atanh),
    Function("numpy.sinc", [(-10, 10)], _sinc),
    Function("numpy.hypot", [(-1e10, 1e10), (-1e10, 1e10)], mp.hypot),
    Function("numpy.logaddexp", [(-50, 50), (-50, 50)], lambda x, y: mp.log(mp.exp(x) + mp.exp(y))),
    Function(
        "numpy.logaddexp2",
        [(-50, 50), (-50, 50)],
        lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2),
    ),
    Function("numpy.float_power", [(1e-3, 50), (-15, 15)], mp.power),
    Function("numpy.deg2rad", [(-1e4, 1e4)], mp.radians),
    Function("numpy.rad2deg", [(-1e4, 1e4)], mp.degrees),
    Function("numpy.i0", [(-30, 30)], lambda x: mp.besseli(0, x)),
    Function("nn.sigmoid", [(-80, 80)], lambda x: 1 / (1 + mp.exp(-x))),
    Function("nn.softplus", [(-80, 80)], lambda x: mp.log1p(mp.exp(x))),
    Function("nn.log_sigmoid", [(-80, 80)], lambda x: -mp.log1p(mp.exp(-x))),
    Function("nn.silu", [(-80, 80)], lambda x: x / (1 + mp.exp(-x))),
    Function("nn.gelu", [(-6, 30)], _gelu),
    Function("nn.mish", [(-60, 60)], lambda x: x * mp.tanh(mp.log1p(mp.exp(x)))),
    Function("nn.elu", [(-30, 30)], lambda x: x if x > 0 else mp.expm1(x)),
    Function("nn.squareplus", [(-30, 30)], lambda x: (x + mp.sqrt(x * x + 4)) / 2),
    Function("lax.rsqrt", [(1e-30, 1e30)], lambda x: 1 / mp.sqrt(x)),
    Function("scipy.special.erf", [(-6, 6)], mp.erf),
    Function("scipy.special.erfc", [(-6, 9)], mp.erfc),
    Function("scipy.special.erfinv", [(-0.9999, 0.9999)], mp.erfinv),
    Function("scipy.special.erfcx", [(-4, 50)], _erfcx),
    Function("scipy.special.dawsn", [(-20, 20)], _dawsn),
    Function("scipy.special.ndtr", [(-12, 6)], mp.ncdf),
    Function("scipy.special.ndtri", [(1e-6, 1 - 1e-6)], _ndtri),
    Function("scipy.special.log_ndtr", [(-30, 6)], _log_ndtr),
    Function("scipy.special.logit", [(1e-6, 1 - 1e-6)], lambda p: mp.log(p / (1 - p))),
    Function("scipy.special.entr", [(0, 50)], lambda x: -x * mp.log(x)),
    Function("scipy.special.gammaln", [(1e-3, 1e5)], mp.loggamma),
    Function("scipy.special.gamma", [(1e-2, 33)], mp.gamma),
    Function("scipy.special.digamma", [(1e-2, 1e4)], mp.digamma),
    Function("scipy.special.factorial", [(0, 30)], mp.factorial),
    Function("scipy.special.betaln", [(0.1, 50), (0.1, 50)], _betaln),
    Function("scipy.special.beta", [(0.1, 20), (0.1, 20)], mp.beta),
    Function("scipy.special.gammainc", [(0.1, 30), (0, 40)], _gammainc, 120),
    Function("scipy.special.gammaincc", [(0.1, 30), (0, 40)], _gammaincc, 120),
    Function(
        "scipy.special.betainc",
        [(0.2, 20), (0.2, 20), (0, 1)],
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        120,
    ),
    Function("scipy.special.zeta", [(1.1, 20), (0.2, 20)], mp.zeta, 80),
    Function("scipy.special.spence", [(0.01, 30)], _spence, 120),
    Function("scipy.special.expi", [(-30, 30)], mp.ei),
    Function("scipy.special.exp1", [(1e-3, 50)], mp.e1),
    Function("scipy.special.sici(0)", [(-40, 40)], mp.si, 120),
    Function("scipy.special.fresnel(0)", [(-10, 10)], _fresnel(0), 120),
    Function("scipy.special.fresnel(1)", [(-10, 10)], _fresnel(1), 120),
    Function("scipy.special.i0", [(-30, 30)], lambda x: mp.besseli(0, x)),
    Function("scipy.special.i0e", [(-60, 60)], lambda x: mp.exp(-abs(x)) * mp.besseli(0, x)),
    Function("scipy.special.i1", [(-30, 30)], lambda x: mp.besseli(1, x)),
    Function("scipy.special.i1e", [(-60, 60)], lambda x: mp.exp(-abs(x)) * mp.besseli(1, x)),
    Function("scipy.special.expit", [(-80, 80)], lambda x: 1 / (1 + mp.exp(-x))),
    Function("scipy.special.xlogy", [(0, 50), (1e-6, 50)], lambda x, y: x * mp.log(y)),
    Function("scipy.special.xlog1py", [(0, 50), (-0.99, 50)], lambda x, y: x * mp.log1p(y)),
    Function("scipy.special.rel_entr", [(0.01, 50), (0.01, 50)], lambda x, y: x * mp.log(x / y)),
    Function("scipy.special.kl_div", [(0.01, 50), (0.01, 50)], _kl_div),
    Function(
        "scipy.special.boxcox", [(0.01, 50), (0.01, 3)], lambda x, k: mp.expm1(k * mp.log(x)) / k
    ),
    Function(
        "scipy.special.boxcox1p",
        [(-0.9, 50), (0.01, 3)],
        lambda x, k: mp.expm1(k * mp.log1p(x)) / k,
    ),
    Function("scipy.special.comb", [(5, 40), (0, 5)], mp.binomial),
    Function("scipy.special.poch", [(0.1, 20), (0.1, 10)], mp.rf),
    Function("scipy.special.polygamma@1", [(0.05, 50)], lambda x: mp.psi(1, x), 120),
    Function("scipy.special.polygamma@3", [(0.05, 50)], lambda x: mp.psi(3, x), 120),
    Function("scipy.special.multigammaln", [(2, 500)], _multigammaln, 120),
    Function("scipy.special.expn@1", [(1e-3, 50)], mp.e1, 120),
    Function("scipy.special.expn@4", [(1e-3, 50)], lambda x: mp.expint(4, x), 120),
    Function("scipy.special.sici(1)", [(0.01, 40)], mp.ci, 120),
    Function("scipy.special.hyp1f1", [(0.2, 3), (1, 4), (-15, 15)], mp.hyp1f1, 80),
    Function("scipy.special.hyp2f1", [(0.2, 3), (0.2, 3), (1, 4), (-0.9, 0.9)], mp.hyp2f1, 80),
    Function("scipy.special.owens_t", [(0.01, 4), (0.01, 4)], _owens_t, 40),
    *(
        Function(f"scipy.special.{letter}{n}", [(0.01, 30)], functools.partial(true, n), 120)
        for letter, true in (("j", mp.besselj), ("y", mp.bessely), ("k", mp.besselk))
        for n in (0, 1)
    ),
    Function(
        "scipy.special.ive", [(0, 5), (0.01, 30)], lambda v, x: mp.exp(-x) * mp.besseli(v, x), 80
    ),
    Function(
        "scipy.special.kve", [(0, 5), (0.01, 30)], lambda v, x: mp.exp(x) * mp.besselk(v, x), 80
    ),
    *(
        Function(
            f"scipy.special.{letter}vp", [(0, 5), (0.5, 20)], functools.partial(_slope, true), 80
        )
        for letter, true in (
            ("j", mp.besselj),
            ("y", mp.bessely),
            ("i", mp.besseli),
            ("k", mp.besselk),
        )
    ),
    Function("scipy.special.jv", [(0, 5), (0.01, 30)], mp.besselj, 120),
    Function("scipy.special.yv", [(0, 5), (0.01, 30)], mp.bessely, 120),
    Function("scipy.special.iv", [(0, 5), (0.01, 30)], mp.besseli, 120),
    Function("scipy.special.kv", [(0, 5), (0.01, 30)], mp.besselk, 120),
)


def arguments(function: Function, dtype: Any) -> list[np.ndarray[Any, Any]]:
    """Half of the numbers evenly over the range, half evenly over its powers of ten."""
    rng = np.random.default_rng(zlib.crc32(function.path.encode()))
    out = []
    for low, high in function.ranges:
        even = rng.uniform(low, high, function.points)
        least, most = (low, high) if low > 0 else (min(high, 1) * 1e-4, high)
        scaled = np.exp(rng.uniform(math.log(least), math.log(most), function.points))
        if low < 0:
            sizes = rng.uniform(math.log(min(-low, 1) * 1e-4), math.log(-low), function.points)
            scaled = np.where(rng.random(function.points) < 0.5, scaled, -np.exp(sizes))
        out.append(np.where(np.arange(function.points) % 2, even, scaled).astype(dtype))
    return out


def found(root: str, path: str) -> Callable[..., Any] | None:
    """pullback's or JAX's function; `f(k)` is the k-th of several results, `f@n` is of order n."""
    path, _, order = path.partition("@")
    path, _, part = path.rstrip(")").partition("(")
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(f"{root}.{module}"), name, None)
    if function is not None and name == "multigammaln":
        return lambda a: function(a, 2)
    if function is not None and order:
        return lambda x: function(int(order), x)
    if function is None or not part:
        return function
    return lambda *args: function(*args)[int(part)]


def truths(function: Function, args: Sequence[Any]) -> list[Any]:
    values = zip(*(x.astype(np.float64).tolist() for x in args), strict=True)
    return [function.true(*map(mp.mpf, x)) for x in values]


def errors(got: Any, true: Sequence[Any], dtype: Any) -> tuple[float, float]:
    """(largest, mean) error in ulp, of the results that are normal numbers."""
    info = np.finfo(dtype)
    found = []
    for g, t in zip(np.asarray(got).astype(np.float64).tolist(), true, strict=True):
        size = abs(t)
        if not float(info.tiny) <= size <= float(info.max):
            continue
        digits = mp.floor(mp.log(size, 2)) - info.nmant
        found.append(
            float(abs(mp.mpf(g) - t) / mp.ldexp(1, int(digits))) if np.isfinite(g) else np.inf
        )
    return max(found), sum(found) / len(found)


def known_rows() -> dict[str, list[str]]:
    """The rows that the page has, by function."""
    lines = (line[2:-2].split(" | ") for line in PAGE.read_text().splitlines() if "| `" in line[:3])
    return {cells[0].strip("`"): cells for cells in lines}


def rows(only: str, known: dict[str, list[str]]) -> Iterator[list[str]]:
    """A row of the table for each function, those that are known as they are."""
    for function in FUNCTIONS:
        if only not in function.path:
            continue
        if function.path in known:
            yield known[function.path]
            continue
        row = [f"`{function.path}`", ", ".join(f"{a:g} .. {b:g}" for a, b in function.ranges)]
        for dtype in (np.float32, np.float64):
            args = arguments(function, dtype)
            true = truths(function, args)
            for root in ("pullback", "jax"):
                call = found(root, function.path)
                if call is None:
                    row += ["-", "-"]
                    continue
                with importlib.import_module(root).enable_x64(dtype is np.float64):
                    largest, mean = errors(call(*args), true, dtype)
                row += [shown(largest), shown(mean)]
        print(*row, flush=True)
        yield row


def shown(x: float) -> str:
    return (
        f"{x:.2f}"
        if x < 100
        else f"{x:.0f}"
        if x < 1e5
        else f"{x:.0e}"
        if np.isfinite(x)
        else "inf"
    )


def stream_rows() -> Iterator[list[str]]:
    """A row for each float64 sampler: how far both sides are from its formula without rounding."""
    sys.path.insert(0, str(ROOT))
    exact_streams = importlib.import_module("tests.exact_streams")
    for name, ours, theirs in exact_streams.compared(100, (0, 42)):
        row = [name, *map(shown, (ours[0], ours[-1], theirs[0], theirs[-1]))]
        print(*row, flush=True)
        yield row


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


PAGE_TEXT = """# Accuracy

Made by `python -m benchmarks.accuracy`. Errors are in units in the last place (ulp) of the true
value, as mpmath computes it from the same arguments: the largest and the mean over {points} numbers
(fewer where mpmath takes long), half of them evenly over the domain, half evenly over its powers of
ten. A correctly rounded result has at most 0.5. JAX is {jax}, on this machine's CPU; `-` is what it
does not have. Large errors in the ulp of a result are usual near the zeros of a function (`gammaln`
near 1 and 2, `digamma`, `expi`, Bessel functions), on either side.

## Functions

{functions}

## Random numbers in float64

The bits and the uniform numbers are JAX's, to the bit, and so is every formula: samplers do not
take the functions above, but logarithms, exponentials and error functions as XLA's CPU compiler has
them (its `log1p` is wrong by up to 128 ulp between -0.41 and -0.29), so that streams agree within 2
ulp. Below is how far numbers are from their formula computed without rounding
(tests/exact_streams.py), the largest and the mean of 200 draws. Where they are large, the formula
itself loses digits (`gumbel`: the logarithm of a number near 1).

{streams}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="functions whose path holds this; no page")
    parser.add_argument(
        "--new", action="store_true", help="functions the page lacks; keeps the rest"
    )
    options = parser.parse_args()
    mp.prec = 140
    body = list(rows(options.only, known_rows() if options.new else {}))
    if options.only:
        return 0
    both = [f"{side}, {kind}" for side in ("ours", "JAX") for kind in ("largest", "mean")]
    head = ["function", "domain", *(f"{d} {c}" for d in ("f32", "f64") for c in both)]
    version = importlib.import_module("jax").__version__
    if options.new:
        before, rest = PAGE.read_text().split("| function |", 1)
        PAGE.write_text(before + table(head, body) + "\n\n" + rest.partition("\n\n")[2])
        return 0
    text = PAGE_TEXT.format(
        points=POINTS,
        jax=version,
        functions=table(head, body),
        streams=table(["sampler", *both], list(stream_rows())),
    )
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
