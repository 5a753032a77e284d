"""Calls of foreign code by its registered name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....control.foreign import Attribute
from ..contexts import LoweringRuleContext
from ..library import hlo, ir
from ..lowering import rule
from ..types import i32_attr, ir_attribute, types_of
from .build import flag
from .callback import layout

TYPED = 4  # the version of XLA's typed interface


def attribute(value: Any) -> Any:
    """A value of Python as an attribute of a call."""
    return ir_attribute(value.value if isinstance(value, Attribute) else value)


def custom_call(
    call_target_name: str,
    *,
    result_types: Sequence[Any],
    operands: Sequence[Any],
    backend_config: Any = None,
    has_side_effect: bool = False,
    called_computations: Sequence[str] = (),
    api_version: int = TYPED,
    operand_output_aliases: Mapping[int, int] | None = None,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    extra_attributes: dict[str, Any] | None = None,
) -> Any:
    """A call of foreign code: the operation. Layouts name the nearest axis first."""
    fields: dict[str, Any] = {
        "call_target_name": ir.StringAttr.get(call_target_name),
        "backend_config": ir.StringAttr.get(""),
    }
    more = dict(extra_attributes or {})
    if api_version >= TYPED:
        more["mhlo.backend_config"] = ir.DictAttr.get(dict(backend_config or {}))
    else:
        fields["backend_config"] = ir.StringAttr.get(str(backend_config or ""))
        fields["api_version"] = i32_attr(api_version)
    if has_side_effect:
        fields["has_side_effect"] = flag(True)
    if called_computations:
        names = [ir.FlatSymbolRefAttr.get(n) for n in called_computations]
        fields["called_computations"] = ir.ArrayAttr.get(names)
    if operand_output_aliases:
        fields["output_operand_aliases"] = ir.ArrayAttr.get(
            [
                hlo.OutputOperandAlias.get([out] if len(result_types) > 1 else [], operand, [])
                for operand, out in operand_output_aliases.items()
            ]
        )
    for name, orders in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts)):
        if orders is not None:
            fields[name] = ir.ArrayAttr.get([layout(len(o), o) for o in orders])
    op = hlo.CustomCallOp(list(result_types), list(operands), **fields)
    for name, value in more.items():
        op.operation.attributes[name] = value
    return op


def _row_major(avals: Sequence[Any]) -> list[list[int]]:
    return [list(reversed(range(len(getattr(a, "shape", ()))))) for a in avals]


def _order(asked: Any, plain: list[int]) -> list[int]:
    """A layout as XLA has it: the nearest axis first; an object of layouts has it last."""
    if asked is None:
        return plain
    order = getattr(asked, "major_to_minor", None)
    return list(asked) if order is None else list(reversed(order))


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:
    """The function `(ctx, *operands, **attributes)` that writes a call of foreign code and gives
    its operation.

    Layouts that are sequences name the nearest axis first. `lowering_args` are further fields of
    the call: `has_side_effect`, `operand_output_aliases`, `api_version`, `result_types`,
    `extra_attributes`, `called_computations`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> foreign_p = core.Primitive("example_foreign")
    >>> _ = foreign_p.def_abstract_eval(lambda x: x)
    >>> write = pb.ffi.build_ffi_lowering_function("my_function", has_side_effect=True)
    >>> rule = lambda ctx, x: write(ctx, x, size=3).results
    >>> _ = mlir.register_lowering(foreign_p, rule)
    >>> "@my_function" in pb.jit(foreign_p.bind).lower(1.0).as_text("stablehlo")
    True
    """

    def write(ctx: LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        kwargs = dict(lowering_args)
        kwargs.setdefault("api_version", TYPED)
        outs = list(ctx.avals_out or ())
        kwargs.setdefault("result_types", [t for a in outs for t in types_of(a)])
        config = backend_config
        if kwargs["api_version"] >= TYPED:
            if isinstance(config, str):
                raise ValueError(
                    "When api_version > 4, backend_config must be a dictionary. Fix: "
                    "backend_config={name: attribute}."
                )
            config = {**(config or {}), **{k: attribute(v) for k, v in params.items()}}
        if not skip_ffi_layout_processing:
            ins, results = _row_major(ctx.avals_in), _row_major(outs)
            kwargs["operand_layouts"] = list(map(_order, operand_layouts or [None] * len(ins), ins))
            kwargs["result_layouts"] = list(
                map(_order, result_layouts or [None] * len(results), results)
            )
        else:
            kwargs["operand_layouts"] = operand_layouts
            kwargs["result_layouts"] = result_layouts
        return custom_call(call_target_name, operands=operands, backend_config=config, **kwargs)

    return write


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:
    """A lowering rule that calls foreign code: the primitive's parameters are the call's
    attributes. Arguments as of `build_ffi_lowering_function`.

    >>> from pullback.extend import core
    >>> from pullback.interpreters import mlir
    >>> scale_p = core.Primitive("example_scale")
    >>> _ = scale_p.def_abstract_eval(lambda x, *, by: x)
    >>> _ = mlir.register_lowering(scale_p, pb.ffi.ffi_lowering("my_scale"))
    >>> text = pb.jit(lambda x: scale_p.bind(x, by=2)).lower(1.0).as_text("stablehlo")
    >>> "{by = 2 : i64}" in text
    True
    """
    write = build_ffi_lowering_function(
        call_target_name,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        backend_config=backend_config,
        skip_ffi_layout_processing=skip_ffi_layout_processing,
        **lowering_args,
    )

    def lower(ctx: LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        return list(write(ctx, *operands, **params).results)

    return lower


@rule("ffi_call")
def _ffi_call(
    ctx: LoweringRuleContext, *operands: Any, target_name: str, has_side_effect: bool,
    input_layouts: Any, output_layouts: Any, input_output_aliases: Any,
    custom_call_api_version: int, legacy_backend_config: str | None, attributes: Any, **_: Any,
) -> list[Any]:  # fmt: skip
    lower = ffi_lowering(
        target_name, operand_layouts=input_layouts, result_layouts=output_layouts,
        backend_config=legacy_backend_config, has_side_effect=has_side_effect,
        operand_output_aliases=dict(input_output_aliases), api_version=custom_call_api_version,
    )  # fmt: skip
    return lower(ctx, *operands, **dict(attributes))  # type: ignore[no-any-return]
