"""Programs over meshes as XLA has them: a module on the way to an executable, and tiles of arrays.

One process has one device of XLA's, so that an executable's mesh is that device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.avals import AbstractToken, ShapedArray
from .client import LoadedModule, argument, compile_options
from .library import ir, xla_client
from .module import module_to_string, to_computation

Index = tuple[slice, ...]


def are_hlo_shardings_equal(hc1: Any, hc2: Any) -> bool:
    """Are two shardings of XLA the same? What is replicated is, however it is written."""
    return hc1 is hc2 or (
        is_hlo_sharding_replicated(hc1) and is_hlo_sharding_replicated(hc2)
    ) or hc1 == hc2  # fmt: skip


def is_hlo_sharding_replicated(hc: Any) -> bool:
    """Does every device hold the whole array?"""
    return hc.num_devices() == 1 or bool(hc.is_replicated())


def op_sharding_to_indices(
    op_sharding: Any, shape: Sequence[int], num_devices: int
) -> tuple[Index, ...]:
    """The part of an array of this shape that each device holds."""
    whole = (slice(None),) * len(shape)
    if is_hlo_sharding_replicated(op_sharding):
        return (whole,) * num_devices
    grid, copies = _grid(op_sharding, len(shape))
    found: list[Index] = [whole] * num_devices
    devices = iter(op_sharding.tile_assignment_devices())
    for place in itertools.product(*map(range, grid)):
        index = tuple(_part(n, k, parts) for n, k, parts in zip(shape, place, grid, strict=True))
        for _ in range(copies):
            found[next(devices)] = index
    return tuple(found)


def tiles_of(
    sizes: Mapping[Any, int],
    parts: Sequence[Any],
    ndim: int,
    unreduced: Collection[Any] = frozenset(),
) -> Any:
    """XLA's form of a sharding: the sizes of the mesh's named axes, for each axis of an array the
    name, or names, that it is divided over, and those over which sums are still to come."""
    named = [p if isinstance(p, tuple) else (p,) if p in sizes else () for p in parts]
    named += [()] * (ndim - len(named))
    names = list(sizes)
    used = [n for part in named for n in part]
    grid = [math.prod(sizes[n] for n in part) for part in named]
    if math.prod(grid) == 1 and not unreduced:
        return xla_client.HloSharding.replicate()
    kinds = xla_client.OpSharding.Type
    order, groups = list(used), []
    for kind, members in (
        (kinds.UNREDUCED, [n for n in names if n in unreduced]),
        (kinds.REPLICATED, [n for n in names if n not in used and n not in unreduced]),
    ):
        order += members
        if (copies := math.prod(sizes[n] for n in members)) > 1:
            grid.append(copies)
            groups.append(kind)
    return xla_client.HloSharding.iota_tile(
        dims=grid,
        reshape_dims=list(sizes.values()),
        transpose_perm=[names.index(n) for n in order],
        subgroup_types=groups,
    )


def _grid(op_sharding: Any, ndim: int) -> tuple[list[int], int]:
    """Into how many parts each axis is cut, and how many devices hold each part."""
    sizes = list(op_sharding.tile_assignment_dimensions())
    return sizes[:ndim], int(np.prod(sizes[ndim:], dtype=int))


def _part(size: int, k: int, parts: int) -> slice:
    if parts == 1:
        return slice(None)
    each, rest = divmod(size, parts)
    if rest:
        raise ValueError(f"an axis of size {size} does not divide into {parts} equal parts")
    return slice(k * each, (k + 1) * each)


def create_compile_options(
    computation: Any,
    tuple_args: bool,
    allow_prop_to_inputs: Sequence[bool],
    allow_prop_to_outputs: Sequence[bool],
    backend: Any,
    np_dev: Any,
    compiler_options: dict[str, Any] | None,
) -> Any:
    """The options with which XLA compiles a module for an array of devices: one replica, a
    partition a device; `compiler_options` are flags of XLA's.

    >>> from pullback.interpreters import pxla
    >>> devices = np.asarray(pb.devices()[:1])
    >>> flags = {"xla_cpu_enable_fast_math": True}
    >>> pxla.create_compile_options(None, False, (), (), None, devices, flags).env_option_overrides
    [('xla_cpu_enable_fast_math', True)]
    """
    options = compile_options(max(int(np.size(np_dev)), 1), compiler_options)
    options.parameter_is_tupled_arguments = tuple_args
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.allow_spmd_sharding_propagation_to_parameters = list(allow_prop_to_inputs)
    build.allow_spmd_sharding_propagation_to_output = list(allow_prop_to_outputs)
    return options


# --- results ---
def _array_handler(aval: Any, sharding: Any, committed: bool) -> Callable[[Sequence[Any]], Any]:
    return lambda arrays: np.asarray(arrays[0] if isinstance(arrays, (list, tuple)) else arrays)


def _token_handler(aval: Any, sharding: Any, committed: bool) -> Callable[[Sequence[Any]], Any]:
    return lambda arrays: np.zeros(0, bool)


# How what a program gives becomes values, by the class of the aval: (aval, sharding, committed) ->
# (arrays, one a device) -> value. Open: libraries add to it.
global_result_handlers: dict[type, Callable[..., Any]] = {
    ShapedArray: _array_handler,
    AbstractToken: _token_handler,
}


def global_aval_to_result_handler(
    aval: Any, out_sharding: Any, committed: bool
) -> Callable[[Sequence[Any]], Any]:
    """The function that makes a value of this type of the devices' arrays."""
    for cls in type(aval).__mro__:
        if cls in global_result_handlers:
            made = global_result_handlers[cls](aval, out_sharding, committed)
            return made  # type: ignore[no-any-return]
    raise TypeError(f"No pxla_result_handler for type: {type(aval)}")


