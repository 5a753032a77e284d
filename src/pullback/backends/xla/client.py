"""Running: a module is compiled by jaxlib's client and executed on NumPy arrays.

The platform's name is `xla_cpu`: the CPU again, through XLA.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...core.avals import ShapedArray, typeof
from ...core.jaxpr import ClosedJaxpr
from ...core.primitive import Primitive
from ...primitives.common import array_maker
from ...primitives.keys import base_array
from .contexts import LoweringParameters, LoweringResult, ShardingContext
from .library import lapack, lapack_kernels, own_errors, xla_client
from .lowering import ordered, traced
from .module import lower_jaxpr_to_module, prepared
from .types import physical

PLATFORM = "xla_cpu"
_MOST_PROGRAMS = 256  # of a primitive


_making = threading.Lock()


def cpu_client() -> Any:
    """The process's client of XLA for CPUs; LAPACK's functions are registered with it."""
    with _making:  # two clients would not know each other's arrays
        return _cpu_client()


@functools.cache
def _cpu_client() -> Any:
    lapack_kernels.initialize()  # where SciPy keeps LAPACK's functions
    for name, target, api in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, target, platform="cpu", api_version=api)
    return xla_client.make_cpu_client()


def lower(
    closed: ClosedJaxpr, name: str = "program", donated: Sequence[bool] = (),
    platforms: Sequence[str] = ("cpu",), **options: Any,
) -> LoweringResult:  # fmt: skip
    """A program as a module for one device."""
    return lower_jaxpr_to_module(
        name, closed, num_const_args=0, in_avals=closed.in_avals,
        ordered_effects=ordered(closed.effects), platforms=platforms, backend=None,
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


def compile_options(partitions: int = 1, overrides: dict[str, Any] | None = None) -> Any:
    """Options of one compilation; `overrides` are flags of XLA's."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, partitions
    options.env_option_overrides = list((overrides or {}).items())
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, partitions
    build.use_shardy_partitioner = True
    return options


class LoadedModule:
    """A module that XLA compiled: call it with NumPy arrays, tokens left out."""

    def __init__(
        self,
        module: Any,
        out_avals: Sequence[Any],
        tokens: int = 0,
        host_callbacks: Sequence[Any] = (),
        overrides: dict[str, Any] | None = None,
    ) -> None:
        client = cpu_client()
        devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
        options = compile_options(1, overrides)
        with own_errors():
            self.executable = client.compile_and_load(
                module, devices, options, list(host_callbacks)
            )
        self.out_avals, self.tokens = list(out_avals), tokens

    def __call__(self, *arrays: Any) -> list[Any]:
        values = [*[np.zeros(0, bool)] * self.tokens, *arrays]
        with own_errors():
            outs = self.executable.execute_sharded(list(map(to_device, values)))
            parts = outs.disassemble_into_single_device_arrays()[self.tokens :]
            found = [from_device(p[0]) for p in parts]
        return [_result(x, aval) for x, aval in zip(found, self.out_avals, strict=True)]


class XlaExecutable:
    """A program that XLA compiled: call it with arrays of its argument types."""

    def __init__(self, closed: ClosedJaxpr, name: str = "program") -> None:
        closed = prepared(closed)
        self.name, self.lowered = name, lower(closed, name)
        self.in_avals = [physical(a) for a in closed.in_avals]
        self.out_avals = [physical(a) for a in closed.out_avals]
        self._run = LoadedModule(
            self.lowered.module, self.out_avals, len(ordered(closed.effects)),
            self.lowered.host_callbacks,
        )  # fmt: skip

    def __call__(self, arrays: Sequence[Any], donated: Sequence[bool] = ()) -> list[Any]:
        """The results for arguments in the order of the program, as NumPy arrays."""
        return self._run(*map(argument, arrays, self.in_avals))

    def as_text(self) -> str:
        """XLA's program, as it was optimised."""
        return str(self._run.executable.get_hlo_text())

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries, as XLA counts them."""
        return self._run.executable.get_compiled_memory_stats()


def evaluated_alone(prim: Primitive, *args: Any, **params: Any) -> Any:
    """A primitive of a library's that has a rule for this backend only, applied to arrays: a
    program of one equation."""
    avals = [typeof(x).strip_weak_type() for x in args]
    key: Any = (tuple(avals), tuple(params.items()))
    programs = prim.rules.setdefault("stablehlo programs", {})
    try:
        program = programs.get(key)
    except TypeError:  # a parameter that is not hashable
        key, program = None, None
    if program is None:
        closed = traced(prim.bind, avals, prim.multiple_results, **params)
        program = XlaExecutable(closed, prim.name)
        if key is not None:
            if len(programs) >= _MOST_PROGRAMS:
                programs.clear()
            programs[key] = program
    outs = [array_maker[0](x) for x in program(args)]
    return outs if prim.multiple_results else outs[0]


def argument(x: Any, aval: Any) -> Any:
    """An argument as a NumPy array of the program's type."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, bool)
    return np.ascontiguousarray(np.asarray(base_array(x)).astype(aval.dtype, copy=False))


def _result(x: Any, aval: Any) -> Any:
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return x
