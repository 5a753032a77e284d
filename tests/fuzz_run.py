"""`make fuzz`: many random programs on real JAX and on Pullback, in worker processes.

    python tests/fuzz_run.py --draws 20000 --seed 0 --jobs 2
    python tests/fuzz_run.py --seed 0 --only 293            one draw, with its programs printed

A run that was stopped goes on where it was (`--fresh` begins again): the journal in build/fuzz
holds a line for each draw. What differs is written, as it is found, to
build/fuzz/seed-S-failures.txt. A draw that kills or hangs its worker is a difference too.
"""

from __future__ import annotations

import argparse
import collections
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
from typing import IO, Any

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "build" / "fuzz"
# A draw hangs when its worker has computed, or has done nothing at all, for so many seconds. The
# machine may be busy with other work.
COMPUTED, IDLE = 300.0, 1200.0
# A worker is replaced after so many draws: neither JAX nor XLA gives back what it compiled.
LIFETIME = 400

Report = dict[str, Any]


class Worker:
    """A process that checks one draw after another; started when first asked."""

    def __init__(self, seed: int, script: str = "fuzz_run.py") -> None:
        self.seed, self.script = seed, script
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
        command = [sys.executable, str(HERE / self.script), "--seed", str(self.seed), "--worker"]
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
        where = again(self.seed, number, self.script)
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


def again(seed: int, number: int, script: str = "fuzz_run.py") -> str:
    return f"python tests/{script} --seed {seed} --only {number}"


def generator() -> str:
    """A name for what draws programs: another generator makes others of the same seed."""
    sources = sorted(
        p
        for p in HERE.glob("fuzz_*.py")
        if p.stem not in ("fuzz_run", "fuzz_compare", "fuzz_rounding", "fuzz_heap")
    )
    return hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:8]


class Run:
    """The draws of one seed: which are done, which are taken, what came of them."""

    def __init__(self, seed: int, draws: int, fresh: bool) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.seed, self.draws = seed, draws
        self.journal = FOLDER / f"seed-{seed}-{generator()}.jsonl"
        self.failures = FOLDER / f"seed-{seed}-failures.txt"
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
        worker = Worker(self.seed)
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


def run_all(seed: int, draws: int, jobs: int, fresh: bool) -> int:
    """Runs the draws; the number of those that differ."""
    run = Run(seed, draws, fresh)
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


def work(seed: int) -> None:
    """A worker: numbers of draws come in, reports go out."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    import fuzz_compare
    import fuzz_heap

    for line in sys.stdin:
        report = fuzz_compare.report(seed, int(line))
        if fault := fuzz_heap.fault():
            text = f"draw {line.strip()} (seed {seed}): {fault}\n    {again(seed, int(line))}"
            report |= {"end": "heap", "differs": text}
        answers.write(json.dumps(report) + "\n")
        answers.flush()


def show(seed: int, number: int) -> int:
    """One draw: what it is, both programs, and what differs."""
    import fuzz_compare

    program = fuzz_compare.draw(seed, number)
    print(f"draw {number} (seed {seed}): {program.text}")
    for name, ns in zip(("real JAX", "Pullback"), fuzz_compare.namespaces(), strict=True):
        print(f"--- {name}")
        try:
            args = ns.jax.tree_util.tree_map(ns.numpy.asarray, program.args)
            print(ns.jax.make_jaxpr(program.build(ns))(*args))
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:2000]}")
    found = fuzz_compare.check(seed, number)
    print(found or "no difference")
    return int(found is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", "--fuzz-seed", type=int, default=0)
    parser.add_argument("--draws", "--fuzz-draws", type=int, default=20000)
    parser.add_argument("--only", "--fuzz-only", type=int, help="one draw alone, shown in full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has done")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
    import oracle_flags

    assert oracle_flags.FLAGS
    if args.worker:
        work(args.seed)
        return 0
    kernels = tempfile.mkdtemp(prefix="pullback-fuzz-")
    os.environ.setdefault("PULLBACK_CACHE_DIR", kernels)
    try:
        if args.only is not None:
            return show(args.seed, args.only)
        return int(run_all(args.seed, args.draws, args.jobs, args.fresh) > 0)
    finally:
        shutil.rmtree(kernels, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
