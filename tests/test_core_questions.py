"""What JAX's own tests ask of transformations and of private modules, asked of both: the script
`core_questions.py` gives the same answers on JAX and on Pullback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _answers(*how: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    command = [sys.executable, *how, str(HERE / "core_questions.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return done.stdout.splitlines()


def test_answers() -> None:
    expected, found = _answers(), _answers("-m", "pullback", "run")
    assert len(expected) == len(found)
    wrong = [(b, a) for a, b in zip(expected, found, strict=True) if a != b]
    assert not wrong, "\n".join(f"{b}\n  JAX: {a.partition(': ')[2]}" for b, a in wrong)
