"""`jax._src.test_loader`: how tests written for JAX are loaded. Needs absl-py."""

from __future__ import annotations

from .test_util import (
    JaxTestLoader as JaxTestLoader,
    thread_unsafe_test as thread_unsafe_test,
    thread_unsafe_test_class as thread_unsafe_test_class,
)
