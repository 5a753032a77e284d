"""How results lie over mesh axes of explicit type, given how operands do: a rule for each family of
primitives. Loaded with the first type that says anything of this.

A rule `(avals, params, outs) -> parts` gives for each axis of the result None, the name of a mesh
axis or a tuple of names (or a list of such, one for each of several results). ShardingTypeError
where operands do not go together, or where a result could lie in more than one way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from ..core.avals import ShapedArray, Space
from ..core.explicit import Parts, check_legal, names_in, parts_of, said_by, typed, whole
from ..core.trace import mesh_of_traces
from ..errors import ShardingTypeError
from .manual import vary

Rule = Callable[[Sequence[Any], dict[str, Any], Sequence[Any]], Any]


def apply(primitive: Any, avals: Sequence[Any], params: dict[str, Any], out: Any) -> Any:
    """`out` as types that say how results lie, and over which manual axes they vary."""
    name, several = primitive.name, primitive.multiple_results
    if name in _AS_GIVEN or "of_high_types" in primitive.rules:
        return out
    outs = list(out) if several else [out]
    asked = params.get("sharding", params.get("out_sharding", params.get("dst_sharding")))
    if not hasattr(asked, "spec"):
        asked = None
    like = said_by(avals) if asked is None else asked
    if like is None and name == "device_put":
        like = next((d for d in params["devices"] if hasattr(d, "spec")), None)
        if like is not None:
            like = like.update(mesh=like.mesh.abstract_mesh, memory_kind=None)
    if like is not None:
        _check_meshes(name, avals)
        outs = _lying(name, avals, params, outs, like, asked, several)
    outs = _in_memory(name, avals, params, vary(name, avals, params, outs))
    return outs if several else outs[0]


def _check_meshes(name: str, avals: Sequence[Any]) -> None:
    """ValueError unless the operands lie on one mesh, and that in force if there is one."""
    context, first = mesh_of_traces(), None
    for a in avals:
        if getattr(a, "_sharding", None) is None:
            continue
        mesh = a._sharding.mesh
        if first is not None and mesh.shape_tuple != first.shape_tuple:
            raise ValueError(
                f"Mesh for all inputs should be equal. Got one mesh: {first} and another mesh: "
                f"{mesh} for {name}. Fix: jax.device_put or jax.reshard one of them."
            )
        first = mesh
    if first is None or context is None or name in _ANYHOW:
        return
    check_under(name, first, context)


def check_under(name: str, mesh: Any, context: Any) -> None:
    """ValueError if what lies over a mesh meets a primitive under another one in force."""
    if name in _ANYHOW or context.empty:
        return
    if context.shape_tuple != mesh.shape_tuple or _types_differ(context, mesh):
        raise ValueError(
            f"For primitive {name}, context mesh {context} should match the aval mesh {mesh}. "
            "Fix: jax.device_put it to a sharding over the mesh of jax.set_mesh."
        )


def _types_differ(context: Any, mesh: Any) -> bool:
    """Whether an axis is of explicit type in one of the meshes and left to the compiler in the
    other. Manual ones are the body of a `shard_map`'s own."""
    kinds = ({t.name for t in both} for both in zip(context.axis_types, mesh.axis_types))
    return {"Auto", "Explicit"} in kinds


def _in_memory(name: str, avals: Any, params: Any, outs: list[Any]) -> list[Any]:
    """The types of results, in the memory that operands are in. ValueError if they are in
    several."""
    if name == "device_put":
        spaces = [_space_of(d, a) for d, a in zip(params["devices"], avals, strict=True)]
    else:
        arrays = [a for a in avals if getattr(a, "shape", ())] or avals
        if name.startswith("scatter"):
            arrays = avals[:1]  # indices and updates go where the array is
        found = [getattr(a, "memory_space", Space.Device) for a in arrays]
        for a, space in zip(arrays, found, strict=True):
            if space is not found[0]:
                raise ValueError(
                    f"memory_space of all inputs passed to `{name}` must be the same. Got one "
                    f"operand with type: {arrays[0].str_short()} and another operand with type: "
                    f"{a.str_short()}. Fix: jax.device_put(x, jax.memory.Space.Device)"
                )
        spaces = [found[0] if found else Space.Device] * len(outs)
    return [
        o.update(memory_space=s) if isinstance(o, ShapedArray) and o.memory_space is not s else o
        for o, s in zip(outs, spaces, strict=True)
    ]


