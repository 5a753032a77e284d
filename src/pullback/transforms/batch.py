"""Vectorisation: a trace whose values have one extra axis, which each primitive's batch rule
carries through; and the batched jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..core import source
from ..core.avals import ShapedArray, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.explicit import parts_of, typed
from ..core.jaxpr import ClosedJaxpr, eval_jaxpr, jaxprs_in_params
from ..core.refs import holds_refs, operations
from ..core.symbolic import SymbolicZero, Zero
from ..core.trace import Trace, Tracer, check_leaks, current_trace, extend_axis_env, use_trace
from ..primitives.layout import broadcast_in_dim_p, squeeze
from ..primitives.shape import broadcast, reduce_sum, slice_in_dim, transpose

not_mapped = None


class AxisData:
    """The mapped axis: its name (None if it has none), size, how spmd programs name it, and whether
    its elements are the devices of a mesh, each of which runs the program (`shard_map`)."""

    __slots__ = ("devices", "lies", "name", "size", "spmd_name")

    def __init__(
        self, name: Any, size: int, spmd_name: Any = None, lies: Any = None, devices: bool = False
    ) -> None:
        self.name, self.size, self.spmd_name, self.devices = name, size, spmd_name, devices
        # How the mapped axes lie over mesh axes of explicit type: (a sharding over the mesh, an
        # entry of a spec).
        self.lies = lies

    def __repr__(self) -> str:
        return f"AxisData(name={self.name}, size={self.size}, spmd_name={self.spmd_name})"

    def key(self) -> tuple[Any, ...]:
        return (self.name, self.size, self.spmd_name, self.lies, self.devices)


class BatchTracer(Tracer):
    """A value with a batch axis at `batch_dim`; its aval is without it."""

    __slots__ = ("batch_dim", "source_info", "val")

    def __init__(self, trace: BatchTrace, val: Any, batch_dim: int) -> None:
        self._trace = trace
        self.val, self.batch_dim = val, batch_dim
        self.aval = unbatched_aval(typeof(val), batch_dim)
        self.source_info = source.current()

    def _origin_msg(self) -> str:
        return f"This BatchTracer was made at {self.source_info.summary()}."

    def _leak_msg(self) -> str:
        where = self.source_info.summary()
        return f"This BatchTracer with object id {id(self)} was created on line:\n  {where}\n"

    def full_lower(self) -> Any:
        return self

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={typeof(self.val)})"


def unbatched_aval(aval: Any, dim: int) -> Any:
    """The type of one element of a batch."""
    shape = aval.shape
    if not 0 <= dim < len(shape):
        raise ValueError(
            f"internal error in pullback: batch dimension {dim} of a value of shape {shape}"
        )
    new = shape[:dim] + shape[dim + 1 :]
    if aval._sharding is not None:
        parts = parts_of(aval)
        return typed(aval.update(shape=new), aval._sharding, parts[:dim] + parts[dim + 1 :])
    return aval.update(shape=new)


def batched_aval(aval: Any, dim: int | None, size: int, lies: Any = None) -> Any:
    """The type of a batch of values (of the value itself if dim is None); `lies` is as in
    AxisData."""
    if dim is None:
        return aval
    shape = aval.shape
    new = (*shape[:dim], size, *shape[dim:])
    if aval._sharding is not None or lies is not None:
        like, part = lies or (aval._sharding, None)
        parts = parts_of(aval)
        return typed(aval.update(shape=new), like, (*parts[:dim], part, *parts[dim:]))
    return aval.update(shape=new)


def axes_around(trace: Any) -> Iterator[AxisData]:
    """The mapped axes of a trace and of those that it passes operations on to."""
    while trace is not None:
        if isinstance(trace, BatchTrace):
            yield trace.axis
        trace = trace.parent_trace


class BatchTrace(Trace):
    """Vectorises: see the module."""

    __slots__ = ("axis",)

    def __init__(self, parent_trace: Trace, axis: AxisData) -> None:
        super().__init__(parent_trace)
        self.axis = axis

    def split(self, x: Any) -> tuple[Any, int | None]:
        # A custom function is mapped by a trace of its own, over the same axis: what it closes
        # over of the values mapped is known there, too.
        if isinstance(x, BatchTracer) and x._trace.axis is self.axis:  # type: ignore[attr-defined]
            return x.val, x.batch_dim
        return x, None

    def join(self, val: Any, dim: int | None) -> Any:
        if type(val) is SymbolicZero and dim is not None:
            return SymbolicZero(unbatched_aval(val.aval, dim))
        return val if dim is None or type(val) is Zero else BatchTracer(self, val, dim)

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if "discharge" in primitive.rules and holds_refs(primitive, params):
            for jaxpr in jaxprs_in_params(params):
                operations["check_numbers"](jaxpr)
            with use_trace(self):
                return primitive.rules["discharge"](tracers, params)
        vals, dims = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        axis_rule = primitive.rules.get("axis_batch")
        with use_trace(self.parent_trace):  # type: ignore[arg-type]
            if axis_rule is not None:
                # An axis primitive, or one that holds a jaxpr: it sees the axis even when no
                # operand is mapped.
                result = axis_rule(self.axis, vals, dims, **params)
                if result is None:
                    return primitive.bind(*vals, **params)
                out, out_dims = result
            elif all(d is None for d in dims):
                return primitive.bind(*vals, **params)
            else:
                with source.pinned():
                    out, out_dims = primitive.rule("batch")(vals, dims, **params)
        if primitive.multiple_results:
            if not isinstance(out_dims, (list, tuple)):
                out_dims = [out_dims] * len(out)
            return [self.join(v, d) for v, d in zip(out, out_dims, strict=True)]
        return self.join(out, out_dims)

    def _batched(
        self,
        fun: Callable[..., Sequence[Any]],
        dims: Sequence[int | None],
        out_dims: list[Any],
    ) -> Any:
        """A flat function on batches. Its results all have the axis in front if any operand is
        mapped, so that a function and its custom rule agree on where it is. `out_dims` is filled
        with where the axis was."""
        mapped = any(d is not None for d in dims)
        axis = self.axis  # programs keep these functions: nothing in them may hold a trace

        def batched(*args: Any) -> list[Any]:
            outs, found = batch_flat(fun, args, dims, axis)
            out_dims[:] = [0] * len(outs) if mapped else found
            return [
                matchaxis(axis.size, d, w, x, axis.lies)
                for x, d, w in zip(outs, found, out_dims, strict=True)
            ]

        return _named_as(fun, batched)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
    ) -> Any:
        vals, dims = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        parent: Any = self.parent_trace
        out_dims: list[Any] = []
        batched_fun = self._batched(fun, dims, out_dims)
        batched_jvp = self._batched(jvp, [*dims, *dims], out_dims)
        with use_trace(parent):
            outs = parent.process_custom_jvp_call(
                primitive, batched_fun, batched_jvp, vals, symbolic_zeros=symbolic_zeros
            )
        return [self.join(v, d) for v, d in zip(outs, out_dims[: len(outs)], strict=True)]

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Any,
        *,
        out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:
        vals, dims = zip(*map(self.split, tracers), strict=True) if tracers else ((), ())
        parent: Any = self.parent_trace
        out_dims: list[Any] = []
        fwd_dims: list[Any] = []
        axis, size = self.axis, self.axis.size
        # With symbolic zeros each operand is followed by a flag, which is never mapped.
        in_dims = [x for d in dims for x in (d, None)] if symbolic_zeros else dims

        # A result that does not depend on what is mapped is not mapped: the user's backward rule
        # then gets one cotangent, the sum over the batch, as in JAX.
        def batched_fun(*args: Any) -> list[Any]:
            outs, found = batch_flat(fun, args, dims, axis)
            out_dims[:] = [None if d is None else 0 for d in found]
            return [matchaxis(size, d, w, x) for x, d, w in zip(outs, found, out_dims, strict=True)]

        def batched_fwd(*args: Any) -> list[Any]:
            outs, found = batch_flat(fwd, args, in_dims, axis)
            n = len(outs) - out_trees().num_residuals
            # What the function gave, if it ran before, tells which results are mapped.
            wanted = out_dims or [None if d is None else 0 for d in found[:n]]
            fwd_dims[:] = [*wanted, *found[n:]]
            return [
                _as_wanted(size, d, w, x) for x, d, w in zip(outs, found, fwd_dims, strict=True)
            ]

        in_avals = [typeof(t) for t in tracers]

        def batched_bwd(*args: Any) -> list[Any]:
            # Residuals and cotangents have the dims that fwd found for residuals and results.
            n_out = len(fwd_dims) - out_trees().num_residuals
            outs, found = batch_flat(bwd, args, [*fwd_dims[n_out:], *fwd_dims[:n_out]], axis)
            return [
                _sum_or_match(size, d, want, x, aval)
                for x, d, want, aval in zip(outs, found, dims, in_avals, strict=True)
            ]

        with use_trace(parent):
            outs = parent.process_custom_vjp_call(
                primitive,
                _named_as(fun, batched_fun),
                _named_as(fwd, batched_fwd),
                _named_as(bwd, batched_bwd),
                vals,
                out_trees=out_trees,
                symbolic_zeros=symbolic_zeros,
            )
        return [
            self.join(v, d) for v, d in zip(outs, (out_dims or fwd_dims)[: len(outs)], strict=True)
        ]


def _named_as(fun: Any, batched: Any) -> Any:
    """A function on batches shows the user's name for it: in programs and in messages."""
    batched.__name__, batched.__wrapped__ = getattr(fun, "__name__", batched.__name__), fun
    return batched


