"""The primitives and their user-level functions, one family a file."""

from . import dims as dims
