"""`jax._src.cache_key`: names for compiled programs, by what they were compiled from: the program
as StableHLO, the devices, and the options. Needs jaxlib."""

from __future__ import annotations

import enum
import hashlib
import io
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ....version import JAX_VERSION
from .config import compilation_cache_include_metadata_in_key
from .lib import version_str as jaxlib_version_str
from .lib.mlir import ir

logger = logging.getLogger("jax._src.cache_key")
_extra_flag_prefixes: list[str] = []
# Flags of XLA that change no program.
_IRRELEVANT_FLAGS = (
    "--xla_dump_", "--xla_force_host_platform_device_count", "--xla_tpu_sdc_checker_",
    "--xla_gpu_cuda_data_dir", "--xla_pjrt_allow_auto_layout_in_hlo", "--xla_gpu_kernel_cache_file",
    "--xla_gpu_enable_llvm_module_compilation_parallelism",
    "--xla_gpu_per_fusion_autotune_cache_dir", "--xla_gpu_experimental_autotune_cache_mode",
)  # fmt: skip
env_override_flags_to_exclude_from_cache_key = {
    flag.strip("-") for flag in _IRRELEVANT_FLAGS if not flag.endswith("_")
}


class IgnoreCallbacks(enum.IntEnum):
    """Which addresses of Python functions in a program are not part of its name."""

    NO = 1
    ALL = 2
    CUSTOM_PARTITIONING = 3


def add_flag_prefixes(flag_prefixes: list[str]) -> None:
    """Flags that begin so are part of names, too."""
    _extra_flag_prefixes.extend(flag_prefixes)


def clear_flag_prefixes() -> None:
    """Forgets what `add_flag_prefixes` added."""
    _extra_flag_prefixes.clear()


def get_flag_prefixes() -> list[str]:
    """What `add_flag_prefixes` added."""
    return _extra_flag_prefixes


def custom_hook() -> str:
    """Text that is part of every name; to be replaced."""
    return ""


def _hash_string(hash_obj: Any, str_var: str) -> None:
    hash_obj.update(str_var.encode().strip())


def _hash_platform(hash_obj: Any, backend: Any) -> None:
    for said in (backend.platform, backend.platform_version, backend.runtime_type):
        _hash_string(hash_obj, str(said))


def _hash_devices(hash_obj: Any, devices: np.ndarray[Any, Any]) -> None:
    for device in devices.flat:
        _hash_string(hash_obj, device.device_kind)


_hash_accelerator_config = _hash_devices


def _hash_xla_flags(hash_obj: Any, extra_flag_prefixes: list[str]) -> None:
    prefixes = ("--xla", *extra_flag_prefixes)
    flags = os.environ.get("XLA_FLAGS", "").split()
    flags += [a for a in sys.argv if a.startswith(prefixes)]
    for flag in sorted(flags):
        if not flag.startswith(_IRRELEVANT_FLAGS):
            _hash_string(hash_obj, flag)


def _hash_serialized_compile_options(
    hash_obj: Any, compile_options_obj: Any, strip_device_assignment: bool = False
) -> None:
    options = type(compile_options_obj).ParseFromString(compile_options_obj.SerializeAsString())
    build = options.executable_build_options
    debug = build.debug_options
    debug.xla_dump_to = debug.xla_dump_hlo_module_re = debug.xla_dump_hlo_pass_re = ""
    debug.xla_gpu_cuda_data_dir = ""
    hash_obj.update(options.SerializeAsString())


def _remove_callbacks(m: Any, ignore_callbacks: IgnoreCallbacks) -> Any:
    """The program without addresses of Python functions."""
    if ignore_callbacks == IgnoreCallbacks.NO:
        return m
    partitioning = "CustomSPMDPartitioning"

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.custom_call":
            target = str(op.attributes["call_target_name"]).strip('"')
            every = ignore_callbacks == IgnoreCallbacks.ALL
            if target == partitioning or (every and "callback" in target):
                for name in ("backend_config", "mhlo.backend_config"):
                    if name in op.attributes:
                        del op.attributes[name]
        return ir.WalkResult.ADVANCE

    m.operation.walk(visit)
    return m


def _serialize_ir(m: Any, ignore_callbacks: IgnoreCallbacks) -> bytes:
    """The program as bytes, places in sources among them."""
    output = io.BytesIO()
    if ignore_callbacks != IgnoreCallbacks.NO:
        copied = type(m).parse(m.operation.get_asm(enable_debug_info=True), m.context)
        m = _remove_callbacks(copied, ignore_callbacks)
    m.operation.write_bytecode(file=output)
    return output.getvalue()


def _canonicalize_ir(m_original: Any, ignore_callbacks: IgnoreCallbacks) -> bytes:
    """The program as bytes, without places in sources."""
    with m_original.context:
        m = type(m_original).parse(m_original.operation.get_asm(enable_debug_info=False))
        return _serialize_ir(_remove_callbacks(m, ignore_callbacks), IgnoreCallbacks.NO)


def _hash_computation(hash_obj: Any, module: Any, ignore_callbacks: IgnoreCallbacks) -> None:
    whole = compilation_cache_include_metadata_in_key.value
    hash_obj.update((_serialize_ir if whole else _canonicalize_ir)(module, ignore_callbacks))


def _log_cache_key_hash(hash_obj: Any, last_serialized: str, hashfn: Any) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        part = hashlib.sha256()
        hashfn(part)
        logger.debug(
            "get_cache_key hash of serialized %s: %s", last_serialized, part.digest().hex()
        )
        logger.debug("get_cache_key hash after serializing %s: %s", last_serialized,
                     hash_obj.digest().hex())  # fmt: skip


def get(
    module: Any,
    devices: np.ndarray[Any, Any],
    compile_options: Any,
    backend: Any,
    compression_algorithm: str = "zstandard",
    ignore_callbacks: IgnoreCallbacks = IgnoreCallbacks.NO,
) -> str:
    """The name of a program: its own, and a hash of all that it is compiled from."""
    parts: list[tuple[str, Callable[[Any], None]]] = [
        ("computation", lambda h: _hash_computation(h, module, ignore_callbacks)),
        ("jax_lib version", lambda h: _hash_string(h, f"{JAX_VERSION} {jaxlib_version_str}")),
        ("XLA flags", lambda h: _hash_xla_flags(h, get_flag_prefixes())),
        ("compile_options", lambda h: _hash_serialized_compile_options(h, compile_options)),
        ("accelerator_config", lambda h: _hash_accelerator_config(h, devices)),
        ("compression", lambda h: _hash_string(h, compression_algorithm)),
        ("custom_hook", lambda h: _hash_string(h, custom_hook())),
    ]
    found = hashlib.sha256()
    for name, hashfn in parts:
        hashfn(found)
        _log_cache_key_hash(found, name, hashfn)
    symbol = str(module.operation.attributes["sym_name"]).strip('"')
    return f"{symbol}-{found.digest().hex()}"
