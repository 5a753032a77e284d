"""The figures that the foundation promises, each beside JAX's: `python -m benchmarks.must_show`.

    python -m benchmarks.must_show --only first,memory
    python -m benchmarks.must_show --child lengths pullback      (one figure, as JSON)

Every figure is measured in a fresh process with empty kernel caches; a first call, which a process
makes once, in seven of each engine in turn, of which the medians are told. A promise that is not
kept is shown as such, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from . import space as spaces
from .report import seconds_text
from .workloads import models, pairwise
from .workloads.registry import data

Figures = dict[str, float]
CHILD_TIMEOUT = 400


def best(function: Callable[[], Any], count: int, blocks: int = 9) -> float:
    """Median seconds a call, of blocks of `count` calls."""
    times = []
    for _ in range(blocks):
        start = time.perf_counter()
        for _ in range(count):
            function()
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)


def staged(space: spaces.Space, function: Any, *arguments: Any) -> Figures:
    """The stages of a first call, apart."""
    clock = time.perf_counter
    times = [clock()]
    traced = space.jax.jit(function).trace(*arguments)
    times.append(clock())
    lowered = traced.lower()
    times.append(clock())
    compiled = lowered.compile()
    times.append(clock())
    spaces.wait(compiled(*arguments))
    times.append(clock())
    stages = dict(zip(("trace", "lower", "compile", "run"), np.diff(times).tolist()))
    explain = getattr(space.jax, "explain_compile", None)
    if explain is not None:  # Pullback lowers when it compiles, and tells the two apart itself
        program = explain().programs[-1]
        stages["compile"] -= program.lower_seconds
        stages["lower"] += program.lower_seconds
    return {"all": times[-1] - times[0], **stages}


# --- What is measured, one function a figure; each runs in a process of its own -------------------


def dispatch(space: spaces.Space) -> Figures:
    """A jitted call and an eager sum on 8 floats, results released."""
    x, y = space.array(data(8)), space.array(data(8, seed=1))
    jitted = space.jit(lambda a, b: a + b)
    spaces.wait((jitted(x, y), x + y))
    figures = {"eager": best(lambda: x + y, 20_000)}
    figures["jitted"] = best(lambda: jitted(x, y), 20_000)
    a, b = np.asarray(data(8)), np.asarray(data(8, seed=1))
    figures["numpy"] = best(lambda: a + b, 20_000)
    empty = best(lambda: None, 20_000)
    return {name: seconds - empty for name, seconds in figures.items()}


def first(space: spaces.Space) -> Figures:
    """The first call of jit(grad(mlp)) with three layers."""
    params = models.mlp_parameters(space, 64, 128, 128, 10)
    x = space.array(data(32, 64))

    def loss(params: Any, x: Any) -> Any:
        return (models.mlp(space, params, x) ** 2).mean()

    return staged(space, space.jax.grad(loss), params, x)


def memory_kib(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise OSError(f"no {field} in /proc/self/status")


def peak_of(space: spaces.Space, case: Any) -> tuple[float, float]:
    """Bytes above inputs and outputs at the peak of a call, and the call's median seconds."""
    jitted = space.jit(case.function)
    compiled = jitted.lower(*case.arguments).compile()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest resident size so far
    before = memory_kib("VmRSS")
    result = spaces.wait(compiled(*case.arguments))
    above = (memory_kib("VmHWM") - before) * 1024
    output = sum(np.asarray(leaf).nbytes for leaf in result) if isinstance(result, tuple) else (
        np.asarray(result).nbytes)  # fmt: skip
    seconds = best(lambda: spaces.wait(jitted(*case.arguments)), 1, 7)
    return above - output, seconds


