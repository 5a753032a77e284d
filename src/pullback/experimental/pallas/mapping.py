"""What a grid and its blocks are as data of a program: index maps as programs, blocks as types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes, tree
from ...control.common import trace_function
from ...core.avals import ShapedArray
from ...core.build import close_jaxpr, trace_to_jaxpr
from ...core.jaxpr import ClosedJaxpr, eval_jaxpr
from ...core.naming import fun_source_info
from ...core.refs import AbstractRef
from ...core.trace import Tracer
from ...records import record, replaced
from .ids import INDEX, Grid, tracing_for
from .specs import (
    Blocked,
    BlockSpec,
    BoundedSlice,
    Element,
    GridSpec,
    Indirect,
    MemorySpace,
    NoBlockSpec,
    Squeezed,
    as_tuples,
    specs_like,
)


class _Dynamic:
    """A size of a grid that is an operand."""

    def __repr__(self) -> str:
        return "DynamicGridDim"


dynamic_grid_dim = _Dynamic()


@record(eq=True)
class BlockMapping:
    """How one array is cut into blocks: the block, and the program that maps the grid's indices to
    its place.
    """

    block_shape: tuple[Any, ...]
    block_aval: Any
    index_map_jaxpr: ClosedJaxpr
    array_aval: Any
    origin: str
    pipeline_mode: Any = None
    debug: bool = False

    ref_aval = property(lambda self: self.block_aval)
    transformed_block_aval = property(lambda self: self.block_aval)

    def replace(self, **changes: Any) -> BlockMapping:
        return replaced(self, **changes)

    def has_trivial_window(self) -> bool:
        """Is the block the whole array?"""
        sizes = [getattr(b, "block_size", 1) for b in self.block_shape]
        kinds = {type(b) for b in self.block_shape}
        return kinds <= {Blocked} and sizes == list(self.array_aval.shape)

    def to_block_spec(self) -> BlockSpec:
        program = self.index_map_jaxpr
        return BlockSpec(
            self.block_shape,
            lambda *ids: tuple(eval_jaxpr(program.jaxpr, program.consts, *ids)),
            self.pipeline_mode,
            memory_space=self.block_aval.memory_space,
        )

    def __repr__(self) -> str:
        return f"BlockMapping(block_shape={self.block_shape})"


@record(eq=True)
class GridMapping:
    """A `GridSpec` in a program: sizes of the grid, how each operand and result is cut, and the
    scratch memory. It is the parameter `grid_mapping` of `pallas_call`.

    grid: per axis an int, or `DynamicGridDim` for one that is an operand; axes that vmap added are
        in `vmapped_dims`.
    block_mappings: of the inputs, then of the outputs.
    index_map_tree, index_map_avals: what index maps are called with.

    >>> program = pb.make_jaxpr(pl.pallas_call(lambda x, o: None, jnp.zeros(2), grid=3))(jnp.zeros(2))
    >>> program.jaxpr.eqns[0].params["grid_mapping"].grid
    (3,)
    """  # noqa: E501

    grid: tuple[Any, ...]
    grid_names: tuple[Any, ...] | None
    block_mappings: tuple[BlockMapping, ...]
    index_map_tree: Any
    index_map_avals: tuple[Any, ...]
    vmapped_dims: tuple[int, ...]
    scratch_avals: tuple[Any, ...]
    num_index_operands: int
    num_inputs: int
    num_outputs: int
    get_grid_indices: Callable[..., Any] | None = None
    local_grid_env: Callable[..., Any] | None = None
    debug: bool = False

    num_dynamic_grid_bounds = property(lambda self: sum(n is dynamic_grid_dim for n in self.grid))
    num_scratch_operands = property(lambda self: len(self.scratch_avals))
    static_grid = property(
        lambda self: tuple(None if n is dynamic_grid_dim else n for n in self.grid)
    )
    in_block_mappings = property(lambda self: self.block_mappings[: self.num_inputs])
    block_mappings_output = property(lambda self: self.block_mappings[self.num_inputs :])
    # Which axes of the grid the kernel knows of: those that vmap added it does not.
    kernel_axes = property(
        lambda self: [k for k in range(len(self.grid)) if k not in self.vmapped_dims]
    )
    slice_index_ops = property(lambda self: slice(0, self.num_index_operands))
    slice_block_ops = property(
        lambda self: slice(
            self.num_index_operands, self.num_index_operands + len(self.block_mappings)
        )
    )
    slice_scratch_ops = property(
        lambda self: slice(
            self.slice_block_ops.stop, self.slice_block_ops.stop + len(self.scratch_avals)
        )
    )

    def replace(self, **changes: Any) -> GridMapping:
        """The same with some fields changed."""
        return replaced(self, **changes)

    def __repr__(self) -> str:
        return f"GridMapping(grid={self.grid}, block_mappings={self.block_mappings})"


def kernel_grid(mapping: GridMapping) -> Grid:
    """The grid as the kernel knows it."""
    static = mapping.static_grid
    return Grid(tuple(static[k] for k in mapping.kernel_axes), mapping.grid_names)


# --- from specs ---
def _block_dims(block_shape: Sequence[Any], origin: str) -> tuple[Any, ...]:
    """Each axis as an object; TypeError or ValueError for what says no size."""
    dims: list[Any] = []
    for b in block_shape:
        if b is None:
            dims.append(Squeezed())
        elif isinstance(b, (Blocked, Element, Squeezed, BoundedSlice, Indirect)):
            dims.append(b)
        elif isinstance(b, (int, np.integer)) and not isinstance(b, bool):
            dims.append(Blocked(int(b)))
        else:
            raise TypeError(
                f"Block shape for {origin} has {b!r} of type {type(b)} for an axis. Fix: an int, "
                "None, or one of pl.Blocked, pl.Element, pl.Squeezed."
            )
        if getattr(dims[-1], "block_size", 1) < 1:
            raise ValueError(
                f"Block shape for {origin} (= {tuple(block_shape)}) has an axis without elements. "
                "Fix: sizes of at least 1."
            )
    return tuple(dims)


def _whole(shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(Blocked(n) for n in shape)


def _zeros(rank: int) -> Callable[..., Any]:
    def index_map(*ids: Any) -> tuple[int, ...]:
        return (0,) * rank

    return index_map


def _index_program(
    index_map: Callable[..., Any] | None, dims: tuple[Any, ...], grid: Grid, origin: str
) -> ClosedJaxpr:
    """The index map as a program: (index along each axis of the grid) -> one entry an axis."""
    fun = _zeros(len(dims)) if index_map is None else index_map
    n = len(grid.sizes)

    def entries(*ids: Any) -> tuple[Any, ...]:
        out = fun(*ids)
        found = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        about = f"Index map function {fun_source_info(fun)} for {origin} must return"
        if len(found) != len(dims):
            raise ValueError(
                f"{about} {len(dims)} values to match block_shape={dims}. Currently returning "
                f"{len(found)} values: {found}. Fix: one index for each axis of the array."
            )
        # A slice is where it starts.
        found = tuple(getattr(e, "start", e) for e in found)
        for k, (e, dim) in enumerate(zip(found, dims, strict=True)):
            shape = (dim.block_size,) if isinstance(dim, Indirect) else ()
            aval = _type_of(e)
            if aval is None or aval.shape != shape or not dtypes.is_integer(aval.dtype):
                raise ValueError(
                    f"{about} integer scalars. Output[{k}] has type "
                    f"{e if aval is None else aval.str_short()}. Fix: integer arithmetic (//) in "
                    "the index map."
                )
        return found

    with tracing_for(grid):
        closed, consts, _ = trace_function(
            entries, tree.structure(tuple(range(n))), [INDEX] * n, "pallas_call index_map",
            owner=index_map or _zeros, fixed=(grid, dims, origin), names=lambda: None,
        )  # fmt: skip
    consts = [*consts, *(c for c in closed.consts if np.ndim(c))]
    if consts:
        raise ValueError(
            f"Index map function {fun_source_info(fun)} for {origin} must not capture constants: "
            f"{consts}. Fix: compute the index from the grid's indices."
        )
    return closed


def _type_of(x: Any) -> Any:
    if isinstance(x, Tracer) or hasattr(x, "aval"):
        return x.aval
    if isinstance(x, (bool, int, float, np.generic, np.ndarray)):
        return ShapedArray(np.shape(x), np.asarray(x).dtype)
    return None


def block_mapping(spec: Any, aval: Any, grid: Grid, origin: str, debug: bool) -> BlockMapping:
    """How a spec cuts an array of a type; ValueError, naming the argument, if it cannot."""
    if isinstance(spec, NoBlockSpec):
        spec = BlockSpec()
    shape = aval.shape
    dims = _whole(shape) if spec.block_shape is None else _block_dims(spec.block_shape, origin)
    if len(dims) != len(shape):
        raise ValueError(
            f"Block shape for {origin} (= {dims}) must have the same number of dimensions as the "
            f"array shape {shape}. Fix: one size for each axis."
        )
    seen = tuple(b.block_size for b in dims if not isinstance(b, Squeezed))
    block = AbstractRef(ShapedArray(seen, aval.dtype), spec.memory_space or MemorySpace.DEFAULT)
    program = _index_program(spec.index_map, dims, grid, origin)
    return BlockMapping(dims, block, program, aval, origin, spec.pipeline_mode, debug)


def _sizes(grid: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    """The grid's sizes, and those that are operands; ValueError for what is no size."""
    sizes: list[Any] = []
    dynamic: list[Any] = []
    for n in grid:
        if type(n) is int:
            sizes.append(n)
            continue
        aval = _type_of(n)
        if aval is None or aval.shape != () or not dtypes.is_integer(aval.dtype):
            raise ValueError(
                f"Grid must be a tuple of integers or jax.Array, got {tuple(grid)}. Fix: ints, or "
                "integer scalars."
            )
        sizes.append(dynamic_grid_dim)
        dynamic.append(n)
    return tuple(sizes), dynamic


