"""What users say about blocks, grids, memory and costs: plain data, without programs."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import dtypes, tree
from ...core.avals import ShapedArray
from ...core.refs import AbstractRef
from ...records import record

__all__ = [
    "BlockDim",
    "BlockSpec",
    "Blocked",
    "BoundedSlice",
    "Buffered",
    "CompilerParams",
    "CostEstimate",
    "DeviceIdType",
    "Element",
    "GridSpec",
    "Indirect",
    "MemoryRef",
    "MemorySpace",
    "NoBlockSpec",
    "RevisitMode",
    "Squeezed",
    "no_block_spec",
    "semaphore",
    "squeezed",
]


# --- one axis of a block ---
@record(eq=True)
class Blocked:
    """An axis that is cut into blocks of `block_size`: the index map counts blocks.

    >>> pl.Blocked(2)
    Blocked(block_size=2)
    """

    block_size: int


@record(eq=True)
class Element:
    """An axis of which the block takes `block_size` elements: the index map counts elements, behind
    `padding` elements before the first one (and there are as many after the last one).

    >>> windows = pl.pallas_call(
    ...     lambda x, o: o.set(x[...]), pb.ShapeDtypeStruct((2, 3), jnp.float32), grid=2,
    ...     in_specs=[pl.BlockSpec((pl.Element(3),), lambda i: i)],
    ...     out_specs=pl.BlockSpec((None, 3), lambda i: (i, 0)))
    >>> windows(jnp.arange(4.0))
    Array([[0., 1., 2.],
           [1., 2., 3.]], dtype=float32)
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@record(eq=True)
class Squeezed:
    """An axis of which the block takes one element, and which the kernel does not see; `None` in a
    block's shape says the same.

    >>> pl.BlockSpec((pl.Squeezed(), 8), lambda i: (i, 0)).block_shape
    (Squeezed(), 8)
    """


@record(eq=True)
class BoundedSlice:
    """An axis of which the index map takes a slice of at most `block_size` elements.

    The index map gives `pl.ds(start, block_size)` there. Only TPUs' pipelines take it in JAX;
    here its start counts elements.

    >>> pl.BoundedSlice(4)
    BoundedSlice(4)
    """

    block_size: int

    def __repr__(self) -> str:
        return f"BoundedSlice({self.block_size})"


@record(eq=True)
class Indirect:
    """An axis of which the block takes the elements that an array of `block_size` indices names:
    the index map gives the array. Only TPUs' sparse cores take it in JAX.

    >>> pl.Indirect(2)
    Indirect(2)
    """

    block_size: int

    def __repr__(self) -> str:
        return f"Indirect({self.block_size})"


BlockDim = Element | Squeezed | Blocked | BoundedSlice | Indirect
squeezed = Squeezed()


class NoBlockSpec:
    """Says that nothing is said: the kernel sees the whole array."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


# --- memory ---
class MemorySpace(enum.Enum):
    """Where a kernel's array is to lie. There is one memory here: they all mean it.

    A member that is called makes a type of scratch memory.

    >>> pl.ANY((2, 3), jnp.float32)
    MemoryRef(inner_aval=ShapedArray(float32[2,3]), memory_space=<MemorySpace.ANY: 'any'>)
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"

    def __str__(self) -> str:
        return str(self.value)

    def from_type(self, ty: Any) -> MemoryRef:
        """Memory for an array of a type."""
        return MemoryRef(ty, self)

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> MemoryRef:
        if dtype is semaphore:
            return SemaphoreRef(ShapedArray(tuple(shape), np.dtype(np.int32)), self)
        return MemoryRef(ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype)), self)


@record(eq=True)
class MemoryRef:
    """A type of memory that a kernel is lent: of scratch, or in `run_scoped`.

    >>> pl.MemoryRef(pb.core.ShapedArray((2,), jnp.float32), pl.ANY).shape
    (2,)
    """

    inner_aval: Any
    memory_space: Any

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)

    def get_array_aval(self) -> Any:
        """The type of the array in it."""
        return self.inner_aval.update(memory_space=self.memory_space)

    def get_ref_aval(self) -> AbstractRef:
        """The type of the reference that a kernel gets."""
        return AbstractRef(self.inner_aval, self.memory_space)


