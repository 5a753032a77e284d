"""Functions of primitives that are jitted, so that programs show them by name."""

import functools
from typing import Any

from ..api.jit import jit
from ..primitives import dynamic_slice, fft as _fft, linalg

_options = ("axis", "keepdims", "allow_negative_indices")
fft = jit(_fft.fft, static_argnames=("fft_type", "fft_lengths"))
dynamic_index_in_dim = jit(dynamic_slice.dynamic_index_in_dim, static_argnames=_options)
dynamic_update_index_in_dim = jit(
    dynamic_slice.dynamic_update_index_in_dim, static_argnames=("axis", "allow_negative_indices")
)


@functools.partial(jit, static_argnums=3)
def _lu_solve(packed: Any, order: Any, b: Any, trans: int) -> Any:
    return linalg.lu_solve(packed, order, b, trans)


lu_solve = _lu_solve
