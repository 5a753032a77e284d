"""The same bits with any number of threads, and jitted as eager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("determinism_program.py")


def bits(threads: int) -> dict[str, list[str]]:
    """What a process with that many threads computes."""
    env = {**os.environ, "PULLBACK_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def serial() -> dict[str, list[str]]:
    return bits(1)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_bits(threads: int, serial: dict[str, list[str]]) -> None:
    found = bits(threads)
    assert not {name for name in serial if found[name] != serial[name]}


def test_jit_and_eager_agree(serial: dict[str, list[str]]) -> None:
    assert not {name for name, seen in serial.items() if len(set(seen)) > 1}
