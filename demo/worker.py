"""One demonstration on one engine in its own process: `python -m demo.worker photo jax DIRECTORY`.

Prints lines that the parent reads: `PROGRESS fraction text` and, last, `RESULT json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import digits, photo, regression
from .engine import load

PARTS = {"photo": photo, "digits": digits, "regression": regression}


def progress(fraction: float, text: str) -> None:
    print(f"PROGRESS {fraction:.3f} {text}", flush=True)


def main(part: str, engine_name: str, directory: str) -> None:
    output, module = Path(directory), PARTS[part]
    if engine_name == "numpy":
        result = module.run_numpy(output, progress)
        result["import"] = None
    else:
        engine, seconds = load(engine_name)
        result = module.run(engine, output, progress)
        result["import"] = seconds
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
