"""What a call gives does not depend on the calls before it: some families of calls, in processes
that have called nothing before; `make history` runs all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import history_cases

RUN = Path(__file__).with_name("history_run.py")


def test_answers_do_not_depend_on_what_was_called_before(fuzz_seed: int) -> None:
    """Values to the bit, types, where they lie, errors and warnings: before and after functions are
    native, in any order, natively and in Python."""
    command = [sys.executable, "-W", "ignore", str(RUN), "--families", "8", "--size", "8"]
    command += ["--seed", str(fuzz_seed), "--rounds", "1", "--only", "elementwise,creation,more"]
    paths = [str(Path(history_cases.__file__).parent), *sys.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_a_history_is_found() -> None:
    """The comparison itself: a call whose answer is another one each time is told of."""
    calls = [((), "jnp.add(2, counted())"), ((), "jnp.sin(f4(3))")]
    found = history_run_found(calls)
    assert found == [0]


def history_run_found(calls: list[history_cases.Call]) -> list[int]:
    import history_run

    names = history_cases.environment()
    count = iter(range(100))
    names["counted"] = lambda: next(count)
    found = history_run.Found(calls)
    steps = [(0, 2, False), (1, 2, False), (0, 1, False)]
    assert not found.add("native", steps, history_run.run({"calls": calls, "steps": steps}, names))
    return list(found.different())


def test_families_are_determined_by_their_seed() -> None:
    names = history_cases.environment()
    template = history_cases.templates()[0]
    made = [history_cases.family(template, seed, 6, names) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert len({text for _, text in made[0]}) > 3