def _space_of(device: Any, aval: Any) -> Any:
    """The memory that a `device_put` moves to."""
    if isinstance(device, enum.Enum):
        return device
    kind = getattr(device, "memory_kind", None)
    if kind is None and device is None:
        return aval.memory_space
    return Space.Host if kind == "pinned_host" else Space.Device


def _lying(
    name: str, avals: Any, params: Any, outs: Any, like: Any, asked: Any, several: bool
) -> Any:
    rule: Rule = _RULES.get(name, _elementwise_or_whole)
    _check_sums(name, avals, params, asked)
    if asked is not None and name in _ASKED:
        *before, last = outs  # a generator's next state comes before its bits
        spec = asked.spec
        rest = (None,) * (len(last.shape) - len(spec))
        return [*before, typed(last, asked, (*spec, *rest), spec.unreduced, spec.reduced)]
    found = rule(avals, {**params, "name": name}, outs)
    parts = found if several else [found]
    result = []
    for aval, p in zip(outs, parts, strict=True):
        if not hasattr(aval, "shape"):
            result.append(aval)
            continue
        check_legal(name, avals, aval, p)
        result.append(_unreduced(name, avals, typed(aval, like, p)))
    return result


def _unreduced(name: str, avals: Sequence[Any], aval: Any) -> Any:
    """Sums that are still to come are still to come after what is linear."""
    found = frozenset[Any]().union(*map(_to_come, avals))
    if not found or name not in _LINEAR | _BILINEAR:
        return aval
    return typed(aval, said_by(avals), parts_of(aval), found)


def _to_come(aval: Any) -> frozenset[Any]:
    """The mesh axes over which sums of an array are still to come."""
    lies = aval._sharding
    return frozenset() if lies is None else lies.spec.unreduced


def _done(aval: Any) -> frozenset[Any]:
    lies = aval._sharding
    return frozenset() if lies is None else lies.spec.reduced


def _check_sums(name: str, avals: Sequence[Any], params: Any, asked: Any) -> None:
    """ShardingTypeError, or NotImplementedError, if an operation is not one of sums that are still
    to come."""
    to_come = list(map(_to_come, avals))
    if name == "dot_general" and asked is not None and asked.spec.unreduced:
        (lc, rc), _ = params["dimension_numbers"]
        over, right = (tuple(parts_of(a)[k] for k in c) for a, c in zip(avals, (lc, rc)))
        if over != right:
            raise ShardingTypeError(
                "lhs and rhs contracting dims should be sharded identically when out_sharding "
                "provided to dot_general mentions unreduced_axes. Got lhs_contracting_spec="
                f"{over} and rhs_contracting_spec={right}"
            )
        if {n for p in over for n in names_in(p)} != asked.spec.unreduced:
            raise ShardingTypeError(
                "out_sharding's unreduced axes should be equal to the contracting specs. Got "
                f"unreduced axes={asked.spec.unreduced} and contracting spec={over}"
            )
    if name in _SUMS and len(set(to_come)) > 1:
        _refuse_sum(name, to_come)
    if not any(to_come) or name in _LINEAR or name in _ANYHOW:
        return
    if name not in _BILINEAR:
        raise NotImplementedError(
            f"unreduced rule for {name} is not implemented: the sum over {set(*to_come[:1])} of an "
            "operand is still to come. Fix: jax.reshard(x, spec) does it first."
        )
    if len(to_come) > 1 and all(to_come[:2]):
        raise ShardingTypeError(
            f"lhs and rhs to `{name}` cannot be unreduced since {name} is bilinear. Got "
            f"lhs={to_come[0]}, rhs={to_come[1]}"
        )
    here = 0 if to_come[0] else 1
    if name == "div" and here == 0:
        return
    if _done(avals[1 - here]) != to_come[here]:
        sides = ("LHS", "RHS")
        raise ShardingTypeError(
            f"{sides[1 - here]} should be reduced along the same axes {sides[here]} is unreduced "
            f"on. Got lhs={avals[0].str_short()} and rhs={avals[1].str_short()}"
        )


def _refuse_sum(name: str, to_come: Sequence[Any]) -> None:
    left, right = to_come
    if left and right:
        raise ShardingTypeError(
            f"lhs and rhs to `{name}` must be unreduced along the same mesh axes. Got lhs={left}, "
            f"rhs={right}"
        )
    here, there = ("lhs", "rhs") if left else ("rhs", "lhs")
    raise ShardingTypeError(
        f"{here} is unreduced while {there} is not. `{name}` operation does not allow this because "
        f"there will be implicit communication. Please reduce {here} via `reshard` before calling "
        f"`{name}`."
    )


