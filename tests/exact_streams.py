"""What random numbers would be without rounding: a sampler's program in extended precision.

The bits are the program's; from there on floats are NumPy's `longdouble` (64 bits of precision on
x86), and the error function and its inverse are computed with mpmath. What differs from it is
rounding of one side or the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import mpmath
import numpy as np

import pullback
from pullback.backends.reference import eval_jaxpr_numpy, rule_of
from pullback.backends.reference.control import control_rules
from pullback.core.jaxpr import Jaxpr, Literal
from pullback.primitives.keys import lower_keys
from tests.random_streams import SAMPLERS

EXTENDED = np.longdouble
MATRICES = ("multivariate_normal", "orthogonal")  # their decompositions are LAPACK's
mpmath.mp.prec = 120


def _by_mpmath(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one number on arrays of extended precision."""

    def one(x: Any) -> Any:
        if not np.isfinite(x) or abs(x) == 1:
            return EXTENDED(f(mpmath.mpf(float(x))))
        high = float(x)
        value = f(mpmath.mpf(high) + mpmath.mpf(float(x - EXTENDED(high))))
        head = float(value)
        return EXTENDED(head) + EXTENDED(float(value - head))

    def on_arrays(x: Any, **_: Any) -> Any:
        out = np.empty(x.shape, EXTENDED)
        flat, results = np.ravel(x), np.ravel(out)
        for k, element in enumerate(flat):
            results[k] = one(element)
        return results.reshape(x.shape)

    return on_arrays


def _inverse_erf(x: Any) -> Any:
    return mpmath.inf * x if abs(x) == 1 else mpmath.erfinv(x)


# What is rounded: the functions in extended precision. Other operations move numbers.
ROUNDED: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "div": np.divide,
    "erf": _by_mpmath(mpmath.erf),
    "erf_inv": _by_mpmath(_inverse_erf),
    "exp": np.exp,
    "floor": np.floor,
    "fused_multiply_add": lambda x, y, z: x * y + z,
    "library_pow": np.power,
    "log": np.log,
    "log1p": np.log1p,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "neg": np.negative,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "tan": np.tan,
}


def _wide(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype(EXTENDED) if x.dtype == np.float64 else x


def _run(eqn: Any, args: Sequence[Any]) -> list[Any]:
    name = eqn.primitive.name
    if eqn.params.get("name") == "_uniform":
        # Uniform numbers are given: they are the same on both sides, to the bit.
        narrow = [a.astype(np.float64) if a.dtype == EXTENDED else a for a in args]
        closed = eqn.params["jaxpr"]
        return list(eval_jaxpr_numpy(closed.jaxpr, closed.consts, narrow))
    if eqn.primitive in CONTROL:
        return list(CONTROL[eqn.primitive](*args, **eqn.params))
    if name in ROUNDED and any(a.dtype == EXTENDED for a in args):
        return [ROUNDED[name](*args)]
    if name in ("reduce_sum", "reduce_max"):
        return [(np.sum if name == "reduce_sum" else np.max)(args[0], axis=eqn.params["axes"])]
    if name == "nextafter":  # the neighbour among the numbers of double precision
        args = [a.astype(np.float64) for a in args]
    if name == "convert_element_type" and eqn.params["new_dtype"] == np.float64:
        return [args[0].astype(EXTENDED)]
    out = rule_of(eqn.primitive)(*args, **eqn.params)
    return list(out) if eqn.primitive.multiple_results else [out]


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The program's results, floats in extended precision."""
    values: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return _wide(atom.val) if isinstance(atom, Literal) else values[atom]

    values.update(zip(jaxpr.constvars, map(_wide, consts), strict=True))
    values.update(zip(jaxpr.invars, map(_wide, args), strict=True))
    for eqn in jaxpr.eqns:
        outs = _run(eqn, [read(v) for v in eqn.invars])
        values.update(zip(eqn.outvars, map(_wide, outs), strict=True))
    return [read(v) for v in jaxpr.outvars]


CONTROL = control_rules(evaluate)


def exact(draw: Callable[[Any], Any], seed: int) -> Any:
    """draw(key), for a float64 sampler, without rounding; 64-bit types must be on."""
    closed = lower_keys(pullback.make_jaxpr(draw)(pullback.random.key(0)))
    base = np.asarray(pullback.random.key_data(pullback.random.key(seed)))
    with np.errstate(all="ignore"):
        return evaluate(closed.jaxpr, closed.consts, [base])[0]


def distances(got: Any, true: Any) -> tuple[float, float, float]:
    """(largest, largest but for a tenth, mean) distance of float64 numbers from these, in units in
    the last place.
    """
    unit = np.spacing(np.abs(true.astype(np.float64)))
    apart = np.abs(got.astype(EXTENDED) - true) / unit
    apart = apart[np.isfinite(apart)].astype(np.float64)
    if not apart.size:
        return 0.0, 0.0, 0.0
    return float(apart.max()), float(np.quantile(apart, 0.9)), float(apart.mean())


def compared(n: int, seeds: Sequence[int], names: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """(sampler, distances of ours, distances of JAX's) of n float64 numbers of each seed."""
    with pullback.enable_x64(True), jax.enable_x64(True):
        for name, (f, kinds) in SAMPLERS.items():
            if "float32" not in kinds or name in MATRICES or (names and name not in names):
                continue

            def draw(R: Any, seed: int, f: Any = f) -> Any:
                return np.asarray(f(R, R.key(seed), (n,), "float64"))

            true = [exact(lambda k, f=f: f(pullback.random, k, (n,), "float64"), s) for s in seeds]
            found = [
                distances(np.stack([draw(R, s) for s in seeds]), np.stack(true))
                for R in (pullback.random, jax.random)
            ]
            yield name, *found
