"""Calls of Python: a custom call that finds its function in the program's list of callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.avals import ShapedArray
from ....primitives import callback as p
from ..contexts import LoweringRuleContext, TokenSet
from ..library import hlo, ir
from ..lowering import rule
from ..types import physical, type_of, ui64_attr
from .build import flag

_TARGET = "xla_ffi_python_cpu_callback"


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Any],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Writes a call of `callback(*arrays)`, which gives arrays of the types `result_avals`: the
    results, the token after the call (if `token` was given and `returns_token`), and what must live
    as long as the program.

    >>> from pullback.interpreters import mlir
    >>> from pullback.extend import core
    >>> log_p = core.Primitive("example_log")
    >>> _ = log_p.def_abstract_eval(lambda x: x), log_p.def_impl(lambda x: x)
    >>> def rule(ctx, x):
    ...     outs, _, _ = mlir.emit_python_callback(
    ...         ctx, lambda a: (a,), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=True)
    ...     return outs
    >>> _ = mlir.register_lowering(log_p, rule)
    >>> "python_cpu_callback" in pb.jit(log_p.bind).lower(1.0).as_text("stablehlo")
    True
    """
    module = ctx.module_context
    places = [p for p in ctx.platforms or module.platforms if p != "cpu"]
    if places:
        raise ValueError(f"`EmitPythonCallback` not supported on {places[0]} backend.")
    physical_avals = [physical(a) for a in result_avals]
    tokens = [token] if token is not None else []
    function = _checked(callback, physical_avals)
    if tokens:
        function = _with_token(function, returns_token)
    module.add_host_callback(function)
    types = [t.type for t in tokens] if returns_token else []
    types += [type_of(a) for a in physical_avals]
    inputs = [*tokens, *operands]
    call = hlo.CustomCallOp(
        types, inputs, call_target_name=ir.StringAttr.get(_TARGET),
        has_side_effect=flag(has_side_effect), backend_config=ir.StringAttr.get(""),
        operand_layouts=layouts([x.type for x in inputs]), result_layouts=layouts(types),
    )  # fmt: skip
    index = {"index": ui64_attr(len(module.host_callbacks) - 1)}
    call.operation.attributes["mhlo.backend_config"] = ir.DictAttr.get(index)
    outs = list(call.results)
    after = outs.pop(0) if tokens and returns_token else None
    return outs, after, None


def _with_token(function: Callable[..., Any], returned: bool) -> Callable[..., Any]:
    """The function as the runtime calls it: the token is the first of its arguments and results."""

    def call(token: Any, *args: Any) -> tuple[Any, ...]:
        outs = function(*args)
        return (token, *outs) if returned else outs

    return call


def layouts(types: Sequence[Any]) -> Any:
    """Row-major layouts of arrays, as an attribute."""
    return ir.ArrayAttr.get([layout(_rank(t)) for t in types])


def _rank(kind: Any) -> int:
    return kind.rank if isinstance(kind, ir.RankedTensorType) else 0


def layout(rank: int, order: Sequence[int] | None = None) -> Any:
    """Which axes lie next to each other, the nearest first."""
    values = np.asarray(order if order is not None else range(rank - 1, -1, -1), np.int64)
    return ir.DenseIntElementsAttr.get(values, type=ir.IndexType.get(), shape=[rank])


def _checked(
    callback: Callable[..., Any], avals: Sequence[ShapedArray]
) -> Callable[..., tuple[Any, ...]]:
    """The function with its results as arrays of the promised types. RuntimeError if they have
    others: the runtime does not look."""

    def call(*args: Any) -> tuple[Any, ...]:
        outs = callback(*args)
        outs = [] if outs is None else list(outs)
        if len(outs) != len(avals):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(avals)}, Actual: "
                f"{len(outs)}"
            )
        found = [np.asarray(x) for x in outs]
        for k, (x, aval) in enumerate(zip(found, avals, strict=True)):
            if x.shape != aval.shape or x.dtype != aval.dtype:
                raise RuntimeError(
                    f"Incorrect output {k} of a callback: expected {aval.str_short()}, got "
                    f"{x.dtype.name}[{','.join(map(str, x.shape))}]"
                )
        return tuple(found)

    return call


def _emit(
    ctx: LoweringRuleContext,
    name: str,
    callback: Callable[..., Any],
    args: Sequence[Any],
    effectful: bool,
    results: Sequence[Any],
) -> list[Any]:
    """A call of one of this package's callbacks, ordered if its effect is."""
    effects = list(ctx.tokens_in.effects())
    token = ctx.tokens_in.get(effects[0]) if effects else None
    avals = [physical(a) for a in results]

    def call(*arrays: Any) -> list[Any]:
        return p.call_python(name, callback, [np.asarray(x) for x in arrays], avals)

    outs, after, _ = emit_python_callback(
        ctx, call, token, args, ctx.avals_in, avals, has_side_effect=effectful
    )
    if effects:
        ctx.set_tokens_out(TokenSet({effects[0]: after}))
    return outs


@rule("pure_callback")
def _pure_callback(ctx: LoweringRuleContext, *args: Any, callback: Any, **_: Any) -> list[Any]:
    return _emit(ctx, "pure_callback", callback, args, False, ctx.avals_out)


@rule("io_callback")
def _io_callback(ctx: LoweringRuleContext, *args: Any, callback: Any, **_: Any) -> list[Any]:
    return _emit(ctx, "io_callback", callback, args, True, ctx.avals_out)


@rule("debug_callback")
def _debug_callback(ctx: LoweringRuleContext, *args: Any, callback: Any, **_: Any) -> list[Any]:
    return _emit(ctx, "debug_callback", callback, args, True, [])


@rule("debug_print")
def _debug_print(ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
    def show(*arrays: Any) -> None:
        p.print_now(*(np.asarray(x) for x in arrays), **params)

    return _emit(ctx, "debug_print", show, args, True, [])
