"""What counts as a node of a pytree: the types that are registered, and how each flattens.

What a flattener appends to is the list of leaves; what it returns is a raw node (see `engine`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any

from pullback.forking import renewed
from pullback.tree.keys import DictKey, GetAttrKey, SequenceKey

__all__ = [
    "LEAF", "NONE", "Node", "Registration", "checked_pair", "dataclass_fields",
    "entries", "flatten_other", "flatteners", "is_namedtuple", "one_level",
    "one_level_with_keys", "register",
]  # fmt: skip

Node = Any  # None | tuple[type, Any, tuple["Node", ...]]; a recursive alias slows mypy for no gain
LEAF: Node = None
NONE: Node = (NoneType, None, ())


class Registration:
    """How one class flattens: `to_iter` and `to_pairs` return an iterable and the node's static
    data, of which `from_iter` makes a node again. Libraries read the registry by these names."""

    __slots__ = ("from_iter", "to_iter", "to_pairs", "type")

    def __init__(
        self,
        type_: type,
        to_iter: Callable[[Any], tuple[Iterable[Any], Any]],
        from_iter: Callable[[Any, Any], Any],
        to_pairs: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    ) -> None:
        self.type = type_
        self.to_iter = to_iter
        self.from_iter = from_iter
        self.to_pairs = to_pairs


def _sorted_keys(tree: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except Exception as err:
        raise ValueError(
            "Comparator raised exception while sorting pytree dictionary keys, in whose order "
            f"leaves stand: {err}. Use keys of one type, or an OrderedDict, which keeps its own "
            "order."
        ) from err


def _dict_children(tree: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    keys = _sorted_keys(tree)
    return tuple([tree[k] for k in keys]), tuple(keys)


def _dict_pairs(tree: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    keys = _sorted_keys(tree)
    return tuple([(DictKey(k), tree[k]) for k in keys]), tuple(keys)


def _sequence_pairs(tree: Sequence[Any]) -> tuple[tuple[Any, ...], None]:
    return tuple([(SequenceKey(i), x) for i, x in enumerate(tree)]), None


def _ordered_pairs(tree: OrderedDict[Any, Any]) -> tuple[list[Any], Any]:
    return [(DictKey(k), x) for k, x in tree.items()], tuple(tree)


def _default_children(tree: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    keys = tuple(sorted(tree))
    return [tree[k] for k in keys], (tree.default_factory, keys)


def _default_pairs(tree: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    keys = tuple(sorted(tree))
    return [(DictKey(k), tree[k]) for k in keys], (tree.default_factory, keys)


_BUILTIN = {
    r.type: r
    for r in (
        Registration(NoneType, lambda x: ((), None), lambda d, c: None, lambda x: ((), None)),
        Registration(tuple, lambda x: (x, None), lambda d, c: tuple(c), _sequence_pairs),
        Registration(list, lambda x: (x, None), lambda d, c: list(c), _sequence_pairs),
        Registration(dict, _dict_children, lambda d, c: dict(zip(d, c, strict=True)), _dict_pairs),
    )
}
entries: dict[type, Registration] = dict(_BUILTIN)
# type -> function(tree, leaves) that appends the leaves and returns the node; None: a leaf
flatteners: dict[type, Callable[[Any, list[Any]], Node] | None] = dict.fromkeys(
    (int, float, bool, complex, str, bytes, object)
)
_lock = renewed(threading.Lock())


# dataclass -> names of its children and of its static fields
_dataclass_fields: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def dataclass_fields(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The fields of a registered dataclass: (children, static data); None for other classes."""
    return _dataclass_fields.get(cls)


def is_namedtuple(cls: type) -> bool:
    """Is this a class of named tuples that nobody has registered as something else?"""
    return cls not in entries and _is_namedtuple(cls)


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def checked_pair(result: Any, cls: type, what: str) -> tuple[tuple[Any, ...], Any]:
    """Check what a user's flatten function returned; the children as a tuple."""
    if type(result) is not tuple or len(result) != 2:
        raise ValueError(
            "The to_iterable function for a custom PyTree node should return a "
            f"({what}, aux_data) tuple, got {result!r}: that of {cls.__name__}."
        )
    try:
        return tuple(result[0]), result[1]
    except TypeError as err:
        if isinstance(result[0], Iterable):
            raise
        raise ValueError(
            "The to_iterable function for a custom PyTree node should return a "
            f"({what}, aux_data) tuple where '{what}' is iterable, got {result!r}: that of "
            f"{cls.__name__}."
        ) from err


