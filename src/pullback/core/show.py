"""Printing programs, in the notation that JAX users know:

    { lambda a:f32[3]; b:f32[]. let
        c:f32[3] = mul a b
      in (c,) }

A jaxpr that occurs more than once, or that is long, is written once before the program (`let f =
{...} in`). A program becomes a document, which documents.py lays out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from . import source
from .avals import AbstractValue
from .documents import Break, Concat, Doc, Group, Nest, Text, join, layout, text
from .jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

# A jaxpr of more equations than this is written before the program, even if it occurs once.
_LONG = 10
# A break that is a new line only where the line is already full.
_fill = Group(Break())


# --- programs ---
class Settings:
    """What to print besides the program itself."""

    __slots__ = (
        "custom_pp_eqn_rules",
        "name_stack",
        "print_effects",
        "print_shapes",
        "source_info",
    )

    def __init__(
        self,
        print_shapes: bool = True,
        source_info: bool = False,
        name_stack: bool = False,
        custom_pp_eqn_rules: bool = True,
        print_effects: bool = False,
    ) -> None:
        self.source_info, self.print_shapes, self.name_stack = source_info, print_shapes, name_stack
        self.custom_pp_eqn_rules, self.print_effects = custom_pp_eqn_rules, print_effects


class Context:
    """The names given so far to variables and to the jaxprs written before the program."""

    def __init__(self, var_names: dict[Var, str] | None = None) -> None:
        self.var_names = {} if var_names is None else var_names
        self.jaxpr_names: dict[Jaxpr, str] = {}
        self.taken: set[str] = set()
        self._count = 0

    def var_name(self, v: Any) -> str:
        name = self.var_names.get(v)
        if name is None:
            name = self.var_names[v] = self._fresh()
        return name

    def suggest(self, v: Var, name: str) -> None:
        """Calls `v` by `name`, unless it has a name."""
        self.var_names.setdefault(v, name)

    def _fresh(self) -> str:
        while True:
            name = letters(self._count)
            self._count += 1
            if name not in self.taken:
                return name

    def name_jaxpr(self, jaxpr: Jaxpr, wish: str) -> None:
        base = re.sub(r"\W", "", wish) or "jaxpr"
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}{k}"
        self.jaxpr_names[jaxpr] = name
        self.taken.add(name)


def letters(n: int) -> str:
    """a, b, ..., z, ba, bb, ...: `n` in base 26."""
    out = chr(ord("a") + n % 26)
    while n := n // 26:
        out = chr(ord("a") + n % 26) + out
    return out


def aval_text(aval: Any) -> str:
    """The type of a variable as programs show it: `f32[3]`."""
    return aval.str_short(short_dtypes=True) if isinstance(aval, AbstractValue) else str(aval)


# Python's numbers whose text is shown as the user wrote it (0.1, not its value in 32 bits), by the
# kind of dtype that they have to have.
_WRITTEN = {float: "f", complex: "c"}


def literal_text(lit: Any) -> str:
    """The value of a literal, as it is in the literal's own dtype; Python's numbers as written."""
    val, d = lit.val, getattr(lit.aval, "dtype", None)
    if getattr(d, "kind", "") == _WRITTEN.get(type(val)):
        return str(val)
    if isinstance(d, np.dtype) and getattr(lit.aval, "shape", None) == () and d != dtypes.float0:
        val = (
            np.asarray(val, d).item()
            if d.kind in "biuc" or dtypes.is_integer(d)
            else float(np.asarray(val, d))
        )
    return str(val)


def _type(aval: Any, settings: Settings) -> Doc:
    return text(f":{aval_text(aval)}" if settings.print_shapes else "", "type")


def _binder(v: Var, context: Context, settings: Settings) -> Doc:
    return Concat([text(context.var_name(v)), _type(v.aval, settings)])


def _atom(v: Any, context: Context) -> Doc:
    if isinstance(v, Literal):
        return text(f"{literal_text(v)}:{aval_text(v.aval)}")
    return text(context.var_name(v))


def _binders(vs: Sequence[Var], context: Context, settings: Settings) -> Doc:
    return join(_fill, [_binder(v, context, settings) for v in vs])


def jaxpr_doc(jaxpr: Jaxpr, context: Context, settings: Settings) -> Doc:
    """A program, in braces."""
    head = [text("{ "), text("lambda ", "keyword")]
    if jaxpr.constvars:
        head.append(Nest(2, _binders(jaxpr.constvars, context, settings)))
    head += [
        text("; "),
        Nest(2, _binders(jaxpr.invars, context, settings)),
        text(". "),
        text("let", "keyword"),
    ]
    eqns = [eqn_doc(e, context, settings) for e in jaxpr.eqns]
    outs = Nest(2, join(Concat([text(","), _fill]), [_atom(v, context) for v in jaxpr.outvars]))
    tail = [text("in ", "keyword"), text("("), outs, text(",)" if len(jaxpr.outvars) == 1 else ")")]
    if settings.print_effects:
        names = ", ".join(sorted(map(str, jaxpr.effects)))
        tail.append(text(f" : {{ {names} }}"))
    body = Nest(2, Concat([Break(), join(Break("; "), eqns)]))
    return Group(Nest(2, Concat([*head, body, Break(), *tail, text(" }")])))


def _held(val: Any) -> Jaxpr | None:
    return val.jaxpr if isinstance(val, ClosedJaxpr) else val if isinstance(val, Jaxpr) else None


def _value_doc(val: Any, context: Context, settings: Settings) -> Doc:
    """The value of a parameter."""
    jaxpr = _held(val)
    if jaxpr is not None:
        name = context.jaxpr_names.get(jaxpr)
        return text(name) if name else jaxpr_doc(jaxpr, context, settings)
    if type(val) is tuple and val and all(_held(x) is not None for x in val):
        parts = join(Break(), [_value_doc(x, context, settings) for x in val])
        return Group(Concat([text("("), Nest(2, Concat([Break(""), parts])), Break(""), text(")")]))
    return text(value_text(val))


def value_text(val: Any) -> str:
    """A parameter that is not a program. Addresses are hidden, so that equal programs print
    alike.
    """
    if isinstance(val, (np.dtype, dtypes.ExtendedDType)):
        return str(val.name)
    if isinstance(val, frozenset):
        return f"frozenset({set(val) or '{}'})"
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0xXXXXXXXXXXXX", str(val))


def param_docs(
    params: Iterable[tuple[str, Any]], context: Context, settings: Settings
) -> list[Doc]:
    """`name=value` for each parameter, in the order given."""
    return [Concat([text(f"{k}="), _value_doc(v, context, settings)]) for k, v in params]


def _brackets(docs: Sequence[Doc]) -> list[Doc]:
    if not docs:
        return []
    inner = Nest(2, Concat([Break(""), join(Break(), docs)]))
    return [Group(Concat([text("["), inner, Break(""), text("]")]))]


def _note(eqn: JaxprEqn, settings: Settings) -> list[str]:
    notes = []
    if settings.source_info:
        notes.append(eqn.source_info.summary())
    if settings.name_stack:
        notes.append(f"[{source.names_text(eqn.source_info.name_stack)}]")
    return notes


def _annotated(docs: list[Doc], eqn: JaxprEqn, settings: Settings) -> Doc:
    notes = [Text("", None, note) for note in _note(eqn, settings)]
    return Concat([*notes, *docs])


# How an equation of a primitive, by name, is written, if not as `outs = name[params] operands`:
# rule(eqn, context, settings) -> documents.
eqn_rules: dict[str, Callable[[JaxprEqn, Context, Settings], list[Doc]]] = {}
# How a primitive's equation is written in one line: rule(eqn, results, operands) -> text.
line_rules: dict[str, Callable[[JaxprEqn, list[str], list[str]], str]] = {}
# What of a primitive's parameters is shown, by name: rule(params) -> (name, value) pairs.
param_rules: dict[str, Callable[[dict[str, Any]], Iterable[tuple[str, Any]]]] = {}


def eqn_doc(eqn: JaxprEqn, context: Context, settings: Settings) -> Doc:
    """An equation: `outs = primitive[params] operands`."""
    name = eqn.primitive.name
    if settings.custom_pp_eqn_rules and name in line_rules:
        outs = [layout(_binders([v], context, settings)) for v in eqn.outvars]
        ins = [layout(_atom(v, context)) for v in eqn.invars]
        return _annotated([text(line_rules[name](eqn, outs, ins))], eqn, settings)
    if settings.custom_pp_eqn_rules and name in eqn_rules:
        return _annotated(eqn_rules[name](eqn, context, settings), eqn, settings)
    return _annotated(plain_eqn(eqn, context, settings), eqn, settings)


def plain_eqn(eqn: JaxprEqn, context: Context, settings: Settings) -> list[Doc]:
    name = eqn.primitive.name
    outs: list[Doc] = (
        [Nest(2, _binders(eqn.outvars, context, settings)), text(" = ")] if eqn.outvars else []
    )
    params: Iterable[tuple[str, Any]] = sorted(eqn.params.items())
    if settings.custom_pp_eqn_rules:
        if name in _adopts:
            _adopts[name](eqn, context)
        if name in param_rules:
            params = param_rules[name](eqn.params)
    operands = Nest(2, Concat([text(" "), join(_fill, [_atom(v, context) for v in eqn.invars])]))
    return [*outs, text(name), *_brackets(param_docs(params, context, settings)), operands]


# --- what particular primitives show ---
def _without_defaults(**defaults: Any) -> Callable[[dict[str, Any]], Iterable[tuple[str, Any]]]:
    def rule(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for k, v in sorted(params.items()):
            if k not in defaults or v != defaults[k]:
                yield k, v

    return rule


def _accuracy_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """An accuracy is shown if somebody asked for it."""
    for k, v in sorted(params.items()):
        if k != "accuracy" or repr(v) != "None":
            yield k, v


for _name in (
    "cbrt",
    "cos",
    "erf",
    "erf_inv",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "logistic",
    "rsqrt",
    "sin",
    "sqrt",
    "tan",
    "tanh",
):
    param_rules[_name] = _accuracy_params
for _name in ("random_bits", "random_split"):
    param_rules[_name] = _without_defaults(partitionable=False)
param_rules["mul"] = _without_defaults(out_dtype=None)
param_rules["convert_element_type"] = _without_defaults(sharding=None)
param_rules["reshard"] = lambda params: iter(())  # the type of the result says it


def _broadcast_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    # The shape and the sharding are those of the result.
    for k, v in sorted(params.items()):
        if k != "shape" and k != "sharding" and not (k == "broadcast_dimensions" and v == ()):
            yield k, v


def _dot_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    contract, batch = params["dimension_numbers"]
    lists = tuple(tuple(list(map(int, d)) for d in pair) for pair in (contract, batch))
    yield "dimension_numbers", lists
    for k, v in sorted(params.items()):
        if k not in ("dimension_numbers", "out_sharding") and v is not None:
            yield k, v


def _jit_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "name", params["name"]
    for k, v in sorted(params.items()):
        if k == "name" or (k == "ctx_mesh" and (not v or getattr(v, "empty", False))):
            continue
        if k in ("inline", "keep_unused", "donated_invars") and not (
            any(v) if isinstance(v, tuple) else v
        ):
            continue
        if k in (
            "compiler_options_kvs",
            "in_shardings",
            "out_shardings",
            "in_layouts",
            "out_layouts",
        ) and (not v or all(x is None or str(x) == "UnspecifiedValue" for x in _several(v))):
            continue
        yield k, v


def _several(v: Any) -> tuple[Any, ...]:
    return v if isinstance(v, tuple) else (v,)


def _impl_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for k, v in sorted(params.items()):
        yield k, getattr(v, "tag", v) if k == "impl" else v


def _function_name(f: Any) -> str:
    for at in ("debug_info", "fun", "f", "func"):
        inner = getattr(f, at, None)
        if at == "debug_info" and inner is not None:
            return str(inner.func_name)
        if inner is not None and not isinstance(f, type):
            return _function_name(inner)
    return str(getattr(f, "__name__", f))


def _call_name(params: dict[str, Any]) -> str:
    info = getattr(params["call_jaxpr"].jaxpr, "debug_info", None)
    return info.func_name if info is not None else "None"


def _custom_jvp_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "name", params.get("name") or _call_name(params)
    yield "call_jaxpr", params["call_jaxpr"]
    yield "jvp", _function_name(params["jvp_jaxpr_fun"])
    yield "symbolic_zeros", params["symbolic_zeros"]


def _custom_vjp_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "name", params.get("name") or _call_name(params)
    yield "bwd", _function_name(params["bwd"])
    yield "call_jaxpr", params["call_jaxpr"]
    yield "fwd", _function_name(params["fwd_jaxpr_thunk"])
    yield "symbolic_zeros", params["symbolic_zeros"]


def _custom_lin_params(params: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "bwd", _function_name(params["bwd"])
    for name in ("in_zeros", "num_res", "symbolic_zeros"):
        yield name, params[name]


param_rules["custom_lin"] = _custom_lin_params
param_rules["broadcast_in_dim"] = _broadcast_params
param_rules["dot_general"] = _dot_params
param_rules["jit"] = _jit_params
param_rules["random_seed"] = param_rules["random_wrap"] = _impl_params
param_rules["custom_jvp_call"] = _custom_jvp_params
param_rules["custom_vjp_call"] = _custom_vjp_params


def _adopt_jit(eqn: JaxprEqn, context: Context) -> None:
    """The inside of a jit calls its arguments and results as the outside does, unless its text
    stands before the program. What does not fit is shown too: the checker of programs shows it.
    """
    jaxpr = eqn.params["jaxpr"].jaxpr
    if jaxpr in context.jaxpr_names:
        return
    for inner, outer in zip(jaxpr.invars, eqn.invars, strict=False):
        if isinstance(outer, Var) and context.var_name(outer) not in {
            context.var_names.get(v) for v in jaxpr.invars
        }:
            context.suggest(inner, context.var_name(outer))
    for inner, outer in zip(jaxpr.outvars, eqn.outvars, strict=False):
        if isinstance(inner, Var):
            context.suggest(inner, context.var_name(outer))


_adopts: dict[str, Callable[[JaxprEqn, Context], None]] = {"jit": _adopt_jit}


def _shared(jaxpr: Jaxpr) -> dict[Jaxpr, str]:
    """The jaxprs to write before the program, in order, with the names to give them: all of a
    level before those that they hold, as in JAX. Two occurrences are as good as many.
    """
    counts: dict[Jaxpr, int] = {}
    wishes: dict[Jaxpr, str] = {}
    level = [jaxpr]
    while level:
        below = []
        for e in (e for j in level for e in j.eqns):
            for val in (v for _, v in sorted(e.params.items())):
                for x in val if isinstance(val, tuple) else (val,):
                    inner = _held(x)
                    if inner is None or counts.get(inner, 0) >= 2:
                        continue
                    counts[inner] = counts.get(inner, 0) + 1
                    wishes.setdefault(inner, str(e.params.get("name") or "jaxpr"))
                    below.append(inner)
        level = below
    return {j: wishes[j] for j, n in counts.items() if n > 1 or len(j.eqns) > _LONG}


def program_doc(jaxpr: Jaxpr, settings: Settings) -> Doc:
    """A program after the jaxprs that it shares."""
    context = Context()
    shared = _shared(jaxpr)
    for j, wish in shared.items():
        context.name_jaxpr(j, wish)
    # Results that nobody reads are marked, in the program itself though not in those that it holds.
    read = {v for e in jaxpr.eqns for v in e.invars if isinstance(v, Var)}
    read |= {v for v in jaxpr.outvars if isinstance(v, Var)}
    for e in jaxpr.eqns:
        for v in e.outvars:
            if v not in read:
                context.suggest(v, "_")
    docs: list[Doc] = []
    for j in shared:
        body = jaxpr_doc(j, context, settings)
        docs += [
            text("let", "keyword"),
            text(f" {context.jaxpr_names[j]} = "),
            body,
            text(" in", "keyword"),
            Break(),
        ]
    return Concat([*docs, jaxpr_doc(jaxpr, context, settings)])


def show_jaxpr(
    jaxpr: Jaxpr,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    name_stack: bool = False,
    custom_pp_eqn_rules: bool = True,
    print_effects: bool = False,
    use_color: bool = False,
    **_: Any,
) -> str:
    """The text of a program; the options are those of `pretty_print`."""
    settings = Settings(print_shapes, source_info, name_stack, custom_pp_eqn_rules, print_effects)
    return layout(program_doc(jaxpr, settings), use_color)


def show_eqn(eqn: JaxprEqn) -> str:
    """The text of one equation."""
    return layout(eqn_doc(eqn, Context(), Settings()))
