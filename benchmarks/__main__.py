"""`make bench`: every workload on every engine, each in fresh processes in turn.

    python -m benchmarks --only loops,sorting --quick
    python -m benchmarks --engines pullback,jax --rounds 5

`--only` takes families or parts of names, `--rounds` how many processes of each engine. Kernel
caches are empty at the start of every process, but for ours that measures a warm start. Ratios are
medians, with 95% intervals. Writes tables, `results.json` and `ratios.png` into
benchmarks/results/. Every engine's results are compared with JAX's.

    python -m benchmarks --quick --page docs/peers.md

`--newest` takes another interpreter that has a newer JAX (and NumPy, SciPy): one engine more, and
the summary compares with whichever JAX is the faster in each workload.

    python -m benchmarks --newest ~/jax-newest/bin/python --engines pullback,jax
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import limits, report
from .space import ENGINES, NEWEST, fresh_environment, installed
from .workloads import FAMILIES, REGISTRY

TIMEOUT = 180


def run_worker(name: str, engine: str, python: str, quick: bool, output: str) -> dict[str, Any]:
    """One workload on one engine, with empty caches; ours once more with those it has filled, and
    once with what the import alone has put there."""
    module = "jax" if engine == NEWEST else engine
    request = {"name": name, "engine": module, "quick": quick, "output": output}
    with tempfile.TemporaryDirectory(prefix="pullback-bench-") as cache:
        answer = ask(request, cache, python)
        if engine == "pullback" and "first" in answer:
            again = ask({**request, "only_first": True}, cache, python)
            if "first" in again:
                answer["warm"] = again["first"]
    if "warm" in answer:
        with tempfile.TemporaryDirectory(prefix="pullback-bench-") as cache:
            ask({**request, "only_import": True}, cache, python)
            new = ask({**request, "only_first": True}, cache, python)
            if "first" in new:
                answer["new"] = new["first"]
    return answer


def ask(request: dict[str, Any], cache: str, python: str) -> dict[str, Any]:
    """What a worker answers; its error if it fails."""
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.worker", json.dumps(request)],
            capture_output=True, text=True, env=fresh_environment(cache), timeout=TIMEOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {TIMEOUT} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"error": f"exit {done.returncode}: {last[:300]}"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def differ(ours: str, theirs: str, tolerance: float) -> str | None:
    """How two kept results differ, relative to the largest value; None if they agree."""
    if not (os.path.exists(ours) and os.path.exists(theirs)):
        return None
    with np.load(ours) as a, np.load(theirs) as b:
        if len(a.files) != len(b.files):
            return f"{len(a.files)} arrays and {len(b.files)}"
        for name in a.files:
            x, y = a[name], b[name]
            if x.shape != y.shape:
                return f"{name}: {x.shape} and {y.shape}"
            if not x.size:
                continue
            if not np.array_equal(np.isfinite(x), np.isfinite(y)):
                return f"{name}: not finite in different places"
            error = np.abs(np.where(np.isfinite(x), x - y, 0)).max()
            scale = max(np.abs(y[np.isfinite(y)]).max(initial=0), 1e-6)
            if error > tolerance * scale:
                return f"{name}: off by {error / scale:.2g} of the largest value"
    return None


def chosen(only: str | None) -> dict[str, list[str]]:
    """The workloads asked for, by family."""
    parts = [p.strip() for p in only.split(",")] if only else [""]
    picked: dict[str, list[str]] = {}
    for name, work in REGISTRY.items():
        if any(p == work.family or (p not in FAMILIES and p in name) for p in parts):
            picked.setdefault(work.family, []).append(name)
    return {family: picked[family] for family in FAMILIES if family in picked}


def joined(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Several processes' answers as one: the median of every number, all blocks of calls by
    process; an error if there was one."""
    wrong = next((a for a in answers if "error" in a), None)
    if wrong is not None:
        return wrong
    numbers = {k for a in answers for k, v in a.items() if isinstance(v, float | int)}
    out: dict[str, Any] = {
        key: statistics.median(a[key] for a in answers if key in a) for key in sorted(numbers)
    }
    out["blocks"] = [a["blocks"] for a in answers]
    return out


