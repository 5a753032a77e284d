"""Running: a module is compiled by jaxlib's client and executed on NumPy arrays.

The platform's name is `xla_cpu`: the CPU again, through XLA.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...core.avals import ShapedArray
from ...core.jaxpr import ClosedJaxpr
from ...primitives.keys import base_array, lower_keys
from ...transforms.partial_eval import dce_closed
from .contexts import LoweringParameters, LoweringResult, ShardingContext
from .library import lapack, lapack_kernels, xla_client
from .lowering import ordered
from .module import lower_jaxpr_to_module
from .types import physical

PLATFORM = "xla_cpu"


@functools.cache
def cpu_client() -> Any:
    """The process's client of XLA for CPUs; LAPACK's functions are registered with it."""
    lapack_kernels.initialize()  # where SciPy keeps LAPACK's functions
    for name, target, api in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, target, platform="cpu", api_version=api)
    return xla_client.make_cpu_client()


def lower(
    closed: ClosedJaxpr, name: str = "program", donated: Sequence[bool] = (), **options: Any
) -> LoweringResult:
    """A program as a module for one CPU."""
    return lower_jaxpr_to_module(
        name, closed, num_const_args=0, in_avals=closed.in_avals,
        ordered_effects=ordered(closed.effects), platforms=["cpu"], backend=None,
        axis_context=ShardingContext(1),
        donated_args=list(donated) or [False] * len(closed.in_avals),
        lowering_parameters=LoweringParameters(), **options,
    )  # fmt: skip


@functools.cache
def _sharding() -> Any:
    """Where arguments lie: on the one device. jaxlib's class leaves a few questions to JAX's
    subclass of it."""
    device = cpu_client().local_devices()[0]

    class Place(xla_client.SingleDeviceSharding):  # type: ignore[misc]
        _device_assignment = (device,)
        _internal_device_list = xla_client.DeviceList((device,))
        device_set = frozenset({device})
        memory_kind = None
        is_fully_replicated = is_fully_addressable = True

        def _to_xla_hlo_sharding(self, ndim: int) -> Any:
            return xla_client.HloSharding.replicate()

        def shard_shape(self, shape: Any) -> Any:
            return shape

    return Place(device)


def to_device(x: Any) -> Any:
    """A NumPy array as one of XLA's client."""
    device = cpu_client().local_devices()[0]
    aval = ShapedArray(x.shape, x.dtype)
    return xla_client.batched_device_put(aval, _sharding(), [x], [device], enable_x64=True)


def from_device(x: Any) -> Any:
    """An array of XLA's client as one of NumPy."""
    return x._single_device_array_to_np_array_did_copy()[0]


def compile_options(device_count: int = 1) -> Any:
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, device_count
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, device_count
    return options


class XlaExecutable:
    """A program that XLA compiled: call it with arrays of its argument types."""

    def __init__(self, closed: ClosedJaxpr, name: str = "program") -> None:
        closed = lower_keys(closed)
        closed, _ = dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)
        self.lowered = lower(closed, name)
        self.in_avals = [physical(a) for a in closed.in_avals]
        self.out_avals = [physical(a) for a in closed.out_avals]
        self._tokens = len(ordered(closed.effects))
        self.name, client = name, cpu_client()
        devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
        self._executable = client.compile_and_load(
            self.lowered.module, devices, compile_options(),
            self.lowered.host_callbacks,
        )  # fmt: skip

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]:
        """The results for arguments in the order of the program, as NumPy arrays."""
        values = [np.zeros(0, bool)] * self._tokens
        for x, aval in zip(arrays, self.in_avals, strict=True):
            values.append(_argument(x, aval))
        outs = self._executable.execute_sharded(list(map(to_device, values)))
        parts = outs.disassemble_into_single_device_arrays()
        found = [from_device(p[0]) for p in parts[self._tokens :]]
        return [_result(x, aval) for x, aval in zip(found, self.out_avals, strict=True)]

    def as_text(self) -> str:
        """XLA's program, as it was optimised."""
        return str(self._executable.get_hlo_text())

    def memory_analysis(self) -> Any:
        return self._executable.get_compiled_memory_stats()


def _argument(x: Any, aval: Any) -> Any:
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, bool)
    return np.ascontiguousarray(np.asarray(base_array(x)).astype(aval.dtype, copy=False))


def _result(x: Any, aval: Any) -> Any:
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return x
