"""`pallas_call`: a kernel over blocks of arrays, as an operation of programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import tree
from ...control.common import permute, trace_function
from ...control.expand import register_inline
from ...control.mapped import map_elements
from ...core.avals import ShapedArray, typeof
from ...core.jaxpr import Jaxpr, closed_without_consts
from ...core.naming import fun_source_info
from ...core.primitive import No, Primitive
from ...core.refs import ref_effect
from ...core.symbolic import Zero, instantiate_zeros
from ...errors import MissingRuleError
from ...interpreters import mlir
from ...primitives.common import as_array
from ...transforms.batch import AxisData, batch_jaxpr, matchaxis
from ...transforms.jvp import jvp_jaxpr
from ..checkify import check_inside
from .ids import tracing_for
from .lower import globals_as_scratch, kernel_program, run_grid, split_as
from .mapping import grid_mapping, kernel_grid, mapped_over, scratch_tree
from .specs import (
    CompilerParams,
    CostEstimate,
    FrozenDict,
    GridSpec,
    MemoryRef,
    NoBlockSpec,
    as_tuples,
    no_block_spec,
)


def _type(*avals: Any, out_avals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    return list(out_avals), frozenset(e for e in jaxpr.effects if e is not ref_effect)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """A call of the kernel's own derivative: over blocks of the primals and of the tangents."""
    mapping = params["grid_mapping"]
    n_dyn, n_in, n_out = mapping.num_dynamic_grid_bounds, mapping.num_inputs, mapping.num_outputs
    ins, dots = list(primals[n_dyn:]), list(tangents[n_dyn:])
    aliases = params["input_output_aliases"]
    out_dots = [a.to_tangent_aval() for a in params["out_avals"]]
    moves_out = [a.dtype == d.dtype for a, d in zip(params["out_avals"], out_dots, strict=True)]
    lent = {i for i, o in aliases if moves_out[o]}
    dots = [instantiate_zeros(t) if k in lent else t for k, t in enumerate(dots)]
    moves_in = [type(t) is not Zero for t in dots]
    refs = mapping.scratch_avals
    moves_scratch = [r.to_tangent_aval().dtype == r.dtype for r in refs]
    closed = closed_without_consts(params["jaxpr"])
    with tracing_for(kernel_grid(mapping)):  # custom rules may ask for the place
        program, _ = jvp_jaxpr(closed, [*moves_in, *moves_out, *moves_scratch], False)
    n, total = [n_in, n_out, len(refs)], n_in + n_out + len(refs)
    counts = [sum(moves_in), sum(moves_out), sum(moves_scratch)]
    order: list[int] = []
    at, dot = 0, total
    for mine, moving in zip(n, counts, strict=True):
        order += [*range(at, at + mine), *range(dot, dot + moving)]
        at, dot = at + mine, dot + moving
    blocks = list(mapping.block_mappings)
    groups = [
        *blocks[:n_in], *_chosen(blocks[:n_in], moves_in),
        *blocks[n_in:], *_chosen(blocks[n_in:], moves_out),
    ]  # fmt: skip
    new_aliases = list(aliases)
    for i, o in aliases:
        if moves_out[o]:
            new_aliases.append((n_in + sum(moves_in[:i]), n_out + sum(moves_out[:o])))
    outs = pallas_call_p.bind(
        *primals[:n_dyn], *ins, *_chosen(dots, moves_in),
        **{
            **params,
            "jaxpr": permute(program, order, ()).jaxpr,
            "grid_mapping": mapping.replace(
                block_mappings=tuple(groups),
                scratch_avals=(*refs, *_chosen(refs, moves_scratch)),
                num_inputs=n_in + counts[0],
                num_outputs=n_out + counts[1],
            ),
            "input_output_aliases": tuple(new_aliases),
            "out_avals": (*params["out_avals"], *_chosen(out_dots, moves_out)),
        },
    )  # fmt: skip
    given = iter(outs[n_out:])
    return outs[:n_out], [
        next(given) if m else Zero(a) for a, m in zip(out_dots, moves_out, strict=True)
    ]


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, flags, strict=True) if f]


