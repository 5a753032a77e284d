"""What a program costs on a machine of many chips, by its equations: operations, and the bytes that
go to memory and between chips. Nothing is run.

Rules are by primitive: an elementwise operation costs one operation an element and its operands
and results in memory, if it is not fused (`unfused_flops`, `unfused_hbm_bytes`); products alone
count as if all else were fused into them. Loops count once, branches not at all.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api.arguments import ShapeDtypeStruct
from ..api.derivatives import vjp
from ..api.spmd import shard_map
from ..api.staging import make_jaxpr
from ..core.avals import ShapedArray
from ..core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from ..core.primitive import ALL
from ..runtime.shardings import NamedSharding
from ..transforms.partial_eval import dce_closed

__all__ = [
    "RooflineResult",
    "RooflineRuleContext",
    "RooflineShape",
    "register_roofline",
    "register_standard_roofline",
    "roofline",
    "roofline_and_grad",
]

logger = logging.getLogger("pullback.roofline")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """The shape and dtype of an operand, as rules are given it.

    >>> from pullback.experimental import roofline
    >>> roofline.RooflineShape(shape=(2, 3), dtype=np.dtype("float32")).bytes
    24
    """

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> RooflineShape:
        """Of a type. TypeError if it is none of arrays."""
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"Expected ShapedArray, got {type(aval)}.")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        itemsize = getattr(self.dtype, "itemsize", 0)
        return int(self.size * itemsize)

    @classmethod
    def total_bytes(cls, avals: Sequence[Any]) -> int:
        """The bytes of several types together."""
        return sum(cls.from_aval(aval).bytes for aval in avals)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """What a rule is told of an equation besides its operands and parameters.

    >>> from pullback.experimental import roofline
    >>> roofline.RooflineRuleContext.__name__
    'RooflineRuleContext'
    """

    name_stack: Any
    primitive: Any
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    jaxpr_eqn_ctx: Any
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


def _both(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in [*a, *(k for k in b if k not in a)]}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """What a program costs: `flops` and bytes from and to memory (`hbm_bytes`) where all is fused
    that can be; the same where nothing is (`unfused_...`); bytes and steps between the chips along
    each axis of the mesh (`ici_bytes`, `ici_latency`); and the most bytes that are alive at once
    (`peak_hbm_bytes`). Costs add up, and may be multiplied.

    >>> from pullback.experimental import roofline
    >>> (roofline.RooflineResult(flops=1) + roofline.RooflineResult(flops=2)).flops
    3
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = dataclasses.field(default_factory=dict)
    ici_latency: dict[str, int] = dataclasses.field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """The cost of nothing."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=_both(self.ici_bytes, other.ici_bytes),
            ici_latency=_both(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, constant: int | float) -> RooflineResult:
        def times(x: Any) -> Any:
            if isinstance(x, dict):
                return {k: times(v) for k, v in x.items()}
            return int(x * constant)

        fields = {f.name: times(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return RooflineResult(**fields)

    __rmul__ = __mul__


Rule = Callable[..., RooflineResult]
_rules: dict[Any, Rule] = {}


def register_roofline(prim: Any) -> Callable[[Rule], Rule]:
    """A decorator: the function `rule(ctx, *operands, **params)` says what a primitive costs, as a
    RooflineResult; `operands` are RooflineShapes.

    >>> from pullback.experimental import roofline
    >>> p = pb.extend.core.Primitive("mine")
    >>> @roofline.register_roofline(p)
    ... def rule(ctx, x, **params):
    ...     return roofline.RooflineResult(flops=x.size)
    """

    def register(rule: Rule) -> Rule:
        _rules[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Any) -> None:
    """A primitive costs nothing but the memory of its operands and results while they are alive.

    >>> from pullback.experimental import roofline
    >>> roofline.register_standard_roofline(pb.extend.core.Primitive("other"))
    """
    _rules[prim] = _nothing


# --- walking programs ---
def _programs(eqn: JaxprEqn) -> list[Jaxpr]:
    """The programs that an equation runs, if it is a call."""
    for name in ("call_jaxpr", "jaxpr", "fun_jaxpr"):
        held = eqn.params.get(name)
        if isinstance(held, ClosedJaxpr | Jaxpr):
            return [held.jaxpr if isinstance(held, ClosedJaxpr) else held]
    return []


class _Walk:
    """Adds up what the equations of a program cost."""

    def __init__(self, mesh: Any, pin_lhs: bool, pin_rhs: bool) -> None:
        self.mesh, self.pins = mesh, (pin_lhs, pin_rhs)

    def program(self, jaxpr: Jaxpr) -> RooflineResult:
        last: dict[Any, int] = {}
        for k, eqn in enumerate(jaxpr.eqns):
            last.update({v: k for v in eqn.invars if isinstance(v, Var)})
        last.update({v: len(jaxpr.eqns) for v in jaxpr.outvars if isinstance(v, Var)})
        alive = {v: self._bytes(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)}
        total = RooflineResult(peak_hbm_bytes=sum(alive.values()))
        for k, eqn in enumerate(jaxpr.eqns):
            total = total + self.equation(eqn)
            for v in eqn.invars:
                if isinstance(v, Var) and last[v] == k:
                    alive.pop(v, None)
            alive.update({v: self._bytes(v.aval) for v in eqn.outvars if v in last})
            total = total + RooflineResult(peak_hbm_bytes=sum(alive.values()))
        return total

    def _bytes(self, aval: Any) -> int:
        return RooflineShape.from_aval(aval).bytes if isinstance(aval, ShapedArray) else 0

    def equation(self, eqn: JaxprEqn) -> RooflineResult:
        if eqn.primitive.name == "shard_map":
            inner = _Walk(eqn.params.get("mesh", self.mesh), *self.pins)
            return inner.program(_programs(eqn)[0])
        rule = _rules.get(eqn.primitive) or _of_ours(eqn.primitive)
        if rule is None:
            held = _programs(eqn)
            if held and eqn.primitive.name not in ("while", "cond"):
                return self.program(held[0])
            if eqn.primitive.name not in _SILENT:
                logger.warning("No roofline rule for %s, skipping...", eqn.primitive)
            return RooflineResult()
        lhs, rhs = self.pins
        ctx = RooflineRuleContext(
            name_stack=eqn.source_info.name_stack,
            primitive=eqn.primitive,
            avals_in=[v.aval for v in eqn.invars],
            avals_out=[v.aval for v in eqn.outvars],
            jaxpr_eqn_ctx=getattr(eqn, "ctx", None),
            mesh=self.mesh,
            pin_lhs_in_vmem=lhs,
            pin_rhs_in_vmem=rhs,
        )
        shapes = [RooflineShape.from_aval(a) for a in ctx.avals_in if isinstance(a, ShapedArray)]
        return rule(ctx, *shapes, **eqn.params)


_SILENT = frozenset(["while", "cond"])


def _used(closed: ClosedJaxpr) -> Jaxpr:
    """The program without what nobody reads."""
    return dce_closed(closed, [True] * len(closed.out_avals))[0].jaxpr


def _inside(jaxpr: Jaxpr) -> list[Jaxpr]:
    """The bodies of a program's calls of `shard_map`."""
    return [_programs(eqn)[0] for eqn in jaxpr.eqns if eqn.primitive.name == "shard_map"]


