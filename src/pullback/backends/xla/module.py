"""Whole modules: a program as one, two as one, a module as text and as bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from ...control.refs import discharge
from ...core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from ...core.refs import is_ref_aval
from ...primitives.common import is_symbolic
from ...primitives.keys import lower_keys
from ...transforms.partial_eval import dce_closed
from . import contexts
from .contexts import LoweringParameters, LoweringResult
from .library import ir, mlir_api
from .lowering import lower_jaxpr_to_fun
from .types import i32_attr, physical


def lower_jaxpr_to_module(
    module_name: str,
    jaxpr: ClosedJaxpr,
    *,
    num_const_args: int,
    in_avals: Sequence[Any],
    ordered_effects: list[Any],
    platforms: Sequence[str],
    backend: Any,
    axis_context: Any,
    donated_args: Sequence[bool],
    replicated_args: Sequence[bool] | None = None,
    arg_shardings: Sequence[Any] | None = None,
    result_shardings: Sequence[Any] | None = None,
    in_layouts: Sequence[Any] | None = None,
    out_layouts: Sequence[Any] | None = None,
    arg_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
    num_partitions: int = 1,
    all_default_mem_kind: bool = True,
    input_output_aliases: tuple[int | None, ...] | None = None,
    propagated_out_mem_kinds: tuple[str | None, ...] | None = None,
    lowering_parameters: LoweringParameters,
) -> LoweringResult:
    """A program as a module of StableHLO, whose public function `main` it is.

    Arguments that are donated lend their memory to results of the same type. ValueError if a rule
    wrote something that MLIR refuses.

    >>> from pullback.interpreters import mlir
    >>> program = pb.make_jaxpr(lambda x: jnp.sin(x))(1.0)
    >>> lowered = mlir.lower_jaxpr_to_module(
    ...     "example", program, num_const_args=0, in_avals=program.in_avals, ordered_effects=[],
    ...     platforms=["cpu"], backend=None, axis_context=mlir.ShardingContext(1),
    ...     donated_args=[False], lowering_parameters=mlir.LoweringParameters())
    >>> "stablehlo.sine" in mlir.module_to_string(lowered.module)
    True
    """
    closed = prepared(jaxpr)
    in_avals = [physical(a) for a in in_avals]
    ctx = contexts.module_context(
        platforms, lowering_parameters, axis_context, backend=backend,
        all_default_mem_kind=all_default_mem_kind,
    )  # fmt: skip
    donors, aliases = list(donated_args), list(input_output_aliases or [None] * len(in_avals))
    lies, found = arg_shardings or (), result_shardings or ()
    if input_output_aliases is None and (num_partitions == 1 or {*lies} == {*found} - {None}):
        aliases, donors = _aliases(closed, in_avals, donated_args, num_const_args), []
    with ctx.context, ir.Location.unknown():
        attributes = ctx.module.operation.attributes
        name = re.sub(r"[^\w.-]", "_", module_name.rstrip(">"))
        attributes["sym_name"] = ir.StringAttr.get(name)
        attributes["mhlo.num_replicas"] = i32_attr(1)
        attributes["mhlo.num_partitions"] = i32_attr(num_partitions)
        with ctx.ip:
            lower_jaxpr_to_fun(
                ctx, "main", closed, ordered_effects, num_const_args=num_const_args,
                main_function=True, in_avals=in_avals, replicated_args=replicated_args,
                arg_shardings=arg_shardings, result_shardings=result_shardings,
                input_output_aliases=aliases, xla_donated_args=donors, arg_names=arg_names,
                result_names=result_names, arg_layouts=in_layouts, result_layouts=out_layouts,
            )  # fmt: skip
        _verified(ctx.module)
    return LoweringResult(ctx.module, ctx.keepalives, ctx.host_callbacks, ctx.shape_poly_state)


def prepared(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program as rules expect it: references are values, keys their words, what nothing needs
    is gone. Raises the error of an effect that a transformation should have taken away, and
    TypeError for symbolic sizes."""
    for effect in closed.effects:
        if hasattr(effect, "not_lowered"):
            raise effect.not_lowered()
    open_sizes = [a for a in closed.in_avals if any(map(is_symbolic, getattr(a, "shape", ())))]
    if open_sizes:
        raise TypeError(
            "programs over symbolic sizes are not lowered to StableHLO, and this one takes "
            f"{open_sizes[0].str_short()}. Fix: trace it with numbers for the sizes."
        )
    if _has_refs(closed.jaxpr):
        closed = discharge(closed)[0]
    return lower_keys(dce_closed(closed, [True] * len(closed.jaxpr.outvars), True)[0])