def _as_wanted(size: int, have: int | None, want: int | None, x: Any) -> Any:
    """A result of a forward rule with its batch axis where the function has it. One that is not
    mapped there is the same in all lanes."""
    if want is None and have is not None:
        return squeeze(slice_in_dim(x, 0, 1, axis=have), (have,))
    return matchaxis(size, have, want, x)


def _sum_or_match(size: int, have: int | None, want: int | None, x: Any, aval: Any) -> Any:
    """The cotangent of an operand that was not mapped is the sum over the batch."""
    if type(x) is Zero or x is None:
        return x
    if want is None and have is not None:
        return reduce_sum(x, (have,))
    return matchaxis(size, have, want, x)


def matchaxis(size: int, have: int | None, want: int | None, x: Any, lies: Any = None) -> Any:
    """Moves (or makes) the batch axis of `x` from `have` to `want`. `lies` is as in AxisData."""
    if have == want:
        return x
    if have is None:
        if type(x) is SymbolicZero:  # a tangent that a custom rule gives
            return SymbolicZero(batched_aval(x.aval, want, size, lies))
        return _broadcast_at(x, size, want, lies)  # type: ignore[arg-type]
    if want is None:
        raise ValueError(
            "vmap has mapped output but out_axes is None. Fix: give that output an out_axes, or "
            "reduce over the axis inside the function."
        )
    return moveaxis(x, have, want)


