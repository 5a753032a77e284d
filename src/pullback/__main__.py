"""`python -m pullback run script.py [args]`: runs a program written for JAX, unchanged, on
Pullback.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from . import jax_compat
from .version import __version__


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pullback", description="Runs programs written for JAX on Pullback."
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script, with `import jax` giving Pullback")
    run.add_argument(
        "-m",
        dest="module",
        action="store_true",
        help="SCRIPT is a module name, as with `python -m`",
    )
    run.add_argument("script", help="the script's path (or module name with -m)")
    run.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.parse_args(argv)
    jax_compat.install()
    _reach_children()
    sys.argv = [options.script, *options.args]
    if options.module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        return 0
    path = Path(options.script)
    if not path.exists():
        parser.error(f"no such script: {path}")
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path.absolute()), run_name="__main__")  # absolute, as Python's own __file__
    return 0


def _reach_children() -> None:
    """Python processes that the script starts find Pullback in place of JAX too."""
    folder = str(Path(jax_compat.__file__).resolve().parent / "children")
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *given])


if __name__ == "__main__":
    sys.exit(main())
