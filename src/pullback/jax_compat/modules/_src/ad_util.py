"""`jax._src.ad_util`: zeros, and the primitives that derivatives are made of."""

from ....core.avals import zeros_like_aval as zeros_like_aval
from ....core.symbolic import (
    SymbolicZero as SymbolicZero,
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
)
from ....primitives.builders import (
    add_any_p as add_any_p,
    add_any_p as add_jaxvals_p,  # noqa: F401
)
from ....primitives.convert import stop_gradient_p as stop_gradient_p
from ....primitives.elementwise import add_jaxvals as add_jaxvals