def _depends(params: dict[str, Any], mapped: Sequence[bool], axis: AxisData) -> list[bool]:
    """Which results depend on mapped inputs: those into whose blocks, at some step, something goes
    that does."""
    mapping = params["grid_mapping"]
    program, written = kernel_program(globals_as_scratch(params["jaxpr"])[0], mapping)
    n_place = 2 * len(mapping.kernel_axes)
    held = [False] * (len(program.in_avals) - n_place)
    held[: len(mapped)] = mapped
    lent = dict(params["input_output_aliases"])
    for i, o in lent.items():
        held[mapping.num_inputs + o] |= mapped[i]
    while True:
        try:
            found = batch_jaxpr(program, axis, [False] * n_place + held)[1]
        except MissingRuleError:  # an axis of the grid needs no batching rules
            return [True] * mapping.num_outputs
        new = [h or (k in written and found[written.index(k)]) for k, h in enumerate(held)]
        if new == held:
            return held[mapping.num_inputs : len(mapping.block_mappings)]
        held = new


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """The same call over a grid with one more axis in front."""
    mapping = params["grid_mapping"]
    n_dyn, cost = mapping.num_dynamic_grid_bounds, params["cost_estimate"]
    if all(d is None for d in dims):
        return None
    size = axis.size
    depends = _depends(params, [d is not None for d in dims[n_dyn:]], axis)
    if any(d is not None for d in dims[:n_dyn]):  # grids of different sizes
        moved = [
            x if d is None else matchaxis(size, d, 0, x) for x, d in zip(args, dims, strict=True)
        ]
        flags = [d is not None for d in dims]
        outs, _ = map_elements(
            lambda *xs: pallas_call_p.bind(*xs, **params),
            tree.structure(tuple(range(len(args)))), moved, flags, size,
        )  # fmt: skip
        return outs, [0] * len(outs)
    aliased = {n_dyn + i for i, _ in params["input_output_aliases"]}
    args, dims = list(args), list(dims)
    for k in aliased:  # results are mapped: what lends its memory to one is mapped along axis 0
        args[k], dims[k] = matchaxis(size, dims[k], 0, args[k]), 0
    places = [*dims[n_dyn:], *(0,) * mapping.num_outputs]
    blocks = tuple(
        mapped_over(b, d, size) for b, d in zip(mapping.block_mappings, places, strict=True)
    )
    outs = pallas_call_p.bind(
        *args,
        **{
            **params,
            "grid_mapping": mapping.replace(
                grid=(size, *mapping.grid),
                vmapped_dims=(0, *(k + 1 for k in mapping.vmapped_dims)),
                block_mappings=blocks,
                index_map_avals=(*mapping.index_map_avals, blocks[0].index_map_jaxpr.in_avals[0])
                if blocks
                else mapping.index_map_avals,
                index_map_tree=tree.structure((tuple(range(len(mapping.grid) + 1)), {})),
            ),
            "out_avals": tuple(a.update(shape=(size, *a.shape)) for a in params["out_avals"]),
            "cost_estimate": cost and CostEstimate(*(size * n for n in cost.values())),
        },
    )
    return [x if d else x[0] for x, d in zip(outs, depends, strict=True)], [
        0 if d else None for d in depends
    ]


pallas_call_p = Primitive(
    "pallas_call",
    multiple_results=True,
    effectful=True,
    abstract_eval=_type,
    jvp=_jvp,
    transpose=No.NOT_LINEAR,
    batch=No.BY_TRACE,
    axis_batch=_batch,
    partial_eval=split_as(run_grid),  # as other loops are: kernels have gradients
    register=False,
)


# --- how it is compiled ---
_own_rules: dict[tuple[str, type], Any] = {}


def register_lowering_rule(params_cls: type, rule: Callable[..., Any], platform: str) -> None:
    """Registers how kernels are compiled whose `compiler_params` are of a class: `rule(ctx,
    *values, **params)`, as rules of `interpreters.mlir`, gives the values of the results.

    The one platform here is "cpu": rules for it take the place of the native loop unless the call
    says `interpret`; those for others are kept and never asked. TypeError unless `params_cls` is a
    class and `rule` can be called.

    >>> from pullback.extend import pallas
    >>> class Params(pl.CompilerParams):
    ...     pass
    >>> pallas.register_lowering_rule(Params, lambda ctx, *values, **params: values, "tpu")
    """
    if not isinstance(params_cls, type) or not callable(rule):
        raise TypeError(
            f"register_lowering_rule: expected a class and a function, got {params_cls!r} and "
            f"{rule!r}. Fix: pass the class of the compiler parameters, then the rule."
        )
    ruled = Primitive(
        "pallas_call", multiple_results=True, effectful=True, abstract_eval=_type, register=False
    )
    if platform == "cpu":
        mlir.register_lowering(ruled, rule, platform)
    _own_rules[platform, params_cls] = ruled


