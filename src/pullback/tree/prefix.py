"""Prefixes: broadcasting one tree over another, and saying exactly where two trees differ."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

from pullback.tree.engine import (
    PyTreeDef,
    _same_data,
    _says_leaf,
    count_leaves,
    flatten,
    flatten_leaves,
    flatten_raw,
    flatten_up_to,
)
from pullback.tree.keys import DictKey, KeyPath, SequenceKey, keystr
from pullback.tree.registry import Node, one_level, one_level_with_keys

IsLeaf = Callable[[Any], bool] | None


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """One value per leaf of `full_tree`: the leaf of `prefix_tree` that stands above it.

    ValueError when `prefix_tree` is not a prefix. `is_leaf` applies to `prefix_tree` alone.
    Example: ``broadcast_prefix((1, 2), (10, [20, 30]))`` is ``[1, 2, 2]``.
    """
    leaves, treedef = flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except ValueError as err:
        raise_prefix_error(prefix_tree, full_tree, is_leaf, "broadcast_prefix prefix_tree", err)
    out: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        out += [leaf] * len(flatten_leaves(subtree))
    return out


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False) -> list[Any]:
    """`axis_tree` (in_axes, out_axes, a sharding tree...) as one entry per leaf of `treedef`.

    None is an entry like any other here, not an empty node. With `kws`, `treedef` is that of
    `(args, kwargs)` and `axis_tree` one of args: keyword arguments have 0. ValueError, naming
    `name`, the key path and what stands there, when `axis_tree` is not a prefix.
    """
    if kws:
        args, kwargs = treedef.children()
        return [*flatten_axes(name, args, axis_tree), *([0] * kwargs.num_leaves)]
    out: list[Any] = []
    if _spread(axis_tree, treedef.node, out):
        return out
    places = [str(e(name)) for e in _differences((), axis_tree, treedef.node, _axis_level, _level)]
    told = "\n".join(f"  {place}" for place in places)
    raise ValueError(
        f"{name} specification must be a tree prefix of the corresponding value; \n  Mismatch "
        f"details ({len(places)} found):\n{told}\nFix: each leaf of {name} stands for the whole "
        f"subtree at its place, so {name} must be one value or follow the structure of the values "
        f"from the root: {treedef}."
    )


def _spread(axes: Any, node: Node, out: list[Any]) -> bool:
    """Append an entry per leaf of `node`; False where the axes are no prefix of it."""
    level = None if axes is None else one_level(axes)
    if level is None:
        out += [axes] * count_leaves(node)
        return True
    cls, data, children = level
    if node is None or node[0] is not cls or len(children) != len(node[2]):
        return False
    if not _same_data(data, node[1], cls):
        return False
    return all(_spread(x, kid, out) for x, kid in zip(children, node[2], strict=True))


def _axis_level(axes: Any) -> Any:
    return None if axes is None else one_level_with_keys(axes)


def _level(node: Node) -> Any:
    """Of a structure what `one_level_with_keys` gives of a tree."""
    if node is None:
        return None
    cls, data, kids = node
    keys = map(DictKey, data) if cls is dict else map(SequenceKey, range(len(kids)))
    return cls, data, list(zip(keys, kids, strict=True))


def raise_prefix_error(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf, name: str, cause: Exception
) -> Any:
    """Raise the ValueError that says where `prefix_tree` stops being a prefix of `full_tree`."""
    for make in prefix_errors(prefix_tree, full_tree, is_leaf):
        raise make(name) from None
    raise cause


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None
) -> list[Callable[[str], ValueError]]:
    """Every place where `prefix_tree` is no prefix of `full_tree`.

    Each is a function that takes the name the user knows the prefix by (``"in_axes"``) and returns
    the ValueError to raise.
    """

    def level(prefix: Any) -> Any:
        if is_leaf is not None and _says_leaf(is_leaf(prefix)):
            return None
        return one_level_with_keys(prefix)

    return list(_differences((), prefix_tree, full_tree, level, one_level_with_keys))


def _error(kind: str, path: KeyPath, detail: str) -> Callable[[str], ValueError]:
    """`detail` begins with what the prefix has, as in "a subtree of type list of length 1"."""

    def make(name: str) -> ValueError:
        return ValueError(
            f"pytree structure error: {kind} at key path\n    {name}{keystr(path)}\n"
            f"At that key path, the prefix pytree {name} has {detail}"
        )

    return make


def _differences(
    path: KeyPath,
    prefix: Any,
    full: Any,
    level: Callable[[Any], Any],
    full_level: Callable[[Any], Any],
) -> Iterator[Callable[[str], ValueError]]:
    """The places where `prefix` is none; the levels give a node's class, data and children with
    their keys, or None for a leaf."""
    expected = level(prefix)
    if expected is None:
        return
    cls, data, pairs = expected
    found = full_level(full)
    if found is None or found[0] is not cls:
        yield _type_error(path, cls, found[0] if found else None if full is None else type(full))
        return
    _, full_data, full_pairs = found
    if len(pairs) != len(full_pairs):
        yield _length_error(path, cls, pairs, full_pairs)
    elif not _same_data(data, full_data, cls):
        yield _metadata_error(path, cls, data, full_data)
    else:
        for (key, child), (_, full_child) in zip(pairs, full_pairs, strict=True):
            yield from _differences((*path, key), child, full_child, level, full_level)


def _type_error(path: KeyPath, cls: type, other: Any) -> Callable[[str], ValueError]:
    hint = (
        "None is a node without leaves, not a leaf: to keep it as one, pass "
        "is_leaf=lambda x: x is None."
        if cls is NoneType
        else "Give both trees the same containers there."
    )
    return _error(
        "different types",
        path,
        f"a subtree of type\n    {cls}\nbut at the same key path the full pytree has a subtree of "
        f"different type\n    {'a leaf' if other is None else other}.\n{hint}",
    )


def _metadata_error(
    path: KeyPath, cls: type, data: Any, full_data: Any
) -> Callable[[str], ValueError]:
    lines = difflib.ndiff(str(data).splitlines(), str(full_data).splitlines())
    difference = textwrap.indent("\n".join(lines), "    ")
    return _error(
        "different pytree metadata",
        path,
        f"a subtree of type\n    {cls}\nwith metadata\n    {data}\nbut at the same key path the "
        f"full pytree has a subtree of the same type but with metadata\n    {full_data}\nso the "
        f"diff in the metadata at these pytree nodes is\n{difference}\n"
        "Fix: the keys or static fields must be equal.",
    )


def _length_error(path: KeyPath, cls: type, pairs: Any, full_pairs: Any) -> Any:
    if cls in (tuple, list):
        return _error(
            f"different lengths of {cls.__name__}",
            path,
            f"a subtree of type {cls.__name__} of length {len(pairs)}, but the full pytree has a "
            f"subtree of the same type but of length {len(full_pairs)}.\nMake the lengths equal, "
            f"or put one leaf in the place of the {cls.__name__} where a prefix is allowed.",
        )
    mine = [keystr((k,), simple=True) for k, _ in pairs]
    other = [keystr((k,), simple=True) for k, _ in full_pairs]
    only = sorted(set(mine) ^ set(other))
    return _error(
        "different numbers of pytree children",
        path,
        f"a subtree of type\n    {cls}\nwith {len(mine)} child keys\n    {' '.join(mine)}\nbut at "
        "the same key path the full pytree has a subtree of the same type but with "
        f"{len(other)} child keys\n    {' '.join(other)}\nso the symmetric difference on key sets "
        f"is\n    {' '.join(only)}",
    )


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Every place where two trees' structures differ.

    Yields `(key path, thing in tree1, thing in tree2, explanation)`, to be put into a sentence.
    """
    yield from _equality_errors((), tree1, tree2, is_leaf)


