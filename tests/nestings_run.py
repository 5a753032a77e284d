"""Random nestings of control flow (nestings.py) on real JAX and on Pullback, in worker processes.

python tests/nestings_run.py --draws 1000 --seed 1
python tests/nestings_run.py --seed 1 --only 293        one draw, with its programs printed
"""

from __future__ import annotations

import sys
from typing import Any

import draws

DEEPEST = 4

# What JAX says of the reverse mode of a loop whose length it does not know.
UNKNOWN_LENGTH = "Reverse-mode differentiation does not work for lax.while_loop"


def draw(seed: int, number: int, deepest: int = DEEPEST) -> Any:
    import nestings
    import numpy as np

    return nestings.draw(np.random.default_rng([seed, number]), deepest)


def report(seed: int, number: int, deepest: int = DEEPEST) -> draws.Report:
    """One draw as plain data, as fuzz_compare.report. Where JAX refuses the reverse mode of a loop
    of unknown length, the same loop of known length is the oracle.
    """
    import dataclasses

    import fuzz_compare

    program = draw(seed, number, deepest)
    theirs, ours = fuzz_compare.namespaces()
    end, text = fuzz_compare.verdict(theirs, ours, program)
    if (end == "only ours works" and not text) or (text and UNKNOWN_LENGTH in text):
        known = dataclasses.replace(program, build=program.bounded)
        expected = fuzz_compare.outcome(theirs, known, True)
        found = fuzz_compare.outcome(ours, program, program.mode == "jit")
        if expected[0] == found[0] == "error" and UNKNOWN_LENGTH not in expected[2]:
            # The same fault, which lies past the loop that JAX does not come past.
            text = fuzz_compare.difference(expected, found)
            end = "differs" if text else "same error"
        elif expected[0] == "ok":
            end, text = "equal to a scan", fuzz_compare.difference(expected, found)
            if text and not fuzz_compare.difference(
                expected, found, fuzz_compare.under_noise(theirs, known)
            ):
                text = None
    if text:
        again = SOURCE.again(seed, number)
        text = f"draw {number} (seed {seed}): {program.text}\n    {text}\n    {again}"
    return {"draw": number, "cell": program.kind, "stack": program.stack, "end": end} | {
        "differs": text
    }


SOURCE = draws.Source("nestings_run.py", draw, report, "nestings.py", draws=1000)

if __name__ == "__main__":
    sys.exit(draws.main(__doc__.splitlines()[0], SOURCE))
