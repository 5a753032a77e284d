"""Python functions that run on the hosts of devices. Pullback's devices have one host: this
process, so that such a function runs here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...sharding import Mesh

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of these devices: for a sequence of devices a list, for a mesh a
    mesh of the same shape. Pullback's devices are CPU devices.

    >>> colocated_cpu_devices(pb.devices()) == pb.devices()
    True
    """
    if isinstance(devices_or_mesh, Mesh):
        return devices_or_mesh
    if isinstance(devices_or_mesh, (Sequence, np.ndarray)):
        return list(devices_or_mesh)
    raise TypeError(
        "colocated_cpu_devices takes a sequence of devices or a Mesh, got "
        f"{type(devices_or_mesh).__name__}. Fix: colocated_cpu_devices(jax.devices())."
    )


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, run on the host of its arguments' devices; `.specialize(in_specs=, out_specs_fn=,
    devices=)` fixes what it takes, gives and where it runs.

    >>> colocated_python(lambda x: x + 1)(jnp.arange(2))
    Array([1, 2], dtype=int32)
    """
    if not callable(fun):
        raise TypeError(
            f"colocated_python takes a function, got {type(fun).__name__}. Fix: pass a function."
        )

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    def specialize(in_specs: Any = None, out_specs_fn: Any = None, devices: Any = None) -> Any:
        return colocated_python(fun)

    run.specialize = specialize  # type: ignore[attr-defined]
    return run


def colocated_python_class(cls: type[object]) -> type[object]:
    """A class whose objects live on the hosts of the devices of their methods' arguments."""
    if not isinstance(cls, type):
        raise TypeError(
            f"colocated_python_class takes a class, got {type(cls).__name__}. Fix: pass a class."
        )
    return cls
