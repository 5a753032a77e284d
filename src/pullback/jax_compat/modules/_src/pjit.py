"""`jax._src.pjit`: the primitive of jitted calls."""

from ....api.jit import jit as pjit  # noqa: F401
from ....control.call import jit_p as jit_p
from ....lax import with_sharding_constraint as with_sharding_constraint
