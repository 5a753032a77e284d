"""What elementary functions take an element, beside NumPy's and JAX's.

`python -m benchmarks.elementary` writes docs/elementary_times.md (JAX installed; SciPy gives what
NumPy has not). Every function of arrays that stay in a core's cache, on one thread: the least
processor time of many calls, in turn, an element. How exact they are is told by
benchmarks/accuracy.py, with the same domains.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from .accuracy import FUNCTIONS, Function, arguments, found, table
from .convolutions import least

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "elementary_times.md"
ELEMENTS = 20_000
NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "power",
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh",
    "arccosh", "arctanh", "hypot", "sigmoid", "erf", "erfc", "erfinv", "gammaln", "digamma",
)  # fmt: skip
OURS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
HEAD = ["function", "f32 ours", "f32 NumPy", "f32 JAX", "f64 ours", "f64 NumPy", "f64 JAX",
        "f16 ours", "bf16 ours"]  # fmt: skip
PAGE_TEXT = """# Elementary functions: time of an element

Made by `python -m benchmarks.elementary`: nanoseconds an element of {elements} elements (their
calls included), on one thread: the least processor time of many calls in turn. NumPy is {numpy},
with SciPy's functions where it has none (`-`: neither has); JAX is {jax}. The domains, and how
exact the results are, stand in [Accuracy](accuracy.md): NumPy's float32 functions of powers, cube
roots and inverse hyperbolic functions are quicker and less exact than ours, which end in float64.

{rows}
"""


def numpys(path: str) -> Callable[..., Any] | None:
    """NumPy's or SciPy's function of this name."""
    name = {"sigmoid": "expit"}.get(path.rpartition(".")[2], path.rpartition(".")[2])
    if name == "rsqrt":
        return None
    own = getattr(np, name, None)
    return own or getattr(importlib.import_module("scipy.special"), name, None)


def calls(function: Function, dtype: Any, all_engines: bool) -> dict[str, Callable[[], Any]]:
    """One call on every engine, which waits for its result."""
    args = [np.resize(x, ELEMENTS).astype(dtype) for x in arguments(function, np.float64)]
    engines: dict[str, Callable[[], Any]] = {}
    for root in ("pullback", "jax") if all_engines else ("pullback",):
        module = importlib.import_module(root)
        target = found(root, function.path)
        if target is not None:
            engines[root] = _waiting(module.jit(target), module.device_put(args))
    other = numpys(function.path) if all_engines else None
    if other is not None:
        engines["numpy"] = lambda: other(*args)
    return engines


def _waiting(jitted: Callable[..., Any], args: Any) -> Callable[[], Any]:
    return lambda: jitted(*args).block_until_ready()


def rows(only: str, seconds: float) -> Iterator[list[str]]:
    """A row of the table for each function."""
    by_name = {f.path.rpartition(".")[2]: f for f in FUNCTIONS}
    for name in NAMES:
        if only not in name:
            continue
        row = [f"`{by_name[name].path}`"]
        for kind, dtype in OURS.items():
            wide = kind in ("f32", "f64")
            with np.errstate(all="ignore"):
                best = least(calls(by_name[name], dtype, wide), seconds)
            order = ("pullback", "numpy", "jax") if wide else ("pullback",)
            row += [f"{best[e] / ELEMENTS * 1e9:.2f}" if e in best else "-" for e in order]
        print(*row, flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="functions whose name holds this; no page")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each cell's engines")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.setdefault("PULLBACK_TIER", "0")  # good code at once, however busy the machine
    for root in ("pullback", "jax"):
        importlib.import_module(root).config.update("jax_enable_x64", True)
    body = list(rows(options.only, options.seconds))
    if options.only:
        return
    version = importlib.import_module("jax").__version__
    text = PAGE_TEXT.format(
        elements=ELEMENTS, numpy=np.__version__, jax=version, rows=table(HEAD, body)
    )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
