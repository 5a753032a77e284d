"""Functions over whole trees: map, reduce, transpose, broadcast. Public names: `pullback.tree`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pullback.tree import engine
from pullback.tree.engine import PyTreeDef, flatten, flatten_leaves, flatten_raw, flatten_with_path
from pullback.tree.keys import KeyPath
from pullback.tree.prefix import broadcast_prefix, raise_prefix_error
from pullback.tree.registry import one_level

IsLeaf = Callable[[Any], bool] | None


class Unspecified:
    """The default of an argument for which None is a value."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED = Unspecified()


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of `tree`, in order, and its structure.

    `is_leaf(node)` may stop the descent at a node. Raises ValueError for a dict whose keys cannot
    be sorted.

    >>> tree.flatten({"b": 2, "a": [1, None]})
    ([1, 2], PyTreeDef({'a': [*, None], 'b': *}))
    """
    return flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of structure `treedef` with these leaves; ValueError when their number differs.

    >>> leaves, structure = tree.flatten({"a": 1, "b": (2, 3)})
    >>> tree.unflatten(structure, [10, 20, 30])
    {'a': 10, 'b': (20, 30)}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree`, in order. None and empty containers have none.

    `is_leaf(x)`: whether `x` is taken for a leaf.

    >>> tree.leaves([1, (2, None)])
    [1, 2]
    """
    return flatten_leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of `tree`: hashable and comparable.

    `is_leaf(x)`: whether `x` is taken for a leaf.

    >>> tree.structure([1, {"a": 2}])
    PyTreeDef([*, {'a': *}])
    """
    return flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` over the leaves: `f(leaf, *subtrees of rest at the same place)`.

    Each tree of `rest` must have `tree` as a prefix, else ValueError naming the key path.

    `is_leaf(x)`: whether `x` is taken for a leaf.

    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    if is_leaf is None:
        leaves, node = flatten_raw(tree)
    else:
        leaves, treedef = flatten(tree, is_leaf)
        node = treedef.node
    if not rest:
        return engine.unflatten_raw(node, [f(x) for x in leaves])
    columns = [leaves]
    for other in rest:
        columns.append(_matching(node, tree, other, is_leaf, "tree_map tree"))
    return engine.unflatten_raw(node, list(map(f, *columns)))


def _matching(node: Any, tree: Any, other: Any, is_leaf: Any, name: str) -> list[Any]:
    try:
        return engine.flatten_up_to(node, other)
    except ValueError as err:
        return raise_prefix_error(tree, other, is_leaf, name, err)  # type: ignore[no-any-return]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """`(key path, leaf)` pairs, in order, and the structure.

    With `is_leaf_takes_path`, the predicate is called as ``is_leaf(path, node)``.

    >>> pairs, structure = tree.flatten_with_path({"a": 1, "b": [2]})
    >>> [(pb.tree_util.keystr(path), leaf) for path, leaf in pairs]
    [("['a']", 1), ("['b'][0]", 2)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """`(key path, leaf)` pairs, in order.

    >>> tree.leaves_with_path({"a": 1})
    [((DictKey(key='a'),), 1)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """`tree_map` whose `f` takes the leaf's key path first.

    >>> tree.map_with_path(lambda path, x: f"{path[0].key}={x}", {"a": 1, "b": 2})
    {'a': 'a=1', 'b': 'b=2'}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns: list[list[Any]] = [[p for p, _ in pairs], [x for _, x in pairs]]
    plain = None if is_leaf_takes_path else is_leaf
    for other in rest:
        columns.append(_matching(treedef.node, tree, other, plain, "tree_map_with_path tree"))
    return treedef.unflatten(list(map(f, *columns)))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """A tree of `inner`-shaped trees turned into an `inner`-shaped tree of trees.

    Leaves are taken in order: the tree may have other containers than outer-of-inner, but TypeError
    when it has another number of leaves.

    >>> outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    >>> tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    leaves, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not subtrees:
            raise ValueError(
                "tree_transpose: inner_treedef cannot be inferred from an outer tree without "
                "leaves; pass it explicitly"
            )
        inner_treedef = flatten(subtrees[0])[1]
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    expected = outer_treedef.compose(inner_treedef)
    if treedef.num_leaves != expected.num_leaves:
        raise TypeError(f"Mismatch\n{treedef}\n != \n{expected}")
    if inner and not outer:
        # There is no leaf to place: say it as unflatten would.
        raise ValueError(f"Too few leaves for PyTreeDef; expected {inner}, got 0")
    columns = [outer_treedef.unflatten(leaves[i::inner]) for i in range(inner)]
    return inner_treedef.unflatten(columns)


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Left fold over the leaves; TypeError without leaves and initializer.

    `is_leaf(x)`: whether `x` is taken for a leaf.

    >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]}, 0)
    6
    """
    leaves = flatten_leaves(tree, is_leaf)
    if isinstance(initializer, Unspecified):
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Balanced fold over the leaves: half with half, recursively, so the depth is logarithmic.

    `identity` is the value for a tree without leaves; TypeError when there is neither.

    >>> tree.reduce_associative(lambda x, y: x + y, [1, 2, 3, 4], identity=0)
    10
    """
    leaves = flatten_leaves(tree, is_leaf)
    if not leaves:
        if isinstance(identity, Unspecified):
            raise TypeError("Must specify identity for parallel reduction of empty sequence.")
        return identity
    return _fold(operation, leaves, 0, len(leaves))


def _fold(operation: Callable[[Any, Any], Any], leaves: list[Any], lo: int, hi: int) -> Any:
    if hi - lo == 1:
        return leaves[lo]
    middle = lo + (hi - lo) // 2
    return operation(_fold(operation, leaves, lo, middle), _fold(operation, leaves, middle, hi))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true.

    >>> tree.all([True, {"a": 1}]), tree.all([True, 0])
    (True, False)
    """
    return builtins.all(flatten_leaves(tree, is_leaf))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`full_tree`'s structure, each leaf replaced by the prefix's leaf above it.

    ValueError when `prefix_tree` is not a prefix. `is_leaf` says what is a leaf of it.

    >>> tree.broadcast((1, 2), (10, [20, 30]))
    (1, [2, 2])
    """
    values = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return flatten(full_tree)[1].unflatten(values)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple with these structures as its children.

    >>> pb.tree_util.treedef_tuple([tree.structure([0]), tree.structure(0)])
    PyTreeDef(([*], *))
    """
    return engine.make_treedef((tuple, None), treedefs)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children.

    >>> pb.tree_util.treedef_children(tree.structure([0, (1, 2)]))
    [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is one node: a leaf, or None or an empty container.

    >>> structure = tree.structure([0, None])
    >>> [pb.tree_util.treedef_is_leaf(s) for s in pb.tree_util.treedef_children(structure)]
    [True, True]
    >>> pb.tree_util.treedef_is_leaf(structure)
    False
    """
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is exactly one leaf."""
    return treedef.node is None


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every element of `iterable` is a leaf (None and containers are not).

    >>> pb.tree_util.all_leaves([1, "a"]), pb.tree_util.all_leaves([1, [2]])
    (True, False)
    """
    if is_leaf is None:
        # A dict is no leaf even if its keys have no order.
        return builtins.all(type(x) is not dict and one_level(x) is None for x in iterable)
    items = list(iterable)
    leaves = flatten_leaves(items, is_leaf=lambda x: x is not items and is_leaf(x))
    return len(leaves) == len(items) and builtins.all(map(lambda a, b: a is b, leaves, items))


def build_tree(treedef: PyTreeDef, xs: Any) -> Any:
    """`treedef`'s tree from nested iterables, one per node, in the place of its containers."""
    return treedef.from_iterable_tree(xs)


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """Children and static data of the root node; ValueError for a leaf.

    >>> children, static = pb.tree_util.flatten_one_level({"a": [1, 2], "b": 3})
    >>> list(children)
    [[1, 2], 3]
    """
    out = engine.default_registry.flatten_one_level(tree)
    if out is None:
        raise ValueError(
            f"flatten_one_level: can't tree-flatten type: {type(tree)}, which is a leaf"
        )
    return out


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """(key, child) pairs and static data of the root node; ValueError for a leaf.

    >>> pairs, static = pb.tree_util.flatten_one_level_with_keys({"a": [1, 2]})
    >>> list(pairs)
    [(DictKey(key='a'), [1, 2])]
    """
    out = engine.default_registry.flatten_one_level_with_keys(tree)
    if out is None:
        raise ValueError(
            f"flatten_one_level_with_keys: can't tree-flatten type: {type(tree)}, which is a leaf"
        )
    return out


def is_tree_node(typ: type) -> bool:
    """Whether instances of `typ` are interior nodes.

    >>> pb.tree_util.is_tree_node(dict), pb.tree_util.is_tree_node(int)
    (True, False)
    """
    return engine.default_registry.is_node(typ)
