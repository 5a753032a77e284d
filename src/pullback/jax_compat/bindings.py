"""`import jaxlib` while Pullback stands for JAX: XLA's bindings, whose classes of arrays, compiled
functions and devices are Pullback's, so that libraries which look for those find them.

An installed jaxlib stays what it is, under its name and to itself (the xla backend works with it):
only what programs read from the package, `_jax` and `xla_client`, are the modules that have
Pullback's classes. Where none is installed, a package with these two and its version is made.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from .modules import version

__all__ = ["adopt", "release", "spec"]


def _ours(name: str) -> Any:
    """A property that gives jaxlib's own modules theirs, and all others the module of ours."""

    def get(package: ModuleType) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if asking.startswith("jaxlib.") and name in package.__dict__:
            return package.__dict__[name]
        return importlib.import_module(f"jax._src.lib.{name}")

    def keep(package: ModuleType, module: Any) -> None:
        package.__dict__[name] = module  # the import system's, when it has loaded jaxlib's own

    return property(get, keep)


class _Bindings(ModuleType):
    """The package `jaxlib`."""

    _jax = _ours("_jax")
    xla_client = _ours("xla_client")


class _Loader:
    """Loads an installed jaxlib as it would be, and then adopts it; or makes one."""

    def __init__(self, installed: Any) -> None:
        self.installed = installed

    def create_module(self, spec: Any) -> ModuleType | None:
        made: ModuleType | None = self.installed and self.installed.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if self.installed is not None:
            self.installed.exec_module(module)
        else:
            module.__dict__.update(version=version, __version__=version.__version__)
            sys.modules["jaxlib.version"] = version
        module.__class__ = _Bindings


def spec() -> Any:
    """How `import jaxlib` finds the package."""
    found = importlib.machinery.PathFinder.find_spec("jaxlib")
    if found is None or found.loader is None:
        made = importlib.machinery.ModuleSpec("jaxlib", _Loader(None), is_package=True)  # type: ignore[arg-type]
        return made
    found.loader = _Loader(found.loader)  # type: ignore[assignment]
    return found


def adopt() -> None:
    """Does the same to a jaxlib that has been imported before."""
    if "jaxlib" in sys.modules:
        sys.modules["jaxlib"].__class__ = _Bindings


def release() -> None:
    """Undoes it: an installed jaxlib is as ever, one that was made is gone."""
    package: Any = sys.modules.get("jaxlib")
    if not isinstance(package, _Bindings):
        return
    package.__class__ = ModuleType  # type: ignore[assignment]
    if not hasattr(package, "__file__"):
        del sys.modules["jaxlib"], sys.modules["jaxlib.version"]
