"""Whether a variable of the environment switches something off: one meaning of "no" for all."""

from __future__ import annotations

import os

__all__ = ["switched_off"]


def switched_off(name: str) -> bool:
    """Whether a variable of the environment says no to what is on without it."""
    return os.environ.get(name, "1").strip().lower() in ("0", "off", "false", "no")
