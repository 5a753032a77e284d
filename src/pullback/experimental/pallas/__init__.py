"""Kernels over blocks of arrays: `pallas_call`, compiled to native loops over the grid."""

from __future__ import annotations

import warnings
from typing import Any

from ...control import ref_places
from ...control.ref_places import ds as ds
from ...lax import empty as empty
from . import helpers
from .call import pallas_call as pallas_call, pallas_call_p as pallas_call_p
from .cost import estimate_cost as estimate_cost
from .helpers import (
    align_to as align_to,
    broadcast_to as broadcast_to,
    cdiv as cdiv,
    debug_check as debug_check,
    debug_print as debug_print,
    delay as delay,
    empty_like as empty_like,
    enable_debug_checks as enable_debug_checks,
    enable_poison_buffers as enable_poison_buffers,
    loop as loop,
    lower_as_mlir as lower_as_mlir,
    multiple_of as multiple_of,
    next_power_of_2 as next_power_of_2,
    pallas_export_experimental as pallas_export_experimental,
    reciprocal as reciprocal,
    strides_from_shape as strides_from_shape,
    when as when,
)
from .ids import num_programs as num_programs, program_id as program_id
from .mesh import core_map as core_map, kernel as kernel
from .scoped import (
    empty_ref_like as empty_ref_like,
    get_global as get_global,
    run_scoped as run_scoped,
    run_state as run_state,
    select_ref as select_ref,
    semaphore_read as semaphore_read,
    semaphore_signal as semaphore_signal,
    semaphore_wait as semaphore_wait,
    with_scoped as with_scoped,
)
from .specs import (
    BlockDim as BlockDim,
    Blocked as Blocked,
    BlockSpec as BlockSpec,
    BoundedSlice as BoundedSlice,
    Buffered as Buffered,
    CompilerParams as CompilerParams,
    CostEstimate as CostEstimate,
    DeviceIdType as DeviceIdType,
    Element as Element,
    GridSpec as GridSpec,
    Indirect as Indirect,
    MemoryRef as MemoryRef,
    MemorySpace as MemorySpace,
    RevisitMode as RevisitMode,
    Squeezed as Squeezed,
    no_block_spec as no_block_spec,
    semaphore as semaphore,
    squeezed as squeezed,
)

ANY = MemorySpace.ANY
HOST = MemorySpace.HOST
Slice = ref_places.RefSlice
dslice = ds

_DEPRECATED = {
    "dot": "was moved to jax.experimental.pallas.triton. Accessing it via jax.experimental.pallas "
    "is deprecated. You can use jax.numpy.dot, jax.numpy.einsum or the @ operator instead.",
    "debug_checks_enabled": "is deprecated, use pl.enable_debug_checks.value instead.",
}


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        warnings.warn(
            f"jax.experimental.pallas.{name} {_DEPRECATED[name]}", DeprecationWarning, stacklevel=2
        )
        return getattr(helpers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
