"""Pullback: NumPy-style functions, transformed: compiled, differentiated, vectorised.

    import pullback as pb
    import pullback.numpy as jnp

    @pb.jit
    def loss(w, x, y): return ((x @ w - y) ** 2).mean()
    pb.grad(loss)(w, x, y)

The names are JAX's; `pullback.jax_compat.install()` makes `import jax` give this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .garbage import settle as _settle, uncollected as _uncollected
from .removed import no_attribute as _no_attribute

with _uncollected:  # an import makes many objects, hardly any of which is garbage
    from . import (
        config as config,
        dtypes as dtypes,
        errors as errors,
        tree as tree,
        tree_util as tree_util,
    )
    from .version import __version__ as __version__, __version_info__ as __version_info__

    # isort: split
    from . import lax as lax, numpy as numpy, primitives as primitives
    from .runtime import (
        array as _array,
        array_methods as _array_methods,  # noqa: F401 (it gives arrays their methods)
        placement as _placement,  # noqa: F401 (it gives arrays their devices)
    )

    # isort: split
    from .api.arguments import ShapeDtypeStruct as ShapeDtypeStruct
    from .api.jit import clear_caches as clear_caches, jit as jit
    from .api.placement import (
        block_until_ready as block_until_ready,
        copy_to_host_async as copy_to_host_async,
        device_get as device_get,
        device_put as device_put,
        effects_barrier as effects_barrier,
        make_array_from_callback as make_array_from_callback,
        make_array_from_process_local_data as make_array_from_process_local_data,
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from .api.staging import (
        closure_convert as closure_convert,
        ensure_compile_time_eval as ensure_compile_time_eval,
        eval_shape as eval_shape,
        make_jaxpr as make_jaxpr,
        named_call as named_call,
        named_scope as named_scope,
    )
    from .api.vmap import vmap as vmap
    from .control.custom_gradient import custom_gradient as custom_gradient
    from .control.custom_jvp import custom_jvp as custom_jvp
    from .control.custom_vjp import custom_vjp as custom_vjp
    from .core.build import trace_count as trace_count
    from .core.refs import Ref as Ref
    from .dtypes import float0 as float0
    from .runtime.devices import (
        default_backend as default_backend,
        device_count as device_count,
        devices as devices,
        local_device_count as local_device_count,
        local_devices as local_devices,
        process_count as process_count,
        process_index as process_index,
        process_indices as process_indices,
    )
    from .runtime.dispatch import load_compiler as _load_compiler
    from .runtime.placement import typeof as typeof

    _load_compiler()
    _settle()

if TYPE_CHECKING:
    from .api.derivatives import (
        fwd_and_bwd as fwd_and_bwd,
        grad as grad,
        jvp as jvp,
        linear_transpose as linear_transpose,
        linearize as linearize,
        value_and_grad as value_and_grad,
        vjp as vjp,
    )
    from .api.jacobians import (
        hessian as hessian,
        jacfwd as jacfwd,
        jacrev as jacobian,
        jacrev as jacrev,
    )
    from .compile_log import explain_compile as explain_compile
    from .control.refs import (
        ds as ds,
        empty_ref as empty_ref,
        free_ref as free_ref,
        freeze as freeze,
        new_ref as new_ref,
    )
    from .control.remat import checkpoint as checkpoint, checkpoint as remat
    from .control.remat_policies import checkpoint_policies as checkpoint_policies

Array = _array.Array
host_count, host_id, host_ids = process_count, process_index, process_indices

# The flags that are used as context managers.
_FLAG_NAMES = (
    "enable_x64",
    "disable_jit",
    "debug_nans",
    "debug_infs",
    "check_tracer_leaks",
    "enable_checks",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "numpy_rank_promotion",
    "numpy_dtype_promotion",
    "log_compiles",
    "explain_cache_misses",
    "threefry_partitionable",
    "enable_custom_prng",
    "softmax_custom_jvp",
    "legacy_prng_key",
    "transfer_guard",
    "transfer_guard_host_to_device",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "debug_key_reuse",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "no_execution",
    "no_tracing",
    "remove_size_one_mesh_axis_from_type",
    "thread_guard",
)
for _name in _FLAG_NAMES:
    globals()[_name] = config.FLAGS[f"jax_{_name}"]
checking_leaks = check_tracer_leaks = config.check_tracer_leaks
num_threads = config.num_threads
jax2tf_associative_scan_reductions = config.FLAGS["jax2tf_associative_scan_reductions"]

# Modules that are imported when they are first asked for: they must not cost those who do not use
# them.
_LAZY_MODULES = frozenset(
    {
        "ad",
        "ad_checkpoint",
        "api_util",
        "custom_batching",
        "custom_derivatives",
        "debug",
        "distributed",
        "dlpack",
        "ffi",
        "experimental",
        "extend",
        "flatten_util",
        "image",
        "interpreters",
        "jax_compat",
        "monitoring",
        "nn",
        "ops",
        "profiler",
        "random",
        "ref",
        "scipy",
        "sharding",
        "stages",
        "test_util",
        "typing",
        "version",
    }
)
_LAZY_NAMES = {
    **dict.fromkeys(
        "fwd_and_bwd grad jvp linear_transpose linearize value_and_grad vjp".split(),
        "api.derivatives",
    ),
    **dict.fromkeys("hessian jacfwd jacobian jacrev".split(), "api.jacobians"),
    "explain_compile": "compile_log",
    "checkpoint": "control.remat",
    "checkpoint_policies": "control.remat_policies",
    "remat": "control.remat",
    **dict.fromkeys("ds empty_ref free_ref freeze new_ref".split(), "control.refs"),
    "live_arrays": "runtime.live",
    "make_user_context": "config",
    "pmap": "api.spmd",
    "pure_callback": "primitives.callback",
    "shard_map": "api.spmd",
    "smap": "api.spmd",
    "make_mesh": "runtime.meshes",
    "set_mesh": "sharding",
    "P": "sharding",
    "NamedSharding": "sharding",
    "reshard": "sharding",
    "Device": "runtime.devices",
    "Shard": "runtime.placement",
    "memory": "api.placement",
    "print_environment_info": "environment",
    "kernel_compile_count": "backends.llvm",
}
_RENAMED = {"P": "PartitionSpec", "jacobian": "jacrev", "remat": "checkpoint"}


# What is public: JAX's names, and the two counters that say what was traced and compiled.
__all__ = [  # noqa: PLE0604
    "Array",
    "Ref",
    "ShapeDtypeStruct",
    "block_until_ready",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "copy_to_host_async",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "ds",
    "dtypes",
    "effects_barrier",
    "empty_ref",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "float0",
    "free_ref",
    "freeze",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "host_count",
    "host_id",
    "host_ids",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jax2tf_associative_scan_reductions",
    "jit",
    "jvp",
    "kernel_compile_count",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "new_ref",
    "numpy",
    "process_count",
    "process_index",
    "process_indices",
    "remat",
    "explain_compile",
    "trace_count",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
    "checking_leaks",
    *_FLAG_NAMES,
]
__all__.extend(sorted({*_LAZY_MODULES, *_LAZY_NAMES} - {"jax_compat", *__all__}))


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    if name in _LAZY_NAMES:
        module = importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}")
        value = globals()[name] = getattr(module, _RENAMED.get(name, name))
        return value
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})
