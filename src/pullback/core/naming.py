"""What functions, their arguments and their results are called in messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from .. import tree


def unwrapped(fun: Any) -> Any:
    """The Python function that others wrap, fix arguments of, or stand for."""
    while (inner := getattr(fun, "__wrapped__", getattr(fun, "func", fun))) is not fun:
        fun = inner
    return fun


def fun_source_info(fun: Any) -> str:
    """`name at file:line` of a Python function."""
    fun = unwrapped(fun)
    if (info := getattr(fun, "func_src_info", None)) is not None:  # the function of a program
        return str(info)
    code = getattr(fun, "__code__", None)
    name = getattr(fun, "__name__", None)
    if not isinstance(name, str):  # a callable may answer for any attribute
        name = type(fun).__name__
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name


def arg_names(fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """A name for each leaf of (args, kwargs), in their order, such as `params['w']`; of the kind of
    `args[0]['w']` if the signature cannot be had, or the call does not fit it.
    """
    return _leaf_names(_fitting(fun, args, kwargs), args, kwargs)


def late_arg_names(
    fun: Any, args: Sequence[Any], kwargs: dict[str, Any], in_tree: Any, leaves: Sequence[Any]
) -> Callable[[], tuple[str, ...] | None]:
    """What gives the same when asked; few are. It keeps neither the function nor the arguments:
    their structure is `in_tree`, and `leaves`, their types, stand for them; None if a class of the
    user's takes no such ones."""
    found = _fitting(fun, args, kwargs)

    def names() -> tuple[str, ...] | None:
        try:
            standing = tree.unflatten(in_tree, leaves)
        except Exception:
            return None
        return _leaf_names(found, *standing)

    return names


def _leaf_names(
    found: Parameters | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[str, ...]:
    names: list[str] = []
    for k, value in enumerate(args):
        name = _positional(found, k) or f"args[{k}]"
        names += [f"{name}{path}" for path in leaf_paths(value)]
    known = () if found is None else (*found.positional, *found.keyword_only)
    rest = "kwargs" if found is None else found.keywords
    for key in sorted(kwargs):  # as the leaves of a dict stand
        name = key if key in known else f"{rest}['{key}']"
        names += [f"{name}{path}" for path in leaf_paths(kwargs[key])]
    return tuple(names)


def _fitting(fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Parameters | None:
    """The parameters of a callable that can be called so; None otherwise."""
    if _is_plain(fun) and not kwargs:
        found = Parameters(fun)
        if len(args) == len(found.positional) and not found.keyword_only:
            return found
    try:
        inspect.signature(fun).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    return parameters_of(fun)


def _is_plain(fun: Any) -> bool:
    """Whether a function is as `def` makes it: nobody says that its signature is another."""
    return type(fun) is FunctionType and not fun.__dict__


class Parameters:
    """The parameters of a function, by kind. Functions as `def` makes them are read from their
    code: `inspect.signature` takes twenty times as long."""

    __slots__ = (
        "keyword_only", "keywords", "positional", "positional_only", "rest", "var_keyword",
        "var_positional",
    )  # fmt: skip

    def __init__(self, fun: Any) -> None:
        if _is_plain(fun):
            code = fun.__code__
            count = code.co_argcount
            self.positional = code.co_varnames[:count]
            self.positional_only = code.co_posonlyargcount
            self.keyword_only = code.co_varnames[count : count + code.co_kwonlyargcount]
            self.var_positional = bool(code.co_flags & inspect.CO_VARARGS)
            self.var_keyword = bool(code.co_flags & inspect.CO_VARKEYWORDS)
            past = count + code.co_kwonlyargcount
            self.rest = code.co_varnames[past : past + self.var_positional]
            past += self.var_positional
            self.keywords = code.co_varnames[past] if self.var_keyword else ""
            return
        kinds = [(p.name, p.kind) for p in inspect.signature(fun).parameters.values()]
        only, both = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.positional = tuple([n for n, k in kinds if k in (only, both)])
        self.positional_only = sum(k == only for _, k in kinds)
        self.keyword_only = tuple([n for n, k in kinds if k == inspect.Parameter.KEYWORD_ONLY])
        self.rest = tuple([n for n, k in kinds if k == inspect.Parameter.VAR_POSITIONAL])
        self.var_positional = bool(self.rest)
        self.keywords = next((n for n, k in kinds if k == inspect.Parameter.VAR_KEYWORD), "")
        self.var_keyword = bool(self.keywords)


def parameters_of(fun: Any) -> Parameters | None:
    """The parameters of a callable, or None if it has no signature."""
    try:
        return Parameters(fun)
    except (TypeError, ValueError):
        return None


def leaf_paths(x: Any) -> list[str]:
    """`['a'][0]` for each leaf of a pytree."""
    return [tree.keystr(path) for path, _ in tree.flatten_with_path(x)[0]]


def names_of_arguments(
    fun: Any, in_tree: Any, places: Callable[..., Any] | None = None
) -> Callable[[], tuple[str, ...] | None]:
    """What gives, when asked, a name for each leaf of a tree of positional arguments of `fun`. It
    does not keep the function alive. Of another tree, `places` says which arguments they are:
    ({position: value}, keyword arguments).
    """
    found = parameters_of(fun)

    def names() -> tuple[str, ...] | None:
        leaves = range(in_tree.num_leaves)
        given = tree.unflatten(in_tree, leaves)
        args, kwargs = (dict(enumerate(given)), {}) if places is None else places(*given)
        named: dict[int, str] = {}
        for k, value in [*args.items(), *kwargs.items()]:
            name = k if isinstance(k, str) else _positional(found, k)
            if name is None:
                return None
            pairs = tree.flatten_with_path(value)[0]
            named |= {leaf: name + tree.keystr(path) for path, leaf in pairs}
        return tuple([named.get(k, "") for k in leaves])

    return names


def _positional(found: Parameters | None, k: int) -> str | None:
    """The name of positional argument k."""
    if found is None:
        return None
    past = k - len(found.positional)
    if past < 0:
        return str(found.positional[k])
    return f"{found.rest[0]}[{past}]" if found.rest else None


def result_names(out_tree: Any) -> tuple[str, ...]:
    """`result['a'][0]` for each leaf of a function's result."""
    paths = leaf_paths(tree.unflatten(out_tree, range(out_tree.num_leaves)))
    return tuple(["result" + path for path in paths])