def register(
    entry: Registration, fields: tuple[tuple[str, ...], tuple[str, ...]] | None = None
) -> None:
    """Make `entry.type` an interior node everywhere; ValueError when it already is one. Dataclasses
    say which fields are children and which are static."""
    cls = entry.type
    to_iter = entry.to_iter

    def flattener(tree: Any, leaves: list[Any]) -> Node:
        children, data = checked_pair(to_iter(tree), cls, "children")
        return (cls, data, _flatten_children(children, leaves))

    with _lock:
        if cls in entries:
            raise ValueError(
                f"Duplicate custom PyTreeDef type registration for {cls!r}: a type is registered "
                "once per process."
            )
        entries[cls] = entry
        flatteners[cls] = flattener
        if fields is not None:
            _dataclass_fields[cls] = fields


# -- flattening --------------------------------------------------------------------------------


def flatten_other(tree: Any, leaves: list[Any]) -> Node:
    """A type that the table does not know: a named tuple, or a leaf."""
    cls = type(tree)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return (cls, None, _flatten_children(tree, leaves))
    leaves.append(tree)
    return LEAF


# The loop stands in each of these four on purpose: a helper, or a comprehension, costs a call
# per container, which is a third of the time of a small one. The defaults make the names local.


def _flatten_children(
    tree: Iterable[Any],
    leaves: list[Any],
    get: Any = flatteners.get,
    other: Any = flatten_other,
) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for child in tree:
        handler = get(type(child), other)
        if handler is None:
            leaves.append(child)
            nodes.append(None)
        else:
            nodes.append(handler(child, leaves))
    return tuple(nodes)


def _flatten_tuple(
    tree: tuple[Any, ...],
    leaves: list[Any],
    get: Any = flatteners.get,
    other: Any = flatten_other,
) -> Node:
    nodes: list[Node] = []
    for child in tree:
        handler = get(type(child), other)
        if handler is None:
            leaves.append(child)
            nodes.append(None)
        else:
            nodes.append(handler(child, leaves))
    return (tuple, None, tuple(nodes))


def _flatten_list(
    tree: list[Any],
    leaves: list[Any],
    get: Any = flatteners.get,
    other: Any = flatten_other,
) -> Node:
    nodes: list[Node] = []
    for child in tree:
        handler = get(type(child), other)
        if handler is None:
            leaves.append(child)
            nodes.append(None)
        else:
            nodes.append(handler(child, leaves))
    return (list, None, tuple(nodes))


def _flatten_dict(
    tree: dict[Any, Any],
    leaves: list[Any],
    get: Any = flatteners.get,
    other: Any = flatten_other,
) -> Node:
    try:
        keys = tuple(sorted(tree))
    except Exception:
        keys = tuple(_sorted_keys(tree))  # raises, with the explanation
    nodes: list[Node] = []
    for key in keys:
        child = tree[key]
        handler = get(type(child), other)
        if handler is None:
            leaves.append(child)
            nodes.append(None)
        else:
            nodes.append(handler(child, leaves))
    return (dict, keys, tuple(nodes))


flatteners.update(
    {
        NoneType: lambda tree, leaves: NONE,
        tuple: _flatten_tuple,
        list: _flatten_list,
        dict: _flatten_dict,
    }
)
register(
    Registration(
        OrderedDict,
        lambda x: (list(x.values()), tuple(x)),
        lambda d, c: OrderedDict(zip(d, c, strict=True)),
        _ordered_pairs,
    )
)
register(
    Registration(
        defaultdict,
        _default_children,
        lambda d, c: defaultdict(d[0], zip(d[1], c, strict=True)),
        _default_pairs,
    )
)


def one_level(tree: Any) -> tuple[type, Any, tuple[Any, ...]] | None:
    """`(type, data, children)` of a node's own level, or None for a leaf."""
    cls = type(tree)
    entry = entries.get(cls)
    if entry is not None:
        children, data = checked_pair(entry.to_iter(tree), cls, "children")
        return cls, data, children
    if _is_namedtuple(cls):
        return cls, None, tuple(tree)
    return None


def one_level_with_keys(tree: Any) -> tuple[type, Any, tuple[tuple[Any, Any], ...]] | None:
    """Like `one_level`, each child paired with its key-path entry."""
    cls = type(tree)
    entry = entries.get(cls)
    if entry is not None:
        pairs, data = checked_pair(entry.to_pairs(tree), cls, "(key, child) pairs")
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(
                    f"the flatten-with-keys function registered for {cls.__name__} must return "
                    f"(key, child) pairs, got {pair!r}"
                )
        return cls, data, pairs
    if _is_namedtuple(cls):
        names = cls._fields
        return cls, None, tuple((GetAttrKey(n), x) for n, x in zip(names, tree, strict=False))
    return None
