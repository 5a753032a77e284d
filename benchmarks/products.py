"""Matrix products of every size beside the libraries: `python -m benchmarks.products`.

    python -m benchmarks.products --threads 1 --sizes 64,512 --dtypes float32

Square products from 8 to 2000 and some that are thin, jitted by Pullback and by JAX, and by NumPy
and PyTorch where it is installed, in one process and in turn; medians of the rounds. `best` is the
fastest other library's time over ours: at least 0.95 is the promise. `of peak` is our part of what
fused multiply-adds in registers alone reach on as many threads.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .report import ratio_text, seconds_text
from .workloads.registry import data

SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 200, 256, 384, 512, 700, 1000, 1024, 1500, 2000)
THIN = (  # batch, m, k, n
    (1, 1, 2000, 2000), (1, 2000, 2000, 1), (1, 8, 1024, 4096), (1, 32, 1024, 4096),
    (1, 2000, 2000, 8), (1, 2000, 4, 2000), (1, 64, 20000, 64), (1000, 8, 8, 8),
    (1000, 4, 4, 4), (100, 32, 32, 32), (32, 128, 64, 128),
)  # fmt: skip
BLOCK = 0.004  # seconds of one engine in a round
Call = Callable[[], Any]


def calls(left: np.ndarray, right: np.ndarray) -> dict[str, Call]:
    """One product on every engine; each waits for its result."""
    import jax

    import pullback

    found: dict[str, Call] = {}
    for name, engine in (("pullback", pullback), ("jax", jax)):
        engine.config.update("jax_enable_x64", True)
        a, b = engine.device_put((left, right))
        product = engine.jit(lambda a, b: a @ b)
        found[name] = lambda product=product, a=a, b=b: product(a, b)
    found["numpy"] = lambda: np.matmul(left, right)
    if importlib.util.find_spec("torch") is not None:
        import torch

        x, y = torch.from_numpy(left), torch.from_numpy(right)
        found["torch"] = lambda: torch.matmul(x, y)
    return found


def block(call: Call, count: int) -> float:
    """Seconds a call, of so many."""
    start = time.perf_counter()
    for _ in range(count):
        result = call()
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
    return (time.perf_counter() - start) / count


def medians(engines: dict[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds a call, rounds of all engines in turn."""
    counts = {}
    for name, call in engines.items():
        block(call, 3)
        counts[name] = max(1, int(BLOCK / max(block(call, 3), 1e-8)))
        block(call, counts[name])
    time.sleep(0.05)  # what ran often is compiled well meanwhile
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, call in engines.items():
            times[name].append(block(call, counts[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def peak(dtype: str, threads: int) -> float:
    """Operations a second of multiply-adds in registers, on so many threads: of products and sums
    where the processor has no instruction for both."""
    from pullback.backends.llvm import link, loader
    from pullback.backends.llvm.target import host_target

    target, t = host_target(), {"float32": "float", "float64": "double"}[dtype]
    lanes, sums = target.lanes(np.dtype(dtype).itemsize), 12
    vt, suffix = f"<{lanes} x {t}>", f"v{lanes}f{8 * np.dtype(dtype).itemsize}"
    phis = [f" %a{k} = phi {vt} [ %start, %entry ], [ %b{k}, %loop ]" for k in range(sums)]
    steps = [
        f" %b{k} = call {vt} @llvm.fma.{suffix}({vt} %a{k}, {vt} %start, {vt} %start)"
        if target.fma
        else f" %p{k} = fmul {vt} %a{k}, %start\n %b{k} = fadd {vt} %p{k}, %start"
        for k in range(sums)
    ]
    stores = [f" store volatile {vt} %b{k}, ptr %out, align 64" for k in range(sums)]
    text = "\n".join([
        f'target triple = "{target.triple}"', f"declare {vt} @llvm.fma.{suffix}({vt}, {vt}, {vt})",
        "define void @run(ptr %out, i64 %n) nounwind {", "entry:",
        f" %start = load {vt}, ptr %out, align 64", " br label %loop", "loop:",
        " %i = phi i64 [ 0, %entry ], [ %j, %loop ]", *phis, *steps, " %j = add i64 %i, 1",
        " %more = icmp slt i64 %j, %n", " br i1 %more, label %loop, label %end", "end:", *stores,
        " ret void", "}",
    ])  # fmt: skip
    code = loader.load_image(loader.link(link.assemble(text, target)))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.symbols["run"])
    steps_each, best = 2_000_000, math.inf

    def one() -> None:
        room = np.zeros(256, np.uint8)
        run(room.ctypes.data + -room.ctypes.data % 64, steps_each)

    for _ in range(5):
        pool = [threading.Thread(target=one) for _ in range(threads)]
        start = time.perf_counter()
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return threads * steps_each * sums * lanes * 2 / best


def measured(options: argparse.Namespace, dtype: str, threads: int) -> tuple[Table, list[float]]:
    """The table of one type, and the ratios to the fastest other library."""
    table = Table(title=f"{dtype}, {threads} threads")
    ratios, limit = [], peak(dtype, threads)
    shapes = [(1, n, n, n) for n in options.sizes] + list(() if options.square else THIN)
    for batch, m, k, n in shapes:
        stack = (batch,) if batch > 1 else ()
        left, right = (data(*stack, *s, seed=j).astype(dtype)
                       for j, s in enumerate(((m, k), (k, n))))  # fmt: skip
        times = medians(calls(left, right), options.rounds)
        if not table.columns:
            for name in ("product", *times, "best", "GFLOP/s", "of peak"):
                table.add_column(name, justify="left" if name == "product" else "right")
        ours = times["pullback"]
        best = min(v for name, v in times.items() if name != "pullback") / ours
        rate = 2.0 * batch * m * k * n / ours
        ratios.append(best)
        name = f"{batch} of " * (batch > 1) + f"{m} x {k} x {n}"
        cells = [seconds_text(v) for v in times.values()]
        table.add_row(name, *cells, ratio_text(best), f"{rate / 1e9:.1f}", f"{rate / limit:.0%}")
    return table, ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = lambda text: tuple(map(int, text.split(",")))
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="of squares, between commas")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--threads", type=int, default=0, help="processors; all by default")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--square", action="store_true", help="no thin products")
    options = parser.parse_args()
    if options.threads and hasattr(os, "sched_setaffinity"):
        if "numpy" in sys.modules and options.threads != len(os.sched_getaffinity(0)):
            chosen = sorted(os.sched_getaffinity(0))[: options.threads]
            os.sched_setaffinity(0, chosen)  # libraries count them when they start
            name = str(options.threads)
            again = {**os.environ, "OPENBLAS_NUM_THREADS": name, "OMP_NUM_THREADS": name}
            os.execve(sys.executable, [sys.executable, "-m", "benchmarks.products", *sys.argv[1:]],
                      again)  # fmt: skip
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    console, every = Console(), []
    for dtype in options.dtypes.split(","):
        table, ratios = measured(options, dtype, threads or 1)
        console.print(table)
        every += ratios
    lost = sum(r < 0.95 for r in every)
    console.print(f"{len(every) - lost} of {len(every)} at 0.95 of the best library or more; "
                  f"the least {min(every):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
