"""`pjit`: another name of `jit`."""

from ..api.jit import jit as pjit
from ..api.placement import with_sharding_constraint as with_sharding_constraint

__all__ = ["pjit", "with_sharding_constraint"]
