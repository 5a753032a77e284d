"""From a jaxpr to a module of StableHLO: one rule an equation, a function a call.

A rule is `rule(ctx, *operands, **params) -> values`: operands and results are values of MLIR, `ctx`
(LoweringRuleContext) has their avals. It runs inside of the module's context, insertion point and
location, so that operations need none of them. The rules of this package's primitives are in
`stablehlo/`, by name; a user's own (`mlir.register_lowering`) go before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core import effects as fx, source
from ...core.build import close_jaxpr, trace_to_jaxpr
from ...core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from ...core.primitive import ALL, Primitive
from ...core.trace import empty_context
from ...lazy_imports import lazy_module
from ...primitives.keys import lower_keys, lower_keys_in
from ...transforms.partial_eval import dce_closed
from .contexts import LoweringRuleContext, ModuleContext, TokenSet
from .library import func, hlo, ir
from .sharding import lower_with_sharding_in_types, sharding_attr
from .types import ir_constants, physical, tensor, types_of

Rule = Callable[..., Any]

# The rules of this package's primitives, by name, and those for one platform; `families` fills
# them when something is lowered.
RULES: dict[str, Rule] = {}
PLATFORM_RULES: dict[tuple[str, str], Rule] = {}
families: Any = lazy_module("pullback.backends.xla.stablehlo.families")


def rule(*names: str, platforms: Sequence[str] = ()) -> Callable[[Rule], Rule]:
    """Makes a function the rule of the primitives with these names, on some platforms or all."""

    def enter(fun: Rule) -> Rule:
        for name in names:
            if not platforms:
                RULES[name] = fun
            for platform in platforms:
                PLATFORM_RULES[name, platform] = fun
        return fun

    return enter


def register(prim: Primitive, fun: Rule, platform: str | None = None, inline: bool = True) -> None:
    """A user's rule of a primitive, for one platform or for all. What is not `inline` is a function
    of the module, written once for operands of the same types."""
    prim.rules.setdefault("stablehlo", {})[platform] = fun if inline else apart(prim.name, fun)
    prim.rules.pop("stablehlo programs", None)  # what was compiled by the rule before


# --- functions as rules ---
class LoweredFunction:
    """`lower_fun(f)`: a rule that is a traceable function; every backend can inline it."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: LoweringRuleContext, *args: Any, **params: Any) -> Any:
        closed = traced(self.fun, ctx.avals_in, self.multiple_results, **params)
        return inlined(ctx, closed, args)


def traced(
    fun: Callable[..., Any], avals: Sequence[Any], multiple_results: bool = True, **params: Any
) -> ClosedJaxpr:
    """The program of a function of arrays of these types."""

    def flat(*args: Any) -> list[Any]:
        out = fun(*args, **params)
        return list(out) if multiple_results else [out]

    with empty_context():
        jaxpr, consts = trace_to_jaxpr(flat, list(avals))
    closed = lower_keys(close_jaxpr(jaxpr, consts)[0])
    return dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)[0]