def equality_errors_pytreedef(
    treedef1: PyTreeDef, treedef2: PyTreeDef
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """`equality_errors` on structures."""
    yield from equality_errors(
        treedef1.unflatten([0] * treedef1.num_leaves), treedef2.unflatten([0] * treedef2.num_leaves)
    )


def _equality_errors(
    path: KeyPath, tree1: Any, tree2: Any, is_leaf: IsLeaf
) -> Iterator[tuple[KeyPath, str, str, str]]:
    def level(tree: Any) -> Any:
        if is_leaf is not None and _says_leaf(is_leaf(tree)):
            return None
        return one_level_with_keys(tree)

    a, b = level(tree1), level(tree2)
    if a is None and b is None:
        return
    if a is None or b is None or a[0] is not b[0]:
        one = "a pytree leaf" if a is None else f"a {a[0]}"
        two = "a pytree leaf" if b is None else f"a {b[0]}"
        yield path, one, two, "their Python types differ"
        return
    cls, data1, pairs1 = a
    _, data2, pairs2 = b
    if len(pairs1) != len(pairs2):
        counts = (f"{n} {'child' if n == 1 else 'children'}" for n in map(len, (pairs1, pairs2)))
        one, two = (f"a {cls} with {count}" for count in counts)
        yield (
            path,
            one,
            two,
            "the numbers of children do not match" + _other_keys(cls, data1, data2),
        )
        return
    if not _same_data(data1, data2, cls):
        one, two = (f"a {cls} with pytree metadata {data!r}" for data in (data1, data2))
        yield path, one, two, "the pytree node metadata does not match"
        return
    for (key, x), (_, y) in zip(pairs1, pairs2, strict=True):
        yield from _equality_errors((*path, key), x, y, is_leaf)


def _other_keys(cls: type, data1: Any, data2: Any) -> str:
    """The keys that only one of two dictionaries has."""
    if not issubclass(cls, dict):
        return ""
    other = set(data1) ^ set(data2)
    return f", with the symmetric difference of key sets: {other}"


__all__ = [
    "broadcast_prefix",
    "equality_errors",
    "equality_errors_pytreedef",
    "flatten_axes",
    "flatten_raw",
    "flatten_up_to",
    "one_level",
    "prefix_errors",
    "raise_prefix_error",
]
