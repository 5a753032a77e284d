"""What JAX's own tests ask of transformations and of private modules, asked of both: the scripts
`core_questions.py` and `sharding_questions.py` give the same answers on JAX and on Pullback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def _answers(script: str, *how: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    command = [sys.executable, *how, str(HERE / script)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", ["core_questions.py", "sharding_questions.py"])
def test_answers(script: str) -> None:
    expected, found = _answers(script), _answers(script, "-m", "pullback", "run")
    assert len(expected) == len(found)
    wrong = [(b, a) for a, b in zip(expected, found, strict=True) if a != b]
    assert not wrong, "\n".join(f"{b}\n  JAX: {a.partition(': ')[2]}" for b, a in wrong)
