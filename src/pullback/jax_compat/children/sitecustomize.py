"""Python imports this as it starts in the children of `python -m pullback run` (spawned workers,
tests that pytest distributes), so that `import jax` gives Pullback there too. It costs nothing
until JAX is imported.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class _OnFirstImport:
    """Puts the finder of `jax_compat` in its own place when JAX is first imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "jax":
            return None
        sys.meta_path.remove(self)
        if importlib.util.find_spec("pullback") is None:  # the parent had it from its folder
            sys.path.append(str(HERE.parents[2]))
        importlib.import_module("pullback.jax_compat").install()
        return importlib.util.find_spec(fullname)


def _hidden() -> None:
    """Runs the `sitecustomize` of the user's, which this one hides."""
    rest = [p for p in sys.path if Path(p).resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _OnFirstImport())
_hidden()
