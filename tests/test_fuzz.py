"""Random programs under stacks of transformations equal real JAX, or fail with the same class of
error.

The seed, the number of draws and one draw alone are options (`--fuzz-seed`, `--fuzz-draws`,
`--fuzz-only`); `make fuzz` draws 20,000, see fuzz_run.py.
"""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

import fuzz_compare

CHUNKS = 20
# The second half of the draws is a sweep: left to `make test-all` and `make fuzz`.
MARKED = [k if k % 2 == 0 else pytest.param(k, marks=pytest.mark.slow) for k in range(CHUNKS)]


@pytest.mark.parametrize("chunk", MARKED)
def test_fuzz(chunk, fuzz_draws, fuzz_seed, fuzz_only):
    failures = []
    numbers = range(fuzz_draws) if fuzz_only is None else [fuzz_only]
    for number in numbers[chunk::CHUNKS]:
        found = fuzz_compare.check(fuzz_seed, number)
        if found:
            failures.append(found)
    assert not failures, f"{len(failures)} programs differ:\n" + "\n".join(failures[:10])
