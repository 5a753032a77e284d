"""Layouts of arrays in memory."""

from ..runtime.layouts import (
    Format as Format,
    Layout as Layout,
    with_layout_constraint as with_layout_constraint,
)

__all__ = ["Format", "Layout", "with_layout_constraint"]
