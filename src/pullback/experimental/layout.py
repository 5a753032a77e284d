"""Layouts of arrays in memory."""

from ..runtime.layouts import Format as Format
from ..runtime.layouts import Layout as Layout
from ..runtime.layouts import with_layout_constraint as with_layout_constraint

__all__ = ["Format", "Layout", "with_layout_constraint"]
