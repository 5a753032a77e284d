"""`jax._src.pjit`: the primitive of jitted calls."""

from ....control.call import jit_p as jit_p
