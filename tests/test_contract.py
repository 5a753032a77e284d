"""docs/contract.md, kept by one program: on this machine's vectors and on narrower ones, with cold
and warm caches, serial and threaded, with native calls and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("contract_program.py")


def run(cache: Path, *args: str, **variables: str) -> dict[str, object]:
    """The program's report from a process of its own."""
    env = {**os.environ, "PULLBACK_CACHE_DIR": str(cache), **variables}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *args], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("isa", ["", "avx2", "sse2"])
def test_contract_program(isa: str, tmp_path: Path) -> None:
    variables = {"PULLBACK_ISA": isa} if isa else {}
    cold = run(tmp_path, **variables)
    if isa:
        assert cold["isa"] == isa
    assert int(str(cold["kernels"])) > 50
    warm = run(tmp_path, **variables)
    assert warm["kernels"] == 0
    assert warm["llvmlite"] is False


@pytest.mark.parametrize(
    "variables",
    [{"PULLBACK_NUM_THREADS": "1"}, {"PULLBACK_NUM_THREADS": "7"}, {"PULLBACK_NATIVE": "0"}],
    ids=lambda v: "-".join(v.values()) + "-" + next(iter(v)),
)
def test_contract_under_other_settings(
    variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run(tmp_path_factory.getbasetemp() / "kernels-of-the-contract", **variables)


def test_interrupted_compiles(tmp_path: Path) -> None:
    """Ctrl-C at forty moments between the first line traced and the last kernel loaded."""
    report = run(tmp_path, "--compiles", PULLBACK_CACHE="0")
    assert int(str(report["struck"])) >= 10
