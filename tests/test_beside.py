"""Numba and PyTorch in the process of programs, whoever is imported first: code is compiled,
threads run, arrays change hands. PULLBACK_TESTS_BESIDE runs any part of the suite beside them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
order = {order!r}.split()
made = []
for name in order:
    if name == "pullback":
        import numpy as np
        import pullback
        import pullback.numpy as jnp
        step = pullback.jit(lambda x: jnp.tanh(x @ x) + x.sum())
        x = np.full((400, 400), 1e-3, np.float32)
        want = np.tanh(x @ x) + x.sum()
        made.append(lambda: np.testing.assert_allclose(step(x), want, rtol=1e-4))
    else:
        import beside
        made += beside.users(name)
    made[-1]()
for _ in range(3):
    for use in made:
        use()
# A first call of each kind after the others' use: code is compiled beside code.
small = np.full(300_000, 1e-40, np.float32)
assert float(pullback.jit(lambda x: (x * 1.5).max())(small)) > 0
ends = pullback.jit(lambda x: pullback.lax.while_loop(lambda c: c.sum() < 9e5, lambda c: c * 2, x))
np.testing.assert_array_equal(ends(jnp.ones(100_000)), np.full(100_000, 16, np.float32))
np.testing.assert_allclose(jnp.linalg.inv(jnp.eye(50) * 2), np.eye(50) / 2)
if "torch" in order:
    import torch
    ours = jnp.arange(12.0).reshape(3, 4) * 2
    theirs = torch.from_dlpack(ours)
    back = jnp.from_dlpack(theirs)
    assert theirs.data_ptr() == ours.unsafe_buffer_pointer() == back.unsafe_buffer_pointer()
    taken = jnp.from_dlpack(torch.arange(6.0).reshape(2, 3) + 1)
    np.testing.assert_array_equal(jnp.sum(taken, 0), [5, 7, 9])
    total = torch.from_dlpack(jnp.ones(1_000_000)).sum()  # of memory that only PyTorch holds
    assert float(total) == 1e6
print("ends well")
"""
ORDERS = ["pullback numba", "numba pullback", "pullback torch numba", "torch numba pullback"]


@pytest.mark.parametrize("order", ORDERS)
def test_programs_beside_other_libraries(order: str, tmp_path: Path) -> None:
    for name in order.split():
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    program = PROGRAM.format(tests=str(Path(__file__).parent), order=order)
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0 and done.stdout == "ends well\n", done.stdout + done.stderr