def inlined(ctx: LoweringRuleContext, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a program whose equations are written here."""
    outs, tokens = jaxpr_subcomp(
        ctx.module_context, closed.jaxpr, ctx.name_stack, ctx.tokens_in, constants(closed, ctx),
        *args, dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
        outer_traceback=ctx.traceback,
    )  # fmt: skip
    if len(ctx.tokens_in) and ctx.tokens_out is None:
        ctx.set_tokens_out(tokens)
    return list(outs)


def constants(closed: ClosedJaxpr, ctx: LoweringRuleContext) -> list[Any]:
    """The constants of a program as values."""
    return [
        _single(ir_constants(c, const_lowering=ctx.const_lowering, aval=physical(v.aval)))
        for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]


# --- equations ---
def _rules_of(ctx: ModuleContext, prim: Primitive, platform: str) -> Rule:
    """The rule of a primitive on a platform. NotImplementedError if there is none."""
    for other, override in ctx.lowering_parameters.override_lowering_rules or ():
        if other is prim:
            return override  # type: ignore[no-any-return]
    own = prim.rules.get("stablehlo", {})
    for place in (platform, None):
        if place in own:
            return own[place]  # type: ignore[no-any-return]
    families.load()
    if ALL.get(prim.name) is prim:
        found = PLATFORM_RULES.get((prim.name, platform)) or RULES.get(prim.name)
        if found is not None:
            return found
    if "inline" in prim.rules:
        return LoweredFunction(prim.rules["inline"], prim.multiple_results)
    raise NotImplementedError(
        f"MLIR translation rule for primitive '{prim.name}' not found for platform {platform}. "
        "Fix: mlir.register_lowering(the primitive, rule), where the rule gives StableHLO, or "
        "mlir.lower_fun(f) of a traceable function."
    )


# What lays its result out itself.
_LAID = frozenset(("device_put", "reshard", "sharding_constraint"))


def _as_typed(ctx: LoweringRuleContext, eqn: JaxprEqn, outs: Sequence[Any]) -> list[Any]:
    """The results of an operation, laid out over axes of explicit type as their types say."""
    if eqn.primitive.name in _LAID or next(iter(jaxprs_in_params(eqn.params)), None) is not None:
        return list(outs)
    return [
        lower_with_sharding_in_types(ctx, x, v.aval) if isinstance(x, ir.Value) else x
        for x, v in zip(outs, eqn.outvars, strict=True)
    ]


def jaxpr_subcomp(
    ctx: ModuleContext,
    jaxpr: Jaxpr,
    name_stack: Any,
    tokens: TokenSet,
    consts_for_constvars: Sequence[Any],
    *args: Any,
    dim_var_values: Sequence[Any],
    const_lowering: dict[Any, Any],
    outer_traceback: Any,
) -> tuple[list[Any], TokenSet]:
    """Writes a program's equations where the module is being written: its results, and the tokens
    of its ordered effects after it.

    >>> from pullback.interpreters import mlir
    >>> import inspect
    >>> "dim_var_values" in inspect.signature(mlir.jaxpr_subcomp).parameters
    True
    """
    jaxpr = lower_keys_in(jaxpr)
    env: dict[Any, Any] = {}
    env.update(zip(jaxpr.constvars, consts_for_constvars, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        if not isinstance(v, Literal):
            return env[v]
        return _single(ir_constants(v.val, const_lowering=const_lowering, aval=physical(v.aval)))

    for eqn in jaxpr.eqns:
        with location(eqn, name_stack):
            effects = ordered(eqn.effects)
            here = LoweringRuleContext(
                ctx, name_stack, outer_traceback, eqn.primitive,
                [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars],
                tokens.subset(effects), None, const_lowering,
                dim_var_values=dim_var_values, jaxpr_eqn_ctx=eqn.ctx,
            )  # fmt: skip
            outs = _lower_eqn(here, eqn, [read(v) for v in eqn.invars])
            if any(getattr(v.aval, "_sharding", None) is not None for v in eqn.outvars):
                outs = _as_typed(here, eqn, outs)
        env.update(zip(eqn.outvars, outs, strict=True))
        if effects:
            tokens = tokens.update_tokens(_tokens_after(here, eqn))
    return [read(v) for v in jaxpr.outvars], tokens


def _tokens_after(ctx: LoweringRuleContext, eqn: JaxprEqn) -> TokenSet:
    if ctx.tokens_out is None:
        raise ValueError(
            f"The lowering rule for `{eqn.primitive}` must give the tokens of its ordered effects. "
            "Fix: ctx.set_tokens_out(mlir.TokenSet({effect: token}))."
        )
    return ctx.tokens_out


def _lower_eqn(ctx: LoweringRuleContext, eqn: JaxprEqn, args: list[Any]) -> list[Any]:
    module = ctx.module_context
    rules = [_rules_of(module, eqn.primitive, p) for p in ctx.platforms or module.platforms]
    operands = [x for v in args for x in (v if isinstance(v, tuple) and len(v) != 1 else (v,))]
    if all(r is rules[0] for r in rules):
        outs = results(rules[0](ctx, *operands, **eqn.params), eqn.primitive)
    else:
        outs = _by_platform(ctx, rules, operands, eqn)
    if len(outs) != len(eqn.outvars):
        raise ValueError(
            f"The lowering rule of `{eqn.primitive}` gave {len(outs)} values, but the primitive has"
            f" {len(eqn.outvars)} results. Fix: return a list of one value for each result."
        )
    return outs


def _by_platform(
    ctx: LoweringRuleContext, rules: Sequence[Rule], args: Sequence[Any], eqn: JaxprEqn
) -> list[Any]:
    """A branch for each platform: which one it is, the program is told as it runs."""
    types = [t for aval in ctx.avals_out for t in types_of(physical(aval))]
    op = hlo.CaseOp(types, ctx.dim_var_values[0], len(rules))
    for place, fun, region in zip(ctx.module_context.platforms, rules, op.regions, strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            out = fun(ctx.replace(platforms=[place]), *args, **eqn.params)
            hlo.return_(results(out, eqn.primitive))
    return list(op.results)


def results(out: Any, prim: Any) -> list[Any]:
    """What a rule gave, as a list of values. ValueError if it is no value, or has one that is
    none."""
    if isinstance(out, ir.Value):
        return [out]
    if isinstance(out, (ir.OpView, ir.Operation)):
        return list(out.results)
    try:
        listed = list(out)
    except TypeError:
        listed = [out]
    for x in flatten(listed):
        if not isinstance(x, ir.Value):
            raise ValueError(
                f"The lowering rule of `{prim}` gave {x!r}, which is no value of MLIR. Fix: return "
                "a list of one value for each result."
            )
    return [_single(tuple(x)) if isinstance(x, (tuple, list)) else x for x in listed]


def _single(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def ordered(effects: Iterable[Any]) -> list[Any]:
    """The ordered effects among some, in one order."""
    return sorted(fx.ordered_effects.filter_in(effects), key=str)


def location(eqn: JaxprEqn, name_stack: Any) -> Any:
    """Where an equation comes from: its name under its scopes, the user's file and line."""
    info = eqn.source_info
    stack = getattr(name_stack, "stack", name_stack) or ()
    name = source.names_text([*stack, *getattr(info, "name_stack", ()), eqn.primitive.name])
    if not isinstance(info, source.SourceInfo) or info.code is None:
        return ir.Location.name(name)
    line, column = info.position()
    return ir.Location.name(name, childLoc=ir.Location.file(info.file, line, column))


# --- functions of the module ---
def apart(name: str, fun: Rule) -> Rule:
    """The rule as a call of a function that it writes: once for the same types and parameters."""

    def lower(ctx: LoweringRuleContext, *args: Any, **params: Any) -> Any:
        module = ctx.module_context
        key = fun, tuple(ctx.avals_in), tuple(params.items())
        try:
            known = module.cached_primitive_lowerings.get(key)
        except TypeError:  # a parameter that is not hashable
            return fun(ctx, *args, **params)
        if len(ctx.tokens_in):
            return fun(ctx, *args, **params)
        if known is None:
            known = _write_rule(ctx, name, fun, params, [v.type for v in flatten(args)])
            module.cached_primitive_lowerings[key] = known
        values = [*ctx.dim_var_values, *flatten(args)]
        name_attr = ir.FlatSymbolRefAttr.get(known.name.value)
        return list(func.CallOp(known.type.results, name_attr, values).results)

    return lower


def _write_rule(
    ctx: LoweringRuleContext, name: str, fun: Rule, params: dict[str, Any], kinds: list[Any]
) -> Any:
    module, sizes = ctx.module_context, len(ctx.dim_var_values)
    out_types = [t for a in ctx.avals_out for t in types_of(physical(a))]
    with module.ip:
        types = [*(v.type for v in ctx.dim_var_values), *kinds]
        op = func.FuncOp(name, ir.FunctionType.get(types, out_types))
    op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module.symbol_table.insert(op)
    with ir.InsertionPoint(op.add_entry_block()):
        values = list(op.arguments)
        inner = ctx.replace(dim_var_values=values[:sizes], tokens_out=None)
        func.return_(flatten(results(fun(inner, *values[sizes:], **params), name)))
    return op


def call(
    ctx: LoweringRuleContext, name: str, closed: ClosedJaxpr, args: Sequence[Any]
) -> list[Any]:
    """A call of a program, which is a function of the module; the same program is one function."""
    module, effects = ctx.module_context, list(ctx.tokens_in.effects())
    effects.sort(key=str)
    key = id(closed), name, tuple(effects)
    known = module.lowering_cache.get(key)
    if known is None:
        # The program is kept: another one must not get its number.
        known = module.lowering_cache[key] = write_function(ctx, name, closed, effects), closed
    op = known[0]
    tokens = [ctx.tokens_in.get(e) for e in effects]
    found = func.CallOp(
        op.type.results,
        ir.FlatSymbolRefAttr.get(op.name.value),
        [*ctx.dim_var_values, *tokens, *flatten(args)],
    ).results
    if effects:
        ctx.set_tokens_out(TokenSet(dict(zip(effects, found[: len(effects)], strict=True))))
    return list(found)[len(effects) :]


def write_function(
    ctx: LoweringRuleContext, name: str, closed: ClosedJaxpr, effects: Sequence[Any]
) -> Any:
    """A private function of the module, after those that are there."""
    module = ctx.module_context
    with module.ip:
        return lower_jaxpr_to_fun(
            module, name, closed, effects, num_const_args=0, in_avals=closed.in_avals
        )


def flatten(values: Iterable[Any]) -> list[Any]:
    return [x for v in values for x in (v if isinstance(v, (tuple, list)) else (v,))]


def lower_jaxpr_to_fun(
    ctx: ModuleContext,
    name: str,
    jaxpr: ClosedJaxpr,
    effects: Sequence[Any],
    *,
    num_const_args: int,
    main_function: bool = False,
    replicated_args: Sequence[bool] | None = None,
    in_avals: Sequence[Any],
    arg_shardings: Sequence[Any] | None = None,
    result_shardings: Sequence[Any] | None = None,
    use_sharding_annotations: bool = True,
    input_output_aliases: Sequence[int | None] | None = None,
    xla_donated_args: Sequence[bool] | None = None,
    arg_names: Sequence[str | None] | None = None,
    result_names: Sequence[str] | None = None,
    arg_memory_kinds: Sequence[str | None] | None = None,
    result_memory_kinds: Sequence[str | None] | None = None,
    arg_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    propagated_out_mem_kinds: tuple[str | None, ...] | None = None,
) -> Any:
    """Writes a program as a function of the module, named `name` (a number is added if that is
    taken): the function. Its arguments are the sizes, the tokens of `effects`, the constants that
    are arguments (`num_const_args`), and the program's arguments.

    >>> from pullback.interpreters import mlir
    >>> import inspect
    >>> "num_const_args" in inspect.signature(mlir.lower_jaxpr_to_fun).parameters
    True
    """
    closed = lower_keys(jaxpr)
    in_avals = [physical(a) for a in in_avals]
    dims = [tensor((), "int32")] * len(ctx.shape_poly_state.dim_vars)
    tokens = [hlo.TokenType.get()] * len(effects)
    in_types = [list(types_of(a)) for a in in_avals]
    out_types = [list(types_of(a)) for a in closed.out_avals]
    kind = ir.FunctionType.get([*dims, *tokens, *flatten(in_types)], [*tokens, *flatten(out_types)])
    op = func.FuncOp(name, kind)
    op.attributes["sym_visibility"] = ir.StringAttr.get("public" if main_function else "private")
    ctx.symbol_table.insert(op)
    plain = len(dims) + len(tokens)
    arguments = _Attributes(len(kind.inputs))
    arguments.set(range(len(dims), plain), "jax.token", [bool_attr(True)] * len(tokens))
    users = range(plain, len(kind.inputs))
    arguments.set(users, "mhlo.is_same_data_across_replicas", map(_flag, replicated_args or ()))
    arguments.set(users, "sdy.sharding", _shardings(ctx, arg_shardings, in_avals))
    arguments.set(users, "tf.aliasing_output", map(_index_attr, input_output_aliases or ()))
    arguments.set(users, "jax.buffer_donor", map(_flag, xla_donated_args or ()))
    arguments.set(users, "mhlo.memory_kind", map(_text, arg_memory_kinds or ()))
    arguments.set(users, "mhlo.layout_mode", map(_text, arg_layouts or ()))
    returned = _Attributes(len(kind.results))
    returned.set(range(len(tokens)), "jax.token", [bool_attr(True)] * len(tokens))
    users = range(len(tokens), len(kind.results))
    returned.set(users, "jax.result_info", map(_text, result_names or ()))
    returned.set(users, "sdy.sharding", _shardings(ctx, result_shardings, closed.out_avals))
    returned.set(users, "mhlo.memory_kind", map(_text, result_memory_kinds or ()))
    returned.set(users, "mhlo.layout_mode", map(_text, result_layouts or ()))
    op.arg_attrs, op.result_attrs = arguments.built(), returned.built()
    unknown = ir.Location.unknown()
    names = [*[None] * plain, *(arg_names or [])]
    names += [None] * (len(kind.inputs) - len(names))
    places = [ir.Location.name(n) if n else unknown for n in names]
    block = op.regions[0].blocks.append(*kind.inputs, arg_locs=places)
    with ir.InsertionPoint(block), unknown:
        values = list(block.arguments)
        given = TokenSet(dict(zip(effects, values[len(dims) : plain], strict=True)))
        _write_body(
            ctx, closed, effects, values[: len(dims)], given, _grouped(values[plain:], in_types),
            num_const_args,
        )  # fmt: skip
    return op


def _write_body(
    ctx: ModuleContext,
    closed: ClosedJaxpr,
    effects: Sequence[Any],
    dims: Sequence[Any],
    tokens: TokenSet,
    args: Sequence[Any],
    num_const_args: int,
) -> None:
    consts = list(args[:num_const_args])
    for c, v in list(zip(closed.consts, closed.jaxpr.constvars, strict=True))[num_const_args:]:
        consts.append(_single(ir_constants(c, aval=physical(v.aval))))
    outs, after = jaxpr_subcomp(
        ctx, closed.jaxpr, source.Names(), tokens, consts, *args[num_const_args:],
        dim_var_values=dims, const_lowering={}, outer_traceback=None,
    )  # fmt: skip
    func.return_([*(after.get(e) for e in effects), *flatten(outs)])


def _grouped(values: Sequence[Any], types: Sequence[Sequence[Any]]) -> list[Any]:
    found, k = [], 0
    for ts in types:
        found.append(_single(tuple(values[k : k + len(ts)])))
        k += len(ts)
    return found


class _Attributes:
    """The attributes of a function's arguments or results."""

    def __init__(self, count: int) -> None:
        self.held: list[dict[str, Any]] = [{} for _ in range(count)]

    def set(self, where: range, name: str, values: Iterable[Any]) -> None:
        for k, value in zip(where, values, strict=False):
            if value is not None:
                self.held[k][name] = value

    def built(self) -> Any:
        return ir.ArrayAttr.get([ir.DictAttr.get(attrs) for attrs in self.held])


def bool_attr(value: bool) -> Any:
    return ir.BoolAttr.get(bool(value))


def _flag(value: Any) -> Any:
    return bool_attr(True) if value else None


def _text(value: Any) -> Any:
    return None if value is None else ir.StringAttr.get(str(value))


def _index_attr(value: Any) -> Any:
    return (
        None if value is None else ir.IntegerAttr.get(ir.IntegerType.get_signless(32), int(value))
    )


def _shardings(ctx: ModuleContext, shardings: Sequence[Any] | None, avals: Any) -> Iterable[Any]:
    """How arguments or results lie, where that is known."""
    for s, aval in zip(shardings or (), avals, strict=False):
        yield sharding_attr(ctx, s, len(getattr(aval, "shape", ())))