_SUMS = frozenset(("add", "sub", "add_any"))
_BILINEAR = frozenset(("mul", "div", "dot_general"))
# What moves arrays or names them, and what others say of.
_ANYHOW = frozenset("reshard device_put sharding_constraint inspect_sharding name".split())


_LINEAR = frozenset("add_any add sub neg reshape transpose broadcast_in_dim convert_element_type "
                    "squeeze copy reduce_sum optimization_barrier".split())  # fmt: skip
_ASKED = frozenset(
    "broadcast_in_dim reshape dot_general iota reshard reduce_sum convert_element_type "
    "rng_bit_generator conv_general_dilated".split()
)
# Whose result types are those of a program, which says them itself.
_AS_GIVEN = frozenset(
    "jit call closed_call core_call scan while cond custom_jvp_call custom_vjp_call custom_lin "
    "remat2 checkpoint shard_map custom_linear_solve remat_opt composite while_adjoint get swap "
    "addupdate new_ref freeze empty_ref free_ref".split()
)


def _times(sizes: Any, part: Any) -> int:
    out = 1
    for name in names_in(part):
        out *= sizes[name]
    return out


# --- operands of one shape ---
def _merged(name: str, specs: Sequence[Parts], shapes: Sequence[Any], n: int) -> Parts:
    out: list[Any] = [None] * n
    for k in range(n):
        found = {s[k] for s, shape in zip(specs, shapes, strict=True) if shape[k] != 1} - {None}
        if len(found) > 1:
            said = ", ".join(str(s) for s in specs)
            raise ShardingTypeError(
                f"{name} got incompatible shardings for broadcasting: {said}. Fix: jax.reshard one "
                "of them."
            )
        out[k] = found.pop() if found else None
    return tuple(out)


def _elementwise(avals: Any, params: Any, outs: Any) -> Any:
    arrays = [a for a in avals if getattr(a, "shape", ())]
    ndim = len(outs[0].shape)
    arrays = [a for a in arrays if len(a.shape) == ndim]
    return _merged(params["name"], [parts_of(a) for a in arrays], [a.shape for a in arrays], ndim)


def _elementwise_or_whole(avals: Any, params: Any, outs: Any) -> Any:
    """An operation without a rule of its own: a result lies as the operands of its shape do."""
    found: list[Any] = []
    if len(outs) == 1 and params["name"] not in _SEVERAL:
        shape = getattr(outs[0], "shape", ())
        arrays = [a for a in avals if getattr(a, "shape", ())]
        if all(_stretches(a.shape, shape) for a in arrays):
            return _elementwise(avals, params, outs)
    for out in outs:
        shape = getattr(out, "shape", ())
        same = [a for a in avals if getattr(a, "shape", None) == shape]
        specs = [parts_of(a) for a in same]
        found.append(_merged(params["name"], specs, [shape] * len(same), len(shape)))
    return found if len(outs) != 1 or params["name"] in _SEVERAL else found[0]


def _stretches(old: Any, new: Any) -> bool:
    return len(old) == len(new) and all(n in (1, m) for n, m in zip(old, new, strict=True))


def _as_first(avals: Any, params: Any, outs: Any) -> Any:
    return parts_of(avals[0])


def _as_each(avals: Any, params: Any, outs: Any) -> Any:
    return [parts_of(a) for a in avals]


def _said_parts(avals: Any) -> list[Parts]:
    """How arrays lie, without those of which nothing is said (made outside of the mesh, say): these
    lie as others do."""
    return [parts_of(a) for a in avals if a._sharding is not None]


def _all_alike(avals: Any, params: Any) -> Parts:
    first = (_said_parts(avals) or [parts_of(avals[0])])[0]
    if any(parts != first for parts in _said_parts(avals)):
        said = ", ".join(str(a.sharding) for a in avals)
        raise ShardingTypeError(
            f"All operands should have the same sharding. Got shardings {said}. Fix: jax.reshard "
            f"what is given to {params['name']}."
        )
    return first