SEMAPHORE = "semaphore"  # the kind of references that count, from 0


class SemaphoreRef(MemoryRef):
    """A counter, or an array of them."""

    __slots__ = ()

    def get_ref_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval, self.memory_space, SEMAPHORE)


class semaphore:
    """The dtype of semaphores, for scratch memory: `pl.ANY((), pl.semaphore)`. They begin at 0.

    >>> def kernel(x_ref, o_ref, count):
    ...     pl.semaphore_signal(count, 3)
    ...     pl.semaphore_wait(count, 1)
    ...     o_ref[...] = x_ref[...] + pl.semaphore_read(count)
    >>> pl.pallas_call(kernel, jnp.zeros(2), scratch_shapes=[pl.ANY((), pl.semaphore)])(
    ...     jnp.zeros(2))
    Array([2., 2.], dtype=float32)
    """

    def __new__(cls, *args: Any) -> semaphore:
        raise TypeError(
            "cannot create 'semaphore' instances. Fix: scratch memory of this dtype is "
            "pl.ANY(shape, pl.semaphore)."
        )


# --- what other machines' compilers are told ---
class RevisitMode(enum.Enum):
    """Whether a block that was left may be written again later. Here it always may.

    >>> pl.RevisitMode.ANY
    <RevisitMode.ANY: 'any'>
    """

    IMMEDIATE = "immediate"
    ANY = "any"


class DeviceIdType(enum.Enum):
    """How a device is named: by its coordinates in a mesh, or by its number.

    >>> pl.DeviceIdType.MESH
    <DeviceIdType.MESH: 'mesh'>
    """

    MESH = "mesh"
    LOGICAL = "logical"


@record(eq=True)
class Buffered:
    """How many buffers a pipeline keeps for a block. There is no pipeline here: it changes nothing.

    >>> pl.Buffered(2)
    Buffered(buffer_count=2, use_lookahead=False, revisit=None)
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


class CompilerParams:
    """The base of classes of parameters for other machines' compilers; without meaning here.

    >>> issubclass(pl.CompilerParams, object)
    True
    """


@record(eq=True)
class CostEstimate:
    """What a kernel costs: operations, elementary functions, bytes read and written.

    >>> pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=8)
    CostEstimate(flops=1, transcendentals=0, bytes_accessed=8, remote_bytes_transferred=0)
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def values(self) -> tuple[int, ...]:
        return (
            self.flops,
            self.transcendentals,
            self.bytes_accessed,
            self.remote_bytes_transferred,
        )

    def to_json(self) -> bytes:
        """The fields as JSON."""
        names = "flops transcendentals bytes_accessed remote_bytes_transferred".split()
        return json.dumps(dict(zip(names, self.values(), strict=True))).encode()


