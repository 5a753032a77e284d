"""`jax._src.compiler`: what turns programs into executables, and the options of XLA's compiler."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ....runtime.dispatch import executable
from .lib import xla_client

logger = logging.getLogger("jax._src.compiler")


def backend_compile_and_load(backend: Any, module: Any, *options: Any, **more: Any) -> Any:
    """Compiles a closed jaxpr."""
    return executable(module)


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: Any = None,
    env_options_overrides: dict[str, str] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: Any = None,
) -> Any:
    """Options of XLA's compiler (jaxlib's `CompileOptions`). ValueError for an assignment of
    devices of another shape than (replicas, partitions)."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = num_replicas, num_partitions
    build = options.executable_build_options
    if fdo_profile is not None:
        build.fdo_profile = fdo_profile
    if env_options_overrides is not None:
        options.env_option_overrides = list(env_options_overrides.items())
    if device_assignment is not None:
        ids = np.array(
            [[getattr(d, "id", d) for d in row] for row in np.atleast_2d(device_assignment)]
        )
        if ids.shape != (num_replicas, num_partitions):
            raise ValueError(
                f"the devices {device_assignment} are of shape {ids.shape}, not "
                f"{(num_replicas, num_partitions)}: one for each replica and partition."
            )
        assigned = xla_client.DeviceAssignment.create(ids)
        options.device_assignment = assigned
        build.device_assignment = assigned
        build.num_replicas, build.num_partitions = num_replicas, num_partitions
    return options


def use_detailed_logging(module: Any) -> bool:
    """Is a program long enough that its compilation is told in detail?"""
    return True
