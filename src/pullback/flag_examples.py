"""The examples in the docstrings of flags: what is done under the flag, or, where only its reader
sees an effect, a value of the flag."""

from __future__ import annotations

from typing import Any

__all__ = ["EXAMPLES"]

EXAMPLES: dict[str, Any] = {
    "enable_x64": """>>> with pb.enable_x64(True):
    ...     print(jnp.arange(2.0).dtype)
    float64""",
    "numpy_rank_promotion": """>>> with pb.numpy_rank_promotion("raise"):
    ...     jnp.ones((2, 3)) + jnp.ones(3)
    Traceback (most recent call last):
        ...
    ValueError: ...""",
    "numpy_dtype_promotion": """>>> with pb.numpy_dtype_promotion("strict"):
    ...     jnp.arange(3) + jnp.arange(3.0)
    Traceback (most recent call last):
        ...
    pullback.errors.TypePromotionError: ...""",
    "default_matmul_precision": """>>> with pb.default_matmul_precision("highest"):
    ...     jnp.dot(jnp.ones(3), jnp.ones(3))
    Array(3., dtype=float32)""",
    "disable_jit": """>>> f = pb.jit(lambda x: print(isinstance(x, pb.core.Tracer)))
    >>> with pb.disable_jit():
    ...     f(2.0)
    False""",
    "debug_nans": """>>> with pb.debug_nans(True):
    ...     jnp.log(-1.0)
    Traceback (most recent call last):
        ...
    FloatingPointError: ...""",
    "debug_infs": """>>> with pb.debug_infs(True):
    ...     jnp.exp(1000.0)
    Traceback (most recent call last):
        ...
    FloatingPointError: ...""",
    "default_prng_impl": """>>> with pb.default_prng_impl("rbg"):
    ...     print(random.key(0).dtype)
    key<rbg>""",
    "enable_custom_prng": """>>> with pb.enable_custom_prng(True):
    ...     print(random.PRNGKey(0).dtype)
    key<fry>""",
    "default_device": """>>> with pb.default_device(pb.devices()[0]):
    ...     print(jnp.zeros(3).device)
    cpu:0""",
    "debug_key_reuse": """>>> key = random.key(0)
    >>> with pb.debug_key_reuse(True):
    ...     random.normal(key), random.uniform(key)
    Traceback (most recent call last):
        ...
    pullback.errors.KeyReuseError: ...""",
    "num_threads": """>>> with pb.num_threads(1):
    ...     jnp.arange(3.0).sum()
    Array(3., dtype=float32)""",
    "pallas_enable_debug_checks": """>>> with pl.enable_debug_checks(True):
    ...     print(pl.enable_debug_checks.get())
    True""",
    "pallas_poison_buffers": """>>> with pl.enable_poison_buffers(True):
    ...     print(pl.enable_poison_buffers.get())
    True""",
    "check_tracer_leaks": True,
    "enable_checks": True,
    "threefry_partitionable": False,
    "softmax_custom_jvp": True,
    "legacy_prng_key": "error",
    "log_compiles": True,
    "explain_cache_misses": True,
    "transfer_guard": "log",
    "transfer_guard_host_to_device": "log",
    "transfer_guard_device_to_device": "log",
    "transfer_guard_device_to_host": "log",
    "allow_f16_reductions": False,
    "array_garbage_collection_guard": "log",
    "auto_pcast": False,
    "no_execution": True,
    "no_tracing": True,
    "remove_size_one_mesh_axis_from_type": True,
    "thread_guard": True,
    "jax2tf_associative_scan_reductions": True,
}