def grid_mapping(
    spec: GridSpec,
    ins: Sequence[Any],
    in_tree: Any,
    in_origins: Sequence[str],
    outs: Sequence[Any],
    out_tree: Any,
    out_origins: Sequence[str],
    debug: bool,
) -> tuple[GridMapping, list[Any]]:
    """(what a spec means for arrays of these types, the grid's sizes that are operands)."""
    sizes, dynamic = _sizes(spec.grid)
    static = tuple(None if n is dynamic_grid_dim else n for n in sizes)
    grid = Grid(static, spec.grid_names)
    if not isinstance(spec.in_specs, (tuple, NoBlockSpec)):
        raise ValueError(
            f"`in_specs` must be a tuple or a list. Found: {spec.in_specs}. Fix: a list with one "
            "BlockSpec for each argument."
        )
    specs = [
        *specs_like(spec.in_specs, in_tree, "in_specs", "inputs"),
        *specs_like(spec.out_specs, out_tree, "out_specs", "out_shape"),
    ]
    blocks = tuple(
        block_mapping(s, a, grid, origin, debug)
        for s, a, origin in zip(specs, [*ins, *outs], [*in_origins, *out_origins], strict=True)
    )
    n = len(sizes)
    found = GridMapping(
        grid=sizes,
        grid_names=spec.grid_names,
        block_mappings=blocks,
        index_map_tree=tree.structure((tuple(range(n)), {})),
        index_map_avals=(INDEX,) * n,
        vmapped_dims=(),
        scratch_avals=tuple(
            _scratch_aval(s) for s in tree.leaves(spec.scratch_shapes, is_leaf=_is_memory)
        ),
        num_index_operands=0,
        num_inputs=len(ins),
        num_outputs=len(outs),
        debug=debug,
    )
    return found, dynamic


