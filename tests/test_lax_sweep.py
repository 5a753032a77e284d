"""A few checks of the sweep over lax's samples (lax_sweep.py), the same ones each time."""

from __future__ import annotations

import random

import pytest
from lax_sweep import checks, run

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
    ("values", "cholesky", "bool"),
    ("values", "eigh", "bool"),
]


@pytest.mark.parametrize("check,name,dtype", [*FOUND, *QUICK])
def test_sample(check: str, name: str, dtype: str) -> None:
    wrong = run(check, name, dtype, seed=4)
    assert wrong is None, f"{wrong} (python tests/lax_sweep.py --seed 4 --only {name!r})"
