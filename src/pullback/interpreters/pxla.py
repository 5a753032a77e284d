"""Programs over meshes of devices: the mesh that is in force, how XLA compiles and cuts arrays, and
the names around meshes that JAX deprecates or has removed.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ..backends.xla import mesh as _xla
from ..backends.xla.mesh import create_compile_options as create_compile_options
from ..control.call import UNSPECIFIED
from ..runtime.meshes import named_mesh
from ..sharding import Mesh as Mesh, PartitionSpec


class _ThreadResources:
    @property
    def env(self) -> _ThreadResources:
        return self

    @property
    def physical_mesh(self) -> Mesh:
        return named_mesh()


def array_mapping_to_axis_resources(array_mapping: Mapping[Any, int]) -> PartitionSpec:
    """A mapping of the names of mesh axes to axes of an array, as a PartitionSpec."""
    parts: list[Any] = [None] * (max(array_mapping.values(), default=-1) + 1)
    for name, axis in array_mapping.items():
        before = parts[axis]
        held = () if before is None else before if isinstance(before, tuple) else (before,)
        parts[axis] = (*held, name) if held else name
    return PartitionSpec(*parts)


_SINCE = "is deprecated as of JAX v0.8.2."
_MESH = (
    " Please switch to using `with jax.set_mesh(mesh)` instead of `with mesh:` and then use "
    "`jax.sharding.get_abstract_mesh()` to get the current mesh."
)
# What JAX still gives, with a warning, and what the warning adds.
_DEPRECATED: dict[str, tuple[Any, str]] = {
    "ArrayMapping": (OrderedDict[Any, int], ""),
    "Index": (int | slice | tuple[int | slice, ...], ""),
    "MeshAxisName": (Any, " Use jax.sharding.Mesh axis names directly."),
    "_UNSPECIFIED": (UNSPECIFIED, ""),
    "array_mapping_to_axis_resources": (array_mapping_to_axis_resources, ""),
    "thread_resources": (_ThreadResources(), _MESH),
    **{
        name: (getattr(_xla, name), "")
        for name in (
            "MeshComputation MeshExecutable are_hlo_shardings_equal global_aval_to_result_handler "
            "global_avals_to_results_handler global_result_handlers is_hlo_sharding_replicated "
            "op_sharding_to_indices"
        ).split()
    },
}
del array_mapping_to_axis_resources
_REMOVED = (
    "Chunked MapTracer NoSharding PmapExecutable Replicated ShardedAxis ShardingSpec Unstacked "
    "parallel_callable shard_args spec_to_indices"
).split()


def __getattr__(name: str) -> Any:
    full = f"jax.interpreters.pxla.{name}"
    if name in _DEPRECATED:
        value, more = _DEPRECATED[name]
        warnings.warn(f"{full} {_SINCE}{more}", DeprecationWarning, stacklevel=2)
        return value
    if name in _REMOVED:
        raise AttributeError(f"{full} was removed in JAX v0.10.0.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
