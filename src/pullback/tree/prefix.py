"""Prefixes: broadcasting one tree over another, and saying exactly where two trees differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

from pullback.tree.engine import (
    Node,
    PyTreeDef,
    _same_data,
    _says_leaf,
    count_leaves,
    flatten,
    flatten_leaves,
    flatten_raw,
    flatten_up_to,
    one_level,
    one_level_with_keys,
)
from pullback.tree.keys import KeyPath, keystr

IsLeaf = Callable[[Any], bool] | None


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """One value per leaf of `full_tree`: the leaf of `prefix_tree` that stands above it.

    ValueError when `prefix_tree` is not a prefix. `is_leaf` applies to both trees.
    Example: ``broadcast_prefix((1, 2), (10, [20, 30]))`` is ``[1, 2, 2]``.
    """
    leaves, treedef = flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except ValueError as err:
        raise_prefix_error(prefix_tree, full_tree, is_leaf, "broadcast_prefix prefix_tree", err)
    out: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        out += [leaf] * len(flatten_leaves(subtree, is_leaf))
    return out


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any) -> list[Any]:
    """`axis_tree` (in_axes, out_axes, a sharding tree...) as one entry per leaf of `treedef`.

    None is an entry like any other here, not an empty node. ValueError, naming `name`, the key path
    and both structures, when `axis_tree` is not a prefix.
    """
    out: list[Any] = []
    _spread(name, (), axis_tree, treedef, treedef.node, out)
    return out


def _spread(
    name: str, path: KeyPath, axes: Any, treedef: PyTreeDef, node: Node, out: list[Any]
) -> None:
    level = None if axes is None else one_level_with_keys(axes)
    if level is None:
        out += [axes] * count_leaves(node)
        return
    cls, data, pairs = level
    where = f"{name}{keystr(path)}"
    fix = (
        f"Each leaf of {name} stands for the whole subtree at its place, so {name} must be one "
        f"value or follow the structure of the values from the root: {treedef}."
    )
    if node is None or node[0] is not cls:
        got = "a leaf" if node is None else "None" if node[0] is NoneType else node[0].__name__
        raise ValueError(
            f"{name} is not a tree prefix of the corresponding values: at {where} it has "
            f"a {cls.__name__} ({axes!r}), where the values have {got}. {fix}"
        )
    same = len(pairs) == len(node[2]) and _same_data(data, node[1], cls)
    if not same:
        raise ValueError(
            f"{name} is not a tree prefix of the corresponding values: at {where} it has "
            f"a {cls.__name__} with {_contents(cls, data, len(pairs))}, where the values have "
            f"{_contents(cls, node[1], len(node[2]))}. {fix}"
        )
    for (key, child), kid in zip(pairs, node[2], strict=True):
        _spread(name, (*path, key), child, treedef, kid, out)


def _contents(cls: type, data: Any, count: int) -> str:
    if cls is dict:
        return f"keys {list(data)}"
    size = f"{count} element" + ("" if count == 1 else "s")
    return size if data is None else f"{size} and static data {data!r}"


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
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _error(kind: str, path: KeyPath, detail: str) -> Callable[[str], ValueError]:
    def make(name: str) -> ValueError:
        return ValueError(
            f"pytree structure error: {kind} at key path\n    {name}{keystr(path)}\n{detail}"
        )

    return make


def _prefix_errors(
    path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf
) -> Iterator[Callable[[str], ValueError]]:
    if is_leaf is not None and _says_leaf(is_leaf(prefix)):
        return
    expected = one_level_with_keys(prefix)
    if expected is None:
        return
    cls, data, pairs = expected
    if type(full) is not cls:
        hint = (
            "\nNone is a node without leaves, not a leaf: to keep it as one, pass "
            "is_leaf=lambda x: x is None."
            if prefix is None
            else "\nGive both trees the same containers there."
        )
        yield _error(
            "different types",
            path,
            f"There the prefix tree has\n    {cls}\nbut the full tree has\n    {type(full)}.{hint}",
        )
        return
    found = one_level_with_keys(full)
    assert found is not None
    _, full_data, full_pairs = found
    if len(pairs) != len(full_pairs):
        yield _length_error(path, cls, pairs, full_pairs)
        return
    same = _same_data(data, full_data, cls)
    if not same:
        yield _error(
            "different pytree metadata",
            path,
            f"Both trees have\n    {cls}\nthere, the prefix tree with static data\n    {data!r}\n"
            f"but the full tree with\n    {full_data!r}\nFix: the keys or static fields must be "
            "equal.",
        )
        return
    for (key, child), (_, full_child) in zip(pairs, full_pairs, strict=True):
        yield from _prefix_errors((*path, key), child, full_child, is_leaf)


def _length_error(path: KeyPath, cls: type, pairs: Any, full_pairs: Any) -> Any:
    if cls in (tuple, list):
        return _error(
            f"different lengths of {cls.__name__}",
            path,
            f"There the prefix tree has a {cls.__name__} of length {len(pairs)}, but the full tree "
            f"has a {cls.__name__} of length {len(full_pairs)}. Make the lengths equal, or put one "
            f"leaf in the place of the {cls.__name__} where a prefix is allowed.",
        )
    mine = [keystr((k,), simple=True) for k, _ in pairs]
    other = [keystr((k,), simple=True) for k, _ in full_pairs]
    only = [k for k in mine if k not in other], [k for k in other if k not in mine]
    return _error(
        "different numbers of pytree children",
        path,
        f"Both trees have\n    {cls}\nthere, the prefix tree with {len(mine)} children\n"
        f"    {' '.join(mine)}\nbut the full tree with {len(other)} children\n"
        f"    {' '.join(other)}\nOnly in the prefix tree: {' '.join(only[0]) or 'none'}; only in "
        f"the full tree: {' '.join(only[1]) or 'none'}.",
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