class ResultsHandler:
    """Makes values of all that a program gives."""

    def __init__(
        self, handlers: Sequence[Any], out_shardings: Sequence[Any], out_avals: Sequence[Any]
    ) -> None:
        self.handlers, self.out_shardings = list(handlers), list(out_shardings)
        self.out_avals = list(out_avals)

    def __call__(self, out_bufs: Sequence[Any]) -> list[Any]:
        return [h(x) for h, x in zip(self.handlers, out_bufs, strict=True)]


def global_avals_to_results_handler(
    global_out_avals: Sequence[Any], shardings: Sequence[Any], committed: bool
) -> ResultsHandler:
    """The function that makes values of these types of what a program gives."""
    handlers = [
        global_aval_to_result_handler(a, s, committed)
        for a, s in zip(global_out_avals, shardings, strict=True)
    ]
    return ResultsHandler(handlers, shardings, global_out_avals)


# --- computations ---
class MeshComputation:
    """A module that waits to be compiled."""

    def __init__(
        self,
        name: str,
        hlo: Any,
        const_args: list[Any],
        donated_invars: Sequence[bool],
        platforms: Sequence[str],
        compiler_options_kvs: tuple[tuple[str, Any], ...],
        device_assignment: Any,
        **compile_args: Any,
    ) -> None:
        self._name, self._hlo, self.const_args = name, hlo, const_args
        self._donated_invars, self._platforms = donated_invars, platforms
        self._compiler_options_kvs = compiler_options_kvs
        self._device_list, self.compile_args = device_assignment, compile_args

    def stablehlo(self) -> Any:
        """The module."""
        return self._hlo

    def hlo(self) -> Any:
        """The module as XLA's own program."""
        return to_computation(self._hlo)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module ("stablehlo", the default) or XLA's computation ("hlo"). ValueError for other
        dialects."""
        if dialect in (None, "stablehlo"):
            return self.stablehlo()
        if dialect == "hlo":
            return self.hlo()
        raise ValueError(f"unknown dialect: {dialect}")

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """As `compiler_ir`, as text."""
        if dialect == "hlo":
            return str(self.hlo().as_hlo_text())
        return module_to_string(self.compiler_ir(dialect), debug_info)

    def compile(
        self, compiler_options: dict[str, Any] | None = None, *, device_assignment: Any = None
    ) -> MeshExecutable:
        """The module compiled by XLA for this process's CPU."""
        options = {**dict(self._compiler_options_kvs), **(compiler_options or {})}
        known = self.compile_args
        outs = known.get("global_out_avals") or _result_avals(self._hlo)
        loaded = LoadedModule(
            self._hlo, outs, len(known.get("ordered_effects", ())),
            known.get("host_callbacks", ()), options,
        )  # fmt: skip
        ins = known.get("global_in_avals") or _argument_avals(self._hlo)
        open_ins, open_outs = [None] * len(ins), [None] * len(outs)
        return MeshExecutable(
            loaded.executable, lambda: loaded, ins, outs, known.get("in_shardings") or open_ins,
            known.get("out_shardings") or open_outs, set(range(len(ins))), open_ins, open_ins,
            open_outs, None,
        )  # fmt: skip


