"""Measures one workload on one engine, in a fresh process: `python -m benchmarks.worker JSON`.

The request has `name`, `engine`, `quick`, `output` (a path for the results, so that engines can
be compared), `only_first` (nothing but the first call) and `only_import`. Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import space as spaces
from .workloads import REGISTRY, Case

BLOCK_SECONDS, BLOCKS, BUDGET = 0.02, 15, 2.0
QUICK = (0.004, 5, 0.4)
WARM = 0.3  # seconds of calls before what is called steady: better code may be on its way
LARGEST_KEPT = 200_000
CALLS = 10  # the first ones, which are timed together


def clock(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def first_call(space: spaces.Space, case: Case) -> tuple[Callable[..., Any], dict[str, float]]:
    """Compiles and calls once; gives what to time, the seconds of every stage, and the bytes and
    operations that our own engine counts."""
    if case.eager or space.jax is None:
        _, seconds = clock(lambda: spaces.wait(case.function(*case.arguments)))
        return case.function, {"first": seconds}
    jitted = space.jit(case.function)
    traced, trace = clock(lambda: jitted.trace(*case.arguments))
    lowered, lower = clock(traced.lower)
    compiled, compile_ = clock(lowered.compile)
    _, run = clock(lambda: spaces.wait(compiled(*case.arguments)))
    stages = {"trace": trace, "lower": lower, "compile": compile_, "run": run}
    counted = {}
    if space.name == "pullback":
        costs = compiled.cost_analysis()
        counted = {"flops": costs["flops"], "bytes": costs["bytes accessed"]}
    return jitted, {"first": sum(stages.values()), **stages, **counted}


def steady(function: Callable[..., Any], case: Case, quick: bool) -> list[float]:
    """Seconds a call in each of several blocks of calls."""
    block_seconds, blocks, budget = QUICK if quick else (BLOCK_SECONDS, BLOCKS, BUDGET)
    arguments, wait = case.arguments, spaces.wait if case.wait_each else (lambda result: result)

    def block(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            result = wait(function(*arguments))
        seconds = time.perf_counter() - start
        spaces.wait(result)
        return seconds / count

    per_call = min(block(1), block(1))
    count = max(1, int(block_seconds / max(per_call, 1e-8)))
    if count > 1:
        count = max(1, int(block_seconds / max(block(min(count, 1000)), 1e-8)))
    end = time.perf_counter() + WARM
    while time.perf_counter() < end:
        block(count)
    times, end = [], time.perf_counter() + budget
    while len(times) < blocks and (len(times) < 3 or time.perf_counter() < end):
        times.append(block(count))
    return times


def keep(result: Any, path: str) -> None:
    """Writes a result for comparison; of large arrays, every n-th element."""
    arrays = []
    for array in spaces.numbers(result):
        flat = array.ravel()
        arrays.append(flat[:: max(1, flat.size // LARGEST_KEPT)])
    np.savez(path, *arrays)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    work = REGISTRY[request["name"]]
    space = spaces.load(request["engine"], work.x64)
    if request.get("only_import"):
        return {"import": space.import_seconds}
    try:
        case = work.case(space)
    except LookupError:
        return {"absent": True}
    function, stages = first_call(space, case)
    if request.get("only_first"):
        return stages
    _, more = clock(lambda: [spaces.wait(function(*case.arguments)) for _ in range(CALLS - 1)])
    blocks = steady(function, case, request["quick"])
    if request.get("output"):
        keep(function(*case.arguments), request["output"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"steady": statistics.median(blocks), "blocks": blocks, "ten": stages["first"] + more,
            "import": space.import_seconds, "peak_bytes": peak, **stages}  # fmt: skip


def main() -> None:
    request = json.loads(sys.argv[1])
    try:
        answer = measure(request)
    except Exception as error:  # the parent shows it beside the other engines' figures
        answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
