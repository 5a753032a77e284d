"""`make fuzz`: many random programs on real JAX and on Pullback, in worker processes.

    python tests/fuzz_run.py --draws 20000 --seed 0 --jobs 2
    python tests/fuzz_run.py --seed 0 --only 293            one draw, with its programs printed

A run that was stopped goes on where it was (`--fresh` begins again): the journal in build/fuzz
holds a line for each draw. What differs is written, as it is found, to a file of failures beside
it. A draw that kills or hangs its worker is a difference too.
"""

from __future__ import annotations

import sys
from typing import Any

import draws


def draw(seed: int, number: int) -> Any:
    import fuzz_compare

    return fuzz_compare.draw(seed, number)


def report(seed: int, number: int) -> draws.Report:
    import fuzz_compare

    return fuzz_compare.report(seed, number)


SOURCE = draws.Source("fuzz_run.py", draw, report, "fuzz_*.py")

if __name__ == "__main__":
    sys.exit(draws.main(__doc__.splitlines()[0], SOURCE))
