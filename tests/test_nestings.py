"""Random nestings of control flow under stacks of transformations equal real JAX; and where JAX has
no reverse mode, the same loops of known length. `python tests/nestings_run.py` draws more of them.
"""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

import nestings_run

SEED, DRAWS, CHUNKS = 7, 40, 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nestings(chunk):
    found = [
        nestings_run.report(SEED, k, deepest=2 + (k % 3 == 0)) for k in range(chunk, DRAWS, CHUNKS)
    ]
    differing = [report["differs"] for report in found if report["differs"]]
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("draw", [47, 55])
def test_found_past_loops_of_unknown_length(draw):
    """JAX stops at the loop; what lies past it is judged by the same loop of known length."""
    assert not nestings_run.report(1123641, draw)["differs"]


def test_found_counts_of_rows():
    """A loop of one step over rows that another loop makes, with a loop over them in its body: are
    they computed from indices alone? (They were read, to see, before they were made.)"""
    assert not nestings_run.report(60001, 66)["differs"]
