"""Programs of other libraries, unchanged, on Pullback: what they print is what they print on JAX
(recorded in tests/data/ecosystem.json).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
EXPECTED = json.loads((HERE / "data" / "ecosystem.json").read_text())
NEEDS = {
    "equinox": ["equinox", "optax"],
    "nnx": ["flax", "optax"],
    "numpyro": ["numpyro"],
    "diffrax": ["diffrax", "equinox"],
    "quax": ["quax", "equinox"],
    "lineax": ["lineax"],
    "others": ["optimistix", "jaxopt", "chex", "einops", "haiku"],
}


def flat(value: Any) -> list[float]:
    if isinstance(value, list):
        return [x for part in value for x in flat(part)]
    return [float(value)]


SLOW = {"nnx", "numpyro", "diffrax"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NEEDS]
)
def test_program(name: str) -> None:
    missing = [m for m in NEEDS[name] if importlib.util.find_spec(m) is None]
    if missing:
        pytest.skip(f"not installed: {missing}")
    path = os.pathsep.join(p for p in (str(HERE.parent / "src"), os.environ.get("PYTHONPATH")) if p)
    program = str(HERE / "ecosystem_programs.py")
    done = subprocess.run(
        [sys.executable, "-m", "pullback", "run", program, name],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert list(got) == list(EXPECTED[name])
    for key, want in EXPECTED[name].items():
        # Chains of many steps are compared by what they say, within what their length allows.
        tolerance = {"rtol": 0.4, "atol": 0.8} if key == "loose" else {"rtol": 2e-3, "atol": 2e-4}
        np.testing.assert_allclose(flat(got[key]), flat(want), err_msg=key, **tolerance)
