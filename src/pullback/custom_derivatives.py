"""Functions with derivative rules of their own."""

from .api.staging import closure_convert as closure_convert
from .control.custom_batch import linear_call as linear_call
from .control.custom_gradient import custom_gradient as custom_gradient
from .control.custom_jvp import custom_jvp as custom_jvp, custom_jvp_call_p as custom_jvp_call_p
from .control.custom_vjp import (
    CustomVJPPrimal as CustomVJPPrimal,
    custom_vjp as custom_vjp,
    custom_vjp_call_p as custom_vjp_call_p,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
    zero_from_primal as zero_from_primal,
)
from .control.remat_opt import remat_opt_p as remat_opt_p
from .core.symbolic import SymbolicZero as SymbolicZero

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "remat_opt_p",
    "zero_from_primal",
]