def measure_all(
    families: dict[str, list[str]],
    engines: dict[str, str],
    quick: bool,
    rounds: int,
    console: Console,
) -> report.Results:
    """Every workload on every engine, each by the interpreter that has it."""
    names = [n for group in families.values() for n in group]
    results: report.Results = {n: {} for n in names}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console) as bar, tempfile.TemporaryDirectory() as kept:
        task = bar.add_task("", total=len(names) * len(engines) * rounds)
        for name in names:
            answers: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
            for engine in list(engines) * rounds:
                bar.update(task, description=f"{engine:<11}{name[:40]:<40}")
                output = os.path.join(kept, f"{engine}.npz")
                if os.path.exists(output):
                    os.remove(output)
                answer = run_worker(name, engine, engines[engine], quick, output)
                if not answer.get("absent"):
                    answers[engine].append(answer)
                bar.advance(task)
            results[name] = {engine: joined(found) for engine, found in answers.items() if found}
            for engine, figures in results[name].items():
                tolerance = REGISTRY[name].tolerance
                difference = differ(f"{kept}/{engine}.npz", f"{kept}/jax.npz", tolerance)
                if difference:
                    figures["differs"] = difference
    return results


def processor() -> str:
    """The processor's name where the system tells it, and its widest vectors."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    facts = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    widest = [f for f in ("avx2", "avx512f", "amx_tile") if f in flags]
    return " ".join([facts.get("model name", platform.processor()), *widest[-2:]])


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "processor": processor(),
        "system": platform.system(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", help="families or parts of names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--rounds", type=int, help="processes of each engine; 3, or 1 if --quick")
    parser.add_argument("--engines", help="of " + ", ".join(ENGINES) + "; those installed")
    parser.add_argument("--newest", help="another Python interpreter, with a newer JAX")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--page", type=Path, help="a page of the documentation to be renewed")
    parser.add_argument("--list", action="store_true", help="names only")
    options = parser.parse_args()
    console = Console(width=max(Console().width, 150) if not sys.stdout.isatty() else None)
    families = chosen(options.only)
    if not families:
        parser.error(f"nothing is called {options.only!r}; --list shows the names")
    if options.list:
        for family, names in families.items():
            console.print(f"{family}: " + "; ".join(names), markup=False)
        return 0
    if options.newest and not shutil.which(options.newest):
        parser.error(f"--newest {options.newest}: no such program")
    wanted = options.engines.split(",") if options.engines else list(ENGINES)
    engines = {e: sys.executable for e in wanted if installed(e)}
    if options.newest:
        engines[NEWEST] = options.newest
    start = time.monotonic()
    rounds = max(1, options.rounds or (1 if options.quick else 3))
    bounds = limits.measure()
    results = measure_all(families, engines, options.quick, rounds, console)
    console.print(report.steady_table(results, families, list(engines), bounds))
    if "pullback" in engines:
        console.print(report.first_table(results, families))
    console.print(report.summary(results, families))
    failures = 0
    for name, figures in results.items():
        for engine, mine in figures.items():
            for kind in ("error", "differs"):
                if kind in mine:
                    failures += engine == "pullback"
                    console.print(f"{name} on {engine} {kind}: {mine[kind]}", markup=False)
    imports = {e: [f[e]["import"] for f in results.values() if f.get(e, {}).get("import")]
               for e in engines}  # fmt: skip
    for engine, times in imports.items():
        if times:
            console.print(f"import {engine}: {report.seconds_text(float(np.median(times)))}")
    options.output.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "limits": dataclasses.asdict(bounds), "rounds": rounds,
                "quick": options.quick, "results": results}  # fmt: skip
    (options.output / "results.json").write_text(json.dumps(document, indent=1))
    report.plot(results, families, options.output / "ratios.png")
    if options.page:
        text = report.page(results, families, list(engines), bounds, document["machine"])
        report.replace_measured(options.page, text)
    console.print(f"{options.output}/results.json and ratios.png, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