def _is_memory(x: Any) -> bool:
    return hasattr(x, "get_ref_aval")


def _scratch_aval(x: Any) -> Any:
    if not _is_memory(x):
        raise AttributeError(
            f"scratch_shapes: expected a type of memory, got {x!r} of type {type(x)}. Fix: "
            "pl.ANY(shape, dtype)."
        )
    return x.get_ref_aval()


def scratch_tree(spec: GridSpec) -> tuple[Any, bool]:
    """The tree of the scratch memory, and whether the kernel takes it by keyword."""
    _, found = tree.flatten(spec.scratch_shapes, is_leaf=_is_memory)
    return found, isinstance(as_tuples(spec.scratch_shapes), dict)


# --- under vmap ---
def mapped_over(mapping: BlockMapping, dim: int | None, size: int) -> BlockMapping:
    """The same for a grid with one more axis in front, along which the array may be mapped."""
    program = mapping.index_map_jaxpr

    def entries(first: Any, *ids: Any) -> list[Any]:
        outs = list(eval_jaxpr(program.jaxpr, program.consts, *ids))
        if dim is not None:
            outs.insert(dim, first)
        return outs

    key = ("mapped over", dim)
    found = program.derived.get(key)
    if found is None:
        avals = [INDEX, *program.in_avals]
        found = close_jaxpr(*trace_to_jaxpr(entries, avals, program.jaxpr.debug_info))[0]
        program.derived[key] = found
    if dim is None:
        return mapping.replace(index_map_jaxpr=found)
    shape, dims = list(mapping.array_aval.shape), list(mapping.block_shape)
    shape.insert(dim, size)
    dims.insert(dim, Squeezed())
    return mapping.replace(
        index_map_jaxpr=found,
        block_shape=tuple(dims),
        array_aval=mapping.array_aval.update(shape=tuple(shape)),
    )
