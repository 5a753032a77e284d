"""Imported for its effect: every primitive is in the table of primitives, for those who show or
extend them all."""

from .. import lax
from ..control import discharge as _discharge  # noqa: F401 (references and checkpoints)
from ..primitives import callback as _callback  # noqa: F401

lax._late.load()
