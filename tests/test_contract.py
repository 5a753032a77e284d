"""docs/contract.md, kept by one program: on this machine's vectors and on narrower ones, with cold
and warm caches, serial and threaded, with native calls and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pullback.backends.llvm import threads

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
    # A native thread loads LLVM beside the import, as most processes will ask for it.
    warm = run(tmp_path, PULLBACK_PRELOAD="0", **variables)
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


FLUSHED = """
import numpy as np
import pullback as pb
import pullback.numpy as jnp
small = np.full(300_000, 1e-40, np.float32)
x = jnp.asarray(small)
print(float((x + 0).max() > 0), float(pb.jit(lambda x: (x * 1.5).max())(x) > 0), end=" ")
print(float((jnp.full((64, 64), 1e-20) @ jnp.full((64, 64), 1e-20)).max() > 0), end=" ")
print(float((small * np.float32(1.5)).max() > 0))
"""


def test_denormals_are_taken_for_zeros_where_the_environment_asks() -> None:
    """On every thread of a kernel, and only there: NumPy keeps them in the same process."""
    for flush, want in (("0", "1.0 1.0 1.0 1.0"), ("1", "0.0 0.0 0.0 1.0")):
        environment = {**os.environ, "PULLBACK_FLUSH_DENORMALS": flush}
        done = subprocess.run(
            [sys.executable, "-c", FLUSHED],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert done.stdout.strip() == want, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULLBACK_FLUSH_DENORMALS", "maybe")
        with pytest.raises(ValueError, match="PULLBACK_FLUSH_DENORMALS"):
            threads.flushes_denormals()
