"""`shard_map` as an operation: a program on the blocks that the devices of a mesh hold.

The equation holds the program of one device, whose types say over which axes of the mesh values
vary (if that is checked). Transformations transform that program; what is computed is a batch: each
axis of the mesh is a named axis, the first one outermost, and collectives are operations along it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import config
from ..core.avals import said, typeof
from ..core.build import trace_to_jaxpr
from ..core.effects import NamedAxisEffect
from ..core.explicit import names_in, parts_of, typed, varying
from ..core.jaxpr import (
    Jaxpr,
    JaxprEqn,
    closed_without_consts,
    convert_constvars,
    eval_jaxpr,
)
from ..core.primitive import Primitive
from ..core.symbolic import UndefinedPrimal, Zero
from ..core.trace import current_trace, manual_axes, mesh_of_traces, use_trace
from ..core.untyped import untyped
from ..dtypes import float0
from ..primitives.collectives import psum_p, pvary
from ..primitives.common import const
from ..primitives.elementwise import div, mul
from ..primitives.layout import expand_dims, reduce_sum, reshape, squeeze, transpose
from ..primitives.shape import index_in_dim, pad
from ..primitives.sharding import batch_over, with_batch_axis
from ..transforms.batch import AxisData, axes_around, batch_flat, batched_aval, matchaxis
from ..transforms.jvp import jvp_jaxpr
from ..transforms.partial_eval import dce_jaxpr, forward_residuals, partial_eval_jaxpr
from ..transforms.transpose import backward_pass
from .call import mentions_axis
from .common import chosen
from .expand import announce
from .remat import hoist

__all__ = ["bind", "block_type", "inside", "retraced", "shard_map_p", "sizes_of", "variance_left"]


# --- blocks and wholes ---
def parts(spec: Any, ndim: int) -> list[tuple[Any, ...]]:
    """The mesh axes that each axis of an array is cut by."""
    found = [names_in(p) for p in spec]
    return found + [()] * (ndim - len(found))


def names_of(spec: Any) -> frozenset[Any]:
    return frozenset(n for part in spec for n in names_in(part))


def held_by(spec: Any) -> frozenset[Any]:
    """The mesh axes over which devices hold different values: parts of an array, or of a sum that
    is still to come."""
    unreduced: frozenset[Any] = spec.unreduced
    return names_of(spec) | unreduced


def _summed(spec: Any) -> Any:
    """The spec of the cotangent of what has this one: every device has that of a sum whole."""
    return spec.update(unreduced=frozenset()) if spec.unreduced else spec


def sizes_of(params: dict[str, Any]) -> dict[Any, int]:
    """The axes of the mesh that the program sees, and their sizes, in the mesh's order."""
    mesh, own = params["mesh"], params["newly_manual_axes"]
    return {n: int(mesh.shape[n]) for n in mesh.axis_names if n in own}


def inside(params: dict[str, Any]) -> Any:
    """A context in which the program of one device is traced."""
    return manual_axes(list(sizes_of(params).items()), params["check_vma"], _mesh_inside(params))


def _mesh_inside(params: dict[str, Any]) -> Any:
    """The mesh as the program of one device sees it."""
    mesh, own = params["mesh"].abstract_mesh, params["newly_manual_axes"]
    before = mesh_of_traces()
    if before is not None and before.shape_tuple == mesh.shape_tuple:
        mesh = before  # some of its axes may be manual already
    kind = type(mesh.axis_types[0]).Manual
    return mesh.update_axis_types(dict.fromkeys(own, kind))


def block_type(aval: Any, spec: Any, params: dict[str, Any]) -> Any:
    """The type of one block of an array of this type."""
    sizes = sizes_of(params)
    shape = tuple(
        n // math.prod([sizes[name] for name in names])
        for n, names in zip(aval.shape, parts(spec, len(aval.shape)), strict=True)
    )
    out, own = aval.update(shape=shape), params["newly_manual_axes"]
    if aval._sharding is not None:
        left = [tuple(n for n in names_in(p) if n not in own) for p in parts_of(aval)]
        like = aval._sharding.update(mesh=_mesh_inside(params), spec=type(spec)())
        out = typed(out, like, tuple([p or None for p in left]))
    if params["check_vma"] and held_by(spec):
        out = out.update(manual_axis_type=varying(aval.vma | held_by(spec)))
    return out


