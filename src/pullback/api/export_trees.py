"""Structures of arguments as plain data, for files; and the names under which files know the
classes of users.
"""

from __future__ import annotations

import base64
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from .. import tree
from ..tree.engine import PyTreeDef, default_registry

__all__ = [
    "read_tree",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "write_tree",
]

T = TypeVar("T")


class _Known(NamedTuple):
    """A class of nodes that files have under a name."""

    cls: type
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    from_children: Callable[[Any, Any], Any] | None


_by_name: dict[str, _Known] = {}
_names: dict[type, str] = {}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type[T]:
    """Lets exported functions take and return nodes of a class, when they are written to files.

    `nodetype`: a class that is registered as a pytree node. `serialized_name`: what files call it.
    `serialize_auxdata` writes a node's static data as bytes, `deserialize_auxdata` reads them;
    `from_children(auxdata, children)` makes a node, if not the registration as a pytree does.
    Gives `nodetype`. ValueError if the class or the name has been registered before, or the class
    is no pytree node.

    >>> from pullback import export
    >>> @pb.tree_util.register_static
    ... class Unit:
    ...     pass
    >>> export.register_pytree_node_serialization(
    ...     Unit, serialized_name="docs.Unit", serialize_auxdata=lambda unit: b"",
    ...     deserialize_auxdata=lambda data: Unit()).__name__
    'Unit'
    """
    _check_new(nodetype, serialized_name)
    registered = default_registry.is_node(nodetype) and not _is_named_tuple(nodetype)
    if from_children is None and not registered:
        raise ValueError(
            "If `from_children` is not present, you must call first "
            f"`jax.tree_util.register_pytree_node` for `{nodetype}`"
        )
    _add(serialized_name, _Known(nodetype, serialize_auxdata, deserialize_auxdata, from_children))
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """As `register_pytree_node_serialization`, for a class of named tuples.

    `nodetype`: the class. `serialized_name`: what files call it. ValueError for other classes.

    >>> import collections
    >>> from pullback import export
    >>> Pair = collections.namedtuple("Pair", "a b")
    >>> export.register_namedtuple_serialization(Pair, serialized_name="docs.Pair").__name__
    'Pair'
    """
    if not _is_named_tuple(nodetype):
        raise ValueError(
            "Use `jax.export.register_pytree_node_serialization` for types other than "
            "`collections.namedtuple`."
        )
    _check_new(nodetype, serialized_name)
    fields = ",".join(nodetype._fields)  # type: ignore[attr-defined]

    def read(data: bytes) -> None:
        if data.decode() != fields:
            raise ValueError(
                f"{serialized_name} was written with the fields {data.decode()}, and is {nodetype} "
                f"here, with the fields {fields}."
            )

    _add(serialized_name, _Known(nodetype, lambda _: fields.encode(), read, None))
    return nodetype


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _add(name: str, known: _Known) -> None:
    _by_name[name], _names[known.cls] = known, name


def _check_new(nodetype: type, name: str) -> None:
    if nodetype in _names:
        raise ValueError(
            f"Duplicate serialization registration for type `{nodetype}`. Previous registration "
            f"was with serialized_name `{_names[nodetype]}`."
        )
    if name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name `{name}`. Previous "
            f"registration was for type `{_by_name[name].cls}`."
        )


_BUILTIN: dict[type, str] = {
    tuple: "tuple", list: "list", dict: "dict", NoneType: "None", OrderedDict: "OrderedDict",
    defaultdict: "defaultdict",
}  # fmt: skip
_BUILTIN_TYPES = {name: cls for cls, name in _BUILTIN.items()}


def write_tree(node: Any) -> Any:
    """A structure (the `node` of a PyTreeDef) as plain data; ValueError for a class without a name
    in files."""
    if node is None:
        return "*"
    cls, data, kids = node
    parts = [write_tree(kid) for kid in kids]
    if cls in (dict, OrderedDict):
        return [_BUILTIN[cls], list(data), parts]
    if cls in _BUILTIN and cls is not defaultdict:
        return [_BUILTIN[cls], None, parts]
    if cls not in _names:
        raise ValueError(
            f"Cannot serialize a pytree with a node of the unregistered type `{cls}`: files have "
            "no name for it. Fix: jax.export.register_pytree_node_serialization or "
            "register_namedtuple_serialization."
        )
    known = _by_name[_names[cls]]
    return ["@" + _names[cls], base64.b64encode(known.write(data)).decode(), parts]


def read_tree(data: Any) -> Any:
    """The inverse of `write_tree`, as a PyTreeDef."""
    return tree.structure(_value(data))


def _value(data: Any) -> Any:
    """A value of the structure."""
    if data == "*":
        return 0
    name, static, parts = data
    kids = [_value(part) for part in parts]
    if not name.startswith("@"):
        cls = _BUILTIN_TYPES[name]
        if cls is NoneType:
            return None
        return cls(zip(static, kids, strict=True)) if cls in (dict, OrderedDict) else cls(kids)
    if name[1:] not in _by_name:
        raise ValueError(
            f"This file has a pytree node that it calls `{name[1:]}`, a name that no class has "
            "here. Fix: register the class as where the file was written, before reading it."
        )
    known = _by_name[name[1:]]
    aux = known.read(base64.b64decode(static))
    if known.from_children is not None:
        return known.from_children(aux, kids)
    if issubclass(known.cls, tuple) and hasattr(known.cls, "_fields"):
        return known.cls(*kids)
    inner = PyTreeDef.from_node_data_and_children(
        default_registry, (known.cls, aux), [tree.structure(kid) for kid in kids]
    )
    return tree.unflatten(inner, [0] * inner.num_leaves)