class FrozenDict(Mapping[str, Any]):
    """Metadata as a parameter: a dictionary that can be hashed."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenDict) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({self._values})"


# --- blocks and grids ---
class BlockSpec:
    """Which block of an array the kernel sees at each step of the grid.

    block_shape: per axis an int or `Blocked` (blocks counted from 0), `None` or `Squeezed` (one
        element, an axis that the kernel does not see), `Element` (elements counted from 0). None
        for the whole array.
    index_map: a function from the grid's indices to the block's, one integer an axis (by default
        zeros).
    pipeline_mode, memory_space: how and where other machines keep the block; without meaning here.

    Blocks that stick out of the array are filled up with NaN, the least integer or False; what is
    written there is dropped.

    >>> double = pl.pallas_call(
    ...     lambda x_ref, o_ref: o_ref.set(2 * x_ref[...]), jnp.zeros(4), grid=2,
    ...     in_specs=[pl.BlockSpec((2,), lambda i: i)], out_specs=pl.BlockSpec((2,), lambda i: i))
    >>> double(jnp.arange(4.0))
    Array([0., 2., 4., 6.], dtype=float32)
    """

    __slots__ = ("block_shape", "index_map", "memory_space", "pipeline_mode")

    def __init__(
        self,
        block_shape: Sequence[Any] | None = None,
        index_map: Callable[..., Any] | None = None,
        pipeline_mode: Buffered | None = None,
        *,
        memory_space: Any | None = None,
    ) -> None:
        self.block_shape = block_shape if block_shape is None else tuple(block_shape)
        self.index_map, self.memory_space = index_map, memory_space
        self.pipeline_mode = pipeline_mode

    def _key(self) -> tuple[Any, ...]:
        return self.block_shape, self.index_map, self.memory_space, self.pipeline_mode

    def replace(self, **changes: Any) -> BlockSpec:
        """The same with some fields changed."""
        return BlockSpec(**{**{n: getattr(self, n) for n in self.__slots__}, **changes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockSpec) and self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"BlockSpec(block_shape={self.block_shape}, index_map={self.index_map}, "
            f"memory_space={self.memory_space!r}, pipeline_mode={self.pipeline_mode})"
        )


def as_tuples(x: Any) -> Any:
    """Lists, at any depth of a tree of specs, as tuples."""
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return tuple(map(as_tuples, x))
    return x


class GridSpec:
    """The grid of a kernel, and how it cuts its arrays: what `pallas_call` takes as one argument.

    grid: the number of steps along each axis, the last one fastest; an int for one axis; pairs
        (name, size) name axes for `lax.axis_index`. Sizes may be traced.
    in_specs, out_specs: a `BlockSpec` for each input and output, in trees like theirs.
    scratch_shapes: memory that the kernel is lent, as `pl.ANY(shape, dtype)`; it keeps what is in
        it from step to step.

    >>> pl.GridSpec(grid=(2,))
    GridSpec(grid=(2,), grid_names=None, in_specs=NoBlockSpec, out_specs=NoBlockSpec, scratch_shapes=())
    """  # noqa: E501

    __slots__ = ("grid", "grid_names", "in_specs", "out_specs", "scratch_shapes")

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        sizes = grid if isinstance(grid, (tuple, list)) else (grid,)
        named = [isinstance(n, (tuple, list)) for n in sizes]
        if any(named) and not all(named):
            raise TypeError(
                f"grid: either all axes are pairs (name, size), or none is, got {grid}. Fix: name "
                "every axis."
            )
        self.grid_names = tuple(n for n, _ in sizes) if any(named) else None
        self.grid = tuple(n for _, n in sizes) if any(named) else tuple(sizes)
        self.in_specs, self.out_specs = as_tuples(in_specs), as_tuples(out_specs)
        self.scratch_shapes = as_tuples(scratch_shapes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridSpec) and all(
            getattr(self, n) == getattr(other, n) for n in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__slots__)
        return f"GridSpec({fields})"


def is_spec(x: Any) -> bool:
    """Is it a leaf of a tree of specs?"""
    return isinstance(x, (BlockSpec, NoBlockSpec))


def specs_like(specs: Any, structure: Any, what: str, other: str) -> list[Any]:
    """A spec for each leaf of a tree; ValueError unless the trees are alike."""
    n = structure.num_leaves
    if isinstance(specs, NoBlockSpec):
        return [no_block_spec] * n
    leaves, found = tree.flatten(specs, is_leaf=is_spec)
    if found != structure:
        wanted = tree.unflatten(structure, [0] * n)
        given = tree.unflatten(found, [0] * len(leaves))
        errors = [
            f"    * {f'at {tree.keystr(path)}, ' if path else ''}`{what}` is {a} but `{other}` is "
            f"{b}, so {why}"
            for path, a, b, why in tree.equality_errors(given, wanted)
        ]
        raise ValueError(
            f"Pytree for `{what}` and `{other}` do not match. There are {len(errors)} mismatches, "
            "including:\n" + "\n".join(errors) + f"\nFix: one BlockSpec for each of the {n}."
        )
    bad = next((s for s in leaves if not is_spec(s)), None)
    if bad is not None:
        raise AttributeError(
            f"{what}: expected a BlockSpec, got {bad!r} of type {type(bad)}. Fix: "
            "pl.BlockSpec(block_shape, index_map)."
        )
    return leaves
