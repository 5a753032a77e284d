"""`jax._src.test_util`: what tests written for JAX are made of. Needs absl-py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from absl.testing import parameterized as parameterized

from .....test_util import (
    check_grads as check_grads,
    check_jvp as check_jvp,
    check_vjp as check_vjp,
)
from ..public_test_util import (
    check_close as check_close,
    default_tolerance as default_tolerance,
    tolerance as tolerance,
)
from ..test_warning_util import ignore_warning as ignore_warning
from .case import *  # noqa: F403
from .cases import *  # noqa: F403
from .counts import *  # noqa: F403
from .values import *  # noqa: F403

# How far numerical derivatives lie from ours, by dtype.
default_gradient_tolerance: dict[Any, float] = {
    d: {"bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5, "complex64": 1e-3,
        "complex128": 1e-5}.get(d.name, 1e-1)
    for d in default_tolerance() if d.kind not in "biu" and d.names is None
}  # fmt: skip


def _never(*_: Any) -> bool:
    return False


# What there is elsewhere only.
is_device_tpu = is_device_tpu_at_least = is_cloud_tpu = is_cloud_tpu_at_least = _never
is_device_cuda = is_device_rocm = is_cuda_compute_capability_at_least = _never
is_cuda_compute_capability_equal = is_cuda_version_at_least = running_in_cloud_tpu_vm = _never
is_asan = is_msan = is_tsan = is_sanitized = is_gil_disabled = is_test_rbe = _never
pjrt_c_api_version_at_least = stablehlo_version_at_least = _never


def is_optimized_build() -> bool:
    """Pullback has no other."""
    return True


def device_supports_buffer_donation() -> bool:
    """It does."""
    return True


def is_sequence(x: Any) -> bool:
    """Whether a value can be iterated over."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def get_tpu_version() -> int:
    """Raises ValueError: there is none."""
    raise ValueError("Device is not TPU")


def rand_like(rng: Any) -> Callable[[Any], Any]:
    """Of a generator: random numbers of an array's shape and dtype."""
    return lambda x: np.asarray(rng.randn(*np.shape(x))).astype(x.dtype)