def whole_type(aval: Any, spec: Any, params: dict[str, Any]) -> Any:
    """The type of the array whose blocks are of this type."""
    sizes, mesh, own = sizes_of(params), params["mesh"].abstract_mesh, params["newly_manual_axes"]
    cut = parts(spec, len(aval.shape))
    shape = tuple(
        n * math.prod([sizes[name] for name in names])
        for n, names in zip(aval.shape, cut, strict=True)
    )
    out = aval.update(shape=shape, manual_axis_type=varying(aval.vma - own), sharding=None)
    explicit = set(mesh.explicit_axes)
    lying = [
        (*(n for n in names if n in explicit), *names_in(p))
        for names, p in zip(cut, parts_of(aval), strict=True)
    ]
    if any(lying) or spec.unreduced or spec.reduced:
        like = aval.sharding.update(mesh=mesh, spec=type(spec)())
        return typed(out, like, tuple([p or None for p in lying]), spec.unreduced, spec.reduced)
    return out


def _cut(x: Any, spec: Any, sizes: dict[Any, int]) -> Any:
    """An array with an axis for each name in its spec in front, in the mesh's order. Of a sum that
    is still to come, the first device has all."""
    own = [name for name in sizes if name in names_of(spec)]
    x = _cut_by_names(x, spec, sizes)
    for name in [name for name in sizes if name in spec.unreduced]:
        at = sum(list(sizes).index(n) < list(sizes).index(name) for n in own)
        own.append(name)
        x = expand_dims(x, (at,))
        edges = [(0, sizes[name] - 1 if k == at else 0, 0) for k in range(typeof(x).ndim)]
        x = pad(x, const(x, 0), edges)
    return x