def _compiled(*args: Any, **params: Any) -> Any:
    ruled = _own_rules.get(("cpu", type(params["compiler_params"])))
    if ruled is not None and not params["interpret"]:
        return ruled.bind(*args, **params)
    return run_grid(*args, **params)


register_inline(pallas_call_p, _compiled)
check_inside(pallas_call_p, run_grid)


# --- the user's function ---
def _out_aval(x: Any) -> Any:
    if isinstance(x, MemoryRef):
        return x.inner_aval
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ValueError(
            f"Invalid out_shape type: {type(x)}. Fix: jax.ShapeDtypeStruct(shape, dtype)."
        )
    return ShapedArray(tuple(x.shape), x.dtype)


def _check_aliases(
    aliases: Mapping[int, int], ins: Sequence[Any], outs: Sequence[Any]
) -> tuple[tuple[int, int], ...]:
    for i, o in aliases.items():
        about = f"input_output_aliases contains the mapping '{i}:{o}'"
        if not 0 <= i < len(ins):
            raise ValueError(
                f"{about} with input index {i} outside the range [0, {len(ins)}). Fix: name inputs "
                "by their number among the arrays."
            )
        if not 0 <= o < len(outs):
            raise ValueError(
                f"{about} with output index {o} outside the range [0, {len(outs)}). Fix: name "
                "outputs by their number among the arrays."
            )
        a, b = ins[i], outs[o]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError(
                f"{about} referring to input[{i}] with abstract value {a.str_short()} and to "
                f"output with a different abstract value {b.str_short()}. Fix: arrays of one type "
                "share memory."
            )
    return tuple(aliases.items())


def _traced_kernel(
    kernel: Any, mapping: Any, trees: tuple[Any, Any, Any], by_name: bool, many: bool
) -> Jaxpr:
    """The kernel of (inputs, outputs, scratch), trees of these structures, as a program over
    references; ValueError if it returns, or closes over, arrays."""

    def run(ins: Any, outs: Any, scratch: Any) -> Any:
        out = kernel(
            *ins, *(outs if many else (outs,)), *(() if by_name else scratch),
            **(scratch if by_name else {}),
        )  # fmt: skip
        leaves, found = tree.flatten(out)
        if leaves:
            raise ValueError(
                f"The kernel function in the pallas_call {fun_source_info(kernel)} should return "
                f"None. It returns a PyTree: {found}. Fix: write results into the output "
                "references."
            )
        return None

    refs = [*(b.block_aval for b in mapping.block_mappings), *mapping.scratch_avals]
    whole = tree.structure(tuple(tree.unflatten(t, [0] * t.num_leaves) for t in trees))
    grid = kernel_grid(mapping)
    with tracing_for(grid):
        closed, consts, _ = trace_function(
            run, whole, refs, "pallas_call", owner=kernel,
            fixed=(grid, by_name, many), names=lambda: None,
        )  # fmt: skip
    captured = [typeof(c) for c in (*consts, *closed.consts)]
    if captured:
        shown = ", ".join(a.str_short(short_dtypes=True) for a in captured)
        raise ValueError(
            f"The kernel function in the pallas_call {fun_source_info(kernel)} captures constants "
            f"[{shown}]. You should pass them as inputs."
        )
    return closed.jaxpr


