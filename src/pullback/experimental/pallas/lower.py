"""What `pallas_call` means, in operations that compile: a loop over the grid, in which blocks are
cut out of arrays, the kernel's program is run on their values, and what it wrote is put back.

The semantics are those of JAX's interpreter. Arrays that blocks stick out of are padded first;
steps run one after the other, the last axis of the grid fastest; what was never written is NaN, the
least integer or False.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes, lax, numpy as jnp
from ...control.refs import discharge
from ...control.while_loop import fori_loop
from ...core.avals import ShapedArray, typeof
from ...core.jaxpr import ClosedJaxpr, Jaxpr, closed_without_consts, eval_jaxpr
from ...core.primitive import No, Primitive
from ...core.refs import ref_effect
from ...core.trace import use_trace
from .ids import taking_place
from .mapping import BlockMapping, GridMapping, dynamic_grid_dim
from .specs import SEMAPHORE, BoundedSlice, Element, Indirect, Squeezed


def split_as(program: Callable[..., Any]) -> Callable[..., Any]:
    """Partial evaluation of a primitive that means `program(*args, **params)`: the program's."""

    def rule(trace: Any, unknown: Any, tracers: Sequence[Any], params: dict[str, Any]) -> Any:
        with use_trace(trace):
            return program(*tracers, **params)

    return rule


def nothing_yet(aval: Any) -> Any:
    """What memory holds that nothing was written to."""
    dtype = aval.dtype
    value: Any
    if dtypes.is_inexact(dtype):
        value = complex("nan+nanj") if dtypes.is_complex(dtype) else float("nan")
    elif dtypes.is_integer(dtype):
        value = int(jnp.iinfo(dtype).min)
    else:
        value = False
    return lax.full(aval.shape, value, dtype)


def scratch_value(ref_aval: Any) -> Any:
    """What memory of a type holds at first."""
    inner = ref_aval.inner_aval
    if ref_aval.kind == SEMAPHORE:
        return lax.full(inner.shape, 0, inner.dtype)
    return nothing_yet(inner)


# --- references that the kernel asks for ---
get_global_p = Primitive(
    "get_global",
    effectful=True,
    abstract_eval=lambda *, what: (what, frozenset({ref_effect})),
    jvp=No.NOT_DIFFERENTIABLE,
    transpose=No.HOLDS_NO_ARRAYS,
    batch=No.HOLDS_NO_ARRAYS,
    register=False,
)


def globals_as_scratch(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[Any, ...]]:
    """A kernel that gets the references it asks for as its last arguments, and their types."""
    asked = [e for e in jaxpr.eqns if e.primitive is get_global_p]
    if not asked:
        return jaxpr, ()
    made = [e.outvars[0] for e in asked]
    found = jaxpr.derived.get("globals as scratch")
    if found is None:
        found = jaxpr.derived["globals as scratch"] = jaxpr.replace(
            invars=[*jaxpr.invars, *made],
            eqns=[e for e in jaxpr.eqns if e.primitive is not get_global_p],
        )
    return found, tuple(v.aval for v in made)


# --- blocks ---
def _margins(mapping: BlockMapping) -> list[tuple[int, int]]:
    """How many elements each axis is padded by, before and behind."""
    margins = []
    for dim, n in zip(mapping.block_shape, mapping.array_aval.shape, strict=True):
        before, behind = dim.padding if isinstance(dim, Element) else (0, 0)
        if not isinstance(dim, (Squeezed, Indirect)):  # whole blocks, those of `Element` too
            behind += -(before + n + behind) % dim.block_size
        margins.append((before, behind))
    return margins


def _padded(x: Any, mapping: BlockMapping) -> Any:
    margins = _margins(mapping)
    if not any(a or b for a, b in margins):
        return x
    aval = typeof(x)
    filler = nothing_yet(ShapedArray((), aval.dtype))
    return lax.pad(x, filler, [(a, b, 0) for a, b in margins])


def _unpadded(x: Any, mapping: BlockMapping) -> Any:
    margins = _margins(mapping)
    if not any(a or b for a, b in margins):
        return x
    shape = mapping.array_aval.shape
    return lax.slice(
        x, [a for a, _ in margins], [a + n for (a, _), n in zip(margins, shape, strict=True)]
    )


class Window:
    """A block of an array at one step: read and written as a value."""

    __slots__ = ("mapping", "shape", "sizes", "starts")

    def __init__(self, mapping: BlockMapping, shape: Sequence[int], place: Sequence[Any]) -> None:
        self.mapping = mapping
        self.shape = tuple(shape)
        self.sizes = [getattr(b, "block_size", 1) for b in mapping.block_shape]
        program = mapping.index_map_jaxpr
        # The kernel's axes are the last ones; index maps see all.
        held = taking_place(program, len(program.in_avals))
        n = len(program.in_avals)
        entries = eval_jaxpr(held.jaxpr, held.consts, *place[:n], *place[n:], *place[:n])
        self.starts = [
            e if isinstance(b, (Element, BoundedSlice, Indirect, Squeezed)) else e * b.block_size
            for b, e in zip(mapping.block_shape, entries, strict=True)
        ]

    def _is_all(self) -> bool:
        return tuple(self.sizes) == self.shape and not self._indices()

    def _indices(self) -> list[int]:
        return [k for k, b in enumerate(self.mapping.block_shape) if isinstance(b, Indirect)]

    def _along(self) -> tuple[list[Any], list[int]]:
        """Starts and sizes of the slice that holds the block, before indices are looked up."""
        named = self._indices()
        starts = [0 if k in named else s for k, s in enumerate(self.starts)]
        return starts, [self.shape[k] if k in named else n for k, n in enumerate(self.sizes)]

    def read(self, x: Any) -> Any:
        """The block's value, as the kernel sees it."""
        block = x
        if not self._is_all():
            block = lax.dynamic_slice(x, *self._along())
        for k in self._indices():
            block = lax.gather(
                block, self.starts[k][:, None], _rows_of(block.ndim, k),
                [1 if a == k else n for a, n in enumerate(block.shape)], mode="clip",
            )  # fmt: skip
        seen = self.mapping.block_aval.shape
        return block if block.shape == seen else lax.reshape(block, seen)

    def write(self, x: Any, new: Any) -> Any:
        """The array with the block's value replaced."""
        block = new if typeof(new).shape == tuple(self.sizes) else lax.reshape(new, self.sizes)
        starts, sizes = self._along()
        named = self._indices()
        for k in named:  # rows of what is there are replaced one after the other
            there = lax.dynamic_slice(x, starts, sizes)
            for row in range(self.sizes[k]):
                one = lax.slice_in_dim(block, row, row + 1, axis=k)
                there = lax.dynamic_update_slice_in_dim(there, one, self.starts[k][row], k)
            block = there
        return block if self._is_all() else lax.dynamic_update_slice(x, block, starts)