def _cut_by_names(x: Any, spec: Any, sizes: dict[Any, int]) -> Any:
    shape = typeof(x).shape
    split: list[int] = []
    place: dict[Any, int] = {}
    rest: list[int] = []
    for n, names in zip(shape, parts(spec, len(shape)), strict=True):
        blocks = 1
        for name in names:
            place[name] = len(split)
            split.append(sizes[name])
            blocks *= sizes[name]
        rest.append(len(split))
        split.append(n // blocks)
    order = [place[name] for name in sizes if name in place] + rest
    return transpose(reshape(x, split), order)


def _join(x: Any, spec: Any, sizes: dict[Any, int]) -> Any:
    """The inverse of `_cut`."""
    own = names_of(spec)
    names = [name for name in sizes if name in own]
    at = {name: k for k, name in enumerate(names)}
    local = typeof(x).shape[len(names) :]
    order: list[int] = []
    shape: list[int] = []
    for k, (n, part) in enumerate(zip(local, parts(spec, len(local)), strict=True)):
        order += [at[name] for name in part] + [len(names) + k]
        total = n
        for name in part:
            total *= sizes[name]
        shape.append(total)
    return reshape(transpose(x, order), shape)


# --- what is computed ---
def compute(*args: Any, jaxpr: Jaxpr, in_specs: Any, out_specs: Any, **params: Any) -> list[Any]:
    """The program on all blocks at once, as a batch."""
    body = untyped(jaxpr)
    return on_blocks(lambda *xs: eval_jaxpr(body, (), *xs), args, in_specs, out_specs, params)


def on_blocks(
    run: Any, args: Any, in_specs: Any, out_specs: Any, params: Any, refuse: Any = None
) -> list[Any]:
    """A function of blocks on all blocks at once, as a batch. `run` may fill `out_specs`;
    `refuse(k, axis)` is called where result k varies over an axis although its spec says that it
    does not."""
    sizes = sizes_of(params)
    mapped = run
    for axis, size in reversed(list(sizes.items())):
        in_axes = [0 if axis in held_by(s) else None for s in in_specs]
        mapped = _mapped(mapped, axis, size, in_axes, out_specs, refuse)
    blocks = [_cut(freed[0](x), s, sizes) for x, s in zip(args, in_specs, strict=True)]
    with manual_axes((), False):
        outs = mapped(*blocks)
    return [_join(x, s, sizes) for x, s in zip(outs, out_specs, strict=True)]


# Filled by the layer that lays arrays out: an operand that lies whole, so that what is computed
# does not depend on how it lay.
freed: list[Any] = [lambda x: x]


def _mapped(run: Any, axis: Any, size: int, in_axes: list[Any], out_specs: Any, refuse: Any) -> Any:
    def call(*xs: Any) -> list[Any]:
        outs, dims = batch_flat(run, xs, in_axes, AxisData(axis, size, devices=True))
        done = []
        for k, (x, d, spec) in enumerate(zip(outs, dims, out_specs, strict=True)):
            if axis in names_of(spec):
                done.append(matchaxis(size, d, 0, x))
                continue
            if axis in spec.unreduced:
                done.append(mul(x, const(x, size)) if d is None else reduce_sum(x, (d,)))
                continue
            if d is not None and refuse is not None:
                refuse(k, axis)
            # The same on all devices, or that of the first.
            done.append(x if d is None else index_in_dim(x, 0, d, keepdims=False))
        return done

    return call


def bind(args: Sequence[Any], jaxpr: Jaxpr, params: dict[str, Any], ins: Any, outs: Any) -> Any:
    own = {k: params[k] for k in ("check_vma", "mesh", "newly_manual_axes")}
    return shard_map_p.bind(*args, jaxpr=jaxpr, in_specs=tuple(ins), out_specs=tuple(outs), **own)


# --- rules ---
def _abstract_eval(*avals: Any, jaxpr: Jaxpr, out_specs: Any, **params: Any) -> Any:
    own = params["newly_manual_axes"]
    effects = frozenset(
        e for e in jaxpr.effects if not (isinstance(e, NamedAxisEffect) and e.name in own)
    )
    outs = [whole_type(v.aval, s, params) for v, s in zip(jaxpr.outvars, out_specs, strict=True)]
    return outs, effects


def _whole(params: dict[str, Any]) -> Any:
    """The spec of what every device has whole."""
    return type((*params["in_specs"], *params["out_specs"])[0])()


def _jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    with inside(params):
        jvp, out_nz = jvp_jaxpr(closed_without_consts(jaxpr), nonzeros, False)
    jvp, consts = hoist(jvp)
    ins, outs = params["in_specs"], params["out_specs"]
    results = bind(
        [*consts, *primals, *chosen(tangents, nonzeros)],
        jvp.jaxpr,
        params,
        [*[_whole(params)] * len(consts), *ins, *chosen(ins, nonzeros)],
        [*outs, *chosen(outs, out_nz)],
    )
    n = len(jaxpr.outvars)
    rest = iter(results[n:])
    out_avals = map(typeof, results[:n])
    return results[:n], [
        next(rest) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(out_avals, out_nz, strict=True)
    ]


def retraced(fun: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[Jaxpr, list[Any]]:
    """The program of a function of blocks, and its constants, which come first."""
    with inside(params):
        jaxpr, consts = trace_to_jaxpr(fun, avals)
    return convert_constvars(jaxpr), list(consts)


def _taken(trace: Any) -> frozenset[Any]:
    """The axes of the mesh that mapped axes around will lie over."""
    return frozenset(n for axis in axes_around(trace) for n in names_in(batch_over(axis)))


def _residual_spec(aval: Any, params: dict[str, Any], taken: frozenset[Any]) -> Any:
    """How what is kept for the backward pass is joined: along its first axis."""
    own = params["newly_manual_axes"] - taken
    names = [n for n in params["mesh"].axis_names if n in own]
    if params["check_vma"]:
        names = [n for n in names if n in aval.vma]
    spec = type(_whole(params))
    return spec(tuple(names)) if names else spec()


def _partial_eval(trace: Any, unknown: Sequence[bool], tracers: Any, params: dict[str, Any]) -> Any:
    ins, outs = params["in_specs"], params["out_specs"]
    closed = closed_without_consts(params["jaxpr"])
    with inside(params):
        known, staged, out_unknown, n_res = partial_eval_jaxpr(closed, unknown)
    known, where = forward_residuals(known, n_res)
    n_known = len(out_unknown) - sum(out_unknown)
    res_avals = known.out_avals[n_known:]
    taken = _taken(trace)
    specs = [_residual_spec(a, params, taken) for a in res_avals]
    flat = [not a.shape and len(s) > 0 for a, s in zip(res_avals, specs, strict=True)]

    def known_fun(*xs: Any) -> list[Any]:
        found = eval_jaxpr(known.jaxpr, known.consts, *xs)
        kept = zip(found[n_known:], flat, strict=True)
        return [*found[:n_known], *(expand_dims(r, (0,)) if f else r for r, f in kept)]

    to_flatten = [kind == "res" and flat[k] for kind, k in where]

    def staged_fun(*xs: Any) -> list[Any]:
        res = zip(xs[: len(where)], to_flatten, strict=True)
        given = [squeeze(r, (0,)) if f else r for r, f in res]
        return eval_jaxpr(staged.jaxpr, staged.consts, *given, *xs[len(where) :])

    known_args = [x for x, uk in zip(tracers, unknown, strict=True) if not uk]
    whole = _whole(params)
    body, consts = retraced(known_fun, known.in_avals, params)
    known_ins = chosen(ins, [not uk for uk in unknown])
    known_outs = chosen(outs, [not uk for uk in out_unknown])
    with use_trace(trace.parent_trace):
        results = bind(
            [*consts, *known_args], body, params,
            [*[whole] * len(consts), *known_ins], [*known_outs, *specs],
        )  # fmt: skip
    kept = results[n_known:]
    sources = {"in": known_args, "out": results, "res": kept}
    held = {"in": known_ins, "out": known_outs, "res": specs}
    avals = [
        a.update(shape=(1,)) if f else a
        for a, f in zip(staged.in_avals, [*to_flatten, *[False] * sum(unknown)], strict=True)
    ]
    body, consts = retraced(staged_fun, avals, params)
    operands = [sources[kind][k] for kind, k in where]
    with use_trace(trace.staged):
        staged_outs = iter(
            bind(
                [*consts, *operands, *chosen(tracers, unknown)],
                body,
                params,
                [
                    *[whole] * len(consts),
                    *(held[kind][k] for kind, k in where),
                    *chosen(ins, unknown),
                ],
                chosen(outs, out_unknown),
            )
        )
    known_iter = iter(results[:n_known])
    return [next(staged_outs) if uk else next(known_iter) for uk in out_unknown]


def _transpose(cts: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    """Without checks nothing says what is the same on all devices: a result that is the same has a
    part of its cotangent on each; the cotangent of an operand that each has whole is the sum."""
    ins, outs = (tuple(map(_summed, params[side])) for side in ("in_specs", "out_specs"))
    sizes = sizes_of(params)
    linear = [type(x) is UndefinedPrimal for x in args]
    live = [type(ct) is not Zero for ct in cts]
    zeros: list[bool] = []
    taken = _taken(current_trace())

    def left(spec: Any) -> tuple[Any, ...]:
        return tuple(n for n in sizes if n not in names_of(spec) and n not in taken)

    def backward(*xs: Any) -> list[Any]:
        rest = iter(xs)
        given = [
            UndefinedPrimal(v.aval) if lin else next(rest)
            for v, lin in zip(jaxpr.invars, linear, strict=True)
        ]
        received = [
            next(rest) if alive else Zero(v.aval.to_ct_aval())
            for v, alive in zip(jaxpr.outvars, live, strict=True)
        ]
        found = backward_pass(jaxpr, (), given, received)
        made = []
        zeros[:] = [type(ct) is Zero for ct, lin in zip(found, linear, strict=True) if lin]
        for ct, v, spec, lin in zip(found, jaxpr.invars, ins, linear, strict=True):
            if not lin or type(ct) is Zero:
                continue
            made.append(_as_operand(ct, v.aval, left(spec), params))
        return made

    operands = [x for x, lin in zip(args, linear, strict=True) if not lin]
    given_cts = [
        _shared(ct, math.prod([sizes[n] for n in left(s)]), params)
        for ct, s, alive in zip(cts, outs, live, strict=True)
        if alive
    ]
    avals = [v.aval for v, lin in zip(jaxpr.invars, linear, strict=True) if not lin]
    avals += [v.aval.to_ct_aval() for v, alive in zip(jaxpr.outvars, live, strict=True) if alive]
    body, consts = retraced(backward, avals, params)
    own = chosen(ins, linear)
    results = iter(
        bind(
            [*consts, *operands, *given_cts],
            body,
            params,
            [
                *[_whole(params)] * len(consts),
                *chosen(ins, [not x for x in linear]),
                *chosen(outs, live),
            ],
            [s for s, z in zip(own, zeros, strict=True) if not z],
        )
    )
    flags = iter(zeros)
    return [
        (Zero(x.aval.to_ct_aval()) if next(flags) else next(results)) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def _shared(ct: Any, count: int, params: dict[str, Any]) -> Any:
    if params["check_vma"] or count == 1 or typeof(ct).dtype == float0:
        return ct
    return div(ct, const(ct, count))


def _as_operand(ct: Any, aval: Any, left: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The cotangent of an operand, varying over what it varies over."""
    if params["check_vma"]:
        missing = aval.vma - typeof(ct).vma
        return pvary(ct, missing) if missing else ct
    if not left or typeof(ct).dtype == float0:
        return ct
    return psum_p.bind(ct, axes=left, axis_index_groups=None)


def _batch(axis: Any, vals: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    if all(d is None for d in dims) and not mentions_axis(jaxpr.effects, axis.name):
        return None
    mesh_axes, lies = names_in(batch_over(axis)), None
    if not params["newly_manual_axes"].issuperset(mesh_axes) and axis.lies:
        mesh_axes, lies = (), axis.lies  # over axes that the program leaves as they are
    size = axis.size // math.prod([int(params["mesh"].shape[n]) for n in mesh_axes])
    part = mesh_axes or None
    if axis.spmd_name is not None:
        _check_unnamed(params, set(mesh_axes))
    ins = [_with_axis(s, d, part) for s, d in zip(params["in_specs"], dims, strict=True)]
    inner = AxisData(axis.name, size, None, None)
    avals = []
    for v, d in zip(jaxpr.invars, dims, strict=True):
        aval = batched_aval(v.aval, d, size, lies)
        if d is not None and mesh_axes and params["check_vma"]:
            aval = aval.update(manual_axis_type=varying(aval.vma | set(mesh_axes)))
        avals.append(aval)
    found: list[Any] = []

    def fun(*xs: Any) -> list[Any]:
        outs, out_dims = batch_flat(lambda *ys: eval_jaxpr(jaxpr, (), *ys), xs, dims, inner)
        found[:] = out_dims
        return outs

    body, consts = retraced(fun, avals, params)
    outs = [_with_axis(s, d, part) for s, d in zip(params["out_specs"], found, strict=True)]
    results = bind([*consts, *vals], body, params, [*[_whole(params)] * len(consts), *ins], outs)
    return results, found


def _check_unnamed(params: dict[str, Any], over: set[Any]) -> None:
    """ValueError if a spec names an axis that a mapped axis will lie over."""
    for side in ("in_specs", "out_specs"):
        named = over.intersection(n for spec in params[side] for n in names_of(spec))
        if named and not config.FLAGS["jax_disable_vmap_shmap_error"].get():
            raise ValueError(
                f"vmap spmd_axis_name cannot appear in shard_map {side}: {sorted(named, key=str)} "
                f"in {params[side]}. Fix: another mesh axis."
            )


def _with_axis(spec: Any, dim: int | None, part: Any) -> Any:
    """A spec with the axis of a batch."""
    return spec if dim is None else with_batch_axis("shard_map", spec, dim, part)


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    jaxpr, used_in = dce_jaxpr(eqn.params["jaxpr"], used)
    params = eqn.params
    return eqn.replace(
        invars=chosen(eqn.invars, used_in),
        outvars=chosen(eqn.outvars, used),
        params={
            **params,
            "jaxpr": jaxpr,
            "in_specs": tuple(chosen(params["in_specs"], used_in)),
            "out_specs": tuple(chosen(params["out_specs"], used)),
        },
    )


def variance_left(aval: Any, spec: Any, params: dict[str, Any]) -> frozenset[Any]:
    """The axes over which a result varies although its spec says that it does not."""
    more: frozenset[Any] = (aval.vma & params["newly_manual_axes"]) - held_by(spec)
    return more


shard_map_p: Primitive = Primitive(
    "shard_map",
    multiple_results=True,
    effectful=True,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    partial_eval=_partial_eval,
    dce=_dce,
    discharge=lambda args, params: compute(*args, **params),
    inline=lambda *args, **params: compute(*args, **params),
)


def start() -> None:
    """The first `shard_map`: from now on types may say over what values vary."""
    said[0] = True
    announce(shard_map_p)
