"""`jax._src.ad_util`: zeros, and the primitives that derivatives are made of."""

from ....core.symbolic import SymbolicZero as SymbolicZero
from ....core.symbolic import Zero as Zero
from ....core.symbolic import instantiate_zeros as instantiate_zeros
from ....primitives.elementwise import add_jaxvals as add_jaxvals
from ....primitives.elementwise import add_jaxvals_p as add_jaxvals_p