def _select(avals: Any, params: Any, outs: Any) -> Any:
    which, *cases = avals
    laid = _said_parts(cases)
    first = laid[0] if laid else parts_of(cases[0])
    if any(parts != first for parts in laid):
        raise ShardingTypeError(
            f"select cases must have the same shardings, got {[c.sharding for c in cases]}. Fix: "
            "jax.reshard one of them."
        )
    if laid and which.shape and parts_of(which) != first:
        raise ShardingTypeError(
            "select `which` must be scalar or have the same sharding as cases, got `which` "
            f"sharding {which.sharding} but case sharding {cases[0].sharding}. Fix: jax.reshard it."
        )
    return first


# --- where axes go ---
def _broadcast_in_dim(avals: Any, params: Any, outs: Any) -> Any:
    (x,), shape = avals, params["shape"]
    out: list[Any] = [None] * len(shape)
    for n, part, d in zip(x.shape, parts_of(x), params["broadcast_dimensions"], strict=True):
        if n == shape[d]:
            out[d] = part
    return tuple(out)


def _transpose(avals: Any, params: Any, outs: Any) -> Any:
    parts = parts_of(avals[0])
    return tuple(parts[k] for k in params["permutation"])


def _reduced(avals: Any, params: Any, outs: Any) -> Any:
    """Reductions and squeeze: what is left of the axes. Several operands lie alike."""
    axes = params.get("axes", params.get("dimensions", ()))
    left = [tuple(p for k, p in enumerate(parts_of(a)) if k not in axes) for a in avals]
    return left[0] if params["name"] not in _SEVERAL else left[: len(outs)]


def _reshape(avals: Any, params: Any, outs: Any) -> Any:
    """Axes of size 1 come and go; one axis may be split, or several next to each other joined."""
    (x,), new = avals, outs[0].shape
    parts = parts_of(x)
    if params["dimensions"] is not None:
        parts = tuple(parts[d] for d in params["dimensions"])
    old = x.shape if params["dimensions"] is None else [x.shape[d] for d in params["dimensions"]]
    left = [(n, p) for n, p in zip(old, parts, strict=True) if n != 1]
    right = [n for n in new if n != 1]
    found = _matched(left, right, said_by(avals).mesh.shape)
    if found is None:
        raise ShardingTypeError(
            "This reshape is not supported. Please specify the sharding of the output via the "
            f"`out_sharding` argument of jax.lax.reshape. Got operand type: {x.str_short()}, new "
            f"sizes: {tuple(new)}"
        )
    rest = iter(found)
    return tuple(next(rest) if n != 1 else None for n in new)


def _matched(left: list[tuple[Any, Any]], right: list[Any], sizes: Any) -> list[Any] | None:
    """The parts of the sizes `right`, given sizes and parts; None if they do not follow."""
    if len(left) == len(right):
        same = [n for n, _ in left] == right
        return [p for _, p in left] if same else None
    extra = abs(len(left) - len(right)) + 1
    for k in range(min(len(left), len(right))):
        if k and left[k - 1][0] != right[k - 1]:
            return None
        if len(left) < len(right):  # an axis is split
            if [n for n, _ in left[k + 1 :]] != right[k + extra :]:
                continue
            split = _split(left[k][1], right[k : k + extra], sizes)
            return split and [p for _, p in left[:k]] + split + [p for _, p in left[k + 1 :]]
        if [n for n, _ in left[k + extra :]] == right[k + 1 :]:  # axes are joined
            joined = _joined([p for _, p in left[k : k + extra]])
            rest = [p for _, p in left[k + extra :]]
            return joined and [p for _, p in left[:k]] + joined + rest
    return None


def _split(part: Any, new: Sequence[int], sizes: Any) -> list[Any] | None:
    """Each mesh axis divides the first of the new axes that is not used up."""
    out: list[list[Any]] = [[] for _ in new]
    k, left = 0, new[0]
    for name in names_in(part):
        if left == 1:
            k += 1
            if k == len(new):
                return None
            left = new[k]
        if left % sizes[name]:
            return None
        out[k].append(name)
        left //= sizes[name]
    return [None if not p else p[0] if len(p) == 1 else tuple(p) for p in out]


def _joined(parts: Sequence[Any]) -> list[Any] | None:
    names = [n for p in parts for n in names_in(p)]
    ended = False
    for p in parts:
        if p is not None and ended:
            return None
        ended = ended or p is None
    return [None if not names else names[0] if len(names) == 1 else tuple(names)]


