"""Convolutions beside the units' peak: `python -m benchmarks.convolutions`.

    python -m benchmarks.convolutions --only 3x3,depthwise --seconds 2

Forward and both gradients in NHWC and NCHW, on one thread: the least processor time of many calls,
which what else the machine does lengthens least. `of peak` is the part of what fused multiply-adds
in registers alone reach; padding counts as multiplied. JAX's time over ours stands beside it. What
moves more memory than it multiplies, as depthwise convolutions do, is bound by that instead.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from .products import peak
from .report import ratio_text, seconds_text
from .workloads.registry import data

# By name: batch, height and width, input features, window, output features, stride, groups.
FORMS = {
    "3x3, 64 to 64": (8, 32, 64, 3, 64, 1, 1),
    "3x3, 128 to 128": (4, 28, 128, 3, 128, 1, 1),
    "3x3, 256 to 256": (4, 14, 256, 3, 256, 1, 1),
    "3x3, 3 to 32": (8, 64, 3, 3, 32, 1, 1),
    "3x3 stride 2, 64 to 128": (8, 32, 64, 3, 128, 2, 1),
    "1x1, 128 to 128": (4, 28, 128, 1, 128, 1, 1),
    "1x1, 256 to 64": (4, 28, 256, 1, 64, 1, 1),
    "5x5, 32 to 32": (8, 32, 32, 5, 32, 1, 1),
    "3x3, 4 groups of 32": (4, 28, 128, 3, 128, 1, 4),
    "depthwise 3x3, 64": (4, 64, 64, 3, 64, 1, 64),
}
LAYOUTS = {"NHWC": ("NHWC", "HWIO", "NHWC"), "NCHW": ("NCHW", "OIHW", "NCHW")}
KINDS = ("forward", "by input", "by filter")


def operands(form: tuple[int, ...], layout: str) -> tuple[Any, Any]:
    """The picture and the filter."""
    n, side, c, k, f, _, groups = form
    if layout == "NHWC":
        return data(n, side, side, c), data(k, k, c // groups, f, seed=1)
    return data(n, c, side, side), data(f, c // groups, k, k, seed=1)


def call(engine: Any, form: tuple[int, ...], layout: str, kind: str) -> Callable[[], Any]:
    """A jitted convolution, or one of its gradients, that waits for its result."""
    x, w = operands(form, layout)
    *_, stride, groups = form
    convolve = functools.partial(
        engine.lax.conv_general_dilated, window_strides=(stride, stride), padding="SAME",
        dimension_numbers=LAYOUTS[layout], feature_group_count=groups,
    )  # fmt: skip
    if kind == "forward":
        jitted, args = engine.jit(convolve), (x, w)
    else:
        which = KINDS.index(kind) - 1
        ct = engine.jit(convolve)(x, w)
        of = lambda v: (lambda u: convolve(v, u)) if which else (lambda u: convolve(u, v))
        one, other = (w, x) if which else (x, w)
        back = lambda u, v, ct: engine.vjp(of(v), u)[1](ct)[0]
        jitted, args = engine.jit(back), (one, other, ct)
    args = tuple(engine.device_put(args))
    return lambda: jitted(*args).block_until_ready()


def least(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The least processor time of each, in turn for so many seconds."""
    best = dict.fromkeys(calls, math.inf)
    for one in calls.values():
        for _ in range(3):
            one()
    time.sleep(0.1)  # what ran often is compiled well meanwhile
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, one in calls.items():
            for _ in range(3):
                start = time.process_time()
                one()
                best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="parts of names, between commas")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each row of the table")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import jax

    import pullback

    jax.config.update("jax_enable_x64", True)
    pullback.config.update("jax_enable_x64", True)
    wanted = [part for part in options.only.split(",") if part]
    console = Console()
    table = Table("convolution", "layout", "what", "time", "GFLOP/s", "of peak", "JAX's time")
    limit = peak(options.dtype, 1)
    for name, form in FORMS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        n, side, c, k, f, stride, groups = form
        flops = 2.0 * n * (side // stride) ** 2 * k * k * (c // groups) * f
        for layout in LAYOUTS:
            for kind in KINDS:
                engines = {"pullback": pullback, "jax": jax}
                calls = {e: call(module, form, layout, kind) for e, module in engines.items()}
                times = least(calls, options.seconds)
                ours = times["pullback"]
                ratio, rate = times["jax"] / ours, flops / ours
                row = (seconds_text(ours), f"{rate / 1e9:.0f}", f"{rate / limit:.0%}")
                table.add_row(name, layout, kind, *row, ratio_text(ratio))
    console.print(table)


if __name__ == "__main__":
    main()
