"""`jax._src.internal_test_util.deprecation_module`: a module with a name that is still there
and one that is deprecated."""

from __future__ import annotations

from ..deprecations import deprecation_getattr

x = 42
deprecated_y = 101
_NAMES = {"y": ("Please use x", deprecated_y), "z": ("Please do not use z", None)}

__getattr__ = deprecation_getattr("jax._src.internal_test_util.deprecation_module", _NAMES)