def _main(module: Any) -> Any:
    return ir.FunctionType(ir.SymbolTable(module.operation)["main"].type)


def _argument_avals(module: Any) -> list[ShapedArray]:
    return [_aval(t) for t in _main(module).inputs if isinstance(t, ir.RankedTensorType)]


def _result_avals(module: Any) -> list[ShapedArray]:
    return [_aval(t) for t in _main(module).results if isinstance(t, ir.RankedTensorType)]


_DTYPES = {
    "i1": "bool",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}


def _aval(kind: Any) -> ShapedArray:
    """The type of an array in MLIR as an aval."""
    text = str(kind.element_type)
    name = _DTYPES.get(text) or {"f": "float", "i": "int", "u": "uint"}[text[0]] + text.lstrip(
        "fiu"
    )
    return ShapedArray(tuple(kind.shape), np.dtype(name))


class MeshExecutable:
    """A compiled module: `call(*arrays)` runs it."""

    def __init__(
        self,
        xla_executable: Any,
        build_unsafe_call: Callable[[], Callable[..., Any]],
        in_avals: Sequence[Any],
        out_avals: Sequence[Any],
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        kept_var_idx: Any,
        xla_in_layouts: Sequence[Any],
        dispatch_in_layouts: Sequence[Any],
        xla_out_layouts: Sequence[Any],
        mut: Any,
        all_args_info: Any = None,
        unloaded_executable: Any = None,
    ) -> None:
        self.xla_executable, self.build_unsafe_call = xla_executable, build_unsafe_call
        self.in_avals, self.out_avals = in_avals, out_avals
        self._in_shardings, self._out_shardings = in_shardings, out_shardings
        self._kept_var_idx, self._mut = kept_var_idx, mut
        self._xla_in_layouts, self._xla_out_layouts = xla_in_layouts, xla_out_layouts
        self._dispatch_in_layouts, self._all_args_info = dispatch_in_layouts, all_args_info
        self._unsafe_call: Any = None
        self.unloaded_executable = unloaded_executable

    @property
    def unsafe_call(self) -> Callable[..., Any]:
        """The function that runs the module, which looks at no types."""
        if self._unsafe_call is None:
            self._unsafe_call = self.build_unsafe_call()
        return self._unsafe_call  # type: ignore[no-any-return]

    def call(self, *args: Any) -> list[Any]:
        """The results for all arguments; those that the program does not read are left out.
        TypeError for another number of them."""
        kept = [x for k, x in enumerate(args) if k in self._kept_var_idx]
        if len(kept) != len(self.in_avals):
            raise TypeError(f"the program takes {len(self.in_avals)} arguments, got {len(args)}")
        return list(self.unsafe_call(*map(argument, kept, self.in_avals)))

    def input_shardings(self) -> Sequence[Any]:
        return self._in_shardings

    def output_shardings(self) -> Sequence[Any]:
        return self._out_shardings

    def input_formats(self) -> Sequence[Any]:
        return self._xla_in_layouts

    def output_formats(self) -> Sequence[Any]:
        return self._xla_out_layouts

    def xla_extension_executable(self) -> Any:
        return self.xla_executable

    def runtime_executable(self) -> Any:
        return self.xla_executable

    def as_text(self) -> str:
        """XLA's program, as it was optimised."""
        return str(self.xla_executable.get_hlo_text())

    def cost_analysis(self) -> Any:
        return self.xla_executable.cost_analysis()

    def memory_analysis(self) -> Any:
        return self.xla_executable.get_compiled_memory_stats()