# --- parts of arrays ---
def _cut(verb: str) -> Rule:
    """Axes keep what they lie over, as long as their new sizes can be divided."""

    def rule(avals: Any, params: Any, outs: Any) -> Any:
        x, parts = avals[0], parts_of(avals[0])
        sizes = said_by(avals).mesh.shape if said_by(avals) is not None else {}
        for out in outs:
            for old, n, part in zip(x.shape, out.shape, parts, strict=True):
                if part is not None and n != old and n % _times(sizes, part):
                    raise ShardingTypeError(
                        f"{verb} on sharded dims where out dim ({n}) is not divisible by mesh axes "
                        f"({_times(sizes, part)}) with spec ({','.join(map(str, names_in(part)))}) "
                        f"is not implemented. Got input type={x.str_short(True)} and output "
                        f"shape={tuple(out.shape)}. Fix: jax.reshard the operand so that the axis "
                        "is whole."
                    )
        return parts if params["name"] not in _SEVERAL else [parts] * len(outs)

    return rule


def _dynamic_update_slice(avals: Any, params: Any, outs: Any) -> Any:
    x, update = avals[:2]
    if parts_of(x) != parts_of(update):
        raise ShardingTypeError(
            "dynamic_update_slice operand sharding must be equal to update sharding, got operand "
            f"sharding {x.str_short(mesh_axis_types=True)} and update sharding "
            f"{update.str_short(mesh_axis_types=True)}."
        )
    return parts_of(x)


def _unstack(avals: Any, params: Any, outs: Any) -> Any:
    (x,), axis = avals, params["axis"]
    parts = parts_of(x)
    if parts[axis] is not None:
        raise ShardingTypeError(
            f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand "
            f"type={x.str_short(True)}"
        )
    return [tuple(p for k, p in enumerate(parts) if k != axis)] * len(outs)


def _stack(avals: Any, params: Any, outs: Any) -> Any:
    parts = list(_all_alike(avals, params))
    parts.insert(params["axis"], None)
    return tuple(parts)


def _tile(avals: Any, params: Any, outs: Any) -> Any:
    x, parts = avals[0], parts_of(avals[0])
    for k, (part, reps) in enumerate(zip(parts, params["reps"], strict=True)):
        if part is not None and reps != 1:
            raise ShardingTypeError(
                f"Operand cannot be sharded on dimension {k} when the tiling is non-trivial. Got "
                f"input type: {x.str_short()} with reps: {tuple(params['reps'])}"
            )
    return parts


def _along(what: str) -> Rule:
    """What reads along one axis needs it whole."""

    def rule(avals: Any, params: Any, outs: Any) -> Any:
        x = avals[0]
        axis = next(params[k] for k in ("axis", "reduction_dimension", "operand") if k in params)
        if parts_of(x)[axis] is not None:
            raise ShardingTypeError(
                f"{what}. Got input type={x.str_short()} and axis={axis}. Fix: jax.reshard it."
            )
        return parts_of(x) if params["name"] not in _SEVERAL else [parts_of(x)] * len(outs)

    return rule


def _sort(avals: Any, params: Any, outs: Any) -> Any:
    if len({parts_of(a) for a in avals}) > 1:
        raise ShardingTypeError(
            f"Arguments to sort must have equal shardings, got: "
            f"{' '.join(str(a.sharding) for a in avals)}"
        )
    if parts_of(avals[0])[params["dimension"]] is not None:
        raise ShardingTypeError(
            "Arguments to sort must be unsharded over the sorting dimension. Got arg "
            f"sharding={avals[0].sharding}, dimension={params['dimension']}. Fix: jax.reshard."
        )
    return [parts_of(a) for a in avals]


# --- gathers and scatters ---
def _unclear(avals: Any, call: str, what: str, names: Sequence[str]) -> ShardingTypeError:
    said = ", ".join(f"{n}={a!r}" for n, a in zip(names, avals, strict=False))
    return ShardingTypeError(
        f"Use `.at[...].{call}(out_sharding=)` to provide output PartitionSpec for the {what} as "
        "out sharding could not be resolved unambiguously (or would require collectives on "
        f"inputs). Got {said}"
    )