def _rows_of(rank: int, axis: int) -> Any:
    return lax.GatherDimensionNumbers(
        offset_dims=tuple(a for a in range(rank) if a != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )


# --- the loop ---
def kernel_program(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[ClosedJaxpr, list[int]]:
    """(the kernel as a program of (indices, sizes, values of blocks and of scratch memory), which
    of these it writes): it gives the new values of those. Remembered.
    """
    rank = len(mapping.kernel_axes)
    placed = taking_place(closed_without_consts(jaxpr), rank, mapping.grid_names or ())
    pure, written = discharge(placed)
    return pure, [k - 2 * rank for k in written]


def place_of(step: Any, sizes: Sequence[Any]) -> list[Any]:
    """The index along each axis of the grid at a step, the last axis being the fastest."""
    place: list[Any] = []
    for k, n in reversed(list(enumerate(sizes))):
        if k == 0:
            place.append(step)
        elif isinstance(n, int) and n == 1:
            place.append(np.int32(0))
        else:
            n = np.int32(n) if isinstance(n, int) else n
            place.append(lax.rem(step, n))
            step = lax.div(step, n)
    return place[::-1]


def _grid_sizes(mapping: GridMapping, bounds: Sequence[Any]) -> list[Any]:
    given = iter(bounds)
    return [
        lax.convert_element_type(next(given), np.int32) if n is dynamic_grid_dim else n
        for n in mapping.grid
    ]


def run_grid(
    *args: Any,
    jaxpr: Jaxpr,
    grid_mapping: GridMapping,
    input_output_aliases: tuple[tuple[int, int], ...],
    out_avals: Sequence[Any],
    **_: Any,
) -> list[Any]:
    """The results of a kernel: what `pallas_call` means for (the grid's traced sizes, inputs)."""
    mapping, n_dynamic = grid_mapping, grid_mapping.num_dynamic_grid_bounds
    sizes = _grid_sizes(mapping, args[:n_dynamic])
    inputs = list(args[n_dynamic:])
    lent = {o: inputs[i] for i, o in input_output_aliases}
    outs = [lent[k] if k in lent else nothing_yet(a) for k, a in enumerate(out_avals)]
    blocks = mapping.block_mappings
    arrays = [_padded(x, b) for x, b in zip([*inputs, *outs], blocks, strict=True)]
    jaxpr, more = globals_as_scratch(jaxpr)
    values = [*arrays, *map(scratch_value, (*mapping.scratch_avals, *more))]
    program, written = kernel_program(jaxpr, mapping)

    def step(t: Any, moving: Sequence[Any]) -> list[Any]:
        now = list(values)
        for k, x in zip(written, moving, strict=True):
            now[k] = x
        place = place_of(t, sizes)
        held = [np.int32(n) if isinstance(n, int) else n for n in sizes]
        windows = [
            Window(b, typeof(x).shape, [*place, *held]) for b, x in zip(blocks, now, strict=False)
        ]
        seen = [w.read(x) for w, x in zip(windows, now, strict=False)] + now[len(windows) :]
        axes = mapping.kernel_axes
        at = [place[k] for k in axes] + [held[k] for k in axes]
        news = eval_jaxpr(program.jaxpr, program.consts, *at, *seen)
        return [
            windows[k].write(now[k], x) if k < len(windows) else x
            for k, x in zip(written, news, strict=True)
        ]

    finals = list(values)
    for k, x in zip(written, _looped(step, sizes, [values[k] for k in written]), strict=True):
        finals[k] = x
    first, end = mapping.num_inputs, len(blocks)
    return [_unpadded(x, b) for x, b in zip(finals[first:end], blocks[first:], strict=True)]


def _looped(step: Any, sizes: Sequence[Any], init: list[Any]) -> list[Any]:
    if all(isinstance(n, int) for n in sizes):
        steps = math.prod(max(n, 0) for n in sizes)
        if steps == 0:
            return init
        if steps == 1:
            return step(np.int32(0), init)  # type: ignore[no-any-return]
        total: Any = np.int32(steps)
        # With known bounds the loop is a scan.
        return fori_loop(np.int32(0), total, step, init)  # type: ignore[no-any-return]
    total = np.int32(1)
    for n in sizes:
        total = lax.mul(total, lax.max(n if not isinstance(n, int) else np.int32(n), np.int32(0)))
    return fori_loop(np.int32(0), total, step, init)  # type: ignore[no-any-return]