def _cost(closed: ClosedJaxpr, mesh: Any, pins: tuple[bool, bool]) -> RooflineResult:
    jaxpr = _used(closed)
    walk = _Walk(mesh, *pins)
    bodies = [] if mesh is None else _inside(jaxpr)
    if not bodies:
        return walk.program(jaxpr)
    total = RooflineResult()
    for body in bodies:
        total = total + walk.program(body)
    return total


def _mapped(f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    if mesh is None or in_specs is None:
        return f
    return shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)  # type: ignore[no-any-return]


def _types(args: Any) -> Any:
    """Arguments as types alone, which lie nowhere."""
    return tree.map(lambda x: ShapeDtypeStruct(np.shape(x), x.dtype), args)


def roofline(
    f: Callable[..., Any],
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """The function of arrays, or their types, that gives the types of `f`'s results and what `f`
    costs: on each chip of `mesh`, if `in_specs` and `out_specs` say how arrays lie on it, as for
    `shard_map`. With `pin_lhs_in_vmem` or `pin_rhs_in_vmem`, products find that operand
    nearby.

    >>> from pullback.experimental import roofline
    >>> out, cost = roofline.roofline(lambda a, b: a @ b)(jnp.ones((3, 7)), jnp.ones((7, 5)))
    >>> cost.flops, cost.hbm_bytes
    (210, 284)
    """

    def costed(*args: Any) -> tuple[Any, RooflineResult]:
        run = _mapped(f, mesh, in_specs, out_specs)
        closed, out = make_jaxpr(run, return_shape=True)(*_types(args))
        if print_jaxpr:
            print(closed)
        if mesh is not None and out_specs is not None:
            out = _lying(out, mesh, out_specs)
        return out, _cost(closed, mesh, (pin_lhs_in_vmem, pin_rhs_in_vmem))

    return costed


def _lying(out: Any, mesh: Any, specs: Any) -> Any:
    """Types of results with the shardings that specs say."""
    every = tree.broadcast(
        specs, out, is_leaf=lambda x: x is None or type(x).__name__ == "PartitionSpec"
    )
    return tree.map(lambda x, s: x.update(sharding=NamedSharding(mesh, s)), out, every)


def roofline_and_grad(
    f: Callable[..., Any],
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """As `roofline`, with what the derivative costs in reverse mode as third result; its numbers
    are bfloat16.

    >>> from pullback.experimental import roofline
    >>> mesh, spec = pb.make_mesh((1,), ("x",), (pb.sharding.AxisType.Auto,)), pb.P("x")
    >>> cost = roofline.roofline_and_grad(lambda a: a @ a, mesh, (spec,), spec)(jnp.ones((8, 8)))
    >>> cost[1].flops, cost[2].flops
    (1024, 2048)
    """
    pins = pin_lhs_in_vmem, pin_rhs_in_vmem

    def costed(*args: Any) -> tuple[Any, RooflineResult, RooflineResult]:
        forward = roofline(
            f, mesh, in_specs, out_specs, pin_lhs_in_vmem=pins[0], pin_rhs_in_vmem=pins[1],
            print_jaxpr=print_jaxpr,
        )  # fmt: skip
        out, cost = forward(*args)
        run = _mapped(f, mesh, in_specs, out_specs)
        narrow = tree.map(lambda x: ShapeDtypeStruct(np.shape(x), "bfloat16"), args)
        _, (ct, pull) = make_jaxpr(lambda *xs: vjp(run, *xs), return_shape=True)(*narrow)
        closed = make_jaxpr(lambda pull, ct: pull(ct))(pull, ct)
        if print_jaxpr:
            print(closed)
        return out, cost, _cost(closed, mesh, pins)

    return costed


# --- rules ---
def _elementwise(ctx: RooflineRuleContext, *args: RooflineShape, **params: Any) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    moved = sum(a.bytes for a in args) + out.bytes
    return RooflineResult(unfused_flops=out.size, unfused_hbm_bytes=moved)


def _select(
    ctx: RooflineRuleContext, which: RooflineShape, *cases: Any, **_: Any
) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return RooflineResult(unfused_flops=out.size, unfused_hbm_bytes=which.bytes + out.bytes)


def _sum(ctx: RooflineRuleContext, x: RooflineShape, **_: Any) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return RooflineResult(unfused_flops=x.size - out.size, unfused_hbm_bytes=x.bytes + out.bytes)


def _running(ctx: RooflineRuleContext, x: RooflineShape, *, axis: int, **_: Any) -> RooflineResult:
    steps = x.shape[axis] * (2 if ctx.primitive.name == "cumlogsumexp" else 1)
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return RooflineResult(unfused_flops=steps, unfused_hbm_bytes=x.bytes + out.bytes)


def _product(
    ctx: RooflineRuleContext,
    lhs: RooflineShape,
    rhs: RooflineShape,
    *,
    dimension_numbers: Any,
    **_: Any,
) -> RooflineResult:
    (contracted, _), _ = dimension_numbers
    out = RooflineShape.from_aval(ctx.avals_out[0])
    flops = 2 * out.size * math.prod(lhs.shape[d] for d in contracted)
    moved = 0 if ctx.pin_lhs_in_vmem else lhs.bytes + out.bytes
    moved += 0 if ctx.pin_rhs_in_vmem else rhs.bytes
    return RooflineResult(
        flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved
    )


def _valid(n: int, kernel: int, stride: int, pads: Any, lhs_step: int, rhs_step: int) -> int:
    """How many pairs of an element and a weight there are along an axis, all windows together."""
    low, high = pads
    stretched = (n - 1) * lhs_step + 1 if n else 0
    reach = (kernel - 1) * rhs_step + 1
    windows = max((stretched + low + high - reach) // stride + 1, 0)
    places = np.arange(windows)[:, None] * stride - low + np.arange(kernel) * rhs_step
    return int(((places >= 0) & (places < stretched) & (places % lhs_step == 0)).sum())


def _convolution(
    ctx: RooflineRuleContext, lhs: RooflineShape, rhs: RooflineShape, *, window_strides: Any,
    padding: Any, lhs_dilation: Any, rhs_dilation: Any, dimension_numbers: Any,
    batch_group_count: int = 1, **_: Any,
) -> RooflineResult:  # fmt: skip
    out = RooflineShape.from_aval(ctx.avals_out[0])
    spec = dimension_numbers
    pairs = math.prod(
        _valid(lhs.shape[a], rhs.shape[b], s, p, ld, rd)
        for a, b, s, p, ld, rd in zip(
            spec.lhs_spec[2:], spec.rhs_spec[2:], window_strides, padding,
            lhs_dilation or [1] * 9, rhs_dilation or [1] * 9, strict=False,
        )
    )  # fmt: skip
    batch, features = out.shape[spec.out_spec[0]], out.shape[spec.out_spec[1]]
    flops = 2 * batch * features * rhs.shape[spec.rhs_spec[1]] * pairs
    return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=lhs.bytes + rhs.bytes + out.bytes)


def _gather(
    ctx: RooflineRuleContext, x: RooflineShape, at: RooflineShape, **_: Any
) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return RooflineResult(unfused_hbm_bytes=2 * out.bytes + at.bytes)


def _scatter(
    ctx: RooflineRuleContext, x: RooflineShape, at: RooflineShape, new: RooflineShape, **_: Any
) -> RooflineResult:
    adds = 0 if ctx.primitive.name == "scatter" else new.size
    times = 2 if ctx.primitive.name == "scatter" else 3
    return RooflineResult(unfused_flops=adds, unfused_hbm_bytes=times * new.bytes + at.bytes)


# Between chips: the axes of a collective are rings, and data goes along all of them at once.
def _sizes(ctx: RooflineRuleContext, names: Any) -> dict[str, int]:
    names = names if isinstance(names, (tuple, list)) else (names,)
    shape = dict(ctx.mesh.shape)
    return {str(n): shape[n] for n in names}


def _on_rings(sizes: dict[str, int], shard: float, phases: int = 1) -> RooflineResult:
    """Every chip gets the parts of all others, each of so many bytes."""
    large = {k: n for k, n in sizes.items() if n > 1}
    count = math.prod(sizes.values())
    moved = int(phases * shard * (count - 1) / max(len(large), 1))
    steps = phases * len(large) * max(large.values(), default=0)
    return RooflineResult(
        ici_bytes={k: moved if n > 1 else 0 for k, n in sizes.items()},
        ici_latency={k: steps if n > 1 else 0 for k, n in sizes.items()},
    )


def _all_gather(
    ctx: RooflineRuleContext, *xs: RooflineShape, axis_name: Any, **_: Any
) -> RooflineResult:
    sizes = _sizes(ctx, axis_name)
    return _on_rings(sizes, sum(x.bytes for x in xs))


def _reduce_scatter(
    ctx: RooflineRuleContext, *xs: RooflineShape, axis_name: Any, **_: Any
) -> RooflineResult:
    sizes = _sizes(ctx, axis_name)
    return _on_rings(sizes, sum(x.bytes for x in xs) / math.prod(sizes.values()))


def _all_reduce(
    ctx: RooflineRuleContext, *xs: RooflineShape, axes: Any, **_: Any
) -> RooflineResult:
    sizes = _sizes(ctx, [a for a in axes if not isinstance(a, int)])
    return _on_rings(sizes, sum(x.bytes for x in xs) / math.prod(sizes.values()), 2)


def _extreme(ctx: RooflineRuleContext, *xs: RooflineShape, axes: Any, **_: Any) -> RooflineResult:
    sizes = _sizes(ctx, [a for a in axes if not isinstance(a, int)])
    return _on_rings(sizes, sum(x.dtype.itemsize for x in xs))


def _all_to_all(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: Any, **_: Any
) -> RooflineResult:
    sizes = _sizes(ctx, axis_name)
    large = [n for n in sizes.values() if n > 1]
    if not large:
        return _on_rings(sizes, 0)
    links = len(large) if len(large) > 1 else 1 + (large[0] > 2)
    moved = int(x.bytes * math.prod(large) / 2 / links)  # half of it crosses the middle
    steps = sum(n // 2 for n in large)
    return RooflineResult(
        ici_bytes={k: moved if n > 1 else 0 for k, n in sizes.items()},
        ici_latency={k: steps if n > 1 else 0 for k, n in sizes.items()},
    )


def _permute(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: Any, perm: Any, **_: Any
) -> RooflineResult:
    sizes = _sizes(ctx, axis_name)
    lengths = tuple(sizes.values())
    if all(n == 1 for n in lengths):
        return _on_rings(sizes, 0)
    links: dict[Any, int] = {}
    steps = 0
    for source, target in perm:
        at: list[Any] = list(np.unravel_index(source, lengths))
        to: Any = np.unravel_index(target, lengths)
        hops = 0
        for d, n in enumerate(lengths):
            ahead = (to[d] - at[d]) % n
            way = 1 if ahead <= n - ahead else -1
            for _hop in range(min(ahead, n - ahead)):
                following = [*at]
                following[d] = (at[d] + way) % n
                link = frozenset([tuple(map(int, at)), tuple(map(int, following))])
                links[link] = links.get(link, 0) + 1
                at, hops = following, hops + 1
        steps = max(steps, hops)
    moved = int(x.bytes * max(links.values(), default=0))
    return RooflineResult(
        ici_bytes=dict.fromkeys(sizes, moved), ici_latency=dict.fromkeys(sizes, steps)
    )


def _table() -> dict[str, Rule]:
    """The rules of our own primitives, by name."""
    table: dict[str, Rule] = {
        "select_n": _select, "reduce_sum": _sum, "dot_general": _product,
        "conv_general_dilated": _convolution, "gather": _gather, "all_gather": _all_gather,
        "all_gather_invariant": _all_gather, "reduce_scatter": _reduce_scatter,
        "psum": _all_reduce, "psum_invariant": _all_reduce, "pmin": _extreme, "pmax": _extreme,
        "all_to_all": _all_to_all, "ppermute": _permute,
    }  # fmt: skip
    table |= dict.fromkeys(
        "abs acos asin atan cbrt ceil conj cos cosh exp expm1 floor imag integer_pow is_finite log "
        "log1p logistic neg not real round rsqrt sign sin sinh sqrt square tan bessel_i0e "
        "bessel_i1e digamma erf_inv erf erfc lgamma add sub mul div rem max min and or xor eq ne "
        "lt le gt ge".split(),
        _elementwise,
    )
    table |= dict.fromkeys("cumsum cumprod cummax cummin cumlogsumexp".split(), _running)
    table |= dict.fromkeys(
        "scatter scatter-add scatter_mul scatter_min scatter_max".split(), _scatter
    )
    free = (
        "approx_top_k argmax argmin broadcast_in_dim clamp concatenate convert_element_type copy "
        "dynamic_slice dynamic_update_slice iota pad reshape rev slice sort squeeze stop_gradient "
        "transpose pvary pcast split reduce_max reduce_min reduce_and reduce_or reduce_prod top_k "
        "add_any expand_dims bitcast_convert_type name stage fft reduce_window_sum "
        "reduce_window_max "
        "reduce_window_min select_and_gather_add device_put optimization_barrier"
    ).split()
    return {**dict.fromkeys(free, _nothing), **table}


def _nothing(ctx: RooflineRuleContext, *xs: RooflineShape, **_: Any) -> RooflineResult:
    return RooflineResult()


_table_of_ours = _table()


def _of_ours(primitive: Any) -> Rule | None:
    name = primitive.name
    return _table_of_ours.get(name) if ALL.get(name) is primitive else None
