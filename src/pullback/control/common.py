"""What the primitives that hold jaxprs share: tracing their functions, and the types of what loops
carry.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes, tree
from ..core import effects as fx
from ..core.avals import ShapedArray, typematch, typeof
from ..core.build import close_jaxpr, trace_to_jaxpr
from ..core.closed_over import ClosedOver
from ..core.explicit import match_varying, said
from ..core.high import is_high_value
from ..core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    closed_without_consts,
    convert_constvars,
    eval_jaxpr,
)
from ..core.naming import fun_source_info, names_of_arguments, result_names, unwrapped
from ..core.refs import check_not_closed_over, check_not_returned, ref_places
from ..core.trace import Tracer, trace_context
from ..lazy_imports import lazy_module
from ..primitives.elementwise import convert_element_type

# The rules of loops and branches that mention references: few programs have any.
discharging: Any = lazy_module("pullback.control.discharge")

_OF_NUMPY = (np.ndarray, np.generic)
_traced: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def trace_function(
    fun: Callable[..., Any],
    in_tree: Any,
    in_avals: Sequence[Any],
    name: str,
    *,
    owner: Any = None,
    fixed: Any = None,
    names: Any = None,
) -> tuple[ClosedJaxpr, list[Any], Any]:
    """Traces `fun` called with the tree of these types: its program without constants, the values
    that it closed over (the program's first operands), and the tree of its results. Traces are
    remembered (what closed over tracers, as long as it would find the same), by the function's
    identity; or by that of its `owner`, if `fun` is one with `fixed` arguments, which can be
    hashed. `names` gives those of the leaves.
    """
    if owner is None:
        owner, fixed = getattr(fun, "remembered", (fun, None))
    key = (name, in_tree, tuple(in_avals), trace_context(), fixed)
    try:
        known = _traced.setdefault(owner, {})
        if key in known:
            closed, consts, out_tree = known[key]
            if type(consts) is ClosedOver:
                consts = consts.values(owner)
            if consts is not None:
                return closed, consts, out_tree
    except TypeError:  # of the function, or of what is fixed
        known = {}
    out_trees: list[Any] = []

    def flat(*args: Any) -> list[Any]:
        out = fun(*tree.unflatten(in_tree, args))
        leaves, out_tree = tree.flatten(out)
        out_trees.append(out_tree)
        check_results(leaves, out_tree, fun, name)
        return leaves

    if names is None:
        places = getattr(fun, "places", None)
        named = fun if places is None else fun.__wrapped__  # type: ignore[attr-defined]
        names = names_of_arguments(named, in_tree, places)
    info = DebugInfo(name, fun_source_info(fun), names)
    jaxpr, consts = trace_to_jaxpr(flat, in_avals, info)
    n_consts, out_tree = len(consts), out_trees[0]
    info.set_names(lambda: _behind(n_consts, names()), lambda: result_names(out_tree))
    closed = closed_without_consts(convert_constvars(jaxpr))
    if not any(map(is_high_value, consts)):
        is_open = any(isinstance(c, Tracer) for c in consts)
        with contextlib.suppress(TypeError):
            known[key] = closed, ClosedOver(owner, consts) if is_open else consts, out_tree
    return closed, consts, out_tree


class ArgumentRefs:
    """The references among a traced function's arguments. ValueError if one comes twice, or is
    closed over as well (`check`): the program would have two cells for it.
    """

    __slots__ = ("found", "fun", "in_tree", "name", "places")

    def __init__(
        self, fun: Any, in_tree: Any, leaves: Sequence[Any], name: str, places: Any = None
    ) -> None:
        self.fun, self.in_tree, self.name = fun, in_tree, name
        self.places = places  # as in `names_of_arguments`
        self.found = ref_places(leaves, self._said, self._names)

    def check(self, consts: Sequence[Any]) -> None:
        if self.found:
            check_not_closed_over(self.found, consts, self._said, self._names)

    def _said(self) -> str:
        return f"{fun_source_info(self.fun)} for {self.name}"

    def _names(self) -> Sequence[str] | None:
        step = getattr(self.fun, "places", None)
        named = self.fun if step is None else self.fun.__wrapped__
        return names_of_arguments(named, self.in_tree, step or self.places)()


def stands_for(step: Any, fun: Any, places: Any, remembered: bool = False) -> None:
    """Messages about `step`, which calls a user's function, name that one and its arguments:
    `places` is as in `names_of_arguments`. `remembered`: nothing else than the function makes it,
    so that its traces serve other steps with the same function.
    """
    step.__wrapped__, step.places = fun, places
    if remembered:
        step.remembered = fun, step.__code__


def _behind(count: int, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The names of a program's arguments behind those of what its function closed over."""
    return names and ("",) * count + names


def as_taken(x: Any) -> Any:
    """A leaf as programs take it: what is NumPy's has 64 bits only where x64 is on."""
    return x.astype(typeof(x).dtype, copy=False) if isinstance(x, _OF_NUMPY) else x


def carry_type(x: Any) -> Any:
    """The type of a value that a loop carries; TypeError if its state may change."""
    aval = typeof(x)
    if aval.has_qdd:
        raise TypeError(
            f"a value of type {aval}, whose state may change, cannot be carried by a loop. Fix: "
            "close over it in the body instead."
        )
    return aval


def _path_of(out_tree: Any, k: int) -> str:
    path = leaf_names(out_tree, "")[k]
    return path and "result" + path


def check_results(leaves: Sequence[Any], out_tree: Any, fun: Any, name: str) -> None:
    """TypeError, naming the component, if a traced function returned what no array can hold."""
    differentiated = name in ("jvp", "vjp", "linearize")  # functions that run, and hold no program
    for k, leaf in enumerate(leaves):
        if not differentiated:
            check_not_returned(
                leaf,
                lambda: f"function {fun_source_info(fun)} traced for {name}",
                functools.partial(_path_of, out_tree, k),
            )
        try:
            typeof(leaf)
        except TypeError:
            path = leaf_names(out_tree, "")[k]
            place = f" at output component {path}" if path else ""
            said = f"function {fun_source_info(fun)} traced for {name} returned"
            fix = "Fix: return arrays, numbers, or pytrees of them."
            if differentiated:  # in JAX's words, which differ
                raise TypeError(
                    f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type: {said} "
                    f"it{place}. {fix}"
                ) from None
            raise TypeError(
                f"{said} a value of type {type(leaf)}{place}, which is not a valid JAX type. {fix}"
            ) from None


def check_effects(name: str, effects: Any) -> None:
    """NotImplementedError if a loop or branch has an effect that may not be in one."""
    bad = fx.control_flow_allowed_effects.filter_not_in(effects)
    if bad:
        raise NotImplementedError(
            f"Effects not supported in `{name}`: {bad}. Fix: move the effect out of the traced "
            "function."
        )


def check_cotangents(
    name: str, wanted: Sequence[Any], found: Sequence[Any], error: type[Exception] = TypeError
) -> None:
    """`error` (the class is JAX's) if the backward pass of a loop's body or of a branch gives other
    types than its operands have: the backward rules of custom_vjp functions may."""
    for want, have in zip(wanted, found, strict=True):
        if not typematch(want, have):
            raise error(
                f"the backward pass of a {name} gave a cotangent of type {have.str_short()} for an "
                f"operand of type {want.str_short()}. Fix: a custom_vjp function in it has a "
                "backward rule whose result has another dtype than the argument; convert it there "
                f"with `.astype('{want.dtype.name}')`."
            )


def chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The values whose flag is set."""
    return list(itertools.compress(values, flags))


def permute(closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int]) -> ClosedJaxpr:
    """The program with its arguments and results in another order."""
    jaxpr = closed.jaxpr
    new: Jaxpr = jaxpr.replace(
        invars=[jaxpr.invars[k] for k in ins], outvars=[jaxpr.outvars[k] for k in outs]
    )
    return ClosedJaxpr(new, closed.consts)


def widen_cond(
    cond: ClosedJaxpr, n_consts: int, carry_avals: Sequence[Any], keep: Sequence[int] | None = None
) -> ClosedJaxpr:
    """The condition for a longer carry, of which it reads the entries `keep` (by default the first
    ones).
    """
    n = len(cond.jaxpr.invars) - n_consts
    chosen = list(range(n)) if keep is None else list(keep)

    def fun(*args: Any) -> list[Any]:
        carry = args[n_consts:]
        return eval_jaxpr(cond.jaxpr, cond.consts, *args[:n_consts], *(carry[k] for k in chosen))

    return close_jaxpr(
        *trace_to_jaxpr(fun, [*cond.in_avals[:n_consts], *carry_avals], cond.jaxpr.debug_info)
    )[0]


def promote_weak_carry(
    leaves: Sequence[Any], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> tuple[list[Any], bool]:
    """A weakly typed initial carry takes the type that the body gives it. Returns the new leaves
    and whether any changed.
    """
    new = []
    changed = False
    for x, a, b in zip(leaves, in_avals, out_avals, strict=True):
        if (
            not (isinstance(a, ShapedArray) and a.weak_type and isinstance(b, ShapedArray))
            or a.shape != b.shape
        ):
            new.append(x)
            continue
        if a.dtype == b.dtype:  # weak types alone do not tell carries apart
            new.append(x)
            continue
        dtype, weak = dtypes.join_types([(a.dtype, True), (b.dtype, b.weak_type)])
        dtype = dtypes.canonicalize_dtype(dtype)
        if dtype == a.dtype and weak == a.weak_type:
            new.append(x)
            continue
        new.append(convert_element_type(x, dtype))
        changed = True
    return new, changed


def matched_carry(
    body: Any, leaves: Sequence[Any], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> tuple[list[Any], bool]:
    """An initial carry as strong as the body makes it and, in loops of this library's own functions
    (users say it themselves, with `lax.pcast`), varying over as much. Returns the new leaves and
    whether any changed."""
    new, changed = promote_weak_carry(leaves, in_avals, out_avals)
    if not (said[0] and _is_of_library(body)):
        return new, changed
    for k, (a, b) in enumerate(zip(in_avals, out_avals, strict=True)):
        more = varies_more(b, a)
        if more:
            new[k], changed = match_varying[0](new[k], more), True
    return new, changed


def _is_of_library(fun: Any) -> bool:
    """Is it (or what it stands for) a function of this package?"""
    return str(getattr(unwrapped(fun), "__module__", "")).startswith("pullback.")


def leaf_names(treedef: Any, root: str) -> list[str]:
    """`root['a'][0]` for each leaf of a tree."""
    holder = tree.unflatten(treedef, range(treedef.num_leaves))
    pairs, _ = tree.flatten_with_path(holder)
    return [root + tree.keystr(path) for path, _ in pairs]


def leaf_place(treedef: Any, k: int, root: str) -> str:
    """Where leaf k of a tree is, as a parenthesis of a message; nothing where the tree is it."""
    name = leaf_names(treedef, root)[k]
    return "" if name == root else f" (at {name})"


def shown_types(treedef: Any, avals: Sequence[Any]) -> str:
    """The types of a tree's leaves as messages show them; the tree alone where they are unknown."""
    if treedef.num_leaves != len(avals):
        return str(treedef)
    return str(tree.unflatten(treedef, [a.str_short() for a in avals])).replace("'", "")


def check_carry(
    name: str,
    body: ClosedJaxpr,
    n_consts: int,
    in_tree: Any,
    in_avals: Any,
    out_tree: Any,
    out_avals: Any,
) -> None:
    """TypeError, naming the component and the fix, unless a loop's carry comes out with the type it
    went in with.
    """
    same = in_tree == out_tree
    if same and all(map(typematch, in_avals, out_avals)):
        return
    root, parts = _carry_names(body, n_consts, in_tree)
    if not same:
        ins = tree.unflatten(in_tree, in_avals)
        outs = tree.unflatten(out_tree, out_avals)
        details = []
        for path, what_in, what_out, why in tree.equality_errors(ins, outs):
            part = tree.keystr(path)
            details.append(
                f"The input carry {'component ' if part else ''}{root}{part} is {what_in} but the "
                f"corresponding component of the carry output is {what_out}, so {why}."
            )
        raise TypeError(
            f"{name} body function carry input and carry output must have the same pytree "
            "structure, but they differ:\n\n"
            + "\n".join(details)
            + "\n\nRevise the function so that the carry output has the same pytree structure as "
            "the carry input."
        )
    bad = [
        (part, a, b)
        for part, a, b in zip(parts, in_avals, out_avals, strict=True)
        if not typematch(a, b)
    ]
    lines = [
        f"The input carry {'' if part == root else 'component '}{part} has type {a.str_short()} "
        f"but the corresponding output carry component has type {b.str_short()}, so "
        f"{mismatch(a, b)}."
        for part, a, b in bad
    ]
    fixes = [
        f" Fix: convert it, such as `{part}.astype('{a.dtype.name}')`, in the value that the "
        "body returns or in the initial carry."
        for part, a, b in bad[:1]
        if a.dtype != b.dtype
    ]
    initial = [(varies_more(b, a), f"the initial carry component {part}") for part, a, b in bad]
    fixes.append(pcast_hint(initial))
    raise TypeError(
        f"{name} body function carry input and carry output must have equal types, but they "
        "differ:\n\n"
        + "\n".join(lines)
        + "\n\nRevise the function so that all output types match the corresponding input "
        "types." + "".join(fixes)
    )


def _carry_names(body: ClosedJaxpr, n_consts: int, in_tree: Any) -> tuple[str, list[str]]:
    """What the user's function calls its carry, and the leaves of it."""
    info = body.jaxpr.debug_info
    names = ((info and info.arg_names) or ())[n_consts:][: in_tree.num_leaves]
    if len(names) < in_tree.num_leaves:
        return "c", leaf_names(in_tree, "c")
    roots = {re.split(r"[.\[]", name)[0] for name in names}
    root = roots.pop() if len(roots) == 1 else "loop_carry"
    return root, [name or path for name, path in zip(names, leaf_names(in_tree, root), strict=True)]


def check_mapped_carry(name: str, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    """TypeError if the carry of a mapped loop comes out with another type than it went in with:
    batching rules of users may give any."""
    for k, (a, b) in enumerate(zip(ins, outs, strict=True)):
        if not typematch(a, b):
            raise TypeError(
                f"{name} body function carry input and carry output must have equal types, but "
                f"under vmap the input carry component {k} has type {a.str_short()} and the output "
                f"carry component {b.str_short()}, so {mismatch(a, b)}. Fix: a function in the "
                "body has a batching rule of its own (custom_vmap) that returns another type than "
                "the function, or says wrongly what is batched."
            )


def mismatch(a: Any, b: Any) -> str:
    """In what two types differ."""
    parts = []
    if a.dtype != b.dtype:
        parts.append("the dtypes do not match")
    if a.shape != b.shape:
        parts.append("the shapes do not match")
    if getattr(a, "vma", None) != getattr(b, "vma", None):
        parts.append("the manual axis types do not match")
    return " and ".join(parts)


def pcast_hint(wanted: Sequence[tuple[Any, str]]) -> str:
    """How values are made to vary alike: of each, the axes that it lacks and what it is. Nothing
    where none lacks any."""
    steps = [
        f"applying `jax.lax.pcast(..., {tuple(sorted(axes, key=str))}, to='varying')` to {what}"
        for axes, what in wanted
        if axes
    ]
    if len(steps) < 2:
        return "".join(f" This might be fixed by {step}." for step in steps)
    return "\n\nThis might be fixed by:\n" + "\n".join(f"  * {step}" for step in steps)


def varies_more(a: Any, b: Any) -> Any:
    """The manual axes that a value of type b varies over and one of type a does not."""
    return getattr(a, "vma", frozenset()) - getattr(b, "vma", frozenset())