def softmax_case(space: spaces.Space, rows: int) -> Any:
    softmax = lambda x: (
        (e := space.jnp.exp(x - x.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)
    )
    return pairwise.Case(softmax, (space.array(data(rows, 1000)),))


def memory(space: spaces.Space, kind: str, count: int) -> Figures:
    """Peak memory above inputs and outputs, and the time, of n-body or softmax."""
    case = (pairwise.n_body if kind == "n-body" else softmax_case)(space, count)
    above, seconds = peak_of(space, case)
    return {f"{kind} {count}, extra bytes": above, f"{kind} {count}": seconds}


def repetitions(space: spaces.Space) -> Figures:
    """200 repetitions of x = sin(x) * 1.01 + x.mean(): compiling and running."""

    def body(x: Any) -> Any:
        for _ in range(200):
            x = space.jnp.sin(x) * 1.01 + x.mean()
        return x

    x = space.array(data(1000))
    figures = staged(space, body, x)
    jitted = space.jit(body)
    spaces.wait(jitted(x))
    figures["steady"] = best(lambda: spaces.wait(jitted(x)), 1)
    return figures


def bodies(space: spaces.Space) -> Figures:
    """Different bodies in a row: compile time must grow with their number, not faster. Those of
    "constants" differ in numbers only, those of "operations" are drawn at random."""
    spaces.wait(space.jit(space.jnp.negative)(space.array(data(1000))))  # the compiler is loaded
    figures: Figures = {}
    for count in (50, 100, 200):
        for kind, body in (("constants", of_constants), ("operations", of_operations)):
            program = partial(body, space.jnp, count)
            figures[f"{kind} {count}"] = staged(space, program, space.array(data(1000)))["all"]
    return figures


def of_constants(np: Any, count: int, x: Any) -> Any:
    for i in range(count):
        x = np.sin(x * (1 + 0.01 * i)) + x.mean() * (i % 7 - 3)
        if i % 3 == 0:
            x = np.where(x > 0.1 * i, x, -x)
    return x


def of_operations(np: Any, count: int, x: Any) -> Any:
    draw = random.Random(count)
    functions = np.sin, np.cos, np.tanh, np.exp, np.log1p, np.sqrt, np.abs, np.square
    for _ in range(count):
        c = draw.random()
        y = draw.choice(functions)(np.abs(x) * 0.3 + c)
        how = draw.randrange(3)
        x = y + x.mean() if how == 0 else np.where(x > c, y, x) if how == 1 else y - x.max() * c
    return x


def lengths(space: spaces.Space) -> Figures:
    """One function called with 100 lengths: 100 traces, one set of kernels."""
    jitted = space.jit(lambda x: (space.jnp.sin(x) - x.mean()).sum())
    inputs = [space.array(data(64 + n)) for n in range(100)]
    counters = [getattr(space.jax, n, None) for n in ("trace_count", "kernel_compile_count")]
    before = [c() if c else 0 for c in counters]
    start = time.perf_counter()
    for x in inputs:
        spaces.wait(jitted(x))
    figures = {"all": time.perf_counter() - start}
    if all(counters):
        after = [c() for c in counters if c]
        figures["traces"], figures["kernels"] = (b - a for a, b in zip(before, after))
    return figures


def imports(space: spaces.Space) -> Figures:
    """The import of the package and its numpy, NumPy's own included, in fresh interpreters."""
    program = (
        "import time; start = time.perf_counter();"
        f"import {space.name}, {space.name}.numpy; print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(7)]
    # The first run may have written byte code.
    return {"seconds": statistics.median(float(run.stdout) for run in runs[1:])}


def threads(space: spaces.Space) -> Figures:
    """A number that holds the bits of several reductions."""
    x = space.array(data(1_000_003))
    m = space.array(data(1001, 777))
    results = spaces.wait([
        space.jit(lambda x: x.sum())(x), space.jit(lambda x: (x * x).mean())(x),
        space.jit(lambda m: m.sum(0))(m), space.jit(lambda m: space.jnp.exp(m).sum(1))(m),
        space.jit(lambda m: m.std())(m), space.jit(lambda m: m @ m.T)(m),
    ])  # fmt: skip
    bits = b"".join(np.asarray(r).tobytes() for r in results)
    return {"bits": float(int.from_bytes(hashlib.sha256(bits).digest()[:6], "big"))}


CHILDREN: dict[str, Callable[[spaces.Space], Figures]] = {
    f.__name__: f
    for f in (dispatch, imports, first, repetitions, bodies, lengths, threads)
}  # fmt: skip

# One process for each size: memory that an earlier call has freed would hide what a later takes.
MEMORY = [f"memory of {kind} {count}" for kind in ("n-body", "softmax") for count in (1000, 2000)]
for _name in MEMORY:
    _kind, _count = _name.split()[2:]
    CHILDREN[_name] = partial(memory, kind=_kind, count=int(_count))
ROUNDS = {"first": 7}
FIGURES = ("dispatch", "imports", "first", "memory", "repetitions", "bodies", "lengths", "threads")


# --- What was promised ------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """One line of the table."""

    promise: str
    ours: str
    theirs: str
    kept: bool


def run_child(name: str, engine: str, extra: dict[str, str] | None = None) -> Figures | str:
    """A figure in a fresh process; a text says what went wrong."""
    with tempfile.TemporaryDirectory(prefix="pullback-show-") as cache:
        environment = spaces.fresh_environment(cache)
        command = [sys.executable, "-m", "benchmarks.must_show", "--child", name, engine]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT,
                                  env={**environment, **(extra or {})})  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"took more than {CHILD_TIMEOUT} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def run_children(name: str, engine: str) -> Figures | str:
    """A figure that may take several processes."""
    merged: Figures = {}
    for child in MEMORY if name == "memory" else [name]:
        figures = run_child(child, engine)
        if isinstance(figures, str):
            return figures
        merged.update(figures)
    return merged


def measured(name: str) -> tuple[Figures | str, Figures | str]:
    """A figure of both engines: of what a process can be asked only once, the medians of several
    processes, in turn with the other engine's, so that a slow second of the machine judges none.
    """
    runs = [
        (run_children(name, "pullback"), run_children(name, "jax"))
        for _ in range(ROUNDS.get(name, 1))
    ]
    ours, jax = zip(*runs, strict=True)
    return medians(ours), medians(jax)


def medians(runs: Sequence[Figures | str]) -> Figures | str:
    """The median of each figure; what went wrong, if something did."""
    failed = [run for run in runs if isinstance(run, str)]
    if failed:
        return failed[0]
    if len(runs) == 1:
        return runs[0]
    good = [run for run in runs if not isinstance(run, str)]
    return {key: statistics.median(run[key] for run in good) for key in good[0]}


def times(promise: str, ours: float, theirs: float, factor: float) -> Verdict:
    """A promise of being so many times faster."""
    text = f"{seconds_text(ours)} ({theirs / ours:.3g} times faster)"
    return Verdict(promise, text, seconds_text(theirs), theirs >= factor * ours)


def at_most(promise: str, ours: float, limit: float, theirs: float) -> Verdict:
    return Verdict(promise, seconds_text(ours), seconds_text(theirs), ours <= limit)


def judge_dispatch(ours: Figures, jax: Figures) -> list[Verdict]:
    numpy = ours["numpy"]
    return [
        at_most("jitted call, 8 floats: at most 0.5 us", ours["jitted"], 5e-7, jax["jitted"]),
        at_most(f"eager x + y, 8 floats: at most NumPy's ({seconds_text(numpy)})",
                ours["eager"], numpy, jax["eager"]),
    ]  # fmt: skip


def judge_imports(ours: Figures, jax: Figures) -> list[Verdict]:
    promise = "import: at most 0.2 s"
    return [at_most(promise, ours["seconds"], 0.2, jax["seconds"])]


def judge_first(ours: Figures, jax: Figures) -> list[Verdict]:
    verdicts = [times("first jit(grad(mlp)): a quarter of JAX's", ours["all"], jax["all"], 4)]
    for stage in ("trace", "lower", "compile", "run"):
        text = seconds_text(ours[stage]), seconds_text(jax[stage])
        verdicts.append(Verdict(f"  of it, {stage}", *text, True))
    return verdicts


def judge_memory(ours: Figures, jax: Figures) -> list[Verdict]:
    verdicts = [
        times("n-body, 1000: 20 times faster", ours["n-body 1000"], jax["n-body 1000"], 20),
        times(
            "softmax, 1000 x 1000: 1.5 times faster", ours["softmax 1000"], jax["softmax 1000"], 1.5
        ),
    ]
    for name in ("n-body", "softmax"):
        small, large = (ours[f"{name} {n}, extra bytes"] for n in (1000, 2000))
        theirs = [jax[f"{name} {n}, extra bytes"] for n in (1000, 2000)]
        verdicts.append(Verdict(
            f"{name}: peak above inputs and outputs at sizes 1000 and 2000: at most 4 MiB",
            f"{small / 2**20:.1f}, {large / 2**20:.1f} MiB",
            f"{theirs[0] / 2**20:.1f}, {theirs[1] / 2**20:.1f} MiB", max(small, large) <= 2**22,
        ))  # fmt: skip
    return verdicts


def judge_repetitions(ours: Figures, jax: Figures) -> list[Verdict]:
    return [
        at_most("200 repetitions, first call: under 2 s", ours["all"], 2.0, jax["all"]),
        times("  running: 20 times faster", ours["steady"], jax["steady"], 20),
    ]


def judge_bodies(ours: Figures, jax: Figures) -> list[Verdict]:
    """Time linear in the number: twice as many bodies take at most twice as long, and a quarter of
    that for noise."""
    verdicts = []
    for kind in ("constants", "operations"):
        times = [[f[f"{kind} {n}"] for n in (50, 100, 200)] for f in (ours, jax)]
        verdicts.append(Verdict(
            f"50, 100, 200 bodies, different in {kind}: linear in their number",
            *(", ".join(map(seconds_text, t)) for t in times),
            all(b <= 2.5 * a for a, b in itertools.pairwise(times[0])),
        ))  # fmt: skip
    return verdicts


def judge_lengths(ours: Figures, jax: Figures) -> list[Verdict]:
    counts = f"{ours.get('traces', -1):.0f} traces, {ours.get('kernels', -1):.0f} compiled"
    one_set = ours.get("traces") == 100 and 1 <= ours.get("kernels", -1) <= 3
    return [
        times("100 lengths: a tenth of JAX's time", ours["all"], jax["all"], 10),
        Verdict("  100 traces and one set of kernels", counts, "", one_set),
    ]


JUDGES: dict[str, Callable[[Figures, Figures], list[Verdict]]] = {
    "dispatch": judge_dispatch, "imports": judge_imports, "first": judge_first,
    "memory": judge_memory, "repetitions": judge_repetitions, "bodies": judge_bodies,
    "lengths": judge_lengths,
}  # fmt: skip


def show_threads() -> list[Verdict]:
    """The same bits with 1, 2 and 7 threads."""
    counts = ("1", "2", "7")
    answers = [run_child("threads", "pullback", {"PULLBACK_NUM_THREADS": n}) for n in counts]
    failed = [a for a in answers if isinstance(a, str)]
    same = not failed and len({json.dumps(a) for a in answers}) == 1
    text = failed[0] if failed else "the same" if same else "they differ"
    return [Verdict("reductions' bits with 1, 2 and 7 threads: the same", text, "", same)]


def show(name: str) -> list[Verdict]:
    if name == "threads":
        return show_threads()
    ours, jax = measured(name)
    if isinstance(ours, str) or isinstance(jax, str):
        texts = [x if isinstance(x, str) else "" for x in (ours, jax)]
        return [Verdict(name, *texts, False)]
    return JUDGES[name](ours, jax)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.must_show",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", help="of " + ", ".join(FIGURES))
    parser.add_argument("--child", nargs=2, metavar=("FIGURE", "ENGINE"))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.child:
        figure, engine = options.child
        print(json.dumps(CHILDREN[figure](spaces.load(engine))))
        return 0
    console = Console(width=max(Console().width, 130) if not sys.stdout.isatty() else None)
    table = Table("promise", "Pullback", "JAX", "kept")
    verdicts: list[Verdict] = []
    for name in options.only.split(",") if options.only else FIGURES:
        with console.status(f"measuring {name}"):
            verdicts += show(name)
    for verdict in verdicts:
        mark = "[green]yes" if verdict.kept else "[red]NO"
        table.add_row(verdict.promise, verdict.ours, verdict.theirs, mark)
    console.print(table)
    options.output.mkdir(parents=True, exist_ok=True)
    lines = [vars(verdict) for verdict in verdicts]
    (options.output / "must_show.json").write_text(json.dumps(lines, indent=1))
    return 0 if all(verdict.kept for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