def _gather(avals: Any, params: Any, outs: Any) -> Any:
    x, indices = avals[:2]
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    parts, at = parts_of(x), parts_of(indices)
    unclear = _unclear((x, indices), "get", "gather indexing", ("operand", "indices"))
    together = set(numbers.operand_batching_dims)
    for k, part in enumerate(parts):
        if part is not None and k not in together and sizes[k] != x.shape[k]:
            raise unclear
    batch = []
    for k, part in enumerate(at[:-1]):
        if k in numbers.start_indices_batching_dims:
            own = numbers.operand_batching_dims[numbers.start_indices_batching_dims.index(k)]
            if part is not None and parts[own] is not None and part != parts[own]:
                raise unclear
            part = parts[own] if part is None else part
        elif part is not None:
            raise unclear
        batch.append(part)
    gone = {*numbers.collapsed_slice_dims, *together}
    kept = iter([p for k, p in enumerate(parts) if k not in gone])
    rest = iter(batch)
    offsets = set(numbers.offset_dims)
    return tuple(next(kept) if k in offsets else next(rest) for k in range(len(outs[0].shape)))


def _scatter(avals: Any, params: Any, outs: Any) -> Any:
    x, indices, updates = avals
    numbers, parts = params["dimension_numbers"], parts_of(x)
    together = set(numbers.operand_batching_dims)
    windows = [k for k in range(x.ndim) if k not in {*numbers.inserted_window_dims, *together}]
    sizes = [updates.shape[d] for d in sorted(numbers.update_window_dims)]
    full = {k for k, n in zip(windows, sizes, strict=True) if n == x.shape[k]}
    moved = set(numbers.scatter_dims_to_operand_dims) - together - full
    used = [p for k, p in enumerate(parts_of(indices)) if p is not None]
    batching = set(numbers.scatter_indices_batching_dims)
    loose = [p for k, p in enumerate(parts_of(indices)) if p is not None and k not in batching]
    if any(parts[k] is not None for k in moved) or (used and loose):
        raise _unclear(
            avals, "set/add/mul/...", "scatter update", ("operand", "indices", "updates")
        )
    return parts


# --- products ---
def _check_dot_general(avals: Any, dimension_numbers: Any) -> None:
    lhs, rhs = map(parts_of, avals)
    (lc, rc), (lb, rb) = dimension_numbers
    for what, left, right in (("lhs batch dimensions and rhs batch", lb, rb),
                              ("contracting", lc, rc)):  # fmt: skip
        ls, rs = tuple(lhs[k] for k in left), tuple(rhs[k] for k in right)
        if any(a is not None and b is not None and a != b for a, b in zip(ls, rs, strict=True)):
            the = "the " if what != "contracting" else ""
            raise ShardingTypeError(
                f"dot_general requires {what} dimensions to have {the}consistent sharding, got "
                f"{ls} and {rs}. Fix: jax.reshard one of the operands."
            )


def _dot_general(avals: Any, params: Any, outs: Any) -> Any:
    lhs, rhs = map(parts_of, avals)
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    _check_dot_general(avals, params["dimension_numbers"])
    ls, rs = tuple(lhs[k] for k in lc), tuple(rhs[k] for k in rc)
    if any(a is not None and b is not None for a, b in zip(ls, rs, strict=True)):
        raise ShardingTypeError(
            "Contracting dimensions are sharded and it is ambiguous how the output should be "
            "sharded. Please specify the output sharding via the `out_sharding` parameter. Got "
            f"lhs_contracting_spec={ls} and rhs_contracting_spec={rs}"
        )
    batch = [lhs[i] if lhs[i] is not None else rhs[j] for i, j in zip(lb, rb, strict=True)]
    left = [p for k, p in enumerate(lhs) if k not in lc and k not in lb]
    right = [p for k, p in enumerate(rhs) if k not in rc and k not in rb]
    return (*batch, *left, *right)


def _convolution(avals: Any, params: Any, outs: Any) -> Any:
    (x, kernel), numbers = avals, params["dimension_numbers"]
    parts = parts_of(x)
    if parts_of(kernel) != whole(kernel.ndim) or parts[numbers.lhs_spec[1]] is not None:
        raise ShardingTypeError(
            "Please specify the output sharding via `out_sharding` parameter of "
            "`conv_general_dilated`"
        )
    out: list[Any] = [None] * x.ndim
    for here, there in zip(numbers.out_spec, numbers.lhs_spec, strict=True):
        out[here] = parts[there]
    out[numbers.out_spec[1]] = None
    return tuple(out)


