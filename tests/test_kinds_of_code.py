"""Random programs compute the same in every kind of code: from stencils, quickly compiled and well;
and loops that update arrays in place compute what NumPy does."""

from __future__ import annotations

import fuzz_codes
import fuzz_updates
import numpy as np
import pytest

import pullback


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
def test_updates_in_loops(seed: int) -> None:
    """Elements, rows and places, under conditions, in loops and branches, mapped, backwards."""
    for number in range(20 if seed else 4):
        drawn = fuzz_updates.draw(np.random.default_rng([seed, number]))
        with pullback.enable_x64(True):
            assert not list(fuzz_updates.differing(pullback, drawn, fuzz_updates.KINDS)), number


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
def test_kinds_of_code_agree(seed: int) -> None:
    for number in range(4 if seed == 1 else 40):
        assert not fuzz_codes.difference(seed, number), number
