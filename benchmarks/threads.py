"""What more threads gain: kernels on one and on all, in turn: `python -m benchmarks.threads`.

    python -m benchmarks.threads --only gelu,softmax --rounds 40

A kernel that computes should gain nearly as much as there are cores; one that moves memory gains
what the cores' bandwidth together is more than one's. The smallest times are compared: what else
the machine does only makes them longer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

import pullback
import pullback.numpy as np
from pullback import lax, nn, random
from pullback.backends import llvm

from .report import seconds_text
from .workloads.registry import data

# By name: whether it computes (else it moves memory), the function, its arguments.
KERNELS: dict[str, tuple[bool, Callable[..., Any], tuple[Any, ...]]] = {
    "gelu 1e6": (True, nn.gelu, (data(1_000_000),)),
    "sin, exp, log 1e6": (True, lambda x: np.sin(x) * np.exp(x) + np.log(x * x), (data(10**6),)),
    "softmax 1000 x 1000": (True, lambda x: nn.softmax(x), (data(1000, 1000),)),
    "matmul 500": (True, lambda a, b: a @ b, (data(500, 500), data(500, 500))),
    "n-body 1000": (
        True,
        lambda x: ((x[:, None] - x[None]) / ((x[:, None] - x[None]) ** 2 + 1) ** 1.5).sum(1),
        (data(1000),),
    ),
    "convolution 8 x 32 x 32 x 64": (
        True,
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (data(8, 32, 32, 64), data(3, 3, 64, 64)),
    ),
    "uniform 1e6": (True, lambda k: random.uniform(k, (10**6,)), (random.key(0),)),
    "sum 1e7": (False, np.sum, (data(10_000_000),)),
    "layernorm 1000 x 1000": (
        False,
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        (data(1000, 1000),),
    ),
    "x * 2 + 1, 1e7": (False, lambda x: x * 2 + 1, (data(10_000_000),)),
    "transpose 2000 x 2000": (False, lambda x: x.T + 0, (data(2000, 2000),)),
}


def gains(function: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> tuple[float, float]:
    """The least seconds of a call on one thread and on all that the process uses."""
    jitted = pullback.jit(function)
    arrays = pullback.device_put(args)
    counts = 1, llvm.num_threads()
    best = {n: float("inf") for n in counts}
    for turn in range(rounds + 1):
        for n in counts:
            with pullback.num_threads(n):
                for again in range(4):
                    start = time.perf_counter()
                    pullback.block_until_ready(jitted(*arrays))
                    if turn and again:  # the first finds cold caches and sleeping workers
                        best[n] = min(best[n], time.perf_counter() - start)
    return best[counts[0]], best[counts[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="parts of names, between commas")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    wanted = [part for part in options.only.split(",") if part]
    table = Table("kernel", "bound by", "1 thread", f"{llvm.num_threads()} threads", "gain")
    for name, (computes, function, args) in KERNELS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        one, all_ = gains(function, args, options.rounds)
        bound = "arithmetic" if computes else "memory"
        table.add_row(name, bound, seconds_text(one), seconds_text(all_), f"{one / all_:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