def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: CompilerParams | None = None,
    cost_estimate: CostEstimate | None = None,
    metadata: dict[str, str] | None = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `kernel` at every step of a grid, on blocks of its arguments
    and results.

    The kernel is given references: one for each input, one for each output, then the scratch
    memory. It reads and writes them (`ref[...]`, `ref[i]`, `ref[pl.ds(start, size)]`) and returns
    nothing. The whole is compiled to native code, a loop over the grid, whatever `interpret` is;
    the values are those of JAX's interpreter.

    out_shape: a `ShapeDtypeStruct` (anything with shape and dtype), or a tree of them; a sequence
        gives the kernel a reference for each, and is returned as a tuple.
    grid, in_specs, out_specs, scratch_shapes: see `GridSpec`, or give them as one `grid_spec`.
    input_output_aliases: from numbers of inputs to numbers of outputs, which start with what these
        inputs hold.
    debug: prints the kernel's program.
    compiler_params, cost_estimate, metadata, name: kept in the program, without meaning here.

    Works under jit, vmap (an axis of the grid more), jvp, and in reverse mode, which JAX lacks.

    Raises ValueError if specs do not fit the arrays, if the kernel returns anything or closes over
    arrays, or if aliases are of different types; TypeError if the kernel does not take as many
    references.

    >>> def add_kernel(x_ref, y_ref, o_ref):
    ...     o_ref[...] = x_ref[...] + y_ref[...]
    >>> block = pl.BlockSpec((2,), lambda i: (i,))
    >>> add = pl.pallas_call(
    ...     add_kernel, pb.ShapeDtypeStruct((6,), jnp.float32), grid=(3,),
    ...     in_specs=[block, block], out_specs=block)
    >>> add(jnp.arange(6.0), jnp.ones(6))
    Array([1., 2., 3., 4., 5., 6.], dtype=float32)
    """
    if not callable(kernel):
        raise TypeError(
            f"pallas_call: the first argument must be callable, got {kernel!r}. Fix: pass the "
            "kernel, a function of references."
        )
    spec = _spec_of(grid_spec, grid, in_specs, out_specs, scratch_shapes)
    shapes = as_tuples(out_shape)
    many = isinstance(shapes, tuple) and not hasattr(shapes, "_fields")
    out_paths, out_tree = tree.flatten_with_path(shapes)
    outs = [_out_aval(x) for _, x in out_paths]
    origins = [f"outputs{tree.keystr(path)}" for path, _ in out_paths]

    def wrapped(*args: Any) -> Any:
        paths, in_tree = tree.flatten_with_path(tuple(args))
        flat = [as_array(x) for _, x in paths]
        ins = [typeof(x).strip_weak_type() for x in flat]
        mapping, bounds = grid_mapping(
            spec, ins, in_tree, [f"args{tree.keystr(p)}" for p, _ in paths],
            outs, out_tree, origins, debug,
        )  # fmt: skip
        held_tree, by_name = scratch_tree(spec)
        jaxpr = _traced_kernel(kernel, mapping, (in_tree, out_tree, held_tree), by_name, many)
        if debug:
            print(f"\nJaxpr of the kernel in pallas_call {fun_source_info(kernel)}:\n{jaxpr}")
        found = pallas_call_p.bind(
            *bounds,
            *flat,
            out_avals=tuple(outs),
            jaxpr=jaxpr,
            debug=debug,
            interpret=interpret,
            grid_mapping=mapping,
            mesh=None,
            input_output_aliases=_check_aliases(input_output_aliases, ins, outs),
            compiler_params=compiler_params,
            cost_estimate=cost_estimate,
            metadata=None if metadata is None else FrozenDict(metadata),
            name=name,
        )
        return tree.unflatten(out_tree, found)

    return wrapped


def _spec_of(
    grid_spec: GridSpec | None, grid: Any, in_specs: Any, out_specs: Any, scratch_shapes: Any
) -> GridSpec:
    """The one specification, given whole or by its parts; ValueError if it is given by both."""
    if grid_spec is None:
        return GridSpec(grid, in_specs, out_specs, scratch_shapes)
    _only_in_spec(
        grid=(grid, ()),
        scratch_shapes=(scratch_shapes, ()),
        in_specs=(in_specs, None),
        out_specs=(out_specs, None),
    )
    return grid_spec


def _only_in_spec(**given: tuple[Any, Any]) -> None:
    for what, (value, default) in given.items():
        missing = isinstance(value, NoBlockSpec) if default is None else value == default
        if not missing:
            raise ValueError(
                f"If `grid_spec` is specified, then `{what}` must be "
                f"`{no_block_spec if default is None else default}`. It is {value}. Fix: give it "
                "in the GridSpec."
            )
