"""`jax._src.test_util`: what tests written for JAX are made of. Needs absl-py."""

from __future__ import annotations

from typing import Any

from absl.testing import parameterized as parameterized

from .....api.jit import jit as _jit
from .....test_util import (
    check_grads as check_grads,
    check_jvp as check_jvp,
    check_vjp as check_vjp,
)
from .....version import JAX_VERSION
from .. import dtypes as dtypes_of_jax, test_warning_util as test_warning_util
from ..public_test_util import (
    _default_tolerance as _default_tolerance,
    check_close as check_close,
    default_gradient_tolerance as default_gradient_tolerance,
    default_tolerance as default_tolerance,
    rand_like as rand_like,
    tolerance as tolerance,
)
from ..test_warning_util import ignore_warning as ignore_warning
from .case import *  # noqa: F403
from .cases import *  # noqa: F403
from .counts import *  # noqa: F403
from .counts import parse_version as parse_version
from .events import *  # noqa: F403
from .precise import (
    numpy_with_mpmath as numpy_with_mpmath,
    vectorize_with_mpmath as vectorize_with_mpmath,
)
from .values import *  # noqa: F403
from .values import (
    cast_to_shape as _cast_to_shape,  # noqa: F401
    dims_of as _dims_of_shape,  # noqa: F401
    format_shape_dtype_string as _format_shape_dtype_string,  # noqa: F401
)


def _never(*_: Any, **__: Any) -> bool:
    return False


# What there is elsewhere only.
is_device_tpu = is_device_tpu_at_least = is_cloud_tpu = is_cloud_tpu_at_least = _never
is_device_cuda = is_device_rocm = is_cuda_compute_capability_at_least = _never
is_cuda_compute_capability_equal = is_cuda_version_at_least = running_in_cloud_tpu_vm = _never
is_asan = is_msan = is_tsan = is_sanitized = is_gil_disabled = is_test_rbe = _never
pjrt_c_api_version_at_least = stablehlo_version_at_least = _never


class _Jit:
    """One way to compile a function, with the name that tests tell it by."""

    def __init__(self, call: Any, name: str) -> None:
        self._call, self._name = call, name

    def __call__(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        return self._call(f, *args, **kwargs)

    def __repr__(self) -> str:
        return self._name


# The ways to compile a function that some tests go through; the other one is not to compile it.
JIT_IMPLEMENTATION = (_Jit(_jit, "jit"), _Jit(lambda f, *args, **kwargs: f, "noop"))
cuda_versions = None  # CUDA is not there


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


def jaxlib_version() -> tuple[int, ...]:
    """The version that Pullback follows."""
    return parse_version(JAX_VERSION)


def get_cuda_nonportable_max_cluster_size() -> int:
    """Raises ValueError: there is no CUDA."""
    raise ValueError("Device is not a GPU of CUDA's")


def _dtype(x: Any) -> Any:
    """The dtype that a value has, or would have as an array."""
    return x.dtype if hasattr(x, "dtype") else dtypes_of_jax.dtype(x)


def get_tpu_version() -> int:
    """Raises ValueError: there is none."""
    raise ValueError("Device is not TPU")


class CudaArchSpecificTest:
    """A base class of tests for GPUs of some kinds: they are skipped."""

    def skip_unless_sm90a(self) -> None:
        self.skipTest("Only works on GPUs with capability sm90a")  # type: ignore[attr-defined]

    def skip_unless_tcgen05(self) -> None:
        self.skipTest("Only works on GPUs with capability tcgen05")  # type: ignore[attr-defined]

    skip_unless_tcgen05_int8 = skip_unless_tcgen05


def cases_from_gens(*gens: Any) -> Any:
    """Some of the combinations of what generators choose, each a named case."""
    sizes = [1, 3, 10]
    for size in sizes:
        for k in range(NUM_GENERATED_CASES.value // len(sizes)):  # noqa: F405
            yield (f"_{size}_{k}", *(gen(size) for gen in gens))
