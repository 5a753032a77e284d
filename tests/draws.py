"""Runs many numbered random programs in worker processes, keeps a journal, shows one alone.

What draws and compares the programs is a `Source`: fuzz_run.py has one, nestings_run.py another.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "build" / "fuzz"
# A draw hangs when its worker has computed, or has done nothing at all, for so many seconds. The
# machine may be busy with other work.
COMPUTED, IDLE = 300.0, 1200.0
# A worker is replaced after so many draws: neither JAX nor XLA gives back what it compiled.
LIFETIME = 400

Report = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Source:
    """What a script draws: a program for each seed and number, and what comes of it.

    Its functions import what they need when they are called: a run's own process needs no JAX.
    """

    script: str  # the file in tests/ that draws alone with `--only`
    draw: Callable[[int, int], Any]
    report: Callable[[int, int], Report]
    pattern: str  # of the files in tests/ that decide what is drawn
    draws: int = 20000

    @property
    def name(self) -> str:
        return self.script.removesuffix("_run.py")

    def again(self, seed: int, number: int) -> str:
        return f"python tests/{self.script} --seed {seed} --only {number}"

    def generator(self) -> str:
        """A name for what draws programs: another generator makes others of the same seed."""
        compare = ("fuzz_run", "fuzz_compare", "fuzz_rounding", "fuzz_heap")
        sources = sorted(p for p in HERE.glob(self.pattern) if p.stem not in compare)
        return hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:8]


class Worker:
    """A process that checks one draw after another; started when first asked."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source, self.seed = source, seed
        self.process: subprocess.Popen[str] | None = None
        self.answers: queue.Queue[str] = queue.Queue()
        self.done = 0

    def check(self, number: int) -> Report:
        if self.process is None or self.done >= LIFETIME:
            self.close()
            self._start()
        self.done += 1
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            line = self._answer()
        except queue.Empty:
            return self._lost(number, f"has not answered in {COMPUTED:.0f} s of work")
        except BrokenPipeError:
            line = ""
        if not line:
            return self._lost(number, _death(self.process.wait()))
        report: Report = json.loads(line)
        if report["end"] == "heap":
            self.close()  # what it computes from now on tells nothing
        return report

    def _answer(self) -> str:
        """The next line of the worker; queue.Empty if it hangs."""
        assert self.process is not None
        start, before = time.monotonic(), _computed(self.process.pid)
        while True:
            try:
                return self.answers.get(timeout=5.0)
            except queue.Empty:
                waited, worked = time.monotonic() - start, _computed(self.process.pid) - before
                if waited > IDLE or worked > COMPUTED:
                    raise

    def _start(self) -> None:
        script = str(HERE / self.source.script)
        command = [sys.executable, script, "--seed", str(self.seed), "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answers, self.done = queue.Queue(), 0
        assert self.process.stdout is not None
        reader = threading.Thread(target=_read, args=(self.process.stdout, self.answers))
        reader.daemon = True
        reader.start()

    def _lost(self, number: int, how: str) -> Report:
        self.close()
        where = self.source.again(self.seed, number)
        text = f"draw {number} (seed {self.seed}): the worker {how}\n    {where}"
        return {"draw": number, "cell": "?", "stack": [], "end": "lost", "differs": text}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _read(lines: IO[str], answers: queue.Queue[str]) -> None:
    """Hands a worker's answers on; an empty one says that it ended."""
    for line in lines:
        if line.startswith("{"):
            answers.put(line)
    answers.put("")


def _computed(pid: int) -> float:
    """Seconds of processor time that a process has used; of any time, where nothing tells."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _death(code: int) -> str:
    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class Run:
    """The draws of one seed: which are done, which are taken, what came of them."""

    def __init__(self, source: Source, seed: int, draws: int, fresh: bool) -> None:
        folder = FOLDER / source.name
        folder.mkdir(parents=True, exist_ok=True)
        self.source, self.seed, self.draws = source, seed, draws
        self.journal = folder / f"seed-{seed}-{source.generator()}.jsonl"
        self.failures = folder / f"seed-{seed}-failures.txt"
        if fresh:
            self.journal.unlink(missing_ok=True)
        self.reports = self._earlier()
        self.failures.write_text("")
        self.lock = threading.Lock()
        self.left = collections.deque(n for n in range(draws) if n not in self.reports)
        self.todo = len(self.left)
        self.start = time.monotonic()

    def _earlier(self) -> dict[int, Report]:
        """The draws of an earlier run that did not differ; the others are run again."""
        if not self.journal.exists():
            return {}
        lines = self.journal.read_text().splitlines()
        known = [json.loads(line) for line in lines if line.endswith("}")]
        return {r["draw"]: r for r in known if not r["differs"] and r["draw"] < self.draws}

    def take(self) -> int | None:
        with self.lock:
            return self.left.popleft() if self.left else None

    def add(self, report: Report) -> None:
        with self.lock:
            self.reports[report["draw"]] = report
            with self.journal.open("a") as journal:
                journal.write(json.dumps(report) + "\n")
            if report["differs"]:
                with self.failures.open("a") as failures:
                    failures.write(report["differs"] + "\n")
                print(f"\n{report['differs']}", flush=True)

    def work(self) -> None:
        worker = Worker(self.source, self.seed)
        try:
            while (number := self.take()) is not None:
                self.add(worker.check(number))
        finally:
            worker.close()

    def differing(self) -> list[Report]:
        return [r for r in self.reports.values() if r["differs"]]

    def progress(self) -> str:
        done = self.todo - len(self.left)
        rate = done / max(time.monotonic() - self.start, 1e-9)
        return (
            f"seed {self.seed}: {len(self.reports)} of {self.draws} draws, "
            f"{len(self.differing())} differ, {rate:.1f} a second, "
            f"{len(self.left) / max(rate, 1e-9) / 60:.0f} min left"
        )

    def summary(self) -> str:
        ends = collections.Counter(r["end"] for r in self.reports.values())
        cells = collections.Counter(r["cell"] for r in self.reports.values())
        forms = collections.Counter(f for r in self.reports.values() for f in r["stack"])
        rows = (("ended", ends), ("cells", cells), ("transformations", forms))
        table = [
            f"  {name}: " + ", ".join(f"{k} {n}" for k, n in c.most_common()) for name, c in rows
        ]
        return "\n".join([self.progress(), *table])


def run_all(source: Source, seed: int, draws: int, jobs: int, fresh: bool) -> int:
    """Runs the draws; the number of those that differ."""
    run = Run(source, seed, draws, fresh)
    if run.reports:
        print(f"going on: {len(run.reports)} draws were equal before ({run.journal})")
    threads = [threading.Thread(target=run.work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    quiet = not sys.stdout.isatty()
    while any(t.is_alive() for t in threads):
        time.sleep(30.0 if quiet and run.left else 1.0)
        print(run.progress(), end="\n" if quiet else "\r", flush=True)
    print(f"\n{run.summary()}")
    if run.differing():
        print(f"what differs: {run.failures}")
    return len(run.differing())


def work(source: Source, seed: int) -> None:
    """A worker: numbers of draws come in, reports go out."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    import fuzz_heap

    for line in sys.stdin:
        report = source.report(seed, int(line))
        if fault := fuzz_heap.fault():
            again = source.again(seed, int(line))
            text = f"draw {line.strip()} (seed {seed}): {fault}\n    {again}"
            report |= {"end": "heap", "differs": text}
        answers.write(json.dumps(report) + "\n")
        answers.flush()


def show(source: Source, seed: int, number: int) -> int:
    """One draw: what it is, both programs, and what differs."""
    import fuzz_compare

    program = source.draw(seed, number)
    print(f"draw {number} (seed {seed}): {program.text}")
    for name, ns in zip(("real JAX", "Pullback"), fuzz_compare.namespaces(), strict=True):
        print(f"--- {name}")
        try:
            args = ns.jax.tree_util.tree_map(ns.numpy.asarray, program.args)
            print(ns.jax.make_jaxpr(program.build(ns))(*args))
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:2000]}")
    found = source.report(seed, number)
    print(found["differs"] or f"no difference: {found['end']}")
    return int(found["differs"] is not None)


def main(description: str, source: Source) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=source.draws)
    parser.add_argument("--only", type=int, help="one draw alone, shown in full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has done")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
    import oracle_flags

    assert oracle_flags.FLAGS
    if args.worker:
        work(source, args.seed)
        return 0
    kernels = tempfile.mkdtemp(prefix=f"pullback-{source.name}-")
    os.environ.setdefault("PULLBACK_CACHE_DIR", kernels)
    try:
        if args.only is not None:
            return show(source, args.seed, args.only)
        return int(run_all(source, args.seed, args.draws, args.jobs, args.fresh) > 0)
    finally:
        shutil.rmtree(kernels, ignore_errors=True)
