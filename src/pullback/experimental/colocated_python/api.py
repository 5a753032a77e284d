"""`colocated_python.api`: the functions of the package, under the name of JAX's module."""

from __future__ import annotations

from . import (
    colocated_cpu_devices as colocated_cpu_devices,
    colocated_python as colocated_python,
    colocated_python_class as colocated_python_class,
)

__all__: list[str] = []
