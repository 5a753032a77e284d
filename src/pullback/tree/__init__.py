"""Functions on pytrees: nested containers whose leaves are arrays or other values.

Nodes are None (no leaves), tuples, lists, dicts (in key order), named tuples, OrderedDicts,
defaultdicts, and registered classes (`pullback.tree_util`); everything else is a leaf.
"""

from pullback.tree.keys import keystr as keystr
from pullback.tree.operations import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path,
    tree_map as map,
    tree_map as tree_map,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_structure as structure,
    tree_transpose as transpose,
    tree_unflatten as unflatten,
    treedef_children as treedef_children,
    treedef_is_leaf as treedef_is_leaf,
    treedef_tuple as treedef_tuple,
)
from pullback.tree.prefix import (
    broadcast_prefix as broadcast_prefix,
    equality_errors as equality_errors,
    flatten_axes as flatten_axes,
)
from pullback.tree.registration import (
    Partial as Partial,
    register_pytree_node as register_pytree_node,
    static as static,
)

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
