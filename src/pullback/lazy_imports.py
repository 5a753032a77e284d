"""Modules and names that are imported when they are first used: heavy packages must not cost those
who do not use them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .removed import no_attribute

__all__ = ["LateNames", "lazy_module"]


class _LazyModule(ModuleType):
    """Stands for a module until the first attribute is asked of it."""

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


def lazy_module(name: str) -> Any:
    """A module that is imported at its first use: heavy packages must not cost those who do not use
    them.
    """
    return _LazyModule(name)


_names_of: Callable[[ModuleType], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__


class LateNames:
    """Names of a package whose modules are imported when one of them is first asked for; called
    from the package's `__getattr__`.

    `families` is a table: module of the package (after two dots: beside it) -> its names, between
    blanks; the module's own name means the module, `name=other` what the module calls `other`.
    `made(name, value)` may put something else in a value's place.
    """

    def __init__(
        self,
        package: str,
        families: dict[str, str],
        made: Callable[[str, Any], Any] = lambda _, value: value,
    ) -> None:
        self.package, self.made = package, made
        self.where: dict[str, tuple[str, str]] = {}
        for family, names in families.items():
            for entry in names.split():
                name, _, other = entry.partition("=")
                self.where[name] = family, other or name

    def __call__(self, name: str) -> Any:
        if name not in self.where:
            raise no_attribute(self.package, name)
        family, other = self.where[name]
        relative = family if family.startswith(".") else f".{family}"
        module = importlib.import_module(relative, self.package)
        value = module if name == family else self.made(name, getattr(module, other))
        setattr(sys.modules[self.package], name, value)
        return value

    def load(self) -> None:
        """Imports them all."""
        have = _names_of(sys.modules[self.package])
        for name in self.where:
            if name not in have:
                self(name)

    def complete(self) -> None:
        """From now on the package's `__dict__`, asked for as a whole as in `vars(jnp).items()`, has
        every name; `dir` lists them and imports nothing.
        """

        _complete[self.package] = self
        sys.modules[self.package].__class__ = _Complete


_complete: dict[str, LateNames] = {}  # by package


class _Complete(ModuleType):
    """A package whose `__dict__` has its late names."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        names = _names_of(self)
        _complete[names["__package__"]].load()
        return names

    def __dir__(self) -> list[str]:
        names = _names_of(self)
        return sorted({*names, *_complete[names["__package__"]].where})