# --- linear algebra, keys, and the rest ---
def _stacks(core: Sequence[int]) -> Rule:
    """Operations on the last axes, `core` of them for each operand, which are whole."""

    def rule(avals: Any, params: Any, outs: Any) -> Any:
        batch: Parts = ()
        for k, (a, n) in enumerate(zip(avals, core, strict=False)):
            parts = parts_of(a)
            if any(p is not None for p in parts[len(parts) - n :]):
                raise ShardingTypeError(
                    f"Input {k} to {params['name']} must be unsharded on non-batch dimensions, but "
                    f"got {a.sharding.spec}. Fix: jax.reshard it."
                )
            batch = batch or parts[: len(parts) - n]
        found = [(*batch, *(None,) * (len(o.shape) - len(batch))) for o in outs]
        return found if params["name"] in _SEVERAL else found[0]

    return rule


def _prefix(avals: Any, params: Any, outs: Any) -> Any:
    """Axes are added or taken behind those of the first operand: keys and their words, bits."""
    parts = parts_of(avals[0])
    n = len(outs[0].shape)
    return (*parts[:n], *(None,) * (n - len(parts)))


def _nothing(avals: Any, params: Any, outs: Any) -> Any:
    found = [whole(len(getattr(o, "shape", ()))) for o in outs]
    return found if params["name"] in _SEVERAL else found[0]


def _device_put(avals: Any, params: Any, outs: Any) -> Any:
    return [
        _of_sharding(d, a) if hasattr(d, "spec") else parts_of(a)
        for a, d in zip(avals, params["devices"], strict=True)
    ]


def _of_sharding(sharding: Any, aval: Any) -> Parts:
    named = set(sharding.mesh.explicit_axes)
    parts = [tuple(n for n in names_in(p) if n in named) for p in sharding.spec]
    parts += [()] * (len(aval.shape) - len(parts))
    return tuple(None if not p else p[0] if len(p) == 1 else p for p in parts)


_SEVERAL = frozenset(
    "split unstack sort top_k approx_top_k optimization_barrier device_put lu qr geqrf eigh eig "
    "svd schur hessenberg tridiagonal reduce reduce_window threefry2x32 rng_bit_generator check "
    "pure_callback io_callback dce_sink".split()
)
_RULES: dict[str, Rule] = {
    "select_n": _select,
    "clamp": lambda avals, params, outs: parts_of(avals[1]),
    "concatenate": lambda avals, params, outs: _all_alike(avals, params),
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": _reduced,
    **{f"reduce_{n}": _reduced for n in ("sum", "max", "min", "prod", "and", "or", "xor")},
    "argmax": _reduced,
    "argmin": _reduced,
    "reduce": _reduced,
    "iota": _nothing,
    "slice": _cut("slicing"),
    "dynamic_slice": _cut("dynamic_slice"),
    "pad": _cut("padding"),
    "split": _cut("split"),
    **{
        f"reduce_window{n}": _cut("reduce_window") for n in ("", "_sum", "_max", "_min")
    },
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **{f"scatter{n}": _scatter for n in ("", "-add", "-sub", "-mul", "-min", "-max")},
    **{
        f"cum{n}": _along("Input should be unsharded over the axis being reduced")
        for n in ("sum", "prod", "max", "min", "logsumexp")
    },
    **{
        n: _along("The input should be unsharded over the axis along which to compute the top_k "
                  "values")
        for n in ("top_k", "approx_top_k")
    },
    "sort": _sort,
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    "fft": _as_first,
    "rev": _as_first,
    **{n: _stacks([2]) for n in ("cholesky", "lu", "qr", "geqrf", "eigh", "eig", "svd", "schur",
                                 "hessenberg", "tridiagonal")},
    "triangular_solve": _stacks([2, 2]),
    "householder_product": _stacks([2, 1]),
    "ormqr": _stacks([2, 1, 2]),
    "cholesky_update": _stacks([2, 1]),
    "symmetric_product": _stacks([2, 2]),
    "tridiagonal_solve": _stacks([1, 1, 1, 2]),
    "lu_pivots_to_permutation": _stacks([1]),
    "bitcast_convert_type": _prefix,
    "random_bits": _prefix,
    "random_seed": _prefix,
    "random_split": _prefix,
    "random_wrap": _prefix,
    "random_unwrap": _prefix,
    "random_fold_in": _as_first,
    "optimization_barrier": _as_each,
    "device_put": _device_put,
    "sharding_constraint": _as_first,
}  # fmt: skip
for _name in ("copy", "stop_gradient", "name", "reduce_precision", "stage", "random_clone"):
    _RULES[_name] = _as_first
