"""`make demo`: runs the demonstrations on Pullback, NumPy and JAX if installed; tells the times."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .engine import ENGINES, installed, milliseconds
from .worker import PARTS

TITLES = {
    "photo": "(a) a photograph denoised and sharpened, 427 x 640 x 3",
    "digits": "(b) a convolutional network learns digits, per step of 64 images",
    "regression": "(c) a line fitted to 128 points, per step",
}


def run_one(part: str, engine: str, output: Path, bar: Progress) -> dict[str, Any] | str:
    """Runs a worker, moving a bar as it tells; gives its result, or what it wrote if it failed."""
    task = bar.add_task(f"{part:<10} {engine:<8}", total=1.0, note="starting")
    # Byte code is kept, as it is for installed packages: the import is timed.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "demo.worker", part, engine, str(output)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as worker:
        assert worker.stdout is not None and worker.stderr is not None
        result: dict[str, Any] | None = None
        for line in worker.stdout:
            kind, _, rest = line.partition(" ")
            if kind == "PROGRESS":
                fraction, _, note = rest.strip().partition(" ")
                bar.update(task, completed=float(fraction), note=note)
            elif kind == "RESULT":
                result = json.loads(rest)
        errors = worker.stderr.read()
    bar.update(task, completed=1.0, note="done" if result else "[red]failed")
    return result if result is not None else errors


def show(part: str, results: dict[str, dict[str, Any] | str], console: Console) -> bool:
    """Prints one demonstration's table; true if every engine did what it should."""
    table = Table(title=TITLES[part], title_justify="left", title_style="bold")
    for heading in ("engine", "import", "first result", "then each", "outcome"):
        table.add_column(heading, overflow="fold")
    good = True
    for engine, result in results.items():
        if isinstance(result, str):
            lines = result.strip().splitlines() or ["it gave no result"]
            table.add_row(engine, "", "", "", f"[red]{lines[-1]}")
            good = False
            continue
        imported = milliseconds(result["import"]) if result["import"] is not None else ""
        times = (milliseconds(result["first"]), milliseconds(result["step"]))
        table.add_row(engine, imported, *times, result["note"])
        good = good and result["good"]
    console.print(table)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), help="one demonstration")
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help="which of " + ", ".join(ENGINES)
    )
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    engines = [e for e in options.engines.split(",") if e == "numpy" or installed(e)]
    parts = [options.only] if options.only else list(PARTS)
    console, start = Console(), time.monotonic()
    results: dict[str, dict[str, dict[str, Any] | str]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[note]}"))  # fmt: skip
    with Progress(*columns, console=console) as bar:
        for part in parts:
            results[part] = {e: run_one(part, e, options.output, bar) for e in engines}
    good = [show(part, results[part], console) for part in parts]
    for part in parts:
        for engine, result in results[part].items():
            if isinstance(result, str):
                console.print(f"{part} on {engine}:\n{result}", markup=False, highlight=False)
    (options.output / "times.json").write_text(json.dumps(results, indent=1))
    console.print(
        f"Pictures and times are in {options.output}/ ({time.monotonic() - start:.0f} s). "
        "'First result' is the first call: tracing, compiling and running."
    )
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
