"""`colocated_python.obj`: in JAX, how objects live on other hosts. There is one host here."""

from __future__ import annotations

from typing import Any

from . import colocated_python_class

__all__: list[str] = []


def wrap_class(cls: type[object], cls_sourceinfo: str | None = None) -> Any:
    """A class whose objects live with the arrays that their methods are given."""
    return colocated_python_class(cls)