def _has_refs(jaxpr: Jaxpr) -> bool:
    """Are there references in a program, or in one that it holds?"""
    found = jaxpr.derived.get("has refs")
    if found is None:
        found = jaxpr.derived["has refs"] = any(
            any(is_ref_aval(v.aval) for v in e.outvars)
            or any(map(_has_refs, jaxprs_in_params(e.params)))
            for e in jaxpr.eqns
        )
    return bool(found)


def _aliases(
    closed: ClosedJaxpr, in_avals: Sequence[Any], donated: Sequence[bool], num_const_args: int
) -> list[int | None]:
    """For each argument the result that takes its memory."""
    free = [(a.shape, a.dtype) if hasattr(a, "shape") else None for a in closed.out_avals]
    aliases: list[int | None] = [None] * len(in_avals)
    for k, (aval, given) in enumerate(zip(in_avals[num_const_args:], donated, strict=False)):
        wanted = (aval.shape, aval.dtype) if given else None
        if wanted is not None and wanted in free:
            at = free.index(wanted)
            aliases[num_const_args + k], free[at] = at, None
    return aliases


def _verified(module: Any) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as e:
        raise ValueError(f"Cannot lower jaxpr with verifier errors:\n{e}") from None


def module_to_string(module: Any, enable_debug_info: Any = None) -> str:
    """A module as text; with `enable_debug_info` the user's lines are in it.

    >>> lowered = pb.jit(lambda x: x + 1).lower(1.0)
    >>> from pullback.interpreters import mlir
    >>> "stablehlo.add" in mlir.module_to_string(lowered.compiler_ir("stablehlo"))
    True
    """
    output = io.StringIO()
    module.operation.print(file=output, enable_debug_info=bool(enable_debug_info))
    return output.getvalue()


def module_to_bytecode(module: Any) -> bytes:
    """A module in MLIR's binary form.

    >>> lowered = pb.jit(lambda x: x + 1).lower(1.0)
    >>> from pullback.interpreters import mlir
    >>> mlir.module_to_bytecode(lowered.compiler_ir("stablehlo"))[:4]
    b'ML\\xefR'
    """
    output = io.BytesIO()
    module.operation.write_bytecode(file=output)
    return output.getvalue()


def merge_mlir_modules(
    dst_module: Any, sym_name: str, src_module: Any, dst_symtab: Any = None
) -> str:
    """Copies the functions of one module into another; `main` becomes a private function
    `sym_name`, or a name near it if that is taken: the name that it got. The modules must have one
    context.

    >>> from pullback.interpreters import mlir
    >>> module = pb.jit(lambda x: x + 1).lower(1.0).compiler_ir("stablehlo")
    >>> with module.context:
    ...     other = mlir.ir.Module.parse(str(module))
    >>> mlir.merge_mlir_modules(other, "increment", module)
    'increment'
    """
    if dst_module.context != src_module.context:
        raise ValueError("the modules must have one MLIR context. Fix: parse one in the other's.")
    table = dst_symtab or ir.SymbolTable(dst_module.operation)
    with src_module.context:
        source = ir.Module.parse(module_to_bytecode(src_module))
        names = ir.SymbolTable(source.operation)
        ops = list(source.body.operations)
        main = ""
        for op in ops:
            before = op.attributes["sym_name"].value
            name = _free_name(sym_name if before == "main" else before, table, names, before)
            if name != before:
                names.set_symbol_name(op, name)
                ir.SymbolTable.replace_all_symbol_uses(before, name, source.operation)
            if before == "main":
                main = name
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for op in ops:
            dst_module.body.append(op)
            table.insert(op)
    return main


def _free_name(wanted: str, table: Any, own: Any, before: str) -> str:
    name, k = wanted, 0
    while name in table or (name != before and name in own):
        name, k = f"{wanted}_{k}", k + 1
    return name


def to_computation(module: Any) -> Any:
    """A module as XLA's own program."""
    return mlir_api.mlir.mlir_module_to_xla_computation(
        module_to_bytecode(module), use_tuple_args=False, return_tuple=False
    )