def moveaxis(x: Any, source_axis: int, destination: int) -> Any:
    """`x` with one axis moved."""
    if source_axis == destination:
        return x
    order = [k for k in range(typeof(x).ndim) if k != source_axis]
    order.insert(destination, source_axis)
    return transpose(x, tuple(order))


def _broadcast_at(x: Any, size: int, dim: int, lies: Any = None) -> Any:
    if lies is None:
        return moveaxis(broadcast(x, (size,)), 0, dim)
    (like, part), aval = lies, typeof(x)
    spec = like.spec.update(partitions=(part, *parts_of(aval)))
    shape, behind = (size, *aval.shape), tuple(range(1, 1 + aval.ndim))
    out = broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=behind, sharding=like.update(spec=spec)
    )
    return moveaxis(out, 0, dim)


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    vals: Sequence[Any],
    dims: Sequence[int | None],
    axis: AxisData,
) -> tuple[list[Any], list[int | None]]:
    """Results and their batch dims (None: not mapped) of a flat function on batches."""
    trace = BatchTrace(current_trace(), axis)
    with use_trace(trace), extend_axis_env([(axis.name, axis.size)]):
        outs = fun(*(trace.join(v, d) for v, d in zip(vals, dims, strict=True)))
        pairs = [trace.split(x) for x in outs]
    trace.invalidate()
    del outs
    check_leaks(trace)
    return [v for v, _ in pairs], [d for _, d in pairs]


def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: AxisData,
    in_batched: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program on batches whose axes lead, and which results are batched (those marked by
    `instantiate` always are). Remembered.
    """
    dims = [0 if b else None for b in in_batched]
    want = (
        [instantiate] * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else list(instantiate)
    )
    batched, out_dims = batch_jaxpr_axes(closed, axis, dims, [0 if w else "any" for w in want])
    return batched, [d is not None for d in out_dims]


def batch_jaxpr_axes(
    closed: ClosedJaxpr, axis: AxisData, in_dims: Sequence[int | None], want: Sequence[Any]
) -> tuple[ClosedJaxpr, list[int | None]]:
    """The program on batches with the given dims. `want` has, per result, a dim, or "any": 0 if it
    is mapped, else None; or "found": wherever it comes.
    """
    key = ("batch", axis.key(), tuple(in_dims), tuple(want))
    if key in closed.derived:
        return closed.derived[key]  # type: ignore[no-any-return]
    out_dims: list[int | None] = []

    def fun(*args: Any) -> list[Any]:
        outs, found = batch_flat(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), args, in_dims, axis
        )
        out_dims[:] = [
            d if w == "found" else (None if d is None else 0) if w == "any" else w
            for d, w in zip(found, want, strict=True)
        ]
        return [
            matchaxis(axis.size, d, w, x, axis.lies)
            for x, d, w in zip(outs, found, out_dims, strict=True)
        ]

    avals: list[ShapedArray] = [
        batched_aval(a, d, axis.size, axis.lies)
        for a, d in zip(closed.in_avals, in_dims, strict=True)
    ]
    result = close_jaxpr(*trace_to_jaxpr(fun, avals, closed.jaxpr.debug_info))[0], out_dims
    closed.derived[key] = result
    return result
