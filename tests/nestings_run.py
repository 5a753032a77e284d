"""Random nestings of control flow (nestings.py) on real JAX and on Pullback, in a worker process.

python tests/nestings_run.py --draws 1000 --seed 1
python tests/nestings_run.py --seed 1 --only 293        one draw, with its programs printed
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
DEEPEST = 4


def report(seed: int, number: int, deepest: int = DEEPEST) -> dict[str, Any]:
    """One draw as plain data, as fuzz_compare.report. Where JAX refuses the reverse mode of a loop
    of unknown length, the same loop of known length is the oracle.
    """
    import dataclasses

    import fuzz_compare
    import nestings
    import numpy as np

    program = nestings.draw(np.random.default_rng([seed, number]), deepest)
    theirs, ours = fuzz_compare.namespaces()
    end, text = fuzz_compare.verdict(theirs, ours, program)
    if end == "only ours works" and not text:
        known = dataclasses.replace(program, build=program.bounded)
        expected = fuzz_compare.outcome(theirs, known, True)
        found = fuzz_compare.outcome(ours, program, program.mode == "jit")
        if expected[0] == "ok":
            end, text = "equal to a scan", fuzz_compare.difference(expected, found)
            if text and not fuzz_compare.difference(
                expected, found, fuzz_compare.under_noise(theirs, known)
            ):
                text = None
    if text:
        again = f"python tests/nestings_run.py --seed {seed} --only {number}"
        text = f"draw {number} (seed {seed}): {program.text}\n    {text}\n    {again}"
    return {"draw": number, "cell": program.kind, "stack": program.stack, "end": end} | {
        "differs": text
    }


def work(seed: int) -> None:
    """A worker: numbers of draws come in, reports go out."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    for line in sys.stdin:
        answers.write(json.dumps(report(seed, int(line))) + "\n")
        answers.flush()


def run_all(seed: int, numbers: range) -> int:
    """Runs the draws; the number of those that differ."""
    from fuzz_run import Worker

    worker = Worker(seed, pathlib.Path(__file__).name)
    ends: collections.Counter[str] = collections.Counter()
    start, differing = time.monotonic(), 0
    try:
        for number in numbers:
            found = worker.check(number)
            ends[found["end"]] += 1
            if found["differs"]:
                differing += 1
                print(found["differs"], flush=True)
    finally:
        worker.close()
    took = time.monotonic() - start
    print(f"seed {seed}: {sum(ends.values())} draws, {differing} differ, {took:.0f} s; {ends}")
    return differing


def show(seed: int, number: int) -> int:
    """One draw: what it is, both programs, and what differs."""
    import fuzz_compare
    import nestings
    import numpy as np

    program = nestings.draw(np.random.default_rng([seed, number]), DEEPEST)
    print(f"draw {number} (seed {seed}): {program.text}")
    for name, ns in zip(("real JAX", "Pullback"), fuzz_compare.namespaces(), strict=True):
        print(f"--- {name}")
        try:
            args = ns.jax.tree_util.tree_map(ns.numpy.asarray, program.args)
            print(ns.jax.make_jaxpr(program.build(ns))(*args))
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:2000]}")
    found = report(seed, number)
    print(found["differs"] or f"no difference: {found['end']}")
    return int(found["differs"] is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--only", type=int, help="one draw alone, shown in full")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
    import oracle_flags

    assert oracle_flags.FLAGS
    if args.worker:
        work(args.seed)
        return 0
    kernels = tempfile.mkdtemp(prefix="pullback-nestings-")
    os.environ.setdefault("PULLBACK_CACHE_DIR", kernels)
    try:
        if args.only is not None:
            return show(args.seed, args.only)
        return int(run_all(args.seed, range(args.first, args.first + args.draws)) > 0)
    finally:
        shutil.rmtree(kernels, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
