"""The first operation of a process finds every feature as later ones do: what a process has met
before (a type that lies on a mesh, a program that names a sharding) changes no result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pullback as pb

PROGRAM = str(Path(__file__).parent / "data" / "first_door.py")


def test_the_first_operation_is_as_later_ones() -> None:
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    here = str(Path(pb.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join([here, env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, PROGRAM], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
