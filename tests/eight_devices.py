"""Programs in fresh processes that have eight virtual devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pullback


def run(*arguments: str) -> None:
    """Python with these arguments (`-c`, a program), which must succeed."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    here = str(Path(pullback.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join([here, env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
