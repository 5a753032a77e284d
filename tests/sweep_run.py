"""`make sweep`: generated calls of every public function on real JAX and on Pullback, compared.

    python tests/sweep_run.py --draws 20 --seed 0 --only reductions
    python tests/sweep_run.py --x64 --match 'jnp.var'
    python tests/sweep_run.py --bad --only indexing
    python tests/sweep_run.py --case 'jnp.sum(f4(2, 3))'

`--draws` calls of each template of tests/sweep (tests/sweep_cases.py says how they are written).
What differs is printed as it is found, with the expression that shows it.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import random
import re
import sys
import warnings
from typing import Any

import oracle_flags

HERE = pathlib.Path(__file__).resolve().parent
LAST = HERE.parent / "build" / "sweep-last.txt"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20, help="calls of each template")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="families, with commas between")
    parser.add_argument("--match", default="", help="templates that hold this regular expression")
    parser.add_argument("--x64", action="store_true", help="64-bit types are on")
    parser.add_argument("--strict", action="store_true", help="no promotion of dtypes and ranks")
    parser.add_argument("--bad", action="store_true", help="with an argument that does not fit")
    parser.add_argument("--case", default="", help="one expression alone")
    return parser.parse_args()


def modules(x64: bool, strict: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names of expressions, for Pullback and for JAX."""
    import sweep_cases

    found = []
    for root in ("pullback", "jax"):
        lib = importlib.import_module(root)
        lib.config.update("jax_enable_x64", x64)
        found.append(sweep_cases.environment(root))
        if strict:
            lib.config.update("jax_numpy_dtype_promotion", "strict")
            lib.config.update("jax_numpy_rank_promotion", "raise")
    return found[0], found[1]


def main() -> int:
    assert oracle_flags.FLAGS
    options = arguments()
    import sweep_bad
    import sweep_cases

    warnings.simplefilter("ignore")
    ours, jax = modules(options.x64, options.strict)
    if options.case:
        got = sweep_cases.evaluated(options.case, ours)
        wanted = sweep_cases.evaluated(sweep_cases.right(options.case), jax)
        print(sweep_cases.difference("", "", got, wanted) or "the same")
        for who, names in (("pullback", ours), ("jax", jax)):
            try:
                print(who, repr(eval(options.case, dict(names))))
            except Exception as error:
                print(who, f"{type(error).__name__}: {str(error)[:600]}")
        return 0
    LAST.parent.mkdir(exist_ok=True)
    families = options.only.split(",") if options.only else None
    chosen = [
        t
        for t in sweep_cases.templates()
        if (not families or t.family in families) and re.search(options.match, t.text)
    ]
    count = wrong = errors = 0
    for template in chosen:
        for number in range(options.draws):
            source = sweep_cases.draw(template, number, options.seed, options.x64)
            if options.bad:
                rng = random.Random(f"{template.text} {number} {options.seed}")
                source = sweep_bad.worsened(source, rng)
            LAST.write_text(source)
            wanted = sweep_cases.evaluated(sweep_cases.right(source), jax)
            got = sweep_cases.evaluated(source, ours)
            count += 1
            errors += "error" in wanted
            if different := sweep_cases.difference(template.family, source, got, wanted):
                wrong += 1
                print(f"{source}\n    {shortened(different)}", flush=True)
    print(f"{count} calls of {len(chosen)} templates, {errors} of them errors: {wrong} differ")
    return 1 if wrong else 0


def shortened(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"'[A-Za-z0-9+/=]{60,}'", "'...'", text))[:420]


if __name__ == "__main__":
    sys.exit(main())
