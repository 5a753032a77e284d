"""A few checks of the sweep over lax's samples (lax_sweep.py), the same ones each time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from lax_sweep import checks, run

from pullback import lax

QUICK = sorted(random.Random(4).sample(checks(), 60))
# What a sweep has found.
FOUND = [
    ("values", "cummax", "float8_e4m3fn"),
    ("values", "cummin", "float8_e4m3fn"),
    ("derivatives", "cumlogsumexp", "complex64"),
    ("values", "dot_general preferred int", "float32"),
    ("values", "dot_general preferred int", "int64"),
    ("values", "mul out_dtype", "bool"),
    ("values", "mul out_dtype", "bfloat16"),
]


@pytest.mark.parametrize("check,name,dtype", [*FOUND, *QUICK])
def test_sample(check: str, name: str, dtype: str) -> None:
    wrong = run(check, name, dtype, seed=4)
    assert wrong is None, f"{wrong} (python tests/lax_sweep.py --seed 4 --only {name!r})"


def test_a_matrix_of_bools_is_symmetrized() -> None:
    """Its sum with its adjoint is "or", half of which is the matrix that is factored."""
    found = lax.linalg.cholesky(np.array([[True, False], [False, True]]))
    np.testing.assert_allclose(found, np.eye(2) * 0.5**0.5, rtol=1e-6)
